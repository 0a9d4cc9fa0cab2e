//! A request changes a thousand hostnames at most; the next ones go on behind them.

use std::sync::Arc;
use std::time::Duration;

use cloudflare_emulator::{Cloudflare, Fault, Matcher, Plan};
use external_dns_cloudflare_tunnel_webhook::limits::CHANGED_HOSTNAMES_MAX;
use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Endpoint, Property};
use serde_json::json;
use test_support::clock::ManualClock;
use test_support::external_dns::Changes;
use test_support::harness::{Harness, Program, published};

/// So much of a request's time leaves none to write.
const LONG: Duration = Duration::from_secs(11);

/// More than fit into two requests.
const HOSTNAMES: usize = 2 * CHANGED_HOSTNAMES_MAX + 100;

fn shops(domain: &str, count: usize) -> Vec<Endpoint> {
    (0..count).map(|number| published(&format!("shop-{number:04}.{domain}"), "http://shop:80")).collect()
}

fn served(harness: &Harness, domain: &str) -> usize {
    harness.rules().iter().filter(|rule| rule.contains(domain)).count()
}

#[test]
fn thousands_of_hostnames_are_published_in_turn_and_withdrawn_in_turn_after_all_else() {
    let harness = roomy();
    let program = harness.start_with(&[("MASS_DELETION_LIMIT", "0")]);
    let external_dns = program.external_dns();
    let shops = shops("example.com", HOSTNAMES);
    for (outcome, rules) in [(Err(503), 1_000), (Err(503), 2_000), (Ok(()), 2_100)] {
        assert_eq!(external_dns.run_loop(&shops).map(drop), outcome);
        assert_eq!(served(&harness, "example.com"), rules);
    }
    assert_eq!(external_dns.run_loop(&shops), Ok(Changes::default()));
    for (left, lines) in [(1_100, 1), (100, 1), (0, 0)] {
        let words = format!("left to the next requests: {left}");
        assert_eq!(harness.log.lines_with(&[&words]).len(), lines, "{left} are left");
    }

    let (stays, comes) = (&shops[..200], published("zz.example.com", "http://shop:80"));
    let wanted: Vec<Endpoint> = stays.iter().cloned().chain([comes]).collect();
    assert_eq!(external_dns.run_loop(&wanted).map(drop), Err(503));
    assert_eq!(harness.service_at("zz.example.com", "/"), "http://shop:80", "what comes is first");
    assert_eq!(external_dns.run_loop(&wanted).map(drop), Ok(()));
    assert_eq!(served(&harness, "example.com"), 201);
}

/// Each turn looks at other hostnames, and knows nothing of those that it leaves.
#[test]
fn a_mistake_beside_thousands_of_hostnames_is_told_once() {
    let harness = roomy();
    let program = harness.start();
    let external_dns = program.external_dns();
    let mistaken = ["aa", "zz"].map(|name| published(&format!("{name}.example.com"), "nonsense://shop"));
    let wanted: Vec<Endpoint> = shops("example.com", HOSTNAMES).into_iter().chain(mistaken).collect();
    while served(&harness, "example.com") < HOSTNAMES {
        let _ = external_dns.run_loop(&wanted);
    }
    let _ = external_dns.run_loop(&wanted);
    for name in ["aa.example.com", "zz.example.com"] {
        assert_eq!(harness.log.lines_with(&["refused=invalid", name]).len(), 1, "{name}");
    }
}

/// Otherwise it would be refused in the status, and be kept in mind, for as long as any zone cannot be written.
#[test]
fn a_mended_mistake_beside_thousands_of_hostnames_that_are_left_is_told_when_it_comes_back() {
    let harness = roomy();
    let batch = Matcher::call("POST", &format!("/zones/{}/dns_records/batch", harness.zone));
    harness.cloudflare.fault_every(batch, Fault::status(500));
    let program = harness.start();
    let external_dns = program.external_dns();
    let shops = shops("example.com", HOSTNAMES);
    let mut mistaken = shops.clone();
    mistaken.push(published("aa.example.com", "nonsense://shop"));
    let metrics = || program.observe("GET", "/metrics").expect("the observation port answers").body;
    for (wanted, refusals) in [(&mistaken, 1), (&shops, 0), (&mistaken, 1)] {
        for turn in 1..=3 {
            let _ = external_dns.run_loop(wanted);
            let sample = format!("cloudflare_tunnel_webhook_refusals{{reason=\"invalid\"}} {refusals}\n");
            assert!(metrics().contains(&sample), "turn {turn}: {refusals}");
        }
    }
    assert_eq!(harness.log.lines_with(&["refused=invalid", "aa.example.com"]).len(), 2);
}

