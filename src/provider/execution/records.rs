//! Writes records in batches; each is all or nothing.

use log::Level;

use super::work::{Piece, Target, batch_of};
use super::{Execution, Verdict};
use crate::cloudflare::Error;
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
    /// The largest number of operations that one write of the target has.
    pub(super) fn operations_max(&self, target: Target<'_>) -> usize {
        let Target::Zone(zone) = target else { return usize::MAX };
        match self.snapshot.zone(zone).map(|zone| zone.zone.plan) {
            Some(ZonePlan::Paid) => BATCH_MAX_OPERATIONS_PAID,
            Some(ZonePlan::Free) | None => BATCH_MAX_OPERATIONS_FREE,
        }
    }

    pub(super) fn send_batch(
        &mut self,
        stage: Stage,
        zone: &ZoneId,
        pieces: &[Piece<'_>],
    ) -> Result<Verdict, Error> {
        let batch = batch_of(pieces);
        match self.writer.client.batch(zone, &batch, self.deadline) {
            Ok(written) => {
                let now = self.writer.clock.now();
                self.writer.reader.newest().note_batch(&batch.deletes, &written, now);
                self.ledger.note_batch(stage, pieces, &written);
                self.count_records(zone, pieces);
                pieces.iter().for_each(|piece| self.report_records(piece));
                if stage == Stage::Stamp {
                    self.report_adoptions(pieces);
                }
                Ok(Verdict::Done)
            }
            Err(error) => {
                // Only the next read shows if it was done, but no longer what stood there before. If something in
                // between answered, it mostly was not done, and is tried again at once.
                let is_intercepted = matches!(error, Error::Intercepted(_));
                if stage == Stage::Stamp && error.may_have_been_done() && !is_intercepted {
                    self.report_adoptions(pieces);
                }
                self.verdict(error)
            }
        }
    }

    fn report_adoptions(&self, pieces: &[Piece<'_>]) {
        for host in pieces.iter().filter_map(|piece| self.plan.host(piece.hostname)) {
            for adoption in &host.adoptions {
                for line in describe_adoption(&host.hostname, adoption) {
                    logging::log(Level::Info, module_path!(), &line);
                }
                self.writer.metrics.update().add(Family::Adoptions, &[], 1);
            }
        }
    }

    fn count_records(&mut self, zone: &ZoneId, pieces: &[Piece<'_>]) {
        let operations = || pieces.iter().flat_map(Piece::operations);
        let posts = operations().filter(|operation| matches!(operation, RecordOperation::Post(_))).count();
        let deletes =
            operations().filter(|operation| matches!(operation, RecordOperation::Delete(..))).count();
        if let Some(count) = self.record_counts.get_mut(zone) {
            *count = (*count + posts).saturating_sub(deletes);
        }
    }

    fn report_records(&self, piece: &Piece<'_>) {
        for operation in piece.operations() {
            self.report(operation.label(), &describe_operation(piece.hostname, operation));
        }
    }
}
