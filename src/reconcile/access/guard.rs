//! `ACCESS_GUARD`: nothing is published that visitors may reach without a login.
//!
//! A rule is published only if Cloudflare Access covers it, and no application lets visitors past. The most specific
//! destination decides alone, and an uncertain case counts as open:
//!
//! - a destination counts as met if it may match;
//! - it covers the rule only if its host surely matches and its path is empty or `*`, or if another destination covers
//!   everything below the rule's prefix, which is its own path.
//!
//! The decision holds only for this snapshot, and for the path as the request spells it. So the rule also requires the
//! audiences: cloudflared still refuses a request without a token if an application is deleted later, if the edge reads
//! a path differently from cloudflared (`/%61dmin`, `/x/../admin`), or if a wildcard record answers a name that is too
//! deep for a wildcard of Access.

#[cfg(test)]
mod tests;

use crate::ingress::PathPattern;
use crate::model::Hostname;
use crate::model::access::{Application, ApplicationKind, Destination};
use crate::reconcile::access::destination::{has_one_spelling, may_match, path_may_match, surely_matches};

/// The applications that requests of a rule meet, sorted by name. Each request meets one of them.
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
) -> Result<Vec<&'a Application>, String> {
    let prefix = path.and_then(PathPattern::prefix_of);
    let prefix = prefix.as_deref().and_then(|prefix| prefix.strip_prefix('/'));
    // A prefix that Access may read differently counts as every path.
    let prefix = prefix.filter(|prefix| has_one_spelling(prefix));
    let requests = VisitorRequests { hostname: hostname.as_str(), prefix };
    let mut met = requests.applications(applications.into_iter());
    met.sort_by_key(|application| &application.name);
    let problems = met.iter().filter_map(|application| Some((&application.name, problem(application)?)));
    if let Some((name, problem)) = problems.min() {
        return Err(format!(
            "the Access application {name:?} covers some of the rule's requests and {problem}"
        ));
    }
    let Some(host) = requests.covering_host(&met) else {
        let name = hostname.as_str();
        let needed = requests
            .prefix
            .map_or_else(|| name.to_owned(), |prefix| format!("{name}/{prefix} and {name}/{prefix}/*"));
        return Err(format!(
            "no Access application covers every request of the rule: create one for {needed}, with a policy \
             that selects the visitors"
        ));
    };
    if let Some(rival) = met.iter().find(|application| requests.has_rival(application, host)) {
        return Err(format!(
            "two Access wildcards cover names of this hostname, one of them in application {:?}, and \
             Cloudflare documents no order: delete one, or create an application for this hostname if it is \
             no wildcard",
            rival.name
        ));
    }
    Ok(met)
}

/// The reason why an application lets, or may let, visitors past, with the remedy.
fn problem(application: &Application) -> Option<&'static str> {
    if application.kind == ApplicationKind::Unknown {
        Some("is of an unknown type: remove the destination from the application, or update the webhook")
    } else if application.policies.as_deref().is_none_or(<[_]>::is_empty) {
        Some("has no policy: add one that selects the visitors")
    } else if application.may_be_bypassed() {
        // The position of the policy does not matter: Access evaluates these policies before all others.
        Some(
            "lets visitors past without a login, or has a policy of an unknown action: remove that policy, \
             or narrow its destinations",
        )
    } else {
        None
    }
}

/// The requests that one rule takes.
struct VisitorRequests<'a> {
    /// A name, or `*.` and a domain.
    hostname: &'a str,
    /// The path that the rule takes with everything below, without the leading slash; `None` for every path, or if the
    /// path is no plain prefix.
    prefix: Option<&'a str>,
}

impl VisitorRequests<'_> {
    /// The applications that some of the requests may match.
    fn applications<'b>(&self, applications: impl Iterator<Item = &'b Application>) -> Vec<&'b Application> {
        let mut met: Vec<&Application> = applications.collect();
        let has_own = self.prefix.is_some_and(|prefix| has_prefix(&met, self.hostname, prefix));
        let may_meet = |destination: &Destination| {
            self.may_meet(destination) && !(has_own && self.is_above(destination))
        };
        met.retain(|application| application.destinations.iter().any(may_meet));
        met
    }

    /// The host of the destinations that take every request: the hostname itself, else a wildcard that matches it.
    fn covering_host<'b>(&self, met: &[&'b Application]) -> Option<&'b str> {
        let is_covering = |host: &&str| {
            let takes_prefix = || self.prefix.is_some_and(|prefix| has_prefix(met, host, prefix));
            surely_matches(host, self.hostname)
                && (has_destination(met, host, "") || has_destination(met, host, "*") || takes_prefix())
        };
        let destinations = met.iter().flat_map(|application| &application.destinations);
        let hosts = destinations.map(|destination| &*destination.host).filter(is_covering);
        hosts.min_by_key(|host| (*host != self.hostname, *host))
    }

    /// True if another wildcard of the application may take requests of the covering wildcard. An exact covering
    /// host has no rival, because it comes before every wildcard.
    fn has_rival(&self, application: &Application, covering_host: &str) -> bool {
        let labels = |host: &str| host.split('.').count();
        covering_host.contains('*')
            && application.destinations.iter().any(|destination| {
                let host = &*destination.host;
                // A host with more labels than the covering wildcard matches none of the wildcard's names.
                let is_beside = labels(host) <= labels(covering_host);
                host.contains('*') && host != covering_host && is_beside && self.may_meet(destination)
            })
    }

    fn may_meet(&self, Destination { host, path }: &Destination) -> bool {
        may_match(host, self.hostname) && self.prefix.is_none_or(|prefix| path_may_match(path, prefix))
    }

    /// True if a destination certainly ranks below the destinations of the prefix: the host is the same, and the path
    /// is shorter. A wildcard host does not count, because Cloudflare documents no order for wildcards.
    fn is_above(&self, Destination { host, path }: &Destination) -> bool {
        **host == *self.hostname
            && !host.contains('*')
            && (path.is_empty() || has_one_spelling(path))
            && self.prefix.is_some_and(|prefix| path.len() < prefix.len())
    }
}

fn has_destination(applications: &[&Application], host: &str, path: &str) -> bool {
    let mut destinations = applications.iter().flat_map(|application| &application.destinations);
    destinations.any(|destination| *destination.host == *host && *destination.path == *path)
}

/// True if one destination is the path and another is all below the path: neither takes the requests of the other.
fn has_prefix(applications: &[&Application], host: &str, prefix: &str) -> bool {
    has_destination(applications, host, prefix) && has_destination(applications, host, &format!("{prefix}/*"))
}