/// Otherwise their records would lead to no rule until all others had their turn.
#[test]
fn a_request_whose_answer_is_lost_goes_on_with_the_hostnames_of_its_own_turn() {
    let harness = roomy();
    harness.cloudflare.fault(Matcher::batch(), 1, Fault::DoneButUnanswered);
    let program = harness.start();
    let _ = program.external_dns().run_loop(&shops("example.com", HOSTNAMES));
    assert_eq!(harness.service_at("shop-0000.example.com", "/"), "http://shop:80");
}

/// The records are there, and the request ends before it knows that.
#[test]
fn after_a_lost_answer_and_a_failed_reading_the_next_request_begins_with_the_same_hostnames() {
    let harness = roomy();
    harness.cloudflare.fault(Matcher::batch(), 1, Fault::DoneButUnanswered);
    let list = Matcher::call("GET", &format!("/zones/{}/dns_records", harness.zone));
    let program = harness.start();
    // The first reading is that of GET /records, and the second that of the first attempt. A read is tried a few times.
    (3..20).for_each(|nth| harness.cloudflare.fault(list.clone(), nth, Fault::status(500)));
    let shops = shops("example.com", HOSTNAMES);
    assert_eq!(program.external_dns().run_loop(&shops).map(drop), Err(503));
    harness.cloudflare.clear_faults();
    assert!(!harness.rules().iter().any(|rule| rule.contains("shop-0000.")));
    assert_eq!(program.external_dns().run_loop(&shops).map(drop), Err(503));
    assert_eq!(harness.service_at("shop-0000.example.com", "/"), "http://shop:80");
}

/// The second run of the request has no time to write.
#[test]
fn after_a_lost_answer_a_turn_that_runs_out_of_time_is_repeated() {
    let harness = roomy();
    let (clock, program) = harness.start_stopped(&[]);
    let takes = |seconds: u64| {
        let clock = Arc::clone(&clock);
        move |_: &mut Cloudflare| clock.put_ahead(Duration::from_secs(seconds))
    };
    let put = Matcher::put_configuration();
    harness.cloudflare.fault(put.clone(), 1, Fault::Reset);
    harness.cloudflare.edit_before(put, 1, takes(8));
    let list = Matcher::call("GET", &format!("/zones/{}/dns_records", harness.zone));
    harness.cloudflare.edit_after(list, 3, takes(3));
    let shops = shops("example.com", HOSTNAMES);
    assert_eq!(program.external_dns().run_loop(&shops).map(drop), Err(503));
    assert_eq!((harness.cnames().len(), served(&harness, "example.com")), (CHANGED_HOSTNAMES_MAX, 0));
    assert_eq!(program.external_dns().run_loop(&shops).map(drop), Err(503));
    assert_eq!(served(&harness, "example.com"), CHANGED_HOSTNAMES_MAX);
    assert_eq!(harness.service_at("shop-0000.example.com", "/"), "http://shop:80");
}

/// The records are there, and the request has no time to find that out.
#[test]
fn after_a_lost_answer_that_took_all_of_the_time_the_next_request_begins_with_the_same_hostnames() {
    let harness = roomy();
    let (clock, program) = harness.start_stopped(&[]);
    harness.cloudflare.fault(Matcher::batch(), 1, Fault::DoneButUnanswered);
    harness.cloudflare.edit_before(Matcher::batch(), 1, move |_| clock.put_ahead(LONG));
    let shops = shops("example.com", HOSTNAMES);
    assert_eq!(program.external_dns().run_loop(&shops).map(drop), Err(503));
    assert_eq!((harness.cnames().len(), served(&harness, "example.com")), (CHANGED_HOSTNAMES_MAX, 0));
    assert_eq!(program.external_dns().run_loop(&shops).map(drop), Err(503));
    assert_eq!(harness.service_at("shop-0000.example.com", "/"), "http://shop:80");
}

