//! Keeps the results of one run for the hostnames of a plan.

use std::collections::{BTreeMap, BTreeSet};

use crate::cloudflare::{Error, WrittenRecord};
use crate::ingress::RuleEdit;
use crate::model::text::rule_at;
use crate::model::{RecordId, TunnelId};
use crate::reconcile::plan::{HostPlan, Piece, PieceKey, PlannedEdit, RecordOperation, Stage, pieces};
use crate::reconcile::reason::Reason;
use crate::reconcile::refusal::Refusal;
use crate::reconcile::snapshot::{OwnDigests, Snapshot};
use crate::reconcile::stamp::Digest;

/// The results of a run.
#[derive(Debug, Default)]
pub(crate) struct RunResult {
    /// The refusals of each hostname that was given up: not all of its writes were done.
    pub(crate) given_up: BTreeMap<Box<str>, Vec<Refusal>>,
    /// The outcome of a write is unknown, at a tunnel or zone whose last write had not failed.
    pub(crate) has_unknown_outcome: bool,
    /// The error if the time or the calls of the run were used up before its last write.
    pub(crate) ended_early: Option<Error>,
}

impl RunResult {
    pub(crate) fn refusals(&self) -> impl Iterator<Item = &Refusal> {
        self.given_up.values().flatten()
    }
}

/// The hostnames of a plan during its run.
#[derive(Debug, Default)]
pub(super) struct Ledger<'a> {
    pub(super) result: RunResult,
    /// The rules that are ours by the stamps that were read or written so far.
    pub(super) own_digests: OwnDigests,
    written: BTreeSet<PieceKey<'a>>,
    /// By hostname: the records whose stamps were written; `None` if it is not known whether a stamp or a rule was
    /// written.
    stamps: BTreeMap<&'a str, Option<Vec<RecordId>>>,
}

impl<'a> Ledger<'a> {
    pub(super) fn new(snapshot: &Snapshot) -> Self {
        Self { own_digests: snapshot.own_digests().clone(), ..Self::default() }
    }

    pub(super) fn is_given_up(&self, host: &HostPlan) -> bool {
        self.result.given_up.contains_key(&host.hostname)
    }

    pub(super) fn is_written(&self, piece: &Piece<'a>) -> bool {
        self.written.contains(&piece.key())
    }

    /// Gives a hostname up: the run writes none of its pieces any more. Its stamps may still be corrected.
    pub(super) fn give_up(&mut self, host: &HostPlan, reason: Reason) {
        if !self.is_given_up(host) {
            let refusal = Refusal::new(&host.hostname, None, host.resource.as_deref(), reason);
            self.result.given_up.insert(host.hostname.clone(), vec![refusal]);
        }
    }

    /// Gives up the hostnames of these pieces. The refusal of a rule names the rule's path and object. The hostname's
    /// other unwritten pieces wait for the first of these rules.
    pub(super) fn give_up_pieces(&mut self, given_up: &[(Piece<'a>, Reason)]) {
        for (piece, reason) in given_up {
            let host = piece.host;
            let Some(PlannedEdit { edit, resource, .. }) = piece.edit else {
                self.give_up(host, reason.clone());
                continue;
            };
            let path = edit.path().unwrap_or_default();
            let refusal = Refusal::new(&host.hostname, Some(path), resource.as_deref(), reason.clone());
            let has_reason = |other: &Piece<'a>| given_up.iter().any(|(piece, _)| piece.key() == other.key());
            if pieces(host).any(|other| !self.is_written(&other) && !has_reason(&other)) {
                self.give_up(host, reason_beside(host, edit, reason));
            }
            self.result.given_up.entry(host.hostname.clone()).or_default().push(refusal);
        }
    }

    /// Marks the edits as written. Their new rules are ours.
    pub(super) fn mark_edited(&mut self, tunnel: &TunnelId, pieces: &[Piece<'a>]) {
        for piece in pieces {
            if let Some(edit @ RuleEdit::Put { .. }) = piece.edit.map(|planned| &planned.edit) {
                self.own_digests.add(piece.hostname(), [Digest::of(tunnel, edit.path())]);
            }
            self.written.insert(piece.key());
        }
    }

    /// Marks the stamps or rules as perhaps written, so the stamps stay.
    pub(super) fn mark_outcome_unknown(&mut self, pieces: &[Piece<'a>]) {
        for piece in pieces.iter().filter(|piece| piece.stage != Stage::RecordsAfter) {
            self.stamps.insert(piece.hostname(), None);
        }
    }

    /// Marks the operations on records as done. After [`Stage::RecordsBefore`], the adopted rules are ours.
    pub(super) fn mark_records_written(&mut self, pieces: &[Piece<'a>], records: &[WrittenRecord]) {
        self.written.extend(pieces.iter().map(Piece::key));
        for piece in pieces.iter().filter(|piece| piece.stage == Stage::RecordsBefore) {
            let stamped = piece.operations().iter().filter_map(|operation| match operation {
                RecordOperation::Patch(patch) if patch.comment.is_some() => Some(patch.id.clone()),
                RecordOperation::Post(record) => {
                    records.iter().find(|one| one.name == record.name).map(|one| one.id.clone())
                }
                _ => None,
            });
            self.stamps.insert(piece.hostname(), Some(stamped.collect()));
            self.own_digests.add(piece.hostname(), piece.host.adopted_rules());
        }
    }

    /// The stamped records of a hostname that was given up, unless it is uncertain what was written.
    pub(super) fn stamped_to_correct(&self, host: &HostPlan) -> Option<&[RecordId]> {
        self.stamps.get(&*host.hostname)?.as_deref().filter(|_| self.is_given_up(host))
    }
}

/// The reason for the other pieces of the hostname. The next plan knows a rejected put and a foreign rule, and plans
/// around them. It repeats a rejected deletion, and in a move the pieces would wait again.
fn reason_beside(host: &HostPlan, rule: &RuleEdit, reason: &Reason) -> Reason {
    let path = rule.path().unwrap_or_default();
    let is_refused_next = matches!(reason, Reason::RuleConflict(_))
        || matches!(rule, RuleEdit::Put { .. }) && host.moves_to.is_none();
    if is_refused_next {
        Reason::Waiting(format!("the {} was refused: the next loop plans the hostname anew", rule_at(path)))
    } else {
        Reason::BesideRefused { path: path.into(), refused: reason.label_value() }
    }
}
