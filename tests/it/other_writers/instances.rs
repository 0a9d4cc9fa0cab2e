//! Two instances of the program at one account.

use std::sync::Arc;
use std::time::Duration;

use cloudflare_emulator::{Fault, Matcher, Refusal};
use test_support::clock::ManualClock;
use test_support::external_dns::ExternalDns;
use test_support::harness::{Harness, endpoint, published};

use crate::shared_account::{SharedAccount, settle};

/// Two clusters with default settings, the same owner among them, and a tunnel each.
#[test]
fn two_instances_with_the_same_owner_leave_each_other_alone() {
    let account = SharedAccount::new();
    let cloudflare = account.cloudflare();
    account.watch();
    let home = account.harness.start_with(&[("CF_TUNNEL_ID", "home")]);
    let office = account.harness.start_with(&[("CF_TUNNEL_ID", "office")]);
    let (at_home, at_office) = (home.external_dns(), office.external_dns());
    let of_home =
        [published("home.example.com", "http://home:80"), published("both.example.com", "http://home:80")];
    let of_office = [
        published("office.example.com", "http://office:80"),
        published("both.example.org", "http://office:80"),
    ];
    let served = |name: &str| account.harness.service_at(name, "/");

    for _ in 0..2 {
        at_home.run_loop(&of_home).expect("at home");
        at_office.run_loop(&of_office).expect("at the office");
    }
    let both_at_work = account.state();
    settle(at_home, cloudflare, &of_home).expect("home is at rest");
    settle(at_office, cloudflare, &of_office).expect("the office is at rest");
    assert_eq!(account.state(), both_at_work);
    let shown = |external_dns: ExternalDns| -> Vec<String> {
        external_dns.records().expect("shown").into_iter().map(|endpoint| endpoint.dns_name).collect()
    };
    assert_eq!(shown(at_home), ["both.example.com", "home.example.com"]);
    assert_eq!(shown(at_office), ["both.example.org", "office.example.com"]);

    // The office publishes a hostname that home has, with a path too: refused in every loop, whichever instance comes
    // first.
    let mut greedy = of_office.to_vec();
    greedy.push(published("both.example.com", "http://office:80"));
    greedy.push(endpoint(
        "both.example.com",
        &[("tunnel-service", "http://office:80"), ("tunnel-path-prefix", "/api")],
    ));
    for _ in 0..3 {
        cloudflare.take_calls();
        at_office.run_loop(&greedy).expect("refused by name");
        at_home.run_loop(&of_home).expect("nothing to do");
        assert_eq!(cloudflare.count_calls().writes, 0);
    }
    assert_eq!(account.state(), both_at_work);
    // Each of the two would take the record from the other for ever.
    let told = account.harness.log.lines_with(&["refused=record_held", "both.example.com"]);
    assert!(!told.is_empty() && told.iter().all(|line| line.contains("give each one its own")), "{told:?}");
    assert!(!told.iter().any(|line| line.contains("ADOPT") || line.contains("delete it")), "{told:?}");

    // One of them withdraws everything, the other stays, and then gets what it asked for all the time.
    at_home.run_loop(&[]).expect("withdrawn");
    assert_eq!(served("office.example.com"), "http://office:80");
    at_office.run_loop(&greedy).expect("it is free now");
    assert_eq!(served("both.example.com"), "http://office:80");
    settle(at_office, cloudflare, &greedy).expect("at rest");
    for _ in 0..2 {
        at_home.run_loop(&of_home).expect("refused by name in part");
    }
    assert_eq!(served("both.example.com"), "http://office:80");
    assert_eq!(served("home.example.com"), "http://home:80");
    at_office.run_loop(&[]).expect("withdrawn");
    at_home.run_loop(&[]).expect("withdrawn");
    assert_eq!(account.violations(), [""; 0]);
    assert_eq!(account.state(), SharedAccount::new().state());
}

/// Two clusters with the same owner and the same tunnel: each instance takes the hostname of the other for one that its
/// cluster no longer has.
#[test]
fn two_instances_with_the_same_owner_that_undo_each_others_writes_are_told_of_the_owner() {
    let harness = Harness::new();
    let (first, second) = (harness.start(), harness.start());
    for _ in 0..8 {
        let _ = first.external_dns().run_loop(&[published("a.example.com", "http://a:80")]);
        let _ = second.external_dns().run_loop(&[published("b.example.com", "http://b:80")]);
    }
    let told = harness.log.lines_with(&["undone each time"]);
    assert!(!told.is_empty() && told.iter().all(|line| line.contains("OWNER_ID")), "{told:?}");
}

