//! Making, replacing and deleting applications.

use serde_json::{Value, json};

use super::{Scene, app, policy, without};

const READ_ONLY: [&str; 5] = ["id", "uid", "aud", "created_at", "updated_at"];

#[test]
fn what_is_left_out_is_filled_in() {
    let scene = Scene::new();
    let made = scene.made(&json!({"type": "self_hosted", "domain": "www.example.com"}));
    let filled = without(&made, &READ_ONLY);
    assert_eq!(
        filled,
        json!({
            "type": "self_hosted",
            "name": "www.example.com",
            "domain": "www.example.com",
            "destinations": [{"type": "public", "uri": "www.example.com"}],
            "self_hosted_domains": ["www.example.com"],
            "session_duration": "24h",
            "app_launcher_visible": true,
            "http_only_cookie_attribute": true,
            "eager_redirect_cookie_setting": true,
            "enable_binding_cookie": false,
            "path_cookie_attribute": false,
            "auto_redirect_to_identity": false,
            "options_preflight_bypass": false,
            "service_auth_401_redirect": false,
            "skip_interstitial": false,
            "allow_iframe": false,
            "use_clientless_isolation_app_launcher_url": false,
            "allowed_idps": [],
            "tags": [],
            "policies": [],
        })
    );
    let aud = made["aud"].as_str().unwrap();
    assert!(aud.len() == 64 && aud.bytes().all(|byte| byte.is_ascii_hexdigit()), "{aud}");
    assert_eq!(made["id"], made["uid"]);
    let read = scene.get(&format!("apps/{}", made["id"].as_str().unwrap())).result();
    assert_eq!(read, made);
}

#[test]
fn a_put_replaces_everything_but_the_policies_that_it_leaves_out() {
    let scene = Scene::new();
    scene.emulator.edit(|cloudflare| cloudflare.add_tag("mine")).unwrap();
    let mut wanted = app("web", &["www.example.com"], &json!([{"id": scene.staff, "precedence": 1}]));
    wanted["session_duration"] = json!("1h30m");
    wanted["tags"] = json!(["mine"]);
    wanted["custom_deny_message"] = json!("no");
    let made = scene.made(&wanted);
    let path = format!("apps/{}", made["id"].as_str().unwrap());
    let put = |body: &Value| scene.call("PUT", &path, body);

    // Read, change, write.
    let mut read = without(&made, &READ_ONLY);
    read["custom_deny_message"] = json!("no way");
    let written = put(&read).result();
    assert_eq!(without(&written, &READ_ONLY), read, "nothing is lost");
    assert_eq!(scene.emulator.edit(|cloudflare| cloudflare.policies().len()), 1, "a link is not a policy");
    assert_eq!((&written["id"], &written["aud"]), (&made["id"], &made["aud"]));

    // What only the API writes is not taken.
    let mut forged = made.clone();
    forged["aud"] = json!("f".repeat(64));
    forged["id"] = json!("00000000-0000-4000-8000-000000000000");
    assert_eq!(put(&forged).result()["aud"], made["aud"]);

    // Left out: the defaults, but for the policies.
    let small = json!({"type": "self_hosted", "domain": "www.example.com"});
    let written = put(&small).result();
    assert_eq!((&written["session_duration"], &written["tags"]), (&json!("24h"), &json!([])));
    assert_eq!(
        (&written["custom_deny_message"], &written["name"]),
        (&Value::Null, &json!("www.example.com"))
    );
    assert_eq!(written["policies"][0]["id"], json!(scene.staff));
    let with = |policies: Value| {
        let mut small = small.clone();
        small["policies"] = policies;
        put(&small).result()["policies"].as_array().unwrap().len()
    };
    assert_eq!((with(Value::Null), with(json!([]))), (1, 0));
    assert_eq!(put(&json!({"domain": "www.example.com"})).code(), 12130, "type");
    assert_eq!(scene.call("PATCH", &path, &json!({})).code(), 10405);
}

#[test]
fn what_the_api_does_not_know_is_dropped_and_what_it_knows_by_now_survives_a_put_that_sends_it() {
    let scene = Scene::new();
    let mut wanted = app("web", &["www.example.com"], &json!([]));
    wanted["brand_new"] = json!({"a": 1});
    let made = scene.made(&wanted);
    assert!(made["brand_new"].is_null());
    let path = format!("apps/{}", made["id"].as_str().unwrap());
    scene.emulator.edit(|cloudflare| cloudflare.whims_mut().application_fields.push("brand_new".to_owned()));
    assert_eq!(scene.call("PUT", &path, &wanted).result()["brand_new"], json!({"a": 1}));
    assert!(scene.call("PUT", &path, &without(&wanted, &["brand_new"])).result()["brand_new"].is_null());
}

#[test]
fn destinations_and_domains_are_one_thing() {
    let scene = Scene::new();
    let public = |uri: &str| json!({"type": "public", "uri": uri});
    let (a, b) = ("a.example.com", "b.example.com/x");
    for (given, domain, uris) in [
        (json!({"domain": a}), a, vec![a]),
        (json!({"self_hosted_domains": [a, b]}), a, vec![a, b]),
        (json!({"destinations": [public(b), public(a)]}), b, vec![b, a]),
        (json!({"destinations": [public(b), public(a)], "domain": a}), a, vec![b, a]),
        (json!({"destinations": [public(b)], "domain": a, "self_hosted_domains": [a]}), b, vec![b]),
        (json!({"destinations": [], "domain": a}), a, vec![a]),
    ] {
        let mut wanted = given.clone();
        wanted["type"] = json!("self_hosted");
        let made = scene.made(&wanted);
        assert_eq!(
            (&made["domain"], &made["self_hosted_domains"]),
            (&json!(domain), &json!(uris)),
            "{given}"
        );
        let destinations: Vec<Value> = uris.iter().map(|uri| public(uri)).collect();
        assert_eq!(made["destinations"], json!(destinations), "{given}");
        scene.emulator.edit(|cloudflare| cloudflare.delete_application(made["id"].as_str().unwrap()));
    }
    let private = json!({"type": "private", "cidr": "10.5.0.0/24"});
    let made = scene.made(&json!({"type": "self_hosted", "name": "p", "destinations": [private]}));
    assert_eq!((&made["domain"], &made["self_hosted_domains"]), (&Value::Null, &json!([])));
}

