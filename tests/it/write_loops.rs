//! Another program changes back each write of ours: after two times the webhook leaves it, and everything else goes on.

use cloudflare_emulator::{Cloudflare, Fault, Matcher, Plan, Record};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use serde_json::{Value, json};
use test_support::external_dns::{Changes, exchange};
use test_support::harness::{Harness, Program, endpoint_of, published};

/// The hostname that is fought over.
const FOUGHT: &str = "fought.example.com";

fn desired() -> Vec<Endpoint> {
    vec![published(FOUGHT, "http://web:80"), published("calm.example.com", "http://web:80")]
}

/// How many writes each of six loops did, with `undo` after each.
fn fight(
    harness: &Harness,
    program: &Program,
    desired: &[Endpoint],
    undo: impl Fn(&mut Cloudflare),
) -> Vec<usize> {
    (0..6)
        .map(|_| {
            harness.cloudflare.take_calls();
            program.external_dns().run_loop(desired).expect("every loop is answered well");
            let writes = harness.cloudflare.count_calls().writes;
            harness.cloudflare.edit(&undo);
            writes
        })
        .collect()
}

fn record(cloudflare: &Cloudflare) -> Option<Record> {
    cloudflare.records("example.com").iter().find(|record| record.name == FOUGHT).cloned()
}

fn edit_rules(cloudflare: &mut Cloudflare, edit: impl FnOnce(&mut Vec<Value>)) {
    let config = cloudflare.configuration("home").expect("it is configured").get().to_owned();
    let mut config: Value = serde_json::from_str(&config).expect("a document");
    edit(config.get_mut("ingress").and_then(|list| list.as_array_mut()).expect("a list"));
    cloudflare.put_configuration("home", &config.to_string()).expect("cloudflared takes it");
}

fn take_rules_off(cloudflare: &mut Cloudflare, is_meant: impl Fn(&Value) -> bool) {
    edit_rules(cloudflare, |rules| rules.retain(|rule| !is_meant(rule)));
}

fn put_wildcard_before(cloudflare: &mut Cloudflare) {
    let wildcard = json!({"hostname": "*.example.com", "service": "http://cover:80"});
    edit_rules(cloudflare, |rules| {
        rules.retain(|rule| *rule != wildcard);
        rules.insert(0, wildcard.clone());
    });
}

fn take_rule_off(cloudflare: &mut Cloudflare) {
    take_rules_off(cloudflare, |rule| rule["hostname"] == FOUGHT);
}

fn take_record_off(cloudflare: &mut Cloudflare) {
    if let Some(record) = record(cloudflare) {
        cloudflare.delete_record("example.com", &record.id).expect("it is there");
    }
}

fn unproxy(cloudflare: &mut Cloudflare) {
    let record = record(cloudflare).expect("it is there");
    cloudflare
        .patch_record("example.com", &record.id, &json!({"proxied": false}))
        .expect("Cloudflare takes it");
}

#[test]
fn what_is_undone_every_time_is_written_twice_and_then_left() {
    type Undo = fn(&mut Cloudflare);
    for (label, undo) in [
        ("the rule", take_rule_off as Undo),
        ("its place", put_wildcard_before),
        ("the record", take_record_off),
        ("its proxy", unproxy),
    ] {
        let harness = Harness::with_foreign();
        let program = harness.start();
        program.external_dns().run_loop(&desired()).expect("published");
        harness.cloudflare.edit(undo);
        let writes = fight(&harness, &program, &desired(), undo);
        assert!(writes[0] > 0, "{label}: {writes:?}");
        assert_eq!(writes[2..], [0; 4], "{label}");
    }
}

