//! How a process with an API port ends. The process is this test program itself, started once more.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail loudly, as tests do"
)]

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

use super::api;
use super::api::{Fake, settings};
use crate::raw_http::{Client, WEBHOOK};

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
            .args([
                "--ignored",
                "--exact",
                "--nocapture",
                "webhook::shutdown::a_process_that_serves_until_it_is_told_to_end",
            ])
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
    let running = bound.serve(Arc::clone(&service) as _, Arc::new(SystemClock), signals.shutdown()).unwrap();
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
    assert!(service.applied.lock().unwrap().is_empty());
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

/// A body that is still being sent, and one that nobody reads and the server drains, may last as long as their clients
/// please; no request is in hand until they are there.
#[test]
fn a_client_that_does_not_send_its_body_does_not_hold_up_the_end() {
    for unsent in [
        format!(
            "POST /records HTTP/1.1\r\nHost: x\r\nContent-Type: {WEBHOOK}\r\nContent-Length: 5000\r\n\r\n{{"
        ),
        format!(
            "POST /records HTTP/1.1\r\nHost: x\r\nContent-Type: {WEBHOOK}\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{{"
        ),
        "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n".to_owned(),
    ] {
        let mut process = Process::start();
        let mut other = Client::connect(process.address);
        let mut held = Client::connect(process.address);
        held.send(&unsent);
        // The one that is in hand is answered all the same.
        other.send("GET /records HTTP/1.1\r\nHost: x\r\n\r\n");
        api::line_after(&mut process.output, "asked: ");
        let start = now();
        process.signal("TERM");
        assert_eq!(other.answer().status, 200, "{unsent}");
        assert!(process.child.wait().unwrap().success(), "{unsent}");
        assert!(start.elapsed() < WORK + Duration::from_secs(2), "{unsent}: {:?}", start.elapsed());
    }
}

/// The end does not wait for it, so it would be cut in its middle.
#[test]
fn a_body_that_comes_while_the_program_ends_is_not_acted_upon() {
    let mut process = Process::start();
    let mut other = Client::connect(process.address);
    let mut late = Client::connect(process.address);
    late.send(format!(
        "POST /records HTTP/1.1\r\nHost: x\r\nContent-Type: {WEBHOOK}\r\nContent-Length: 5000\r\n\r\n{{}}"
    ));
    other.send("GET /records HTTP/1.1\r\nHost: x\r\n\r\n");
    api::line_after(&mut process.output, "asked: ");
    process.signal("TERM");
    api::line_after(&mut process.output, "ends: ");
    #[allow(clippy::disallowed_methods, reason = "the end has begun a moment later")]
    std::thread::sleep(WORK / 4);
    late.send(" ".repeat(4998));
    assert_eq!(late.answer().status, 503);
    assert_eq!(other.answer().status, 200);
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
