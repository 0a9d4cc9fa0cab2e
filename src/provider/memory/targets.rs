//! Remembers the tunnels and zones with unfinished writes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::write_history::Pause;
use crate::limits;
use crate::reconcile::reason::Reason;

/// The pauses of a tunnel that accepts its unchanged document but no edited document. Each attempt makes every
/// connector reload.
const EDIT_PAUSES: (Duration, Duration) = (Duration::from_secs(60), limits::REJECTION_PAUSE_MIN);

/// By id of a tunnel or zone. The id of a tunnel never equals the id of a zone, and an account has few of both.
#[derive(Debug, Default)]
pub(crate) struct TargetMemories(BTreeMap<Box<str>, TargetMemory>);

/// A tunnel or zone with unfinished writes.
#[derive(Debug, Default)]
pub(crate) struct TargetMemory {
    /// In a search for bad pieces, the maximum number of hostnames in the next group; zero for a single piece.
    pub(crate) group: Option<usize>,
    /// The last write failed, whatever its content.
    pub(crate) is_failing: bool,
    /// The tunnel accepted its unchanged document, but no edited document.
    edits: Option<Pause>,
}

impl TargetMemories {
    pub(crate) fn of(&mut self, target: &str) -> &mut TargetMemory {
        self.0.entry(target.into()).or_default()
    }

    /// True if the last write to the target failed, whatever its content.
    pub(crate) fn is_failing(&self, target: &str) -> bool {
        self.0.get(target).is_some_and(|target| target.is_failing)
    }

    /// Notes that all writes to the target were decided.
    pub(crate) fn forget(&mut self, target: &str) {
        self.0.remove(target);
    }
}

impl TargetMemory {
    /// The reason why edits of the tunnel are paused now.
    pub(crate) fn paused_edits(&self, now: Instant) -> Option<Reason> {
        self.edits.as_ref()?.reason(now)
    }

    /// Notes that the tunnel accepted its unchanged document or has no rules, and accepted no edited document. The next
    /// edit is paused.
    pub(crate) fn pause_edits(&mut self, reason: Reason, now: Instant) {
        self.edits = Some(Pause::after(self.edits.as_ref(), reason, EDIT_PAUSES, now));
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
        let (mut targets, now) = (TargetMemories::default(), now());
        targets.of("a").group = Some(25);
        targets.of("a").is_failing = true;
        targets.of("a").pause_edits(no(), now);
        targets.of("b").is_failing = true;
        assert_eq!((targets.of("a").group, targets.is_failing("a")), (Some(25), true));
        assert_eq!((targets.of("b").group, targets.is_failing("b")), (None, true));
        assert_eq!(
            (targets.of("a").paused_edits(now), targets.of("b").paused_edits(now)),
            (Some(no()), None)
        );
        assert_eq!(targets.of("a").paused_edits(now + EDIT_PAUSES.0), None);
        targets.forget("a");
        assert_eq!((targets.of("a").group, targets.is_failing("a")), (None, false));
        assert_eq!(targets.of("a").paused_edits(now), None);
    }
}
