//! Each thing that is wrong is named by `check`, with what to do about it.

use std::net::TcpListener;
use std::sync::Arc;

use cloudflare_emulator::Permission::{DnsEdit, TunnelEdit, ZoneRead};
use cloudflare_emulator::{Cloudflare, ConfigSource, Plan, Token, TokenOwner, TokenStatus};
use external_dns_cloudflare_tunnel_webhook::commands::{self, Layout};
use serde_json::json;
use test_support::clock::ManualClock;
use test_support::harness::{Harness, TOKEN};
use test_support::log::Log;

use super::check::{check, only};

const KEY: &str = "0123456789abcdef0123456789abcdef01234";

/// A label, what makes Cloudflare wrong, variables, and the line: status, subject, words of the finding and of the
/// remedy.
type Wrong = (&'static str, fn(&mut Cloudflare), &'static [(&'static str, &'static str)], [&'static str; 4]);

#[test]
fn whatever_is_wrong_is_named_with_what_to_do_about_it() {
    let wrong: [Wrong; 32] = [
        (
            "an unknown token",
            |_| (),
            &[("CF_API_TOKEN", "a-token-that-was-not-made")],
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
            ["failed", "token", "the token has expired", "create a token"],
        ),
        (
            "an account's token without the account",
            |cloudflare| {
                let account = cloudflare.accounts()[0].id.clone();
                cloudflare.token_mut(TOKEN).owner = TokenOwner::Account(account);
            },
            &[("CF_ACCOUNT_ID", "")],
            ["failed", "token", "Invalid API Token", "needs CF_ACCOUNT_ID"],
        ),
        // The account's own verification does not know the token then, and nothing is wrong with it.
        (
            "an account's token with another account",
            |cloudflare| {
                let account = cloudflare.accounts()[0].id.clone();
                cloudflare.token_mut(TOKEN).owner = TokenOwner::Account(account);
            },
            &[("CF_ACCOUNT_ID", "ffffffffffffffffffffffffffffffff")],
            ["failed", "token", "not accepted", "needs CF_ACCOUNT_ID"],
        ),
        (
            "a wrong pair of key and address",
            |cloudflare| cloudflare.add_token(Token::legacy_key(KEY, "ops@example.com")),
            &[("CF_API_TOKEN", ""), ("CF_API_KEY", KEY), ("CF_API_EMAIL", "other@example.com")],
            ["failed", "key", "Authentication error", "CF_API_KEY and CF_API_EMAIL"],
        ),
        (
            "no permission for zones",
            |cloudflare| only(cloudflare, &[DnsEdit, TunnelEdit]),
            &[],
            ["failed", "zones", "Authentication error", "Zone: Zone: Read"],
        ),
        (
            "no permission for dns",
            |cloudflare| only(cloudflare, &[ZoneRead, TunnelEdit]),
            &[],
            ["failed", "records of example.com", "Authentication error", "Zone: DNS: Edit"],
        ),
        (
            "no permission for tunnels",
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
            ["untried", "account", "no zone shows", ""],
        ),
        (
            "no zone to tell the account from",
            |cloudflare| cloudflare.token_mut(TOKEN).zones = Some(Vec::new()),
            &[("CF_ACCOUNT_ID", "")],
            ["failed", "zones", "the token sees none", "Zone: Zone: Read"],
        ),
        (
            "a filter that takes no zone to tell the account from",
            |_| (),
            &[("CF_ACCOUNT_ID", ""), ("DOMAIN_FILTER", "exmaple.com")],
            ["failed", "zones", "the filters match none of the 1", "correct DOMAIN_FILTER"],
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
            [
                "failed",
                "account",
                "no zone within the filters belongs to",
                "correct CF_ACCOUNT_ID: example.com",
            ],
        ),
        (
            "two accounts",
            |cloudflare| {
                let other = cloudflare.add_account("other");
                cloudflare.add_zone_to(&other, "example.org", Plan::Free);
            },
            &[("CF_ACCOUNT_ID", "")],
            ["failed", "account", "zones of several accounts", "set CF_ACCOUNT_ID"],
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
            "a tunnel configured by a file that is allowed",
            |cloudflare| cloudflare.tunnel_mut("home").config_source = ConfigSource::Local,
            &[("ALLOW_LOCAL_CONFIG", "true")],
            ["warning", "tunnel home", "replaces the file", ""],
        ),
        (
            "a tunnel without connectors",
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
            ["warning", "connectors of home", "applied only version 0", "the log of that cloudflared"],
        ),
        (
            "access where cloudflared does not look for it",
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
            [
                "failed",
                "zones",
                "match none of the 1 zones that the token sees: example.com",
                "DOMAIN_FILTER",
            ],
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
            ["warning", "token", "expires 2026-01-01T00:00:00Z", "another token before"],
        ),
        (
            "a token that expires one day",
            |cloudflare| cloudflare.token_mut(TOKEN).expires_on = Some("2999-12-31T23:59:59Z".to_owned()),
            &[],
            ["ok", "token", "expires 2999-12-31T23:59:59Z", ""],
        ),
        ("a dry run", |_| (), &[("DRY_RUN", "true")], ["warning", "configuration", "DRY_RUN is set", ""]),
        (
            "what the configuration warns of",
            |_| (),
            &[("SERVER_PORT", "tcp://10.0.0.1:8888")],
            ["warning", "configuration", "SERVER_PORT", ""],
        ),
        (
            "other owners",
            |cloudflare| {
                let target = cloudflare.tunnel("home").hostname();
                let comment = "external-dns owner=blue rules=-";
                let record = json!({"name": "x", "type": "CNAME", "content": target, "proxied": true, "comment": comment});
                cloudflare.add_record("example.com", record).expect("Cloudflare takes it");
            },
            &[("OWNER_ID", "green")],
            [
                "ok",
                "ownership",
                "other owners in these zones: blue",
                "--txt-owner-id=green --registry=noop (or txt)",
            ],
        ),
    ];
    for (label, edit, variables, [status, what, found, remedy]) in wrong {
        let harness = Harness::new();
        harness.cloudflare.edit(edit);
        let (report, table) = check(&harness, variables);
        let named = report.checks.iter().any(|check| {
            (&*check.status, &*check.what) == (status, what)
                && check.found.contains(found)
                && match remedy {
                    "" => check.remedy.is_none(),
                    text => check.remedy.as_ref().is_some_and(|to_do| to_do.contains(text)),
                }
        });
        assert!(named, "{label}\n{table}");
        assert!(report.checks.len() > 1, "{label}: what was not tried is said\n{table}");
    }
}

#[test]
fn an_api_that_is_not_there() {
    let closed = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let unreachable = format!("http://{}/client/v4", closed.local_addr().expect("it is bound"));
    drop(closed);
    let config = Harness::new().config(&[("CF_API_BASE_URL", &unreachable)]);
    // Here, where the pauses between its calls take no time.
    let clock = Log::default().marking(Arc::<ManualClock>::default());
    let mut rows = String::new();
    let report = commands::check(config, clock, Layout::Lines, &mut |row| rows += row);
    let line = rows.lines().next().expect("the token comes first");
    assert!(line.starts_with("failed") && line.contains("Cloudflare not reached"), "{line}");
    assert!(line.contains("CF_API_BASE_URL") && !report.is_success, "{line}");
}
