//! Plans the writes of one `POST /records`, by hostname and by stage, and the refusals.
//!
//! The order of the stages preserves an invariant for each rule: its digest is in the stamp of its hostname before the
//! rule exists, and is removed only in [`Stage::Unstamp`], after the rule is deleted. So after any prefix of the
//! stages, `records` shows everything of ours, and ExternalDNS asks for the remaining changes again.

mod correction;
mod fingerprints;
mod host;
mod judge;
mod mass_deletion;
mod notes;
mod piece;
mod planned;
mod request;

pub use correction::corrections;
pub use fingerprints::rule_fingerprint;
pub(crate) use fingerprints::{Write, writes_of};
pub use host::comment::CommentPlan;
pub(crate) use piece::WriteTarget;
pub use piece::{Piece, pieces};
pub use planned::{Adoption, HostPlan, Plan, PlannedEdit, RecordOperation, Stage, TurnPosition};
pub use request::{needed_by_plan, other_owner};

use std::collections::{BTreeMap, BTreeSet};

use crate::ingress::Rule;
use crate::model::endpoint::Changes;
use crate::reconcile::access::answering::rule_text;
use crate::reconcile::access::gate::ApplicationOperation;
use crate::reconcile::access::host_protection::rules_accepting;
use crate::reconcile::plan::host::planner::plan_host;
use crate::reconcile::plan::planned::{HostOutcome, Opening};
use crate::reconcile::plan::request::HostRequest;
use crate::reconcile::plan_inputs::{PlanContext, PlanInputs};
use crate::reconcile::reason::Reason;
use crate::reconcile::refusal::Refusal;
use crate::reconcile::snapshot::Snapshot;

/// The hostnames that one request changes.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'a> {
    /// The turn begins here, and goes on with the first hostname after the last one; `None` for the first hostname.
    pub start: Option<&'a TurnPosition>,
    /// The maximum number of hostnames that change. Refused hostnames do not count.
    pub hostnames_max: usize,
}

/// A hostname that this turn may include.
enum TurnCandidate {
    Unplanned(HostRequest),
    Planned(Box<HostOutcome>),
}

/// Plans the part of `changes` that belongs to `turn`, against the snapshot.
pub fn plan(changes: &Changes, snapshot: &Snapshot, inputs: &PlanInputs, turn: Turn<'_>) -> Plan {
    let requests = request::by_hostname(changes, snapshot);
    let marked_rules = snapshot.marked_rules();
    let access_requests = judge::access_requests(&requests, snapshot);
    let context =
        PlanContext { snapshot, inputs, access_requests: &access_requests, marked_rules: &marked_rules };
    let mut plan = Plan::default();
    let openings = plan.take_turn(candidates(requests, context), turn, context);
    plan.decide_openings(openings, snapshot, inputs.is_dry_run);
    plan.refusals.sort_unstable();
    plan.notes.extend(notes::notes_of(&plan, snapshot, &marked_rules));
    plan.notes.sort_unstable();
    plan.notes.dedup();
    // Several endpoints may ask for the deletion of the same application.
    plan.application_writes.sort_unstable_by(|one, other| {
        (&one.place, one.content_fingerprint()).cmp(&(&other.place, other.content_fingerprint()))
    });
    plan.application_writes.dedup();
    plan
}

/// The hostnames of the request in the order of turns. Mass deletion is judged over the deletions of all hostnames, not
/// only of one turn, so they are planned before the turn begins.
fn candidates(
    requests: BTreeMap<Box<str>, HostRequest>,
    context: PlanContext<'_>,
) -> BTreeMap<TurnPosition, TurnCandidate> {
    let (mut candidates, mut deletions) = (BTreeMap::new(), Vec::new());
    for (hostname, request) in requests {
        if request.withdrawn.is_empty() {
            let position = TurnPosition { deletes_hostname: false, hostname };
            candidates.insert(position, TurnCandidate::Unplanned(request));
        } else {
            let outcome = plan_host(&hostname, request, context);
            deletions.push((TurnPosition { deletes_hostname: outcome.deletes_hostname, hostname }, outcome));
        }
    }
    mass_deletion::refuse(&mut deletions, context.snapshot);
    let planned = |(position, outcome): (_, HostOutcome)| (position, TurnCandidate::Planned(outcome.into()));
    candidates.extend(deletions.into_iter().map(planned));
    candidates
}

