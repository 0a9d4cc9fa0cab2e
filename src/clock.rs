//! Time as a value: who needs the clock is handed one, so that tests never wait.

use std::fmt;
use std::time::{Duration, Instant, SystemTime};

/// A source of monotonic time that can also pass it.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The present instant.
    fn now(&self) -> Instant;

    /// Blocks the calling thread for `duration`.
    fn sleep(&self, duration: Duration);

    /// The time of day, in whole seconds since 1970. It may jump: it is shown, and decides nothing.
    fn unix_seconds(&self) -> i64;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

#[allow(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }

    fn unix_seconds(&self) -> i64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    }
}

/// The instant by which an answer has to be on its way to ExternalDNS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    at: Instant,
}

impl Deadline {
    /// The deadline `budget` from now.
    pub fn after(clock: &dyn Clock, budget: Duration) -> Self {
        Self { at: clock.now() + budget }
    }

    /// What is left, zero when the deadline has passed.
    pub fn remaining(self, clock: &dyn Clock) -> Duration {
        self.at.saturating_duration_since(clock.now())
    }

    /// Whether the deadline has passed.
    pub fn is_over(self, clock: &dyn Clock) -> bool {
        self.remaining(clock).is_zero()
    }
}

/// The days from 1970-01-01 to a date in the Gregorian calendar, `month` and `day` counted from 1.
pub(crate) fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    // The year counted from March, so that the leap day ends it.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468
}
