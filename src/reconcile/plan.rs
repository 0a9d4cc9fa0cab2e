//! Plans the writes of one `POST /records`, by hostname and by stage, and the refusals.
//!
//! The order of the stages preserves an invariant for each rule: its digest is in the stamp of its hostname before the
//! rule exists, and is removed only in [`Stage::Unstamp`], after the rule is deleted. So after any prefix of the
//! stages, `records` shows everything of ours, and ExternalDNS asks for the remaining changes again.

mod fingerprints;
mod host;
pub(crate) mod host_plan;
mod judge;
mod mass_deletion;
mod notes;
mod request;
mod unmet;

use std::collections::BTreeSet;
use std::sync::Arc;

pub(crate) use fingerprints::{Write, edit_fingerprint, operations_fingerprint, writes_of};
pub use fingerprints::{content_fingerprints, rule_fingerprint};
pub use host::comment::Comments;
pub use host_plan::{Adoption, DeletedRecord, HostPlan, PlannedEdit, RecordOperation, Stage};
pub use request::{needed_by_plan, other_owner, tunnels_in_the_way};

use crate::collections::inserted;
use crate::ingress::Document;
use crate::model::TunnelId;
use crate::model::endpoint::Changes;
use crate::reconcile::Note;
use crate::reconcile::access::gate::{ApplicationWrite, Gated};
use crate::reconcile::access::place::Place;
use crate::reconcile::plan::host::HostContext;
use crate::reconcile::plan::host::planning::plan_host;
use crate::reconcile::plan::judge::Judge;
use crate::reconcile::plan::request::{HostRequest, Requests};
use crate::reconcile::plan_inputs::PlanInputs;
use crate::reconcile::reason::Reason;
use crate::reconcile::refusal::Refusal;
use crate::reconcile::snapshot::{OwnDigests, Snapshot};
use crate::reconcile::stamp::Digest;

/// The writes of one request, with its refusals and notes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Sorted by name, without hostnames that need no write.
    pub hosts: Vec<HostPlan>,
    /// The requests that are not carried out, with the reasons.
    pub refusals: Vec<Refusal>,
    pub notes: Vec<Note>,
    /// Notes on hostnames whose visitors need no login after this request.
    pub opened: Vec<OpeningNote>,
    /// The work on Access applications, independent of `hosts`.
    pub application_writes: Vec<ApplicationWrite>,
    /// The rules that are ours before anything is written.
    pub own: Arc<OwnDigests>,
    /// Hostnames that are left to later requests.
    pub postponed: BTreeSet<Box<str>>,
    /// The last hostname of this turn; `None` if no hostname is postponed.
    pub end: Option<TurnPosition>,
}

/// A note on a hostname, or a path of it, whose visitors need no login any more.
#[derive(Clone, Debug, PartialEq)]
pub struct OpeningNote {
    pub note: Note,
    /// The place of the application whose deletion opens it; `None` if the hostname's own writes do.
    pub by: Option<Place>,
}

/// The last hostname of a turn. Withdrawn hostnames are sorted after all others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TurnPosition {
    is_withdrawn: bool,
    hostname: Box<str>,
}

/// The hostnames that one request changes. Turns rotate: each starts after the previous turn's last hostname.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'a> {
    /// The end of the previous turn, if that turn postponed hostnames.
    pub previous_end: Option<&'a TurnPosition>,
    /// The maximum number of hostnames that change. Refused hostnames do not count.
    pub hostnames_max: usize,
}

/// A hostname that this turn may include.
enum TurnCandidate {
    Wanted(Box<str>, HostRequest<Gated>),
    Planned(Box<HostPlan>),
}

impl TurnCandidate {
    fn position(&self) -> TurnPosition {
        match self {
            Self::Wanted(name, _) => TurnPosition { is_withdrawn: false, hostname: name.clone() },
            Self::Planned(host) => {
                TurnPosition { is_withdrawn: host.is_withdrawn, hostname: host.hostname.clone() }
            }
        }
    }
}

