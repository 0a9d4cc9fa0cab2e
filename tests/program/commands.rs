//! The commands beside `serve`: the built program against the emulator, what it prints and how it ends.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Output, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use cloudflare_emulator::{
    Cloudflare, ConfigSource, Fault, Matcher, Permission, Plan, Token, TokenOwner, TokenStatus,
};
use external_dns_cloudflare_tunnel_webhook::limits;
use external_dns_cloudflare_tunnel_webhook::model::TunnelId;
use external_dns_cloudflare_tunnel_webhook::reconcile::stamp::Digest;
use serde::Deserialize;
use serde_json::json;
use test_support::harness::{Scene, TOKEN, endpoint, published};

use crate::process::program;

const KEY: &str = "0123456789abcdef0123456789abcdef01234";

/// What a process takes to start and to end, on a busy machine.
const SLACK: Duration = Duration::from_secs(3);

/// What a command said, and its exit code.
struct Said {
    code: Option<i32>,
    out: String,
    errors: String,
}

/// Runs a command as an operator would. Whatever it is, it writes nothing and shows no secret.
fn run(scene: &Scene, arguments: &[&str], variables: &[(&str, &str)]) -> Said {
    scene.cloudflare.take_calls();
    let output = program()
        .args(arguments)
        .envs([
            ("CF_API_TOKEN", TOKEN),
            ("CF_ACCOUNT_ID", &*scene.cloudflare.account()),
            ("CF_TUNNEL_ID", "home"),
            ("CF_API_BASE_URL", &*scene.cloudflare.base_url()),
        ])
        .envs(variables.iter().copied())
        .output()
        .expect("the program was built");
    let writes: Vec<String> =
        scene.cloudflare.take_calls().iter().filter(|call| call.is_write()).map(|call| call.line()).collect();
    assert_eq!(writes, [""; 0], "{arguments:?} writes nothing");
    said(&output, variables)
}

fn said(output: &Output, variables: &[(&str, &str)]) -> Said {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("it is UTF-8");
    let said = Said { code: output.status.code(), out: text(&output.stdout), errors: text(&output.stderr) };
    let given = variables.iter().filter(|(name, _)| ["CF_API_TOKEN", "CF_API_KEY"].contains(name));
    for secret in given.map(|(_, secret)| *secret).chain([TOKEN]).filter(|secret| !secret.is_empty()) {
        assert!(!said.out.contains(secret) && !said.errors.contains(secret), "{}{}", said.out, said.errors);
    }
    said
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Report {
    ok: bool,
    checks: Vec<Check>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Check {
    status: String,
    what: String,
    found: String,
    to_do: Option<String>,
}

/// Runs `check` twice: the table and the JSON document have to say the same, and the exit code too.
fn check(scene: &Scene, variables: &[(&str, &str)]) -> (Report, String) {
    let table = run(scene, &["check"], variables);
    let json = run(scene, &["check", "--json"], variables);
    assert_eq!((&*table.errors, &*json.errors), ("", ""));
    assert_eq!(json.out.lines().count(), 1, "one document");
    let report: Report = serde_json::from_str(&json.out).expect("it is JSON");
    let is_well = report.checks.iter().all(|check| check.status != "failed");
    let code = Some(i32::from(!is_well));
    assert_eq!((report.ok, table.code, json.code), (is_well, code, code), "{}", table.out);
    assert_eq!(table.out.lines().count(), report.checks.len(), "{}", table.out);
    for (line, Check { status, what, found, to_do }) in table.out.lines().zip(&report.checks) {
        let to_do = to_do.as_ref().map(|text| format!("; to do: {text}")).unwrap_or_default();
        let rest = line.strip_prefix(&**status).map(str::trim_start);
        let rest = rest.and_then(|rest| rest.strip_prefix(&**what)).map(str::trim_start);
        assert_eq!(rest, Some(&*format!("{found}{to_do}")), "{line}");
    }
    (report, table.out)
}

fn statuses(report: &Report) -> Vec<String> {
    report.checks.iter().map(|check| format!("{} {}", check.status, check.what)).collect()
}

#[test]
fn a_check_of_what_is_right_says_so_line_by_line() {
    let scene = Scene::with_foreign();
    let (report, table) = check(&scene, &[]);
    assert_eq!(
        statuses(&report),
        [
            "ok token",
            "ok account",
            "ok tunnel home",
            "ok configuration of home",
            "ok connectors of home",
            "ok zone example.com",
            "ok records of example.com",
            "ok ownership",
            "untried writing",
            "ok rate limit",
        ]
    );
    for part in [
        "active\n",
        &*scene.tunnel,
        "version 1, 3 rules",
        "active, paid plan",
        "3, 0 of them ours",
        "--txt-owner-id=default --registry=noop (or txt)",
        "costs 2 calls: with an --interval of 60 s 10 of the 1200",
    ] {
        assert!(table.contains(part), "{part:?} is missing in:\n{table}");
    }
}

/// How a scene is made wrong, with which variables, and then the status, the subject, the finding and the remedy.
type Case<'a> = (&'a str, fn(&mut Cloudflare), &'a [(&'a str, &'a str)], [&'a str; 4]);

