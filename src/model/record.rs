//! DNS records: as they stand, and the changes that are asked for.

use serde::Serialize;

use super::identifier::RecordId;

/// A record as Cloudflare has it. A zone may hold thousands, hence the boxed texts and nothing that is not needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its id.
    pub id: RecordId,
    /// The full name in lower-case punycode, without a trailing dot.
    pub name: Box<str>,
    /// `A`, `AAAA`, `CNAME`, `TXT`, …
    pub kind: Box<str>,
    /// What it says; of a CNAME, the target. Empty for types that have only `data`.
    pub content: Box<str>,
    /// Whether Cloudflare stands before it.
    pub proxied: bool,
    /// Seconds; 1 stands for automatic, which is what every proxied record has.
    pub ttl: u32,
    /// Empty where there is none.
    pub comment: Box<str>,
    /// Made by one of Cloudflare's services (Email Routing): it can be neither changed nor deleted.
    pub read_only: bool,
    /// When it was made, in whole seconds since 1970; `None` where that is not told or cannot be read. A change leaves it
    /// as it is.
    pub created_unix_seconds: Option<u32>,
}

impl Record {
    /// Whether it is a TXT record that can be changed.
    pub fn is_writable_txt(&self) -> bool {
        &*self.kind == "TXT" && !self.read_only
    }
}

/// A change of one record. What is `None` stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordPatch {
    /// The record.
    pub id: RecordId,
    /// Its new content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<Box<str>>,
    /// Whether Cloudflare is to stand before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxied: Option<bool>,
    /// Its new comment; the empty one takes it away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<Box<str>>,
}

/// A record to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NewRecord {
    /// The full name.
    pub name: Box<str>,
    /// `A`, `AAAA`, `CNAME`, `TXT`, …
    #[serde(rename = "type")]
    pub kind: Box<str>,
    /// What it says.
    pub content: Box<str>,
    /// Whether Cloudflare is to stand before it.
    pub proxied: bool,
    /// Seconds, 1 for automatic.
    pub ttl: u32,
    /// Empty for none.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub comment: Box<str>,
}
