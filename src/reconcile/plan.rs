//! Plans the writes of one `POST /records`, by hostname and by stage, and the refusals.
//!
//! The order of the stages preserves an invariant for each rule: its digest is in the stamp of its hostname before the
//! rule exists, and is removed only in [`Stage::Unstamp`], after the rule is deleted. So after any prefix of the
//! stages, `records` shows everything of ours, and ExternalDNS asks for the remaining changes again.

mod fingerprints;
mod host;
mod judge;
mod mass_deletion;
mod notes;
mod planned;
mod request;

use std::collections::BTreeSet;

pub(crate) use fingerprints::{Write, edit_fingerprint, operations_fingerprint, writes_of};
pub use fingerprints::{content_fingerprints, rule_fingerprint};
pub use host::comment::Comments;
pub use planned::{Adoption, HostPlan, Plan, PlannedEdit, RecordOperation, Stage, TurnPlace};
pub use request::{needed_by_plan, other_owner};

use crate::model::endpoint::Changes;
use crate::reconcile::plan::host::planning::plan_host;
use crate::reconcile::plan::request::{HostRequest, Requests};
use crate::reconcile::plan_inputs::{PlanContext, PlanInputs};
use crate::reconcile::reason::Reason;
use crate::reconcile::refusal::Refusal;
use crate::reconcile::snapshot::Snapshot;

/// The hostnames that one request changes.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'a> {
    /// The turn begins here, and goes on with the first hostname after the last one; `None` for the first hostname.
    pub start: Option<&'a TurnPlace>,
    /// The maximum number of hostnames that change. Refused hostnames do not count.
    pub hostnames_max: usize,
}

/// A hostname that this turn may include.
enum TurnCandidate {
    Wanted(Box<str>, HostRequest),
    Planned(Box<HostPlan>),
}

impl TurnCandidate {
    fn place(&self) -> TurnPlace {
        let (is_withdrawn, hostname) = match self {
            Self::Wanted(hostname, _) => (false, hostname),
            Self::Planned(host) => (host.is_withdrawn, &host.hostname),
        };
        TurnPlace { is_withdrawn, hostname: hostname.clone() }
    }
}

/// Plans the part of `changes` that belongs to `turn`, against the snapshot.
pub fn plan(changes: &Changes, snapshot: &Snapshot, inputs: &PlanInputs, turn: Turn<'_>) -> Plan {
    let Requests { by_hostname, notes } = Requests::read(changes, snapshot);
    let marked_rules = snapshot.marked_rules();
    let access_requests = judge::access_requests(&by_hostname, snapshot);
    let context =
        PlanContext { snapshot, inputs, access_requests: &access_requests, marked_rules: &marked_rules };
    let mut plan = Plan { notes, own: snapshot.own_digests(), ..Plan::default() };
    let (mut candidates, mut deletions) = (Vec::new(), Vec::new());
    for (name, request) in by_hostname {
        if request.withdrawn.is_empty() {
            candidates.push(TurnCandidate::Wanted(name, request));
        } else {
            deletions.extend(plan_host(&mut plan, &name, request, context));
        }
    }
    // Mass deletion is judged over the deletions of all hostnames, not only of this turn.
    let deletions = plan.without_mass_deletion(deletions, snapshot).into_iter();
    candidates.extend(deletions.map(|host| TurnCandidate::Planned(host.into())));
    candidates.sort_by_cached_key(TurnCandidate::place);
    let is_before = |one: &TurnCandidate| turn.start.is_some_and(|start| one.place() < *start);
    let start = candidates.partition_point(is_before);
    candidates.rotate_left(start);
    plan.take_turn(candidates, turn.hostnames_max, context);
    plan.refuse_openings(snapshot);
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
    /// Refuses the hostnames of mass deletions, and returns the others.
    fn without_mass_deletion(&mut self, hosts: Vec<HostPlan>, snapshot: &Snapshot) -> Vec<HostPlan> {
        let refused = mass_deletion::refused(&hosts, snapshot);
        let (refused, hosts): (Vec<HostPlan>, Vec<HostPlan>) =
            hosts.into_iter().partition(|host| refused.contains(&host.hostname));
        let refusals = refused.into_iter();
        let refusals =
            refusals.map(|host| Refusal::whole(host.hostname, host.resource, Reason::MassDeletion));
        self.refusals.extend(refusals);
        hosts
    }

    /// Plans the candidates until `hostnames_max` hostnames change, and postpones the remaining candidates.
    fn take_turn(&mut self, candidates: Vec<TurnCandidate>, hostnames_max: usize, context: PlanContext<'_>) {
        let mut paused_hosts = BTreeSet::new();
        for candidate in candidates {
            if self.hosts.len() >= hostnames_max {
                let place = candidate.place();
                self.postponed.insert(place.hostname.clone());
                self.next_turn.get_or_insert(place);
                continue;
            }
            let host = match candidate {
                TurnCandidate::Planned(host) => Some(*host),
                TurnCandidate::Wanted(hostname, request) => plan_host(self, &hostname, request, context),
            };
            let Some(host) = host else { continue };
            let refusals = fingerprints::refusals(&host, context.snapshot, &context.inputs.paused);
            if refusals.is_empty() {
                self.hosts.push(host);
                continue;
            }
            self.refusals.extend(refusals);
            paused_hosts.insert(host.hostname);
        }
        // A move whose writes are paused makes no progress, so it fails no request.
        let is_moving = |one: &Refusal| matches!(one.reason, Reason::Moving(_));
        self.refusals.retain(|one| !is_moving(one) || !paused_hosts.contains(&one.hostname));
        self.hosts.sort_unstable_by(|one, other| one.hostname.cmp(&other.hostname));
    }
}
