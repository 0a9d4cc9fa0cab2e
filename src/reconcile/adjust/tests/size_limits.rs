//! How much of a request is read, and what becomes of the rest.

use super::*;

/// ExternalDNS would take a missing endpoint for a deleted one.
#[test]
fn what_there_is_no_time_for_is_answered_unread() {
    let service = ("webhook/tunnel-service", "http://web:80");
    let names = ["a.example.com", "b.example.com", "c.example.com"];
    let endpoints = names.map(|name| endpoint(name, "A", "192.0.2.1", &[service]));
    let settings = settings();
    let mut adjuster = Adjuster::new(&settings, None);
    let [first, others @ ..] = &endpoints;
    adjuster.add(first);
    others.iter().for_each(|endpoint| _ = adjuster.add_unread(endpoint, OUT_OF_TIME));
    let adjusted = adjuster.finish().endpoints;
    let found: Vec<(&str, bool)> =
        adjusted.iter().map(|endpoint| (&*endpoint.dns_name, endpoint.property(INVALID).is_some())).collect();
    assert_eq!(found, [("a.example.com", false), ("b.example.com", true), ("c.example.com", true)]);
    assert_eq!(adjust(&adjusted, &settings, None).endpoints, adjusted);
}

/// If a longer name were cut to the length of a hostname, it would be another hostname, which may be published.
#[test]
fn the_name_of_an_unread_endpoint_never_becomes_another_hostname() {
    let large = [("webhook/x", &*"x".repeat(limits::ENDPOINT_MAX_BYTES))];
    for (length, kept) in [(253, 253), (254, 254), (300, 254)] {
        let name = "abcdefg.".repeat(40);
        let name = name.get(..length).expect("long enough");
        let (settings, endpoint) = (settings(), endpoint(name, "A", "192.0.2.1", &large));
        let read = read_one(&endpoint, &settings).endpoint;
        assert_eq!(Some(&*read.dns_name), name.get(..kept), "{length}");
    }
}

/// A record's comment has room for fewer paths, so the limit refuses no object that could be published.
#[test]
fn an_object_with_too_many_paths_of_a_hostname_is_refused_and_no_other_object_of_the_hostname() {
    let of = |object: &str, count: usize| -> Vec<Endpoint> {
        let path = |number: usize| {
            let prefix = format!("/{}-{number}", object.len());
            let properties = [("webhook/tunnel-service", "http://web:80"), (TUNNEL_PATH_PREFIX, &*prefix)];
            let labels = Labels::from_iter([(RESOURCE_LABEL, object)]);
            Endpoint { labels, ..endpoint("a.example.com", "A", "192.0.2.1", &properties) }
        };
        (0..count).map(path).collect()
    };
    let (most, large) = (limits::HOSTNAME_PATHS_MAX, "crd/shop/large");
    let endpoints = [of("crd/a", most), of(large, most + 1), of("crd/shop/third", 1)].concat();
    let adjusted = adjust(&endpoints, &settings(), None).endpoints;
    assert_eq!(adjusted.len(), endpoints.len(), "none is left out");
    for endpoint in &adjusted {
        let is_large = endpoint.labels.value(RESOURCE_LABEL) == Some(large);
        assert_eq!(endpoint.property(INVALID).is_some(), is_large, "{endpoint:?}");
    }
    let problems = adjusted.iter().filter_map(|endpoint| endpoint.property(INVALID));
    assert!(problems.into_iter().any(|problem| problem.contains("201 paths")), "the number is told");
}
