//! Notes on the writes of a plan: effects at Cloudflare that its endpoints do not show.

use std::collections::{BTreeMap, BTreeSet};

use super::planned::{HostPlan, Plan, PlannedEdit, RecordOperation};
use crate::ingress::{MarkedRules, Rule, RuleEdit};
use crate::model::text::rule_at;
use crate::model::{Hostname, Record, TunnelId};
use crate::reconcile::plan_inputs::PlanContext;
use crate::reconcile::snapshot::{OwnDigests, Snapshot};
use crate::reconcile::stamp::Digest;
use crate::reconcile::{Note, OperatorSettings, hint};

pub(super) fn notes_of(plan: &Plan, context: PlanContext<'_>) -> Vec<Note> {
    let PlanContext { snapshot, marked_rules, .. } = context;
    let mut notes = names_without_certificate(plan, snapshot);
    notes.extend(reordered(plan, context));
    notes.extend(hints(&plan.hosts, snapshot.operator()));
    let created = || plan.hosts.iter().filter(|host| host.creates_record());
    notes.extend(created().filter_map(|host| names_taken(host, snapshot)));
    notes.extend(created().filter_map(|host| paths_taken(host, snapshot)));
    notes.extend(plan.hosts.iter().flat_map(|host| requests_lost(host, marked_rules)));
    notes
}

/// Notes on written rules that may not do what their endpoints ask for. Equal notes are given for one hostname only.
fn hints(hosts: &[HostPlan], operator: &OperatorSettings) -> impl Iterator<Item = Note> {
    let mut first: BTreeMap<String, (&HostPlan, &PlannedEdit)> = BTreeMap::new();
    for host in hosts {
        for planned in &host.edits {
            let RuleEdit::Put { rule, .. } = &planned.edit else { continue };
            for text in hint::hints(rule, operator) {
                first.entry(text).or_insert((host, planned));
            }
        }
    }
    first.into_iter().map(|(text, (host, planned))| Note {
        resource: planned.resource.clone(),
        ..Note::about(&host.hostname, text)
    })
}

/// Notes on rules that are taken over, if a put in this request or the next changes which requests they answer.
fn reordered(plan: &Plan, context: PlanContext<'_>) -> Vec<Note> {
    let PlanContext { snapshot, marked_rules, .. } = context;
    let hosts = plan.hosts.iter().filter(|host| !host.adoptions.is_empty());
    let hosts = hosts.filter_map(|host| Some((host, Hostname::parse(&host.hostname).ok()?)));
    let hosts: Vec<(&HostPlan, Hostname)> = hosts.collect();
    let mut adopted = OwnDigests::default();
    hosts.iter().for_each(|(host, _)| adopted.add(&host.hostname, host.adopted_rules()));
    if hosts.is_empty() {
        return Vec::new();
    }
    let mut notes = Vec::new();
    for (tunnel, marked_rules) in marked_rules {
        let marked_rules = marked_rules.with_own(&|rule| adopted.has(tunnel, rule));
        for (host, hostname) in &hosts {
            let rules = snapshot.rules_of(hostname).into_iter().filter(|(id, _)| id == tunnel);
            let stays = |rule: &Rule| host.claims_after.digests.contains(&Digest::of(tunnel, rule.path()));
            let taken = rules.filter(|(_, rule)| adopted.has(tunnel, rule) && stays(rule));
            notes.extend(taken.filter_map(|(_, rule)| {
                let change = marked_rules.effect_of_reordering(hostname, rule.path())?;
                let taken = rule_at(rule.path().unwrap_or_default());
                Some(Note::about(&host.hostname, format!("taking over the {taken} will {change}")))
            }));
        }
    }
    notes
}

/// Notes on new records more than one label below the zone, which the zone's certificate does not cover. Hostnames that
/// differ only in the first label get one note, or none if such a record already points to a tunnel.
fn names_without_certificate(plan: &Plan, snapshot: &Snapshot) -> Vec<Note> {
    let made = plan.hosts.iter().filter(|host| host.creates_record());
    let mut looked_at: BTreeSet<&str> = BTreeSet::new();
    made.filter_map(|host| {
        let zone = snapshot.zone_of(&host.hostname)?;
        let name = &zone.zone.name;
        let (_, domain) = host.hostname.split_once('.')?;
        let is_deep = host.hostname.strip_suffix(&**name)?.matches('.').count() > 1;
        let is_like = |record: &Record| {
            record.name.split_once('.').is_some_and(|(_, parent)| parent == domain)
                && record.tunnel().is_some()
        };
        if !is_deep || !looked_at.insert(domain) || zone.records_within(domain).iter().any(is_like) {
            return None;
        }
        Some(host.note(format!(
            "in a zone with full setup Universal SSL covers {name:?} and one label below it: browsers refuse \
             deeper names unless another edge certificate covers \"*.{domain}\" (Total TLS, an advanced or a \
             custom one); look under SSL/TLS, Edge Certificates"
        )))
    })
    .collect()
}

