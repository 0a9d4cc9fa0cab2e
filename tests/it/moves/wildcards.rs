//! A wildcard and the names below it take over from each other: nobody is unserved meanwhile, and nothing stays for ever.

use cloudflare_emulator::{Fault, Matcher, Refusal, Token, Visit, Visitor};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use serde_json::json;
use test_support::harness::{TOKEN, endpoint};

use super::gone_wrong::{got, pace, pass, path_through, run, simulation, through};
use crate::shared_account::SharedAccount;
use crate::simulation::{Pace, Simulation};

const WILD: &str = "*.apps.example.org";

/// How long what is withdrawn stays at most, in loops a minute apart: the first one that begins after `MOVE_GRACE`, here
/// 30 s, and the patience of three minutes with names that need it.
const MINUTES: usize = 4;

/// Plays loops for a quarter of an hour, and says after how many minutes a visitor below the wildcard got the service of
/// the path no more, and what ExternalDNS was answered.
fn minutes_until_gone(
    simulation: &mut Simulation,
    path: &str,
    service: &str,
    mut wanted: impl FnMut(usize) -> Vec<Endpoint>,
) -> (usize, Vec<Option<u16>>) {
    let (mut answers, mut is_served) = (Vec::new(), Vec::new());
    for minute in 0..15 {
        answers.push(run(simulation, &wanted(minute)).0.err());
        is_served.push(got(simulation, "other.apps.example.org", path).starts_with(service));
        pass(simulation, 60);
    }
    let minutes = is_served.iter().take_while(|is_served| **is_served).count();
    assert!(!is_served.iter().skip(minutes).any(|is_served| *is_served), "it comes back: {is_served:?}");
    (minutes, answers)
}

/// The service that somebody with a login is served by.
fn got_with_login(simulation: &Simulation, host: &str) -> String {
    match simulation.account.cloudflare().visit_as(Visitor::WithLogin, host, "/") {
        Visit::Served { service, .. } => service,
        other => other.to_string(),
    }
}

/// With the policy `staff`, and a token that may write applications.
fn with_policy() -> SharedAccount {
    SharedAccount::holding(|cloudflare| {
        cloudflare.edit(|cloudflare| {
            cloudflare.set_up_access("my-team");
            let policy = json!({"name": "staff", "decision": "allow", "include": [{"everyone": {}}]});
            cloudflare.add_policy(&policy).expect("a policy");
            *cloudflare.token_mut(TOKEN) = Token::with_access(TOKEN);
        });
    })
}

#[test]
fn a_withdrawn_wildcard_goes_though_another_name_moves_out_of_it_in_every_loop() {
    let wildcard = through("office", "*.apps.example.org", "http://apps:80");
    let mut simulation = simulation(&[0], &[]);
    simulation.run_to_rest(&[wildcard]).expect("published");
    let mut wanted = Vec::new();
    let (minutes, answers) = minutes_until_gone(&mut simulation, "/", "http://apps:80", |number| {
        wanted.push(through("home", &format!("n{number}.apps.example.org"), "http://web:80"));
        wanted.clone()
    });
    assert_eq!(answers.first(), Some(&Some(503)), "the first name has visitors there: {answers:?}");
    assert_eq!(minutes, MINUTES, "{answers:?}");
    assert_eq!(answers.last(), Some(&None), "{answers:?}");
}

/// ExternalDNS's loops follow each other that fast where it goes by events.
#[test]
fn a_wildcard_stays_until_records_that_lead_a_name_out_of_it_are_at_the_edge() {
    let records = Pace { records: 20_000, ..pace(&[0]) };
    let mut simulation = Simulation::new(SharedAccount::new(), &[], records);
    simulation.run_to_rest(&[through("office", WILD, "http://apps:80")]).expect("published");
    let host = "web.apps.example.org";
    let wanted = [through("home", host, "http://web:80")];
    let (mut answers, mut served) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        answers.push(run(&mut simulation, &wanted).0.err());
        for _ in 0..5 {
            served.push(got(&simulation, host, "/"));
            pass(&simulation, 1);
        }
    }
    served.dedup();
    assert_eq!(served, ["http://apps:80 by office", "http://web:80 by home"], "{answers:?}");
    assert_eq!(answers.last(), Some(&None), "{answers:?}");
    let gone = got(&simulation, "other.apps.example.org", "/");
    assert!(!gone.contains("apps:80"), "{gone}: {answers:?}");
}

