//! HTTP. With the resolver, the only file that knows ureq.

use std::fmt;
use std::io::{self, Read};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ureq::http::header::{ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, DATE, RETRY_AFTER};
use ureq::http::{self, HeaderMap, HeaderName, HeaderValue, Uri};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig};
use ureq::unversioned::transport::DefaultConnector;
use ureq::{Agent, SendBody, Timeout};

use super::client::{ClientError, ClientSettings, Credentials};
use super::resolver::{CachingResolver, LookupError};
use crate::clock::Clock;
use crate::limits::{
    ANSWER_HEAD_MAX_BYTES, ANSWER_MAX_BYTES, BODY_TIMEOUT, CONNECT_TIMEOUT, CONNECTION_BUFFER_BYTES,
    CONNECTION_MAX_IDLE, PARALLEL_READS, RESOLVE_TIMEOUT, RESPONSE_TIMEOUT, SEND_TIMEOUT,
};

/// The methods in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Get,
    Post,
    Put,
}

impl Method {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
        }
    }
}

/// One request.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) method: Method,
    /// Below the base address; may carry a query.
    pub(super) path: &'a str,
    pub(super) credentials: &'a Credentials,
    pub(super) body: Option<&'a [u8]>,
    /// For all phases together.
    pub(super) timeout: Duration,
    /// A kept connection is not used when it has been idle for longer.
    pub(super) connection_max_idle: Duration,
}

/// What is needed of an answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) retry_after: Option<String>,
    pub(super) date: Option<String>,
    pub(super) rate_limit: Option<String>,
    /// Decompressed. Cut off where the connection ended early and the status says failure anyway.
    pub(super) body: Vec<u8>,
}

/// Sends requests.
pub(super) trait Transport: fmt::Debug + Send + Sync {
    /// Sends once and reads the whole answer, whatever its status.
    fn send(&self, request: &Request<'_>) -> Result<Response, TransportError>;
}

/// Why there is no answer. The text holds neither addresses' credentials nor headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransportError {
    kind: TransportErrorKind,
    /// Whether the server may have seen the request: for a write, whether its body was begun.
    was_sent: bool,
    detail: Box<str>,
}

/// What failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportErrorKind {
    /// The name could not be looked up.
    Lookup,
    /// TCP or a proxy's CONNECT.
    Connect,
    /// TLS: the certificate is not trusted, or not for this name.
    Certificate,
    /// TLS otherwise.
    Tls,
    /// One of the phases took too long.
    TimedOut,
    /// The connection ended before the answer did.
    Disconnected,
    /// The answer is larger than the cap.
    TooLarge,
    /// The answer is not HTTP, or not the compression that it claims.
    Protocol,
}

impl TransportError {
    pub(super) fn new(kind: TransportErrorKind, was_sent: bool, detail: impl Into<Box<str>>) -> Self {
        Self { kind, was_sent, detail: detail.into() }
    }

    /// What failed.
    pub fn kind(&self) -> TransportErrorKind {
        self.kind
    }

    pub(super) fn was_sent(&self) -> bool {
        self.was_sent
    }

    /// Whether the next request will fail in the same way.
    pub(super) fn is_permanent(&self) -> bool {
        matches!(self.kind, TransportErrorKind::Certificate | TransportErrorKind::TooLarge)
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            TransportErrorKind::Lookup => "name lookup",
            TransportErrorKind::Connect => "connecting",
            TransportErrorKind::Certificate => "certificate not trusted",
            TransportErrorKind::Tls => "TLS",
            TransportErrorKind::TimedOut => "timed out",
            TransportErrorKind::Disconnected => "connection lost",
            TransportErrorKind::TooLarge => "answer too large",
            TransportErrorKind::Protocol => "protocol",
        };
        write!(formatter, "{kind}: {}", self.detail)
    }
}

impl std::error::Error for TransportError {}

