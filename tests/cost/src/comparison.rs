//! Judges the figures of one revision by those of another.

use std::collections::BTreeSet;
use std::fmt;

use crate::SCALES;
use crate::piece::Piece;
use crate::table::{BYTES, Table, figure};

/// The instructions of a piece may grow by a tenth, and shrink by as much before the table no longer tells.
const INSTRUCTIONS_GROWTH_MAX: f64 = 0.10;
const BYTES_GROWTH_MAX: f64 = 0.01;

/// What ten times the work may cost. Sorting and trees cost some more than ten times as much; 100 times is quadratic.
const TENFOLD_MAX: f64 = 15.0;

/// What the work may cost with 500 logins, as a multiple of the same without one.
const PROTECTED_MAX: f64 = 3.0;

#[derive(Debug)]
pub(crate) struct Comparison {
    lines: Vec<Line>,
    growths: Vec<Growth>,
    protections: Vec<Protection>,
}

/// One figure of both.
#[derive(Debug)]
struct Line {
    figure: String,
    before: Option<f64>,
    after: Option<f64>,
}

/// What ten times the work costs, as a multiple.
#[derive(Debug)]
struct Growth {
    piece: &'static str,
    tenfold: f64,
}

/// What a piece costs with logins, as a multiple of the same without one.
#[derive(Debug)]
struct Protection {
    figure: String,
    multiple: f64,
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Alike,
    TooMuch,
    /// So much less that the table should be renewed: it would let the gain be lost again.
    Less,
    /// Only one of the tables has it.
    Unmatched,
}

impl Comparison {
    pub(crate) fn of(before: &Table, after: &Table) -> Self {
        let figures: BTreeSet<&str> = before.figures().chain(after.figures()).collect();
        let lines = figures
            .into_iter()
            .map(|figure| Line {
                figure: figure.to_owned(),
                before: before.value(figure),
                after: after.value(figure),
            })
            .collect();
        let growths = Piece::COMPARED.into_iter().filter_map(|piece| {
            let [one, ten] = SCALES.map(|scale| after.value(&figure(piece.name(), scale)));
            Some(Growth { piece: piece.name(), tenfold: ten? / one? })
        });
        let protections = Piece::COMPARED.into_iter().flat_map(|piece| {
            SCALES.map(|scale| {
                let plain = after.value(&figure(piece.unprotected()?.name(), scale))?;
                let figure = figure(piece.name(), scale);
                let multiple = after.value(&figure)? / plain;
                Some(Protection { figure, multiple })
            })
        });
        Self { lines, growths: growths.collect(), protections: protections.flatten().collect() }
    }

    pub(crate) fn is_within_limits(&self) -> bool {
        let Self { lines, growths, protections } = self;
        lines.iter().all(|line| matches!(line.verdict(), Verdict::Alike | Verdict::Less))
            && growths.iter().all(Growth::is_within_limits)
            && protections.iter().all(Protection::is_within_limits)
    }
}

impl Line {
    fn change(&self) -> Option<f64> {
        Some(self.after? / self.before? - 1.0)
    }

    fn verdict(&self) -> Verdict {
        let most = if self.figure == BYTES { BYTES_GROWTH_MAX } else { INSTRUCTIONS_GROWTH_MAX };
        match self.change() {
            None => Verdict::Unmatched,
            Some(change) if change > most => Verdict::TooMuch,
            Some(change) if change < -most => Verdict::Less,
            Some(_) => Verdict::Alike,
        }
    }
}

impl Growth {
    fn is_within_limits(&self) -> bool {
        self.tenfold <= TENFOLD_MAX
    }
}

