//! Finds the destinations that the requests of one rule may match, and the destinations that take every request.
//!
//! The most specific destination decides alone. Cloudflare does not document how Access compares letter case and
//! percent signs of a path, whether `/alpha` takes `/alpha/x` or `/alphabet`, or which of two overlapping wildcards
//! decides. So a destination counts as met if it may match. A destination covers a request only if its text is
//! exactly the needed text.

use std::borrow::Cow;

use crate::model::access::{Application, Destination};
use crate::model::{Hostname, hostname};

/// The requests that one rule takes.
pub(super) struct VisitorRequests<'a> {
    /// A name, or `*.` and a domain.
    hostname: &'a str,
    /// The path that the rule takes with everything below, without the leading slash; `None` for every path, or if the
    /// path is no plain prefix.
    prefix: Option<&'a str>,
}

impl<'a> VisitorRequests<'a> {
    /// `prefix` begins with a slash. A prefix that Access may read differently counts as every path.
    pub(super) fn new(hostname: &'a Hostname, prefix: Option<&'a str>) -> Self {
        let prefix = prefix.and_then(|prefix| prefix.strip_prefix('/'));
        Self { hostname: hostname.as_str(), prefix: prefix.filter(|prefix| is_plain(prefix)) }
    }

    /// The applications that some of the requests may match.
    pub(super) fn applications<'b>(
        &self,
        applications: impl Iterator<Item = &'b Application>,
    ) -> Vec<&'b Application> {
        let mut met: Vec<&Application> = applications.collect();
        let has_own = self.prefix.is_some_and(|prefix| has_prefix(&met, self.hostname, prefix));
        let may_meet = |destination: &Destination| {
            self.may_meet(destination) && !(has_own && self.is_above(destination))
        };
        met.retain(|application| application.destinations.iter().any(may_meet));
        met
    }

    /// The host of the destinations that take every request: the hostname itself, else a wildcard that matches it.
    pub(super) fn covering_host<'b>(&self, met: &[&'b Application]) -> Option<&'b str> {
        let is_covering = |host: &&str| {
            let takes_prefix = || self.prefix.is_some_and(|prefix| has_prefix(met, host, prefix));
            surely_matches(host, self.hostname)
                && (has(met, host, "") || has(met, host, "*") || takes_prefix())
        };
        let destinations = met.iter().flat_map(|application| &application.destinations);
        let hosts = destinations.map(|destination| &*destination.host).filter(is_covering);
        hosts.min_by_key(|host| (*host != self.hostname, *host))
    }

    /// True if another wildcard of the application may take requests of the covering wildcard. An exact covering
    /// host has no rival, because it comes before every wildcard.
    pub(super) fn has_rival(&self, application: &Application, covering_host: &str) -> bool {
        let labels = |host: &str| host.split('.').count();
        covering_host.contains('*')
            && application.destinations.iter().any(|destination| {
                let host = &*destination.host;
                // A host with more labels than the covering wildcard matches none of the wildcard's names.
                let is_beside = labels(host) <= labels(covering_host);
                host.contains('*') && host != covering_host && is_beside && self.may_meet(destination)
            })
    }

    /// The destinations that would take every request.
    pub(super) fn needed(&self) -> Vec<String> {
        let Self { hostname, prefix } = self;
        match prefix {
            None => vec![(*hostname).to_owned()],
            Some(prefix) => vec![format!("{hostname}/{prefix}"), format!("{hostname}/{prefix}/*")],
        }
    }

    fn may_meet(&self, Destination { host, path }: &Destination) -> bool {
        may_match(host, self.hostname) && self.prefix.is_none_or(|prefix| path_may_match(path, prefix))
    }

    /// True if a destination certainly ranks below the destinations of the prefix: the host is the same, and the path
    /// is shorter. A wildcard host does not count, because Cloudflare documents no order for wildcards.
    fn is_above(&self, Destination { host, path }: &Destination) -> bool {
        **host == *self.hostname
            && !host.contains('*')
            && (path.is_empty() || is_plain(path))
            && self.prefix.is_some_and(|prefix| path.len() < prefix.len())
    }
}

fn has(applications: &[&Application], host: &str, path: &str) -> bool {
    let mut destinations = applications.iter().flat_map(|application| &application.destinations);
    destinations.any(|destination| *destination.host == *host && *destination.path == *path)
}

