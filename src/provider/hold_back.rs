//! Takes out of a plan what must not be written now: work that Cloudflare refused and would refuse again, and work that
//! it does not keep.

use std::mem;
use std::time::Instant;

use crate::ingress::RuleEdit;
use crate::model::{TunnelId, ZoneId};
use crate::provider::description::{differing_fields, differing_property};
use crate::provider::memory::{RefusedWork, WriteLoops};
use crate::provider::writes::{
    OwnedRules, Write, record_work, record_write, rule_write_against, standing_rule, tunnel_work,
};
use crate::reconcile::plan::{HostPlan, Plan, Reason, RecordOperation, Refusal, Stage};
use crate::reconcile::snapshot::Snapshot;

/// The plan without the work held back, which becomes refusals.
pub(super) fn hold_back(
    mut plan: Plan,
    snapshot: &Snapshot,
    refused: &RefusedWork,
    loops: &mut WriteLoops,
    now: Instant,
) -> Plan {
    if refused.is_empty() && loops.is_empty() {
        return plan;
    }
    let hosts = mem::take(&mut plan.hosts);
    let owned = snapshot.owned(&plan.own);
    let mut gate = Gate { refused, loops, snapshot, owned, now };
    for host in hosts {
        let (host, refusals) = gate.pass(host);
        plan.hosts.extend(host.filter(|host| !host.is_empty()));
        plan.refusals.extend(refusals);
    }
    plan
}

struct Gate<'a> {
    refused: &'a RefusedWork,
    loops: &'a mut WriteLoops,
    snapshot: &'a Snapshot,
    owned: OwnedRules<'a>,
    now: Instant,
}

impl Gate<'_> {
    /// The part of a hostname that is to be written, if any, and the refusals for the rest.
    fn pass(&mut self, mut host: HostPlan) -> (Option<HostPlan>, Vec<Refusal>) {
        let is_moving = host.moves_to.is_some();
        let mut refusals = Vec::new();
        let mut held_batches = Vec::new();
        for (batch, operations) in &host.operations {
            let Some(reason) = self.held_records(&host.hostname, batch, operations) else {
                continue;
            };
            let is_refused = !matches!(reason, Reason::NotKept { .. });
            refusals.push(refusal(&host, None, reason));
            // Without its record or its stamp, no rule of the hostname is of use.
            if is_refused || is_moving || operations.iter().any(carries_stamp) {
                return (None, refusals);
            }
            held_batches.push(batch.clone());
        }
        host.operations.retain(|batch, _| !held_batches.contains(batch));
        for (stage, edits) in mem::take(&mut host.edits) {
            let mut kept = Vec::with_capacity(edits.len());
            for (tunnel, edit) in edits {
                let Some(reason) = self.held_rule(&tunnel, &edit) else {
                    kept.push((tunnel, edit));
                    continue;
                };
                refusals.push(refusal(&host, edit.path(), reason));
                // The digest of a rule that stays must not be removed. And a hostname that is led to its new tunnel
                // while one of its rules is missing or outdated there would lose what that rule serves.
                if matches!(edit, RuleEdit::Remove { .. }) || is_moving {
                    return (None, refusals);
                }
            }
            host.edits.insert(stage, kept);
        }
        (Some(host), refusals)
    }

    fn held_records(
        &mut self,
        hostname: &str,
        batch: &(Stage, ZoneId),
        operations: &[RecordOperation],
    ) -> Option<Reason> {
        let refused = self.refused.reason(&record_work(operations), self.snapshot, self.now);
        refused.or_else(|| {
            let write = record_write(hostname, batch, operations, self.snapshot);
            self.is_repeated(write).then(|| Reason::NotKept { field: differing_fields(operations).into() })
        })
    }

    fn held_rule(&mut self, tunnel: &TunnelId, edit: &RuleEdit) -> Option<Reason> {
        // Of what was refused only removals come here: a rule that was refused is not planned, as the rest of its object
        // has to wait with it. One question for both is simpler than one for removals alone.
        let refused = self.refused.reason(&tunnel_work(tunnel, edit), self.snapshot, self.now);
        refused.or_else(|| {
            let write = rule_write_against(tunnel, edit, self.snapshot, &self.owned)?;
            let standing = standing_rule(tunnel, edit, self.snapshot);
            self.is_repeated(write)
                .then(|| Reason::NotKept { field: differing_property(edit, standing).into() })
        })
    }

    fn is_repeated(&mut self, write: Write) -> bool {
        self.loops.holds(write, self.now)
    }
}

fn refusal(host: &HostPlan, path: Option<&str>, reason: Reason) -> Refusal {
    let HostPlan { hostname, resource, .. } = host;
    Refusal {
        hostname: hostname.clone(),
        set_identifier: path.map(Into::into),
        resource: resource.clone(),
        reason,
    }
}

/// True if the operation carries a stamp: a new record, or another comment.
fn carries_stamp(operation: &RecordOperation) -> bool {
    match operation {
        RecordOperation::Delete(..) => false,
        RecordOperation::Patch(patch) => patch.comment.is_some(),
        RecordOperation::Post(_) => true,
    }
}
