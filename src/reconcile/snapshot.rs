//! The state that was read from Cloudflare before a decision: which zone and records answer for a name, which rules a
//! tunnel has, and which of all these are ours.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use crate::collections::collect;
use crate::ingress::{Document, MarkedRules, Rule};
use crate::model::hostname::{in_tree_order, is_below};
use crate::model::{Hostname, Record, TunnelId, Zone, ZoneId, ZonePlan, hostname};
use crate::reconcile::access::applications::ApplicationIndex;
use crate::reconcile::access::reading::AccessReading;
use crate::reconcile::adopt::Need;
use crate::reconcile::stamp::{self, Claims, Digest, Stamp};
use crate::reconcile::{OperatorSettings, Settings};

/// The largest comment on a Free zone, in bytes.
const COMMENT_MAX_BYTES_FREE: usize = 100;

/// The largest comment on a paid zone, in bytes.
pub(super) const COMMENT_MAX_BYTES_PAID: usize = 500;

/// A reading, with indexes over it that are computed once, when they are first needed.
#[derive(Debug)]
pub struct Snapshot {
    reading: Reading,
    own_digests: OnceLock<OwnDigests>,
    applications: OnceLock<ApplicationIndex>,
}

/// The result of one reading: zones with records, tunnels with configurations, and Access.
#[derive(Debug)]
pub struct Reading {
    /// The settings by which Cloudflare was read.
    pub settings: Arc<Settings>,
    /// The zones that were read: those within the filters, in the account of the tunnels.
    pub zones: Vec<ZoneSnapshot>,
    /// The zones that were not read.
    pub excluded_zones: Vec<Zone>,
    /// The configured tunnels, without those that were deleted.
    pub tunnels: BTreeMap<TunnelId, TunnelSnapshot>,
    /// Existing tunnels of the account that are not configured here. A record that points to such a tunnel belongs to
    /// another instance, whatever the record's stamp says.
    pub unconfigured_tunnels: BTreeSet<TunnelId>,
    /// The result of reading Cloudflare Access.
    pub access: AccessReading,
    /// The zones and tunnels, by id, whose answer is older than a state that was seen, each with the evidence.
    /// No write follows from such an answer, but `records` and `adjust` read it.
    pub old_answers: BTreeMap<Box<str>, Box<str>>,
    /// Cloudflare's time of the reading, in seconds since 1970; `None` if no answer had a date.
    pub date_unix_seconds: Option<i64>,
}

/// One zone and its records.
#[derive(Clone, Debug)]
pub struct ZoneSnapshot {
    pub zone: Zone,
    records: Vec<Record>,
}

/// One tunnel's configuration.
#[derive(Clone, Debug)]
pub struct TunnelSnapshot {
    pub document: Document,
    /// True if this program may write the configuration; false if `cloudflared` brings its own configuration file,
    /// unless `ALLOW_LOCAL_CONFIG` lets the webhook take it over.
    pub writable: bool,
    /// The version of the document; -1 if Cloudflare gives none.
    pub version: i64,
}

/// A rule, and the tunnel that has it.
pub type RuleInTunnel<'a> = (&'a TunnelId, &'a Rule);

/// A record of ours, with its zone.
#[derive(Clone, Debug)]
pub struct OwnRecord<'a> {
    pub zone: &'a ZoneSnapshot,
    pub record: &'a Record,
    /// The stamp in its comment.
    pub stamp: Stamp,
}

/// The digests of our rules, by hostname.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnDigests(BTreeMap<Box<str>, BTreeSet<Digest>>);

impl Deref for Snapshot {
    type Target = Reading;

    fn deref(&self) -> &Reading {
        &self.reading
    }
}

impl Snapshot {
    pub fn new(reading: Reading) -> Self {
        Self { reading, own_digests: OnceLock::new(), applications: OnceLock::new() }
    }

