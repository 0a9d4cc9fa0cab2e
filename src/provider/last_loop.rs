//! What is known of the last loop of ExternalDNS: the log has a line of what is new in it, and `status` shows it. No
//! plan goes by it; `access/unneeded.rs` keeps an application while its hostname has a refusal here.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use log::{Level, info};

use crate::limits;
use crate::logging;
use crate::model::LogLine;
use crate::observe::status::Status;
use crate::provider::adjustments::Sent;
use crate::provider::memory::{Alternations, Logged, MarkedEndpoints};
use crate::reconcile::Note;
use crate::reconcile::adjust::Adjusted;
use crate::reconcile::records::Shown;
use crate::reconcile::refusal::Refusal;
use crate::reconcile::wildcard::UnaskedWildcard;

/// The log has a line of so many wildcards. Further ones are not logged.
const WILDCARDS_LOGGED_MAX: usize = 1_000;

#[derive(Debug, Default)]
pub(super) struct LastLoop {
    /// The endpoints as they were sent and shown.
    pub(super) endpoints: MarkedEndpoints,
    /// What was sent without a service; `None` before the first request.
    pub(super) sent: Option<Sent>,
    pub(super) wildcards: Wildcards,
    /// The objects that are left out, because another object has their place.
    pub(super) left_out: Logged<LogLine>,
    alternations: Alternations,
    pub(super) notes_of_sent: Logged<LogLine>,
    pub(super) notes_of_shown: Logged<LogLine>,
    pub(super) request: LastRequest,
    /// The log has the counts of the first loop.
    is_first_logged: bool,
}

/// The wildcards that no object asked for by their word. ExternalDNS merges objects, and may send the word of one of them
/// in every other loop, so what was logged of one is not forgotten.
#[derive(Debug, Default)]
pub(super) struct Wildcards {
    /// Those of the last request.
    pub(super) unasked: Vec<UnaskedWildcard>,
    /// When each was first logged, in seconds since 1970, by its hostname and whether it is public.
    pub(super) logged: BTreeMap<(Box<str>, bool), i64>,
}

/// What became of the last request of changes. Hostnames are fingerprints.
#[derive(Debug, Default)]
pub(super) struct LastRequest {
    /// ExternalDNS has asked for changes since its last read. It asks for refused work in every loop.
    was_asked: bool,
    pub(super) refusals: Logged<Refusal>,
    pub(super) notes: Logged<LogLine>,
    /// What a dry run did not write.
    pub(super) unwritten: Logged<LogLine>,
    /// The hostnames of the requests since the last read. One without a refusal that is not in `left` is written.
    pub(super) asked: BTreeSet<u64>,
    /// The hostnames that are left to the next turn.
    pub(super) left: BTreeSet<u64>,
    /// Why the last request failed, or the first refusal of a write in it. Hostnames without a refusal may wait for the same
    /// reason.
    pub(super) failure: Option<String>,
}

impl LastLoop {
    /// Begins a new loop, in which ExternalDNS is shown these endpoints. True if it did not ask for changes in the one before:
    /// what was refused then is no longer asked for.
    pub(super) fn begin(&mut self, shown: &Shown, now: i64) -> bool {
        let is_quiet = !mem::take(&mut self.request.was_asked);
        if is_quiet {
            self.request = LastRequest::default();
        }
        self.request.asked.clear();
        self.notes_of_shown.log(Level::Warn, shown.notes.iter().map(Note::line), now);
        self.endpoints.show(&shown.endpoints, now);
        if self.sent.is_some() && !mem::replace(&mut self.is_first_logged, true) {
            let Status { wanted, published, refused, waiting, without_service, .. } = self.counts();
            info!(
                wanted, published, refused, waiting, without_service;
                "the first loop is complete; the command status says more"
            );
        }
        is_quiet
    }

    /// Takes note of what ExternalDNS sends, and logs what is new in it.
    pub(super) fn adjust(&mut self, adjusted: &Adjusted, sent: Sent, now: i64) {
        let Adjusted { endpoints, asked, notes, left_out, unasked_wildcards, unasked_protections: _ } =
            adjusted;
        let (unnamed, names) = (sent.without_named_service, sent.first_unnamed());
        let before = self.sent.replace(sent);
        if unnamed > 0 && before.map_or(0, |before| before.without_named_service) != unnamed {
            info!(
                "{unnamed} endpoints name no service and are not published ({names}); LOG_LEVEL=debug names all"
            );
        }
        self.left_out.log(Level::Warn, left_out.iter().map(Note::line), now);
        let in_turns = self.alternations.see(endpoints.iter().zip(asked.iter().copied()));
        let more = (notes.len() + left_out.len() > limits::NOTES_MAX).then(|| {
            LogLine::default().text(format!(
                "there are more notes about endpoints than these {}: fix what these name",
                limits::NOTES_MAX
            ))
        });
        let notes = notes.iter().map(Note::line).chain(in_turns).chain(more);
        self.notes_of_sent.log(Level::Warn, notes, now);
        self.wildcards.log(unasked_wildcards, now);
        self.endpoints.send(endpoints);
    }
}

impl LastRequest {
    /// ExternalDNS asks for changes.
    pub(super) fn begin(&mut self) {
        self.was_asked = true;
        self.failure = None;
    }
}

impl Wildcards {
    fn log(&mut self, unasked: &[UnaskedWildcard], now: i64) {
        self.unasked = unasked.to_vec();
        for UnaskedWildcard { note, is_public } in unasked {
            let key = (note.hostname.clone(), *is_public);
            if self.logged.len() >= WILDCARDS_LOGGED_MAX || self.logged.contains_key(&key) {
                continue;
            }
            self.logged.insert(key, now);
            let level = if *is_public { Level::Warn } else { Level::Info };
            logging::log(level, module_path!(), &note.line());
        }
    }
}
