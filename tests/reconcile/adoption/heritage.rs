//! The heritage in ExternalDNS's TXT records names the owner of a hostname, and is deleted with what is taken over.

use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Endpoint, Labels};
use external_dns_cloudflare_tunnel_webhook::reconcile::reason::Reason;
use test_support::fake_cloudflare::FakeCloudflare;

use super::{NAME, WANTED, desired, heritage, is_published, rule, settle};

/// Each by itself would be refused again for the other.
#[test]
fn the_rule_of_a_record_with_heritage_needs_a_mode_of_its_own() {
    let holding = |service: &str| {
        let mut cloudflare =
            FakeCloudflare::new(&[rule(service)], &[(NAME, "A", "192.0.2.1"), (NAME, "AAAA", "2001:db8::1")]);
        cloudflare.add("a-a.example.com", "TXT", &heritage("other"), "");
        cloudflare.add("aaaa-a.example.com", "TXT", &heritage("other"), "");
        cloudflare
    };
    for (service, value) in [("http://theirs:80", "owner=other,tunnel"), (WANTED, "owner=other,tunnel")] {
        let plan = settle(&mut holding(service), &desired());
        let text = plan.refusals.iter().map(ToString::to_string).collect::<String>();
        assert!(text.contains(&format!("ADOPT={value} ")), "{text}");

        let mut alone = holding(service).adopting(&["owner=other"]);
        let before = alone.clone();
        let plan = settle(&mut alone, &desired());
        assert!(
            matches!(&plan.refusals[..], [one] if matches!(one.reason, Reason::RuleHeld { .. })),
            "{plan:?}"
        );
        assert_eq!(alone, before, "no record is taken over whose rule is refused");

        let mut both = holding(service).adopting(&value.split(',').collect::<Vec<_>>());
        settle(&mut both, &desired());
        assert!(is_published(&both));
        assert_eq!(both.records.len(), 1, "the TXT records went with what they spoke of: {:?}", both.records);
    }
}

#[test]
fn only_the_heritage_of_the_owner_that_is_named_goes() {
    let mut cloudflare = FakeCloudflare::new(&[], &[(NAME, "CNAME", "lb.test")]);
    for (name, content) in [
        ("cname-a.example.com", heritage("other")),
        ("cname-b.example.com", heritage("other")),
        ("a-a.example.com", heritage("third")),
        (NAME, "\"v=spf1 -all\"".to_owned()),
    ] {
        cloudflare.add(name, "TXT", &content, "");
    }
    let mut all = cloudflare.clone().adopting(&["all"]);
    settle(&mut all, &desired());
    assert_eq!(all.records.len(), cloudflare.records.len(), "what does not conflict stays");

    let mut cloudflare = cloudflare.adopting(&["owner=other"]);
    let plan = cloudflare.run_loop(&desired(), usize::MAX);
    settle(&mut cloudflare, &desired());
    assert!(is_published(&cloudflare));
    let left: Vec<&str> = cloudflare
        .records
        .iter()
        .filter(|record| &*record.record_type == "TXT")
        .map(|record| &*record.name)
        .collect();
    assert_eq!(left, ["cname-b.example.com", "a-a.example.com", NAME]);
    assert_eq!(plan.notes, []);
}

/// The names that ExternalDNS gives its TXT records today tell the ones it gave to another type of record.
#[test]
fn the_affixes_of_the_registry_are_those_of_the_requests_own_txt_records() {
    let txt = Endpoint {
        dns_name: "x-cname-a.example.com".to_owned(),
        record_type: "TXT".to_owned(),
        targets: vec![heritage("default")],
        labels: Labels::from_iter([("ownedRecord", NAME)]),
        ..Endpoint::default()
    };
    for (name, is_taken) in
        [("x-a-a.example.com", true), ("x-a.example.com", true), ("a-a.example.com", false)]
    {
        let mut cloudflare =
            FakeCloudflare::new(&[], &[(NAME, "A", "192.0.2.1")]).adopting(&["owner=default"]);
        cloudflare.add(name, "TXT", &heritage("default"), "");
        let mut changes = cloudflare.changes(&desired());
        changes.create.push(txt.clone());
        let plan = cloudflare.plan(&changes);
        cloudflare.apply(&plan, usize::MAX);
        if is_taken {
            settle(&mut cloudflare, &desired());
        }
        assert_eq!(is_published(&cloudflare), is_taken, "{name}");
        assert_eq!(
            cloudflare.records.iter().any(|record| &*record.record_type == "TXT"),
            !is_taken,
            "{name}"
        );
    }
}

/// Old releases of ExternalDNS also write a TXT record under the bare name, which may look like the name of another
/// type.
#[test]
fn the_heritage_of_another_hostname_gives_no_record_away() {
    let mut cloudflare =
        FakeCloudflare::new(&[], &[(NAME, "A", "192.0.2.1"), ("a-a.example.com", "A", "192.0.2.2")])
            .adopting(&["owner=other"]);
    cloudflare.add("a-a.example.com", "TXT", &heritage("other"), "");
    let before = cloudflare.clone();
    let plan = settle(&mut cloudflare, &desired());
    assert!(
        matches!(&plan.refusals[..], [one] if matches!(one.reason, Reason::RecordHeld { .. })),
        "{plan:?}"
    );
    assert_eq!(cloudflare, before);
}
