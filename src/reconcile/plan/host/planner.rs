//! Plans one hostname: reads its state, lets `decide.rs` decide on its request, and `writes.rs` turn the decision into
//! writes.

use super::Host;
use super::decide::decide;
use super::writes::{hiding_deletion, planned_writes};
use crate::model::Hostname;
use crate::reconcile::plan::fingerprints;
use crate::reconcile::plan::judge::judge_all;
use crate::reconcile::plan::planned::HostOutcome;
use crate::reconcile::plan::request::HostRequest;
use crate::reconcile::plan_inputs::PlanContext;
use crate::reconcile::reason::Reason;
use crate::reconcile::refusal::Refusal;

/// Plans the request for one hostname: [`Host`] is its state, [`decide`] chooses the part of the request that is carried
/// out, and [`HostOutcome`] is the writes with all that is said about them.
pub(in crate::reconcile::plan) fn plan_host(
    name: &str,
    request: HostRequest,
    context: PlanContext<'_>,
) -> HostOutcome {
    let (snapshot, object) = (context.snapshot, request.resource());
    let refused = |reason| HostOutcome::refused(vec![Refusal::new(name, None, object.as_deref(), reason)]);
    if !snapshot.operator().filter.matches(name) {
        return refused(Reason::OutsideFilter);
    }
    // A name that is not a hostname was never published, so only the mistakes of its endpoints are refused.
    let Ok(hostname) = Hostname::parse(name) else {
        let mistakes = request.wanted.iter().filter_map(|one| Some(one.refusal(name, one.reason()?)));
        return HostOutcome::refused(mistakes.collect());
    };
    let HostRequest { wanted, withdrawn, registry_names } = request;
    let Some(zone) = snapshot.zone_of(name) else { return refused(Reason::NoZone) };
    let wanted = judge_all(wanted, context);
    let host = Host::of(context, zone, hostname, &registry_names);
    if let Some(problem) = host.old_answer(&wanted) {
        // An old answer does not tell whether a part of the hostname stays.
        let counts_as_deletion = wanted.is_empty() && host.has_stamped_record();
        return HostOutcome { counts_as_deletion, ..refused(Reason::Waiting(problem.into())) };
    }
    let decision = decide(host, wanted, &withdrawn);
    let resource = object.clone().or_else(|| decision.host.stamp.as_ref()?.resource.clone());
    let planned = planned_writes(&decision, resource.clone());
    // A tunnel with a local file keeps its hostnames for ever, so they must not withhold the deletions of others.
    let is_local = matches!(planned, Err(Reason::LocalTunnel { .. }));
    let counts_as_deletion = !is_local && decision.withdraws_hostname && decision.host.has_stamped_record();
    let mut outcome = HostOutcome { counts_as_deletion, ..decision.outcome };
    let refusal = |reason| Refusal::new(name, None, resource.as_deref(), reason);
    match planned {
        Ok((host_plan, unfinished)) => {
            outcome.plan = Some(host_plan).filter(|plan| !plan.is_empty());
            outcome.refusals.extend(unfinished.into_iter().map(refusal));
        }
        Err(reason) => {
            outcome = outcome.without_plan([refusal(reason)]);
            outcome.plan = hiding_deletion(&decision.host, resource.clone());
        }
    }
    let refused_before = |plan| fingerprints::refusals(plan, snapshot, context.inputs);
    let refusals = outcome.plan.as_ref().map(refused_before).unwrap_or_default();
    if refusals.is_empty() { outcome } else { outcome.without_plan(refusals) }
}
