//! How a process with an API port ends. The process is this test program itself, started once more.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail loudly, as tests do"
)]

#[path = "support/api.rs"]
mod api;
#[path = "support/raw_http.rs"]
mod raw_http;

use std::io::BufReader;
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use external_dns_cloudflare_tunnel_webhook::clock::{Clock, SystemClock};
use external_dns_cloudflare_tunnel_webhook::limits;
use external_dns_cloudflare_tunnel_webhook::shutdown::{Cause, Signals};
use external_dns_cloudflare_tunnel_webhook::webhook::server;

use api::{Fake, settings};
use raw_http::Client;

/// How long the service of the child takes for `GET /records`.
const WORK: Duration = Duration::from_secs(1);

#[allow(clippy::disallowed_methods, reason = "these tests measure how long an end takes")]
fn now() -> Instant {
    Instant::now()
}

struct Process {
    child: Child,
    output: BufReader<ChildStdout>,
    address: SocketAddr,
}

impl Process {
    fn start() -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "a_process_that_serves_until_it_is_told_to_end"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let address = api::line_after(&mut output, "listens on ").parse().unwrap();
        Self { child, output, address }
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }
}

#[test]
#[ignore = "run by other tests, which send it signals"]
fn a_process_that_serves_until_it_is_told_to_end() {
    let signals = Signals::install().unwrap();
    let bound = server::bind(settings()).unwrap();
    let address = bound.local_addrs().next().unwrap();
    let (asked, is_asked) = mpsc::channel();
    let service = Fake::new(move || {
        let _ = asked.send(());
        SystemClock.sleep(WORK);
        Ok(Vec::new())
    });
    let running = bound.serve(service, Arc::new(SystemClock), signals.shutdown()).unwrap();
    println!("listens on {address}");
    std::thread::spawn(move || {
        while is_asked.recv().is_ok() {
            println!("asked: once");
        }
    });
    let cause = signals.wait();
    println!("ends: {cause}");
    assert!(matches!(cause, Cause::Signal(_)));
    assert!(running.stop(limits::REQUEST_TIMEOUT_DEFAULT));
}

#[test]
fn either_signal_ends_an_idle_process_within_a_second() {
    for (name, cause) in [("TERM", "SIGTERM"), ("INT", "SIGINT")] {
        let mut process = Process::start();
        let mut idle = Client::connect(process.address);
        assert_eq!(idle.get("/").status, 200);
        let start = now();
        process.signal(name);
        assert!(api::line_after(&mut process.output, "ends: ").starts_with(cause), "{name}");
        assert!(process.child.wait().unwrap().success(), "{name}");
        assert!(start.elapsed() < Duration::from_secs(1), "{name}: {:?}", start.elapsed());
    }
}

#[test]
fn the_request_in_hand_is_answered_before_the_end() {
    let mut process = Process::start();
    let mut client = Client::connect(process.address);
    client.send("GET /records HTTP/1.1\r\nHost: x\r\n\r\n");
    api::line_after(&mut process.output, "asked: ");
    process.signal("TERM");
    assert_eq!(client.answer().status, 200);
    assert!(process.child.wait().unwrap().success());
}

#[test]
fn a_second_signal_ends_the_process_at_once() {
    let mut process = Process::start();
    let mut client = Client::connect(process.address);
    client.send("GET /records HTTP/1.1\r\nHost: x\r\n\r\n");
    api::line_after(&mut process.output, "asked: ");
    let start = now();
    process.signal("TERM");
    api::line_after(&mut process.output, "ends: ");
    process.signal("TERM");
    let status = process.child.wait().unwrap();
    assert_eq!((status.code(), status.signal()), (Some(143), None));
    assert!(start.elapsed() < WORK, "{:?}", start.elapsed());
    assert_eq!(client.rest(), "");
}