#[test]
fn a_withdrawn_path_of_a_wildcard_goes_though_names_come_below_it_in_every_loop() {
    let mut simulation = Simulation::new(SharedAccount::new(), &[], pace(&[0]));
    let whole = through("office", WILD, "http://apps:80");
    let admin = path_through("office", WILD, "^/admin", "http://admin:80");
    simulation.run_to_rest(&[whole.clone(), admin]).expect("published");
    let mut wanted = vec![whole];
    let (minutes, answers) = minutes_until_gone(&mut simulation, "/admin", "http://admin:80", |number| {
        wanted.push(through("office", &format!("n{number}.apps.example.org"), "http://web:80"));
        wanted.clone()
    });
    assert_eq!(minutes, MINUTES, "{answers:?}");
}

#[test]
fn a_withdrawn_path_of_a_wildcard_goes_though_another_name_cannot_move() {
    let mut simulation = Simulation::new(SharedAccount::new(), &[], pace(&[0, 0]));
    let whole = through("home", WILD, "http://apps:80");
    let admin = path_through("home", WILD, "^/admin", "http://admin:80");
    let name = |tunnel: &str| through(tunnel, "web.apps.example.org", "http://web:80");
    simulation.run_to_rest(&[whole.clone(), admin, name("home")]).expect("published");
    simulation.account.cloudflare().edit(|cloudflare| {
        let version = cloudflare.tunnel("office").version;
        cloudflare.tunnel_mut("office").lagging_at = Some(version);
    });
    let wanted = [whole, name("office")];
    let wanted = |_| wanted.to_vec();
    let (minutes, answers) = minutes_until_gone(&mut simulation, "/admin", "http://admin:80", wanted);
    assert_eq!(minutes, MINUTES, "{answers:?}");
}

#[test]
fn a_withdrawn_path_of_a_wildcard_goes_though_another_name_is_refused() {
    let mut simulation = Simulation::new(SharedAccount::new(), &[], pace(&[0]));
    let whole = through("home", WILD, "http://apps:80");
    let admin = path_through("home", WILD, "^/admin", "http://admin:80");
    simulation.run_to_rest(&[whole.clone(), admin]).expect("published");
    simulation.account.cloudflare().edit(|cloudflare| {
        let refusal = Refusal::new(400, 1004, "DNS Validation Error");
        cloudflare.whims_mut().dislike_name("web.apps.example.org", refusal);
    });
    let wanted = [whole, through("home", "web.apps.example.org", "http://web:80")];
    let wanted = |_| wanted.to_vec();
    let (minutes, answers) = minutes_until_gone(&mut simulation, "/admin", "http://admin:80", wanted);
    assert_eq!(minutes, MINUTES, "{answers:?}");
}

#[test]
fn a_wildcard_that_loses_a_path_is_no_deletion() {
    let mut simulation = Simulation::new(SharedAccount::new(), &[("MASS_DELETION_LIMIT", "5")], pace(&[0]));
    let whole = through("office", WILD, "http://apps:80");
    let admin = path_through("office", WILD, "^/admin", "http://admin:80");
    let old: Vec<Endpoint> = (0..5)
        .map(|number| through("office", &format!("old{number}.example.org"), "http://web:80"))
        .collect();
    simulation.run_to_rest(&[vec![whole.clone(), admin], old].concat()).expect("published");
    let wanted = [whole, through("office", "new.apps.example.org", "http://web:80")];
    let answer = simulation.run_loop(&wanted).expect("ExternalDNS goes on").0.err();
    let withheld = simulation.account.harness.log.lines_with(&["refused=mass_deletion"]);
    assert!(withheld.is_empty(), "{answer:?} {withheld:#?}");
}

