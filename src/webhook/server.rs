//! Serves the API port with tiny_http, and guards tiny_http from outside.
//!
//! No other file calls tiny_http. `docs/security.md` lists its weaknesses, how this file closes them, and which of them
//! remain.
//!
//! ```text
//! connection threads (tiny_http's, one each) ──queue──> acceptor, one a listener ──pool──> workers
//!   read heads, and bodies up to 1 KiB                    starts the deadline            read the body, ask the
//!                                                         checks the listener            handler, answer
//! ```

use std::fmt;
use std::io::{self, Cursor};
use std::mem;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use log::Level;
use tiny_http::{Header, Request, StatusCode};

use super::body::Body;
use super::permit::{HeldPermit, LargeBodyPermit};
use super::pool::Pool;
use super::routes::{self, Head};
use super::{Failure, Handler};
use crate::clock::{Clock, Deadline};
use crate::limits;
use crate::listener::{self, Response};
use crate::logging;
use crate::model::LogLine;
use crate::model::text::{QUOTED_MAX_CHARS, cut};
use crate::observe::metrics::{Family, Metrics};
use crate::shutdown::Shutdown;

/// The time for one blocked send on the API port before the client is given up.
const API_SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// When tiny_http drains a body, it allocates the unread rest in one piece. Up to this size, that takes only address
/// space. A larger allocation may fail and abort the process, so a request with a larger body is never dropped.
const DRAINED_BODY_MAX_BYTES: usize = 256 * 1024 * 1024;

#[cfg(not(panic = "unwind"))]
compile_error!(
    "tiny_http panics when a client resets early: build with panic = \"unwind\", or one packet ends the process"
);

/// A worker's stack, on which the provider's TLS handshakes run. Only the pages that are touched become resident.
const WORKER_STACK_BYTES: usize = 1024 * 1024;

const TOO_LARGE: &str = "look for objects with many annotations and hostnames, or let several pairs of ExternalDNS \
    and webhook share the hostnames (--domain-filter, DOMAIN_FILTER)";

const BUSY: &str = "another request with a large body was running until this request's deadline: ExternalDNS sends one \
    request at a time, so find the other client of this port";

/// Headers that a browser sends with the requests of a web page, and that ExternalDNS never sends.
const PAGE_HEADERS: [&str; 2] = ["Origin", "Sec-Fetch-Site"];

#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// The addresses to listen on. If there are several, those of an address family that the machine lacks are left out
    /// with a warning.
    pub addresses: Vec<SocketAddr>,
    /// The longest time that a request may take.
    pub request_timeout: Duration,
    /// The number of requests that are answered at once.
    pub workers: usize,
    /// The longest time that one blocked send of an answer may take.
    pub send_timeout: Duration,
    /// The time between two checks that the listening sockets are still open.
    pub check_period: Duration,
    /// Counts the requests.
    pub metrics: Arc<Metrics>,
}

impl ServerSettings {
    /// The settings for these addresses, with the limits of [`crate::limits`].
    pub fn new(addresses: Vec<SocketAddr>) -> Self {
        Self {
            addresses,
            request_timeout: limits::REQUEST_TIMEOUT_DEFAULT,
            workers: limits::API_WORKERS,
            send_timeout: API_SEND_TIMEOUT,
            check_period: limits::LISTENER_CHECK_PERIOD,
            metrics: Arc::default(),
        }
    }
}

/// Listening sockets without a server yet.
#[derive(Debug)]
pub struct BoundServer {
    listeners: Vec<(SocketAddr, TcpListener)>,
    settings: ServerSettings,
}

/// A running server. Dropping it does not stop it.
pub struct RunningServer {
    shared: Arc<Shared>,
    acceptors: Vec<(Arc<tiny_http::Server>, JoinHandle<()>)>,
}

