//! Finds withdrawals that come too early: one request takes visitors from a wildcard to a name below it, or from that
//! name to the wildcard.
//!
//! Each hostname is planned by itself, its record is led over last of all, and any of its writes may fail while those of
//! others are done. So what visitors come from goes in a later loop, when the snapshot shows what serves them then, and
//! records that lead them there have had the time to reach the edge.

use std::collections::BTreeMap;
use std::iter::successors;

use super::host::Situation;
use super::request::{HostRequest, Wanted};
use super::{HostPlan, Plan, Reason, RecordOperation, RefusedEdit};
use crate::ingress::{RuleEdit, WantedRule};
use crate::model::{Hostname, TunnelId};
use crate::reconcile::snapshot::Snapshot;

/// The withdrawals that have to wait, but for those that have waited long enough.
pub(super) fn too_early(
    plan: &Plan,
    requests: &BTreeMap<Box<str>, HostRequest>,
    situation: Situation<'_>,
) -> Vec<RefusedEdit> {
    let Situation { snapshot, earlier, .. } = situation;
    // They come first by name.
    if !requests.keys().next().is_some_and(|name| name.starts_with('*')) {
        return Vec::new();
    }
    // Who goes, and who takes its visitors over.
    let mut pairs: Vec<(&HostPlan, &str)> = Vec::new();
    for (name, led_to) in &earlier.moving {
        // Some of its visitors are still led to where it was.
        let left = wildcards_over(name, requests).filter_map(|(wildcard, _)| plan.host(wildcard));
        let left = left.filter(|wildcard| leaves(wildcard, |tunnel| tunnel != led_to));
        pairs.extend(left.map(|wildcard| (wildcard, &**name)));
    }
    for (name, request) in requests {
        let Some(led_to) = snapshot.led_to(name) else { continue };
        let host = plan.host(name);
        for (wildcard, above) in wildcards_over(name, requests) {
            let over = plan.host(wildcard);
            let is_left = over.is_some_and(|over| {
                leaves(over, |tunnel| *tunnel == led_to) || loses_record(over, name, snapshot)
            });
            let comes = |name, host: Option<&HostPlan>, request| {
                host.is_some_and(|host| comes(host, snapshot))
                    || comes_later(name, request, &led_to, snapshot)
            };
            if let Some(over) = over.filter(|_| is_left && comes(name, host, request)) {
                pairs.push((over, name));
            } else if let Some(host) = host.filter(|host| host.vanishes && comes(wildcard, over, above)) {
                pairs.push((host, wildcard));
            }
        }
    }
    pairs.retain(|(goes, _)| !earlier.handed_over.contains(&goes.hostname));
    let waiting = pairs
        .into_iter()
        .filter_map(|(goes, other)| Some(withdrawals(goes, requests.get(&goes.hostname)?, other)));
    waiting.flatten().collect()
}

/// The wildcards above a name of which the request says something.
fn wildcards_over<'r>(
    name: &'r str,
    requests: &'r BTreeMap<Box<str>, HostRequest>,
) -> impl Iterator<Item = (&'r str, &'r HostRequest)> {
    let above = successors(name.split_once('.'), |(_, above)| above.split_once('.'));
    let names = above.map(|(_, above)| format!("*.{above}")).filter(move |wildcard| wildcard != name);
    names.filter_map(|wildcard| requests.get_key_value(&*wildcard)).map(|(name, request)| (&**name, request))
}

/// True if the wildcard's record goes, which answers for the name: it may lead visitors to somebody else's rule.
fn loses_record(wildcard: &HostPlan, name: &str, snapshot: &Snapshot) -> bool {
    let mut answering = snapshot.answering(name).iter();
    wildcard.vanishes && answering.any(|record| record.name == wildcard.hostname)
}

/// True if a rule of the hostname goes from such a tunnel.
fn leaves(host: &HostPlan, is_such: impl Fn(&TunnelId) -> bool) -> bool {
    let mut edits = host.edits.values().flatten();
    edits.any(|(tunnel, edit)| is_such(tunnel) && matches!(edit, RuleEdit::Remove { .. }))
}

/// True if a rule or the record of the hostname is not there yet, or its record is led over.
fn comes(host: &HostPlan, snapshot: &Snapshot) -> bool {
    let is_new = |tunnel: &TunnelId, rule: &WantedRule| {
        let rules = snapshot.tunnels.get(tunnel).map(|tunnel| tunnel.rules_of(&rule.hostname));
        !rules.into_iter().flatten().any(|standing| standing.path() == rule.path_text())
    };
    let mut edits = host.edits.values().flatten();
    let mut operations = host.operations.values().flatten();
    host.moves_to.is_some()
        || edits.any(|(tunnel, edit)| matches!(edit, RuleEdit::Put { rule, .. } if is_new(tunnel, rule)))
        || operations.any(
            |operation| matches!(operation, RecordOperation::Post(record) if record.name == host.hostname),
        )
}

/// True if a rule of the hostname, which visitors do not find in their tunnel, is left to a later request: its
/// application may be missing.
fn comes_later(name: &str, request: &HostRequest, led_to: &TunnelId, snapshot: &Snapshot) -> bool {
    let later = |wanted: &&Wanted| wanted.publication.as_ref().is_err_and(Reason::is_unfinished);
    let mut later = request.wanted.iter().filter(later).peekable();
    let (Some(_), Ok(hostname)) = (later.peek(), Hostname::parse(name)) else { return false };
    let standing = snapshot.tunnels.get(led_to).map(|tunnel| tunnel.rules_of(&hostname)).unwrap_or_default();
    later
        .any(|wanted| !standing.iter().any(|rule| rule.path().unwrap_or_default() == &*wanted.set_identifier))
}

/// What is withdrawn of the hostname, which waits for `other`.
fn withdrawals<'r>(
    host: &'r HostPlan,
    request: &'r HostRequest,
    other: &'r str,
) -> impl Iterator<Item = RefusedEdit> + 'r {
    request.withdrawn.iter().map(move |set_identifier| RefusedEdit {
        hostname: host.hostname.clone(),
        path: Some(set_identifier.clone()).filter(|path| !path.is_empty()),
        reason: Reason::Moving(format!(
            "its rule serves visitors whom {other:?} takes over in this request, so it goes in a later loop"
        )),
    })
}
