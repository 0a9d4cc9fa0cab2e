//! The one permit for a large body. It bounds the memory of all requests: only one large body, with the data made
//! from it, is in memory at a time.

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::locks::{lock, wait_while};

#[derive(Default)]
pub(super) struct LargeBodyPermit {
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Default)]
struct State {
    /// The arrival of the request that holds the permit.
    held_since: Option<Instant>,
    /// Another request got no permit meanwhile.
    has_refused_another: bool,
}

/// Dropping it gives the permit back.
pub(super) struct HeldPermit(Arc<LargeBodyPermit>);

impl LargeBodyPermit {
    /// Takes the permit for a request that arrived at `since`, waiting for it for at most `timeout`.
    pub(super) fn take(self: &Arc<Self>, since: Instant, timeout: Duration) -> Option<HeldPermit> {
        let is_held = |state: &mut State| state.held_since.is_some();
        let mut state = wait_while(&self.freed, lock(&self.state), timeout, is_held);
        if is_held(&mut state) {
            state.has_refused_another = true;
            return None;
        }
        *state = State { held_since: Some(since), has_refused_another: false };
        Some(HeldPermit(Arc::clone(self)))
    }

    /// True if a request that arrived before `instant` still holds the permit, and another request failed to get it.
    pub(super) fn blocks_another_since(&self, instant: Instant) -> bool {
        let state = lock(&self.state);
        state.has_refused_another && state.held_since.is_some_and(|since| since < instant)
    }
}

impl Drop for HeldPermit {
    fn drop(&mut self) {
        *lock(&self.0.state) = State::default();
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::clock::{Clock, SystemClock};

    const LONG: Duration = Duration::from_secs(10);

    #[test]
    fn a_request_that_waits_gets_the_permit_when_it_is_given_back() {
        let permit = Arc::<LargeBodyPermit>::default();
        let first = permit.take(SystemClock.now(), Duration::ZERO);
        assert!(first.is_some());
        thread::scope(|scope| {
            let waiting = scope.spawn(|| permit.take(SystemClock.now(), LONG).is_some());
            drop(first);
            assert!(waiting.join().unwrap());
        });
    }

    /// The client of the request sends half a body, and then neither continues nor closes.
    #[test]
    fn a_permit_that_is_held_for_long_shows_once_another_request_went_without() {
        let permit = Arc::<LargeBodyPermit>::default();
        let since = SystemClock.now();
        let (at_once, later) = (since, since + LONG);
        let held = permit.take(since, Duration::ZERO);
        assert!(!permit.blocks_another_since(later), "none went without");
        assert!(permit.take(since, Duration::ZERO).is_none());
        assert!(!permit.blocks_another_since(at_once), "not for long");
        assert!(permit.blocks_another_since(later));
        drop(held);
        let _held = permit.take(since, Duration::ZERO).unwrap();
        assert!(!permit.blocks_another_since(later), "what was missed before is forgotten");
    }
}
