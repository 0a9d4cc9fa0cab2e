//! The state that requests share, and the reading of snapshots. Other methods are in `request.rs`,
//! `report.rs` and `access/unneeded.rs`.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use crate::clock::{Clock, Deadline};
use crate::cloudflare::Client;
use crate::locks::lock;
use crate::model::TunnelId;
use crate::observe::metrics::{Family, Metrics, RULE_OWNERSHIPS};
use crate::provider::access::unneeded::UnneededPlaces;
use crate::provider::last_loop::LastLoop;
use crate::provider::memory::{LastSnapshot, WriteHistory, WriteTargets};
use crate::provider::resolution::Resolved;
use crate::provider::snapshot_reader::{ReadError, SnapshotReader};
use crate::reconcile::snapshot::Snapshot;

#[derive(Debug)]
pub(super) struct ProviderState {
    pub(super) reader: SnapshotReader,
    pub(super) metrics: Arc<Metrics>,
    pub(super) last_loop: Mutex<LastLoop>,
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
    /// The number of the turn. Each number begins a thousand hostnames later.
    pub(super) turn: usize,
    /// The requests of the turn that left one of its hostnames undone, from the first one that wrote a part of one.
    pub(super) tries: usize,
    /// The hostnames whose record was created, or may have been, for rules that are not all written.
    pub(super) new_records: BTreeSet<Box<str>>,
}

impl ProviderState {
    pub(super) fn client(&self) -> &Client {
        &self.reader.client
    }

    pub(super) fn clock(&self) -> &dyn Clock {
        &*self.reader.clock
    }

    /// Reads a snapshot of the present state, always with Access if `is_access_wished`.
    pub(super) fn read(
        &self,
        Resolved { account, settings }: &Resolved,
        is_access_wished: bool,
        deadline: Deadline,
    ) -> Result<Arc<Snapshot>, ReadError> {
        let (begun, writes) = (self.clock().now(), lock(&self.last_snapshot).begin_reading());
        let snapshot = Arc::new(self.reader.snapshot(account, settings, is_access_wished, deadline)?);
        count(&snapshot, &self.metrics, self.clock().unix_seconds());
        lock(&self.last_snapshot).end_reading(&snapshot, begun, writes);
        Ok(snapshot)
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

/// Counts the content of a snapshot in the metrics.
fn count(snapshot: &Snapshot, metrics: &Metrics, now: i64) {
    let own_rules: Vec<&TunnelId> = snapshot.own_rules().map(|(tunnel, _)| tunnel).collect();
    let own_records = snapshot.own_records().map(|own| (&*own.zone.zone.name, &*own.record.record_type));
    let own_records: Vec<(&str, &str)> = own_records.collect();
    // Scrapes and probes wait for this lock.
    let mut values = metrics.update();
    values.set(Family::LastRead, &[], now);
    for family in [Family::ConfigurationVersion, Family::Rules, Family::Records, Family::ZoneRecords] {
        values.clear(family, &[]);
    }
    for (id, tunnel) in &snapshot.tunnels {
        let name = snapshot.settings.name_of(id);
        values.set(Family::ConfigurationVersion, &[name], tunnel.version);
        let rules = tunnel.document.rules().len();
        let owned = own_rules.iter().filter(|tunnel| **tunnel == id).count();
        for (ownership, count) in RULE_OWNERSHIPS.into_iter().zip([owned, rules - owned]) {
            values.set(Family::Rules, &[name, ownership], count as i64);
        }
    }
    for zone in &snapshot.zones {
        values.set(Family::ZoneRecords, &[&zone.zone.name], zone.records().len() as i64);
    }
    for (zone, record_type) in own_records {
        values.add(Family::Records, &[zone, record_type], 1);
    }
}
