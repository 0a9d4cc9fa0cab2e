//! Replaces the reasons of refusals that wait for a write, if the plan does not have that write.

use std::collections::BTreeSet;

use super::host_plan::{HostPlan, host_of};
use super::planned::Plan;
use crate::collections::inserted;
use crate::ingress::Rule;
use crate::reconcile::access::answering::rule_text;
use crate::reconcile::access::host_protection::rules_accepting;
use crate::reconcile::reason::Reason;
use crate::reconcile::snapshot::Snapshot;

/// Corrects [`Reason::OpensToo`] if the other place gets no application: no refusal of that place is unfinished, and its
/// hostname is not postponed.
pub(super) fn replace_closings(plan: &mut Plan) {
    let is_opening = |reason: &Reason| matches!(reason, Reason::OpensToo { .. });
    let waiting = plan.refusals.iter().filter(|one| one.reason.fails_request() && !is_opening(&one.reason));
    let waiting: BTreeSet<(Box<str>, Option<Box<str>>)> =
        inserted(waiting.map(|one| (one.hostname.clone(), one.set_identifier.clone())));
    for refusal in &mut plan.refusals {
        let Reason::OpensToo { hostname, set_identifier, is_closing } = &mut refusal.reason else { continue };
        let waits = |path: Option<&str>| waiting.contains(&(hostname.clone(), path.map(Into::into)));
        *is_closing &= plan.postponed.contains(hostname) || waits(None) || waits(Some(set_identifier));
    }
}

/// Replaces [`Reason::WaitsForAccessCheck`] by [`Reason::StillProtected`] if a rule that asks for the application's
/// tokens stays as it is.
pub(super) fn replace_openings(plan: &mut Plan, snapshot: &Snapshot) {
    let Plan { refusals, hosts, postponed, .. } = plan;
    for refusal in refusals {
        let Reason::WaitsForAccessCheck(id) = &refusal.reason else { continue };
        let mut applications = snapshot.access.applications().iter();
        let Some(application) = applications.find(|one| one.id == *id) else { continue };
        if let Some(rule) =
            rules_accepting(application, snapshot).find(|rule| !is_written(rule, hosts, postponed))
        {
            let (application, relying) = (application.name.clone(), Some(rule_text(rule).into()));
            refusal.reason = Reason::StillProtected { application, relying };
        }
    }
}

/// True if a write changes or deletes the rule, in this turn or in a later one.
fn is_written(rule: &Rule, hosts: &[HostPlan], postponed: &BTreeSet<Box<str>>) -> bool {
    let name = rule.folded_hostname();
    let is_edited = |host: &HostPlan| host.edits.iter().any(|one| one.edit.path() == rule.path());
    postponed.contains(name) || host_of(hosts, name).is_some_and(is_edited)
}
