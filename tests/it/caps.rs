//! An object that holds more than is ever written by hand costs no other object anything: its endpoint is invalid, what
//! is published for it stays, and the other endpoints are answered as if it were not there.

use std::collections::BTreeSet;

use external_dns_cloudflare_tunnel_webhook::limits;
use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Endpoint, Labels, Property};
use external_dns_cloudflare_tunnel_webhook::reconcile::reason::Reason;
use test_support::external_dns::Changes;
use test_support::fake_cloudflare::{FakeCloudflare, HOME, adjust, settings, tunnel_id};
use test_support::harness::{Harness, published};

const PROPERTIES_MAX: usize = 64;
const GROUPS_MAX: usize = 64;
const ENDPOINT_MAX_BYTES: usize = 16 * 1024;

const HOSTNAME: &str = "over.example.com";
const SERVICE: (&str, &str) = ("webhook/tunnel-service", "http://web.shop.svc:80");

fn object(properties: impl IntoIterator<Item = (String, String)>) -> Endpoint {
    let properties = properties.into_iter().map(|(name, value)| Property::new(name, value));
    Endpoint {
        dns_name: HOSTNAME.to_owned(),
        targets: vec!["192.0.2.1".to_owned()],
        record_type: "A".to_owned(),
        labels: Labels::from_iter([("resource", "ingress/shop/over")]),
        provider_specific: [Property::new(SERVICE.0, SERVICE.1)].into_iter().chain(properties).collect(),
        ..Endpoint::default()
    }
}

/// The same object when it is as one expects: the whole hostname and two paths.
fn modest() -> Endpoint {
    let paths = [("a", "/a"), ("b", "/b")];
    object(paths.map(|(group, path)| (format!("webhook/tunnel-path-prefix.{group}"), path.to_owned())))
}

fn with_groups(count: usize) -> Endpoint {
    object((0..count).map(|n| (format!("webhook/tunnel-path-prefix.g{n}"), format!("/g{n}"))))
}

fn with_properties(count: usize) -> Endpoint {
    object((1..count).map(|n| (format!("aws/x{n}"), "x".to_owned())))
}

fn with_bytes(count: usize) -> Endpoint {
    let name = "aws/x";
    let rest = count - name.len() - SERVICE.0.len() - SERVICE.1.len();
    object([(name.to_owned(), "x".repeat(rest))])
}

/// What is over one cap each, just so or by far.
fn over() -> Vec<(&'static str, Endpoint)> {
    let long_path =
        |length| object([("webhook/tunnel-path".to_owned(), format!("^/{}", "x".repeat(length)))]);
    let long_group = format!("webhook/tunnel-path-prefix.{}", "g".repeat(ENDPOINT_MAX_BYTES));
    let mut grouped = with_groups(400);
    grouped.provider_specific.push(Property::new("webhook/origin-http-host-header", "h".repeat(1_000)));
    let unknown = (0..200).map(|n| (format!("webhook/unknown-{n}"), "x".to_owned()));
    let misspelt = (0..400).map(|n| (format!("webhook/tunnel-path-prefi.g{n}"), format!("/g{n}")));
    vec![
        ("one property too many", with_properties(PROPERTIES_MAX + 1)),
        ("one group too many", with_groups(GROUPS_MAX + 1)),
        ("one byte too many", with_bytes(ENDPOINT_MAX_BYTES + 1)),
        ("a path of 100 kB", long_path(100_000)),
        ("a name of 16 KiB", object([(long_group, "/x".to_owned())])),
        ("400 groups and a value for all of them", grouped),
        ("200 unknown properties", object(unknown)),
        ("400 misspelt groups", object(misspelt)),
    ]
}

fn size_of<T: serde::Serialize>(value: &T) -> usize {
    serde_json::to_string(value).expect("plain data").len()
}

fn friends(count: usize) -> Vec<Endpoint> {
    (0..count).map(|n| published(&format!("friend-{n}.example.com"), "http://web.other.svc:80")).collect()
}

fn of_friends(endpoints: &[Endpoint]) -> Vec<Endpoint> {
    endpoints.iter().filter(|endpoint| endpoint.dns_name.starts_with("friend-")).cloned().collect()
}

/// The rules of the hostname.
fn rules(cloudflare: &FakeCloudflare) -> Vec<String> {
    let rules = cloudflare.document(&tunnel_id(HOME)).rules().iter();
    rules.filter(|rule| rule.hostname() == HOSTNAME).map(|rule| rule.raw().get().to_owned()).collect()
}

#[test]
fn what_is_just_within_the_caps_is_read() {
    let table = [
        ("properties", with_properties(PROPERTIES_MAX), 1),
        ("groups", with_groups(GROUPS_MAX - 1), GROUPS_MAX),
        ("bytes", with_bytes(ENDPOINT_MAX_BYTES - 512), 1),
    ];
    for (label, endpoint, count) in table {
        let mut cloudflare = FakeCloudflare::new(&[], &[]);
        assert_eq!(
            adjust(std::slice::from_ref(&endpoint), &settings(), None).endpoints.len(),
            count,
            "{label}"
        );
        let refusals = cloudflare.run_loop(&[endpoint], usize::MAX).refusals;
        let mut invalid = refusals.iter().filter(|refusal| matches!(refusal.reason, Reason::Invalid(_)));
        assert!(invalid.next().is_none(), "{label}: {refusals:#?}");
    }
}

