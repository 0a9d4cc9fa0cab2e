//! Cloudflare Access: applications and policies, as its API returns them.

use std::fmt;

use crate::model::hostname::LABEL_MAX_BYTES;
use crate::model::text::seconds_in;

/// An Access application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Application {
    pub id: Box<str>,
    pub name: Box<str>,
    /// The audience tag of the tokens that Access issues for it.
    pub audience: Box<str>,
    pub kind: ApplicationKind,
    pub destinations: Vec<Destination>,
    /// Its policies in order of precedence; `None` if the answer does not list them.
    pub policies: Option<Vec<AttachedPolicy>>,
    pub tags: Vec<Box<str>>,
    /// As the API writes it: `24h`.
    pub session_duration: Option<Box<str>>,
    /// The creation time, in seconds since 1970.
    pub created_unix_seconds: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplicationKind {
    /// Its policies apply to requests for its destinations.
    SelfHosted,
    /// Like `SelfHosted`, but rendered in the browser: `ssh`, `vnc`, `rdp`.
    Rendered,
    /// It does not affect requests for a hostname: a bookmark, a SaaS application, the app launcher.
    Unrelated,
    /// The type, or the type of a destination, is not known.
    Unknown,
}

/// A public destination: a host and a path. `*` is a wildcard in both.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Destination {
    /// In lower case.
    pub host: Box<str>,
    /// Without its leading slash; empty for the whole host.
    pub path: Box<str>,
}

/// A policy of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachedPolicy {
    pub id: Box<str>,
    pub decision: PolicyDecision,
}

/// A reusable policy of the account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReusablePolicy {
    pub id: Box<str>,
    pub name: Box<str>,
    pub decision: PolicyDecision,
}

/// The effect of a policy on the visitors that match its rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyDecision {
    /// Visitors that match may pass: people, or machines with Service Auth.
    Allow,
    Deny,
    /// Access is off for every visitor that matches.
    Bypass,
    Unknown,
}

/// The name of an account's team: the first label of `my-team.cloudflareaccess.com`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TeamName(Box<str>);

/// The time after which a visitor has to log in again, in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionDuration(u64);

impl Application {
    /// True if the application asks all its visitors for a login.
    pub fn requires_login(&self) -> bool {
        self.kind == ApplicationKind::SelfHosted && !self.may_be_bypassed()
    }

    /// True if a policy lets, or may let, visitors past without a login.
    pub fn may_be_bypassed(&self) -> bool {
        self.policies.iter().flatten().any(|policy| policy.decision.may_bypass())
    }

    /// True if the application asks none of its visitors for a login.
    pub fn lets_all_past(&self) -> bool {
        let policies = self.policies.as_deref().unwrap_or_default();
        self.kind == ApplicationKind::SelfHosted
            && !policies.is_empty()
            && policies.iter().all(|policy| policy.decision == PolicyDecision::Bypass)
    }

    /// The session duration; `None` if no endpoint can ask for that duration.
    pub fn asked_session_duration(&self) -> Option<SessionDuration> {
        self.session_duration
            .as_deref()
            .map_or_else(|| Some(SessionDuration::default()), SessionDuration::parse)
    }
}

impl Default for SessionDuration {
    /// Cloudflare's own default.
    fn default() -> Self {
        Self(24 * 60 * 60)
    }
}

impl SessionDuration {
    /// Parses numbers with the units `h`, `m` and `s`: `24h`, `1h30m`. Go's units below a second make no sense here.
    pub fn parse(text: &str) -> Option<Self> {
        seconds_in(text).map(Self)
    }
}

impl fmt::Display for SessionDuration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            seconds if seconds % 3_600 == 0 => write!(formatter, "{}h", seconds / 3_600),
            seconds if seconds % 60 == 0 => write!(formatter, "{}m", seconds / 60),
            seconds => write!(formatter, "{seconds}s"),
        }
    }
}

impl Destination {
    /// Parses `host/path`, with or without a scheme.
    pub fn parse(text: &str) -> Self {
        let scheme = text.split_once("://").filter(|(scheme, _)| !scheme.contains(['/', '.']));
        let text = scheme.map_or(text, |(_, rest)| rest);
        let (host, path) = text.split_once('/').unwrap_or((text, ""));
        Self { host: host.to_ascii_lowercase().into(), path: path.into() }
    }
}

impl ApplicationKind {
    pub fn parse(text: &str) -> Self {
        match text {
            "self_hosted" => Self::SelfHosted,
            "ssh" | "vnc" | "rdp" => Self::Rendered,
            "app_launcher" | "biso" | "bookmark" | "dash_sso" | "infrastructure" | "mcp" | "mcp_portal"
            | "proxy_endpoint" | "saas" | "warp" => Self::Unrelated,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.host)?;
        if self.path.is_empty() { Ok(()) } else { write!(formatter, "/{}", self.path) }
    }
}

impl PolicyDecision {
    pub fn parse(text: &str) -> Self {
        match text {
            "allow" | "non_identity" => Self::Allow,
            "deny" => Self::Deny,
            "bypass" => Self::Bypass,
            _ => Self::Unknown,
        }
    }

    /// True if visitors may pass without a login.
    pub fn may_bypass(self) -> bool {
        matches!(self, Self::Bypass | Self::Unknown)
    }
}

impl TeamName {
    /// Parses a DNS label in lower case. cloudflared builds a URL from it unchecked, and trusts the keys of that host.
    pub fn parse(text: &str) -> Option<Self> {
        let is_of_label = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let is_label = (1..=LABEL_MAX_BYTES).contains(&text.len()) && text.bytes().all(is_of_label);
        let is_hyphened = text.starts_with('-') || text.ends_with('-');
        (is_label && !is_hyphened).then(|| Self(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_lasts_what_was_written_and_is_told_in_the_largest_whole_unit() {
        for (text, told) in [
            ("24h", "24h"),
            ("1h30m", "90m"),
            ("30m1h", "90m"),
            ("60m", "1h"),
            ("90m", "90m"),
            ("45s", "45s"),
            ("61s", "61s"),
            ("120s", "2m"),
            ("3600s", "1h"),
            ("1h1s", "3601s"),
            ("0s", "0h"),
        ] {
            assert_eq!(
                SessionDuration::parse(text).map(|read| read.to_string()).as_deref(),
                Some(told),
                "{text}"
            );
        }
        for text in [
            "",
            "24",
            "h",
            "1d",
            "1.5h",
            "-1h",
            "1H",
            "1h ",
            "1ü",
            "99999999999999999999h",
            "9999999999999999h",
        ] {
            assert_eq!(SessionDuration::parse(text), None, "{text}");
        }
    }
}
