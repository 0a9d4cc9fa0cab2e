//! A request's body, read as it arrives. Of a list of endpoints only the one in hand is held, so that a body costs what its
//! reader keeps of it.
//!
//! serde_json reads each element from a window of text. One that the window cuts off is read again with twice as much text,
//! up to a limit above which its names alone are read. The end of the body is the end of the list and nothing behind it:
//! who acts after that has seen all of a well-formed body.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Read};

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::budget::{NoRoom, Share};
use super::routes::Answer;
use super::{Failure, Interrupted};
use crate::clock::{Clock, Deadline};
use crate::limits;
use crate::model::endpoint::{Endpoint, Labels, List};

/// The body of one request.
pub struct Incoming<'r> {
    source: &'r mut dyn Read,
    /// The length that was announced, in bytes.
    announced: Option<usize>,
    received: u64,
    /// Whether the source has no more.
    is_ended: bool,
    /// What is being read; before `begin` it has been.
    text: String,
    begin: usize,
    /// The first bytes of a character that is not whole yet.
    cut: Vec<u8>,
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
    failure: Option<Answer>,
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
            source,
            announced,
            received: 0,
            is_ended: false,
            text: String::new(),
            begin: 0,
            cut: Vec::new(),
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
    pub fn finish(&mut self) -> Option<Answer> {
        let is_list = self.shape != Shape::Object;
        while is_list && self.state != State::End && matches!(self.next_endpoint(), Ok(Some(_))) {}
        let mut chunk = [0; CHUNK_BYTES];
        while !self.is_ended && self.received <= limits::REQUEST_BODY_MAX_BYTES {
            match self.source.read(&mut chunk) {
                Ok(0) => break,
                Ok(length) => self.received += length as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
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
                self.begin += 1;
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
            self.begin += 1;
            return Ok(true);
        }
        if !is_first {
            if next != Some(b',') {
                return Err(self.unexpected(&format!("expected ',' or {:?}", char::from(closing))));
            }
            self.begin += 1;
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
        self.begin += 1;
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
                self.begin += 1;
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
        let endpoint = self.names();
        self.skip_object()?;
        if endpoint.dns_name.is_empty() {
            return Err(self.too_long());
        }
        Ok(Arrived { list, endpoint, is_whole: false })
    }

    /// The value that begins here.
    fn value<T: for<'de> Deserialize<'de>>(&mut self) -> Result<Value<T>, Interrupted> {
        loop {
            let rest = self.rest();
            let mut values = serde_json::Deserializer::from_str(rest).into_iter::<T>();
            let value = values.next();
            let length = values.byte_offset();
            let is_at_edge = length == rest.len() && !self.is_ended;
            match value {
                Some(Ok(_)) if length > limits::ELEMENT_MAX_BYTES => return Ok(Value::TooLong),
                // At the edge of the window a number may go on.
                Some(Ok(value)) if !is_at_edge || !rest.ends_with(|last: char| last.is_ascii_digit()) => {
                    self.begin += length;
                    return Ok(Value::Read(value));
                }
                Some(Err(error)) if !error.is_eof() || self.is_ended => return Err(self.malformed(&error)),
                None if self.is_ended => return Err(self.unexpected("expected a value")),
                _ if rest.len() >= limits::ELEMENT_MAX_BYTES => return Ok(Value::TooLong),
                _ => {
                    let wanted = (rest.len() * 2).clamp(1, limits::ELEMENT_MAX_BYTES);
                    if wanted > CHUNK_BYTES {
                        // What comes of a text takes up to twelve times as much.
                        let more = (wanted * 12).saturating_sub(self.in_hand);
                        self.keep(more)?;
                        self.in_hand += more;
                    }
                    while self.rest().len() < wanted && !self.is_ended {
                        self.fill()?;
                    }
                }
            }
        }
    }

    /// As much of the endpoint that begins here as tells whose it is.
    fn names(&self) -> Endpoint {
        let mut endpoint = Endpoint::default();
        let rest = self.rest();
        let head = rest.get(..rest.floor_char_boundary(limits::ELEMENT_MAX_BYTES)).unwrap_or_default();
        // It ends early.
        let _ = Names(&mut endpoint).deserialize(&mut serde_json::Deserializer::from_str(head));
        endpoint
    }

    /// Past the object that begins here, which is too long to be held.
    fn skip_object(&mut self) -> Result<(), Interrupted> {
        let (mut depth, mut is_text, mut is_escaped) = (0_usize, false, false);
        loop {
            let mut bytes = self.rest().bytes();
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
            let left = bytes.len();
            self.begin = self.text.len() - left;
            if depth == 0 {
                return Ok(());
            }
            if self.is_ended {
                return Err(self.unexpected("expected the end of an object"));
            }
            self.fill()?;
        }
    }

    /// The first byte that is no blank.
    fn peek(&mut self) -> Result<Option<u8>, Interrupted> {
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

    fn rest(&self) -> &str {
        self.text.get(self.begin..).unwrap_or_default()
    }

    /// Receives once.
    fn fill(&mut self) -> Result<(), Interrupted> {
        self.text.drain(..self.begin);
        self.begin = 0;
        let mut chunk = [0; CHUNK_BYTES];
        let kept = self.cut.len();
        let (front, back) = chunk.split_at_mut(kept);
        front.copy_from_slice(&self.cut);
        let length = match self.source.read(back) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(self.unread(&error)),
        };
        self.received += length as u64;
        if self.received > limits::REQUEST_BODY_MAX_BYTES {
            return Err(self.fail(super::routes::over_cap()));
        }
        if length == 0 {
            self.is_ended = true;
            if self.announced.is_some_and(|announced| self.received < announced as u64) {
                return Err(self.unread(&"it ended before its announced length"));
            }
        }
        let bytes = chunk.get(..kept + length).unwrap_or_default();
        // Looked at once, and not text by text.
        let (whole, cut) = match str::from_utf8(bytes) {
            Ok(text) => (text, &[][..]),
            Err(error) if error.error_len().is_none() && !self.is_ended => {
                let (whole, cut) = bytes.split_at(error.valid_up_to());
                (str::from_utf8(whole).unwrap_or_default(), cut)
            }
            Err(error) => return Err(self.malformed(&error)),
        };
        self.text.push_str(whole);
        self.cut = cut.to_vec();
        Ok(())
    }

    fn unread(&mut self, reason: &dyn fmt::Display) -> Interrupted {
        self.fail(Answer::text(400, &format!("the body cannot be read: {reason}")))
    }

    fn malformed(&mut self, reason: &dyn fmt::Display) -> Interrupted {
        let place = self.received.saturating_sub((self.rest().len() + self.cut.len()) as u64);
        self.fail(Answer::text(400, &format!("malformed JSON: {reason}, counted from byte {place}")))
    }

    fn unexpected(&mut self, expected: &str) -> Interrupted {
        if self.is_ended && self.rest().is_empty() {
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

    fn fail(&mut self, answer: Answer) -> Interrupted {
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

/// Received at once.
const CHUNK_BYTES: usize = 16 * 1024;

/// Reads name, type and object into an endpoint, as long as they come.
struct Names<'e>(&'e mut Endpoint);

impl<'de> DeserializeSeed<'de> for Names<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Names<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an endpoint")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self(endpoint) = self;
        while let Some(name) = map.next_key::<Cow<'_, str>>()? {
            match &*name {
                "dnsName" => endpoint.dns_name = map.next_value::<Option<String>>()?.unwrap_or_default(),
                "recordType" => {
                    endpoint.record_type = map.next_value::<Option<String>>()?.unwrap_or_default()
                }
                "labels" => endpoint.labels = map.next_value::<Option<Labels>>()?.unwrap_or_default(),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::SystemClock;
    use crate::model::endpoint::Changes;
    use crate::webhook::budget::Budget;

    fn share_of(bytes: usize) -> Share {
        Budget::new(bytes, 0).share(SystemClock.now())
    }

    /// Hands over so many bytes at a time.
    struct Pieces<'b> {
        rest: &'b [u8],
        length: usize,
    }

    impl Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = self.length.min(buffer.len()).min(self.rest.len());
            let (now, later) = self.rest.split_at(length);
            buffer[..length].copy_from_slice(now);
            self.rest = later;
            Ok(length)
        }
    }

    type Outcome = Result<Vec<Arrived>, (u16, String)>;

    fn read_pieces(shape: Shape, body: &str, length: usize) -> Outcome {
        let mut share = share_of(4 << 20);
        let deadline = Deadline::after(&SystemClock, Duration::from_secs(60));
        let mut source = Pieces { rest: body.as_bytes(), length };
        let mut incoming =
            Incoming::new(&mut source, Some(body.len()), shape, &mut share, deadline, &SystemClock);
        let mut arrived = Vec::new();
        while let Ok(Some(next)) = incoming.next_endpoint() {
            arrived.push(next);
        }
        match incoming.finish() {
            None => Ok(arrived),
            Some(Answer { status, body, .. }) => Err((status, String::from_utf8(body).unwrap())),
        }
    }

    /// However it arrives.
    fn read(shape: Shape, body: &str) -> Outcome {
        let whole = read_pieces(shape, body, usize::MAX);
        for length in [1, 3, 1000] {
            if body.len() / length < 20_000 {
                let pieces = read_pieces(shape, body, length);
                assert_eq!(pieces.is_ok(), whole.is_ok(), "{length}: {pieces:?}");
                if whole.is_ok() {
                    assert_eq!(pieces, whole, "{length}");
                }
            }
        }
        whole
    }

    fn changes(body: &str) -> Changes {
        let mut changes = Changes::default();
        for Arrived { list, endpoint, is_whole } in read(Shape::Changes, body).unwrap() {
            assert!(is_whole);
            changes.add(list, endpoint);
        }
        changes
    }

    #[test]
    fn both_spellings_of_changes_null_and_absent_lists_are_read() {
        let endpoint = r#"{"dnsName":"a.example.com"}"#;
        for text in [
            format!(r#"{{"Create":[{endpoint}],"UpdateOld":null,"UpdateNew":null,"Delete":null}}"#),
            format!(r#"{{"create":[{endpoint}]}}"#),
            format!(r#" {{ "new" : {{"a":[1,"]}}"]}} , "number": 12, "create" : [ {endpoint} ] }} "#),
        ] {
            let changes = changes(&text);
            assert_eq!(changes.create.len(), 1, "{text}");
            assert_eq!(changes.delete, [], "{text}");
        }
        assert_eq!(changes("{}\n"), Changes::default());
        assert_eq!(changes("null"), Changes::default());
        let endpoint = |name: &str| Endpoint { dns_name: name.to_owned(), ..Endpoint::default() };
        let all = r#"{"delete":[{"dnsName":"d"}],"updateOld":[{"dnsName":"o"},{}],"updateNew":[{"dnsName":"n"},{}]}"#;
        let expected = Changes {
            create: vec![],
            update_old: vec![endpoint("o"), endpoint("")],
            update_new: vec![endpoint("n"), endpoint("")],
            delete: vec![endpoint("d")],
        };
        assert_eq!(changes(all), expected);
    }

    #[test]
    fn text_of_every_kind_is_read_wherever_it_is_cut() {
        let names = ["é🦀\\", "a\"b", "{[,]}", "\u{7f}\n", "🦀🦀🦀"];
        let endpoints = names.map(|name| Endpoint { dns_name: name.to_owned(), ..Endpoint::default() });
        let body = serde_json::to_string(&endpoints).unwrap();
        let arrived = read(Shape::Endpoints, &body).unwrap();
        assert_eq!(arrived.into_iter().map(|arrived| arrived.endpoint).collect::<Vec<_>>(), endpoints);
    }

    #[test]
    fn what_is_too_long_is_read_as_far_as_its_name_and_what_follows_is_read() {
        let long = "x\\\"}]".repeat(limits::ELEMENT_MAX_BYTES / 4);
        let names = r#""dnsName":"a.example.com","recordType":"A","labels":{"resource":"ingress/n/a"}"#;
        for (label, element, kind) in [
            ("a property", format!(r#"{{{names},"providerSpecific":[{{"value":"{long}"}}]}}"#), "A"),
            (
                "a target",
                format!(r#"{{"dnsName":"a.example.com","targets":["{long}"],"recordType":"A"}}"#),
                "",
            ),
        ] {
            let body = format!(r#"[{{"dnsName":"before"}},{element},{{"dnsName":"after"}}]"#);
            let arrived = read(Shape::Endpoints, &body).unwrap();
            let names: Vec<(&str, bool)> =
                arrived.iter().map(|arrived| (&*arrived.endpoint.dns_name, arrived.is_whole)).collect();
            assert_eq!(names, [("before", true), ("a.example.com", false), ("after", true)], "{label}");
            assert_eq!(arrived[1].endpoint.record_type, kind, "{label}");
        }
        let nameless = format!(r#"[{{"setIdentifier":"{long}","dnsName":"a.example.com"}}]"#);
        let (status, said) = read(Shape::Endpoints, &nameless).unwrap_err();
        assert_eq!(status, 503);
        assert!(said.contains("more than 128 KiB"), "{said}");
        let cut = format!(r#"[{{{names},"setIdentifier":"{long}"#);
        assert_eq!(read(Shape::Endpoints, &cut).unwrap_err().0, 400);
    }

    /// By what is in it, not by where its pieces end.
    #[test]
    fn whether_an_endpoint_is_too_long_does_not_depend_on_how_it_arrives() {
        let around = r#"{"dnsName":"a","setIdentifier":""}"#.len();
        for (length, expected) in [(limits::ELEMENT_MAX_BYTES, true), (limits::ELEMENT_MAX_BYTES + 1, false)]
        {
            let text = "x".repeat(length - around);
            let element = format!(r#"{{"dnsName":"a","setIdentifier":"{text}"}}"#);
            assert_eq!(element.len(), length);
            for before in [0, 1, 5000, 16_000, 70_000] {
                let body = format!("[{}{element}]", " ".repeat(before));
                let arrived = read(Shape::Endpoints, &body).unwrap();
                assert_eq!(arrived[0].is_whole, expected, "{length} after {before}");
            }
        }
    }

    /// What was read before must not be acted upon.
    #[test]
    fn of_a_malformed_body_the_end_is_never_reached() {
        for body in ["[{}", "[{}]x", "[{},]", "[{}}", "[{\"a\":01}]", "[{}]\u{0}"] {
            let (status, _) = read(Shape::Endpoints, body).unwrap_err();
            assert_eq!(status, 400, "{body}");
        }
    }

    #[test]
    fn a_body_that_ends_early_is_told_from_one_that_is_malformed() {
        let mut share = share_of(1 << 20);
        let deadline = Deadline::after(&SystemClock, Duration::from_secs(60));
        let mut source = &b"[{}]"[..];
        let mut incoming =
            Incoming::new(&mut source, Some(5), Shape::Endpoints, &mut share, deadline, &SystemClock);
        assert!(matches!(incoming.next_endpoint(), Ok(Some(_))));
        assert_eq!(incoming.next_endpoint(), Err(Interrupted));
        let Answer { status, body, .. } = incoming.finish().unwrap();
        assert_eq!(status, 400);
        assert!(String::from_utf8(body).unwrap().contains("announced length"));
    }

    #[test]
    fn what_has_no_room_is_refused_softly_and_the_rest_is_read() {
        let mut share = share_of(64 * 1024);
        let deadline = Deadline::after(&SystemClock, Duration::from_secs(60));
        // Several chunks of it.
        let body = format!("[{}{{}}]", "{},".repeat(CHUNK_BYTES));
        let mut source = body.as_bytes();
        let mut incoming = Incoming::new(
            &mut source,
            Some(body.len()),
            Shape::Endpoints,
            &mut share,
            deadline,
            &SystemClock,
        );
        let mut kept = 0;
        while let Ok(Some(_)) = incoming.next_endpoint() {
            if incoming.keep(10_000).is_err() {
                break;
            }
            kept += 1;
        }
        assert_eq!(kept, 6);
        assert_eq!(incoming.next_endpoint(), Err(Interrupted));
        let answer = incoming.finish().unwrap();
        assert_eq!(answer.status, 503);
        assert!(source.is_empty(), "tiny_http would have to read it");
    }
}
