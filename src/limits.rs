//! Budgets that must fit into each other, and limits that several parts share. What one part alone needs stands beside
//! its use.
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

/// Below this no write would ever be begun: see `STEP_MINIMUM`.
pub const REQUEST_TIMEOUT_MINIMUM: Duration = Duration::from_secs(2);

/// A write is not begun with less time left than this: its answer could not be awaited.
pub const STEP_MINIMUM: Duration = Duration::from_millis(1500);

/// The largest body read from ExternalDNS; its own limit for our answers is the same.
pub const REQUEST_BODY_MAX_BYTES: u64 = 32 * 1024 * 1024;

/// What all requests together may keep of their bodies, with what is made of it. The other 8 of the 32 MiB that a container
/// may have are for the program, what Cloudflare answers, and what is read of it. One request may have 20 MiB: 15,000
/// hostnames to adjust, or 5,000 to publish at once, with ExternalDNS's TXT records.
pub const BODIES_MAX_BYTES: usize = 24 * 1024 * 1024;

/// Of that, for requests that take up to a quarter of it: 800 hostnames to adjust, 300 to publish.
pub const BODIES_RESERVE_BYTES: usize = 4 * 1024 * 1024;

/// How long a request waits for its part of `BODIES_MAX_BYTES`. It has to be answered in `REQUEST_TIMEOUT`.
pub const BODY_PATIENCE: Duration = Duration::from_secs(5);

/// An endpoint whose JSON is longer is not held: texts of `ENDPOINT_MAX_BYTES` take less, whatever is escaped in them.
pub const ELEMENT_MAX_BYTES: usize = 128 * 1024;

/// How long a request waits, once everything else is done, for the connectors of tunnels that hostnames move to. They
/// apply a configuration within half a second as a rule; the request has to answer in `REQUEST_TIMEOUT`.
pub const MOVE_WAIT: Duration = Duration::from_secs(4);

/// How long one such look may take. Connectors are asked for one tunnel after the other.
pub const MOVE_LOOK_TIMEOUT: Duration = Duration::from_secs(2);

/// The pause after the first look at these connectors. It doubles, which makes six looks of `MOVE_WAIT`.
pub const MOVE_LOOK_PAUSE: Duration = Duration::from_millis(125);

/// How long a request waits for the list to be read again, where there is an old one. Most of its time is for the records.
pub const ZONE_LIST_TIMEOUT: Duration = Duration::from_secs(3);

/// Zones and tunnels read side by side. A hundred zones at 0.9 s a page take 8 s of the 12 s that a request has; with
/// four at once it would be 23 s. Of their answers, `ANSWERS_HELD_MAX` are in memory.
pub const PARALLEL_READS: usize = 12;

/// How long, while a refused document is narrowed down, the next trial goes by the document that the last one met. In
/// this time somebody else's write would be lost, and told; a GET and a PUT of their own may take as long.
pub const DOCUMENT_REUSE_MAX: Duration = Duration::from_secs(1);

/// What Cloudflare refused is tried again after this time at first; the time doubles up to `REJECTION_PAUSE_MAX`.
pub const REJECTION_PAUSE_MIN: Duration = Duration::from_secs(600);

/// The longest time for which something refused is not tried again.
pub const REJECTION_PAUSE_MAX: Duration = Duration::from_secs(3600);

/// Objects that ExternalDNS merges are shown in turns; each counts for this long after it was shown last. By then one of
/// two has been shown among ten loops of a minute, but for one time in a thousand.
pub const MERGED_HELD: Duration = Duration::from_secs(600);

// Cloudflare's API.
//
// ```text
// |---------------------- CALL_TIMEOUT, 10 s, or what is left of the deadline ----------------------|
// | resolve 3 s | connect, TLS 4 s | send 4 s + 4 s | head of the answer 8 s | body 8 s              |
// ```

/// One call, from the name lookup to the last byte of the answer. Leaves a second try room in most deadlines.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// A call is not begun with less time left: a handshake alone takes longer.
pub const CALL_MINIMUM: Duration = Duration::from_millis(100);

/// Looking up the API's name. In an image without /etc/resolv.conf musl asks a server that is not there.
pub const RESOLVE_TIMEOUT: Duration = Duration::from_secs(3);

