//! Turns a request into its answer, without sockets: it finds the route, decides if the request may be served, and asks
//! the handler.
//!
//! ExternalDNS takes the statuses 500 to 510 for soft errors and asks again; any other error status ends its process.
//! So 4xx is only for callers that are not ExternalDNS. No route redirects, because Go's client would follow a redirect
//! with a GET, and take the answer to the GET for the answer to the POST.

use std::io::{self, Write};

use log::Level;

use super::body::Body;
use super::{Failure, Handler};
use crate::clock::Deadline;
use crate::label_values::label_values;
use crate::limits;
use crate::listener::{Response, path_of};
use crate::model::endpoint::Endpoint;

/// The label of requests that ask for none of the operations.
pub const NO_ROUTE: &str = "other";

/// The media type that ExternalDNS sends and compares byte for byte. ExternalDNS accepts only this one, so `Accept` is
/// not read.
const MEDIA_TYPE: &str = "application/external.dns.webhook+json;version=1";

const TOO_LARGE: &str = "the answer is larger than ExternalDNS reads: let several pairs of ExternalDNS and \
    webhook share the hostnames (--domain-filter, DOMAIN_FILTER)";

/// The JSON of a published hostname with its labels and one or two properties.
const TYPICAL_ENDPOINT_BYTES: usize = 360;

/// The part of a request that decides its route.
#[derive(Clone, Debug)]
pub struct Head<'a> {
    /// The method, as sent.
    pub method: &'a str,
    /// The request target, as sent.
    pub target: &'a str,
    /// Every value of `Content-Type`.
    pub content_type: Vec<&'a str>,
    /// A browser sent the request on behalf of a web page.
    pub is_from_page: bool,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    Health,
    DomainFilter,
    Records,
    ApplyChanges,
    AdjustEndpoints,
}

impl Route {
    label_values! {
        Self::Health => "GET /healthz",
        Self::DomainFilter => "GET /",
        Self::Records => "GET /records",
        Self::ApplyChanges => "POST /records",
        Self::AdjustEndpoints => "POST /adjustendpoints",
    }

    /// True if the request needs its body.
    pub fn has_body(self) -> bool {
        match self {
            Self::Health | Self::DomainFilter | Self::Records => false,
            Self::ApplyChanges | Self::AdjustEndpoints => true,
        }
    }

    /// Asks the handler and renders its answer.
    ///
    /// # Errors
    /// The failure of the handler, or of writing its answer.
    pub fn answer(self, body: Body, handler: &dyn Handler, deadline: Deadline) -> Result<Response, Failure> {
        let body = match self {
            Self::Health => return Ok(Response::text(200, "ok")),
            Self::DomainFilter => handler.domain_filter().into_string().into_bytes(),
            Self::Records => {
                let endpoints = handler.records(deadline)?;
                let buffer = Vec::with_capacity(2 + endpoints.len() * TYPICAL_ENDPOINT_BYTES);
                json(&endpoints, buffer)?
            }
            Self::AdjustEndpoints => {
                let endpoints = handler.adjust_endpoints(&body, deadline)?;
                json(&endpoints, body.into_buffer())?
            }
            Self::ApplyChanges => {
                handler.apply_changes(body, deadline)?;
                return Ok(Response { status: 204, content_type: "", body: Vec::new() });
            }
        };
        Ok(Response { status: 200, content_type: MEDIA_TYPE, body })
    }
}

/// Decides if a request may be served.
///
/// # Errors
/// The failure to answer instead, without reading the body.
pub fn accept(head: &Head<'_>) -> Result<Route, Failure> {
    if head.is_from_page {
        return Err(Failure::new(
            403,
            "the request comes from a web page (Origin or Sec-Fetch-Site): this port serves only ExternalDNS",
        ));
    }
    let Some(route) = route(head.method, head.target) else {
        return Err(Failure::new(404, "nothing is served for this method and path"));
    };
    let is_ours = match *head.content_type {
        [value] => value.replace(' ', "").eq_ignore_ascii_case(MEDIA_TYPE),
        _ => false,
    };
    if route.has_body() && !is_ours {
        return Err(Failure::new(415, format!("unsupported media type: use {MEDIA_TYPE}")));
    }
    Ok(route)
}

/// The request's label in metrics: one of a few texts, whatever a client sends.
pub fn name(method: &str, target: &str) -> &'static str {
    route(method, target).as_ref().map_or(NO_ROUTE, Route::label_value)
}

fn route(method: &str, target: &str) -> Option<Route> {
    Some(match (method, path_of(target)) {
        ("GET", "/") => Route::DomainFilter,
        ("GET", "/records") => Route::Records,
        ("POST", "/records") => Route::ApplyChanges,
        ("POST", "/adjustendpoints") => Route::AdjustEndpoints,
        ("GET", "/healthz") => Route::Health,
        _ => return None,
    })
}

