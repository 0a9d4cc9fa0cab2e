//! ExternalDNS's side: one loop of its controller, in steps between which a world can go on.

use std::net::SocketAddr;

use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use test_support::external_dns::{
    Answer, Changes, Heard, MEDIA_TYPE, Reaction, Registry, SyncPolicy, exchange,
};

/// Why a loop ended before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// A soft error: ExternalDNS logs it, and goes on with its next loop.
    Soft(u16),
    /// What would end ExternalDNS.
    Fatal(String),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Controller {
    pub(crate) api: SocketAddr,
    pub(crate) registry: Registry,
    pub(crate) policy: SyncPolicy,
}

impl Controller {
    pub(crate) fn records(self) -> Result<Vec<Endpoint>, Failure> {
        let answer = self.call("GET", "/records", "", 200)?;
        serde_json::from_str(&answer.body).map_err(|error| Failure::Fatal(format!("records: {error}")))
    }

    pub(crate) fn adjust(self, desired: &[Endpoint]) -> Result<Vec<Endpoint>, Failure> {
        let body = serde_json::to_string(desired).expect("endpoints are plain data");
        let answer = self.call("POST", "/adjustendpoints", &body, 200)?;
        serde_json::from_str(&answer.body).map_err(|error| Failure::Fatal(format!("adjusted: {error}")))
    }

    /// What the planner, the registry and `--policy` make of both.
    pub(crate) fn plan(self, current: &[Endpoint], adjusted: &[Endpoint]) -> Changes {
        self.policy.allowed(self.registry.plan(current, adjusted))
    }

    pub(crate) fn apply(self, changes: &Changes) -> Result<(), Failure> {
        let body = serde_json::to_string(changes).expect("changes are plain data");
        self.call("POST", "/records", &body, 204).map(|_| ())
    }

    /// A whole loop.
    pub(crate) fn run_loop(self, desired: &[Endpoint]) -> Result<(), Failure> {
        let current = self.records()?;
        let changes = self.plan(&current, &self.adjust(desired)?);
        if changes == Changes::default() { Ok(()) } else { self.apply(&changes) }
    }

    fn call(self, method: &str, path: &str, body: &str, expected: u16) -> Result<Answer, Failure> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost:8888\r\nAccept: {MEDIA_TYPE}\r\nContent-Type: {MEDIA_TYPE}\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        // In one piece: of two the second would wait for the first one's acknowledgement.
        let answer = exchange(self.api, &[(head + body).as_bytes()])
            .map_err(|error| Failure::Fatal(format!("{method} {path}: no answer ({error})")))?;
        match Heard::Status(answer.status).reaction(expected) {
            Reaction::Done => Ok(answer),
            Reaction::Soft => Err(Failure::Soft(answer.status)),
            Reaction::Ends => Err(Failure::Fatal(format!("{method} {path}: {}", answer.status))),
        }
    }
}
