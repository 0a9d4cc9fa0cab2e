//! Decides if a read is retried, and after what pause. Writes are never retried.

use std::time::Duration;

use super::error::Error;
use crate::clock::{day_of, seconds_of_day};
use crate::limits::{CALL_MIN, RATE_LIMIT_PAUSE_MAX};

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

/// Reads `Retry-After`: seconds, or a date, which is compared with the answer's own `Date`, so that our clock need not
/// be right. `None` if it has no usable value.
pub(super) fn retry_after(value: &str, date: Option<&str>) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // Overflow is the only possible failure.
        return Some(
            value.parse().map_or(RATE_LIMIT_PAUSE_MAX, Duration::from_secs).min(RATE_LIMIT_PAUSE_MAX),
        );
    }
    let until = unix_seconds_of_http_date(value)?;
    let now = unix_seconds_of_http_date(date?)?;
    let seconds = u64::try_from(until.saturating_sub(now)).unwrap_or(0);
    Some(Duration::from_secs(seconds).min(RATE_LIMIT_PAUSE_MAX))
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
    fn retry_after_is_read_as_seconds_or_as_a_date_against_the_answers_own() {
        let noon = Some("Wed, 21 Oct 2026 12:00:00 GMT");
        for (value, date, expected) in [
            ("0", None, Some(0)),
            ("30", None, Some(30)),
            (" 30 ", noon, Some(30)),
            ("600", None, Some(600)),
            ("601", None, Some(600)),
            ("99999999999999999999999", None, Some(600)),
            ("-1", noon, None),
            ("1.5", noon, None),
            ("", noon, None),
            ("soon", noon, None),
            ("Wed, 21 Oct 2026 12:05:00 GMT", noon, Some(300)),
            ("Wed, 21 Oct 2026 11:00:00 GMT", noon, Some(0)),
            ("Thu, 22 Oct 2026 12:00:00 GMT", noon, Some(600)),
            ("Wed, 21 Oct 2026 12:05:00 GMT", None, None),
            ("Wed, 21 Oct 2026 12:05:00 GMT", Some("noon"), None),
        ] {
            assert_eq!(retry_after(value, date), expected.map(Duration::from_secs), "{value:?}");
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
