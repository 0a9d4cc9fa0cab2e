//! `NAMESPACE_GUARD`: objects publish services of their own namespace only, and take no hostname from another one.

use std::ops::Range;

use external_dns_cloudflare_tunnel_webhook::ingress::OriginOption;
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use external_dns_cloudflare_tunnel_webhook::reconcile::plan::Plan;
use external_dns_cloudflare_tunnel_webhook::reconcile::reason::Reason;
use external_dns_cloudflare_tunnel_webhook::reconcile::records;
use external_dns_cloudflare_tunnel_webhook::reconcile::stamp::{NamespaceCode, Stamp};
use proptest::prelude::*;
use test_support::fake_cloudflare::{FakeCloudflare, HOME, OFFICE, options, tunnel_id};
use test_support::harness::endpoint_of;

pub(crate) const NAME: &str = "a.example.com";

/// An endpoint of `ingress/<namespace>/<name>` with a path, or without where it is empty.
pub(crate) fn of(resource: &str, path: &str, service: &str) -> Endpoint {
    endpoint_of(resource, NAME, &[("tunnel-service", service), ("tunnel-path", path)])
}

pub(crate) fn guarded() -> FakeCloudflare {
    guard(FakeCloudflare::new(&[], &[]))
}

fn guard(mut cloudflare: FakeCloudflare) -> FakeCloudflare {
    cloudflare.namespace_guard = true;
    cloudflare
}

/// What is published: path and service.
pub(crate) fn services(cloudflare: &FakeCloudflare) -> Vec<(String, String)> {
    let rules = cloudflare.document(&tunnel_id(HOME)).rules().iter();
    rules
        .filter(|rule| !rule.hostname().is_empty())
        .map(|rule| (rule.path().unwrap_or_default().to_owned(), rule.service().to_owned()))
        .collect()
}

pub(crate) fn run(cloudflare: &mut FakeCloudflare, desired: &[Endpoint]) -> Plan {
    cloudflare.run_loop(desired, usize::MAX)
}

pub(crate) fn rule(path: &str, service: &str) -> (String, String) {
    (path.to_owned(), service.to_owned())
}

#[test]
fn a_default_of_the_operator_is_allowed() {
    let mut cloudflare = guarded();
    cloudflare.origin_defaults = options(&[(OriginOption::CaPool, "/etc/ca.pem")]);
    let plan = run(&mut cloudflare, &[of("ingress/shop/web", "", "https://web.shop.svc:443")]);
    assert_eq!(plan.refusals, []);
    assert_eq!(services(&cloudflare), [rule("", "https://web.shop.svc:443")]);
}

/// The rule is deleted by hand, or goes with its tunnel, while the object has a mistake: the comment then names no
/// rule.
#[test]
fn a_hostname_stays_its_namespaces_while_its_object_has_a_mistake_and_its_rule_is_gone() {
    for (tunnel, is_tunnel_gone) in [("home", false), ("office", true)] {
        let by = |namespace: &str, said: &[(&str, &str)]| {
            let service = format!("http://web.{namespace}.svc:80");
            let properties = [&[("tunnel-service", &*service)], said].concat();
            endpoint_of(&format!("ingress/{namespace}/web"), NAME, &properties)
        };
        let mut cloudflare = guarded();
        run(&mut cloudflare, &[by("shop", &[("tunnel", tunnel)])]);
        if is_tunnel_gone {
            cloudflare.documents.remove(&tunnel_id(OFFICE));
        } else {
            cloudflare.edit_rules(HOME, |rules| rules.retain(|rule| !rule.contains("hostname")));
        }
        let desired = [by("shop", &[("origin-connect-timeout", "soon")]), by("evil", &[])];
        for _ in 0..3 {
            run(&mut cloudflare, &desired);
        }
        assert_eq!(services(&cloudflare), [], "{tunnel}");
        run(&mut cloudflare, &[]);
        run(&mut cloudflare, &[by("evil", &[])]);
        assert_eq!(services(&cloudflare), [rule("", "http://web.evil.svc:80")], "{tunnel}");
    }
}

