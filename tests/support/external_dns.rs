//! ExternalDNS as far as a provider sees it: its planner, and one loop of its controller over HTTP. The real one has its
//! say in `tests/e2e`.

#![allow(dead_code, reason = "every test takes what it needs")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use external_dns_cloudflare_tunnel_webhook::endpoint::{Changes, Endpoint};

/// The media type of the protocol, to the byte.
pub(crate) const MEDIA_TYPE: &str = "application/external.dns.webhook+json;version=1";

/// What ExternalDNS gives a call before it gives up, and ends.
const PATIENCE: Duration = Duration::from_secs(15);

/// A controller with policy sync that talks to one webhook.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExternalDns {
    pub(crate) api: SocketAddr,
}

/// An answer of the webhook.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl ExternalDns {
    /// One loop: read, adjust, plan, and apply where there is something to apply. The error is the status of the first
    /// answer that is not a success.
    pub(crate) fn run_loop(self, desired: &[Endpoint]) -> Result<Changes, u16> {
        self.run_loop_without(desired, "")
    }

    /// The same with a flag that keeps `swallowed` out of what is planned.
    pub(crate) fn run_loop_without(self, desired: &[Endpoint], swallowed: &str) -> Result<Changes, u16> {
        let current = self.records()?;
        let mut adjusted = self.adjust(desired)?;
        adjusted.retain(|endpoint| endpoint.dns_name != swallowed);
        let changes = plan(&current, &adjusted);
        if changes != Changes::default() {
            self.apply(&changes)?;
        }
        Ok(changes)
    }

    pub(crate) fn records(self) -> Result<Vec<Endpoint>, u16> {
        let answer = self.call("GET", "/records", "");
        expect_status(&answer, 200)?;
        Ok(serde_json::from_str(&answer.body).expect("a list of endpoints"))
    }

    pub(crate) fn adjust(self, desired: &[Endpoint]) -> Result<Vec<Endpoint>, u16> {
        let body = serde_json::to_string(desired).expect("endpoints are plain data");
        let answer = self.call("POST", "/adjustendpoints", &body);
        expect_status(&answer, 200)?;
        Ok(serde_json::from_str(&answer.body).expect("a list of endpoints"))
    }

    pub(crate) fn apply(self, changes: &Changes) -> Result<(), u16> {
        let body = serde_json::to_string(changes).expect("changes are plain data");
        expect_status(&self.call("POST", "/records", &body), 204)
    }

    /// Any call with the headers that ExternalDNS sends. No answer, or none in time, is a failure: it would end
    /// ExternalDNS.
    pub(crate) fn call(self, method: &str, path: &str, body: &str) -> Answer {
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
pub(crate) fn exchange(address: SocketAddr, parts: &[&[u8]]) -> io::Result<Answer> {
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

/// ExternalDNS's planner with policy sync, as `plan/plan.go` has it: rows by name and set identifier, one candidate
/// each, updates where target or properties differ, owner filter.
pub(crate) fn plan(current: &[Endpoint], desired: &[Endpoint]) -> Changes {
    type Rows<'a> = BTreeMap<(String, String), Vec<&'a Endpoint>>;
    fn rows(endpoints: &[Endpoint]) -> Rows<'_> {
        let mut rows = Rows::new();
        for endpoint in endpoints {
            rows.entry((endpoint.dns_name.clone(), endpoint.set_identifier.clone()))
                .or_default()
                .push(endpoint);
        }
        rows
    }
    let (current, desired) = (rows(current), rows(desired));
    let mut changes = Changes::default();
    let keys: BTreeSet<_> = current.keys().chain(desired.keys()).collect();
    for key in keys {
        let present = current.get(key).map(Vec::as_slice).unwrap_or_default();
        let candidates = desired.get(key).map(Vec::as_slice).unwrap_or_default();
        let same = present.iter().find(|endpoint| endpoint.record_type == "CNAME");
        let resource = same.and_then(|endpoint| endpoint.labels.value("resource"));
        let chosen = candidates
            .iter()
            .find(|candidate| resource.is_some() && candidate.labels.value("resource") == resource)
            .or_else(|| candidates.iter().min_by_key(|candidate| &candidate.targets));
        let owned = |endpoint: &Endpoint| {
            let mut endpoint = endpoint.clone();
            endpoint.labels.set("owner", "default");
            endpoint
        };
        match (same, chosen) {
            (Some(same), Some(chosen)) => {
                let properties: BTreeSet<_> = same.provider_specific.iter().collect();
                let wanted: BTreeSet<_> = chosen.provider_specific.iter().collect();
                if same.targets != chosen.targets || properties != wanted {
                    changes.update_old.push((*same).clone());
                    changes.update_new.push(owned(chosen));
                }
            }
            (None, Some(chosen)) => {
                changes.create.push(owned(chosen));
            }
            (Some(_) | None, None) => {}
        }
        for endpoint in present {
            if chosen.is_none() || endpoint.record_type != "CNAME" {
                changes.delete.push((*endpoint).clone());
            }
        }
    }
    changes
}
