//! Remembers the object of each hostname and path in the last loops, and a fingerprint of its endpoint. In random
//! order, ExternalDNS merges the endpoints of several objects into one endpoint. So the logins and services of the
//! other objects are lost in some loops. A single request does not show this loss.

use std::collections::BTreeMap;

use crate::model::endpoint::Endpoint;
use crate::model::text::fingerprint;
use crate::reconcile::Note;
use crate::reconcile::canonical::resource_of;

/// The paths that are remembered. Alternations at further paths are not logged.
const PATHS_MAX: usize = 1_000;

/// The return of an object after more than this many loops is not an alternation.
const LOOPS_MAX: u64 = 10;

#[derive(Debug, Default)]
pub(crate) struct Alternations {
    loops: u64,
    /// By the fingerprints of the hostname and of the path.
    by_path: BTreeMap<(u64, u64), PathHistory>,
}

/// The history of a path of a hostname.
#[derive(Debug)]
struct PathHistory {
    now: ObjectEndpoint,
    /// The object before the present object, and the loop in which the object changed.
    before: Option<(ObjectEndpoint, u64)>,
    /// The present object has returned. A single return may be a rollback, so only the second return is logged.
    is_back: bool,
    /// The last loop in which two objects had returned one after the other.
    alternated_in: Option<u64>,
    last_loop: u64,
    /// The note, and the last loop in which the object changed to one that asks for something else.
    note: Option<(Note, u64)>,
}

/// An object, and a fingerprint of its endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ObjectEndpoint {
    resource: Box<str>,
    asked: u64,
}

impl Alternations {
    /// Remembers the endpoints of a loop, each with a fingerprint of the endpoint as its object asks for it. Returns a
    /// note for each path at which two objects alternate.
    pub(crate) fn see<'e>(&mut self, endpoints: impl Iterator<Item = (&'e Endpoint, u64)>) -> Vec<Note> {
        self.loops += 1;
        for (endpoint, asked) in endpoints {
            let path = (fingerprint([&*endpoint.dns_name]), fingerprint([&*endpoint.set_identifier]));
            let now = ObjectEndpoint { resource: resource_of(endpoint).into(), asked };
            let has_room = self.by_path.len() < PATHS_MAX;
            match self.by_path.get_mut(&path) {
                Some(seen) => seen.change(endpoint, now, self.loops),
                None if has_room => {
                    self.by_path.insert(path, PathHistory::new(now, self.loops));
                }
                None => {}
            }
        }
        let loops = self.loops;
        self.by_path.retain(|_, seen| is_recent(seen.last_loop, loops));
        let notes = self.by_path.values().filter_map(|seen| seen.note.as_ref());
        notes.filter(|(_, at)| is_recent(*at, loops)).map(|(note, _)| note.clone()).collect()
    }

    /// True if two objects alternated at a path of the hostname in the last loops.
    pub(crate) fn has(&self, hostname: &str) -> bool {
        let hostname = fingerprint([hostname]);
        let mut paths = self.by_path.range((hostname, 0)..=(hostname, u64::MAX));
        paths.any(|(_, seen)| seen.alternated_in.is_some_and(|at| is_recent(at, self.loops)))
    }
}

impl PathHistory {
    fn new(now: ObjectEndpoint, last_loop: u64) -> Self {
        Self { now, before: None, is_back: false, alternated_in: None, last_loop, note: None }
    }

    fn change(&mut self, endpoint: &Endpoint, now: ObjectEndpoint, loops: u64) {
        self.last_loop = loops;
        // An edit of the same object is not an alternation.
        if now.resource == self.now.resource {
            self.now = now;
            return;
        }
        let is_back =
            self.before.as_ref().is_some_and(|(former, at)| *former == now && is_recent(*at, loops));
        let alternates = is_back && self.is_back;
        if alternates {
            self.alternated_in = Some(loops);
        }
        // Objects with equal endpoints lose nothing.
        let loses = now.asked != self.now.asked;
        if let Some((_, at)) = self.note.as_mut().filter(|_| loses) {
            *at = loops;
        } else if alternates && loses {
            let text = format!(
                "ExternalDNS merges the objects of this hostname: it sends the endpoint for {} in some loops \
                 and for {} in others, so the login and service of the other object are lost. Give both the \
                 same annotations, or each a set-identifier, or exclude one (controller: none)",
                self.now.resource, now.resource
            );
            self.note = Some((Note::of(endpoint, text), loops));
        }
        self.is_back = is_back;
        self.before = Some((std::mem::replace(&mut self.now, now), loops));
    }
}

