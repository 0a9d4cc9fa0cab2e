//! What is noted about the endpoints of one request.

use std::collections::BTreeSet;

use crate::endpoint::Endpoint;
use crate::reconcile::Note;

/// Notes, each once, and so many as there is room for: the first by name, whatever the order in which they come.
#[derive(Debug)]
pub struct Notes {
    kept: BTreeSet<Note>,
    room: usize,
    has_more: bool,
}

impl Notes {
    /// None yet, with room for so many.
    pub fn with_room(room: usize) -> Self {
        Self { kept: BTreeSet::new(), room, has_more: false }
    }

    /// Adds one. Of thousands most have no room, and the text of those is not even written.
    pub(crate) fn add(&mut self, endpoint: &Endpoint, text: impl FnOnce() -> String) {
        let is_full = self.kept.len() >= self.room;
        if is_full && self.kept.last().is_none_or(|last| *last.hostname < *endpoint.dns_name) {
            self.has_more = true;
            return;
        }
        self.kept.insert(Note::of(endpoint, text()));
        if self.kept.len() > self.room {
            self.kept.pop_last();
            self.has_more = true;
        }
    }

    /// Those that are kept, sorted, and whether there were more.
    pub fn into_sorted(self) -> (Vec<Note>, bool) {
        (self.kept.into_iter().collect(), self.has_more)
    }
}