    /// The rules of a hostname, ours and foreign, with their tunnels.
    pub(super) fn rules_of<'s>(&'s self, hostname: &Hostname) -> Vec<RuleInTunnel<'s>> {
        let tunnels = self.tunnels.iter();
        tunnels
            .flat_map(|(id, tunnel)| {
                tunnel.document.rules_of(hostname).into_iter().map(move |rule| (id, rule))
            })
            .collect()
    }

    /// The rules of every tunnel, with their tunnels.
    pub fn all_rules(&self) -> impl Iterator<Item = RuleInTunnel<'_>> {
        self.tunnels
            .iter()
            .flat_map(|(id, tunnel)| tunnel.document.rules().iter().map(move |rule| (id, rule)))
    }

    /// The tunnel of a record's target, if it was read.
    pub(super) fn tunnel_of(&self, record: &Record) -> Option<(&TunnelId, &TunnelSnapshot)> {
        self.tunnels.get_key_value(&record.tunnel()?)
    }

    /// The hostname. For a wildcard, also the names of records and rules that `counts` selects.
    pub(super) fn names_of<'s>(&'s self, hostname: &'s str, counts: &dyn Fn(&str) -> bool) -> Vec<&'s str> {
        let mut names = vec![hostname];
        if let Some(domain) = hostname.strip_prefix("*.") {
            let records = self.zones.iter().flat_map(|zone| zone.records_within(domain));
            let records = records.map(|record| &*record.name);
            let rules = self.all_rules().map(|(_, rule)| rule.folded_hostname());
            names.extend(records.chain(rules).filter(|name| counts(name)));
            names.sort_unstable();
            names.dedup();
        }
        names
    }

    pub(super) fn application_index(&self) -> &ApplicationIndex {
        self.applications.get_or_init(|| ApplicationIndex::of(self))
    }
}

/// The zone and the records that answer for a name.
impl Snapshot {
    /// The zone that `name` belongs to: the longest active zone on a label boundary, or else the longest zone. `None`
    /// if that zone was not read, or if NS records delegate the name to other name servers.
    pub fn zone_of(&self, name: &str) -> Option<&ZoneSnapshot> {
        let zone = self.answering_zone(name)?;
        let mut elsewhere = self.excluded_zones.iter().filter(|zone| hostname::is_within(name, &zone.name));
        let is_in_other_zone = elsewhere.any(|one| precedence(one) > precedence(&zone.zone));
        (!is_in_other_zone && !zone.delegates(name)).then_some(zone)
    }

    /// The zone with this id.
    pub fn zone(&self, id: &ZoneId) -> Option<&ZoneSnapshot> {
        self.zones.iter().find(|zone| zone.zone.id == *id)
    }

    /// True if `name` belongs to this zone, and not to a zone inside or around this zone.
    pub fn is_zone_of(&self, zone: &ZoneSnapshot, name: &str) -> bool {
        self.zone_of(name).is_some_and(|found| found.zone.id == zone.zone.id)
    }

    /// The tunnel that visitors of `name` reach, by the name's own record or by a wildcard's record.
    pub fn visited_tunnel(&self, name: &str) -> Option<TunnelId> {
        self.zone_of(name)?;
        self.answering(name).iter().find_map(|record| record.tunnel())
    }

    /// The records that answer visitors of `name`.
    pub fn answering(&self, name: &str) -> &[Record] {
        self.answering_zone(name).map_or(&[], |zone| zone.answering(name))
    }

    /// The records of all wildcards above `name`, whether one of them answers for it now or not.
    pub(crate) fn all_wildcards_over(&self, name: &str) -> Vec<&Record> {
        let Some(zone) = self.answering_zone(name) else { return Vec::new() };
        let wildcards = names_above(name).map(|above| format!("*.{above}")).filter(|one| one != name);
        wildcards.flat_map(|wildcard| zone.records_of(&wildcard)).collect()
    }

    /// A rule in the tunnel `visited` for a name below `wildcard` that has no record of its own, so that the wildcard's
    /// record serves the name.
    pub(crate) fn rule_below(&self, wildcard: &str, visited: &TunnelId) -> Option<&Rule> {
        let domain = wildcard.strip_prefix("*.")?;
        let record = &self.answering(wildcard).first()?.id;
        let is_served = |name: &str| {
            let is_answered = || self.answering(name).iter().any(|one| one.id == *record);
            name != wildcard && is_below(name, domain) && self.zone_of(name).is_some() && is_answered()
        };
        let rules = self.tunnels.get(visited)?.document.rules();
        rules.iter().find(|rule| rule.is_readable() && is_served(rule.folded_hostname()))
    }

    /// The zones that were read and that contain `name`.
    pub(crate) fn zones_around(&self, name: &str) -> impl Iterator<Item = &ZoneSnapshot> {
        self.zones.iter().filter(move |zone| hostname::is_within(name, &zone.zone.name))
    }

