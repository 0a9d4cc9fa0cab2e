//! The writer: what requests that write share, from one to the next. The rest of it is in `readings.rs`, `request.rs`
//! and `access/unneeded.rs`.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Instant;

use crate::clock::Clock;
use crate::cloudflare::Client;
use crate::provider::memory::{LastSnapshot, PausedWrites, Targets, Turns};
use crate::provider::reader::SnapshotReader;
use crate::provider::reporter::Reporter;
use crate::reconcile::access::place::Place;
use crate::reconcile::earlier::Unfinished;

#[derive(Debug)]
pub(super) struct Writer {
    pub(super) reader: SnapshotReader,
    pub(super) reporter: Reporter,
    pub(super) last_snapshot: Mutex<LastSnapshot>,
    /// A request that writes holds the lock until its end, so there is one at a time.
    pub(super) memory: Mutex<WriteMemory>,
    /// The places of our applications for which nothing answered at the last look; true if that was so at the look before as
    /// well.
    pub(super) unneeded_applications: Mutex<BTreeMap<Place, bool>>,
}

/// What a request that writes leaves to the next one.
#[derive(Debug, Default)]
pub(super) struct WriteMemory {
    pub(super) paused: PausedWrites,
    pub(super) targets: Targets,
    pub(super) turns: Turns,
    /// What the last run left undone, by hostname.
    pub(super) unfinished: BTreeMap<Box<str>, Unfinished>,
}

impl WriteMemory {
    /// Drops what was not asked for in a long time.
    pub(super) fn tidy(&mut self, now: Instant) {
        self.paused.tidy(now);
        self.targets.tidy(now);
    }
}

impl Writer {
    pub(super) fn client(&self) -> &Client {
        &self.reader.client
    }

    pub(super) fn clock(&self) -> &dyn Clock {
        &*self.reader.clock
    }

    pub(super) fn is_dry_run(&self) -> bool {
        self.reader.settings.dry_run
    }
}
