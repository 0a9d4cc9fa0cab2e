//! Turns a request into its answer, without sockets: it finds the route, decides if the request may be served, and asks
//! the service.
//!
//! ExternalDNS takes the statuses 500 to 510 for soft errors and asks again; any other error status ends its process.
//! So 4xx is only for callers that are not ExternalDNS. No route redirects, because Go's client would follow a redirect
//! with a GET and take its answer for the answer to the POST.

use std::io::{self, Write};

use serde::Deserialize;

use super::incoming::{Incoming, Shape};
use super::media_type::{self, Protocol};
use super::response::{OVER_CAP, Response, over_cap};
use super::{Failure, Interrupted, Service};
use crate::clock::Deadline;
use crate::labels::labels;
use crate::limits;
use crate::listener::path_of;
use crate::model::endpoint::Endpoint;

/// The largest answer to ExternalDNS. Above 32 MiB it stops reading, fails to parse, and exits.
const RESPONSE_BODY_MAX_BYTES: usize = 32 * 1024 * 1024;

/// The label of requests that ask for none of the operations.
pub const NO_OPERATION: &str = "other";

/// The part of a request that decides its route.
#[derive(Clone, Debug)]
pub struct Head<'a> {
    /// The method, as sent.
    pub method: &'a str,
    /// The request target, as sent.
    pub target: &'a str,
    /// Every value of `Accept`.
    pub accept: Vec<&'a str>,
    /// Every value of `Content-Type`.
    pub content_type: Vec<&'a str>,
    /// A browser sent it on behalf of a page.
    pub is_from_page: bool,
}

/// A request that may be served once its body is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    operation: Operation,
    protocol: Protocol,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Health,
    DomainFilter,
    Records,
    ApplyChanges,
    AdjustEndpoints,
    PropertyValuesEqual,
}

impl Operation {
    labels! {
        Self::Health => "GET /healthz",
        Self::DomainFilter => "GET /",
        Self::Records => "GET /records",
        Self::ApplyChanges => "POST /records",
        Self::AdjustEndpoints => "POST /adjustendpoints",
        Self::PropertyValuesEqual => "POST /propertyvaluesequal",
    }
}

/// The body of the older plugin protocol's `/propertyvaluesequal`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Values {
    name: Option<Box<str>>,
    previous: Option<Box<str>>,
    current: Option<Box<str>>,
}

/// Decides if a request may be served. `announced` is the length of its body in bytes, if the request gives one.
///
/// # Errors
/// The answer to send instead, without reading the body.
pub fn accept(head: &Head<'_>, announced: Option<usize>) -> Result<Accepted, Response> {
    let path = path_of(head.target);
    accept_at(path, head, announced).map_err(|answer| vary(path, answer))
}

/// The operations of a path by method, and its `Allow` value.
fn operations_of(path: &str) -> Option<(&'static [(&'static str, Operation)], &'static str)> {
    Some(match path {
        "/" => (&[("GET", Operation::DomainFilter)], "GET, HEAD"),
        "/records" => (&[("GET", Operation::Records), ("POST", Operation::ApplyChanges)], "GET, HEAD, POST"),
        "/adjustendpoints" => (&[("POST", Operation::AdjustEndpoints)], "POST"),
        // The draft's documents and its code disagree on the name.
        "/propertyvaluesequal" | "/propertyvaluesequals" => {
            (&[("POST", Operation::PropertyValuesEqual)], "POST")
        }
        "/healthz" => (&[("GET", Operation::Health)], "GET, HEAD"),
        _ => return None,
    })
}

fn find(operations: &[(&str, Operation)], method: &str) -> Option<Operation> {
    let method = if method == "HEAD" { "GET" } else { method };
    operations.iter().find(|(name, _)| *name == method).map(|(_, operation)| *operation)
}

/// The request's label in metrics: one of a few texts, whatever a client sends.
pub fn name(method: &str, target: &str) -> &'static str {
    let operation = operations_of(path_of(target)).and_then(|(operations, _)| find(operations, method));
    operation.as_ref().map_or(NO_OPERATION, Operation::label)
}

