//! No digest comes off a comment, and no record goes, while a rule stands that it names: whatever an old reading
//! showed, wherever a run is cut off, and whatever another instance does meanwhile.

use std::collections::BTreeSet;
use std::time::Duration;

use external_dns_cloudflare_tunnel_webhook::model::Record;
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use external_dns_cloudflare_tunnel_webhook::reconcile::plan::{Plan, RecordOperation, Stage};
use external_dns_cloudflare_tunnel_webhook::reconcile::reason::Reason;
use external_dns_cloudflare_tunnel_webhook::reconcile::stamp::{Digest, NamespaceCode, Stamp};
use test_support::external_dns::Changes;
use test_support::fake_cloudflare::{FakeCloudflare, HOME, OFFICE, STAGES, tunnel_id};
use test_support::harness;

const PATHS: [&str; 3] = ["", "^/b$", "^/c$"];

/// Loops to rest after the last accident: three for a move, and one that takes off a digest without a rule.
const LOOPS_TO_REST: usize = 5;

fn path(tunnel: &str, path: &str) -> Endpoint {
    let mut properties = vec![("tunnel-service", "http://web:80"), ("tunnel", tunnel)];
    properties.extend((!path.is_empty()).then_some(("tunnel-path", path)));
    harness::endpoint("a.example.com", &properties)
}

/// Each set of paths, in each tunnel.
fn all_wishes() -> Vec<Vec<Endpoint>> {
    let of = |tunnel| {
        (0..1 << PATHS.len()).map(move |set| {
            let chosen = PATHS.iter().enumerate().filter(|(index, _)| set & (1 << index) != 0);
            chosen.map(|(_, one)| path(tunnel, one)).collect::<Vec<_>>()
        })
    };
    of("home").chain(of("office").skip(1)).collect()
}

/// Those of the tunnel `home` alone.
fn wishes() -> Vec<Vec<Endpoint>> {
    all_wishes().into_iter().take(1 << PATHS.len()).collect()
}

fn published(desired: &[Endpoint]) -> FakeCloudflare {
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    for _ in 0..LOOPS_TO_REST {
        cloudflare.run_loop(desired, usize::MAX);
    }
    cloudflare
}

fn unclaimed(cloudflare: &FakeCloudflare) -> Vec<String> {
    cloudflare.unstamped_rules(&FakeCloudflare::new(&[], &[]))
}

/// The records' contents and claims, and the rules.
type State = (Vec<(String, String)>, Vec<String>);

fn state(cloudflare: &FakeCloudflare) -> State {
    let records = cloudflare.records.iter().map(|record| (record.content.to_string(), claims(record)));
    let rules = [HOME, OFFICE].into_iter().flat_map(|id| {
        let rules =
            cloudflare.document(&tunnel_id(id)).rules().iter().filter(|rule| !rule.hostname().is_empty());
        rules.map(move |rule| format!("{id} {}", rule.raw().get()))
    });
    let mut rules: Vec<String> = rules.collect();
    rules.sort_unstable();
    (records.collect(), rules)
}

fn claims(record: &Record) -> String {
    Stamp::parse(&record.comment).map(|stamp| stamp.claims.to_string()).unwrap_or_default()
}

/// Loops without accidents lead to what is wanted, with each rule named at any time.
fn comes_to_rest(mut cloudflare: FakeCloudflare, wanted: &FakeCloudflare, desired: &[Endpoint], label: &str) {
    for _ in 0..LOOPS_TO_REST {
        cloudflare.run_loop(desired, usize::MAX);
        assert_eq!(unclaimed(&cloudflare), [""; 0], "{label}");
    }
    assert_eq!(state(&cloudflare), state(wanted), "{label}");
    assert_eq!(cloudflare.changes(desired), Changes::default(), "{label}");
}

