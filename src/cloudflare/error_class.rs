//! Sorts Cloudflare's error answers.

use std::time::Duration;

use super::error::{Error, ErrorResponse};
use crate::label_values::label_values;

/// The subject of a call, because the same code means different things for different subjects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiResource {
    Tokens,
    Zones,
    Records,
    Tunnels,
    Configurations,
    Connections,
    AccessOrganization,
    AccessApplications,
    AccessPolicies,
    AccessTags,
}

impl ApiResource {
    label_values! {
        Self::Tokens => "token",
        Self::Zones => "zones",
        Self::Records => "records",
        Self::Tunnels => "tunnels",
        Self::Configurations => "configuration",
        Self::Connections => "connections",
        Self::AccessOrganization => "access_organization",
        Self::AccessApplications => "access_applications",
        Self::AccessPolicies => "access_policies",
        Self::AccessTags => "access_tags",
    }

    /// The permission that a token needs to read and write it; empty if that is not exactly one permission.
    pub(super) fn permission(self) -> &'static str {
        match self {
            Self::Zones => "Zone: Zone: Read",
            Self::Records => {
                "Zone: DNS: Edit for the zone (or leave the zone out by DOMAIN_FILTER or ZONE_ID_FILTER)"
            }
            Self::Tunnels | Self::Configurations | Self::Connections => {
                "Account: Cloudflare Tunnel: Edit for the account of the tunnels (CF_ACCOUNT_ID)"
            }
            _ => "",
        }
    }

    /// True for tunnels and all that is part of one.
    pub(super) fn concerns_tunnels(self) -> bool {
        matches!(self, Self::Tunnels | Self::Configurations | Self::Connections)
    }

    /// True for everything in Cloudflare Access, for which a token needs permissions of its own.
    pub(super) fn concerns_access(self) -> bool {
        matches!(
            self,
            Self::AccessOrganization | Self::AccessApplications | Self::AccessPolicies | Self::AccessTags
        )
    }
}

/// The pause after a rate limit that names no time.
const RATE_LIMIT_PAUSE_DEFAULT: Duration = Duration::from_secs(60);

