//! What is changed by hand of ours is shown to ExternalDNS and mended, once.

use cloudflare_emulator::{Cloudflare, Token};
use serde_json::json;
use test_support::external_dns::Changes;
use test_support::harness::{Harness, TOKEN, endpoint, published};

use super::{Edit, before, desired, edit_rules, patch};
use crate::shared_account::{SharedAccount, settle};

/// What is done by hand to a hostname at rest, and whether ExternalDNS is shown it.
#[test]
fn every_drift_is_shown_and_mended_in_one_loop() {
    type Drift = fn(&mut Cloudflare);
    fn with_rule(cloudflare: &mut Cloudflare, change: impl Fn(&str) -> String) {
        edit_rules(cloudflare, |rules| {
            for rule in rules.iter_mut().filter(|rule| rule.contains("\"stays.example.com\"")) {
                *rule = change(rule);
            }
        });
    }
    let drifts: [(&str, Drift); 13] = [
        ("another service", |cloudflare| {
            with_rule(cloudflare, |rule| rule.replace("http://stays:80", "http://other:80"))
        }),
        ("another option", |cloudflare| {
            with_rule(cloudflare, |rule| rule.replace("\"noTLSVerify\":true", "\"noTLSVerify\":false"))
        }),
        ("one option more", |cloudflare| {
            with_rule(cloudflare, |rule| {
                rule.replace("\"noTLSVerify\":true", "\"noTLSVerify\":true,\"http2Origin\":true")
            })
        }),
        ("no options", |cloudflare| with_rule(cloudflare, |rule| rule.replace("\"noTLSVerify\":true", ""))),
        ("another path", |cloudflare| with_rule(cloudflare, |rule| rule.replace("^/api", "^/other"))),
        ("no rule", |cloudflare| Edit::DeletesOurRule.apply(cloudflare)),
        ("no record", |cloudflare| {
            // Nor one that leads to the rule all the same.
            let mut records = cloudflare.records("example.com").iter();
            let wildcard =
                records.find(|record| record.name == "*.example.com").expect("it is there").id.clone();
            cloudflare.delete_record("example.com", &wildcard).expect("it is there");
            Edit::DeletesOurRecord.apply(cloudflare);
        }),
        ("another target", |cloudflare| patch(cloudflare, &json!({"content": "elsewhere.test"}))),
        ("a tunnel that is no more", |cloudflare| {
            patch(cloudflare, &json!({"content": "00000000-a4ef-4643-bbbc-4a0ed4fc8415.cfargotunnel.com"}));
        }),
        ("another type", |cloudflare| Edit::MakesOurRecordAnAddress.apply(cloudflare)),
        ("not proxied", |cloudflare| Edit::UnproxiesOurRecord.apply(cloudflare)),
        ("a covering rule in front", |cloudflare| Edit::CoversEverything.apply(cloudflare)),
        ("ours behind the catch-all of the host", |cloudflare| {
            edit_rules(cloudflare, |rules| {
                rules.insert(
                    0,
                    r#"{"hostname":"*.example.com","path":".*","service":"http://cover:80"}"#.to_owned(),
                )
            });
        }),
    ];
    for (label, drift) in drifts {
        for path in [&[][..], &[("tunnel-path-prefix", "/api")]] {
            let label = format!("{label}, path {path:?}");
            let account = SharedAccount::new();
            let program = account.harness.start();
            let external_dns = program.external_dns();
            let properties =
                [&[("tunnel-service", "http://stays:80"), ("origin-no-tls-verify", "true")], path].concat();
            let desired =
                [endpoint("stays.example.com", &properties), published("other.example.com", "http://web:80")];
            settle(external_dns, account.cloudflare(), &desired).expect("published");
            let before = account.state();
            account.cloudflare().edit(drift);
            if account.state() == before {
                assert!(label.starts_with("another path") && path.is_empty(), "{label}: nothing was edited");
                continue;
            }
            let changes =
                external_dns.run_loop(&desired).unwrap_or_else(|status| panic!("{label}: {status}"));
            assert_ne!(changes, Changes::default(), "{label}: not shown");
            let mended = account.state();
            settle(external_dns, account.cloudflare(), &desired)
                .unwrap_or_else(|problem| panic!("{label}: {problem}"));
            assert_eq!(account.state(), mended, "{label}: one loop mends it");
            let ours = |state: &str| -> Vec<String> {
                let is_ours = |line: &&str| line.contains("stays") || line.contains("other.example.com");
                state.lines().filter(is_ours).map(str::to_owned).collect()
            };
            let leftover = label.starts_with("another path").then(|| "^/other".to_owned());
            let now: Vec<String> = ours(&mended)
                .into_iter()
                .filter(|line| leftover.as_ref().is_none_or(|mark| !line.contains(mark)))
                .collect();
            assert_eq!(now, ours(&before), "{label}");
        }
    }
}

