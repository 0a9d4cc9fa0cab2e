//! The errors of calls, by what the caller must do about them.

use std::fmt;
use std::time::Duration;

use super::transport::{TransportError, TransportErrorKind};

/// The reason why a call to Cloudflare's API brought no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// Cloudflare understood the request and rejected it. Nothing was done, and the same request will be rejected
    /// again.
    Rejected(ErrorResponse),
    /// The token or key is not valid, not permitted to do this, or belongs to another account. An operator has to act.
    Credentials(ErrorResponse),
    /// Something that the path or the request names does not exist.
    NotFound(ErrorResponse),
    /// The rate limit is used up. This call did nothing, and nothing will be sent before `retry_after` is over.
    RateLimited {
        /// The time from now.
        retry_after: Duration,
    },
    /// Nothing was sent that a server acts on: no connection could be made, or it broke before the body was sent.
    Unreachable(TransportError),
    /// The request was sent, at least in part, but no complete answer was received. A write may have been done, so read
    /// again before the next write.
    Unanswered(TransportError),
    /// Cloudflare failed on the request. A write may have been done, so read again before the next write.
    Failed(ErrorResponse),
    /// Another server on the way answered in place of Cloudflare, such as a proxy, a login page or a firewall. Its
    /// answer says nothing about the request. Usually the request was not passed on. But a proxy that holds back
    /// Cloudflare's answer looks the same, so a write may have been done.
    Intercepted(ErrorResponse),
    /// Too little of the deadline was left, so nothing was sent.
    OutOfTime,
    /// The answer does not match the API's description. A write may have been done.
    Unreadable(Box<str>),
}

impl Error {
    /// True if a write that ended in this error may nevertheless have been done.
    pub fn may_have_been_done(&self) -> bool {
        match self {
            Self::Unanswered(_) | Self::Failed(_) | Self::Intercepted(_) | Self::Unreadable(_) => true,
            Self::Rejected(_)
            | Self::Credentials(_)
            | Self::NotFound(_)
            | Self::RateLimited { .. }
            | Self::Unreachable(_)
            | Self::OutOfTime => false,
        }
    }

    /// The same, except after a proxy's answer: then the write usually was not done.
    pub fn was_probably_done(&self) -> bool {
        self.may_have_been_done() && !matches!(self, Self::Intercepted(_))
    }

    /// True if trying the same call again is worthwhile.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::RateLimited { .. } | Self::Failed(_) | Self::OutOfTime => true,
            Self::Unreachable(error) | Self::Unanswered(error) => !error.is_permanent(),
            Self::Rejected(_)
            | Self::Credentials(_)
            | Self::NotFound(_)
            | Self::Intercepted(_)
            | Self::Unreadable(_) => false,
        }
    }

    /// True if no time or no calls are left, so that no other call can succeed either.
    pub(crate) fn ends_run(&self) -> bool {
        matches!(self, Self::OutOfTime | Self::RateLimited { .. })
    }

    /// True if the connection was lost during the request, for example because the server closed it as idle.
    pub(super) fn is_disconnect(&self) -> bool {
        matches!(self, Self::Unanswered(error) if error.kind == TransportErrorKind::Disconnected)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected(response) => write!(formatter, "rejected by Cloudflare: {response}"),
            Self::Credentials(response) => {
                let permission = response.permission;
                let needs = if permission.is_empty() { "" } else { "; this call needs " };
                write!(formatter, "credentials not accepted{needs}{permission}: {response}")
            }
            Self::NotFound(response) => write!(formatter, "not found: {response}"),
            // The seconds that are left would make each text a new one for the log.
            Self::RateLimited { retry_after: _ } => formatter.write_str("the rate limit is used up"),
            Self::Unreachable(error) => write!(formatter, "Cloudflare not reached: {error}"),
            Self::Unanswered(error) => write!(formatter, "no answer from Cloudflare: {error}"),
            Self::Failed(response) => write!(formatter, "Cloudflare failed: {response}"),
            Self::Intercepted(response) => {
                write!(formatter, "another server answered in place of Cloudflare's API: {response}")
            }
            Self::OutOfTime => formatter.write_str("too little time was left for the call"),
            Self::Unreadable(reason) => write!(formatter, "unreadable answer: {reason:?}"),
        }
    }
}

