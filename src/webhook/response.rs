//! The answer to a request, without sockets.

use super::Failure;

pub(super) const TEXT: &str = "text/plain; charset=utf-8";

/// An answer. The header's value is a constant, so that nothing of a request can get into it.
#[derive(Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    /// The value of `Content-Type`; `None` without a body.
    pub content_type: Option<&'static str>,
    pub body: Vec<u8>,
}

impl Response {
    pub fn text(status: u16, line: &str) -> Self {
        Self { status, content_type: Some(TEXT), body: format!("{line}\n").into_bytes() }
    }
}

impl From<Failure> for Response {
    fn from(failure: Failure) -> Self {
        Self::text(failure.status.code(), &failure.text)
    }
}
