//! What the program does without Access, swept: at every single call something goes wrong, in every way.

use cloudflare_emulator::Emulator;
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use serde_json::json;
use test_support::harness::{FOREIGN_DOCUMENT, endpoint, published};

use crate::sweep::{Scenario, survive_every_old_answer};

#[test]
fn a_first_publication_in_two_zones_survives_every_fault() {
    first_publication().survives_every_fault();
}

#[test]
fn a_change_of_services_survives_every_fault() {
    change_of_services().survives_every_fault();
}

#[test]
fn a_withdrawal_survives_every_fault() {
    withdrawal().survives_every_fault();
}

#[test]
fn a_mixed_request_survives_every_fault() {
    mixed_request().survives_every_fault();
}

#[test]
fn a_move_to_another_tunnel_survives_every_fault() {
    movement().survives_every_fault();
}

#[test]
fn an_adoption_survives_every_fault() {
    adoption().survives_every_fault();
}

#[test]
fn what_is_published_changed_moved_or_withdrawn_survives_every_old_answer() {
    survive_every_old_answer([
        ("a first publication", &first_publication()),
        ("a change of services", &change_of_services()),
        ("a withdrawal", &withdrawal()),
        ("a mixed request", &mixed_request()),
        ("a move to another tunnel", &movement()),
        ("an adoption", &adoption()),
    ]);
}

fn first_publication() -> Scenario {
    Scenario { desired: shop("http://web:80"), ..Scenario::default() }
}

fn change_of_services() -> Scenario {
    Scenario { before: shop("http://web:80"), desired: shop("https://web:443"), ..Scenario::default() }
}

fn withdrawal() -> Scenario {
    Scenario { before: shop("http://web:80"), ..Scenario::default() }
}

/// Every kind of step in one request: rules that go, that change, and new ones on new and on old records.
fn mixed_request() -> Scenario {
    let before = vec![
        published("stays.example.com", "http://stays:80"),
        published("changes.example.com", "http://old:80"),
        published("goes.example.com", "http://goes:80"),
        published("gets-a-path.example.org", "http://web:80"),
        path("changes-its-path.example.org", "/old", "http://web:80"),
        endpoint("loses-its-rule.example.org", &[("tunnel-service", "http://web:80")]),
        endpoint("gets-a-rule.example.com", &[("tunnel-service", "none")]),
    ];
    let desired = vec![
        published("stays.example.com", "http://stays:80"),
        published("changes.example.com", "http://new:80"),
        published("comes.example.com", "http://comes:80"),
        published("gets-a-path.example.org", "http://web:80"),
        path("gets-a-path.example.org", "/api", "http://api:80"),
        path("changes-its-path.example.org", "/new", "http://web:80"),
        endpoint("loses-its-rule.example.org", &[("tunnel-service", "none")]),
        endpoint("gets-a-rule.example.com", &[("tunnel-service", "http://web:80")]),
    ];
    Scenario { before, desired, ..Scenario::default() }
}

fn movement() -> Scenario {
    let shop_in = |tunnel: &str| {
        let service = ("tunnel-service", "http://web:80");
        vec![
            endpoint("moves.example.com", &[("tunnel", tunnel), service]),
            endpoint("moves.example.com", &[("tunnel", tunnel), ("tunnel-path-prefix", "/api"), service]),
            endpoint("shop.example.org", &[("tunnel", tunnel), service]),
            published("stays.example.com", "http://stays:80"),
        ]
    };
    Scenario { before: shop_in("home"), desired: shop_in("office"), ..Scenario::default() }
}

/// A hostname that is changed in its place, one that moves to another tunnel, addresses with ExternalDNS's TXT records,
/// and another owner's.
fn adoption() -> Scenario {
    let service = ("tunnel-service", "http://web:80");
    let desired = vec![
        published("adopted-rule.example.com", "http://web:80"),
        endpoint("adopted-and-moved.example.com", &[service, ("tunnel", "office")]),
        published("adopted-address.example.org", "http://web:80"),
        published("adopted-stamp.example.org", "http://web:80"),
        published("comes.example.com", "http://comes:80"),
    ];
    let adopt = "tunnel,owner=default,owner=other";
    Scenario { holding: hold, desired, adopt, ..Scenario::default() }
}

/// What the scenario's mode takes over.
fn hold(cloudflare: &Emulator) {
    let home = cloudflare.edit(|cloudflare| cloudflare.tunnel("home").hostname());
    let heritage = "\"heritage=external-dns,external-dns/owner=default\"";
    for (name, kind, content, comment) in [
        ("adopted-rule.example.com", "CNAME", &*home, "Jo's"),
        ("adopted-and-moved.example.com", "CNAME", &home, ""),
        ("adopted-address.example.org", "A", "192.0.2.1", ""),
        ("adopted-address.example.org", "A", "192.0.2.2", ""),
        // Under the name that ExternalDNS gave it up to 0.11, as no watch is kept over names that begin so.
        ("adopted-address.example.org", "TXT", heritage, ""),
        ("adopted-stamp.example.org", "CNAME", &home, "external-dns owner=other rules=-"),
    ] {
        let zone = if name.ends_with(".com") { "example.com" } else { "example.org" };
        let record = json!({"name": name, "type": kind, "content": content, "comment": comment, "proxied": kind == "CNAME"});
        cloudflare.add_record(zone, record).expect("Cloudflare takes it");
    }
    let rules = ["adopted-rule.example.com", "adopted-and-moved.example.com"]
        .map(|name| format!(r#"{{"hostname":"{name}","service":"http://theirs:80"}},"#));
    let wildcard = r#"{"hostname":"*.example.com""#;
    let document = FOREIGN_DOCUMENT.replace(wildcard, &format!("{}{wildcard}", rules.concat()));
    cloudflare.put_configuration("home", &document).expect("cloudflared takes it");
}

fn path(name: &str, prefix: &str, service: &str) -> Endpoint {
    endpoint(name, &[("tunnel-service", service), ("tunnel-path-prefix", prefix)])
}

fn shop(service: &str) -> Vec<Endpoint> {
    vec![
        published("web.example.com", service),
        published("*.apps.example.com", service),
        published("example.org", service),
        published("api.example.org", service),
        path("api.example.org", "/v2", service),
        endpoint("plain.example.org", &[("tunnel-service", "none")]),
    ]
}
