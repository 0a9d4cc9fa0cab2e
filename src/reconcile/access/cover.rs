//! Decides whether Cloudflare Access covers a hostname or a path of it, and no application lets visitors past.
//!
//! An uncertain case counts as open. The decision holds only for this snapshot, and for the path as the request spells
//! it. So the rule also requires the audiences: cloudflared still refuses a request without a token if an application
//! is deleted later, if the edge reads a path differently from cloudflared (`/%61dmin`, `/x/../admin`), or if a
//! wildcard record answers a name that is too deep for a wildcard of Access.

mod requests;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::ingress::PathPattern;
use crate::model::Hostname;
use crate::model::access::{Application, ApplicationKind};
use requests::VisitorRequests;
pub(super) use requests::literal_end;

/// The reason why requests may pass without a login. Applications are identified by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gap {
    /// No application covers every request. These destinations would.
    NoApplication { needed: Vec<String> },
    /// A policy lets, or may let, visitors past.
    Bypass { application: Box<str> },
    /// The application has no policies, or Cloudflare's answer does not list them.
    NoPolicies { application: Box<str> },
    /// Cloudflare's answer has no audience for the application, so a rule could not ask for its tokens.
    NoAudience { application: Box<str> },
    /// The effect of an application of this type is not known.
    UnknownKind { application: Box<str> },
    /// Another wildcard also covers some of the names, and the precedence of the two wildcards is not known.
    Overlap { application: Box<str> },
}

impl fmt::Display for Gap {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoApplication { needed } => write!(
                formatter,
                "no Access application covers every request of the rule: create one for {}, with a policy that selects \
                 the visitors",
                needed.join(" and ")
            ),
            Self::Bypass { application } => write!(
                formatter,
                "the Access application {application:?} covers some of the rule's requests and lets visitors past without a login, \
                 or has a policy of an unknown action: remove that policy, or narrow its destinations"
            ),
            Self::NoPolicies { application } => write!(
                formatter,
                "the Access application {application:?} covers some of the rule's requests and has no policy: add one that \
                 selects the visitors"
            ),
            Self::NoAudience { application } => write!(
                formatter,
                "the Access application {application:?} covers some of the rule's requests and shows no audience tag that a rule \
                 could ask for: delete the application and create it again"
            ),
            Self::UnknownKind { application } => write!(
                formatter,
                "the Access application {application:?} covers some of the rule's requests and is of an unknown type: remove the \
                 destination from the application, or update the webhook"
            ),
            Self::Overlap { application } => write!(
                formatter,
                "two Access wildcards cover names of this hostname, one of them in application {application:?}, and \
                 Cloudflare documents no order: delete one, or create an application for this hostname if it is no wildcard"
            ),
        }
    }
}

/// The audiences of the applications that all requests of a rule meet.
///
/// A path that is no prefix may match anywhere, and so needs an application for the whole hostname.
pub fn cover<'a>(
    applications: impl IntoIterator<Item = &'a Application>,
    hostname: &Hostname,
    path: Option<&str>,
) -> Result<Vec<Box<str>>, Gap> {
    let prefix = path.and_then(PathPattern::prefix_of);
    let requests = VisitorRequests::new(hostname, prefix.as_deref());
    let met = requests.applications(applications.into_iter());
    if let Some(gap) = met.iter().filter_map(|application| gap(application)).min() {
        return Err(gap);
    }
    let Some(host) = requests.covering_host(&met) else {
        return Err(Gap::NoApplication { needed: requests.needed() });
    };
    let rivals = met.iter().filter(|application| requests.has_rival(application, host));
    if let Some(application) = rivals.map(|application| application.name.clone()).min() {
        return Err(Gap::Overlap { application });
    }
    let mut audiences: Vec<Box<str>> = met.iter().map(|application| application.audience.clone()).collect();
    audiences.sort_unstable();
    audiences.dedup();
    Ok(audiences)
}

/// The reason why an application lets, or may let, visitors past.
fn gap(application: &Application) -> Option<Gap> {
    let Application { name, audience, kind, policies, .. } = application;
    let application = name.clone();
    if *kind == ApplicationKind::Unknown {
        return Some(Gap::UnknownKind { application });
    }
    let policies = policies.as_deref().unwrap_or_default();
    if policies.is_empty() {
        return Some(Gap::NoPolicies { application });
    }
    // The position of the policy does not matter: Access evaluates these policies before all others.
    if policies.iter().any(|policy| policy.decision.may_bypass()) {
        return Some(Gap::Bypass { application });
    }
    audience.is_empty().then_some(Gap::NoAudience { application })
}
