//! What the client does with servers that misbehave, over real sockets.
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use external_dns_cloudflare_tunnel_webhook::clock::{Deadline, SystemClock};
use external_dns_cloudflare_tunnel_webhook::cloudflare::{
    BaseUrl, Batch, Client, ClientSettings, Credentials, Error, Proxy, TransportErrorKind, roots,
};
use external_dns_cloudflare_tunnel_webhook::limits::API_RESPONSE_MAX_BYTES;
use external_dns_cloudflare_tunnel_webhook::model::{AccountId, RecordId, TunnelId, ZoneId};
use external_dns_cloudflare_tunnel_webhook::secret::Secret;
use test_support::own_process::{is_own_process, own_process};

use crate::server::{EMPTY_LIST, Server, TOKEN, Then, answer, answer_bytes, client, client_with};

fn deadline(milliseconds: u64) -> Deadline {
    Deadline::after(&SystemClock, Duration::from_millis(milliseconds))
}

fn read(client: &Client, milliseconds: u64) -> Result<usize, Error> {
    client.records(&ZoneId::new("z1"), deadline(milliseconds)).map(|records| records.len())
}

fn write(client: &Client, milliseconds: u64) -> Result<(), Error> {
    let batch = Batch { deletes: vec![RecordId::new("r1")], ..Batch::default() };
    client.batch(&ZoneId::new("z1"), &batch, deadline(milliseconds)).map(|_| ())
}

fn kind(error: &Error) -> Option<TransportErrorKind> {
    match error {
        Error::Unanswered(error) | Error::Unreachable(error) => Some(error.kind),
        _ => None,
    }
}

fn ok(_: usize, stream: &mut TcpStream) -> Then {
    answer(stream, 200, "", EMPTY_LIST);
    Then::Keep
}

#[test]
fn a_request_names_the_program_and_carries_the_token() {
    let server = Server::start(ok);
    read(&server.client(), 5000).unwrap();
    write(&server.client(), 5000).unwrap();
    let [read, write] = &server.requests()[..] else {
        panic!("{:?}", server.requests());
    };
    assert!(
        read.starts_with("GET /client/v4/zones/z1/dns_records?page=1&per_page=5000 HTTP/1.1\r\n"),
        "{read}"
    );
    assert!(write.starts_with("POST /client/v4/zones/z1/dns_records/batch HTTP/1.1\r\n"), "{write}");
    for request in [read, write] {
        let lower = request.to_ascii_lowercase();
        assert!(request.contains(&format!("Bearer {TOKEN}\r\n")), "{request}");
        assert!(lower.contains("\r\nuser-agent: external-dns-cloudflare-tunnel-webhook/0."), "{request}");
        assert!(lower.contains("\r\naccept: application/json\r\n"), "{request}");
        assert!(lower.contains("\r\naccept-encoding: gzip\r\n"), "{request}");
    }
    let write = write.to_ascii_lowercase();
    assert!(write.contains("\r\ncontent-type: application/json\r\n"), "{write}");
    assert!(write.contains("\r\ncontent-length: 25\r\n"), "{write}");
    assert!(!write.contains("transfer-encoding"), "{write}");
    assert!(write.ends_with("\r\n\r\n{\"deletes\":[{\"id\":\"r1\"}]}"), "{write}");
}

#[test]
fn the_older_pair_is_sent_in_its_own_headers() {
    let server = Server::start(ok);
    let credentials = Credentials {
        secret: Secret::parse("0123456789abcdef").unwrap(),
        email: Some("ops@example.com".into()),
    };
    read(&client_with(&format!("http://{}", server.address), credentials), 5000).unwrap();
    let request = server.requests().remove(0).to_ascii_lowercase();
    assert!(request.contains("\r\nx-auth-email: ops@example.com\r\n"), "{request}");
    assert!(request.contains("\r\nx-auth-key: 0123456789abcdef\r\n"), "{request}");
    assert!(!request.contains("authorization"), "{request}");
}

