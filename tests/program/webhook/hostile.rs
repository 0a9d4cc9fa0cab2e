//! What tiny_http does to a server that uses it unguarded, tried against the API port. `docs/security.md` names these
//! tests.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail loudly, as tests do"
)]

use std::io::BufReader;
use std::net::Shutdown;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use external_dns_cloudflare_tunnel_webhook::clock::SystemClock;
use external_dns_cloudflare_tunnel_webhook::limits;
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use external_dns_cloudflare_tunnel_webhook::webhook::server::ServerSettings;
use socket2::SockRef;
use test_support::clock::ManualClock;
use test_support::external_dns::MEDIA_TYPE;
use test_support::log::Log;
use test_support::own_process::{is_own_process, line_after, own_process};
use test_support::raw_http::{Client, PATIENCE};

use super::api::{Fake, settings, start, start_by};

/// Another client is answered.
fn probe(address: std::net::SocketAddr) {
    assert_eq!(Client::connect(address).get("/").status, 200);
}

/// Unguarded: "memory allocation failed" aborts the process, or "capacity overflow" ends the worker. The client gets no
/// answer; others do.
#[test]
fn an_absurd_length_ends_nothing() {
    let api = start(ServerSettings { workers: 1, ..settings() }, Fake::empty());
    let mut held = Vec::new();
    let lengths = ["99999999999", "9223372036854775807", "18446744073709551615"];
    for (method, length) in
        ["POST", "GET"].into_iter().flat_map(|method| lengths.map(|length| (method, length)))
    {
        let mut client = Client::connect(api.address());
        client.send(format!(
            "{method} /records HTTP/1.1\r\nHost: x\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: {length}\r\n\r\n"
        ));
        held.push(client);
        probe(api.address());
    }
    api.assert_nothing_failed();
}

/// Nothing of a body over the cap is awaited when its length says so; ExternalDNS is told softly.
#[test]
fn a_body_over_the_cap_is_refused_before_it_is_sent() {
    let service = Fake::empty();
    let log = Log::default();
    let api = start_by(log.marking(Arc::new(SystemClock)), settings(), service.clone());
    let mut client = Client::connect(api.address());
    client.send(format!(
        "POST /records HTTP/1.1\r\nHost: x\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: {}\r\n\r\n",
        limits::REQUEST_BODY_MAX_BYTES + 1
    ));
    assert_eq!(client.answer().status, 503);
    assert_eq!(log.lines_with(&["larger than 28 MiB", "DOMAIN_FILTER"]).len(), 1);
    probe(api.address());
    assert!(service.applied.lock().unwrap().is_empty());
}

/// Without a length the cap shows only while reading.
#[test]
fn a_chunked_body_is_read_up_to_the_cap() {
    let service = Fake::empty();
    let api = start(settings(), service.clone());
    let head = format!(
        "POST /records HTTP/1.1\r\nHost: x\r\nContent-Type: {MEDIA_TYPE}\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    let mut client = Client::connect(api.address());
    client.send(format!("{head}2\r\n{{}}\r\n0\r\n\r\n"));
    assert_eq!(client.answer().status, 204);

    let mut client = Client::connect(api.address());
    client.send(&head);
    let chunk = vec![b' '; 1 << 20];
    for _ in 0..limits::REQUEST_BODY_MAX_BYTES >> 20 {
        client.send("100000\r\n");
        client.send(&chunk);
        client.send("\r\n");
    }
    client.send("2\r\n{}\r\n");
    assert_eq!(client.answer().status, 503);
    assert_eq!(service.applied.lock().unwrap().len(), 1);
    probe(api.address());
}

#[test]
fn a_body_that_ends_before_its_announced_length_is_malformed() {
    let (service, log) = (Fake::empty(), Log::default());
    let api = start_by(log.marking(Arc::new(SystemClock)), settings(), service.clone());
    let mut client = Client::connect(api.address());
    client.send(format!(
        "POST /records HTTP/1.1\r\nHost: x\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: 5000\r\n\r\n{{}}"
    ));
    client.stream().shutdown(Shutdown::Write).unwrap();
    let answer = client.answer();
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("announced length"), "{}", answer.text());
    assert_eq!(log.lines_with(&["WARN", "\"/records\"", "announced length"]).len(), 1);
    assert!(service.applied.lock().unwrap().is_empty());
}

/// A body above 256 KiB.
fn large_body() -> String {
    format!("{{{}}}", " ".repeat(limits::SMALL_BODY_MAX_BYTES))
}

/// Announces a large body. An interim answer comes when it may be sent.
fn announce_large_body(client: &mut Client) {
    client.send(format!(
        "POST /records HTTP/1.1\r\nHost: x\r\nContent-Type: {MEDIA_TYPE}\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        large_body().len()
    ));
}

fn wait_until_it_may_be_sent(client: &mut Client) {
    assert!(client.head().starts_with("HTTP/1.1 100 "));
}

