//! Writes records in batches. Cloudflare applies a batch completely or not at all.

use std::collections::BTreeMap;

use log::{Level, warn};

use super::{Execution, Outcome, Stop};
use crate::cloudflare::{Batch, Error, WrittenRecord};
use crate::logging;
use crate::model::{ZoneId, ZonePlan};
use crate::observe::metrics::Family;
use crate::provider::report::{describe_adoption, describe_operation};
use crate::reconcile::plan::{Piece, PlannedEdit, RecordOperation, Stage, WriteTarget};

/// Operations in one batch on a Free zone.
const BATCH_MAX_OPERATIONS_FREE: usize = 200;

/// Operations in one batch on a paid zone.
const BATCH_MAX_OPERATIONS_PAID: usize = 3_500;

impl<'a> Execution<'a> {
    /// The maximum number of operations in one write to the target.
    pub(super) fn operations_max(&self, target: WriteTarget<'_>) -> usize {
        let WriteTarget::Zone(zone) = target else { return usize::MAX };
        match self.snapshot.zone(zone).map(|zone| zone.zone.plan) {
            Some(ZonePlan::Paid) => BATCH_MAX_OPERATIONS_PAID,
            Some(ZonePlan::Free) | None => BATCH_MAX_OPERATIONS_FREE,
        }
    }

    /// Writes the operations of the pieces in one batch.
    pub(super) fn send_operations(
        &mut self,
        zone: &'a ZoneId,
        pieces: &[Piece<'a>],
    ) -> Result<Outcome, Stop> {
        let operations = pieces
            .iter()
            .flat_map(|piece| piece.operations().iter().map(|operation| (piece.hostname(), operation)));
        let written = self.post_batch(zone, &operations.collect::<Vec<_>>());
        // After a lost answer, the next read shows whether the batch was done, but not the former records.
        if written.as_ref().err().is_none_or(Error::was_probably_done) {
            self.report_adoptions(pieces);
        }
        match written {
            Ok(records) => {
                self.ledger.mark_records_written(pieces, &records);
                Ok(Outcome::Written)
            }
            Err(error) => self.handle_failed_write(WriteTarget::Zone(zone), pieces, error),
        }
    }

    /// Writes operations, each with its hostname, in one batch, and returns the changed records.
    fn post_batch(
        &self,
        zone: &ZoneId,
        operations: &[(&str, &RecordOperation)],
    ) -> Result<Vec<WrittenRecord>, Error> {
        let mut batch = Batch::default();
        for (_, operation) in operations {
            match operation {
                RecordOperation::Delete { id, txt_name: _ } => batch.deletes.push(id.clone()),
                RecordOperation::Patch(patch) => batch.patches.push(patch.clone()),
                RecordOperation::Post(record) => batch.posts.push(record.clone()),
            }
        }
        let records = self.context.client().batch(zone, &batch, self.context.deadline)?;
        let now = self.context.now();
        self.context.provider.backend.newest().remember_batch(&batch.deletes, &records, now);
        for (hostname, operation) in operations {
            let line = describe_operation(hostname, operation);
            self.context.provider.log_change(operation.label_value(), &line);
        }
        Ok(records)
    }

    /// Logs what the pieces of [`Stage::RecordsBefore`] take over.
    fn report_adoptions(&self, pieces: &[Piece<'_>]) {
        for host in pieces.iter().filter(|piece| piece.stage == Stage::RecordsBefore).map(|piece| piece.host)
        {
            for adoption in &host.adoptions {
                for line in describe_adoption(&host.hostname, adoption) {
                    logging::log(Level::Info, module_path!(), &line);
                }
                self.context.provider.metrics.update().add(Family::Adoptions, &[], 1);
            }
        }
    }

    /// Corrects the stamps of hostnames whose rules were not written.
    pub(super) fn correct_records(&mut self) {
        let mut by_zone: BTreeMap<&'a ZoneId, Vec<(&str, RecordOperation)>> = BTreeMap::new();
        for host in &self.plan.hosts {
            let Some(stamped) = self.ledger.stamped_to_correct(host) else { continue };
            let is_written = |planned: &'a PlannedEdit| {
                self.ledger.is_written(&Piece { host, stage: Stage::Rules, edit: Some(planned) })
            };
            let before = self.snapshot.zone(&host.zone).map(|zone| zone.records_of(&host.hostname));
            let corrections = host.corrections(is_written, stamped, before.unwrap_or_default()).into_iter();
            by_zone.entry(&host.zone).or_default().extend(corrections.map(|one| (&*host.hostname, one)));
        }
        for (zone, corrections) in by_zone {
            for batch in corrections.chunks(self.operations_max(WriteTarget::Zone(zone))) {
                self.send_corrections(zone, batch);
            }
        }
    }

    fn send_corrections(&self, zone: &'a ZoneId, corrections: &[(&str, RecordOperation)]) {
        let operations: Vec<_> = corrections.iter().map(|(hostname, one)| (*hostname, one)).collect();
        let sent = self.context.check_time().and_then(|()| self.post_batch(zone, &operations));
        let Err(error) = sent else { return };
        let is_missing = matches!(&error, Error::Rejected(answer) if answer.is_missing_record());
        if is_missing && corrections.len() > 1 {
            // One of the records was deleted meanwhile. The other comments are corrected all the same.
            let (one, other) = corrections.split_at(corrections.len() / 2);
            self.send_corrections(zone, one);
            self.send_corrections(zone, other);
        } else {
            let (kind, name) = self.name_of(WriteTarget::Zone(zone));
            warn!(
                "in {kind} {name}, records of hostnames whose rules were not written could not be \
                 corrected; a later request corrects them: {error}"
            );
        }
    }
}