/// Invariant 2 of docs/how-it-works.md. A reading shows a tunnel as it was before the last change, or without any rule.
#[test]
fn a_rule_that_an_old_reading_does_not_show_stays_named_wherever_the_run_is_cut_off() {
    let empty = FakeCloudflare::new(&[], &[]);
    let mut tried = BTreeSet::new();
    let at_rest: Vec<(Vec<Endpoint>, FakeCloudflare)> =
        all_wishes().into_iter().map(|desired| (desired.clone(), published(&desired))).collect();
    // From home, and from all paths at the office.
    for (_, before) in at_rest.iter().take(1 << PATHS.len()).chain(at_rest.last()) {
        for second in wishes() {
            let mut after = before.clone();
            for _ in 0..LOOPS_TO_REST {
                after.run_loop(&second, usize::MAX);
            }
            for (old, (third, wanted)) in
                [before, &empty].into_iter().flat_map(|old| at_rest.iter().map(move |one| (old, one)))
            {
                let mut seen = after.clone();
                seen.documents.clone_from(&old.documents);
                let plan = seen.plan(&after.changes(third));
                for writes in 0..4 {
                    let mut cloudflare = after.clone();
                    let is_done = cloudflare.apply(&plan, writes);
                    let label = || format!("{second:?} {third:?} {writes}: {plan:?}");
                    assert_eq!(unclaimed(&cloudflare), [""; 0], "{}", label());
                    // Most of these worlds are alike.
                    if tried.insert((state(&cloudflare), state(wanted))) {
                        comes_to_rest(cloudflare, wanted, third, &label());
                    }
                    if is_done {
                        break;
                    }
                }
            }
        }
    }
}

/// Invariant 2 of docs/how-it-works.md. Both read before either ends; what the second one wants the first one wants
/// too.
#[test]
fn a_second_instance_between_the_stages_of_the_first_disowns_nothing() {
    for (first, second) in
        wishes().iter().flat_map(|first| wishes().into_iter().map(move |one| (first.clone(), one)))
    {
        let before = published(&first);
        let plan = before.plan(&before.changes(&second));
        let is_wanted = |third: &&Vec<Endpoint>| third.iter().all(|one| second.contains(one));
        for third in wishes().iter().filter(is_wanted) {
            for between in [Stage::Rules, Stage::RecordsAfter] {
                let mut cloudflare = before.clone();
                let stages =
                    |is_before: bool| STAGES.into_iter().filter(move |stage| (*stage < between) == is_before);
                stages(true).for_each(|stage| assert!(cloudflare.apply_stage(&plan, stage, usize::MAX)));
                // A record that did not change in the first stage may go.
                if !is_stamped(&plan) {
                    continue;
                }
                let other = cloudflare.plan_after(&cloudflare.changes(third), 14);
                assert!(cloudflare.apply(&other, usize::MAX));
                let label = format!("{first:?} {second:?} {third:?}: {plan:?} {other:?}");
                assert_eq!(unclaimed(&cloudflare), [""; 0], "{label}");
                stages(false).for_each(|stage| assert!(cloudflare.apply_stage(&plan, stage, usize::MAX)));
                assert_eq!(unclaimed(&cloudflare), [""; 0], "{label}");
                comes_to_rest(cloudflare, &published(&second), &second, &label);
            }
        }
    }
}

fn is_stamped(plan: &Plan) -> bool {
    plan.hosts.iter().any(|host| !host.operations_before.is_empty())
}

/// A record with a digest more than rules.
fn with_a_digest_without_a_rule(desired: &[Endpoint]) -> FakeCloudflare {
    let mut cloudflare = published(desired);
    let comment = format!("{}zzz", cloudflare.records[0].comment);
    cloudflare.records[0].comment = comment.into();
    cloudflare.records[0].modified = Some(Duration::from_secs(cloudflare.writes as u64));
    cloudflare
}

#[test]
fn a_digest_without_a_rule_waits_until_the_record_has_not_changed_for_a_minute() {
    for desired in [vec![path("home", "")], vec![path("home", ""), path("home", "^/c$")], Vec::new()] {
        for (seconds, is_young) in [(0, true), (59, true), (60, false), (31_536_000, false)] {
            let mut cloudflare = with_a_digest_without_a_rule(&[path("home", "")]);
            // Each write takes a second of the model's time.
            let plan = cloudflare.plan_after(&cloudflare.changes(&desired), seconds);
            let waits: Vec<_> = plan.refusals.iter().map(|one| one.reason.fails_request()).collect();
            assert_eq!(waits, vec![true; usize::from(is_young)], "{seconds} s: {plan:?}");
            assert!(cloudflare.apply(&plan, usize::MAX));
            let names_it = cloudflare.records.iter().any(|record| record.comment.contains("zzz"));
            assert_eq!(names_it, is_young, "{seconds} s: {plan:?}");
            let stands = cloudflare.document(&tunnel_id(HOME)).rules().len() - 1;
            assert_eq!(stands, desired.len(), "{seconds} s: everything else is done");
            comes_to_rest(cloudflare, &published(&desired), &desired, "later");
        }
    }
}

