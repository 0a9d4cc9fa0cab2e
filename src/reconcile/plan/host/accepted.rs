//! An endpoint without an obstacle.

use crate::model::TunnelId;
use crate::reconcile::access::gate::Gated;
use crate::reconcile::canonical::Publication;
use crate::reconcile::stamp::Digest;

/// An endpoint that is to be published, or that is published as wanted already.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accepted<'w> {
    pub(super) gated: &'w Gated,
    pub(super) resource: Option<&'w str>,
}

impl<'w> Accepted<'w> {
    pub(super) fn publication(&self) -> &'w Publication {
        self.gated.publication()
    }

    pub(super) fn tunnel(&self) -> &'w TunnelId {
        &self.publication().tunnel
    }

    pub(super) fn path(&self) -> Option<&'w str> {
        self.publication().path()
    }

    /// The digest of the endpoint's rule; `None` if the endpoint asks only for the record.
    pub(super) fn digest(&self) -> Option<Digest> {
        self.publication().rule.as_ref()?;
        Some(Digest::of(self.tunnel(), self.path()))
    }
}