#[test]
fn an_endpoint_without_a_namespace_is_refused() {
    for resource in ["", "shop", "ingress/shop", "a/b/c/d"] {
        let mut cloudflare = guarded();
        let plan = run(&mut cloudflare, &[of(resource, "", "http_status:404")]);
        let text = plan.refusals[0].to_string();
        assert!(text.contains("no resource label kind/namespace/name"), "{resource}: {text}");
        assert_eq!(cloudflare, guarded(), "{resource}");
    }
}

#[test]
fn a_hostname_of_one_namespace_is_not_taken_by_another() {
    let shop = of("ingress/shop/web", "", "http://web.shop.svc:80");
    for path in ["", "^/api$"] {
        let bank = of("ingress/bank/web", path, "http://web.bank.svc:80");
        let mut cloudflare = guarded();
        run(&mut cloudflare, std::slice::from_ref(&shop));
        let before = cloudflare.clone();
        let desired: &[Endpoint] =
            if path.is_empty() { std::slice::from_ref(&bank) } else { &[bank.clone(), shop.clone()] };
        for _ in 0..3 {
            let plan = run(&mut cloudflare, desired);
            assert_eq!(cloudflare, before, "{path:?}");
            let text = plan.refusals[0].to_string();
            assert!(text.contains("refused=namespace_held"), "{text}");
            assert!(text.contains(&format!("ns={}", NamespaceCode::of("shop"))), "{text}");
        }
        // Deleted there, it is free.
        run(&mut cloudflare, &[]);
        assert_eq!(services(&cloudflare), []);
        run(&mut cloudflare, std::slice::from_ref(&bank));
        assert_eq!(services(&cloudflare), [rule(path, "http://web.bank.svc:80")]);
    }
}

/// The comment of a Free zone holds 100 bytes. The field with the namespace never gives way to other fields.
#[test]
fn the_namespace_stays_in_the_stamp_where_space_is_short() {
    let long = format!("ingress/shop/{}", "w".repeat(63));
    let mut cloudflare = guarded();
    run(&mut cloudflare, &[of(&long, "", "http://web.shop.svc:80")]);
    let comment = cloudflare.records[0].comment.clone();
    assert!(!comment.contains("resource="), "{comment}");
    assert_eq!(Stamp::parse(&comment).expect("a stamp").namespace, Some(NamespaceCode::of("shop")));

    let before = cloudflare.clone();
    let plan = run(&mut cloudflare, &[of("ingress/bank/web", "", "http://web.bank.svc:80")]);
    assert_eq!(cloudflare, before, "{plan:?}");

    // Nor does it give way to rules, of which 19 have room beside it.
    let mut cloudflare = guarded();
    let path = |number: usize| of("ingress/shop/web", &format!("^/p{number:02}$"), "http://web.shop.svc:80");
    run(&mut cloudflare, &(0..19).map(path).collect::<Vec<_>>());
    let plan = run(&mut cloudflare, &(0..25).map(path).collect::<Vec<_>>());
    let full = plan.refusals.iter().filter(|refusal| matches!(refusal.reason, Reason::StampFull { .. }));
    assert_eq!((full.count(), services(&cloudflare).len()), (6, 19), "{plan:?}");
    let stamp = Stamp::parse(&cloudflare.records[0].comment).expect("a stamp");
    assert_eq!(stamp.namespace, Some(NamespaceCode::of("shop")));
}

#[test]
fn of_two_namespaces_in_one_request_the_smaller_resource_gets_a_free_hostname() {
    let shop = of("ingress/shop/web", "^/shop$", "http://web.shop.svc:80");
    let bank = of("ingress/bank/web", "^/bank$", "http://web.bank.svc:80");
    for desired in [[shop.clone(), bank.clone()], [bank, shop]] {
        let mut cloudflare = guarded();
        let plan = run(&mut cloudflare, &desired);
        assert_eq!(services(&cloudflare), [rule("^/bank$", "http://web.bank.svc:80")]);
        assert!(matches!(plan.refusals[0].reason, Reason::NamespaceHeld { .. }), "{plan:?}");
        let writes = cloudflare.writes;
        run(&mut cloudflare, &desired);
        assert_eq!(cloudflare.writes, writes);
    }
    // One that may not have it does not count.
    let refused = of("ingress/bank/web", "^/bank$", "http://web.shop.svc:80");
    let shop = of("ingress/shop/web", "^/shop$", "http://web.shop.svc:80");
    let mut cloudflare = guarded();
    run(&mut cloudflare, &[refused, shop]);
    assert_eq!(services(&cloudflare), [rule("^/shop$", "http://web.shop.svc:80")]);
}

