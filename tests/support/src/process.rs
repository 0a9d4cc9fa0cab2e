//! The built program as a process of its own, and every line that it says.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use crate::clock::eventually;
use crate::external_dns::{Answer, ExternalDns, Registry, exchange};
use crate::harness::{Harness, TOKEN};

const PACKAGE: &str = "external-dns-cloudflare-tunnel-webhook";

/// No step of a process takes longer, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// The program that was built for the tests. Cargo puts it above the folder of the test's own executable.
pub fn built_program() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a file");
    let folder = test.parent().and_then(Path::parent).expect("a test is in a folder of its own");
    folder.join(PACKAGE)
}

/// Another one than was built for the tests, such as the static binary: `WEBHOOK_BINARY`.
#[allow(clippy::disallowed_methods, reason = "the environment of the tests says so")]
pub fn other_binary() -> Option<OsString> {
    std::env::var_os("WEBHOOK_BINARY")
}

pub fn program() -> Command {
    let mut command = Command::new(other_binary().unwrap_or_else(|| built_program().into()));
    command.env_clear().stdin(Stdio::null());
    command
}

/// A running process and every line that it has said.
pub struct Process {
    child: Child,
    observation: SocketAddr,
    lines: Receiver<String>,
    reader: Arc<Reader>,
    said: Vec<String>,
}

/// The thread that reads what is said: whether it is to wait, and whether it does.
#[derive(Default)]
struct Reader {
    is_held: AtomicBool,
    is_waiting: AtomicBool,
}

#[allow(clippy::disallowed_methods, reason = "a process is another thread; it is waited for, with a bound")]
impl Process {
    pub fn start(harness: &Harness, variables: &[(&str, &str)]) -> Self {
        let (account, base_url) = (harness.cloudflare.account(), harness.cloudflare.base_url());
        let of_harness = [
            ("CF_API_TOKEN", TOKEN),
            ("CF_ACCOUNT_ID", &*account),
            ("CF_TUNNEL_ID", "home"),
            ("CF_API_BASE_URL", &*base_url),
        ];
        Self::start_anywhere(&[&of_harness, variables].concat())
    }

    /// The same with no settings but these and its ports.
    pub fn start_anywhere(variables: &[(&str, &str)]) -> Self {
        let mut child = program()
            .envs([
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
        let reader = Arc::new(Reader::default());
        let held = Arc::clone(&reader);
        thread::spawn(move || {
            errors.lines().map_while(Result::ok).try_for_each(|line| {
                held.wait_while_held();
                sender.send(line)
            })
        });
        let observation = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self { child, observation, lines, reader, said: Vec::new() }
    }

    /// From now on what is said is not read, and the pipe has room for nothing more.
    pub fn block_standard_error(&mut self) {
        self.reader.is_held.store(true, Ordering::Release);
        let mut pipe = standard_error_of(&self.child);
        pipe.write_all(b"\n").expect("it is read");
        eventually("the reader", || self.reader.is_waiting.load(Ordering::Acquire));
        fill(&mut pipe);
    }

    /// What is said is read again.
    pub fn unblock_standard_error(&self) {
        self.reader.is_held.store(false, Ordering::Release);
    }

    /// An answer of the observation port.
    pub fn observe(&self, path: &str) -> Answer {
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        exchange(self.observation, &[request.as_bytes()]).expect("the port answers")
    }

    /// The address of the observation port, once it is ready.
    pub fn observation(&self) -> SocketAddr {
        self.observation
    }

    /// From the next line on what is said is not read.
    pub fn close_standard_error(&mut self) {
        self.lines = mpsc::channel().1;
    }

    /// A process that can work, and ExternalDNS to talk to it.
    pub fn start_ready(harness: &Harness, variables: &[(&str, &str)]) -> (Self, ExternalDns) {
        Self::start(harness, variables).ready()
    }

    /// The process once it can work.
    pub fn ready(mut self) -> (Self, ExternalDns) {
        let api = self.wait_for("api=").parse().expect("an address");
        self.observation = self.already_said("metrics=").parse().expect("an address");
        self.wait_until_ready();
        (self, ExternalDns { api, registry: Registry::Noop })
    }

    /// The word behind `marker` in the first line that has it. A marker `key=` is that pair in both formats.
    pub fn wait_for(&mut self, marker: &str) -> String {
        loop {
            let line = self
                .lines
                .recv_timeout(PATIENCE)
                .unwrap_or_else(|_| panic!("no {marker} in {:#?}", self.said));
            let found = word_behind(marker, &line);
            self.said.push(line);
            if let Some(found) = found {
                return found;
            }
        }
    }

    /// The same in what was said before.
    fn already_said(&self, marker: &str) -> String {
        let found = self.said.iter().find_map(|line| word_behind(marker, line));
        found.unwrap_or_else(|| panic!("no {marker} in {:#?}", self.said))
    }

    fn wait_until_ready(&self) {
        eventually("readiness", || self.observe("/readyz").status == 200);
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The most that was resident at once, in KiB.
    pub fn memory_peak_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux says it");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// Sends a signal; answers the exit code, how long it took, and everything that was said.
    pub fn end_with(mut self, signal: &str) -> (Option<i32>, Duration, Vec<String>) {
        let begun = Instant::now();
        self.signal(signal);
        let code = self.wait();
        let took = begun.elapsed();
        self.unblock_standard_error();
        let mut said = std::mem::take(&mut self.said);
        said.extend(self.lines.iter());
        (code, took, said)
    }

    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().expect("kill is there").success());
    }

    /// The exit code, `None` where a signal ended it.
    pub fn wait(&mut self) -> Option<i32> {
        self.child.wait().expect("it is our child").code()
    }
}

/// The pipe that a process writes its standard error to.
pub fn standard_error_of(child: &Child) -> File {
    let path = format!("/proc/{}/fd/2", child.id());
    File::options().write(true).custom_flags(libc::O_NONBLOCK).open(path).expect("it is ours")
}

/// Fills a pipe to the last byte.
pub fn fill(pipe: &mut File) {
    for size in [4096, 1] {
        while pipe.write(&vec![b'\n'; size]).is_ok() {}
    }
}

#[allow(clippy::disallowed_methods, reason = "as above")]
impl Reader {
    fn wait_while_held(&self) {
        while self.is_held.load(Ordering::Acquire) {
            self.is_waiting.store(true, Ordering::Release);
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A process that was not ended would outlive its test.
impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Up to the next blank, or to the quotation mark that ends a text in JSON.
fn word_behind(marker: &str, line: &str) -> Option<String> {
    let member = marker.strip_suffix('=').map(|key| format!("\"{key}\":\""));
    let (_, rest) = line.split_once(marker).or_else(|| line.split_once(&member?))?;
    Some(rest.split([' ', '"']).next().unwrap_or_default().to_owned())
}
