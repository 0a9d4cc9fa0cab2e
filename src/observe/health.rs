//! What `/healthz` and `/readyz` say.

use std::sync::{Mutex, MutexGuard, PoisonError};

use miniserde::{Serialize, json};

use super::responder::Answer;

const JSON: &str = "application/json";

/// What has to be there before the program can serve. Shared between who finds out and who answers probes.
#[derive(Debug)]
pub struct Health {
    credentials: Latch,
    tunnels: Latch,
}

/// One thing that has to be there.
#[derive(Debug)]
pub struct Latch {
    /// Why it is not there, for the operator; `None` when it is.
    missing: Mutex<Option<Reason>>,
}

#[derive(Debug)]
struct Reason {
    why: Box<str>,
    remedy: &'static str,
}

#[derive(Serialize)]
struct Status {
    status: &'static str,
}

#[derive(Serialize)]
struct NotReady {
    status: &'static str,
    missing: Vec<Missing>,
}

#[derive(Serialize)]
struct Missing {
    what: &'static str,
    why: String,
    remedy: &'static str,
}

impl Default for Health {
    /// Nothing is known yet, so nothing is there.
    fn default() -> Self {
        let remedy = "wait a moment";
        let latch = |why: &str| Latch { missing: Mutex::new(Some(Reason { why: why.into(), remedy })) };
        Self { credentials: latch("not verified yet"), tunnels: latch("not seen yet") }
    }
}

impl Latch {
    /// It is there.
    pub fn close(&self) {
        *self.lock() = None;
    }

    /// It is not there (any more), why, and what to do. The text is shown to whoever reaches the port: no secrets. True
    /// when that is news.
    pub fn reopen(&self, why: &str, remedy: &'static str) -> bool {
        let before = self.lock().replace(Reason { why: why.into(), remedy });
        before.is_none_or(|before| *before.why != *why)
    }

    /// Whether it is there.
    pub fn is_closed(&self) -> bool {
        self.lock().is_none()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Reason>> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Health {
    /// Cloudflare took the credentials.
    pub fn credentials(&self) -> &Latch {
        &self.credentials
    }

    /// Every configured tunnel was found.
    pub fn tunnels(&self) -> &Latch {
        &self.tunnels
    }

    /// Whether everything is there.
    pub fn is_ready(&self) -> bool {
        let Self { credentials, tunnels } = self;
        credentials.is_closed() && tunnels.is_closed()
    }

    /// The answer to a probe, `None` for a path that is none of its own.
    pub fn route(&self, path: &str) -> Option<Answer> {
        match path {
            "/healthz" => Some(answer(200, json::to_string(&Status { status: "ok" }))),
            "/readyz" => Some(self.readiness()),
            _ => None,
        }
    }

    fn readiness(&self) -> Answer {
        let Self { credentials, tunnels } = self;
        let missing: Vec<Missing> = [("credentials", credentials), ("tunnels", tunnels)]
            .into_iter()
            .filter_map(|(what, latch)| {
                let missing = latch.lock();
                let Reason { why, remedy } = missing.as_ref()?;
                Some(Missing { what, why: why.to_string(), remedy })
            })
            .collect();
        if missing.is_empty() {
            return answer(200, json::to_string(&Status { status: "ready" }));
        }
        let body = NotReady { status: "not ready", missing };
        answer(503, json::to_string(&body))
    }
}

fn answer(status: u16, body: String) -> Answer {
    Answer { status, content_type: JSON, body: body.into_bytes() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(health: &Health, path: &str) -> (u16, String) {
        let answer = health.route(path).expect("a path of its own");
        assert_eq!(answer.content_type, JSON);
        (answer.status, String::from_utf8(answer.body).expect("JSON is UTF-8"))
    }

    #[test]
    fn readiness_says_what_is_missing_until_nothing_is() {
        let health = Health::default();
        assert_eq!(
            body(&health, "/readyz"),
            (
                503,
                r#"{"status":"not ready","missing":[{"what":"credentials","why":"not verified yet","remedy":"wait a moment"},{"what":"tunnels","why":"not seen yet","remedy":"wait a moment"}]}"#
                    .to_owned()
            )
        );
        health.credentials().close();
        assert!(health.tunnels().reopen("no tunnel is named \"shop\"", "name another"));
        assert!(!health.tunnels().reopen("no tunnel is named \"shop\"", "name another"), "that is no news");
        assert!(!health.is_ready());
        assert_eq!(
            body(&health, "/readyz"),
            (
                503,
                r#"{"status":"not ready","missing":[{"what":"tunnels","why":"no tunnel is named \"shop\"","remedy":"name another"}]}"#
                    .to_owned()
            )
        );
        health.tunnels().close();
        assert!(health.is_ready());
        assert_eq!(body(&health, "/readyz"), (200, r#"{"status":"ready"}"#.to_owned()));
    }

    #[test]
    fn health_does_not_depend_on_readiness() {
        let health = Health::default();
        assert_eq!(body(&health, "/healthz"), (200, r#"{"status":"ok"}"#.to_owned()));
        assert_eq!(health.route("/metrics"), None);
        assert_eq!(health.route("/"), None);
    }
}
