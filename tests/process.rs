//! The built program as a process: exit codes, signals, and what it never says.

#[path = "support/external_dns.rs"]
mod external_dns;
#[path = "support/harness.rs"]
mod harness;
#[path = "support/process.rs"]
mod process;

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use cloudflare_emulator::{Fault, Matcher};
use harness::{Scene, TOKEN, published};
use process::{Process, program};

fn output(command: &mut Command) -> Output {
    command.output().expect("the program was built")
}

#[test]
fn every_mistake_is_reported_at_once_with_exit_code_64() {
    let output = output(program().args(["--request-timeout=1h", "--log-level=loud"]));
    assert_eq!(output.status.code(), Some(64));
    let errors = String::from_utf8_lossy(&output.stderr);
    for variable in ["CF_API_TOKEN", "CF_TUNNEL_ID", "REQUEST_TIMEOUT", "LOG_LEVEL"] {
        assert!(errors.contains(variable), "{variable} is missing in:\n{errors}");
    }
}

#[test]
fn an_address_of_the_api_that_is_none_is_a_mistake_in_the_configuration() {
    let output = output(program().envs([
        ("CF_API_TOKEN", TOKEN),
        ("CF_TUNNEL_ID", "home"),
        ("CF_API_BASE_URL", "api.cloudflare.com"),
        ("SERVER_PORT", "0"),
        ("METRICS_PORT", "0"),
    ]));
    assert_eq!(output.status.code(), Some(64));
}

#[test]
fn an_unknown_flag_is_a_usage_error() {
    assert_eq!(output(program().arg("--no-such-flag")).status.code(), Some(64));
}

#[test]
fn help_and_version_go_to_standard_output() {
    for (flag, expected) in [("--help", "CF_TUNNEL_ID"), ("--version", env!("CARGO_PKG_VERSION"))] {
        let output = output(program().arg(flag));
        assert_eq!(output.status.code(), Some(0), "{flag}");
        assert!(String::from_utf8_lossy(&output.stdout).contains(expected), "{flag}");
    }
}

#[test]
fn a_reader_of_the_help_that_goes_away_is_no_error() {
    let mut child = program().arg("--help").stdout(Stdio::piped()).spawn().expect("the program was built");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn a_port_that_is_taken_ends_the_program_with_a_clear_line() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let port = taken.local_addr().expect("it is bound").port().to_string();
    let output = output(program().envs([
        ("CF_API_TOKEN", TOKEN),
        ("CF_TUNNEL_ID", "home"),
        ("SERVER_HOST", "127.0.0.1"),
        ("SERVER_PORT", &port),
    ]));
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains(&port));
}

/// Pins that no log line, at any level, in good times and bad, shows the token.
#[test]
fn a_whole_run_at_trace_level_never_shows_the_token_and_a_signal_ends_it_well() {
    for signal in ["TERM", "INT"] {
        let scene = Scene::with_foreign();
        let (process, external_dns) = Process::start_ready(&scene, &[("LOG_LEVEL", "trace")]);
        let desired =
            [published("web.example.com", "http://web:80"), published("hand.example.com", "http://web:80")];
        external_dns.run_loop(&desired).expect("published");
        // What Cloudflare says may repeat what it was sent.
        let repeats = format!("the token {TOKEN} may not do this");
        scene.cloudflare.fault_every(Matcher::any(), Fault::error(403, 10000, &repeats));
        assert_eq!(external_dns.records().err(), Some(500));
        scene.cloudflare.clear_faults();
        external_dns.run_loop(&[]).expect("withdrawn");

        let (code, took, said) = process.end_with(signal);
        assert_eq!(code, Some(0), "{signal}");
        assert!(took < Duration::from_secs(1), "{signal} took {took:?}");
        assert!(
            said.iter().any(|line| line.contains("TRACE") || line.contains("DEBUG")),
            "the level was set"
        );
        for line in said {
            assert!(!line.contains(TOKEN), "{line}");
        }
    }
}
