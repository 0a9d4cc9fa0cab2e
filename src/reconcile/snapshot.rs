//! The state that was read from Cloudflare before a decision, with the queries of decisions.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use crate::collections::inserted;
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
const COMMENT_MAX_BYTES_PAID: usize = 500;

/// The zones' records and the tunnels' configurations at one time.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The settings by which the snapshot was read.
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
    /// The zones and tunnels, by id, whose answer is older than a state that was seen, each with the evidence. No
    /// decision relies on such an answer.
    pub old_answers: BTreeMap<Box<str>, Box<str>>,
    /// Cloudflare's time of the reading, in seconds since 1970; `None` if no answer had a date.
    pub date_unix_seconds: Option<i64>,
    /// The indexes over the fields above.
    pub index: Index,
}

/// Indexes that are computed once, when they are first needed. A copy of a snapshot may be changed, so it has its own.
#[derive(Debug, Default)]
pub struct Index {
    own: OnceLock<Arc<OwnDigests>>,
    applications: OnceLock<ApplicationIndex>,
}

impl Clone for Index {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// One zone and its records.
#[derive(Clone, Debug)]
pub struct ZoneSnapshot {
    pub zone: Zone,
    records: Vec<Record>,
}

/// A rule, and the tunnel that has it.
pub(super) type RuleInTunnel<'a> = (&'a TunnelId, &'a Rule);

/// A record of ours, with its zone.
#[derive(Clone, Debug)]
pub struct OwnRecord<'a> {
    pub zone: &'a ZoneSnapshot,
    pub record: &'a Record,
    /// The stamp in its comment.
    pub stamp: Stamp,
}

/// One tunnel's configuration.
#[derive(Clone, Debug)]
pub struct TunnelSnapshot {
    pub document: Document,
    /// True if this program may write the configuration; false if `cloudflared` brings its own configuration file.
    pub writable: bool,
    /// The version of the document; -1 if Cloudflare gives none.
    pub version: i64,
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
    pub(super) fn records_within(&self, name: &str) -> &[Record] {
        let start = self.records.partition_point(|record| in_tree_order(&record.name, name).is_lt());
        let rest = self.records.get(start..).unwrap_or_default();
        let length = rest.partition_point(|record| hostname::is_within(&record.name, name));
        rest.get(..length).unwrap_or_default()
    }

    /// The records that answer for `name`: its own, or else those of the wildcard above it.
    pub fn answering(&self, name: &str) -> &[Record] {
        match self.records_of(name) {
            [] => self.wildcard_over(name),
            records => records,
        }
    }

    /// The records of the wildcard that answers for `name`. Empty if a record exists at the name, below it, or at a
    /// name between the name and the wildcard (RFC 4592).
    pub fn wildcard_over(&self, name: &str) -> &[Record] {
        if self.records_of(name).is_empty() { self.wildcard_behind(name) } else { &[] }
    }

    /// The records of the wildcard that answers for `name` once the name's own records are deleted.
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
        let mut rest = name;
        while let Some((_, parent)) = rest.split_once('.')
            && parent.len() > self.zone.name.len()
        {
            if self.records_of(parent).iter().any(|record| &*record.record_type == "NS") {
                return true;
            }
            rest = parent;
        }
        false
    }
}

