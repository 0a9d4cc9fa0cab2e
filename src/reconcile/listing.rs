//! Everything in scope at Cloudflare, ours or not: each hostname and path with its record and its rule.
//!
//! Entries of ours are listed as [`records`] shows them to ExternalDNS. Only ExternalDNS knows the wanted state of the
//! cluster, so no entry shows whether a rule of ours is as wanted. For `status`, [`published`] shows one hostname of
//! ours.

use miniserde::Serialize;
use miniserde::ser::Fragment;

use crate::ingress::Rule;
use crate::model::access::Application;
use crate::model::endpoint::Endpoint;
use crate::model::hostname::{self, HostPattern, is_below};
use crate::model::text::mask_userinfo;
use crate::model::{Hostname, Record, TunnelId};
use crate::reconcile::access::host_protection::HostProtection;
use crate::reconcile::access::unneeded;
use crate::reconcile::canonical::{OWNER_LABEL, RECORD_ONLY, path_of};
use crate::reconcile::property_name::{DRIFT, TUNNEL_SERVICE};
use crate::reconcile::records::{Drift, records};
use crate::reconcile::snapshot::Snapshot;
use crate::reconcile::stamp::{Digest, Stamp};

/// One hostname and path. In JSON `null` means absent or unknown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// The hostname in lower-case punycode, or a pattern; `*` for a rule that has only a path.
    pub hostname: Box<str>,
    /// The rule's path expression.
    pub path: Option<Box<str>>,
    /// The destination of the requests; `none` for a record without a rule.
    pub service: Option<Box<str>>,
    /// The name of the rule's tunnel, or else of the tunnel to which the record points; the id of a tunnel that is not
    /// configured.
    pub tunnel: Option<Box<str>>,
    /// The owner, according to the record's comment.
    pub owner: Option<Box<str>>,
    pub state: EntryState,
    /// The differences of our entry: `proxied`, `order`, `tunnel`, `rule`, `access`, `namespace`, `target` or `type`.
    pub drift: Vec<Box<str>>,
    /// The Access applications that are known to ask its visitors for a login.
    pub protected_by: Vec<Box<str>>,
}

/// The relation of an entry to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryState {
    /// Ours, without a drift.
    Ours,
    Foreign,
    /// Ours, with a drift.
    Drift,
    /// The rule that our stamp claims does not exist, or no rule takes the requests of a foreign record.
    RecordWithoutRule,
    /// No record points to the rule's tunnel.
    RuleWithoutRecord,
    /// No rule asks for a token of our Access application, and no comment of ours claims its place.
    UnneededApplication,
}

/// One path of a published hostname, or its record alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedPath {
    /// Empty for a rule without a path, and for a record without a rule.
    pub path: Box<str>,
    /// The object that the record's comment names.
    pub resource: Option<Box<str>>,
    /// The service, the tunnel, the record, and the Access applications that protect the path.
    pub what: String,
    /// True if the rule exists and the record points to its tunnel, or if a record without a rule is asked for.
    pub is_served: bool,
}

impl Entry {
    fn new(hostname: &str, path: Option<&str>, state: EntryState) -> Self {
        Self {
            hostname: hostname.into(),
            path: path.filter(|path| !path.is_empty()).map(Into::into),
            service: None,
            tunnel: None,
            owner: None,
            state,
            drift: Vec::new(),
            protected_by: Vec::new(),
        }
    }
}

impl Serialize for EntryState {
    fn begin(&self) -> Fragment<'_> {
        Fragment::Str(self.as_str().into())
    }
}

impl EntryState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Foreign => "foreign",
            Self::Drift => "drift",
            Self::RecordWithoutRule => "record without rule",
            Self::RuleWithoutRecord => "rule without record",
            Self::UnneededApplication => "unneeded application",
        }
    }
}

