//! `list`: what is published, and its owners.

use cloudflare_emulator::{Cloudflare, Permission, Plan, Token, TokenStatus};
use external_dns_cloudflare_tunnel_webhook::model::TunnelId;
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use external_dns_cloudflare_tunnel_webhook::reconcile::stamp::Digest;
use serde::Deserialize;
use serde_json::json;
use test_support::harness::{Harness, TOKEN, endpoint, published};

use super::check::only;
use super::run;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listing {
    entries: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    hostname: String,
    path: Option<String>,
    service: Option<String>,
    tunnel: Option<String>,
    owner: Option<String>,
    state: String,
    drift: Vec<String>,
    protected_by: Vec<String>,
}

/// Runs `list` twice, wants both to say the same, and answers the lines with one blank between the cells.
fn list(harness: &Harness, variables: &[(&str, &str)]) -> Vec<String> {
    let table = run(harness, &["list"], variables);
    let json = run(harness, &["--json", "list"], variables);
    assert_eq!((table.code, json.code), (Some(0), Some(0)), "{}{}", table.errors, json.errors);
    assert_eq!((&*table.errors, &*json.errors), ("", ""));
    let Listing { entries } = serde_json::from_str(&json.out).expect("it is JSON");
    let mut lines = table.out.lines();
    let header = lines.next().expect("a header");
    let is_protected = entries.iter().any(|entry| !entry.protected_by.is_empty());
    let mut expected = vec!["HOSTNAME", "PATH", "SERVICE", "TUNNEL", "OWNER", "STATE"];
    expected.extend(is_protected.then_some("PROTECTED-BY"));
    assert_eq!(header.split_whitespace().collect::<Vec<_>>(), expected);
    let lines: Vec<String> =
        lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let expected: Vec<String> = entries
        .iter()
        .map(|Entry { hostname, path, service, tunnel, owner, state, drift, protected_by }| {
            let [path, service, tunnel, owner] =
                [path, service, tunnel, owner].map(|cell| cell.as_deref().unwrap_or("-"));
            let drift = if state == "drift" { format!(": {}", drift.join(", ")) } else { String::new() };
            let protected_by = match &*protected_by.join(", ") {
                _ if !is_protected => String::new(),
                "" => " -".to_owned(),
                names => format!(" {names}"),
            };
            format!("{hostname} {path} {service} {tunnel} {owner} {state}{drift}{protected_by}")
        })
        .collect();
    assert_eq!(lines, expected, "the table and the document agree");
    lines
}

#[test]
fn a_list_shows_what_is_ours_what_is_foreign_and_what_is_amiss() {
    let harness = Harness::with_foreign();
    let external_dns_program = harness.start();
    let path = [("tunnel-service", "http://api:80"), ("tunnel-path-prefix", "/v1")];
    let desired = [
        published("web.example.com", "http://web:80"),
        endpoint("api.example.com", &path),
        endpoint("alone.example.com", &[("tunnel-service", "none")]),
        published("bent.example.com", "http://bent:80"),
        published("lost.example.com", "http://lost:80"),
    ];
    external_dns_program.external_dns().run_loop(&desired).expect("published");
    drop(external_dns_program);

    let blue = Digest::of(&TunnelId::parse(&harness.tunnel).expect("an id"), None);
    harness.cloudflare.edit(|cloudflare| {
        let zone = &harness.zone;
        let record = |cloudflare: &Cloudflare, name: &str| {
            let found = cloudflare.records(zone).iter().find(|record| record.name == name);
            let record = found.expect("it was published");
            (record.id.clone(), record.comment.clone().expect("it is stamped"))
        };
        let (bent, _) = record(cloudflare, "bent.example.com");
        cloudflare.patch_record(zone, &bent, &json!({"proxied": false})).expect("it can be changed");
        let (lost, comment) = record(cloudflare, "lost.example.com");
        let comment = format!("{comment}zzz");
        cloudflare.patch_record(zone, &lost, &json!({"comment": comment})).expect("it can be changed");
        let target = cloudflare.tunnel(&harness.tunnel).hostname();
        let comment = format!("external-dns owner=blue rules={blue}");
        let theirs =
            json!({"name": "blue", "type": "CNAME", "content": target, "proxied": true, "comment": comment});
        cloudflare.add_record(zone, theirs).expect("Cloudflare takes it");
        let org = cloudflare.add_zone("example.org", Plan::Free);
        let bare = json!({"name": "bare", "type": "CNAME", "content": target, "proxied": true});
        cloudflare.add_record(&org, bare).expect("Cloudflare takes it");
        // Their rule comes, and one of ours goes.
        let config = cloudflare.configuration(&harness.tunnel).expect("it is configured").get().to_owned();
        let mut config: serde_json::Value = serde_json::from_str(&config).expect("it is JSON");
        let rules = config["ingress"].as_array_mut().expect("it has rules");
        rules.retain(|rule| rule["hostname"] != "api.example.com");
        rules.insert(0, json!({"hostname": "blue.example.com", "service": "http://blue:80"}));
        cloudflare.put_configuration(&harness.tunnel, &config.to_string()).expect("cloudflared takes it");
    });

    assert_eq!(
        list(&harness, &[]),
        [
            "*.example.com - http://wild:80 home - foreign".to_owned(),
            "alone.example.com - none home default ours".to_owned(),
            "api.example.com - - home default record without rule".to_owned(),
            "bare.example.org - - home - record without rule".to_owned(),
            "bent.example.com - http://bent:80 home default drift: proxied".to_owned(),
            "blue.example.com - http://blue:80 home blue foreign".to_owned(),
            "hand.example.com - http://theirs:80 home - rule without record".to_owned(),
            "lost.example.com - http://lost:80 home default drift: rule".to_owned(),
            "web.example.com - http://web:80 home default ours".to_owned(),
        ]
    );
    assert_eq!(
        list(&harness, &[("DOMAIN_FILTER", "web.example.com")]),
        ["web.example.com - http://web:80 home default ours"]
    );
}

