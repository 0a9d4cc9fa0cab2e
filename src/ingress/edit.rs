//! Edits the list of rules: it decides which edits are refused, and applies the others.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::hosts::HostIndex;
use super::order::{MarkedRule, NearbyRules, Scope};
use super::rule::{Rule, WantedRule, catch_all};
use crate::label_values::label_values;
use crate::model::hostname::Hostname;

/// An edit of the rule for one hostname and path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleEdit {
    /// Write the rule.
    Put {
        rule: WantedRule,
        /// True if the present rule for the hostname and path is ours and may be changed. If false, a present rule that
        /// equals the wanted one in every field stays as it is, and any other rule is a conflict.
        replaces: bool,
    },
    /// Remove the rule for this hostname and path, if there is one.
    Delete { hostname: Hostname, path: Option<Box<str>> },
}

impl RuleEdit {
    label_values! {
        Self::Put { .. } => "rule_written",
        Self::Delete { .. } => "rule_deleted",
    }

    pub(crate) fn is_deletion(&self) -> bool {
        matches!(self, Self::Delete { .. })
    }

    /// The text of a log line about the edit.
    pub(crate) fn log_text(&self) -> String {
        match self {
            Self::Put { rule, replaces: _ } => {
                format!("rule created or updated, service={:?}", rule.service.as_str())
            }
            Self::Delete { .. } => "rule deleted".to_owned(),
        }
    }

    pub fn hostname(&self) -> &Hostname {
        match self {
            Self::Put { rule, replaces: _ } => &rule.hostname,
            Self::Delete { hostname, path: _ } => hostname,
        }
    }

    /// The path's text; `None` for a rule without a path.
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Put { rule, replaces: _ } => rule.path_text(),
            Self::Delete { hostname: _, path } => path.as_deref(),
        }
    }

    /// The order of the rules of two edits in a list: the narrower rule is in front.
    pub fn in_order_of_list(&self, other: &Self) -> Ordering {
        self.scope().key().cmp(&other.scope().key())
    }

    fn scope(&self) -> Scope<'_> {
        match self {
            Self::Put { rule, replaces: _ } => Scope::wanted(rule),
            Self::Delete { hostname, path } => Scope::new(hostname, path.as_deref()),
        }
    }
}

/// The list if it changes, the indices of the edits that changed something, and the refused edits with their reasons.
/// A reason counts rules from 1, as cloudflared does.
type Applied = (Option<Vec<Rule>>, BTreeSet<usize>, Vec<(usize, String)>);

/// Applies edits to `rules`. `own` is true for our rules. There is at most one edit for a hostname and path.
///
/// The given list decides which edits are refused, but for puts that would make a rule with a login lose requests:
/// these are tried again after the removals. Puts come first, in the order of the list, and then removals. Because
/// removals are last, a rule that replaces a wider rule is placed in front of the foreign rules that the wider rule
/// hid. The order of the edits has no effect.
pub(super) fn apply(rules: &[Rule], edits: &[RuleEdit], own: &dyn Fn(&Rule) -> bool) -> Applied {
    let mut marked = MarkedRules::new(rules, own);
    let mut sorted: Vec<(usize, &RuleEdit)> = edits.iter().enumerate().collect();
    sorted.sort_by(|(_, one), (_, other)| one.in_order_of_list(other));
    let (mut changed, mut refused) = (BTreeSet::new(), Vec::new());
    let (mut puts, mut replaced, mut removed) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for (index, edit) in sorted {
        let present = position_of(&marked.near(edit.hostname()), edit.scope());
        match (edit, present) {
            (_, Err(refusal)) => refused.push((index, refusal)),
            (RuleEdit::Delete { .. }, Ok(present)) => {
                changed.extend(present.map(|_| index));
                removed.extend(present);
            }
            // A rule that is already as wanted stays, even if it is not ours.
            (RuleEdit::Put { rule, replaces: false }, Ok(Some(position)))
                if marked.list.get(position).is_some_and(|entry| entry.rule.equals_in_every_field(rule)) => {}
            (RuleEdit::Put { rule: _, replaces: false }, Ok(Some(position))) => {
                let reason = format!(
                    "rule {} of the tunnel has the same hostname and path and is not ours: delete that rule to \
                     publish this one",
                    position + 1
                );
                refused.push((index, reason));
            }
            (RuleEdit::Put { rule, replaces: _ }, Ok(present)) => {
                replaced.extend(present);
                puts.push((index, rule));
            }
        }
    }
    // A rule that is replaced or removed counts as ours for all other edits, so it is marked before any put is checked.
    for (position, entry) in marked.list.iter_mut().enumerate() {
        entry.is_removed = removed.contains(&position);
        entry.is_own |= entry.is_removed || replaced.contains(&position);
    }
    let mut waiting = Vec::new();
    for (index, rule) in puts {
        match check_no_equivalent(&marked.near(&rule.hostname), Scope::wanted(rule)) {
            Ok(()) => waiting.push((index, rule)),
            Err(refusal) => refused.push((index, refusal)),
        }
    }
    // Refused puts are tried again after the removals, and after each pass that put a rule.
    loop {
        let mut barred = Vec::new();
        for (index, rule) in &waiting {
            match marked.put(rule) {
                Ok(is_changed) => changed.extend(is_changed.then_some(*index)),
                Err(refusal) => barred.push((*index, *rule, refusal)),
            }
        }
        if marked.list.iter().any(|entry| entry.is_removed) {
            marked.list.retain(|entry| !entry.is_removed);
            marked.hosts = HostIndex::of(marked.list.iter().map(|entry| &*entry.rule));
        } else if barred.len() == waiting.len() {
            refused.extend(barred.into_iter().map(|(index, _, refusal)| (index, refusal)));
            break;
        }
        waiting = barred.into_iter().map(|(index, rule, _)| (index, rule)).collect();
    }
    refused.sort_unstable_by_key(|(one, _)| *one);
    let edited = marked.list.iter().map(|entry| entry.rule.raw().get());
    if edited.eq(rules.iter().map(|rule| rule.raw().get())) {
        return (None, BTreeSet::new(), refused);
    }
    let mut edited: Vec<Rule> = marked.list.into_iter().map(|entry| entry.rule.into_owned()).collect();
    if !edited.last().is_some_and(Rule::is_catch_all) {
        edited.push(catch_all());
    }
    (Some(edited), changed, refused)
}

