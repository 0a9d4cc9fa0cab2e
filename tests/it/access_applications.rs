//! When an Access application is made, replaced and deleted, how often that is tried, and what is told of it.

#![allow(clippy::indexing_slicing, reason = "what is missing fails the test")]

use std::time::Duration;

use cloudflare_emulator::{Application, Cloudflare, Fault, Matcher, RuleText, Visit, Visitor};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Changes, Endpoint};
use serde_json::json;
use test_support::external_dns::exchange;
use test_support::harness::{TOKEN, endpoint};

use crate::access_strangers::{AGE_MIN, NAME, SECRET, Stage, put, wish};

const NEXT: &str = "next.example.com";
const THIRD: &str = "third.example.com";

/// Lists may lack a new application for so long.
const LIST_LAG: Duration = Duration::from_secs(120);

/// A replacement that was refused, or undone, is not tried again before.
const PAUSE: Duration = Duration::from_secs(600);

const MOMENT: Duration = Duration::from_millis(1);

fn of(name: &str, policies: &str) -> Endpoint {
    endpoint(name, &[("tunnel-service", SECRET), ("access-policy", policies)])
}

/// What one loop writes of applications, as `POST next.example.com`, sorted: they are written side by side.
fn writes(stage: &Stage, desired: &[Endpoint]) -> Vec<String> {
    let present = stage.applications();
    stage.cloudflare().take_calls();
    let _ = stage.run_loop(desired);
    let mut calls = stage.cloudflare().take_calls();
    calls.retain(|call| call.is_write() && call.path.contains("/access/apps"));
    let mut named: Vec<String> = calls
        .into_iter()
        .map(|call| {
            let of_path = present.iter().find(|one| call.path.ends_with(&one.id)).map(Application::name);
            let is_named = |name: &&str| of_path.unwrap_or(&call.body).contains(*name);
            let name = [NAME, NEXT, THIRD].into_iter().find(is_named).expect("one of them");
            format!("{} {name}", call.method)
        })
        .collect();
    named.sort_unstable();
    named
}

/// Nobody knows whether it was made.
#[test]
fn an_application_is_not_posted_twice_for_its_place_within_two_minutes() {
    let stage = Stage::new(&[]);
    let desired = [wish("staff"), of(NEXT, "staff")];
    stage.cloudflare().fault(Matcher::create_application().with_body(NAME), 1, Fault::status(500));
    assert_eq!(writes(&stage, &desired), [format!("POST {NAME}"), format!("POST {NEXT}")]);
    assert_eq!(stage.run_loop(&desired), Err(503));
    assert_eq!(writes(&stage, &desired), [""; 0]);
    assert!(stage.logged(&["refused=waiting", NAME, "was asked for, and lists may not show it yet"]));
    stage.cloudflare().advance_clock(LIST_LAG - MOMENT);
    assert_eq!(writes(&stage, &desired), [""; 0]);
    stage.cloudflare().advance_clock(MOMENT);
    assert_eq!(writes(&stage, &desired), [format!("POST {NAME}")]);
}

/// What we deleted is gone, whatever a list shows. What somebody else deleted is asked for by its id.
#[test]
fn an_application_that_is_known_to_be_gone_is_made_again_at_once() {
    let stage = Stage::new(&[]);
    let desired = |policies: &str| [wish(policies), of(NEXT, "staff"), of(THIRD, "staff")];
    stage.cloudflare().fault(Matcher::create_application().with_body(NEXT), 1, Fault::status(500));
    let all = [NAME, NEXT, THIRD].map(|name| format!("POST {name}"));
    assert_eq!(writes(&stage, &desired("staff")), all);
    assert_eq!(writes(&stage, &desired("staff")), [""; 0], "the rules");
    assert_eq!(writes(&stage, &desired("none")), [""; 0], "the rule asks for no login first");
    assert_eq!(writes(&stage, &desired("none")), [format!("DELETE {NAME}")]);
    stage.cloudflare().edit(|cloudflare| {
        let third = cloudflare.applications().iter().find(|one| one.name().starts_with(THIRD));
        let id = third.expect("it was made").id.clone();
        cloudflare.delete_application(&id);
    });
    assert_eq!(writes(&stage, &desired("staff")), [format!("POST {NAME}"), format!("POST {THIRD}")]);
    stage.cloudflare().advance_clock(LIST_LAG);
    assert_eq!(writes(&stage, &desired("staff")), [format!("POST {NEXT}")]);
}

