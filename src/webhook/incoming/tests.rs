use std::io;
use std::time::Duration;

use super::*;
use crate::clock::SystemClock;
use crate::model::Hostname;
use crate::model::endpoint::Changes;
use crate::webhook::budget::Budget;

fn share_of(bytes: usize) -> Share {
    Budget::new(bytes, 0).share(SystemClock.now(), 0)
}

/// Hands over a few bytes at a time.
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
        Some(Response { status, body, .. }) => Err((status, String::from_utf8(body).unwrap())),
    }
}

/// Reads `body` in pieces of several sizes; the outcome must not depend on them.
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
    let all =
        r#"{"delete":[{"dnsName":"d"}],"updateOld":[{"dnsName":"o"},{}],"updateNew":[{"dnsName":"n"},{}]}"#;
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
        ("a target", format!(r#"{{"dnsName":"a.example.com","targets":["{long}"],"recordType":"A"}}"#), ""),
    ] {
        let body = format!(r#"[{{"dnsName":"before"}},{element},{{"dnsName":"after"}}]"#);
        let arrived = read(Shape::Endpoints, &body).unwrap();
        let names: Vec<(&str, bool)> =
            arrived.iter().map(|arrived| (&*arrived.endpoint.dns_name, arrived.is_whole)).collect();
        assert_eq!(names, [("before", true), ("a.example.com", false), ("after", true)], "{label}");
        assert_eq!(arrived[1].endpoint.record_type, kind, "{label}");
    }
    let cut_at_255 = |text: &str| text.bytes().take(255).map(char::from).collect::<String>();
    for (name, shown) in [
        (format!("a.example.com{long}"), cut_at_255(&format!("a.example.com{long}"))),
        (format!("{}.{long}", "é".repeat(127)), format!("{}.", "é".repeat(127))),
        ("é".repeat(128), format!("{}\u{fffd}", "é".repeat(127))),
        (String::new(), String::new()),
    ] {
        let body = format!(r#"[{{"dnsName":"{name}","targets":["{long}"]}},{{"dnsName":"after"}}]"#);
        let arrived = read(Shape::Endpoints, &body).unwrap();
        let names: Vec<(&str, bool)> =
            arrived.iter().map(|arrived| (&*arrived.endpoint.dns_name, arrived.is_whole)).collect();
        assert_eq!(names, [(&*shown, false), ("after", true)]);
        assert!(shown.is_empty() || Hostname::parse(&shown).is_err(), "{shown}");
    }
    for (label, fields, name) in [
        ("no name, as Go leaves an empty one out", format!(r#""targets":["{long}"]"#), ""),
        (
            "the name comes last",
            format!(r#""setIdentifier":"{long}","dnsName":"a.example.com""#),
            "a.example.com",
        ),
        ("with an escape", format!(r#""dnsName":"\u0061.example.com","x":"{long}""#), "a.example.com"),
        ("of a part", format!(r#""x":{{"dnsName":"b"}},"y":["dnsName","b"],"z":"dnsName","x":"{long}""#), ""),
    ] {
        let arrived = read(Shape::Endpoints, &format!("[{{{fields}}}]")).unwrap();
        assert_eq!((&*arrived[0].endpoint.dns_name, arrived[0].is_whole), (name, false), "{label}");
    }
    let cut = format!(r#"[{{{names},"setIdentifier":"{long}"#);
    assert_eq!(read(Shape::Endpoints, &cut).unwrap_err().0, 400);
}

/// The length of an endpoint decides, not the ends of the pieces.
#[test]
fn whether_an_endpoint_is_too_long_does_not_depend_on_how_it_arrives() {
    let around = r#"{"dnsName":"a","setIdentifier":""}"#.len();
    for (length, expected) in [(limits::ELEMENT_MAX_BYTES, true), (limits::ELEMENT_MAX_BYTES + 1, false)] {
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

#[test]
fn a_body_that_ends_early_is_told_from_one_that_is_malformed() {
    let mut share = share_of(1 << 20);
    let deadline = Deadline::after(&SystemClock, Duration::from_secs(60));
    let mut source = &b"[{}]"[..];
    let mut incoming =
        Incoming::new(&mut source, Some(5), Shape::Endpoints, &mut share, deadline, &SystemClock);
    assert!(matches!(incoming.next_endpoint(), Ok(Some(_))));
    assert_eq!(incoming.next_endpoint(), Err(Interrupted));
    let Response { status, body, .. } = incoming.finish().unwrap();
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
    let mut incoming =
        Incoming::new(&mut source, Some(body.len()), Shape::Endpoints, &mut share, deadline, &SystemClock);
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
