//! Decides where a rule of ours stands in the list.
//!
//! The first rule that matches a request answers it, so placing a rule decides about requests:
//!
//! 1. It stands in front of every foreign rule that covers it, because no request would reach it otherwise.
//! 2. It stands behind every foreign rule that is in front of the first such one. Those overlap it at most in part, and
//!    keep their requests.
//! 3. Within the run of our rules at that place, uninterrupted by a foreign one, narrower rules stand in front of wider
//!    ones: exact hostnames, deeper wildcards, shallower ones; then paths by [`PathRank`]; then by bytes.
//!
//! A wider rule of ours that covers it is an edge, like the foreign rule of 1.
//!
//! A rule that stands already is only moved if it breaks 1, or breaks 3 towards a rule that it shares hosts with.
//! Somebody may have put a foreign rule behind it that overlaps it in part, and moving ours would hand that rule
//! requests. The order of rules that share no host means nothing.
//!
//! The law is that a request only changes its rule from one that covers ours to ours. It holds because our rule is put
//! directly before the first rule that covers it: a request that now reaches ours was answered by that rule before, or
//! by a rule of ours between the two.

use std::borrow::Cow;
use std::cmp::{Ordering, Reverse};

use super::path::shape::{self, PathRank};
use super::rule::{Rule, WantedRule};
use crate::model::hostname::{HostScope, Hostname};

/// A rule of the list that is being edited.
#[derive(Clone, Debug)]
pub(super) struct Slot<'a> {
    pub(super) rule: Cow<'a, Rule>,
    pub(super) is_own: bool,
}

/// The hostname and path of a rule of ours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scope<'a> {
    pub(super) hostname: &'a Hostname,
    path: Option<&'a str>,
}

impl<'a> Scope<'a> {
    /// An empty path counts as none.
    pub(super) fn new(hostname: &'a Hostname, path: Option<&'a str>) -> Self {
        Self { hostname, path: path.filter(|path| !path.is_empty()) }
    }

    pub(super) fn of(wanted: &'a WantedRule) -> Self {
        Self::new(&wanted.hostname, wanted.path_text())
    }

    /// True if `rule` has this hostname and this path text.
    pub(super) fn is_of(&self, rule: &Rule) -> bool {
        rule.is_for(self.hostname, self.path)
    }

    /// True if `rule` matches every request for this scope, as far as the texts tell.
    pub(super) fn is_covered_by(&self, rule: &Rule) -> bool {
        rule.is_readable()
            && HostScope::of(rule.hostname()).includes(self.hostname)
            && shape::covers(rule.path(), self.path)
    }

    /// True if this scope and `rule` match exactly the same requests: one of them would get none, whatever their order.
    pub(super) fn is_equivalent_to(&self, rule: &Rule) -> bool {
        self.is_covered_by(rule)
            && rule.folded_hostname() == self.hostname.as_str()
            && shape::covers(self.path, rule.path())
    }

    /// True if this scope and `rule`, both ours, have a host in common.
    fn shares_hosts_with(&self, rule: &Rule) -> bool {
        let includes = |wide: &str, narrow: &str| match HostScope::of(wide) {
            HostScope::All => true,
            HostScope::Suffix(suffix) => narrow.trim_start_matches('*').ends_with(suffix),
            HostScope::Exact(text) => text == narrow,
        };
        let (own, other) = (self.hostname.as_str(), rule.folded_hostname());
        includes(own, other) || includes(other, own)
    }

    pub(super) fn key(&self) -> Key<'a> {
        Key::new(self.hostname.as_str(), self.path)
    }
}

/// The order of our rules among themselves: a smaller key stands in front.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key<'a> {
    hosts: HostRank,
    paths: PathRank,
    hostname: &'a str,
    path: Option<&'a str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum HostRank {
    Exact,
    /// By the number of labels, the most first.
    Wildcard(Reverse<usize>),
    All,
}

