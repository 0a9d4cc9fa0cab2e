//! The answer to a request, without sockets.

use super::Failure;
use super::media_type::Protocol;

pub(super) const TEXT: &str = "text/plain; charset=utf-8";

pub(super) const OVER_CAP: &str = "the body is larger than 32 MiB";

/// The answer to a body that is too large. It reports a failure, so that ExternalDNS asks again instead of ending.
pub fn over_cap() -> Response {
    Response::text(503, OVER_CAP)
}

/// An answer. Header values are constants, so that nothing of a request can get into one.
#[derive(Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    /// The value of `Content-Type`; `None` without a body.
    pub content_type: Option<&'static str>,
    /// The value of `Allow`, with 405.
    pub allow: Option<&'static str>,
    /// The value of `Vary`, if the answer depends on the request's media types.
    pub vary: Option<&'static str>,
    pub body: Vec<u8>,
}

impl Response {
    pub fn text(status: u16, line: &str) -> Self {
        Self {
            status,
            content_type: Some(TEXT),
            allow: None,
            vary: None,
            body: format!("{line}\n").into_bytes(),
        }
    }

    pub(super) fn empty(status: u16) -> Self {
        Self { status, content_type: None, allow: None, vary: None, body: Vec::new() }
    }

    pub(super) fn of_type(protocol: Protocol, body: Vec<u8>) -> Self {
        Self { status: 200, content_type: Some(protocol.media_type()), allow: None, vary: None, body }
    }
}

impl From<Failure> for Response {
    fn from(failure: Failure) -> Self {
        Self::text(failure.status.code(), &failure.text)
    }
}
