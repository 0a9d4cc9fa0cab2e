//! Reads a setting from its flag, variable or file. A wrong value is noted and replaced by a default, so that one start
//! reports every mistake.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::names::{Hint, all_names, hint, is_injected};
use super::{Environment, Mistake};
use crate::cli::Arguments;
use crate::limits;
use crate::model::text::quoted;
use crate::secret::Secret;

/// A wrong id is shown up to this length, that of a tunnel's id. Keys and tokens are longer and are not shown.
const IDENTIFIER_SHOWN_MAX_CHARS: usize = 36;

pub(super) struct SettingsReader<'a> {
    arguments: &'a Arguments,
    pub(super) environment: &'a dyn Environment,
    pub(super) credential_file: Option<PathBuf>,
    pub(super) mistakes: Vec<Mistake>,
    pub(super) warnings: Vec<String>,
}

impl<'a> SettingsReader<'a> {
    pub(super) fn new(arguments: &'a Arguments, environment: &'a dyn Environment) -> Self {
        let (mistakes, warnings) = (Vec::new(), Vec::new());
        Self { arguments, environment, credential_file: None, mistakes, warnings }
    }

    pub(super) fn mistake(&mut self, variable: &'static str, problem: impl Into<String>) {
        self.mistakes.push(Mistake { variable, problem: problem.into() });
    }

    /// Notes a value that is not allowed. A long one is cut, because it would hide the allowed ones.
    pub(super) fn wrong(&mut self, variable: &'static str, given: &str, allowed: &str) {
        self.mistake(variable, format!("is {}; allowed {allowed}", quoted(given)));
    }

    /// The flag, else the variable, else one of its other names. Surrounding blanks are removed, and an empty value
    /// counts as absent.
    pub(super) fn text(&mut self, variable: &'static str) -> Option<String> {
        let trimmed = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        if let Some(text) = self.arguments.flag_for(variable).and_then(trimmed) {
            return Some(text);
        }
        let mut counts: Option<(&str, String)> = None;
        for name in all_names(variable) {
            let Some(text) = self.environment.variable(name).as_deref().and_then(trimmed) else {
                continue;
            };
            if is_injected(name, &text) {
                self.warnings.push(format!(
                    "{name}={} was put there by Kubernetes for a Service and is ignored",
                    quoted(&text)
                ));
                continue;
            }
            match &counts {
                None => counts = Some((name, text)),
                Some((first, said)) if *said != text => {
                    self.warnings.push(format!("{first} and {name} are both set and differ: {first} counts"));
                }
                Some(_) => {}
            }
        }
        counts.map(|(_, text)| text)
    }

    pub(super) fn list(&mut self, variable: &'static str) -> Vec<String> {
        let Some(text) = self.text(variable) else {
            return Vec::new();
        };
        let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        let entries: Vec<String> = entries.map(str::to_owned).collect();
        if entries.is_empty() {
            // A filter of only separators would let everything through.
            self.mistake(variable, format!("is {}, a list without an entry", quoted(&text)));
        }
        entries
    }

    /// Ids in the form that Cloudflare gives accounts and zones.
    pub(super) fn identifiers(&mut self, variable: &'static str) -> Vec<String> {
        let ids = self.list(variable);
        let is_id = |id: &&String| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        if let Some(other) = ids.iter().find(|id| !is_id(id)) {
            // A text longer than any id may be a token in the wrong variable.
            let given = match other.chars().count() {
                length if length > IDENTIFIER_SHOWN_MAX_CHARS => {
                    format!("has an entry of {length} characters")
                }
                _ => format!("is {other:?}"),
            };
            self.mistake(
                variable,
                format!(
                    "{given}; allowed are ids of 32 hexadecimal digits, as the dashboard shows them beside a zone"
                ),
            );
        }
        ids
    }