/// A document's rules, each marked as ours or not.
#[derive(Clone, Debug)]
pub struct MarkedRules<'a> {
    list: Vec<MarkedRule<'a>>,
    hosts: HostIndex,
}

impl<'a> MarkedRules<'a> {
    pub(super) fn new(rules: &'a [Rule], own: &dyn Fn(&Rule) -> bool) -> Self {
        let entry = |rule| MarkedRule::new(Cow::Borrowed(rule), own(rule));
        Self { list: rules.iter().map(entry).collect(), hosts: HostIndex::of(rules) }
    }

    /// The same, with the rules for which `own` is true marked as ours as well.
    pub fn with_own(&self, own: &dyn Fn(&Rule) -> bool) -> Self {
        let mut marked_rules = self.clone();
        marked_rules.list.iter_mut().for_each(|entry| entry.is_own |= own(&entry.rule));
        marked_rules
    }

    /// True if putting our rule for this hostname and path again would change which requests it answers. It would if a
    /// foreign rule in front covers our rule, if a wider rule of ours in front may share requests with it, or if its
    /// hostname is spelled so that it matches nothing. False if the put would be refused, or if we have no such rule.
    pub fn needs_reordering(&self, hostname: &Hostname, path: Option<&str>) -> bool {
        let (scope, near) = (Scope::new(hostname, path), self.near(hostname));
        let Ok(Some(present)) = position_of(&near, scope) else { return false };
        self.list.get(present).is_some_and(|entry| entry.is_own)
            && near.placement(scope).is_some()
            && self.conflict(hostname, path, &|_| true).is_none()
    }

    /// What putting our rule for this hostname and path again would change; `None` if [`Self::needs_reordering`] is
    /// false.
    pub fn effect_of_reordering(&self, hostname: &Hostname, path: Option<&str>) -> Option<String> {
        let (scope, near) = (Scope::new(hostname, path), self.near(hostname));
        if !self.needs_reordering(hostname, path) {
            return None;
        }
        let present = position_of(&near, scope).ok()??;
        if near.matching(scope).is_none() {
            return Some("change the spelling of its hostname, so that it gets more requests".to_owned());
        }
        let (position, moved) = near.placement(scope)?;
        let mut passed = near.front(present).filter(|(at, _)| *at >= position || moved.contains(at));
        let (_, other) = passed.find(|(_, entry)| scope.may_share_with(Scope::of(&entry.rule)))?;
        let named = other.rule.described();
        Some(format!("move it before the rule for {named} and give it some of that rule's requests"))
    }

    /// The reason to refuse a put for this hostname and path: several rules have this hostname and path, a foreign rule
    /// matches exactly the same requests, or a rule for which `keeps_login` is true would lose requests.
    pub fn conflict(
        &self,
        hostname: &Hostname,
        path: Option<&str>,
        keeps_login: &dyn Fn(&Rule) -> bool,
    ) -> Option<String> {
        let (scope, near) = (Scope::new(hostname, path), self.near(hostname));
        let present = position_of(&near, scope);
        let covered = present.and_then(|_| check_no_equivalent(&near, scope));
        covered.and_then(|()| check_logins(&near, scope, keeps_login)).err()
    }

