//! Random documents, with the oddities that cloudflared accepts, and random edits of them.

use std::collections::BTreeSet;

use external_dns_cloudflare_tunnel_webhook::ingress::{
    Document, OriginRequest, PathPattern, Rule, RuleEdit, Service, WantedRule,
};
use external_dns_cloudflare_tunnel_webhook::model::Hostname;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::options::{fields, options, origin_request};

/// Hostnames that we write.
const HOSTNAMES: [&str; 9] = [
    "app.example.com",
    "a.b.example.com",
    "_x.example.com",
    "*.example.com",
    "*.b.example.com",
    "*.com",
    "xn--bcher-kva.example",
    "*.xn--bcher-kva.example",
    "other.test",
];

/// Hostnames that others have written, cloudflared accepts, and we would not write.
const ODD_HOSTNAMES: [&str; 16] = [
    "",
    "*",
    "App.Example.com",
    "APP.example.com",
    "_X.example.com",
    "app.example.com.",
    "*.Example.com",
    "*.b.example.com.",
    "*.",
    "*a.example.com",
    ".example.com",
    "a b",
    "[::1]",
    "b\u{fc}cher.example",
    "*.b\u{fc}cher.example",
    "ex-.example.com",
];

/// Path expressions that we write; an empty one is none.
const PATHS: [&str; 25] = [
    "",
    "",
    "",
    "/",
    "^/",
    ".*",
    "^.*$",
    "/api",
    "api",
    "^/ap(/|$)",
    "^/api(/|$)",
    "^/api/v2(/|$)",
    "^/api/v2/",
    "^/api(?:/|$)",
    r"\.png$",
    "(?i)^/API",
    "^/api|^/b/",
    "^/v[0-9]+/",
    "^/v",
    "^/api",
    "^/api$",
    "^/api(/.*)?$",
    "^/api/v2(/.*)?$",
    r"^/api/.*\.png$",
    r"\z",
];

/// Path expressions that we would not write.
const ODD_PATHS: [&str; 3] = [r"\Q/a.c\E", "(?P<n>a)(?P<n>b)", r"^/\pL+$"];

/// Hosts of requests.
pub(crate) const HOSTS: [&str; 17] = [
    "app.example.com",
    "APP.example.com",
    "app.example.com.",
    "x.example.com",
    "example.com",
    "a.b.example.com",
    "x.b.example.com",
    "x.y.b.example.com",
    "x.b.example.com.",
    "_x.example.com",
    "x.com",
    "xn--bcher-kva.example",
    "b\u{fc}cher.example",
    "w.xn--bcher-kva.example",
    "w.b\u{fc}cher.example",
    "other.test",
    "nothing.test",
];

/// Paths of requests. A path of HTTP begins with a slash.
pub(crate) const REQUEST_PATHS: [&str; 14] = [
    "/",
    "/ap",
    "/api",
    "/api/",
    "/api/v2",
    "/api/v2/x",
    "/apis",
    "/API",
    "/a.c",
    "/ab",
    "/b/edit",
    "/api/x.png",
    "/v1/api/z",
    "/v2/",
];

/// A hostname and a path text, as ownership knows rules.
pub(crate) type Key = (String, Option<String>);

/// A document, and which of its rules are ours.
#[derive(Clone, Debug)]
pub(crate) struct EditCase {
    pub(crate) config: String,
    /// The rules written as ours, as they would be asked for.
    pub(crate) own: Vec<WantedRule>,
    pub(crate) edits: Vec<RuleEdit>,
}

impl EditCase {
    pub(crate) fn document(&self) -> Document {
        let config: Box<RawValue> = serde_json::from_str(&self.config).unwrap();
        Document::parse(Some(&config)).unwrap()
    }

    pub(crate) fn is_own(&self, rule: &Rule) -> bool {
        self.own.iter().any(|own| rule.is_for(&own.hostname, own.path_text()))
    }
}

pub(crate) fn key_of(edit: &RuleEdit) -> Key {
    match edit {
        RuleEdit::Put { rule, .. } => wanted_key(rule),
        RuleEdit::Delete { hostname, path } => {
            (hostname.as_str().to_owned(), path.as_deref().map(Into::into))
        }
    }
}

