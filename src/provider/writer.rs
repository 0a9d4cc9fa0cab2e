//! Carries out the changes that ExternalDNS asks for: it reads, plans and writes, and begins again if a write's outcome
//! is unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use log::{Level, warn};

use crate::clock::{Clock, Deadline};
use crate::cloudflare::{Client, Error};
use crate::ingress::RuleEdit;
use crate::limits;
use crate::locks::lock;
use crate::logging;
use crate::model::endpoint::Changes;
use crate::model::text::fingerprint;
use crate::model::{LogLine, TunnelId, hostname};
use crate::observe::metrics::{Family, Metrics};
use crate::ordered::inserted;
use crate::provider::access::writer::ApplicationWriter;
use crate::provider::description;
use crate::provider::execution::{Done, Execution, ends_run};
use crate::provider::failure;
use crate::provider::memory::{Said, WaitingWork};
use crate::provider::moves::{look_at, look_deadline, with_looks};
use crate::provider::reader::in_parallel;
use crate::provider::readings::Readings;
use crate::provider::resolution::Resolved;
use crate::reconcile::access::answering::{self, Unneeded};
use crate::reconcile::access::gate::ApplicationWork;
use crate::reconcile::access::place::Place;
use crate::reconcile::access::reading::AccessReading;
use crate::reconcile::access::wish::ACCESS_POLICY;
use crate::reconcile::plan::{self, Earlier, Plan, Reason, Refusal, Turn};
use crate::reconcile::plan::{Write, works, writes_of};
use crate::reconcile::snapshot::Snapshot;
use crate::reconcile::{Note, Settings};
use crate::webhook::Failure;

/// The number of times that one request begins at the read, after writes without an answer.
const APPLY_ATTEMPTS_MAX: usize = 3;

/// The time for looking at, and deleting, what is left of Access applications.
const LEFT_APPLICATIONS_TIMEOUT: Duration = Duration::from_secs(2);

const NOT_WRITTEN: &str = "DRY_RUN is set, so nothing is written";

#[derive(Debug)]
pub(super) struct Writer {
    pub(super) client: Arc<Client>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) readings: Readings,
    /// Writes are only logged.
    pub(super) is_dry_run: bool,
    pub(super) state: State,
}

/// The writer's memory.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The lock that makes writing requests take turns.
    waiting_work: Mutex<WaitingWork>,
    /// What is refused, as of the last request.
    pub(super) refusals: Mutex<Said<Refusal>>,
    pub(super) last_request: Mutex<LastRequest>,
    pub(super) said_notes: Mutex<Said<LogLine>>,
    said_dry_run: Mutex<Said<LogLine>>,
    /// ExternalDNS has asked for changes since its last read. It asks for refused work in every loop.
    was_asked: AtomicBool,
    /// The places of our applications for which nothing answered at the last look; true if that was so at the look before as
    /// well.
    left_applications: Mutex<BTreeMap<Place, bool>>,
}

/// What became of the hostnames of the last request, as fingerprints.
#[derive(Debug, Default)]
pub(super) struct LastRequest {
    /// Nothing was read since. What has no refusal of them was written or stood already, unless they are left.
    pub(super) asked: BTreeSet<u64>,
    /// They are left to the next turn.
    pub(super) left: BTreeSet<u64>,
    /// What kept the request, or a write of it, from being done. It may be why others wait.
    pub(super) failure: Option<String>,
}

/// One request to write, while no other one is carried out.
struct Request<'a> {
    writer: &'a Writer,
    waiting_work: MutexGuard<'a, WaitingWork>,
    resolved: &'a Resolved,
    changes: &'a Changes,
    deadline: Deadline,
}

impl Writer {
    /// Begins a new loop of ExternalDNS. Work that it did not ask for in the last loop is no longer refused.
    pub(super) fn begin_loop(&self) {
        if !self.state.was_asked.swap(false, Ordering::Relaxed) {
            self.count_refusals([].iter());
            lock(&self.state.refusals).forget();
            *lock(&self.state.last_request) = LastRequest::default();
            lock(&self.state.said_notes).forget();
            lock(&self.state.said_dry_run).forget();
        }
        lock(&self.state.last_request).asked.clear();
    }

