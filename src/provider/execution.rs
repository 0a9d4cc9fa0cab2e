//! Carries out a plan, stage by stage. One bad piece never stops the rest: hostnames that are refused together step
//! aside until all others are done, and then the group is narrowed down until the bad ones stand alone.

mod claims;
mod documents;
mod group_testing;
mod isolation;
mod moves;
mod records;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use log::Level;

use self::claims::Written;
use self::documents::Known;
use self::work::{Piece, Place, Work, fitting};
use crate::clock::{Clock, Deadline};
use crate::cloudflare::{ApiRejection, Client, Error};
use crate::ingress::RuleEdit;
use crate::limits;
use crate::logging;
use crate::model::{LogLine, TunnelId, ZoneId};
use crate::observe::metrics::{Family, Metrics};
use crate::ordered::inserted;
use crate::provider::memory::UnappliedRules;
use crate::provider::outcome::{Done, Doubts, Rejection, Stop};
use crate::provider::resolution::Resolved;
use crate::provider::writes::key;
use crate::reconcile::plan::{HostPlan, Plan, Reason, RecordOperation, Refusal, Stage};
use crate::reconcile::snapshot::{OwnRules, Snapshot};

/// The execution's clients, counters and memories.
pub(super) struct Tools<'a> {
    pub(super) client: &'a Client,
    pub(super) clock: &'a dyn Clock,
    pub(super) metrics: &'a Metrics,
    /// The look at the connectors reads it at the same time.
    pub(super) unapplied_rules: &'a Mutex<UnappliedRules>,
    /// The tunnels and zones, by id, whose writes failed in the run before.
    pub(super) failed_places: &'a BTreeSet<Box<str>>,
}

/// One run over a plan.
pub(super) struct Execution<'a> {
    tools: Tools<'a>,
    resolved: &'a Resolved,
    deadline: Deadline,
    plan: &'a Plan,
    snapshot: &'a Snapshot,
    done: Done,
    /// The rules that are ours by the stamps written so far.
    own: OwnRules,
    written_stamps: Written,
    /// Hostnames that wait until all others are done, with the step from which their work continues.
    aside: BTreeMap<&'a str, Option<Step<'a>>>,
    /// Hostnames with work at a place that failed in the run before. They come last, with all their steps, because a
    /// place that does not answer can use up a request's time.
    late: BTreeSet<&'a str>,
    /// True while these are worked on.
    is_late: bool,
    /// True while the hostnames that stepped aside are worked on.
    is_narrowing: bool,
    /// The writes of this round through the stages.
    trials: usize,
    /// The time left of the deadline when narrowing down began.
    narrowing_time: Duration,
    known: Option<Known>,
    /// The versions that were written.
    written: BTreeMap<TunnelId, i64>,
    full_zones: BTreeSet<ZoneId>,
    record_counts: BTreeMap<ZoneId, usize>,
}

/// Steps are taken in this order.
type Step<'a> = (Stage, Place<'a>);

/// The result of a write.
enum Sent<'a> {
    /// It is done, or there was nothing to do.
    Done,
    /// Cloudflare, or something before it, refused the content.
    Refused { pieces: Vec<Piece<'a>>, answer: ApiRejection, culprits: Culprits<'a> },
    /// Nothing can be written to that place now, whatever its content.
    Barred(Reason),
}

/// The cause of a refusal, as far as the answer tells.
enum Culprits<'a> {
    Unknown,
    Named(Vec<Piece<'a>>),
    /// Something that stood there before; the text describes it.
    Elsewhere(String),
}

impl<'a> Execution<'a> {
    /// Prepares a run in which the work in `doubts` comes last.
    pub(super) fn new(
        tools: Tools<'a>,
        resolved: &'a Resolved,
        plan: &'a Plan,
        snapshot: &'a Snapshot,
        doubts: &Doubts,
        deadline: Deadline,
    ) -> Self {
        let record_counts =
            inserted(snapshot.zones.iter().map(|zone| (zone.zone.id.clone(), zone.records().len())));
        let failed_before = plan.hosts.iter().flat_map(steps);
        let failed_before = failed_before.filter(|((_, place), _)| tools.failed_places.contains(place.id()));
        let late = inserted(failed_before.map(|(_, piece)| piece.hostname));
        let mut execution = Self {
            tools,
            resolved,
            deadline,
            plan,
            snapshot,
            done: Done::default(),
            own: plan.own.clone(),
            written_stamps: Written::default(),
            aside: BTreeMap::new(),
            late,
            is_late: false,
            is_narrowing: false,
            trials: 0,
            narrowing_time: Duration::ZERO,
            known: None,
            written: BTreeMap::new(),
            full_zones: BTreeSet::new(),
            record_counts,
        };
        if !doubts.is_empty() {
            for (_, piece) in plan.hosts.iter().flat_map(steps) {
                if let Some((key, group)) = doubts.get_key_value(&key(&piece.content())) {
                    execution.done.doubts.insert(*key, *group);
                    execution.aside.insert(piece.hostname, None);
                }
            }
        }
        execution
    }

