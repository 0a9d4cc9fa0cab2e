//! Limits how many large answers are in memory at once; each is held as bytes until it is parsed.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::locks::{lock, wait_while};

/// The permits that large answers share.
#[derive(Debug)]
pub(in crate::cloudflare) struct ResponsePermits {
    free: Mutex<usize>,
    freed: Condvar,
}

/// A taken permit. Dropping it frees it.
#[derive(Debug)]
pub(in crate::cloudflare) struct ResponsePermit(Arc<ResponsePermits>);

impl ResponsePermits {
    pub(super) fn new(count: usize) -> Arc<Self> {
        Arc::new(Self { free: Mutex::new(count), freed: Condvar::new() })
    }

    /// Takes a permit as soon as one is free; `None` if that takes longer than `timeout`.
    pub(super) fn take(self: &Arc<Self>, timeout: Duration) -> Option<ResponsePermit> {
        let mut free = wait_while(&self.freed, lock(&self.free), timeout, |free| *free == 0);
        *free = free.checked_sub(1)?;
        Some(ResponsePermit(Arc::clone(self)))
    }
}

impl Drop for ResponsePermit {
    fn drop(&mut self) {
        *lock(&self.0.free) += 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn no_more_answers_are_held_than_there_are_permits_and_each_that_is_dropped_makes_room() {
        let permits = ResponsePermits::new(2);
        let first = permits.take(Duration::ZERO);
        let second = permits.take(Duration::ZERO);
        assert!(first.is_some() && second.is_some());
        assert!(permits.take(Duration::from_millis(1)).is_none());
        let waiting = thread::spawn({
            let permits = Arc::clone(&permits);
            move || permits.take(Duration::from_secs(10)).is_some()
        });
        drop(first);
        assert!(waiting.join().expect("it waits quietly"));
        assert!(permits.take(Duration::ZERO).is_some(), "the waiting thread has left");
    }
}
