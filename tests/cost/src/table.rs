//! The figures of one revision, as a text with a line each: `<figure> <value>`. A line that begins with `#` is for
//! humans.

use std::collections::BTreeMap;
use std::fmt;

/// The figure of the static binary, in bytes.
pub(crate) const BYTES: &str = "bytes";

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Table(BTreeMap<String, f64>);

impl Table {
    /// # Errors
    /// When a line is no figure, or one is there twice.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut table = Self::default();
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
        for line in lines {
            let figure = line.split_whitespace().collect::<Vec<_>>();
            let [name, value] = figure[..] else { return Err(format!("not a figure: {line:?}")) };
            let value = value.parse().ok().filter(|value: &f64| value.is_finite() && *value > 0.0);
            let value = value.ok_or_else(|| format!("not a number above 0: {line:?}"))?;
            if table.0.insert(name.to_owned(), value).is_some() {
                return Err(format!("there twice: {name:?}"));
            }
        }
        Ok(table)
    }

    pub(crate) fn set(&mut self, figure: String, value: f64) {
        self.0.insert(figure, value);
    }

    pub(crate) fn value(&self, figure: &str) -> Option<f64> {
        self.0.get(figure).copied()
    }

    pub(crate) fn figures(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// The name of a piece's figure at a scale.
pub(crate) fn figure(piece: &str, scale: usize) -> String {
    format!("{piece}-x{scale}")
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            formatter,
            "# Bytes of the static binary, and instructions of each piece of work in units: `just cost`."
        )?;
        for (figure, value) in &self.0 {
            let decimals = if figure == BYTES { 0 } else { 3 };
            writeln!(formatter, "{figure:22}{value:12.decimals$}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let mut table = Table::default();
        table.set(BYTES.to_owned(), 3_475_368.0);
        table.set(figure("plan", 10), 4.125);
        let text = table.to_string();
        assert!(
            text.ends_with("bytes                      3475368\nplan-x10                     4.125\n"),
            "{text}"
        );
        assert_eq!(Table::parse(&text), Ok(table));
    }

    #[test]
    fn what_is_no_figure_is_refused() {
        for text in
            ["plan-x1", "plan-x1 1 2", "plan-x1 much", "plan-x1 0", "plan-x1 NaN", "plan-x1 1\nplan-x1 2"]
        {
            assert!(Table::parse(text).is_err(), "{text:?}");
        }
    }
}
