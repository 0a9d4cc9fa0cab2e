//! Reads the envelope around every answer of the API: `{success, errors, messages, result, result_info}`.
//!
//! `success` decides, not the codes: a successful token verification has code 10000 among its messages. An answer
//! without an envelope, such as a proxy's HTML page, does not come from Cloudflare.

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::error::{Cause, Error, ErrorResponse};
use super::error_class::{ApiResource, classify};
use super::transport::{Response, TransportError, TransportErrorKind};
use crate::limits::ERROR_TEXT_MAX_CHARS;
use crate::model::json::null_is_default;
use crate::model::text::cut;

/// The most causes read from one answer, behind its first error. The last cause may have the decisive code.
const ERROR_CHAIN_MAX_CAUSES: usize = 20;

/// The paging of a list. Numbers are read as floating point, because the API's description declares some of them so.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct PageInfo {
    per_page: Option<f64>,
    total_pages: Option<f64>,
    /// The number of items on all pages.
    pub(super) total_count: Option<f64>,
}

impl PageInfo {
    /// True if page `page`, with `length` items of the `per_page` requested, was the last one. `total_count` is not
    /// used: it counts "without any search parameters", and tunnels have no `total_pages`.
    pub(super) fn is_last(self, page: u32, length: usize, per_page: u32) -> bool {
        // If the server returns smaller pages than requested, these count as full.
        let full_page = f64::from(per_page);
        let full_page = match self.per_page {
            Some(given) if given >= 1.0 => given.min(full_page),
            _ => full_page,
        };
        let is_short = (length as f64) < full_page;
        let total_reached = self.total_pages.is_some_and(|total| total >= 1.0 && f64::from(page) >= total);
        is_short || total_reached
    }
}

/// Parses the JSON of a result, `null` if there is none, into a type that only the caller knows. A generic parameter
/// would compile the code around it anew for each type.
pub(super) type Take<'a> = dyn FnMut(&str) -> serde_json::Result<()> + 'a;

#[derive(Deserialize)]
struct WireEnvelope<'a> {
    success: bool,
    #[serde(borrow)]
    errors: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "null_is_default")]
    result_info: PageInfo,
}

/// An item of `errors` or of `error_chain`. Its members may have any form.
#[derive(Deserialize)]
struct WireError<'a> {
    #[serde(borrow)]
    code: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    error_chain: Option<Vec<&'a RawValue>>,
}

/// Reads an answer. A failure may have a `result` of any shape; only its errors count.
pub(super) fn read(
    resource: ApiResource,
    response: &Response,
    take: &mut Take<'_>,
) -> Result<PageInfo, Error> {
    let is_success = (200..300).contains(&response.status);
    let envelope: WireEnvelope<'_> = match serde_json::from_slice(&response.body) {
        Ok(envelope) => envelope,
        // If the answer has no length, a connection that ends early looks like the end of the answer.
        Err(error) if is_success && error.is_eof() && !response.body.is_empty() => {
            return Err(Error::Unanswered(TransportError::new(
                TransportErrorKind::Disconnected,
                true,
                "the answer ends in the middle",
            )));
        }
        Err(_) => return Err(error_of(resource, response, &[])),
    };
    if !envelope.success || !is_success {
        return Err(error_of(resource, response, &envelope.errors.unwrap_or_default()));
    }
    let result = envelope.result.map_or("null", RawValue::get);
    take(result).map_err(|error| Error::Unreadable(cut(&error.to_string(), ERROR_TEXT_MAX_CHARS).into()))?;
    Ok(envelope.result_info)
}

fn error_of(resource: ApiResource, response: &Response, errors: &[&RawValue]) -> Error {
    let Response { status, retry_after, .. } = response;
    let mut causes = Vec::new();
    for problem in errors {
        collect(problem, &mut causes);
    }
    let mut causes = causes.into_iter();
    let none = match status {
        300..400 => "a redirect, which is not followed",
        _ => "not an answer of Cloudflare's API",
    };
    let first = causes.next();
    let Cause { code, message } = first.unwrap_or_else(|| Cause { code: None, message: none.into() });
    let (chain, permission) = (causes.collect(), resource.permission());
    let response = ErrorResponse { status: *status, code, message, chain, permission };
    let pause = retry_after.as_deref().and_then(parse_retry_after);
    classify(resource, response, pause)
}

/// Reads `Retry-After`, which Cloudflare gives in seconds. `None` if it has no usable value. The limiter bounds it.
fn parse_retry_after(value: &str) -> Option<Duration> {
    value.trim().parse().ok().map(Duration::from_secs)
}

