//! The memory of the provider from one request to the next; docs/how-it-works.md lists all memory of the process. It is
//! lost with the process, and each part is bounded: no part grows with the number of loops.

mod alternations;
mod applications;
mod endpoint_fingerprints;
mod last_loop;
mod last_snapshot;
mod logged;
mod newest;
mod unneeded_places;
mod write_memory;

use self::alternations::Alternations;
pub(super) use self::applications::{AccessMemory, ApplicationWriteOutcome, RecentWrite};
pub(super) use self::endpoint_fingerprints::{EndpointFingerprint, EndpointFingerprints};
pub(super) use self::last_loop::LastLoop;
pub(super) use self::last_snapshot::{LastSnapshot, WriteGuard};
pub(super) use self::logged::Logged;
pub(super) use self::newest::Newest;
pub(super) use self::unneeded_places::UnneededPlaces;
pub(super) use self::write_memory::WriteMemory;

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
