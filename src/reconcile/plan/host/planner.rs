//! Plans one hostname: reads its state, lets `decide.rs` decide on its request, and `writes.rs` turn the decision into
//! writes.

use super::Host;
use super::decide::decide;
use super::writes::{deletion_of_hiding_record, planned_writes};
use crate::model::Hostname;
use crate::reconcile::access::gate::{self, Gated};
use crate::reconcile::canonical::Publication;
use crate::reconcile::plan::fingerprints;
use crate::reconcile::plan::piece::rule_fingerprint;
use crate::reconcile::plan::planned::HostOutcome;
use crate::reconcile::plan::request::{HostChanges, Wanted};
use crate::reconcile::plan_inputs::PlanContext;
use crate::reconcile::reason::Reason;
use crate::reconcile::refusal::Refusal;

/// Plans the request for one hostname: [`judge_all`] judges each endpoint, [`Host`] is the state of the hostname,
/// [`decide`] chooses the part of the request that is carried out, and [`HostOutcome`] has the writes, refusals and
/// notes.
pub(crate) fn plan_host(name: &str, request: HostChanges, context: PlanContext<'_>) -> HostOutcome {
    let snapshot = context.snapshot;
    // The object that asks for the hostname; the first if there are several.
    let object = request.wanted.iter().filter_map(|one| one.resource.as_ref()).min().cloned();
    let refused = |reason| HostOutcome::refused(vec![Refusal::new(name, None, object.as_deref(), reason)]);
    if !snapshot.operator().filter.matches(name) {
        return refused(Reason::OutsideFilter);
    }
    // A name that is not a hostname was never published, so only the mistakes of its endpoints are refused.
    let Ok(hostname) = Hostname::parse(name) else {
        let mistakes = request.wanted.iter().filter_map(|one| Some(one.refusal(name, one.reason()?)));
        return HostOutcome::refused(mistakes.collect());
    };
    let HostChanges { wanted, withdrawn, registry_names } = request;
    let Some(zone) = snapshot.zone_of(name) else { return refused(Reason::NoZone) };
    let wanted = judge_all(wanted, context);
    let host = Host::of(context, zone, hostname, &registry_names);
    if let Some(problem) = host.old_answer(&wanted) {
        // An old answer does not tell whether a part of the hostname stays.
        let counts_as_deletion = wanted.is_empty() && host.has_stamped_record();
        return HostOutcome { counts_as_deletion, ..refused(Reason::Waiting(problem.into())) };
    }
    let decision = decide(&host, wanted, &withdrawn);
    let resource = object.clone().or_else(|| decision.host.stamp.as_ref()?.resource.clone());
    let planned = planned_writes(&decision, resource.clone());
    // A tunnel with a local file keeps its hostnames for ever, so they must not withhold the deletions of others.
    let is_local = matches!(planned, Err(Reason::LocalTunnel { .. }));
    let counts_as_deletion = !is_local && decision.withdraws_hostname && decision.host.has_stamped_record();
    let refusal = |reason| Refusal::new(name, None, resource.as_deref(), reason);
    let outcome = match planned {
        Ok((plan, unfinished)) => HostOutcome {
            plan: Some(plan).filter(|plan| !plan.is_empty()),
            counts_as_deletion,
            ..decision.outcome.with_refusals(unfinished.into_iter().map(refusal))
        },
        Err(reason) => HostOutcome {
            plan: deletion_of_hiding_record(&decision.host, resource.clone()),
            counts_as_deletion,
            ..decision.outcome.without_plan([refusal(reason)])
        },
    };
    let refused_before = |plan| fingerprints::refusals(plan, snapshot, context.inputs);
    let refusals = outcome.plan.as_ref().map(refused_before).unwrap_or_default();
    if refusals.is_empty() { outcome } else { outcome.without_plan(refusals) }
}

/// The wanted endpoints of a hostname, with a reason in place of each refused publication.
fn judge_all(wanted: Vec<Wanted<Publication>>, context: PlanContext<'_>) -> Vec<Wanted<Gated>> {
    let judge = |publication, resource: Option<&str>| {
        let gated = gate::pass_gate(context, publication, resource)?;
        if let Some(rule) = gated.rule() {
            context.inputs.refuse_paused(|| rule_fingerprint(gated.tunnel(), rule))?;
        }
        Ok(gated)
    };
    let judged = wanted.into_iter().map(|Wanted { set_identifier, resource, publication }| {
        let publication = publication.and_then(|publication| judge(publication, resource.as_deref()));
        Wanted { set_identifier, resource, publication }
    });
    judged.collect()
}