/// A hostname that was published before belongs to the namespace of the object that its stamp names, or else to that of
/// the services of its rules.
#[test]
fn switched_on_later_the_guard_goes_by_the_resource_in_the_stamp() {
    let shop = |path: &str, service: &str| of("ingress/shop/web", path, service);
    let bank = |path: &str| of("ingress/bank/web", path, "http://web.bank.svc:80");
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    run(&mut cloudflare, &[shop("", "http://web.shop.svc:80")]);
    let mut cloudflare = guard(cloudflare);
    let writes = cloudflare.writes;
    let unchanged = [shop("", "http://web.shop.svc:80")];
    run(&mut cloudflare, &unchanged);
    assert_eq!(cloudflare.writes, writes, "nothing is written because of the guard alone");
    let plan = run(&mut cloudflare, &[bank("")]);
    assert!(matches!(plan.refusals[0].reason, Reason::NamespaceHeld { .. }), "{plan:?}");
    run(&mut cloudflare, &[shop("", "http://web.shop.svc:81")]);
    let stamp = Stamp::parse(&cloudflare.records[0].comment).expect("a stamp");
    assert_eq!(stamp.namespace, Some(NamespaceCode::of("shop")));

    // The same with two rules.
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    let both = [shop("^/a$", "http://web.shop.svc:80"), shop("^/b$", "http://web.shop.svc:80")];
    run(&mut cloudflare, &both);
    let mut cloudflare = guard(cloudflare);
    let plan = run(&mut cloudflare, &[both[0].clone(), both[1].clone(), bank("^/c$")]);
    assert!(matches!(plan.refusals[0].reason, Reason::NamespaceHeld { .. }), "{plan:?}");
    let changed = shop("^/a$", "http://web.shop.svc:81");
    let plan = run(&mut cloudflare, &[changed, both[1].clone(), bank("^/c$")]);
    assert!(matches!(plan.refusals[0].reason, Reason::NamespaceHeld { .. }), "{plan:?}");
    let stamp = Stamp::parse(&cloudflare.records[0].comment).expect("a stamp");
    assert_eq!(stamp.namespace, Some(NamespaceCode::of("shop")));

    // Switched off again, what is there stays there.
    cloudflare.namespace_guard = false;
    run(&mut cloudflare, &[both[0].clone(), of("ingress/other/web", "^/d$", "http://any:80")]);
    let comment = &cloudflare.records[0].comment;
    assert!(comment.contains(&format!(" ns={}", NamespaceCode::of("shop"))), "{comment}");
    assert_eq!(services(&cloudflare).len(), 2);
}

/// Paths of the namespace `shop`, all with one service.
fn shop_paths(numbers: Range<usize>, service: &str) -> Vec<Endpoint> {
    let service = format!("http://{service}.shop.svc:80");
    numbers.map(|number| of("ingress/shop/web", &format!("^/p{number:02}$"), &service)).collect()
}

fn namespace_in(cloudflare: &FakeCloudflare) -> Option<String> {
    Stamp::parse(&cloudflare.records.first()?.comment)?.namespace.map(|code| code.to_string())
}