#[test]
fn an_endpoint_over_a_cap_is_one_that_is_invalid_kept_and_told_in_few_words() {
    for (label, endpoint) in over() {
        let adjusted = adjust(std::slice::from_ref(&endpoint), &settings(), None);
        assert_eq!(adjusted.endpoints.len(), 1, "{label}");
        assert_eq!(adjusted.endpoints[0].dns_name, HOSTNAME, "{label}");
        let size = size_of(&adjusted.endpoints);
        assert!(size <= ENDPOINT_MAX_BYTES, "{label}: its text is not cut: {size}");
        let again = adjust(&adjusted.endpoints, &settings(), None).endpoints;
        assert_eq!(again, adjusted.endpoints, "{label}: adjusted again");
        for before in [vec![], vec![modest()]] {
            let mut cloudflare = FakeCloudflare::new(&[], &[]);
            cloudflare.run_loop(&before, usize::MAX);
            let was = cloudflare.clone();
            assert_eq!(rules(&was).len(), before.len() * 3, "{label}: the whole hostname and two paths");
            let plan = cloudflare.run_loop(std::slice::from_ref(&endpoint), usize::MAX);
            assert_eq!(cloudflare, was, "{label}: nothing is written");
            let words: Vec<String> = plan.refusals.iter().map(ToString::to_string).collect();
            let is_told = |words: &&String| {
                words.contains("refused=invalid") && words.contains(r#"resource="ingress/shop/over""#)
            };
            assert_eq!(words.iter().filter(is_told).count(), 1, "{label}: {words:#?}");
            let said: usize = adjusted
                .notes
                .iter()
                .chain(&plan.notes)
                .map(|note| note.text.len())
                .chain(words.iter().map(String::len))
                .sum();
            assert!(said <= limits::LOG_MESSAGE_MAX_CHARS, "{label}: {said} bytes are said");
            let asked_for = cloudflare.changes(std::slice::from_ref(&endpoint));
            let asked_for = asked_for.create.len() + asked_for.update_new.len();
            assert_eq!(asked_for, 1, "{label}: a further loop asks for the one that is refused");
        }
    }
}

#[test]
fn one_object_over_a_cap_costs_no_other_object() {
    let friends = friends(1_000);
    let alone = adjust(&friends, &settings(), None).endpoints;
    assert_eq!(alone.len(), friends.len());
    let hostile = over()
        .into_iter()
        .enumerate()
        .map(|(n, (_, endpoint))| Endpoint { dns_name: format!("over-{n}.example.com"), ..endpoint });
    let everything: Vec<Endpoint> = hostile.chain(friends).collect();
    let together = adjust(&everything, &settings(), None).endpoints;
    assert_eq!(of_friends(&together), alone);
    assert_eq!(together.len(), alone.len() + over().len());
    let (request, answer) = (size_of(&everything), size_of(&together));
    assert!(answer <= 2 * request, "{answer} bytes for {request}");
}

/// A loop with the hostile object beside friendly ones, after one in which it was modest. ExternalDNS ends where an
/// answer takes 15 s; it is played with the same patience. `hostname` is the first one's. `are_all_read` says whether
/// every endpoint has to be read, or may stay unread where time is short.
fn assert_survives(hostname: &str, mut hostile: Vec<Endpoint>, are_all_read: bool) {
    let harness = Harness::new();
    let program = harness.start();
    let external_dns = program.external_dns();
    let mut modest = modest();
    modest.dns_name = hostname.to_owned();
    hostile.iter_mut().take(1).for_each(|first| first.dns_name = hostname.to_owned());
    let friends = friends(100);
    let desired: Vec<Endpoint> = friends.iter().cloned().chain([modest]).collect();
    external_dns.run_loop(&desired).expect("published");
    let alone = external_dns.adjust(&friends).expect("adjusted");
    assert_eq!(of_friends(&alone).len(), friends.len());
    let (rules, records) = (harness.rules(), harness.cnames());

    let desired: Vec<Endpoint> = hostile.iter().chain(&friends).cloned().collect();
    let answer = external_dns.adjust(&desired).expect("all are adjusted");
    if are_all_read {
        assert_eq!(of_friends(&answer), alone);
    }
    let answered: BTreeSet<&str> = answer.iter().map(|endpoint| &*endpoint.dns_name).collect();
    let withdrawn = desired.iter().filter(|endpoint| !answered.contains(&*endpoint.dns_name));
    assert_eq!(withdrawn.count(), 0);
    let (request, size) = (size_of(&desired), size_of(&answer));
    assert!(size <= 2 * request, "{size} bytes for {request}");

    // To be asked again is no harm.
    let done = external_dns.run_loop(&desired);
    assert!(matches!(done, Ok(_) | Err(503)), "{done:?}");
    assert_eq!((harness.rules(), harness.cnames()), (rules, records), "what is published stays");
    let said = harness.log.lines_with(&[hostname, "refused=invalid"]);
    assert!(!said.is_empty(), "the log names it");
    let longest = said.iter().map(String::len).max().unwrap_or_default();
    assert!(longest <= limits::LOG_MESSAGE_MAX_CHARS, "a line of {longest} bytes");
}

#[test]
fn thousands_of_groups_that_each_take_over_unknown_properties_stop_no_other_object() {
    let unknown = (0..31).map(|n| (format!("webhook/{n:0>56}"), "x".to_owned()));
    let groups = (0..5_000).map(|n| (format!("webhook/tunnel-service.g{n}"), "http://a:1".to_owned()));
    assert_survives("over-groups.example.com", vec![object(unknown.chain(groups))], true);
}

/// Endpoints with paths that are small as they are written, and no two alike. One DNSEndpoint may hold them all.
fn with_large_paths(count: usize) -> Vec<Endpoint> {
    let path = |n| format!(r"^/{n}(\w\w\w\w\w\w\w\w){{1000}}");
    (0..count)
        .map(|n| Endpoint {
            dns_name: format!("over-{n}.example.com"),
            ..object([("webhook/tunnel-path".to_owned(), path(n))])
        })
        .collect()
}

#[test]
fn hundreds_of_paths_that_are_large_when_compiled_cost_no_other_object() {
    assert_survives("over-path.example.com", with_large_paths(500), true);
}

/// So many paths are not read in time, at least not in a build without optimisation.
#[test]
fn thousands_of_paths_that_are_large_when_compiled_withdraw_no_hostname() {
    assert_survives("over-paths.example.com", with_large_paths(8_000), false);
}

/// Longer than what is held of one endpoint at all: of more than a hundred KiB its names alone are read.
fn too_long() -> Endpoint {
    let value = "v".repeat(1_000);
    object((0..300).map(|n| (format!("aws/x{n}"), value.clone())))
}

#[test]
fn an_endpoint_that_is_too_long_to_be_held_is_invalid_and_stays() {
    let harness = Harness::new();
    let program = harness.start();
    let external_dns = program.external_dns();
    external_dns.run_loop(&[modest()]).expect("it is published");
    let before = harness.rules();
    assert!(size_of(&too_long()) > limits::ENDPOINT_JSON_MAX_BYTES);
    let [adjusted] = &external_dns.adjust(&[too_long()]).expect("it is answered")[..] else {
        panic!("it stays, as one")
    };
    assert_eq!(adjusted.dns_name, HOSTNAME);
    assert_eq!(adjusted.labels.value("resource"), Some("ingress/shop/over"));
    let problem = adjusted.property("webhook/invalid").expect("it is invalid");
    assert!(problem.contains("more than 16384 bytes"), "{problem}");
    external_dns.run_loop(&[too_long()]).expect("it is refused by name");
    assert_eq!(harness.rules(), before, "nothing is withdrawn");
}

/// A Service's annotation may name as many labels as fit into it.
#[test]
fn a_name_that_is_too_long_to_be_held_stops_no_other_hostname() {
    let harness = Harness::new();
    let program = harness.start();
    let external_dns = program.external_dns();
    external_dns.run_loop(&[published("old.example.com", "http://old:80")]).expect("published");
    let endless = [&"a".repeat(60); 2_300].map(String::as_str).join(".");
    let odd = Endpoint { dns_name: endless, ..too_long() };
    let desired =
        [published("old.example.com", "http://new:80"), odd, published("a.example.com", "http://a:80")];
    external_dns.run_loop(&desired).expect("the others are served");
    let names: BTreeSet<String> = harness.cnames().into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names, BTreeSet::from(["a.example.com", "old.example.com"].map(str::to_owned)));
    let told = harness.log.lines_with(&["refused=invalid", "more than 16384 bytes", &"a".repeat(60)]);
    assert_eq!(told.len(), 1);
    assert!(harness.rules().iter().any(|rule| rule.contains("http://new:80")));
}

#[test]
fn changes_with_an_endpoint_that_is_too_long_are_not_done_in_part() {
    let harness = Harness::new();
    let program = harness.start();
    let create = vec![published("a.example.com", "http://a:80"), too_long()];
    let create = Changes { create, ..Changes::default() };
    assert_eq!(program.external_dns().apply(&create), Err(503));
    assert_eq!(harness.cnames(), []);
}

/// ExternalDNS asked, so what was refused before is asked for still, and is told once.
#[test]
fn changes_that_are_refused_as_a_whole_make_no_refusal_new() {
    let harness = Harness::new();
    let program = harness.start();
    let refused = [published("a.example.net", "http://a:80")];
    let _ = program.external_dns().run_loop(&refused);
    program.external_dns().records().expect("read");
    let changes = Changes { create: vec![too_long()], ..Changes::default() };
    assert_eq!(program.external_dns().apply(&changes), Err(503));
    let _ = program.external_dns().run_loop(&refused);
    assert_eq!(harness.log.lines_with(&["refused=no_zone"]).len(), 1);
}