fn only(cloudflare: &mut Cloudflare, permissions: &[Permission]) {
    cloudflare.token_mut(TOKEN).permissions = permissions.to_vec();
}

#[test]
fn each_thing_that_is_wrong_is_named_with_what_to_do() {
    use Permission::{DnsEdit, TunnelEdit, ZoneRead};
    let unreachable = {
        let closed = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        format!("http://{}/client/v4", closed.local_addr().expect("it is bound"))
    };
    let cases: &[Case<'_>] = &[
        (
            "an unknown token",
            |_| (),
            &[("CF_API_TOKEN", "a-token-that-nobody-made")],
            ["failed", "token", "Invalid API Token", "CF_API_TOKEN"],
        ),
        (
            "a malformed token",
            |_| (),
            &[("CF_API_TOKEN", "short!")],
            ["failed", "token", "Invalid request headers", "CF_API_TOKEN"],
        ),
        (
            "a disabled token",
            |cloudflare| cloudflare.token_mut(TOKEN).status = TokenStatus::Disabled,
            &[],
            ["failed", "token", "the token is disabled", "enable this one"],
        ),
        (
            "an expired token",
            |cloudflare| cloudflare.token_mut(TOKEN).status = TokenStatus::Expired,
            &[],
            ["failed", "token", "the token has expired", "make a token"],
        ),
        (
            "an account's token without the account",
            |cloudflare| {
                let account = cloudflare.accounts()[0].id.clone();
                cloudflare.token_mut(TOKEN).owner = TokenOwner::Account(account);
            },
            &[("CF_ACCOUNT_ID", "")],
            ["failed", "token", "Invalid API Token", "set CF_ACCOUNT_ID"],
        ),
        (
            "a wrong pair of key and address",
            |cloudflare| cloudflare.add_token(Token::legacy_key(KEY, "ops@example.com")),
            &[("CF_API_TOKEN", ""), ("CF_API_KEY", KEY), ("CF_API_EMAIL", "other@example.com")],
            ["failed", "key", "Authentication error", "CF_API_KEY and CF_API_EMAIL"],
        ),
        (
            "an API that is not there",
            |_| (),
            &[("CF_API_BASE_URL", &unreachable)],
            ["failed", "token", "Cloudflare not reached", "CF_API_BASE_URL"],
        ),
        (
            "no permission for zones",
            |cloudflare| only(cloudflare, &[DnsEdit, TunnelEdit]),
            &[],
            ["failed", "zones", "Authentication error", "Zone: Zone: Read"],
        ),
        (
            "no permission for DNS",
            |cloudflare| only(cloudflare, &[ZoneRead, TunnelEdit]),
            &[],
            ["failed", "records of example.com", "Authentication error", "Zone: DNS: Edit"],
        ),
        (
            "no permission for tunnels",
            |cloudflare| only(cloudflare, &[ZoneRead, DnsEdit]),
            &[],
            ["failed", "tunnels", "Authentication error", "Account: Cloudflare Tunnel: Edit"],
        ),
        (
            "the same, where the dashboard has another name for it",
            |cloudflare| only(cloudflare, &[ZoneRead, DnsEdit]),
            &[],
            [
                "failed",
                "tunnels",
                "Authentication error",
                "Cloudflare One Connectors, Cloudflare One Connector: cloudflared or Argo Tunnel (Legacy)",
            ],
        ),
        (
            "no zone",
            |cloudflare| cloudflare.token_mut(TOKEN).zones = Some(Vec::new()),
            &[],
            ["failed", "zones", "the token sees none", "Zone: Zone: Read"],
        ),
        (
            "an account that no zone speaks for",
            |cloudflare| cloudflare.token_mut(TOKEN).zones = Some(Vec::new()),
            &[],
            ["untried", "account", "no zone to tell", ""],
        ),
        (
            "no zone to tell the account from",
            |cloudflare| cloudflare.token_mut(TOKEN).zones = Some(Vec::new()),
            &[("CF_ACCOUNT_ID", "")],
            ["failed", "account", "cannot be told", "CF_ACCOUNT_ID"],
        ),
        (
            "another account",
            |_| (),
            &[("CF_ACCOUNT_ID", "ffffffffffffffffffffffffffffffff")],
            ["failed", "account", "no zone within the filters belongs to ffff", "example.com belongs to"],
        ),
        (
            "another account's tunnels",
            |_| (),
            &[("CF_ACCOUNT_ID", "ffffffffffffffffffffffffffffffff")],
            ["failed", "tunnels", "credentials not accepted", "CF_ACCOUNT_ID is the account of the tunnels"],
        ),
        (
            "two accounts",
            |cloudflare| {
                let other = cloudflare.add_account("other");
                cloudflare.add_zone_to(&other, "example.org", Plan::Free);
            },
            &[("CF_ACCOUNT_ID", "")],
            ["failed", "account", "cannot be told", "set CF_ACCOUNT_ID"],
        ),
        (
            "a zone of another account",
            |cloudflare| {
                let other = cloudflare.add_account("other");
                cloudflare.add_zone_to(&other, "example.org", Plan::Free);
            },
            &[],
            ["warning", "zone example.org", "belongs to account", ""],
        ),
        (
            "a tunnel that is not there",
            |_| (),
            &[("CF_TUNNEL_ID", "home,office")],
            ["failed", "tunnel office", "there are \"home\"", "correct CF_TUNNEL_ID"],
        ),
        (
            "a tunnel configured by a file",
            |cloudflare| cloudflare.tunnel_mut("home").config_source = ConfigSource::Local,
            &[],
            ["failed", "tunnel home", "configured by a file", "ALLOW_LOCAL_CONFIG=true"],
        ),
        (
            "the same, allowed",
            |cloudflare| cloudflare.tunnel_mut("home").config_source = ConfigSource::Local,
            &[("ALLOW_LOCAL_CONFIG", "true")],
            ["warning", "tunnel home", "takes over", ""],
        ),
        (
            "a tunnel that nobody serves",
            |cloudflare| cloudflare.tunnel_mut("home").connectors = 0,
            &[],
            ["warning", "connectors of home", "none", "run cloudflared"],
        ),
        (
            "a connector that lags behind",
            |cloudflare| {
                let document = r#"{"ingress":[{"service":"http_status:404"}]}"#;
                cloudflare.put_configuration("home", document).expect("cloudflared takes it");
                cloudflare.tunnel_mut("home").lagging_at = Some(0);
            },
            &[],
            ["warning", "connectors of home", "applied version 0 only", "its log"],
        ),
        (
            "Access where cloudflared does not look for it",
            |cloudflare| {
                let document = r#"{"ingress":[{"service":"http_status:404"}],"originRequest":{"access":{"required":true,"teamName":"x","audTag":["y"]}}}"#;
                cloudflare.put_configuration("home", document).expect("cloudflared takes it");
            },
            &[],
            ["warning", "configuration of home", "requires Access", ""],
        ),
        (
            "a filter that takes no zone",
            |_| (),
            &[("DOMAIN_FILTER", "example.org")],
            ["failed", "zones", "take none of the 1 that the token sees: example.com", "DOMAIN_FILTER"],
        ),
        (
            "a zone that is not seen",
            |_| (),
            &[("ZONE_ID_FILTER", "ffffffffffffffffffffffffffffffff")],
            ["warning", "zone ffffffffffffffffffffffffffffffff", "ZONE_ID_FILTER", "Zone: Zone: Read"],
        ),
        (
            "a zone that is not active",
            |cloudflare| cloudflare.zone_mut("example.com").status = "pending".to_owned(),
            &[],
            ["warning", "zone example.com", "pending", ""],
        ),
        (
            "a token that expires soon",
            |cloudflare| cloudflare.token_mut(TOKEN).expires_on = Some("2026-01-01T00:00:00Z".to_owned()),
            &[],
            ["warning", "token", "expires 2026-01-01T00:00:00Z", "another one"],
        ),
        (
            "a token that expires one day",
            |cloudflare| cloudflare.token_mut(TOKEN).expires_on = Some("2999-12-31T23:59:59Z".to_owned()),
            &[],
            ["ok", "token", "expires 2999-12-31T23:59:59Z", ""],
        ),
        ("a dry run", |_| (), &[("DRY_RUN", "true")], ["warning", "DRY_RUN", "nothing", "unset"]),
        (
            "what the configuration warns of",
            |_| (),
            &[("SERVER_PORT", "tcp://10.0.0.1:8888")],
            ["warning", "configuration", "SERVER_PORT", ""],
        ),
        (
            "owners",
            |cloudflare| {
                let target = cloudflare.tunnel("home").hostname();
                let comment = "external-dns owner=blue rules=-";
                let record = json!({"name": "x", "type": "CNAME", "content": target, "proxied": true, "comment": comment});
                cloudflare.add_record("example.com", record).expect("Cloudflare takes it");
            },
            &[("OWNER_ID", "green"), ("OWNERSHIP", "txt")],
            ["ok", "ownership", "other owners in these zones: blue", "--txt-owner-id=green --registry=txt"],
        ),
    ];
    for (label, edit, variables, [status, what, found, to_do]) in cases {
        let scene = Scene::new();
        scene.cloudflare.edit(edit);
        let (report, table) = check(&scene, variables);
        let named = report.checks.iter().any(|check| {
            (&*check.status, &*check.what) == (*status, *what)
                && check.found.contains(found)
                && match to_do {
                    &"" => check.to_do.is_none(),
                    text => check.to_do.as_ref().is_some_and(|to_do| to_do.contains(text)),
                }
        });
        assert!(named, "{label}:\n{table}");
        assert!(report.checks.len() > 1, "{label}: what was not tried is said\n{table}");
    }
}

