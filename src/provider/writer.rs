//! The writer: its memory, and what it tells of a request in the log, the metrics and the status.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use log::Level;

use crate::clock::Clock;
use crate::cloudflare::Client;
use crate::lean::inserted;
use crate::locks::lock;
use crate::logging;
use crate::model::endpoint::Changes;
use crate::model::text::fingerprint;
use crate::model::{LogLine, hostname};
use crate::observe::metrics::{Family, Metrics};
use crate::provider::description;
use crate::provider::execution::ledger::Done;
use crate::provider::failure;
use crate::provider::last_loop::LastLoop;
use crate::provider::memory::{LastSnapshot, WaitingWork};
use crate::provider::reader::SnapshotReader;
use crate::reconcile::Note;
use crate::reconcile::access::place::Place;
use crate::reconcile::plan::{Plan, Reason, Refusal};
use crate::reconcile::records::Shown;
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
    pub(super) last_loop: Mutex<LastLoop>,
    /// The lock that makes writing requests take turns.
    pub(super) waiting_work: Mutex<WaitingWork>,
    /// The places of our applications for which nothing answered at the last look; true if that was so at the look before as
    /// well.
    pub(super) left_applications: Mutex<BTreeMap<Place, bool>>,
}

impl Writer {
    /// Begins a new loop of ExternalDNS, in which it is shown these endpoints.
    pub(super) fn begin_loop(&self, shown: &Shown) {
        if lock(&self.last_loop).begin(shown, self.clock.unix_seconds()) {
            self.count_refusals([].iter());
        }
    }

    /// Logs the refusals, the notes and what a dry run does not write, as far as they are new, and keeps them for `status`.
    pub(super) fn report(&self, changes: &Changes, plan: &Plan, done: &Done) {
        self.log_notes(plan, done);
        let refusals = plan.refusals.iter().chain(&done.refusals);
        self.count_refusals(refusals.clone());
        let now = self.clock.unix_seconds();
        let mut last = lock(&self.last_loop);
        let last = &mut last.request;
        // A turn says nothing of the hostnames that it leaves.
        let is_left = |refusal: &Refusal| {
            plan.left.contains(&refusal.hostname) && !matches!(refusal.reason, Reason::Failed(_))
        };
        let left: Vec<Refusal> =
            last.refusals.all().map(|(refusal, _)| refusal).filter(|one| is_left(one)).cloned().collect();
        let known: BTreeSet<Refusal> =
            inserted(last.refusals.all().filter_map(|(refusal, _)| refusal.alike()));
        let mut news = last.refusals.news(refusals.cloned().chain(left), now);
        news.retain(|refusal| !known.contains(refusal) && !matches!(refusal.reason, Reason::Failed(_)));
        last.asked.extend(if self.is_dry_run { BTreeSet::new() } else { hostnames_asked_for(changes) });
        last.left = inserted(plan.left.iter().map(|hostname| fingerprint([&**hostname])));
        last.failure = done.refusals.first().map(|refusal| refusal.reason.to_string());
        let (unprotected, others): (Vec<&Refusal>, Vec<&Refusal>) =
            news.iter().partition(|refusal| refusal.reason.leaves_unprotected());
        for (level, news) in [(Level::Error, unprotected), (Level::Warn, others)] {
            for line in Refusal::lines(news.into_iter()) {
                logging::log(level, module_path!(), &line);
            }
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
            for line in last.unwritten.news(description::describe(plan).into_iter(), now) {
                let text = format!("dry run, not done: {}", line.text);
                logging::log(Level::Info, module_path!(), &line.text(text));
            }
        }
    }

    /// Logs the notes about what was done, as far as they are new.
    pub(super) fn log_notes(&self, plan: &Plan, done: &Done) {
        let opened = plan.opened_without(&done.left_out).filter(|_| !self.is_dry_run);
        let notes = plan.notes.iter().filter(|note| !done.left_out.contains(&note.hostname)).chain(opened);
        let now = self.clock.unix_seconds();
        lock(&self.last_loop).request.notes.log(Level::Warn, notes.map(Note::line), now);
    }

    /// Reports, once everything possible is done, and fails if work is left.
    pub(super) fn conclude(&self, changes: &Changes, plan: &Plan, done: &Done) -> Result<(), Failure> {
        self.report(changes, plan, done);
        let refusals = plan.refusals.iter().chain(&done.refusals);
        let left = refusals.filter(|refusal| refusal.reason.is_unfinished()).count() + plan.left.len();
        if left > 0 || done.is_unfinished {
            return Err(failure::unfinished(left.max(1)));
        }
        Ok(())
    }

    /// Logs and counts a change that was made.
    pub(super) fn log_change(&self, kind: &str, line: &LogLine) {
        logging::log(Level::Info, module_path!(), line);
        let mut values = self.metrics.update();
        values.add(Family::Changes, &[kind], 1);
        values.set(Family::LastWrite, &[], self.clock.unix_seconds());
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
pub(super) fn hostnames_asked_for(changes: &Changes) -> BTreeSet<u64> {
    let asked = changes.create.iter().chain(&changes.update_new);
    inserted(asked.map(|one| fingerprint([&*hostname::normalize(&one.dns_name)])))
}
