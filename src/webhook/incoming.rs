//! Reads a request's body as it arrives. Only one endpoint of a list is held at a time, so a body costs no more memory
//! than its reader keeps of it.
//!
//! serde_json parses each element from a window of text. If the window cuts an element off, it is read again from a
//! window twice as large, up to a limit above which only its names are read. A body ends with its list, and nothing may
//! follow: whoever acts after the end has seen all of a well-formed body.

mod names;
mod received;

use std::fmt;
use std::io::Read;

use serde::Deserialize;
use serde::de::IgnoredAny;

use self::names::{Skipped, beginning_of};
use self::received::{CHUNK_BYTES, ReceiveError, Received};
use super::budget::{NoRoom, Share};
use super::response::{self, Response};
use super::{Failure, Interrupted};
use crate::clock::{Clock, Deadline};
use crate::limits;
use crate::model::endpoint::{Endpoint, List};

pub struct Incoming<'r> {
    received: Received<'r>,
    shape: Shape,
    state: State,
    /// The change lists seen so far, one bit each.
    seen: u8,
    share: &'r mut Share,
    /// The part of the share that the current element takes, in bytes.
    in_hand: usize,
    deadline: Deadline,
    clock: &'r dyn Clock,
    /// The answer, once reading has failed.
    failure: Option<Response>,
}

/// The structure that a body must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// An array of endpoints.
    Endpoints,
    /// An object of lists of endpoints, see [`Changes`](crate::model::endpoint::Changes).
    Changes,
    /// Another object, which is read in one piece.
    Object,
}

/// The reader's position in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Begin,
    /// Between the fields of an object of changes.
    Fields {
        is_first: bool,
    },
    Items {
        list: List,
        is_first: bool,
    },
    End,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Arrived {
    /// The list that holds it.
    pub list: List,
    pub endpoint: Endpoint,
    /// False if the endpoint was too long to be held. It then has its name, and its type and object where these came
    /// early enough.
    pub is_whole: bool,
}

/// The result of reading one value.
enum Value<T> {
    Read(T),
    /// It is longer than the longest that is held.
    TooLong,
}

impl<'r> Incoming<'r> {
    /// Reads a body from `source`, whose announced length in bytes is `announced`. Memory for what is kept is taken
    /// from `share`.
    pub fn new(
        source: &'r mut dyn Read,
        announced: Option<usize>,
        shape: Shape,
        share: &'r mut Share,
        deadline: Deadline,
        clock: &'r dyn Clock,
    ) -> Self {
        Self {
            received: Received::new(source, announced),
            shape,
            state: State::Begin,
            seen: 0,
            share,
            in_hand: 0,
            deadline,
            clock,
            failure: None,
        }
    }

    /// The next endpoint, or `None` at the end of the body. `null` counts as an empty list, because Go writes it so.
    ///
    /// # Errors
    /// When the body is malformed, too large or too late. Endpoints read before must not be acted upon.
    pub fn next_endpoint(&mut self) -> Result<Option<Arrived>, Interrupted> {
        if self.failure.is_some() {
            return Err(Interrupted);
        }
        self.share.shrink(std::mem::take(&mut self.in_hand));
        loop {
            match self.state {
                State::Begin => self.open()?,
                State::Fields { is_first } => {
                    if self.is_closed(b'}', is_first)? {
                        self.state = State::End;
                    } else {
                        self.field()?;
                    }
                }
                State::Items { list, is_first } => {
                    if !self.is_closed(b']', is_first)? {
                        self.state = State::Items { list, is_first: false };
                        return self.item(list).map(Some);
                    }
                    self.state = match self.shape {
                        Shape::Endpoints => State::End,
                        Shape::Changes | Shape::Object => State::Fields { is_first: false },
                    };
                }
                State::End => return self.end().map(|()| None),
            }
        }
    }

    /// The whole body as one object.
    ///
    /// # Errors
    /// The same as for [`next_endpoint`](Self::next_endpoint).
    pub fn whole<T: Default + for<'de> Deserialize<'de>>(&mut self) -> Result<T, Interrupted> {
        if !matches!(self.peek()?, Some(b'{' | b'n')) {
            return Err(self.unexpected("expected '{'"));
        }
        let Value::Read(value) = self.value::<Option<T>>()? else { return Err(self.too_long()) };
        self.end()?;
        Ok(value.unwrap_or_default())
    }

