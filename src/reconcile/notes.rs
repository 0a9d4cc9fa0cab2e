//! Collects notes about the endpoints of one request.

use std::collections::BTreeSet;

use crate::model::endpoint::Endpoint;
use crate::reconcile::Note;

/// Notes without duplicates, as many as there is room for: the first by name, whatever their order of arrival.
#[derive(Debug)]
pub struct Notes {
    kept: BTreeSet<Note>,
    room: usize,
    has_more: bool,
}

impl Notes {
    /// Makes an empty collection for `room` notes.
    pub fn with_room(room: usize) -> Self {
        Self { kept: BTreeSet::new(), room, has_more: false }
    }

    /// Adds a note. Of thousands most have no room, and their text is not even written.
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

    /// The notes that were kept, sorted, and if there were more.
    pub fn into_sorted(self) -> (Vec<Note>, bool) {
        (self.kept.into_iter().collect(), self.has_more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(room: usize, names: &[&str]) -> (Vec<String>, bool) {
        let mut notes = Notes::with_room(room);
        for name in names {
            let endpoint = Endpoint { dns_name: (*name).to_owned(), ..Endpoint::default() };
            notes.add(&endpoint, || "says something".to_owned());
        }
        let (kept, has_more) = notes.into_sorted();
        (kept.into_iter().map(|note| note.hostname.into()).collect(), has_more)
    }

    #[test]
    fn the_first_by_name_are_kept_and_what_is_said_twice_is_no_more() {
        for (room, names, kept, has_more) in [
            (2, &["b", "a"][..], &["a", "b"][..], false),
            (2, &["b", "a", "b", "a"], &["a", "b"], false),
            (2, &["c", "b", "a"], &["a", "b"], true),
            (2, &["a", "b", "c"], &["a", "b"], true),
            (0, &["a"], &[], true),
            (usize::MAX, &["b", "a"], &["a", "b"], false),
        ] {
            let (found, more) = noted(room, names);
            assert_eq!(
                (&*found, more),
                (&*kept.iter().map(|name| name.to_string()).collect::<Vec<_>>(), has_more),
                "{names:?}"
            );
        }
    }

    #[test]
    fn what_has_no_room_is_not_written() {
        let mut notes = Notes::with_room(0);
        notes.add(&Endpoint::default(), || unreachable!("there is no room"));
    }
}
