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

    /// True if a record in the zone can point to a tunnel of `account`. For a record that points to a tunnel of another
    /// account, Cloudflare answers visitors with error 1014. Tunnels of another account cannot be looked up either, so
    /// a record that points to such a tunnel would look abandoned.
    pub fn belongs_to(&self, account: &AccountId) -> bool {
        self.account == *account || self.account.as_str().is_empty()
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
