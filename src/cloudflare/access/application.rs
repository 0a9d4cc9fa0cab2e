//! Reads Access applications and policies as the API writes them. Only the needed members of an application are kept,
//! because its policies with all their rules can be long. Each application is read by hand from a JSON value, because
//! derived code for these types takes 23 KB more.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::cloudflare::record::seconds_of;
use crate::model::access::{
    Application, ApplicationKind, AttachedPolicy, Destination, PolicyDecision, ReusablePolicy,
};

/// The types of destinations that no request for a hostname reaches: private networks, Workers, MCP servers.
const ELSEWHERE: [&str; 6] =
    ["private", "via_mcp_server_portal", "worker", "preview_worker", "all_workers", "all_preview_workers"];

/// A policy, in an application or in the account's list.
#[derive(PartialEq)]
pub(super) struct WirePolicy {
    id: Box<str>,
    name: Box<str>,
    decision: PolicyDecision,
    /// The API's description lacks it, but it was seen in both places.
    reusable: Option<bool>,
    precedence: Option<i64>,
}

/// A member that is missing or not of the expected type.
pub(super) struct Unexpected(&'static str);

impl fmt::Display for Unexpected {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} of an application or a policy is missing or not of the expected type", self.0)
    }
}

impl<'de> Deserialize<'de> for Application {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        application(&Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for WirePolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::of(&Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// A member; absent and `null` are the same.
fn member<'v, T>(
    object: &'v Value,
    name: &'static str,
    read: impl FnOnce(&'v Value) -> Option<T>,
) -> Result<Option<T>, Unexpected> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => read(value).map(Some).ok_or(Unexpected(name)),
    }
}

fn text(object: &Value, name: &'static str) -> Result<Box<str>, Unexpected> {
    Ok(member(object, name, Value::as_str)?.unwrap_or_default().into())
}

fn texts(object: &Value, name: &'static str) -> Result<Vec<Box<str>>, Unexpected> {
    let texts = items(object, name)?.unwrap_or_default().iter();
    texts.map(|one| one.as_str().map(Into::into).ok_or(Unexpected(name))).collect()
}

fn items<'v>(object: &'v Value, name: &'static str) -> Result<Option<&'v [Value]>, Unexpected> {
    member(object, name, |value| value.as_array().map(Vec::as_slice))
}

pub(super) fn application(value: &Value) -> Result<Application, Unexpected> {
    let (id, audience) = (text(value, "id")?, text(value, "aud")?);
    let (kind, destinations) = destinations(value)?;
    let needs_audience = matches!(kind, ApplicationKind::SelfHosted | ApplicationKind::Rendered);
    if id.is_empty() || audience.is_empty() && needs_audience {
        return Err(Unexpected(if id.is_empty() { "id" } else { "aud" }));
    }
    Ok(Application {
        id,
        name: text(value, "name")?,
        audience,
        kind,
        destinations,
        policies: items(value, "policies")?.map(attached).transpose()?,
        tags: texts(value, "tags")?,
        session_duration: Some(text(value, "session_duration")?).filter(|text| !text.is_empty()),
        created_unix_seconds: value.get("created_at").and_then(Value::as_str).and_then(seconds_of),
    })
}

/// The type of an application and its public destinations. A destination of an unknown type makes the application's
/// type unknown, unless that is `Unrelated`. `self_hosted_domains` and `domain` count only without `destinations`.
fn destinations(value: &Value) -> Result<(ApplicationKind, Vec<Destination>), Unexpected> {
    let mut kind = ApplicationKind::parse(&text(value, "type")?);
    let found = items(value, "destinations")?.unwrap_or_default();
    let (domains, domain) = (texts(value, "self_hosted_domains")?, text(value, "domain")?);
    let older = if domains.is_empty() { vec![domain] } else { domains };
    let mut uris = if found.is_empty() { older } else { Vec::with_capacity(found.len()) };
    uris.retain(|uri| !uri.is_empty());
    for destination in found {
        if !destination.is_object() {
            return Err(Unexpected("destinations"));
        }
        let (of, uri) = (text(destination, "type")?, text(destination, "uri")?);
        match &*of {
            of if ELSEWHERE.contains(&of) => continue,
            "public" if uri.is_empty() => return Err(Unexpected("the uri of a destination")),
            "public" => {}
            _ if kind == ApplicationKind::Unrelated => {}
            _ => kind = ApplicationKind::Unknown,
        }
        if !uri.is_empty() {
            uris.push(uri);
        }
    }
    Ok((kind, uris.iter().map(|uri| Destination::parse(uri)).collect()))
}

/// An application's policies in order of precedence. A missing decision counts as unknown.
fn attached(found: &[Value]) -> Result<Vec<AttachedPolicy>, Unexpected> {
    let mut policies = found.iter().map(WirePolicy::of).collect::<Result<Vec<_>, _>>()?;
    policies.sort_by_key(|one| one.precedence);
    // `collect` would keep the allocation of the larger type.
    let mut attached = Vec::with_capacity(policies.len());
    attached
        .extend(policies.into_iter().map(|WirePolicy { id, decision, .. }| AttachedPolicy { id, decision }));
    Ok(attached)
}

impl WirePolicy {
    fn of(value: &Value) -> Result<Self, Unexpected> {
        Ok(Self {
            id: member(value, "id", Value::as_str)?.ok_or(Unexpected("id"))?.into(),
            name: text(value, "name")?,
            decision: PolicyDecision::parse(&text(value, "decision")?),
            reusable: member(value, "reusable", Value::as_bool)?,
            precedence: member(value, "precedence", Value::as_i64)?,
        })
    }

    /// The policy; `None` if it belongs to one application.
    pub(super) fn reusable(self) -> Option<ReusablePolicy> {
        let Self { id, name, decision, reusable, precedence: _ } = self;
        (reusable != Some(false)).then_some(ReusablePolicy { id, name, decision })
    }
}
