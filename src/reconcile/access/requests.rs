//! What the endpoints of one request ask of Access, all together.

use std::collections::BTreeSet;

use crate::ingress::PathPattern;
use crate::ingress::path::may_share;
use crate::model::Hostname;
use crate::model::hostname::HostPattern;
use crate::reconcile::access::applications::OwnApplication;
use crate::reconcile::access::host_protection::HostProtection;
use crate::reconcile::snapshot::Snapshot;

/// The hostname and path of a rule; without a path, also of a record without a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::reconcile) struct RuleKey {
    hostname: Box<str>,
    path: Option<Box<str>>,
}

impl RuleKey {
    pub(in crate::reconcile) fn of(hostname: &str, path: Option<&str>) -> Self {
        Self { hostname: hostname.into(), path: path.map(Into::into) }
    }
}

/// What all endpoints of a request ask of Access.
#[derive(Debug, Default)]
pub(in crate::reconcile) struct AccessRequests {
    /// The hostnames and paths to be opened.
    pub(in crate::reconcile) open: BTreeSet<RuleKey>,
    /// The hostnames and paths that are withdrawn.
    pub(in crate::reconcile) withdrawn: BTreeSet<RuleKey>,
    /// The places that are not to be opened.
    pub(in crate::reconcile) unopened: Vec<UnopenedPlace>,
}

/// A place whose endpoint does not ask to be open.
#[derive(Debug)]
pub(in crate::reconcile) struct UnopenedPlace {
    pub(in crate::reconcile) hostname: Hostname,
    pub(in crate::reconcile) set_identifier: Box<str>,
    /// The object of the endpoint.
    pub(in crate::reconcile) resource: Option<Box<str>>,
    pub(in crate::reconcile) asks: UnopenedAsks,
}

/// What the endpoint of an unopened place asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::reconcile) enum UnopenedAsks {
    /// The endpoint names policies.
    Policies,
    /// The endpoint names no policies, and so preserves the protection of its place.
    Unspecified,
    /// The endpoint has a mistake, so its path and the login that it asks for are not known.
    Unknown,
}

impl UnopenedPlace {
    /// The path of the endpoint's rule. An endpoint with a mistake counts for the whole hostname.
    fn path(&self) -> Option<&str> {
        Some(&*self.set_identifier).filter(|path| !path.is_empty() && self.asks != UnopenedAsks::Unknown)
    }

    /// True if the endpoint is for exactly this place, and asks for its application or preserves it.
    pub(super) fn is_closed_at(&self, hostname: &str, path: Option<&str>) -> bool {
        self.asks != UnopenedAsks::Unknown && self.hostname.as_str() == hostname && self.path() == path
    }

    /// True if an application at `hostname` and `path` also covers visitors of this place. A place that is wider than
    /// `path` on the same hostname does not count, because the endpoint of `path` decides about that path.
    pub(super) fn is_covered_from(&self, hostname: &str, path: Option<&str>) -> bool {
        let decides = || {
            let is_wider = PathPattern::matches_all_of(self.path(), path);
            self.asks == UnopenedAsks::Unknown || self.hostname.as_str() != hostname || !is_wider
        };
        HostPattern::of(hostname).includes(self.hostname.as_str())
            && may_share(self.path(), path)
            && decides()
    }

    /// True if visitors of the place need a login without the applications `deleted`, or if the place is published and
    /// its endpoint names no policies.
    pub(super) fn stays_closed_without(&self, deleted: &[OwnApplication<'_>], snapshot: &Snapshot) -> bool {
        let (protection, path) = (HostProtection::of(&self.hostname, snapshot), self.path());
        if self.asks == UnopenedAsks::Unspecified {
            return protection.is_published(path);
        }
        let is_deleted = |id: &str| deleted.iter().any(|one| *one.application.id == *id);
        let made_for = protection.application_made_for(path).map(|own| &own.application.id);
        let first = protection.own_login(path).map(|own| &own.application.id);
        if made_for.is_some_and(|id| first == Some(id) && !is_deleted(id)) {
            return true;
        }
        // The path of an endpoint with a mistake may be the one that is opened, and then no rule closes it.
        if self.asks == UnopenedAsks::Unknown {
            return false;
        }
        let visited = snapshot.visited_tunnel(self.hostname.as_str());
        protection.own_rule(path, visited.as_ref()).is_some_and(|rule| {
            rule.requires_access() && deleted.iter().all(|one| rule.requires_another(one.application))
        })
    }
}
