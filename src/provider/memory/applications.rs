//! Remembers whether Access showed applications of ours, recent writes, which Cloudflare's list may not show yet, and the
//! places of our applications that nothing needs, which are deleted a loop later.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use log::Level;

use crate::collections::inserted;
use crate::locks::lock;
use crate::model::LogLine;
use crate::model::access::Application;
use crate::provider::memory::Logged;
use crate::reconcile::access::place::Place;

/// After a write, Cloudflare's list of applications may not show the write for this time.
const LIST_LAG_MAX: Duration = Duration::from_secs(120);

/// The deletion of an unneeded application that fails again and again is tried once in 2 to the power of this many loops.
const BACKOFF_MAX: u32 = 6;

/// A write within the last `LIST_LAG_MAX`.
#[derive(Clone, Debug)]
pub(crate) struct WrittenApplication {
    pub(crate) place: Box<str>,
    pub(crate) outcome: ApplicationWriteOutcome,
    pub(crate) at: Instant,
}

/// The result of a write of an application.
#[derive(Clone, Debug)]
pub(crate) enum ApplicationWriteOutcome {
    /// The application was created or replaced. This is its new state.
    Written(Application),
    /// The application with this id does not exist any more.
    Deleted(Box<str>),
    /// The answer to the creation of the application was lost.
    InDoubt,
}

impl ApplicationWriteOutcome {
    fn id(&self) -> Option<&str> {
        match self {
            Self::Written(application) => Some(&application.id),
            Self::Deleted(id) => Some(id),
            Self::InDoubt => None,
        }
    }
}

/// Remembers recent writes, which Cloudflare's list may not show yet.
#[derive(Debug, Default)]
pub(crate) struct AccessMemory {
    written: Mutex<Vec<WrittenApplication>>,
    /// The last reading showed applications of ours. After the deletion of records, applications may remain that no
    /// comment names.
    pub(crate) has_ours: AtomicBool,
}

impl AccessMemory {
    /// Notes a write.
    pub(crate) fn note(&self, place: &Place, outcome: ApplicationWriteOutcome, at: Instant) {
        let (mut written, place) = (lock(&self.written), place.to_string().into());
        written.retain(|one| one.place != place || one.outcome.id() != outcome.id());
        written.push(WrittenApplication { place, outcome, at });
    }

    /// The writes within the last `LIST_LAG_MAX`. The lock is not held during calls.
    pub(crate) fn just_written(&self, now: Instant) -> Vec<WrittenApplication> {
        let mut written = lock(&self.written);
        written.retain(|one| now.saturating_duration_since(one.at) < LIST_LAG_MAX);
        written.clone()
    }
}

/// The places of our applications that the last check found unneeded.
#[derive(Debug, Default)]
pub(crate) struct UnneededPlaces {
    checks: BTreeMap<Place, Checks>,
    /// The failures of the last deletions.
    failures: Logged<LogLine>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Checks {
    /// The consecutive checks that found the place unneeded, since the last attempt to delete its application.
    agreed: u32,
    failed_deletions: u32,
}

impl Checks {
    /// The number of checks that have to agree before a deletion: two at first, one after a failed deletion, and twice as
    /// many after each further failure.
    fn needed(self) -> u32 {
        self.failed_deletions.checked_sub(1).map_or(2, |further| 1 << further.min(BACKOFF_MAX))
    }

    fn is_confirmed(self) -> bool {
        self.agreed >= self.needed()
    }
}

impl UnneededPlaces {
    /// Notes what a new check found.
    pub(crate) fn note<'a>(&mut self, found: impl Iterator<Item = &'a Place>) {
        self.checks = inserted(found.map(|place| {
            let before = self.checks.get(place).copied().unwrap_or_default();
            (place.clone(), Checks { agreed: before.agreed + 1, ..before })
        }));
    }

    pub(crate) fn has_confirmed(&self) -> bool {
        self.checks.values().any(|checks| checks.is_confirmed())
    }

    /// The places that enough consecutive checks found unneeded. They need one more check before they are returned again.
    pub(crate) fn take_confirmed(&mut self) -> BTreeSet<Place> {
        let mut confirmed = BTreeSet::new();
        for (place, checks) in self.checks.iter_mut().filter(|(_, checks)| checks.is_confirmed()) {
            checks.agreed = checks.needed() - 1;
            confirmed.insert(place.clone());
        }
        confirmed
    }

    /// Notes the deletions that failed, each with its place, and returns the new lines of the log.
    pub(crate) fn note_failed(&mut self, failed: Vec<(Place, LogLine)>, now: i64) -> Vec<(Level, LogLine)> {
        let (places, lines): (Vec<Place>, Vec<LogLine>) = failed.into_iter().unzip();
        for place in places {
            let checks = self.checks.entry(place).or_default();
            *checks = Checks { agreed: 0, failed_deletions: checks.failed_deletions + 1 };
        }
        self.failures.new_lines(lines.into_iter(), now)
    }

    /// Forgets every check. A place after several failed deletions stays, and needs as many checks as before.
    pub(crate) fn forget(&mut self) {
        self.checks.retain(|_, checks| checks.failed_deletions > 1);
        self.checks.values_mut().for_each(|checks| checks.agreed = 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Hostname;

    /// A token that may only read Access deletes nothing, and each attempt needs a new reading of everything.
    #[test]
    fn a_deletion_that_fails_is_tried_in_the_next_loop_and_then_after_twice_as_many_each_time() {
        let application = |hostname: &str| Place::of(&Hostname::parse(hostname).unwrap(), None).unwrap();
        let (place, mut places) = (application("a.example.com"), UnneededPlaces::default());
        let tried: Vec<usize> = (1..=200)
            .filter(|_| {
                places.note([&place].into_iter());
                let is_tried = places.has_confirmed();
                for place in places.take_confirmed() {
                    places.note_failed(vec![(place, LogLine::default())], 0);
                }
                is_tried
            })
            .collect();
        assert_eq!(tried, [2, 3, 5, 9, 17, 33, 65, 129, 193]);
        places.forget();
        (0..63).for_each(|_| places.note([&place].into_iter()));
        assert!(!places.has_confirmed(), "no earlier check counts, and as many are needed as before");
        places.note([&place].into_iter());
        assert!(places.has_confirmed());
        places.note([].into_iter());
        places.note([&place].into_iter());
        assert!(!places.has_confirmed(), "a place that was needed begins anew");
        places.note([&place].into_iter());
        assert_eq!(places.take_confirmed().len(), 1);
        assert!(!places.has_confirmed(), "it is deleted now");
        places.note([&place].into_iter());
        assert!(places.has_confirmed(), "it was not deleted");
        places.note_failed(vec![(place.clone(), LogLine::default())], 0);
        places.forget();
        places.note([&place].into_iter());
        assert!(!places.has_confirmed(), "a rule that was not written may need it");
    }
}
