//! Finds the kind of an endpoint's target. ExternalDNS accepts any text as the target of a CNAME, so a service
//! without its scheme arrives as a target too.

use std::net::IpAddr;

use crate::ingress::looks_like_service;
use crate::ingress::service::WORDS;
use crate::model::TunnelId;
use crate::model::identifier::TUNNEL_DOMAIN;
use crate::model::text::{MISSPELLING_MAX_EDITS, nearest};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// A service, valid or not.
    Service,
    /// The tunnel with that hostname, configured or not.
    Tunnel(TunnelId),
    /// A malformed hostname of a tunnel.
    MalformedTunnel,
    /// The name of a service of the cluster, to which no public CNAME points. If nothing else names a service, the
    /// target is read as a service without its scheme.
    ClusterName,
    /// An address, or a name of its own.
    Other,
}

/// Decides by the text alone. `cluster_domain` may follow `svc` in the name of a service of the cluster.
pub fn kind_of(target: &str, cluster_domain: &str) -> TargetKind {
    if let Some(tunnel) = TunnelId::from_hostname(target) {
        return TargetKind::Tunnel(tunnel);
    }
    let name = target.trim().to_ascii_lowercase();
    let host = name.split([':', '/']).next().unwrap_or_default();
    if is_near_tunnel_domain(host.trim_end_matches('.')) {
        return TargetKind::MalformedTunnel;
    }
    // No hostname has these characters. An address may, but ExternalDNS makes it an A or AAAA endpoint.
    let is_no_name = target.bytes().any(|byte| b":/".contains(&byte)) && target.parse::<IpAddr>().is_err();
    if is_no_name || looks_like_service(target) {
        return TargetKind::Service;
    }
    let absolute = name.trim_end_matches('.');
    let local = absolute.strip_suffix(cluster_domain).and_then(|rest| rest.strip_suffix('.'));
    if local.unwrap_or(absolute).ends_with(".svc") {
        return TargetKind::ClusterName;
    }
    let is_word = nearest(host, WORDS, MISSPELLING_MAX_EDITS).is_some();
    if is_word { TargetKind::Service } else { TargetKind::Other }
}

/// True if the name ends in the domain of the tunnels' hostnames, or in a misspelling of it.
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
        let tunnel = || TargetKind::Tunnel(TunnelId::parse(ID).expect("an id"));
        let at = |domain: &str| format!("{ID}{domain}");
        for (target, expected) in [
            ("http://web.shop.svc:80", TargetKind::Service),
            ("web.shop.svc:80", TargetKind::Service),
            ("http:/web.shop.svc:80", TargetKind::Service),
            ("http//web.shop.svc:80", TargetKind::Service),
            ("http:web", TargetKind::Service),
            ("htp://web:80", TargetKind::Service),
            ("10.0.0.5:80", TargetKind::Service),
            ("http-status:404", TargetKind::Service),
            ("hello_world", TargetKind::Service),
            ("hello_word", TargetKind::Service),
            ("Bastion", TargetKind::Service),
            ("socks_proxy", TargetKind::Service),
            (&at(".cfargotunnel.com"), tunnel()),
            (&at(".CFargoTunnel.com."), tunnel()),
            (&at(".cfargotunel.com"), TargetKind::MalformedTunnel),
            (&at(".cfargotunnel.con"), TargetKind::MalformedTunnel),
            (&at("cfargotunnel.com"), TargetKind::MalformedTunnel),
            (&at(".cfargotunnelcom"), TargetKind::MalformedTunnel),
            ("x70ff985-a4ef-4643-bbbc-4a0ed4fc8415.cfargotunnel.com", TargetKind::MalformedTunnel),
            ("home.cfargotunnel.com", TargetKind::MalformedTunnel),
            ("cfargotunnel.com", TargetKind::MalformedTunnel),
            (&at(".cfargotunnel.com:443"), TargetKind::MalformedTunnel),
            (&at(".cfargotunel.com/"), TargetKind::MalformedTunnel),
            ("t.svc.cluster.local", TargetKind::ClusterName),
            ("T.ns.SVC.", TargetKind::ClusterName),
            ("t.svc.cluster.test", TargetKind::Other),
            ("svc.cluster.local", TargetKind::Other),
            ("svc", TargetKind::Other),
            ("lb.example.net", TargetKind::Other),
            ("192.0.2.1", TargetKind::Other),
            ("2001:db8::1", TargetKind::Other),
            ("", TargetKind::Other),
            ("com", TargetKind::Other),
        ] {
            assert_eq!(kind_of(target, "cluster.local"), expected, "{target}");
        }
    }
}
