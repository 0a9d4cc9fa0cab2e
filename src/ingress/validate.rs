//! cloudflared's own rules about a configuration, and what a rule of ours may hold.
//!
//! One bad rule makes cloudflared refuse the whole document: the old one stays in force, and a replica that
//! starts later answers 503 to everything. So what we write is checked here first, more strictly than
//! cloudflared does: what it accepts and then ignores, or serves as something else, is refused. Rules of
//! others are never judged before a document is written: they are in force already.

use std::error::Error;
use std::fmt;

use serde_json::value::RawValue;

use super::origin_request::{FieldProblem, check, check_type, managed_field};
use super::path::{PathError, PathPattern};
use super::raw_object::{RawObject, integer, is_null, is_same_key, list, raw, text};
use super::rule::{Rule, WantedRule};
use super::service::{Service, ServiceError};
use crate::model::hostname::{Hostname, HostnameError};

/// What cloudflared would refuse in a document, or we in a rule of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule, counted from 0; nothing where the document itself is at fault.
    pub rule: Option<usize>,
    /// What is wrong.
    pub problem: Problem,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rule {
            // cloudflared counts from 1 in its messages.
            Some(index) => write!(formatter, "rule {}: {}", index + 1, self.problem),
            None => self.problem.fmt(formatter),
        }
    }
}

impl Error for Violation {}

/// What is wrong with a document or a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Something has another JSON type than cloudflared reads.
    Type {
        /// Where.
        field: &'static str,
        /// What it has to be.
        expected: &'static str,
    },
    /// A rule other than the last matches every request.
    CatchAllNotLast,
    /// The last rule does not match every request.
    NoCatchAll,
    /// A rule without a hostname, which would take a path of every host.
    NoHostname,
    /// The hostname.
    Hostname(HostnameError),
    /// The path.
    Path(PathError),
    /// The service.
    Service(ServiceError),
    /// A text that is not written as it will be read.
    NotCanonical {
        /// The field of the rule.
        field: &'static str,
        /// How it is to be written.
        canonical: Box<str>,
    },
    /// A field of `originRequest`.
    Origin {
        /// The field, in Cloudflare's spelling.
        field: &'static str,
        /// What is wrong with it.
        problem: FieldProblem,
    },
}

impl Problem {
    /// The field of the rule or of `originRequest` that is at fault; nothing where it is the list's
    /// structure.
    pub fn field(&self) -> Option<&'static str> {
        match self {
            Self::CatchAllNotLast | Self::NoCatchAll => None,
            Self::NoHostname | Self::Hostname(_) => Some("hostname"),
            Self::Path(_) => Some("path"),
            Self::Service(_) => Some("service"),
            Self::Type { field, .. } | Self::NotCanonical { field, .. } | Self::Origin { field, .. } => {
                Some(field)
            }
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type { field, expected } => write!(formatter, "{field} must be {expected}"),
            Self::CatchAllNotLast => {
                formatter.write_str("it matches every request, so no rule behind it would ever be reached")
            }
            Self::NoCatchAll => {
                formatter.write_str("the last rule must match every request: no hostname, no path")
            }
            Self::NoHostname => formatter.write_str("it has no hostname"),
            Self::Hostname(error) => error.fmt(formatter),
            Self::Path(error) => write!(formatter, "path: {error}"),
            Self::Service(error) => error.fmt(formatter),
            Self::NotCanonical { field, canonical } => {
                write!(formatter, "{field} must be written {canonical:?}")
            }
            Self::Origin { field, problem } => write!(formatter, "{field} {problem}"),
        }
    }
}

impl Error for Problem {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Hostname(error) => Some(error),
            Self::Path(error) => Some(error),
            Self::Service(error) => Some(error),
            Self::Type { .. }
            | Self::CatchAllNotLast
            | Self::NoCatchAll
            | Self::NoHostname
            | Self::NotCanonical { .. }
            | Self::Origin { .. } => None,
        }
    }
}

