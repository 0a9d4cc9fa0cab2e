//! Reads settings of every kind. A wrong value is noted as a mistake and replaced by a placeholder, so that one start
//! reports every mistake.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use super::names::{Unknown, is_injected, unknown_variable, variables};
use super::setting::{SETTINGS_VARIABLE, Setting, SettingKind, TABLE, Variables};
use crate::model::text::{nearest, quoted, seconds_in};
use crate::secret::{KNOWN_MIN_BYTES, Secret};

/// The given settings, and the mistakes and warnings about them.
pub(super) struct Reader<'a> {
    pub(super) variables: &'a Variables,
    /// For each variable, the name under which it was given, and its text.
    given: BTreeMap<&'static str, (&'static str, &'a str)>,
    /// Each begins with the variable's name.
    pub(super) mistakes: Vec<String>,
    pub(super) warnings: Vec<String>,
}

/// Settings that have to be given together are a group. A group has the name of its first setting.
fn group(variable: &str) -> &str {
    match variable {
        "CF_API_TOKEN_FILE" | "CF_API_KEY" | "CF_API_KEY_FILE" | "CF_API_EMAIL" | "CF_ACCOUNT_ID" => {
            "CF_API_TOKEN"
        }
        _ => variable,
    }
}

impl<'a> Reader<'a> {
    /// Finds the settings among the variables. Surrounding blanks are removed, and an empty value counts as absent.
    pub(super) fn new(environment: &'a Variables) -> Self {
        let mut reader = Self {
            variables: environment,
            given: BTreeMap::new(),
            mistakes: Vec::new(),
            warnings: Vec::new(),
        };
        for (name, text) in environment {
            let text = text.trim();
            match variables().find(|variable| variable == name) {
                None if TABLE.iter().any(|setting| setting.alias == name) => {}
                None => match unknown_variable(name, text) {
                    Some(Unknown::Mistake(hint)) => reader.mistakes.push(hint),
                    Some(Unknown::Warning(hint)) => reader.warnings.push(hint),
                    None => {}
                },
                Some(_) if text.is_empty() => {}
                Some(_) if is_injected(name, text) => {
                    let text = quoted(text);
                    let warning = format!(
                        "{name}={text} is ignored, because Kubernetes sets such a variable for a Service"
                    );
                    reader.warnings.push(warning);
                }
                Some(variable) => {
                    reader.given.insert(variable, (variable, text));
                }
            }
        }
        reader.add_lines();
        reader.add_aliases();
        reader
    }

    /// Takes each setting in the lines of `SETTINGS` that has no variable of its own. A line that resembles no
    /// setting may be a secret, so the mistake gives only the number of the line.
    fn add_lines(&mut self) {
        let mut lines = BTreeMap::new();
        let known = || variables().filter(|variable| *variable != SETTINGS_VARIABLE);
        let (_, text) = self.given.get(SETTINGS_VARIABLE).copied().unwrap_or_default();
        for (number, line) in (1..).zip(text.lines()) {
            let (name, text) = line.split_once('=').unwrap_or_default();
            let (name, text) = (name.trim(), text.trim());
            let folded = name.to_ascii_uppercase().replace('-', "_");
            let meant = nearest(&folded, known(), name.len() / 3);
            let problem = match (known().find(|variable| *variable == name), meant) {
                (Some(variable), _) if lines.insert(variable, text).is_none() => continue,
                (Some(variable), _) => format!("has {variable} twice: keep one"),
                (None, Some(meant)) => {
                    format!("has {}, which is no setting; the nearest is {meant}", quoted(name))
                }
                (None, None) if line.trim().is_empty() => continue,
                (None, None) => format!("has no NAME=value of a setting in its line {number}"),
            };
            self.mistake(SETTINGS_VARIABLE, problem);
        }
        for (variable, text) in lines.into_iter().filter(|(_, text)| !text.is_empty()) {
            self.given.entry(variable).or_insert((variable, text));
        }
    }

