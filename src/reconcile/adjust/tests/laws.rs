//! Adjusting an adjusted endpoint changes nothing, and the order of the endpoints has no effect.

use proptest::prelude::*;

use super::*;

/// Random tests found these endpoints: each once changed or vanished when it was adjusted again.
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
        let once = adjust(std::slice::from_ref(&endpoint), &settings(), None).endpoints;
        assert_eq!(once.len(), 1, "{endpoint:?}");
        assert_eq!(adjust(&once, &settings(), None).endpoints, once, "{endpoint:?}");
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
    #[test]
    fn adjusting_twice_changes_nothing(
        endpoints in prop::collection::vec(any_endpoint(), 0..6),
        default in prop::option::of(prop::sample::select(vec!["http://{name}:80", "http://web:80"])),
        publish_all in any::<bool>(),
        origin_defaults in prop::sample::subsequence(
            vec![
                (OriginOption::ConnectTimeout, "5s"),
                (OriginOption::IpRules, r#"[{"prefix":"10.0.0.0/8","allow":true}]"#),
            ],
            0..=2,
        ),
    ) {
        let mut settings = settings();
        settings.operator.origin_defaults = options(&origin_defaults);
        settings.operator.publish_all = publish_all;
        settings.operator.default_service = default.map(|text| ServiceTemplate::parse(text).expect("valid"));
        let once = adjust(&endpoints, &settings, None).endpoints;
        let twice = adjust(&once, &settings, None).endpoints;
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn the_order_of_the_request_does_not_matter(endpoints in prop::collection::vec(any_endpoint(), 0..6)) {
        let forward = adjust(&endpoints, &settings(), None);
        let backward: Vec<Endpoint> = endpoints.into_iter().rev().collect();
        let backward = adjust(&backward, &settings(), None);
        prop_assert_eq!((forward.endpoints, forward.notes), (backward.endpoints, backward.notes));
    }
}