/// Checks a whole configuration, every rule as if it were ours. No rules at all are no violation: cloudflared
/// then answers 503 to everything.
///
/// # Errors
/// The first violation, the structure of the list before its rules.
pub fn validate(config: &RawValue) -> Result<(), Violation> {
    let of_document = |problem| Violation { rule: None, problem };
    if is_null(config) {
        return Ok(());
    }
    let config = RawObject::parse(config)
        .ok_or_else(|| of_document(Problem::Type { field: "config", expected: "an object" }))?;
    let mut rules = Vec::new();
    for (key, value) in config.members().filter(|(_, value)| !is_null(value)) {
        if is_same_key(&key, "ingress") {
            rules = list(value)
                .ok_or_else(|| of_document(Problem::Type { field: "ingress", expected: "a list" }))?;
        } else if is_same_key(&key, "originRequest") {
            check_origin_request(value, check_type).map_err(of_document)?;
        } else if is_same_key(&key, "warp-routing") {
            check_warp_routing(value).map_err(of_document)?;
        }
    }
    check_structure(&rules)?;
    for (index, rule) in rules.iter().enumerate() {
        let is_last = index + 1 == rules.len();
        check_rule(rule, is_last).map_err(|problem| Violation { rule: Some(index), problem })?;
    }
    Ok(())
}

/// Checks a rule of ours.
///
/// # Errors
/// What is wrong with it.
pub fn check_own(rule: &Rule) -> Result<(), Problem> {
    check_rule(rule.raw(), false)
}

/// Checks what is not checked by a wanted rule's types.
pub(super) fn check_wanted(wanted: &WantedRule) -> Result<(), Problem> {
    for (field, value) in &wanted.origin_request {
        check(field, &raw(value)).map_err(|problem| Problem::Origin { field, problem })?;
    }
    Ok(())
}

fn check_structure(rules: &[&RawValue]) -> Result<(), Violation> {
    let Some((last, others)) = rules.split_last() else {
        return Ok(());
    };
    let is_catch_all = |rule: &RawValue| Rule::parse(rule.to_owned()).is_catch_all();
    if let Some(index) = others.iter().position(|rule| is_catch_all(rule)) {
        return Err(Violation { rule: Some(index), problem: Problem::CatchAllNotLast });
    }
    if is_catch_all(last) {
        Ok(())
    } else {
        Err(Violation { rule: Some(others.len()), problem: Problem::NoCatchAll })
    }
}

fn check_rule(rule: &RawValue, is_catch_all: bool) -> Result<(), Problem> {
    let object = RawObject::parse(rule).ok_or(Problem::Type { field: "rule", expected: "an object" })?;
    for (key, value) in object.members().filter(|(_, value)| !is_null(value)) {
        for field in ["hostname", "path", "service"] {
            if is_same_key(&key, field) && text(value).is_none() {
                return Err(Problem::Type { field, expected: "a text" });
            }
        }
        if is_same_key(&key, "originRequest") {
            check_origin_request(value, check)?;
        }
    }
    let rule = Rule::parse(rule.to_owned());
    let canonical = |field, text: &str, canonical: &str| {
        if text == canonical {
            Ok(())
        } else {
            Err(Problem::NotCanonical { field, canonical: canonical.into() })
        }
    };
    let service = Service::parse(rule.service()).map_err(Problem::Service)?;
    canonical("service", rule.service(), service.as_str())?;
    if is_catch_all {
        return Ok(());
    }
    if matches!(rule.hostname(), "" | "*") {
        return Err(Problem::NoHostname);
    }
    let hostname = Hostname::parse(rule.hostname()).map_err(Problem::Hostname)?;
    canonical("hostname", rule.hostname(), hostname.as_str())?;
    rule.path().map_or(Ok(()), |path| PathPattern::parse(path).map(drop).map_err(Problem::Path))
}

/// cloudflared reads every duplicate of a key, so every one is checked.
fn check_origin_request(
    value: &RawValue,
    check: impl Fn(&str, &RawValue) -> Result<(), FieldProblem>,
) -> Result<(), Problem> {
    let object =
        RawObject::parse(value).ok_or(Problem::Type { field: "originRequest", expected: "an object" })?;
    for (key, value) in object.members() {
        if let Some(field) = managed_field(&key) {
            check(field, value).map_err(|problem| Problem::Origin { field, problem })?;
        }
    }
    Ok(())
}

fn check_warp_routing(value: &RawValue) -> Result<(), Problem> {
    let object =
        RawObject::parse(value).ok_or(Problem::Type { field: "warp-routing", expected: "an object" })?;
    for (key, value) in object.members().filter(|(_, value)| !is_null(value)) {
        let is_count = is_same_key(&key, "maxActiveFlows");
        let is_seconds = is_same_key(&key, "connectTimeout") || is_same_key(&key, "tcpKeepAlive");
        if is_count && value.get().parse::<u64>().is_err() || is_seconds && integer(value).is_none() {
            return Err(Problem::Type { field: "warp-routing", expected: "an object of whole numbers" });
        }
    }
    Ok(())
}