    /// Takes a setting under its alias, if no setting of its group is given under our name. Otherwise half of
    /// the credentials could belong to one user and half to another user.
    fn add_aliases(&mut self) {
        let own: Vec<&str> = self.given.keys().copied().collect();
        for Setting { variable, alias, kind, .. } in TABLE {
            let given = self.variables.get(*alias).map(|text| text.trim()).filter(|text| !text.is_empty());
            let Some(text) = given else { continue };
            match own.iter().find(|own| group(own) == group(variable)) {
                None => {
                    self.given.insert(variable, (alias, text));
                }
                Some(own) if *kind == SettingKind::Restriction && self.text(own) != Some(text) => {
                    self.mistake(own, format_args!("and {alias} differ; keep {own}"));
                }
                Some(own) => self.warnings.push(format!("{alias} is ignored, because {own} is set")),
            }
        }
    }

    /// Refuses settings that contain the token or the key. Record comments show `OWNER_ID`, and the log shows others.
    pub(super) fn refuse_misplaced(&mut self, secret: Option<&Secret>) {
        let secret = secret.map(Secret::expose).filter(|secret| secret.len() >= KNOWN_MIN_BYTES);
        let Some(secret) = secret else { return };
        let is_secret = |variable: &str| {
            let mut secrets = TABLE.iter().filter(|setting| setting.kind == SettingKind::Secret);
            variable == SETTINGS_VARIABLE || secrets.any(|setting| setting.variable == variable)
        };
        let misplaced =
            self.given.iter().filter(|(name, (_, text))| !is_secret(name) && text.contains(secret));
        let names: Vec<&str> = misplaced.map(|(name, _)| *name).collect();
        for name in names {
            self.mistake(name, "contains the token or the key: put it only into CF_API_TOKEN or CF_API_KEY");
        }
    }

