//! A tunnel or a zone that cannot be written costs its own hostnames something, and no others.

use std::sync::Arc;
use std::time::Duration;

use cloudflare_emulator::{Emulator, Fault, Matcher, Plan};
use external_dns_cloudflare_tunnel_webhook::limits;
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use test_support::harness::{Harness, endpoint, published};

use crate::latency::ProgramWithLatency;
use crate::shared_account::{SharedAccount, settle, stamp};
use crate::simulation::SharedTime;

const BOTH: (&str, &str) = ("CF_TUNNEL_ID", "home,office");

fn in_office(name: &str, service: &str) -> Endpoint {
    endpoint(name, &[("tunnel", "office"), ("tunnel-service", service)])
}

fn record_only(name: &str) -> Endpoint {
    endpoint(name, &[("tunnel-service", "none")])
}

fn has_record(account: &SharedAccount, name: &str) -> bool {
    let zones = [&account.harness.zone, &account.organisation];
    let mut records = zones.into_iter().flat_map(|zone| account.cloudflare().records(zone));
    records.any(|record| record.name == name && stamp(&record).is_some())
}

fn configuration_of(account: &SharedAccount, method: &str, tunnel: &str) -> Matcher {
    let account = account.cloudflare().account();
    Matcher::call(method, &format!("/accounts/{account}/cfd_tunnel/{tunnel}/configurations"))
}

/// Cloudflare's limit on rules has no known code, and others will come.
#[test]
fn a_document_refused_with_any_code_stops_no_other_tunnel_and_no_record() {
    for (status, code, message) in [
        (400, 1056, "Bad Configuration"),
        (400, 1003, "too many rules"),
        (409, 1234, "a conflict"),
        (413, 0, "too large"),
        (404, 1002, "tunnel not found"),
        (403, 10000, "Authentication error"),
    ] {
        let label = format!("{status}/{code}");
        let account = SharedAccount::new();
        account.watch();
        let program = account.harness.start_with(&[BOTH]);
        let external_dns = program.external_dns();
        let before = [
            published("home.example.com", "http://web:80"),
            in_office("office.example.com", "http://web:80"),
            published("goes.example.com", "http://web:80"),
        ];
        settle(external_dns, account.cloudflare(), &before).expect("published");
        account.cloudflare().fault_every(
            configuration_of(&account, "PUT", &account.harness.tunnel),
            Fault::error(status, code, message),
        );
        let desired = [
            published("home.example.com", "http://web2:80"),
            published("new.example.com", "http://web2:80"),
            in_office("office.example.com", "http://web2:80"),
            in_office("comes.example.org", "http://web2:80"),
            record_only("only.example.org"),
        ];
        for _ in 0..2 {
            let answer = external_dns.run_loop(&desired);
            assert!(matches!(answer, Ok(_) | Err(503)), "{label}: {answer:?}");
        }
        for name in ["office.example.com", "comes.example.org"] {
            assert_eq!(account.harness.service_at(name, "/"), "http://web2:80", "{label}: {name}");
        }
        assert!(has_record(&account, "only.example.org"), "{label}");
        for name in ["home.example.com", "goes.example.com"] {
            assert_eq!(account.harness.service_at(name, "/"), "http://web:80", "{label}: {name}");
            assert!(has_record(&account, name), "{label}: the digest stays with its rule");
        }
        assert_eq!(account.violations(), [""; 0], "{label}");
    }
}

/// The token, or what stands at Cloudflare, may change between the snapshot and the write.
#[test]
fn a_tunnel_that_cannot_be_read_when_it_is_to_be_written_stops_no_other() {
    let unreadable = Fault::Status {
        code: 200,
        headers: Vec::new(),
        body: r#"{"success":true,"errors":[],"messages":[],"result":{"version":9,"config":{"ingress":{}}}}"#
            .to_owned(),
    };
    for (label, fault) in [
        ("403", Fault::error(403, 10000, "Authentication error")),
        ("404", Fault::error(404, 1002, "tunnel not found")),
        ("400", Fault::error(400, 1003, "no")),
        ("no list of rules", unreadable),
    ] {
        let account = SharedAccount::new();
        account.watch();
        let program = account.harness.start_with(&[BOTH]);
        let desired = [
            published("home.example.com", "http://web:80"),
            in_office("office.example.org", "http://web:80"),
            record_only("only.example.org"),
        ];
        // GET /records and the snapshot of the write read it before.
        account.cloudflare().fault(configuration_of(&account, "GET", &account.harness.tunnel), 3, fault);
        assert_eq!(program.external_dns().run_loop(&desired).err(), Some(503), "{label}");
        assert_eq!(account.harness.service_at("office.example.org", "/"), "http://web:80", "{label}");
        assert!(has_record(&account, "only.example.org"), "{label}");
        settle(program.external_dns(), account.cloudflare(), &desired).expect("nothing is remembered");
        assert_eq!(account.harness.service_at("home.example.com", "/"), "http://web:80", "{label}");
        assert_eq!(account.violations(), [""; 0], "{label}");
    }
}

