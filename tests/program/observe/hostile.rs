//! The observation port and clients that mean harm, or are merely broken.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail loudly, as tests do"
)]

use std::io::{BufReader, ErrorKind, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use external_dns_cloudflare_tunnel_webhook::limits;
use external_dns_cloudflare_tunnel_webhook::listener::{self, Response};
use external_dns_cloudflare_tunnel_webhook::observe::responder::{self, RunningResponder};
use socket2::SockRef;
use test_support::clock::ManualClock;
use test_support::log::Log;
use test_support::own_process::{is_own_process, line_after, own_process};
use test_support::raw_http::{Client, PATIENCE};

/// On a clock that stands still, so that no client's time is ever over: a thread that waited for that would wait for
/// good.
fn start() -> (SocketAddr, RunningResponder) {
    start_by(Arc::new(ManualClock::stopped()))
}

fn start_by(clock: Arc<ManualClock>) -> (SocketAddr, RunningResponder) {
    let listener = listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let address = listener.local_addr().unwrap();
    let routes = |path: &str, _: bool| match path {
        "/healthz" => Some(Response { status: 200, content_type: "text/plain", body: b"ok".to_vec() }),
        "/large" => Some(Response { status: 200, content_type: "text/plain", body: vec![b'x'; 8 << 20] }),
        _ => None,
    };
    let running = responder::serve(listener, Arc::new(routes), Log::default().marking(clock)).unwrap();
    (address, running)
}

/// By then, the clients before this one have had their turn.
fn assert_answers(address: SocketAddr) {
    assert_eq!(Client::connect(address).get("/healthz").status, 200);
}

#[test]
fn two_hundred_idle_clients_do_not_keep_a_probe_waiting() {
    let (address, running) = start();
    let mut idle: Vec<Client> = (0..200).map(|_| Client::connect(address)).collect();
    assert_answers(address);
    // The oldest had to make room.
    assert_eq!(idle[0].rest(), "");
    drop(idle);
    assert_answers(address);
    running.stop();
}

#[test]
fn two_hundred_clients_that_began_a_head_do_not_keep_a_probe_waiting() {
    let (address, _running) = start();
    let slow: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            // It may have had to make room already.
            let _ = stream.write_all(b"GET /healthz HTTP/1.1\r\nX-Slow: ");
            stream
        })
        .collect();
    assert_answers(address);
    drop(slow);
}

#[test]
fn clients_that_never_read_do_not_keep_a_probe_waiting() {
    let (address, _running) = start();
    let deaf: Vec<Client> = (0..8)
        .map(|_| {
            let mut client = Client::connect(address);
            SockRef::from(client.stream()).set_recv_buffer_size(4096).unwrap();
            client.send("GET /large HTTP/1.1\r\n\r\n");
            client
        })
        .collect();
    assert_answers(address);
    drop(deaf);
}

#[test]
fn a_head_that_does_not_end_is_cut_off() {
    let (address, _running) = start();
    let mut client = Client::connect(address);
    client.send(format!("GET /healthz HTTP/1.1\r\nX-Endless: {}", "x".repeat(8192)));
    assert_eq!(client.answer().status, 431);
    // And so is a client that goes on after the answer.
    let mut stream = client.stream();
    let chunk = [b'x'; 4096];
    let mut sent = 0;
    while stream.write_all(&chunk).is_ok() {
        sent += chunk.len();
        assert!(sent < 64 << 20, "it is read without end");
    }
    assert_answers(address);
}

/// What a client gets that sends so much of a head, and that it gets it when its time is over and not before.
fn rest_after_the_time(sent: &str) -> String {
    let clock = Arc::new(ManualClock::stopped());
    let (address, _running) = start_by(Arc::clone(&clock));
    let mut client = Client::connect(address);
    client.send(sent);
    assert_answers(address);
    let moment = Duration::from_millis(1);
    clock.put_ahead(limits::OBSERVE_HEAD_TIMEOUT - moment);
    assert_answers(address);
    client.stream().set_nonblocking(true).unwrap();
    assert_eq!(client.stream().peek(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock, "it is not over");
    client.stream().set_nonblocking(false).unwrap();
    clock.put_ahead(moment);
    client.rest()
}

#[test]
fn a_head_that_does_not_come_in_time_is_answered_408() {
    let answer = rest_after_the_time("GET /healthz HTTP/1.1\r\n");
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
}

#[test]
fn an_idle_connection_is_closed_without_an_answer() {
    assert_eq!(rest_after_the_time(""), "");
}

#[test]
fn connections_reset_at_any_moment_end_nothing() {
    let (address, _running) = start();
    for sent in ["", "GET /hea", "GET /healthz HTTP/1.1\r\n\r\n", "GET /large HTTP/1.1\r\n\r\n"] {
        for _ in 0..20 {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(sent.as_bytes()).unwrap();
            SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
        }
        assert_answers(address);
    }
}

#[test]
fn what_is_not_http_is_answered_and_closed() {
    let (address, _running) = start();
    for (request, status) in [
        ("\u{16}\u{3}\u{1}\u{2}\0\u{1}\r\n\r\n", 400),
        ("GET / HTTP/2.0\r\n\r\n", 505),
        ("GET\r\n\r\n", 400),
        ("POST /healthz HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 405),
        ("GET /healthz HTTP/1.1\r\nContent-Length: 18446744073709551615\r\n\r\n", 200),
    ] {
        let mut client = Client::connect(address);
        client.send(request);
        assert_eq!(client.answer().status, status, "{request:?}");
        assert_eq!(client.rest(), "", "{request:?}");
    }
}

/// A server that takes a failed accept for the end, or panics on it, stays deaf for good.
#[test]
fn running_out_of_descriptors_passes() {
    if is_own_process() {
        return respond_until_the_input_ends();
    }
    let mut child = own_process("observe::hostile::running_out_of_descriptors_passes", "ulimit -n 40")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a shell");
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let address: SocketAddr = line_after(&mut output, "listens on ").parse().unwrap();
    // Fewer than it may hold, more than it has descriptors for.
    let idle: Vec<TcpStream> = (0..45).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert_eq!(Client::connect(address).get("/healthz").status, 200);
    drop(idle);
    assert_answers(address);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

fn respond_until_the_input_ends() {
    let (address, running) = start();
    println!("listens on {address}");
    let mut line = String::new();
    let _ = std::io::stdin().read_line(&mut line);
    running.stop();
}

#[test]
fn stopping_does_not_wait_for_open_connections() {
    let (address, running) = start();
    let mut idle = TcpStream::connect(address).unwrap();
    idle.write_all(b"GET /").unwrap();
    running.stop();
    assert!(TcpStream::connect_timeout(&address, PATIENCE).is_err());
}