/// 20 to 22 rules leave no room for `ns=` in the comment of a Free zone.
#[test]
fn switched_on_later_the_guard_freezes_no_hostname_whose_comment_is_full() {
    for count in 20..=22 {
        let mut cloudflare = FakeCloudflare::new(&[], &[]);
        run(&mut cloudflare, &shop_paths(0..count, "web"));
        assert_eq!(services(&cloudflare).len(), count);
        let mut cloudflare = guard(cloudflare);

        let desired = [shop_paths(1..count, "other"), shop_paths(50..51, "web")].concat();
        let plan = run(&mut cloudflare, &desired);
        let full = plan.refusals.iter().filter(|one| matches!(one.reason, Reason::StampFull { .. }));
        assert_eq!((full.count(), services(&cloudflare).len()), (1, count), "{count}");
        run(&mut cloudflare, &shop_paths(1..count, "other"));
        let served = services(&cloudflare);
        assert_eq!(served.len(), count - 1, "{count}, one withdrawn: {served:?}");
        assert!(
            served.iter().all(|(_, service)| service == "http://other.shop.svc:80"),
            "{count}: {served:?}"
        );
        assert_eq!(namespace_in(&cloudflare).is_some(), count == 20, "{count}: 19 leave room for it");

        let writes = cloudflare.writes;
        run(&mut cloudflare, &shop_paths(1..count, "other"));
        assert_eq!(cloudflare.writes, writes, "{count}: nothing is written for its sake alone");
        run(&mut cloudflare, &[]);
        assert_eq!((services(&cloudflare).len(), cloudflare.records.len()), (0, 0), "{count}");
    }
}

/// Nothing new comes without the namespace, and nothing takes it off again: otherwise a full comment would free the
/// hostname.
#[test]
fn a_comment_that_is_filled_lets_go_of_no_namespace() {
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    run(&mut cloudflare, &shop_paths(0..21, "web"));
    let mut cloudflare = guard(cloudflare);
    for (count, service) in [(22, "other"), (40, "third")] {
        let plan = run(&mut cloudflare, &shop_paths(0..count, service));
        let full = plan.refusals.iter().any(|refusal| matches!(refusal.reason, Reason::StampFull { .. }));
        assert_eq!((full, namespace_in(&cloudflare)), (true, None), "{count}");
        assert_eq!(services(&cloudflare).len(), 21, "{count}");
    }
    run(&mut cloudflare, &shop_paths(0..19, "other"));
    let shop = Some(NamespaceCode::of("shop").to_string());
    assert_eq!(namespace_in(&cloudflare), shop, "the first change that leaves room names it");
    for (count, published) in [(40, 19), (18, 18), (40, 18)] {
        run(&mut cloudflare, &shop_paths(0..count, "other"));
        assert_eq!(
            (namespace_in(&cloudflare), services(&cloudflare).len()),
            (shop.clone(), published),
            "{count}"
        );
        let bank = of("ingress/bank/web", "^/p02$", "http://web.bank.svc:80");
        let plan = run(&mut cloudflare.clone(), &[bank]);
        let held = plan.refusals.iter().filter(|one| matches!(one.reason, Reason::NamespaceHeld { .. }));
        assert_eq!(held.count(), 1, "{count}: {plan:?}");
    }
}

/// ExternalDNS merges the objects of a hostname, of whatever namespaces, and sends a stranger's path in place of the
/// holder's.
#[test]
fn what_is_refused_withdraws_nothing_of_its_own_namespace_or_of_another() {
    let shop = |path: &str, service: &str| of("ingress/shop/web", path, service);
    let mut cloudflare = guarded();
    run(&mut cloudflare, &[shop("^/a$", "http://web.shop.svc:80")]);
    let before = cloudflare.clone();
    for refused in [
        shop("^/a$", "http://web.bank.svc:80"),
        shop("^/b$", "http://web.bank.svc:80"),
        of("ingress/bank/web", "^/b$", "http://web.bank.svc:80"),
        of("ingress/bank/web", "^/b$", "http://web.shop.svc:80"),
        of("ingress/bank/web", "^/b$", "http://web.bank.svc:80/mistake"),
        of("", "^/b$", "http_status:404"),
    ] {
        let plan = run(&mut cloudflare, std::slice::from_ref(&refused));
        assert_eq!(cloudflare, before, "{refused:?}: {plan:?}");
    }
    run(&mut cloudflare, &[]);
    assert_eq!(services(&cloudflare), []);
}

