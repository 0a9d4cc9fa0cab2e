//! Plans one hostname: reads its state, decides on its request, and derives the writes.
//!
//! [`Host`] is the state, `Decision` the part of the request that is carried out, and [`HostPlan`] the writes.

use super::decide::{Decision, decide};
use super::{Host, writes};
use crate::model::Hostname;
use crate::reconcile::Note;
use crate::reconcile::plan::judge::judged;
use crate::reconcile::plan::planned::{HostPlan, Plan};
use crate::reconcile::plan::request::{HostRequest, Withdrawn};
use crate::reconcile::plan_inputs::PlanContext;
use crate::reconcile::reason::Reason;
use crate::reconcile::refusal::Refusal;

/// Plans the request for one hostname: adds all but the writes to `plan`, and returns the writes, if there are any.
pub(in crate::reconcile::plan) fn plan_host(
    plan: &mut Plan,
    name: &str,
    mut request: HostRequest,
    context: PlanContext<'_>,
) -> Option<HostPlan> {
    let (snapshot, asking) = (context.snapshot, request.resource());
    let refused = |reason| Refusal::whole(name.into(), asking.clone(), reason);
    if !snapshot.operator().filter.matches(name) {
        plan.refusals.push(refused(Reason::OutsideFilter));
        return None;
    }
    // A name that is not a hostname was never published, so only the mistakes of its endpoints are refused.
    let Ok(hostname) = Hostname::parse(name) else {
        plan.refusals.extend(mistakes(name, &request));
        return None;
    };
    let mut wanted = judged(name, &mut request, context);
    let Some(zone) = snapshot.zone_of(name) else {
        plan.refusals.push(refused(Reason::NoZone));
        return None;
    };
    let host = Host::of(context, zone, hostname, &request.registry_names);
    if let Some(problem) = host.old_answer(&wanted) {
        plan.refusals.push(refused(Reason::Waiting(problem.into())));
        return None;
    }
    let decision = decide(host, &mut wanted, &request.withdrawn);
    let resource = asking.or_else(|| decision.host.stamp.as_ref()?.resource.clone());
    let planned = writes::host_plan(&decision, resource.clone());
    let Decision { host, refusals, application_writes, opened_by_deletion, .. } = decision;
    plan.refusals.extend(refusals);
    plan.application_writes.extend(application_writes);
    plan.opened.extend(opened_by_deletion);
    let (host_plan, waiting) = match planned {
        Ok(planned) => planned,
        Err(reason) => {
            plan.refusals.push(Refusal::whole(name.into(), resource, reason));
            return None;
        }
    };
    plan.refusals.extend(waiting);
    plan.notes.extend(rules_left(&host, &request.withdrawn));
    Some(host_plan).filter(|host_plan| !host_plan.is_empty())
}

/// The refusals of the endpoints without a publication.
fn mistakes(name: &str, request: &HostRequest) -> impl Iterator<Item = Refusal> {
    request.wanted.iter().filter_map(|wanted| {
        let reason = wanted.publication.as_ref().err()?.clone();
        let (set_identifier, resource) = (Some(wanted.set_identifier.clone()), wanted.resource.clone());
        Some(Refusal { hostname: name.into(), set_identifier, resource, reason })
    })
}

/// Notes on rules whose endpoints ExternalDNS deletes, and that remain because the record that named them is gone.
fn rules_left<'h>(host: &'h Host<'_>, withdrawn: &'h Withdrawn) -> impl Iterator<Item = Note> + 'h {
    host.rules.iter().filter_map(move |rule| {
        let path = rule.path().unwrap_or_default();
        let resource = withdrawn.get(path).filter(|_| !host.has_claimed_record())?.clone();
        let text = format!(
            "the rule for path {path:?} in tunnel {} stays, because no record of ours names it: delete it at Cloudflare, or set \
             ADOPT=all while ExternalDNS asks for the hostname",
            host.snapshot().settings.name_of(rule.tunnel)
        );
        Some(Note { hostname: host.name().into(), resource, text })
    })
}
