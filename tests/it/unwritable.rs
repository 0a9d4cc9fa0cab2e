//! Tunnels that can be read and not written: the token may only read, or Cloudflare fails for an hour. A new hostname
//! has its record before its rule, so a name that another record serves must not lose it meanwhile.

use std::sync::Arc;
use std::time::Duration;

use cloudflare_emulator::{Emulator, Fault, Matcher, Visit};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use serde_json::json;
use test_support::clock::ManualClock;
use test_support::harness::{Harness, endpoint, endpoint_of, published};

use crate::shared_account::{SharedAccount, settle};
use crate::simulation::{Pace, Simulation};

const INTERVAL: Duration = Duration::from_secs(60);

const HOUR: usize = 60;

const WEB: &str = "http://web:80";
const A: &str = "a.example.com";

/// A wildcard record that leads past the tunnels, as where a proxy served the zone before.
fn proxy_of_a_zone(cloudflare: &Emulator, zone: &str) {
    let name = format!("*.{zone}");
    let wildcard = json!({"name": name, "type": "A", "content": "192.0.2.50", "proxied": true});
    cloudflare.add_record(zone, wildcard).expect("Cloudflare takes it");
}

/// Nothing is published yet.
fn below_a_proxy() -> Simulation {
    let pace = Pace { connectors: vec![0], records: 0, write: 0 };
    let mut simulation = Simulation::new(
        SharedAccount::holding(|cloudflare| proxy_of_a_zone(cloudflare, "example.org")),
        &[],
        pace,
    );
    simulation.run_to_rest(&[]).expect("nothing is published");
    simulation
}

fn watch(simulation: &Simulation, wanted: &[Endpoint]) {
    let urls: Vec<String> = wanted.iter().map(|one| format!("https://{}/", one.dns_name)).collect();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    simulation.account.cloudflare().watch(&urls);
}

fn thirty() -> Vec<Endpoint> {
    (0..30).map(|number| published(&format!("h{number:02}.example.org"), "http://web:80")).collect()
}

/// The times, since the beginning of the second request, in which visitors of some hostname are served neither by the
/// proxy nor by our rule.
struct Unserved {
    at_once: usize,
    longest: Duration,
}

fn unserved(simulation: &Simulation, since: Duration) -> Unserved {
    let watched = simulation.account.cloudflare().watched();
    let mut times: Vec<(Duration, Duration)> = Vec::new();
    for one in &watched {
        let gone = one.changes.iter().filter(|change| !change.got.iter().all(Visit::is_served));
        times.extend(
            gone.map(|change| (change.from.max(since), change.until)).filter(|(from, until)| from < until),
        );
    }
    let overlapping =
        |at: Duration| times.iter().filter(|(from, until)| (*from..*until).contains(&at)).count();
    Unserved {
        at_once: times.iter().map(|(from, _)| overlapping(*from)).max().unwrap_or_default(),
        longest: times.iter().map(|(from, until)| *until - *from).max().unwrap_or_default(),
    }
}

#[test]
fn below_another_record_no_new_hostname_goes_offline_while_the_tunnel_cannot_be_written() {
    for fault in [Fault::error(403, 10000, "Authentication error"), Fault::status(500), Fault::Reset] {
        let (mut simulation, wanted) = (below_a_proxy(), thirty());
        watch(&simulation, &wanted);
        simulation.account.cloudflare().fault_every(Matcher::put_configuration(), fault.clone());
        let mut second = Duration::ZERO;
        for number in 0..HOUR {
            let (outcome, _) = simulation.run_loop(&wanted).expect("ExternalDNS goes on");
            assert_eq!(outcome.map(drop), Err(503), "{fault:?}");
            simulation.pass(INTERVAL.as_secs());
            if number == 0 {
                second = simulation.account.cloudflare().time().now();
            }
        }
        let Unserved { at_once, longest } = unserved(&simulation, second);
        assert_eq!((at_once, longest), (0, Duration::ZERO), "{fault:?}");
        simulation.account.clear_faults();
        simulation.run_loop(&wanted).expect("ExternalDNS goes on").0.expect("all is published");
        let urls = simulation.account.cloudflare().watched();
        let last = urls
            .iter()
            .filter_map(|one| one.changes.last())
            .filter(|change| change.got.iter().all(|visit| visit.to_string().starts_with("http://web:80")));
        assert_eq!(last.count(), wanted.len(), "{fault:?}");
    }
}

