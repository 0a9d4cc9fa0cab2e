//! `ADOPT` at work: what the log says of it, and how it ends whatever happens in between.

use std::time::Duration;

use cloudflare_emulator::{Emulator, Fault, Matcher, Plan, Refusal};
use serde_json::json;
use test_support::external_dns::Changes;
use test_support::harness::{Harness, endpoint, endpoint_of, published};

const WANTED: &str = "http://web:80";

/// Lines of the log about what was taken over or refused.
fn lines_about(harness: &Harness, hostname: &str) -> Vec<String> {
    let mut lines = harness.log.lines_with(&[hostname]);
    lines.retain(|line| {
        ["taken over; before", "refused=", "without DRY_RUN"].iter().any(|mark| line.contains(mark))
    });
    lines
}

/// A Cloudflare with a hand-made CNAME to the tunnel and a rule for each hostname.
fn dashboard(hostnames: &[&str], service: &str) -> Harness {
    let harness = Harness::new();
    for hostname in hostnames {
        let content = format!("{}.cfargotunnel.com", harness.tunnel);
        let record = json!({"name": hostname, "type": "CNAME", "content": content, "proxied": true, "comment": "Jo's"});
        harness.cloudflare.add_record(&harness.zone, record).expect("Cloudflare takes it");
    }
    put_rules(&harness, hostnames, service);
    harness
}

