//! Endpoints that name no policy, near places whose visitors need a login: no place opens, and none that is open closes.

use cloudflare_emulator::Visitor;
use test_support::harness::endpoint_of;

use crate::access_strangers::{NAME, SECRET, Stage};

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
