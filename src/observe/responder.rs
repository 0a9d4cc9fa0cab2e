//! A small HTTP/1.1 responder that no client can block.
//!
//! One thread looks at every open connection in turn and never blocks on any of them, so slow, idle, endless and
//! half-open clients cost each other nothing. Everything is bounded: the connections (one too many replaces the
//! oldest), the head, the time for each phase, and the bytes that a client may send after its head. Each connection
//! gets one answer. While no connection is open, the thread sleeps in `accept`. While one is open, the thread looks
//! again after a pause that grows to 20 ms, because the standard library has no poll.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::clock::Clock;
use crate::limits;
use crate::listener::{Response, path_of, reached};
use crate::observe::status::{is_of_command, is_same_pod};

/// Open connections of the metrics port. One more replaces the oldest.
const CONNECTIONS_MAX: usize = 64;

/// The head of a request on the metrics port. The kubelet and Prometheus send a few hundred bytes.
const HEAD_MAX_BYTES: usize = 4 * 1024;

/// Header fields of a request on the metrics port.
const HEADERS_MAX: usize = 64;

/// The time that a client of the metrics port has to read its answer.
const RESPONSE_SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// The time that the metrics port waits for the client to close first, so that a late byte does not reset the
/// connection and destroy the answer on its way.
const LINGER: Duration = Duration::from_secs(1);

/// The bytes that a client of the metrics port may send beyond its head before it is cut off.
const LINGER_MAX_BYTES: usize = 64 * 1024;

/// The shortest and the longest pause between two looks at open connections of the metrics port.
const PAUSE_MIN: Duration = Duration::from_micros(500);

/// See [`PAUSE_MIN`].
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// The pause after a failed `accept`. File descriptors become free in time, and trying at once would not free any.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Maps a path without its query to the answer to `GET`, or to `None` if the path is unknown. The flag is true if a
/// command of this program asks, from the same pod. It must not block the responder's only thread.
pub type Routes = dyn Fn(&str, bool) -> Option<Response> + Send + Sync;

/// A running responder. Dropping it does not stop it.
#[derive(Debug)]
pub struct RunningResponder {
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

/// Starts to answer requests, in a thread of its own, until [`RunningResponder::stop`].
pub fn serve(
    listener: TcpListener,
    routes: Arc<Routes>,
    clock: Arc<dyn Clock>,
) -> io::Result<RunningResponder> {
    let address = listener.local_addr()?;
    let stopping = Arc::new(AtomicBool::new(false));
    let responder = Responder { listener, routes, clock, stopping: Arc::clone(&stopping), failing: false };
    let thread = thread::Builder::new()
        .name("observe".to_owned())
        .stack_size(limits::LISTENER_STACK_BYTES)
        .spawn(move || responder.run())?;
    Ok(RunningResponder { address, stopping, thread })
}

impl RunningResponder {
    /// Closes the listening socket and all open connections.
    pub fn stop(self) {
        /// Connecting to ourselves succeeds at once if the thread is waiting for a connection.
        const WAKE_TIMEOUT: Duration = Duration::from_secs(1);

        self.stopping.store(true, Ordering::Release);
        let address = reached(self.address);
        // Wakes the thread from `accept`. If that fails, the thread stays in `accept`, and nothing waits for it.
        if TcpStream::connect_timeout(&address, WAKE_TIMEOUT).is_ok() && self.thread.join().is_err() {
            log::error!("the thread of the metrics port panicked");
        }
    }
}

struct Responder {
    listener: TcpListener,
    routes: Arc<Routes>,
    clock: Arc<dyn Clock>,
    stopping: Arc<AtomicBool>,
    /// The last `accept` failed. Repeated failures are logged once, not ten times a second.
    failing: bool,
}

impl Responder {
    fn run(mut self) {
        // In the order of their arrival, so the first one is the oldest.
        let mut connections: Vec<Connection> = Vec::with_capacity(CONNECTIONS_MAX);
        let mut pause = PAUSE_MIN;
        while !self.stopping.load(Ordering::Acquire) {
            let arrived = self.accept(&mut connections);
            let now = self.clock.now();
            let mut has_progress = arrived;
            connections.retain_mut(|connection| {
                let progress = connection.poll(now, &*self.routes);
                has_progress |= progress != Progress::Blocked;
                progress != Progress::Closed
            });
            if connections.is_empty() {
                continue;
            }
            pause = if has_progress { PAUSE_MIN } else { (pause * 2).min(PAUSE_MAX) };
            self.clock.sleep(pause);
        }
    }

