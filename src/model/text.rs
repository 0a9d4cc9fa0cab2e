//! Handles text of any origin: shows it on one line, quotes it, percent-encodes it, reads durations, and finds what a
//! misspelled word meant.

use std::borrow::Cow;
use std::fmt::{self, Write};
use std::hash::{DefaultHasher, Hasher};

use crate::secret::{REDACTED, redact};

/// The longest part of a value that is shown within a message.
pub(crate) const QUOTED_MAX_CHARS: usize = 120;

/// Shows `text` cut to `max_chars`, and with every character escaped that could end the line or change how the rest is
/// shown. Idempotent.
pub(crate) fn one_line(text: &str, max_chars: usize) -> impl fmt::Display {
    let is_plain = |character: char| character.is_ascii() && !character.is_ascii_control();
    fmt::from_fn(move |formatter| {
        if text.len() <= max_chars && text.chars().all(is_plain) {
            return formatter.write_str(text);
        }
        let mut room = max_chars;
        for character in text.chars() {
            let is_plain = is_plain(character);
            let length = if is_plain { 1 } else { character.escape_debug().count() };
            let Some(left) = room.checked_sub(length) else {
                return formatter.write_char('…');
            };
            room = left;
            if is_plain {
                formatter.write_char(character)?;
            } else {
                write!(formatter, "{}", character.escape_debug())?;
            }
        }
        Ok(())
    })
}

/// A hostname's rule in a message, by its path expression; an empty one is no path.
pub(crate) fn rule_at(path: &str) -> String {
    if path.is_empty() { "rule without a path".to_owned() } else { format!("rule for path {path:?}") }
}

/// Shows `text` in quotation marks, escaped and cut, and without a secret.
pub(crate) fn quoted(text: &str) -> impl fmt::Display {
    fmt::from_fn(move |formatter| {
        let text = redact(text);
        match beginning(&text, QUOTED_MAX_CHARS) {
            Some(beginning) => write!(formatter, "{beginning:?}…"),
            None => write!(formatter, "{text:?}"),
        }
    })
}

/// `text` without secrets; its beginning and an ellipsis if it has more than `max_chars` characters.
pub(crate) fn cut(text: &str, max_chars: usize) -> Cow<'_, str> {
    let text = redact(text);
    match beginning(&text, max_chars) {
        Some(beginning) => Cow::Owned(format!("{beginning}…")),
        None => text,
    }
}

/// `text` with the user and the password of URLs masked, which `cloudflared` ignores. `mark` is the text before them.
pub(crate) fn mask_userinfo(text: &str, mark: &str) -> String {
    let mut parts = text.split(mark);
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|end: char| end.is_whitespace() || "/?#\"".contains(end)).unwrap_or(part.len());
        let userinfo_end = part.get(..end).and_then(|authority| authority.rfind('@')).unwrap_or_default();
        shown += mark;
        shown += if userinfo_end > 0 { REDACTED } else { "" };
        shown += part.get(userinfo_end..).unwrap_or_default();
    }
    shown
}

/// A fingerprint of texts. It distinguishes `["ab", "c"]` from `["a", "bc"]`.
pub(crate) fn fingerprint<'a>(texts: impl IntoIterator<Item = &'a str>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for text in texts {
        hasher.write(text.as_bytes());
        hasher.write_u8(0xff);
    }
    hasher.finish()
}

/// The first `max_chars` characters of `text`; `None` if it has no more than these.
pub(crate) fn beginning(text: &str, max_chars: usize) -> Option<&str> {
    let (end, _) = text.char_indices().nth(max_chars)?;
    text.get(..end)
}

/// Percent-encodes every byte of `text` that is neither an ASCII letter or digit nor one of `kept`.
pub(crate) fn percent_encoded(text: &str, kept: &[u8]) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || kept.contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            write!(encoded, "%{byte:02X}").expect("a String takes what is written to it");
        }
    }
    encoded
}

/// Undoes percent-encoding; `None` if the text is not validly encoded.
pub(crate) fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut parts = text.split('%');
    bytes.extend(parts.next()?.bytes());
    for part in parts {
        let (hex, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(hex, 16).ok().filter(|_| !hex.starts_with('+'))?);
        bytes.extend(rest.bytes());
    }
    String::from_utf8(bytes).ok()
}

/// Parses numbers with the units `h`, `m` and `s`, such as `24h` or `1h30m`, to seconds.
pub(crate) fn seconds_in(text: &str) -> Option<u64> {
    let mut seconds: u64 = 0;
    for part in text.split_inclusive(['h', 'm', 's']) {
        let (number, unit) = part.split_at_checked(part.len() - 1)?;
        let number = number.parse::<u64>().ok().filter(|_| !number.starts_with('+'))?;
        let factor = match unit {
            "h" => 3_600,
            "m" => 60,
            "s" => 1,
            _ => return None,
        };
        seconds = seconds.checked_add(number.checked_mul(factor)?)?;
    }
    (!text.is_empty()).then_some(seconds)
}

/// A word within this many edits of a known word counts as a misspelling of it.
pub(crate) const MISSPELLING_MAX_EDITS: usize = 2;

