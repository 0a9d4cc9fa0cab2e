//! Foreign rules on our hostnames, and foreign rules with the digest or the place of ours: none is touched, and none
//! loses its requests.

use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use external_dns_cloudflare_tunnel_webhook::model::{Hostname, TunnelId, Zone, ZoneId};
use external_dns_cloudflare_tunnel_webhook::reconcile::listing::published as paths_of;
use external_dns_cloudflare_tunnel_webhook::reconcile::listing::{EntryState, listing};
use external_dns_cloudflare_tunnel_webhook::reconcile::plan::Plan;
use external_dns_cloudflare_tunnel_webhook::reconcile::reason::Reason;
use external_dns_cloudflare_tunnel_webhook::reconcile::records::records;
use external_dns_cloudflare_tunnel_webhook::reconcile::snapshot::Snapshot;
use external_dns_cloudflare_tunnel_webhook::reconcile::stamp::Digest;
use test_support::fake_cloudflare::{FakeCloudflare, HOME, OFFICE, tunnel_id};
use test_support::harness::{endpoint, endpoint_of, published};

const NAME: &str = "a.example.com";

fn on(tunnel: &str, path: &str, service: &str) -> Endpoint {
    let properties = [("tunnel", tunnel), ("tunnel-path", path), ("tunnel-service", service)];
    endpoint_of("ingress/shop/web", NAME, &properties)
}

