//! Finds the rules that concern a hostname without a look at all the others: each of thousands of rules is asked about.

use std::collections::BTreeMap;

use super::rule::Rule;
use crate::model::hostname::{HostScope, Hostname};

/// The places of rules in their list, by hostname.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    exact: BTreeMap<Box<str>, Vec<usize>>,
    /// Rules with a wildcard, or for all hosts.
    wide: Vec<usize>,
    rules: usize,
}

impl Hosts {
    pub fn of<'a>(rules: impl IntoIterator<Item = &'a Rule>) -> Self {
        let mut hosts = Self::default();
        for rule in rules {
            let place = hosts.rules;
            hosts.add(place, rule.folded_hostname());
        }
        hosts
    }

    /// The places, ascending, of all rules that may have a host in common with `hostname`. A wildcard's are all places.
    pub fn near(&self, hostname: &Hostname) -> Vec<usize> {
        if hostname.is_wildcard() {
            return (0..self.rules).collect();
        }
        let mut near = self.exact.get(hostname.as_str()).cloned().unwrap_or_default();
        for place in &self.wide {
            near.insert(near.partition_point(|other| other < place), *place);
        }
        near
    }

    /// A rule for `hostname` comes to stand at `place`, and those from there on one place behind.
    pub(super) fn insert(&mut self, place: usize, hostname: &Hostname) {
        self.shift(|other| if other < place { other } else { other + 1 });
        self.add(place, hostname.as_str());
    }

    /// The rule at `place`, which is for `hostname`, goes, and those behind it move up.
    pub(super) fn remove(&mut self, place: usize, hostname: &Hostname) {
        self.places_of(hostname.as_str()).retain(|other| *other != place);
        self.rules -= 1;
        self.shift(|other| if other < place { other } else { other - 1 });
    }

    fn add(&mut self, place: usize, folded: &str) {
        self.rules += 1;
        let places = self.places_of(folded);
        let index = places.partition_point(|other| *other < place);
        if places.is_empty() {
            // Most hostnames have one rule.
            places.reserve_exact(1);
        }
        places.insert(index, place);
    }

    fn shift(&mut self, moved: impl Fn(usize) -> usize) {
        self.wide.iter_mut().for_each(|place| *place = moved(*place));
        for places in self.exact.values_mut() {
            places.iter_mut().for_each(|place| *place = moved(*place));
        }
    }

    fn places_of(&mut self, folded: &str) -> &mut Vec<usize> {
        match HostScope::of(folded) {
            HostScope::Exact(hostname) => self.exact.entry(hostname.into()).or_default(),
            HostScope::All | HostScope::Suffix(_) => &mut self.wide,
        }
    }
}
