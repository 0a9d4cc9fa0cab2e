//! What the endpoints of one request ask of Access.

use std::collections::BTreeSet;

use crate::model::Hostname;
use crate::reconcile::access::place::RuleKey;

/// What all endpoints of a request ask of Access.
#[derive(Debug, Default)]
pub(in crate::reconcile) struct AccessRequests {
    /// The hostnames and paths to be opened.
    pub(in crate::reconcile) open: BTreeSet<RuleKey>,
    /// The hostnames and paths that are withdrawn.
    pub(in crate::reconcile) withdrawn: BTreeSet<RuleKey>,
    /// The places to be closed.
    pub(in crate::reconcile) closing: Vec<Closing>,
}

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
    pub(super) fn path(&self) -> Option<&str> {
        Some(&*self.set_identifier).filter(|path| !path.is_empty() && self.by != ClosedBy::Mistake)
    }

    /// True if the endpoint closes exactly this place by an application.
    pub(super) fn is_at(&self, hostname: &str, path: Option<&str>) -> bool {
        self.by == ClosedBy::Policies && self.hostname.as_str() == hostname && self.path() == path
    }
}
