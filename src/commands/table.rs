//! Formats aligned columns, and for a terminal the text behind the columns.

use crate::limits::PROBLEM_MAX_CHARS;
use crate::model::text::one_line;

/// The text of an empty cell, so that each row has as many words as columns.
const EMPTY: &str = "-";

const GAP: &str = "  ";

/// The width of a line on a terminal. A wider terminal stays empty at the right.
const LINE_CHARS: usize = 80;

/// The separator between a row and a line of text below it.
const INDENTATION: &str = "\n    ";

/// Renders one line per row, in columns as wide as their widest cell.
pub(super) fn render(rows: &[Vec<String>]) -> String {
    let ended = |line: &String| format!("{}\n", line.trim_end());
    aligned(rows).iter().map(ended).collect()
}

/// Returns a line for each row, with a gap at its end. Cells may hold foreign text, so control characters are escaped
/// and long texts are cut.
pub(super) fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| cell_text(cell)).collect()).collect();
    let mut widths: Vec<usize> = Vec::new();
    for row in &rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |row: &Vec<String>| {
        row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}{GAP}")).collect()
    };
    rows.iter().map(line).collect()
}

/// Formats a row for a terminal. The text follows the columns if there is room; otherwise each paragraph begins a line
/// below them. An address that is longer than a line is replaced by a number, and added to `links`.
pub(super) fn wrapped(columns: &str, paragraphs: &[&str], links: &mut Vec<String>) -> String {
    let paragraphs = paragraphs.iter().map(|text| cell_text(text));
    let paragraphs: Vec<String> = paragraphs.map(|text| linked(&text, links)).collect();
    if let [text] = &*paragraphs
        && columns.chars().count() + text.chars().count() <= LINE_CHARS
    {
        return format!("{columns}{text}\n");
    }
    let mut text = columns.trim_end().to_owned();
    for paragraph in paragraphs {
        let mut used = LINE_CHARS;
        for word in paragraph.split(' ') {
            let length = word.chars().count();
            let is_full = used + 1 + length > LINE_CHARS;
            used = length + if is_full { INDENTATION.len() - 1 } else { used + 1 };
            text.push_str(if is_full { INDENTATION } else { " " });
            text.push_str(word);
        }
    }
    text + "\n"
}

/// Replaces an address that is longer than a line by a number.
fn linked(text: &str, links: &mut Vec<String>) -> String {
    let is_long = |word: &&str| word.starts_with("https://") && word.len() > LINE_CHARS;
    let Some(link) = text.split(' ').find(is_long) else { return text.to_owned() };
    let index = links.iter().position(|known| known == link).unwrap_or(links.len());
    if index == links.len() {
        links.push(link.to_owned());
    }
    text.replace(link, &format!("[{}]", index + 1))
}

/// The numbered addresses, to be printed below a table.
pub(super) fn footnotes(links: &[String]) -> String {
    let note = |(number, link): (i32, &String)| format!("\n[{number}] {link}\n");
    (1..).zip(links).map(note).collect()
}

fn cell_text(cell: &str) -> String {
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
    fn a_text_that_no_line_has_room_for_stands_below_its_row_and_a_long_address_below_the_table() {
        let (mut links, address) = (Vec::new(), format!("https://example.com/{}", "x".repeat(80)));
        assert_eq!(wrapped("ok  token  ", &["active"], &mut links), "ok  token  active\n");
        let fits = "x".repeat(LINE_CHARS - "ok  token  ".len());
        assert_eq!(wrapped("ok  token  ", &[&fits], &mut links), format!("ok  token  {fits}\n"));
        let words = "four ".repeat(16);
        let found = format!("{words}\n{}", "y".repeat(90));
        let remedy = format!("to do: see {address} or https://example.com");
        let expected = [
            "failed  zones".to_owned(),
            format!("    {}", "four ".repeat(15).trim_end()),
            "    four".to_owned(),
            format!("    \\n{}", "y".repeat(90)),
            "    to do: see [1] or https://example.com".to_owned(),
        ];
        let row = wrapped("failed  zones  ", &[&found, &remedy], &mut links);
        assert_eq!(row.lines().collect::<Vec<_>>(), expected);
        assert_eq!(wrapped("failed  account  ", &[&address], &mut links), "failed  account  [1]\n");
        assert_eq!(footnotes(&links), format!("\n[1] {address}\n"));
    }

    #[test]
    fn whatever_is_in_a_cell_a_row_is_one_line() {
        let rows = [vec!["a\nok  token\u{1b}[2J\u{202e}".to_owned(), "x".repeat(10_000)]];
        let text = render(&rows);
        assert_eq!(text.lines().count(), 1);
        assert!(text.starts_with(r"a\nok  token\u{1b}[2J\u{202e}  xxx") && text.len() < 2_000, "{text}");
    }
}
