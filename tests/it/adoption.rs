//! `ADOPT`: what of somebody else's is taken over, what is not, in which order, and what the refusals say.

use std::collections::BTreeSet;
use std::time::Duration;

use cloudflare_emulator::{Emulator, Fault, Matcher};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Changes, Endpoint, Labels};
use external_dns_cloudflare_tunnel_webhook::model::{Zone, ZoneId};
use external_dns_cloudflare_tunnel_webhook::reconcile::Ownership;
use external_dns_cloudflare_tunnel_webhook::reconcile::plan::{Plan, Reason, Settled, plan};
use external_dns_cloudflare_tunnel_webhook::reconcile::snapshot::ZoneSnapshot;
use external_dns_cloudflare_tunnel_webhook::reconcile::stamp::{Digest, Stamp};
use serde_json::json;
use test_support::external_dns::TXT;
use test_support::fake_cloudflare;
use test_support::fake_cloudflare::{FakeCloudflare, HOME, OFFICE, tunnel_id};
use test_support::harness::{Harness, endpoint, published};

const NAME: &str = "a.example.com";
const WANTED: &str = "http://web:80";

/// All modes, one at a time.
const MODES: [&str; 5] = ["", "identical", "tunnel", "owner=other", "all"];

/// ExternalDNS needs no more loops than this to come to rest.
const LOOPS_TO_REST: usize = 3;

fn target(tunnel: &str) -> String {
    tunnel_id(tunnel).hostname()
}