#[test]
fn a_connection_is_kept_for_the_next_read() {
    let server = Server::start(ok);
    let client = server.client();
    for _ in 0..3 {
        read(&client, 5000).unwrap();
    }
    write(&client, 5000).unwrap();
    read(&client, 5000).unwrap();
    assert_eq!((server.requests().len(), server.connections()), (5, 2));
}

#[test]
fn connections_of_parallel_reads_are_all_kept() {
    // No read is answered before all four have asked.
    let together = std::sync::Barrier::new(4);
    let server = Server::start(move |_, stream| {
        together.wait();
        ok(0, stream)
    });
    let client = server.client();
    for _ in 0..2 {
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| read(&client, 5000).unwrap());
            }
        });
    }
    assert_eq!((server.requests().len(), server.connections()), (8, 4));
}

/// ureq hands a kept connection out although the server closes it just then, and repeats nothing by itself.
#[test]
fn a_read_survives_that_the_server_closes_a_kept_connection() {
    let server = Server::start(|number, stream| match number {
        1 => Then::Close,
        _ => ok(number, stream),
    });
    let client = server.client();
    read(&client, 5000).unwrap();
    read(&client, 5000).unwrap();
    assert_eq!((server.requests().len(), server.connections()), (3, 2));
}

/// Whatever closed one kept connection has closed the others too.
#[test]
fn after_a_kept_connection_was_closed_no_other_kept_one_is_tried() {
    let together = std::sync::Barrier::new(2);
    let server = Server::start(move |number, stream| match number {
        0 | 1 => {
            together.wait();
            ok(number, stream)
        }
        2 => Then::Close,
        _ => ok(number, stream),
    });
    let client = server.client();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| read(&client, 5000).unwrap());
        }
    });
    read(&client, 5000).unwrap();
    assert_eq!((server.requests().len(), server.connections()), (4, 3));
}

/// TLS with a server that speaks none: nothing was sent in clear.
#[test]
fn a_write_whose_handshake_fails_was_not_done() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.unwrap().write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let error = write(&client(&format!("https://{address}")), 5000).unwrap_err();
    assert!(matches!(error, Error::Unreachable(_)), "{error:?}");
    assert!(!error.may_have_been_done());
}

#[test]
fn a_read_is_repeated_when_its_answer_is_cut_off() {
    for (label, cut_off) in [
        ("in the body", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"success\":true,"),
        ("in a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n{\"success\""),
        ("without a length", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"success\":true,"),
        ("in the head", "HTTP/1.1 200 OK\r\nContent-Le"),
        ("before it began", ""),
    ] {
        let server = Server::start(move |number, stream| match number {
            0 => {
                let _ = stream.write_all(cut_off.as_bytes());
                Then::Close
            }
            _ => ok(number, stream),
        });
        assert_eq!(read(&server.client(), 5000), Ok(0), "{label}");
        assert_eq!(server.requests().len(), 2, "{label}");
    }
}

#[test]
fn a_failure_that_is_cut_off_still_counts_for_its_status() {
    let server = Server::start(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 429 X\r\nRetry-After: 300\r\nContent-Length: 100\r\n\r\n{");
        Then::Close
    });
    let error = read(&server.client(), 5000).unwrap_err();
    assert!(matches!(error, Error::RateLimited { .. }), "{error}");
}

#[test]
fn what_is_not_http_is_an_error() {
    for text in ["garbage garbage garbage\r\n\r\n", "\0\0\0\0\0\0\0\0\r\n\r\n", "HTTP/1.1 OK\r\n\r\n"] {
        let server = Server::start(move |_, stream| {
            let _ = stream.write_all(text.as_bytes());
            Then::Close
        });
        let error = write(&server.client(), 5000).unwrap_err();
        assert!(matches!(error, Error::Unanswered(_)), "{text:?}: {error}");
    }
}