/// True if the loop `at` is one of the last loops.
fn is_recent(at: u64, loops: u64) -> bool {
    loops - at <= LOOPS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reconcile::canonical::RESOURCE_LABEL;

    fn note(history: &[(&str, u64)]) -> Option<Note> {
        let mut turns = Alternations::default();
        let mut notes = Vec::new();
        for (resource, asked) in history {
            let mut endpoint = Endpoint { dns_name: "a.example.com".to_owned(), ..Endpoint::default() };
            endpoint.labels.set(RESOURCE_LABEL, resource);
            notes = turns.see([(&endpoint, *asked)].into_iter());
        }
        assert!(notes.len() <= 1, "{notes:?}");
        notes.pop()
    }

    #[test]
    fn two_objects_that_come_in_turns_and_ask_for_different_things_have_one_note() {
        let long = [&[("a", 1), ("b", 2)][..], &[("b", 2); 10], &[("a", 1)]].concat();
        for (label, history, is_told) in [
            ("in turns", &[("a", 1), ("b", 2), ("a", 1), ("b", 2)][..], true),
            ("a rollback", &[("a", 1), ("b", 2), ("a", 1)], false),
            ("a handover", &[("a", 1), ("b", 2), ("b", 2)], false),
            ("a rename", &[("a", 1), ("b", 1), ("a", 1)], false),
            ("an edit that is taken back", &[("a", 1), ("a", 2), ("a", 1)], false),
            ("another edit", &[("a", 1), ("b", 2), ("a", 3)], false),
            ("long after", &long, false),
        ] {
            let note = note(history);
            assert_eq!(note.is_some(), is_told, "{label}");
            assert!(note.is_none_or(|note| note.text.contains("for a in") && note.text.contains("for b in")));
        }
    }

    /// The note says: say the same on both.
    #[test]
    fn two_objects_that_came_in_turns_and_ask_alike_now_have_no_note_after_ten_loops() {
        let turns = [("a", 1), ("b", 2)].repeat(3);
        assert!(note(&turns).is_some());
        assert_eq!(note(&[turns, [("a", 3), ("b", 3)].repeat(6)].concat()), None);
    }

    /// A mistake that is corrected and made again after that is new.
    #[test]
    fn a_hostname_alternates_until_one_object_had_it_for_ten_loops() {
        let mut alternations = Alternations::default();
        let mut see = |resource: &str| {
            let mut endpoint = Endpoint { dns_name: "a.example.com".to_owned(), ..Endpoint::default() };
            endpoint.labels.set(RESOURCE_LABEL, resource);
            alternations.see([(&endpoint, 1)].into_iter());
            (alternations.has("a.example.com"), alternations.has("b.example.com"))
        };
        assert_eq!(["a", "b", "a", "b"].map(&mut see).map(|(has, _)| has), [false, false, false, true]);
        assert!((0..10).all(|_| see("b") == (true, false)));
        assert_eq!(see("b"), (false, false));
    }

    #[test]
    fn a_year_of_other_places_in_every_loop_leaves_those_of_the_last_ones() {
        let mut turns = Alternations::default();
        for (number, _) in crate::provider::memory::year::loops() {
            let endpoint = Endpoint { dns_name: format!("h{number}.example.com"), ..Endpoint::default() };
            assert_eq!(turns.see([(&endpoint, 1)].into_iter()), []);
        }
        assert!(turns.by_path.len() <= 11, "{}", turns.by_path.len());
        let many: Vec<Endpoint> = (0..2 * PATHS_MAX)
            .map(|number| Endpoint { dns_name: format!("{number}.example.com"), ..Endpoint::default() })
            .collect();
        let mut turns = Alternations::default();
        turns.see(many.iter().map(|endpoint| (endpoint, 1)));
        assert_eq!(turns.by_path.len(), PATHS_MAX);
    }
}
