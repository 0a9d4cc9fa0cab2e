//! What was read from Cloudflare before a decision, and the questions that decisions ask of it.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use crate::ingress::{Document, HostIndex, MarkedRules, Rule};
use crate::lean::inserted;
use crate::model::hostname::in_tree_order;
use crate::model::{Hostname, Record, TunnelId, Zone, ZoneId, ZonePlan, hostname};
use crate::reconcile::access::protections::{ProtectionIndex, Protections};
use crate::reconcile::access::reading::AccessReading;
use crate::reconcile::stamp::{self, Claims, Digest, Stamp};
use crate::reconcile::{Policy, Settings};

/// The status of a delegated zone: visitors are led to its name servers.
pub(super) const ZONE_ACTIVE: &str = "active";

/// The largest comment on a Free zone, in bytes.
const COMMENT_MAX_BYTES_FREE: usize = 100;

/// The largest comment on a paid zone, in bytes.
const COMMENT_MAX_BYTES_PAID: usize = 500;

/// The zones' records and the tunnels' configurations at one time.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The settings by which it was read.
    pub settings: Arc<Settings>,
    /// The zones that were read: those within the domain filter.
    pub zones: Vec<ZoneSnapshot>,
    /// The names of zones that were not read. A name in one of them belongs there, and not to an outer zone.
    pub zones_elsewhere: Vec<Box<str>>,
    /// The configured tunnels, without those that were deleted.
    pub tunnels: BTreeMap<TunnelId, TunnelSnapshot>,
    /// Existing tunnels of the account that are not configured here. A record that leads to one belongs to another
    /// instance, whatever its stamp says.
    pub live_elsewhere: BTreeSet<TunnelId>,
    /// What is known of Cloudflare Access.
    pub access: AccessReading,
    /// The zones and tunnels, by id, whose answer is older than a state that was seen, each with the evidence. No
    /// decision relies on such an answer.
    pub old: BTreeMap<Box<str>, Box<str>>,
    /// The time at Cloudflare when it was read, in seconds since 1970; `None` if no answer told it.
    pub date_unix_seconds: Option<i64>,
    /// What was made of all this.
    pub index: Index,
}

/// What is made of a snapshot once, when it is first asked for. A copy of the snapshot may be changed, so it makes its own.
#[derive(Debug, Default)]
pub struct Index {
    own: OnceLock<Arc<OwnRules>>,
    /// The indices of our rules in the document of each tunnel, in the order of the tunnels.
    own_positions: OnceLock<Vec<BTreeSet<usize>>>,
    protections: OnceLock<ProtectionIndex>,
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

/// A record of ours, and its index.
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
    /// True if this program may write it; false if `cloudflared` brings its own configuration file.
    pub writable: bool,
    /// The version of the document; -1 if Cloudflare gives none.
    pub version: i64,
    hosts: HostIndex,
}

impl ZoneSnapshot {
    /// The zone with its records, in any order. Of a record that is listed twice, one counts.
    pub fn new(zone: Zone, mut records: Vec<Record>) -> Self {
        records.sort_unstable_by(|a, b| in_tree_order(&a.name, &b.name).then_with(|| a.id.cmp(&b.id)));
        records.dedup_by(|a, b| a.id == b.id);
        Self { zone, records }
    }

    /// All records. Those at a name or below it are neighbours: see [`hostname::in_tree_order`].
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// The records of one name.
    pub fn records_of(&self, name: &str) -> &[Record] {
        let within = self.records_within(name);
        // The name itself comes before those below it.
        let length = within.iter().take_while(|record| &*record.name == name).count();
        within.get(..length).unwrap_or_default()
    }

    /// The records of a name and of those below it.
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

    /// The records of the wildcard that answers for `name`: nothing exists at the name, below it, or at a name between
    /// (RFC 4592).
    pub fn wildcard_over(&self, name: &str) -> &[Record] {
        if self.records_of(name).is_empty() { self.wildcard_behind(name) } else { &[] }
    }

