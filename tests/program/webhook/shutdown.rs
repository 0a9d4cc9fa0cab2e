//! How the program ends while requests are under way.

use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use cloudflare_emulator::Matcher;
use external_dns_cloudflare_tunnel_webhook::clock::{Deadline, SystemClock};
use test_support::clock::eventually;
use test_support::external_dns::MEDIA_TYPE;
use test_support::harness::Harness;
use test_support::process::Process;
use test_support::raw_http::{Client, PATIENCE};

/// The program, whose first `GET /records` takes until Cloudflare may answer.
struct Slow {
    may_answer: Sender<()>,
    harness: Harness,
    process: Process,
    address: SocketAddr,
    is_asked: Receiver<()>,
}

impl Slow {
    fn start() -> Self {
        let harness = Harness::new();
        let (process, external_dns) = Process::start_ready(&harness, &[("REQUEST_TIMEOUT", "14s")]);
        let (asked, is_asked) = mpsc::channel();
        let (may_answer, answers) = mpsc::channel();
        harness.cloudflare.edit_before(Matcher::list_records(), 1, move |_| {
            let _ = asked.send(());
            let _ = answers.recv_timeout(PATIENCE);
        });
        Self { may_answer, harness, process, address: external_dns.api, is_asked }
    }

    /// Asks for the records, and waits until Cloudflare is asked for them.
    fn ask(&self) -> Client {
        let mut client = Client::connect(self.address);
        client.send("GET /records HTTP/1.1\r\nHost: x\r\n\r\n");
        self.is_asked.recv_timeout(PATIENCE).expect("Cloudflare is asked");
        client
    }

    /// Waits until the end has begun.
    fn begin_to_end(&mut self) {
        self.process.signal("TERM");
        self.process.wait_for("stopping: ");
        eventually("the end", || TcpStream::connect(self.address).is_err());
    }

    fn answer(&self) {
        self.may_answer.send(()).expect("Cloudflare waits for it");
    }

    fn assert_ends_well(mut self) {
        assert_eq!(self.process.wait(), Some(0));
        assert_eq!(self.harness.cloudflare.count_calls().writes, 0);
    }
}

#[test]
fn the_request_in_hand_is_answered_before_the_end() {
    let mut slow = Slow::start();
    let mut client = slow.ask();
    slow.begin_to_end();
    slow.answer();
    assert_eq!(client.answer().status, 200);
    slow.assert_ends_well();
}

/// A body that is still being sent, and one that no handler reads and the server drains, may last as long as their
/// clients please; no request is in hand until they are there.
#[test]
fn a_client_that_does_not_send_its_body_does_not_hold_up_the_end() {
    for unsent in [
        format!(
            "POST /records HTTP/1.1\r\nHost: x\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: 5000\r\n\r\n{{"
        ),
        format!(
            "POST /records HTTP/1.1\r\nHost: x\r\nContent-Type: {MEDIA_TYPE}\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{{"
        ),
        "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n".to_owned(),
    ] {
        let mut slow = Slow::start();
        let mut held = Client::connect(slow.address);
        held.send(&unsent);
        // The one that is in hand is answered all the same.
        let mut other = slow.ask();
        // Were the body waited for, the end would come when the 14 s of a request are over.
        let soon = Deadline::after(&SystemClock, Duration::from_secs(12));
        slow.begin_to_end();
        slow.answer();
        assert_eq!(other.answer().status, 200, "{unsent}");
        slow.assert_ends_well();
        assert!(!soon.is_over(&SystemClock), "{unsent}");
    }
}

/// The end does not wait for it, so it would be cut in its middle.
#[test]
fn a_body_that_comes_while_the_program_ends_is_not_acted_upon() {
    let mut slow = Slow::start();
    let mut late = Client::connect(slow.address);
    late.send(format!(
        "POST /records HTTP/1.1\r\nHost: x\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: 5000\r\n\r\n{{}}"
    ));
    let mut other = slow.ask();
    slow.begin_to_end();
    late.send(" ".repeat(4998));
    assert_eq!(late.answer().status, 503);
    slow.answer();
    assert_eq!(other.answer().status, 200);
    slow.assert_ends_well();
}

#[test]
fn a_second_signal_ends_the_process_at_once() {
    let mut slow = Slow::start();
    let mut client = slow.ask();
    slow.begin_to_end();
    // The request in hand is not waited for.
    slow.process.signal("TERM");
    assert_eq!(slow.process.wait(), Some(143));
    assert_eq!(client.rest(), "");
}