    /// True if an answer about a zone around `name` is old.
    pub(crate) fn has_old_zone(&self, name: &str) -> bool {
        self.zones_around(name).any(|zone| self.old_answers.contains_key(zone.zone.id.as_str()))
    }

    /// The zone that resolvers ask about `name`, among the zones that were read.
    fn answering_zone(&self, name: &str) -> Option<&ZoneSnapshot> {
        self.zones_around(name).max_by_key(|zone| precedence(&zone.zone))
    }
}

/// What is ours, by the stamps in the comments of records.
impl Snapshot {
    /// All our records. Those of one name are adjacent.
    pub fn own_records(&self) -> impl Iterator<Item = OwnRecord<'_>> {
        let own = self.zones.iter().flat_map(|zone| self.own_among(zone, zone.records()));
        own.filter(|own| self.is_zone_of(own.zone, &own.record.name))
    }

    /// Our records of `name`.
    pub fn own_records_of(&self, name: &str) -> Vec<OwnRecord<'_>> {
        let zone = self.zone_of(name);
        zone.map(|zone| self.own_among(zone, zone.records_of(name)).collect()).unwrap_or_default()
    }

    /// Our records among `records` of a zone.
    fn own_among<'s>(
        &'s self,
        zone: &'s ZoneSnapshot,
        records: &'s [Record],
    ) -> impl Iterator<Item = OwnRecord<'s>> {
        let own = |record| Some(OwnRecord { zone, record, stamp: self.own_stamp(record)? });
        records.iter().filter_map(own)
    }

    /// The stamp and the tunnel of a record that has our owner, and points to a tunnel that another instance may serve.
    pub(crate) fn stamp_of_same_owner(&self, record: &Record) -> Option<(Stamp, TunnelId)> {
        let stamp = Stamp::of(record).filter(|stamp| stamp.owner == self.operator().owner)?;
        let tunnel = record.tunnel().filter(|tunnel| self.unconfigured_tunnels.contains(tunnel))?;
        Some((stamp, tunnel))
    }

    /// The stamps of our records of `name`, or if there are none, those of the foreign records that `ADOPT` may take
    /// over.
    pub(crate) fn stamps_of(&self, name: &str) -> Vec<Stamp> {
        let own: Vec<Stamp> = self.own_records_of(name).into_iter().map(|own| own.stamp).collect();
        if !own.is_empty() {
            return own;
        }
        let records = self.zone_of(name).map(|zone| zone.records_of(name)).unwrap_or_default();
        let foreign = records.iter().filter(|record| record.is_address_or_cname()).filter_map(Stamp::of);
        foreign
            .filter(|stamp| self.operator().adopt.allows(&Need::of_stamp(stamp, &self.operator().owner)))
            .collect()
    }

    /// The foreign rule that visitors reach by this record of ours, if the record's stamp is released. The record stays
    /// for that rule, and ExternalDNS is not shown it.
    pub(crate) fn served_by_released(&self, record: &Record, stamp: &Stamp) -> Option<&Rule> {
        if !stamp.claims.is_released {
            return None;
        }
        let visited = record.tunnel()?;
        let own = self.own_digests();
        let rules = self.tunnels.get(&visited)?.document.rules_of(&Hostname::parse(&record.name).ok()?);
        let foreign = rules.into_iter().find(|rule| !own.has(&visited, rule));
        foreign.or_else(|| self.rule_below(&record.name, &visited))
    }

    /// All rules that are ours, with their tunnels.
    pub fn own_rules(&self) -> impl Iterator<Item = RuleInTunnel<'_>> {
        let own = self.own_digests();
        self.all_rules().filter(move |(id, rule)| own.has(id, rule))
    }

    /// The rules of a hostname that a stamp names, without those that share a digest. If the stamp is ours, these rules
    /// are ours. If our record was deleted by hand, `adoption::reclaimed` decides.
    pub(crate) fn rules_claimed_by<'s>(
        &'s self,
        hostname: &Hostname,
        stamp: &Stamp,
    ) -> Vec<RuleInTunnel<'s>> {
        let rules = self.digested_rules_of(hostname);
        let claimed = &unique_digests(&rules) & &stamp.claims.digests;
        rules.into_iter().filter(|(digest, _)| claimed.contains(digest)).map(|(_, placed)| placed).collect()
    }

    /// The rules of a hostname, ours and foreign, each with its digest.
    pub(crate) fn digested_rules_of<'s>(&'s self, hostname: &Hostname) -> Vec<(Digest, RuleInTunnel<'s>)> {
        let rules = self.rules_of(hostname).into_iter();
        rules.map(|(id, rule)| (Digest::of(id, rule.path()), (id, rule))).collect()
    }

    /// The claims of a hostname's stamp, without the digests that no rule has.
    pub(crate) fn existing_claims(&self, hostname: &Hostname, stamp: &Stamp) -> Claims {
        let digests = self.digested_rules_of(hostname).into_iter().map(|(digest, _)| digest);
        let digests = collect(digests.filter(|digest| stamp.claims.digests.contains(digest)));
        Claims { digests, ..stamp.claims }
    }

    /// True if a stamp names the rule of a path in one of the configured tunnels, or the record alone.
    pub(crate) fn claims_path(&self, stamp: &Stamp, path: Option<&str>) -> bool {
        let mut tunnels = self.settings.tunnels().iter();
        path.is_none() && stamp.claims.record_only
            || tunnels.any(|tunnel| stamp.claims.digests.contains(&Digest::of(&tunnel.id, path)))
    }

    /// The rules of every tunnel, each marked as ours or foreign, for queries about many rules.
    pub fn marked_rules(&self) -> BTreeMap<&TunnelId, MarkedRules<'_>> {
        let own = self.own_digests();
        collect(
            self.tunnels.iter().map(|(id, tunnel)| (id, tunnel.document.marked(&|rule| own.has(id, rule)))),
        )
    }

    /// The digests of the rules that our stamps name.
    pub fn own_digests(&self) -> &OwnDigests {
        self.own_digests.get_or_init(|| {
            let mut own = OwnDigests::default();
            for OwnRecord { zone: _, record, stamp } in self.own_records() {
                if let Ok(hostname) = Hostname::parse(&record.name) {
                    let rules = self.rules_claimed_by(&hostname, &stamp).into_iter();
                    own.add(&record.name, rules.map(|(id, rule)| Digest::of(id, rule.path())));
                }
            }
            own
        })
    }
}

