//! Edits the list of rules: it decides which edits are refused, and applies the others.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt;

use super::hosts::Hosts;
use super::order::{Near, Scope, Slot, insert};
use super::rule::{Rule, WantedRule, catch_all};
use crate::labels::labels;
use crate::model::hostname::Hostname;

/// An edit of the rule for one hostname and path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleEdit {
    /// Write the rule. This wins over a `Remove` of the same hostname and path.
    Put {
        rule: WantedRule,
        /// True if the rule that stands at its hostname and path is ours and may be changed. If not, a rule that equals
        /// the wanted one in every field is left as it is, and any other is a conflict.
        replaces: bool,
    },
    /// Remove the rule for this hostname and path, if there is one.
    Remove { hostname: Hostname, path: Option<Box<str>> },
}

impl RuleEdit {
    labels! {
        Self::Put { .. } => "rule_published",
        Self::Remove { .. } => "rule_withdrawn",
    }

    pub fn hostname(&self) -> &Hostname {
        match self {
            Self::Put { rule, replaces: _ } => &rule.hostname,
            Self::Remove { hostname, path: _ } => hostname,
        }
    }

    /// The path's text; `None` for a rule without a path.
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Put { rule, replaces: _ } => rule.path_text(),
            Self::Remove { hostname: _, path } => path.as_deref(),
        }
    }

    /// The order in which the rules of two edits stand in a list: a narrower one in front.
    pub fn in_order_of_list(&self, other: &Self) -> Ordering {
        self.scope().key().cmp(&other.scope().key())
    }

    fn scope(&self) -> Scope<'_> {
        match self {
            Self::Put { rule, replaces: _ } => Scope::wanted(rule),
            Self::Remove { hostname, path } => Scope::new(hostname, path.as_deref()),
        }
    }
}

/// The reason why an edit was not applied. Rules are counted from 1, as in cloudflared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditRefusal {
    /// A rule that is not ours stands at the same hostname and path.
    Conflict { rule: usize },
    /// A foreign rule and the wanted one match exactly the same requests.
    MutualCover {
        /// The number of the foreign rule.
        rule: usize,
    },
    /// Several rules have this hostname and path, so ours cannot be told from the others.
    Duplicate { rules: Vec<usize> },
    /// Another edit of the same call asks for a different rule at this hostname and path.
    Contradiction,
}

impl fmt::Display for EditRefusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict { rule } => write!(
                formatter,
                "rule {rule} of the tunnel has the same hostname and path and is not ours: remove it there \
                 to publish this one"
            ),
            Self::MutualCover { rule } => write!(
                formatter,
                "rule {rule} of the tunnel, which is not ours, matches exactly the same requests: remove it \
                 there, or narrow one of the two by its path"
            ),
            Self::Duplicate { rules } => {
                let rules = rules.iter().map(ToString::to_string).collect::<Vec<_>>();
                write!(
                    formatter,
                    "rules {} of the tunnel have the same hostname and path: remove all but one there",
                    rules.join(" and ")
                )
            }
            Self::Contradiction => {
                formatter.write_str("two rules are asked for at the same hostname and path: keep one of them")
            }
        }
    }
}

impl Error for EditRefusal {}

/// The list after edits.
pub(super) struct Applied {
    /// `None` if no rule changes.
    pub(super) rules: Option<Vec<Rule>>,
    /// The indices of the edits that changed something.
    pub(super) effective: BTreeSet<usize>,
    pub(super) refused: Vec<(usize, EditRefusal)>,
}

