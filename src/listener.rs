//! The code that both listeners share: it opens sockets, sets their options, reads the path of a request's target, and
//! has the form of an answer.
//!
//! On Linux, accepted connections inherit the options of their listening socket. That is the only way to set them for
//! the API port's connections, because its server has no setting for any of them.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

/// The kernel's receive buffer for a connection of the API port. The buffer counts as the container's memory, and
/// tiny_http reads as much at once of an unwanted body. Without a limit the buffer grows to 6 MB.
const API_RECEIVE_BUFFER_BYTES: usize = 128 * 1024;

/// The time for which sent data may stay unacknowledged, or a window closed, before the kernel ends the connection.
const API_UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(30);

/// The idle time after which a silent connection is probed. It exceeds the 90 s for which ExternalDNS keeps an idle
/// connection.
const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(120);

/// The time between two probes of a silent connection.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// Unanswered probes after which a connection is dead.
const KEEP_ALIVE_PROBES: u32 = 4;

/// Connections that the kernel holds until the listener accepts them. If there is no room, a client tries again after a
/// second, which is all the time that the kubelet gives a probe.
const LISTEN_BACKLOG: i32 = 1024;

/// Opens a listening socket. `[::]` also takes IPv4, and becomes `0.0.0.0` if IPv6 is off.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let everything = address.is_ipv6() && address.ip().is_unspecified();
    match open(address) {
        Err(error) if everything && is_unavailable(&error) => {
            open(SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port())))
        }
        result => result,
    }
}

fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    // A restarted container must get its port although old connections are still in TIME_WAIT.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(LISTEN_BACKLOG)?;
    Ok(socket.into())
}

/// True if the machine lacks the address family or the address, because IPv6 is off.
pub(crate) fn is_unavailable(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable || error.raw_os_error() == Some(libc::EAFNOSUPPORT)
}

/// The address at which this machine reaches a socket that listens on `address`.
pub(crate) fn reached(address: SocketAddr) -> SocketAddr {
    let ip = if address.ip().is_unspecified() { Ipv4Addr::LOCALHOST.into() } else { address.ip() };
    SocketAddr::new(ip, address.port())
}

/// Sets the options of a listening socket that its connections inherit.
///
/// `SO_RCVTIMEO` is not one of them: with it, `accept` itself times out, and tiny_http stops listening.
pub(crate) fn set_inherited_options(listener: &TcpListener, send_timeout: Duration) -> io::Result<()> {
    let socket = SockRef::from(listener);
    // Without it, an answer of two writes waits some 40 ms for the client's delayed acknowledgement.
    socket.set_tcp_nodelay(true)?;
    socket.set_recv_buffer_size(API_RECEIVE_BUFFER_BYTES)?;
    // A client that never reads must not hold a worker forever.
    socket.set_write_timeout(Some(send_timeout))?;
    socket.set_tcp_keepalive(
        &TcpKeepalive::new()
            .with_time(KEEP_ALIVE_IDLE)
            .with_interval(KEEP_ALIVE_INTERVAL)
            .with_retries(KEEP_ALIVE_PROBES),
    )?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(API_UNACKNOWLEDGED_MAX))?;
    Ok(())
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    /// The value of `Content-Type`: a constant, so that nothing of a request can get into a header. Empty without a
    /// body.
    pub content_type: &'static str,
    pub body: Vec<u8>,
}

impl Response {
    pub fn text(status: u16, line: &str) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: format!("{line}\n").into_bytes() }
    }
}

/// The path of a request target, without its query. Nothing is decoded, because no path of ours needs it.
pub(crate) fn path_of(target: &str) -> &str {
    target.split_once('?').map_or(target, |(path, _)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_ends_at_its_query() {
        for (target, path) in [
            ("/", "/"),
            ("/records", "/records"),
            ("/records?x=/y?z", "/records"),
            ("/records/", "/records/"),
            ("*", "*"),
            ("", ""),
        ] {
            assert_eq!(path_of(target), path, "{target:?}");
        }
    }

    #[test]
    fn what_a_listener_accepts_inherits_its_options() {
        let send_timeout = Duration::from_millis(700);
        let listener = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("loopback is there");
        set_inherited_options(&listener, send_timeout).expect("options of a TCP socket");
        let address = listener.local_addr().expect("it is bound");
        let _client = std::net::TcpStream::connect(address).expect("it listens");
        let (accepted, _) = listener.accept().expect("a client is there");
        let socket = SockRef::from(&accepted);
        assert!(socket.tcp_nodelay().expect("readable"));
        assert!(socket.keepalive().expect("readable"));
        // The kernel rounds to its tick, up to 10 ms.
        let inherited = socket.write_timeout().expect("readable").expect("a time-out is set");
        assert!(inherited.abs_diff(send_timeout) <= Duration::from_millis(10));
        assert_eq!(socket.read_timeout().expect("readable"), None);
        // The kernel doubles it for its own bookkeeping.
        assert_eq!(socket.recv_buffer_size().expect("readable"), 2 * API_RECEIVE_BUFFER_BYTES);
    }
}
