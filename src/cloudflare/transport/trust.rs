//! Builds the set of trusted certificate authorities.

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::cloudflare::settings::ClientError;

/// Mozilla's roots, which are compiled in, and the operator's.
pub(super) fn roots(authorities: Option<&[u8]>) -> Result<RootCertStore, ClientError> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(pem) = authorities {
        roots.add_parsable_certificates(parse_certificates(pem)?);
    }
    Ok(roots)
}

/// Reads the certificates of a PEM file, and ignores keys in it.
pub(super) fn parse_certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    let mut certificates = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|_| ClientError::Certificates("is not PEM"))?;
        // rustls silently leaves out certificates that it cannot parse. A file of nothing else would only show when
        // every handshake fails.
        if !is_der_sequence(&certificate) {
            return Err(ClientError::Certificates("a certificate in it is damaged"));
        }
        certificates.push(certificate);
    }
    if certificates.is_empty() {
        return Err(ClientError::Certificates("holds no certificate"));
    }
    Ok(certificates)
}

/// True if the bytes are one DER sequence of the length that it claims, as every certificate is.
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

    /// PEM around `base64`, which needs no padding if it holds a multiple of three bytes.
    fn pem(label: &str, base64: &str) -> String {
        format!("-----BEGIN {label}-----\n{base64}\n-----END {label}-----\n")
    }

    #[test]
    fn a_file_of_certificate_authorities_must_hold_a_whole_certificate() {
        // A DER sequence with one null, and one that claims more bytes than there are.
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
}
