//! Zones.

use super::identifier::{AccountId, ZoneId};

/// A zone that the credentials can see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    pub id: ZoneId,
    /// The apex in lower-case punycode, without a trailing dot.
    pub name: Box<str>,
    pub account: AccountId,
    /// Determines the maximum size of comments and batches.
    pub plan: ZonePlan,
    /// `active`, `pending`, `initializing` or `moved`.
    pub status: Box<str>,
    /// A paused zone serves only DNS, and proxies nothing.
    pub paused: bool,
}

impl Zone {
    /// True if resolvers ask the zone's name servers, and not those of an outer zone.
    pub fn is_active(&self) -> bool {
        &*self.status == "active"
    }
}

/// The plan, as far as limits depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZonePlan {
    /// The smaller limits; also assumed if Cloudflare does not say.
    Free,
    /// Pro, Business and Enterprise.
    Paid,
}
