//! A wildcard that a listener or a certificate may have named is published only by a word that means nothing else.

use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Endpoint, Labels};
use external_dns_cloudflare_tunnel_webhook::reconcile::NoteKind;
use external_dns_cloudflare_tunnel_webhook::reconcile::adjust::Adjusted;
use external_dns_cloudflare_tunnel_webhook::reconcile::service_template::ServiceTemplate;
use test_support::fake_cloudflare::{FakeCloudflare, HOME, OFFICE, adjust, tunnel_id};
use test_support::harness::{endpoint_of, endpoint_saying};

const WILDCARD: &str = "*.example.com";
const ROUTE: &str = "httproute/shop/redirect";
const SERVICE: (&str, &str) = ("tunnel-service", "http://proxy.shop.svc:80");
const WORD: (&str, &str) = ("tunnel-wildcard", "true");
const API: (&str, &str) = ("tunnel-path-prefix", "/api");

fn empty() -> FakeCloudflare {
    FakeCloudflare::new(&[], &[])
}

/// A Cloudflare after enough loops with these endpoints.
fn after(mut cloudflare: FakeCloudflare, desired: &[Endpoint]) -> FakeCloudflare {
    for _ in 0..3 {
        cloudflare.run_loop(desired, usize::MAX);
    }
    cloudflare
}

fn adjusted(cloudflare: &FakeCloudflare, desired: &[Endpoint]) -> Adjusted {
    adjust(desired, &cloudflare.settings(), Some(&cloudflare.snapshot()))
}

/// Hostname, path and service of each rule, without the catch-all.
fn rules(cloudflare: &FakeCloudflare) -> Vec<String> {
    let rules = cloudflare.document(&tunnel_id(HOME)).rules().iter();
    rules
        .filter(|rule| !rule.hostname().is_empty())
        .map(|rule| format!("{} {} {}", rule.hostname(), rule.path().unwrap_or_default(), rule.service()))
        .collect()
}

/// The texts about wildcards without the word, each with the mark of one that is public.
fn told(adjusted: &Adjusted) -> Vec<(bool, String)> {
    let of_wildcards = adjusted.notes.iter().filter_map(|note| match note.kind {
        NoteKind::LeftOutWildcard => Some((false, note.line().to_string())),
        NoteKind::PublicWildcard => Some((true, note.line().to_string())),
        NoteKind::LeftOut | NoteKind::Other => None,
    });
    of_wildcards.collect()
}

/// Of an object, or of none where it has no name.
fn wildcard(object: &str, properties: &[(&str, &str)]) -> Endpoint {
    wildcard_saying(object, &[&[SERVICE], properties].concat())
}

fn wildcard_saying(object: &str, properties: &[(&str, &str)]) -> Endpoint {
    let mut endpoint = endpoint_saying(WILDCARD, properties.iter().copied());
    endpoint.labels = Labels::from_iter((!object.is_empty()).then_some(("resource", object)));
    endpoint
}

/// ExternalDNS gives a route without hostnames those of its listeners, with all annotations of the route.
#[test]
fn a_wildcard_is_published_by_its_word_alone_unless_only_a_person_can_have_written_it() {
    for (object, properties, is_published) in [
        (ROUTE, &[][..], false),
        (ROUTE, &[("tunnel", "home"), ("access-policy", "none")], false),
        (ROUTE, &[("tunnel-wildcard", "false")], false),
        (ROUTE, &[WORD], true),
        (ROUTE, &[WORD, ("tunnel", "false")], false),
        ("ingress/shop/web", &[], false),
        ("ingress/shop/web", &[WORD], true),
        ("gateway/istio/public", &[], false),
        ("gateway/istio/public", &[WORD], true),
        ("service/shop/web", &[], true),
        ("service/shop/web", &[WORD], true),
        ("crd/shop/web", &[], true),
        ("", &[], true),
        ("services/shop/web", &[], false),
    ] {
        let desired = [wildcard(object, properties)];
        let first = empty().run_loop(&desired, usize::MAX);
        let cloudflare = after(empty(), &desired);
        let expected = if is_published { vec![format!("{WILDCARD}  {}", SERVICE.1)] } else { Vec::new() };
        assert_eq!(rules(&cloudflare), expected, "{object} {properties:?}");
        assert_eq!(first.refusals, [], "{object} {properties:?}");
        let shown = adjusted(&cloudflare, &desired);
        assert_eq!(shown.endpoints.len(), usize::from(is_published));
        assert_eq!(adjusted(&cloudflare, &shown.endpoints).endpoints, shown.endpoints, "{object}");
        let changes = cloudflare.changes(&desired);
        assert!(changes.create.is_empty() && changes.update_new.is_empty(), "{object}: {changes:?}");
    }
}

