//! `ADOPT`: what is taken over of what is foreign, what is not, and what the refusals say.

mod heritage;
mod writes;

use std::collections::BTreeSet;
use std::time::Duration;

use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Endpoint, Property};
use external_dns_cloudflare_tunnel_webhook::reconcile::plan::{Plan, plan};
use external_dns_cloudflare_tunnel_webhook::reconcile::plan_inputs::PlanInputs;
use external_dns_cloudflare_tunnel_webhook::reconcile::stamp::{Digest, Stamp};
use test_support::external_dns::Changes;
use test_support::fake_cloudflare::{FakeCloudflare, HOME, OFFICE, WHOLE, tunnel_id};
use test_support::harness::published;

const NAME: &str = "a.example.com";
const WANTED: &str = "http://web:80";

/// A tunnel for which Cloudflare answers that it was deleted.
const DELETED: &str = "22222222-a4ef-4643-bbbc-4a0ed4fc8415";

/// All modes, one at a time.
const MODES: [&str; 4] = ["", "tunnel", "owner=other", "all"];

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

/// What is foreign at the hostname: a record with its comment, a rule, TXT records.
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
    /// Among other foreign records and rules on the same hostname and beside it.
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
        by("all as wanted", cname(&home, "Jo's"), same(), tunnel, Some("tunnel")),
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
        by(
            "another owner's record at a deleted tunnel",
            cname(&target(DELETED), &stamp_of("other")),
            None,
            owner,
            Some("owner=other"),
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
        .filter(|record| &*record.name == NAME && ["A", "AAAA", "CNAME"].contains(&&*record.record_type))
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

/// What is beside the hostname's record and rule: no endpoint ever asks for it.
fn beside(cloudflare: &FakeCloudflare) -> (Vec<String>, Vec<String>) {
    let is_beside =
        |name: &str, kind: &str| kind == "MX" || ["other.example.com", "b.example.com"].contains(&name);
    let records = cloudflare.records.iter().filter(|record| is_beside(&record.name, &record.record_type));
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
            // Visitors reach a rule that is not taken over by the record.
            let mut left = cloudflare.document(&tunnel_id(HOME)).rules().iter();
            let is_needed = left.any(|rule| rule.hostname() == NAME);
            let mut records = cloudflare.records.iter();
            let is_left = records.any(|record| *record.name == *NAME && &*record.record_type == "CNAME");
            assert_eq!(is_left, is_needed, "{label}");
        }
    }
}

/// The value that a refusal names is enough, and no mode that it does not name is.
#[test]
fn each_refusal_names_what_holds_the_name_and_the_smallest_value_that_takes_it_over() {
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
        assert!(text.contains(&format!("set ADOPT={named} to take it over")), "{label}: {text}");
        let mut cloudflare = holding.cloudflare().adopting(&named.split(',').collect::<Vec<_>>());
        settle(&mut cloudflare, &desired());
        assert!(is_published(&cloudflare), "{label}: {named} is not enough");
    }
}

