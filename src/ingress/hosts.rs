//! Finds the rules that concern a hostname without a look at all the others: each of thousands of rules is asked about.

use std::collections::BTreeMap;

use super::rule::Rule;
use crate::model::hostname::{HostScope, Hostname};
use crate::ordered::sort;

/// The places of rules in their list, by hostname.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    /// The numbers of rules.
    exact: BTreeMap<Box<str>, Vec<usize>>,
    /// Those of rules with a wildcard, or for all hosts.
    wide: Vec<usize>,
    /// The place of each rule by its number; that of a removed one is no rule's.
    places: Vec<usize>,
    rules: usize,
}

impl Hosts {
    pub fn of<'a>(rules: impl IntoIterator<Item = &'a Rule>) -> Self {
        let mut hosts = Self::default();
        for rule in rules {
            hosts.add(hosts.rules, rule.folded_hostname());
        }
        hosts
    }

    /// The places, ascending, of all rules that may have a host in common with `hostname`. A wildcard's are all places.
    pub fn near(&self, hostname: &str) -> Vec<usize> {
        let HostScope::Exact(hostname) = HostScope::of(hostname) else {
            return (0..self.rules).collect();
        };
        let exact = self.exact.get(hostname).map(Vec::as_slice).unwrap_or_default();
        let numbers = exact.iter().chain(&self.wide);
        let mut near: Vec<usize> = numbers.filter_map(|number| self.places.get(*number).copied()).collect();
        sort(&mut near);
        near
    }

    /// A rule for `hostname` comes to stand at `place`, and those from there on one place behind.
    pub(super) fn insert(&mut self, place: usize, hostname: &Hostname) {
        self.shift(place, 1);
        self.add(place, hostname.as_str());
    }

    /// The rule at `place`, which is for `hostname`, goes, and those behind it move up.
    pub(super) fn remove(&mut self, place: usize, hostname: &Hostname) {
        let places = std::mem::take(&mut self.places);
        self.numbers_of(hostname.as_str()).retain(|number| places.get(*number) != Some(&place));
        self.places = places;
        self.rules -= 1;
        self.shift(place + 1, -1);
    }

    fn add(&mut self, place: usize, folded: &str) {
        let number = self.places.len();
        self.places.push(place);
        self.rules += 1;
        let numbers = self.numbers_of(folded);
        if numbers.is_empty() {
            // Most hostnames have one rule.
            numbers.reserve_exact(1);
        }
        numbers.push(number);
    }

    /// The rules at `first` and behind it move by so many places.
    fn shift(&mut self, first: usize, by: isize) {
        for place in self.places.iter_mut().filter(|place| **place >= first) {
            *place = place.saturating_add_signed(by);
        }
    }

    fn numbers_of(&mut self, folded: &str) -> &mut Vec<usize> {
        match HostScope::of(folded) {
            HostScope::Exact(hostname) => self.exact.entry(hostname.into()).or_default(),
            HostScope::All | HostScope::Suffix(_) => &mut self.wide,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::ingress::raw_object::from_json;

    fn rule(hostname: &str) -> Rule {
        Rule::parse(from_json(json!({ "hostname": hostname, "service": "http://a:80" }).to_string()))
    }

    fn hostname(text: &str) -> Hostname {
        Hostname::parse(text).expect("a hostname")
    }

    #[test]
    fn near_are_the_rules_of_the_hostname_and_all_with_a_wildcard_in_their_order() {
        let rules = ["*.b.com", "A.example.com", "b.example.com", "", "a.example.com", "*"].map(rule);
        let hosts = Hosts::of(&rules);
        for (name, near) in [
            ("a.example.com", vec![0, 1, 3, 4, 5]),
            ("b.example.com", vec![0, 2, 3, 5]),
            ("c.example.com", vec![0, 3, 5]),
            ("*.example.com", vec![0, 1, 2, 3, 4, 5]),
        ] {
            assert_eq!(hosts.near(name), near, "{name}");
        }
    }

    proptest! {
        /// A list of thousands is edited thousands of times, and its places are found once.
        #[test]
        fn after_each_edit_the_places_are_those_of_the_list(
            edits in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>(), 0..5_usize), 1..24),
        ) {
            let names = ["a.example.com", "b.example.com", "c.example.com", "*.example.com", "*.b.com"];
            let mut list: Vec<&str> = names.to_vec();
            let mut hosts = Hosts::of(&list.iter().map(|name| rule(name)).collect::<Vec<_>>());
            for (inserts, place, name) in edits {
                if inserts || list.is_empty() {
                    let place = place.index(list.len() + 1);
                    list.insert(place, names[name]);
                    hosts.insert(place, &hostname(names[name]));
                } else {
                    let place = place.index(list.len());
                    hosts.remove(place, &hostname(list.remove(place)));
                }
                let fresh = Hosts::of(&list.iter().map(|name| rule(name)).collect::<Vec<_>>());
                for name in names {
                    prop_assert_eq!(hosts.near(name), fresh.near(name), "{}", name);
                }
            }
        }
    }
}
