//! Carries out the changes that ExternalDNS asks for: it reads, plans and writes, and begins again if a write's outcome
//! is unknown.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use log::Level;

use crate::clock::{Clock, Deadline};
use crate::cloudflare::{Client, Error};
use crate::locks::lock;
use crate::logging;
use crate::model::endpoint::Changes;
use crate::model::{LogLine, TunnelId};
use crate::observe::metrics::{Family, Metrics};
use crate::provider::access::writer::{ApplicationMemory, ApplicationWriter};
use crate::provider::description;
use crate::provider::execution::{Done, Execution, ends_run};
use crate::provider::hold_back::hold_back;
use crate::provider::memory::{SaidLines, WaitingWork};
use crate::provider::moves::{Looks, look_at, look_deadline};
use crate::provider::readings::Readings;
use crate::provider::request_error::RequestError;
use crate::provider::resolution::Resolved;
use crate::provider::writes::works;
use crate::reconcile::Note;
use crate::reconcile::access::reading::{AccessReading, AccessSnapshot};
use crate::reconcile::plan::{self, ApplicationWork, Earlier, Plan, Preview, Reason, Refusal};
use crate::reconcile::snapshot::Snapshot;

/// The number of times that one request begins at the read, after writes without an answer.
const APPLY_ATTEMPTS_MAX: usize = 3;

#[derive(Debug)]
pub(super) struct Writer {
    pub(super) client: Arc<Client>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) readings: Arc<Readings>,
    /// Writes are only logged.
    pub(super) is_dry_run: bool,
    pub(super) state: State,
}

/// The writer's memory.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The lock that makes writing requests take turns.
    memory: Mutex<Memory>,
    said_refusals: Mutex<SaidLines>,
    /// Those that leave something without protection.
    said_unprotected: Mutex<SaidLines>,
    said_dry_run: Mutex<SaidLines>,
    /// ExternalDNS has asked for changes since its last read. It asks for refused work in every loop.
    was_asked: AtomicBool,
}

/// The memory that only the writing request needs.
#[derive(Debug, Default)]
struct Memory {
    waiting_work: WaitingWork,
    applications: ApplicationMemory,
}

/// One request's turn to write.
struct Turn<'a> {
    writer: &'a Writer,
    memory: MutexGuard<'a, Memory>,
    resolved: &'a Resolved,
    changes: &'a Changes,
    deadline: Deadline,
    looks: Looks,
    /// Whether the tunnels in the way were deleted, or why that is not known.
    deleted: BTreeMap<TunnelId, Result<bool, String>>,
}

impl Writer {
    /// Begins a new loop of ExternalDNS. Work that it did not ask for in the last loop is no longer refused.
    pub(super) fn begin_loop(&self) {
        if !self.state.was_asked.swap(false, Ordering::Relaxed) {
            self.count_refusals([].iter());
            lock(&self.state.said_refusals).forget();
            lock(&self.state.said_unprotected).forget();
            lock(&self.state.said_dry_run).forget();
        }
    }

    /// Carries out the changes. Unfinished work is an error, so that ExternalDNS asks for it again.
    pub(super) fn apply(
        &self,
        changes: &Changes,
        resolved: &Resolved,
        deadline: Deadline,
    ) -> Result<(), RequestError> {
        self.state.was_asked.store(true, Ordering::Relaxed);
        let memory = lock(&self.state.memory);
        let (looks, deleted) = (Looks::default(), BTreeMap::new());
        let mut turn = Turn { writer: self, memory, resolved, changes, deadline, looks, deleted };
        if turn.has_nothing_to_write()? {
            return Ok(());
        }
        let mut attempts_left = APPLY_ATTEMPTS_MAX - 1;
        while turn.attempt(attempts_left > 0)? {
            attempts_left -= 1;
        }
        Ok(())
    }

    /// Logs the refusals that were not logged before.
    fn report(&self, plan: &Plan, done: &Done) {
        let refusals = plan.refusals.iter().chain(&done.refusals);
        self.count_refusals(refusals.clone());
        let (unprotected, refusals): (Vec<&Refusal>, Vec<&Refusal>) =
            refusals.partition(|refusal| refusal.reason.leaves_unprotected());
        let unprotected = Refusal::lines(unprotected.into_iter());
        for line in lock(&self.state.said_unprotected).news(unprotected) {
            logging::log(Level::Error, module_path!(), &line);
        }
        let lines = Refusal::lines(refusals.into_iter()).into_iter();
        let notes = plan.notes.iter().map(Note::line);
        for line in lock(&self.state.said_refusals).news(lines.chain(notes)) {
            logging::log(Level::Warn, module_path!(), &line);
        }
        if self.is_dry_run {
            self.say_not_done(description::describe(plan));
        }
    }

