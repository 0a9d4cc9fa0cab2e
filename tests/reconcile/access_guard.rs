//! `ACCESS_GUARD`: what is refused, what a rule requires, and what stays, on plans alone.

mod laws;

use external_dns_cloudflare_tunnel_webhook::model::access::{
    Application, ApplicationKind, AttachedPolicy, Decision, Destination, TeamName,
};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use external_dns_cloudflare_tunnel_webhook::reconcile::access::reading::{AccessReading, AccessSnapshot};
use external_dns_cloudflare_tunnel_webhook::reconcile::listing::listing;
use external_dns_cloudflare_tunnel_webhook::reconcile::plan::{Plan, Reason};
use external_dns_cloudflare_tunnel_webhook::reconcile::records;
use serde_json::{Value, json};
use test_support::fake_cloudflare::{FakeCloudflare, HOME, INNER_ZONE, OFFICE, tunnel_id};
use test_support::harness::{endpoint, published};

const NAME: &str = "app.example.com";
const SERVICE: (&str, &str) = ("tunnel-service", "http://web:80");

fn app() -> Vec<Endpoint> {
    vec![published(NAME, "http://web:80")]
}

/// An application whose audience is its name with `-aud` behind.
fn application(name: &str, destinations: &[&str], decision: Decision) -> Application {
    Application {
        id: name.into(),
        name: name.into(),
        audience: format!("{name}-aud").into(),
        kind: ApplicationKind::SelfHosted,
        destinations: destinations.iter().map(|text| Destination::parse(text)).collect(),
        policies: Some(vec![AttachedPolicy {
            id: "p1".into(),
            name: "staff".into(),
            decision,
            is_reusable: true,
        }]),
        tags: Vec::new(),
        session_duration: None,
        created_unix_seconds: None,
    }
}

fn read(applications: Vec<Application>) -> AccessReading {
    let team = TeamName::parse("my-team").expect("a team name");
    AccessReading::Read(AccessSnapshot {
        team,
        applications,
        unread_zones: Vec::new(),
        policies: Ok([].into()),
        pending: Vec::new(),
    })
}

/// Applications that let staff in, each at one destination of the same text.
fn covering(destinations: &[&str]) -> AccessReading {
    let of = |destination: &&str| application(destination, &[destination], Decision::Allow);
    read(destinations.iter().map(of).collect())
}

fn unread(zone: &str) -> AccessReading {
    let AccessReading::Read(mut access) = covering(&[NAME]) else { unreachable!() };
    access.unread_zones.push((zone.into(), "its applications were not read".into()));
    AccessReading::Read(access)
}

fn guarded(access: AccessReading) -> FakeCloudflare {
    guarding(FakeCloudflare::new(&[], &[]), access)
}

fn guarding(mut cloudflare: FakeCloudflare, access: AccessReading) -> FakeCloudflare {
    (cloudflare.access_guard, cloudflare.access) = (true, access);
    cloudflare
}

fn run(cloudflare: &mut FakeCloudflare, desired: &[Endpoint]) -> Plan {
    cloudflare.run_loop(desired, usize::MAX)
}

fn labels(plan: &Plan) -> Vec<&'static str> {
    plan.refusals.iter().map(|refusal| refusal.reason.label()).collect()
}

/// What the rules of a tunnel require, by hostname and path.
fn required_in(cloudflare: &FakeCloudflare, tunnel: &str) -> Vec<(String, Value)> {
    let rules = cloudflare.document(&tunnel_id(tunnel)).rules().iter();
    rules
        .filter(|rule| !rule.hostname().is_empty())
        .map(|rule| {
            let whole: Value = serde_json::from_str(rule.raw().get()).expect("JSON");
            let place = format!("{}{}", rule.hostname(), rule.path().unwrap_or_default());
            (place, whole["originRequest"]["access"].clone())
        })
        .collect()
}

fn required(cloudflare: &FakeCloudflare) -> Vec<(String, Value)> {
    required_in(cloudflare, HOME)
}

