//! Decides how the stamps of a hostname are corrected if a run has not written all of its rules.
//!
//! A stamp names a rule before the rule is written. If the write of the rule is refused, or if a foreign rule now has
//! its hostname and path, the stamp would make a foreign rule ours. If the stamp claims nothing else, a new record is
//! deleted, because the new record would hide a wildcard's record, and the comment of an older record is restored. A
//! takeover that deleted records is not undone, and a comment that names a deleted rule is not restored.

use std::collections::BTreeSet;

use crate::collections::collect;
use crate::ingress::RuleEdit;
use crate::model::{Record, RecordId, RecordPatch};
use crate::reconcile::plan::planned::{HostPlan, PlannedEdit, RecordOperation};
use crate::reconcile::stamp::{Claims, Digest};

/// The operations that correct the `stamped` records of a hostname. `before` are the hostname's records that the plan
/// was made for.
pub fn corrections<'a>(
    host: &'a HostPlan,
    is_written: impl Fn(&'a PlannedEdit) -> bool,
    stamped: &[RecordId],
    before: &[Record],
) -> Vec<RecordOperation> {
    let Some(claims) = corrected_claims(host, &is_written) else { return Vec::new() };
    let Some(comment) = host.comment.with(&claims) else { return Vec::new() };
    let takes_over = host.operations_before.iter().any(|one| matches!(one, RecordOperation::Delete { .. }));
    let has_deleted = host.edits.iter().filter(|planned| planned.edit.is_deletion()).any(&is_written);
    let keeps_stamp = !claims.is_empty() || takes_over || has_deleted;
    let correction = |id: &RecordId| {
        let id = id.clone();
        // A new record has no former comment.
        let former = || before.iter().find(|record| record.id == id).map(|record| record.comment.clone());
        let text = if keeps_stamp { Some(comment.clone()) } else { former() };
        match text {
            None => RecordOperation::Delete { id, txt_name: None },
            comment => RecordOperation::Patch(RecordPatch { id, content: None, proxied: None, comment }),
        }
    };
    stamped.iter().map(correction).collect()
}

/// The claims that the stamp should have: those before the rules, without rules that were not written and
/// rules that were deleted. `None` if there are none of these, or if every edit was written: then the comment may have
/// been written once more.
fn corrected_claims<'a>(host: &'a HostPlan, is_written: impl Fn(&'a PlannedEdit) -> bool) -> Option<Claims> {
    if host.edits.iter().all(&is_written) {
        return None;
    }
    let is_removed = |planned: &&'a PlannedEdit| match &planned.edit {
        // The digest would make a foreign rule ours, unless the stamp named the rule before this request.
        RuleEdit::Put { replaces, .. } => {
            !replaces && !is_written(planned) && !host.comment.had_digest(&planned.digest())
        }
        RuleEdit::Delete { .. } => is_written(planned),
    };
    let removed: BTreeSet<Digest> = collect(host.edits.iter().filter(is_removed).map(PlannedEdit::digest));
    (!removed.is_empty()).then(|| host.claims_during.without(&removed))
}
