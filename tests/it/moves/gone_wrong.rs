//! Moves and withdrawals that do not go as they should: nothing stays open by them, and nothing waits for ever.

#![allow(clippy::indexing_slicing, clippy::panic, reason = "what is missing fails the test")]

use std::slice;
use std::time::Duration;

use cloudflare_emulator::{Fault, Matcher, RuleText, Visit, Watched};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Changes, Endpoint, Labels};
use external_dns_cloudflare_tunnel_webhook::reconcile::namespace::NamespaceGuard;
use serde_json::json;
use test_support::fake_cloudflare::{FakeCloudflare, HOME, tunnel_id};
use test_support::harness::endpoint;

use crate::shared_account;
use crate::shared_account::SharedAccount;
use crate::simulation::{Pace, Simulation, Writes};

const PACE: Pace = Pace { connectors: Vec::new(), records: 0, write: 10 };

pub(super) fn pace(connectors: &[u64]) -> Pace {
    Pace { connectors: connectors.to_vec(), ..PACE }
}

pub(super) fn simulation(connectors: &[u64], variables: &[(&'static str, &'static str)]) -> Simulation {
    Simulation::new(SharedAccount::new(), variables, pace(connectors))
}

pub(super) fn through(tunnel: &str, name: &str, service: &str) -> Endpoint {
    endpoint(name, &[("tunnel", tunnel), ("tunnel-service", service)])
}

pub(super) fn path_through(tunnel: &str, name: &str, path: &str, service: &str) -> Endpoint {
    endpoint(name, &[("tunnel", tunnel), ("tunnel-service", service), ("tunnel-path", path)])
}

pub(super) fn run(simulation: &mut Simulation, desired: &[Endpoint]) -> (Result<Changes, u16>, Writes) {
    simulation.run_loop(desired).expect("ExternalDNS goes on")
}

pub(super) fn pass(simulation: &Simulation, seconds: u64) {
    simulation.account.cloudflare().advance_clock(Duration::from_secs(seconds));
}

pub(super) fn got(simulation: &Simulation, host: &str, path: &str) -> String {
    match simulation.account.cloudflare().visit(host, path) {
        Visit::Served { tunnel, service, .. } => format!("{service} by {}", simulation.named(&tunnel)),
        other => simulation.named(&other.to_string()),
    }
}

/// No visitor of what is watched was lost.
fn assert_nobody_is_lost(simulation: &Simulation) {
    let watched = simulation.account.cloudflare().watched();
    let lost: Vec<String> = watched
        .iter()
        .filter(|watched: &&Watched| !watched.lost().is_empty())
        .map(|watched| simulation.named(&watched.to_string()))
        .collect();
    assert!(lost.is_empty(), "{lost:#?}");
}

#[test]
fn a_path_that_is_withdrawn_goes_though_its_hostname_waits() {
    let host = "waits.example.org";
    let mut simulation = simulation(&[0], &[]);
    let admin = path_through("home", host, "^/admin", "http://admin:80");
    simulation.run_to_rest(&[through("home", host, "http://web:80"), admin]).expect("published");
    simulation.account.cloudflare().edit(|cloudflare| cloudflare.tunnel_mut("office").connectors = 0);
    run(&mut simulation, &[through("office", host, "http://web:80")]).0.ok();
    assert_eq!(
        got(&simulation, host, "/admin"),
        "http://admin:80 by home",
        "it may be what moves under another path"
    );
    let mut last = None;
    for _ in 0..20 {
        last = Some(run(&mut simulation, &[through("office", host, "http://web:80")]).0.err());
        pass(&simulation, 60);
    }
    assert_eq!(
        got(&simulation, host, "/admin"),
        "http://web:80 by home",
        "20 minutes later; last answer {last:?}"
    );
}

