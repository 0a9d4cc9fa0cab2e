//! Policies of an account and of an application.

use serde_json::{Value, json};

use super::{Scene, app, names, policy};

#[test]
fn reusable_policies_are_listed_under_names_that_repeat() {
    let scene = Scene::new();
    let again = scene.emulator.add_policy(&policy("staff", "bypass")).unwrap();
    scene
        .emulator
        .add_application(&app("web", &["www.example.com"], &json!([policy("own", "allow")])))
        .unwrap();
    let listed = scene.get("policies").result();
    assert_eq!(names(&listed), ["staff", "staff"], "the inline one is not");
    assert_eq!((&listed[1]["id"], &listed[1]["decision"]), (&json!(again), &json!("bypass")));
    assert_eq!((&listed[1]["reusable"], &listed[1]["app_count"]), (&json!(true), &json!(0)));
    assert_eq!(names(&scene.get("policies?per_page=1&page=2").result()).len(), 1);
    scene.emulator.edit(|cloudflare| cloudflare.policy_mut(&again).decision = "shrug".to_owned());
    assert_eq!(scene.get("policies").result()[1]["decision"], "shrug", "one that no client knows");
    let refused = scene.emulator.add_policy(&json!({"name": "none", "decision": "allow", "include": []}));
    assert_eq!(refused.unwrap_err().code, 12130);
}

#[test]
fn policies_are_linked_by_id_and_shown_whole_in_order_of_precedence() {
    let scene = Scene::new();
    let machines = scene.emulator.add_policy(&policy("machines", "non_identity")).unwrap();
    for (policies, order) in [
        (json!([scene.staff, machines]), ["staff", "machines"]),
        (
            json!([{"id": scene.staff, "precedence": 7}, {"id": machines, "precedence": 2}]),
            ["machines", "staff"],
        ),
        (json!([{"id": machines}, {"id": scene.staff}]), ["machines", "staff"]),
    ] {
        let made = scene.made(&app("web", &["www.example.com"], &policies));
        assert_eq!(names(&made["policies"]), order, "{policies}");
        assert_eq!(scene.get("apps").result()[0], made, "the list has them too");
        let first = &made["policies"][0];
        assert!(
            first["precedence"].is_u64() && first["include"].is_array() && first["reusable"] == true,
            "{first}"
        );
        scene.emulator.edit(|cloudflare| {
            assert_eq!(cloudflare.policies_of("web").len(), 2);
            cloudflare.delete_application("web");
        });
    }
    assert_eq!(names(&scene.get("policies").result()).len(), 2, "they stay");
}

#[test]
fn a_policy_that_does_not_fit_is_refused() {
    let scene = Scene::new();
    let unknown = "00000000-0000-4000-8000-000000000000";
    let own = scene.made(&app("own", &["own.example.com"], &json!([policy("own", "allow")])));
    let of_another = own["policies"][0]["id"].as_str().unwrap();
    let with = |name: &str, value: Value| {
        let mut policy = policy("x", "allow");
        policy[name] = value;
        policy
    };
    for (policies, expected) in [
        (json!([unknown]), format!("policy {unknown} not found")),
        (json!([{"id": unknown, "precedence": 1}]), format!("policy {unknown} not found")),
        (json!([of_another]), format!("policy {of_another} not found")),
        (json!([{"id": scene.staff, "precedence": 0}]), "policy precedence must be 1 or more".to_owned()),
        (
            json!([{"id": scene.staff, "precedence": 1}, with("precedence", json!(1))]),
            "policy precedences must be unique".to_owned(),
        ),
        (json!([scene.staff, scene.staff]), format!("policy {} is there twice", scene.staff)),
        (
            json!([scene.staff, policy("x", "allow")]),
            "reusable and inline policies are mutually exclusive".to_owned(),
        ),
        (json!([with("include", json!([]))]), "policy must have at least one include rule".to_owned()),
        (json!([7]), "a policy is an id or an object".to_owned()),
    ] {
        let body = app("web", &["www.example.com"], &policies);
        assert_eq!(scene.refused(&body), (400, 12130, expected), "{policies}");
    }
}

#[test]
fn an_inline_policy_lives_as_long_as_its_application_has_it() {
    let scene = Scene::new();
    let made =
        scene.made(&app("web", &["www.example.com"], &json!([policy("a", "allow"), policy("b", "deny")])));
    assert_eq!(made["policies"][0]["reusable"], json!(false));
    let path = format!("apps/{}", made["id"].as_str().unwrap());
    let put =
        |policies: Value| scene.call("PUT", &path, &app("web", &["www.example.com"], &policies)).result();
    // As it was read, and by its id.
    let kept = put(json!([made["policies"][0], made["policies"][1]["id"]]));
    assert_eq!(kept["policies"], made["policies"]);
    let held = || scene.emulator.edit(|cloudflare| cloudflare.policies().len());
    assert_eq!(held(), 3);
    assert_eq!(names(&put(json!([made["policies"][1]]))["policies"]), ["b"]);
    assert_eq!(held(), 2, "the other is deleted");
    assert_eq!(names(&put(json!([scene.staff]))["policies"]), ["staff"]);
    assert_eq!(held(), 1, "both are");
    let refused = scene.emulator.edit(|cloudflare| cloudflare.delete_policy(&scene.staff));
    assert!(refused.is_err(), "in use");
    put(json!([]));
    scene.emulator.edit(|cloudflare| cloudflare.delete_policy(&scene.staff)).unwrap();
}

#[test]
fn a_tag_is_there_before_its_applications() {
    let scene = Scene::new();
    let post = |name: Value| scene.call("POST", "tags", &json!({"name": name}));
    let made = post(json!("mine-1"));
    assert_eq!((made.status, &made.json()["result"]["name"]), (201, &json!("mine-1")));
    assert_eq!(post(json!("mine-1")).code(), 12132);
    for name in [json!(""), json!("a".repeat(36)), json!("a b"), json!("a:b"), Value::Null] {
        assert_eq!(post(name.clone()).code(), 12130, "{name}");
    }
    post(json!("also"));
    let mut wanted = app("web", &["www.example.com"], &json!([]));
    wanted["tags"] = json!(["mine-1", "also"]);
    assert_eq!(scene.made(&wanted)["tags"], json!(["also", "mine-1"]), "alphabetical");
    let listed = scene.get("tags").result();
    assert_eq!(names(&listed), ["mine-1", "also"]);
    assert_eq!(listed[0]["app_count"], 1);
    assert_eq!(names(&scene.get("tags?per_page=1").result()), ["mine-1"]);
    let delete = |name: &str| scene.call("DELETE", &format!("tags/{name}"), &Value::Null);
    assert_eq!(delete("mine-1").code(), 12130, "an application has it");
    assert_eq!(delete("none").code(), 12135);
    post(json!("alone"));
    assert_eq!(delete("alone").status, 202);
    assert_eq!(names(&scene.get("tags").result()), ["mine-1", "also"]);
}