/// Otherwise each request would begin what it has no time to end, and no loop would get further.
#[test]
fn a_turn_that_runs_out_of_time_is_gone_on_with_by_the_next_one() {
    let harness = roomy();
    let program = start_slow(&harness, &Matcher::batch());
    let external_dns = program.external_dns();
    let shops = shops("example.com", HOSTNAMES);
    for (outcome, rules) in [(Err(503), 0), (Err(503), 1_000), (Err(503), 2_000), (Ok(()), 2_100)] {
        assert_eq!(external_dns.run_loop(&shops).map(drop), outcome);
        assert_eq!(served(&harness, "example.com"), rules);
        let is_first_served = harness.rules().iter().any(|rule| rule.contains("shop-0000."));
        assert_eq!(is_first_served, rules > 0);
    }
}

/// A record without its rule takes the hostname's visitors from a wildcard.
#[test]
fn beside_a_hostname_that_cannot_be_written_a_turn_that_runs_out_of_time_is_gone_on_with_all_the_same() {
    let harness = roomy();
    let (clock, program) = start_beside_forbidden_zone(&harness);
    harness.cloudflare.edit_after(Matcher::batch(), 2, move |_| clock.put_ahead(LONG));
    let mut wanted = shops("example.com", HOSTNAMES);
    wanted.push(published("a.example.org", "http://shop:80"));
    for expected in [0, CHANGED_HOSTNAMES_MAX - 1] {
        assert_eq!(program.external_dns().run_loop(&wanted).map(drop), Err(503));
        assert_eq!(served(&harness, "example.com"), expected);
    }
    assert_eq!(harness.service_at("shop-0000.example.com", "/"), "http://shop:80");
}

#[test]
fn a_request_whose_answer_is_lost_is_not_begun_anew_without_time_to_write() {
    let harness = roomy();
    let put = Matcher::put_configuration();
    harness.cloudflare.fault(put.clone(), 1, Fault::DoneButUnanswered);
    let program = start_slow(&harness, &put);
    assert_eq!(program.external_dns().run_loop(&shops("example.com", 2)).map(drop), Err(503));
    let calls = harness.cloudflare.take_calls();
    let readings = calls.iter().filter(|call| call.path.ends_with("/dns_records") && call.method == "GET");
    assert_eq!(readings.count(), 2, "GET /records and POST /records: {calls:?}");
}

/// The limit compares all that one request deletes, and not what is done of it.
#[test]
fn a_mass_deletion_is_judged_over_the_whole_request() {
    let harness = roomy();
    let program = harness.start();
    let external_dns = program.external_dns();
    let shops = shops("example.com", HOSTNAMES);
    while external_dns.run_loop(&shops) != Ok(Changes::default()) {}
    let few = &shops[..900];
    for _ in 0..3 {
        assert_eq!(external_dns.run_loop(few).map(drop), Err(503));
        assert_eq!(served(&harness, "example.com"), HOSTNAMES);
    }
}

#[test]
fn a_thousand_hostnames_of_a_zone_that_cannot_be_written_let_others_pass() {
    let harness = roomy();
    let other = harness.cloudflare.add_zone("example.org", Plan::Pro);
    let batch = Matcher::call("POST", &format!("/zones/{}/dns_records/batch", harness.zone));
    harness.cloudflare.fault_every(batch, Fault::status(500));
    let program = harness.start();
    let external_dns = program.external_dns();
    let mut wanted = shops("example.com", HOSTNAMES);
    wanted.extend(
        shops("example.org", 10)
            .into_iter()
            .map(|shop| Endpoint { dns_name: format!("z{}", shop.dns_name), ..shop }),
    );
    for _ in 0..3 {
        let _ = external_dns.run_loop(&wanted);
    }
    assert_eq!(served(&harness, "example.org"), 10);
    assert_eq!(harness.cloudflare.records(&other).len(), 10);
}

