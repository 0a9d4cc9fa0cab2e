//! A page that a proxy, a login or a firewall sends in place of Cloudflare's answer says nothing about a hostname:
//! hostnames whose writes pass are published, and those whose writes got a page are tried again.

use std::time::Duration;

use cloudflare_emulator::{Fault, Matcher, Visit};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use test_support::harness::{Harness, published};

use crate::latency::ProgramWithLatency;
use crate::shared_account::{SharedAccount, settle};

/// What was met in place of an answer.
const STATUSES: [u16; 10] = [200, 302, 400, 401, 403, 404, 405, 407, 413, 451];

const HOSTNAMES: usize = 20;

fn page(status: u16) -> Fault {
    let body = "<!DOCTYPE html><html><title>Sign in</title></html>".to_owned();
    let location = ("location".to_owned(), "https://login.example/".to_owned());
    Fault::Status { code: status, headers: vec![location], body }
}

fn name(number: usize) -> String {
    format!("h{number:02}.example.com")
}

fn all() -> Vec<Endpoint> {
    (0..HOSTNAMES).map(|number| published(&name(number), "http://web:80")).collect()
}

fn is_served(harness: &Harness, number: usize) -> bool {
    matches!(harness.cloudflare.visit(&name(number), "/"), Visit::Served { service, .. } if service == "http://web:80")
}

fn served(harness: &Harness) -> Vec<usize> {
    (0..HOSTNAMES).filter(|number| is_served(harness, *number)).collect()
}

fn all_but(caught: &[usize]) -> Vec<usize> {
    (0..HOSTNAMES).filter(|number| !caught.contains(number)).collect()
}

