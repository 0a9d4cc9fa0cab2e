//! Decides how the stamps of a hostname are corrected if a run has not written all of its rules.
//!
//! A stamp names a rule before the rule is written. If the write of the rule is refused, or if a foreign rule now has its
//! hostname and path, the stamp would make a foreign rule ours. If the stamp claims nothing else, a new record is deleted,
//! because the new record would hide a wildcard's record, and the comment of an older record is restored. A takeover that
//! deleted records is not undone.

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
    let Some(comment) = host.comments.with(&claims) else { return Vec::new() };
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

/// The claims that the stamp should have; `None` if it need not be corrected.
fn corrected_claims(host: &HostPlan, is_written: impl Fn(&PlannedEdit) -> bool) -> Option<Claims> {
    // Unstamp may not have run, and a correction never removes a digest from before the request: another instance may
    // be about to write its rule, or its rule was not read.
    let mut claims_keeping_dangling = host.claims.clone();
    claims_keeping_dangling.digests.extend(&host.removed_dangling);
    let mut claims = claims_keeping_dangling.clone();
    for unwritten in host.edits.iter().filter(|planned| !is_written(planned)) {
        let digest = unwritten.digest();
        match &unwritten.edit {
            // The stamp named the rule before this request.
            RuleEdit::Put { replaces, .. } if *replaces || host.comments.had_digest(&digest) => {}
            // The digest would make a foreign rule ours.
            RuleEdit::Put { .. } => {
                claims.digests.remove(&digest);
            }
            // The rule is still there and ours, so the record is not kept for foreign rules alone.
            RuleEdit::Delete { .. } => {
                claims.digests.insert(digest);
                claims.is_released = false;
            }
        }
    }
    (claims != claims_keeping_dangling).then_some(claims)
}
