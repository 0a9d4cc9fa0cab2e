//! Protected hostnames that are withdrawn, opened or published by the hundred: which applications go, when, and what
//! visitors meet meanwhile.

use std::time::Duration;

use cloudflare_emulator::{Fault, Matcher, Visitor};
use external_dns_cloudflare_tunnel_webhook::limits::PARALLEL_READS;
use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Changes, Endpoint};
use serde_json::json;
use test_support::harness::endpoint;

use crate::access_strangers::{AGE_MIN, NAME, SECRET, Stage, wish};

const INTERVAL: Duration = Duration::from_secs(60);

/// What a call of Cloudflare's API takes.
const CALL: Duration = Duration::from_millis(250);

/// The time for looking at, and deleting, what is left of applications.
const SWEEP_TIMEOUT: Duration = Duration::from_secs(2);

const NO_RULES: &str = r#"{"ingress":[{"service":"http_status:404"}]}"#;

fn at(name: &str, properties: &[(&str, &str)]) -> Endpoint {
    endpoint(name, &[&[("tunnel-service", SECRET)], properties].concat())
}

fn many(count: usize) -> Vec<Endpoint> {
    (0..count).map(|number| at(&format!("a{number}.example.com"), &[("access-policy", "staff")])).collect()
}

fn names(stage: &Stage) -> Vec<String> {
    let names = stage.applications();
    let mut names: Vec<String> =
        names.iter().map(|one| one.name().trim_end_matches(" (ExternalDNS default)").to_owned()).collect();
    names.sort_unstable();
    names
}

