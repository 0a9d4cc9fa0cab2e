//! The rate limit: so many calls in a window for each token, then nothing at all for a while.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::answer::{Answer, Refusal};

/// How many calls a token may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// Calls in a window.
    pub calls: u64,
    /// Length of the window, counted from its first call.
    pub window: Duration,
    /// How long everything is refused after the limit was passed.
    pub block: Duration,
}

impl Default for RateLimit {
    /// Cloudflare's: 1,200 calls in 5 minutes, then 5 minutes of nothing.
    fn default() -> Self {
        Self { calls: 1200, window: Duration::from_secs(300), block: Duration::from_secs(300) }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    window_ends: Duration,
    used: u64,
    blocked_until: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct Limiter {
    pub(crate) limit: RateLimit,
    usage: BTreeMap<String, Usage>,
}

impl Limiter {
    /// Counts a call with these credentials. An answer means that it is refused.
    pub(crate) fn count(&mut self, credentials: &str, now: Duration) -> Option<Answer> {
        let RateLimit { calls, window, block } = self.limit;
        let usage = self.usage.entry(credentials.to_owned()).or_default();
        if now >= usage.window_ends {
            *usage = Usage { window_ends: now + window, used: 0, ..*usage };
        }
        usage.used += 1;
        if usage.used > calls {
            // Refused until the block is over, which is where the next window begins.
            if now >= usage.blocked_until {
                usage.blocked_until = now + block;
                usage.window_ends = usage.blocked_until;
            }
            return Some(refusal(self.limit, usage.blocked_until - now));
        }
        None
    }

    /// The headers that every answer carries.
    pub(crate) fn headers(&self, credentials: &str, now: Duration) -> [(String, String); 2] {
        let RateLimit { calls, window, block: _ } = self.limit;
        let usage = self.usage.get(credentials).copied().unwrap_or_default();
        let remaining = if now < usage.blocked_until { 0 } else { calls.saturating_sub(usage.used) };
        let until = usage.window_ends.max(usage.blocked_until).saturating_sub(now);
        [
            ("ratelimit".to_owned(), format!("\"default\";r={remaining};t={}", seconds_up(until))),
            ("ratelimit-policy".to_owned(), format!("\"default\";q={calls};w={}", window.as_secs())),
        ]
    }
}

fn refusal(limit: RateLimit, blocked_for: Duration) -> Answer {
    let RateLimit { calls, window, block: _ } = limit;
    let text = format!(
        "More than {calls} requests per {} seconds reached. Please wait and consider throttling your request speed",
        window.as_secs()
    );
    let mut answer = Refusal::new(429, 971, text).into_answer();
    answer.headers.push(("retry-after".to_owned(), seconds_up(blocked_for).to_string()));
    answer
}

fn seconds_up(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}
