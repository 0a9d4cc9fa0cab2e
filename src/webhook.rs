//! Speaks ExternalDNS's webhook protocol: sockets, routes and media types. It knows nothing of Cloudflare.
//!
//! One request, from its first byte to its answer:
//!
//! 1. tiny_http reads the head. An acceptor takes the request and starts its deadline; the pool gives it a worker.
//! 2. [`routes`] decides from the head alone if the request may be served.
//! 3. The [`server`] reads the whole body. A body above 256 KiB needs the one permit first, so that only one large
//!    body and the data made from it are in memory at a time.
//! 4. The handler reads the [`body`] endpoint by endpoint, and writes only if all of the body was well-formed.
//! 5. The answer is sent, and the permit is given back.
//!
//! tiny_http has no time-out for reads. So a stalled client keeps its worker, and perhaps the permit. If another
//! request lacks a worker or the permit because of that, the process ends with the reason after two request times,
//! and is restarted.

use std::fmt;

use log::Level;

use crate::clock::Deadline;
use crate::model::endpoint::Endpoint;

use self::body::Body;

pub mod body;
mod permit;
mod pool;
pub mod routes;
pub mod server;

/// Answers ExternalDNS. Every method must return before the deadline it is given.
pub trait Handler: Send + Sync {
    /// The body of `GET /`: ExternalDNS's `DomainFilter` as JSON. Must not wait for anything.
    fn domain_filter(&self) -> Box<str>;

    /// Every endpoint that is ours.
    ///
    /// # Errors
    /// When the list would be incomplete: ExternalDNS would take a missing endpoint for a deleted one.
    fn records(&self, deadline: Deadline) -> Result<Vec<Endpoint>, Failure>;

    /// The canonical form of the endpoints that ExternalDNS wants.
    ///
    /// # Errors
    /// When the body is malformed, or when the canonical form of any endpoint is unknown yet or has no room in memory.
    fn adjust_endpoints(&self, wanted: &Body, deadline: Deadline) -> Result<Vec<Endpoint>, Failure>;

    /// Carries out the changes. The method owns the body, so that it can free the body's memory before it writes.
    ///
    /// # Errors
    /// When the body is malformed, or when a part of the changes was not made, so that ExternalDNS has to ask again.
    fn apply_changes(&self, changes: Body, deadline: Deadline) -> Result<(), Failure>;
}

/// A request that was not carried out. ExternalDNS treats the statuses 500 to 510 as soft errors and asks again in its
/// next loop; any other error status would end its process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// 400 to 499: ExternalDNS does not send such a request. 500: the request cannot be served in this form. 503: the
    /// request may be served later.
    pub status: u16,
    /// A short text for the operator. ExternalDNS discards it.
    pub text: String,
    /// The level at which the server logs the text; `None` if the text needs no line of its own.
    pub log: Option<Level>,
}

impl Failure {
    pub fn new(status: u16, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), log: None }
    }

    /// A temporary failure.
    pub fn unavailable(text: impl Into<String>) -> Self {
        Self::new(503, text)
    }

    /// A failure of this program, or of the request as a whole.
    pub fn permanent(text: impl Into<String>) -> Self {
        Self::new(500, text)
    }

    /// A body that cannot be read.
    pub fn malformed(reason: impl fmt::Display) -> Self {
        Self::new(400, format!("the body cannot be read: {reason}"))
    }

    /// The failure with a line in the log.
    #[must_use]
    pub fn logged(self, level: Level) -> Self {
        Self { log: Some(level), ..self }
    }
}
