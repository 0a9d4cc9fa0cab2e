//! Remembers the tunnels and zones with unfinished writes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::write_history::Pause;
use crate::limits;
use crate::reconcile::reason::Reason;

/// The pauses of a tunnel that accepts its unchanged document but no edited document. Each attempt makes every
/// connector reload.
const EDIT_PAUSES: (Duration, Duration) = (Duration::from_secs(60), limits::REJECTION_PAUSE_MIN);

/// The hostnames whose pieces are sent together to a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum GroupSize {
    #[default]
    All,
    /// At most this many, and at least one.
    Hostnames(usize),
    /// One piece of one hostname.
    SinglePiece,
}

/// By id of a tunnel or zone. The id of a tunnel never equals the id of a zone, and an account has few of both.
#[derive(Debug, Default)]
pub(crate) struct WriteTargets(BTreeMap<Box<str>, TargetMemory>);

/// A tunnel or zone with unfinished writes.
#[derive(Debug, Default)]
struct TargetMemory {
    group: GroupSize,
    /// The last write failed, whatever its content.
    is_failing: bool,
    /// The tunnel accepted its unchanged document, but no edited document.
    edits: Option<Pause>,
}

impl WriteTargets {
    pub(crate) fn group_size(&self, target: &str) -> GroupSize {
        self.0.get(target).map(|target| target.group).unwrap_or_default()
    }

    /// Notes that the search for the bad pieces of the target continues with a group of this size.
    pub(crate) fn set_group_size(&mut self, target: &str, group: GroupSize) {
        self.0.entry(target.into()).or_default().group = group;
    }

    /// True if the last write to the target failed, whatever its content.
    pub(crate) fn is_failing(&self, target: &str) -> bool {
        self.0.get(target).is_some_and(|target| target.is_failing)
    }

    /// Notes that a write to the target failed.
    pub(crate) fn set_failing(&mut self, target: &str) {
        self.0.entry(target.into()).or_default().is_failing = true;
    }

    /// The reason why edits of the tunnel are paused now.
    pub(crate) fn paused_edits(&self, tunnel: &str, now: Instant) -> Option<Reason> {
        self.0.get(tunnel)?.edits.as_ref()?.reason(now)
    }

    /// Notes that the tunnel accepted its unchanged document or has no rules, and accepted no edited document. The next
    /// edit is paused. Writes of a zone are not paused.
    pub(crate) fn pause_edits(&mut self, tunnel: &str, reason: Reason, now: Instant) {
        let target = self.0.entry(tunnel.into()).or_default();
        target.edits = Some(Pause::after(target.edits.as_ref(), reason, EDIT_PAUSES, now));
    }

    /// Notes that all writes to the target were decided.
    pub(crate) fn forget(&mut self, target: &str) {
        self.0.remove(target);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no() -> Reason {
        Reason::Cloudflare("no".to_owned())
    }

    #[allow(clippy::disallowed_methods, reason = "any instant will do")]
    fn now() -> Instant {
        Instant::now()
    }

    #[test]
    fn a_target_has_its_group_its_failure_and_its_pause_until_all_of_it_is_decided() {
        let (mut targets, now) = (WriteTargets::default(), now());
        targets.set_group_size("a", GroupSize::Hostnames(50));
        targets.set_failing("a");
        targets.set_group_size("a", GroupSize::Hostnames(25));
        targets.pause_edits("a", no(), now);
        targets.set_failing("b");
        assert_eq!((targets.group_size("a"), targets.is_failing("a")), (GroupSize::Hostnames(25), true));
        assert_eq!((targets.group_size("b"), targets.is_failing("b")), (GroupSize::All, true));
        assert_eq!((targets.paused_edits("a", now), targets.paused_edits("b", now)), (Some(no()), None));
        assert_eq!(targets.paused_edits("a", now + EDIT_PAUSES.0), None);
        targets.forget("a");
        assert_eq!((targets.group_size("a"), targets.is_failing("a")), (GroupSize::All, false));
        assert_eq!(targets.paused_edits("a", now), None);
    }
}