#[test]
fn a_head_without_an_end_is_cut_off() {
    for (padding, expected) in [
        // There may be a hundred fields.
        ("X-Padding: 0123456789012345678901234567890123456789\r\n", TransportErrorKind::Protocol),
        ("X: ", TransportErrorKind::Disconnected),
        ("0123456789", TransportErrorKind::Disconnected),
    ] {
        let server = Server::start(move |_, stream| {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
            while stream.write_all(padding.as_bytes()).is_ok() {}
            Then::Close
        });
        let error = write(&server.client(), 10_000).unwrap_err();
        assert!(matches!(error, Error::Unanswered(_)), "{padding:?}: {error}");
        assert_eq!(kind(&error), Some(expected), "{padding:?}: {error}");
    }
}

/// RFC 9110, section 15.2. Both may come in one segment.
#[test]
fn interim_answers_are_read_past() {
    for (interim, body) in [
        ("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", EMPTY_LIST.to_owned()),
        ("HTTP/1.1 103 Early Hints\r\n\r\n", format!("{}{EMPTY_LIST}", " ".repeat(100_000))),
        ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n", EMPTY_LIST.to_owned()),
    ] {
        let server = Server::start(move |_, stream| {
            let length = body.len();
            let whole = format!("{interim}HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}");
            let _ = stream.write_all(whole.as_bytes());
            Then::Keep
        });
        assert_eq!(read(&server.client(), 5000), Ok(0), "{interim}");
        assert_eq!(server.requests().len(), 1, "{interim}");
    }
}