fn accept_at(path: &str, head: &Head<'_>, announced: Option<usize>) -> Result<Accepted, Response> {
    if head.is_from_page {
        return Err(Response::text(
            403,
            "a web page asks (Origin or Sec-Fetch-Site): this port is for ExternalDNS, and has no authentication",
        ));
    }
    let Some((operations, allow)) = operations_of(path) else {
        return Err(Response::text(404, "not found"));
    };
    let Some(operation) = find(operations, head.method) else {
        return Err(Response { allow: Some(allow), ..Response::text(405, "method not allowed") });
    };
    let content = media_type::of_content(&head.content_type);
    if announced.is_some_and(|length| length as u64 > limits::REQUEST_BODY_MAX_BYTES) {
        return Err(if content.is_some() { over_cap() } else { Response::text(413, OVER_CAP) });
    }
    if operation == Operation::Health {
        return Ok(Accepted { operation, protocol: Protocol::Webhook });
    }
    let preferred = match (head.method, content) {
        ("POST", None) => {
            return Err(Response::text(
                415,
                "unsupported media type: use application/external.dns.webhook+json;version=1",
            ));
        }
        (_, content) => content.unwrap_or(Protocol::Webhook),
    };
    let Some(protocol) = media_type::negotiate(&head.accept, preferred) else {
        return Err(Response::text(
            406,
            "not acceptable: the answer is application/external.dns.webhook+json;version=1",
        ));
    };
    Ok(Accepted { operation, protocol })
}

impl Accepted {
    /// The structure that the body must have; `None` if the request needs none.
    pub fn shape(self) -> Option<Shape> {
        match self.operation {
            Operation::Health | Operation::DomainFilter | Operation::Records => None,
            Operation::ApplyChanges => Some(Shape::Changes),
            Operation::AdjustEndpoints => Some(Shape::Endpoints),
            Operation::PropertyValuesEqual => Some(Shape::Object),
        }
    }

    /// Asks the service and renders its answer. `body` is only read if there is a [`shape`](Self::shape).
    pub fn answer(self, body: &mut Incoming<'_>, service: &dyn Service, deadline: Deadline) -> Response {
        let answer = match self.operation {
            Operation::Health => return Response::text(200, "ok"),
            Operation::DomainFilter => {
                let filter = service.domain_filter().into_string().into_bytes();
                return vary("/", Response::of_type(self.protocol, filter));
            }
            Operation::Records => return self.endpoints(service.records(deadline), None),
            Operation::AdjustEndpoints => {
                let adjusted = service.adjust_endpoints(body, deadline);
                self.endpoints(adjusted, Some(body))
            }
            Operation::ApplyChanges => match service.apply_changes(body, deadline) {
                Ok(()) => Response::empty(match self.protocol {
                    Protocol::Webhook => 204,
                    Protocol::Plugin => 200,
                }),
                Err(failure) => failure.into(),
            },
            Operation::PropertyValuesEqual => match body.whole::<Values>() {
                Ok(Values { name, previous, current }) => {
                    let equal = service.property_values_equal(
                        name.as_deref().unwrap_or_default(),
                        previous.as_deref().unwrap_or_default(),
                        current.as_deref().unwrap_or_default(),
                    );
                    Response::of_type(self.protocol, format!("{{\"equals\":{equal}}}").into_bytes())
                }
                Err(interrupted) => Failure::from(interrupted).into(),
            },
        };
        body.finish().unwrap_or(answer)
    }

    /// Memory for the answer is taken from the share of `incoming`.
    fn endpoints(
        self,
        result: Result<Vec<Endpoint>, Failure>,
        incoming: Option<&mut Incoming<'_>>,
    ) -> Response {
        /// A published hostname with its labels and a property or two.
        const TYPICAL_ENDPOINT_BYTES: usize = 360;

        let endpoints = match result {
            Ok(endpoints) => endpoints,
            Err(failure) => return failure.into(),
        };
        let bytes = Vec::with_capacity(2 + endpoints.len() * TYPICAL_ENDPOINT_BYTES);
        let mut body = Body { bytes, room: 0, incoming };
        match serde_json::to_writer(&mut body, &endpoints) {
            Ok(()) => Response::of_type(self.protocol, body.bytes),
            // If the memory ran out, the request's own failure is the answer.
            Err(error) => Failure::internal(error.to_string()).into(),
        }
    }
}