/// True if one destination is the path and another is all below the path: neither takes the requests of the other.
fn has_prefix(applications: &[&Application], host: &str, prefix: &str) -> bool {
    has(applications, host, prefix) && has(applications, host, &format!("{prefix}/*"))
}

/// True if a destination's host is the hostname, or certainly matches a name that is no wildcard. A `*` in the host
/// stands for a label or a part of a label.
fn surely_matches(host: &str, hostname: &str) -> bool {
    let is_readable = || !hostname.contains('*') && host.split('.').all(is_host_label);
    host == hostname || is_readable() && may_match(host, hostname)
}

/// True if a destination's host may match a name of the rule's hostname. A hostname that begins with `*.` stands for
/// all names below its domain. A label that cannot be read, with all labels before it, may match anything.
fn may_match(host: &str, hostname: &str) -> bool {
    let (domain, is_wildcard) =
        hostname.strip_prefix("*.").map_or((hostname, false), |domain| (domain, true));
    let mut labels = labels_from_the_end(host);
    for text in domain.rsplit('.') {
        match labels.next() {
            None => return false,
            Some(None) => return true,
            Some(Some(label)) if !label_matches(&label, text) => return false,
            Some(Some(_)) => {}
        }
    }
    match labels.next() {
        None => !is_wildcard,
        Some(label) => is_wildcard || label.is_none(),
    }
}

/// The labels of a destination's host, the last one first; `None` for a label that cannot be read.
fn labels_from_the_end(host: &str) -> impl Iterator<Item = Option<Cow<'_, str>>> {
    // The host of a destination has no port or query. No document says how Access reads these, so both are cut off.
    let host = host.split([':', '?', '#']).next().unwrap_or_default();
    host.trim_end_matches('.').rsplit('.').map(|label| {
        // A label with a wildcard has no punycode form.
        let is_foldable = !label.is_ascii() && !label.contains('*');
        let label: Cow<'_, str> = if is_foldable { hostname::fold(label).into() } else { label.into() };
        Some(label).filter(|label| is_host_label(label))
    })
}

/// The labels after the last label of a destination's host that has a `*` or cannot be read. Every name that the host
/// may match equals these labels or is below them.
pub(in crate::reconcile::access) fn literal_end(host: &str) -> String {
    let literal = labels_from_the_end(host).map_while(|label| label.filter(|label| !label.contains('*')));
    let mut labels: Vec<Cow<'_, str>> = literal.collect();
    labels.reverse();
    labels.join(".")
}

/// True for a label with at most one `*`, as Access takes it.
fn is_host_label(label: &str) -> bool {
    let is_fit = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_*".contains(&byte);
    !label.is_empty() && label.bytes().all(is_fit) && label.matches('*').count() <= 1
}

/// True if a label with at most one `*` matches a text.
fn label_matches(label: &str, text: &str) -> bool {
    match label.split_once('*') {
        Some((start, end)) => text.strip_prefix(start).is_some_and(|rest| rest.ends_with(end)),
        None => label == text,
    }
}

/// True for a path, without its leading slash, that browsers and the edge spell in only one way.
fn is_plain(path: &str) -> bool {
    let is_unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    path.bytes().all(is_unreserved) && !has_odd_segments(path)
}

/// True if the edge may rewrite the path, because of two slashes in a row, `.` or `..`.
fn has_odd_segments(path: &str) -> bool {
    let path = path.strip_suffix('/').unwrap_or(path);
    path.split('/').any(|segment| matches!(segment, "" | "." | ".."))
}

/// True if a destination's path may take requests at a plain path or below it.
fn path_may_match(destination: &str, prefix: &str) -> bool {
    if has_odd_segments(destination) {
        return true;
    }
    // From the first of these characters on, a destination may match anything.
    let is_pattern = |character: char| "*%\\?#;".contains(character) || !character.is_ascii_graphic();
    let beginning = destination.split(is_pattern).next().unwrap_or_default().to_ascii_lowercase();
    let prefix = prefix.to_ascii_lowercase();
    // It is not known whether `/alpha` takes `/alphabet`.
    prefix.starts_with(&beginning)
        || beginning.strip_prefix(&*prefix).is_some_and(|rest| rest.starts_with('/'))
}