fn check(audiences: &[&str]) -> Value {
    json!({"required": true, "teamName": "my-team", "audTag": audiences})
}

fn drift(cloudflare: &FakeCloudflare) -> Vec<String> {
    let shown = cloudflare.shown();
    let drift = shown.iter().filter_map(|one| one.property("webhook/drift"));
    drift.map(str::to_owned).collect()
}

fn unprotected(cloudflare: &FakeCloudflare) -> usize {
    records::records(&cloudflare.snapshot(), &cloudflare.settings()).unprotected
}

/// The same loop again and again: nothing is written.
#[track_caller]
fn assert_still(cloudflare: &mut FakeCloudflare, desired: &[Endpoint]) {
    let before = cloudflare.clone();
    for _ in 0..2 {
        run(cloudflare, desired);
        assert_eq!(*cloudflare, before);
    }
}

#[test]
fn an_uncovered_hostname_is_refused_and_the_remedy_names_the_destination() {
    let mut cloudflare = guarded(covering(&["other.example.com"]));
    let before = cloudflare.clone();
    let plan = run(&mut cloudflare, &app());
    assert_eq!((labels(&plan), &cloudflare), (vec!["unprotected"], &before));
    let text = plan.refusals[0].to_string();
    assert!(text.contains("make one for app.example.com"), "{text}");
    // The others go on.
    let all = [app(), vec![published("other.example.com", "http://web:80")]].concat();
    assert_eq!(labels(&run(&mut cloudflare, &all)), ["unprotected"]);
    let expected = ("other.example.com".to_owned(), check(&["other.example.com-aud"]));
    assert_eq!(required(&cloudflare), [expected]);
}

#[test]
fn a_covered_hostname_requires_the_team_and_every_audience_over_it_and_is_left_alone_then() {
    let mut cloudflare = guarded(covering(&[NAME, "app.example.com/admin"]));
    let plan = run(&mut cloudflare, &app());
    assert_eq!(labels(&plan), Vec::<&str>::new());
    let expected = check(&["app.example.com-aud", "app.example.com/admin-aud"]);
    assert_eq!(required(&cloudflare), [(NAME.to_owned(), expected)]);
    assert_eq!((drift(&cloudflare), unprotected(&cloudflare)), (vec![], 0));
    assert_still(&mut cloudflare, &app());
}

/// Rules for all hosts may take its requests, and nothing of them is ours to change.
#[test]
fn a_record_alone_needs_the_whole_host() {
    let record = [endpoint(NAME, &[("tunnel-service", "none")])];
    let mut cloudflare = guarded(covering(&["app.example.com/api", "app.example.com/api/*"]));
    assert_eq!((labels(&run(&mut cloudflare, &record)), cloudflare.writes), (vec!["unprotected"], 0));
    cloudflare.access = covering(&[NAME]);
    assert_eq!(labels(&run(&mut cloudflare, &record)), Vec::<&str>::new());
    assert_eq!(cloudflare.records.len(), 1);
    assert_eq!((drift(&cloudflare), unprotected(&cloudflare)), (Vec::<String>::new(), 0));
    assert_still(&mut cloudflare, &record);
    cloudflare.access = covering(&[]);
    assert_eq!((drift(&cloudflare), unprotected(&cloudflare)), (vec!["access".to_owned()], 1));
    assert_still(&mut cloudflare, &record);
}

#[test]
fn lost_cover_is_drift_and_a_refusal_and_changes_nothing() {
    let mut cloudflare = guarded(covering(&[NAME]));
    run(&mut cloudflare, &app());
    let lost = [
        covering(&[]),
        read(vec![application("app.example.com", &[NAME], Decision::Bypass)]),
        covering(&[NAME, "app.example.com/new"]),
    ];
    for (access, refused) in lost.into_iter().zip([vec!["unprotected"], vec!["unprotected"], vec![]]) {
        cloudflare.access = access;
        assert_eq!((drift(&cloudflare), unprotected(&cloudflare)), (vec!["access".to_owned()], 1));
        let before = cloudflare.clone();
        let plan = run(&mut cloudflare, &app());
        assert_eq!(labels(&plan), refused);
        if !refused.is_empty() {
            assert_eq!(cloudflare, before);
        }
    }
    assert_eq!(drift(&cloudflare), Vec::<String>::new());
}

