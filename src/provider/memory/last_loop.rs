//! The state of ExternalDNS's last loop. Changes of this state are logged, and `status` shows the state. It decides
//! nothing about what is ours or withheld, only when to act: after a quiet time, a request forgets which tunnels and
//! zones could not be written, and `access/unneeded.rs` deletes no application while its hostname has a refusal here.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use log::Level;

use crate::collections::collect;
use crate::limits;
use crate::model::endpoint::{Changes, Endpoint};
use crate::model::text::fingerprint;
use crate::model::{LogLine, hostname};
use crate::observe::status::Status;
use crate::provider::bodies::WithoutService;
use crate::provider::execution::ledger::RunResult;
use crate::provider::memory::{Alternations, EndpointFingerprints, Logged};
use crate::reconcile::adjust::Adjusted;
use crate::reconcile::plan::Plan;
use crate::reconcile::reason::Category;
use crate::reconcile::refusal::Refusal;
use crate::reconcile::{Note, NoteKind};

/// A wildcard without the property is logged again if ExternalDNS did not send it for this many seconds. ExternalDNS
/// merges the endpoints of several objects, and may send the property in every other loop.
const WILDCARD_ABSENT_MAX_SECONDS: i64 = 3_600;

#[derive(Debug, Default)]
pub(crate) struct LastLoop {
    /// The reason why the last reading of Cloudflare failed; `None` after a success.
    pub(crate) read_failure: Option<String>,
    /// The endpoints that ExternalDNS sent, and the endpoints that ExternalDNS was shown.
    pub(crate) endpoints: EndpointFingerprints,
    /// The endpoints without a service; `None` before the first adjustment.
    pub(crate) without_service: Option<WithoutService>,
    pub(crate) alternations: Alternations,
    pub(crate) notes_of_sent: Logged<Note>,
    pub(crate) notes_of_shown: Logged<Note>,
    pub(crate) request: LastRequest,
    /// The counts of the first loop are logged.
    is_first_logged: bool,
}

/// The last request of changes.
#[derive(Debug, Default)]
pub(crate) struct LastRequest {
    /// The loops that began since ExternalDNS last asked for changes; two or more are a quiet time. Except under
    /// --registry=crd, ExternalDNS asks for refused work in every loop.
    loops_since: u32,
    pub(crate) refusals: Logged<Refusal>,
    pub(crate) notes: Logged<Note>,
    /// The planned writes of a dry run.
    pub(crate) dry_run_writes: Logged<LogLine>,
    /// The fingerprints of the hostnames that ExternalDNS asked to publish or change, without those in `postponed`. A
    /// hostname here without a refusal was written. Empty in a dry run, and in a new loop or request.
    pub(crate) written_or_refused: BTreeSet<u64>,
    /// The fingerprints of the hostnames that wait for the next turn.
    pub(crate) postponed: BTreeSet<u64>,
    /// The reason why the last request failed before anything was planned.
    pub(crate) failure: Option<String>,
}

impl LastLoop {
    /// Begins a new loop, in which these endpoints are shown to ExternalDNS, and returns the new lines of the log.
    /// Forgets the last request after a quiet time.
    pub(crate) fn begin(
        &mut self,
        endpoints: &[Endpoint],
        notes: Vec<Note>,
        unix_seconds: i64,
    ) -> Vec<(Level, LogLine)> {
        let request = &mut self.request;
        request.written_or_refused.clear();
        request.loops_since = request.loops_since.saturating_add(1);
        if request.is_after_quiet_time() {
            let mut refusals = mem::take(&mut request.refusals);
            refusals.replace_expecting(Vec::new(), unix_seconds, &|refusal, _| {
                self.alternations.has(&refusal.hostname)
            });
            *request = LastRequest { loops_since: request.loops_since, refusals, ..LastRequest::default() };
        }
        let mut lines = note_lines(&self.notes_of_shown.replace(notes, unix_seconds));
        self.endpoints.remember_shown(endpoints, unix_seconds);
        lines.extend(self.first_counts().map(|line| (Level::Info, line)));
        lines
    }

    /// The line with the counts of the first loop, once that loop is complete.
    fn first_counts(&mut self) -> Option<LogLine> {
        if self.without_service.is_none() || mem::replace(&mut self.is_first_logged, true) {
            return None;
        }
        let Status { wanted, published, refused, waiting, without_service, .. } = self.counts();
        let line = LogLine::default()
            .word("wanted", &wanted)
            .word("published", &published)
            .word("refused", &refused)
            .word("waiting", &waiting)
            .word("without_service", &without_service);
        Some(line.text("the first loop is complete; the command status says more"))
    }