/// A note if a new name takes other names from a wildcard (RFC 4592): it is two or more labels below the wildcard, or a
/// rule is for a name below it.
fn names_taken(host: &HostPlan, snapshot: &Snapshot) -> Option<Note> {
    let name = &*host.hostname;
    let wildcard = addressing_wildcard_over(name, snapshot)?;
    let (_, above) = wildcard.name.split_once('.')?;
    let below = name.strip_suffix(above)?.strip_suffix('.')?;
    let Some((_, between)) = below.split_once('.') else {
        let rule = snapshot.rule_below(&format!("*.{name}"), &wildcard.tunnel()?)?.described();
        return Some(host.note(format!(
            "the new record takes all names below {name:?} from the wildcard record {:?}, also that of the \
             rule for {rule}: publish that name by a record of its own",
            wildcard.name
        )));
    };
    let (_, taken) = between.rsplit_once('.').unwrap_or(("", between));
    let taken = format!("{taken}.{above}");
    Some(host.note(format!(
        "the new record takes {taken:?} and all names below it from the wildcard record {:?}, which no \
         longer answers for them (RFC 4592): publish the names that you need, or \"*.{taken}\" and \
         {taken:?}, by records of their own",
        wildcard.name
    )))
}

/// The address or CNAME record of the wildcard that answered for the name.
fn addressing_wildcard_over<'s>(name: &str, snapshot: &'s Snapshot) -> Option<&'s Record> {
    snapshot.answering(name).iter().find(|record| *record.name != *name && record.is_address_or_cname())
}

/// A note if a new record for rules with paths takes all other paths from a wildcard's record with another target.
fn paths_taken(host: &HostPlan, snapshot: &Snapshot) -> Option<Note> {
    let wildcard = addressing_wildcard_over(&host.hostname, snapshot)?;
    let tunnel = host.operations_before.iter().find_map(|operation| match operation {
        RecordOperation::Post(record) => TunnelId::from_hostname(&record.content),
        RecordOperation::Patch(_) | RecordOperation::Delete { .. } => None,
    })?;
    let is_whole =
        host.claims_after.record_only || host.claims_after.digests.contains(&Digest::of(&tunnel, None));
    (!is_whole && wildcard.tunnel().as_ref() != Some(&tunnel)).then(|| {
        host.note(format!(
            "the new record takes all other paths of the hostname from the wildcard record {:?}, which \
             leads to {:?}: publish the hostname without a path too, if they are to be answered",
            wildcard.name, wildcard.content
        ))
    })
}

/// Notes on our rules that a put of the hostname moves behind a foreign rule that receives some of their requests.
fn requests_lost(host: &HostPlan, marked_rules: &BTreeMap<&TunnelId, MarkedRules<'_>>) -> Vec<Note> {
    let (deletions, puts): (Vec<&PlannedEdit>, Vec<&PlannedEdit>) =
        host.edits.iter().partition(|one| one.edit.is_deletion());
    let stays = |tunnel: &TunnelId, rule: &Rule| {
        let is_deletion_of = |one: &&PlannedEdit| rule.is_for(one.edit.hostname(), one.edit.path());
        !deletions.iter().any(|one| one.tunnel == *tunnel && is_deletion_of(one))
    };
    let text = |own: &Rule, foreign: &Rule| {
        let (own, foreign) = (own.described(), foreign.described());
        format!(
            "the rule for {own} moves behind the foreign rule for {foreign}, which now gets some of its requests"
        )
    };
    let mut notes = Vec::new();
    for PlannedEdit { tunnel, edit, .. } in puts {
        let Some(marked_rules) = marked_rules.get(tunnel) else { continue };
        let losing = marked_rules.losing(edit.hostname(), edit.path()).into_iter();
        let staying = losing.filter(|(own, _)| stays(tunnel, own));
        notes.extend(staying.map(|(own, foreign)| host.note(text(own, foreign))));
    }
    notes
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use crate::fixture::{host_plan, put, tunnel};
    use crate::ingress::{Document, PathPattern, WantedRule};

    /// At the end of a move the former tunnel loses the rule of the same path.
    #[test]
    fn a_deletion_in_another_tunnel_says_nothing_of_the_rule_that_moves_behind_a_foreign_rule() {
        let text = r#"{"ingress": [{"hostname": "a.example.com", "path": "old$", "service": "http://web:80"},
            {"hostname": "*.example.com", "path": "^/a", "service": "http://theirs:80"},
            {"service": "http_status:404"}]}"#;
        let raw = RawValue::from_string(text.to_owned()).expect("JSON");
        let document = Document::parse(Some(&raw)).expect("a document");
        let here = tunnel();
        let marked_rules = [(&here, document.marked(&|rule| rule.path() == Some("old$")))].into();
        let RuleEdit::Put { rule, replaces } = put("a.example.com", "http://web:80") else { panic!("a put") };
        let path = PathPattern::parse("^/b|^/a").expect("a path");
        let rule = WantedRule { path: Some(path), ..rule };
        let hostname = rule.hostname.clone();
        for (tunnel, told) in [(here.clone(), 0), (TunnelId::placeholder("elsewhere"), 1)] {
            let deletion = RuleEdit::Delete { hostname: hostname.clone(), path: Some("old$".into()) };
            let edits = [(here.clone(), RuleEdit::Put { rule: rule.clone(), replaces }), (tunnel, deletion)];
            let edits = edits.map(|(tunnel, edit)| PlannedEdit { tunnel, edit, resource: None });
            let host = HostPlan { edits: edits.into(), ..host_plan("a.example.com") };
            assert_eq!(requests_lost(&host, &marked_rules).len(), told);
        }
    }
}
