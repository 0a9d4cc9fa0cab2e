//! A request's body, read as it arrives. Of a list of endpoints only the one in hand is held, so that a body costs what its
//! reader keeps of it.
//!
//! serde_json reads each element from a window of text. One that the window cuts off is read again with twice as much text,
//! up to a limit above which its names alone are read. The end of the body is the end of the list and nothing behind it:
//! who acts after that has seen all of a well-formed body.

mod names;
mod received;

use std::fmt;
use std::io::Read;

use serde::Deserialize;
use serde::de::IgnoredAny;

use self::names::names_in;
use self::received::{CHUNK_BYTES, ReceiveError, Received};
use super::budget::{NoRoom, Share};
use super::response::{self, Response};
use super::{Failure, Interrupted};
use crate::clock::{Clock, Deadline};
use crate::limits;
use crate::model::endpoint::{Endpoint, List};

/// The body of one request.
pub struct Incoming<'r> {
    received: Received<'r>,
    shape: Shape,
    state: State,
    /// Lists of changes that were there, a bit each.
    seen: u8,
    share: &'r mut Share,
    /// What the element in hand takes of the share.
    in_hand: usize,
    deadline: Deadline,
    clock: &'r dyn Clock,
    /// The answer where reading has failed.
    failure: Option<Response>,
}

/// What a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// An array of endpoints.
    Endpoints,
    /// An object of lists of endpoints, see [`Changes`](crate::model::endpoint::Changes).
    Changes,
    /// Another object, which is read in one piece.
    Object,
}

/// Where in a body reading is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Begin,
    /// Between the fields of changes.
    Fields {
        is_first: bool,
    },
    Items {
        list: List,
        is_first: bool,
    },
    End,
}

/// One endpoint of a body.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrived {
    /// The list that it is in.
    pub list: List,
    /// The endpoint.
    pub endpoint: Endpoint,
    /// Whether all of it was read. If not it has its name, and its type and object where these came early enough.
    pub is_whole: bool,
}

/// Whether a value was read.
enum Value<T> {
    Read(T),
    /// It is longer than what is held of one.
    TooLong,
}

impl<'r> Incoming<'r> {
    /// The body that `source` has, with the length that was announced. What is kept of it is taken from `share`.
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

    /// The next endpoint. `None` where the body is over; `null` is Go's way of writing an empty list.
    ///
    /// # Errors
    /// When the body is malformed, too large or too late. What came before must not be acted upon.
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
    /// As of [`next_endpoint`](Self::next_endpoint).
    pub fn whole<T: Default + for<'de> Deserialize<'de>>(&mut self) -> Result<T, Interrupted> {
        if !matches!(self.peek()?, Some(b'{' | b'n')) {
            return Err(self.unexpected("expected '{'"));
        }
        let Value::Read(value) = self.value::<Option<T>>()? else { return Err(self.too_long()) };
        self.end()?;
        Ok(value.unwrap_or_default())
    }

    /// Takes so many bytes for what is kept of this body, until the request is answered.
    ///
    /// # Errors
    /// When they are not to be had in time.
    pub fn keep(&mut self, bytes: usize) -> Result<(), Interrupted> {
        let patience = self.deadline.remaining(self.clock).min(limits::BODY_PATIENCE);
        self.share.grow(bytes, patience).map_err(|no_room| {
            let text = match no_room {
                NoRoom::TooMuch => {
                    "the request asks for more of ours than fits into memory, and nothing of it is done: let several \
                     pairs of ExternalDNS and this program share the hostnames (--domain-filter, DOMAIN_FILTER)"
                }
                NoRoom::Busy => {
                    "other requests held the memory for too long, and nothing of this one is done: ExternalDNS never \
                     has two under way, so look who else speaks to this port"
                }
            };
            log::warn!("{text}");
            self.fail(Failure::unavailable(text).into())
        })
    }

    /// Reads what nobody wanted to see, and says what is wrong with the body if something is. What is left unread
    /// tiny_http would read in one piece.
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

    /// Whether a list or an object ends here; if not, what comes is its next part.
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

    /// Up to the first element of a list of changes, or behind a field that is none.
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
        // serde would take a list for an object with its fields in order.
        if self.peek()? != Some(b'{') {
            return Err(self.unexpected("expected '{'"));
        }
        if let Value::Read(endpoint) = self.value::<Endpoint>()? {
            return Ok(Arrived { list, endpoint, is_whole: true });
        }
        let rest = self.received.rest();
        let head = rest.get(..rest.floor_char_boundary(limits::ELEMENT_MAX_BYTES)).unwrap_or_default();
        let endpoint = names_in(head);
        self.skip_object()?;
        if endpoint.dns_name.is_empty() {
            return Err(self.too_long());
        }
        Ok(Arrived { list, endpoint, is_whole: false })
    }

    /// The value that begins here.
    fn value<T: for<'de> Deserialize<'de>>(&mut self) -> Result<Value<T>, Interrupted> {
        loop {
            let rest = self.received.rest();
            let mut values = serde_json::Deserializer::from_str(rest).into_iter::<T>();
            let value = values.next();
            let length = values.byte_offset();
            let is_at_edge = length == rest.len() && !self.received.is_ended();
            match value {
                Some(Ok(_)) if length > limits::ELEMENT_MAX_BYTES => return Ok(Value::TooLong),
                // At the edge of the window a number may go on.
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
                        // What comes of a text takes up to twelve times as much.
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

    /// Past the object that begins here, which is too long to be held.
    fn skip_object(&mut self) -> Result<(), Interrupted> {
        let (mut depth, mut is_text, mut is_escaped) = (0_usize, false, false);
        loop {
            let rest = self.received.rest();
            let mut bytes = rest.bytes();
            for byte in bytes.by_ref() {
                match byte {
                    _ if is_escaped => is_escaped = false,
                    b'\\' if is_text => is_escaped = true,
                    b'"' => is_text = !is_text,
                    b'{' | b'[' if !is_text => depth += 1,
                    b'}' | b']' if !is_text => depth -= 1,
                    _ => {}
                }
                if depth == 0 {
                    break;
                }
            }
            let length = rest.len() - bytes.len();
            self.received.advance(length);
            if depth == 0 {
                return Ok(());
            }
            if self.received.is_ended() {
                return Err(self.unexpected("expected the end of an object"));
            }
            self.fill()?;
        }
    }

    /// Sees that nothing else comes, and that it is not too late.
    fn end(&mut self) -> Result<(), Interrupted> {
        if self.peek()?.is_some() {
            return Err(self.unexpected("trailing characters"));
        }
        if self.deadline.is_over(self.clock) {
            return Err(self.fail(Failure::unavailable("the body came too late").into()));
        }
        Ok(())
    }

    /// The first byte that is no blank.
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
            "an endpoint of the request has more than {} KiB and its name is not among the first of them, so nothing of \
             the request is done: look for an object with so many annotations or targets",
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