    /// Our rules that a put for this hostname and path moves behind a foreign rule, each with the foreign rule that
    /// takes requests of it.
    pub fn losing(&self, hostname: &Hostname, path: Option<&str>) -> Vec<(&Rule, &Rule)> {
        self.near(hostname).losing(Scope::new(hostname, path))
    }

    /// The first rule, ours or not, that is in front of the rule for this hostname and path and takes all its requests,
    /// as far as the paths' texts tell. `None` if there is no such rule.
    pub fn hidden_by(&self, hostname: &Hostname, path: Option<&str>) -> Option<&Rule> {
        let (scope, near) = (Scope::new(hostname, path), self.near(hostname));
        let (present, _) = near.entries().find(|(_, entry)| scope.is_of(&entry.rule))?;
        let mut front = near.front(present).map(|(_, entry)| &*entry.rule);
        front.find(|rule| rule.takes_all(hostname.as_str(), path))
    }

    /// Writes the rule at its present position, or at the position where it has to be. Returns true if that changes
    /// anything.
    fn put(&mut self, wanted: &WantedRule) -> Result<bool, String> {
        let (scope, near) = (Scope::wanted(wanted), self.near(&wanted.hostname));
        check_logins(&near, scope, &|_| true)?;
        let (present, entry) = near.entries().find(|(_, entry)| scope.is_of(&entry.rule)).unzip();
        let is_equal = entry.is_some_and(|entry| entry.rule.equals(wanted));
        let rule = match entry {
            Some(entry) if is_equal => entry.rule.clone(),
            Some(entry) => Cow::Owned(entry.rule.with(wanted)),
            None => Cow::Owned(Rule::wanted(wanted)),
        };
        let placement = near.placement(scope);
        let entry = MarkedRule::new(rule, true);
        if let (Some(present), None) = (present, &placement) {
            self.list.splice(present..=present, [entry]);
            return Ok(!is_equal);
        }
        // Only a present rule has no placement.
        let (mut position, mut moved) = placement.unwrap_or_default();
        moved.extend(present);
        moved.sort_unstable();
        let mut group = vec![entry];
        for from in moved.into_iter().rev() {
            self.hosts.remove(from);
            let entry = self.list.remove(from);
            group.extend((Some(from) != present).then_some(entry));
            position -= usize::from(from < position);
        }
        group.sort_unstable_by(|one, other| one.key().cmp(&other.key()));
        for entry in group.into_iter().rev() {
            self.hosts.insert(position, entry.rule.folded_hostname());
            self.list.insert(position, entry);
        }
        Ok(true)
    }

    fn near(&self, hostname: &Hostname) -> NearbyRules<'_, 'a> {
        NearbyRules::new(&self.list, &self.hosts, hostname)
    }
}

/// The position of the rule for `scope`, if there is one. Several such rules are refused.
fn position_of(near: &NearbyRules<'_, '_>, scope: Scope<'_>) -> Result<Option<usize>, String> {
    let found: Vec<usize> =
        near.entries().filter(|(_, entry)| scope.is_of(&entry.rule)).map(|(position, _)| position).collect();
    match found[..] {
        [] => Ok(None),
        [position] => Ok(Some(position)),
        // Our rule cannot be told from the others.
        _ => {
            let numbers =
                found.iter().map(|position| (position + 1).to_string()).collect::<Vec<_>>().join(" and ");
            Err(format!(
                "rules {numbers} of the tunnel have the same hostname and path: remove all but one of them"
            ))
        }
    }
}

/// Refuses a put if a foreign rule matches exactly the same requests, because one of the two would get none. A foreign
/// rule behind our present rule gets none already, unless our rule is spelled so that it matches nothing.
fn check_no_equivalent(near: &NearbyRules<'_, '_>, scope: Scope<'_>) -> Result<(), String> {
    let end = near.matching(scope).unwrap_or(usize::MAX);
    match near.foreign(end, |rule| scope.is_equivalent_to(rule)) {
        Some(position) => Err(format!(
            "rule {} of the tunnel, which is not ours, matches exactly the same requests: delete that rule, or narrow \
             one of the two by its path",
            position + 1
        )),
        None => Ok(()),
    }
}

/// Refuses a put if a rule of ours that requires a login, and keeps it, would lose requests to a foreign rule.
fn check_logins(
    near: &NearbyRules<'_, '_>,
    scope: Scope<'_>,
    keeps_login: &dyn Fn(&Rule) -> bool,
) -> Result<(), String> {
    let is_kept = |own: &Rule| own.requires_access() && keeps_login(own);
    match near.losing(scope).into_iter().find(|(own, _)| is_kept(own)) {
        Some((own, foreign)) => Err(format!(
            "the rule for {}, which requires a login, would have to move behind the foreign rule for {}, which \
             would take its requests: remove the foreign rule, or narrow it by its path",
            own.described(),
            foreign.described()
        )),
        None => Ok(()),
    }
}
