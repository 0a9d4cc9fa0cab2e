//! Parts of the memory of this process from one request to the next; docs/how-it-works.md lists all. It is lost with the
//! process, and each part is bounded: no part grows with the number of loops.

mod alternations;
mod endpoint_fingerprints;
mod last_snapshot;
mod logged;
mod newest;
mod targets;
mod write_history;

use std::collections::BTreeSet;

pub(super) use self::alternations::Alternations;
pub(super) use self::endpoint_fingerprints::{EndpointFingerprints, MarkedEndpoint};
pub(super) use self::last_snapshot::LastSnapshot;
pub(super) use self::logged::Logged;
pub(super) use self::newest::Newest;
pub(super) use self::targets::GroupSize;
use self::targets::WriteTargets;
use self::write_history::WriteHistory;

/// The memory from one request that writes to the next.
#[derive(Debug, Default)]
pub(super) struct WriteMemory {
    pub(super) write_history: WriteHistory,
    pub(super) targets: WriteTargets,
    /// The number of the turn. Each number begins a thousand hostnames later.
    pub(super) turn: usize,
    /// The requests of the turn that left one of its hostnames undone, from the first one that wrote a part of one.
    pub(super) tries: usize,
    /// The hostnames whose record was created, or may have been, for rules that are not all written.
    pub(super) new_records: BTreeSet<Box<str>>,
}

#[cfg(test)]
mod year {
    use std::time::{Duration, Instant};

    /// The number and time of each loop of a year, ten minutes apart.
    #[allow(clippy::disallowed_methods, reason = "any instant will do")]
    pub(super) fn loops() -> impl Iterator<Item = (u64, Instant)> {
        let start = Instant::now();
        (0..365 * 24 * 6).map(move |number| (number, start + Duration::from_secs(600) * number as u32))
    }
}
