//! What must not be repeated: log lines about a state that lasts, and writes that Cloudflare refused or does not keep.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use crate::ingress::{Owned, Rule, RuleEdit};
use crate::limits;
use crate::model::endpoint::Property;
use crate::model::{Record, RecordPatch, TunnelId, ZoneId};
use crate::ordered::inserted;
use crate::provider::description::describe_operation;
use crate::provider::execution::{Done, Doubts, Rejection, record_work, tunnel_work};
use crate::provider::memory::write_loops::{Write, WriteLoops, fingerprint};
use crate::reconcile::canonical;
use crate::reconcile::plan::{HostPlan, Plan, Reason, RecordOperation, Refusal, Stage, Subject};
use crate::reconcile::snapshot::Snapshot;

/// Every tunnel's rules, with which of them are ours.
type OwnedRules<'a> = BTreeMap<&'a TunnelId, Owned<'a>>;

/// Who has something to say. Each speaks for its own state only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Speaker {
    Adjust,
    Records,
    Apply,
    DryRun,
    Silence,
}

/// The memory of one process. It is lost with it, and nothing depends on it but the number of lines and calls.
#[derive(Debug, Default)]
pub(super) struct Journal {
    said: BTreeMap<Speaker, BTreeSet<String>>,
    rejected: HashMap<Box<str>, Rejected>,
    /// What the last request was asked for and could not decide.
    doubts: Doubts,
    /// The tunnels' configurations as they were seen, or written by this program, last.
    versions: BTreeMap<TunnelId, i64>,
    breaker: WriteLoops,
}

#[derive(Debug)]
struct Rejected {
    reason: Reason,
    quota: Option<(ZoneId, usize)>,
    document: Option<TunnelId>,
    retry_at: Instant,
    pause: Duration,
}

impl Journal {
    /// The lines that `speaker` did not say the last time. A line that is not in `lines` any more may be said again.
    pub(super) fn news(&mut self, speaker: Speaker, lines: impl IntoIterator<Item = String>) -> Vec<String> {
        let lines: BTreeSet<String> = inserted(lines);
        let before = self.said.remove(&speaker).unwrap_or_default();
        let news = lines.difference(&before).cloned().collect();
        self.said.insert(speaker, lines);
        news
    }

    /// Nothing that `speaker` said is so any more.
    pub(super) fn forget(&mut self, speaker: Speaker) {
        self.said.remove(&speaker);
    }

    /// A new loop of ExternalDNS begins.
    pub(super) fn begin_turn(&mut self) {
        self.breaker.begin_turn();
    }

    /// What came to no verdict in the last request.
    pub(super) fn doubts(&self) -> &Doubts {
        &self.doubts
    }

    /// Takes out of `plan` what Cloudflare refused before and would refuse again, and what it would not keep.
    pub(super) fn hold_back(&mut self, plan: &mut Plan, snapshot: &Snapshot, now: Instant) {
        self.notice_other_writers(snapshot, now);
        let Self { said: _, rejected, doubts: _, versions: _, breaker } = self;
        if rejected.is_empty() && breaker.is_empty() {
            return;
        }
        let Plan { hosts, refusals, own_before, .. } = plan;
        let owned = snapshot.owned(own_before);
        let mut brake = Brake { rejected, breaker, snapshot, owned, now, refusals };
        hosts.retain_mut(|host| brake.lets_pass(host) && !host.is_empty());
    }

    /// Lets what a tunnel's document was refused for be tried again where somebody else has written it since.
    fn notice_other_writers(&mut self, snapshot: &Snapshot, now: Instant) {
        let versions: BTreeMap<TunnelId, i64> =
            inserted(snapshot.tunnels.iter().map(|(id, tunnel)| (id.clone(), tunnel.version)));
        let is_news = |tunnel: &TunnelId| {
            self.versions.get(tunnel).is_some_and(|seen| versions.get(tunnel).is_some_and(|now| now != seen))
        };
        for rejected in self.rejected.values_mut() {
            if rejected.document.as_ref().is_some_and(is_news) {
                rejected.retry_at = now;
            }
        }
        self.versions = versions;
    }