/// Everything in `snapshot` that is within the filter, sorted by hostname and path.
pub fn listing(snapshot: &Snapshot) -> Vec<Entry> {
    let unneeded = unneeded::unneeded(snapshot).into_iter();
    let unneeded_entries = unneeded.map(|one| unneeded_application(one.own.application));
    let shown = records(snapshot).endpoints;
    let mut entries: Vec<Entry> = shown.iter().map(|endpoint| own_entry(endpoint, snapshot)).collect();
    entries.extend(
        cnames_to_tunnels(snapshot).filter_map(|(record, tunnel)| foreign_record(record, &tunnel, snapshot)),
    );
    for (tunnel, present) in &snapshot.tunnels {
        let rules = present.document.rules().iter();
        entries.extend(rules.filter_map(|rule| foreign_rule(tunnel, rule, snapshot)));
    }
    for entry in &mut entries {
        let Ok(hostname) = Hostname::parse(&entry.hostname) else { continue };
        let logins = HostProtection::of(&hostname, snapshot).known_logins(entry.path.as_deref());
        entry.protected_by = logins.into_iter().map(|application| application.name.clone()).collect();
    }
    entries.extend(unneeded_entries);
    entries
        .sort_unstable_by(|a, b| (&a.hostname, &a.path, &a.tunnel).cmp(&(&b.hostname, &b.path, &b.tunnel)));
    entries
}

/// Everything of ours for `hostname`, as it was read.
pub fn published(hostname: &Hostname, snapshot: &Snapshot) -> Vec<PublishedPath> {
    let mut found = Vec::new();
    for own in snapshot.own_records_of(hostname.as_str()) {
        let (record, stamp) = (own.record, own.stamp);
        let mut add = |path: Option<&str>, is_served, what: String| {
            let mut what = format!("{what}; record {} {:?}", record.record_type, record.content);
            what += if record.proxied { "" } else { ", not proxied" };
            let logins = HostProtection::of(hostname, snapshot).known_logins(path);
            let names: Vec<&str> = logins.iter().map(|application| &*application.name).collect();
            if !names.is_empty() {
                what += &format!("; protected by {names:?}");
            }
            let path = path.unwrap_or_default().into();
            let resource = stamp.resource.clone();
            found.push(PublishedPath { path, resource, what, is_served });
        };
        let rules = snapshot.rules_claimed_by(hostname, &stamp);
        if stamp.claims.record_only {
            add(None, true, "a record without a rule, as it is asked for".to_owned());
        } else if rules.is_empty() {
            add(None, false, "the record's comment names no rule that exists".to_owned());
        }
        for (tunnel, rule) in rules {
            let what = format!("{:?} through tunnel {}", rule.service(), snapshot.settings.name_of(tunnel));
            add(rule.path(), record.tunnel().as_ref() == Some(tunnel), what);
        }
    }
    found
}

fn own_entry(endpoint: &Endpoint, snapshot: &Snapshot) -> Entry {
    let service = endpoint.property(TUNNEL_SERVICE);
    let mut drift: Vec<&str> =
        endpoint.property(DRIFT).unwrap_or_default().split(',').filter(|what| !what.is_empty()).collect();
    let is_configured = |target: &String| {
        TunnelId::from_hostname(target).is_some_and(|id| snapshot.settings.is_configured(&id))
    };
    if !endpoint.targets.iter().all(is_configured) {
        drift.push("target");
    }
    if endpoint.record_type != "CNAME" {
        drift.push("type");
    }
    let path = path_of(&endpoint.set_identifier);
    let refuses_every_visitor = Hostname::parse(&endpoint.dns_name).is_ok_and(|hostname| {
        let protection = HostProtection::of(&hostname, snapshot);
        protection.own_rule(path, None).is_some_and(|rule| protection.refuses_every_visitor(rule))
    });
    if refuses_every_visitor && !drift.contains(&Drift::Access.text()) {
        drift.push(Drift::Access.text());
    }
    let tunnel = endpoint.targets.first().and_then(|target| TunnelId::from_hostname(target));
    let state = match service {
        None => EntryState::RecordWithoutRule,
        Some(_) if drift.is_empty() => EntryState::Ours,
        Some(_) => EntryState::Drift,
    };
    Entry {
        service: service.map(Into::into),
        tunnel: tunnel.map(|id| snapshot.settings.name_of(&id).into()),
        owner: endpoint.labels.value(OWNER_LABEL).map(Into::into),
        drift: drift.into_iter().map(Into::into).collect(),
        ..Entry::new(&endpoint.dns_name, Some(&endpoint.set_identifier), state)
    }
}

fn unneeded_application(application: &Application) -> Entry {
    let destination = application.destinations.first();
    let (host, path) = destination.map(|one| (&*one.host, &*one.path)).unwrap_or_default();
    Entry {
        protected_by: vec![application.name.clone()],
        ..Entry::new(host, Some(path), EntryState::UnneededApplication)
    }
}

