//! The memory from one request that writes to the next: rejected, reverted and recent writes; the tunnels and zones
//! with unfinished writes; and the turn, which is the hostnames that a request changes if ExternalDNS asks for more at
//! once.

use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::time::{Duration, Instant};

use crate::collections::collect;
use crate::limits;
use crate::provider::execution::halving::GroupSize;
use crate::reconcile::plan::{ComparedWrite, TurnPosition};
use crate::reconcile::reason::Reason;

/// If a write has to be repeated within this time, something reverted it; a third attempt waits.
const REPEATED_WRITES_APART_MAX: Duration = Duration::from_secs(300);

/// The shortest and the longest pause of a write that was rejected or reverted.
const WRITE_PAUSES: (Duration, Duration) = (limits::REJECTION_PAUSE_MIN, limits::REJECTION_PAUSE_MAX);

/// The writes that are remembered. A request changes 1,000 hostnames at most, with some two pieces each.
const WRITES_MAX: usize = 10_000;

/// The pauses of a tunnel that accepts its unchanged document but no edited document. Each attempt makes every
/// connector reload.
const EDIT_PAUSES: (Duration, Duration) = (Duration::from_secs(60), limits::REJECTION_PAUSE_MIN);

/// The number of requests that begin at the same position although a hostname stays half written.
const TRIES_MAX: usize = 3;

#[derive(Debug, Default)]
pub(crate) struct WriteMemory {
    pub(crate) write_history: WriteHistory,
    pub(crate) write_targets: WriteTargets,
    pub(crate) turn: TurnMemory,
}

/// The remembered writes. A write that Cloudflare rejected is not sent in every loop, and a write that is reverted each
/// time is not repeated in every loop, because each written configuration makes every connector of the tunnel reload.
/// All are lost with the process, so a rejected write is then sent once more.
#[derive(Debug, Default)]
pub(crate) struct WriteHistory(HashMap<Key, Remembered>);

#[derive(Debug, PartialEq, Eq, Hash)]
enum Key {
    /// The fingerprint of a suspect: content that was rejected or failed alone.
    Suspect(u64),
    /// The fingerprint of content that was not sent, because its zone is full.
    Unsent(u64),
    /// The key of a `ComparedWrite` that was done. A write that is done again within a short time was reverted.
    Done(u64),
}

#[derive(Debug)]
struct Remembered {
    /// The fingerprint of the content; of a suspect and of unsent content, the same as in the key.
    content: u64,
    /// The content is not sent before the pause ends.
    pause: Option<Pause>,
    /// The write is forgotten at this time, unless the write is rejected or done again before.
    forget_at: Instant,
}

impl WriteHistory {
    /// The contents that must not be sent now, with the reasons. Paused content is not sent, so no second pause
    /// begins and each content has one reason.
    pub(crate) fn paused(&self, now: Instant) -> BTreeMap<u64, Reason> {
        let paused =
            self.0.values().filter_map(|write| Some((write.content, write.pause.as_ref()?.reason(now)?)));
        collect(paused)
    }

    /// True if the content is to be sent alone, after all other content.
    pub(crate) fn is_suspect(&self, content: u64) -> bool {
        self.0.contains_key(&Key::Suspect(content))
    }

    /// Pauses content that Cloudflare rejected alone.
    pub(crate) fn pause_rejected(&mut self, content: u64, reason: Reason, now: Instant) {
        self.pause(Key::Suspect(content), content, reason, now);
    }

    /// Pauses content that was not sent, because Cloudflare rejected other content for a reason that concerns both.
    pub(crate) fn pause_unsent(&mut self, content: u64, reason: Reason, now: Instant) {
        self.pause(Key::Unsent(content), content, reason, now);
    }

    /// Remembers content that was sent alone and failed for a reason that may be over. It is sent again, after all
    /// other content.
    pub(crate) fn remember_suspect(&mut self, content: u64, now: Instant) {
        let forget_at = now + limits::REJECTION_PAUSE_MAX;
        self.0.entry(Key::Suspect(content)).or_insert(Remembered { content, pause: None, forget_at });
    }

