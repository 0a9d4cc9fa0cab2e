//! What `NAMESPACE_GUARD` lets an object publish: `SHARED_SERVICES`, the default service, `NAMESPACE_DOMAINS`, and what
//! is filled into a service.

use external_dns_cloudflare_tunnel_webhook::ingress::{OriginOption, Service};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use external_dns_cloudflare_tunnel_webhook::reconcile::reason::Reason;
use external_dns_cloudflare_tunnel_webhook::reconcile::service_template::ServiceTemplate;
use test_support::fake_cloudflare::{FakeCloudflare, options};
use test_support::harness::endpoint_of;

use crate::namespaces::{NAME, after_the_switch, guarded, of, rule, run, services};

/// The operator's Gateway for all namespaces, and a service of its own for each.
fn shared() -> FakeCloudflare {
    let mut cloudflare = guarded();
    cloudflare.shared_services = [
        "http://gw.infra.svc:80",
        "https://gw.infra.svc.cluster.local.",
        "tcp://db.infra.svc:5432",
        "http://10.0.0.1:8080",
        "http://registry:5000",
    ]
    .map(|service| Service::parse(service).expect("a service"))
    .into();
    let template = ServiceTemplate::parse("http://proxy-{namespace}.infra.svc:8000");
    cloudflare.default_service = Some(template.expect("a template"));
    cloudflare
}

/// What is published for an object of the namespace `shop`, or the reason why nothing is.
fn asked(cloudflare: &FakeCloudflare, properties: &[(&str, &str)]) -> Result<String, String> {
    let mut cloudflare = cloudflare.clone();
    let plan = run(&mut cloudflare, &[endpoint_of("ingress/shop/web", NAME, properties)]);
    match &services(&cloudflare)[..] {
        [(_, service)] => Ok(service.clone()),
        _ => Err(plan.refusals[0].to_string()),
    }
}

#[test]
fn every_spelling_of_a_service_that_the_operator_shares_passes_the_guard_and_no_other_place_does() {
    let shared = shared();
    for service in [
        "http://gw.infra.svc:80",
        "http://gw.infra.svc",
        "http://GW.Infra.svc:80",
        "http://gw.infra.svc.:80",
        "http://gw.infra.svc.cluster.local:80",
        "HTTP://gw.infra.svc.Cluster.Local.",
        "https://gw.infra.svc:443",
        "tcp://db.infra.svc:5432",
        "http://10.0.0.1:8080",
        "http://proxy-shop.infra.svc:8000",
        "http://proxy-shop.infra.svc.cluster.local:8000",
    ] {
        assert!(asked(&shared, &[("tunnel-service", service)]).is_ok(), "{service}");
    }
    for service in [
        "http://gw.infra.svc:8080",
        "tcp://gw.infra.svc:80",
        "ws://gw.infra.svc:80",
        "https://gw.infra.svc:80",
        "http://gw.infra.svc:443",
        "ssh://db.infra.svc:5432",
        "http://gw.infra.svc.example.com:80",
        "http://gw.infra:80",
        "http://admin.infra.svc:80",
        "http://10.0.0.1",
        "http://registry.cluster.local:5000",
        // The default service of another namespace.
        "http://proxy-bank.infra.svc:8000",
        "bastion",
    ] {
        let refused = asked(&shared, &[("tunnel-service", service)]).expect_err(service);
        assert!(refused.contains("SHARED_SERVICES"), "{service}: {refused}");
    }
    assert_eq!(asked(&shared, &[("tunnel", "true")]).as_deref(), Ok("http://proxy-shop.infra.svc:8000"));
}

/// An object may have any name, so with `{name}` any of its namespace's authors would choose the service.
#[test]
fn a_default_service_with_the_objects_name_passes_the_guard_only_in_the_objects_namespace() {
    for (template, is_allowed) in [
        ("http://{name}.infra.svc:80", false),
        ("http://{name}.{namespace}.svc:80", true),
        ("http://gw.infra.svc:80", true),
    ] {
        let mut cloudflare = guarded();
        cloudflare.default_service = ServiceTemplate::parse(template).ok();
        assert_eq!(asked(&cloudflare, &[("tunnel", "true")]).is_ok(), is_allowed, "{template}");
    }
}

