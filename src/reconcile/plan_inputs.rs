//! The inputs of a plan: the results of earlier requests, and answers of Cloudflare that are not part of the snapshot;
//! and the context that all hostnames of a request share.

use std::collections::BTreeMap;

use crate::ingress::MarkedRules;
use crate::model::TunnelId;
use crate::reconcile::access::relying::AccessChanges;
use crate::reconcile::reason::Reason;
use crate::reconcile::snapshot::Snapshot;

/// The inputs of a plan besides the changes and the snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanInputs {
    /// The fingerprints of what is not sent now, with the reasons: of pieces and applications that Cloudflare rejected
    /// and would refuse again, and of writes that are reverted each time, with the state that they replace.
    pub paused: BTreeMap<u64, Reason>,
    /// The fingerprints of applications that this request could not write, with the reasons. Their endpoints are
    /// refused for these reasons, and an opening deletes none of them.
    pub unwritten_applications: BTreeMap<u64, Reason>,
    /// Tunnels whose connectors do not serve the read configuration yet, with the reasons. No record moves to them from
    /// a configured tunnel.
    pub unready: BTreeMap<TunnelId, String>,
    /// Tunnels whose last write failed, each with its `Reason::TunnelFailed`. A hostname that needs an edit of one
    /// of them is refused: a new hostname would get a record without a rule, which would only hide a wildcard's record.
    pub failed_tunnels: BTreeMap<TunnelId, Reason>,
    /// True in a dry run: steps that wait for an application, for connectors or for `MOVE_GRACE` are planned as well.
    pub is_dry_run: bool,
}

impl PlanInputs {
    /// Refuses what is not sent now.
    pub(crate) fn refuse_paused(&self, fingerprint: impl FnOnce() -> u64) -> Result<(), Reason> {
        // A fingerprint takes time, and most plans have nothing to compare it with.
        let reason = if self.paused.is_empty() { None } else { self.paused.get(&fingerprint()) };
        reason.map_or(Ok(()), |reason| Err(reason.clone()))
    }
}

/// The context in which every hostname of a request is planned.
#[derive(Clone, Copy)]
pub(crate) struct PlanContext<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) inputs: &'a PlanInputs,
    pub(crate) access_changes: &'a AccessChanges,
    /// All rules, each marked as ours or not.
    pub(crate) marked_rules: &'a BTreeMap<&'a TunnelId, MarkedRules<'a>>,
}
