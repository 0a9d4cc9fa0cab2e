//! One hostname before anything is written; `adoption.rs` adds what is taken over.

mod adoption;
pub(super) mod comment;
pub(super) mod decide;
mod obstacle;
pub(super) mod writes;

use std::borrow::Cow;
use std::time::Duration;

use crate::ingress::{MarkedRules, Rule};
use crate::model::{Hostname, Record, TunnelId};
use crate::reconcile::OperatorSettings;
use crate::reconcile::access::gate::Gated;
use crate::reconcile::access::host_protection::HostProtection;
use crate::reconcile::plan::request::Wanted;
use crate::reconcile::plan_inputs::PlanContext;
use crate::reconcile::snapshot::{Snapshot, ZoneSnapshot, unique_digests};
use crate::reconcile::stamp::{Digest, Stamp};

/// A record without a rule that hides a wildcard's record is deleted only within this time of its creation. Later, its
/// rule may have been deleted by hand, and its comment may have a remark.
const NEW_RECORD_MAX_AGE: Duration = Duration::from_secs(3600);

#[derive(Clone)]
pub(super) struct Host<'a> {
    context: PlanContext<'a>,
    hostname: Hostname,
    zone: &'a ZoneSnapshot,
    own_records: Vec<&'a Record>,
    /// Records that `ADOPT` takes over. They are foreign until the stamp is written.
    adopted_records: Vec<&'a Record>,
    /// Foreign records that cannot exist beside a CNAME.
    foreign_records: Vec<&'a Record>,
    /// The stamp of our records and of the adopted records.
    pub(super) stamp: Option<Stamp>,
    /// All rules of the hostname, in the order of the tunnels and of their documents.
    rules: Vec<HostRule<'a>>,
    /// The names of the TXT records of ExternalDNS's registry about the wanted endpoints.
    registry_names: &'a [Box<str>],
}

#[derive(Clone, Copy)]
struct HostRule<'a> {
    tunnel: &'a TunnelId,
    rule: &'a Rule,
    digest: Digest,
    ownership: Ownership,
}

/// The relation of a rule to us.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ownership {
    /// A stamp of ours names the rule. Or the hostname has no record and the rule is exactly as wanted, so our record
    /// was deleted by hand.
    Ours,
    /// `ADOPT` takes the rule over. The rule is foreign until the stamp is written.
    Adopted,
    Foreign,
    /// Another rule of the hostname has the digest. The rule is foreign, and cannot become ours.
    Ambiguous,
}

impl<'a> HostRule<'a> {
    fn path(&self) -> Option<&'a str> {
        self.rule.path()
    }

    /// True if the rule is ours, or becomes ours with the stamp of this request. The stamp may name `Ambiguous` rules
    /// too, which are foreign.
    fn is_stamped(&self) -> bool {
        matches!(self.ownership, Ownership::Ours | Ownership::Adopted)
    }
}

impl<'a> Host<'a> {
    /// Reads the state of `hostname`, which belongs to `zone`.
    pub(super) fn of(
        context: PlanContext<'a>,
        zone: &'a ZoneSnapshot,
        hostname: Hostname,
        registry_names: &'a [Box<str>],
    ) -> Self {
        let snapshot = context.snapshot;
        let is_apex = hostname.as_str() == &*zone.zone.name;
        let records = zone.records_of(hostname.as_str()).iter();
        let (own_records, foreign_records): (Vec<&Record>, Vec<&Record>) = records
            .filter(|record| excludes_cname(record, is_apex))
            .partition(|record| snapshot.own_stamp(record).is_some());
        // All our records get the same comment. After an edit by hand, the first one counts.
        let stamp = own_records.first().and_then(|record| snapshot.own_stamp(record));
        Self {
            context,
            zone,
            own_records,
            adopted_records: Vec::new(),
            foreign_records,
            stamp,
            rules: rules_of(&hostname, snapshot),
            registry_names,
            hostname,
        }
    }