    /// Carries out the changes. Unfinished work is an error, so that ExternalDNS asks for it again.
    pub(super) fn apply(
        &self,
        changes: &Changes,
        resolved: &Resolved,
        deadline: Deadline,
    ) -> Result<(), Failure> {
        self.state.was_asked.store(true, Ordering::Relaxed);
        let asked = asked(changes);
        lock(&self.state.last_request).asked.retain(|hostname| !asked.contains(hostname));
        let waiting_work = lock(&self.state.waiting_work);
        let mut request = Request { writer: self, waiting_work, resolved, changes, deadline };
        self.client.set_writing(true);
        let outcome = request.carry_out();
        self.client.set_writing(false);
        if outcome.is_err() {
            // What is not done may be what answers for them.
            lock(&self.state.left_applications).clear();
        }
        outcome
    }

    /// Logs the refusals that were not logged before.
    fn report(&self, changes: &Changes, plan: &Plan, done: &Done) {
        let refusals = plan.refusals.iter().chain(&done.refusals);
        self.count_refusals(refusals.clone());
        let now = self.clock.unix_seconds();
        let mut said = lock(&self.state.refusals);
        // A turn says nothing of the hostnames that it leaves.
        let is_left = |refusal: &Refusal| {
            plan.left.contains(&refusal.hostname) && !matches!(refusal.reason, Reason::Failed(_))
        };
        let left: Vec<Refusal> =
            said.all().map(|(refusal, _)| refusal).filter(|one| is_left(one)).cloned().collect();
        let known: BTreeSet<Refusal> = inserted(said.all().filter_map(|(refusal, _)| refusal.alike()));
        let mut news = said.news(refusals.cloned().chain(left), now);
        drop(said);
        news.retain(|refusal| !known.contains(refusal) && !matches!(refusal.reason, Reason::Failed(_)));
        let mut last = lock(&self.state.last_request);
        let before = mem::replace(&mut *last, self.last_request(changes, plan, done)).asked;
        last.asked.extend(before);
        drop(last);
        let (unprotected, others): (Vec<&Refusal>, Vec<&Refusal>) =
            news.iter().partition(|refusal| refusal.reason.leaves_unprotected());
        for (level, news) in [(Level::Error, unprotected), (Level::Warn, others)] {
            for line in Refusal::lines(news.into_iter()) {
                logging::log(level, module_path!(), &line);
            }
        }
        let is_done = |note: &&Note| !self.is_dry_run && !done.dropped.contains(&note.hostname);
        let notes = plan.notes.iter().chain(plan.opened.iter().filter(is_done));
        let notes = lock(&self.state.said_notes).news(notes.map(Note::line), now);
        for line in notes {
            logging::log(Level::Warn, module_path!(), &line);
        }
        if !plan.left.is_empty() {
            let text = format!(
                "this request changes {} hostnames, and the next loops go on with the others",
                plan.hosts.len()
            );
            let line = LogLine::default().word("hostnames", &plan.left.len()).text(text);
            logging::log(Level::Info, module_path!(), &line);
        }
        if self.is_dry_run {
            self.say_not_done(description::describe(plan));
        }
    }

    fn last_request(&self, changes: &Changes, plan: &Plan, done: &Done) -> LastRequest {
        let asked = if self.is_dry_run { BTreeSet::new() } else { asked(changes) };
        let left = inserted(plan.left.iter().map(|hostname| fingerprint([&**hostname])));
        let refused = done.refusals.first().map(|refusal| refusal.reason.to_string());
        LastRequest {
            asked,
            left,
            failure: refused.or_else(|| self.is_dry_run.then(|| NOT_WRITTEN.to_owned())),
        }
    }

    /// Logs what a dry run does not write.
    fn say_not_done(&self, lines: Vec<LogLine>) {
        let news = lock(&self.state.said_dry_run).news(lines.into_iter(), self.clock.unix_seconds());
        for line in news {
            let text = format!("dry run, not done: {}", line.text);
            logging::log(Level::Info, module_path!(), &line.text(text));
        }
    }