    /// Accepts waiting connections; if none is open, waits for the first one. Returns true if one was accepted.
    fn accept(&mut self, connections: &mut Vec<Connection>) -> bool {
        /// Fewer than `CONNECTIONS_MAX`, so that a new connection gets a turn before a newer one can replace it.
        const AT_ONCE: usize = CONNECTIONS_MAX / 2;

        let mut arrived = false;
        for _ in 0..AT_ONCE {
            let blocking = connections.is_empty();
            let accepted = self.listener.set_nonblocking(!blocking).and_then(|()| self.listener.accept());
            match accepted {
                Ok((stream, peer)) => {
                    self.failing = false;
                    if connections.len() >= CONNECTIONS_MAX {
                        connections.remove(0);
                    }
                    if stream.set_nonblocking(true).is_ok() {
                        connections.push(Connection::new(stream, peer.ip(), self.clock.now()));
                        arrived = true;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // The client gave up before it was accepted.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted
                    ) => {}
                // The usual cause is a lack of file descriptors. Closing the oldest connection frees one.
                Err(error) => {
                    if !self.failing {
                        log::warn!("the metrics port cannot accept: {error}");
                    }
                    self.failing = true;
                    if !connections.is_empty() {
                        connections.remove(0);
                    }
                    self.clock.sleep(ACCEPT_RETRY_PAUSE);
                    break;
                }
            }
        }
        arrived
    }
}

struct Connection {
    stream: TcpStream,
    /// The peer is in this pod.
    is_same_pod: bool,
    phase: Phase,
    /// The end of the current phase.
    until: Instant,
}

enum Phase {
    /// Waiting for the rest of the head.
    Head(Vec<u8>),
    /// Sending the answer; the number is the bytes sent so far.
    Response(Vec<u8>, usize),
    /// Answered, and closed on our side; the number is the bytes that the client has sent since.
    Lingering(usize),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    Made,
    Blocked,
    Closed,
}

impl Connection {
    fn new(stream: TcpStream, peer: IpAddr, now: Instant) -> Self {
        let is_same_pod = stream.local_addr().is_ok_and(|local| is_same_pod(peer, local.ip()));
        Self {
            stream,
            is_same_pod,
            phase: Phase::Head(Vec::new()),
            until: now + limits::OBSERVE_HEAD_TIMEOUT,
        }
    }

    /// Does everything that is possible without waiting.
    fn poll(&mut self, now: Instant, routes: &Routes) -> Progress {
        match self.advance(now, routes) {
            Ok(progress) => progress,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Progress::Made,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && now < self.until => Progress::Blocked,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.give_up(now),
            // The client is gone.
            Err(_) => Progress::Closed,
        }
    }

    fn advance(&mut self, now: Instant, routes: &Routes) -> io::Result<Progress> {
        match &mut self.phase {
            Phase::Head(head) => {
                if receive_head(&mut self.stream, head)? == 0 {
                    return Ok(Progress::Closed);
                }
                match respond(head, self.is_same_pod, routes) {
                    Some(answer) => self.answer(now, answer),
                    // A client that sends single bytes gets no more time for the whole head.
                    None if now >= self.until => return Ok(self.give_up(now)),
                    None => {}
                }
            }
            Phase::Response(bytes, sent) => {
                *sent += self.stream.write(bytes.get(*sent..).unwrap_or_default())?;
                if *sent >= bytes.len() {
                    self.stream.shutdown(Shutdown::Write)?;
                    self.phase = Phase::Lingering(0);
                    self.until = now + LINGER;
                } else if now >= self.until {
                    return Ok(Progress::Closed);
                }
            }
            Phase::Lingering(discarded) => {
                let mut buffer = [0; 4096];
                let length = self.stream.read(&mut buffer)?;
                *discarded += length;
                if length == 0 || *discarded > LINGER_MAX_BYTES || now >= self.until {
                    return Ok(Progress::Closed);
                }
            }
        }
        Ok(Progress::Made)
    }

    /// Ends a phase whose time is over. A client that sent a part of a head is answered 408.
    fn give_up(&mut self, now: Instant) -> Progress {
        match &self.phase {
            Phase::Head(head) if !head.is_empty() => {
                let answer = Response::text(408, "the request took too long");
                self.answer(now, render(&answer, false));
                Progress::Made
            }
            Phase::Head(_) | Phase::Response(..) | Phase::Lingering(_) => Progress::Closed,
        }
    }

    fn answer(&mut self, now: Instant, bytes: Vec<u8>) {
        self.phase = Phase::Response(bytes, 0);
        self.until = now + RESPONSE_SEND_TIMEOUT;
    }
}

/// Reads the bytes that have arrived, up to the size of a head. Returns their number; 0 if the client closed.
fn receive_head(stream: &mut TcpStream, head: &mut Vec<u8>) -> io::Result<usize> {
    let mut buffer = [0; HEAD_MAX_BYTES];
    let room = HEAD_MAX_BYTES.saturating_sub(head.len());
    let (buffer, _) = buffer.split_at_mut(room);
    let length = stream.read(buffer)?;
    head.extend_from_slice(buffer.get(..length).unwrap_or_default());
    Ok(length)
}

/// The answer to a head; `None` while the head is incomplete.
fn respond(head: &[u8], is_same_pod: bool, routes: &Routes) -> Option<Vec<u8>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let (answer, is_head) = match request.parse(head) {
        Ok(httparse::Status::Partial) if head.len() < HEAD_MAX_BYTES => return None,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            (Response::text(431, "the request's head is too large"), false)
        }
        Ok(httparse::Status::Complete(_)) => {
            let method = request.method.unwrap_or_default();
            let is_command = is_same_pod && is_of_command(request.headers);
            let found = find(routes, path_of(request.path.unwrap_or_default()), is_command);
            let is_allowed = ["GET", "HEAD"].contains(&method) || found.status == 404;
            let answer = if is_allowed { found } else { Response::text(405, "method not allowed") };
            (answer, method == "HEAD")
        }
        Err(httparse::Error::Version) => {
            (Response::text(505, "the webhook supports only HTTP/1.0 and HTTP/1.1"), false)
        }
        Err(_) => (Response::text(400, "malformed request"), false),
    };
    Some(render(&answer, is_head))
}