impl Reading {
    /// An empty reading.
    pub fn new(settings: Arc<Settings>) -> Self {
        Self {
            settings,
            zones: Vec::new(),
            excluded_zones: Vec::new(),
            tunnels: BTreeMap::new(),
            unconfigured_tunnels: BTreeSet::new(),
            access: AccessReading::NotAsked,
            old_answers: BTreeMap::new(),
            date_unix_seconds: None,
        }
    }

    pub(super) fn operator(&self) -> &OperatorSettings {
        &self.settings.operator
    }

    /// The stamp of `record` if the record is ours: the stamp has our owner, and the record points to no tunnel that
    /// another instance may serve. A record that may exist beside a CNAME is never ours, even with our comment.
    pub fn own_stamp(&self, record: &Record) -> Option<Stamp> {
        if record.read_only || !record.is_address_or_cname() {
            return None;
        }
        let stamp = Stamp::of(record).filter(|stamp| stamp.owner == self.operator().owner)?;
        let tunnel = record.tunnel();
        tunnel.is_none_or(|tunnel| !self.unconfigured_tunnels.contains(&tunnel)).then_some(stamp)
    }

    /// True if a comment of ours says that Access protects something.
    pub fn has_protection_claim(&self) -> bool {
        let records = self.zones.iter().flat_map(ZoneSnapshot::records);
        // A search in the text costs less than parsing it.
        let mut records = records.filter(|record| record.comment.contains(stamp::PROTECTED));
        records.any(|record| self.own_stamp(record).is_some_and(|stamp| stamp.claims.is_protected))
    }
}

impl ZoneSnapshot {
    /// The zone with its records, which may be in any order. A record that is listed twice counts once.
    pub fn new(zone: Zone, mut records: Vec<Record>) -> Self {
        records.sort_unstable_by(|a, b| in_tree_order(&a.name, &b.name).then_with(|| a.id.cmp(&b.id)));
        records.dedup_by(|a, b| a.id == b.id);
        Self { zone, records }
    }

    /// All records. The records of a name and of the names below it are adjacent: see [`hostname::in_tree_order`].
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// The records of one name.
    pub fn records_of(&self, name: &str) -> &[Record] {
        let within = self.records_within(name);
        // The records of the name come before the records of the names below it.
        let length = within.iter().take_while(|record| &*record.name == name).count();
        within.get(..length).unwrap_or_default()
    }