#[test]
fn a_replacement_that_was_refused_is_tried_again_after_ten_minutes_and_another_one_at_once() {
    let stage = Stage::new(&[]);
    let desired = |policies: &str| [wish(policies), of(NEXT, policies)];
    stage.run(&desired("staff"));
    let refused = Fault::error(400, 12130, "access.api.error.invalid_request: not like this");
    stage.cloudflare().fault_every(Matcher::put_application().with_body(NAME), refused);
    assert_eq!(writes(&stage, &desired("on-call")), [format!("PUT {NAME}"), format!("PUT {NEXT}")]);
    assert_eq!(writes(&stage, &desired("on-call")), [""; 0]);
    assert!(stage.logged(&["refused=cloudflare", NAME, "its Access application: ", "not like this"]));
    stage.cloudflare().advance_clock(PAUSE - MOMENT);
    assert_eq!(writes(&stage, &desired("on-call")), [""; 0]);
    stage.cloudflare().advance_clock(MOMENT);
    assert_eq!(writes(&stage, &desired("on-call")), [format!("PUT {NAME}")]);
    let another = [wish("staff,on-call"), of(NEXT, "on-call")];
    assert_eq!(writes(&stage, &another), [format!("PUT {NAME}")]);
}

/// The second time it is a fight.
#[test]
fn a_replacement_that_somebody_undoes_twice_is_not_kept_up_against_them() {
    let undo = |cloudflare: &mut Cloudflare| {
        let staff = cloudflare.policies()[0].id.clone();
        put(cloudflare, &json!({"policies": [staff]}));
    };
    let stage = Stage::protected(&[]);
    for _ in 0..2 {
        assert_eq!(writes(&stage, &[wish("on-call")]), [format!("PUT {NAME}")]);
        stage.cloudflare().edit(undo);
    }
    assert_eq!(writes(&stage, &[wish("on-call")]), [""; 0]);
    assert!(stage.logged(&["refused=not_kept", "Access application"]));
    stage.cloudflare().advance_clock(PAUSE);
    assert_eq!(writes(&stage, &[wish("on-call")]), [format!("PUT {NAME}")]);
}

/// As many applications as the guard allows a namespace, which each loop wants otherwise. A call takes 0.3 s, and twelve
/// are made at once.
#[test]
fn a_namespace_that_changes_all_its_applications_in_every_loop_keeps_no_other_one_waiting() {
    let stage = Stage::new(&[("NAMESPACE_GUARD", "true"), ("ACCESS_POLICIES", "staff")]);
    let greedy = |loops: usize| -> Vec<Endpoint> { (0..100).map(|number| lasting(number, loops)).collect() };
    stage.run(&greedy(0));
    assert_eq!(stage.applications().len(), 100);
    for matcher in [Matcher::create_application(), Matcher::put_application()] {
        stage.cloudflare().fault_every(matcher, Fault::Delay(Duration::from_millis(300 / 12)));
    }
    let other = |name: &str, said: &[(&str, &str)]| {
        let mut endpoint = endpoint(name, &[&[("tunnel-service", "http://wiki.docs.svc:80")], said].concat());
        endpoint.labels.set("resource", "ingress/docs/wiki");
        endpoint
    };
    let others =
        [other("z-open.example.com", &[]), other("z-wiki.example.com", &[("access-policy", "staff")])];
    let published = |name: &str| stage.harness.cnames().iter().any(|(cname, ..)| cname == name);
    for (loops, is_protected_too) in [(1, false), (2, true)] {
        let _ = stage.run_loop(&[&greedy(loops)[..], &others[..]].concat());
        stage.cloudflare().advance_clock(Duration::from_secs(60));
        assert!(published("z-open.example.com"), "nothing of Access keeps it waiting");
        assert_eq!(published("z-wiki.example.com"), is_protected_too, "its turn comes, in loop {loops}");
    }
}

