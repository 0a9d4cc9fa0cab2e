//! The processor time that the core takes for objects that are never written by hand.

use std::time::Instant;

use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Endpoint, Labels, Property};
use external_dns_cloudflare_tunnel_webhook::reconcile::adjust::Adjuster;
use external_dns_cloudflare_tunnel_webhook::reconcile::snapshot::{Reading, Snapshot};
use test_support::fake_cloudflare::{adjust, settings};
use test_support::harness::published;

/// ExternalDNS ends if an answer takes 15 s, and the author of a DNSEndpoint chooses its properties.
#[test]
fn absurd_properties_are_read_in_no_time() {
    let service = Property::new("webhook/tunnel-service", "http://web:80");
    let mut long = published("a.example.com", "");
    long.provider_specific =
        vec![service.clone(), Property::new(format!("webhook/{}", "x".repeat(1_000_000)), "x")];
    let mut many = published("b.example.com", "");
    many.provider_specific =
        (0..40_000).map(|number| Property::new(format!("aws/{number}"), "x")).chain([service]).collect();
    let begun = Instant::now();
    assert_eq!(adjust(&[long, many], &settings(), None).endpoints.len(), 2);
    assert!(begun.elapsed().as_secs() < 4, "{:?}", begun.elapsed());
}

/// Several objects ask for the same rules of the same hostnames. The choice among them comes after the last look at the
/// deadline, and is compared with the work before that.
#[test]
fn to_choose_among_thousands_of_objects_takes_little_beside_reading_them() {
    const GROUPS_MAX: usize = 64;
    let properties = |object: usize| {
        let whole = Property::new("webhook/tunnel-service", "http://web:80");
        let groups = (0..GROUPS_MAX).flat_map(move |n| {
            [
                Property::new(format!("webhook/tunnel-path.g{n}"), format!(r"^/{n}\w{{400}}")),
                Property::new(format!("webhook/tunnel-service.g{n}"), format!("http://web-{object}:80")),
            ]
        });
        [whole].into_iter().chain(groups).collect()
    };
    let objects = (0..20).flat_map(|object| {
        (0..50).map(move |host| Endpoint {
            dns_name: format!("shared-{host}.example.com"),
            labels: Labels::from_iter([("resource", &*format!("ingress/shop/web-{object}"))]),
            provider_specific: properties(object),
            ..published("", "")
        })
    });
    let (settings, desired) = (settings(), objects.collect::<Vec<_>>());
    // Other processes may have the processor meanwhile, and hardly each time.
    let times = (0..3).map(|_| {
        let begun = Instant::now();
        let snapshot = Snapshot::new(Reading::new(settings.clone().into()));
        let mut adjuster = Adjuster::new(&settings, Some(&snapshot));
        desired.iter().for_each(|endpoint| {
            adjuster.add(endpoint);
        });
        let reading = begun.elapsed();
        let endpoints = adjuster.finish().endpoints;
        assert_eq!(endpoints.len(), 50 * (GROUPS_MAX + 1));
        (begun.elapsed() - reading, reading)
    });
    let (deciding, reading) = times.min().expect("three");
    assert!(deciding * 4 < reading, "{deciding:?} after {reading:?}");
}
