//! Plans the writes of one `POST /records`, by hostname and by stage, and the refusals.
//!
//! The order of the stages preserves an invariant for each rule: its digest is in the stamp of its hostname before the
//! rule exists, and is removed only in [`Stage::RecordsAfter`], after the rule is deleted. So after any prefix of the
//! stages, `records` shows everything of ours, and ExternalDNS asks for the remaining changes again.

mod host;
mod mass_deletion;
mod notes;
mod piece;
mod planned;
mod request;

pub use host::comment::CommentTemplate;
pub(crate) use piece::{ComparedWrite, PieceKey, WriteTarget, writes_of};
pub use piece::{Piece, pieces, rule_fingerprint};
pub use planned::{Adoption, HostPlan, Plan, PlannedEdit, RecordOperation, Stage, TurnPosition};
pub use request::{needed_by_plan, other_owner};

use std::collections::BTreeMap;

use crate::model::Hostname;
use crate::model::endpoint::Changes;
use crate::reconcile::access::gate::{self, Gated};
use crate::reconcile::access::opening::with_waiting_openings;
use crate::reconcile::canonical::Publication;
use crate::reconcile::plan::host::Host;
use crate::reconcile::plan::host::decide::decide;
use crate::reconcile::plan::host::writes::{deletion_of_hiding_record, planned_writes};
use crate::reconcile::plan::planned::HostOutcome;
use crate::reconcile::plan::request::{HostChanges, Wanted};
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
    let mut plan = planned_turn(candidates(requests, context), turn, context);
    plan.refusals.sort_unstable();
    plan.notes.extend(notes::notes_of(&plan, context));
    plan.notes.sort_unstable();
    plan.notes.dedup();
    // Several endpoints may ask for the deletion of the same application.
    plan.application_writes
        .sort_by(|one, other| (&one.place, &one.operation).cmp(&(&other.place, &other.operation)));
    plan.application_writes.dedup();
    plan
}

/// The hostnames of the request in the order of turns. Mass deletion is judged over all hostnames, not only those of
/// one turn, so every hostname with a withdrawn path is planned before the turn begins.
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
            deletions.push((hostname, outcome));
        }
    }
    candidates.extend(mass_deletion::withhold(deletions, context.snapshot).map(|(hostname, outcome)| {
        let position = TurnPosition { counts_as_deletion: outcome.counts_as_deletion, hostname };
        (position, TurnCandidate::Planned(outcome.into()))
    }));
    candidates
}

/// Takes candidates until enough hostnames change. After that, a candidate is postponed, unless it is planned already
/// and has no `HostPlan`.
fn planned_turn(
    mut candidates: BTreeMap<TurnPosition, TurnCandidate>,
    turn: Turn<'_>,
    context: PlanContext<'_>,
) -> Plan {
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
    with_waiting_openings(plan, openings, context)
}

/// Plans the request for one hostname: [`judge_all`] judges each endpoint, [`Host`] is the state of the hostname,
/// [`decide`] chooses the part of the request that is carried out, and [`HostOutcome`] has the writes, refusals and
/// notes.
fn plan_host(name: &str, request: HostChanges, context: PlanContext<'_>) -> HostOutcome {
    let snapshot = context.snapshot;
    // The object that asks for the hostname; the first if there are several.
    let object = request.wanted.iter().filter_map(|one| one.resource.as_ref()).min().cloned();
    let refused = |reason| HostOutcome::refused(vec![Refusal::new(name, None, object.as_deref(), reason)]);
    if !snapshot.operator().filter.matches(name) {
        return refused(Reason::OutsideFilter);
    }
    // A name that is not a hostname was never published, so only the mistakes of its endpoints are refused.
    let Ok(hostname) = Hostname::parse(name) else {
        let mistakes = request.wanted.iter().filter_map(|one| one.refusal(name));
        return HostOutcome::refused(mistakes.collect());
    };
    let HostChanges { wanted, withdrawn, registry_names } = request;
    let Some(zone) = snapshot.zone_of(name) else { return refused(Reason::NoZone) };
    let wanted = judge_all(wanted, context);
    let host = Host::of(context, zone, hostname, &registry_names);
    if let Some(problem) = host.old_answer(&wanted) {
        // An old answer does not tell whether a part of the hostname stays.
        let counts_as_deletion = wanted.is_empty() && host.has_stamped_record();
        return HostOutcome { counts_as_deletion, ..refused(Reason::Waiting(problem.into())) };
    }
    let decision = decide(&host, wanted, &withdrawn);
    let resource = object.or_else(|| decision.host.stamp.as_ref()?.resource.clone());
    let planned = planned_writes(&decision, resource.clone());
    // A tunnel with a local file keeps its hostnames for ever, so they must not withhold the deletions of others.
    let is_local = matches!(planned, Err(Reason::LocalTunnel { .. }));
    let counts_as_deletion = !is_local && decision.withdraws_hostname && decision.host.has_stamped_record();
    let refusal = |reason| Refusal::new(name, None, resource.as_deref(), reason);
    let refused_before = |plan: &HostPlan| piece::refusals(plan, snapshot, context.inputs);
    let mut outcome = HostOutcome {
        plan: None,
        counts_as_deletion,
        notes: decision.opening_notes(),
        refusals: decision.refusals,
        application_writes: decision.application_writes,
        openings: decision.openings,
    };
    match planned {
        Ok((plan, unfinished)) => {
            let refusals = refused_before(&plan);
            if !refusals.is_empty() {
                return outcome.without_plan(refusals);
            }
            outcome.refusals.extend(unfinished.into_iter().map(refusal));
            outcome.plan = Some(plan).filter(|plan| !plan.is_empty());
            outcome
        }
        Err(reason) => {
            let plan = deletion_of_hiding_record(&decision.host, resource.clone());
            let plan = plan.filter(|plan| refused_before(plan).is_empty());
            HostOutcome { plan, ..outcome.without_plan([refusal(reason)]) }
        }
    }
}

/// The wanted endpoints of a hostname, with a reason in place of each refused publication.
fn judge_all(wanted: Vec<Wanted<Publication>>, context: PlanContext<'_>) -> Vec<Wanted<Gated>> {
    let judge = |publication, resource: Option<&str>| {
        let gated = gate::pass_gate(context, publication, resource)?;
        if let Some(rule) = gated.rule() {
            context.inputs.refuse_paused(|| rule_fingerprint(gated.tunnel(), rule))?;
        }
        Ok(gated)
    };
    let judged = wanted.into_iter().map(|Wanted { set_identifier, resource, publication }| {
        let publication = publication.and_then(|publication| judge(publication, resource.as_deref()));
        Wanted { set_identifier, resource, publication }
    });
    judged.collect()
}
