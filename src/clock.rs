//! Time as a value: callers receive a clock, so that tests never wait.

use std::fmt;
use std::time::{Duration, Instant, SystemTime};

/// A source of monotonic time, which can also wait.
pub trait Clock: fmt::Debug + Send + Sync {
    fn now(&self) -> Instant;

    /// Blocks the calling thread for `duration`.
    fn sleep(&self, duration: Duration);

    /// The Unix time, in whole seconds. The time may jump, so only texts, metrics and log lines depend on it; no write
    /// does.
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

/// The instant by which the work of a request, a command or one call must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    at: Instant,
    pub(crate) may_use_reserve: bool,
}

impl Deadline {
    /// The deadline `budget` from now.
    pub fn after(clock: &dyn Clock, budget: Duration) -> Self {
        Self { at: clock.now() + budget, may_use_reserve: false }
    }

    /// The deadline of a request that writes: its reads, too, may use the calls that are kept for writes.
    #[must_use]
    pub fn with_reserve(self) -> Self {
        Self { may_use_reserve: true, ..self }
    }

    /// This deadline, or `limit` from now if that is earlier.
    #[must_use]
    pub fn at_most(self, clock: &dyn Clock, limit: Duration) -> Self {
        Self { at: self.at.min(clock.now() + limit), ..self }
    }

    /// The time left; zero once the deadline has passed.
    pub fn remaining(self, clock: &dyn Clock) -> Duration {
        self.at.saturating_duration_since(clock.now())
    }

    pub fn is_over(self, clock: &dyn Clock) -> bool {
        self.remaining(clock).is_zero()
    }
}

/// The day of an RFC 3339 timestamp such as `2027-01-31T23:59:59Z`, counted from 1970.
pub(crate) fn day_of(timestamp: &str) -> Option<i64> {
    let mut numbers = timestamp.get(..10)?.splitn(3, '-').map(|number| number.parse().ok());
    let (year, month, day) = (numbers.next()??, numbers.next()??, numbers.next()??);
    let is_valid = (1..=12).contains(&month) && (1..=31).contains(&day);
    is_valid.then(|| days_since_1970(year, month, day))
}

/// The whole seconds from 1970 to an RFC 3339 timestamp in UTC, such as `2014-01-01T05:20:00.12345Z`. A fraction, of
/// any length, is ignored.
pub fn unix_seconds_of(timestamp: &str) -> Option<i64> {
    let time = timestamp.get(10..)?.strip_prefix('T')?.strip_suffix('Z')?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let is_valid = fraction.bytes().all(|byte| byte.is_ascii_digit());
    is_valid.then_some(day_of(timestamp)? * 86_400 + seconds_of_day(time)?)
}

/// Reads `Sun, 06 Nov 1994 08:49:37 GMT`, the only form of date that HTTP still lets servers write.
pub(crate) fn unix_seconds_of_http_date(text: &str) -> Option<i64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (_, date) = text.trim().split_once(", ")?;
    let mut parts = date.split(' ');
    let (day, name, year, time) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let month = MONTHS.iter().position(|month| *month == name)? + 1;
    let day = day_of(&format!("{year}-{month:02}-{day}"))?;
    parts.eq(["GMT"]).then_some(day * 86_400 + seconds_of_day(time)?)
}

/// The seconds from midnight to a time such as `05:20:00`.
fn seconds_of_day(time: &str) -> Option<i64> {
    let mut numbers = time.splitn(3, ':').map(|number| number.parse::<u8>().ok().map(i64::from));
    let (hour, minute, second) = (numbers.next()??, numbers.next()??, numbers.next()??);
    // 60 is a leap second.
    let is_valid = hour < 24 && minute < 60 && second <= 60;
    is_valid.then_some(hour * 3_600 + minute * 60 + second)
}

/// The latest time since 1970 that such a timestamp may mean. Missing digits of its fraction may have been cut off.
pub(crate) fn latest_of(timestamp: &str) -> Option<Duration> {
    completed(timestamp, b'9')
}

/// The earliest time since 1970 that such a timestamp may mean.
pub(crate) fn earliest_of(timestamp: &str) -> Option<Duration> {
    completed(timestamp, b'0')
}

/// The time since 1970, to the nanosecond, with `digit` for each missing digit.
fn completed(timestamp: &str, digit: u8) -> Option<Duration> {
    let seconds = u64::try_from(unix_seconds_of(timestamp)?).ok()?;
    let (_, fraction) = timestamp.trim_end_matches('Z').split_once('.').unwrap_or_default();
    let digits = fraction.bytes().chain(std::iter::repeat(digit)).take(9);
    let nanoseconds = digits
        .map(|digit| char::from(digit).to_digit(10))
        .try_fold(0, |sum, digit| Some(sum * 10 + digit?))?;
    Some(Duration::new(seconds, nanoseconds))
}

/// The days from 1970-01-01 to a date in the Gregorian calendar. `month` and `day` count from 1.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March here, so that the leap day is the last one.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shorter_deadline_may_use_the_reserve_as_before_and_a_longer_limit_changes_nothing() {
        let whole = Deadline::after(&SystemClock, Duration::from_secs(9)).with_reserve();
        let half = whole.at_most(&SystemClock, Duration::from_secs(4));
        assert!(half.may_use_reserve && half.at < whole.at);
        assert_eq!(whole.at_most(&SystemClock, Duration::from_secs(60)), whole);
    }

    #[test]
    fn an_instant_is_read_whatever_the_digits_of_its_fraction() {
        for (timestamp, expected) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2014-01-01T05:20:00.12345Z", Some(1_388_553_600)),
            ("2026-01-01T00:00:00.000000Z", Some(1_767_225_600)),
            ("2024-02-29T23:59:59.9Z", Some(1_709_251_199)),
            ("2024-03-01T00:00:00.123456789Z", Some(1_709_251_200)),
            ("", None),
            ("soon", None),
            ("2014-01-01", None),
            ("2014-01-01T05:20:00", None),
            ("2014-01-01T05:20:00+01:00", None),
            ("2014-01-01T05:20Z", None),
            ("2014-01-01T24:00:00Z", None),
            ("2014-13-01T05:20:00Z", None),
            ("2014-01-00T05:20:00Z", None),
            ("2014-01-01T05:20:00.x1Z", None),
            ("2014-01-01 05:20:00Z", None),
            ("2014-ä1-01T05:20:00Z", None),
        ] {
            assert_eq!(unix_seconds_of(timestamp), expected, "{timestamp}");
        }
    }

    #[test]
    fn an_instant_without_all_its_digits_may_be_as_late_as_any_with_more_of_them() {
        for (timestamp, expected) in [
            ("1970-01-01T00:01:00Z", Some((60, 999_999_999))),
            ("1970-01-01T00:01:00.5Z", Some((60, 599_999_999))),
            ("1970-01-01T00:01:00.123456Z", Some((60, 123_456_999))),
            ("1970-01-01T00:01:00.1234567891Z", Some((60, 123_456_789))),
            ("1969-12-31T23:59:59Z", None),
            ("soon", None),
        ] {
            let expected = expected.map(|(seconds, nanoseconds)| Duration::new(seconds, nanoseconds));
            assert_eq!(latest_of(timestamp), expected, "{timestamp}");
            let is_whole = earliest_of(timestamp) == expected;
            assert_eq!(is_whole, expected.is_none() || timestamp.len() > 28, "{timestamp}");
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
