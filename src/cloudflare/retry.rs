//! When a read is repeated, and after how long. Writes never are.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::error::Error;
use crate::limits::{
    CALL_MINIMUM, RATE_LIMIT_PAUSE_MAX, READ_RETRIES_MAX, RETRY_PAUSE_FIRST, RETRY_PAUSE_MAX,
};

/// How to repeat a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Retry {
    /// After how long.
    pub(super) pause: Duration,
    /// On a connection that was not used before.
    pub(super) fresh: bool,
}

/// Whether and how a read that failed is repeated. `retries` were made already, `remaining` is left of the deadline,
/// and `fraction` from 0 to 1 spreads clients that failed together.
pub(super) fn retry(error: &Error, retries: u32, remaining: Duration, fraction: f64) -> Option<Retry> {
    if retries >= READ_RETRIES_MAX || !error.is_retryable() {
        return None;
    }
    let pause = match error {
        // The limiter makes the next call wait, or fail when that would take too long.
        Error::Limited { .. } => Duration::ZERO,
        // Mostly a kept connection that the server had just given up.
        error if error.is_disconnect() && retries == 0 => Duration::ZERO,
        _ => backoff(retries, fraction),
    };
    if pause + CALL_MINIMUM > remaining {
        return None;
    }
    Some(Retry {
        pause,
        fresh: matches!(error, Error::Unanswered(_)),
    })
}

/// Doubles with each retry, and takes between half and all of that.
fn backoff(retries: u32, fraction: f64) -> Duration {
    let whole = RETRY_PAUSE_FIRST
        .saturating_mul(2_u32.saturating_pow(retries))
        .min(RETRY_PAUSE_MAX);
    whole.mul_f64(0.5 + 0.5 * fraction.clamp(0.0, 1.0))
}

/// A source of fractions for [`retry`]. Good enough to spread clients, and nothing more.
#[derive(Debug)]
pub(super) struct Jitter(AtomicU64);

impl Jitter {
    pub(super) fn seeded(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// Seeded by the machine.
    pub(super) fn random() -> Self {
        Self::seeded(RandomState::new().hash_one(0_u8))
    }

    /// From 0 to 1.
    pub(super) fn fraction(&self) -> f64 {
        // SplitMix64: a counter, well stirred.
        let mut bits = self
            .0
            .fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed)
            .wrapping_add(0x9E37_79B9_7F4A_7C15);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^= bits >> 31;
        f64::from(u32::try_from(bits >> 32).unwrap_or(u32::MAX)) / f64::from(u32::MAX)
    }
}

/// Reads `Retry-After`: seconds, or a date, which is set against the answer's own `Date` so that no clock of ours has to
/// be right. `None` when it says nothing usable.
pub(super) fn retry_after(value: &str, date: Option<&str>) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // Only overflow is left to fail.
        return Some(
            value
                .parse()
                .map_or(RATE_LIMIT_PAUSE_MAX, Duration::from_secs)
                .min(RATE_LIMIT_PAUSE_MAX),
        );
    }
    let until = seconds_since_1970(value)?;
    let now = seconds_since_1970(date?)?;
    let seconds = u64::try_from(until.saturating_sub(now)).unwrap_or(0);
    Some(Duration::from_secs(seconds).min(RATE_LIMIT_PAUSE_MAX))
}

/// Reads `Sun, 06 Nov 1994 08:49:37 GMT`, the one form of date that HTTP still lets servers write.
fn seconds_since_1970(text: &str) -> Option<i64> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let (_, date) = text.trim().split_once(", ")?;
    let mut parts = date.split(' ');
    let day: i64 = parts.next()?.parse().ok().filter(|day| (1..=31).contains(day))?;
    let name = parts.next()?;
    let month = i64::try_from(MONTHS.iter().position(|month| *month == name)?).ok()? + 1;
    let year: i64 = parts
        .next()?
        .parse()
        .ok()
        .filter(|year| (1970..=9999).contains(year))?;
    let time = parts.next()?;
    if parts.next()? != "GMT" || parts.next().is_some() {
        return None;
    }
    let mut seconds = 0;
    let mut fields = time.split(':');
    for maximum in [23, 59, 60] {
        let field: i64 = fields
            .next()?
            .parse()
            .ok()
            .filter(|field| (0..=maximum).contains(field))?;
        seconds = seconds * 60 + field;
    }
    if fields.next().is_some() {
        return None;
    }
    // Days since 1970-01-01 in the Gregorian calendar, the year counted from March so that the leap day ends it.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468;
    Some(days * 86_400 + seconds)
}
