//! The commands beside `serve`: the built program against the emulator, what it prints and how it ends.

mod check;
mod healthcheck;
mod list;
mod status;
mod tunnel;
mod wrong;

use std::process::{Output, Stdio};

use test_support::harness::{Harness, TOKEN};
use test_support::process::program;

/// What a command said, and its exit code.
struct Said {
    code: Option<i32>,
    out: String,
    errors: String,
}

/// Runs a command as an operator would. Whatever it is, it writes nothing and shows no secret.
fn run(harness: &Harness, arguments: &[&str], variables: &[(&str, &str)]) -> Said {
    harness.cloudflare.take_calls();
    let output = program()
        .args(arguments)
        .envs([
            ("CF_API_TOKEN", TOKEN),
            ("CF_ACCOUNT_ID", &*harness.cloudflare.account()),
            ("CF_TUNNEL_ID", "home"),
            ("CF_API_BASE_URL", &*harness.cloudflare.base_url()),
        ])
        .envs(variables.iter().copied())
        .output()
        .expect("the program was built");
    let writes: Vec<String> = harness
        .cloudflare
        .take_calls()
        .iter()
        .filter(|call| call.is_write())
        .map(|call| call.line())
        .collect();
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

#[test]
fn a_command_that_calls_cloudflare_needs_the_configuration_whole() {
    for command in ["check", "list", "tunnel"] {
        let output = program().args([command, "--json"]).output().expect("the program was built");
        let said = said(&output, &[]);
        assert_eq!((said.code, &*said.out), (Some(64), ""), "{command}");
        assert!(
            said.errors.contains("CF_API_TOKEN") && said.errors.contains("CF_TUNNEL_ID"),
            "{}",
            said.errors
        );
        let harness = Harness::new();
        let said = run(&harness, &[command], &[("CF_API_BASE_URL", "api.cloudflare.com")]);
        assert_eq!(said.code, Some(64), "{command}");
    }
}

/// An operator that wants to see the calls sets the level; what the command says stays apart from them.
#[test]
fn the_calls_are_logged_on_the_other_stream_where_that_is_asked_for() {
    let harness = Harness::new();
    for command in ["check", "list", "tunnel"] {
        let said = run(&harness, &[command, "--log-level=debug"], &[]);
        assert_eq!(said.code, Some(0));
        assert!(said.errors.contains("method=GET path=/"), "{}", said.errors);
        assert!(!said.out.contains("method="), "{}", said.out);
    }
}

#[test]
fn help_and_version_need_no_configuration() {
    let [help, version] = ["--help", "--version"].map(|argument| {
        let output = program().arg(argument).output().expect("it was built");
        assert_eq!(output.status.code(), Some(0), "{argument}");
        String::from_utf8(output.stdout).expect("it is UTF-8")
    });
    assert_eq!(version, concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION"), "\n"));
    assert!(help.contains("CF_TUNNEL_ID"), "{help}");
}

#[test]
fn an_unknown_command_is_a_usage_error_that_names_the_nearest_or_the_help() {
    for (word, see) in [("chek", "see check\n"), ("statu", "see status\n")] {
        let output = program().arg(word).output().expect("it was built");
        let said = said(&output, &[]);
        assert_eq!((said.code, &*said.out), (Some(64), ""));
        assert!(said.errors.ends_with(see), "{}", said.errors);
    }
}

#[test]
fn a_reader_that_goes_away_changes_no_exit_code() {
    let harness = Harness::new();
    for (arguments, variables, expected) in [
        (&["--version"][..], &[][..], 0),
        (&["--help"], &[], 0),
        (&["check"], &[], 0),
        (&["check", "--json"], &[("CF_TUNNEL_ID", "office")], 1),
        (&["list"], &[], 0),
        (&["list"], &[("CF_TUNNEL_ID", "office")], 1),
        (&["healthcheck"], &[("METRICS_PORT", "0")], 1),
        (&["status"], &[("METRICS_PORT", "0")], 69),
        (&["chek"], &[], 64),
    ] {
        let mut child = program()
            .args(arguments)
            .envs([
                ("CF_API_TOKEN", TOKEN),
                ("CF_TUNNEL_ID", "home"),
                ("CF_API_BASE_URL", &*harness.cloudflare.base_url()),
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
