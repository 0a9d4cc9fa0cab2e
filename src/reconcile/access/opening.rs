//! Finds the places that need an application of their own before a wider place opens. The application of a wildcard, or
//! of a whole hostname, may be the only login of a narrower place.

use crate::ingress::path::may_share;
use crate::ingress::{PathPattern, Rule};
use crate::model::Hostname;
use crate::model::access::Application;
use crate::model::hostname::HostPattern;
use crate::reconcile::access::host_protection::{self, HostProtection};
use crate::reconcile::access::place::Place;
use crate::reconcile::snapshot::Snapshot;

/// A place that is to be closed.
#[derive(Debug)]
pub(in crate::reconcile) struct Closing {
    pub(in crate::reconcile) hostname: Hostname,
    pub(in crate::reconcile) set_identifier: Box<str>,
    /// The object of the endpoint.
    pub(in crate::reconcile) resource: Option<Box<str>>,
    pub(in crate::reconcile) by: ClosedBy,
}

/// The reason why a place is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::reconcile) enum ClosedBy {
    /// The endpoint names policies.
    Policies,
    /// The endpoint names no policies, and so preserves the protection of its place.
    Unspecified,
    /// The endpoint has a mistake, so its path and the login that it asks for are not known.
    Mistake,
}

impl Closing {
    /// The path of the endpoint's rule. An endpoint with a mistake counts for the whole hostname.
    fn path(&self) -> Option<&str> {
        Some(&*self.set_identifier).filter(|path| !path.is_empty() && self.by != ClosedBy::Mistake)
    }

    /// True if the endpoint closes exactly this place by an application.
    pub(super) fn is_at(&self, hostname: &str, path: Option<&str>) -> bool {
        self.by == ClosedBy::Policies && self.hostname.as_str() == hostname && self.path() == path
    }

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
    fn is_closed_without(&self, going: &[&Application], snapshot: &Snapshot) -> bool {
        let (protection, path) = (HostProtection::of(&self.hostname, snapshot), self.path());
        if self.by == ClosedBy::Unspecified {
            return protection.is_published(path);
        }
        let asked = protection.own_covering(path).into_iter().next();
        let own = protection.application(path).filter(|own| asked.is_some_and(|asked| asked.id == own.id));
        let visited = snapshot.visited_tunnel(self.hostname.as_str());
        let takes_none = |rule: &Rule| {
            rule.requires_access() && going.iter().all(|one| host_protection::requires_another(rule, one))
        };
        own.is_some_and(|own| going.iter().all(|one| one.id != own.id))
            || self.by == ClosedBy::Policies
                && protection.own_rule(path, visited.as_ref()).is_some_and(takes_none)
    }
}

/// The first place that would open together with `path` of the hostname if the applications `going` and the Access
/// check of the path's rule were removed.
pub(super) fn opened_with<'c>(
    closings: impl Iterator<Item = &'c Closing>,
    protection: HostProtection<'_>,
    path: Option<&str>,
    going: &[&Application],
) -> Option<&'c Closing> {
    let HostProtection { hostname, snapshot } = protection;
    let owner = &snapshot.operator().owner;
    let places: Vec<Place> = going.iter().filter_map(|one| Place::of_application(one, owner)).collect();
    let mut within = closings.filter(|closing| {
        let is_of = |place: &Place| closing.is_within(place.hostname(), place.path().as_deref());
        closing.is_within(hostname.as_str(), path) || places.iter().any(is_of)
    });
    within.find(|closing| !closing.is_closed_without(going, snapshot))
}
