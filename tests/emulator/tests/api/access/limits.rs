//! What Cloudflare's lists of limits say.

use serde_json::json;

use super::{Scene, app};

#[test]
fn a_domain_has_no_more_than_63_characters() {
    let scene = Scene::new();
    let long = format!("{}.example.com", "a".repeat(52));
    let refused = scene.refused(&app("x", &[&long], &json!([]))).2;
    assert_eq!(refused, "domain has more than 63 characters");
    scene.made(&app("x", &[&long[1..]], &json!([])));
}

#[test]
fn an_account_has_no_more_than_500_applications() {
    let scene = Scene::new();
    scene.emulator.edit(|cloudflare| {
        for number in 0..499 {
            cloudflare.add_application(&app("x", &[&format!("a{number}.example.com")], &json!([]))).unwrap();
        }
        let last = app("x", &["zone.example.com"], &json!([]));
        cloudflare.add_zone_application("example.com", &last).unwrap();
    });
    let body = app("x", &["b.example.com"], &json!([]));
    assert_eq!(scene.refused(&body).2, "an account has no more than 500 applications");
    assert_eq!(scene.listed("").len(), 499);
}
