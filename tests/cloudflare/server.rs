//! A server that speaks raw bytes, for answers that no well-behaved server gives.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use external_dns_cloudflare_tunnel_webhook::cloudflare::{
    BaseUrl, Client, ClientSettings, Credentials, roots,
};
use external_dns_cloudflare_tunnel_webhook::secret::Secret;
use test_support::clock::ManualClock;

/// What clients in these tests send.
pub(crate) const TOKEN: &str = "SeCrEt_ToKeN-0123456789abcdefghijklmnopq";

/// An empty list.
pub(crate) const EMPTY_LIST: &str = r#"{"success":true,"errors":[],"messages":[],"result":[]}"#;

/// What becomes of a connection after an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// The next request is awaited on it.
    Keep,
    /// It is closed.
    Close,
}

/// Answers request number `usize`, counted from 0 over all connections.
type Behaviour = dyn Fn(usize, &mut TcpStream) -> Then + Send + Sync;

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
}

impl Server {
    pub(crate) fn start(behaviour: impl Fn(usize, &mut TcpStream) -> Then + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            address: listener.local_addr().unwrap(),
            requests: Arc::default(),
            connections: Arc::default(),
        };
        let (requests, connections) = (Arc::clone(&server.requests), Arc::clone(&server.connections));
        let behaviour: Arc<Behaviour> = Arc::new(behaviour);
        // Ends with the process.
        thread::spawn(move || {
            for stream in listener.incoming() {
                connections.fetch_add(1, Ordering::SeqCst);
                let (requests, behaviour) = (Arc::clone(&requests), Arc::clone(&behaviour));
                thread::spawn(move || serve(stream.unwrap(), &requests, &*behaviour));
            }
        });
        server
    }

    /// Head and body of each request, as it came.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn client(&self) -> Client {
        client(&format!("http://{}/client/v4", self.address))
    }
}

pub(crate) fn client(base_url: &str) -> Client {
    client_with(base_url, Credentials { secret: Secret::parse(TOKEN).unwrap(), email: None })
}

pub(crate) fn client_with(base_url: &str, credentials: Credentials) -> Client {
    client_of(settings(base_url, credentials))
}

pub(crate) fn client_of(settings: ClientSettings) -> Client {
    Client::new(settings, Arc::<ManualClock>::default(), Arc::default())
}

pub(crate) fn settings(base_url: &str, credentials: Credentials) -> ClientSettings {
    let base_url = BaseUrl::parse(base_url).unwrap();
    ClientSettings { base_url, credentials, credential_file: None, roots: roots(None).unwrap(), proxy: None }
}

fn serve(mut stream: TcpStream, requests: &Mutex<Vec<String>>, behaviour: &Behaviour) {
    while let Some(request) = read_request(&mut stream) {
        let number = {
            let mut requests = requests.lock().unwrap();
            requests.push(request);
            requests.len() - 1
        };
        if behaviour(number, &mut stream) == Then::Close {
            return;
        }
    }
}

/// Reads one request with its body; `None` when the client is gone.
fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .filter_map(|line| line.split_once(':'))
                .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
                .map_or(0, |(_, length)| length.trim().parse().unwrap());
            if body.len() >= length {
                return Some(text.into_owned());
            }
        }
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return None,
            Ok(length) => bytes.extend_from_slice(&chunk[..length]),
        }
    }
}

/// Writes a whole answer; that the client is gone already is no failure of the test.
pub(crate) fn answer(stream: &mut impl Write, status: u16, headers: &str, body: &str) {
    answer_bytes(stream, status, headers, body.as_bytes());
}

pub(crate) fn answer_bytes(stream: &mut impl Write, status: u16, headers: &str, body: &[u8]) {
    let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n{headers}\r\n", body.len());
    // At once: the second of two pieces waits 40 ms for the first one's acknowledgement.
    let _ = stream.write_all(&[head.as_bytes(), body].concat());
}
