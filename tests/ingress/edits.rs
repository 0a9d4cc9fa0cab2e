//! What an edit of the ingress list writes, by example: bytes, places, refusals.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use external_dns_cloudflare_tunnel_webhook::ingress::{
    Document, DocumentError, EditRefusal, Edited, OriginRequest, PathPattern, Rule, RuleEdit, Service,
    WantedRule,
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
    RuleEdit::Remove { hostname: hostname(name), path: Some(path.into()) }
}

/// Rules whose service is at `own` are ours.
fn is_own(rule: &Rule) -> bool {
    rule.service().contains("//own")
}

fn edit(document: &Document, edits: &[RuleEdit]) -> Edited {
    document.edit(edits, &is_own)
}

fn text(document: &Document) -> String {
    document.to_raw().get().to_owned()
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
fn a_tunnel_never_configured_gets_a_catch_all_with_its_first_rule() {
    let expected =
        r#"{"ingress":[{"hostname":"a.example.com","service":"http://own"},{"service":"http_status:404"}]}"#;
    let edits = [put(wanted("a.example.com", "", "http://own"))];
    assert_eq!(text(&edit(&Document::parse(None).unwrap(), &edits).document), expected);
    for config in ["null", "{}", r#"{"ingress":null}"#, r#"{"ingress":[]}"#] {
        let empty = document(config);
        assert_eq!(empty.rules().len(), 0, "{config}");
        assert!(!edit(&empty, &[remove("a.example.com", "")]).changed, "{config}");
        assert_eq!(text(&edit(&empty, &edits).document), expected, "{config}");
    }
}

#[test]
fn a_configuration_of_another_shape_is_an_error() {
    for (config, error, text) in [
        ("[]", DocumentError::NotAnObject, "configuration is not a JSON object"),
        ("1", DocumentError::NotAnObject, "configuration is not a JSON object"),
        (
            r#"{"ingress":{}}"#,
            DocumentError::IngressNotAList,
            "ingress of the tunnel's configuration is not a list",
        ),
        (r#"{"ingress":"none"}"#, DocumentError::IngressNotAList, "is not a list"),
    ] {
        let raw: Box<RawValue> = serde_json::from_str(config).unwrap();
        assert_eq!(Document::parse(Some(&raw)), Err(error), "{config}");
        assert!(error.to_string().ends_with(text), "{error}");
    }
}

#[test]
fn documents_are_equal_if_their_bytes_are() {
    let one = r#"{"ingress":[{"service":"http_status:404"}]}"#;
    assert_eq!(document(one), document(one));
    assert_ne!(document(one), document(&one.replace("404", "503")));
}

#[test]
fn a_rule_that_cannot_be_read_is_kept_and_stops_nothing() {
    let document = document(r#"{"ingress":[1,null,{"hostname":[]},{"service":"http_status:404"}]}"#);
    let edited = edit(&document, &[put(wanted("a.example.com", "", "http://own"))]);
    assert_eq!(
        text(&edited.document),
        r#"{"ingress":[1,null,{"hostname":[]},{"hostname":"a.example.com","service":"http://own"},{"service":"http_status:404"}]}"#
    );
}

#[test]
fn everything_that_is_not_edited_keeps_its_bytes_and_its_place() {
    let foreign =
        r#"{ "service" : "http:\/\/x", "hostname":"x.example.com", "future":[ 1.0, 1e2 ], "path":null }"#;
    let catch_all = r#"{"originRequest": { },"service":"http_status:503"}"#;
    let config = format!(
        r#"{{"future": {{ "b":1.50,"a":[ ] }},"originRequest":{{"connectTimeout": 5}}, "Ingress" : [ {foreign} , {catch_all} ],"warp-routing":{{"enabled":true }},"future":"\u0041"}}"#
    );
    let edited = edit(&document(&config), &[put(wanted("a.example.com", "^/x", "http://own"))]);
    let own = r#"{"hostname":"a.example.com","path":"^/x","service":"http://own"}"#;
    assert_eq!(
        text(&edited.document),
        format!(
            r#"{{"future":{{ "b":1.50,"a":[ ] }},"originRequest":{{"connectTimeout": 5}},"Ingress":[{foreign},{own},{catch_all}],"warp-routing":{{"enabled":true }},"future":"\u0041"}}"#
        )
    );
}

#[test]
fn of_our_rule_only_what_is_managed_and_differs_is_written() {
    let rule = |service: &str, origin: &str| {
        format!(
            r#"{{"ingress":[{{"future":[ 1 ],"hostname":"a.example.com","service":"{service}"{origin}}},{{"service":"http_status:404"}}]}}"#
        )
    };
    let with = |said: &[(&str, &str)]| WantedRule {
        origin_request: origin_request(said),
        ..wanted("a.example.com", "", "http://own")
    };
    for (label, before, said, after) in [
        (
            "another service",
            rule("http://old", r#","originRequest": { "future":1 }"#),
            vec![],
            rule("http://own", r#","originRequest":{ "future":1 }"#),
        ),
        (
            "a field more",
            rule("http://own", ""),
            vec![("webhook/origin-no-tls-verify", "true")],
            rule("http://own", r#","originRequest":{"noTLSVerify":true}"#),
        ),
        (
            "a field changed in its place",
            rule("http://own", r#","originRequest":{"NoTLSVerify": false, "future": [ ],"caPool":"/ca"}"#),
            vec![("webhook/origin-ca-pool", "/ca"), ("webhook/origin-no-tls-verify", "true")],
            rule("http://own", r#","originRequest":{"NoTLSVerify":true,"future":[ ],"caPool":"/ca"}"#),
        ),
        (
            "fields taken away, others kept",
            rule(
                "http://own",
                r#","originRequest":{"bastionMode":true,"future":1,"access":{"required":true,"environment":"x"}}"#,
            ),
            vec![],
            rule("http://own", r#","originRequest":{"future":1,"access":{"environment":"x"}}"#),
        ),
        (
            "the last field taken away",
            rule("http://own", r#","originRequest":{"caPool":"/ca"}"#),
            vec![],
            rule("http://own", ""),
        ),
        (
            "access added with the others in Cloudflare's order",
            rule("http://own", r#","originRequest":{}"#),
            vec![
                ("webhook/access-required", "true"),
                ("webhook/access-team-name", "t"),
                ("webhook/access-aud-tag", "a"),
                ("webhook/origin-connect-timeout", "30s"),
            ],
            rule(
                "http://own",
                r#","originRequest":{"connectTimeout":30,"access":{"required":true,"teamName":"t","audTag":["a"]}}"#,
            ),
        ),
    ] {
        let edited = edit(&document(&before), &[put(with(&said))]);
        assert_eq!(text(&edited.document), after, "{label}");
        assert!(edited.changed, "{label}");
    }
}

#[test]
fn a_rule_that_has_the_values_wanted_is_not_written() {
    let said = [("webhook/origin-connect-timeout", "30s"), ("webhook/origin-http-host-header", "h")];
    let rule =
        WantedRule { origin_request: origin_request(&said), ..wanted("a.example.com", "^/x", "http://own") };
    for (label, origin) in [
        ("as we write it", r#"{"connectTimeout":30,"httpHostHeader":"h"}"#),
        ("in another order, with blanks", r#"{ "httpHostHeader" : "\u0068", "connectTimeout":30 }"#),
        (
            "with unknown and null fields",
            r#"{"connectTimeout":30,"httpHostHeader":"h","future":1,"caPool":null}"#,
        ),
        ("with a duplicate", r#"{"connectTimeout":5,"connectTimeout":30,"httpHostHeader":"h"}"#),
        ("in another case", r#"{"CONNECTTIMEOUT":30,"httphostheader":"h"}"#),
        ("with an empty access", r#"{"connectTimeout":30,"httpHostHeader":"h","access":{}}"#),
    ] {
        let config = format!(
            r#"{{"ingress":[{{"hostname":"a.example.com","path":"^/x","service":"http://own","originRequest":{origin}}},{{"service":"http_status:404"}}] }}"#
        );
        let edited = edit(&document(&config), &[put(rule.clone())]);
        assert!(!edited.changed, "{label}: {}", text(&edited.document));
        assert_eq!(text(&edited.document), config, "{label}");
    }
    // What the API may add by itself.
    let config = r#"{"ingress":[{"hostname":"a.example.com","service":"http://own","originRequest":{}},{"service":"http_status:404"}]}"#;
    assert!(!edit(&document(config), &[put(wanted("a.example.com", "", "http://own"))]).changed);
}

#[test]
fn a_rule_stands_directly_before_the_first_foreign_rule_that_covers_it() {
    for (label, before, rule, after) in [
        (
            "only the catch-all covers it",
            vec!["x.example.com - foreign", "- - rest"],
            ("a.example.com", ""),
            vec!["x.example.com - foreign", "a.example.com - own", "- - rest"],
        ),
        (
            "a wildcard covers it, a foreign path rule of its host does not",
            vec!["a.example.com ^/x foreign", "*.example.com - foreign", "- - rest"],
            ("a.example.com", ""),
            vec!["a.example.com ^/x foreign", "a.example.com - own", "*.example.com - foreign", "- - rest"],
        ),
        (
            "a wildcard on a path does not cover it",
            vec!["*.example.com ^/x foreign", "- - rest"],
            ("a.example.com", ""),
            vec!["*.example.com ^/x foreign", "a.example.com - own", "- - rest"],
        ),
        (
            "the same path text of all hosts covers it",
            vec!["- ^/x foreign", "- - rest"],
            ("a.example.com", "^/x"),
            vec!["a.example.com ^/x own", "- ^/x foreign", "- - rest"],
        ),
        (
            "a wider prefix covers it, a narrower one does not",
            vec!["* ^/api/v2/x(/|$) foreign", "* ^/api(/|$) foreign", "- - rest"],
            ("a.example.com", "^/api/v2(/|$)"),
            vec![
                "* ^/api/v2/x(/|$) foreign",
                "a.example.com ^/api/v2(/|$) own",
                "* ^/api(/|$) foreign",
                "- - rest",
            ],
        ),
        (
            "a wildcard in upper case, or with a dot, matches nothing and covers nothing",
            vec![
                "*.Example.com - foreign",
                "*.example.com. - foreign",
                "a.example.com ^/x foreign",
                "- - rest",
            ],
            ("a.example.com", ""),
            vec![
                "*.Example.com - foreign",
                "*.example.com. - foreign",
                "a.example.com ^/x foreign",
                "a.example.com - own",
                "- - rest",
            ],
        ),
        (
            "a narrower one of ours stands in front of a foreign rule that does not cover it",
            vec!["a.example.com ^/v1 own", "*.example.com ^/x foreign", "- - rest"],
            ("a.example.com", ""),
            vec!["a.example.com ^/v1 own", "*.example.com ^/x foreign", "a.example.com - own", "- - rest"],
        ),
        (
            "of ours that are in no order, those that share no host with it stand in front",
            vec!["m.example.com ^/api own", "z.example.com - own", "a.example.com - own", "- - rest"],
            ("m.example.com", ""),
            vec![
                "m.example.com ^/api own",
                "z.example.com - own",
                "a.example.com - own",
                "m.example.com - own",
                "- - rest",
            ],
        ),
        (
            "a rule for everything in the middle is one of the first that cover it",
            vec!["x.example.com - foreign", "* - foreign", "y.example.com - foreign", "- - rest"],
            ("a.example.com", ""),
            vec![
                "x.example.com - foreign",
                "a.example.com - own",
                "* - foreign",
                "y.example.com - foreign",
                "- - rest",
            ],
        ),
        (
            "where nothing covers it, it stands last and a catch-all behind it",
            vec!["x.example.com - foreign"],
            ("a.example.com", ""),
            vec!["x.example.com - foreign", "a.example.com - own", "- - http_status:404"],
        ),
    ] {
        let edited = edit(&list(&before), &[put(wanted(rule.0, rule.1, "http://own"))]);
        assert_eq!(lines(&edited.document), after, "{label}");
    }
}

#[test]
fn our_rules_stand_from_narrow_to_wide() {
    let sorted = [
        "a.example.com ^/api/v2/ own",
        "b.example.com ^/api/v1 own",
        "a.example.com ^/api(/|$) own",
        r"a.example.com \.(jpg|png)$ own",
        "a.example.com ^/ own",
        "a.example.com - own",
        "b.example.com - own",
        "*.b.example.com - own",
        "*.example.com ^/x own",
        "*.example.com - own",
        "- - rest",
    ];
    let puts: Vec<_> = sorted[..10]
        .iter()
        .map(|line| {
            let [host, path, _] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
            put(wanted(host, if path == "-" { "" } else { path }, "http://own"))
        })
        .collect();
    let together = edit(&list(&["- - rest"]), &puts);
    assert_eq!(lines(&together.document), sorted);

    let one_by_one = puts
        .iter()
        .rev()
        .fold(list(&["- - rest"]), |list, put| edit(&list, std::slice::from_ref(put)).document);
    assert_eq!(lines(&one_by_one), sorted);
}

#[test]
fn a_rule_of_ours_that_stands_well_is_not_moved() {
    for (label, rules) in [
        (
            "a foreign rule that overlaps it was put behind it",
            vec!["a.example.com - own", "* ^/x foreign", "- - rest"],
        ),
        (
            "hosts that share nothing are in another order",
            vec!["b.example.com - own", "a.example.com - own", "- - rest"],
        ),
        (
            "a wildcard that has no host in common with it stands in front",
            vec!["*.example.net - own", "a.example.com - own", "- - rest"],
        ),
        (
            "a foreign rule stands between two of ours",
            vec!["*.example.com ^/x own", "* ^/x foreign", "a.example.com - own", "- - rest"],
        ),
    ] {
        let document = list(&rules);
        let puts: Vec<_> = document
            .rules()
            .iter()
            .filter(|rule| is_own(rule))
            .map(|rule| put(wanted(rule.hostname(), rule.path().unwrap_or_default(), "http://own")))
            .collect();
        let edited = edit(&document, &puts);
        assert!(!edited.changed, "{label}: {:?}", lines(&edited.document));
        for rule in document.rules().iter().filter(|rule| is_own(rule)) {
            assert!(!document.is_shadowed(&hostname(rule.hostname()), rule.path(), &is_own), "{label}");
        }
    }
}

#[test]
fn a_rule_of_ours_that_is_shadowed_is_moved_and_no_other() {
    for (label, before, (host, path), after) in [
        (
            "behind a foreign rule that covers it",
            vec![
                "z.example.com - own",
                "*.example.com - foreign",
                "a.example.com - own",
                "b.example.com - own",
                "- - rest",
            ],
            ("a.example.com", ""),
            vec![
                "a.example.com - own",
                "z.example.com - own",
                "*.example.com - foreign",
                "b.example.com - own",
                "- - rest",
            ],
        ),
        (
            "behind a wider one of ours",
            vec!["*.example.com - own", "a.example.com - own", "- - rest"],
            ("a.example.com", ""),
            vec!["a.example.com - own", "*.example.com - own", "- - rest"],
        ),
        (
            "behind a wildcard of ours on one path, which would take some of its requests",
            vec!["*.example.com ^/x own", "a.example.com - own", "- - rest"],
            ("a.example.com", ""),
            vec!["a.example.com - own", "*.example.com ^/x own", "- - rest"],
        ),
        (
            "behind a wider one of ours, with a foreign rule between them",
            vec!["* ^/x foreign", "*.example.com - own", "* ^/y foreign", "a.example.com - own", "- - rest"],
            ("a.example.com", ""),
            vec!["* ^/x foreign", "a.example.com - own", "*.example.com - own", "* ^/y foreign", "- - rest"],
        ),
        (
            "behind one of ours that overlaps it and is wider",
            vec!["a.example.com api own", "a.example.com ^/v1 own", "* ^/x foreign", "- - rest"],
            ("a.example.com", "^/v1"),
            vec!["a.example.com ^/v1 own", "a.example.com api own", "* ^/x foreign", "- - rest"],
        ),
        (
            "spelled so that it matches nothing",
            vec!["*.Example.com - own", "a.example.com - foreign", "- - rest"],
            ("*.example.com", ""),
            vec!["a.example.com - foreign", "*.example.com - own", "- - rest"],
        ),
    ] {
        let document = list(&before);
        assert!(document.is_shadowed(&hostname(host), Some(path), &is_own), "{label}");
        let edited = edit(&document, &[put(wanted(host, path, "http://own"))]);
        assert_eq!(lines(&edited.document), after, "{label}");
        assert!(!edited.document.is_shadowed(&hostname(host), Some(path), &is_own), "{label}");
    }
}

/// One that is spelled wrong moves when it is put, and the place of the other depends on where it is then.
#[test]
fn the_order_of_edits_does_not_matter_where_their_places_depend_on_each_other() {
    let document = list(&["*.b.example.com - own", "_X.example.com ^/api(/|$) own", "- - rest"]);
    let edits = [
        put(wanted("_x.example.com", "", "http://own")),
        put(wanted("_x.example.com", "^/api(/|$)", "http://own")),
    ];
    let expected =
        ["_x.example.com ^/api(/|$) own", "_x.example.com - own", "*.b.example.com - own", "- - rest"];
    let reversed: Vec<_> = edits.iter().rev().cloned().collect();
    assert_eq!(lines(&edit(&document, &edits).document), expected);
    assert_eq!(lines(&edit(&document, &reversed).document), expected);
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
        remove("twice.example.com", ""),
        new("c.example.com", ""),
        put(wanted("c.example.com", "", "http://own2")),
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
        (6, "two rules are asked for at the same hostname and path"),
    ];
    assert_eq!(refused.len(), starts.len(), "{refused:?}");
    for ((index, text), (expected, start)) in refused.iter().zip(starts) {
        assert_eq!(*index, expected, "{text}");
        assert!(text.starts_with(start), "{text}");
    }
    let mut expected = lines(&document);
    expected.insert(5, "c.example.com - own".to_owned());
    assert_eq!(
        lines(&edited.document),
        expected,
        "a put wins over a removal of the same rule, also where it is refused"
    );
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
        of("b.example.com", "", "own-changed"),
        of("*.example.com", "", "own-misspelled"),
    ];
    assert_eq!(
        edit(&document, &all).effective,
        [1, 2, 3, 5, 6, 7].into(),
        "the fourth one only moves, and the last one is only spelled otherwise"
    );
    let idle = [all[0].clone(), all[4].clone()];
    let edited = edit(&document, &idle);
    assert_eq!((edited.changed, edited.effective), (false, [].into()));
}

#[test]
fn two_rules_with_one_hostname_and_path_are_not_told_apart() {
    let document = list(&["a.example.com - own", "A.example.com - foreign", "- - rest"]);
    let edited = edit(&document, &[remove("a.example.com", "")]);
    assert_eq!(edited.refused, [(0, EditRefusal::Duplicate { rules: vec![1, 2] })]);
    assert!(!edited.changed);
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
        assert!(!edited.changed, "{label}");
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
            .hidden_by(&hostname(host), Some(path))
            .map(|rule| (rule.hostname().to_owned(), rule.path().map(ToOwned::to_owned)))
    };
    assert_eq!(hidden("a.example.com", "/"), None);
    assert_eq!(hidden("a.example.com", ""), Some(("a.example.com".to_owned(), Some("/".to_owned()))));
    assert_eq!(hidden("b.example.com", ""), Some(("*.example.com".to_owned(), None)));
    assert_eq!(hidden("c.example.com", ""), None, "there is no such rule");
    assert!(
        !document.is_shadowed(&hostname("a.example.com"), None, &is_own),
        "narrower stands in front by our own order"
    );
}

#[test]
fn an_equivalent_foreign_rule_in_front_is_a_conflict_and_no_drift() {
    let document = list(&["a.example.com / foreign", "a.example.com - own", "- - rest"]);
    let edited = edit(&document, &[put(wanted("a.example.com", "", "http://own"))]);
    assert_eq!(edited.refused, [(0, EditRefusal::MutualCover { rule: 1 })]);
    assert!(!document.is_shadowed(&hostname("a.example.com"), None, &is_own));

    // Behind ours it got no request before.
    let document = list(&["a.example.com - own", "a.example.com / foreign", "- - rest"]);
    let edited = edit(&document, &[put(wanted("a.example.com", "", "http://own2"))]);
    assert_eq!(lines(&edited.document)[0], "a.example.com - own2");
}
