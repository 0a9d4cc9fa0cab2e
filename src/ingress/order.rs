//! Decides the position of a rule of ours in the list.
//!
//! The first rule that matches a request answers it, so the position of a rule decides which requests it answers:
//!
//! 1. A rule of ours is in front of every foreign rule that covers it, because no request would reach it otherwise.
//! 2. If two rules of ours may match one request, the narrower rule is in front. Exact hostnames are narrowest, then
//!    deeper wildcards, then shallower ones; next are paths by [`shape::rank`], then bytes. Foreign rules between them
//!    change nothing.
//! 3. A new rule is behind every other foreign rule that may match its requests, so that the foreign rule keeps them.
//!
//! Rules that share no request have no order; a new one is only sorted among our rules around it. A present rule is
//! moved only if it breaks 1 or 2. Moving it for 3 could give its requests to a foreign rule that was put behind it.
//!
//! A foreign rule may be in front of the new rule's position and behind a wider rule of ours. Then the foreign rule
//! keeps its requests, and the wider rule moves behind the new rule. The wider rule may lose requests to the foreign
//! rule. So the new rule is refused if the wider rule has another hostname and requires a login. Points 1 and 2
//! together outrank point 3: if a foreign rule covers our wider rule, the wider rule is in front of the foreign rule
//! (1) and the new rule in front of the wider rule (2), even if the foreign rule covers the new rule only in part.
//!
//! So the order of creation does not decide which of our rules answers a request. A foreign rule loses requests only to
//! rules of ours that it covers, and to narrower rules that point 2 puts in front of those.

use std::borrow::Cow;
use std::cmp::{Ordering, Reverse};
use std::collections::BTreeSet;

use super::hosts::HostIndex;
use super::path::shape::{self, PathRank};
use super::rule::{Rule, WantedRule};
use crate::model::hostname::{HostPattern, Hostname};

/// A rule of the list that is being edited.
#[derive(Clone, Debug)]
pub(super) struct MarkedRule<'a> {
    pub(super) rule: Cow<'a, Rule>,
    pub(super) is_own: bool,
    /// True if the edits remove the rule, so that it need not be in order.
    pub(super) is_going: bool,
    /// The rank of the rule's path, found once because it may compile the path.
    rank: PathRank,
}

/// The hostname, in normal form, and the path of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HostPath<'a> {
    pub(super) hostname: &'a str,
    path: Option<&'a str>,
}

impl<'a> MarkedRule<'a> {
    pub(super) fn new(rule: Cow<'a, Rule>, is_own: bool) -> Self {
        let rank = shape::rank(rule.path());
        Self { rule, is_own, is_going: false, rank }
    }

    fn key(&self) -> Key<'_> {
        HostPath::of(&self.rule).key_of_rank(self.rank)
    }

    /// True if one of the scopes is the hostname and path of the rule.
    pub(super) fn is_one_of(&self, scopes: &BTreeSet<HostPath<'_>>) -> bool {
        self.rule.is_readable() && scopes.contains(&HostPath::of(&self.rule))
    }
}

impl<'a> HostPath<'a> {
    /// An empty path counts as none.
    pub(super) fn new(hostname: &'a Hostname, path: Option<&'a str>) -> Self {
        Self { hostname: hostname.as_str(), path: path.filter(|path| !path.is_empty()) }
    }

    pub(super) fn wanted(wanted: &'a WantedRule) -> Self {
        Self::new(&wanted.hostname, wanted.path_text())
    }

    pub(super) fn of(rule: &'a Rule) -> Self {
        Self { hostname: rule.folded_hostname(), path: rule.path() }
    }

    /// True if `rule` has this hostname and this path text.
    pub(super) fn is_of(&self, rule: &Rule) -> bool {
        rule.is_readable() && HostPath::of(rule) == *self
    }

    /// True if `rule` matches every request for this scope, as far as the texts tell.
    pub(super) fn is_covered_by(&self, rule: &Rule) -> bool {
        rule.matches_all(self.hostname, self.path)
    }

    /// True if this scope and `rule` match exactly the same requests: in any order, one of the two would get none.
    pub(super) fn is_equivalent_to(&self, rule: &Rule) -> bool {
        self.is_covered_by(rule)
            && rule.folded_hostname() == self.hostname
            && shape::covers(self.path, rule.path())
    }

    /// True if the two have a host in common.
    fn shares_hosts_with(self, other: HostPath<'_>) -> bool {
        let includes = |wide: &str, narrow| HostPattern::of(wide).includes(narrow);
        includes(self.hostname, other.hostname) || includes(other.hostname, self.hostname)
    }