    /// Logs what a dry run does not write.
    fn say_not_done(&self, lines: impl IntoIterator<Item = LogLine>) {
        for line in lock(&self.state.said_dry_run).news(lines) {
            let text = format!("dry run, not done: {}", line.text);
            logging::log(Level::Info, module_path!(), &line.text(text));
        }
    }

    /// Reports, once everything possible is done, and fails if work is left.
    fn conclude(&self, plan: &Plan, done: &Done) -> Result<(), RequestError> {
        self.report(plan, done);
        if done.is_all_forbidden() {
            return Err(RequestError::Forbidden);
        }
        // Without writes, no work gets any further.
        let is_left = |refusal: &&Refusal| {
            refusal.reason.is_unfinished()
                && !(self.is_dry_run && matches!(refusal.reason, Reason::Moving(_)))
        };
        let left = plan.refusals.iter().chain(&done.refusals).filter(is_left).count();
        if left > 0 || done.is_unfinished {
            return Err(RequestError::Unfinished { changes: left.max(1) });
        }
        Ok(())
    }

    fn count_refusals<'r>(&self, refusals: impl Iterator<Item = &'r Refusal>) {
        let mut values = self.metrics.update();
        for family in [Family::Refusals, Family::WithheldDeletions, Family::HeldBackWrites] {
            values.reset(family);
        }
        for Refusal { reason, .. } in refusals {
            values.add(Family::Refusals, &[reason.label()], 1);
            match reason {
                Reason::Withheld { .. } | Reason::MassDeletion => {
                    values.add(Family::WithheldDeletions, &[], 1)
                }
                Reason::NotKept { .. } => values.add(Family::HeldBackWrites, &[], 1),
                _ => {}
            }
        }
    }
}

