//! As much of OpenAPI 3.0's schemas as Cloudflare's description uses.

use std::collections::BTreeSet;

use regex::Regex;
use serde_json::Value;

/// A description of an API.
pub(crate) struct Description {
    document: Value,
    date_time: Regex,
    uuid: Regex,
}

/// Something about a value that its schema does not allow. Places in lists are written `[]`.
pub(crate) type Finding = String;

impl Description {
    pub(crate) fn parse(text: &str) -> Self {
        Self {
            document: serde_json::from_str(text).unwrap(),
            date_time: Regex::new(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$").unwrap(),
            uuid: Regex::new("^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$").unwrap(),
        }
    }

    /// The path with its parameters in braces that a request's path is one of. Literal segments win over parameters.
    pub(crate) fn template(&self, path: &str) -> Option<&str> {
        let is_parameter = |segment: &str| segment.starts_with('{');
        let fits = |template: &&String| {
            let (wanted, found): (Vec<_>, Vec<_>) =
                (template.split('/').collect(), path.split('/').collect());
            let same = |(wanted, found): (&&str, &&str)| is_parameter(wanted) || wanted == found;
            wanted.len() == found.len() && wanted.iter().zip(&found).all(same)
        };
        let parameters = |template: &&String| template.split('/').filter(|s| is_parameter(s)).count();
        let paths = self.document["paths"].as_object().unwrap();
        paths.keys().filter(fits).min_by_key(parameters).map(String::as_str)
    }

    /// Checks the body of an answer against what is described for its status.
    pub(crate) fn check(&self, method: &str, template: &str, status: u16, body: &Value) -> BTreeSet<Finding> {
        let responses = &self.document["paths"][template][method.to_lowercase()]["responses"];
        let range = format!("{}XX", status / 100);
        let response = [status.to_string(), range].iter().find_map(|key| responses.get(key));
        let mut findings = BTreeSet::new();
        match response {
            Some(response) => {
                self.value(&response["content"]["application/json"]["schema"], body, "", &mut findings);
            }
            None => {
                findings.insert(format!("no response {status} for {method} {template}"));
            }
        }
        findings
    }

    fn value(&self, schema: &Value, value: &Value, at: &str, findings: &mut BTreeSet<Finding>) {
        if let Some(reference) = schema["$ref"].as_str() {
            let target = self.document.pointer(reference.trim_start_matches('#'));
            let target = target.unwrap_or_else(|| panic!("{reference} leads nowhere"));
            return self.value(target, value, at, findings);
        }
        let mut find = |what: String| {
            findings.insert(format!("{at}: {what}"));
        };
        if let Some(allowed) = schema["enum"].as_array() {
            if !allowed.contains(value) {
                find(format!("{value} is none of {allowed:?}"));
            }
            if value.is_null() {
                return;
            }
        }
        if value.is_null() && schema["nullable"] == true {
            return;
        }
        let kind = schema["type"].as_str();
        let fits = match kind {
            None => true,
            Some("object") => value.is_object(),
            Some("array") => value.is_array(),
            Some("string") => value.is_string(),
            Some("boolean") => value.is_boolean(),
            Some("number") => value.is_number(),
            Some("integer") => value.is_i64() || value.is_u64(),
            Some(other) => panic!("the type {other} is new"),
        };
        if !fits {
            return find(format!("{value} is no {}", kind.unwrap_or_default()));
        }
        if let Some(number) = value.as_f64() {
            for (limit, order) in [("minimum", -1.0), ("maximum", 1.0)] {
                if schema[limit].as_f64().is_some_and(|limit| (number - limit) * order > 0.0) {
                    find(format!("{number} is beyond the {limit}"));
                }
            }
        }
        if let Some(text) = value.as_str() {
            for finding in self.text(schema, text) {
                find(finding);
            }
        }
        if let Some(items) = value.as_array() {
            if schema["minItems"].as_u64().is_some_and(|least| items.len() < least as usize) {
                find("too few items".to_owned());
            }
            for item in items {
                self.value(&schema["items"], item, &format!("{at}[]"), findings);
            }
        }
        self.members(schema, value, at, findings);
        self.alternatives(schema, value, at, findings);
    }

    fn text(&self, schema: &Value, text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        let length = text.chars().count() as u64;
        if schema["maxLength"].as_u64().is_some_and(|most| length > most)
            || schema["minLength"].as_u64().is_some_and(|least| length < least)
        {
            findings.push(format!("{text:?} has a bad length"));
        }
        let fits = match schema["format"].as_str() {
            None | Some("hostname") => true,
            Some("date-time") => self.date_time.is_match(text),
            Some("uuid") => self.uuid.is_match(text),
            Some("email") => text.contains('@'),
            Some("ipv4") => text.parse::<std::net::Ipv4Addr>().is_ok(),
            Some("ipv6") => text.parse::<std::net::Ipv6Addr>().is_ok(),
            Some(other) => panic!("the format {other} is new"),
        };
        if !fits {
            findings.push(format!("{text:?} is no {}", schema["format"]));
        }
        findings
    }

    fn members(&self, schema: &Value, value: &Value, at: &str, findings: &mut BTreeSet<Finding>) {
        let Some(members) = value.as_object() else { return };
        for required in schema["required"].as_array().into_iter().flatten() {
            let name = required.as_str().unwrap();
            if !members.contains_key(name) {
                findings.insert(format!("{at}: {name} is missing"));
            }
        }
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            if let Some(member) = members.get(name) {
                self.value(schema, member, &format!("{at}.{name}"), findings);
            }
        }
    }

    /// Of `anyOf` the alternative with the fewest findings counts.
    fn alternatives(&self, schema: &Value, value: &Value, at: &str, findings: &mut BTreeSet<Finding>) {
        for part in schema["allOf"].as_array().into_iter().flatten() {
            self.value(part, value, at, findings);
        }
        for key in ["anyOf", "oneOf"] {
            let alternatives = schema[key].as_array().into_iter().flatten().map(|alternative| {
                let mut findings = BTreeSet::new();
                self.value(alternative, value, at, &mut findings);
                findings
            });
            findings.extend(alternatives.min_by_key(BTreeSet::len).into_iter().flatten());
        }
    }
}