/// Sorts a response by what the caller must do. Cloudflare does not document its codes; clients in use have seen these.
/// A code counts more than the HTTP status, because authentication errors have the status 400, and throttling even 200.
/// An answer without a code is not from Cloudflare, but from a proxy, a login page or a firewall.
pub(super) fn classify(
    resource: ApiResource,
    response: ErrorResponse,
    retry_after: Option<Duration>,
) -> Error {
    // The rate limit has the code 971, and 10429 in the newer services.
    if response.status == 429 || response.codes().any(|code| matches!(code, 971 | 10429)) {
        return Error::RateLimited { retry_after: retry_after.unwrap_or(RATE_LIMIT_PAUSE_DEFAULT) };
    }
    let message = response.message.to_ascii_lowercase();
    let of_status: fn(ErrorResponse) -> Error = match response.status {
        408 | 500.. => Error::Failed,
        _ if !response.is_from_cloudflare() => Error::Intercepted,
        403 => Error::Credentials,
        404 => Error::NotFound,
        _ => Error::Rejected,
    };
    let class = match response.code {
        // Malformed headers (6003 with 6111 or 6103), missing or unknown ones, and resources that the token may not
        // access.
        Some(6003 | 6103 | 6111 | 9103 | 9106 | 9109 | 10000) => Error::Credentials,
        Some(10001) if message.contains("internal") => Error::Failed,
        // "Method not allowed for token".
        Some(10001) => Error::Credentials,
        Some(1000) if ["timeout", "timed out", "internal"].iter().any(|text| message.contains(text)) => {
            Error::Failed
        }
        // "Invalid API Token" is the token verification's answer.
        Some(1000) if message.contains("token") => Error::Credentials,
        // There is no such route, because an id in the path has the wrong shape.
        Some(7003) => Error::NotFound,
        // The tunnel, its token or its configuration is not found.
        Some(1002 | 1054 | 1055) if resource.concerns_tunnels() => Error::NotFound,
        Some(1056) if resource.concerns_tunnels() => Error::Rejected,
        Some(1004 | 9000..=9999 | 81000..=81999) if resource == ApiResource::Records => Error::Rejected,
        // The token has a permission for zones where the account's is needed, or the other way round.
        Some(1010) if resource.concerns_access() => Error::Credentials,
        // The account has no Access, or the application, policy, tag or identity provider does not exist.
        Some(9999 | 11021 | 12083 | 12135 | 12152) if resource.concerns_access() => Error::NotFound,
        // The body is not valid, or another application has one of the destinations.
        Some(11010 | 12130 | 12132) if resource.concerns_access() => Error::Rejected,
        _ => of_status,
    };
    class(response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloudflare::error::Cause;

    /// The error that a response is.
    type Sorted = fn(ErrorResponse) -> Error;

    fn limited(_: ErrorResponse) -> Error {
        Error::RateLimited { retry_after: RATE_LIMIT_PAUSE_DEFAULT }
    }

    fn response(status: u16, code: Option<u32>, message: &str) -> ErrorResponse {
        ErrorResponse { status, code, message: message.into(), chain: Vec::new(), permission: "" }
    }

    /// The codes and statuses that clients in use have met.
    #[test]
    fn every_known_code_is_sorted_by_what_the_caller_must_do() {
        use ApiResource::{
            AccessApplications, AccessOrganization, AccessPolicies, AccessTags, Records, Tokens, Tunnels,
            Zones,
        };
        use Error::{Credentials, Failed, NotFound, Rejected};
        let cases: &[(&str, ApiResource, u16, u32, &str, Sorted)] = &[
            ("throttled in a success", Zones, 200, 971, "Please wait and consider throttling", limited),
            ("throttled as a bad request", Records, 400, 971, "Please wait", limited),
            ("throttled by a newer service", Tunnels, 400, 10429, "Too many requests", limited),
            ("429 with a code of its own", Records, 429, 10100, "limit", limited),
            ("429 with a refusing code", Records, 429, 1004, "limit", limited),
            ("authentication error", Zones, 403, 10000, "Authentication error", Credentials),
            (
                "authentication error as a bad request",
                Tunnels,
                400,
                10000,
                "PUT method not allowed",
                Credentials,
            ),
            (
                "authentication error as a server error",
                Tunnels,
                500,
                10000,
                "Authentication error",
                Credentials,
            ),
            ("invalid headers", Tokens, 400, 6003, "Invalid request headers", Credentials),
            ("unknown key", Zones, 403, 9103, "Unknown X-Auth-Key or X-Auth-Email", Credentials),
            ("missing headers", Zones, 400, 9106, "Missing X-Auth-Key", Credentials),
            ("zone of another account", Records, 403, 9109, "Invalid zone identifier", Credentials),
            ("invalid token", Tokens, 401, 1000, "Invalid API Token", Credentials),
            ("invalid token as a bad request", Tokens, 400, 1000, "Invalid API Token", Credentials),
            ("method not allowed", Tunnels, 400, 10001, "Method not allowed for token", Credentials),
            ("internal error", Tunnels, 400, 10001, "internal error", Failed),
            ("request timeout", Records, 400, 1000, "Request timeout", Failed),
            ("server error in a success", Records, 200, 1000, "Internal Server Error", Failed),
            ("no such route", Tunnels, 400, 7003, "Could not route to /accounts/x", NotFound),
            ("no such tunnel", Tunnels, 404, 1002, "Tunnel not found", NotFound),
            ("no such tunnel, as a bad request", Tunnels, 400, 1002, "Tunnel not found", NotFound),
            ("1002 of another service", Records, 400, 1002, "Invalid domain", Rejected),
            ("no tunnel token", Tunnels, 404, 1054, "not found", NotFound),
            ("no configuration", Tunnels, 400, 1055, "configuration not found", NotFound),
            ("bad configuration", Tunnels, 400, 1056, "Bad Configuration: Validation failed", Rejected),
            ("bad configuration as a server error", Tunnels, 500, 1056, "Bad Configuration", Rejected),
            ("bad record", Records, 400, 1004, "DNS Validation Error", Rejected),
            ("cannot be proxied", Records, 400, 9041, "This DNS record cannot be proxied", Rejected),
            ("tags over quota", Records, 400, 9300, "exceeding the quota of 0", Rejected),
            ("host exists", Records, 400, 81053, "already exists", Rejected),
            ("CNAME exists", Records, 400, 81054, "already exists", Rejected),
            ("NS exists", Records, 400, 81056, "already exist", Rejected),
            ("record exists", Records, 400, 81057, "already exists", Rejected),
            ("identical record", Records, 400, 81058, "identical", Rejected),
            ("quota", Records, 400, 81045, "Record quota exceeded", Rejected),
            ("record is gone", Records, 404, 81044, "Record does not exist", Rejected),
            ("record is gone, as a bad request", Records, 400, 81044, "Record does not exist", Rejected),
            (
                "grant for zones alone",
                AccessApplications,
                403,
                1010,
                "access.api.error.forbidden",
                Credentials,
            ),
            ("the same as a bad request", AccessPolicies, 400, 1010, "forbidden", Credentials),
            ("1010 of another service", Tunnels, 400, 1010, "x", Rejected),
            ("no permission for Access", AccessTags, 403, 10000, "Authentication error", Credentials),
            ("Access is not set up", AccessOrganization, 403, 9999, "not_enabled", NotFound),
            (
                "Access is not set up, as a bad request",
                AccessApplications,
                400,
                9999,
                "not_enabled",
                NotFound,
            ),
            ("9999 of another service", Tunnels, 400, 9999, "x", Rejected),
            ("no such application", AccessApplications, 404, 11021, "unknown_application", NotFound),
            ("no such application, as a bad request", AccessApplications, 400, 11021, "unknown", NotFound),
            ("no such policy", AccessApplications, 400, 12083, "policy p1 not found", NotFound),
            ("no such tag", AccessTags, 404, 12135, "tag_not_found", NotFound),
            ("no such identity provider", AccessApplications, 400, 12152, "idp not found", NotFound),
            ("invalid application", AccessApplications, 400, 12130, "invalid_request", Rejected),
            (
                "invalid application as a server error",
                AccessApplications,
                500,
                12130,
                "invalid_request",
                Rejected,
            ),
            ("the same domain", AccessApplications, 409, 11010, "application_already_exists", Rejected),
            ("the same destination", AccessApplications, 409, 12132, "conflict", Rejected),
            ("12132 of another service that fails", Tunnels, 500, 12132, "x", Failed),
            ("internal error of Access", AccessApplications, 500, 10001, "internal error", Failed),
            ("unknown code in a success", Zones, 200, 4711, "something", Rejected),
            ("unknown code, not found", Zones, 404, 4711, "something", NotFound),
            ("unknown code of a server error", Zones, 503, 4711, "something", Failed),
        ];
        for (label, resource, status, code, message, expected) in cases {
            let response = response(*status, Some(*code), message);
            assert_eq!(classify(*resource, response.clone(), None), expected(response), "{label}");
        }
    }

    #[test]
    fn an_answer_without_a_code_is_sorted_by_its_status() {
        use Error::{Failed, Intercepted};
        let cases: &[(u16, Sorted)] = &[
            (200, Intercepted),
            (301, Intercepted),
            (400, Intercepted),
            (401, Intercepted),
            (403, Intercepted),
            (404, Intercepted),
            (405, Intercepted),
            (407, Intercepted),
            (408, Failed),
            (409, Intercepted),
            (413, Intercepted),
            (429, limited),
            (500, Failed),
            (502, Failed),
            (503, Failed),
            (520, Failed),
        ];
        for (status, expected) in cases {
            let response = response(*status, None, "");
            assert_eq!(
                classify(ApiResource::Records, response.clone(), None),
                expected(response),
                "HTTP {status}"
            );
        }
    }

    #[test]
    fn throttling_counts_wherever_in_the_chain_it_stands() {
        let mut response = response(400, Some(1004), "DNS Validation Error");
        response.chain = vec![Cause { code: Some(971), message: "Please wait".into() }];
        let retry_after = Duration::from_secs(7);
        let error = classify(ApiResource::Records, response, Some(retry_after));
        assert_eq!(error, Error::RateLimited { retry_after });
    }
}
