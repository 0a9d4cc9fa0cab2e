//! The error responses to requests that are not carried out completely. No function here logs. The server logs a
//! failure with a level. The others need no line: the watch logs why the webhook is not ready, and refusals have lines
//! of their own.

use log::Level;

use crate::cloudflare::Error;
use crate::provider::backend::ReadError;
use crate::webhook::Failure;

const TUNNELS_UNKNOWN: &str = "the webhook is not ready: the token or the tunnels could not be checked yet; \
     /readyz on the metrics port says why";

const TOO_MUCH: &str = "the request has more hostnames than fit into memory, so the webhook refuses the \
     whole request: let several pairs of ExternalDNS and webhook share the hostnames (--domain-filter, \
     DOMAIN_FILTER)";

/// The tunnels are not known yet.
pub(super) fn not_ready() -> Failure {
    Failure::unavailable(TUNNELS_UNKNOWN)
}

/// The retained endpoints of the request do not fit into memory.
pub(super) fn too_much() -> Failure {
    Failure::unavailable(TOO_MUCH).logged(Level::Warn)
}

/// An endpoint is longer than any endpoint that `adjust` returns. Without this endpoint, the rest of the request could
/// delete rules and records that the endpoint asks for.
pub(super) fn too_long(dns_name: &str) -> Failure {
    Failure::unavailable(format!(
        "the endpoint of {dns_name:?} is longer than any that the webhook returns, so the webhook refuses \
         the whole request"
    ))
    .logged(Level::Warn)
}

/// The endpoints of the request are labelled with another owner than ours.
pub(super) fn wrong_owner(found: &str, ours: &str) -> Failure {
    Failure::permanent(format!(
        "the changes are labelled with the owner {found:?}, and OWNER_ID is {ours:?}: set OWNER_ID to the \
         value of ExternalDNS's --txt-owner-id; nothing was written"
    ))
    .logged(Level::Warn)
}

/// Reading Cloudflare failed, so nothing was planned.
pub(super) fn unread(error: ReadError) -> Failure {
    let text = error.to_string();
    let is_temporary = error.error.is_retryable();
    let failure = if is_temporary { Failure::unavailable(text) } else { Failure::permanent(text) };
    failure.logged(Level::Warn)
}

/// No time or no calls were left for the rest of the writes.
pub(super) fn ended_early(error: &Error) -> Failure {
    if *error == Error::OutOfTime {
        let text = "the request had no time left for all writes; the next request does the rest";
        return Failure::unavailable(text).logged(Level::Info);
    }
    Failure::unavailable(format!("no calls were left for all writes; a later request does the rest: {error}"))
        .logged(Level::Warn)
}

/// A part of the request is left to the next request.
pub(super) fn unfinished(changes: usize) -> Failure {
    Failure::unavailable(format!(
        "hostnames or endpoints that are left to a later request: {changes}; the command status names them"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_pass_by_itself_is_503_and_what_may_not_is_500() {
        let timeout = ReadError { what: "the list of zones".to_owned(), error: Error::OutOfTime };
        let another_form = Error::Unreadable("no object".into());
        let document = ReadError { what: "the configuration of tunnel f7".to_owned(), error: another_form };
        let cases: [(Failure, u16, &str); 8] = [
            (not_ready(), 503, "the webhook is not ready: "),
            (too_much(), 503, "the request has more hostnames"),
            (too_long("a.test"), 503, "the endpoint of \"a.test\" is longer"),
            (wrong_owner("a", "b"), 500, "the changes are labelled"),
            (unread(timeout), 503, "reading the list of zones failed: "),
            (unread(document), 500, "reading the configuration of tunnel f7 failed: "),
            (ended_early(&Error::OutOfTime), 503, "the request had no time left"),
            (unfinished(2), 503, "hostnames or endpoints that are left to a later request: 2;"),
        ];
        for (failure, status, begin) in cases {
            assert_eq!(failure.status, status, "{failure:?}");
            assert!(failure.text.starts_with(begin), "{failure:?}");
        }
    }
}
