//! What cannot be done is refused by name, costs nothing in later loops, and never stops the rest.

mod by_cloudflare;
mod in_company;
mod objects;
mod places;
mod steps;

use std::collections::BTreeSet;

use cloudflare_emulator::{ConfigSource, Emulator, Fault, Matcher, Plan, Unconfigured};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use serde_json::json;
use test_support::external_dns::{Changes, ExternalDns};
use test_support::harness::{Harness, endpoint, endpoint_of, published};

use crate::shared_account::{SharedAccount, settle, stamp};

/// The reads of a loop that asks for refused work, over one tunnel and the zones of [`SharedAccount`]: the tunnel and
/// each zone, for `GET /records` and for the request.
const OWN_READS: usize = 2 * (1 + 2);

fn twenty() -> Vec<Endpoint> {
    (0..20).map(|number| published(&format!("h{number}.example.com"), "http://web:80")).collect()
}

/// The hostnames of our rules.
fn ruled(account: &SharedAccount) -> BTreeSet<String> {
    #[derive(serde::Deserialize)]
    struct Rule {
        hostname: Option<String>,
        service: String,
    }
    let rules = account.harness.rules().into_iter();
    rules
        .map(|rule| serde_json::from_str(&rule).expect("a rule"))
        .filter(|rule: &Rule| rule.service.starts_with("http://web") || rule.service == "http://api:80")
        .filter_map(|rule| rule.hostname)
        .collect()
}

/// The names of our records.
fn stamped(account: &SharedAccount) -> BTreeSet<String> {
    let records = account.cloudflare().records(&account.harness.zone).into_iter();
    let records = records.chain(account.cloudflare().records(&account.organisation));
    records.filter(|record| stamp(record).is_some()).map(|record| record.name).collect()
}

fn names(endpoints: &[Endpoint]) -> BTreeSet<String> {
    endpoints.iter().map(|endpoint| endpoint.dns_name.clone()).collect()
}

fn without(names: &BTreeSet<String>, missing: &[&str]) -> BTreeSet<String> {
    names.iter().filter(|name| !missing.contains(&name.as_str())).cloned().collect()
}

/// Three loops that must cost their own reads and nothing else.
fn assert_costs_nothing(external_dns: ExternalDns, cloudflare: &Emulator, desired: &[Endpoint], label: &str) {
    for _ in 0..3 {
        cloudflare.take_calls();
        assert!(external_dns.run_loop(desired).is_ok(), "{label}");
        let calls = cloudflare.take_calls();
        let lines: Vec<String> = calls.iter().map(|call| call.line()).collect();
        assert_eq!(lines.len(), OWN_READS, "{label}: {lines:#?}");
        assert!(!calls.iter().any(|call| call.is_write()), "{label}: {lines:#?}");
    }
}

#[test]
fn a_name_with_a_foreign_record_or_rule_is_refused_and_stops_no_other() {
    let account = SharedAccount::new();
    let home = format!("{}.cfargotunnel.com", account.harness.tunnel);
    let records = [
        ("a.example.com", "A", "192.0.2.1", ""),
        ("aaaa.example.com", "AAAA", "2001:db8::1", ""),
        ("cname.example.com", "CNAME", "elsewhere.test", ""),
        ("ns.example.com", "NS", "ns.elsewhere.test", ""),
        ("unstamped.example.com", "CNAME", &home, ""),
        ("remarked.example.com", "CNAME", &home, "Jo's"),
        ("stamped.example.com", "CNAME", &home, "external-dns owner=other rules=-"),
        ("beside-mx.example.com", "MX", "mail.elsewhere.test", ""),
        ("beside-txt.example.com", "TXT", "\"x\"", ""),
    ];
    for (name, kind, content, comment) in records {
        let proxied = kind == "CNAME" && comment.starts_with("external");
        let record = json!({"name": name, "type": kind, "content": content, "comment": comment, "proxied": proxied, "priority": 10});
        account.cloudflare().add_record(&account.harness.zone, record).expect("Cloudflare takes it");
    }
    let document = r#"{"ingress":[{"hostname":"rule.example.com","service":"http://theirs:80"},{"hostname":"path.example.com","path":"^/api(/|$)","service":"http://theirs:80"},{"service":"http_status:503"}]}"#;
    account.cloudflare().put_configuration(&account.harness.tunnel, document).expect("cloudflared takes it");
    let records = account.harness.foreign_records();

    let held = ["a", "aaaa", "cname", "ns", "unstamped", "remarked", "stamped", "rule"];
    let free = ["beside-mx", "beside-txt", "free"];
    let mut desired: Vec<Endpoint> = held
        .iter()
        .chain(&free)
        .map(|name| published(&format!("{name}.example.com"), "http://web:80"))
        .collect();
    let api = [("tunnel-service", "http://api:80"), ("tunnel-path-prefix", "/api")];
    desired.push(endpoint("path.example.com", &api));
    let program = account.harness.start();
    let external_dns = program.external_dns();
    external_dns.run_loop(&desired).expect("the rest is done");
    for call in account.cloudflare().take_calls().iter().filter(|call| call.path.ends_with("/batch")) {
        // Not left to Cloudflare, which would refuse them one by one.
        let sent = held.iter().find(|name| call.body.contains(&format!("\"{name}.example.com\"")));
        assert_eq!(sent, None, "{}", call.body);
    }
    external_dns.run_loop(&desired).expect("nothing more to do");
    let expected = free.iter().map(|name| format!("{name}.example.com")).collect();
    assert_eq!(ruled(&account), expected);
    assert_eq!(stamped(&account), expected.into_iter().chain(["stamped.example.com".to_owned()]).collect());
    assert_eq!(account.harness.foreign_records(), records);
    let theirs: Vec<String> =
        account.harness.rules().into_iter().filter(|rule| rule.contains("theirs")).collect();
    assert_eq!(theirs.len(), 2, "{theirs:?}");
    assert_costs_nothing(external_dns, account.cloudflare(), &desired, "held names");

    external_dns.run_loop(&[]).expect("withdrawn");
    assert_eq!(account.harness.rules().len(), 3);
    assert_eq!(account.harness.foreign_records(), records);
}

