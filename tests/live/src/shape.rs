//! What answers are like, without what they say: members and their types, codes, and which members a write changes. No
//! text of an answer stays but words of a list.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::guard::{Bounds, host};
use crate::proxy::State;

/// Texts that stay as they are: words of Cloudflare's own.
const WORDS: &str =
    "active inactive healthy down cloudflare local A CNAME TXT self_hosted public allow cfd_tunnel full";

/// The lines of each call: `PUT /accounts/*/cfd_tunnel/*/configurations` and what its answers had. Reads count for the
/// whole run, because the binary looks around by the clock; writes for their step.
pub type Shapes = BTreeMap<String, BTreeSet<String>>;

pub fn shapes(state: &State) -> Shapes {
    let (mut shapes, mut seen) = (Shapes::new(), BTreeMap::new());
    for call in &state.calls {
        let step = if call.method == "GET" { "" } else { call.step };
        let key = format!("{} {} {step}", call.method, template(&call.target));
        let lines = shapes.entry(key.trim().to_owned()).or_default();
        lines.insert(format!("status {}", call.answer.status));
        lines.insert(format!("date: {}", call.answer.date.is_some()));
        walk(&state.bounds, &call.answer.json, "", lines);
        changes(&call.answer.json["result"], call.method != "GET", &mut seen, lines);
    }
    shapes
}

/// Each line that only one side has, of the calls that were made: a run may have been stopped.
pub fn differences(ours: &Shapes, emulated: &Shapes) -> Vec<String> {
    let mut found = Vec::new();
    for (key, here) in ours {
        let there = emulated.get(key).cloned().unwrap_or_default();
        found.extend(here.difference(&there).map(|line| format!("{key}: {line}, and not at the emulator")));
        found.extend(there.difference(here).map(|line| format!("{key}: only at the emulator: {line}")));
    }
    found
}

/// A path with a star for each id and name, and the names of its parameters.
fn template(target: &str) -> String {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let is_word = |segment: &str| segment.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let segments = path.split('/').map(|segment| if is_word(segment) { segment } else { "*" });
    let names: BTreeSet<&str> = query.split('&').filter_map(|pair| pair.split('=').next()).collect();
    let [path, names] = [segments.collect::<Vec<_>>().join("/"), Vec::from_iter(names).join("&")];
    format!("{path}?{names}").trim_end_matches('?').to_owned()
}

fn walk(bounds: &Bounds, value: &Value, pointer: &str, lines: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            lines.insert(format!("{pointer} object"));
            for (name, member) in members {
                let is_plain =
                    name.len() <= 40 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
                let name = if is_plain { name } else { "*" };
                walk(bounds, member, &format!("{pointer}/{name}"), lines);
            }
        }
        Value::Array(items) => {
            lines.insert(format!("{pointer} list"));
            // A page of a list also has what is others'.
            let items = items.iter().filter(|item| pointer != "/result" || is_ours(bounds, item));
            items.for_each(|item| walk(bounds, item, &format!("{pointer}/*"), lines));
        }
        Value::Number(number) if pointer.ends_with("/code") => {
            lines.insert(format!("{pointer} {number}"));
        }
        other => {
            lines.insert(format!("{pointer} {}", kind(other)));
        }
    }
}

fn is_ours(bounds: &Bounds, item: &Value) -> bool {
    let member = |name: &str| item[name].as_str().unwrap_or_default();
    let (name, place) = (member("name"), host(member("domain")));
    bounds.owns_name(name)
        || bounds.owns_hostname(name)
        || bounds.owns_hostname(place)
        || name == bounds.tag
        || member("id") == bounds.zone
        || !item.is_object()
}

/// The type of a value; of a text, what it is made of.
pub fn kind(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text,
        Value::Null => return "null".to_owned(),
        Value::Bool(_) => return "boolean".to_owned(),
        number => return if number.is_f64() { "fraction" } else { "number" }.to_owned(),
    };
    let fraction = text.split_once('.').map_or(0, |(_, fraction)| fraction.trim_end_matches('Z').len());
    let is_time = text.ends_with('Z') && text.as_bytes().get(10) == Some(&b'T');
    let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    match text.len() {
        0 => "empty".to_owned(),
        _ if WORDS.split(' ').any(|word| word == text) => text.clone(),
        20.. if is_time => format!("time with {fraction} digits"),
        length @ (32 | 36 | 64) if is_hex => format!("id of {length}"),
        _ => "text".to_owned(),
    }
}

/// Which members of an object differ from when it was last seen.
fn changes(result: &Value, is_write: bool, seen: &mut BTreeMap<String, Value>, lines: &mut BTreeSet<String>) {
    let lists = ["patches", "posts", "deletes"].iter().filter_map(|list| result[*list].as_array());
    let items: Vec<&Value> = match result.as_array() {
        Some(items) => items.iter().collect(),
        None => lists.flatten().chain([result]).collect(),
    };
    for item in items {
        let Some(id) = item["id"].as_str().or_else(|| item["tunnel_id"].as_str()) else { continue };
        // A tunnel and its configuration have one id.
        let key = format!("{id} {}", item["version"].is_number());
        if let Some(before) = seen.insert(key, item.clone())
            && is_write
        {
            let members = item.as_object().into_iter().flatten();
            let changed = members.filter(|(name, value)| before[name.as_str()] != **value);
            lines.extend(changed.map(|(name, _)| format!("changes {name}")));
            if let (Some(from), Some(to)) = (before["version"].as_i64(), item["version"].as_i64()) {
                lines.insert(format!("version by {}", to - from));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_text_of_an_answer_stays_but_words_of_the_list() {
        for (value, expected) in [
            (json!("secret.example.com"), "text"),
            (json!(""), "empty"),
            (json!("CNAME"), "CNAME"),
            (json!("2026-01-01T00:00:00.012345Z"), "time with 6 digits"),
            (json!("2026-01-01T00:00:00Z"), "time with 0 digits"),
            (json!("0123456789abcdef0123456789abcdef"), "id of 32"),
        ] {
            assert_eq!(kind(&value), expected, "{value}");
        }
        assert_eq!(
            template("/zones/0a1b/dns_records?per_page=5&page=2"),
            "/zones/*/dns_records?page&per_page"
        );
    }
}
