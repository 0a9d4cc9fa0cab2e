//! What Access is to visitors: at the edge, and at the rule.

use cloudflare_emulator::{Emulator, Visit, Visitor};
use serde_json::{Value, json};

use super::{Scene, app, policy, without};

const HOST: &str = "www.example.com";

/// `www` and `*.dev` through the tunnel `shop` to `http://web`, with this `access` in the rule, and in the document's
/// own `originRequest`.
fn published(scene: &Scene, in_rule: &Value, in_document: &Value) {
    let emulator = &scene.emulator;
    let names = ["www", "*.dev"];
    if emulator.records("example.com").is_empty() {
        let tunnel = emulator.add_tunnel("shop");
        for name in names {
            let target = format!("{tunnel}.cfargotunnel.com");
            let record = json!({"type": "CNAME", "name": name, "content": target, "proxied": true});
            emulator.add_record("example.com", record).unwrap();
        }
    }
    let rule = json!({"service": "http://web", "originRequest": {"access": in_rule}});
    let config = json!({"ingress": [rule], "originRequest": {"access": in_document}});
    emulator.put_configuration("shop", &config.to_string()).unwrap();
}

/// In a word: `open`, `in` with the right audience, `out`, or cloudflared's status.
fn seen(emulator: &Emulator, visitor: Visitor, host: &str, path: &str) -> String {
    match emulator.visit_as(visitor, host, path) {
        Visit::Served { audience: None, .. } => "open".to_owned(),
        Visit::Served { audience: Some(audience), .. } => {
            let applications = emulator.applications();
            let found = applications.iter().find(|application| application.aud == audience).unwrap();
            format!("in by {}", found.name())
        }
        Visit::TurnedAway { application: Some(id) } => {
            format!("out by {}", emulator.edit(|cloudflare| cloudflare.application(&id).name().to_owned()))
        }
        Visit::Refused { status, .. } => status.to_string(),
        visit => visit.to_string(),
    }
}

#[test]
fn a_visitor_without_a_login_is_turned_away_and_one_with_a_login_brings_the_audience() {
    let scene = Scene::new();
    published(&scene, &Value::Null, &Value::Null);
    let see = |visitor| seen(&scene.emulator, visitor, HOST, "/");
    assert_eq!((see(Visitor::WithoutLogin), see(Visitor::WithLogin)), ("open".into(), "open".into()));
    let machines = scene.emulator.add_policy(&policy("machines", "non_identity")).unwrap();
    let denial = json!({"name": "denial", "decision": "deny", "include": [{"ip": {"ip": "192.0.2.1/32"}}, {"everyone": {}}]});
    scene.made(&app("web", &[HOST], &json!([])));
    for (policies, expected) in [
        (json!([]), ["out by web", "out by web", "out by web"]),
        (json!([scene.staff]), ["out by web", "in by web", "out by web"]),
        (json!([machines]), ["out by web", "out by web", "in by web"]),
        (json!([scene.staff, machines]), ["out by web", "in by web", "in by web"]),
        (json!([policy("some", "deny"), policy("a", "allow")]), ["out by web", "in by web", "out by web"]),
        (json!([denial, policy("a", "allow")]), ["out by web", "out by web", "out by web"]),
        (json!([policy("a", "allow"), denial]), ["out by web", "in by web", "out by web"]),
        (json!([policy("a", "allow"), policy("b", "bypass")]), ["open", "open", "open"]),
        (json!([policy("a", "allow"), policy("b", "new")]), ["open", "open", "open"]),
    ] {
        let fields = app("web", &[HOST], &policies);
        scene.emulator.edit(|cloudflare| cloudflare.put_application("web", &fields)).unwrap();
        let found = [Visitor::WithoutLogin, Visitor::WithLogin, Visitor::ServiceToken].map(see);
        assert_eq!(found, expected.map(str::to_owned), "{policies}");
    }
    let visit = scene.emulator.visit(HOST, "/");
    assert!(visit.is_served());
    let fields = app("web", &[HOST], &json!([]));
    scene.emulator.edit(|cloudflare| cloudflare.put_application("web", &fields)).unwrap();
    assert!(!scene.emulator.visit(HOST, "/").is_served());
    scene.emulator.edit(|cloudflare| cloudflare.delete_application("web"));
    assert_eq!(see(Visitor::WithoutLogin), "open", "nothing asks any more");
}