    /// The records of the wildcard that answers for `name` once the name's own records are gone.
    pub fn wildcard_behind(&self, name: &str) -> &[Record] {
        let mut topmost = name;
        while let Some((_, above)) = topmost.split_once('.')
            && above.len() >= self.zone.name.len()
        {
            let wildcard = format!("*.{above}");
            let records = self.records_of(&wildcard);
            if !records.is_empty() && wildcard != name {
                // An existing name, or one below, takes all names below it from the wildcard.
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

    /// True if visitors are led to the zone: its name servers answer, rather than records in an outer zone.
    pub fn is_active(&self) -> bool {
        &*self.zone.status == ZONE_ACTIVE
    }

    /// True if other name servers answer for `name`: below NS records no resolver asks for a zone's own records.
    fn delegates(&self, name: &str) -> bool {
        let mut rest = name;
        while let Some((_, parent)) = rest.split_once('.')
            && parent.len() > self.zone.name.len()
        {
            if self.records_of(parent).iter().any(|record| &*record.kind == "NS") {
                return true;
            }
            rest = parent;
        }
        false
    }
}

impl TunnelSnapshot {
    pub fn new(document: Document, writable: bool, version: i64) -> Self {
        let hosts = HostIndex::of(document.rules());
        Self { document, writable, version, hosts }
    }

    /// The rules of one hostname, in the document's order.
    pub fn rules_of(&self, hostname: &Hostname) -> Vec<&Rule> {
        self.indexed_rules_of(hostname).map(|(_, rule)| rule).collect()
    }

    /// The same, each with its index in the document.
    pub(super) fn indexed_rules_of(&self, hostname: &Hostname) -> impl Iterator<Item = (usize, &Rule)> {
        self.near(hostname.as_str()).filter(|(_, rule)| rule.has_hostname(hostname))
    }

    /// The rules that may have a host in common with a hostname, each with its index in the document.
    pub fn near(&self, hostname: &str) -> impl Iterator<Item = (usize, &Rule)> {
        let near = self.hosts.near(hostname).into_iter();
        near.filter_map(|index| Some((index, self.document.rules().get(index)?)))
    }
}

impl Snapshot {
    /// Nothing is read yet.
    pub fn new(settings: Arc<Settings>) -> Self {
        Self {
            settings,
            zones: Vec::new(),
            zones_elsewhere: Vec::new(),
            tunnels: BTreeMap::new(),
            live_elsewhere: BTreeSet::new(),
            access: AccessReading::NotAsked,
            old: BTreeMap::new(),
            date_unix_seconds: None,
            index: Index::default(),
        }
    }

    pub(super) fn policy(&self) -> &Policy {
        &self.settings.policy
    }

    /// The zone that `name` belongs to: the longest active zone on a label boundary, or else the longest zone. `None`
    /// if a longer zone was not read, or if NS records lead the name to other name servers.
    pub fn zone_of(&self, name: &str) -> Option<&ZoneSnapshot> {
        let home = self.answering_zone(name)?;
        let mut elsewhere = self.zones_elsewhere.iter().filter(|zone| zone.len() > home.zone.name.len());
        let is_elsewhere = elsewhere.any(|zone| hostname::is_within(name, zone)) || home.delegates(name);
        (!is_elsewhere).then_some(home)
    }

    /// The zone with this id.
    pub fn zone(&self, id: &ZoneId) -> Option<&ZoneSnapshot> {
        self.zones.iter().find(|zone| zone.zone.id == *id)
    }

    /// True if a zone that was not read lies below a domain.
    pub(super) fn has_zone_elsewhere_below(&self, domain: &str) -> bool {
        self.zones_elsewhere.iter().any(|zone| hostname::is_within(zone, domain))
    }

    /// True if `name` belongs to this zone; a zone may lie inside another.
    pub fn is_home(&self, zone: &ZoneSnapshot, name: &str) -> bool {
        self.zone_of(name).is_some_and(|home| home.zone.id == zone.zone.id)
    }

    /// The tunnel that visitors of `name` are led to, by a record of its own or by a wildcard's.
    pub fn led_to(&self, name: &str) -> Option<TunnelId> {
        self.zone_of(name)?;
        self.answering(name).iter().find_map(|record| TunnelId::from_hostname(&record.content))
    }

    /// The records that answer visitors of `name`.
    pub fn answering(&self, name: &str) -> &[Record] {
        self.answering_zone(name).map_or(&[], |zone| zone.answering(name))
    }

    /// The records of all wildcards above `name`, whether one of them answers for it now or not.
    pub(super) fn wildcards_over(&self, name: &str) -> Vec<&Record> {
        let mut records = Vec::new();
        for (dot, _) in name.match_indices('.') {
            let wildcard = format!("*{}", name.get(dot..).unwrap_or_default());
            let zone = self.answering_zone(name).filter(|_| wildcard != name);
            records.extend(zone.into_iter().flat_map(|zone| zone.records_of(&wildcard)));
        }
        records
    }

    /// The zone that visitors' resolvers ask about `name`, of those that were read.
    fn answering_zone(&self, name: &str) -> Option<&ZoneSnapshot> {
        self.zones_around(name).max_by_key(|zone| (zone.is_active(), zone.zone.name.len()))
    }

    /// The zones read that contain `name`.
    pub(super) fn zones_around(&self, name: &str) -> impl Iterator<Item = &ZoneSnapshot> {
        self.zones.iter().filter(move |zone| hostname::is_within(name, &zone.zone.name))
    }

    /// Our records of `name`.
    pub fn own_records_of(&self, name: &str) -> Vec<OwnRecord<'_>> {
        let Some(zone) = self.zone_of(name) else { return Vec::new() };
        let records = zone.records_of(name).iter();
        let own = records.filter_map(|record| Some((record, self.own_stamp(record)?)));
        own.map(|(record, stamp)| OwnRecord { zone, record, stamp }).collect()
    }

    /// The stamps of the address records of `name`: ours, or else others'.
    pub(super) fn stamps_of(&self, name: &str) -> Vec<Stamp> {
        let own = self.own_records_of(name).into_iter().map(|own| own.stamp);
        let own: Vec<Stamp> = own.collect();
        if !own.is_empty() {
            return own;
        }
        let records = self.zone_of(name).map(|zone| zone.records_of(name)).unwrap_or_default();
        records.iter().filter(|record| record.is_address()).filter_map(Stamp::of).collect()
    }

    /// The stamp of `record` if it is ours: it has our owner, and does not lead to a tunnel that another instance may
    /// serve. A record that may stand beside a CNAME is never ours, even if our comment was copied there.
    pub fn own_stamp(&self, record: &Record) -> Option<Stamp> {
        if record.read_only || !record.is_address() {
            return None;
        }
        let stamp = Stamp::of(record).filter(|stamp| stamp.owner == self.policy().owner)?;
        let tunnel = TunnelId::from_hostname(&record.content);
        tunnel.is_none_or(|tunnel| !self.live_elsewhere.contains(&tunnel)).then_some(stamp)
    }

    /// Every tunnel's rules, each marked as ours or not, for asking about many of them.
    pub fn marked_rules(&self) -> BTreeMap<&TunnelId, MarkedRules<'_>> {
        let own = self.own_rules();
        inserted(
            self.tunnels.iter().map(|(id, tunnel)| (id, tunnel.document.marked(&|rule| own.has(id, rule)))),
        )
    }

    /// Our rules of a hostname, with their tunnels.
    pub(super) fn own_rules_of(&self, hostname: &Hostname) -> Vec<(&TunnelId, &Rule)> {
        let own = self.own_positions().iter().zip(&self.tunnels);
        let of_tunnel = own.flat_map(|(own, (id, tunnel))| {
            let indices = tunnel.indexed_rules_of(hostname).filter(|(index, _)| own.contains(index));
            indices.map(move |(_, rule)| (id, rule))
        });
        of_tunnel.collect()
    }

    /// The rules of a hostname that a stamp names. A digest that several of its rules have names none of them. This alone
    /// says which rules are ours.
    pub(super) fn rules_claimed_by<'s>(
        &'s self,
        hostname: &Hostname,
        stamp: &Stamp,
    ) -> Vec<(&'s TunnelId, &'s Rule)> {
        let rules = self.rules_of(hostname).into_iter();
        let rules: Vec<_> = rules.map(|(id, rule)| (Digest::of(id, rule.path()), (id, rule))).collect();
        let (mut once, mut twice) = (BTreeSet::new(), BTreeSet::new());
        for (digest, _) in &rules {
            let of = if once.insert(*digest) { continue } else { &mut twice };
            of.insert(*digest);
        }
        let is_named = |digest: &Digest| stamp.claims.rules.contains(digest) && !twice.contains(digest);
        rules.iter().filter(|(digest, _)| is_named(digest)).map(|(_, placed)| *placed).collect()
    }