/// A zone of the Free plan takes 200 operations in a batch.
#[test]
fn the_warning_of_a_write_that_fails_counts_the_hostnames_that_are_left_out_because_of_it() {
    let harness = Harness::new();
    harness.cloudflare.edit(|cloudflare| cloudflare.add_zone("example.net", Plan::Free));
    harness.cloudflare.fault_every(Matcher::batch(), Fault::error(403, 10000, "no"));
    let program = harness.start();
    let wanted: Vec<Endpoint> =
        (0..250).map(|number| published(&format!("h{number}.example.net"), "http://web:80")).collect();
    program.external_dns().run_loop(&wanted).expect_err("the zone cannot be written");
    let told = harness.log.lines_with(&["WARN", "a write to zone example.net failed"]);
    assert!(matches!(&told[..], [line] if line.contains("hostnames=250")), "{told:#?}");
}

#[test]
fn where_everything_fails_for_the_credentials_the_answer_is_503_and_nothing_is_remembered() {
    let account = SharedAccount::new();
    let program = account.harness.start_with(&[BOTH]);
    let before = [published("home.example.com", "http://web:80")];
    settle(program.external_dns(), account.cloudflare(), &before).expect("published");
    account.cloudflare().fault_every(Matcher::writes(), Fault::error(403, 10000, "Authentication error"));
    let desired =
        [published("home.example.com", "http://web2:80"), in_office("office.example.org", "http://web:80")];
    for _ in 0..2 {
        account.cloudflare().take_calls();
        assert_eq!(program.external_dns().run_loop(&desired).err(), Some(503));
        assert!(account.cloudflare().count_calls().writes > 0, "it is tried in every loop");
    }
    account.cloudflare().clear_faults();
    settle(program.external_dns(), account.cloudflare(), &desired).expect("permitted, it is done at once");
}

/// An operator deletes a record of ours between our read and our write.
#[test]
fn a_record_that_is_gone_already_stops_no_other_and_is_not_refused() {
    let account = SharedAccount::new();
    let program = account.harness.start_with(&[("MASS_DELETION_LIMIT", "0")]);
    let before: Vec<Endpoint> =
        (0..6).map(|number| published(&format!("h{number}.example.com"), "http://web:80")).collect();
    settle(program.external_dns(), account.cloudflare(), &before).expect("published");
    let zone = account.harness.zone.clone();
    account.cloudflare().edit_before(Matcher::batch(), 1, move |cloudflare| {
        let records = cloudflare.records(&zone);
        let id =
            records.iter().find(|record| record.name == "h3.example.com").map(|record| record.id.clone());
        cloudflare.delete_record(&zone, &id.expect("it is there")).expect("it is ours");
    });
    let desired = [published("new.example.com", "http://web:80")];
    assert_eq!(program.external_dns().run_loop(&desired).err(), Some(503), "what is left is not known");
    for endpoint in &before {
        assert!(!has_record(&account, &endpoint.dns_name));
    }
    assert_eq!(account.harness.service_at("new.example.com", "/"), "http://web:80");
    settle(program.external_dns(), account.cloudflare(), &desired).expect("nothing is left to do");
}

