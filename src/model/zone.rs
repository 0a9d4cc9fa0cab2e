//! Zones.

use super::identifier::{AccountId, ZoneId};

/// A zone that the credentials can see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Its id.
    pub id: ZoneId,
    /// Its apex in lower-case punycode, without a trailing dot.
    pub name: Box<str>,
    /// The account that it belongs to.
    pub account: AccountId,
    /// Decides how long a comment and how large a batch may be.
    pub plan: ZonePlan,
    /// `active`, `pending`, `initializing` or `moved`.
    pub status: Box<str>,
    /// A paused zone serves DNS only: nothing in it is proxied.
    pub paused: bool,
}

/// As far as limits depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZonePlan {
    /// The smaller limits; also assumed where Cloudflare does not tell.
    Free,
    /// Pro, Business and Enterprise.
    Paid,
}