#[test]
fn large_bodies_are_taken_one_after_the_other_and_a_small_one_does_not_wait() {
    let service = Fake::empty();
    let api = start(settings(), service.clone());
    let (mut first, mut second) = (Client::connect(api.address()), Client::connect(api.address()));
    announce_large_body(&mut first);
    wait_until_it_may_be_sent(&mut first);
    announce_large_body(&mut second);
    assert_eq!(Client::connect(api.address()).post("/records", "{}").status, 204);
    first.send(large_body());
    assert_eq!(first.answer().status, 204);
    wait_until_it_may_be_sent(&mut second);
    second.send(large_body());
    assert_eq!(second.answer().status, 204);
    assert_eq!(service.applied.lock().unwrap().len(), 3);
    api.assert_nothing_failed();
}

/// Unguarded, no large body would ever be taken again.
#[test]
fn a_client_that_keeps_a_large_body_from_another_one_ends_the_process_with_a_reason() {
    let settings = ServerSettings {
        request_timeout: Duration::from_millis(200),
        check_period: Duration::from_millis(10),
        ..settings()
    };
    let api = start(settings, Fake::empty());
    let (mut stalled, mut other) = (Client::connect(api.address()), Client::connect(api.address()));
    announce_large_body(&mut stalled);
    wait_until_it_may_be_sent(&mut stalled);
    announce_large_body(&mut other);
    let answer = other.answer();
    assert_eq!(answer.status, 503);
    assert!(answer.text().contains("another request with a large body"), "{}", answer.text());
    let reason = api.wait_for_failure(PATIENCE).expect("a reason");
    assert!(reason.contains("large body"), "{reason}");
}

/// Where two readers could see a request end in two places, nothing is done.
#[test]
fn an_ambiguous_length_is_refused() {
    let (service, log) = (Fake::empty(), Log::default());
    let api = start_by(log.marking(Arc::new(SystemClock)), settings(), service.clone());
    for framing in [
        "Content-Length: 2\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nConnection: upgrade",
        "Content-Length: 2\r\nContent-Length: 3",
        "Content-Length: 2\r\nContent-Length: 2",
        "Content-Length: abc",
        "Content-Length: +2",
        "Content-Length: -2",
        "Content-Length: 0x2",
        "Content-Length: 2, 2",
    ] {
        let mut client = Client::connect(api.address());
        client.send(format!(
            "POST /records HTTP/1.1\r\nHost: x\r\nContent-Type: {MEDIA_TYPE}\r\n{framing}\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n"
        ));
        assert_eq!(client.answer().status, 400, "{framing}");
        assert_eq!(log.lines_with(&["WARN", "POST", "\"/records\"", "400"]).len(), 1, "{framing}");
        log.forget();
    }
    assert!(service.applied.lock().unwrap().is_empty());
}

/// A page that has its name led to loopback is of one origin with the port, so nothing but these headers shows it.
#[test]
fn a_web_page_is_refused_whatever_it_asks_for_and_nothing_is_done() {
    let service = Fake::empty();
    let api = start(settings(), service.clone());
    for header in
        ["Origin: http://evil.example:8888", "origin: null", "Origin:", "Sec-Fetch-Site: same-origin"]
    {
        for (method, path) in [
            ("GET", "/"),
            ("GET", "/records"),
            ("POST", "/records"),
            ("POST", "/adjustendpoints"),
            ("OPTIONS", "/records"),
            ("GET", "/healthz"),
            ("GET", "/nothing"),
        ] {
            let mut client = Client::connect(api.address());
            client.send(format!(
                "{method} {path} HTTP/1.1\r\nHost: evil.example:8888\r\n{header}\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: 2\r\n\r\n{{}}"
            ));
            let answer = client.answer();
            assert_eq!(answer.status, 403, "{header}: {method} {path}");
            assert!(answer.text().contains("web page"), "{}", answer.text());
        }
    }
    assert!(service.applied.lock().unwrap().is_empty());
    probe(api.address());
}

/// Unguarded, the worker is lost.
#[test]
fn a_panic_in_the_service_is_answered_and_the_worker_lives() {
    let calls = AtomicUsize::new(0);
    let api = start(
        ServerSettings { workers: 1, ..settings() },
        Fake::new(move || match calls.fetch_add(1, Ordering::Relaxed) {
            0..3 => panic!("a service that is broken"),
            _ => Ok(Vec::new()),
        }),
    );
    let mut client = Client::connect(api.address());
    for _ in 0..3 {
        assert_eq!(client.get("/records").status, 500);
    }
    assert_eq!(client.get("/records").status, 200);
    assert!(api.running.stop(), "no worker was lost");
}

/// Unguarded, one client that never reads holds its worker for ever.
#[test]
fn a_client_that_never_reads_loses_its_worker_after_the_send_timeout() {
    let large = || Ok(vec![Endpoint { dns_name: "x".repeat(8 << 20), ..Endpoint::default() }]);
    let api = start(
        ServerSettings { workers: 1, send_timeout: Duration::from_millis(30), ..settings() },
        Fake::new(large),
    );
    let mut deaf = Client::connect(api.address());
    SockRef::from(deaf.stream()).set_recv_buffer_size(4096).unwrap();
    deaf.send("GET /records HTTP/1.1\r\nHost: x\r\n\r\n");
    probe(api.address());
    drop(deaf);
}

