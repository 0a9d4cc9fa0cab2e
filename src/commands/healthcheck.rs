//! `healthcheck`: asks a running instance on this machine if it is alive, for images that hold no other program.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::listener::reached;
use crate::model::text::quoted;
use crate::observe::status::HOST;

/// Each wait of `healthcheck`. Container runtimes give up after a few seconds, and loopback answers at once.
const HEALTHCHECK_TIMEOUT: Duration = Duration::from_millis(1500);

/// The most bytes of an answer that are read. No answer is this large.
const STATUS_RESPONSE_MAX_BYTES: u64 = 4 * 1024 * 1024;

/// Asks `/healthz`.
pub fn healthcheck(address: SocketAddr) -> Result<(), String> {
    ask(address, "/healthz", HEALTHCHECK_TIMEOUT).map(drop)
}

/// Requests `path` from the metrics port at `address`. Returns the whole answer if its status is 200.
pub(super) fn ask(address: SocketAddr, path: &str, timeout: Duration) -> Result<String, String> {
    if address.port() == 0 {
        return Err("METRICS_PORT is 0, so the port is unknown".to_owned());
    }
    let address = reached(address);
    answer(address, path, timeout).map_err(|error| match error.kind() {
        // On Linux a socket's time-out is reported as `WouldBlock`.
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("{address}: no answer within {} ms", timeout.as_millis())
        }
        _ => format!("{address}: {error}; METRICS_HOST and METRICS_PORT have to be those of the instance"),
    })
}

fn answer(address: SocketAddr, path: &str, timeout: Duration) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_write_timeout(Some(timeout))?;
    stream.set_read_timeout(Some(timeout))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(STATUS_RESPONSE_MAX_BYTES).read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    if answer.starts_with("HTTP/1.1 200") {
        return Ok(answer);
    }
    let line = answer.lines().next().unwrap_or_default().trim_end();
    Err(io::Error::other(format!("answered {} to {path}", quoted(line))))
}
