//! Carries out a plan, stage by stage. A bad piece does not stop the other pieces: a rejected group is sent in halves
//! until each bad piece is rejected alone.
//!
//! Only `Execution` and `probe_tunnel` send. `Halving` chooses the next group, and `Ledger` knows what was written and
//! given up.
//!
//! A rule is *missed* if the snapshot lacks it and a later reading has it, so its digest is not dangling after all.

pub(super) mod halving;
pub(super) mod ledger;

use std::collections::{BTreeMap, BTreeSet};

use log::{Level, warn};

use self::halving::Halving;
use self::ledger::{Ledger, RunResult};
use crate::cloudflare::{Batch, Error, ErrorResponse, WrittenRecord};
use crate::ingress::{Document, Edited, RuleEdit};
use crate::logging;
use crate::model::{LogLine, TunnelId, ZoneId, ZonePlan};
use crate::observe::metrics::Family;
use crate::provider::CallContext;
use crate::provider::backend::Answer;
use crate::provider::memory::WriteMemory;
use crate::provider::report::{describe_adoption, describe_edit, describe_operation};
use crate::provider::setup::Setup;
use crate::reconcile::plan::{
    HostPlan, Piece, Plan, PlannedEdit, RecordOperation, Stage, WriteTarget, pieces, writes_of,
};
use crate::reconcile::reason::Reason;
use crate::reconcile::snapshot::Snapshot;

/// The remedy for a zone with the maximum number of records.
const FULL_ZONE_REMEDY: &str =
    ": delete records of the zone that are not needed, or take a plan that allows more";

/// Operations in one batch on a Free zone.
const BATCH_MAX_OPERATIONS_FREE: usize = 200;

/// Operations in one batch on a paid zone.
const BATCH_MAX_OPERATIONS_PAID: usize = 3_500;

/// The reason for the pieces that a used-up search leaves undecided.
const SEARCH_IS_USED_UP: &str = "the search for rejected hostnames has used up its part of this request's \
     writes, calls or time; the next loops continue the search";

/// One run over a plan.
struct Execution<'a> {
    context: CallContext<'a>,
    memory: &'a mut WriteMemory,
    plan: &'a Plan,
    snapshot: &'a Snapshot,
    ledger: Ledger<'a>,
    /// The targets that an earlier stage could not finish. Such a target stays in memory even if a later stage
    /// succeeds.
    unfinished_targets: BTreeSet<WriteTarget<'a>>,
    /// The number of writes that searched for the bad pieces of a rejected group.
    search_writes: usize,
}

/// The result of sending a group, unless the run has to leave its target.
enum Outcome {
    Written,
    /// Nothing was left to write: foreign rules are in the way of all edits, or the document has them already.
    NotSent,
    /// Cloudflare, or a server in between, rejected the content.
    Rejected(ErrorResponse),
}

/// The reason why writes end before every piece is decided.
enum Stop {
    /// Nothing can be written to this target before the next request.
    Target(Reason),
    /// Nothing can be written to any target before the next request: no time or no calls are left.
    Run(Error),
}

/// Carries out every stage of a plan. Hostnames of a zone whose last write failed come after all other hostnames,
/// because a zone that does not answer can use up a request's time.
pub(super) fn run<'a>(
    context: CallContext<'a>,
    memory: &'a mut WriteMemory,
    plan: &'a Plan,
    snapshot: &'a Snapshot,
) -> RunResult {
    let is_failing = |host: &&HostPlan| memory.write_targets.failure(host.zone.as_str()).is_some();
    let (failing, others): (Vec<&HostPlan>, Vec<&HostPlan>) = plan.hosts.iter().partition(is_failing);
    let mut execution = Execution {
        context,
        memory,
        plan,
        snapshot,
        ledger: Ledger::new(snapshot),
        unfinished_targets: BTreeSet::new(),
        search_writes: 0,
    };
    let ended = execution.run_stages(&others).and_then(|()| execution.run_stages(&failing));
    // A hostname that is given up only because the run ends early keeps its stamp: the next request writes its rules.
    execution.correct_records();
    if let Err(error) = &ended {
        execution.give_up_unwritten(error);
    }
    execution.remember_writes();
    RunResult { ended_early: ended.err(), ..execution.ledger.result }
}