/// The path that the object drops stays beside the refused endpoint, and a hostname moves with all of its paths.
#[test]
fn a_move_that_drops_a_path_waits_for_the_refused_endpoint_of_a_stranger() {
    let shop = |path: &str, tunnel: &str| {
        let asked = [("tunnel-service", "http://web.shop.svc:80"), ("tunnel-path", path), ("tunnel", tunnel)];
        endpoint_of("ingress/shop/web", NAME, &asked)
    };
    let mut cloudflare = guarded();
    run(&mut cloudflare, &[shop("^/a$", "home"), shop("^/b$", "home")]);
    let before = cloudflare.clone();
    let stranger = of("ingress/bank/web", "^/c$", "http://web.bank.svc:80");
    let plan = run(&mut cloudflare, &[shop("^/a$", "office"), stranger]);
    assert_eq!(cloudflare, before, "{plan:?}");
    let told: Vec<&str> = plan.refusals.iter().map(|one| one.reason.label_value()).collect();
    assert_eq!(told, ["two_tunnels", "withheld", "namespace_held"]);
    for _ in 0..4 {
        run(&mut cloudflare, &[shop("^/a$", "office")]);
        cloudflare.pass(3600);
    }
    let paths = cloudflare.document(&tunnel_id(OFFICE)).rules().iter().map(|rule| rule.path());
    assert_eq!(paths.collect::<Vec<_>>(), [Some("^/a$"), None]);
    assert_eq!(services(&cloudflare), []);
}

/// What ExternalDNS's own TXT record says counts like a stamp.
#[test]
fn adoption_goes_by_the_resource_in_heritage() {
    for (namespace, is_taken) in [("shop", true), ("bank", false)] {
        let mut cloudflare = guarded().adopting(&["owner=default"]);
        cloudflare.add(NAME, "A", "192.0.2.1", "");
        let heritage =
            "\"heritage=external-dns,external-dns/owner=default,external-dns/resource=ingress/shop/web\"";
        cloudflare.add("a-a.example.com", "TXT", heritage, "");
        let service = format!("http://web.{namespace}.svc:80");
        let plan = run(&mut cloudflare, &[of(&format!("ingress/{namespace}/web"), "", &service)]);
        assert_eq!(services(&cloudflare).is_empty(), !is_taken, "{namespace}: {plan:?}");
        let held = plan.refusals.iter().any(|refusal| matches!(refusal.reason, Reason::NamespaceHeld { .. }));
        assert_eq!(held, !is_taken, "{namespace}: {plan:?}");
    }
}

/// Otherwise each loop sends the first object by name, and it is refused for ever.
#[test]
fn adjust_and_plan_give_a_hostname_in_heritage_to_the_same_namespace() {
    let mut cloudflare = guarded().adopting(&["owner=default"]);
    cloudflare.add(NAME, "A", "192.0.2.1", "");
    let heritage =
        "\"heritage=external-dns,external-dns/owner=default,external-dns/resource=ingress/shop/web\"";
    cloudflare.add("a-a.example.com", "TXT", heritage, "");
    let wishes = ["bank", "shop"].map(|namespace| {
        of(&format!("ingress/{namespace}/web"), "", &format!("http://web.{namespace}.svc:80"))
    });
    run(&mut cloudflare, &wishes);
    assert_eq!(services(&cloudflare), [rule("", "http://web.shop.svc:80")]);
}

/// A stamp of another owner holds its hostname for its namespace also when it is taken over.
#[test]
fn adoption_does_not_take_a_hostname_from_a_namespace() {
    let shop = NamespaceCode::of("shop");
    for (namespace, is_taken) in [("shop", true), ("bank", false)] {
        let mut cloudflare = guarded().adopting(&["all"]);
        let comment = format!("external-dns owner=other rules=- ns={shop}");
        cloudflare.add(NAME, "CNAME", &tunnel_id(HOME).hostname(), &comment);
        let service = format!("http://web.{namespace}.svc:80");
        let plan = run(&mut cloudflare, &[of(&format!("ingress/{namespace}/web"), "", &service)]);
        assert_eq!(services(&cloudflare).is_empty(), !is_taken, "{namespace}: {plan:?}");
        assert!(
            cloudflare.records[0].comment.contains(&format!("ns={shop}")),
            "{}",
            cloudflare.records[0].comment
        );
    }
}