pub(crate) fn wanted_key(wanted: &WantedRule) -> Key {
    (wanted.hostname.as_str().to_owned(), wanted.path_text().map(Into::into))
}

pub(crate) fn has_key(rule: &Rule, key: &Key) -> bool {
    rule.is_for(&Hostname::parse(&key.0).unwrap(), key.1.as_deref())
}

/// A step in the life of a list that others edit too.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// The webhook publishes rules in one request.
    Publish(Vec<WantedRule>),
    /// The webhook withdraws its rule at this index of those that stand.
    Withdraw(prop::sample::Index),
    /// Another writer inserts a rule at a place.
    Insert(prop::sample::Index, String),
}

/// The life of a list, from an empty one on. Few hosts, so that rules share requests.
pub(crate) fn life() -> impl Strategy<Value = Vec<Step>> {
    let hostnames = ["app.example.com", "a.b.example.com", "*.example.com", "*.b.example.com", "*.com"];
    let foreign =
        (select([&hostnames[..], &["other.test", "*", "App.Example.com"]].concat()), select(PATHS.to_vec()));
    let own = (wanted(), select(hostnames.to_vec()))
        .prop_map(|(rule, hostname)| WantedRule { hostname: Hostname::parse(hostname).unwrap(), ..rule });
    let step = prop_oneof![
        4 => vec(own, 1..4).prop_map(Step::Publish),
        3 => (any::<prop::sample::Index>(), foreign).prop_map(|(place, (hostname, path))| {
            let entry = Entry::Foreign { hostname: Some(hostname), path: Some(path), style: Style::Compact };
            Step::Insert(place, rule_text(0, &entry))
        }),
        1 => any::<prop::sample::Index>().prop_map(Step::Withdraw),
    ];
    vec(step, 2..12)
}

/// A rule of a document.
#[derive(Clone, Debug)]
enum Entry {
    Own(WantedRule, Style),
    Foreign { hostname: Option<&'static str>, path: Option<&'static str>, style: Style },
}

/// How a rule is written.
#[derive(Clone, Copy, Debug)]
enum Style {
    Compact,
    /// With blanks, escapes, and fields of the future at every level.
    Loose,
    /// With keys in another case.
    OtherCase,
    /// With an empty `originRequest`, as the API may add it.
    EmptyOrigin,
}

fn style() -> impl Strategy<Value = Style> {
    select(vec![Style::Compact, Style::Loose, Style::OtherCase, Style::EmptyOrigin])
}

/// Documents of all kinds.
pub(crate) fn case() -> impl Strategy<Value = EditCase> {
    let hostnames = HOSTNAMES.into_iter().chain(ODD_HOSTNAMES).map(Some).chain([None]).collect();
    let paths = PATHS.into_iter().chain(ODD_PATHS).map(Some).chain([None]).collect();
    case_of(hostnames, paths, any::<bool>().boxed())
}

/// Documents whose foreign rules we would have written so too.
pub(crate) fn plain_case() -> impl Strategy<Value = EditCase> {
    let hostnames = HOSTNAMES.into_iter().map(Some).collect();
    let paths = PATHS.into_iter().map(Some).chain([None]).collect();
    case_of(hostnames, paths, Just(true).boxed())
}

