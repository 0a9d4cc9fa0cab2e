//! Looks up the API's hostname, rarely and by its absolute name, and decides in which order its addresses are tried.
//!
//! ureq asks for every request, even if it then reuses a connection, and musl with Kubernetes' `ndots:5` and three
//! search domains turns each question into eight queries. So addresses are kept for a minute, or for an hour while they
//! cannot be looked up again. Only one lookup runs at a time, however many calls wait for it, and `host.` is tried
//! before `host`.

use std::fmt;
use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

use crate::clock::Clock;
use crate::limits::{ADDRESSES_MAX, RESOLVE_PATIENCE, RESOLVE_TIMEOUT};
use crate::locks::{lock, wait_while};

/// The age up to which looked-up addresses are used. Cloudflare's own records live for minutes.
const RESOLVE_MAX_AGE: Duration = Duration::from_secs(60);

/// The age up to which addresses are used that cannot be looked up again. An outage of DNS is shorter, and Cloudflare's
/// addresses stay for years.
const RESOLVE_OLD_MAX_AGE: Duration = Duration::from_secs(3600);

/// Looks up the addresses of a name.
type Lookup = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

/// A resolver with a cache. Clones share it.
#[derive(Clone)]
pub(super) struct CachingResolver {
    names: Arc<Names>,
    lookup: Arc<Lookup>,
    clock: Arc<dyn Clock>,
}

/// The names looked up: the API's and perhaps a proxy's, so the list stays short.
#[derive(Default)]
struct Names {
    list: Mutex<Vec<Name>>,
    changed: Condvar,
}

struct Name {
    host: Box<str>,
    addresses: Vec<IpAddr>,
    looked_up_at: Option<Instant>,
    /// No connection to the addresses has succeeded since.
    is_in_doubt: bool,
    /// The address of the last connection.
    connected: Option<IpAddr>,
    /// An address that accepted a connection on which no call got through.
    given_up: Option<IpAddr>,
    /// The reason why the last lookup failed.
    failure: Option<Box<str>>,
    /// The time at which the running lookup began.
    lookup_begun_at: Option<Instant>,
    lookups_ended: u64,
    /// The log has said that old addresses are in use.
    is_told: bool,
}

/// A failed lookup. ureq's own errors would not tell it from a connection that failed or took too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LookupError {
    host: Box<str>,
    problem: Box<str>,
}

impl fmt::Display for LookupError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, problem } = self;
        write!(formatter, "{host}: {problem}")
    }
}

impl std::error::Error for LookupError {}

impl CachingResolver {
    /// Makes a resolver that asks the machine's own.
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_lookup(clock, |host| {
            Ok((host, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
        })
    }

    pub(super) fn with_lookup(
        clock: Arc<dyn Clock>,
        lookup: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static,
    ) -> Self {
        Self { names: Arc::default(), lookup: Arc::new(lookup), clock }
    }

    /// Nobody could be reached at the known addresses: the next call looks up again and begins with another address.
    pub(super) fn forget(&self) {
        for name in self.names.lock().iter_mut() {
            name.is_in_doubt = true;
            name.given_up = name.connected.take().or(name.given_up);
        }
    }

    /// Makes later connections begin with this address.
    pub(super) fn connected(&self, address: IpAddr) {
        if let Some(name) = self.names.lock().iter_mut().find(|name| name.addresses.contains(&address)) {
            name.connected = Some(address);
        }
    }

    /// The addresses, in the order in which they are to be tried.
    fn addresses(&self, host: &str, timeout: Duration) -> Result<Vec<IpAddr>, LookupError> {
        let mut list = self.names.lock();
        let index = match list.iter().position(|name| &*name.host == host) {
            Some(index) => index,
            None => {
                list.push(Name::new(host));
                list.len() - 1
            }
        };
        let now = self.clock.now();
        let name = list.get_mut(index).expect("names are never taken off the list");
        if !name.is_in_doubt && name.is_younger(RESOLVE_MAX_AGE, now) {
            return Ok(name.in_turn());
        }
        let seen = name.lookups_ended;
        if name.lookup_begun_at.is_none() {
            // A lookup can neither be bounded nor cancelled, so it gets its own thread. There is only one at a time, so
            // that a silent name server does not collect threads.
            if let Err(error) = self.start_lookup(host) {
                return name.old_addresses(&error.to_string(), now);
            }
            name.lookup_begun_at = Some(now);
        }
        let patience = name.patience(now).min(timeout);
        let mut list = wait_while(&self.names.changed, list, patience, |list| {
            list.get(index).is_some_and(|name| name.lookups_ended == seen)
        });
        let name = list.get_mut(index).expect("names are never taken off the list");
        let problem =
            if name.lookups_ended == seen { Some("timed out".into()) } else { name.failure.clone() };
        match problem {
            Some(problem) => name.old_addresses(&problem, now),
            None => Ok(name.in_turn()),
        }
    }

    fn start_lookup(&self, host: &str) -> io::Result<()> {
        let host: Box<str> = host.into();
        let Self { names, lookup, clock } = self.clone();
        thread::Builder::new().name("resolve".into()).spawn(move || {
            let outcome = look_up(&*lookup, &host);
            let now = clock.now();
            if let Some(name) = names.lock().iter_mut().find(|name| name.host == host) {
                name.end_lookup(outcome, now);
            }
            names.changed.notify_all();
        })?;
        Ok(())
    }
}

impl Names {
    fn lock(&self) -> MutexGuard<'_, Vec<Name>> {
        lock(&self.list)
    }
}

