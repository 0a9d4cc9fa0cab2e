//! Which endpoint of several for one hostname and path ExternalDNS gets back, whatever the order in which it asks.

use std::collections::BTreeSet;

use external_dns_cloudflare_tunnel_webhook::limits;
use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Endpoint, Property};
use external_dns_cloudflare_tunnel_webhook::reconcile::Note;
use external_dns_cloudflare_tunnel_webhook::reconcile::adjust::Adjusted;
use external_dns_cloudflare_tunnel_webhook::reconcile::service_template::ServiceTemplate;
use external_dns_cloudflare_tunnel_webhook::reconcile::stamp::NamespaceCode;
use proptest::prelude::*;
use test_support::fake_cloudflare::{FakeCloudflare, HOME, adjust, tunnel_id};
use test_support::harness::endpoint_of;

const HOST: &str = "a.example.com";
const WEB: &str = "http://web.shop.svc:80";
const OTHER: &str = "http://other.shop.svc:80";
const THIRD: &str = "http://third.shop.svc:80";
const MISTAKE: &str = "htp://web.shop.svc:80";

fn object(resource: &str, path: &str, service: &str) -> Endpoint {
    object_at(HOST, resource, path, service)
}

fn object_at(host: &str, resource: &str, path: &str, service: &str) -> Endpoint {
    endpoint_of(resource, host, &[("tunnel-service", service), ("tunnel-path", path)])
}

fn guarded() -> FakeCloudflare {
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    cloudflare.namespace_guard = true;
    cloudflare
}

fn adjusted(cloudflare: &FakeCloudflare, desired: &[Endpoint]) -> Adjusted {
    adjust(desired, &cloudflare.settings(), Some(&cloudflare.snapshot()))
}

/// The resource, path and mistake of each endpoint.
fn shown(endpoints: &[Endpoint]) -> Vec<(String, String, String)> {
    let one = |endpoint: &Endpoint| {
        let resource = endpoint.labels.value("resource").unwrap_or_default().to_owned();
        let invalid = endpoint.property("webhook/invalid").unwrap_or_default().to_owned();
        (resource, endpoint.set_identifier.clone(), invalid)
    };
    endpoints.iter().map(one).collect()
}

/// The object that has the path after `before` was published and `desired` is asked for, in either order.
fn winner(mut cloudflare: FakeCloudflare, before: &[Endpoint], path: &str, desired: &[Endpoint]) -> String {
    for _ in 0..3 {
        cloudflare.run_loop(before, usize::MAX);
    }
    let forward = adjusted(&cloudflare, desired);
    let backward: Vec<Endpoint> = desired.iter().rev().cloned().collect();
    assert_eq!(adjusted(&cloudflare, &backward), forward, "the order decides");
    let mut at_path = shown(&forward.endpoints).into_iter().filter(|(_, at, _)| at == path);
    let (resource, ..) = at_path.next().expect("the path is asked for");
    assert_eq!(at_path.next(), None);
    resource
}

#[test]
fn the_namespace_that_has_the_hostname_wins_with_any_of_its_objects() {
    let before = [object("ingress/shop/old", "", WEB)];
    let desired = [object("ingress/bank/a", "", WEB), object("ingress/shop/new", "", OTHER)];
    assert_eq!(winner(guarded(), &before, "", &desired), "ingress/shop/new");
    assert_eq!(winner(FakeCloudflare::new(&[], &[]), &before, "", &desired), "ingress/bank/a");
}

#[test]
fn the_object_in_the_stamp_wins_whatever_it_asks_for() {
    let (a, b) = ("ingress/shop/a", "ingress/shop/b");
    for service in [OTHER, MISTAKE] {
        let desired = [object(a, "", WEB), object(b, "", service)];
        let before = [object(b, "", WEB)];
        assert_eq!(winner(FakeCloudflare::new(&[], &[]), &before, "", &desired), b, "{service}");
    }
}

