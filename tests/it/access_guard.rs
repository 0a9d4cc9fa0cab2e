//! `ACCESS_GUARD` against a Cloudflare that knows Access: a visitor without a login is never served, whatever Access
//! answers, and everything else goes on.

use std::sync::Arc;
use std::time::Duration;

use cloudflare_emulator::{Fault, Matcher, Permission, Plan, Visit, Visitor, Watched};
use external_dns_cloudflare_tunnel_webhook::limits::{ACCESS_TIMEOUT, PARALLEL_CALLS};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use serde_json::{Value, json};
use test_support::clock::ManualClock;
use test_support::harness::{Harness, Program, TOKEN, published};

const NAME: &str = "web.example.com";
const NEW: &str = "new.example.com";
const OTHER: &str = "other.example.com";
const SERVICE: &str = "http://web:80";
const GUARD: [(&str, &str); 1] = [("ACCESS_GUARD", "true")];

fn web() -> Vec<Endpoint> {
    vec![published(NAME, SERVICE)]
}

/// Access is set up, the token may read it, and staff may pass at `destinations`.
fn protected(destinations: &[&str]) -> Harness {
    let harness = Harness::new();
    let all = [
        Permission::ZoneRead,
        Permission::DnsEdit,
        Permission::TunnelEdit,
        Permission::AccessRead,
        Permission::AccessOrganizationRead,
        Permission::ZoneAccessRead,
    ];
    harness.cloudflare.edit(|cloudflare| cloudflare.token_mut(TOKEN).permissions = all.to_vec());
    harness.cloudflare.set_up_access("my-team");
    let company = json!([{"email_domain": {"domain": "example.com"}}]);
    let staff = json!({"name": "staff", "decision": "allow", "include": company});
    harness.cloudflare.add_policy(&staff).expect("Cloudflare takes it");
    for destination in destinations {
        cover(&harness, destination, destination);
    }
    harness
}

/// Makes an application and says its audience.
fn cover(harness: &Harness, name: &str, destination: &str) -> String {
    harness.cloudflare.edit(|cloudflare| {
        let staff = cloudflare.policies().first().expect("a policy").id.clone();
        let application =
            json!({"type": "self_hosted", "name": name, "domain": destination, "policies": [staff]});
        let id = cloudflare.add_application(&application).expect("Cloudflare takes it");
        cloudflare.application(&id).aud.clone()
    })
}

/// The audiences that each rule asks for, by hostname; none for a rule that asks for no token.
fn audiences(harness: &Harness) -> Vec<(String, Vec<String>)> {
    let mut audiences: Vec<(String, Vec<String>)> = Vec::new();
    for rule in harness.rules() {
        let rule: Value = serde_json::from_str(&rule).expect("JSON");
        let Some(hostname) = rule["hostname"].as_str() else { continue };
        let access = &rule["originRequest"]["access"];
        let tags = access["audTag"].as_array().into_iter().flatten();
        let tags = tags.filter(|_| access["required"] == true).filter_map(Value::as_str);
        audiences.push((hostname.to_owned(), tags.map(str::to_owned).collect()));
    }
    audiences
}

fn hostnames(harness: &Harness) -> Vec<String> {
    audiences(harness).into_iter().map(|(hostname, _)| hostname).collect()
}

fn is_served(harness: &Harness, visitor: Visitor) -> bool {
    harness.cloudflare.visit_as(visitor, NAME, "/").is_served()
}

/// No visitor without a login was served at these hostnames since they are watched.
#[track_caller]
fn assert_never_open(harness: &Harness, label: &str) {
    let mut open = harness.cloudflare.watched();
    let is_open = |seen: &Watched| seen.changes.iter().any(|change| change.got.iter().any(Visit::is_served));
    open.retain(is_open);
    assert!(open.is_empty(), "{label}: {open:?}");
}

fn watch(harness: &Harness) {
    let urls = [NAME, NEW, OTHER].map(|name| format!("https://{name}/"));
    let visitors = [Visitor::WithoutLogin, Visitor::Preflight];
    harness.cloudflare.watch_as(&visitors, &urls.each_ref().map(String::as_str));
}