/// A Worker's record is read-only, so the dashboard's list of records offers no deletion of it.
#[test]
fn a_record_of_a_custom_domain_is_told_with_where_it_is_taken_off() {
    let harness = Harness::new();
    for (name, kind, content, is_read_only) in
        [("worker", "AAAA", "100::", true), ("pages", "CNAME", "site.pages.dev", false)]
    {
        let name = format!("{name}.example.com");
        let record = json!({"name": name, "type": kind, "content": content, "proxied": true, "meta": {"read_only": is_read_only}});
        harness.cloudflare.add_record(&harness.zone, record).expect("Cloudflare takes it");
        harness.start().external_dns().run_loop(&[published(&name, "http://web:80")]).expect("refused");
        let told = harness.log.lines_with(&["refused=record_held", &name]);
        let [line] = &told[..] else { panic!("{told:#?}") };
        assert!(line.contains("remove the custom domain from") && !line.contains("delete it"), "{line}");
        assert_eq!(line.contains("ADOPT=all"), !is_read_only, "{line}");
    }
}

/// Invariant 5 of docs/how-it-works.md.
#[test]
fn a_deletion_beside_an_invalid_endpoint_of_the_hostname_is_withheld() {
    let account = SharedAccount::new();
    let program = account.harness.start();
    let external_dns = program.external_dns();
    let path = |prefix: &str| {
        endpoint("web.example.com", &[("tunnel-service", "http://web:80"), ("tunnel-path-prefix", prefix)])
    };
    external_dns.run_loop(&[path("/a"), path("/b")]).expect("published");
    let before = account.state();

    // "/b" was changed to something that is no path, so its old one is deleted and cannot come back under the new one.
    let desired = [path("/a"), path("b")];
    external_dns.run_loop(&desired).expect("nothing to do");
    assert_eq!(account.state(), before);
    assert_costs_nothing(external_dns, account.cloudflare(), &desired, "withheld");

    external_dns.run_loop(&[path("/a"), path("/c")]).expect("mended");
    let rules: Vec<String> =
        account.harness.rules().into_iter().filter(|rule| rule.contains("web.example.com")).collect();
    assert_eq!(rules.len(), 2, "{rules:?}");
    assert!(
        rules.iter().any(|rule| rule.contains("^/c")) && !rules.iter().any(|rule| rule.contains("^/b")),
        "{rules:?}"
    );
}

