//! Tells of which hostnames something must not be written now: work that Cloudflare refused and would refuse again, and
//! work that it does not keep.

use std::time::Instant;

use crate::provider::memory::WaitingWork;
use crate::provider::writes::{works, writes_of};
use crate::reconcile::plan::{HostPlan, Refusal};
use crate::reconcile::snapshot::Snapshot;

/// The refusals of a hostname that waits. What is not kept waits alone: beside anything else that is to be written of its
/// hostname, it is written once more.
pub(super) fn held(
    host: &HostPlan,
    snapshot: &Snapshot,
    waiting: &WaitingWork,
    now: Instant,
) -> Vec<Refusal> {
    if waiting.is_empty() {
        return Vec::new();
    }
    let reason = |key, content| waiting.reason(key, content, snapshot, now);
    let refused = works(host).filter_map(|(path, work)| Some((path, reason(work, work)?)));
    let mut held: Vec<_> = refused.collect();
    if held.is_empty() {
        let writes = writes_of(host, snapshot);
        let again = writes.iter().filter_map(|write| reason(write.place, write.content));
        let not_kept: Vec<_> = again.map(|reason| (None, reason)).collect();
        if not_kept.len() == writes.len() {
            held = not_kept;
        }
    }
    let refusal = |(path, reason): (Option<&str>, _)| Refusal {
        hostname: host.hostname.clone(),
        set_identifier: path.map(Into::into),
        resource: host.resource.clone(),
        reason,
    };
    held.into_iter().map(refusal).collect()
}
