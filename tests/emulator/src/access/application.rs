//! Applications: what is stored, and the calls on them.

mod draft;
mod links;

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::access::{Access, Policy, destination, invalid, listed, members, page_of};
use crate::answer::{Refusal, Success};
use crate::cloudflare::Cloudflare;
use crate::http::Request;
use draft::Draft;
use links::{Link, links};

/// Most applications of an account, from Cloudflare's list of limits.
const APPLICATION_LIMIT: usize = 500;

/// Where an application belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// An account, by id: it covers hostnames of any of its zones.
    Account(String),
    /// A zone, by id: an application of the old kind, which the account's list does not have.
    Zone(String),
}

impl Scope {
    /// The account, by id.
    pub(crate) fn account(&self, cloudflare: &Cloudflare) -> String {
        match self {
            Self::Account(id) => id.clone(),
            Self::Zone(id) => cloudflare.zone(id).account.id.clone(),
        }
    }
}

/// An application. The public fields may be changed at any time through
/// [`Cloudflare::application_mut`](crate::Cloudflare::application_mut).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Application {
    /// A UUID.
    pub id: String,
    /// Where it was made.
    pub scope: Scope,
    /// 64 hexadecimal digits; the same for as long as the application is there.
    pub aud: String,
    /// Everything that can be written but the policies, with what the API filled in.
    pub fields: Map<String, Value>,
    /// The account, by id.
    pub(super) account: String,
    links: Vec<Link>,
    /// Until this time every list leaves it out.
    listed_from: Duration,
    created_at: String,
    updated_at: String,
}

impl Application {
    fn text(&self, name: &str) -> &str {
        self.fields.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// Its name, which need not be unique.
    pub fn name(&self) -> &str {
        self.text("name")
    }

    /// `self_hosted` …
    pub fn kind(&self) -> &str {
        self.text("type")
    }

    pub(super) fn is_on(&self, name: &str) -> bool {
        self.fields.get(name) == Some(&Value::Bool(true))
    }

    fn list(&self, name: &str) -> impl DoubleEndedIterator<Item = &Value> {
        self.fields.get(name).and_then(Value::as_array).into_iter().flatten()
    }

    /// Its tags.
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        self.list("tags").filter_map(Value::as_str)
    }

    /// Its public destinations.
    pub fn public_uris(&self) -> impl Iterator<Item = &str> {
        draft::public_uris(self.list("destinations"))
    }

    pub(super) fn has_policy(&self, id: &str) -> bool {
        self.links.iter().any(|link| link.policy == id)
    }

    pub(super) fn policies<'a>(&self, access: &'a Access) -> impl Iterator<Item = &'a Policy> {
        self.links.iter().filter_map(|link| access.policy(&self.account, &link.policy))
    }
}

impl Cloudflare {
    /// An application as the API shows it, by id.
    pub(crate) fn application_json(&self, application: &Application) -> Value {
        let mut shown = application.fields.clone();
        let policies = application.links.iter().filter_map(|link| {
            let mut policy = self.access.policy(&application.account, &link.policy)?.to_json();
            policy.insert("precedence".to_owned(), json!(link.precedence));
            Some(Value::Object(policy))
        });
        let mut show = |name: &str, value: Value| shown.insert(name.to_owned(), value);
        show("policies", policies.collect());
        show("id", json!(application.id));
        show("uid", json!(application.id));
        show("aud", json!(application.aud));
        show("created_at", json!(application.created_at));
        show("updated_at", json!(application.updated_at));
        Value::Object(shown)
    }

    fn find_application(&self, scope: &Scope, id: &str) -> Result<&Application, Refusal> {
        let is_identifier = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
        if !matches!(id.len(), 32 | 36) || !id.bytes().all(is_identifier) {
            return Err(Refusal::new(400, 12045, "access.api.error.invalid_app_id"));
        }
        let mut applications = self.access.applications.iter();
        applications
            .find(|application| application.scope == *scope && application.id == id)
            .ok_or_else(|| Refusal::new(404, 11021, "access.api.error.unknown_application"))
    }
}

/// `GET …/access/apps`. `total_count` is without regard to filters.
pub(super) fn list(
    cloudflare: &mut Cloudflare,
    scope: &Scope,
    request: &Request,
) -> Result<Success, Refusal> {
    let page = page_of(&request.parameters(), 1000)?;
    let now = cloudflare.clock.now();
    let is_seen = |application: &&Application| application.scope == *scope && application.listed_from <= now;
    let seen = cloudflare.access.applications.iter().filter(is_seen);
    let shown: Vec<Value> = seen.map(|application| cloudflare.application_json(application)).collect();
    Ok(listed(page, shown))
}

/// `GET …/access/apps/{app_id}`, also of one that is not listed yet.
pub(super) fn show(cloudflare: &Cloudflare, scope: &Scope, id: &str) -> Result<Success, Refusal> {
    let application = cloudflare.find_application(scope, id)?;
    Ok(Success::of(&cloudflare.application_json(application)))
}

