//! Adds TLS to a connection, and builds the set of trusted certificate authorities.
//!
//! ureq's own connector makes a new configuration for each connection of a request that has settings. All our
//! requests have settings, so that connector would never resume a session. ureq also takes either the compiled-in
//! roots or the operator's roots. Trying one set after the other would hide the first certificate error.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use ring::rand::{SecureRandom as _, SystemRandom};
use rustls::client::Resumption;
use rustls::crypto::ring::{cipher_suite, kx_group};
use rustls::crypto::{CryptoProvider, GetRandomFailed, KeyProvider, SecureRandom, WebPkiSupportedAlgorithms};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::SigningKey;
use rustls::{ClientConfig, ClientConnection, Error, RootCertStore, SignatureScheme, StreamOwned};
use ureq::unversioned::transport::time::Instant;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, Transport, TransportAdapter,
};
use webpki::ring::{
    ECDSA_P256_SHA256, ECDSA_P256_SHA384, ECDSA_P384_SHA256, ECDSA_P384_SHA384, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA256_ABSENT_PARAMS, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA384_ABSENT_PARAMS, RSA_PKCS1_2048_8192_SHA512,
    RSA_PKCS1_2048_8192_SHA512_ABSENT_PARAMS, RSA_PSS_2048_8192_SHA256_LEGACY_KEY,
    RSA_PSS_2048_8192_SHA384_LEGACY_KEY, RSA_PSS_2048_8192_SHA512_LEGACY_KEY,
};

use crate::cloudflare::resolver::CachingResolver;

/// TLS sessions kept for resumption: those of the API and of an `https` proxy. rustls counts eight tickets for each.
const TLS_SESSIONS_KEPT: usize = 16;

/// After a slower connection, later connections begin with another address. A round trip around the world takes a third
/// of this.
const SLOW_CONNECTION_MIN: Duration = Duration::from_secs(1);

const NO_PEM: &str = "the file of certificate authorities is not PEM";

const NO_CERTIFICATE: &str = "the file of certificate authorities holds no certificate that can be read";

/// Adds TLS to the connections of `https` addresses.
#[derive(Debug)]
pub(super) struct TlsConnector {
    config: Arc<ClientConfig>,
    resolver: CachingResolver,
}

impl TlsConnector {
    pub(super) fn new(roots: RootCertStore, resolver: CachingResolver) -> Self {
        let mut config = ClientConfig::builder_with_provider(Arc::new(crypto_provider()))
            .with_protocol_versions(rustls::ALL_VERSIONS)
            .expect("the provider has suites of both versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.resumption = Resumption::in_memory_sessions(TLS_SESSIONS_KEPT);
        Self { config: Arc::new(config), resolver }
    }
}

impl<In: Transport> Connector<In> for TlsConnector {
    type Out = Either<In, TlsTransport>;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, ureq::Error> {
        let Some(transport) = chained else {
            return Ok(None);
        };
        let spent = spent(details);
        if spent > SLOW_CONNECTION_MIN
            && let Some(front) = details.addrs.first()
        {
            self.resolver.demote(Some(front.ip()));
        }
        if !details.needs_tls() || transport.is_tls() {
            return Ok(Some(Either::A(transport)));
        }
        let host = details.uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| ureq::Error::Tls("the host cannot be in a certificate"))?;
        let mut connection = ClientConnection::new(Arc::clone(&self.config), name)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let transport: Box<dyn Transport> = Box::new(transport);
        let mut socket = TransportAdapter::new(transport, Arc::clone(&details.current_time));
        let after = (*details.timeout.after).saturating_sub(spent).into();
        socket.set_timeout(NextTimeout { after, ..details.timeout });
        connection.complete_io(&mut socket)?;
        let config = details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        Ok(Some(Either::B(TlsTransport { stream: StreamOwned::new(connection, socket), buffers })))
    }
}