#[test]
fn a_name_in_no_zone_or_outside_the_filter_is_refused_and_stops_no_other() {
    type Variables = &'static [(&'static str, &'static str)];
    let all = [
        "example.com",
        "web.example.com",
        "deep.web.example.com",
        "web.example.org",
        "web.example.net",
        "notexample.com",
    ];
    let table: [(&str, Variables, &[&str]); 4] = [
        ("no filter", &[], &["example.com", "web.example.com", "deep.web.example.com", "web.example.org"]),
        (
            "a name in a zone",
            &[("DOMAIN_FILTER", "web.example.com,example.net")],
            &["web.example.com", "deep.web.example.com"],
        ),
        (
            "both",
            &[("DOMAIN_FILTER", "example.com"), ("EXCLUDE_DOMAIN_FILTER", ".web.example.com")],
            &["example.com", "web.example.com"],
        ),
        (
            "both expressions",
            &[("REGEXP_DOMAIN_FILTER", "example\\.com$"), ("REGEXP_DOMAIN_FILTER_EXCLUSION", "^deep\\.")],
            &["example.com", "web.example.com"],
        ),
    ];
    for (label, variables, expected) in table {
        let account = SharedAccount::new();
        let program = account.harness.start_with(variables);
        let desired: Vec<Endpoint> = all.iter().map(|name| published(name, "http://web:80")).collect();
        // As an ExternalDNS that does not filter by itself.
        program.external_dns().run_loop(&desired).unwrap_or_else(|status| panic!("{label}: {status}"));
        let expected: BTreeSet<String> = expected.iter().map(ToString::to_string).collect();
        assert_eq!((stamped(&account), ruled(&account)), (expected.clone(), expected), "{label}");
        account.cloudflare().take_calls();
        program.external_dns().run_loop(&desired).expect("nothing to do");
        let calls = account.cloudflare().count_calls();
        assert_eq!(calls.writes, 0, "{label}");
        assert!(calls.reads <= OWN_READS, "{label}: {calls:?}");
        // What is outside now was inside before: it stays.
        let outside = account.harness.start_with(&[("DOMAIN_FILTER", "example.net")]);
        let before = account.state();
        outside.external_dns().run_loop(&[]).expect("nothing is shown");
        let deletion =
            Changes { delete: program.external_dns().records().expect("shown"), ..Changes::default() };
        outside.external_dns().apply(&deletion).expect("refused by name");
        assert_eq!(account.state(), before, "{label}");
    }
}

/// Another ExternalDNS, or one with another `--txt-owner-id`: a write would put our owner on what belongs to the other
/// owner.
#[test]
fn a_request_of_another_owner_is_answered_500_and_writes_nothing() {
    let account = SharedAccount::new();
    let program = account.harness.start();
    let external_dns = program.external_dns();
    external_dns.run_loop(&[published("mine.example.com", "http://web:80")]).expect("published");
    let before = account.state();
    let adjusted = external_dns.adjust(&[published("web.example.com", "http://web:80")]).expect("adjusted");
    let current = external_dns.records().expect("shown");
    let owned = |endpoints: &[Endpoint], owner: &str| -> Vec<Endpoint> {
        let mut endpoints = endpoints.to_vec();
        endpoints.iter_mut().for_each(|endpoint| endpoint.labels.set("owner", owner));
        endpoints
    };
    let (create, delete) = (owned(&adjusted, "default"), owned(&current, "default"));
    for (label, changes) in [
        ("create", Changes { create: owned(&adjusted, "other"), ..Changes::default() }),
        ("delete", Changes { delete: owned(&current, "other"), ..Changes::default() }),
        (
            "delete beside creations of ours",
            Changes { create, delete: owned(&current, "other"), ..Changes::default() },
        ),
        (
            "update",
            Changes { update_old: delete, update_new: owned(&current, "other"), ..Changes::default() },
        ),
    ] {
        account.cloudflare().take_calls();
        assert_eq!(external_dns.apply(&changes), Err(500), "{label}");
        assert_eq!(account.cloudflare().count_calls().writes, 0, "{label}");
        assert_eq!(account.state(), before, "{label}");
    }
}