/// Only the word `none` opens what is protected.
#[test]
fn a_login_that_is_added_to_a_rule_by_hand_stays_and_is_told() {
    let account = SharedAccount::holding(|cloudflare| {
        cloudflare.set_up_access("my-team");
        cloudflare.edit(|cloudflare| *cloudflare.token_mut(TOKEN) = Token::with_access(TOKEN));
    });
    let program = account.harness.start();
    let external_dns = program.external_dns();
    let silent = [endpoint("stays.example.com", &[("tunnel-service", "http://stays:80")])];
    settle(external_dns, account.cloudflare(), &silent).expect("published");
    account.cloudflare().edit(|cloudflare| {
        edit_rules(cloudflare, |rules| {
            for rule in rules.iter_mut().filter(|rule| rule.contains("\"stays.example.com\"")) {
                let access = "\"access\":{\"required\":true,\"teamName\":\"t\",\"audTag\":[\"a\"]}";
                *rule = rule.replace('}', &format!(",\"originRequest\":{{{access}}}}}"));
            }
        });
    });
    let protected = account.state();
    assert!(protected.contains("\"audTag\""), "{protected}");
    for _ in 0..2 {
        assert_eq!(external_dns.run_loop(&silent), Ok(Changes::default()));
    }
    assert_eq!(account.state(), protected);
    let told = ["stays.example.com", "has a login that no object asks for", "webhook-access-policy"];
    assert_eq!(account.harness.log.lines_with(&told).len(), 1, "told once");
    let metrics = program.observe("GET", "/metrics").expect("the observation port answers").body;
    assert!(metrics.contains("cloudflare_tunnel_webhook_unasked_protections 1\n"), "{metrics}");

    let opened =
        [endpoint("stays.example.com", &[("tunnel-service", "http://stays:80"), ("access-policy", "none")])];
    settle(external_dns, account.cloudflare(), &opened).expect("opened");
    assert!(!account.state().contains("\"audTag\""));
    settle(external_dns, account.cloudflare(), &silent).expect("as it was");
}

/// The API may show `originRequest: {}` in every rule that was stored without one.
#[test]
fn an_empty_origin_request_added_by_the_api_is_no_drift() {
    let account = SharedAccount::new();
    account.cloudflare().edit(|cloudflare| cloudflare.whims_mut().adds_empty_origin_request = true);
    let program = account.harness.start();
    let external_dns = program.external_dns();
    for desired in [before(), desired(), Vec::new()] {
        external_dns.run_loop(&desired).expect("published");
        account.cloudflare().take_calls();
        assert_eq!(external_dns.run_loop(&desired), Ok(Changes::default()));
        assert_eq!(account.cloudflare().count_calls().writes, 0);
    }
}

