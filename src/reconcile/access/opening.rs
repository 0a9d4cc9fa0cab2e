//! Opens a place whose endpoint says `webhook-access-policy: none`. The application of a wildcard, or of a whole
//! hostname, may be the only login of a narrower place: that place needs an application of its own first.

use std::collections::BTreeSet;

use crate::collections::collect;
use crate::ingress::Rule;
use crate::model::TunnelId;
use crate::model::text::rule_at;
use crate::reconcile::access::applications::OwnApplication;
use crate::reconcile::access::gate::{AccessStep, ApplicationWrite, Gate, Gated, WaitingOpening};
use crate::reconcile::access::host_protection::HostProtection;
use crate::reconcile::access::place::Place;
use crate::reconcile::access::reading::AccessReading;
use crate::reconcile::access::relying::{Asks, UnopenedPlace, first_relying, rule_text};
use crate::reconcile::access::wanted::WantedAccess;
use crate::reconcile::namespace;
use crate::reconcile::plan::{HostPlan, Plan};
use crate::reconcile::plan_inputs::PlanContext;
use crate::reconcile::reason::Reason;
use crate::reconcile::refusal::Refusal;
use crate::reconcile::snapshot::Snapshot;

const SEVERAL_LOOPS: &str = "an opening takes several loops: the rule's Access check goes first, then the Access \
     applications, one in each loop";