/// The known word nearest to `word`, at most `edits_max` edits away. If several are equally near, the first one counts.
/// Words with too different letters are rejected quickly.
pub(crate) fn nearest<'k>(
    word: &str,
    known: impl IntoIterator<Item = &'k str>,
    edits_max: usize,
) -> Option<&'k str> {
    // One edit replaces at most one character with another.
    let has_the_letters =
        |known: &&str| ((letters(word) ^ letters(known)).count_ones() as usize).div_ceil(2) <= edits_max;
    let known = known.into_iter().filter(|known| known.len().abs_diff(word.len()) <= edits_max);
    let edits = known.filter(has_the_letters).map(|known| (edit_distance(word, known), known));
    edits.filter(|(edits, _)| *edits <= edits_max).min_by_key(|(edits, _)| *edits).map(|(_, known)| known)
}

/// The number of edits that turn `from` into `to`: characters omitted, added, replaced, or swapped with their neighbour
/// (the optimal string alignment distance). It counts bytes, because names of properties and variables are ASCII.
fn edit_distance(from: &str, to: &str) -> usize {
    /// Stands for no swap. `back` never returns it, because every cell is computed before it is read.
    const FAR: usize = 0xffff;

    let (from, to) = (from.as_bytes(), to.as_bytes());
    let width = to.len() + 1;
    // Row by row, the distances between the beginnings of `from` and those of `to`.
    let mut cells: Vec<usize> = (0..width).collect();
    let (mut above, mut left) = (None, None);
    for (row, character) in (1..).zip(from) {
        cells.push(row);
        for wanted in to {
            let back = |cells_back: usize| {
                cells.len().checked_sub(cells_back).and_then(|place| cells.get(place)).copied().unwrap_or(FAR)
            };
            let replaced = back(width + 1) + usize::from(character != wanted);
            let is_swapped = above == Some(wanted) && left == Some(character);
            let swapped = if is_swapped { back(2 * (width + 1)) + 1 } else { FAR };
            let edits = replaced.min(swapped).min(back(width) + 1).min(back(1) + 1);
            cells.push(edits);
            left = Some(wanted);
        }
        (above, left) = (Some(character), None);
    }
    cells.last().copied().unwrap_or_default()
}

/// The set of bytes that occur, by their last five bits.
fn letters(text: &str) -> u32 {
    text.bytes().fold(0, |letters, byte| letters | 1 << (byte & 31))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_cannot_end_its_line_and_is_cut() {
        assert_eq!(one_line("plain \"text\"", 400).to_string(), "plain \"text\"");
        assert_eq!(one_line("a\nb\u{1b}[2J\u{202e}ü", 400).to_string(), r"a\nb\u{1b}[2J\u{202e}ü");
        assert_eq!(one_line("äbcd", 3).to_string(), "äbc…");
        assert_eq!(one_line("ab\n", 3).to_string(), "ab…", "an escape is not cut in two");
        let long = "é".repeat(3);
        assert_eq!([&*cut(&long, 3), &*cut(&format!("{long}é"), 3)], ["ééé", "ééé…"]);
        let once = one_line("a\r\u{7f}…", 400).to_string();
        assert_eq!(one_line(&once, 400).to_string(), once);
    }

    #[test]
    fn a_quoted_text_cannot_forge_a_log_line_and_is_cut() {
        let long = "ä".repeat(QUOTED_MAX_CHARS + 1);
        let shown = quoted(&long).to_string();
        assert_eq!(shown.chars().count(), QUOTED_MAX_CHARS + 3);
        assert!(shown.ends_with("ä\"…"), "{shown}");
        assert_eq!(quoted("/\n[x] \"y\"").to_string(), r#""/\n[x] \"y\"""#);
    }

    #[test]
    fn no_url_in_a_text_shows_its_user_or_its_password() {
        for (text, shown) in [
            ("http://app:80", "http://app:80"),
            ("http://jo@app:80/a@b", "http://[redacted]@app:80/a@b"),
            ("https://jo:p@ss@app and mail@example.com", "https://[redacted]@app and mail@example.com"),
            ("a://b:c@d?e@f, g://h:i@j#k@l", "a://[redacted]@d?e@f, g://[redacted]@j#k@l"),
            ("://@", "://@"),
        ] {
            assert_eq!(mask_userinfo(text, "://"), shown);
        }
    }

    #[test]
    fn what_is_percent_encoded_is_read_back() {
        for text in ["", "a-b._~", "ü|%41 ", "../?#"] {
            let encoded = percent_encoded(text, b"-._~");
            assert_eq!(percent_decoded(&encoded).as_deref(), Some(text), "{encoded}");
        }
        for text in ["%", "%4", "%zz", "%ff", "%é"] {
            assert_eq!(percent_decoded(text), None, "{text}");
        }
    }

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
            ("abc", "xyz", 3),
        ] {
            assert_eq!(edit_distance(from, to), edits, "{from} {to}");
            assert_eq!(edit_distance(to, from), edits, "{to} {from}");
            for limit in 0..4 {
                let expected = (edits <= limit).then_some(to);
                assert_eq!(nearest(from, [to], limit), expected, "{from} {to} within {limit}");
            }
        }
    }
}
