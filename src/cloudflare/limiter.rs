//! Keeps to Cloudflare's rate limit: it knows how many calls may still be sent, and until when none may.
//!
//! It combines a sliding window of our own calls, a block that an answer asked for, and the calls that the `Ratelimit`
//! header grants. Other programs use the same limit, so the header can only lower the number. Instants are passed in.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::limits::{RATE_CALLS, RATE_KEPT_FOR_OTHERS, RATE_KEPT_FOR_WRITES, RATE_WINDOW};

/// The calls that this program allows itself per window.
const CALLS: usize = RATE_CALLS - RATE_KEPT_FOR_OTHERS;

/// The longest pause after a rate limit, even if Cloudflare or a proxy names a longer time. Cloudflare's own block
/// lasts five minutes.
const RATE_LIMIT_PAUSE_MAX: Duration = Duration::from_secs(600);

#[derive(Debug, Default)]
pub(super) struct Limiter {
    /// The times at which the window's calls were sent, the oldest first; at most `CALLS`.
    calls: VecDeque<Instant>,
    blocked_until: Option<Instant>,
    grant: Option<Grant>,
}

/// The calls that Cloudflare last granted.
#[derive(Clone, Copy, Debug)]
struct Grant {
    calls: usize,
    until: Instant,
}

impl Limiter {
    /// Counts a call that is about to be sent, or returns the time until it may be sent. Only writes,
    /// and the reads of a request that writes, may use the reserve, which is the last calls of a window.
    pub(super) fn admit(&mut self, may_use_reserve: bool, now: Instant) -> Result<(), Duration> {
        if let Some(wait) = self.blocked_for(may_use_reserve, now) {
            return Err(wait);
        }
        self.calls.push_back(now);
        if let Some(grant) = &mut self.grant {
            grant.calls = grant.calls.saturating_sub(1);
        }
        Ok(())
    }

    /// The number of calls that may be sent now.
    pub(super) fn calls_left(&mut self, now: Instant) -> usize {
        self.forget(now);
        if self.blocked_until.is_some() {
            return 0;
        }
        let own = CALLS.saturating_sub(self.calls.len());
        self.grant.map_or(own, |grant| own.min(grant.calls))
    }

    /// If calls of this kind are blocked, the time until they are possible again.
    fn blocked_for(&mut self, may_use_reserve: bool, now: Instant) -> Option<Duration> {
        self.forget(now);
        let allowed = if may_use_reserve { CALLS } else { CALLS - RATE_KEPT_FOR_WRITES };
        let window_full = || {
            let surplus = self.calls.len().checked_sub(allowed)?;
            self.calls.get(surplus).map(|sent| *sent + RATE_WINDOW)
        };
        let grant_used = || self.grant.filter(|grant| grant.calls == 0).map(|grant| grant.until);
        [self.blocked_until, window_full(), grant_used()]
            .into_iter()
            .flatten()
            .max()
            .map(|until| until.saturating_duration_since(now))
    }

    /// Blocks calls for `pause`, and returns the time until they are possible again. A block is never shortened,
    /// because answers overtake each other.
    pub(super) fn block(&mut self, pause: Duration, now: Instant) -> Duration {
        let until = now + pause.min(RATE_LIMIT_PAUSE_MAX);
        let until = self.blocked_until.map_or(until, |present| present.max(until));
        self.blocked_until = Some(until);
        until.saturating_duration_since(now)
    }

    /// Reads a `Ratelimit` header, `"default";r=50;t=30`: the calls left, and the seconds until there are more.
    pub(super) fn read_header(&mut self, header: &str, now: Instant) {
        self.forget(now);
        for policy in header.split(',') {
            let (Some(calls), Some(seconds)) = (parameter(policy, "r"), parameter(policy, "t")) else {
                continue;
            };
            let seen = Grant {
                calls: usize::try_from(calls).unwrap_or(usize::MAX),
                until: now + Duration::from_secs(seconds).min(RATE_WINDOW),
            };
            match &mut self.grant {
                Some(grant) if grant.calls <= seen.calls => {}
                grant => *grant = Some(seen),
            }
        }
    }

    /// Drops expired entries.
    fn forget(&mut self, now: Instant) {
        while self.calls.front().is_some_and(|sent| now.saturating_duration_since(*sent) >= RATE_WINDOW) {
            self.calls.pop_front();
        }
        self.blocked_until = self.blocked_until.filter(|until| *until > now);
        self.grant = self.grant.filter(|grant| grant.until > now);
    }
}

