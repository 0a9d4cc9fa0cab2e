//! An endpoint with a mistake stays, and its property names the mistake.

use super::*;

/// The problem for which the one rule is refused, which must not change when it is read again.
fn problem_of(endpoint: &Endpoint) -> String {
    let canonical = read_one(endpoint, &settings());
    let again = read_one(&canonical.endpoint, &settings());
    assert_eq!(canonical.publication, again.publication);
    canonical.publication.expect_err("it is invalid").to_string()
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
        ("none with a capital", vec![("webhook/tunnel-service", "None")], "write none in lower case"),
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

#[test]
fn a_property_that_is_near_to_none_is_told_which_there_are() {
    let service = ("webhook/tunnel-service", "http://web:80");
    for (name, known) in [
        ("webhook/access-policies", "; there are webhook/access-required, webhook/access-team-name, "),
        ("webhook/access", "webhook/access-policy, webhook/access-session-duration"),
        ("webhook/tunnel-foo", "; there are webhook/tunnel-service, webhook/tunnel-path, "),
    ] {
        let problem = problem_of(&endpoint("a.example.com", "A", "192.0.2.1", &[(name, "x"), service]));
        assert!(problem.contains("is unknown") && problem.contains(known), "{name}: {problem}");
    }
}

/// A login that may be missing is told to the operator, however many mistakes the endpoint has.
#[test]
fn a_mistake_of_access_is_told_before_the_others_cut_the_text() {
    let long = "x".repeat(limits::ERROR_TEXT_MAX_CHARS);
    let options = OriginOption::all().map(|option| (option.property(), &*long));
    let said: Vec<_> = options.chain([("webhook/access-session-duration", "24h")]).collect();
    let problem = problem_of(&endpoint("a.example.com", "CNAME", "http://web:80", &said));
    assert!(problem.starts_with("webhook/access-session-duration is set, but "), "{problem}");
    assert!(problem.contains("; webhook/origin-"), "{problem}");
}

/// An author that copies an annotation from one object to another may leave the old tunnel in one of the two places.
#[test]
fn a_hostname_whose_target_and_property_name_different_tunnels_is_refused() {
    let service = ("webhook/tunnel-service", "http://web.shop.svc:80");
    let target = format!("{HOME}.cfargotunnel.com");
    let both = |tunnel| endpoint("a.example.com", "CNAME", &target, &[("webhook/tunnel", tunnel), service]);
    let problem = problem_of(&both("office"));
    assert!(problem.contains("names several tunnels"), "{problem}");
    let agreed = read_one(&both("home"), &settings());
    assert!(agreed.publication.is_ok(), "{:?}", agreed.publication);
    assert_eq!(agreed.endpoint.targets, [target]);
}

/// A rule for such a path got no request: the rule around the path answered, without the login of the path.
#[test]
fn a_path_that_gets_no_request_is_refused() {
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

/// Only a client that names the path reaches the rule. `cloudflared access ssh --hostname`, the usual form, reaches the
/// service of the whole hostname instead.
#[test]
fn a_path_of_what_speaks_no_http_is_refused() {
    let paths = [("webhook/tunnel-path", "^/ssh"), ("webhook/tunnel-path-prefix", "/ssh")];
    for (service, is_refused) in [
        ("ssh://host:22", true),
        ("tcp://db:5432", true),
        ("rdp://desk:3389", true),
        ("SMB://files:445", true),
        ("http://web:80", false),
        ("wss://web:443", false),
        ("unix:/run/web.sock", false),
        ("http_status:404", false),
    ] {
        let with_service = ("webhook/tunnel-service", service);
        for path in paths {
            let endpoint = endpoint("a.example.com", "A", "192.0.2.1", &[with_service, path]);
            let problem =
                read_one(&endpoint, &settings()).publication.err().map(|problem| problem.to_string());
            assert_eq!(problem.is_some(), is_refused, "{service} {path:?}: {problem:?}");
            if let Some(problem) = problem {
                assert!(problem.contains(path.0) && problem.contains("remove the path"), "{problem}");
                problem_of(&endpoint);
            }
        }
        let whole = endpoint("a.example.com", "A", "192.0.2.1", &[with_service]);
        assert!(read_one(&whole, &settings()).publication.is_ok(), "{service}");
    }
}

/// Another instance serves the tunnel, or an operator removed the tunnel from the configuration.
#[test]
fn a_service_beside_a_tunnel_that_is_not_configured_is_invalid() {
    let service = ("webhook/tunnel-service", "http://web:80");
    let target = format!("{ELSEWHERE}.cfargotunnel.com");
    let problem = problem_of(&endpoint("a.example.com", "CNAME", &target, &[service]));
    assert!(problem.contains(&format!("tunnel {ELSEWHERE}, which is not configured")), "{problem}");
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
fn a_path_that_belongs_to_no_rule_is_a_mistake_of_every_group() {
    let said = [
        ("webhook/tunnel-path", "^/x"),
        ("webhook/tunnel-service.api", "http://api:80"),
        ("webhook/tunnel-path.api", "^/api"),
        ("webhook/tunnel-service.images", "http://images:80"),
        ("webhook/tunnel-path.images", "^/images"),
    ];
    let (settings, stray) = (settings(), endpoint("a.example.com", "A", "192.0.2.1", &said));
    let read = EndpointReader::new(&settings, &AccessReading::NotAsked).read(&stray);
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
        assert!(problem(other).contains("a record without a rule"), "{other:?}");
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
        let adjusted = adjust(&[endpoint], &settings(), None).endpoints;
        let problems = adjusted.iter().filter_map(|endpoint| endpoint.property(INVALID));
        problems.filter(|problem| problem.contains("waits for")).collect::<String>()
    };
    let known = told(("webhook/tunnel-path.api", "^/api"));
    assert!(known.contains(r#"the object's rule for path "^/api", which is invalid"#), "{known}");
    let unknown = told(("webhook/tunnel-paht.api", "^/api"));
    assert!(unknown.contains("another rule of the object, whose path is not known: "), "{unknown}");
}