/// The namespaces of another owner's cluster are not ours, and the remedy is to take the record over or to leave it.
#[test]
fn without_adopt_a_record_of_another_owner_is_refused_for_its_owner() {
    let mut cloudflare = guarded();
    let comment = format!("external-dns owner=other rules=- ns={}", NamespaceCode::of("shop"));
    cloudflare.add(NAME, "CNAME", &tunnel_id(HOME).hostname(), &comment);
    let plan = run(&mut cloudflare, &[of("ingress/bank/web", "", "http://web.bank.svc:80")]);
    let labels: Vec<&str> = plan.refusals.iter().map(|refusal| refusal.reason.label_value()).collect();
    assert_eq!(labels, ["record_held"], "{plan:?}");
}

/// Two rules of `shop`, of two objects, so that the stamp names none. The comment has room for `ns=`.
fn shared_by_two_objects(service: &str) -> [Endpoint; 2] {
    [of("ingress/shop/web", "", "http://web.shop.svc:80"), of("ingress/shop/status", "^/status$", service)]
}

fn drifts(cloudflare: &FakeCloudflare) -> Vec<String> {
    let shown = cloudflare.shown();
    shown.iter().map(|one| one.property("webhook/drift").unwrap_or_default().to_owned()).collect()
}

fn notes(cloudflare: &FakeCloudflare) -> Vec<String> {
    let shown = records::records(&cloudflare.snapshot());
    shown.notes.iter().map(|note| note.line().to_string()).collect()
}

pub(crate) fn after_the_switch(published: &[Endpoint]) -> FakeCloudflare {
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    run(&mut cloudflare, published);
    guard(cloudflare)
}

/// Invariant 10 of docs/how-it-works.md, too.
#[test]
fn switched_on_later_the_guard_writes_the_namespace_that_the_services_of_the_rules_are_of() {
    let both = shared_by_two_objects("http_status:503");
    let mut cloudflare = after_the_switch(&both);
    assert_eq!((drifts(&cloudflare), namespace_in(&cloudflare)), (vec!["namespace".to_owned(); 2], None));
    let plan = run(&mut cloudflare, &both);
    let shop = Some(NamespaceCode::of("shop").to_string());
    assert_eq!((plan.refusals, namespace_in(&cloudflare)), (vec![], shop));
    assert_eq!((drifts(&cloudflare), notes(&cloudflare)), (vec![String::new(); 2], vec![]));
    let writes = cloudflare.writes;
    run(&mut cloudflare, &both);
    assert_eq!(cloudflare.writes, writes);
}

