//! Plans one hostname: reads its state, decides on its request, and derives the writes.
//!
//! [`Host`] is the state, `Decision` the part of the request that is carried out, and [`HostPlan`] the writes.

use super::decide::{Decision, decide};
use super::{Host, HostContext, writes};
use crate::ingress::{Rule, RuleEdit};
use crate::model::Hostname;
use crate::reconcile::Note;
use crate::reconcile::access::gate::{ApplicationWrite, Gated};
use crate::reconcile::plan::Opened;
use crate::reconcile::plan::host_plan::{HostPlan, PlannedEdit, RecordOperation};
use crate::reconcile::plan::request::HostRequest;
use crate::reconcile::reason::Reason;
use crate::reconcile::refusal::Refusal;

/// The result of planning one hostname.
#[derive(Debug, Default)]
pub(in crate::reconcile::plan) struct Outcome {
    pub(in crate::reconcile::plan) plan: Option<HostPlan>,
    pub(in crate::reconcile::plan) refusals: Vec<Refusal>,
    pub(in crate::reconcile::plan) notes: Vec<Note>,
    pub(in crate::reconcile::plan) opened: Vec<Opened>,
    pub(in crate::reconcile::plan) application_writes: Vec<ApplicationWrite>,
}

/// Plans the request for one hostname.
pub(in crate::reconcile::plan) fn plan(
    name: &str,
    request: &HostRequest<Gated>,
    context: HostContext<'_>,
) -> Outcome {
    let snapshot = context.snapshot;
    let refused = |reason| Outcome {
        refusals: vec![Refusal::whole(name.into(), request.resource(), reason)],
        ..Outcome::default()
    };
    if !snapshot.operator().filter.matches(name) {
        return refused(Reason::OutsideFilter);
    }
    // A name that is not a hostname was never published, so only the mistakes of its endpoints are refused.
    let Ok(hostname) = Hostname::parse(name) else {
        return Outcome { refusals: mistakes(name, request), ..Outcome::default() };
    };
    let Some(zone) = snapshot.zone_of(name) else {
        return refused(Reason::NoZone);
    };
    let host = Host::of(context, zone, hostname, request);
    if let Some(problem) = host.old_answer(request) {
        return refused(Reason::Waiting(problem.into()));
    }
    let decision = decide(host, request);
    let resource = request.resource().or_else(|| decision.host.stamp.as_ref()?.resource.clone());
    let planned = writes::host_plan(&decision, resource.clone());
    let Decision { host, mut refusals, application_writes, opened, .. } = decision;
    let (plan, waiting) = match planned {
        Ok(planned) => planned,
        Err(reason) => {
            refusals.push(Refusal::whole(name.into(), resource, reason));
            let opened = opened.into_iter().filter(|opened| opened.by.is_some()).collect();
            return Outcome { refusals, application_writes, opened, ..Outcome::default() };
        }
    };
    refusals.extend(waiting);
    let notes = names_taken(&host, &plan).into_iter().chain(requests_lost(&host, &plan));
    let notes = notes.chain(rules_left(&host, request)).collect();
    Outcome { plan: Some(plan).filter(|plan| !plan.is_empty()), refusals, notes, opened, application_writes }
}

/// The refusals of the endpoints without a publication.
fn mistakes(name: &str, request: &HostRequest<Gated>) -> Vec<Refusal> {
    let mistaken = request.wanted.iter().filter_map(|wanted| {
        let reason = wanted.publication.as_ref().err()?.clone();
        let (set_identifier, resource) = (Some(wanted.set_identifier.clone()), wanted.resource.clone());
        Some(Refusal { hostname: name.into(), set_identifier, resource, reason })
    });
    mistaken.collect()
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
fn rules_left<'h>(host: &'h Host<'_>, request: &'h HostRequest<Gated>) -> impl Iterator<Item = Note> + 'h {
    host.rules.iter().filter_map(move |rule| {
        let path = rule.path().unwrap_or_default();
        let resource = request.withdrawn.get(path).filter(|_| !host.has_claimed_record())?.clone();
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