/// The address of a form that is filled in, as Cloudflare documents it: a list of keys and levels, encoded.
#[test]
fn where_a_permission_is_missing_one_line_leads_to_a_form_with_all_of_them() {
    let form = "https://dash.cloudflare.com/profile/api-tokens?permissionGroupKeys=%5B\
         %7B%22key%22%3A%22zone%22%2C%22type%22%3A%22read%22%7D%2C\
         %7B%22key%22%3A%22dns%22%2C%22type%22%3A%22edit%22%7D%2C\
         %7B%22key%22%3A%22argotunnel%22%2C%22type%22%3A%22edit%22%7D%5D&accountId=*&zoneId=all&name=external-dns";
    let scene = Scene::new();
    scene.cloudflare.edit(|cloudflare| only(cloudflare, &[Permission::ZoneRead]));
    let (report, table) = check(&scene, &[]);
    let last = report.checks.last().expect("there are several");
    assert_eq!((&*last.status, &*last.what), ("failed", "permissions"), "{table}");
    assert!(last.to_do.as_ref().is_some_and(|text| text.ends_with(form)), "{table}");
    assert_eq!(table.matches(form).count(), 1, "whole, and once\n{table}");

    let (_, table) = check(&Scene::new(), &[]);
    assert!(!table.contains("https://"), "where nothing is missing nothing is said\n{table}");
}

