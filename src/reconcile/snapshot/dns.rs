//! Finds the zone and the records that answer for a name.

use crate::ingress::Rule;
use crate::model::hostname::{in_tree_order, is_below};
use crate::model::{Record, TunnelId, Zone, ZoneId, ZonePlan, hostname};
use crate::reconcile::snapshot::Snapshot;

/// The largest comment on a Free zone, in bytes.
const COMMENT_MAX_BYTES_FREE: usize = 100;

/// The largest comment on a paid zone, in bytes.
pub(crate) const COMMENT_MAX_BYTES_PAID: usize = 500;

/// One zone and its records.
#[derive(Clone, Debug)]
pub struct ZoneSnapshot {
    pub zone: Zone,
    records: Vec<Record>,
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
        let parents = names_above(name).take_while(|parent| parent.len() > self.zone.name.len());
        let mut records = parents.flat_map(|parent| self.records_of(parent));
        records.any(|record| &*record.record_type == "NS")
    }
}

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

    /// A rule in that tunnel for a name below `wildcard` that has no record of its own: the record that answers for the
    /// wildcard serves it.
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

/// The names above a name, the nearest first.
fn names_above(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('.').filter_map(|(dot, _)| name.get(dot + 1..))
}

/// Of the zones around a name, the one with the highest precedence has the name.
fn precedence(zone: &Zone) -> (bool, usize) {
    (zone.is_active(), zone.name.len())
}
