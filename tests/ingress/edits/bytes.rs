//! What of a document an edit writes, and what keeps its bytes.

use super::*;

#[test]
fn a_tunnel_never_configured_gets_a_catch_all_with_its_first_rule() {
    let expected =
        r#"{"ingress":[{"hostname":"a.example.com","service":"http://own"},{"service":"http_status:404"}]}"#;
    let edits = [put(wanted("a.example.com", "", "http://own"))];
    assert_eq!(text(&edit(&Document::parse(None).unwrap(), &edits).document), expected);
    for config in ["null", "{}", r#"{"ingress":null}"#, r#"{"ingress":[]}"#] {
        let empty = document(config);
        assert_eq!(empty.rules().len(), 0, "{config}");
        assert!(edit(&empty, &[remove("a.example.com", "")]).changed.is_empty(), "{config}");
        assert_eq!(text(&edit(&empty, &edits).document), expected, "{config}");
    }
}

#[test]
fn a_configuration_of_another_shape_is_an_error() {
    for (config, problem) in [
        ("[]", "the tunnel's configuration is not a JSON object"),
        ("1", "the tunnel's configuration is not a JSON object"),
        (r#"{"ingress":{}}"#, "the ingress of the tunnel's configuration is not a list"),
        (r#"{"ingress":"none"}"#, "the ingress of the tunnel's configuration is not a list"),
    ] {
        let raw: Box<RawValue> = serde_json::from_str(config).unwrap();
        assert_eq!(Document::parse(Some(&raw)), Err(problem), "{config}");
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
        assert!(!edited.changed.is_empty(), "{label}");
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
        assert!(edited.changed.is_empty(), "{label}: {}", text(&edited.document));
        assert_eq!(text(&edited.document), config, "{label}");
    }
    // What the API may add by itself.
    let config = r#"{"ingress":[{"hostname":"a.example.com","service":"http://own","originRequest":{}},{"service":"http_status:404"}]}"#;
    assert!(edit(&document(config), &[put(wanted("a.example.com", "", "http://own"))]).changed.is_empty());
}
