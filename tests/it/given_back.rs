//! What was taken over and turns out not to be ours is given back, never deleted.

use cloudflare_emulator::{Matcher, RuleText};
use serde_json::json;
use test_support::harness::{Scene, published};

const NAME: &str = "a.example.com";
const THEIRS: &str = r#"{"ingress":[{"hostname":"a.example.com","service":"http://theirs:80"},{"service":"http_status:503"}]}"#;

/// Kind, content and comment of the hostname's records.
fn records(scene: &Scene) -> Vec<(String, String, String)> {
    let records = scene.cloudflare.records(&scene.zone).into_iter().filter(|record| record.name == NAME);
    records.map(|record| (record.kind, record.content, record.comment.unwrap_or_default())).collect()
}

/// The digest was stamped once and its rule refused; that stamp is long gone when somebody makes both by hand.
#[test]
fn a_rule_that_was_refused_once_costs_nobody_the_record_that_is_taken_over_later() {
    let scene = Scene::new();
    scene.cloudflare.edit(|cloudflare| {
        cloudflare.whims_mut().dislike_rule(RuleText::Numbered, |rule| rule.service == "http://refused:80");
    });
    let program = scene.start_with(&[("ADOPT", "tunnel")]);
    let external_dns = program.external_dns();
    external_dns.run_loop(&[published(NAME, "http://refused:80")]).expect("refused by name");
    assert_eq!(records(&scene).len(), 1, "stamped");
    external_dns.run_loop(&[]).expect("withdrawn");
    assert_eq!(records(&scene), []);

    let target = format!("{}.cfargotunnel.com", scene.tunnel);
    let record = json!({"name": NAME, "type": "CNAME", "content": target, "proxied": true});
    scene.cloudflare.add_record(&scene.zone, record).expect("Cloudflare takes it");
    scene.cloudflare.put_configuration(&scene.tunnel, THEIRS).expect("cloudflared takes it");
    external_dns.run_loop(&[published(NAME, "http://web:80")]).expect("taken over");
    let [(_, content, comment)] = &records(&scene)[..] else { panic!("{:?}", records(&scene)) };
    assert_eq!(*content, target);
    assert!(comment.starts_with("external-dns owner=default "), "{comment}");
    assert!(scene.rules().concat().contains("http://web:80"), "{:?}", scene.rules());
}

/// Somebody takes the rule's place between the stamp and the rule.
#[test]
fn a_record_that_was_taken_over_is_never_deleted_where_its_rule_turns_out_to_be_foreign() {
    let scene = Scene::new();
    let tunnel = format!("{}.cfargotunnel.com", scene.tunnel);
    for (kind, content) in [("CNAME", &*tunnel), ("CNAME", "elsewhere.test"), ("A", "192.0.2.1")] {
        let scene = Scene::new();
        let content = content.replace(&tunnel, &format!("{}.cfargotunnel.com", scene.tunnel));
        let record =
            json!({"name": NAME, "type": kind, "content": content, "proxied": true, "comment": "Jo's"});
        scene.cloudflare.add_record(&scene.zone, record).expect("Cloudflare takes it");
        let program = scene.start_with(&[("ADOPT", "all")]);
        // One for what is shown, one for the plan, one for the rule.
        scene.cloudflare.edit_before(Matcher::get_configuration(), 3, |cloudflare| {
            cloudflare.put_configuration("home", THEIRS).expect("cloudflared takes it");
        });
        program.external_dns().run_loop(&[published(NAME, "http://web:80")]).expect("refused by name");
        let found = records(&scene);
        let [(_, _, comment)] = &found[..] else { panic!("{kind} {content}: {found:?}") };
        assert_eq!(comment, "Jo's", "{kind} {content}");
        assert!(scene.rules().concat().contains("http://theirs:80"), "{:?}", scene.rules());
    }
}
