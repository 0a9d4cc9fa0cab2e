//! The writer: its memory, and what it tells of a request in the log, the metrics and the status.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use log::Level;

use crate::clock::Clock;
use crate::cloudflare::Client;
use crate::locks::lock;
use crate::logging;
use crate::model::endpoint::Changes;
use crate::model::text::fingerprint;
use crate::model::{LogLine, hostname};
use crate::observe::metrics::{Family, Metrics};
use crate::ordered::inserted;
use crate::provider::description;
use crate::provider::execution::ledger::Done;
use crate::provider::failure;
use crate::provider::memory::{LastSnapshot, Said, WaitingWork};
use crate::provider::reader::SnapshotReader;
use crate::reconcile::Note;
use crate::reconcile::access::place::Place;
use crate::reconcile::plan::{Plan, Reason, Refusal};
use crate::webhook::Failure;

#[derive(Debug)]
pub(super) struct Writer {
    pub(super) client: Arc<Client>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) reader: SnapshotReader,
    /// Writes are only logged.
    pub(super) is_dry_run: bool,
    pub(super) last_snapshot: Mutex<LastSnapshot>,
    pub(super) state: State,
}

/// The writer's memory.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The lock that makes writing requests take turns.
    pub(super) waiting_work: Mutex<WaitingWork>,
    /// What is refused, as of the last request.
    pub(super) refusals: Mutex<Said<Refusal>>,
    pub(super) last_request: Mutex<LastRequest>,
    pub(super) said_notes: Mutex<Said<LogLine>>,
    pub(super) said_dry_run: Mutex<Said<LogLine>>,
    /// ExternalDNS has asked for changes since its last read. It asks for refused work in every loop.
    pub(super) was_asked: AtomicBool,
    /// The places of our applications for which nothing answered at the last look; true if that was so at the look before as
    /// well.
    pub(super) left_applications: Mutex<BTreeMap<Place, bool>>,
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

    /// Logs the refusals that were not logged before.
    pub(super) fn report(&self, changes: &Changes, plan: &Plan, done: &Done) {
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
        let failure = done.refusals.first().map(|refusal| refusal.reason.to_string());
        LastRequest { asked, left, failure }
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
    pub(super) fn conclude(&self, changes: &Changes, plan: &Plan, done: &Done) -> Result<(), Failure> {
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

    fn count_refusals<'r>(&self, refusals: impl Iterator<Item = &'r Refusal>) {
        let mut values = self.metrics.update();
        values.reset(Family::Refusals);
        for Refusal { reason, .. } in refusals {
            values.add(Family::Refusals, &[reason.label()], 1);
        }
    }
}

/// The hostnames that are to be published or changed, as fingerprints.
pub(super) fn asked(changes: &Changes) -> BTreeSet<u64> {
    let asked = changes.create.iter().chain(&changes.update_new);
    inserted(asked.map(|one| fingerprint([&*hostname::normalize(&one.dns_name)])))
}