    /// Takes `bytes` of memory for what is kept of this body, until the request is answered.
    ///
    /// # Errors
    /// When they cannot be had in time.
    pub fn keep(&mut self, bytes: usize) -> Result<(), Interrupted> {
        let patience = self.deadline.remaining(self.clock).min(limits::BODY_PATIENCE);
        self.share.grow(bytes, patience).map_err(|no_room| {
            let text = match no_room {
                NoRoom::TooMuch => {
                    "the request asks for more hostnames of ours than fit into memory, and none of it is done: let several \
                     pairs of ExternalDNS and this program share the hostnames (--domain-filter, DOMAIN_FILTER)"
                }
                NoRoom::Busy => {
                    "other requests held the memory for too long, and none of this one is done: ExternalDNS never \
                     has two under way, so look who else speaks to this port"
                }
            };
            log::warn!("{text}");
            self.fail(Failure::unavailable(text).into())
        })
    }

    /// Reads the rest of the body, and returns the error answer if it is malformed. tiny_http would otherwise read the
    /// rest into one buffer.
    pub fn finish(&mut self) -> Option<Response> {
        let is_list = self.shape != Shape::Object;
        while is_list && self.state != State::End && matches!(self.next_endpoint(), Ok(Some(_))) {}
        self.received.drain();
        self.failure.take()
    }

    fn open(&mut self) -> Result<(), Interrupted> {
        let (opening, opened) = match self.shape {
            Shape::Endpoints => ('[', State::Items { list: List::Wanted, is_first: true }),
            Shape::Changes | Shape::Object => ('{', State::Fields { is_first: true }),
        };
        match self.peek()? {
            Some(b'n') => {
                self.null()?;
                self.state = State::End;
            }
            Some(byte) if char::from(byte) == opening => {
                self.received.advance(1);
                self.state = opened;
            }
            _ => return Err(self.unexpected(&format!("expected {opening:?}"))),
        }
        Ok(())
    }

    /// True if the list or object ends here; otherwise its next part follows.
    fn is_closed(&mut self, closing: u8, is_first: bool) -> Result<bool, Interrupted> {
        let next = self.peek()?;
        if next == Some(closing) {
            self.received.advance(1);
            return Ok(true);
        }
        if !is_first {
            if next != Some(b',') {
                return Err(self.unexpected(&format!("expected ',' or {:?}", char::from(closing))));
            }
            self.received.advance(1);
        }
        Ok(false)
    }

    /// Advances to the first element of a list of changes, or past a field that is not such a list.
    fn field(&mut self) -> Result<(), Interrupted> {
        if self.peek()? != Some(b'"') {
            return Err(self.unexpected("expected a field"));
        }
        let Value::Read(name) = self.value::<Box<str>>()? else { return Err(self.too_long()) };
        if self.peek()? != Some(b':') {
            return Err(self.unexpected("expected ':'"));
        }
        self.received.advance(1);
        self.state = State::Fields { is_first: false };
        let Some(list) = List::of_field(&name) else {
            let value = self.value::<IgnoredAny>()?;
            return if matches!(value, Value::Read(_)) { Ok(()) } else { Err(self.too_long()) };
        };
        let bit = 1 << list as u8;
        if self.seen & bit != 0 {
            return Err(self.malformed(&format_args!("{name:?} is there twice")));
        }
        self.seen |= bit;
        match self.peek()? {
            Some(b'n') => self.null(),
            Some(b'[') => {
                self.received.advance(1);
                self.state = State::Items { list, is_first: true };
                Ok(())
            }
            _ => Err(self.unexpected("expected '['")),
        }
    }

    fn null(&mut self) -> Result<(), Interrupted> {
        self.value::<()>().map(drop)
    }

    fn item(&mut self, list: List) -> Result<Arrived, Interrupted> {
        // serde would also accept a list as an object with its fields in order.
        if self.peek()? != Some(b'{') {
            return Err(self.unexpected("expected '{'"));
        }
        if let Value::Read(endpoint) = self.value::<Endpoint>()? {
            return Ok(Arrived { list, endpoint, is_whole: true });
        }
        let rest = self.received.rest();
        let head = rest.get(..rest.floor_char_boundary(limits::ELEMENT_MAX_BYTES)).unwrap_or_default();
        let beginning = beginning_of(head);
        let dns_name = self.skip_object()?;
        Ok(Arrived { list, endpoint: Endpoint { dns_name, ..beginning }, is_whole: false })
    }

