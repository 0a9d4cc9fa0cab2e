//! Reads for requests, counts what was read, and keeps it for requests that follow soon.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::clock::{Clock, Deadline};
use crate::locks::lock;
use crate::observe::metrics::{Family, Metrics, RULE_OWNERSHIPS};
use crate::provider::memory::LastSnapshot;
use crate::provider::reader::{ReadError, SnapshotReader};
use crate::provider::resolution::Resolved;
use crate::reconcile::Settings;
use crate::reconcile::snapshot::Snapshot;

/// A snapshot younger than this may show that there is nothing to write.
const SNAPSHOT_MAX_AGE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Readings {
    reader: SnapshotReader,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    last_snapshot: Mutex<LastSnapshot>,
}

impl Readings {
    pub(super) fn new(reader: SnapshotReader, clock: Arc<dyn Clock>, metrics: Arc<Metrics>) -> Self {
        Self { reader, clock, metrics, last_snapshot: Mutex::default() }
    }

    pub(super) fn reader(&self) -> &SnapshotReader {
        &self.reader
    }

    /// Reads the present state, with Access if a request wishes for something of it.
    pub(super) fn read(
        &self,
        resolved: &Resolved,
        is_access_wished: bool,
        deadline: Deadline,
    ) -> Result<Arc<Snapshot>, ReadError> {
        let Resolved { account, settings } = resolved;
        let (begun, writes) = (self.clock.now(), lock(&self.last_snapshot).begin_reading());
        let snapshot = Arc::new(self.reader.snapshot(account, settings, is_access_wished, deadline)?);
        self.count(&snapshot, settings);
        lock(&self.last_snapshot).end_reading(&snapshot, begun, writes);
        Ok(snapshot)
    }

    /// The last snapshot, whatever its age. Later publications are not in it.
    pub(super) fn last(&self) -> Option<Arc<Snapshot>> {
        lock(&self.last_snapshot).of_any_age()
    }

    /// The last snapshot, also if something was written since.
    pub(super) fn as_read(&self) -> Option<Arc<Snapshot>> {
        lock(&self.last_snapshot).as_read()
    }

    /// The last snapshot, if it is young enough to show that there is nothing to write.
    pub(super) fn recent(&self) -> Option<Arc<Snapshot>> {
        lock(&self.last_snapshot).younger_than(SNAPSHOT_MAX_AGE, self.clock.now())
    }

    /// Something was written or is about to be, or the scope has changed.
    pub(super) fn outdate(&self) {
        lock(&self.last_snapshot).outdate();
    }

    fn count(&self, snapshot: &Snapshot, settings: &Settings) {
        let mut values = self.metrics.update();
        values.set(Family::LastRead, &[], self.clock.unix_seconds());
        for (id, tunnel) in &snapshot.tunnels {
            let name = settings.name_of(id);
            values.set(Family::ConfigurationVersion, &[name], tunnel.version);
            let rules = tunnel.document.rules().len();
            let owned = snapshot.own_rules_standing().filter(|(tunnel, _)| *tunnel == id).count();
            for (ownership, count) in RULE_OWNERSHIPS.into_iter().zip([owned, rules - owned]) {
                values.set(Family::Rules, &[name, ownership], count as i64);
            }
        }
        values.clear(Family::Records, &[]);
        values.clear(Family::ZoneRecords, &[]);
        for zone in &snapshot.zones {
            let name = &*zone.zone.name;
            values.set(Family::ZoneRecords, &[name], zone.records().len() as i64);
            for record in zone.records() {
                if snapshot.own_stamp(record).is_some() {
                    values.add(Family::Records, &[name, &record.kind], 1);
                }
            }
        }
    }
}
