//! What an operator reads: each line once, when it is news.

use std::time::Duration;

use cloudflare_emulator::{ConfigSource, Refusal, RuleText, catch_all};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use test_support::harness::{Harness, endpoint, published};
use test_support::process::Process;

/// An operator has to find in the log another program that changes our record back.
#[test]
fn a_write_that_is_undone_every_time_is_named_once_with_what_differs() {
    let harness = Harness::new();
    let (process, external_dns) = Process::start_ready(&harness, &[]);
    let desired = [published("web.example.com", "http://web:80")];
    for _ in 0..6 {
        external_dns.run_loop(&desired).expect("answered");
        harness.cloudflare.edit(|cloudflare| {
            let id = cloudflare.records("example.com")[0].id.clone();
            let fields = serde_json::json!({"proxied": false});
            cloudflare.patch_record("example.com", &id, &fields).expect("Cloudflare takes it");
        });
    }
    let (_, _, said) = process.end_with("TERM");
    let lines: Vec<&String> = said.iter().filter(|line| line.contains("refused=not_kept")).collect();
    assert_eq!(lines.len(), 1, "{said:#?}");
    assert!(lines[0].contains("(record updated, proxied)"), "{lines:?}");
}

/// What is wrong with an endpoint, its properties, and the word that it is refused with.
type Bad<'a> = (&'a str, String, Vec<(&'a str, &'a str)>, &'a str);