fn kinds_of_writes() -> [(&'static str, Matcher); 2] {
    [("batches", Matcher::batch()), ("documents", Matcher::put_configuration())]
}

#[test]
fn no_hostname_is_refused_where_every_write_gets_a_page() {
    for status in STATUSES {
        for (kind, matcher) in kinds_of_writes() {
            let label = format!("{status} for {kind}");
            let harness = Harness::with_foreign();
            let program = harness.start();
            let external_dns = program.external_dns();
            harness.cloudflare.fault_every(matcher, page(status));
            harness.cloudflare.take_calls();
            for _ in 0..3 {
                assert_eq!(external_dns.run_loop(&all()).err(), Some(503), "{label}");
            }
            let writes = harness.cloudflare.take_calls().iter().filter(|call| call.method != "GET").count();
            assert!(writes <= 3 * 2 * HOSTNAMES, "{label}: {writes} writes");
            assert_eq!(served(&harness), [0; 0], "{label}");
            let told = format!("another server answered in place of Cloudflare's API: HTTP {status}");
            assert!(!harness.log.lines_with(&["refused=waiting", &name(7), &told]).is_empty(), "{label}");

            harness.cloudflare.clear_faults();
            assert!(external_dns.run_loop(&all()).is_ok(), "{label}");
            assert_eq!(served(&harness), all_but(&[]), "{label}: at once when it is over");
        }
    }
}

#[test]
fn a_hostname_that_gets_a_page_alone_costs_no_other_hostname_anything() {
    for status in STATUSES {
        for (kind, matcher) in kinds_of_writes() {
            let sets = [vec![11], vec![0], vec![0, 1, 2], vec![0, 10], vec![3, 4, 19]];
            let count = if status == 302 { sets.len() } else { 1 };
            for caught in &sets[..count] {
                let label = format!("{status} for {kind} with {caught:?}");
                let harness = Harness::with_foreign();
                let program = harness.start();
                let external_dns = program.external_dns();
                for number in caught {
                    harness.cloudflare.fault_every(matcher.clone().with_body(&name(*number)), page(status));
                }
                let mut loops = 0;
                while served(&harness) != all_but(caught) {
                    assert_eq!(external_dns.run_loop(&all()).err(), Some(503), "{label}");
                    loops += 1;
                    assert!(loops <= 2, "{label}: {:?}", served(&harness));
                }
                // It waits, and is asked for again.
                assert_eq!(external_dns.run_loop(&all()).err(), Some(503), "{label}");
                assert_eq!(served(&harness), all_but(caught), "{label}");
                harness.cloudflare.clear_faults();
                assert!(external_dns.run_loop(&all()).is_ok(), "{label}");
                assert_eq!(served(&harness), all_but(&[]), "{label}");
            }
        }
    }
}

#[test]
fn the_last_one_is_published_however_many_before_it_get_a_page() {
    for (kind, matcher) in kinds_of_writes() {
        for bad in [3, 6, 9] {
            let harness = Harness::with_foreign();
            let program = harness.start();
            let external_dns = program.external_dns();
            for number in 0..bad {
                harness.cloudflare.fault_every(matcher.clone().with_body(&name(number)), page(403));
            }
            let desired: Vec<Endpoint> = all().into_iter().take(bad + 1).collect();
            let mut loops = 0;
            while !is_served(&harness, bad) {
                assert_eq!(external_dns.run_loop(&desired).err(), Some(503), "{kind}, {bad}");
                loops += 1;
                assert!(loops <= bad, "{kind}, {bad}");
            }
            harness.cloudflare.clear_faults();
            external_dns.run_loop(&desired).expect("it is over");
            assert_eq!(served(&harness), (0..=bad).collect::<Vec<_>>(), "{kind}, {bad}");
        }
    }
}

/// Two of them are refused together, and are not taken for those that failed alone before.
#[test]
fn a_newcomer_is_published_though_those_before_it_get_pages() {
    for (kind, matcher) in kinds_of_writes() {
        let harness = Harness::with_foreign();
        let program = harness.start();
        let external_dns = program.external_dns();
        for number in 0..3 {
            harness.cloudflare.fault_every(matcher.clone().with_body(&name(number)), page(403));
        }
        for (count, loops) in [(2, 1), (4, 3)] {
            let desired: Vec<Endpoint> = all().into_iter().take(count).collect();
            for _ in 0..loops {
                assert_eq!(external_dns.run_loop(&desired).err(), Some(503), "{kind}");
            }
        }
        assert_eq!(served(&harness), [3], "{kind}");
    }
}

/// With so little time a request has room for one write more than it needs, and each has to decide something.
#[test]
fn one_page_delays_a_hostname_for_a_few_loops_however_short_a_request_is() {
    for timeout in ["2s", "3s"] {
        for count in [1, 3] {
            let harness = Harness::with_foreign();
            let variables = [("REQUEST_TIMEOUT", timeout)];
            let program = ProgramWithLatency::new(&harness, Duration::from_millis(100), &variables);
            let desired: Vec<Endpoint> = all().into_iter().take(count).collect();
            let answer = program.run_loop_with(&harness, &desired, |cloudflare| {
                cloudflare.fault(Matcher::batch(), 1, page(403));
            });
            assert!(matches!(answer, Ok(_) | Err(503)), "{timeout} {count}: {answer:?}");
            let mut loops = 0;
            while served(&harness).len() < count {
                program.clock.put_ahead(Duration::from_secs(60));
                let _ = program.run_loop(&harness, &desired);
                loops += 1;
                assert!(loops <= 3, "{timeout}: {:?} of {count}", served(&harness));
            }
        }
    }
}

/// A page that says 404 is not the API's word that a tunnel is gone, which would be the end of all its hostnames.
#[test]
fn a_page_in_place_of_a_tunnel_withdraws_nothing() {
    for status in STATUSES {
        let account = SharedAccount::new();
        account.watch();
        let program = account.harness.start();
        let external_dns = program.external_dns();
        settle(external_dns, account.cloudflare(), &all()).expect("published");
        let before = account.harness.cnames();
        account.cloudflare().fault_every(Matcher::call("GET", "/accounts/**"), page(status));
        for _ in 0..2 {
            let answer = external_dns.run_loop(&all());
            assert!(matches!(answer, Err(500..=510)), "{status}: {answer:?}");
        }
        assert_eq!(account.harness.cnames(), before, "{status}");
        assert_eq!(served(&account.harness), all_but(&[]), "{status}");
        account.cloudflare().clear_faults();
        settle(external_dns, account.cloudflare(), &all()).expect("at rest again");
        assert_eq!(account.violations(), [""; 0], "{status}");
    }
}

#[test]
fn a_page_for_one_withdrawal_keeps_that_hostname_alone() {
    for status in STATUSES {
        let harness = Harness::with_foreign();
        let program = harness.start();
        let external_dns = program.external_dns();
        settle(external_dns, &harness.cloudflare, &all()).expect("published");
        // A digest without a rule stays for a minute.
        harness.cloudflare.advance_clock(Duration::from_secs(61));
        let id = {
            let records = harness.cloudflare.records(&harness.zone);
            records.into_iter().find(|record| record.name == name(5)).expect("published").id
        };
        harness.cloudflare.fault_every(Matcher::batch().with_body(&id), page(status));
        let kept: Vec<Endpoint> = all().into_iter().skip(10).collect();
        for _ in 0..2 {
            assert_eq!(external_dns.run_loop(&kept).err(), Some(503), "{status}");
        }
        let left = harness.cnames().into_iter().filter(|(name, ..)| name.starts_with('h')).count();
        assert_eq!(left, HOSTNAMES - 9, "{status}: all but one of ten have gone");
        harness.cloudflare.clear_faults();
        assert!(external_dns.run_loop(&kept).is_ok(), "{status}");
        assert_eq!(served(&harness), (10..HOSTNAMES).collect::<Vec<_>>(), "{status}");
    }
}