/// A redirect route beside an app, or an app behind the proxy that asks for its login. If the mistake of an object is
/// in its login, nothing is published.
#[test]
fn a_free_place_goes_to_the_object_that_asks_for_a_login_and_then_to_the_one_that_names_its_service() {
    let (a, b) = ("ingress/shop/a", "ingress/shop/b");
    let shared = ServiceTemplate::parse("http://shared.shop.svc:80").expect("a service");
    let saying = |said: &[(&str, &str)]| endpoint_of(b, HOST, &[&[("tunnel-service", OTHER)], said].concat());
    let by_default = |resource: &str| endpoint_of(resource, HOST, &[("origin-no-tls-verify", "true")]);
    for (label, first, second, expected) in [
        ("a login", object(a, "", WEB), saying(&[("access-policy", "staff")]), b),
        ("a name that is no policy", object(a, "", WEB), saying(&[("access-policy", "staf")]), b),
        ("a misspelled name", object(a, "", WEB), saying(&[("acess-policy", "staff")]), b),
        ("a word of Access", object(a, "", WEB), saying(&[("access-group", "staff")]), b),
        (
            "another mistake",
            object(a, "", WEB),
            saying(&[("access-policy", "staff"), ("tunnel-path", "(")]),
            a,
        ),
        ("none", object(a, "", WEB), saying(&[("access-policy", "none")]), a),
        ("no login is required", object(a, "", WEB), saying(&[("access-required", "false")]), a),
        ("a service", by_default(a), object(b, "", WEB), b),
        ("both by default", by_default(a), by_default(b), a),
        ("a mistake of no login", object(a, "", MISTAKE), object(b, "", WEB), b),
    ] {
        let mut cloudflare = FakeCloudflare::new(&[], &[]);
        cloudflare.default_service = Some(shared.clone());
        assert_eq!(winner(cloudflare, &[], "", &[first, second]), expected, "{label}");
    }
}

/// The stamp of rules of several objects names none.
#[test]
fn without_a_name_in_the_stamp_the_object_wins_that_asks_for_what_stands() {
    let (a, b, path) = ("ingress/shop/a", "ingress/shop/b", "^/x");
    let before = [object("ingress/shop/c", "", WEB), object(b, path, WEB)];
    let with = |mut endpoint: Endpoint, name: &str, value: &str| {
        endpoint.provider_specific.push(Property::new(name, value));
        endpoint
    };
    let login = |endpoint: Endpoint| {
        let said = [("access-required", "true"), ("access-team-name", "team"), ("access-aud-tag", "tag")];
        said.iter()
            .fold(endpoint, |endpoint, (name, value)| with(endpoint, &format!("webhook/{name}"), value))
    };
    for (label, wish, expected) in [
        ("the same", object(b, path, WEB), b),
        ("opened by name", with(object(b, path, WEB), "webhook/access-policy", "none"), b),
        ("another option", with(object(b, path, WEB), "webhook/origin-no-tls-verify", "true"), b),
        ("a mistake", object(b, path, MISTAKE), b),
        ("another service", object(b, path, THIRD), a),
        ("a login at another service", login(object(b, path, THIRD)), b),
    ] {
        let desired = [object(a, path, OTHER), object("ingress/shop/c", "", WEB), wish];
        assert_eq!(winner(FakeCloudflare::new(&[], &[]), &before, path, &desired), expected, "{label}");
    }
}

/// An edit by hand and a changed object look alike. The rule is repaired, whichever of the two it was.
#[test]
fn a_rule_edited_by_hand_is_repaired_while_two_objects_ask_for_its_path() {
    let (a, b, path) = ("ingress/shop/a", "ingress/shop/b", "^/x");
    let desired = [object(a, path, WEB), object("ingress/shop/c", "", WEB), object(b, path, OTHER)];
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    cloudflare.run_loop(&desired, usize::MAX);
    let published = cloudflare.document(&tunnel_id(HOME)).clone();
    cloudflare.edit_rules(HOME, |rules| {
        let at_path = rules.iter_mut().find(|rule| rule.contains(path)).expect("published");
        *at_path = at_path.replace(WEB, "http://by.hand:80");
    });
    assert_ne!(cloudflare.document(&tunnel_id(HOME)), &published);
    cloudflare.run_loop(&desired, usize::MAX);
    assert_eq!(cloudflare.document(&tunnel_id(HOME)), &published);
}

#[test]
fn a_free_place_goes_to_the_first_by_name_that_can_be_published() {
    let (a, b) = ("ingress/bank/a", "ingress/shop/b");
    for (guard, services, expected) in [
        (false, [WEB, OTHER], a),
        (false, [MISTAKE, OTHER], b),
        (false, [MISTAKE, MISTAKE], a),
        (true, [WEB, OTHER], b),
    ] {
        let cloudflare = if guard { guarded() } else { FakeCloudflare::new(&[], &[]) };
        let desired = [object(a, "", services[0]), object(b, "", services[1])];
        assert_eq!(winner(cloudflare, &[], "", &desired), expected, "{guard} {services:?}");
    }
}