fn find(routes: &Routes, path: &str, is_command: bool) -> Response {
    panic::catch_unwind(AssertUnwindSafe(|| routes(path, is_command)))
        .unwrap_or_else(|_| Some(Response::text(500, "internal error")))
        .unwrap_or_else(|| Response::text(404, "not found"))
}

/// The bytes of an answer, without its body if the request was HEAD. The reason phrase may be empty, because the status
/// says the same. Only a 405 needs `Allow`, but every answer has it.
fn render(Response { status, content_type, body }: &Response, is_head: bool) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status} \r\nContent-Type: {content_type}\r\nAllow: GET, HEAD\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len(),
    );
    let mut bytes = head.into_bytes();
    if !is_head {
        bytes.extend_from_slice(body);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(path: &str, is_command: bool) -> Option<Response> {
        match path {
            "/status" if is_command => Some(Response::text(200, "ok")),
            "/healthz" => Some(Response::text(200, "ok")),
            "/panics" => panic!("a route that is broken"),
            _ => None,
        }
    }

    fn answer(head: &str) -> Option<String> {
        let bytes = respond(head.as_bytes(), true, &routes)?;
        Some(String::from_utf8(bytes).expect("answers are text"))
    }

    #[test]
    fn a_head_decides_the_answer() {
        let many = format!("GET /healthz HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(65));
        let large = format!("GET /healthz HTTP/1.1\r\na: {}", "b".repeat(4096));
        for (label, head, status) in [
            ("a probe", "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", 200),
            ("an old client", "GET /healthz HTTP/1.0\r\n\r\n", 200),
            ("a query", "GET /healthz?verbose HTTP/1.1\r\n\r\n", 200),
            ("bare line feeds", "GET /healthz HTTP/1.1\nHost: x\n\n", 200),
            ("an unknown path", "GET / HTTP/1.1\r\n\r\n", 404),
            ("a path below", "GET /healthz/ HTTP/1.1\r\n\r\n", 404),
            ("a POST", "POST /healthz HTTP/1.1\r\n\r\n", 405),
            ("a POST to nowhere", "POST /nothing HTTP/1.1\r\n\r\n", 404),
            ("a broken route", "GET /panics HTTP/1.1\r\n\r\n", 500),
            ("HTTP/2", "PRI * HTTP/2.0\r\n\r\n", 505),
            ("no HTTP", "\u{16}\u{3}\u{1}\u{2}\r\n\r\n", 400),
            ("a blank in a name", "GET / HTTP/1.1\r\na b: c\r\n\r\n", 400),
            ("many headers", &many, 431),
            ("a large head", &large, 431),
        ] {
            let answer = answer(head).expect(label);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{label}: {answer}");
            assert!(answer.contains("\r\nConnection: close\r\n"), "{label}: {answer}");
        }
    }

    #[test]
    fn what_is_only_for_the_command_needs_both_its_peer_and_its_headers() {
        let headers = "Host: localhost\r\n";
        let with_origin = "Host: localhost\r\nOrigin: null\r\n";
        for (is_same_pod, headers, status) in
            [(true, headers, 200), (true, with_origin, 404), (false, headers, 404)]
        {
            let head = format!("GET /status HTTP/1.1\r\n{headers}\r\n");
            let answer = respond(head.as_bytes(), is_same_pod, &routes).expect("a complete head");
            assert!(answer.starts_with(format!("HTTP/1.1 {status} ").as_bytes()), "{is_same_pod} {headers}");
        }
    }

    #[test]
    fn a_head_that_is_not_complete_is_waited_for() {
        for head in ["", "G", "GET /healthz HTTP/1.1\r\n", "GET /healthz HTTP/1.1\r\nHost: x\r\n"] {
            assert_eq!(answer(head), None, "{head:?}");
        }
    }

    #[test]
    fn head_is_get_without_the_body() {
        let get = answer("GET /healthz HTTP/1.1\r\n\r\n").expect("a complete head");
        let head = answer("HEAD /healthz HTTP/1.1\r\n\r\n").expect("a complete head");
        assert_eq!(get, format!("{head}ok\n"));
        assert!(head.contains("\r\nContent-Length: 3\r\n"));
    }

    #[test]
    fn a_refused_method_names_those_allowed() {
        let answer = answer("DELETE /healthz HTTP/1.1\r\n\r\n").expect("a complete head");
        assert!(answer.contains("\r\nAllow: GET, HEAD\r\n"), "{answer}");
    }
}
