//! Reads snapshots for requests, counts their content in the metrics, and stores the last snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::clock::Deadline;
use crate::locks::lock;
use crate::model::TunnelId;
use crate::observe::metrics::{Family, Metrics, RULE_OWNERSHIPS};
use crate::provider::resolution::Resolved;
use crate::provider::snapshot_reader::ReadError;
use crate::provider::state::ProviderState;
use crate::reconcile::snapshot::{OwnRecord, Snapshot};

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
    let mut own_rules: BTreeMap<&TunnelId, usize> = BTreeMap::new();
    snapshot.own_rules().for_each(|(tunnel, _)| *own_rules.entry(tunnel).or_default() += 1);
    let mut own_records: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    for OwnRecord { zone, record, stamp: _ } in snapshot.own_records() {
        *own_records.entry((&zone.zone.name, &record.record_type)).or_default() += 1;
    }
    // Scrapes and probes wait for this lock.
    let mut values = metrics.update();
    values.set(Family::LastRead, &[], now);
    for family in [Family::ConfigurationVersion, Family::Rules, Family::Records, Family::ZoneRecords] {
        values.clear(family, &[]);
    }
    for (id, tunnel) in &snapshot.tunnels {
        let name = snapshot.settings.name_of(id);
        values.set(Family::ConfigurationVersion, &[name], tunnel.version);
        let (rules, owned) = (tunnel.document.rules().len(), own_rules.get(id).copied().unwrap_or_default());
        for (ownership, count) in RULE_OWNERSHIPS.into_iter().zip([owned, rules - owned]) {
            values.set(Family::Rules, &[name, ownership], count as i64);
        }
    }
    for zone in &snapshot.zones {
        values.set(Family::ZoneRecords, &[&zone.zone.name], zone.records().len() as i64);
    }
    for ((zone, record_type), count) in own_records {
        values.set(Family::Records, &[zone, record_type], count);
    }
}