impl Snapshot {
    /// An empty snapshot.
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
            index: Index::default(),
        }
    }

    pub(super) fn operator(&self) -> &OperatorSettings {
        &self.settings.operator
    }

    /// The zone that `name` belongs to: the longest active zone on a label boundary, or else the longest zone. `None`
    /// if that zone was not read, or if NS records delegate the name to other name servers.
    pub fn zone_of(&self, name: &str) -> Option<&ZoneSnapshot> {
        let zone = self.answering_zone(name)?;
        let mut elsewhere = self.excluded_zones.iter().filter(|zone| hostname::is_within(name, &zone.name));
        let is_elsewhere = elsewhere.any(|one| precedence(one) > precedence(&zone.zone));
        let is_elsewhere = is_elsewhere || zone.delegates(name);
        (!is_elsewhere).then_some(zone)
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
    pub(super) fn all_wildcards_over(&self, name: &str) -> Vec<&Record> {
        let mut records = Vec::new();
        for (dot, _) in name.match_indices('.') {
            let wildcard = format!("*{}", name.get(dot..).unwrap_or_default());
            let zone = self.answering_zone(name).filter(|_| wildcard != name);
            records.extend(zone.into_iter().flat_map(|zone| zone.records_of(&wildcard)));
        }
        records
    }

    /// The zone that resolvers ask about `name`, among the zones that were read.
    fn answering_zone(&self, name: &str) -> Option<&ZoneSnapshot> {
        self.zones_around(name).max_by_key(|zone| precedence(&zone.zone))
    }

    /// The zones that were read and that contain `name`.
    pub(super) fn zones_around(&self, name: &str) -> impl Iterator<Item = &ZoneSnapshot> {
        self.zones.iter().filter(move |zone| hostname::is_within(name, &zone.zone.name))
    }

    /// All our records. Those of one name are adjacent.
    pub fn own_records(&self) -> impl Iterator<Item = OwnRecord<'_>> {
        let records =
            self.zones.iter().flat_map(|zone| zone.records().iter().map(move |record| (zone, record)));
        let own = records
            .filter_map(|(zone, record)| Some(OwnRecord { zone, record, stamp: self.own_stamp(record)? }));
        own.filter(|own| self.is_zone_of(own.zone, &own.record.name))
    }

    /// Our records of `name`.
    pub fn own_records_of(&self, name: &str) -> Vec<OwnRecord<'_>> {
        let Some(zone) = self.zone_of(name) else { return Vec::new() };
        let records = zone.records_of(name).iter();
        records
            .filter_map(|record| Some(OwnRecord { zone, record, stamp: self.own_stamp(record)? }))
            .collect()
    }

    /// The foreign rule that visitors reach by this record of ours, if the record's stamp is released. The record stays
    /// for that rule, and ExternalDNS is not shown it.
    pub(super) fn served_by_released(&self, record: &Record, stamp: &Stamp) -> Option<&Rule> {
        if !stamp.claims.is_released {
            return None;
        }
        let visited = record.tunnel()?;
        let rules = self.tunnels.get(&visited)?.document.rules_of(&Hostname::parse(&record.name).ok()?);
        rules.first().copied().or_else(|| self.rule_below(&record.name, &visited))
    }

    /// A rule in that tunnel for a name below `wildcard` that has no record of its own: the record that answers for the
    /// wildcard serves it.
    pub(super) fn rule_below(&self, wildcard: &str, visited: &TunnelId) -> Option<&Rule> {
        let domain = wildcard.strip_prefix("*.")?;
        let record = &self.answering(wildcard).first()?.id;
        let is_served = |name: &str| {
            let is_answered = || self.answering(name).iter().any(|one| one.id == *record);
            name != wildcard && is_below(name, domain) && self.zone_of(name).is_some() && is_answered()
        };
        let rules = self.tunnels.get(visited)?.document.rules();
        rules.iter().find(|rule| rule.is_readable() && is_served(rule.folded_hostname()))
    }

    /// The stamps of our records of `name`, or if there are none, those of the foreign records that `ADOPT` may take
    /// over.
    pub(super) fn stamps_of(&self, name: &str) -> Vec<Stamp> {
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

    /// The stamp and the tunnel of a record that has our owner, and points to a tunnel that another instance may serve.
    pub(super) fn stamp_of_same_owner(&self, record: &Record) -> Option<(Stamp, TunnelId)> {
        let stamp = Stamp::of(record).filter(|stamp| stamp.owner == self.operator().owner)?;
        let tunnel = record.tunnel().filter(|tunnel| self.unconfigured_tunnels.contains(tunnel))?;
        Some((stamp, tunnel))
    }

    /// The rules of every tunnel, each marked as ours or foreign, for queries about many rules.
    pub fn marked_rules(&self) -> BTreeMap<&TunnelId, MarkedRules<'_>> {
        let own = self.own_digests();
        inserted(
            self.tunnels.iter().map(|(id, tunnel)| (id, tunnel.document.marked(&|rule| own.has(id, rule)))),
        )
    }

    /// Our rules of a hostname, with their tunnels, as far as `is_meant` selects them.
    pub(super) fn own_rules_of<'s>(
        &'s self,
        hostname: &Hostname,
        is_meant: impl Fn(&Rule) -> bool,
    ) -> Vec<RuleInTunnel<'s>> {
        let own = self.own_digests();
        let rules = self
            .tunnels
            .iter()
            .flat_map(|(id, tunnel)| tunnel.document.near(hostname.as_str()).map(move |rule| (id, rule)));
        rules
            .filter(|(id, rule)| is_meant(rule) && rule.has_hostname(hostname) && own.has(id, rule))
            .collect()
    }

    /// The rules of a hostname that a stamp names. This function alone decides which rules are ours.
    pub(super) fn rules_claimed_by<'s>(
        &'s self,
        hostname: &Hostname,
        stamp: &Stamp,
    ) -> Vec<RuleInTunnel<'s>> {
        let rules = self.digested_rules_of(hostname);
        let named = &naming_digests(&rules) & &stamp.claims.digests;
        rules.into_iter().filter(|(digest, _)| named.contains(digest)).map(|(_, placed)| placed).collect()
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

    /// The rules of a hostname, ours and foreign, each with its digest.
    pub(super) fn digested_rules_of<'s>(&'s self, hostname: &Hostname) -> Vec<(Digest, RuleInTunnel<'s>)> {
        let rules = self.rules_of(hostname).into_iter();
        rules.map(|(id, rule)| (Digest::of(id, rule.path()), (id, rule))).collect()
    }

    /// The claims of a hostname's stamp, without the digests that no rule has.
    pub(super) fn existing_claims(&self, hostname: &Hostname, stamp: &Stamp) -> Claims {
        let digests = self.digested_rules_of(hostname).into_iter().map(|(digest, _)| digest);
        let digests = inserted(digests.filter(|digest| stamp.claims.digests.contains(digest)));
        Claims { digests, ..stamp.claims }
    }

    /// True if a stamp names the rule of a path in one of the configured tunnels, or the record alone.
    pub(super) fn claims_path(&self, stamp: &Stamp, path: Option<&str>) -> bool {
        let mut tunnels = self.settings.tunnels().iter();
        path.is_none() && stamp.claims.record_only
            || tunnels.any(|tunnel| stamp.claims.digests.contains(&Digest::of(&tunnel.id, path)))
    }

    /// True if a comment of ours says that Access protects something.
    pub fn claims_protection(&self) -> bool {
        let records = self.zones.iter().flat_map(ZoneSnapshot::records);
        // A search in the text costs less than parsing it.
        let mut records = records.filter(|record| record.comment.contains(stamp::PROTECTED));
        records.any(|record| self.own_stamp(record).is_some_and(|stamp| stamp.claims.is_protected))
    }

    /// All rules that are ours, with their tunnels.
    pub fn own_rules(&self) -> impl Iterator<Item = RuleInTunnel<'_>> {
        let own = self.own_digests();
        let tunnels = self.tunnels.iter();
        let rules =
            tunnels.flat_map(|(id, tunnel)| tunnel.document.rules().iter().map(move |rule| (id, rule)));
        rules.filter(move |(id, rule)| own.has(id, rule))
    }

    /// The rules of every tunnel.
    pub fn all_rules(&self) -> impl Iterator<Item = &Rule> {
        self.tunnels.values().flat_map(|tunnel| tunnel.document.rules())
    }

    pub(super) fn application_index(&self) -> &ApplicationIndex {
        self.index.applications.get_or_init(|| ApplicationIndex::of(self))
    }

    /// The digests of the rules that our stamps name.
    pub fn own_digests(&self) -> Arc<OwnDigests> {
        let own = self.index.own.get_or_init(|| {
            let mut own = OwnDigests::default();
            for OwnRecord { zone: _, record, stamp } in self.own_records() {
                if let Ok(hostname) = Hostname::parse(&record.name) {
                    let rules = self.rules_claimed_by(&hostname, &stamp).into_iter();
                    own.add(&record.name, rules.map(|(id, rule)| Digest::of(id, rule.path())));
                }
            }
            own.into()
        });
        Arc::clone(own)
    }
}

