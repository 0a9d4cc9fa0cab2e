//! The body of a request, and the endpoints in it.
//!
//! Endpoints are handed over one by one, because a list of them takes many times the memory of its text. No write
//! may begin before the last endpoint was handed over, because the rest of the body may be malformed.

use serde::Deserialize;
use serde::de::Error as _;
use serde_json::value::RawValue;
use serde_json::{Deserializer, Error};

use super::Failure;
use crate::limits;
use crate::model::endpoint::Endpoint;
use crate::model::hostname::HOSTNAME_MAX_BYTES;

#[derive(Debug)]
pub struct Body(String);

/// An endpoint of a body.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceivedEndpoint {
    pub endpoint: Endpoint,
    /// False if the endpoint was too long to be kept. It then has only its name, its type and its labels.
    pub is_whole: bool,
}

/// The lists of changes that are read. Up to 0.16.1 ExternalDNS capitalized their names, and wrote `null` for an empty
/// one. The list of the updated endpoints in their former form is not read.
#[derive(Debug, Deserialize)]
pub struct Lists<'t> {
    #[serde(borrow, alias = "Create")]
    create: Option<&'t RawValue>,
    #[serde(borrow, rename = "updateNew", alias = "UpdateNew")]
    update_new: Option<&'t RawValue>,
    #[serde(borrow, alias = "Delete")]
    delete: Option<&'t RawValue>,
}

/// The members that are read of an endpoint that is too long to be kept. Its labels tell its owner.
#[derive(Deserialize)]
struct Names<'t> {
    #[serde(borrow, rename = "dnsName")]
    dns_name: Option<&'t RawValue>,
    #[serde(borrow, rename = "recordType")]
    record_type: Option<&'t RawValue>,
    #[serde(borrow)]
    labels: Option<&'t RawValue>,
}

impl Body {
    /// # Errors
    /// When the bytes are not UTF-8.
    pub fn new(bytes: Vec<u8>) -> Result<Self, Failure> {
        String::from_utf8(bytes).map(Self).map_err(|error| Failure::malformed(error.utf8_error()))
    }

    /// True if `kept` bytes of endpoints fit into memory together with the larger of two: the body, which is there now,
    /// and the `planned` bytes that are needed after the body is dropped.
    pub fn has_room(&self, kept: usize, planned: usize) -> bool {
        kept + planned.max(self.0.len()) <= limits::REQUEST_MEMORY_MAX_BYTES
    }

    /// The memory of the body, emptied, to be used for the answer.
    pub(super) fn into_buffer(self) -> Vec<u8> {
        let mut buffer = self.0.into_bytes();
        buffer.clear();
        buffer
    }

    /// Hands over the endpoints of a list.
    ///
    /// # Errors
    /// When the body is not a list of endpoints.
    pub fn for_each_wanted(&self, each: &mut dyn FnMut(ReceivedEndpoint)) -> Result<(), Failure> {
        read_list(&self.0, each).map_err(Failure::malformed)
    }

    /// The changes, whose endpoints are not read yet.
    ///
    /// # Errors
    /// When the body does not hold changes.
    pub fn changes(&self) -> Result<Lists<'_>, Failure> {
        serde_json::from_str(&self.0).map_err(Failure::malformed)
    }
}

impl Lists<'_> {
    /// Hands over the endpoints to be created, and those to be updated in their wanted form.
    ///
    /// # Errors
    /// When one of the two is no list of endpoints.
    pub fn for_each_wanted(&self, each: &mut dyn FnMut(ReceivedEndpoint)) -> Result<(), Failure> {
        read_member(self.create, each)?;
        read_member(self.update_new, each)
    }

    /// Hands over the endpoints to be deleted.
    ///
    /// # Errors
    /// When this is no list of endpoints.
    pub fn for_each_deleted(&self, each: &mut dyn FnMut(ReceivedEndpoint)) -> Result<(), Failure> {
        read_member(self.delete, each)
    }
}

fn read_member(list: Option<&RawValue>, each: &mut dyn FnMut(ReceivedEndpoint)) -> Result<(), Failure> {
    read_list(list.map_or("[]", RawValue::get), each).map_err(Failure::malformed)
}

/// Hands over the endpoints of a list. `null` counts as an empty list, because Go writes an empty list as `null`.
fn read_list(text: &str, each: &mut dyn FnMut(ReceivedEndpoint)) -> Result<(), Error> {
    let text = text.trim_ascii();
    if text == "null" {
        return Ok(());
    }
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let mut rest = inner.ok_or_else(|| Error::custom("expected a list of endpoints"))?.trim_ascii();
    while !rest.is_empty() {
        let (received, length) = read_endpoint(rest)?;
        each(received);
        rest = rest.get(length..).unwrap_or_default().trim_ascii_start();
        match rest.strip_prefix(',').map(str::trim_ascii_start) {
            None if rest.is_empty() => {}
            Some(next) if !next.is_empty() => rest = next,
            _ => return Err(Error::custom("expected an endpoint behind each ',' and nothing else")),
        }
    }
    Ok(())
}

/// The endpoint at the beginning of `text`, and the length of its own text.
fn read_endpoint(text: &str) -> Result<(ReceivedEndpoint, usize), Error> {
    // serde would also accept an array of the fields in their order.
    if !text.starts_with('{') {
        return Err(Error::custom("expected an endpoint"));
    }
    let window = text.get(..text.floor_char_boundary(limits::ENDPOINT_JSON_MAX_BYTES)).unwrap_or_default();
    match read_value(window) {
        Ok((endpoint, length)) => Ok((ReceivedEndpoint { endpoint, is_whole: true }, length)),
        Err(error) if error.is_eof() && window.len() < text.len() => {
            let (Names { dns_name, record_type, labels }, length) = read_value(text)?;
            let (dns_name, record_type, labels) = (name(dns_name), short(record_type), short(labels));
            let endpoint = Endpoint { dns_name, record_type, labels, ..Endpoint::default() };
            Ok((ReceivedEndpoint { endpoint, is_whole: false }, length))
        }
        Err(error) => Err(error),
    }
}

