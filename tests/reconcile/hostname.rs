//! A hostname is decided on as a whole: what is refused of it, what waits with that, and what goes on.

use external_dns_cloudflare_tunnel_webhook::model::Record;
use external_dns_cloudflare_tunnel_webhook::model::access::{PolicyDecision, ReusablePolicy};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use external_dns_cloudflare_tunnel_webhook::reconcile::plan::{Plan, plan};
use external_dns_cloudflare_tunnel_webhook::reconcile::plan_inputs::PlanInputs;
use external_dns_cloudflare_tunnel_webhook::reconcile::snapshot::{Reading, Snapshot};
use external_dns_cloudflare_tunnel_webhook::reconcile::stamp::{Digest, Stamp};
use test_support::fake_cloudflare::{FakeCloudflare, HOME, OFFICE, WHOLE, tunnel_id};
use test_support::harness::endpoint_of;

const NAME: &str = "a.example.com";
const OBJECT: &str = "ingress/shop/web";
const WEB: &str = "http://web:80";

fn on(tunnel: &str, path: &str) -> Endpoint {
    endpoint_of(OBJECT, NAME, &[("tunnel", tunnel), ("tunnel-path", path), ("tunnel-service", WEB)])
}

/// A path that needs an Access application.
fn for_staff(path: &str) -> Endpoint {
    let access = [("access-policy", "staff"), ("tunnel-path-prefix", path), ("tunnel-service", WEB)];
    endpoint_of(OBJECT, NAME, &access)
}

fn with_staff() -> FakeCloudflare {
    let staff = ReusablePolicy { id: "staff".into(), name: "staff".into(), decision: PolicyDecision::Allow };
    FakeCloudflare::new(&[], &[]).with_access(vec![staff])
}

fn rule(hostname: &str, path: &str) -> String {
    format!(r#"{{"hostname":"{hostname}","path":"{path}","service":"http://theirs:80"}}"#)
}

fn labels(plan: &Plan) -> Vec<&'static str> {
    plan.refusals.iter().map(|refusal| refusal.reason.label_value()).collect()
}

fn paths(cloudflare: &FakeCloudflare, tunnel: &str) -> Vec<String> {
    let rules = cloudflare.document(&tunnel_id(tunnel)).rules().iter();
    rules
        .filter(|rule| rule.service() == WEB)
        .map(|rule| rule.path().unwrap_or_default().to_owned())
        .collect()
}

fn own_record(cloudflare: &mut FakeCloudflare) -> &mut Record {
    cloudflare.records.iter_mut().find(|record| &*record.name == NAME).expect("it is published")
}

/// Another path of the hostname with the digest of this one.
fn path_with_digest_of(path: &str) -> String {
    let digest = Digest::of(&tunnel_id(HOME), Some(path));
    let mut paths = (0..).map(|number| format!("^/{number}$"));
    paths.find(|other| Digest::of(&tunnel_id(HOME), Some(other)) == digest).expect("there are few digests")
}

/// A path that changes is a creation and a deletion. The deletion was carried out although its creation was refused.
#[test]
fn while_an_endpoint_is_refused_nothing_of_its_hostname_is_withdrawn() {
    let twin = path_with_digest_of("^/new");
    let mistake = endpoint_of(OBJECT, NAME, &[("tunnel-path", "^/new"), ("tunnel-service", "web")]);
    type Obstacle<'a> = (&'a str, Endpoint, &'a dyn Fn(&mut FakeCloudflare));
    let obstacles: [Obstacle<'_>; 6] = [
        ("invalid", mistake, &|_| {}),
        ("rule_held", on("home", "^/new"), &|all| {
            all.edit_rules(HOME, |rules| rules.insert(0, rule(NAME, "^/new")))
        }),
        ("rule_conflict", on("home", ""), &|all| {
            all.edit_rules(HOME, |rules| rules.insert(0, rule(NAME, "/")))
        }),
        ("digest_taken", on("home", "^/new"), &|all| {
            all.edit_rules(HOME, |rules| rules.insert(0, rule(NAME, &twin)));
        }),
        ("tunnel_gone", on("office", "^/new"), &|all| {
            all.documents.remove(&tunnel_id(OFFICE));
        }),
        ("record_held", on("home", "^/new"), &|all| {
            let comment = "external-dns owner=other rules=-";
            all.add(NAME, "CNAME", "elsewhere.test", comment);
        }),
    ];
    for (label, desired, hinder) in obstacles {
        let mut cloudflare = FakeCloudflare::new(&[], &[]);
        cloudflare.run_loop(&[on("home", "^/old")], usize::MAX);
        hinder(&mut cloudflare);
        let before = cloudflare.clone();
        for _ in 0..2 {
            let plan = cloudflare.run_loop(std::slice::from_ref(&desired), usize::MAX);
            let mut found = labels(&plan);
            found.sort_unstable_by_key(|one| *one != "withheld");
            assert_eq!(found, ["withheld", label], "{plan:?}");
            let told = plan.refusals.iter().map(ToString::to_string).collect::<String>();
            assert!(told.contains("refused endpoint of ingress/shop/web may be the same rule"), "{told}");
        }
        assert_eq!(cloudflare, before, "{label}");
    }
}

