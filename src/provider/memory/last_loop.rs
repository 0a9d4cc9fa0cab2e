//! The state of ExternalDNS's last loop. Changes of this state are logged, and `status` shows the state. No plan
//! depends on it, but `access/unneeded.rs` does not delete an application while its hostname has a refusal here.

use std::collections::BTreeSet;
use std::mem;

use log::Level;

use crate::limits;
use crate::model::LogLine;
use crate::observe::status::Status;
use crate::provider::adjustments::WithoutService;
use crate::provider::memory::{Alternations, EndpointFingerprints, Logged};
use crate::reconcile::Note;
use crate::reconcile::adjust::Adjusted;
use crate::reconcile::records::OwnEndpoints;
use crate::reconcile::refusal::Refusal;
use crate::reconcile::wildcard::UnaskedWildcard;

/// A wildcard without the property is logged again if ExternalDNS did not send it for this many seconds.
const WILDCARD_ABSENT_MAX_SECONDS: i64 = 3_600;

#[derive(Debug, Default)]
pub(crate) struct LastLoop {
    /// The reason why the last reading of Cloudflare failed; `None` after a success.
    pub(crate) read_failure: Option<String>,
    /// The endpoints that ExternalDNS sent, and the endpoints that ExternalDNS was shown.
    pub(crate) endpoints: EndpointFingerprints,
    /// The endpoints without a service; `None` before the first adjustment.
    pub(crate) without_service: Option<WithoutService>,
    pub(crate) wildcards: Wildcards,
    /// Notes on endpoints that are left out, because another object has their hostname and path.
    pub(crate) left_out: Logged<LogLine>,
    pub(crate) alternations: Alternations,
    pub(crate) notes_of_sent: Logged<LogLine>,
    pub(crate) notes_of_shown: Logged<LogLine>,
    pub(crate) request: LastRequest,
    /// The counts of the first loop are logged.
    is_first_logged: bool,
}

/// The wildcards that no object asks for by `webhook/tunnel-wildcard`. ExternalDNS merges the endpoints of several
/// objects, and may send the property in every other loop, so a logged wildcard is not logged again.
#[derive(Debug, Default)]
pub(crate) struct Wildcards {
    /// The wildcards of the last adjustment.
    pub(crate) unasked: Vec<UnaskedWildcard>,
    /// By hostname and `is_published`.
    logged: Logged<(Box<str>, bool)>,
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
    /// The reason why the last request failed, or the reason of the first refused write in the last request. Hostnames
    /// without a refusal may wait for the same reason.
    pub(crate) failure: Option<String>,
}

impl LastLoop {
    /// Begins a new loop, in which these endpoints are shown to ExternalDNS, and returns the new lines of the log. If
    /// ExternalDNS asked for no changes in the loop before, forgets the earlier refusals and returns true.
    pub(crate) fn begin(&mut self, shown: &OwnEndpoints, now: i64) -> (bool, Vec<(Level, LogLine)>) {
        let is_quiet = !mem::take(&mut self.request.was_asked);
        if is_quiet {
            let mut refusals = mem::take(&mut self.request.refusals);
            refusals.new_items(Vec::new(), now, &|one, _| self.alternations.has(&one.hostname));
            self.request = LastRequest { refusals, ..LastRequest::default() };
        }
        self.request.asked_fingerprints.clear();
        let mut lines = self.notes_of_shown.new_lines(shown.notes.iter().map(Note::line), now);
        self.endpoints.note_shown(&shown.endpoints, now);
        if self.without_service.is_some() && !mem::replace(&mut self.is_first_logged, true) {
            let Status { wanted, published, refused, waiting, without_service, .. } = self.counts();
            let line = LogLine::default()
                .word("wanted", &wanted)
                .word("published", &published)
                .word("refused", &refused)
                .word("waiting", &waiting)
                .word("without_service", &without_service);
            lines.push((Level::Info, line.text("the first loop is complete; the command status says more")));
        }
        (is_quiet, lines)
    }