impl Turn<'_> {
    /// True if a recent reading shows that nothing is to be written, as in most loops that ask for refused work.
    fn has_nothing_to_write(&mut self) -> Result<bool, RequestError> {
        let Some(snapshot) = self.writer.readings.recent() else {
            return Ok(false);
        };
        let mut plan = self.plan(&snapshot)?;
        // A move goes on with time, and not with what was read.
        let is_moving = plan.refusals.iter().any(|refusal| matches!(refusal.reason, Reason::Moving(_)));
        if !plan.is_empty() || is_moving {
            return Ok(false);
        }
        let preview = self.preview(&snapshot)?.unwrap_or_default();
        if !preview.work.is_empty() {
            return Ok(false);
        }
        plan.refusals = told_once(plan.refusals, Vec::new(), &preview.plan.refusals);
        self.writer.conclude(&plan, &Done::default()).map(|()| true)
    }

    /// Reads, plans and writes once. Returns true if that has to be done again.
    fn attempt(&mut self, may_repeat: bool) -> Result<bool, RequestError> {
        let snapshot = self.read()?;
        let preview = self.preview(&snapshot)?;
        if let Some(preview) = preview.as_ref().filter(|_| self.writer.is_dry_run) {
            self.writer.say_not_done(preview.work.iter().map(description::describe_application));
            return self.writer.conclude(&preview.plan, &Done::default()).map(|()| false);
        }
        let Preview { plan: previewed, work, leaves_applications, notes } = preview.unwrap_or_default();
        let (snapshot, unprotected) = self.with_applications(snapshot, &work);
        let mut plan = self.plan(&snapshot)?;
        plan.refusals = told_once(plan.refusals, unprotected, &previewed.refusals);
        plan.notes.extend(notes);
        if plan.is_empty() || self.writer.is_dry_run {
            return self.writer.conclude(&plan, &Done::default()).map(|()| false);
        }
        let (done, outcome) = self.execute(&plan, &snapshot);
        if !outcome.as_ref().is_err_and(ends_run) {
            self.remember(&plan, &done, &snapshot);
        }
        match outcome {
            Ok(()) => {}
            Err(error) if error.may_have_been_done() && may_repeat && done.fails_anew => {
                return Ok(true);
            }
            Err(error) => {
                self.writer.report(&plan, &done);
                return Err(RequestError::Write(error));
            }
        }
        // Applications can go now.
        if may_repeat && leaves_applications {
            self.writer.report(&plan, &done);
            return Ok(true);
        }
        self.writer.conclude(&plan, &done).map(|()| false)
    }

    fn read(&self) -> Result<Arc<Snapshot>, RequestError> {
        Ok(self.writer.readings.read(self.resolved, self.deadline)?)
    }

    /// The plan without the work that is held back.
    fn plan(&mut self, snapshot: &Snapshot) -> Result<Plan, RequestError> {
        let (mut earlier, settings) = (self.earlier(snapshot), &self.resolved.settings);
        let plan = |earlier: &Earlier| {
            plan::plan(self.changes, snapshot, earlier, settings).map_err(RequestError::WrongOwner)
        };
        let mut planned = plan(&earlier)?;
        let Writer { client, clock, .. } = self.writer;
        let account = &self.resolved.account;
        earlier.unready = self.looks.unready(&planned, snapshot, |tunnel, version| {
            look_at(client, &**clock, account, tunnel, version, self.deadline)
        });
        if !earlier.unready.is_empty() {
            planned = plan(&earlier)?;
        }
        Ok(self.without_held_back(planned, snapshot))
    }

    fn earlier(&mut self, snapshot: &Snapshot) -> Earlier {
        let Writer { clock, readings, .. } = self.writer;
        let Resolved { account, settings } = self.resolved;
        for tunnel in plan::tunnels_in_the_way(self.changes, snapshot, settings) {
            self.deleted.entry(tunnel).or_insert_with_key(|tunnel| {
                let deadline = look_deadline(&**clock, self.deadline);
                let answer = readings.reader().was_deleted(account, tunnel, deadline);
                answer.map(|was_deleted| was_deleted == Some(true)).map_err(|error| {
                    format!(
                        "its record leads to tunnel {tunnel}, and nothing tells if that was deleted: {error}"
                    )
                })
            });
        }
        let refused = self.memory.waiting_work.reasons(snapshot, clock.now());
        Earlier { refused, deleted: self.deleted.clone(), ..Earlier::default() }
    }

    /// What applications need, and the plan as it may be then; `None` if nothing depends on them.
    fn preview(&mut self, snapshot: &Snapshot) -> Result<Option<Preview>, RequestError> {
        if !matches!(snapshot.access, AccessReading::Read(_)) {
            return Ok(None);
        }
        let earlier = self.earlier(snapshot);
        let (changes, settings) = (self.changes, &self.resolved.settings);
        plan::preview(changes, snapshot, &earlier, settings, &mut |plan| {
            self.without_held_back(plan, snapshot)
        })
        .map(Some)
        .map_err(RequestError::WrongOwner)
    }

    /// The snapshot after the work on applications, and what of it was not done.
    fn with_applications(
        &mut self,
        snapshot: Arc<Snapshot>,
        work: &[ApplicationWork],
    ) -> (Arc<Snapshot>, Vec<Refusal>) {
        let AccessReading::Read(access) = &snapshot.access else {
            return (snapshot, Vec::new());
        };
        if work.is_empty() {
            return (snapshot, Vec::new());
        }
        let Writer { client, clock, metrics, readings, .. } = self.writer;
        readings.outdate();
        let writer = ApplicationWriter {
            client,
            clock: &**clock,
            metrics,
            access: readings.reader().access(),
            memory: &mut self.memory.applications,
            resolved: self.resolved,
            deadline: self.deadline,
        };
        let (applications, refusals) = writer.carry_out(work, access);
        // Readings made meanwhile are outdated, too.
        readings.outdate();
        let access = AccessSnapshot { applications, ..access.clone() };
        let snapshot = Snapshot { access: AccessReading::Read(access), ..Arc::unwrap_or_clone(snapshot) };
        (Arc::new(snapshot), refusals)
    }

    fn without_held_back(&self, plan: Plan, snapshot: &Snapshot) -> Plan {
        hold_back(plan, snapshot, &self.memory.waiting_work, self.writer.clock.now())
    }

    fn execute(&mut self, plan: &Plan, snapshot: &Snapshot) -> (Done, Result<(), Error>) {
        let Writer { clock, readings, .. } = self.writer;
        // From the first write on, earlier readings are outdated.
        readings.outdate();
        let waiting_work = &mut self.memory.waiting_work;
        let execution =
            Execution::new(self.writer, waiting_work, self.resolved, plan, snapshot, self.deadline);
        let result = execution.run();
        // So are readings made meanwhile.
        readings.outdate();
        self.memory.waiting_work.tidy(clock.now());
        result
    }

    /// Forgets the refusals of work that passed, and notes what was written.
    fn remember(&mut self, plan: &Plan, done: &Done, snapshot: &Snapshot) {
        let now = self.writer.clock.now();
        let owned = snapshot.owned(&plan.own);
        let waiting_work = &mut self.memory.waiting_work;
        for host in plan.hosts.iter().filter(|host| !done.dropped.contains(&host.hostname)) {
            for work in works(host, snapshot, &owned) {
                waiting_work.forget(work.content);
                if let Some(write) = work.write {
                    waiting_work.written(&write, now);
                }
            }
        }
        waiting_work.tidy(now);
    }
}

