//! Tags of applications: the name is the key.

use serde_json::{Value, json};

use crate::access::{Access, Application, invalid, listed, members, page_of};
use crate::answer::{Refusal, Success};
use crate::cloudflare::Cloudflare;
use crate::http::Request;

/// Longest name, from Cloudflare's documents.
const NAME_LIMIT: usize = 35;

#[derive(Clone, Debug)]
pub(crate) struct Tag {
    pub(super) account: String,
    pub(super) name: String,
    created_at: String,
}

impl Tag {
    fn to_json(&self, applications: &[Application]) -> Value {
        let has_it = |application: &&Application| application.tags().any(|tag| tag == self.name);
        json!({
            "name": self.name,
            "app_count": applications.iter().filter(has_it).count(),
            "created_at": self.created_at,
            "updated_at": self.created_at,
        })
    }
}

impl Access {
    pub(super) fn tag(&self, account: &str, name: &str) -> Option<&Tag> {
        self.tags.iter().find(|tag| tag.account == account && tag.name == name)
    }
}

/// `GET /accounts/{account_id}/access/tags`.
pub(super) fn list(cloudflare: &Cloudflare, account: &str, request: &Request) -> Result<Success, Refusal> {
    let Access { tags, applications, .. } = &cloudflare.access;
    let of_account = tags.iter().filter(|tag| tag.account == account);
    let shown: Vec<Value> = of_account.map(|tag| tag.to_json(applications)).collect();
    Ok(listed(page_of(&request.parameters(), 50)?, shown))
}

/// `POST /accounts/{account_id}/access/tags`.
pub(super) fn create(cloudflare: &mut Cloudflare, account: &str, body: &str) -> Result<Success, Refusal> {
    let members = members(body)?;
    let name = members.get("name").and_then(Value::as_str).ok_or_else(|| invalid("name is required"))?;
    add(cloudflare, account, name)?;
    let Access { applications, .. } = &cloudflare.access;
    let made = cloudflare.access.tag(account, name).map(|tag| tag.to_json(applications));
    Ok(Success { status: 201, ..Success::of(&made) })
}

pub(super) fn add(cloudflare: &mut Cloudflare, account: &str, name: &str) -> Result<(), Refusal> {
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if !(1..=NAME_LIMIT).contains(&name.len()) || !name.bytes().all(is_fit) {
        return Err(invalid(format!("a tag has up to {NAME_LIMIT} alphanumeric characters")));
    }
    if cloudflare.access.tag(account, name).is_some() {
        return Err(Refusal::new(409, 12132, "access.api.error.conflict: the tag exists"));
    }
    let created_at = cloudflare.clock.timestamp();
    cloudflare.access.tags.push(Tag { account: account.to_owned(), name: name.to_owned(), created_at });
    Ok(())
}

/// `DELETE /accounts/{account_id}/access/tags/{tag_name}`. That a tag of an application stays is by analogy to
/// policies.
pub(super) fn delete(cloudflare: &mut Cloudflare, account: &str, name: &str) -> Result<Success, Refusal> {
    let Access { tags, applications, .. } = &mut cloudflare.access;
    let is_it = |tag: &Tag| tag.account == account && tag.name == name;
    if !tags.iter().any(is_it) {
        return Err(Refusal::new(404, 12135, "access.api.error.tag_not_found"));
    }
    let of_account = applications.iter().filter(|application| application.account == account);
    if of_account.flat_map(Application::tags).any(|tag| tag == name) {
        return Err(invalid("the tag is in use"));
    }
    tags.retain(|tag| !is_it(tag));
    Ok(Success { status: 202, ..Success::of(&json!({"name": name})) })
}
