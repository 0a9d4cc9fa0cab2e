//! What an operator changes or deletes by hand at Cloudflare.

use super::*;

/// An edit by hand at Cloudflare, and how the application's policies are afterwards.
type Edit = (&'static str, fn(&mut Cloudflare));

/// Puts the application as the dashboard does when some of its fields are changed.
pub(crate) fn put(cloudflare: &mut Cloudflare, fields: &Value) {
    let id = cloudflare.applications()[0].id.clone();
    let mut all = cloudflare.application(&id).fields.clone();
    for (name, value) in fields.as_object().expect("an object") {
        if name == "destinations" {
            all.remove("self_hosted_domains");
            all.remove("domain");
        }
        all.insert(name.clone(), value.clone());
    }
    cloudflare.put_application(&id, &Value::Object(all)).expect("Cloudflare takes it");
}

#[test]
fn what_is_edited_by_hand_on_an_application_of_ours_is_mended_and_opens_nothing() {
    let edits: [Edit; 4] = [
        ("a policy that lets all visitors past", |cloudflare| {
            let both = [0, 2].map(|index| cloudflare.policies()[index].id.clone());
            put(cloudflare, &json!({"policies": both}));
        }),
        ("an inline policy that lets all visitors past", |cloudflare| {
            let policy = json!({"name": "mine", "decision": "bypass", "include": [{"everyone": {}}]});
            put(cloudflare, &json!({"policies": [policy]}));
        }),
        ("another destination", |cloudflare| {
            put(cloudflare, &json!({"destinations": [{"type": "public", "uri": "other.example.com"}]}));
        }),
        ("a session duration that no endpoint can ask for", |cloudflare| {
            put(cloudflare, &json!({"session_duration": "1h30m"}));
        }),
    ];
    for (label, edit) in edits {
        let stage = Stage::protected(&[]);
        let before = stage.applications()[0].clone();
        stage.cloudflare().edit(edit);
        for refused in [Fault::error(403, 10000, "Authentication error"), Fault::status(403)] {
            stage.cloudflare().fault(Matcher::put_application(), 1, refused);
            let _ = stage.program.external_dns().run_loop(&[wish("staff")]);
            assert_eq!(
                stage.harness.log.lines_with(&["inline policy"]),
                [""; 0],
                "{label}: nothing is deleted"
            );
        }
        assert_eq!(stage.run(&[wish("staff")]), 1, "{label}: one loop mends it");
        let after = stage.applications();
        assert_eq!(after.len(), 1, "{label}");
        assert_eq!((&after[0].id, &after[0].fields), (&before.id, &before.fields), "{label}");
        assert_eq!(stage.policies(), [["staff"]], "{label}");
        assert!(stage.is_served_with_login(), "{label}");
        assert_eq!(stage.leaks(), [""; 0], "{label}");
        // What is attached from the account's list stays there; what was made in the application is gone for good.
        let told = stage.harness.log.lines_with(&["this inline policy of the Access application is deleted"]);
        assert_eq!(told.len(), usize::from(label.contains("inline")), "{label}: {told:#?}");
        assert!(told.iter().all(|line| line.contains("mine") && line.contains(NAME)), "{told:#?}");
    }
}

#[test]
fn an_application_whose_tokens_a_rule_by_hand_asks_for_outlives_its_hostname() {
    let stage = Stage::protected(&[]);
    let audience = stage.applications()[0].aud.clone();
    let access = json!({"required": true, "teamName": "my-team", "audTag": [audience]});
    let theirs = json!({
        "hostname": "theirs.example.com", "service": "http://theirs:80", "originRequest": {"access": access}
    });
    let last = r#"{"service":"http_status:404"}"#;
    for (rules, policies) in [(format!("{theirs},{last}"), vec![vec!["staff"]]), (last.to_owned(), vec![])] {
        let document = format!(r#"{{"ingress":[{rules}]}}"#);
        stage.cloudflare().put_configuration(&stage.harness.tunnel, &document).expect("cloudflared takes it");
        stage.run_long(&[]);
        assert_eq!(stage.policies(), policies, "{rules}");
    }
}

#[test]
fn an_application_that_lost_its_tag_is_foreign_and_the_hostname_stays_closed() {
    let stage = Stage::protected(&[]);
    stage.cloudflare().edit(|cloudflare| {
        let tag = cloudflare.tags().remove(0);
        cloudflare.delete_tag(&tag);
    });
    let before = stage.applications()[0].fields.clone();
    let rules = stage.harness.rules();
    assert_eq!(stage.run(&[wish("staff")]), 1, "its comment names no application of ours");
    assert_eq!(stage.harness.rules(), rules);
    assert!(stage.logged(&["refused=application_held"]));
    // The tag is made again for the next one.
    stage.run(&[wish("staff"), of("next.example.com", "staff")]);
    assert!(stage.cloudflare().visit_as(Visitor::WithLogin, "next.example.com", "/").is_served());
    assert_eq!(stage.cloudflare().edit(|cloudflare| cloudflare.tags().len()), 1);
    for desired in [vec![at(NAME, &[])], vec![wish("none")], vec![]] {
        stage.run(&desired);
        assert_eq!(stage.leaks(), [""; 0], "then {desired:?}");
    }
    assert_eq!(stage.applications()[0].fields, before);
}

#[test]
fn what_the_program_does_not_manage_survives_its_replacement() {
    let stage = Stage::protected(&[]);
    stage.cloudflare().edit(|cloudflare| {
        cloudflare.whims_mut().application_fields.push("of_tomorrow".to_owned());
        cloudflare.add_tag("mine").expect("a tag");
        let tag = cloudflare.tags().remove(0);
        put(
            cloudflare,
            &json!({
                "logo_url": "https://example.com/logo.png", "app_launcher_visible": false, "allowed_idps": ["an-idp"],
                "of_tomorrow": {"a": [1, {"b": null}]}, "tags": ["mine", tag],
            }),
        );
    });
    let mut before = stage.applications()[0].fields.clone();
    assert_eq!(stage.run(&[wish("on-call")]), 1);
    assert_eq!(stage.policies(), [["on-call"]]);
    before.insert("session_duration".to_owned(), json!("24h"));
    assert_eq!(stage.applications()[0].fields, before);
}

/// Its rule refuses every visitor until an object says something, and only the mark makes a new process read Access.
#[test]
fn a_silent_hostname_whose_application_was_deleted_is_never_told_as_if_all_were_well() {
    let mut stage = Stage::protected(&[]);
    let silent = [at(NAME, &[])];
    stage.run(&silent);
    let id = stage.applications()[0].id.clone();
    stage.cloudflare().edit(|cloudflare| cloudflare.delete_application(&id));
    for is_restarted in [false, true, true] {
        if is_restarted {
            stage = stage.restarted();
            stage.harness.log.forget();
        }
        stage.run(&silent);
        assert!(stage.harness.cnames()[0].3.contains("rules=!"), "{:?}", stage.harness.cnames());
        let is_told = stage.logged(&["WARN", NAME, "pplication"]);
        assert!(!stage.is_served_with_login() && is_told, "restarted: {is_restarted}");
    }
    assert_eq!(stage.leaks(), [""; 0]);
    stage.run(&[wish("staff")]);
    assert!(stage.is_served_with_login() && stage.policies() == [["staff"]]);
}

/// The comment loses a mark that is wrong, before the rule is deleted. A foreign rule keeps the record.
#[test]
fn a_rule_whose_deletion_cloudflare_refuses_once_is_deleted_by_the_next_loop_from_beside_a_foreign_rule() {
    const OTHER: &str = "other.example.com";
    let stage = Stage::protected(&[]);
    let harness = &stage.harness;
    let ours = endpoint(OTHER, &[("tunnel-service", "http://ours:80"), ("tunnel-path", "^/a$")]);
    let _ = stage.run_loop(&[wish("staff"), ours]);
    harness.cloudflare.edit(|cloudflare| {
        let records = cloudflare.records(&harness.zone);
        let record = records.iter().find(|one| one.name == OTHER).expect("ours").clone();
        let comment = record.comment.unwrap_or_default().replace("rules=", "rules=!");
        cloudflare.patch_record(&harness.zone, &record.id, &json!({"comment": comment})).expect("taken");
        let text = cloudflare.configuration(&harness.tunnel).expect("a configuration").get();
        let mut document: Value = serde_json::from_str(text).expect("JSON");
        let rules = document["ingress"].as_array_mut().expect("rules");
        rules.insert(rules.len() - 1, json!({"hostname": OTHER, "service": "http://theirs:80"}));
        cloudflare.put_configuration(&harness.tunnel, &document.to_string()).expect("taken");
    });
    harness.cloudflare.advance_clock(Duration::from_secs(3_600));
    let refusal = Fault::error(400, 1056, "Bad Configuration");
    harness.cloudflare.fault(Matcher::put_configuration(), 1, refusal);
    for _ in 0..3 {
        let _ = stage.run_loop(&[wish("staff")]);
        harness.cloudflare.advance_clock(Duration::from_secs(3_600));
    }
    for path in ["/a", "/"] {
        assert_eq!(harness.service_at(OTHER, path), "http://theirs:80", "{path}");
    }
    let comments: Vec<String> = harness.cnames().into_iter().map(|(.., comment)| comment).collect();
    assert!(comments.iter().any(|comment| comment.ends_with("rules=~")), "{comments:?}");
}

/// A token may lose the permission to edit, and then deletes nothing any more; or a proxy blocks the method. Now and
/// then Access cannot be read.
#[test]
fn an_unneeded_application_that_cannot_be_deleted_is_in_the_log_once_and_is_tried_ever_less_often() {
    for fault in [Fault::error(403, 10000, "Authentication error"), Fault::status(500)] {
        let stage = Stage::protected(&[]);
        stage.cloudflare().fault_every(Matcher::delete_application(), fault.clone());
        stage.run(&[]);
        stage.cloudflare().advance_clock(AGE_MIN);
        stage.cloudflare().take_calls();
        for number in 0..20 {
            if number % 4 == 3 {
                stage.cloudflare().fault_every(Matcher::list_applications(), Fault::status(500));
            }
            let _ = stage.run_loop(&[]);
            stage.cloudflare().clear_faults();
            stage.cloudflare().fault_every(Matcher::delete_application(), fault.clone());
            stage.cloudflare().advance_clock(INTERVAL);
        }
        assert_eq!(stage.policies().len(), 1, "it stays");
        let told = stage.harness.log.lines_with(&["WARN", "an unneeded Access application stays", NAME]);
        assert_eq!(told.len(), 1, "{told:#?}");
        let tries = stage.cloudflare().count_calls().writes;
        assert!((2..=6).contains(&tries), "{fault:?}: {tries}");
    }
}

/// A path that a foreign rule has is refused, and the object's hostname is published already.
#[test]
fn an_application_that_is_deleted_by_hand_is_made_again_beside_a_refused_path() {
    let stage = Stage::protected(&[]);
    stage.cloudflare().edit(|cloudflare| {
        let text = cloudflare.configuration(&stage.harness.tunnel).expect("a configuration").get();
        let mut document: Value = serde_json::from_str(text).expect("JSON");
        let theirs = json!({"hostname": NAME, "path": "^/api(/|$)", "service": "http://theirs:80"});
        document["ingress"].as_array_mut().expect("rules").insert(0, theirs);
        cloudflare.put_configuration(&stage.harness.tunnel, &document.to_string()).expect("taken");
    });
    let object = at(NAME, &[("access-policy", "staff"), ("tunnel-path-prefix.api", "/api")]);
    let _ = stage.run_loop(std::slice::from_ref(&object));
    stage.cloudflare().edit(|cloudflare| {
        let ids: Vec<String> = cloudflare.applications().iter().map(|one| one.id.clone()).collect();
        for id in ids {
            cloudflare.delete_application(&id);
        }
    });
    assert!(!stage.is_served_with_login(), "the rule asks for the token of an application that is gone");
    stage.run(&[object]);
    assert!(stage.is_served_with_login());
    assert!(stage.logged(&["refused=rule_held"]));
    assert_eq!(stage.leaks(), [""; 0]);
}

/// An application that a person adds for the team `on-call`; its audience.
fn add_by_hand(stage: &Stage, name: &str, uris: &[&str]) -> String {
    stage.cloudflare().edit(|cloudflare| {
        let policy = cloudflare.policies()[1].id.clone();
        let destinations: Vec<Value> = uris.iter().map(|uri| json!({"type": "public", "uri": uri})).collect();
        let fields = json!({
            "type": "self_hosted", "name": name, "destinations": destinations, "policies": [policy]
        });
        cloudflare.add_application(&fields).expect("Cloudflare takes it");
    });
    let applications = stage.applications();
    applications.iter().find(|one| one.name() == name).expect("it was added").aud.clone()
}

/// The edge sends the token of the application that visitors meet first, and the rule wants the token of another one.
#[test]
fn an_application_by_hand_whose_token_a_rule_does_not_accept_is_told_once_with_remedies_that_hold() {
    let admin = ["app.example.com/admin", "app.example.com/admin/*"];
    for (standing, uris, path, place) in [
        (vec![wish("staff")], &admin[..], "/admin", "app.example.com/admin"),
        (vec![of("*.example.com", "staff")], &[NAME], "/", NAME),
        (vec![of("*.example.com", "staff"), at(NAME, &[])], &[NAME], "/", NAME),
    ] {
        let stage = Stage::new(&[]);
        stage.run(&standing);
        stage.run(&standing);
        let is_served = || stage.cloudflare().visit_as(Visitor::WithLogin, NAME, path).is_served();
        assert!(is_served(), "{place}");
        let audience = add_by_hand(&stage, "by hand", uris);
        assert!(!is_served(), "{place}");
        for _ in 0..3 {
            stage.run_loop(&standing).expect("answered");
        }
        let told = stage.harness.log.lines_with(&["WARN", "the Access application \"by hand\" first"]);
        assert_eq!(told.len(), 1, "{place}: {told:#?}");
        assert!(told[0].contains(&format!("visitors of \"{place}\" meet")), "{told:#?}");

        let check = [
            ("access-required", "true"),
            ("access-team-name", "my-team"),
            ("access-aud-tag", &*audience),
            ("tunnel-path-prefix", path),
        ];
        let check = if path == "/" { &check[..3] } else { &check };
        let silent: &[Endpoint] = standing.get(..1).expect("one stands");
        stage.run(&[silent, &[at(NAME, check)]].concat());
        assert!(is_served(), "{place}: published with the token of that application");

        stage.run(&standing);
        stage.cloudflare().edit(|cloudflare| {
            let by_hand = cloudflare.applications().iter().find(|one| one.name() == "by hand");
            let id = by_hand.expect("it is there").id.clone();
            cloudflare.delete_application(&id);
        });
        assert_eq!(stage.leaks(), [""; 0], "{place}");
        stage.run(silent);
        assert!(is_served(), "{place}: that application is deleted");
    }
}

/// The open rule of the whole hostname answers the path once its own rule is deleted.
#[test]
fn the_application_of_a_deleted_path_stays_if_only_a_bypass_by_hand_is_behind_it() {
    let stage = Stage::new(&[]);
    stage.cloudflare().edit(|cloudflare| {
        let public = cloudflare.policies()[2].id.clone();
        let destinations = json!([{"type": "public", "uri": NAME}]);
        let fields = json!({
            "type": "self_hosted", "name": "by hand", "destinations": destinations, "policies": [public]
        });
        cloudflare.add_application(&fields).expect("Cloudflare takes it");
    });
    let (whole, path) = (at(NAME, &[]), [("access-policy", "staff"), ("tunnel-path-prefix", "/admin")]);
    stage.run(&[whole.clone(), at(NAME, &path)]);
    let is_open = |path: &str| stage.cloudflare().visit_as(Visitor::WithoutLogin, NAME, path).is_served();
    assert_eq!((is_open("/"), is_open("/admin")), (true, false));
    stage.run_long(&[whole]);
    assert_eq!((is_open("/"), is_open("/admin")), (true, false));
    assert!(stage.logged(&["WARN", "app.example.com/admin", "stays, because visitors might reach"]));
}

/// Both instances have the `OWNER_ID` of a fresh install, and a tunnel of their own.
#[test]
fn the_application_of_another_instance_with_our_owner_is_not_told_as_left_behind() {
    let stage = Stage::new(&[]);
    stage.cloudflare().add_tunnel("office");
    let (other, clock) = stage.start_beside(&[("CF_TUNNEL_ID", "office")]);
    stage.run(&[wish("staff")]);
    for _ in 0..3 {
        let _ = other.external_dns().run_loop(&[of("b.example.com", "staff")]);
        clock.await_watch();
        stage.cloudflare().advance_clock(Duration::from_secs(130));
    }
    stage.run_long(&[wish("staff")]);
    assert_eq!(stage.harness.log.lines_with(&["b.example.com", "delete it at Cloudflare"]), [""; 0]);
}