    /// Forgets the rejection of content that was accepted.
    pub(crate) fn forget(&mut self, content: u64) {
        self.0.remove(&Key::Suspect(content));
        self.0.remove(&Key::Unsent(content));
    }

    /// Remembers a completed write. If the same content was written recently, the next attempt is paused.
    pub(crate) fn remember_written(&mut self, write: &ComparedWrite, now: Instant) {
        let key = Key::Done(write.key);
        let content = write.fingerprint;
        let is_same = |known: &Remembered| known.content == content && now < known.forget_at;
        if self.0.get(&key).is_some_and(is_same) {
            return self.pause(key, content, Reason::NotKept { what: write.what.clone() }, now);
        }
        let forget_at = now + REPEATED_WRITES_APART_MAX;
        self.0.insert(key, Remembered { content, pause: None, forget_at });
    }

    /// Drops writes whose time is over. Above `WRITES_MAX`, drops all writes without a pause, and if that is not
    /// enough, all writes: as after a restart, rejected and reverted writes are then sent once more.
    pub(crate) fn tidy(&mut self, now: Instant) {
        self.0.retain(|_, write| now < write.forget_at);
        if self.0.len() > WRITES_MAX {
            self.0.retain(|_, write| write.pause.is_some());
        }
        if self.0.len() > WRITES_MAX {
            self.0.clear();
        }
    }

    fn pause(&mut self, key: Key, content: u64, reason: Reason, now: Instant) {
        let earlier = self.0.get(&key).and_then(|known| known.pause.as_ref());
        let pause = Pause::after(earlier, reason, WRITE_PAUSES, now);
        let forget_at = pause.retry_at + limits::REJECTION_PAUSE_MAX;
        self.0.insert(key, Remembered { content, pause: Some(pause), forget_at });
    }
}

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

/// Where the turn begins.
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

/// The pause before something that failed is tried again.
#[derive(Debug)]
pub(super) struct Pause {
    reason: Reason,
    length: Duration,
    pub(super) retry_at: Instant,
}

impl Pause {
    /// The pause after `earlier`. The first pause is `shortest`; each later pause is twice as long, up to `longest`.
    pub(super) fn after(
        earlier: Option<&Self>,
        reason: Reason,
        (shortest, longest): (Duration, Duration),
        now: Instant,
    ) -> Self {
        let length = earlier.map_or(shortest, |earlier| (earlier.length * 2).clamp(shortest, longest));
        Self { reason, length, retry_at: now + length }
    }

    pub(super) fn is_for(&self, reason: &Reason) -> bool {
        self.reason == *reason
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.retry_at <= now
    }

