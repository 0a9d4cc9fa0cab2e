//! Openings that take several requests. The applications over a place are deleted one in each request, the first one as
//! soon as no rule accepts its tokens:
//!
//! 1. The request removes the Access check of the rules, and each endpoint that opens its place waits.
//! 2. No rule accepts the tokens of the first application, so a request deletes it. This is repeated for the next one.
//! 3. The request that deletes the last one leaves nothing to wait for.

use std::collections::BTreeSet;

use crate::collections::collect;
use crate::ingress::Rule;
use crate::model::TunnelId;
use crate::reconcile::access::gate::{ApplicationOperation, WaitingOpening};
use crate::reconcile::access::relying::rule_text;
use crate::reconcile::canonical::path_of;
use crate::reconcile::plan::planned::{HostPlan, Plan};
use crate::reconcile::reason::Reason;
use crate::reconcile::refusal::Refusal;
use crate::reconcile::snapshot::Snapshot;

/// The plan with the refusals of its waiting openings. An opening whose application stays is refused for that reason,
/// and the request does not fail because of it. A dry run shows the state after all loops: there the other openings do
/// not wait, and the refused ones delete no application.
pub(super) fn with_openings(
    mut plan: Plan,
    openings: Vec<WaitingOpening>,
    snapshot: &Snapshot,
    is_dry_run: bool,
) -> Plan {
    let moving = plan.refusals.iter().filter(|one| matches!(one.reason, Reason::Moving(_)));
    let moving: BTreeSet<&str> = collect(moving.map(|one| &*one.hostname));
    let (mut refusals, mut kept) = (Vec::new(), BTreeSet::new());
    for WaitingOpening { refusal, applications } in openings {
        if let Some(reason) = still_protected(&refusal, &applications, &plan, &moving, snapshot) {
            kept.extend(applications);
            refusals.push(Refusal { reason, ..refusal });
        } else if !is_dry_run {
            refusals.push(refusal);
        }
    }
    plan.refusals.extend(refusals);
    if is_dry_run {
        plan.application_writes.retain(
            |write| !matches!(&write.operation, ApplicationOperation::Delete(id) if kept.contains(id)),
        );
    }
    plan
}

/// The reason if an opening waits in vain for the deletion of the first of the `applications`: a rule that accepts its
/// tokens stays as it is.
fn still_protected(
    opening: &Refusal,
    applications: &[Box<str>],
    plan: &Plan,
    moving: &BTreeSet<&str>,
    snapshot: &Snapshot,
) -> Option<Reason> {
    let is_written = |tunnel: &TunnelId, rule: &Rule| {
        let name = rule.folded_hostname();
        // The end of a move deletes our rules in the old tunnel.
        let goes_later = || moving.contains(name) && snapshot.own_digests().has(tunnel, rule);
        let is_edited = |host: &HostPlan| {
            host.edits.iter().any(|one| one.tunnel == *tunnel && one.edit.path() == rule.path())
        };
        plan.postponed.contains(name) || plan.host(name).is_some_and(is_edited) || goes_later()
    };
    let first = applications.first()?;
    let application = snapshot.access.applications().iter().find(|one| one.id == *first)?;
    let mut accepting = snapshot.all_rules().filter(|(_, rule)| rule.accepts(application));
    let (_, also_protects) = accepting.find(|(tunnel, rule)| !is_written(tunnel, rule))?;
    let path = opening.set_identifier.as_deref().and_then(path_of);
    let is_of_place = snapshot
        .own_application(application)
        .is_some_and(|own| own.place.hostname().as_str() == &*opening.hostname && own.place.path() == path);
    let (application, also_protects) = (application.name.clone(), rule_text(also_protects).into());
    Some(Reason::StillProtected { application, also_protects, is_of_place })
}
