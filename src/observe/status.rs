//! The document of `/status`, which the command `status` requests: its form, its limits, and the clients that get it.

use std::net::IpAddr;

use httparse::Header;
use miniserde::json;

use crate::limits;
use crate::model::text::{QUOTED_MAX_CHARS, one_line};
use crate::secret::redact;

/// The most rows of one document. The counts include the rows that are left out.
const ROWS_MAX: usize = 1_000;

/// The most bytes of all rows. Several answers may wait for slow readers at once, in a container of 64 MiB.
const ROWS_MAX_BYTES: usize = 512 * 1024;

/// What the process knows of the last loop of ExternalDNS. Times are in seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq, miniserde::Serialize, miniserde::Deserialize)]
pub struct Status {
    /// True if no row says that work is left: everything is published, written, without a service, left out or a note.
    pub ok: bool,
    /// When the last loop began; `None` before the first one.
    pub loop_began: Option<i64>,
    /// Hostnames that ExternalDNS wants to be published.
    pub wanted: usize,
    /// Wanted hostnames whose endpoints, when the last loop began, were all shown as ExternalDNS sends them.
    pub published: usize,
    /// Hostnames with a refusal in the last request that waits for no other step.
    pub refused: usize,
    /// Hostnames whose refusals all wait for another step, and hostnames that wait for the next request or were in no
    /// request.
    pub waiting: usize,
    /// Endpoints that were sent without a service and without `webhook/tunnel: "false"`.
    pub without_service: usize,
    pub rows: Vec<Row>,
    /// The number of rows that were left out.
    pub more: usize,
}

/// What is known of a hostname, or of one path of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, miniserde::Serialize, miniserde::Deserialize)]
pub struct Row {
    pub hostname: String,
    /// Empty for the rule without a path, or for the record alone; `None` for everything of the hostname without a row.
    pub path: Option<String>,
    /// The object that asks for the hostname.
    pub resource: Option<String>,
    /// The category of the reason, `published`, `written`, `next turn`, `dry run`, `left out`, `no service`,
    /// `not sent`, `not ready` or `note`.
    pub state: String,
    /// The word behind `refused=` in the log.
    pub refused: Option<String>,
    /// When the log first said this.
    pub since: Option<i64>,
    /// What is published, or the obstacle and the remedy.
    pub what: String,
}

impl Status {
    /// Adds rows while there is room, and counts the other rows in `more`. Each text is on one line and without a
    /// secret.
    pub fn fill(&mut self, rows: impl IntoIterator<Item = Row>) {
        let mut bytes = 0;
        let mut rows = rows.into_iter();
        for row in rows.by_ref() {
            let row = row.redacted();
            bytes += json::to_string(&row).len();
            if self.rows.len() == ROWS_MAX || bytes > ROWS_MAX_BYTES {
                self.more = 1 + rows.count();
                break;
            }
            self.rows.push(row);
        }
    }
}

impl Row {
    fn redacted(self) -> Self {
        let printable = |text: String| one_line(&redact(&text), limits::PROBLEM_MAX_CHARS).to_string();
        Self {
            hostname: printable(self.hostname),
            path: self.path.map(|path| one_line(&redact(&path), QUOTED_MAX_CHARS).to_string()),
            resource: self.resource.map(printable),
            what: printable(self.what),
            ..self
        }
    }
}

/// True if the peer is in the network namespace of this process: both addresses are loopback, or they are equal. A
/// service mesh's proxy in the pod connects from loopback to the pod's address, on behalf of other clients.
pub fn is_same_pod(peer: IpAddr, local: IpAddr) -> bool {
    let (peer, local) = (peer.to_canonical(), local.to_canonical());
    peer == local || (peer.is_loopback() && local.is_loopback())
}