    /// The reason of the pause; `None` once the pause is over.
    pub(super) fn reason(&self, now: Instant) -> Option<Reason> {
        (!self.is_over(now)).then(|| self.reason.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::memory::year;

    const MINUTE: Duration = Duration::from_secs(60);

    fn no() -> Reason {
        Reason::Cloudflare("no".to_owned())
    }

    fn write(key: u64, content: u64) -> ComparedWrite {
        ComparedWrite { key, fingerprint: content, what: "rule".into() }
    }

    #[allow(clippy::disallowed_methods, reason = "any instant will do")]
    fn now() -> Instant {
        Instant::now()
    }

    /// The numbers of the loops, a minute apart, that send what is refused each time or undone each time.
    fn sent(loops: u32, send: impl Fn(&mut WriteHistory, Instant)) -> Vec<u32> {
        let (mut history, start) = (WriteHistory::default(), now());
        let is_sent = |number: &u32| {
            let now = start + MINUTE * *number;
            let is_paused = history.paused(now).contains_key(&1);
            if !is_paused {
                send(&mut history, now);
            }
            history.tidy(now);
            !is_paused
        };
        (0..loops).filter(is_sent).collect()
    }

    #[test]
    fn what_is_refused_waits_ever_longer_and_an_hour_at_most() {
        let tries = sent(240, |history, now| history.pause_rejected(1, no(), now));
        assert_eq!(tries, [0, 10, 30, 70, 130, 190]);
    }

    #[test]
    fn what_is_undone_twice_waits_like_what_is_refused() {
        let tries = sent(240, |history, now| history.remember_written(&write(1, 1), now));
        assert_eq!(tries, [0, 1, 11, 31, 71, 131, 191]);
    }

    #[test]
    fn a_write_undone_within_five_minutes_is_fought_over_and_later_it_is_not() {
        for (apart, is_fought_over) in [(1, true), (299, true), (300, false), (600, false)] {
            let (mut history, start) = (WriteHistory::default(), now());
            let again = start + Duration::from_secs(apart);
            history.remember_written(&write(1, 1), start);
            history.remember_written(&write(1, 1), again);
            let reasons = history.paused(again);
            assert_eq!(reasons.contains_key(&1), is_fought_over, "{apart} s");
        }
    }

    #[test]
    fn another_content_at_the_same_place_is_no_fight_and_ends_one() {
        let (mut history, now) = (WriteHistory::default(), now());
        let holds = |history: &WriteHistory, content| history.paused(now).contains_key(&content);
        for _ in 0..5 {
            history.remember_written(&write(1, 1), now);
            history.remember_written(&write(1, 2), now);
            assert!(!holds(&history, 1) && !holds(&history, 2), "published and withdrawn in turn");
        }
        history.remember_written(&write(1, 2), now);
        assert!(holds(&history, 2) && !holds(&history, 1));
        history.remember_written(&write(1, 1), now);
        assert!(!holds(&history, 2));
    }

    #[test]
    fn what_went_through_waits_no_longer_and_begins_anew_when_it_is_refused_again() {
        let (mut history, now) = (WriteHistory::default(), now());
        let is_paused = |history: &WriteHistory, now| history.paused(now).contains_key(&1);
        history.pause_rejected(1, no(), now);
        history.pause_rejected(1, no(), now);
        history.forget(2);
        assert!(is_paused(&history, now) && history.is_suspect(1));
        history.forget(1);
        assert!(!is_paused(&history, now) && !history.is_suspect(1));
        history.pause_rejected(1, no(), now);
        assert!(!is_paused(&history, now + limits::REJECTION_PAUSE_MIN));
        assert!(history.is_suspect(1), "it is still tried apart");
    }

    #[test]
    fn a_page_in_place_of_an_answer_pauses_nothing_and_takes_nothing_back() {
        let (mut history, now) = (WriteHistory::default(), now());
        history.remember_suspect(1, now);
        assert!(history.is_suspect(1) && history.paused(now).is_empty());
        history.pause_rejected(2, no(), now);
        history.remember_suspect(2, now);
        assert_eq!(history.paused(now), [(2, no())].into());
    }

    #[test]
    fn work_that_was_not_asked_for_in_a_long_time_is_dropped() {
        let (mut history, now) = (WriteHistory::default(), now());
        history.pause_rejected(1, no(), now);
        let last = now + limits::REJECTION_PAUSE_MIN + limits::REJECTION_PAUSE_MAX;
        history.tidy(last - Duration::from_secs(1));
        assert_eq!(history.0.len(), 1);
        history.tidy(last);
        assert!(history.0.is_empty());
    }

    /// An object may change each of its 64 refused rules in every loop, and each rule may be as long as an endpoint.
    #[test]
    fn above_the_limit_all_is_forgotten_as_after_a_restart() {
        for (number, left) in [(WRITES_MAX, WRITES_MAX), (WRITES_MAX + 1, 0)] {
            let (mut history, now) = (WriteHistory::default(), now());
            (0..number as u64).for_each(|rule| history.pause_rejected(rule, no(), now));
            history.tidy(now);
            assert_eq!(history.0.len(), left, "of {number}");
        }
        assert!(
            size_of::<(Key, Remembered)>() <= 192,
            "2 MB in all, but for the texts of Cloudflare's answers"
        );
    }

    #[test]
    fn a_year_of_other_work_in_every_loop_leaves_that_of_the_last_hours() {
        let mut history = WriteHistory::default();
        for (number, now) in year::loops() {
            history.pause_rejected(3 * number, no(), now);
            history.remember_suspect(3 * number + 1, now);
            history.remember_written(&write(3 * number + 2, 1), now);
            history.tidy(now);
            assert!(history.0.len() <= 15, "{}", history.0.len());
        }
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
