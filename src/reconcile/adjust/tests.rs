mod invalid;
mod laws;

use super::*;
use crate::fixture::{operator_settings, options};
use crate::ingress::OriginOption;
use crate::model::TunnelId;
use crate::model::endpoint::{Labels, Property};
use crate::reconcile::ConfiguredTunnel;
use crate::reconcile::access::reading::AccessReading;
use crate::reconcile::canonical::RESOURCE_LABEL;
use crate::reconcile::property_name::{INVALID, TUNNEL_PATH_PREFIX};
use crate::reconcile::service_template::ServiceTemplate;

const HOME: &str = "f70ff985-a4ef-4643-bbbc-4a0ed4fc8415";
const OFFICE: &str = "00000000-a4ef-4643-bbbc-4a0ed4fc8415";
const ELSEWHERE: &str = "10000000-a4ef-4643-bbbc-4a0ed4fc8415";

fn adjust(endpoints: &[Endpoint], settings: &Settings, snapshot: Option<&Snapshot>) -> Adjusted {
    let mut adjuster = Adjuster::new(settings, snapshot);
    for endpoint in endpoints {
        adjuster.add(endpoint);
    }
    adjuster.finish()
}

fn settings() -> Settings {
    let tunnel = |id: &str, name: &str| ConfiguredTunnel {
        id: TunnelId::parse(id).expect("a well-formed id"),
        name: name.into(),
        is_locally_managed: false,
    };
    Settings::new(operator_settings("default"), tunnel(HOME, "home"), vec![tunnel(OFFICE, "office")])
}

fn endpoint(name: &str, kind: &str, target: &str, properties: &[(&str, &str)]) -> Endpoint {
    Endpoint {
        dns_name: name.to_owned(),
        record_type: kind.to_owned(),
        targets: target.split_whitespace().map(str::to_owned).collect(),
        labels: Labels::from_iter([("resource", "ingress/shop/web")]),
        provider_specific: properties.iter().map(|(name, value)| Property::new(*name, *value)).collect(),
        ..Endpoint::default()
    }
}

/// The one rule that is asked for.
fn read_one(endpoint: &Endpoint, settings: &Settings) -> CanonicalEndpoint {
    let mut reader = EndpointReader::new(settings, &AccessReading::NotAsked);
    let [read] = <[CanonicalEndpoint; 1]>::try_from(reader.read(endpoint)).expect("one rule");
    read
}

/// Name, target, set identifier and properties.
type Parts = (String, String, String, Vec<(String, String)>);

/// The one endpoint that results from `endpoint`, if any.
fn adjusted(endpoint: Endpoint) -> Option<Parts> {
    let adjusted = adjust(&[endpoint], &settings(), None);
    assert!(adjusted.endpoints.len() <= 1);
    adjusted.endpoints.into_iter().next().map(|endpoint| {
        assert_eq!((&*endpoint.record_type, endpoint.record_ttl, endpoint.targets.len()), ("CNAME", 0, 1));
        assert_eq!(endpoint.labels.value("resource"), Some("ingress/shop/web"), "labels are echoed");
        let properties = endpoint.provider_specific.into_iter();
        (
            endpoint.dns_name,
            endpoint.targets.concat(),
            endpoint.set_identifier,
            properties.map(|property| (property.name.into(), property.value.into())).collect(),
        )
    })
}

fn expected(target: &str, set_identifier: &str, properties: &[(&str, &str)]) -> Option<Parts> {
    let properties = properties.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    Some((
        "a.example.com".to_owned(),
        format!("{target}.cfargotunnel.com"),
        set_identifier.to_owned(),
        properties,
    ))
}