    /// True unless the texts prove that no request is for both.
    pub(super) fn may_share_with(self, other: HostPath<'_>) -> bool {
        self.shares_hosts_with(other) && shape::may_share(self.path, other.path)
    }

    /// The key by which our rules are sorted: a smaller key is in front.
    pub(super) fn key(self) -> Key<'a> {
        self.key_of_rank(shape::rank(self.path))
    }

    fn key_of_rank(self, rank: PathRank) -> Key<'a> {
        let labels = match HostPattern::of(self.hostname) {
            HostPattern::Exact(_) => usize::MAX,
            HostPattern::Suffix(suffix) => suffix.split('.').count(),
            HostPattern::All => 0,
        };
        (Reverse(labels), rank, self)
    }
}

/// The number of labels of a wildcard, with an exact hostname as the deepest; then the path; then the bytes.
pub(super) type Key<'a> = (Reverse<usize>, PathRank, HostPath<'a>);

/// The rules of a list that may share hosts with a hostname.
#[derive(Clone, Debug)]
pub(super) struct NearbyRules<'l, 'a> {
    list: &'l [MarkedRule<'a>],
    /// Ascending.
    positions: Vec<usize>,
}

impl<'l, 'a> NearbyRules<'l, 'a> {
    pub(super) fn new(list: &'l [MarkedRule<'a>], hosts: &HostIndex, hostname: &Hostname) -> Self {
        Self { list, positions: hosts.near(hostname.as_str()) }
    }

    /// The rules, each with its position.
    pub(super) fn slots(&self) -> impl Iterator<Item = (usize, &'l MarkedRule<'a>)> {
        self.positions.iter().filter_map(|position| Some((*position, self.list.get(*position)?)))
    }

    /// The rules in front of `end`.
    pub(super) fn front(&self, end: usize) -> impl Iterator<Item = (usize, &'l MarkedRule<'a>)> {
        self.slots().take_while(move |(position, _)| *position < end)
    }

    /// The position of the first foreign rule in front of `end` for which `is_such` is true.
    pub(super) fn foreign(&self, end: usize, is_such: impl Fn(&Rule) -> bool) -> Option<usize> {
        self.front(end).find(|(_, slot)| !slot.is_own && is_such(&slot.rule)).map(|(position, _)| position)
    }

    /// True if our rule at `index` must move: a foreign rule in front of it covers it, or a wider rule of ours is in
    /// front of it.
    pub(super) fn is_misplaced(&self, index: usize, scope: HostPath<'_>) -> bool {
        let is_hidden = self.foreign(index, |rule| scope.is_covered_by(rule)).is_some();
        is_hidden || !self.ours(index, scope, Ordering::Greater).is_empty()
    }

    /// The last position, at `end` or in front of it, that is allowed for a rule for `scope`, and the positions of our
    /// rules that have to move there.
    pub(super) fn position(&self, end: usize, scope: HostPath<'_>) -> (usize, Vec<usize>) {
        let covers = |rule: &Rule| scope.is_covered_by(rule);
        let end = self.foreign(end, covers).unwrap_or(end);
        let key = scope.key();
        // In front of our wider rule that covers it, the new rule takes requests only from that rule. A moved rule may
        // take others.
        let is_such = |slot: &MarkedRule<'_>| slot.is_own && covers(&slot.rule) && slot.key() > key;
        let own = self.front(end).find(|(_, slot)| is_such(slot));
        let placed = own.map(|(position, _)| self.position_behind_foreign(position, scope));
        // A rule of ours that moves to the front must not take requests of a foreign rule that it passes.
        let takes = |index: &usize, position| *index >= position && self.passed(*index, position).is_some();
        let placed = placed.filter(|(position, moved)| !moved.iter().any(|index| takes(index, *position)));
        placed.unwrap_or_else(|| self.position_behind_foreign(end, scope))
    }

    /// Our rules that a put for `scope` moves behind a foreign rule, each with the foreign rule that takes requests
    /// of it.
    pub(super) fn losing(&self, scope: HostPath<'_>) -> Vec<(&'l Rule, &'l Rule)> {
        let key = scope.key();
        let is_wider = |slot: &MarkedRule<'_>| slot.is_own && slot.key() > key;
        if !self.slots().any(|(_, slot)| is_wider(slot)) {
            return Vec::new();
        }
        let mut live =
            self.slots().filter(|(_, slot)| scope.is_of(&slot.rule) && scope.is_covered_by(&slot.rule));
        let live = live.next().map(|(position, _)| position);
        if live.is_some_and(|position| !self.is_misplaced(position, scope)) {
            return Vec::new();
        }
        let (position, moved) = self.position(live.unwrap_or(self.list.len()), scope);
        let losing = moved.into_iter().filter(|index| *index < position);
        losing
            .filter_map(|index| Some((&*self.list.get(index)?.rule, self.passed(index, position)?)))
            .collect()
    }

    /// The first foreign rule between `index` and `position` that may share requests with our rule at `index`.
    fn passed(&self, index: usize, position: usize) -> Option<&'l Rule> {
        let own = HostPath::of(&self.list.get(index)?.rule);
        let mut passed = self.list.get(index.min(position)..index.max(position))?.iter();
        let shares = |slot: &&MarkedRule<'_>| !slot.is_own && own.may_share_with(HostPath::of(&slot.rule));
        passed.find(shares).map(|slot| &*slot.rule)
    }

    /// The last position up to `end` that is behind every foreign rule that may share a request with the rule for
    /// `scope`. If a foreign rule covers a rule that has to move there, the position is in front of that foreign rule.
    fn position_behind_foreign(&self, end: usize, scope: HostPath<'_>) -> (usize, Vec<usize>) {
        let key = scope.key();
        let is_wider = |slot: &MarkedRule<'_>| slot.key() > key;
        // Our first wider rule behind the last foreign rule, of the rules that may share a request with `scope`.
        let mut position = end;
        for (index, slot) in self.front(end) {
            let is_bound = !slot.is_own || position == end && is_wider(slot);
            if is_bound && scope.may_share_with(HostPath::of(&slot.rule)) {
                position = if slot.is_own { index } else { end };
            }
        }
        // To sort the list, the new rule is placed in front of our wider rules there that share no request with it.
        let is_other = |slot: &MarkedRule<'_>| !scope.may_share_with(HostPath::of(&slot.rule));
        let passes = |slot: &MarkedRule<'_>| slot.is_own && is_wider(slot) && is_other(slot);
        let behind = self.list.iter().take(position).rev().take_while(|slot| passes(slot));
        position -= behind.count();
        let mut moved = self.ours(position, scope, Ordering::Greater);
        let scopes = moved.iter().filter_map(|index| Some(HostPath::of(&self.list.get(*index)?.rule)));
        let covers_moved = |rule: &Rule| scopes.clone().any(|scope| scope.is_covered_by(rule));
        if let Some(limit) = self.foreign(position, covers_moved) {
            return self.position_behind_foreign(limit, scope);
        }
        moved.extend(self.ours(position, scope, Ordering::Less));
        (position, moved)
    }

    /// Our rules on the wrong side of `position`: wider rules in front (`Greater`), or narrower rules behind (`Less`).
    /// Each may share a request with the rule for `scope`, or with another rule of the result.
    fn ours(&self, position: usize, scope: HostPath<'_>, side: Ordering) -> Vec<usize> {
        let (key, is_in_front) = (scope.key(), side == Ordering::Greater);
        let mut others = Vec::new();
        for (index, slot) in self.slots().filter(|(_, slot)| slot.is_own && !slot.is_going) {
            let is_there = (index < position) == is_in_front;
            if is_there && scope.shares_hosts_with(HostPath::of(&slot.rule)) && slot.key().cmp(&key) == side {
                others.push((slot.key(), index));
            }
        }
        others.sort_unstable_by(|one, other| if is_in_front { one.cmp(other) } else { other.cmp(one) });
        let (mut linked, mut found) = (vec![scope], Vec::new());
        for ((.., scope), index) in others {
            // A wider rule that a foreign rule covers takes no request. A narrower rule that would be refused stays.
            let keeps =
                |rule: &Rule| scope.is_covered_by(rule) && (is_in_front || scope.is_equivalent_to(rule));
            let is_linked = linked.iter().any(|other| scope.may_share_with(*other));
            if is_linked && self.foreign(index, keeps).is_none() {
                linked.push(scope);
                found.push(index);
            }
        }
        found
    }
}

/// Inserts `slot`, a rule of ours, at `position`, and moves our rules at the positions `moved` there too.
pub(super) fn insert<'a>(
    list: &mut Vec<MarkedRule<'a>>,
    position: usize,
    slot: MarkedRule<'a>,
    moved: &[usize],
) {
    let (mut group, mut others): (Vec<_>, Vec<_>) =
        list.drain(..).enumerate().partition(|(index, _)| moved.contains(index));
    group.push((position, slot));
    group.sort_by(|(_, one), (_, other)| one.key().cmp(&other.key()));
    let position = others.partition_point(|(index, _)| *index < position);
    others.splice(position..position, group);
    list.extend(others.into_iter().map(|(_, slot)| slot));
}
