//! What was taken over and turns out not to be ours is given back, never deleted.

use std::sync::Arc;
use std::time::Duration;

use cloudflare_emulator::{Fault, Matcher, RuleText};
use serde_json::json;
use test_support::harness::{Harness, published};

use crate::simulation::SharedTime;

const NAME: &str = "a.example.com";
const THEIRS: &str = r#"{"ingress":[{"hostname":"a.example.com","service":"http://theirs:80"},{"service":"http_status:503"}]}"#;

/// Kind, content and comment of the hostname's records.
fn records(harness: &Harness) -> Vec<(String, String, String)> {
    let records = harness.cloudflare.records(&harness.zone).into_iter().filter(|record| record.name == NAME);
    records.map(|record| (record.kind, record.content, record.comment.unwrap_or_default())).collect()
}

/// The digest was stamped once and its rule refused; that stamp is long gone when somebody makes both by hand.
#[test]
fn a_rule_that_was_refused_once_costs_nobody_the_record_that_is_taken_over_later() {
    let harness = Harness::new();
    harness.cloudflare.edit(|cloudflare| {
        cloudflare.whims_mut().dislike_rule(RuleText::Numbered, |rule| rule.service == "http://refused:80");
    });
    let program = harness.start_with(&[("ADOPT", "tunnel")]);
    let external_dns = program.external_dns();
    external_dns.run_loop(&[published(NAME, "http://refused:80")]).expect("refused by name");
    assert_eq!(records(&harness).len(), 1, "stamped");
    external_dns.run_loop(&[]).expect("withdrawn");
    assert_eq!(records(&harness), []);

    let target = format!("{}.cfargotunnel.com", harness.tunnel);
    let record = json!({"name": NAME, "type": "CNAME", "content": target, "proxied": true});
    harness.cloudflare.add_record(&harness.zone, record).expect("Cloudflare takes it");
    harness.cloudflare.put_configuration(&harness.tunnel, THEIRS).expect("cloudflared takes it");
    external_dns.run_loop(&[published(NAME, "http://web:80")]).expect("taken over");
    let [(_, content, comment)] = &records(&harness)[..] else { panic!("{:?}", records(&harness)) };
    assert_eq!(*content, target);
    assert!(comment.starts_with("external-dns owner=default "), "{comment}");
    assert!(harness.rules().concat().contains("http://web:80"), "{:?}", harness.rules());
}

/// Somebody takes the rule's place between the stamp and the rule.
#[test]
fn a_record_that_was_taken_over_is_never_deleted_where_its_rule_turns_out_to_be_foreign() {
    let harness = Harness::new();
    let tunnel = format!("{}.cfargotunnel.com", harness.tunnel);
    for (kind, content) in [("CNAME", &*tunnel), ("CNAME", "elsewhere.test"), ("A", "192.0.2.1")] {
        let harness = Harness::new();
        let content = content.replace(&tunnel, &format!("{}.cfargotunnel.com", harness.tunnel));
        let record =
            json!({"name": NAME, "type": kind, "content": content, "proxied": true, "comment": "Jo's"});
        harness.cloudflare.add_record(&harness.zone, record).expect("Cloudflare takes it");
        let program = harness.start_with(&[("ADOPT", "all")]);
        // One for what is shown, one for the plan, one for the rule.
        harness.cloudflare.edit_before(Matcher::get_configuration(), 3, |cloudflare| {
            cloudflare.put_configuration("home", THEIRS).expect("cloudflared takes it");
        });
        program.external_dns().run_loop(&[published(NAME, "http://web:80")]).expect("refused by name");
        let found = records(&harness);
        let [(_, _, comment)] = &found[..] else { panic!("{kind} {content}: {found:?}") };
        assert_eq!(comment, "Jo's", "{kind} {content}");
        assert!(harness.rules().concat().contains("http://theirs:80"), "{:?}", harness.rules());
    }
}

/// Forgotten, it would pass for ours by the stamp that could not be taken back.
#[test]
fn a_foreign_rule_stays_somebody_elses_while_a_rate_limit_keeps_its_stamp() {
    let harness = Harness::new();
    harness.cloudflare.stop_clock();
    let clock = Arc::new(SharedTime::of(harness.cloudflare.time()));
    let program = harness.start_by(clock, &[]);
    program.wait_until_ready();
    // One for what is shown, one for the plan, one for the rule.
    harness.cloudflare.edit_before(Matcher::get_configuration(), 3, |cloudflare| {
        cloudflare.put_configuration("home", THEIRS).expect("cloudflared takes it");
    });
    // The first one stamps.
    harness.cloudflare.fault(Matcher::batch(), 2, Fault::limited(60));
    let external_dns = program.external_dns();
    assert_eq!(external_dns.run_loop(&[published(NAME, "http://web:80")]).err(), Some(503));
    assert_eq!(harness.cloudflare.waiting_faults(), 0);

    harness.cloudflare.advance_clock(Duration::from_secs(61));
    external_dns.run_loop(&[]).expect("withdrawn");
    assert_eq!(records(&harness), []);
    assert!(harness.rules().concat().contains("http://theirs:80"), "{:?}", harness.rules());
}
