//! The routes of the metrics port.

use miniserde::{Serialize, json};

use super::readiness::{Readiness, SetupProblem};
use super::status::Status;
use crate::listener::Response;
use crate::model::text::percent_decoded;

const JSON: &str = "application/json";

/// The path that only a command of this program in the same pod may read.
pub const STATUS: &str = "/status";

const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(Serialize)]
struct NotReady {
    status: &'static str,
    why: String,
    remedy: &'static str,
}

/// The answer to `GET`; `None` for an unknown path. `metrics` is only called for the metrics' path.
pub fn route(path: &str, readiness: &Readiness, metrics: impl FnOnce() -> String) -> Option<Response> {
    match path {
        "/healthz" => Some(answer(200, JSON, r#"{"status":"ok"}"#.to_owned())),
        "/readyz" => Some(ready_answer(readiness.problem())),
        "/metrics" => Some(answer(200, METRICS_TYPE, metrics())),
        _ => None,
    }
}

/// The answer to the command `status`: about one hostname if the path names one, otherwise about everything.
pub fn status_route(path: &str, status: impl FnOnce(Option<&str>) -> Status) -> Option<Response> {
    let hostname = match path.strip_prefix(STATUS)? {
        "" => None,
        named => Some(percent_decoded(named.strip_prefix('/')?)?),
    };
    Some(answer(200, JSON, json::to_string(&status(hostname.as_deref()))))
}

fn ready_answer(problem: Option<SetupProblem>) -> Response {
    let Some(SetupProblem { why, remedy, .. }) = problem else {
        return answer(200, JSON, r#"{"status":"ready"}"#.to_owned());
    };
    answer(503, JSON, json::to_string(&NotReady { status: "not ready", why, remedy }))
}

fn answer(status: u16, content_type: &'static str, body: String) -> Response {
    Response { status, content_type, body: body.into_bytes() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(readiness: &Readiness, path: &str) -> (u16, String) {
        let answer =
            route(path, readiness, || panic!("the path asks for no metrics")).expect("a path of its own");
        assert_eq!(answer.content_type, JSON);
        (answer.status, String::from_utf8(answer.body).expect("JSON is UTF-8"))
    }

    #[test]
    fn readiness_says_what_is_missing_until_nothing_is() {
        let readiness = Readiness::default();
        let expected = r#"{"status":"not ready","why":"the token and the tunnels are not checked yet","remedy":"wait a moment"}"#;
        assert_eq!(body(&readiness, "/readyz"), (503, expected.to_owned()));
        let why = "no tunnel is named \"shop\"".to_owned();
        let missing = SetupProblem { why, remedy: "name another", is_permanent: true };
        assert!(readiness.set_problem(&missing));
        assert!(!readiness.set_problem(&missing), "that is no news");
        assert!(!readiness.is_ready());
        let expected =
            r#"{"status":"not ready","why":"no tunnel is named \"shop\"","remedy":"name another"}"#;
        assert_eq!(body(&readiness, "/readyz"), (503, expected.to_owned()));
        readiness.set_ready();
        assert!(readiness.is_ready());
        assert_eq!(body(&readiness, "/readyz"), (200, r#"{"status":"ready"}"#.to_owned()));
    }

    #[test]
    fn health_does_not_depend_on_readiness() {
        let readiness = Readiness::default();
        assert_eq!(body(&readiness, "/healthz"), (200, r#"{"status":"ok"}"#.to_owned()));
        assert_eq!(route("/", &readiness, String::new), None);
    }

    #[test]
    fn the_status_is_of_everything_or_of_the_hostname_that_the_path_names() {
        for (path, asked) in [
            ("/status", Some(None)),
            ("/status/a.example.com", Some(Some("a.example.com"))),
            ("/status/%2A.b%C3%BCcher.example%2F%0A", Some(Some("*.bücher.example/\n"))),
            ("/status/%ff", None),
            ("/statuses", None),
            ("/healthz", None),
        ] {
            let mut got = None;
            let answer = status_route(path, |hostname| {
                got = Some(hostname.map(str::to_owned));
                Status::default()
            });
            assert_eq!(got.as_ref().map(Option::as_deref), asked, "{path}");
            assert_eq!(answer.map(|answer| answer.status), asked.map(|_| 200), "{path}");
        }
    }

    #[test]
    fn metrics_are_prometheus_text() {
        let answer =
            route("/metrics", &Readiness::default(), || "up 1\n".to_owned()).expect("a path of its own");
        assert_eq!(answer, Response { status: 200, content_type: METRICS_TYPE, body: b"up 1\n".to_vec() });
    }
}
