//! Turns the decision about one hostname into writes: records, then rules, then records.

use super::comment::{self, Comments};
use super::decide::{Decision, Desired};
use super::{Host, Placed};
use super::{adoption, heritage};
use crate::ingress::{RuleEdit, WantedRule};
use crate::model::{NewRecord, Record, RecordId, RecordPatch, TunnelId};
use crate::reconcile::plan::{HostPlan, Reason, RecordOperation, Stage};
use crate::reconcile::stamp::{Claims, Digest, Stamp};

/// What becomes of the rules that the decision no longer wants.
#[derive(Default)]
struct Leaving<'a> {
    /// They go in this request.
    now: Vec<Placed<'a>>,
    /// They go in a later one, because visitors may still be led to them.
    later: Vec<Placed<'a>>,
}

/// The writes of a decision, and what is left to a later request.
pub(super) fn host_plan(decision: &Decision<'_, '_>, resource: Option<Box<str>>) -> Result<(HostPlan, Option<Reason>), Reason> {
    let Decision { host, desired, withdrawn, refusals: _ } = decision;
    let target = desired.first().map(Desired::tunnel);
    let puts = puts(host, desired);
    let ends = ends(decision);
    let moves_to = target.filter(|target| host.records.iter().any(|record| leads_past(record, target)));
    let leaving = leaving(decision, ends, moves_to);
    let mut edits: Vec<(TunnelId, RuleEdit)> = leaving.now.iter().map(|(tunnel, rule)| {
        let path = rule.path().map(Into::into);
        ((*tunnel).clone(), RuleEdit::Remove { hostname: host.hostname.clone(), path })
    }).collect();
    edits.extend(puts.iter().map(|(tunnel, rule)| {
        let replaces = host.own_rule(tunnel, rule.path_text()).is_some();
        ((*tunnel).clone(), RuleEdit::Put { rule: (*rule).clone(), replaces })
    }));
    let later = leaving.later.iter().map(|(tunnel, _)| *tunnel);
    let edited = edits.iter().map(|(tunnel, _)| tunnel).chain(later);
    if let Some(tunnel) = edited.clone().find(|tunnel| !is_writable(host, tunnel)) {
        return Err(Reason::LocalTunnel { tunnel: tunnel.as_str().into() });
    }
    drop(edited);
    let mut first = comment::claims_with(host, desired);
    first.record_only &= !withdrawn.contains(&"") || desired.iter().any(|one| one.publication.rule.is_none());
    let mut last = first.clone();
    for (tunnel, rule) in &leaving.now {
        last.rules.remove(&Digest::of(tunnel, rule.path()));
    }
    let lead = match moves_to {
        None => Lead::Here,
        // The next request would take its record for another instance's.
        Some(_) if !may_stay(host) => Lead::Last,
        Some(_) if puts.is_empty() => Lead::First,
        Some(_) => Lead::Later,
    };
    let mut plan = HostPlan {
        vanishes: ends && host.has_record(),
        edits,
        adoptions: adoption::adoptions(host),
        moves_to: moves_to.filter(|_| lead == Lead::First).cloned(),
        comments: Some(Comments::of(host, desired)),
        last: last.clone(),
        ..HostPlan::empty(host.name(), resource)
    };
    let records = Records { host, target, lead, comments: plan.comments.as_ref() };
    let operations = if ends { records.deleted() } else { records.written(&first, &last) };
    for (stage, operation) in operations {
        plan.operations.entry((stage, host.zone.zone.id.clone())).or_default().push(operation);
    }
    let waiting = match (lead, leaving.later.first()) {
        (Lead::Later, _) => target.map(|target| format!(
            "its rules are put into tunnel {target} first: its record leads there in a later loop, once the connectors \
             serve them"
        )),
        (Lead::Here, Some((tunnel, _))) => Some(format!(
            "its rules in tunnel {tunnel} stay until MOVE_GRACE has passed, as some visitors are still led there"
        )),
        _ => None,
    };
    Ok((plan, waiting.map(|text| host.moving(text))))
}

/// The wanted rules that do not stand as wanted.
fn puts<'w>(host: &Host<'_>, desired: &[Desired<'w>]) -> Vec<(&'w TunnelId, &'w WantedRule)> {
    let rules = desired.iter().filter_map(|desired| Some((desired.tunnel(), desired.publication.rule.as_ref()?)));
    rules
        .filter(|(tunnel, wanted)| {
            let path = wanted.path_text();
            let standing = host.own_rule(tunnel, path);
            !standing.is_some_and(|rule| rule.equals(wanted)) || host.is_shadowed(tunnel, path)
        })
        .collect()
}

/// True if nothing of the hostname is left.
fn ends(Decision { host, desired, withdrawn, refusals: _ }: &Decision<'_, '_>) -> bool {
    let is_withdrawn = |path: Option<&str>| withdrawn.contains(&path.unwrap_or_default());
    desired.is_empty()
        && !withdrawn.is_empty()
        && host.rules.iter().all(|(_, rule)| is_withdrawn(rule.path()))
        && (!host.claims_record_only() || is_withdrawn(None))
}

fn leaving<'a>(decision: &Decision<'a, '_>, ends: bool, moves_to: Option<&TunnelId>) -> Leaving<'a> {
    let Decision { host, desired, withdrawn, refusals: _ } = decision;
    let led_to = host.led_to();
    let mut leaving = Leaving::default();
    for (tunnel, rule) in &host.rules {
        let path = rule.path();
        let mut at_path = desired.iter().filter(|desired| desired.path() == path);
        let is_wanted = at_path.clone().any(|one| one.publication.rule.is_some() && one.tunnel() == *tunnel);
        let is_replaced = at_path.next().is_some();
        if is_wanted || !is_replaced && !withdrawn.contains(&path.unwrap_or_default()) {
            continue;
        }
        let is_visited = if led_to.as_ref() == Some(*tunnel) { moves_to.is_some() } else { !host.is_settled() };
        let leaves = if is_visited && !ends { &mut leaving.later } else { &mut leaving.now };
        leaves.push((*tunnel, *rule));
    }
    leaving
}

