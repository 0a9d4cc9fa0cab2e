//! The content of a record by type, and the names in it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::{Map, Value};

use crate::answer::Refusal;
use crate::record::draft::text;

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
        // Quotes are neither added nor taken off. Whether they are consistent is not looked at.
        "TXT" => Ok(plain(content)),
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
