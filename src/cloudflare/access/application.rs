//! Reads Access applications and policies as the API writes them. Of an application only what is asked for is kept: its
//! policies with all their rules can be long.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::model::access::{
    Application, ApplicationKind, AttachedPolicy, Decision, Destination, ReusablePolicy,
};

#[derive(Deserialize)]
struct WireApplication {
    id: Box<str>,
    name: Option<Box<str>>,
    aud: Option<Box<str>>,
    #[serde(rename = "type")]
    kind: Option<Box<str>>,
    destinations: Option<Vec<WireDestination>>,
    self_hosted_domains: Option<Vec<Box<str>>>,
    domain: Option<Box<str>>,
    policies: Option<Vec<WirePolicy>>,
    tags: Option<Vec<Box<str>>>,
    session_duration: Option<Box<str>>,
}

#[derive(Deserialize)]
struct WireDestination {
    #[serde(rename = "type")]
    kind: Option<Box<str>>,
    uri: Option<Box<str>>,
}

/// A policy, in an application or in the account's list.
#[derive(Deserialize)]
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
        let wire = WireApplication::deserialize(deserializer)?;
        wire.application().map_err(D::Error::custom)
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
fn attached(mut policies: Vec<WirePolicy>) -> Vec<AttachedPolicy> {
    policies.sort_by_key(|policy| policy.precedence);
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
