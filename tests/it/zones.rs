//! Zones that come later, go out of sight, or lie inside one in which hostnames were published before.

use std::sync::Arc;
use std::time::Duration;

use cloudflare_emulator::{Fault, Matcher, Plan, TokenStatus};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use serde_json::json;
use test_support::clock::ManualClock;
use test_support::external_dns::ExternalDns;
use test_support::harness::{Harness, Program, TOKEN, endpoint, published};

use crate::shared_account;
use crate::shared_account::settle;

/// ExternalDNS's default interval.
const INTERVAL: Duration = Duration::from_secs(60);

/// The age at which the list of zones is read again.
const TEN_MINUTES: Duration = Duration::from_secs(600);

/// The zone inside `example.com`, and a hostname in it.
const INNER: &str = "dev.example.com";
const WEB: &str = "web.dev.example.com";

/// A program that runs by a clock of its own.
struct Fixture {
    program: Program,
    harness: Harness,
    clock: Arc<ManualClock>,
}

impl Fixture {
    fn new(harness: Harness) -> Self {
        Self::with(harness, &[])
    }

    fn with(harness: Harness, variables: &[(&'static str, &str)]) -> Self {
        let clock = Arc::new(ManualClock::default());
        let program = harness.start_by(Arc::clone(&clock) as _, variables);
        program.wait_until_ready();
        Self { program, harness, clock }
    }

    fn external_dns(&self) -> ExternalDns {
        self.program.external_dns()
    }

    /// A loop of ExternalDNS, an interval after the last one.
    fn run_loop(&self, desired: &[Endpoint]) -> Result<(), u16> {
        self.clock.put_ahead(INTERVAL);
        // So that no call is held back for those of loops long past.
        self.harness.cloudflare.advance_clock(INTERVAL);
        self.external_dns().run_loop(desired).map(drop)
    }

    fn settle(&self, desired: &[Endpoint]) {
        settle(self.external_dns(), &self.harness.cloudflare, desired).expect("it comes to rest");
    }

    /// Lets the list of zones grow old.
    fn wait_for_zones(&self) {
        self.clock.put_ahead(TEN_MINUTES);
    }

    fn set_status(&self, status: &str) {
        self.harness.cloudflare.edit(|cloudflare| {
            status.clone_into(&mut cloudflare.zone_mut(INNER).status);
        });
        self.wait_for_zones();
    }

    fn add_inner_zone(&self, status: &str) -> String {
        let inner = self.harness.cloudflare.add_zone(INNER, Plan::Pro);
        self.set_status(status);
        inner
    }

    /// Our records in a zone: name, what they lead to, and what their stamp claims.
    fn own(&self, zone: &str) -> Vec<(String, String, String)> {
        let records = self.harness.cloudflare.records(zone).into_iter();
        let mut own: Vec<_> = records
            .filter_map(|record| {
                let claims = shared_account::stamp(&record)?.claims.to_string();
                Some((record.name, record.content, claims))
            })
            .collect();
        own.sort_unstable();
        own
    }

    fn service(&self, host: &str) -> String {
        self.harness.service_at(host, "/")
    }
}

fn path(name: &str, prefix: &str) -> Endpoint {
    endpoint(name, &[("tunnel-service", "http://web:80"), ("tunnel-path-prefix", prefix)])
}

/// A name belongs to the longest active zone. The record that stands in the outer zone leads no visitor any more then,
/// and stays until it is deleted by hand.
#[test]
fn a_hostname_is_published_again_in_a_zone_inside_its_own_once_that_is_active() {
    let fixture = Fixture::new(Harness::new());
    let desired = [published(WEB, "http://web:80")];
    fixture.settle(&desired);
    let (outer, rules) = (fixture.own(&fixture.harness.zone), fixture.harness.rules());
    let inner = fixture.add_inner_zone("pending");
    fixture.settle(&desired);
    assert_eq!((fixture.own(&inner), fixture.own(&fixture.harness.zone)), (vec![], outer.clone()));
    fixture.set_status("active");
    fixture.settle(&desired);
    assert_eq!((&fixture.own(&inner), &fixture.own(&fixture.harness.zone)), (&outer, &outer));
    assert_eq!(fixture.harness.rules(), rules, "one rule serves both");
    let told = fixture.harness.log.lines_with(&[
        WEB,
        "ignores the record in zone example.com",
        "delete the record in example.com",
    ]);
    assert_eq!(told.len(), 1, "{told:?}");
    fixture.settle(&[]);
    assert_eq!((fixture.own(&inner), fixture.own(&fixture.harness.zone)), (vec![], outer));
}

/// The rule looks like ours after its record was deleted by hand, but a name of the inner zone is served by it.
#[test]
fn a_wildcards_rule_that_serves_a_name_of_an_inner_zone_outlives_an_object_of_the_wildcard() {
    let fixture = Fixture::new(Harness::new());
    let cloudflare = &fixture.harness.cloudflare;
    let inner = fixture.add_inner_zone("active");
    let target = format!("{}.cfargotunnel.com", fixture.harness.tunnel);
    let record = json!({"name": WEB, "type": "CNAME", "content": target, "proxied": true});
    cloudflare.add_record(&inner, record).expect("Cloudflare takes it");
    let rules = r#"{"ingress":[{"hostname":"*.example.com","service":"http://theirs:80"},{"service":"http_status:404"}]}"#;
    cloudflare.put_configuration(&fixture.harness.tunnel, rules).expect("cloudflared takes it");
    let before = fixture.harness.rules();
    for desired in [&[published("*.example.com", "http://theirs:80")][..], &[]] {
        for _ in 0..3 {
            fixture.run_loop(desired).expect("nothing is left to do");
        }
        let served = (fixture.harness.rules(), fixture.service(WEB));
        assert_eq!(served, (before.clone(), "http://theirs:80".to_owned()));
    }
    assert!(!fixture.harness.log.lines_with(&["refused=rule_held", "*.example.com"]).is_empty());
}

/// Visitors of a pending zone's names reach the outer zone, whether the webhook serves the pending zone or not.
#[test]
fn a_pending_zone_that_is_not_served_takes_no_hostname_until_it_is_active() {
    let harness = Harness::new();
    let zone = harness.zone.clone();
    let fixture = Fixture::with(harness, &[("ZONE_ID_FILTER", &zone)]);
    let desired = [published(WEB, "http://web:80")];
    fixture.settle(&desired);
    let outer = fixture.own(&fixture.harness.zone);
    fixture.add_inner_zone("pending");
    let both = [published(WEB, "http://web:80"), published("api.dev.example.com", "http://api:80")];
    fixture.settle(&both);
    assert_eq!((fixture.own(&fixture.harness.zone).len(), fixture.service(WEB)), (2, "http://web:80".into()));
    assert_eq!(fixture.harness.log.lines_with(&["ignores the record"]), [""; 0]);
    fixture.settle(&desired);
    assert_eq!(fixture.own(&fixture.harness.zone), outer);
    fixture.set_status("active");
    assert_eq!(fixture.run_loop(&desired), Ok(()));
    assert_eq!(fixture.own(&fixture.harness.zone), outer, "the record is left alone");
    assert_eq!(fixture.harness.log.lines_with(&[WEB, "ignores the record"]).len(), 1);
}

/// What the refusal tells the operator to do has to have an effect.
#[test]
fn a_hostname_without_a_zone_is_published_by_the_next_loop_after_its_zone_came() {
    for label in ["added to the account", "added to the token"] {
        let harness = Harness::new();
        let wanted = [published("shop.example.net", "http://shop:80")];
        if label == "added to the token" {
            harness.cloudflare.add_zone("example.net", Plan::Free);
            let seen = Some(vec![harness.zone.clone()]);
            harness.cloudflare.edit(|cloudflare| cloudflare.token_mut(TOKEN).zones = seen);
        }
        let fixture = Fixture::new(harness);
        for _ in 0..3 {
            fixture.run_loop(&wanted).expect("refused by name");
        }
        assert_eq!(fixture.harness.rules(), [""; 0], "{label}");
        if label == "added to the token" {
            fixture.harness.cloudflare.edit(|cloudflare| cloudflare.token_mut(TOKEN).zones = None);
        } else {
            fixture.harness.cloudflare.add_zone("example.net", Plan::Free);
        }
        for _ in 0..10 {
            fixture.run_loop(&wanted).expect("answered");
        }
        assert_eq!(fixture.service("shop.example.net"), "http://shop:80", "{label}");
    }
}

/// ExternalDNS takes what is missing for deleted, and asks for it again: nothing of that may be done.
#[test]
fn a_zone_that_goes_out_of_sight_keeps_its_hostnames_and_its_comeback_writes_nothing() {
    for label in ["a zone beside the others", "a zone inside another one"] {
        let harness = Harness::new();
        let (name, host) = match label {
            "a zone beside the others" => ("example.net", "shop.example.net"),
            _ => (INNER, WEB),
        };
        let hidden = harness.cloudflare.add_zone(name, Plan::Free);
        if name == INNER {
            let delegation = json!({"name": INNER, "type": "NS", "content": "alice.ns.cloudflare.com"});
            harness.cloudflare.add_record(&harness.zone, delegation).expect("Cloudflare takes it");
        }
        let fixture = Fixture::new(harness);
        let mut wanted =
            vec![published("web.example.com", "http://web:80"), published(host, "http://shop:80")];
        fixture.settle(&wanted);
        let before = (fixture.own(&fixture.harness.zone), fixture.own(&hidden), fixture.harness.rules());

        let seen = Some(vec![fixture.harness.zone.clone()]);
        fixture.harness.cloudflare.edit(|cloudflare| cloudflare.token_mut(TOKEN).zones = seen);
        // The records of a zone that is in the list cannot be read: half a snapshot is none.
        assert_eq!(fixture.run_loop(&wanted), Err(500), "{label}");
        fixture.harness.cloudflare.take_calls();
        for _ in 0..3 {
            fixture.run_loop(&wanted).expect("the others go on");
        }
        assert_eq!(fixture.harness.cloudflare.count_calls().writes, 0, "{label}");
        wanted.push(published("new.example.com", "http://new:80"));
        fixture.run_loop(&wanted).expect("the others go on");
        assert_eq!(fixture.service("new.example.com"), "http://new:80", "{label}");
        wanted.pop();
        fixture.run_loop(&wanted).expect("the others go on");
        assert_eq!(
            (fixture.own(&fixture.harness.zone), fixture.own(&hidden), fixture.harness.rules()),
            before,
            "{label}"
        );

        fixture.harness.cloudflare.edit(|cloudflare| cloudflare.token_mut(TOKEN).zones = None);
        fixture.wait_for_zones();
        fixture.harness.cloudflare.take_calls();
        fixture.settle(&wanted);
        assert_eq!(fixture.harness.cloudflare.count_calls().writes, 0, "{label}");
        fixture.settle(&wanted[..1]);
        assert_eq!(fixture.own(&hidden), [], "{label}: it can be withdrawn again");
    }
}

/// Without `CF_ACCOUNT_ID` the account is the one that all zones share; the next start would have to be told which.
#[test]
fn a_zone_of_another_account_that_comes_later_does_not_end_readiness() {
    let fixture = Fixture::with(Harness::new(), &[("CF_ACCOUNT_ID", "")]);
    fixture.harness.cloudflare.edit(|cloudflare| {
        let account = cloudflare.add_account("other");
        cloudflare.add_zone_to(&account, "example.net", Plan::Pro);
    });
    fixture.wait_for_zones();
    let wanted = [published("web.example.com", "http://web:80")];
    fixture.settle(&wanted);
    fixture.harness.cloudflare.take_calls();
    // What makes the program look at the token and the tunnels again.
    fixture.harness.cloudflare.fault(Matcher::list_records(), 1, Fault::error(403, 10000, "no"));
    assert_eq!(fixture.run_loop(&wanted), Err(500));
    fixture.harness.cloudflare.edit(|cloudflare| cloudflare.token_mut(TOKEN).status = TokenStatus::Active);
    fixture.clock.put_ahead(INTERVAL);
    assert!(
        fixture.harness.cloudflare.wait_for_calls(5, Duration::from_secs(60)),
        "the token and the tunnels"
    );
    fixture.settle(&wanted);
    assert!(fixture.program.is_ready());
}

/// Copies of our record, made by hand with its comment in two parts: what either of them claims is ours.
#[test]
fn every_record_of_a_hostname_that_has_our_stamp_counts() {
    let fixture = Fixture::new(Harness::new());
    let both = [published("web.example.com", "http://web:80"), path("web.example.com", "/api")];
    fixture.settle(&both);
    let comment = |claims: &str| format!("external-dns owner=default rules={claims}");
    let (_, _, claims) = fixture.own(&fixture.harness.zone)[0].clone();
    let (first, second) = claims.split_at(3);
    fixture.harness.cloudflare.edit(|cloudflare| {
        let id = cloudflare.records("example.com")[0].id.clone();
        cloudflare.delete_record("example.com", &id).expect("it is there");
        for (content, claims) in [("192.0.2.1", first), ("192.0.2.2", second)] {
            let record =
                json!({"name": "web.example.com", "type": "A", "content": content, "comment": comment(claims)});
            cloudflare.add_record("example.com", record).expect("Cloudflare takes it");
        }
    });
    fixture.settle(&[]);
    assert_eq!(fixture.own(&fixture.harness.zone), []);
    assert_eq!(fixture.harness.rules().len(), 1, "no rule is left behind");
}

/// A record with our stamp that leads to a tunnel, named second, which is not configured.
fn with_foreign_tunnel() -> (Harness, String) {
    let harness = Harness::new();
    let other = harness.cloudflare.add_tunnel("other");
    let record = json!({
        "name": "theirs.example.com", "type": "CNAME", "content": format!("{other}.cfargotunnel.com"),
        "proxied": true, "comment": "external-dns owner=default rules=-",
    });
    harness.cloudflare.add_record(&harness.zone, record).expect("Cloudflare takes it");
    (harness, other)
}

/// What rarely changes is known for ten minutes, and not for one call more.
#[test]
fn zones_and_foreign_tunnels_are_looked_at_again_when_ten_minutes_are_over() {
    let (harness, other) = with_foreign_tunnel();
    let (clock, program) = harness.start_stopped(&[]);
    let moment = Duration::from_millis(1);
    program.external_dns().records().expect("shown");
    for (passed, looks) in [(Duration::ZERO, 0), (TEN_MINUTES - moment, 0), (moment, 1)] {
        clock.put_ahead(passed);
        harness.cloudflare.take_calls();
        program.external_dns().records().expect("shown");
        let calls = harness.cloudflare.take_calls();
        for end in ["/zones", &*other] {
            let count = calls.iter().filter(|call| call.path.ends_with(end)).count();
            assert_eq!(count, looks, "{end} after {passed:?}");
        }
    }
    assert_eq!(harness.cnames().len(), 1, "it is another instance's while its tunnel lives");
    harness.cloudflare.edit(|cloudflare| cloudflare.tunnel_mut("other").deleted = true);
    clock.put_ahead(TEN_MINUTES);
    program.external_dns().run_loop(&[]).expect("answered");
    assert_eq!(harness.cnames().len(), 0, "what a deleted tunnel leaves behind is ours to withdraw");
}

/// Zones that are not served say nothing of the account.
#[test]
fn a_zone_of_another_account_that_is_not_served_does_not_keep_the_start_waiting() {
    let harness = Harness::new();
    harness.cloudflare.edit(|cloudflare| {
        let other = cloudflare.add_account("other");
        cloudflare.add_zone_to(&other, "example.net", Plan::Free);
    });
    let served = harness.zone.clone();
    let program = harness.start_with(&[("CF_ACCOUNT_ID", ""), ("ZONE_ID_FILTER", &served)]);
    program.external_dns().run_loop(&[published("web.example.com", "http://web:80")]).expect("published");
    assert_eq!(harness.log.lines_with(&["ignores these zones"]), [""; 0]);
    assert_eq!(harness.log.lines_with(&["the webhook serves these zones", "zones=example.com"]).len(), 1);
}

/// The account is known by its setting, so the webhook is ready and refuses every hostname.
#[test]
fn a_start_that_sees_no_zone_warns_of_it() {
    let harness = Harness::new();
    harness.cloudflare.edit(|cloudflare| cloudflare.token_mut(TOKEN).zones = Some(Vec::new()));
    let program = harness.start();
    program.wait_until_ready();
    let warned = harness.log.lines_with(&["WARN", "no_zone", "give the token"]);
    assert_eq!(warned.len(), 1, "{:?}", harness.log.lines_with(&["zones="]));
}

/// The old list would fail again in the same way.
#[test]
fn a_list_of_zones_in_doubt_is_asked_for_in_every_loop_until_it_is_read() {
    let harness = Harness::new();
    harness.cloudflare.add_zone("example.net", Plan::Free);
    let fixture = Fixture::new(harness);
    let wanted = [published("web.example.com", "http://web:80")];
    fixture.settle(&wanted);
    let seen = Some(vec![fixture.harness.zone.clone()]);
    fixture.harness.cloudflare.edit(|cloudflare| cloudflare.token_mut(TOKEN).zones = seen);
    assert_eq!(fixture.run_loop(&wanted), Err(500), "the records of a zone in the list cannot be read");
    fixture.harness.cloudflare.fault_every(Matcher::call("GET", "/zones"), Fault::status(500));
    for _ in 0..2 {
        fixture.harness.cloudflare.take_calls();
        assert_eq!(fixture.external_dns().run_loop(&wanted).err(), Some(503));
        let calls = fixture.harness.cloudflare.take_calls();
        assert!(calls.iter().any(|call| call.path.ends_with("/zones")), "{calls:#?}");
        assert!(!calls.iter().any(|call| call.path.ends_with("/dns_records")), "{calls:#?}");
    }
    fixture.harness.cloudflare.clear_faults();
    fixture.external_dns().run_loop(&wanted).expect("the others go on");
}

/// Runs loops for five minutes, each of which changes a hostname, beside so many records of others. Returns the calls
/// that they cost, and the loops that were answered 503.
fn storm(zones: usize, records: usize, seconds: u64) -> (usize, usize) {
    let harness = Harness::new();
    for number in 1..zones {
        harness.cloudflare.add_zone(&format!("zone-{number}.example"), Plan::Free);
    }
    harness.cloudflare.edit(|cloudflare| cloudflare.zone_mut(&harness.zone).record_quota = records + 10);
    let foreign: Vec<_> = (0..records)
        .map(|number| json!({"type": "A", "name": format!("host-{number}.example.com"), "content": "192.0.2.7"}))
        .collect();
    harness.cloudflare.add_records(&harness.zone, &foreign).expect("the quota is raised");
    let fixture = Fixture::new(harness);
    let run_loop = |number: u64| {
        let desired = [published("www.example.com", &format!("http://web-{number}:80"))];
        fixture.clock.put_ahead(Duration::from_secs(seconds));
        fixture.harness.cloudflare.advance_clock(Duration::from_secs(seconds));
        fixture.external_dns().run_loop(&desired)
    };
    run_loop(0).expect("a first loop");
    fixture.harness.cloudflare.take_calls();
    let failed = (1..=300 / seconds).filter(|number| run_loop(*number).is_err()).count();
    // The watch looks at the connectors whenever its thread wakes, which is no cost of a loop.
    let calls = fixture.harness.cloudflare.take_calls().into_iter();
    (calls.filter(|call| !call.path.ends_with("/connections")).count(), failed)
}

/// ExternalDNS with `--events` and `--min-event-sync-interval`. Cloudflare allows 1,200 calls in five minutes.
#[test]
fn a_storm_of_changes_fits_into_the_calls_with_fifteen_seconds_between_loops() {
    for zones in [1, 5, 20] {
        let (calls, failed) = storm(zones, 0, 15);
        assert!(calls < 900 && failed == 0, "{zones} zones: {calls} calls, {failed} failed");
    }
    let (calls, failed) = storm(5, 0, 5);
    assert!(calls < 900 && failed == 0, "{calls} calls, {failed} failed");
    let (_, failed) = storm(20, 0, 5);
    assert!(failed > 20, "twenty zones do not fit with five seconds: {failed} failed");
}

/// So 60,000 records, which are thirteen pages, cost what thirteen zones cost: 603 calls in a storm with fifteen
/// seconds.
#[test]
fn a_page_of_records_costs_a_loop_with_a_change_what_a_zone_costs() {
    let (of_zones, _) = storm(3, 0, 60);
    assert_eq!(storm(1, 12_000, 60), (of_zones, 0));
}

/// The zone contains the name, but other name servers answer for it.
#[test]
fn a_delegated_name_is_refused_with_a_text_that_names_the_delegation() {
    let harness = Harness::new();
    let record = json!({"name": "lab.example.com", "type": "NS", "content": "ns1.lab.test"});
    harness.cloudflare.add_record(&harness.zone, record).expect("Cloudflare takes it");
    let program = harness.start();
    let desired = [published("a.lab.example.com", "http://a:80"), published("a.example.net", "http://a:80")];
    program.external_dns().run_loop(&desired).expect("refused by name");
    let lines = harness.log.lines_with(&["refused=no_zone", "no zone answers for the name", "NS records"]);
    assert_eq!(lines.len(), 2, "{:#?}", harness.log.lines_with(&["refused="]));
}