/// Of the zones around a name, the one with the highest precedence has the name.
fn precedence(zone: &Zone) -> (bool, usize) {
    (zone.is_active(), zone.name.len())
}

/// The digests that name a rule, if these are all rules of a hostname. A digest that several rules have names none.
pub(super) fn naming_digests(rules: &[(Digest, RuleInTunnel<'_>)]) -> BTreeSet<Digest> {
    let mut digests: Vec<Digest> = rules.iter().map(|(digest, _)| *digest).collect();
    digests.sort_unstable();
    inserted(digests.chunk_by(Digest::eq).filter(|same| same.len() == 1).flatten().copied())
}

/// The digests of our rules, by hostname.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnDigests(BTreeMap<Box<str>, BTreeSet<Digest>>);

impl OwnDigests {
    /// Adds digests of a hostname.
    pub fn add(&mut self, hostname: &str, digests: impl IntoIterator<Item = Digest>) {
        self.0.entry(hostname.into()).or_default().extend(digests);
    }

    /// The digests of a hostname.
    pub fn of(&self, hostname: &str) -> impl Iterator<Item = Digest> {
        self.0.get(hostname).into_iter().flatten().copied()
    }

    /// True if `rule` of `tunnel` is ours.
    pub fn has(&self, tunnel: &TunnelId, rule: &Rule) -> bool {
        let digests = self.0.get(rule.folded_hostname()).filter(|_| rule.is_readable());
        digests.is_some_and(|digests| digests.contains(&Digest::of(tunnel, rule.path())))
    }
}
