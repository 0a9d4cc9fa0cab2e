//! TLS as servers speak it: what of it is understood, and which error is shown.

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use external_dns_cloudflare_tunnel_webhook::clock::{Deadline, SystemClock};
use external_dns_cloudflare_tunnel_webhook::cloudflare::{
    BaseUrl, Client, ClientSettings, Credentials, Error, TransportErrorKind, roots,
};
use external_dns_cloudflare_tunnel_webhook::model::ZoneId;
use external_dns_cloudflare_tunnel_webhook::secret::Secret;
use rustls::crypto::ring::{cipher_suite, default_provider, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::server::ServerConfig;
use rustls::{HandshakeKind, ServerConnection, StreamOwned, SupportedProtocolVersion, version};

use crate::certificate::{Certified, EXPIRED, VALID};
use crate::server::{EMPTY_LIST, TOKEN, Then, answer};

/// Answers every request with an empty list, and keeps its connections.
pub(crate) struct TlsServer {
    pub(crate) address: SocketAddr,
    handshakes: Arc<Mutex<Vec<HandshakeKind>>>,
}

impl TlsServer {
    /// `delay` passes before each handshake.
    pub(crate) fn start(bind: &str, config: Arc<ServerConfig>, delay: Duration, then: Then) -> Self {
        let listener = TcpListener::bind(bind).unwrap();
        let server = Self { address: listener.local_addr().unwrap(), handshakes: Arc::default() };
        let handshakes = Arc::clone(&server.handshakes);
        // Ends with the process.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (config, handshakes) = (Arc::clone(&config), Arc::clone(&handshakes));
                thread::spawn(move || serve(stream.unwrap(), config, delay, then, &handshakes));
            }
        });
        server
    }

    fn handshakes(&self) -> Vec<HandshakeKind> {
        self.handshakes.lock().unwrap().clone()
    }
}

#[allow(clippy::disallowed_methods, reason = "servers far away answer late")]
fn serve(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    delay: Duration,
    then: Then,
    handshakes: &Mutex<Vec<HandshakeKind>>,
) {
    thread::sleep(delay);
    stream.set_nodelay(true).unwrap();
    let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
    let (mut head, mut byte) = (Vec::new(), [0]);
    while stream.read(&mut byte).is_ok_and(|length| length == 1) {
        head.extend(byte);
        if head.ends_with(b"\r\n\r\n") {
            head.clear();
            handshakes.lock().unwrap().extend(stream.conn.handshake_kind());
            answer(&mut stream, 200, "", EMPTY_LIST);
            if then == Then::Close {
                return;
            }
        }
    }
}

/// A server of these versions, groups and suites with this certificate.
fn server_config(
    certified: &Certified,
    versions: &[&'static SupportedProtocolVersion],
    change: impl FnOnce(&mut CryptoProvider),
) -> Arc<ServerConfig> {
    let mut provider = default_provider();
    change(&mut provider);
    let config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(versions)
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.certificate.clone()], certified.key())
        .unwrap();
    Arc::new(config)
}

pub(crate) fn any_config(certified: &Certified) -> Arc<ServerConfig> {
    server_config(certified, rustls::ALL_VERSIONS, |_| ())
}

pub(crate) fn client(base_url: String, authorities: Vec<u8>) -> Client {
    let settings = ClientSettings {
        base_url: BaseUrl::parse(&base_url).expect("an address"),
        credentials: Credentials { secret: Secret::parse(TOKEN).unwrap(), email: None },
        credential_file: None,
        roots: roots(Some(&authorities)).unwrap(),
        proxy: None,
    };
    Client::new(settings, Arc::new(SystemClock), Arc::default())
}

fn read(server: &TlsServer, authority: &Certified) -> Result<(), Error> {
    let client = client(format!("https://localhost:{}", server.address.port()), authority.pem());
    read_through(&client)
}

pub(crate) fn read_through(client: &Client) -> Result<(), Error> {
    client.records(&ZoneId::new("z1"), Deadline::after(&SystemClock, Duration::from_secs(10))).map(drop)
}

fn start(config: Arc<ServerConfig>) -> TlsServer {
    TlsServer::start("127.0.0.1:0", config, Duration::ZERO, Then::Keep)
}

/// What a hardened server offers alone. Cloudflare's own offers all of it.
#[test]
fn a_server_that_offers_one_curve_or_one_suite_is_understood() {
    let authority = Certified::authority("authority");
    let certified = authority.issue("localhost", VALID);
    let groups: [&'static dyn SupportedKxGroup; 3] =
        [kx_group::X25519, kx_group::SECP256R1, kx_group::SECP384R1];
    for version in [&version::TLS13, &version::TLS12] {
        for group in groups {
            let server =
                start(server_config(&certified, &[version], |provider| provider.kx_groups = vec![group]));
            assert_eq!(read(&server, &authority), Ok(()), "{version:?} {group:?}");
        }
    }
    for (version, suite) in [
        (&version::TLS13, cipher_suite::TLS13_AES_128_GCM_SHA256),
        (&version::TLS13, cipher_suite::TLS13_AES_256_GCM_SHA384),
        (&version::TLS12, cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
        (&version::TLS12, cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ] {
        let server =
            start(server_config(&certified, &[version], |provider| provider.cipher_suites = vec![suite]));
        assert_eq!(read(&server, &authority), Ok(()), "{suite:?}");
    }
}

/// The roots compiled in know none of these issuers, which is of no interest where the operator's know it.
#[test]
fn the_error_shown_is_the_one_that_helps() {
    let authority = Certified::authority("authority");
    for (label, certified, expected) in [
        ("another name", authority.issue("elsewhere.example", VALID), "not valid for name"),
        ("expired", authority.issue("localhost", EXPIRED), "expired"),
        ("another authority", Certified::authority("another").issue("localhost", VALID), "UnknownIssuer"),
        ("an authority's own", Certified::authority("localhost"), "CaUsedAsEndEntity"),
    ] {
        let trusted = if label.ends_with("own") { &certified } else { &authority };
        let error = read(&start(any_config(&certified)), trusted).unwrap_err();
        let Error::Unreachable(error) = error else { panic!("{label}: {error:?}") };
        assert_eq!(error.kind, TransportErrorKind::Certificate, "{label}: {error}");
        assert!(error.to_string().contains(expected), "{label}: {error}");
    }
}

/// A full handshake costs the server a signature and the client the check of a chain.
#[test]
fn a_session_is_resumed_on_the_next_connection() {
    let authority = Certified::authority("authority");
    let certified = authority.issue("localhost", VALID);
    for version in [&version::TLS13, &version::TLS12] {
        let config = server_config(&certified, &[version], |_| ());
        let server = TlsServer::start("127.0.0.1:0", config, Duration::ZERO, Then::Close);
        let client = client(format!("https://localhost:{}", server.address.port()), authority.pem());
        for _ in 0..3 {
            read_through(&client).unwrap();
        }
        let [HandshakeKind::Full, HandshakeKind::Resumed, HandshakeKind::Resumed] = server.handshakes()[..]
        else {
            panic!("{version:?}: {:?}", server.handshakes());
        };
    }
}
