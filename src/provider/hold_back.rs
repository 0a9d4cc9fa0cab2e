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
    let owned = snapshot.owned(&plan.own_before);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{put, tunnel};
    use crate::model::{NewRecord, RecordId, RecordPatch};
    use crate::provider::outcome::{Done, Rejection};

    const NAME: &str = "a.example.com";

    fn patch(comment: Option<&str>) -> RecordOperation {
        let patch = RecordPatch {
            id: RecordId::new("id"),
            content: Some("x".into()),
            proxied: None,
            comment: comment.map(Into::into),
        };
        RecordOperation::Patch(patch)
    }

    fn post() -> RecordOperation {
        RecordOperation::Post(NewRecord {
            name: NAME.into(),
            kind: "CNAME".into(),
            content: "x".into(),
            proxied: true,
            ttl: 1,
            comment: "".into(),
        })
    }

    /// A plan with a rule, and one operation in this stage.
    fn plan_of(stage: Stage, operation: RecordOperation, is_moving: bool) -> Plan {
        let host = HostPlan {
            edits: [(Stage::Publish, vec![(tunnel(), put(NAME, "http://a:80"))])].into(),
            operations: [((stage, ZoneId::new("zone")), vec![operation])].into(),
            moves_to: is_moving.then(tunnel),
            ..HostPlan::empty(NAME, None)
        };
        Plan { hosts: vec![host], ..Plan::default() }
    }

    /// What is left of a plan whose operation is held back: the rule, all, or nothing.
    #[allow(clippy::disallowed_methods, reason = "any instant will do")]
    fn left(plan: Plan, is_refused: bool) -> &'static str {
        let (snapshot, now) = (Snapshot::default(), Instant::now());
        let (mut refused, mut loops) = (RefusedWork::default(), WriteLoops::default());
        for (batch, operations) in plan.hosts.iter().flat_map(|host| &host.operations) {
            if is_refused {
                let refusal = Refusal::whole(NAME.into(), None, Reason::Cloudflare("no".to_owned()));
                let rejection =
                    Rejection { refusal, work: record_work(operations), quota: None, document: None };
                refused.learn(&Done { rejections: vec![rejection], ..Done::default() }, now);
            } else {
                loops.stored_otherwise(record_write(NAME, batch, operations, &snapshot), now);
            }
        }
        let plan = hold_back(plan, &snapshot, &refused, &mut loops, now);
        assert_eq!(plan.refusals.len(), 1);
        match &*plan.hosts {
            [] => "nothing",
            [host] if host.operations.is_empty() && host.edits.len() == 1 => "the rule",
            _ => "all",
        }
    }

    #[test]
    fn a_rule_is_not_published_without_its_stamp_nor_where_its_hostname_cannot_be_led() {
        for (label, stage, operation, is_moving, is_refused, expected) in [
            ("another target, which is not kept", Stage::Stamp, patch(None), false, false, "the rule"),
            ("the same, beside a move", Stage::Stamp, patch(None), true, false, "nothing"),
            ("the same, refused", Stage::Stamp, patch(None), false, true, "nothing"),
            ("a stamp, which is not kept", Stage::Stamp, patch(Some("x")), false, false, "nothing"),
            ("a new record", Stage::Stamp, post(), false, false, "nothing"),
        ] {
            assert_eq!(left(plan_of(stage, operation, is_moving), is_refused), expected, "{label}");
        }
    }
}
