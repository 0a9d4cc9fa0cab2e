//! A record or a rule that Cloudflare rejects stops no other, and is not tried again until something has changed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cloudflare_emulator::{Fault, Matcher, Refusal, RuleText};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use test_support::clock::ManualClock;
use test_support::harness::published;

use super::{assert_costs_nothing, names, ruled, stamped, twenty, without};
use crate::shared_account::{SharedAccount, settle};

#[test]
fn a_record_that_cloudflare_refuses_stops_no_other() {
    let refusals = [
        ("a code of its own", Refusal::new(400, 9041, "This DNS record cannot be proxied.")),
        ("a cause in the chain", Refusal::dns_validation(9003, "Invalid content.")),
    ];
    for (label, refusal) in refusals {
        for disliked in [&["h0.example.com"][..], &["h7.example.com"], &["h19.example.com", "h3.example.com"]]
        {
            let account = SharedAccount::new();
            account.cloudflare().edit(|cloudflare| {
                disliked.iter().for_each(|name| cloudflare.whims_mut().dislike_name(name, refusal.clone()));
            });
            account.watch();
            let program = account.harness.start();
            let external_dns = program.external_dns();
            external_dns.run_loop(&twenty()).expect("the rest is done");
            let rest = without(&names(&twenty()), disliked);
            assert_eq!((stamped(&account), ruled(&account)), (rest.clone(), rest), "{label}");
            assert_costs_nothing(external_dns, account.cloudflare(), &twenty(), label);
            assert_eq!(account.violations(), [""; 0], "{label}");

            account.cloudflare().edit(|cloudflare| cloudflare.whims_mut().like_all());
            assert_costs_nothing(
                external_dns,
                account.cloudflare(),
                &twenty(),
                "it is tried again only after a while",
            );
            let program = program.restart(&account.harness);
            program.external_dns().run_loop(&twenty()).expect("a new process tries again");
            assert_eq!(ruled(&account), names(&twenty()), "{label}");
        }
    }
}

#[test]
fn a_rule_that_cloudflare_refuses_stops_no_other() {
    for (label, text) in [
        ("named by its number", RuleText::Numbered),
        ("named by its service", RuleText::ByService),
        ("not named", RuleText::Unnamed),
    ] {
        for disliked in [&["h0.example.com"][..], &["h7.example.com"], &["h19.example.com", "h3.example.com"]]
        {
            let account = SharedAccount::new();
            dislike_rules(&account, disliked, text);
            account.watch();
            let program = account.harness.start();
            let external_dns = program.external_dns();
            external_dns.run_loop(&twenty()).expect("the rest is done");
            let rest = without(&names(&twenty()), disliked);
            assert_eq!(ruled(&account), rest, "{label}");
            assert!(stamped(&account).is_superset(&rest), "{label}");
            assert_costs_nothing(external_dns, account.cloudflare(), &twenty(), label);
            assert_eq!(account.violations(), [""; 0], "{label}");

            // What was refused is known by its content: another service is another rule.
            account.cloudflare().edit(|cloudflare| cloudflare.whims_mut().like_all());
            let mut changed = twenty();
            for endpoint in &mut changed {
                if disliked.contains(&&*endpoint.dns_name) {
                    *endpoint = published(&endpoint.dns_name, "http://web2:80");
                }
            }
            external_dns.run_loop(&changed).expect("it changed, so it is tried again");
            assert_eq!(ruled(&account), names(&twenty()), "{label}");
        }
    }
}

fn dislike_rules(account: &SharedAccount, disliked: &[&str], text: RuleText) {
    let disliked: Vec<String> = disliked.iter().map(ToString::to_string).collect();
    account.cloudflare().edit(|cloudflare| {
        cloudflare.whims_mut().dislike_rule(text, move |rule| disliked.contains(&rule.hostname));
    });
}

