//! The laws of editing the ingress list, over random documents and edits.
//!
//! Requests are matched as the emulator does it, which its tests hold against what cloudflared itself picks.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use cloudflare_emulator::ingress::{self, validate};
use external_dns_cloudflare_tunnel_webhook::ingress::{Document, Edited, OriginOption, Rule, RuleEdit};
use external_dns_cloudflare_tunnel_webhook::model::Hostname;
use proptest::prelude::*;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::generator::{
    EditCase, HOSTS, Key, REQUEST_PATHS, Step, case, guarded_case, has_key, key_of, life, plain_case,
    wanted_key,
};
use crate::options;

fn edit(case: &EditCase) -> Edited {
    case.document().edit(&case.edits, &|rule| case.is_own(rule))
}

/// The keys of the edits that were applied: put, and taken away.
fn applied(case: &EditCase, edited: &Edited) -> (BTreeSet<Key>, BTreeSet<Key>) {
    let refused: BTreeSet<usize> = edited.refused.iter().map(|(index, _)| *index).collect();
    let asked = |is_put: bool| {
        let edits = case.edits.iter().filter(move |edit| matches!(edit, RuleEdit::Put { .. }) == is_put);
        edits.map(key_of).collect::<BTreeSet<Key>>()
    };
    let accepted = case.edits.iter().enumerate().filter(|(index, _)| !refused.contains(index));
    let accepted: BTreeSet<Key> = accepted.map(|(_, edit)| key_of(edit)).collect();
    let put: BTreeSet<Key> = case
        .edits
        .iter()
        .enumerate()
        .filter(|(index, edit)| !refused.contains(index) && matches!(edit, RuleEdit::Put { .. }))
        .map(|(_, edit)| key_of(edit))
        .collect();
    let removed =
        asked(false).intersection(&accepted).filter(|key| !asked(true).contains(*key)).cloned().collect();
    (put, removed)
}

fn has_key_of(keys: &BTreeSet<Key>, rule: &Rule) -> bool {
    keys.iter().any(|key| has_key(rule, key))
}

/// A rule's hostname and path expression, either of them empty where there is none.
type Pattern = (String, String);

fn readable(document: &Document) -> Vec<Pattern> {
    let pattern = |rule: &Rule| (rule.hostname().to_owned(), rule.path().unwrap_or_default().to_owned());
    document.rules().iter().map(pattern).collect()
}

fn matches((hostname, expression): &Pattern, host: &str, path: &str) -> bool {
    ingress::matches(hostname, expression, host, path)
}

/// The index of the first rule that matches a request. Where there is none, cloudflared takes the last.
fn first_match(rules: &[Pattern], host: &str, path: &str) -> Option<usize> {
    rules.iter().position(|rule| matches(rule, host, path))
}

fn requests() -> impl Iterator<Item = (&'static str, &'static str)> {
    HOSTS.into_iter().flat_map(|host| REQUEST_PATHS.into_iter().map(move |path| (host, path)))
}

fn texts<'a>(rules: impl Iterator<Item = &'a Rule>) -> Vec<&'a str> {
    rules.map(|rule| rule.raw().get()).collect()
}

/// True if every request here that `narrow` matches is one that `wide` matches.
fn covers(narrow: &Pattern, wide: &Pattern) -> bool {
    requests().all(|(host, path)| !matches(narrow, host, path) || matches(wide, host, path))
}

fn has_same_key(one: &Rule, other: &Rule) -> bool {
    (one.folded_hostname(), one.path()) == (other.folded_hostname(), other.path())
}

/// True if the order of our rules puts the first one in front.
fn is_narrower(one: &Rule, other: &Rule) -> bool {
    let removal = |rule: &Rule| {
        let hostname = Hostname::parse(rule.hostname()).unwrap();
        RuleEdit::Delete { hostname, path: rule.path().map(Into::into) }
    };
    removal(one).in_order_of_list(&removal(other)).is_lt()
}

/// True for the rules that [`life`] publishes.
fn is_ours(rule: &Rule) -> bool {
    !rule.hostname().is_empty() && !rule.service().contains("foreign")
}

