//! Bounds the memory that all requests together use for their bodies and answers.
//!
//! A request takes its share piece by piece as its body arrives, and gives it back when it is answered. The last part
//! of the budget is reserved for small requests, so that one request that wants everything does not keep ExternalDNS
//! waiting.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::locks::{lock, wait_while};

/// Cheap to clone.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    freed: Condvar,
    total: usize,
    reserve: usize,
}

#[derive(Debug)]
struct State {
    free: usize,
    /// The arrival times of the requests that hold a share.
    holders: Vec<Instant>,
    /// Another request got nothing because of them.
    is_missed: bool,
}

/// One request's part of a budget. Dropping it gives it back.
pub struct Share {
    budget: Budget,
    since: Instant,
    /// The length of the request's body as it was announced.
    announced: usize,
    taken: usize,
    used: usize,
}

/// The reason why a share did not grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoom {
    /// The request would not fit even if it were alone.
    TooMuch,
    /// Other requests held the rest for the whole wait.
    Busy,
}

/// Shares grow in steps of this size, so that most endpoints need no look at the shared state.
const STEP_BYTES: usize = 16 * 1024;

impl Budget {
    /// A budget of `total` bytes. Its last `reserve` bytes are for small requests: those that announce, and take, no
    /// more than a quarter of it.
    pub fn new(total: usize, reserve: usize) -> Self {
        let reserve = reserve.min(total);
        let state = State { free: total, holders: Vec::new(), is_missed: false };
        Self(Arc::new(Shared { state: Mutex::new(state), freed: Condvar::new(), total, reserve }))
    }

    /// An empty share, for a request that came at `since` and announces a body of `announced` bytes.
    pub fn share(&self, since: Instant, announced: usize) -> Share {
        Share { budget: self.clone(), since, announced, taken: 0, used: 0 }
    }

    /// True if a request that came before `instant` still holds a share while another one went without.
    pub fn is_held_since(&self, instant: Instant) -> bool {
        let mut state = self.state();
        let is_held = state.holders.iter().any(|since| *since < instant);
        state.is_missed &= !state.holders.is_empty();
        is_held && state.is_missed
    }

    /// The most that one request may take, in bytes.
    pub fn most(&self) -> usize {
        self.0.total - self.0.reserve
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0.state)
    }

    fn is_small(&self, bytes: usize) -> bool {
        bytes <= self.0.reserve / 4
    }
}

impl Share {
    /// Takes `bytes` more, waiting for them for at most `patience`.
    ///
    /// # Errors
    /// When they cannot be had; the share then stays as it was.
    pub fn grow(&mut self, bytes: usize, patience: Duration) -> Result<(), NoRoom> {
        let used = self.used.saturating_add(bytes);
        if let Some(missing) = used.checked_sub(self.taken).filter(|missing| *missing > 0) {
            self.take(missing.div_ceil(STEP_BYTES).saturating_mul(STEP_BYTES), patience)?;
        }
        self.used = used;
        Ok(())
    }

    /// Marks `bytes` as unused. They stay with the share, because it will grow again.
    pub fn shrink(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes);
    }

    fn take(&mut self, bytes: usize, patience: Duration) -> Result<(), NoRoom> {
        let Shared { freed, total: _, reserve, .. } = &*self.budget.0;
        let taken = self.taken.saturating_add(bytes);
        let is_small = self.budget.is_small(taken.max(self.announced));
        if !is_small && taken > self.budget.most() {
            return Err(NoRoom::TooMuch);
        }
        let needed = if is_small { bytes } else { bytes + reserve };
        let mut state = wait_while(freed, self.budget.state(), patience, |state| state.free < needed);
        if state.free < needed {
            state.is_missed = true;
            return Err(NoRoom::Busy);
        }
        state.free -= bytes;
        if self.taken == 0 {
            state.holders.push(self.since);
        }
        self.taken = taken;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.taken > 0 {
            let mut state = self.budget.state();
            state.free += self.taken;
            if let Some(index) = state.holders.iter().position(|since| *since == self.since) {
                state.holders.swap_remove(index);
            }
            drop(state);
            self.budget.0.freed.notify_all();
        }
    }
}

impl fmt::Debug for Share {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { budget: _, since: _, announced: _, taken, used } = self;
        formatter.debug_struct("Share").field("taken", taken).field("used", used).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const STEP: usize = STEP_BYTES;
    const NOW: Duration = Duration::ZERO;
    const LONG: Duration = Duration::from_secs(10);

