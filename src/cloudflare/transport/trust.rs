//! Whose certificates are trusted.

use std::sync::atomic::{AtomicUsize, Ordering};

use ureq::tls::{Certificate, PemItem};

use super::Response;
use super::failure::{TransportError, TransportErrorKind};
use crate::cloudflare::client::ClientError;

/// Tries with one set of roots after the other, beginning with the one that was good last time. A handshake that fails
/// for the certificate has sent nothing, so that this is no repetition, not even of a write.
pub(super) fn try_in_turn(
    trusted: &AtomicUsize,
    count: usize,
    mut send: impl FnMut(usize) -> Result<Response, TransportError>,
) -> Result<Response, TransportError> {
    let first = trusted.load(Ordering::Relaxed);
    let mut outcome = send(first);
    for index in (0..count).filter(|index| *index != first) {
        match &outcome {
            Err(error) if error.kind() == TransportErrorKind::Certificate && !error.was_sent() => {}
            _ => break,
        }
        outcome = send(index);
        if outcome.is_ok() {
            trusted.store(index, Ordering::Relaxed);
        }
    }
    outcome
}

/// Reads the certificates of a PEM file; keys in it are left alone.
pub(super) fn parse_certificates(pem: &[u8]) -> Result<Vec<Certificate<'static>>, ClientError> {
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

#[cfg(test)]
mod tests {
    use super::*;

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
            ("two with text around", format!("# ours\n{whole}\n# theirs\n{whole}"), Ok(2)),
            ("a key beside it", format!("{key}{whole}"), Ok(1)),
            ("empty", String::new(), Err("holds no certificate")),
            ("text", "not a certificate".to_owned(), Err("holds no certificate")),
            ("a key only", key, Err("holds no certificate")),
            ("damaged", damaged, Err("a certificate in it is damaged")),
            ("not base64", pem("CERTIFICATE", "%%%%"), Err("is not PEM")),
            ("cut off", "-----BEGIN CERTIFICATE-----\nMAIFAA==\n".to_owned(), Err("is not PEM")),
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
}