/// The state that all threads of a server share.
struct Shared {
    handler: Arc<dyn Handler>,
    clock: Arc<dyn Clock>,
    shutdown: Shutdown,
    settings: ServerSettings,
    pool: Pool<Job>,
    permit: Arc<LargeBodyPermit>,
    stopping: AtomicBool,
}

struct Job {
    request: Request,
    arrived: Instant,
    deadline: Deadline,
    /// The request has no body, or all of it was read.
    is_read: bool,
    /// It is held until the answer is sent, because the answer is as large as the body.
    permit: Option<HeldPermit>,
}

/// Keeps tiny_http's panic over early resets out of the log. When a client resets its connection before tiny_http has
/// accepted it, the connection's thread panics over the missing address.
pub fn ignore_early_resets() {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |panicked| {
        let file = panicked.location().map_or("", |place| place.file());
        if !is_early_reset(file, panicked.payload_as_str().unwrap_or_default()) {
            report(panicked);
        }
    }));
}

/// Recognises that panic by its file and message. All others are logged.
fn is_early_reset(file: &str, said: &str) -> bool {
    file.contains("tiny_http") && file.ends_with("client.rs") && said.contains("NotConnected")
}

/// Opens the listening sockets. Clients that connect from now on are answered once [`BoundServer::serve`] runs.
///
/// # Errors
/// When an address cannot be bound although the machine has its family, or when none can be bound.
pub fn bind(settings: ServerSettings) -> io::Result<BoundServer> {
    let mut listeners = Vec::new();
    let mut unavailable = None;
    for address in &settings.addresses {
        match listener::bind(*address) {
            Ok(listener) => {
                listener::set_inherited_options(&listener, settings.send_timeout)?;
                listeners.push((listener.local_addr()?, listener));
            }
            Err(error) if listener::is_unavailable(&error) => unavailable = Some((address, error)),
            Err(error) => return Err(error),
        }
    }
    if let Some((address, error)) = unavailable {
        if listeners.is_empty() {
            return Err(error);
        }
        log::warn!("cannot listen on {address}: {error}; the webhook goes on without this address");
    }
    Ok(BoundServer { listeners, settings })
}

impl BoundServer {
    pub fn local_addrs(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        self.listeners.iter().map(|(address, _)| *address)
    }

    /// Starts to answer requests, in threads of its own, until [`RunningServer::stop`]. A server that cannot continue
    /// reports so through `shutdown`.
    pub fn serve(
        self,
        handler: Arc<dyn Handler>,
        clock: Arc<dyn Clock>,
        shutdown: Shutdown,
    ) -> io::Result<RunningServer> {
        let Self { listeners, settings } = self;
        let shared = Arc::new(Shared {
            handler,
            clock,
            shutdown,
            settings,
            pool: Pool::new(),
            permit: Arc::default(),
            stopping: AtomicBool::new(false),
        });
        for _ in 0..shared.settings.workers {
            let shared = Arc::clone(&shared);
            spawn("webhook", WORKER_STACK_BYTES, move || shared.pool.work(|job| shared.work(job)))?;
        }
        let mut acceptors = Vec::with_capacity(listeners.len());
        for (address, listener) in listeners {
            let server = Arc::new(open(listener)?);
            let acceptor = Acceptor { shared: Arc::clone(&shared), server: Arc::clone(&server), address };
            let thread = spawn("webhook-accept", limits::LISTENER_STACK_BYTES, move || acceptor.run())?;
            acceptors.push((server, thread));
        }
        Ok(RunningServer { shared, acceptors })
    }
}

/// Hands a listening socket to tiny_http, which panics if it cannot start a thread.
fn open(listener: TcpListener) -> io::Result<tiny_http::Server> {
    panic::catch_unwind(|| tiny_http::Server::from_listener(listener, None))
        .map_err(|_| io::Error::other("tiny_http could not start a thread"))?
        .map_err(|error| io::Error::other(error.to_string()))
}

fn spawn(name: &str, stack_bytes: usize, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).stack_size(stack_bytes).spawn(run)
}

