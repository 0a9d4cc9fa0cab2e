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
    /// What is missing, for the operator; `None` when nothing is.
    missing: Mutex<Option<Box<str>>>,
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
}

impl Default for Health {
    /// Nothing is known yet, so nothing is there.
    fn default() -> Self {
        Self { credentials: Latch::open("not verified yet"), tunnels: Latch::open("not seen yet") }
    }
}

impl Latch {
    fn open(why: &str) -> Self {
        Self { missing: Mutex::new(Some(why.into())) }
    }

    /// It is there.
    pub fn close(&self) {
        *self.lock() = None;
    }

    /// It is not there (any more), and why. The text is shown to whoever reaches the port: no secrets.
    pub fn reopen(&self, why: &str) {
        *self.lock() = Some(why.into());
    }

    /// Whether it is there.
    pub fn is_closed(&self) -> bool {
        self.lock().is_none()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<str>>> {
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
                let why = latch.lock().as_deref()?.to_owned();
                Some(Missing { what, why })
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
                r#"{"status":"not ready","missing":[{"what":"credentials","why":"not verified yet"},{"what":"tunnels","why":"not seen yet"}]}"#
                    .to_owned()
            )
        );
        health.credentials().close();
        health.tunnels().reopen("no tunnel is named \"shop\"");
        assert!(!health.is_ready());
        assert_eq!(
            body(&health, "/readyz"),
            (
                503,
                r#"{"status":"not ready","missing":[{"what":"tunnels","why":"no tunnel is named \"shop\""}]}"#
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
