//! Each thing that is wrong is named by `check`, with what to do about it.

use std::net::TcpListener;
use std::sync::Arc;

use cloudflare_emulator::Permission::{DnsEdit, TunnelEdit, ZoneRead};
use cloudflare_emulator::{Cloudflare, ConfigSource, Plan, Token, TokenOwner, TokenStatus};
use external_dns_cloudflare_tunnel_webhook::commands;
use serde_json::json;
use test_support::clock::ManualClock;
use test_support::harness::{Harness, TOKEN};
use test_support::log::Log;

use super::check::{check, only};

const KEY: &str = "0123456789abcdef0123456789abcdef01234";

/// Of a Cloudflare that `edit` makes wrong, with these variables, one line has this status and subject, and words of the
/// finding and of the remedy.
fn assert_named(edit: impl FnOnce(&mut Cloudflare), variables: &[(&str, &str)], line: [&str; 4]) {
    let [status, what, found, to_do] = line;
    let harness = Harness::new();
    harness.cloudflare.edit(edit);
    let (report, table) = check(&harness, variables);
    let named = report.checks.iter().any(|check| {
        (&*check.status, &*check.what) == (status, what)
            && check.found.contains(found)
            && match to_do {
                "" => check.to_do.is_none(),
                text => check.to_do.as_ref().is_some_and(|to_do| to_do.contains(text)),
            }
    });
    assert!(named, "{table}");
    assert!(report.checks.len() > 1, "what was not tried is said\n{table}");
}

#[test]
fn an_unknown_token() {
    assert_named(
        |_| (),
        &[("CF_API_TOKEN", "a-token-that-nobody-made")],
        ["failed", "token", "Invalid API Token", "CF_API_TOKEN"],
    );
}

#[test]
fn a_malformed_token() {
    assert_named(
        |_| (),
        &[("CF_API_TOKEN", "short!")],
        ["failed", "token", "Invalid request headers", "CF_API_TOKEN"],
    );
}

#[test]
fn a_disabled_token() {
    assert_named(
        |cloudflare| cloudflare.token_mut(TOKEN).status = TokenStatus::Disabled,
        &[],
        ["failed", "token", "the token is disabled", "enable this one"],
    );
}

#[test]
fn an_expired_token() {
    assert_named(
        |cloudflare| cloudflare.token_mut(TOKEN).status = TokenStatus::Expired,
        &[],
        ["failed", "token", "the token has expired", "make a token"],
    );
}

#[test]
fn an_account_s_token_without_the_account() {
    assert_named(
        |cloudflare| {
            let account = cloudflare.accounts()[0].id.clone();
            cloudflare.token_mut(TOKEN).owner = TokenOwner::Account(account);
        },
        &[("CF_ACCOUNT_ID", "")],
        ["failed", "token", "Invalid API Token", "set CF_ACCOUNT_ID"],
    );
}

/// The account's own verification does not know the token then, and nothing is wrong with it.
#[test]
fn an_account_s_token_with_another_account() {
    assert_named(
        |cloudflare| {
            let account = cloudflare.accounts()[0].id.clone();
            cloudflare.token_mut(TOKEN).owner = TokenOwner::Account(account);
        },
        &[("CF_ACCOUNT_ID", "ffffffffffffffffffffffffffffffff")],
        ["failed", "token", "not accepted", "set CF_ACCOUNT_ID"],
    );
}

#[test]
fn a_wrong_pair_of_key_and_address() {
    assert_named(
        |cloudflare| cloudflare.add_token(Token::legacy_key(KEY, "ops@example.com")),
        &[("CF_API_TOKEN", ""), ("CF_API_KEY", KEY), ("CF_API_EMAIL", "other@example.com")],
        ["failed", "key", "Authentication error", "CF_API_KEY and CF_API_EMAIL"],
    );
}