/// ExternalDNS compares no labels, so the record's comment names the object of before.
#[test]
fn a_mistake_of_a_renamed_object_takes_no_published_path_away() {
    let of = |object: &str, path: &str, service: &str| {
        endpoint_of(object, NAME, &[("tunnel-path", path), ("tunnel-service", service)])
    };
    let (old, new) = ("ingress/shop/old", "ingress/shop/new");
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    cloudflare.run_loop(&[of(old, "^/old", "http://web:80")], usize::MAX);
    assert!(cloudflare.run_loop(&[of(new, "^/old", "http://web:80")], usize::MAX).is_empty());
    for refused in [of(new, "^/new", "web"), of(new, "(", "http://web:80")] {
        let plan = cloudflare.run_loop(&[refused], usize::MAX);
        assert!(labels(&plan).contains(&"withheld") && plan.is_empty(), "{plan:?}");
        assert_eq!((paths(&cloudflare, HOME), cloudflare.records.len()), (vec!["^/old".to_owned()], 1));
    }
    cloudflare.run_loop(&[of(new, "^/new", "http://web:80")], usize::MAX);
    assert_eq!(paths(&cloudflare, HOME), ["^/new"]);
}

/// Invariant 5 of docs/how-it-works.md, for what only waits: the old path would be gone a loop before the new one
/// comes.
#[test]
fn a_protected_path_that_changes_stays_until_the_application_of_the_new_one_stands() {
    let mut cloudflare = with_staff();
    for _ in 0..2 {
        cloudflare.run_loop(&[for_staff("/admin")], usize::MAX);
    }
    let before = paths(&cloudflare, HOME);
    let plan = cloudflare.run_loop(&[for_staff("/admins")], usize::MAX);
    assert_eq!((labels(&plan), paths(&cloudflare, HOME)), (vec!["withheld", "waiting"], before.clone()));
    let plan = cloudflare.run_loop(&[for_staff("/admins")], usize::MAX);
    assert_eq!((labels(&plan), paths(&cloudflare, HOME).len()), (vec![], 1));
    assert_ne!(paths(&cloudflare, HOME), before);
}

/// If it were told as a mistake, some registries would not ask for it again.
#[test]
fn what_is_beside_an_endpoint_that_waits_waits_as_well() {
    let mut cloudflare = with_staff();
    let plan = cloudflare.run_loop(&[for_staff("/admin"), on("home", "^/b")], usize::MAX);
    assert_eq!((labels(&plan), cloudflare.records.len()), (vec!["waiting"; 2], 0));
}

#[test]
fn the_stamp_of_two_objects_rules_names_neither_of_them_whichever_changes() {
    let changed = |service| {
        endpoint_of("ingress/bank/web", NAME, &[("tunnel-path", "^/bank"), ("tunnel-service", service)])
    };
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    for service in ["http://old:80", "http://new:80"] {
        cloudflare.run_loop(&[on("home", "^/a"), changed(service)], usize::MAX);
        let stamp = Stamp::parse(&own_record(&mut cloudflare).comment).expect("it is ours");
        assert_eq!((stamp.claims.digests.len(), stamp.resource), (2, None), "{service}");
    }
    cloudflare.run_loop(&[changed("http://new:80"), on("home", "^/b")], usize::MAX);
    cloudflare.run_loop(&[changed("http://newer:80"), on("home", "^/b")], usize::MAX);
    let stamp = Stamp::parse(&own_record(&mut cloudflare).comment).expect("it is ours");
    assert_eq!(stamp.resource, None, "another path of the other object");
}