#[test]
fn a_body_that_is_no_application_is_refused_and_nothing_is_made() {
    let scene = Scene::new();
    scene.emulator.edit(|cloudflare| {
        cloudflare.add_zone("pending.test", cloudflare_emulator::Plan::Free);
        cloudflare.zone_mut("pending.test").status = "pending".to_owned();
        let other = cloudflare.add_account("Other");
        cloudflare.add_zone_to(&other, "theirs.test", cloudflare_emulator::Plan::Free);
    });
    let with = |member: &str, value: Value| {
        let mut body = app("web", &["www.example.com"], &json!([]));
        body[member] = value;
        body
    };
    let at = |uri: &str| app("web", &[uri], &json!([]));
    let foreign = "domain does not belong to zone";
    let badly_formed = "domain must not have a scheme, port, query or fragment";
    for (body, expected) in [
        (json!({}), "app type is missing or invalid"),
        (json!([]), "the body is not a JSON object"),
        (with("type", json!("website")), "app type is missing or invalid"),
        (json!({"type": "self_hosted"}), "domain is required"),
        (at("www.example.org"), foreign),
        (at("www.pending.test"), foreign),
        (at("www.theirs.test"), foreign),
        (at("badexample.com"), foreign),
        (at("*example.com"), foreign),
        (at("x.workers.dev"), foreign),
        (at("https://www.example.com"), badly_formed),
        (at("www.example.com:443"), badly_formed),
        (at("www.example.com/?x=1"), badly_formed),
        (at("www.example.com/#x"), badly_formed),
        (at("*a*.example.com"), "domain has more than one wildcard between dots or slashes"),
        (at("www.example.com/*a*"), "domain has more than one wildcard between dots or slashes"),
        (at("www..example.com"), "domain is not valid"),
        (with("destinations", json!([{"uri": "www.example.com"}])), "a destination is not valid"),
        (with("session_duration", json!("1 day")), "session_duration is not a duration"),
        (with("allow_iframe", json!("yes")), "allow_iframe must be a boolean"),
        (with("name", json!(7)), "name must be a string"),
        (
            with("tags", json!(["mine"])),
            "tags contain a tag that does not exist, tags must be created before assigning to an application",
        ),
        (with("policies", json!("staff")), "policies must be a list"),
    ] {
        assert_eq!(scene.refused(&body), (400, 12130, expected.to_owned()), "{body}");
    }
    assert_eq!(scene.emulator.applications().len(), 0);
    scene.made(&app("apex", &["example.com"], &json!([])));
}

#[test]
fn a_destination_belongs_to_one_application_of_the_account() {
    let scene = Scene::new();
    let made = scene.made(&app("web", &["www.example.com", "api.example.com"], &json!([])));
    for (uri, code) in [("www.example.com", 11010), ("WWW.example.com", 11010), ("api.example.com", 12132)] {
        let (status, found, _) = scene.refused(&app("again", &["new.example.com", uri], &json!([])));
        assert_eq!((status, found), (409, code), "{uri}");
    }
    let again = app("again", &["www.example.com"], &json!([]));
    let refused = scene.emulator.edit(|cloudflare| cloudflare.add_zone_application("example.com", &again));
    assert_eq!(refused.unwrap_err().code, 11010, "the zone's too");
    scene.made(&app("path", &["www.example.com/admin"], &json!([])));
    let path = format!("apps/{}", made["id"].as_str().unwrap());
    assert_eq!(
        scene.call("PUT", &path, &app("web", &["www.example.com"], &json!([]))).status,
        200,
        "its own"
    );
    assert_eq!(scene.call("PUT", &path, &app("web", &["www.example.com/admin"], &json!([]))).code(), 11010);
    scene.made(&app("again", &["api.example.com"], &json!([])));
    scene.emulator.edit(|cloudflare| cloudflare.whims_mut().takes_taken_destinations = true);
    scene.made(&app("again", &["www.example.com"], &json!([])));
}

#[test]
fn a_deleted_application_is_gone_and_its_successor_has_another_audience() {
    let scene = Scene::new();
    let inline = policy("own", "allow");
    let made = scene.made(&app("web", &["www.example.com"], &json!([inline])));
    let path = format!("apps/{}", made["id"].as_str().unwrap());
    let deleted = scene.call("DELETE", &path, &Value::Null);
    assert_eq!((deleted.status, deleted.json()["result"].take()), (202, json!({"id": made["id"]})));
    for method in ["GET", "DELETE"] {
        let again = scene.call(method, &path, &Value::Null);
        assert_eq!((again.status, again.code()), (404, 11021), "{method}");
    }
    assert_eq!(scene.call("PUT", &path, &json!({"type": "self_hosted"})).code(), 11021);
    assert_eq!(scene.get("apps/www").code(), 12045);
    assert_eq!(
        scene.emulator.edit(|cloudflare| cloudflare.policies().len()),
        1,
        "the inline one went with it"
    );
    let again = scene.made(&app("web", &["www.example.com"], &json!([])));
    assert!(again["aud"] != made["aud"] && again["id"] != made["id"]);
}
