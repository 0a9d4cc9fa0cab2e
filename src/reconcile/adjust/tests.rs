use proptest::prelude::*;

use super::*;
use crate::ingress::OriginOption;
use crate::ingress::origin_option::OriginValue;
use crate::model::TunnelId;
use crate::model::endpoint::{Labels, Property};
use crate::reconcile::canonical::INVALID;
use crate::reconcile::service_template::ServiceTemplate;
use crate::reconcile::{ConfiguredTunnel, Policy};

const HOME: &str = "f70ff985-a4ef-4643-bbbc-4a0ed4fc8415";
const OFFICE: &str = "00000000-a4ef-4643-bbbc-4a0ed4fc8415";
const ELSEWHERE: &str = "10000000-a4ef-4643-bbbc-4a0ed4fc8415";

fn settings() -> Settings {
    let tunnel = |id: &str, name: &str| ConfiguredTunnel {
        id: TunnelId::parse(id).expect("a well-formed id"),
        name: name.into(),
        is_local: false,
    };
    Settings::new(Policy::new("default"), tunnel(HOME, "home"), vec![tunnel(OFFICE, "office")])
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
fn read_one(endpoint: &Endpoint, settings: &Settings) -> Canonical {
    let mut reader = EndpointReader::new(settings, Notes::with_room(0));
    let [read] = <[Canonical; 1]>::try_from(reader.read(endpoint)).expect("one rule");
    read
}

/// The problem for which the one rule is refused, which must not change when it is read again.
fn problem_of(endpoint: &Endpoint) -> String {
    let canonical = read_one(endpoint, &settings());
    let again = read_one(&canonical.endpoint, &settings());
    assert_eq!(canonical.publication, again.publication);
    canonical.publication.expect_err("it is invalid").to_string()
}

/// Name, target, set identifier and properties.
type Parts = (String, String, String, Vec<(String, String)>);

/// The one endpoint that results from `endpoint`, if any.
fn adjusted(endpoint: Endpoint) -> Option<Parts> {
    let adjusted = adjust(&[endpoint], &settings());
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

fn value(option: OriginOption, text: &str) -> OriginValue {
    option.parse(text).expect("it is valid").expect("it says something")
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

/// ExternalDNS takes a missing endpoint for a deleted one, so a typing mistake must not take a hostname off the
/// internet.
#[test]
fn an_invalid_endpoint_stays_and_says_what_is_wrong() {
    let service = ("webhook/tunnel-service", "http://web.shop.svc:80");
    for (label, said, culprit) in [
        ("a service that is none", vec![("webhook/tunnel-service", "web.shop:80")], "tunnel-service is"),
        ("a service with a path", vec![("webhook/tunnel-service", "http://web.shop.svc/x")], "has no path"),
        ("an unknown tunnel", vec![("webhook/tunnel", "nowhere"), service], "configured: home, office"),
        ("a misspelled property", vec![service, ("webhook/tunnel-sevrice", "http://x")], "did you mean"),
        ("access that is half said", vec![("webhook/access-required", "true"), service], "aud-tag"),
        ("an empty service", vec![("webhook/tunnel-service", "")], "is missing"),
        ("no service at all", vec![("webhook/tunnel", "home")], "tunnel-service is missing"),
        ("an option alone", vec![("webhook/origin-no-tls-verify", "true")], "tunnel-service is missing"),
        (
            "a property set twice",
            vec![("webhook/tunnel", "home"), ("webhook/tunnel", "office"), service],
            "is set twice",
        ),
    ] {
        let (name, target, set_identifier, properties) =
            adjusted(endpoint("a.example.com", "A", "192.0.2.1", &said)).expect(label);
        assert_eq!((&*name, &*set_identifier), ("a.example.com", ""), "{label}");
        assert_eq!(target, format!("{HOME}.cfargotunnel.com"), "{label}");
        let [(name, problem)] = &properties[..] else { panic!("{label}: {properties:?}") };
        assert_eq!(name, INVALID, "{label}");
        assert!(problem.contains(culprit), "{label}: {problem}");
    }
}

/// It took no request, so what it was to protect, or to serve otherwise, went to the rule around it.
#[test]
fn a_path_that_nobody_asks_for_is_refused() {
    let service = ("webhook/tunnel-service", "http://web:80");
    let (path, prefix) = ("webhook/tunnel-path", "webhook/tunnel-path-prefix");
    let problem = |property, text| {
        let read =
            read_one(&endpoint("a.example.com", "A", "192.0.2.1", &[service, (property, text)]), &settings());
        read.publication.err().map(|problem| problem.to_string())
    };
    for (property, text, culprit) in [
        (prefix, "/admin ", "a blank"),
        (prefix, " /admin", "a blank"),
        (prefix, "/admin /", "a blank"),
        (prefix, "/admin\u{a0}", "a blank"),
        (prefix, "//admin", "one `/`"),
        (prefix, "/../admin", "`..`"),
        (prefix, "/shop/./admin", "`..`"),
        (prefix, "/shop/..", "`..`"),
        (path, "^/admin ", "a blank"),
        (path, " ^/admin", "a blank"),
        (path, "^/admin(/|$) ", "a blank"),
    ] {
        let said = problem(property, text).unwrap_or_else(|| panic!("{text:?} is published"));
        assert!(said.contains(property) && said.contains(culprit), "{text:?}: {said}");
    }
    for (property, text) in [
        // A visitor writes %20.
        (prefix, "/My Documents/a .txt"),
        (prefix, "/.well-known"),
        (prefix, "/a..b/..."),
        (prefix, "/proxy/https://example.com"),
        (prefix, "//"),
        (path, r"^/\.\./"),
        (path, "^//"),
        (path, "^/my file"),
        (path, r"^/admin\s"),
    ] {
        assert_eq!(problem(property, text), None, "{text:?}");
    }
}

/// As punycode of the letters that are there it would be a name that no browser asks for.
#[test]
fn a_name_that_idna_would_fold_is_refused() {
    let service = [("webhook/tunnel-service", "http://web:80")];
    for letters in
        ["sh\u{ad}op", "\u{ff53}hop", "sh\u{200b}op", "cafe\u{301}", "\u{fb01}sh", "a\u{202e}b", "a\u{a0}b"]
    {
        let name = format!("{letters}.example.com");
        let [adjusted] = &adjust(&[endpoint(&name, "A", "192.0.2.1", &service)], &settings()).endpoints[..]
        else {
            panic!("{name:?}")
        };
        let problem = adjusted.property(INVALID).unwrap_or_default();
        assert!(problem.contains("the name is"), "{name:?}: {problem}");
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
    let adjusted = adjust(&endpoints, &settings()).endpoints;
    let resources: Vec<_> = adjusted.iter().map(|endpoint| endpoint.labels.value("resource")).collect();
    assert_eq!(resources, [Some("ingress/shop/other"), Some("ingress/shop/web")]);
}

#[test]
fn an_unknown_property_is_named_with_the_nearest_known_one() {
    let endpoint =
        endpoint("a.example.com", "CNAME", "http://web:80", &[("webhook/origin-no-tls-verfy", "true")]);
    let notes = adjust(&[endpoint], &settings()).notes;
    assert_eq!(notes.len(), 1);
    assert!(notes[0].text.contains("did you mean webhook/origin-no-tls-verify?"), "{}", notes[0].text);
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
        let adjusted = adjust(&[endpoint("a.example.com", "A", target, &groups)], &settings());
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

#[test]
fn a_default_service_publishes_what_names_none() {
    let mut settings = settings();
    settings.policy.default_service =
        Some(ServiceTemplate::parse("http://{name}.{namespace}.svc:80").expect("valid"));
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
        let adjusted = adjust(&[endpoint], &settings).endpoints;
        let service = adjusted.first().and_then(|endpoint| endpoint.property("webhook/tunnel-service"));
        assert_eq!(service, expected, "{label}");
    }
}

#[test]
fn default_options_are_filled_in_where_there_is_a_rule_that_does_not_say_otherwise() {
    let mut settings = settings();
    settings.policy.origin_defaults =
        [value(OriginOption::ConnectTimeout, "5s"), value(OriginOption::NoTlsVerify, "true")]
            .into_iter()
            .collect();
    let service = ("webhook/tunnel-service", "https://web:443");
    let (timeout, verify) = ("webhook/origin-connect-timeout", "webhook/origin-no-tls-verify");
    let table = [
        ("nothing said", vec![service], vec![(timeout, "5s"), (verify, "true"), service]),
        (
            "false is said",
            vec![(verify, "false"), service],
            vec![(timeout, "5s"), (verify, "false"), service],
        ),
        (
            "an invalid option is left out",
            vec![(timeout, "soon"), service],
            vec![(timeout, "5s"), (verify, "true"), service],
        ),
        ("the record only", vec![(service.0, "none")], vec![(service.0, "none")]),
    ];
    for (label, said, expected) in table {
        let adjusted = adjust(&[endpoint("a.example.com", "A", "192.0.2.1", &said)], &settings).endpoints;
        let expected = endpoint("", "", "", &expected).provider_specific;
        assert_eq!(adjusted[0].provider_specific, expected, "{label}");
        assert_ne!(read_one(&adjusted[0], &settings).publication.ok(), None, "{label}");
        assert_eq!(adjust(&adjusted, &settings).endpoints, adjusted, "{label}");
    }
}

/// Another instance serves it, or the tunnel was taken off the configuration.
#[test]
fn a_service_beside_a_tunnel_that_is_not_configured_is_invalid() {
    let service = ("webhook/tunnel-service", "http://web:80");
    let target = format!("{ELSEWHERE}.cfargotunnel.com");
    let problem = problem_of(&endpoint("a.example.com", "CNAME", &target, &[service]));
    assert!(problem.contains(&format!("tunnel {ELSEWHERE}, which is not configured")), "{problem}");
}

/// A DNSEndpoint may carry any label, and one with another owner would stop every change. Only ExternalDNS may name
/// the owner.
#[test]
fn an_owner_that_a_source_claims_is_not_echoed() {
    let mut endpoint = endpoint("a.example.com", "CNAME", "http://web:80", &[]);
    endpoint.labels.set("owner", "somebody");
    let [adjusted] = &adjust(&[endpoint], &settings()).endpoints[..] else { panic!("it is published") };
    assert_eq!(adjusted.labels, Labels::from_iter([("resource", "ingress/shop/web")]));
}

/// If it were left out, everybody could see what was meant for few.
#[test]
fn a_misspelled_limit_makes_the_endpoint_invalid() {
    for name in ["webhook/acces-required", "webhook/Access-Required", "webhook/origin-iprules"] {
        let said = [(name, "true"), ("webhook/tunnel-service", "http://web:80")];
        let problem = problem_of(&endpoint("a.example.com", "A", "192.0.2.1", &said));
        assert!(problem.contains(name), "{problem}");
    }
}

#[test]
fn text_from_the_cluster_stays_on_its_line_of_the_log() {
    for name in ["webhook/x\nwarn forged", "webhook/tunnel\nwarn forged", "webhook/access\u{1b}[2K"] {
        let service = ("webhook/tunnel-service", "http://web:80");
        let mut endpoint = endpoint("a.example.com", "A", "192.0.2.1", &[service, (name, "x")]);
        endpoint.labels.set("resource", "crd/a/b\nwarn forged");
        let problem = read_one(&endpoint, &settings()).publication.err();
        let adjusted = adjust(&[endpoint], &settings());
        let notes = adjusted.notes.iter().map(ToString::to_string);
        for line in notes.chain(problem.iter().map(ToString::to_string)) {
            assert!(!line.chars().any(char::is_control), "{line:?}");
        }
    }
}

/// ExternalDNS ends if an answer takes 15 s, and anybody who may write a DNSEndpoint chooses its properties.
#[test]
#[allow(clippy::disallowed_methods, reason = "it is about time")]
fn absurd_properties_are_read_in_no_time() {
    let service = Property::new("webhook/tunnel-service", "http://web:80");
    let mut long = endpoint("a.example.com", "A", "192.0.2.1", &[]);
    long.provider_specific =
        vec![service.clone(), Property::new(format!("webhook/{}", "x".repeat(1_000_000)), "x")];
    let mut many = endpoint("b.example.com", "A", "192.0.2.1", &[]);
    many.provider_specific =
        (0..40_000).map(|number| Property::new(format!("aws/{number}"), "x")).chain([service]).collect();
    let begun = std::time::Instant::now();
    assert_eq!(adjust(&[long, many], &settings()).endpoints.len(), 2);
    assert!(begun.elapsed().as_secs() < 4, "{:?}", begun.elapsed());
}

/// One line for each would fill the log, and the memory.
#[test]
fn of_thousands_of_notes_the_first_by_name_are_kept() {
    let said = [("webhook/tunnel-service", "http://web:80"), ("webhook/x", "y")];
    let endpoints = |numbers: &mut dyn Iterator<Item = usize>| -> Vec<Endpoint> {
        numbers.map(|number| endpoint(&format!("h{number:0>4}.test"), "A", "192.0.2.1", &said)).collect()
    };
    let forward = adjust(&endpoints(&mut (0..2_000)), &settings());
    assert_eq!((forward.notes.len(), forward.has_more_notes), (limits::NOTES_MAX, true));
    assert_eq!(forward.notes.last().map(|note| &*note.hostname), Some("h0199.test"));
    let backward = adjust(&endpoints(&mut (0..2_000).rev()), &settings());
    assert_eq!(forward.notes, backward.notes);
    assert!(!adjust(&endpoints(&mut (0..limits::NOTES_MAX)), &settings()).has_more_notes);
}

/// If they were left out, they would count as not wanted.
#[test]
fn what_there_is_no_time_for_is_answered_unread() {
    let service = ("webhook/tunnel-service", "http://web:80");
    let names = ["a.example.com", "b.example.com", "c.example.com"];
    let endpoints = names.map(|name| endpoint(name, "A", "192.0.2.1", &[service]));
    let settings = settings();
    let mut adjuster = Adjuster::new(&settings);
    let [first, others @ ..] = &endpoints;
    adjuster.add(first);
    others.iter().for_each(|endpoint| drop(adjuster.add_late(endpoint).to_vec()));
    let adjusted = adjuster.finish().endpoints;
    let found: Vec<(&str, bool)> =
        adjusted.iter().map(|endpoint| (&*endpoint.dns_name, endpoint.property(INVALID).is_some())).collect();
    assert_eq!(found, [("a.example.com", false), ("b.example.com", true), ("c.example.com", true)]);
    assert_eq!(adjust(&adjusted, &settings).endpoints, adjusted);
}

#[test]
fn two_services_for_one_name_are_none() {
    for targets in ["http://web:80 http://other:80", "unix:/a.sock unix:/b.sock"] {
        let endpoint = endpoint("a.example.com", "CNAME", targets, &[]);
        let canonical = read_one(&endpoint, &settings());
        assert!(canonical.publication.is_err(), "{targets}");
    }
}

#[test]
fn more_unknown_properties_than_are_looked_at_make_an_endpoint_invalid() {
    let with_unknown = |target: &str, count: usize| {
        let mut endpoint = endpoint("a.example.com", "CNAME", target, &[]);
        let unknown = (0..count).map(|number| Property::new(format!("webhook/x{number}"), "x"));
        endpoint.provider_specific.extend(unknown);
        endpoint
    };
    let limit = limits::UNKNOWN_PROPERTIES_MAX;
    for (count, is_valid) in [(limit, true), (limit + 1, false), (limit + 2, false), (100, false)] {
        let endpoint = with_unknown("http://web:80", count);
        assert_eq!(read_one(&endpoint, &settings()).publication.is_ok(), is_valid, "{count}");
        let notes = adjust(&[endpoint], &settings()).notes;
        let named: usize = notes.iter().map(|note| note.text.matches("is left out").count()).sum();
        assert!(named <= limit, "{count}: {named}");
        // One that names no service is perhaps another provider's, unless there is too much to tell.
        let count_of_elsewhere =
            adjust(&[with_unknown("lb.example.net", count)], &settings()).endpoints.len();
        assert_eq!(count_of_elsewhere, usize::from(!is_valid), "{count}");
    }
}

#[test]
fn a_group_that_is_not_meant_for_a_tunnel_is_left_out_alone() {
    let services = |said: &[(&str, &str)]| {
        let adjusted = adjust(&[endpoint("a.example.com", "A", "192.0.2.1", said)], &settings());
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

#[test]
fn a_path_that_belongs_to_no_rule_is_a_mistake_of_every_group() {
    let said = [
        ("webhook/tunnel-path", "^/x"),
        ("webhook/tunnel-service.api", "http://api:80"),
        ("webhook/tunnel-path.api", "^/api"),
        ("webhook/tunnel-service.images", "http://images:80"),
        ("webhook/tunnel-path.images", "^/images"),
    ];
    let (settings, stray) = (settings(), endpoint("a.example.com", "A", "192.0.2.1", &said));
    let read = EndpointReader::new(&settings, Notes::with_room(0)).read(&stray);
    assert_eq!(read.len(), 2);
    for one in read {
        let problem = one.publication.expect_err("a mistake").to_string();
        assert!(problem.contains("has no group and belongs to no rule"), "{problem}");
    }
    assert!(
        read_one(&endpoint("a.example.com", "A", "192.0.2.1", &said[1..3]), &settings).publication.is_ok()
    );
}

#[test]
fn a_record_alone_has_neither_a_path_nor_an_option() {
    let none = ("webhook/tunnel-service", "none");
    let problem = |other| problem_of(&endpoint("a.example.com", "A", "192.0.2.1", &[none, other]));
    for other in [("webhook/tunnel-path", "^/x"), ("webhook/origin-no-tls-verify", "true")] {
        assert!(problem(other).contains("there is no rule"), "{other:?}");
    }
    let alone = endpoint("a.example.com", "A", "192.0.2.1", &[none]);
    assert!(read_one(&alone, &settings()).publication.is_ok());
}

#[test]
fn the_other_rules_of_an_object_say_for_which_they_wait() {
    let told = |path: (&str, &str)| {
        let said = [
            ("webhook/tunnel-service", "http://a:80"),
            ("webhook/tunnel-service.api", "http://b:80/mistake"),
            path,
        ];
        let endpoint = endpoint("a.example.com", "A", "192.0.2.1", &said);
        let (settings, mut waits) = (settings(), String::new());
        for read in EndpointReader::new(&settings, Notes::with_room(0)).read(&endpoint) {
            let problem = read.publication.map_err(|problem| problem.to_string()).err().unwrap_or_default();
            if problem.contains("waits for") {
                waits = problem;
            }
        }
        waits
    };
    let known = told(("webhook/tunnel-path.api", "^/api"));
    assert!(known.contains(r#"the object's rule for path "^/api", which is invalid"#), "{known}");
    let unknown = told(("webhook/tunnel-paht.api", "^/api"));
    assert!(unknown.contains("another rule of the object, whose path is not known: "), "{unknown}");
}

/// Cut to the length of a hostname, a longer name would be another one, which somebody may have.
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

#[test]
fn an_endpoint_of_exactly_the_most_bytes_groups_or_properties_is_read() {
    let service = ("webhook/tunnel-service", "http://web:80");
    let bare = endpoint("a.example.com", "A", "192.0.2.1", &[service, ("aws/x", "")]);
    let room = limits::ENDPOINT_MAX_BYTES - bare.text_bytes();
    for (more, is_read) in [(0, true), (1, false), (2, false)] {
        let text = "x".repeat(room + more);
        let full = endpoint("a.example.com", "A", "192.0.2.1", &[service, ("aws/x", &text)]);
        assert_eq!(read_one(&full, &settings()).publication.is_ok(), is_read, "{more}");

        let mut many = endpoint("a.example.com", "A", "192.0.2.1", &[service]);
        let others = (1..limits::ENDPOINT_PROPERTIES_MAX + more).map(|number| format!("aws/{number}"));
        many.provider_specific.extend(others.map(|name| Property::new(name, "x")));
        assert_eq!(read_one(&many, &settings()).publication.is_ok(), is_read, "{more}");

        let mut groups = endpoint("a.example.com", "A", "192.0.2.1", &[]);
        for number in 0..limits::ENDPOINT_GROUPS_MAX + more {
            let property =
                |name: &str, value: &str| Property::new(format!("webhook/{name}.g{number}"), value);
            groups.provider_specific.push(property("tunnel-service", "http://web:80"));
            groups.provider_specific.push(property("tunnel-path-prefix", &format!("/g{number}")));
        }
        let read = EndpointReader::new(&settings(), Notes::with_room(0)).read(&groups);
        assert_eq!(read.iter().all(|one| one.publication.is_ok()), is_read, "{more}");
    }
}

/// Random endpoints found these: each once changed or vanished when it was adjusted again.
#[test]
fn odd_endpoints_are_adjusted_once_and_for_all() {
    let service = ("webhook/tunnel-service", "http://web:80");
    for endpoint in [
        endpoint("a.example.com", "CNAME", "", &[("webhook/tunnel-path", "^/x")]),
        endpoint("a.example.com", "CNAME", "", &[("webhook/tunnel", "false"), ("webhook/tunnel", "")]),
        endpoint("a.example.com", "CNAME", "HTTP://web:80/", &[("/", "a"), ("/", "b")]),
        endpoint("a.example.com", "CNAME", "HTTP://web:80/", &[("webhook/x", "a"), ("webhook/x", "b")]),
        endpoint("\u{fffc}", "A", "192.0.2.1", &[service, ("webhook/origin-connect-timeout", "x")]),
        endpoint(
            "a.example.com",
            "CNAME",
            &format!("{HOME}.cfargotunnel.com {OFFICE}.cfargotunnel.com"),
            &[service],
        ),
    ] {
        let once = adjust(std::slice::from_ref(&endpoint), &settings()).endpoints;
        assert_eq!(once.len(), 1, "{endpoint:?}");
        assert_eq!(adjust(&once, &settings()).endpoints, once, "{endpoint:?}");
    }
}

fn any_property() -> impl Strategy<Value = (String, String)> {
    let name = prop_oneof![
        Just("webhook/tunnel-service".to_owned()),
        Just("webhook/tunnel-path".to_owned()),
        Just("webhook/tunnel-path-prefix".to_owned()),
        Just("webhook/tunnel".to_owned()),
        Just("webhook/origin-connect-timeout".to_owned()),
        Just("webhook/origin-ip-rules".to_owned()),
        Just("webhook/access-required".to_owned()),
        Just("webhook/access-team-name".to_owned()),
        Just("webhook/access-aud-tag".to_owned()),
        "webhook/(tunnel|origin|access)-[a-z]{0,4}",
        "webhook/tunnel-(service|path|path-prefix)\\.[ab]",
        "[a-z/]{0,8}",
    ];
    let value = prop_oneof![
        Just("http://web:80".to_owned()),
        Just("none".to_owned()),
        Just("office".to_owned()),
        Just("true".to_owned()),
        Just("false".to_owned()),
        Just("/api".to_owned()),
        Just("30s".to_owned()),
        "\\PC{0,12}",
    ];
    (name, value)
}

fn any_endpoint() -> impl Strategy<Value = Endpoint> {
    let target = prop_oneof![
        Just("http://web:80".to_owned()),
        Just("http://Other:80/".to_owned()),
        Just("http_status:404".to_owned()),
        Just(format!("{HOME}.cfargotunnel.com")),
        Just(format!("{OFFICE}.cfargotunnel.com.")),
        Just("192.0.2.1".to_owned()),
        "\\PC{0,12}",
    ];
    (
        prop_oneof![Just("a.example.com".to_owned()), Just("*.Example.com.".to_owned()), "\\PC{0,20}"],
        prop_oneof![Just("CNAME"), Just("A"), Just("AAAA"), Just("TXT")],
        prop::collection::vec(target, 0..3),
        "[a-z]{0,3}",
        prop::collection::vec(any_property(), 0..5),
    )
        .prop_map(|(dns_name, record_type, targets, set_identifier, properties)| Endpoint {
            dns_name,
            targets,
            record_type: record_type.to_owned(),
            set_identifier,
            record_ttl: 300,
            labels: Labels::default(),
            provider_specific: properties
                .into_iter()
                .map(|(name, value)| Property::new(name, value))
                .collect(),
        })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn adjusting_twice_changes_nothing(
        endpoints in prop::collection::vec(any_endpoint(), 0..6),
        default in prop::option::of(prop::sample::select(vec!["http://{name}:80", "http://web:80"])),
        origin_defaults in prop::sample::subsequence(
            vec![
                value(OriginOption::ConnectTimeout, "5s"),
                value(OriginOption::IpRules, r#"[{"prefix":"10.0.0.0/8","allow":true}]"#),
            ],
            0..=2,
        ),
    ) {
        let mut settings = settings();
        settings.policy.origin_defaults = origin_defaults.into_iter().collect();
        settings.policy.default_service = default.map(|text| ServiceTemplate::parse(text).expect("valid"));
        let once = adjust(&endpoints, &settings).endpoints;
        let twice = adjust(&once, &settings).endpoints;
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn the_order_of_the_request_does_not_matter(endpoints in prop::collection::vec(any_endpoint(), 0..6)) {
        let forward = adjust(&endpoints, &settings());
        let backward: Vec<Endpoint> = endpoints.into_iter().rev().collect();
        let backward = adjust(&backward, &settings());
        prop_assert_eq!((forward.endpoints, forward.notes), (backward.endpoints, backward.notes));
    }
}