/// Each record is created before its rule. One of them is deleted by hand before the webhook deletes both in one batch.
#[test]
fn a_record_that_is_gone_keeps_no_other_record_without_its_rule() {
    let account = SharedAccount::new();
    let disliked = ["h0.example.com", "h1.example.com"];
    dislike_rules(&account, &disliked, RuleText::Unnamed);
    let zone = account.harness.zone.clone();
    account.cloudflare().edit_before(Matcher::batch(), 2, move |cloudflare| {
        let gone = cloudflare.records(&zone).iter().find(|record| record.name == disliked[0]);
        let id = gone.expect("the record was created").id.clone();
        cloudflare.delete_record(&zone, &id).expect("it can be deleted");
    });
    let program = account.harness.start();
    program.external_dns().run_loop(&twenty()[..2]).expect("refused by name");
    assert_eq!(account.cloudflare().waiting_faults(), 0);
    assert_eq!(stamped(&account), names(&[]));
}

#[test]
fn a_refused_change_of_a_rule_keeps_the_old_one_and_stops_no_other() {
    let account = SharedAccount::new();
    let program = account.harness.start_with(&[("MASS_DELETION_LIMIT", "0")]);
    let external_dns = program.external_dns();
    external_dns.run_loop(&twenty()).expect("published");
    account.cloudflare().edit(|cloudflare| {
        let test = |rule: &cloudflare_emulator::ingress::Rule| {
            rule.hostname == "h7.example.com" && rule.service == "http://web2:80"
        };
        cloudflare.whims_mut().dislike_rule(RuleText::Unnamed, test);
    });
    // One goes, one comes, all others change.
    let mut changed: Vec<Endpoint> =
        (0..19).map(|number| published(&format!("h{number}.example.com"), "http://web2:80")).collect();
    changed.push(published("h20.example.com", "http://web2:80"));
    external_dns.run_loop(&changed).expect("the rest is done");
    assert_eq!(ruled(&account), names(&changed));
    assert_eq!(stamped(&account), names(&changed));
    let old: Vec<String> =
        account.harness.rules().into_iter().filter(|rule| rule.contains("http://web:80")).collect();
    assert_eq!(old, [r#"{"hostname":"h7.example.com","service":"http://web:80"}"#]);
    assert_costs_nothing(external_dns, account.cloudflare(), &changed, "the change was refused");
    external_dns.run_loop(&[]).expect("withdrawn");
    assert_eq!((ruled(&account), stamped(&account)), (BTreeSet::new(), BTreeSet::new()));
}

/// The digest has to stay as long as the rule, also in the loops that do not try again.
#[test]
fn a_rule_whose_withdrawal_is_refused_stays_ours() {
    for text in [RuleText::Numbered, RuleText::Unnamed] {
        let account = SharedAccount::new();
        let program = account.harness.start();
        let external_dns = program.external_dns();
        external_dns.run_loop(&twenty()).expect("published");
        dislike_rules(&account, &["hand.example.com"], text);
        account.watch();
        for _ in 0..3 {
            external_dns.run_loop(&twenty()[..19]).expect("answered");
            assert_eq!(ruled(&account), stamped(&account));
        }
        assert_eq!(ruled(&account), names(&twenty()));
        assert_eq!(account.violations(), [""; 0]);
    }
}

#[test]
fn what_does_not_fit_into_a_full_zone_costs_no_write_and_is_tried_again_after_a_restart() {
    let account = SharedAccount::new();
    let fit = 7;
    let id = account.cloudflare().edit(|cloudflare| {
        let present = cloudflare.records(&account.harness.zone).len();
        cloudflare.zone_mut(&account.harness.zone).record_quota = present + fit;
        let spare = cloudflare.records(&account.harness.zone).iter().find(|record| record.kind == "TXT");
        spare.expect("a record of theirs").id.clone()
    });
    let mut desired: Vec<Endpoint> =
        (0..80).map(|number| published(&format!("h{number}.example.com"), "http://web:80")).collect();
    desired.push(published("web.example.org", "http://web:80"));
    let program = account.harness.start();
    let external_dns = program.external_dns();
    external_dns.run_loop(&desired).expect("the rest is done");
    assert_eq!(stamped(&account).len(), fit + 1, "as many as fit, and the other zone's");
    let told =
        account.harness.log.lines_with(&["refused=cloudflare", "81045", ": delete records of the zone"]);
    assert!(!told.is_empty(), "the line says what to do");
    assert_eq!(ruled(&account), stamped(&account));
    assert_costs_nothing(external_dns, account.cloudflare(), &desired, "the zone is full");

    account.cloudflare().edit(|cloudflare| {
        cloudflare.delete_record(&account.harness.zone, &id).expect("it is there");
    });
    drop(program);
    let program = account.harness.start();
    let external_dns = program.external_dns();
    external_dns.run_loop(&desired).expect("one more fits");
    assert_eq!(stamped(&account).len(), fit + 2);
    assert_eq!(ruled(&account), stamped(&account));
    assert_costs_nothing(external_dns, account.cloudflare(), &desired, "the zone is full again");
}

/// Each of them counted as refused alone, and so was sent alone once the pause was over.
#[test]
fn what_was_not_sent_to_a_full_zone_is_sent_together_once_there_is_room() {
    let account = SharedAccount::new();
    let quota = |more: usize| {
        account.cloudflare().edit(|cloudflare| {
            let present = cloudflare.records(&account.harness.zone).len();
            cloudflare.zone_mut(&account.harness.zone).record_quota = present + more;
        });
    };
    quota(0);
    let desired: Vec<Endpoint> =
        (0..80).map(|number| published(&format!("h{number}.example.com"), "http://web:80")).collect();
    let clock = Arc::new(ManualClock::default());
    let program = account.harness.start_by(Arc::clone(&clock) as _, &[]);
    program.wait_until_ready();
    program.external_dns().run_loop(&desired).expect("the zone is full");
    quota(1_000);
    clock.put_ahead(Duration::from_secs(700));
    account.cloudflare().take_calls();
    program.external_dns().run_loop(&desired).expect("there is room");
    assert_eq!(stamped(&account), names(&desired));
    let writes = account.cloudflare().count_calls().writes;
    assert!(writes <= 4, "{writes} writes");
}

/// A token may edit the records of some of the zones that it reads.
#[test]
fn a_zone_that_may_not_be_written_stops_no_other() {
    let account = SharedAccount::new();
    let program = account.harness.start();
    for zone in [&account.harness.zone, &account.organisation] {
        let batch = Matcher::call("POST", &format!("/zones/{zone}/dns_records/batch"));
        account.cloudflare().fault_every(batch, Fault::error(403, 10000, "Authentication error"));
        let desired = ["a.example.com", "a.example.org"].map(|name| published(name, "http://web:80"));
        let just = |name: &str| BTreeSet::from([name.to_owned()]);
        let allowed = if *zone == account.harness.zone { "a.example.org" } else { "a.example.com" };
        let outcome = program.external_dns().run_loop(&desired);
        assert_eq!(outcome.err(), Some(503), "the rest is done, and ExternalDNS asks again");
        assert_eq!((ruled(&account), stamped(&account)), (just(allowed), just(allowed)));
        account.cloudflare().clear_faults();
        settle(program.external_dns(), account.cloudflare(), &desired)
            .expect("permitted, it is done at once");
        settle(program.external_dns(), account.cloudflare(), &[]).expect("withdrawn");
    }
}

/// docs/protocol.md: nothing that grows is sent to a full zone, so what does not grow waits for none of it.
#[test]
fn records_that_a_full_zone_has_already_are_updated_in_one_loop_beside_new_ones() {
    let account = SharedAccount::new();
    let name = |number: usize, end: &str| format!("h{number:03}{end}.example.com");
    let program = account.harness.start();
    let external_dns = program.external_dns();
    let mut desired: Vec<Endpoint> =
        (0..60).map(|number| published(&name(number, "a"), "http://web:80")).collect();
    external_dns.run_loop(&desired).expect("published");
    account.cloudflare().edit(|cloudflare| {
        let present = cloudflare.records(&account.harness.zone).len();
        cloudflare.zone_mut(&account.harness.zone).record_quota = present;
    });
    let path = [("tunnel-service", "http://web:80"), ("tunnel-path-prefix", "/p")];
    desired.extend((0..60).map(|number| test_support::harness::endpoint(&name(number, "a"), &path)));
    desired.extend((0..60).map(|number| published(&name(number, "b"), "http://web:80")));
    account.cloudflare().take_calls();
    let outcome = external_dns.run_loop(&desired).map(drop);
    let writes = account.cloudflare().count_calls().writes;
    let paths = account.harness.rules().iter().filter(|rule| rule.contains("^/p")).count();
    let blamed = account.harness.log.lines_with(&["the search for rejected hostnames"]).len();
    assert_eq!((outcome, paths, blamed), (Ok(()), 60, 0), "{writes} writes");
}
