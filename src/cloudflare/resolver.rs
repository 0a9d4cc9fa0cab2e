//! Looks up the API's hostname, rarely and by its absolute name, and decides in which order its addresses are tried.
//!
//! ureq resolves the name for every request, even if it then reuses a connection. musl with Kubernetes' `ndots:5` and
//! three search domains turns each lookup into eight queries. So addresses are looked up once a minute, and used for an
//! hour while lookups fail. A lookup cannot be bounded or cancelled, so it has a thread of its own, one at a time. A
//! call waits for it only if there are no addresses yet.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

use crate::clock::Clock;
use crate::locks::{lock, wait_while};

/// The time between two lookups. Cloudflare's own records live for minutes.
const LOOKUP_PERIOD: Duration = Duration::from_secs(60);

/// The age up to which addresses are used. An outage of DNS is shorter, and Cloudflare's addresses stay for years.
const ADDRESSES_MAX_AGE: Duration = Duration::from_secs(3600);

/// Addresses tried for one connection: two of the family that begins, and between them one of the second family.
const ADDRESSES_MAX: usize = 3;

/// Looks up the addresses of a name.
type Lookup = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

/// The addresses of one name: a client only ever connects to the API, or else only to a proxy. Clones share them.
#[derive(Clone)]
pub(super) struct CachingResolver {
    cache: Arc<(Mutex<CachedAddresses>, Condvar)>,
    lookup: Arc<Lookup>,
    clock: Arc<dyn Clock>,
}

#[derive(Default)]
struct CachedAddresses {
    /// In the order in which they are tried.
    addresses: Vec<IpAddr>,
    found_at: Option<Instant>,
    /// The time at which the last lookup began; `None` if the next call begins one.
    asked_at: Option<Instant>,
    is_looking_up: bool,
    failure: String,
}

impl CachingResolver {
    /// Makes a resolver that uses the machine's resolver.
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_lookup(clock, |host| Ok((host, 0).to_socket_addrs()?.map(|found| found.ip()).collect()))
    }

    pub(super) fn with_lookup(
        clock: Arc<dyn Clock>,
        lookup: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static,
    ) -> Self {
        Self { cache: Arc::default(), lookup: Arc::new(lookup), clock }
    }

    /// The address that the next connection tries first.
    pub(super) fn front(&self) -> Option<IpAddr> {
        lock(&self.cache.0).addresses.first().copied()
    }

    /// Remembers that the address was slow or that a call to it failed: if it is still the first one, it becomes the
    /// last. `None` stands for a call that began before any address was known. The next call looks the name up again.
    pub(super) fn demote(&self, front: Option<IpAddr>) {
        let mut cached = lock(&self.cache.0);
        cached.asked_at = None;
        if cached.addresses.first().is_some_and(|first| front.is_none_or(|front| front == *first)) {
            cached.addresses.rotate_left(1);
        }
    }

    /// The addresses, in the order in which they are to be tried.
    fn addresses(&self, host: &str, timeout: Duration) -> io::Result<Vec<IpAddr>> {
        let now = self.clock.now();
        let is_younger =
            |at: Option<Instant>, age| at.is_some_and(|at| now.saturating_duration_since(at) < age);
        let (mutex, changed) = &*self.cache;
        let mut cached = lock(mutex);
        if !cached.is_looking_up && !is_younger(cached.asked_at, LOOKUP_PERIOD) {
            match self.look_up(host.into()) {
                Ok(()) => (cached.is_looking_up, cached.asked_at) = (true, Some(now)),
                Err(error) => cached.failure = error.to_string(),
            }
        }
        if !is_younger(cached.found_at, ADDRESSES_MAX_AGE) {
            cached = wait_while(changed, cached, timeout, |cached| cached.is_looking_up);
            if !is_younger(cached.found_at, ADDRESSES_MAX_AGE) {
                let problem = if cached.is_looking_up { "timed out" } else { &cached.failure };
                // No other error has this kind, so it is recognized as a failed lookup.
                let error = io::Error::new(io::ErrorKind::NotFound, format!("{host}: {problem}"));
                if !cached.is_looking_up {
                    cached.asked_at = None;
                }
                return Err(error);
            }
        }
        Ok(cached.addresses.clone())
    }

    fn look_up(&self, host: Box<str>) -> io::Result<()> {
        let Self { cache, lookup, clock } = self.clone();
        thread::Builder::new().name("resolve".into()).spawn(move || {
            let outcome = look_up(&*lookup, &host);
            let mut known = lock(&cache.0);
            known.is_looking_up = false;
            match outcome {
                Ok(found) => {
                    known.addresses = interleaved(found, known.addresses.first().copied());
                    known.found_at = Some(clock.now());
                    known.failure.clear();
                }
                Err(error) => {
                    if known.failure.is_empty() && known.found_at.is_some() {
                        log::warn!(
                            "{host} cannot be looked up; its earlier addresses stay in use until \
                             they are an hour old: {error}"
                        );
                    }
                    known.failure = error.to_string();
                }
            }
            cache.1.notify_all();
        })?;
        Ok(())
    }
}

/// Orders addresses so that the families alternate (RFC 8305, section 4). The address that was first stays first if the
/// lookup found it again; otherwise an address of its family is first. At the first lookup IPv4 begins, because an IPv6
/// route whose packets vanish then costs nothing.
fn interleaved(found: Vec<IpAddr>, front: Option<IpAddr>) -> Vec<IpAddr> {
    let begins = |address: &IpAddr| address.is_ipv4() == front.is_none_or(|front| front.is_ipv4());
    let (mut first, second): (Vec<IpAddr>, Vec<IpAddr>) = found.into_iter().partition(begins);
    if let Some(index) = first.iter().position(|address| Some(*address) == front) {
        first.swap(0, index);
    }
    let pairs = (0..ADDRESSES_MAX).flat_map(|index| [first.get(index), second.get(index)]);
    pairs.flatten().copied().take(ADDRESSES_MAX).collect()
}

/// Looks up the absolute name, then the name as written, which may be a name of the cluster.
fn look_up(lookup: &Lookup, host: &str) -> io::Result<Vec<IpAddr>> {
    let absolute = (host.contains('.') && !host.ends_with('.')).then(|| lookup(&format!("{host}.")));
    match absolute {
        Some(Ok(addresses)) if !addresses.is_empty() => Ok(addresses),
        _ => match lookup(host)? {
            addresses if addresses.is_empty() => Err(io::Error::other("the name has no address")),
            addresses => Ok(addresses),
        },
    }
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
        let host = uri.host().ok_or(ureq::Error::HostNotFound)?;
        let port_of_scheme = if uri.scheme_str() == Some("https") { 443 } else { 80 };
        let port = uri.port_u16().unwrap_or(port_of_scheme);
        let addresses = match host.trim_start_matches('[').trim_end_matches(']').parse() {
            Ok(address) => vec![address],
            Err(_) => self.addresses(host, *timeout.after)?,
        };
        let mut resolved = self.empty();
        addresses.into_iter().for_each(|address| resolved.push(SocketAddr::new(address, port)));
        Ok(resolved)
    }
}

#[cfg(test)]
mod tests;
