//! Reads the protocol's media types as RFC 9110 defines them: case and blanks do not matter, parameters, quality and
//! ranges are allowed. It writes them byte for byte, because ExternalDNS compares strings.

use std::borrow::Cow;

/// The dialects of the protocol that this program speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// The dialect of every released ExternalDNS.
    Webhook,
    /// The draft of the protocol, which some clients still speak.
    Plugin,
}

/// A member of the list in `Accept`, or the single value of `Content-Type`.
#[derive(Debug)]
struct MediaRange<'a> {
    kind: &'a str,
    subtype: &'a str,
    version: Option<Cow<'a, str>>,
    /// In thousandths.
    quality: u16,
}

impl Protocol {
    const ALL: [Self; 2] = [Self::Webhook, Self::Plugin];

    pub fn media_type(self) -> &'static str {
        match self {
            Self::Webhook => "application/external.dns.webhook+json;version=1",
            Self::Plugin => "application/external.dns.plugin+json;version=1",
        }
    }

    fn subtype(self) -> &'static str {
        match self {
            Self::Webhook => "external.dns.webhook+json",
            Self::Plugin => "external.dns.plugin+json",
        }
    }
}

/// The protocol that `Content-Type` names. A missing version counts as ours; a different one does not. Parameters such
/// as `charset` are ignored.
pub fn of_content(values: &[&str]) -> Option<Protocol> {
    let [value] = values else {
        return None;
    };
    let range = parse(value)?;
    Protocol::ALL
        .into_iter()
        .find(|protocol| specificity(&range, *protocol).is_some_and(|specificity| specificity >= EXACT))
}

/// Chooses the protocol of the answer from all `Accept` values of a request; `preferred` breaks a tie. `None` if they
/// exclude both. No value at all accepts everything.
pub fn negotiate(accept: &[&str], preferred: Protocol) -> Option<Protocol> {
    if accept.iter().all(|value| value.trim().is_empty()) {
        return Some(preferred);
    }
    let ranges: Vec<MediaRange<'_>> =
        accept.iter().flat_map(|value| split_unquoted(value, b',')).filter_map(parse).collect();
    Protocol::ALL
        .into_iter()
        .filter_map(|protocol| {
            // The most specific range for a type decides, wherever it stands in the list.
            let (specificity, quality) = ranges
                .iter()
                .filter_map(|range| Some((specificity(range, protocol)?, range.quality)))
                .max()?;
            (quality > 0).then_some((quality, specificity, protocol == preferred, protocol))
        })
        .max_by_key(|(quality, specificity, is_preferred, _)| (*quality, *specificity, *is_preferred))
        .map(|(.., protocol)| protocol)
}

/// A range of this specificity or more names the type itself.
const EXACT: u8 = 2;

/// The specificity of `range` for the protocol's type, or `None` if the range does not include it.
fn specificity(range: &MediaRange<'_>, protocol: Protocol) -> Option<u8> {
    let version_fits = range.version.as_deref().is_none_or(|version| version == "1");
    if !version_fits {
        return None;
    }
    match (range.kind, range.subtype) {
        ("*", "*") => Some(0),
        (kind, subtype) if kind.eq_ignore_ascii_case("application") => {
            if subtype == "*" {
                Some(1)
            } else if subtype.eq_ignore_ascii_case(protocol.subtype()) {
                Some(EXACT + u8::from(range.version.is_some()))
            } else {
                None
            }
        }
        _ => None,
    }
}

fn parse(text: &str) -> Option<MediaRange<'_>> {
    let mut parts = split_unquoted(text, b';');
    let (kind, subtype) = parts.next()?.split_once('/')?;
    let (kind, subtype) = (kind.trim(), subtype.trim());
    if !is_token(kind) || !is_token(subtype) {
        return None;
    }
    let mut range = MediaRange { kind, subtype, version: None, quality: 1000 };
    for parameter in parts {
        // A stray semicolon means nothing.
        if parameter.trim().is_empty() {
            continue;
        }
        let (name, value) = parameter.split_once('=')?;
        let value = unquote(value.trim())?;
        match name.trim() {
            name if name.eq_ignore_ascii_case("q") => range.quality = quality(&value)?,
            name if name.eq_ignore_ascii_case("version") => range.version = Some(value),
            name if is_token(name) => {}
            _ => return None,
        }
    }
    Some(range)
}

/// Splits at `separator`, but not inside a quoted string.
fn split_unquoted(text: &str, separator: u8) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let current = rest?;
        let mut in_quotes = false;
        let mut escaped = false;
        let end = current.bytes().position(|byte| {
            if escaped {
                escaped = false;
                return false;
            }
            match byte {
                b'\\' if in_quotes => escaped = true,
                b'"' => in_quotes = !in_quotes,
                _ => return byte == separator && !in_quotes,
            }
            false
        });
        let (part, left) = match end.and_then(|end| current.split_at_checked(end)) {
            Some((part, left)) => (part, left.get(1..)),
            None => (current, None),
        };
        rest = left;
        Some(part)
    })
}

