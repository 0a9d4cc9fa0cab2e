//! ExternalDNS as far as a provider sees it: its planner, and one loop of its controller over HTTP. The planner, the
//! registries, what becomes of endpoints of several objects, and what an answer does are held to the real controller;
//! the rest has the real one's say in `tests/e2e`.

mod planner;
mod registry;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use external_dns_cloudflare_tunnel_webhook::model::endpoint::{self, Endpoint};
use serde::Serialize;

pub use self::planner::{SyncPolicy, plan};
pub use self::registry::{AppliedRecords, Registry, TXT, TXT_BELOW, TxtNames};

/// The media type of the protocol, to the byte.
pub const MEDIA_TYPE: &str = "application/external.dns.webhook+json;version=1";

/// What ExternalDNS gives a call before it gives up, and ends.
const PATIENCE: Duration = Duration::from_secs(15);

/// A controller with policy sync that talks to one webhook.
#[derive(Clone, Copy, Debug)]
pub struct ExternalDns {
    pub api: SocketAddr,
    pub registry: Registry,
}

/// `plan.Changes` of ExternalDNS, in the form in which it is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Changes {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub create: Vec<Endpoint>,
    /// Endpoints as `GET /records` showed them, each paired with one of `update_new`.
    #[serde(rename = "updateOld", skip_serializing_if = "Vec::is_empty")]
    pub update_old: Vec<Endpoint>,
    /// The same endpoints in their wanted form.
    #[serde(rename = "updateNew", skip_serializing_if = "Vec::is_empty")]
    pub update_new: Vec<Endpoint>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub delete: Vec<Endpoint>,
}

impl Changes {
    pub fn wanted(&self) -> impl Iterator<Item = &Endpoint> {
        self.create.iter().chain(&self.update_new)
    }

    /// What the program reads of them.
    pub fn read(&self) -> endpoint::Changes {
        endpoint::Changes { wanted: self.wanted().cloned().collect(), deleted: self.delete.clone() }
    }
}

/// What comes of a call to the webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    Status(u16),
    /// The right status, with a body that cannot be read.
    Garbage,
    /// The connection was closed.
    Nothing,
}

/// What it does to the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// The loop goes on.
    Done,
    /// A soft error: the loop is over, and another one follows.
    Soft,
    /// The process ends.
    Ends,
}

impl Heard {
    /// `provider/webhook/webhook.go` `isRetryableError`, and `controller/controller.go` `Run`.
    pub fn reaction(self, expected: u16) -> Reaction {
        match self {
            Self::Status(status) if status == expected => Reaction::Done,
            Self::Status(500..=510) => Reaction::Soft,
            Self::Status(_) | Self::Garbage | Self::Nothing => Reaction::Ends,
        }
    }
}

/// An answer of the webhook.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl ExternalDns {
    pub fn with_registry(self, registry: Registry) -> Self {
        Self { registry, ..self }
    }

    /// One loop: read, adjust, plan, and apply where there is something to apply. The error is the status of the first
    /// answer that is not a success.
    pub fn run_loop(self, desired: &[Endpoint]) -> Result<Changes, u16> {
        let current = self.records()?;
        let adjusted = self.adjust(desired)?;
        let changes = self.registry.plan(&current, &adjusted);
        if changes != Changes::default() {
            self.apply(&changes)?;
        }
        Ok(changes)
    }

    pub fn records(self) -> Result<Vec<Endpoint>, u16> {
        let answer = self.call("GET", "/records", "");
        expect_status(&answer, 200)?;
        Ok(serde_json::from_str(&answer.body).expect("a list of endpoints"))
    }

    pub fn adjust(self, desired: &[Endpoint]) -> Result<Vec<Endpoint>, u16> {
        let body = serde_json::to_string(desired).expect("endpoints are plain data");
        let answer = self.call("POST", "/adjustendpoints", &body);
        expect_status(&answer, 200)?;
        Ok(serde_json::from_str(&answer.body).expect("a list of endpoints"))
    }

    pub fn apply(self, changes: &Changes) -> Result<(), u16> {
        let body = serde_json::to_string(changes).expect("changes are plain data");
        expect_status(&self.call("POST", "/records", &body), 204)
    }

    /// Any call with the headers that ExternalDNS sends. No answer, or none in time, is a failure: it would end
    /// ExternalDNS.
    pub fn call(self, method: &str, path: &str, body: &str) -> Answer {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost:8888\r\nAccept: {MEDIA_TYPE}\r\nContent-Type: {MEDIA_TYPE}\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        exchange(self.api, &[head.as_bytes(), body.as_bytes()])
            .expect("the webhook answers every request in time")
    }
}

/// Sends bytes and reads one answer to its end.
pub fn exchange(address: SocketAddr, parts: &[&[u8]]) -> io::Result<Answer> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    for part in parts {
        stream.write_all(part)?;
    }
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    let status = head.get(9..12).and_then(|status| status.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    Ok(Answer { status, head: head.to_owned(), body: body.to_owned() })
}

fn expect_status(answer: &Answer, expected: u16) -> Result<(), u16> {
    if answer.status == expected { Ok(()) } else { Err(answer.status) }
}

#[cfg(test)]
mod tests;
