//! `healthcheck`: asks a running instance on this machine if it is alive, for images that hold no other program.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use crate::clock::{Clock, Deadline};
use crate::limits;
use crate::model::text::quoted;
use crate::observe::status::HOST;

/// The part of an answer that is read: more than the largest one has.
const ANSWER_MAX_BYTES: usize = 4 * 1024 * 1024;

/// Asks `/healthz`.
pub fn healthcheck(address: SocketAddr, clock: &dyn Clock) -> Result<(), String> {
    ask(address, "/healthz", clock, limits::HEALTHCHECK_TIMEOUT).map(drop)
}

/// Asks for `path` at the observation port's address, or on loopback if that is every address. Returns the answer, whose
/// status is 200.
pub(super) fn ask(
    address: SocketAddr,
    path: &str,
    clock: &dyn Clock,
    timeout: Duration,
) -> Result<String, String> {
    if address.port() == 0 {
        return Err("METRICS_PORT is 0, so the port is unknown".to_owned());
    }
    let deadline = Deadline::after(clock, timeout);
    let mut outcomes = hosts(address.ip()).into_iter().map(|host| {
        let address = SocketAddr::new(host, address.port());
        answer(address, path, clock, deadline).map_err(|error| match error.kind() {
            // On Linux a socket's time-out is reported as `WouldBlock`.
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                format!("{address}: no answer within {} ms", timeout.as_millis())
            }
            _ => format!("{address}: {error}"),
        })
    });
    let first = outcomes.next().expect("there is one host at least");
    first.or_else(|problem| outcomes.find_map(Result::ok).ok_or(problem))
}

/// If no address answers, the first one's error counts; the second is for a machine without IPv4.
fn hosts(host: IpAddr) -> Vec<IpAddr> {
    if host.is_unspecified() {
        vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
    } else {
        vec![host]
    }
}

fn answer(address: SocketAddr, path: &str, clock: &dyn Clock, deadline: Deadline) -> io::Result<String> {
    let left = || match deadline.remaining(clock) {
        // The socket would take a time-out of zero for none at all.
        left if left.is_zero() => Err(io::Error::from(io::ErrorKind::TimedOut)),
        left => Ok(left),
    };
    let mut stream = TcpStream::connect_timeout(&address, left()?)?;
    stream.set_write_timeout(Some(left()?))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    while answer.len() < ANSWER_MAX_BYTES {
        // The time-out is renewed for each read, because a peer that sends a byte now and then would otherwise hold it
        // forever.
        stream.set_read_timeout(Some(left()?))?;
        match stream.read(&mut part)? {
            0 => break,
            length => answer.extend_from_slice(part.get(..length).unwrap_or_default()),
        }
    }
    let answer = String::from_utf8_lossy(&answer).into_owned();
    if answer.starts_with("HTTP/1.1 200") {
        return Ok(answer);
    }
    let line = answer.lines().next().unwrap_or_default().trim_end();
    Err(io::Error::other(format!("answered {} to {path}", quoted(line))))
}
