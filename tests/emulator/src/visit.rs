//! What a visitor of a hostname gets: from the DNS record over Access and the tunnel to the rule.

use std::fmt;

use crate::access::{self, Assertion, Passage, Visitor};
use crate::cloudflare::Cloudflare;
use crate::ingress;
use crate::json::Members;
use crate::record::Record;
use crate::tunnel::Tunnel;
use crate::zone::Zone;

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
        /// The rule's own `originRequest` as it is written, empty where it has none.
        origin_request: String,
        /// The audience of the Access application that let the visitor in; `None` where none asked.
        audience: Option<String>,
    },
    /// Access turns the visitor away at the edge.
    TurnedAway {
        /// The application, by id; `None` where there is none and the account denies that (error 1043).
        application: Option<String>,
    },
    /// cloudflared does not hand the request on, as the rule's `originRequest.access` is not content with it.
    Refused {
        /// The tunnel, by id.
        tunnel: String,
        /// The rule's 0-based index.
        rule: usize,
        /// What it answers: 403 or 502.
        status: u16,
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

impl Visit {
    /// Whether a service answers: that of a rule, if it is no mere error status, or whatever stands elsewhere.
    pub fn is_served(&self) -> bool {
        match self {
            Self::Served { rule, service, .. } => {
                let is_error =
                    ["http_status:4", "http_status:5"].iter().any(|status| service.starts_with(status));
                rule.is_some() && !is_error
            }
            Self::Elsewhere { .. } => true,
            Self::TurnedAway { .. } | Self::Refused { .. } => false,
            Self::NoSuchName | Self::NotProxied | Self::NoTunnel => false,
        }
    }

    /// Whether a visitor cannot tell the two apart. The way to a service is not told, nor which application was on it.
    pub fn is_answered_like(&self, other: &Self) -> bool {
        let told = |visit: &Self| match visit.without_place() {
            Self::Served { tunnel: _, rule, service, origin_request, audience: _ } => {
                Self::Served { tunnel: String::new(), rule, service, origin_request, audience: None }
            }
            Self::Refused { tunnel: _, rule, status } => {
                Self::Refused { tunnel: String::new(), rule, status }
            }
            Self::TurnedAway { application } => {
                Self::TurnedAway { application: application.map(|_| String::new()) }
            }
            visit => visit,
        };
        told(self) == told(other)
    }

    /// Whether both are answered alike and through the same tunnel.
    pub(crate) fn takes_the_way_of(&self, other: &Self) -> bool {
        self.without_place() == other.without_place()
    }

    /// Without the place of the rule in its list, which changes with every rule before it.
    fn without_place(&self) -> Self {
        match self.clone() {
            Self::Served { tunnel, rule, service, origin_request, audience } => {
                Self::Served { tunnel, rule: rule.map(|_| 0), service, origin_request, audience }
            }
            Self::Refused { tunnel, rule: _, status } => Self::Refused { tunnel, rule: 0, status },
            visit => visit,
        }
    }
}

impl fmt::Display for Visit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Served { tunnel, rule: Some(rule), service, .. } => {
                write!(formatter, "{service} by rule {rule} of tunnel {tunnel}")
            }
            Self::Served { tunnel, rule: None, service, .. } => {
                write!(formatter, "{service} by tunnel {tunnel}")
            }
            Self::TurnedAway { application: Some(application) } => {
                write!(formatter, "turned away by application {application}")
            }
            Self::TurnedAway { application: None } => formatter.write_str("error 1043"),
            Self::Refused { tunnel, rule, status } => {
                write!(formatter, "{status} of cloudflared by rule {rule} of tunnel {tunnel}")
            }
            Self::Elsewhere { kind, content } => write!(formatter, "{kind} {content}"),
            Self::NoSuchName => formatter.write_str("NXDOMAIN"),
            Self::NotProxied => formatter.write_str("error 1016"),
            Self::NoTunnel => formatter.write_str("error 1033"),
        }
    }
}

/// Follows a visitor of `https://host/path` that meets the tunnel's first connector.
pub(crate) fn visit(cloudflare: &Cloudflare, visitor: Visitor, host: &str, path: &str) -> Visit {
    visits(cloudflare, visitor, host, path).into_iter().next().unwrap_or(Visit::NoTunnel)
}

/// The same by each connector, equal answers once.
pub(crate) fn visits(cloudflare: &Cloudflare, visitor: Visitor, host: &str, path: &str) -> Vec<Visit> {
    let host = host.to_ascii_lowercase();
    let (tunnel, assertion) = match tunnel_of(cloudflare, visitor, &host, path) {
        Ok(found) => found,
        Err(visit) => return vec![visit],
    };
    let mut visits: Vec<Visit> = Vec::new();
    for config in tunnel.applied_configs() {
        let visit = answer(&tunnel.id, config, assertion.as_ref(), &host, path);
        if !visits.iter().any(|other| other.is_answered_like(&visit)) {
            visits.push(visit);
        }
    }
    visits
}