/// Applies edits to `rules`, of which those that `own` names are ours.
///
/// First it decides on the list as it came which edits are refused; then it removes rules; then it puts rules, in the
/// order that they have among themselves. So nothing depends on the order of the edits.
pub(super) fn apply(rules: &[Rule], edits: &[RuleEdit], own: &dyn Fn(&Rule) -> bool) -> Applied {
    let Owned { rules, mut list, mut hosts } = Owned::new(rules, own);
    let mut refused = Refused::default();
    let (puts, removals) = wishes(edits, &mut refused);

    let claimed: Vec<(Put<'_>, Claim)> = puts
        .into_iter()
        .filter_map(|put| refused.unless(&put.indices, claim(&list, &hosts, &put)).map(|claim| (put, claim)))
        .filter(|(_, claim)| *claim != Claim::Nothing)
        .collect();
    let mut effective = BTreeSet::new();
    let mut removed = BTreeSet::new();
    for Removal { edit, indices } in &removals {
        let present = the_one(&Near::new(&list, &hosts, edit.hostname()), edit.scope());
        if let Some(present) = refused.unless(indices, present).flatten() {
            removed.insert(present);
            effective.extend(indices);
        }
    }
    // Collected before any edit is judged, because a rule that is replaced or removed counts as ours for all other
    // edits.
    let replaced = claimed.iter().filter_map(|(_, claim)| claim.replaced());
    for index in replaced.chain(removed.iter().copied()) {
        if let Some(slot) = list.get_mut(index) {
            slot.is_own = true;
        }
    }
    let accepted: Vec<&Put<'_>> = claimed
        .iter()
        .filter_map(|(put, claim)| {
            let near = Near::new(&list, &hosts, &put.rule.hostname);
            let equivalent = check_cover(&near, Scope::wanted(put.rule), claim.replaced());
            refused.unless(&put.indices, equivalent).map(|()| put)
        })
        .collect();

    let kept = list.into_iter().enumerate().filter(|(index, _)| !removed.contains(index));
    let mut list: Vec<Slot<'_>> = kept.map(|(_, slot)| slot).collect();
    if !removed.is_empty() {
        hosts = Hosts::of(list.iter().map(|slot| &*slot.rule));
    }
    for Put { rule, replaces: _, indices } in accepted {
        if put(&mut list, &mut hosts, rule) {
            effective.extend(indices);
        }
    }

    let is_changed = list.len() != rules.len()
        || list.iter().zip(rules).any(|(slot, rule)| slot.rule.raw().get() != rule.raw().get());
    let mut edited: Vec<Rule> = list.into_iter().map(|slot| slot.rule.into_owned()).collect();
    if is_changed && !edited.last().is_some_and(Rule::is_catch_all) {
        edited.push(catch_all());
    }
    if !is_changed {
        effective.clear();
    }
    Applied { rules: is_changed.then_some(edited), effective, refused: refused.sorted() }
}

/// A document's rules, each marked as ours or not.
#[derive(Clone, Debug)]
pub struct Owned<'a> {
    rules: &'a [Rule],
    list: Vec<Slot<'a>>,
    hosts: Hosts,
}

impl<'a> Owned<'a> {
    pub(super) fn new(rules: &'a [Rule], own: &dyn Fn(&Rule) -> bool) -> Self {
        let slot = |rule| Slot { rule: Cow::Borrowed(rule), is_own: own(rule) };
        Self { rules, list: rules.iter().map(slot).collect(), hosts: Hosts::of(rules) }
    }

    /// The same, with the rules that `own` names marked as ours as well.
    pub fn and(&self, own: &dyn Fn(&Rule) -> bool) -> Self {
        let mut owned = self.clone();
        owned.list.iter_mut().for_each(|slot| slot.is_own |= own(&slot.rule));
        owned
    }

    /// True if putting our rule for this hostname and path again would change which requests it answers: in front of it
    /// stands a foreign rule that covers it, or a wider one of ours that may share requests with it; or its hostname is
    /// spelled so that it matches nothing. False if the put would be refused, if there is no such rule, or if the rule is not
    /// ours.
    pub fn is_shadowed(&self, hostname: &Hostname, path: Option<&str>) -> bool {
        let (scope, near) = (Scope::new(hostname, path), self.near(hostname));
        let Ok(Some(present)) = the_one(&near, scope) else { return false };
        let Some(slot) = self.list.get(present).filter(|slot| slot.is_own) else { return false };
        let is_live = scope.is_covered_by(&slot.rule);
        check_cover(&near, scope, Some(present)).is_ok() && (!is_live || near.is_misplaced(present, scope))
    }

