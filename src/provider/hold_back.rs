//! Takes out of a plan the hostnames of which something must not be written now: work that Cloudflare refused and would
//! refuse again, and work that it does not keep.

use std::time::Instant;

use crate::provider::memory::WaitingWork;
use crate::provider::writes::{OwnedRules, works};
use crate::reconcile::plan::{HostPlan, Plan, Refusal};
use crate::reconcile::snapshot::Snapshot;

/// The plan without the hostnames that wait, which become refusals.
pub(super) fn hold_back(mut plan: Plan, snapshot: &Snapshot, waiting: &WaitingWork, now: Instant) -> Plan {
    if waiting.is_empty() {
        return plan;
    }
    let owned = snapshot.owned(&plan.own);
    let refused = |host: &HostPlan| refusals(host, snapshot, &owned, waiting, now);
    let mut held = Vec::new();
    plan.hosts.retain(|host| {
        let refusals = refused(host);
        let is_free = refusals.is_empty();
        held.extend(refusals);
        is_free
    });
    plan.refusals.extend(held);
    plan
}

/// The refusals of what must not be written of a hostname.
fn refusals(
    host: &HostPlan,
    snapshot: &Snapshot,
    owned: &OwnedRules<'_>,
    waiting: &WaitingWork,
    now: Instant,
) -> Vec<Refusal> {
    let held = works(host, snapshot, owned).into_iter().filter_map(|work| {
        let held = |key, content| waiting.reason(key, content, snapshot, now);
        let again = || work.write.as_ref().and_then(|write| held(write.place, write.content));
        let reason = held(work.content, work.content).or_else(again)?;
        let (hostname, resource) = (host.hostname.clone(), host.resource.clone());
        Some(Refusal { hostname, set_identifier: work.path.map(Into::into), resource, reason })
    });
    held.collect()
}
