//! The pure decisions: what an endpoint means, what ExternalDNS is shown, and what one request will write.
//!
//! Nothing here does I/O, reads a clock or the environment, or logs. Anything that deserves a log line or a metric is
//! returned as a value.

pub mod access;
pub mod adjust;
pub mod adopt;
pub mod canonical;
pub mod foreign;
pub mod groups;
pub mod heritage;
pub mod hint;
pub mod listing;
pub mod namespace;
pub mod permitted;
pub mod plan;
pub mod policy;
pub mod property_name;
pub mod published;
pub mod reading;
pub mod records;
pub mod route;
pub mod service_template;
pub mod snapshot;
pub mod stamp;
pub mod target;
pub mod wildcard;
mod winner;

use std::fmt;

use crate::limits;
use crate::model::endpoint::Endpoint;
use crate::model::text::one_line;
use crate::model::{LogLine, TunnelId};
pub use crate::reconcile::policy::Policy;
use crate::reconcile::property_name::in_form_of;

/// The base of every decision that no request changes: the policy, and the tunnels as they were found.
#[derive(Clone, Debug)]
pub struct Settings {
    pub policy: Policy,
    tunnels: Vec<ConfiguredTunnel>,
}

/// A tunnel this program may write to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfiguredTunnel {
    pub id: TunnelId,
    /// The name at Cloudflare, or the id if the name is unknown.
    pub name: Box<str>,
    /// True if its `cloudflared` brought a configuration file when the tunnel was found. For a tunnel that was never
    /// configured at Cloudflare, nothing else tells.
    pub is_local: bool,
}

impl Settings {
    /// A policy for at least one tunnel.
    pub fn new(policy: Policy, default: ConfiguredTunnel, others: Vec<ConfiguredTunnel>) -> Self {
        let mut tunnels = vec![default];
        tunnels.extend(others);
        Self { policy, tunnels }
    }

    /// The configured tunnels, the default first.
    pub fn tunnels(&self) -> &[ConfiguredTunnel] {
        &self.tunnels
    }

    /// The tunnel of an endpoint that names none.
    pub fn default_tunnel(&self) -> &TunnelId {
        &self.tunnels.first().expect("new() demands one").id
    }

    pub fn is_configured(&self, tunnel: &TunnelId) -> bool {
        self.tunnels.iter().any(|configured| configured.id == *tunnel)
    }

    /// The configured tunnel with `target` as its hostname.
    pub fn tunnel_of_target(&self, target: &str) -> Option<&TunnelId> {
        let id = TunnelId::from_hostname(target)?;
        self.tunnels.iter().map(|tunnel| &tunnel.id).find(|tunnel| **tunnel == id)
    }

    /// The configured tunnel with that name or id; `true` is the default one, unless a tunnel has this name.
    pub fn tunnel_called(&self, name_or_id: &str) -> Option<&TunnelId> {
        self.tunnels
            .iter()
            .find(|tunnel| tunnel.id.as_str().eq_ignore_ascii_case(name_or_id) || *tunnel.name == *name_or_id)
            .map(|tunnel| &tunnel.id)
            .or_else(|| (name_or_id == "true").then(|| self.default_tunnel()))
    }

    /// A tunnel's name, or its id if it is not configured.
    pub fn name_of<'a>(&'a self, tunnel: &'a TunnelId) -> &'a str {
        let configured = self.tunnels.iter().find(|configured| configured.id == *tunnel);
        configured.map_or(tunnel.as_str(), |configured| &configured.name)
    }

    /// The names of all configured tunnels, for a message.
    pub fn tunnel_names(&self) -> String {
        self.tunnels.iter().map(|tunnel| &*tunnel.name).collect::<Vec<_>>().join(", ")
    }
}

/// Something that an operator should read once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Note {
    pub hostname: Box<str>,
    /// The object, such as `ingress/shop/web`, if there is one and it is known.
    pub resource: Option<Box<str>>,
    pub text: String,
}

impl Note {
    /// A note about a name, whatever object it is of.
    pub(crate) fn about(hostname: &str, text: String) -> Self {
        Self { hostname: hostname.into(), resource: None, text }
    }

    /// A note about an endpoint and its object.
    pub(crate) fn of(endpoint: &Endpoint, text: String) -> Self {
        let resource = endpoint.labels.value(canonical::RESOURCE_LABEL).map(Into::into);
        Self { hostname: endpoint.dns_name.as_str().into(), resource, text }
    }

    pub fn line(&self) -> LogLine {
        let Self { hostname, resource, text } = self;
        LogLine::default().quoted("hostname", &**hostname).quoted("resource", resource.as_deref()).text(
            in_form_of(
                resource.as_deref(),
                &format!("{hostname:?}: {}", one_line(text, limits::PROBLEM_MAX_CHARS)),
            ),
        )
    }
}

impl fmt::Display for Note {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.line().fmt(formatter)
    }
}
