//! What cloudflared 2026.8.2 itself says, against what we say:
//! `tests/emulator/vectors/cloudflared-ingress.jsonl`.
//!
//! Each line holds a configuration and cloudflared's error, if it has one. Every rule of a line is judged as if it were
//! ours: whether its texts are hostnames, paths and services to us, and its options what we read and would write.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::mem::discriminant;

use cloudflare_emulator::ingress::validate;
use external_dns_cloudflare_tunnel_webhook::ingress::{
    Document, OriginOption, OriginRequest, PathPattern, Rule, RuleEdit, Service, WantedRule,
};
use external_dns_cloudflare_tunnel_webhook::model::Hostname;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

const VECTORS: &str = include_str!("../emulator/vectors/cloudflared-ingress.jsonl");

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    config: &'a RawValue,
    error: Option<String>,
}

fn lines() -> Vec<Line<'static>> {
    VECTORS.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The rules as cloudflared reads them; no line has duplicate keys or keys in another case.
fn rules(config: &RawValue) -> Vec<Value> {
    let config: Value = serde_json::from_str(config.get()).unwrap();
    config.get("ingress").and_then(Value::as_array).cloned().unwrap_or_default()
}

/// What cloudflared accepts in a rule and we refuse in one of ours.
struct DeliberateRefusal {
    /// Of the rule, or of its `originRequest`.
    field: &'static str,
    is_meant: fn(&Value) -> bool,
    /// What cloudflared does with it, or why it is not wanted.
    reason: &'static str,
}

fn is_text(value: &Value, fits: impl Fn(&str) -> bool) -> bool {
    value.as_str().is_some_and(fits)
}

fn is_url_with(value: &Value, fits: impl Fn(&str) -> bool) -> bool {
    is_text(value, |text| text.split_once("://").is_some_and(|(_, rest)| fits(rest)))
}

