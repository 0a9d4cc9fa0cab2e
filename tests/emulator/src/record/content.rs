//! The content of a record by type, and the names in it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::{Map, Value};

use crate::answer::Refusal;
use crate::record::draft::text;

/// Longest content of a TXT record, in bytes.
const TXT_LIMIT_BYTES: usize = 4096;
/// Longest string inside a TXT record, in bytes.
const TXT_STRING_LIMIT_BYTES: usize = 255;

/// Reads content and priority by the rules of the type. The other types have no test that needs them.
pub(super) fn parse(
    kind: &str,
    name: &str,
    members: &Map<String, Value>,
) -> Result<(String, Option<u64>), Refusal> {
    let content = text(members, "content")?
        .ok_or_else(|| Refusal::dns_validation(9207, "content is a required field"))?;
    let content = content.trim().to_owned();
    let plain = |content| (content, None);
    match kind {
        "A" => match content.parse::<Ipv4Addr>() {
            Ok(address) => Ok(plain(address.to_string())),
            Err(_) => {
                Err(Refusal::dns_validation(9005, "Content for A record must be a valid IPv4 address."))
            }
        },
        "AAAA" => match content.parse::<Ipv6Addr>() {
            Ok(address) => Ok(plain(address.to_string())),
            Err(_) => {
                Err(Refusal::dns_validation(9006, "Content for AAAA record must be a valid IPv6 address."))
            }
        },
        "CNAME" => {
            let target = hostname(&content, 9007, kind)?;
            if target == name {
                return Err(Refusal::dns_validation(9039, "A CNAME record cannot point to itself."));
            }
            Ok(plain(target))
        }
        "NS" => hostname(&content, 9007, kind).map(plain),
        "MX" => {
            let priority = number(members, "priority", 65_535)?;
            Ok((hostname(&content, 9009, kind)?, Some(priority)))
        }
        "TXT" => txt(&content).map(plain),
        _ => Err(Refusal::dns_validation(9004, format!("DNS record type \"{kind}\" is invalid."))),
    }
}

fn number(members: &Map<String, Value>, name: &str, most: u64) -> Result<u64, Refusal> {
    let value = members.get(name).and_then(Value::as_u64).filter(|value| *value <= most);
    value.ok_or_else(|| Refusal::dns_validation(9020, format!("{name} is a required field")))
}

/// A hostname as content: without its trailing dot, and `.` for none.
fn hostname(content: &str, code: u32, kind: &str) -> Result<String, Refusal> {
    let name = to_ascii(content.strip_suffix('.').unwrap_or(content));
    name.filter(|name| is_hostname(name))
        .ok_or_else(|| Refusal::dns_validation(code, format!("Content for {kind} record is invalid.")))
}

/// Quotes are neither added nor taken off, but they have to be consistent; long strings are split.
fn txt(content: &str) -> Result<String, Refusal> {
    let invalid = |message: &str| Refusal::dns_validation(9208, message.to_owned());
    if content.len() > TXT_LIMIT_BYTES {
        return Err(invalid("Content for TXT record is too long."));
    }
    if !content.contains('"') {
        return Ok(if content.len() <= TXT_STRING_LIMIT_BYTES {
            content.to_owned()
        } else {
            quoted(&[content])
        });
    }
    let strings =
        quoted_strings(content).ok_or_else(|| invalid("Content for TXT record has inconsistent quotes."))?;
    Ok(quoted(&strings.iter().map(String::as_str).collect::<Vec<_>>()))
}

/// The strings of `"a" "b"`, escapes kept; `None` when the text is anything else.
fn quoted_strings(content: &str) -> Option<Vec<String>> {
    let mut strings = Vec::new();
    let mut rest = content.trim_start();
    while !rest.is_empty() {
        let mut string = String::new();
        let mut characters = rest.strip_prefix('"')?.chars();
        loop {
            match characters.next()? {
                '"' => break,
                '\\' => string.extend(['\\', characters.next()?]),
                character => string.push(character),
            }
        }
        strings.push(string);
        rest = characters.as_str();
        if !rest.is_empty() && !rest.starts_with(' ') {
            return None;
        }
        rest = rest.trim_start();
    }
    Some(strings)
}

