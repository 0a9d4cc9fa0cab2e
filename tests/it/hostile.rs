//! Attempts to break what is promised of digests without a rule, tunnels that cannot be written, and `status`.

use std::time::Duration;

use cloudflare_emulator::{Fault, Matcher};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use serde_json::json;
use test_support::harness::{Harness, Program, endpoint, published};

use crate::shared_account::{settle, stamp};

const WEB: &str = "http://web:80";
const A: &str = "a.example.com";

fn digests_of_a(harness: &Harness) -> usize {
    let records = harness.cloudflare.records(&harness.zone);
    let mut ours = records.iter().filter(|record| record.name == A);
    ours.next().and_then(stamp).map_or(0, |stamp| stamp.claims.rules.len())
}

/// The comment of `a.example.com` names a rule that another instance is about to write.
fn stamped_by_another() -> (Harness, Program) {
    let harness = Harness::with_foreign();
    let first = harness.start();
    let a = published(A, WEB);
    settle(first.external_dns(), &harness.cloudflare, std::slice::from_ref(&a)).expect("published");
    harness.cloudflare.fault_every(Matcher::put_configuration(), Fault::status(500));
    let more = [a, endpoint(A, &[("tunnel-service", WEB), ("tunnel-path", "^/c$")])];
    assert_eq!(first.external_dns().run_loop(&more).map(drop), Err(503));
    harness.cloudflare.clear_faults();
    let second = first.restart(&harness);
    second.wait_until_ready();
    assert_eq!(digests_of_a(&harness), 2);
    harness.log.forget();
    (harness, second)
}

/// Two objects ask for one place: the holder with a login, the other one open. The hostname has rules of several objects, so
/// its stamp names none. Between the two answers of one loop the list of another zone is old.
#[test]
fn an_old_answer_about_another_zone_does_not_give_a_protected_place_to_the_object_that_opens_it() {
    use crate::access_strangers::{AGE_MIN, NAME, SECRET, Stage};
    use test_support::harness::endpoint_of;
    let stage = Stage::new(&[]);
    let organisation = stage.cloudflare().add_zone("example.org", cloudflare_emulator::Plan::Free);
    stage.cloudflare().keep_past();
    let closed =
        endpoint_of("ingress/shop/closed", NAME, &[("tunnel-service", SECRET), ("access-policy", "staff")]);
    let open =
        endpoint_of("ingress/shop/aaa", NAME, &[("tunnel-service", SECRET), ("access-policy", "none")]);
    let beside = endpoint_of(
        "ingress/shop/other",
        NAME,
        &[("tunnel-service", WEB), ("tunnel-path-prefix", "/x"), ("access-policy", "staff")],
    );
    let others = ["/a", "/b", "/c"]
        .map(|path| endpoint("a.example.org", &[("tunnel-service", WEB), ("tunnel-path", path)]));
    stage.cloudflare().advance_clock(AGE_MIN * 2);
    let mut held = vec![closed.clone(), beside.clone()];
    for _ in 0..4 {
        stage.cloudflare().advance_clock(Duration::from_secs(60));
        let _ = stage.run_loop(&held);
    }
    for other in &others {
        stage.cloudflare().advance_clock(Duration::from_secs(1));
        held.push(other.clone());
        let _ = stage.run_loop(&held);
    }
    let both = [&[open, closed, beside][..], &others].concat();
    let quiet = stage.run_loop(&both);
    let changes = quiet.expect("nothing to do");
    assert!(changes.update_new.is_empty() && changes.create.is_empty(), "{changes:?}");
    let checks = || stage.harness.rules().iter().filter(|rule| rule.contains("audTag")).count();
    assert_eq!(checks(), 2);
    let list = Matcher::call("GET", &format!("/zones/{organisation}/dns_records"));
    for _ in 0..3 {
        // The two reads of GET /records. Those of POST /records are as they should be.
        for nth in [1, 2] {
            stage.cloudflare().fault(list.clone(), nth, Fault::Old { writes: 1 });
        }
        let _ = stage.run_loop(&both);
        stage.cloudflare().clear_faults();
        stage.cloudflare().advance_clock(Duration::from_secs(20));
    }
    for _ in 0..4 {
        let _ = stage.run_loop(&both);
        stage.cloudflare().advance_clock(Duration::from_secs(150));
    }
    assert_eq!((stage.policies().len(), checks(), stage.leaks()), (2, 2, vec![]), "the place has opened");
}

