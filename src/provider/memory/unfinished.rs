//! Remembers what a request left unfinished: the tunnels and zones with unfinished writes, and the turn, which is the
//! hostnames that a request changes if ExternalDNS asks for more at once.

use std::collections::BTreeMap;
use std::mem;
use std::time::{Duration, Instant};

use super::pause::Pause;
use crate::limits;
use crate::provider::execution::halving::GroupSize;
use crate::reconcile::plan::TurnPosition;
use crate::reconcile::reason::Reason;

/// The pauses of a tunnel that accepts its unchanged document but no edited document. Each attempt makes every
/// connector reload.
const EDIT_PAUSES: (Duration, Duration) = (Duration::from_secs(60), limits::REJECTION_PAUSE_MIN);

/// The tunnels and zones with unfinished writes, by id. The id of a tunnel never equals the id of a zone, and an
/// account has few of both.
///
/// | event | change |
/// |---|---|
/// | a write fails for another reason than its content | `failure`; after a probe that succeeded, edits pause |
/// | a probe succeeds: the document is accepted or rejected as it is, or has no rules | no failure; `probe_succeeded` |
/// | the write of a probe fails for another reason than its content | `failure` |
/// | a stage sends its groups | `group_size` |
/// | no stage has left a piece of a target undecided, and Cloudflare answered | the target is forgotten |
/// | a request leaves no work, or begins after a loop in which ExternalDNS asked for no changes | all are forgotten |
#[derive(Debug, Default)]
pub(crate) struct WriteTargets(BTreeMap<Box<str>, TargetMemory>);

#[derive(Debug, Default)]
struct TargetMemory {
    /// The reason why the last write failed, unless its content was the cause.
    failure: Option<Reason>,
    /// A probe has succeeded since the target was first remembered.
    probe_succeeded: bool,
    /// A probe succeeded, but the next edit failed.
    edit_pause: Option<Pause>,
    /// `Halving::group_size` at the end of the last stage.
    group_size: GroupSize,
}

impl WriteTargets {
    /// The reason why the last write failed, unless its content was the cause.
    pub(crate) fn failure(&self, id: &str) -> Option<&Reason> {
        self.0.get(id)?.failure.as_ref()
    }

    /// True unless edits of the tunnel are paused now.
    pub(crate) fn may_probe(&self, id: &str, now: Instant) -> bool {
        let pause = self.0.get(id).and_then(|target| target.edit_pause.as_ref());
        pause.is_none_or(|pause| pause.is_over(now))
    }

    pub(crate) fn group_size(&self, id: &str) -> GroupSize {
        self.0.get(id).map(|target| target.group_size).unwrap_or_default()
    }

    /// Remembers that a write failed for another reason than its content. Pauses the edits of a tunnel whose probe has
    /// succeeded. True if the failure is to be logged: the last write had not failed, and edits were not paused before.
    pub(crate) fn remember_failure(&mut self, id: &str, reason: &Reason, now: Instant) -> bool {
        let TargetMemory { failure, probe_succeeded, edit_pause, group_size: _ } = self.target(id);
        let is_new = failure.is_none() && edit_pause.is_none();
        if *probe_succeeded {
            *edit_pause = Some(Pause::after(edit_pause.as_ref(), reason.clone(), EDIT_PAUSES, now));
        }
        *failure = Some(reason.clone());
        is_new
    }

    /// Remembers that a probe succeeded, or the reason why its write failed.
    pub(crate) fn remember_probe(&mut self, id: &str, result: Result<(), Reason>) {
        let target = self.target(id);
        target.probe_succeeded |= result.is_ok();
        target.failure = result.err();
    }

    pub(crate) fn remember_group_size(&mut self, id: &str, size: GroupSize) {
        self.target(id).group_size = size;
    }

    /// Forgets the target, whose pieces are all written or rejected.
    pub(crate) fn forget(&mut self, id: &str) {
        self.0.remove(id);
    }

    /// Forgets all targets.
    pub(crate) fn forget_all(&mut self) {
        self.0.clear();
    }

    fn target(&mut self, id: &str) -> &mut TargetMemory {
        self.0.entry(id.into()).or_default()
    }
}

/// The number of requests that begin at the same position although a hostname stays half written.
const TRIES_MAX: usize = 3;

#[derive(Debug, Default)]
pub(crate) struct TurnMemory {
    /// The position at which the turn begins; `None` for the first hostname.
    pub(crate) start: Option<TurnPosition>,
    /// The number of requests in a row that left hostnames undone, from the first that may have written a part of one.
    half_written_requests: usize,
}

impl TurnMemory {
    /// Remembers that a part of a hostname was written, or may have been, and not all of it.
    pub(crate) fn remember_half_written(&mut self) {
        self.half_written_requests = self.half_written_requests.max(1);
    }

    /// Remembers the end of a request: whether it gave up hostnames of the turn, and the position of the first hostname
    /// that it postponed.
    pub(crate) fn end_request(&mut self, has_given_up: bool, first_postponed: Option<&TurnPosition>) {
        let half_written = mem::take(&mut self.half_written_requests);
        if !has_given_up {
            // The turn stays where it is, because ExternalDNS asks for completed hostnames no more.
            return;
        }
        if (1..TRIES_MAX).contains(&half_written) {
            // The turn is repeated: the next request writes the rest of the hostname, or deletes the part.
            self.half_written_requests = half_written + 1;
        } else {
            // The turn advances, because the hostnames that were given up must not hold up those that wait.
            self.start = first_postponed.cloned().or_else(|| self.start.take());
        }
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
    fn edits_pause_if_a_write_fails_after_a_probe_that_succeeded() {
        let (mut targets, now) = (WriteTargets::default(), now());
        assert!(targets.remember_failure("one", &no(), now));
        targets.remember_probe("one", Ok(()));
        assert_eq!(targets.failure("one"), None);
        assert!(targets.remember_failure("one", &no(), now));
        targets.remember_probe("one", Ok(()));
        assert!(!targets.remember_failure("one", &no(), now));
        targets.remember_failure("other", &no(), now);
        for (id, is_paused) in [("one", true), ("other", false)] {
            assert_eq!(targets.failure(id), Some(&no()));
            assert_eq!(targets.may_probe(id, now), !is_paused);
        }
        assert!(targets.may_probe("one", now + EDIT_PAUSES.0 * 2));
    }

    #[test]
    fn a_turn_that_began_a_hostname_has_two_more_requests_and_a_turn_that_began_none_has_no_more() {
        let next = TurnPosition { counts_as_deletion: false, hostname: "b.example.com".into() };
        for (begins, has_moved_on) in [(false, [true, true, true, true]), (true, [false, false, true, false])]
        {
            let mut turn = TurnMemory::default();
            let ends = [(); 4].map(|()| {
                turn.start = None;
                if begins {
                    turn.remember_half_written();
                }
                turn.end_request(true, Some(&next));
                turn.start.is_some()
            });
            assert_eq!(ends, has_moved_on, "{begins}");
        }
        let mut turn = TurnMemory::default();
        turn.end_request(true, None);
        turn.end_request(false, Some(&next));
        assert_eq!(turn.start, None, "no others wait, or all of the turn is done");
    }
}
