//! Cloudflare Access: organizations, reusable policies, tags and applications, and what they are to visitors.
//!
//! The shape of answers is held to Cloudflare's description of its API; what it leaves open is as others met it: codes
//! 9999, 11010, 11021, 12045, 12130 and 12132, what is filled in, and that a PUT replaces an application but for
//! policies that it leaves out. By analogy, so that nothing should be decided on it, or on the side that is worse for a
//! client:
//!
//! - Every refusal of a body is a 12130, whose text after `access.api.error.invalid_request: ` is Cloudflare's own only
//!   for a missing type, unknown tags, a foreign domain, equal precedences and unknown policies.
//! - The HTTP status of 9999, the code of the 404 that stands for it too, and that every call of an account without
//!   Access gets the same.
//! - The same destination twice is 11010 where it is the other's `domain`, else 12132, at the account's and the zones'
//!   applications alike; two are the same when their text is, but for the host's case. [`Whims`](crate::Whims) has the
//!   Cloudflare that takes it.
//! - Reusable and inline policies are not taken together. A policy in use is not deleted, nor a tag.
//! - A tag's name is letters, digits and hyphens; the documents say alphanumeric, a client's live tests have hyphens.
//! - The name of an application that has none is its domain. Read-only members of a body are ignored. Members that the
//!   description does not have are dropped unless [`Whims`](crate::Whims) says that this Cloudflare knows them.
//! - The account's list does not have zones' applications, nor a zone's the account's.
//! - A visitor's part: see [`Visitor`] and the module `passage`.

mod application;
mod destination;
mod hand;
mod organization;
mod passage;
mod policy;
mod tag;

pub use application::{Application, Scope};
pub use organization::{NeverSetUp, Organization};
pub use passage::Visitor;
pub(crate) use passage::{Assertion, Passage, check_rule, passage};
pub use policy::Policy;
pub(crate) use tag::Tag;

use serde_json::{Map, Value};

use crate::answer::{Refusal, Success};
use crate::cloudflare::Cloudflare;
use crate::http::Request;
use crate::page::{Page, number};
use crate::token::{Grant, Permission};

/// Everything of Access, of all accounts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Access {
    organizations: Vec<Organization>,
    /// Reusable ones, and those that belong to one application.
    policies: Vec<Policy>,
    tags: Vec<Tag>,
    applications: Vec<Application>,
}

/// Answers a call below `accounts/{id}/access` or `zones/{id}/access`.
pub(crate) fn route(
    cloudflare: &mut Cloudflare,
    grant: &Grant,
    scope: &Scope,
    rest: &[&str],
    path: &str,
    request: &Request,
) -> Result<Success, Refusal> {
    let method = request.method.as_str();
    let is_read = matches!(method, "GET" | "HEAD");
    match (scope, rest) {
        (Scope::Account(_), ["organizations"]) => grant.require(Permission::AccessOrganizationRead)?,
        (Scope::Account(_), ["apps" | "policies" | "tags"] | ["apps", _]) if is_read => {
            require(grant, Permission::AccessRead, Permission::ZoneAccessRead)?;
        }
        (Scope::Account(_), ["apps" | "policies" | "tags"] | ["apps" | "tags", _]) => {
            grant.require(Permission::AccessEdit)?;
        }
        // No client of the tests writes a zone's own.
        (Scope::Zone(_), ["apps"]) if is_read => {
            require(grant, Permission::ZoneAccessRead, Permission::AccessRead)?;
        }
        _ => return Err(Refusal::no_route(path)),
    }
    let account = scope.account(cloudflare);
    if rest == ["organizations"] && method == "GET" {
        return cloudflare.organization(&account).show();
    }
    cloudflare.organization(&account).require_set_up(is_read)?;
    match (method, rest) {
        ("GET", ["apps"]) => application::list(cloudflare, scope, request),
        ("POST", ["apps"]) => application::create(cloudflare, scope, &request.body),
        ("GET", ["apps", id]) => application::show(cloudflare, scope, id),
        ("PUT", ["apps", id]) => application::replace(cloudflare, scope, id, &request.body),
        ("DELETE", ["apps", id]) => application::delete(cloudflare, scope, id),
        ("GET", ["policies"]) => policy::list(cloudflare, &account, request),
        ("GET", ["tags"]) => tag::list(cloudflare, &account, request),
        ("POST", ["tags"]) => tag::create(cloudflare, &account, &request.body),
        ("DELETE", ["tags", name]) => tag::delete(cloudflare, &account, name),
        _ => Err(Refusal::new(405, 10405, "Method not allowed for this authentication scheme")),
    }
}

/// The like-named grant for the other of account and zone is told apart from none (code 1010).
fn require(grant: &Grant, needed: Permission, other: Permission) -> Result<(), Refusal> {
    grant.require(needed).map_err(|refusal| match grant.require(other) {
        Ok(()) => Refusal::new(403, 1010, "access.api.error.forbidden"),
        Err(_) => refusal,
    })
}

/// Code 12130: a body or a parameter that Access does not take.
fn invalid(cause: impl std::fmt::Display) -> Refusal {
    Refusal::new(400, 12130, format!("access.api.error.invalid_request: {cause}"))
}

fn members(body: &str) -> Result<Map<String, Value>, Refusal> {
    serde_json::from_str(body).map_err(|_| invalid("the body is not a JSON object"))
}

/// The page that is asked for; no list here has more than 1000 on one.
fn page_of(parameters: &[(String, String)], size: usize) -> Result<Page, Refusal> {
    let whole = Page { number: 1, size };
    parameters.iter().try_fold(whole, |page, (name, value)| {
        let counted = |range| number(name, value, range).map_err(|refusal| invalid(refusal.message));
        Ok(match name.as_str() {
            "page" => Page { number: counted(1..=usize::MAX)?, ..page },
            "per_page" => Page { size: counted(1..=1000)?, ..page },
            // No client of the tests uses the filters.
            _ => return Err(invalid(format!("{name} is unknown here"))),
        })
    })
}

/// A page of a list.
fn listed(page: Page, all: Vec<Value>) -> Success {
    let total = all.len();
    let shown = page.of(all);
    let mut success = Success::of(&shown);
    success.result_info = Some(page.info(shown.len(), total, Some(page.count(total))));
    success
}
