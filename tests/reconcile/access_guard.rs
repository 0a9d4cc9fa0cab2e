//! `ACCESS_GUARD`: what is refused, what a rule requires, and what stays, on plans alone.

mod laws;

use external_dns_cloudflare_tunnel_webhook::model::access::{
    Application, ApplicationKind, AttachedPolicy, Destination, PolicyDecision, TeamName,
};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use external_dns_cloudflare_tunnel_webhook::reconcile::access::reading::{
    AccessReadError, AccessReading, AccessSnapshot,
};
use external_dns_cloudflare_tunnel_webhook::reconcile::listing::listing;
use external_dns_cloudflare_tunnel_webhook::reconcile::records;
use serde_json::{Value, json};
use test_support::fake_cloudflare::{FakeCloudflare, HOME, INNER_ZONE, OFFICE, tunnel_id};
use test_support::harness::{endpoint, published};

use crate::protection::{labels, run};

const NAME: &str = "app.example.com";
const SERVICE: (&str, &str) = ("tunnel-service", "http://web:80");

fn app() -> Vec<Endpoint> {
    vec![published(NAME, "http://web:80")]
}

/// An application whose audience is its name with `-aud` behind.
pub(crate) fn application(
    name: &str,
    destinations: &[impl AsRef<str>],
    decision: PolicyDecision,
) -> Application {
    Application {
        id: name.into(),
        name: name.into(),
        audience: format!("{name}-aud").into(),
        kind: ApplicationKind::SelfHosted,
        destinations: destinations.iter().map(|text| Destination::parse(text.as_ref())).collect(),
        policies: Some(vec![AttachedPolicy { id: "p1".into(), decision }]),
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
    let of = |destination: &&str| application(destination, &[destination], PolicyDecision::Allow);
    read(destinations.iter().map(of).collect())
}

fn unread(zone: &str) -> AccessReading {
    let AccessReading::Read(mut access) = covering(&[NAME]) else { unreachable!() };
    access.unread_zones.push((zone.into(), AccessReadError::temporary("its applications were not read")));
    AccessReading::Read(access)
}

fn guarded(access: AccessReading) -> FakeCloudflare {
    guarding(FakeCloudflare::new(&[], &[]), access)
}

fn guarding(mut cloudflare: FakeCloudflare, access: AccessReading) -> FakeCloudflare {
    (cloudflare.access_guard, cloudflare.access) = (true, access);
    cloudflare
}

/// What the rules require, by hostname and path.
fn required(cloudflare: &FakeCloudflare) -> Vec<(String, Value)> {
    let rules = cloudflare.document(&tunnel_id(HOME)).rules().iter();
    rules
        .filter(|rule| !rule.hostname().is_empty())
        .map(|rule| {
            let whole: Value = serde_json::from_str(rule.raw().get()).expect("JSON");
            let place = format!("{}{}", rule.hostname(), rule.path().unwrap_or_default());
            (place, whole["originRequest"]["access"].clone())
        })
        .collect()
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
    records::records(&cloudflare.snapshot()).unprotected
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
fn a_covered_hostname_requires_the_team_and_every_audience_over_it_and_is_left_alone_then() {
    let mut cloudflare = guarded(covering(&[NAME, "app.example.com/admin"]));
    let plan = run(&mut cloudflare, &app());
    assert_eq!(labels(&plan), Vec::<&str>::new());
    let expected = check(&["app.example.com-aud", "app.example.com/admin-aud"]);
    assert_eq!(required(&cloudflare), [(NAME.to_owned(), expected)]);
    assert_eq!((drift(&cloudflare), unprotected(&cloudflare)), (vec![], 0));
    assert_still(&mut cloudflare, &app());
}

/// Rules for all hosts may take its requests, and these rules are not ours to change.
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
fn cover_with_another_audience_or_team_is_repaired() {
    let mut cloudflare = guarded(covering(&[NAME]));
    run(&mut cloudflare, &app());
    for lost in [covering(&[]), read(vec![application(NAME, &[NAME], PolicyDecision::Bypass)])] {
        let mut cloudflare = cloudflare.clone();
        cloudflare.access = lost;
        assert_eq!((drift(&cloudflare), unprotected(&cloudflare)), (vec!["access".to_owned()], 1));
        let before = cloudflare.clone();
        assert_eq!((labels(&run(&mut cloudflare, &app())), &cloudflare), (vec!["unprotected"], &before));
    }
    let again = application("again", &[NAME], PolicyDecision::Allow);
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
    for access in [
        AccessReading::Failed(AccessReadError::temporary("HTTP 500")),
        AccessReading::NotAsked,
        unread("example.com"),
    ] {
        let mut cloudflare = guarded(covering(&[NAME, "gone.example.com"]));
        let gone = published("gone.example.com", "http://web:80");
        run(&mut cloudflare, &[app(), vec![gone.clone()]].concat());
        cloudflare.access = access.clone();
        let before = cloudflare.clone();
        let changed = published(NAME, "http://other:80");
        let path = endpoint(NAME, &[SERVICE, ("tunnel-path-prefix", "/api")]);
        let new = published("new.example.com", "http://web:80");
        let plan = run(&mut cloudflare, &[changed, path, new, gone]);
        let told = plan.refusals.iter().map(|one| (&*one.hostname, one.reason.label_value()));
        let expected = [
            (NAME, "access_unknown"),
            (NAME, "waiting"),
            ("gone.example.com", "access_unknown"),
            ("new.example.com", "waiting"),
        ];
        assert_eq!((told.collect::<Vec<_>>(), &cloudflare), (expected.to_vec(), &before), "{access:?}");

        assert_eq!(labels(&run(&mut cloudflare, &app())), ["access_unknown"], "{access:?}");
        assert_eq!(required(&cloudflare), [(NAME.to_owned(), check(&["app.example.com-aud"]))]);
        assert_eq!((drift(&cloudflare), unprotected(&cloudflare)), (vec!["access".to_owned()], 1));
    }
}

/// The older zone around a hostname may protect it too.
#[test]
fn an_unread_zone_stops_only_its_own_hostnames() {
    let inner = "x.a.example.com";
    for (zone, waiting) in [(INNER_ZONE, &[inner][..]), ("example.com", &[NAME, inner])] {
        let mut cloudflare = guarded(unread(zone)).with_inner_zone();
        let plan = run(&mut cloudflare, &[app(), vec![published(inner, "http://web:80")]].concat());
        assert!(plan.refusals.iter().map(|one| &*one.hostname).eq(waiting.iter().copied()), "{plan:?}");
        assert!(labels(&plan).iter().all(|label| *label == "waiting"), "{plan:?}");
        assert_eq!(required(&cloudflare).len(), 2 - waiting.len());
    }
}

#[test]
fn the_listing_names_the_applications_over_each_hostname_and_path() {
    let staff = || application("staff", &[NAME], PolicyDecision::Allow);
    let mut cloudflare =
        guarded(read(vec![staff(), application("all", &["*.example.com"], PolicyDecision::Allow)]));
    run(&mut cloudflare, &app());
    for (access, expected) in [
        (cloudflare.access.clone(), "all staff"),
        (covering(&["app.example.com/api", "app.example.com/api/*"]), ""),
        (unread("example.com"), ""),
    ] {
        cloudflare.access = access;
        let listed = listing(&cloudflare.snapshot());
        assert_eq!(listed[0].protected_by.join(" "), expected);
    }
    assert_eq!(cloudflare.access.problem(), Some("its applications were not read"));
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

#[test]
fn the_word_that_opens_publishes_nothing_under_the_guard() {
    for access in [covering(&[NAME]), covering(&[]), unread("example.com")] {
        let mut cloudflare = guarded(access);
        let plan = run(&mut cloudflare, &[endpoint(NAME, &[SERVICE, ("access-policy", "none")])]);
        assert_eq!((labels(&plan), cloudflare.writes), (vec!["unprotected"], 0), "{:?}", cloudflare.access);
    }
}

/// The endpoint says what is so, and the guard then closes the rule.
#[test]
fn what_was_opened_by_the_word_gets_the_check_of_the_guard() {
    let open = endpoint(NAME, &[SERVICE, ("access-policy", "none")]);
    let mut cloudflare = guarded(covering(&[NAME]));
    cloudflare.access_guard = false;
    run(&mut cloudflare, std::slice::from_ref(&open));
    cloudflare.access_guard = true;
    run(&mut cloudflare, std::slice::from_ref(&open));
    let snapshot = cloudflare.snapshot();
    assert!(
        snapshot.own_rules().all(|(_, rule)| rule.requires_access()) && snapshot.own_rules().count() == 1
    );
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

/// A foreign application asks all visitors for a login at the edge, before the record and its rule are there.
#[test]
fn a_new_name_is_published_in_a_tunnel_whose_last_rule_is_open() {
    let mut cloudflare = guarding(FakeCloudflare::new(&[], &[]), covering(&["*.example.com"]));
    let wildcard = published("*.example.com", "http://web:80");
    run(&mut cloudflare, std::slice::from_ref(&wildcard));
    cloudflare.edit_rules(OFFICE, |rules| *rules = vec![r#"{"service":"http://controller:80"}"#.to_owned()]);
    let name = endpoint(NAME, &[SERVICE, ("tunnel", "office")]);
    assert_eq!(labels(&run(&mut cloudflare, &[wildcard, name])), [""; 0]);
    assert_eq!(cloudflare.snapshot().visited_tunnel(NAME), Some(tunnel_id(OFFICE)));
}
