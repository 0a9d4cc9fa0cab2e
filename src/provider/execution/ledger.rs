//! Records the results of one run for the hostnames of a plan.

use std::collections::{BTreeMap, BTreeSet};

use crate::cloudflare::{Error, WrittenRecord};
use crate::ingress::RuleEdit;
use crate::model::{RecordId, TunnelId};
use crate::reconcile::plan::{HostPlan, Piece, Plan, PlannedEdit, RecordOperation, Stage, pieces};
use crate::reconcile::reason::Reason;
use crate::reconcile::refusal::Refusal;
use crate::reconcile::snapshot::{OwnDigests, Snapshot};
use crate::reconcile::stamp::Digest;

/// The results of an execution.
#[derive(Debug, Default)]
pub(crate) struct RunResult {
    pub(crate) refusals: Vec<Refusal>,
    /// The hostnames of `refusals`: those whose writes were not completed.
    pub(crate) given_up: BTreeSet<Box<str>>,
    /// Beside a refused rule, pieces are left that the next request can write, so ExternalDNS has to ask again.
    pub(crate) next_request_goes_on: bool,
    pub(crate) ending: Ending,
}

/// The end of a run.
#[derive(Debug, Default)]
pub(crate) enum Ending {
    /// Every piece was sent or given up.
    #[default]
    Complete,
    /// The answer to a write was lost, at a tunnel or zone whose last write had not failed.
    LostAnswer,
    /// The time or the calls of the run were used up before its last write.
    Early(Error),
}

/// The hostnames of a plan during its run.
#[derive(Debug)]
pub(super) struct Ledger<'a> {
    plan: &'a Plan,
    pub(super) result: RunResult,
    /// The rules that are ours by the stamps that were read or written so far.
    pub(super) own: OwnDigests,
    /// The fingerprints of the written pieces.
    written: BTreeSet<u64>,
    /// The records that were stamped, by hostname; `None` if it is uncertain which stamps or rules were written.
    stamped: BTreeMap<Box<str>, Option<Vec<RecordId>>>,
}

impl<'a> Ledger<'a> {
    pub(super) fn new(plan: &'a Plan, snapshot: &Snapshot) -> Self {
        Self {
            plan,
            result: RunResult::default(),
            own: snapshot.own_digests().clone(),
            written: BTreeSet::new(),
            stamped: BTreeMap::new(),
        }
    }

    pub(super) fn is_given_up(&self, host: &HostPlan) -> bool {
        self.result.given_up.contains(&host.hostname)
    }

    pub(super) fn is_written(&self, piece: &Piece<'_>) -> bool {
        self.written.contains(&piece.fingerprint())
    }

    /// Writes nothing more of a hostname in this run.
    pub(super) fn give_up(&mut self, host: &HostPlan, reason: Reason) {
        if self.result.given_up.insert(host.hostname.clone()) {
            let refusal = Refusal::new(&host.hostname, None, host.resource.as_deref(), reason);
            self.result.refusals.push(refusal);
        }
    }

    /// Gives up the hostnames of refused pieces. The refusal of a rule names the rule's path and object. The
    /// hostname's other unwritten pieces wait for the first of its refused rules.
    pub(super) fn give_up_refused(&mut self, refused: &[(Piece<'_>, Reason)]) {
        for (Piece { host, planned, .. }, reason) in refused {
            let Some(planned) = planned else {
                self.give_up(host, reason.clone());
                continue;
            };
            self.refuse_rule(host, planned, reason);
            let waits = |other| !self.is_written(&other) && !refused.iter().any(|(piece, _)| *piece == other);
            if !self.is_given_up(host) && pieces(host).any(waits) {
                self.give_up_beside(host, &planned.edit, reason);
            }
            self.result.given_up.insert(host.hostname.clone());
        }
    }

    fn refuse_rule(&mut self, host: &HostPlan, planned: &PlannedEdit, reason: &Reason) {
        let path = planned.edit.path().unwrap_or_default();
        let refusal = Refusal::new(&host.hostname, Some(path), planned.resource.as_deref(), reason.clone());
        self.result.refusals.push(refusal);
    }

    /// Gives up the pieces of a hostname beside its refused rule. The next request can write them if it refuses the rule
    /// before it plans: it does so with a put, and it reads a foreign rule. In a move the pieces would wait again.
    fn give_up_beside(&mut self, host: &HostPlan, rule: &RuleEdit, reason: &Reason) {
        let path = rule.path().unwrap_or_default().into();
        self.give_up(host, Reason::BesideRefused { path, refused: reason.label_value() });
        self.result.next_request_goes_on |= matches!(reason, Reason::RuleConflict(_))
            || matches!(rule, RuleEdit::Put { .. }) && host.moves_to.is_none();
    }

    pub(super) fn give_up_all(&mut self, pieces: &[Piece<'_>], reason: &Reason) {
        pieces.iter().for_each(|piece| self.give_up(piece.host, reason.clone()));
    }

    /// Notes that the answer to a write was lost, and that another attempt may help.
    pub(super) fn note_lost_answer(&mut self) {
        self.result.ending = Ending::LostAnswer;
    }

    /// Notes that no time or no calls are left, and gives up the hostnames with unwritten pieces. After a lost
    /// answer, the request may still have time to read again.
    pub(super) fn end_early(&mut self, error: Error) {
        let reason = Reason::Failed(format!("the request ended before all writes were done: {error}"));
        for host in &self.plan.hosts {
            if !pieces(host).all(|piece| self.is_written(&piece)) {
                self.give_up(host, reason.clone());
            }
        }
        if matches!(self.result.ending, Ending::Complete) {
            self.result.ending = Ending::Early(error);
        }
    }

    /// Notes that the edits are written. Their new rules are ours.
    pub(super) fn note_edited(&mut self, tunnel: &TunnelId, pieces: &[Piece<'a>]) {
        for piece in pieces {
            if let Some(edit @ RuleEdit::Put { .. }) = piece.edit() {
                self.own.add(piece.hostname(), [Digest::of(tunnel, edit.path())]);
            }
            self.written.insert(piece.fingerprint());
        }
    }

    /// Notes that the stamps or rules may have been written, so the stamps stay.
    pub(super) fn note_uncertain(&mut self, pieces: &[Piece<'_>]) {
        for piece in pieces.iter().filter(|piece| piece.stage != Stage::Unstamp) {
            self.stamped.insert(piece.host.hostname.clone(), None);
        }
    }

    /// Notes that the operations on records are done. After Stamp, the adopted rules are ours.
    pub(super) fn note_batch(&mut self, pieces: &[Piece<'_>], records: &[WrittenRecord]) {
        self.written.extend(pieces.iter().map(Piece::fingerprint));
        for piece in pieces.iter().filter(|piece| piece.stage == Stage::Stamp) {
            let stamped = piece.operations().iter().filter_map(|operation| match operation {
                RecordOperation::Patch(patch) if patch.comment.is_some() => Some(patch.id.clone()),
                RecordOperation::Post(record) => {
                    records.iter().find(|one| one.name == record.name).map(|one| one.id.clone())
                }
                _ => None,
            });
            self.stamped.insert(piece.host.hostname.clone(), Some(stamped.collect()));
            self.own.add(piece.hostname(), piece.host.adopted_rules());
        }
    }

    /// The stamped records of a hostname that was given up, unless it is uncertain what was written.
    pub(super) fn stamped_to_correct(&self, host: &HostPlan) -> Option<&[RecordId]> {
        self.stamped.get(&host.hostname)?.as_deref().filter(|_| self.is_given_up(host))
    }
}