#[test]
fn while_one_tunnel_cannot_be_written_hostnames_of_another_are_published() {
    let mut simulation = below_a_proxy();
    let home = format!("/accounts/*/cfd_tunnel/{}/configurations", simulation.account.harness.tunnel);
    simulation.account.cloudflare().fault_every(Matcher::call("PUT", &home), Fault::status(500));
    let other = endpoint("other.example.org", &[("tunnel", "office"), ("tunnel-service", "http://other:80")]);
    let wanted = [published("home.example.org", "http://web:80"), other];
    for _ in 0..2 {
        let (outcome, _) = simulation.run_loop(&wanted).expect("ExternalDNS goes on");
        assert_eq!(outcome.map(drop), Err(503));
        let visit = |host: &str| simulation.account.cloudflare().visit(host, "/").to_string();
        assert!(visit("other.example.org").starts_with("http://other:80"));
        assert_eq!(visit("home.example.org"), "A 192.0.2.50");
    }
}

/// The way back from one failure is one request.
#[test]
fn after_one_failure_the_next_request_publishes_all() {
    let mut simulation = below_a_proxy();
    let wanted = thirty();
    simulation.account.cloudflare().fault_for(
        Matcher::put_configuration(),
        1,
        Duration::from_secs(30),
        Fault::status(500),
    );
    let (outcome, _) = simulation.run_loop(&wanted).expect("ExternalDNS goes on");
    assert_eq!(outcome.map(drop), Err(503));
    simulation.pass(INTERVAL.as_secs());
    let (outcome, writes) = simulation.run_loop(&wanted).expect("ExternalDNS goes on");
    outcome.expect("all is published");
    assert_eq!((writes.configurations, writes.batches), (2, 1), "the document as it was, and with the rules");
}

/// A tunnel that cannot be read is no tunnel that cannot be written, so no document is written to try it.
#[test]
fn after_a_failure_to_read_the_tunnel_the_next_request_writes_one_version() {
    let mut simulation = below_a_proxy();
    let home = format!("/accounts/*/cfd_tunnel/{}/configurations", simulation.account.harness.tunnel);
    // The first answer is for GET /records, and the second one for the plan.
    simulation.account.cloudflare().fault_for(
        Matcher::call("GET", &home),
        3,
        Duration::from_secs(30),
        Fault::error(403, 10000, "Authentication error"),
    );
    let wanted = [published("a.example.org", WEB)];
    let (outcome, writes) = simulation.run_loop(&wanted).expect("ExternalDNS goes on");
    assert_eq!((outcome.map(drop), writes.configurations), (Err(503), 0));
    simulation.pass(INTERVAL.as_secs());
    let (outcome, writes) = simulation.run_loop(&wanted).expect("ExternalDNS goes on");
    outcome.expect("the hostname is published");
    assert_eq!((writes.configurations, writes.batches), (1, 1));
}

/// What is remembered of a place is forgotten an hour after the last write that failed, not after the first.
#[test]
fn below_another_record_no_new_hostname_goes_offline_in_the_second_hour_of_a_failure_either() {
    for fault in [Fault::error(403, 10000, "Authentication error"), Fault::status(500)] {
        let (mut simulation, wanted) = (below_a_proxy(), thirty());
        watch(&simulation, &wanted);
        simulation.account.cloudflare().fault_every(Matcher::put_configuration(), fault.clone());
        let mut second = Duration::ZERO;
        let mut made = Vec::new();
        for number in 0..2 * HOUR + 5 {
            let (outcome, writes) = simulation.run_loop(&wanted).expect("ExternalDNS goes on");
            assert_eq!(outcome.map(drop), Err(503), "{fault:?}");
            if writes.batches > 0 {
                made.push(number);
            }
            simulation.pass(INTERVAL.as_secs());
            if number == 0 {
                second = simulation.account.cloudflare().time().now();
            }
        }
        let Unserved { at_once, longest } = unserved(&simulation, second);
        assert_eq!((at_once, longest), (0, Duration::ZERO), "{fault:?}, batches in loops {made:?}");
        assert_eq!(made, [0], "{fault:?}: the records are made and deleted again in these loops");
    }
}

/// Cloudflare fails on what is to be written, and takes all else: each version makes every replica of cloudflared build
/// its proxies anew.
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