#[test]
fn a_redirect_is_not_followed() {
    let elsewhere = Server::start(ok);
    let location = format!("Location: http://{}/\r\n", elsewhere.address);
    for status in [301, 302, 303, 307, 308] {
        let location = location.clone();
        let server = Server::start(move |_, stream| {
            answer(stream, status, &location, "");
            Then::Keep
        });
        for error in [read(&server.client(), 5000).map(drop), write(&server.client(), 5000)] {
            let error = error.unwrap_err();
            assert!(matches!(&error, Error::Intercepted(refusal) if refusal.status == status), "{error}");
        }
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[test]
fn a_compressed_answer_is_read() {
    let server = Server::start(|_, stream| {
        answer_bytes(stream, 200, "Content-Encoding: gzip\r\n", &gzip_stored(EMPTY_LIST.as_bytes()));
        Then::Keep
    });
    assert_eq!(read(&server.client(), 5000), Ok(0));
}

#[test]
fn a_damaged_compressed_answer_is_an_error() {
    let server = Server::start(|_, stream| {
        let mut body = gzip_stored(EMPTY_LIST.as_bytes());
        body[20] ^= 1;
        answer_bytes(stream, 200, "Content-Encoding: gzip\r\n", &body);
        Then::Keep
    });
    let error = write(&server.client(), 5000).unwrap_err();
    assert!(error.may_have_been_done(), "{error}");
}

/// 350 KB on the wire are 56 MB; ureq's own limit would count the former.
#[test]
fn an_answer_that_unpacks_beyond_the_cap_is_stopped() {
    let bomb: Arc<[u8]> = gzip_bomb(API_RESPONSE_MAX_BYTES + API_RESPONSE_MAX_BYTES / 2).into();
    let server = Server::start(move |_, stream| {
        answer_bytes(stream, 200, "Content-Encoding: gzip\r\n", &bomb);
        Then::Keep
    });
    let error = read(&server.client(), 10_000).unwrap_err();
    assert_eq!(kind(&error), Some(TransportErrorKind::TooLarge), "{error}");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_large_document_is_written_whole() {
    let server = Server::start(|_, stream| {
        answer(stream, 200, "", r#"{"success":true,"result":{"version":8}}"#);
        Then::Keep
    });
    let rules = vec![r#"{"hostname":"a.example.com","service":"http://a.shop.svc:8080"}"#; 5000].join(",");
    let config = format!(r#"{{"ingress":[{rules}]}}"#);
    let raw = serde_json::value::RawValue::from_string(config.clone()).unwrap();
    let tunnel = TunnelId::parse("6ff42ae2-765d-4adf-8112-31c55c1551ef").unwrap();
    let written =
        server.client().put_configuration(&AccountId::new("a1"), &tunnel, &raw, deadline(5000)).unwrap();
    assert_eq!(written.version, 8);
    let request = server.requests().remove(0);
    let (_, body) = request.split_once("\r\n\r\n").unwrap();
    assert_eq!(body, format!(r#"{{"config":{config}}}"#));
}

#[test]
fn calls_go_through_a_proxy_which_sees_its_own_credentials_and_not_the_token() {
    let proxy = Server::start(|number, stream| match number {
        0 => {
            let _ = stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n");
            Then::Keep
        }
        _ => ok(number, stream),
    });
    let settings = ClientSettings {
        base_url: BaseUrl::parse("http://api.invalid").unwrap(),
        credentials: Credentials { secret: Secret::parse(TOKEN).unwrap(), email: None },
        credential_file: None,
        roots: roots(None).unwrap(),
        proxy: Some(Proxy::parse(&format!("http://jo:hunter%402@{}", proxy.address)).unwrap()),
    };
    let client = Client::new(settings, Arc::new(SystemClock), Arc::default());
    assert_eq!(read(&client, 5000), Ok(0));
    let [connect, read] = &proxy.requests()[..] else {
        panic!("{:?}", proxy.requests());
    };
    assert!(connect.starts_with("CONNECT api.invalid:80 HTTP/1.1\r\n"), "{connect}");
    // jo:hunter@2
    assert!(connect.contains("\r\nProxy-Authorization: Basic am86aHVudGVyQDI=\r\n"), "{connect}");
    assert!(!connect.contains(TOKEN) && read.contains(TOKEN), "{connect}{read}");
}

/// ureq would read the environment where nothing is said. A process cannot change its own safely.
#[test]
fn the_environment_says_nothing_to_the_client_by_itself() {
    if is_own_process() {
        let error = read(&client("http://api.invalid"), 1000).unwrap_err();
        assert_eq!(kind(&error), Some(TransportErrorKind::Lookup), "{error}");
        assert!(error.to_string().contains("name lookup failed: api.invalid: "), "{error}");
        return;
    }
    let proxy = Server::start(ok);
    let output = own_process("transport::the_environment_says_nothing_to_the_client_by_itself", "")
        .envs(
            ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"]
                .map(|name| (name, format!("http://{}", proxy.address))),
        )
        .env_remove("NO_PROXY")
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
    assert_eq!(proxy.connections(), 0);
}

/// gzip without compression.
fn gzip_stored(data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(data.len()).unwrap();
    let mut gzip = GZIP_HEAD.to_vec();
    gzip.push(1);
    gzip.extend(length.to_le_bytes());
    gzip.extend((!length).to_le_bytes());
    gzip.extend(data);
    let mut crc = u32::MAX;
    for byte in data {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xEDB8_8320 * (crc & 1));
        }
    }
    gzip.extend((!crc).to_le_bytes());
    gzip.extend(u32::from(length).to_le_bytes());
    gzip
}

/// gzip of blanks: one literal, then for every 13 bits another 258 of it.
fn gzip_bomb(length: u64) -> Vec<u8> {
    let mut bits = Bits { bytes: GZIP_HEAD.to_vec(), used: 8 };
    bits.push("1"); // The last block,
    bits.push("10"); // with the fixed codes, the low bit first.
    bits.push("01010000"); // A blank.
    for _ in 0..length / 258 {
        bits.push("1100010100000"); // 258 bytes from one byte back.
    }
    bits.push("0000000");
    bits.bytes
}

const GZIP_HEAD: [u8; 10] = [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 0xFF];

/// Bits, filled in from the lowest of each byte.
struct Bits {
    bytes: Vec<u8>,
    used: u8,
}

impl Bits {
    fn push(&mut self, bits: &str) {
        for bit in bits.bytes() {
            if self.used == 8 {
                self.bytes.push(0);
                self.used = 0;
            }
            *self.bytes.last_mut().unwrap() |= (bit - b'0') << self.used;
            self.used += 1;
        }
    }
}
