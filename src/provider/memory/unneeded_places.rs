//! Remembers the places of our applications that nothing needs. Such an application is deleted a loop later, and after
//! a pause if that fails.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::write_memory::Pause;
use crate::limits;
use crate::reconcile::access::place::Place;
use crate::reconcile::reason::Reason;

/// The shortest and the longest pause of the deletion of an unneeded application. Each attempt reads everything anew.
const DELETION_PAUSES: (Duration, Duration) = (Duration::from_secs(60), limits::REJECTION_PAUSE_MAX);

/// The places of our applications that the last check found unneeded.
#[derive(Debug, Default)]
pub(crate) struct UnneededPlaces(BTreeMap<Place, UnneededPlace>);

#[derive(Debug, Default)]
struct UnneededPlace {
    /// The consecutive checks that found the place unneeded, without those during a pause. Two confirm the place, and
    /// an attempt to delete its application leaves one.
    sightings: u32,
    /// The pause after the last attempt to delete the application, if that failed.
    pause: Option<Pause>,
}

impl UnneededPlaces {
    /// Remembers the places that a new check found, sorted. Two applications may have the same place. Only a check
    /// confirms a place. A pause that ends does not, because it may end between two requests of one loop.
    pub(crate) fn remember_found<'a>(&mut self, found: impl Iterator<Item = &'a Place>, now: Instant) {
        let mut found: Vec<&Place> = found.collect();
        found.dedup();
        self.0.retain(|place, _| found.contains(&place));
        for place in found {
            let UnneededPlace { sightings, pause } = self.0.entry(place.clone()).or_default();
            *sightings += u32::from(pause.as_ref().is_none_or(|pause| pause.is_over(now)));
        }
    }

    pub(crate) fn has_confirmed(&self) -> bool {
        self.0.values().any(|place| place.sightings >= 2)
    }

    /// The confirmed places. They need one more check before they are returned again.
    pub(crate) fn take_confirmed(&mut self) -> Vec<Place> {
        let confirmed = self.0.iter_mut().filter(|(_, place)| place.sightings >= 2);
        let taken = confirmed.map(|(place, unneeded)| {
            unneeded.sightings = 1;
            place.clone()
        });
        taken.collect()
    }

    /// Pauses the deletion of a place's application, which failed. True if the reason is a new one.
    pub(crate) fn pause(&mut self, place: Place, reason: Reason, now: Instant) -> bool {
        let UnneededPlace { sightings, pause } = self.0.entry(place).or_default();
        *sightings = 1;
        let is_new = pause.as_ref().is_none_or(|pause| !pause.is_for(&reason));
        *pause = Some(Pause::after(pause.as_ref(), reason, DELETION_PAUSES, now));
        is_new
    }

    /// Forgets every sighting; pauses stay.
    pub(crate) fn forget_sightings(&mut self) {
        self.0.values_mut().for_each(|place| place.sightings = 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Hostname;

    const MINUTE: Duration = Duration::from_secs(60);

    fn place() -> Place {
        Place::of(&Hostname::parse("a.example.com").unwrap(), None)
    }

    fn no() -> Reason {
        Reason::Cloudflare("no".to_owned())
    }

    #[allow(clippy::disallowed_methods, reason = "any instant will do")]
    fn now() -> Instant {
        Instant::now()
    }

    /// A token that may only read Access deletes nothing, and each attempt needs a new reading of everything.
    #[test]
    fn the_deletion_of_an_unneeded_application_that_fails_waits_ever_longer() {
        let (place, mut places, start) = (place(), UnneededPlaces::default(), now());
        let is_tried = |minute: &u32| {
            let now = start + MINUTE * *minute;
            places.remember_found([&place].into_iter(), now);
            let is_tried = places.has_confirmed();
            for place in places.take_confirmed() {
                assert_eq!(places.pause(place, no(), now), *minute == 2, "the reason is new once");
            }
            is_tried
        };
        assert_eq!((1..=240).filter(is_tried).collect::<Vec<_>>(), [2, 3, 5, 9, 17, 33, 65, 125, 185]);
    }

    /// The webhook reads Cloudflare once more to delete. Between two requests of a loop, the adjustment would miss the
    /// snapshot.
    #[test]
    fn a_pause_that_ends_between_two_checks_confirms_nothing_before_the_next_check() {
        let (place, mut places, start) = (place(), UnneededPlaces::default(), now());
        (0..2).for_each(|_| places.remember_found([&place].into_iter(), start));
        places.pause(place.clone(), no(), start);
        let end = start + DELETION_PAUSES.0;
        (0..3).for_each(|_| places.remember_found([&place].into_iter(), end - Duration::from_secs(1)));
        assert!(!places.has_confirmed() && places.take_confirmed().is_empty());
        places.remember_found([&place].into_iter(), end);
        assert!(places.has_confirmed());
    }

    #[test]
    fn two_checks_in_a_row_confirm_a_place_and_a_check_that_does_not_find_it_forgets_it() {
        let (place, mut places, now) = (place(), UnneededPlaces::default(), now());
        places.remember_found([&place].into_iter(), now);
        assert!(!places.has_confirmed());
        places.remember_found([&place].into_iter(), now);
        assert_eq!(places.take_confirmed(), std::slice::from_ref(&place));
        assert!(!places.has_confirmed(), "it is deleted now");
        places.remember_found([&place].into_iter(), now);
        assert!(places.has_confirmed(), "it was not deleted");
        places.pause(place.clone(), no(), now);
        places.remember_found([].into_iter(), now);
        places.remember_found([&place].into_iter(), now);
        assert!(!places.has_confirmed(), "a place that was needed begins anew");
        places.remember_found([&place].into_iter(), now);
        assert!(places.has_confirmed());
    }

    /// A rule that a request did not write may need the application.
    #[test]
    fn forgotten_checks_leave_the_pauses() {
        let (place, mut places, now) = (place(), UnneededPlaces::default(), now());
        (0..2).for_each(|_| places.remember_found([&place].into_iter(), now));
        places.pause(place.clone(), no(), now);
        places.forget_sightings();
        (0..3).for_each(|_| places.remember_found([&place].into_iter(), now));
        let later = now + DELETION_PAUSES.0;
        places.remember_found([&place].into_iter(), later);
        assert!(!places.has_confirmed());
        places.remember_found([&place].into_iter(), later);
        assert!(places.has_confirmed());
        assert!(!places.pause(place, no(), later), "the reason is still known");
    }
}
