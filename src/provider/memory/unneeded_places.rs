//! Remembers the places of our applications that nothing needs, which are deleted a loop later.

use std::collections::{BTreeMap, BTreeSet};

use crate::collections::inserted;
use crate::reconcile::access::place::Place;

/// The places of our applications that the last check found unneeded; true if the check before it found the same.
#[derive(Debug, Default)]
pub(crate) struct UnneededPlaces(BTreeMap<Place, bool>);

impl UnneededPlaces {
    /// Notes what a new check found.
    pub(crate) fn note<'a>(&mut self, found: impl Iterator<Item = &'a Place>) {
        self.0 = inserted(found.map(|place| (place.clone(), self.0.contains_key(place))));
    }

    pub(crate) fn has_confirmed(&self) -> bool {
        self.0.values().any(|again| *again)
    }

    /// The places that two consecutive checks found unneeded. They need one more check before they are returned again.
    pub(crate) fn take_confirmed(&mut self) -> BTreeSet<Place> {
        let agreed = inserted(self.0.iter().filter(|(_, again)| **again).map(|(place, _)| place.clone()));
        self.0.values_mut().for_each(|again| *again = false);
        agreed
    }

    /// Notes that the deletion at this place failed. One more check is enough to try it again.
    pub(crate) fn note_failed(&mut self, place: Place) {
        self.0.insert(place, false);
    }

    /// Forgets every check.
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }
}
