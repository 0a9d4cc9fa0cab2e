//! Clients that hold the one permit for a large body, and ExternalDNS beside them. Its client gives up after 15 s, and
//! any status from 400 to 499 would end it.

use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use test_support::external_dns::{MEDIA_TYPE, exchange};
use test_support::harness::{Harness, published};
use test_support::process::Process;
use test_support::raw_http::Client;

const GIVES_UP: Duration = Duration::from_secs(15);

const ANSWERED_AGAIN: Duration = Duration::from_secs(30);

/// Less than the 12 s of a request, which the client has at least.
const IN_THE_WAY: Duration = Duration::from_secs(10);

/// Hostnames whose endpoints are a large body.
const HOSTNAMES: usize = 3_000;

#[test]
fn a_client_that_announces_two_megabytes_and_stalls_ends_nothing_but_itself_within_half_a_minute() {
    let head = format!(
        "POST /records HTTP/1.1\r\nHost: x\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: 2000000\r\n\r\n{{"
    );
    converse_beside(|client, is_over| {
        client.send(&head);
        while !is_over.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(10));
        }
    });
}

#[test]
fn a_client_whose_chunks_drip_ends_nothing_but_itself_within_half_a_minute() {
    let head = format!(
        "POST /records HTTP/1.1\r\nHost: x\r\nContent-Type: {MEDIA_TYPE}\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    converse_beside(|client, is_over| {
        client.send(&head);
        client.send(format!("100000\r\n{{{}\r\n", " ".repeat(0x10_0000 - 1)));
        // Once it is answered, its connection may be closed.
        while !is_over.load(Ordering::Relaxed) && client.stream().write_all(b"1\r\n \r\n").is_ok() {
            thread::sleep(Duration::from_millis(200));
        }
    });
}

/// ExternalDNS's loops beside such a client, until one of them succeeds. A process that ends is started anew, as in a
/// cluster.
fn converse_beside(hostile: impl Fn(&mut Client, &AtomicBool) + Sync) {
    let harness = Harness::new();
    let (mut process, mut external_dns) = Process::start_ready(&harness, &[]);
    let wanted: Vec<_> =
        (0..HOSTNAMES).map(|n| published(&format!("{n}.example.com"), "http://web:80")).collect();
    let wanted = serde_json::to_string(&wanted).expect("plain data");
    assert!(wanted.len() > 256 * 1024);
    let head = |method: &str, path: &str, length: usize| {
        format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nAccept: {MEDIA_TYPE}\r\nContent-Type: {MEDIA_TYPE}\r\n\
             Content-Length: {length}\r\nConnection: close\r\n\r\n"
        )
    };
    let (records, adjust) = (head("GET", "/records", 0), head("POST", "/adjustendpoints", wanted.len()));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let mut client = Client::connect(external_dns.api);
        let is_over = &is_over;
        let hostile = &hostile;
        scope.spawn(move || hostile(&mut client, is_over));
        // It has the permit.
        thread::sleep(Duration::from_millis(500));
        let begun = Instant::now();
        let calls = [(&records, ""), (&adjust, &*wanted)].into_iter().cycle();
        for (head, body) in calls {
            let asked = Instant::now();
            match exchange(external_dns.api, &[head.as_bytes(), body.as_bytes()]) {
                Ok(answer) => {
                    assert!(asked.elapsed() < GIVES_UP, "{:?}", asked.elapsed());
                    assert!([200, 503].contains(&answer.status), "{}", answer.head);
                    if answer.status == 200 && !body.is_empty() {
                        break;
                    }
                }
                Err(error) => {
                    assert_ne!(
                        error.kind(),
                        ErrorKind::WouldBlock,
                        "it is answered in time, or the process ends"
                    );
                    assert_eq!(process.wait(), Some(1));
                    (process, external_dns) = Process::start_ready(&harness, &[]);
                }
            }
        }
        let took = begun.elapsed();
        is_over.store(true, Ordering::Relaxed);
        assert!(took > IN_THE_WAY, "it was not in the way: {took:?}");
        assert!(took < ANSWERED_AGAIN, "{took:?}");
    });
}
