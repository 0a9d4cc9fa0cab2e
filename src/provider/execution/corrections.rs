//! Corrects stamps that name a rule which was not written.
//!
//! A stamp names a rule before the rule is written. If the write of the rule is refused, or if a foreign rule now has
//! its hostname and path, the stamp would make a foreign rule ours. If the stamp claims nothing else, a new record is
//! deleted, because the new record would hide a wildcard's record, and the comment of an older record is restored.
//! A takeover that deleted records is not undone.

use std::collections::BTreeMap;

use log::warn;

use super::Execution;
use super::work::WriteTarget;
use crate::cloudflare::Error;
use crate::model::{RecordId, RecordPatch, ZoneId};
use crate::reconcile::plan::{HostPlan, RecordOperation};

impl<'a> Execution<'a> {
    /// Corrects the stamps of hostnames whose rules were not written, and carries out `if_unwritable` operations.
    pub(super) fn correct_stamps(&mut self) {
        let mut by_zone: BTreeMap<&'a ZoneId, Vec<(&str, RecordOperation)>> = BTreeMap::new();
        for host in &self.plan.hosts {
            let corrections = self.corrections(host).into_iter().map(|one| (&*host.hostname, one));
            by_zone.entry(&host.zone).or_default().extend(corrections);
        }
        let mut deletable = self.unwritable.clone();
        deletable.retain(|host| !host.if_unwritable.is_empty());
        let missed = self.missed(&deletable);
        for host in
            deletable.iter().filter(|host| !missed.iter().any(|(one, _)| one.hostname == host.hostname))
        {
            let operations = host.if_unwritable.iter().cloned();
            by_zone.entry(&host.zone).or_default().extend(operations.map(|one| (&*host.hostname, one)));
        }
        by_zone.retain(|_, corrections| !corrections.is_empty());
        for (zone, corrections) in by_zone {
            for corrections in corrections.chunks(self.operations_max(WriteTarget::Zone(zone))) {
                self.send_corrections(zone, corrections);
            }
        }
    }

    /// The corrections of a hostname's records.
    fn corrections(&self, host: &HostPlan) -> Vec<RecordOperation> {
        let Some((stamped, claims)) = self.ledger.mistaken_stamp(host) else { return Vec::new() };
        let Some(comment) = host.comments.with(&claims) else { return Vec::new() };
        let zone = self.snapshot.zone(&host.zone);
        let before = zone.map(|zone| zone.records_of(&host.hostname)).unwrap_or_default();
        // Stamp deleted the records that stood here, so our record is the hostname's only one.
        let takes_over = host.stamp_operations.iter().any(|one| matches!(one, RecordOperation::Delete(..)));
        let correction = |id: &RecordId| {
            let patch = |comment: &str| {
                let (id, comment) = (id.clone(), Some(comment.into()));
                RecordOperation::Patch(RecordPatch { id, content: None, proxied: None, comment })
            };
            match before.iter().find(|record| record.id == *id) {
                _ if !claims.is_empty() || takes_over => patch(&comment),
                Some(record) => patch(&record.comment),
                None => RecordOperation::Delete(id.clone(), None),
            }
        };
        stamped.iter().map(correction).collect()
    }

    fn send_corrections(&self, zone: &'a ZoneId, corrections: &[(&str, RecordOperation)]) {
        let operations: Vec<_> = corrections.iter().map(|(hostname, one)| (*hostname, one)).collect();
        let Err(error) = self.write_batch(zone, &operations) else { return };
        if matches!(error, Error::Rejected(_) | Error::NotFound(_)) && corrections.len() > 1 {
            // One of the records was deleted meanwhile. The other comments are corrected all the same.
            let (one, other) = corrections.split_at(corrections.len() / 2);
            self.send_corrections(zone, one);
            self.send_corrections(zone, other);
        } else {
            let (kind, name) = self.name_of(WriteTarget::Zone(zone));
            warn!(
                "in {kind} {name}, comments may name rules that were not written, and the next loop corrects them: {error}"
            );
        }
    }
}
