//! What Cloudflare's lists of limits say.

use serde_json::{Value, json};

use super::{Scene, app, policy};

#[test]
fn an_application_has_no_more_than_its_limits() {
    let scene = Scene::new();
    let refused = |body: &Value| scene.refused(body).2;
    let long = format!("{}.example.com", "a".repeat(52));
    assert_eq!(refused(&app("x", &[&long], &json!([]))), "domain has more than 63 characters");
    scene.made(&app("x", &[&long[1..]], &json!([])));
    assert_eq!(
        refused(&app(&"x".repeat(351), &["a.example.com"], &json!([]))),
        "name has more than 350 characters"
    );
    scene.made(&app(&"x".repeat(350), &["a.example.com"], &json!([])));
    let uris: Vec<String> = (0..51).map(|number| format!("d{number}.example.com")).collect();
    let uris: Vec<&str> = uris.iter().map(String::as_str).collect();
    assert_eq!(refused(&app("x", &uris, &json!([]))), "an application has no more than 50 destinations");
    scene.made(&app("x", &uris[1..], &json!([])));
    let tags: Vec<String> = (0..26).map(|number| format!("t{number}")).collect();
    scene.emulator.edit(|cloudflare| tags.iter().for_each(|tag| cloudflare.add_tag(tag).unwrap()));
    let mut tagged = app("x", &["b.example.com"], &json!([]));
    tagged["tags"] = json!(tags);
    assert_eq!(refused(&tagged), "an application has no more than 25 tags");
    tagged["tags"] = json!(tags[1..]);
    scene.made(&tagged);
}

#[test]
fn an_account_has_no_more_than_its_limits() {
    let scene = Scene::new();
    scene.emulator.edit(|cloudflare| {
        for number in 0..499 {
            cloudflare.add_application(&app("x", &[&format!("a{number}.example.com")], &json!([]))).unwrap();
            cloudflare.add_policy(&policy("x", "allow")).unwrap();
        }
        let last = app("x", &["zone.example.com"], &json!([]));
        cloudflare.add_zone_application("example.com", &last).unwrap();
        assert_eq!(cloudflare.add_policy(&policy("x", "allow")).unwrap_err().code, 12130);
    });
    let body = app("x", &["b.example.com"], &json!([]));
    assert_eq!(scene.refused(&body).2, "an account has no more than 500 applications");
    assert_eq!(scene.listed("").len(), 499);
    assert_eq!(scene.get("policies").result().as_array().unwrap().len(), 100, "a page");
}