/// Loops come every minute, and 1,100 calls are allowed in five.
#[test]
fn whoever_changes_many_applications_in_every_loop_leaves_calls_to_everybody_else() {
    let stage = Stage::new(&[]);
    for loops in 0..8 {
        let mut desired: Vec<Endpoint> = (0..250).map(|number| lasting(number, loops)).collect();
        let name = format!("z-{loops}.example.com");
        desired.push(endpoint(&name, &[("tunnel-service", SECRET)]));
        let _ = stage.program.external_dns().run_loop(&desired);
        assert!(stage.harness.cnames().iter().any(|(cname, ..)| *cname == name), "loop {loops}");
        stage.cloudflare().advance_clock(Duration::from_secs(60));
    }
    assert!(stage.logged(&["refused=waiting", "no time or calls were left for its Access application"]));
}

/// One of many hostnames with a session duration that each loop changes.
fn lasting(number: usize, loops: usize) -> Endpoint {
    let duration = format!("{}m", 60 + loops);
    let said =
        [("tunnel-service", SECRET), ("access-policy", "staff"), ("access-session-duration", &*duration)];
    endpoint(&format!("a{number}.example.com"), &said)
}

fn add_applications(stage: &Stage, count: usize) {
    stage.cloudflare().edit(|cloudflare| {
        for number in 0..count {
            let uri = format!("a{number}.example.com");
            let application = json!({
                "type": "self_hosted", "name": uri, "destinations": [{"type": "public", "uri": uri}],
            });
            cloudflare.add_application(&application).expect("an application");
        }
    });
}

#[test]
fn five_hundred_applications_are_the_end() {
    for (before, made) in [(498, 2), (500, 0)] {
        let stage = Stage::new(&[]);
        add_applications(&stage, before);
        let all = [wish("staff"), of(NEXT, "staff")];
        assert_eq!(writes(&stage, &all[..made.max(1)]).len(), made, "{before}");
        assert_eq!(stage.logged(&["refused=cloudflare", "the account has 500"]), made == 0, "{before}");
    }
}

#[test]
fn each_write_of_an_application_is_told_with_its_path_and_counted() {
    let stage = Stage::new(&[]);
    let path = |policies: &str| {
        endpoint(
            NEXT,
            &[("tunnel-service", SECRET), ("tunnel-path-prefix", "/admin"), ("access-policy", policies)],
        )
    };
    let metrics = || stage.program.observe("GET", "/metrics").expect("the observation port answers").body;
    for (desired, verb) in [
        (vec![wish("staff"), path("staff")], "created"),
        (vec![wish("on-call"), path("on-call")], "changed"),
        (vec![], "deleted"),
    ] {
        if verb == "deleted" {
            stage.run_loop(&desired).expect("their rules go first");
            stage.run_loop(&desired).expect("they are seen to be left");
        }
        assert_eq!(writes(&stage, &desired).len(), 2, "{verb}");
        // Nothing else was written but the applications.
        let now = stage.cloudflare().time().unix_seconds();
        assert!(metrics().contains(&format!("_last_write_timestamp_seconds {now}\n")), "{verb}");
        stage.run(&desired);
        assert!(metrics().contains(&format!("_changes_total{{kind=\"application_{verb}\"}} 2\n")), "{verb}");
        let line = |name: &str, place: &str| {
            format!("INFO Access application {verb} hostname=\"{name}\" application=\"{place}\"")
        };
        let mut told = stage.harness.log.lines_with(&[&format!("Access application {verb}")]);
        told.sort_unstable();
        assert_eq!(told, [line(NAME, NAME), line(NEXT, &format!("{NEXT}/admin"))]);
    }
}

