//! The settings of every decision, which no request changes.

use crate::model::TunnelId;
use crate::reconcile::operator_settings::OperatorSettings;

/// The operator's settings, and the tunnels as they were found.
#[derive(Clone, Debug)]
pub struct Settings {
    pub operator: OperatorSettings,
    tunnels: Vec<ConfiguredTunnel>,
}

/// A tunnel that the webhook may write.
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