/// No request of this process made it, so the log has to say what is waited for.
#[test]
fn the_refusal_of_a_young_digest_without_a_rule_says_what_is_waited_for() {
    let cloudflare = with_a_digest_without_a_rule(&[path("home", "")]);
    let plan = cloudflare.plan_after(&cloudflare.changes(&[path("home", "")]), 0);
    let [refusal] = &plan.refusals[..] else { panic!("{plan:?}") };
    let text = refusal.reason.to_string();
    assert!(matches!(refusal.reason, Reason::Waiting(_)) && text.contains("for a minute"), "{text}");
    assert!(text.chars().count() <= 200, "{text}");
}

fn paths(count: usize) -> Vec<Endpoint> {
    (0..count).map(|number| path("home", &format!("^/p{number:02}$"))).collect()
}

/// The comment of a Free zone has room for 22 digests.
#[test]
fn a_new_path_waits_where_its_digest_needs_the_room_of_one_without_a_rule() {
    for (seconds, loops) in [(0, 3), (60, 2)] {
        let mut cloudflare = with_a_digest_without_a_rule(&paths(21));
        let plan = cloudflare.plan_after(&cloudflare.changes(&paths(22)), seconds);
        assert!(!plan.refusals.is_empty(), "{plan:?}");
        assert!(plan.refusals.iter().all(|one| one.reason.fails_request()), "{plan:?}");
        assert!(cloudflare.apply(&plan, usize::MAX));
        for _ in 1..loops {
            cloudflare.run_loop(&paths(22), usize::MAX);
        }
        assert_eq!(state(&cloudflare), state(&published(&paths(22))), "{seconds} s");
    }
    let mut cloudflare = with_a_digest_without_a_rule(&paths(21));
    let plan = cloudflare.run_loop(&paths(23), usize::MAX);
    let full = plan.refusals.iter().find(|one| matches!(one.reason, Reason::StampFull { .. }));
    let told = full.map(ToString::to_string).unwrap_or_default();
    assert!(told.contains("no room for the 23 rules"), "{told}");
}

/// Without a rule a digest needs no namespace, and it takes the room of `ns=` only until it is off.
#[test]
fn a_full_comment_lets_go_of_a_digest_without_a_rule_and_names_its_namespace_where_that_has_room() {
    let of_shop = |count| -> Vec<Endpoint> {
        let service = ("tunnel-service", "http://web.shop.svc:80");
        (0..count)
            .map(|number| {
                let path = format!("^/p{number:02}$");
                harness::endpoint("a.example.com", &[service, ("tunnel-path", &path)])
            })
            .collect()
    };
    for (rules, names_it) in [(19, true), (20, false), (21, false)] {
        let mut cloudflare = published(&of_shop(rules));
        let stamp = Stamp::parse(&cloudflare.records[0].comment).expect("a stamp");
        let comment = format!("external-dns owner=default rules={}zzz", stamp.claims);
        cloudflare.records[0].comment = comment.into();
        cloudflare.namespace_guard = true;
        for _ in 0..LOOPS_TO_REST {
            cloudflare.run_loop(&of_shop(rules), usize::MAX);
        }
        let stamp = Stamp::parse(&cloudflare.records[0].comment).expect("a stamp");
        assert_eq!(stamp.claims.digests.len(), rules, "{rules}");
        assert_eq!(stamp.namespace.clone() == Some(NamespaceCode::of("shop")), names_it, "{rules}");
        assert_eq!(cloudflare.changes(&of_shop(rules)), Changes::default(), "{rules}: no drift is left");
    }
}