impl RunningServer {
    /// Closes the listening sockets and waits until all running requests are answered, for at most the time of a
    /// request. Returns true if all were.
    pub fn stop(self) -> bool {
        self.shared.stopping.store(true, Ordering::Release);
        for (server, acceptor) in self.acceptors {
            server.unblock();
            if acceptor.join().is_err() {
                log::error!("a thread of the API port panicked");
            }
            // This is the last owner, so dropping it closes the socket.
            drop(server);
        }
        self.shared.pool.stop(self.shared.settings.request_timeout)
    }
}

impl fmt::Debug for RunningServer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("RunningServer")
    }
}

/// Takes requests from one listener, and watches it.
struct Acceptor {
    shared: Arc<Shared>,
    server: Arc<tiny_http::Server>,
    address: SocketAddr,
}

impl Acceptor {
    fn run(&self) {
        let shared = &*self.shared;
        let period = shared.settings.check_period;
        let mut checked = shared.clock.now();
        loop {
            let received =
                if shared.pool.wait_for_room(period) { self.server.recv_timeout(period) } else { Ok(None) };
            let now = shared.clock.now();
            match received {
                Ok(Some(request)) => {
                    let deadline = Deadline::after(&*shared.clock, shared.settings.request_timeout);
                    let is_read = is_without_body(&request);
                    shared.pool.submit(now, Job { request, arrived: now, deadline, is_read, permit: None });
                }
                Ok(None) if shared.is_stopping() => return,
                Ok(None) => {}
                // tiny_http has closed the listener and ended its accept thread.
                Err(error) => return self.fail(&format!("no longer accepts connections: {error}")),
            }
            if now.saturating_duration_since(checked) >= period {
                checked = now;
                self.check();
            }
        }
    }

    /// Ends the process if tiny_http no longer listens, or if clients hold all workers or the permit for too long.
    fn check(&self) {
        /// Connecting to ourselves takes no longer than this, unless the backlog is full.
        const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

        let shared = &*self.shared;
        // tiny_http panics if it runs out of descriptors between accepting a connection and cloning it. That closes the
        // listener, and only a refused connection shows it.
        if let Err(error) = TcpStream::connect_timeout(&self.address, CONNECT_TIMEOUT)
            && error.kind() == io::ErrorKind::ConnectionRefused
        {
            self.fail("no longer accepts connections");
        }
        // The handler ends at the deadline of its request, so a request that lasts longer waits for its client.
        let Some(limit) = shared.clock.now().checked_sub(shared.settings.request_timeout * 2) else { return };
        if shared.permit.blocks_another_since(limit) {
            self.fail(
                "has a client that neither sends its large body nor closes, while another request waits",
            );
        }
        if shared.pool.waiting_since().is_some_and(|since| since < limit) {
            self.fail("has clients that hold every worker, and neither send nor close");
        }
    }

    fn fail(&self, reason: &str) {
        if !self.shared.is_stopping() {
            self.shared.shutdown.fail(format!("{} {reason}", self.address));
        }
    }
}