#[test]
fn cover_with_another_audience_or_team_is_repaired() {
    let mut cloudflare = guarded(covering(&[NAME]));
    run(&mut cloudflare, &app());
    let again = application("again", &[NAME], Decision::Allow);
    cloudflare.access = read(vec![again]);
    assert_eq!((drift(&cloudflare), unprotected(&cloudflare)), (vec!["access".to_owned()], 1));
    assert_eq!(labels(&run(&mut cloudflare, &app())), Vec::<&str>::new());
    assert_eq!(required(&cloudflare), [(NAME.to_owned(), check(&["again-aud"]))]);
    assert_still(&mut cloudflare, &app());

    let AccessReading::Read(access) = &mut cloudflare.access else { unreachable!() };
    access.team = TeamName::parse("renamed").expect("a team name");
    run(&mut cloudflare, &app());
    assert_eq!(required(&cloudflare)[0].1["teamName"], "renamed");
    assert_still(&mut cloudflare, &app());
}

#[test]
fn where_access_is_not_read_new_ones_wait_standing_ones_stay_and_deletions_go() {
    for access in [AccessReading::Failed("HTTP 500".into()), AccessReading::NotAsked, unread("example.com")] {
        let mut cloudflare = guarded(covering(&[NAME, "gone.example.com"]));
        let both = [app(), vec![published("gone.example.com", "http://web:80")]].concat();
        run(&mut cloudflare, &both);
        cloudflare.access = access.clone();
        let before = cloudflare.clone();

        let changed = published(NAME, "http://other:80");
        let path = endpoint(NAME, &[SERVICE, ("tunnel-path-prefix", "/api")]);
        let new = published("new.example.com", "http://web:80");
        let plan = run(&mut cloudflare, &[changed.clone(), path.clone(), new.clone(), both[1].clone()]);
        let refused: Vec<(&str, &str, bool)> = plan
            .refusals
            .iter()
            .map(|one| (&*one.hostname, one.reason.label(), one.reason.is_unfinished()))
            .collect();
        let expected = [
            (NAME, "access_unknown", false),
            (NAME, "waiting", true),
            ("gone.example.com", "access_unknown", false),
            ("new.example.com", "waiting", true),
        ];
        assert_eq!(refused, expected, "{access:?}");
        assert_eq!(cloudflare, before, "{access:?}");

        assert_eq!(labels(&run(&mut cloudflare, &app())), ["access_unknown"], "{access:?}");
        assert_eq!(required(&cloudflare), [(NAME.to_owned(), check(&["app.example.com-aud"]))]);
        assert_eq!((drift(&cloudflare), unprotected(&cloudflare)), (vec!["access".to_owned()], 1));
    }
}

#[test]
fn an_unread_zone_stops_only_its_own_hostnames() {
    let outer = guarded(unread(INNER_ZONE)).with_inner_zone();
    let mut cloudflare = outer;
    let inner = published("x.a.example.com", "http://web:80");
    let plan = run(&mut cloudflare, &[app(), vec![inner]].concat());
    assert_eq!(labels(&plan), ["waiting"]);
    assert_eq!(required(&cloudflare), [(NAME.to_owned(), check(&["app.example.com-aud"]))]);
    // The older zone around a hostname may protect it too.
    let mut cloudflare = guarded(unread("example.com")).with_inner_zone();
    let inner = published("x.a.example.com", "http://web:80");
    assert_eq!(labels(&run(&mut cloudflare, &[inner])), ["waiting"]);
}