/// Nothing is inferred from what is asked for: not where everything drifts, nor where the holder asks for less or
/// nothing.
#[test]
fn no_other_namespace_takes_a_hostname_whose_stamp_names_none() {
    const WEB: &str = "http://web.shop.svc:80";
    let bank = |path: &str, service: &str| of("ingress/bank/web", path, service);
    let [web, status] = shared_by_two_objects("http_status:503");
    let reworded = of("ingress/shop/status", "^/(status|health)$", "http_status:503");
    let mistaken = of("ingress/shop/status", "^/status$", "http_status:9");
    for stranger in [
        bank("^/status$", "http_status:503"),
        bank("^/status$", "http_status:404"),
        bank("^/new$", "http_status:503"),
        bank("^/new$", "http://web.bank.svc:80"),
        bank("", "http://web.bank.svc:80"),
    ] {
        for holder in [
            vec![web.clone(), status.clone()],
            vec![web.clone(), reworded.clone()],
            vec![web.clone()],
            vec![web.clone(), mistaken.clone()],
            vec![status.clone()],
            vec![mistaken.clone()],
            vec![],
        ] {
            for proxied in [true, false] {
                let mut cloudflare = after_the_switch(&[web.clone(), status.clone()]);
                cloudflare.records[0].proxied = proxied;
                let desired: Vec<Endpoint> = holder.iter().chain([&stranger]).cloned().collect();
                for _ in 0..4 {
                    let plan = run(&mut cloudflare, &desired);
                    let seen = format!("{stranger:?} beside {holder:?}: {plan:?}");
                    assert_ne!(
                        namespace_in(&cloudflare),
                        Some(NamespaceCode::of("bank").to_string()),
                        "{seen}"
                    );
                    let served = services(&cloudflare);
                    let is_shops = |(path, service): &(String, String)| {
                        service == WEB && path.is_empty() || service == "http_status:503" && path != "^/new$"
                    };
                    assert!(served.iter().all(is_shops), "{seen}: {served:?}");
                    assert!(!holder.contains(&web) || served.contains(&rule("", WEB)), "{seen}: {served:?}");
                    let at_new_path = rule("^/(status|health)$", "http_status:503");
                    assert!(
                        !holder.contains(&reworded) || served.contains(&at_new_path),
                        "{seen}: {served:?}"
                    );
                }
                let writes = cloudflare.writes;
                run(&mut cloudflare, &desired);
                assert_eq!(cloudflare.writes, writes, "{stranger:?} beside {holder:?}");
            }
        }
    }
}

/// A path is reworded by a creation and a deletion.
#[test]
fn a_hostname_of_two_namespaces_changes_once_its_comment_names_one() {
    let shop = |path: &str| of("ingress/shop/web", path, "http://web.shop.svc:80");
    let bank = of("ingress/bank/web", "^/bank$", "http://web.bank.svc:80");
    let before = after_the_switch(&[shop("^/shop$"), bank.clone()]);
    let [shop_digest, bank_digest] = ["shop", "bank"].map(NamespaceCode::of);
    let named = format!("bank: ns={bank_digest}, shop: ns={shop_digest}");
    assert!(notes(&before).iter().any(|note| note.contains(&named)), "{:?}", notes(&before));
    assert_eq!(drifts(&before), ["", ""]);
    let desired = [shop("^/(shop|cart)$"), bank];
    let mut cloudflare = before.clone();
    for _ in 0..3 {
        let plan = run(&mut cloudflare, &desired);
        assert_eq!(cloudflare, before, "{plan:?}");
        let told = plan.refusals.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(told.iter().any(|line| line.contains(&format!("ns={shop_digest}"))), "{told:?}");
    }
    let comment = format!("{} ns={shop_digest}", cloudflare.records[0].comment);
    cloudflare.records[0].comment = comment.into();
    run(&mut cloudflare, &desired);
    let kept = rule("^/bank$", "http://web.bank.svc:80");
    assert_eq!(services(&cloudflare), [kept, rule("^/(shop|cart)$", "http://web.shop.svc:80")]);
    assert_eq!(notes(&cloudflare), [""; 0]);
}

/// Rules that only answer with a status do not tell the namespace that they are of.
#[test]
fn a_hostname_without_a_service_of_a_namespace_has_none_until_its_comment_names_one() {
    let desired = |code: u16| {
        [
            of("ingress/shop/a", "^/a$", &format!("http_status:{code}")),
            of("ingress/shop/b", "^/b$", "http_status:404"),
        ]
    };
    let before = after_the_switch(&desired(503));
    let mut cloudflare = before.clone();
    let plan = run(&mut cloudflare, &desired(418));
    assert_eq!(cloudflare, before);
    assert!(plan.refusals[0].to_string().contains("refused=namespace_held"), "{plan:?}");
    assert!(
        notes(&cloudflare).iter().any(|note| note.contains("NAMESPACE_GUARD")),
        "{:?}",
        notes(&cloudflare)
    );
}