#[test]
fn a_loop_that_would_use_up_the_rate_limit_is_warned_of() {
    let scene = Scene::new();
    scene.cloudflare.edit(|cloudflare| {
        for number in 0..230 {
            cloudflare.add_zone(&format!("example{number}.org"), Plan::Free);
        }
    });
    let (report, table) = check(&scene, &[]);
    let limit = report.checks.iter().find(|check| check.what == "rate limit").expect("it is said");
    assert_eq!(limit.status, "warning", "{table}");
    assert!(limit.to_do.as_ref().is_some_and(|text| text.contains("--interval")), "{table}");
}

/// What Cloudflare says may repeat what it was sent, and a tunnel's name may hold anything.
#[test]
fn neither_a_secret_nor_a_forged_line_comes_from_cloudflare() {
    let scene = Scene::new();
    scene.cloudflare.edit(|cloudflare| {
        cloudflare.tunnel_mut(&scene.tunnel).name = "home\nok       all  is well\u{1b}[2J".to_owned();
    });
    let repeats = format!("the token {TOKEN} may not do this");
    scene.cloudflare.fault_every(Matcher::list_records(), Fault::error(403, 10000, &repeats));
    let id = scene.tunnel.clone();
    let said = run(&scene, &["check"], &[("CF_TUNNEL_ID", &id)]);
    assert_eq!(said.code, Some(1));
    assert!(said.out.contains("[redacted]") && !said.out.contains('\u{1b}'), "{}", said.out);
    assert!(said.out.lines().all(|line| !line.starts_with("ok       all")), "{}", said.out);
}

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
}

