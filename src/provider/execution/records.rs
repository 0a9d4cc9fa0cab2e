//! Writes records in batches; each is all or nothing.

use log::Level;

use super::work::{Piece, batch_of};
use super::{Culprits, Execution, Sent};
use crate::cloudflare::{ApiRejection, Error};
use crate::logging;
use crate::model::{ZoneId, ZonePlan};
use crate::observe::metrics::Family;
use crate::provider::description::{describe_adoption, describe_operation};
use crate::provider::outcome::Stop;
use crate::reconcile::plan::{RecordOperation, Stage};
use crate::reconcile::stamp::Stamp;

/// Operations in one batch on a Free zone.
const BATCH_MAX_OPERATIONS_FREE: usize = 200;

/// Operations in one batch on a paid zone.
const BATCH_MAX_OPERATIONS_PAID: usize = 3_500;

impl<'a> Execution<'a> {
    /// The largest number of operations in one batch of the zone.
    pub(super) fn batch_limit(&self, zone: &ZoneId) -> usize {
        match self.snapshot.zones.iter().find(|snapshot| snapshot.zone.id == *zone).map(|zone| zone.zone.plan)
        {
            Some(ZonePlan::Paid) => BATCH_MAX_OPERATIONS_PAID,
            Some(ZonePlan::Free) | None => BATCH_MAX_OPERATIONS_FREE,
        }
    }

    pub(super) fn send_batch(
        &mut self,
        stage: Stage,
        zone: &ZoneId,
        pieces: &[Piece<'a>],
    ) -> Result<Sent<'a>, Stop> {
        if self.full_zones.contains(zone) && pieces.iter().all(Piece::grows) {
            let answer = ApiRejection {
                status: 400,
                code: Some(81045),
                message: "the zone's record quota is used up".into(),
                chain: Vec::new(),
            };
            let culprits = Culprits::Named(pieces.to_vec());
            return Ok(Sent::Refused { pieces: pieces.to_vec(), answer, culprits });
        }
        self.trials += 1;
        match self.tools.client.batch(zone, &batch_of(pieces), self.deadline) {
            Ok(()) => {
                self.done.is_answered = true;
                self.count_records(zone, pieces);
                pieces.iter().for_each(|piece| self.report_records(piece));
                match stage {
                    Stage::Stamp => {
                        self.note_stamped(pieces);
                        self.report_adoptions(pieces);
                    }
                    Stage::Repoint => self.note_led_over(pieces),
                    _ => {}
                }
                self.note_sent(pieces, true);
                Ok(Sent::Done)
            }
            Err(error) => {
                // Only the next read shows if it was done, but no longer what stood there before.
                if stage == Stage::Stamp && error.may_have_been_done() {
                    self.note_stamped(pieces);
                    // If something in between answered, it mostly was not done, and is tried again at once.
                    if !matches!(error, Error::Intercepted(_)) {
                        self.report_adoptions(pieces);
                    }
                }
                if error.may_have_been_done() {
                    self.note_sent(pieces, false);
                    // If it was, visitors begin to leave what stays behind.
                    if stage == Stage::Repoint {
                        self.note_led_over(pieces);
                    }
                }
                Ok(match self.judge(error)? {
                    Ok(answer) => {
                        Sent::Refused { pieces: pieces.to_vec(), answer, culprits: Culprits::Unknown }
                    }
                    Err(reason) => Sent::Barred(reason),
                })
            }
        }
    }

    /// The hostnames have their stamps, or may have them, and wait for their rules. A hostname whose stamp was refused
    /// does not wait: a rule and a stamp that stand there later come from another replica.
    fn note_stamped(&mut self, pieces: &[Piece<'a>]) {
        let plan = self.plan;
        for host in pieces.iter().filter_map(|piece| plan.host(piece.hostname)) {
            self.own.add_from(&plan.own_after, &host.hostname);
            for (tunnel, edit) in host.edits.get(&Stage::Publish).into_iter().flatten() {
                self.tools.unpublished_rules.insert(tunnel, &host.hostname, edit);
            }
            if !host.comments_before.is_empty() {
                self.tools.unpublished_rules.insert_adopted(&host.hostname, &host.comments_before);
            }
        }
    }

    /// The stamps are there, or may be: they tell what this process wrote from what another replica did.
    fn note_sent(&mut self, pieces: &[Piece<'a>], is_answered: bool) {
        for piece in pieces {
            let comments = piece.operations().iter().filter_map(|operation| match operation {
                RecordOperation::Post(record) => Some(&*record.comment),
                RecordOperation::Patch(patch) => patch.comment.as_deref(),
                RecordOperation::Delete(..) => None,
            });
            let stamps: Vec<&str> = comments.filter(|comment| Stamp::parse(comment).is_some()).collect();
            self.tools.unpublished_rules.insert_sent(piece.hostname, &stamps, is_answered);
        }
    }

    fn report_adoptions(&self, pieces: &[Piece<'_>]) {
        for host in pieces.iter().filter_map(|piece| self.plan.host(piece.hostname)) {
            for adoption in &host.adoptions {
                logging::log(Level::Info, module_path!(), &describe_adoption(&host.hostname, adoption));
                self.tools.metrics.update().add(Family::Adoptions, &[], 1);
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