/// What happens before a loop, while the object of `shop` asks for the hostname in some form.
#[derive(Clone, Debug)]
enum Event {
    /// The object asks for another service, tunnel or path, or has a mistake.
    Asks(&'static [(&'static str, &'static str)]),
    /// The hostname's rules are deleted by hand.
    RulesGo,
    /// The tunnel `office` is deleted.
    OfficeGoes,
    /// Another writer adds a rule for the hostname.
    ForeignRule,
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => prop::sample::select(vec![
            &[][..],
            &[("tunnel", "office")],
            &[("tunnel-path", "^/a$")],
            &[("origin-connect-timeout", "soon")],
            &[("tunnel-service", "http://web.other.svc:80")],
            &[("tunnel-service", "none")],
        ])
        .prop_map(Event::Asks),
        2 => Just(Event::RulesGo),
        1 => Just(Event::OfficeGoes),
        1 => Just(Event::ForeignRule),
    ]
}

proptest! {
    /// Loops end early. Only the comment of the hostname's record is left alone, because it says which namespace has
    /// the hostname.
    #[test]
    fn a_namespace_keeps_its_hostname_as_long_as_it_asks_for_it(
        events in prop::collection::vec((any_event(), prop::sample::select(vec![1_usize, 2, usize::MAX])), 1..9)
    ) {
        let by = |namespace: &str, said: &[(&str, &str)]| {
            let service = format!("http://web.{namespace}.svc:80");
            let properties = [&[("tunnel-service", &*service)], said].concat();
            endpoint_of(&format!("ingress/{namespace}/web"), NAME, &properties)
        };
        let mut cloudflare = guarded();
        let mut shop = by("shop", &[]);
        run(&mut cloudflare, std::slice::from_ref(&shop));
        for (event, writes_max) in events {
            match event {
                Event::Asks(said) => shop = by("shop", said),
                Event::RulesGo => [HOME, OFFICE].into_iter().for_each(|tunnel| {
                    if cloudflare.documents.contains_key(&tunnel_id(tunnel)) {
                        cloudflare.edit_rules(tunnel, |rules| rules.retain(|rule| !rule.contains(NAME)));
                    }
                }),
                Event::OfficeGoes => _ = cloudflare.documents.remove(&tunnel_id(OFFICE)),
                Event::ForeignRule => cloudflare.edit_rules(HOME, |rules| {
                    rules.insert(0, format!(r#"{{"hostname":"{NAME}","path":"^/theirs$","service":"http://theirs:80"}}"#));
                }),
            }
            cloudflare.run_loop(&[shop.clone(), by("evil", &[]), by("evil", &[("tunnel-path", "^/e$")])], writes_max);
            for document in cloudflare.documents.values() {
                let mut rules = document.rules().iter();
                prop_assert!(!rules.any(|rule| rule.service().contains(".evil.")), "{:?}", cloudflare);
            }
        }
    }
}

/// The rules of two objects were published before the guard was on, so the comment names neither object nor namespace.
#[test]
fn a_hostname_of_two_objects_stays_its_namespaces_while_they_have_mistakes_and_its_rules_are_gone() {
    let shop = |object: &str, path: &str, timeout: &str| {
        let service = "http://web.shop.svc:80";
        let said = [("tunnel-service", service), ("tunnel-path", path), ("origin-connect-timeout", timeout)];
        endpoint_of(&format!("ingress/shop/{object}"), NAME, &said)
    };
    let mut cloudflare = after_the_switch(&[shop("a", "^/a$", "5s"), shop("b", "^/b$", "5s")]);
    let evil = of("ingress/evil/web", "", "http://web.evil.svc:80");
    let mistaken = [shop("a", "^/a$", "soon"), shop("b", "^/b$", "soon")];
    let asked = [&mistaken[..], &[evil]].concat();
    run(&mut cloudflare, &asked);
    assert!(!services(&cloudflare).contains(&rule("", "http://web.evil.svc:80")), "the services are of shop");
    cloudflare.edit_rules(HOME, |rules| rules.retain(|rule| !rule.contains("hostname")));
    for nth in 0..4 {
        let plan = run(&mut cloudflare, &asked);
        assert_eq!(
            services(&cloudflare),
            [],
            "loop {nth}: {:?} {:?}",
            cloudflare.records[0].comment,
            plan.refusals
        );
    }
}