    /// The rules of a hostname, ours and foreign ones, with their tunnels.
    pub(super) fn rules_of<'s>(&'s self, hostname: &Hostname) -> Vec<(&'s TunnelId, &'s Rule)> {
        let tunnels = self.tunnels.iter();
        tunnels
            .flat_map(|(id, tunnel)| tunnel.rules_of(hostname).into_iter().map(move |rule| (id, rule)))
            .collect()
    }

    /// What the stamp of a hostname claims, without the digests that no rule has.
    pub(super) fn standing_claims(&self, name: &str, stamp: &Stamp) -> Claims {
        let rules = Hostname::parse(name).map(|hostname| self.rules_of(&hostname)).unwrap_or_default();
        let rules = rules.into_iter().map(|(id, rule)| Digest::of(id, rule.path()));
        let rules = inserted(rules.filter(|digest| stamp.claims.rules.contains(digest)));
        Claims { rules, ..stamp.claims }
    }

    /// True if a stamp names the rule of a path in one of the configured tunnels, or the record alone.
    pub(super) fn claims_path(&self, stamp: &Stamp, path: Option<&str>) -> bool {
        let mut tunnels = self.settings.tunnels().iter();
        path.is_none() && stamp.claims.record_only
            || tunnels.any(|tunnel| stamp.claims.rules.contains(&Digest::of(&tunnel.id, path)))
    }

    /// True if a comment of ours says that Access protects something.
    pub fn is_marked(&self) -> bool {
        let records = self.zones.iter().flat_map(ZoneSnapshot::records);
        // A look at the text costs less than to parse it.
        let mut records = records.filter(|record| record.comment.contains(stamp::PROTECTED));
        records.any(|record| self.own_stamp(record).is_some_and(|stamp| stamp.claims.is_protected))
    }

    /// All rules that are ours, with their tunnels.
    pub fn own_rules_standing(&self) -> impl Iterator<Item = (&TunnelId, &Rule)> {
        self.own_positions().iter().zip(&self.tunnels).flat_map(|(own, (id, tunnel))| {
            own.iter().filter_map(move |index| Some((id, tunnel.document.rules().get(*index)?)))
        })
    }

    fn own_positions(&self) -> &[BTreeSet<usize>] {
        self.index.own_positions.get_or_init(|| {
            let own = self.own_rules();
            let indices = self.tunnels.iter().map(|(id, tunnel)| {
                let rules = tunnel.document.rules().iter().enumerate();
                inserted(rules.filter(|(_, rule)| own.has(id, rule)).map(|(index, _)| index))
            });
            indices.collect()
        })
    }

    /// The applications of Access, and what each stands over.
    pub fn protections<'s>(&'s self) -> Protections<'s> {
        let applications = self.access.applications();
        let index = self.index.protections.get_or_init(|| {
            let rules = self.own_rules_standing().map(|(_, rule)| rule);
            ProtectionIndex::of(applications, rules, &self.policy().owner)
        });
        Protections::new(applications, index)
    }

    /// The digests of the rules that our stamps name.
    pub fn own_rules(&self) -> Arc<OwnRules> {
        let own = self.index.own.get_or_init(|| {
            let mut own = OwnRules::default();
            for zone in &self.zones {
                for record in zone.records().iter().filter(|record| !record.comment.is_empty()) {
                    let stamp = self.own_stamp(record).filter(|_| self.is_home(zone, &record.name));
                    if let (Some(stamp), Ok(hostname)) = (stamp, Hostname::parse(&record.name)) {
                        let rules = self.rules_claimed_by(&hostname, &stamp).into_iter();
                        own.add(&record.name, rules.map(|(id, rule)| Digest::of(id, rule.path())));
                    }
                }
            }
            own.into()
        });
        Arc::clone(own)
    }
}

/// The digests of our rules, by hostname.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnRules(BTreeMap<Box<str>, BTreeSet<Digest>>);

impl OwnRules {
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
