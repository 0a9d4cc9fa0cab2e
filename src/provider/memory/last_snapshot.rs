//! Stores the last snapshot, and whether this process wrote since.

use std::sync::Arc;

use crate::reconcile::snapshot::Snapshot;

#[derive(Debug, Default)]
pub(crate) struct LastSnapshot {
    /// The snapshot, with the generation in which its reading began. A snapshot of an earlier generation is outdated, even
    /// if a write began during the reading.
    read: Option<(u64, Arc<Snapshot>)>,
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

    /// Stores a reading that began in this generation.
    pub(crate) fn end_reading(&mut self, snapshot: &Arc<Snapshot>, generation: u64) {
        self.read = Some((generation, Arc::clone(snapshot)));
    }

    /// Marks the snapshot as outdated: a write is done or about to begin, or the configured tunnels changed.
    pub(crate) fn outdate(&mut self) {
        self.generation += 1;
    }

    /// The last snapshot, whatever its age, unless this process wrote since. Other writers may have written since.
    pub(crate) fn unless_outdated(&self) -> Option<Arc<Snapshot>> {
        self.as_read().and_then(|(snapshot, is_outdated)| (!is_outdated).then_some(snapshot))
    }

    /// The last snapshot, and whether it is outdated. It may be shown then, but no decision may depend on it.
    pub(crate) fn as_read(&self) -> Option<(Arc<Snapshot>, bool)> {
        let (generation, snapshot) = self.read.as_ref()?;
        Some((Arc::clone(snapshot), *generation != self.generation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::provider::memory::year;

    #[test]
    fn a_reading_that_a_write_overtook_is_not_remembered_and_no_two_snapshots_ever_are() {
        let (mut last, snapshot) = (LastSnapshot::default(), Arc::new(fixture::snapshot()));
        let generation = last.begin_reading();
        last.end_reading(&snapshot, generation);
        assert!(last.unless_outdated().is_some());
        let generation = last.begin_reading();
        assert_eq!(Arc::strong_count(&snapshot), 1, "it is let go before the next one is read");
        last.outdate();
        last.end_reading(&snapshot, generation);
        assert!(last.unless_outdated().is_none());
        assert!(last.as_read().is_some_and(|(_, is_outdated)| is_outdated), "it may be shown");
    }

    #[test]
    fn after_a_year_of_readings_one_snapshot_is_held() {
        let mut last = LastSnapshot::default();
        let snapshot = Arc::new(fixture::snapshot());
        for _ in year::loops() {
            let generation = last.begin_reading();
            last.end_reading(&snapshot, generation);
        }
        assert_eq!(Arc::strong_count(&snapshot), 2);
    }
}