    /// Remembers what was refused, and by whom a document was written last.
    pub(super) fn learn(&mut self, done: &Done, now: Instant) {
        for (tunnel, version) in &done.versions {
            self.versions.insert(tunnel.clone(), *version);
        }
        for Rejection { refusal, work, quota, document } in &done.rejections {
            let pause = self
                .rejected
                .get(work)
                .map_or(limits::REJECTION_PAUSE_MIN, |earlier| earlier.pause * 2)
                .min(limits::REJECTION_PAUSE_MAX);
            let (reason, quota, document) = (refusal.reason.clone(), quota.clone(), document.clone());
            let rejected = Rejected { reason, quota, document, retry_at: now + pause, pause };
            self.rejected.insert(work.clone(), rejected);
        }
        // What nobody asked for in a long time is not asked for any more.
        self.rejected.retain(|_, rejected| now < rejected.retry_at + limits::REJECTION_PAUSE_MAX);
    }

    /// Remembers what is left undecided. What the request did not ask for is forgotten.
    pub(super) fn keep_doubts(&mut self, done: &Done) {
        self.doubts.clone_from(&done.doubts);
    }

    /// Forgets what went through, and remembers that it was written or stored otherwise.
    pub(super) fn remember(&mut self, plan: &Plan, done: &Done, snapshot: &Snapshot, now: Instant) {
        let mut writes = Vec::new();
        let owned = snapshot.owned(&plan.own_before);
        let is_done = |hostname| !done.dropped.contains(hostname) || done.waiting.contains(hostname);
        for host in plan.hosts.iter().filter(|host| is_done(&host.hostname)) {
            let has_moved = !done.waiting.contains(&host.hostname);
            for (work, write) in works(host, snapshot, &owned, has_moved) {
                self.rejected.remove(&work);
                writes.extend(write);
            }
        }
        self.breaker.written(&writes, now);
        for write in &done.altered {
            self.breaker.stored_otherwise(*write, now);
        }
    }
}

impl Rejected {
    /// Whether a zone that was full holds fewer records than then.
    fn has_room(&self, snapshot: &Snapshot) -> bool {
        let Some((zone, records)) = &self.quota else {
            return false;
        };
        snapshot.zones.iter().any(|snapshot| snapshot.zone.id == *zone && snapshot.records().len() < *records)
    }
}

/// Goes over a plan's hostnames and takes out what is not to be written now.
struct Brake<'a> {
    rejected: &'a HashMap<Box<str>, Rejected>,
    breaker: &'a mut WriteLoops,
    snapshot: &'a Snapshot,
    owned: OwnedRules<'a>,
    now: Instant,
    refusals: &'a mut Vec<Refusal>,
}