/// The time since connecting began.
fn spent(details: &ConnectionDetails<'_>) -> Duration {
    match (details.now, (details.current_time)()) {
        (Instant::Exact(begun), Instant::Exact(now)) => now.saturating_duration_since(begun),
        _ => Duration::ZERO,
    }
}

/// A connection whose handshake is done.
pub(super) struct TlsTransport {
    stream: StreamOwned<ClientConnection, TransportAdapter>,
    buffers: LazyBuffers,
}

impl fmt::Debug for TlsTransport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TlsTransport").finish_non_exhaustive()
    }
}

impl Transport for TlsTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.stream.sock.set_timeout(timeout);
        let output = self.buffers.output().get(..amount).unwrap_or_default();
        Ok(self.stream.write_all(output)?)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        self.stream.sock.set_timeout(timeout);
        let amount = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.sock.get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

/// Mozilla's roots, which are compiled in, and those of the operator's PEM file. Keys in the file are ignored.
///
/// # Errors
/// When the file is not PEM, or holds no certificate that can be read.
pub fn roots(authorities: Option<&[u8]>) -> Result<RootCertStore, &'static str> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(pem) = authorities {
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let certificates = certificates.map_err(|_| NO_PEM)?;
        // Bundles contain odd certificates, which rustls leaves out. If it leaves out all of them, this would otherwise
        // show only when every handshake fails.
        if roots.add_parsable_certificates(certificates).0 == 0 {
            return Err(NO_CERTIFICATE);
        }
    }
    Ok(roots)
}

/// The algorithms of TLS, from those of ring. rustls's own choice is everything in ring, client keys included: 0.15 MB
/// that no connection to Cloudflare needs. This choice is what RFC 8446 section 9.1 requires of every implementation,
/// with AES-256, X25519 and P-384, and with the same ciphers for TLS 1.2.
fn crypto_provider() -> CryptoProvider {
    CryptoProvider {
        // ChaCha20 is left out: a server may offer it, but none may insist on it.
        cipher_suites: vec![
            cipher_suite::TLS13_AES_256_GCM_SHA384,
            cipher_suite::TLS13_AES_128_GCM_SHA256,
            cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
            cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
            cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
            cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        ],
        // P-256 is first, because every TLS 1.3 server must support it. Some hardened servers nevertheless support only
        // X25519.
        kx_groups: vec![kx_group::SECP256R1, kx_group::X25519, kx_group::SECP384R1],
        signature_verification_algorithms: SIGNATURES,
        secure_random: &Ring,
        key_provider: &Ring,
    }
}

/// rustls's choice without Ed25519, which no public authority may sign with.
static SIGNATURES: WebPkiSupportedAlgorithms = WebPkiSupportedAlgorithms {
    all: &[
        ECDSA_P256_SHA256,
        ECDSA_P256_SHA384,
        ECDSA_P384_SHA256,
        ECDSA_P384_SHA384,
        RSA_PSS_2048_8192_SHA256_LEGACY_KEY,
        RSA_PSS_2048_8192_SHA384_LEGACY_KEY,
        RSA_PSS_2048_8192_SHA512_LEGACY_KEY,
        RSA_PKCS1_2048_8192_SHA256,
        RSA_PKCS1_2048_8192_SHA384,
        RSA_PKCS1_2048_8192_SHA512,
        RSA_PKCS1_2048_8192_SHA256_ABSENT_PARAMS,
        RSA_PKCS1_2048_8192_SHA384_ABSENT_PARAMS,
        RSA_PKCS1_2048_8192_SHA512_ABSENT_PARAMS,
    ],
    // In TLS 1.2 a scheme does not name the curve.
    mapping: &[
        (SignatureScheme::ECDSA_NISTP384_SHA384, &[ECDSA_P384_SHA384, ECDSA_P256_SHA384]),
        (SignatureScheme::ECDSA_NISTP256_SHA256, &[ECDSA_P256_SHA256, ECDSA_P384_SHA256]),
        (SignatureScheme::RSA_PSS_SHA512, &[RSA_PSS_2048_8192_SHA512_LEGACY_KEY]),
        (SignatureScheme::RSA_PSS_SHA384, &[RSA_PSS_2048_8192_SHA384_LEGACY_KEY]),
        (SignatureScheme::RSA_PSS_SHA256, &[RSA_PSS_2048_8192_SHA256_LEGACY_KEY]),
        (SignatureScheme::RSA_PKCS1_SHA512, &[RSA_PKCS1_2048_8192_SHA512]),
        (SignatureScheme::RSA_PKCS1_SHA384, &[RSA_PKCS1_2048_8192_SHA384]),
        (SignatureScheme::RSA_PKCS1_SHA256, &[RSA_PKCS1_2048_8192_SHA256]),
    ],
};

