//! The state that requests share. Its other methods are in `snapshots.rs`, `request.rs` and
//! `access/unneeded.rs`.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Instant;

use crate::clock::Clock;
use crate::cloudflare::Client;
use crate::locks::lock;
use crate::provider::access::unneeded::UnneededPlaces;
use crate::provider::memory::{LastSnapshot, Turns, WriteHistory, WriteTargets};
use crate::provider::reporter::Reporter;
use crate::provider::snapshot_reader::SnapshotReader;
use crate::reconcile::plan_inputs::Unfinished;

#[derive(Debug)]
pub(super) struct ProviderState {
    pub(super) reader: SnapshotReader,
    pub(super) reporter: Reporter,
    pub(super) last_snapshot: Mutex<LastSnapshot>,
    /// Held by each `POST /records` until its end, and while unneeded applications are deleted.
    pub(super) memory: Mutex<WriteMemory>,
    pub(super) unneeded_places: Mutex<UnneededPlaces>,
}

/// The memory from one request that writes to the next.
#[derive(Debug, Default)]
pub(super) struct WriteMemory {
    pub(super) write_history: WriteHistory,
    pub(super) targets: WriteTargets,
    pub(super) turns: Turns,
    /// By hostname: the work that the last run left undone.
    pub(super) unfinished: BTreeMap<Box<str>, Unfinished>,
}

impl WriteMemory {
    /// Drops writes and targets whose time is over.
    pub(super) fn tidy(&mut self, now: Instant) {
        self.write_history.tidy(now);
        self.targets.tidy(now);
    }
}

impl ProviderState {
    pub(super) fn client(&self) -> &Client {
        &self.reader.client
    }

    pub(super) fn clock(&self) -> &dyn Clock {
        &*self.reader.clock
    }

    /// Runs writes. Snapshots that were read before or during the writes are outdated.
    pub(super) fn outdating<T>(&self, write: impl FnOnce() -> T) -> T {
        lock(&self.last_snapshot).outdate();
        let result = write();
        lock(&self.last_snapshot).outdate();
        result
    }

    pub(super) fn is_dry_run(&self) -> bool {
        self.reader.settings.dry_run
    }
}
