//! The rules of one object are published together or not at all: a wider one would get the requests of one that is
//! refused, and what a rule was changed from stays until it is there.

use cloudflare_emulator::{Record, RuleText};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use serde_json::json;
use test_support::harness::{Harness, endpoint, endpoint_of};

const HOST: &str = "shop.example.com";

fn of(object: &str, properties: &[(&str, &str)]) -> Endpoint {
    endpoint_of(object, HOST, properties)
}

fn at(path: &str, service: &str) -> Endpoint {
    of("ingress/shop/web", &[("tunnel-service", service), ("tunnel-path", path)])
}

/// Cloudflare rejects rules with this service, naming the rule or not.
fn disliking(text: RuleText) -> Harness {
    let harness = Harness::new();
    harness.cloudflare.edit(|cloudflare| {
        cloudflare.whims_mut().dislike_rule(text, |rule| rule.service.starts_with("http://bad"));
    });
    harness
}

#[test]
fn no_rule_of_an_object_takes_the_requests_of_one_that_is_refused() {
    let guard = [("NAMESPACE_GUARD", "true"), ("CLUSTER_DOMAIN", "Corp.Test.")];
    const OTHER: &str = "http://other.shop.svc.corp.test:80";
    for (label, harness, variables, proxy) in [
        ("the guard", Harness::new(), &guard[..], "http://login.infra.svc:80"),
        ("the rule by name", disliking(RuleText::Numbered), &[], "http://bad.shop.svc:80"),
        ("the document", disliking(RuleText::Unnamed), &[], "http://bad.shop.svc:80"),
    ] {
        let program = harness.start_with(variables);
        let groups = [
            ("tunnel-service", "http://web.shop.svc:80"),
            ("tunnel-path-prefix.admin", "/admin"),
            ("tunnel-service.admin", proxy),
        ];
        let other = endpoint("other.example.com", &[("tunnel-service", OTHER)]);
        let desired = [of("ingress/shop/web", &groups), other];
        for _ in 0..3 {
            let _ = program.external_dns().run_loop(&desired);
            for path in ["/", "/admin"] {
                let served = harness.service_at(HOST, path);
                assert!(!served.contains("svc"), "{label}: {path} gets {served}");
            }
        }
        assert_eq!(harness.service_at("other.example.com", "/"), OTHER, "{label}");
        assert!(!harness.log.lines_with(&["refused=", "path=\"^/admin(/|$)\""]).is_empty(), "{label}");
        let words = ["'s rule for path", "which is", "admin"];
        assert_eq!(harness.log.lines_with(&words).len(), 1, "{label}");
    }
}

/// Its clients ask for no path, so they would be led to whatever serves the whole hostname.
#[test]
fn a_path_of_an_ssh_service_is_refused_and_withdraws_nothing() {
    let harness = Harness::new();
    let program = harness.start();
    program.external_dns().run_loop(&[at("^/ssh", "http://web:80")]).expect("published");
    let before = (harness.rules(), harness.cnames());
    for _ in 0..2 {
        program.external_dns().run_loop(&[at("^/ssh", "ssh://host:22")]).expect("refused by name");
        assert_eq!((harness.rules(), harness.cnames()), before);
    }
    let told = harness.log.lines_with(&["refused=invalid", "webhook-tunnel-path", "remove the path"]);
    assert_eq!(told.len(), 1, "{told:?}");
    program
        .external_dns()
        .run_loop(&[of("ingress/shop/web", &[("tunnel-service", "ssh://host:22")])])
        .expect("published");
    assert_eq!(harness.service_at(HOST, "/"), "ssh://host:22");
}

#[test]
fn a_path_stays_while_the_one_in_its_place_is_refused() {
    for text in [RuleText::Numbered, RuleText::Unnamed] {
        let harness = disliking(text);
        let program = harness.start();
        program.external_dns().run_loop(&[at("^/(a|b)$", "http://web:80")]).expect("published");
        let other = endpoint("other.example.com", &[("tunnel-service", "http://other:80")]);
        for number in 0..4 {
            let _ = program.external_dns().run_loop(&[at("^/(a|b|c)$", "http://bad:80"), other.clone()]);
            assert_eq!(harness.service_at(HOST, "/a"), "http://web:80", "{text:?}, loop {number}");
        }
        assert_eq!(harness.service_at("other.example.com", "/"), "http://other:80", "{text:?}");
        // Once it is mended, the old path goes.
        program
            .external_dns()
            .run_loop(&[at("^/(a|c)$", "http://good:80"), other.clone()])
            .expect("published");
        assert_eq!(harness.service_at(HOST, "/c"), "http://good:80", "{text:?}");
        assert!(!harness.service_at(HOST, "/b").contains("web"), "{text:?}");
    }
}

/// A record without a rule would take the hostname from a wildcard's record for as long as the rule is refused.
#[test]
fn a_hostname_whose_rule_is_refused_stays_where_a_wildcard_leads_it() {
    for text in [RuleText::Numbered, RuleText::Unnamed] {
        let harness = disliking(text);
        let wildcard = json!({"name": "*.example.com", "type": "A", "content": "192.0.2.9", "proxied": true});
        harness.cloudflare.add_record(&harness.zone, wildcard).expect("Cloudflare takes it");
        let before = harness.service_at(HOST, "/");
        let program = harness.start();
        let wide = of("ingress/shop/web", &[("tunnel-service", "http://bad.shop.svc:80")]);
        for _ in 0..3 {
            let _ = program.external_dns().run_loop(std::slice::from_ref(&wide));
            assert_eq!(harness.service_at(HOST, "/"), before);
        }
    }
}

/// Nothing is taken over where nothing is published, so it does not go with the object either.
#[test]
fn a_record_that_was_to_be_taken_over_is_as_it_was_if_its_rule_is_refused() {
    for (kind, content) in [("A", "192.0.2.9"), ("CNAME", "elsewhere.test")] {
        let harness = disliking(RuleText::Unnamed);
        let record = json!({"name": HOST, "type": kind, "content": content, "comment": "Jo's"});
        harness.cloudflare.add_record(&harness.zone, record).expect("Cloudflare takes it");
        let before = harness.cloudflare.records(&harness.zone);
        let program = harness.start_with(&[("ADOPT", "all")]);
        let wide = of("ingress/shop/web", &[("tunnel-service", "http://bad.shop.svc:80")]);
        for desired in [&[wide.clone()][..], &[wide], &[]] {
            let _ = program.external_dns().run_loop(desired);
            let after = harness.cloudflare.records(&harness.zone);
            let shown = |records: &[Record]| -> Vec<_> {
                records.iter().map(|one| (one.content.clone(), one.comment.clone())).collect()
            };
            assert_eq!(shown(&after), shown(&before));
        }
    }
}
