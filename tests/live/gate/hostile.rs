//! Writes that must not be sent: `hostile.jsonl` has a line for each, with why, method, target and body.

use cloudflare_emulator::Plan;
use live::guard::{Bounds, Known, judge};
use live::intents::Kind;
use serde_json::{Value, json};
use test_support::external_dns::exchange;

use crate::{emulator, look_at, state};

/// What a run knows that has created an object of each kind, and has read rules of others in its tunnel.
fn known() -> (Bounds, Known) {
    let [account, zone, domain, label, tag] =
        ["account", "zone", "example.com", "edctw-live-0a1b2c3d", "tag"].map(str::to_owned);
    let (bounds, mut known) = (Bounds { account, zone, domain, label, tag }, Known::default());
    known.is_free = true;
    known.insert(Kind::Record, "record-1");
    known.insert(Kind::Tunnel, "tunnel-1");
    known.insert(Kind::Application, "app-1");
    known.insert(Kind::Tag, "tag");
    let answer = format!(r#"{{"success":true,"result":{}}}"#, document(""));
    known.learn("/accounts/account/cfd_tunnel/tunnel-1/configurations", &Vec::new(), &answer);
    (bounds, known)
}

/// A configuration with the two rules of others that were read.
fn document(ours: &str) -> String {
    let theirs =
        r#"{ "service": "http://theirs:80",  "hostname":"hand.example.com"},{"service":"http_status:503"}"#;
    format!(r#"{{"config":{{"ingress":[{ours}{theirs}]}}}}"#)
}

#[test]
fn no_hostile_write_passes_the_guard_and_the_writes_of_a_run_do() {
    let (bounds, known) = known();
    let table: Vec<[Value; 4]> =
        include_str!("hostile.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(table.len() >= 50, "{}", table.len());
    for [why, method, target, body] in table {
        let body = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
        let judged = judge(&bounds, &known, method.as_str().unwrap(), target.as_str().unwrap(), &body);
        assert!(judged.is_err(), "{why}: {method} {target} {body}");
    }
    let own = bounds.hostname(2);
    let (place, rule) = (format!("{own}/api"), format!(r#"{{"hostname":"{own}"}},"#));
    let app = json!({"type": "self_hosted", "domain": place, "tags": ["tag"], "policies": ["id"]});
    let record = json!({"type": "CNAME", "name": own, "content": "tunnel-1.cfargotunnel.com"});
    let batch = json!({"posts": [record], "deletes": [{"id": "record-1"}]});
    let tunnel = json!({"name": bounds.name(2)}).to_string();
    for (method, target, body) in [
        ("POST", "/zones/zone/dns_records/batch", batch.to_string()),
        ("PUT", "/accounts/account/cfd_tunnel/tunnel-1/configurations", document(&rule)),
        ("DELETE", "/accounts/account/cfd_tunnel/tunnel-1", String::new()),
        ("POST", "/accounts/account/cfd_tunnel", tunnel.clone()),
        ("POST", "/accounts/account/access/apps", app.to_string()),
        ("GET", "/zones/other/dns_records?page=2", String::new()),
    ] {
        assert!(judge(&bounds, &known, method, target, &body).is_ok(), "{method} {target} {body}");
    }
    let judged = judge(&bounds, &Known::default(), "POST", "/accounts/account/cfd_tunnel", &tunnel);
    assert!(judged.is_err(), "the name was not asked for as free");
}

/// As the binary would send it.
#[test]
fn a_foreign_id_that_a_list_has_shown_reaches_no_write_through_the_proxy() {
    let emulator = emulator(Plan::Free);
    let look = look_at(&emulator, "hostile");
    let (before, account) = (state(&emulator), emulator.account());
    let zone = emulator.edit(|cloudflare| cloudflare.zone("example.com").id.clone());
    let record = json!({"deletes": [{"id": emulator.records(&zone)[0].id}]}).to_string();
    let tunnel = emulator.edit(|cloudflare| cloudflare.tunnels()[0].id.clone());
    let application = emulator.applications()[0].id.clone();
    emulator.take_calls();
    for (method, target, body) in [
        ("POST", format!("/zones/{zone}/dns_records/batch"), &*record),
        ("DELETE", format!("/accounts/{account}/cfd_tunnel/{tunnel}"), ""),
        ("PUT", format!("/accounts/{account}/cfd_tunnel/{tunnel}/configurations"), &*document("")),
        ("DELETE", format!("/accounts/{account}/access/apps/{application}"), ""),
        ("DELETE", format!("/accounts/{account}/access/tags/foreign"), ""),
        ("POST", "/user/tokens".to_owned(), "{}"),
    ] {
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let address = look.proxy.base_url().trim_start_matches("http://").parse().unwrap();
        let answer = exchange(address, &[head.as_bytes(), body.as_bytes()]).unwrap();
        assert!(answer.status == 403 && answer.body.contains("not sent"), "{target}: {}", answer.body);
    }
    assert_eq!((emulator.take_calls(), state(&emulator)), (Vec::new(), before));
}
