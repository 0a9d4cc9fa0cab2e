//! What the endpoints of one request ask of Access, all together.

use std::collections::BTreeSet;

use crate::ingress::PathPattern;
use crate::ingress::path::may_share;
use crate::model::hostname::HostPattern;
use crate::reconcile::access::applications::OwnApplication;
use crate::reconcile::access::host_protection::HostProtection;
use crate::reconcile::access::place::Place;
use crate::reconcile::snapshot::Snapshot;

/// What all endpoints of a request ask of Access.
#[derive(Debug, Default)]
pub(crate) struct AccessChanges {
    pub(crate) open: BTreeSet<Place>,
    pub(crate) withdrawn: BTreeSet<Place>,
    /// The places that are not to be opened.
    pub(crate) unopened: Vec<UnopenedPlace>,
}

/// A place whose endpoint does not ask to be open.
#[derive(Debug)]
pub(crate) struct UnopenedPlace {
    /// The whole hostname for an endpoint with a mistake.
    pub(crate) place: Place,
    pub(crate) set_identifier: Box<str>,
    /// The object of the endpoint.
    pub(crate) resource: Option<Box<str>>,
    pub(crate) asks: Asks,
}

/// What an endpoint that does not ask to be open asks of Access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asks {
    Policies,
    Nothing,
    /// The endpoint has a mistake, so neither its path nor its login is known.
    Unknown,
}

impl UnopenedPlace {
    /// True if an application at `from` also covers visitors of this place. A place that is wider than `from` on the
    /// same hostname does not count, because the endpoint of `from` decides about that path.
    pub(super) fn is_covered_from(&self, from: &Place) -> bool {
        let (name, path) = (self.place.hostname(), self.place.path());
        let decides = || {
            let is_wider = PathPattern::takes_all_of(path, from.path());
            self.asks == Asks::Unknown || name != from.hostname() || !is_wider
        };
        HostPattern::of(from.hostname().as_str()).includes(name.as_str())
            && may_share(path, from.path())
            && decides()
    }

    /// True if the place stays closed without the applications `deleted`. A published place without policies counts as
    /// closed, because `first_relying` looks at its rule.
    pub(super) fn stays_closed_without(&self, deleted: &[OwnApplication<'_>], snapshot: &Snapshot) -> bool {
        let protection = HostProtection::of(self.place.hostname(), snapshot);
        let path = self.place.path();
        if self.asks == Asks::Nothing {
            return protection.is_published(path);
        }
        let is_deleted = |id: &str| deleted.iter().any(|own| *own.application.id == *id);
        let made_for = protection.application_made_for(path).map(|own| &own.application.id);
        let first = protection.own_login(path).map(|own| &own.application.id);
        if made_for.is_some_and(|id| first == Some(id) && !is_deleted(id)) {
            return true;
        }
        // The path of an endpoint with a mistake may be the one that is opened, and then no rule closes it.
        if self.asks == Asks::Unknown {
            return false;
        }
        let visited = snapshot.visited_tunnel(self.place.hostname().as_str());
        protection.own_rule(path, visited.as_ref()).is_some_and(|rule| {
            rule.requires_access() && deleted.iter().all(|own| rule.requires_another(own.application))
        })
    }
}