    /// The reason why a rule for this hostname and path cannot be told from others, or would take all of a foreign rule's
    /// requests.
    pub fn refusal(&self, hostname: &Hostname, path: Option<&str>) -> Option<EditRefusal> {
        let (scope, near) = (Scope::new(hostname, path), self.near(hostname));
        let present = the_one(&near, scope);
        present.and_then(|present| check_cover(&near, scope, present)).err()
    }

    /// The rule, ours or not, that stands in front of the one for this hostname and path and takes all of its requests.
    /// `None` if there is no such rule.
    pub fn hidden_by(&self, hostname: &Hostname, path: Option<&str>) -> Option<&'a Rule> {
        let (scope, near) = (Scope::new(hostname, path), self.near(hostname));
        let (present, _) = near.slots().find(|(_, slot)| scope.is_of(&slot.rule))?;
        let (hiding, _) = near.front(present).find(|(_, slot)| scope.is_covered_by(&slot.rule))?;
        self.rules.get(hiding)
    }

    fn near(&self, hostname: &Hostname) -> Near<'_, 'a> {
        Near::new(&self.list, &self.hosts, hostname)
    }
}

/// A wanted rule, and the edits that want it.
struct Put<'a> {
    rule: &'a WantedRule,
    replaces: bool,
    indices: Vec<usize>,
}

/// A rule to be removed, and the edits that ask for it.
struct Removal<'a> {
    edit: &'a RuleEdit,
    indices: Vec<usize>,
}

/// The effect of a put on the list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Claim {
    /// The wanted rule stands already and is not ours, so it stays as it is.
    Nothing,
    Add,
    Replace(usize),
}

impl Claim {
    fn replaced(self) -> Option<usize> {
        match self {
            Self::Replace(index) => Some(index),
            Self::Nothing | Self::Add => None,
        }
    }
}

#[derive(Default)]
struct Refused(Vec<(usize, EditRefusal)>);

impl Refused {
    /// The result for the edits at `indices`, which are noted as refused if it is an error.
    fn unless<T>(&mut self, indices: &[usize], decided: Result<T, EditRefusal>) -> Option<T> {
        decided.map_err(|refusal| self.0.extend(indices.iter().map(|index| (*index, refusal.clone())))).ok()
    }

    fn sorted(mut self) -> Vec<(usize, EditRefusal)> {
        self.0.sort_unstable_by_key(|(index, _)| *index);
        self.0
    }
}

/// The wanted rules and removals, one for each hostname and path, in the order that our rules have among themselves. If
/// several rules are wanted at one place, the one with the smallest text is taken, so that it is the same one in every
/// loop.
fn wishes<'a>(edits: &'a [RuleEdit], refused: &mut Refused) -> (Vec<Put<'a>>, Vec<Removal<'a>>) {
    let mut by_scope: BTreeMap<_, (&'a RuleEdit, Vec<(usize, &'a RuleEdit)>)> = BTreeMap::new();
    for (index, edit) in edits.iter().enumerate() {
        by_scope.entry(edit.scope().key()).or_insert((edit, Vec::new())).1.push((index, edit));
    }
    let (mut puts, mut removals) = (Vec::new(), Vec::new());
    for (first, edits) in by_scope.into_values() {
        let mut by_text: BTreeMap<String, Put<'a>> = BTreeMap::new();
        for (index, edit) in &edits {
            if let RuleEdit::Put { rule, replaces } = edit {
                let text = rule.to_raw().get().to_owned();
                let put = by_text.entry(text).or_insert(Put { rule, replaces: false, indices: Vec::new() });
                put.replaces |= replaces;
                put.indices.push(*index);
            }
        }
        let mut wanted = by_text.into_values();
        match wanted.next() {
            Some(put) => puts.push(put),
            None => removals
                .push(Removal { edit: first, indices: edits.iter().map(|(index, _)| *index).collect() }),
        }
        for put in wanted {
            refused.unless::<()>(&put.indices, Err(EditRefusal::Contradiction));
        }
    }
    (puts, removals)
}

