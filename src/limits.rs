//! Budgets that must fit into each other, and limits that several parts or the tests of the program share.
//!
//! While ExternalDNS waits for `POST /records`, the time budgets nest like this. The slack is `WRITE_TIME_MIN`.
//!
//! ```text
//! |-------------------------- 15 s: ExternalDNS gives up, and exits --------------------------|
//! |---------------- REQUEST_TIMEOUT, 12 s: the answer is on its way -----------------|
//! | read zones and tunnels | batches | GET, PUT (rules) | batches | slack |
//! | |-- one call, 10 s --| |
//! | |-connect 4 s-|        |
//! ```

use std::time::Duration;

/// The time for a request of ExternalDNS, which gives up after 15 s and then exits.
pub const REQUEST_TIMEOUT_DEFAULT: Duration = Duration::from_secs(12);

/// A request must take less than ExternalDNS's own limit of 15 s.
pub const REQUEST_TIMEOUT_MAX: Duration = Duration::from_secs(14);

/// With less time no write would ever begin: see `WRITE_TIME_MIN`.
pub const REQUEST_TIMEOUT_MIN: Duration = Duration::from_secs(2);

/// A step of a plan does not begin with less time left, because its answer could not be awaited.
pub const WRITE_TIME_MIN: Duration = Duration::from_millis(1500);

// Bodies of requests, in a container of 64 MiB. Only one large body is in memory at a time. The body and the endpoints
// kept from it are 36 MiB at most; the answer is written into the body's memory. A body of nothing but brackets takes
// twice its size until it is refused.

/// The largest body read from ExternalDNS. One object with 256 KiB of annotations on a hundred hostnames makes a body
/// of this size, and must not keep other objects from being served.
pub const REQUEST_BODY_MAX_BYTES: usize = 28 * 1024 * 1024;

/// Only one larger body is in memory at a time. A body of some 1,000 hostnames has this size.
pub const SMALL_BODY_MAX_BYTES: usize = 256 * 1024;

/// A body and the endpoints kept from it, while both are in memory: room for some 25,000 hostnames to adjust, or for
/// 10,000 to publish at once, with ExternalDNS's TXT records.
pub const REQUEST_MEMORY_MAX_BYTES: usize = 36 * 1024 * 1024;

/// The largest answer. ExternalDNS reads only 32 MiB, then fails to parse a longer answer, and exits.
pub const WEBHOOK_RESPONSE_MAX_BYTES: usize = 24 * 1024 * 1024;

/// An endpoint with longer JSON is not kept. Texts of `ENDPOINT_MAX_BYTES` fit, even if every character is escaped.
pub const ENDPOINT_JSON_MAX_BYTES: usize = 128 * 1024;

// Requests that write.

/// The time in which a request reads everything about Access, from the first call on. Most of a request's time is for
/// work that does not depend on Access.
pub const ACCESS_TIMEOUT: Duration = Duration::from_secs(4);

/// Hostnames that one request changes. On a twentieth of a core, changing them takes a third of the request's time.
/// Reading ten thousand published hostnames twice takes another third.
pub const CHANGED_HOSTNAMES_MAX: usize = 1_000;

/// Calls in parallel, such as those that read zones and tunnels. A hundred zones at 0.9 s per page take 8 s of a
/// request's 12 s; four at once would take 23 s. `LARGE_RESPONSES_MAX` of their large answers are in memory.
pub const PARALLEL_CALLS: usize = 12;

/// The first pause before refused work is tried again. It doubles up to `REJECTION_PAUSE_MAX`.
pub const REJECTION_PAUSE_MIN: Duration = Duration::from_secs(600);

/// The longest pause before refused work is tried again.
pub const REJECTION_PAUSE_MAX: Duration = Duration::from_secs(3600);

/// A digest without a rule stays in a comment until the record has not changed for this time. Another instance may be
/// about to write the rule: it writes the rule after the comment, within `REQUEST_TIMEOUT_MAX`.
pub const DIGEST_WITHOUT_RULE_MIN_AGE: Duration = Duration::from_secs(60);

// Cloudflare's API.
//
// ```text
// |---------------------- CALL_TIMEOUT, 10 s, or what is left of the deadline ----------------------|
// | resolve 3 s | connect, TLS 4 s | send 4 s + 4 s | head of the answer 8 s | body 8 s              |
// ```

/// One call, from the name lookup to the last byte of the answer. Most deadlines leave room for a second attempt.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// A call does not begin with less time left, because a handshake alone takes longer.
pub const CALL_MIN: Duration = Duration::from_millis(100);

/// A lookup of the API's name. In an image without /etc/resolv.conf, musl asks a server that is not there.
pub const RESOLVE_TIMEOUT: Duration = Duration::from_secs(3);

/// TCP, a proxy's CONNECT and the TLS handshake together, for all addresses that are tried.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);

/// The time to hand the head of a request to the kernel, and then the same time again for its body.
pub const SEND_TIMEOUT: Duration = Duration::from_secs(4);

/// From the request's last byte to the end of the answer's head. A large batch takes seconds.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(8);

/// Receiving the body of an answer: two megabytes for a page of 5,000 records.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(8);

/// The largest answer accepted from Cloudflare, after decompression. A page of 5,000 records is 2 MB, or 4 MB if every
/// record has a comment of the greatest length or a key; `LARGE_RESPONSES_MAX` of these fit into a container's 64 MiB.
pub const API_RESPONSE_MAX_BYTES: u64 = 12 * 1024 * 1024;