impl Protection {
    fn is_within_limits(&self) -> bool {
        self.multiple <= PROTECTED_MAX
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lines, growths, protections } = self;
        writeln!(formatter, "{:22}{:>12}{:>12}{:>9}", "", "before", "now", "change")?;
        for line in lines {
            writeln!(formatter, "{line}")?;
        }
        writeln!(formatter, "\nten times the work costs")?;
        for growth in growths {
            writeln!(formatter, "{growth}")?;
        }
        writeln!(formatter, "\nwith 500 logins it costs")?;
        for protection in protections {
            writeln!(formatter, "{protection}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Line {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { figure, before, after } = self;
        let decimals = if figure == BYTES { 0 } else { 3 };
        let text =
            |value: &Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.decimals$}"));
        let change =
            self.change().map_or_else(|| "-".to_owned(), |change| format!("{:+.1} %", change * 100.0));
        write!(formatter, "{figure:22}{:>12}{:>12}{change:>9}", text(before), text(after))?;
        formatter.write_str(match self.verdict() {
            Verdict::Alike => "",
            Verdict::TooMuch => "  TOO MUCH",
            Verdict::Less => "  less: renew the table",
            Verdict::Unmatched => "  IN ONE TABLE ONLY",
        })
    }
}

impl fmt::Display for Growth {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { piece, tenfold } = self;
        write!(formatter, "{piece:22}{tenfold:12.1} times as much")?;
        formatter.write_str(if self.is_within_limits() {
            ""
        } else {
            "  TOO MUCH: more than its size explains"
        })
    }
}

impl fmt::Display for Protection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { figure, multiple } = self;
        write!(formatter, "{figure:22}{multiple:12.1} times as much")?;
        formatter.write_str(if self.is_within_limits() { "" } else { "  TOO MUCH" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every figure, with those given in place of the usual ones.
    fn table(changed: &[(&str, f64)]) -> Table {
        let mut table = Table::default();
        table.set(BYTES.to_owned(), 3_000_000.0);
        for piece in Piece::COMPARED {
            table.set(figure(piece.name(), 1), 2.0);
            table.set(figure(piece.name(), 10), 21.0);
        }
        changed.iter().for_each(|(figure, value)| table.set((*figure).to_owned(), *value));
        table
    }

    fn is_within_limits(after: &[(&str, f64)]) -> bool {
        Comparison::of(&table(&[]), &table(after)).is_within_limits()
    }

    #[test]
    fn a_tenth_more_instructions_and_a_hundredth_more_bytes_are_the_most() {
        assert!(is_within_limits(&[]));
        assert!(is_within_limits(&[("plan-x1", 2.19), ("records-x10", 23.0), (BYTES, 3_029_000.0)]));
        assert!(!is_within_limits(&[("plan-x1", 2.21)]));
        assert!(!is_within_limits(&[("records-x10", 23.2)]));
        assert!(!is_within_limits(&[(BYTES, 3_031_000.0)]));
    }

    #[test]
    fn less_is_told_and_no_failure() {
        let comparison = Comparison::of(&table(&[]), &table(&[("adjust-x1", 1.5)]));
        assert!(comparison.is_within_limits());
        assert!(comparison.to_string().contains("-25.0 %  less: renew the table"), "{comparison}");
    }

    /// Also where the last release cost as much.
    #[test]
    fn what_costs_more_than_fifteen_times_as_much_at_ten_times_the_size_is_too_much() {
        let quadratic = table(&[("plan-x10", 31.0)]);
        let comparison = Comparison::of(&quadratic, &quadratic);
        assert!(!comparison.is_within_limits());
        assert!(comparison.to_string().contains("15.5 times as much  TOO MUCH"), "{comparison}");
    }

    #[test]
    fn what_costs_more_than_three_times_as_much_with_logins_is_too_much() {
        assert!(is_within_limits(&[("records-protected-x1", 2.1)]));
        let dear = table(&[("records-protected-x1", 6.2), ("records-protected-x10", 62.0)]);
        let comparison = Comparison::of(&dear, &dear);
        assert!(!comparison.is_within_limits());
        assert!(comparison.to_string().contains("3.1 times as much  TOO MUCH\n"), "{comparison}");
    }

    /// Otherwise a piece that is left out, or has another name, would never be judged.
    #[test]
    fn a_figure_that_only_one_table_has_is_a_failure() {
        let all = table(&[]);
        let more = table(&[("another-x1", 1.0)]);
        assert!(!Comparison::of(&all, &more).is_within_limits());
        assert!(!Comparison::of(&more, &all).is_within_limits());
    }
}