/// What is attached from the account's list stays there; what was made in the application is gone for good.
#[test]
fn a_policy_that_goes_with_a_replacement_is_told_if_it_stands_nowhere_else() {
    let stage = Stage::protected(&[]);
    let told = || stage.harness.log.lines_with(&["was made in the Access application itself goes"]);
    assert_eq!(writes(&stage, &[wish("on-call")]), [format!("PUT {NAME}")]);
    assert_eq!(told(), [""; 0]);
    stage.cloudflare().edit(|cloudflare| {
        let inline = json!({"name": "by-hand", "decision": "allow", "include": [{"everyone": {}}]});
        put(cloudflare, &json!({"policies": [inline]}));
    });
    assert_eq!(writes(&stage, &[wish("on-call")]), [format!("PUT {NAME}")]);
    let told = told();
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(told[0].contains("by-hand") && told[0].contains(NAME), "{told:#?}");
}

/// The number of calls for each of them: the list of applications, one application by its id, the policies.
fn reads(stage: &Stage) -> [usize; 3] {
    let calls = stage.cloudflare().take_calls();
    let count = |is_meant: fn(&str) -> bool| {
        calls.iter().filter(|call| call.method == "GET" && is_meant(&call.path)).count()
    };
    [
        count(|path| path.ends_with("/access/apps")),
        count(|path| path.contains("/access/apps/")),
        count(|path| path.ends_with("/access/policies")),
    ]
}

/// A list may lack for half a minute what was written.
#[test]
fn an_application_that_was_just_written_is_read_by_its_id_only_where_the_list_shows_it_otherwise() {
    let desired = [wish("staff"), of(NEXT, "staff")];
    for (lag, by_id) in [(0, 0), (30, 2)] {
        let stage = Stage::new(&[]);
        let lag = Duration::from_secs(lag);
        stage.cloudflare().edit(|cloudflare| cloudflare.whims_mut().unlisted_application_time = lag);
        assert_eq!(writes(&stage, &desired), [format!("POST {NAME}"), format!("POST {NEXT}")]);
        stage.run_loop(&desired).expect("their rules are published");
        stage.cloudflare().take_calls();
        assert_eq!(stage.run_loop(&desired), Ok(Changes::default()), "{lag:?}");
        assert_eq!(reads(&stage), [1, by_id, 1], "{lag:?}");
        stage.cloudflare().advance_clock(lag);
        assert_eq!(stage.run_loop(&desired), Ok(Changes::default()), "{lag:?}");
        assert_eq!(reads(&stage), [1, 0, 1], "{lag:?}");
    }
}

#[test]
fn an_application_that_no_list_shows_is_read_by_its_id_for_two_minutes() {
    let stage = Stage::new(&[]);
    stage.cloudflare().edit(|cloudflare| cloudflare.whims_mut().unlisted_application_time = 2 * LIST_LAG);
    assert_eq!(writes(&stage, &[wish("staff")]), [format!("POST {NAME}")]);
    stage.run_loop(&[wish("staff")]).expect("its rule is published");
    for (passed, by_id) in [(LIST_LAG - MOMENT, 1), (MOMENT, 0)] {
        stage.cloudflare().advance_clock(passed);
        stage.cloudflare().take_calls();
        stage.program.external_dns().records().expect("shown");
        assert_eq!(reads(&stage), [1, by_id, 1], "after {passed:?}");
    }
}

/// The list shows for a while what was there before.
#[test]
fn an_application_is_not_taken_for_what_it_was_before_it_was_changed_or_deleted() {
    for (desired, left) in [(vec![wish("on-call")], 1), (vec![wish("none")], 0)] {
        let stage = Stage::protected(&[]);
        let account = stage.cloudflare().account();
        let head = format!(
            "GET /client/v4/accounts/{account}/access/apps?page=1&per_page=1000 HTTP/1.1\r\nHost: localhost\r\n\
             Authorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n"
        );
        let before = exchange(stage.cloudflare().address(), &[head.as_bytes()]).expect("the list");
        assert_eq!(before.status, 200);
        for _ in 0..2 {
            let _ = stage.run_loop(&desired);
        }
        let stale = Fault::Status { code: 200, headers: Vec::new(), body: before.body };
        stage.cloudflare().fault_every(Matcher::list_applications(), stale);
        let _ = stage.run_loop(&desired);
        assert_eq!(stage.run_loop(&desired), Ok(Changes::default()), "{desired:?}");
        assert_eq!(stage.applications().len(), left, "{desired:?}");
    }
}

