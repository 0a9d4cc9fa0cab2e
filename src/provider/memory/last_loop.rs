//! The state of ExternalDNS's last loop. Changes of this state are logged, and `status` shows the state. No plan
//! depends on it, but `access/unneeded.rs` does not delete an application while its hostname has a refusal here.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use log::Level;

use crate::limits;
use crate::model::LogLine;
use crate::model::text::fingerprint;
use crate::observe::status::Status;
use crate::provider::memory::{Alternations, EndpointFingerprints, Logged, MarkedEndpoint, WithoutService};
use crate::reconcile::Note;
use crate::reconcile::adjust::Adjusted;
use crate::reconcile::reason::WAITING;
use crate::reconcile::records::OwnEndpoints;
use crate::reconcile::refusal::Refusal;

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
    /// Notes on the wildcards that no object asks for by `webhook/tunnel-wildcard`.
    pub(crate) left_out_wildcards: Logged<LogLine>,
    pub(crate) public_wildcards: Logged<LogLine>,
    /// Notes on endpoints that are left out, because another object has their hostname and path.
    pub(crate) left_out: Logged<LogLine>,
    pub(crate) alternations: Alternations,
    pub(crate) notes_of_sent: Logged<LogLine>,
    pub(crate) notes_of_shown: Logged<LogLine>,
    pub(crate) request: LastRequest,
    /// The counts of the first loop are logged.
    is_first_logged: bool,
}

/// The result of the last request of changes.
#[derive(Debug, Default)]
pub(crate) struct LastRequest {
    /// ExternalDNS has asked for changes since its last read. Except under --registry=crd, ExternalDNS asks for refused
    /// work in every loop.
    was_asked: bool,
    /// The results of the last request are in the fields below.
    pub(crate) is_reported: bool,
    pub(crate) refusals: Logged<Refusal>,
    pub(crate) notes: Logged<LogLine>,
    /// The planned writes of a dry run.
    pub(crate) dry_run_writes: Logged<LogLine>,
    /// The hostnames that the last request was asked to publish or change. They are written, except those with a
    /// refusal or in `postponed_fingerprints`.
    pub(crate) asked_fingerprints: BTreeSet<u64>,
    /// The hostnames that wait for the next turn.
    pub(crate) postponed_fingerprints: BTreeSet<u64>,
    /// The reason why hostnames without a refusal may wait: that of the failed request, or of its first refused write.
    pub(crate) waiting_reason: Option<String>,
}

impl LastLoop {
    /// If ExternalDNS asked for no changes in the loop that ends, forgets the last request and returns true.
    pub(crate) fn forget_if_quiet(&mut self, now: i64) -> bool {
        let is_quiet = !mem::take(&mut self.request.was_asked);
        if is_quiet {
            let mut refusals = mem::take(&mut self.request.refusals);
            refusals.replace(Vec::new(), now, &|one, _| self.alternations.has(&one.hostname));
            self.request = LastRequest { refusals, ..LastRequest::default() };
        }
        is_quiet
    }