    /// Remembers the endpoints that ExternalDNS sends, and returns the new lines of the log.
    pub(crate) fn remember_sent(
        &mut self,
        adjusted: &Adjusted,
        without_service: WithoutService,
        unix_seconds: i64,
    ) -> Vec<(Level, LogLine)> {
        let Adjusted { endpoints, intent_fingerprints, notes, .. } = adjusted;
        let mut lines = Vec::new();
        let (without_opt_out, names) =
            (without_service.without_opt_out, without_service.first_without_opt_out());
        let before = self.without_service.replace(without_service);
        if without_opt_out > 0 && before.map_or(0, |before| before.without_opt_out) != without_opt_out {
            let text = format!(
                "endpoints that name no service and are not published: {without_opt_out} ({names}); LOG_LEVEL=debug \
                 names all"
            );
            lines.push((Level::Info, LogLine::default().text(text)));
        }
        let alternating = self.alternations.see(endpoints.iter().zip(intent_fingerprints.iter().copied()));
        let is_expected = |note: &Note, absent_seconds| match note.kind {
            NoteKind::LeftOut => false,
            NoteKind::Other => self.alternations.has(&note.hostname),
            NoteKind::LeftOutWildcard | NoteKind::PublicWildcard => {
                absent_seconds < WILDCARD_ABSENT_MAX_SECONDS
            }
        };
        let all = notes.iter().cloned().chain(alternating).collect();
        let new = self.notes_of_sent.replace_expecting(all, unix_seconds, &is_expected);
        lines.extend(note_lines(&new));
        let of_endpoints =
            notes.iter().filter(|note| matches!(note.kind, NoteKind::LeftOut | NoteKind::Other));
        if !new.is_empty() && of_endpoints.count() > limits::NOTES_MAX {
            let text = format!(
                "the log shows only the first {} notes about endpoints: correct these endpoints first",
                limits::NOTES_MAX
            );
            lines.push((Level::Warn, LogLine::default().text(text)));
        }
        self.endpoints.remember_sent(endpoints);
        lines
    }

    /// Remembers the result of a request, with its planned writes in a dry run, and returns the new lines of the log.
    pub(crate) fn remember_request(
        &mut self,
        changes: &Changes,
        plan: &Plan,
        result: &RunResult,
        dry_run_writes: Option<Vec<LogLine>>,
        unix_seconds: i64,
    ) -> Vec<(Level, LogLine)> {
        let mut lines = note_lines(&self.request.notes.replace(plan.notes.clone(), unix_seconds));
        lines.extend(self.replace_refusals(plan, result, unix_seconds));
        if !plan.postponed.is_empty() {
            let text = format!("hostnames that are left to the next requests: {}", plan.postponed.len());
            lines.push((Level::Info, LogLine::default().text(text)));
        }
        let last = &mut self.request;
        last.postponed = collect(plan.postponed.iter().map(|hostname| fingerprint([&**hostname])));
        let wanted = if dry_run_writes.is_some() { &[] } else { &*changes.wanted };
        let wanted = wanted.iter().map(|endpoint| fingerprint([&*hostname::normalize(&endpoint.dns_name)]));
        last.written_or_refused = collect(wanted.filter(|hostname| !last.postponed.contains(hostname)));
        last.failure = None;
        for line in last.dry_run_writes.replace(dry_run_writes.unwrap_or_default(), unix_seconds) {
            let text = format!("without DRY_RUN: {}", line.text);
            lines.push((Level::Info, line.text(text)));
        }
        lines
    }

    /// Replaces the refusals, except those of postponed hostnames, which the turn did not plan. Returns the lines of
    /// new refusals. A refusal because of a failed write has no line, because the log already has a line for each
    /// failed write.
    fn replace_refusals(
        &mut self,
        plan: &Plan,
        result: &RunResult,
        unix_seconds: i64,
    ) -> Vec<(Level, LogLine)> {
        let Self { request: LastRequest { refusals: last, .. }, alternations, .. } = self;
        let is_failed = |refusal: &Refusal| refusal.reason.failed_write().is_some();
        let before = || last.present().map(|(refusal, _)| refusal);
        let of_postponed = before().filter(|refusal| plan.postponed.contains(&refusal.hostname));
        let retained = of_postponed.filter(|refusal| !is_failed(refusal));
        let refusals: Vec<Refusal> =
            plan.refusals.iter().chain(result.refusals()).chain(retained).cloned().collect();
        // A refusal of the whole hostname and one of its rule without a path have the same line.
        let line = |refusal: &Refusal| fingerprint([&*refusal.to_string()]);
        let is_any_new = refusals.iter().any(|refusal| !last.has(refusal));
        let logged: BTreeSet<u64> = collect(before().filter(|_| is_any_new).map(line));
        let is_expected = |refusal: &Refusal, _| alternations.has(&refusal.hostname);
        let mut new = last.replace_expecting(refusals, unix_seconds, &is_expected);
        new.retain(|refusal| !is_failed(refusal) && !logged.contains(&line(refusal)));
        let (errors, warnings): (Vec<_>, Vec<_>) =
            new.iter().partition(|refusal| refusal.reason.leaves_unprotected());
        let by_level = [(Level::Error, errors), (Level::Warn, warnings)].into_iter();
        by_level
            .flat_map(|(level, all)| Refusal::lines(all).into_iter().map(move |line| (level, line)))
            .collect()
    }

