//! What is told of hostnames whose work is done all the same.

use external_dns_cloudflare_tunnel_webhook::model::ZoneId;
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use external_dns_cloudflare_tunnel_webhook::reconcile::plan::Plan;
use external_dns_cloudflare_tunnel_webhook::reconcile::snapshot::{Reading, Snapshot, ZoneSnapshot};
use external_dns_cloudflare_tunnel_webhook::reconcile::{Note, records};
use test_support::fake_cloudflare::{FakeCloudflare, HOME};
use test_support::harness::{endpoint, endpoint_of, published};

fn notes(plan: &Plan) -> Vec<(String, String)> {
    plan.notes.iter().map(|note| (note.hostname.to_string(), note.text.clone())).collect()
}

fn with_path(hostname: &str, path: &str, tunnel: &str) -> Endpoint {
    endpoint(hostname, &[("tunnel-service", "http://web:80"), ("tunnel-path", path), ("tunnel", tunnel)])
}

#[test]
fn a_name_two_labels_below_its_zone_is_told_of_once() {
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    let desired = ["example.com", "a.example.com", "b.a.example.com", "c.b.a.example.com"]
        .map(|name| published(name, "http://web:80"));
    let told = notes(&cloudflare.run_loop(&desired, usize::MAX));
    let names: Vec<&str> = told.iter().map(|(hostname, _)| &**hostname).collect();
    assert_eq!(names, ["b.a.example.com", "c.b.a.example.com"]);
    assert!(told[0].1.contains("covers \"example.com\" and one label below it"), "{told:?}");
    // Only where the record is made: the note does not come again at each change.
    let changed = desired.map(|Endpoint { dns_name, .. }| published(&dns_name, "http://new:80"));
    assert_eq!(notes(&cloudflare.run_loop(&changed, usize::MAX)), []);
}

/// Each preview of a branch is such a name.
#[test]
fn of_names_that_share_all_but_their_first_label_the_certificate_of_the_first_is_told_of() {
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    let desired = ["a.pr.example.com", "b.pr.example.com", "c.other.example.com", "d.pr.example.com"]
        .map(|name| published(name, "http://web:80"));
    let told = notes(&cloudflare.run_loop(&desired[..3], usize::MAX));
    let names: Vec<&str> = told.iter().map(|(hostname, _)| &**hostname).collect();
    assert_eq!(names, ["a.pr.example.com", "c.other.example.com"]);
    assert!(told[0].1.contains("*.pr.example.com"), "{told:?}");
    assert_eq!(notes(&cloudflare.run_loop(&desired, usize::MAX)), [], "others stand there");
}

/// RFC 4592: the wildcard answers for no name that stands there, nor for any below that.
#[test]
fn a_deep_name_below_a_wildcard_is_told_of_once() {
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    for name in ["*.wild.example.com", "stands.other.wild.example.com"] {
        cloudflare.add(name, "A", "192.0.2.9", "");
    }
    let desired = ["deep.down.wild.example.com", "flat.wild.example.com", "beside.other.wild.example.com"]
        .map(|name| published(name, "http://web:80"));
    let mut told = notes(&cloudflare.run_loop(&desired, usize::MAX));
    told.retain(|(_, text)| text.contains("RFC 4592"));
    let [(hostname, text)] = &*told else { panic!("{told:?}") };
    assert_eq!(hostname, "deep.down.wild.example.com", "beside the other one a name stands already");
    assert!(text.contains("takes \"down.wild.example.com\" and all names below it"), "{text}");
    assert_eq!(notes(&cloudflare.run_loop(&desired, usize::MAX)), []);
}

#[test]
fn a_hint_names_the_object_of_its_rule_and_not_another_of_the_hostname() {
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    let of = |object, path, service| {
        endpoint_of(object, "a.example.com", &[("tunnel-service", service), ("tunnel-path", path)])
    };
    let desired = [
        of("ingress/default/first", "^/a$", "http://web:80"),
        of("ingress/default/second", "^/b$", "http://web:443"),
    ];
    let plan = cloudflare.run_loop(&desired, usize::MAX);
    let [Note { resource, text, .. }] = &*plan.notes else { panic!("{:?}", plan.notes) };
    assert_eq!(resource.as_deref(), Some("ingress/default/second"), "{text}");
}

