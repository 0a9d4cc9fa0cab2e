//! A standard error that is not read holds up no probe.

use std::thread;
use std::time::Duration;

use external_dns_cloudflare_tunnel_webhook::clock::{Clock, SystemClock};
use test_support::clock::eventually;
use test_support::external_dns::exchange;
use test_support::harness::{Harness, endpoint};
use test_support::process::Process;

#[test]
fn a_standard_error_that_is_not_read_holds_up_no_probe() {
    for format in ["text", "json"] {
        let harness = Harness::new();
        let (mut process, _) = Process::start_ready(&harness, &[("LOG_FORMAT", format)]);
        process.block_standard_error();
        for path in ["/healthz", "/readyz", "/metrics"] {
            assert_eq!(process.observe(path).status, 200, "{format} {path}");
        }
    }
}

/// A line about the object waits.
#[test]
fn a_standard_error_that_is_not_read_holds_up_neither_the_command_status_nor_the_probe_after_it() {
    let harness = Harness::new();
    let (mut process, external_dns) = Process::start_ready(&harness, &[]);
    process.block_standard_error();
    harness.cloudflare.take_calls();
    let without_service = endpoint("plain.example.com", &[]);
    thread::spawn(move || external_dns.run_loop(&[without_service]));
    eventually("the loop", || !harness.cloudflare.calls().is_empty());
    SystemClock.sleep(Duration::from_secs(1));
    let asked: &[u8] = b"GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let status = exchange(process.observation(), &[asked]).expect("an answer");
    assert_eq!((status.status, process.observe("/healthz").status), (200, 200));
}