/// Runs `list` twice, wants both to say the same, and answers the lines with one blank between the cells.
fn list(scene: &Scene, variables: &[(&str, &str)]) -> Vec<String> {
    let table = run(scene, &["list"], variables);
    let json = run(scene, &["--json", "list"], variables);
    assert_eq!((table.code, json.code), (Some(0), Some(0)), "{}{}", table.errors, json.errors);
    assert_eq!((&*table.errors, &*json.errors), ("", ""));
    let Listing { entries } = serde_json::from_str(&json.out).expect("it is JSON");
    let mut lines = table.out.lines();
    let header = lines.next().expect("a header");
    assert_eq!(
        header.split_whitespace().collect::<Vec<_>>(),
        ["HOSTNAME", "PATH", "SERVICE", "TUNNEL", "OWNER", "STATE"]
    );
    let lines: Vec<String> =
        lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let expected: Vec<String> = entries
        .iter()
        .map(|Entry { hostname, path, service, tunnel, owner, state, drift }| {
            let [path, service, tunnel, owner] =
                [path, service, tunnel, owner].map(|cell| cell.as_deref().unwrap_or("-"));
            let drift = if state == "drift" { format!(": {}", drift.join(", ")) } else { String::new() };
            format!("{hostname} {path} {service} {tunnel} {owner} {state}{drift}")
        })
        .collect();
    assert_eq!(lines, expected, "the table and the document agree");
    lines
}

