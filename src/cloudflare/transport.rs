//! Sends HTTP requests. Only this folder and the resolver know ureq.

mod failure;
mod tls;

use std::fmt;
use std::io::{self, Read};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use ureq::http::header::{ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, DATE, RETRY_AFTER};
use ureq::http::{self, HeaderMap, HeaderName, HeaderValue};
use ureq::unversioned::transport::{ConnectProxyConnector, Connector as _, TcpConnector};
use ureq::{Agent, SendBody, Timeout};

use self::tls::TlsConnector;
use super::resolver::CachingResolver;
use super::settings::{ClientSettings, Credentials, USER_AGENT};
use crate::clock::{Clock, Deadline};
use crate::limits::{
    API_RESPONSE_MAX_BYTES, BODY_TIMEOUT, CONNECT_TIMEOUT, CONNECTION_MAX_IDLE, LARGE_RESPONSES_MAX,
    PARALLEL_CALLS, RESOLVE_TIMEOUT, RESPONSE_TIMEOUT, SEND_TIMEOUT,
};
use crate::locks::{lock, wait_while};

pub use self::failure::{TransportError, TransportErrorKind};
pub use self::tls::roots;
pub(super) use ureq::http::Method;

/// The part of an answer that is read before it needs one of `LARGE_RESPONSES_MAX` permits: some 150 records.
const SMALL_RESPONSE_MAX_BYTES: u64 = 64 * 1024;

/// The buffer per connection and direction, and so the largest head of an answer; Cloudflare's have about 1 KiB. ureq's
/// 128 KiB would be half of the idle process's memory.
const CONNECTION_BUFFER_BYTES: usize = 16 * 1024;

#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) method: &'a Method,
    /// The path below the base address, perhaps with a query.
    pub(super) path: &'a str,
    pub(super) credentials: &'a Credentials,
    pub(super) body: Option<&'a [u8]>,
    /// The limit for all phases together.
    pub(super) timeout: Duration,
    /// A kept connection that was idle for longer is not used.
    pub(super) connection_max_idle: Duration,
}

/// The parts of an answer that are needed.
#[derive(Clone, Debug, Default)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) retry_after: Option<String>,
    pub(super) date: Option<String>,
    pub(super) rate_limit: Option<String>,
    /// The decompressed body. It is cut if the connection ended early and the status reports a failure anyway.
    pub(super) body: Vec<u8>,
    /// The permit of a large body: until it is dropped, few other large bodies are read.
    pub(super) permit: Option<Arc<ResponsePermit>>,
}

pub(super) trait Transport: fmt::Debug + Send + Sync {
    /// Sends the request once and reads the whole answer, whatever its status.
    fn send(&self, request: &Request<'_>) -> Result<Response, TransportError>;
}

#[derive(Debug)]
pub(super) struct HttpTransport {
    base: Box<str>,
    agent: Agent,
    resolver: CachingResolver,
    permits: Arc<ResponsePermits>,
    clock: Arc<dyn Clock>,
}

impl HttpTransport {
    pub(super) fn new(settings: &ClientSettings, clock: Arc<dyn Clock>) -> Self {
        Self::with_resolver(settings, CachingResolver::new(Arc::clone(&clock)), clock)
    }

    fn with_resolver(settings: &ClientSettings, resolver: CachingResolver, clock: Arc<dyn Clock>) -> Self {
        let agent = agent(settings, resolver.clone());
        let permits = ResponsePermits::new(LARGE_RESPONSES_MAX);
        Self { base: settings.base_url.text.clone(), agent, resolver, permits, clock }
    }