impl<'a> Execution<'a> {
    /// Writes each stage to all targets. If a target cannot be written, only its hostnames are given up.
    ///
    /// # Errors
    /// When the run ends early, because no time or no calls are left.
    fn run_stages(&mut self, hosts: &[&'a HostPlan]) -> Result<(), Error> {
        self.write_stage(Stage::RecordsBefore, hosts)?;
        self.write_stage(Stage::Rules, hosts)?;
        self.give_up_missed(hosts);
        self.write_stage(Stage::RecordsAfter, hosts)
    }

    fn write_stage(&mut self, stage: Stage, hosts: &[&'a HostPlan]) -> Result<(), Error> {
        let mut by_target: BTreeMap<WriteTarget<'a>, Vec<Piece<'a>>> = BTreeMap::new();
        for piece in hosts.iter().copied().flat_map(pieces).filter(|piece| piece.stage == stage) {
            by_target.entry(piece.target()).or_default().push(piece);
        }
        for (target, mut pieces) in by_target {
            // Nothing more of a given up hostname is written: a wider rule would match the requests of an unwritten
            // rule, or the rule that it replaces would be deleted. The next request plans the hostname anew.
            pieces.retain(|piece| !self.ledger.is_given_up(piece.host));
            if !pieces.is_empty() {
                self.write_target(target, &pieces)?;
            }
        }
        Ok(())
    }

    /// Writes all pieces to the target, and gives up the pieces that it could not decide.
    ///
    /// # Errors
    /// When the run ends early, because no time or no calls are left.
    fn write_target(&mut self, target: WriteTarget<'a>, pieces: &[Piece<'a>]) -> Result<(), Error> {
        let size = self.memory.write_targets.group_size(target.id());
        let history = &self.memory.write_history;
        let is_suspect = |piece: &Piece<'a>| history.is_suspect(piece.fingerprint());
        let mut halving = Halving::new(pieces, size, is_suspect);
        let outcome = self.write_groups(target, &mut halving);
        self.memory.write_targets.remember_group_size(target.id(), halving.group_size);
        match outcome {
            Ok(true) if !self.unfinished_targets.contains(&target) => {
                self.memory.write_targets.forget(target.id())
            }
            Ok(_) => {}
            Err(Stop::Target(reason)) => self.give_up_undecided(target, &halving.undecided(), &reason),
            Err(Stop::Run(error)) => return Err(error),
        }
        Ok(())
    }

    /// Writes the groups with as few calls as possible, and at least one group even if the search is used up. After a
    /// rejection the next group has half the size, also in the next request, so each loop makes progress. True if
    /// Cloudflare answered a write: otherwise nothing was learned about the target.
    ///
    /// # Errors
    /// When nothing more can be written to the target, or to any target, in this request.
    fn write_groups(&mut self, target: WriteTarget<'a>, halving: &mut Halving<'a>) -> Result<bool, Stop> {
        let (mut is_answered, mut is_first) = (false, true);
        loop {
            let time_left = self.context.time_left();
            let sent =
                halving.next(self.operations_max(target), time_left, |host| self.ledger.is_given_up(host));
            if sent.is_empty() {
                return Ok(is_answered);
            }
            let calls_left = self.context.client().calls_left();
            if !is_first && halving.is_used_up(self.search_writes, calls_left, time_left) {
                return Err(Stop::Target(Reason::Waiting(SEARCH_IS_USED_UP.to_owned())));
            }
            self.search_writes += usize::from(halving.is_searching());
            match self.send(target, &sent)? {
                Outcome::Rejected(answer) => {
                    is_answered |= answer.is_from_cloudflare();
                    if let Some(piece) = halving.divide() {
                        self.give_up_rejected(piece, halving, &answer);
                    }
                }
                outcome @ (Outcome::Written | Outcome::NotSent) => {
                    is_answered |= matches!(outcome, Outcome::Written);
                    halving.end_group();
                }
            }
            is_first = false;
        }
    }

    /// Gives up the undecided pieces of a target to which nothing more can be written. Logs the first failed write.
    fn give_up_undecided(&mut self, target: WriteTarget<'a>, undecided: &[Piece<'a>], reason: &Reason) {
        if let Some(text) = reason.failed_write()
            && self.memory.write_targets.remember_failure(target.id(), reason, self.context.now())
        {
            let (kind, name) = self.name_of(target);
            let hostnames = undecided.chunk_by(|one, other| one.hostname() == other.hostname()).count();
            let line = LogLine::default().word(kind, &name).word("hostnames", &hostnames).text(text);
            logging::log(Level::Warn, module_path!(), &line);
        }
        self.unfinished_targets.insert(target);
        undecided.iter().for_each(|piece| self.ledger.give_up(piece.host, reason.clone()));
    }