const DELIBERATE_REFUSALS: &[DeliberateRefusal] = &[
    DeliberateRefusal {
        field: "hostname",
        is_meant: |value| is_text(value, |text| text.is_ascii() && text != text.to_ascii_lowercase()),
        reason: "a wildcard in upper case matches no request; an exact one does, but only by way of IDNA",
    },
    DeliberateRefusal {
        field: "hostname",
        is_meant: |value| is_text(value, |text| !text.is_ascii()),
        reason: "a wildcard in Unicode matches no request that a browser sends",
    },
    DeliberateRefusal {
        field: "hostname",
        is_meant: |value| is_text(value, |text| text.ends_with('.') && text != "*."),
        reason: "a trailing dot matches only requests whose host has the dot",
    },
    DeliberateRefusal {
        field: "hostname",
        is_meant: |value| value == "*.",
        reason: "a wildcard of nothing matches only hosts that end in a dot",
    },
    DeliberateRefusal {
        field: "hostname",
        is_meant: |value| is_text(value, |text| text.contains('*') && !text.starts_with("*.") && text != "*"),
        reason: "a star within a label is taken literally and matches no request",
    },
    DeliberateRefusal {
        field: "hostname",
        is_meant: |value| is_text(value, |text| text.starts_with('.') || text.contains("..")),
        reason: "no request has a host with an empty label",
    },
    DeliberateRefusal {
        field: "hostname",
        is_meant: |value| is_text(value, |text| text.starts_with('-')),
        reason: "no certificate can be had for a label that begins with a hyphen",
    },
    DeliberateRefusal {
        field: "hostname",
        is_meant: |value| is_text(value, |text| text.contains(' ')),
        reason: "no request has a host with a blank",
    },
    DeliberateRefusal {
        field: "hostname",
        is_meant: |value| is_text(value, |text| text.starts_with('[')),
        reason: "no record can lead to an address as hostname",
    },
    DeliberateRefusal {
        field: "hostname",
        is_meant: |value| value.as_str().is_none_or(|text| matches!(text, "" | "*")),
        reason: "a path of every host takes requests of every hostname of the tunnel, also of foreign ones",
    },
    DeliberateRefusal {
        field: "path",
        is_meant: |value| is_text(value, |text| text.contains("(?P<")),
        reason: "nothing is done with a group's name",
    },
    DeliberateRefusal {
        field: "path",
        is_meant: |value| is_text(value, |text| text.contains("[[:")),
        reason: "there is a plainer spelling of a named class, [a-z]",
    },
    DeliberateRefusal {
        field: "path",
        is_meant: |value| is_text(value, |text| text.contains(r"\p")),
        reason: "a Unicode class needs tables that are not in the program",
    },
    DeliberateRefusal {
        field: "path",
        is_meant: |value| is_text(value, |text| text.contains(r"\Q")),
        reason: "a quotation is read by Go, and refused by other engines",
    },
    DeliberateRefusal {
        field: "service",
        is_meant: |value| is_text(value, |text| text.starts_with("HTTP://")),
        reason: "the same service has one spelling, so that it compares: no scheme in upper case",
    },
    DeliberateRefusal {
        field: "service",
        is_meant: |value| is_text(value, |text| text.starts_with("ftp:") || text.starts_with("udp:")),
        reason: "a scheme without a protocol is carried as TCP over WebSocket, whatever its name promises",
    },
    DeliberateRefusal {
        field: "service",
        is_meant: |value| {
            is_text(value, |text| text.starts_with("tcp:")) && is_url_with(value, |rest| !rest.contains(':'))
        },
        reason: "TCP without a port goes to port 7864",
    },
    DeliberateRefusal {
        field: "service",
        is_meant: |value| is_url_with(value, |rest| rest.contains('?')),
        reason: "a query is ignored",
    },
    DeliberateRefusal {
        field: "service",
        is_meant: |value| is_url_with(value, |rest| rest.contains('@')),
        reason: "a user name is ignored",
    },
    DeliberateRefusal {
        field: "service",
        is_meant: |value| is_url_with(value, |rest| rest.ends_with(":99999")),
        reason: "every request to a port above 65535 fails",
    },
    DeliberateRefusal {
        field: "service",
        is_meant: |value| value == "unix:",
        reason: "every request to a socket without a path fails",
    },
    DeliberateRefusal {
        field: "service",
        is_meant: |value| value == "http_status:+404",
        reason: "the same service has one spelling, so that it compares: no sign",
    },
    DeliberateRefusal {
        field: "service",
        is_meant: |value| value == "http_status:0404",
        reason: "the same service has one spelling, so that it compares: no leading zero",
    },
    DeliberateRefusal {
        field: "service",
        is_meant: |value| matches!(value.as_str(), Some("http_status:100" | "http_status:999")),
        reason: "below 200 visitors get 200 or no answer, and above 599 no status means anything",
    },
    DeliberateRefusal {
        field: "connectTimeout",
        is_meant: |value| value.as_i64().is_some_and(i64::is_negative),
        reason: "with a negative time every connection has timed out before it begins",
    },
    DeliberateRefusal {
        field: "keepAliveConnections",
        is_meant: |value| value.as_i64().is_some_and(i64::is_negative),
        reason: "a negative number of connections keeps none, which is not what it says",
    },
    DeliberateRefusal {
        field: "proxyPort",
        is_meant: |value| value.as_u64().is_some_and(|port| port > 65_535),
        reason: "no port above 65535 can be listened on",
    },
    DeliberateRefusal {
        field: "proxyType",
        is_meant: |value| is_text(value, |text| !matches!(text, "" | "socks")),
        reason: "another proxy type than socks is taken for none",
    },
    DeliberateRefusal {
        field: "access",
        is_meant: |value| value["required"] == true && value.get("audTag").is_none(),
        reason: "access without an audience answers 403 to every request",
    },
];

/// What of a configuration we would not write: the field at fault, and what it holds.
fn accused(config: &RawValue) -> Option<(&'static str, Value)> {
    let structure = Some(("structure", Value::Null));
    let Ok(document) = Document::parse(Some(config)) else { return structure };
    let (last, others) = document.rules().split_last()?;
    if !is_catch_all(last) || others.iter().any(is_catch_all) {
        return structure;
    }
    document.rules().iter().zip(&rules(config)).find_map(|(rule, json)| {
        let texts: &[&str] = if is_catch_all(rule) { &["service"] } else { &["service", "hostname", "path"] };
        let field = accused_text(rule, texts);
        accused_option(rule, json).or_else(|| field.map(|field| (field, json[field].clone())))
    })
}

fn is_catch_all(rule: &Rule) -> bool {
    rule.is_readable() && matches!(rule.hostname(), "" | "*") && rule.path().is_none()
}

