//! Reads ExternalDNS's TXT records: Cloudflare's quoting, and the owner that they name.

use std::iter::Peekable;
use std::str::Chars;

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
}
