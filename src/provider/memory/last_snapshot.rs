//! Stores the last snapshot, and whether this process wrote since. A snapshot with an old answer does not prove that no
//! write is needed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::reconcile::snapshot::Snapshot;

/// A younger snapshot may show that no write is needed.
const RECENT_MAX_AGE: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub(crate) struct LastSnapshot {
    /// The snapshot, with the time at which its reading began and the generation of that time. A snapshot of an earlier
    /// generation is outdated, even if a write began during the reading.
    read: Option<(Instant, u64, Arc<Snapshot>)>,
    /// The number of calls of [`Self::outdate`].
    generation: u64,
}

impl LastSnapshot {
    /// Drops the last snapshot before the next one is read, because memory would otherwise hold both. Returns the
    /// present generation.
    pub(crate) fn begin_reading(&mut self) -> u64 {
        self.read = None;
        self.generation
    }

    /// Stores a reading that began at `begun`, in this generation.
    pub(crate) fn end_reading(&mut self, snapshot: &Arc<Snapshot>, begun: Instant, generation: u64) {
        self.read = Some((begun, generation, Arc::clone(snapshot)));
    }

    /// Marks the snapshot as outdated: a write is done or about to begin, or the configured tunnels changed.
    pub(crate) fn outdate(&mut self) {
        self.generation += 1;
    }

    /// The last snapshot, whatever its age, unless this process wrote since. Other writers may have written since.
    pub(crate) fn unless_outdated(&self) -> Option<Arc<Snapshot>> {
        self.valid().map(|(_, snapshot)| Arc::clone(snapshot))
    }

    /// The last snapshot, even if it is outdated. It may be shown, but no decision may depend on it.
    pub(crate) fn as_read(&self) -> Option<Arc<Snapshot>> {
        self.read.as_ref().map(|(.., snapshot)| Arc::clone(snapshot))
    }

    /// The last snapshot, if it is young enough to show that no write is needed, and has no old answer.
    pub(crate) fn recent(&self, now: Instant) -> Option<Arc<Snapshot>> {
        let (begun, snapshot) = self.valid()?;
        let is_young = now.saturating_duration_since(begun) < RECENT_MAX_AGE;
        (is_young && snapshot.old_answers.is_empty()).then(|| Arc::clone(snapshot))
    }

    fn valid(&self) -> Option<(Instant, &Arc<Snapshot>)> {
        let (begun, generation, snapshot) = self.read.as_ref()?;
        (*generation == self.generation).then_some((*begun, snapshot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::provider::memory::year;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "any instant will do")]
    fn a_reading_that_a_write_overtook_is_not_remembered_and_no_two_snapshots_ever_are() {
        let begun = Instant::now();
        let (mut last, snapshot) = (LastSnapshot::default(), Arc::new(fixture::snapshot()));
        let generation = last.begin_reading();
        last.end_reading(&snapshot, begun, generation);
        assert!(last.recent(begun).is_some() && last.recent(begun + RECENT_MAX_AGE).is_none());
        assert!(last.unless_outdated().is_some());
        let generation = last.begin_reading();
        assert_eq!(Arc::strong_count(&snapshot), 1, "it is let go before the next one is read");
        last.outdate();
        last.end_reading(&snapshot, begun, generation);
        assert!(last.unless_outdated().is_none() && last.recent(begun).is_none());
        assert!(last.as_read().is_some(), "it may be shown");
        let old = Snapshot { old_answers: [("z1".into(), "it is old".into())].into(), ..fixture::snapshot() };
        let generation = last.begin_reading();
        last.end_reading(&Arc::new(old), begun, generation);
        assert!(last.recent(begun).is_none(), "it does not show that there is nothing to write");
        assert!(last.unless_outdated().is_some(), "ExternalDNS was shown it");
    }

    #[test]
    fn after_a_year_of_readings_one_snapshot_is_held() {
        let mut last = LastSnapshot::default();
        let snapshot = Arc::new(fixture::snapshot());
        for (_, now) in year::loops() {
            let generation = last.begin_reading();
            last.end_reading(&snapshot, now, generation);
        }
        assert_eq!(Arc::strong_count(&snapshot), 2);
    }
}