fn unprotected(program: &Program) -> Option<String> {
    let text = program.observe("GET", "/metrics").expect("it answers").body;
    let value = text.lines().find_map(|line| line.strip_prefix("cloudflare_tunnel_webhook_unprotected "));
    value.map(str::to_owned)
}

#[test]
fn a_hostname_is_published_protected_or_not_at_all() {
    let harness = protected(&[]);
    watch(&harness);
    let program = harness.start_with(&GUARD);
    let external_dns = program.external_dns();
    external_dns.run_loop(&web()).expect("a refusal is no failure");
    assert_eq!((hostnames(&harness), harness.cnames().len()), (vec![], 0));
    let refused = ["refused=unprotected", "create one for web.example.com"];
    assert_eq!(harness.log.lines_with(&refused).len(), 1);

    // The second one has another audience.
    for (nth, name) in [(1, "web"), (2, "again")] {
        let audience = cover(&harness, name, NAME);
        assert!(!is_served(&harness, Visitor::WithLogin));
        external_dns.run_loop(&web()).expect("it is covered");
        assert_eq!(audiences(&harness), [(NAME.to_owned(), vec![audience])]);
        assert!(is_served(&harness, Visitor::WithLogin));
        external_dns.run_loop(&web()).expect("it is covered");
        assert_eq!(unprotected(&program).as_deref(), Some("0"));

        // The edge lets all visitors through, the rule none of them, and nothing is withdrawn.
        harness.cloudflare.edit(|cloudflare| cloudflare.delete_application(name));
        let before = harness.rules();
        for _ in 0..3 {
            external_dns.run_loop(&web()).expect("a refusal is no failure");
            assert_eq!(harness.rules(), before);
            let visit = harness.cloudflare.visit(NAME, "/");
            assert!(matches!(visit, Visit::Refused { status: 403, .. }), "{visit}");
        }
        assert_eq!(unprotected(&program).as_deref(), Some("1"));
        let told = harness.log.lines_with(&refused).len();
        assert_eq!(told, 1 + nth, "said when it appears, and not again");
    }
    external_dns.run_loop(&[]).expect("it goes, covered or not");
    assert_eq!((hostnames(&harness), harness.cnames().len()), (vec![], 0));
    assert_never_open(&harness, "all the while");
}

#[test]
fn an_application_of_the_zone_covers_beside_one_of_the_account() {
    let harness = protected(&[OTHER]);
    harness.cloudflare.edit(|cloudflare| {
        let staff = cloudflare.policies().first().expect("a policy").id.clone();
        let application = json!({"type": "self_hosted", "name": "old", "domain": NAME, "policies": [staff]});
        cloudflare.add_zone_application("example.com", &application).expect("Cloudflare takes it");
    });
    let program = harness.start_with(&GUARD);
    program.external_dns().run_loop(&web()).expect("it is covered");
    assert_eq!(hostnames(&harness), [NAME]);
    assert!(!is_served(&harness, Visitor::WithoutLogin) && is_served(&harness, Visitor::WithLogin));
}

/// What ExternalDNS asks for while Access is in trouble: something new, something changed, something withdrawn.
fn in_trouble() -> Vec<Endpoint> {
    vec![published(NAME, "http://changed:80"), published(NEW, SERVICE)]
}

