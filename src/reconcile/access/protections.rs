//! Finds the Access applications that concern a hostname without a look at all applications: an account may have 500 of
//! them, and the search runs for each of thousands of rules.
//!
//! A `*` has four meanings:
//!
//! | where | `*.example.com` stands for | any other `*` |
//! |---|---|---|
//! | a DNS record (RFC 4592) | each name below at any depth, unless it or a name between exists | a character |
//! | a rule of cloudflared | each name below at any depth | alone, every host; else a character |
//! | a destination of Access | each name one label below | a part of a label |
//! | `DOMAIN_FILTER` | the record of the wildcard alone: `.example.com` stands for each name below | a character |
//!
//! So the index finds the applications near a hostname by the labels after a destination's last `*`. Callers look at
//! only these applications.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::ingress::access::AccessCheck;
use crate::ingress::{PathPattern, Rule};
use crate::model::access::{Application, ApplicationKind, Destination};
use crate::model::hostname::{in_tree_order, is_within};
use crate::reconcile::access::cover::literal_end;
use crate::reconcile::access::place::{self, Place};

/// The index of a list of applications. A number is the position of an application in the list.
#[derive(Debug, Default)]
pub struct ProtectionIndex {
    /// The applications by the literal ends of their destinations' hosts, in tree order.
    near: Vec<(String, usize)>,
    /// Our applications, by the places in their names. Their destinations may have changed since.
    ours: Vec<(Place, usize)>,
    owner: Box<str>,
    tag: String,
    /// The audiences whose tokens rules accept, ours or foreign.
    accepted_audiences: BTreeSet<Box<str>>,
}

/// The Access applications, with their index.
#[derive(Clone, Copy, Debug)]
pub struct Protections<'a> {
    all: &'a [Application],
    index: &'a ProtectionIndex,
}

impl ProtectionIndex {
    /// The index of `applications`, with the audiences whose tokens `rules` accept.
    pub(in crate::reconcile) fn of<'r>(
        applications: &[Application],
        rules: impl Iterator<Item = &'r Rule>,
        owner: &str,
    ) -> Self {
        let mut index = Self { owner: owner.into(), tag: place::tag(owner), ..Self::default() };
        for (number, application) in applications.iter().enumerate() {
            let ends = application.destinations.iter().map(|destination| literal_end(&destination.host));
            index.near.extend(ends.map(|end| (end, number)));
            index.ours.extend(index.place_of(application).map(|place| (place, number)));
        }
        index.near.sort_unstable_by(|(one, _), (other, _)| in_tree_order(one, other));
        index.ours.sort_unstable();
        let checks = rules.filter_map(Rule::access_check);
        index.accepted_audiences.extend(checks.flat_map(AccessCheck::audience_tags).cloned());
        index
    }

    /// As [`Place::of_application`]. The tag is computed once, because thousands of rules need it.
    fn place_of(&self, application: &Application) -> Option<Place> {
        place::has_tag(application, &self.tag)
            .then(|| Place::from_application_name(&application.name, &self.owner))
            .flatten()
    }
}

impl<'a> Protections<'a> {
    pub(in crate::reconcile) fn new(all: &'a [Application], index: &'a ProtectionIndex) -> Self {
        Self { all, index }
    }

    /// The numbers of the applications with a destination that may have a name in common with `hostname`, ascending.
    fn numbers_near(self, hostname: &str) -> Vec<usize> {
        let near = &self.index.near;
        let from = |name: &str| {
            let start = near.partition_point(|(end, _)| in_tree_order(end, name).is_lt());
            near.get(start..).unwrap_or_default().iter()
        };
        let domain = hostname.strip_prefix("*.").unwrap_or(hostname);
        let mut numbers = Vec::new();
        let mut above = Some(domain);
        while let Some(name) = above {
            numbers.extend(from(name).take_while(|(end, _)| end == name).map(|(_, number)| *number));
            above = name.split_once('.').map(|(_, rest)| rest).or_else(|| (!name.is_empty()).then_some(""));
        }
        if domain.len() < hostname.len() {
            numbers.extend(
                from(domain).take_while(|(end, _)| is_within(end, domain)).map(|(_, number)| *number),
            );
        }
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// The applications with a destination that may have a name in common with `hostname`.
    pub(super) fn near(self, hostname: &str) -> impl Iterator<Item = &'a Application> {
        self.numbers_near(hostname).into_iter().filter_map(move |number| self.all.get(number))
    }

