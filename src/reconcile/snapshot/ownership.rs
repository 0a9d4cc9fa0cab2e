//! Tells which records and rules are ours, by the stamps in the comments of records.

use std::collections::{BTreeMap, BTreeSet};

use crate::collections::collect;
use crate::ingress::{MarkedRules, Rule};
use crate::model::{Hostname, Record, TunnelId};
use crate::reconcile::adopt::Need;
use crate::reconcile::snapshot::{RuleInTunnel, Snapshot, ZoneSnapshot};
use crate::reconcile::stamp::{Claims, Digest, Stamp};

/// A record of ours, with its zone.
#[derive(Clone, Debug)]
pub struct OwnRecord<'a> {
    pub zone: &'a ZoneSnapshot,
    pub record: &'a Record,
    /// The stamp in its comment.
    pub stamp: Stamp,
}

impl Snapshot {
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

    /// Our rules of a hostname, with their tunnels.
    pub(crate) fn own_rules_of<'s>(&'s self, hostname: &Hostname) -> Vec<RuleInTunnel<'s>> {
        let own = self.own_digests();
        let mut rules = self.rules_of(hostname);
        rules.retain(|(id, rule)| own.has(id, rule));
        rules
    }

    /// The rules of a hostname that a stamp names.
    pub(crate) fn rules_claimed_by<'s>(
        &'s self,
        hostname: &Hostname,
        stamp: &Stamp,
    ) -> Vec<RuleInTunnel<'s>> {
        let rules = self.digested_rules_of(hostname);
        let claimed = claimed_digests(&rules, stamp);
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
                    own.add(&record.name, claimed_digests(&self.digested_rules_of(&hostname), &stamp));
                }
            }
            own
        })
    }
}

/// The digests of the rules of a hostname that a stamp names: these rules are ours. `rules` are all rules of the
/// hostname. If our record was deleted by hand, `adoption::reclaimed` decides.
fn claimed_digests(rules: &[(Digest, RuleInTunnel<'_>)], stamp: &Stamp) -> BTreeSet<Digest> {
    &unique_digests(rules) & &stamp.claims.digests
}

/// Each digest that exactly one of the rules has. `rules` are all rules of a hostname.
pub(crate) fn unique_digests(rules: &[(Digest, RuleInTunnel<'_>)]) -> BTreeSet<Digest> {
    let mut digests: Vec<Digest> = rules.iter().map(|(digest, _)| *digest).collect();
    digests.sort_unstable();
    collect(digests.chunk_by(Digest::eq).filter(|same| same.len() == 1).flatten().copied())
}

/// The digests of our rules, by hostname.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnDigests(BTreeMap<Box<str>, BTreeSet<Digest>>);

impl OwnDigests {
    /// Adds digests of a hostname.
    pub fn add(&mut self, hostname: &str, digests: impl IntoIterator<Item = Digest>) {
        self.0.entry(hostname.into()).or_default().extend(digests);
    }

    /// The digests of a hostname; `None` if the hostname has no record of ours.
    pub fn of(&self, hostname: &str) -> Option<&BTreeSet<Digest>> {
        self.0.get(hostname)
    }

    /// True if `rule` of `tunnel` is ours.
    pub fn has(&self, tunnel: &TunnelId, rule: &Rule) -> bool {
        let digests = self.of(rule.folded_hostname());
        rule.is_readable() && digests.is_some_and(|all| all.contains(&Digest::of(tunnel, rule.path())))
    }
}