/// Two clusters with the default owner: what the other one serves is not ours, whatever `owner=` says.
#[test]
fn a_record_of_our_own_owner_at_another_live_tunnel_stays_that_instances() {
    let theirs = "11111111-a4ef-4643-bbbc-4a0ed4fc8415";
    for (mode, is_taken) in [("tunnel", false), ("owner=default", false), ("all", true)] {
        let mut cloudflare = FakeCloudflare::new(&[], &[]).adopting(&[mode]);
        cloudflare.unconfigured_tunnels.insert(tunnel_id(theirs));
        cloudflare.add(NAME, "CNAME", &target(theirs), "external-dns owner=default rules=abc");
        let before = cloudflare.clone();
        let plan = settle(&mut cloudflare, &desired());
        if is_taken {
            assert!(is_published(&cloudflare), "{mode}");
        } else {
            assert_eq!(cloudflare, before, "{mode}");
            let text = plan.refusals[0].to_string();
            assert!(text.contains("give each one its own") && !text.contains("ADOPT"), "{text}");
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
    let line = plan.refusals[0].to_string();
    assert!(!line.contains("ADOPT") && line.contains("remove the custom domain from"), "{line}");
}

/// The first rule that matches a request answers it, and a rule that no request reached may come to be reached.
#[test]
fn a_takeover_that_changes_which_rule_answers_a_request_is_told_with_the_rule_that_loses_it() {
    let at = |hostname: &str, path: &str| {
        format!(r#"{{"hostname":"{hostname}","path":"{path}","service":"{WANTED}"}}"#)
    };
    let asked = |name: &str, path: &str| {
        let mut endpoint = published(name, WANTED);
        let path = (!path.is_empty()).then(|| Property::new("webhook/tunnel-path", path));
        endpoint.provider_specific.extend(path);
        endpoint.set_identifier = endpoint.provider_specific.len().to_string() + name;
        endpoint
    };
    let wildcard = "*.example.com";
    for (label, rules, desired, told) in [
        (
            "in their order",
            [at(NAME, "^/api/admin"), at(NAME, "/api")],
            [(NAME, "/api"), (NAME, "^/api/admin")],
            None,
        ),
        (
            "a narrower one behind a wider one",
            [at(NAME, "/api"), at(NAME, "^/api/admin")],
            [(NAME, "/api"), (NAME, "^/api/admin")],
            Some(
                r#"taking over the rule for path "^/api/admin" will move it before the rule for "a.example.com" "/api" and give it some of that rule's requests"#,
            ),
        ),
        (
            "behind a wildcard's, which another hostname takes over",
            [at(wildcard, "/api"), at(NAME, "")],
            [(NAME, ""), (wildcard, "/api")],
            Some(
                r#"taking over the rule without a path will move it before the rule for "*.example.com" "/api" and give it some of that rule's requests"#,
            ),
        ),
    ] {
        let names: BTreeSet<&str> = desired.iter().map(|(name, _)| *name).collect();
        let home = target(HOME);
        let records: Vec<_> = names.iter().map(|name| (*name, "CNAME", &*home)).collect();
        let mut cloudflare = FakeCloudflare::new(&rules, &records).adopting(&["tunnel"]);
        let plan = cloudflare.run_loop(&desired.map(|(name, path)| asked(name, path)), usize::MAX);
        assert!(plan.refusals.is_empty() && !plan.hosts.is_empty(), "{label}: {plan:?}");
        let notes: Vec<&str> = plan.notes.iter().map(|note| &*note.text).collect();
        assert_eq!(notes, told.into_iter().collect::<Vec<_>>(), "{label}");
    }
}

/// A move from the dashboard: every hostname has its rule and its record already. ExternalDNS ends when the answer
/// takes 15 s, and a sidecar has a small share of a processor.
#[test]
fn a_thousand_hostnames_as_they_are_wanted_are_planned_in_no_time() {
    let names: Vec<String> = (0..1_000).map(|number| format!("h{number}.example.com")).collect();
    let rules: Vec<String> =
        names.iter().map(|name| format!(r#"{{"hostname":"{name}","service":"{WANTED}"}}"#)).collect();
    let home = target(HOME);
    let records: Vec<_> = names.iter().map(|name| (&**name, "CNAME", &*home)).collect();
    let cloudflare = FakeCloudflare::new(&rules, &records).adopting(&["tunnel"]);
    let desired: Vec<Endpoint> = names.iter().map(|name| published(name, WANTED)).collect();
    let (changes, snapshot) = (cloudflare.changes(&desired), cloudflare.snapshot());
    let begun = processor_time();
    let plan = plan(&changes.read(), &snapshot, &PlanInputs::default(), WHOLE);
    let taken = processor_time() - begun;
    assert!(taken < Duration::from_secs(7), "{taken:?}");
    assert_eq!((plan.hosts.len(), plan.refusals), (names.len(), Vec::new()));
}

/// The processor time of this thread: a test must not fail because other processes are at work. Zero where the system
/// does not say.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or_default())
}

#[test]
fn a_withdrawal_takes_nothing_over() {
    for (kind, content, comment) in [
        ("A", "192.0.2.1".to_owned(), String::new()),
        ("CNAME", target(HOME), String::new()),
        ("CNAME", target(HOME), stamp_of("other")),
    ] {
        for mode in ["owner=other", "all"] {
            let mut cloudflare = FakeCloudflare::new(&[rule(WANTED)], &[]).adopting(&[mode]);
            cloudflare.add(NAME, kind, &content, &comment);
            let delete = desired().map(|one| Endpoint { record_type: "CNAME".to_owned(), ..one });
            let plan = cloudflare.plan(&Changes { delete: delete.into(), ..Changes::default() });
            assert_eq!(plan.hosts, [], "{kind} {comment} {mode}");
        }
    }
}

#[test]
fn what_is_ours_already_is_not_taken_over_when_it_changes() {
    let mut cloudflare = FakeCloudflare::new(&[], &[]).adopting(&["all"]);
    cloudflare.run_loop(&desired(), usize::MAX);
    let plan = cloudflare.run_loop(&[published(NAME, "http://new:80")], usize::MAX);
    assert_eq!(plan.hosts.iter().map(|host| host.adoptions.len()).collect::<Vec<_>>(), [0]);
}