/// The wildcard leads to the same service, and takes the requests of every name that has no rule of its own.
#[test]
fn a_protected_name_below_an_open_wildcard_is_never_served_without_a_login_whatever_becomes_of_it() {
    let wildcard = at("*.example.com", &[]);
    let admin = at(NAME, &[("tunnel-path-prefix", "/admin"), ("access-policy", "staff")]);
    for (label, left, is_restarted) in [
        ("it loses its annotations", vec![at(NAME, &[])]),
        ("it loses its target", vec![endpoint(NAME, &[("access-policy", "staff")])]),
        ("it loses both", vec![endpoint(NAME, &[])]),
        ("it is deleted", vec![]),
        ("it is narrowed to a path", vec![admin]),
    ]
    .into_iter()
    .flat_map(|(label, left)| [(label, left.clone(), false), (label, left, true)])
    {
        let stage = Stage::new(&[]);
        stage.run(&[wildcard.clone(), wish("staff")]);
        assert!(stage.cloudflare().visit("other.example.com", "/").is_served(), "{label}");
        assert!(stage.is_served_with_login(), "{label}");
        let desired = [vec![wildcard.clone()], left.clone()].concat();
        for _ in 0..2 {
            stage.run_long(&desired);
            for path in ["/", "/admin"] {
                let visit = stage.cloudflare().visit(NAME, path);
                assert!(!visit.is_served(), "{label}, {path}: {visit}");
            }
            assert!(names(&stage).contains(&NAME.to_owned()), "{label}");
        }
        assert_eq!(stage.leaks(), [""; 0], "{label}");
        if !stage.harness.cnames().iter().any(|(name, ..)| name == NAME) {
            assert!(stage.logged(&["WARN", NAME, "stays, because", "*.example.com"]), "{label}");
        }
        let stage = if is_restarted { stage.restarted() } else { stage };
        stage.run_long(&desired);
        assert!(names(&stage).contains(&NAME.to_owned()), "{label}");
        // A new process learns of what is left when something else asks for Access.
        let other = at("next.example.com", &[("access-policy", "staff")]);
        stage.run_long(if is_restarted { std::slice::from_ref(&other) } else { &[] });
        let wanted = if is_restarted { &["next.example.com"][..] } else { &[] };
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

/// Each turn takes two seconds at most, because ExternalDNS may wait for it.
#[test]
fn protected_hostnames_that_are_withdrawn_at_once_leave_no_application() {
    for (count, loops) in [(40, 1), (120, 3)] {
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
            // The loop itself reads what the watch reads after it.
            let reads = stage.cloudflare().take_calls().iter().filter(|call| !call.is_write()).count();
            let of_loop = CALL / 2 * u32::try_from(reads / 2).expect("a small number");
            let taken = stage.cloudflare().time().now() - begun - of_loop;
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
    let side_by_side = u32::try_from(PARALLEL_READS).expect("a small number");
    for matcher in [Matcher::create_application(), Matcher::delete_application()] {
        stage.cloudflare().fault_every(matcher, Fault::Delay(CALL / side_by_side));
    }
    stage.cloudflare().fault_every(Matcher::reads(), Fault::Delay(CALL / 2));
    stage.cloudflare().fault_every(Matcher::writes(), Fault::Delay(CALL));
}

/// What concerns every call, as a limit does, keeps the others back in this loop, too.
#[test]
fn an_application_whose_deletion_fails_goes_in_the_next_loop_and_keeps_no_other_one() {
    let denied = Fault::error(403, 10000, "Authentication error");
    for (fault, left) in [
        (Fault::status(500), Some(1)),
        (Fault::Reset, Some(1)),
        (Fault::DoneButUnanswered, Some(0)),
        (Fault::limited(1), None),
        (denied, None),
    ] {
        let stage = Stage::new(&[]);
        stage.run(&[wish("staff"), at("next.example.com", &[("access-policy", "staff")])]);
        stage.run_loop(&[]).expect("withdrawn");
        stage.cloudflare().advance_clock(AGE_MIN);
        stage.run_loop(&[]).expect("they are seen to be left");
        stage.cloudflare().fault(Matcher::delete_application(), 1, fault.clone());
        stage.run_loop(&[]).expect("the failure is nothing that ExternalDNS asks for");
        assert!(left.is_none_or(|left| names(&stage).len() == left), "{fault:?}: {:?}", names(&stage));
        stage.cloudflare().advance_clock(INTERVAL);
        stage.run_loop(&[]).expect("nothing is asked for");
        assert_eq!(names(&stage), [""; 0], "{fault:?}");
        assert_eq!(stage.leaks(), [""; 0], "{fault:?}");
    }
}

/// The watch may come between any two requests of a loop. What was read is what policies are known by.
#[test]
fn an_application_that_goes_by_itself_is_no_change_of_another_endpoint() {
    let stage = Stage::new(&[]);
    let stays = [wish("staff")];
    stage.run(&[wish("staff"), at("next.example.com", &[("access-policy", "staff")])]);
    stage.run_loop(&stays).expect("withdrawn");
    stage.cloudflare().advance_clock(AGE_MIN);
    let external_dns = stage.program.external_dns();
    for _ in 0..3 {
        let current = external_dns.records().expect("shown");
        stage.await_watch();
        let adjusted = external_dns.adjust(&stays).expect("adjusted");
        stage.await_watch();
        assert_eq!(external_dns.registry.plan(&current, &adjusted), Changes::default());
    }
    assert_eq!(names(&stage), [NAME]);
}

/// The watch may come between any two requests of a loop. A hand deleted the record and the rule, and the endpoint that
/// stays wanted says nothing of Access.
#[test]
fn an_application_stays_in_front_of_a_silent_hostname_that_a_hand_deleted_until_that_is_back() {
    for is_failing in [false, true] {
        let stage = Stage::new(&[]);
        stage.run(&[wish("staff"), at("next.example.com", &[("access-policy", "staff")])]);
        let silent = [at(NAME, &[])];
        stage.cloudflare().advance_clock(AGE_MIN);
        for _ in 0..2 {
            stage.run_loop(&silent).expect("the other one is withdrawn");
        }
        assert_eq!(names(&stage).len(), 2);
        stage.cloudflare().edit(|cloudflare| {
            let zone = cloudflare.zones()[0].id.clone();
            let id = cloudflare.records(&zone)[0].id.clone();
            cloudflare.delete_record(&zone, &id).expect("a hand may");
        });
        stage.cloudflare().put_configuration(&stage.harness.tunnel, NO_RULES).expect("cloudflared takes it");
        if is_failing {
            stage.cloudflare().fault_every(Matcher::batch(), Fault::status(500));
        }
        let external_dns = stage.program.external_dns();
        for nth in 1..=4 {
            if nth == 4 {
                stage.cloudflare().clear_faults();
            }
            let current = external_dns.records().expect("shown");
            stage.await_watch();
            let adjusted = external_dns.adjust(&silent).expect("adjusted");
            stage.await_watch();
            let changes = external_dns.registry.plan(&current, &adjusted);
            assert_eq!(changes == Changes::default(), nth > 1 && !is_failing);
            let _ = external_dns.apply(&changes);
            stage.await_watch();
        }
        assert_eq!((names(&stage), stage.leaks()), (vec![NAME.to_owned()], vec![]), "{is_failing}");
        assert!(stage.is_served_with_login(), "{is_failing}");
    }
}

/// Two clusters with the same owner, and a tunnel each: all applications have one tag.
#[test]
fn of_two_instances_with_the_same_owner_none_deletes_what_stands_in_front_of_the_tunnel_of_the_other() {
    let stage = Stage::new(&[]);
    stage.cloudflare().add_tunnel("office");
    let (office, clock) = stage.start_beside(&[("CF_TUNNEL_ID", "office")]);
    let of_office = [at("office.example.com", &[("access-policy", "staff")])];
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
    let said = |policies: &'static str| {
        [
            at(NAME, &[("tunnel-path-prefix", "/admin"), ("access-policy", policies)]),
            at("next.example.com", &[("access-policy", policies)]),
            at("stays.example.com", &[("access-policy", "staff")]),
        ]
    };
    stage.run(&said("staff"));
    assert_eq!(stage.harness.log.lines_with(&["opens it"]), [""; 0]);
    stage.run(&said("none"));
    let told = stage.harness.log.lines_with(&["none opens it"]);
    assert_eq!(told.len(), 2, "{told:#?}");
    for words in [[NAME, "^/admin(/|$)"], ["next.example.com", "ingress/shop/web"]] {
        let is_told =
            |line: &String| line.starts_with("WARN") && words.iter().all(|word| line.contains(word));
        assert!(told.iter().any(is_told), "{words:?}: {told:#?}");
    }
    assert_eq!(names(&stage), ["stays.example.com"]);
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
