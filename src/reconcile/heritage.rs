//! Reads and writes ExternalDNS's TXT records: Cloudflare's quoting, and the owner that they name.

use std::iter::Peekable;
use std::str::Chars;

/// A TXT record is a sequence of strings of at most this length each.
const CHARACTER_STRING_MAX_BYTES: usize = 255;

const HERITAGE: &str = "heritage=external-dns";
const OWNER: &str = "external-dns/owner=";
const RESOURCE: &str = "external-dns/resource=";

/// The text of a TXT record's content: its quoted strings, unescaped and joined. Content without quotes is its own
/// text.
pub fn text_of(content: &str) -> String {
    let content = content.trim();
    if !content.starts_with('"') {
        return content.to_owned();
    }
    let mut characters = content.chars().peekable();
    let mut text = String::with_capacity(content.len());
    // Only blanks stand between two strings.
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

/// The content of a TXT record with the text `text`: quoted strings of at most 255 bytes, the limit of DNS.
pub fn content_of(text: &str) -> String {
    let mut content = String::with_capacity(text.len() + 2);
    let mut bytes = 0;
    content.push('"');
    for character in text.chars() {
        if bytes + character.len_utf8() > CHARACTER_STRING_MAX_BYTES {
            content.push_str("\" \"");
            bytes = 0;
        }
        if matches!(character, '"' | '\\') {
            content.push('\\');
        }
        content.push(character);
        bytes += character.len_utf8();
    }
    content.push('"');
    content
}

/// The meaning of a TXT record of ExternalDNS's registry, if it is not encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heritage {
    /// The `--txt-owner-id` that wrote it.
    pub owner: Box<str>,
    /// The object the record came from, such as `ingress/shop/web`.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
    fn long_text_is_written_in_strings_of_255_bytes() {
        let content = content_of(&"x".repeat(600));
        let lengths: Vec<usize> = content.split(' ').map(|string| string.len() - 2).collect();
        assert_eq!(lengths, [255, 255, 90]);
        assert_eq!(content_of(""), "\"\"");
    }

    proptest! {
        #[test]
        fn any_text_survives(text in "\\PC{0,600}") {
            prop_assert_eq!(text_of(&content_of(&text)), text);
        }
    }
}
