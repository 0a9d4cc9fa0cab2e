//! Remembers the work that must wait: what Cloudflare refused, so that it is not sent again in every loop; what does not
//! stay as it was written, because every written configuration makes every replica of `cloudflared` reload; and the
//! tunnels and zones whose last writes failed.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use crate::lean::inserted;
use crate::limits;
use crate::model::ZoneId;
use crate::reconcile::plan::{Reason, TurnEnd, Unfinished, Write};
use crate::reconcile::snapshot::Snapshot;

/// Two equal writes within this time are a fight: in between something changed the first one back. The third one waits.
const REPEATED_WRITES_APART_MAX: Duration = Duration::from_secs(300);

/// The pauses of work that Cloudflare refused, or does not keep.
const WORK_PAUSES: (Duration, Duration) = (limits::REJECTION_PAUSE_MIN, limits::REJECTION_PAUSE_MAX);

/// The pauses of a tunnel that takes its document and no edit of it. Each try makes every replica of `cloudflared`
/// reload.
const EDIT_PAUSES: (Duration, Duration) = (Duration::from_secs(60), limits::REJECTION_PAUSE_MIN);

/// Work that is kept. A request of 5,000 hostnames writes twice as many pieces.
const WORK_MAX: usize = 10_000;

/// The memory is lost with the process; then refused work is sent once more.
#[derive(Debug, Default)]
pub(crate) struct WaitingWork {
    /// By fingerprint: refused work by its content, and written or repeated work by the key of its `Write`.
    work: HashMap<u64, Work>,
    /// Tunnels and zones, by their ids. No tunnel has the id of a zone.
    targets: BTreeMap<Box<str>, TargetMemory>,
    /// The end of the last turn, if it left hostnames.
    pub(crate) turn_end: Option<TurnEnd>,
    /// The number of hostnames of a turn, if turns ran out of time.
    turn_most: Option<usize>,
    /// What the last run left undone, by hostname.
    pub(crate) unfinished: BTreeMap<Box<str>, Unfinished>,
}

#[derive(Debug)]
struct Work {
    state: State,
    /// The work is forgotten at this time, unless it is refused or written again before.
    forget_at: Instant,
}

#[derive(Debug)]
enum State {
    /// The work with this content is not sent before the pause is over.
    Held { content: u64, quota: Option<Quota>, pause: Pause },
    /// The content that was written lately.
    Written { content: u64 },
}

/// The zone that was full, and its number of records.
pub(crate) type Quota = (ZoneId, usize);

#[derive(Debug)]
struct Pause {
    reason: Reason,
    length: Duration,
    retry_at: Instant,
}

/// A tunnel or a zone of which not all work was decided.
#[derive(Debug)]
struct TargetMemory {
    /// The number of hostnames to send together; `None` for all.
    group: Option<usize>,
    /// Its last write failed, whatever it was to write.
    is_failing: bool,
    /// A tunnel took its document as it was, and no edit of it.
    edits: Option<Pause>,
    forget_at: Instant,
}

impl WaitingWork {
    /// The number of hostnames that one turn changes.
    pub(crate) fn turn_most(&self) -> usize {
        self.turn_most.unwrap_or(limits::CHANGED_HOSTNAMES_MAX)
    }

    /// A turn of so many hostnames ran out of time. The next one takes half of them, but not fewer than
    /// `CHANGED_HOSTNAMES_MIN`; true if the one before took all.
    pub(crate) fn shorten_turns(&mut self, hostnames: usize) -> bool {
        let half = (hostnames / 2).max(limits::CHANGED_HOSTNAMES_MIN);
        self.turn_most.replace(half).is_none()
    }

    /// A turn had time for all that it took. The next one takes half as many more.
    pub(crate) fn lengthen_turns(&mut self) {
        let most = self.turn_most.map(|most| most + most.div_ceil(2));
        self.turn_most = most.filter(|most| *most < limits::CHANGED_HOSTNAMES_MAX);
    }

    /// The contents that must not be sent now, with the reasons.
    pub(crate) fn reasons(&self, snapshot: &Snapshot, now: Instant) -> BTreeMap<u64, Reason> {
        inserted(self.work.values().filter_map(|work| match &work.state {
            State::Held { content, quota, pause } => {
                let is_held = now < pause.retry_at && !has_room(quota.as_ref(), snapshot);
                is_held.then(|| (*content, pause.reason.clone()))
            }
            State::Written { .. } => None,
        }))
    }