#[test]
fn one_bad_endpoint_of_every_kind_is_refused_with_its_word_and_everything_else_goes_on() {
    let harness = Harness::new();
    let local = harness.cloudflare.add_tunnel("local");
    harness.cloudflare.add_tunnel("office");
    let theirs = r#"{"ingress":[{"hostname":"rule.example.com","service":"http://theirs:80"},{"hostname":"cover.example.com","path":"/","service":"http://theirs:80"},{"service":"http_status:503"}]}"#;
    harness.cloudflare.put_configuration(&harness.tunnel, theirs).expect("cloudflared takes it");
    let held = serde_json::json!({"name": "record.example.com", "type": "A", "content": "192.0.2.1"});
    harness.cloudflare.add_record(&harness.zone, held).expect("Cloudflare takes it");
    harness.cloudflare.edit(|cloudflare| {
        cloudflare.put_configuration(&local, &catch_all("http_status:404")).expect("a document");
        cloudflare.tunnel_mut(&local).config_source = ConfigSource::Local;
        cloudflare.whims_mut().dislike_rule(RuleText::Numbered, |rule| rule.service == "http://disliked:80");
        cloudflare.whims_mut().dislike_name(
            "disliked.example.com",
            Refusal::new(400, 9041, "This DNS record cannot be proxied."),
        );
        cloudflare.whims_mut().drops_explicit_defaults = true;
    });
    let tunnels = [("CF_TUNNEL_ID", "home,office,local"), ("EXCLUDE_DOMAIN_FILTER", "out.example.com")];
    let (process, external_dns) = Process::start_ready(&harness, &tunnels);

    let service = ("tunnel-service", "http://web:80");
    let api = ("tunnel-path-prefix", "/api");
    let before = [
        published("kept.example.com", "http://before:80"),
        endpoint("kept.example.com", &[("tunnel-service", "http://before:80"), api]),
        endpoint("broken.example.com", &[("tunnel-service", "http://before:80"), api]),
        endpoint(
            "two-tunnels.example.com",
            &[("tunnel-service", "http://before:80"), ("tunnel", "office"), api],
        ),
    ];
    external_dns.run_loop(&before).expect("published");

    let at = |name: &str| format!("{name}.example.com");
    let bad: Vec<Bad<'_>> = vec![
        ("a service that is none", at("service"), vec![("tunnel-service", "web:80")], "invalid"),
        ("a service with a path", at("slash"), vec![("tunnel-service", "http://web:80/x")], "invalid"),
        ("no service", at("no-service"), vec![("tunnel", "home")], "invalid"),
        ("a path that Go cannot read", at("path"), vec![service, ("tunnel-path", "^/a(?!b)")], "invalid"),
        ("a prefix without a slash", at("prefix"), vec![service, ("tunnel-path-prefix", "api")], "invalid"),
        ("both kinds of path", at("both"), vec![service, api, ("tunnel-path", "^/x")], "invalid"),
        ("an unknown tunnel", at("tunnel"), vec![service, ("tunnel", "nowhere")], "invalid"),
        ("a misspelled property", at("misspelled"), vec![service, ("tunnel-pth", "^/x")], "invalid"),
        ("half of Access", at("access"), vec![service, ("access-required", "true")], "invalid"),
        ("an unknown word of Access", at("word"), vec![service, ("access-rule", "x")], "invalid"),
        ("a policy without Access", at("policy"), vec![service, ("access-policy", "x")], "access_unknown"),
        (
            "rules for a proxy that are none",
            at("ip-rules"),
            vec![service, ("origin-ip-rules", "all")],
            "invalid",
        ),
        ("an option that is none", at("odd"), vec![service, ("origin-connect-timeout", "500ms")], "invalid"),
        ("an option where there is no rule", at("none"), vec![("tunnel-service", "none"), api], "invalid"),
        ("a label of 64 bytes", at(&"l".repeat(64)), vec![service], "invalid"),
        ("a wildcard in the middle", "a.*.example.com".to_owned(), vec![service], "invalid"),
        ("a port", "port.example.com:443".to_owned(), vec![service], "invalid"),
        ("a blank", "two words.example.com".to_owned(), vec![service], "invalid"),
        ("a name in no zone", "web.example.net".to_owned(), vec![service], "no_zone"),
        ("a name outside the filter", at("web.out"), vec![service], "outside_filter"),
        ("a record of theirs", at("record"), vec![service], "record_held"),
        ("a rule of theirs", at("rule"), vec![service], "rule_held"),
        (
            "a rule of theirs that covers ours and is covered by it",
            at("cover"),
            vec![service],
            "rule_conflict",
        ),
        ("a second tunnel", at("two-tunnels"), vec![service, ("tunnel", "home")], "two_tunnels"),
        ("a local tunnel", at("local"), vec![service, ("tunnel", "local")], "local_tunnel"),
        (
            "a rule that Cloudflare dislikes",
            at("rule-disliked"),
            vec![("tunnel-service", "http://disliked:80")],
            { "cloudflare" },
        ),
        ("a record that Cloudflare dislikes", at("disliked"), vec![service], "cloudflare"),
        ("an option that Cloudflare drops", at("drops"), vec![service, ("origin-no-tls-verify", "false")], {
            "not_kept"
        }),
        ("a path that broke", at("broken"), vec![service, ("tunnel-path-prefix", "api")], "withheld"),
    ];
    let good: Vec<Endpoint> =
        (0..10).map(|number| published(&format!("good{number}.example.com"), "http://good:80")).collect();
    let two_tunnels = before[3].clone();
    let mut desired: Vec<Endpoint> = bad.iter().map(|(_, name, all, _)| endpoint(name, all)).collect();
    desired.extend(before[..2].iter().chain(&good).cloned().chain([two_tunnels]));
    // What Cloudflare drops is written twice more.
    for _ in 0..4 {
        external_dns.run_loop(&desired).expect("refused by name");
    }

    let (_, _, said) = process.end_with("TERM");
    for (label, name, _, word) in &bad {
        let refused = |line: &&String| {
            line.contains(&format!("hostname={name:?} "))
                && line.ends_with(&format!("resource=\"ingress/shop/web\" refused={word}"))
        };
        let lines = said.iter().filter(refused).count();
        assert_eq!(lines, 1, "{label}: {name} refused={word} is said once in {said:#?}");
    }
    for endpoint in &good {
        assert_eq!(harness.service_at(&endpoint.dns_name, "/"), "http://good:80", "{}", endpoint.dns_name);
    }
    for (host, path, service) in [
        ("drops.example.com", "/", "http://web:80"),
        ("kept.example.com", "/", "http://before:80"),
        ("kept.example.com", "/api", "http://before:80"),
        ("broken.example.com", "/api", "http://before:80"),
        ("two-tunnels.example.com", "/api", "http://before:80"),
    ] {
        assert_eq!(harness.service_at(host, path), service, "{host}{path}");
    }
    // Two good ones of before with three rules, one of them at the office, ten new ones, and the one that drops an
    // option.
    let ours =
        harness.rules().into_iter().filter(|rule| !rule.contains("theirs") && rule.contains("hostname"));
    assert_eq!(ours.count(), 3 + 10 + 1, "{:#?}", harness.rules());
}

