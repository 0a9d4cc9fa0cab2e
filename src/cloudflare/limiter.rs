//! Cloudflare's rate limit, kept from this side: how many calls may still be sent, and since when none may.
//!
//! A sliding window of our own calls, a block that an answer asked for, and what the `Ratelimit` header grants, which
//! may only lower the first: other programs use the same limit. Instants are passed in.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::limits::{RATE_CALLS, RATE_LIMIT_PAUSE_MAX, RATE_RESERVE, RATE_WINDOW};

/// What this program allows itself in a window.
const CALLS: usize = RATE_CALLS - RATE_RESERVE;

#[derive(Debug, Default)]
pub(super) struct Limiter {
    /// When each call of the window was sent, the oldest in front; at most `CALLS`.
    calls: VecDeque<Instant>,
    blocked_until: Option<Instant>,
    grant: Option<Grant>,
}

/// What Cloudflare last said may still be sent.
#[derive(Clone, Copy, Debug)]
struct Grant {
    calls: usize,
    until: Instant,
}

impl Limiter {
    /// Counts a call that is about to be sent, or says how long nothing may be sent.
    pub(super) fn admit(&mut self, now: Instant) -> Result<(), Duration> {
        self.forget(now);
        if let Some(wait) = self.blocked_for(now) {
            return Err(wait);
        }
        self.calls.push_back(now);
        if let Some(grant) = &mut self.grant {
            grant.calls = grant.calls.saturating_sub(1);
        }
        Ok(())
    }

    /// How many calls may be sent at once.
    pub(super) fn calls_left(&mut self, now: Instant) -> usize {
        self.forget(now);
        if self.blocked_until.is_some() {
            return 0;
        }
        let own = CALLS.saturating_sub(self.calls.len());
        self.grant.map_or(own, |grant| own.min(grant.calls))
    }

    /// How long nothing may be sent, if that is so.
    pub(super) fn blocked_for(&mut self, now: Instant) -> Option<Duration> {
        self.forget(now);
        let window_full = || {
            if self.calls.len() < CALLS {
                return None;
            }
            self.calls.front().map(|oldest| *oldest + RATE_WINDOW)
        };
        let grant_used = || {
            self.grant
                .filter(|grant| grant.calls == 0)
                .map(|grant| grant.until)
        };
        [self.blocked_until, window_full(), grant_used()]
            .into_iter()
            .flatten()
            .max()
            .map(|until| until.saturating_duration_since(now))
    }

    /// Takes note that nothing may be sent for `pause`, and says how long it will be. A block is never shortened:
    /// answers overtake each other.
    pub(super) fn block(&mut self, pause: Duration, now: Instant) -> Duration {
        let until = now + pause.min(RATE_LIMIT_PAUSE_MAX);
        let until = self.blocked_until.map_or(until, |present| present.max(until));
        self.blocked_until = Some(until);
        until.saturating_duration_since(now)
    }

    /// Takes note of a `Ratelimit` header, `"default";r=50;t=30`: calls left, and seconds until there are more.
    pub(super) fn observe(&mut self, header: &str, now: Instant) {
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

    /// Drops what is over.
    fn forget(&mut self, now: Instant) {
        while self
            .calls
            .front()
            .is_some_and(|sent| now.saturating_duration_since(*sent) >= RATE_WINDOW)
        {
            self.calls.pop_front();
        }
        self.blocked_until = self.blocked_until.filter(|until| *until > now);
        self.grant = self.grant.filter(|grant| grant.until > now);
    }
}

/// The whole number of `;name=number` in one policy.
fn parameter(policy: &str, name: &str) -> Option<u64> {
    policy
        .split(';')
        .skip(1)
        .filter_map(|part| part.split_once('='))
        .find(|(key, _)| key.trim() == name)
        .and_then(|(_, value)| value.trim().parse().ok())
}
