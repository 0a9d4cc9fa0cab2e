//! Holds the text of a body that was received but not read yet.

use std::fmt;
use std::io::{self, Read};
use std::str::Utf8Error;

use crate::limits;

/// The most that is received at once.
pub(super) const CHUNK_BYTES: usize = 16 * 1024;

/// The reason why no more of a body was received.
#[derive(Debug)]
pub(super) enum ReceiveError {
    Io(io::Error),
    /// It ended before its announced length.
    EndedEarly,
    TooLarge,
    NotText(Utf8Error),
}

/// A window of a body.
pub(super) struct Received<'r> {
    source: &'r mut dyn Read,
    announced: Option<usize>,
    /// The bytes received so far.
    bytes: u64,
    /// The source has no more.
    is_ended: bool,
    /// The text being parsed; everything before `begin` has been read.
    text: String,
    begin: usize,
    /// The first bytes of a character that is not complete yet.
    cut: Vec<u8>,
}

impl<'r> Received<'r> {
    pub(super) fn new(source: &'r mut dyn Read, announced: Option<usize>) -> Self {
        Self { source, announced, bytes: 0, is_ended: false, text: String::new(), begin: 0, cut: Vec::new() }
    }

    /// The text that was received but not read yet.
    pub(super) fn rest(&self) -> &str {
        self.text.get(self.begin..).unwrap_or_default()
    }

    /// Counts `bytes` of the rest as read.
    pub(super) fn advance(&mut self, bytes: usize) {
        self.begin += bytes;
    }

    /// True once the source has no more.
    pub(super) fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// The position of the first unread byte in the body.
    pub(super) fn place(&self) -> u64 {
        self.bytes.saturating_sub((self.rest().len() + self.cut.len()) as u64)
    }

    /// The first byte that is not whitespace; receives until there is one.
    pub(super) fn peek(&mut self) -> Result<Option<u8>, ReceiveError> {
        loop {
            let mut bytes = self.rest().bytes();
            let found = bytes.find(|byte| !matches!(byte, b' ' | b'\n' | b'\r' | b'\t'));
            let left = bytes.len() + usize::from(found.is_some());
            self.begin = self.text.len() - left;
            if found.is_some() || self.is_ended {
                return Ok(found);
            }
            self.fill()?;
        }
    }

    /// Receives one chunk.
    pub(super) fn fill(&mut self) -> Result<(), ReceiveError> {
        self.text.drain(..self.begin);
        self.begin = 0;
        let mut chunk = [0; CHUNK_BYTES];
        let kept = self.cut.len();
        let (front, back) = chunk.split_at_mut(kept);
        front.copy_from_slice(&self.cut);
        let length = match self.source.read(back) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(ReceiveError::Io(error)),
        };
        self.bytes += length as u64;
        if self.bytes > limits::REQUEST_BODY_MAX_BYTES {
            return Err(ReceiveError::TooLarge);
        }
        if length == 0 {
            self.is_ended = true;
            if self.announced.is_some_and(|announced| self.bytes < announced as u64) {
                return Err(ReceiveError::EndedEarly);
            }
        }
        let bytes = chunk.get(..kept + length).unwrap_or_default();
        // Checked once for the whole chunk rather than string by string.
        let (whole, cut) = match str::from_utf8(bytes) {
            Ok(text) => (text, &[][..]),
            Err(error) if error.error_len().is_none() && !self.is_ended => {
                let (whole, cut) = bytes.split_at(error.valid_up_to());
                (str::from_utf8(whole).unwrap_or_default(), cut)
            }
            Err(error) => return Err(ReceiveError::NotText(error)),
        };
        self.text.push_str(whole);
        self.cut = cut.to_vec();
        Ok(())
    }

    /// Receives and drops the rest of the body, up to the largest allowed body.
    pub(super) fn drain(&mut self) {
        let mut chunk = [0; CHUNK_BYTES];
        while !self.is_ended && self.bytes <= limits::REQUEST_BODY_MAX_BYTES {
            match self.source.read(&mut chunk) {
                Ok(0) => break,
                Ok(length) => self.bytes += length as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
    }
}

impl fmt::Debug for Received<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Received").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