    /// True if the work was refused when it was last sent, or got no answer of Cloudflare's.
    pub(crate) fn has_failed(&self, content: u64) -> bool {
        self.work.contains_key(&content)
    }

    /// Cloudflare refused the work when it was sent alone.
    pub(crate) fn refuse(&mut self, content: u64, reason: Reason, quota: Option<Quota>, now: Instant) {
        self.hold(content, content, reason, quota, now);
    }

    /// Notes work that was sent alone and answered by another server. The work counts as failed, and does not wait.
    pub(crate) fn leave_unanswered(&mut self, content: u64, reason: Reason, now: Instant) {
        let pause = Pause { reason, length: Duration::ZERO, retry_at: now };
        let state = State::Held { content, quota: None, pause };
        let forget_at = now + limits::REJECTION_PAUSE_MAX;
        self.work.entry(content).or_insert(Work { state, forget_at });
    }

    /// The work went through.
    pub(crate) fn forget(&mut self, content: u64) {
        self.work.remove(&content);
    }

    /// The write was done.
    pub(crate) fn note_written(&mut self, write: &Write, now: Instant) {
        let is_repeated = self.work.get(&write.key).is_some_and(|work| match work.state {
            State::Written { content } => content == write.content && now < work.forget_at,
            State::Held { content, .. } => content == write.content,
        });
        if is_repeated {
            return self.hold(write.key, write.content, write.not_kept(), None, now);
        }
        let state = State::Written { content: write.content };
        self.work.insert(write.key, Work { state, forget_at: now + REPEATED_WRITES_APART_MAX });
    }

    /// The number of hostnames to send together to a target; `None` for all.
    pub(crate) fn group_size(&self, target: &str) -> Option<usize> {
        self.targets.get(target)?.group
    }

    /// Work of a target was refused in a group and is not decided yet.
    pub(crate) fn set_group_size(&mut self, target: &str, group: usize, now: Instant) {
        self.target(target, now).group = Some(group);
    }

    /// True if a write of the target failed, whatever it was to write.
    pub(crate) fn is_failing(&self, target: &str) -> bool {
        self.targets.get(target).is_some_and(|target| target.is_failing)
    }

    /// A write of the target failed.
    pub(crate) fn set_failing(&mut self, target: &str, now: Instant) {
        self.target(target, now).is_failing = true;
    }

    /// The reason why a tunnel gets no edit now.
    pub(crate) fn paused_edits(&self, tunnel: &str, now: Instant) -> Option<Reason> {
        let pause = self.targets.get(tunnel)?.edits.as_ref();
        Some(pause.filter(|pause| now < pause.retry_at)?.reason.clone())
    }

    /// A tunnel that took its document as it was did not take an edit of it: the next try waits.
    pub(crate) fn pause_edits(&mut self, tunnel: &str, reason: Reason, now: Instant) {
        let target = self.target(tunnel, now);
        target.edits = Some(Pause::behind(target.edits.as_ref(), reason, EDIT_PAUSES, now));
    }

    /// All work of a target was decided.
    pub(crate) fn forget_target(&mut self, target: &str) {
        self.targets.remove(target);
    }

    /// Drops what was not asked for in a long time, and if there is too much, the work that would be dropped next.
    pub(crate) fn tidy(&mut self, now: Instant) {
        self.targets.retain(|_, target| now < target.forget_at);
        self.work.retain(|_, work| now < work.forget_at);
        let Some(surplus) = self.work.len().checked_sub(WORK_MAX).filter(|surplus| *surplus > 0) else {
            return;
        };
        let mut oldest: Vec<(Instant, u64)> =
            self.work.iter().map(|(key, work)| (work.forget_at, *key)).collect();
        oldest.sort_unstable();
        for (_, key) in oldest.into_iter().take(surplus) {
            self.work.remove(&key);
        }
    }

    fn target(&mut self, target: &str, now: Instant) -> &mut TargetMemory {
        let forget_at = now + limits::REJECTION_PAUSE_MAX;
        let new = TargetMemory { group: None, is_failing: false, edits: None, forget_at };
        let target = self.targets.entry(target.into()).or_insert(new);
        target.forget_at = forget_at;
        target
    }

    fn hold(&mut self, key: u64, content: u64, reason: Reason, quota: Option<Quota>, now: Instant) {
        let earlier = self.work.get(&key).and_then(|work| match &work.state {
            State::Held { content: held, pause, .. } if *held == content => Some(pause),
            _ => None,
        });
        let pause = Pause::behind(earlier, reason, WORK_PAUSES, now);
        let forget_at = pause.retry_at + limits::REJECTION_PAUSE_MAX;
        self.work.insert(key, Work { state: State::Held { content, quota, pause }, forget_at });
    }
}