/// True if a request has only the headers of the command. Browsers, `cloudflared` and other proxies reach this port
/// from loopback as well. They add headers of their own, whatever `Host` they send.
pub fn is_of_command(headers: &[Header<'_>]) -> bool {
    let is = |header: &&Header<'_>, name: &str| header.name.eq_ignore_ascii_case(name);
    let mut hosts = headers.iter().filter(|header| is(header, "Host")).map(|header| header.value);
    let is_local = hosts.next() == Some(HOST.as_bytes()) && hosts.next().is_none();
    is_local && headers.iter().all(|header| is(&header, "Host") || is(&header, "Connection"))
}

/// The `Host` header that the command sends, whatever address the command connects to.
pub const HOST: &str = "localhost";

#[cfg(test)]
mod tests {
    use super::*;

    fn row(what: String) -> Row {
        Row { hostname: "a.example.com".to_owned(), what, ..Row::default() }
    }

    #[test]
    fn rows_and_their_texts_are_bounded_and_the_rest_is_counted() {
        for (length, expected) in
            [(1, 1_000..=1_000), (300, 1_000..=1_000), (1_000, 400..=500), (100_000, 400..=500)]
        {
            let mut status = Status::default();
            status.fill((0..100_000).map(|_| row("x".repeat(length))));
            assert!(expected.contains(&status.rows.len()), "{length}: {}", status.rows.len());
            assert_eq!(status.more, 100_000 - status.rows.len());
            let length = json::to_string(&status).len();
            assert!(length < ROWS_MAX_BYTES + 2_000, "{length}");
        }
    }

    #[test]
    fn a_text_of_others_ends_no_line_and_moves_no_cursor() {
        let mut status = Status::default();
        let odd = || "a\n\u{1b}[2J\u{9b}\u{202e}".to_owned();
        let row = Row { hostname: odd(), path: Some(odd()), resource: Some(odd()), ..row(odd()) };
        status.fill([row]);
        let escaped = r"a\n\u{1b}[2J\u{9b}\u{202e}";
        let Row { hostname, path, resource, what, .. } = &status.rows[0];
        let texts = [Some(hostname), path.as_ref(), resource.as_ref(), Some(what)];
        assert_eq!(texts.map(|text| text.map(String::as_str)), [Some(escaped); 4]);
    }

    #[test]
    fn only_this_pod_s_own_peers_are_answered() {
        for (peer, local, expected) in [
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.5", true),
            ("127.0.0.6", "10.0.0.7", false),
            ("::1", "::1", true),
            ("::ffff:127.0.0.1", "::ffff:127.0.0.1", true),
            ("10.0.0.7", "10.0.0.7", true),
            ("::ffff:10.0.0.7", "10.0.0.7", true),
            ("fd00::7", "fd00::7", true),
            ("10.0.0.8", "10.0.0.7", false),
            ("::ffff:10.0.0.8", "::ffff:10.0.0.7", false),
            ("fd00::8", "fd00::7", false),
            ("0.0.0.0", "10.0.0.7", false),
        ] {
            let address = |text: &str| text.parse().expect("an address");
            assert_eq!(is_same_pod(address(peer), address(local)), expected, "{peer} to {local}");
        }
    }

    #[test]
    fn only_the_command_s_own_headers_are_answered() {
        let host = ("Host", "localhost");
        for (headers, expected) in [
            (&[host][..], true),
            (&[("host", "localhost"), ("Connection", "close")], true),
            (&[], false),
            (&[host, host], false),
            (&[("Host", "localhost:8080")], false),
            (&[("Host", "rebound.example.com")], false),
            (&[host, ("origin", "null")], false),
            (&[host, ("X-Forwarded-For", "192.0.2.1")], false),
            (&[host, ("SEC-FETCH-SITE", "none")], false),
        ] {
            let headers: Vec<Header<'_>> =
                headers.iter().map(|(name, value)| Header { name, value: value.as_bytes() }).collect();
            assert_eq!(is_of_command(&headers), expected, "{headers:?}");
        }
    }
}