/// The transport over ureq.
#[derive(Debug)]
pub(super) struct HttpTransport {
    base: Box<str>,
    /// One for the roots compiled in, one for the operator's: ureq cannot hold both kinds in one.
    agents: Vec<Agent>,
    /// The agent whose roots were good last time.
    trusted: AtomicUsize,
    resolver: CachingResolver,
}

impl HttpTransport {
    pub(super) fn new(settings: &ClientSettings, clock: Arc<dyn Clock>) -> Result<Self, ClientError> {
        let base = parse_base_url(&settings.base_url)?;
        if HeaderValue::from_str(&settings.user_agent).is_err() {
            return Err(ClientError::UserAgent);
        }
        let resolver = CachingResolver::new(clock);
        let mut roots = vec![RootCerts::WebPki];
        if let Some(pem) = &settings.ca_file {
            // In front: who names one expects it to be in use.
            roots.insert(0, parse_certificates(pem)?.into());
        }
        let agents = roots
            .into_iter()
            .map(|roots| agent(&base, &settings.user_agent, roots, resolver.clone()))
            .collect();
        Ok(Self { base: base.text, agents, trusted: AtomicUsize::new(0), resolver })
    }

    fn send_through(&self, agent: &Agent, request: &Request<'_>) -> Result<Response, TransportError> {
        let mut body = request.body.map(ObservedBody::new);
        let outcome = exchange(agent, &self.base, request, body.as_mut());
        // Nothing acts on a request whose body it has not seen. A read leaves no trace either way; it counts as sent
        // once there was a connection to send it on.
        let body_begun = body.map(|body| body.begun);
        outcome.map_err(|error| {
            let (kind, detail) = describe(&error);
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
        let outcome = try_in_turn(&self.trusted, self.agents.len(), |index| match self.agents.get(index) {
            Some(agent) => self.send_through(agent, request),
            None => Err(TransportError::new(TransportErrorKind::Connect, false, "no agent")),
        });
        if let Err(error) = &outcome
            && !error.was_sent
        {
            self.resolver.forget();
        }
        outcome
    }
}

/// Tries with one set of roots after the other, beginning with the one that was good last time. A handshake that fails
/// for the certificate has sent nothing, so that this is no repetition, not even of a write.
fn try_in_turn(
    trusted: &AtomicUsize,
    count: usize,
    mut send: impl FnMut(usize) -> Result<Response, TransportError>,
) -> Result<Response, TransportError> {
    let first = trusted.load(Ordering::Relaxed);
    let mut outcome = send(first);
    for index in (0..count).filter(|index| *index != first) {
        match &outcome {
            Err(error) if error.kind == TransportErrorKind::Certificate && !error.was_sent => {}
            _ => break,
        }
        outcome = send(index);
        if outcome.is_ok() {
            trusted.store(index, Ordering::Relaxed);
        }
    }
    outcome
}

/// The base address, checked.
struct BaseUrl {
    text: Box<str>,
    is_https: bool,
    is_loopback: bool,
}

fn parse_base_url(text: &str) -> Result<BaseUrl, ClientError> {
    let text = text.trim().trim_end_matches('/');
    let uri: Uri = text.parse().map_err(|_| ClientError::BaseUrl)?;
    let is_https = match uri.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        _ => return Err(ClientError::BaseUrl),
    };
    let authority = uri.authority().ok_or(ClientError::BaseUrl)?;
    // A password there would be seen wherever the address is shown.
    if authority.as_str().contains('@') || authority.host().is_empty() || text.contains(['?', '#']) {
        return Err(ClientError::BaseUrl);
    }
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    Ok(BaseUrl {
        text: text.into(),
        is_https,
        is_loopback: host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback()),
    })
}

