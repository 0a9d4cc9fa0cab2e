//! Runs requests on a small pool of workers that grows while clients hold them.
//!
//! A worker that reads a body, or drains an unread one, blocks for as long as its client pleases, because tiny_http has
//! no read time-out. So each request gets its own worker, up to a limit, and nobody waits for a stuck worker, not even
//! at the end of the process. A request that waits long for a worker shows that all of them are stuck; the pool tells
//! its age.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use crate::locks::{lock, wait, wait_while};

/// Idle workers that stay. Others end when they have nothing to do.
const API_WORKERS_KEPT: usize = 2;

/// Requests that may wait for a worker before the listener's queue is left to grow.
const API_QUEUE_MAX: usize = 64;

/// A worker's stack, on which the provider's TLS handshakes run. Only the pages that are touched become resident.
const API_WORKER_STACK_BYTES: usize = 1024 * 1024;

/// Handles one job on a worker.
type Work<J> = dyn Fn(J, &Pool<J>) + Send + Sync;

/// Cheap to clone.
pub struct Pool<J> {
    shared: Arc<Shared<J>>,
}

/// The reason why a job was not taken. The job comes back with it.
#[derive(Debug)]
pub enum SubmitError<J> {
    /// The queue stayed full.
    Full(J),
    /// There is no worker, and no thread could be started for one.
    NoThread(J, io::Error),
}

struct Shared<J> {
    state: Mutex<State<J>>,
    /// A job is waiting, or the pool stops.
    job: Condvar,
    /// The queue has room, or the pool stops.
    room: Condvar,
    /// A worker ended, or waits for a client.
    ended: Condvar,
    workers_max: usize,
    work: Box<Work<J>>,
}

struct State<J> {
    queue: VecDeque<(Instant, J)>,
    idle: usize,
    workers: usize,
    /// The workers among them that wait for a client.
    waiting: usize,
    stopping: bool,
}

/// A worker that waits for a client.
struct Waiting<'a, J>(&'a Shared<J>);

impl<J> Clone for Pool<J> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<J> fmt::Debug for Pool<J> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let State { queue, idle, workers, waiting, stopping } = &*self.shared.lock();
        formatter
            .debug_struct("Pool")
            .field("queued", &queue.len())
            .field("idle", idle)
            .field("workers", workers)
            .field("waiting", waiting)
            .field("stopping", stopping)
            .finish_non_exhaustive()
    }
}

impl<J: Send + 'static> Pool<J> {
    /// Makes a pool of at most `workers_max` threads, none of which exists yet. `work` must not panic.
    pub fn new(workers_max: usize, work: impl Fn(J, &Self) + Send + Sync + 'static) -> Self {
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(State {
                    queue: VecDeque::new(),
                    idle: 0,
                    workers: 0,
                    waiting: 0,
                    stopping: false,
                }),
                job: Condvar::new(),
                room: Condvar::new(),
                ended: Condvar::new(),
                workers_max: workers_max.max(1),
                work: Box::new(work),
            }),
        }
    }

    /// Queues a job that came at `since`. While the queue is full, waits for at most `patience`.
    ///
    /// # Errors
    /// When the queue stays full, or when there is no worker and no thread can be started for one.
    pub fn submit(&self, since: Instant, job: J, patience: Duration) -> Result<(), SubmitError<J>> {
        let mut state = wait_while(&self.shared.room, self.shared.lock(), patience, |state| {
            state.queue.len() >= API_QUEUE_MAX && !state.stopping
        });
        if state.queue.len() >= API_QUEUE_MAX {
            return Err(SubmitError::Full(job));
        }
        // Idle workers that were already woken still count as idle, and their jobs still count as queued.
        if state.queue.len() >= state.idle && state.workers < self.shared.workers_max {
            let pool = self.clone();
            let spawned = thread::Builder::new()
                .name("webhook".to_owned())
                .stack_size(API_WORKER_STACK_BYTES)
                .spawn(move || pool.run());
            match spawned {
                Ok(_) => state.workers += 1,
                // Another worker will take the job.
                Err(error) if state.workers > 0 => log::warn!("cannot start another worker: {error}"),
                Err(error) => return Err(SubmitError::NoThread(job, error)),
            }
        }
        state.queue.push_back((since, job));
        drop(state);
        self.shared.job.notify_one();
        Ok(())
    }

    /// The arrival time of the job that has waited longest for a worker.
    pub fn waiting_since(&self) -> Option<Instant> {
        self.shared.lock().queue.front().map(|(since, _)| *since)
    }

    /// Runs a wait that lasts as long as a client pleases, so that [`stop`](Self::stop) does not wait for it.
    /// Afterwards the caller must not begin anything if the pool was stopped meanwhile.
    pub fn wait_for_client<R>(&self, wait: impl FnOnce() -> R) -> R {
        self.shared.lock().waiting += 1;
        let _waiting = Waiting(&self.shared);
        self.shared.ended.notify_all();
        wait()
    }

    /// Lets the workers finish all jobs, queued or running, and waits for them for at most `limit`. Workers that wait
    /// for a client are not waited for. Returns true if the others finished.
    pub fn stop(&self, limit: Duration) -> bool {
        let mut state = self.shared.lock();
        state.stopping = true;
        self.shared.job.notify_all();
        self.shared.room.notify_all();
        let state = wait_while(&self.shared.ended, state, limit, |state| state.workers > state.waiting);
        state.workers == state.waiting
    }

    fn run(&self) {
        while let Some(job) = self.shared.next() {
            (self.shared.work)(job, self);
        }
    }
}

