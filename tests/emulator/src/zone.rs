//! Zones and their list.

use serde_json::{Value, json};

use crate::answer::{Refusal, Success};
use crate::cloudflare::{Account, Cloudflare};
use crate::http::Request;
use crate::page::{Page, number};
use crate::record::Record;
use crate::token::Grant;

/// A zone's plan, which decides its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// 200 records, 200 operations a batch, comments up to 100 characters.
    Free,
    /// 3,500 records and operations, comments up to 500 characters.
    Pro,
}

impl Plan {
    /// Most operations of one batch.
    pub fn batch_limit(self) -> usize {
        if self == Self::Free { 200 } else { 3500 }
    }

    /// Most records of a zone unless its quota says otherwise.
    pub fn record_quota(self) -> usize {
        if self == Self::Free { 200 } else { 3500 }
    }

    /// Longest comment, in characters.
    pub fn comment_limit(self) -> usize {
        if self == Self::Free { 100 } else { 500 }
    }

    fn legacy_id(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Pro => "pro",
        }
    }

    fn display_name(self) -> &'static str {
        match self {
            Self::Free => "Free Website",
            Self::Pro => "Pro Website",
        }
    }
}

/// A zone. The public fields may be changed at any time through [`Cloudflare::zone_mut`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Zone {
    /// 32 hexadecimal digits.
    pub id: String,
    /// Lower-case punycode without trailing dot.
    pub name: String,
    /// The account it belongs to.
    pub account: Account,
    /// Decides its limits.
    pub plan: Plan,
    /// `initializing`, `pending`, `active` or `moved`.
    pub status: String,
    /// Whether Cloudflare's proxy is off for the zone.
    pub paused: bool,
    /// Most records; set from the plan.
    pub record_quota: usize,
    pub(crate) records: Vec<Record>,
    /// What the resolvers answer by; `None` where that is what is written.
    pub(crate) resolved: Option<Vec<Record>>,
    created_on: String,
}

impl Zone {
    pub(crate) fn new(id: String, name: &str, account: Account, plan: Plan, now: String) -> Self {
        Self {
            id,
            name: name.to_owned(),
            account,
            plan,
            status: "active".to_owned(),
            paused: false,
            record_quota: plan.record_quota(),
            records: Vec::new(),
            resolved: None,
            created_on: now,
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "id": self.id,
            "name": self.name,
            "status": self.status,
            "paused": self.paused,
            "type": "full",
            "development_mode": 0,
            "name_servers": ["alice.ns.cloudflare.com", "bob.ns.cloudflare.com"],
            "original_name_servers": null,
            "original_registrar": null,
            "original_dnshost": null,
            "created_on": self.created_on,
            "modified_on": self.created_on,
            "activated_on": if self.status == "active" { Value::from(self.created_on.as_str()) } else { Value::Null },
            "meta": {"step": 2, "custom_certificate_quota": 0, "page_rule_quota": 3, "phishing_detected": false},
            "owner": {"type": "user"},
            "account": {"id": self.account.id, "name": self.account.name},
            "permissions": ["#dns_records:edit", "#dns_records:read", "#zone:read"],
            "plan": {
                "id": "0feeeeeeeeeeeeeeeeeeeeeeeeeeeeee",
                "name": self.plan.display_name(),
                "price": 0,
                "currency": "USD",
                "frequency": "",
                "is_subscribed": self.plan != Plan::Free,
                "can_subscribe": false,
                "legacy_id": self.plan.legacy_id(),
                "legacy_discount": false,
                "externally_managed": false,
            },
        })
    }
}

/// `GET /zones`.
pub(crate) fn list(cloudflare: &Cloudflare, grant: &Grant, request: &Request) -> Result<Success, Refusal> {
    let mut page = Page { number: 1, size: 20 };
    for (name, value) in request.parameters() {
        match name.as_str() {
            "page" => page.number = number(&name, &value, 1..=usize::MAX)?,
            "per_page" => page.size = number(&name, &value, 5..=50)?,
            // No client of the tests uses filters and orders.
            _ => return Err(Refusal::bad_request(format!("{name} is unknown here"))),
        }
    }
    let zones: Vec<&Zone> = cloudflare.zones.iter().filter(|zone| grant.reaches_zone(&zone.id)).collect();
    let total = zones.len();
    let shown: Vec<Value> = page.of(zones).into_iter().map(Zone::to_json).collect();
    let mut success = Success::of(&shown);
    success.result_info = Some(page.info(shown.len(), total, Some(page.count(total))));
    Ok(success)
}