/// What failed alone is sent alone.
#[test]
fn paths_that_are_withdrawn_one_by_one_lead_to_no_other_one_of_them() {
    let mut simulation = simulation(&[0], &[]);
    let host = "a.example.com";
    let whole = through("home", host, "http://whole:80");
    let paths = [("^/api", "http://wide:80"), ("^/api/v2", "http://narrow:80")];
    let paths = paths.map(|(path, service)| path_through("home", host, path, service));
    simulation.run_to_rest(&[slice::from_ref(&whole), &paths[..]].concat()).expect("published");
    simulation.account.clear_faults();
    let cloudflare = simulation.account.cloudflare();
    let page = Fault::Status { code: 403, headers: Vec::new(), body: "<!DOCTYPE html>".to_owned() };
    cloudflare.fault_every(Matcher::put_configuration(), page);
    for _ in 0..2 {
        assert_eq!(run(&mut simulation, slice::from_ref(&whole)).0, Err(503));
    }
    simulation.account.clear_faults();
    let cloudflare = simulation.account.cloudflare();
    cloudflare.watch(&["https://a.example.com/api/v2"]);
    let (_, writes) = run(&mut simulation, &[whole]);
    assert_eq!(
        (writes.configurations, got(&simulation, host, "/api")),
        (2, "http://whole:80 by home".to_owned())
    );
    assert_nobody_is_lost(&simulation);
}

#[test]
fn patience_begins_with_the_move_that_waits() {
    let mut simulation = simulation(&[300], &[("MOVE_GRACE", "3600s")]);
    let at = |one: &str, two: &str| {
        [through(one, "first.example.org", "http://a:80"), through(two, "second.example.org", "http://b:80")]
    };
    simulation.run_to_rest(&at("home", "home")).expect("published");
    run(&mut simulation, &at("office", "home")).0.ok();
    // Nothing is asked for, or nothing is written, for eleven minutes.
    pass(&simulation, 660);
    run(&mut simulation, &at("office", "office")).0.ok();
    pass(&simulation, 60);
    let (outcome, _) = run(&mut simulation, &at("office", "office"));
    let seen = got(&simulation, "second.example.org", "/");
    let said = simulation.account.harness.log.lines_with(&["not_moved", "second.example.org"]);
    assert_eq!(seen, "http://b:80 by office", "{:?} {said:#?}", outcome.map(|_| 204));
}

#[test]
fn a_dry_run_comes_to_an_end() {
    let host = "dry.example.com";
    let mut simulation = simulation(&[0], &[]);
    simulation.run_to_rest(&[through("office", host, "http://web:80")]).expect("published");
    let mut dry = Simulation::new(simulation.account, &[("DRY_RUN", "true")], pace(&[0]));
    let mut answers = Vec::new();
    for _ in 0..15 {
        answers.push(run(&mut dry, &[]).0.err());
        pass(&dry, 60);
    }
    assert_eq!(answers.last(), Some(&None), "{answers:?}");
}

