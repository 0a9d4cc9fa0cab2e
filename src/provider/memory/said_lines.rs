//! Lines that were said about a state that lasts, so that they are not said again in every loop.

use std::collections::BTreeSet;

use crate::ordered::inserted;

/// What somebody who looks at one state in every loop said the last time.
#[derive(Debug, Default)]
pub(crate) struct SaidLines(BTreeSet<String>);

impl SaidLines {
    /// The lines that were not said the last time. A line that is not in `lines` any more may be said again.
    pub(crate) fn news(&mut self, lines: impl IntoIterator<Item = String>) -> Vec<String> {
        let lines: BTreeSet<String> = inserted(lines);
        let news = lines.difference(&self.0).cloned().collect();
        self.0 = lines;
        news
    }

    /// Nothing that was said is so any more.
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::memory::year;

    #[test]
    fn a_lasting_state_is_said_once_and_again_when_it_comes_back() {
        let mut said = SaidLines::default();
        let line = || ["a is refused".to_owned()];
        assert_eq!(said.news(line()), line());
        assert_eq!(said.news(line()), [""; 0]);
        assert_eq!(said.news([]), [""; 0]);
        assert_eq!(said.news(line()), line());
        said.forget();
        assert_eq!(said.news(line()), line());
    }

    #[test]
    fn a_year_of_other_lines_in_every_loop_leaves_those_of_the_last_one() {
        let mut said = SaidLines::default();
        for (number, _) in year::loops() {
            assert_eq!(said.news([format!("h{number} is refused")]).len(), 1);
        }
        assert_eq!(said.0.len(), 1);
    }
}