#[test]
fn the_word_means_nothing_else_and_a_mistake_in_it_is_refused_by_name() {
    let mut defaulted = empty();
    defaulted.default_service = Some(ServiceTemplate::parse("http://default:80").expect("a template"));
    for cloudflare in [empty(), defaulted.clone()] {
        let plain = endpoint_of("ingress/shop/web", "a.example.com", &[WORD]);
        assert_eq!(adjusted(&cloudflare, &[plain]).endpoints, [], "the word alone publishes nothing");
    }
    defaulted.publish_all = true;
    let address = |properties: &[(&str, &str)]| wildcard_saying(ROUTE, properties);
    assert_eq!(adjusted(&defaulted, &[address(&[])]).endpoints, [], "PUBLISH=all");
    assert_eq!(adjusted(&defaulted, &[address(&[WORD])]).endpoints.len(), 1);
    let named = endpoint_of("ingress/shop/web", "a.example.com", &[SERVICE]);
    let with_word = endpoint_of("ingress/shop/web", "a.example.com", &[SERVICE, WORD]);
    assert_eq!(adjusted(&empty(), &[with_word]), adjusted(&empty(), &[named]));
    let in_a_group = [WORD, ("tunnel-wildcard.api", "true"), ("tunnel-path.api", "^/api")];
    for of_whole in [&in_a_group[1..], &[&[("tunnel-wildcard", "false")], &in_a_group[1..]].concat()] {
        let plan = empty().run_loop(&[wildcard(ROUTE, of_whole)], usize::MAX);
        let text = plan.refusals.first().map(ToString::to_string).unwrap_or_default();
        assert!(text.contains("set it without a group"), "{of_whole:?} {text}");
    }
    assert_eq!(empty().run_loop(&[wildcard(ROUTE, &in_a_group)], usize::MAX).refusals, []);
    for mistake in [("tunnel-wildcard", "yes"), ("tunnel-wildcrd", "true"), ("tunnel-wild", "true")] {
        let plan = empty().run_loop(&[wildcard(ROUTE, &[mistake])], usize::MAX);
        let text = plan.refusals.first().map(ToString::to_string).unwrap_or_default();
        assert!(
            text.contains("refused=invalid") && text.contains("webhook-tunnel-wild"),
            "{mistake:?} {text}"
        );
    }
}