impl<'a> Key<'a> {
    fn new(hostname: &'a str, path: Option<&'a str>) -> Self {
        let hosts = match HostScope::of(hostname) {
            HostScope::Exact(_) => HostRank::Exact,
            HostScope::Suffix(suffix) => HostRank::Wildcard(Reverse(suffix.split('.').count())),
            HostScope::All => HostRank::All,
        };
        Self { hosts, paths: PathRank::of(path), hostname, path }
    }

    fn of(rule: &'a Rule) -> Self {
        Self::new(rule.folded_hostname(), rule.path())
    }
}

/// The rules of a list at some places, with these.
pub(super) fn slots<'l, 'a>(
    list: &'l [Slot<'a>],
    places: &'l [usize],
) -> impl Iterator<Item = (usize, &'l Slot<'a>)> {
    places.iter().filter_map(|place| Some((*place, list.get(*place)?)))
}

/// The place of a rule for `scope` in a list that has none for it. `near` has the places, ascending, of all rules that may
/// share hosts with it.
pub(super) fn place(list: &[Slot<'_>], near: &[usize], scope: Scope<'_>) -> usize {
    place_before(list, near, list.len(), scope)
}

/// The new place of our rule for `scope`, which was misplaced at `index`. It moves only towards the front, so it never
/// passes a foreign rule behind it.
pub(super) fn place_again(list: &[Slot<'_>], near: &[usize], index: usize, scope: Scope<'_>) -> usize {
    let foreign = list.iter().skip(index).position(|slot| !slot.is_own);
    place_before(list, near, foreign.map_or(list.len(), |offset| index + offset), scope)
}

fn place_before(list: &[Slot<'_>], near: &[usize], end: usize, scope: Scope<'_>) -> usize {
    let key = scope.key();
    let in_front = list.get(..end).unwrap_or_default();
    let mut edges = slots(in_front, near).filter(|(_, slot)| is_edge(slot, scope));
    let edge = edges.next().map_or(end, |(place, _)| place);
    let beginning = edge - run_before(list, edge).len();
    let (mut narrower, mut wider) = (beginning, edge);
    for (place, slot) in slots(list, near) {
        if place < beginning || place >= wider || !scope.shares_hosts_with(&slot.rule) {
            continue;
        }
        match Key::of(&slot.rule).cmp(&key) {
            Ordering::Less => narrower = place + 1,
            Ordering::Equal => {}
            Ordering::Greater => wider = place,
        }
    }
    // Between the two any place will do, so this takes the one that keeps a sorted run sorted. If a wider rule stands
    // in front of a narrower one, those two are misplaced themselves, but this one at least is reached.
    let between = list.get(narrower..wider).unwrap_or_default();
    narrower + between.partition_point(|slot| Key::of(&slot.rule) <= key)
}

/// True if our rule at `index` must move: a rule in front of it covers it, and belongs behind it. `near` has the places of
/// all rules that may share hosts with it.
pub(super) fn is_misplaced(list: &[Slot<'_>], near: &[usize], index: usize, scope: Scope<'_>) -> bool {
    let key = scope.key();
    let in_front = list.get(..index).unwrap_or_default();
    slots(in_front, near).any(|(place, slot)| {
        let is_wider = scope.shares_hosts_with(&slot.rule) && Key::of(&slot.rule) > key;
        // Only our rules directly before it, uninterrupted by a foreign one, are in order with it.
        let mut between = in_front.get(place..).unwrap_or_default().iter();
        is_edge(slot, scope) || is_wider && between.all(|slot| slot.is_own)
    })
}

/// True if a rule for `scope` has to stand in front of this one.
fn is_edge(slot: &Slot<'_>, scope: Scope<'_>) -> bool {
    scope.is_covered_by(&slot.rule) && (!slot.is_own || Key::of(&slot.rule) > scope.key())
}

/// Our rules directly before `end`, uninterrupted by a foreign one.
fn run_before<'list, 'a>(list: &'list [Slot<'a>], end: usize) -> &'list [Slot<'a>] {
    let in_front = list.get(..end).unwrap_or_default();
    let foreign = in_front.iter().rposition(|slot| !slot.is_own);
    in_front.get(foreign.map_or(0, |index| index + 1)..).unwrap_or_default()
}