/// In the third loop, another program writes a rule of the hostname after the plan, so no edit is sent. The other path
/// waits for the next request.
#[test]
fn an_edit_that_a_foreign_rule_prevents_does_not_end_the_pause_of_edits() {
    let harness = Harness::with_foreign();
    let (clock, program) = harness.start_stopped(&[]);
    let both = [published(A, WEB), endpoint(A, &[("tunnel-service", WEB), ("tunnel-path", "^/other")])];
    let run_loop = || {
        let _ = program.external_dns().run_loop(&both);
        clock.put_ahead(INTERVAL * 2);
    };
    let failing = Matcher::put_configuration().with_body(A);
    harness.cloudflare.fault_every(failing, Fault::error(403, 10000, "no"));
    run_loop();
    run_loop();
    let configuration = || {
        harness.cloudflare.edit(|cloudflare| {
            cloudflare.configuration(&harness.tunnel).expect("a configuration").get().to_owned()
        })
    };
    let before = configuration();
    let (tunnel, rule) =
        (harness.tunnel.clone(), format!(r#"[{{"hostname":"{A}","service":"http://added:80"}},"#));
    let added = before.replacen('[', &rule, 1);
    // Two readings, the probe and the reading after it come before.
    harness.cloudflare.edit_before(Matcher::get_configuration(), 5, move |cloudflare| {
        cloudflare.put_configuration(&tunnel, &added).expect("Cloudflare takes it");
    });
    run_loop();
    assert_ne!(configuration(), before, "the edit met the rule");
    harness.cloudflare.edit(|cloudflare| {
        cloudflare.put_configuration(&harness.tunnel, &before).expect("Cloudflare takes it");
    });
    run_loop();
    let told = harness.log.lines_with(&["WARN", "a write to tunnel"]);
    assert_eq!(told.len(), 2, "the failure and the first one after a probe: {told:#?}");
}

/// A proxy answers the edit with a page that is not Cloudflare's, so nothing is learned about the tunnel.
#[test]
fn a_page_of_a_proxy_does_not_end_the_pause_of_edits() {
    let harness = Harness::with_foreign();
    let (clock, program) = harness.start_stopped(&[]);
    let wanted = [published(A, WEB)];
    let run_loop = |fault: Fault| {
        harness.cloudflare.clear_faults();
        harness.cloudflare.fault_every(Matcher::put_configuration().with_body(A), fault);
        let _ = program.external_dns().run_loop(&wanted);
        clock.put_ahead(INTERVAL * 2);
    };
    let failure = || Fault::error(403, 10000, "no");
    for fault in [failure(), failure(), Fault::status(413), failure(), failure()] {
        run_loop(fault);
    }
    let told = harness.log.lines_with(&["WARN", "a write to tunnel"]);
    assert_eq!(told.len(), 2, "the failure and the first one after a probe: {told:#?}");
}

/// Half of the time that is left is for the probe.
#[test]
fn a_probe_writes_nothing_if_too_little_time_is_left_after_its_reading() {
    let harness = Harness::with_foreign();
    let (clock, program) = harness.start_stopped(&[]);
    harness.cloudflare.fault(Matcher::put_configuration(), 1, Fault::error(403, 10000, "no"));
    let _ = program.external_dns().run_loop(&[published(A, WEB)]);
    let before = harness.cloudflare.version(&harness.tunnel);
    // The readings for GET /records and for the request come before.
    harness.cloudflare.edit_before(Matcher::get_configuration(), 3, move |_| {
        clock.put_ahead(Duration::from_secs(5));
    });
    let _ = program.external_dns().run_loop(&[published(A, WEB)]);
    assert_eq!(harness.cloudflare.version(&harness.tunnel), before);
    program.external_dns().run_loop(&[published(A, WEB)]).expect("published");
}

#[test]
fn the_shortest_request_has_time_for_a_probe() {
    let harness = Harness::with_foreign();
    let clock = Arc::new(ManualClock::stopped());
    let program = harness.start_by(clock, &[("REQUEST_TIMEOUT", "2s")]);
    program.wait_until_ready();
    harness.cloudflare.fault(Matcher::put_configuration(), 1, Fault::error(403, 10000, "no"));
    let _ = program.external_dns().run_loop(&[published(A, WEB)]);
    program.external_dns().run_loop(&[published(A, WEB)]).expect("published");
}

/// Its rule was deleted by hand, and a wildcard record leads elsewhere.
#[test]
fn what_the_comment_of_a_long_published_hostname_says_outlives_a_tunnel_that_cannot_be_written() {
    let harness = Harness::new();
    proxy_of_a_zone(&harness.cloudflare, "example.com");
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
fn after_a_restart_no_new_hostname_below_another_record_stays_offline_either() {
    let harness = Harness::with_foreign();
    proxy_of_a_zone(&harness.cloudflare, "example.com");
    harness.cloudflare.fault_every(Matcher::put_configuration(), Fault::status(500));
    harness.cloudflare.fault_every(Matcher::batch().with_body("deletes"), Fault::status(500));
    let _ = harness.start().external_dns().run_loop(&[published(A, WEB)]);
    assert_ne!(harness.service_at(A, "/"), "A 192.0.2.50", "the new record stands without its rule");
    harness.cloudflare.clear_faults();
    harness.cloudflare.fault_every(Matcher::put_configuration(), Fault::status(500));
    let program = harness.start();
    for _ in 0..2 {
        harness.cloudflare.advance_clock(INTERVAL);
        let _ = program.external_dns().run_loop(&[published(A, WEB)]);
    }
    assert_eq!(harness.service_at(A, "/"), "A 192.0.2.50");
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

/// After the first request, the tunnel is tried after all other work.
#[test]
fn below_another_record_no_new_hostname_stays_offline_while_no_write_of_the_tunnel_is_answered() {
    let harness = Harness::with_foreign();
    proxy_of_a_zone(&harness.cloudflare, "example.com");
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

/// The write was done, so no hostname waits for the tunnel, and a later failure is another one.
#[test]
fn after_a_lost_answer_nothing_is_probed_and_the_next_failure_is_told() {
    let harness = Harness::with_foreign();
    let program = harness.start();
    let before = harness.cloudflare.version(&harness.tunnel);
    harness.cloudflare.fault(Matcher::put_configuration(), 1, Fault::DoneButUnanswered);
    program.external_dns().run_loop(&[published(A, WEB)]).expect("published");
    assert_eq!(harness.cloudflare.version(&harness.tunnel) - before, 1);
    let both = [published(A, WEB), published("b.example.com", WEB)];
    program.external_dns().run_loop(&both[..1]).expect("nothing is left");
    harness.cloudflare.advance_clock(INTERVAL);
    harness.cloudflare.fault_every(Matcher::put_configuration(), Fault::error(403, 10000, "no"));
    let lines = harness.log.lines_with(&["WARN", "a write to tunnel"]).len();
    for _ in 0..3 {
        let _ = program.external_dns().run_loop(&both);
        harness.cloudflare.advance_clock(INTERVAL);
    }
    let told = harness.log.lines_with(&["WARN", "a write to tunnel"]);
    assert_eq!(told.len(), lines + 1, "{told:#?}");
}

/// The only hostname that waited was deleted between the two failures.
#[test]
fn a_failure_after_a_quiet_time_is_told_as_the_first_one_was() {
    let harness = Harness::with_foreign();
    let program = harness.start();
    harness.cloudflare.fault_every(Matcher::put_configuration(), Fault::error(403, 10000, "no"));
    for (name, told) in [(A, 1), ("b.example.com", 2)] {
        for desired in [&[published(name, WEB)][..], &[published(name, WEB)], &[], &[]] {
            let _ = program.external_dns().run_loop(desired);
            harness.cloudflare.advance_clock(INTERVAL);
        }
        assert_eq!(harness.log.lines_with(&["WARN", "a write to tunnel"]).len(), told, "{name}");
    }
}

/// The writes are done, so the answer is 503 with their result.
#[test]
fn a_reading_that_fails_after_the_probe_leaves_the_rest_to_the_next_loop() {
    let harness = Harness::with_foreign();
    let program = harness.start();
    harness.cloudflare.fault(Matcher::put_configuration(), 1, Fault::error(403, 10000, "no"));
    let _ = program.external_dns().run_loop(&[published(A, WEB)]);
    // The reading for GET /records and that of the request come before.
    harness.cloudflare.fault(Matcher::list_records(), 3, Fault::error(403, 10000, "no"));
    let before = harness.cloudflare.version(&harness.tunnel);
    assert_eq!(program.external_dns().run_loop(&[published(A, WEB)]).map(drop), Err(503));
    assert_eq!(harness.cloudflare.version(&harness.tunnel) - before, 1, "the probe");
    program.external_dns().run_loop(&[published(A, WEB)]).expect("published");
}

/// Its only hostname is wanted no more.
#[test]
fn a_tunnel_for_which_no_hostname_waits_is_not_probed() {
    let account = SharedAccount::new();
    let program = account.harness.start_with(&[("CF_TUNNEL_ID", "home,office")]);
    let put = |id: &str| Matcher::call("PUT", &format!("/accounts/*/cfd_tunnel/{id}/configurations"));
    account.cloudflare().fault_every(put(&account.harness.tunnel), Fault::error(403, 10000, "no"));
    let other = |name: &str| endpoint(name, &[("tunnel", "office"), ("tunnel-service", WEB)]);
    let _ = program.external_dns().run_loop(&[published(A, WEB)]);
    let is_probe = |call: &cloudflare_emulator::Call| {
        call.method == "PUT" && call.path.contains(&*account.harness.tunnel)
    };
    for name in ["b.example.com", "c.example.com"] {
        account.cloudflare().take_calls();
        program.external_dns().run_loop(&[other(name)]).expect("published");
        assert!(!account.cloudflare().take_calls().iter().any(is_probe), "{name}");
    }
}

#[test]
fn a_write_that_the_token_may_not_make_is_told_once() {
    let harness = Harness::with_foreign();
    let program = harness.start();
    let forbidden = Fault::error(403, 10000, "Authentication error");
    harness.cloudflare.fault_every(Matcher::put_configuration(), forbidden);
    for _ in 0..6 {
        let _ = program.external_dns().run_loop(&[published(A, WEB)]);
        harness.cloudflare.advance_clock(INTERVAL);
    }
    let lines = harness.log.lines_with(&["WARN"]);
    assert!((1..=2).contains(&lines.len()), "{lines:?}");
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

/// The failure left the record without its rule, and then Cloudflare rejects the rule.
#[test]
fn below_another_record_a_hostname_whose_rule_is_refused_after_a_failure_does_not_stay_offline() {
    let mut simulation = below_a_proxy();
    let wanted = [published("refused.example.org", WEB)];
    for fault in [Fault::status(500), Fault::error(400, 1056, "Bad Configuration")] {
        simulation.account.clear_faults();
        simulation.account.cloudflare().fault_every(Matcher::put_configuration().with_body("refused"), fault);
        let _ = simulation.run_loop(&wanted).expect("ExternalDNS goes on");
        simulation.pass(INTERVAL.as_secs());
    }
    for _ in 0..2 {
        let _ = simulation.run_loop(&wanted).expect("ExternalDNS goes on");
        assert_eq!(
            simulation.account.cloudflare().visit("refused.example.org", "/").to_string(),
            "A 192.0.2.50"
        );
        simulation.pass(INTERVAL.as_secs());
    }
}

/// The tunnel is written again, and the zone of the hostname is not.
#[test]
fn a_tunnel_that_took_the_probe_is_not_probed_in_every_loop_while_records_cannot_be_written() {
    let mut simulation = below_a_proxy();
    let wanted = thirty();
    simulation.account.cloudflare().fault_every(Matcher::put_configuration(), Fault::status(500));
    let _ = simulation.run_loop(&wanted).expect("ExternalDNS goes on");
    simulation.account.clear_faults();
    simulation.account.cloudflare().fault_every(Matcher::batch(), Fault::status(500));
    let more = [&wanted[..], &[published("more.example.org", WEB)]].concat();
    let mut versions = 0;
    for _ in 0..5 {
        simulation.pass(INTERVAL.as_secs());
        let (_, writes) = simulation.run_loop(&more).expect("ExternalDNS goes on");
        versions += writes.configurations;
    }
    assert!(versions <= 2, "{versions}: the probe, and the rules whose records are there");
}

/// Both answers about the tunnel are from before the write, whose answer was lost, so the process cannot tell.
#[test]
fn a_new_record_whose_rule_an_old_answer_hides_stays_beside_a_mistake() {
    let harness = Harness::with_foreign();
    proxy_of_a_zone(&harness.cloudflare, "example.com");
    harness.cloudflare.keep_past();
    let (clock, program) = harness.start_stopped(&[]);
    let put = Matcher::put_configuration();
    harness.cloudflare.fault(put.clone(), 1, Fault::DoneButUnanswered);
    let later = Arc::clone(&clock);
    harness.cloudflare.edit_before(put, 1, move |_| later.put_ahead(Duration::from_secs(11)));
    let _ = program.external_dns().run_loop(&[published(A, WEB)]);
    assert_eq!(harness.service_at(A, "/"), WEB, "its rule and its record are there");
    for nth in [1, 2] {
        harness.cloudflare.fault(Matcher::get_configuration(), nth, Fault::Old { writes: 1 });
    }
    let _ = program.external_dns().run_loop(&[published(A, "nonsense://web")]);
    harness.cloudflare.clear_faults();
    assert_eq!(harness.service_at(A, "/"), WEB, "{:?} {:#?}", harness.cnames(), harness.rules());
}