#[test]
fn under_the_access_guard_a_list_shows_what_protects_each_hostname() {
    let harness = Harness::with_foreign();
    let covered = [
        published("web.example.com", "http://web:80"),
        published("open.example.com", "http://open:80"),
        endpoint("api.example.com", &[("tunnel-service", "http://api:80"), ("tunnel-path-prefix", "/v1")]),
    ];
    harness.start().external_dns().run_loop(&covered).expect("published");
    harness.cloudflare.edit(|cloudflare| {
        cloudflare.token_mut(TOKEN).permissions.extend([
            Permission::AccessRead,
            Permission::ZoneAccessRead,
            Permission::AccessOrganizationRead,
        ]);
        cloudflare.set_up_access("my-team");
        let include = json!([{"email_domain": {"domain": "example.com"}}]);
        let staff = json!({"name": "staff", "decision": "allow", "include": include});
        let staff = cloudflare.add_policy(&staff).expect("Cloudflare takes it");
        for (name, domain) in [
            ("Web", "web.example.com"),
            ("Admin", "web.example.com/admin"),
            ("API", "api.example.com/v1"),
            ("Below", "api.example.com/v1/*"),
            ("Hand", "hand.example.com"),
        ] {
            let application =
                json!({"type": "self_hosted", "name": name, "domain": domain, "policies": [staff]});
            cloudflare.add_application(&application).expect("Cloudflare takes it");
        }
    });
    assert_eq!(
        list(&harness, &[("ACCESS_GUARD", "true")]),
        [
            "*.example.com - http://wild:80 home - foreign -",
            "api.example.com ^/v1(/|$) http://api:80 home default drift: access API, Below",
            "hand.example.com - http://theirs:80 home - rule without record Hand",
            "open.example.com - http://open:80 home default drift: access -",
            "web.example.com - http://web:80 home default drift: access Admin, Web",
        ]
    );
    let unguarded = list(&harness, &[]);
    assert!(unguarded.iter().any(|line| line.ends_with("home default ours Admin, Web")), "{unguarded:#?}");
}

/// With a team and the policy `staff`.
pub(super) fn with_access() -> Harness {
    let harness = Harness::new();
    harness.cloudflare.edit(|cloudflare| {
        cloudflare.set_up_access("my-team");
        let staff = json!({"name": "staff", "decision": "allow", "include": [{"everyone": {}}]});
        cloudflare.add_policy(&staff).expect("Cloudflare takes it");
        *cloudflare.token_mut(TOKEN) = Token::with_access(TOKEN);
    });
    harness
}

pub(super) fn protected(name: &str) -> Endpoint {
    endpoint(name, &[("tunnel-service", "http://web:80"), ("access-policy", "staff")])
}

