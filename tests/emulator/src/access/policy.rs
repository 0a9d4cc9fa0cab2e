//! Policies: reusable ones of an account, and those that are written inline into one application.

use serde_json::{Map, Value, json};

use crate::access::{Access, invalid, listed, page_of};
use crate::answer::{Refusal, Success};
use crate::cloudflare::Cloudflare;
use crate::http::Request;

/// A policy. The fields may be changed at any time through [`Cloudflare::policy_mut`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Policy {
    /// A UUID.
    pub id: String,
    /// The account, by id.
    pub account: String,
    /// Not unique.
    pub name: String,
    /// `allow`, `deny`, `non_identity`, `bypass`, or one that Cloudflare has not got yet.
    pub decision: String,
    /// `include`, `exclude`, `require`, and whatever else was written.
    pub fields: Map<String, Value>,
    /// The only application that has it, by id; `None` for a reusable one.
    pub application: Option<String>,
    pub(super) created_at: String,
}

impl Policy {
    /// Reads what a client has written, or a test by hand. A decision of any name is taken, so that a test sees what a
    /// client makes of one that it does not know.
    pub(super) fn parse(
        id: String,
        account: &str,
        members: &Map<String, Value>,
        now: String,
    ) -> Result<Self, Refusal> {
        let text = |name: &str| members.get(name).and_then(Value::as_str).map(str::to_owned);
        let list = |name: &str| members.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
        if list("include").is_empty() {
            return Err(invalid("policy must have at least one include rule"));
        }
        let own = [
            "id",
            "uid",
            "precedence",
            "reusable",
            "created_at",
            "updated_at",
            "app_count",
            "name",
            "decision",
        ];
        let mut fields = members.clone();
        fields.retain(|name, _| !own.contains(&name.as_str()));
        for name in ["include", "exclude", "require"] {
            fields.insert(name.to_owned(), Value::from(list(name)));
        }
        Ok(Self {
            id,
            account: account.to_owned(),
            name: text("name").ok_or_else(|| invalid("policy name is required"))?,
            decision: text("decision").ok_or_else(|| invalid("policy decision is required"))?,
            fields,
            application: None,
            created_at: now,
        })
    }

    /// Whether all visitors are meant, without regard to what is excluded or required besides.
    pub(super) fn includes_all_visitors(&self) -> bool {
        let include = self.fields.get("include").and_then(Value::as_array);
        include.into_iter().flatten().any(|rule| rule.get("everyone").is_some())
    }

    pub(crate) fn to_json(&self) -> Map<String, Value> {
        let mut shown = self.fields.clone();
        let mut show = |name: &str, value: Value| shown.insert(name.to_owned(), value);
        show("id", json!(self.id));
        show("uid", json!(self.id));
        show("name", json!(self.name));
        show("decision", json!(self.decision));
        show("reusable", json!(self.application.is_none()));
        show("created_at", json!(self.created_at));
        show("updated_at", json!(self.created_at));
        shown
    }
}

impl Access {
    pub(super) fn policy(&self, account: &str, id: &str) -> Option<&Policy> {
        self.policies.iter().find(|policy| policy.account == account && policy.id == id)
    }

    fn reusable(&self, account: &str) -> impl Iterator<Item = &Policy> {
        self.policies.iter().filter(move |policy| policy.account == account && policy.application.is_none())
    }

    fn policy_json(&self, policy: &Policy) -> Value {
        let mut shown = policy.to_json();
        let users = self.applications.iter().filter(|application| application.has_policy(&policy.id));
        shown.insert("app_count".to_owned(), json!(users.count()));
        Value::Object(shown)
    }
}

/// `GET /accounts/{account_id}/access/policies`, the reusable ones.
pub(super) fn list(cloudflare: &Cloudflare, account: &str, request: &Request) -> Result<Success, Refusal> {
    let access = &cloudflare.access;
    let shown: Vec<Value> = access.reusable(account).map(|policy| access.policy_json(policy)).collect();
    Ok(listed(page_of(&request.parameters(), 100)?, shown))
}

pub(super) fn add(cloudflare: &mut Cloudflare, account: &str, policy: &Value) -> Result<String, Refusal> {
    let members = policy.as_object().ok_or_else(|| invalid("a policy is an object"))?;
    let (id, now) = (cloudflare.identifiers.uuid(), cloudflare.clock.timestamp());
    let policy = Policy::parse(id.clone(), account, members, now)?;
    cloudflare.access.policies.push(policy);
    Ok(id)
}

/// A policy that an application has must be taken off it first.
pub(super) fn delete(cloudflare: &mut Cloudflare, id: &str) -> Result<(), Refusal> {
    let access = &mut cloudflare.access;
    if access.applications.iter().any(|application| application.has_policy(id)) {
        return Err(invalid(format!("policy {id} is in use")));
    }
    access.policies.retain(|policy| policy.id != id);
    Ok(())
}