impl Brake<'_> {
    /// Whether anything of the hostname is to be written.
    fn lets_pass(&mut self, host: &mut HostPlan) -> bool {
        let is_moving = host.moves_to.is_some();
        let mut held_batches = Vec::new();
        for (batch, operations) in &host.operations {
            let work = record_work(operations);
            let held = self.rejection(&work).or_else(|| {
                self.is_repeated(record_write(&host.hostname, batch, operations, self.snapshot))
                    .then(|| Reason::NotKept { field: differing_fields(operations).into() })
            });
            let Some(reason) = held else { continue };
            let is_refused = !matches!(reason, Reason::NotKept { .. });
            self.refuse(&host.hostname, host.resource.as_deref(), None, reason);
            // Without its record or its stamp no rule of the hostname is of use. And nobody would ask again for a TXT
            // record that outlives its hostname. One that comes after everything else holds up nothing.
            let goes_first = batch.0 == Stage::Unregister;
            let comes_last = batch.0 == Stage::Register;
            if !comes_last && (is_refused || is_moving || goes_first || operations.iter().any(carries_stamp))
            {
                return false;
            }
            held_batches.push(batch.clone());
        }
        host.operations.retain(|batch, _| !held_batches.contains(batch));
        for edits in host.edits.values_mut() {
            let mut kept = Vec::with_capacity(edits.len());
            for (tunnel, edit) in edits.drain(..) {
                let standing = standing_rule(&tunnel, &edit, self.snapshot);
                let held = self.rejection(&tunnel_work(&tunnel, &edit)).or_else(|| {
                    rule_write_against(&tunnel, &edit, self.snapshot, &self.owned)
                        .filter(|write| self.is_repeated(*write))
                        .map(|_| Reason::NotKept { field: differing_property(&edit, standing).into() })
                });
                let Some(reason) = held else {
                    kept.push((tunnel, edit));
                    continue;
                };
                self.refuse(&host.hostname, host.resource.as_deref(), edit.path(), reason);
                // The digest of a rule that stays must not come off. And led to its new tunnel without one of its
                // rules, or to an outdated one, the hostname would lose what that rule serves.
                if matches!(edit, RuleEdit::Remove { .. }) || is_moving {
                    return false;
                }
            }
            *edits = kept;
        }
        true
    }

    fn rejection(&self, work: &str) -> Option<Reason> {
        let rejected = self.rejected.get(work)?;
        (self.now < rejected.retry_at && !rejected.has_room(self.snapshot)).then(|| rejected.reason.clone())
    }

    fn is_repeated(&mut self, write: Write) -> bool {
        self.breaker.holds(write, self.now)
    }

    fn refuse(&mut self, hostname: &str, resource: Option<&str>, path: Option<&str>, reason: Reason) {
        let set_identifier = path.map(Into::into);
        let resource = resource.map(Into::into);
        self.refusals.push(Refusal { hostname: hostname.into(), set_identifier, resource, reason });
    }
}

/// Every piece of a hostname's work, but for leading its record over unless it `has_moved`: by what a refusal of it is
/// remembered, and what is written where.
fn works(
    host: &HostPlan,
    snapshot: &Snapshot,
    owned: &OwnedRules<'_>,
    has_moved: bool,
) -> Vec<(Box<str>, Option<Write>)> {
    let mut works = Vec::new();
    for (tunnel, edit) in host.edits.values().flatten() {
        works.push((tunnel_work(tunnel, edit), rule_write_against(tunnel, edit, snapshot, owned)));
    }
    for (batch, operations) in
        host.operations.iter().filter(|(batch, _)| has_moved || batch.0 != Stage::Repoint)
    {
        let write = record_write(&host.hostname, batch, operations, snapshot);
        works.push((record_work(operations), Some(write)));
    }
    works
}

/// Nothing where the rule stands already as it is wanted, and only others of the document are written.
fn rule_write_against(
    tunnel: &TunnelId,
    edit: &RuleEdit,
    snapshot: &Snapshot,
    owned: &OwnedRules<'_>,
) -> Option<Write> {
    let standing = standing_rule(tunnel, edit, snapshot);
    let is_shadowed = standing.is_some()
        && owned.get(tunnel).is_some_and(|owned| owned.is_shadowed(edit.hostname(), edit.path()));
    let is_done = match edit {
        RuleEdit::Put { rule, replaces: _ } => {
            standing.is_some_and(|standing| standing.equals(rule)) && !is_shadowed
        }
        RuleEdit::Remove { .. } => standing.is_none(),
    };
    (!is_done).then(|| rule_write(tunnel, edit, standing, is_shadowed))
}

/// The write of an edit where `standing` is what stands at its place.
pub(super) fn rule_write(
    tunnel: &TunnelId,
    edit: &RuleEdit,
    standing: Option<&Rule>,
    is_shadowed: bool,
) -> Write {
    let found = standing.map(|rule| rule.raw().get()).unwrap_or_default();
    Write {
        place: fingerprint([tunnel.as_str(), edit.hostname().as_str(), edit.path().unwrap_or_default()]),
        wanted: fingerprint([&*tunnel_work(tunnel, edit)]),
        found: fingerprint([found, if is_shadowed { "shadowed" } else { "" }]),
    }
}