impl Gate<'_> {
    /// The work that opens the place of the publication.
    pub(super) fn plan_opening(self) -> Result<AccessStep, Reason> {
        let Self { context, publication, resource: _, protection } = self;
        let path = publication.path();
        if let AccessReading::Failed(unread) = &context.snapshot.access
            && (protection.claims_protection() || protection.present_check(path).is_some())
        {
            return Err(self.unknown(unread));
        }
        let mut logins: Vec<OwnApplication<'_>> = protection.own_logins(path).collect();
        // The application made for the path is deleted even if changed by hand: `records` would show it for ever.
        let made_for = protection.application_made_for(path);
        logins.extend(
            made_for.filter(|made| !logins.iter().any(|own| own.application.id == made.application.id)),
        );
        let opened = Place::of(&publication.hostname, path);
        for own in &logins {
            let relying = first_relying(*own, Some(&opened), context.access_changes, context.snapshot);
            if let Some(also_protects) = relying {
                return Err(still_protected(*own, also_protects, &opened));
            }
        }
        if logins.is_empty() && protection.present_check(path).is_none() {
            return Ok(AccessStep::Nothing);
        }
        self.refuse_opening_others(&opened, &logins)?;
        // An old answer may hide a rule that relies on the application.
        if let Some(problem) = context.snapshot.old_answers.values().next() {
            return Err(Reason::Waiting(problem.to_string()));
        }
        Ok(self.opening_step(opened, &logins))
    }

    /// The work that deletes the applications `logins`, the most specific one first.
    fn opening_step(self, opened: Place, logins: &[OwnApplication<'_>]) -> AccessStep {
        let Self { context, publication, resource, .. } = self;
        let inputs = context.inputs;
        let Some(first) = logins.first() else {
            return AccessStep::Opening(Vec::new());
        };
        let is_accepted = context.snapshot.has_rule_accepting(first.application);
        // A dry run shows the state after all loops.
        let deleted = if inputs.is_dry_run { logins.len() } else { usize::from(!is_accepted) };
        let mut deletions: Vec<_> =
            logins.iter().take(deleted).map(|own| ApplicationWrite::delete(*own)).collect();
        let held_up = deletions.iter().find_map(|write| {
            let content = write.content_fingerprint();
            let unwritten = inputs.unwritten_applications.get(&content).cloned();
            unwritten.or_else(|| inputs.refuse_paused(|| content).err())
        });
        if held_up.is_some() {
            deletions.clear();
        }
        let is_last = !is_accepted && logins.len() == 1;
        let reason = held_up.or_else(|| (!is_last).then(|| Reason::Waiting(SEVERAL_LOOPS.to_owned())));
        let Some(reason) = reason else { return AccessStep::Opening(deletions) };
        let path = publication.path().unwrap_or_default();
        let refusal = Refusal::new(publication.hostname.as_str(), Some(path), resource, reason);
        let first_id = first.application.id.clone();
        AccessStep::WaitingOpening(WaitingOpening { opened, refusal, first_id, deletions })
    }

    /// Refuses an opening that would open another place too, if the endpoint of that place does not ask to be open. The
    /// opening deletes the applications `deleted`, and removes the Access check of the path's rule.
    fn refuse_opening_others(self, opened: &Place, deleted: &[OwnApplication<'_>]) -> Result<(), Reason> {
        let Self { context, resource, .. } = self;
        let is_guarded = context.snapshot.operator().namespace_guard;
        let namespace_of = |resource: Option<&str>| resource.and_then(namespace::code_of);
        let other = context.access_changes.unopened.iter().find(|unopened| {
            // With the namespace guard, an endpoint of another namespace cannot block an opening.
            let is_of_others =
                is_guarded && namespace_of(unopened.resource.as_deref()) != namespace_of(resource);
            // A dry run shows the state after all closings, so only an endpoint with a mistake counts.
            let counts = !is_of_others && (unopened.asks == Asks::Unknown || !context.inputs.is_dry_run);
            counts
                && (unopened.is_covered_from(opened)
                    || deleted.iter().any(|own| unopened.is_covered_from(own.place)))
                && !unopened.stays_closed_without(deleted, context.snapshot)
        });
        other.map_or(Ok(()), |UnopenedPlace { place, .. }| {
            let path = place.path().unwrap_or_default();
            Err(Reason::OpensToo(format!("{}{path}", place.hostname().as_str())))
        })
    }
}

impl Gated {
    /// What is said of an endpoint that opens its place: that its login goes, or which foreign application keeps a
    /// login.
    pub(crate) fn opening_note(&self, protection: HostProtection<'_>) -> Option<String> {
        if self.publication().wanted_access != WantedAccess::Open {
            return None;
        }
        let covering = protection.covering_every_request(self.path()).into_iter();
        let mut foreign = covering.filter(|one| protection.snapshot.own_application(one).is_none());
        let rule = rule_at(self.path().unwrap_or_default());
        match foreign.next().filter(|application| application.requires_login()) {
            Some(foreign) => Some(format!(
                "webhook/access-policy: none does not open the {rule}, because the Access application {:?}, which \
                 is not ours, asks all its visitors for a login: make an application with a Bypass policy for this \
                 hostname and path",
                foreign.name
            )),
            None if *self.access_step() == AccessStep::Nothing => None,
            None => Some(format!("webhook/access-policy: none removes the login of the hostname's {rule}")),
        }
    }
}

/// The plan with the refusals and deletions of its waiting openings. An opening whose application stays is refused for
/// that reason, and the request does not fail because of it. A dry run shows the state after all loops, so the other
/// openings do not wait there.
pub(crate) fn with_waiting_openings(
    mut plan: Plan,
    openings: Vec<WaitingOpening>,
    context: PlanContext<'_>,
) -> Plan {
    let moving = plan.refusals.iter().filter(|one| matches!(one.reason, Reason::Moving(_)));
    let moving: BTreeSet<&str> = collect(moving.map(|one| &*one.hostname));
    let (mut refusals, mut deletions) = (Vec::new(), Vec::new());
    for opening in openings {
        if let Some(reason) = waits_in_vain(&opening, &plan, &moving, context.snapshot) {
            refusals.push(Refusal { reason, ..opening.refusal });
            continue;
        }
        deletions.extend(opening.deletions);
        refusals.extend((!context.inputs.is_dry_run).then_some(opening.refusal));
    }
    plan.refusals.extend(refusals);
    plan.application_writes.extend(deletions);
    plan
}

/// The reason if an opening waits in vain for the deletion of its first application: a rule that accepts its tokens
/// stays as it is.
fn waits_in_vain(
    WaitingOpening { opened, first_id, .. }: &WaitingOpening,
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
    let first = snapshot.own_applications().find(|own| own.application.id == *first_id)?;
    let mut accepting = snapshot.all_rules().filter(|(_, rule)| rule.accepts(first.application));
    let (_, also_protects) = accepting.find(|(tunnel, rule)| !is_written(tunnel, rule))?;
    Some(still_protected(first, rule_text(also_protects), opened))
}

fn still_protected(own: OwnApplication<'_>, also_protects: String, opened: &Place) -> Reason {
    Reason::StillProtected {
        application: own.application.name.clone(),
        also_protects: also_protects.into(),
        is_of_place: own.place == opened,
    }
}
