//! Mistakes that newcomers make, each told once with its remedy.

use cloudflare_emulator::{Fault, Matcher, Permission};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use test_support::harness::{Harness, Program, TOKEN, endpoint, endpoint_of, published};

/// An endpoint of which only the targets tell what is meant, as by an annotation `target`.
fn with_targets(name: &str, targets: &[&str]) -> Endpoint {
    let targets = targets.iter().map(ToString::to_string).collect();
    let record_type = "CNAME".to_owned();
    Endpoint { targets, record_type, provider_specific: Vec::new(), ..published(name, "") }
}

/// The only line that names a hostname after two loops.
fn told(harness: &Harness, program: &Program, desired: &Endpoint) -> String {
    harness.log.forget();
    for _ in 0..2 {
        program.external_dns().run_loop(std::slice::from_ref(desired)).expect("answered");
    }
    let lines = harness.log.lines_with(&["WARN", &desired.dns_name]);
    let [line] = &lines[..] else { panic!("{lines:#?}") };
    line.clone()
}

#[test]
fn a_mistake_in_a_name_or_a_service_is_refused_with_its_remedy() {
    let harness = Harness::new();
    let program = harness.start_with(&[("CLUSTER_DOMAIN", "cluster.test")]);
    for (desired, remedy) in [
        (with_targets("c.example.com", &["web.shop.svc.cluster.test"]), "write http://"),
        (with_targets("d.example.com", &["lb.example.net", "Web.svc."]), r#"the target is "Web.svc.""#),
        (published("https://a.example.com", "http://web:80"), "write the hostname alone, without https://"),
        (published("a.example.com/shop", "http://web:80"), "without a path behind it"),
        (
            with_targets("b.example.com", &["http://one.gw.svc:80", "http://two.gw.svc:80"]),
            r#""http://one.gw.svc:80, http://two.gw.svc:80": these are several services"#,
        ),
    ] {
        let line = told(&harness, &program, &desired);
        assert!(line.contains(remedy) && line.contains("refused=invalid"), "{line}");
    }
}

/// An ExternalName Service yields such a target by itself, and what its object says of the service goes before.
#[test]
fn a_name_of_the_cluster_is_no_mistake_where_something_else_names_the_service() {
    let harness = Harness::new();
    let program = harness.start_with(&[("DEFAULT_SERVICE", "http://gateway:80")]);
    let named = with_targets("a.example.com", &["web.shop.svc.cluster.local"]);
    let said = published("a.example.com", "http://web:80").provider_specific;
    let by_default = Endpoint {
        dns_name: "b.example.com".to_owned(),
        provider_specific: endpoint("", &[("tunnel", "home")]).provider_specific,
        ..named.clone()
    };
    let foreign = with_targets("c.example.com", &["web.shop.svc.cluster.test"]);
    let desired = [Endpoint { provider_specific: said, ..named }, by_default, foreign];
    program.external_dns().run_loop(&desired).expect("published");
    assert_eq!(harness.service_at("a.example.com", "/"), "http://web:80");
    assert_eq!(harness.service_at("b.example.com", "/"), "http://gateway:80");
    assert_eq!(harness.log.lines_with(&["refused="]), [""; 0], "another cluster's domain may be public");
}

#[test]
fn what_a_rule_hardly_means_is_told_once_where_it_is_published() {
    let harness = Harness::new();
    let program = harness.start();
    let service = |service| ("tunnel-service", service);
    for (properties, hint) in [
        (vec![service("http://web:80"), ("tunnel-path", "/api/*")], r#"webhook-tunnel-path-prefix "/api"?"#),
        (
            vec![service("http://web.shop.svc:443")],
            "has the default port of https://: write https:// if that server speaks it",
        ),
        (
            vec![service("https://web.shop.svc:443")],
            "set webhook-origin-server-name, -ca-pool or -no-tls-verify",
        ),
        (
            vec![service("http://web:80"), ("origin-http2-origin", "true")],
            "webhook-origin-http2-origin does nothing where the service has no TLS",
        ),
    ] {
        let line = told(&harness, &program, &endpoint("a.example.com", &properties));
        assert!(line.contains(hint) && !line.contains("refused="), "{line}");
        program.external_dns().run_loop(&[]).expect("withdrawn");
    }
    harness.log.forget();
    let same =
        ["a", "b", "c"].map(|name| published(&format!("{name}.example.com"), "https://web.shop.svc:443"));
    program.external_dns().run_loop(&same).expect("published");
    assert_eq!(
        harness.log.lines_with(&["certifies"]).len(),
        1,
        "a line for each service, not for each hostname"
    );
}

#[test]
fn a_permission_that_a_token_lacks_is_named_with_what_it_is_for() {
    use Permission::{DnsEdit, DnsRead, TunnelEdit, TunnelRead, ZoneRead};
    let (dns, tunnel) = ("Zone: DNS: Edit for the zone", "Account: Cloudflare Tunnel: Edit for the account");
    for (label, held, needed) in [
        ("records are not written", &[ZoneRead, DnsRead, TunnelEdit][..], dns),
        ("records are not read", &[ZoneRead, TunnelEdit], dns),
        ("rules are not written", &[ZoneRead, DnsEdit, TunnelRead], tunnel),
    ] {
        let harness = Harness::new();
        let program = harness.start();
        harness.cloudflare.edit(|cloudflare| cloudflare.token_mut(TOKEN).permissions = held.to_vec());
        let _ = program.external_dns().run_loop(&[published("a.example.com", "http://web:80")]);
        let lines = harness.log.lines_with(&["WARN", needed, "code 10000"]);
        assert_eq!(lines.len(), 1, "{label}: {:#?}", harness.log.lines_with(&[]));
    }
}

/// In JSON the pairs are fields of their own, so a message that begins with one, or goes on with it, says nothing.
#[test]
fn a_failed_write_says_by_its_message_alone_where_it_failed() {
    let harness = Harness::new();
    let program = harness.start();
    for (path, place) in
        [("/zones/**", "zone example.com"), ("/accounts/**", &format!("tunnel {}", harness.tunnel))]
    {
        for method in ["POST", "PUT"] {
            harness.cloudflare.fault_every(Matcher::call(method, path), Fault::status(500));
        }
        assert!(program.external_dns().run_loop(&[published("a.example.com", "http://web:80")]).is_err());
        let lines =
            harness.log.lines_with(&[&format!("WARN a write to {place} may or may not have been done: ")]);
        assert!(!lines.is_empty(), "{:#?}", harness.log.lines_with(&[]));
        harness.cloudflare.clear_faults();
        harness.log.forget();
    }
}

/// In a cluster a name without a dot is looked up in the namespace of `cloudflared`; in compose that is how services
/// are called.
#[test]
fn a_host_without_a_dot_draws_a_hint_in_a_cluster_alone() {
    let named = |service| endpoint_of("ingress/shop/web", "a.example.com", &[("tunnel-service", service)]);
    let harness = Harness::new();
    let program = harness.start_with(&[("KUBERNETES_SERVICE_HOST", "10.96.0.1")]);
    let line = told(&harness, &program, &named("http://grafana:3000"));
    assert!(line.contains("webhook-tunnel-service: http://grafana.{namespace}.svc:3000"), "{line}");
    for service in ["http://grafana.{namespace}.svc:3000", "http://localhost:3000", "http://[fd00::1]:3000"] {
        harness.log.forget();
        program.external_dns().run_loop(&[named(service)]).expect("answered");
        assert_eq!(harness.log.lines_with(&["WARN"]), [""; 0], "{service}");
    }
    let compose = Harness::new();
    let program = compose.start();
    program.external_dns().run_loop(&[named("http://grafana:3000")]).expect("answered");
    assert_eq!(compose.log.lines_with(&["WARN"]), [""; 0]);
}

/// ExternalDNS takes a route's target from its Gateway, whatever the route carries.
#[test]
fn a_route_of_another_protocol_is_refused_with_the_way_that_works() {
    let harness = Harness::new();
    let program = harness.start();
    let route = |kind: &str, said: &[(&str, &str)], target: &str| {
        let annotated = endpoint_of(&format!("{kind}/shop/web"), "a.example.com", said);
        Endpoint { targets: vec![target.to_owned()], ..annotated }
    };
    let line = told(&harness, &program, &route("tcproute", &[], "http://gw.infra.svc:80"));
    assert!(line.contains("webhook-tunnel-service: tcp://") && line.contains("refused=invalid"), "{line}");
    let sni = ("origin-match-sni-to-host", "true");
    let published = route("tlsroute", &[sni], "https://gw.infra.svc:443");
    program.external_dns().run_loop(&[published]).expect("published");
    assert_eq!(harness.service_at("a.example.com", "/"), "https://gw.infra.svc:443");
}