    fn send_once(&self, request: &Request<'_>) -> Result<Response, TransportError> {
        let mut body = request.body.map(|rest| ObservedBody { rest, begun: false });
        let deadline = Deadline::after(&*self.clock, request.timeout);
        let take_permit = || self.permits.take(deadline.remaining(&*self.clock));
        let outcome = exchange(&self.agent, &self.base, request, body.as_mut())
            .and_then(|answer| receive(answer, &take_permit));
        // No server acts on a write whose body it has not seen. A read changes nothing at Cloudflare, so it counts as
        // sent unless the failure shows that it had no connection.
        let body_begun = body.map(|body| body.begun);
        outcome.map_err(|error| {
            let (kind, detail) = failure::describe(&error);
            let connected = !matches!(
                kind,
                TransportErrorKind::Lookup
                    | TransportErrorKind::Connect
                    | TransportErrorKind::Certificate
                    | TransportErrorKind::Tls
            );
            TransportError::new(kind, body_begun.unwrap_or(connected), detail)
        })
    }
}

impl Transport for HttpTransport {
    fn send(&self, request: &Request<'_>) -> Result<Response, TransportError> {
        let front = self.resolver.front();
        let outcome = self.send_once(request);
        if let Err(error) = &outcome
            && (!error.was_sent || error.kind == TransportErrorKind::TimedOut)
        {
            // The API may have moved, or this address accepts connections and then stays silent.
            self.resolver.demote(front);
        }
        outcome
    }
}

fn agent(settings: &ClientSettings, resolver: CachingResolver) -> Agent {
    let tls = TlsConnector::new(settings.roots.clone(), resolver.clone());
    let config = Agent::config_builder()
        // Always set, because ureq would otherwise read the environment itself.
        .proxy(settings.proxy.clone().map(|proxy| proxy.0))
        .http_status_as_error(false)
        .https_only(settings.base_url.is_https)
        .max_redirects(0)
        .user_agent(USER_AGENT)
        .timeout_resolve(Some(RESOLVE_TIMEOUT))
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .timeout_send_request(Some(SEND_TIMEOUT))
        .timeout_send_body(Some(SEND_TIMEOUT))
        .timeout_recv_response(Some(RESPONSE_TIMEOUT))
        .timeout_recv_body(Some(BODY_TIMEOUT))
        // With a smaller limit, ureq would measure the bytes behind an interim answer (1xx) as if they were a head.
        .max_response_header_size(CONNECTION_BUFFER_BYTES)
        .input_buffer_size(CONNECTION_BUFFER_BYTES)
        .output_buffer_size(CONNECTION_BUFFER_BYTES)
        .max_idle_connections(PARALLEL_CALLS)
        .max_idle_connections_per_host(PARALLEL_CALLS)
        .max_idle_age(CONNECTION_MAX_IDLE)
        .build();
    let connector = ().chain(ConnectProxyConnector::default()).chain(TcpConnector::default()).chain(tls);
    Agent::with_parts(config, connector, resolver)
}

fn exchange(
    agent: &Agent,
    base: &str,
    request: &Request<'_>,
    body: Option<&mut ObservedBody<'_>>,
) -> Result<http::Response<ureq::Body>, ureq::Error> {
    let mut head = http::Request::builder()
        .method(request.method)
        .uri(format!("{base}{}", request.path))
        .header(ACCEPT, "application/json");
    head = authorize(head, request.credentials)?;
    match body {
        Some(body) => {
            let head = head.header(CONTENT_TYPE, "application/json").header(CONTENT_LENGTH, body.rest.len());
            run(agent, head.body(SendBody::from_reader(body))?, request)
        }
        None => run(agent, head.body(())?, request),
    }
}

fn run(
    agent: &Agent,
    head: http::Request<impl ureq::AsSendBody>,
    request: &Request<'_>,
) -> Result<http::Response<ureq::Body>, ureq::Error> {
    let head = agent
        .configure_request(head)
        .timeout_global(Some(request.timeout))
        .max_idle_age(request.connection_max_idle)
        .build();
    agent.run(head)
}

fn authorize(
    head: http::request::Builder,
    Credentials { secret, email }: &Credentials,
) -> Result<http::request::Builder, ureq::Error> {
    let sensitive = |text: &str| -> Result<HeaderValue, http::Error> {
        let mut value = HeaderValue::from_str(text)?;
        value.set_sensitive(true);
        Ok(value)
    };
    Ok(match email {
        None => head.header(AUTHORIZATION, sensitive(&format!("Bearer {}", secret.expose()))?),
        Some(email) => {
            head.header("x-auth-email", sensitive(email)?).header("x-auth-key", sensitive(secret.expose())?)
        }
    })
}

fn receive(
    mut answer: http::Response<ureq::Body>,
    take_permit: &dyn Fn() -> Option<ResponsePermit>,
) -> Result<Response, ureq::Error> {
    let header = |headers: &HeaderMap, name: HeaderName| {
        headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
    };
    let mut response = Response {
        status: answer.status().as_u16(),
        retry_after: header(answer.headers(), RETRY_AFTER),
        date: header(answer.headers(), DATE),
        rate_limit: header(answer.headers(), HeaderName::from_static("ratelimit")),
        body: Vec::new(),
        permit: None,
    };
    // ureq's own limit counts compressed bytes.
    let mut reader = answer.body_mut().as_reader().take(SMALL_RESPONSE_MAX_BYTES);
    let mut outcome = reader.read_to_end(&mut response.body);
    if outcome.is_ok() && reader.limit() == 0 {
        response.permit = Some(Arc::new(take_permit().ok_or(ureq::Error::Timeout(Timeout::RecvBody))?));
        reader.set_limit(API_RESPONSE_MAX_BYTES + 1 - SMALL_RESPONSE_MAX_BYTES);
        outcome = reader.read_to_end(&mut response.body);
    }
    let is_whole = reader.limit() > 0;
    let is_failure = answer.status().is_client_error() || answer.status().is_server_error();
    match outcome {
        Ok(_) if !is_whole => Err(ureq::Error::BodyExceedsLimit(API_RESPONSE_MAX_BYTES)),
        Ok(_) => Ok(response),
        // The status is enough then; above all, a 429 must not be lost.
        Err(_) if is_failure => Ok(response),
        Err(error) => Err(error.into()),
    }
}

/// The body of a write, and a flag that is set once sending the body begins.
struct ObservedBody<'a> {
    rest: &'a [u8],
    begun: bool,
}

