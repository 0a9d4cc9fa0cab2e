//! `healthcheck`: asks a running instance on this machine if it is alive, for images that hold no other program.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};

use crate::clock::{Clock, Deadline};
use crate::limits;

/// The part of the answer that `healthcheck` reads, of which it needs only the first line.
const HEALTHCHECK_ANSWER_MAX_BYTES: usize = 1024;

const REQUEST: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// Asks `/healthz` at the observation port's address, or on loopback if that is every address.
pub fn healthcheck(address: SocketAddr, clock: &dyn Clock) -> Result<(), String> {
    if address.port() == 0 {
        return Err("METRICS_PORT is 0, so nobody knows the port".to_owned());
    }
    let deadline = Deadline::after(clock, limits::HEALTHCHECK_TIMEOUT);
    let mut outcomes = hosts(address.ip()).into_iter().map(|host| {
        let address = SocketAddr::new(host, address.port());
        ask(address, clock, deadline).map_err(|error| match error.kind() {
            // On Linux a socket's time-out is reported as `WouldBlock`.
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                format!("{address}: no answer within {} ms", limits::HEALTHCHECK_TIMEOUT.as_millis())
            }
            _ => format!("{address}: {error}"),
        })
    });
    let first = outcomes.next().expect("there is one host at least");
    first.or_else(|problem| if outcomes.any(|outcome| outcome.is_ok()) { Ok(()) } else { Err(problem) })
}

/// If no address answers, the first one's error counts; the second is for a machine without IPv4.
fn hosts(host: IpAddr) -> Vec<IpAddr> {
    if host.is_unspecified() {
        vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
    } else {
        vec![host]
    }
}

fn ask(address: SocketAddr, clock: &dyn Clock, deadline: Deadline) -> io::Result<()> {
    let left = || match deadline.remaining(clock) {
        // The socket would take a time-out of zero for none at all.
        left if left.is_zero() => Err(io::Error::from(io::ErrorKind::TimedOut)),
        left => Ok(left),
    };
    let mut stream = TcpStream::connect_timeout(&address, left()?)?;
    stream.set_write_timeout(Some(left()?))?;
    stream.write_all(REQUEST)?;
    let mut answer = Vec::new();
    let mut part = [0; 256];
    while !answer.contains(&b'\n') && answer.len() < HEALTHCHECK_ANSWER_MAX_BYTES {
        // The time-out is renewed for each read, because a peer that sends a byte now and then would otherwise hold it
        // forever.
        stream.set_read_timeout(Some(left()?))?;
        match stream.read(&mut part)? {
            0 => break,
            length => answer.extend_from_slice(part.get(..length).unwrap_or_default()),
        }
    }
    let line = answer.split(|byte| *byte == b'\n').next().unwrap_or_default();
    if line.starts_with(b"HTTP/1.1 200") {
        return Ok(());
    }
    Err(io::Error::other(format!("answered {:?} to /healthz", String::from_utf8_lossy(line).trim_end())))
}
