//! The observation port for clients that mean well.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail loudly, as tests do"
)]

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use external_dns_cloudflare_tunnel_webhook::listener::{self, Response};
use external_dns_cloudflare_tunnel_webhook::observe::readiness::Readiness;
use external_dns_cloudflare_tunnel_webhook::observe::responder;
use external_dns_cloudflare_tunnel_webhook::observe::routes::route;
use test_support::log::system_clock;
use test_support::raw_http::Client;

#[test]
fn readiness_follows_what_is_known() {
    let readiness = Arc::new(Readiness::default());
    let listener = listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let address = listener.local_addr().unwrap();
    let known = Arc::clone(&readiness);
    let running = responder::serve(
        listener,
        Arc::new(move |path: &str, _: bool| route(path, &known, || "up 1\n".to_owned())),
        system_clock(),
    )
    .unwrap();

    assert_eq!(Client::connect(address).get("/healthz").text(), r#"{"status":"ok"}"#);
    let missing = Client::connect(address).get("/readyz");
    assert_eq!(missing.status, 503);
    assert_eq!(missing.values("Content-Type"), ["application/json"]);
    assert!(missing.text().contains("not checked yet"), "{}", missing.text());
    readiness.set_ready();
    assert_eq!(Client::connect(address).get("/readyz").status, 200);
    assert_eq!(Client::connect(address).get("/metrics").text(), "up 1\n");
    assert_eq!(Client::connect(address).get("/elsewhere").status, 404);
    running.stop();
}

#[test]
fn there_is_one_answer_a_connection_and_it_arrives_whole() {
    const LENGTH: usize = 4 << 20;
    let listener = listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let address = listener.local_addr().unwrap();
    let routes = |path: &str, _: bool| {
        (path == "/metrics").then(|| Response {
            status: 200,
            content_type: "text/plain",
            body: vec![b'x'; LENGTH],
        })
    };
    let _running = responder::serve(listener, Arc::new(routes), system_clock()).unwrap();

    let mut client = Client::connect(address);
    // An unwanted body, and another request, must not reset the connection under the first answer.
    client.send(format!(
        "GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 32768\r\n\r\n{}GET /metrics HTTP/1.1\r\n\r\n",
        "b".repeat(32768)
    ));
    let answer = client.answer();
    assert_eq!(answer.status, 200);
    assert_eq!(answer.values("Connection"), ["close"]);
    assert_eq!(answer.body.len(), LENGTH);
    assert_eq!(client.rest(), "");

    let mut client = Client::connect(address);
    client.send("HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    let head = client.head();
    assert!(head.contains(&format!("\r\nContent-Length: {LENGTH}\r\n")), "{head}");
    assert_eq!(client.rest(), "");
}

#[test]
fn a_head_may_come_in_pieces_and_from_a_half_closed_client() {
    let listener = listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let address = listener.local_addr().unwrap();
    let readiness = Readiness::default();
    let _running = responder::serve(
        listener,
        Arc::new(move |path: &str, _: bool| route(path, &readiness, String::new)),
        system_clock(),
    )
    .unwrap();
    let mut client = Client::connect(address);
    for byte in "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n".bytes() {
        client.send([byte]);
    }
    client.stream().shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(client.answer().status, 200);
    assert_eq!(client.rest(), "");
}

#[test]
fn the_unspecified_address_takes_both_families() {
    let listener = listener::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))).unwrap();
    let address = listener.local_addr().unwrap();
    let (port, has_ipv6) = (address.port(), address.is_ipv6());
    let readiness = Readiness::default();
    let running = responder::serve(
        listener,
        Arc::new(move |path: &str, _: bool| route(path, &readiness, String::new)),
        system_clock(),
    )
    .unwrap();
    assert_eq!(Client::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).get("/healthz").status, 200);
    if has_ipv6 {
        assert_eq!(
            Client::connect(SocketAddr::from((Ipv6Addr::LOCALHOST, port))).get("/healthz").status,
            200
        );
    } else {
        println!("IPv6 is off here; only 127.0.0.1 was tried");
    }
    running.stop();
    assert!(std::net::TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).is_err());
}
