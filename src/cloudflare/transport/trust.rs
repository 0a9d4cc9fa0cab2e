//! Builds the set of trusted certificate authorities.

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

const NO_PEM: &str = "the file of certificate authorities is not PEM";

const NO_CERTIFICATE: &str = "the file of certificate authorities holds no certificate that can be read";

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

#[cfg(test)]
mod tests {
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
}