impl Shared {
    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Answers one request. No failure ends the worker.
    fn work(&self, mut job: Job) {
        let answer = panic::catch_unwind(AssertUnwindSafe(|| self.answer(&mut job)))
            .unwrap_or_else(|_| Err(Failure::permanent("internal error")))
            .unwrap_or_else(|failure| {
                if let Some(level) = failure.log {
                    log::log!(level, "{}", failure.text);
                }
                Response::text(failure.status, &failure.text)
            });
        let Job { request, arrived, is_read, permit: _permit, .. } = job;
        let duration = self.clock.now().saturating_duration_since(arrived);
        let line = || {
            LogLine::default()
                .quoted("method", &*cut(request.method().as_str(), QUOTED_MAX_CHARS))
                .quoted("path", &*cut(request.url(), QUOTED_MAX_CHARS))
                .word("status", &answer.status)
        };
        logging::debug(module_path!(), || {
            line()
                .word("bytes", &answer.body.len())
                .word("milliseconds", &duration.as_millis())
                .text("a request is answered")
        });
        // ExternalDNS ends its process after these, and discards their texts.
        if matches!(answer.status, 400 | 415) {
            logging::log(
                Level::Warn,
                module_path!(),
                &line().text(String::from_utf8_lossy(&answer.body).trim_end()),
            );
        }
        self.count(&request, answer.status, duration);
        let send = || panic::catch_unwind(AssertUnwindSafe(|| self.send(request, answer)));
        // Sending also drains the rest of the body.
        match if is_read { Some(send()) } else { self.pool.wait_for_client(send) } {
            None | Some(Ok(Ok(()))) => {}
            Some(Ok(Err(error))) => log::warn!("an answer could not be sent: {error}"),
            Some(Err(_)) => log::error!("an answer could not be sent: tiny_http panicked"),
        }
    }

    fn count(&self, request: &Request, status: u16, duration: Duration) {
        let route = routes::name(request.method().as_str(), request.url());
        let mut values = self.settings.metrics.update();
        values.add(Family::Requests, &[route, &status.to_string()], 1);
        values.observe(Family::RequestDuration, &[route], duration);
    }

    /// The answer to a request, unless the request is refused or the handler fails.
    fn answer(&self, job: &mut Job) -> Result<Response, Failure> {
        if job.deadline.is_over(&*self.clock) {
            return Err(Failure::unavailable("no worker was free in time").logged(Level::Warn));
        }
        let request = &job.request;
        check_framing(request)?;
        let route = routes::accept(&Head {
            method: request.method().as_str(),
            target: request.url(),
            content_type: values(request, "Content-Type"),
            is_from_page: PAGE_HEADERS.iter().any(|name| !values(request, name).is_empty()),
        })?;
        let mut bytes = Vec::new();
        if route.has_body() {
            let received = self.pool.wait_for_client(|| self.receive(job));
            bytes = received.ok_or_else(|| Failure::unavailable("the webhook is stopping"))??;
            job.is_read = true;
        }
        route.answer(Body::new(bytes)?, &*self.handler, job.deadline)
    }

    /// Receives the whole body. A large body needs the permit first.
    fn receive(&self, job: &mut Job) -> Result<Vec<u8>, Failure> {
        /// The announced length may be wrong, so the buffer grows in steps.
        const STEP_BYTES: usize = 64 * 1024;
        const CHUNK_BYTES: usize = 16 * 1024;

        let announced = job.request.body_length();
        let mut bytes = Vec::new();
        let mut chunk = [0; CHUNK_BYTES];
        loop {
            let known = announced.unwrap_or_default().max(bytes.len());
            if known > limits::REQUEST_BODY_MAX_BYTES {
                let most = limits::REQUEST_BODY_MAX_BYTES / (1024 * 1024);
                let text = format!("the body is larger than {most} MiB: {TOO_LARGE}");
                return Err(Failure::unavailable(text).logged(Level::Warn));
            }
            if known > limits::SMALL_BODY_MAX_BYTES && job.permit.is_none() {
                job.permit = self.permit.take(job.arrived, job.deadline.remaining(&*self.clock));
                if job.permit.is_none() {
                    return Err(Failure::unavailable(BUSY).logged(Level::Warn));
                }
            }
            let read = job.request.as_reader().read(&mut chunk);
            if job.deadline.is_over(&*self.clock) {
                return Err(Failure::unavailable("the body came too late").logged(Level::Warn));
            }
            match read {
                Ok(0) if announced.is_some_and(|announced| bytes.len() < announced) => {
                    return Err(Failure::malformed("it ended before its announced length"));
                }
                Ok(0) => return Ok(bytes),
                Ok(length) => {
                    if bytes.capacity() - bytes.len() < length {
                        bytes.reserve_exact(STEP_BYTES);
                    }
                    bytes.extend_from_slice(chunk.get(..length).unwrap_or_default());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Failure::malformed(error)),
            }
        }
    }