    /// Begins a new loop, in which these endpoints are shown to ExternalDNS, and returns the new lines of the log.
    pub(crate) fn begin(&mut self, shown: &OwnEndpoints, now: i64) -> Vec<(Level, LogLine)> {
        self.request.asked_fingerprints.clear();
        let mut lines = self.notes_of_shown.replace_lines(shown.notes.iter().map(Note::line), now);
        self.endpoints.note_shown(&shown.endpoints, now);
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

    /// Notes the endpoints that ExternalDNS sends, and returns the new lines of the log.
    pub(crate) fn note_sent(
        &mut self,
        adjusted: &Adjusted,
        without_service: WithoutService,
        now: i64,
    ) -> Vec<(Level, LogLine)> {
        let Adjusted { endpoints, intent_fingerprints, notes, left_out, .. } = adjusted;
        let mut lines = Vec::new();
        let (unnamed, names) = (without_service.without_opt_out, without_service.first_without_opt_out());
        let before = self.without_service.replace(without_service);
        if unnamed > 0 && before.map_or(0, |before| before.without_opt_out) != unnamed {
            let text = format!(
                "endpoints that name no service and are not published: {unnamed} ({names}); LOG_LEVEL=debug names all"
            );
            lines.push((Level::Info, LogLine::default().text(text)));
        }
        lines.extend(self.left_out.replace_lines(left_out.iter().map(Note::line), now));
        let alternating = self.alternations.see(endpoints.iter().zip(intent_fingerprints.iter().copied()));
        let more = (notes.len() + left_out.len() > limits::NOTES_MAX).then(|| {
            LogLine::default().text(format!(
                "the log shows only the first {} notes about endpoints: correct these endpoints first",
                limits::NOTES_MAX
            ))
        });
        let notes = notes.iter().map(Note::line).chain(alternating).chain(more);
        let new = self.notes_of_sent.replace(notes.collect(), now, &|line, _| {
            line.value("hostname").is_some_and(|hostname| self.alternations.has(hostname))
        });
        lines.extend(new.into_iter().map(|line| (Level::Warn, line)));
        for (level, logged, notes) in [
            (Level::Info, &mut self.left_out_wildcards, &adjusted.left_out_wildcards),
            (Level::Warn, &mut self.public_wildcards, &adjusted.public_wildcards),
        ] {
            let is_expected = |_: &_, absent_seconds| absent_seconds < WILDCARD_ABSENT_MAX_SECONDS;
            let new = logged.replace(notes.iter().map(Note::line).collect(), now, &is_expected);
            lines.extend(new.into_iter().map(|line| (level, line)));
        }
        self.endpoints.note_sent(endpoints);
        lines
    }

    /// The refusals of endpoints that differ between sent and shown. Other refusals are outdated: the endpoint was
    /// corrected, or its object was deleted. Of a hostname as a whole, only the first refusal counts.
    pub(crate) fn current_refusals(&self) -> impl Iterator<Item = (&Refusal, i64)> {
        let mut last = None;
        let counted =
            self.request.refusals.all().filter(move |(Refusal { hostname, set_identifier, .. }, _)| {
                set_identifier.is_some() || last.replace(hostname) != Some(hostname)
            });
        counted.filter(|(Refusal { hostname, set_identifier, .. }, _)| {
            let endpoints = self.endpoints.of(hostname);
            let is_of = |endpoint: &&MarkedEndpoint| {
                set_identifier.as_ref().is_some_and(|path| endpoint.has_path(path))
            };
            let has_path = endpoints.iter().any(|endpoint| is_of(&endpoint));
            endpoints.iter().any(|endpoint| endpoint.differs() && (!has_path || is_of(&endpoint)))
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
            *waits &= refusal.reason.category() == WAITING;
        }
        status.waiting = refused.values().filter(|waits| **waits).count();
        status.refused = refused.len() - status.waiting;
        for endpoints in self.endpoints.by_hostname() {
            let mut sent = endpoints.iter().filter(|endpoint| endpoint.is_sent()).peekable();
            let Some(hostname) = sent.peek().map(|endpoint| endpoint.hostname) else { continue };
            status.wanted += 1;
            if !sent.any(|endpoint| endpoint.differs()) {
                status.published += 1;
            } else if !refused.contains_key(&hostname) && !self.request.is_written(hostname) {
                status.waiting += 1;
            }
        }
        status
    }
}

impl LastRequest {
    /// Notes that ExternalDNS asks for changes.
    pub(crate) fn begin(&mut self) {
        self.was_asked = true;
        self.is_reported = false;
        self.asked_fingerprints.clear();
    }

    /// True if the last request wrote what ExternalDNS asked for the hostname, unless the hostname has a refusal.
    pub(crate) fn is_written(&self, hostname: u64) -> bool {
        self.asked_fingerprints.contains(&hostname) && !self.postponed_fingerprints.contains(&hostname)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_is_told_again_if_it_was_gone_for_an_hour_and_not_if_it_was_gone_for_a_loop() {
        let public_wildcards = vec![Note::about("*.example.com", "text".to_owned())];
        let adjusted = Adjusted { public_wildcards, ..Adjusted::default() };
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
            let lines = last.note_sent(sent, WithoutService::default(), now);
            assert_eq!(lines.len(), usize::from(is_logged), "at {now}");
            assert_eq!(last.public_wildcards.all().count(), usize::from(is_sent), "at {now}");
        }
    }
}
