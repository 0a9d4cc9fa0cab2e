//! Writes records in batches. Cloudflare applies a batch completely or not at all.

use log::Level;

use super::Execution;
use super::work::{Piece, WriteTarget, pieces};
use crate::cloudflare::{Batch, Error, WrittenRecord};
use crate::logging;
use crate::model::{ZoneId, ZonePlan};
use crate::observe::metrics::Family;
use crate::provider::description::{describe_adoption, describe_operation};
use crate::reconcile::plan::{RecordOperation, Stage};

/// Operations in one batch on a Free zone.
const BATCH_MAX_OPERATIONS_FREE: usize = 200;

/// Operations in one batch on a paid zone.
const BATCH_MAX_OPERATIONS_PAID: usize = 3_500;

impl Execution<'_> {
    /// The maximum number of operations in one write to the target.
    pub(super) fn operations_max(&self, target: WriteTarget<'_>) -> usize {
        let WriteTarget::Zone(zone) = target else { return usize::MAX };
        match self.snapshot.zone(zone).map(|zone| zone.zone.plan) {
            Some(ZonePlan::Paid) => BATCH_MAX_OPERATIONS_PAID,
            Some(ZonePlan::Free) | None => BATCH_MAX_OPERATIONS_FREE,
        }
    }

    /// The number of the zone's records after the writes of this run so far.
    pub(super) fn records_in(&self, zone: &ZoneId) -> usize {
        let before = self.snapshot.zone(zone).map_or(0, |zone| zone.records().len());
        let written = self.plan.hosts.iter().filter(|host| host.zone == *zone).flat_map(pieces);
        let written = written.filter(|piece| self.ledger.is_written(piece));
        written.flat_map(|piece| piece.operations()).fold(before, |count, operation| match operation {
            RecordOperation::Post(_) => count + 1,
            RecordOperation::Delete(..) => count.saturating_sub(1),
            RecordOperation::Patch(_) => count,
        })
    }

    /// Writes the operations of the pieces in one batch.
    pub(super) fn send_batch(&mut self, zone: &ZoneId, pieces: &[Piece<'_>]) -> Result<(), Error> {
        let operations = pieces
            .iter()
            .flat_map(|piece| piece.operations().iter().map(|operation| (piece.hostname(), operation)));
        match self.write_batch(zone, &operations.collect::<Vec<_>>()) {
            Ok(records) => {
                self.ledger.note_batch(pieces, &records);
                self.report_adoptions(pieces);
                Ok(())
            }
            Err(error) => {
                // The next read shows whether the batch was done, but not the former records, so these are logged now.
                // After a proxy's answer, the batch usually was not done, and is sent again at once.
                if error.may_have_been_done() {
                    self.ledger.note_uncertain(pieces);
                    if !matches!(error, Error::Intercepted(_)) {
                        self.report_adoptions(pieces);
                    }
                }
                Err(error)
            }
        }
    }

    /// Writes operations, each with its hostname, in one batch, and returns the changed records.
    pub(super) fn write_batch(
        &self,
        zone: &ZoneId,
        operations: &[(&str, &RecordOperation)],
    ) -> Result<Vec<WrittenRecord>, Error> {
        let mut batch = Batch::default();
        for (_, operation) in operations {
            match operation {
                RecordOperation::Delete(id, _) => batch.deletes.push(id.clone()),
                RecordOperation::Patch(patch) => batch.patches.push(patch.clone()),
                RecordOperation::Post(record) => batch.posts.push(record.clone()),
            }
        }
        let records = self.provider.client().batch(zone, &batch, self.deadline)?;
        let now = self.provider.clock().now();
        self.provider.reader.newest().note_batch(&batch.deletes, &records, now);
        for (hostname, operation) in operations {
            let line = describe_operation(hostname, operation);
            self.provider.log_change(operation.label_value(), &line);
        }
        Ok(records)
    }

    /// Logs what the pieces of [`Stage::Stamp`] take over.
    fn report_adoptions(&self, pieces: &[Piece<'_>]) {
        for host in pieces.iter().filter(|piece| piece.stage() == Stage::Stamp).map(|piece| piece.host) {
            for adoption in &host.adoptions {
                for line in describe_adoption(&host.hostname, adoption) {
                    logging::log(Level::Info, module_path!(), &line);
                }
                self.provider.metrics.update().add(Family::Adoptions, &[], 1);
            }
        }
    }
}
