//! A clock on which no test waits.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use external_dns_cloudflare_tunnel_webhook::clock::{Clock, SystemClock};

/// The thread of the program that checks the token and the tunnels.
const WATCH: &str = "watch";

/// The thread of the program that answers on the observation port.
const OBSERVE: &str = "observe";

/// The pause of that thread between two looks. Those within a look, before a call is made again, are no whole second.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// Ends a test that hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for what another thread does.
pub fn eventually(what: &str, condition: impl Fn() -> bool) {
    let end = SystemClock.now() + PATIENCE;
    while !condition() {
        assert!(SystemClock.now() < end, "{what} does not come");
        SystemClock.sleep(Duration::from_millis(2));
    }
}

/// Whether this thread only looks around, again and again. Its pauses must let no time pass: others would find that
/// hours have gone by.
pub fn looks_around() -> bool {
    thread::current().name().is_some_and(|name| [WATCH, OBSERVE].contains(&name))
}

/// The looks of the watch.
#[derive(Debug, Default)]
pub struct Looks {
    so_far: Mutex<usize>,
    looked: Condvar,
}

impl Looks {
    /// A pause of a thread that looks around.
    pub fn glance(&self, duration: Duration) {
        if thread::current().name() == Some(WATCH) && duration == BETWEEN_LOOKS {
            *self.so_far.lock().unwrap_or_else(PoisonError::into_inner) += 1;
            self.looked.notify_all();
        }
        SystemClock.sleep(duration.min(Duration::from_millis(5)));
    }

    /// Waits until the watch has looked at everything by the time that it is now.
    pub fn await_watch(&self) {
        let so_far = self.so_far.lock().unwrap_or_else(PoisonError::into_inner);
        // It may be in the middle of a look that began before.
        let enough = *so_far + 2;
        let waited = self.looked.wait_timeout_while(so_far, PATIENCE, |so_far| *so_far < enough);
        assert!(!waited.unwrap_or_else(PoisonError::into_inner).1.timed_out(), "the watch hangs");
    }
}

/// A clock that tests put ahead, with a time of day of its own. A pause is over at once, and its time has passed.
#[derive(Debug, Default)]
pub struct ManualClock {
    /// Where it stands still until it is put ahead; `None` where it goes on by itself.
    stopped_at: Option<Instant>,
    ahead: Mutex<Duration>,
    pub unix_seconds: AtomicI64,
    looks: Looks,
}

impl ManualClock {
    pub fn stopped() -> Self {
        Self { stopped_at: Some(SystemClock.now()), ..Self::default() }
    }

    pub fn put_ahead(&self, by: Duration) {
        *self.ahead.lock().unwrap_or_else(PoisonError::into_inner) += by;
    }

    /// Waits until the watch has looked at everything by the time that it is now.
    pub fn await_watch(&self) {
        self.looks.await_watch();
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Instant {
        self.stopped_at.unwrap_or_else(|| SystemClock.now())
            + *self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sleep(&self, duration: Duration) {
        if !looks_around() {
            return self.put_ahead(duration);
        }
        self.looks.glance(duration);
    }

    fn unix_seconds(&self) -> i64 {
        self.unix_seconds.load(Ordering::Relaxed)
    }
}
