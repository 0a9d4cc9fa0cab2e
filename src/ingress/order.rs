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
//! So a rule that is placed has a limit, the first rule that has to be behind it, and is behind the last foreign rule
//! in front of the limit with which it may share a request. Our rules on the wrong side of it move there too.
//!
//! Rules that share no request have no order; a new one is only sorted among our rules around it. A present rule is
//! moved only if it breaks 1 or 2. Moving it for 3 could give its requests to a foreign rule that was put behind it.
//!
//! A foreign rule may be in front of the new rule's position and behind a wider rule of ours. Then the foreign rule
//! keeps its requests, and the wider rule moves behind the new rule. The wider rule may lose requests to the foreign
//! rule. So the new rule is refused if the wider rule requires a login and keeps it. Points 1 and 2 together outrank
//! point 3: if a foreign rule covers our wider rule, the wider rule is in front of the foreign rule (1) and the new
//! rule in front of the wider rule (2), even if the foreign rule covers the new rule only in part.
//!
//! So the order of creation does not decide which of our rules answers a request. A foreign rule loses requests only to
//! rules of ours that it covers, and to narrower rules that point 2 puts in front of those.

use std::borrow::Cow;
use std::cmp::Reverse;

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
    pub(super) is_removed: bool,
    /// The rank of the rule's path, found once because it may compile the path.
    rank: PathRank,
}

/// The requests of a rule: its folded hostname, and its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Scope<'a> {
    pub(super) hostname: &'a str,
    path: Option<&'a str>,
}

impl<'a> MarkedRule<'a> {
    pub(super) fn new(rule: Cow<'a, Rule>, is_own: bool) -> Self {
        let rank = shape::rank(rule.path());
        Self { rule, is_own, is_removed: false, rank }
    }

    pub(super) fn key(&self) -> Key<'_> {
        Scope::of(&self.rule).key_of_rank(self.rank)
    }
}