    /// The refusals of endpoints that differ between sent and shown. Other refusals are outdated: the endpoint was
    /// corrected, or its object was deleted. Of a hostname as a whole, only the first refusal counts.
    pub(crate) fn current_refusals(&self) -> impl Iterator<Item = (&Refusal, i64)> {
        let mut refusals: Vec<(&Refusal, i64)> = self.request.refusals.present().collect();
        // The refusals are sorted, so those of a hostname as a whole come first.
        refusals.dedup_by(|(later, _), (earlier, _)| {
            later.set_identifier.is_none() && later.hostname == earlier.hostname
        });
        refusals.into_iter().filter(|(Refusal { hostname, set_identifier, .. }, _)| {
            let has_path = |path: &&str| self.endpoints.of(hostname).any(|endpoint| endpoint.has_path(path));
            // The refusal of a path that no endpoint has concerns every endpoint of the hostname.
            let path = set_identifier.as_deref().filter(has_path);
            self.endpoints.of(hostname).any(|endpoint| {
                !self.endpoints.is_published(endpoint) && path.is_none_or(|path| endpoint.has_path(path))
            })
        })
    }

    /// The status without its rows.
    pub(crate) fn counts(&self) -> Status {
        let without_service = self.without_service.as_ref().map_or(0, |endpoints| endpoints.without_opt_out);
        let mut status = Status { loop_began: self.endpoints.shown_at, without_service, ..Status::default() };
        // By hostname: true if all of its refusals wait.
        let mut refused = BTreeMap::new();
        for (refusal, _) in self.current_refusals() {
            let waits = refused.entry(fingerprint([&*refusal.hostname])).or_insert(true);
            *waits &= refusal.reason.category() == Category::Waiting;
        }
        status.waiting = refused.values().filter(|waits| **waits).count();
        status.refused = refused.len() - status.waiting;
        for sent in self.endpoints.sent_by_hostname() {
            let Some(hostname) = sent.first().map(|endpoint| endpoint.hostname) else { continue };
            status.wanted += 1;
            if sent.iter().all(|endpoint| self.endpoints.is_published(endpoint)) {
                status.published += 1;
            } else if !refused.contains_key(&hostname) && !self.request.written_or_refused.contains(&hostname)
            {
                status.waiting += 1;
            }
        }
        status
    }
}

impl LastRequest {
    /// Remembers that ExternalDNS asks for changes. Returns true after a quiet time.
    pub(crate) fn begin(&mut self) -> bool {
        let is_after_quiet_time = self.is_after_quiet_time();
        // A request that fails before its plan writes nothing.
        self.written_or_refused.clear();
        self.loops_since = 0;
        is_after_quiet_time
    }

    fn is_after_quiet_time(&self) -> bool {
        self.loops_since > 1
    }
}

fn note_lines(notes: &[Note]) -> Vec<(Level, LogLine)> {
    let level = |kind| if kind == NoteKind::LeftOutWildcard { Level::Info } else { Level::Warn };
    notes.iter().map(|note| (level(note.kind), note.line())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_is_told_again_if_it_was_gone_for_an_hour_and_not_if_it_was_gone_for_a_loop() {
        let note = Note::about("*.example.com", "text".to_owned());
        let notes = vec![Note { kind: NoteKind::PublicWildcard, ..note }];
        let adjusted = Adjusted { notes, ..Adjusted::default() };
        let mut last = LastLoop::default();
        for (now, is_sent, is_logged) in [
            (0, true, true),
            (60, false, false),
            (120, true, false),
            (3_719, false, false),
            (7_319, false, false),
            (7_320, true, true),
        ] {
            let sent = if is_sent { &adjusted } else { &Adjusted::default() };
            let lines = last.remember_sent(sent, WithoutService::default(), now);
            assert_eq!(lines.len(), usize::from(is_logged), "at {now}");
            assert_eq!(last.notes_of_sent.present().count(), usize::from(is_sent), "at {now}");
        }
    }
}