#[test]
fn a_list_shows_what_is_ours_what_is_foreign_and_what_is_amiss() {
    let scene = Scene::with_foreign();
    let external_dns_program = scene.start();
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

    let blue = Digest::of(&TunnelId::parse(&scene.tunnel).expect("an id"), None);
    scene.cloudflare.edit(|cloudflare| {
        let zone = &scene.zone;
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
        let target = cloudflare.tunnel(&scene.tunnel).hostname();
        let comment = format!("external-dns owner=blue rules={blue}");
        let theirs =
            json!({"name": "blue", "type": "CNAME", "content": target, "proxied": true, "comment": comment});
        cloudflare.add_record(zone, theirs).expect("Cloudflare takes it");
        let org = cloudflare.add_zone("example.org", Plan::Free);
        let bare = json!({"name": "bare", "type": "CNAME", "content": target, "proxied": true});
        cloudflare.add_record(&org, bare).expect("Cloudflare takes it");
        // Their rule comes, and one of ours goes.
        let config = cloudflare.configuration(&scene.tunnel).expect("it is configured").get().to_owned();
        let mut config: serde_json::Value = serde_json::from_str(&config).expect("it is JSON");
        let rules = config["ingress"].as_array_mut().expect("it has rules");
        rules.retain(|rule| rule["hostname"] != "api.example.com");
        rules.insert(0, json!({"hostname": "blue.example.com", "service": "http://blue:80"}));
        cloudflare.put_configuration(&scene.tunnel, &config.to_string()).expect("cloudflared takes it");
    });

    let api = TunnelId::parse(&scene.tunnel).expect("an id");
    let api = Digest::of(&api, Some("^/v1(/|$)"));
    assert_eq!(
        list(&scene, &[]),
        [
            "*.example.com - http://wild:80 home - foreign".to_owned(),
            "alone.example.com - none home default ours".to_owned(),
            format!("api.example.com lost:{api} - home default record without rule"),
            "bare.example.org - - home - record without rule".to_owned(),
            "bent.example.com - http://bent:80 home default drift: proxied".to_owned(),
            "blue.example.com - http://blue:80 home blue foreign".to_owned(),
            "hand.example.com - http://theirs:80 home - rule without record".to_owned(),
            "lost.example.com - http://lost:80 home default ours".to_owned(),
            "lost.example.com lost:zzz - home default record without rule".to_owned(),
            "web.example.com - http://web:80 home default ours".to_owned(),
        ]
    );
    assert_eq!(
        list(&scene, &[("DOMAIN_FILTER", "web.example.com")]),
        ["web.example.com - http://web:80 home default ours"]
    );
}

