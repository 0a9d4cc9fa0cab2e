//! Decides how the stamps of a hostname are corrected if a run has not written all of its rules.
//!
//! A stamp names a rule before the rule is written. If the write of the rule is refused, or if a foreign rule now has its
//! hostname and path, the stamp would make a foreign rule ours. If the stamp claims nothing else, a new record is deleted,
//! because the new record would hide a wildcard's record, and the comment of an older record is restored. A takeover that
//! deleted records is not undone.

use crate::collections::inserted;
use crate::ingress::RuleEdit;
use crate::model::{Record, RecordId, RecordPatch};
use crate::reconcile::plan::planned::{HostPlan, PlannedEdit, RecordOperation};
use crate::reconcile::stamp::Claims;

/// The operations that correct the `stamped` records of a hostname. `before` are the hostname's records that the plan
/// was made for.
pub fn corrections(
    host: &HostPlan,
    is_written: impl Fn(&PlannedEdit) -> bool,
    stamped: &[RecordId],
    before: &[Record],
) -> Vec<RecordOperation> {
    let Some(claims) = corrected_claims(host, is_written) else { return Vec::new() };
    let Some(comment) = host.comment.with(&claims) else { return Vec::new() };
    let takes_over = host.stamp_operations.iter().any(|one| matches!(one, RecordOperation::Delete { .. }));
    let keeps_stamp = !claims.is_empty() || takes_over;
    let correction = |id: &RecordId| {
        let id = id.clone();
        // A new record has no former comment.
        let former = || before.iter().find(|record| record.id == id).map(|record| record.comment.clone());
        match if keeps_stamp { Some(comment.clone()) } else { former() } {
            None => RecordOperation::Delete { id, txt_name: None },
            comment => RecordOperation::Patch(RecordPatch { id, content: None, proxied: None, comment }),
        }
    };
    stamped.iter().map(correction).collect()
}

/// The claims that the stamp should have; `None` if each new rule that it claims was written. Such a hostname was not
/// given to Unstamp, so its records have the comment of Stamp.
fn corrected_claims(host: &HostPlan, is_written: impl Fn(&PlannedEdit) -> bool) -> Option<Claims> {
    // The digest would make a foreign rule ours.
    let is_wrong = |planned: &&PlannedEdit| {
        let is_new = matches!(planned.edit, RuleEdit::Put { replaces: false, .. });
        is_new && !is_written(planned) && !host.comment.had_digest(&planned.digest())
    };
    let is_deleted =
        |planned: &&PlannedEdit| matches!(planned.edit, RuleEdit::Delete { .. }) && is_written(planned);
    let mut wrong = host.edits.iter().filter(is_wrong).peekable();
    wrong.peek()?;
    let removed = inserted(wrong.chain(host.edits.iter().filter(is_deleted)).map(PlannedEdit::digest));
    Some(host.comment.without(&removed))
}