/// The wildcard's record alone leads visitors to somebody's rule.
#[test]
fn a_wildcard_of_a_record_alone_goes_when_the_name_below_it_is_published() {
    for fault in [Fault::status(503), Fault::error(400, 9005, "Content for CNAME record is invalid.")] {
        let mut simulation = Simulation::new(SharedAccount::new(), &[], Pace { write: 0, ..pace(&[0]) });
        simulation.account.cloudflare().edit(|cloudflare| {
            let rules =
                json!([{"hostname": WILD, "service": "http://theirs:80"}, {"service": "http_status:404"}]);
            let document = json!({"ingress": rules}).to_string();
            cloudflare.put_configuration("office", &document).expect("cloudflared takes it");
        });
        let host = "new.apps.example.org";
        simulation.run_to_rest(&[through("office", WILD, "none")]).expect("published");
        assert_eq!(got(&simulation, host, "/"), "http://theirs:80 by office");
        simulation.account.cloudflare().fault_every(Matcher::batch().with_body(host), fault);
        for _ in 0..3 {
            let _ = run(&mut simulation, &[through("office", host, "http://web:80")]);
            // Who has waited long enough goes.
            assert_eq!(got(&simulation, host, "/"), "http://theirs:80 by office");
            pass(&simulation, 60);
        }
    }
}

/// The rule needs it first, and something in between refuses to pass that call on.
#[test]
fn who_has_visitors_stays_until_the_application_of_who_takes_them_over_is_made() {
    let name = "web.apps.example.org";
    for (goes, comes) in [(WILD, name), (name, WILD)] {
        let mut simulation = Simulation::new(with_policy(), &[], Pace { write: 0, ..pace(&[0]) });
        let protected = |host: &str, service: &str| {
            let properties = [("tunnel", "home"), ("tunnel-service", service), ("access-policy", "staff")];
            endpoint(host, &properties)
        };
        simulation.run_to_rest(&[protected(goes, "http://old:80")]).expect("published");
        let makes_application = Matcher::call("POST", "/accounts/*/access/apps").with_body(comes);
        simulation.account.cloudflare().fault(makes_application, 1, Fault::status(413));
        let wanted = [protected(comes, "http://new:80")];
        let (mut answers, mut served) = (Vec::new(), Vec::new());
        for _ in 0..10 {
            answers.push(run(&mut simulation, &wanted).0.err());
            served.push(got_with_login(&simulation, name));
            pass(&simulation, 60);
        }
        served.dedup();
        assert_eq!(served, ["http://old:80", "http://new:80"], "{goes} goes: {answers:?}");
        assert_eq!((answers.first(), answers.last()), (Some(&Some(503)), Some(&None)), "{answers:?}");
    }
}

/// The name was served by the wildcard's rule beside a path of its own. A second attempt of the request would see that it
/// is led elsewhere, and visitors do not yet.
#[test]
fn a_wildcard_stays_for_a_loop_though_its_request_is_planned_again() {
    for (label, with_access, is_failing) in [
        ("once", false, false),
        ("an application goes", true, false),
        ("another zone fails once", false, true),
    ] {
        let mut simulation = Simulation::new(with_policy(), &[], Pace { records: 20_000, ..pace(&[0]) });
        let host = "app.apps.example.org";
        let api = |tunnel: &str| path_through(tunnel, host, "^/api", "http://api:80");
        let mut before = vec![through("office", WILD, "http://apps:80"), api("office")];
        if with_access {
            let properties =
                [("tunnel", "home"), ("tunnel-service", "http://bye:80"), ("access-policy", "staff")];
            before.push(endpoint("bye.example.com", &properties));
        }
        simulation.run_to_rest(&before).expect("published");
        let cloudflare = simulation.account.cloudflare();
        cloudflare.watch_as(&[Visitor::WithoutLogin], &["https://app.apps.example.org/"]);
        let mut wanted = vec![through("home", host, "http://web:80"), api("home")];
        if is_failing {
            wanted.push(through("home", "other.example.com", "http://other:80"));
            let batch = Matcher::call(
                "POST",
                &format!("/zones/{}/dns_records/batch", simulation.account.harness.zone),
            );
            simulation.account.clear_faults();
            cloudflare.fault(batch, 1, Fault::status(503));
        }
        for _ in 0..4 {
            let _ = run(&mut simulation, &wanted);
            pass(&simulation, 60);
        }
        for watched in simulation.account.cloudflare().watched() {
            assert!(watched.lost().is_empty(), "{label}: {watched}");
        }
    }
}