/// The other owner's digests are none of ours.
#[test]
fn a_takeover_claims_no_digest_without_a_rule() {
    let mut cloudflare = FakeCloudflare::new(&[], &[]).adopting(&["owner=other"]);
    let digests: String = (100..122).map(|number| format!("{number}")).collect();
    let comment = format!("external-dns owner=other rules={digests}");
    cloudflare.add("a.example.com", "CNAME", &tunnel_id(HOME).hostname(), &comment);
    let plan = cloudflare.run_loop(&[path("home", "")], usize::MAX);
    assert_eq!(plan.refusals, []);
    assert_eq!(claims(&cloudflare.records[0]), Digest::of(&tunnel_id(HOME), None).to_string());
}

/// An old digest is looked for in the tunnels once more, and only there where one comes off.
#[test]
fn the_plan_names_the_digests_that_come_off_without_a_rule() {
    let cloudflare = with_a_digest_without_a_rule(&[path("home", "")]);
    let plan = cloudflare.plan(&cloudflare.changes(&[path("home", "")]));
    let [host] = &plan.hosts[..] else { panic!("{plan:?}") };
    assert_eq!(host.removed_dangling.iter().map(ToString::to_string).collect::<Vec<_>>(), ["zzz"]);
    assert!(
        matches!(&host.operations_after[..], [RecordOperation::Patch(_)])
            && host.operations_before.is_empty(),
        "{plan:?}"
    );
    let quiet = published(&[path("home", "")]);
    for desired in wishes() {
        let plan = quiet.plan(&quiet.changes(&desired));
        assert!(plan.hosts.iter().all(|host| host.removed_dangling.is_empty()), "{plan:?}");
    }
}

/// The old rules were deleted by hand, or their tunnel was; the comment has no room for the digests of both.
#[test]
fn a_hostname_whose_many_rules_are_gone_and_whose_paths_are_all_new_is_published() {
    for count in [12, 22] {
        let paths = |kind: &str| -> Vec<Endpoint> {
            let path = |number: usize| format!("^/{kind}{number:02}$");
            let said =
                |number| [("tunnel-service", "http://web:80".to_owned()), ("tunnel-path", path(number))];
            let of = |number| {
                let said = said(number);
                harness::endpoint("a.example.com", &said.each_ref().map(|(name, value)| (*name, &**value)))
            };
            (0..count).map(of).collect()
        };
        let mut cloudflare = FakeCloudflare::new(&[], &[]);
        cloudflare.run_loop(&paths("old"), usize::MAX);
        cloudflare.edit_rules(HOME, |rules| rules.retain(|rule| !rule.contains("hostname")));
        for _ in 0..4 {
            cloudflare.pass(3_600);
            cloudflare.run_loop(&paths("new"), usize::MAX);
        }
        let document = cloudflare.document(&tunnel_id(HOME));
        assert_eq!(document.rules().iter().filter(|rule| rule.path().is_some()).count(), count);
    }
}

/// The digest of a rule that is gone comes off the comment, whatever keeps the object from being published.
#[test]
fn a_rule_by_hand_at_a_path_that_was_given_up_long_ago_stays_when_the_refused_path_is_published() {
    let path = |path: &str, service: &str| {
        harness::endpoint("a.example.com", &[("tunnel-service", service), ("tunnel-path", path)])
    };
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    cloudflare.run_loop(&[path("^/old$", "http://web:80")], usize::MAX);
    cloudflare.edit_rules(HOME, |rules| rules.retain(|rule| !rule.contains("hostname")));
    for _ in 0..2 {
        cloudflare.pass(3_600);
        cloudflare.run_loop(&[path("^/new$", "nonsense://web")], usize::MAX);
    }
    let by_hand = r#"{"hostname":"a.example.com","path":"^/old$","service":"http://by-hand:80"}"#;
    cloudflare.edit_rules(HOME, |rules| rules.insert(0, by_hand.to_owned()));
    for _ in 0..2 {
        cloudflare.pass(3_600);
        cloudflare.run_loop(&[path("^/new$", "http://web:80")], usize::MAX);
    }
    let document = cloudflare.document(&tunnel_id(HOME));
    let rules: Vec<&str> = document.rules().iter().map(|rule| rule.raw().get()).collect();
    assert!(rules.contains(&by_hand), "{rules:?} {:?}", cloudflare.records);
    assert_eq!(rules.len(), 3, "{rules:?}");
}