    /// Reads the value that begins here.
    fn value<T: for<'de> Deserialize<'de>>(&mut self) -> Result<Value<T>, Interrupted> {
        loop {
            let rest = self.received.rest();
            let mut values = serde_json::Deserializer::from_str(rest).into_iter::<T>();
            let value = values.next();
            let length = values.byte_offset();
            let is_at_edge = length == rest.len() && !self.received.is_ended();
            match value {
                Some(Ok(_)) if length > limits::ELEMENT_MAX_BYTES => return Ok(Value::TooLong),
                // A number at the edge of the window may continue behind it.
                Some(Ok(value)) if !is_at_edge || !rest.ends_with(|last: char| last.is_ascii_digit()) => {
                    self.received.advance(length);
                    return Ok(Value::Read(value));
                }
                Some(Err(error)) if !error.is_eof() || self.received.is_ended() => {
                    return Err(self.malformed(&error));
                }
                None if self.received.is_ended() => return Err(self.unexpected("expected a value")),
                _ if rest.len() >= limits::ELEMENT_MAX_BYTES => return Ok(Value::TooLong),
                _ => {
                    let wanted = (rest.len() * 2).clamp(1, limits::ELEMENT_MAX_BYTES);
                    if wanted > CHUNK_BYTES {
                        // A parsed element takes up to twelve times as much memory as its text.
                        let more = (wanted * 12).saturating_sub(self.in_hand);
                        self.keep(more)?;
                        self.in_hand += more;
                    }
                    while self.received.rest().len() < wanted && !self.received.is_ended() {
                        self.fill()?;
                    }
                }
            }
        }
    }

    /// Skips the object that begins here, which is too long to be held, and returns its name.
    fn skip_object(&mut self) -> Result<String, Interrupted> {
        let mut skipped = Skipped::default();
        loop {
            let rest = self.received.rest();
            let end = rest.bytes().position(|byte| skipped.ends_with(byte));
            let length = end.map_or(rest.len(), |end| end + 1);
            self.received.advance(length);
            if end.is_some() {
                return Ok(skipped.name());
            }
            if self.received.is_ended() {
                return Err(self.unexpected("expected the end of an object"));
            }
            self.fill()?;
        }
    }

    /// Checks that nothing follows and that it is not too late.
    fn end(&mut self) -> Result<(), Interrupted> {
        if self.peek()?.is_some() {
            return Err(self.unexpected("trailing characters"));
        }
        if self.deadline.is_over(self.clock) {
            return Err(self.fail(Failure::unavailable("the body came too late").into()));
        }
        Ok(())
    }

    /// The first byte that is not whitespace.
    fn peek(&mut self) -> Result<Option<u8>, Interrupted> {
        self.received.peek().map_err(|error| self.unreceived(error))
    }

    fn fill(&mut self) -> Result<(), Interrupted> {
        self.received.fill().map_err(|error| self.unreceived(error))
    }

    fn unreceived(&mut self, error: ReceiveError) -> Interrupted {
        let unread =
            |reason: &dyn fmt::Display| Response::text(400, &format!("the body cannot be read: {reason}"));
        match error {
            ReceiveError::Io(error) => self.fail(unread(&error)),
            ReceiveError::EndedEarly => self.fail(unread(&"it ended before its announced length")),
            ReceiveError::TooLarge => self.fail(response::over_cap()),
            ReceiveError::NotText(error) => self.malformed(&error),
        }
    }

    fn malformed(&mut self, reason: &dyn fmt::Display) -> Interrupted {
        let place = self.received.place();
        self.fail(Response::text(400, &format!("malformed JSON: {reason}, counted from byte {place}")))
    }

    fn unexpected(&mut self, expected: &str) -> Interrupted {
        if self.received.is_ended() && self.received.rest().is_empty() {
            return self.malformed(&format_args!("{expected}, found the end"));
        }
        self.malformed(&expected)
    }

    /// A body is refused softly: a status below 500 would end ExternalDNS.
    fn too_long(&mut self) -> Interrupted {
        let text = format!(
            "a part of the request that is no endpoint has more than {} KiB, so nothing of it is done: look who else \
             speaks to this port",
            limits::ELEMENT_MAX_BYTES / 1024
        );
        log::warn!("{text}");
        self.fail(Failure::unavailable(text).into())
    }

    fn fail(&mut self, answer: Response) -> Interrupted {
        self.failure.get_or_insert(answer);
        Interrupted
    }
}

impl fmt::Debug for Incoming<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Incoming")
            .field("received", &self.received)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