#[test]
fn an_api_that_is_not_there() {
    let closed = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let unreachable = format!("http://{}/client/v4", closed.local_addr().expect("it is bound"));
    drop(closed);
    let config = Harness::new().config(&[("CF_API_BASE_URL", &unreachable)]);
    // Here, where the pauses between its calls take no time.
    let clock = Log::default().marking(Arc::<ManualClock>::default());
    let report = commands::check(config, clock, false).expect("its settings are right");
    let line = report.text.lines().next().expect("the token comes first");
    assert!(line.starts_with("failed") && line.contains("Cloudflare not reached"), "{line}");
    assert!(line.contains("CF_API_BASE_URL") && !report.is_well, "{line}");
}

#[test]
fn no_permission_for_zones() {
    assert_named(
        |cloudflare| only(cloudflare, &[DnsEdit, TunnelEdit]),
        &[],
        ["failed", "zones", "Authentication error", "Zone: Zone: Read"],
    );
}

#[test]
fn no_permission_for_dns() {
    assert_named(
        |cloudflare| only(cloudflare, &[ZoneRead, TunnelEdit]),
        &[],
        ["failed", "records of example.com", "Authentication error", "Zone: DNS: Edit"],
    );
}

#[test]
fn no_permission_for_tunnels() {
    assert_named(
        |cloudflare| only(cloudflare, &[ZoneRead, DnsEdit]),
        &[],
        ["failed", "tunnels", "Authentication error", "Account: Cloudflare Tunnel: Edit"],
    );
}

#[test]
fn no_permission_for_tunnels_where_the_dashboard_has_another_name_for_it() {
    assert_named(
        |cloudflare| only(cloudflare, &[ZoneRead, DnsEdit]),
        &[],
        [
            "failed",
            "tunnels",
            "Authentication error",
            "Cloudflare One Connectors, Cloudflare One Connector: cloudflared or Argo Tunnel (Legacy)",
        ],
    );
}

#[test]
fn no_zone() {
    assert_named(
        |cloudflare| cloudflare.token_mut(TOKEN).zones = Some(Vec::new()),
        &[],
        ["failed", "zones", "the token sees none", "Zone: Zone: Read"],
    );
}

#[test]
fn an_account_that_no_zone_speaks_for() {
    assert_named(
        |cloudflare| cloudflare.token_mut(TOKEN).zones = Some(Vec::new()),
        &[],
        ["untried", "account", "no zone to tell", ""],
    );
}

#[test]
fn no_zone_to_tell_the_account_from() {
    assert_named(
        |cloudflare| cloudflare.token_mut(TOKEN).zones = Some(Vec::new()),
        &[("CF_ACCOUNT_ID", "")],
        ["failed", "account", "cannot be told", "CF_ACCOUNT_ID"],
    );
}

#[test]
fn another_account() {
    assert_named(
        |_| (),
        &[("CF_ACCOUNT_ID", "ffffffffffffffffffffffffffffffff")],
        ["failed", "account", "no zone within the filters belongs to ffff", "example.com belongs to"],
    );
}

#[test]
fn another_account_s_tunnels() {
    assert_named(
        |_| (),
        &[("CF_ACCOUNT_ID", "ffffffffffffffffffffffffffffffff")],
        ["failed", "tunnels", "credentials not accepted", "CF_ACCOUNT_ID is the account of the tunnels"],
    );
}

#[test]
fn two_accounts() {
    assert_named(
        |cloudflare| {
            let other = cloudflare.add_account("other");
            cloudflare.add_zone_to(&other, "example.org", Plan::Free);
        },
        &[("CF_ACCOUNT_ID", "")],
        ["failed", "account", "cannot be told", "set CF_ACCOUNT_ID"],
    );
}

#[test]
fn a_zone_of_another_account() {
    assert_named(
        |cloudflare| {
            let other = cloudflare.add_account("other");
            cloudflare.add_zone_to(&other, "example.org", Plan::Free);
        },
        &[],
        ["warning", "zone example.org", "belongs to account", ""],
    );
}

#[test]
fn a_tunnel_that_is_not_there() {
    assert_named(
        |_| (),
        &[("CF_TUNNEL_ID", "home,office")],
        ["failed", "tunnel office", "there are \"home\"", "correct CF_TUNNEL_ID"],
    );
}

