//! Plans the writes of one `POST /records`, by hostname and by stage, and the refusals.
//!
//! The order of the stages preserves an invariant for each rule: its digest is in the stamp of its hostname before the
//! rule exists, and is removed only in [`Stage::RecordsAfter`], after the rule is deleted. So after any prefix of the
//! stages, `records` shows everything of ours, and ExternalDNS asks for the remaining changes again.

mod correction;
mod fingerprints;
mod host;
mod mass_deletion;
mod notes;
mod piece;
mod planned;
mod request;
mod waiting_openings;

pub use correction::corrections;
pub(crate) use fingerprints::{ComparedWrite, writes_of};
pub use host::comment::CommentTemplate;
pub use piece::{Piece, pieces, rule_fingerprint};
pub(crate) use piece::{PieceKey, WriteTarget};
pub use planned::{Adoption, HostPlan, Plan, PlannedEdit, RecordOperation, Stage, TurnPosition};
pub use request::{needed_by_plan, other_owner};

use std::collections::BTreeMap;

use crate::model::endpoint::Changes;
use crate::reconcile::access::gate::WaitingOpening;
use crate::reconcile::plan::host::planner::plan_host;
use crate::reconcile::plan::planned::HostOutcome;
use crate::reconcile::plan::request::HostChanges;
use crate::reconcile::plan_inputs::{PlanContext, PlanInputs};
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
    Unplanned(HostChanges),
    Planned(Box<HostOutcome>),
}

/// Plans the part of `changes` that belongs to `turn`, against the snapshot.
pub fn plan(changes: &Changes, snapshot: &Snapshot, inputs: &PlanInputs, turn: Turn<'_>) -> Plan {
    let requests = request::by_hostname(changes, snapshot);
    let marked_rules = snapshot.marked_rules();
    let access_changes = request::access_changes(&requests, snapshot);
    let context =
        PlanContext { snapshot, inputs, access_changes: &access_changes, marked_rules: &marked_rules };
    let (plan, openings) = planned_turn(candidates(requests, context), turn, context);
    let mut plan = waiting_openings::with_openings(plan, openings, snapshot, inputs.is_dry_run);
    plan.refusals.sort_unstable();
    plan.notes.extend(notes::notes_of(&plan, snapshot, &marked_rules));
    plan.notes.sort_unstable();
    plan.notes.dedup();
    // Several endpoints may ask for the deletion of the same application.
    plan.application_writes
        .sort_by(|one, other| (&one.place, &one.operation).cmp(&(&other.place, &other.operation)));
    plan.application_writes.dedup();
    plan
}

/// The hostnames of the request in the order of turns. Mass deletion is judged over the deletions of all hostnames, not
/// only of one turn, so they are planned before the turn begins.
fn candidates(
    requests: BTreeMap<Box<str>, HostChanges>,
    context: PlanContext<'_>,
) -> BTreeMap<TurnPosition, TurnCandidate> {
    let (mut candidates, mut deletions) = (BTreeMap::new(), Vec::new());
    for (hostname, request) in requests {
        if request.withdrawn.is_empty() {
            let position = TurnPosition { counts_as_deletion: false, hostname };
            candidates.insert(position, TurnCandidate::Unplanned(request));
        } else {
            let outcome = plan_host(&hostname, request, context);
            deletions
                .push((TurnPosition { counts_as_deletion: outcome.counts_as_deletion, hostname }, outcome));
        }
    }
    let deletions = mass_deletion::withhold(deletions, context.snapshot);
    candidates
        .extend(deletions.map(|(position, outcome)| (position, TurnCandidate::Planned(outcome.into()))));
    candidates
}

/// Takes candidates until enough hostnames change. After that, a candidate is postponed, unless it is planned already
/// and has no `HostPlan`. The refusals of waiting openings are not added yet.
fn planned_turn(
    mut candidates: BTreeMap<TurnPosition, TurnCandidate>,
    turn: Turn<'_>,
    context: PlanContext<'_>,
) -> (Plan, Vec<WaitingOpening>) {
    let (mut plan, mut openings) = (Plan::default(), Vec::new());
    let first = turn.start.map(|start| candidates.split_off(start)).unwrap_or_default();
    for (position, candidate) in first.into_iter().chain(candidates) {
        let outcome = match candidate {
            TurnCandidate::Planned(outcome) if outcome.plan.is_none() => *outcome,
            _ if plan.hosts.len() >= turn.hostnames_max => {
                plan.postponed.insert(position.hostname.clone());
                plan.next_turn.get_or_insert(position);
                continue;
            }
            TurnCandidate::Planned(outcome) => *outcome,
            TurnCandidate::Unplanned(request) => plan_host(&position.hostname, request, context),
        };
        plan.hosts.extend(outcome.plan);
        plan.refusals.extend(outcome.refusals);
        plan.notes.extend(outcome.notes);
        plan.application_writes.extend(outcome.application_writes);
        openings.extend(outcome.openings);
    }
    plan.hosts.sort_unstable_by(|one, other| one.hostname.cmp(&other.hostname));
    (plan, openings)
}