/// Large answers in memory at once, each from the end of its first 64 KiB until it is parsed. A read mostly waits for
/// its answer to begin, so few permits are enough. A page of 5,000 records is 2 MB. Reading twelve zones of such pages
/// takes 24 MiB at most; with a permit for each zone, the reads would take 46 MiB.
pub const LARGE_RESPONSES_MAX: usize = 2;

/// Idle connections are kept for the next loop, and ExternalDNS's default interval is 60 s.
pub const CONNECTION_MAX_IDLE: Duration = Duration::from_secs(90);

/// Zones per page; the API allows no more.
pub const ZONES_PER_PAGE: u32 = 50;

/// Records per page; the largest number that Cloudflare documents.
pub const RECORDS_PER_PAGE: u32 = 5_000;

/// Pages of one list: a million records. A server that never ends a list must not fill the memory.
pub const PAGES_MAX: u32 = 200;

/// Calls per `RATE_WINDOW` that Cloudflare grants a user, for the dashboard and all tokens together.
pub const RATE_CALLS: usize = 1_200;

/// The part of `RATE_CALLS` left to the dashboard and other programs, because exceeding the limit blocks for five
/// minutes.
pub const RATE_KEPT_FOR_OTHERS: usize = 100;

/// The calls of a window that are kept for requests that write. Without this reserve, the reads at the beginning of
/// each loop would use up every call that becomes free, and the webhook would never write. The remaining calls
/// suffice to read a hundred zones that change every minute.
pub const RATE_KEPT_FOR_WRITES: usize = 50;

/// The window in which Cloudflare counts calls.
pub const RATE_WINDOW: Duration = Duration::from_secs(300);

/// The length to which foreign text in an error is cut. An error of cloudflared's validation names a rule and a URL.
pub const ERROR_TEXT_MAX_CHARS: usize = 400;

// Listeners.

/// Requests of the API port answered at once. ExternalDNS never has two in flight; the rest is room for clients that
/// hold a worker by sending a body slowly or never.
pub const API_WORKERS: usize = 8;

/// The stack of threads that only pass requests on or serve the metrics port.
pub const LISTENER_STACK_BYTES: usize = 128 * 1024;

/// The time between two checks of the API's listening sockets: tiny_http silently loses them if it runs out of file
/// descriptors at the wrong moment. The check also frees a connection that tiny_http left waiting in a burst; 2 s and
/// the 12 s of a request are less than ExternalDNS's 15 s.
pub const LISTENER_CHECK_PERIOD: Duration = Duration::from_secs(2);

/// The time for a request's head to arrive at the metrics port.
pub const OBSERVE_HEAD_TIMEOUT: Duration = Duration::from_secs(5);

// Limits of hostnames, path expressions and endpoints.

/// The longest path expression. A longer one is a mistake, and would make every loop's comparison slow.
pub const PATH_MAX_BYTES: usize = 1_024;

/// A longer property name is not compared with the known names: comparing takes longer for a longer name, and a
/// DNSEndpoint may hold a megabyte.
pub const PROPERTY_NAME_MAX_BYTES: usize = 64;

/// All texts of one endpoint together. An Ingress may have 256 KiB of annotations, and each of its hostnames gets all
/// of them.
pub const ENDPOINT_MAX_BYTES: usize = 16 * 1024;

/// Properties that apply to one rule. The program knows fewer than 30 names of properties.
pub const ENDPOINT_PROPERTIES_MAX: usize = 64;

/// Rules that one object publishes on one hostname. Each rule copies the properties that apply to all of them.
pub const ENDPOINT_GROUPS_MAX: usize = 64;

/// Paths of one hostname in one object. A comment of 500 bytes has room for some 150 rules, and a DNSEndpoint may hold
/// thousands of endpoints, each of which would be compared with the existing rules.
pub const HOSTNAME_PATHS_MAX: usize = 200;

/// Notes about endpoints in one answer of adjust. Once these endpoints are corrected, the log shows the other notes.
pub const NOTES_MAX: usize = 200;

/// The length of the text about an invalid endpoint. The text is sent to ExternalDNS, which sends it back.
pub const PROBLEM_MAX_CHARS: usize = 1_000;

/// With less time left, no more endpoints are examined, because the answer has to be written and sent. It is less than
/// `REQUEST_TIMEOUT_MIN`, because otherwise no endpoint would ever be examined.
pub const ADJUST_RESERVE: Duration = Duration::from_millis(500);

// Looks at the tunnels' connectors, outside of requests.

/// The time between two looks. A connector applies a version within seconds, so a connector that has not applied
/// it from one look to the next does not keep up.
pub const CONNECTORS_PERIOD: Duration = Duration::from_secs(120);

/// With fewer calls left, the look is left out, because the remaining calls are for ExternalDNS's requests.
pub const CONNECTORS_CALLS_LEFT_MIN: u32 = 200;

/// With fewer calls left, a refused group waits for the next request, and a request writes at most one Access
/// application. A request uses two thirds of the calls above this number for applications. One object can ask for
/// many groups and applications, and loops may come every few seconds. The remaining calls are for all other work.
pub const SHARED_CALLS_LEFT_MIN: u32 = 400;

// Texts for the operator.

/// The length to which the values and the text of a log line are cut together. Container runtimes split lines of more
/// than 16 KiB, and escapes make a line longer.
pub const LOG_MESSAGE_MAX_CHARS: usize = 4_096;

/// Names listed in one message. More names would hide the message itself.
pub const NAMES_SHOWN_MAX: usize = 8;