#[test]
fn a_fight_is_left_though_another_zone_cannot_be_written() {
    let harness = Harness::with_foreign();
    let other = harness.cloudflare.add_zone("example.org", Plan::Free);
    let program = harness.start();
    program.external_dns().run_loop(&desired()).expect("published");
    let batch = Matcher::call("POST", &format!("/zones/{other}/dns_records/batch"));
    harness.cloudflare.fault_every(batch, Fault::status(503));
    let wanted = [desired(), vec![published("new.example.org", "http://web:80")]].concat();
    let documents = [(); 6].map(|()| {
        harness.cloudflare.edit(take_rule_off);
        harness.cloudflare.take_calls();
        assert_eq!(program.external_dns().run_loop(&wanted), Err(503));
        harness.cloudflare.take_calls().iter().filter(|call| call.method == "PUT").count()
    });
    assert_eq!(documents[2..], [0; 4], "{documents:?}");
}

#[test]
fn a_fight_over_one_hostname_stops_no_other_and_no_new_wish() {
    let harness = Harness::with_foreign();
    let program = harness.start();
    program.external_dns().run_loop(&desired()).expect("published");
    fight(&harness, &program, &desired(), unproxy);
    let mut changed = desired();
    changed[0].provider_specific[0].value = "http://new:80".into();
    changed.push(published("late.example.com", "http://web:80"));
    program.external_dns().run_loop(&changed).expect("answered");
    for mark in ["http://new:80", "late.example.com", "calm.example.com"] {
        assert!(harness.rules().iter().any(|rule| rule.contains(mark)), "{mark}: {:?}", harness.rules());
    }
    assert!(
        harness.cloudflare.edit(|cloudflare| record(cloudflare)).expect("it is there").proxied,
        "once more"
    );
}

/// The stamp is what says that the rule is ours: it has to outlive the rule.
#[test]
fn what_comes_back_every_time_it_is_withdrawn_stays_ours() {
    let harness = Harness::with_foreign();
    let program = harness.start();
    program.external_dns().run_loop(&desired()).expect("published");
    let (config, record) = harness.cloudflare.edit(|cloudflare| {
        let config = cloudflare.configuration("home").expect("it is configured").get().to_owned();
        (config, record(cloudflare).expect("it is published"))
    });
    let restore = |cloudflare: &mut Cloudflare| {
        cloudflare.put_configuration("home", &config).expect("cloudflared takes it");
        if self::record(cloudflare).is_none() {
            cloudflare.add_record("example.com", record.to_json()).expect("Cloudflare takes it");
        }
    };
    let writes = fight(&harness, &program, &desired()[1..], restore);
    assert_eq!(writes[2..], [0; 4], "{writes:?}");
    let shown = program.external_dns().records().expect("answered");
    assert!(shown.iter().any(|endpoint| endpoint.dns_name == FOUGHT), "{shown:?}");
}

#[test]
fn publishing_and_withdrawing_in_turn_is_no_fight() {
    let harness = Harness::with_foreign();
    let program = harness.start();
    for round in 0..5 {
        for (desired, is_published) in [(desired(), true), (desired()[1..].to_vec(), false)] {
            program.external_dns().run_loop(&desired).expect("answered");
            let stands = harness.rules().iter().any(|rule| rule.contains(FOUGHT));
            assert_eq!(stands, is_published, "round {round}");
        }
    }
}

/// With `--migrate-from-txt-owner` ExternalDNS asks for everything in every loop. What stands as it is wanted is in no
/// fight, though the document that it stands in is written for the sake of others.
#[test]
fn what_is_asked_for_again_as_it_stands_is_no_fight() {
    let harness = Harness::with_foreign();
    let program = harness.start();
    let external_dns = program.external_dns();
    external_dns.run_loop(&desired()).expect("published");
    for service in ["http://bad:80", "http://worse:80", "http://fixed:80", "http://web:80"] {
        let shown = external_dns.records().expect("answered");
        let mut desired = desired();
        desired[1].provider_specific[0].value = service.into();
        let update_new = external_dns.adjust(&desired).expect("answered");
        let changes = Changes { update_old: shown, update_new, ..Changes::default() };
        external_dns.apply(&changes).expect("answered");
        assert!(harness.rules().iter().any(|rule| rule.contains(service)), "{service}");
        assert!(!has_held_back(&program), "{service}");
    }
}

