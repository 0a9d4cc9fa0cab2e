//! A name of ours below a wildcard of ours: the wildcard's rules answer what no rule of the name does.

use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use test_support::fake_cloudflare::FakeCloudflare;
use test_support::harness::endpoint_of;

const NAME: &str = "b.example.com";

fn wanted(host: &str, prefix: &str, service: &str, tunnel: &str) -> Endpoint {
    let wildcard = if host.starts_with('*') { "true" } else { "" };
    let properties = [
        ("tunnel-service", service),
        ("tunnel-path-prefix", prefix),
        ("tunnel", tunnel),
        ("tunnel-wildcard", wildcard),
    ];
    endpoint_of(&format!("ingress/shop/{}", host.len()), host, &properties)
}

fn wildcard(tunnel: &str) -> Endpoint {
    wanted("*.example.com", "/p", "http://wild:80", tunnel)
}

/// The service that answers `/p` at the name.
fn served(cloudflare: &FakeCloudflare) -> Option<String> {
    let tunnel = cloudflare.snapshot().visited_tunnel(NAME)?;
    let rules = cloudflare.documents[&tunnel].rules().iter();
    let mut rules = rules.filter(|rule| rule.may_match(NAME, Some("^/p(/|$)")));
    rules.next().map(|rule| rule.service().to_owned()).filter(|service| service.starts_with("http://"))
}

fn at_rest(desired: &[Endpoint]) -> FakeCloudflare {
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    (0..4).for_each(|_| drop(cloudflare.run_loop(desired, usize::MAX)));
    cloudflare
}

#[test]
fn a_record_alone_moves_after_the_path_of_its_wildcard() {
    let all = |tunnel| [wildcard(tunnel), wanted(NAME, "", "none", tunnel)];
    let before = at_rest(&all("home"));
    for writes in 0..6 {
        let mut cloudflare = before.clone();
        cloudflare.run_loop(&all("office"), writes);
        assert_eq!(served(&cloudflare).as_deref(), Some("http://wild:80"), "after {writes} writes");
        for _ in 0..4 {
            cloudflare.run_loop(&all("office"), usize::MAX);
            assert_eq!(served(&cloudflare).as_deref(), Some("http://wild:80"), "after {writes} writes");
        }
        assert!(cloudflare.run_loop(&all("office"), usize::MAX).refusals.is_empty(), "it came after");
    }
}

#[test]
fn a_name_moves_away_from_the_path_of_a_wildcard_only_with_a_rule_for_that_path() {
    for (prefix, is_refused) in [("/r", true), ("/p", false), ("", false)] {
        let all = |tunnel| [wildcard("home"), wanted(NAME, prefix, "http://name:80", tunnel)];
        let mut cloudflare = at_rest(&all("home"));
        let before = served(&cloudflare);
        (0..4).for_each(|_| drop(cloudflare.run_loop(&all("office"), usize::MAX)));
        let plan = cloudflare.run_loop(&all("office"), usize::MAX);
        let labels: Vec<&str> = plan.refusals.iter().map(|one| one.reason.label_value()).collect();
        assert_eq!(labels.contains(&"rule_left_behind"), is_refused, "{prefix:?}: {labels:?}");
        assert_eq!(served(&cloudflare), before, "{prefix:?}");
    }
}
