//! A clock that tests put ahead.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use external_dns_cloudflare_tunnel_webhook::clock::{Clock, SystemClock};

/// A clock that can be put ahead, with a time of day of its own, on which nobody sleeps for long.
#[derive(Debug, Default)]
pub struct ManualClock {
    /// Where it stands still until it is put ahead; `None` where it goes on by itself.
    stopped_at: Option<Instant>,
    ahead: Mutex<Duration>,
    pub unix_seconds: AtomicI64,
}

impl ManualClock {
    pub fn stopped() -> Self {
        Self { stopped_at: Some(SystemClock.now()), ..Self::default() }
    }

    pub fn put_ahead(&self, by: Duration) {
        *self.ahead.lock().unwrap_or_else(PoisonError::into_inner) += by;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Instant {
        self.stopped_at.unwrap_or_else(|| SystemClock.now())
            + *self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sleep(&self, duration: Duration) {
        SystemClock.sleep(duration.min(Duration::from_millis(5)));
    }

    fn unix_seconds(&self) -> i64 {
        self.unix_seconds.load(Ordering::Relaxed)
    }
}
