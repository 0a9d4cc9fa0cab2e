//! The settings of every decision, which no request changes.

use std::net::SocketAddr;
use std::time::Duration;

use crate::ingress::{OriginRequest, Service};
use crate::model::{DomainFilter, TunnelId, hostname};
use crate::reconcile::adopt::Adopt;
use crate::reconcile::service_template::{NAMESPACE, ServiceTemplate};

/// The operator's settings, and the tunnels as they were found.
#[derive(Clone, Debug)]
pub struct Settings {
    pub operator: OperatorSettings,
    tunnels: Vec<ConfiguredTunnel>,
}

/// A tunnel that the webhook may write to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfiguredTunnel {
    pub id: TunnelId,
    /// The name at Cloudflare, or the id if the name is unknown.
    pub name: Box<str>,
    /// True if its `cloudflared` had a configuration file when the tunnel was found. For a tunnel that was never
    /// configured at Cloudflare, there is no other sign of such a file.
    pub is_locally_managed: bool,
}

impl Settings {
    /// Settings for at least one tunnel.
    pub fn new(operator: OperatorSettings, default: ConfiguredTunnel, others: Vec<ConfiguredTunnel>) -> Self {
        let mut tunnels = vec![default];
        tunnels.extend(others);
        Self { operator, tunnels }
    }

    /// The configured tunnels, the default first.
    pub fn tunnels(&self) -> &[ConfiguredTunnel] {
        &self.tunnels
    }

    /// The tunnel of an endpoint that names no tunnel.
    pub fn default_tunnel(&self) -> &TunnelId {
        &self.tunnels.first().expect("new() demands one").id
    }

    pub fn is_configured(&self, tunnel: &TunnelId) -> bool {
        self.tunnels.iter().any(|configured| configured.id == *tunnel)
    }

    /// The configured tunnel with that name or id; `true` is the default tunnel, unless a tunnel has this name.
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

/// The settings that need no look-up at Cloudflare.
#[derive(Clone, Debug)]
pub struct OperatorSettings {
    /// `OWNER_ID`: part of every stamp. A record with another owner is not ours.
    pub owner: Box<str>,
    /// `DOMAIN_FILTER` and related settings: the names that may be published.
    pub filter: DomainFilter,
    /// `DEFAULT_SERVICE`: the service of an address or CNAME that names no service, but has a property of ours.
    pub default_service: Option<ServiceTemplate>,
    /// `PUBLISH=all`: the default service also applies to addresses and CNAMEs without a property of ours.
    pub publish_all: bool,
    /// `ORIGIN_*`: the options of rules whose endpoints do not set these options.
    pub origin_defaults: OriginRequest,
    /// `ORIGIN_CA_POOLS`: files that an endpoint may name as `caPool`, besides the file of `origin_defaults`.
    pub ca_pools: Vec<Box<str>>,
    /// The program's own addresses, which no endpoint may publish.
    pub own_addresses: Vec<SocketAddr>,
    /// `MASS_DELETION_LIMIT`: the number of hostnames that one request may withdraw regardless of their share; 0 allows
    /// any number.
    pub mass_deletion_limit: usize,
    /// `MOVE_GRACE`: the time for which a rule is preserved after the record was changed to another tunnel.
    pub move_grace: Duration,
    /// `ADOPT`: the foreign records, rules and applications that may be taken over.
    pub adopt: Adopt,
    /// `NAMESPACE_GUARD`: separates namespaces.
    pub namespace_guard: bool,
    /// `SHARED_SERVICES`: services that objects of any namespace may publish under the guard. Each has a host.
    pub shared_services: Vec<Service>,
    /// `NAMESPACE_DOMAINS`: the names that each namespace may publish under the guard; an empty list allows all names.
    pub namespace_domains: Vec<NamespaceDomain>,
    /// `CLUSTER_DOMAIN`: the domain that may follow `svc` in the name of a service of the cluster.
    pub cluster_domain: Box<str>,
    /// The webhook runs in a pod, and cloudflared most likely does too.
    pub in_cluster: bool,
    /// `ACCESS_GUARD`: nothing is published that visitors may reach without a login.
    pub access_guard: bool,
    /// `DEFAULT_ACCESS_POLICY`: the policies of every rule whose endpoint sets neither policies nor an Access check.
    pub default_access_policy: Vec<Box<str>>,
    /// `ACCESS_OPT_OUT`: an endpoint may ask to be open.
    pub access_opt_out: bool,
    /// `ACCESS_POLICIES`: the policies that objects may name; `None` allows all or, under `NAMESPACE_GUARD`, only those
    /// of `DEFAULT_ACCESS_POLICY`.
    pub access_policies: Option<Vec<Box<str>>>,
}

impl OperatorSettings {
    /// True if the settings alone make something depend on Access.
    pub fn needs_access(&self) -> bool {
        self.access_guard || !self.default_access_policy.is_empty() || self.access_policies.is_some()
    }

    /// The setting that configures Access for all rules, and so conflicts with a rule's own annotations for an Access
    /// check. `requires` is true if these annotations make the rule refuse visitors without a token.
    pub fn conflict_with_check(&self, requires: bool) -> Option<&'static str> {
        let is_opt_out = requires && self.access_opt_out;
        if self.access_guard {
            Some("ACCESS_GUARD")
        } else if !self.default_access_policy.is_empty() && !is_opt_out {
            Some("DEFAULT_ACCESS_POLICY")
        } else {
            None
        }
    }
}

/// The namespace of an entry that applies to all namespaces.
pub const EVERY_NAMESPACE: &str = "*";

/// An entry of `NAMESPACE_DOMAINS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceDomain {
    pub namespace: Box<str>,
    /// As in `DOMAIN_FILTER`, with `{namespace}` in place of the namespace.
    pub domain: Box<str>,
}

impl NamespaceDomain {
    /// The domain for a namespace.
    pub fn domain_of(&self, namespace: &str) -> String {
        hostname::normalize(&self.domain.replace(NAMESPACE, namespace))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::operator_settings;

    #[test]
    fn access_is_needed_for_the_guard_and_for_every_setting_that_names_policies() {
        let with = |is_guarded: bool, default: bool, listed: bool| OperatorSettings {
            access_guard: is_guarded,
            default_access_policy: if default { vec!["staff".into()] } else { Vec::new() },
            access_policies: listed.then(|| vec!["staff".into()]),
            ..operator_settings("default")
        };
        for (is_guarded, default, listed, needs) in [
            (false, false, false, false),
            (true, false, false, true),
            (false, true, false, true),
            (false, false, true, true),
            (false, true, true, true),
        ] {
            let policy = with(is_guarded, default, listed);
            assert_eq!(policy.needs_access(), needs, "{policy:?}");
        }
    }
}
