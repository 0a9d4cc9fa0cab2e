//! The endpoints for Access.

use serde_json::{Map, Value, json};

use crate::answer::Refusal;
use crate::cloudflare::Cloudflare;

/// `POST /applications`: an application is made, or, where `id` is given, replaced or deleted.
pub(super) fn edit_application(
    cloudflare: &mut Cloudflare,
    members: &Map<String, Value>,
) -> Result<Value, Refusal> {
    let fields = members.get("application").unwrap_or(&Value::Null);
    let id = match members.get("id").and_then(Value::as_str) {
        Some(id) if cloudflare.find_any_application(id).is_none() => {
            return Err(Refusal::bad_request("there is no such application"));
        }
        Some(id) if members.get("delete") == Some(&Value::Bool(true)) => {
            cloudflare.delete_application(id);
            return Ok(json!({}));
        }
        Some(id) => {
            let id = cloudflare.application(id).id.clone();
            cloudflare.put_application(&id, fields)?;
            id
        }
        None => cloudflare.add_application(fields)?,
    };
    Ok(cloudflare.application_json(cloudflare.application(&id)))
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