/// Decides what a put may do to the rule at its hostname and path, which is among `rules` if there is one.
fn claim(list: &[Slot<'_>], hosts: &Hosts, put: &Put<'_>) -> Result<Claim, EditRefusal> {
    let is_as_wanted =
        |index: usize| list.get(index).is_some_and(|slot| slot.rule.equals_in_every_field(put.rule));
    match the_one(&Near::new(list, hosts, &put.rule.hostname), Scope::wanted(put.rule))? {
        None => Ok(Claim::Add),
        Some(index) if put.replaces => Ok(Claim::Replace(index)),
        Some(index) if is_as_wanted(index) => Ok(Claim::Nothing),
        Some(index) => Err(EditRefusal::Conflict { rule: index + 1 }),
    }
}

/// The only rule for `scope`, if there is one.
fn the_one(near: &Near<'_, '_>, scope: Scope<'_>) -> Result<Option<usize>, EditRefusal> {
    let found: Vec<usize> =
        near.slots().filter(|(_, slot)| scope.is_of(&slot.rule)).map(|(place, _)| place).collect();
    match found[..] {
        [] => Ok(None),
        [index] => Ok(Some(index)),
        _ => Err(EditRefusal::Duplicate { rules: found.iter().map(|index| index + 1).collect() }),
    }
}

/// Refuses a rule that would take all of a foreign rule's requests, or get none because of it. A foreign rule behind ours
/// gets none already, unless ours is spelled so that it matches nothing.
fn check_cover(near: &Near<'_, '_>, scope: Scope<'_>, present: Option<usize>) -> Result<(), EditRefusal> {
    let is_live =
        |(place, slot): &(usize, &Slot<'_>)| Some(*place) == present && scope.is_covered_by(&slot.rule);
    let end = near.slots().find(is_live).map_or(usize::MAX, |(place, _)| place);
    match near.foreign(end, |rule| scope.is_equivalent_to(rule)) {
        Some(place) => Err(EditRefusal::MutualCover { rule: place + 1 }),
        None => Ok(()),
    }
}

/// Writes the rule, at its place or where it has to stand. Returns true if that changes anything. `hosts` has the places of
/// the list.
fn put(list: &mut Vec<Slot<'_>>, hosts: &mut Hosts, wanted: &WantedRule) -> bool {
    let (hostname, scope) = (&wanted.hostname, Scope::wanted(wanted));
    let near = Near::new(list, hosts, hostname);
    let present = near.slots().find(|(_, slot)| scope.is_of(&slot.rule));
    let (rule, end) = match present {
        None => (Cow::Owned(Rule::wanted(wanted)), list.len()),
        Some((present, Slot { rule, is_own: _ })) => {
            let (is_live, is_equal) = (scope.is_covered_by(rule), rule.equals(wanted));
            let stays = is_live && !near.is_misplaced(present, scope);
            let rule = if is_equal { rule.clone() } else { Cow::Owned(rule.with(wanted)) };
            if stays {
                list.splice(present..=present, [Slot { rule, is_own: true }]);
                return !is_equal;
            }
            list.remove(present);
            hosts.remove(present, hostname);
            // With its spelling corrected the rule answers requests that it did not answer before, so it is placed like
            // a new one.
            (rule, if is_live { present } else { list.len() })
        }
    };
    let slot = Slot { rule, is_own: true };
    let (place, moved) = Near::new(list, hosts, hostname).place(end, scope);
    if moved.is_empty() {
        list.insert(place, slot);
        hosts.insert(place, hostname);
    } else {
        insert(list, place, slot, &moved);
        *hosts = Hosts::of(list.iter().map(|slot| &*slot.rule));
    }
    true
}