#[test]
fn a_tunnel_with_a_configuration_file_is_not_written_unless_that_is_allowed() {
    let harness = Harness::new();
    harness.cloudflare.edit(|cloudflare| {
        cloudflare
            .put_configuration(&harness.tunnel, &cloudflare_emulator::catch_all("http_status:404"))
            .expect("a document");
        cloudflare.tunnel_mut(&harness.tunnel).config_source = ConfigSource::Local;
    });
    let desired = [
        published("web.example.com", "http://web:80"),
        endpoint("only.example.com", &[("tunnel-service", "none")]),
    ];
    let program = harness.start();
    program.external_dns().run_loop(&desired).expect("refused by name");
    assert_eq!(harness.rules(), [r#"{"service":"http_status:404"}"#]);
    let names: Vec<String> = harness.cnames().into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names, ["only.example.com"], "a record alone writes nothing to the tunnel");
    harness.cloudflare.take_calls();
    program.external_dns().run_loop(&desired).expect("nothing to do");
    assert_eq!((harness.cloudflare.count_calls().reads, harness.cloudflare.count_calls().writes), (4, 0));
    drop(program);

    let told =
        || harness.log.lines_with(&["WARN", "a file beside its", "the webhook does not write to it"]).len();
    assert_eq!(told(), 1);
    let program = harness.start_with(&[("ALLOW_LOCAL_CONFIG", "true")]);
    program.external_dns().run_loop(&desired).expect("published");
    assert_eq!(harness.rules().len(), 2);
    assert_eq!(harness.cnames().len(), 2);
    assert_eq!(told(), 1);
}

/// The list of tunnels may say otherwise.
#[test]
fn a_tunnel_whose_configuration_says_that_cloudflare_has_it_is_written_and_not_told_of() {
    let harness = Harness::new();
    harness.cloudflare.edit(|cloudflare| {
        cloudflare.tunnel_mut(&harness.tunnel).config_source = ConfigSource::Local;
    });
    let configuration =
        r#"{"version":0,"config":{"ingress":[{"service":"http_status:404"}]},"source":"cloudflare"}"#;
    let body = format!(r#"{{"success":true,"errors":[],"messages":[],"result":{configuration}}}"#);
    let answer = Fault::Status { code: 200, headers: Vec::new(), body };
    harness.cloudflare.fault_every(Matcher::get_configuration(), answer);
    let program = harness.start();
    program.external_dns().run_loop(&[published("web.example.com", "http://web:80")]).expect("published");
    assert_eq!(harness.rules().len(), 2);
    assert_eq!(harness.log.lines_with(&["the webhook does not write to it"]), [""; 0]);
}

/// Cloudflare has no configuration of it that could say so, only the list of tunnels does.
#[test]
fn a_tunnel_with_a_configuration_file_that_was_never_configured_is_not_written_either() {
    for unconfigured in [Unconfigured::Null, Unconfigured::NotFound] {
        let harness = Harness::new();
        harness.cloudflare.edit(|cloudflare| {
            let tunnel = cloudflare.tunnel_mut(&harness.tunnel);
            (tunnel.config_source, tunnel.unconfigured) = (ConfigSource::Local, unconfigured);
        });
        let program = harness.start();
        program.external_dns().run_loop(&twenty()).expect("refused by name");
        assert_eq!(harness.cloudflare.configuration(&harness.tunnel), None);
        assert_eq!(harness.cnames(), []);
    }
}

/// A Free zone's comment has room for 100 bytes.
#[test]
fn a_hostname_with_more_paths_than_its_stamp_holds_is_refused_and_stops_no_other() {
    let harness = Harness::new();
    harness.cloudflare.add_zone("example.org", Plan::Free);
    let program = harness.start();
    let external_dns = program.external_dns();
    let mut desired: Vec<Endpoint> = (0..40)
        .map(|number| {
            endpoint(
                "web.example.org",
                &[("tunnel-service", "http://web:80"), ("tunnel-path-prefix", &*format!("/{number}"))],
            )
        })
        .collect();
    desired.push(published("other.example.org", "http://web:80"));
    external_dns.run_loop(&desired).expect("the rest is done");
    assert_eq!(harness.rules().len(), 2, "the other hostname's and the catch-all");
    let sent =
        harness.cloudflare.take_calls().into_iter().filter(|call| call.body.contains("web.example.org"));
    assert_eq!(sent.count(), 0, "it is not left to Cloudflare, which would refuse it");
    desired.drain(..30);
    settle(external_dns, &harness.cloudflare, &desired).expect("ten have room");
    assert_eq!(harness.rules().len(), 12);
}

/// ExternalDNS compares no labels, so the record's comment names the Ingress of before.
#[test]
fn a_path_typo_after_a_rename_of_its_object_takes_no_hostname_offline() {
    let harness = Harness::new();
    let program = harness.start();
    let of = |object: &str, path: &str| {
        endpoint_of(object, "web.example.com", &[("tunnel-path", path), ("tunnel-service", "http://web:80")])
    };
    for desired in [of("ingress/shop/old", "^/shop"), of("ingress/shop/new", "^/shop")] {
        program.external_dns().run_loop(&[desired]).expect("published");
    }
    for _ in 0..2 {
        program.external_dns().run_loop(&[of("ingress/shop/new", "^/shop(")]).expect("refused by name");
        assert_eq!(harness.service_at("web.example.com", "/shop"), "http://web:80");
    }
    program.external_dns().run_loop(&[of("ingress/shop/new", "^/shops")]).expect("published");
    assert_eq!(harness.service_at("web.example.com", "/shops"), "http://web:80");
}