#[test]
fn a_tunnel_configured_by_a_file() {
    assert_named(
        |cloudflare| cloudflare.tunnel_mut("home").config_source = ConfigSource::Local,
        &[],
        ["failed", "tunnel home", "configured by a file", "ALLOW_LOCAL_CONFIG=true"],
    );
}

#[test]
fn a_tunnel_configured_by_a_file_that_is_allowed() {
    assert_named(
        |cloudflare| cloudflare.tunnel_mut("home").config_source = ConfigSource::Local,
        &[("ALLOW_LOCAL_CONFIG", "true")],
        ["warning", "tunnel home", "takes over", ""],
    );
}

#[test]
fn a_tunnel_that_nobody_serves() {
    assert_named(
        |cloudflare| cloudflare.tunnel_mut("home").connectors = 0,
        &[],
        ["warning", "connectors of home", "none", "run cloudflared"],
    );
}

#[test]
fn a_connector_that_lags_behind() {
    assert_named(
        |cloudflare| {
            let document = r#"{"ingress":[{"service":"http_status:404"}]}"#;
            cloudflare.put_configuration("home", document).expect("cloudflared takes it");
            cloudflare.tunnel_mut("home").lagging_at = Some(0);
        },
        &[],
        ["warning", "connectors of home", "applied version 0 only", "its log"],
    );
}

#[test]
fn access_where_cloudflared_does_not_look_for_it() {
    assert_named(
        |cloudflare| {
            let document = r#"{"ingress":[{"service":"http_status:404"}],"originRequest":{"access":{"required":true,"teamName":"x","audTag":["y"]}}}"#;
            cloudflare.put_configuration("home", document).expect("cloudflared takes it");
        },
        &[],
        ["warning", "configuration of home", "requires Access", ""],
    );
}

#[test]
fn a_filter_that_takes_no_zone() {
    assert_named(
        |_| (),
        &[("DOMAIN_FILTER", "example.org")],
        ["failed", "zones", "take none of the 1 that the token sees: example.com", "DOMAIN_FILTER"],
    );
}

#[test]
fn a_zone_that_is_not_seen() {
    assert_named(
        |_| (),
        &[("ZONE_ID_FILTER", "ffffffffffffffffffffffffffffffff")],
        ["warning", "zone ffffffffffffffffffffffffffffffff", "ZONE_ID_FILTER", "Zone: Zone: Read"],
    );
}

#[test]
fn a_zone_that_is_not_active() {
    assert_named(
        |cloudflare| cloudflare.zone_mut("example.com").status = "pending".to_owned(),
        &[],
        ["warning", "zone example.com", "pending", ""],
    );
}

#[test]
fn a_token_that_expires_soon() {
    assert_named(
        |cloudflare| cloudflare.token_mut(TOKEN).expires_on = Some("2026-01-01T00:00:00Z".to_owned()),
        &[],
        ["warning", "token", "expires 2026-01-01T00:00:00Z", "another one"],
    );
}

#[test]
fn a_token_that_expires_one_day() {
    assert_named(
        |cloudflare| cloudflare.token_mut(TOKEN).expires_on = Some("2999-12-31T23:59:59Z".to_owned()),
        &[],
        ["ok", "token", "expires 2999-12-31T23:59:59Z", ""],
    );
}

#[test]
fn a_dry_run() {
    assert_named(|_| (), &[("DRY_RUN", "true")], ["warning", "DRY_RUN", "nothing", "unset"]);
}

#[test]
fn what_the_configuration_warns_of() {
    assert_named(
        |_| (),
        &[("SERVER_PORT", "tcp://10.0.0.1:8888")],
        ["warning", "configuration", "SERVER_PORT", ""],
    );
}

#[test]
fn other_owners() {
    assert_named(
        |cloudflare| {
            let target = cloudflare.tunnel("home").hostname();
            let comment = "external-dns owner=blue rules=-";
            let record =
                json!({"name": "x", "type": "CNAME", "content": target, "proxied": true, "comment": comment});
            cloudflare.add_record("example.com", record).expect("Cloudflare takes it");
        },
        &[("OWNER_ID", "green")],
        [
            "ok",
            "ownership",
            "other owners in these zones: blue",
            "--txt-owner-id=green --registry=noop (or txt)",
        ],
    );
}
