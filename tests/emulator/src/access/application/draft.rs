//! What a client wants an application to be, with what the API fills in.

use serde_json::{Map, Value, json};

use crate::access::destination::Pattern;
use crate::access::{Scope, invalid};
use crate::answer::Refusal;
use crate::cloudflare::Cloudflare;

const TYPES: [&str; 14] = [
    "self_hosted",
    "saas",
    "ssh",
    "vnc",
    "app_launcher",
    "warp",
    "biso",
    "bookmark",
    "dash_sso",
    "infrastructure",
    "rdp",
    "mcp",
    "mcp_portal",
    "proxy_endpoint",
];

/// What a self-hosted application has, from the description, without what the API alone writes.
const FIELDS: [&str; 31] = [
    "allow_authenticate_via_warp",
    "allow_iframe",
    "allowed_idps",
    "app_launcher_visible",
    "auto_redirect_to_identity",
    "cors_headers",
    "custom_deny_message",
    "custom_deny_url",
    "custom_non_identity_deny_url",
    "custom_pages",
    "destinations",
    "domain",
    "eager_redirect_cookie_setting",
    "enable_binding_cookie",
    "http_only_cookie_attribute",
    "logo_url",
    "mfa_config",
    "name",
    "oauth_configuration",
    "options_preflight_bypass",
    "path_cookie_attribute",
    "read_service_tokens_from_header",
    "same_site_cookie_attribute",
    "scim_config",
    "self_hosted_domains",
    "service_auth_401_redirect",
    "session_duration",
    "skip_interstitial",
    "tags",
    "type",
    "use_clientless_isolation_app_launcher_url",
];

/// What the API alone writes, and what is read on its own.
const NOT_FIELDS: [&str; 6] = ["id", "uid", "aud", "created_at", "updated_at", "policies"];

const BOOLEANS: [(&str, bool); 11] = [
    ("app_launcher_visible", true),
    ("http_only_cookie_attribute", true),
    ("eager_redirect_cookie_setting", true),
    ("enable_binding_cookie", false),
    ("path_cookie_attribute", false),
    ("auto_redirect_to_identity", false),
    ("options_preflight_bypass", false),
    ("service_auth_401_redirect", false),
    ("skip_interstitial", false),
    ("allow_iframe", false),
    ("use_clientless_isolation_app_launcher_url", false),
];

/// An application without what is not written by a client, and without its policies.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) fields: Map<String, Value>,
}

impl Draft {
    pub(super) fn parse(
        cloudflare: &Cloudflare,
        scope: &Scope,
        members: &Map<String, Value>,
    ) -> Result<Self, Refusal> {
        let given = |name: &str| members.get(name).filter(|value| !value.is_null());
        let kind = given("type").and_then(Value::as_str).filter(|kind| TYPES.contains(kind));
        let kind = kind.ok_or_else(|| invalid("app type is missing or invalid"))?;
        let is_known = |name: &str| {
            let learnt = &cloudflare.whims.application_fields;
            kind != "self_hosted" || FIELDS.contains(&name) || learnt.iter().any(|learnt| learnt == name)
        };
        let mut fields: Map<String, Value> = members
            .iter()
            .filter(|(name, value)| {
                is_known(name) && !NOT_FIELDS.contains(&name.as_str()) && !value.is_null()
            })
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        fill_booleans(&mut fields)?;
        check_session(&mut fields)?;
        check_tags(cloudflare, scope, &mut fields)?;
        fields.entry("allowed_idps").or_insert_with(|| json!([]));
        if matches!(kind, "self_hosted" | "ssh" | "vnc" | "rdp") {
            align_destinations(cloudflare, scope, &mut fields)?;
        }
        name(&mut fields)?;
        Ok(Self { fields })
    }

    pub(super) fn public_uris(&self) -> impl Iterator<Item = &str> {
        public_uris(self.fields.get("destinations").and_then(Value::as_array).into_iter().flatten())
    }
}

pub(super) fn public_uris<'a>(
    destinations: impl Iterator<Item = &'a Value>,
) -> impl Iterator<Item = &'a str> {
    destinations
        .filter(|destination| is_public(destination))
        .filter_map(|destination| destination.get("uri")?.as_str())
}

fn is_public(destination: &Value) -> bool {
    destination.get("type").and_then(Value::as_str) == Some("public")
}

fn fill_booleans(fields: &mut Map<String, Value>) -> Result<(), Refusal> {
    for (name, default) in BOOLEANS {
        if !fields.entry(name).or_insert(Value::Bool(default)).is_boolean() {
            return Err(invalid(format!("{name} must be a boolean")));
        }
    }
    Ok(())
}

fn check_session(fields: &mut Map<String, Value>) -> Result<(), Refusal> {
    let session = fields.entry("session_duration").or_insert_with(|| json!("24h"));
    if !session.as_str().is_some_and(is_go_duration) {
        return Err(invalid("session_duration is not a duration"));
    }
    Ok(())
}

