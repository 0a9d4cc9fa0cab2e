//! How the program ends while requests are under way.

use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use cloudflare_emulator::{Fault, Matcher};
use test_support::external_dns::MEDIA_TYPE;
use test_support::harness::Harness;
use test_support::process::Process;
use test_support::raw_http::{Client, PATIENCE};

/// How long Cloudflare takes to answer what `GET /records` asks it.
const WORK: Duration = Duration::from_secs(1);

#[allow(clippy::disallowed_methods, reason = "these tests measure how long an end takes")]
fn now() -> Instant {
    Instant::now()
}

/// The program, whose first `GET /records` takes a while.
struct Slow {
    harness: Harness,
    process: Process,
    address: SocketAddr,
    is_asked: Receiver<()>,
}

impl Slow {
    fn start() -> Self {
        let harness = Harness::new();
        let (process, external_dns) = Process::start_ready(&harness, &[]);
        let (asked, is_asked) = mpsc::channel();
        harness.cloudflare.edit_before(Matcher::list_records(), 1, move |_| {
            let _ = asked.send(());
        });
        harness.cloudflare.fault(Matcher::list_records(), 1, Fault::Delay(WORK));
        Self { harness, process, address: external_dns.api, is_asked }
    }

    /// Asks for the records, and waits until Cloudflare is asked for them.
    fn ask(&self) -> Client {
        let mut client = Client::connect(self.address);
        client.send("GET /records HTTP/1.1\r\nHost: x\r\n\r\n");
        self.is_asked.recv_timeout(PATIENCE).expect("Cloudflare is asked");
        client
    }

    fn assert_ends_well(mut self) {
        assert_eq!(self.process.wait(), Some(0));
        assert_eq!(self.harness.cloudflare.count_calls().writes, 0);
    }
}

#[test]
fn either_signal_ends_an_idle_process_within_a_second() {
    for (name, cause) in [("TERM", "SIGTERM"), ("INT", "SIGINT")] {
        let mut slow = Slow::start();
        let mut idle = Client::connect(slow.address);
        assert_eq!(idle.get("/").status, 200);
        let start = now();
        slow.process.signal(name);
        assert_eq!(slow.process.wait_for("ending on "), cause);
        slow.assert_ends_well();
        assert!(start.elapsed() < Duration::from_secs(1), "{name}: {:?}", start.elapsed());
    }
}

#[test]
fn the_request_in_hand_is_answered_before_the_end() {
    let slow = Slow::start();
    let mut client = slow.ask();
    slow.process.signal("TERM");
    assert_eq!(client.answer().status, 200);
    slow.assert_ends_well();
}

/// A body that is still being sent, and one that nobody reads and the server drains, may last as long as their clients
/// please; no request is in hand until they are there.
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
        let slow = Slow::start();
        let mut held = Client::connect(slow.address);
        held.send(&unsent);
        // The one that is in hand is answered all the same.
        let mut other = slow.ask();
        let start = now();
        slow.process.signal("TERM");
        assert_eq!(other.answer().status, 200, "{unsent}");
        slow.assert_ends_well();
        assert!(start.elapsed() < WORK + Duration::from_secs(2), "{unsent}: {:?}", start.elapsed());
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
    slow.process.signal("TERM");
    slow.process.wait_for("ending on ");
    #[allow(clippy::disallowed_methods, reason = "the end has begun a moment later")]
    std::thread::sleep(WORK / 4);
    late.send(" ".repeat(4998));
    assert_eq!(late.answer().status, 503);
    assert_eq!(other.answer().status, 200);
    slow.assert_ends_well();
}

#[test]
fn a_second_signal_ends_the_process_at_once() {
    let mut slow = Slow::start();
    let mut client = slow.ask();
    let start = now();
    slow.process.signal("TERM");
    slow.process.wait_for("ending on ");
    slow.process.signal("TERM");
    assert_eq!(slow.process.wait(), Some(143));
    assert!(start.elapsed() < WORK, "{:?}", start.elapsed());
    assert_eq!(client.rest(), "");
}