/// The value at the beginning of `text`, and the length of its own text.
fn read_value<'t, T: Deserialize<'t>>(text: &'t str) -> Result<(T, usize), Error> {
    let mut values = Deserializer::from_str(text).into_iter();
    let value = values.next().unwrap_or_else(|| Err(Error::custom("expected a value")))?;
    Ok((value, values.byte_offset()))
}

/// The parsed value, or the default if the text is too long or has another form.
fn short<T: Default + for<'t> Deserialize<'t>>(text: Option<&RawValue>) -> T {
    let text = text.map(RawValue::get).filter(|text| text.len() <= limits::ENDPOINT_MAX_BYTES);
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// The name. If the name is too long, its beginning is returned, which has more characters than a hostname.
fn name(text: Option<&RawValue>) -> String {
    match text.map(RawValue::get) {
        Some(long) if long.len() > limits::ENDPOINT_MAX_BYTES => {
            let beginning = long.get(..long.floor_char_boundary(4 * (HOSTNAME_MAX_BYTES + 1) + 1));
            beginning.unwrap_or_default().trim_start_matches('"').to_owned()
        }
        _ => short(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Hostname;
    use crate::model::endpoint::Changes;

    fn changes(text: &str) -> Changes {
        let mut changes = Changes::default();
        let body = Body::new(text.into()).unwrap();
        let lists = body.changes().expect(text);
        lists.for_each_wanted(&mut |received| changes.wanted.push(received.endpoint)).expect(text);
        lists.for_each_deleted(&mut |received| changes.deleted.push(received.endpoint)).expect(text);
        changes
    }

    fn wanted(text: String) -> Vec<ReceivedEndpoint> {
        let mut all = Vec::new();
        Body::new(text.into()).unwrap().for_each_wanted(&mut |arrived| all.push(arrived)).expect("a list");
        all
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
            assert_eq!(changes.wanted.len(), 1, "{text}");
            assert_eq!(changes.deleted, [], "{text}");
        }
        assert_eq!(changes("{}\n"), Changes::default());
        let endpoint = |name: &str| Endpoint { dns_name: name.to_owned(), ..Endpoint::default() };
        let all = r#"{"delete":[{"dnsName":"d"}],"updateOld":[{"dnsName":"o"},{}],"updateNew":[{"dnsName":"n"},{}]}"#;
        let expected = Changes { wanted: vec![endpoint("n"), endpoint("")], deleted: vec![endpoint("d")] };
        assert_eq!(changes(all), expected);
    }

    #[test]
    fn of_an_endpoint_that_is_too_long_its_name_type_and_labels_are_read_and_what_follows_is_read() {
        let long = "x\\\"}]".repeat(limits::ENDPOINT_JSON_MAX_BYTES / 4);
        let labels = r#""labels":{"resource":"ingress/n/a"}"#;
        for (label, fields, name, kind) in [
            (
                "a property",
                format!(
                    r#""dnsName":"a.test","recordType":"A",{labels},"providerSpecific":[{{"value":"{long}"}}]"#
                ),
                "a.test",
                "A",
            ),
            (
                "the name comes last",
                format!(r#""targets":["{long}"],{labels},"recordType":"A","dnsName":"a.test""#),
                "a.test",
                "A",
            ),
            ("with an escape", format!(r#""dnsName":"\u0061.test",{labels},"x":"{long}""#), "a.test", ""),
            ("no name, as Go leaves an empty one out", format!(r#"{labels},"targets":["{long}"]"#), "", ""),
            ("of a part", format!(r#""x":{{"dnsName":"b"}},{labels},"y":["dnsName","{long}"]"#), "", ""),
        ] {
            let arrived = wanted(format!(r#"[{{"dnsName":"before"}},{{{fields}}},{{"dnsName":"after"}}]"#));
            let names: Vec<(&str, bool)> =
                arrived.iter().map(|arrived| (&*arrived.endpoint.dns_name, arrived.is_whole)).collect();
            assert_eq!(names, [("before", true), (name, false), ("after", true)], "{label}");
            assert_eq!(arrived[1].endpoint.record_type, kind, "{label}");
            assert_eq!(arrived[1].endpoint.labels.value("resource"), Some("ingress/n/a"), "{label}");
        }
    }

    #[test]
    fn a_name_or_labels_that_are_too_long_themselves_are_not_held() {
        for text in ["a", "é"] {
            let long = text.repeat(limits::ENDPOINT_JSON_MAX_BYTES);
            let arrived = wanted(format!(r#"[{{"dnsName":"{long}","labels":{{"resource":"{long}"}}}}]"#));
            let name = &*arrived[0].endpoint.dns_name;
            assert!(long.starts_with(name) && Hostname::parse(name).is_err(), "{name}");
            assert!(arrived[0].endpoint.labels.is_empty());
        }
    }

    #[test]
    fn the_length_of_its_text_decides_whether_an_endpoint_is_too_long() {
        let around = r#"{"dnsName":"a","setIdentifier":""}"#.len();
        for (length, expected) in
            [(limits::ENDPOINT_JSON_MAX_BYTES, true), (limits::ENDPOINT_JSON_MAX_BYTES + 1, false)]
        {
            let text = "x".repeat(length - around);
            let arrived = wanted(format!(r#"[ {{"dnsName":"a","setIdentifier":"{text}"}} ]"#));
            assert_eq!(arrived[0].is_whole, expected, "{length}");
        }
    }
}
