//! Connects to one of several addresses.

use std::net::SocketAddr;

use ureq::unversioned::transport::time::{Duration, Instant};
use ureq::unversioned::transport::{ConnectionDetails, Connector, NextTimeout, TcpConnector, Transport};
use ureq::{Error, Timeout};

use crate::cloudflare::resolver::CachingResolver;
use crate::limits::ADDRESS_PATIENCE;

/// Tries one address after the other, and remembers the one that answered.
///
/// ureq itself gives the first address half of the time, the second a quarter, and so on. If the packets of one family
/// vanish, too little time is left for a handshake with the other, on every connection.
#[derive(Debug)]
pub(super) struct AddressesInTurn {
    pub(super) resolver: CachingResolver,
    pub(super) tcp: TcpConnector,
}

impl<In: Transport> Connector<In> for AddressesInTurn {
    type Out = <TcpConnector as Connector<In>>::Out;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        if chained.is_some() {
            // A proxy has made a connection already.
            return self.tcp.connect(details, chained);
        }
        let mut failure = Error::ConnectionFailed;
        let mut addresses_left = u32::try_from(details.addrs.len()).unwrap_or(u32::MAX);
        for address in &details.addrs {
            match self.connect_to(*address, addresses_left, details) {
                Ok(transport) => {
                    self.resolver.connected(address.ip());
                    return Ok(transport);
                }
                // An error that there is no route to an address says less than another address's error.
                Err(error) if is_without_route(&failure) => failure = error,
                Err(_) => {}
            }
            addresses_left -= 1;
        }
        Err(failure)
    }
}

impl AddressesInTurn {
    fn connect_to<In: Transport>(
        &self,
        address: SocketAddr,
        addresses_left: u32,
        details: &ConnectionDetails<'_>,
    ) -> Result<Option<<TcpConnector as Connector<In>>::Out>, Error> {
        let timeout = patience(time_left(details), addresses_left);
        if timeout.after.is_zero() {
            // ureq would take a time-out of zero for one of a second.
            return Err(Error::Timeout(timeout.reason));
        }
        let mut addrs = details.resolver.empty();
        addrs.push(address);
        let details = ConnectionDetails {
            uri: details.uri,
            addrs,
            config: details.config,
            request_level: details.request_level,
            resolver: details.resolver,
            now: (details.current_time)(),
            timeout,
            current_time: details.current_time.clone(),
            run_connector: details.run_connector.clone(),
            register_shutdown: details.register_shutdown.clone(),
        };
        self.tcp.connect(&details, None)
    }
}

/// The time left for connecting.
pub(super) fn time_left(details: &ConnectionDetails<'_>) -> NextTimeout {
    let timeout = NextTimeout { reason: Timeout::Connect, ..details.timeout };
    match (details.timeout.after, details.now, (details.current_time)()) {
        (Duration::Exact(after), Instant::Exact(begun), Instant::Exact(now)) => NextTimeout {
            after: after.saturating_sub(now.saturating_duration_since(begun)).into(),
            ..timeout
        },
        _ => timeout,
    }
}

/// The part of the remaining time for one of `addresses_left` addresses. The last one gets all of it.
fn patience(left: NextTimeout, addresses_left: u32) -> NextTimeout {
    match (left.after, addresses_left) {
        (Duration::Exact(after), 2..) => {
            NextTimeout { after: (after / addresses_left).min(ADDRESS_PATIENCE).into(), ..left }
        }
        _ => left,
    }
}

fn is_without_route(error: &Error) -> bool {
    use std::io::ErrorKind::{AddrNotAvailable, NetworkUnreachable};
    match error {
        Error::ConnectionFailed => true,
        Error::Io(error) => matches!(error.kind(), NetworkUnreachable | AddrNotAvailable),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Duration as Time;

    use super::*;

    #[test]
    fn each_address_has_a_second_of_the_four_and_the_last_all_that_is_left() {
        for (left, addresses_left, expected) in [
            (4000, 4, 1000),
            (3000, 3, 1000),
            (4000, 2, 1000),
            (1200, 4, 300),
            (3000, 1, 3000),
            (1000, 1, 1000),
            (0, 2, 0),
        ] {
            let left = NextTimeout { after: Time::from_millis(left).into(), ..NextTimeout::default() };
            let expected = Duration::Exact(Time::from_millis(expected));
            assert_eq!(patience(left, addresses_left).after, expected, "{left:?}, {addresses_left}");
        }
        assert_eq!(patience(NextTimeout::default(), 4).after, Duration::NotHappening);
    }

    #[test]
    fn an_address_without_a_route_explains_nothing_where_another_has_answered() {
        for (kind, expected) in [
            (io::ErrorKind::NetworkUnreachable, true),
            (io::ErrorKind::AddrNotAvailable, true),
            (io::ErrorKind::ConnectionRefused, false),
            (io::ErrorKind::HostUnreachable, false),
        ] {
            assert_eq!(is_without_route(&Error::Io(kind.into())), expected, "{kind}");
        }
        assert!(!is_without_route(&Error::Timeout(Timeout::Connect)));
    }
}
