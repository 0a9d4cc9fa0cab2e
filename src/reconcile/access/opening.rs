//! Opens a place whose endpoint says `webhook-access-policy: none`, and finds the places that need an application of
//! their own before. The application of a wildcard, or of a whole hostname, may be the only login of a narrower place.

use crate::ingress::path::may_share;
use crate::ingress::{PathPattern, Rule};
use crate::model::hostname::HostPattern;
use crate::reconcile::access::applications::OwnApplication;
use crate::reconcile::access::gate::{AccessStep, ApplicationWrite, OpeningEnd, unknown};
use crate::reconcile::access::host_protection::{self, HostProtection};
use crate::reconcile::access::place::{Place, RuleKey};
use crate::reconcile::access::reading::AccessReading;
use crate::reconcile::access::relying::{ClosedBy, Closing, relying};
use crate::reconcile::canonical::Publication;
use crate::reconcile::namespace;
use crate::reconcile::plan_inputs::PlanContext;
use crate::reconcile::reason::Reason;
use crate::reconcile::snapshot::Snapshot;

impl Closing {
    /// True if an application at `hostname` and `path` also covers visitors of this place. A place that is wider than
    /// `path` on the same hostname does not count, because the endpoint of `path` decides about that path.
    fn is_within(&self, hostname: &str, path: Option<&str>) -> bool {
        let decides = || {
            let is_wider = PathPattern::matches_all_of(self.path(), path);
            self.by == ClosedBy::Mistake || self.hostname.as_str() != hostname || !is_wider
        };
        HostPattern::of(hostname).includes(self.hostname.as_str())
            && may_share(self.path(), path)
            && decides()
    }

    /// True if the place asks for a login without the applications `going`: by an application of its own, or by a rule
    /// that accepts none of their tokens. An endpoint without policies counts as closed if it is already published. A
    /// rule closes no endpoint with a mistake, because that endpoint's path may be the opening one.
    fn is_closed_without(&self, going: &[OwnApplication<'_>], snapshot: &Snapshot) -> bool {
        let (protection, path) = (HostProtection::of(&self.hostname, snapshot), self.path());
        if self.by == ClosedBy::Unspecified {
            return protection.is_published(path);
        }
        let first = protection.own_covering(path).next().map(|own| &own.application.id);
        let own =
            protection.application(path).map(|own| &own.application.id).filter(|own| first == Some(own));
        let visited = snapshot.visited_tunnel(self.hostname.as_str());
        let takes_none = |rule: &Rule| {
            rule.requires_access()
                && going.iter().all(|one| host_protection::requires_another(rule, one.application))
        };
        own.is_some_and(|own| going.iter().all(|one| one.application.id != *own))
            || self.by == ClosedBy::Policies
                && protection.own_rule(path, visited.as_ref()).is_some_and(takes_none)
    }
}

/// The work that opens the place of the publication.
pub(super) fn opened(
    context: PlanContext<'_>,
    publication: &Publication,
    resource: Option<&str>,
    protection: HostProtection<'_>,
) -> Result<AccessStep, Reason> {
    let path = publication.path();
    if let AccessReading::Failed(unread) = &context.snapshot.access
        && (protection.claims_protection() || protection.check(path).is_some())
    {
        return Err(unknown(context, publication, unread));
    }
    let mut covering: Vec<OwnApplication<'_>> = protection.own_covering(path).collect();
    // The application made for the path is deleted even if changed by hand: `records` would show it for ever.
    let made_for = protection.application(path);
    covering.extend(
        made_for.filter(|made| !covering.iter().any(|own| own.application.id == made.application.id)),
    );
    let asking = RuleKey::of(publication.hostname.as_str(), path);
    for own in &covering {
        if let Some(relying) = relying(*own, &asking, context.access_requests, context.snapshot) {
            let application = own.application.name.clone();
            return Err(Reason::StillProtected { application, relying: Some(relying.into()) });
        }
    }
    if covering.is_empty() && protection.check(path).is_none() {
        return Ok(AccessStep::Nothing);
    }
    check_nothing_else_opens(context, resource, protection, path, &covering)?;
    // An old answer may hide a rule that relies on the application.
    if let Some(problem) = context.snapshot.old_answers.values().next() {
        return Err(Reason::Waiting(problem.to_string()));
    }
    let mut all = protection.all_covering(path).into_iter();
    let is_alone = all.all(|one| covering.iter().any(|own| own.application.id == one.id));
    let end = if is_alone { OpeningEnd::Open } else { OpeningEnd::Foreign };
    let Some(first) = covering.first() else {
        return Ok(AccessStep::Opening { deletion: None, end });
    };
    let is_accepted = context.snapshot.is_accepted(first.application);
    let deletion = (!is_accepted).then(|| ApplicationWrite::delete(*first));
    deletion.iter().try_for_each(|write| context.inputs.check_not_paused(write.content_fingerprint()))?;
    let is_last = deletion.is_some() && covering.len() == 1;
    let end = if is_last { end } else { OpeningEnd::Later { application: first.application.id.clone() } };
    Ok(AccessStep::Opening { deletion, end })
}

/// Refuses an opening that would open another place too, if the endpoint of that place does not ask to be open. The
/// opening removes the applications `going` and the Access check of the path's rule.
fn check_nothing_else_opens(
    context: PlanContext<'_>,
    resource: Option<&str>,
    protection: HostProtection<'_>,
    path: Option<&str>,
    going: &[OwnApplication<'_>],
) -> Result<(), Reason> {
    let is_guarded = context.snapshot.operator().namespace_guard;
    let namespace_of = |resource: Option<&str>| resource.and_then(namespace::code_of);
    let opened = context.access_requests.closing.iter().find(|closing| {
        // With the namespace guard, an endpoint of another namespace cannot block an opening.
        let is_of_others = is_guarded && namespace_of(closing.resource.as_deref()) != namespace_of(resource);
        // A dry run shows the state after all closings, so only an endpoint with a mistake counts.
        let counts = !is_of_others && (closing.by == ClosedBy::Mistake || !context.inputs.is_dry_run);
        let is_of = |place: &Place| closing.is_within(place.hostname(), place.path());
        let is_at_path = || closing.is_within(protection.hostname.as_str(), path);
        counts
            && (is_at_path() || going.iter().any(|own| is_of(own.place)))
            && !closing.is_closed_without(going, context.snapshot)
    });
    opened.map_or(Ok(()), |Closing { hostname, set_identifier, .. }| {
        let (hostname, set_identifier) = (hostname.as_str().into(), set_identifier.clone());
        Err(Reason::OpensToo { hostname, set_identifier })
    })
}