    /// Reports, once everything possible is done, and fails if work is left.
    fn conclude(&self, changes: &Changes, plan: &Plan, done: &Done) -> Result<(), Failure> {
        self.report(changes, plan, done);
        if done.is_all_forbidden() {
            return Err(failure::forbidden());
        }
        let refusals = plan.refusals.iter().chain(&done.refusals);
        let left = refusals.filter(|refusal| refusal.reason.is_unfinished()).count() + plan.left.len();
        if left > 0 || done.is_unfinished {
            return Err(failure::unfinished(left.max(1)));
        }
        Ok(())
    }

    /// Does work on applications, for `time` at most.
    fn carry_out(
        &self,
        work: &[ApplicationWork],
        resolved: &Resolved,
        deadline: Deadline,
        time: Duration,
    ) -> Vec<Result<(), Reason>> {
        self.readings.outdate();
        let results = ApplicationWriter { writer: self, resolved, deadline }.carry_out(work, time);
        // Readings made meanwhile are outdated, too.
        self.readings.outdate();
        results
    }

    /// Looks for applications of ours that can go, once in each loop.
    pub(super) fn look_for_left_applications(&self, snapshot: &Snapshot, settings: &Settings) {
        let left = if self.is_dry_run { Vec::new() } else { self.left_applications(snapshot, settings) };
        let mut known = lock(&self.state.left_applications);
        *known = inserted(left.iter().map(|left| (left.place.clone(), known.contains_key(left.place))));
    }

    /// Deletes the applications of ours for which nothing answered at the last two looks. What a hand deleted at Cloudflare
    /// and is still wanted was asked for between the two. Nothing else is written meanwhile, and ExternalDNS may wait for
    /// it, so it takes two seconds at most.
    pub(super) fn delete_left_applications(&self, resolved: &Resolved) {
        if !lock(&self.state.left_applications).values().any(|again| *again) {
            return;
        }
        let _turn = lock(&self.state.waiting_work);
        let known = lock(&self.state.left_applications).clone();
        lock(&self.state.left_applications).values_mut().for_each(|again| *again = false);
        let is_known = |left: &Unneeded<'_>| known.get(left.place) == Some(&true);
        self.delete_left(resolved, &is_known, Deadline::after(&*self.clock, LEFT_APPLICATIONS_TIMEOUT));
    }

    /// Deletes such of them.
    fn delete_left(&self, resolved: &Resolved, is_such: &dyn Fn(&Unneeded<'_>) -> bool, deadline: Deadline) {
        match self.readings.read(resolved, true, deadline) {
            Ok(snapshot) => {
                let mut left = self.left_applications(&snapshot, &resolved.settings);
                left.retain(is_such);
                let left: Vec<ApplicationWork> = left
                    .into_iter()
                    .map(|left| ApplicationWork::delete(left.place.clone(), left.application))
                    .collect();
                let time = deadline.remaining(&*self.clock);
                let results = self.carry_out(&left, resolved, deadline, time);
                for (work, result) in left.into_iter().zip(results) {
                    let Err(reason) = result else { continue };
                    // It is seen a second time in the next loop.
                    lock(&self.state.left_applications).insert(work.place, false);
                    logging::debug(module_path!(), || {
                        LogLine::default()
                            .text(format!("an Access application that is left stays for now: {reason}"))
                    });
                }
            }
            Err(error) => logging::debug(module_path!(), || {
                LogLine::default()
                    .text(format!("what is left of Access applications is not looked for: {error}"))
            }),
        }
    }

    /// The applications for which nothing answers and for which no endpoint waits; none while something may answer that an
    /// old answer does not show.
    fn left_applications<'s>(&self, snapshot: &'s Snapshot, settings: &Settings) -> Vec<Unneeded<'s>> {
        if !snapshot.old.is_empty() {
            return Vec::new();
        }
        let mut left = answering::removable(snapshot, settings);
        let refusals = lock(&self.state.refusals);
        left.retain(|left| !refusals.all().any(|(refusal, _)| *refusal.hostname == *left.place.hostname()));
        left
    }

    fn count_refusals<'r>(&self, refusals: impl Iterator<Item = &'r Refusal>) {
        let mut values = self.metrics.update();
        values.reset(Family::Refusals);
        for Refusal { reason, .. } in refusals {
            values.add(Family::Refusals, &[reason.label()], 1);
        }
    }
}