/// A configuration that takes as long to fail as a call may, beside one that takes a second.
#[test]
fn a_tunnel_whose_writes_fail_late_leaves_all_the_time_to_others_from_the_next_loop_on() {
    let account = SharedAccount::new();
    let mut tunnels = [("home", &account.harness.tunnel), ("office", &account.office)];
    tunnels.sort_unstable_by_key(|(_, id)| *id);
    let [(slow, slow_id), (quick, _)] = tunnels;
    let call = Duration::from_secs(1);
    let program = ProgramWithLatency::new(&account.harness, call, &[BOTH]);
    let put = configuration_of(&account, "PUT", slow_id);
    let fail_late = |cloudflare: &Emulator| {
        for nth in 1..10 {
            let clock = Arc::clone(&program.clock);
            cloudflare.edit_before(put.clone(), nth, move |_| clock.put_ahead(limits::RESPONSE_TIMEOUT));
        }
        cloudflare.fault_every(put.clone(), Fault::status(500));
    };
    let service = ("tunnel-service", "http://web:80");
    let desired = [
        endpoint("slow.example.com", &[("tunnel", slow), service]),
        endpoint("quick.example.com", &[("tunnel", quick), service]),
        endpoint("quick.example.org", &[("tunnel", quick), service]),
    ];
    for _ in 0..3 {
        let answer = program.run_loop_with(&account.harness, &desired, fail_late);
        assert_eq!(answer.err(), Some(503));
        program.clock.put_ahead(Duration::from_secs(60));
    }
    for name in ["quick.example.com", "quick.example.org"] {
        assert_eq!(account.harness.service_at(name, "/"), "http://web:80", "{name}");
    }
    // Once it can be written, it is.
    for _ in 0..2 {
        let _ = program.run_loop(&account.harness, &desired);
        program.clock.put_ahead(Duration::from_secs(60));
    }
    assert_eq!(account.harness.service_at("slow.example.com", "/"), "http://web:80");
}

/// Ninety of the hundred zones that docs/operations.md says fit into a minute, one of which answers no write.
#[test]
fn a_zone_that_cannot_be_written_uses_up_no_other_zones_calls() {
    let account = SharedAccount::holding(|cloudflare| {
        for number in 0..88 {
            cloudflare.add_zone(&format!("zone{number}.test"), Plan::Free);
        }
    });
    account.cloudflare().stop_clock();
    let clock = Arc::new(SharedTime::of(account.cloudflare().time()));
    let program = account.harness.start_by(clock, &[BOTH]);
    program.wait_until_ready();
    let batch = Matcher::call("POST", &format!("/zones/{}/dns_records/batch", account.organisation));
    account.cloudflare().fault_every(batch, Fault::status(503));
    let mut wanted = vec![in_office("new.example.org", "http://new:80")];
    for number in 0..12 {
        let name = format!("n{number}.zone1.test");
        wanted.push(published(&name, "http://web:80"));
        assert_eq!(program.external_dns().run_loop(&wanted).err(), Some(503));
        assert_eq!(account.harness.service_at(&name, "/"), "http://web:80", "loop {number}");
        account.cloudflare().advance_clock(Duration::from_secs(60));
    }
}

/// A zone of the Free plan takes 200 operations in one batch.
#[test]
fn however_many_hostnames_a_tunnel_refuses_no_stamp_names_their_rules() {
    let harness = Harness::new();
    harness.cloudflare.fault(
        Matcher::put_configuration(),
        1,
        Fault::error(403, 10000, "Authentication error"),
    );
    let hostnames: Vec<Endpoint> =
        (0..201).map(|number| published(&format!("h{number}.example.com"), "http://web:80")).collect();
    let program = harness.start();
    let _ = program.external_dns().run_loop(&hostnames);
    let records = harness.cloudflare.records(&harness.zone);
    assert_eq!(records.iter().filter(|record| stamp(record).is_some()).count(), 0);
    program.external_dns().run_loop(&hostnames).expect("published");
    assert_eq!(harness.cloudflare.records(&harness.zone).len(), records.len() + hostnames.len());
}

/// Its first step completes in each loop, because there is always something new.
#[test]
fn a_zone_whose_last_step_fails_is_told_of_once_and_read_once_in_a_loop() {
    let account = SharedAccount::new();
    let program = account.harness.start();
    let goes = published("goes.example.com", "http://web:80");
    program.external_dns().run_loop(std::slice::from_ref(&goes)).expect("published");
    account.cloudflare().fault_every(Matcher::batch().with_body("\"deletes\""), Fault::Reset);
    let mut readings = Vec::new();
    for number in 0..4 {
        account.cloudflare().take_calls();
        let new: Vec<Endpoint> = (0..=number)
            .map(|number| published(&format!("new{number}.example.com"), "http://web:80"))
            .collect();
        program.external_dns().run_loop(&new).expect_err("the record is still there");
        let calls = account.cloudflare().take_calls();
        let list = format!("/zones/{}/dns_records", account.harness.zone);
        readings
            .push(calls.iter().filter(|call| call.method == "GET" && call.path.starts_with(&list)).count());
    }
    assert_eq!(readings[1..], [2; 3], "{readings:?}");
    assert_eq!(account.harness.log.lines_with(&["WARN", "may or may not have been done"]).len(), 1);
}