impl Pause {
    /// The pause after `earlier`: the first is the shortest, and each later pause is twice as long, up to `longest`.
    fn behind(
        earlier: Option<&Self>,
        reason: Reason,
        (shortest, longest): (Duration, Duration),
        now: Instant,
    ) -> Self {
        let length = earlier.map_or(shortest, |earlier| (earlier.length * 2).clamp(shortest, longest));
        Self { reason, length, retry_at: now + length }
    }
}

/// True if a zone that was full has fewer records now.
fn has_room(quota: Option<&Quota>, snapshot: &Snapshot) -> bool {
    quota.is_some_and(|(full, records)| {
        snapshot.zone(full).is_some_and(|zone| zone.records().len() < *records)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::snapshot;
    use crate::provider::memory::year;

    const MINUTE: Duration = Duration::from_secs(60);

    fn no() -> Reason {
        Reason::Cloudflare("no".to_owned())
    }

    fn write(key: u64, content: u64) -> Write {
        Write { key, content, what: "rule".into() }
    }

    #[allow(clippy::disallowed_methods, reason = "any instant will do")]
    fn now() -> Instant {
        Instant::now()
    }

    /// The numbers of the loops, a minute apart, that send what is refused each time or undone each time.
    fn sent(loops: u32, send: impl Fn(&mut WaitingWork, Instant)) -> Vec<u32> {
        let (mut waiting, start) = (WaitingWork::default(), now());
        let is_sent = |number: &u32| {
            let now = start + MINUTE * *number;
            let is_held = waiting.reasons(&snapshot(), now).contains_key(&1);
            if !is_held {
                send(&mut waiting, now);
            }
            waiting.tidy(now);
            !is_held
        };
        (0..loops).filter(is_sent).collect()
    }

    #[test]
    fn what_is_refused_waits_ever_longer_and_an_hour_at_most() {
        let tries = sent(240, |waiting, now| waiting.refuse(1, no(), None, now));
        assert_eq!(tries, [0, 10, 30, 70, 130, 190]);
    }

    #[test]
    fn what_is_undone_twice_waits_like_what_is_refused() {
        let tries = sent(240, |waiting, now| waiting.note_written(&write(1, 1), now));
        assert_eq!(tries, [0, 1, 11, 31, 71, 131, 191]);
    }

    #[test]
    fn a_write_undone_within_five_minutes_is_fought_over_and_later_it_is_not() {
        for (apart, is_fought_over) in [(1, true), (299, true), (300, false), (600, false)] {
            let (mut waiting, start) = (WaitingWork::default(), now());
            let again = start + Duration::from_secs(apart);
            waiting.note_written(&write(1, 1), start);
            waiting.note_written(&write(1, 1), again);
            let held = waiting.reasons(&snapshot(), again);
            assert_eq!(held.contains_key(&1), is_fought_over, "{apart} s");
        }
    }

    #[test]
    fn another_content_at_the_same_place_is_no_fight_and_ends_one() {
        let (mut waiting, now) = (WaitingWork::default(), now());
        let held = |waiting: &WaitingWork, content| waiting.reasons(&snapshot(), now).contains_key(&content);
        for _ in 0..5 {
            waiting.note_written(&write(1, 1), now);
            waiting.note_written(&write(1, 2), now);
            assert!(!held(&waiting, 1) && !held(&waiting, 2), "published and withdrawn in turn");
        }
        waiting.note_written(&write(1, 2), now);
        assert!(held(&waiting, 2) && !held(&waiting, 1));
        waiting.note_written(&write(1, 1), now);
        assert!(!held(&waiting, 2));
    }

    #[test]
    fn what_went_through_waits_no_longer_and_begins_anew_when_it_is_refused_again() {
        let (mut waiting, now) = (WaitingWork::default(), now());
        let is_held = |waiting: &WaitingWork, now| waiting.reasons(&snapshot(), now).contains_key(&1);
        waiting.refuse(1, no(), None, now);
        waiting.refuse(1, no(), None, now);
        waiting.forget(2);
        assert!(is_held(&waiting, now) && waiting.has_failed(1));
        waiting.forget(1);
        assert!(!is_held(&waiting, now) && !waiting.has_failed(1));
        waiting.refuse(1, no(), None, now);
        assert!(!is_held(&waiting, now + limits::REJECTION_PAUSE_MIN));
        assert!(waiting.has_failed(1), "it is still tried apart");
    }

    #[test]
    fn a_page_in_place_of_an_answer_holds_nothing_and_takes_nothing_back() {
        let (mut waiting, now) = (WaitingWork::default(), now());
        waiting.leave_unanswered(1, no(), now);
        assert!(waiting.has_failed(1) && waiting.reasons(&snapshot(), now).is_empty());
        waiting.refuse(2, no(), None, now);
        waiting.leave_unanswered(2, no(), now);
        assert_eq!(waiting.reasons(&snapshot(), now), [(2, no())].into());
    }

    #[test]
    fn turns_that_run_out_of_time_get_half_as_large_and_grow_by_half_until_they_are_as_large_as_ever() {
        let (mut waiting, most) = (WaitingWork::default(), limits::CHANGED_HOSTNAMES_MAX);
        assert!(waiting.shorten_turns(most), "the first one");
        assert_eq!((waiting.shorten_turns(300), waiting.turn_most()), (false, 150));
        assert_eq!((waiting.shorten_turns(1), waiting.turn_most()), (false, 10));
        for expected in [15, 23, 35] {
            waiting.lengthen_turns();
            assert_eq!(waiting.turn_most(), expected);
        }
        (0..10).for_each(|_| waiting.lengthen_turns());
        assert_eq!(waiting.turn_most(), most);
        assert!(waiting.shorten_turns(most), "the first one again");
    }

    #[test]
    fn a_target_has_its_group_its_failure_and_its_pause_until_all_of_it_is_decided() {
        let (mut waiting, now) = (WaitingWork::default(), now());
        waiting.set_group_size("a", 50, now);
        waiting.set_failing("a", now);
        waiting.set_group_size("a", 25, now);
        waiting.pause_edits("a", no(), now);
        waiting.set_failing("b", now);
        assert_eq!((waiting.group_size("a"), waiting.is_failing("a")), (Some(25), true));
        assert_eq!((waiting.group_size("b"), waiting.is_failing("b")), (None, true));
        assert_eq!((waiting.paused_edits("a", now), waiting.paused_edits("b", now)), (Some(no()), None));
        assert_eq!(waiting.paused_edits("a", now + EDIT_PAUSES.0), None);
        waiting.forget_target("a");
        assert_eq!((waiting.group_size("a"), waiting.is_failing("a")), (None, false));
        assert_eq!(waiting.paused_edits("a", now), None);
    }

    #[test]
    fn work_that_was_not_asked_for_in_a_long_time_is_dropped() {
        let (mut waiting, now) = (WaitingWork::default(), now());
        waiting.refuse(1, no(), None, now);
        let last = now + limits::REJECTION_PAUSE_MIN + limits::REJECTION_PAUSE_MAX;
        waiting.tidy(last - Duration::from_secs(1));
        assert_eq!(waiting.work.len(), 1);
        waiting.tidy(last);
        assert!(waiting.work.is_empty());
    }

    /// An object may change each of its 64 refused rules in every loop, and each rule may be as long as an endpoint.
    #[test]
    fn refused_rules_that_change_in_every_loop_leave_no_more_than_the_newest() {
        let (mut waiting, start) = (WaitingWork::default(), now());
        for number in 0..36 {
            let now = start + MINUTE * number;
            (0..640).for_each(|rule| waiting.refuse(u64::from(number * 640 + rule), no(), None, now));
            waiting.tidy(now);
            assert!(waiting.work.len() <= WORK_MAX);
        }
        assert!(!waiting.has_failed(0) && waiting.has_failed(35 * 640), "the oldest go first");
        assert!(size_of::<(u64, Work)>() <= 192, "2 MB in all, but for the texts of Cloudflare's answers");
    }

    #[test]
    fn a_year_of_other_work_in_every_loop_leaves_that_of_the_last_hours() {
        let mut waiting = WaitingWork::default();
        for (number, now) in year::loops() {
            waiting.refuse(3 * number, no(), None, now);
            waiting.leave_unanswered(3 * number + 1, no(), now);
            waiting.note_written(&write(3 * number + 2, 1), now);
            waiting.set_group_size(&number.to_string(), 1, now);
            waiting.tidy(now);
            let (work, targets) = (waiting.work.len(), waiting.targets.len());
            assert!(work <= 15 && targets <= 6, "{work} and {targets}");
        }
    }
}
