//! What a visitor of a hostname gets: from the DNS record over the tunnel to the rule.

use std::fmt;

use crate::cloudflare::Cloudflare;
use crate::ingress;
use crate::record::Record;

/// What a visitor gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Visit {
    /// The request reaches a rule of a tunnel.
    Served {
        /// The tunnel, by id.
        tunnel: String,
        /// The rule's 0-based index; `None` for cloudflared's own 503 where there are no rules.
        rule: Option<usize>,
        /// The rule's service.
        service: String,
    },
    /// The name leads past our tunnels: an address, or another name.
    Elsewhere {
        /// The records' type.
        kind: String,
        /// Content of the first one.
        content: String,
    },
    /// No record for this name.
    NoSuchName,
    /// Error 1016: the record leads to a tunnel, but not through Cloudflare's proxy.
    NotProxied,
    /// Error 1033: no such tunnel in the account, a deleted one, or one without a connector.
    NoTunnel,
}

impl fmt::Display for Visit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Served { tunnel, rule: Some(rule), service } => {
                write!(formatter, "{service} by rule {rule} of tunnel {tunnel}")
            }
            Self::Served { tunnel, rule: None, service } => write!(formatter, "{service} by tunnel {tunnel}"),
            Self::Elsewhere { kind, content } => write!(formatter, "{kind} {content}"),
            Self::NoSuchName => formatter.write_str("NXDOMAIN"),
            Self::NotProxied => formatter.write_str("error 1016"),
            Self::NoTunnel => formatter.write_str("error 1033"),
        }
    }
}

/// Follows a visitor of `https://host/path`.
pub(crate) fn visit(cloudflare: &Cloudflare, host: &str, path: &str) -> Visit {
    let host = host.to_ascii_lowercase();
    let Some((account, records)) = resolve(cloudflare, &host) else {
        return Visit::NoSuchName;
    };
    let Some(first) = records.first() else {
        return Visit::NoSuchName;
    };
    let Some(id) = first.content.to_ascii_lowercase().strip_suffix(".cfargotunnel.com").map(str::to_owned)
    else {
        return Visit::Elsewhere { kind: first.kind.clone(), content: first.content.clone() };
    };
    // Any proxied record of a name makes the name proxied.
    if !records.iter().any(|record| record.proxied) {
        return Visit::NotProxied;
    }
    let tunnel = cloudflare.tunnels.iter().find(|tunnel| tunnel.id == id && tunnel.account == account);
    let Some(tunnel) = tunnel.filter(|tunnel| !tunnel.deleted && tunnel.connectors > 0) else {
        return Visit::NoTunnel;
    };
    let config = tunnel.applied_config();
    let rule = ingress::matching_rule(config, &host, path);
    let service = rule.and_then(|rule| ingress::rules(config).into_iter().nth(rule)).map(|rule| rule.service);
    Visit::Served {
        tunnel: tunnel.id.clone(),
        rule,
        service: service.unwrap_or_else(|| "http_status:503".to_owned()),
    }
}

/// The records that answer for a name, and the account of their zone: its own, else those of the wildcard at the
/// closest name above that exists (RFC 4592).
///
/// A zone is asked when it is active, which it becomes with its delegation (`/dns/zone-setups/reference/domain-status/`);
/// till then a zone around it answers for its names. Below NS records a zone's own records are shadowed
/// (`shadowed-records`).
fn resolve<'a>(cloudflare: &'a Cloudflare, host: &str) -> Option<(&'a str, Vec<&'a Record>)> {
    let is_within =
        |name: &str, zone: &str| name == zone || name.strip_suffix(zone).is_some_and(|n| n.ends_with('.'));
    let zones = cloudflare.zones.iter().filter(|zone| is_within(host, &zone.name));
    let zone = zones.filter(|zone| zone.status == "active").max_by_key(|zone| zone.name.len())?;
    let is_delegation =
        |record: &Record| record.kind == "NS" && record.name != zone.name && is_within(host, &record.name);
    if zone.records.iter().any(is_delegation) {
        return None;
    }
    let named = |name: &str| -> Vec<&'a Record> {
        let leads = |kind: &str| matches!(kind, "A" | "AAAA" | "CNAME");
        zone.records.iter().filter(|record| record.name == name && leads(&record.kind)).collect()
    };
    let exists = |name: &str| zone.records.iter().any(|record| is_within(&record.name, name));
    if exists(host) {
        return Some((&zone.account.id, named(host)));
    }
    let mut name = host;
    while let Some((_, above)) = name.split_once('.').filter(|(_, above)| is_within(above, &zone.name)) {
        let wildcard = format!("*.{above}");
        if exists(&wildcard) {
            return Some((&zone.account.id, named(&wildcard)));
        }
        if exists(above) {
            return None;
        }
        name = above;
    }
    None
}
