//! `check`: what is right and what is not, line by line.

use cloudflare_emulator::{Cloudflare, Fault, Matcher, Permission, Plan};
use serde::Deserialize;
use test_support::harness::{Harness, TOKEN};

use super::run;

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
    pub(super) to_do: Option<String>,
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
            "ok ownership",
            "untried writing",
            "ok rate limit",
        ]
    );
    for part in [
        "active\n",
        &*harness.tunnel,
        "version 1, 3 rules",
        "active, paid plan",
        "3, 0 of them ours",
        "--txt-owner-id=default --registry=noop (or txt)",
        "costs 2 calls: with an --interval of 60 s 10 of the 1200",
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
    assert!(last.to_do.as_ref().is_some_and(|text| text.ends_with(form)), "{table}");
    assert_eq!(table.matches(form).count(), 1, "whole, and once\n{table}");

    let (_, table) = check(&Harness::new(), &[]);
    assert!(!table.contains("https://"), "where nothing is missing nothing is said\n{table}");
}

/// What reads a run token may write a tunnel, and what may not is told of before the first write fails.
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

#[test]
fn a_loop_that_would_use_up_the_rate_limit_is_warned_of() {
    let harness = Harness::new();
    harness.cloudflare.edit(|cloudflare| {
        for number in 0..230 {
            cloudflare.add_zone(&format!("example{number}.org"), Plan::Free);
        }
    });
    let (report, table) = check(&harness, &[]);
    let limit = report.checks.iter().find(|check| check.what == "rate limit").expect("it is said");
    assert_eq!(limit.status, "warning", "{table}");
    assert!(limit.to_do.as_ref().is_some_and(|text| text.contains("--interval")), "{table}");
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
