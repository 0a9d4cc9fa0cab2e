//! The endpoints for Access.

use serde_json::{Map, Value, json};

use crate::access::NeverSetUp;
use crate::answer::Refusal;
use crate::cloudflare::Cloudflare;

/// `POST /access`: what the first account says of Access. What is left out stays, a team of `null` is none.
pub(super) fn set_up(cloudflare: &mut Cloudflare, members: &Map<String, Value>) -> Result<Value, Refusal> {
    let never_set_up = match members.get("never_set_up").map(Value::as_str) {
        None => None,
        Some(Some("not_enabled")) => Some(NeverSetUp::NotEnabled),
        Some(Some("not_found")) => Some(NeverSetUp::NotFound),
        Some(Some("without_domain")) => Some(NeverSetUp::WithoutDomain),
        Some(_) => return Err(Refusal::bad_request("there is no such way to answer")),
    };
    let account = cloudflare.first_account();
    let organization = cloudflare.organization_mut(&account);
    if let Some(team) = members.get("team") {
        organization.team = team.as_str().map(str::to_owned);
    }
    if let Some(never_set_up) = never_set_up {
        organization.never_set_up = never_set_up;
    }
    if let Some(denies) = members.get("deny_unmatched_requests").and_then(Value::as_bool) {
        organization.denies_unmatched_requests = denies;
    }
    Ok(json!({"auth_domain": organization.auth_domain()}))
}

/// `POST /policies`: a reusable policy is made, or, where `id` is given, changed or deleted.
pub(super) fn edit_policy(
    cloudflare: &mut Cloudflare,
    members: &Map<String, Value>,
) -> Result<Value, Refusal> {
    let Some(id) = members.get("id").and_then(Value::as_str) else {
        return Ok(json!({"id": cloudflare.add_policy(&Value::Object(members.clone()))?}));
    };
    if !cloudflare.policies().iter().any(|policy| policy.id == id) {
        return Err(Refusal::bad_request("there is no such policy"));
    }
    if is_deletion(members) {
        cloudflare.delete_policy(id)?;
        return Ok(json!({}));
    }
    let policy = cloudflare.policy_mut(id);
    for (name, value) in members {
        match (name.as_str(), value.as_str()) {
            ("id", _) => {}
            ("name", Some(text)) => text.clone_into(&mut policy.name),
            ("decision", Some(text)) => text.clone_into(&mut policy.decision),
            _ => {
                policy.fields.insert(name.clone(), value.clone());
            }
        }
    }
    Ok(json!({"id": id}))
}

/// `POST /applications`: an application is made, or, where `id` is given, replaced or deleted.
pub(super) fn edit_application(
    cloudflare: &mut Cloudflare,
    members: &Map<String, Value>,
) -> Result<Value, Refusal> {
    let text = |name: &str| members.get(name).and_then(Value::as_str);
    let fields = members.get("application").unwrap_or(&Value::Null);
    let id = match (text("id"), text("zone")) {
        (Some(id), _) if cloudflare.find_any_application(id).is_none() => {
            return Err(Refusal::bad_request("there is no such application"));
        }
        (Some(id), _) if is_deletion(members) => {
            cloudflare.delete_application(id);
            return Ok(json!({}));
        }
        (Some(id), _) => {
            let id = cloudflare.application(id).id.clone();
            cloudflare.put_application(&id, fields)?;
            id
        }
        (None, Some(zone)) => {
            if cloudflare.find_zone(zone).is_none() {
                return Err(Refusal::bad_request("there is no such zone"));
            }
            cloudflare.add_zone_application(zone, fields)?
        }
        (None, None) => cloudflare.add_application(fields)?,
    };
    Ok(cloudflare.application_json(cloudflare.application(&id)))
}

fn is_deletion(members: &Map<String, Value>) -> bool {
    members.get("delete") == Some(&Value::Bool(true))
}

/// What Access holds, as `/state` shows it.
pub(super) fn state(cloudflare: &Cloudflare) -> Value {
    let organizations = cloudflare.accounts().iter().map(|account| {
        let organization = cloudflare.organization(&account.id);
        json!({"account": account.id, "team": organization.team, "auth_domain": organization.auth_domain()})
    });
    let policies = cloudflare.policies().iter().map(|policy| Value::Object(policy.to_json()));
    let applications = cloudflare.applications().iter().map(|application| {
        let zone = match &application.scope {
            crate::Scope::Account(_) => Value::Null,
            crate::Scope::Zone(id) => Value::from(id.as_str()),
        };
        json!({"zone": zone, "application": cloudflare.application_json(application)})
    });
    json!({
        "organizations": organizations.collect::<Vec<_>>(),
        "policies": policies.collect::<Vec<_>>(),
        "tags": cloudflare.tags(),
        "applications": applications.collect::<Vec<_>>(),
    })
}
