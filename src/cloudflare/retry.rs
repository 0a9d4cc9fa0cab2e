//! Decides if a read is retried, and after what pause. Writes are never retried.

use std::time::Duration;

use super::error::Error;
use crate::limits::CALL_MIN;

/// The number of times that a read is retried.
const READ_RETRIES_MAX: u32 = 3;

/// The pause before the first retry. It doubles with each retry.
const RETRY_PAUSE_FIRST: Duration = Duration::from_millis(250);

/// The pause before a failed read is retried; `None` if it is not retried. `retries` is the number of retries so far,
/// and `remaining` the time until the deadline.
pub(super) fn retry(error: &Error, retries: u32, remaining: Duration) -> Option<Duration> {
    if retries >= READ_RETRIES_MAX || !error.is_retryable() {
        return None;
    }
    let pause = match error {
        // The limiter delays the next call, or fails it if the delay would be too long.
        Error::RateLimited { .. } => Duration::ZERO,
        // Usually the server has just closed a kept connection.
        error if error.is_disconnect() && retries == 0 => Duration::ZERO,
        _ => RETRY_PAUSE_FIRST * 2_u32.pow(retries),
    };
    (pause + CALL_MIN <= remaining).then_some(pause)
}

/// Reads `Retry-After`, which Cloudflare gives in seconds. `None` if it has no usable value. The limiter bounds it.
pub(super) fn retry_after(value: &str) -> Option<Duration> {
    value.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_read_as_seconds() {
        for (value, expected) in [
            ("0", Some(0)),
            (" 30 ", Some(30)),
            ("-1", None),
            ("1.5", None),
            ("", None),
            ("Wed, 21 Oct 2026 12:05:00 GMT", None),
        ] {
            assert_eq!(retry_after(value), expected.map(Duration::from_secs), "{value:?}");
        }
    }
}
