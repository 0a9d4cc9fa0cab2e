//! What becomes of visitors with a login, and of those without one, where a place is withdrawn, reworded or widened and
//! another rule of ours answers its visitors.

use external_dns_cloudflare_tunnel_webhook::model::endpoint::Property;

use super::*;

const WILDCARD: &str = "*.example.com";
const MIDDLE: &str = "*.w.example.com";
const DEEP: &str = "a.b.w.example.com";

fn path(prefix: &str, policies: &str) -> Endpoint {
    at(NAME, &[("tunnel-path-prefix", prefix), ("access-policy", policies)])
}

fn is_served(stage: &Stage, host: &str, path: &str) -> bool {
    stage.cloudflare().visit_as(Visitor::WithLogin, host, path).is_served()
}

/// What stands, what is asked for then, and a visitor of what has gone.
type Change = (&'static str, [Vec<Endpoint>; 2], (&'static str, &'static str));

fn changes() -> [Change; 5] {
    let whole = || wish("staff");
    [
        ("a path becomes the hostname", [vec![path("/p", "staff")], vec![whole()]], (NAME, "/p")),
        (
            "a path becomes another one",
            [vec![whole(), path("/p", "on-call")], vec![whole(), path("/p2", "on-call")]],
            (NAME, "/p/x"),
        ),
        ("a path is withdrawn", [vec![whole(), path("/p", "on-call")], vec![whole()]], (NAME, "/p")),
        (
            "a path is withdrawn below a path",
            [vec![path("/p", "staff"), path("/p/q", "on-call")], vec![path("/p", "staff")]],
            (NAME, "/p/q"),
        ),
        (
            "a name is withdrawn below a wildcard",
            [vec![of(WILDCARD, "staff"), wish("on-call")], vec![of(WILDCARD, "staff")]],
            (NAME, "/"),
        ),
    ]
}

/// The edge would go on asking for the login of the old application, whose token the rule does not take.
#[test]
fn a_visitor_with_a_login_is_served_after_each_loop_in_which_a_place_goes_from_a_protected_one() {
    for ((label, [before, after], (host, at)), age) in
        changes().iter().flat_map(|change| [0, 11 * 60, 31_536_000].map(|age| (change, age)))
    {
        let stage = Stage::new(&[]);
        stage.run_loop(before).expect_err("the applications come first");
        stage.run_loop(before).expect("their rules come");
        stage.cloudflare().advance_clock(Duration::from_secs(age));
        stage.cloudflare().watch_as(&[Visitor::WithoutLogin], &[&format!("https://{host}{at}")]);
        assert!(is_served(&stage, host, at), "{label}");
        for nth in 1..=4 {
            let _ = stage.run_loop(after);
            assert!(is_served(&stage, host, at), "{label}, {age} s old, after loop {nth}");
            stage.cloudflare().advance_clock(INTERVAL);
        }
        let wanted = after.len();
        assert_eq!(names(&stage).len(), wanted, "{label}: {:?}", names(&stage));
        assert_eq!(stage.leaks(), [""; 0], "{label}, {age} s old");
    }
}

/// The reading after the writes has the rest of the request's time.
#[test]
fn a_visitor_with_a_login_is_served_after_a_withdrawal_although_each_reading_takes_more_than_two_seconds() {
    let stage = Stage::new(&[]);
    let [before, after] = [vec![wish("staff"), path("/p", "on-call")], vec![wish("staff")]];
    stage.run_loop(&before).expect_err("the applications come first");
    stage.run_loop(&before).expect("their rules come");
    for matcher in [Matcher::list_records(), Matcher::get_configuration()] {
        stage.cloudflare().fault_every(matcher, Fault::Delay(SWEEP_TIMEOUT * 3 / 5));
    }
    stage.run_loop(&after).expect("the path is withdrawn");
    assert!(is_served(&stage, NAME, "/p"));
}

#[test]
fn an_application_whose_deletion_failed_beside_its_rule_goes_in_the_next_loop() {
    for (label, [before, after], (host, at)) in changes() {
        for fault in [Fault::status(500), Fault::DoneButUnanswered, Fault::error(403, 10000, "no")] {
            let stage = Stage::new(&[]);
            stage.run(&before);
            stage.cloudflare().fault(Matcher::delete_application(), 1, fault.clone());
            for _ in 0..2 {
                if stage.cloudflare().waiting_faults() > 0 {
                    let _ = stage.run_loop(&after);
                    stage.cloudflare().advance_clock(INTERVAL);
                }
            }
            assert_eq!(stage.cloudflare().waiting_faults(), 0, "{label}: it goes with its rule");
            stage.run_loop(&after).expect("all else is done");
            assert_eq!(names(&stage).len(), after.len(), "{label}: {fault:?}");
            assert!(is_served(&stage, host, at), "{label}: {fault:?}");
        }
    }
}

/// The plan after the lost answer does not delete the rule, because the rule is deleted already. The rule's digest
/// stays until the record has not changed for a minute.
#[test]
fn an_application_goes_soon_after_its_rule_although_an_answer_to_a_write_is_lost() {
    for ((label, [before, after], (host, at)), call) in changes()
        .iter()
        .flat_map(|change| [Matcher::put_configuration(), Matcher::batch()].map(|call| (change, call)))
    {
        let stage = Stage::new(&[]);
        stage.run(before);
        stage.cloudflare().fault(call.clone(), 1, Fault::DoneButUnanswered);
        for _ in 0..4 {
            let _ = stage.run_loop(after);
            stage.cloudflare().advance_clock(INTERVAL);
        }
        assert!(is_served(&stage, host, at), "{label}, {call:?}");
        assert_eq!(stage.cloudflare().waiting_faults(), 0, "{label}, {call:?}");
    }
}

/// Its visitors would meet no login, or a check that wants none of the tokens that the edge asks for.
#[test]
fn an_application_stays_where_not_every_request_of_its_place_is_answered_by_a_rule_with_a_check_of_ours() {
    let checked = [
        ("tunnel-path-prefix", "/q"),
        ("access-required", "true"),
        ("access-team-name", "my-team"),
        ("access-aud-tag", "own"),
    ];
    let mut checked = at(NAME, &checked);
    checked.labels.set("resource", "ingress/shop/other");
    for (label, before, after) in [
        ("an open wildcard", vec![at(WILDCARD, &[]), wish("staff")], vec![at(WILDCARD, &[])]),
        (
            "a path with a check of its own",
            vec![of(WILDCARD, "staff"), checked.clone(), wish("staff")],
            vec![of(WILDCARD, "staff"), checked.clone()],
        ),
    ] {
        let stage = Stage::new(&[]);
        stage.run(&before);
        stage.run_loop(&after).expect("withdrawn");
        assert!(names(&stage).contains(&NAME.to_owned()), "{label}: {:?}", names(&stage));
        assert_eq!(stage.leaks(), [""; 0], "{label}");
    }
}

/// The record leads there until the hostname stands in the other tunnel, and for `MOVE_GRACE` visitors may be led there
/// yet.
#[test]
fn a_rule_that_stays_because_of_a_move_keeps_its_application_which_goes_with_it() {
    let stage = Stage::new(&[]);
    stage.cloudflare().add_tunnel("office");
    let stage = stage.restarted_with(&[("CF_TUNNEL_ID", "home,office"), ("MOVE_GRACE", "30s")]);
    let in_tunnel = |mut endpoint: Endpoint, tunnel: &str| {
        endpoint.provider_specific.push(Property::new("webhook/tunnel", tunnel));
        endpoint
    };
    stage.run(&[in_tunnel(path("/p", "staff"), "home")]);
    stage.cloudflare().delay_configurations("office", &[Duration::from_secs(90)]);
    let moved = [in_tunnel(wish("staff"), "office")];
    let mut seen = Vec::new();
    for nth in 1..=8 {
        let _ = stage.run_loop(&moved);
        let is_led_home = stage.harness.cnames()[0].1.starts_with(&stage.harness.tunnel);
        let stands = stage.harness.rules().iter().any(|rule| rule.contains(NAME));
        assert_eq!(names(&stage).contains(&format!("{NAME}/p")), stands, "after loop {nth}");
        assert!(
            is_led_home == stands && is_served(&stage, NAME, "/p") || !is_led_home && stands,
            "loop {nth}"
        );
        seen.push((is_led_home, stands));
        stage.cloudflare().advance_clock(INTERVAL);
    }
    seen.dedup();
    assert_eq!(seen, [(true, true), (false, true), (false, false)]);
    assert_eq!((names(&stage), stage.leaks()), (vec![NAME.to_owned()], vec![]));
}

/// The rule of the middle wildcard turned them away; no application of it is over so deep a name.
#[test]
fn a_deep_name_keeps_its_application_for_as_long_as_something_wider_would_answer_without_a_login() {
    let (widest, middle) = (at(WILDCARD, &[]), of(MIDDLE, "staff"));
    for age in [Duration::ZERO, AGE_MIN, 52_560 * AGE_MIN] {
        let stage = Stage::new(&[]);
        stage.run(&[widest.clone(), middle.clone(), of(DEEP, "on-call")]);
        stage.cloudflare().watch_as(&[Visitor::WithoutLogin], &["https://a.b.w.example.com/"]);
        stage.cloudflare().advance_clock(age);
        for left in [&[widest.clone(), middle.clone()][..], std::slice::from_ref(&widest)] {
            stage.run_long(left);
            assert!(names(&stage).contains(&DEEP.to_owned()), "{left:?}: {:?}", names(&stage));
            assert_eq!(stage.leaks(), [""; 0]);
        }
        stage.run_long(&[]);
        assert_eq!(names(&stage), [""; 0], "nothing answers any more");
    }
    let stage = Stage::new(&[]);
    stage.run(&[middle.clone(), of(DEEP, "on-call")]);
    stage.run_long(&[middle]);
    assert_eq!(names(&stage), [MIDDLE], "nothing wider would answer");
}

#[test]
fn names_more_than_one_label_below_a_wildcard_that_is_deleted_are_as_open_as_a_wider_one() {
    for (name, widest, is_open) in [
        (MIDDLE, Some(at(WILDCARD, &[])), true),
        (MIDDLE, Some(of(WILDCARD, "staff")), false),
        (MIDDLE, None, false),
        (NAME, Some(at(WILDCARD, &[])), true),
    ] {
        let stage = Stage::new(&[]);
        let widest = widest.into_iter().collect::<Vec<_>>();
        stage.run(&[&[of(name, "staff")], &*widest].concat());
        stage.run_long(&widest);
        assert_eq!(
            stage.cloudflare().visit("a.b.w.example.com", "/").is_served(),
            is_open,
            "{name}, {widest:?}"
        );
    }
}

/// Its rule requires the tokens of an application that no object asks for any more. The application stays for it.
#[test]
fn a_login_that_outlives_its_object_for_a_narrower_silent_one_is_told_and_counted_with_remedies_that_hold() {
    let silent_path = at(NAME, &[("tunnel-path-prefix", "/api")]);
    for (wide, silent, host, path) in
        [(of("*.example.com", "staff"), at(NAME, &[]), NAME, "/"), (wish("staff"), silent_path, NAME, "/api")]
    {
        let label = format!("{host}{path}");
        let says = |access: &str| {
            let mut said = silent.clone();
            said.provider_specific.push(Property::new("webhook/access-policy", access));
            vec![said]
        };
        for (remedy, left) in [
            (says("staff"), vec![format!("{host}{path}").trim_end_matches('/').to_owned()]),
            (says("none"), vec![]),
            (vec![], vec![]),
        ] {
            let stage = Stage::new(&[]);
            let is_told = || {
                stage.logged(&["WARN", host, "has a login that no object asks for", "(ExternalDNS default)"])
            };
            let count = || {
                let metrics = stage.program.observe("GET", "/metrics").expect("an answer").body;
                metrics.contains("cloudflare_tunnel_webhook_unasked_protections 1\n")
            };
            let both = [wide.clone(), silent.clone()];
            stage.run(&both);
            stage.run(&both);
            assert!(!is_told() && !count(), "{label}: the wider object asks for it");
            stage.run_long(&both[1..]);
            assert_eq!(names(&stage).len(), 1, "{label}");
            assert!(is_told() && count(), "{label}");
            stage.run_long(&remedy);
            stage.run_long(&remedy);
            assert_eq!(names(&stage), left, "{label}");
            assert!(!count(), "{label}");
        }
    }
}
