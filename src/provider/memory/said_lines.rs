//! Remembers the lines logged about a lasting state, so that they are not repeated in every loop.

use std::collections::BTreeSet;

use crate::model::LogLine;
use crate::model::log_line::Pair;
use crate::ordered::inserted;

/// The lines of the last loop about one state.
#[derive(Debug, Default)]
pub(crate) struct SaidLines(BTreeSet<LogLine>);

impl SaidLines {
    /// The lines that are new since the last time. A line that is missing from `lines` may be logged again later.
    pub(crate) fn news(&mut self, lines: impl IntoIterator<Item = LogLine>) -> Vec<LogLine> {
        let lines: BTreeSet<LogLine> = inserted(lines);
        let news = lines.difference(&self.0).cloned().collect();
        self.0 = lines;
        news
    }

    /// True if a line is about this hostname, or about several of which not all are named.
    pub(crate) fn may_name(&self, hostname: &str) -> bool {
        let is_it = |pair: &Pair| match &*pair.key {
            "hostname" => pair.value == hostname,
            key => key == "hostnames",
        };
        self.0.iter().any(|line| line.pairs.iter().any(is_it))
    }

    /// Nothing that was logged holds any more.
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
        let line = || [LogLine::default().text("a is refused")];
        assert_eq!(said.news(line()), line());
        assert_eq!(said.news(line()), []);
        assert_eq!(said.news([]), []);
        assert_eq!(said.news(line()), line());
        said.forget();
        assert_eq!(said.news(line()), line());
    }

    #[test]
    fn a_year_of_other_lines_in_every_loop_leaves_those_of_the_last_one() {
        let mut said = SaidLines::default();
        for (number, _) in year::loops() {
            assert_eq!(said.news([LogLine::default().text(format!("h{number} is refused"))]).len(), 1);
        }
        assert_eq!(said.0.len(), 1);
    }
}