/// Looking up a name whose old addresses may be used. A lookup that does not answer by then will not, as a rule, in the
/// three seconds that a request would lose.
pub const RESOLVE_PATIENCE: Duration = Duration::from_secs(1);

/// Addresses that are tried for one connection: two of each family, where both exist.
pub const ADDRESSES_MAX: usize = 4;

/// How long one address may take to answer while others are left: a way around the world takes a third, and with
/// `ADDRESSES_MAX` of them the last one has a second too.
pub const ADDRESS_PATIENCE: Duration = Duration::from_secs(1);

/// TCP, a proxy's CONNECT and the TLS handshake together; shared by the addresses that are tried.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);

/// Handing the head of a request to the kernel, and again its body.
pub const SEND_TIMEOUT: Duration = Duration::from_secs(4);

/// From the request's last byte to the end of the answer's head. A large batch takes seconds.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(8);

/// Receiving the body of an answer, two megabytes for a page of 5,000 records.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(8);

/// The largest answer taken from Cloudflare, after decompression. A page of 5,000 records is 2 MB, and 4 MB where every
/// record has a comment of the longest kind or a key in it; `ANSWERS_HELD_MAX` of these fit into a container's 32 MiB.
pub const ANSWER_MAX_BYTES: u64 = 12 * 1024 * 1024;

/// Large answers in memory at once, from their bytes to what is parsed of them. The time of a read is waiting for the
/// answer to begin, and a page of 5,000 records is 2 MB. Twelve zones of such pages take 24 MiB at the highest, and with a seat
/// for each 46 of the 32 MiB that a container may have.
pub const ANSWERS_HELD_MAX: usize = 2;

/// Idle connections are kept for the next loop: ExternalDNS's default interval is 60 s.
pub const CONNECTION_MAX_IDLE: Duration = Duration::from_secs(90);

/// A write takes a connection used this recently or a fresh one. One that the server closes for idleness as the request
/// arrives would leave the write without an answer.
pub const WRITE_CONNECTION_MAX_IDLE: Duration = Duration::from_secs(5);

/// After a write that was lost with its connection, writes open connections of their own for this long: what has closed
/// one early will close the next. A handshake for each write is little.
pub const WRITE_FRESH_PERIOD: Duration = Duration::from_secs(600);

/// Zones a page; the API takes no more.
pub const ZONES_PER_PAGE: u32 = 50;

/// Records a page; the largest that Cloudflare documents.
pub const RECORDS_PER_PAGE: u32 = 5_000;

/// Pages of one list, a million records: a server that never ends a list must not fill the memory.
pub const PAGES_MAX: u32 = 200;

/// Calls in `RATE_WINDOW` that Cloudflare grants a user, the dashboard and all tokens together.
pub const RATE_CALLS: usize = 1_200;

/// Of `RATE_CALLS`, left to the dashboard and other programs: who oversteps is blocked for five minutes.
pub const RATE_RESERVE: usize = 100;

/// The time over which Cloudflare counts calls.
pub const RATE_WINDOW: Duration = Duration::from_secs(300);

/// A longer time named by Cloudflare, or by something on the way, is cut to this: its own block lasts five minutes.
pub const RATE_LIMIT_PAUSE_MAX: Duration = Duration::from_secs(600);

/// A text from outside in an error is cut to this many characters. cloudflared's validation names a rule and a URL.
pub const ERROR_TEXT_MAX_CHARS: usize = 400;

/// Causes shown of one error.
pub const ERROR_CHAIN_MAX_CAUSES: usize = 8;

// Listeners.

/// Requests of the API port worked on at once. ExternalDNS never has two in flight; the rest is room for clients
/// that hold a worker by sending a body slowly or never.
pub const API_WORKERS_MAX: usize = 16;

/// The stack of threads that only hand requests on, serve the observation port, or write log lines.
pub const LISTENER_STACK_BYTES: usize = 128 * 1024;

/// How often the API's listening sockets are checked to be there: tiny_http loses them without a word when it
/// runs out of file descriptors at the wrong moment. The check also frees a connection that tiny_http left waiting
/// in a burst; 2 s and the 12 s of a request are less than ExternalDNS's 15 s.
pub const LISTENER_CHECK_PERIOD: Duration = Duration::from_secs(2);