/// A redirect route is there for ever, and needs no operator whatever else is wrong with it.
#[test]
fn a_wildcard_without_the_word_is_left_out_with_one_text_and_holds_nothing_back() {
    let mut guarded = empty();
    guarded.namespace_guard = true;
    for cloudflare in [empty(), guarded] {
        let exact =
            endpoint_of("httproute/web/app", "a.example.com", &[("tunnel-service", "http://a.web.svc:80")]);
        let routes = ["httproute/shop/b", "httproute/shop/a", "httproute/shop/c"]
            .map(|object| wildcard_saying(object, &[("tunnel-service", "http://proxy.envoy.svc:80")]));
        let desired = [&routes[..], &[exact]].concat();
        let mut cloudflare = after(cloudflare, &desired);
        assert_eq!(rules(&cloudflare), ["a.example.com  http://a.web.svc:80"]);
        assert_eq!(cloudflare.run_loop(&desired, usize::MAX).refusals, []);
        let [(is_public, text)] = &told(&adjusted(&cloudflare, &desired))[..] else { panic!("one text") };
        assert!(!is_public && text.contains("httproute/shop/a"), "{text}");
        for part in [
            "webhook-tunnel-wildcard: \"true\"",
            "hostnames",
            "webhook-tunnel: \"false\"",
            "controller: none",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        cloudflare.run_loop(&routes, usize::MAX);
        assert_eq!(rules(&cloudflare), [""; 0], "what goes is withdrawn");
    }
}

#[test]
fn the_text_says_where_the_wildcard_would_lead_and_what_its_login_does_not_protect() {
    let login = [("access-required", "true"), ("access-team-name", "team"), ("access-aud-tag", "tag")];
    for (properties, protects) in [(&[][..], false), (&login, true), (&[("access-policy", "none")], false)] {
        let [(_, text)] = &told(&adjusted(&empty(), &[wildcard(ROUTE, properties)]))[..] else {
            panic!("one text")
        };
        assert!(
            text.contains("every name below example.com would be served by \"http://proxy.shop.svc:80\""),
            "{text}"
        );
        assert_eq!(text.contains("login protects none of these names"), protects, "{text}");
    }
    // The login of the setting is no object's.
    let mut cloudflare = empty();
    cloudflare.default_access_policy = vec!["staff".into()];
    let [(_, text)] = &told(&adjusted(&cloudflare, &[wildcard(ROUTE, &[])]))[..] else { panic!("one text") };
    assert!(!text.contains("login"), "{text}");
}

#[test]
fn a_wildcard_that_stands_stays_without_the_word_and_is_said_to_be_public() {
    for path in [&[][..], &[API]] {
        let (asked, unasked) = (wildcard(ROUTE, &[&[WORD], path].concat()), wildcard(ROUTE, path));
        let mut cloudflare = after(empty(), std::slice::from_ref(&asked));
        let before = cloudflare.clone();
        // ExternalDNS merges two routes of one hostname, and sends the annotations of either.
        for endpoint in [&unasked, &unasked, &asked, &unasked] {
            let answer = adjusted(&cloudflare, std::slice::from_ref(endpoint));
            assert_eq!(answer.endpoints, adjusted(&cloudflare, std::slice::from_ref(&asked)).endpoints);
            assert_eq!(
                told(&answer).iter().map(|(public, _)| *public).collect::<Vec<_>>(),
                vec![true; usize::from(endpoint == &unasked)]
            );
            let plan = cloudflare.run_loop(std::slice::from_ref(endpoint), usize::MAX);
            assert!(plan.is_empty() && plan.refusals.is_empty(), "{plan:?}");
        }
        assert_eq!((&cloudflare.records, &cloudflare.documents), (&before.records, &before.documents));
        let text = &told(&adjusted(&cloudflare, &[unasked]))[0].1;
        assert!(text.contains("is served by \"http://proxy.shop.svc:80\""), "{text}");
        for part in [
            "webhook-tunnel-wildcard: \"true\"",
            "hostnames",
            "webhook-tunnel: \"false\"",
            "controller: none",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        cloudflare.run_loop(&[wildcard(ROUTE, &[&[("tunnel", "false")], path].concat())], usize::MAX);
        assert_eq!(rules(&cloudflare), [""; 0], "the object asked to be left out");
    }
}

/// Only its record says whether a wildcard is published. An old answer about another tunnel made it invalid, and its
/// refusal was told as a mistake.
#[test]
fn an_old_answer_about_a_tunnel_leaves_no_wildcard_undecided() {
    let (asked, unasked) = (wildcard(ROUTE, &[WORD]), wildcard(ROUTE, &[]));
    for (standing, old, is_undecided) in [
        (true, OFFICE, false),
        (true, HOME, false),
        (true, "example.com", true),
        (false, OFFICE, false),
        (false, "example.com", true),
    ] {
        let before = if standing { std::slice::from_ref(&asked) } else { &[] };
        let mut cloudflare = after(empty(), before);
        cloudflare.old = [(old.into(), "it is old".into())].into();
        let answer = adjusted(&cloudflare, std::slice::from_ref(&unasked)).endpoints;
        let problems = answer.iter().filter_map(|endpoint| endpoint.property("webhook/invalid"));
        assert_eq!(problems.count(), usize::from(is_undecided), "{standing} {old}");
        assert_eq!(answer.len(), usize::from(standing || is_undecided), "{standing} {old}");
        let changes = cloudflare.changes(std::slice::from_ref(&unasked));
        assert_eq!(
            changes.create.len() + changes.update_new.len(),
            usize::from(is_undecided),
            "{standing} {old}"
        );
    }
}

/// The answer to an endpoint with a mistake has the mistake alone, so that it is adjusted to itself.
#[test]
fn a_mistake_of_a_wildcard_that_stands_without_the_word_is_told_alone() {
    let cloudflare = after(empty(), &[wildcard(ROUTE, &[WORD])]);
    let mistaken = wildcard(ROUTE, &[("origin-connect-timeout", "soon")]);
    let answer = adjusted(&cloudflare, &[mistaken]).endpoints;
    let names: Vec<&str> = answer[0].provider_specific.iter().map(|property| &*property.name).collect();
    assert_eq!(names, ["webhook/invalid"]);
    assert_eq!(adjusted(&cloudflare, &answer).endpoints, answer);
}

/// The whole of a wildcard does not stand where one path of it does.
#[test]
fn a_path_that_another_object_publishes_by_the_word_opens_no_other_place() {
    let asked = wildcard("httproute/shop/app", &[WORD, API]);
    let redirect = wildcard(ROUTE, &[]);
    let mut cloudflare = after(empty(), &[asked.clone(), redirect.clone()]);
    let expected = [format!("{WILDCARD} ^/api(/|$) {}", SERVICE.1)];
    assert_eq!(rules(&cloudflare), expected);
    // A rule that is deleted by hand leaves the record alone, and that is no wildcard that stands.
    cloudflare.edit_rules(HOME, |rules| {
        rules.remove(0);
    });
    let cloudflare = after(cloudflare, &[asked, redirect.clone()]);
    assert_eq!(rules(&cloudflare), expected);
    let whole = wildcard("httproute/shop/app", &[WORD]);
    for cloudflare in [empty(), after(empty(), std::slice::from_ref(&whole))] {
        let both = adjusted(&cloudflare, &[whole.clone(), redirect.clone()]);
        assert_eq!((both.endpoints.len(), both.notes), (1, Vec::new()));
    }
}

/// Otherwise the path, which its new spelling replaces, would fall to the wider rule.
#[test]
fn an_object_that_takes_its_word_off_and_rewords_a_path_is_refused_and_keeps_its_paths() {
    let admin = |word: &[(&'static str, &'static str)], path| {
        wildcard(ROUTE, &[word, &[("tunnel-path", path)]].concat())
    };
    let groups = |word: &[(&'static str, &'static str)], path| {
        let group = [("tunnel-service.admin", "http://login.shop.svc:80"), ("tunnel-path.admin", path)];
        wildcard(ROUTE, &[word, &group].concat())
    };
    let other = wildcard("httproute/shop/other", &[WORD, API]);
    for (label, before, after_edit) in [
        ("one path", vec![admin(&[WORD], "^/admin")], vec![admin(&[], "^/admin/")]),
        ("two paths", vec![groups(&[WORD], "^/admin")], vec![groups(&[], "^/admin/")]),
        (
            "two paths beside another object, so that the stamp names none",
            vec![groups(&[WORD], "^/admin"), other.clone()],
            vec![groups(&[], "^/admin/"), other],
        ),
    ] {
        let mut cloudflare = after(empty(), &before);
        let before = rules(&cloudflare);
        for _ in 0..3 {
            let plan = cloudflare.run_loop(&after_edit, usize::MAX);
            let texts: Vec<String> = plan.refusals.iter().map(ToString::to_string).collect();
            let is_told = texts.iter().any(|text| text.contains("webhook-tunnel-wildcard is missing"));
            assert!(is_told, "{label}: {texts:?}");
            assert_eq!(rules(&cloudflare), before, "{label}");
        }
    }
}

/// The stamp of rules of several objects names none, and then the first object by name would have the place.
#[test]
fn an_object_without_the_word_takes_no_place_from_one_that_says_it() {
    let of = |service| wildcard_saying("httproute/shop/b", &[WORD, ("tunnel-service", service)]);
    let others = [wildcard("httproute/shop/c", &[WORD, API]), wildcard("httproute/shop/a", &[])];
    let mut cloudflare = empty();
    for service in ["http://old.shop.svc:80", "http://new.shop.svc:80"] {
        let desired = [&[of(service)], &others[..]].concat();
        cloudflare = after(cloudflare, &desired);
        let whole = format!("{WILDCARD}  {service}");
        assert!(rules(&cloudflare).contains(&whole), "{service}: {:?}", rules(&cloudflare));
        assert_eq!(told(&adjusted(&cloudflare, &desired)), []);
    }
}

/// Before the first reading what stands is not known: neither answer may withdraw it or publish it.
#[test]
fn a_wildcard_without_the_word_waits_where_nothing_was_read() {
    let adjusted = adjust(&[wildcard(ROUTE, &[])], &empty().settings(), None);
    let [endpoint] = &adjusted.endpoints[..] else { panic!("one endpoint") };
    assert!(endpoint.property("webhook/invalid").is_some(), "{endpoint:?}");
    assert_eq!(told(&adjusted), []);
}

/// The stamp names no object if its comment has no room for it. Then the published rule identifies the object, but
/// without the word no object asked for the rule with all its properties, so the first by name took it.
#[test]
fn of_two_objects_without_the_word_the_one_that_asks_for_the_published_rule_keeps_it() {
    let option = ("origin-no-tls-verify", "true");
    let mut cloudflare = after(empty(), &[wildcard("ingress/n/b", &[WORD, option])]);
    let comment = &mut cloudflare.records[0].comment;
    *comment = comment.replace(" resource=ingress/n/b", "").into();
    let desired = [wildcard("ingress/n/b", &[option]), wildcard("ingress/n/a", &[])];
    let adjusted = adjusted(&cloudflare, &desired);
    let objects: Vec<_> = adjusted.endpoints.iter().map(|one| one.labels.value("resource")).collect();
    assert_eq!(objects, [Some("ingress/n/b")], "{adjusted:?}");
}