fn theirs(hostname: &str, path: &str) -> String {
    let path = if path.is_empty() { String::new() } else { format!(r#","path":"{path}""#) };
    format!(r#"{{"hostname":"{hostname}"{path},"service":"http://theirs:80"}}"#)
}

/// The refusals' paths and words.
fn refused(plan: &Plan) -> Vec<(String, &'static str)> {
    let path = |path: &Option<Box<str>>| path.as_deref().unwrap_or("-").to_owned();
    plan.refusals
        .iter()
        .map(|refusal| (path(&refusal.set_identifier), refusal.reason.label_value()))
        .collect()
}

/// A path for each of the tunnels so that their rules have one digest.
fn paths_with_one_digest(first: &TunnelId, second: &TunnelId) -> (String, String) {
    let mut seen = std::collections::HashMap::new();
    for number in 0.. {
        let path = format!("^/{number}$");
        if let Some(other) = seen.get(&Digest::of(second, Some(&path))) {
            return (String::clone(other), path);
        }
        seen.insert(Digest::of(first, Some(&path)), path);
    }
    unreachable!("there are fewer digests than numbers")
}

/// A foreign rule has the digest of ours, in the same tunnel or in another one, in front of it or behind. Invariant 1
/// of docs/how-it-works.md.
#[test]
fn of_two_rules_with_one_digest_neither_is_touched_until_one_is_gone() {
    for (ours_in, theirs_in) in [(HOME, HOME), (HOME, OFFICE), (OFFICE, HOME)] {
        for is_in_front in [true, false] {
            let label = format!("{ours_in} {theirs_in} {is_in_front}");
            let (ours, other) = paths_with_one_digest(&tunnel_id(ours_in), &tunnel_id(theirs_in));
            let tunnel = if ours_in == HOME { "home" } else { "office" };
            let wanted = |service: &str| [on(tunnel, &ours, service)];
            let mut cloudflare = FakeCloudflare::new(&[], &[]);
            cloudflare.run_loop(&wanted("http://web:80"), usize::MAX);
            cloudflare.edit_rules(theirs_in, |rules| {
                if rules.is_empty() {
                    rules.push(r#"{"service":"http_status:404"}"#.to_owned());
                }
                rules.insert(if is_in_front { 0 } else { rules.len() - 1 }, theirs(NAME, &other));
            });

            let own = cloudflare.snapshot().own_digests().clone();
            for (id, document) in &cloudflare.documents {
                assert!(!document.rules().iter().any(|rule| own.has(id, rule)), "{label}");
            }
            let listed = listing(&cloudflare.snapshot());
            let foreign = listed.iter().filter(|entry| entry.state != EntryState::RecordWithoutRule).count();
            assert_eq!((foreign, listed.len()), (2, 3), "{label}: {listed:?}");
            let before = cloudflare.clone();
            for (desired, path) in
                [(&wanted("http://web:80")[..], &ours), (&wanted("http://new:80")[..], &ours)]
            {
                let plan = cloudflare.run_loop(desired, usize::MAX);
                assert_eq!(refused(&plan), [(path.clone(), "digest_taken")], "{label}");
                assert_eq!(cloudflare, before, "{label}");
            }
            let plan = cloudflare.run_loop(&[], usize::MAX);
            assert!(matches!(&refused(&plan)[..], [(_, "digest_taken")]), "{label}: {plan:?}");
            assert_eq!(cloudflare, before, "{label}");

            cloudflare.edit_rules(theirs_in, |rules| rules.retain(|rule| !rule.contains("theirs")));
            let plan = cloudflare.run_loop(&wanted("http://new:80"), usize::MAX);
            assert_eq!(refused(&plan), [], "{label}");
            let services = cloudflare.document(&tunnel_id(ours_in)).rules().iter().map(|rule| rule.service());
            assert_eq!(services.collect::<Vec<_>>(), ["http://new:80", "http_status:404"], "{label}");
        }
    }
}

#[test]
fn a_path_whose_digest_a_rule_in_another_tunnel_has_is_not_published() {
    let (ours, other) = paths_with_one_digest(&tunnel_id(HOME), &tunnel_id(OFFICE));
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    cloudflare.edit_rules(OFFICE, |rules| {
        rules.extend([theirs(NAME, &other), r#"{"service":"http_status:404"}"#.to_owned()]);
    });
    let before = cloudflare.clone();
    let plan = cloudflare.run_loop(&[on("home", &ours, "http://web:80")], usize::MAX);
    assert_eq!(refused(&plan), [(ours, "digest_taken")]);
    assert!(plan.refusals[0].to_string().contains(&format!("path {other:?} in tunnel {OFFICE}")), "{plan:?}");
    assert_eq!(cloudflare, before);
}

/// Which of them is ours cannot be told, also where one of them is as it is wanted.
#[test]
fn of_two_rules_with_one_hostname_and_path_neither_is_ours_until_one_is_gone() {
    for path in ["", "^/a$"] {
        let wanted = |service: &str| [on("home", path, service)];
        let mut cloudflare = FakeCloudflare::new(&[], &[]);
        cloudflare.run_loop(&wanted("http://web:80"), usize::MAX);
        cloudflare.edit_rules(HOME, |rules| rules.insert(1, theirs("A.example.com", path)));
        let own = cloudflare.snapshot().own_digests().clone();
        let home = tunnel_id(HOME);
        assert!(!cloudflare.document(&home).rules().iter().any(|rule| own.has(&home, rule)), "{path}");
        let before = cloudflare.clone();
        for adopt in [&[][..], &["all"]] {
            for desired in [&wanted("http://web:80")[..], &wanted("http://new:80")[..], &[]] {
                let mut cloudflare = cloudflare.clone().adopting(adopt);
                let plan = cloudflare.run_loop(desired, usize::MAX);
                assert_eq!(refused(&plan), [(path.to_owned(), "rule_conflict")], "{desired:?} {adopt:?}");
                assert!(plan.refusals[0].to_string().contains("rules 1 and 2 of the tunnel"), "{plan:?}");
                assert_eq!(
                    (&cloudflare.documents, &cloudflare.records),
                    (&before.documents, &before.records)
                );
            }
        }
        cloudflare.edit_rules(HOME, |rules| rules.retain(|rule| !rule.contains("theirs")));
        assert_eq!(refused(&cloudflare.run_loop(&wanted("http://new:80"), usize::MAX)), [], "{path}");
    }
}

const REST: &str = r#"{"service":"http_status:404"}"#;

fn target(id: &str) -> String {
    tunnel_id(id).hostname()
}

fn services(cloudflare: &FakeCloudflare, tunnel: &str) -> Vec<String> {
    let rules = cloudflare.document(&tunnel_id(tunnel)).rules().iter();
    rules.map(|rule| rule.service().to_owned()).collect()
}

/// If the record were led over, their rule would lose its requests.
#[test]
fn a_hostname_does_not_move_away_from_a_foreign_rule_of_it() {
    for (path, desired) in [
        ("", on("office", "", "http://web:80")),
        ("^/a$", on("office", "^/a$", "http://web:80")),
        ("", on("office", "", "none")),
    ] {
        let service = desired.property("webhook/tunnel-service").unwrap_or_default();
        let mut cloudflare = FakeCloudflare::new(&[theirs(NAME, "^/theirs$")], &[]);
        cloudflare.run_loop(&[on("home", path, service)], usize::MAX);
        let before = cloudflare.clone();
        let plan = cloudflare.run_loop(std::slice::from_ref(&desired), usize::MAX);
        assert_eq!(refused(&plan), [(path.to_owned(), "rule_left_behind")]);
        let told = plan.refusals[0].to_string();
        assert!(told.contains(HOME) && told.contains("\"^/theirs$\""), "{told}");
        assert_eq!(cloudflare, before);

        cloudflare.edit_rules(HOME, |rules| rules.retain(|rule| !rule.contains("theirs")));
        for _ in 0..3 {
            cloudflare.run_loop(std::slice::from_ref(&desired), usize::MAX);
        }
        assert_eq!(refused(&cloudflare.run_loop(std::slice::from_ref(&desired), usize::MAX)), []);
        assert_eq!(*cloudflare.records[0].content, *target(OFFICE));
    }
}

/// The record of a wildcard serves the names below it that have none.
#[test]
fn a_wildcard_does_not_move_away_from_a_foreign_rule_below_it() {
    let wildcard =
        |tunnel: &str| endpoint("*.example.com", &[("tunnel-service", "http://web:80"), ("tunnel", tunnel)]);
    for (records, is_refused) in [
        (&[][..], true),
        (&[("a.example.com", "A", "192.0.2.1")], false),
        (&[("x.a.example.com", "MX", "mx.test")], false),
        (&[("b.example.com", "A", "192.0.2.1")], true),
    ] {
        let mut cloudflare = FakeCloudflare::new(&[theirs(NAME, "")], records);
        cloudflare.run_loop(&[wildcard("home")], usize::MAX);
        let plan = cloudflare.run_loop(&[wildcard("office")], usize::MAX);
        let label = if is_refused { "rule_left_behind" } else { "moving" };
        assert_eq!(
            plan.refusals.iter().map(|one| one.reason.label_value()).collect::<Vec<_>>(),
            [label],
            "{records:?}"
        );
    }
}

/// Their rule was made beside ours, or below our wildcard.
#[test]
fn a_withdrawn_hostname_keeps_its_record_while_visitors_reach_a_foreign_rule_by_it() {
    for (name, their_path) in [(NAME, "^/theirs$"), ("*.example.com", "")] {
        let ours = endpoint(name, &[("tunnel-service", "http://web:80"), ("tunnel-path", "^/a$")]);
        let mut cloudflare = FakeCloudflare::new(&[theirs(NAME, their_path)], &[]);
        cloudflare.run_loop(std::slice::from_ref(&ours), usize::MAX);
        for loops in 0..3 {
            let plan = cloudflare.run_loop(&[], usize::MAX);
            assert_eq!((&plan.refusals[..], plan.hosts.is_empty()), (&[][..], loops > 0), "{name}");
            assert_eq!(services(&cloudflare, HOME), ["http://theirs:80", "http_status:503"], "{name}");
            assert_eq!(*cloudflare.records[0].content, *target(HOME), "{name}");
            let shown = records(&cloudflare.snapshot());
            let [note] = &shown.notes[..] else { panic!("{name}: {shown:?}") };
            assert!(
                note.text.contains("visitors reach the foreign rule") && shown.endpoints.is_empty(),
                "{note:?}"
            );
            let comment = &cloudflare.records[0].comment;
            assert!(comment.ends_with(" rules=~") && !comment.contains("resource="), "{comment}");
            assert!(listing(&cloudflare.snapshot()).iter().any(|entry| *entry.hostname == *name), "{name}");
            let told = paths_of(&Hostname::parse(name).unwrap(), &cloudflare.snapshot());
            assert!(told[0].what.contains("the record's comment names no rule that exists;"), "{told:?}");
        }
        let again = cloudflare.clone().run_loop(std::slice::from_ref(&ours), usize::MAX);
        assert_eq!(again.refusals, [], "{name}");
        cloudflare.edit_rules(HOME, |rules| rules.retain(|rule| !rule.contains("theirs")));
        cloudflare.run_loop(&[], usize::MAX);
        assert_eq!(cloudflare.records, [], "{name}");
    }
}

/// The object has a mistake, and our rule was deleted by hand.
#[test]
fn a_record_of_a_refused_endpoint_is_not_taken_for_one_that_is_kept_for_a_foreign_rule() {
    let said = |timeout: &str| {
        let properties = [("tunnel-service", "http://web:80"), ("origin-connect-timeout", timeout)];
        [endpoint_of("ingress/shop/web", NAME, &properties)]
    };
    let mut cloudflare = FakeCloudflare::new(&[theirs(NAME, "^/theirs$")], &[]);
    cloudflare.run_loop(&said("5s"), usize::MAX);
    cloudflare.edit_rules(HOME, |rules| rules.retain(|rule| !rule.contains("web")));
    for _ in 0..2 {
        cloudflare.run_loop(&said("soon"), usize::MAX);
        let shown = records(&cloudflare.snapshot());
        assert_eq!((shown.notes, shown.endpoints.len()), (vec![], 1));
    }
}

/// The request ended before its rule was written, and the object goes or has a mistake then.
#[test]
fn a_new_record_in_front_of_a_wildcard_goes_although_its_tunnel_has_a_foreign_rule() {
    let wanted = |timeout: &str| {
        endpoint(NAME, &[("tunnel-service", "http://web:80"), ("origin-connect-timeout", timeout)])
    };
    for desired in [vec![], vec![wanted("soon")]] {
        let wildcard = ("*.example.com", "CNAME", &*target(OFFICE));
        let mut cloudflare = FakeCloudflare::new(&[theirs(NAME, "^/theirs$")], &[wildcard]);
        cloudflare.run_loop(&[wanted("5s")], 1);
        assert_eq!(cloudflare.snapshot().visited_tunnel(NAME), Some(tunnel_id(HOME)));
        cloudflare.run_loop(&desired, usize::MAX);
        assert_eq!(cloudflare.snapshot().visited_tunnel(NAME), Some(tunnel_id(OFFICE)), "{desired:?}");
    }
}

/// Its rule was there, so visitors reached the foreign rule by the record.
#[test]
fn a_new_record_that_was_kept_for_a_foreign_rule_stays_beside_a_mistake() {
    let wildcard = ("*.example.com", "CNAME", &*target(OFFICE));
    let mut cloudflare = FakeCloudflare::new(&[theirs(NAME, "^/theirs$")], &[wildcard]);
    for desired in [vec![published(NAME, "http://web:80")], vec![], vec![published(NAME, "no service")]] {
        cloudflare.run_loop(&desired, usize::MAX);
        cloudflare.pass(60);
    }
    assert_eq!(cloudflare.snapshot().visited_tunnel(NAME), Some(tunnel_id(HOME)));
}

/// The zone of the foreign rule's name is left out by a filter, so its records are not known.
#[test]
fn a_wildcards_record_is_not_kept_for_a_name_of_a_zone_that_was_not_read() {
    let wildcard = published("*.example.com", "http://web:80");
    let mut cloudflare = FakeCloudflare::new(&[theirs("x.a.example.com", "")], &[]);
    cloudflare.run_loop(std::slice::from_ref(&wildcard), usize::MAX);
    cloudflare.edit_rules(HOME, |rules| rules.retain(|rule| !rule.contains("web")));
    cloudflare.records[0].comment = "external-dns owner=default rules=~".into();
    let mut reading = cloudflare.reading();
    assert!(records(&cloudflare.snapshot()).endpoints.is_empty(), "the wildcard leads to their rule");
    let inner = Zone { name: NAME.into(), id: ZoneId::new("inner"), ..reading.zones[0].zone.clone() };
    reading.excluded_zones.push(inner);
    assert_eq!(records(&Snapshot::new(reading)).endpoints.len(), 1);
}

/// The object asked for the record of their rule alone.
#[test]
fn a_record_that_was_asked_for_without_a_rule_is_deleted_from_under_a_foreign_rule() {
    let mut cloudflare = FakeCloudflare::new(&[theirs(NAME, "^/theirs$")], &[]);
    cloudflare.run_loop(&[on("home", "", "none")], usize::MAX);
    assert_eq!(cloudflare.records.len(), 1);
    let plan = cloudflare.run_loop(&[], usize::MAX);
    assert_eq!((&plan.refusals[..], &cloudflare.records[..]), (&[][..], &[][..]));
}

/// Each of the two records was left out of the deletion for the sake of the other.
#[test]
fn a_foreign_rule_keeps_its_visitors_if_its_hostname_is_withdrawn_together_with_our_wildcard() {
    let wildcard =
        |tunnel| endpoint("*.example.com", &[("tunnel-service", "http://wild:80"), ("tunnel", tunnel)]);
    let both = [on("home", "", "http://web:80"), wildcard("home")];
    for left in [vec![], vec![wildcard("office")]] {
        let mut cloudflare = FakeCloudflare::new(&[theirs(NAME, "^/theirs$")], &[]);
        cloudflare.run_loop(&both, usize::MAX);
        for _ in 0..4 {
            cloudflare.run_loop(&left, usize::MAX);
            let snapshot = cloudflare.snapshot();
            assert_eq!(snapshot.visited_tunnel(NAME), Some(tunnel_id(HOME)), "{left:?}");
        }
    }
}

/// Records without claims counted as hostnames that stay, and held their hostnames for the namespace before.
#[test]
fn a_record_that_is_kept_for_a_foreign_rule_is_no_hostname_that_stays_and_is_of_no_namespace() {
    let names: Vec<String> = (0..12).map(|number| format!("h{number:02}.example.com")).collect();
    let their_rules: Vec<String> = names[..6].iter().map(|name| theirs(name, "^/theirs$")).collect();
    let of = |namespace: &str, port: u16, name: &String| {
        let service = format!("http://web.{namespace}.svc:{port}");
        endpoint_of(&format!("ingress/{namespace}/web"), name, &[("tunnel-service", &*service)])
    };
    let ours: Vec<Endpoint> = names.iter().map(|name| of("shop", 80, name)).collect();
    for guard in [false, true] {
        let mut cloudflare = FakeCloudflare::new(&their_rules, &[]);
        (cloudflare.namespace_guard, cloudflare.mass_deletion_limit) = (guard, 5);
        for kept in 0..=6 {
            assert_eq!(cloudflare.run_loop(&ours[kept..], usize::MAX).refusals, []);
        }
        let refusals = cloudflare.clone().run_loop(&[], usize::MAX).refusals;
        let withheld = refusals.iter().filter(|refusal| refusal.reason.label_value() == "mass_deletion");
        assert_eq!(withheld.count(), 6, "{guard}: {refusals:?}");
        for port in [80, 81] {
            let desired = [&[of("blog", port, &names[0])], &ours[6..]].concat();
            assert_eq!(cloudflare.run_loop(&desired, usize::MAX).refusals, [], "{guard} {port}");
            assert_eq!(cloudflare.run_loop(&desired, usize::MAX).hosts, [], "{guard} {port}");
        }
    }
}

/// A record of its own would lead the visitors of their rule elsewhere.
#[test]
fn a_rule_that_a_wildcard_leads_visitors_to_in_another_tunnel_holds_the_name() {
    let records = |leads_to: &str| [("*.example.com", "CNAME", target(leads_to))];
    for (their_path, label, leads_to) in [
        ("", "rule_left_behind", OFFICE),
        ("^/x$", "rule_left_behind", OFFICE),
        // No visitor reaches it.
        ("", "", HOME),
    ] {
        let [(name, kind, content)] = records(leads_to);
        let mut cloudflare = FakeCloudflare::new(&[], &[(name, kind, &content)]).adopting(&["all"]);
        cloudflare.edit_rules(OFFICE, |rules| rules.extend([theirs(NAME, their_path), REST.to_owned()]));
        let before = cloudflare.clone();
        let plan = cloudflare.run_loop(&[on("home", "", "http://web:80")], usize::MAX);
        if label.is_empty() {
            assert_eq!(refused(&plan), []);
            continue;
        }
        assert_eq!(refused(&plan), [(String::new(), label)], "{their_path}");
        let told = plan.refusals[0].to_string();
        assert!(told.contains(OFFICE) && !told.contains("ADOPT"), "{told}");
        assert_eq!(cloudflare, before);
        // In the tunnel that visitors are led to there is room for both.
        let plan = cloudflare.run_loop(&[on("office", "^/ours$", "http://web:80")], usize::MAX);
        assert_eq!(refused(&plan), []);
    }
}

/// A path alone leaves all other requests of its hostname to wider rules, and these are in the tunnel that visitors
/// reach.
#[test]
fn a_path_alone_does_not_take_the_rest_of_its_hostname_from_a_foreign_rule() {
    for (theirs, records) in [
        (theirs("*.example.com", ""), vec![("*.example.com", "CNAME", target(HOME))]),
        (theirs("*.example.com", ""), vec![]),
        (theirs("*.example.com", "^/health$"), vec![]),
    ] {
        let records: Vec<_> = records.iter().map(|(name, kind, to)| (*name, *kind, &**to)).collect();
        let mut cloudflare = FakeCloudflare::new(std::slice::from_ref(&theirs), &records);
        if records.is_empty() {
            assert_eq!(refused(&cloudflare.run_loop(&[on("home", "^/a$", "http://web:80")], usize::MAX)), []);
        }
        let before = cloudflare.clone();
        let plan = cloudflare.run_loop(&[on("office", "^/a$", "http://web:80")], usize::MAX);
        assert!(
            refused(&plan).contains(&("^/a$".to_owned(), "rule_left_behind")),
            "{theirs} {:?}",
            plan.refusals
        );
        assert_eq!(cloudflare, before, "{theirs}");
        let whole = [on("office", "^/a$", "http://web:80"), on("office", "", "http://web:80")];
        (0..4).for_each(|_| drop(cloudflare.run_loop(&whole, usize::MAX)));
        assert_eq!(
            refused(&cloudflare.run_loop(&whole, usize::MAX)),
            [],
            "all requests are asked for: {theirs}"
        );
        let plan = cloudflare.run_loop(&[whole[0].clone()], usize::MAX);
        assert_eq!(refused(&plan), [], "the record is there already: {theirs}");

        let mut cloudflare = before;
        (0..2).for_each(|_| drop(cloudflare.run_loop(&[on("home", "", "http://web:80")], usize::MAX)));
        let plan = cloudflare.run_loop(&[on("office", "^/a$", "http://web:80")], usize::MAX);
        assert!(
            refused(&plan).contains(&("^/a$".to_owned(), "rule_left_behind")),
            "{theirs} {:?}",
            plan.refusals
        );
    }
}

/// `^/\.well-known/` of all hostnames is often in each tunnel, and a catch-all serves whatever no rule takes.
#[test]
fn a_path_alone_leaves_a_foreign_rule_of_every_hostname_and_not_a_foreign_catch_all() {
    for (rule, is_refused) in [
        (r#"{"path":"^/health$","service":"http://theirs:80"}"#, false),
        (r#"{"service":"http://theirs:80"}"#, true),
    ] {
        let mut cloudflare = FakeCloudflare::new(&[], &[]);
        cloudflare.edit_rules(HOME, |rules| *rules = vec![rule.to_owned(), REST.to_owned()]);
        if is_refused {
            cloudflare.edit_rules(HOME, |rules| rules.truncate(1));
        }
        cloudflare.run_loop(&[on("home", "^/a$", "http://web:80")], usize::MAX);
        let plan = cloudflare.run_loop(&[on("office", "^/a$", "http://web:80")], usize::MAX);
        let labels: Vec<_> = refused(&plan).into_iter().map(|(_, label)| label).collect();
        assert_eq!(labels.contains(&"rule_left_behind"), is_refused, "{rule}: {labels:?}");
    }
}

/// Our own wildcard has all other requests of the hostname, and the foreign catch-all behind it has none.
#[test]
fn a_path_alone_may_leave_the_rest_of_its_hostname_to_our_own_wildcard() {
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    cloudflare.edit_rules(HOME, |rules| *rules = vec![r#"{"service":"http://theirs:80"}"#.to_owned()]);
    let wildcard = endpoint("*.example.com", &[("tunnel-service", "http://wild:80"), ("tunnel", "home")]);
    let desired = [wildcard, on("office", "^/a$", "http://web:80")];
    (0..3).for_each(|_| drop(cloudflare.run_loop(&desired, usize::MAX)));
    assert_eq!(refused(&cloudflare.run_loop(&desired, usize::MAX)), []);
    assert_eq!(cloudflare.snapshot().visited_tunnel(NAME), Some(tunnel_id(OFFICE)));
}

/// A first record of the wildcard would answer for the name in place of the wider wildcard's record.
#[test]
fn a_first_wildcard_does_not_take_a_name_below_it_from_a_foreign_rule() {
    let records = [("*.example.com", "CNAME", &*target(HOME))];
    for (tunnel, label) in [("office", Some("rule_left_behind")), ("home", None)] {
        let mut cloudflare = FakeCloudflare::new(&[theirs("a.dev.example.com", "")], &records);
        let properties = [("tunnel-service", "http://web:80"), ("tunnel", tunnel)];
        let plan = cloudflare.run_loop(&[endpoint("*.dev.example.com", &properties)], usize::MAX);
        assert_eq!(refused(&plan).first().map(|(_, label)| *label), label, "{tunnel}");
    }
}

/// A wildcard does not answer for a name below one that has a record (RFC 4592).
#[test]
fn a_first_record_above_the_name_of_a_foreign_rule_is_told() {
    let records = [("*.example.com", "CNAME", &*target(HOME))];
    let mut cloudflare = FakeCloudflare::new(&[theirs("a.dev.example.com", "")], &records);
    let plan = cloudflare
        .run_loop(&[endpoint("dev.example.com", &[("tunnel-service", "http://web:80")])], usize::MAX);
    assert!(plan.notes.iter().any(|note| note.text.contains("\"a.dev.example.com\"")), "{:?}", plan.notes);
    let plan = cloudflare
        .run_loop(&[endpoint("shop.example.com", &[("tunnel-service", "http://web:80")])], usize::MAX);
    assert_eq!(plan.notes, []);
}

/// Wherever a request ends, the tunnel that visitors reach has a rule of the hostname.
#[test]
fn a_hostname_behind_a_wildcard_is_taken_over_where_it_is_and_then_moves() {
    for (first, second) in (0..8).flat_map(|first| (0..8).map(move |second| (first, second))) {
        let mut cloudflare =
            FakeCloudflare::new(&[], &[("*.example.com", "CNAME", &target(OFFICE))]).adopting(&["all"]);
        cloudflare.edit_rules(OFFICE, |rules| rules.extend([theirs(NAME, ""), REST.to_owned()]));
        let [here, there] = ["office", "home"].map(|tunnel| [on(tunnel, "", "http://web:80")]);
        for (desired, writes) in [
            (&here, first),
            (&here, usize::MAX),
            (&there, second),
            (&there, usize::MAX),
            (&there, usize::MAX),
            (&there, usize::MAX),
        ] {
            let plan = cloudflare.run_loop(desired, writes);
            let reached = cloudflare.snapshot().visited_tunnel(NAME).expect("a record");
            let answers = services(&cloudflare, reached.as_str());
            assert!(answers.iter().any(|one| one.contains("//")), "{first} {second} {writes}: {answers:?}");
            assert!(plan.refusals.iter().all(|one| one.reason.label_value() == "moving"), "{plan:?}");
        }
        assert_eq!(services(&cloudflare, OFFICE), ["http_status:404"]);
        assert_eq!(services(&cloudflare, HOME), ["http://web:80", "http_status:404"]);
        let written = cloudflare.writes;
        cloudflare.run_loop(&there, usize::MAX);
        assert_eq!(cloudflare.writes, written);
    }
}

/// The name below has a record in a zone inside the wildcard's.
#[test]
fn a_wildcards_rule_that_serves_a_name_of_an_inner_zone_is_not_taken_back() {
    let (wildcard, inner) = ("*.example.com", "x.a.example.com");
    let mut cloudflare = FakeCloudflare::new(&[theirs(wildcard, "")], &[]);
    cloudflare.add_inner_zone(true);
    cloudflare.add(inner, "CNAME", &target(HOME), "");
    let before = cloudflare.clone();
    let plan = cloudflare.run_loop(&[published(wildcard, "http://theirs:80")], usize::MAX);
    assert_eq!(refused(&plan), [(String::new(), "rule_held")], "{plan:?}");
    cloudflare.run_loop(&[], usize::MAX);
    assert_eq!((&cloudflare.records, &cloudflare.documents), (&before.records, &before.documents));
}

/// Visitors are served by it. If it were taken back, it would be deleted with the object.
#[test]
fn a_rule_that_a_record_leads_to_is_not_taken_back() {
    let wildcard_host = published("*.a.example.com", "http://theirs:80");
    for (desired, record, is_taken_back) in [
        (on("home", "", "http://theirs:80"), ("*.example.com", HOME), false),
        (on("home", "", "http://theirs:80"), ("*.example.com", OFFICE), true),
        (on("home", "", "http://theirs:80"), ("b.example.com", HOME), true),
        (wildcard_host.clone(), ("x.a.example.com", HOME), false),
        (wildcard_host, ("b.example.com", HOME), true),
    ] {
        let (name, leads_to) = record;
        let mut cloudflare =
            FakeCloudflare::new(&[theirs(&desired.dns_name, "")], &[(name, "CNAME", &target(leads_to))]);
        let before = cloudflare.clone();
        let plan = cloudflare.run_loop(std::slice::from_ref(&desired), usize::MAX);
        if is_taken_back {
            assert_eq!(refused(&plan), [], "{record:?}");
            continue;
        }
        let [refusal] = &plan.refusals[..] else { panic!("{plan:?}") };
        assert!(matches!(&refusal.reason, Reason::RuleHeld { adopt, .. } if &**adopt == "all"), "{refusal}");
        cloudflare.run_loop(&[], usize::MAX);
        assert_eq!(cloudflare, before, "{record:?}");
        let mut cloudflare = cloudflare.adopting(&["all"]);
        assert_eq!(refused(&cloudflare.run_loop(&[desired], usize::MAX)), [], "{record:?}");
    }
}

/// Visitors of the wildcard would get the foreign rule's answer, past the check of ours.
#[test]
fn a_hostname_that_would_move_a_rule_with_a_login_behind_a_foreign_one_is_refused_before_anything_is_written()
{
    let theirs = r#"{"hostname":"*.example.com","path":"^/admin/old","service":"http://theirs:80"}"#;
    let login = [("access-required", "true"), ("access-team-name", "my-team"), ("access-aud-tag", "tag")];
    let wide = |login: &[(&str, &str)]| {
        let rule = [("tunnel-path", "^/admin"), ("tunnel-service", "http://admin:80")];
        endpoint("*.example.com", &[&rule, login].concat())
    };
    let new = endpoint(NAME, &[("tunnel-service", "http://web:80")]);
    for login in [&login[..], &[]] {
        let mut cloudflare = FakeCloudflare::new(&[], &[]);
        cloudflare.run_loop(&[wide(login)], usize::MAX);
        cloudflare.edit_rules(HOME, |rules| rules.insert(1, theirs.to_owned()));
        let before = cloudflare.clone();
        let desired = [wide(login), new.clone()];
        let plan = cloudflare.run_loop(&desired, usize::MAX);
        let notes = plan.notes.iter().map(|note| note.text.clone()).collect::<Vec<_>>();
        if login.is_empty() {
            let [note] = &*notes else { panic!("{notes:?}") };
            let told = r#"the rule for "*.example.com" "^/admin" moves behind the foreign rule for "*.example.com" "^/admin/old""#;
            assert!(note.starts_with(told), "{note}");
            assert_eq!(
                services(&cloudflare, HOME)[..3],
                ["http://theirs:80", "http://web:80", "http://admin:80"]
            );
            let plan = cloudflare.run_loop(&desired, usize::MAX);
            assert_eq!((refused(&plan), plan.notes), (vec![], vec![]), "it is told where it moves");
        } else {
            assert_eq!((refused(&plan), notes), (vec![(String::new(), "rule_conflict")], vec![]), "{plan:?}");
            let text = plan.refusals[0].reason.to_string();
            assert!(text.contains(r#""*.example.com" "^/admin", which requires a login"#), "{text}");
            assert_eq!(cloudflare, before);
            cloudflare.edit_rules(HOME, |rules| rules.retain(|rule| rule != theirs));
            assert_eq!(refused(&cloudflare.run_loop(&desired, usize::MAX)), [], "it is published then");
        }
    }
}

/// The rule that would move goes in the same request.
#[test]
fn a_path_that_is_reworded_behind_a_foreign_rule_tells_of_no_move() {
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    cloudflare.run_loop(&[on("home", "old$", "http://web:80")], usize::MAX);
    cloudflare.edit_rules(HOME, |rules| rules.insert(1, theirs("*.example.com", "^/a")));
    let plan = cloudflare.run_loop(&[on("home", "^/b|^/a", "http://web:80")], usize::MAX);
    assert_eq!((refused(&plan), plan.notes), (vec![], vec![]));
}

/// The rule that a path replaces hides a foreign rule. Without it the new one would have to stand behind that, and move
/// the login of another hostname there. Invariant 5 of docs/how-it-works.md.
#[test]
fn a_rule_that_takes_the_place_of_a_wider_one_of_its_hostname_moves_no_login_behind_what_that_one_hid() {
    let check = [("access-required", "true"), ("access-team-name", "team"), ("access-aud-tag", "a")];
    let login = [("tunnel-service", "http://login:80"), ("tunnel-path", "^/admin")];
    let login = endpoint("*.example.com", &[&login[..], &check].concat());
    for before in
        [on("home", "", "http://web:80"), endpoint("*.example.com", &[("tunnel-service", "http://web:80")])]
    {
        let mut cloudflare = FakeCloudflare::new(&[], &[]);
        cloudflare.run_loop(&[login.clone(), before], usize::MAX);
        cloudflare.edit_rules(HOME, |rules| rules.insert(2, theirs(NAME, "^/(admin|x)")));
        let desired = [login.clone(), on("home", "^/a", "http://web:80")];
        let plan = cloudflare.run_loop(&desired, usize::MAX);
        assert_eq!(plan.refusals, [], "the edit refuses nothing either");
        let rules = cloudflare.document(&tunnel_id(HOME)).rules();
        let served: Vec<_> =
            rules.iter().map(|rule| (rule.hostname(), rule.path().unwrap_or_default())).collect();
        let expected = [(NAME, "^/a"), ("*.example.com", "^/admin"), (NAME, "^/(admin|x)"), ("", "")];
        assert_eq!(served, expected);
    }
}