fn quoted(strings: &[&str]) -> String {
    let mut pieces = Vec::new();
    for string in strings {
        let mut piece = String::new();
        for character in string.chars() {
            if piece.len() + character.len_utf8() > TXT_STRING_LIMIT_BYTES {
                pieces.push(format!("\"{piece}\""));
                piece.clear();
            }
            piece.push(character);
        }
        pieces.push(format!("\"{piece}\""));
    }
    pieces.join(" ")
}

/// Whether Cloudflare can proxy a record of this type and content.
pub(super) fn is_proxiable(kind: &str, content: &str) -> bool {
    check_proxiable(kind, content).is_ok()
}

/// Refuses what Cloudflare cannot proxy.
pub(super) fn check_proxiable(kind: &str, content: &str) -> Result<(), Refusal> {
    let cannot = Err(Refusal::dns_validation(9041, "This DNS record cannot be proxied."));
    match kind {
        "CNAME" => Ok(()),
        "A" | "AAAA" => match content.parse::<IpAddr>() {
            Ok(IpAddr::V4(address)) if is_private(address) => cannot,
            Ok(IpAddr::V6(address)) if is_local(address) => cannot,
            // Cloudflare's own resolver, the one target whose refusal was seen in the wild.
            Ok(address) if address == IpAddr::V4(Ipv4Addr::new(1, 1, 1, 1)) => {
                let text = format!("Target {content} is not allowed for a proxied record.");
                Err(Refusal::dns_validation(9003, text))
            }
            _ => Ok(()),
        },
        _ => cannot,
    }
}

fn is_private(address: Ipv4Addr) -> bool {
    address.is_private() || address.is_loopback() || address.is_link_local() || address.is_unspecified()
}

fn is_local(address: Ipv6Addr) -> bool {
    address.is_loopback()
        || address.is_unspecified()
        || address.is_unique_local()
        || address.is_unicast_link_local()
}

/// Lower-case, with Unicode labels as punycode; `None` where a label has no such form.
pub(crate) fn to_ascii(name: &str) -> Option<String> {
    let labels = name.split('.').map(|label| {
        if label.is_ascii() {
            return Some(label.to_ascii_lowercase());
        }
        punycode::encode(&label.to_lowercase()).ok().map(|encoded| format!("xn--{encoded}"))
    });
    Some(labels.collect::<Option<Vec<_>>>()?.join("."))
}

/// Labels of 1 to 63 letters, digits, `-` and `_`. The DNS takes more, Cloudflare's dashboard less.
pub(crate) fn is_hostname(name: &str) -> bool {
    name.len() <= 253
        && name.split('.').all(|label| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn txt_content_keeps_its_quotes_and_is_split() {
        let long = "x".repeat(300);
        for (sent, stored) in [
            ("plain text", Some("plain text".to_owned())),
            ("\"a\"", Some("\"a\"".to_owned())),
            ("\"a\"  \"b\"", Some("\"a\" \"b\"".to_owned())),
            ("\"a\\\"b\"", Some("\"a\\\"b\"".to_owned())),
            (long.as_str(), Some(format!("\"{}\" \"{}\"", &long[..255], &long[..45]))),
            ("\"a", None),
            ("\"a\" b", None),
            ("a\"b", None),
            ("\"a\"b", None),
        ] {
            assert_eq!(txt(sent).ok(), stored, "{sent}");
        }
    }

    #[test]
    fn names_become_lower_case_punycode() {
        assert_eq!(to_ascii("Bücher.Example").as_deref(), Some("xn--bcher-kva.example"));
    }
}
