//! What somebody changes or deletes at Cloudflare.

use super::*;

/// An edit by hand at Cloudflare, and how the application's policies are afterwards.
type Edit = (&'static str, fn(&mut Cloudflare));

fn own(cloudflare: &mut Cloudflare) -> String {
    cloudflare.applications().first().expect("the application").id.clone()
}

/// Puts the application as somebody would who changes some of its fields.
pub(crate) fn put(cloudflare: &mut Cloudflare, fields: &Value) {
    let id = own(cloudflare);
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
    let edits: [Edit; 9] = [
        ("other policies", |cloudflare| {
            let on_call = cloudflare.policies()[1].id.clone();
            put(cloudflare, &json!({"policies": [on_call]}));
        }),
        ("no policies", |cloudflare| put(cloudflare, &json!({"policies": []}))),
        ("a policy that lets everybody past", |cloudflare| {
            let (staff, everybody) =
                (cloudflare.policies()[0].id.clone(), cloudflare.policies()[2].id.clone());
            put(cloudflare, &json!({"policies": [staff, everybody]}));
        }),
        ("an inline policy", |cloudflare| {
            let policy = json!({"name": "mine", "decision": "allow", "include": [{"everyone": {}}]});
            put(cloudflare, &json!({"policies": [policy]}));
        }),
        ("an inline policy that lets everybody past", |cloudflare| {
            let policy = json!({"name": "mine", "decision": "bypass", "include": [{"everyone": {}}]});
            put(cloudflare, &json!({"policies": [policy]}));
        }),
        ("another destination", |cloudflare| {
            put(cloudflare, &json!({"destinations": [{"type": "public", "uri": "other.example.com"}]}));
        }),
        ("one destination more", |cloudflare| {
            let uris =
                ["app.example.com", "more.example.com"].map(|uri| json!({"type": "public", "uri": uri}));
            put(cloudflare, &json!({"destinations": uris}));
        }),
        ("another session duration", |cloudflare| put(cloudflare, &json!({"session_duration": "1h"}))),
        ("a session duration that no endpoint can ask for", |cloudflare| {
            put(cloudflare, &json!({"session_duration": "1h30m"}));
        }),
    ];
    let mut told = Vec::new();
    for (label, edit) in edits {
        let stage = Stage::protected(&[]);
        let before = stage.applications()[0].clone();
        stage.cloudflare().edit(edit);
        let loops = stage.run(&[wish("staff")]);
        let after = stage.applications();
        let is_mended = after.len() == 1
            && after[0].id == before.id
            && after[0].fields == before.fields
            && stage.policies() == [["staff"]]
            && stage.is_served_with_login();
        if !is_mended || loops != 1 || !stage.leaks().is_empty() {
            told.push(format!(
                "{label}: {loops} loops wrote, {:?} {:?} {:?}",
                stage.policies(),
                after.iter().map(|one| &one.fields).collect::<Vec<_>>(),
                stage.leaks()
            ));
        }
    }
    assert_eq!(told, [""; 0]);
}

#[test]
fn a_policy_that_is_changed_to_let_everybody_past_is_told_and_the_rule_closes() {
    let stage = Stage::protected(&[]);
    stage.cloudflare().edit(|cloudflare| cloudflare.policy_mut("staff").decision = "bypass".to_owned());
    assert_eq!(stage.run(&[wish("staff")]), 0);
    assert!(stage.logged(&["refused=access_policy", "visitors past without a login"]));
    assert_eq!(stage.leaks(), [""; 0]);
    assert_eq!(stage.run(&[wish("on-call")]), 1, "another policy mends it");
    assert!(stage.is_served_with_login());
    assert_eq!(stage.leaks(), [""; 0]);
}

#[test]
fn an_application_that_lost_its_mark_is_somebody_elses_and_the_hostname_stays_closed() {
    let edits: [Edit; 3] = [
        ("another name", |cloudflare| put(cloudflare, &json!({"name": "mine"}))),
        ("no tag", |cloudflare| put(cloudflare, &json!({"tags": []}))),
        ("the tag is deleted", |cloudflare| {
            let tag = cloudflare.tags().remove(0);
            cloudflare.delete_tag(&tag);
        }),
    ];
    for (label, edit) in edits {
        let stage = Stage::protected(&[]);
        stage.cloudflare().edit(edit);
        let before = stage.applications()[0].fields.clone();
        let rules = stage.harness.rules();
        assert_eq!(stage.run(&[wish("staff")]), 1, "{label}: its comment names no application of ours");
        assert_eq!(stage.run(&[wish("staff")]), 0, "{label}");
        assert_eq!(stage.harness.rules(), rules, "{label}");
        assert_eq!(stage.applications().len(), 1, "{label}");
        assert!(stage.logged(&["refused=application_held"]), "{label}");
        for desired in [vec![silent()], vec![wish("none")], vec![]] {
            stage.run(&desired);
            assert_eq!(stage.leaks(), [""; 0], "{label}, then {desired:?}");
        }
        assert_eq!(stage.applications()[0].fields, before, "{label}");
    }
}

#[test]
fn a_deleted_tag_is_made_again_for_the_next_hostname() {
    let stage = Stage::protected(&[]);
    stage.cloudflare().edit(|cloudflare| {
        let tag = cloudflare.tags().remove(0);
        cloudflare.delete_tag(&tag);
    });
    let next = endpoint("next.example.com", &[("tunnel-service", SECRET), ("access-policy", "staff")]);
    stage.run(&[wish("staff"), next]);
    assert_eq!(stage.applications().len(), 2);
    assert_eq!(stage.cloudflare().edit(|cloudflare| cloudflare.tags().len()), 1);
    assert!(stage.cloudflare().visit_as(Visitor::WithLogin, "next.example.com", "/").is_served());
}

#[test]
fn what_the_program_does_not_manage_survives_its_replacement() {
    let stage = Stage::protected(&[]);
    let extra = json!({
        "logo_url": "https://example.com/logo.png", "app_launcher_visible": false, "allowed_idps": ["an-idp"],
        "custom_deny_message": "no", "same_site_cookie_attribute": "strict", "of_tomorrow": {"a": [1, {"b": null}]},
        "tags": ["mine", "x"],
    });
    stage.cloudflare().edit(|cloudflare| {
        cloudflare.whims_mut().application_fields.push("of_tomorrow".to_owned());
        cloudflare.add_tag("mine").expect("a tag");
        let tag = cloudflare.tags().remove(0);
        let mut extra = extra.clone();
        extra["tags"] = json!(["mine", tag]);
        put(cloudflare, &extra);
    });
    let mut before = stage.applications()[0].fields.clone();
    assert_eq!(stage.run(&[wish("on-call")]), 1);
    assert_eq!(stage.policies(), [["on-call"]]);
    before.insert("session_duration".to_owned(), json!("24h"));
    assert_eq!(stage.applications()[0].fields, before);
}

/// As Terraform does it with one that cannot be changed in place.
#[test]
fn a_policy_that_is_made_anew_under_its_name_is_found() {
    let stage = Stage::protected(&[]);
    stage.cloudflare().edit(|cloudflare| {
        let id = own(cloudflare);
        let [old, on_call] = [0, 1].map(|index| cloudflare.policies()[index].id.clone());
        put(cloudflare, &json!({"policies": [on_call]}));
        assert_eq!(id, own(cloudflare));
        cloudflare.delete_policy(&old).expect("deleted");
        let policy = json!({"name": "staff", "decision": "allow", "include": [{"everyone": {}}]});
        cloudflare.add_policy(&policy).expect("a policy");
    });
    for _ in 0..3 {
        stage.cloudflare().advance_clock(Duration::from_secs(700));
        stage.run(&[wish("staff")]);
    }
    assert_eq!(stage.policies(), [["staff"]]);
}
