//! Formats aligned columns.

use crate::limits::PROBLEM_MAX_CHARS;
use crate::model::text::one_line;

/// The text of an empty cell, so that each row has as many words as columns.
const EMPTY: &str = "-";

const GAP: &str = "  ";

/// Renders one line per row, in columns as wide as their widest cell. Cells may hold text of others, so control
/// characters are escaped and long texts cut.
pub(super) fn render(rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| shown(cell)).collect()).collect();
    let mut widths: Vec<usize> = Vec::new();
    for row in &rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width - cell.chars().count()));
            line.push_str(GAP);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn shown(cell: &str) -> String {
    if cell.is_empty() { EMPTY.to_owned() } else { one_line(cell, PROBLEM_MAX_CHARS).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_no_line_ends_in_blanks() {
        let rows = [["a", "bücher", "x"], ["longer", "", ""]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(render(&rows), "a       bücher  x\nlonger  -       -\n");
    }

    #[test]
    fn whatever_is_in_a_cell_a_row_is_one_line() {
        let rows = [vec!["a\nok  token\u{1b}[2J\u{202e}".to_owned(), "x".repeat(10_000)]];
        let text = render(&rows);
        assert_eq!(text.lines().count(), 1);
        assert!(text.starts_with(r"a\nok  token\u{1b}[2J\u{202e}  xxx") && text.len() < 2_000, "{text}");
    }
}