/// The zone of the thousand takes all of the time of each request. Its answers are lost, so the turn is repeated twice.
#[test]
fn a_thousand_hostnames_that_take_all_of_the_time_let_others_pass() {
    let harness = roomy();
    let other = harness.cloudflare.add_zone("example.org", Plan::Pro);
    let (clock, program) = harness.start_stopped(&[]);
    let batch = Matcher::call("POST", &format!("/zones/{}/dns_records/batch", harness.zone));
    let mut wanted = shops("example.com", CHANGED_HOSTNAMES_MAX);
    wanted.push(published("zz.example.org", "http://shop:80"));
    for _ in 0..4 {
        harness.cloudflare.clear_faults();
        harness.cloudflare.fault_every(batch.clone(), Fault::Reset);
        let clock = Arc::clone(&clock);
        harness.cloudflare.edit_after(batch.clone(), 1, move |_| clock.put_ahead(LONG));
        assert_eq!(program.external_dns().run_loop(&wanted).map(drop), Err(503));
    }
    assert_eq!(harness.cloudflare.records(&other).len(), 1);
    assert_eq!(served(&harness, "example.org"), 1);
}

/// What waits leaves its place in the turn to others.
#[test]
fn behind_a_thousand_moves_that_wait_no_hostname_is_led_to_a_tunnel_without_connectors() {
    let harness = roomy();
    for tunnel in ["office", "shed"] {
        harness.cloudflare.add_tunnel(tunnel);
        harness.cloudflare.edit(|cloudflare| cloudflare.tunnel_mut(tunnel).connectors = 0);
    }
    let program = harness.start_with(&[("CF_TUNNEL_ID", "home,office,shed")]);
    let external_dns = program.external_dns();
    let last = "zz.example.com";
    let mut wanted = shops("example.com", CHANGED_HOSTNAMES_MAX);
    wanted.push(published(last, "http://shop:80"));
    while external_dns.run_loop(&wanted) != Ok(Changes::default()) {}
    for endpoint in &mut wanted {
        let tunnel = if endpoint.dns_name == last { "shed" } else { "office" };
        endpoint.provider_specific.push(Property::new("webhook/tunnel", tunnel));
    }
    for _ in 0..4 {
        assert_eq!(external_dns.run_loop(&wanted).map(drop), Err(503));
        assert_eq!(harness.service_at(last, "/"), "http://shop:80");
    }
}

/// The program at a Cloudflare that takes long for the first of such calls.
fn start_slow(harness: &Harness, call: &Matcher) -> Program {
    let (clock, program) = harness.start_stopped(&[]);
    harness.cloudflare.take_calls();
    harness.cloudflare.edit_after(call.clone(), 1, move |_| clock.put_ahead(LONG));
    program
}

/// The program beside a zone that cannot be written, `example.org`.
fn start_beside_forbidden_zone(harness: &Harness) -> (Arc<ManualClock>, Program) {
    let other = harness.cloudflare.add_zone("example.org", Plan::Pro);
    let forbidden = Matcher::call("POST", &format!("/zones/{other}/dns_records/batch"));
    harness.cloudflare.fault_every(forbidden, Fault::error(403, 10000, "no"));
    harness.start_stopped(&[])
}

/// A zone with room for all of them.
fn roomy() -> Harness {
    let harness = Harness::new();
    harness.cloudflare.edit(|cloudflare| cloudflare.zone_mut(&harness.zone).record_quota = 10_000);
    harness
}

/// The records are in front of a wildcard record that leads elsewhere.
#[test]
fn records_that_a_request_left_without_rules_are_taken_back_before_others_have_their_turn() {
    for is_first_throttled in [false, true] {
        let harness = roomy();
        let wildcard =
            json!({"name": "*.example.com", "type": "A", "content": "192.0.2.50", "proxied": true});
        harness.cloudflare.add_record("example.com", wildcard).expect("taken");
        // Cloudflare fails on documents with the new rules, and takes the document as it was.
        let put = Matcher::put_configuration().with_body("shop-");
        harness.cloudflare.fault_every(put, Fault::status(500));
        if is_first_throttled {
            harness.cloudflare.fault(Matcher::batch(), 1, Fault::limited(1));
        }
        let (clock, program) = harness.start_stopped(&[]);
        let shops = shops("example.com", HOSTNAMES);
        let mut hidden = Vec::new();
        for _ in 0..7 {
            let _ = program.external_dns().run_loop(&shops);
            hidden.push(harness.cnames().iter().filter(|(name, ..)| name.starts_with("shop-")).count());
            clock.put_ahead(Duration::from_secs(5));
            harness.cloudflare.advance_clock(Duration::from_secs(5));
        }
        let first = hidden.iter().position(|count| *count > 0).expect("records come first");
        assert_eq!(first, usize::from(is_first_throttled), "{hidden:?}");
        assert!(hidden[first + 1..].iter().all(|count| *count == 0), "{hidden:?}");
    }
}