/// Endpoints in their JSON form, written into `buffer`.
fn json(endpoints: &[Endpoint], buffer: Vec<u8>) -> Result<Vec<u8>, Failure> {
    let mut buffer = Buffer(buffer);
    match serde_json::to_writer(&mut buffer, endpoints) {
        Ok(()) => Ok(buffer.0),
        Err(error) => Err(Failure::permanent(error.to_string()).logged(Level::Warn)),
    }
}

/// The buffer for an answer's body. serde_json writes a few bytes at a time, sixty times per endpoint, and musl's
/// `memcpy` takes as long for one byte as for a hundred: copying byte by byte takes a quarter of the time.
struct Buffer(Vec<u8>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > limits::WEBHOOK_RESPONSE_MAX_BYTES {
            return Err(io::Error::other(TOO_LARGE));
        }
        // The compiler would turn `extend` into a memcpy.
        for byte in bytes {
            self.0.push(*byte);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use super::{MEDIA_TYPE as WEBHOOK, *};
    use crate::clock::SystemClock;
    use crate::model::endpoint::Changes;

    const TEXT: &str = "text/plain; charset=utf-8";

    /// Returns what it is asked.
    #[derive(Default)]
    struct Echo {
        applied: Mutex<Vec<Changes>>,
        failure: Option<Failure>,
    }

    impl Echo {
        fn result<T>(&self, value: T) -> Result<T, Failure> {
            self.failure.clone().map_or(Ok(value), Err)
        }
    }

    impl Handler for Echo {
        fn domain_filter(&self) -> Box<str> {
            r#"{"include":["example.com"]}"#.into()
        }

        fn records(&self, _: Deadline) -> Result<Vec<Endpoint>, Failure> {
            self.result(Vec::new())
        }

        fn adjust_endpoints(&self, wanted: &Body, _: Deadline) -> Result<Vec<Endpoint>, Failure> {
            let mut endpoints = Vec::new();
            wanted.for_each_wanted(&mut |arrived| endpoints.push(arrived.endpoint))?;
            self.result(endpoints)
        }

        fn apply_changes(&self, body: Body, _: Deadline) -> Result<(), Failure> {
            let mut changes = Changes::default();
            let lists = body.changes()?;
            lists.for_each_wanted(&mut |received| changes.wanted.push(received.endpoint))?;
            lists.for_each_deleted(&mut |received| changes.deleted.push(received.endpoint))?;
            self.result(())?;
            self.applied.lock().unwrap().push(changes);
            Ok(())
        }
    }

    fn head<'a>(method: &'a str, target: &'a str, content_type: &'a str) -> Head<'a> {
        let content_type = if content_type.is_empty() { vec![] } else { vec![content_type] };
        Head { method, target, content_type, is_from_page: false }
    }

    fn ask(service: &Echo, head: &Head<'_>, body: impl Into<Vec<u8>>) -> Response {
        let deadline = Deadline::after(&SystemClock, Duration::from_secs(1));
        let answer = || accept(head)?.answer(Body::new(body.into())?, service, deadline);
        answer().unwrap_or_else(|failure| Response::text(failure.status, &failure.text))
    }

    fn text(answer: &Response) -> &str {
        std::str::from_utf8(&answer.body).expect("answers are text")
    }

    #[test]
    fn each_route_answers_with_its_status_and_media_type() {
        for (method, target, content_type, body, status, answer_type, answer_body) in [
            ("GET", "/", "", "", 200, WEBHOOK, r#"{"include":["example.com"]}"#),
            ("GET", "/records", "", "", 200, WEBHOOK, "[]"),
            ("POST", "/adjustendpoints", WEBHOOK, "[]\n", 200, WEBHOOK, "[]"),
            ("POST", "/adjustendpoints", WEBHOOK, "null\n", 200, WEBHOOK, "[]"),
            (
                "POST",
                "/adjustendpoints",
                "Application/External.DNS.Webhook+JSON; version=1",
                r#"[{"dnsName":"a.example.com","targets":null}]"#,
                200,
                WEBHOOK,
                r#"[{"dnsName":"a.example.com"}]"#,
            ),
            ("POST", "/records", WEBHOOK, "{}", 204, "", ""),
            ("GET", "/healthz", "", "", 200, TEXT, "ok\n"),
        ] {
            let answer = ask(&Echo::default(), &head(method, target, content_type), body);
            let label = format!("{method} {target} {body}");
            assert_eq!(answer.status, status, "{label}");
            assert_eq!(answer.content_type, answer_type, "{label}");
            assert_eq!(text(&answer), answer_body, "{label}");
        }
    }

    #[test]
    fn what_external_dns_never_sends_is_refused_before_its_body_is_read() {
        for (method, target, content_type, status) in [
            ("GET", "/nothing", "", 404),
            ("GET", "/records/", "", 404),
            ("POST", "/", WEBHOOK, 404),
            ("DELETE", "/records", WEBHOOK, 404),
            ("HEAD", "/records", "", 404),
            ("get", "/records", "", 404),
            ("POST", "/records", "application/json", 415),
            ("POST", "/records", "application/external.dns.webhook+json;version=2", 415),
            ("POST", "/records", "", 415),
        ] {
            let label = format!("{method} {target} {content_type}");
            let failure = accept(&head(method, target, content_type)).expect_err(&label);
            assert_eq!(failure.status, status, "{label}");
        }
        let twice = Head { content_type: vec![WEBHOOK, WEBHOOK], ..head("POST", "/records", "") };
        assert_eq!(accept(&twice).map_err(|failure| failure.status), Err(415));
    }

    #[test]
    fn metrics_know_a_request_by_one_of_a_few_names() {
        for (method, target, expected) in [
            ("GET", "/", "GET /"),
            ("GET", "/records?a=b", "GET /records"),
            ("POST", "/records", "POST /records"),
            ("POST", "/adjustendpoints", "POST /adjustendpoints"),
            ("GET", "/healthz", "GET /healthz"),
            ("BREW", "/records", "other"),
            ("GET", "/records/secret.example.com", "other"),
        ] {
            assert_eq!(name(method, target), expected, "{method} {target}");
        }
    }

    #[test]
    fn malformed_json_is_400_and_does_not_reach_the_service() {
        let service = Echo::default();
        for (target, body) in [
            ("/records", ""),
            ("/records", "{"),
            ("/records", "[]"),
            ("/records", "{} x"),
            ("/records", r#"{"create":[null]}"#),
            ("/records", r#"{"create":[{"recordTTL":"60"}]}"#),
            ("/records", r#"{"create":[{}{}]}"#),
            ("/records", r#"{"create":[{},]}"#),
            ("/records", r#"{"create":[,{}]}"#),
            ("/records", r#"{"create":[[]]}"#),
            ("/records", r#"{"create":[{}]"#),
            ("/records", r#"{"create":[{}],}"#),
            ("/records", r#"{"create":[{}]"delete":[]}"#),
            ("/records", r#"{"create":nul}"#),
            ("/records", r#"{"create":{}}"#),
            ("/records", r#"{"create" []}"#),
            ("/records", r#"{create:[]}"#),
            ("/records", r#"{"new":[}}"#),
            ("/records", r#"{"create":[{}]}]"#),
            ("/adjustendpoints", "{}"),
            ("/adjustendpoints", "[{}] []"),
            ("/adjustendpoints", "[{}"),
            ("/adjustendpoints", "[{},"),
            ("/adjustendpoints", "nul"),
            ("/adjustendpoints", "null null"),
            ("/adjustendpoints", "[1]"),
            ("/adjustendpoints", r#"["x"]"#),
            ("/adjustendpoints", "\u{feff}[]"),
        ] {
            let answer = ask(&service, &head("POST", target, WEBHOOK), body);
            assert_eq!(answer.status, 400, "{target} {body}");
        }
        assert!(service.applied.lock().unwrap().is_empty());
    }

    #[test]
    fn text_that_is_not_utf_8_is_malformed() {
        let answer = ask(&Echo::default(), &head("POST", "/records", WEBHOOK), b"{\"\xff\":1}");
        assert_eq!(answer.status, 400);
    }

    /// serde_json writes in pieces, which must arrive complete, escapes included.
    #[test]
    fn endpoints_are_written_as_they_were_read() {
        let long = "long ".repeat(100);
        let body = [
            r#"[{"dnsName":"a.example.com","targets":["\"\\\b\f\n\r\t\u0001 é 🦀"],"recordType":"CNAME","#,
            r#""setIdentifier":"^/$","recordTTL":-1,"labels":{"resource":""#,
            &*long,
            r#""},"providerSpecific":[{"name":"x"}]},{}]"#,
        ]
        .concat();
        let answer = ask(&Echo::default(), &head("POST", "/adjustendpoints", WEBHOOK), &*body);
        assert_eq!(text(&answer), body);
    }

    #[test]
    fn a_failure_keeps_its_status_and_text() {
        for (failure, status) in
            [(Failure::unavailable("Cloudflare hangs"), 503), (Failure::permanent("Cloudflare hangs"), 500)]
        {
            let service = Echo { failure: Some(failure), ..Echo::default() };
            for (method, target, body) in
                [("GET", "/records", ""), ("POST", "/records", "{}"), ("POST", "/adjustendpoints", "[]")]
            {
                let content_type = if method == "POST" { WEBHOOK } else { "" };
                let answer = ask(&service, &head(method, target, content_type), body);
                assert_eq!(answer.status, status, "{method} {target}");
                assert_eq!(text(&answer), "Cloudflare hangs\n", "{method} {target}");
            }
        }
    }

    #[test]
    fn an_answer_that_external_dns_could_not_read_is_a_failure() {
        let large =
            Endpoint { dns_name: "x".repeat(limits::WEBHOOK_RESPONSE_MAX_BYTES), ..Endpoint::default() };
        assert_eq!(json(&[large], Vec::new()).map_err(|failure| failure.status), Err(500));
    }
}
