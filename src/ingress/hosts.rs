//! An index of rules by hostname: each of thousands of rules is looked up without a search through all the others.

use std::collections::BTreeMap;

use super::rule::Rule;
use crate::collections::push_lean;
use crate::model::hostname::HostPattern;

/// The positions of rules in their list, by hostname. Each rule has a number, in the order in which it was added, which
/// stays when the rule's position changes.
#[derive(Clone, Debug, Default)]
pub(super) struct HostIndex {
    /// The numbers of the rules with an exact hostname.
    exact: BTreeMap<Box<str>, Vec<usize>>,
    /// The numbers of the rules with a wildcard, or for all hosts.
    wide: Vec<usize>,
    /// The position of each rule by its number; `None` for a removed rule.
    positions: Vec<Option<usize>>,
}

impl HostIndex {
    pub(super) fn of<'a>(rules: impl IntoIterator<Item = &'a Rule>) -> Self {
        let mut hosts = Self::default();
        for (position, rule) in rules.into_iter().enumerate() {
            hosts.add(position, rule.folded_hostname());
        }
        hosts
    }

    /// The positions, ascending, of all rules that may have a host in common with `hostname`; all positions for a
    /// wildcard.
    pub(super) fn near(&self, hostname: &str) -> Vec<usize> {
        let exact = |hostname| self.exact.get(hostname).map(Vec::as_slice).unwrap_or_default();
        let mut near: Vec<usize> = match HostPattern::of(hostname) {
            HostPattern::Exact(hostname) => {
                let numbers = exact(hostname).iter().chain(&self.wide);
                numbers.filter_map(|number| *self.positions.get(*number)?).collect()
            }
            HostPattern::All | HostPattern::Suffix(_) => self.positions.iter().copied().flatten().collect(),
        };
        near.sort_unstable();
        near
    }

    /// Inserts a rule for `hostname` at `position`. The rules from there on move back by one position.
    pub(super) fn insert(&mut self, position: usize, hostname: &str) {
        self.positions.iter_mut().flatten().filter(|other| **other >= position).for_each(|other| *other += 1);
        self.add(position, hostname);
    }

    /// Removes the rule at `position`. The rules behind it move forward by one position.
    pub(super) fn remove(&mut self, position: usize) {
        for other in &mut self.positions {
            *other =
                other.filter(|other| *other != position).map(|other| other - usize::from(other > position));
        }
    }

    fn add(&mut self, position: usize, folded: &str) {
        let numbers = match HostPattern::of(folded) {
            HostPattern::Exact(hostname) => self.exact.entry(hostname.into()).or_default(),
            HostPattern::All | HostPattern::Suffix(_) => &mut self.wide,
        };
        push_lean(numbers, self.positions.len());
        self.positions.push(Some(position));
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
                    hosts.insert(position, name);
                } else if !list.is_empty() {
                    let from = from.index(list.len());
                    list.remove(from);
                    hosts.remove(from);
                }
                let fresh = HostIndex::of(&list.iter().map(|name| rule(name)).collect::<Vec<_>>());
                for name in names {
                    prop_assert_eq!(hosts.near(name), fresh.near(name), "{}", name);
                }
            }
        }
    }
}