fn put_rules(harness: &Harness, hostnames: &[&str], service: &str) {
    let rules: String = hostnames
        .iter()
        .map(|hostname| format!(r#"{{"hostname":"{hostname}","service":"{service}"}},"#))
        .collect();
    let document = format!(r#"{{"ingress":[{rules}{{"service":"http_status:404"}}]}}"#);
    harness.cloudflare.put_configuration(&harness.tunnel, &document).expect("cloudflared takes it");
}

#[test]
fn a_refusal_is_told_once_and_again_when_it_changes() {
    let name = "told.example.com";
    let harness = dashboard(&[name], "http://theirs:80");
    let program = harness.start();
    let desired = [published(name, WANTED)];
    for _ in 0..3 {
        program.external_dns().run_loop(&desired).expect("refused, and answered");
    }
    let told = lines_about(&harness, name);
    assert!(matches!(&told[..], [line] if line.contains("set ADOPT=tunnel to take it over")), "{told:#?}");

    harness.cloudflare.edit(|cloudflare| {
        let record = cloudflare.records("example.com").iter().find(|record| record.name == name);
        let id = record.expect("it is there").id.clone();
        let elsewhere = serde_json::json!({"content": "elsewhere.test"});
        cloudflare.patch_record("example.com", &id, &elsewhere).expect("Cloudflare takes it");
    });
    for _ in 0..3 {
        program.external_dns().run_loop(&desired).expect("refused, and answered");
    }
    let told = lines_about(&harness, name);
    assert!(matches!(&told[..], [_, line] if line.contains("set ADOPT=all to take it over")), "{told:#?}");
}

/// The namespace in the comment is one of the other owner's cluster.
#[test]
fn with_the_namespace_guard_a_record_of_another_owner_is_refused_for_its_owner() {
    let name = "other.example.com";
    let harness = Harness::new();
    let content = format!("{}.cfargotunnel.com", harness.tunnel);
    let comment = "external-dns owner=other rules=- ns=h6q2";
    let record =
        json!({"name": name, "type": "CNAME", "content": content, "proxied": true, "comment": comment});
    harness.cloudflare.add_record(&harness.zone, record).expect("Cloudflare takes it");
    let program = harness.start_with(&[("NAMESPACE_GUARD", "true")]);
    let wanted = endpoint_of("ingress/bank/web", name, &[("tunnel-service", "http://web.bank.svc:80")]);
    program.external_dns().run_loop(&[wanted]).expect("refused, and answered");
    let told = lines_about(&harness, name);
    let is_told =
        |line: &String| ["refused=record_held", "ADOPT=owner=other"].iter().all(|word| line.contains(word));
    assert!(told.len() == 1 && told.iter().all(is_told), "{told:#?}");
}

#[test]
fn what_was_taken_over_is_told_once_with_what_it_was() {
    let page = Fault::Status { code: 403, headers: Vec::new(), body: "<html>Sign in</html>".to_owned() };
    for fault in [None, Some(Fault::DoneButUnanswered), Some(page)] {
        tell_once_what_was_taken_over(fault);
    }
}

/// `fault` meets the write of the record.
fn tell_once_what_was_taken_over(fault: Option<Fault>) {
    let name = "adopted.example.com";
    let harness = dashboard(&[name], "http://theirs:80");
    let dry = harness.start_with(&[("ADOPT", "tunnel"), ("DRY_RUN", "true")]);
    dry.external_dns().run_loop(&[published(name, WANTED)]).expect("told");
    assert_eq!(harness.cloudflare.count_calls().writes, 0);
    drop(dry);

    let program = harness.start_with(&[("ADOPT", "tunnel")]);
    if let Some(fault) = fault {
        harness.cloudflare.fault(Matcher::batch(), 1, fault);
    }
    for _ in 0..3 {
        let _ = program.external_dns().run_loop(&[published(name, WANTED)]);
    }
    assert_eq!(harness.cloudflare.waiting_faults(), 0);
    let (dry, mut told): (Vec<String>, Vec<String>) =
        lines_about(&harness, name).into_iter().partition(|line| line.contains("without DRY_RUN"));
    let tunnel = &harness.tunnel;
    let record = format!(
        r#"{{"name":"{name}","type":"CNAME","content":"{tunnel}.cfargotunnel.com","proxied":true,"ttl":1,"comment":"Jo's"}}"#
    );
    let rule = format!(r#"{{"hostname":"{name}","service":"http://theirs:80"}}"#);
    let expected = [
        format!("INFO taken over; before: record {record} hostname={name:?}"),
        format!("INFO taken over; before: rule 1 of tunnel {tunnel} {rule} hostname={name:?}"),
    ];
    // The page is told as well.
    told.retain(|line| !line.contains("refused=waiting"));
    assert_eq!(told, expected);
    assert_eq!(dry.len(), 4, "and what would be written: {dry:#?}");
}

/// A takeover is undone by hand from its lines: by the bytes of the rule, but for the password, which cloudflared
/// ignores.
#[test]
fn a_rule_is_restored_from_its_lines_and_the_annotations_in_them_keep_its_options() {
    let name = "whole.example.com";
    let harness = dashboard(&[name], "http://theirs:80");
    let prefixes: Vec<String> = (0..300)
        .map(|n| format!(r#"{{"prefix":"10.{}.{}.0/24","ports":[80],"allow":true}}"#, n / 200, n % 200))
        .collect();
    let rule = |password: &str| {
        format!(
            r#"{{"hostname":"{name}","service":"https://{password}theirs:443","note":"\u00fcber","originRequest":{{"noTLSVerify":true,"connectTimeout":5,"keepAliveConnections":-1,"tlsTimeout":10,"ipRules":[{}],"newer":{{"a":1}}}}}}"#,
            prefixes.join(",")
        )
    };
    let document = format!(r#"{{"ingress":[{},{{"service":"http_status:404"}}]}}"#, rule("jo:s3cret@"));
    harness.cloudflare.put_configuration(&harness.tunnel, &document).expect("cloudflared takes it");
    for dry_run in ["true", "false"] {
        let program = harness.start_with(&[("ADOPT", "tunnel"), ("DRY_RUN", dry_run)]);
        program.external_dns().run_loop(&[published(name, WANTED)]).expect("told");
        drop(program);
        let told = harness.log.lines_with(&[name, "taken over; "]);
        assert!(
            told.iter().all(|line| line.chars().count() < 4_200 && !line.contains("s3cret")),
            "{told:#?}"
        );
        let joined = |head: &str| -> String {
            let parts = told.iter().filter(|line| line.contains("without DRY_RUN") == (dry_run == "true"));
            let parts = parts.filter_map(|line| line.split_once(head)?.1.split_once(": "));
            let parts: Vec<&str> =
                parts.filter_map(|(_, text)| text.rsplit_once(" hostname=")).map(|(text, _)| text).collect();
            assert!(parts.len() > 1, "{head} is too long for a line: {told:#?}");
            parts.concat()
        };
        let was = joined("taken over; before ");
        let expected = format!("rule 1 of tunnel {} {}", harness.tunnel, rule("[redacted]@"));
        assert_eq!(was, expected);
        let kept = joined("taken over; changed options ");
        for said in [
            r#"connectTimeout (to keep it, set webhook-origin-connect-timeout: "5s"); "#,
            r#"keepAliveConnections -1, which no annotation can set; "#,
            r#"noTLSVerify (to keep it, set webhook-origin-no-tls-verify: "true")"#,
            r#"(to keep it, set webhook-origin-ip-rules: "[{\"allow\":true,\"ports\":[80],\"prefix\":\"10.0.0.0/24\"}"#,
        ] {
            assert!(kept.contains(said), "{said} is missing in {kept}");
        }
        assert!(!kept.contains("tlsTimeout"), "cloudflared's own default changes nothing: {kept}");
    }
}

/// Pins that a dry run tells no write that would not be done.
#[test]
fn a_dry_run_of_what_is_identical_tells_of_the_stamp_alone() {
    let name = "identical.example.com";
    let harness = dashboard(&[name], WANTED);
    let program = harness.start_with(&[("ADOPT", "tunnel"), ("DRY_RUN", "true")]);
    program.external_dns().run_loop(&[published(name, WANTED)]).expect("told");
    let told = lines_about(&harness, name);
    assert_eq!(told.iter().filter(|line| line.contains("taken over; before")).count(), 2, "{told:#?}");
    let rest: Vec<&String> = told.iter().filter(|line| !line.contains("taken over")).collect();
    assert!(matches!(&rest[..], [line] if line.contains("record updated, comment=")), "{told:#?}");
}

/// Its visitors need not be ones that Cloudflare's proxy can serve, and nothing serves the hostname in the tunnel yet.
#[test]
fn a_dns_only_record_is_not_proxied_while_the_tunnel_that_takes_it_over_has_no_connector() {
    let harness = Harness::new();
    let record =
        json!({"name": "db.example.com", "type": "CNAME", "content": "db.host.test", "proxied": false});
    harness.cloudflare.add_record(&harness.zone, record).expect("Cloudflare takes it");
    harness.cloudflare.edit(|cloudflare| cloudflare.tunnel_mut("home").connectors = 0);
    let program = harness.start_with(&[("ADOPT", "all")]);
    let desired = [published("db.example.com", WANTED)];
    let seen = |harness: &Harness| {
        let [(_, content, proxied, _)] = &harness.cnames()[..] else { panic!("{:?}", harness.cnames()) };
        (content.clone(), *proxied)
    };
    for _ in 0..3 {
        let _ = program.external_dns().run_loop(&desired);
        assert_eq!(seen(&harness), ("db.host.test".to_owned(), false));
    }
    harness.cloudflare.edit(|cloudflare| cloudflare.tunnel_mut("home").connectors = 1);
    for _ in 0..3 {
        let _ = program.external_dns().run_loop(&desired);
    }
    assert_eq!(seen(&harness), (format!("{}.cfargotunnel.com", harness.tunnel), true));
}

/// Invariant 3 of docs/how-it-works.md. As a rule of ours, the wildcard's would go behind the narrower one that comes.
#[test]
fn a_rule_that_is_not_taken_over_after_all_stays_in_its_place_when_another_hostname_comes() {
    let harness = Harness::new();
    let content = format!("{}.cfargotunnel.com", harness.tunnel);
    let record = json!({"name": "*.example.com", "type": "CNAME", "content": content, "proxied": true});
    harness.cloudflare.add_record(&harness.zone, record).expect("Cloudflare takes it");
    let theirs = [
        r#"{"hostname":"*.example.com","path":"^/a","service":"http://theirs:80"}"#,
        r#"{"hostname":"b.example.com","path":"^/b","service":"http://theirs:81"}"#,
    ];
    let document = format!(r#"{{"ingress":[{},{{"service":"http_status:404"}}]}}"#, theirs.join(","));
    harness.cloudflare.put_configuration(&harness.tunnel, &document).expect("cloudflared takes it");
    harness.cloudflare.edit(|cloudflare| {
        let refusal = Refusal::new(400, 9041, "This DNS record cannot be proxied.");
        cloudflare.whims_mut().dislike_name("*.example.com", refusal);
    });
    let program = harness.start_with(&[("ADOPT", "tunnel")]);
    let wildcard = [("tunnel-service", WANTED), ("tunnel-path", "^/a")];
    let desired = [endpoint("*.example.com", &wildcard), published("b.example.com", WANTED)];
    let _ = program.external_dns().run_loop(&desired);
    let rules = harness.rules();
    assert_eq!(rules[..2], theirs, "{rules:#?}");
    assert!(rules[2].contains("b.example.com"), "{rules:#?}");
}

/// Thousands of stamps may take all the time that a request has. If they were taken off and written again, every loop
/// would run out of time.
#[test]
fn an_adoption_that_ran_out_of_time_is_not_begun_again() {
    let harness = dashboard(&["a.example.com"], "http://theirs:80");
    let program = harness.start_with(&[("ADOPT", "tunnel")]);
    let desired = [published("a.example.com", WANTED)];
    let (reads, cut) = (2, Fault::error(403, 10000, "no"));
    harness.cloudflare.fault(Matcher::get_configuration(), reads + 1, cut);
    assert_eq!(program.external_dns().run_loop(&desired).err(), Some(503), "the look at the rule fails");
    program.external_dns().run_loop(&desired).expect("its rule comes");
    assert_at_rest(&harness.cloudflare, || program.external_dns().run_loop(&desired).expect("at rest"));

    // And what is ours may change.
    for service in ["http://new:80", "http://newer:80"] {
        program.external_dns().run_loop(&[published("a.example.com", service)]).expect("done");
        assert!(harness.rules()[0].contains(service), "{:?}", harness.rules());
    }
}

fn assert_at_rest(cloudflare: &Emulator, run: impl Fn() -> Changes) {
    cloudflare.take_calls();
    assert_eq!(run(), Changes::default());
    assert_eq!(cloudflare.count_calls().writes, 0);
}

/// The TXT record that named the owner of the addresses is gone then.
#[test]
fn a_takeover_that_deleted_records_goes_on_where_its_rule_could_not_be_written() {
    let harness = Harness::new();
    let heritage = "\"heritage=external-dns,external-dns/owner=default\"";
    for (kind, content) in [("A", "192.0.2.1"), ("A", "192.0.2.2"), ("TXT", heritage)] {
        let record = json!({"name": "a.example.com", "type": kind, "content": content});
        harness.cloudflare.add_record(&harness.zone, record).expect("Cloudflare takes it");
    }
    let program = harness.start_with(&[("ADOPT", "owner=default")]);
    let desired = [published("a.example.com", WANTED)];
    harness.cloudflare.fault(Matcher::get_configuration(), 3, Fault::Garbage);
    assert_eq!(program.external_dns().run_loop(&desired).err(), Some(503));
    for _ in 0..4 {
        let _ = program.external_dns().run_loop(&desired);
    }
    assert_eq!(harness.service_at("a.example.com", "/"), WANTED);
    assert_at_rest(&harness.cloudflare, || program.external_dns().run_loop(&desired).expect("at rest"));
    let told = lines_about(&harness, "a.example.com").join("\n");
    for (kind, content) in [("A", "192.0.2.1"), ("A", "192.0.2.2"), ("TXT", heritage)] {
        let content = json!(content);
        let record = format!(
            r#"before: record {{"name":"a.example.com","type":"{kind}","content":{content},"proxied":false,"ttl":1,"comment":""}}"#
        );
        assert_eq!(told.matches(&record).count(), 1, "{record}: {told}");
    }
}

/// A zone of the Free plan has room for 100 bytes, and the comment of the dashboard used up all that the stamp left.
#[test]
fn a_long_comment_that_is_taken_over_leaves_room_for_another_path_and_for_a_move() {
    let harness = Harness::new();
    let (zone, name) = (harness.cloudflare.add_zone("example.org", Plan::Free), "jelly.example.org");
    let office = harness.cloudflare.add_tunnel("office");
    let rest = r#"{"ingress":[{"service":"http_status:404"}]}"#;
    harness.cloudflare.put_configuration(&office, rest).expect("cloudflared takes it");
    let content = format!("{}.cfargotunnel.com", harness.tunnel);
    let comment = "Jellyfin on the NAS in the living room, ask Jo before you change this record";
    let record =
        json!({"name": name, "type": "CNAME", "content": content, "proxied": true, "comment": comment});
    harness.cloudflare.add_record(&zone, record).expect("Cloudflare takes it");
    put_rules(&harness, &[name], WANTED);
    let program = harness.start_with(&[("ADOPT", "tunnel"), ("CF_TUNNEL_ID", "home,office")]);
    let at = |tunnel: &str, path: &str| {
        endpoint(name, &[("tunnel-service", WANTED), ("tunnel", tunnel), ("tunnel-path", path)])
    };
    let both =
        |tunnel| [endpoint(name, &[("tunnel-service", WANTED), ("tunnel", tunnel)]), at(tunnel, "^/api$")];
    for desired in [&both("home")[..1], &both("home"), &both("office")] {
        for _ in 0..5 {
            let _ = program.external_dns().run_loop(desired);
            harness.cloudflare.advance_clock(Duration::from_secs(130));
        }
    }
    assert_eq!(harness.log.lines_with(&["refused=stamp_full"]), [""; 0]);
    assert_eq!(harness.service_at(name, "/api"), WANTED);
    let comments: Vec<String> =
        harness.cloudflare.records(&zone).into_iter().filter_map(|one| one.comment).collect();
    assert!(comments.iter().any(|comment| comment.contains(" | Jellyfin on the NAS")), "{comments:?}");
}
