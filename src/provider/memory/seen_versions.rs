//! Remembers the highest version of each tunnel's configuration. A document of a lower one is an old answer, and written
//! back it would take out what came since.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::model::TunnelId;

/// A lower version that is still answered this long after the highest one was is no old answer: an operator has put an
/// earlier configuration back.
const HIGHEST_MAX_AGE: Duration = Duration::from_secs(600);

/// The highest version of each tunnel that was read or written, and the time at which it was seen last.
#[derive(Debug, Default)]
pub(crate) struct SeenVersions(BTreeMap<TunnelId, (i64, Instant)>);

impl SeenVersions {
    /// Notes a version that was read or written.
    ///
    /// # Errors
    /// The highest version, if this one is older than that.
    pub(crate) fn see(&mut self, tunnel: &TunnelId, version: i64, now: Instant) -> Result<(), i64> {
        match self.0.get(tunnel) {
            Some((highest, seen_at))
                if version < *highest && now.saturating_duration_since(*seen_at) < HIGHEST_MAX_AGE =>
            {
                Err(*highest)
            }
            _ => {
                self.0.insert(tunnel.clone(), (version, now));
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::tunnel;
    use crate::provider::memory::year;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "any instant will do")]
    fn a_lower_version_is_old_until_the_highest_one_was_not_seen_for_ten_minutes() {
        let (mut seen, start) = (SeenVersions::default(), Instant::now());
        for (seconds, version, expected) in [
            (0, 7, Ok(())),
            (1, 6, Err(7)),
            (500, 7, Ok(())),
            (1_099, 6, Err(7)),
            (1_100, 6, Ok(())),
            (1_101, 5, Err(6)),
            (1_102, 8, Ok(())),
            (1_103, -1, Err(8)),
        ] {
            let now = start + Duration::from_secs(seconds);
            assert_eq!(seen.see(&tunnel(), version, now), expected, "after {seconds} s");
        }
    }

    #[test]
    fn a_year_of_versions_leaves_the_last_one() {
        let mut seen = SeenVersions::default();
        for (number, now) in year::loops() {
            assert_eq!(seen.see(&tunnel(), number as i64, now), Ok(()));
        }
        assert_eq!(seen.0.len(), 1);
    }
}