    /// Our applications, with the places for which they were made.
    pub fn ours(self) -> impl Iterator<Item = (&'a Place, &'a Application)> {
        self.ours_from("")
    }

    /// Our applications of `hostname`, and of all hostnames after it in sorted order.
    fn ours_from(self, hostname: &str) -> impl Iterator<Item = (&'a Place, &'a Application)> + use<'a> {
        let start = self.index.ours.partition_point(|(place, _)| place.hostname() < hostname);
        let ours = self.index.ours.get(start..).unwrap_or_default().iter();
        ours.filter_map(move |(place, number)| Some((place, self.all.get(*number)?)))
    }

    /// Our applications that were made for the place.
    pub(super) fn ours_of(self, place: &Place) -> impl Iterator<Item = &'a Application> {
        let of_hostname = self.ours_from(place.hostname());
        let of_hostname = of_hostname.take_while(|(one, _)| one.hostname() == place.hostname());
        of_hostname.filter(move |(one, _)| *one == place).map(|(_, application)| application)
    }

    /// True if an application of ours was made for the hostname, a path of it, or the wildcard over it.
    pub(super) fn is_any_over(self, hostname: &str) -> bool {
        let is_at =
            |host: &str| self.ours_from(host).next().is_some_and(|(place, _)| place.hostname() == host);
        is_at(hostname) || hostname.split_once('.').is_some_and(|(_, domain)| is_at(&format!("*.{domain}")))
    }

    /// True if a rule that was read accepts a token of the application.
    pub(super) fn is_accepted(self, application: &Application) -> bool {
        self.index.accepted_audiences.contains(&application.audience)
    }

    /// The applications of all owners that every visitor of the path meets, the most specific one first.
    pub(super) fn all_covering(self, hostname: &str, path: Option<&str>) -> Vec<&'a Application> {
        let prefix = prefix_of(path);
        let mut over = self.partly_covering(hostname, prefix.as_deref());
        over.retain(|one| takes_every_request(one, hostname, prefix.as_deref()));
        over
    }

    /// As [`Self::all_covering`], with applications of everything below the path, which miss the path itself.
    fn partly_covering(self, hostname: &str, prefix: Option<&str>) -> Vec<&'a Application> {
        let ranked = self.near(hostname).filter_map(|application| {
            let destinations = application.destinations.iter();
            let ranks = destinations.filter_map(|one| rank(one, hostname, prefix));
            let is_related = application.kind != ApplicationKind::Unrelated;
            Some((Reverse(ranks.max().filter(|_| is_related)?), application))
        });
        let mut ranked: Vec<_> = ranked.collect();
        ranked.sort_by_key(|(one, _)| *one);
        ranked.into_iter().map(|(_, application)| application).collect()
    }

    /// Our applications that ask visitors of the path, or of everything below it, for a login, the most specific first.
    /// The list ends before an application that lets visitors past, and before an application of another owner.
    pub(super) fn own_covering(self, hostname: &str, path: Option<&str>) -> Vec<&'a Application> {
        let mut over = self.partly_covering(hostname, prefix_of(path).as_deref());
        let is_closed = |one: &&Application| {
            let asks = one.kind == ApplicationKind::SelfHosted && !place::may_be_bypassed(one);
            asks && self.index.place_of(one).is_some()
        };
        over.truncate(over.iter().position(|one| !is_closed(one)).unwrap_or(over.len()));
        over
    }

    /// An application of another owner, or ours of another place, that has one of the place's destinations.
    pub(super) fn in_the_way(self, place: &Place) -> Option<&'a Application> {
        let wanted = place.destinations();
        self.near(place.hostname()).find(|application| {
            let mut destinations = application.destinations.iter();
            application.kind != ApplicationKind::Unrelated
                && destinations.any(|destination| wanted.contains(destination))
                && self.ours_of(place).all(|ours| ours.id != application.id)
        })
    }
}

/// The path that a rule takes with everything below, without the leading slash, if its expression is such a prefix.
fn prefix_of(path: Option<&str>) -> Option<String> {
    let prefix = PathPattern::prefix_of(path?)?;
    Some(prefix.trim_start_matches('/').to_owned())
}

