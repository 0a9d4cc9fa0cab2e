//! When an Access application is made, replaced and deleted, how often that is tried, and what is told of it.

#![allow(clippy::indexing_slicing, reason = "what is missing fails the test")]

use std::time::Duration;

use cloudflare_emulator::{Application, ConfigSource, Fault, Matcher, RuleText, Token, Visitor, catch_all};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use serde_json::json;
use test_support::external_dns::{Changes, exchange};
use test_support::harness::{TOKEN, endpoint};

use crate::access_strangers::{AGE_MIN, NAME, Stage, at, of, put, wish};

const NEXT: &str = "next.example.com";
const THIRD: &str = "third.example.com";

/// Lists may lack a new application for so long.
const LIST_LAG: Duration = Duration::from_secs(120);

/// A replacement that was refused, or undone, is not tried again before.
const PAUSE: Duration = Duration::from_secs(600);

const MOMENT: Duration = Duration::from_millis(1);

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

/// An application that the webhook deleted is gone, whatever a list shows. One that was deleted by hand is asked for by
/// its id. A creation that was answered with a failure may have been carried out.
#[test]
fn an_application_is_posted_again_at_once_where_it_is_known_to_be_gone_and_after_two_minutes_elsewhere() {
    let stage = Stage::new(&[]);
    let desired = |policies: &str| [wish(policies), of(NEXT, "staff"), of(THIRD, "staff")];
    stage.cloudflare().fault(Matcher::create_application().with_body(NEXT), 1, Fault::status(500));
    let all = [NAME, NEXT, THIRD].map(|name| format!("POST {name}"));
    assert_eq!(writes(&stage, &desired("staff")), all);
    assert_eq!(writes(&stage, &desired("staff")), [""; 0], "the rules");
    assert!(stage.logged(&[
        "refused=waiting",
        NEXT,
        "sent the Access application, and it is not known yet whether Cloudflare has it"
    ]));
    assert_eq!(stage.run_loop(&desired("none")), Err(503), "the rule asks for no login first");
    assert_eq!(writes(&stage, &desired("none")), [format!("DELETE {NAME}")]);
    stage.cloudflare().edit(|cloudflare| {
        let third = cloudflare.applications().iter().find(|one| one.name().starts_with(THIRD));
        let id = third.expect("it was made").id.clone();
        cloudflare.delete_application(&id);
    });
    assert_eq!(writes(&stage, &desired("staff")), [format!("POST {NAME}"), format!("POST {THIRD}")]);
    stage.cloudflare().advance_clock(LIST_LAG - MOMENT);
    assert_eq!(writes(&stage, &desired("staff")), [""; 0]);
    stage.cloudflare().advance_clock(MOMENT);
    assert_eq!(writes(&stage, &desired("staff")), [format!("POST {NEXT}")]);
}

/// A write that is undone for the second time is a fight.
#[test]
fn a_replacement_that_was_refused_or_undone_twice_is_tried_again_after_ten_minutes_and_another_one_at_once() {
    let stage = Stage::protected(&[]);
    let desired = |policies: &str| [wish("on-call"), of(NEXT, policies)];
    stage.run(&[wish("staff"), of(NEXT, "staff")]);
    let refused = Fault::error(400, 12130, "access.api.error.invalid_request: not like this");
    stage.cloudflare().fault_every(Matcher::put_application().with_body(NEXT), refused);
    let both = [format!("PUT {NAME}"), format!("PUT {NEXT}")];
    for written in [&both[..], &both[..1]] {
        assert_eq!(writes(&stage, &desired("on-call")), written);
        stage.cloudflare().edit(|cloudflare| {
            let staff = cloudflare.policies()[0].id.clone();
            put(cloudflare, &json!({"policies": [staff]}));
        });
    }
    assert_eq!(writes(&stage, &desired("on-call")), [""; 0]);
    assert!(stage.logged(&["refused=not_kept", NAME, "Access application"]));
    assert!(stage.logged(&[
        "error",
        "refused=access_policy",
        NEXT,
        "asks for an Access application that Cloudflare does not accept: ",
        "not like this"
    ]));
    stage.cloudflare().advance_clock(PAUSE - MOMENT);
    assert_eq!(writes(&stage, &desired("on-call")), [""; 0]);
    assert_eq!(writes(&stage, &desired("staff,on-call")), both[1..], "another one");
    stage.cloudflare().advance_clock(MOMENT);
    assert_eq!(writes(&stage, &desired("on-call")), both);
}

