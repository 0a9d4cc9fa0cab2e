//! No log line shows a credential, not even one of the libraries that the client is made of.
//!
//! At the level of traces this cannot be had: ureq-proto dumps the bytes of every request there, headers included. The
//! program's logger must not let the traces of libraries through.

use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;

use external_dns_cloudflare_tunnel_webhook::clock::{Deadline, SystemClock};
use external_dns_cloudflare_tunnel_webhook::cloudflare::{Batch, Credentials};
use external_dns_cloudflare_tunnel_webhook::logging;
use external_dns_cloudflare_tunnel_webhook::model::{RecordId, ZoneId};
use external_dns_cloudflare_tunnel_webhook::secret::Secret;

use crate::server::{EMPTY_LIST, Server, TOKEN, Then, answer, client_with};

/// Lines with the token in them, whichever test of this process made them.
static LEAKS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The client's own lines about this test's zone.
static CALLS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// What was said of files of credentials, whichever test's.
static FILES: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Recorder;

impl log::Log for Recorder {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let line = format!("{} {}", record.target(), logging::line_of(record));
        let list = if line.contains(TOKEN) {
            &LEAKS
        } else if line.contains("credentials file") {
            &FILES
        } else if line.contains("call to Cloudflare's API") && line.contains("path=/zones/logged/") {
            &CALLS
        } else {
            return;
        };
        list.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    fn flush(&self) {}
}

/// Records from now on.
pub(crate) fn record() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| log::set_logger(&Recorder).unwrap());
    log::set_max_level(log::LevelFilter::Debug);
}

/// What was said of a file of credentials.
pub(crate) fn said_of(path: &str) -> Vec<String> {
    let lines = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    lines.iter().filter(|line| line.contains(path)).cloned().collect()
}

#[test]
fn no_log_line_shows_a_credential_and_every_call_has_one() {
    record();
    let server = Server::start(|number, stream| {
        let echo = format!(r#"{{"success":false,"errors":[{{"code":1004,"message":"{TOKEN}"}}]}}"#);
        match number % 3 {
            0 => answer(stream, 200, "", EMPTY_LIST),
            1 => answer(stream, 400, &format!("X-Echo: {TOKEN}\r\n"), &echo),
            _ => return Then::Close,
        }
        Then::Keep
    });
    let key = Secret::parse(TOKEN).unwrap();
    let pair = Credentials { secret: key.clone(), email: Some("ops@example.com".into()) };
    for credentials in [Credentials { secret: key, email: None }, pair] {
        let client = client_with(&format!("http://{}", server.address), credentials);
        let deadline = Deadline::after(&SystemClock, Duration::from_secs(5));
        let batch = Batch { deletes: vec![RecordId::new("r1")], ..Batch::default() };
        for _ in 0..3 {
            let _ = client.records(&ZoneId::new("logged"), deadline);
            let _ = client.batch(&ZoneId::new("logged"), &batch, deadline);
        }
    }
    assert_eq!(*LEAKS.lock().unwrap(), Vec::<String>::new());
    let calls = CALLS.lock().unwrap();
    assert_eq!(calls.len(), server.requests().len(), "{calls:?}");
    assert!(
        calls[0].contains("method=GET path=/zones/logged/dns_records status=200 milliseconds="),
        "{}",
        calls[0]
    );
}
