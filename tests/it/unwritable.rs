//! Tunnels that can be read and not written: the token may only read, or Cloudflare fails for an hour. A new hostname has
//! its record before its rule, so a name that another record serves must not lose it meanwhile.

use std::time::Duration;

use cloudflare_emulator::{Emulator, Fault, Matcher, Visit};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use serde_json::json;
use test_support::harness::{endpoint, published};

use crate::shared_account::SharedAccount;
use crate::simulation::{Pace, Simulation};

const INTERVAL: Duration = Duration::from_secs(60);

const HOUR: usize = 60;

/// A wildcard record that leads past the tunnels, as where a proxy served the zone before.
fn proxy_of_a_zone(cloudflare: &Emulator) {
    let wildcard = json!({"name": "*.example.org", "type": "A", "content": "192.0.2.50", "proxied": true});
    cloudflare.add_record("example.org", wildcard).expect("Cloudflare takes it");
}

/// Nothing is published yet.
fn below_a_proxy() -> Simulation {
    let pace = Pace { connectors: vec![0], records: 0, write: 0 };
    let mut simulation = Simulation::new(SharedAccount::holding(proxy_of_a_zone), &[], pace);
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

/// The times in which visitors of some hostname are served by neither, since the beginning of the second request.
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