#[test]
fn every_form_ends_in_the_canonical_one() {
    let service = [("webhook/tunnel-service", "http://web.shop.svc:80")];
    let table = [
        (
            "a target that is a service",
            endpoint("A.example.com.", "CNAME", "http://web.shop.svc:80", &[]),
            expected(HOME, "", &service),
        ),
        (
            "a property, whatever the target",
            endpoint("a.example.com", "AAAA", "2001:db8::1", &service),
            expected(HOME, "", &service),
        ),
        (
            "the tunnel's own hostname",
            endpoint("a.example.com", "CNAME", &format!("{OFFICE}.CFARGOTUNNEL.com"), &[]),
            expected(OFFICE, "", &[("webhook/tunnel-service", "none")]),
        ),
        (
            "a tunnel by name",
            endpoint("a.example.com", "A", "192.0.2.1", &[("webhook/tunnel", "office"), service[0]]),
            expected(OFFICE, "", &service),
        ),
        (
            "a path",
            endpoint(
                "a.example.com",
                "A",
                "192.0.2.1",
                &[("webhook/tunnel-path-prefix", "/api"), service[0]],
            ),
            expected(HOME, "^/api(/|$)", &[("webhook/tunnel-path", "^/api(/|$)"), service[0]]),
        ),
        (
            "a lone slash behind the service, and an option",
            endpoint(
                "a.example.com",
                "CNAME",
                "HTTP://web.shop.svc:80/",
                &[("webhook/origin-connect-timeout", "1m")],
            ),
            expected(HOME, "", &[("webhook/origin-connect-timeout", "60s"), service[0]]),
        ),
        (
            "properties that records cannot show are stripped",
            endpoint(
                "a.example.com",
                "CNAME",
                "http://web.shop.svc:80",
                &[("alias", "true"), ("record-type", "CNAME"), ("aws/x", "1"), ("webhook/drift", "order")],
            ),
            expected(HOME, "", &service),
        ),
        ("an ordinary record", endpoint("a.example.com", "A", "192.0.2.1", &[]), None),
        (
            "another tunnel's hostname",
            endpoint("a.example.com", "CNAME", &format!("{ELSEWHERE}.cfargotunnel.com"), &[]),
            None,
        ),
        ("a type that is not published", endpoint("a.example.com", "TXT", "x", &service), None),
        (
            "an endpoint that opts out",
            endpoint("a.example.com", "A", "192.0.2.1", &[("webhook/tunnel", "false"), service[0]]),
            None,
        ),
    ];
    for (label, endpoint, expected) in table {
        assert_eq!(adjusted(endpoint), expected, "{label}");
    }
}

#[test]
fn a_and_aaaa_of_one_object_become_one_and_other_objects_stay_apart() {
    let service = [("webhook/tunnel-service", "http://web:80")];
    let mut other = endpoint("a.example.com", "A", "192.0.2.2", &service);
    other.labels.set("resource", "ingress/shop/other");
    let endpoints = [
        endpoint("a.example.com", "AAAA", "2001:db8::1", &service),
        other,
        endpoint("a.example.com", "A", "192.0.2.1", &service),
    ];
    let adjusted = adjust(&endpoints, &settings(), None).endpoints;
    let resources: Vec<_> = adjusted.iter().map(|endpoint| endpoint.labels.value("resource")).collect();
    assert_eq!(resources, [Some("ingress/shop/other"), Some("ingress/shop/web")]);
}

#[test]
fn each_group_becomes_an_endpoint_of_its_own() {
    let groups = [
        ("webhook/tunnel", "office"),
        ("webhook/tunnel-service.api", "http://api:80"),
        ("webhook/tunnel-path-prefix.api", "/api"),
        ("webhook/tunnel-service.images", "http://images:80"),
        ("webhook/tunnel-path.images", "\\.png$"),
    ];
    let services = |target: &str| {
        let adjusted = adjust(&[endpoint("a.example.com", "A", target, &groups)], &settings(), None);
        let endpoints = adjusted.endpoints.into_iter();
        endpoints
            .map(|endpoint| {
                assert_eq!(endpoint.targets, [format!("{OFFICE}.cfargotunnel.com")]);
                let service = endpoint.property("webhook/tunnel-service").unwrap_or_default().to_owned();
                (endpoint.set_identifier, service)
            })
            .collect::<Vec<_>>()
    };
    let [images, api] = [("\\.png$", "http://images:80"), ("^/api(/|$)", "http://api:80")]
        .map(|(path, service)| (path.to_owned(), service.to_owned()));
    assert_eq!(services("192.0.2.1"), [images.clone(), api.clone()]);
    let whole = (String::new(), "http://web:80".to_owned());
    assert_eq!(services("http://web:80"), [whole, images, api]);
}

