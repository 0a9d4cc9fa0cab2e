//! Which grant takes which call.

use cloudflare_emulator::{Permission, Token};
use serde_json::json;

use super::{Scene, app};
use crate::client::send;

/// Status and code of a call with a token of these permissions; 0 for a success.
fn answer(scene: &Scene, permissions: &[Permission], method: &str, path: &str, body: &str) -> (u16, u64) {
    let name = format!("token-{permissions:?}").replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    scene.emulator.add_token(Token::with_permissions(&name, permissions));
    let headers = format!("authorization: Bearer {name}\r\n");
    let answer = send(&scene.emulator, &headers, method, path, body).unwrap();
    (answer.status, if answer.status < 300 { 0 } else { answer.code() })
}

#[test]
fn account_and_zone_are_granted_apart_and_reading_and_writing() {
    use Permission::{AccessEdit, AccessOrganizationRead, AccessRead, TunnelEdit, ZoneAccessRead};
    let scene = Scene::new();
    let zone = format!("/zones/{}/access", scene.zone);
    let of = |path: &str| format!("{}/{path}", scene.access);
    let (none, other, fine) = ((403, 10000), (403, 1010), (200, 0));
    // Code 12130 for an empty body proves the right to write.
    let writes = (400, 12130);
    for (permissions, method, path, expected) in [
        (&[AccessRead][..], "GET", of("apps"), fine),
        (&[AccessEdit], "GET", of("apps"), fine),
        (&[AccessRead], "GET", of("policies"), fine),
        (&[AccessRead], "GET", of("tags"), fine),
        (&[AccessRead], "POST", of("apps"), none),
        (&[AccessRead], "POST", of("tags"), none),
        (&[AccessRead], "GET", of("organizations"), none),
        (&[AccessEdit], "POST", of("apps"), writes),
        (&[AccessEdit], "POST", of("tags"), writes),
        (&[AccessOrganizationRead], "GET", of("organizations"), fine),
        (&[AccessOrganizationRead], "GET", of("apps"), none),
        (&[ZoneAccessRead], "GET", of("apps"), other),
        (&[ZoneAccessRead], "GET", format!("{zone}/apps"), fine),
        (&[AccessEdit], "GET", format!("{zone}/apps"), other),
        (&[TunnelEdit], "GET", of("apps"), none),
    ] {
        let body = if method == "POST" { "{}" } else { "" };
        assert_eq!(
            answer(&scene, permissions, method, &path, body),
            expected,
            "{permissions:?} {method} {path}"
        );
    }
    let id = scene.made(&app("web", &["www.example.com"], &json!([])))["id"].as_str().unwrap().to_owned();
    for method in ["PUT", "DELETE"] {
        assert_eq!(answer(&scene, &[AccessRead], method, &of(&format!("apps/{id}")), "{}"), none, "{method}");
    }
    let mut narrow = Token::with_access("token-of-another-zone");
    assert!(narrow.permissions.contains(&AccessEdit) && !narrow.permissions.contains(&ZoneAccessRead));
    narrow.accounts = Some(vec!["0".repeat(32)]);
    narrow.zones = Some(Vec::new());
    scene.emulator.add_token(narrow);
    for path in [of("apps"), format!("{zone}/apps")] {
        let headers = "authorization: Bearer token-of-another-zone\r\n";
        assert_eq!(send(&scene.emulator, headers, "GET", &path, "").unwrap().code(), 10000, "{path}");
    }
}

#[test]
fn a_token_that_publishes_only_has_no_access() {
    let scene = Scene::new();
    let full = Token::full("token-of-a-publisher").permissions;
    assert_eq!(answer(&scene, &full, "GET", &format!("{}/apps", scene.access), ""), (403, 10000));
}
