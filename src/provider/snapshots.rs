//! Reads snapshots for requests, counts their content in the metrics, and stores the last snapshot.

use std::sync::Arc;

use crate::clock::Deadline;
use crate::locks::lock;
use crate::model::TunnelId;
use crate::observe::metrics::{Family, Metrics, RULE_OWNERSHIPS};
use crate::provider::resolution::Resolved;
use crate::provider::snapshot_reader::ReadError;
use crate::provider::state::ProviderState;
use crate::reconcile::snapshot::Snapshot;

impl ProviderState {
    /// Reads a snapshot of the present state, always with Access if `is_access_wished`.
    pub(super) fn read(
        &self,
        Resolved { account, settings }: &Resolved,
        is_access_wished: bool,
        deadline: Deadline,
    ) -> Result<Arc<Snapshot>, ReadError> {
        let (begun, writes) = (self.clock().now(), lock(&self.last_snapshot).begin_reading());
        let snapshot = Arc::new(self.reader.snapshot(account, settings, is_access_wished, deadline)?);
        count(&snapshot, &self.reporter.metrics, self.clock().unix_seconds());
        lock(&self.last_snapshot).end_reading(&snapshot, begun, writes);
        Ok(snapshot)
    }
}

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
