//! Plans one hostname: reads its state, decides on its request, and derives the writes.
//!
//! [`Host`] is the state, `Decision` the part of the request that is carried out, and [`HostPlan`] the writes.

use super::decide::{Decision, decide};
use super::{Host, writes};
use crate::model::Hostname;
use crate::reconcile::Note;
use crate::reconcile::access::gate::{ApplicationOperation, ApplicationWrite};
use crate::reconcile::access::place::Place;
use crate::reconcile::plan::judge::judged;
use crate::reconcile::plan::planned::HostPlan;
use crate::reconcile::plan::request::{HostRequest, Withdrawn};
use crate::reconcile::plan_inputs::PlanContext;
use crate::reconcile::reason::Reason;
use crate::reconcile::refusal::Refusal;

/// The plan of one hostname.
#[derive(Debug, Default)]
pub(in crate::reconcile::plan) struct HostOutcome {
    /// The writes of rules and records; `None` if there are none.
    pub(in crate::reconcile::plan) host: Option<HostPlan>,
    pub(in crate::reconcile::plan) refusals: Vec<Refusal>,
    pub(in crate::reconcile::plan) notes: Vec<Note>,
    pub(in crate::reconcile::plan) application_writes: Vec<ApplicationWrite>,
    /// Notes on endpoints whose visitors need no login once the application of the place is deleted.
    pub(in crate::reconcile::plan) opened: Vec<(Place, Note)>,
}

impl HostOutcome {
    fn refused(refusals: Vec<Refusal>) -> Self {
        Self { refusals, ..Self::default() }
    }

    /// The outcome if the writes of rules and records are refused. Logins that are asked for are still written, but
    /// nothing is opened before its rule is written.
    pub(in crate::reconcile::plan) fn without_host(
        mut self,
        refusals: impl IntoIterator<Item = Refusal>,
    ) -> Self {
        // A move whose writes are refused makes no progress, so it fails no request.
        self.refusals.retain(|one| !matches!(one.reason, Reason::Moving(_)));
        self.refusals.extend(refusals);
        self.application_writes.retain(|write| !matches!(write.operation, ApplicationOperation::Delete(_)));
        Self { host: None, notes: Vec::new(), opened: Vec::new(), ..self }
    }
}

/// Plans the request for one hostname.
pub(in crate::reconcile::plan) fn plan_host(
    name: &str,
    mut request: HostRequest,
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
    let mut wanted = judged(name, &mut request, context);
    let Some(zone) = snapshot.zone_of(name) else { return refused(Reason::NoZone) };
    let host = Host::of(context, zone, hostname, &request.registry_names);
    if let Some(problem) = host.old_answer(&wanted) {
        return refused(Reason::Waiting(problem.into()));
    }
    let decision = decide(host, &mut wanted, &request.withdrawn);
    let resource = asking.clone().or_else(|| decision.host.stamp.as_ref()?.resource.clone());
    let planned = writes::host_plan(&decision, resource.clone());
    let Decision { host, refusals, application_writes, opened_by_deletion, .. } = decision;
    let notes = rules_left(&host, &request.withdrawn).collect();
    let outcome = HostOutcome { host: None, refusals, notes, application_writes, opened: opened_by_deletion };
    match planned {
        Ok((host_plan, waiting)) => {
            let refusals = outcome.refusals.into_iter().chain(waiting).collect();
            HostOutcome { host: Some(host_plan).filter(|host| !host.is_empty()), refusals, ..outcome }
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
