use cloudflare_emulator::{Emulator, RuleText, Token, Unconfigured, Visit, catch_all};
use serde_json::json;

use crate::client::{TOKEN, call, free_zone, read};

fn tunnel() -> (Emulator, String) {
    let emulator = Emulator::start();
    emulator.add_token(Token::full(TOKEN));
    let tunnel = emulator.add_tunnel("shop");
    let path = format!("/accounts/{}/cfd_tunnel/{tunnel}/configurations", emulator.account());
    (emulator, path)
}

#[test]
fn a_tunnel_never_configured_answers_null_or_1055() {
    let (emulator, path) = tunnel();
    let fresh = read(&emulator, &path).result();
    assert_eq!((&fresh["config"], &fresh["version"]), (&json!(null), &json!(0)));
    emulator.edit(|cloudflare| cloudflare.tunnel_mut("shop").unconfigured = Unconfigured::NotFound);
    assert_eq!(read(&emulator, &path).code(), 1055);
    let put = call(&emulator, "PUT", &path, r#"{"config":{"ingress":[{"service":"http_status:404"}]}}"#);
    assert_eq!(put.result()["version"], 1);
    assert_eq!(read(&emulator, &path).status, 200);
}

/// Unknown fields, their order, the spelling of numbers and even blanks are what a PUT sent.
#[test]
fn a_document_is_kept_to_the_byte() {
    let (emulator, path) = tunnel();
    let config =
        r#"{"zeta":[1.50, 1e2],"ingress":[{"service":"http_status:404","x":{"b":1,"a":2}}],"alpha":null}"#;
    let answer = call(&emulator, "PUT", &path, &format!("{{\"config\":{config}}}"));
    assert!(answer.body.contains(config), "{}", answer.body);
    assert!(read(&emulator, &path).body.contains(config));
    assert_eq!(emulator.configuration("shop").as_deref(), Some(config));
    assert_eq!(emulator.version("shop"), 1);
}

#[test]
fn a_document_that_cloudflared_refuses_changes_nothing() {
    let (emulator, path) = tunnel();
    emulator.put_configuration("shop", &catch_all("http_status:404")).unwrap();
    let bad = r#"{"config":{"ingress":[{"hostname":"a.b:443","service":"http://a"},{"service":"http_status:404"}]}}"#;
    let answer = call(&emulator, "PUT", &path, bad);
    assert_eq!((answer.status, answer.code()), (400, 1056));
    let text = "Bad Configuration: Validation failed: Hostname cannot contain a port";
    assert_eq!(answer.json()["errors"][0]["message"], text);
    assert_eq!(call(&emulator, "PUT", &path, "{}").status, 400);
    assert_eq!(emulator.version("shop"), 1);
}

#[test]
fn connectors_apply_the_latest_version_unless_the_first_one_lags() {
    let (emulator, path) = tunnel();
    emulator.put_configuration("shop", &catch_all("http_status:404")).unwrap();
    let path = path.replace("/configurations", "/connections");
    let versions = || {
        let connectors = read(&emulator, &path).result();
        let connectors = connectors.as_array().unwrap().iter();
        connectors.map(|connector| connector["config_version"].as_i64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(versions(), [1]);
    for (control, expected) in [
        (r#"{"tunnel":"shop","connectors":3,"lagging_at":0}"#, &[0, 1, 1][..]),
        (r#"{"tunnel":"shop","connectors":2}"#, &[1, 1]),
        (r#"{"tunnel":"shop"}"#, &[]),
    ] {
        assert_eq!(call(&emulator, "POST", "/_emulator/connectors", control).status, 200);
        assert_eq!(versions(), expected, "{control}");
    }
    assert_eq!(call(&emulator, "POST", "/_emulator/connectors", r#"{"tunnel":"none"}"#).status, 400);
}

/// Tried with cloudflared 2026.8.2: `ingress.StartOrigins` reads the file for these services and for no others.
#[test]
fn connectors_refuse_every_version_that_needs_a_file_they_do_not_have() {
    let (emulator, path) = tunnel();
    let path = path.replace("/configurations", "/connections");
    let version = || read(&emulator, &path).result()[0]["config_version"].as_i64().unwrap();
    let put = |service: &str, options: &str| {
        let rule =
            format!(r#"{{"hostname":"a.example.com","service":"{service}","originRequest":{options}}}"#);
        let config = format!(r#"{{"ingress":[{rule},{{"service":"http_status:404"}}]}}"#);
        emulator.put_configuration("shop", &config).unwrap()
    };
    emulator.edit(|cloudflare| cloudflare.tunnel_mut("shop").missing_files = vec!["/ca.pem".to_owned()]);
    let mut applied = version();
    for (service, options, is_applied) in [
        ("http://web", r#"{"caPool":"/other.pem"}"#, true),
        ("http://web", r#"{"caPool":"/ca.pem"}"#, false),
        ("wss://web", r#"{"CAPOOL":"/ca.pem"}"#, false),
        ("unix:/run/web.sock", r#"{"caPool":"/ca.pem","bastionMode":true}"#, false),
        ("hello_world", r#"{"caPool":"/ca.pem"}"#, false),
        ("tcp://web:1", r#"{"caPool":"/ca.pem"}"#, true),
        ("http_status:404", r#"{"caPool":"/ca.pem"}"#, true),
        ("bastion", r#"{"caPool":"/ca.pem"}"#, true),
        ("https://web", r#"{"caPool":"/ca.pem","bastionMode":true}"#, true),
    ] {
        let written = put(service, options);
        applied = if is_applied { written } else { applied };
        assert_eq!(version(), applied, "{service} {options}");
    }
    put("https://web", r#"{"caPool":"/ca.pem"}"#);
    emulator.edit(|cloudflare| cloudflare.tunnel_mut("shop").restart_connectors());
    assert_eq!(version(), -1);
    put("https://web", "{}");
    assert_eq!(version(), emulator.version("shop"));
}

#[test]
fn a_rule_that_only_cloudflare_dislikes_is_refused_by_number() {
    let (emulator, path) = tunnel();
    emulator.edit(|cloudflare| {
        cloudflare.whims_mut().dislike_rule(RuleText::Numbered, |rule| rule.hostname == "bad.test");
    });
    let put = |hostname: &str| {
        let rules = json!([
            {"hostname": "good.test", "service": "http://a"},
            {"hostname": hostname, "service": "http://a"},
            {"service": "http_status:404"},
        ]);
        call(&emulator, "PUT", &path, &json!({"config": {"ingress": rules}}).to_string())
    };
    let refused = put("bad.test");
    assert_eq!(refused.code(), 1056);
    assert!(refused.body.contains("Rule #2 "), "{}", refused.body);
    assert_eq!(put("fine.test").status, 200);
}

#[test]
fn defaults_are_dropped_and_empty_options_added_when_told() {
    let (emulator, path) = tunnel();
    emulator.edit(|cloudflare| cloudflare.whims_mut().drops_explicit_defaults = true);
    let body = r#"{"config":{"ingress":[{"hostname":"a.test","service":"http://a","originRequest":{"connectTimeout":30,"x":30,"noTLSVerify":true}},{"service":"http_status:404"}],"z":1}}"#;
    assert_eq!(call(&emulator, "PUT", &path, body).status, 200);
    let stored = r#"{"ingress":[{"hostname":"a.test","service":"http://a","originRequest":{"x":30,"noTLSVerify":true}},{"service":"http_status:404"}],"z":1}"#;
    assert_eq!(emulator.configuration("shop").as_deref(), Some(stored));
    emulator.edit(|cloudflare| cloudflare.whims_mut().adds_empty_origin_request = true);
    let shown = read(&emulator, &path).result();
    assert_eq!(shown["config"]["ingress"][1]["originRequest"], json!({}));
    assert_eq!(emulator.configuration("shop").as_deref(), Some(stored));
}

#[test]
fn a_visitor_is_led_by_record_tunnel_and_rule() {
    let (emulator, zone) = free_zone();
    let tunnel = emulator.add_tunnel("shop");
    let target = format!("{tunnel}.cfargotunnel.com");
    let add = |name: &str, proxied: bool| {
        let record = json!({"type": "CNAME", "name": name, "content": target, "proxied": proxied});
        emulator.add_record(&zone, record).unwrap();
    };
    add("www", true);
    add("plain", false);
    add("*.apps", true);
    emulator.add_record(&zone, json!({"type": "A", "name": "x.y.apps", "content": "192.0.2.1"})).unwrap();
    let served = |rule: Option<usize>, service: &str| Visit::Served {
        tunnel: tunnel.clone(),
        rule,
        service: service.to_owned(),
        origin_request: String::new(),
        audience: None,
    };
    assert_eq!(emulator.visit("www.example.com", "/"), served(None, "http_status:503"));
    let rules = r#"{"ingress":[
        {"hostname":"www.example.com","path":"^/api","service":"http://api"},
        {"hostname":"www.example.com","service":"http://www"},
        {"hostname":"*.example.com","service":"http://any"},
        {"service":"http_status:404"}]}"#;
    emulator.put_configuration(&tunnel, rules).unwrap();
    for (host, path, expected) in [
        ("www.example.com", "/api/x", served(Some(0), "http://api")),
        ("WWW.example.com", "/", served(Some(1), "http://www")),
        ("one.apps.example.com", "/", served(Some(2), "http://any")),
        ("one.two.apps.example.com", "/", served(Some(2), "http://any")),
        ("y.apps.example.com", "/", Visit::NoSuchName),
        ("z.y.apps.example.com", "/", Visit::NoSuchName),
        ("apps.example.com", "/", Visit::NoSuchName),
        ("other.example.com", "/", Visit::NoSuchName),
        ("plain.example.com", "/", Visit::NotProxied),
        ("x.y.apps.example.com", "/", Visit::Elsewhere { kind: "A".into(), content: "192.0.2.1".into() }),
        ("www.example.org", "/", Visit::NoSuchName),
    ] {
        assert_eq!(emulator.visit(host, path), expected, "{host}{path}");
    }
    emulator.edit(|cloudflare| cloudflare.tunnel_mut(&tunnel).deleted = true);
    assert_eq!(emulator.visit("www.example.com", "/"), Visit::NoTunnel);
}