/// An option that says cloudflared's own default may be stored as an absent one. It is written twice more, like any
/// write that is undone by hand.
#[test]
fn a_default_that_the_api_drops_is_not_written_again_in_every_loop() {
    let account = SharedAccount::new();
    account.cloudflare().edit(|cloudflare| cloudflare.whims_mut().drops_explicit_defaults = true);
    let program = account.harness.start();
    let external_dns = program.external_dns();
    let options = [
        ("tunnel-service", "https://web:443"),
        ("origin-no-tls-verify", "false"),
        ("origin-connect-timeout", "30s"),
    ];
    let desired = [endpoint("web.example.com", &options), published("other.example.com", "http://web:80")];
    for _ in 0..3 {
        external_dns.run_loop(&desired).expect("published");
    }
    let stored = account.state();
    let assert_quiet = |label: &str| {
        account.cloudflare().take_calls();
        for _ in 0..3 {
            external_dns.run_loop(&desired).expect("nothing to do");
        }
        let calls = account.cloudflare().count_calls();
        assert_eq!((calls.reads, calls.writes), (3 * 2 * 3, 0), "{label}");
    };
    assert_quiet("stored otherwise");

    // Drift is mended all the same.
    for drift in [
        |rule: &str| rule.replace("https://web:443", "https://drift:443"),
        |rule: &str| {
            format!(r#"{{"hostname":"*.example.com","path":".*","service":"http://cover:80"}},{rule}"#)
        },
    ] {
        account.cloudflare().edit(|cloudflare| {
            edit_rules(cloudflare, |rules| {
                let ours =
                    rules.iter_mut().find(|rule| rule.contains("\"web.example.com\"")).expect("published");
                *ours = drift(ours);
            });
        });
        for _ in 0..3 {
            external_dns.run_loop(&desired).expect("mended");
        }
        let ours = |state: &str| {
            state
                .lines()
                .filter(|line| line.contains("web.example.com"))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(ours(&account.state()), ours(&stored));
        let first = account
            .harness
            .rules()
            .into_iter()
            .find(|rule| rule.contains("web.example.com") || rule.contains("cover"));
        assert!(first.is_some_and(|rule| rule.contains("web.example.com")), "{}", account.state());
        assert_quiet("mended");
    }

    // The rest of the rule is still ours to change.
    let mut changed = desired.clone();
    changed[0].provider_specific[0].value = "https://web2:443".into();
    external_dns.run_loop(&changed).expect("changed");
    assert!(
        account.harness.rules().iter().any(|rule| rule.contains("https://web2:443")),
        "{:?}",
        account.harness.rules()
    );
    external_dns.run_loop(&[]).expect("withdrawn");
    assert!(
        !account.harness.rules().iter().any(|rule| rule.contains("web")),
        "{:?}",
        account.harness.rules()
    );
}

/// The next reading shows no endpoint that it could withdraw, and `list` has its rule as one without a record.
#[test]
fn a_rule_whose_record_is_deleted_while_its_object_goes_stays() {
    let harness = Harness::new();
    let program = harness.start();
    let external_dns = program.external_dns();
    let [goes, stays] =
        ["goes.example.com", "stays.example.com"].map(|name| published(name, "http://web:80"));
    settle(external_dns, &harness.cloudflare, &[goes, stays.clone()]).expect("published");
    let shown = external_dns.records().expect("read");
    let adjusted = external_dns.adjust(std::slice::from_ref(&stays)).expect("adjusted");
    for record in harness.cloudflare.records(&harness.zone) {
        let deleted =
            harness.cloudflare.edit(|cloudflare| cloudflare.delete_record(&harness.zone, &record.id));
        deleted.expect("it is there");
    }
    external_dns.apply(&external_dns.registry.plan(&shown, &adjusted)).expect("there is nothing to delete");
    for _ in 0..3 {
        external_dns.run_loop(std::slice::from_ref(&stays)).expect("the other one comes back");
    }
    assert_eq!((harness.rules().len(), harness.cnames().len()), (3, 1));
}