/// Each reading is the list, the policies and the team. None of them is remembered.
#[test]
fn access_is_read_where_a_comment_says_that_something_is_protected_and_not_elsewhere() {
    let show = |stage: &Stage| {
        stage.cloudflare().take_calls();
        stage.program.external_dns().records().expect("shown");
        let calls = stage.cloudflare().take_calls();
        calls.iter().filter(|call| call.path.contains("/access/")).count()
    };
    let stage = Stage::new(&[]);
    stage.run(&[endpoint(NAME, &[("tunnel-service", SECRET)])]);
    assert_eq!(show(&stage), 0);
    let stage = stage.restarted();
    assert_eq!(show(&stage), 0);
    stage.run(&[wish("staff")]);
    assert_eq!([show(&stage), show(&stage)], [3; 2]);
    let stage = stage.restarted();
    assert_eq!([show(&stage), show(&stage)], [3; 2]);
    // Whatever is answered, it is asked again.
    for fault in [Fault::error(403, 10000, "Authentication error"), Fault::status(404)] {
        stage.cloudflare().fault_every(Matcher::list_applications(), fault.clone());
        assert_eq!([show(&stage), show(&stage)], [3; 2], "{fault:?}");
        stage.cloudflare().clear_faults();
    }
    // Until the application has gone, and not longer.
    stage.run_loop(&[]).expect("withdrawn");
    assert_eq!(show(&stage), 3);
    stage.run_long(&[]);
    assert_eq!((show(&stage), stage.applications().len()), (0, 0));
}

/// Nobody asks again for what was answered as done, and nobody may be blamed for what passes by itself.
#[test]
fn what_asks_for_policies_that_one_answer_did_not_show_waits_for_the_next_loop() {
    let stage = Stage::new(&[]);
    stage.cloudflare().fault_every(Matcher::list_policies(), Fault::status(502));
    let desired = [wish("staff")];
    let run = || stage.program.external_dns().run_loop(&desired).err();
    assert_eq!(run(), Some(503));
    assert!(stage.logged(&["refused=waiting", NAME, "it is not known what Access protects: ", "502"]));
    assert!(!stage.logged(&["the permission"]));
    stage.cloudflare().clear_faults();
    stage.cloudflare().advance_clock(Duration::from_secs(60));
    assert_eq!(run(), Some(503), "its application is made in the next loop");
    assert_eq!(stage.applications().len(), 1);
    assert_eq!(run(), None, "its rule comes in the loop after that");
    assert_eq!(stage.harness.cnames().len(), 1);
}

/// A reading without an answer takes a third of a request's time, which others need.
#[test]
fn policies_that_cannot_be_read_are_asked_for_in_one_request_of_a_loop() {
    let stage = Stage::new(&[]);
    let desired = [wish("staff")];
    stage.cloudflare().fault_every(Matcher::list_policies(), Fault::status(502));
    let mut times = Vec::new();
    for _ in 0..3 {
        stage.cloudflare().take_calls();
        let _ = stage.program.external_dns().run_loop(&desired);
        let calls = stage.cloudflare().take_calls();
        times.push(calls.iter().filter(|call| call.path.ends_with("/access/policies")).count());
        stage.cloudflare().advance_clock(Duration::from_secs(60));
    }
    assert_eq!(times, [4; 3], "one reading and its three repetitions");
}

/// Its application is not made, and that is no reason to ask again.
#[test]
fn what_cannot_be_published_for_another_reason_is_told_with_that_reason() {
    let stage = Stage::new(&[]);
    let theirs = json!({"name": NAME, "type": "A", "content": "192.0.2.7", "proxied": true});
    stage.cloudflare().add_record(&stage.harness.zone, theirs).expect("Cloudflare takes it");
    for (desired, answers) in
        [(vec![wish("staff")], [None, None]), (vec![wish("staff"), of(NEXT, "staff")], [Some(503), None])]
    {
        for answer in answers {
            assert_eq!(stage.run_loop(&desired).err(), answer, "{} hostnames", desired.len());
        }
    }
    assert!(stage.logged(&["refused=record_held", NAME]));
    assert!(!stage.logged(&["refused=waiting", NAME]));
    let names: Vec<String> = stage.applications().iter().map(|one| one.name().to_owned()).collect();
    assert_eq!(names, [format!("{NEXT} (ExternalDNS default)")]);
}

