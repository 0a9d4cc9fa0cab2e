//! The policies of an application: reusable ones of the account, or ones that it alone has.

use serde_json::{Map, Value};

use crate::access::{Access, Policy, invalid};
use crate::answer::Refusal;
use crate::cloudflare::Cloudflare;

/// A policy of an application.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) precedence: u64,
    /// By id.
    pub(super) policy: String,
}

/// A policy of an application as it is written: of the account, or one that the application alone will have.
pub(super) struct Wanted {
    link: Link,
    own: Option<Policy>,
}

/// Reads `policies` of a body; `None` where it says nothing of them.
pub(super) fn links(
    cloudflare: &mut Cloudflare,
    account: &str,
    application: &str,
    members: &Map<String, Value>,
) -> Result<Option<Vec<Wanted>>, Refusal> {
    let items = match members.get("policies") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Array(items)) => items,
        Some(_) => return Err(invalid("policies must be a list")),
    };
    let mut wanted: Vec<Wanted> = Vec::new();
    for (place, item) in (1..).zip(items) {
        let precedence = precedence(item, place)?;
        let own = inline_policy(cloudflare, account, application, item)?;
        let policy =
            own.as_ref().map_or_else(|| id(item).unwrap_or_default().to_owned(), |own| own.id.clone());
        if wanted.iter().any(|other| other.link.precedence == precedence) {
            return Err(invalid("policy precedences must be unique"));
        }
        if wanted.iter().any(|other| other.link.policy == policy) {
            return Err(invalid(format!("policy {policy} is there twice")));
        }
        wanted.push(Wanted { link: Link { precedence, policy }, own });
    }
    let is_own = |wanted: &Wanted| {
        let held = cloudflare.access.policy(account, &wanted.link.policy);
        wanted.own.is_some() || held.is_some_and(|held| held.application.is_some())
    };
    if wanted.iter().any(is_own) && !wanted.iter().all(is_own) {
        return Err(invalid("reusable and inline policies are mutually exclusive"));
    }
    wanted.sort_by_key(|wanted| wanted.link.precedence);
    Ok(Some(wanted))
}

/// The id in an item of `policies`, which is one itself or an object.
fn id(item: &Value) -> Option<&str> {
    item.as_str().or_else(|| item.get("id")?.as_str())
}

/// As it is written, or the item's place, from 1.
fn precedence(item: &Value, place: u64) -> Result<u64, Refusal> {
    let written = item.get("precedence").filter(|written| !written.is_null());
    written.map_or(Ok(place), |written| {
        let written = written.as_u64().filter(|precedence| *precedence >= 1);
        written.ok_or_else(|| invalid("policy precedence must be 1 or more"))
    })
}

/// The policy that an item writes for this application alone; `None` where it names one that is there.
fn inline_policy(
    cloudflare: &mut Cloudflare,
    account: &str,
    application: &str,
    item: &Value,
) -> Result<Option<Policy>, Refusal> {
    let held = match id(item) {
        None => None,
        Some(id) => {
            let held = cloudflare.access.policy(account, id);
            let held = held.filter(|held| held.application.as_deref().is_none_or(|own| own == application));
            Some(held.ok_or_else(|| invalid(format!("policy {id} not found")))?)
        }
    };
    // A reusable one that comes back as it was read is a link.
    let is_link = |held: &Policy| held.application.is_none() || item.get("decision").is_none();
    if held.is_some_and(is_link) {
        return Ok(None);
    }
    let fields = item.as_object().ok_or_else(|| invalid("a policy is an id or an object"))?;
    let held = held.map(|held| (held.id.clone(), held.created_at.clone()));
    let (id, created_at) =
        held.unwrap_or_else(|| (cloudflare.identifiers.uuid(), cloudflare.clock.timestamp()));
    let policy = Policy::parse(id, account, fields, created_at)?;
    Ok(Some(Policy { application: Some(application.to_owned()), ..policy }))
}

impl Access {
    /// Gives an application these policies and no others. Its own ones that are not among them are gone.
    pub(super) fn link(&mut self, id: &str, wanted: Vec<Wanted>) {
        let is_kept = |policy: &Policy| {
            let has_it = |wanted: &Wanted| wanted.own.is_none() && wanted.link.policy == policy.id;
            policy.application.as_deref() != Some(id) || wanted.iter().any(has_it)
        };
        self.policies.retain(is_kept);
        let application = self.applications.iter_mut().find(|application| application.id == id);
        if let Some(application) = application {
            application.links = wanted.iter().map(|wanted| wanted.link.clone()).collect();
        }
        self.policies.extend(wanted.into_iter().filter_map(|wanted| wanted.own));
    }
}
