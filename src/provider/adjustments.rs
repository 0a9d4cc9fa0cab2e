//! Adjusts endpoints while their request is read, and says the notes about them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use log::{Level, info};

use crate::clock::{Clock, Deadline};
use crate::limits;
use crate::locks::lock;
use crate::logging;
use crate::model::endpoint::Endpoint;
use crate::model::text::{fingerprint, quoted};
use crate::model::{LogLine, hostname};
use crate::provider::failure;
use crate::provider::memory::{Said, TakingTurns};
use crate::reconcile::adjust::{self, Adjusted, Adjuster};
use crate::reconcile::canonical::resource_of;
use crate::reconcile::snapshot::Snapshot;
use crate::reconcile::wildcard::UnaskedWildcard;
use crate::reconcile::{Note, Settings};
use crate::webhook::Failure;
use crate::webhook::body::{Arrived, Body};

/// Hostnames without a service that are known of one request: 200 KB. Any more of them count as not sent.
const NAMES_WITHOUT_SERVICE_MAX: usize = 25_000;

/// Wildcards of which the log has a line. Of any more it has none.
const WILDCARDS_SAID_MAX: usize = 1_000;

/// What was said of earlier adjustments, so that it is not said again. No adjustment goes by it.
#[derive(Debug, Default)]
pub struct Adjustments {
    /// What the last request sent.
    pub(super) sent: Mutex<Option<Sent>>,
    pub(super) said_notes: Mutex<Said<LogLine>>,
    /// The objects whose place another one has.
    pub(super) said_left_out: Mutex<Said<LogLine>>,
    taking_turns: Mutex<TakingTurns>,
    pub(super) wildcards: Mutex<Wildcards>,
}

/// The wildcards that no object asked for by their word. ExternalDNS merges objects, and may send the word of one of them
/// in every other loop, so what was said of one is not forgotten.
#[derive(Debug, Default)]
pub(super) struct Wildcards {
    /// Those of the last request.
    pub(super) unasked: Vec<UnaskedWildcard>,
    /// When each was first said, in seconds since 1970, by its hostname and whether it is public.
    pub(super) said: BTreeMap<(Box<str>, bool), i64>,
}

/// What one request sent.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// The hostnames without a service, as fingerprints; as many as are kept.
    pub(super) without_service: Vec<u64>,
    /// All endpoints without a service that did not ask to be left out.
    pub(super) unnamed: usize,
    /// The first of their hostnames in order, quoted.
    first_unnamed: BTreeSet<Box<str>>,
}

impl Adjustments {
    /// The canonical form of `wanted`.
    ///
    /// # Errors
    /// When the body is malformed, or there is no room for what is kept of it.
    pub fn adjust(
        &self,
        wanted: &Body,
        settings: &Settings,
        snapshot: Option<&Snapshot>,
        clock: &dyn Clock,
        deadline: Deadline,
    ) -> Result<Adjusted, Failure> {
        let is_late = || deadline.remaining(clock) < limits::ADJUST_RESERVE;
        let mut adjuster = Adjuster::new(settings, snapshot);
        let mut sent = Sent::default();
        let mut kept = 0;
        wanted.wanted(&mut |Arrived { list: _, endpoint, is_whole }| {
            if !wanted.has_room(kept, 0) {
                return;
            }
            let added = match is_whole {
                true if is_late() && endpoint.is_address() => adjuster.add_late(&endpoint),
                true => adjuster.add(&endpoint),
                false => adjuster.add_too_long(&endpoint),
            };
            kept += added.iter().map(Endpoint::memory_bytes).sum::<usize>();
            if added.is_empty() {
                sent.add_unnamed(&endpoint);
            }
        })?;
        if !wanted.has_room(kept, 0) {
            return Err(failure::too_much());
        }
        let adjusted = adjuster.finish();
        self.say(&adjusted, sent, clock.unix_seconds());
        Ok(adjusted)
    }

    /// Logs what was not said of earlier adjustments.
    fn say(&self, adjusted: &Adjusted, sent: Sent, now: i64) {
        let (unnamed, names) = (sent.unnamed, sent.first_unnamed());
        let before = lock(&self.sent).replace(sent);
        if unnamed > 0 && before.map_or(0, |before| before.unnamed) != unnamed {
            info!(
                "{unnamed} endpoints name no service and are not published ({names}); LOG_LEVEL=debug names all"
            );
        }
        let more = (adjusted.notes.len() + adjusted.left_out.len() > limits::NOTES_MAX).then(|| {
            LogLine::default().text(format!(
                "there are more notes about endpoints than these {}: fix what these name",
                limits::NOTES_MAX
            ))
        });
        let in_turns =
            lock(&self.taking_turns).see(adjusted.endpoints.iter().zip(adjusted.asked.iter().copied()));
        let notes = adjusted.notes.iter().map(Note::line).chain(in_turns);
        let news = lock(&self.said_notes).news(notes.chain(more), now);
        let left_out = lock(&self.said_left_out).news(adjusted.left_out.iter().map(Note::line), now);
        for line in left_out.into_iter().chain(news) {
            logging::log(Level::Warn, module_path!(), &line);
        }
        lock(&self.wildcards).say(&adjusted.unasked_wildcards, now);
    }
}

impl Sent {
    /// Counts an endpoint without a service.
    fn add_unnamed(&mut self, endpoint: &Endpoint) {
        if self.without_service.len() < NAMES_WITHOUT_SERVICE_MAX {
            self.without_service.push(fingerprint([&*hostname::normalize(&endpoint.dns_name)]));
        }
        if adjust::opts_out(endpoint) {
            return;
        }
        self.unnamed += 1;
        self.first_unnamed.insert(quoted(&endpoint.dns_name).to_string().into());
        if self.first_unnamed.len() > limits::NAMES_SHOWN_MAX {
            self.first_unnamed.pop_last();
        }
        debug_unnamed(endpoint);
    }

    fn first_unnamed(&self) -> String {
        self.first_unnamed.iter().map(|name| &**name).collect::<Vec<_>>().join(", ")
    }
}

impl Wildcards {
    fn say(&mut self, unasked: &[UnaskedWildcard], now: i64) {
        self.unasked = unasked.to_vec();
        for UnaskedWildcard { note, is_public } in unasked {
            let key = (note.hostname.clone(), *is_public);
            if self.said.len() >= WILDCARDS_SAID_MAX || self.said.contains_key(&key) {
                continue;
            }
            self.said.insert(key, now);
            let level = if *is_public { Level::Warn } else { Level::Info };
            logging::log(level, module_path!(), &note.line());
        }
    }
}

fn debug_unnamed(endpoint: &Endpoint) {
    let Endpoint { dns_name, record_type, .. } = endpoint;
    logging::debug(module_path!(), || {
        LogLine::default()
            .quoted("hostname", dns_name.as_str())
            .quoted("resource", resource_of(endpoint))
            .word("type", record_type)
            .text("an endpoint names no service and is not published")
    });
}
