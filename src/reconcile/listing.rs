//! Everything in scope at Cloudflare, ours or not: each hostname and path with its record and its rule.
//!
//! Entries of ours are listed as [`records`] shows them to ExternalDNS. Only ExternalDNS knows what the cluster wants,
//! so nothing here tells if a rule of ours is as wanted.

use std::cmp::Ordering;

use crate::ingress::Rule;
use crate::model::access::Application;
use crate::model::endpoint::Endpoint;
use crate::model::hostname::{self, is_below};
use crate::model::{Hostname, Record, TunnelId};
use crate::reconcile::Settings;
use crate::reconcile::access_guard::protectors;
use crate::reconcile::canonical::{DRIFT, OWNER_LABEL, RECORD_ONLY, TUNNEL_SERVICE};
use crate::reconcile::records::{left_applications, records};
use crate::reconcile::snapshot::{OwnRules, Snapshot};
use crate::reconcile::stamp::{Digest, Stamp};

/// The hostname shown for a rule that has only a path.
const EVERY_HOST: &str = "*";

/// One hostname and path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The hostname in lower-case punycode, or a pattern.
    pub hostname: Box<str>,
    /// The rule's path expression.
    pub path: Option<Box<str>>,
    /// The destination of the requests; `none` for a record without a rule.
    pub service: Option<Box<str>>,
    /// The name of the rule's tunnel, or else of the tunnel that the record leads to; the id if that one is not
    /// configured.
    pub tunnel: Option<Box<str>>,
    /// The owner, according to the record's comment.
    pub owner: Option<Box<str>>,
    pub state: State,
    /// What differs of ours: `proxied`, `order`, `tunnel`, `rule`, `access`, `target` or `type`.
    pub drift: Vec<Box<str>>,
    /// The applications of Access that protect all of its requests, as far as that is known.
    pub protected_by: Vec<Box<str>>,
}

/// The relation of an entry to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Ours, as far as can be seen here.
    Ours,
    Foreign,
    /// Ours, and changed by hand.
    Drift,
    /// The rule that our stamp claims is gone, or no rule takes the requests that a foreign record lets in.
    RecordWithoutRule,
    /// No record leads to the rule.
    RuleWithoutRecord,
    /// No rule of ours relies on our Access application.
    ApplicationLeft,
}

impl State {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Foreign => "foreign",
            Self::Drift => "drift",
            Self::RecordWithoutRule => "record without rule",
            Self::RuleWithoutRecord => "rule without record",
            Self::ApplicationLeft => "application left",
        }
    }
}

/// Everything in `snapshot` that is within the filter, sorted by hostname and path.
pub fn listing(snapshot: &Snapshot, settings: &Settings) -> Vec<Entry> {
    let foreign = ForeignEntries {
        snapshot,
        settings,
        own: snapshot.own_rules(settings),
        leads: leads(snapshot),
        patterns: patterns(snapshot),
    };
    let shown = records(snapshot, settings).endpoints;
    let mut entries: Vec<Entry> = shown.iter().map(|endpoint| own_entry(endpoint, settings)).collect();
    entries.extend(foreign.leads.iter().filter_map(|lead| foreign.foreign_record(lead)));
    for (tunnel, present) in &snapshot.tunnels {
        entries.extend(present.document.rules().iter().filter_map(|rule| foreign.foreign_rule(tunnel, rule)));
    }
    entries.extend(left_applications(snapshot, &foreign.own, settings).map(left_application));
    entries.sort_by(by_place);
    let protected = |entry: Entry| {
        if entry.state == State::ApplicationLeft {
            return entry;
        }
        let hostname = Hostname::parse(&entry.hostname).ok();
        let protected_by = hostname.map(|hostname| protectors(&hostname, entry.path.as_deref(), snapshot));
        Entry { protected_by: protected_by.into_iter().flatten().map(Into::into).collect(), ..entry }
    };
    entries.into_iter().map(protected).collect()
}

fn by_place(a: &Entry, b: &Entry) -> Ordering {
    (&a.hostname, &a.path, &a.tunnel).cmp(&(&b.hostname, &b.path, &b.tunnel))
}

fn own_entry(endpoint: &Endpoint, settings: &Settings) -> Entry {
    let service = endpoint.property(TUNNEL_SERVICE);
    let mut drift: Vec<&str> =
        endpoint.property(DRIFT).unwrap_or_default().split(',').filter(|what| !what.is_empty()).collect();
    if endpoint.targets.iter().any(|target| settings.tunnel_of_target(target).is_none()) {
        drift.push("target");
    }
    if endpoint.record_type != "CNAME" {
        drift.push("type");
    }
    let tunnel = endpoint.targets.first().and_then(|target| TunnelId::from_hostname(target));
    let path = &*endpoint.set_identifier;
    Entry {
        hostname: endpoint.dns_name.as_str().into(),
        path: (!path.is_empty()).then(|| path.into()),
        service: service.map(Into::into),
        tunnel: tunnel.map(|id| settings.name_of(&id).into()),
        owner: endpoint.labels.value(OWNER_LABEL).map(Into::into),
        state: match service {
            None => State::RecordWithoutRule,
            Some(_) if drift.is_empty() => State::Ours,
            Some(_) => State::Drift,
        },
        drift: drift.into_iter().map(Into::into).collect(),
        protected_by: Vec::new(),
    }
}

fn left_application(application: &Application) -> Entry {
    let destination = application.destinations.first();
    Entry {
        hostname: destination.map(|one| one.host.clone()).unwrap_or_default(),
        path: destination.map(|one| one.path.clone()).filter(|path| !path.is_empty()),
        service: None,
        tunnel: None,
        owner: None,
        state: State::ApplicationLeft,
        drift: Vec::new(),
        protected_by: vec![application.name.clone()],
    }
}

