//! No rule of one endpoint stops a tunnel, and where one does nevertheless, an operator reads which connector it keeps.

#![allow(clippy::indexing_slicing, clippy::panic, reason = "what is missing fails the test")]

use std::sync::Arc;
use std::time::Duration;

use cloudflare_emulator::{Fault, Matcher};
use external_dns_cloudflare_tunnel_webhook::limits;
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use test_support::clock::{ManualClock, eventually};
use test_support::harness::{Harness, Program, endpoint, published};

const MISSING: &str = "/etc/nowhere/ca.pem";

/// Cloudflare with a tunnel whose connectors do not have [`MISSING`].
fn harness() -> Harness {
    let harness = Harness::new();
    harness
        .cloudflare
        .edit(|cloudflare| cloudflare.tunnel_mut("home").missing_files.push(MISSING.to_owned()));
    harness
}

fn with_file(name: &str, file: &str) -> Endpoint {
    endpoint(name, &[("tunnel-service", "https://web:443"), ("origin-ca-pool", file)])
}

fn run(program: &Program, desired: &[Endpoint]) {
    program.external_dns().run_loop(desired).expect("the loop goes through");
}

/// cloudflared reads the file of each rule as it takes a configuration, and refuses the whole where one is not there
/// (`ingress/origin_service.go`, `newHTTPTransport`).
#[test]
fn a_file_that_the_operator_did_not_list_never_reaches_a_tunnel() {
    for guard in ["false", "true"] {
        let harness = harness();
        let good = published("good.example.com", "http://web.shop.svc:80");
        let mut bad = with_file("unlisted.example.com", MISSING);
        bad.provider_specific[0].value = "https://web.shop.svc:443".into();
        let program = harness.start_with(&[("NAMESPACE_GUARD", guard), ("ORIGIN_CA_POOLS", "/etc/ca.pem")]);
        run(&program, &[bad.clone(), good]);
        let changed = published("good.example.com", "http://other.shop.svc:80");
        run(&program, &[bad, changed]);
        let served_now = || harness.service_at("good.example.com", "/");
        assert_eq!(served_now(), "http://other.shop.svc:80", "NAMESPACE_GUARD={guard}");
        harness.cloudflare.edit(|cloudflare| cloudflare.tunnel_mut("home").restart_connectors());
        assert_eq!(served_now(), "http://other.shop.svc:80", "NAMESPACE_GUARD={guard}");
        let refusal = harness.log.lines_with(&[
            "\"unlisted.example.com\"",
            "refused=invalid",
            "ORIGIN_CA_POOLS",
            MISSING,
        ]);
        assert_eq!(refusal.len(), 1, "NAMESPACE_GUARD={guard}: {refusal:#?}");
    }
}

#[test]
fn a_file_that_the_operator_listed_is_taken() {
    for (setting, file) in [
        ("ORIGIN_CA_POOLS", "/etc/ca.pem"),
        ("ORIGIN_CA_POOLS", "/etc/other.pem, /etc/ca.pem"),
        ("ORIGIN_CA_POOL", "/etc/ca.pem"),
    ] {
        let harness = harness();
        let program = harness.start_with(&[(setting, file)]);
        run(&program, &[with_file("listed.example.com", "/etc/ca.pem")]);
        assert!(harness.rules()[0].contains("\"/etc/ca.pem\""), "{setting}: {:?}", harness.rules());
    }
}

/// Another spelling may lead to another file, and a file that is left out takes a site off whose certificate it vouched
/// for.
#[test]
fn another_spelling_of_a_listed_file_is_refused() {
    let harness = harness();
    let program = harness.start_with(&[("ORIGIN_CA_POOLS", "/etc/ca.pem")]);
    let spellings = [
        "//etc/ca.pem",
        "/etc/../etc/ca.pem",
        "etc/ca.pem",
        "/etc/ca.pem ",
        "/ETC/ca.pem",
        "",
        "/etc/ca.pem\n",
    ];
    let published_before = [with_file("spelt.example.com", "/etc/ca.pem")];
    run(&program, &published_before);
    let before = harness.rules();
    for spelling in spellings {
        run(&program, &[with_file("spelt.example.com", spelling)]);
        assert_eq!(harness.rules(), before, "{spelling:?}");
    }
}