/// Only the code 1002 says that there is no such tunnel. The token may well be valid for everything else.
#[test]
fn a_tunnel_of_another_instance_that_cannot_be_looked_up_is_left_alone_and_stops_nothing() {
    let account = SharedAccount::new();
    let office = account.harness.start_with(&[("CF_TUNNEL_ID", "office")]);
    let of_office = [published("office.example.com", "http://office:80")];
    settle(office.external_dns(), account.cloudflare(), &of_office).expect("published");
    drop(office);
    let clock = Arc::<ManualClock>::default();
    let home = account.harness.start_by(Arc::clone(&clock) as _, &[("CF_TUNNEL_ID", "home")]);
    home.wait_until_ready();
    let before = account.state();
    let lookup = Matcher::call("GET", &format!("/accounts/*/cfd_tunnel/{}", account.office));
    for (status, code) in [(404, 4711), (404, 7003), (400, 1003), (403, 10000)] {
        account.cloudflare().take_calls();
        account.cloudflare().fault_every(lookup.clone(), Fault::error(status, code, "not for you"));
        home.external_dns().run_loop(&[]).expect("nothing is to be done");
        assert_eq!(account.state(), before, "{code}");
        clock.await_watch();
        assert!(home.is_ready(), "{code}");
        home.external_dns().run_loop(&[published("new.example.com", "http://home:80")]).expect("published");
        home.external_dns().run_loop(&[]).expect("withdrawn");
        let calls = account.cloudflare().take_calls();
        let lookups = calls.iter().filter(|call| call.path.ends_with(&account.office)).count();
        assert_eq!(lookups, 1, "{code}");
        account.cloudflare().clear_faults();
        clock.put_ahead(Duration::from_secs(600));
    }
    assert_eq!(account.harness.log.lines_with(&["not ready"]), [""; 0]);
}

/// Of two replicas one is refused what the other one publishes a moment later. The first replica never stamped it, and
/// so does not take it back.
#[test]
fn what_another_replica_published_after_a_refusal_stays() {
    let harness = Harness::new();
    let (first, second) = (harness.start(), harness.start());
    let desired =
        |service: &str| vec![published("a.example.com", service), published("b.example.com", service)];
    let disliked = Refusal::new(400, 81053, "An A, AAAA, or CNAME record with that host already exists.");
    harness.cloudflare.edit(|cloudflare| cloudflare.whims_mut().dislike_name("a.example.com", disliked));
    // The record may be its own, so ExternalDNS is to ask again.
    assert_eq!(first.external_dns().run_loop(&desired("http://old:80")).map(drop), Err(503));
    harness.cloudflare.edit(|cloudflare| cloudflare.whims_mut().like_all());
    second.external_dns().run_loop(&desired("http://new:80")).expect("published");
    let (cnames, rules) = (harness.cnames(), harness.rules());
    assert_eq!(cnames.len(), 2);
    let mut more = desired("http://new:80");
    more.push(published("c.example.com", "http://new:80"));
    first.external_dns().run_loop(&more).expect("done");
    assert_eq!((&harness.cnames()[..2], harness.rules().len()), (&cnames[..], rules.len() + 1));
}

/// The same holds for what another replica stamped and published since, where a stamp was not answered or its rule was
/// refused: the stamp that stands there is not the one that this process sent.
#[test]
fn what_another_replica_stamped_since_stays() {
    let desired = |resource: &str, service: &str| {
        let mut endpoint = published("a.example.com", service);
        endpoint.labels.set("resource", resource);
        vec![endpoint]
    };
    for (call, fault) in [
        (Matcher::batch(), Fault::status(500)),
        (Matcher::put_configuration(), Fault::error(403, 10000, "Authentication error")),
    ] {
        let harness = Harness::new();
        let (first, second) = (harness.start(), harness.start());
        for attempt in 1..=3 {
            harness.cloudflare.fault(call.clone(), attempt, fault.clone());
        }
        let _ = first.external_dns().run_loop(&desired("ingress/one/web", "http://old:80"));
        assert!(harness.rules().len() < 2, "{call:?}: nothing is published");
        harness.cloudflare.clear_faults();
        second.external_dns().run_loop(&desired("ingress/two/web", "http://new:80")).expect("published");
        let (cnames, rules) = (harness.cnames(), harness.rules());
        assert_eq!((cnames.len(), rules.len()), (1, 2), "{call:?}");
        let mut more = desired("ingress/two/web", "http://new:80");
        more.push(published("c.example.com", "http://new:80"));
        first.external_dns().run_loop(&more).expect("done");
        assert_eq!((&harness.cnames()[..1], harness.rules().len()), (&cnames[..], 3), "{call:?}");
    }
}