/// The content of an answer without a result. Its texts are cut and contain no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorResponse {
    /// The HTTP status, which often does not match the error.
    pub status: u16,
    /// Cloudflare's number for the first error. The same number means different things in different services.
    pub code: Option<u32>,
    /// The first error's text; a description of the answer if the answer has no errors.
    pub message: Box<str>,
    /// The causes of the first error (`error_chain`, which mostly has the real reason), then the other errors.
    pub chain: Vec<Cause>,
    /// The permission that the call needs; empty if that is not known.
    pub permission: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    pub code: Option<u32>,
    pub message: Box<str>,
}

impl ErrorResponse {
    /// Every code, beginning with that of the first error.
    pub fn codes(&self) -> impl Iterator<Item = u32> + '_ {
        self.code.into_iter().chain(self.chain.iter().filter_map(|cause| cause.code))
    }

    /// True if the answer is from Cloudflare itself: only Cloudflare's errors have codes.
    pub fn is_from_cloudflare(&self) -> bool {
        self.codes().next().is_some()
    }

    pub fn has_code(&self, code: u32) -> bool {
        self.codes().any(|found| found == code)
    }

    /// True if the tunnel has no configuration yet (1055).
    pub fn is_never_configured(&self) -> bool {
        self.has_code(1055)
    }

    /// True if the record to be changed or deleted does not exist (81044).
    pub fn is_missing_record(&self) -> bool {
        self.has_code(81044)
    }

    /// True if the record to be created, or another one that excludes it, exists already (81053 to 81058).
    pub fn is_record_conflict(&self) -> bool {
        self.codes().any(|code| (81053..=81058).contains(&code))
    }

    /// True if the Access application in the path does not exist (11021).
    pub fn is_missing_application(&self) -> bool {
        self.has_code(11021)
    }

    /// True if the account never had the tunnel (1002).
    pub fn is_no_tunnel(&self) -> bool {
        self.has_code(1002)
    }

    /// True if another tunnel of the account has the name (1013).
    pub fn is_name_taken(&self) -> bool {
        self.has_code(1013)
    }

    /// True if the zone holds as many records as its limit allows (81045).
    pub fn is_zone_full(&self) -> bool {
        self.has_code(81045)
    }
}

impl fmt::Display for ErrorResponse {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "HTTP {}", self.status)?;
        if let Some(code) = self.code {
            write!(formatter, ", code {code}")?;
        }
        write!(formatter, ", {:?}", self.message)?;
        for (index, cause) in self.chain.iter().enumerate() {
            formatter.write_str(if index == 0 { " because " } else { ", " })?;
            match cause.code {
                Some(code) => write!(formatter, "{code} {:?}", cause.message)?,
                None => write!(formatter, "{:?}", cause.message)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, code: Option<u32>, message: &str) -> ErrorResponse {
        ErrorResponse { status, code, message: message.into(), chain: Vec::new(), permission: "" }
    }

    /// Cloudflare's top message, "DNS Validation Error", says nothing by itself.
    #[test]
    fn the_text_shows_the_chain_and_quotes_what_came_from_outside() {
        let error = Error::Rejected(ErrorResponse {
            status: 400,
            code: Some(1004),
            message: "DNS Validation Error".into(),
            chain: vec![Cause { code: Some(9300), message: "1 tags,\nexceeding the quota of 0.".into() }],
            permission: "",
        });
        assert_eq!(
            error.to_string(),
            "rejected by Cloudflare: HTTP 400, code 1004, \"DNS Validation Error\" \
             because 9300 \"1 tags,\\nexceeding the quota of 0.\""
        );
    }

    #[test]
    fn a_rate_limit_is_one_problem_however_many_seconds_are_left() {
        let text = |seconds| Error::RateLimited { retry_after: Duration::from_secs(seconds) }.to_string();
        assert_eq!(text(287), text(277));
    }

    #[test]
    fn a_refusal_is_recognised_by_any_of_its_codes() {
        let mut response = response(400, Some(1004), "x");
        assert!(!response.has_code(81058) && !response.is_zone_full() && !response.has_code(1056));
        response.chain = vec![Cause { code: Some(81058), message: "x".into() }];
        assert!(response.has_code(81058) && !response.is_zone_full());
        response.code = Some(81044);
        assert!(response.is_missing_record());
        response.code = Some(81045);
        assert!(response.is_zone_full() && !response.is_missing_record());
        response.code = Some(1056);
        assert!(response.has_code(1056) && !response.is_missing_application());
        response.code = Some(11021);
        assert!(response.is_missing_application());
    }
}
