//! ExternalDNS's side of the webhook protocol, byte by byte, over real sockets.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail loudly, as tests do"
)]

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use external_dns_cloudflare_tunnel_webhook::clock::SystemClock;
use external_dns_cloudflare_tunnel_webhook::limits;
use external_dns_cloudflare_tunnel_webhook::webhook::Failure;
use external_dns_cloudflare_tunnel_webhook::webhook::server::ServerSettings;
use test_support::external_dns::MEDIA_TYPE;
use test_support::log::Log;
use test_support::raw_http::Client;

use super::api::{Fake, endpoint, settings, start, start_by};

#[test]
fn the_whole_conversation_runs_on_one_connection() {
    let service = Fake::new(|| Ok(vec![endpoint("a.example.com")]));
    let api = start(settings(), service.clone());
    let mut client = Client::connect(api.address());

    let negotiated = client.get("/");
    assert_eq!(negotiated.status, 200);
    assert_eq!(negotiated.values("Content-Type"), [MEDIA_TYPE]);
    assert_eq!(negotiated.text(), r#"{"include":["example.com"]}"#);

    let records = client.get("/records");
    assert_eq!(records.status, 200);
    assert_eq!(records.values("Content-Type"), [MEDIA_TYPE]);
    assert_eq!(
        records.text(),
        r#"[{"dnsName":"a.example.com","targets":["c0ffee00-0000-4000-8000-000000000001.cfargotunnel.com"],"recordType":"CNAME"}]"#
    );

    let adjusted = client.post(
        "/adjustendpoints",
        "[{\"dnsName\":\"b.example.com\",\"providerSpecific\":[{\"name\":\"webhook/tunnel-service\",\"value\":\"http://a/?x\\u0026y\"}]}]\n",
    );
    assert_eq!(adjusted.status, 200);
    assert_eq!(adjusted.values("Content-Type"), [MEDIA_TYPE]);
    assert_eq!(
        adjusted.text(),
        r#"[{"dnsName":"b.example.com","providerSpecific":[{"name":"webhook/tunnel-service","value":"http://a/?x&y"}]}]"#
    );

    let nothing = client.post("/adjustendpoints", "[]\n");
    assert_eq!((nothing.status, nothing.text()), (200, "[]"));

    let applied = client.post("/records", "{\"create\":[{\"dnsName\":\"b.example.com\"}]}\n");
    assert_eq!((applied.status, applied.text()), (204, ""));
    assert_eq!(applied.values("Content-Type"), [""; 0]);

    let old_spelling = "{\"Create\":null,\"UpdateOld\":null,\"UpdateNew\":null,\"Delete\":[{\"dnsName\":\"b.example.com\"}]}\n";
    assert_eq!(client.post("/records", old_spelling).status, 204);

    let changes = service.applied.lock().unwrap();
    assert_eq!(changes.len(), 2);
    assert_eq!(changes[0].wanted[0].dns_name, "b.example.com");
    assert_eq!(changes[1].deleted[0].dns_name, "b.example.com");
    api.assert_nothing_failed();
}

#[test]
fn what_external_dns_never_sends_is_answered_with_what_is_wrong() {
    let api = start(settings(), Fake::empty());
    let mut client = Client::connect(api.address());
    for (request, status) in [
        ("GET /records/ HTTP/1.1\r\n\r\n", 404),
        ("PUT /records HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", 404),
        ("POST /records HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", 415),
        ("POST /records HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", 415),
        ("GET /records HTTP/1.1\r\nAccept: application/json\r\n\r\n", 200),
        ("POST /propertyvaluesequal HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", 404),
        (
            "POST /records HTTP/1.1\r\nContent-Type: application/external.dns.webhook+json;version=1\r\nContent-Length: 1\r\n\r\n{",
            400,
        ),
        ("GET /healthz HTTP/1.1\r\n\r\n", 200),
        ("GET /records?a=b HTTP/1.1\r\n\r\n", 200),
    ] {
        client.send(request);
        let answer = client.answer();
        assert_eq!(answer.status, status, "{request:?}");
        assert_eq!(answer.values("Location"), [""; 0], "{request:?}");
    }
}

#[test]
fn a_failure_of_the_service_is_soft() {
    let api = start(settings(), Fake::new(|| Err(Failure::unavailable("Cloudflare hangs"))));
    let answer = Client::connect(api.address()).get("/records");
    assert_eq!((answer.status, answer.text()), (503, "Cloudflare hangs\n"));
}

/// ExternalDNS ends its process after a 4xx, fails in every loop after a 500, and discards the texts.
#[test]
fn a_request_that_ends_external_dns_and_an_answer_that_is_too_large_are_in_the_log() {
    let log = Log::default();
    let large = "x".repeat(limits::ENDPOINT_MAX_BYTES);
    let records = move || Ok((0..1_600).map(|_| endpoint(large.clone())).collect());
    let api = start_by(log.marking(Arc::new(SystemClock)), settings(), Fake::new(records));
    let mut client = Client::connect(api.address());
    for path in ["/adjustendpoints", "/records"] {
        client.send(format!(
            "POST {path} HTTP/1.1\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: 1\r\n\r\n{{"
        ));
        assert_eq!(client.answer().status, 400, "{path}");
    }
    assert_eq!(log.lines_with(&["WARN", "the body cannot be read"]).len(), 2);
    client.send("POST /records HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\n{");
    assert_eq!(client.answer().status, 415);
    assert_eq!(log.lines_with(&["WARN", "/records", "unsupported media type"]).len(), 1);
    assert_eq!(client.get("/records").status, 500);
    assert_eq!(log.lines_with(&["WARN", "the answer is larger than ExternalDNS reads"]).len(), 1);
}

#[test]
fn a_large_answer_has_a_length_and_arrives_whole() {
    let api = start(
        settings(),
        Fake::new(|| Ok((0..20_000).map(|n| endpoint(format!("{n}.example.com"))).collect())),
    );
    let answer = Client::connect(api.address()).get("/records");
    assert!(answer.body.len() > 1 << 20);
    assert_eq!(answer.values("Transfer-Encoding"), [""; 0]);
    let endpoints: Vec<serde_json::Value> = serde_json::from_slice(&answer.body).expect("a list");
    assert_eq!(endpoints.len(), 20_000);
}

#[test]
fn both_loopback_addresses_are_served() {
    // A port that is free on 127.0.0.1 may be taken on ::1.
    let free = TcpListener::bind("[::]:0").or_else(|_| TcpListener::bind("127.0.0.1:0"));
    let port = free.and_then(|free| free.local_addr()).expect("a port is free").port();
    let addresses = [SocketAddr::from((Ipv4Addr::LOCALHOST, port)), (Ipv6Addr::LOCALHOST, port).into()];
    let api = start(ServerSettings::new(addresses.to_vec()), Fake::empty());
    for address in &api.addresses {
        assert_eq!(Client::connect(*address).get("/records").status, 200, "{address}");
    }
    if api.addresses.len() < 2 {
        println!("IPv6 is off here; only 127.0.0.1 was tried");
    }
}
