//! An index of rules by hostname: each of thousands of rules is looked up without a search through all the others.

use std::collections::BTreeMap;

use super::rule::Rule;
use crate::collections::push_lean;
use crate::model::hostname::{HostPattern, Hostname};

/// The positions of rules in their list, by hostname.
#[derive(Clone, Debug, Default)]
pub struct HostIndex {
    /// The numbers of the rules with an exact hostname.
    exact: BTreeMap<Box<str>, Vec<usize>>,
    /// The numbers of the rules with a wildcard, or for all hosts.
    wide: Vec<usize>,
    /// The position of each rule by its number.
    positions: Vec<usize>,
}

impl HostIndex {
    pub fn of<'a>(rules: impl IntoIterator<Item = &'a Rule>) -> Self {
        let mut hosts = Self::default();
        for (position, rule) in rules.into_iter().enumerate() {
            hosts.add(position, rule.folded_hostname());
        }
        hosts
    }

    /// The positions, ascending, of all rules that may have a host in common with `hostname`; all positions for a
    /// wildcard.
    pub fn near(&self, hostname: &str) -> Vec<usize> {
        let HostPattern::Exact(hostname) = HostPattern::of(hostname) else {
            return (0..self.positions.len()).collect();
        };
        let exact = self.exact.get(hostname).map(Vec::as_slice).unwrap_or_default();
        let numbers = exact.iter().chain(&self.wide);
        let mut near: Vec<usize> =
            numbers.filter_map(|number| self.positions.get(*number).copied()).collect();
        near.sort_unstable();
        near
    }

    /// Inserts a rule for `hostname` at `position`. The rules from there on move back by one position.
    pub(super) fn insert(&mut self, position: usize, hostname: &Hostname) {
        self.positions.iter_mut().filter(|other| **other >= position).for_each(|other| *other += 1);
        self.add(position, hostname.as_str());
    }

    /// Moves the rule at `from` to `to`, counted without that rule.
    pub(super) fn shift(&mut self, from: usize, to: usize) {
        for position in &mut self.positions {
            let without = *position - usize::from(*position > from);
            *position = if *position == from { to } else { without + usize::from(without >= to) };
        }
    }

    fn add(&mut self, position: usize, folded: &str) {
        let numbers = match HostPattern::of(folded) {
            HostPattern::Exact(hostname) => self.exact.entry(hostname.into()).or_default(),
            HostPattern::All | HostPattern::Suffix(_) => &mut self.wide,
        };
        push_lean(numbers, self.positions.len());
        self.positions.push(position);
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
        let hosts = HostIndex::of(&rules);
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
        /// A list of thousands is edited thousands of times, and its positions are found once.
        #[test]
        fn after_each_edit_the_positions_are_those_of_the_list(
            edits in prop::collection::vec((any::<[prop::sample::Index; 2]>(), 0..7_usize), 1..24),
        ) {
            let names = ["a.example.com", "b.example.com", "c.example.com", "*.example.com", "*.b.com"];
            let mut list: Vec<&str> = names.to_vec();
            let mut hosts = HostIndex::of(&list.iter().map(|name| rule(name)).collect::<Vec<_>>());
            for ([from, to], name) in edits {
                if let Some(name) = names.get(name) {
                    let position = to.index(list.len() + 1);
                    list.insert(position, name);
                    hosts.insert(position, &hostname(name));
                } else {
                    let (from, to) = (from.index(list.len()), to.index(list.len()));
                    let moved = list.remove(from);
                    list.insert(to, moved);
                    hosts.shift(from, to);
                }
                let fresh = HostIndex::of(&list.iter().map(|name| rule(name)).collect::<Vec<_>>());
                for name in names {
                    prop_assert_eq!(hosts.near(name), fresh.near(name), "{}", name);
                }
            }
        }
    }
}
