//! What an edit of the ingress list writes, by example: bytes, places, refusals.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod bytes;
mod places;

use external_dns_cloudflare_tunnel_webhook::ingress::{
    Document, Edited, OriginRequest, PathPattern, Rule, RuleEdit, Service, WantedRule,
};
use external_dns_cloudflare_tunnel_webhook::model::Hostname;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::options::origin_request;

fn document(config: &str) -> Document {
    let raw: Box<RawValue> = serde_json::from_str(config).unwrap();
    Document::parse(Some(&raw)).unwrap()
}

fn hostname(text: &str) -> Hostname {
    Hostname::parse(text).unwrap()
}

fn wanted(name: &str, path: &str, service: &str) -> WantedRule {
    WantedRule {
        hostname: hostname(name),
        path: (!path.is_empty()).then(|| PathPattern::parse(path).unwrap()),
        service: Service::parse(service).unwrap(),
        origin_request: OriginRequest::default(),
    }
}

fn put(rule: WantedRule) -> RuleEdit {
    RuleEdit::Put { rule, replaces: true }
}

fn remove(name: &str, path: &str) -> RuleEdit {
    RuleEdit::Delete { hostname: hostname(name), path: Some(path.into()) }
}

/// Rules whose service is at `own` are ours.
fn is_own(rule: &Rule) -> bool {
    rule.service().contains("//own")
}

fn edit(document: &Document, edits: &[RuleEdit]) -> Edited {
    document.edit(edits, &is_own)
}

fn text(document: &Document) -> String {
    document.raw().get().to_owned()
}

/// A list of rules written as `host path service`, without a path where there is `-`.
fn list(rules: &[&str]) -> Document {
    let rule = |rule: &&str| {
        let [host, path, service] = rule.split(' ').collect::<Vec<_>>()[..] else { panic!("{rule}") };
        let mut value = json!({"service": format!("http://{service}")});
        for (field, text) in [("hostname", host), ("path", path)] {
            if text != "-" {
                value[field] = text.into();
            }
        }
        value
    };
    document(&json!({"ingress": rules.iter().map(rule).collect::<Vec<Value>>()}).to_string())
}

fn lines(document: &Document) -> Vec<String> {
    let text = |text: &str| {
        if text.is_empty() { "-".to_owned() } else { text.to_owned() }
    };
    let line = |rule: &Rule| {
        let service = rule.service().trim_start_matches("http://");
        format!("{} {} {service}", text(rule.hostname()), text(rule.path().unwrap_or_default()))
    };
    document.rules().iter().map(line).collect()
}

#[test]
fn an_edit_that_cannot_be_done_is_refused_and_the_others_are_applied() {
    let document = list(&[
        "a.example.com - foreign",
        "App.Example.com ^/x foreign",
        "b.example.com / foreign",
        "twice.example.com - own",
        "TWICE.example.com - foreign",
        "- - rest",
    ]);
    let new =
        |host: &str, path: &str| RuleEdit::Put { rule: wanted(host, path, "http://own"), replaces: false };
    let edits = [
        new("a.example.com", ""),
        new("app.example.com", "^/x"),
        put(wanted("b.example.com", "", "http://own")),
        put(wanted("twice.example.com", "", "http://own")),
        new("c.example.com", ""),
        remove("nowhere.example.com", ""),
    ];
    let edited = edit(&document, &edits);
    let refused: Vec<_> =
        edited.refused.iter().map(|(index, refusal)| (*index, refusal.to_string())).collect();
    let starts = [
        (0, "rule 1 of the tunnel has the same hostname and path and is not ours"),
        (1, "rule 2 of the tunnel has the same hostname and path and is not ours"),
        (2, "rule 3 of the tunnel, which is not ours, matches exactly the same requests"),
        (3, "rules 4 and 5 of the tunnel have the same hostname and path"),
    ];
    assert_eq!(refused.len(), starts.len(), "{refused:?}");
    for ((index, text), (expected, start)) in refused.iter().zip(starts) {
        assert_eq!(*index, expected, "{text}");
        assert!(text.starts_with(start), "{text}");
    }
    let mut expected = lines(&document);
    expected.insert(5, "c.example.com - own".to_owned());
    assert_eq!(lines(&edited.document), expected);
}