/// The integer in `;name=number` of one policy.
fn parameter(policy: &str, name: &str) -> Option<u64> {
    policy
        .split(';')
        .skip(1)
        .filter_map(|part| part.split_once('='))
        .find(|(key, _)| key.trim() == name)
        .and_then(|(_, value)| value.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[allow(clippy::disallowed_methods, reason = "an instant can be had in no other way")]
    fn start() -> Instant {
        Instant::now()
    }

    #[test]
    fn the_window_slides_call_by_call() {
        let (mut limiter, start) = (Limiter::default(), start());
        limiter.admit(true, start).unwrap();
        for _ in 1..CALLS {
            limiter.admit(true, start + 10 * SECOND).unwrap();
        }
        let late = start + 299 * SECOND;
        assert_eq!(limiter.admit(true, late), Err(SECOND));
        let over = start + 300 * SECOND;
        assert_eq!(limiter.admit(true, over), Ok(()));
        assert_eq!(limiter.admit(true, over), Err(10 * SECOND));
        assert_eq!(limiter.calls_left(start + 310 * SECOND), CALLS - 1);
    }

    #[test]
    fn reads_leave_calls_for_the_writes_that_they_lead_to() {
        let (mut limiter, start) = (Limiter::default(), start());
        let reads = CALLS - RATE_KEPT_FOR_WRITES;
        limiter.admit(false, start).unwrap();
        for _ in 1..reads {
            limiter.admit(false, start + SECOND).unwrap();
        }
        let later = start + 100 * SECOND;
        assert_eq!(limiter.admit(false, later), Err(200 * SECOND));
        for _ in 0..RATE_KEPT_FOR_WRITES {
            assert_eq!(limiter.admit(true, later), Ok(()));
        }
        assert_eq!(limiter.admit(true, later), Err(200 * SECOND), "all are used");
        assert_eq!(limiter.admit(false, later), Err(201 * SECOND), "as many calls have to leave the window");
    }

    #[test]
    fn a_refused_call_is_not_counted() {
        let (mut limiter, start) = (Limiter::default(), start());
        limiter.block(SECOND, start);
        for _ in 0..2_000 {
            limiter.admit(true, start).unwrap_err();
        }
        assert_eq!(limiter.calls_left(start + SECOND), CALLS);
    }

    #[test]
    fn a_block_ends_by_itself_and_is_never_shortened() {
        let (mut limiter, start) = (Limiter::default(), start());
        assert_eq!(limiter.block(60 * SECOND, start), 60 * SECOND);
        assert_eq!(limiter.block(5 * SECOND, start + SECOND), 59 * SECOND);
        assert_eq!(limiter.admit(true, start + 59 * SECOND), Err(SECOND));
        assert_eq!(limiter.blocked_for(true, start + 59 * SECOND), Some(SECOND));
        assert_eq!(limiter.calls_left(start + 59 * SECOND), 0);
        assert_eq!(limiter.admit(true, start + 60 * SECOND), Ok(()));
        assert_eq!(limiter.blocked_for(true, start + 60 * SECOND), None);
    }

    #[test]
    fn an_absurd_block_is_cut() {
        let (mut limiter, start) = (Limiter::default(), start());
        assert_eq!(limiter.block(Duration::MAX, start), RATE_LIMIT_PAUSE_MAX);
    }

    #[test]
    fn the_header_never_raises_the_budget() {
        let (mut limiter, start) = (Limiter::default(), start());
        limiter.read_header("\"default\";r=100000;t=30", start);
        assert_eq!(limiter.calls_left(start), CALLS);
        limiter.read_header("\"default\";r=5;t=30", start);
        // The answer to an earlier call arrives after that to a later one.
        limiter.read_header("\"default\";r=6;t=30", start);
        assert_eq!(limiter.calls_left(start), 5);
        // Whatever time the header claims, the grant cannot outlast the window.
        limiter.read_header("\"default\";r=0;t=99999999", start);
        assert_eq!(limiter.calls_left(start + RATE_WINDOW), CALLS);
    }

    #[test]
    fn the_smallest_of_several_policies_counts_and_garbage_does_not() {
        let start = start();
        for (header, expected) in [
            ("\"burst\";r=90;t=10, \"default\";r=7;t=30", 7),
            ("\"default\"; r = 7 ; t = 30", 7),
            ("\"default\";t=30;r=7", 7),
            ("\"default\";r=7", CALLS),
            ("\"default\";r=-7;t=30", CALLS),
            ("\"default\";r=seven;t=30", CALLS),
            ("r=7;t=30", CALLS),
            ("", CALLS),
            (";;;,,,===", CALLS),
        ] {
            let mut limiter = Limiter::default();
            limiter.read_header(header, start);
            assert_eq!(limiter.calls_left(start), expected, "{header}");
        }
    }
}
