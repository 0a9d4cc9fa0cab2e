//! Certificates made for one test: X.509 by hand, signed with P-256, so that no key lies in the repository and none
//! expires.

use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// 1.2.840.10045.4.3.2, ecdsa-with-SHA256.
const ECDSA_WITH_SHA256: &[u8] = &[0x06, 8, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 4, 3, 2];
/// 1.2.840.10045.2.1, a public key of an elliptic curve, and 1.2.840.10045.3.1.7, P-256.
const P256_KEY: &[u8] =
    &[0x06, 7, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 2, 1, 0x06, 8, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 3, 1, 7];

/// From when and until when, as certificates write it.
pub(crate) const VALID: [&str; 2] = ["200101000000Z", "491231235959Z"];
pub(crate) const EXPIRED: [&str; 2] = ["200101000000Z", "210101000000Z"];

/// A key with its certificate.
pub(crate) struct Certified {
    pub(crate) certificate: CertificateDer<'static>,
    name: &'static str,
    pkcs8: Vec<u8>,
}

impl Certified {
    /// An authority that has signed itself.
    pub(crate) fn authority(name: &'static str) -> Self {
        let key = new_key();
        let certificate = certificate(&key, name, &key, name, None, VALID);
        Self { certificate, name, pkcs8: key }
    }

    /// A server's certificate for `name`, signed by this one.
    pub(crate) fn issue(&self, name: &'static str, validity: [&str; 2]) -> Self {
        let key = new_key();
        let certificate = certificate(&key, name, &self.pkcs8, self.name, Some(name), validity);
        Self { certificate, name, pkcs8: key }
    }

    pub(crate) fn key(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.pkcs8.clone()).into()
    }

    pub(crate) fn pem(&self) -> Vec<u8> {
        const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = String::from("-----BEGIN CERTIFICATE-----\n");
        for line in self.certificate.chunks(48) {
            for group in line.chunks(3) {
                let bits = (0..3)
                    .fold(0, |bits, index| bits << 8 | u32::from(group.get(index).copied().unwrap_or(0)));
                for index in 0..4 {
                    let sextet = usize::try_from(bits >> (18 - 6 * index) & 63).unwrap();
                    text.push(if index <= group.len() { char::from(ALPHABET[sextet]) } else { '=' });
                }
            }
            text.push('\n');
        }
        text.push_str("-----END CERTIFICATE-----\n");
        text.into_bytes()
    }
}

fn new_key() -> Vec<u8> {
    let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new()).unwrap();
    key.as_ref().to_vec()
}

/// The certificate of `key`, of an authority where it is for no name.
fn certificate(
    key: &[u8],
    subject: &str,
    issuer_key: &[u8],
    issuer: &str,
    name: Option<&str>,
    validity: [&str; 2],
) -> CertificateDer<'static> {
    let random = SystemRandom::new();
    let pair = |pkcs8| EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8, &random).unwrap();
    let extension = match name {
        // basicConstraints, critical: an authority.
        None => sequence(&[&[0x06, 3, 0x55, 0x1D, 19], &[1, 1, 0xFF], &der(0x04, &[0x30, 3, 1, 1, 0xFF])]),
        // subjectAltName: one DNS name.
        Some(name) => {
            sequence(&[&[0x06, 3, 0x55, 0x1D, 17], &der(0x04, &sequence(&[&der(0x82, name.as_bytes())]))])
        }
    };
    let body = sequence(&[
        &[0xA0, 3, 2, 1, 2], // Version 3.
        &[2, 1, 1],          // Serial number.
        &sequence(&[ECDSA_WITH_SHA256]),
        &distinguished_name(issuer),
        &sequence(&[&der(0x17, validity[0].as_bytes()), &der(0x17, validity[1].as_bytes())]),
        &distinguished_name(subject),
        &sequence(&[&sequence(&[P256_KEY]), &bits(pair(key).public_key().as_ref())]),
        &der(0xA3, &sequence(&[&extension])),
    ]);
    let signature = pair(issuer_key).sign(&random, &body).unwrap();
    sequence(&[&body, &sequence(&[ECDSA_WITH_SHA256]), &bits(signature.as_ref())]).into()
}

fn distinguished_name(common_name: &str) -> Vec<u8> {
    let attribute = sequence(&[&[0x06, 3, 0x55, 4, 3], &der(0x0C, common_name.as_bytes())]);
    sequence(&[&der(0x31, &attribute)])
}

fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    der(0x30, &parts.concat())
}

/// A string of whole octets.
fn bits(bytes: &[u8]) -> Vec<u8> {
    der(0x03, &[&[0], bytes].concat())
}

fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap();
    let [high, low] = length.to_be_bytes();
    let head: &[u8] = match length {
        0..=0x7F => &[tag, low],
        0x80..=0xFF => &[tag, 0x81, low],
        _ => &[tag, 0x82, high, low],
    };
    [head, content].concat()
}
