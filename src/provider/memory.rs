//! What this process remembers from one request to the next. All of it is lost with the process.

mod merged_objects;
mod moves;
mod swallowed_hostnames;
mod unapplied_rules;
mod unpublished_rules;
pub(super) mod write_loops;

pub(super) use self::merged_objects::{MergedObjects, Shown};
pub(super) use self::moves::Moves;
pub(super) use self::swallowed_hostnames::SwallowedHostnames;
pub(super) use self::unapplied_rules::UnappliedRules;
pub(super) use self::unpublished_rules::UnpublishedRules;
