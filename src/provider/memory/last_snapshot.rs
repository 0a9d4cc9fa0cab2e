//! Stores the last snapshot, and whether this process wrote since.

use std::sync::{Arc, Mutex};

use crate::locks::lock;
use crate::reconcile::snapshot::Snapshot;

#[derive(Debug, Default)]
pub(crate) struct LastSnapshot {
    /// The snapshot, with the number of its reading.
    read: Option<(u64, Arc<Snapshot>)>,
    /// The number of readings that have begun.
    readings: u64,
    /// The readings up to this number are outdated: a write began or ended during the reading or later, or the
    /// configured tunnels changed.
    outdated: u64,
}

impl LastSnapshot {
    /// Drops the last snapshot before the next one is read, because memory would otherwise hold both. Returns the
    /// number of the reading.
    pub(crate) fn drop_for_reading(&mut self) -> u64 {
        self.read = None;
        self.readings += 1;
        self.readings
    }

    /// Stores a reading, unless one that began later has ended before.
    pub(crate) fn end_reading(&mut self, snapshot: &Arc<Snapshot>, reading: u64) {
        if self.read.as_ref().is_none_or(|(known, _)| *known < reading) {
            self.read = Some((reading, Arc::clone(snapshot)));
        }
    }

    /// Marks the snapshot as outdated: a write is done or about to begin, or the configured tunnels changed.
    pub(crate) fn mark_outdated(&mut self) {
        self.outdated = self.readings;
    }

    /// The last snapshot, whatever its age, unless this process wrote since. Other writers may have written since.
    pub(crate) fn unless_outdated(&self) -> Option<Arc<Snapshot>> {
        self.as_read().and_then(|(snapshot, is_outdated)| (!is_outdated).then_some(snapshot))
    }

    /// The last snapshot, and whether it is outdated. It may be shown then, but no decision may depend on it.
    pub(crate) fn as_read(&self) -> Option<(Arc<Snapshot>, bool)> {
        let (reading, snapshot) = self.read.as_ref()?;
        Some((Arc::clone(snapshot), *reading <= self.outdated))
    }
}

/// Outdates the last snapshot when writes begin, and when they end, even by a panic.
pub(crate) struct WriteGuard<'a>(&'a Mutex<LastSnapshot>);

impl<'a> WriteGuard<'a> {
    pub(crate) fn begin(last: &'a Mutex<LastSnapshot>) -> Self {
        lock(last).mark_outdated();
        Self(last)
    }
}

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        lock(self.0).mark_outdated();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{self, AssertUnwindSafe};

    use super::*;
    use crate::fixture;
    use crate::provider::memory::year;

    #[test]
    fn a_reading_that_a_write_overtook_is_not_remembered_and_no_two_snapshots_ever_are() {
        let (mut last, snapshot) = (LastSnapshot::default(), Arc::new(Snapshot::new(fixture::reading())));
        let reading = last.drop_for_reading();
        last.end_reading(&snapshot, reading);
        assert!(last.unless_outdated().is_some());
        let reading = last.drop_for_reading();
        assert_eq!(Arc::strong_count(&snapshot), 1, "it is let go before the next one is read");
        last.mark_outdated();
        last.end_reading(&snapshot, reading);
        assert!(last.unless_outdated().is_none());
        assert!(last.as_read().is_some_and(|(_, is_outdated)| is_outdated), "it may be shown");
    }

    #[test]
    fn of_two_readings_at_once_the_one_that_began_last_is_remembered_whichever_ends_last() {
        for is_written_between in [false, true] {
            let (mut last, [older, newer]) =
                (LastSnapshot::default(), [(); 2].map(|()| Arc::new(Snapshot::new(fixture::reading()))));
            let first = last.drop_for_reading();
            if is_written_between {
                last.mark_outdated();
            }
            let second = last.drop_for_reading();
            last.end_reading(&newer, second);
            last.end_reading(&older, first);
            assert!(last.unless_outdated().is_some_and(|known| Arc::ptr_eq(&known, &newer)));
        }
    }

    #[test]
    fn a_reading_in_the_middle_of_writes_is_outdated_when_they_end_even_by_a_panic() {
        let last = Mutex::<LastSnapshot>::default();
        let write = || {
            let _outdating = WriteGuard::begin(&last);
            let reading = lock(&last).drop_for_reading();
            lock(&last).end_reading(&Arc::new(Snapshot::new(fixture::reading())), reading);
            panic::resume_unwind(Box::new("the write panics"));
        };
        panic::catch_unwind(AssertUnwindSafe(write)).unwrap_err();
        assert!(lock(&last).as_read().is_some_and(|(_, is_outdated)| is_outdated));
    }

    #[test]
    fn after_a_year_of_readings_one_snapshot_is_held() {
        let mut last = LastSnapshot::default();
        let snapshot = Arc::new(Snapshot::new(fixture::reading()));
        for _ in year::loops() {
            let reading = last.drop_for_reading();
            last.end_reading(&snapshot, reading);
        }
        assert_eq!(Arc::strong_count(&snapshot), 2);
    }
}
