//! Reads Access applications and policies as the API writes them. Of an application only what is asked for is kept: its
//! policies with all their rules can be long. They are read by hand from a JSON value, one at a time, because derived
//! code for these types takes 15 KB more.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::model::access::{
    Application, ApplicationKind, AttachedPolicy, Decision, Destination, ReusablePolicy,
};

struct WireApplication {
    id: Box<str>,
    name: Option<Box<str>>,
    aud: Option<Box<str>>,
    kind: Option<Box<str>>,
    destinations: Option<Vec<WireDestination>>,
    self_hosted_domains: Option<Vec<Box<str>>>,
    domain: Option<Box<str>>,
    policies: Option<Vec<WirePolicy>>,
    tags: Option<Vec<Box<str>>>,
    session_duration: Option<Box<str>>,
}

struct WireDestination {
    kind: Option<Box<str>>,
    uri: Option<Box<str>>,
}

/// A policy, in an application or in the account's list.
pub(super) struct WirePolicy {
    id: Box<str>,
    name: Option<Box<str>>,
    decision: Option<Box<str>>,
    /// In no description of the API, but met in both places.
    reusable: Option<bool>,
    precedence: Option<i64>,
}

impl<'de> Deserialize<'de> for Application {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let wire = WireApplication::of(&value).map_err(D::Error::custom)?;
        wire.application().map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for WirePolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::of(&Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// A member that is not of the type it has to be.
struct Unexpected(&'static str);

impl fmt::Display for Unexpected {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} of an application or a policy is not of the expected type", self.0)
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

fn text(object: &Value, name: &'static str) -> Result<Option<Box<str>>, Unexpected> {
    member(object, name, |value| value.as_str().map(Into::into))
}

fn texts(object: &Value, name: &'static str) -> Result<Option<Vec<Box<str>>>, Unexpected> {
    member(object, name, |value| value.as_array()?.iter().map(|one| one.as_str().map(Into::into)).collect())
}

fn items<'v>(object: &'v Value, name: &'static str) -> Result<Option<&'v Vec<Value>>, Unexpected> {
    member(object, name, Value::as_array)
}

impl WireDestination {
    fn of(value: &Value) -> Result<Self, Unexpected> {
        if !value.is_object() {
            return Err(Unexpected("destinations"));
        }
        Ok(Self { kind: text(value, "type")?, uri: text(value, "uri")? })
    }
}

impl WirePolicy {
    fn of(value: &Value) -> Result<Self, Unexpected> {
        Ok(Self {
            id: text(value, "id")?.ok_or(Unexpected("id"))?,
            name: text(value, "name")?,
            decision: text(value, "decision")?,
            reusable: member(value, "reusable", Value::as_bool)?,
            precedence: member(value, "precedence", Value::as_i64)?,
        })
    }
}

impl WireApplication {
    fn of(value: &Value) -> Result<Self, Unexpected> {
        let mut destinations = None;
        if let Some(found) = items(value, "destinations")? {
            let all = destinations.insert(Vec::with_capacity(found.len()));
            for one in found {
                all.push(WireDestination::of(one)?);
            }
        }
        let mut policies = None;
        if let Some(found) = items(value, "policies")? {
            let all = policies.insert(Vec::with_capacity(found.len()));
            for one in found {
                all.push(WirePolicy::of(one)?);
            }
        }
        Ok(Self {
            id: text(value, "id")?.ok_or(Unexpected("id"))?,
            name: text(value, "name")?,
            aud: text(value, "aud")?,
            kind: text(value, "type")?,
            destinations,
            self_hosted_domains: texts(value, "self_hosted_domains")?,
            domain: text(value, "domain")?,
            policies,
            tags: texts(value, "tags")?,
            session_duration: text(value, "session_duration")?,
        })
    }
}

impl WireApplication {
    /// The application, or what is wrong with it.
    fn application(self) -> Result<Application, &'static str> {
        if self.id.is_empty() {
            return Err("an application without an id");
        }
        let kind = self.kind();
        let audience = self.aud.unwrap_or_default();
        if audience.is_empty() && matches!(kind, ApplicationKind::SelfHosted | ApplicationKind::Rendered) {
            return Err("an application without an audience");
        }
        Ok(Application {
            id: self.id,
            name: self.name.unwrap_or_default(),
            audience,
            kind,
            destinations: destinations(self.destinations, self.self_hosted_domains, self.domain)?,
            policies: self.policies.map(attached),
            tags: self.tags.unwrap_or_default(),
            session_duration: self.session_duration,
        })
    }

    /// Its type. What an application does that has a destination of an unknown type is not known, either.
    fn kind(&self) -> ApplicationKind {
        let kind = ApplicationKind::parse(self.kind.as_deref().unwrap_or_default());
        let mut destinations = self.destinations.iter().flatten();
        if kind != ApplicationKind::Unrelated && destinations.any(|destination| destination.is_unknown()) {
            return ApplicationKind::Unknown;
        }
        kind
    }
}

impl WireDestination {
    /// True if it is a private network's, a Worker's or an MCP server's, where no visitor of a hostname comes by.
    fn is_elsewhere(&self) -> bool {
        matches!(
            self.kind.as_deref(),
            Some(
                "private"
                    | "via_mcp_server_portal"
                    | "worker"
                    | "preview_worker"
                    | "all_workers"
                    | "all_preview_workers"
            )
        )
    }

    fn is_unknown(&self) -> bool {
        !self.is_elsewhere() && self.kind.as_deref() != Some("public")
    }
}

/// The public destinations. `self_hosted_domains` and `domain` are older forms of `destinations`, which wins over them.
fn destinations(
    destinations: Option<Vec<WireDestination>>,
    domains: Option<Vec<Box<str>>>,
    domain: Option<Box<str>>,
) -> Result<Vec<Destination>, &'static str> {
    let destinations = destinations.unwrap_or_default();
    let domains = domains.unwrap_or_default();
    if destinations.is_empty() {
        let domain = if domains.is_empty() { domain } else { None };
        let uris = domains.into_iter().chain(domain);
        return Ok(uris.filter(|uri| !uri.is_empty()).map(|uri| Destination::parse(&uri)).collect());
    }
    let mut public = Vec::with_capacity(destinations.len());
    for destination in destinations.iter().filter(|destination| !destination.is_elsewhere()) {
        match destination.uri.as_deref() {
            Some(uri) if !uri.is_empty() => public.push(Destination::parse(uri)),
            _ if destination.is_unknown() => {}
            _ => return Err("a public destination without a uri"),
        }
    }
    Ok(public)
}

/// An application's policies in their order. One without a decision has an unknown one.
fn attached(found: Vec<WirePolicy>) -> Vec<AttachedPolicy> {
    let mut policies: Vec<WirePolicy> = Vec::with_capacity(found.len());
    for policy in found {
        let behind = policies.iter().position(|other| other.precedence > policy.precedence);
        policies.insert(behind.unwrap_or(policies.len()), policy);
    }
    // Collected, they would keep the room that the longer form took.
    let mut attached = Vec::with_capacity(policies.len());
    attached.extend(policies.into_iter().map(|policy| AttachedPolicy {
        decision: policy.decision(),
        is_reusable: policy.reusable.unwrap_or_default(),
        id: policy.id,
        name: policy.name.unwrap_or_default(),
    }));
    attached
}

impl WirePolicy {
    fn decision(&self) -> Decision {
        Decision::parse(self.decision.as_deref().unwrap_or_default())
    }

    /// The policy, unless one application alone has it.
    pub(super) fn reusable(self) -> Option<ReusablePolicy> {
        let decision = self.decision();
        (self.reusable != Some(false)).then(|| ReusablePolicy {
            id: self.id,
            name: self.name.unwrap_or_default(),
            decision,
        })
    }
}