/// The first request had time for the records alone, and the second one was told to wait a second.
#[test]
fn rules_of_records_that_a_request_wrote_are_written_after_a_request_that_wrote_nothing() {
    let harness = roomy();
    let (clock, program) = harness.start_stopped(&[]);
    let slow = Arc::clone(&clock);
    harness.cloudflare.edit_after(Matcher::batch(), 1, move |_| slow.put_ahead(LONG));
    let external_dns = program.external_dns();
    let shops = shops("example.com", HOSTNAMES);
    assert_eq!(external_dns.run_loop(&shops).map(drop), Err(503));
    assert_eq!((harness.cnames().len(), served(&harness, "example.com")), (CHANGED_HOSTNAMES_MAX, 0));
    harness.cloudflare.fault(Matcher::put_configuration(), 1, Fault::limited(1));
    assert_eq!(external_dns.run_loop(&shops).map(drop), Err(503));
    assert_eq!(served(&harness, "example.com"), 0);
    clock.put_ahead(Duration::from_secs(60));
    let _ = external_dns.run_loop(&shops);
    assert_eq!(served(&harness, "example.com"), CHANGED_HOSTNAMES_MAX);
    assert_eq!(harness.service_at("shop-0000.example.com", "/"), "http://shop:80");
}

/// As above, and the second request could not read what the first one wrote.
#[test]
fn rules_of_records_are_written_before_others_have_their_turn_although_the_request_could_not_read_again() {
    let harness = roomy();
    let (clock, program) = harness.start_stopped(&[]);
    harness.cloudflare.fault(Matcher::put_configuration(), 1, Fault::Reset);
    let list = Matcher::call("GET", &format!("/zones/{}/dns_records", harness.zone));
    (3..12).for_each(|nth| harness.cloudflare.fault(list.clone(), nth, Fault::status(500)));
    let external_dns = program.external_dns();
    let shops = shops("example.com", HOSTNAMES);
    assert_eq!(external_dns.run_loop(&shops).map(drop), Err(503));
    assert_eq!((harness.cnames().len(), served(&harness, "example.com")), (CHANGED_HOSTNAMES_MAX, 0));
    harness.cloudflare.clear_faults();
    harness.cloudflare.fault(Matcher::put_configuration(), 1, Fault::limited(1));
    clock.put_ahead(Duration::from_secs(60));
    assert_eq!(external_dns.run_loop(&shops).map(drop), Err(503));
    assert_eq!(served(&harness, "example.com"), 0);
    clock.put_ahead(Duration::from_secs(60));
    let _ = external_dns.run_loop(&shops);
    assert_eq!(harness.service_at("shop-0000.example.com", "/"), "http://shop:80");
}

/// Each request creates records, finds some of the refused rules, and deletes the records.
#[test]
fn a_thousand_hostnames_whose_rules_are_refused_let_others_pass() {
    let harness = roomy();
    harness.cloudflare.add_tunnel("office");
    let put = Matcher::put_configuration().with_body("shop-");
    harness.cloudflare.fault_every(put, Fault::error(400, 1056, "Bad Configuration"));
    let program = harness.start_with(&[("CF_TUNNEL_ID", "home,office")]);
    let mut wanted = shops("example.com", CHANGED_HOSTNAMES_MAX + 200);
    let mut last = published("zz.example.com", "http://zz:80");
    last.provider_specific.push(Property::new("webhook/tunnel", "office"));
    wanted.push(last);
    for _ in 0..4 {
        let _ = program.external_dns().run_loop(&wanted);
    }
    assert!(harness.cnames().iter().any(|(name, ..)| name == "zz.example.com"));
}