/// The service of an endpoint with these properties and this target, under a default service.
fn defaulted(settings: &Settings, target: &str, said: &[(&str, &str)]) -> Option<String> {
    let kind = if target == "192.0.2.1" { "A" } else { "CNAME" };
    let adjusted = adjust(&[endpoint("a.example.com", kind, target, said)], settings, None).endpoints;
    assert_eq!(adjust(&adjusted, settings, None).endpoints, adjusted, "{said:?}");
    assert!(adjusted.len() <= 1, "{adjusted:?}");
    let service = |endpoint: &Endpoint| endpoint.property("webhook/tunnel-service").map(str::to_owned);
    adjusted.first().map(|endpoint| service(endpoint).unwrap_or_else(|| "invalid".to_owned()))
}

fn with_default_service() -> Settings {
    let mut settings = settings();
    settings.operator.default_service =
        Some(ServiceTemplate::parse("http://{name}.{namespace}.svc:80").expect("valid"));
    settings
}

/// ExternalDNS 0.22 reads annotations under another prefix. Objects that an annotation excluded were all published at
/// once.
#[test]
fn a_default_service_is_only_for_what_carries_a_property_of_this_program() {
    let settings = with_default_service();
    let tunnel = format!("{HOME}.cfargotunnel.com");
    let address = "192.0.2.1";
    for (label, target, said, expected) in [
        ("an address", address, &[][..], None),
        ("another CNAME", "lb.test", &[], None),
        ("another webhook's property", address, &[("webhook/unifi-x", "1"), ("aws/weight", "1")], None),
        ("an opt-out", address, &[("webhook/tunnel", "false")], None),
        ("the default tunnel", address, &[("webhook/tunnel", "true")], Some("http://web.shop.svc:80")),
        ("a tunnel by name", "lb.test", &[("webhook/tunnel", "home")], Some("http://web.shop.svc:80")),
        ("a path", address, &[("webhook/tunnel-path", "^/x")], Some("http://web.shop.svc:80")),
        ("a login", address, &[("webhook/access-policy", "none")], Some("http://web.shop.svc:80")),
        ("a typing mistake", address, &[("webhook/origin-no-tls-verfy", "true")], Some("invalid")),
        ("the tunnel's own hostname", &tunnel, &[], Some("none")),
        ("a service", "http://other:80", &[], Some("http://other:80")),
    ] {
        assert_eq!(defaulted(&settings, target, said).as_deref(), expected, "{label}");
    }
}

#[test]
fn where_everything_is_published_the_default_service_is_for_what_names_none() {
    let mut settings = with_default_service();
    settings.operator.publish_all = true;
    let tunnel = format!("{HOME}.cfargotunnel.com");
    let table = [
        ("an address", endpoint("a.example.com", "A", "192.0.2.1", &[]), Some("http://web.shop.svc:80")),
        ("another CNAME", endpoint("a.example.com", "CNAME", "lb.test", &[]), Some("http://web.shop.svc:80")),
        ("the tunnel's own hostname", endpoint("a.example.com", "CNAME", &tunnel, &[]), Some("none")),
        ("a service", endpoint("a.example.com", "CNAME", "http://other:80", &[]), Some("http://other:80")),
        ("an opt-out", endpoint("a.example.com", "A", "192.0.2.1", &[("webhook/tunnel", "false")]), None),
        ("another type", endpoint("a.example.com", "MX", "10 mx.test", &[]), None),
    ];
    for (label, endpoint, expected) in table {
        let adjusted = adjust(&[endpoint], &settings, None).endpoints;
        let service = adjusted.first().and_then(|endpoint| endpoint.property("webhook/tunnel-service"));
        assert_eq!(service, expected, "{label}");
    }
}

#[test]
fn a_rule_for_the_whole_hostname_beside_paths_is_defaulted_only_if_it_is_asked_for() {
    let settings = with_default_service();
    let group = [("webhook/tunnel-service.api", "http://api:80"), ("webhook/tunnel-path.api", "^/api")];
    let rules = |said: &[(&str, &str)]| {
        let said = [&group[..], said].concat();
        let adjusted =
            adjust(&[endpoint("a.example.com", "A", "192.0.2.1", &said)], &settings, None).endpoints;
        adjusted.into_iter().map(|endpoint| endpoint.set_identifier).collect::<Vec<_>>()
    };
    assert_eq!(rules(&[]), ["^/api"]);
    assert_eq!(rules(&[("webhook/tunnel", "true")]), ["", "^/api"]);
}