/// Reads the certificates of a PEM file; keys in it are left alone.
fn parse_certificates(pem: &[u8]) -> Result<Vec<Certificate<'static>>, ClientError> {
    let mut certificates = Vec::new();
    for item in ureq::tls::parse_pem(pem) {
        match item {
            Ok(PemItem::Certificate(certificate)) => {
                // rustls leaves out what it cannot parse, without a word; a file of nothing else would only show when no
                // handshake succeeds any more.
                if !is_der_sequence(certificate.der()) {
                    return Err(ClientError::Certificates("a certificate in it is damaged"));
                }
                certificates.push(certificate);
            }
            Ok(_) => {}
            Err(_) => return Err(ClientError::Certificates("is not PEM")),
        }
    }
    if certificates.is_empty() {
        return Err(ClientError::Certificates("holds no certificate"));
    }
    Ok(certificates)
}

/// Whether the bytes are one DER sequence of the length that it claims, as every certificate is.
fn is_der_sequence(der: &[u8]) -> bool {
    let [0x30, first, rest @ ..] = der else {
        return false;
    };
    let (length, contents) = match first {
        0..=0x7F => (usize::from(*first), rest),
        0x81..=0x84 => {
            let Some((length, contents)) = rest.split_at_checked(usize::from(first - 0x80)) else {
                return false;
            };
            let length = length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
            (length, contents)
        }
        _ => return false,
    };
    contents.len() == length
}

fn agent(base: &BaseUrl, user_agent: &str, roots: RootCerts, resolver: CachingResolver) -> Agent {
    let mut config = Agent::config_builder()
        .http_status_as_error(false)
        .https_only(base.is_https)
        .max_redirects(0)
        .user_agent(user_agent)
        .tls_config(TlsConfig::builder().root_certs(roots).build())
        .timeout_resolve(Some(RESOLVE_TIMEOUT))
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .timeout_send_request(Some(SEND_TIMEOUT))
        .timeout_send_body(Some(SEND_TIMEOUT))
        .timeout_recv_response(Some(RESPONSE_TIMEOUT))
        .timeout_recv_body(Some(BODY_TIMEOUT))
        .max_response_header_size(ANSWER_HEAD_MAX_BYTES)
        .input_buffer_size(CONNECTION_BUFFER_BYTES)
        .output_buffer_size(CONNECTION_BUFFER_BYTES)
        .max_idle_connections(PARALLEL_READS)
        .max_idle_connections_per_host(PARALLEL_READS)
        .max_idle_age(CONNECTION_MAX_IDLE);
    if base.is_loopback {
        // As every client does: a proxy's loopback is another machine's.
        config = config.proxy(None);
    }
    Agent::with_parts(config.build(), DefaultConnector::default(), resolver)
}

fn exchange(
    agent: &Agent,
    base: &str,
    request: &Request<'_>,
    body: Option<&mut ObservedBody<'_>>,
) -> Result<Response, ureq::Error> {
    let mut head = http::Request::builder()
        .method(request.method.as_str())
        .uri(format!("{base}{}", request.path))
        .header(ACCEPT, "application/json");
    head = authorize(head, request.credentials)?;
    let answer = match body {
        Some(body) => {
            let head = head.header(CONTENT_TYPE, "application/json").header(CONTENT_LENGTH, body.rest.len());
            run(agent, head.body(SendBody::from_reader(body))?, request)?
        }
        None => run(agent, head.body(())?, request)?,
    };
    receive(answer)
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
    credentials: &Credentials,
) -> Result<http::request::Builder, ureq::Error> {
    let sensitive = |text: &str| -> Result<HeaderValue, http::Error> {
        let mut value = HeaderValue::from_str(text)?;
        value.set_sensitive(true);
        Ok(value)
    };
    Ok(match credentials {
        Credentials::Token(token) => {
            head.header(AUTHORIZATION, sensitive(&format!("Bearer {}", token.expose()))?)
        }
        Credentials::Key { key, email } => {
            head.header("x-auth-email", sensitive(email)?).header("x-auth-key", sensitive(key.expose())?)
        }
    })
}

