//! Finds the Access applications that concern a hostname without a look at all applications: an account may have 500 of
//! them, and the search runs for each of thousands of rules.
//!
//! The index finds the applications near a hostname by the labels after the last one of a destination that has a `*` or
//! cannot be read.

use std::collections::{BTreeMap, BTreeSet};

use crate::ingress::access_check::AccessCheck;
use crate::model::access::{Application, ApplicationKind};
use crate::model::hostname::{in_tree_order, is_within};
use crate::reconcile::access::destination::literal_end;
use crate::reconcile::access::place::Place;
use crate::reconcile::snapshot::Snapshot;

/// An application of ours, with the place in its name. Its destinations may have changed since.
#[derive(Clone, Copy, Debug)]
pub struct OwnApplication<'s> {
    pub place: &'s Place,
    pub application: &'s Application,
}

/// The index of a snapshot's applications. A number is the position of an application in the list.
#[derive(Debug, Default)]
pub(crate) struct ApplicationIndex {
    /// The applications that affect requests, by the literal ends of their destinations' hosts, in tree order.
    near: Vec<(String, usize)>,
    /// The places of our applications, by id.
    places: BTreeMap<Box<str>, Place>,
    /// Our applications, sorted by place.
    ours: Vec<(Place, usize)>,
    /// The audiences whose tokens rules accept, ours or foreign.
    accepted_audiences: BTreeSet<Box<str>>,
}

impl ApplicationIndex {
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        let mut index = Self::default();
        let owner = &*snapshot.operator().owner;
        for (number, application) in snapshot.access.applications().iter().enumerate() {
            if application.kind != ApplicationKind::Unrelated {
                let ends = application.destinations.iter().map(|destination| literal_end(&destination.host));
                index.near.extend(ends.map(|end| (end, number)));
            }
            let place = Place::of_application(application, owner);
            index.places.extend(place.clone().map(|place| (application.id.clone(), place)));
            index.ours.extend(place.map(|place| (place, number)));
        }
        index.near.sort_unstable_by(|(one, _), (other, _)| in_tree_order(one, other));
        index.ours.sort_unstable();
        // Most accounts have no application, and then no rule is looked at.
        if !snapshot.access.applications().is_empty() {
            let checks = snapshot.all_rules().filter_map(|(_, rule)| rule.access_check());
            index.accepted_audiences.extend(checks.flat_map(AccessCheck::audience_tags).cloned());
        }
        index
    }

    /// The numbers of the applications with a destination that may have a name in common with `hostname`, ascending.
    pub(super) fn numbers_near(&self, hostname: &str) -> Vec<usize> {
        let from = |name: &str| {
            let start = self.near.partition_point(|(end, _)| in_tree_order(end, name).is_lt());
            self.near.get(start..).unwrap_or_default().iter()
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
}

impl Snapshot {
    /// The application with its place, if it is ours.
    pub(crate) fn own_application<'s>(&'s self, application: &'s Application) -> Option<OwnApplication<'s>> {
        let place = self.application_index().places.get(&application.id)?;
        Some(OwnApplication { place, application })
    }

    /// Our applications, sorted by place.
    pub fn own_applications(&self) -> impl Iterator<Item = OwnApplication<'_>> {
        self.own_applications_from("")
    }

    /// Our applications of `hostname`, and of all hostnames after it in sorted order.
    fn own_applications_from(&self, hostname: &str) -> impl Iterator<Item = OwnApplication<'_>> + use<'_> {
        let all = self.access.applications();
        let ours = &self.application_index().ours;
        let start = ours.partition_point(|(place, _)| place.hostname().as_str() < hostname);
        let ours = ours.get(start..).unwrap_or_default().iter();
        ours.filter_map(|(place, number)| Some(OwnApplication { place, application: all.get(*number)? }))
    }

    /// Our applications that were made for a hostname, or a path of it.
    pub(super) fn own_applications_of(&self, hostname: &str) -> impl Iterator<Item = OwnApplication<'_>> {
        self.own_applications_from(hostname).take_while(move |own| own.place.hostname().as_str() == hostname)
    }

    /// True if a rule that was read accepts a token of the application.
    pub(super) fn has_rule_accepting(&self, application: &Application) -> bool {
        self.application_index().accepted_audiences.contains(&application.audience)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::snapshot_of_access;
    use crate::model::Hostname;
    use crate::model::access::Destination;
    use crate::reconcile::access::destination::matches_host;
    use crate::reconcile::access::guard::cover;
    use crate::reconcile::access::host_protection::HostProtection;

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
            let snapshot = snapshot_of_access(all);
            for name in names {
                let hostname = Hostname::parse(name).expect("a hostname");
                let near: Vec<&Application> = HostProtection::of(&hostname, &snapshot).near().collect();
                assert!(!matches_host(host, name) || near.len() == 1, "{host:?} takes {name}");
                let of_all = cover(all, &hostname, None);
                assert_eq!(cover(near, &hostname, None), of_all, "{host:?} and {name}");
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
        let mut index = ApplicationIndex { near, ..ApplicationIndex::default() };
        index.near.sort_unstable_by(|(one, _), (other, _)| in_tree_order(one, other));
        assert_eq!(index.numbers_near("shop-7.example.com"), [7]);
        assert_eq!(index.numbers_near("*.example.com").len(), 500);
        assert_eq!(index.numbers_near("shop.example.com"), [0_usize; 0]);
    }
}
