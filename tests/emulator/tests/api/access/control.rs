//! The same for tests in other languages.

use serde_json::{Value, json};

use super::{Scene, app, policy};
use crate::client::call;

#[test]
fn tests_in_other_languages_set_access_up_and_look_at_it() {
    let scene = Scene::new();
    let control = |path: &str, body: Value| {
        let answer = call(&scene.emulator, "POST", &format!("/_emulator{path}"), &body.to_string());
        (answer.status, answer.json())
    };
    let done = |path: &str, body: Value| {
        let (status, answer) = control(path, body);
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    };
    done("/access", json!({"team": "renamed"}));
    let id = done("/policies", policy("on-call", "allow"))["id"].take();
    let made = done("/applications", json!({"application": app("web", &["www.example.com"], &json!([id]))}));
    let state = call(&scene.emulator, "GET", "/_emulator/state", "").json()["access"].take();
    assert_eq!(state["organizations"][0]["auth_domain"], "renamed.cloudflareaccess.com");
    assert_eq!(state["policies"][1]["name"], "on-call");
    assert_eq!(state["applications"][0], json!({"zone": null, "application": made}));
    let changed = app("web", &["new.example.com"], &json!([]));
    let changed = done("/applications", json!({"id": "web", "application": changed}));
    assert_eq!((&changed["domain"], &changed["aud"]), (&json!("new.example.com"), &made["aud"]));
    done("/applications", json!({"id": "web", "delete": true}));
    for (path, wrong) in [
        ("/access", json!({})),
        ("/policies", json!({"name": "x"})),
        ("/applications", json!({})),
        ("/applications", json!({"id": "none", "delete": true})),
    ] {
        assert_eq!(control(path, wrong.clone()).0, 400, "{path} {wrong}");
    }
}

#[test]
fn tests_in_other_languages_watch_visitors() {
    let scene = Scene::new();
    let emulator = &scene.emulator;
    let control = |path: &str, body: Value| {
        call(emulator, "POST", &format!("/_emulator{path}"), &body.to_string()).json()
    };
    let tunnel = emulator.add_tunnel("shop");
    let target = format!("{tunnel}.cfargotunnel.com");
    let record = json!({"type": "CNAME", "name": "www", "content": target, "proxied": true});
    emulator.add_record("example.com", record).unwrap();
    let access = json!({"required": true, "teamName": "shop", "audTag": ["x"]});
    let config = json!({"ingress": [{"service": "http://web", "originRequest": {"access": access}}]});
    emulator.put_configuration("shop", &config.to_string()).unwrap();
    control("/watch", json!({"urls": ["https://www.example.com/"]}));
    let made = scene.made(&app("web", &["www.example.com"], &json!([scene.staff])));
    assert_eq!(control("/visit", json!({"host": "www.example.com"}))["turned_away"], made["id"]);
    let watched = call(emulator, "GET", "/_emulator/watched", "").json();
    let got = |number: usize| &watched[0]["changes"][number]["got"][0];
    assert_eq!((&got(0)["refused"], &got(1)["turned_away"]), (&json!(403), &made["id"]));
}
