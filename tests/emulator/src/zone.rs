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
    /// 200 records, 200 operations a batch, comments up to 100 characters, no tags.
    Free,
    /// 3,500 records and operations, comments up to 500 characters, 20 tags.
    Pro,
    /// Like [`Plan::Pro`].
    Business,
    /// Like [`Plan::Pro`].
    Enterprise,
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

    /// Most tags of a record.
    pub fn tag_quota(self) -> usize {
        if self == Self::Free { 0 } else { 20 }
    }

    /// Shortest time to live of a record that is not automatic, in seconds.
    pub fn shortest_ttl_seconds(self) -> u64 {
        if self == Self::Enterprise { 30 } else { 60 }
    }

    fn legacy_id(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Pro => "pro",
            Self::Business => "business",
            Self::Enterprise => "enterprise",
        }
    }

    fn display_name(self) -> &'static str {
        match self {
            Self::Free => "Free Website",
            Self::Pro => "Pro Website",
            Self::Business => "Business Website",
            Self::Enterprise => "Enterprise Website",
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

/// Whether a zone passes a filter.
type Test = Box<dyn Fn(&Zone) -> bool>;

/// `GET /zones`.
pub(crate) fn list(cloudflare: &Cloudflare, grant: &Grant, request: &Request) -> Result<Success, Refusal> {
    let mut page = Page { number: 1, size: 20 };
    let mut zones: Vec<&Zone> = cloudflare.zones.iter().filter(|zone| grant.reaches_zone(&zone.id)).collect();
    let (mut order, mut descending, mut any) = (String::new(), false, false);
    let mut tests: Vec<Test> = Vec::new();
    for (name, value) in request.parameters() {
        match name.as_str() {
            "page" => page.number = number(&name, &value, 1..=usize::MAX)?,
            "per_page" => page.size = number(&name, &value, 5..=50)?,
            "order" => order = value,
            "direction" => descending = value == "desc",
            "match" => any = value == "any",
            "name" => tests.push(Box::new(move |zone| name_matches(&value, &zone.name))),
            "account.id" => tests.push(Box::new(move |zone| zone.account.id == value)),
            "account.name" => tests.push(Box::new(move |zone| name_matches(&value, &zone.account.name))),
            "status" => tests.push(Box::new(move |zone| zone.status == value)),
            "type" => tests.push(Box::new(move |_| value.split(',').any(|kind| kind == "full"))),
            _ => {}
        }
    }
    if !tests.is_empty() {
        zones.retain(|zone| {
            if any { tests.iter().any(|test| test(zone)) } else { tests.iter().all(|test| test(zone)) }
        });
    }
    match order.as_str() {
        "name" => zones.sort_by(|a, b| a.name.cmp(&b.name)),
        "status" => zones.sort_by(|a, b| a.status.cmp(&b.status)),
        "account.id" => zones.sort_by(|a, b| a.account.id.cmp(&b.account.id)),
        "account.name" => zones.sort_by(|a, b| a.account.name.cmp(&b.account.name)),
        _ => {}
    }
    if descending {
        zones.reverse();
    }
    let total = zones.len();
    let shown: Vec<Value> = page.of(zones).into_iter().map(Zone::to_json).collect();
    let mut success = Success::of(&shown);
    success.result_info = Some(page.info(shown.len(), total, Some(page.count(total))));
    Ok(success)
}

/// `GET /zones/{zone_id}`.
pub(crate) fn show(zone: &Zone) -> Success {
    Success::of(&zone.to_json())
}

/// A filter such as `example.com`, `contains:example` or `starts_with_case_sensitive:ex`.
fn name_matches(filter: &str, name: &str) -> bool {
    let (operator, wanted) = filter.split_once(':').unwrap_or(("equal", filter));
    let (operator, exact_case) = match operator.strip_suffix("_case_sensitive") {
        Some(operator) => (operator, true),
        None => (operator, false),
    };
    let (name, wanted) = if exact_case {
        (name.to_owned(), wanted.to_owned())
    } else {
        (name.to_lowercase(), wanted.to_lowercase())
    };
    match operator {
        "contains" => name.contains(&wanted),
        "starts_with" => name.starts_with(&wanted),
        "ends_with" => name.ends_with(&wanted),
        "not_equal" => name != wanted,
        _ => name == wanted,
    }
}
