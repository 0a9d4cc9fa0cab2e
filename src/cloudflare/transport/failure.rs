//! Classifies the reasons why no answer came.

use std::fmt;
use std::io;

use ureq::Timeout;

/// The reason why no answer came. Its text holds neither the credentials of addresses nor headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransportError {
    pub kind: TransportErrorKind,
    /// True if the server may have seen the request: for a request with a body, if sending the body began.
    pub was_sent: bool,
    detail: Box<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportErrorKind {
    Lookup,
    /// TCP or a proxy's CONNECT.
    Connect,
    /// TLS: the certificate is not trusted, or not for this name.
    Certificate,
    /// Any other failure of TLS.
    Tls,
    /// One of the phases took too long.
    TimedOut,
    /// The connection ended before the answer did.
    Disconnected,
    /// The answer is larger than the cap.
    TooLarge,
    /// The answer is not HTTP, or not compressed as it claims.
    Protocol,
}

impl TransportError {
    pub(crate) fn new(kind: TransportErrorKind, was_sent: bool, detail: impl Into<Box<str>>) -> Self {
        Self { kind, was_sent, detail: detail.into() }
    }

    /// True if the next request will fail in the same way.
    pub(crate) fn is_permanent(&self) -> bool {
        matches!(self.kind, TransportErrorKind::Certificate | TransportErrorKind::TooLarge)
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            TransportErrorKind::Lookup => "name lookup failed",
            TransportErrorKind::Connect => "connection failed",
            TransportErrorKind::Certificate => "certificate not trusted",
            TransportErrorKind::Tls => "TLS failed",
            TransportErrorKind::TimedOut => "timed out",
            TransportErrorKind::Disconnected => "connection lost",
            TransportErrorKind::TooLarge => "response too large",
            TransportErrorKind::Protocol => "invalid HTTP",
        };
        write!(formatter, "{kind}: {}", self.detail)
    }
}

/// Classifies ureq's errors. Their texts are kept only if they cannot hold anything of the request or of a proxy's
/// address.
pub(super) fn describe(error: &ureq::Error) -> (TransportErrorKind, Box<str>) {
    use TransportErrorKind as Kind;
    match error {
        ureq::Error::Timeout(Timeout::Connect) => (Kind::Connect, "timed out".into()),
        ureq::Error::Timeout(phase) => (Kind::TimedOut, phase.to_string().into()),
        ureq::Error::ConnectionFailed => (Kind::Connect, "no address answered".into()),
        ureq::Error::ConnectProxyFailed(_) => (Kind::Connect, "the proxy refused or did not answer".into()),
        ureq::Error::BodyExceedsLimit(limit) => (Kind::TooLarge, format!("more than {limit} bytes").into()),
        ureq::Error::Io(error) => describe_io(error),
        ureq::Error::Tls(text) => (Kind::Tls, (*text).into()),
        ureq::Error::Decompress(..) => (Kind::Protocol, "damaged compression".into()),
        ureq::Error::Protocol(error) => (Kind::Protocol, error.to_string().into()),
        _ => (Kind::Protocol, "the request could not be formed".into()),
    }
}

fn describe_io(error: &io::Error) -> (TransportErrorKind, Box<str>) {
    use TransportErrorKind as Kind;
    let text = error.to_string();
    match error.kind() {
        // rustls reports its errors with this kind: "invalid peer certificate: UnknownIssuer".
        io::ErrorKind::InvalidData if text.contains("peer certificate") => (Kind::Certificate, text.into()),
        io::ErrorKind::InvalidData => (Kind::Tls, text.into()),
        // Our resolver uses this kind.
        io::ErrorKind::NotFound => (Kind::Lookup, text.into()),
        io::ErrorKind::ConnectionRefused
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::NetworkDown
        | io::ErrorKind::AddrNotAvailable
        // These two stand for a prohibited route and a black hole.
        | io::ErrorKind::PermissionDenied
        | io::ErrorKind::InvalidInput => (Kind::Connect, text.into()),
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => (Kind::TimedOut, text.into()),
        _ => (Kind::Disconnected, text.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_ureq_are_sorted() {
        use TransportErrorKind as Kind;
        let io = |kind, text: &str| ureq::Error::Io(io::Error::new(kind, text.to_owned()));
        for (error, expected) in [
            (ureq::Error::Timeout(Timeout::Connect), Kind::Connect),
            (ureq::Error::Timeout(Timeout::Global), Kind::TimedOut),
            (ureq::Error::Timeout(Timeout::RecvBody), Kind::TimedOut),
            (io(io::ErrorKind::NotFound, "x"), Kind::Lookup),
            (ureq::Error::ConnectionFailed, Kind::Connect),
            (ureq::Error::ConnectProxyFailed("x".to_owned()), Kind::Connect),
            (io(io::ErrorKind::ConnectionRefused, "x"), Kind::Connect),
            (io(io::ErrorKind::UnexpectedEof, "x"), Kind::Disconnected),
            (io(io::ErrorKind::ConnectionReset, "x"), Kind::Disconnected),
            (io(io::ErrorKind::BrokenPipe, "x"), Kind::Disconnected),
            // The texts are rustls's.
            (io(io::ErrorKind::InvalidData, "invalid peer certificate: UnknownIssuer"), Kind::Certificate),
            (
                io(io::ErrorKind::InvalidData, "received corrupt message of type InvalidContentType"),
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