fn standing_rule<'a>(tunnel: &TunnelId, edit: &RuleEdit, snapshot: &'a Snapshot) -> Option<&'a Rule> {
    let rules = snapshot.tunnels.get(tunnel)?.rules_of(edit.hostname());
    rules.into_iter().find(|rule| rule.path() == edit.path())
}

/// The write of a hostname's records. Their ids do not count: what somebody made again has a new one.
fn record_write(
    hostname: &str,
    (stage, zone): &(Stage, ZoneId),
    operations: &[RecordOperation],
    snapshot: &Snapshot,
) -> Write {
    let wanted: String = operations.iter().map(|operation| describe_operation(hostname, operation)).collect();
    let mut found = String::new();
    for record in snapshot.zones.iter().flat_map(|zone| zone.records_of(hostname)) {
        let Record {
            id: _,
            name: _,
            kind,
            content,
            proxied,
            ttl: _,
            comment,
            read_only: _,
            created_unix_seconds: _,
        } = record;
        let _ = writeln!(found, "{kind} {content} {proxied} {comment}");
    }
    // What one of two stages writes in a zone the other takes back.
    let is_deletion = operations.iter().all(|one| matches!(one, RecordOperation::Delete(..)));
    let stage = match *stage {
        Stage::Unregister => Stage::Register,
        Stage::Unstamp if is_deletion => Stage::Stamp,
        stage => stage,
    };
    Write {
        place: fingerprint([hostname, zone.as_str(), &*format!("{stage:?}")]),
        wanted: fingerprint([&*wanted]),
        found: fingerprint([&*found]),
    }
}

/// Whether a stamp is lost with the operation: a new record, or another comment.
fn carries_stamp(operation: &RecordOperation) -> bool {
    match operation {
        RecordOperation::Delete(..) => false,
        RecordOperation::Patch(patch, _) => patch.comment.is_some(),
        RecordOperation::Post(record) => &*record.kind == "CNAME",
    }
}

/// What of the record is to be written again.
fn differing_fields(operations: &[RecordOperation]) -> String {
    let [RecordOperation::Patch(patch, Subject { kind, name })] = operations else {
        return "record".to_owned();
    };
    let (record, target) = match &**kind {
        "TXT" => (format!("TXT record {name:?}"), "content"),
        _ => ("record".to_owned(), "target"),
    };
    let RecordPatch { id: _, content, proxied, comment } = patch;
    let fields =
        [(target, content.is_some()), ("proxied", proxied.is_some()), ("comment", comment.is_some())];
    let names: Vec<&str> =
        fields.into_iter().filter(|(_, is_written)| *is_written).map(|(name, _)| name).collect();
    format!("{record}'s {}", names.join(" and "))
}

/// What of the rule is to be written again.
pub(super) fn differing_property(edit: &RuleEdit, standing: Option<&Rule>) -> String {
    let (RuleEdit::Put { rule, replaces: _ }, Some(standing)) = (edit, standing) else {
        return "rule".to_owned();
    };
    let (wanted, found) = (canonical::properties_of_wanted(rule), canonical::properties_of_rule(standing));
    let differs = |property: &&Property| !(wanted.contains(property) && found.contains(property));
    match wanted.iter().chain(&found).find(differs) {
        Some(property) => format!("rule's {}", property.name),
        None => "rule's place".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lasting_state_is_said_once_and_again_when_it_comes_back() {
        let mut journal = Journal::default();
        let line = || ["a is refused".to_owned()];
        assert_eq!(journal.news(Speaker::Apply, line()), line());
        assert_eq!(journal.news(Speaker::Apply, line()), [""; 0]);
        assert_eq!(journal.news(Speaker::Records, line()), line(), "another speaker's state is its own");
        assert_eq!(journal.news(Speaker::Apply, []), [""; 0]);
        assert_eq!(journal.news(Speaker::Apply, line()), line());
        journal.forget(Speaker::Records);
        assert_eq!(journal.news(Speaker::Apply, line()), [""; 0]);
        assert_eq!(journal.news(Speaker::Records, line()), line());
    }
}
