//! Answers that are well-formed and untrue: of another shape, older than what was seen, or a page for what was done.

use std::sync::Arc;
use std::time::Duration;

use cloudflare_emulator::{Fault, Matcher, Visit};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use serde_json::json;
use test_support::clock::ManualClock;
use test_support::harness::{Harness, Program, endpoint, published};

use crate::access_strangers::Stage;
use crate::shared_account::settle;

const WEB: &str = "http://web:80";

/// Which read of a configuration, or of records, in one loop is the one that a write goes by.
const BEFORE_THE_WRITE: usize = 3;

fn result(result: &str) -> Fault {
    let body = format!(r#"{{"success":true,"errors":[],"messages":[],"result":{result}}}"#);
    Fault::Status { code: 200, headers: Vec::new(), body }
}

fn all(names: &[&str]) -> Vec<Endpoint> {
    names.iter().map(|name| published(name, WEB)).collect()
}

fn with_two() -> (Harness, Program) {
    let harness = Harness::with_foreign();
    let program = harness.start();
    let two = all(&["a.example.com", "b.example.com"]);
    settle(program.external_dns(), &harness.cloudflare, &two).expect("published");
    harness.log.forget();
    (harness, program)
}

#[test]
fn an_answer_without_a_configuration_costs_nobody_a_rule() {
    for shape in ["{}", r#"{"foo":1}"#, r#"{"version":0,"config":null}"#] {
        let (harness, program) = with_two();
        let before = harness.rules();
        harness.cloudflare.fault(Matcher::get_configuration(), BEFORE_THE_WRITE, result(shape));
        let three = all(&["a.example.com", "b.example.com", "c.example.com"]);
        assert_eq!(program.external_dns().run_loop(&three).map(drop), Err(503), "{shape}");
        assert_eq!(harness.rules(), before, "{shape}");
        assert_eq!(harness.log.lines_with(&["refused=undecided", "came after version"]).len(), 1, "{shape}");
        program.external_dns().run_loop(&three).expect("published");
        assert_eq!(harness.rules().len(), before.len() + 1, "{shape}");
    }
}

/// A request that sees nothing but old answers would take out what came since; after ten minutes an operator has put an
/// old one back.
#[test]
fn a_configuration_older_than_one_seen_in_an_earlier_request_is_not_written_back_for_ten_minutes() {
    let harness = Harness::with_foreign();
    let clock = Arc::new(ManualClock::stopped());
    let program = harness.start_by(Arc::clone(&clock) as _, &[]);
    program.wait_until_ready();
    let external_dns = program.external_dns();
    let two = all(&["a.example.com", "b.example.com"]);
    settle(external_dns, &harness.cloudflare, &two).expect("published");
    let old = harness.cloudflare.configuration(&harness.tunnel).expect("a configuration");
    let version = harness.cloudflare.version(&harness.tunnel);
    let rule = r#""ingress":[{"hostname":"added.example.com","service":"http://added:80"},"#;
    let new = old.replace(r#""ingress": ["#, r#""ingress":["#).replacen(r#""ingress":["#, rule, 1);
    harness.cloudflare.put_configuration(&harness.tunnel, &new).expect("Cloudflare takes it");
    external_dns.run_loop(&two).expect("nothing to do");

    let stale = result(&format!(r#"{{"version":{version},"config":{old}}}"#));
    harness.cloudflare.fault_every(Matcher::get_configuration(), stale.clone());
    let three = all(&["a.example.com", "b.example.com", "c.example.com"]);
    for passed in [0, 599] {
        clock.put_ahead(Duration::from_secs(passed));
        assert_eq!(external_dns.run_loop(&three).map(drop), Err(503), "after {passed} s");
        assert!(harness.rules().iter().any(|rule| rule.contains("added.example.com")), "after {passed} s");
    }
    let came_after = format!("version {version} came after version {}", version + 1);
    assert_eq!(harness.log.lines_with(&["refused=undecided", &came_after]).len(), 1);
    clock.put_ahead(Duration::from_secs(1));
    harness.cloudflare.clear_faults();
    // What is written then is shown.
    for nth in 1..=BEFORE_THE_WRITE {
        harness.cloudflare.fault(Matcher::get_configuration(), nth, stale.clone());
    }
    let _ = external_dns.run_loop(&three);
    assert!(harness.rules().iter().any(|rule| rule.contains("c.example.com")));
}

/// With a list without the record that stands behind our wildcard, nobody would rely on its application.
#[test]
fn a_list_of_records_that_is_null_opens_nothing() {
    let Stage { harness, program, .. } = Stage::new(&[]);
    let theirs =
        json!({"name": "hand.apps.example.com", "type": "A", "content": "192.0.2.7", "proxied": true});
    harness.cloudflare.add_record(&harness.zone, theirs).expect("Cloudflare takes it");
    let stays = published("stays.example.com", WEB);
    let ours = endpoint("*.apps.example.com", &[("tunnel-service", WEB), ("access-policy", "staff")]);
    settle(program.external_dns(), &harness.cloudflare, &[ours, stays.clone()]).expect("published");
    harness.cloudflare.fault(Matcher::list_records(), BEFORE_THE_WRITE, result("null"));
    let _ = program.external_dns().run_loop(&[stays]);
    let visit = harness.cloudflare.visit("hand.apps.example.com", "/");
    assert!(matches!(visit, Visit::TurnedAway { .. }), "{visit:?}");
}

/// A smaller group that begins with the document before it would take it back.
#[test]
fn a_configuration_that_was_written_and_answered_by_a_page_is_not_taken_back() {
    let services = |service: &str| -> Vec<Endpoint> {
        (0..20).map(|number| published(&format!("h{number}.example.com"), service)).collect()
    };
    let harness = Harness::with_foreign();
    let program = harness.start();
    let external_dns = program.external_dns();
    settle(external_dns, &harness.cloudflare, &services(WEB)).expect("published");
    let page = Fault::DoneBut(Box::new(Fault::Garbage));
    harness.cloudflare.fault_every(Matcher::put_configuration(), page);
    harness.cloudflare.take_calls();
    for _ in 0..2 {
        let _ = external_dns.run_loop(&services("http://new:80"));
    }
    let puts = harness.cloudflare.take_calls().iter().filter(|call| call.method == "PUT").count();
    let changed = harness.rules().iter().filter(|rule| rule.contains("http://new:80")).count();
    assert_eq!((puts, changed), (1, 20));
    assert_eq!(harness.log.lines_with(&["another writer"]), [""; 0], "nobody else is blamed for it");
}

/// Under the registry crd nobody would ask again for the rule.
#[test]
fn records_that_were_made_and_answered_as_there_already_are_no_refusal() {
    let harness = Harness::with_foreign();
    let program = harness.start();
    let external_dns = program.external_dns();
    for code in [81053, 81054, 81057, 81058] {
        let desired = all(&[&format!("h{code}.example.com")]);
        let there_already = Fault::error(400, code, "a record with that host already exists");
        harness.cloudflare.fault(Matcher::batch(), 1, Fault::DoneBut(Box::new(there_already)));
        assert_eq!(external_dns.run_loop(&desired).map(drop), Err(503), "{code}");
        settle(external_dns, &harness.cloudflare, &desired).expect("published");
        let visit = harness.cloudflare.visit(&desired[0].dns_name, "/");
        assert!(matches!(visit, Visit::Served { ref service, .. } if service == WEB), "{code}: {visit:?}");
    }
}