fn receive(mut answer: http::Response<ureq::Body>) -> Result<Response, ureq::Error> {
    let header = |headers: &HeaderMap, name: HeaderName| {
        headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
    };
    let mut response = Response {
        status: answer.status().as_u16(),
        retry_after: header(answer.headers(), RETRY_AFTER),
        date: header(answer.headers(), DATE),
        rate_limit: header(answer.headers(), HeaderName::from_static("ratelimit")),
        body: Vec::new(),
    };
    // ureq's own limit counts compressed bytes.
    let outcome = answer.body_mut().as_reader().take(ANSWER_MAX_BYTES + 1).read_to_end(&mut response.body);
    let is_failure = answer.status().is_client_error() || answer.status().is_server_error();
    match outcome {
        Ok(length) if u64::try_from(length).unwrap_or(u64::MAX) > ANSWER_MAX_BYTES => {
            Err(ureq::Error::BodyExceedsLimit(ANSWER_MAX_BYTES))
        }
        Ok(_) => Ok(response),
        // The status alone decides then; a 429 above all must not be lost.
        Err(_) if is_failure => Ok(response),
        Err(error) => Err(error.into()),
    }
}

/// The body of a write, and whether any of it was taken to be sent.
struct ObservedBody<'a> {
    rest: &'a [u8],
    begun: bool,
}

impl<'a> ObservedBody<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, begun: false }
    }
}

impl Read for ObservedBody<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.begun = true;
        self.rest.read(buffer)
    }
}

/// Sorts ureq's errors. Their texts are kept only where they cannot hold anything of the request or of a proxy's address.
fn describe(error: &ureq::Error) -> (TransportErrorKind, Box<str>) {
    use TransportErrorKind as Kind;
    match error {
        ureq::Error::Timeout(Timeout::Resolve) => (Kind::Lookup, "timed out".into()),
        ureq::Error::Timeout(Timeout::Connect) => (Kind::Connect, "timed out".into()),
        ureq::Error::Timeout(phase) => (Kind::TimedOut, phase.to_string().into()),
        ureq::Error::HostNotFound => (Kind::Lookup, "no address".into()),
        ureq::Error::Other(other) => match other.downcast_ref::<LookupError>() {
            Some(error) => (Kind::Lookup, error.to_string().into()),
            None => (Kind::Protocol, "other".into()),
        },
        ureq::Error::ConnectionFailed => (Kind::Connect, "failed".into()),
        ureq::Error::ConnectProxyFailed(_) => (Kind::Connect, "the proxy refused or did not answer".into()),
        ureq::Error::InvalidProxyUrl => (Kind::Connect, "the proxy's address is invalid".into()),
        ureq::Error::BodyExceedsLimit(limit) => (Kind::TooLarge, format!("more than {limit} bytes").into()),
        ureq::Error::LargeResponseHeader(..) => (Kind::TooLarge, "its head".into()),
        ureq::Error::Io(error) => describe_io(error),
        ureq::Error::Rustls(error) => describe_tls(&error.to_string()),
        ureq::Error::Tls(text) => (Kind::Tls, (*text).into()),
        ureq::Error::TlsRequired | ureq::Error::Pem(_) => (Kind::Tls, "not set up".into()),
        ureq::Error::Decompress(..) => (Kind::Protocol, "damaged compression".into()),
        ureq::Error::Protocol(error) => (Kind::Protocol, error.to_string().into()),
        _ => (Kind::Protocol, "the request could not be formed".into()),
    }
}

fn describe_io(error: &io::Error) -> (TransportErrorKind, Box<str>) {
    use TransportErrorKind as Kind;
    let text = error.to_string();
    match error.kind() {
        // rustls reports through these.
        io::ErrorKind::InvalidData => describe_tls(&text),
        io::ErrorKind::ConnectionRefused
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::NetworkDown
        | io::ErrorKind::AddrNotAvailable => (Kind::Connect, text.into()),
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => (Kind::TimedOut, text.into()),
        _ => (Kind::Disconnected, text.into()),
    }
}