/// The hostname that comes in each loop is published in that loop.
#[test]
fn a_thousand_hostnames_of_a_zone_that_cannot_be_written_let_others_pass_beside_one_that_comes_in_each_loop()
{
    let harness = roomy();
    harness.cloudflare.add_zone("example.org", Plan::Pro);
    let batch = Matcher::call("POST", &format!("/zones/{}/dns_records/batch", harness.zone));
    harness.cloudflare.fault_every(batch, Fault::status(500));
    let program = harness.start();
    let mut wanted = shops("example.com", CHANGED_HOSTNAMES_MAX);
    wanted.push(published("zz.example.org", "http://shop:80"));
    for number in 0..4 {
        wanted.push(published(&format!("pr-{number}.example.org"), "http://shop:80"));
        let _ = program.external_dns().run_loop(&wanted);
    }
    assert_eq!(harness.service_at("zz.example.org", "/"), "http://shop:80");
}

/// Beside a hostname of a zone that cannot be written, which each request leaves, each of the first two requests
/// completes a thousand hostnames.
#[test]
fn the_third_request_that_runs_out_of_time_is_gone_on_with_too() {
    let harness = roomy();
    let (clock, program) = start_beside_forbidden_zone(&harness);
    let mut wanted = shops("example.com", 4 * CHANGED_HOSTNAMES_MAX - 100);
    wanted.push(published("a.example.org", "http://shop:80"));
    for nth in 1..=4 {
        if nth == 3 {
            let slow = Arc::clone(&clock);
            let batch = Matcher::call("POST", &format!("/zones/{}/dns_records/batch", harness.zone));
            harness.cloudflare.edit_after(batch, 1, move |_| slow.put_ahead(LONG));
        }
        assert_eq!(program.external_dns().run_loop(&wanted).map(drop), Err(503));
        clock.put_ahead(Duration::from_secs(60));
    }
    assert_eq!(harness.cnames().len(), served(&harness, "example.com"));
}

/// docs/decisions/0011: after a request that wrote a part of a hostname, two more requests begin where that one began.
/// The hostnames that it completed are gone from the list then, so the same number of the turn is another place in it.
#[test]
fn hostnames_that_a_later_turn_left_half_written_are_all_finished_by_the_next_request() {
    let harness = roomy();
    harness.cloudflare.add_tunnel("office");
    let other = harness.cloudflare.add_zone("example.org", Plan::Pro);
    let forbidden = Matcher::call("POST", &format!("/zones/{other}/dns_records/batch"));
    harness.cloudflare.fault_every(forbidden, Fault::error(403, 10000, "no"));
    let (clock, program) = harness.start_stopped(&[("CF_TUNNEL_ID", "home,office")]);
    let mut wanted = shops("example.com", 2_500);
    for (number, shop) in wanted.iter_mut().enumerate() {
        let tunnel = if number % 2 == 0 { "home" } else { "office" };
        shop.provider_specific.push(Property::new("webhook/tunnel", tunnel));
    }
    wanted.push(published("a.example.org", "http://shop:80"));
    let without_rule = || {
        let names = harness.cnames().into_iter().map(|(name, ..)| name);
        names.filter(|name| !harness.service_at(name, "/").starts_with("http://shop")).collect::<Vec<_>>()
    };
    for nth in 1..=3 {
        if nth == 2 {
            // The document of the second tunnel is not written any more.
            let slow = Arc::clone(&clock);
            harness.cloudflare.edit_after(Matcher::put_configuration(), 1, move |_| slow.put_ahead(LONG));
        }
        assert_eq!(program.external_dns().run_loop(&wanted).map(drop), Err(503));
        clock.put_ahead(Duration::from_secs(60));
        let left = without_rule();
        assert_eq!(left.len(), if nth == 2 { 500 } else { 0 }, "after request {nth}: {:?}", left.first());
    }
}

/// The number is the value of `MASS_DELETION_LIMIT` that lets them go.
#[test]
fn each_line_of_a_growing_mass_deletion_has_the_whole_number() {
    let harness = roomy();
    let program = harness.start();
    let external_dns = program.external_dns();
    let shops = shops("example.com", 10);
    external_dns.run_loop(&shops).expect("published");
    for left in [2, 2, 1, 0] {
        assert_eq!(external_dns.run_loop(&shops[..left]).map(drop), Err(503));
    }
    let lines = harness.log.lines_with(&["refused=mass_deletion"]);
    assert_eq!(lines.len(), 3, "{lines:#?}");
    for (line, number) in lines.iter().zip([8, 9, 10]) {
        let limit = format!("MASS_DELETION_LIMIT={number})");
        assert!(line.contains(&format!("{number} hostnames: ")) && line.contains(&limit), "{line}");
    }
}