#[test]
fn each_edit_says_for_itself_whether_it_changes_anything() {
    let document = list(&[
        "a.example.com - own-a",
        "wide.example.com - own-wide",
        "wide.example.com ^/narrow own-narrow",
        "b.example.com - own-b",
        "goes.example.com - own-goes",
        "*.Example.com - own-misspelled",
        "- - rest",
    ]);
    let of = |name: &str, path: &str, service: &str| put(wanted(name, path, &format!("http://{service}")));
    let all = [
        of("a.example.com", "", "own-a"),
        of("b.example.com", "", "own-changed"),
        of("new.example.com", "", "own-new"),
        of("wide.example.com", "^/narrow", "own-narrow"),
        remove("gone.example.com", ""),
        remove("goes.example.com", ""),
        of("*.example.com", "", "own-misspelled"),
    ];
    assert_eq!(
        edit(&document, &all).changed,
        [1, 2, 3, 5, 6].into(),
        "the fourth one only moves, and the last one is only spelled otherwise"
    );
    let idle = [all[0].clone(), all[4].clone()];
    let edited = edit(&document, &idle);
    assert_eq!(edited.changed, [].into());
}

#[test]
fn a_rule_that_equals_the_wanted_one_in_every_field_is_left_to_be_taken_back() {
    let new = [RuleEdit::Put { rule: wanted("a.example.com", "", "http://app"), replaces: false }];
    for (label, rule, is_equal) in [
        ("equal", r#"{"hostname":"a.example.com","service":"http://app"}"#, true),
        (
            "with what the API adds",
            r#"{"hostname":"a.example.com","service":"http://app","originRequest":{},"path":""}"#,
            true,
        ),
        ("another service", r#"{"hostname":"a.example.com","service":"http://other"}"#, false),
        (
            "an option more",
            r#"{"hostname":"a.example.com","service":"http://app","originRequest":{"caPool":"x"}}"#,
            false,
        ),
        ("an unknown field", r#"{"hostname":"a.example.com","service":"http://app","future":1}"#, false),
        (
            "an unknown option",
            r#"{"hostname":"a.example.com","service":"http://app","originRequest":{"future":1}}"#,
            false,
        ),
        (
            "an unknown field of access",
            r#"{"hostname":"a.example.com","service":"http://app","originRequest":{"access":{"environment":"x"}}}"#,
            false,
        ),
        ("another spelling", r#"{"hostname":"A.example.com","service":"http://app"}"#, false),
    ] {
        let document = document(&format!(r#"{{"ingress":[{rule},{{"service":"http_status:404"}}]}}"#));
        let edited = edit(&document, &new);
        assert_eq!(edited.refused.is_empty(), is_equal, "{label}: {:?}", edited.refused);
        assert!(edited.changed.is_empty(), "{label}");
    }
}

#[test]
fn a_rule_that_no_request_reaches_is_told() {
    let document = list(&[
        "a.example.com / own",
        "a.example.com - own",
        "*.example.com - foreign",
        "b.example.com - own",
    ]);
    let hidden = |host: &str, path: &str| {
        document
            .marked(&is_own)
            .hidden_by(&hostname(host), Some(path))
            .map(|rule| (rule.hostname().to_owned(), rule.path().map(ToOwned::to_owned)))
    };
    assert_eq!(hidden("a.example.com", "/"), None);
    assert_eq!(hidden("a.example.com", ""), Some(("a.example.com".to_owned(), Some("/".to_owned()))));
    assert_eq!(hidden("b.example.com", ""), Some(("*.example.com".to_owned(), None)));
    assert_eq!(hidden("c.example.com", ""), None, "there is no such rule");
    // The proof goes further than that by which rules are placed.
    for (theirs, ours, is_hidden) in [
        ("^/api", "^/api(/|$)", true),
        ("^/api.*", "^/api(/|$)", true),
        ("^/a", "^/api(/|$)", true),
        ("^/api/", "^/api/v1(/|$)", true),
        ("^/api/", "^/api(/|$)", false),
    ] {
        let document =
            list(&[&format!("a.example.com {theirs} foreign"), &format!("a.example.com {ours} own")]);
        let marked = document.marked(&is_own);
        assert_eq!(marked.hidden_by(&hostname("a.example.com"), Some(ours)).is_some(), is_hidden, "{theirs}");
    }
    assert!(
        !document.marked(&is_own).needs_reordering(&hostname("a.example.com"), None),
        "narrower stands in front by our own order"
    );
}

#[test]
fn an_equivalent_foreign_rule_in_front_is_a_conflict_and_no_drift() {
    let document = list(&["a.example.com / foreign", "a.example.com - own", "- - rest"]);
    let edited = edit(&document, &[put(wanted("a.example.com", "", "http://own"))]);
    let [(0, reason)] = &edited.refused[..] else { panic!("{:?}", edited.refused) };
    assert!(reason.starts_with("rule 1 of the tunnel, which is not ours, matches exactly"), "{reason}");
    assert!(!document.marked(&is_own).needs_reordering(&hostname("a.example.com"), None));

    // Behind ours it got no request before.
    let document = list(&["a.example.com - own", "a.example.com / foreign", "- - rest"]);
    let edited = edit(&document, &[put(wanted("a.example.com", "", "http://own2"))]);
    assert_eq!(lines(&edited.document)[0], "a.example.com - own2");
}
