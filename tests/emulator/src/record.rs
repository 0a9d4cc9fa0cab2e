//! DNS records: what is stored and how it is shown.

pub(crate) mod content;
pub(crate) mod draft;
pub(crate) mod query;

use serde_json::{Map, Value, json};

use crate::record::draft::Draft;

/// A DNS record as it is stored.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Record {
    /// 32 hexadecimal digits.
    pub id: String,
    /// Full name, lower-case punycode, no trailing dot.
    pub name: String,
    /// `A`, `CNAME`, `TXT` …
    pub kind: String,
    /// As it is shown.
    pub content: String,
    /// Of MX.
    pub priority: Option<u64>,
    /// Whether visitors reach Cloudflare's proxy.
    pub proxied: bool,
    /// Seconds; 1 is automatic, and always so where proxied.
    pub ttl: u64,
    /// `None` where there is none.
    pub comment: Option<String>,
    /// Whatever Cloudflare says about the record; `read_only: true` for its own ones.
    pub meta: Map<String, Value>,
    /// RFC 3339.
    pub created_on: String,
    /// RFC 3339.
    pub modified_on: String,
    comment_modified_on: Option<String>,
}

impl Record {
    pub(crate) fn new(id: String, draft: Draft, now: &str) -> Self {
        let mut record = Self {
            id,
            name: String::new(),
            kind: String::new(),
            content: String::new(),
            priority: None,
            proxied: false,
            ttl: 1,
            comment: None,
            meta: Map::new(),
            created_on: now.to_owned(),
            modified_on: String::new(),
            comment_modified_on: None,
        };
        record.apply(draft, now, false);
        record
    }

    /// Takes over everything that a client may write. A change of the comment alone may leave `modified_on` as it is.
    pub(crate) fn apply(&mut self, draft: Draft, now: &str, has_comment_its_own_time: bool) {
        let before = self.clone();
        let Draft { name, kind, content, priority, proxied, ttl, comment } = draft;
        self.name = name;
        self.kind = kind;
        self.content = content;
        self.priority = priority;
        self.proxied = proxied;
        self.ttl = ttl;
        self.comment = comment;
        if self.comment != before.comment {
            self.comment_modified_on = self.comment.is_some().then(|| now.to_owned());
        }
        let is_comment_alone =
            self.writable() == Self { comment: self.comment.clone(), ..before.clone() }.writable();
        if !(has_comment_its_own_time && is_comment_alone && self.comment != before.comment) {
            self.modified_on = now.to_owned();
        }
    }

    /// Whether this is a record of Cloudflare's own, which cannot be changed.
    pub fn is_read_only(&self) -> bool {
        self.meta.get("read_only") == Some(&Value::Bool(true))
    }

    /// Whether Cloudflare could proxy it.
    pub fn is_proxiable(&self) -> bool {
        content::is_proxiable(&self.kind, &self.content)
    }

    /// The record as the API shows it.
    pub fn to_json(&self) -> Value {
        let mut members = self.writable();
        let mut show = |name: &str, value: Value| members.insert(name.to_owned(), value);
        show("id", json!(self.id));
        show("proxiable", json!(self.is_proxiable()));
        show("meta", json!(self.meta));
        show("tags", json!([]));
        show("settings", json!({}));
        show("created_on", json!(self.created_on));
        show("modified_on", json!(self.modified_on));
        if let Some(time) = &self.comment_modified_on {
            show("comment_modified_on", json!(time));
        }
        Value::Object(members)
    }

    /// The fields that a client may write, as a full overwrite of the record would send them.
    pub(crate) fn writable(&self) -> Map<String, Value> {
        let mut members = Map::new();
        let mut put = |name: &str, value: Value| members.insert(name.to_owned(), value);
        put("name", json!(self.name));
        put("type", json!(self.kind));
        put("content", json!(self.content));
        put("proxied", json!(self.proxied));
        put("ttl", json!(self.ttl));
        put("comment", json!(self.comment));
        if let Some(priority) = self.priority {
            put("priority", json!(priority));
        }
        members
    }
}