#[test]
fn a_rule_that_a_record_of_the_zone_around_leads_to_is_not_taken_back() {
    let name = "x.a.example.com";
    let theirs = format!(r#"{{"hostname":"{name}","service":"http://theirs:80"}}"#);
    let mut cloudflare = FakeCloudflare::new(&[theirs], &[(name, "CNAME", &tunnel_id(HOME).hostname())]);
    cloudflare.add_inner_zone(false);
    let plan = cloudflare.run_loop(&[through("home", name, "http://theirs:80")], usize::MAX);
    let labels: Vec<&str> = plan.refusals.iter().map(|refusal| refusal.reason.label()).collect();
    cloudflare.run_loop(&[], usize::MAX);
    let standing = cloudflare.foreign_rules(&tunnel_id(HOME));
    assert!(standing.iter().any(|rule| rule.contains("theirs")), "without ADOPT it is gone: {labels:?}");
}

#[test]
fn a_loop_of_writes_is_broken_though_its_hostname_waits() {
    let host = "fought.example.org";
    let mut simulation = simulation(&[0], &[]);
    simulation.run_to_rest(&[through("home", host, "http://web:80")]).expect("published");
    simulation.account.cloudflare().edit(|cloudflare| cloudflare.tunnel_mut("office").connectors = 0);
    let before = simulation.account.cloudflare().configuration("office").expect("there");
    let mut writes = Vec::new();
    for _ in 0..12 {
        writes.push(run(&mut simulation, &[through("office", host, "http://web:80")]).1.configurations);
        // Another program writes its own document back.
        simulation.account.cloudflare().put_configuration("office", &before).expect("taken");
        pass(&simulation, 60);
    }
    // Twice, and again after ten minutes.
    assert!(writes.iter().sum::<usize>() <= 3, "{writes:?}");
}

#[test]
fn the_stamp_names_its_object_while_the_old_rule_stays() {
    let host = "named.example.org";
    let mut simulation = simulation(&[0], &[]);
    simulation.run_to_rest(&[through("home", host, "http://web:80")]).expect("published");
    run(&mut simulation, &[through("office", host, "http://web:80")]).0.ok();
    let zone = simulation.account.organisation.clone();
    let records = simulation.account.cloudflare().records(&zone);
    let record = records.iter().find(|record| record.name == host).expect("there");
    assert!(shared_account::stamp(record).expect("ours").resource.is_some(), "{:?}", record.comment);
}

#[test]
fn a_hostname_does_not_move_to_an_older_rule_of_its_own() {
    let host = "reopened.example.org";
    let mut simulation = simulation(&[0], &[("MOVE_GRACE", "3600s")]);
    simulation.run_to_rest(&[through("home", host, "http://open:80")]).expect("published");
    for _ in 0..2 {
        run(&mut simulation, &[through("office", host, "http://closed:80")]).0.ok();
    }
    simulation.account.cloudflare().edit(|cloudflare| {
        cloudflare.whims_mut().dislike_rule(RuleText::Unnamed, |rule| rule.service == "http://closed-too:80");
    });
    let mut seen = Vec::new();
    for _ in 0..3 {
        let (outcome, _) = run(&mut simulation, &[through("home", host, "http://closed-too:80")]);
        seen.push((outcome.err(), got(&simulation, host, "/")));
        pass(&simulation, 60);
    }
    assert!(seen.iter().all(|(_, got)| !got.contains("open")), "{seen:?}");
}

/// The guard may be switched on while its old rule stays.
#[test]
fn a_hostname_that_has_moved_is_still_its_namespaces() {
    let name = "a.example.com";
    let of = |tunnel: &str, namespace: &str| Endpoint {
        labels: Labels::from_iter([("resource", &*format!("ingress/{namespace}/web"))]),
        ..endpoint(name, &[("tunnel", tunnel), ("tunnel-service", &format!("http://web.{namespace}.svc:80"))])
    };
    for moves in [false, true] {
        let mut cloudflare = FakeCloudflare::new(&[], &[]);
        cloudflare.run_loop(&[of("home", "shop")], usize::MAX);
        if moves {
            cloudflare.run_loop(&[of("office", "shop")], usize::MAX);
        }
        cloudflare.namespace_guard = Some(NamespaceGuard { cluster_domain: "cluster.local".into() });
        let tunnel = if moves { "office" } else { "home" };
        let plan = cloudflare.run_loop(&[of(tunnel, "aaa")], usize::MAX);
        let labels: Vec<&str> = plan.refusals.iter().map(|refusal| refusal.reason.label()).collect();
        assert_eq!(labels, ["namespace_held"], "moves={moves} {:?}", cloudflare.records);
    }
}

#[test]
fn what_is_withdrawn_goes_though_somebody_sets_its_record_back() {
    let host = "held.example.com";
    let mut simulation = simulation(&[0], &[]);
    simulation.run_to_rest(&[through("office", host, "http://web:80")]).expect("published");
    let (zone, office) = (simulation.account.harness.zone.clone(), simulation.account.office.clone());
    let mut answers = Vec::new();
    for _ in 0..15 {
        answers.push(run(&mut simulation, &[]).0.err());
        simulation.account.cloudflare().edit(|cloudflare| {
            let id =
                cloudflare.records(&zone).iter().find(|record| record.name == host).map(|it| it.id.clone());
            if let Some(id) = id {
                let content = json!({"content": format!("{office}.cfargotunnel.com")});
                cloudflare.patch_record(&zone, &id, &content).expect("taken");
            }
        });
        pass(&simulation, 60);
    }
    assert_eq!(got(&simulation, host, "/"), "http://wild:80 by home", "{answers:?}");
}

#[test]
fn what_is_withdrawn_goes_though_the_records_of_another_zone_cannot_be_written() {
    let mut simulation = Simulation::new(SharedAccount::new(), &[], Pace { write: 0, ..pace(&[0]) });
    let host = "closes.example.com";
    simulation.run_to_rest(&[through("home", host, "http://web:80")]).expect("published");
    let zone = simulation.account.organisation.clone();
    let batch = Matcher::call("POST", &format!("/zones/{zone}/dns_records/batch"));
    simulation.account.cloudflare().fault_every(batch, Fault::status(503));
    let mut answers = Vec::new();
    for _ in 0..5 {
        answers.push(run(&mut simulation, &[through("home", "new.example.org", "http://new:80")]).0.err());
        pass(&simulation, 60);
    }
    assert_eq!(
        answers.last(),
        Some(&Some(503)),
        "{answers:?} {:?}",
        got(&simulation, "new.example.org", "/")
    );
    assert_eq!(got(&simulation, host, "/"), "http://wild:80 by home", "{answers:?}");
}

#[test]
fn what_is_withdrawn_goes_though_its_record_cannot_be_led_to_the_wildcards_tunnel() {
    let host = "refused.example.com";
    let mut simulation = simulation(&[0], &[]);
    simulation.run_to_rest(&[through("office", host, "http://web:80")]).expect("published");
    simulation.account.cloudflare().edit(|cloudflare| {
        let refusal = cloudflare_emulator::Refusal::new(400, 1004, "DNS Validation Error");
        cloudflare.whims_mut().dislike_name(host, refusal);
    });
    let mut answers = Vec::new();
    for _ in 0..15 {
        answers.push(run(&mut simulation, &[]).0.err());
        pass(&simulation, 60);
    }
    assert_eq!(got(&simulation, host, "/"), "http://wild:80 by home", "{answers:?}");
}

#[test]
fn a_write_loop_is_held_back_though_another_zone_cannot_be_written() {
    for (is_failing, every) in [(false, 1), (true, 1), (false, 2), (true, 2)] {
        let mut simulation = Simulation::new(SharedAccount::new(), &[], Pace { write: 0, ..pace(&[0]) });
        let ours = |option: &str| {
            endpoint(
                "fought.example.com",
                &[
                    ("tunnel", "home"),
                    ("tunnel-service", "http://web:80"),
                    ("origin-connect-timeout", option),
                ],
            )
        };
        simulation.run_to_rest(&[ours("10s")]).expect("published");
        let zone = simulation.account.organisation.clone();
        if is_failing {
            let batch = Matcher::call("POST", &format!("/zones/{zone}/dns_records/batch"));
            simulation.account.cloudflare().fault_every(batch, Fault::status(503));
        }
        let mut writes = Vec::new();
        for number in 0..20 {
            simulation.account.cloudflare().edit(|cloudflare| {
                if number % every != 0 {
                    return;
                }
                let config = cloudflare.configuration("home").expect("it is configured").get().to_owned();
                let mut config: serde_json::Value = serde_json::from_str(&config).expect("a document");
                let rules = config.get_mut("ingress").and_then(|list| list.as_array_mut()).expect("a list");
                rules.retain(|rule| {
                    rule.get("hostname").is_none_or(|hostname| hostname != "fought.example.com")
                });
                cloudflare.put_configuration("home", &config.to_string()).expect("cloudflared takes it");
            });
            let mut wanted = vec![ours("10s")];
            if is_failing {
                wanted.push(through("office", "new.example.org", "http://new:80"));
            }
            writes.push(simulation.run_loop(&wanted).expect("ExternalDNS goes on").1.configurations);
            pass(&simulation, 60);
        }
        let later: usize = writes[6..].iter().sum();
        // After ten minutes it is tried again.
        assert!(later <= 1, "failing {is_failing}, every {every}: {writes:?}");
    }
}