/// One namespace gets all of a hostname, so a place that another one got would stay empty.
#[test]
fn with_the_guard_the_namespace_of_a_free_hostname_is_chosen_over_all_its_paths() {
    let (bank, shop) =
        (object("ingress/bank/a", "", "http://web.bank.svc:80"), object("ingress/shop/b", "", WEB));
    let first = |path: &str, service: &str| object("crd/shop/x", path, service);
    for (desired, expected) in [
        (vec![bank.clone(), shop.clone()], "ingress/bank/a"),
        (vec![bank.clone(), shop.clone(), first("^/y", OTHER)], "ingress/shop/b"),
        (vec![bank.clone(), shop.clone(), first("^/y", "http://web.bank.svc:80")], "ingress/bank/a"),
        (vec![bank, object("ingress/bank/a", "^/y", MISTAKE), shop], "ingress/shop/b"),
    ] {
        assert_eq!(winner(guarded(), &[], "", &desired), expected, "{desired:?}");
        let mut cloudflare = guarded();
        let plan = cloudflare.run_loop(&desired, usize::MAX);
        let namespace = expected.split('/').nth(1).expect("a namespace");
        let services = cloudflare.document(&tunnel_id(HOME)).rules().iter().map(|rule| rule.service());
        let own = services.filter(|service| service.contains(".svc")).collect::<Vec<_>>();
        let is_own = |service: &&str| service.contains(&format!(".{namespace}.svc"));
        assert!(own.iter().all(is_own) && !own.is_empty(), "{own:?}: {plan:?}");
    }
}

/// ExternalDNS merges the endpoints of two objects that it cannot tell apart, so the one that is left may stand for
/// both.
#[test]
fn a_rule_for_which_another_namespace_alone_asks_stays_and_one_note_says_so() {
    let shop = [object("ingress/shop/a", "", WEB), object("ingress/shop/b", "^/x", "http_status:503")];
    for service in ["http://web.bank.svc:80", "http_status:503", WEB, MISTAKE] {
        let bank = object("ingress/bank/a", "^/x", service);
        let mut cloudflare = guarded();
        cloudflare.run_loop(&shop, usize::MAX);
        let before = cloudflare.clone();
        let desired = [shop[0].clone(), bank.clone()];
        for _ in 0..3 {
            let notes = adjusted(&cloudflare, &desired).notes;
            let [note] = &notes[..] else { panic!("{service}: {notes:?}") };
            assert_eq!((note.resource.as_deref(), &*note.hostname), (Some("ingress/bank/a"), HOST));
            let [holder, asking] = ["shop", "bank"].map(|name| format!("ns={}", NamespaceCode::of(name)));
            assert!(note.text.contains(&holder) && note.text.contains(&asking), "{}", note.text);
            assert!(note.text.len() <= 300, "{}", note.text);
            cloudflare.run_loop(&desired, usize::MAX);
            assert_eq!(cloudflare, before, "{service}");
        }
        // The namespace that has it asks for it too.
        let kept = |note: &Note| note.text.contains("merged");
        assert!(
            !adjusted(&cloudflare, &[shop[0].clone(), shop[1].clone(), bank.clone()]).notes.iter().any(kept)
        );
        // Nothing stands there.
        let new = object("ingress/bank/a", "^/new", service);
        assert!(!adjusted(&cloudflare, &[shop[0].clone(), shop[1].clone(), new]).notes.iter().any(kept));
    }
}