/// Unguarded, as many clients as there are workers silence the port: by a body that never ends, by a GET that announces
/// a body and sends none, or by never sending what `Expect` asked for.
#[test]
fn clients_that_do_not_send_their_bodies_do_not_keep_others_waiting() {
    let for_ever = Duration::from_secs(1_000_000);
    let api = start(ServerSettings { request_timeout: for_ever, ..settings() }, Fake::empty());
    // A connection that is there already: tiny_http may let a fifth one wait, see the burst below.
    let mut other = Client::connect(api.address());
    assert_eq!(other.get("/").status, 200);
    let mut held = Vec::new();
    for request in [
        format!(
            "POST /records HTTP/1.1\r\nHost: x\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: 5000\r\n\r\n{{"
        ),
        "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n".to_owned(),
        "POST /records HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 500\r\n\r\n".to_owned(),
    ] {
        for _ in 0..limits::API_WORKERS / 4 {
            let mut client = Client::connect(api.address());
            client.send(&request);
            held.push(client);
        }
        assert_eq!(other.get("/").status, 200, "{request:?}");
    }
    assert_eq!(held[limits::API_WORKERS / 4].answer().status, 200, "the GET itself is answered");
    drop(held);
    api.assert_nothing_failed();
}

/// tiny_http counts a thread as idle until it has run, so connections that arrive together can queue behind four busy
/// ones for as long as those stay open. Each check of the listener brings a thread for one of them.
#[test]
fn a_burst_of_connections_that_stay_open_is_answered() {
    // A race, so it is run for more than once.
    for _ in 0..40 {
        let api =
            start(ServerSettings { check_period: Duration::from_millis(1), ..settings() }, Fake::empty());
        let mut clients: Vec<Client> = (0..6).map(|_| Client::connect(api.address())).collect();
        for client in &mut clients {
            client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        }
        for client in &mut clients {
            assert_eq!(client.answer().status, 200);
        }
        assert!(api.running.stop());
    }
}

/// When every worker is held for good, only a restart frees them.
#[test]
fn workers_that_are_all_held_end_the_process_with_a_reason() {
    let api = start(
        ServerSettings {
            workers: 2,
            request_timeout: Duration::from_millis(20),
            check_period: Duration::from_millis(10),
            ..settings()
        },
        Fake::empty(),
    );
    let mut held = Vec::new();
    for _ in 0..3 {
        let mut client = Client::connect(api.address());
        client.send(format!(
            "POST /records HTTP/1.1\r\nHost: x\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: 5000\r\n\r\n{{"
        ));
        held.push(client);
    }
    let reason = api.wait_for_failure(PATIENCE).expect("a reason");
    assert!(reason.contains("hold every worker"), "{reason}");
}

/// A body that comes after the deadline is not acted upon: ExternalDNS has given up by then.
#[test]
fn a_body_that_comes_too_late_is_not_acted_upon() {
    let (service, log) = (Fake::empty(), Log::default());
    let clock = Arc::new(ManualClock::stopped());
    let api = start_by(log.marking(Arc::clone(&clock) as _), settings(), service.clone());
    let mut client = Client::connect(api.address());
    let body = format!("{{}}{}", " ".repeat(4998));
    client.send(format!(
        "POST /records HTTP/1.1\r\nHost: x\r\nContent-Type: {MEDIA_TYPE}\r\nExpect: 100-continue\r\nContent-Length: 5000\r\n\r\n"
    ));
    assert!(client.head().starts_with("HTTP/1.1 100 "), "the body is awaited");
    clock.put_ahead(limits::REQUEST_TIMEOUT_DEFAULT);
    client.send(body);
    assert_eq!(client.answer().status, 503);
    assert_eq!(log.lines_with(&["WARN", "came too late"]).len(), 1);
    assert!(service.applied.lock().unwrap().is_empty());
}

/// Unguarded, the process lives on and refuses every connection: tiny_http ends its accept thread at the first error,
/// and panics in it when the error comes a moment later. Which of the two comes depends on how many descriptors are
/// left, odd or even, so both are tried.
#[test]
fn running_out_of_descriptors_ends_the_process_with_a_reason() {
    if is_own_process() {
        return serve_until_it_fails();
    }
    for limit in [64, 65] {
        let test = "webhook::hostile::running_out_of_descriptors_ends_the_process_with_a_reason";
        let mut child = own_process(test, &format!("ulimit -n {limit}"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let address = line_after(&mut output, "listens on ");
        let clients: Vec<_> = (0..limit)
            .filter_map(|_| std::net::TcpStream::connect_timeout(&address.parse().unwrap(), PATIENCE).ok())
            .collect();
        let reason = line_after(&mut output, "failed: ");
        assert!(reason.contains("no longer accepts connections"), "with {limit} descriptors: {reason}");
        drop(clients);
        assert!(child.wait().unwrap().success());
    }
}

fn serve_until_it_fails() {
    let api = start(ServerSettings { check_period: Duration::from_millis(10), ..settings() }, Fake::empty());
    println!("listens on {}", api.address());
    let reason = api.wait_for_failure(PATIENCE);
    println!("failed: {}", reason.expect("a reason before time is up"));
}
