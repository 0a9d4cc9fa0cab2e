//! Remembers logged states and when they were first logged, so that a lasting state is not logged in every loop.

use std::collections::BTreeMap;
use std::mem;

use log::Level;

use crate::model::LogLine;

/// The items that were present in the last loop, each with the time at which it was first logged, in seconds since 1970.
#[derive(Debug)]
pub(crate) struct Logged<T>(BTreeMap<T, i64>);

impl<T> Default for Logged<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Ord + Clone> Logged<T> {
    /// The items that are new since the last call. An item that is absent once counts as new when it returns.
    pub(crate) fn new_items(&mut self, items: impl Iterator<Item = T>, now: i64) -> Vec<T> {
        let before = mem::take(&mut self.0);
        for item in items {
            let since = before.get(&item).copied().unwrap_or(now);
            self.0.insert(item, since);
        }
        self.0.keys().filter(|item| !before.contains_key(item)).cloned().collect()
    }

    /// The present items, each with the time at which it was first logged.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&T, i64)> {
        self.0.iter().map(|(item, since)| (item, *since))
    }
}

impl Logged<LogLine> {
    /// The warnings that are new since the last call.
    pub(crate) fn new_lines(
        &mut self,
        lines: impl Iterator<Item = LogLine>,
        now: i64,
    ) -> Vec<(Level, LogLine)> {
        self.new_items(lines, now).into_iter().map(|line| (Level::Warn, line)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::memory::year;

    #[test]
    fn a_lasting_state_is_logged_once_with_its_time_and_again_when_it_comes_back() {
        let mut logged = Logged::default();
        let line = LogLine::default().text("a is refused");
        let lines = |number: usize| std::iter::repeat_n(line.clone(), number);
        for (time, number, since, is_news) in
            [(1, 1, Some(1), true), (2, 2, Some(1), false), (3, 0, None, false), (4, 2, Some(4), true)]
        {
            let news = logged.new_items(lines(number), time);
            assert_eq!(news, lines(usize::from(is_news)).collect::<Vec<_>>(), "at {time}");
            assert_eq!(
                logged.all().map(|(_, since)| since).collect::<Vec<_>>(),
                Vec::from_iter(since),
                "at {time}"
            );
        }
    }

    #[test]
    fn a_year_of_other_lines_in_every_loop_leaves_those_of_the_last_one() {
        let mut logged = Logged::default();
        for (number, _) in year::loops() {
            let line = LogLine::default().text(format!("h{number} is refused"));
            assert_eq!(logged.new_items([line].into_iter(), number as i64).len(), 1);
        }
        assert_eq!(logged.all().count(), 1);
    }
}
