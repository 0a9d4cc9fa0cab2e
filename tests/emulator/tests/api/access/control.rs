//! The same for tests in other languages.

use serde_json::{Value, json};

use super::{Scene, app, policy};
use crate::client::{call, send};

fn control(scene: &Scene, path: &str, body: &Value) -> (u16, Value) {
    let answer = call(&scene.emulator, "POST", &format!("/_emulator{path}"), &body.to_string());
    (answer.status, answer.json())
}

#[test]
fn tests_in_other_languages_set_access_up_and_look_at_it() {
    let scene = Scene::new();
    let done = |path: &str, body: Value| {
        let (status, answer) = control(&scene, path, &body);
        assert_eq!(status, 200, "{path} {body}: {answer}");
        answer
    };
    let renamed = done("/access", json!({"team": "renamed"}));
    assert_eq!(renamed["auth_domain"], "renamed.cloudflareaccess.com");
    let id = done("/policies", policy("on-call", "allow"))["id"].take();
    done("/policies", json!({"id": id, "decision": "bypass", "name": "open"}));
    done("/tags", json!({"name": "mine"}));
    let made = done("/applications", json!({"application": app("web", &["www.example.com"], &json!([id]))}));
    let of_zone = app("old", &["old.example.com"], &json!([scene.staff]));
    done("/applications", json!({"zone": "example.com", "application": of_zone}));
    let state = call(&scene.emulator, "GET", "/_emulator/state", "").json()["access"].take();
    assert_eq!((&state["organizations"][0]["team"], &state["tags"]), (&json!("renamed"), &json!(["mine"])));
    assert_eq!(
        (&state["policies"][1]["name"], &state["policies"][1]["decision"]),
        (&json!("open"), &json!("bypass"))
    );
    assert_eq!(state["applications"][0], json!({"zone": null, "application": made}));
    assert_eq!(state["applications"][1]["zone"], json!(scene.zone));
    let changed = app("web", &["new.example.com"], &json!([]));
    let changed = done("/applications", json!({"id": "web", "application": changed}));
    assert_eq!((&changed["domain"], &changed["aud"]), (&json!("new.example.com"), &made["aud"]));
    done("/applications", json!({"id": "web", "delete": true}));
    done("/policies", json!({"id": id, "delete": true}));
    done("/access", json!({"team": null, "never_set_up": "without_domain"}));
    assert_eq!(scene.get("organizations").result()["auth_domain"], Value::Null);
    done("/access", json!({"never_set_up": "not_found"}));
    assert_eq!(scene.get("organizations").status, 404);
    for (path, wrong) in [
        ("/access", json!({"never_set_up": "never"})),
        ("/policies", json!({"name": "x"})),
        ("/policies", json!({"id": id, "decision": "allow"})),
        ("/policies", json!({"id": scene.staff, "delete": true})),
        ("/applications", json!({})),
        ("/applications", json!({"id": "none", "delete": true})),
        ("/applications", json!({"zone": "none.test", "application": {}})),
        ("/visit", json!({"host": "www.example.com", "visitor": "nobody"})),
        ("/watch", json!({"urls": [], "visitors": ["nobody"]})),
    ] {
        assert_eq!(control(&scene, path, &wrong).0, 400, "{path} {wrong}");
    }
}

#[test]
fn tests_in_other_languages_send_visitors_and_watch_them() {
    let scene = Scene::new();
    let emulator = &scene.emulator;
    emulator.stop_clock();
    let tunnel = emulator.add_tunnel("shop");
    let target = format!("{tunnel}.cfargotunnel.com");
    let record = json!({"type": "CNAME", "name": "www", "content": target, "proxied": true});
    emulator.add_record("example.com", record).unwrap();
    emulator.put_configuration("shop", r#"{"ingress": [{"service": "http://web"}]}"#).unwrap();
    let visitors = json!(["without_login", "with_login"]);
    control(&scene, "/watch", &json!({"urls": ["https://www.example.com/"], "visitors": visitors}));
    control(&scene, "/delays", &json!({"applications_ms": 1000, "unlisted_application_calls": 1}));
    let made = scene.made(&app("web", &["www.example.com"], &json!([scene.staff])));
    assert!(scene.listed("").is_empty());
    control(&scene, "/clock", &json!({"advance_seconds": 2}));
    let visit =
        |visitor: &str| control(&scene, "/visit", &json!({"host": "www.example.com", "visitor": visitor})).1;
    assert_eq!(visit("without_login")["turned_away"], made["id"]);
    let let_in = visit("with_login");
    assert_eq!((&let_in["service"], &let_in["audience"]), (&json!("http://web"), &made["aud"]));
    let access = json!({"required": true, "teamName": "shop", "audTag": ["x"]});
    let config = json!({"ingress": [{"service": "http://web", "originRequest": {"access": access}}]});
    emulator.put_configuration("shop", &config.to_string()).unwrap();
    assert_eq!(visit("with_login")["refused"], 403);
    let watched = call(emulator, "GET", "/_emulator/watched", "").json();
    assert_eq!(
        (&watched[0]["visitor"], &watched[1]["visitor"]),
        (&json!("without_login"), &json!("with_login"))
    );
    assert_eq!(watched[0]["changes"][1]["got"][0]["turned_away"], made["id"]);
    let from = |number: usize| watched[0]["changes"][number]["from_ms"].as_u64().unwrap();
    assert_eq!(from(1) - from(0), 1000, "on its way to the edge");
    assert_eq!(watched[1]["changes"][2]["got"][0]["refused"], 403);
    control(&scene, "/delays", &json!({"unlisted_application_calls": 0, "unlisted_application_ms": 1000}));
    scene.made(&app("late", &["late.example.com"], &json!([])));
    assert_eq!(scene.listed(""), ["web"]);
    control(&scene, "/clock", &json!({"advance_seconds": 1}));
    assert_eq!(scene.listed(""), ["web", "late"]);
    control(&scene, "/tokens", &json!({"value": "one-more-token"}));
    let headers = "authorization: Bearer one-more-token\r\n";
    for path in [format!("{}/organizations", scene.access), format!("/zones/{}/access/apps", scene.zone)] {
        assert_eq!(send(emulator, headers, "GET", &path, "").unwrap().status, 200, "{path}");
    }
}