#[test]
fn what_waits_is_answered_503_though_another_rule_of_its_hostname_is_refused() {
    let stage = Stage::new(&[]);
    stage.cloudflare().edit(|cloudflare| {
        cloudflare.whims_mut().dislike_rule(RuleText::Numbered, |rule| rule.service == "http://bad:80");
    });
    let mut bad = endpoint(NAME, &[("tunnel-service", "http://bad:80")]);
    bad.labels.set("resource", "ingress/one/web");
    let mut path = endpoint(
        NAME,
        &[("tunnel-service", "http://path:80"), ("tunnel-path-prefix", "/x"), ("access-policy", "staff")],
    );
    path.labels.set("resource", "ingress/two/web");
    path.set_identifier = "x".into();
    stage.cloudflare().fault_every(Matcher::list_policies(), Fault::status(502));
    let desired = [bad, path];
    let answers: Vec<_> = (0..4).map(|_| stage.program.external_dns().run_loop(&desired).err()).collect();
    let lines = stage.harness.log.lines_with(&["refused="]);
    assert_eq!(answers, [Some(503); 4], "{lines:#?}");
}

/// The answers to so many loops, a minute apart.
fn answers(stage: &Stage, desired: &[Endpoint], loops: usize) -> Vec<Option<u16>> {
    let answer = |_| {
        let answer = stage.program.external_dns().run_loop(desired).err();
        stage.cloudflare().advance_clock(Duration::from_secs(60));
        answer
    };
    (0..loops).map(answer).collect()
}

/// Two paths of one object, one of which wants an application.
fn with_admin(name: &str) -> Vec<Endpoint> {
    let whole = endpoint(name, &[("tunnel-service", "http://web:80"), ("access-policy", "none")]);
    let admin = [("tunnel-service", SECRET), ("tunnel-path-prefix", "/admin"), ("access-policy", "staff")];
    let mut all = vec![whole, endpoint(name, &admin)];
    for one in &mut all {
        one.labels.set("resource", "ingress/one/web");
    }
    all
}

/// The token may read Access and not edit it, or the application itself is refused: only an operator can mend that.
#[test]
fn what_is_refused_for_good_is_no_503_for_ever() {
    let denied = || Fault::error(403, 10000, "Authentication error");
    let invalid = || Fault::error(400, 12130, "access.api.error.invalid_request: not like this");
    for (label, matcher, fault) in [
        ("the tag", Matcher::create_tag(), denied()),
        ("the application", Matcher::create_application(), denied()),
        ("its content", Matcher::create_application(), invalid()),
        ("the policies", Matcher::list_policies(), denied()),
    ] {
        for desired in [vec![wish("staff")], with_admin(NAME)] {
            let stage = Stage::new(&[]);
            stage.cloudflare().fault_every(matcher.clone(), fault.clone());
            let answers = answers(&stage, &desired, 8);
            let lines = stage.harness.log.lines_with(&["refused="]);
            assert_eq!(answers[2..], [None; 6], "{label}, {} rules: {lines:#?}", desired.len());
        }
    }
}