/// None of it was undone by another program or person: the webhook itself wrote in between.
#[test]
fn what_objects_say_in_turns_within_minutes_is_no_fight() {
    for turns in [
        &["staff", "none", "staff", "none", "staff"][..],
        &["staff", "on-call", "staff", "on-call", "staff", "on-call"],
        &["none", "staff", "on-call", "none", "staff", "on-call", "none", "staff"],
    ] {
        let stage = Stage::new(&[]);
        for policies in turns {
            // The application, then the rule; or the rule, then the application.
            for _ in 0..3 {
                let _ = stage.run_loop(&[wish(policies)]);
                stage.cloudflare().advance_clock(Duration::from_secs(15));
            }
            let visit = stage.cloudflare().visit(NAME, "/");
            assert_eq!(visit.is_served(), *policies == "none", "{turns:?}: {visit}");
            assert!(
                *policies == "none" || stage.policies() == [[*policies]],
                "{turns:?}: {:?}",
                stage.policies()
            );
        }
        assert!(!stage.logged(&["not_kept"]) && stage.is_served_with_login(), "{turns:?}");
    }
}

/// Loops come every minute, or every fifteen seconds. 1,100 calls are allowed in five minutes.
#[test]
fn a_namespace_that_changes_many_applications_in_every_loop_leaves_calls_to_other_hostnames() {
    for (interval, loops, applications) in [(60, 8, 250), (15, 22, 100)] {
        let stage = Stage::new(&[]);
        for loops in 0..loops {
            let mut desired: Vec<Endpoint> = (0..applications).map(|number| lasting(number, loops)).collect();
            let name = format!("z-{loops}.example.com");
            desired.push(at(&name, &[]));
            let _ = stage.program.external_dns().run_loop(&desired);
            let is_published = stage.harness.cnames().iter().any(|(cname, ..)| *cname == name);
            assert!(is_published, "loop {loops}, every {interval} s");
            stage.cloudflare().advance_clock(Duration::from_secs(interval));
        }
        assert!(stage.logged(&["refused=waiting", "no time or calls were left for the Access application"]));
    }
}

/// One of many hostnames with a session duration that each loop changes.
fn lasting(number: usize, loops: usize) -> Endpoint {
    let duration = format!("{}m", 60 + loops);
    let said = [("access-policy", "staff"), ("access-session-duration", &*duration)];
    at(&format!("a{number}.example.com"), &said)
}

#[test]
fn more_applications_than_the_account_may_have_are_refused_and_asked_for_once() {
    for (before, made) in [(498, 2), (499, 1), (500, 0)] {
        let stage = Stage::new(&[]);
        for number in 0..before {
            let uri = format!("a{number}.example.com");
            let application = json!({"type": "self_hosted", "name": uri, "domain": uri});
            stage.cloudflare().add_application(&application).expect("an application");
        }
        let desired = [wish("staff"), of(NEXT, "staff")];
        assert_eq!(writes(&stage, &desired).len(), 2, "{before}");
        assert_eq!(stage.applications().len(), before + made, "{before}");
        assert_eq!(
            stage.logged(&["refused=access_policy", "that Cloudflare does not accept: "]),
            made < 2,
            "{before}"
        );
        assert_eq!(writes(&stage, &desired), [""; 0], "{before}: it would be refused again");
    }
}

