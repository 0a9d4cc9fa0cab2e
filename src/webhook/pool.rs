//! The queue between the acceptors and the workers.
//!
//! A client can block a worker that reads or drains a body for any time, because tiny_http has no read time-out. The
//! other workers go on meanwhile, and the end of the process does not wait for such a worker. If a request waits long
//! for a worker, all workers are stuck; [`Pool::waiting_since`] tells how long.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::locks::{lock, wait, wait_while};

/// Requests that may wait for a worker. The others stay in tiny_http's queue.
const QUEUE_MAX: usize = 64;

pub(super) struct Pool<J> {
    state: Mutex<State<J>>,
    /// A job is waiting, or the pool stops.
    job: Condvar,
    /// A job was taken, is done, or waits for its client.
    changed: Condvar,
}

struct State<J> {
    queue: VecDeque<(Instant, J)>,
    /// Workers without a job.
    idle: usize,
    /// Jobs that a worker handles, and that do not wait for a client.
    running: usize,
    is_stopping: bool,
}

/// A job that waits for its client.
struct Waiting<'p, J>(&'p Pool<J>);

impl<J> Pool<J> {
    pub(super) fn new() -> Self {
        let state = State { queue: VecDeque::new(), idle: 0, running: 0, is_stopping: false };
        Self { state: Mutex::new(state), job: Condvar::new(), changed: Condvar::new() }
    }

    /// Waits for at most `timeout` until the queue has room. Returns true if it has.
    pub(super) fn wait_for_room(&self, timeout: Duration) -> bool {
        let is_full = |state: &mut State<J>| state.queue.len() >= QUEUE_MAX;
        !is_full(&mut wait_while(&self.changed, lock(&self.state), timeout, is_full))
    }

    /// Queues a job that arrived at `since`.
    pub(super) fn submit(&self, since: Instant, job: J) {
        lock(&self.state).queue.push_back((since, job));
        self.job.notify_one();
    }

    /// The arrival of the job that has waited longest for a worker.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        lock(&self.state).queue.front().map(|(since, _)| *since)
    }

    /// Handles jobs until the pool stops. `handle` must not panic.
    pub(super) fn work(&self, handle: impl Fn(J)) {
        let mut state = lock(&self.state);
        loop {
            if let Some((_, job)) = state.queue.pop_front() {
                state.running += 1;
                self.changed.notify_all();
                drop(state);
                handle(job);
                // The next job is taken under the same lock, so that `stop` sees no job that is left to no worker.
                state = lock(&self.state);
                state.running -= 1;
                self.changed.notify_all();
            } else if state.is_stopping {
                return;
            } else {
                state.idle += 1;
                state = wait(&self.job, state);
                state.idle -= 1;
            }
        }
    }

    /// Runs `wait`, which a client can prolong without limit, so that [`stop`](Self::stop) does not wait for it.
    /// Returns `None` if the pool stops, which may have ended its own waiting meanwhile, so the job must not go on.
    pub(super) fn wait_for_client<R>(&self, wait: impl FnOnce() -> R) -> Option<R> {
        lock(&self.state).running -= 1;
        self.changed.notify_all();
        let waiting = Waiting(self);
        let result = wait();
        drop(waiting);
        (!lock(&self.state).is_stopping).then_some(result)
    }

    /// Lets the workers finish all jobs, and waits for them for at most `limit`. Jobs that wait for a client do not
    /// count. Returns true if all other jobs are done.
    pub(super) fn stop(&self, limit: Duration) -> bool {
        let is_busy = |state: &mut State<J>| state.running > 0 || (state.idle > 0 && !state.queue.is_empty());
        let mut state = lock(&self.state);
        state.is_stopping = true;
        self.job.notify_all();
        !is_busy(&mut wait_while(&self.changed, state, limit, is_busy))
    }
}

impl<J> Drop for Waiting<'_, J> {
    fn drop(&mut self) {
        lock(&self.0.state).running += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;
    use crate::clock::{Clock, SystemClock};

    const LONG: Duration = Duration::from_secs(10);

    #[test]
    fn the_age_of_a_job_that_waits_for_a_worker_shows_and_a_full_queue_has_no_room() {
        let pool = Pool::new();
        let now = SystemClock.now();
        assert_eq!(pool.waiting_since(), None);
        for job in 0..QUEUE_MAX {
            assert!(pool.wait_for_room(Duration::ZERO), "{job}");
            pool.submit(now, job);
        }
        assert!(!pool.wait_for_room(Duration::ZERO));
        assert_eq!(pool.waiting_since(), Some(now));
        thread::scope(|scope| {
            scope.spawn(|| pool.work(|_| {}));
            assert!(pool.wait_for_room(LONG));
            assert!(pool.stop(LONG), "what is queued is done before the end");
        });
        assert_eq!(pool.waiting_since(), None);
    }

    #[test]
    fn the_end_waits_for_each_queued_job() {
        for _ in 0..500 {
            let (pool, (done, all_done)) = (Pool::new(), mpsc::channel());
            (0..4).for_each(|job| pool.submit(SystemClock.now(), job));
            let is_stopped_with = thread::scope(|scope| {
                scope.spawn(|| pool.work(|job| done.send(job).unwrap()));
                // The worker has to take a job before the end, or else it is not known yet.
                assert!(all_done.recv_timeout(LONG).is_ok());
                (pool.stop(LONG), all_done.try_iter().count())
            });
            assert_eq!(is_stopped_with, (true, 3));
        }
    }

    #[test]
    fn the_end_waits_for_a_job_in_hand_and_not_for_one_that_waits_for_its_client() {
        let pool = Pool::new();
        let (sender, begun) = mpsc::channel();
        let (goes_on, ended) = mpsc::channel();
        thread::scope(|scope| {
            for _ in 0..3 {
                let (pool, sender, goes_on) = (&pool, sender.clone(), goes_on.clone());
                scope.spawn(move || {
                    pool.work(|(is_client, held): (bool, mpsc::Receiver<()>)| {
                        let wait = || {
                            sender.send(()).unwrap();
                            let _ = held.recv();
                        };
                        let may_go_on = if is_client {
                            pool.wait_for_client(wait).is_some()
                        } else {
                            wait();
                            true
                        };
                        goes_on.send((is_client, may_go_on)).unwrap();
                    });
                });
            }
            let mut holders = [true, true, false].map(|is_client| {
                let (holder, held) = mpsc::channel();
                pool.submit(SystemClock.now(), (is_client, held));
                begun.recv_timeout(LONG).unwrap();
                Some(holder)
            });
            assert!(!pool.stop(Duration::ZERO), "one is in hand");
            holders[2] = None;
            assert!(pool.stop(LONG), "two clients are not waited for");
        });
        drop(goes_on);
        assert_eq!(Vec::from_iter(ended), [(false, true), (true, false), (true, false)]);
    }
}