/// The CNAMEs of all owners that point to a tunnel, each with its tunnel.
fn cnames_to_tunnels(snapshot: &Snapshot) -> impl Iterator<Item = (&Record, TunnelId)> {
    let records =
        snapshot.zones.iter().flat_map(|zone| zone.records().iter().map(move |record| (zone, record)));
    let cnames =
        records.filter(|(zone, record)| record.is_cname() && snapshot.is_zone_of(zone, &record.name));
    cnames.filter_map(|(_, record)| Some((record, record.tunnel()?)))
}

/// The entry of a foreign record. If its hostname has rules in the tunnel, the entries of the rules replace it.
fn foreign_record(record: &Record, tunnel: &TunnelId, snapshot: &Snapshot) -> Option<Entry> {
    let is_shown = |stamp: &Stamp| snapshot.served_by_released(record, stamp).is_none();
    if !snapshot.operator().filter.matches(&record.name)
        || snapshot.own_stamp(record).as_ref().is_some_and(is_shown)
    {
        return None;
    }
    let stamp = Stamp::of(record);
    let record_only = stamp.as_ref().is_some_and(|stamp| stamp.claims.record_only);
    let mut state = EntryState::Foreign;
    if let Some(present) = snapshot.tunnels.get(tunnel) {
        let hostname = Hostname::parse(&record.name).ok();
        if hostname.is_some_and(|hostname| !present.document.rules_of(&hostname).is_empty()) {
            return None;
        }
        let mut rules = present.document.rules().iter();
        let pattern = HostPattern::of(&record.name);
        let takes_some =
            |rule: &Rule| rule.may_match(&record.name, None) || pattern.includes(rule.folded_hostname());
        if !record_only && !rules.any(|rule| !rule.is_catch_all() && takes_some(rule)) {
            state = EntryState::RecordWithoutRule;
        }
    }
    Some(Entry {
        service: record_only.then(|| RECORD_ONLY.into()),
        tunnel: Some(snapshot.settings.name_of(tunnel).into()),
        owner: stamp.map(|stamp| stamp.owner),
        ..Entry::new(&record.name, None, state)
    })
}

/// The entry of a foreign rule. The catch-all has none, because it publishes nothing.
fn foreign_rule(tunnel: &TunnelId, rule: &Rule, snapshot: &Snapshot) -> Option<Entry> {
    let hostname = rule.folded_hostname();
    let name = hostname::normalize(hostname);
    let for_every_host = HostPattern::of(hostname) == HostPattern::All;
    let is_listed = if for_every_host {
        rule.path().is_some()
    } else {
        snapshot.operator().filter.matches(&name) && !snapshot.own_digests().has(tunnel, rule)
    };
    if !is_listed {
        return None;
    }
    let is_reached = for_every_host || is_reached(&name, tunnel, snapshot);
    let state = if is_reached { EntryState::Foreign } else { EntryState::RuleWithoutRecord };
    Some(Entry {
        service: Some(mask_userinfo(rule.service(), "://").into()),
        tunnel: Some(snapshot.settings.name_of(tunnel).into()),
        owner: owner_of(hostname, Digest::of(tunnel, rule.path()), snapshot),
        ..Entry::new(if for_every_host { "*" } else { hostname }, rule.path(), state)
    })
}

/// True if a record of `hostname`, or of a name that the wildcard `hostname` matches, points to the tunnel. Also
/// true if the zone of the hostname was not read, because the record is then not known.
fn is_reached(hostname: &str, tunnel: &TunnelId, snapshot: &Snapshot) -> bool {
    let is_reached_below = |domain| {
        cnames_to_tunnels(snapshot).any(|(record, to)| to == *tunnel && is_below(&record.name, domain))
    };
    snapshot.zone_of(hostname).is_none()
        || snapshot.visited_tunnel(hostname).as_ref() == Some(tunnel)
        || hostname.strip_prefix("*.").is_some_and(is_reached_below)
}

/// The owner whose stamp claims the rule.
fn owner_of(hostname: &str, digest: Digest, snapshot: &Snapshot) -> Option<Box<str>> {
    let records = snapshot.zone_of(hostname)?.records_of(hostname);
    let mut stamps = records.iter().filter_map(Stamp::of);
    stamps.find(|stamp| stamp.claims.digests.contains(&digest)).map(|stamp| stamp.owner)
}