/// Replaces rustls's own type for ring, which is private.
#[derive(Debug)]
struct Ring;

impl SecureRandom for Ring {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), GetRandomFailed> {
        SystemRandom::new().fill(bytes).map_err(|_| GetRandomFailed)
    }
}

impl KeyProvider for Ring {
    /// There are no client certificates.
    fn load_private_key(&self, _key: PrivateKeyDer<'static>) -> Result<Arc<dyn SigningKey>, Error> {
        Err(Error::General("client certificates are not supported".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use rustls::{CipherSuite, NamedGroup};

    use super::*;

    /// PEM around `base64`, which needs no padding if it holds a multiple of three bytes.
    fn pem(label: &str, base64: &str) -> String {
        format!("-----BEGIN {label}-----\n{base64}\n-----END {label}-----\n")
    }

    #[test]
    fn a_file_of_certificate_authorities_must_hold_a_certificate() {
        for (label, text, problem) in [
            ("empty", String::new(), NO_CERTIFICATE),
            ("text", "not a certificate".to_owned(), NO_CERTIFICATE),
            ("a key only", pem("PRIVATE KEY", "MAIFAA=="), NO_CERTIFICATE),
            ("damaged", pem("CERTIFICATE", "MIIFAA=="), NO_CERTIFICATE),
            ("not base64", pem("CERTIFICATE", "%%%%"), NO_PEM),
            ("cut off", "-----BEGIN CERTIFICATE-----\nMAIFAA==\n".to_owned(), NO_PEM),
        ] {
            let outcome = roots(Some(text.as_bytes())).map(|roots| roots.len());
            assert_eq!(outcome, Err(problem), "{label}");
        }
    }

    #[test]
    fn the_choice_holds_what_every_implementation_of_tls_must_know() {
        let CryptoProvider { cipher_suites, kx_groups, .. } = crypto_provider();
        assert!(cipher_suites.iter().any(|suite| suite.suite() == CipherSuite::TLS13_AES_128_GCM_SHA256));
        assert!(kx_groups.iter().any(|group| group.name() == NamedGroup::secp256r1));
        let schemes = SIGNATURES.supported_schemes();
        for scheme in [
            SignatureScheme::RSA_PKCS1_SHA256,
            SignatureScheme::RSA_PSS_SHA256,
            SignatureScheme::ECDSA_NISTP256_SHA256,
        ] {
            assert!(schemes.contains(&scheme), "{scheme:?}");
        }
    }

    #[test]
    fn no_compiled_in_root_is_lost_by_the_choice() {
        let default = rustls::crypto::ring::default_provider().signature_verification_algorithms;
        // An algorithm identifier starts with tag and length; webpki compares the rest.
        let knows = |algorithms: &WebPkiSupportedAlgorithms, key: &[u8]| {
            algorithms.all.iter().any(|algorithm| key[2..].starts_with(&algorithm.public_key_alg_id()))
        };
        let roots: Vec<_> = webpki_roots::TLS_SERVER_ROOTS
            .iter()
            .map(|root| &*root.subject_public_key_info)
            .filter(|key| knows(&default, key))
            .collect();
        assert!(roots.len() > 100, "{}", roots.len());
        for key in roots {
            assert!(knows(&SIGNATURES, key), "{key:02x?}");
        }
    }
}