impl<'a> Scope<'a> {
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
        rule.is_readable() && Scope::of(rule) == *self
    }

    /// True if `rule` matches every request for this scope, as far as the texts tell.
    pub(super) fn is_covered_by(&self, rule: &Rule) -> bool {
        rule.covers(self.hostname, self.path)
    }

    /// True if this scope and `rule` match exactly the same requests: in any order, one of the two would get none.
    pub(super) fn is_equivalent_to(&self, rule: &Rule) -> bool {
        self.is_covered_by(rule)
            && rule.folded_hostname() == self.hostname
            && shape::covers(self.path, rule.path())
    }

    /// True if the two have a host in common.
    fn shares_hosts_with(self, other: Scope<'_>) -> bool {
        let includes = |wide: &str, narrow| HostPattern::of(wide).includes(narrow);
        includes(self.hostname, other.hostname) || includes(other.hostname, self.hostname)
    }

    /// True unless the texts prove that no request is for both.
    pub(super) fn may_share_with(self, other: Scope<'_>) -> bool {
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
pub(super) type Key<'a> = (Reverse<usize>, PathRank, Scope<'a>);

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
    pub(super) fn entries(&self) -> impl Iterator<Item = (usize, &'l MarkedRule<'a>)> {
        self.positions.iter().filter_map(|position| Some((*position, self.list.get(*position)?)))
    }

    /// The rules in front of `end`.
    pub(super) fn front(&self, end: usize) -> impl Iterator<Item = (usize, &'l MarkedRule<'a>)> {
        self.entries().take_while(move |(position, _)| *position < end)
    }

    /// The position of the first rule in front of `end` for which `is_such` is true.
    fn first(&self, end: usize, is_such: impl Fn(usize, &MarkedRule<'_>) -> bool) -> Option<usize> {
        self.front(end).find(|(position, entry)| is_such(*position, entry)).map(|(position, _)| position)
    }

    /// The position of the first foreign rule in front of `end` for which `is_such` is true.
    pub(super) fn foreign(&self, end: usize, is_such: impl Fn(&Rule) -> bool) -> Option<usize> {
        self.first(end, |_, entry| !entry.is_own && is_such(&entry.rule))
    }

    /// The position of the rule for `scope`; `None` if its hostname is spelled so that it matches nothing.
    pub(super) fn matching(&self, scope: Scope<'_>) -> Option<usize> {
        self.first(usize::MAX, |_, entry| scope.is_of(&entry.rule) && scope.is_covered_by(&entry.rule))
    }

    /// The position to which a put writes our rule for `scope`, and the positions of our rules that move there too.
    /// `None` if the present rule stays.
    pub(super) fn placement(&self, scope: Scope<'_>) -> Option<(usize, Vec<usize>)> {
        let present = self.matching(scope);
        if present.is_some_and(|position| !self.is_misplaced(position, scope)) {
            return None;
        }
        let limit = self.limit(present.unwrap_or(self.list.len()), scope);
        let key = scope.key();
        let is_wider = |entry: &MarkedRule<'_>| entry.is_own && entry.key() > key;
        let shares = |entry: &MarkedRule<'_>| scope.may_share_with(Scope::of(&entry.rule));
        let foreign = self.front(limit).filter(|(_, entry)| !entry.is_own && shares(entry)).last();
        let start = foreign.map_or(0, |(position, _)| position + 1);
        let wider =
            self.first(limit, |position, entry| position >= start && is_wider(entry) && shares(entry));
        let end = wider.unwrap_or(limit);
        // To sort the list, the new rule is placed in front of our wider rules there that share no request with it. The
        // present rule, if its hostname is spelled so that it matches nothing, does not count.
        let passes = |entry: &MarkedRule<'_>| is_wider(entry) && !shares(entry) || scope.is_of(&entry.rule);
        let position = end - self.list.iter().take(end).rev().take_while(|entry| passes(entry)).count();
        let mut moved = self.wider_in_front(position, scope);
        moved.extend(self.narrower_behind(position, scope));
        Some((position, moved))
    }

    /// The position of the first rule in front of `end` that has to be behind the rule for `scope`; else `end`. A
    /// foreign rule has to be behind if it covers the rule for `scope`, or a wider rule of ours that has to be behind
    /// too. A wider rule of ours has to be behind if it covers the rule for `scope`, which then takes requests from
    /// that rule alone.
    fn limit(&self, end: usize, scope: Scope<'_>) -> usize {
        let key = scope.key();
        let wider = self.wider_in_front(end, scope);
        let wider = wider.iter().filter_map(|position| Some(Scope::of(&self.list.get(*position)?.rule)));
        let covers_one = |rule: &Rule| wider.clone().chain([scope]).any(|one| one.is_covered_by(rule));
        // A narrower rule that would move there must not take requests of a foreign rule.
        let takes_none = |position: usize| {
            let mut narrower = self.narrower_behind(position, scope).into_iter();
            narrower.all(|from| self.passed(from, position).is_none())
        };
        let is_limit = |position: usize, entry: &MarkedRule<'_>| match entry.is_own {
            true => entry.key() > key && scope.is_covered_by(&entry.rule) && takes_none(position),
            false => covers_one(&entry.rule),
        };
        self.first(end, is_limit).unwrap_or(end)
    }

    /// Our rules that a put for `scope` moves behind a foreign rule, each with the foreign rule that takes requests
    /// of it.
    pub(super) fn losing(&self, scope: Scope<'_>) -> Vec<(&'l Rule, &'l Rule)> {
        let key = scope.key();
        // Most lists have no wider rule of ours, and a placement looks at the whole list.
        let has_wider = self.entries().any(|(_, entry)| entry.is_own && entry.key() > key);
        let placement = has_wider.then(|| self.placement(scope)).flatten();
        let Some((position, moved)) = placement else { return Vec::new() };
        let losing = moved.into_iter().filter(|from| *from < position);
        losing.filter_map(|from| Some((&*self.list.get(from)?.rule, self.passed(from, position)?))).collect()
    }

    /// The first foreign rule between `from` and `to` that may share requests with our rule at `from`.
    fn passed(&self, from: usize, to: usize) -> Option<&'l Rule> {
        let own = Scope::of(&self.list.get(from)?.rule);
        let mut passed = self.list.get(from.min(to)..from.max(to))?.iter();
        let shares = |entry: &&MarkedRule<'_>| !entry.is_own && own.may_share_with(Scope::of(&entry.rule));
        passed.find(shares).map(|entry| &*entry.rule)
    }

    /// True if our rule at `position` must move: a foreign rule in front of it covers it, or a wider rule of ours is in
    /// front of it.
    fn is_misplaced(&self, position: usize, scope: Scope<'_>) -> bool {
        let is_hidden = self.foreign(position, |rule| scope.is_covered_by(rule)).is_some();
        is_hidden || !self.wider_in_front(position, scope).is_empty()
    }

    /// Our wider rules in front of `position`. Each may share a request with the rule for `scope`, or with another rule
    /// of the result.
    fn wider_in_front(&self, position: usize, scope: Scope<'_>) -> Vec<usize> {
        let key = scope.key();
        let wider = self.ours(scope, |other, at| at < position && *other > key);
        // A wider rule that a foreign rule covers takes no request.
        self.linked(scope, &wider, Scope::is_covered_by)
    }

    /// Our narrower rules behind `position`, linked as in [`Self::wider_in_front`].
    fn narrower_behind(&self, position: usize, scope: Scope<'_>) -> Vec<usize> {
        let key = scope.key();
        let mut narrower = self.ours(scope, |other, at| at >= position && *other < key);
        narrower.reverse();
        // A narrower rule that would be refused stays.
        self.linked(scope, &narrower, Scope::is_equivalent_to)
    }

    /// Our rules that share hosts with the rule for `scope`, are not removed, and are selected by their keys and
    /// positions. They are sorted by key.
    fn ours(&self, scope: Scope<'_>, is_selected: impl Fn(&Key<'l>, usize) -> bool) -> Vec<(Key<'l>, usize)> {
        let ours = self.entries().filter(|(_, entry)| entry.is_own && !entry.is_removed);
        let ours = ours.filter(|(_, entry)| scope.shares_hosts_with(Scope::of(&entry.rule)));
        let ours = ours.map(|(position, entry)| (entry.key(), position));
        let mut ours: Vec<_> = ours.filter(|(key, position)| is_selected(key, *position)).collect();
        ours.sort_unstable();
        ours
    }

    /// Those of our rules `others` that may share a request with the rule for `scope`, or with an earlier one of them.
    /// A rule for which `stays` is true of a foreign rule in front of it is left out.
    fn linked<'k>(
        &self,
        scope: Scope<'k>,
        others: &[(Key<'k>, usize)],
        stays: impl Fn(&Scope<'k>, &Rule) -> bool,
    ) -> Vec<usize> {
        let (mut linked, mut found) = (vec![scope], Vec::new());
        for ((.., scope), position) in others {
            let is_linked = linked.iter().any(|other| scope.may_share_with(*other));
            if is_linked && self.foreign(*position, |rule| stays(scope, rule)).is_none() {
                linked.push(*scope);
                found.push(*position);
            }
        }
        found
    }
}