    /// Sends the answer. When a request is dropped, tiny_http reads the rest of the body into one buffer of the
    /// announced size. If memory may lack room for that buffer, the request is never dropped and gets no answer. Its
    /// connection can then neither be used again nor closed. If that uses up the descriptors, tiny_http stops
    /// listening.
    fn send(&self, request: Request, answer: Response) -> io::Result<()> {
        let length = request.body_length().unwrap_or_default();
        if length <= DRAINED_BODY_MAX_BYTES {
            return respond(request, answer);
        }
        mem::forget(request);
        log::warn!("a request announced a body of {length} bytes, and gets no answer");
        Ok(())
    }
}

fn respond(request: Request, answer: Response) -> io::Result<()> {
    let Response { status, content_type, body } = answer;
    // All values are constants, because tiny_http does not check them for line ends.
    let headers = [("Server", env!("CARGO_PKG_NAME")), ("Content-Type", content_type)];
    let headers = headers.into_iter().filter(|(_, value)| !value.is_empty());
    let headers = headers.filter_map(|(name, value)| Header::from_bytes(name, value).ok());
    let length = body.len();
    request.respond(
        tiny_http::Response::new(
            StatusCode(status),
            headers.collect(),
            Cursor::new(body),
            Some(length),
            None,
        )
        // ExternalDNS and tools that debug it expect a length.
        .with_chunked_threshold(usize::MAX),
    )
}

fn values<'a>(request: &'a Request, name: &'static str) -> Vec<&'a str> {
    request
        .headers()
        .iter()
        .filter(|header| header.field.equiv(name))
        .map(|header| header.value.as_str())
        .collect()
}

/// Refuses a request if its headers do not clearly tell where its body ends. tiny_http takes any `Transfer-Encoding`
/// for chunked, uses the first of two lengths, and ignores a length that is not a number.
fn check_framing(request: &Request) -> Result<(), Failure> {
    let lengths = values(request, "Content-Length");
    let encodings = values(request, "Transfer-Encoding");
    let is_clear = match (&*lengths, &*encodings) {
        ([], []) => true,
        ([length], []) => length.bytes().all(|byte| byte.is_ascii_digit()) && request.body_length().is_some(),
        ([], [encoding]) => {
            // After an upgrade the reader would be the raw connection, which has no end.
            let upgrade = values(request, "Connection")
                .iter()
                .any(|value| value.to_ascii_lowercase().contains("upgrade"));
            encoding.eq_ignore_ascii_case("chunked") && !upgrade
        }
        _ => false,
    };
    if is_clear { Ok(()) } else { Err(Failure::new(400, "ambiguous length")) }
}

/// True if the request has no body. The length of a body in chunks is unknown.
fn is_without_body(request: &Request) -> bool {
    let is_chunked = || !values(request, "Transfer-Encoding").is_empty();
    request.body_length().map_or_else(|| !is_chunked(), |length| length == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_panic_but_that_of_an_early_reset_is_kept_out_of_the_log() {
        const FILE: &str = "/registry/tiny_http-0.12.0/src/client.rs";
        const SAID: &str = "called `Result::unwrap()` on an `Err` value: Os { code: 107, kind: NotConnected, message: \"\" }";
        for (file, said, expected) in [
            (FILE, SAID, true),
            ("vendor/tiny_http/src/client.rs", SAID, true),
            (FILE, "called `Option::unwrap()` on a `None` value", false),
            (FILE, &SAID.replace("107, kind: NotConnected", "24, kind: Uncategorized"), false),
            ("/registry/tiny_http-0.12.0/src/util/refined_tcp_stream.rs", SAID, false),
            ("src/webhook/server.rs", SAID, false),
        ] {
            assert_eq!(is_early_reset(file, said), expected, "{file}: {said}");
        }
    }
}