    /// The evidence of an old answer that concerns the hostname: about a zone around it, or about a tunnel that
    /// visitors reach, that an endpoint asks for, or that has a rule of the hostname. With a dangling digest, every old
    /// answer concerns it. No decision is made by such an answer.
    pub(super) fn old_answer(&self, wanted: &[Wanted<Gated>]) -> Option<&'a str> {
        let snapshot = self.snapshot();
        if snapshot.old_answers.is_empty() {
            return None;
        }
        let may_hide_rule = !comment::dangling(self, &[]).is_empty();
        let visited = snapshot.visited_tunnel(self.name());
        let wanted = wanted.iter().filter_map(Wanted::accepted);
        let wanted_tunnels = wanted.map(|gated| gated.tunnel());
        let rules = self.rules.iter().map(|rule| rule.tunnel);
        let tunnels = rules.chain(wanted_tunnels).chain(&visited).map(TunnelId::as_str);
        let zones = snapshot.zones_around(self.name()).map(|zone| zone.zone.id.as_str());
        let ids: Vec<&str> = tunnels.chain(zones).collect();
        let mut old = snapshot.old_answers.iter();
        old.find(|(id, _)| may_hide_rule || ids.contains(&&***id)).map(|(_, problem)| &**problem)
    }

    fn snapshot(&self) -> &'a Snapshot {
        self.context.snapshot
    }

    fn operator(&self) -> &'a OperatorSettings {
        self.snapshot().operator()
    }

    fn name(&self) -> &str {
        self.hostname.as_str()
    }

    /// Our records, and records that become ours with the stamp of this request.
    fn stamped_records(&self) -> impl Iterator<Item = &'a Record> {
        self.own_records.iter().chain(&self.adopted_records).copied()
    }

    fn protection(&self) -> HostProtection<'_> {
        HostProtection::of(&self.hostname, self.snapshot())
    }

    pub(super) fn has_stamped_record(&self) -> bool {
        self.stamped_records().next().is_some()
    }

    /// True if the hostname has no record that excludes a CNAME, neither ours nor foreign.
    fn has_no_record(&self) -> bool {
        !self.has_stamped_record() && self.foreign_records.is_empty()
    }

    /// The tunnel of the first stamped record.
    fn record_tunnel(&self) -> Option<TunnelId> {
        self.stamped_records().next()?.tunnel()
    }

    /// True in a dry run: nothing is written, so no step waits for an earlier step.
    fn is_dry_run(&self) -> bool {
        self.context.inputs.is_dry_run
    }

    /// Our rules, and rules that become ours with the stamp of this request.
    fn stamped_rules(&self) -> impl Iterator<Item = &HostRule<'a>> {
        self.rules.iter().filter(|rule| rule.is_stamped())
    }

    /// The rules that `ADOPT` takes over.
    fn adopted_rules(&self) -> impl Iterator<Item = &HostRule<'a>> {
        self.rules.iter().filter(|rule| rule.ownership == Ownership::Adopted)
    }

    /// The rule of a path, ours or foreign.
    fn rule_at(&self, tunnel: &TunnelId, path: Option<&str>) -> Option<&HostRule<'a>> {
        self.rules.iter().find(|rule| rule.tunnel == tunnel && rule.path() == path)
    }

    /// The rule of a path, if it is ours or becomes ours with the stamp of this request.
    fn stamped_rule_at(&self, tunnel: &TunnelId, path: Option<&str>) -> Option<&HostRule<'a>> {
        self.rule_at(tunnel, path).filter(|rule| rule.is_stamped())
    }

    /// True if the tunnel's configuration is stored at Cloudflare, or may be written over the file of its
    /// `cloudflared`.
    fn is_writable(&self, tunnel: &TunnelId) -> bool {
        self.snapshot().tunnels.get(tunnel).is_some_and(|tunnel| tunnel.writable)
    }

    /// True if we have a rule for the path, in any tunnel.
    fn has_path(&self, path: Option<&str>) -> bool {
        self.stamped_rules().any(|rule| rule.path() == path)
    }

    /// True if `ADOPT` takes over records of the hostname.
    fn adopts_records(&self) -> bool {
        !self.adopted_records.is_empty()
    }

    /// True if the stamp claims the record without a rule, and no record is taken over.
    fn claims_record_only(&self) -> bool {
        !self.adopts_records() && self.stamp.as_ref().is_some_and(|stamp| stamp.claims.record_only)
    }

    /// The rules of a tunnel, with the adopted ones marked as ours.
    fn marked_rules(&self, tunnel: &TunnelId) -> Option<Cow<'a, MarkedRules<'a>>> {
        let marked_rules = self.context.marked_rules.get(tunnel)?;
        let adopted: Vec<_> = self.adopted_rules().filter(|adopted| adopted.tunnel == tunnel).collect();
        let is_own = |rule: &Rule| adopted.iter().any(|adopted| rule.is_for(&self.hostname, adopted.path()));
        Some(match &*adopted {
            [] => Cow::Borrowed(marked_rules),
            _ => Cow::Owned(marked_rules.with_own(&is_own)),
        })
    }

    /// True if no record that is ours or taken over was modified within the last `duration`, or if Cloudflare gave no
    /// times.
    fn is_unchanged_for(&self, duration: Duration) -> bool {
        let changed = self.stamped_records().filter_map(|record| record.modified).max();
        self.now().zip(changed).is_none_or(|(now, changed)| now.saturating_sub(changed) >= duration)
    }

    /// True if exactly one record is ours and none is taken over, and if that record points to a tunnel and was created
    /// less than `NEW_RECORD_MAX_AGE` ago.
    fn has_new_record(&self) -> bool {
        let ([record], []) = (&*self.own_records, &*self.adopted_records) else { return false };
        let created = record.created_unix_seconds.map(|seconds| Duration::from_secs(seconds.into()));
        let age = self.now().zip(created).map(|(now, created)| now.saturating_sub(created));
        self.record_tunnel().is_some() && age.is_some_and(|age| age < NEW_RECORD_MAX_AGE)
    }

    /// Cloudflare's time since the epoch.
    fn now(&self) -> Option<Duration> {
        let now = self.snapshot().date_unix_seconds?;
        Some(Duration::from_secs(u64::try_from(now).ok()?))
    }
}

/// The rules of a hostname, each ours or foreign.
fn rules_of<'a>(hostname: &Hostname, snapshot: &'a Snapshot) -> Vec<HostRule<'a>> {
    let own = snapshot.own_digests();
    let rules = snapshot.digested_rules_of(hostname);
    let naming = unique_digests(&rules);
    let rules = rules.into_iter().map(|(digest, (tunnel, rule))| {
        let ownership = if own.has(tunnel, rule) {
            Ownership::Ours
        } else if naming.contains(&digest) {
            Ownership::Foreign
        } else {
            Ownership::Ambiguous
        };
        HostRule { tunnel, rule, digest, ownership }
    });
    rules.collect()
}

/// A, AAAA and CNAME records exclude a CNAME. NS records below the zone's own name exclude all other records.
fn excludes_cname(record: &Record, is_apex: bool) -> bool {
    record.is_address_or_cname() || &*record.record_type == "NS" && !is_apex
}