/// Each with the permission that it needs.
fn calls_for_access() -> [(Matcher, &'static str); 3] {
    [
        (Matcher::get_organization(), "Account: Access: Organizations, Identity Providers, and Groups: Read"),
        (Matcher::list_applications(), "Account: Access: Apps and Policies: Edit"),
        (Matcher::list_zone_applications(), "Zone: Access: Apps and Policies: Read"),
    ]
}

#[test]
fn whatever_access_answers_nothing_opens_nothing_protected_goes_and_the_rest_goes_on() {
    let page = Fault::Status {
        code: 403,
        headers: Vec::new(),
        body: "<!DOCTYPE html><html><title>Sign in</title></html>".to_owned(),
    };
    let short = json!({
        "success": true, "errors": [], "messages": [], "result": [],
        "result_info": {"page": 1, "per_page": 1000, "count": 0, "total_count": 3},
    });
    let short = Fault::Status { code: 200, headers: Vec::new(), body: short.to_string() };
    let troubles = [
        ("500", Fault::status(500), false),
        ("no permission", Fault::error(403, 10000, "Authentication error"), true),
        ("the other grant", Fault::error(403, 1010, "access.api.error.forbidden"), true),
        ("a page", page, false),
        ("a dropped connection", Fault::Reset, false),
        ("a short list", short, false),
    ];
    for (matcher, permission) in calls_for_access() {
        // Nothing passes by itself where a permission is missing.
        for (trouble, fault, is_lasting) in troubles.clone() {
            let label = format!("{trouble} in place of {permission}");
            let harness = protected(&[NAME, NEW, OTHER]);
            watch(&harness);
            let first = harness.start_with(&GUARD);
            let both = [web(), vec![published(OTHER, SERVICE)]].concat();
            first.external_dns().run_loop(&both).expect("both are covered");
            drop(first);
            let mut before = audiences(&harness);
            before.retain(|(hostname, _)| hostname == NAME);
            // A new process, which does not know the team.
            harness.cloudflare.fault_every(matcher.clone(), fault);
            // The pauses before a call is repeated take no real time.
            let clock = Arc::new(ManualClock::default());
            let program = harness.start_by(Arc::clone(&clock) as _, &GUARD);
            program.wait_until_ready();
            let external_dns = program.external_dns();
            harness.cloudflare.take_calls();
            for _ in 0..4 {
                clock.put_ahead(Duration::from_secs(50));
                clock.await_watch();
                // The new one is asked for again, unless only an operator can help.
                let answer = (!is_lasting).then_some(503);
                assert_eq!(external_dns.run_loop(&in_trouble()).err(), answer, "{label}");
                assert_eq!(audiences(&harness), before, "{label}");
                assert_eq!(harness.cnames().len(), 1, "{label}: what is withdrawn goes");
                assert!(harness.rules()[0].contains(SERVICE), "{label}: what stands stays as it is");
                assert!(is_served(&harness, Visitor::WithLogin), "{label}");
                assert!(program.is_ready(), "{label}");
            }
            let told = harness.log.lines_with(&["refused=access_unknown", NAME]);
            assert_eq!(told.len(), 1, "{label}: {told:?}");
            assert_eq!(told[0].contains(permission), is_lasting, "{label}: {told:?}");
            let of_zone = harness.log.lines_with(&["the applications of zone example.com: "]);
            assert_eq!(of_zone.is_empty(), !permission.starts_with("Zone"), "{label}: {of_zone:?}");
            let calls = harness.cloudflare.take_calls();
            let checks = calls.iter().filter(|call| call.path.ends_with("/tokens/verify")).count();
            assert!(checks <= 1, "{label}: the token was checked {checks} times");
            assert_eq!(unprotected(&program).as_deref(), Some("1"), "{label}");

            harness.cloudflare.clear_faults();
            external_dns.run_loop(&in_trouble()).expect("it is over");
            assert_eq!(hostnames(&harness), [NEW, NAME], "{label}");
            assert_eq!(external_dns.run_loop(&in_trouble()).expect("at rest"), Default::default(), "{label}");
            assert_eq!(unprotected(&program).as_deref(), Some("0"), "{label}");
            assert_never_open(&harness, &label);
        }
    }
}

/// More zones than are read in parallel.
#[test]
fn an_access_that_hangs_costs_a_request_its_patience_once() {
    let harness = protected(&[NAME]);
    for number in 0..30 {
        harness.cloudflare.add_zone(&format!("zone{number}.test"), Plan::Free);
    }
    let (clock, program) = harness.start_stopped(&GUARD);
    program.external_dns().run_loop(&web()).expect("it is covered");
    // Calls that are under way end together, when the time for Access is over.
    harness.cloudflare.fault_every(Matcher::list_applications(), Fault::Reset);
    harness.cloudflare.fault_every(Matcher::list_zone_applications(), Fault::Reset);
    harness.cloudflare.edit_before(Matcher::call("GET", "/*/*/access/apps"), 1, move |_| {
        clock.put_ahead(ACCESS_TIMEOUT);
    });
    harness.cloudflare.take_calls();
    assert_eq!(program.external_dns().records().expect("the rest is read").len(), 1);
    let calls = harness.cloudflare.take_calls();
    let asked = calls.iter().filter(|call| call.path.ends_with("/access/apps")).count();
    assert!((1..=PARALLEL_CALLS).contains(&asked), "{asked} calls");
}

/// A reading asks for the team, the policies and the account's applications, and the guard for those of each zone too.
#[test]
fn a_loop_costs_three_calls_for_access_and_one_a_zone_and_the_start_says_how_many_in_all() {
    let harness = protected(&[NAME]);
    harness.cloudflare.add_zone("example.org", Plan::Free);
    let program = harness.start_with(&GUARD);
    program.external_dns().run_loop(&web()).expect("it is covered");
    let mut counts = Vec::new();
    for _ in 0..2 {
        harness.cloudflare.take_calls();
        assert_eq!(program.external_dns().run_loop(&web()).expect("at rest"), Default::default());
        let calls = harness.cloudflare.take_calls();
        let ends = |end: &str| calls.iter().filter(|call| call.path.ends_with(end)).count();
        assert!(calls.iter().all(|call| !call.is_write()));
        let of_access = ["/access/apps", "/access/organizations", "/access/policies"].map(ends);
        counts.push((of_access, ends("/dns_records"), calls.len()));
    }
    assert_eq!(counts, [([3, 1, 1], 2, 8); 2]);
    drop(program);

    let harness = protected(&[NAME]);
    let program = harness.start();
    program.external_dns().run_loop(&web()).expect("no endpoint changes");
    let calls = harness.cloudflare.take_calls();
    assert!(calls.iter().all(|call| !call.path.contains("/access/")), "{calls:?}");
    assert_eq!(unprotected(&program).as_deref(), Some("0"));
}

/// At every call of a loop in turn, also between the reading of the applications and the writing of the rule.
#[test]
fn an_application_that_goes_at_any_call_opens_nothing() {
    for nth in 1..=calls_of_a_loop(None) {
        calls_of_a_loop(Some(nth));
    }
}

/// The number of calls of a loop that updates, creates and deletes a hostname each. Two applications are deleted right
/// before one of these calls.
fn calls_of_a_loop(gone_at: Option<usize>) -> usize {
    let harness = protected(&[NAME, NEW, OTHER]);
    watch(&harness);
    let clock = Arc::new(ManualClock::default());
    let start = || {
        let program = harness.start_by(Arc::clone(&clock) as _, &GUARD);
        program.wait_until_ready();
        program
    };
    let before = [web(), vec![published(OTHER, SERVICE)]].concat();
    start().external_dns().run_loop(&before).expect("all is covered");
    // A new process reads the team again.
    let program = start();
    harness.cloudflare.take_calls();
    let run = || program.external_dns().run_loop(&in_trouble());
    let label = format!("gone at call {gone_at:?}");
    if let Some(nth) = gone_at {
        harness.cloudflare.edit_before(Matcher::any(), nth, |cloudflare| {
            cloudflare.delete_application(NAME);
            cloudflare.delete_application(NEW);
        });
    }
    let answer = run();
    let calls = harness.cloudflare.take_calls().len();
    if gone_at.is_some() {
        for _ in 0..2 {
            run().expect("a refusal is no failure");
        }
        assert_never_open(&harness, &label);
        cover(&harness, "again", NAME);
        cover(&harness, "new again", NEW);
    } else {
        answer.expect("nothing goes wrong");
    }
    // It ends as the loop would have without trouble.
    harness.cloudflare.clear_faults();
    let is_at_rest = || {
        clock.put_ahead(Duration::from_secs(700));
        run().is_ok_and(|changes| changes == Default::default())
    };
    let rules = || harness.rules();
    assert!((0..5).any(|_| is_at_rest()), "{label}: {:?}", rules());
    assert!(rules().iter().any(|rule| rule.contains("http://changed:80")), "{label}: {:?}", rules());
    assert_eq!(hostnames(&harness), [NEW, NAME], "{label}");
    assert!(audiences(&harness).iter().all(|(_, audiences)| audiences.len() == 1), "{label}");
    assert_never_open(&harness, &label);
    calls
}
