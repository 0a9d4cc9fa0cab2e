//! Plans one hostname: reads its state, decides on its request, and derives the writes.
//!
//! [`Host`] is the state, `Decision` the part of the request that is carried out, and [`HostPlan`] the writes.

use super::decide::{Decision, decide};
use super::{Host, HostContext, writes};
use crate::ingress::{Rule, RuleEdit};
use crate::model::Hostname;
use crate::reconcile::Note;
use crate::reconcile::access::gate::Gated;
use crate::reconcile::plan::host_plan::{HostPlan, PlannedEdit, RecordOperation};
use crate::reconcile::plan::planned::Plan;
use crate::reconcile::plan::request::{HostRequest, Withdrawn};
use crate::reconcile::reason::Reason;
use crate::reconcile::refusal::Refusal;

/// Plans the request for one hostname: adds all but the writes to `plan`, and returns the writes, if there are any.
pub(in crate::reconcile::plan) fn plan_host(
    plan: &mut Plan,
    name: &str,
    mut request: HostRequest<Gated>,
    context: HostContext<'_>,
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
    let Some(zone) = snapshot.zone_of(name) else {
        plan.refusals.push(refused(Reason::NoZone));
        return None;
    };
    let host = Host::of(context, zone, hostname, &request.registry_names);
    if let Some(problem) = host.old_answer(&request.wanted) {
        plan.refusals.push(refused(Reason::Waiting(problem.into())));
        return None;
    }
    let decision = decide(host, &mut request.wanted, &request.withdrawn);
    let resource = asking.or_else(|| decision.host.stamp.as_ref()?.resource.clone());
    let planned = writes::host_plan(&decision, resource.clone());
    let Decision { host, refusals, application_writes, mut opened, .. } = decision;
    plan.refusals.extend(refusals);
    plan.application_writes.extend(application_writes);
    let (host_plan, waiting) = match planned {
        Ok(planned) => planned,
        Err(reason) => {
            plan.refusals.push(Refusal::whole(name.into(), resource, reason));
            opened.retain(|opened| opened.by.is_some());
            plan.opened.extend(opened);
            return None;
        }
    };
    plan.refusals.extend(waiting);
    plan.opened.extend(opened);
    plan.notes.extend(names_taken(&host, &host_plan));
    plan.notes.extend(requests_lost(&host, &host_plan));
    plan.notes.extend(rules_left(&host, &request.withdrawn));
    Some(host_plan).filter(|host_plan| !host_plan.is_empty())
}

/// The refusals of the endpoints without a publication.
fn mistakes(name: &str, request: &HostRequest<Gated>) -> impl Iterator<Item = Refusal> {
    request.wanted.iter().filter_map(|wanted| {
        let reason = wanted.publication.as_ref().err()?.clone();
        let (set_identifier, resource) = (Some(wanted.set_identifier.clone()), wanted.resource.clone());
        Some(Refusal { hostname: name.into(), set_identifier, resource, reason })
    })
}

/// A note if a new name, two or more labels below a wildcard, takes other names from the wildcard (RFC 4592).
fn names_taken(host: &Host<'_>, plan: &HostPlan) -> Option<Note> {
    let name = host.name();
    let mut operations = plan.operations();
    let is_new = !host.has_claimed_record()
        && operations
            .any(|operation| matches!(operation, RecordOperation::Post(record) if *record.name == *name));
    let wildcard = host.zone.wildcard_over(name).first().filter(|_| is_new)?;
    let (_, above) = wildcard.name.split_once('.')?;
    let below = name.strip_suffix(above)?.strip_suffix('.')?;
    let (_, between) = below.split_once('.')?;
    let (_, taken) = between.rsplit_once('.').unwrap_or(("", between));
    let taken = format!("{taken}.{above}");
    Some(host.note(format!(
        "the new record takes {taken:?} and all names below it from the wildcard record {:?}, which no longer answers for them (RFC \
         4592): publish the names that you need, or \"*.{taken}\" and {taken:?}, by records of their own",
        wildcard.name
    )))
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

/// Notes on our rules that a put of the hostname moves behind a foreign rule that receives some of their requests.
fn requests_lost(host: &Host<'_>, plan: &HostPlan) -> Vec<Note> {
    let is_put = |planned: &&PlannedEdit| matches!(planned.edit, RuleEdit::Put { .. });
    let (puts, removals): (Vec<&PlannedEdit>, Vec<&PlannedEdit>) = plan.edits.iter().partition(is_put);
    let goes = |rule: &Rule| removals.iter().any(|one| rule.is_for(one.edit.hostname(), one.edit.path()));
    let owned = puts.iter().filter_map(|one| Some((host.context.marked_rules.get(&one.tunnel)?, &one.edit)));
    let lost = owned.flat_map(|(marked_rules, edit)| marked_rules.losing(edit.hostname(), edit.path()));
    let text = |own: &Rule, foreign: &Rule| {
        let (own, foreign) = (own.described(), foreign.described());
        format!(
            "the rule for {own} moves behind the foreign rule for {foreign}, which now gets some of its requests"
        )
    };
    lost.filter(|(own, _)| !goes(own)).map(|(own, foreign)| plan.note(text(own, foreign))).collect()
}