/// The application comes in one loop, its rule in the next.
pub(super) fn publish(harness: &Harness, desired: &[Endpoint]) {
    let program = harness.start();
    for _ in 0..3 {
        let _ = program.external_dns().run_loop(desired);
    }
}

/// It goes once nothing answers for it: no open wildcard, no record to a tunnel that is not configured.
#[test]
fn a_list_has_each_application_that_is_left_whatever_answers_for_it() {
    let harness = with_access();
    let office = harness.cloudflare.add_tunnel("office");
    let wildcard = published("*.w.example.com", "http://wild:80");
    let names = ["below.w.example.com", "elsewhere.example.com", "gone.example.com"];
    let all: Vec<Endpoint> = names.into_iter().map(protected).chain([wildcard.clone()]).collect();
    publish(&harness, &all);
    publish(&harness, &[wildcard]);
    let record = json!({"name": "elsewhere.example.com", "type": "CNAME", "proxied": true,
        "content": format!("{office}.cfargotunnel.com")});
    harness.cloudflare.add_record(&harness.zone, record).expect("Cloudflare takes it");
    harness.cloudflare.advance_clock(std::time::Duration::from_secs(700));
    let lines = list(&harness, &[("ACCESS_POLICIES", "staff")]);
    let left = |name: &&str| {
        let line = format!("{name} - - - - unneeded application {name} (ExternalDNS default)");
        lines.contains(&line)
    };
    assert!(names.iter().all(left), "{lines:#?}");
}

/// Every visitor is refused, and nothing but the mark of the comment tells a new process.
#[test]
fn a_list_says_what_is_amiss_with_a_silent_hostname_whose_application_was_deleted_by_hand() {
    let harness = with_access();
    publish(&harness, &[protected("web.example.com")]);
    let id = harness.cloudflare.applications()[0].id.clone();
    harness.cloudflare.edit(|cloudflare| cloudflare.delete_application(&id));
    for _ in 0..2 {
        publish(&harness, &[published("web.example.com", "http://web:80")]);
        let lines = list(&harness, &[]);
        assert!(lines.iter().any(|line| line.contains("web.example.com")), "{lines:#?}");
        assert!(!lines.iter().any(|line| line.contains(" ours")), "{lines:#?}");
    }
}