impl Name {
    fn new(host: &str) -> Self {
        Self {
            host: host.into(),
            addresses: Vec::new(),
            looked_up_at: None,
            is_in_doubt: false,
            connected: None,
            given_up: None,
            failure: None,
            lookup_begun_at: None,
            lookups_ended: 0,
            is_told: false,
        }
    }

    fn is_younger(&self, age: Duration, now: Instant) -> bool {
        self.looked_up_at.is_some_and(|at| now.saturating_duration_since(at) < age)
    }

    /// The time to wait for the running lookup. If there are addresses already, the lookup is not worth a request's
    /// time, and one wait is enough.
    fn patience(&self, now: Instant) -> Duration {
        match self.lookup_begun_at {
            Some(begun) if self.is_younger(RESOLVE_OLD_MAX_AGE, now) => {
                RESOLVE_PATIENCE.saturating_sub(now.saturating_duration_since(begun))
            }
            _ => RESOLVE_TIMEOUT,
        }
    }

    fn end_lookup(&mut self, outcome: io::Result<Vec<IpAddr>>, now: Instant) {
        self.lookup_begun_at = None;
        self.lookups_ended += 1;
        match outcome {
            Ok(addresses) => {
                self.addresses = addresses;
                self.looked_up_at = Some(now);
                self.is_in_doubt = false;
                self.is_told = false;
                self.failure = None;
            }
            Err(error) => self.failure = Some(error.to_string().into()),
        }
    }

    fn error(&self, problem: &str) -> LookupError {
        LookupError { host: self.host.clone(), problem: problem.into() }
    }

    /// The addresses of an earlier lookup, unless they are too old.
    fn old_addresses(&mut self, problem: &str, now: Instant) -> Result<Vec<IpAddr>, LookupError> {
        let error = self.error(problem);
        if !self.is_younger(RESOLVE_OLD_MAX_AGE, now) {
            return Err(error);
        }
        if !mem::replace(&mut self.is_told, true) {
            log::warn!(
                "the name cannot be looked up; its earlier addresses stay in use for an hour at most: {error}"
            );
        }
        Ok(self.in_turn())
    }

    fn in_turn(&self) -> Vec<IpAddr> {
        in_turn(&self.addresses, self.connected, self.given_up)
    }
}

/// Orders addresses so that the families alternate (RFC 8305, section 4), so that a family whose packets vanish costs
/// little time. The address that connected last comes first, if it is still among them, and its family begins. Without
/// one, the family begins that is not that of the address that was given up; without either, IPv6 begins. The address
/// that was given up comes last in its family.
fn in_turn(addresses: &[IpAddr], connected: Option<IpAddr>, given_up: Option<IpAddr>) -> Vec<IpAddr> {
    let ipv4_begins = match (connected, given_up) {
        (Some(connected), _) => connected.is_ipv4(),
        (None, Some(given_up)) => given_up.is_ipv6(),
        (None, None) => false,
    };
    let known = connected.filter(|connected| addresses.contains(connected));
    let given_up = given_up.filter(|given_up| addresses.contains(given_up) && known != Some(*given_up));
    let others = addresses.iter().copied().filter(|address| ![known, given_up].contains(&Some(*address)));
    let others = others.chain(given_up);
    let mut first =
        known.into_iter().chain(others.clone()).filter(|address| address.is_ipv4() == ipv4_begins);
    let mut second = others.filter(|address| address.is_ipv4() != ipv4_begins);
    let mut ordered = Vec::with_capacity(ADDRESSES_MAX);
    while ordered.len() < ADDRESSES_MAX {
        let pair = [first.next(), second.next()];
        if pair == [None, None] {
            break;
        }
        ordered.extend(pair.into_iter().flatten());
    }
    ordered.truncate(ADDRESSES_MAX);
    ordered
}

/// Looks up the absolute name, then the name as written: it may be one of the cluster's.
fn look_up(lookup: &Lookup, host: &str) -> io::Result<Vec<IpAddr>> {
    let found = |addresses: &Vec<IpAddr>| !addresses.is_empty();
    if host.contains('.')
        && !host.ends_with('.')
        && let Some(addresses) = lookup(&format!("{host}.")).ok().filter(found)
    {
        return Ok(addresses);
    }
    let addresses = lookup(host)?;
    if addresses.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
    }
    Ok(addresses)
}

impl fmt::Debug for CachingResolver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CachingResolver").finish_non_exhaustive()
    }
}

impl Resolver for CachingResolver {
    fn resolve(
        &self,
        uri: &Uri,
        _config: &ureq::config::Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let authority = uri.authority().ok_or(ureq::Error::HostNotFound)?;
        let port = match (authority.port_u16(), uri.scheme_str()) {
            (Some(port), _) => port,
            (None, Some("https")) => 443,
            (None, _) => 80,
        };
        let host = authority.host();
        let literal = host.trim_start_matches('[').trim_end_matches(']').parse();
        let addresses = match literal {
            Ok(address) => vec![address],
            Err(_) => {
                self.addresses(host, *timeout.after).map_err(|error| ureq::Error::Other(Box::new(error)))?
            }
        };
        let mut resolved = self.empty();
        for address in addresses {
            resolved.push(SocketAddr::new(address, port));
        }
        if resolved.is_empty() {
            return Err(ureq::Error::HostNotFound);
        }
        Ok(resolved)
    }
}

#[cfg(test)]
mod tests;