/// The candidates in the order of this turn, each with its position: those after the previous turn's end come first.
fn in_turn(candidates: Vec<TurnCandidate>, turn: &Turn<'_>) -> Vec<(TurnPosition, TurnCandidate)> {
    let mut ordered: Vec<_> = candidates.into_iter().map(|one| (one.position(), one)).collect();
    ordered.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    let before =
        ordered.partition_point(|(position, _)| turn.previous_end.is_some_and(|end| position <= end));
    ordered.rotate_left(before);
    ordered
}

/// Plans the part of `changes` that belongs to `turn`, against the snapshot.
pub fn plan(changes: &Changes, snapshot: &Snapshot, inputs: &PlanInputs, turn: &Turn<'_>) -> Plan {
    let judge = Judge { snapshot, inputs };
    let Requests { by_hostname, notes } = Requests::read(changes, snapshot);
    let marked_rules = snapshot.marked_rules();
    let context = HostContext { snapshot, inputs, marked_rules: &marked_rules };
    let mut plan = Plan { notes, own: snapshot.own_digests(), ..Plan::default() };
    let (mut candidates, mut deletions) = (Vec::new(), Vec::new());
    for (name, request) in judge.judged(by_hostname) {
        if request.withdrawn.is_empty() {
            candidates.push(TurnCandidate::Wanted(name, request));
        } else {
            deletions.extend(plan_host(&mut plan, &name, &request, context));
        }
    }
    // Mass deletion is judged over the deletions of all hostnames, not only of this turn.
    let deletions = plan.without_mass_deletion(deletions, snapshot).into_iter();
    candidates.extend(deletions.map(|host| TurnCandidate::Planned(host.into())));
    plan.take_turn(in_turn(candidates, turn), turn.hostnames_max, context);
    unmet::replace_closings(&mut plan);
    unmet::replace_openings(&mut plan, snapshot);
    plan.refusals.sort_unstable();
    plan.notes.extend(notes::of(&plan, snapshot, &marked_rules));
    plan.notes.sort_unstable();
    plan.notes.dedup();
    // Several endpoints may ask for the deletion of the same application.
    plan.application_writes.sort_unstable_by(|one, other| {
        (&one.place, one.content_fingerprint()).cmp(&(&other.place, other.content_fingerprint()))
    });
    plan.application_writes.dedup();
    plan
}

/// The writes of a hostname among `hosts`, which are sorted.
fn host_of<'h>(hosts: &'h [HostPlan], hostname: &str) -> Option<&'h HostPlan> {
    hosts.get(hosts.binary_search_by(|host| (*host.hostname).cmp(hostname)).ok()?)
}