/// ExternalDNS sends two objects in another order in each loop.
#[test]
fn of_two_objects_that_name_different_tunnels_the_same_one_is_published_in_either_order() {
    let of = |resource: &str, mut endpoint: Endpoint| {
        endpoint.labels.set("resource", resource);
        endpoint
    };
    let both = [of("ingress/shop/a", on("office", "^/a")), of("ingress/shop/b", on("home", "^/b"))];
    let cloudflare = FakeCloudflare::new(&[], &[]);
    let mut changes = cloudflare.changes(&both);
    let plans = [(); 2].map(|()| {
        changes.create.reverse();
        let plan = cloudflare.plan(&changes);
        (plan.hosts, plan.refusals)
    });
    assert_eq!(plans[0], plans[1]);
    assert_eq!(plans[0].1.len(), 1);
}

/// With the rule for `/admin` missing, the other one of its object would take its requests.
#[test]
fn the_endpoints_of_one_object_are_published_together_or_not_at_all() {
    let other =
        endpoint_of("ingress/shop/other", NAME, &[("tunnel-path", "^/other"), ("tunnel-service", WEB)]);
    let mut cloudflare = FakeCloudflare::new(&[rule(NAME, "^/admin")], &[]);
    let desired = [on("home", ""), on("home", "^/admin"), other];
    let plan = cloudflare.run_loop(&desired, usize::MAX);
    assert_eq!(
        (labels(&plan), paths(&cloudflare, HOME)),
        (vec!["beside_refused", "rule_held"], vec!["^/other".to_owned()])
    );
    let told = plan.refusals[0].to_string();
    assert!(
        told.contains(r#"waits for the hostname's rule for path "^/admin": correct that rule, which is refused (rule_held)"#),
        "{told}"
    );

    let rules = |rules: &mut Vec<String>| rules.retain(|rule| !rule.contains("theirs"));
    cloudflare.edit_rules(HOME, rules);
    assert_eq!(labels(&cloudflare.run_loop(&desired, usize::MAX)), [""; 0]);
    assert_eq!(paths(&cloudflare, HOME).len(), 3);
}

/// The rule was never ours, so no note advises to delete it.
#[test]
fn the_deletion_of_a_record_alone_says_nothing_of_a_foreign_rule_without_a_path() {
    let mut cloudflare = FakeCloudflare::new(&[rule(NAME, "")], &[]);
    let only = endpoint_of("ingress/shop/web", NAME, &[("tunnel-service", "none")]);
    cloudflare.run_loop(&[only], usize::MAX);
    assert_eq!(cloudflare.records.len(), 1);
    let plan = cloudflare.run_loop(&[], usize::MAX);
    assert_eq!((cloudflare.records.len(), plan.notes), (0, Vec::new()));
}

/// A zone that goes from a paid plan to Free keeps its comments. Such a hostname was frozen.
#[test]
fn a_comment_that_is_longer_than_the_zone_allows_freezes_nothing() {
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    cloudflare.run_loop(&[on("home", "^/a"), on("home", "^/b")], usize::MAX);
    let long = format!("{} | {}", own_record(&mut cloudflare).comment, "x".repeat(100));
    own_record(&mut cloudflare).comment = long.clone().into();
    let changed =
        |path| endpoint_of(OBJECT, NAME, &[("tunnel-path", path), ("tunnel-service", "http://new:80")]);
    let plan = cloudflare.run_loop(&[changed("^/a"), changed("^/b")], usize::MAX);
    assert_eq!((labels(&plan), paths(&cloudflare, HOME)), (vec![], vec![]), "{plan:?}");
    let plan = cloudflare.run_loop(&[changed("^/a")], usize::MAX);
    assert_eq!((labels(&plan), cloudflare.document(&tunnel_id(HOME)).rules().len()), (vec![], 2), "{plan:?}");
    assert_eq!(*own_record(&mut cloudflare).comment, *long, "there is no room for another one");
    let (plan, writes) = (cloudflare.run_loop(&[changed("^/a")], usize::MAX), cloudflare.writes);
    assert!(plan.is_empty(), "{plan:?}");
    let plan = cloudflare.run_loop(&[changed("^/a"), changed("^/c")], usize::MAX);
    assert_eq!((labels(&plan), cloudflare.writes), (vec!["stamp_full"], writes), "{plan:?}");
    cloudflare.run_loop(&[], usize::MAX);
    assert_eq!((cloudflare.records.len(), cloudflare.document(&tunnel_id(HOME)).rules().len()), (0, 1));
}

/// The mark of the record alone counted, although the request withdraws it, so such a hostname was refused in each
/// loop.
#[test]
fn a_record_alone_becomes_a_rule_whose_comment_fills_the_limit() {
    let only = endpoint_of(OBJECT, NAME, &[("tunnel-service", "none")]);
    let bytes_with_remark = |remark: usize| {
        let mut cloudflare = FakeCloudflare::new(&[], &[]);
        cloudflare.run_loop(std::slice::from_ref(&only), usize::MAX);
        let comment = format!("{} | {}", own_record(&mut cloudflare).comment, "x".repeat(remark));
        own_record(&mut cloudflare).comment = comment.into();
        let plan = cloudflare.run_loop(&[on("home", "^/a")], usize::MAX);
        labels(&plan).is_empty().then(|| own_record(&mut cloudflare).comment.len())
    };
    assert_eq!((1..100).rev().find_map(bytes_with_remark), Some(100));
}

/// Only its record could tell the rule's owner.
#[test]
fn a_rule_that_lost_its_record_by_hand_is_ours_if_it_stands_as_wanted_or_told_by_name() {
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    cloudflare.run_loop(&[on("home", "^/a")], usize::MAX);
    cloudflare.records.clear();
    let edited = endpoint_of(OBJECT, NAME, &[("tunnel-path", "^/a"), ("tunnel-service", "http://new:80")]);
    let plan = cloudflare.clone().run_loop(std::slice::from_ref(&edited), usize::MAX);
    assert_eq!(labels(&plan), ["rule_held"]);
    assert!(plan.refusals[0].to_string().contains("set ADOPT=all to take it over"), "{plan:?}");
    let mut adopting = cloudflare.clone().adopting(&["all"]);
    assert_eq!(labels(&adopting.run_loop(&[edited], usize::MAX)), [""; 0]);
    assert_eq!(labels(&cloudflare.run_loop(&[on("home", "^/a")], usize::MAX)), [""; 0]);
    assert_eq!((paths(&cloudflare, HOME), cloudflare.records.len()), (vec!["^/a".to_owned()], 1));
}

/// The wildcard's withdrawal waited three minutes, with 503, for a name that took nothing over.
#[test]
fn the_rules_of_a_wildcard_go_at_once_whatever_becomes_of_a_name_below_it() {
    let wildcard = endpoint_of("ingress/shop/all", "*.example.com", &[("tunnel-service", WEB)]);
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    cloudflare.run_loop(&[wildcard], usize::MAX);
    cloudflare.edit_rules(HOME, |rules| rules.insert(0, rule(NAME, "^/a")));
    let plan = cloudflare.run_loop(&[on("home", "^/a")], usize::MAX);
    assert_eq!(labels(&plan), ["rule_held"]);
    let records: Vec<&str> = cloudflare.records.iter().map(|record| &*record.name).collect();
    assert_eq!((records, paths(&cloudflare, HOME)), (vec!["*.example.com"], vec![]));
}

/// `DRY_RUN` told the first step of a move alone.
#[test]
fn a_preview_of_a_move_plans_what_its_loops_do_in_the_end() {
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    cloudflare.run_loop(&[on("home", ""), on("home", "^/gone")], usize::MAX);
    let desired = [on("office", "")];
    let earlier = PlanInputs { is_dry_run: true, ..PlanInputs::default() };
    let changes = cloudflare.changes(&desired);
    let previewed = plan(&changes.read(), &cloudflare.snapshot(), &earlier, WHOLE);
    assert_eq!((labels(&previewed), previewed.hosts.len()), (vec![], 1));
    let mut at_once = cloudflare.clone();
    at_once.apply(&previewed, usize::MAX);
    for _ in 0..3 {
        cloudflare.run_loop(&desired, usize::MAX);
    }
    cloudflare.writes = at_once.writes;
    own_record(&mut cloudflare).modified = own_record(&mut at_once).modified;
    assert_eq!(at_once, cloudflare);
    assert_eq!((paths(&at_once, HOME), paths(&at_once, OFFICE)), (vec![], vec![String::new()]));
}

/// Without a connector of the new tunnel, the registry `crd` would not ask again after a success.
#[test]
fn a_move_is_waited_for_whatever_the_age_of_its_record() {
    for is_dated in [true, false] {
        let mut cloudflare = FakeCloudflare::new(&[], &[]);
        cloudflare.run_loop(&[on("home", "")], usize::MAX);
        let desired = [on("office", "")];
        cloudflare.run_loop(&desired, usize::MAX);
        if !is_dated {
            own_record(&mut cloudflare).modified = None;
        }
        let unready = [(tunnel_id(OFFICE), "no connector".to_owned())].into();
        let earlier = PlanInputs { unready, ..PlanInputs::default() };
        let snapshot = Snapshot::new(Reading { date_unix_seconds: Some(60), ..cloudflare.reading() });
        let plan = plan(&cloudflare.changes(&desired).read(), &snapshot, &earlier, WHOLE);
        assert_eq!(labels(&plan), ["moving"]);
    }
}

/// A record that stood in for the wildcard's was never looked at again while the new tunnel had no connector.
#[test]
fn a_name_below_a_wildcard_record_that_leads_elsewhere_gets_a_record_of_its_own_at_once() {
    let wildcard = [("*.example.com", "CNAME", "elsewhere.test")];
    let mut cloudflare = FakeCloudflare::new(&[], &wildcard);
    assert_eq!(labels(&cloudflare.run_loop(&[on("home", "")], usize::MAX)), [""; 0]);
    assert_eq!(*own_record(&mut cloudflare).content, *tunnel_id(HOME).hostname());
}

/// `ADOPT` is for endpoints that are published: the rule of one that waits for another one of its object stays foreign.
#[test]
fn the_rule_of_an_endpoint_that_is_refused_is_not_taken_over() {
    let bank = endpoint_of("ingress/bank/web", NAME, &[("tunnel-path", "^/bank"), ("tunnel-service", WEB)]);
    let held =
        endpoint_of(OBJECT, NAME, &[("tunnel", "office"), ("tunnel-path", "^/x"), ("tunnel-service", WEB)]);
    let mistake = endpoint_of(OBJECT, NAME, &[("tunnel-path", "^/y"), ("tunnel-service", "web")]);
    for (label, theirs, desired) in [
        ("it waits for a mistake", HOME, vec![bank.clone(), on("home", "^/x"), mistake]),
        ("it is in another tunnel", OFFICE, vec![bank.clone(), held]),
    ] {
        let mut cloudflare = FakeCloudflare::new(&[], &[]).adopting(&["tunnel"]);
        cloudflare.run_loop(std::slice::from_ref(&bank), usize::MAX);
        cloudflare.edit_rules(theirs, |rules| rules.insert(0, rule(NAME, "^/x")));
        let before = cloudflare.clone();
        let plan = cloudflare.run_loop(&desired, usize::MAX);
        assert!(!plan.refusals.is_empty(), "{label}");
        assert_eq!(cloudflare, before, "{label}: {plan:?}");
    }
}

/// The endpoint for the record alone has no rule that stays there.
#[test]
fn a_record_alone_is_not_led_away_by_another_objects_path() {
    let alone = endpoint_of("ingress/shop/alone", NAME, &[("tunnel", "office"), ("tunnel-service", "none")]);
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    cloudflare.run_loop(std::slice::from_ref(&alone), usize::MAX);
    let before = cloudflare.clone();
    let both = [alone, on("home", "^/x")];
    for _ in 0..2 {
        let plan = cloudflare.run_loop(&both, usize::MAX);
        assert_eq!(labels(&plan), ["two_tunnels"]);
        assert_eq!(cloudflare, before);
    }
    cloudflare.run_loop(&both[1..], usize::MAX);
    assert_eq!(paths(&cloudflare, HOME), ["^/x"], "alone, it comes");
}
