//! Writes records in batches. Cloudflare applies a batch completely or not at all.

use std::collections::BTreeMap;

use log::Level;

use super::Execution;
use super::work::{Piece, WriteTarget, batch_of};
use crate::cloudflare::{Error, ErrorResponse};
use crate::collections::inserted;
use crate::logging;
use crate::model::{ZoneId, ZonePlan};
use crate::observe::metrics::Family;
use crate::provider::description::{describe_adoption, describe_operation};
use crate::reconcile::plan::{RecordOperation, Stage};
use crate::reconcile::snapshot::Snapshot;

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

    /// Writes the operations of the pieces in one batch.
    pub(super) fn send_batch(
        &mut self,
        stage: Stage,
        zone: &ZoneId,
        pieces: &[Piece<'_>],
    ) -> Result<(), Error> {
        let batch = batch_of(pieces);
        match self.provider.client().batch(zone, &batch, self.deadline) {
            Ok(written) => {
                let now = self.provider.clock().now();
                self.provider.reader.newest().note_batch(&batch.deletes, &written, now);
                self.ledger.note_batch(stage, pieces, &written);
                self.report(zone, pieces);
                if stage == Stage::Stamp {
                    self.report_adoptions(pieces);
                }
                Ok(())
            }
            Err(error) => {
                // The next read shows whether the batch was done, but not the former records, so these are logged now.
                // After a proxy's answer, the batch usually was not done, and is sent again at once.
                if stage == Stage::Stamp && error.may_have_been_done() {
                    self.ledger.note_uncertain(pieces);
                    if !matches!(error, Error::Intercepted(_)) {
                        self.report_adoptions(pieces);
                    }
                }
                Err(error)
            }
        }
    }

    fn report_adoptions(&self, pieces: &[Piece<'_>]) {
        for host in pieces.iter().filter_map(|piece| self.plan.host(piece.hostname)) {
            for adoption in &host.adoptions {
                for line in describe_adoption(&host.hostname, adoption) {
                    logging::log(Level::Info, module_path!(), &line);
                }
                self.provider.metrics.update().add(Family::Adoptions, &[], 1);
            }
        }
    }

    /// Logs and counts the operations.
    fn report(&mut self, zone: &ZoneId, pieces: &[Piece<'_>]) {
        for piece in pieces {
            for operation in piece.operations() {
                let line = describe_operation(piece.hostname, operation);
                self.provider.log_change(operation.label_value(), &line);
                self.quotas.count(zone, operation);
            }
        }
    }
}

/// What one run knows of the zones' quotas of records.
#[derive(Debug)]
pub(super) struct RecordQuotas {
    /// The number of records of each zone.
    counts: BTreeMap<ZoneId, usize>,
    /// The zones whose quota is used up, with Cloudflare's answer.
    full: BTreeMap<ZoneId, ErrorResponse>,
}

impl RecordQuotas {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let counts = snapshot.zones.iter().map(|zone| (zone.zone.id.clone(), zone.records().len()));
        Self { counts: inserted(counts), full: BTreeMap::new() }
    }

    /// The answer that said that the zone's quota is used up.
    pub(super) fn full(&self, zone: &ZoneId) -> Option<&ErrorResponse> {
        self.full.get(zone)
    }

    /// Notes that the zone's quota is used up, and returns the number of the zone's records.
    pub(super) fn note_full(&mut self, zone: &ZoneId, answer: &ErrorResponse) -> usize {
        self.full.insert(zone.clone(), answer.clone());
        self.counts.get(zone).copied().unwrap_or_default()
    }

    /// Counts an operation that is done.
    fn count(&mut self, zone: &ZoneId, operation: &RecordOperation) {
        let Some(count) = self.counts.get_mut(zone) else { return };
        match operation {
            RecordOperation::Post(_) => *count += 1,
            RecordOperation::Delete(..) => *count = count.saturating_sub(1),
            RecordOperation::Patch(_) => {}
        }
    }
}