impl Request<'_> {
    fn carry_out(&mut self) -> Result<(), Failure> {
        if self.has_nothing_to_write()? {
            return Ok(());
        }
        let mut attempts_left = APPLY_ATTEMPTS_MAX - 1;
        while self.attempt(attempts_left > 0)? {
            attempts_left -= 1;
        }
        Ok(())
    }

    /// True if a recent reading shows that nothing is to be written, as in most loops that ask for refused work.
    fn has_nothing_to_write(&self) -> Result<bool, Failure> {
        let Changes { create, update_old: _, update_new, delete } = self.changes;
        // So many are hardly all refused, and to plan them twice takes time.
        if create.len() + update_new.len() + delete.len() > limits::CHANGED_HOSTNAMES_MAX {
            return Ok(false);
        }
        let is_enough = |snapshot: &Arc<Snapshot>| {
            snapshot.access != AccessReading::NotAsked || !self.wishes_for_access()
        };
        let Some(snapshot) = self.writer.readings.recent().filter(is_enough) else {
            return Ok(false);
        };
        let plan = self.plan(&snapshot)?;
        // A move goes on with time, and not with what was read.
        let is_moving = plan.refusals.iter().any(|refusal| matches!(refusal.reason, Reason::Moving(_)));
        if !plan.is_empty() || is_moving {
            return Ok(false);
        }
        self.writer.conclude(self.changes, &plan, &Done::default()).map(|()| true)
    }

    /// True if an endpoint says something of Access that depends on applications.
    fn wishes_for_access(&self) -> bool {
        let mut wanted = self.changes.create.iter().chain(&self.changes.update_new);
        wanted.any(|endpoint| endpoint.property(ACCESS_POLICY).is_some())
    }

    /// Reads, plans and writes once. Returns true if that has to be done again.
    fn attempt(&mut self, may_repeat: bool) -> Result<bool, Failure> {
        let snapshot = self.read()?;
        let mut plan = self.plan(&snapshot)?;
        if plan.is_empty() || self.writer.is_dry_run {
            self.waiting_work.unfinished.clear();
            return self.writer.conclude(self.changes, &plan, &Done::default()).map(|()| false);
        }
        self.write_applications(&mut plan);
        let (done, outcome) = self.execute(&plan, &snapshot);
        if !outcome.as_ref().is_err_and(ends_run) {
            self.remember(&plan, &done, &snapshot);
        }
        let may_help = |error: &Error| error.may_have_been_done() && may_repeat && done.fails_anew;
        if done.is_out_of_time {
            // The next turn begins where this one did, because it may have written records that have no rules yet.
            self.shorten_turns(plan.hosts.len());
        } else if outcome.as_ref().is_err_and(may_help) {
            // Without time to write, the next request goes on with the same turn.
            if self.deadline.remaining(&*self.writer.clock) >= limits::STEP_MINIMUM {
                return Ok(true);
            }
        } else {
            // Not before: what was written without an answer is gone on with in the same turn.
            self.waiting_work.turn_end = plan.end.clone();
            self.waiting_work.lengthen_turns();
        }
        if let Err(error) = outcome {
            self.writer.report(self.changes, &plan, &done);
            return Err(failure::unwritten(&error));
        }
        let removed = self.removed_places(&plan, &done, &snapshot);
        let concluded = self.writer.conclude(self.changes, &plan, &done);
        drop((plan, snapshot));
        if !removed.is_empty() {
            // Cloudflare asks for them before those whose tokens the rules want that answer now.
            let clock = &*self.writer.clock;
            let time = self.deadline.remaining(clock).min(LEFT_APPLICATIONS_TIMEOUT);
            let is_removed = |left: &Unneeded<'_>| left.is_replaced && removed.contains(left.place);
            self.writer.delete_left(self.resolved, &is_removed, Deadline::after(clock, time));
        }
        concluded.map(|()| false)
    }

    fn shorten_turns(&mut self, hostnames: usize) {
        if self.waiting_work.shorten_turns(hostnames) {
            warn!(
                "a request had no time to change {hostnames} hostnames, and the next ones change fewer: unless Cloudflare \
                 answers slowly, this container has too little CPU; give it more CPU"
            );
        }
    }

    /// The places of our applications whose rules this request removed.
    fn removed_places(&self, plan: &Plan, done: &Done, snapshot: &Snapshot) -> Vec<Place> {
        let places = snapshot.protections(&self.resolved.settings).ours().map(|(place, _)| place);
        let is_removed = |place: &&Place| {
            let host = plan.host(place.hostname()).filter(|host| !done.dropped.contains(&host.hostname));
            let mut edits = host.into_iter().flat_map(|host| &host.edits).map(|(_, edit)| edit);
            edits
                .any(|edit| matches!(edit, RuleEdit::Remove { .. }) && edit.path() == place.path().as_deref())
        };
        places.filter(is_removed).cloned().collect()
    }

    fn read(&self) -> Result<Arc<Snapshot>, Failure> {
        let read = self.writer.readings.read(self.resolved, self.wishes_for_access(), self.deadline);
        read.map_err(|error| failure::unread(&error))
    }

    /// The plan of a turn. A dry run tells all.
    fn plan(&self, snapshot: &Snapshot) -> Result<Plan, Failure> {
        let settings = &self.resolved.settings;
        let Writer { client, is_dry_run, .. } = self.writer;
        let turn = Turn {
            behind: self.waiting_work.turn_end.as_ref(),
            most: if *is_dry_run { usize::MAX } else { self.waiting_work.turn_most() },
        };
        let plan = |earlier: &Earlier| {
            plan::plan(self.changes, snapshot, earlier, &turn, settings)
                .map_err(|error| failure::wrong_owner(&error))
        };
        let look = |tunnels: &[TunnelId]| {
            let looks = self.side_by_side(tunnels, |tunnel, deadline| {
                let version = snapshot.tunnels.get(tunnel).map_or(-1, |tunnel| tunnel.version);
                look_at(client, &self.resolved.account, tunnel, version, deadline)
            });
            inserted(looks.filter_map(|(tunnel, look)| Some((tunnel, look.err()?))))
        };
        with_looks(self.earlier(snapshot), plan, look)
    }

    /// Asks for each tunnel, each for a short time, so that those that are not answered leave time for all else.
    fn side_by_side<A: Send>(
        &self,
        tunnels: &[TunnelId],
        ask: impl Fn(&TunnelId, Deadline) -> A + Sync,
    ) -> impl Iterator<Item = (TunnelId, A)> {
        let Writer { clock, readings, .. } = self.writer;
        let answers = in_parallel(readings.reader().parallel_reads(), tunnels, |tunnel| {
            let deadline = look_deadline(&**clock, self.deadline);
            Ok::<_, Infallible>((tunnel.clone(), ask(tunnel, deadline)))
        });
        answers.into_iter().flatten()
    }

    fn earlier(&self, snapshot: &Snapshot) -> Earlier {
        let Writer { clock, readings, .. } = self.writer;
        let Resolved { account, settings } = self.resolved;
        let tunnels = plan::tunnels_in_the_way(self.changes, snapshot, settings);
        let tunnels: Vec<TunnelId> = tunnels.into_iter().collect();
        let deleted = inserted(self.side_by_side(&tunnels, |tunnel, deadline| {
            let was_deleted = readings.reader().was_deleted(account, tunnel, deadline);
            was_deleted.map(|answer| answer == Some(true)).map_err(|error| {
                format!("its record leads to tunnel {tunnel}, and nothing tells if that was deleted: {error}")
            })
        }));
        let held = self.waiting_work.reasons(snapshot, clock.now());
        let is_preview = self.writer.is_dry_run;
        let unfinished = self.waiting_work.unfinished.clone();
        Earlier { held, deleted, unfinished, is_preview, ..Earlier::default() }
    }

    /// Does the work on applications. Half of the time is left to everything else. What is not done is told with the
    /// reason.
    fn write_applications(&mut self, plan: &mut Plan) {
        if plan.work.is_empty() {
            return;
        }
        let remaining = self.deadline.remaining(&*self.writer.clock);
        let time = if plan.hosts.is_empty() { remaining } else { remaining / 2 };
        let results = self.writer.carry_out(&plan.work, self.resolved, self.deadline, time);
        let now = self.writer.clock.now();
        for (work, result) in plan.work.iter().zip(results) {
            let content = work.content_key();
            match result {
                Ok(()) => {
                    let what = description::describe_application(work).text.into();
                    self.waiting_work.forget(content);
                    self.waiting_work.written(&Write { place: work.place_key(), content, what }, now);
                }
                Err(reason) => {
                    // A permission may be given before the next loop.
                    if matches!(reason, Reason::Cloudflare(_)) {
                        self.waiting_work.refuse(content, reason.clone(), None, now);
                    }
                    plan.opened.retain(|note| !work.place.is_over(&note.hostname));
                    tell(&mut plan.refusals, &plan.work, &work.place, reason);
                }
            }
        }
        Refusal::settle(&mut plan.refusals, &plan.left);
    }

    fn execute(&mut self, plan: &Plan, snapshot: &Snapshot) -> (Done, Result<(), Error>) {
        let Writer { clock, readings, .. } = self.writer;
        // From the first write on, earlier readings are outdated.
        readings.outdate();
        let waiting_work = &mut *self.waiting_work;
        let execution =
            Execution::new(self.writer, waiting_work, self.resolved, plan, snapshot, self.deadline);
        let result = execution.run();
        // So are readings made meanwhile.
        readings.outdate();
        self.waiting_work.tidy(clock.now());
        result
    }

    /// Forgets the refusals of work that passed, and notes what was written.
    fn remember(&mut self, plan: &Plan, done: &Done, snapshot: &Snapshot) {
        let now = self.writer.clock.now();
        let waiting_work = &mut *self.waiting_work;
        for host in plan.hosts.iter().filter(|host| !done.dropped.contains(&host.hostname)) {
            works(host).for_each(|(_, work)| waiting_work.forget(work));
            writes_of(host, snapshot).iter().for_each(|write| waiting_work.written(write, now));
        }
        waiting_work.tidy(now);
    }
}

