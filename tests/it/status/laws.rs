//! The law of `status` over random small histories: mistakes that are made and mended, two objects of one place,
//! changes by hand, a filter of ExternalDNS, and writes that fail.

use std::sync::Arc;
use std::time::Duration;

use cloudflare_emulator::{Fault, Matcher};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use proptest::prelude::*;
use serde_json::json;
use test_support::clock::ManualClock;
use test_support::external_dns::Changes;
use test_support::harness::{Harness, Program, endpoint_of};

use super::{Row, Status, overview};

const HOSTS: [&str; 3] = ["a.example.com", "b.example.com", "*.c.example.com"];

/// What an object asks for: its name, a hostname, a path, and a service, or what is none.
type Asked = (&'static str, &'static str, &'static str, &'static str);

/// What is done at Cloudflare before a loop.
#[derive(Clone, Copy, Debug)]
enum Hand {
    Nothing,
    DeletesRecords,
    LeadsRecordsElsewhere,
    DeletesRules,
}

#[derive(Clone, Copy, Debug)]
enum Failing {
    Error,
    Forbidden,
    Lost,
    Refused,
    Limited,
}

/// The writes of a loop that fail: all to a zone or to a tunnel, or the n-th one.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    Nothing,
    OfRecords(Failing),
    OfRules(Failing),
    One(usize, Failing),
}

#[derive(Clone, Debug)]
struct Step {
    asked: Vec<Asked>,
    hand: Hand,
    trouble: Trouble,
}

impl Failing {
    const ALL: [Self; 5] = [Self::Error, Self::Forbidden, Self::Lost, Self::Refused, Self::Limited];

    fn fault(self) -> Fault {
        match self {
            Self::Error => Fault::status(500),
            Self::Forbidden => Fault::error(403, 10_000, "Authentication error"),
            Self::Lost => Fault::DoneButUnanswered,
            Self::Refused => Fault::error(400, 9_999, "Cloudflare dislikes it"),
            Self::Limited => Fault::limited(600),
        }
    }
}

impl Trouble {
    fn arise(self, harness: &Harness) {
        let faults = &harness.cloudflare;
        match self {
            Self::Nothing => {}
            Self::OfRecords(failing) => faults.fault_every(Matcher::batch(), failing.fault()),
            Self::OfRules(failing) => faults.fault_every(Matcher::put_configuration(), failing.fault()),
            Self::One(nth, failing) => faults.fault(Matcher::writes(), nth, failing.fault()),
        }
    }
}

impl Hand {
    fn work(self, harness: &Harness) {
        harness.cloudflare.edit(|cloudflare| {
            let zone = &harness.zone;
            let ids: Vec<String> = cloudflare.records(zone).iter().map(|record| record.id.clone()).collect();
            match self {
                Self::Nothing => {}
                Self::DeletesRules => {
                    let none = r#"{"ingress":[{"service":"http_status:404"}]}"#;
                    cloudflare.put_configuration(&harness.tunnel, none).expect("cloudflared takes it");
                }
                Self::DeletesRecords => ids.iter().for_each(|id| {
                    cloudflare.delete_record(zone, id).expect("it is there");
                }),
                Self::LeadsRecordsElsewhere => ids.iter().for_each(|id| {
                    let elsewhere = json!({"content": "somewhere.test"});
                    cloudflare.patch_record(zone, id, &elsewhere).expect("Cloudflare takes it");
                }),
            }
        });
    }
}

fn any_step() -> impl Strategy<Value = Step> {
    let asked = (
        prop::sample::select(&["ingress/n/x", "ingress/n/y"][..]),
        prop::sample::select(&HOSTS[..]),
        prop::sample::select(&["", "", "^/p", "^/q"][..]),
        prop::sample::select(&["http://one:80", "http://two:80", "nonsense://three", ""][..]),
    );
    let failing = || prop::sample::select(&Failing::ALL[..]);
    let trouble = prop_oneof![
        3 => Just(Trouble::Nothing),
        1 => failing().prop_map(Trouble::OfRecords),
        1 => failing().prop_map(Trouble::OfRules),
        1 => (1..4usize, failing()).prop_map(|(nth, failing)| Trouble::One(nth, failing)),
    ];
    let hand = prop_oneof![
        6 => Just(Hand::Nothing),
        1 => Just(Hand::DeletesRecords),
        1 => Just(Hand::LeadsRecordsElsewhere),
        1 => Just(Hand::DeletesRules),
    ];
    let asked = prop::collection::vec(asked, 0..6);
    (asked, hand, trouble).prop_map(|(asked, hand, trouble)| Step { asked, hand, trouble })
}