/// Documents in which a rule of ours that requires a login stands before rules of others, and edits at other hostnames.
pub(crate) fn guarded_case() -> impl Strategy<Value = EditCase> {
    let hostnames = select(vec!["*.example.com", "*.b.example.com", "*.com", "app.example.com"]);
    let paths = select(PATHS.to_vec());
    (case(), wanted(), hostnames, paths, any::<prop::sample::Index>()).prop_map(
        |(case, rule, hostname, path, place)| {
            let login = options().map(|(properties, _, _)| properties)[5];
            let guarded = WantedRule {
                hostname: Hostname::parse(hostname).unwrap(),
                path: (!path.is_empty()).then(|| PathPattern::parse(path).unwrap()),
                origin_request: origin_request(login),
                ..rule
            };
            let document = case.document();
            let mut rules: Vec<String> =
                document.rules().iter().map(|rule| rule.raw().get().to_owned()).collect();
            let is_same = |rule: &Rule| rule.is_for(&guarded.hostname, guarded.path_text());
            if document.rules().iter().any(is_same) {
                return case;
            }
            rules.insert(
                place.index(rules.len().max(1)) / 2,
                rule_text(0, &Entry::Own(guarded.clone(), Style::Compact)),
            );
            let own = case.own.into_iter().chain([guarded]).collect();
            EditCase { config: format!(r#"{{"ingress":[{}]}}"#, rules.join(",")), own, ..case }
        },
    )
}

fn case_of(
    hostnames: Vec<Option<&'static str>>,
    paths: Vec<Option<&'static str>>,
    has_catch_all: BoxedStrategy<bool>,
) -> impl Strategy<Value = EditCase> {
    let foreign = (select(hostnames), select(paths), style())
        .prop_map(|(hostname, path, style)| Entry::Foreign { hostname, path, style });
    let own = (wanted(), style()).prop_map(|(wanted, style)| Entry::Own(wanted, style));
    let entries = vec(prop_oneof![3 => foreign, 2 => own], 0..8);
    (
        entries,
        has_catch_all,
        any::<bool>(),
        vec(edit(), 0..6),
        vec((any::<prop::sample::Index>(), 0..3_u8), 0..4),
    )
        .prop_map(|(entries, has_catch_all, is_loose, mut edits, again)| {
            let own = own_rules(&entries);
            // What stands is asked for again, or withdrawn, more often than chance would have it.
            let standing: Vec<WantedRule> = entries.iter().filter_map(standing).collect();
            for (index, kind) in again.into_iter().filter(|_| !standing.is_empty()) {
                let rule = index.get(&standing).clone();
                edits.push(match kind {
                    0 => RuleEdit::Delete { path: rule.path_text().map(Into::into), hostname: rule.hostname },
                    kind => RuleEdit::Put { rule, replaces: kind == 1 },
                });
            }
            let mut keys = BTreeSet::new();
            edits.retain(|edit| keys.insert(key_of(edit)));
            EditCase { config: config(&entries, has_catch_all, is_loose), own, edits }
        })
}

/// A rule of a document as it could be asked for.
fn standing(entry: &Entry) -> Option<WantedRule> {
    match entry {
        Entry::Own(wanted, _) => Some(wanted.clone()),
        Entry::Foreign { hostname, path, style: _ } => Some(WantedRule {
            hostname: Hostname::parse((*hostname)?).ok()?,
            path: path.filter(|path| !path.is_empty()).map(PathPattern::parse).transpose().ok()?,
            service: Service::parse("http://app.ns.svc:8080").ok()?,
            origin_request: OriginRequest::default(),
        }),
    }
}

/// Invariant 1 of docs/how-it-works.md: of two rules with one hostname and path neither is ours.
fn own_rules(entries: &[Entry]) -> Vec<WantedRule> {
    let keys: Vec<Key> = entries.iter().filter_map(standing).map(|one| wanted_key(&one)).collect();
    let own = entries.iter().filter_map(|entry| match entry {
        Entry::Own(wanted, _) => Some(wanted.clone()),
        Entry::Foreign { .. } => None,
    });
    own.filter(|wanted| keys.iter().filter(|key| **key == wanted_key(wanted)).count() == 1).collect()
}

fn wanted() -> impl Strategy<Value = WantedRule> {
    let services = select(vec![
        "http://app.ns.svc:8080",
        "https://10.0.0.1:8443",
        "http_status:404",
        "unix:/run/a.sock",
    ]);
    let options = options().map(|(properties, _, _)| properties).to_vec();
    let options = prop_oneof![Just(Vec::new()), subsequence(options, 0..=6)];
    (select(HOSTNAMES.to_vec()), select(PATHS.to_vec()), services, options).prop_map(
        |(hostname, path, service, options)| WantedRule {
            hostname: Hostname::parse(hostname).unwrap(),
            path: (!path.is_empty()).then(|| PathPattern::parse(path).unwrap()),
            service: Service::parse(service).unwrap(),
            origin_request: origin_request(&options.concat()),
        },
    )
}

fn edit() -> impl Strategy<Value = RuleEdit> {
    prop_oneof![
        3 => (wanted(), any::<bool>()).prop_map(|(rule, replaces)| RuleEdit::Put { rule, replaces }),
        1 => wanted().prop_map(|rule| RuleEdit::Delete {
            path: rule.path_text().map(Into::into),
            hostname: rule.hostname,
        }),
    ]
}

fn config(entries: &[Entry], has_catch_all: bool, is_loose: bool) -> String {
    let mut rules: Vec<String> =
        entries.iter().enumerate().map(|(index, entry)| rule_text(index, entry)).collect();
    if has_catch_all {
        rules.push(r#"{"service": "http_status:503", "future": [ 1.0 ]}"#.to_owned());
    }
    if is_loose {
        return format!(
            r#"{{ "futureKey" : {{"a" : 1e2}}, "ingress" : [ {} ], "warp-routing": {{ "enabled": true }},
                 "originRequest": {{ "connectTimeout": 5, "future": null }}, "futureKey": "\u0041" }}"#,
            rules.join(" ,\n")
        );
    }
    format!(r#"{{"ingress":[{}]}}"#, rules.join(","))
}

/// Every foreign rule has a service of its own, so that rules can be told apart by their bytes.
fn rule_text(index: usize, entry: &Entry) -> String {
    let (hostname, path, service, origin, style) = match entry {
        Entry::Own(wanted, style) => (
            Some(wanted.hostname.as_str()),
            wanted.path_text(),
            wanted.service.as_str().to_owned(),
            fields(&wanted.origin_request),
            *style,
        ),
        Entry::Foreign { hostname, path, style } => {
            (*hostname, *path, format!("http://foreign-{index}:80"), vec![("tlsTimeout", json!(7))], *style)
        }
    };
    let mut members: Vec<(String, String)> = Vec::new();
    let mut add = |name: &str, value: String| members.push((cased(name, style), value));
    if let Some(hostname) = hostname {
        add("hostname", json!(hostname).to_string());
    }
    if let Some(path) = path {
        add("path", json!(path).to_string());
    }
    add("service", json!(service).to_string());
    if let Some(origin) = origin_text(&origin, style) {
        add("originRequest", origin);
    }
    if matches!(style, Style::Loose) {
        members.insert(0, ("future".to_owned(), r#"{ "b" : 1.50, "a" : "\u0061" }"#.to_owned()));
        members.push(("null".to_owned(), "null".to_owned()));
    }
    object_text(&members, style)
}

fn origin_text(fields: &[(&'static str, Value)], style: Style) -> Option<String> {
    let mut members: Vec<(String, String)> = Vec::new();
    for (name, value) in fields {
        let value = match (*name, style) {
            ("access", Style::Loose) => r#"{ "environment" : "x", "required":true, "teamName":"team",
                "audTag" : [ "a","b" ] }"#
                .to_owned(),
            _ => value.to_string(),
        };
        members.push((cased(name, style), value));
    }
    match style {
        Style::Loose => members.insert(0, ("future".to_owned(), "[ ]".to_owned())),
        Style::EmptyOrigin => {}
        Style::Compact | Style::OtherCase if members.is_empty() => return None,
        Style::Compact | Style::OtherCase => {}
    }
    Some(object_text(&members, style))
}

fn cased(name: &str, style: Style) -> String {
    match style {
        Style::OtherCase => name.to_uppercase(),
        Style::Compact | Style::Loose | Style::EmptyOrigin => name.to_owned(),
    }
}

fn object_text(members: &[(String, String)], style: Style) -> String {
    let (colon, comma) = match style {
        Style::Loose => (" :\t", " , "),
        Style::Compact | Style::OtherCase | Style::EmptyOrigin => (":", ","),
    };
    let members: Vec<String> =
        members.iter().map(|(key, value)| format!("\"{key}\"{colon}{value}")).collect();
    format!("{{{}}}", members.join(comma))
}