fn has_held_back(program: &Program) -> bool {
    let request = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
    let answer = exchange(program.observation(), &[request]).expect("answered");
    let counted = "cloudflare_tunnel_webhook_refusals{reason=\"not_kept\"} ";
    let mut counts = answer.body.lines().filter_map(|line| line.strip_prefix(counted));
    counts.any(|count| count != "0")
}

/// A wildcard stands near every rule of its tunnel.
#[test]
fn a_fight_over_a_wildcard_is_left_though_other_rules_come_and_go() {
    let (wildcard, mut round) = ("*.example.com", 0);
    let harness = Harness::with_foreign();
    let program = harness.start();
    let mut desired = vec![published(wildcard, "http://wild:80"), published("a.example.com", "http://a:80")];
    program.external_dns().run_loop(&desired).expect("published");
    let removals = [(); 6].map(|()| {
        harness.cloudflare.edit(|cloudflare| take_rules_off(cloudflare, |rule| rule["hostname"] == wildcard));
        round += 1;
        desired[1].provider_specific[0].value = format!("http://a-{round}:80").into();
        program.external_dns().run_loop(&desired).expect("answered");
        harness.rules().iter().any(|rule| rule.contains(wildcard))
    });
    assert_eq!(removals, [true, true, false, false, false, false]);
}

#[test]
fn two_fights_over_one_hostname_are_left_though_they_take_turns() {
    let harness = Harness::with_foreign();
    let program = harness.start();
    program.external_dns().run_loop(&desired()).expect("published");
    let writes = [false, true].repeat(6).into_iter().map(|is_record| {
        let undo = if is_record { unproxy } else { take_rule_off };
        harness.cloudflare.edit(undo);
        harness.cloudflare.take_calls();
        program.external_dns().run_loop(&desired()).expect("answered");
        harness.cloudflare.count_calls().writes
    });
    // Each twice, and twice both at once.
    let writes: Vec<usize> = writes.collect();
    assert_eq!(writes[8..], [0; 4], "{writes:?}");
}

#[test]
fn a_path_is_changed_though_another_one_of_its_hostname_is_undone_every_time() {
    let harness = Harness::with_foreign();
    let program = harness.start();
    let path_of = |path: &str, service: &str| {
        let properties = [("tunnel-service", service), ("tunnel-path", path)];
        endpoint_of("ingress/shop/web", FOUGHT, &properties)
    };
    let undo = |cloudflare: &mut Cloudflare| take_rules_off(cloudflare, |rule| rule["path"] == "^/fought");
    let desired = |service: &str| vec![path_of("^/fought", "http://web:80"), path_of("^/calm", service)];
    program.external_dns().run_loop(&desired("http://old:80")).expect("published");
    harness.cloudflare.edit(undo);
    let writes = fight(&harness, &program, &desired("http://old:80"), undo);
    assert_eq!(writes[2..], [0; 4], "{writes:?}");
    for service in ["http://new:80", "http://newer:80"] {
        let writes = fight(&harness, &program, &desired(service), undo);
        assert!(harness.rules().iter().any(|rule| rule.contains(service)), "{:?}", harness.rules());
        assert_eq!(writes[3..], [0; 3], "{service}: {writes:?}");
    }
}

#[test]
fn paths_that_their_object_takes_off_one_by_one_and_asks_for_again_together_are_no_fight() {
    let harness = Harness::with_foreign();
    let program = harness.start();
    let path = |path: &str| {
        let properties = [("tunnel-service", "http://web:80"), ("tunnel-path", path)];
        let mut endpoint = endpoint_of("ingress/shop/web", FOUGHT, &properties);
        endpoint.set_identifier = path.to_owned();
        endpoint
    };
    let (calm, one, two) = (published("calm.example.com", "http://calm:80"), path("^/one"), path("^/two"));
    for round in 0..3 {
        for paths in [vec![&one, &two], vec![&one], vec![]] {
            let desired: Vec<Endpoint> = paths.iter().copied().chain([&calm]).cloned().collect();
            program.external_dns().run_loop(&desired).expect("done");
            let served = harness.rules().iter().filter(|rule| rule.contains(FOUGHT)).count();
            assert_eq!(served, paths.len(), "round {round}");
        }
    }
}