#[test]
fn what_was_not_read_of_access_says_why() {
    let failed = AccessReading::Failed("no answer".into());
    let reason = "its applications were not read";
    for (access, problem) in [
        (AccessReading::NotAsked, None),
        (failed, Some("no answer")),
        (covering(&[NAME]), None),
        (unread(INNER_ZONE), Some(reason)),
    ] {
        assert_eq!(access.problem(), problem, "{access:?}");
    }
}

#[test]
fn the_listing_names_the_applications_over_each_hostname_and_path() {
    let mut cloudflare = guarded(read(vec![
        application("staff", &[NAME], Decision::Allow),
        application("everybody", &["*.example.com"], Decision::Allow),
    ]));
    run(&mut cloudflare, &app());
    let protected_by = |cloudflare: &FakeCloudflare| -> Vec<String> {
        let listed = listing(&cloudflare.snapshot(), &cloudflare.settings());
        listed.iter().flat_map(|entry| &entry.protected_by).map(ToString::to_string).collect()
    };
    assert_eq!(protected_by(&cloudflare), ["everybody", "staff"]);
    cloudflare.access = covering(&["app.example.com/api", "app.example.com/api/*"]);
    assert_eq!(protected_by(&cloudflare), Vec::<String>::new());
    cloudflare.access = unread("example.com");
    assert_eq!(protected_by(&cloudflare), Vec::<String>::new());
}

#[test]
fn access_properties_under_the_guard_are_refused_by_name() {
    for property in [
        ("access-required", "true"),
        ("access-required", "false"),
        ("access-team-name", "my-team"),
        ("access-aud-tag", "x"),
    ] {
        let mut cloudflare = guarded(covering(&[NAME]));
        let plan = run(&mut cloudflare, &[endpoint(NAME, &[SERVICE, property])]);
        assert_eq!((labels(&plan), cloudflare.writes), (vec!["invalid"], 0), "{property:?}");
        let text = plan.refusals[0].to_string();
        assert!(text.contains(property.0) && text.contains("ACCESS_GUARD"), "{text}");
    }
}

/// Whoever changes a path deletes the old one in the same request.
#[test]
fn a_deletion_beside_a_refused_endpoint_is_withheld() {
    let old = endpoint(NAME, &[SERVICE, ("tunnel-path-prefix", "/old")]);
    let new = endpoint(NAME, &[SERVICE, ("tunnel-path-prefix", "/new")]);
    for (access, label) in [
        (covering(&["app.example.com/old", "app.example.com/old/*"]), "unprotected"),
        (AccessReading::Failed("HTTP 500".into()), "waiting"),
    ] {
        let mut cloudflare = guarded(covering(&[NAME]));
        run(&mut cloudflare, std::slice::from_ref(&old));
        cloudflare.access = access;
        let before = cloudflare.clone();
        let plan = run(&mut cloudflare, std::slice::from_ref(&new));
        let mut labels = labels(&plan);
        labels.sort_unstable();
        assert_eq!((labels, &cloudflare), (vec![label, "withheld"], &before));
    }
}

#[test]
fn turned_on_over_open_rules_it_withdraws_nothing_and_checks_what_is_covered() {
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    let both = [app(), vec![published("open.example.com", "http://web:80")]].concat();
    run(&mut cloudflare, &both);
    let mut cloudflare = guarding(cloudflare, covering(&[NAME]));
    assert_eq!((drift(&cloudflare).len(), unprotected(&cloudflare)), (2, 2));
    assert_eq!(labels(&run(&mut cloudflare, &both)), ["unprotected"]);
    let expected =
        [(NAME.to_owned(), check(&["app.example.com-aud"])), ("open.example.com".to_owned(), Value::Null)];
    assert_eq!(required(&cloudflare), expected);
    assert_eq!(unprotected(&cloudflare), 1);
    assert_still(&mut cloudflare, &both);
}

