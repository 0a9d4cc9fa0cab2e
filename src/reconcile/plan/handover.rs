//! Finds withdrawals that come too early: visitors go from a wildcard to a name below it, or from that name to the
//! wildcard, and both are changed by one request.
//!
//! A request leads records over last of all, and a new wildcard is there for nobody before its rule is. So the rules
//! that visitors come from go in a later loop, when the snapshot shows where their record leads.

use std::iter::successors;

use super::host::Situation;
use super::{HostPlan, Plan, Reason, RecordOperation, RefusedEdit};
use crate::ingress::RuleEdit;
use crate::model::TunnelId;

/// The withdrawals that have to wait, but for those that have waited long enough.
pub(super) fn too_early(plan: &Plan, situation: Situation<'_>) -> Vec<RefusedEdit> {
    let mut waiting = Vec::new();
    for host in &plan.hosts {
        let Some(led_to) = situation.snapshot.led_to(&host.hostname) else { continue };
        for wildcard in wildcards_over(&host.hostname, plan) {
            let (goes, stays) = if host.moves_to.is_some() {
                (wildcard, host)
            } else if host.vanishes && new_tunnel(wildcard).is_some_and(|tunnel| tunnel != led_to) {
                (host, wildcard)
            } else {
                continue;
            };
            if !situation.settled.handed_over.contains(&goes.hostname) {
                waiting.extend(withdrawals(goes, &led_to, &stays.hostname));
            }
        }
    }
    waiting
}

/// The wildcards above a name that the plan writes.
fn wildcards_over<'p>(name: &'p str, plan: &'p Plan) -> impl Iterator<Item = &'p HostPlan> {
    let above = successors(name.split_once('.'), |(_, above)| above.split_once('.'));
    let names = above.map(|(_, above)| format!("*.{above}")).filter(move |wildcard| wildcard != name);
    names.filter_map(|wildcard| plan.host(&wildcard))
}

/// The tunnel that the new record of a hostname leads to.
fn new_tunnel(host: &HostPlan) -> Option<TunnelId> {
    let mut operations = host.operations.values().flatten();
    operations.find_map(|operation| match operation {
        RecordOperation::Post(record) => TunnelId::from_hostname(&record.content),
        _ => None,
    })
}

/// The rules that the plan withdraws from the tunnel to which visitors are led, until `other` has these visitors.
fn withdrawals(host: &HostPlan, led_to: &TunnelId, other: &str) -> Vec<RefusedEdit> {
    let edits = host.edits.values().flatten().filter(|(tunnel, _)| tunnel == led_to);
    let removed = edits.filter_map(|(_, edit)| match edit {
        RuleEdit::Remove { hostname: _, path } => Some(path.clone()),
        RuleEdit::Put { .. } => None,
    });
    let reason = || {
        Reason::Moving(format!(
            "visitors are served by its rule until the record of {other:?} leads them to another tunnel: it goes in a \
             later loop"
        ))
    };
    removed.map(|path| RefusedEdit { hostname: host.hostname.clone(), path, reason: reason() }).collect()
}