/// The same without Access: the path goes to another object's service and back.
#[test]
fn an_old_answer_about_another_zone_gives_no_place_to_another_object_than_its_holder() {
    use test_support::harness::endpoint_of;
    let harness = Harness::new();
    let organisation = harness.cloudflare.add_zone("example.org", cloudflare_emulator::Plan::Free);
    harness.cloudflare.keep_past();
    let program = harness.start();
    let external_dns = program.external_dns();
    let holder = endpoint_of("ingress/shop/holder", A, &[("tunnel-service", "http://holder:80")]);
    let beside = endpoint_of("ingress/shop/beside", A, &[("tunnel-service", WEB), ("tunnel-path", "^/x$")]);
    let other = endpoint_of("ingress/bank/aaa", A, &[("tunnel-service", "http://other:80")]);
    let mut held = vec![holder, beside];
    settle(external_dns, &harness.cloudflare, &held).expect("published");
    for path in ["/a", "/b", "/c"] {
        held.push(endpoint("a.example.org", &[("tunnel-service", WEB), ("tunnel-path", path)]));
        settle(external_dns, &harness.cloudflare, &held).expect("published");
    }
    held.insert(0, other);
    let changes = external_dns.run_loop(&held).expect("nothing to do");
    assert!(changes.update_new.is_empty(), "{changes:?}");
    let list = Matcher::call("GET", &format!("/zones/{organisation}/dns_records"));
    for nth in [1, 2] {
        harness.cloudflare.fault(list.clone(), nth, Fault::Old { writes: 1 });
    }
    let answer = external_dns.run_loop(&held).map(drop);
    assert_eq!(harness.service_at(A, "/"), "http://holder:80", "{answer:?}");
}

/// Cloudflare fails on what is to be written, and takes all else: each version makes every replica of cloudflared build its
/// proxies anew.
#[test]
fn where_only_the_content_fails_the_probe_does_not_write_a_version_in_every_loop() {
    let harness = Harness::with_foreign();
    let program = harness.start();
    let a = published(A, WEB);
    settle(program.external_dns(), &harness.cloudflare, std::slice::from_ref(&a)).expect("published");
    let matcher = Matcher::put_configuration().with_body("b.example.com");
    harness.cloudflare.fault_every(matcher, Fault::status(500));
    let both = [a, published("b.example.com", WEB)];
    let mut versions = Vec::new();
    for _ in 0..10 {
        let before = harness.cloudflare.version(&harness.tunnel);
        let _ = program.external_dns().run_loop(&both);
        versions.push(harness.cloudflare.version(&harness.tunnel) - before);
        harness.cloudflare.advance_clock(Duration::from_secs(60));
    }
    let more: i64 = versions.iter().sum();
    assert!(more <= 3, "{more} versions of the same content in ten loops: {versions:?}");
}

#[test]
fn a_digest_of_another_instance_stays_for_a_minute_also_where_a_write_of_this_one_failed() {
    for fault in [Fault::status(500), Fault::error(403, 10000, "Authentication error")] {
        let (harness, second) = stamped_by_another();
        harness.cloudflare.fault(Matcher::put_configuration(), 1, fault.clone());
        for number in 0..2 {
            let _ = second.external_dns().run_loop(&[published(A, "http://new:80")]);
            assert_eq!(digests_of_a(&harness), 2, "loop {number}, {fault:?}");
        }
    }
}

/// Its rule was deleted by hand, and a wildcard record leads elsewhere.
#[test]
fn what_the_comment_of_a_long_published_hostname_says_outlives_a_tunnel_that_cannot_be_written() {
    use test_support::harness::endpoint_of;
    let harness = Harness::new();
    let wildcard = json!({"name": "*.example.com", "type": "A", "content": "192.0.2.50", "proxied": true});
    harness.cloudflare.add_record(&harness.zone, wildcard).expect("Cloudflare takes it");
    let program = harness.start_with(&[("NAMESPACE_GUARD", "true")]);
    let external_dns = program.external_dns();
    let of = |namespace: &str, object: &str| {
        let service = format!("http://web.{namespace}.svc:80");
        endpoint_of(&format!("ingress/{namespace}/{object}"), A, &[("tunnel-service", &service)])
    };
    let shop = of("shop", "web");
    settle(external_dns, &harness.cloudflare, std::slice::from_ref(&shop)).expect("published");
    harness.cloudflare.edit(|cloudflare| {
        let record =
            cloudflare.records(&harness.zone).iter().find(|one| one.name == A).expect("ours").clone();
        let comment = format!("{} | ask Jo first", record.comment.unwrap_or_default());
        cloudflare.patch_record(&harness.zone, &record.id, &json!({"comment": comment})).expect("taken");
        let none = r#"{"ingress":[{"service":"http_status:404"}]}"#;
        cloudflare.put_configuration(&harness.tunnel, none).expect("cloudflared takes it");
    });
    harness.cloudflare.advance_clock(Duration::from_secs(3600));
    let both = [of("bank", "aaa"), shop];
    harness.cloudflare.fault_every(Matcher::put_configuration(), Fault::status(500));
    for _ in 0..3 {
        let _ = external_dns.run_loop(&both);
        harness.cloudflare.advance_clock(Duration::from_secs(60));
    }
    harness.cloudflare.clear_faults();
    for _ in 0..4 {
        let _ = external_dns.run_loop(&both);
        harness.cloudflare.advance_clock(Duration::from_secs(60));
    }
    let comments: Vec<String> = harness.cnames().into_iter().map(|(.., comment)| comment).collect();
    assert_eq!(harness.service_at(A, "/"), "http://web.shop.svc:80", "{comments:?}");
    assert!(comments.iter().all(|comment| comment.ends_with("| ask Jo first")), "{comments:?}");
}