#[test]
fn true_is_the_default_tunnel_unless_a_tunnel_is_called_so() {
    let said = [("webhook/tunnel", "true"), ("webhook/tunnel-service", "http://web:80")];
    let target = |settings: &Settings, target: &str| {
        let read = read_one(&endpoint("a.example.com", "CNAME", target, &said), settings);
        read.publication.is_ok().then(|| read.endpoint.targets.concat())
    };
    assert_eq!(target(&settings(), "lb.test"), Some(format!("{HOME}.cfargotunnel.com")));
    assert_eq!(target(&settings(), &format!("{OFFICE}.cfargotunnel.com")), None, "two tunnels are named");
    let mut tunnels = settings().tunnels().to_vec();
    tunnels[1].name = "true".into();
    let called = Settings::new(operator_settings("default"), tunnels.remove(0), tunnels);
    assert_eq!(target(&called, "lb.test"), Some(format!("{OFFICE}.cfargotunnel.com")));
}

#[test]
fn default_options_are_filled_in_where_there_is_a_rule_that_does_not_say_otherwise() {
    let mut settings = settings();
    settings.operator.origin_defaults =
        options(&[(OriginOption::ConnectTimeout, "5s"), (OriginOption::NoTlsVerify, "true")]);
    let service = ("webhook/tunnel-service", "https://web:443");
    let (timeout, verify) = ("webhook/origin-connect-timeout", "webhook/origin-no-tls-verify");
    let table = [
        ("nothing said", vec![service], vec![(timeout, "5s"), (verify, "true"), service]),
        (
            "false is said",
            vec![(verify, "false"), service],
            vec![(timeout, "5s"), (verify, "false"), service],
        ),
        ("the record only", vec![(service.0, "none")], vec![(service.0, "none")]),
    ];
    for (label, said, expected) in table {
        let adjusted =
            adjust(&[endpoint("a.example.com", "A", "192.0.2.1", &said)], &settings, None).endpoints;
        let expected = endpoint("", "", "", &expected).provider_specific;
        assert_eq!(adjusted[0].provider_specific, expected, "{label}");
        assert_ne!(read_one(&adjusted[0], &settings).publication.ok(), None, "{label}");
        assert_eq!(adjust(&adjusted, &settings, None).endpoints, adjusted, "{label}");
    }
}

/// A DNSEndpoint may carry any label, and one with another owner would stop every change. Only ExternalDNS may name
/// the owner.
#[test]
fn an_owner_that_a_source_claims_is_not_echoed() {
    let mut endpoint = endpoint("a.example.com", "CNAME", "http://web:80", &[]);
    endpoint.labels.set("owner", "another");
    let [adjusted] = &adjust(&[endpoint], &settings(), None).endpoints[..] else { panic!("it is published") };
    assert_eq!(adjusted.labels, Labels::from_iter([("resource", "ingress/shop/web")]));
}

#[test]
fn a_group_that_is_not_meant_for_a_tunnel_is_left_out_alone() {
    let services = |said: &[(&str, &str)]| {
        let adjusted = adjust(&[endpoint("a.example.com", "A", "192.0.2.1", said)], &settings(), None);
        let service = |one: &Endpoint| one.property("webhook/tunnel-service").unwrap_or("invalid").to_owned();
        adjusted.endpoints.iter().map(service).collect::<Vec<_>>()
    };
    let (base, api) =
        (("webhook/tunnel-service", "http://a:80"), ("webhook/tunnel-service.api", "http://b:80"));
    let (path, out) = (("webhook/tunnel-path.api", "^/api"), ("webhook/tunnel.api", "false"));
    assert_eq!(services(&[base, api, path]), ["http://a:80", "http://b:80"]);
    assert_eq!(services(&[base, api, path, out]), ["http://a:80"]);
    assert_eq!(services(&[("webhook/tunnel", "false"), api, path]), Vec::<String>::new());
}

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
    let read =
        |name: &str| read_one(&endpoint(name, "A", "192.0.2.1", &large), &settings()).endpoint.dns_name;
    for (length, kept) in [(253, 253), (254, 254), (255, 255), (1_100, 1_015)] {
        let name = "abcdefg.".repeat(140);
        let name = name.get(..length).expect("long enough");
        assert_eq!(Some(&*read(name)), name.get(..kept), "{length}");
    }
    let unicode = format!("{}example.com", format!("{}.", "一".repeat(21)).repeat(4));
    assert_eq!(read(&unicode), crate::model::hostname::normalize(&unicode), "it is shorter in punycode");
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