/// Behind a shared service these choose the host, which may be another tenant's; the operator's own default does not.
#[test]
fn on_a_shared_service_the_guard_refuses_what_chooses_a_host_behind_it() {
    let gateway = ("tunnel-service", "https://gw.infra.svc:443");
    for option in [
        ("origin-http-host-header", "bank.example.com"),
        ("origin-server-name", "bank.example.com"),
        ("origin-bastion-mode", "true"),
        ("origin-proxy-type", "socks"),
    ] {
        for service in [gateway, ("tunnel", "true")] {
            let refused = asked(&shared(), &[service, option]).expect_err(option.0);
            assert!(refused.contains(option.0), "{option:?}: {refused}");
        }
        let own = [("tunnel-service", "https://web.shop.svc:443"), option];
        let is_host = option.1 == "bank.example.com";
        assert_eq!(asked(&shared(), &own).is_ok(), is_host, "{option:?} of its own service");
    }
    let mut cloudflare = shared();
    cloudflare.origin_defaults = options(&[(OriginOption::ServerName, "gw.example.com")]);
    assert!(asked(&cloudflare, &[gateway]).is_ok(), "the operator's default");
    assert!(asked(&cloudflare, &[gateway, ("origin-server-name", "gw.example.com")]).is_ok(), "the same");
    assert!(asked(&cloudflare, &[gateway, ("origin-server-name", "bank.example.com")]).is_err());
    assert!(asked(&cloudflare, &[gateway, ("origin-match-sni-to-host", "true")]).is_ok());
}

/// A hostname of several objects, whose stamp names none, would become that of the Gateway's namespace.
#[test]
fn switched_on_later_the_guard_takes_no_shared_service_for_a_sign_of_its_namespace() {
    let both = [
        of("ingress/shop/web", "^/a$", "http://gw.infra.svc:80"),
        of("ingress/shop/api", "^/b$", "http://gw.infra.svc:80"),
    ];
    let mut cloudflare = after_the_switch(&both);
    cloudflare.shared_services = vec![Service::parse("http://gw.infra.svc:80").expect("a service")];
    let before = cloudflare.clone();
    let infra = of("ingress/infra/web", "^/c$", "http://gw.infra.svc:80");
    let plan = run(&mut cloudflare, &[infra, both[0].clone(), both[1].clone()]);
    assert_eq!(cloudflare, before, "{plan:?}");
    assert!(plan.refusals.iter().all(|one| matches!(one.reason, Reason::NamespaceHeld { holder: None, .. })));
}

fn with_domains(domains: &[(&'static str, &'static str)]) -> FakeCloudflare {
    let mut cloudflare = guarded();
    cloudflare.namespace_domains = domains.to_vec();
    cloudflare
}

/// True if an object of the namespace publishes the hostname.
fn publishes(cloudflare: &FakeCloudflare, namespace: &str, name: &str) -> bool {
    let service = format!("http://web.{namespace}.svc:80");
    let said = [("tunnel-service", &*service), ("tunnel-wildcard", "true")];
    let plan = run(&mut cloudflare.clone(), &[endpoint_of(&format!("ingress/{namespace}/web"), name, &said)]);
    for refusal in &plan.refusals {
        let text = refusal.to_string();
        assert!(text.contains("NAMESPACE_DOMAINS") && text.contains("refused=invalid"), "{text}");
    }
    plan.refusals.is_empty()
}

#[test]
fn a_namespace_publishes_the_names_of_its_domains_alone() {
    let each = [("*", "{namespace}.example.com")];
    let several = [("shop", "shop.example.com"), ("shop", ".store.example.com"), ("bank", "example.com")];
    let prefixed = [("*", "Preview-{namespace}.example.com."), ("shop", "shared.example.com")];
    for (domains, namespace, name, is_published) in [
        (&each[..], "shop", "shop.example.com", true),
        (&each, "shop", "web.shop.example.com", true),
        (&each, "shop", "*.shop.example.com", true),
        (&each, "shop", "bank.example.com", false),
        (&each, "shop", "web.bank.example.com", false),
        (&each, "shop", "workshop.example.com", false),
        (&each, "shop", "example.com", false),
        (&each, "shop", "*.example.com", false),
        (&several, "shop", "shop.example.com", true),
        (&several, "shop", "store.example.com", false),
        (&several, "shop", "*.store.example.com", true),
        (&several, "shop", "a.store.example.com", true),
        // A domain may lie in that of another namespace.
        (&several, "bank", "shop.example.com", true),
        (&several, "bank", "*.example.com", true),
        (&several, "other", "other.example.com", false),
        (&prefixed, "bank", "preview-bank.example.com", true),
        (&prefixed, "bank", "preview-shop.example.com", false),
        (&prefixed, "shop", "a.shared.example.com", true),
        (&prefixed, "bank", "a.shared.example.com", false),
        (&[], "shop", "any.example.com", true),
    ] {
        let cloudflare = with_domains(domains);
        assert_eq!(publishes(&cloudflare, namespace, name), is_published, "{domains:?} {namespace} {name}");
    }
}