/// The first of these fields that holds a text which is none of ours, or which we would write otherwise.
fn accused_text(rule: &Rule, fields: &[&'static str]) -> Option<&'static str> {
    let is_ours = |field: &&&str| match **field {
        "service" => Service::parse(rule.service()).is_ok_and(|service| service.as_str() == rule.service()),
        "hostname" => Hostname::parse(rule.hostname()).is_ok_and(|name| name.as_str() == rule.hostname()),
        _ => rule.is_readable() && rule.path().is_none_or(|path| PathPattern::parse(path).is_ok()),
    };
    fields.iter().find(|field| !is_ours(field)).copied()
}

/// An option or Access that is shown as something that cannot be read again, or that is written otherwise.
fn accused_option(rule: &Rule, json: &Value) -> Option<(&'static str, Value)> {
    let origin = &json["originRequest"];
    if !(origin.is_null() || origin.is_object()) {
        return Some(("originRequest", origin.clone()));
    }
    let properties = rule.option_properties();
    let text_of = |name: &str| {
        properties.iter().find(|property| *property.name == *name).map(|property| &*property.value)
    };
    let read = OriginRequest::read(&text_of, &OriginRequest::default());
    let mistakes = read.err().unwrap_or_default();
    let bad: Vec<&str> = mistakes.iter().map(|mistake| &*mistake.subject).collect();
    let concerns_access = |name: &&str| name.starts_with("webhook/access-");
    let is_access_bad = bad.iter().any(concerns_access);
    let is_bad_property = |name: &str| bad.contains(&name) || is_access_bad && concerns_access(&name);
    let good = |name: &str| text_of(name).filter(|_| !is_bad_property(name));
    let written = written(OriginRequest::read(&good, &OriginRequest::default()).unwrap_or_default());
    let is_bad = |option: &OriginOption| {
        let (present, written) = (&origin[option.field()], &written[option.field()]);
        let is_said = text_of(option.property()).is_some();
        bad.contains(&option.property()) || is_said && discriminant(present) != discriminant(written)
    };
    let access = &origin["access"];
    let is_absent = |value: &Value| value.is_null() || [json!(false), json!(""), json!([])].contains(value);
    let is_access_bad = is_access_bad
        || !(access.is_null() || access.is_object())
        || ["required", "teamName", "audTag"]
            .into_iter()
            .any(|name| !is_absent(&access[name]) && access[name] != written["access"][name]);
    let option = OriginOption::all().find(is_bad).map(OriginOption::field);
    let field = option.or_else(|| is_access_bad.then_some("access"))?;
    Some((field, origin[field].clone()))
}

/// The `originRequest` of a new rule of ours.
fn written(origin_request: OriginRequest) -> Value {
    let rule = WantedRule {
        hostname: Hostname::parse("app.example.com").unwrap(),
        path: None,
        service: Service::parse("http://app").unwrap(),
        origin_request,
    };
    let document = Document::parse(None).unwrap();
    let edited = document.edit(&[RuleEdit::Put { rule, replaces: true }], &|_| true);
    serde_json::from_str::<Value>(edited.document.rules()[0].raw().get()).unwrap()["originRequest"].clone()
}

/// The configuration without what belongs to the tunnel, whose every byte stays.
fn rules_alone(config: &RawValue) -> String {
    json!({ "ingress": rules(config) }).to_string()
}

#[test]
fn what_cloudflared_refuses_we_refuse() {
    let mut refused = 0;
    for (index, line) in lines().into_iter().enumerate() {
        if let Some(error) = line.error {
            assert!(
                accused(line.config).is_some() || validate(&rules_alone(line.config)).is_ok(),
                "line {}: {error}",
                index + 1
            );
            refused += usize::from(accused(line.config).is_some());
        }
    }
    assert!(refused > 100, "the vectors hold lines that are refused");
}

#[test]
fn what_we_refuse_and_cloudflared_accepts_is_refused_deliberately() {
    let mut met = vec![0; DELIBERATE_REFUSALS.len()];
    let mut accepted = 0;
    for (index, line) in lines().into_iter().enumerate() {
        if line.error.is_some() {
            continue;
        }
        let Some((field, value)) = accused(line.config) else {
            accepted += 1;
            continue;
        };
        let entries: Vec<usize> = (0..DELIBERATE_REFUSALS.len())
            .filter(|&entry| {
                let refusal = &DELIBERATE_REFUSALS[entry];
                refusal.field == field && (refusal.is_meant)(&value)
            })
            .collect();
        let reasons: Vec<_> = entries.iter().map(|&entry| DELIBERATE_REFUSALS[entry].reason).collect();
        assert_eq!(entries.len(), 1, "line {}: {field}: {value} {reasons:?}", index + 1);
        met[entries[0]] += 1;
    }
    for (refusal, met) in DELIBERATE_REFUSALS.iter().zip(met) {
        assert!(met > 0, "no line is refused for its {}: {}", refusal.field, refusal.reason);
    }
    assert!(accepted > 100, "only {accepted} lines are accepted");
}

#[test]
fn every_document_that_is_an_object_can_be_read_and_written() {
    for (index, line) in lines().into_iter().enumerate() {
        let config = line.config.get();
        let Ok(document) = Document::parse(Some(line.config)) else {
            assert!(line.error.is_some(), "line {}", index + 1);
            continue;
        };
        let expected = if config == "null" { "{}" } else { config };
        assert_eq!(document.raw().get(), expected, "line {}", index + 1);
        assert_eq!(document.rules().len(), rules(line.config).len(), "line {}", index + 1);
    }
}
