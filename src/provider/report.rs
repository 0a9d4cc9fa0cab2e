//! Reports the results of requests: once in the log, in the metrics, and for `status`.

use std::collections::BTreeSet;

use log::{Level, info};

use crate::collections::inserted;
use crate::locks::lock;
use crate::logging;
use crate::model::endpoint::Changes;
use crate::model::text::fingerprint;
use crate::model::{LogLine, TunnelId, hostname};
use crate::observe::metrics::{Family, RULE_OWNERSHIPS};
use crate::provider::Provider;
use crate::provider::description;
use crate::provider::execution::ledger::RunResult;
use crate::reconcile::Note;
use crate::reconcile::plan::Plan;
use crate::reconcile::reason::Reason;
use crate::reconcile::records::OwnEndpoints;
use crate::reconcile::refusal::Refusal;
use crate::reconcile::snapshot::Snapshot;

impl Provider {
    /// Begins a new loop, in which these endpoints are shown to ExternalDNS.
    pub(super) fn begin_loop(&self, shown: &OwnEndpoints) {
        let (is_quiet, lines) = lock(&self.last_loop).begin(shown, self.clock().unix_seconds());
        if is_quiet {
            self.count_refusals([].iter());
        }
        logging::log_all(&lines, module_path!());
    }

    /// Logs new refusals, new notes and, in a dry run, new planned writes. Retains all of them for `status`.
    pub(super) fn report(&self, changes: &Changes, plan: &Plan, result: &RunResult) {
        self.log_notes(plan, result);
        self.count_refusals(plan.refusals.iter().chain(&result.refusals));
        let (unprotected, others): (Vec<Refusal>, Vec<Refusal>) = self
            .store_result(changes, plan, result)
            .into_iter()
            .partition(|refusal| refusal.reason.leaves_unprotected());
        for (level, refusals) in [(Level::Error, unprotected), (Level::Warn, others)] {
            for line in Refusal::lines(refusals.iter()) {
                logging::log(level, module_path!(), &line);
            }
        }
        if !plan.postponed.is_empty() {
            let (changed, left) = (plan.hosts.len(), plan.postponed.len());
            info!("this request changes {changed} hostnames, and leaves {left} to the next requests");
        }
        if self.is_dry_run() {
            let writes = description::describe(plan).into_iter();
            let new =
                lock(&self.last_loop).request.dry_run_writes.new_items(writes, self.clock().unix_seconds());
            for line in new {
                let text = format!("the dry run does not write this: {}", line.text);
                logging::log(Level::Info, module_path!(), &line.text(text));
            }
        }
    }

    /// Stores the result of a request, and returns the refusals to log. A refusal with `Reason::Failed` is not
    /// returned, because the log already has a line for each failed write.
    fn store_result(&self, changes: &Changes, plan: &Plan, result: &RunResult) -> Vec<Refusal> {
        let is_failed = |refusal: &Refusal| matches!(refusal.reason, Reason::Failed(_));
        let last = &mut lock(&self.last_loop).request;
        let before: Vec<&Refusal> = last.refusals.all().map(|(refusal, _)| refusal).collect();
        // A turn does not plan the postponed hostnames, so their refusals are retained.
        let is_left = |refusal: &&&Refusal| plan.postponed.contains(&refusal.hostname) && !is_failed(refusal);
        let left: Vec<Refusal> = before.iter().filter(is_left).copied().cloned().collect();
        let known: BTreeSet<Refusal> = inserted(before.iter().filter_map(|refusal| refusal.alike()));
        let refusals = plan.refusals.iter().chain(&result.refusals).cloned();
        let mut news = last.refusals.new_items(refusals.chain(left), self.clock().unix_seconds());
        news.retain(|refusal| !known.contains(refusal) && !is_failed(refusal));
        if !self.is_dry_run() {
            let asked = changes.wanted();
            last.asked_fingerprints =
                inserted(asked.map(|one| fingerprint([&*hostname::normalize(&one.dns_name)])));
        }
        last.postponed_fingerprints =
            inserted(plan.postponed.iter().map(|hostname| fingerprint([&**hostname])));
        last.is_reported = true;
        last.failure = result.refusals.first().map(|refusal| refusal.reason.to_string());
        news
    }

    /// Logs new notes, except about hostnames whose writes were not completed.
    pub(super) fn log_notes(&self, plan: &Plan, result: &RunResult) {
        let written = plan.hosts.iter().filter(|host| !result.given_up.contains(&host.hostname));
        let opened = plan.opened.iter().map(|(_, note)| note).chain(written.flat_map(|host| &host.opened));
        let opened = opened.filter(|_| !self.is_dry_run());
        let notes = plan.notes.iter().filter(|note| !result.given_up.contains(&note.hostname)).chain(opened);
        let now = self.clock().unix_seconds();
        let lines = lock(&self.last_loop).request.notes.new_lines(notes.map(Note::line), now);
        logging::log_all(&lines, module_path!());
    }

    /// Counts the content of a snapshot in the metrics.
    pub(super) fn count_content(&self, snapshot: &Snapshot) {
        let own_rules: Vec<&TunnelId> = snapshot.own_rules().map(|(tunnel, _)| tunnel).collect();
        let own_records = snapshot.own_records().map(|own| (&*own.zone.zone.name, &*own.record.record_type));
        let own_records: Vec<(&str, &str)> = own_records.collect();
        // Scrapes and probes wait for this lock.
        let mut values = self.metrics.update();
        values.set(Family::LastRead, &[], self.clock().unix_seconds());
        for family in [Family::ConfigurationVersion, Family::Rules, Family::Records, Family::ZoneRecords] {
            values.clear(family);
        }
        for (id, tunnel) in &snapshot.tunnels {
            let name = snapshot.settings.name_of(id);
            values.set(Family::ConfigurationVersion, &[name], tunnel.version);
            let rules = tunnel.document.rules().len();
            let owned = own_rules.iter().filter(|tunnel| **tunnel == id).count();
            for (ownership, count) in RULE_OWNERSHIPS.into_iter().zip([owned, rules - owned]) {
                values.set(Family::Rules, &[name, ownership], count as i64);
            }
        }
        for zone in &snapshot.zones {
            values.set(Family::ZoneRecords, &[&zone.zone.name], zone.records().len() as i64);
        }
        for (zone, record_type) in own_records {
            values.add(Family::Records, &[zone, record_type], 1);
        }
    }

    /// Logs and counts a completed write.
    pub(super) fn log_change(&self, kind: &str, line: &LogLine) {
        logging::log(Level::Info, module_path!(), line);
        let mut values = self.metrics.update();
        values.add(Family::Changes, &[kind], 1);
        values.set(Family::LastWrite, &[], self.clock().unix_seconds());
    }

    fn count_refusals<'r>(&self, refusals: impl Iterator<Item = &'r Refusal>) {
        let mut values = self.metrics.update();
        values.reset(Family::Refusals);
        for Refusal { reason, .. } in refusals {
            values.add(Family::Refusals, &[reason.label_value()], 1);
        }
    }
}