/// A changed --fqdn-template. ExternalDNS asks for it in every loop, also of a program that was started afresh.
#[test]
fn a_mass_deletion_is_one_line_and_answered_503_in_every_loop_until_it_is_wanted_again() {
    let harness = Harness::new();
    let named = |template: &str| -> Vec<Endpoint> {
        (0..9)
            .map(|number| published(&format!("h{number}.{template}.example.com"), "http://web:80"))
            .collect()
    };
    let (process, external_dns) = Process::start_ready(&harness, &[]);
    external_dns.run_loop(&named("old")).expect("published");
    harness.cloudflare.advance_clock(Duration::from_secs(60));
    let mut processes = vec![(process, external_dns)];
    for _ in 0..2 {
        let (_, external_dns) = processes.last().expect("one runs");
        for _ in 0..3 {
            assert_eq!(external_dns.run_loop(&named("new")), Err(503));
            assert_eq!(harness.cnames().len(), 18, "all that is asked for besides is done");
        }
        let (process, _) = processes.pop().expect("one runs");
        let (_, _, said) = process.end_with("TERM");
        let lines: Vec<&String> = said.iter().filter(|line| line.contains("mass_deletion")).collect();
        let [line] = &lines[..] else { panic!("{said:#?}") };
        for part in [
            " 9 hostnames: too many hostnames would be deleted at once, so they stay: ",
            " hostnames=9 names=\"h0.old.example.com, ",
            "h7.old.example.com and 1 more\" refused=mass_deletion",
        ] {
            assert!(line.contains(part), "{line}");
        }
        processes.push(Process::start_ready(&harness, &[]));
    }
    let (_, external_dns) = processes.last().expect("one runs");
    let both = [named("old"), named("new")].concat();
    external_dns.run_loop(&both).expect("wanted again");
    external_dns.run_loop(&named("old")).expect("the new ones may go: as many older ones stay");
    assert_eq!(harness.cnames().len(), 9);
}

/// In between ExternalDNS had nothing to ask for, and so said nothing.
#[test]
fn what_comes_back_after_it_was_gone_is_told_again() {
    let harness = Harness::new();
    let held = serde_json::json!({"name": "held.example.com", "type": "A", "content": "192.0.2.1"});
    harness.cloudflare.add_record(&harness.zone, held).expect("Cloudflare takes it");
    let refused = published("held.example.com", "http://web:80");
    let new = published("new.example.com", "http://web:80");
    let dry = [("DRY_RUN", "true")];
    for (label, variables, asked, between, line) in [
        ("a refusal", &[][..], &refused, &[][..], "refused=record_held"),
        ("a dry run", &dry[..], &new, &[], "without DRY_RUN: record created"),
        (
            "a dry run of nothing",
            &dry[..],
            &new,
            std::slice::from_ref(&refused),
            "without DRY_RUN: record created",
        ),
    ] {
        let (process, external_dns) = Process::start_ready(&harness, variables);
        for desired in [std::slice::from_ref(asked), between, std::slice::from_ref(asked)] {
            for _ in 0..3 {
                external_dns.run_loop(desired).expect("answered");
            }
        }
        let (_, _, said) = process.end_with("TERM");
        let lines = said.iter().filter(|said| said.contains(line)).count();
        assert_eq!(lines, 2, "{label}: {said:#?}");
    }
}

/// The author of the object looks for the object in the log, not for the hostname.
#[test]
fn a_warning_about_an_endpoint_names_its_object() {
    let harness = Harness::new();
    let (process, external_dns) = Process::start_ready(&harness, &[]);
    let service = ("tunnel-service", "http://web:80");
    let mut desired = vec![
        endpoint("odd.example.com", &[service]),
        endpoint("odd.example.com", &[("tunnel-service", "http://other:80")]),
        endpoint("a.deep.example.com", &[service]),
    ];
    for (number, endpoint) in desired.iter_mut().enumerate() {
        endpoint.labels.set("resource", &format!("ingress/shop/web{number}"));
    }
    external_dns.run_loop(&desired).expect("published");
    let (_, _, said) = process.end_with("TERM");
    for (name, number, text) in [
        ("odd", 1, "the rule without a path is not published: ingress/shop/web0 has this hostname"),
        ("a.deep", 2, "in a zone with full setup Universal SSL"),
    ] {
        let begin = format!(" \"{name}.example.com\": {text}");
        let end = format!(" hostname=\"{name}.example.com\" resource=\"ingress/shop/web{number}\"");
        let is_it = |line: &&String| line.contains(&begin) && line.ends_with(&end);
        assert_eq!(said.iter().filter(is_it).count(), 1, "{begin} in {said:#?}");
    }
}