/// Requests too large to be dropped, each of which costs a thread and two file descriptors for good, before the
/// process ends in order to be started afresh.
pub const ABANDONED_REQUESTS_MAX: usize = 64;

/// How long a request's head may take to arrive at the observation port.
pub const OBSERVE_HEAD_TIMEOUT: Duration = Duration::from_secs(5);

// What a hostname and a path expression may be.

/// A path expression longer than this is a mistake, and would make every loop's comparison slow.
pub const PATH_MAX_BYTES: usize = 1_024;

/// Of a longer property no known name is looked for: the search takes time with its length, and a DNSEndpoint may hold a
/// megabyte.
pub const PROPERTY_NAME_MAX_BYTES: usize = 64;

/// Unknown properties of one rule that are compared with the known ones; with more, its endpoint is invalid.
pub const UNKNOWN_PROPERTIES_MAX: usize = 16;

/// The texts of one endpoint together. An Ingress may carry 256 KiB of annotations, and each of its hostnames has them all.
pub const ENDPOINT_MAX_BYTES: usize = 16 * 1024;

/// Properties that hold for one rule. There are 25.
pub const ENDPOINT_PROPERTIES_MAX: usize = 64;

/// Rules that one object publishes on one hostname: each takes all properties that are said for all of them.
pub const ENDPOINT_GROUPS_MAX: usize = 64;

/// Notes about endpoints in one answer of adjust; whoever reads the first will find the others.
pub const NOTES_MAX: usize = 200;

/// What is said of one invalid endpoint, in characters. It goes to ExternalDNS and back.
pub const PROBLEM_MAX_CHARS: usize = 1_000;

/// With less time left, endpoints are not looked at any more: the answer has to be written and sent. Less than
/// `REQUEST_TIMEOUT_MINIMUM`, or none would ever be.
pub const ADJUST_RESERVE: Duration = Duration::from_millis(500);

/// So many hostnames may go in one request whatever their share; above, more than half of all is too much. The upgrades of
/// ExternalDNS that emptied people's zones met instances with 6 to 13 hostnames.
pub const MASS_DELETION_LIMIT_DEFAULT: usize = 5;

// The look at the tunnels' connectors, beside all requests.

/// The first look: cloudflared, started together with this program, should be connected by then.
pub const CONNECTORS_FIRST_LOOK: Duration = Duration::from_secs(30);

/// From one look to the next, where nothing is written.
pub const CONNECTORS_PERIOD: Duration = Duration::from_secs(300);

/// The looks after each write of a tunnel's configuration, until every connector has applied it. A connector takes it within
/// seconds: one that has not at both looks will not.
pub const CONNECTORS_AFTER_WRITE: [Duration; 2] = [Duration::from_secs(15), Duration::from_secs(45)];

/// Between two looks at one tunnel, however often it is written.
pub const CONNECTORS_PAUSE: Duration = Duration::from_secs(15);

/// One tunnel's connectors, with all repetitions: nobody waits for them.
pub const CONNECTORS_TIMEOUT: Duration = Duration::from_secs(5);

/// With fewer calls left than this there is no look: they are for ExternalDNS's requests.
pub const CONNECTORS_CALLS_LEFT_MIN: u32 = 200;

// What runs beside requests: log lines, credentials that change, and readiness.

/// A log message is cut to this many characters: container runtimes cut lines of more than 16 KiB in pieces, and a line in
/// JSON holds much of it twice.
pub const LOG_MESSAGE_MAX_CHARS: usize = 4_096;

/// How long the end waits for log lines to be read. Where somebody reads, they are gone within milliseconds.
pub const LOG_FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// What may stand in the file of the credentials. A token has 40 to 60 bytes.
pub const CREDENTIAL_FILE_MAX_BYTES: u64 = 4 * 1024;

// The commands beside `serve`.

/// All calls of `check` or `list`: a person waits, and an account may have a hundred zones.
pub const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// The whole of `healthcheck`. Container runtimes give up after a few seconds, and loopback answers at once.
pub const HEALTHCHECK_TIMEOUT: Duration = Duration::from_millis(1500);

/// Names listed in one message; more would hide what it says.
pub const NAMES_SHOWN_MAX: usize = 8;
