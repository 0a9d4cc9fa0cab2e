//! Plans one hostname: reads its state, decides on its request, and derives the writes.
//!
//! [`Host`] is the state, `Decision` the part of the request that is carried out, and [`HostOutcome`] the writes with all
//! that is said about them.

use super::decide::{Decision, decide};
use super::{Host, writes};
use crate::model::Hostname;
use crate::reconcile::Note;
use crate::reconcile::plan::judge::judged;
use crate::reconcile::plan::planned::HostOutcome;
use crate::reconcile::plan::request::{HostRequest, Withdrawn};
use crate::reconcile::plan_inputs::PlanContext;
use crate::reconcile::reason::Reason;
use crate::reconcile::refusal::Refusal;

/// Plans the request for one hostname.
pub(in crate::reconcile::plan) fn plan_host(
    name: &str,
    request: HostRequest,
    context: PlanContext<'_>,
) -> HostOutcome {
    let (snapshot, asking) = (context.snapshot, request.resource());
    let refused = |reason| HostOutcome::refused(vec![Refusal::whole(name.into(), asking.clone(), reason)]);
    if !snapshot.operator().filter.matches(name) {
        return refused(Reason::OutsideFilter);
    }
    // A name that is not a hostname was never published, so only the mistakes of its endpoints are refused.
    let Ok(hostname) = Hostname::parse(name) else {
        return HostOutcome::refused(mistakes(name, &request).collect());
    };
    let HostRequest { wanted, withdrawn, registry_names } = request;
    let mut wanted = judged(name, wanted, &registry_names, context);
    let Some(zone) = snapshot.zone_of(name) else { return refused(Reason::NoZone) };
    let host = Host::of(context, zone, hostname, &registry_names);
    if let Some(problem) = host.old_answer(&wanted) {
        return refused(Reason::Waiting(problem.into()));
    }
    let decision = decide(host, &mut wanted, &withdrawn);
    let resource = asking.clone().or_else(|| decision.host.stamp.as_ref()?.resource.clone());
    let planned = writes::host_plan(&decision, resource.clone());
    let Decision { host, mut outcome, .. } = decision;
    match planned {
        Ok((host_plan, waiting)) => {
            outcome.host = Some(host_plan).filter(|host| !host.is_empty());
            outcome.refusals.extend(waiting);
            outcome.notes.extend(rules_left(&host, &withdrawn));
            outcome
        }
        Err(reason) => outcome.without_host([Refusal::whole(name.into(), resource, reason)]),
    }
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
