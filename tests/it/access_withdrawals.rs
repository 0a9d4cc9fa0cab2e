//! Protected hostnames that are withdrawn, opened or published by the hundred: which applications go, when, and what
//! visitors meet meanwhile.

mod narrower;
mod openings;

use std::time::Duration;

use cloudflare_emulator::{Application, Fault, Matcher, Visitor};
use external_dns_cloudflare_tunnel_webhook::limits::PARALLEL_CALLS;
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use serde_json::json;
use test_support::external_dns::Changes;
use test_support::harness::endpoint;

use crate::access_strangers::{AGE_MIN, NAME, Stage, at, of, wish};

const INTERVAL: Duration = Duration::from_secs(60);

/// What a call to Cloudflare's API takes.
const CALL: Duration = Duration::from_millis(250);

/// The time for looking at, and deleting, what is left of applications.
const SWEEP_TIMEOUT: Duration = Duration::from_secs(2);

const NO_RULES: &str = r#"{"ingress":[{"service":"http_status:404"}]}"#;

fn many(count: usize) -> Vec<Endpoint> {
    (0..count).map(|number| of(&format!("a{number}.example.com"), "staff")).collect()
}

fn names(stage: &Stage) -> Vec<String> {
    let of = |one: &Application| one.name().trim_end_matches(" (ExternalDNS default)").to_owned();
    let mut names: Vec<String> = stage.applications().iter().map(of).collect();
    names.sort_unstable();
    names
}

/// The wildcard leads to the same service, and takes the requests of every name that has no rule of its own.
#[test]
fn a_protected_name_below_an_open_wildcard_is_never_served_without_a_login_whatever_becomes_of_it() {
    let wildcard = at("*.example.com", &[]);
    let becomes = [
        ("it loses its annotations", vec![at(NAME, &[])]),
        ("it loses its target", vec![endpoint(NAME, &[("access-policy", "staff")])]),
        ("it is deleted", vec![]),
    ];
    for ((label, left), is_restarted) in becomes.iter().flat_map(|one| [(one, false), (one, true)]) {
        let mut stage = Stage::new(&[]);
        stage.run(&[wildcard.clone(), wish("staff")]);
        assert!(stage.cloudflare().visit("other.example.com", "/").is_served(), "{label}");
        let desired = [std::slice::from_ref(&wildcard), left].concat();
        for _ in 0..2 {
            stage.run_long(&desired);
            let visit = stage.cloudflare().visit(NAME, "/");
            assert!(!visit.is_served(), "{label}: {visit}");
            assert!(names(&stage).contains(&NAME.to_owned()), "{label}");
        }
        if !stage.harness.cnames().iter().any(|(name, ..)| name == NAME) {
            assert!(stage.logged(&["WARN", NAME, "stays, because", "*.example.com"]), "{label}");
        }
        // A new process learns of what is left when something else asks for Access.
        let mut others = vec![];
        if is_restarted {
            stage = stage.restarted();
            others.push(of("next.example.com", "staff"));
        }
        stage.run_long(&desired);
        assert!(names(&stage).contains(&NAME.to_owned()), "{label}");
        stage.run_long(&others);
        let wanted: Vec<&str> = others.iter().map(|other| &*other.dns_name).collect();
        assert_eq!(names(&stage), wanted, "{label}: nothing answers for it any more");
        assert_eq!(stage.leaks(), [""; 0], "{label}");
    }
}

/// The rule that would tell is gone, and nothing else in the cluster names Access.
#[test]
fn after_a_restart_an_emptied_document_opens_nothing_because_the_comment_tells() {
    let stage = Stage::protected(&[]);
    stage.cloudflare().put_configuration(&stage.harness.tunnel, NO_RULES).expect("cloudflared takes it");
    let stage = stage.restarted();
    let silent = [at(NAME, &[])];
    stage.run(&silent);
    assert!(stage.harness.rules()[0].contains("audTag"), "{:?}", stage.harness.rules());
    assert!(stage.is_served_with_login());
    stage.run_long(&silent);
    assert_eq!((names(&stage), stage.leaks()), (vec![NAME.to_owned()], vec![]));

    // Nor while Access cannot be read.
    stage.cloudflare().put_configuration(&stage.harness.tunnel, NO_RULES).expect("cloudflared takes it");
    let stage = stage.restarted();
    stage.cloudflare().fault_every(Matcher::call("*", "/accounts/*/access/**"), Fault::status(500));
    assert_eq!(stage.run_loop(&silent), Err(503));
    assert_eq!((stage.harness.rules().len(), stage.leaks()), (1, vec![]));
}

