//! Openings that take several requests. The applications over a place are deleted one in each request, the first one as
//! soon as no rule accepts its tokens:
//!
//! 1. The request removes the Access check of the rules, and each endpoint that opens its place waits.
//! 2. No rule accepts the tokens of the first application, so a request deletes it. This is repeated for the next one.
//! 3. The request that deletes the last one leaves nothing to wait for.

use std::collections::BTreeSet;

use crate::ingress::Rule;
use crate::reconcile::access::answering::rule_text;
use crate::reconcile::access::gate::ApplicationOperation;
use crate::reconcile::access::host_protection::rules_accepting;
use crate::reconcile::access::place::Place;
use crate::reconcile::plan::planned::{HostPlan, Plan};
use crate::reconcile::reason::Reason;
use crate::reconcile::refusal::Refusal;
use crate::reconcile::snapshot::Snapshot;

/// The opening of a place that a later request finishes, unless it is refused.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) place: Place,
    /// The object that asks for it, if it is known.
    pub(super) resource: Option<Box<str>>,
    /// The ids of the applications over the place, the first to be deleted first.
    pub(super) waits_for: Vec<Box<str>>,
}

/// The reason if an opening waits in vain for the deletion of its first application: a rule that accepts its tokens stays
/// as it is.
fn still_protected(opening: &Opening, plan: &Plan, snapshot: &Snapshot) -> Option<Reason> {
    let is_written = |rule: &Rule| {
        let name = rule.folded_hostname();
        let is_edited = |host: &HostPlan| host.edits.iter().any(|one| one.edit.path() == rule.path());
        plan.postponed.contains(name) || plan.host(name).is_some_and(is_edited)
    };
    let first = opening.waits_for.first()?;
    let application = snapshot.access.applications().iter().find(|one| one.id == *first)?;
    let also_protects = rules_accepting(application, snapshot).find(|rule| !is_written(rule))?;
    let is_of_place = snapshot.own_application(application).is_some_and(|own| *own.place == opening.place);
    let (application, also_protects) = (application.name.clone(), rule_text(also_protects).into());
    Some(Reason::StillProtected { application, also_protects, is_of_place })
}

impl Plan {
    /// Refuses the openings that wait for an application which stays. A dry run shows the state after all loops: there the
    /// other openings do not wait, and the refused ones delete no application.
    pub(super) fn decide_openings(&mut self, openings: Vec<Opening>, snapshot: &Snapshot, is_dry_run: bool) {
        let mut kept = BTreeSet::new();
        for opening in openings {
            let reason = match still_protected(&opening, self, snapshot) {
                Some(reason) => {
                    kept.extend(opening.waits_for);
                    reason
                }
                None if is_dry_run => continue,
                None => Reason::WaitsForDeletion(opening.waits_for),
            };
            let (place, path) = (&opening.place, opening.place.path().unwrap_or_default());
            let refusal =
                Refusal::new(place.hostname().as_str(), Some(path), opening.resource.as_deref(), reason);
            self.refusals.push(refusal);
        }
        if is_dry_run {
            self.application_writes.retain(
                |write| !matches!(&write.operation, ApplicationOperation::Delete(id) if kept.contains(id)),
            );
        }
    }
}