    #[allow(clippy::disallowed_methods, reason = "any instant will do")]
    fn share_of(budget: &Budget) -> Share {
        budget.share(Instant::now(), 0)
    }

    #[test]
    fn what_is_given_back_is_there_for_others() {
        let budget = Budget::new(8 * STEP, 0);
        let (mut one, mut other) = (share_of(&budget), share_of(&budget));
        assert_eq!(one.grow(6 * STEP, NOW), Ok(()));
        assert_eq!(other.grow(3 * STEP, NOW), Err(NoRoom::Busy));
        assert_eq!(other.grow(2 * STEP, NOW), Ok(()));
        drop(one);
        assert_eq!(other.grow(6 * STEP, NOW), Ok(()));
        drop(other);
        assert_eq!(budget.state().free, 8 * STEP);
        assert_eq!(budget.state().holders, []);
    }

    #[test]
    fn what_fits_not_even_alone_is_not_waited_for() {
        let budget = Budget::new(8 * STEP, 4 * STEP);
        let mut share = share_of(&budget);
        assert_eq!(share.grow(5 * STEP, LONG), Err(NoRoom::TooMuch));
        assert_eq!(share.grow(usize::MAX, LONG), Err(NoRoom::TooMuch));
        assert_eq!(share.grow(4 * STEP, NOW), Ok(()));
    }

    /// ExternalDNS's own requests are small in most clusters.
    #[test]
    fn the_last_part_is_for_small_requests() {
        let budget = Budget::new(8 * STEP, 4 * STEP);
        let (mut large, mut second, mut small) = (share_of(&budget), share_of(&budget), share_of(&budget));
        assert_eq!(large.grow(4 * STEP, NOW), Ok(()));
        assert_eq!(second.grow(2 * STEP, NOW), Err(NoRoom::Busy));
        assert_eq!(small.grow(STEP, NOW), Ok(()));
        assert_eq!(small.grow(STEP, NOW), Err(NoRoom::Busy), "it is small no longer");
    }

    /// Sixteen of them would otherwise take the reserve with their first endpoints.
    #[test]
    fn a_large_request_takes_nothing_of_the_last_part_while_it_is_young() {
        let budget = Budget::new(8 * STEP, 4 * STEP);
        let (mut all, mut small) = (share_of(&budget), share_of(&budget));
        let mut young = share_of(&budget);
        young.announced = 2 * STEP;
        assert_eq!(all.grow(4 * STEP, NOW), Ok(()));
        assert_eq!(young.grow(STEP, NOW), Err(NoRoom::Busy));
        assert_eq!(small.grow(STEP, NOW), Ok(()));
        drop(all);
        assert_eq!(young.grow(STEP, NOW), Ok(()));
    }

    #[test]
    fn who_waits_gets_what_is_given_back() {
        let budget = Budget::new(4 * STEP, 0);
        let mut first = share_of(&budget);
        assert_eq!(first.grow(4 * STEP, NOW), Ok(()));
        let waiting = thread::spawn(move || share_of(&budget).grow(2 * STEP, LONG));
        drop(first);
        assert_eq!(waiting.join().unwrap(), Ok(()));
    }

    #[test]
    fn what_is_used_no_more_is_used_again_before_more_is_taken() {
        let budget = Budget::new(2 * STEP, 0);
        let mut share = share_of(&budget);
        for _ in 0..10 {
            assert_eq!(share.grow(2 * STEP, NOW), Ok(()));
            share.shrink(2 * STEP);
        }
    }

    /// The client sends half a body, then neither goes on nor closes.
    #[test]
    fn who_holds_a_share_for_long_shows_once_another_went_without() {
        let budget = Budget::new(2 * STEP, 0);
        let mut stuck = share_of(&budget);
        let (before, after) = (stuck.since, stuck.since + LONG);
        assert_eq!(stuck.grow(2 * STEP, NOW), Ok(()));
        assert!(!budget.is_held_since(after), "nobody missed it");
        assert_eq!(share_of(&budget).grow(STEP, NOW), Err(NoRoom::Busy));
        assert!(!budget.is_held_since(before), "not for long");
        assert!(budget.is_held_since(after));
        drop(stuck);
        assert!(!budget.is_held_since(after));
        assert_eq!(share_of(&budget).grow(STEP, NOW), Ok(()));
        assert!(!budget.is_held_since(after), "what was missed before is forgotten");
    }
}