/// No application of ours was made before, so there is no tag of ours.
#[test]
fn an_application_that_is_taken_over_before_any_other_was_made_gets_a_tag_that_is_made_for_it() {
    let stage = Stage::new(&[("ADOPT", "access")]);
    stage.cloudflare().edit(|cloudflare| {
        let staff = cloudflare.policies()[0].id.clone();
        let theirs = json!({"type": "self_hosted", "name": "by hand", "domain": NAME, "policies": [staff]});
        cloudflare.add_application(&theirs).expect("an application");
    });
    let before = stage.applications()[0].clone();
    assert_eq!(stage.cloudflare().edit(|cloudflare| cloudflare.tags().len()), 0);
    stage.run(&[wish("staff")]);
    let after = stage.applications();
    assert_eq!((after.len(), &after[0].id, &after[0].aud), (1, &before.id, &before.aud));
    assert_eq!(names(&stage), [NAME]);
    let tags = stage.cloudflare().edit(|cloudflare| cloudflare.tags());
    assert_eq!(tags.len(), 1);
    assert_eq!(after[0].fields["tags"], json!(tags));
    assert!(stage.is_served_with_login());
    assert_eq!(stage.leaks(), [""; 0]);
}

/// The line was that of a change of our own application, and nothing told what was there.
#[test]
fn an_application_that_is_taken_over_is_told_as_it_was_in_a_dry_run_too() {
    for (dry_run, line) in [("true", "without DRY_RUN: "), ("false", "Access application updated")] {
        let stage = Stage::new(&[("ADOPT", "access"), ("DRY_RUN", dry_run)]);
        stage.cloudflare().edit(|cloudflare| {
            let staff = cloudflare.policies()[0].id.clone();
            let theirs = json!({
                "type": "self_hosted", "name": "Payroll", "domain": NAME, "policies": [staff], "session_duration": "15m",
            });
            cloudflare.add_application(&theirs).expect("an application");
        });
        let _ = stage.run_loop(&[wish("staff")]);
        let before = [r#"taken over; before: name "Payroll""#, r#"session duration "15m""#];
        assert_eq!(stage.harness.log.lines_with(&[line, before[0], before[1]]).len(), 1, "{dry_run}");
    }
}

/// Each turn takes two seconds at most, because ExternalDNS may wait for it.
#[test]
fn protected_hostnames_that_are_withdrawn_at_once_leave_no_application() {
    for (count, loops) in [(40, 1), (120, 2)] {
        let stage = Stage::new(&[("MASS_DELETION_LIMIT", "0")]);
        stage.run(&many(count));
        assert_eq!(names(&stage).len(), count);
        stage.run_loop(&[]).expect("withdrawn");
        assert_eq!(names(&stage).len(), count, "they go after their rules");
        assert_eq!(stage.harness.cnames(), []);
        stage.cloudflare().advance_clock(AGE_MIN);
        stage.run_loop(&[]).expect("they are seen to be left");
        slow_down(&stage);
        for nth in 1..=loops {
            let (left, begun) = (names(&stage).len(), stage.cloudflare().time().now());
            stage.cloudflare().take_calls();
            assert_eq!(stage.run_loop(&[]), Ok(Changes::default()));
            assert!(names(&stage).len() < left, "some go in every loop");
            // No request waits while the watch reads.
            let reads = stage.cloudflare().take_calls().iter().filter(|call| !call.is_write()).count();
            let reading = CALL / 2 * u32::try_from(reads).expect("a small number");
            let taken = stage.cloudflare().time().now() - begun - reading;
            assert!(taken <= SWEEP_TIMEOUT + CALL, "{taken:?} in loop {nth}");
            stage.cloudflare().advance_clock(INTERVAL);
        }
        assert_eq!(names(&stage), [""; 0]);
        stage.cloudflare().clear_faults();
        stage.run_loop(&[]).expect("nothing is asked for");
        stage.cloudflare().take_calls();
        stage.run_loop(&[]).expect("nothing is asked for");
        let calls = stage.cloudflare().take_calls();
        assert!(!calls.iter().any(|call| call.path.contains("/access/")), "{calls:#?}");
    }
}

/// A call takes 250 ms. Twelve applications are written at once, and two or three things are read at once: on one clock
/// for all, each of them moves it by its part of that.
fn slow_down(stage: &Stage) {
    let side_by_side = u32::try_from(PARALLEL_CALLS).expect("a small number");
    let by_id = Matcher::call("GET", "/accounts/*/access/apps/*");
    let (made, put) = (Matcher::create_application(), Matcher::put_application());
    for matcher in [by_id, made, put, Matcher::delete_application()] {
        stage.cloudflare().fault_every(matcher, Fault::Delay(CALL / side_by_side));
    }
    stage.cloudflare().fault_every(Matcher::reads(), Fault::Delay(CALL / 2));
    stage.cloudflare().fault_every(Matcher::writes(), Fault::Delay(CALL));
}

/// What concerns every call, as a limit does, keeps the others back in this loop, too.
#[test]
fn an_application_whose_deletion_fails_goes_in_the_next_loop_and_keeps_no_other_one() {
    for (fault, left) in [
        (Fault::status(500), 1..=1),
        (Fault::DoneButUnanswered, 0..=0),
        (Fault::limited(1), 0..=2),
        (Fault::error(403, 10000, "Authentication error"), 0..=2),
    ] {
        let stage = Stage::new(&[]);
        stage.run(&[wish("staff"), of("next.example.com", "staff")]);
        stage.run_loop(&[]).expect("withdrawn");
        stage.cloudflare().advance_clock(AGE_MIN);
        stage.run_loop(&[]).expect("they are seen to be left");
        stage.cloudflare().fault(Matcher::delete_application(), 1, fault.clone());
        stage.run_loop(&[]).expect("the failure is nothing that ExternalDNS asks for");
        assert!(left.contains(&names(&stage).len()), "{fault:?}: {:?}", names(&stage));
        stage.cloudflare().advance_clock(INTERVAL);
        stage.run_loop(&[]).expect("nothing is asked for");
        assert_eq!((names(&stage), stage.leaks()), (vec![], vec![]), "{fault:?}");
    }
}

/// One loop with the watch between its requests. What was read is what policies are known by.
fn run_with_watch(stage: &Stage, desired: &[Endpoint]) -> Changes {
    let external_dns = stage.program.external_dns();
    let current = external_dns.records().expect("shown");
    stage.await_watch();
    let adjusted = external_dns.adjust(desired).expect("adjusted");
    stage.await_watch();
    let changes = external_dns.registry.plan(&current, &adjusted);
    let _ = external_dns.apply(&changes);
    stage.await_watch();
    changes
}

#[test]
fn an_application_that_goes_by_itself_is_no_change_of_another_endpoint() {
    let stage = Stage::new(&[]);
    stage.run(&[wish("staff"), of("next.example.com", "staff")]);
    stage.run_loop(&[wish("staff")]).expect("withdrawn");
    stage.cloudflare().advance_clock(AGE_MIN);
    for _ in 0..3 {
        assert_eq!(run_with_watch(&stage, &[wish("staff")]), Changes::default());
    }
    assert_eq!(names(&stage), [NAME]);
}

/// The record and the rule were deleted by hand, and the endpoint that stays wanted says nothing of Access.
#[test]
fn an_application_stays_in_front_of_a_silent_hostname_that_was_deleted_by_hand_until_that_is_back() {
    for is_failing in [false, true] {
        let stage = Stage::new(&[]);
        stage.run(&[wish("staff"), of("next.example.com", "staff")]);
        let silent = [at(NAME, &[])];
        stage.cloudflare().advance_clock(AGE_MIN);
        for _ in 0..2 {
            stage.run_loop(&silent).expect("the other one is withdrawn");
        }
        assert_eq!(names(&stage).len(), 2);
        stage.cloudflare().edit(|cloudflare| {
            let zone = cloudflare.zones()[0].id.clone();
            let id = cloudflare.records(&zone)[0].id.clone();
            cloudflare.delete_record(&zone, &id).expect("Cloudflare takes it");
        });
        stage.cloudflare().put_configuration(&stage.harness.tunnel, NO_RULES).expect("cloudflared takes it");
        if is_failing {
            stage.cloudflare().fault_every(Matcher::batch(), Fault::status(500));
        }
        for nth in 1..=4 {
            if nth == 4 {
                stage.cloudflare().clear_faults();
            }
            let changes = run_with_watch(&stage, &silent);
            assert_eq!(changes == Changes::default(), nth > 1 && !is_failing);
        }
        assert_eq!((names(&stage), stage.leaks()), (vec![NAME.to_owned()], vec![]), "{is_failing}");
        assert!(stage.is_served_with_login(), "{is_failing}");
    }
}

/// The rule and its record are created after the last loop has read, behind the application that stands there.
#[test]
fn an_application_stays_in_front_of_what_is_published_by_hand_before_its_deletion() {
    for loops in 0..3 {
        let stage = Stage::new(&[]);
        stage.run(&[wish("staff")]);
        stage.run_loop(&[]).expect("withdrawn");
        stage.cloudflare().advance_clock(AGE_MIN);
        for _ in 0..loops {
            stage.run_loop(&[]).expect("nothing to do");
        }
        let external_dns = stage.program.external_dns();
        external_dns.records().expect("shown");
        let is_there = !names(&stage).is_empty();
        let target = format!("{}.cfargotunnel.com", stage.harness.tunnel);
        let record = json!({"name": NAME, "type": "CNAME", "content": target, "proxied": true});
        stage.cloudflare().add_record(&stage.harness.zone, record).expect("Cloudflare takes it");
        let rules =
            format!(r#"{{"hostname":"{NAME}","service":"http://hand:80"}},{{"service":"http_status:404"}}"#);
        let document = format!(r#"{{"ingress":[{rules}]}}"#);
        stage.cloudflare().put_configuration(&stage.harness.tunnel, &document).expect("cloudflared takes it");
        external_dns.adjust(&[]).expect("adjusted");
        stage.await_watch();
        assert_eq!(stage.cloudflare().visit(NAME, "/").is_served(), !is_there, "{loops}");
    }
}

/// Two clusters with the same owner, and a tunnel each: all applications have one tag.
#[test]
fn of_two_instances_with_the_same_owner_none_deletes_what_stands_in_front_of_the_tunnel_of_the_other() {
    let stage = Stage::new(&[]);
    stage.cloudflare().add_tunnel("office");
    let (office, clock) = stage.start_beside(&[("CF_TUNNEL_ID", "office")]);
    let of_office = [of("office.example.com", "staff")];
    let run = |at_home: &[Endpoint], at_office: &[Endpoint]| {
        for _ in 0..4 {
            let _ = stage.run_loop(at_home);
            let _ = office.external_dns().run_loop(at_office);
            clock.await_watch();
            stage.cloudflare().advance_clock(AGE_MIN / 2);
        }
    };
    run(&[wish("staff")], &of_office);
    assert_eq!(names(&stage), [NAME, "office.example.com"]);
    run(&[], &of_office);
    assert_eq!(names(&stage), ["office.example.com"]);
    assert!(!stage.cloudflare().visit("office.example.com", "/").is_served());
    assert!(stage.cloudflare().visit_as(Visitor::WithLogin, "office.example.com", "/").is_served());
    run(&[], &[]);
    assert_eq!((names(&stage), stage.leaks()), (vec![], vec![]));
}

#[test]
fn the_warning_of_an_opening_names_each_hostname_and_path_that_opens() {
    let stage = Stage::new(&[]);
    let of =
        |properties: [(&str, &str); 2]| [at(NAME, &properties), at("next.example.com", &properties[1..])];
    stage.run(&of([("tunnel-path-prefix", "/admin"), ("access-policy", "staff")]));
    stage.run(&of([("tunnel-path-prefix", "/admin"), ("access-policy", "none")]));
    assert_eq!(stage.harness.log.lines_with(&["none removes the login"]).len(), 2);
    assert!(stage.logged(&["WARN", "none removes the login", NAME, "^/admin(/|$)"]));
    assert!(stage.logged(&["WARN", "none removes the login", "next.example.com", "ingress/shop/web"]));
}

#[test]
fn two_hundred_protected_hostnames_are_published_in_three_loops() {
    let stage = Stage::new(&[]);
    slow_down(&stage);
    let desired = many(200);
    let mut answers = Vec::new();
    while answers.last().is_none_or(Option::is_some) {
        answers.push(stage.run_loop(&desired).err());
        assert!(answers.len() <= 3, "{answers:?}, {} applications", names(&stage).len());
        stage.cloudflare().advance_clock(INTERVAL);
    }
    stage.cloudflare().clear_faults();
    assert_eq!(names(&stage).len(), 200);
    for number in 0..200 {
        let name = format!("a{number}.example.com");
        assert!(stage.cloudflare().visit_as(Visitor::WithLogin, &name, "/").is_served(), "{name}");
        assert!(!stage.cloudflare().visit(&name, "/").is_served(), "{name}");
    }
}

/// A call takes 250 ms, and two calls replace an application. Three hundred were made a moment ago.
#[test]
fn another_policy_for_hundreds_of_protected_hostnames_goes_on_in_every_loop() {
    for (count, loops) in [(200, 3), (300, 6)] {
        let stage = Stage::new(&[]);
        let _ = stage.run_loop(&many(count));
        stage.run_loop(&many(count)).expect("published");
        slow_down(&stage);
        let desired: Vec<Endpoint> =
            (0..count).map(|number| of(&format!("a{number}.example.com"), "on-call")).collect();
        let changed = || stage.policies().iter().filter(|policies| **policies == ["on-call"]).count();
        for nth in 1..=loops {
            let before = changed();
            let _ = stage.run_loop(&desired);
            assert!(changed() > before || before == count, "{before} of {count} before loop {nth}");
            stage.cloudflare().advance_clock(INTERVAL);
        }
        assert_eq!(changed(), count);
    }
}