/// Sorted, as they are shown.
fn check_tags(
    cloudflare: &Cloudflare,
    scope: &Scope,
    fields: &mut Map<String, Value>,
) -> Result<(), Refusal> {
    let account = scope.account(cloudflare);
    let tags = fields.entry("tags").or_insert_with(|| json!([]));
    let tags = tags.as_array_mut().ok_or_else(|| invalid("tags must be a list"))?;
    let is_known =
        |tag: &Value| tag.as_str().is_some_and(|tag| cloudflare.access.tag(&account, tag).is_some());
    if !tags.iter().all(is_known) {
        return Err(invalid(
            "tags contain a tag that does not exist, tags must be created before assigning to an application",
        ));
    }
    tags.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
    Ok(())
}

/// `destinations`, `self_hosted_domains` and `domain` are one thing, and the first of them that is given wins.
fn align_destinations(
    cloudflare: &Cloudflare,
    scope: &Scope,
    fields: &mut Map<String, Value>,
) -> Result<(), Refusal> {
    let public = |uri: &Value| json!({"type": "public", "uri": uri});
    let list = |name: &str| fields.get(name).and_then(Value::as_array).filter(|list| !list.is_empty());
    let destinations: Vec<Value> =
        match (list("destinations"), list("self_hosted_domains"), fields.get("domain")) {
            (Some(destinations), _, _) => destinations.clone(),
            (None, Some(domains), _) => domains.iter().map(public).collect(),
            (None, None, Some(domain)) => vec![public(domain)],
            (None, None, None) => return Err(invalid("domain is required")),
        };
    let uris: Vec<String> = public_uris(destinations.iter()).map(str::to_owned).collect();
    let is_typed = |destination: &Value| destination.get("type").is_some_and(Value::is_string);
    let public_count = destinations.iter().filter(|destination| is_public(destination)).count();
    if public_count != uris.len() || !destinations.iter().all(is_typed) {
        return Err(invalid("a destination is not valid"));
    }
    for uri in &uris {
        let pattern = Pattern::check(uri).map_err(invalid)?;
        check_zone(cloudflare, scope, &pattern)?;
    }
    let is_among =
        |domain: &&Value| domain.as_str().is_some_and(|domain| uris.iter().any(|uri| uri == domain));
    let domain = fields.get("domain").filter(is_among).cloned();
    let domain = domain.or_else(|| uris.first().map(|uri| json!(uri)));
    fields.remove("domain");
    fields.extend(domain.map(|domain| ("domain".to_owned(), domain)));
    fields.insert("self_hosted_domains".to_owned(), json!(uris));
    fields.insert("destinations".to_owned(), json!(destinations));
    Ok(())
}

/// The zone that the application belongs to, or any active one of the account.
fn check_zone(cloudflare: &Cloudflare, scope: &Scope, pattern: &Pattern) -> Result<(), Refusal> {
    let is_in_reach = cloudflare.zones.iter().any(|zone| {
        let is_of_scope = match scope {
            Scope::Account(account) => zone.account.id == *account,
            Scope::Zone(id) => zone.id == *id,
        };
        is_of_scope && zone.status == "active" && pattern.is_in_zone(&zone.name)
    });
    if is_in_reach { Ok(()) } else { Err(invalid("domain does not belong to zone")) }
}

fn name(fields: &mut Map<String, Value>) -> Result<(), Refusal> {
    if fields.get("name").is_none() {
        let domain = fields.get("domain").cloned();
        fields.insert("name".to_owned(), domain.unwrap_or_else(|| json!("")));
    }
    let is_text = fields.get("name").is_some_and(Value::is_string);
    if is_text { Ok(()) } else { Err(invalid("name must be a string")) }
}

/// A duration as Go writes it, such as `1h30m`, without its signs and fractions.
fn is_go_duration(text: &str) -> bool {
    let mut rest = text;
    while let Some(number_end) = rest.find(|c: char| !c.is_ascii_digit()).filter(|end| *end > 0) {
        let (_, after) = rest.split_at(number_end);
        let unit_end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, next) = after.split_at(unit_end);
        if !["ns", "us", "µs", "ms", "s", "m", "h"].contains(&unit) {
            return false;
        }
        rest = next;
    }
    rest.is_empty() && !text.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_types_are_those_of_the_description() {
        let description: Value =
            serde_json::from_str(include_str!("../../../spec/cloudflare-openapi-subset.json")).unwrap();
        let schemas = &description["components"]["schemas"];
        let request = schemas["access_app_request"]["anyOf"][0]["properties"].as_object().unwrap();
        let described: Vec<&str> =
            request.keys().map(String::as_str).filter(|name| *name != "policies").collect();
        assert_eq!(described, FIELDS);
        assert_eq!(schemas["access_type"]["enum"], json!(TYPES));
    }

    #[test]
    fn durations_are_those_of_go() {
        for (text, expected) in [
            ("24h", true),
            ("1h30m", true),
            ("500ms", true),
            ("", false),
            ("24", false),
            ("1d", false),
            ("h", false),
        ] {
            assert_eq!(is_go_duration(text), expected, "{text}");
        }
    }
}