#[test]
fn a_hostname_is_published_protected_changed_opened_and_withdrawn() {
    let stage = Stage::new(&[]);
    let visit = |visitor| stage.cloudflare().visit_as(visitor, NAME, "/");
    let silent = || endpoint(NAME, &[("tunnel-service", SECRET)]);
    let writes = |desired: Endpoint| {
        stage.cloudflare().take_calls();
        stage.run_loop(&[desired]).expect("as it was");
        stage.cloudflare().count_calls().writes
    };

    assert_eq!(stage.run_loop(&[wish("staff, on-call")]), Err(503), "its application");
    assert_eq!(stage.policies(), [["staff", "on-call"]]);
    assert_eq!(stage.harness.cnames(), []);
    stage.run_loop(&[wish("staff, on-call")]).expect("published");
    assert_eq!(stage.applications()[0].name(), format!("{NAME} (ExternalDNS default)"));
    assert!(matches!(visit(Visitor::WithoutLogin), Visit::TurnedAway { .. }));
    assert!(matches!(visit(Visitor::WithLogin), Visit::Served { .. }));
    assert_eq!(writes(wish("staff,on-call")), 0);

    assert_eq!(stage.run_loop(&[wish("on-call")]), Err(503), "its application is changed");
    assert_eq!(stage.policies(), [["on-call"]]);
    stage.run_loop(&[wish("on-call")]).expect("changed");

    for _ in 0..2 {
        assert_eq!(writes(silent()), 0);
    }
    assert_eq!(stage.harness.log.lines_with(&["protected although nothing asks for it", NAME]).len(), 1);
    assert!(matches!(visit(Visitor::WithoutLogin), Visit::TurnedAway { .. }));
    assert!(matches!(visit(Visitor::WithLogin), Visit::Served { .. }));

    assert_eq!(stage.run_loop(&[wish("none")]), Err(503), "its rule asks for no login any more");
    assert!(stage.logged(&["WARN", NAME, "none opens it"]));
    assert!(matches!(visit(Visitor::WithoutLogin), Visit::TurnedAway { .. }));
    stage.run_loop(&[wish("none")]).expect("opened");
    assert_eq!(stage.policies(), [[""; 0]; 0]);
    assert!(matches!(visit(Visitor::WithoutLogin), Visit::Served { .. }));
    assert_eq!(writes(wish("none")), 1, "its comment says no more that it is protected");
    assert_eq!([writes(wish("none")), writes(silent())], [0; 2]);

    assert_eq!(stage.run_loop(&[wish("staff")]), Err(503), "its application");
    assert!(matches!(visit(Visitor::WithoutLogin), Visit::TurnedAway { .. }));
    stage.run_loop(&[wish("staff")]).expect("protected");
    stage.run_loop(&[]).expect("withdrawn");
    assert_eq!((stage.policies(), stage.harness.cnames()), (vec![vec!["staff".to_owned()]], vec![]));
    stage.cloudflare().advance_clock(AGE_MIN);
    for _ in 0..2 {
        assert_eq!(stage.policies(), [["staff"]]);
        stage.run_loop(&[]).expect("nothing is asked for");
    }
    assert_eq!(stage.policies(), [[""; 0]; 0], "its application goes by itself");
}

/// What is made and changed is told. A deletion comes after the withdrawal of its rule, which is told.
#[test]
fn a_dry_run_writes_no_application() {
    let with_next = |desired: &[Endpoint]| [desired, &[of(NEXT, "staff")]].concat();
    let (none, staff, on_call) = (with_next(&[]), with_next(&[wish("staff")]), with_next(&[wish("on-call")]));
    for (before, wanted, told) in
        [(&none, &staff, "created"), (&staff, &on_call, "changed"), (&staff, &none, "deleted")]
    {
        let stage = Stage::new(&[]);
        stage.run(before);
        if told == "deleted" {
            // Nothing but the dry run keeps it.
            stage.run_loop(wanted).expect("its rule goes first");
            stage.cloudflare().advance_clock(AGE_MIN);
        }
        let stage = stage.restarted_with(&[("DRY_RUN", "true")]);
        let present = format!("{:?}", stage.applications());
        stage.cloudflare().take_calls();
        stage.harness.log.forget();
        for _ in 0..3 {
            stage.run_loop(wanted).expect("nothing is done");
        }
        assert_eq!(stage.cloudflare().count_calls().writes, 0, "{told}");
        assert_eq!(format!("{:?}", stage.applications()), present, "{told}");
        let lines = stage.harness.log.lines_with(&[&format!("Access application {told}")]);
        assert_eq!(lines.len(), usize::from(told != "deleted"), "{told}: {lines:?}");
    }
}
