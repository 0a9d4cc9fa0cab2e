//! Endpoints that name no policy, near places whose visitors need a login: no place opens.

use cloudflare_emulator::Visitor;
use serde_json::json;
use test_support::harness::endpoint_of;

use crate::access_strangers::{NAME, SECRET, Stage};

/// docs/access.md: visitors that would be led to a foreign rule without a login. Theirs gets no request, because our
/// rule with the login is in front of it; another object's silent path would take our rule behind theirs.
#[test]
fn a_silent_path_leads_no_visitor_of_a_login_of_its_hostname_to_a_foreign_rule() {
    let stage = Stage::new(&[]);
    let checked = [
        ("tunnel-service", SECRET),
        ("tunnel-path", "^/(admin|internal)/"),
        ("access-required", "true"),
        ("access-team-name", "my-team"),
        ("access-aud-tag", "own"),
    ];
    let inner = endpoint_of("ingress/shop/inner", NAME, &checked);
    stage.run(std::slice::from_ref(&inner));
    let last = r#"{"service":"http_status:404"}"#;
    let theirs =
        format!(r#"{{"hostname":"{NAME}","path":"^/admin/old","service":"http://theirs:80"}},{last}"#);
    let document = stage.cloudflare().configuration(&stage.harness.tunnel).expect("it is configured");
    stage
        .cloudflare()
        .put_configuration(&stage.harness.tunnel, &document.replace(last, &theirs))
        .expect("taken");
    let is_open = || stage.cloudflare().visit_as(Visitor::WithoutLogin, NAME, "/admin/old").is_served();
    assert!(!is_open());
    let admin = [("tunnel-service", "http://web:80"), ("tunnel-path-prefix", "/admin")];
    stage.run(&[inner, endpoint_of("ingress/shop/web", NAME, &admin)]);
    assert!(!is_open(), "{:#?}", stage.harness.rules());
}

/// docs/access.md: visitors that would be led to a foreign rule without a login. The application of a wildcard is over
/// one label, so deeper names meet only the rule's check, and that does not come along to the foreign rule.
#[test]
fn a_wildcard_with_a_login_leads_no_visitor_of_a_deeper_name_to_an_open_foreign_rule() {
    let stage = Stage::new(&[]);
    let office = stage.cloudflare().add_tunnel("office");
    let theirs = json!({"ingress": [
        {"hostname": "*.example.com", "path": "^/docs", "service": "http://theirs:80"},
        {"service": "http_status:404"},
    ]});
    stage.cloudflare().put_configuration(&office, &theirs.to_string()).expect("taken");
    let stage = stage.restarted_with(&[("CF_TUNNEL_ID", "home,office"), ("MOVE_GRACE", "30s")]);
    let wild = |tunnel: &str| {
        let properties = [("tunnel-service", SECRET), ("tunnel", tunnel), ("access-policy", "staff")];
        endpoint_of("ingress/shop/web", "*.example.com", &properties)
    };
    stage.run(&[wild("home")]);
    let is_open =
        || stage.cloudflare().visit_as(Visitor::WithoutLogin, "a.b.example.com", "/docs").is_served();
    assert!(!is_open());
    stage.run(&[wild("office")]);
    assert!(!is_open(), "{:#?}", stage.harness.cnames());
}

/// Between its record and its rule a new name is led to the last rule of its tunnel, which is a person's and leads to
/// an ingress controller. Until then the rule of the wildcard asked its visitors for a login.
#[test]
fn a_silent_new_name_below_a_closed_wildcard_is_open_at_no_instant() {
    let stage = Stage::new(&[]);
    let office = stage.cloudflare().add_tunnel("office");
    let theirs = json!({"ingress": [{"service": "http://controller:80"}]});
    stage.cloudflare().put_configuration(&office, &theirs.to_string()).expect("taken");
    let stage = stage.restarted_with(&[("CF_TUNNEL_ID", "home,office")]);
    let checked = [
        ("tunnel-service", SECRET),
        ("access-required", "true"),
        ("access-team-name", "my-team"),
        ("access-aud-tag", "own"),
    ];
    let wildcard = endpoint_of("ingress/shop/wild", "*.example.com", &checked);
    stage.run(std::slice::from_ref(&wildcard));
    stage.cloudflare().watch_as(&[Visitor::WithoutLogin], &["https://app.example.com/"]);
    let name =
        endpoint_of("ingress/shop/web", NAME, &[("tunnel-service", "http://web:80"), ("tunnel", "office")]);
    stage.run(&[wildcard, name]);
    let watched = stage.cloudflare().watched();
    let got = watched.iter().flat_map(|one| &one.changes).flat_map(|change| &change.got);
    assert!(!got.into_iter().any(|visit| visit.is_served()), "{}", watched[0]);
}