/// `POST …/access/apps`: the application with all its policies at once.
pub(super) fn create(cloudflare: &mut Cloudflare, scope: &Scope, body: &str) -> Result<Success, Refusal> {
    let id = add(cloudflare, scope, &members(body)?)?;
    let listed_from = cloudflare.clock.now() + cloudflare.whims.unlisted_application_time;
    cloudflare.application_mut(&id).listed_from = listed_from;
    let shown = Success::of(&cloudflare.application_json(cloudflare.application(&id)));
    Ok(Success { status: 201, ..shown })
}

/// Makes an application under all rules and says its id.
pub(super) fn add(
    cloudflare: &mut Cloudflare,
    scope: &Scope,
    members: &Map<String, Value>,
) -> Result<String, Refusal> {
    let account = scope.account(cloudflare);
    let id = cloudflare.identifiers.uuid();
    let draft = Draft::parse(cloudflare, scope, members)?;
    let of_account = cloudflare.access.applications.iter().filter(|other| other.account == account);
    if of_account.count() >= APPLICATION_LIMIT {
        return Err(invalid(format!("an account has no more than {APPLICATION_LIMIT} applications")));
    }
    check_conflicts(cloudflare, &account, None, &draft)?;
    let links = links(cloudflare, &account, &id, members)?.unwrap_or_default();
    let now = cloudflare.clock.timestamp();
    let application = Application {
        id: id.clone(),
        scope: scope.clone(),
        aud: format!("{}{}", cloudflare.identifiers.hex(), cloudflare.identifiers.hex()),
        fields: draft.fields,
        account,
        links: Vec::new(),
        listed_from: Duration::ZERO,
        created_at: now.clone(),
        updated_at: now,
    };
    cloudflare.change_access(|access| {
        access.applications.push(application);
        access.link(&id, links);
    });
    Ok(id)
}

/// `PUT …/access/apps/{app_id}`: what is left out falls back to its default, but policies stay.
pub(super) fn replace(
    cloudflare: &mut Cloudflare,
    scope: &Scope,
    id: &str,
    body: &str,
) -> Result<Success, Refusal> {
    cloudflare.find_application(scope, id)?;
    overwrite(cloudflare, id, &members(body)?)?;
    Ok(Success::of(&cloudflare.application_json(cloudflare.application(id))))
}

/// Replaces an application under all rules.
pub(super) fn overwrite(
    cloudflare: &mut Cloudflare,
    id: &str,
    members: &Map<String, Value>,
) -> Result<(), Refusal> {
    let (scope, account) = {
        let application = cloudflare.application(id);
        (application.scope.clone(), application.account.clone())
    };
    let draft = Draft::parse(cloudflare, &scope, members)?;
    check_conflicts(cloudflare, &account, Some(id), &draft)?;
    let links = links(cloudflare, &account, id, members)?;
    let now = cloudflare.clock.timestamp();
    cloudflare.change_access(|access| {
        let application = access.applications.iter_mut().find(|application| application.id == id);
        if let Some(application) = application {
            (application.fields, application.updated_at) = (draft.fields, now);
        }
        if let Some(links) = links {
            access.link(id, links);
        }
    });
    Ok(())
}

/// `DELETE …/access/apps/{app_id}`.
pub(super) fn delete(cloudflare: &mut Cloudflare, scope: &Scope, id: &str) -> Result<Success, Refusal> {
    cloudflare.find_application(scope, id)?;
    remove(cloudflare, id);
    Ok(Success { status: 202, ..Success::of(&json!({"id": id})) })
}

/// Its own policies go with it, reusable ones stay.
pub(super) fn remove(cloudflare: &mut Cloudflare, id: &str) {
    cloudflare.change_access(|access| {
        access.link(id, Vec::new());
        access.applications.retain(|application| application.id != id);
    });
}

/// No destination is that of another application of the account.
fn check_conflicts(
    cloudflare: &Cloudflare,
    account: &str,
    own: Option<&str>,
    draft: &Draft,
) -> Result<(), Refusal> {
    if cloudflare.whims.takes_taken_destinations {
        return Ok(());
    }
    let wanted: Vec<String> = draft.public_uris().map(destination::key).collect();
    let others = cloudflare.access.applications.iter();
    for other in others.filter(|other| other.account == account && own != Some(other.id.as_str())) {
        let mut taken = other.public_uris().map(destination::key).filter(|uri| wanted.contains(uri));
        if let Some(uri) = taken.next() {
            return Err(if uri == destination::key(other.text("domain")) {
                Refusal::new(409, 11010, "access.api.error.application_already_exists")
            } else {
                let text = format!("access.api.error.conflict: {uri} belongs to another application");
                Refusal::new(409, 12132, text)
            });
        }
    }
    Ok(())
}
