//! Finds what an endpoint's target was meant for. ExternalDNS accepts any text as the target of a CNAME, so a service
//! without its scheme arrives as one too.

use std::net::IpAddr;

use crate::ingress::looks_like_service;
use crate::ingress::service::WORDS;
use crate::model::TunnelId;
use crate::model::text::{MISSPELLING_MAX_EDITS, nearest};
use crate::model::tunnel_id::TUNNEL_DOMAIN;

/// The meaning of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A service, valid or not.
    Service,
    /// The tunnel with that hostname, ours or not.
    Tunnel(TunnelId),
    /// A malformed hostname of a tunnel.
    NoTunnel,
    /// The name of a service of the cluster, to which no public CNAME leads: a service without its scheme, unless
    /// something else names one.
    ClusterName,
    /// Something else: an address, or a name of its own.
    Other,
}

/// Judges by the text alone. `cluster_domain` may follow `svc` in the name of a service of the cluster.
pub fn meaning(target: &str, cluster_domain: &str) -> Target {
    if let Some(tunnel) = TunnelId::from_hostname(target) {
        return Target::Tunnel(tunnel);
    }
    let name = target.trim().to_ascii_lowercase();
    let host = name.split([':', '/']).next().unwrap_or_default();
    if is_near_tunnel_domain(host.trim_end_matches('.')) {
        return Target::NoTunnel;
    }
    // No hostname has these characters. An address may, but ExternalDNS makes it an A or AAAA endpoint.
    let is_no_name = target.bytes().any(|byte| b":/".contains(&byte)) && target.parse::<IpAddr>().is_err();
    if is_no_name || looks_like_service(target) {
        return Target::Service;
    }
    let absolute = name.trim_end_matches('.');
    let local = absolute.strip_suffix(cluster_domain).and_then(|rest| rest.strip_suffix('.'));
    if local.unwrap_or(absolute).ends_with(".svc") {
        return Target::ClusterName;
    }
    let is_word = nearest(host, WORDS, MISSPELLING_MAX_EDITS).is_some();
    if is_word { Target::Service } else { Target::Other }
}

/// True if the name ends in the domain of the tunnels' hostnames, or was meant to.
fn is_near_tunnel_domain(name: &str) -> bool {
    let mut ends = name.char_indices().filter_map(|(start, _)| name.get(start..));
    ends.any(|end| nearest(end, [TUNNEL_DOMAIN], MISSPELLING_MAX_EDITS).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "f70ff985-a4ef-4643-bbbc-4a0ed4fc8415";

    #[test]
    fn a_target_means_a_service_a_tunnel_or_a_name_of_its_own() {
        let tunnel = || Target::Tunnel(TunnelId::parse(ID).expect("an id"));
        let at = |domain: &str| format!("{ID}{domain}");
        for (target, expected) in [
            ("http://web.shop.svc:80", Target::Service),
            ("web.shop.svc:80", Target::Service),
            ("http:/web.shop.svc:80", Target::Service),
            ("http//web.shop.svc:80", Target::Service),
            ("http:web", Target::Service),
            ("htp://web:80", Target::Service),
            ("10.0.0.5:80", Target::Service),
            ("http-status:404", Target::Service),
            ("hello_world", Target::Service),
            ("hello_word", Target::Service),
            ("Bastion", Target::Service),
            ("socks_proxy", Target::Service),
            (&at(".cfargotunnel.com"), tunnel()),
            (&at(".CFargoTunnel.com."), tunnel()),
            (&at(".cfargotunel.com"), Target::NoTunnel),
            (&at(".cfargotunnel.con"), Target::NoTunnel),
            (&at("cfargotunnel.com"), Target::NoTunnel),
            (&at(".cfargotunnelcom"), Target::NoTunnel),
            ("x70ff985-a4ef-4643-bbbc-4a0ed4fc8415.cfargotunnel.com", Target::NoTunnel),
            ("home.cfargotunnel.com", Target::NoTunnel),
            ("cfargotunnel.com", Target::NoTunnel),
            (&at(".cfargotunnel.com:443"), Target::NoTunnel),
            (&at(".cfargotunel.com/"), Target::NoTunnel),
            ("t.svc.cluster.local", Target::ClusterName),
            ("T.ns.SVC.", Target::ClusterName),
            ("t.svc.cluster.test", Target::Other),
            ("svc.cluster.local", Target::Other),
            ("svc", Target::Other),
            ("lb.example.net", Target::Other),
            ("192.0.2.1", Target::Other),
            ("2001:db8::1", Target::Other),
            ("", Target::Other),
            ("com", Target::Other),
        ] {
            assert_eq!(meaning(target, "cluster.local"), expected, "{target}");
        }
    }
}