    /// Carries out every stage.
    pub(super) fn run(mut self) -> (Done, Result<(), Stop>) {
        self.leave_out_unready();
        let mut outcome = self.run_all();
        if !outcome.as_ref().is_err_and(Stop::ends_run) {
            self.is_late = true;
            let late = self.run_all();
            outcome = first_failure(outcome, late);
        }
        self.correct_stamps();
        (self.done, outcome)
    }

    fn run_all(&mut self) -> Result<(), Stop> {
        self.run_twice(|_| true)
    }

    /// Carries out the stages for hostnames of which Cloudflare refused nothing, then for the others.
    fn run_twice(&mut self, is_meant: impl Fn(Stage) -> bool) -> Result<(), Stop> {
        self.is_narrowing = false;
        let outcome = self.run_stages(&is_meant);
        if self.aside.is_empty() {
            return outcome;
        }
        (self.is_narrowing, self.trials) = (true, 0);
        self.narrowing_time = self.time_left();
        let narrowed = self.run_stages(&is_meant);
        first_failure(outcome, narrowed)
    }

    /// Returns the first failure once everything has been tried: where a zone or a tunnel cannot be written, its
    /// hostnames go no further, and nobody else's wait.
    fn run_stages(&mut self, is_meant: &impl Fn(Stage) -> bool) -> Result<(), Stop> {
        let mut outcome = Ok(());
        for stage in Stage::ALL.into_iter().filter(|stage| is_meant(*stage)) {
            let mut by_place: BTreeMap<Place<'a>, Vec<Piece<'a>>> = BTreeMap::new();
            for ((at, place), piece) in self.plan.hosts.iter().flat_map(steps) {
                if at == stage {
                    by_place.entry(place).or_default().push(piece);
                }
            }
            for (place, mut pieces) in by_place {
                pieces.retain(|piece| self.is_due(piece, (stage, place)));
                let hostnames: Vec<&str> = pieces.iter().map(|piece| piece.hostname).collect();
                let written = if self.is_narrowing {
                    self.narrow_down((stage, place), pieces)
                } else {
                    self.write_all((stage, place), &pieces)
                };
                match &written {
                    Ok(()) => {}
                    Err(stop) if stop.ends_run() => return written,
                    Err(stop) => {
                        let line = self.line_of(place).word("hostnames", &hostnames.len());
                        let line = line.text(stop.to_string());
                        logging::log(Level::Warn, module_path!(), &line);
                        self.done.dropped.extend(hostnames.into_iter().map(Into::into));
                        self.done.failed_places.insert(place.id().into());
                    }
                }
                outcome = outcome.and(written);
            }
        }
        outcome
    }

    /// True if a piece of a step is to be written now.
    fn is_due(&self, piece: &Piece<'a>, step: Step<'a>) -> bool {
        if self.late.contains(piece.hostname) != self.is_late {
            return false;
        }
        // What stands beside a refused piece would get the requests of a rule that is not there, or was meant to go for
        // it. The next request plans the hostname anew.
        if self.done.dropped.contains(piece.hostname) {
            return false;
        }
        match self.aside.get(piece.hostname) {
            None => !self.is_narrowing,
            Some(since) => self.is_narrowing && *since <= Some(step),
        }
    }