    /// The name under which a setting was given.
    pub(super) fn name<'v>(&self, variable: &'v str) -> &'v str {
        self.given.get(variable).map_or(variable, |(name, _)| name)
    }

    pub(super) fn mistake(&mut self, variable: &str, problem: impl Display) {
        self.mistakes.push(format!("{} {problem}", self.name(variable)));
    }

    /// Notes a value that is not allowed. A long value is cut, because it would hide the allowed values.
    pub(super) fn wrong(&mut self, variable: &str, given: &str, problem: impl Display) {
        self.mistake(variable, format_args!("is {}: {problem}", quoted(given)));
    }

    /// The given text, or the default; `None` if there is neither.
    pub(super) fn text(&self, variable: &str) -> Option<&'a str> {
        let default =
            || TABLE.iter().find(|setting| setting.variable == variable).map(|setting| setting.default);
        self.given.get(variable).map(|(_, text)| *text).or_else(default).filter(|text| !text.is_empty())
    }

    /// The parsed value of a setting; `None` if its text is absent or wrong.
    pub(super) fn parsed<T, E: Display>(
        &mut self,
        variable: &str,
        parse: impl FnOnce(&'a str) -> Result<T, E>,
    ) -> Option<T> {
        let text = self.text(variable)?;
        parse(text).map_err(|problem| self.wrong(variable, text, problem)).ok()
    }

    pub(super) fn list(&mut self, variable: &str) -> Vec<&'a str> {
        let Some(text) = self.text(variable) else {
            return Vec::new();
        };
        let entries: Vec<&str> = text.split(',').map(str::trim).filter(|entry| !entry.is_empty()).collect();
        if entries.is_empty() {
            // A filter that consists only of commas would include every name.
            self.wrong(variable, text, "a list without an entry");
        }
        entries
    }

    /// The parsed entries of a list. Only the first wrong entry is noted.
    pub(super) fn list_of<T, E: Display>(
        &mut self,
        variable: &str,
        parse: impl Fn(&'a str) -> Result<T, E>,
    ) -> Vec<T> {
        let entries = self.list(variable).into_iter();
        let parsed = entries.map(|entry| parse(entry).map_err(|problem| (entry, problem)));
        parsed.collect::<Result<_, _>>().unwrap_or_else(|(entry, problem)| {
            self.mistake(variable, format_args!("has {}: {problem}", quoted(entry)));
            Vec::new()
        })
    }

    /// Ids of accounts or zones, in Cloudflare's form. A wrong id may be a token in the wrong variable, so the mistake
    /// does not show it.
    pub(super) fn identifiers(&mut self, variable: &str) -> Vec<&'a str> {
        let ids = self.list(variable);
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if !ids.iter().all(|id| id.len() == 32 && id.bytes().all(is_digit)) {
            let problem = "is wrong: an id has 32 hexadecimal digits in lower case, as the dashboard shows \
                 them beside a zone";
            self.mistake(variable, problem);
        }
        ids
    }

    pub(super) fn boolean(&mut self, variable: &str) -> bool {
        self.is_first(variable, ["true", "false"])
    }

    /// True if the setting's value is the first of the two allowed words.
    pub(super) fn is_first(&mut self, variable: &str, [first, second]: [&str; 2]) -> bool {
        let is_first = |text: &str| {
            let is_allowed = text == first || text == second;
            is_allowed.then_some(text == first).ok_or_else(|| format!("allowed are {first} and {second}"))
        };
        self.parsed(variable, is_first).unwrap_or_default()
    }

    pub(super) fn number<N: FromStr + Default>(&mut self, variable: &str, allowed: &str) -> N {
        let number = |text: &str| text.parse().map_err(|_| format!("allowed is {allowed}"));
        self.parsed(variable, number).unwrap_or_default()
    }

    pub(super) fn seconds(&mut self, variable: &str, allowed: RangeInclusive<Duration>) -> Duration {
        let seconds = |text: &str| {
            let seconds = text.parse().ok().or_else(|| seconds_in(text)).map(Duration::from_secs);
            seconds.filter(|seconds| allowed.contains(seconds)).ok_or_else(|| {
                let (least, most) = (allowed.start().as_secs(), allowed.end().as_secs());
                format!("allowed are whole seconds from {least}s to {most}s")
            })
        };
        self.parsed(variable, seconds).unwrap_or_default()
    }

    /// The addresses of a host. `localhost` has two.
    pub(super) fn hosts(&mut self, variable: &str) -> Vec<IpAddr> {
        let hosts = |text: &str| match text.trim_start_matches('[').trim_end_matches(']').parse() {
            Ok(address) => Ok(vec![address]),
            Err(_) if text == "localhost" => Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]),
            Err(_) => Err("allowed are an IP address and localhost"),
        };
        self.parsed(variable, hosts).unwrap_or_default()
    }

    /// Reads a secret, and returns its file too. `given` is the secret, or `file:/path`, or a path if the variable ends
    /// in `_FILE`.
    pub(super) fn secret(&mut self, variable: &str, given: &str) -> Option<(Secret, Option<PathBuf>)> {
        let path = if variable.ends_with("_FILE") { Some(given) } else { given.strip_prefix("file:") };
        let Some(path) = path else {
            if given.starts_with('/') {
                self.mistake(variable, "is a path: write file: before it");
                return None;
            }
            let secret = Secret::parse(given).map_err(|error| self.mistake(variable, error)).ok()?;
            return Some((secret, None));
        };
        // A text without a slash may be the secret itself, so it is not shown.
        let named = if path.contains('/') {
            format!("names the file {}, which", quoted(path))
        } else {
            "names a file in the working folder, which".to_owned()
        };
        let secret = Secret::read(Path::new(path))
            .map_err(|problem| self.mistake(variable, format_args!("{named} {problem}")))
            .ok()?;
        Some((secret, Some(path.into())))
    }
}
