//! Remembers whether Access showed applications of ours, and recent writes, which Cloudflare's list may not show yet.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::locks::lock;
use crate::model::access::Application;
use crate::reconcile::access::place::Place;

/// After a write, Cloudflare's list of applications may not show the write for this time.
const LIST_LAG_MAX: Duration = Duration::from_secs(120);

/// A write within the last `LIST_LAG_MAX`.
#[derive(Clone, Debug)]
pub(crate) struct RecentWrite {
    pub(crate) place: Place,
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
    /// It is not known whether the application was created.
    Unknown,
}

impl ApplicationWriteOutcome {
    fn id(&self) -> Option<&str> {
        match self {
            Self::Written(application) => Some(&application.id),
            Self::Deleted(id) => Some(id),
            Self::Unknown => None,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct AccessMemory {
    written: Mutex<Vec<RecentWrite>>,
    /// The last reading showed applications of ours. After the deletion of records, applications may remain that no
    /// comment names.
    pub(crate) has_ours: AtomicBool,
}

impl AccessMemory {
    pub(crate) fn remember(&self, place: &Place, outcome: ApplicationWriteOutcome, at: Instant) {
        let mut written = lock(&self.written);
        let place = place.clone();
        written.retain(|write| write.place != place || write.outcome.id() != outcome.id());
        written.push(RecentWrite { place, outcome, at });
    }

    /// The writes within the last `LIST_LAG_MAX`. The lock is not held during calls.
    pub(crate) fn recent_writes(&self, now: Instant) -> Vec<RecentWrite> {
        let mut written = lock(&self.written);
        written.retain(|write| now.saturating_duration_since(write.at) < LIST_LAG_MAX);
        written.clone()
    }
}