/// What a connector with this configuration makes of a request.
fn answer(tunnel: &str, config: &str, assertion: Option<&Assertion>, host: &str, path: &str) -> Visit {
    let audience = assertion.map(|assertion| assertion.audience.clone());
    let rule = ingress::matching_rule(config, host, path);
    let Some((rule, found)) =
        rule.and_then(|rule| Some((rule, ingress::rules(config).into_iter().nth(rule)?)))
    else {
        return Visit::Served {
            tunnel: tunnel.to_owned(),
            rule: None,
            service: "http_status:503".to_owned(),
            origin_request: String::new(),
            audience,
        };
    };
    let members = Members::parse(found.raw.get()).unwrap_or_default();
    let origin_request = members.present("originRequest").map(|value| value.get().to_owned());
    let origin_request = origin_request.unwrap_or_default();
    let options = Members::parse(&origin_request).unwrap_or_default();
    if let Some(status) = access::check_rule(&options, assertion) {
        return Visit::Refused { tunnel: tunnel.to_owned(), rule, status };
    }
    Visit::Served {
        tunnel: tunnel.to_owned(),
        rule: Some(rule),
        service: found.service,
        origin_request,
        audience,
    }
}

/// The live tunnel that a hostname leads to and what Access gives the request on its way, or what a visitor gets
/// without.
fn tunnel_of<'a>(
    cloudflare: &'a Cloudflare,
    visitor: Visitor,
    host: &str,
    path: &str,
) -> Result<(&'a Tunnel, Option<Assertion>), Visit> {
    let (zone, records) = resolve(cloudflare, host).ok_or(Visit::NoSuchName)?;
    let first = records.first().ok_or(Visit::NoSuchName)?;
    // Any proxied record of a name makes the name proxied.
    let is_proxied = records.iter().any(|record| record.proxied);
    let content = first.content.to_ascii_lowercase();
    let id = content.strip_suffix(".cfargotunnel.com");
    if id.is_some() && !is_proxied {
        return Err(Visit::NotProxied);
    }
    let access = cloudflare.access_at_edge.as_ref().unwrap_or(&cloudflare.access);
    let covers_sub_paths = cloudflare.whims.paths_cover_sub_paths;
    let passage = if is_proxied {
        access::passage(access, zone, visitor, host, path, covers_sub_paths)
    } else {
        Passage::Free
    };
    let assertion = match passage {
        Passage::Free => None,
        Passage::Asserted(assertion) => Some(assertion),
        Passage::TurnedAway(application) => return Err(Visit::TurnedAway { application }),
    };
    let Some(id) = id else {
        return Err(Visit::Elsewhere { kind: first.kind.clone(), content: first.content.clone() });
    };
    let mut tunnels = cloudflare.tunnels.iter();
    let tunnel = tunnels.find(|tunnel| tunnel.id == id && tunnel.account == zone.account.id);
    let live = tunnel.filter(|tunnel| !tunnel.deleted && tunnel.connectors > 0);
    live.map(|tunnel| (tunnel, assertion)).ok_or(Visit::NoTunnel)
}

/// The records that answer for a name, and their zone: its own, else those of the wildcard at the
/// closest name above that exists (RFC 4592).
///
/// A zone is asked when it is active, which it becomes with its delegation
/// (`/dns/zone-setups/reference/domain-status/`); till then a zone around it answers for its names. Below NS records a
/// zone's own records are shadowed (`shadowed-records`).
fn resolve<'a>(cloudflare: &'a Cloudflare, host: &str) -> Option<(&'a Zone, Vec<&'a Record>)> {
    let is_within =
        |name: &str, zone: &str| name == zone || name.strip_suffix(zone).is_some_and(|n| n.ends_with('.'));
    let zones = cloudflare.zones.iter().filter(|zone| is_within(host, &zone.name));
    let zone = zones.filter(|zone| zone.status == "active").max_by_key(|zone| zone.name.len())?;
    let is_delegation =
        |record: &Record| record.kind == "NS" && record.name != zone.name && is_within(host, &record.name);
    let records = zone.resolved.as_ref().unwrap_or(&zone.records);
    if records.iter().any(is_delegation) {
        return None;
    }
    let named = |name: &str| -> Vec<&'a Record> {
        let leads = |kind: &str| matches!(kind, "A" | "AAAA" | "CNAME");
        records.iter().filter(|record| record.name == name && leads(&record.kind)).collect()
    };
    let exists = |name: &str| records.iter().any(|record| is_within(&record.name, name));
    if exists(host) {
        return Some((zone, named(host)));
    }
    let mut name = host;
    while let Some((_, above)) = name.split_once('.').filter(|(_, above)| is_within(above, &zone.name)) {
        let wildcard = format!("*.{above}");
        if exists(&wildcard) {
            return Some((zone, named(&wildcard)));
        }
        if exists(above) {
            return None;
        }
        name = above;
    }
    None
}