#[test]
fn a_rule_that_gets_no_request_is_told_of() {
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    // The expression `/` matches every path.
    let desired = [
        published("a.example.com", "http://web:80"),
        with_path("a.example.com", "/", "home"),
        published("b.example.com", "http://web:80"),
        with_path("c.example.com", "/", "office"),
    ];
    cloudflare.run_loop(&desired, usize::MAX);
    let told = records::records(&cloudflare.snapshot()).notes;
    let [Note { hostname, text, .. }] = &*told else { panic!("{told:?}") };
    assert_eq!(&**hostname, "a.example.com");
    assert!(
        text.contains(r#"the rule for "a.example.com" "/", which precedes it, takes all its requests"#),
        "{text}"
    );
}

/// Without a word, a site behind the wildcard would be lost but for the path.
#[test]
fn a_path_alone_that_takes_the_other_paths_from_a_wildcard_is_told_of() {
    for (desired, target, is_told) in [
        (vec![with_path("a.example.com", "/api", "home")], "192.0.2.7", true),
        (
            vec![with_path("a.example.com", "/api", "home"), published("a.example.com", "http://web:80")],
            "192.0.2.7",
            false,
        ),
        (vec![with_path("a.example.com", "/api", "home")], &*format!("{HOME}.cfargotunnel.com"), false),
        (
            vec![
                with_path("a.example.com", "/api", "home"),
                endpoint("a.example.com", &[("tunnel-service", "none")]),
            ],
            "192.0.2.7",
            false,
        ),
    ] {
        let mut cloudflare = FakeCloudflare::new(&[], &[]);
        let kind = if target.ends_with("com") { "CNAME" } else { "A" };
        cloudflare.add("*.example.com", kind, target, "");
        let told = notes(&cloudflare.run_loop(&desired, usize::MAX));
        let told = told.iter().filter(|(_, text)| text.contains("all other paths of the hostname"));
        assert_eq!(told.count(), usize::from(is_told), "{desired:?}");
    }
}

/// Each loop repairs the order, and the line said to delete a rule that is about to be served.
#[test]
fn a_rule_that_the_next_request_moves_to_the_front_is_not_told_as_unreachable() {
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    cloudflare.run_loop(&[published("a.example.com", "http://web:80")], usize::MAX);
    let theirs = r#"{"hostname":"*.example.com","service":"http://theirs:80"}"#.to_owned();
    cloudflare.edit_rules(HOME, |rules| rules.insert(0, theirs));
    let told = records::records(&cloudflare.snapshot()).notes;
    assert!(!told.iter().any(|note| note.text.contains("no request reaches the rule")), "{told:#?}");
}

/// Cloudflare keeps a zone that was moved to another account's name servers beside the one that took its place.
#[test]
fn a_zone_that_is_not_active_is_told_of_unless_an_active_one_of_its_name_is_used() {
    let cloudflare = FakeCloudflare::new(&[], &[]);
    let idle = |zones: Vec<ZoneSnapshot>| {
        let told = records::records(&Snapshot::new(Reading { zones, ..cloudflare.reading() })).notes;
        told.iter().filter(|note| note.text.contains("the zone is moved")).count()
    };
    let zones = cloudflare.reading().zones;
    let mut moved = zones[0].clone();
    moved.zone.id = ZoneId::new("0123456789abcdef0123456789abcdef");
    moved.zone.status = "moved".into();
    let others = zones.iter().filter(|zone| zone.zone.name != moved.zone.name).cloned();
    assert_eq!(idle(zones.iter().cloned().chain([moved.clone()]).collect()), 0);
    assert_eq!(idle(others.chain([moved.clone()]).collect()), 1);
}

#[test]
fn answers_without_a_date_are_told_with_what_follows() {
    let cloudflare = FakeCloudflare::new(&[], &[]);
    for date_unix_seconds in [Some(1), None] {
        let told =
            records::records(&Snapshot::new(Reading { date_unix_seconds, ..cloudflare.reading() })).notes;
        let is_told = told.iter().any(|note| note.text.contains("MOVE_GRACE counts as over"));
        assert_eq!(is_told, date_unix_seconds.is_none());
    }
}