#[test]
fn each_write_of_an_application_is_told_with_its_path_and_counted() {
    let stage = Stage::new(&[]);
    let path = |policies| at(NEXT, &[("tunnel-path-prefix", "/admin"), ("access-policy", policies)]);
    let metrics = || stage.program.observe("GET", "/metrics").expect("the observation port answers").body;
    for (desired, verb) in [
        (vec![wish("staff"), path("staff")], "created"),
        (vec![wish("on-call"), path("on-call")], "updated"),
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
fn an_application_is_read_by_its_id_for_two_minutes_where_the_list_shows_it_otherwise() {
    let desired = [wish("staff"), of(NEXT, "staff")];
    for (lag, by_id) in [(0, [0, 0]), (30, [2, 0]), (240, [2, 2])] {
        let stage = Stage::new(&[]);
        let lag = Duration::from_secs(lag);
        stage.cloudflare().edit(|cloudflare| cloudflare.whims_mut().unlisted_application_time = lag);
        assert_eq!(writes(&stage, &desired), [format!("POST {NAME}"), format!("POST {NEXT}")]);
        stage.run_loop(&desired).expect("their rules are published");
        for (passed, by_id) in [Duration::ZERO, LIST_LAG - MOMENT].into_iter().zip(by_id) {
            stage.cloudflare().advance_clock(passed);
            stage.cloudflare().take_calls();
            assert_eq!(stage.run_loop(&desired), Ok(Changes::default()), "{lag:?}");
            assert_eq!(reads(&stage), [1, by_id, 1], "{lag:?}, after {passed:?}");
        }
        stage.cloudflare().advance_clock(MOMENT);
        stage.cloudflare().take_calls();
        stage.program.external_dns().records().expect("shown");
        assert_eq!(reads(&stage), [1, 0, 1], "{lag:?}");
    }
}

/// Two hundred hostnames cost two hundred calls in every loop, one after another, and one call that failed stopped all.
#[test]
fn of_applications_that_the_list_lacks_fifty_are_read_by_id_and_only_the_places_of_the_others_wait() {
    let desired: Vec<Endpoint> =
        (0..60).map(|number| of(&format!("h{number:02}.example.com"), "staff")).collect();
    let stage = Stage::new(&[]);
    let rules = || stage.harness.rules().iter().filter(|rule| rule.contains("audTag")).count();
    let lag = Duration::from_secs(100);
    stage.cloudflare().edit(|cloudflare| cloudflare.whims_mut().unlisted_application_time = lag);
    assert_eq!(stage.run_loop(&desired), Err(503));
    assert_eq!((stage.applications().len(), rules()), (60, 0));
    let id = stage.applications()[3].id.clone();
    let by_id = Matcher::call("GET", &format!("/accounts/*/access/apps/{id}"));
    stage.cloudflare().fault_every(by_id, Fault::error(400, 1, "not now"));
    // `GET /records` reads them too, once there are some.
    for read in [50, 100, 100] {
        stage.cloudflare().take_calls();
        assert_eq!(stage.run_loop(&desired), Err(503));
        assert!(reads(&stage)[1] <= read, "{read}");
        assert_eq!(rules(), 49);
    }
    assert!(stage.logged(&["refused=waiting", "it is not known yet whether Cloudflare has it"]));
    stage.cloudflare().clear_faults();
    assert_eq!(stage.run_loop(&desired), Err(503));
    assert_eq!(rules(), 50);
    stage.cloudflare().advance_clock(lag);
    stage.run_loop(&desired).expect("the list has them");
    assert_eq!(rules(), 60);
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
    stage.run(&[at(NAME, &[])]);
    assert_eq!(show(&stage), 0);
    let stage = stage.restarted();
    assert_eq!(show(&stage), 0);
    stage.run(&[wish("staff")]);
    let stage = stage.restarted();
    // Whatever is answered, it is asked again.
    let denied = Fault::error(403, 10000, "Authentication error");
    for fault in [None, Some(denied), Some(Fault::status(404))] {
        if let Some(fault) = fault {
            stage.cloudflare().fault_every(Matcher::list_applications(), fault);
        }
        assert_eq!([show(&stage), show(&stage)], [3; 2]);
        stage.cloudflare().clear_faults();
    }
    // Until the application has gone, and not longer.
    stage.run_loop(&[]).expect("withdrawn");
    assert_eq!(show(&stage), 3);
    stage.run_long(&[]);
    assert_eq!((show(&stage), stage.applications().len()), (0, 0));
}

/// A reading that finds no application and no claim of ours asks Access no more.
#[test]
fn an_endpoint_is_not_counted_as_unprotected_any_more_once_it_is_deleted_with_its_application() {
    let stage = Stage::protected(&[]);
    let metrics = || stage.program.observe("GET", "/metrics").expect("the observation port answers").body;
    stage.cloudflare().edit(|cloudflare| {
        let policy = json!({"name": "mine", "decision": "bypass", "include": [{"everyone": {}}]});
        put(cloudflare, &json!({"policies": [policy]}));
    });
    // An operator deletes the application between the requests of the loop.
    stage.cloudflare().edit_before(Matcher::list_applications(), 2, |cloudflare| {
        let id = cloudflare.applications()[0].id.clone();
        cloudflare.delete_application(&id);
    });
    stage.run_loop(&[]).expect("withdrawn");
    assert!(metrics().contains("_webhook_unprotected 1\n"), "{}", metrics());
    stage.run_loop(&[]).expect("at rest");
    assert!(metrics().contains("_webhook_unprotected 0\n"), "{}", metrics());
}

/// A reading without an answer takes a third of a request's time, which others need. ExternalDNS asks again for what
/// waits, whatever Cloudflare says of another rule of the hostname.
#[test]
fn policies_that_cannot_be_read_are_asked_for_in_one_request_of_a_loop_and_what_names_them_waits() {
    let stage = Stage::new(&[]);
    stage.cloudflare().edit(|cloudflare| {
        cloudflare.whims_mut().dislike_rule(RuleText::Numbered, |rule| rule.service == "http://bad:80");
    });
    let mut bad = endpoint(NAME, &[("tunnel-service", "http://bad:80")]);
    bad.labels.set("resource", "ingress/one/web");
    let desired = [bad, at(NAME, &[("tunnel-path-prefix", "/x"), ("access-policy", "staff")])];
    stage.cloudflare().fault_every(Matcher::list_policies(), Fault::status(502));
    for _ in 0..4 {
        stage.cloudflare().take_calls();
        assert_eq!(stage.program.external_dns().run_loop(&desired), Err(503));
        assert_eq!(reads(&stage)[2], 4, "one reading and its three repetitions");
        stage.cloudflare().advance_clock(Duration::from_secs(60));
    }
    assert!(stage.logged(&[
        "refused=waiting",
        NAME,
        "the webhook does not know what Access protects: ",
        "502"
    ]));
    assert!(!stage.logged(&["the permission"]) && stage.logged(&["refused=cloudflare", NAME]));
    stage.cloudflare().clear_faults();
    assert_eq!(writes(&stage, &desired), [format!("POST {NAME}")]);
}

/// Each is missed only once the other one is there.
#[test]
fn a_token_without_access_is_told_both_permissions_and_the_form_in_the_first_line() {
    let stage = Stage::new(&[]);
    stage.cloudflare().edit(|cloudflare| *cloudflare.token_mut(TOKEN) = Token::full(TOKEN));
    let _ = stage.run_loop(&[wish("staff")]);
    let both = [
        "refused=access_unknown",
        NAME,
        "Account: Access: Apps and Policies: Edit",
        "Account: Access: Organizations, Identity Providers, and Groups: Read",
        "a form with all five: https://dash.cloudflare.com/",
    ];
    assert!(stage.logged(&both), "{:#?}", stage.harness.log.lines_with(&[NAME]));
}

/// Its application is not made, and that is no reason to ask again.
#[test]
fn what_cannot_be_published_for_another_reason_is_told_with_that_reason() {
    let stage = Stage::new(&[]);
    let theirs = json!({"name": NAME, "type": "A", "content": "192.0.2.7", "proxied": true});
    stage.cloudflare().add_record(&stage.harness.zone, theirs).expect("Cloudflare takes it");
    stage.run_loop(&[wish("staff")]).expect("nothing waits");
    let both = [wish("staff"), of(NEXT, "staff")];
    assert_eq!(writes(&stage, &both), [format!("POST {NEXT}")]);
    stage.run_loop(&both).expect("nothing waits any more");
    assert!(stage.logged(&["refused=record_held", NAME]) && !stage.logged(&["refused=waiting", NAME]));
}

/// The token may read Access and not edit it, or the application itself is refused: only an operator can mend that.
#[test]
fn what_is_refused_for_good_is_no_503_for_ever() {
    let denied = || Fault::error(403, 10000, "Authentication error");
    let open = endpoint(NAME, &[("tunnel-service", "http://web:80"), ("access-policy", "none")]);
    let admin = at(NAME, &[("tunnel-path-prefix", "/admin"), ("access-policy", "staff")]);
    for (label, matcher, fault) in [
        ("the tag", Matcher::create_tag(), denied()),
        ("the application", Matcher::create_application(), denied()),
        ("its content", Matcher::create_application(), Fault::error(400, 12130, "not like this")),
        ("the policies", Matcher::list_policies(), denied()),
    ] {
        for desired in [vec![wish("staff")], vec![open.clone(), admin.clone()]] {
            let stage = Stage::new(&[]);
            stage.cloudflare().fault_every(matcher.clone(), fault.clone());
            for nth in 0..8 {
                let answer = stage.program.external_dns().run_loop(&desired).err();
                let lines = stage.harness.log.lines_with(&["refused="]);
                assert!(nth < 2 || answer.is_none(), "{label}, {} rules: {lines:#?}", desired.len());
                stage.cloudflare().advance_clock(Duration::from_secs(60));
            }
        }
    }
}

/// What is made and changed is told. A deletion comes after the withdrawal of its rule, which is told.
#[test]
fn a_dry_run_writes_no_application() {
    let stage = Stage::new(&[]);
    stage.run(&[wish("staff"), of(NEXT, "staff")]);
    stage.run_loop(&[wish("staff")]).expect("its rule goes first");
    // Nothing but the dry run keeps it.
    stage.cloudflare().advance_clock(AGE_MIN);
    let stage = stage.restarted_with(&[("DRY_RUN", "true")]);
    let present = format!("{:?}", stage.applications());
    stage.cloudflare().take_calls();
    stage.harness.log.forget();
    for _ in 0..3 {
        stage.run_loop(&[wish("on-call"), of(THIRD, "staff")]).expect("nothing is done");
    }
    assert_eq!(stage.cloudflare().count_calls().writes, 0);
    assert_eq!(format!("{:?}", stage.applications()), present);
    for (verb, lines) in [("created", 1), ("updated", 1), ("deleted", 0)] {
        let told = stage.harness.log.lines_with(&[&format!("Access application {verb}")]);
        assert_eq!(told.len(), lines, "{verb}: {told:?}");
    }
}

/// Another instance may have made it, and lists may not show that yet. No application was refused.
#[test]
fn a_tag_that_is_refused_keeps_no_application_waiting_for_minutes() {
    let stage = Stage::new(&[]);
    stage.cloudflare().fault(Matcher::create_tag(), 1, Fault::error(400, 12_130, "the tag exists"));
    assert_eq!(stage.run_loop(&[wish("staff")]), Err(503));
    assert_eq!(writes(&stage, &[wish("staff")]), [format!("POST {NAME}")]);
    stage.run(&[wish("staff")]);
    assert!(stage.is_served_with_login());
}

/// A deletion needs no tag, so the hostname opens although another hostname's application cannot be created.
#[test]
fn a_tag_that_cannot_be_read_keeps_no_application_from_being_deleted() {
    let stage = Stage::new(&[]);
    stage.run(&[wish("staff")]);
    let tags = Matcher::call("GET", "/accounts/*/access/tags");
    stage.cloudflare().fault_every(tags, Fault::error(403, 10_000, "Authentication error"));
    let desired = [wish("none"), of(NEXT, "staff")];
    let written: Vec<String> = (0..3).flat_map(|_| writes(&stage, &desired)).collect();
    assert_eq!(written, [format!("DELETE {NAME}")]);
}

/// Nothing was written, so no line and no count says so, and the next loop creates it.
#[test]
fn an_application_that_is_gone_when_it_is_to_be_replaced_is_created_by_the_next_loop() {
    let stage = Stage::new(&[]);
    stage.run(&[wish("staff")]);
    let id = stage.applications()[0].id.clone();
    let by_id = Matcher::call("GET", &format!("/accounts/*/access/apps/{id}"));
    stage.cloudflare().edit_before(by_id, 1, move |cloudflare| cloudflare.delete_application(&id));
    assert_eq!(stage.run_loop(&[wish("on-call")]), Err(503));
    assert!(!stage.logged(&["Access application updated"]));
    assert_eq!(writes(&stage, &[wish("on-call")]), [format!("POST {NAME}")]);
    stage.run(&[wish("on-call")]);
    assert!(stage.is_served_with_login());
}

/// A file beside its `cloudflared` configures the tunnel. A wildcard may lead visitors of the hostname elsewhere.
#[test]
fn a_hostname_of_a_tunnel_that_may_not_be_written_gets_no_application() {
    let stage = Stage::new(&[]);
    stage.cloudflare().edit(|cloudflare| {
        let tunnel = &stage.harness.tunnel;
        cloudflare.put_configuration(tunnel, &catch_all("http_status:404")).expect("a document");
        cloudflare.tunnel_mut(tunnel).config_source = ConfigSource::Local;
    });
    for _ in 0..3 {
        stage.run_loop(&[wish("staff")]).expect("refused by name");
    }
    assert!(stage.logged(&["refused=local_tunnel", NAME]));
    assert_eq!((stage.applications().len(), stage.harness.cnames().len()), (0, 0));
}

/// The login may be that of the object, or that of the setting.
#[test]
fn the_remedy_for_a_path_expression_with_a_login_publishes_the_path() {
    for (variables, policy, by) in [
        (&[][..], &[("access-policy", "staff")][..], "webhook-access-policy asks for a login"),
        (
            &[("DEFAULT_ACCESS_POLICY", "staff")],
            &[],
            "webhook-access-policy (from DEFAULT_ACCESS_POLICY) asks for",
        ),
    ] {
        let stage = Stage::new(variables);
        let with_path = |property, path| {
            at(NAME, &[policy, &[("tunnel-service.dav", "http://dav:80"), (property, path)]].concat())
        };
        stage.run(&[with_path("tunnel-path.dav", "^/v[0-9]+/")]);
        let remedy = "cannot protect this path: use webhook-tunnel-path-prefix, with more than a slash, without // and";
        let told = stage.harness.log.lines_with(&[by, remedy]);
        assert_eq!(told.len(), 1, "{:#?}", stage.harness.log.lines_with(&["refused="]));
        stage.run(&[with_path("tunnel-path-prefix.dav", "/v1")]);
        let visits = [Visitor::WithLogin, Visitor::WithoutLogin]
            .map(|visitor| stage.cloudflare().visit_as(visitor, NAME, "/v1/x").is_served());
        assert_eq!(visits, [true, false], "{by}");
    }
}

/// The rule of the expression keeps the login of the whole hostname.
#[test]
fn a_path_expression_is_published_with_the_login_of_another_objects_whole_hostname() {
    let stage = Stage::protected(&[]);
    let mut expression = at(NAME, &[("tunnel-path", "^/v[0-9]+/")]);
    expression.labels.set("resource", "ingress/shop/dav");
    expression.set_identifier = "dav".to_owned();
    stage.run(&[wish("staff"), expression]);
    assert_eq!(stage.harness.rules().len(), 3);
    let visits = [Visitor::WithLogin, Visitor::WithoutLogin]
        .map(|visitor| stage.cloudflare().visit_as(visitor, NAME, "/v1/x").is_served());
    assert_eq!(visits, [true, false]);
}

/// Another program creates the application again after each deletion, and then it has a new id.
#[test]
fn a_deletion_that_is_undone_each_time_is_paused() {
    let stage = Stage::new(&[]);
    stage.cloudflare().take_calls();
    let _ = stage.run_loop(&[wish("staff")]);
    let calls = stage.cloudflare().take_calls();
    let created = calls.iter().find(|call| call.method == "POST" && call.path.ends_with("/access/apps"));
    let body: serde_json::Value = serde_json::from_str(&created.expect("made").body).expect("json");
    stage.run(&[wish("staff")]);
    let _ = stage.run_loop(&[wish("none")]);
    let mut deletions = 0;
    for _ in 0..8 {
        deletions += writes(&stage, &[wish("none")]).len();
        stage.cloudflare().advance_clock(Duration::from_secs(60));
        if stage.applications().is_empty() {
            stage.cloudflare().add_application(&body).map_err(|_| ()).expect("made again");
        }
    }
    assert_eq!((deletions, stage.logged(&["not_kept"])), (2, true));
}
