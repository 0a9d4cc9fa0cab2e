//! Holds secrets, and redacts them in every other text.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::fmt;
use std::path::Path;
use std::sync::Mutex;

use crate::locks::lock;
use crate::regular_file;

/// The text shown in place of a secret.
pub(crate) const REDACTED: &str = "[redacted]";

/// A shorter secret may be a word of a message, and is not redacted. Cloudflare's secrets have 37 characters or more.
pub(crate) const KNOWN_MIN_BYTES: usize = 16;

/// The most secrets that are redacted. A replaced secret is forgotten after this many later ones.
const KNOWN_MAX: usize = 100;

/// The largest credentials file. A token has 40 to 60 bytes.
const CREDENTIAL_FILE_MAX_BYTES: u64 = 4 * 1024;

const EMPTY: &str = "is empty";

/// Pasting two lines leaves a blank or a line end in the middle.
const NOT_VISIBLE: &str = "holds a blank or a character that is not visible ASCII";

/// For example after `--from-literal=api-token='"…"'`. No token has a quotation mark.
const QUOTED: &str = "has quotation marks: remove them";

/// The secrets of this process, the latest one last.
static KNOWN: Mutex<Vec<Secret>> = Mutex::new(Vec::new());

/// A token or a key. It has no `Display`, its `Debug` says nothing, and only [`Secret::expose`] returns it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    /// Parses a secret from an environment variable or a file. Surrounding blanks and line ends are removed. From then
    /// on, [`redact`] knows the secret.
    ///
    /// # Errors
    /// When nothing is left, when a character could not be sent in a header, or when there is a quotation mark.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        if text.is_empty() {
            return Err(EMPTY);
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(NOT_VISIBLE);
        }
        if text.bytes().any(|byte| matches!(byte, b'"' | b'\'')) {
            return Err(QUOTED);
        }
        let secret = Self(text.into());
        let mut known = lock(&KNOWN);
        if text.len() >= KNOWN_MIN_BYTES && !known.contains(&secret) {
            let surplus = (known.len() + 1).saturating_sub(KNOWN_MAX);
            known.drain(..surplus);
            known.push(secret.clone());
        }
        Ok(secret)
    }

    /// Parses the secret in a file.
    ///
    /// # Errors
    /// The problem, which follows the name of the file in a message.
    pub fn read(path: &Path) -> Result<Self, String> {
        let bytes = regular_file::read(path, CREDENTIAL_FILE_MAX_BYTES)
            .map_err(|error| format!("cannot be read: {error}"))?;
        Self::parse(&String::from_utf8_lossy(&bytes)).map_err(str::to_owned)
    }

    /// The secret itself, for the header in which it is sent.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// `text` with every occurrence of the secret replaced, in upper or lower case.
    fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        // ASCII case folding moves no byte, so a match in one is a match in the other. A match consists of ASCII alone,
        // so both its ends are character boundaries.
        let folded = text.to_ascii_lowercase();
        let needle = self.0.to_ascii_lowercase();
        let mut redacted = String::new();
        let mut done = 0;
        for (at, found) in folded.match_indices(&needle) {
            redacted.push_str(text.get(done..at).unwrap_or_default());
            redacted.push_str(REDACTED);
            done = at + found.len();
        }
        if done == 0 {
            return Cow::Borrowed(text);
        }
        redacted.push_str(text.get(done..).unwrap_or_default());
        Cow::Owned(redacted)
    }
}

/// `text` with every occurrence of every known secret replaced. Code that cuts a text redacts it first, because half
/// a secret would not be found.
pub fn redact(text: &str) -> Cow<'_, str> {
    let mut redacted = Cow::Borrowed(text);
    let known = lock(&KNOWN);
    // The longest one first: a file that was read while it was written gave the beginning of a secret, and replacing
    // that would leave the rest of the whole secret in the text.
    let mut longest_first: Vec<&Secret> = known.iter().collect();
    longest_first.sort_by_key(|secret| Reverse(secret.0.len()));
    for secret in longest_first {
        if let Cow::Owned(text) = secret.redact(&redacted) {
            redacted = Cow::Owned(text);
        }
    }
    redacted
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(REDACTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_and_line_ends_around_a_secret_do_not_belong_to_it() {
        let secret = Secret::parse(" \tabc-DEF_1\r\n").unwrap();
        assert_eq!(secret.expose(), "abc-DEF_1");
    }

    #[test]
    fn what_cannot_be_sent_in_a_header_is_no_secret() {
        for (text, error) in [
            ("", EMPTY),
            (" \n", EMPTY),
            ("two words", NOT_VISIBLE),
            ("two\nlines", NOT_VISIBLE),
            ("nul\0", NOT_VISIBLE),
            ("ümlaut", NOT_VISIBLE),
            ("\"quoted\"", QUOTED),
            (" 'quoted'\n", QUOTED),
        ] {
            assert_eq!(Secret::parse(text), Err(error), "{text:?}");
        }
    }

    #[test]
    fn debug_and_errors_do_not_show_the_secret() {
        let secret = Secret::parse("hunter2hunter2").unwrap();
        assert!(!format!("{secret:?} {:?}", Some(&secret)).contains("hunter2"));
        let error = Secret::parse("hunter2 hunter2").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"));
    }

    #[test]
    fn every_occurrence_is_redacted_in_either_case() {
        let secret = Secret::parse("Abc123").unwrap();
        for (text, expected) in [
            ("nothing here", "nothing here"),
            ("Abc123", "[redacted]"),
            ("é Abc123, abc123é ABC123.", "é [redacted], [redacted]é [redacted]."),
            ("Abc12", "Abc12"),
        ] {
            assert_eq!(secret.redact(text), expected, "{text:?}");
        }
    }

    #[test]
    fn every_secret_that_was_parsed_is_known_unless_it_could_be_a_word() {
        for text in ["a-known-secret-no-1", "A-Known-Secret-No-2", "a-word"] {
            Secret::parse(text).unwrap();
        }
        assert_eq!(redact("a-known-secret-no-2 a-word a-known-secret-no-1"), "[redacted] a-word [redacted]");
    }

    #[test]
    fn a_secret_that_begins_with_another_one_is_redacted_whole() {
        for text in ["half-of-the-token-0123", "half-of-the-token-0123-and-the-rest"] {
            Secret::parse(text).unwrap();
        }
        assert_eq!(redact("half-of-the-token-0123-and-the-rest"), "[redacted]");
    }
}
