//! The reasons why a request of ExternalDNS is not carried out, or not completely.

use std::fmt;

use log::{info, warn};

use crate::cloudflare::Error;
use crate::provider::reader::ReadError;
use crate::reconcile::plan::WrongOwner;
use crate::webhook::Failure;

#[derive(Debug)]
pub(super) enum RequestError {
    /// The token or the tunnels have never been found valid.
    NotReady,
    /// The body is malformed, or a failure that is logged already.
    Body(Failure),
    /// The memory has no room for what is asked for.
    TooMuch,
    /// Half of an endpoint would be a different endpoint.
    TooLong {
        dns_name: String,
    },
    WrongOwner(WrongOwner),
    Read(ReadError),
    Write(Error),
    /// Cloudflare accepted the credentials for none of the writes.
    Forbidden,
    /// Some work has to be asked for again.
    Unfinished {
        changes: usize,
    },
}

impl RequestError {
    /// Logs the error, unless it was logged already, and turns it into the answer.
    pub(super) fn into_logged_failure(self) -> Failure {
        match &self {
            Self::Write(Error::OutOfTime) => {
                info!("the rest does not fit into this request's time; the next loop goes on");
            }
            Self::TooMuch
            | Self::TooLong { .. }
            | Self::WrongOwner(_)
            | Self::Read(_)
            | Self::Write(Error::Limited { .. }) => warn!("{self}"),
            Self::NotReady | Self::Body(_) | Self::Write(_) | Self::Forbidden | Self::Unfinished { .. } => {}
        }
        self.into()
    }

    /// True if it may pass by itself.
    fn may_pass(&self) -> bool {
        match self {
            Self::WrongOwner(_) | Self::Read(ReadError::Document(..)) => false,
            Self::Read(ReadError::Cloudflare(_, error)) | Self::Write(error) => error.is_retryable(),
            Self::NotReady
            | Self::Body(_)
            | Self::TooMuch
            | Self::TooLong { .. }
            | Self::Forbidden
            | Self::Unfinished { .. } => true,
        }
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReady => formatter.write_str(
                "not ready: the token or the tunnels could not be checked yet; /readyz on the metrics port says why",
            ),
            Self::Body(failure) => failure.fmt(formatter),
            Self::TooMuch => formatter.write_str(
                "the request asks for more hostnames of ours than fit into memory, and none of it is done: let several \
                 pairs of ExternalDNS and this program share the hostnames (--domain-filter, DOMAIN_FILTER)",
            ),
            Self::TooLong { dns_name } => {
                write!(
                    formatter,
                    "hostname={dns_name:?} comes with more than adjust returns, so nothing is done"
                )
            }
            Self::WrongOwner(error) => error.fmt(formatter),
            Self::Read(error) => error.fmt(formatter),
            Self::Write(Error::OutOfTime) => {
                formatter.write_str("out of time; the next loop goes on where this one ended")
            }
            Self::Write(error) => write!(formatter, "writing to Cloudflare failed: {error}"),
            Self::Forbidden => {
                formatter.write_str("Cloudflare accepts the token for none of the writes; the log says more")
            }
            Self::Unfinished { changes } => {
                write!(formatter, "{changes} changes are left to do; the log says which")
            }
        }
    }
}

/// Every failure is soft for ExternalDNS, which tries again in its next loop.
impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        if let RequestError::Body(failure) = error {
            return failure;
        }
        let text = error.to_string();
        if error.may_pass() { Self::unavailable(text) } else { Self::internal(text) }
    }
}

impl From<Failure> for RequestError {
    fn from(failure: Failure) -> Self {
        Self::Body(failure)
    }
}

impl From<ReadError> for RequestError {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingress::Document;
    use crate::model::TunnelId;
    use crate::webhook::FailureStatus::{self, Internal500, Malformed400, Unavailable503};

    fn document_error() -> ReadError {
        let tunnel = TunnelId::parse("f70ff985-a4ef-4643-bbbc-4a0ed4fc8415").expect("an id");
        let config = serde_json::value::to_raw_value(&7).expect("JSON");
        ReadError::Document(tunnel, Document::parse(Some(&config)).expect_err("a configuration is an object"))
    }

    #[test]
    fn what_may_pass_by_itself_is_503_and_what_may_not_is_500() {
        let wrong_owner = WrongOwner { found: "a".into(), expected: "b".into() };
        let cases: [(RequestError, FailureStatus, &str); 10] = [
            (RequestError::NotReady, Unavailable503, "not ready: "),
            (Failure::malformed("x").into(), Malformed400, "the body cannot be read: x"),
            (RequestError::TooMuch, Unavailable503, "the request asks for more hostnames"),
            (
                RequestError::TooLong { dns_name: "a.test".to_owned() },
                Unavailable503,
                "hostname=\"a.test\" comes with more",
            ),
            (RequestError::WrongOwner(wrong_owner), Internal500, "the changes are labelled"),
            (
                ReadError::Cloudflare("the list of zones".to_owned(), Error::OutOfTime).into(),
                Unavailable503,
                "reading the list of zones failed: ",
            ),
            (document_error().into(), Internal500, "the configuration of tunnel f70ff985"),
            (RequestError::Write(Error::OutOfTime), Unavailable503, "out of time; "),
            (RequestError::Forbidden, Unavailable503, "Cloudflare accepts the token for none"),
            (RequestError::Unfinished { changes: 2 }, Unavailable503, "2 changes are left to do"),
        ];
        for (error, status, begin) in cases {
            let failure = Failure::from(error);
            assert_eq!(failure.status, status, "{failure}");
            assert!(failure.text.starts_with(begin), "{failure}");
        }
    }
}
