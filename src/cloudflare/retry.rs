//! Decides if a read is retried, and after what pause. Writes are never retried.

use std::time::Duration;

use super::error::Error;
use crate::clock::{day_of, seconds_of_day};
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

/// Reads `Sun, 06 Nov 1994 08:49:37 GMT`, the only form of date that HTTP still lets servers write.
pub(super) fn unix_seconds_of_http_date(text: &str) -> Option<i64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (_, date) = text.trim().split_once(", ")?;
    let mut parts = date.split(' ');
    let (day, name, year, time) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let month = MONTHS.iter().position(|month| *month == name)? + 1;
    let day = day_of(&format!("{year}-{month:02}-{day}"))?;
    parts.eq(["GMT"]).then_some(day * 86_400 + seconds_of_day(time)?)
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

    #[test]
    fn dates_are_read_to_the_second() {
        for (text, expected) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
            ("Thu, 29 Feb 2024 23:59:59 GMT", Some(1_709_251_199)),
            ("Fri, 01 Mar 2024 00:00:00 GMT", Some(1_709_251_200)),
            ("Fri, 31 Dec 2100 23:59:60 GMT", Some(4_133_980_800)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", None),
            ("Sun Nov  6 08:49:37 1994", None),
            ("Sun, 06 Nov 1994 08:49:37 CET", None),
            ("Sun, 06 Nov 1994 08:49:37 GMT+1", None),
            ("Sun, 06 Nov 1994 24:00:00 GMT", None),
            ("Sun, 06 Nov 1994 08:49 GMT", None),
            ("Sun, 00 Nov 1994 08:49:37 GMT", None),
            ("Sun, 06 Nov 99999999999999999999 08:49:37 GMT", None),
        ] {
            assert_eq!(unix_seconds_of_http_date(text), expected, "{text}");
        }
    }
}
