//! Reads the TXT records of ExternalDNS's registry: their names, Cloudflare's quoting, and the owner and the object
//! that they name.

use std::iter::Peekable;
use std::str::Chars;

use crate::model::Record;
use crate::reconcile::snapshot::ZoneSnapshot;
use crate::reconcile::stamp::Stamp;

/// The type in the name of a registry's TXT record for an endpoint of ours.
const WANTED_TYPE: &str = "cname";

const HERITAGE: &str = "heritage=external-dns";
const OWNER: &str = "external-dns/owner=";
const RESOURCE: &str = "external-dns/resource=";

/// The text of a TXT record's content: its quoted strings, unescaped and joined. Content without quotes is its own
/// text.
fn text_of(content: &str) -> String {
    let content = content.trim();
    if !content.starts_with('"') {
        return content.to_owned();
    }
    let mut characters = content.chars().peekable();
    let mut text = String::with_capacity(content.len());
    // Only blanks separate two strings.
    while characters.find(|character| *character == '"').is_some() {
        read_string(&mut characters, &mut text);
    }
    text
}

/// Reads one string, up to the closing quote.
fn read_string(characters: &mut Peekable<Chars<'_>>, text: &mut String) {
    while let Some(character) = characters.next() {
        match character {
            '"' => return,
            '\\' => text.extend(characters.next_if(|next| matches!(next, '"' | '\\')).or(Some('\\'))),
            _ => text.push(character),
        }
    }
}

/// The meaning of a TXT record of ExternalDNS's registry, if it is not encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heritage {
    /// The `--txt-owner-id` of the ExternalDNS that wrote the record.
    pub owner: Box<str>,
    /// The object that the record came from, such as `ingress/shop/web`.
    pub resource: Option<Box<str>>,
}

impl Heritage {
    /// Parses the content of a TXT record; `None` if another program wrote it.
    pub fn parse(content: &str) -> Option<Self> {
        let text = text_of(content);
        let mut labels = text.split(',');
        if labels.next() != Some(HERITAGE) {
            return None;
        }
        let value = |key: &str| labels.clone().find_map(|label| label.strip_prefix(key)).map(Box::from);
        Some(Self { owner: value(OWNER)?, resource: value(RESOURCE) })
    }
}

/// The TXT records of ExternalDNS's registry about a record without a stamp, in the hostname's zone, as parsed.
/// `registry_names` are the names of such records in the request.
pub(super) fn registry_records_about<'a>(
    zone: &'a ZoneSnapshot,
    registry_names: &[Box<str>],
    record: &Record,
) -> Vec<(&'a Record, Heritage)> {
    if Stamp::of(record).is_some() {
        return Vec::new();
    }
    let names = possible_names(registry_names, &record.name);
    let names = names.iter().filter(|(record_type, _)| match record_type {
        Some(record_type) => record.record_type.eq_ignore_ascii_case(record_type),
        None => &*record.record_type != "AAAA",
    });
    // If the TXT record's name also has an address record, the TXT record describes that one: old releases give it the
    // bare name.
    let is_of_another =
        |name: &str| *name != *record.name && zone.records_of(name).iter().any(Record::is_address_or_cname);
    let names = names.map(|(_, name)| name).filter(|name| !is_of_another(name));
    let records = names.flat_map(|name| zone.records_of(name));
    let texts = records.filter(|record| &*record.record_type == "TXT");
    texts.filter_map(|record| Some((record, Heritage::parse(&record.content)?))).collect()
}

/// The object that ExternalDNS's registry names for an address record of `name`.
pub(super) fn resource(zone: &ZoneSnapshot, registry_names: &[Box<str>], name: &str) -> Option<Box<str>> {
    let records = zone.records_of(name).iter().filter(|record| record.is_address_or_cname());
    let mut found = records.flat_map(|record| registry_records_about(zone, registry_names, record));
    found.find_map(|(_, heritage)| heritage.resource)
}

/// The possible names of ExternalDNS's TXT records about `hostname`, each with the type of the described record. Names
/// of old releases contain no type. `registry_names` are the names in this request, which reveal their prefix and
/// suffix. If there are none, no prefix and no suffix is assumed.
fn possible_names(registry_names: &[Box<str>], hostname: &str) -> Vec<(Option<&'static str>, String)> {
    let (label, parent) = hostname.split_once('.').unwrap_or((hostname, ""));
    let default = [format!("{WANTED_TYPE}-{hostname}").into()];
    let registry_names = if registry_names.is_empty() { &default } else { registry_names };
    let mut names = Vec::new();
    for name in registry_names {
        let rest = format!(".{parent}");
        let head = name.strip_suffix(&*rest).unwrap_or(name);
        let [found, in_label] = [head, label].map(|text| text.matches(WANTED_TYPE).count());
        if (found, in_label) != (1, 0) {
            // The position of the type is ambiguous, and another hostname's record must not match.
            names.push(((found != in_label).then_some(WANTED_TYPE), name.to_string()));
            continue;
        }
        let with = |record_type: &str| head.replacen(WANTED_TYPE, record_type, 1) + &rest;
        names.extend([WANTED_TYPE, "a", "aaaa"].map(|record_type| (Some(record_type), with(record_type))));
        // Without a template, the type precedes the label, with a dash.
        let dashed = format!("{WANTED_TYPE}-");
        let is_dashed = head.contains(&format!("{dashed}{label}"));
        names.push((None, if is_dashed { head.replacen(&dashed, "", 1) + &rest } else { with("") }));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heritage_is_read_quoted_unquoted_and_in_several_strings() {
        let text = "heritage=external-dns,external-dns/owner=default,external-dns/resource=ingress/shop/web";
        let (start, end) = text.split_at(40);
        let expected = Heritage { owner: "default".into(), resource: Some("ingress/shop/web".into()) };
        for content in [text.to_owned(), format!("\"{text}\""), format!("\"{start}\" \"{end}\"")] {
            assert_eq!(Heritage::parse(&content).as_ref(), Some(&expected), "{content}");
        }
        let bare =
            Heritage::parse("heritage=external-dns,external-dns/owner=a").expect("a resource may be absent");
        assert_eq!(bare, Heritage { owner: "a".into(), resource: None });
    }

    #[test]
    fn what_another_program_wrote_is_no_heritage() {
        for content in [
            "",
            "\"v=spf1 -all\"",
            "heritage=other,external-dns/owner=a",
            "\"heritage=external-dns\"",
            "\"AbC=\"",
        ] {
            assert_eq!(Heritage::parse(content), None, "{content}");
        }
    }

    #[test]
    fn the_strings_of_a_content_are_unescaped_and_joined() {
        for (content, text) in [
            ("", ""),
            ("\"\"", ""),
            ("a \"b\"", "a \"b\""),
            (r#" "a" "b c" "#, "ab c"),
            (r#""a\"b\\c\d""#, r#"a"b\c\d"#),
            (r#""never closed"#, "never closed"),
        ] {
            assert_eq!(text_of(content), text, "{content}");
        }
    }

    /// `a-cname.example.com` is the TXT record of another hostname.
    #[test]
    fn a_type_that_cannot_be_told_from_the_hostname_leads_to_no_other_name() {
        for (seen, record_type) in [("cname-cname.example.com", Some("cname")), ("x-cname.example.com", None)]
        {
            let names = possible_names(&[seen.into()], "cname.example.com");
            assert_eq!(names, [(record_type, seen.to_owned())]);
        }
    }
}
