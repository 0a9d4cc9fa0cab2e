//! The present protection of a hostname. `covering.rs` adds what applications protect, `checks.rs` what the Access checks
//! of rules do.

use crate::model::{Hostname, TunnelId};
use crate::reconcile::access::reading::{AccessReadError, AccessSnapshot};
use crate::reconcile::snapshot::Snapshot;

/// One hostname, and the snapshot that shows its protection.
#[derive(Clone, Copy)]
pub(in crate::reconcile) struct HostProtection<'a> {
    pub(super) hostname: &'a Hostname,
    pub(super) snapshot: &'a Snapshot,
}

impl<'a> HostProtection<'a> {
    pub(in crate::reconcile) fn of(hostname: &'a Hostname, snapshot: &'a Snapshot) -> Self {
        Self { hostname, snapshot }
    }

    pub(super) fn access(self) -> Option<&'a AccessSnapshot> {
        self.snapshot.access.snapshot()
    }

    /// The snapshot of Access if every zone around the hostname was read; else the reason why a zone was not read.
    pub(super) fn whole_access(self) -> Result<&'a AccessSnapshot, AccessReadError> {
        let access = self.snapshot.access.snapshot_or_reason()?;
        let mut zones = self.snapshot.zones_around(self.hostname.as_str());
        match zones.find_map(|zone| access.unread_zones.iter().find(|(name, _)| *name == zone.zone.name)) {
            Some((_, unread)) => Err(unread.clone()),
            None => Ok(access),
        }
    }

    /// True if the comment needs the mark that an application of ours protects a part of the hostname. A present mark
    /// is preserved while Access is not read, and while a rule asks for a token that no application issues. Then the log
    /// reports the missing application after a restart too.
    pub(in crate::reconcile) fn needs_mark(self, has_mark: bool) -> bool {
        if self.access().is_none() {
            return has_mark;
        }
        let (name, mut rules) = (self.hostname.as_str(), self.snapshot.rules_of(self.hostname).into_iter());
        let has_own = |name: &str| self.snapshot.own_applications_of(name).next().is_some();
        has_own(name)
            || name.split_once('.').is_some_and(|(_, domain)| has_own(&format!("*.{domain}")))
            || has_mark && rules.any(|(_, rule)| self.refuses_every_visitor(rule))
    }

    /// True if the comment of our record for the hostname, or for the wildcard above it, has the mark of a protection.
    pub(super) fn claims_protection(self) -> bool {
        let records = self.snapshot.answering(self.hostname.as_str()).iter();
        let mut stamps = records.filter_map(|record| self.snapshot.own_stamp(record));
        stamps.any(|stamp| stamp.claims.is_protected)
    }

    /// True if the comment of our record claims the record without a rule.
    pub(in crate::reconcile) fn is_record_only(self) -> bool {
        let own = self.snapshot.own_records_of(self.hostname.as_str());
        own.iter().any(|own| own.stamp.claims.record_only)
    }

    /// True if a rule of ours is published at the path, or our record without a rule.
    pub(super) fn is_published(self, path: Option<&str>) -> bool {
        self.own_rule(path, None).is_some() || path.is_none() && self.is_record_only()
    }

    /// True if our record is published without a rule, and points to this tunnel.
    pub(super) fn is_record_only_in(self, tunnel: &TunnelId) -> bool {
        self.is_record_only() && self.snapshot.visited_tunnel(self.hostname.as_str()).as_ref() == Some(tunnel)
    }
}
