//! Finds the names that a new name takes from the wildcard record above it.

use super::standing::Standing;
use crate::reconcile::Note;
use crate::reconcile::plan::{HostPlan, RecordOperation};

/// A name more than one label below a wildcard takes the names between from it, and all below these (RFC 4592).
pub(super) fn names_taken(standing: &Standing<'_>, plan: &HostPlan) -> Option<Note> {
    let name = standing.name();
    let mut operations = plan.operations.values().flatten();
    let is_new = !standing.has_record()
        && operations
            .any(|operation| matches!(operation, RecordOperation::Post(record) if *record.name == *name));
    let wildcard = standing.zone.wildcard_over(name).first().filter(|_| is_new)?;
    let (_, above) = wildcard.name.split_once('.')?;
    let below = name.strip_suffix(above)?.strip_suffix('.')?;
    let (_, between) = below.split_once('.')?;
    let (_, taken) = between.rsplit_once('.').unwrap_or(("", between));
    let taken = format!("{taken}.{above}");
    Some(standing.note(format!(
        "takes {taken:?} and all other names below that from the wildcard record {:?}, which answers for them no more \
         (RFC 4592): publish those that are needed, or \"*.{taken}\" and {taken:?}, by records of their own",
        wildcard.name
    )))
}