#[test]
fn a_write_of_another_program_that_the_probe_overwrites_is_told_as_a_lost_update() {
    let harness = Harness::with_foreign();
    let program = harness.start();
    let all = [published(A, WEB)];
    harness.cloudflare.fault(Matcher::put_configuration(), 1, Fault::status(500));
    let tunnel = harness.tunnel.clone();
    harness.cloudflare.edit_before(Matcher::put_configuration(), 2, move |cloudflare| {
        let old = cloudflare.configuration(&tunnel).expect("a configuration").get().to_owned();
        let rule = r#""ingress":[{"hostname":"added.example.com","service":"http://added:80"},"#;
        let new = old.replace(r#""ingress": ["#, r#""ingress":["#).replacen(r#""ingress":["#, rule, 1);
        cloudflare.put_configuration(&tunnel, &new).expect("Cloudflare takes it");
    });
    let _ = program.external_dns().run_loop(&all);
    let is_there = harness.rules().iter().any(|rule| rule.contains("added.example.com"));
    let lines = harness.log.lines_with(&["another writer"]).len();
    assert!(is_there || lines > 0, "it is lost in silence: {:?}", harness.rules());
}

/// The tunnel that is tried takes half of a request's time, so records have the other half.
#[test]
fn below_another_record_no_new_hostname_stays_offline_while_no_write_of_the_tunnel_is_answered() {
    let harness = Harness::with_foreign();
    let wildcard = json!({"name": "*.example.com", "type": "A", "content": "192.0.2.50", "proxied": true});
    harness.cloudflare.add_record(&harness.zone, wildcard).expect("Cloudflare takes it");
    let program = harness.start_with(&[("REQUEST_TIMEOUT", "4s")]);
    let all: Vec<Endpoint> =
        (0..30).map(|number| published(&format!("h{number}.example.com"), WEB)).collect();
    harness.cloudflare.fault_every(Matcher::put_configuration(), Fault::Hang);
    for _ in 0..3 {
        let _ = program.external_dns().run_loop(&all);
    }
    let offline = all.iter().filter(|one| harness.service_at(&one.dns_name, "/") != "A 192.0.2.50");
    assert_eq!(offline.count(), 0);
}

#[test]
fn a_write_that_the_token_may_not_make_is_told_once() {
    for fault in [Fault::error(403, 10000, "Authentication error")] {
        let harness = Harness::with_foreign();
        let program = harness.start();
        harness.cloudflare.fault_every(Matcher::put_configuration(), fault.clone());
        for _ in 0..6 {
            let _ = program.external_dns().run_loop(&[published(A, WEB)]);
            harness.cloudflare.advance_clock(Duration::from_secs(60));
        }
        let lines = harness.log.lines_with(&["WARN"]);
        assert!(lines.len() <= 2, "{}", lines.len());
    }
}

#[test]
fn a_tunnel_that_was_never_configured_is_not_given_an_empty_document_by_the_probe() {
    let harness = Harness::new();
    let program = harness.start();
    harness.cloudflare.fault(Matcher::put_configuration(), 1, Fault::status(500));
    harness.cloudflare.take_calls();
    let _ = program.external_dns().run_loop(&[published(A, WEB)]);
    let calls = harness.cloudflare.take_calls();
    let puts: Vec<String> = calls
        .iter()
        .filter(|call| call.method == "PUT")
        .map(|call| format!("{call:?}").chars().take(500).collect())
        .collect();
    assert!(puts.len() <= 2, "{puts:#?}");
}