    /// Writes all pieces with as few calls as possible. Hostnames that are refused together step aside.
    fn write_all(&mut self, step: Step<'a>, mut pieces: &[Piece<'a>]) -> Result<(), Stop> {
        while !pieces.is_empty() {
            let (group, rest) = pieces.split_at(self.fitting(step, pieces));
            match self.send(step, group)? {
                Sent::Done => {}
                Sent::Refused { pieces, answer, culprits } => match culprits {
                    Culprits::Named(culprits) => {
                        self.reject_all(step, &culprits, &answer, None);
                        for piece in pieces.iter().filter(|piece| !culprits.contains(piece)) {
                            self.aside.entry(piece.hostname).or_insert(Some(step));
                        }
                    }
                    Culprits::Elsewhere(where_) => self.reject_all(step, &pieces, &answer, Some(&where_)),
                    // Deletions that come first make room for it.
                    Culprits::Unknown if answer.is_record_quota() && self.frees(step) => {
                        for piece in &pieces {
                            self.aside.entry(piece.hostname).or_insert(Some(step));
                        }
                    }
                    Culprits::Unknown if pieces.len() == 1 => self.reject_all(step, &pieces, &answer, None),
                    Culprits::Unknown => {
                        for piece in &pieces {
                            // Only pieces that have stood alone are tried alone first.
                            self.done.doubts.insert(key(&piece.content()), (pieces.len() / 2).max(2));
                            self.aside.entry(piece.hostname).or_insert(Some(step));
                        }
                    }
                },
                Sent::Barred(reason) => {
                    self.leave_out_all(pieces, &reason);
                    return Ok(());
                }
            }
            pieces = rest;
        }
        Ok(())
    }

    /// True if a later step of this run deletes records in the same zone.
    fn frees(&self, (stage, place): Step<'a>) -> bool {
        self.plan.hosts.iter().flat_map(steps).any(|((later, at), piece)| {
            let mut operations = piece.operations().iter();
            later > stage && at == place && operations.any(|one| matches!(one, RecordOperation::Delete(..)))
        })
    }

    /// The number of first pieces that fit into one call.
    fn fitting(&self, (_, place): Step<'a>, pieces: &[Piece<'a>]) -> usize {
        match place {
            Place::Tunnel(_) => pieces.len(),
            Place::Zone(zone) => fitting(pieces, self.batch_limit(zone)).min(pieces.len()),
        }
    }

    fn send(&mut self, (stage, place): Step<'a>, pieces: &[Piece<'a>]) -> Result<Sent<'a>, Stop> {
        self.check_time()?;
        let sent = match place {
            Place::Tunnel(tunnel) => self.send_edits((stage, place), tunnel, pieces),
            Place::Zone(zone) => self.send_batch(stage, zone, pieces),
        }?;
        if let Sent::Refused { pieces, answer, culprits: _ } = &sent {
            let line =
                self.line_of(place).word("hostnames", &pieces.len()).text(format!("refused: {answer}"));
            logging::log(Level::Debug, module_path!(), &line);
        }
        Ok(sent)
    }

    /// Classifies a failed write: its content is refused, nothing can be written there, or the run ends.
    fn judge(&mut self, error: Error) -> Result<Result<ApiRejection, Reason>, Stop> {
        match error {
            Error::Refused(answer) => {
                self.done.is_answered = true;
                Ok(Ok(answer))
            }
            Error::Intercepted(answer) => Ok(Ok(answer)),
            // One of the records has gone meanwhile.
            Error::NotFound(answer) if answer.is_missing_record() => Ok(Ok(answer)),
            // The token may be able to write elsewhere. The failure is not remembered, so nothing waits once it may
            // write here too.
            error @ Error::Credentials(_) => {
                self.done.is_forbidden = true;
                Ok(Err(Reason::Cloudflare(error.to_string())))
            }
            error @ Error::NotFound(_) => Ok(Err(Reason::Undecided(error.to_string()))),
            error => Err(error.into()),
        }
    }

    /// The pieces are decided.
    fn settle(&mut self, pieces: &[Piece<'a>]) {
        for piece in pieces {
            self.done.doubts.remove(&key(&piece.content()));
        }
    }

    /// Notes that each piece was refused; `elsewhere` names another cause.
    fn reject_all(
        &mut self,
        step: Step<'a>,
        pieces: &[Piece<'a>],
        answer: &ApiRejection,
        elsewhere: Option<&str>,
    ) {
        self.settle(pieces);
        if !answer.is_of_cloudflare() {
            if let [alone] = pieces {
                // The next request begins with the other pieces, because they may be let through.
                self.done.doubts.insert(key(&alone.content()), 1);
            }
            return self.leave_out_all(pieces, &in_between(answer.clone()));
        }
        if answer.is_missing_record() {
            // The record existed when the snapshot was read.
            let reason = Reason::Undecided(format!("a record of it has gone meanwhile: {answer}"));
            return self.leave_out_all(pieces, &reason);
        }
        let mut text = answer.to_string();
        if let Some(elsewhere) = elsewhere {
            text.push_str("; ");
            text.push_str(elsewhere);
        }
        let quota = match step.1 {
            Place::Zone(zone) if answer.is_record_quota() => {
                self.full_zones.insert(zone.clone());
                Some((zone.clone(), self.record_counts.get(zone).copied().unwrap_or_default()))
            }
            _ => None,
        };
        let document = match step.1 {
            Place::Tunnel(tunnel) if !self.done.versions.contains_key(tunnel) => Some(tunnel.clone()),
            _ => None,
        };
        // The snapshot shows no such record, so it is young. It may be this very batch's, if that was sent on twice.
        self.done.is_unfinished |= answer.is_record_conflict();
        for piece in pieces {
            let refusal = self.leave_out(piece.hostname, Reason::Cloudflare(text.clone()));
            if matches!(piece.edit(), Some(RuleEdit::Put { .. })) {
                self.note_what_is_left(step, piece.hostname, &|beside| !pieces.contains(beside));
            }
            let (quota, document) = (quota.clone(), document.clone());
            self.done.rejections.push(Rejection { refusal, work: piece.content(), quota, document });
        }
    }

    /// A refused rule delays the rest of its hostname's work only for this request: later steps, and what `waits` of this
    /// one. After a refused withdrawal or move, everything else waits.
    fn note_what_is_left(&mut self, step: Step<'a>, hostname: &str, waits: &dyn Fn(&Piece<'a>) -> bool) {
        let host = self.plan.host(hostname).filter(|host| host.moves_to.is_none());
        let is_left = |(at, piece): (Step<'a>, Piece<'a>)| at > step || at == step && waits(&piece);
        self.done.is_unfinished |= host.is_some_and(|host| steps(host).any(is_left));
    }

    fn leave_out_all(&mut self, pieces: &[Piece<'a>], reason: &Reason) {
        for piece in pieces {
            self.leave_out(piece.hostname, reason.clone());
        }
    }

    fn leave_out(&mut self, hostname: &str, reason: Reason) -> Refusal {
        let refusal = Refusal::whole(hostname.into(), self.resource_of(hostname), reason);
        self.done.dropped.insert(hostname.into());
        self.done.refusals.push(refusal.clone());
        refusal
    }

    /// The object that a hostname of the plan came from.
    fn resource_of(&self, hostname: &str) -> Option<Box<str>> {
        self.plan.host(hostname)?.resource.clone()
    }

    /// A line that names the place.
    fn line_of(&self, place: Place<'_>) -> LogLine {
        match place {
            Place::Tunnel(tunnel) => LogLine::default().word("tunnel", tunnel),
            Place::Zone(id) => {
                let mut zones = self.snapshot.zones.iter().map(|zone| &zone.zone);
                let name = zones.find(|zone| zone.id == *id).map_or(id.as_str(), |zone| &zone.name);
                LogLine::default().word("zone", &name)
            }
        }
    }

    /// Logs and counts a change.
    fn report(&self, kind: &str, line: &LogLine) {
        logging::log(Level::Info, module_path!(), line);
        let mut values = self.tools.metrics.update();
        values.add(Family::Changes, &[kind], 1);
        values.set(Family::LastWrite, &[], self.tools.clock.unix_seconds());
    }

    fn time_left(&self) -> Duration {
        self.deadline.remaining(self.tools.clock)
    }

    fn check_time(&self) -> Result<(), Stop> {
        if self.time_left() < limits::STEP_MINIMUM { Err(Stop::OutOfTime) } else { Ok(()) }
    }
}

/// The first of two failures, or the one that ended the run: only then something may not have been tried.
fn first_failure(first: Result<(), Stop>, second: Result<(), Stop>) -> Result<(), Stop> {
    if second.as_ref().is_err_and(Stop::ends_run) { second } else { first.and(second) }
}

/// The reason given when an answer is not Cloudflare's.
fn in_between(answer: ApiRejection) -> Reason {
    Reason::Undecided(Error::Intercepted(answer).to_string())
}

/// A hostname's steps, with its piece of each.
fn steps(host: &HostPlan) -> impl Iterator<Item = (Step<'_>, Piece<'_>)> {
    let hostname = &*host.hostname;
    let edits = host.edits.iter().flat_map(move |(stage, edits)| {
        edits.iter().map(move |(tunnel, edit)| {
            ((*stage, Place::Tunnel(tunnel)), Piece { hostname, work: Work::Edit(tunnel, edit) })
        })
    });
    let operations = host.operations.iter().filter(|(_, operations)| !operations.is_empty());
    edits.chain(operations.map(move |((stage, zone), operations)| {
        ((*stage, Place::Zone(zone)), Piece { hostname, work: Work::Operations(operations) })
    }))
}