/// The reason if an opening waits in vain for the deletion of its first application: a rule that accepts its tokens stays
/// as it is.
fn still_protected(opening: &Opening, plan: &Plan, snapshot: &Snapshot) -> Option<Reason> {
    let is_written = |rule: &Rule| {
        let name = rule.folded_hostname();
        let is_edited = |host: &HostPlan| host.edits.iter().any(|one| one.edit.path() == rule.path());
        plan.postponed.contains(name) || plan.host(name).is_some_and(is_edited)
    };
    let first = opening.waits_for.first()?;
    let application = snapshot.access.applications().iter().find(|one| one.id == *first)?;
    let also_protects = rules_accepting(application, snapshot).find(|rule| !is_written(rule))?;
    let is_of_place = snapshot.own_application(application).is_some_and(|own| *own.place == opening.place);
    let (application, also_protects) = (application.name.clone(), rule_text(also_protects).into());
    Some(Reason::StillProtected { application, also_protects, is_of_place })
}

impl Plan {
    /// Refuses the openings that wait for an application which stays. A dry run shows the state after all loops: there the
    /// other openings do not wait, and the refused ones delete no application.
    fn decide_openings(&mut self, openings: Vec<Opening>, snapshot: &Snapshot, is_dry_run: bool) {
        let mut kept = BTreeSet::new();
        for opening in openings {
            let reason = match still_protected(&opening, self, snapshot) {
                Some(reason) => {
                    kept.extend(opening.waits_for);
                    reason
                }
                None if is_dry_run => continue,
                None => Reason::WaitsForDeletion(opening.waits_for),
            };
            let (place, path) = (&opening.place, opening.place.path().unwrap_or_default());
            let refusal =
                Refusal::new(place.hostname().as_str(), Some(path), opening.resource.as_deref(), reason);
            self.refusals.push(refusal);
        }
        if is_dry_run {
            self.application_writes.retain(
                |write| !matches!(&write.operation, ApplicationOperation::Delete(id) if kept.contains(id)),
            );
        }
    }

    /// Plans the candidates until enough hostnames change. The remaining candidates are postponed, except those that are
    /// planned and change nothing. Returns the openings of the candidates.
    fn take_turn(
        &mut self,
        mut candidates: BTreeMap<TurnPosition, TurnCandidate>,
        turn: Turn<'_>,
        context: PlanContext<'_>,
    ) -> Vec<Opening> {
        let first = turn.start.map(|start| candidates.split_off(start)).unwrap_or_default();
        let mut openings = Vec::new();
        for (position, candidate) in first.into_iter().chain(candidates) {
            let outcome = match candidate {
                TurnCandidate::Planned(outcome) if outcome.plan.is_none() => *outcome,
                _ if self.hosts.len() >= turn.hostnames_max => {
                    self.postponed.insert(position.hostname.clone());
                    self.next_turn.get_or_insert(position);
                    continue;
                }
                TurnCandidate::Planned(outcome) => *outcome,
                TurnCandidate::Unplanned(request) => plan_host(&position.hostname, request, context),
            };
            let paused = |host| fingerprints::refusals(host, context.snapshot, &context.inputs.paused);
            let refusals = outcome.plan.as_ref().map(paused).unwrap_or_default();
            let outcome = if refusals.is_empty() { outcome } else { outcome.without_plan(refusals) };
            self.hosts.extend(outcome.plan);
            self.refusals.extend(outcome.refusals);
            self.notes.extend(outcome.notes);
            self.application_writes.extend(outcome.application_writes);
            openings.extend(outcome.openings);
        }
        self.hosts.sort_unstable_by(|one, other| one.hostname.cmp(&other.hostname));
        openings
    }
}