#[test]
fn a_preflight_request_goes_through_only_where_the_application_says_so() {
    let scene = Scene::new();
    published(&scene, &Value::Null, &Value::Null);
    let mut fields = app("web", &[HOST], &json!([scene.staff]));
    scene.emulator.add_application(&fields).unwrap();
    assert_eq!(seen(&scene.emulator, Visitor::Preflight, HOST, "/"), "out by web");
    fields["options_preflight_bypass"] = json!(true);
    scene.emulator.edit(|cloudflare| cloudflare.put_application("web", &fields)).unwrap();
    assert_eq!(seen(&scene.emulator, Visitor::Preflight, HOST, "/"), "open");
    assert_eq!(seen(&scene.emulator, Visitor::WithoutLogin, HOST, "/"), "out by web");
    published(&scene, &json!({"required": true, "teamName": "shop", "audTag": ["x"]}), &Value::Null);
    assert_eq!(seen(&scene.emulator, Visitor::Preflight, HOST, "/"), "403");
}

#[test]
fn only_applications_before_hostnames_count_and_an_unknown_type_opens() {
    let scene = Scene::new();
    published(&scene, &Value::Null, &Value::Null);
    for (name, uri) in [("web", HOST), ("wide", "*.example.com")] {
        scene.emulator.add_application(&app(name, &[uri], &json!([scene.staff]))).unwrap();
    }
    let see = |host| seen(&scene.emulator, Visitor::WithoutLogin, host, "/");
    for (kind, expected) in [
        ("bookmark", "out by wide"),
        ("app_launcher", "out by wide"),
        ("ssh", "out by web"),
        ("new_kind", "open"),
    ] {
        scene.emulator.edit(|cloudflare| {
            cloudflare.application_mut("web").fields.insert("type".to_owned(), json!(kind));
        });
        assert_eq!(see(HOST), expected, "{kind}");
    }
    // Of two that fit equally the older one.
    scene.emulator.edit(|cloudflare| cloudflare.whims_mut().takes_taken_destinations = true);
    scene.emulator.add_application(&app("wide too", &["*.example.com"], &json!([]))).unwrap();
    scene.emulator.edit(|cloudflare| cloudflare.delete_application("web"));
    assert_eq!(see(HOST), "out by wide");
}

#[test]
fn an_application_of_the_zone_counts_and_one_before_a_name_that_is_not_proxied_does_not() {
    let scene = Scene::new();
    published(&scene, &Value::Null, &Value::Null);
    let fields = app("web", &[HOST, "plain.example.com", "proxied.example.com"], &json!([scene.staff]));
    scene.emulator.edit(|cloudflare| cloudflare.add_zone_application("example.com", &fields)).unwrap();
    assert_eq!(seen(&scene.emulator, Visitor::WithoutLogin, HOST, "/"), "out by web");
    for (name, proxied, expected) in [("plain", false, "A 192.0.2.1"), ("proxied", true, "out by web")] {
        let record = json!({"type": "A", "name": name, "content": "192.0.2.1", "proxied": proxied});
        scene.emulator.add_record("example.com", record).unwrap();
        let host = format!("{name}.example.com");
        assert_eq!(seen(&scene.emulator, Visitor::WithoutLogin, &host, "/"), expected);
    }
    // An application of an account that does not have the zone any more.
    let public = app("theirs", &["c.dev.example.com"], &json!([scene.staff]));
    scene.emulator.edit(|cloudflare| {
        let other = cloudflare.add_account("Other");
        let theirs = cloudflare.add_zone_to(&other, "example.com", cloudflare_emulator::Plan::Free);
        cloudflare.add_zone_application(&theirs, &without(&public, &["policies"])).unwrap();
        cloudflare.zone_mut(&theirs).status = "moved".to_owned();
    });
    assert_eq!(seen(&scene.emulator, Visitor::WithoutLogin, "c.dev.example.com", "/"), "open");
    scene.emulator.edit(|cloudflare| cloudflare.tunnel_mut("shop").connectors = 0);
    assert_eq!(seen(&scene.emulator, Visitor::WithoutLogin, HOST, "/"), "out by web", "before the tunnel");
    assert_eq!(seen(&scene.emulator, Visitor::WithLogin, HOST, "/"), "error 1033");
}

