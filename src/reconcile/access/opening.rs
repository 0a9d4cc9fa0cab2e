//! Opens a place whose endpoint says `webhook-access-policy: none`. The application of a wildcard, or of a whole
//! hostname, may be the only login of a narrower place: that place needs an application of its own first.

use crate::reconcile::access::applications::OwnApplication;
use crate::reconcile::access::gate::{AccessStep, ApplicationWrite, Gate, WaitingOpening};
use crate::reconcile::access::place::Place;
use crate::reconcile::access::reading::AccessReading;
use crate::reconcile::access::relying::{Asks, UnopenedPlace, first_relying};
use crate::reconcile::namespace;
use crate::reconcile::reason::Reason;
use crate::reconcile::refusal::Refusal;

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
            if let Some(also_protects) =
                first_relying(*own, Some(&opened), context.access_changes, context.snapshot)
            {
                let application = own.application.name.clone();
                let is_of_place = *own.place == opened;
                return Err(Reason::StillProtected {
                    application,
                    also_protects: also_protects.into(),
                    is_of_place,
                });
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
        Ok(self.opening_step(&logins))
    }

    /// The work that deletes the applications `logins`, the most specific one first.
    fn opening_step(self, logins: &[OwnApplication<'_>]) -> AccessStep {
        let Self { context, publication, resource, .. } = self;
        let inputs = context.inputs;
        let Some(first) = logins.first() else {
            return AccessStep::Opening { deletions: Vec::new(), waiting: None };
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
        let Some(reason) = reason else { return AccessStep::Opening { deletions, waiting: None } };
        let path = publication.path().unwrap_or_default();
        let refusal = Refusal::new(publication.hostname.as_str(), Some(path), resource, reason);
        let waiting = WaitingOpening { refusal, first: first.application.id.clone(), deletions };
        AccessStep::Opening { deletions: Vec::new(), waiting: Some(waiting) }
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
        other.map_or(Ok(()), |UnopenedPlace { place, set_identifier, .. }| {
            let hostname = place.hostname().as_str().into();
            let set_identifier = set_identifier.clone();
            Err(Reason::OpensToo { hostname, set_identifier })
        })
    }
}