    fn send(&mut self, target: WriteTarget<'a>, pieces: &[Piece<'a>]) -> Result<Outcome, Stop> {
        self.context.check_time().map_err(Stop::Run)?;
        match target {
            WriteTarget::Tunnel(tunnel) => self.send_edits(tunnel, pieces),
            WriteTarget::Zone(zone) => self.send_operations(zone, pieces),
        }
    }

    /// Handles the failed write of these pieces. Stops, unless their content was rejected.
    fn handle_failed_write(
        &mut self,
        target: WriteTarget<'a>,
        pieces: &[Piece<'a>],
        error: Error,
    ) -> Result<Outcome, Stop> {
        if error.may_have_been_done() {
            self.ledger.mark_outcome_unknown(pieces);
        }
        match error {
            Error::Rejected(answer) | Error::Intercepted(answer) => Ok(Outcome::Rejected(answer)),
            error if error.ends_run() => Err(Stop::Run(error)),
            error => {
                // Another attempt finds out what was written. At a target that failed before, another attempt would use
                // up calls that all hostnames share.
                if error.may_have_been_done() && self.memory.write_targets.failure(target.id()).is_none() {
                    self.ledger.result.has_unknown_outcome = true;
                }
                Err(Stop::Target(write_failed(target, self.name_of(target), &error)))
            }
        }
    }

    /// Gives up a piece that was rejected alone, and unsent pieces that the same answer concerns. Later requests leave
    /// their content out for a while, unless the cause may be over by then.
    fn give_up_rejected(&mut self, alone: Piece<'a>, halving: &mut Halving<'a>, answer: &ErrorResponse) {
        let now = self.context.now();
        let passing_cause = self.passing_cause(&alone, answer);
        let history = &mut self.memory.write_history;
        if let Some(reason) = passing_cause {
            // The next request begins with the other pieces, because this one may fail again.
            history.remember_suspect(alone.fingerprint(), now);
            return self.ledger.give_up(alone.host, reason);
        }
        let (unsent, remedy) = if answer.is_zone_full() {
            // The zone takes no other record either.
            (halving.take_matching(Piece::only_adds_records), FULL_ZONE_REMEDY)
        } else {
            (Vec::new(), "")
        };
        let reason = Reason::Cloudflare(format!("{answer}{remedy}"));
        history.pause_rejected(alone.fingerprint(), reason.clone(), now);
        for piece in &unsent {
            history.pause_unsent(piece.fingerprint(), reason.clone(), now);
        }
        let given_up = [alone].into_iter().chain(unsent).map(|piece| (piece, reason.clone()));
        self.ledger.give_up_pieces(&given_up.collect::<Vec<_>>());
    }

    /// The reason if the cause of a rejection may be over in the next request.
    fn passing_cause(&self, alone: &Piece<'a>, answer: &ErrorResponse) -> Option<Reason> {
        let meanwhile =
            |what| Reason::Waiting(format!("a record of the hostname was {what} meanwhile: {answer}"));
        if !answer.is_from_cloudflare() {
            Some(Reason::Waiting(Error::Intercepted(answer.clone()).to_string()))
        } else if answer.is_missing_record() {
            // The record existed when the snapshot was read.
            Some(meanwhile("deleted"))
        } else if answer.is_record_conflict() && !self.memory.write_history.is_suspect(alone.fingerprint()) {
            // The next list usually shows the record. If a proxy sent this batch twice, the record is its own.
            Some(meanwhile("created"))
        } else {
            None
        }
    }

    /// Gives up the hostnames with unwritten pieces at the end of a run without time or calls.
    fn give_up_unwritten(&mut self, error: &Error) {
        let reason = Reason::Failed(format!("the request ended before all writes were done: {error}"));
        for host in &self.plan.hosts {
            if !pieces(host).all(|piece| self.ledger.is_written(&piece)) {
                self.ledger.give_up(host, reason.clone());
            }
        }
    }

    /// Remembers the results of the run for the next requests.
    fn remember_writes(&mut self) {
        let now = self.context.now();
        let WriteMemory { write_history, turn, write_targets: _ } = &mut *self.memory;
        for host in &self.plan.hosts {
            if !self.ledger.is_given_up(host) {
                pieces(host).for_each(|piece| write_history.forget(piece.fingerprint()));
                for write in writes_of(host, self.snapshot) {
                    write_history.remember_written(&write, now);
                }
            } else if pieces(host).any(|piece| self.ledger.is_written(&piece)) {
                turn.remember_half_written();
            }
        }
        // Also after a plan of applications only, whose rejections are in the history.
        write_history.tidy(now);
    }

    /// The kind of the target, and its name.
    fn name_of(&self, target: WriteTarget<'a>) -> (&'static str, &'a str) {
        match target {
            WriteTarget::Tunnel(tunnel) => ("tunnel", tunnel.as_str()),
            WriteTarget::Zone(id) => {
                ("zone", self.snapshot.zone(id).map_or(id.as_str(), |zone| &zone.zone.name))
            }
        }
    }
}