/// A CNAME to a tunnel, regardless of who owns the record or the tunnel.
struct Lead<'a> {
    record: &'a Record,
    tunnel: TunnelId,
}

fn leads(snapshot: &Snapshot) -> Vec<Lead<'_>> {
    let zones = snapshot.zones.iter();
    let at_home = zones
        .flat_map(|zone| zone.records().iter().filter(move |record| snapshot.is_home(zone, &record.name)));
    at_home
        .filter(|record| &*record.kind == "CNAME")
        .filter_map(|record| Some(Lead { record, tunnel: TunnelId::from_hostname(&record.content)? }))
        .collect()
}

/// The domains in which a rule of a tunnel takes every name; the empty one means every host.
fn patterns(snapshot: &Snapshot) -> Vec<(&TunnelId, String)> {
    let mut patterns = Vec::new();
    for (tunnel, present) in &snapshot.tunnels {
        for rule in present.document.rules() {
            let hostname = rule.folded_hostname();
            if let Some(domain) = hostname.strip_prefix("*.") {
                patterns.push((tunnel, domain.to_owned()));
            } else if is_for_every_host(hostname) && rule.path().is_some() {
                patterns.push((tunnel, String::new()));
            }
        }
    }
    patterns
}

struct ForeignEntries<'a> {
    snapshot: &'a Snapshot,
    settings: &'a Settings,
    own: OwnRules,
    leads: Vec<Lead<'a>>,
    patterns: Vec<(&'a TunnelId, String)>,
}

impl ForeignEntries<'_> {
    /// The entry of a foreign record. If its hostname has rules in the tunnel, their entries stand for it.
    fn foreign_record(&self, Lead { record, tunnel }: &Lead<'_>) -> Option<Entry> {
        if !self.settings.policy.filter.matches(&record.name)
            || self.snapshot.own_stamp(record, self.settings).is_some()
        {
            return None;
        }
        let stamp = Stamp::of(record);
        let record_only = stamp.as_ref().is_some_and(|stamp| stamp.claims.record_only);
        let state = match self.snapshot.tunnels.get(tunnel) {
            Some(present) => {
                let hostname = Hostname::parse(&record.name).ok();
                if hostname.is_some_and(|hostname| !present.rules_of(&hostname).is_empty()) {
                    return None;
                }
                let is_taken = record_only || self.is_taken(&record.name, tunnel, present.document.rules());
                if is_taken { State::Foreign } else { State::RecordWithoutRule }
            }
            None => State::Foreign,
        };
        Some(Entry {
            hostname: record.name.clone(),
            path: None,
            service: record_only.then(|| RECORD_ONLY.into()),
            tunnel: Some(self.settings.name_of(tunnel).into()),
            owner: stamp.map(|stamp| stamp.owner),
            state,
            drift: Vec::new(),
            protected_by: Vec::new(),
        })
    }

    /// The entry of a foreign rule. The catch-all has none, because it publishes nothing.
    fn foreign_rule(&self, tunnel: &TunnelId, rule: &Rule) -> Option<Entry> {
        let hostname = rule.folded_hostname();
        let name = hostname::normalize(hostname);
        let for_every_host = is_for_every_host(hostname);
        let is_listed = if for_every_host {
            rule.path().is_some()
        } else {
            self.settings.policy.filter.matches(&name) && !self.own.has(tunnel, rule)
        };
        if !is_listed {
            return None;
        }
        let is_reached = for_every_host || self.is_reached(&name, tunnel);
        Some(Entry {
            path: rule.path().map(Into::into),
            service: Some(rule.service().into()),
            tunnel: Some(self.settings.name_of(tunnel).into()),
            owner: self.owner(hostname, Digest::of(tunnel, rule.path())),
            state: if is_reached { State::Foreign } else { State::RuleWithoutRecord },
            drift: Vec::new(),
            protected_by: Vec::new(),
            hostname: if for_every_host { EVERY_HOST.into() } else { hostname.into() },
        })
    }

    /// True if a rule for a wider hostname takes its requests. The catch-all does not count.
    fn is_taken(&self, name: &str, tunnel: &TunnelId, rules: &[Rule]) -> bool {
        let mut patterns = self.patterns.iter().filter(|(of, _)| *of == tunnel);
        let by_pattern = patterns.any(|(_, domain)| domain.is_empty() || is_below(name, domain));
        by_pattern
            || name
                .strip_prefix("*.")
                .is_some_and(|domain| rules.iter().any(|rule| is_below(rule.folded_hostname(), domain)))
    }

    /// True if a record leads to the tunnel for `hostname`, or for a name that it matches. Also true if that is unknown
    /// because its zone was not read.
    fn is_reached(&self, hostname: &str, tunnel: &TunnelId) -> bool {
        if self.snapshot.zone_of(hostname).is_none() {
            return true;
        }
        if let Some(domain) = hostname.strip_prefix("*.") {
            let mut leads = self.leads.iter().filter(|lead| lead.tunnel == *tunnel);
            return leads.any(|lead| is_below(&lead.record.name, domain));
        }
        self.snapshot.led_to(hostname).as_ref() == Some(tunnel)
    }

    /// The owner whose stamp claims the rule.
    fn owner(&self, hostname: &str, digest: Digest) -> Option<Box<str>> {
        let records = self.snapshot.zone_of(hostname)?.records_of(hostname);
        let mut stamps = records.iter().filter_map(Stamp::of);
        stamps.find(|stamp| stamp.claims.rules.contains(&digest)).map(|stamp| stamp.owner)
    }
}

fn is_for_every_host(hostname: &str) -> bool {
    hostname.is_empty() || hostname == EVERY_HOST
}