/// The document after a step. `asked` has the last publication of each key.
fn live(document: &Document, step: &Step, asked: &mut BTreeMap<Key, RuleEdit>) -> Document {
    let edits: Vec<RuleEdit> = match step {
        Step::Publish(rules) => rules
            .iter()
            .map(|rule| {
                let is_standing = |standing: &Rule| is_ours(standing) && has_key(standing, &wanted_key(rule));
                let replaces = document.rules().iter().any(is_standing);
                RuleEdit::Put { rule: rule.clone(), replaces }
            })
            .collect(),
        Step::Withdraw(_) if asked.is_empty() => Vec::new(),
        Step::Withdraw(index) => {
            let (hostname, path) = index.get(&asked.keys().collect::<Vec<_>>());
            vec![RuleEdit::Delete {
                hostname: Hostname::parse(hostname).unwrap(),
                path: path.as_deref().map(Into::into),
            }]
        }
        Step::Insert(place, rule) => {
            let mut rules = texts(document.rules().iter());
            rules.insert(place.index(rules.len().max(1)), rule);
            let config = format!(r#"{{"ingress":[{}]}}"#, rules.join(","));
            return Document::parse(Some(&RawValue::from_string(config).unwrap())).unwrap();
        }
    };
    asked.extend(
        edits
            .iter()
            .filter(|edit| matches!(edit, RuleEdit::Put { .. }))
            .map(|edit| (key_of(edit), edit.clone())),
    );
    document.edit(&edits, &is_ours).document
}

proptest! {
    #[test]
    fn foreign_rules_keep_their_order_and_their_bytes(case in case()) {
        let before = case.document();
        let edited = edit(&case);
        let (put, removed) = applied(&case, &edited);
        let is_foreign = |rule: &&Rule| {
            !case.is_own(rule) && !has_key_of(&put, rule) && !has_key_of(&removed, rule)
        };
        let kept = texts(before.rules().iter().filter(is_foreign));
        // What is sent counts, not what is remembered of it.
        let sent = Document::parse(Some(edited.document.raw())).expect("it was one before");
        let mut found = texts(sent.rules().iter().filter(is_foreign));
        if found.len() > kept.len() {
            prop_assert_eq!(found.pop(), Some(r#"{"service":"http_status:404"}"#));
        }
        prop_assert_eq!(found, kept);
    }

    /// Invariant 3 of docs/how-it-works.md: a request changes its rule only from one that covers ours to ours, and
    /// back. Our own order moves others: a narrower one of ours in front of a foreign rule that covers a wider one, and
    /// a wider one of ours behind a narrower.
    #[test]
    fn a_request_changes_its_rule_only_from_one_that_covers_ours_to_ours_or_for_our_own_order(case in case()) {
        let before = case.document();
        let edited = edit(&case);
        let (put, removed) = applied(&case, &edited);
        let is_ours = |rule: &Rule| case.is_own(rule) || has_key_of(&put, rule);
        let (old, new) = (readable(&before), readable(&edited.document));
        let rules = edited.document.rules();
        for (host, path) in requests() {
            let (from, to) = (first_match(&old, host, path), first_match(&new, host, path));
            let Some(to) = to else {
                prop_assert!(from.is_none(), "{} {} lost its rule", host, path);
                continue;
            };
            let Some(from) = from else { continue };
            let (old_rule, new_rule) = (&before.rules()[from], &rules[to]);
            if old_rule.raw().get() == new_rule.raw().get() || has_key_of(&removed, old_rule) {
                continue;
            }
            // An adopted rule may have had a spelling that matches other hosts than the canonical one.
            let canonical = Hostname::parse(old_rule.hostname()).map(|hostname| hostname.as_str() == old_rule.hostname());
            if has_key_of(&put, old_rule) && canonical != Ok(true) {
                continue;
            }
            let is_kept = |rule: &Rule| rule.raw().get() == old_rule.raw().get();
            let now = rules.iter().position(is_kept).or_else(|| new.iter().position(|rule| *rule == old[from]));
            let is_allowed = match (is_ours(old_rule), is_ours(new_rule)) {
                (true, true) => has_key_of(&put, new_rule) || is_narrower(new_rule, old_rule),
                (true, false) => now.is_some_and(|now| {
                    // A further one may have taken it in front of the foreign rule since.
                    let is_narrower_put = |rule: &Rule| has_key_of(&put, rule) && is_narrower(rule, old_rule);
                    rules[..now].iter().any(is_narrower_put)
                }),
                (false, true) => covers(&new[to], &old[from]) || now.is_some_and(|now| {
                    let is_wider = |own: usize| is_ours(&rules[own]) && is_narrower(new_rule, &rules[own]);
                    (to..=now).filter(|cover| !is_ours(&rules[*cover])).any(|cover| {
                        (to..cover).any(|own| is_wider(own) && covers(&new[own], &new[cover]))
                    })
                }),
                (false, false) => false,
            };
            prop_assert!(
                is_allowed,
                "{} {} went from {} to {} in {:#?}", host, path, old_rule.raw(), new_rule.raw(), new
            );
        }
    }

    /// PolicyDecision 3. Putting a rule of the same hostname may hand over some, because one object asks for both.
    #[test]
    fn a_rule_that_requires_a_login_keeps_its_requests_whatever_is_done_at_other_hostnames(case in guarded_case()) {
        let before = case.document();
        let edited = edit(&case);
        let (put, removed) = applied(&case, &edited);
        let (old, new) = (readable(&before), readable(&edited.document));
        for (host, path) in requests() {
            let (from, to) = (first_match(&old, host, path), first_match(&new, host, path));
            let (Some(from), Some(to)) = (from, to) else { continue };
            let (old_rule, new_rule) = (&before.rules()[from], &edited.document.rules()[to]);
            let is_kept = case.is_own(old_rule) && !has_key_of(&removed, old_rule);
            let has_login = |rule: &Rule| has_same_key(rule, old_rule) && rule.requires_access();
            if !is_kept || !old_rule.requires_access() || !edited.document.rules().iter().any(has_login) {
                continue;
            }
            let is_ours = case.is_own(new_rule) || has_key_of(&put, new_rule);
            let is_put_beside = |(hostname, _): &Key| *hostname == old_rule.folded_hostname();
            prop_assert!(
                has_same_key(new_rule, old_rule) || is_ours && is_narrower(new_rule, old_rule) || put.iter().any(is_put_beside),
                "{} {} went from {} to {} in {:#?}", host, path, old_rule.raw(), new_rule.raw(), new
            );
        }
    }

    /// Neither the order of our requests nor what others inserted between them decides which of ours answers. A rule
    /// that would be refused stands as others left it.
    #[test]
    fn a_request_that_ours_answer_gets_the_answer_of_ours_published_alone_and_at_once(life in life()) {
        let mut document = Document::parse(None).unwrap();
        let mut asked: BTreeMap<Key, RuleEdit> = BTreeMap::new();
        for step in &life {
            document = live(&document, step, &mut asked);
            let owned = document.marked(&is_ours);
            let is_sure = |rule: &Rule, edit: &RuleEdit| {
                is_ours(rule) && has_key(rule, &key_of(edit)) && owned.conflict(edit.hostname(), edit.path(), &|_| true).is_none()
            };
            let standing = |rule: &Rule| asked.values().find(|edit| is_sure(rule, edit)).cloned();
            let ours: Vec<RuleEdit> = document.rules().iter().filter_map(&standing).collect();
            let alone = Document::parse(None).unwrap().edit(&ours, &is_ours).document;
            let (all, alone) = (readable(&document), readable(&alone));
            for (host, path) in requests() {
                let Some(place) = first_match(&all, host, path) else { continue };
                if standing(&document.rules()[place]).is_none() {
                    continue;
                }
                let expected = first_match(&alone, host, path).map(|place| &alone[place]);
                prop_assert_eq!(Some(&all[place]), expected, "{} {} in {:#?} after {:?}", host, path, all, step);
            }
        }
    }

    #[test]
    fn editing_twice_is_editing_once(case in case()) {
        let once = edit(&case);
        // What was put is ours from then on.
        let (put, _) = applied(&case, &once);
        let own = |rule: &Rule| case.is_own(rule) || has_key_of(&put, rule);
        let twice = once.document.edit(&case.edits, &own);
        prop_assert!(twice.changed.is_empty(), "{} became {}", once.document.raw(), twice.document.raw());
        prop_assert_eq!(&twice.document, &once.document);
        prop_assert_eq!(
            twice.refused.iter().map(|(index, _)| index).collect::<Vec<_>>(),
            once.refused.iter().map(|(index, _)| index).collect::<Vec<_>>()
        );
    }

    #[test]
    fn the_order_of_edits_does_not_matter(
        (case, shuffled) in case().prop_flat_map(|case| {
            let indices: Vec<usize> = (0..case.edits.len()).collect();
            (Just(case), Just(indices).prop_shuffle())
        })
    ) {
        let edited = edit(&case);
        let edits = shuffled.iter().map(|&index| case.edits[index].clone()).collect();
        let other = edit(&EditCase { edits, ..case });
        prop_assert_eq!(&edited.document, &other.document);
        let mut refused: Vec<_> =
            other.refused.into_iter().map(|(index, refusal)| (shuffled[index], refusal)).collect();
        refused.sort_by_key(|(index, _)| *index);
        prop_assert_eq!(edited.refused, refused);
    }

    #[test]
    fn what_changes_nothing_keeps_every_byte(case in case()) {
        let edited = edit(&case);
        let is_same = edited.document.raw().get() == case.document().raw().get();
        prop_assert_eq!(edited.changed.is_empty(), is_same);
    }

    /// Drift shows if and only if applying the endpoint again would write something.
    #[test]
    fn a_rule_is_shadowed_if_and_only_if_putting_it_again_would_change_the_list(case in case()) {
        let document = case.document();
        let own = |rule: &Rule| case.is_own(rule);
        let mut standing = Vec::new();
        for rule in &case.own {
            let put = RuleEdit::Put { rule: rule.clone(), replaces: true };
            let edited = document.edit(std::slice::from_ref(&put), &own);
            let needs_reordering = document.marked(&own).needs_reordering(&rule.hostname, rule.path_text());
            prop_assert_eq!(!edited.changed.is_empty(), needs_reordering, "{:?} in {}", wanted_key(rule), document.raw());
            if !needs_reordering {
                standing.push(put);
            }
        }
        let edited = document.edit(&standing, &own);
        prop_assert!(edited.changed.is_empty(), "{} became {}", document.raw(), edited.document.raw());
    }

    #[test]
    fn what_was_put_stands_as_wanted_where_requests_reach_it(case in case()) {
        let edited = edit(&case);
        let refused: BTreeSet<usize> = edited.refused.iter().map(|(index, _)| *index).collect();
        let (put, _) = applied(&case, &edited);
        let own = |rule: &Rule| case.is_own(rule) || has_key_of(&put, rule);
        for (index, edit) in case.edits.iter().enumerate() {
            let RuleEdit::Put { rule: wanted, replaces } = edit else { continue };
            if refused.contains(&index) {
                continue;
            }
            let (hostname, path) = (&wanted.hostname, wanted.path_text());
            let rules: Vec<_> = edited.document.rules().iter().filter(|rule| rule.is_for(hostname, path)).collect();
            prop_assert_eq!(rules.len(), 1);
            let values = options::fields(&wanted.origin_request);
            let has_values = OriginOption::all().map(OriginOption::field).chain(["access"]).all(|field| {
                let wanted = values.iter().find(|(name, _)| *name == field).map(|(_, value)| value);
                managed_value(rules[0], field).as_ref() == wanted
            });
            prop_assert!(
                rules[0].service() == wanted.service.as_str() && rules[0].hostname() == hostname.as_str() && has_values,
                "{} is not {:?}", rules[0].raw(), wanted
            );
            prop_assert!(rules[0].equals(wanted));
            if *replaces {
                prop_assert!(!edited.document.marked(&own).needs_reordering(hostname, path), "{}", edited.document.raw());
                let owned = edited.document.marked(&own);
                let hidden_by = owned.hidden_by(hostname, path);
                // Rules are placed by the weaker proof.
                let is_placed = |rule: &Rule| own(rule) || !rule.covers(hostname.as_str(), path);
                prop_assert!(hidden_by.is_none_or(is_placed), "{:?} hides {}", hidden_by, rules[0].raw());
            }
        }
    }

    #[test]
    fn what_was_removed_is_gone_and_nothing_else(case in case()) {
        let before = case.document();
        let edited = edit(&case);
        let (put, removed) = applied(&case, &edited);
        let is_other = |rule: &&Rule| !has_key_of(&put, rule) && !has_key_of(&removed, rule);
        prop_assert!(!edited.document.rules().iter().any(|rule| has_key_of(&removed, rule)));
        let mut kept = texts(before.rules().iter().filter(is_other));
        let mut found = texts(edited.document.rules().iter().filter(is_other));
        if found.len() > kept.len() {
            prop_assert_eq!(found.pop(), Some(r#"{"service":"http_status:404"}"#));
        }
        kept.sort_unstable();
        found.sort_unstable();
        prop_assert_eq!(found, kept);
    }

    #[test]
    fn a_document_that_was_edited_ends_with_a_catch_all(case in case()) {
        let edited = edit(&case);
        if !edited.changed.is_empty() {
            let last = edited.document.rules().last().expect("an edited document has rules");
            prop_assert!(matches!(last.hostname(), "" | "*") && last.path().is_none());
        }
        let is_catch_all = |rule: &&Rule| matches!(rule.hostname(), "" | "*") && rule.path().is_none();
        let before = case.document();
        if let Some(last) = before.rules().last().filter(is_catch_all) {
            prop_assert_eq!(edited.document.rules().last().map(|rule| rule.raw().get()), Some(last.raw().get()));
        }
    }

    #[test]
    fn fields_that_are_not_managed_are_kept_at_every_level(case in case()) {
        let before = case.document();
        let edited = edit(&case);
        let unknown = |document: &Document| {
            let mut config: serde_json::Map<String, Value> = serde_json::from_str(document.raw().get()).unwrap();
            config.remove("ingress");
            config
        };
        prop_assert_eq!(unknown(&before), unknown(&edited.document));
        for rule in edited.document.rules() {
            let Some(old) = the_one_like(&before, rule) else { continue };
            for path in [&["future"][..], &["originRequest", "future"], &["originRequest", "access", "environment"]] {
                prop_assert_eq!(member(old, path), member(rule, path), "{} became {}", old.raw(), rule.raw());
            }
        }
    }

    #[test]
    fn a_list_that_was_valid_stays_valid(case in plain_case()) {
        let before = case.document();
        let edited = edit(&case);
        if validate(before.raw().get()).is_ok() {
            prop_assert_eq!(validate(edited.document.raw().get()), Ok(()));
        }
    }
}

/// The only rule of `document` with the hostname and path of `rule`.
fn the_one_like<'a>(document: &'a Document, rule: &Rule) -> Option<&'a Rule> {
    let hostname = Hostname::parse(rule.hostname()).ok().filter(|hostname| rule.has_hostname(hostname))?;
    let rules: Vec<_> = document.rules().iter().filter(|old| old.is_for(&hostname, rule.path())).collect();
    match rules[..] {
        [rule] => Some(rule),
        _ => None,
    }
}

/// The value of an option, of access without what is not managed.
fn managed_value(rule: &Rule, field: &str) -> Option<Value> {
    let member = |object: &Value, name: &str| {
        let (_, value) = object.as_object()?.iter().find(|(key, _)| key.eq_ignore_ascii_case(name))?;
        (!value.is_null()).then(|| value.clone())
    };
    let rule: Value = serde_json::from_str(rule.raw().get()).unwrap();
    let mut value = member(&member(&rule, "originRequest")?, field)?;
    if let (Some(access), "access") = (value.as_object_mut(), field) {
        access.remove("environment");
        return (!access.is_empty()).then_some(value);
    }
    Some(value)
}

/// The bytes of a member of a rule.
fn member(rule: &Rule, path: &[&str]) -> Option<String> {
    let mut raw: Box<RawValue> = rule.raw().to_owned();
    for name in path {
        let object: BTreeMap<String, Box<RawValue>> = serde_json::from_str(raw.get()).ok()?;
        raw = object.get(*name)?.clone();
    }
    Some(raw.get().to_owned())
}

/// The generator has to make what the laws are about.
#[test]
fn the_documents_are_not_trivial() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let (mut changed, mut refused, mut shadowed, mut moved, mut valid) = (0, 0, 0, 0, 0);
    for _ in 0..200 {
        let case = case().new_tree(&mut runner).unwrap().current();
        let document = case.document();
        let edited = edit(&case);
        changed += usize::from(!edited.changed.is_empty());
        refused += usize::from(!edited.refused.is_empty());
        shadowed += usize::from(case.own.iter().any(|rule| {
            document.marked(&|rule| case.is_own(rule)).needs_reordering(&rule.hostname, rule.path_text())
        }));
        let (put, _) = applied(&case, &edited);
        let (old, new) = (readable(&document), readable(&edited.document));
        moved += usize::from(requests().any(|(host, path)| {
            let (from, to) = (first_match(&old, host, path), first_match(&new, host, path));
            from.zip(to).is_some_and(|(from, to)| {
                let (from, to) = (&document.rules()[from], &edited.document.rules()[to]);
                !case.is_own(from) && has_key_of(&put, to) && from.raw().get() != to.raw().get()
            })
        }));
        let plain = plain_case().new_tree(&mut runner).unwrap().current();
        valid += usize::from(!plain.edits.is_empty() && validate(plain.document().raw().get()).is_ok());
    }
    for (label, count) in [
        ("changed", changed),
        ("refused", refused),
        ("shadowed", shadowed),
        ("requests moved from a foreign rule", moved),
        ("valid before", valid),
    ] {
        assert!(count >= 20, "only {count} of 200: {label}");
    }
}