    /// Warns of environment variables that seem to be meant for this program. One that was to limit what is published is
    /// a mistake: without it more would be published than was meant.
    pub(super) fn unknown_names(&mut self) {
        for name in self.environment.names() {
            match hint(&name, &self.environment.variable(&name).unwrap_or_default()) {
                Some(Hint { text, limit: Some(variable) }) => self.mistake(
                    variable,
                    format!("may be what was meant: {text}; correct that name, or take the variable away"),
                ),
                Some(Hint { text, limit: None }) => self.warnings.push(text),
                None => {}
            }
        }
    }

    pub(super) fn boolean(&mut self, variable: &'static str) -> bool {
        self.is_first(variable, ["true", "false"], false)
    }

    /// True if a setting has the first of two words, or `default` if it is absent.
    pub(super) fn is_first(&mut self, variable: &'static str, words: [&str; 2], default: bool) -> bool {
        let Some(text) = self.text(variable) else {
            return default;
        };
        let [first, second] = words;
        if text != first && text != second {
            self.wrong(variable, &text, &format!("are {first} and {second}"));
        }
        text == first
    }

    /// A secret, given directly, as `file:/path`, or by the variable that names a file. `Some(None)` if it is given but
    /// cannot be used.
    #[allow(clippy::option_option, reason = "absent and unusable are told apart once, by the caller")]
    pub(super) fn secret(
        &mut self,
        variable: &'static str,
        file_variable: &'static str,
    ) -> Option<Option<Secret>> {
        let (given, file) = (self.text(variable), self.text(file_variable));
        if given.is_some() && file.is_some() {
            self.warnings.push(format!("{variable} and {file_variable} are both set: {variable} counts"));
        }
        let (variable, path) = match (given, file) {
            (Some(text), _) => match text.strip_prefix("file:") {
                None => return Some(self.parsed_secret(variable, "", &text)),
                Some(path) => (variable, path.to_owned()),
            },
            (None, Some(path)) => (file_variable, path),
            (None, None) => return None,
        };
        // A text without a slash may be the secret itself.
        let file = if path.contains('/') {
            format!("the file {}", quoted(&path))
        } else {
            "a file in the working folder".to_owned()
        };
        match self.environment.read(Path::new(&path), limits::CREDENTIAL_FILE_MAX_BYTES) {
            Ok(bytes) => {
                self.credential_file = Some(path.into());
                Some(self.parsed_secret(
                    variable,
                    &format!("names {file}, which "),
                    &String::from_utf8_lossy(&bytes),
                ))
            }
            Err(error) => {
                self.mistake(variable, format!("names {file}, which cannot be read: {error}"));
                Some(None)
            }
        }
    }

    pub(super) fn parsed_secret(
        &mut self,
        variable: &'static str,
        which: &str,
        text: &str,
    ) -> Option<Secret> {
        Secret::parse(text).map_err(|error| self.mistake(variable, format!("{which}{error}"))).ok()
    }

    pub(super) fn seconds(
        &mut self,
        variable: &'static str,
        default: Duration,
        allowed: RangeInclusive<Duration>,
    ) -> Duration {
        let Some(text) = self.text(variable) else {
            return default;
        };
        let seconds = text.strip_suffix('s').unwrap_or(&text).parse().map(Duration::from_secs);
        seconds.ok().filter(|seconds| allowed.contains(seconds)).unwrap_or_else(|| {
            let (least, most) = (allowed.start().as_secs(), allowed.end().as_secs());
            self.wrong(variable, &text, &format!("are whole seconds from {least}s to {most}s"));
            default
        })
    }

    pub(super) fn address(&mut self, variable: &'static str, text: &str) -> Option<IpAddr> {
        text.trim_start_matches('[')
            .trim_end_matches(']')
            .parse()
            .map_err(|_| self.wrong(variable, text, "are an IP address and localhost"))
            .ok()
    }

    pub(super) fn port(&mut self, variable: &'static str, default: u16) -> u16 {
        let Some(text) = self.text(variable) else {
            return default;
        };
        text.parse().unwrap_or_else(|_| {
            self.wrong(variable, &text, "is a port from 0 to 65535");
            default
        })
    }
}