/// The rule for the whole hostname would get the requests of the path, whichever object has that.
#[test]
fn an_object_with_a_mistake_at_one_path_waits_with_its_other_paths() {
    let (a, b) = ("ingress/shop/a", "ingress/shop/b");
    let desired = [
        object(a, "", WEB),
        object(a, "^/admin", MISTAKE),
        object(b, "^/admin", OTHER),
        object(b, "^/b", OTHER),
        object_at("b.example.com", a, "", WEB),
    ];
    let cloudflare = FakeCloudflare::new(&[], &[]);
    let endpoints = adjusted(&cloudflare, &desired).endpoints;
    let at = |(resource, path, invalid): &(String, String, String)| {
        (resource.clone(), path.clone(), !invalid.is_empty())
    };
    let expected = [(a, "", true), (b, "^/admin", false), (b, "^/b", false), (a, "", false)];
    let found: Vec<_> = shown(&endpoints).iter().map(at).collect();
    assert_eq!(found, expected.map(|(resource, path, waits)| (resource.to_owned(), path.to_owned(), waits)));
    let unread = shown(&adjust(&desired, &cloudflare.settings(), None).endpoints);
    assert!(unread[0].2.contains(r#"waits for the object's rule for path "^/admin""#), "{unread:?}");
}

#[test]
fn an_object_that_asks_twice_for_one_path_is_invalid_there() {
    for services in [[WEB, OTHER], [WEB, MISTAKE]] {
        let desired = services.map(|service| object("ingress/shop/a", "", service));
        let endpoints = adjusted(&FakeCloudflare::new(&[], &[]), &desired).endpoints;
        let [(_, _, invalid)] = &shown(&endpoints)[..] else { panic!("{endpoints:?}") };
        let named = if services[1] == MISTAKE { MISTAKE } else { "have the same path" };
        assert!(invalid.contains(named), "{invalid}");
    }
}

#[test]
fn every_loser_is_named_with_the_winner_and_one_that_asks_for_the_same_is_none() {
    let at = |path: &str| {
        ["a", "b", "c", "d"].map(|name| {
            let service = if name == "d" { "http://a:80" } else { &*format!("http://{name}:80") };
            object(&format!("ingress/n/{name}"), path, service)
        })
    };
    let notes = adjusted(&FakeCloudflare::new(&[], &[]), &[at(""), at("^/x")].concat()).notes;
    let said: Vec<String> = notes.iter().map(|note| note.line().to_string()).collect();
    assert_eq!(said.len(), 4, "{said:#?}");
    for (line, (start, end)) in said.iter().zip([
        ("the rule without a path is not published: ingress/n/a has", "ingress/n/b"),
        ("the rule without a path is", "ingress/n/c"),
        (r#"the rule for path "^/x" is"#, "ingress/n/b"),
        (r#"the rule for path "^/x" is"#, "ingress/n/c"),
    ]) {
        assert!(line.starts_with(&format!(r#""a.example.com": {start}"#)), "{line}");
        assert!(line.ends_with(&format!(r#" hostname="a.example.com" resource="{end}""#)), "{line}");
        assert!(line.contains("set-identifier annotation and a path"), "{line}");
    }
}

#[test]
fn each_loser_has_a_note_of_its_own_up_to_the_room_of_the_log() {
    let objects: Vec<Endpoint> =
        (0..300).map(|n| object(&format!("ingress/n/{n}"), "", &format!("http://web:{}", 80 + n))).collect();
    let notes = adjusted(&FakeCloudflare::new(&[], &[]), &objects).notes;
    assert_eq!(notes.len(), limits::NOTES_MAX);
}

fn any_object() -> impl Strategy<Value = Endpoint> {
    let word = |words: &'static [&'static str]| prop::sample::select(words);
    (
        word(&["ingress/n/a", "ingress/n/b", "crd/m/a", ""]),
        word(&[HOST, "b.example.com"]),
        word(&["", "^/x", "api"]),
        word(&["http://a:80", "http://b:80", "none", "b:80", ""]),
    )
        .prop_map(|(resource, host, path, service)| object_at(host, resource, path, service))
}

proptest! {
    /// ExternalDNS takes a missing row for a deleted one, and asks in a random order.
    #[test]
    fn every_place_that_is_asked_for_keeps_one_endpoint_and_the_same_in_any_order(
        before in prop::collection::vec(any_object(), 0..6),
        (desired, shuffled) in prop::collection::vec(any_object(), 0..12)
            .prop_flat_map(|desired| (Just(desired.clone()), Just(desired).prop_shuffle())),
    ) {
        let mut cloudflare = FakeCloudflare::new(&[], &[]);
        cloudflare.run_loop(&before, usize::MAX);
        let places = |endpoints: &[Endpoint]| {
            let pairs = endpoints.iter();
            pairs.map(|one| (one.dns_name.clone(), one.set_identifier.clone())).collect::<Vec<_>>()
        };
        let all: BTreeSet<_> =
            places(&adjust(&desired, &cloudflare.settings(), None).endpoints).into_iter().collect();
        let found = adjusted(&cloudflare, &desired);
        prop_assert_eq!(places(&found.endpoints), all.into_iter().collect::<Vec<_>>());
        prop_assert_eq!(&adjusted(&cloudflare, &shuffled), &found);
        prop_assert_eq!(adjusted(&cloudflare, &found.endpoints).endpoints, found.endpoints);
    }
}

/// The stamp names the object of the whole hostname, and nothing stands at the path.
#[test]
fn a_new_path_goes_to_the_object_that_asks_for_a_login_and_not_to_the_one_that_has_the_hostname() {
    let whole = object("ingress/shop/a", "", WEB);
    let plain = object("ingress/shop/a", "^/admin$", WEB);
    let login = endpoint_of(
        "ingress/shop/b",
        HOST,
        &[("tunnel-service", WEB), ("tunnel-path", "^/admin$"), ("access-policy", "staff")],
    );
    let desired = [whole.clone(), plain.clone(), login];
    let before = FakeCloudflare::new(&[], &[]);
    assert_eq!(winner(before.clone(), std::slice::from_ref(&whole), "^/admin$", &desired), "ingress/shop/b");
    assert_eq!(winner(before, &[whole, plain], "^/admin$", &desired), "ingress/shop/a", "it stands");
}
