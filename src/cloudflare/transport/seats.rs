//! Limits how many large answers are in memory at once; each is held as bytes until it is parsed.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::locks::{lock, wait_while};

/// The seats that large answers share.
#[derive(Debug)]
pub(in crate::cloudflare) struct Seats {
    free: Mutex<usize>,
    freed: Condvar,
}

/// A taken seat. Dropping it frees it.
#[derive(Debug)]
pub(in crate::cloudflare) struct Seat(Arc<Seats>);

impl Seats {
    pub(super) fn new(count: usize) -> Arc<Self> {
        Arc::new(Self { free: Mutex::new(count), freed: Condvar::new() })
    }

    /// Takes a seat as soon as one is free; `None` if that takes longer than `patience`.
    pub(super) fn take(self: &Arc<Self>, patience: Duration) -> Option<Seat> {
        let mut free = wait_while(&self.freed, lock(&self.free), patience, |free| *free == 0);
        *free = free.checked_sub(1)?;
        Some(Seat(Arc::clone(self)))
    }
}

impl Drop for Seat {
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
    fn no_more_sit_than_there_are_seats_and_each_that_leaves_makes_room() {
        let seats = Seats::new(2);
        let first = seats.take(Duration::ZERO);
        let second = seats.take(Duration::ZERO);
        assert!(first.is_some() && second.is_some());
        assert!(seats.take(Duration::from_millis(1)).is_none());
        let waiting = thread::spawn({
            let seats = Arc::clone(&seats);
            move || seats.take(Duration::from_secs(10)).is_some()
        });
        drop(first);
        assert!(waiting.join().expect("it waits quietly"));
        assert!(seats.take(Duration::ZERO).is_some(), "the waiting thread has left");
    }
}
