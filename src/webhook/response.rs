//! The answer to a request, without sockets.

use std::io::{self, Write};

use super::Failure;
use crate::limits;
use crate::model::endpoint::Endpoint;

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
        Self::text(failure.status, &failure.text)
    }
}

/// Endpoints in their JSON form, written into `buffer`.
pub(super) fn json(endpoints: &[Endpoint], buffer: Vec<u8>) -> Result<Vec<u8>, Failure> {
    let mut buffer = Buffer(buffer);
    match serde_json::to_writer(&mut buffer, endpoints) {
        Ok(()) => Ok(buffer.0),
        Err(error) => Err(Failure::internal(error.to_string())),
    }
}

/// The buffer for an answer's body. serde_json writes a few bytes at a time, sixty times per endpoint, and musl's
/// `memcpy` takes as long for one byte as for a hundred: copying byte by byte takes a quarter of the time.
struct Buffer(Vec<u8>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > limits::WEBHOOK_RESPONSE_MAX_BYTES {
            return Err(io::Error::other("the answer exceeds 24 MiB"));
        }
        // The compiler would turn `extend` into a memcpy.
        for byte in bytes {
            self.0.push(*byte);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