/// `bank` sorts first, and would get the hostname for good.
#[test]
fn a_namespace_that_may_not_publish_a_free_hostname_has_no_part_in_the_choice() {
    let shop = of("ingress/shop/web", "", "http://web.shop.svc:80");
    for path in ["", "^/bank$"] {
        let bank = of("ingress/bank/web", path, "http://web.bank.svc:80");
        let mut cloudflare = with_domains(&[("shop", NAME)]);
        run(&mut cloudflare, &[bank.clone(), shop.clone()]);
        assert_eq!(services(&cloudflare), [rule("", "http://web.shop.svc:80")], "{path:?}");
        let writes = cloudflare.writes;
        run(&mut cloudflare, &[bank, shop.clone()]);
        assert_eq!(cloudflare.writes, writes, "{path:?}");
    }
}

#[test]
fn a_hostname_that_stands_outside_its_namespaces_domains_stays_and_is_refused_and_can_be_deleted() {
    let shop = |path: &str, service: &str| of("ingress/shop/web", path, service);
    let mut cloudflare = guarded();
    run(&mut cloudflare, &[shop("^/a$", "http://web.shop.svc:80")]);
    cloudflare.namespace_domains = vec![("bank", "example.com"), ("shop", "shop.example.com")];
    let before = cloudflare.clone();
    for (path, service) in [("^/a$", "web"), ("^/a$", "other"), ("^/b$", "web")] {
        let plan = run(&mut cloudflare, &[shop(path, &format!("http://{service}.shop.svc:80"))]);
        assert_eq!(cloudflare, before, "{path} {service}");
        let is_told = plan.refusals.iter().any(|one| one.to_string().contains("only shop.example.com"));
        assert!(is_told, "{path} {service}: {plan:?}");
    }
    // The other namespace may have the name, and does not take it.
    let bank = of("ingress/bank/web", "^/a$", "http://web.bank.svc:80");
    run(&mut cloudflare, &[bank.clone(), shop("^/a$", "http://web.shop.svc:80")]);
    assert_eq!(cloudflare, before);
    run(&mut cloudflare, &[]);
    assert_eq!(services(&cloudflare), []);
    run(&mut cloudflare, &[bank, shop("^/a$", "http://web.shop.svc:80")]);
    assert_eq!(services(&cloudflare), [rule("^/a$", "http://web.bank.svc:80")]);
}

/// A base of kustomize has no namespace of its own. What is filled in is judged.
#[test]
fn an_objects_namespace_and_name_are_filled_into_its_own_service_and_pass_the_guard() {
    for (service, filled) in [
        ("https://web.{namespace}.svc:443", Ok("https://web.shop.svc:443")),
        ("http://{name}.{namespace}.svc.cluster.local:80", Ok("http://web.shop.svc.cluster.local:80")),
        ("http://web.{namespace}.bank.svc:80", Err("NAMESPACE_GUARD")),
        ("http://{namespace}.bank.svc:80", Err("NAMESPACE_GUARD")),
        ("http://{nmae}.{namespace}.svc:80", Err("braces are only for")),
    ] {
        let said = [("tunnel-service", service)];
        match (asked(&guarded(), &said), filled) {
            (Ok(published), Ok(filled)) => assert_eq!(published, filled),
            (Err(refused), Err(reason)) => assert!(refused.contains(reason), "{service}: {refused}"),
            other => panic!("{service}: {other:?}"),
        }
    }
}

/// Of a target ExternalDNS knows no object: a Gateway's is that of all its routes.
#[test]
fn a_placeholder_in_a_target_or_without_an_object_is_refused_by_name() {
    let service = "http://web.{namespace}.svc:80";
    let target = Endpoint { targets: vec![service.to_owned()], ..of("ingress/shop/web", "", "") };
    let no_object = of("", "", service);
    for endpoint in [target, no_object] {
        let mut cloudflare = FakeCloudflare::new(&[], &[]);
        let plan = run(&mut cloudflare, std::slice::from_ref(&endpoint));
        let text = plan.refusals[0].to_string();
        assert!(text.contains("{namespace}") && text.contains("braces are only for"), "{text}");
        assert_eq!(services(&cloudflare), []);
    }
}
