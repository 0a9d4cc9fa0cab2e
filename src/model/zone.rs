//! Zones and DNS records as Cloudflare has them, and changes to records.

use std::borrow::Cow;
use std::time::Duration;

use serde::Serialize;

use super::identifier::{AccountId, RecordId, TunnelId, ZoneId};

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

/// A record as Cloudflare has it. A zone may hold thousands, so texts are boxed and only needed fields are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub id: RecordId,
    /// The full name in lower-case punycode, without a trailing dot.
    pub name: Box<str>,
    /// `A`, `AAAA`, `CNAME`, `TXT`, …
    pub record_type: Cow<'static, str>,
    /// The value; for a CNAME, its target. Empty for types that have only `data`.
    pub content: Box<str>,
    /// True if Cloudflare proxies its traffic.
    pub proxied: bool,
    /// In seconds; 1 means automatic, which every proxied record has.
    pub ttl: u32,
    /// Empty if there is none.
    pub comment: Box<str>,
    /// The record was made by one of Cloudflare's services (Email Routing), and can be neither changed nor deleted.
    pub read_only: bool,
    /// The creation time, in whole seconds since 1970; `None` if missing or unreadable. Changes do not affect it.
    pub created_unix_seconds: Option<u32>,
    /// The latest time since 1970 at which the record or its comment may have changed; `None` if unknown.
    pub modified: Option<Duration>,
}

impl Record {
    /// The tunnel that the record points to.
    pub fn tunnel(&self) -> Option<TunnelId> {
        TunnelId::from_hostname(&self.content)
    }

    pub fn is_cname(&self) -> bool {
        self.record_type == "CNAME"
    }

    /// True for A, AAAA and CNAME records. A CNAME excludes the others at its name.
    pub fn is_address_or_cname(&self) -> bool {
        ["A", "AAAA", "CNAME"].contains(&&*self.record_type)
    }
}

/// A change to one record. A field that is `None` stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordPatch {
    pub id: RecordId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<Box<str>>,
    /// True if Cloudflare is to proxy its traffic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxied: Option<bool>,
    /// The new comment; an empty one removes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<Box<str>>,
}

/// A record to be created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NewRecord {
    pub name: Box<str>,
    /// `A`, `AAAA`, `CNAME`, …
    #[serde(rename = "type")]
    pub record_type: Box<str>,
    pub content: Box<str>,
    /// True if Cloudflare is to proxy its traffic.
    pub proxied: bool,
    /// In seconds; 1 for automatic.
    pub ttl: u32,
    /// Empty for none. An empty comment is serialized too: the log shows a record that was taken over in this form, and
    /// restoring it has to remove our stamp.
    pub comment: Box<str>,
}