/// The hostnames that are to be published or changed, as fingerprints.
fn asked(changes: &Changes) -> BTreeSet<u64> {
    let asked = changes.create.iter().chain(&changes.update_new);
    inserted(asked.map(|one| fingerprint([&*hostname::normalize(&one.dns_name)])))
}

/// Tells why an application is not as it has to be, in place of the endpoint's waiting for it, and that of the object's
/// rules beside it which have no work of their own.
fn tell(refusals: &mut Vec<Refusal>, work: &[ApplicationWork], place: &Place, reason: Reason) {
    let path = |place: &Place| place.path().unwrap_or_default();
    let is_of = |refusal: &Refusal, place: &Place| {
        *refusal.hostname == *place.hostname() && refusal.set_identifier.as_deref() == Some(&*path(place))
    };
    let Some(meant) = refusals.iter().find(|one| is_of(one, place)).cloned() else {
        let (hostname, set_identifier) = (place.hostname().into(), Some(path(place).into()));
        return refusals.push(Refusal { hostname, set_identifier, resource: None, reason });
    };
    let waits_with = |one: &Refusal| {
        (&one.hostname, &one.resource, &one.reason) == (&meant.hostname, &meant.resource, &meant.reason)
    };
    for refusal in refusals.iter_mut().filter(|one| waits_with(one)) {
        if is_of(refusal, place) || !work.iter().any(|work| is_of(refusal, &work.place)) {
            refusal.reason = reason.clone();
        }
    }
}