/// Flattens an error and its chain; the error itself is first. An error is an object in the API's description, and a
/// plain string in some services. Each level of the recursion adds a cause, so the limit of causes bounds its depth.
fn collect(problem: &RawValue, causes: &mut Vec<Cause>) {
    if causes.len() > ERROR_CHAIN_MAX_CAUSES {
        return;
    }
    let WireError { code, message, error_chain } = serde_json::from_str(problem.get()).unwrap_or(WireError {
        code: None,
        message: Some(problem),
        error_chain: None,
    });
    let text = message.and_then(|message| serde_json::from_str::<Box<str>>(message.get()).ok());
    causes.push(Cause {
        code: code.and_then(|code| code.get().trim_matches(['"', ' ']).parse().ok()),
        message: text.map_or_else(|| "no message".into(), |text| cut(&text, ERROR_TEXT_MAX_CHARS).into()),
    });
    for cause in error_chain.into_iter().flatten() {
        collect(cause, causes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::ERROR_TEXT_MAX_CHARS;
    use crate::secret::Secret;

    const TOKEN: &str = "SeCrEt_ToKeN-0123456789";

    fn read(status: u16, body: &str) -> Result<Option<Vec<u32>>, Error> {
        Secret::parse(TOKEN).unwrap();
        let response = Response { status, body: body.into(), ..Response::default() };
        let mut result = None;
        super::read(ApiResource::Records, &response, &mut |json| {
            result = serde_json::from_str(json)?;
            Ok(())
        })?;
        Ok(result)
    }

    fn rejection_of(status: u16, body: &str) -> ErrorResponse {
        match read(status, body) {
            Err(Error::Rejected(response) | Error::Intercepted(response)) => response,
            other => panic!("{body} gave {other:?}"),
        }
    }

    /// Every successful token verification has code 10000 among its messages.
    #[test]
    fn success_decides_and_not_the_codes() {
        let body = r#"{"success":true,"errors":[],"messages":[{"code":10000,"message":"This API Token is valid and active"}],"result":[1]}"#;
        assert_eq!(read(200, body), Ok(Some(vec![1])));
        let body = r#"{"success":false,"errors":[{"code":1004,"message":"no"}],"result":[1]}"#;
        assert!(matches!(read(200, body), Err(Error::Rejected(_))));
    }

    #[test]
    fn a_success_may_lack_everything_else() {
        for body in [
            r#"{"success":true}"#,
            r#"{"success":true,"result":null}"#,
            r#"{"success":true,"errors":null,"messages":null,"result":null,"result_info":null}"#,
            r#"{"success":true,"errors":[],"messages":["a string","another"],"result":null,"new":{"a":[1]}}"#,
        ] {
            assert_eq!(read(200, body), Ok(None), "{body}");
        }
    }

    #[test]
    fn errors_are_read_in_every_shape_they_were_met_in() {
        for (errors, code, message) in [
            (r#"[{"code":1004,"message":"text"}]"#, Some(1004), "text"),
            (r#"[{"code":"1004","message":"text"}]"#, Some(1004), "text"),
            (r#"[{"code":null,"message":"text"}]"#, None, "text"),
            (r#"[{"code":-1,"message":"text"}]"#, None, "text"),
            (r#"[{"code":1004.5,"message":"text"}]"#, None, "text"),
            (r#"[{"message":"text"}]"#, None, "text"),
            (r#"[{"code":1004}]"#, Some(1004), "no message"),
            (r#"[{"code":1004,"message":{"en":"text"}}]"#, Some(1004), "no message"),
            (r#"[{"code":1004,"message":"text","error_chain":null}]"#, Some(1004), "text"),
            (r#"["text"]"#, None, "text"),
            (r#"[7]"#, None, "no message"),
            (r#"[]"#, None, "not an answer of Cloudflare's API"),
            (r#"null"#, None, "not an answer of Cloudflare's API"),
        ] {
            let response =
                rejection_of(400, &format!(r#"{{"success":false,"errors":{errors},"result":{{}}}}"#));
            assert_eq!((response.code, &*response.message), (code, message), "{errors}");
        }
    }

    /// From terraform-provider-cloudflare#3217.
    #[test]
    fn the_chain_of_an_error_and_further_errors_follow_it() {
        let response = rejection_of(
            400,
            r#"{"success":false,"errors":[
                {"code":1004,"message":"DNS Validation Error","error_chain":[{"code":9300,"message":"1 tags, exceeding the quota of 0."}]},
                {"code":81057,"message":"second"}
            ],"messages":[],"result":null}"#,
        );
        assert_eq!(response.codes().collect::<Vec<_>>(), [1004, 9300, 81057]);
    }

    /// The stack would end before the body does.
    #[test]
    fn a_chain_without_an_end_is_read_to_a_depth() {
        let deep = r#"{"code":1004,"error_chain":["#.repeat(10_000) + &"]}".repeat(10_000);
        let response = rejection_of(400, &format!(r#"{{"success":false,"errors":[{deep}]}}"#));
        assert_eq!((response.code, response.chain.len()), (Some(1004), ERROR_CHAIN_MAX_CAUSES));
    }

    #[test]
    fn texts_are_redacted_then_cut_and_causes_are_counted() {
        // The cut would fall into the token.
        let padding = "x".repeat(ERROR_TEXT_MAX_CHARS - 5);
        let response = rejection_of(
            400,
            &format!(r#"{{"success":false,"errors":[{{"code":1004,"message":"{padding}{TOKEN}"}}]}}"#),
        );
        assert!(response.message.ends_with("[reda…"), "{}", response.message);
        let many = vec![r#"{"message":"x"}"#; 100].join(",");
        let response = rejection_of(400, &format!(r#"{{"success":false,"errors":[{many}]}}"#));
        assert_eq!(response.chain.len(), ERROR_CHAIN_MAX_CAUSES);
    }

    #[test]
    fn what_is_no_envelope_is_not_what_cloudflare_said() {
        let html = "<html><body>502 Bad Gateway</body></html>";
        let mute = r#"{"success":false,"errors":[]}"#;
        for body in [html, "", "null", "[]", "\"text\"", "{}", r#"{"error":"x"}"#, mute] {
            assert!(matches!(read(502, body), Err(Error::Failed(_))), "{body}");
            for status in [200, 302, 400, 401, 403, 404, 405, 407, 413, 451] {
                assert!(matches!(read(status, body), Err(Error::Intercepted(_))), "{status} {body}");
            }
            assert!(
                matches!(read(429, body), Err(Error::RateLimited { retry_after }) if retry_after.as_secs() == 60),
                "{body}"
            );
        }
    }

    #[test]
    fn success_with_a_failing_status_is_a_failure() {
        assert!(matches!(read(500, r#"{"success":true,"result":[1]}"#), Err(Error::Failed(_))));
    }

    #[test]
    fn a_result_of_another_shape_is_unreadable_and_says_where() {
        let body = format!(r#"{{"success":true,"result":["{TOKEN}"]}}"#);
        let Err(Error::Unreadable(reason)) = read(200, &body) else {
            panic!("{body} was read");
        };
        assert!(reason.contains("line 1 column") && !reason.contains(TOKEN), "{reason}");
    }

    /// HTTP takes a cut answer without a length for a complete one.
    #[test]
    fn an_answer_that_ends_in_the_middle_is_a_lost_connection() {
        let error = read(200, r#"{"success":true,"result":[1,"#).unwrap_err();
        assert!(error.is_disconnect(), "{error}");
    }

    #[test]
    fn a_list_ends_with_a_short_page_or_the_last_of_all_pages() {
        let info = |text: &str| serde_json::from_str::<PageInfo>(text).unwrap();
        for (label, text, page, length, expected) in [
            ("nothing known, full", "{}", 1, 50, false),
            ("nothing known, short", "{}", 1, 49, true),
            ("nothing known, empty", "{}", 2, 0, true),
            ("first of two", r#"{"total_pages":2}"#, 1, 50, false),
            ("second of two", r#"{"total_pages":2}"#, 2, 50, true),
            ("fractions", r#"{"total_pages":2.0,"per_page":50.0}"#, 2, 50, true),
            ("zero pages", r#"{"total_pages":0}"#, 1, 50, false),
            ("total_count is not trusted", r#"{"total_count":50}"#, 1, 50, false),
            ("server makes smaller pages", r#"{"per_page":20}"#, 1, 20, false),
            ("server claims larger pages", r#"{"per_page":100}"#, 1, 50, false),
            ("null", r#"{"per_page":null,"total_pages":null}"#, 1, 50, false),
        ] {
            assert_eq!(info(text).is_last(page, length, 50), expected, "{label}");
        }
    }

    #[test]
    fn retry_after_is_read_as_seconds() {
        for (value, expected) in [
            ("0", Some(0)),
            (" 30 ", Some(30)),
            ("-1", None),
            ("1.5", None),
            ("", None),
            ("Wed, 21 Oct 2026 12:05:00 GMT", None),
        ] {
            assert_eq!(parse_retry_after(value), expected.map(Duration::from_secs), "{value:?}");
        }
    }
}