impl Plan {
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty() && self.application_writes.is_empty()
    }

    pub fn host(&self, hostname: &str) -> Option<&HostPlan> {
        host_of(&self.hosts, hostname)
    }

    /// True if the plan has no writes for the hostname, because the hostname is refused or postponed.
    pub fn leaves_out(&self, hostname: &str) -> bool {
        let is_refused = || self.refusals.iter().any(|refusal| *refusal.hostname == *hostname);
        self.host(hostname).is_none() && (self.postponed.contains(hostname) || is_refused())
    }

    /// The hostnames with a digest that the plan removes because its rule was not read, although `document` has it.
    pub fn missed_in(&self, tunnel: &TunnelId, document: &Document) -> BTreeSet<Box<str>> {
        let rules = document.rules().iter().filter(|rule| rule.is_readable());
        let missed = rules.filter(|rule| {
            let host = self.host(rule.folded_hostname());
            host.is_some_and(|host| host.removes_digest(&Digest::of(tunnel, rule.path())))
        });
        inserted(missed.map(|rule| rule.folded_hostname().into()))
    }

    /// The notes on hostnames that open although nothing is written of the hostnames in `unwritten`.
    pub fn opened_without<'p>(
        &'p self,
        unwritten: &'p BTreeSet<Box<str>>,
    ) -> impl Iterator<Item = &'p OpeningNote> {
        self.opened.iter().filter(|opened| opened.by.is_some() || !unwritten.contains(&opened.note.hostname))
    }

    /// Reports that the applications of these places were not written, with the reasons. A refusal at the place, or a
    /// refusal that waits for the application, gets the reason. If there is none, a new refusal is added.
    pub fn note_failed_applications(&mut self, failed: Vec<(Place, Reason)>) {
        for (place, reason) in failed {
            self.opened.retain(|opened| opened.by.as_ref() != Some(&place));
            let waits = |refusal: &Refusal| matches!(&refusal.reason, Reason::WaitsForApplication(first) if *first == place);
            let path = place.path().unwrap_or_default();
            let is_at = |refusal: &Refusal| {
                *refusal.hostname == *place.hostname() && refusal.set_identifier.as_deref() == Some(path)
            };
            let mut waiting = self.refusals.iter_mut().filter(|one| waits(one) || is_at(one)).peekable();
            if waiting.peek().is_some() {
                waiting.for_each(|refusal| refusal.reason = reason.clone());
            } else {
                let (hostname, set_identifier) = (place.hostname().into(), Some(path.into()));
                self.refusals.push(Refusal { hostname, set_identifier, resource: None, reason });
            }
        }
        unmet::replace_closings(self);
    }

    /// Refuses the hostnames of mass deletions, and returns the others.
    fn without_mass_deletion(&mut self, hosts: Vec<HostPlan>, snapshot: &Snapshot) -> Vec<HostPlan> {
        let refused = mass_deletion::refused(&hosts, snapshot);
        self.drop_notes_of(&refused);
        let (refused, hosts): (Vec<HostPlan>, Vec<HostPlan>) =
            hosts.into_iter().partition(|host| refused.contains(&host.hostname));
        let refusals = refused.into_iter();
        let refusals =
            refusals.map(|host| Refusal::whole(host.hostname, host.resource, Reason::MassDeletion));
        self.refusals.extend(refusals);
        hosts
    }

    /// Removes the notes on hostnames that are not written.
    fn drop_notes_of(&mut self, hostnames: &BTreeSet<Box<str>>) {
        self.notes.retain(|note| !hostnames.contains(&note.hostname));
        self.opened = self.opened_without(hostnames).cloned().collect();
    }

    /// Plans the candidates until `hostnames_max` hostnames change, and postpones the remaining candidates.
    fn take_turn(
        &mut self,
        candidates: Vec<(TurnPosition, TurnCandidate)>,
        hostnames_max: usize,
        context: HostContext<'_>,
    ) {
        let (mut unwritten, mut paused_hosts) = (BTreeSet::new(), BTreeSet::new());
        for (position, candidate) in candidates {
            if self.hosts.len() >= hostnames_max {
                if matches!(candidate, TurnCandidate::Planned(_)) {
                    unwritten.insert(position.hostname.clone());
                }
                self.postponed.insert(position.hostname);
                continue;
            }
            self.end = Some(position);
            let host = match candidate {
                TurnCandidate::Planned(host) => Some(*host),
                TurnCandidate::Wanted(name, request) => plan_host(self, &name, &request, context),
            };
            let Some(host) = host else { continue };
            let paused = fingerprints::paused(&host, context.snapshot, &context.inputs.paused);
            if paused.is_empty() {
                self.hosts.push(host);
                continue;
            }
            self.refusals.extend(paused);
            paused_hosts.insert(host.hostname);
        }
        // A move whose writes are paused makes no progress, so it fails no request.
        let is_moving = |one: &Refusal| matches!(one.reason, Reason::Moving(_));
        self.refusals.retain(|one| !is_moving(one) || !paused_hosts.contains(&one.hostname));
        unwritten.append(&mut paused_hosts);
        self.drop_notes_of(&unwritten);
        if self.postponed.is_empty() {
            self.end = None;
        }
        self.hosts.sort_unstable_by(|one, other| one.hostname.cmp(&other.hostname));
    }
}
