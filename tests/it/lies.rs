//! Answers that are well-formed and untrue: of another shape, older than what was seen, or a page for what was done.

use std::time::Duration;

use cloudflare_emulator::{Fault, Matcher, Visit};
use external_dns_cloudflare_tunnel_webhook::limits::{DIGEST_WITHOUT_RULE_MIN_AGE, RECORDS_PER_PAGE};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use serde_json::json;
use test_support::harness::{Harness, Program, endpoint, published};

use crate::access_strangers::Stage;
use crate::shared_account::{is_stamped, settle, stamp};

const WEB: &str = "http://web:80";

/// Which read of a configuration, or of records, in one loop is the one that a write goes by.
const BEFORE_THE_WRITE: usize = 3;

/// After this a digest without a rule comes off. Cloudflare tells whole seconds.
const OLD_ENOUGH: Duration = DIGEST_WITHOUT_RULE_MIN_AGE.saturating_add(Duration::from_secs(1));

fn result(result: &str) -> Fault {
    let body = format!(r#"{{"success":true,"errors":[],"messages":[],"result":{result}}}"#);
    Fault::Status { code: 200, headers: Vec::new(), body }
}

fn all(names: &[&str]) -> Vec<Endpoint> {
    names.iter().map(|name| published(name, WEB)).collect()
}

fn with_two() -> (Harness, Program) {
    let harness = Harness::with_foreign();
    let program = harness.start();
    let two = all(&["a.example.com", "b.example.com"]);
    settle(program.external_dns(), &harness.cloudflare, &two).expect("published");
    harness.log.forget();
    (harness, program)
}

#[test]
fn an_answer_without_a_configuration_costs_no_rule() {
    for shape in ["{}", r#"{"foo":1}"#, r#"{"version":0,"config":null}"#] {
        let (harness, program) = with_two();
        let before = harness.rules();
        // An old answer is asked for once more.
        for nth in [BEFORE_THE_WRITE, BEFORE_THE_WRITE + 1] {
            harness.cloudflare.fault(Matcher::get_configuration(), nth, result(shape));
        }
        let three = all(&["a.example.com", "b.example.com", "c.example.com"]);
        assert_eq!(program.external_dns().run_loop(&three).map(drop), Err(503), "{shape}");
        assert_eq!(harness.rules(), before, "{shape}");
        assert_eq!(harness.log.lines_with(&["refused=waiting", "came after version"]).len(), 1, "{shape}");
        program.external_dns().run_loop(&three).expect("published");
        assert_eq!(harness.rules().len(), before.len() + 1, "{shape}");
    }
}

/// A cache in front of Cloudflare that leaves the page out of its key answers so. By half of the records, the webhook
/// would take the rules of the other half for foreign.
#[test]
fn a_list_whose_next_page_is_the_same_again_is_not_read_and_nothing_is_written() {
    let (harness, program) = with_two();
    let foreign: Vec<_> = (0..RECORDS_PER_PAGE)
        .map(|number| json!({"type": "A", "name": format!("host-{number}.example.com"), "content": "192.0.2.1"}))
        .collect();
    harness.cloudflare.edit(|cloudflare| {
        cloudflare.zone_mut(&harness.zone).record_quota = 10_000;
        cloudflare.whims_mut().ignores_page = true;
    });
    harness.cloudflare.add_records(&harness.zone, &foreign).expect("there is room");
    let before = (harness.rules(), harness.cloudflare.records(&harness.zone));
    assert_eq!(program.external_dns().run_loop(&[]).map(drop), Err(500));
    assert_eq!((harness.rules(), harness.cloudflare.records(&harness.zone)), before);
    assert_ne!(harness.log.lines_with(&["page 2 of the list brings nothing new"]), [""; 0]);
    harness.cloudflare.edit(|cloudflare| cloudflare.whims_mut().ignores_page = false);
    program.external_dns().run_loop(&all(&["a.example.com", "b.example.com"])).expect("nothing to do");
}

/// A request that sees nothing but old answers would take out what came since; after ten minutes an operator has put an
/// old one back.
#[test]
fn a_configuration_older_than_one_seen_in_an_earlier_request_is_not_written_back_for_ten_minutes() {
    let harness = Harness::with_foreign();
    let (clock, program) = harness.start_stopped(&[]);
    let external_dns = program.external_dns();
    let two = all(&["a.example.com", "b.example.com"]);
    settle(external_dns, &harness.cloudflare, &two).expect("published");
    let old = harness.cloudflare.configuration(&harness.tunnel).expect("a configuration");
    let version = harness.cloudflare.version(&harness.tunnel);
    let rule = r#""ingress":[{"hostname":"added.example.com","service":"http://added:80"},"#;
    let new = old.replace(r#""ingress": ["#, r#""ingress":["#).replacen(r#""ingress":["#, rule, 1);
    harness.cloudflare.put_configuration(&harness.tunnel, &new).expect("Cloudflare takes it");
    external_dns.run_loop(&two).expect("nothing to do");

    let stale = result(&format!(r#"{{"version":{version},"config":{old}}}"#));
    harness.cloudflare.fault_every(Matcher::get_configuration(), stale.clone());
    let three = all(&["a.example.com", "b.example.com", "c.example.com"]);
    for passed in [0, 599] {
        clock.put_ahead(Duration::from_secs(passed));
        assert_eq!(external_dns.run_loop(&three).map(drop), Err(503), "after {passed} s");
        assert!(harness.rules().iter().any(|rule| rule.contains("added.example.com")), "after {passed} s");
    }
    let came_after = format!("version {version} came after version {}", version + 1);
    assert_eq!(harness.log.lines_with(&["refused=waiting", &came_after]).len(), 1);
    clock.put_ahead(Duration::from_secs(1));
    harness.cloudflare.clear_faults();
    // What is written then is shown.
    for nth in 1..=BEFORE_THE_WRITE {
        harness.cloudflare.fault(Matcher::get_configuration(), nth, stale.clone());
    }
    let _ = external_dns.run_loop(&three);
    assert!(harness.rules().iter().any(|rule| rule.contains("c.example.com")));
}

/// One hostname with a rule for each path.
fn paths(paths: &[(&str, &str)]) -> Vec<Endpoint> {
    let of = |(path, service): &(&str, &str)| {
        endpoint("a.example.com", &[("tunnel-service", service), ("tunnel-path", path)])
    };
    paths.iter().map(of).collect()
}

/// The rules of the hostname, each with whether our record's comment names it.
fn rules_of_a(harness: &Harness) -> Vec<(String, bool)> {
    let rules = harness.rules().into_iter().filter(|rule| rule.contains("\"a.example.com\""));
    harness.cloudflare.edit(|cloudflare| {
        rules
            .map(|rule| (is_stamped(cloudflare, &harness.tunnel, &rule), rule))
            .map(|(named, rule)| (rule, named))
            .collect()
    })
}

/// The request plans by an answer of before the last change, or by one without rules; a process that began a moment ago
/// has seen no other. Behind a wildcard record a rule without a record would stay public. Invariant 2 of
/// docs/how-it-works.md.
#[test]
fn a_rule_that_the_planning_reading_does_not_show_stays_ours_until_it_is_gone() {
    let before = paths(&[("^/a$", WEB)]);
    let published = paths(&[("^/a$", WEB), ("^/b$", WEB)]);
    for desired in [
        paths(&[("^/a$", WEB), ("^/b$", WEB), ("^/c$", WEB)]),
        paths(&[("^/a$", WEB), ("^/b$", "http://new:80")]),
        paths(&[("^/a$", "http://new:80"), ("^/b$", "http://new:80"), ("^/c$", WEB)]),
        paths(&[("^/a$", WEB), ("^/c$", WEB)]),
        paths(&[("^/a$", WEB)]),
        Vec::new(),
    ] {
        for (shape, first, is_restarted) in
            [("old", 2, false), ("old", 2, true), ("old", 1, true), ("null", 2, false), ("null", 1, true)]
        {
            let label = format!("{shape} from read {first} on, restarted {is_restarted}: {desired:?}");
            let harness = Harness::with_foreign();
            let mut program = harness.start();
            settle(program.external_dns(), &harness.cloudflare, &before).expect("published");
            let (version, old) = (
                harness.cloudflare.version(&harness.tunnel),
                harness.cloudflare.configuration(&harness.tunnel),
            );
            settle(program.external_dns(), &harness.cloudflare, &published).expect("published");
            harness.cloudflare.advance_clock(OLD_ENOUGH);
            let lie = match shape {
                "old" => format!(r#"{{"version":{version},"config":{}}}"#, old.expect("a configuration")),
                _ => {
                    format!(r#"{{"version":{},"config":null}}"#, harness.cloudflare.version(&harness.tunnel))
                }
            };
            if is_restarted {
                program = program.restart(&harness);
            }
            for nth in first..BEFORE_THE_WRITE {
                harness.cloudflare.fault(Matcher::get_configuration(), nth, result(&lie));
            }
            for loops in 0..6 {
                let _ = program.external_dns().run_loop(&desired);
                let rules = rules_of_a(&harness);
                assert!(rules.iter().all(|(_, is_named)| *is_named), "loop {loops}: {rules:?}, {label}");
                harness.cloudflare.advance_clock(OLD_ENOUGH);
            }
            settle(program.external_dns(), &harness.cloudflare, &desired).expect(&label);
            assert_eq!(rules_of_a(&harness).len(), desired.len(), "{label}");
            let digests = Some(desired.len()).filter(|digests| *digests > 0);
            assert_eq!(digests_of_a(&harness), digests, "{label}");
        }
    }
}

/// A record whose comment names one rule more than the tunnel has, as after a crash.
fn with_a_digest_without_a_rule() -> (Harness, Program) {
    let (harness, program) = with_two();
    harness.cloudflare.fault_every(Matcher::put_configuration(), Fault::status(500));
    let mut more = all(&["a.example.com", "b.example.com"]);
    more.extend(paths(&[("^/c$", WEB)]));
    assert_eq!(program.external_dns().run_loop(&more).map(drop), Err(503));
    harness.cloudflare.clear_faults();
    // Another process does not know that a write failed.
    let program = program.restart(&harness);
    program.wait_until_ready();
    (harness, program)
}

/// The digests in the comment of its record; `None` without a record.
fn digests_of_a(harness: &Harness) -> Option<usize> {
    let records = harness.cloudflare.records(&harness.zone);
    let mut ours = records.iter().filter(|record| record.name == "a.example.com");
    Some(stamp(ours.next()?).map_or(0, |stamp| stamp.claims.digests.len()))
}

/// The first of two instances has written the comment, and is about to write the rule.
#[test]
fn a_second_instance_leaves_a_digest_whose_rule_may_be_about_to_come_for_a_minute() {
    for desired in [all(&["a.example.com", "b.example.com"]), all(&["b.example.com"])] {
        let (harness, first) = with_a_digest_without_a_rule();
        drop(first);
        let second = harness.start();
        let waits = second.external_dns().run_loop(&desired).map(drop);
        assert_eq!(waits, Err(503), "ExternalDNS is to ask again");
        let lines = harness.log.lines_with(&["refused=waiting", "a.example.com", "for a minute"]);
        assert_eq!(lines.len(), 1);
        let document = harness.cloudflare.configuration(&harness.tunnel).expect("a configuration");
        let rule = r#""ingress":[{"hostname":"a.example.com","path":"^/c$","service":"http://web:80"},"#;
        let document =
            document.replace(r#""ingress": ["#, r#""ingress":["#).replacen(r#""ingress":["#, rule, 1);
        harness
            .cloudflare
            .put_configuration(&harness.tunnel, &document)
            .expect("the first instance writes it");
        let rules = rules_of_a(&harness);
        assert!(rules.iter().any(|(rule, is_named)| rule.contains("^/c$") && *is_named), "{rules:?}");
        settle(second.external_dns(), &harness.cloudflare, &desired).expect("at rest");
        assert_eq!(rules_of_a(&harness).len(), desired.len() - 1);
    }
}

#[test]
fn an_old_digest_without_a_rule_costs_a_read_and_a_write_and_comes_off_in_one_request() {
    let two = all(&["a.example.com", "b.example.com"]);
    let count = |harness: &Harness| {
        let calls = harness.cloudflare.take_calls();
        let of = |method: &str, end: &str| {
            calls.iter().filter(|call| call.method == method && call.path.ends_with(end)).count()
        };
        (of("GET", "/configurations"), of("POST", "/batch"), of("PUT", "/configurations"))
    };
    let (harness, program) = with_a_digest_without_a_rule();
    harness.cloudflare.advance_clock(OLD_ENOUGH);
    count(&harness);
    program.external_dns().run_loop(&two).expect("done");
    assert_eq!((count(&harness), digests_of_a(&harness)), ((3, 1, 0), Some(1)));
    program.external_dns().run_loop(&two).expect("at rest");
    assert_eq!(count(&harness), (1, 0, 0));

    let (harness, program) = with_a_digest_without_a_rule();
    harness.cloudflare.advance_clock(OLD_ENOUGH);
    count(&harness);
    program.external_dns().run_loop(&all(&["b.example.com"])).expect("withdrawn");
    assert_eq!(
        (count(&harness), digests_of_a(&harness)),
        ((4, 1, 1), None),
        "one read is before the edit, and one before the digest comes off"
    );
}

#[test]
fn no_digest_comes_off_and_no_record_goes_where_the_tunnel_cannot_be_read_once_more() {
    for desired in [all(&["a.example.com", "b.example.com"]), all(&["b.example.com"])] {
        for fault in [Fault::status(500), Fault::error(403, 10000, "no"), result("{}"), Fault::Garbage] {
            let (harness, program) = with_a_digest_without_a_rule();
            harness.cloudflare.advance_clock(OLD_ENOUGH);
            harness.cloudflare.fault_for(
                Matcher::get_configuration(),
                BEFORE_THE_WRITE,
                Duration::from_secs(4),
                fault.clone(),
            );
            assert_eq!(program.external_dns().run_loop(&desired).map(drop), Err(503), "{fault:?}");
            assert_eq!(digests_of_a(&harness), Some(2), "{fault:?}");
            harness.cloudflare.clear_faults();
            settle(program.external_dns(), &harness.cloudflare, &desired).expect("done");
            assert_eq!(digests_of_a(&harness), (desired.len() == 2).then_some(1), "{fault:?}");
        }
    }
}

/// From a list that lacks the foreign record below our wildcard, the webhook would conclude that no name needs the
/// wildcard's application.
#[test]
fn a_list_of_records_that_is_null_opens_nothing() {
    let Stage { harness, program, .. } = Stage::new(&[]);
    let theirs =
        json!({"name": "hand.apps.example.com", "type": "A", "content": "192.0.2.7", "proxied": true});
    harness.cloudflare.add_record(&harness.zone, theirs).expect("Cloudflare takes it");
    let stays = published("stays.example.com", WEB);
    let ours = endpoint("*.apps.example.com", &[("tunnel-service", WEB), ("access-policy", "staff")]);
    settle(program.external_dns(), &harness.cloudflare, &[ours, stays.clone()]).expect("published");
    harness.cloudflare.fault(Matcher::list_records(), BEFORE_THE_WRITE, result("null"));
    let _ = program.external_dns().run_loop(&[stays]);
    let visit = harness.cloudflare.visit("hand.apps.example.com", "/");
    assert!(matches!(visit, Visit::TurnedAway { .. }), "{visit:?}");
}

/// A smaller group that begins with the document before it would take it back.
#[test]
fn a_configuration_that_was_written_and_answered_by_a_page_is_not_taken_back() {
    let services = |service: &str| -> Vec<Endpoint> {
        (0..20).map(|number| published(&format!("h{number}.example.com"), service)).collect()
    };
    let harness = Harness::with_foreign();
    let program = harness.start();
    let external_dns = program.external_dns();
    settle(external_dns, &harness.cloudflare, &services(WEB)).expect("published");
    let page = Fault::DoneBut(Box::new(Fault::Garbage));
    harness.cloudflare.fault_every(Matcher::put_configuration(), page);
    harness.cloudflare.take_calls();
    for _ in 0..2 {
        let _ = external_dns.run_loop(&services("http://new:80"));
    }
    let puts = harness.cloudflare.take_calls().iter().filter(|call| call.method == "PUT").count();
    let changed = harness.rules().iter().filter(|rule| rule.contains("http://new:80")).count();
    assert_eq!((puts, changed), (1, 20));
    assert_eq!(harness.log.lines_with(&["another writer"]), [""; 0], "the log blames no other writer");
}

/// Under the registry `crd` ExternalDNS would not ask again for the rule.
#[test]
fn records_that_were_made_and_answered_as_there_already_are_no_refusal() {
    let harness = Harness::with_foreign();
    let program = harness.start();
    let external_dns = program.external_dns();
    for code in [81053, 81054, 81057, 81058] {
        let desired = all(&[&format!("h{code}.example.com")]);
        let there_already = Fault::error(400, code, "a record with that host already exists");
        harness.cloudflare.fault(Matcher::batch(), 1, Fault::DoneBut(Box::new(there_already)));
        assert_eq!(external_dns.run_loop(&desired).map(drop), Err(503), "{code}");
        // The same record is created again a moment after it was deleted.
        for desired in [&desired[..], &[], &desired] {
            settle(external_dns, &harness.cloudflare, desired).expect("published");
        }
        let visit = harness.cloudflare.visit(&desired[0].dns_name, "/");
        assert!(matches!(visit, Visit::Served { ref service, .. } if service == WEB), "{code}: {visit:?}");
    }
}

/// The comment of `a.example.com` names a rule that another instance is about to write.
fn stamped_by_another() -> (Harness, Program) {
    let harness = Harness::with_foreign();
    let first = harness.start();
    let a = published("a.example.com", WEB);
    settle(first.external_dns(), &harness.cloudflare, std::slice::from_ref(&a)).expect("published");
    harness.cloudflare.fault_every(Matcher::put_configuration(), Fault::status(500));
    let more = [a, endpoint("a.example.com", &[("tunnel-service", WEB), ("tunnel-path", "^/c$")])];
    assert_eq!(first.external_dns().run_loop(&more).map(drop), Err(503));
    harness.cloudflare.clear_faults();
    let second = first.restart(&harness);
    second.wait_until_ready();
    assert_eq!(digests_of_a(&harness), Some(2));
    harness.log.forget();
    (harness, second)
}

#[test]
fn a_digest_of_another_instance_stays_for_a_minute_also_where_a_write_of_this_one_failed() {
    for fault in [Fault::status(500), Fault::error(403, 10000, "Authentication error")] {
        let (harness, second) = stamped_by_another();
        harness.cloudflare.fault(Matcher::put_configuration(), 1, fault.clone());
        for number in 0..2 {
            let _ = second.external_dns().run_loop(&[published("a.example.com", "http://new:80")]);
            assert_eq!(digests_of_a(&harness), Some(2), "loop {number}, {fault:?}");
        }
    }
}
