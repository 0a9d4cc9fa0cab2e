//! The pause before something that failed is tried again.

use std::time::{Duration, Instant};

use crate::reconcile::reason::Reason;

#[derive(Debug)]
pub(super) struct Pause {
    reason: Reason,
    length: Duration,
    pub(super) retry_at: Instant,
}

impl Pause {
    /// The pause after `earlier`. The first pause is `shortest`; each later pause is twice as long, up to `longest`.
    pub(super) fn after(
        earlier: Option<&Self>,
        reason: Reason,
        (shortest, longest): (Duration, Duration),
        now: Instant,
    ) -> Self {
        let length = earlier.map_or(shortest, |earlier| (earlier.length * 2).clamp(shortest, longest));
        Self { reason, length, retry_at: now + length }
    }

    pub(super) fn is_for(&self, reason: &Reason) -> bool {
        self.reason == *reason
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.retry_at <= now
    }

    /// The reason of the pause; `None` once the pause is over.
    pub(super) fn reason(&self, now: Instant) -> Option<Reason> {
        (!self.is_over(now)).then(|| self.reason.clone())
    }
}
