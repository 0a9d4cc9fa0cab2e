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
mod planned;
mod request;
mod unmet;

use std::collections::BTreeSet;

pub(crate) use fingerprints::{Write, edit_fingerprint, operations_fingerprint, writes_of};
pub use fingerprints::{content_fingerprints, rule_fingerprint};
pub use host::comment::Comments;
pub use host_plan::{Adoption, HostPlan, PlannedEdit, RecordOperation, Stage};
pub use planned::{Plan, TurnPosition};
pub use request::{needed_by_plan, other_owner};

use crate::model::endpoint::Changes;
use crate::reconcile::access::gate::Gate;
use crate::reconcile::plan::host::HostContext;
use crate::reconcile::plan::host::planning::plan_host;
use crate::reconcile::plan::request::{HostRequest, Requests};
use crate::reconcile::plan_inputs::PlanInputs;
use crate::reconcile::reason::Reason;
use crate::reconcile::refusal::Refusal;
use crate::reconcile::snapshot::Snapshot;

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
    Wanted(HostRequest),
    Planned(Box<HostPlan>),
}

/// Plans the part of `changes` that belongs to `turn`, against the snapshot.
pub fn plan(changes: &Changes, snapshot: &Snapshot, inputs: &PlanInputs, turn: &Turn<'_>) -> Plan {
    let Requests { by_hostname, notes } = Requests::read(changes, snapshot);
    let marked_rules = snapshot.marked_rules();
    let gate = Gate { snapshot, inputs, requests: &judge::access_requests(&by_hostname, snapshot) };
    let context = HostContext { gate, marked_rules: &marked_rules };
    let mut plan = Plan { notes, own: snapshot.own_digests(), ..Plan::default() };
    let (mut candidates, mut deletions) = (Vec::new(), Vec::new());
    for (name, request) in by_hostname {
        if request.withdrawn.is_empty() {
            let position = TurnPosition { is_withdrawn: false, hostname: name };
            candidates.push((position, TurnCandidate::Wanted(request)));
        } else {
            deletions.extend(plan_host(&mut plan, &name, request, context));
        }
    }
    // Mass deletion is judged over the deletions of all hostnames, not only of this turn.
    let deletions = plan.without_mass_deletion(deletions, snapshot).into_iter();
    candidates.extend(deletions.map(|host| {
        let position = TurnPosition { is_withdrawn: host.is_withdrawn, hostname: host.hostname.clone() };
        (position, TurnCandidate::Planned(host.into()))
    }));
    candidates.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    // The candidates after the end of the previous turn come first.
    let before =
        candidates.partition_point(|(position, _)| turn.previous_end.is_some_and(|end| position <= end));
    candidates.rotate_left(before);
    plan.take_turn(candidates, turn.hostnames_max, context);
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

impl Plan {
    /// Plans the candidates until `hostnames_max` hostnames change, and postpones the remaining candidates.
    fn take_turn(
        &mut self,
        candidates: Vec<(TurnPosition, TurnCandidate)>,
        hostnames_max: usize,
        context: HostContext<'_>,
    ) {
        let mut paused_hosts = BTreeSet::new();
        for (position, candidate) in candidates {
            if self.hosts.len() >= hostnames_max {
                self.postponed.insert(position.hostname);
                continue;
            }
            let host = match candidate {
                TurnCandidate::Planned(host) => Some(*host),
                TurnCandidate::Wanted(request) => plan_host(self, &position.hostname, request, context),
            };
            self.end = Some(position);
            let Some(host) = host else { continue };
            let paused = fingerprints::paused(&host, context.gate.snapshot, &context.gate.inputs.paused);
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
        if self.postponed.is_empty() {
            self.end = None;
        }
        self.hosts.sort_unstable_by(|one, other| one.hostname.cmp(&other.hostname));
    }
}