fn unquote(value: &str) -> Option<Cow<'_, str>> {
    let Some(inner) = value.strip_prefix('"') else {
        return is_token(value).then_some(Cow::Borrowed(value));
    };
    let inner = inner.strip_suffix('"')?;
    if !inner.contains('\\') {
        return Some(Cow::Borrowed(inner));
    }
    let mut text = String::with_capacity(inner.len());
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        text.push(if character == '\\' { characters.next()? } else { character });
    }
    Some(Cow::Owned(text))
}

/// Reads `1`, `0.5` or `0.123`, in thousandths.
fn quality(text: &str) -> Option<u16> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 3 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let thousandths: u16 = format!("{fraction:0<3}").parse().ok()?;
    match (whole, thousandths) {
        ("0", _) => Some(thousandths),
        ("1", 0) => Some(1000),
        _ => None,
    }
}

fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    use Protocol::{Plugin, Webhook};

    const WEBHOOK: &str = "application/external.dns.webhook+json;version=1";
    const PLUGIN: &str = "application/external.dns.plugin+json;version=1";

    #[test]
    fn a_content_type_is_read_as_a_media_type() {
        for (value, expected) in [
            (WEBHOOK, Some(Webhook)),
            (PLUGIN, Some(Plugin)),
            ("Application/External.DNS.Webhook+JSON; Version=1", Some(Webhook)),
            (" application/external.dns.webhook+json ; version = \"1\" ", Some(Webhook)),
            ("application/external.dns.webhook+json;version=\"\\1\"", Some(Webhook)),
            ("application/external.dns.webhook+json;charset=utf-8;version=1", Some(Webhook)),
            ("application/external.dns.webhook+json;note=\"a;version=2\"", Some(Webhook)),
            ("application/external.dns.webhook+json", Some(Webhook)),
            ("application/external.dns.webhook+json;", Some(Webhook)),
            ("application/external.dns.webhook+json;version=2", None),
            ("application/external.dns.webhook+json;version=", None),
            ("application/external.dns.webhook+json;version", None),
            ("application/external.dns.webhook+json;version=\"1", None),
            ("application/external.dns.webhook+jsonx;version=1", None),
            ("application/json", None),
            ("application/*", None),
            ("*/*", None),
            ("text/external.dns.webhook+json;version=1", None),
            ("", None),
            ("/", None),
            ("\"", None),
        ] {
            assert_eq!(of_content(&[value]), expected, "{value:?}");
        }
    }

    #[test]
    fn a_content_type_given_twice_or_not_at_all_is_none() {
        assert_eq!(of_content(&[]), None);
        assert_eq!(of_content(&[WEBHOOK, WEBHOOK]), None);
    }

    #[test]
    fn accept_is_negotiated() {
        for (values, expected) in [
            (&[][..], Some(Webhook)),
            (&[""], Some(Webhook)),
            (&["*/*"], Some(Webhook)),
            (&["application/*"], Some(Webhook)),
            (&[WEBHOOK], Some(Webhook)),
            (&[PLUGIN], Some(Plugin)),
            (&["text/html, */*;q=0.1"], Some(Webhook)),
            (&["application/external.dns.plugin+json, */*"], Some(Plugin)),
            (
                &[
                    "application/external.dns.webhook+json;q=0.5",
                    "application/external.dns.plugin+json;q=0.6",
                ],
                Some(Plugin),
            ),
            (
                &[
                    "application/external.dns.webhook+json;version=1,application/external.dns.plugin+json;version=1",
                ],
                Some(Webhook),
            ),
            (&["*/*, application/external.dns.webhook+json;q=0"], Some(Plugin)),
            (
                &[
                    "application/external.dns.webhook+json;version=2, application/external.dns.webhook+json;version=1",
                ],
                Some(Webhook),
            ),
            (&["text/html;title=\"a, */*\""], None),
            (&["application/external.dns.webhook+json;version=2"], None),
            (&["application/json"], None),
            (&["text/*"], None),
            (&["*/*;q=0"], None),
            (&["*/*;q=0.000"], None),
            (&["*/*;q=2"], None),
            (&["*/*;q=0.1234"], None),
            (&["nonsense"], None),
        ] {
            assert_eq!(negotiate(values, Webhook), expected, "{values:?}");
        }
    }

    #[test]
    fn where_accept_leaves_the_choice_the_requests_own_type_decides() {
        assert_eq!(negotiate(&[], Plugin), Some(Plugin));
        assert_eq!(negotiate(&["*/*"], Plugin), Some(Plugin));
        assert_eq!(negotiate(&[WEBHOOK], Plugin), Some(Webhook));
    }

    #[test]
    fn arbitrary_text_is_never_taken_for_the_type() {
        for text in ["application/external.dns.webhook+json\\", "\"\\", "a/b;c=\"\\", ",;,;/", "é/é"] {
            assert_eq!(of_content(&[text]), None, "{text:?}");
            assert_eq!(negotiate(&[text], Webhook), None, "{text:?}");
        }
    }
}