/// The refusals of a plan. What waits for its application, or for that of another rule of its object, is told with the
/// reason why there is none: making it failed `earlier`, or the preview refuses the endpoint, whatever application it
/// has.
fn told_once(refusals: Vec<Refusal>, earlier: Vec<Refusal>, previewed: &[Refusal]) -> Vec<Refusal> {
    let mut told = Vec::with_capacity(refusals.len() + earlier.len());
    for refusal in refusals {
        let is_same = |one: &&Refusal| {
            one.hostname == refusal.hostname
                && (one.set_identifier.is_none() || one.set_identifier == refusal.set_identifier)
        };
        let is_beside = |one: &&Refusal| one.hostname == refusal.hostname && one.resource == refusal.resource;
        if !matches!(refusal.reason, Reason::Undecided(_)) {
            told.push(refusal);
        } else if !earlier.iter().any(|one| is_same(&one)) {
            let known = || earlier.iter().chain(previewed);
            let cause = known().find(is_same).or_else(|| known().find(is_beside));
            // What is left to a later request as well has to be asked for again.
            let mut causes = known().filter(|one| is_same(one) || is_beside(one));
            let is_left = causes.any(|one| one.reason.is_unfinished());
            told.push(cause.filter(|_| !is_left).cloned().unwrap_or(refusal));
        }
    }
    told.extend(earlier);
    told.sort_unstable();
    told.dedup();
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_refused_before_is_not_told_again_as_undecided() {
        let refusal = |hostname: &str, path: &str, reason: Reason| Refusal {
            hostname: hostname.into(),
            set_identifier: Some(path.into()),
            resource: Some(format!("ingress/shop/web{path}").into()),
            reason,
        };
        let undecided = || Reason::Undecided("its application is not there yet".to_owned());
        let cause = refusal("a.example.com", "", Reason::Cloudflare("no".to_owned()));
        let of_path = refusal("a.example.com", "^/x", undecided());
        let of_other = refusal("b.example.com", "", undecided());
        let again = refusal("a.example.com", "", Reason::NoZone);
        let later =
            vec![refusal("a.example.com", "", undecided()), of_path.clone(), of_other.clone(), again.clone()];
        let mut expected = vec![cause.clone(), of_path, of_other, again];
        expected.sort_unstable();
        assert_eq!(told_once(later, vec![cause], &[]), expected);
    }

    #[test]
    fn what_has_no_application_for_another_reason_is_told_with_that_one() {
        let refusal = |path: &str, object: &str, reason: Reason| Refusal {
            hostname: "a.example.com".into(),
            set_identifier: Some(path.into()),
            resource: Some(object.into()),
            reason,
        };
        let unmade = |path: &str, object: &str| {
            refusal(path, object, Reason::Undecided("its application is not there yet".to_owned()))
        };
        let cause = refusal("^/x", "ingress/one/web", Reason::NoZone);
        let elsewhere = Refusal { hostname: "b.example.com".into(), ..cause.clone() };
        let later = vec![
            unmade("^/x", "ingress/one/web"),
            unmade("", "ingress/one/web"),
            unmade("^/y", "ingress/two/web"),
        ];
        let expected = vec![cause.clone(), unmade("^/y", "ingress/two/web")];
        assert_eq!(told_once(later.clone(), Vec::new(), &[elsewhere, cause.clone()]), expected);
        assert_eq!(told_once(later.clone(), vec![cause.clone()], &[]), expected, "it could not be made");
        let (waiting, left) = (unmade("^/x", "ingress/one/web"), unmade("", "ingress/one/web"));
        let previewed = [cause.clone(), left];
        let told = told_once(vec![waiting.clone()], Vec::new(), &previewed);
        assert_eq!(told, [waiting], "a rule of its object is left to a later request");
        let whole = Refusal { set_identifier: None, ..cause };
        assert_eq!(told_once(later, Vec::new(), std::slice::from_ref(&whole)), [whole]);
    }
}
