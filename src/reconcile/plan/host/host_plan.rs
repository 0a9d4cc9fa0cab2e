//! Turns one hostname's decision into writes: edits of documents and operations on records, stage by stage.

use std::collections::BTreeMap;

use super::adoption;
use super::decision::Decision;
use super::operations::{self, Step};
use super::standing::Standing;
use crate::ingress::RuleEdit;
use crate::model::{TunnelId, ZoneId};
use crate::ordered::push_lean;
use crate::reconcile::claim_state::ClaimState;
use crate::reconcile::plan::{HostPlan, Reason, RecordOperation, Stage};

/// The writes of the decision.
pub(super) fn host_plan(standing: &Standing<'_>, decision: &Decision<'_>) -> Result<HostPlan, Reason> {
    let course = &decision.course;
    let edits = edits(standing, decision);
    let steps = operations::steps(standing, decision)?;
    let edited = edits.values().flatten().map(|(tunnel, _)| tunnel);
    let to_be_edited = course.staying.iter().filter_map(|digest| standing.claims.get(digest)?.tunnel());
    if let Some(tunnel) = edited.chain(to_be_edited).find(|tunnel| !standing.is_writable(tunnel)) {
        return Err(Reason::LocalTunnel { tunnel: tunnel.as_str().into() });
    }
    Ok(HostPlan {
        vanishes: if course.ends() { standing.has_record() } else { course.heir.is_some() },
        edits,
        operations: by_batch(steps),
        adoptions: adoption::adoptions(standing, &decision.desired),
        comments_before: adoption::comments_before(standing),
        moves_to: course.moves_to.clone(),
        moves_now: !course.ends() && operations::moves_now(standing),
        stands_in: course.moves_to.is_some() && standing.own_records.is_empty(),
        ..HostPlan::empty(standing.name(), standing.resource())
    })
}

/// The edits of tunnels' documents: rules that go, and wanted ones.
fn edits(standing: &Standing<'_>, decision: &Decision<'_>) -> BTreeMap<Stage, Vec<(TunnelId, RuleEdit)>> {
    let Decision { desired, course, .. } = decision;
    let hostname = &standing.hostname;
    let removed = course.leaving.iter().filter_map(|digest| match standing.claims.get(digest)? {
        ClaimState::Standing { tunnel, rule } => {
            let path = rule.path().map(Into::into);
            Some((course.leaves_in, tunnel, RuleEdit::Remove { hostname: hostname.clone(), path }))
        }
        _ => None,
    });
    let put = desired.iter().filter_map(|desired| {
        let (rule, digest) = (desired.publication.rule.as_ref()?, desired.digest()?);
        let replaces = standing.has(digest) && !standing.adopted.is_kept(digest);
        Some((Stage::Publish, desired.tunnel(), RuleEdit::Put { rule: rule.clone(), replaces }))
    });
    let mut edits: BTreeMap<Stage, Vec<(TunnelId, RuleEdit)>> = BTreeMap::new();
    for (stage, tunnel, edit) in removed.chain(put) {
        push_lean(edits.entry(stage).or_default(), (tunnel.clone(), edit));
    }
    edits
}

pub(super) fn by_batch(steps: Vec<Step<'_>>) -> BTreeMap<(Stage, ZoneId), Vec<RecordOperation>> {
    let mut batches: BTreeMap<(Stage, ZoneId), Vec<RecordOperation>> = BTreeMap::new();
    for Step { stage, zone, operation } in steps {
        let batch = batches.entry((stage, zone.zone.id.clone())).or_default();
        // A TXT record under an old name is about several records. Deleting it twice would fail the transaction.
        if !batch.contains(&operation) {
            push_lean(batch, operation);
        }
    }
    batches
}