fn rule(service: &str) -> String {
    format!(r#"{{"hostname":"{NAME}","service":"{service}"}}"#)
}

fn heritage(owner: &str) -> String {
    format!("\"heritage=external-dns,external-dns/owner={owner},external-dns/resource=ingress/shop/web\"")
}

fn stamp_of(owner: &str) -> String {
    format!("external-dns owner={owner} rules={}", Digest::of(&tunnel_id(HOME), None))
}

fn desired() -> [Endpoint; 1] {
    [published(NAME, WANTED)]
}

/// What somebody has at the hostname: a record with its comment, a rule, TXT records.
struct Holding {
    label: &'static str,
    record: Option<(&'static str, String, String)>,
    rule: Option<String>,
    txt: Vec<(&'static str, String)>,
    /// The modes that take all of it over, and the value that the refusal names.
    taken_by: &'static [&'static str],
    named: Option<&'static str>,
}

impl Holding {
    /// Among other things of somebody's on the same hostname and beside it.
    fn cloudflare(&self) -> FakeCloudflare {
        let others = [
            r#"{ "path":"^/theirs$", "hostname":"a.example.com","service":"http://theirs:81", "note":[1] }"#,
            r#"{"hostname":"other.example.com","service":"http://other:80"}"#,
        ];
        let rules: Vec<String> = others.iter().map(ToString::to_string).chain(self.rule.clone()).collect();
        let home = target(HOME);
        let mut cloudflare = FakeCloudflare::new(
            &rules,
            &[
                (NAME, "MX", "mx.test"),
                ("other.example.com", "CNAME", &home),
                ("b.example.com", "A", "192.0.2.9"),
            ],
        );
        if let Some((kind, content, comment)) = &self.record {
            cloudflare.add(NAME, kind, content, comment);
        }
        for (name, content) in &self.txt {
            cloudflare.add(name, "TXT", content, "");
        }
        cloudflare
    }
}

fn holdings() -> Vec<Holding> {
    let cname = |content: &str, comment: &str| Some(("CNAME", content.to_owned(), comment.to_owned()));
    let home = target(HOME);
    let same = || Some(rule(WANTED));
    let other = || Some(rule("http://theirs:80"));
    let by = |label, record, rule, taken_by, named| Holding {
        label,
        record,
        rule,
        txt: Vec::new(),
        taken_by,
        named,
    };
    let all: &[&str] = &["all"];
    let tunnel: &[&str] = &["tunnel", "all"];
    let owner: &[&str] = &["owner=other", "all"];
    let mut holdings = vec![
        by("all as wanted", cname(&home, "Jo's"), same(), &["identical", "tunnel", "all"], Some("identical")),
        by("another service", cname(&home, ""), other(), tunnel, Some("tunnel")),
        by(
            "a field more",
            cname(&home, ""),
            Some(rule(WANTED).replace('{', r#"{"x":1,"#)),
            tunnel,
            Some("tunnel"),
        ),
        by("a record alone", cname(&home, ""), None, tunnel, Some("tunnel")),
        by("another tunnel", cname(&target(OFFICE), ""), None, tunnel, Some("tunnel")),
        by("elsewhere", cname("elsewhere.test", ""), None, all, Some("all")),
        by(
            "an unknown tunnel",
            cname(&target("11111111-a4ef-4643-bbbc-4a0ed4fc8415"), ""),
            None,
            all,
            Some("all"),
        ),
        by("an address", Some(("A", "192.0.2.1".to_owned(), String::new())), None, all, Some("all")),
        by(
            "an IPv6 address and a rule",
            Some(("AAAA", "2001:db8::1".to_owned(), String::new())),
            other(),
            all,
            Some("all"),
        ),
        by("a stamp of another owner", cname(&home, &stamp_of("other")), other(), owner, Some("owner=other")),
        by("a stamp of a third owner", cname(&home, &stamp_of("third")), other(), all, Some("owner=third")),
        by("a rule without a record", None, other(), all, Some("all")),
        by("name servers", Some(("NS", "ns.test".to_owned(), String::new())), None, &[], None),
    ];
    let address = || Some(("A", "192.0.2.1".to_owned(), String::new()));
    let heritages = [
        (
            "heritage of an address",
            address(),
            vec![("a-a.example.com", heritage("other"))],
            owner,
            "owner=other",
        ),
        ("heritage under an old name", address(), vec![(NAME, heritage("other"))], owner, "owner=other"),
        (
            "heritage of a CNAME",
            cname("lb.test", ""),
            vec![("cname-a.example.com", heritage("other"))],
            owner,
            "owner=other",
        ),
        ("heritage of another type", address(), vec![("cname-a.example.com", heritage("other"))], all, "all"),
        (
            "heritage of a third owner",
            cname(&home, ""),
            vec![("cname-a.example.com", heritage("third"))],
            all,
            "owner=third",
        ),
        (
            "heritage of two owners",
            cname(&home, ""),
            vec![("cname-a.example.com", heritage("other")), (NAME, heritage("third"))],
            all,
            "owner=other,owner=third",
        ),
    ];
    for (label, record, txt, taken_by, named) in heritages {
        holdings.push(Holding { label, record, rule: None, txt, taken_by, named: Some(named) });
    }
    holdings
}

/// Whether the hostname is ours, as it is wanted.
fn is_published(cloudflare: &FakeCloudflare) -> bool {
    let of_name: Vec<_> = cloudflare
        .records
        .iter()
        .filter(|record| &*record.name == NAME && ["A", "AAAA", "CNAME"].contains(&&*record.kind))
        .collect();
    let [record] = of_name[..] else {
        return false;
    };
    let services = cloudflare.document(&tunnel_id(HOME)).rules().iter();
    let mut services = services.filter(|rule| rule.hostname() == NAME && rule.path().is_none());
    *record.content == *target(HOME)
        && record.proxied
        && Stamp::parse(&record.comment).is_some_and(|stamp| &*stamp.owner == "default")
        && services.next().is_some_and(|rule| rule.service() == WANTED)
        && services.next().is_none()
}

/// Loops to rest, after which one more writes nothing.
fn settle(cloudflare: &mut FakeCloudflare, desired: &[Endpoint]) -> Plan {
    for _ in 0..LOOPS_TO_REST {
        cloudflare.run_loop(desired, usize::MAX);
    }
    let writes = cloudflare.writes;
    let plan = cloudflare.run_loop(desired, usize::MAX);
    assert_eq!(cloudflare.writes, writes, "a further loop wrote {plan:?}");
    plan
}

/// What is beside the hostname's record and rule: nobody ever asks for it.
fn beside(cloudflare: &FakeCloudflare) -> (Vec<String>, Vec<String>) {
    let is_beside =
        |name: &str, kind: &str| kind == "MX" || ["other.example.com", "b.example.com"].contains(&name);
    let records = cloudflare.records.iter().filter(|record| is_beside(&record.name, &record.kind));
    let rules = cloudflare.document(&tunnel_id(HOME)).rules().iter();
    let rules = rules.filter(|rule| rule.hostname() != NAME || rule.path().is_some());
    (
        records.map(|record| format!("{record:?}")).collect(),
        rules.map(|rule| rule.raw().get().to_owned()).collect(),
    )
}

#[test]
fn each_mode_takes_over_what_it_says_and_nothing_else() {
    for holding in holdings() {
        for mode in MODES {
            let label = format!("{} with ADOPT={mode}", holding.label);
            let before = holding.cloudflare();
            let mut cloudflare = holding.cloudflare().adopting(if mode.is_empty() {
                &[]
            } else {
                std::slice::from_ref(&mode)
            });
            settle(&mut cloudflare, &desired());
            assert_eq!(beside(&cloudflare), beside(&before), "{label}");
            if !holding.taken_by.contains(&mode) {
                assert_eq!(
                    (&cloudflare.records, &cloudflare.documents),
                    (&before.records, &before.documents),
                    "{label}"
                );
                continue;
            }
            assert!(is_published(&cloudflare), "{label}: {cloudflare:#?}");

            // What was taken over stays ours when nothing is to be taken over any more.
            let mut cloudflare = cloudflare.adopting(&[]);
            let (writes, taken) = (cloudflare.writes, cloudflare.records.clone());
            settle(&mut cloudflare, &desired());
            assert_eq!((cloudflare.writes, &cloudflare.records), (writes, &taken), "{label}");
            settle(&mut cloudflare, &[]);
            assert_eq!(beside(&cloudflare), beside(&before), "{label}");
            assert_eq!(
                beside(&cloudflare).1.len(),
                cloudflare.document(&tunnel_id(HOME)).rules().len(),
                "{label}"
            );
            assert!(
                !cloudflare.records.iter().any(|record| *record.name == *NAME && &*record.kind == "CNAME"),
                "{label}"
            );
        }
    }
}

/// The value that a refusal names is enough, and no mode that it does not name is.
#[test]
fn each_refusal_names_who_holds_the_name_and_the_smallest_value_that_takes_it_over() {
    for holding in holdings() {
        let label = holding.label;
        let mut cloudflare = holding.cloudflare();
        let plan = settle(&mut cloudflare, &desired());
        let [refusal] = &plan.refusals[..] else {
            panic!("{label}: {plan:?}");
        };
        let text = refusal.to_string();
        let holder = match (&holding.record, &holding.rule) {
            (Some((_, content, _)), _) => content,
            (None, rule) => rule.as_ref().map(|_| "http://theirs:80").unwrap_or_default(),
        };
        assert!(text.contains(&format!("{holder:?}")), "{label}: {text}");
        assert!(text.contains("delete"), "{label}: {text}");
        let Some(named) = holding.named else {
            assert!(!text.contains("ADOPT"), "{label}: {text}");
            continue;
        };
        assert!(text.contains(&format!("set ADOPT={named} to take it over, ")), "{label}: {text}");
        let mut cloudflare = holding.cloudflare().adopting(&named.split(',').collect::<Vec<_>>());
        settle(&mut cloudflare, &desired());
        assert!(is_published(&cloudflare), "{label}: {named} is not enough");
    }
}

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
    for (service, value) in [("http://theirs:80", "owner=other,tunnel"), (WANTED, "owner=other,identical")] {
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
        assert_eq!(alone, before, "nothing is taken over that nobody can be served with");

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
    assert!(is_published(&cloudflare));
    let left: Vec<&str> = cloudflare
        .records
        .iter()
        .filter(|record| &*record.kind == "TXT")
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
        assert_eq!(is_published(&cloudflare), is_taken, "{name}");
        assert_eq!(cloudflare.records.iter().any(|record| &*record.kind == "TXT"), !is_taken, "{name}");
    }
}

/// The TXT record of a zone's own name lies in the zone above.
#[test]
fn heritage_in_another_zone_is_left_and_noted() {
    let mut cloudflare = FakeCloudflare::new(&[], &[]).adopting(&["owner=default"]);
    cloudflare.add("cname-shop.example.com", "TXT", &heritage("default"), "");
    let mut inner = FakeCloudflare::new(&[], &[]);
    inner.add("shop.example.com", "CNAME", "lb.test", "");
    let mut snapshot = cloudflare.snapshot();
    let outer = &snapshot.zones[0].zone;
    let zone = Zone { id: ZoneId::new("z2"), name: "shop.example.com".into(), ..outer.clone() };
    snapshot.zones.push(ZoneSnapshot::new(zone, inner.records));

    let changes = Changes { create: vec![published("shop.example.com", WANTED)], ..Changes::default() };
    let mut settings = fake_cloudflare::settings();
    settings.policy.adopt = cloudflare.adopt.clone();
    let plan = plan(&changes, &snapshot, &Settled::default(), &settings).expect("the owner is ours");
    assert_eq!(plan.hosts.len(), 1, "{plan:?}");
    let text = plan.notes.iter().map(ToString::to_string).collect::<String>();
    assert!(text.contains("cname-shop.example.com") && text.contains("in the zone example.com"), "{text}");
    let deletes = format!("{:?}", plan.hosts).matches("Delete").count();
    assert_eq!(deletes, 0, "{plan:?}");
}

/// Two clusters with the default owner: what the other one serves is not ours, whatever `owner=` says.
#[test]
fn a_record_of_our_own_owner_at_another_live_tunnel_stays_that_instances() {
    let theirs = "11111111-a4ef-4643-bbbc-4a0ed4fc8415";
    for (mode, is_taken) in [("identical", false), ("tunnel", false), ("owner=default", false), ("all", true)]
    {
        let mut cloudflare = FakeCloudflare::new(&[], &[]).adopting(&[mode]);
        cloudflare.live_elsewhere.insert(tunnel_id(theirs));
        cloudflare.add(NAME, "CNAME", &target(theirs), "external-dns owner=default rules=abc");
        let before = cloudflare.clone();
        let plan = settle(&mut cloudflare, &desired());
        if is_taken {
            assert!(is_published(&cloudflare), "{mode}");
        } else {
            assert_eq!(cloudflare, before, "{mode}");
            assert!(plan.refusals[0].to_string().contains("ADOPT=all "), "{:?}", plan.refusals);
        }
    }
}

#[test]
fn a_record_that_cloudflare_manages_is_never_taken_over() {
    let mut cloudflare = FakeCloudflare::new(&[], &[(NAME, "CNAME", &target(HOME))]).adopting(&["all"]);
    cloudflare.records[0].read_only = true;
    let before = cloudflare.clone();
    let plan = settle(&mut cloudflare, &desired());
    assert_eq!(cloudflare, before);
    assert!(!plan.refusals[0].to_string().contains("ADOPT"), "{:?}", plan.refusals);
}

/// Pins the invariant for each kind of adoption: stamped, not yet changed; then the mode may be off.
#[test]
fn a_rule_is_stamped_before_it_is_changed_and_what_is_begun_is_ended_without_the_mode() {
    for (comment, mode) in [("", "tunnel"), (&*stamp_of("other"), "owner=other"), ("", "all")] {
        let mut cloudflare = FakeCloudflare::new(&[rule("http://theirs:80")], &[]).adopting(&[mode]);
        cloudflare.add(NAME, "CNAME", &target(HOME), comment);
        let before = cloudflare.clone();
        cloudflare.run_loop(&desired(), 1);
        assert_eq!(cloudflare.documents, before.documents, "{mode}");
        assert!(cloudflare.records[0].comment.starts_with("external-dns owner=default "), "{mode}");
        let mut cloudflare = cloudflare.adopting(&[]);
        settle(&mut cloudflare, &desired());
        assert!(is_published(&cloudflare), "{mode}");
    }
}

/// The record alone is wanted, and the rule that another owner's stamp names goes: after it is ours, and before its digest
/// does.
#[test]
fn a_rule_that_goes_with_its_owners_record_is_stamped_first_and_unstamped_last() {
    let record_only = [endpoint(NAME, &[("tunnel-service", "none")])];
    for writes in 1..4 {
        let mut cloudflare = FakeCloudflare::new(&[rule("http://theirs:80")], &[]).adopting(&["owner=other"]);
        cloudflare.add(NAME, "CNAME", &target(HOME), &stamp_of("other"));
        cloudflare.run_loop(&record_only, writes);
        let is_there =
            cloudflare.document(&tunnel_id(HOME)).rules().iter().any(|rule| rule.hostname() == NAME);
        let stamp = Stamp::parse(&cloudflare.records[0].comment).expect("stamped");
        assert_eq!((&*stamp.owner, is_there), ("default", writes == 1));
        assert_eq!(stamp.claims.rules.is_empty(), writes == 3, "after {writes} writes");
        let mut cloudflare = cloudflare.adopting(&[]);
        settle(&mut cloudflare, &record_only);
        assert_eq!(cloudflare.document(&tunnel_id(HOME)).rules().len(), 1, "the catch-all");
    }
}

/// With `identical` nothing is written but the stamp, and no mode writes a rule that is as it is wanted.
#[test]
fn what_is_identical_gets_a_stamp_and_nothing_else() {
    for mode in ["identical", "tunnel", "all"] {
        let api = r#"{"hostname":"a.example.com","path":"^/api(/|$)","service":"http://api:80"}"#;
        let mut cloudflare = FakeCloudflare::new(&[api.to_owned(), rule(WANTED)], &[]).adopting(&[mode]);
        cloudflare.add(NAME, "CNAME", &target(HOME), "Jo's");
        let before = cloudflare.clone();
        let paths = [
            published(NAME, WANTED),
            endpoint(NAME, &[("tunnel-service", "http://api:80"), ("tunnel-path-prefix", "/api")]),
        ];
        settle(&mut cloudflare, &paths);
        assert_eq!((cloudflare.writes, &cloudflare.documents), (1, &before.documents), "{mode}");
        let stamp = Stamp::parse(&cloudflare.records[0].comment).expect("stamped");
        assert_eq!(stamp.claims.rules.len(), 2, "{mode}");
        assert!(cloudflare.records[0].comment.ends_with(" | Jo's"), "{}", cloudflare.records[0].comment);
        assert_eq!(cloudflare.shown().len(), 2);
    }
}

/// Ours, a rule that stands behind one that covers it would be moved in front of it.
#[test]
fn a_rule_in_the_wrong_place_is_not_identical() {
    let rules = [r#"{"hostname":"*.example.com","service":"http://wild:80"}"#.to_owned(), rule(WANTED)];
    for (mode, is_taken) in [("identical", false), ("tunnel", true)] {
        let mut cloudflare = FakeCloudflare::new(&rules, &[(NAME, "CNAME", &target(HOME))]).adopting(&[mode]);
        settle(&mut cloudflare, &desired());
        let first = cloudflare.document(&tunnel_id(HOME)).rules()[0].hostname().to_owned();
        assert_eq!(first == NAME, is_taken, "{mode}");
        assert_eq!(is_published(&cloudflare), is_taken, "{mode}");
    }
}

#[test]
fn a_record_without_a_rule_is_taken_over_as_it_is() {
    for (proxied, mode) in [(true, "identical"), (false, "tunnel")] {
        let wild = r#"{"hostname":"*.example.com","service":"http://wild:80"}"#.to_owned();
        let mut cloudflare =
            FakeCloudflare::new(&[wild, rule("http://theirs:80")], &[(NAME, "CNAME", &target(HOME))]);
        cloudflare.records[0].proxied = proxied;
        let before = cloudflare.clone();
        let record_only = [endpoint(NAME, &[("tunnel-service", "none")])];
        let plan = settle(&mut cloudflare, &record_only);
        assert!(plan.refusals[0].to_string().contains(&format!("ADOPT={mode} ")), "{plan:?}");
        let mut cloudflare = cloudflare.adopting(&[mode]);
        settle(&mut cloudflare, &record_only);
        assert_eq!(cloudflare.records[0].comment.split(' ').next_back(), Some("rules=-"));
        assert!(cloudflare.records[0].proxied);
        assert_eq!(cloudflare.documents, before.documents, "nobody asked for the rule");
    }
}

/// Adopted and moved at once, the hostname is never led to a tunnel without its rule.
#[test]
fn a_hostname_that_is_wanted_in_another_tunnel_is_stamped_and_then_moved() {
    let office = [endpoint(NAME, &[("tunnel-service", WANTED), ("tunnel", "office")])];
    let holding = || {
        FakeCloudflare::new(&[rule("http://theirs:80")], &[(NAME, "CNAME", &target(HOME))])
            .adopting(&["tunnel"])
    };
    for writes in 0..6 {
        let mut cloudflare = holding();
        cloudflare.run_loop(&office, writes);
        let led_to = [HOME, OFFICE]
            .map(tunnel_id)
            .into_iter()
            .find(|id| *id.hostname() == *cloudflare.records[0].content);
        let document = cloudflare.document(&led_to.expect("one of the two"));
        assert!(document.rules().iter().any(|rule| rule.hostname() == NAME), "after {writes} writes");
        let mut cloudflare = cloudflare.adopting(if writes == 0 { &["tunnel"] } else { &[] });
        settle(&mut cloudflare, &office);
        assert_eq!(*cloudflare.records[0].content, *target(OFFICE));
        assert_eq!(cloudflare.document(&tunnel_id(HOME)).rules().len(), 1, "the catch-all");
    }
}

/// Its requests would go with the record.
#[test]
fn a_hostname_does_not_leave_a_foreign_rule_behind() {
    let office = [endpoint(NAME, &[("tunnel-service", WANTED), ("tunnel", "office")])];
    let theirs = r#"{"hostname":"a.example.com","path":"^/theirs$","service":"http://theirs:81"}"#.to_owned();
    let mut cloudflare = FakeCloudflare::new(&[theirs], &[(NAME, "CNAME", &target(HOME))]).adopting(&["all"]);
    let before = cloudflare.clone();
    let plan = settle(&mut cloudflare, &office);
    assert_eq!(cloudflare, before, "{plan:?}");
    assert!(matches!(plan.refusals[0].reason, Reason::RuleLeftBehind { .. }), "{plan:?}");
}

/// A visitor is served where the record leads until the new rule is there.
#[test]
fn a_cname_leads_elsewhere_until_its_rule_stands() {
    let mut cloudflare = FakeCloudflare::new(&[], &[(NAME, "CNAME", "lb.test")]).adopting(&["all"]);
    for writes in [1, 1, 1] {
        let is_ruled =
            cloudflare.document(&tunnel_id(HOME)).rules().iter().any(|rule| rule.hostname() == NAME);
        assert!(is_ruled || &*cloudflare.records[0].content == "lb.test", "{cloudflare:?}");
        cloudflare.run_loop(&desired(), writes);
    }
    assert!(is_published(&cloudflare), "{cloudflare:?}");
}

#[test]
fn what_another_owners_stamp_claims_is_ours_with_it() {
    let path = |text: &str| Digest::of(&tunnel_id(HOME), Some(text));
    let theirs = r#"{"hostname":"a.example.com","path":"^/old$","service":"http://old:80"}"#.to_owned();
    let mut cloudflare =
        FakeCloudflare::new(&[theirs, rule("http://theirs:80")], &[]).adopting(&["owner=other"]);
    let whole = Digest::of(&tunnel_id(HOME), None);
    let comment = format!("external-dns owner=other rules={whole}{} later=1 | ask Jo", path("^/old$"));
    cloudflare.add(NAME, "CNAME", &target(HOME), &comment);
    cloudflare.run_loop(&desired(), usize::MAX);
    let stamp = Stamp::parse(&cloudflare.records[0].comment).expect("stamped");
    assert_eq!((&*stamp.owner, stamp.claims.rules.len()), ("default", 2));
    assert!(
        cloudflare.records[0].comment.ends_with(" later=1 | ask Jo"),
        "{}",
        cloudflare.records[0].comment
    );
    // What of it nobody asks for is withdrawn like any other rule of ours.
    settle(&mut cloudflare, &desired());
    assert_eq!(cloudflare.document(&tunnel_id(HOME)).rules().len(), 2, "the rule and the catch-all");
}

#[test]
fn a_long_comment_is_cut_and_never_a_reason_to_refuse() {
    let mut cloudflare = FakeCloudflare::new(&[], &[]).adopting(&["tunnel"]);
    cloudflare.add(NAME, "CNAME", &target(HOME), &"ü".repeat(50));
    settle(&mut cloudflare, &desired());
    let comment = &cloudflare.records[0].comment;
    assert!(is_published(&cloudflare) && comment.len() <= 100 && comment.len() > 90, "{comment}");
    assert!(comment.contains(" | üüü"), "{comment}");
}

/// On a hostname of ours somebody made a rule by hand, and now it is asked for.
#[test]
fn a_foreign_rule_on_a_hostname_of_ours_is_taken_over_too() {
    let theirs = r#"{"hostname":"a.example.com","path":"^/theirs$","service":"http://theirs:81"}"#.to_owned();
    let path = endpoint(NAME, &[("tunnel-service", "http://web:81"), ("tunnel-path", "^/theirs$")]);
    let both = [published(NAME, WANTED), path];
    for (mode, service) in [("identical", "http://theirs:81"), ("tunnel", "http://web:81")] {
        let mut cloudflare = FakeCloudflare::new(std::slice::from_ref(&theirs), &[]);
        settle(&mut cloudflare, &desired());
        let mut cloudflare = cloudflare.adopting(&[mode]);
        settle(&mut cloudflare, &both);
        let rules = cloudflare.document(&tunnel_id(HOME)).rules();
        let found = rules.iter().find(|rule| rule.path().is_some()).expect("it stands");
        assert_eq!(found.service(), service, "{mode}");
    }
}

/// Lines of the log about what was taken over or refused.
fn lines_about(harness: &Harness, hostname: &str) -> Vec<String> {
    let mut lines = harness.log.lines_with(&[hostname]);
    lines.retain(|line| ["taken over, was", "refused=", "dry run"].iter().any(|mark| line.contains(mark)));
    lines
}

/// A Cloudflare with a hand-made CNAME to the tunnel and a rule for each hostname.
fn dashboard(hostnames: &[&str], service: &str) -> Harness {
    let harness = Harness::new();
    for hostname in hostnames {
        let content = format!("{}.cfargotunnel.com", harness.tunnel);
        let record = json!({"name": hostname, "type": "CNAME", "content": content, "proxied": true, "comment": "Jo's"});
        harness.cloudflare.add_record(&harness.zone, record).expect("Cloudflare takes it");
    }
    put_rules(&harness, hostnames, service);
    harness
}

fn put_rules(harness: &Harness, hostnames: &[&str], service: &str) {
    let rules: String = hostnames
        .iter()
        .map(|hostname| format!(r#"{{"hostname":"{hostname}","service":"{service}"}},"#))
        .collect();
    let document = format!(r#"{{"ingress":[{rules}{{"service":"http_status:404"}}]}}"#);
    harness.cloudflare.put_configuration(&harness.tunnel, &document).expect("cloudflared takes it");
}

#[test]
fn a_refusal_is_told_once_and_again_when_it_changes() {
    let name = "told.example.com";
    let harness = dashboard(&[name], "http://theirs:80");
    let program = harness.start();
    let desired = [published(name, WANTED)];
    for _ in 0..3 {
        program.external_dns().run_loop(&desired).expect("refused, and answered");
    }
    let told = lines_about(&harness, name);
    assert!(matches!(&told[..], [line] if line.contains("set ADOPT=tunnel to take it over")), "{told:#?}");

    put_rules(&harness, &[name], WANTED);
    for _ in 0..3 {
        program.external_dns().run_loop(&desired).expect("refused, and answered");
    }
    let told = lines_about(&harness, name);
    assert!(
        matches!(&told[..], [_, line] if line.contains("set ADOPT=identical to take it over")),
        "{told:#?}"
    );
}

#[test]
fn what_was_taken_over_is_told_once_with_what_it_was() {
    let name = "adopted.example.com";
    let harness = dashboard(&[name], "http://theirs:80");
    let dry = harness.start_with(&[("ADOPT", "tunnel"), ("DRY_RUN", "true")]);
    dry.external_dns().run_loop(&[published(name, WANTED)]).expect("told");
    assert_eq!(harness.cloudflare.count_calls().writes, 0);
    drop(dry);

    let program = harness.start_with(&[("ADOPT", "tunnel")]);
    for _ in 0..3 {
        program.external_dns().run_loop(&[published(name, WANTED)]).expect("taken over");
    }
    let (dry, told): (Vec<String>, Vec<String>) =
        lines_about(&harness, name).into_iter().partition(|line| line.contains("dry run"));
    let tunnel = &harness.tunnel;
    let expected = [
        format!(
            "INFO hostname={name} taken over, was=record CNAME \"{tunnel}.cfargotunnel.com\" with the comment \"Jo's\""
        ),
        format!(
            "INFO hostname={name} taken over, was=rule of tunnel {tunnel} with service \"http://theirs:80\""
        ),
    ];
    assert_eq!(told, expected);
    assert_eq!(dry.len(), 4, "and what would be written: {dry:#?}");
}

/// Pins that a dry run tells no write that would not be done.
#[test]
fn a_dry_run_of_what_is_identical_tells_of_the_stamp_alone() {
    let name = "identical.example.com";
    let harness = dashboard(&[name], WANTED);
    let program = harness.start_with(&[("ADOPT", "identical"), ("DRY_RUN", "true")]);
    program.external_dns().run_loop(&[published(name, WANTED)]).expect("told");
    let told = lines_about(&harness, name);
    assert_eq!(told.iter().filter(|line| line.contains("taken over, was")).count(), 2, "{told:#?}");
    let rest: Vec<&String> = told.iter().filter(|line| !line.contains("taken over")).collect();
    assert!(matches!(&rest[..], [line] if line.contains("record changed, comment=")), "{told:#?}");
}

/// The only moment that matters: between the stamp and the look at the rule that follows it.
#[test]
fn an_identical_rule_that_somebody_changes_meanwhile_is_given_back() {
    let name = "a.example.com";
    for interrupted in [false, true] {
        let harness = dashboard(&[name, "b.example.com"], WANTED);
        let before = harness.cnames();
        let program = harness.start_with(&[("ADOPT", "identical")]);
        let desired = [published(name, WANTED), published("b.example.com", WANTED)];
        let document = format!(
            r#"{{"ingress":[{{"hostname":"{name}","service":"http://theirs:80"}},{{"hostname":"b.example.com","service":"{WANTED}"}},{{"service":"http_status:404"}}]}}"#
        );
        if interrupted {
            // The look at the rule fails, so it has to be made up for.
            let reads = 2;
            harness.cloudflare.fault(Matcher::get_configuration(), reads + 1, Fault::status(500));
        }
        let tunnel = harness.tunnel.clone();
        harness.cloudflare.edit_after(Matcher::batch(), 1, move |cloudflare| {
            cloudflare.put_configuration(&tunnel, &document).expect("cloudflared takes it");
        });
        for nth in 0..4 {
            let answer = program.external_dns().run_loop(&desired);
            assert!(answer.is_ok() || (interrupted && nth == 0), "{answer:?}");
        }
        assert_eq!(harness.cloudflare.waiting_faults(), 0, "the fault came where it should");
        let after = harness.cnames();
        let of = |cnames: &[(String, String, bool, String)], name: &str| {
            cnames.iter().find(|cname| cname.0 == name).cloned().expect("it is there")
        };
        assert_eq!(of(&after, name), of(&before, name), "interrupted: {interrupted}");
        assert!(of(&after, "b.example.com").3.starts_with("external-dns owner=default "), "{after:?}");
        assert!(harness.rules()[0].contains("http://theirs:80"), "{:?}", harness.rules());

        // Whoever takes it off the cluster leaves it as it was.
        program.external_dns().run_loop(&[]).expect("withdrawn");
        assert_eq!(harness.cnames(), [of(&before, name)]);
        assert_eq!(harness.rules().len(), 2);
    }
}

/// Thousands of stamps may take all the time that a request has. Taken off and written again, they would in every loop.
#[test]
fn an_adoption_that_ran_out_of_time_is_not_begun_again() {
    let harness = dashboard(&["a.example.com"], WANTED);
    let program = harness.start_with(&[("ADOPT", "identical")]);
    let desired = [published("a.example.com", WANTED)];
    let (reads, cut) = (2, Fault::error(403, 10000, "no"));
    harness.cloudflare.fault(Matcher::get_configuration(), reads + 1, cut);
    assert_eq!(program.external_dns().run_loop(&desired).err(), Some(503), "the look at the rule fails");
    assert_at_rest(&harness.cloudflare, || program.external_dns().run_loop(&desired).expect("at rest"));

    // And what is ours may change.
    for service in ["http://new:80", "http://newer:80"] {
        program.external_dns().run_loop(&[published("a.example.com", service)]).expect("done");
        assert!(harness.rules()[0].contains(service), "{:?}", harness.rules());
    }
}

/// After a fault at any call the next loops end where one without a fault would have.
#[test]
fn an_adoption_that_is_interrupted_is_ended_by_the_next_loops() {
    let names = ["a.example.com", "b.example.com"];
    let desired = names.map(|name| published(name, WANTED));
    for (mode, service) in
        [("identical", WANTED), ("tunnel", "http://theirs:80"), ("all", "http://theirs:80")]
    {
        let calls = {
            let harness = dashboard(&names, service);
            let program = harness.start_with(&[("ADOPT", mode)]);
            program.external_dns().run_loop(&desired).expect("taken over");
            harness.cloudflare.count_calls().total()
        };
        for nth in 1..=calls {
            for fault in [Fault::status(500), Fault::DoneButUnanswered] {
                let harness = dashboard(&names, service);
                let program = harness.start_with(&[("ADOPT", mode)]);
                harness.cloudflare.fault_at(nth, fault);
                let _ = program.external_dns().run_loop(&desired);
                for _ in 0..3 {
                    program.external_dns().run_loop(&desired).expect("no fault any more");
                }
                assert_at_rest(&harness.cloudflare, || {
                    program.external_dns().run_loop(&desired).expect("at rest")
                });
                let owned = |cname: &(String, String, bool, String)| {
                    cname.3.contains("owner=default") && cname.3.ends_with(" | Jo's")
                };
                assert!(harness.cnames().iter().all(owned), "{mode}, call {nth}: {:?}", harness.cnames());
                let services: BTreeSet<bool> = harness
                    .rules()
                    .iter()
                    .map(|rule| rule.contains(WANTED) || rule.contains("404"))
                    .collect();
                assert_eq!(services, [true].into(), "{mode}, call {nth}: {:?}", harness.rules());
            }
        }
    }
}

fn assert_at_rest(cloudflare: &Emulator, run: impl Fn() -> Changes) {
    cloudflare.take_calls();
    assert_eq!(run(), Changes::default());
    assert_eq!(cloudflare.count_calls().writes, 0);
}

/// Stored while `OWNERSHIP` was `txt`: it says whose the record is, and it is ours.
#[test]
fn a_stored_txt_record_of_what_is_taken_over_is_deleted_once() {
    for (ownership, left) in [(Ownership::Comment, 0), (Ownership::Txt, 1)] {
        let mut cloudflare = FakeCloudflare::new(&[], &[]).with(Ownership::Txt, TXT);
        settle(&mut cloudflare, &desired());
        for record in cloudflare.records.iter_mut().filter(|record| &*record.kind == "CNAME") {
            record.comment = "".into();
        }
        let mut cloudflare = cloudflare.with(ownership, TXT).adopting(&["owner=default", "tunnel"]);
        settle(&mut cloudflare, &desired());
        assert!(is_published(&cloudflare), "{ownership:?}");
        let txts = cloudflare.records.iter().filter(|record| &*record.kind == "TXT");
        assert_eq!(txts.count(), left, "{ownership:?}");
    }
}

/// They say whose the hostname was. Nobody else would ever delete them.
#[test]
fn the_stored_txt_records_of_an_owner_go_with_what_is_taken_over() {
    for (ownership, left) in [(Ownership::Comment, 0), (Ownership::Txt, 1)] {
        let mut cloudflare = FakeCloudflare::new(&[], &[]).with(Ownership::Txt, TXT);
        settle(&mut cloudflare, &desired());
        for record in &mut cloudflare.records {
            record.comment = record.comment.replace("owner=default", "owner=other").into();
            record.content = record.content.replace("owner=default", "owner=other").into();
        }
        let mut cloudflare = cloudflare.with(ownership, TXT).adopting(&["owner=other"]);
        settle(&mut cloudflare, &desired());
        assert!(is_published(&cloudflare), "{ownership:?}");
        let txts = cloudflare.records.iter().filter(|record| &*record.kind == "TXT");
        assert_eq!(txts.count(), left, "{ownership:?}: {:?}", cloudflare.records);
        settle(&mut cloudflare, &[]);
        assert_eq!(cloudflare.records, [], "{ownership:?}");
    }
}

/// A move from the dashboard: every hostname has its rule and its record already. ExternalDNS ends when the answer takes
/// 15 s, and a sidecar has a small share of a processor.
#[test]
fn a_thousand_hostnames_as_they_are_wanted_are_planned_in_no_time() {
    let names: Vec<String> = (0..1_000).map(|number| format!("h{number}.example.com")).collect();
    let rules: Vec<String> =
        names.iter().map(|name| format!(r#"{{"hostname":"{name}","service":"{WANTED}"}}"#)).collect();
    let home = target(HOME);
    let records: Vec<_> = names.iter().map(|name| (&**name, "CNAME", &*home)).collect();
    let cloudflare = FakeCloudflare::new(&rules, &records).adopting(&["identical"]);
    let desired: Vec<Endpoint> = names.iter().map(|name| published(name, WANTED)).collect();
    let (changes, snapshot, settings) =
        (cloudflare.changes(&desired), cloudflare.snapshot(), cloudflare.settings());
    let begun = processor_time();
    let plan = plan(&changes, &snapshot, &Settled::default(), &settings).expect("the owner is ours");
    let taken = processor_time() - begun;
    assert!(taken < Duration::from_secs(7), "{taken:?}");
    assert_eq!((plan.hosts.len(), plan.refusals), (names.len(), Vec::new()));
}

/// What this thread has had of a processor: a test must not fail because others are at work. Zero where the system does
/// not say.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or_default())
}
