//! Speaks ExternalDNS's webhook protocol: sockets, routes and media types. It knows nothing of Cloudflare.
//!
//! [`routes`] decides from values alone; [`server`] brings requests to it and sends its answers.

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

/// Answers ExternalDNS. Every method must return before the deadline it is given.
pub trait Service: Send + Sync {
    /// The body of `GET /`: ExternalDNS's `DomainFilter` as JSON. Must not wait for anything.
    fn domain_filter(&self) -> Box<str>;

    /// Every endpoint that is ours.
    ///
    /// # Errors
    /// When the list would be incomplete: ExternalDNS would take a missing endpoint for a deleted one.
    fn records(&self, deadline: Deadline) -> Result<Vec<Endpoint>, Failure>;

    /// The canonical form of the endpoints that ExternalDNS wants. What is kept of `wanted` must be taken from its
    /// share.
    ///
    /// # Errors
    /// When the canonical form is not known yet, or not for all endpoints.
    fn adjust_endpoints(
        &self,
        wanted: &mut Incoming<'_>,
        deadline: Deadline,
    ) -> Result<Vec<Endpoint>, Failure>;

    /// Carries out the changes once the whole body has arrived.
    ///
    /// # Errors
    /// When any of the work was not done, so that ExternalDNS has to ask for it again.
    fn apply_changes(&self, changes: &mut Incoming<'_>, deadline: Deadline) -> Result<(), Failure>;

    /// Compares two values of the property `name` by their meaning, for the older plugin protocol.
    fn property_values_equal(&self, name: &str, previous: &str, current: &str) -> bool;
}

/// A request that was not carried out. ExternalDNS treats both statuses as soft errors and asks again in its next loop;
/// any other status would end its process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub status: FailureStatus,
    /// A short text for the operator. ExternalDNS discards it.
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureStatus {
    /// 500: the request failed, or cannot be served as it is.
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
    /// The HTTP status.
    pub fn code(self) -> u16 {
        match self {
            Self::Internal500 => 500,
            Self::Unavailable503 => 503,
        }
    }
}

/// Reading a body failed, and the answer is set already. What was read before must not be acted upon.
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
