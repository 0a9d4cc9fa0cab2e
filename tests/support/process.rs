//! The built program as a process of its own, and every line that it says.

#![allow(dead_code, reason = "every test takes what it needs")]
#![allow(clippy::panic, reason = "a helper that waits in vain fails the test")]

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use crate::external_dns::{ExternalDns, Registry, exchange};
use crate::harness::{Scene, TOKEN};

const PROGRAM: &str = env!("CARGO_BIN_EXE_external-dns-cloudflare-tunnel-webhook");

/// No step of a process takes longer, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn program() -> Command {
    let mut command = Command::new(PROGRAM);
    command.env_clear().stdin(Stdio::null());
    command
}

/// A running process and every line that it has said.
pub(crate) struct Process {
    child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
}

#[allow(clippy::disallowed_methods, reason = "a process is another thread; it is waited for, with a bound")]
impl Process {
    fn start(scene: &Scene, variables: &[(&str, &str)]) -> Self {
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
            ])
            .envs(variables.iter().copied())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program was built");
        let errors = BufReader::new(child.stderr.take().expect("it is piped"));
        let (sender, lines) = mpsc::channel();
        // Ends, and closes the pipe, with the next line after the receiver is gone.
        thread::spawn(move || errors.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines, said: Vec::new() }
    }

    /// From the next line on nobody reads what is said.
    pub(crate) fn close_standard_error(&mut self) {
        self.lines = mpsc::channel().1;
    }

    /// A process that can work, and ExternalDNS to talk to it.
    pub(crate) fn start_ready(scene: &Scene, variables: &[(&str, &str)]) -> (Self, ExternalDns) {
        let mut process = Self::start(scene, variables);
        let api = process.wait_for("api=").parse().expect("an address");
        let observation = process.already_said("observation=").parse().expect("an address");
        process.wait_until_ready(observation);
        (process, ExternalDns { api, registry: Registry::Noop })
    }

    /// The text behind `marker`, up to the next blank, in the first line that has it.
    fn wait_for(&mut self, marker: &str) -> String {
        loop {
            let line = self
                .lines
                .recv_timeout(PATIENCE)
                .unwrap_or_else(|_| panic!("no {marker} in {:#?}", self.said));
            let found = line.split_once(marker).map(|(_, rest)| first_word(rest).to_owned());
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
        first_word(rest).to_owned()
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
    pub(crate) fn end_with(mut self, signal: &str) -> (Option<i32>, Duration, Vec<String>) {
        let begun = Instant::now();
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().expect("kill is there").success());
        let status = self.child.wait().expect("it is our child");
        let took = begun.elapsed();
        let mut said = std::mem::take(&mut self.said);
        said.extend(self.lines.iter());
        (status.code(), took, said)
    }
}

/// One that nobody ended would outlive its test.
impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Up to the next blank, or to the quotation mark that ends a text in JSON.
fn first_word(text: &str) -> &str {
    text.split([' ', '"']).next().unwrap_or_default()
}