fn describe_tls(text: &str) -> (TransportErrorKind, Box<str>) {
    // rustls: "invalid peer certificate: UnknownIssuer". Its types are not ours to name: it comes with ureq.
    if text.contains("peer certificate") {
        (TransportErrorKind::Certificate, text.into())
    } else {
        (TransportErrorKind::Tls, text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_address_has_a_scheme_and_a_host_and_nothing_that_could_be_secret() {
        for (text, expected) in [
            (
                "https://api.cloudflare.com/client/v4",
                Some(("https://api.cloudflare.com/client/v4", true, false)),
            ),
            (
                " https://api.cloudflare.com/client/v4/ ",
                Some(("https://api.cloudflare.com/client/v4", true, false)),
            ),
            (
                "http://127.0.0.1:8080",
                Some(("http://127.0.0.1:8080", false, true)),
            ),
            (
                "http://[::1]:8080/v4",
                Some(("http://[::1]:8080/v4", false, true)),
            ),
            ("http://localhost", Some(("http://localhost", false, true))),
            ("http://emulator:80", Some(("http://emulator:80", false, false))),
            ("", None),
            ("api.cloudflare.com", None),
            ("/client/v4", None),
            ("ftp://api.cloudflare.com", None),
            ("https://", None),
            ("https://:443", None),
            ("https://user:password@host/", None),
            ("https://host/?token=x", None),
            ("https://host/#x", None),
            ("https://ho st/", None),
        ] {
            let parsed = parse_base_url(text).ok();
            let parsed = parsed
                .as_ref()
                .map(|base| (&*base.text, base.is_https, base.is_loopback));
            assert_eq!(parsed, expected, "{text:?}");
        }
    }

    /// PEM around bytes: base64 without padding needs, three bytes at a time.
    fn pem(label: &str, base64: &str) -> String {
        format!("-----BEGIN {label}-----\n{base64}\n-----END {label}-----\n")
    }

    #[test]
    fn a_file_of_certificate_authorities_must_hold_a_whole_certificate() {
        // A DER sequence of one null, and one that claims more than there is.
        let (whole, damaged) = (pem("CERTIFICATE", "MAIFAA=="), pem("CERTIFICATE", "MIIFAA=="));
        let key = pem("PRIVATE KEY", "MAIFAA==");
        for (label, text, expected) in [
            ("one", whole.clone(), Ok(1)),
            (
                "two with text around",
                format!("# ours\n{whole}\n# theirs\n{whole}"),
                Ok(2),
            ),
            ("a key beside it", format!("{key}{whole}"), Ok(1)),
            ("empty", String::new(), Err("holds no certificate")),
            (
                "text",
                "not a certificate".to_owned(),
                Err("holds no certificate"),
            ),
            ("a key only", key, Err("holds no certificate")),
            ("damaged", damaged, Err("a certificate in it is damaged")),
            ("not base64", pem("CERTIFICATE", "%%%%"), Err("is not PEM")),
            (
                "cut off",
                "-----BEGIN CERTIFICATE-----\nMAIFAA==\n".to_owned(),
                Err("is not PEM"),
            ),
        ] {
            let outcome = parse_certificates(text.as_bytes()).map(|certificates| certificates.len());
            assert_eq!(outcome, expected.map_err(ClientError::Certificates), "{label}");
        }
    }

    #[test]
    fn a_der_sequence_has_the_length_that_it_claims() {
        for (bytes, expected) in [
            (&[0x30, 0x00][..], true),
            (&[0x30, 0x02, 0x05, 0x00], true),
            (&[0x30, 0x81, 0x01, 0x00], true),
            (&[0x30, 0x82, 0x00, 0x01, 0x00], true),
            (&[], false),
            (&[0x30], false),
            (&[0x31, 0x00], false),
            (&[0x30, 0x02, 0x05], false),
            (&[0x30, 0x00, 0x05], false),
            (&[0x30, 0x80], false),
            (&[0x30, 0x82, 0x00], false),
            (&[0x30, 0x84, 0xFF, 0xFF, 0xFF, 0xFF], false),
            (&[0x30, 0xFF, 0x00], false),
        ] {
            assert_eq!(is_der_sequence(bytes), expected, "{bytes:02x?}");
        }
    }

    fn outcome(kind: TransportErrorKind, was_sent: bool) -> Result<Response, TransportError> {
        Err(TransportError::new(kind, was_sent, "x"))
    }

    /// ureq takes either the compiled-in roots or the operator's.
    #[test]
    fn the_other_roots_are_tried_when_a_certificate_is_not_trusted_and_then_kept() {
        let trusted = AtomicUsize::new(0);
        let mut tried = Vec::new();
        let mut send = |index| {
            tried.push(index);
            match index {
                1 => Ok(Response::default()),
                _ => outcome(TransportErrorKind::Certificate, false),
            }
        };
        try_in_turn(&trusted, 2, &mut send).unwrap();
        try_in_turn(&trusted, 2, &mut send).unwrap();
        assert_eq!(tried, [0, 1, 1]);
    }

    #[test]
    fn no_other_roots_are_tried_after_any_other_error() {
        for (kind, was_sent, count, tries) in [
            (TransportErrorKind::Certificate, false, 2, 2),
            (TransportErrorKind::Certificate, false, 1, 1),
            (TransportErrorKind::Certificate, true, 2, 1),
            (TransportErrorKind::Tls, false, 2, 1),
            (TransportErrorKind::Connect, false, 2, 1),
            (TransportErrorKind::Disconnected, true, 2, 1),
        ] {
            let mut tried = 0;
            let error = try_in_turn(&AtomicUsize::new(0), count, |_| {
                tried += 1;
                outcome(kind, was_sent)
            })
            .unwrap_err();
            assert_eq!((error.kind(), tried), (kind, tries));
        }
    }

    #[test]
    fn errors_of_ureq_are_sorted() {
        use TransportErrorKind as Kind;
        let io = |kind, text: &str| ureq::Error::Io(io::Error::new(kind, text.to_owned()));
        for (error, expected) in [
            (ureq::Error::Timeout(Timeout::Resolve), Kind::Lookup),
            (ureq::Error::Timeout(Timeout::Connect), Kind::Connect),
            (ureq::Error::Timeout(Timeout::Global), Kind::TimedOut),
            (ureq::Error::Timeout(Timeout::RecvBody), Kind::TimedOut),
            (ureq::Error::HostNotFound, Kind::Lookup),
            (ureq::Error::ConnectionFailed, Kind::Connect),
            (ureq::Error::ConnectProxyFailed("x".to_owned()), Kind::Connect),
            (io(io::ErrorKind::ConnectionRefused, "x"), Kind::Connect),
            (io(io::ErrorKind::UnexpectedEof, "x"), Kind::Disconnected),
            (io(io::ErrorKind::ConnectionReset, "x"), Kind::Disconnected),
            (io(io::ErrorKind::BrokenPipe, "x"), Kind::Disconnected),
            // The texts are rustls's.
            (
                io(
                    io::ErrorKind::InvalidData,
                    "invalid peer certificate: UnknownIssuer",
                ),
                Kind::Certificate,
            ),
            (
                io(
                    io::ErrorKind::InvalidData,
                    "received corrupt message of type InvalidContentType",
                ),
                Kind::Tls,
            ),
            (ureq::Error::BodyExceedsLimit(1), Kind::TooLarge),
        ] {
            assert_eq!(describe(&error).0, expected, "{error:?}");
        }
    }

    #[test]
    fn texts_of_errors_do_not_repeat_addresses() {
        for error in [
            ureq::Error::ConnectProxyFailed("http://user:hunter2@proxy".to_owned()),
            ureq::Error::BadUri("http://user:hunter2@proxy".to_owned()),
            ureq::Error::RequireHttpsOnly("http://user:hunter2@host".to_owned()),
            ureq::Error::Other("hunter2".into()),
        ] {
            assert!(!describe(&error).1.contains("hunter2"), "{error:?}");
        }
    }
}
