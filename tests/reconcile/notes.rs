//! What is told of hostnames whose work is done all the same.

use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use external_dns_cloudflare_tunnel_webhook::reconcile::plan::Plan;
use external_dns_cloudflare_tunnel_webhook::reconcile::snapshot::Snapshot;
use external_dns_cloudflare_tunnel_webhook::reconcile::strays::Strays;
use external_dns_cloudflare_tunnel_webhook::reconcile::{Note, records};
use test_support::fake_cloudflare::FakeCloudflare;
use test_support::harness::{endpoint, published};

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
    // Only where the record is made: nobody is told the same at each change.
    let changed = desired.map(|Endpoint { dns_name, .. }| published(&dns_name, "http://new:80"));
    assert_eq!(notes(&cloudflare.run_loop(&changed, usize::MAX)), []);
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
    assert!(text.contains("takes \"down.wild.example.com\" and all other names below"), "{text}");
    assert_eq!(notes(&cloudflare.run_loop(&desired, usize::MAX)), []);
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
    let told = records::records(&cloudflare.snapshot(), &cloudflare.settings()).notes;
    let [Note { hostname, text, .. }] = &*told else { panic!("{told:?}") };
    assert_eq!(&**hostname, "a.example.com");
    assert!(text.contains(r#"the one for "a.example.com" "/" in front takes them all"#), "{text}");
}

/// The hostnames that looks at these snapshots tell of, one after another.
fn strays(cloudflare: &FakeCloudflare, snapshots: &[Snapshot]) -> Vec<Vec<String>> {
    let (settings, mut strays) = (cloudflare.settings(), Strays::default());
    let pairs = snapshots.iter().zip(&snapshots[1..]);
    pairs
        .map(|(before, now)| {
            let notes = strays.look(&before.own_rules(&settings), now, &settings);
            notes.into_iter().map(|note| format!("{} {}", note.hostname, note.text)).collect()
        })
        .collect()
}

#[test]
fn a_rule_whose_record_was_deleted_at_cloudflare_is_told_of_once_no_request_has_taken_it_back() {
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    let desired = [published("a.example.com", "http://web:80"), with_path("a.example.com", "/api", "home")];
    cloudflare.run_loop(&[&desired[..], &[published("b.example.com", "http://web:80")]].concat(), usize::MAX);
    let before = cloudflare.snapshot();
    cloudflare.records.retain(|record| &*record.name != "a.example.com");
    let without = cloudflare.snapshot();
    let told = strays(&cloudflare, &[before.clone(), before.clone(), without.clone(), without.clone()]);
    assert_eq!(told.iter().map(Vec::len).collect::<Vec<_>>(), [0, 0, 2], "{told:#?}");
    let is_told = |path: &str| told[2].iter().any(|line| line.contains(path) && line.contains("ADOPT=all"));
    assert!(is_told("for path \"\"") && is_told("for path \"/api\""), "{told:#?}");

    let still = strays(&cloudflare, &[before.clone(), without.clone(), without.clone(), without.clone()]);
    assert_eq!(still.iter().map(Vec::len).collect::<Vec<_>>(), [0, 2, 2]);
    let back = strays(&cloudflare, &[before.clone(), without.clone(), before.clone(), before.clone()]);
    assert_eq!(back.concat(), [""; 0], "taken back");
    let mut out_of_sight = without;
    out_of_sight.zones.clear();
    let gone = strays(&cloudflare, &[before, out_of_sight.clone(), out_of_sight.clone(), out_of_sight]);
    assert_eq!(gone.concat(), [""; 0], "nothing is known of a zone that is out of sight");
}
