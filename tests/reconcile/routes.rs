//! Routes of the Gateway API that carry something else than HTTP, below a Gateway with a service.

use external_dns_cloudflare_tunnel_webhook::ingress::OriginOption;
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use external_dns_cloudflare_tunnel_webhook::reconcile::service_template::ServiceTemplate;
use test_support::fake_cloudflare::{FakeCloudflare, options};
use test_support::harness::endpoint_of;

const HTTP: &str = "http://gw.infra.svc:80";
const HTTPS: &str = "https://gw.infra.svc:443";

/// The reason why a route is not published by a target.
fn refused(cloudflare: &FakeCloudflare, kind: &str, target: &str, said: &[(&str, &str)]) -> Option<String> {
    let annotated = endpoint_of(&format!("{kind}/shop/web"), "a.example.com", said);
    let endpoint = Endpoint { targets: vec![target.to_owned()], ..annotated };
    let plan = cloudflare.clone().run_loop(&[endpoint], usize::MAX);
    plan.refusals.first().map(ToString::to_string)
}

#[test]
fn a_route_that_carries_no_http_is_not_published_by_the_service_of_its_gateway() {
    let cloudflare = FakeCloudflare::new(&[], &[]);
    let own = ("tunnel-service", "tcp://db.shop.svc:5432");
    let (sni, name) = (("origin-match-sni-to-host", "true"), ("origin-server-name", "a.example.org"));
    for (kind, target, said, way) in [
        ("tcproute", HTTP, &[][..], Some("webhook-tunnel-service: tcp://")),
        ("tcproute", "tcp://gw.infra.svc:5432", &[], Some("webhook-tunnel-service: tcp://")),
        ("udproute", HTTP, &[], Some("remove the hostname from")),
        ("tlsroute", HTTP, &[], Some("webhook-origin-match-sni-to-host")),
        ("tlsroute", HTTP, &[sni], Some("https://")),
        ("tlsroute", HTTPS, &[], Some("webhook-origin-match-sni-to-host")),
        (
            "tlsroute",
            HTTPS,
            &[("origin-match-sni-to-host", "false")],
            Some("webhook-origin-match-sni-to-host"),
        ),
        ("tlsroute", HTTPS, &[sni], None),
        ("tlsroute", HTTPS, &[name], None),
        // What the route names itself is its own backend.
        ("tcproute", HTTP, &[own], None),
        ("tlsroute", HTTPS, &[("tunnel-service", "http://web.shop.svc:80")], None),
        ("httproute", HTTP, &[], None),
        ("grpcroute", HTTPS, &[], None),
        ("service", HTTP, &[], None),
    ] {
        let found = refused(&cloudflare, kind, target, said);
        let is_right = match (&found, way) {
            (Some(text), Some(way)) => text.contains(way) && text.contains("refused=invalid"),
            (found, way) => found.is_none() && way.is_none(),
        };
        assert!(is_right, "{kind} {target} {said:?}: {found:?}");
    }
}

#[test]
fn a_default_of_the_operator_counts_for_a_route_as_what_its_gateway_or_the_route_says() {
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    cloudflare.default_service = ServiceTemplate::parse(HTTPS).ok();
    let said = [("tunnel", "true")];
    for kind in ["tcproute", "udproute", "tlsroute"] {
        assert!(refused(&cloudflare, kind, "192.0.2.1", &said).is_some(), "{kind}");
    }
    cloudflare.origin_defaults = options(&[(OriginOption::MatchSniToHost, "true")]);
    assert_eq!(refused(&cloudflare, "tlsroute", "192.0.2.1", &said), None);
    assert_eq!(refused(&cloudflare, "tlsroute", HTTPS, &[]), None);
}
