//! Remembers whether Access showed applications of ours, recent writes, which Cloudflare's list may not show yet, and the
//! places of our applications that nothing needs, which are deleted a loop later.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::collections::inserted;
use crate::locks::lock;
use crate::model::access::Application;
use crate::reconcile::access::place::Place;

/// After a write, Cloudflare's list of applications may not show the write for this time.
const LIST_LAG_MAX: Duration = Duration::from_secs(120);

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

/// The places of our applications that the last check found unneeded; true if the check before it found the same.
#[derive(Debug, Default)]
pub(crate) struct UnneededPlaces(BTreeMap<Place, bool>);

impl UnneededPlaces {
    /// Notes what a new check found.
    pub(crate) fn note<'a>(&mut self, found: impl Iterator<Item = &'a Place>) {
        self.0 = inserted(found.map(|place| (place.clone(), self.0.contains_key(place))));
    }

    pub(crate) fn has_confirmed(&self) -> bool {
        self.0.values().any(|again| *again)
    }

    /// The places that two consecutive checks found unneeded. They need one more check before they are returned again.
    pub(crate) fn take_confirmed(&mut self) -> BTreeSet<Place> {
        let agreed = inserted(self.0.iter().filter(|(_, again)| **again).map(|(place, _)| place.clone()));
        self.0.values_mut().for_each(|again| *again = false);
        agreed
    }

    /// Notes that the deletion at this place failed. One more check is enough to try it again.
    pub(crate) fn note_failed(&mut self, place: Place) {
        self.0.insert(place, false);
    }

    /// Forgets every check.
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }
}
