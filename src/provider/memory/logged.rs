//! Remembers logged states and when they were first logged, so that a lasting state is not logged in every loop.

use std::collections::BTreeMap;
use std::mem;

use crate::limits;

/// Absent items that are remembered: as many notes as an adjustment of endpoints may have, of all four kinds.
const ABSENT_MAX: usize = 4 * limits::NOTES_MAX;

/// The items of the last loop, and absent items that are expected to return.
#[derive(Debug)]
pub(crate) struct Logged<T>(BTreeMap<T, Entry>);

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The time at which the item was first logged, in seconds since 1970.
    logged_at: i64,
    /// The time of the last loop with the item.
    seen_at: i64,
    is_present: bool,
}

impl<T> Default for Logged<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Ord + Clone> Logged<T> {
    /// Replaces the items, and returns the new ones. An item that is absent once counts as new when it returns.
    pub(crate) fn replace(&mut self, items: Vec<T>, unix_seconds: i64) -> Vec<T> {
        self.replace_expecting(items, unix_seconds, &|_, _| false)
    }

    /// Replaces the items, and returns the new ones. An item that returns is not new if `is_expected` was true in each
    /// loop without the item, for the item and the seconds of its absence.
    pub(crate) fn replace_expecting(
        &mut self,
        items: Vec<T>,
        unix_seconds: i64,
        is_expected: &dyn Fn(&T, i64) -> bool,
    ) -> Vec<T> {
        let before = mem::take(&mut self.0);
        for item in items {
            let logged_at = before.get(&item).map_or(unix_seconds, |entry| entry.logged_at);
            self.0.insert(item, Entry { logged_at, seen_at: unix_seconds, is_present: true });
        }
        let new = self.0.keys().filter(|item| !before.contains_key(item)).cloned().collect();
        let is_absent = |item: &T| !self.0.contains_key(item);
        let absent = before
            .into_iter()
            .filter(|(item, entry)| is_absent(item) && is_expected(item, unix_seconds - entry.seen_at));
        let absent =
            absent.take(ABSENT_MAX).map(|(item, entry)| (item, Entry { is_present: false, ..entry }));
        let absent: Vec<_> = absent.collect();
        self.0.extend(absent);
        new
    }

    /// True if the item is present or expected to return.
    pub(crate) fn has(&self, item: &T) -> bool {
        self.0.contains_key(item)
    }

    /// The present items, each with the time at which it was first logged.
    pub(crate) fn present(&self) -> impl Iterator<Item = (&T, i64)> {
        self.0.iter().filter(|(_, entry)| entry.is_present).map(|(item, entry)| (item, entry.logged_at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::LogLine;
    use crate::provider::memory::year;

    #[test]
    fn a_lasting_state_is_logged_once_with_its_time_and_again_when_it_comes_back() {
        let mut logged = Logged::default();
        let line = LogLine::default().text("a is refused");
        let lines = |number: usize| std::iter::repeat_n(line.clone(), number);
        for (time, number, since, is_news) in
            [(1, 1, Some(1), true), (2, 2, Some(1), false), (3, 0, None, false), (4, 2, Some(4), true)]
        {
            let news = logged.replace(lines(number).collect(), time);
            assert_eq!(news, lines(usize::from(is_news)).collect::<Vec<_>>(), "at {time}");
            assert_eq!(
                logged.present().map(|(_, since)| since).collect::<Vec<_>>(),
                Vec::from_iter(since),
                "at {time}"
            );
        }
    }

    #[test]
    fn present_items_take_no_room_of_the_absent_ones() {
        let mut logged = Logged::default();
        let mut replace =
            |number: usize| logged.replace_expecting((0..number).collect(), 0, &|_: &usize, _| true);
        replace(ABSENT_MAX + 1);
        replace(ABSENT_MAX);
        assert_eq!(replace(ABSENT_MAX + 1), [0; 0]);
    }

    #[test]
    fn an_item_that_is_expected_to_return_is_new_once_and_is_not_shown_while_it_is_absent() {
        let mut logged = Logged::default();
        let mut replace = |items: &[&'static str], now| {
            let new =
                logged.replace_expecting(items.to_vec(), now, &|item, absent| *item == "a" && absent < 60);
            (new, logged.present().map(|(item, since)| (*item, since)).collect::<Vec<_>>())
        };
        assert_eq!(replace(&["a", "b"], 1), (vec!["a", "b"], vec![("a", 1), ("b", 1)]));
        assert_eq!(replace(&[], 31), (vec![], vec![]));
        assert_eq!(replace(&["a", "b"], 60), (vec!["b"], vec![("a", 1), ("b", 60)]));
        assert_eq!(replace(&[], 120), (vec![], vec![]));
        assert_eq!(replace(&["a"], 180), (vec!["a"], vec![("a", 180)]), "it was gone for too long");
    }

    #[test]
    fn a_year_of_other_items_in_every_loop_leaves_those_of_the_last_ones() {
        let mut logged = Logged::default();
        for (number, _) in year::loops().step_by(10) {
            assert_eq!(logged.replace_expecting(vec![number], number as i64, &|_, _| true).len(), 1);
        }
        assert_eq!((logged.present().count(), logged.0.len()), (1, 1 + ABSENT_MAX));
    }
}