/// The row that says the state of a place: the one of its path, or else the one of its hostname.
fn state<'s>(status: &'s Status, endpoint: &Endpoint) -> &'s Row {
    let is_of =
        |row: &&Row| row.hostname == endpoint.dns_name && !["note", "left out"].contains(&&*row.state);
    let with_path = |path: Option<&str>| {
        status.rows.iter().filter(is_of).filter(|row| row.path.as_deref() == path).collect::<Vec<&Row>>()
    };
    let mut found = with_path(Some(&endpoint.set_identifier));
    if found.is_empty() {
        found = with_path(None);
    }
    let [row] = &*found else { panic!("one state of {endpoint:?}: {status:#?}") };
    row
}

fn is_as(endpoint: &Endpoint, others: &[Endpoint]) -> bool {
    let compared = |one: &Endpoint| {
        let Endpoint { dns_name, record_type, set_identifier, targets, provider_specific, .. } = one.clone();
        (dns_name, record_type, set_identifier, targets, provider_specific)
    };
    others.iter().any(|other| compared(other) == compared(endpoint))
}

/// Checks all places against what is sent and what was shown, and returns those that are said to be written.
fn check(program: &Program, sent: &[Endpoint], shown: &[Endpoint]) -> Vec<Endpoint> {
    let (all, mut written, mut is_well) = (overview(program), Vec::new(), true);
    for endpoint in sent {
        let status = Status::of(program, &endpoint.dns_name);
        let row = state(&status, endpoint);
        assert_eq!(row.state == "published", is_as(endpoint, shown), "{endpoint:?} {status:#?} {shown:#?}");
        let is_done = ["published", "written"].contains(&&*row.state);
        assert!(is_done || !status.ok, "{status:#?}");
        assert!(is_done || all.rows.iter().any(|row| row.hostname == endpoint.dns_name), "{all:#?}");
        is_well &= is_done;
        written.extend((row.state == "written").then(|| endpoint.clone()));
    }
    assert!(is_well || !all.ok, "{all:#?}");
    for row in all.rows.iter().filter(|row| row.refused.is_some()) {
        let mut sent_there = sent.iter().filter(|one| one.dns_name == row.hostname);
        let mut shown_there = shown.iter().filter(|one| one.dns_name == row.hostname);
        let differs = sent_there.any(|one| !is_as(one, shown)) || shown_there.any(|one| !is_as(one, sent));
        assert!(differs, "ExternalDNS asks for nothing there: {row:?}");
    }
    written
}

/// Plays the steps. A filter of ExternalDNS keeps one hostname out of its requests, if there is one.
fn run(steps: &[Step], filtered: Option<&str>) {
    let harness = Harness::new();
    let clock = Arc::<ManualClock>::default();
    let program = harness.start_by(Arc::clone(&clock) as _, &[("MASS_DELETION_LIMIT", "0")]);
    program.wait_until_ready();
    let external_dns = program.external_dns();
    let mut written: Vec<Endpoint> = Vec::new();
    for step in steps {
        if !written.is_empty() {
            let shown = external_dns.records().expect("read");
            for endpoint in &written {
                assert!(is_as(endpoint, &shown), "{endpoint:?} is said to be written: {shown:#?}");
            }
        }
        step.hand.work(&harness);
        let shown = external_dns.records().expect("read");
        let desired: Vec<Endpoint> = step
            .asked
            .iter()
            .map(|(object, host, path, service)| {
                endpoint_of(object, host, &[("tunnel-service", service), ("tunnel-path", path)])
            })
            .collect();
        let sent = external_dns.adjust(&desired).expect("adjusted");
        assert_eq!(check(&program, &sent, &shown), [], "nothing is written in this loop yet");
        let mut changes = external_dns.registry.plan(&shown, &sent);
        let is_asked = |one: &Endpoint| filtered.is_none_or(|filtered| *one.dns_name != *filtered);
        let Changes { create, update_old, update_new, delete } = &mut changes;
        [create, update_old, update_new, delete].into_iter().for_each(|list| list.retain(is_asked));
        step.trouble.arise(&harness);
        let is_sent = changes != Changes::default();
        let outcome = is_sent.then(|| external_dns.apply(&changes));
        harness.cloudflare.clear_faults();
        written = check(&program, &sent, &shown);
        for endpoint in &sent {
            let status = Status::of(&program, &endpoint.dns_name);
            let row = state(&status, endpoint);
            if is_sent && is_asked(endpoint) {
                assert!(!row.what.contains("--domain-filter"), "it was asked for: {outcome:?} {status:#?}");
            } else {
                let is_possible = ["published", "waiting"].contains(&&*row.state);
                assert!(is_possible, "it was not asked for: {status:#?}");
            }
        }
        // A limit of calls is over.
        clock.put_ahead(Duration::from_secs(700));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_place_that_is_sent_has_one_state_and_that_is_true(
        steps in prop::collection::vec(any_step(), 1..6),
        filtered in prop::option::weighted(0.2, prop::sample::select(&HOSTS[..])),
    ) {
        run(&steps, filtered);
    }
}