impl Read for ObservedBody<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.begun = true;
        self.rest.read(buffer)
    }
}

/// The permits that large answers share. Each such answer is held as bytes until it is parsed, so they limit how many
/// are in memory at once.
#[derive(Debug)]
struct ResponsePermits {
    free: Mutex<usize>,
    freed: Condvar,
}

/// A taken permit. Dropping it frees it.
#[derive(Debug)]
pub(super) struct ResponsePermit(Arc<ResponsePermits>);

impl ResponsePermits {
    fn new(count: usize) -> Arc<Self> {
        Arc::new(Self { free: Mutex::new(count), freed: Condvar::new() })
    }

    /// Takes a permit as soon as one is free; `None` if that takes longer than `timeout`.
    fn take(self: &Arc<Self>, timeout: Duration) -> Option<ResponsePermit> {
        let mut free = wait_while(&self.freed, lock(&self.free), timeout, |free| *free == 0);
        *free = free.checked_sub(1)?;
        Some(ResponsePermit(Arc::clone(self)))
    }
}

impl Drop for ResponsePermit {
    fn drop(&mut self) {
        *lock(&self.0.free) += 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{Ipv4Addr, TcpListener};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;
    use crate::cloudflare::BaseUrl;
    use crate::cloudflare::fixture::{FakeClock, TOKEN, token};

    /// A transport to `port`, and a counter of its lookups.
    fn transport_to(port: u16) -> (HttpTransport, Arc<AtomicUsize>) {
        let lookups = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&lookups);
        let resolver = CachingResolver::with_lookup(FakeClock::new(), move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            Ok(vec![Ipv4Addr::LOCALHOST.into()])
        });
        let settings = ClientSettings {
            base_url: BaseUrl::parse(&format!("http://localhost:{port}")).unwrap(),
            credentials: token(TOKEN),
            credential_file: None,
            roots: roots(None).unwrap(),
            proxy: None,
        };
        (HttpTransport::with_resolver(&settings, resolver, FakeClock::new()), lookups)
    }

    fn send(transport: &HttpTransport) -> Result<Response, TransportError> {
        send_within(transport, Method::GET, Duration::from_secs(5))
    }

    fn send_within(
        transport: &HttpTransport,
        method: Method,
        timeout: Duration,
    ) -> Result<Response, TransportError> {
        transport.send(&Request {
            method: &method,
            path: "/",
            credentials: &token(TOKEN),
            body: (method == Method::POST).then_some(b"{}"),
            timeout,
            connection_max_idle: CONNECTION_MAX_IDLE,
        })
    }

    /// A time-out of a single read would never end an answer that drips. The connection is there already, so that the
    /// time is spent waiting for the answer.
    #[test]
    fn an_answer_that_does_not_end_is_given_up_when_the_time_is_over() {
        for (label, method, head) in [
            ("a silent server", Method::GET, ""),
            ("a silent server, and a write", Method::POST, ""),
            ("a head that drips", Method::GET, "HTTP/1.1 200 OK\r\nX: "),
            ("a body that drips", Method::GET, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let (transport, _) = transport_to(listener.local_addr().unwrap().port());
            let server = thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = stream.read(&mut [0; 4096]);
                stream.write_all(b"HTTP/1.1 204 X\r\n\r\n").unwrap();
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(head.as_bytes());
                stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
                while stream.read(&mut [0; 4096]).map_or(true, |length| length > 0) {
                    if !head.is_empty() && stream.write_all(b"x").is_err() {
                        break;
                    }
                }
            });
            assert_eq!(send(&transport).unwrap().status, 204);
            let error = send_within(&transport, method, Duration::from_millis(20)).unwrap_err();
            assert_eq!(error.to_string(), "timed out: global", "{label}");
            drop(transport);
            server.join().unwrap();
        }
    }

    #[test]
    fn several_calls_cost_one_lookup() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (transport, lookups) = transport_to(listener.local_addr().unwrap().port());
        let server = thread::spawn(move || {
            for _ in 0..3 {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = stream.read(&mut [0; 4096]);
                stream.write_all(b"HTTP/1.1 204 X\r\nConnection: close\r\n\r\n").unwrap();
            }
        });
        for _ in 0..3 {
            assert_eq!(send(&transport).unwrap().status, 204);
        }
        server.join().unwrap();
        assert_eq!(lookups.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn the_name_is_looked_up_again_when_no_server_is_there() {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (transport, lookups) = transport_to(port);
        for _ in 0..2 {
            let error = send(&transport).unwrap_err();
            assert_eq!(error.kind, TransportErrorKind::Connect);
        }
        while lookups.load(Ordering::SeqCst) < 2 {
            thread::yield_now();
        }
    }

    #[test]
    fn no_more_answers_are_held_than_there_are_permits_and_each_that_is_dropped_makes_room() {
        let permits = ResponsePermits::new(2);
        let first = permits.take(Duration::ZERO);
        let second = permits.take(Duration::ZERO);
        assert!(first.is_some() && second.is_some());
        assert!(permits.take(Duration::from_millis(1)).is_none());
        let waiting = thread::spawn({
            let permits = Arc::clone(&permits);
            move || permits.take(Duration::from_secs(10)).is_some()
        });
        drop(first);
        assert!(waiting.join().expect("it waits quietly"));
        assert!(permits.take(Duration::ZERO).is_some(), "the waiting thread has left");
    }
}