/// The buffer for an answer's body. serde_json writes a few bytes at a time, sixty times per endpoint, and musl's
/// `memcpy` takes as long for one byte as for a hundred: copying byte by byte takes a quarter of the time.
struct Body<'a, 'r> {
    bytes: Vec<u8>,
    /// The length up to which memory is taken already.
    room: usize,
    incoming: Option<&'a mut Incoming<'r>>,
}

impl Body<'_, '_> {
    fn grow(&mut self) -> io::Result<()> {
        /// Most writes need no look at the shared budget.
        const STEP_BYTES: usize = 64 * 1024;

        if self.room >= RESPONSE_BODY_MAX_BYTES {
            return Err(io::Error::other("the answer is larger than the 32 MiB that ExternalDNS reads"));
        }
        if let Some(incoming) = &mut self.incoming {
            incoming.keep(STEP_BYTES).map_err(|Interrupted| io::Error::other("no memory for the answer"))?;
        }
        self.room += STEP_BYTES;
        Ok(())
    }
}

impl Write for Body<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        while self.bytes.len() + bytes.len() > self.room {
            self.grow()?;
        }
        // The compiler would turn `extend` into a memcpy.
        for byte in bytes {
            self.bytes.push(*byte);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Adds `Vary` to the answer of `GET /`, which depends on these headers and is the only one that anybody caches.
fn vary(path: &str, answer: Response) -> Response {
    Response { vary: (path == "/").then_some("Accept, Content-Type"), ..answer }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use super::super::response::TEXT;
    use super::*;
    use crate::clock::{Clock, SystemClock};
    use crate::model::endpoint::Changes;
    use crate::webhook::budget::Budget;
    use crate::webhook::incoming::Arrived;

    const WEBHOOK: &str = "application/external.dns.webhook+json;version=1";
    const PLUGIN: &str = "application/external.dns.plugin+json;version=1";

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

    impl Service for Echo {
        fn domain_filter(&self) -> Box<str> {
            r#"{"include":["example.com"]}"#.into()
        }

        fn records(&self, _: Deadline) -> Result<Vec<Endpoint>, Failure> {
            self.result(Vec::new())
        }

        fn adjust_endpoints(&self, wanted: &mut Incoming<'_>, _: Deadline) -> Result<Vec<Endpoint>, Failure> {
            self.result(())?;
            let mut endpoints = Vec::new();
            while let Some(Arrived { endpoint, .. }) = wanted.next_endpoint()? {
                endpoints.push(endpoint);
            }
            Ok(endpoints)
        }

        fn apply_changes(&self, incoming: &mut Incoming<'_>, _: Deadline) -> Result<(), Failure> {
            self.result(())?;
            let mut changes = Changes::default();
            while let Some(Arrived { list, endpoint, .. }) = incoming.next_endpoint()? {
                changes.add(list, endpoint);
            }
            self.applied.lock().unwrap().push(changes);
            Ok(())
        }

        fn property_values_equal(&self, name: &str, previous: &str, current: &str) -> bool {
            name == "n" && previous == current
        }
    }

    fn head<'a>(method: &'a str, target: &'a str, accept: &'a str, content_type: &'a str) -> Head<'a> {
        let list = |value: &'a str| if value.is_empty() { vec![] } else { vec![value] };
        Head { method, target, accept: list(accept), content_type: list(content_type), is_from_page: false }
    }

    fn ask(service: &Echo, head: &Head<'_>, body: impl AsRef<[u8]>) -> Response {
        let deadline = Deadline::after(&SystemClock, Duration::from_secs(1));
        let mut source = body.as_ref();
        let length = source.len();
        let accepted = match accept(head, Some(length)) {
            Ok(accepted) => accepted,
            Err(answer) => return answer,
        };
        let shape = accepted.shape().unwrap_or(Shape::Object);
        let mut share = Budget::new(1 << 20, 0).share(SystemClock.now(), 0);
        let mut body = Incoming::new(&mut source, Some(length), shape, &mut share, deadline, &SystemClock);
        accepted.answer(&mut body, service, deadline)
    }

    fn text(answer: &Response) -> &str {
        std::str::from_utf8(&answer.body).expect("answers are text")
    }

    #[test]
    fn each_route_answers_with_its_status_and_media_type() {
        for (method, target, accept, content_type, body, status, answer_type, answer_body) in [
            ("GET", "/", WEBHOOK, "", "", 200, Some(WEBHOOK), r#"{"include":["example.com"]}"#),
            ("GET", "/", PLUGIN, "", "", 200, Some(PLUGIN), r#"{"include":["example.com"]}"#),
            ("GET", "/records", WEBHOOK, "", "", 200, Some(WEBHOOK), "[]"),
            ("GET", "/records", "", "", "", 200, Some(WEBHOOK), "[]"),
            ("POST", "/adjustendpoints", WEBHOOK, WEBHOOK, "[]\n", 200, Some(WEBHOOK), "[]"),
            ("POST", "/adjustendpoints", WEBHOOK, WEBHOOK, "null\n", 200, Some(WEBHOOK), "[]"),
            (
                "POST",
                "/adjustendpoints",
                PLUGIN,
                PLUGIN,
                r#"[{"dnsName":"a.example.com","targets":null}]"#,
                200,
                Some(PLUGIN),
                r#"[{"dnsName":"a.example.com"}]"#,
            ),
            ("POST", "/records", "", WEBHOOK, "{}", 204, None, ""),
            ("POST", "/records", "", PLUGIN, "{}", 200, None, ""),
            (
                "POST",
                "/propertyvaluesequal",
                "",
                PLUGIN,
                r#"{"name":"n","previous":"a","current":"a"}"#,
                200,
                Some(PLUGIN),
                r#"{"equals":true}"#,
            ),
            (
                "POST",
                "/propertyvaluesequals",
                WEBHOOK,
                WEBHOOK,
                r#"{"name":"n","previous":"a"}"#,
                200,
                Some(WEBHOOK),
                r#"{"equals":false}"#,
            ),
            ("GET", "/healthz", "text/html", "", "", 200, Some(TEXT), "ok\n"),
        ] {
            let answer = ask(&Echo::default(), &head(method, target, accept, content_type), body);
            let label = format!("{method} {target} {body}");
            assert_eq!(answer.status, status, "{label}");
            assert_eq!(answer.content_type, answer_type, "{label}");
            assert_eq!(text(&answer), answer_body, "{label}");
        }
    }

    #[test]
    fn what_cannot_be_served_is_refused_before_its_body_is_read() {
        let cap = usize::try_from(limits::REQUEST_BODY_MAX_BYTES).expect("64 bits");
        for (method, target, accept, content_type, length, status, allow) in [
            ("GET", "/nothing", WEBHOOK, "", 0, 404, None),
            ("GET", "/records/", WEBHOOK, "", 0, 404, None),
            ("GET", "//records", WEBHOOK, "", 0, 404, None),
            ("POST", "/applychanges", WEBHOOK, WEBHOOK, 2, 404, None),
            ("POST", "/", WEBHOOK, WEBHOOK, 2, 405, Some("GET, HEAD")),
            ("DELETE", "/records", WEBHOOK, WEBHOOK, 2, 405, Some("GET, HEAD, POST")),
            ("get", "/records", WEBHOOK, "", 0, 405, Some("GET, HEAD, POST")),
            ("OPTIONS", "/adjustendpoints", WEBHOOK, "", 0, 405, Some("POST")),
            ("HEAD", "/adjustendpoints", WEBHOOK, "", 0, 405, Some("POST")),
            ("GET", "/propertyvaluesequal", WEBHOOK, "", 0, 405, Some("POST")),
            ("POST", "/healthz", "", "", 0, 405, Some("GET, HEAD")),
            ("POST", "/records", WEBHOOK, "application/json", 2, 415, None),
            ("POST", "/records", WEBHOOK, "", 2, 415, None),
            ("GET", "/records", "text/html", "", 0, 406, None),
            ("POST", "/records", "text/html", WEBHOOK, 2, 406, None),
            ("POST", "/records", "", WEBHOOK, cap + 1, 503, None),
            ("POST", "/records", "", PLUGIN, cap + 1, 503, None),
            ("POST", "/records", "", "application/json", cap + 1, 413, None),
            ("GET", "/records", WEBHOOK, "", cap + 1, 413, None),
            ("GET", "/healthz", "", "", cap + 1, 413, None),
            ("POST", "/nothing", "", WEBHOOK, cap + 1, 404, None),
        ] {
            let label = format!("{method} {target} {accept} {content_type} {length}");
            let answer =
                super::accept(&head(method, target, accept, content_type), Some(length)).expect_err(&label);
            assert_eq!(answer.status, status, "{label}");
            assert_eq!(answer.allow, allow, "{label}");
            assert_eq!(answer.content_type, Some(TEXT), "{label}");
        }
        assert!(accept(&head("POST", "/records", "", WEBHOOK), Some(cap)).is_ok());
    }

    #[test]
    fn metrics_know_a_request_by_one_of_a_few_names() {
        for (method, target, expected) in [
            ("GET", "/", "GET /"),
            ("HEAD", "/records?a=b", "GET /records"),
            ("POST", "/records", "POST /records"),
            ("POST", "/adjustendpoints", "POST /adjustendpoints"),
            ("POST", "/propertyvaluesequals", "POST /propertyvaluesequal"),
            ("GET", "/healthz", "GET /healthz"),
            ("BREW", "/records", "other"),
            ("GET", "/records/secret.example.com", "other"),
        ] {
            assert_eq!(name(method, target), expected, "{method} {target}");
        }
    }

    #[test]
    fn only_the_root_varies_with_the_media_types_also_when_it_refuses() {
        let service = Echo::default();
        for (method, target, accept, expected) in [
            ("GET", "/", WEBHOOK, Some("Accept, Content-Type")),
            ("GET", "/", "text/html", Some("Accept, Content-Type")),
            ("GET", "/records", WEBHOOK, None),
            ("GET", "/healthz", "", None),
        ] {
            let answer = ask(&service, &head(method, target, accept, ""), "");
            assert_eq!(answer.vary, expected, "{method} {target} {accept}");
        }
    }

    #[test]
    fn malformed_json_is_400_and_reaches_nobody() {
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
            ("/records", r#"{"create":[{}],"Create":[{}]}"#),
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
            ("/propertyvaluesequal", "[1]"),
        ] {
            let answer = ask(&service, &head("POST", target, WEBHOOK, WEBHOOK), body);
            assert_eq!(answer.status, 400, "{target} {body}");
        }
        assert!(service.applied.lock().unwrap().is_empty());
    }

    #[test]
    fn text_that_is_not_utf_8_is_malformed() {
        let answer = ask(&Echo::default(), &head("POST", "/records", "", WEBHOOK), b"{\"\xff\":1}");
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
        let answer = ask(&Echo::default(), &head("POST", "/adjustendpoints", WEBHOOK, WEBHOOK), &body);
        assert_eq!(text(&answer), body);
    }

    #[test]
    fn a_failure_keeps_its_status_and_text() {
        for (failure, status) in
            [(Failure::unavailable("Cloudflare hangs"), 503), (Failure::internal("Cloudflare hangs"), 500)]
        {
            let service = Echo { failure: Some(failure), ..Echo::default() };
            for (method, target, body) in
                [("GET", "/records", ""), ("POST", "/records", "{}"), ("POST", "/adjustendpoints", "[]")]
            {
                let content_type = if method == "POST" { WEBHOOK } else { "" };
                let answer = ask(&service, &head(method, target, WEBHOOK, content_type), body);
                assert_eq!(answer.status, status, "{method} {target}");
                assert_eq!(text(&answer), "Cloudflare hangs\n", "{method} {target}");
            }
        }
    }

    #[test]
    fn an_answer_that_external_dns_could_not_read_is_a_failure() {
        let large = Endpoint { dns_name: "x".repeat(RESPONSE_BODY_MAX_BYTES), ..Endpoint::default() };
        let accepted = accept(&head("GET", "/records", WEBHOOK, ""), None).expect("a good head");
        assert_eq!(accepted.endpoints(Ok(vec![large]), None).status, 500);
    }
}
