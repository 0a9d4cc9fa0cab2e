//! Chooses the algorithms of TLS from those of ring.
//!
//! rustls's own choice is everything in ring, client keys included: 0.15 MB that no connection to Cloudflare needs.
//! This choice is what RFC 8446 section 9.1 requires of every implementation, with AES-256, X25519 and P-384, and with
//! the same ciphers for TLS 1.2.

use std::sync::Arc;

use ring::rand::{SecureRandom as _, SystemRandom};
use rustls::crypto::ring::{cipher_suite, kx_group};
use rustls::crypto::{CryptoProvider, GetRandomFailed, KeyProvider, SecureRandom, WebPkiSupportedAlgorithms};
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::SigningKey;
use rustls::{Error, SignatureScheme};
use webpki::ring::{
    ECDSA_P256_SHA256, ECDSA_P256_SHA384, ECDSA_P384_SHA256, ECDSA_P384_SHA384, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA256_ABSENT_PARAMS, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA384_ABSENT_PARAMS, RSA_PKCS1_2048_8192_SHA512,
    RSA_PKCS1_2048_8192_SHA512_ABSENT_PARAMS, RSA_PSS_2048_8192_SHA256_LEGACY_KEY,
    RSA_PSS_2048_8192_SHA384_LEGACY_KEY, RSA_PSS_2048_8192_SHA512_LEGACY_KEY,
};

pub(super) fn provider() -> CryptoProvider {
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

    #[test]
    fn the_choice_holds_what_every_implementation_of_tls_must_know() {
        let CryptoProvider { cipher_suites, kx_groups, .. } = provider();
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