fn is_writable(host: &Host<'_>, tunnel: &TunnelId) -> bool {
    host.snapshot().tunnels.get(tunnel).is_some_and(|tunnel| tunnel.writable)
}

/// True if the record leads visitors elsewhere than to the tunnel.
fn leads_past(record: &Record, target: &TunnelId) -> bool {
    !is_cname(record) || !record.content.eq_ignore_ascii_case(&target.hostname())
}

fn is_cname(record: &Record) -> bool {
    &*record.kind == "CNAME"
}

/// True if our records may lead where they do. One that leads to a tunnel that is not configured counts as another
/// instance's.
fn may_stay(host: &Host<'_>) -> bool {
    host.records.iter().all(|record| {
        let tunnel = TunnelId::from_hostname(&record.content);
        tunnel.is_none_or(|tunnel| !host.snapshot().live_elsewhere.contains(&tunnel))
    })
}

/// When the record is led to the wanted tunnel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lead {
    /// It leads there.
    Here,
    First,
    Last,
    Later,
}

/// The operations on the hostname's records.
struct Records<'r, 'a> {
    host: &'r Host<'a>,
    target: Option<&'r TunnelId>,
    lead: Lead,
    comments: Option<&'r Comments>,
}

impl Records<'_, '_> {
    fn deleted(&self) -> Vec<(Stage, RecordOperation)> {
        let records = self.host.records.iter();
        records.map(|record| (Stage::Unstamp, RecordOperation::delete(record))).collect()
    }

    /// Makes the comment claim `first` before the rules are written and `last` afterwards, and the record lead to its
    /// target.
    fn written(&self, first: &Claims, last: &Claims) -> Vec<(Stage, RecordOperation)> {
        let Self { host, target, lead, .. } = self;
        let comment = |claims: &Claims| self.comments.and_then(|comments| comments.with(claims));
        let (comment_first, comment_last) = (comment(first), comment(last));
        let target = target.map(TunnelId::hostname);
        let heritage = heritage::deletions(host).into_iter().map(|operation| (Stage::Stamp, operation));
        let mut operations: Vec<(Stage, RecordOperation)> = heritage.collect();
        let cname = host.records.iter().find(|record| is_cname(record));
        let replaced = || host.records.iter().map(|record| RecordOperation::delete(record));
        match (cname, target) {
            (Some(record), target) => {
                let target = target.filter(|_| *lead != Lead::Later);
                let only_goes = claims_all(host, record, first) && first != last;
                let stamped = comment_first.filter(|comment| !only_goes && self.changes_stamp(record, comment));
                let (target_first, target_last) = if *lead == Lead::Last { (None, target) } else { (target, None) };
                let last_before = stamped.as_deref().unwrap_or(&record.comment).to_owned();
                let patched = lead_patch(record, target_first, stamped);
                operations.extend(patched.map(|patch| (Stage::Stamp, patch)));
                let unstamped = comment_last.filter(|comment| Stamp::parse(&last_before) != Stamp::parse(comment));
                let patched = lead_patch(record, target_last, unstamped.filter(|_| first != last));
                operations.extend(patched.map(|patch| (Stage::Unstamp, patch)));
            }
            (None, None) => {}
            (None, Some(target)) => {
                let post = |comment| RecordOperation::Post(NewRecord {
                    name: host.name().into(),
                    kind: "CNAME".into(),
                    content: target.into(),
                    proxied: true,
                    ttl: 1,
                    comment,
                });
                let Some(comment) = comment_first else { return operations };
                if *lead == Lead::Later {
                    let stamps = host.records.iter().filter(|record| self.changes_stamp(record, &comment));
                    operations.extend(stamps.filter_map(|record| lead_patch(record, None, Some(comment.clone()))).map(|patch| (Stage::Stamp, patch)));
                } else {
                    operations.extend(replaced().chain([post(comment)]).map(|operation| (Stage::Stamp, operation)));
                }
            }
        }
        operations
    }

    /// True if `comment` means something else than the record's own. Both are compared as they will be read again, so
    /// text that did not fit makes no difference.
    fn changes_stamp(&self, record: &Record, comment: &str) -> bool {
        !self.host.adopted_records.is_empty() || Stamp::parse(&record.comment) != Stamp::parse(comment)
    }
}

/// True if the record's own comment already claims all these rules, and no other.
fn claims_all(host: &Host<'_>, record: &Record, claims: &Claims) -> bool {
    host.adopted_records.is_empty() && Stamp::parse(&record.comment).is_some_and(|stamp| stamp.claims == *claims)
}

/// The patch that makes `record` lead to `target`, proxied, with `comment`; `None` if that changes nothing.
fn lead_patch(record: &Record, target: Option<String>, comment: Option<Box<str>>) -> Option<RecordOperation> {
    let content = target.filter(|target| !record.content.eq_ignore_ascii_case(target)).map(Into::into);
    let proxied = (is_cname(record) && !record.proxied).then_some(true);
    let changes = content.is_some() || proxied.is_some() || comment.is_some();
    let id: RecordId = record.id.clone();
    changes.then(|| RecordOperation::Patch(RecordPatch { id, content, proxied, comment }))
}