    /// Notes the endpoints that ExternalDNS sends, and returns the new lines of the log.
    pub(crate) fn note_sent(
        &mut self,
        adjusted: &Adjusted,
        without_service: WithoutService,
        now: i64,
    ) -> Vec<(Level, LogLine)> {
        let Adjusted { endpoints, intent_fingerprints, notes, left_out, unasked_wildcards, .. } = adjusted;
        let mut lines = Vec::new();
        let (unnamed, names) = (without_service.without_opt_out, without_service.first_without_opt_out());
        let before = self.without_service.replace(without_service);
        if unnamed > 0 && before.map_or(0, |before| before.without_opt_out) != unnamed {
            let text = format!(
                "endpoints that name no service and are not published: {unnamed} ({names}); LOG_LEVEL=debug names all"
            );
            lines.push((Level::Info, LogLine::default().text(text)));
        }
        lines.extend(self.left_out.new_lines(left_out.iter().map(Note::line), now));
        let alternating = self.alternations.see(endpoints.iter().zip(intent_fingerprints.iter().copied()));
        let more = (notes.len() + left_out.len() > limits::NOTES_MAX).then(|| {
            LogLine::default().text(format!(
                "the log shows only the first {} notes about endpoints: correct these endpoints first",
                limits::NOTES_MAX
            ))
        });
        let notes = notes.iter().map(Note::line).chain(alternating).chain(more);
        let new = self.notes_of_sent.new_items(notes.collect(), now, &|line, _| {
            line.value("hostname").is_some_and(|hostname| self.alternations.has(hostname))
        });
        lines.extend(new.into_iter().map(|line| (Level::Warn, line)));
        lines.extend(self.wildcards.new_lines(unasked_wildcards, now));
        self.endpoints.note_sent(endpoints);
        lines
    }
}

impl LastRequest {
    /// Notes that ExternalDNS asks for changes.
    pub(crate) fn begin(&mut self) {
        self.was_asked = true;
        self.is_reported = false;
        self.asked_fingerprints.clear();
    }
}

impl Wildcards {
    fn new_lines(&mut self, unasked: &[UnaskedWildcard], now: i64) -> Vec<(Level, LogLine)> {
        self.unasked = unasked.to_vec();
        let is_expected = |_: &_, absent_seconds| absent_seconds < WILDCARD_ABSENT_MAX_SECONDS;
        let new = self.logged.new_items(unasked.iter().map(key).collect(), now, &is_expected);
        let new = unasked.iter().filter(|one| new.contains(&key(one)));
        let level = |is_published| if is_published { Level::Warn } else { Level::Info };
        new.map(|one| (level(one.is_published), one.note.line())).collect()
    }

    /// The time at which a wildcard of the last adjustment was logged.
    pub(crate) fn since(&self, wildcard: &UnaskedWildcard) -> Option<i64> {
        self.logged.all().find(|(one, _)| **one == key(wildcard)).map(|(_, logged_at)| logged_at)
    }
}

fn key(UnaskedWildcard { note, is_published }: &UnaskedWildcard) -> (Box<str>, bool) {
    (note.hostname.clone(), *is_published)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_is_told_again_if_it_was_gone_for_an_hour_and_not_if_it_was_gone_for_a_loop() {
        let (mut wildcards, note) = (Wildcards::default(), Note::about("*.example.com", "text".to_owned()));
        let unasked = [UnaskedWildcard { note, is_published: true }];
        for (now, is_sent, since) in [
            (0, true, Some(0)),
            (60, false, None),
            (120, true, Some(0)),
            (3_719, false, None),
            (7_319, false, None),
            (7_320, true, Some(7_320)),
        ] {
            wildcards.new_lines(if is_sent { &unasked } else { &[] }, now);
            assert_eq!(wildcards.since(&unasked[0]), since, "at {now}");
        }
    }
}
