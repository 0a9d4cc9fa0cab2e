//! Judges if Cloudflare Access covers a hostname, or a path of it, and nothing over it lets visitors past.
//!
//! Whatever is not certain counts as open. The judgement is about a moment: the rule carries the audiences as well, so
//! that cloudflared refuses who comes without a token when an application goes later.

use std::fmt;

use crate::model::Hostname;
use crate::model::access::{Application, ApplicationKind, AttachedPolicy, Destination};

/// What Access does for visitors of a hostname, or of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cover {
    /// Every request meets an application. Their tokens have one of these audiences.
    Protected { audiences: Vec<Box<str>> },
    Open(Gap),
}

/// The reason why requests may pass without a login.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gap {
    /// No application has all of these destinations.
    NoApplication { needed: Vec<String> },
    /// A policy lets visitors past, or may.
    Bypass { application: Box<str> },
    /// The application has no policies, or does not tell them.
    NoPolicies { application: Box<str> },
    /// Nobody knows what an application of this type does.
    UnknownKind { application: Box<str> },
    /// Another wildcard matches some of the names, and which of the two counts is not known.
    Overlap { application: Box<str> },
}

impl fmt::Display for Gap {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoApplication { needed } => write!(
                formatter,
                "no Access application covers all of it: make one with the destination {}, and a policy that says who \
                 may pass",
                needed.join(" and ")
            ),
            Self::Bypass { application } => write!(
                formatter,
                "the Access application {application:?} has a policy that lets visitors past without a login, or one \
                 that is not known"
            ),
            Self::NoPolicies { application } => {
                write!(formatter, "the Access application {application:?} shows no policy")
            }
            Self::UnknownKind { application } => {
                write!(formatter, "the Access application {application:?} is of a type that is not known")
            }
            Self::Overlap { application } => write!(
                formatter,
                "the wildcard of the Access application {application:?} matches some of its names, too, and which of \
                 the two counts is not known"
            ),
        }
    }
}

/// Judges all requests that a rule takes.
pub fn cover(applications: &[Application], hostname: &Hostname, path: Option<&str>) -> Cover {
    // Any other expression may match below any path.
    let prefix: Option<String> = path.and(None);
    let request = Requests { hostname: hostname.as_str(), prefix: prefix.as_deref() };
    let over: Vec<&Application> = applications.iter().filter(|application| request.may_meet(application)).collect();
    if let Some(gap) = over.iter().find_map(|application| gap(application)) {
        return Cover::Open(gap);
    }
    if let Some(application) = over.iter().find(|application| request.is_overlapped_by(application)) {
        return Cover::Open(Gap::Overlap { application: application.name.clone() });
    }
    if !request.is_covered_by(&over) {
        return Cover::Open(Gap::NoApplication { needed: request.needed() });
    }
    let mut audiences: Vec<Box<str>> = over.iter().map(|application| application.audience.clone()).collect();
    audiences.sort_unstable();
    audiences.dedup();
    Cover::Protected { audiences }
}

/// The reason why an application lets visitors past, or may.
fn gap(application: &Application) -> Option<Gap> {
    let name = || application.name.clone();
    match application.policies.as_deref() {
        _ if application.kind == ApplicationKind::Unknown => Some(Gap::UnknownKind { application: name() }),
        None | Some([]) => Some(Gap::NoPolicies { application: name() }),
        Some(policies) => {
            let lets_past = |policy: &AttachedPolicy| policy.decision.may_let_past();
            policies.iter().any(lets_past).then(|| Gap::Bypass { application: name() })
        }
    }
}

/// The requests that one rule takes.
struct Requests<'a> {
    /// A name, or `*.` and a domain.
    hostname: &'a str,
    /// The rule takes this path and what is below it; `None` for every path, or for who knows which.
    prefix: Option<&'a str>,
}

impl Requests<'_> {
    /// True if one of the requests may meet the application.
    fn may_meet(&self, application: &Application) -> bool {
        application.kind != ApplicationKind::Unrelated
            && application.destinations.iter().any(|destination| self.may_be_for(destination))
    }

    fn may_be_for(&self, Destination { host, path }: &Destination) -> bool {
        let host_fits = match self.hostname.strip_prefix("*.") {
            // Whatever is or may be below the domain.
            Some(domain) => host.contains('*') || host.ends_with(&format!(".{domain}")),
            None => matches_host(host, self.hostname),
        };
        host_fits && self.prefix.is_none_or(|prefix| may_overlap(path, prefix.trim_start_matches('/')))
    }

    /// True if a wildcard other than exactly the hostname stands over some of the names.
    fn is_overlapped_by(&self, application: &Application) -> bool {
        let mut destinations = application.destinations.iter();
        destinations.any(|destination| {
            destination.host.contains('*')
                && *destination.host != *self.hostname
                && self.may_be_for(destination)
                // An exact host goes before every wildcard.
                && self.hostname.starts_with("*.")
        })
    }

    /// True if the destinations of these applications take every request.
    fn is_covered_by(&self, over: &[&Application]) -> bool {
        let has = |needed: &str| {
            let mut destinations = over.iter().flat_map(|application| &application.destinations);
            destinations.any(|destination| {
                *destination.host == *self.hostname && destination.path.trim_end_matches('/') == needed
            })
        };
        let is_whole = has("") || has("*");
        let path = self.prefix.map(|prefix| prefix.trim_start_matches('/'));
        is_whole || path.is_some_and(|path| has(path) && has(&format!("{path}/*")))
    }

    /// The destinations that would cover every request.
    fn needed(&self) -> Vec<String> {
        match self.prefix {
            None => vec![self.hostname.to_owned()],
            Some(prefix) => vec![format!("{}{prefix}", self.hostname), format!("{}{prefix}/*", self.hostname)],
        }
    }
}

/// True if a destination's host matches a name. Its `*` stands for a label or a part of one.
fn matches_host(pattern: &str, name: &str) -> bool {
    let (patterns, labels) = (pattern.split('.'), name.split('.'));
    patterns.clone().count() == labels.clone().count()
        && patterns.zip(labels).all(|(pattern, label)| match pattern.split_once('*') {
            Some((start, end)) => {
                label.len() >= start.len() + end.len() && label.starts_with(start) && label.ends_with(end)
            }
            None => pattern == label,
        })
}

/// True if a destination's path may take requests at a path or below it.
fn may_overlap(destination: &str, path: &str) -> bool {
    let literal = destination.split('*').next().unwrap_or_default().trim_end_matches('/');
    let is_at_or_below = |path: &str, above: &str| {
        above.is_empty() || path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    destination.contains('*') && (literal.starts_with(path) || path.starts_with(literal))
        || is_at_or_below(path, literal)
        || is_at_or_below(literal, path)
}