/// As cloudflared 2026.8.2 does it.
#[test]
fn the_rule_asks_for_a_token_of_its_team_and_one_of_its_audiences() {
    let scene = Scene::new();
    published(&scene, &Value::Null, &Value::Null);
    let made = scene.made(&app("web", &[HOST], &json!([scene.staff])));
    let aud = made["aud"].as_str().unwrap();
    let with = |team: &str, tags: Value| json!({"required": true, "teamName": team, "audTag": tags});
    for (access, expected) in [
        (Value::Null, ["in by web", "open"]),
        (json!({}), ["in by web", "open"]),
        (json!({"required": false, "teamName": "shop", "audTag": ["x"]}), ["in by web", "open"]),
        (json!({"teamName": "other", "audTag": ["x"]}), ["in by web", "open"]),
        (with("shop", json!([aud])), ["in by web", "403"]),
        (with("shop", json!(["x", aud])), ["in by web", "403"]),
        (json!({"Required": true, "TEAMNAME": "shop", "audtag": [aud]}), ["in by web", "403"]),
        (with("shop", json!(["x"])), ["403", "403"]),
        (with("shop", json!([])), ["403", "403"]),
        (with("shop", json!([format!("{aud} ")])), ["403", "403"]),
        (with("shop", json!([aud.to_uppercase()])), ["403", "403"]),
        (with("other", json!([aud])), ["502", "403"]),
        (with("SHOP", json!([aud])), ["502", "403"]),
        (with("shop.cloudflareaccess.com", json!([aud])), ["502", "403"]),
        (
            json!({"required": true, "teamName": "shop", "audTag": [aud], "environment": "fed"}),
            ["502", "403"],
        ),
        (json!({"required": true}), ["502", "403"]),
    ] {
        published(&scene, &access, &Value::Null);
        // A visitor that a bypass lets through the edge without a token is not asked for one there.
        let with_login = seen(&scene.emulator, Visitor::WithLogin, HOST, "/");
        let unasked = seen(&scene.emulator, Visitor::WithoutLogin, "b.dev.example.com", "/");
        assert_eq!([with_login.as_str(), unasked.as_str()], expected, "{access}");
    }
    published(&scene, &Value::Null, &with("other", json!(["x"])));
    assert_eq!(
        seen(&scene.emulator, Visitor::WithoutLogin, "b.dev.example.com", "/"),
        "open",
        "of the rule alone"
    );
}

#[test]
fn what_changes_at_the_edge_is_an_error_at_a_rule_that_asks() {
    let scene = Scene::new();
    let made = scene.made(&app("web", &[HOST], &json!([scene.staff])));
    let access = json!({"required": true, "teamName": "shop", "audTag": [made["aud"]]});
    published(&scene, &access, &Value::Null);
    let see = |visitor| seen(&scene.emulator, visitor, HOST, "/");
    let both = || (see(Visitor::WithoutLogin), see(Visitor::WithLogin));
    let are = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(both(), are("out by web", "in by web"));
    scene.emulator.set_up_access("renamed");
    assert_eq!(both(), are("out by web", "502"));
    scene.emulator.set_up_access("shop");
    scene.emulator.edit(|cloudflare| cloudflare.policy_mut("staff").decision = "bypass".to_owned());
    assert_eq!(both(), are("403", "403"));
    scene.emulator.edit(|cloudflare| cloudflare.policy_mut("staff").decision = "allow".to_owned());
    scene.emulator.edit(|cloudflare| cloudflare.delete_application("web"));
    assert_eq!(both(), are("403", "403"));
    scene.made(&app("web", &[HOST], &json!([scene.staff])));
    assert_eq!(both(), are("out by web", "403"));
    let refused = scene.emulator.visit_as(Visitor::WithLogin, HOST, "/");
    let tunnel = scene.emulator.edit(|cloudflare| cloudflare.tunnel("shop").id.clone());
    assert_eq!(refused, Visit::Refused { tunnel, rule: 0, status: 403 });
    assert!(!refused.is_served());
}
