//! The emulator's time: the machine's, plus what a test has put it ahead; or that alone.

use std::time::{Duration, Instant};

/// Seconds from 1970 to the day every emulator is born: 2026-01-01.
const BIRTH_UNIX_SECONDS: u64 = 1_767_225_600;

/// Time since the emulator was started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    started: Instant,
    /// When the machine's time ceased to count.
    stopped: Option<Duration>,
    ahead: Duration,
    /// How many transactions there were while it stood.
    transactions: u32,
}

impl Clock {
    #[allow(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
    pub(crate) fn start() -> Self {
        Self { started: Instant::now(), stopped: None, ahead: Duration::ZERO, transactions: 0 }
    }

    /// Time since the start.
    pub(crate) fn now(self) -> Duration {
        self.stopped.unwrap_or_else(|| self.started.elapsed()) + self.ahead
    }

    /// Lets time pass from now on only where it is put ahead. It stands at a whole second, so that runs can be
    /// compared.
    pub(crate) fn stop(&mut self) {
        self.stopped.get_or_insert_with(|| Duration::from_secs(self.started.elapsed().as_secs()));
    }

    pub(crate) fn is_stopped(self) -> bool {
        self.stopped.is_some()
    }

    /// Puts the time ahead.
    pub(crate) fn advance(&mut self, by: Duration) {
        self.ahead += by;
    }

    /// The time of day, in seconds since 1970.
    pub(crate) fn unix_seconds(self) -> u64 {
        BIRTH_UNIX_SECONDS + self.now().as_secs()
    }

    /// The time as it stands in the header `Date`.
    pub(crate) fn http_date(self) -> String {
        http_date(self.unix_seconds())
    }

    /// The time of a transaction as Cloudflare writes it, which no later one shares, though the clock stands.
    pub(crate) fn timestamp_of_transaction(&mut self) -> String {
        self.transactions += u32::from(self.is_stopped());
        let later = Duration::from_micros(u64::from(self.transactions));
        timestamp(Duration::from_secs(BIRTH_UNIX_SECONDS) + self.now() + later)
    }

    /// The time as Cloudflare writes it.
    pub(crate) fn timestamp(self) -> String {
        timestamp(Duration::from_secs(BIRTH_UNIX_SECONDS) + self.now())
    }
}

/// RFC 3339 in UTC.
fn timestamp(since_1970: Duration) -> String {
    let (unix_seconds, microseconds) = (since_1970.as_secs(), since_1970.subsec_micros());
    let (year, month, day) = civil_date(unix_seconds / 86_400);
    let (hour, minute, second) = time_of_day(unix_seconds);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{microseconds:06}Z")
}

/// RFC 9110, section 5.6.7.
fn http_date(unix_seconds: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let days = unix_seconds / 86_400;
    let (year, month, day) = civil_date(days);
    let (hour, minute, second) = time_of_day(unix_seconds);
    let name_in = |names: &[&'static str], index: u64| -> &'static str {
        usize::try_from(index).ok().and_then(|index| names.get(index)).expect("the caller divided")
    };
    let (weekday, month) = (name_in(&DAYS, days % 7), name_in(&MONTHS, month - 1));
    format!("{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
}

fn time_of_day(unix_seconds: u64) -> (u64, u64, u64) {
    let seconds = unix_seconds % 86_400;
    (seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Year, month and day, from the days since 1970.
fn civil_date(days: u64) -> (u64, u64, u64) {
    // Counted from 1 March of year 0, so that the leap day is the last of its year.
    let day_of_era = (days + 719_468) % 146_097;
    let era = (days + 719_468) / 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_civil_dates() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.012345Z"),
            (BIRTH_UNIX_SECONDS, "2026-01-01T00:00:00.012345Z"),
            (1_709_164_799, "2024-02-28T23:59:59.012345Z"),
            (1_709_164_800, "2024-02-29T00:00:00.012345Z"),
            (1_709_251_200, "2024-03-01T00:00:00.012345Z"),
        ] {
            assert_eq!(timestamp(Duration::new(seconds, 12_345_678)), expected);
        }
    }

    #[test]
    fn dates_of_http_name_the_weekday() {
        assert_eq!(http_date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(http_date(BIRTH_UNIX_SECONDS), "Thu, 01 Jan 2026 00:00:00 GMT");
    }
}