/// The rank of a destination over a path, or over everything below it: an exact host comes before a wildcard, then a
/// longer path counts. Without `prefix`, only a whole host has a rank.
fn rank(
    Destination { host, path }: &Destination,
    hostname: &str,
    prefix: Option<&str>,
) -> Option<(bool, usize, usize)> {
    let is_exact = **host == *hostname;
    let above = directory(path);
    let takes_path = above.is_empty() || prefix.is_some_and(|prefix| place::is_at_or_below(prefix, above));
    (place::matches_host(host, hostname) && takes_path).then_some((is_exact, host.len(), above.len()))
}

/// True if the application takes every request for a path. `alpha/*` misses `alpha`, so an application of the path
/// needs both destinations.
fn takes_every_request(application: &Application, hostname: &str, prefix: Option<&str>) -> bool {
    let of_host = application.destinations.iter().filter(|one| place::matches_host(&one.host, hostname));
    let has = |path: &str| of_host.clone().any(|one| *one.path == *path);
    of_host.clone().any(|one| {
        let above = directory(&one.path);
        let is_over = || rank(one, hostname, prefix).is_some() && one.path.ends_with("/*");
        above.is_empty() || is_over() && (prefix != Some(above) || has(above))
    })
}

/// The path of a destination without the `/*` at its end; empty for a whole host.
fn directory(path: &str) -> &str {
    if path == "*" { "" } else { path.strip_suffix("/*").unwrap_or(path) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Hostname;
    use crate::reconcile::access::cover;

    /// What is not near is never asked about, so a host with a port or a label that cannot be read counts as near.
    #[test]
    fn every_application_that_may_meet_a_hostname_is_near_it() {
        let hosts = [
            "a.example.com",
            "b.a.example.com",
            "*.example.com",
            "*-x.example.com",
            "a*.example.com",
            "*.*.example.com",
            "example.com",
            "*",
            "",
            "com",
            "a b.example.com",
            "a.b c.com",
            "a.example.com.",
            "a.example.com:8080",
            "b\u{fc}.example.com",
            "*.com",
            "*a.example.com",
            "example.org",
        ];
        let names = [
            "a.example.com",
            "b.a.example.com",
            "c-x.example.com",
            "*.example.com",
            "*.a.example.com",
            "*.com",
            "example.com",
            "xn--b-xka.example.com",
            "aa.example.com",
            "localhost",
        ];
        let mut met = 0;
        for host in hosts {
            let application = Application {
                id: "id".into(),
                name: "mine".into(),
                audience: "audience".into(),
                kind: ApplicationKind::SelfHosted,
                destinations: vec![Destination { host: host.into(), path: "".into() }],
                // Met, it is told as a gap of its own.
                policies: None,
                tags: Vec::new(),
                session_duration: None,
                created_unix_seconds: None,
            };
            let all = std::slice::from_ref(&application);
            let index = ProtectionIndex::of(all, std::iter::empty(), "default");
            for name in names {
                let hostname = Hostname::parse(name).expect("a hostname");
                let near: Vec<&Application> = Protections::new(all, &index).near(name).collect();
                assert!(!place::matches_host(host, name) || near.len() == 1, "{host:?} takes {name}");
                let of_all = cover::cover(all, &hostname, None);
                assert_eq!(cover::cover(near, &hostname, None), of_all, "{host:?} and {name}");
                met += usize::from(of_all.is_err_and(|gap| gap.contains("has no policy")));
            }
        }
        assert!(met > 50, "{met}");
    }

    #[test]
    fn of_many_applications_few_are_near_a_hostname() {
        let names: Vec<String> = (0..500).map(|number| format!("shop-{number}.example.com")).collect();
        let near: Vec<(String, usize)> =
            names.iter().zip(0..).map(|(name, number)| (literal_end(name), number)).collect();
        let mut index = ProtectionIndex { near, ..ProtectionIndex::default() };
        index.near.sort_unstable_by(|(one, _), (other, _)| in_tree_order(one, other));
        let protections = Protections::new(&[], &index);
        assert_eq!(protections.numbers_near("shop-7.example.com"), [7]);
        assert_eq!(protections.numbers_near("*.example.com").len(), 500);
        assert_eq!(protections.numbers_near("shop.example.com"), [0_usize; 0]);
    }
}
