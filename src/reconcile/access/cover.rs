//! Decides whether Cloudflare Access covers a hostname or a path of it, and no application lets visitors past.
//!
//! An uncertain case counts as open. The decision holds only for this snapshot, and for the path as the request spells
//! it. So the rule also requires the audiences: cloudflared still refuses a request without a token if an application
//! is deleted later, if the edge reads a path differently from cloudflared (`/%61dmin`, `/x/../admin`), or if a
//! wildcard record answers a name that is too deep for a wildcard of Access.

mod requests;
#[cfg(test)]
mod tests;

use crate::ingress::PathPattern;
use crate::model::Hostname;
use crate::model::access::{Application, ApplicationKind};
use crate::reconcile::access::place;
use requests::VisitorRequests;
pub(super) use requests::literal_end;

/// The audiences of the applications that all requests of a rule meet.
///
/// A path that is no prefix may match anywhere, and so needs an application for the whole hostname. `applications` are
/// without unrelated ones, as the index has them.
///
/// # Errors
/// The reason why requests may pass without a login, with the remedy.
pub fn cover<'a>(
    applications: impl IntoIterator<Item = &'a Application>,
    hostname: &Hostname,
    path: Option<&str>,
) -> Result<Vec<Box<str>>, String> {
    let prefix = path.and_then(PathPattern::prefix_of);
    let requests = VisitorRequests::new(hostname, prefix.as_deref());
    let met = requests.applications(applications.into_iter());
    let problems = met.iter().filter_map(|one| Some((&one.name, problem(one)?)));
    if let Some((name, problem)) = problems.min() {
        return Err(format!(
            "the Access application {name:?} covers some of the rule's requests and {problem}"
        ));
    }
    let Some(host) = requests.covering_host(&met) else {
        let needed = requests.needed().join(" and ");
        return Err(format!(
            "no Access application covers every request of the rule: create one for {needed}, with a policy that \
             selects the visitors"
        ));
    };
    let rivals = met.iter().filter(|application| requests.has_rival(application, host));
    if let Some(name) = rivals.map(|application| &application.name).min() {
        return Err(format!(
            "two Access wildcards cover names of this hostname, one of them in application {name:?}, and Cloudflare \
             documents no order: delete one, or create an application for this hostname if it is no wildcard"
        ));
    }
    let mut audiences: Vec<Box<str>> = met.iter().map(|application| application.audience.clone()).collect();
    audiences.sort_unstable();
    audiences.dedup();
    Ok(audiences)
}

/// The reason why an application lets, or may let, visitors past, with the remedy.
fn problem(application: &Application) -> Option<&'static str> {
    if application.kind == ApplicationKind::Unknown {
        Some("is of an unknown type: remove the destination from the application, or update the webhook")
    } else if application.policies.as_deref().is_none_or(<[_]>::is_empty) {
        Some("has no policy: add one that selects the visitors")
    } else if place::may_be_bypassed(application) {
        // The position of the policy does not matter: Access evaluates these policies before all others.
        Some(
            "lets visitors past without a login, or has a policy of an unknown action: remove that policy, or narrow \
             its destinations",
        )
    } else if application.audience.is_empty() {
        Some("shows no audience tag that a rule could ask for: delete the application and create it again")
    } else {
        None
    }
}