    /// The records of a name and of the names below it.
    pub(crate) fn records_within(&self, name: &str) -> &[Record] {
        let start = self.records.partition_point(|record| in_tree_order(&record.name, name).is_lt());
        let rest = self.records.get(start..).unwrap_or_default();
        let length = rest.partition_point(|record| hostname::is_within(&record.name, name));
        rest.get(..length).unwrap_or_default()
    }

    /// The records that answer for `name`: its own, or else those of the wildcard above it.
    pub fn answering(&self, name: &str) -> &[Record] {
        let own = self.records_of(name);
        if own.is_empty() { self.wildcard_behind(name) } else { own }
    }

    /// The records of the wildcard that answers for `name` once the name's own records are deleted. Empty if another
    /// record exists below the name, at a name between the name and the wildcard, or below such a name (RFC 4592).
    pub fn wildcard_behind(&self, name: &str) -> &[Record] {
        let mut topmost = name;
        while let Some((_, above)) = topmost.split_once('.')
            && above.len() >= self.zone.name.len()
        {
            let wildcard = format!("*.{above}");
            let records = self.records_of(&wildcard);
            if !records.is_empty() && wildcard != name {
                // The wildcard does not answer for an existing name, nor for any name below it.
                let is_cut = self.records_within(topmost).iter().any(|record| *record.name != *name);
                return if is_cut { &[] } else { records };
            }
            topmost = above;
        }
        &[]
    }

    /// The longest comment that the zone allows, in bytes.
    pub fn comment_max_bytes(&self) -> usize {
        match self.zone.plan {
            ZonePlan::Free => COMMENT_MAX_BYTES_FREE,
            ZonePlan::Paid => COMMENT_MAX_BYTES_PAID,
        }
    }

    /// True if other name servers answer for `name`, because NS records delegate a parent of the name.
    fn delegates(&self, name: &str) -> bool {
        let parents = names_above(name).take_while(|parent| parent.len() > self.zone.name.len());
        let mut records = parents.flat_map(|parent| self.records_of(parent));
        records.any(|record| &*record.record_type == "NS")
    }
}

impl TunnelSnapshot {
    /// The rules that may answer visitors of a path at a name, up to the first rule that covers all their requests.
    pub(super) fn rules_taking(&self, name: &str, path: Option<&str>) -> Vec<&Rule> {
        self.rules_taking_until(name, path, &|_| true)
    }

    /// As [`Self::rules_taking`], up to the first such rule for which `is_last` is true.
    pub(super) fn rules_taking_until(
        &self,
        name: &str,
        path: Option<&str>,
        is_last: &dyn Fn(&Rule) -> bool,
    ) -> Vec<&Rule> {
        let mut taking: Vec<&Rule> =
            self.document.near(name).filter(|rule| rule.may_match(name, path)).collect();
        if let Some(last) = taking.iter().position(|rule| rule.covers(name, path) && is_last(rule)) {
            taking.truncate(last + 1);
        }
        taking
    }
}

impl OwnDigests {
    /// Adds digests of a hostname.
    pub fn add(&mut self, hostname: &str, digests: impl IntoIterator<Item = Digest>) {
        self.0.entry(hostname.into()).or_default().extend(digests);
    }

    /// True if `rule` of `tunnel` is ours.
    pub fn has(&self, tunnel: &TunnelId, rule: &Rule) -> bool {
        let digests = self.0.get(rule.folded_hostname());
        rule.is_readable() && digests.is_some_and(|all| all.contains(&Digest::of(tunnel, rule.path())))
    }
}

/// The names above a name, the nearest first.
fn names_above(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('.').filter_map(|(dot, _)| name.get(dot + 1..))
}

/// Of the zones around a name, the one with the highest precedence has the name.
fn precedence(zone: &Zone) -> (bool, usize) {
    (zone.is_active(), zone.name.len())
}

/// Each digest that exactly one of the rules has. `rules` are all rules of a hostname.
pub(crate) fn unique_digests(rules: &[(Digest, RuleInTunnel<'_>)]) -> BTreeSet<Digest> {
    let mut digests: Vec<Digest> = rules.iter().map(|(digest, _)| *digest).collect();
    digests.sort_unstable();
    collect(digests.chunk_by(Digest::eq).filter(|same| same.len() == 1).flatten().copied())
}