/// As after an upgrade from a release that took any file.
#[test]
fn a_hostname_whose_file_is_listed_no_longer_stays_as_it_is_and_is_told_of() {
    let harness = harness();
    let desired = [with_file("kept.example.com", "/etc/ca.pem")];
    let program = harness.start_with(&[("ORIGIN_CA_POOLS", "/etc/ca.pem")]);
    run(&program, &desired);
    let rules = harness.rules();
    drop(program);

    let program = harness.start();
    for desired in [&desired[..], &desired, &[with_file("kept.example.com", "/etc/another.pem")]] {
        run(&program, desired);
        assert_eq!(harness.rules(), rules);
    }
    let told = harness.log.lines_with(&["WARN", "\"kept.example.com\"", "ORIGIN_CA_POOLS"]);
    assert_eq!(told.len(), 2, "once for each file: {told:#?}");
    run(&program, &[]);
    assert!(!harness.cloudflare.visit("kept.example.com", "/").is_served(), "it can be withdrawn");
}

#[test]
fn a_service_behind_this_programs_own_ports_is_refused() {
    let harness = harness();
    let program = harness.start();
    let (api, observation) = (program.external_dns().api.port(), program.observation().port());
    for (index, service) in [
        format!("http://localhost:{api}"),
        format!("tcp://127.0.0.1:{observation}"),
        format!("http://[::1]:{observation}"),
        format!("http://127.1.2.3:{api}"),
    ]
    .iter()
    .enumerate()
    {
        let name = format!("own{index}.example.com");
        run(&program, &[published(&name, service)]);
        assert!(!harness.cloudflare.visit(&name, "/").is_served(), "{service}");
        let told = harness.log.lines_with(&[&format!("\"{name}\""), "refused=invalid", "the webhook's own"]);
        assert_eq!(told.len(), 1, "{service}: {told:#?}");
    }
    let neighbour = format!("http://web.shop.svc:{api}");
    run(&program, &[published("other.example.com", &neighbour)]);
    assert_eq!(harness.service_at("other.example.com", "/"), neighbour);
}

/// The operator's own list may be wrong.
#[test]
fn a_connector_that_does_not_take_a_version_from_one_look_to_the_next_is_named() {
    for fault in [None, Some(Fault::DoneButUnanswered)] {
        let harness = harness();
        let clock = Arc::new(ManualClock::default());
        let program = harness.start_by(Arc::clone(&clock) as _, &[("ORIGIN_CA_POOLS", MISSING)]);
        program.wait_until_ready();
        let looks = || {
            let calls = harness.cloudflare.calls();
            calls.iter().filter(|call| call.path.ends_with("/connections")).count()
        };
        let pass = |period: Duration| {
            // The watch has seen the version that was written.
            clock.await_watch();
            let before = looks();
            clock.put_ahead(period);
            eventually("a look", || looks() > before);
            clock.await_watch();
        };
        let told =
            || harness.log.lines_with(&["WARN", "the tunnel \"home\"", "still serves an older version"]);
        run(&program, &[published("before.example.com", "http://web:80")]);
        pass(limits::CONNECTORS_PERIOD);

        let mut desired = vec![published("before.example.com", "http://web:81")];
        run(&program, &desired);
        desired.push(with_file("stop.example.com", MISSING));
        if let Some(fault) = fault {
            harness.cloudflare.fault(Matcher::put_configuration(), 1, fault);
        }
        run(&program, &desired);
        pass(limits::CONNECTORS_PERIOD);
        assert_eq!(told(), [""; 0], "late once is no trouble");
        pass(limits::CONNECTORS_PERIOD);
        let [line] = &*told() else { panic!("{:#?}", told()) };
        assert!(
            line.contains(
                "still serves an older version of the configuration: see the log of that cloudflared"
            ),
            "{line}"
        );

        run(&program, &[published("before.example.com", "http://web:81")]);
        pass(limits::CONNECTORS_PERIOD);
        assert_eq!(harness.service_at("before.example.com", "/"), "http://web:81");
        pass(limits::CONNECTORS_PERIOD);
        assert_eq!(told().len(), 1, "all of them have applied it");
    }
}
