//! The state that was read from Cloudflare before a decision. `dns.rs` has the queries about zones and records,
//! `ownership.rs` those about what is ours.

mod dns;
mod ownership;
#[cfg(test)]
mod tests;

pub(super) use dns::COMMENT_MAX_BYTES_PAID;
pub use dns::ZoneSnapshot;
pub(super) use ownership::unique_digests;
pub use ownership::{OwnDigests, OwnRecord};

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use crate::ingress::{Document, Rule};
use crate::model::{Hostname, Record, TunnelId, Zone};
use crate::reconcile::access::applications::ApplicationIndex;
use crate::reconcile::access::reading::AccessReading;
use crate::reconcile::stamp::{self, Stamp};
use crate::reconcile::{OperatorSettings, Settings};

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

/// A rule, and the tunnel that has it.
pub type RuleInTunnel<'a> = (&'a TunnelId, &'a Rule);

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
