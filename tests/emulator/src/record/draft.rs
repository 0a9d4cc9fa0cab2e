//! What a client wants a record to be, checked on its own: without regard to the zone's other records.
//!
//! Codes 9313, 9041 and 9003 are as met at Cloudflare; the other causes inside a 1004 are numbered by analogy,
//! and nothing should be decided on them.

use serde_json::{Map, Value};

use crate::answer::Refusal;
use crate::record::content;
use crate::zone::{Plan, Zone};

/// A record without what Cloudflare adds.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) content: String,
    pub(crate) priority: Option<u64>,
    pub(crate) proxied: bool,
    pub(crate) ttl: u64,
    pub(crate) comment: Option<String>,
}

impl Draft {
    /// Reads the JSON of a whole record and checks it by the rules of its type and the zone's plan.
    pub(crate) fn parse(zone: &Zone, members: &Map<String, Value>) -> Result<Self, Refusal> {
        let kind = text(members, "type")?
            .ok_or_else(|| Refusal::dns_validation(9004, "type is a required field"))?;
        let name = text(members, "name")?
            .ok_or_else(|| Refusal::dns_validation(9000, "name is a required field"))?;
        let name = full_name(&name, &zone.name)?;
        let proxied = boolean(members, "proxied")?.unwrap_or(false);
        let (content, priority) = content::parse(&kind, &name, members)?;
        if kind == "NS" && name == zone.name {
            return Err(Refusal::dns_validation(9011, "NS records at the apex are managed by Cloudflare."));
        }
        if proxied {
            content::check_proxiable(&kind, &content)?;
        }
        let ttl = ttl(members, proxied)?;
        Ok(Self { name, kind, content, priority, proxied, ttl, comment: comment(members, zone.plan)? })
    }
}

/// A member that is text, or absent.
pub(super) fn text(members: &Map<String, Value>, name: &str) -> Result<Option<String>, Refusal> {
    match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(Refusal::dns_validation(9998, format!("{name} must be a string."))),
    }
}

fn boolean(members: &Map<String, Value>, name: &str) -> Result<Option<bool>, Refusal> {
    match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(value)) => Ok(Some(*value)),
        Some(_) => Err(Refusal::dns_validation(9998, format!("{name} must be a boolean."))),
    }
}

/// The full name in lower-case punycode: `@`, a relative and a full name are all accepted.
pub(crate) fn full_name(name: &str, zone: &str) -> Result<String, Refusal> {
    let invalid = || Refusal::dns_validation(9000, "DNS name is invalid.");
    let name = content::to_ascii(name.strip_suffix('.').unwrap_or(name)).ok_or_else(invalid)?;
    let full = if name == "@" || name == zone {
        zone.to_owned()
    } else if name.strip_suffix(zone).is_some_and(|rest| rest.ends_with('.')) {
        name
    } else {
        format!("{name}.{zone}")
    };
    // A star that is not the first label is taken as it is and is no wildcard; the dashboard warns of it (seen by the
    // authors of cloudflare-tunnel-ingress-controller, pull request 357).
    if content::is_hostname(&full.replace('*', "x")) { Ok(full) } else { Err(invalid()) }
}

fn ttl(members: &Map<String, Value>, proxied: bool) -> Result<u64, Refusal> {
    let ttl = match members.get("ttl") {
        None | Some(Value::Null) => 1,
        Some(value) => {
            value.as_u64().filter(|ttl| *ttl == 1 || (60..=86_400).contains(ttl)).ok_or_else(|| {
                let text = "Invalid TTL. Must be between 60 and 86,400 seconds, or 1 for Automatic.";
                Refusal::dns_validation(9021, text)
            })?
        }
    };
    // A proxied record is always automatic: 300 sent is read back as 1.
    Ok(if proxied { 1 } else { ttl })
}

fn comment(members: &Map<String, Value>, plan: Plan) -> Result<Option<String>, Refusal> {
    let Some(comment) = text(members, "comment")?.filter(|comment| !comment.is_empty()) else {
        return Ok(None);
    };
    if comment.contains(['\n', '\r']) {
        return Err(Refusal::dns_validation(9314, "DNS record comment must not contain line breaks."));
    }
    let (length, limit) = (comment.chars().count(), plan.comment_limit());
    if length > limit {
        let text = format!("DNS record comment has {length} characters, exceeding the limit of {limit}.");
        return Err(Refusal::dns_validation(9313, text));
    }
    Ok(Some(comment))
}