#[test]
fn a_list_of_thousands_of_rules_is_there_at_once() {
    let harness = Harness::new();
    let target = harness.cloudflare.edit(|cloudflare| cloudflare.tunnel(&harness.tunnel).hostname());
    let names: Vec<String> = (0..3_000).map(|number| format!("host{number:04}.example.com")).collect();
    let records: Vec<serde_json::Value> = names
        .iter()
        .map(|name| json!({"name": name, "type": "CNAME", "content": target, "proxied": true}))
        .collect();
    harness.cloudflare.add_records(&harness.zone, &records).expect("Cloudflare takes them");
    let rules: Vec<String> = names
        .iter()
        .map(|name| format!(r#"{{"hostname":"{name}","service":"http://web:80"}}"#))
        .chain([r#"{"service":"http_status:404"}"#.to_owned()])
        .collect();
    let document = format!(r#"{{"ingress":[{}]}}"#, rules.join(","));
    harness.cloudflare.put_configuration(&harness.tunnel, &document).expect("cloudflared takes it");
    let lines = list(&harness, &[]);
    assert_eq!(lines.len(), names.len());
    assert!(lines.iter().all(|line| line.ends_with(" http://web:80 home - foreign")));
}

#[test]
fn a_list_that_cannot_be_read_is_an_error_and_says_why() {
    for (label, edit, variables, expected) in [
        (
            "the token",
            (|cloudflare| cloudflare.token_mut(TOKEN).status = TokenStatus::Expired) as fn(&mut Cloudflare),
            &[][..],
            "the token has expired",
        ),
        ("the tunnel", |_| (), &[("CF_TUNNEL_ID", "office")], "there is no tunnel \"office\""),
        (
            "the records",
            |cloudflare| only(cloudflare, &[Permission::ZoneRead, Permission::TunnelEdit]),
            &[],
            "reading the records of zone example.com failed",
        ),
        (
            "Access",
            |cloudflare| cloudflare.set_up_access("my-team"),
            &[("ACCESS_GUARD", "true")],
            "Cloudflare Access cannot be read",
        ),
        (
            "a zone's applications",
            |cloudflare| {
                cloudflare.set_up_access("my-team");
                let access = [Permission::AccessRead, Permission::AccessOrganizationRead];
                cloudflare.token_mut(TOKEN).permissions.extend(access);
            },
            &[("ACCESS_GUARD", "true")],
            "the applications of zone example.com",
        ),
    ] {
        let harness = Harness::new();
        harness.cloudflare.edit(edit);
        for arguments in [&["list"][..], &["list", "--json"]] {
            let said = run(&harness, arguments, variables);
            assert_eq!((said.code, &*said.out), (Some(1), ""), "{label}");
            assert!(said.errors.contains(expected) && said.errors.lines().count() == 1, "{}", said.errors);
        }
    }
}

/// What a move from the dashboard begins with: the objects are applied as they are printed.
#[test]
fn foreign_rules_are_printed_as_objects_that_take_them_over_with_every_option() {
    let harness = Harness::new();
    for name in ["app.example.com", "*.wild.example.com"] {
        let content = format!("{}.cfargotunnel.com", harness.tunnel);
        let record = json!({"name": name, "type": "CNAME", "content": content, "proxied": true});
        harness.cloudflare.add_record(&harness.zone, record).expect("Cloudflare takes it");
    }
    let rules = r#"{"hostname":"app.example.com","path":"^/api","service":"https://api:443","originRequest":{"noTLSVerify":true,"connectTimeout":5},"id":"7"},{"hostname":"app.example.com","path":"^/api/v2","service":"http://shadowed:80"},{"hostname":"app.example.com","service":"http://app:80"},{"hostname":"*.wild.example.com","service":"http_status:204"},{"hostname":"other.example.com","service":"http://jo:s3cret@app:80"}"#;
    let document = |rules: &str| format!(r#"{{"ingress":[{rules},{{"service":"http_status:404"}}]}}"#);
    harness.cloudflare.put_configuration(&harness.tunnel, &document(rules)).expect("cloudflared takes it");
    let said = run(&harness, &["list", "--as=dnsendpoint", "--namespace=web"], &[]);
    let shadowed = r#"taking the rule over would move it before the rule for "app.example.com" "^/api" and give it some of that rule's requests"#;
    let digest =
        said.out.split("wild.example.com-").nth(1).map(|rest| &rest[..3]).expect("a name of its own");
    let expected = format!(
        r##"# home, rule 2, "app.example.com" "^/api/v2" is left out: {shadowed}
# home, rule 5, "other.example.com" is left out: no proxied record of its hostname points to this tunnel
---
apiVersion: externaldns.k8s.io/v1alpha1
kind: DNSEndpoint
metadata: {{"name":"wild.example.com-{digest}","namespace":"web"}}
spec:
  endpoints:
    # home, rule 4, "*.wild.example.com"
    #   hostname: "*.wild.example.com"
    #   target: "http_status:204"
    #   webhook-tunnel-wildcard: "true"
    - {{"dnsName":"*.wild.example.com","targets":["http_status:204"],"recordType":"CNAME"}}
---
apiVersion: externaldns.k8s.io/v1alpha1
kind: DNSEndpoint
metadata: {{"name":"app.example.com","namespace":"web"}}
spec:
  endpoints:
    # home, rule 1, "app.example.com" "^/api"
    # No annotation can set these fields; the rule keeps them: id
    #   hostname: "app.example.com"
    #   set-identifier: "^/api"
    #   target: "https://api:443"
    #   webhook-origin-connect-timeout: "5s"
    #   webhook-origin-no-tls-verify: "true"
    #   webhook-tunnel-path: "^/api"
    - {{"dnsName":"app.example.com","targets":["https://api:443"],"recordType":"CNAME","setIdentifier":"^/api","providerSpecific":[{{"name":"webhook/origin-connect-timeout","value":"5s"}},{{"name":"webhook/origin-no-tls-verify","value":"true"}},{{"name":"webhook/tunnel-path","value":"^/api"}}]}}
    # home, rule 3, "app.example.com"
    #   hostname: "app.example.com"
    #   target: "http://app:80"
    - {{"dnsName":"app.example.com","targets":["http://app:80"],"recordType":"CNAME"}}
"##
    );
    assert_eq!((said.code, &*said.errors, &*said.out), (Some(0), "", &*expected));

    let items = said.out.lines().filter_map(|line| line.strip_prefix("    - "));
    let sent = |item: &str| -> Endpoint {
        let endpoint = serde_json::from_str(item).expect("an endpoint");
        Endpoint { labels: [("resource", "crd/web/moved")].into_iter().collect(), ..endpoint }
    };
    let desired: Vec<Endpoint> = items.map(sent).collect();
    let program = harness.start_with(&[("ADOPT", "tunnel")]);
    program.external_dns().run_loop(&desired).expect("taken over");
    let standing = [&harness.rules()[..], &[]].concat().join(",");
    assert_eq!(standing, format!(r#"{rules},{{"service":"http_status:404"}}"#), "every byte is as it was");
    drop(program);
    let left = run(&harness, &["list", "--as=dnsendpoint"], &[]).out;
    assert!(left.lines().all(|line| line.starts_with("# ")) && left.lines().count() == 2, "{left}");

    // What is printed later is applied beside what was applied before, and not over it.
    let rules =
        format!(r#"{{"hostname":"app.example.com","path":"^/new","service":"http://new:80"}},{rules}"#);
    harness.cloudflare.put_configuration(&harness.tunnel, &document(&rules)).expect("cloudflared takes it");
    let later = run(&harness, &["list", "--as=dnsendpoint"], &[]).out;
    assert!(later.contains("metadata: {\"name\":\"app.example.com-"), "{later}");
    let unset = run(&harness, &["list", "--as=dnsendpoint", "--namespace="], &[]).out;
    assert_eq!(unset, later, "an empty namespace is none");
    assert!(
        later.contains(r#""setIdentifier":"^/new""#),
        "no two objects of a hostname have one identifier: {later}"
    );
}

/// `kubectl apply` takes it; nothing at all would look like a failure.
#[test]
fn where_no_rule_is_foreign_one_comment_says_so() {
    let harness = Harness::new();
    harness.cloudflare.add_tunnel("office");
    let said = run(&harness, &["list", "--as=dnsendpoint"], &[("CF_TUNNEL_ID", "home,office")]);
    let expected = "# no foreign rule in tunnel home, office\n";
    assert_eq!((said.code, &*said.errors, &*said.out), (Some(0), "", expected));
}

/// YAML ends a line where JSON does not, and has characters that it does not take; Kubernetes takes a name of 253
/// characters.
#[test]
fn foreign_rules_with_odd_texts_and_names_are_printed_as_what_kubernetes_takes() {
    let harness = Harness::new();
    let label = "a".repeat(57);
    let long = format!("_{label}.{label}.{label}.{label}.{}.example.com", "a".repeat(8));
    assert_eq!(long.len(), 253);
    let rules: Vec<String> = ["_k_.example.com", &long]
        .iter()
        .map(|name| {
            let content = format!("{}.cfargotunnel.com", harness.tunnel);
            let record = json!({"name": name, "type": "CNAME", "content": content, "proxied": true});
            harness.cloudflare.add_record(&harness.zone, record).expect("Cloudflare takes it");
            format!(
                "{{\"hostname\":\"{name}\",\"service\":\"unix:/a,b\",\"x\u{85}- y\":1,\"originRequest\":{{\"proxyAddress\":\"a\u{2028}b😀\"}}}},"
            )
        })
        .collect();
    let document = format!(r#"{{"ingress":[{}{{"service":"http_status:404"}}]}}"#, rules.concat());
    harness.cloudflare.put_configuration(&harness.tunnel, &document).expect("cloudflared takes it");
    let said = run(&harness, &["list", "--as=dnsendpoint"], &[]).out;
    let is_plain = |character: char| matches!(character, '\n' | ' '..='~' | '\u{10000}'..);
    assert!(said.chars().all(is_plain) && said.contains("x\\u0085- y"), "{said:?}");
    let names =
        said.lines().filter_map(|line| line.strip_prefix(r#"metadata: {"name":""#)?.strip_suffix("\"}"));
    let names: Vec<&str> = names.collect();
    assert!(
        matches!(names[..], [long, short] if long.len() <= 253 && short.starts_with("uku.example.com-")),
        "{said}"
    );
    // ExternalDNS takes an annotation `target` apart at commas.
    assert!(said.contains("    #   webhook-tunnel-service: \"unix:/a,b\"\n"), "{said}");
    let items = said.lines().filter_map(|line| line.strip_prefix("    - "));
    for endpoint in items.map(|item| serde_json::from_str::<Endpoint>(item).expect("an endpoint")) {
        assert_eq!(endpoint.property("webhook/origin-proxy-address"), Some("a\u{2028}b😀"));
    }
}
