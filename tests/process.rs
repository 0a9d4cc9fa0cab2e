//! The built program as a process: exit codes, signals, and what it never says.

#![allow(clippy::panic, reason = "a helper that waits in vain fails the test")]

#[path = "support/external_dns.rs"]
mod external_dns;
#[path = "support/harness.rs"]
mod harness;

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use cloudflare_emulator::{Fault, Matcher};
use external_dns::{ExternalDns, Registry, exchange};
use harness::{Scene, TOKEN, published};

const PROGRAM: &str = env!("CARGO_BIN_EXE_external-dns-cloudflare-tunnel-webhook");

/// No step of a process takes longer, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(10);

fn program() -> Command {
    let mut command = Command::new(PROGRAM);
    command.env_clear().stdin(Stdio::null());
    command
}

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

/// A running process and every line that it has said.
struct Process {
    child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
}

#[allow(clippy::disallowed_methods, reason = "a process is another thread; it is waited for, with a bound")]
impl Process {
    fn start(scene: &Scene) -> Self {
        let mut child = program()
            .envs([
                ("CF_API_TOKEN", TOKEN),
                ("CF_ACCOUNT_ID", &*scene.cloudflare.account()),
                ("CF_TUNNEL_ID", "home"),
                ("CF_API_BASE_URL", &*scene.cloudflare.base_url()),
                ("SERVER_HOST", "127.0.0.1"),
                ("SERVER_PORT", "0"),
                ("METRICS_HOST", "127.0.0.1"),
                ("METRICS_PORT", "0"),
                ("LOG_LEVEL", "trace"),
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program was built");
        let errors = BufReader::new(child.stderr.take().expect("it is piped"));
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || errors.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines, said: Vec::new() }
    }

    /// The text behind `marker`, up to the next blank, in the first line that has it.
    fn wait_for(&mut self, marker: &str) -> String {
        loop {
            let line = self
                .lines
                .recv_timeout(PATIENCE)
                .unwrap_or_else(|_| panic!("no {marker} in {:#?}", self.said));
            let found = line
                .split_once(marker)
                .map(|(_, rest)| rest.split(' ').next().unwrap_or_default().to_owned());
            self.said.push(line);
            if let Some(found) = found {
                return found;
            }
        }
    }

    /// The same in what was said before.
    fn already_said(&self, marker: &str) -> String {
        let found = self.said.iter().find_map(|line| line.split_once(marker));
        let (_, rest) = found.unwrap_or_else(|| panic!("no {marker} in {:#?}", self.said));
        rest.split(' ').next().unwrap_or_default().to_owned()
    }

    fn wait_until_ready(&self, observation: SocketAddr) {
        let end = Instant::now() + PATIENCE;
        while !exchange(observation, &[b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n"])
            .is_ok_and(|answer| answer.status == 200)
        {
            assert!(Instant::now() < end, "not ready: {:#?}", self.said);
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends a signal; answers the exit code, how long it took, and everything that was said.
    fn end_with(mut self, signal: &str) -> (Option<i32>, Duration, Vec<String>) {
        let begun = Instant::now();
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().expect("kill is there").success());
        let status = self.child.wait().expect("it is our child");
        let took = begun.elapsed();
        self.said.extend(self.lines.iter());
        (status.code(), took, self.said)
    }
}

/// Pins that no log line, at any level, in good times and bad, shows the token.
#[test]
fn a_whole_run_at_trace_level_never_shows_the_token_and_a_signal_ends_it_well() {
    for signal in ["TERM", "INT"] {
        let scene = Scene::with_foreign();
        let mut process = Process::start(&scene);
        let api: SocketAddr = process.wait_for("api=").parse().expect("an address");
        let observation: SocketAddr = process.already_said("observation=").parse().expect("an address");
        process.wait_until_ready(observation);

        let external_dns = ExternalDns { api, registry: Registry::Noop };
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