#[test]
fn turned_off_again_the_rules_keep_their_check_until_the_endpoint_opens_them() {
    let mut cloudflare = guarded(covering(&[NAME]));
    run(&mut cloudflare, &app());
    cloudflare.access_guard = false;
    cloudflare.access = AccessReading::NotAsked;
    let before = cloudflare.clone();
    assert_eq!(labels(&run(&mut cloudflare, &app())), [""; 0]);
    assert_eq!(cloudflare, before);
    let opened = [endpoint(NAME, &[("tunnel-service", "http://web:80"), ("access-policy", "none")])];
    assert_eq!(run(&mut cloudflare, &opened).refusals, []);
    assert_eq!(required(&cloudflare), [(NAME.to_owned(), Value::Null)]);
}

#[test]
fn a_foreign_rule_is_taken_over_only_where_it_is_covered_and_gets_the_check() {
    let theirs = [r#"{"hostname":"app.example.com","service":"http://web:80","note":1}"#.to_owned()];
    let record = [(NAME, "CNAME", &*tunnel_id(HOME).hostname())];
    let world = FakeCloudflare::new(&theirs, &record).adopting(&["all"]);
    let mut cloudflare = guarding(world, covering(&[]));
    let before = cloudflare.clone();
    assert_eq!(labels(&run(&mut cloudflare, &app())), ["unprotected"]);
    assert_eq!(cloudflare, before);
    cloudflare.access = covering(&[NAME]);
    let plan = run(&mut cloudflare, &app());
    assert_eq!((labels(&plan), plan.hosts[0].adoptions.len()), (vec![], 2));
    assert_eq!(required(&cloudflare), [(NAME.to_owned(), check(&["app.example.com-aud"]))]);
    assert_still(&mut cloudflare, &app());
}

#[test]
fn a_move_takes_the_check_along_and_is_refused_without_cover() {
    let mut cloudflare = guarded(covering(&[NAME]));
    run(&mut cloudflare, &app());
    let there = [endpoint(NAME, &[SERVICE, ("tunnel", "office")])];
    cloudflare.access = covering(&[]);
    let before = cloudflare.clone();
    assert_eq!(labels(&run(&mut cloudflare, &there)), ["unprotected"]);
    assert_eq!(cloudflare, before);

    cloudflare.access = covering(&[NAME]);
    for writes in 1..=3 {
        let mut cut = cloudflare.clone();
        cut.run_loop(&there, writes);
        let rules = [required_in(&cut, HOME), required_in(&cut, OFFICE)].concat();
        let expected = check(&["app.example.com-aud"]);
        assert!(rules.iter().all(|(_, access)| *access == expected), "{writes}: {rules:?}");
    }
    for _ in 0..3 {
        run(&mut cloudflare, &there);
    }
    assert_eq!(required_in(&cloudflare, HOME), []);
    let expected = (NAME.to_owned(), check(&["app.example.com-aud"]));
    assert_eq!(required_in(&cloudflare, OFFICE), [expected]);
    assert_still(&mut cloudflare, &there);
}

#[test]
fn two_refusals_of_one_hostname_are_told_by_path() {
    let both = [
        endpoint(NAME, &[SERVICE, ("tunnel-path-prefix", "/a")]),
        endpoint(NAME, &[SERVICE, ("tunnel-path-prefix", "/b")]),
    ];
    let mut cloudflare = guarded(covering(&["app.example.com/a", "app.example.com/a/*"]));
    let plan = run(&mut cloudflare, &both);
    let [waiting, refusal] = &plan.refusals[..] else { panic!("{:?}", plan.refusals) };
    assert_eq!(refusal.set_identifier.as_deref(), Some("^/b(/|$)"));
    assert!(matches!(refusal.reason, Reason::Unprotected(_)));
    assert_eq!(waiting.set_identifier.as_deref(), Some("^/a(/|$)"));
    assert!(waiting.to_string().contains("path \"^/b(/|$)\", which is refused (unprotected)"), "{waiting}");
    assert_eq!(required(&cloudflare).len(), 0);
}
