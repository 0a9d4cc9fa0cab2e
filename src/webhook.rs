//! ExternalDNS's webhook protocol: sockets, routes and media types. Knows nothing of Cloudflare.
//!
//! [`routes`] decides from values alone; [`server`] brings requests to it and answers back.

use std::fmt;

use crate::clock::Deadline;
use crate::model::endpoint::Endpoint;

use self::incoming::Incoming;

pub mod budget;
pub mod incoming;
pub mod media_type;
pub mod pool;
pub mod response;
pub mod routes;
pub mod server;

/// What answers ExternalDNS. Every method must return before the deadline it is given.
pub trait Service: Send + Sync {
    /// The body of `GET /`: ExternalDNS's `DomainFilter` as JSON. Must not wait for anything.
    fn domain_filter(&self) -> Box<str>;

    /// Every endpoint that is ours.
    ///
    /// # Errors
    /// When the list would not be complete: ExternalDNS takes what is missing for deleted.
    fn records(&self, deadline: Deadline) -> Result<Vec<Endpoint>, Failure>;

    /// The canonical form of what ExternalDNS wants. What is kept of `wanted` is to be taken from its share.
    ///
    /// # Errors
    /// When the canonical form cannot be told yet, or not of all.
    fn adjust_endpoints(
        &self,
        wanted: &mut Incoming<'_>,
        deadline: Deadline,
    ) -> Result<Vec<Endpoint>, Failure>;

    /// Carries the changes out, once all of them are there.
    ///
    /// # Errors
    /// When something that should have been done was not, and has to be asked for again.
    fn apply_changes(&self, changes: &mut Incoming<'_>, deadline: Deadline) -> Result<(), Failure>;

    /// Whether two values of the property called `name` mean the same, as the older plugin protocol asks.
    fn property_values_equal(&self, name: &str, previous: &str, current: &str) -> bool;
}

/// Why a request was not carried out. ExternalDNS takes either status for a soft error and asks again in its next
/// loop; every other status would end it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The status of the answer.
    pub status: FailureStatus,
    /// A short text for the operator. ExternalDNS discards it.
    pub text: String,
}

/// The statuses of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureStatus {
    /// 500: it failed, or the request cannot be served as it is.
    Internal500,
    /// 503: it may work later.
    Unavailable503,
}

impl Failure {
    /// A failure that may pass.
    pub fn unavailable(text: impl Into<String>) -> Self {
        Self { status: FailureStatus::Unavailable503, text: text.into() }
    }

    /// A failure of ours, or of the request as a whole.
    pub fn internal(text: impl Into<String>) -> Self {
        Self { status: FailureStatus::Internal500, text: text.into() }
    }
}

impl FailureStatus {
    /// The number on the wire.
    pub fn code(self) -> u16 {
        match self {
            Self::Internal500 => 500,
            Self::Unavailable503 => 503,
        }
    }
}

/// A body could not be read to its end, for a reason that becomes the answer. What came of it must not be acted upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

impl From<Interrupted> for Failure {
    fn from(Interrupted: Interrupted) -> Self {
        Self::unavailable("the request could not be read to its end")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}