#[test]
fn a_list_of_thousands_of_rules_is_there_at_once() {
    let scene = Scene::new();
    let target = scene.cloudflare.edit(|cloudflare| cloudflare.tunnel(&scene.tunnel).hostname());
    let names: Vec<String> = (0..3_000).map(|number| format!("host{number:04}.example.com")).collect();
    let records: Vec<serde_json::Value> = names
        .iter()
        .map(|name| json!({"name": name, "type": "CNAME", "content": target, "proxied": true}))
        .collect();
    scene.cloudflare.add_records(&scene.zone, &records).expect("Cloudflare takes them");
    let rules: Vec<String> = names
        .iter()
        .map(|name| format!(r#"{{"hostname":"{name}","service":"http://web:80"}}"#))
        .chain([r#"{"service":"http_status:404"}"#.to_owned()])
        .collect();
    let document = format!(r#"{{"ingress":[{}]}}"#, rules.join(","));
    scene.cloudflare.put_configuration(&scene.tunnel, &document).expect("cloudflared takes it");
    let lines = list(&scene, &[]);
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
        ("the tunnel", |_| (), &[("CF_TUNNEL_ID", "office")], "\"office\" is no tunnel"),
        (
            "the records",
            |cloudflare| only(cloudflare, &[Permission::ZoneRead, Permission::TunnelEdit]),
            &[],
            "reading from Cloudflare failed",
        ),
    ] {
        let scene = Scene::new();
        scene.cloudflare.edit(edit);
        for arguments in [&["list"][..], &["list", "--json"]] {
            let said = run(&scene, arguments, variables);
            assert_eq!((said.code, &*said.out), (Some(1), ""), "{label}");
            assert!(said.errors.contains(expected) && said.errors.lines().count() == 1, "{}", said.errors);
        }
    }
}

#[test]
fn a_command_that_calls_cloudflare_needs_the_configuration_whole() {
    for command in ["check", "list"] {
        let output = program().args([command, "--json"]).output().expect("the program was built");
        let said = said(&output, &[]);
        assert_eq!((said.code, &*said.out), (Some(64), ""), "{command}");
        assert!(
            said.errors.contains("CF_API_TOKEN") && said.errors.contains("CF_TUNNEL_ID"),
            "{}",
            said.errors
        );
        let scene = Scene::new();
        let said = run(&scene, &[command], &[("CF_API_BASE_URL", "api.cloudflare.com")]);
        assert_eq!(said.code, Some(64), "{command}");
    }
}

/// Who wants to see the calls sets the level; what the command says stays apart from them.
#[test]
fn the_calls_are_logged_on_the_other_stream_where_that_is_asked_for() {
    let scene = Scene::new();
    for command in ["check", "list"] {
        let said = run(&scene, &[command, "--log-level=debug"], &[]);
        assert_eq!(said.code, Some(0));
        assert!(said.errors.contains("call method=GET"), "{}", said.errors);
        assert!(!said.out.contains("method="), "{}", said.out);
    }
}

#[allow(clippy::disallowed_methods, reason = "how long the process takes is what the test is about")]
fn healthcheck(variables: &[(&str, &str)]) -> (Option<i32>, String, Duration) {
    let begun = Instant::now();
    let output = program().arg("healthcheck").envs(variables.iter().copied()).output().expect("it was built");
    let said = said(&output, variables);
    assert_eq!(said.out, "");
    (said.code, said.errors, begun.elapsed())
}

fn port_of(address: SocketAddr) -> String {
    address.port().to_string()
}

#[test]
fn a_running_program_is_healthy_whatever_cloudflare_says_and_a_stopped_one_is_not() {
    let scene = Scene::new();
    scene.cloudflare.fault_every(Matcher::any(), Fault::Reset);
    let serving = scene.start_unready(&[]);
    let port = port_of(serving.observation());
    for variables in [
        &[("METRICS_PORT", &*port)][..],
        &[("METRICS_PORT", &*port), ("METRICS_HOST", "127.0.0.1")],
        &[("HEALTHZ_PORT", &*port), ("METRICS_HOST", "0.0.0.0")],
    ] {
        let (code, errors, _) = healthcheck(variables);
        assert_eq!((code, &*errors), (Some(0), ""), "{variables:?}");
    }
    let output = program().args(["--metrics-port", &port, "healthcheck"]).output().expect("it was built");
    assert_eq!(output.status.code(), Some(0), "by its flag");
    drop(serving);
    let (code, errors, _) = healthcheck(&[("METRICS_PORT", &*port)]);
    assert_eq!(code, Some(1));
    assert!(errors.contains(&port), "{errors}");
}

#[test]
fn a_program_that_listens_on_the_other_loopback_alone_is_found() {
    let scene = Scene::new();
    let Ok(_) = TcpListener::bind("[::1]:0") else {
        return;
    };
    let serving = scene.start_unready(&[("METRICS_HOST", "::1")]);
    let port = port_of(serving.observation());
    assert_eq!(healthcheck(&[("METRICS_PORT", &*port)]).0, Some(0));
    assert_eq!(healthcheck(&[("METRICS_PORT", &*port), ("METRICS_HOST", "127.0.0.1")]).0, Some(1));
}

#[derive(Clone, Copy)]
enum Peer {
    Hangs,
    /// Sends a byte now and then, so that no single read takes long.
    Drips,
    Answers(&'static [u8]),
}

impl Peer {
    /// Answers one request; goes on until `over` where it does not end by itself.
    fn serve(self, listener: &TcpListener, over: &Receiver<()>) {
        let (mut stream, _) = listener.accept().expect("the command asks");
        let read = stream.read(&mut [0; 1024]).expect("it asks in one piece");
        assert!(read > 0, "it asks");
        match self {
            Self::Hangs => drop(over.recv()),
            Self::Drips => {
                while over.recv_timeout(Duration::from_millis(50)) == Err(RecvTimeoutError::Timeout) {
                    drop(stream.write_all(b"x"));
                }
            }
            Self::Answers(answer) => stream.write_all(answer).expect("the command reads"),
        }
    }
}

/// A container runtime waits a few seconds, and must then learn more than that it waited.
#[test]
fn what_does_not_answer_well_is_not_healthy_and_not_waited_for() {
    for (label, peer, expected) in [
        ("nothing", Peer::Hangs, "no answer within"),
        ("no end", Peer::Drips, "no answer within"),
        ("nothing, and closes", Peer::Answers(b""), "answered \"\""),
        ("another status", Peer::Answers(b"HTTP/1.1 503 Service Unavailable\r\n\r\n"), "503"),
        ("another protocol", Peer::Answers(b"SSH-2.0-OpenSSH_9.9\r\n"), "SSH"),
        ("no end of line", Peer::Answers(&[b'x'; 4096]), "xxx"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let port = port_of(listener.local_addr().expect("it is bound"));
        let (over, wait) = mpsc::channel::<()>();
        let server = thread::spawn(move || peer.serve(&listener, &wait));
        let (code, errors, took) = healthcheck(&[("METRICS_PORT", &*port)]);
        drop(over);
        server.join().expect("it ends");
        assert_eq!(code, Some(1), "{label}");
        assert!(errors.contains(expected), "{label}: {errors}");
        assert!(took < limits::HEALTHCHECK_TIMEOUT + SLACK, "{label} took {took:?}");
    }
}

#[test]
fn a_health_check_needs_its_port_and_nothing_else() {
    let (code, errors, _) = healthcheck(&[("METRICS_PORT", "0")]);
    assert_eq!((code, errors.contains("METRICS_PORT is 0")), (Some(1), true), "{errors}");
    for (name, value) in [("METRICS_PORT", "http"), ("METRICS_HOST", "nowhere")] {
        let (code, errors, _) = healthcheck(&[(name, value)]);
        assert_eq!(code, Some(64), "{errors}");
        assert!(errors.contains(name), "{errors}");
    }
}

#[test]
fn the_version_is_the_same_in_both_forms_and_needs_no_configuration() {
    let outputs = ["version", "--version"].map(|argument| {
        let output = program().arg(argument).output().expect("it was built");
        assert_eq!(output.status.code(), Some(0), "{argument}");
        String::from_utf8(output.stdout).expect("it is UTF-8")
    });
    let expected = concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(outputs, [expected; 2]);
}

#[test]
fn an_unknown_command_is_a_usage_error_that_names_the_known_ones() {
    let output = program().arg("chek").output().expect("it was built");
    let said = said(&output, &[]);
    assert_eq!((said.code, &*said.out), (Some(64), ""));
    for command in ["serve", "check", "list", "healthcheck", "version"] {
        assert!(said.errors.contains(command), "{}", said.errors);
    }
}

#[test]
fn a_reader_that_goes_away_changes_no_exit_code() {
    let scene = Scene::new();
    for (arguments, variables, expected) in [
        (&["version"][..], &[][..], 0),
        (&["check"], &[], 0),
        (&["check", "--json"], &[("CF_TUNNEL_ID", "office")], 1),
        (&["list"], &[], 0),
        (&["list"], &[("CF_TUNNEL_ID", "office")], 1),
        (&["healthcheck"], &[("METRICS_PORT", "0")], 1),
        (&["chek"], &[], 64),
    ] {
        let mut child = program()
            .args(arguments)
            .envs([
                ("CF_API_TOKEN", TOKEN),
                ("CF_TUNNEL_ID", "home"),
                ("CF_API_BASE_URL", &*scene.cloudflare.base_url()),
            ])
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it was built");
        drop((child.stdout.take(), child.stderr.take()));
        assert_eq!(child.wait().expect("it ends").code(), Some(expected), "{arguments:?} {variables:?}");
    }
}