/// Writes the configurations of tunnels.
impl<'a> Execution<'a> {
    /// Reads, edits and writes a document. A hostname whose edit the document does not allow is left out.
    fn send_edits(&mut self, tunnel: &'a TunnelId, pieces: &[Piece<'a>]) -> Result<Outcome, Stop> {
        // Other writers may have changed the document since the snapshot.
        let (document, version_before) = read_document(self.context, tunnel)?;
        let (sent, edited) = self.edit_document(tunnel, &document, pieces);
        if edited.changed.is_empty() {
            self.ledger.mark_edited(tunnel, &sent);
            return Ok(Outcome::NotSent);
        }
        self.context.check_time().map_err(Stop::Run)?;
        if let Err(error) = put_document(self.context, tunnel, &edited.document, version_before) {
            return self.handle_failed_write(WriteTarget::Tunnel(tunnel), &sent, error);
        }
        self.ledger.mark_edited(tunnel, &sent);
        let changed = edited.changed.iter().filter_map(|index| sent.get(*index));
        for (piece, edit) in changed.filter_map(|piece| Some((piece, &piece.edit?.edit))) {
            let line = describe_edit(piece.hostname(), tunnel, edit);
            self.context.provider.log_change(edit.label_value(), &line);
        }
        Ok(Outcome::Written)
    }

    /// Edits the document, and returns the edits that are in it. Another writer may have changed the document after the
    /// plan: if a foreign rule is in the way of an edit, no edit of that hostname is in the document.
    fn edit_document(
        &mut self,
        tunnel: &TunnelId,
        document: &Document,
        pieces: &[Piece<'a>],
    ) -> (Vec<Piece<'a>>, Edited) {
        let mut sent = pieces.to_vec();
        loop {
            let edits: Vec<RuleEdit> =
                sent.iter().filter_map(|piece| Some(piece.edit?.edit.clone())).collect();
            let edited = document.edit(&edits, &|rule| self.ledger.own_digests.has(tunnel, rule));
            if edited.refused.is_empty() {
                return (sent, edited);
            }
            let refused = edited.refused.iter().filter_map(|(index, refusal)| {
                Some((*sent.get(*index)?, Reason::RuleConflict(refusal.clone())))
            });
            let refused: Vec<(Piece<'a>, Reason)> = refused.collect();
            self.ledger.give_up_pieces(&refused);
            sent.retain(|piece| !self.ledger.is_given_up(piece.host));
        }
    }

    /// Gives up the hostnames whose comment would lose a dangling digest, if a tunnel has a missed rule or cannot be
    /// read.
    fn give_up_missed(&mut self, hosts: &[&'a HostPlan]) {
        let mut hosts = hosts.to_vec();
        hosts.retain(|host| {
            !host.removed_dangling.is_empty()
                && !host.operations_after.is_empty()
                && !self.ledger.is_given_up(host)
        });
        if hosts.is_empty() {
            return;
        }
        for tunnel in self.snapshot.tunnels.keys() {
            let (reason, missed) = match read_document(self.context, tunnel) {
                Ok((document, _)) => (missed_rule(tunnel), Some(self.plan.missed_in(tunnel, &document))),
                // A tunnel that cannot be read may have a missed rule of any hostname.
                Err(Stop::Target(reason)) => (reason, None),
                Err(Stop::Run(error)) => (unreadable(tunnel, &error), None),
            };
            for host in &hosts {
                if missed.as_ref().is_none_or(|names| names.contains(&host.hostname)) {
                    self.ledger.give_up(host, reason.clone());
                }
            }
        }
    }
}

/// Writes records in batches. Cloudflare applies a batch completely or not at all.
impl<'a> Execution<'a> {
    /// The maximum number of operations in one write to the target.
    fn operations_max(&self, target: WriteTarget<'_>) -> usize {
        let WriteTarget::Zone(zone) = target else { return usize::MAX };
        match self.snapshot.zone(zone).map(|zone| zone.zone.plan) {
            Some(ZonePlan::Paid) => BATCH_MAX_OPERATIONS_PAID,
            Some(ZonePlan::Free) | None => BATCH_MAX_OPERATIONS_FREE,
        }
    }

    /// Writes the operations of the pieces in one batch.
    fn send_operations(&mut self, zone: &'a ZoneId, pieces: &[Piece<'a>]) -> Result<Outcome, Stop> {
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
    fn correct_records(&mut self) {
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

/// Writes the document of a tunnel back unchanged. `Ok` if the tunnel has no rules, or accepted or rejected the
/// document; otherwise the reason why the write failed. `None` if nothing was learned about the tunnel: the document
/// could not be read, or no time or no calls were left.
pub(crate) fn probe_tunnel(context: CallContext<'_>, tunnel: &TunnelId) -> Option<Result<(), Reason>> {
    let (document, version) = read_document(context, tunnel).ok()?;
    // If a file configures the tunnel, an empty list would replace its whole configuration.
    if document.rules().is_empty() {
        return Some(Ok(()));
    }
    context.check_time().ok()?;
    match put_document(context, tunnel, &document, version) {
        // A rejection of the content is handled when the edits are sent.
        Ok(()) | Err(Error::Rejected(_)) => Some(Ok(())),
        Err(error) if error.ends_run() => None,
        Err(error) => {
            Some(Err(write_failed(WriteTarget::Tunnel(tunnel), ("tunnel", tunnel.as_str()), &error)))
        }
    }
}

/// Reads a tunnel's document with its version. Only a lack of time or calls ends the run; other failures concern this
/// tunnel only.
fn read_document(context: CallContext<'_>, tunnel: &TunnelId) -> Result<(Document, i64), Stop> {
    let (backend, account) = (&context.provider.backend, &context.setup.account);
    match backend.configuration(account, tunnel, context.deadline) {
        Ok(Answer { content: (document, read), old: None }) => Ok((document, read.version)),
        Ok(Answer { content: _, old: Some(text) }) => Err(Stop::Target(Reason::Waiting(text))),
        Err(error) if error.ends_run() => Err(Stop::Run(error)),
        Err(error) => Err(Stop::Target(unreadable(tunnel, &error))),
    }
}

/// Writes a document in place of the version that was read.
fn put_document(
    context: CallContext<'_>,
    tunnel: &TunnelId,
    document: &Document,
    version_before: i64,
) -> Result<(), Error> {
    let CallContext { provider, setup: Setup { account, settings }, deadline } = context;
    let written = context.client().put_configuration(account, tunnel, document.raw(), deadline)?;
    let name = settings.name_of(tunnel);
    provider.metrics.update().set(Family::ConfigurationVersion, &[name], written.version);
    if version_before >= 0 && written.version > version_before + 1 {
        warn!(
            tunnel:%;
            "another writer changed the configuration between our read (version {version_before}) and our \
             write (version {}); the other writer's change may be lost: look at the tunnel's rules, and let \
             one program write them",
            written.version
        );
        provider.metrics.update().add(Family::LostUpdates, &[], 1);
    }
    provider.backend.newest().remember_configuration(tunnel, &written, context.now());
    Ok(())
}

fn unreadable(tunnel: &TunnelId, cause: &Error) -> Reason {
    Reason::Waiting(format!("the configuration of tunnel {tunnel} cannot be read: {cause}"))
}

fn missed_rule(tunnel: &TunnelId) -> Reason {
    Reason::Waiting(format!(
        "tunnel {tunnel} has a rule of this hostname that the plan did not know: the record and its comment \
         stay, and the next loop plans anew"
    ))
}

/// The reason after a write that failed for another reason than its content.
fn write_failed(target: WriteTarget<'_>, (kind, name): (&str, &str), error: &Error) -> Reason {
    let outcome = if error.may_have_been_done() { "may or may not have been done" } else { "failed" };
    let failure = format!("a write to {kind} {name} {outcome}: {error}");
    match target {
        WriteTarget::Tunnel(id) => Reason::TunnelFailed(id.clone(), failure),
        WriteTarget::Zone(_) => Reason::Failed(failure),
    }
}
