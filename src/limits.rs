//! Every time budget and size cap of the program, with its reason.
//!
//! How the time budgets nest while ExternalDNS waits for `POST /records`:
//!
//! ```text
//! |-------------------------- 15 s: ExternalDNS gives up, and exits --------------------------|
//! |---------------- REQUEST_TIMEOUT, 12 s: the answer is on its way -----------------|
//! |  read zones and tunnel  | PUT | batches ... | GET | PUT |   slack: STEP_MINIMUM   |
//! |  |-- one call, 10 s --| |
//! |  |-connect 4 s-|        |
//! ```

use std::time::Duration;

/// How long a request of ExternalDNS may take. Its client gives up after 15 s and then exits.
pub const REQUEST_TIMEOUT_DEFAULT: Duration = Duration::from_secs(12);

/// No request may take as long as ExternalDNS's own limit of 15 s.
pub const REQUEST_TIMEOUT_MAXIMUM: Duration = Duration::from_secs(14);

/// Below this a first answer of Cloudflare does not fit.
pub const REQUEST_TIMEOUT_MINIMUM: Duration = Duration::from_secs(1);

/// A write is not begun with less time left than this: its answer could not be awaited.
pub const STEP_MINIMUM: Duration = Duration::from_millis(1500);

/// The largest body read from ExternalDNS; its own limit for our answers is the same.
pub const REQUEST_BODY_MAX_BYTES: u64 = 32 * 1024 * 1024;

/// A snapshot younger than this may decide that there is nothing to write.
pub const SNAPSHOT_MAX_AGE: Duration = Duration::from_secs(30);

/// The list of zones is read again when a name fits none, at most this often.
pub const ZONE_LIST_MAX_AGE: Duration = Duration::from_secs(600);

/// Zones read side by side. Four hide the latency; more would only crowd one client address.
pub const PARALLEL_READS: usize = 4;

/// What a comment may hold on a Free zone, in bytes; paid zones take `COMMENT_MAX_BYTES_PAID`.
pub const COMMENT_MAX_BYTES_FREE: usize = 100;

/// What a comment may hold on a paid zone, in bytes.
pub const COMMENT_MAX_BYTES_PAID: usize = 500;

/// An owner id longer than this, percent-encoded, would leave too little room for digests.
pub const OWNER_ID_MAX_BYTES: usize = 40;

/// Operations in one batch on a Free zone.
pub const BATCH_MAX_OPERATIONS_FREE: usize = 200;

/// Operations in one batch on a paid zone.
pub const BATCH_MAX_OPERATIONS_PAID: usize = 3_500;

// What a hostname and a path expression may be.

/// A hostname's length in DNS, in its text form without the trailing dot.
pub const HOSTNAME_MAX_BYTES: usize = 253;

/// The length of one label of a hostname.
pub const LABEL_MAX_BYTES: usize = 63;

/// A path expression longer than this is a mistake, and would make every loop's comparison slow.
pub const PATH_MAX_BYTES: usize = 1_024;

/// How deep groups of a path expression may nest.
pub const PATH_MAX_DEPTH: u32 = 20;

/// What a path expression may take compiled: repetitions of repetitions grow fast, in cloudflared as here.
pub const PATH_COMPILED_MAX_BYTES: usize = 1024 * 1024;

/// How often one part of a path expression may be repeated by a count: Go's own limit.
pub const PATH_REPEAT_MAX: u32 = 1_000;
