//! Cloudflare's time as the program's. It costs no real time, and one thread at a time runs by it.
//!
//! A pause in a request lets the time pass. The watch over tunnels, which runs beside all requests, sleeps until the
//! simulator has put the time ahead and lets it run; so it never runs beside a request, and its calls come in one
//! order.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use cloudflare_emulator::Time;
use external_dns_cloudflare_tunnel_webhook::clock::{Clock, SystemClock};

/// The thread that looks at tokens, tunnels and connectors.
const WATCH: &str = "watch";

/// Serves the observation port, whose pauses are of the machine.
const OBSERVE: &str = "observe";

/// Longer than any work between two pauses of the watch takes, in the machine's time.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct SimulatedClock {
    begun: Instant,
    time: Time,
    watch: Mutex<Watch>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Watch {
    /// When it wants to go on; `None` while it is at work.
    wakes_at: Option<Duration>,
    is_over: bool,
}

impl SimulatedClock {
    pub(crate) fn of(time: Time) -> Self {
        Self { begun: SystemClock.now(), time, watch: Mutex::default(), changed: Condvar::new() }
    }

    /// Waits until the watch sleeps, and says until when.
    pub(crate) fn await_watch(&self) -> Duration {
        let asleep = self.changed.wait_timeout_while(self.lock(), PATIENCE, |watch| watch.wakes_at.is_none());
        let (watch, _) = asleep.unwrap_or_else(PoisonError::into_inner);
        watch.wakes_at.expect("the watch pauses sooner or later")
    }

    /// Lets the watch go on if its time has come, until it sleeps again.
    pub(crate) fn run_watch(&self) {
        if self.await_watch() <= self.time.now() {
            self.lock().wakes_at = None;
            self.changed.notify_all();
            self.await_watch();
        }
    }

    /// Wakes every thread that sleeps: the program is ending.
    pub(crate) fn end(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sleep_as_watch(&self, duration: Duration) {
        let wakes_at = self.time.now() + duration;
        let mut watch = self.lock();
        watch.wakes_at = Some(wakes_at);
        self.changed.notify_all();
        let goes_on = |watch: &mut Watch| watch.wakes_at.is_some() && !watch.is_over;
        drop(self.changed.wait_while(watch, goes_on));
    }
}

impl Clock for SimulatedClock {
    fn now(&self) -> Instant {
        self.begun + self.time.now()
    }

    fn sleep(&self, duration: Duration) {
        match thread::current().name() {
            Some(WATCH) => self.sleep_as_watch(duration),
            Some(OBSERVE) => SystemClock.sleep(duration.min(Duration::from_millis(5))),
            _ => self.time.advance(duration),
        }
    }

    fn unix_seconds(&self) -> i64 {
        self.time.unix_seconds().try_into().unwrap_or(i64::MAX)
    }
}
