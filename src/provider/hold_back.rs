//! Tells of which hostnames something must not be written now: work that Cloudflare refused and would refuse again, and
//! work that it does not keep.

use std::time::Instant;

use crate::provider::memory::WaitingWork;
use crate::provider::writes::works;
use crate::reconcile::plan::{HostPlan, OwnedRules, Reason, Refusal};
use crate::reconcile::snapshot::Snapshot;

/// The refusals of a hostname that waits. What is not kept waits alone: beside anything else that is to be written of its
/// hostname, it is written once more.
pub(super) fn held(
    host: &HostPlan,
    snapshot: &Snapshot,
    owned: &OwnedRules<'_>,
    waiting: &WaitingWork,
    now: Instant,
) -> Vec<Refusal> {
    if waiting.is_empty() {
        return Vec::new();
    }
    let works = works(host, snapshot, owned);
    let mut held = Vec::new();
    for work in &works {
        let reason = |key, content| waiting.reason(key, content, snapshot, now);
        let again = || work.write.as_ref().and_then(|write| reason(write.place, write.content));
        held.extend(reason(work.content, work.content).or_else(again).map(|reason| (work.path, reason)));
    }
    let is_refused = held.iter().any(|(_, reason)| !matches!(reason, Reason::NotKept { .. }));
    let is_held = is_refused || held.len() == works.len();
    let held = held.into_iter().filter(|_| is_held);
    held.map(|(path, reason)| Refusal {
        hostname: host.hostname.clone(),
        set_identifier: path.map(Into::into),
        resource: host.resource.clone(),
        reason,
    })
    .collect()
}
