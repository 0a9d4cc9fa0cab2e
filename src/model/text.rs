//! Texts of any origin: how many slips of the fingers lie between two names.

use std::mem::swap;

/// So many edits away from a word that was meant, another is taken for it misspelled.
pub(crate) const MISSPELLING_MAX_EDITS: usize = 2;

/// The edits that make `to` of `from`: characters left out, added, taken for another one, or swapped with their neighbour
/// (the optimal string alignment distance). In bytes: names of properties and of variables are ASCII.
pub(crate) fn edit_distance(from: &str, to: &str) -> usize {
    let (from, to) = (from.as_bytes(), to.as_bytes());
    // The rows for one character less and two less of `from`; a cell holds the distance to that much of `to`.
    let mut row: Vec<usize> = (0..=to.len()).collect();
    let mut above = row.clone();
    let mut above_that = row.clone();
    let mut previous = None;
    for (index, &character) in from.iter().enumerate() {
        swap(&mut above_that, &mut above);
        swap(&mut above, &mut row);
        row.clear();
        row.push(index + 1);
        for (column, &wanted) in to.iter().enumerate() {
            let at = |row: &[usize], column: usize| row.get(column).copied().unwrap_or(usize::MAX - 1);
            let mut edits = (at(&above, column) + usize::from(character != wanted))
                .min(at(&above, column + 1) + 1)
                .min(at(&row, column) + 1);
            let before = column.checked_sub(1);
            if let Some(before) = before
                && previous == Some(wanted)
                && to.get(before) == Some(&character)
            {
                edits = edits.min(at(&above_that, before) + 1);
            }
            row.push(edits);
        }
        previous = Some(character);
    }
    row.last().copied().unwrap_or_default()
}

/// Whether `edit_distance` is at most `edits`. What cannot be is told apart without looking closely.
pub(crate) fn is_within(edits: usize, from: &str, to: &str) -> bool {
    // An edit takes one character for another at most.
    let has_the_letters = || (letters(from) ^ letters(to)).count_ones() as usize <= 2 * edits;
    from.len().abs_diff(to.len()) <= edits && has_the_letters() && edit_distance(from, to) <= edits
}

/// Which bytes occur, by their last five bits.
fn letters(text: &str) -> u32 {
    text.bytes().fold(0, |letters, byte| letters | 1 << (byte & 31))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_slip_is_one_edit() {
        for (from, to, edits) in [
            ("", "", 0),
            ("tunnel", "tunnel", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("tunel", "tunnel", 1),
            ("tunnnel", "tunnel", 1),
            ("tummel", "tunnel", 2),
            ("tunnle", "tunnel", 1),
            ("utnnle", "tunnel", 2),
            ("ca", "abc", 3),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(edit_distance(from, to), edits, "{from} {to}");
            assert_eq!(edit_distance(to, from), edits, "{to} {from}");
            for limit in 0..4 {
                assert_eq!(is_within(limit, from, to), edits <= limit, "{from} {to} within {limit}");
            }
        }
    }
}
