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

// ---- Listeners -------------------------------------------------------------------------------------------------

/// Requests of the API port worked on at once. ExternalDNS never has two in flight; the rest is room for clients
/// that hold a worker by sending a body slowly or never.
pub const API_WORKERS_MAX: usize = 16;

/// Idle workers that stay; those above end when they have nothing to do.
pub const API_WORKERS_KEPT: usize = 2;

/// Requests that may wait for a worker before the listener's queue is left to grow.
pub const API_QUEUE_MAX: usize = 64;

/// A worker's stack. The provider's TLS handshakes run on it. Only what is touched becomes resident.
pub const API_WORKER_STACK_BYTES: usize = 1024 * 1024;

/// The stack of threads that only hand requests on or serve the observation port.
pub const LISTENER_STACK_BYTES: usize = 128 * 1024;

/// How long a blocked send on the API port may last before the client is given up.
pub const API_SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// How long sent data may stay unacknowledged, or a window closed, before the kernel ends the connection.
pub const API_UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(30);

/// A silent connection is probed after this long. Above the 90 s for which ExternalDNS keeps an idle connection.
pub const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(120);

/// Time between two probes of a silent connection.
pub const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// Probes that may stay unanswered before a connection is dead.
pub const KEEP_ALIVE_PROBES: u32 = 4;

/// Connections the kernel may hold for a listener that has not accepted them yet.
pub const LISTEN_BACKLOG: i32 = 128;

/// How often the API's listening sockets are checked to be there: tiny_http loses them without a word when it
/// runs out of file descriptors at the wrong moment. The check also frees a connection that tiny_http left waiting
/// in a burst; 2 s and the 12 s of a request are less than ExternalDNS's 15 s.
pub const LISTENER_CHECK_PERIOD: Duration = Duration::from_secs(2);

/// tiny_http allocates what it drains of an unread body in one piece. Up to here that is only address space; above,
/// the allocation may fail, which would abort the process, so such a request is never dropped.
pub const DRAINED_BODY_MAX_BYTES: usize = 256 * 1024 * 1024;

/// Requests too large to be dropped, each of which costs a thread and two file descriptors for good, before the
/// process ends in order to be started afresh.
pub const ABANDONED_REQUESTS_MAX: usize = 64;

/// The largest answer to ExternalDNS: above 32 MiB it stops reading, fails to parse, and exits.
pub const RESPONSE_BODY_MAX_BYTES: usize = 32 * 1024 * 1024;

/// How much of a client's text a log line repeats, in characters.
pub const LOGGED_TEXT_MAX_CHARS: usize = 120;

/// Open connections of the observation port. One more takes the place of the oldest.
pub const OBSERVE_CONNECTIONS_MAX: usize = 64;

/// The head of a request on the observation port. The kubelet and Prometheus send a few hundred bytes.
pub const OBSERVE_HEAD_MAX_BYTES: usize = 4 * 1024;

/// Header fields of a request on the observation port.
pub const OBSERVE_HEADERS_MAX: usize = 64;

/// How long a request's head may take to arrive at the observation port.
pub const OBSERVE_HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the client may take to read its answer from the observation port.
pub const OBSERVE_ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the observation port waits for the client to close first, so that a late byte does not reset the
/// connection and destroy the answer on its way.
pub const OBSERVE_LINGER: Duration = Duration::from_secs(1);

/// How much an observation client may send beyond its head before it is cut off.
pub const OBSERVE_LINGER_MAX_BYTES: usize = 64 * 1024;

/// The shortest and the longest pause between two looks at open connections of the observation port.
pub const OBSERVE_PAUSE_MIN: Duration = Duration::from_micros(500);

/// See [`OBSERVE_PAUSE_MIN`].
pub const OBSERVE_PAUSE_MAX: Duration = Duration::from_millis(20);

/// The pause after a failed accept: descriptors come back, and spinning would not bring them sooner.
pub const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(100);
