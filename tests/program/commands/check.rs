//! `check`: what is right and what is not, line by line.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use cloudflare_emulator::{Cloudflare, Fault, Matcher, NeverSetUp, Permission, Plan};
use external_dns_cloudflare_tunnel_webhook::commands::{self, Layout};
use serde::Deserialize;
use serde_json::json;
use test_support::clock::ManualClock;
use test_support::harness::{Harness, TOKEN};
use test_support::log::Log;
use test_support::process::built_program;

use super::{list, run};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Report {
    pub(super) ok: bool,
    pub(super) checks: Vec<Check>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Check {
    pub(super) status: String,
    pub(super) what: String,
    pub(super) found: String,
    pub(super) remedy: Option<String>,
}

/// Runs `check` twice: the table and the JSON document have to say the same, and the exit code too.
pub(super) fn check(harness: &Harness, variables: &[(&str, &str)]) -> (Report, String) {
    let table = run(harness, &["check"], variables);
    let json = run(harness, &["check", "--json"], variables);
    assert_eq!((&*table.errors, &*json.errors), ("", ""));
    assert_eq!(json.out.lines().count(), 1, "one document");
    let report: Report = serde_json::from_str(&json.out).expect("it is JSON");
    let is_well = report.checks.iter().all(|check| check.status != "failed");
    let code = Some(i32::from(!is_well));
    assert_eq!((report.ok, table.code, json.code), (is_well, code, code), "{}", table.out);
    assert_eq!(table.out.lines().count(), report.checks.len(), "{}", table.out);
    for (line, Check { status, what, found, remedy }) in table.out.lines().zip(&report.checks) {
        let remedy = remedy.as_ref().map(|text| format!("; to do: {text}")).unwrap_or_default();
        let rest = line.strip_prefix(&**status).map(str::trim_start);
        let rest = rest.and_then(|rest| rest.strip_prefix(&**what)).map(str::trim_start);
        assert_eq!(rest, Some(&*format!("{found}{remedy}")), "{line}");
    }
    (report, table.out)
}

fn statuses(report: &Report) -> Vec<String> {
    report.checks.iter().map(|check| format!("{} {}", check.status, check.what)).collect()
}

#[test]
fn a_check_of_what_is_right_says_so_line_by_line() {
    let harness = Harness::with_foreign();
    let (report, table) = check(&harness, &[]);
    assert_eq!(
        statuses(&report),
        [
            "ok token",
            "ok account",
            "ok tunnel home",
            "ok permission for home",
            "ok configuration of home",
            "ok connectors of home",
            "ok zone example.com",
            "ok records of example.com",
            "untried Access",
            "ok ownership",
            "untried writing",
        ]
    );
    for part in [
        "active, from CF_API_TOKEN\n",
        &*harness.tunnel,
        "version 1, 3 rules",
        "active, paid plan",
        "3, 0 of them ours",
        "--txt-owner-id=default --registry=noop (or txt)",
    ] {
        assert!(table.contains(part), "{part:?} is missing in:\n{table}");
    }
}

pub(super) fn only(cloudflare: &mut Cloudflare, permissions: &[Permission]) {
    cloudflare.token_mut(TOKEN).permissions = permissions.to_vec();
}

/// The address of a form that is filled in, as Cloudflare documents it: a list of keys and levels, encoded.
#[test]
fn where_a_permission_is_missing_one_line_leads_to_a_form_with_all_of_them() {
    let form = "https://dash.cloudflare.com/profile/api-tokens?permissionGroupKeys=%5B\
         %7B%22key%22%3A%22zone%22%2C%22type%22%3A%22read%22%7D%2C\
         %7B%22key%22%3A%22dns%22%2C%22type%22%3A%22edit%22%7D%2C\
         %7B%22key%22%3A%22argotunnel%22%2C%22type%22%3A%22edit%22%7D%5D&accountId=*&zoneId=all&name=external-dns";
    let harness = Harness::new();
    harness.cloudflare.edit(|cloudflare| only(cloudflare, &[Permission::ZoneRead]));
    let (report, table) = check(&harness, &[]);
    let last = report.checks.last().expect("there are several");
    assert_eq!((&*last.status, &*last.what), ("failed", "permissions"), "{table}");
    assert!(last.remedy.as_ref().is_some_and(|text| text.ends_with(form)), "{table}");
    assert_eq!(table.matches(form).count(), 1, "whole, and once\n{table}");

    let (_, table) = check(&Harness::new(), &[]);
    assert!(!table.contains("https://"), "where nothing is missing nothing is said\n{table}");
}

/// What reads a tunnel token may write a tunnel, and what may not is told of before the first write fails.
#[test]
fn a_token_that_may_only_read_tunnels_fails_the_check() {
    let harness = Harness::new();
    harness.cloudflare.edit(|cloudflare| {
        only(cloudflare, &[Permission::ZoneRead, Permission::DnsEdit, Permission::TunnelRead]);
    });
    let (report, table) = check(&harness, &[]);
    let failed: Vec<String> =
        statuses(&report).into_iter().filter(|line| line.starts_with("failed")).collect();
    assert_eq!(failed, ["failed permission for home", "failed permissions"], "{table}");
}

const ACCESS: [Permission; 3] =
    [Permission::AccessOrganizationRead, Permission::AccessRead, Permission::ZoneAccessRead];
const GUARD: [(&str, &str); 1] = [("ACCESS_GUARD", "true")];

/// An account with two zones and two applications.
fn with_access(permissions: &[Permission]) -> Harness {
    let harness = Harness::new();
    harness.cloudflare.edit(|cloudflare| {
        cloudflare.add_zone("example.org", Plan::Free);
        cloudflare.token_mut(TOKEN).permissions.extend(permissions);
        cloudflare.set_up_access("my-team");
        let include = json!([{"everyone": {}}]);
        let staff = json!({"name": "staff", "decision": "allow", "include": include});
        let staff = cloudflare.add_policy(&staff).expect("Cloudflare takes it");
        let application =
            |domain| json!({"type": "self_hosted", "name": domain, "domain": domain, "policies": [staff]});
        cloudflare.add_application(&application("web.example.com")).expect("Cloudflare takes it");
        let old = application("old.example.org");
        cloudflare.add_zone_application("example.org", &old).expect("Cloudflare takes it");
    });
    harness
}

fn lines_of_access(report: &Report) -> Vec<String> {
    let lines = report.checks.iter().filter(|check| check.what.starts_with("Access"));
    lines.map(|Check { status, what, found, .. }| format!("{status} {what}: {found}")).collect()
}

#[test]
fn with_the_access_guard_a_check_reads_what_it_would() {
    let harness = with_access(&ACCESS);
    let (report, table) = check(&harness, &GUARD);
    assert_eq!(
        lines_of_access(&report),
        [
            "ok Access: the team is my-team, with 1 applications",
            "ok Access applications of example.com: 0",
            "ok Access applications of example.org: 1",
        ],
        "{table}"
    );
    assert!(report.ok, "{table}");
    let unguarded = lines_of_access(&check(&harness, &[]).0);
    assert_eq!(
        unguarded,
        ["ok Access: the team is my-team, with 1 applications"],
        "nothing asks without the guard"
    );
}

/// As a rule whose object names them would be told.
#[test]
fn a_policy_that_a_setting_names_and_that_cannot_be_used_fails_the_check() {
    let harness = with_access(&ACCESS);
    harness.cloudflare.edit(|cloudflare| {
        for (name, decision) in [("twins", "allow"), ("twins", "allow"), ("public", "bypass")] {
            let policy = json!({"name": name, "decision": decision, "include": [{"everyone": {}}]});
            cloudflare.add_policy(&policy).expect("Cloudflare takes it");
        }
    });
    let variables = [("DEFAULT_ACCESS_POLICY", "staff,guests"), ("ACCESS_POLICIES", "twins,public")];
    let (report, table) = check(&harness, &variables);
    for (status, setting, found) in [
        ("ok", "DEFAULT_ACCESS_POLICY", "\"staff\" exists"),
        ("failed", "DEFAULT_ACCESS_POLICY", "no reusable Access policy of the account"),
        ("failed", "ACCESS_POLICIES", "\"twins\", which is the name of several policies: use the id"),
        ("failed", "ACCESS_POLICIES", "\"public\", which lets visitors past"),
    ] {
        let is_told = report
            .checks
            .iter()
            .any(|check| (&*check.status, &*check.what) == (status, setting) && check.found.contains(found));
        assert!(is_told, "{status} {setting} {found}\n{table}");
    }
}

#[test]
fn each_permission_that_the_access_guard_lacks_fails_the_check_by_name() {
    let organization = "Account: Access: Organizations, Identity Providers, and Groups: Read";
    for (missing, failed, remedy) in [
        (Permission::AccessOrganizationRead, vec!["Access"], organization),
        (Permission::AccessRead, vec!["Access"], "Account: Access: Apps and Policies: Edit"),
        (
            Permission::ZoneAccessRead,
            vec!["Access applications of example.com", "Access applications of example.org"],
            "Zone: Access: Apps and Policies: Read",
        ),
    ] {
        let held: Vec<Permission> = ACCESS.into_iter().filter(|held| *held != missing).collect();
        let (report, table) = check(&with_access(&held), &GUARD);
        // A form with the three permissions would take those of Access away.
        let lines: Vec<&Check> = report.checks.iter().filter(|check| check.status == "failed").collect();
        assert_eq!(lines.iter().map(|line| &*line.what).collect::<Vec<_>>(), failed, "{table}");
        let is_told = |line: &&Check| line.remedy.as_ref().is_some_and(|text| text.contains(remedy));
        assert!(lines.iter().all(is_told), "{table}");
    }
}

/// Each of them is missed only once the other one is there.
#[test]
fn where_both_permissions_of_access_are_missing_one_row_has_both_and_the_form_with_all_five() {
    let (report, table) = check(&with_access(&[]), &[("DEFAULT_ACCESS_POLICY", "staff")]);
    let failed: Vec<String> =
        statuses(&report).into_iter().filter(|line| line.starts_with("failed")).collect();
    assert_eq!(failed, ["failed Access"], "{table}");
    let access = report.checks.iter().find(|check| check.what == "Access").expect("a row");
    let remedy = access.remedy.as_deref().expect("a remedy");
    for part in [
        "Account: Access: Apps and Policies: Edit",
        "Account: Access: Organizations, Identity Providers, and Groups: Read",
        "%22argotunnel%22%2C%22type%22%3A%22edit%22%7D%2C%7B%22key%22%3A%22access%22%2C%22type%22%3A%22edit%22%7D%2C",
        "%7B%22key%22%3A%22access_acct%22%2C%22type%22%3A%22read%22%7D%5D&accountId=*",
    ] {
        assert!(remedy.contains(part), "{part} is missing in {remedy}");
    }
}

/// A record's comment says so by `!`; it has to be of the owner.
#[test]
fn access_that_cannot_be_read_fails_the_check_where_a_comment_of_ours_asks_for_it_and_is_untried_elsewhere() {
    let harness = list::with_access();
    list::publish(&harness, &[list::protected("web.example.com")]);
    let (report, table) = check(&harness, &[]);
    assert!(
        lines_of_access(&report).contains(&"ok Access: the team is my-team, with 1 applications".to_owned()),
        "{table}"
    );
    harness.cloudflare.edit(|cloudflare| {
        only(cloudflare, &[Permission::ZoneRead, Permission::DnsEdit, Permission::TunnelEdit]);
    });
    for (owner, status) in [("default", "failed"), ("other", "untried")] {
        let (report, table) = check(&harness, &[("OWNER_ID", owner)]);
        let access = report.checks.iter().find(|check| check.what == "Access").expect("a row");
        assert_eq!(access.status, status, "{table}");
        let remedy = access.remedy.as_deref().expect("a remedy");
        assert!(remedy.contains("Account: Access: Apps and Policies: Edit"), "{remedy}");
    }
}

#[test]
fn a_filter_that_takes_no_zone_is_one_mistake_before_what_follows_from_it() {
    let variables = [("CF_ACCOUNT_ID", ""), ("DOMAIN_FILTER", "example.org")];
    let (report, table) = check(&Harness::new(), &variables);
    let expected = ["ok token", "failed zones", "untried account", "untried tunnels", "ok ownership"];
    assert_eq!(statuses(&report)[..5], expected, "{table}");
    assert_eq!(table.matches("correct DOMAIN_FILTER").count(), 1, "{table}");
}

/// `serve` ignores such a record, and `list` calls it foreign.
#[test]
fn records_with_our_owner_that_point_to_a_tunnel_that_is_not_configured_are_warned_of() {
    let harness = Harness::new();
    let other = harness.cloudflare.add_tunnel("other");
    for (name, tunnel) in [("mine", &harness.tunnel), ("theirs", &other)] {
        let record = json!({
            "name": format!("{name}.example.com"), "type": "CNAME", "content": format!("{tunnel}.cfargotunnel.com"),
            "proxied": true, "comment": "external-dns owner=default rules=-",
        });
        harness.cloudflare.add_record(&harness.zone, record).expect("Cloudflare takes it");
    }
    let (report, table) = check(&harness, &[]);
    let mut rows = report.checks.iter().map(|check| (&*check.what, &*check.found));
    assert!(rows.any(|row| row == ("records of example.com", "2, 1 of them ours")), "{table}");
    let warning = report.checks.iter().find(|check| check.status == "warning").expect("a warning");
    assert_eq!(
        (&*warning.what, &*warning.found),
        (
            "records of example.com",
            "1 of them with the OWNER_ID \"default\" point to a tunnel that is not configured, so the webhook ignores them"
        )
    );
    let remedy = warning.remedy.as_deref().expect("a remedy");
    assert!(
        remedy.contains("give each one its own") && remedy.contains("list the old tunnel in CF_TUNNEL_ID"),
        "{remedy}"
    );
    let (report, table) = check(&harness, &[("CF_TUNNEL_ID", "home,other")]);
    assert!(report.checks.iter().all(|check| check.status != "warning"), "{table}");
}

/// For example without the `/client/v4`. The token is not at fault.
#[test]
fn a_wrong_path_of_the_api_is_not_told_as_a_wrong_token() {
    let harness = Harness::new();
    let without_path = harness.cloudflare.base_url().replace("/client/v4", "");
    let (report, table) = check(&harness, &[("CF_API_BASE_URL", &without_path)]);
    let [token, ..] = &report.checks[..] else { panic!("{table}") };
    let remedy = token.remedy.as_deref().expect("a remedy");
    assert!(token.status == "failed" && token.found.starts_with("not found"), "{table}");
    assert!(remedy.contains("CF_API_BASE_URL") && !remedy.contains("create a token"), "{table}");
}

/// A hundred zones take a minute.
#[test]
fn each_row_is_said_before_the_calls_for_the_next_one() {
    let harness = Harness::new();
    let clock = Log::default().marking(Arc::<ManualClock>::default());
    let mut calls = Vec::new();
    let say = &mut |row: &str| calls.push((row.to_owned(), harness.cloudflare.take_calls().len()));
    let config = harness.config(&[]);
    commands::check(config, clock, Layout::Lines, say);
    let calls_before = |what: &str| calls.iter().find(|(row, _)| row.contains(what)).expect("a row").1;
    assert_eq!(
        ["ok       token", "account", "tunnel home", "records of"].map(calls_before),
        [1, 1, 2, 1],
        "{calls:?}"
    );
}

/// Each read has its own time, however many zones were read before it.
#[test]
fn a_check_of_many_zones_fails_for_none_of_them() {
    let harness = Harness::new();
    let clock = Arc::<ManualClock>::default();
    let mut rows = String::new();
    let say = &mut |row: &str| {
        clock.put_ahead(Duration::from_secs(15));
        rows += row;
    };
    let report = commands::check(harness.config(&[]), Arc::clone(&clock) as _, Layout::Lines, say);
    assert!(report.is_success && rows.lines().count() > 5, "{rows}");
}

/// As a person sees it, through a terminal of util-linux.
#[test]
fn on_a_terminal_a_long_text_stands_below_its_row_the_remedy_on_a_line_and_the_form_below_the_table() {
    let harness = Harness::new();
    harness.cloudflare.edit(|cloudflare| only(cloudflare, &[Permission::ZoneRead]));
    let command = format!("{} check", built_program().display());
    let output = Command::new("script")
        .args(["--quiet", "--return", "--command", &command, "/dev/null"])
        .env_clear()
        .envs([("CF_API_TOKEN", TOKEN), ("CF_TUNNEL_ID", "home"), ("PATH", "/usr/bin:/bin")])
        .env("CF_API_BASE_URL", harness.cloudflare.base_url())
        .stdin(Stdio::null())
        .output()
        .expect("util-linux is installed");
    let text = String::from_utf8(output.stdout).expect("it is UTF-8").replace("\r\n", "\n");
    assert_eq!(output.status.code(), Some(1), "{text}");
    let (table, below) = text.split_once("\n\n").expect("something stands below");
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(
        table.contains("\nfailed   records of example.com\n    credentials not accepted; this call needs"),
        "{text}"
    );
    assert!(
        table.contains("\n    to do: give the token the permission Zone: DNS: Edit for this zone\n"),
        "{text}"
    );
    assert!(table.ends_with("has all three permissions filled in:\n    [1]"), "{text}");
    assert!(below.starts_with("[1] https://dash.cloudflare.com/"), "{text}");
}

#[test]
fn a_check_says_where_access_was_never_set_up() {
    for never in [NeverSetUp::NotEnabled, NeverSetUp::NotFound, NeverSetUp::WithoutDomain] {
        let harness = with_access(&ACCESS);
        harness.cloudflare.edit(|cloudflare| {
            let account = cloudflare.accounts()[0].id.clone();
            let organization = cloudflare.organization_mut(&account);
            (organization.team, organization.never_set_up) = (None, never);
        });
        let (report, table) = check(&harness, &GUARD);
        let lines = lines_of_access(&report);
        let [line] = &lines[..] else { panic!("the token lacks no permission\n{table}") };
        assert!(line.starts_with("failed Access: Access is not set up in the account"), "{table}");
        assert!(!table.contains("permission Account: Access"), "{table}");
        assert_eq!(table.matches("choose a team name").count(), 1, "{table}");
    }
}

#[test]
fn a_tunnel_that_the_setting_names_twice_is_checked_once() {
    let harness = Harness::new();
    let (report, table) = check(&harness, &[("CF_TUNNEL_ID", &format!("home,{},home", harness.tunnel))]);
    let of_tunnels = statuses(&report).into_iter().filter(|status| status.starts_with("ok tunnel"));
    assert_eq!(of_tunnels.count(), 1, "{table}");
}

/// What Cloudflare says may repeat what it was sent, and a tunnel's name may hold anything.
#[test]
fn neither_a_secret_nor_a_forged_line_comes_from_cloudflare() {
    let harness = Harness::new();
    harness.cloudflare.edit(|cloudflare| {
        cloudflare.tunnel_mut(&harness.tunnel).name = "home\nok       all  is well\u{1b}[2J".to_owned();
    });
    let repeats = format!("the token {TOKEN} may not do this");
    harness.cloudflare.fault_every(Matcher::list_records(), Fault::error(403, 10000, &repeats));
    let id = harness.tunnel.clone();
    let said = run(&harness, &["check"], &[("CF_TUNNEL_ID", &id)]);
    assert_eq!(said.code, Some(1));
    assert!(said.out.contains("[redacted]") && !said.out.contains('\u{1b}'), "{}", said.out);
    assert!(said.out.lines().all(|line| !line.starts_with("ok       all")), "{}", said.out);
}