impl<J> Drop for Waiting<'_, J> {
    fn drop(&mut self) {
        self.0.lock().waiting -= 1;
    }
}

impl<J> Shared<J> {
    /// No job runs while the lock is held.
    fn lock(&self) -> MutexGuard<'_, State<J>> {
        lock(&self.state)
    }

    /// The next job, or `None` if this worker has to end.
    fn next(&self) -> Option<J> {
        let mut state = self.lock();
        loop {
            if let Some((_, job)) = state.queue.pop_front() {
                self.room.notify_one();
                return Some(job);
            }
            if state.stopping || state.idle >= API_WORKERS_KEPT {
                state.workers -= 1;
                self.ended.notify_all();
                return None;
            }
            state.idle += 1;
            state = wait(&self.job, state);
            state.idle -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::clock::{Clock, SystemClock};

    const LONG: Duration = Duration::from_secs(10);

    #[test]
    fn jobs_held_by_their_clients_do_not_keep_others_waiting() {
        let (sender, done) = mpsc::channel();
        let sender = Mutex::new(sender);
        let pool = Pool::new(8, move |job: Option<mpsc::Receiver<()>>, _: &Pool<_>| {
            if let Some(held) = &job {
                let _ = held.recv();
            }
            let _ = sender.lock().unwrap().send(job.is_some());
        });
        let now = SystemClock.now();
        let mut holders = Vec::new();
        for _ in 0..7 {
            let (holder, held) = mpsc::channel();
            holders.push(holder);
            assert!(pool.submit(now, Some(held), LONG).is_ok());
        }
        assert!(pool.submit(now, None, LONG).is_ok());
        assert_eq!(done.recv_timeout(LONG), Ok(false), "the free job is done first");
        assert!(!pool.stop(Duration::ZERO), "seven are still held");
        drop(holders);
        assert!(pool.stop(LONG));
    }

    #[test]
    fn with_every_worker_held_jobs_wait_and_their_age_shows() {
        let (holder, held) = mpsc::channel::<()>();
        let held = Mutex::new(held);
        let pool = Pool::new(1, move |(): (), _: &Pool<()>| {
            let _ = held.lock().unwrap().recv();
        });
        let now = SystemClock.now();
        let later = now + Duration::from_secs(1);
        assert!(pool.submit(now, (), LONG).is_ok());
        while pool.waiting_since().is_some() {
            thread::yield_now();
        }
        for _ in 0..API_QUEUE_MAX {
            assert!(pool.submit(later, (), LONG).is_ok());
        }
        assert_eq!(pool.waiting_since(), Some(later));
        assert!(matches!(pool.submit(later, (), Duration::ZERO), Err(SubmitError::Full(()))));
        drop(holder);
        assert!(pool.stop(LONG), "what is queued is done before the end");
    }

    #[test]
    fn the_end_waits_for_who_works_and_not_for_who_waits_for_a_client() {
        let (sender, begun) = mpsc::channel();
        let sender = Mutex::new(sender);
        let pool = Pool::new(8, move |(is_client, held): (bool, mpsc::Receiver<()>), pool: &Pool<_>| {
            let wait = || {
                let _ = sender.lock().unwrap().send(());
                let _ = held.recv();
            };
            if is_client { pool.wait_for_client(wait) } else { wait() }
        });
        let mut holders = [true, true, false].map(|is_client| {
            let (holder, held) = mpsc::channel();
            assert!(pool.submit(SystemClock.now(), (is_client, held), LONG).is_ok());
            begun.recv_timeout(LONG).unwrap();
            Some(holder)
        });
        assert!(!pool.stop(Duration::ZERO), "one works");
        holders[2] = None;
        assert!(pool.stop(LONG), "two clients are not waited for");
        holders[0] = None;
        while pool.shared.lock().workers > 1 {
            thread::yield_now();
        }
        assert_eq!(pool.shared.lock().waiting, 1);
    }

    #[test]
    fn surplus_workers_end_when_there_is_nothing_to_do() {
        let (holder, held) = mpsc::channel::<()>();
        let held = Mutex::new(held);
        let pool = Pool::new(16, move |(): (), _: &Pool<()>| {
            let _ = held.lock().unwrap().recv();
        });
        for _ in 0..10 {
            assert!(pool.submit(SystemClock.now(), (), LONG).is_ok());
        }
        assert_eq!(pool.shared.lock().workers, 10);
        drop(holder);
        let state = pool.shared.lock();
        let (state, _) = pool
            .shared
            .ended
            .wait_timeout_while(state, LONG, |state| state.workers > API_WORKERS_KEPT)
            .unwrap();
        assert_eq!(state.workers, API_WORKERS_KEPT);
    }
}
