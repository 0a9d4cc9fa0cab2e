//! Looks up the API's name, seldom and by its absolute name.
//!
//! ureq asks for every request, also when it then reuses a connection, and musl with Kubernetes' `ndots:5` and three
//! search domains turns each of that into eight queries. Here the addresses are kept for a minute, one lookup runs at a
//! time however many calls wait for it, and `host.` is asked for before `host`.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

use crate::clock::Clock;
use crate::limits::{RESOLVE_MAX_AGE, RESOLVE_TIMEOUT};

/// How many addresses are handed to ureq; it has room for no more.
const ADDRESSES_MAX: usize = 16;

/// What is asked for the addresses of a name.
type Lookup = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

/// Keeps what it has looked up. Clones share it.
#[derive(Clone)]
pub(super) struct CachingResolver {
    names: Arc<Names>,
    lookup: Arc<Lookup>,
    clock: Arc<dyn Clock>,
}

/// The names asked for: the API's and perhaps a proxy's, so the list stays short.
#[derive(Default)]
struct Names {
    list: Mutex<Vec<Name>>,
    changed: Condvar,
}

struct Name {
    host: Box<str>,
    addresses: Vec<IpAddr>,
    looked_up_at: Option<Instant>,
    /// Why the last lookup failed.
    failure: Option<(io::ErrorKind, Box<str>)>,
    is_being_looked_up: bool,
    lookups_ended: u64,
}

#[derive(Debug)]
enum Failure {
    TimedOut,
    Lookup(io::Error),
}

/// A name that could not be looked up. ureq's own errors would not tell this from a connection that failed.
#[derive(Debug)]
pub(super) struct LookupError(io::Error);

impl fmt::Display for LookupError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl std::error::Error for LookupError {}

impl CachingResolver {
    /// Asks the machine's resolver.
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

    /// Lets the next call look up again: nobody could be reached at the addresses known.
    pub(super) fn forget(&self) {
        for name in self.names.lock().iter_mut() {
            name.looked_up_at = None;
        }
    }

    fn addresses(&self, host: &str, timeout: Duration) -> Result<Vec<IpAddr>, Failure> {
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
        if name.is_fresh(now) {
            return Ok(name.addresses.clone());
        }
        let seen = name.lookups_ended;
        if !name.is_being_looked_up {
            // On a thread of its own, because a lookup can neither be bounded nor ended; and only one at a time, so that
            // a silent name server does not collect threads.
            self.start_lookup(host).map_err(Failure::Lookup)?;
            name.is_being_looked_up = true;
        }
        let (list, waited) = self
            .names
            .changed
            .wait_timeout_while(list, timeout, |list| {
                list.get(index).is_some_and(|name| name.lookups_ended == seen)
            })
            .unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return Err(Failure::TimedOut);
        }
        let name = list.get(index).expect("names are never taken off the list");
        match &name.failure {
            None => Ok(name.addresses.clone()),
            Some((kind, text)) => Err(Failure::Lookup(io::Error::new(*kind, text.to_string()))),
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
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Name {
    fn new(host: &str) -> Self {
        Self {
            host: host.into(),
            addresses: Vec::new(),
            looked_up_at: None,
            failure: None,
            is_being_looked_up: false,
            lookups_ended: 0,
        }
    }

    fn is_fresh(&self, now: Instant) -> bool {
        self.looked_up_at.is_some_and(|at| now.saturating_duration_since(at) < RESOLVE_MAX_AGE)
    }

    fn end_lookup(&mut self, outcome: io::Result<Vec<IpAddr>>, now: Instant) {
        self.is_being_looked_up = false;
        self.lookups_ended += 1;
        match outcome {
            Ok(addresses) => {
                self.addresses = addresses;
                self.looked_up_at = Some(now);
                self.failure = None;
            }
            Err(error) => self.failure = Some((error.kind(), error.to_string().into())),
        }
    }
}

/// Asks for the absolute name, and for the name as it is written where that has none: it may be one of the cluster's.
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
        config: &ureq::config::Config,
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
        let addresses =
            match literal {
                Ok(address) => vec![address],
                // A proxy's name is looked up on the time for connecting, which is longer.
                Err(_) => self.addresses(host, (*timeout.after).min(RESOLVE_TIMEOUT)).map_err(|failure| {
                    match failure {
                        Failure::TimedOut => ureq::Error::Timeout(timeout.reason),
                        Failure::Lookup(error) => ureq::Error::Other(Box::new(LookupError(error))),
                    }
                })?,
            };
        let family = config.ip_family();
        let addresses = addresses.into_iter().map(|address| SocketAddr::new(address, port));
        let mut resolved = self.empty();
        for address in family.keep_wanted(addresses).take(ADDRESSES_MAX) {
            resolved.push(address);
        }
        if resolved.is_empty() {
            return Err(ureq::Error::HostNotFound);
        }
        Ok(resolved)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use ureq::unversioned::transport::time;

    use super::*;
    use crate::cloudflare::testing::FakeClock;

    const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7));

    /// Which names were asked for, in order.
    type Asked = Arc<Mutex<Vec<String>>>;

    fn recording(
        asked: &Asked,
        answer: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static,
    ) -> impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static {
        let asked = Arc::clone(asked);
        move |host| {
            asked.lock().unwrap().push(host.to_owned());
            answer(host)
        }
    }

    fn resolve(resolver: &CachingResolver, uri: &str) -> Result<Vec<SocketAddr>, ureq::Error> {
        resolve_within(resolver, uri, Duration::from_secs(3))
    }

    fn resolve_within(
        resolver: &CachingResolver,
        uri: &str,
        timeout: Duration,
    ) -> Result<Vec<SocketAddr>, ureq::Error> {
        let timeout = NextTimeout {
            after: time::Duration::Exact(timeout),
            reason: ureq::Timeout::Resolve,
            ..NextTimeout::default()
        };
        let resolved = resolver.resolve(&uri.parse().unwrap(), &ureq::config::Config::default(), timeout)?;
        Ok(resolved.iter().copied().collect())
    }

    /// Without this, each call costs a thread and, in a cluster, eight queries.
    #[test]
    fn the_name_is_looked_up_once_a_minute() {
        let (clock, asked) = (FakeClock::new(), Asked::default());
        let resolver = CachingResolver::with_lookup(clock.clone(), recording(&asked, |_| Ok(vec![ADDRESS])));
        for _ in 0..3 {
            let resolved = resolve(&resolver, "https://api.cloudflare.com/client/v4/zones").unwrap();
            assert_eq!(resolved, [SocketAddr::new(ADDRESS, 443)]);
        }
        assert_eq!(asked.lock().unwrap().len(), 1);
        clock.advance(RESOLVE_MAX_AGE);
        resolve(&resolver, "https://api.cloudflare.com/").unwrap();
        assert_eq!(asked.lock().unwrap().len(), 2);
    }

    #[test]
    fn calls_side_by_side_share_one_lookup() {
        let asked = Asked::default();
        let (release, released) = mpsc::channel::<()>();
        let released = Mutex::new(released);
        let resolver = CachingResolver::with_lookup(
            FakeClock::new(),
            recording(&asked, move |_| {
                released.lock().unwrap().recv().unwrap();
                Ok(vec![ADDRESS])
            }),
        );
        thread::scope(|scope| {
            let calls: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| resolve(&resolver, "https://api.cloudflare.com/").unwrap()))
                .collect();
            // A second lookup would wait here for ever, and its caller would time out.
            release.send(()).unwrap();
            for call in calls {
                assert_eq!(call.join().unwrap(), [SocketAddr::new(ADDRESS, 443)]);
            }
        });
        assert_eq!(asked.lock().unwrap().len(), 1);
    }

    /// A trailing dot keeps the cluster's search domains out.
    #[test]
    fn absolute_names_are_asked_for_first() {
        for (uri, only, expected) in [
            ("https://api.cloudflare.com/", "api.cloudflare.com.", &["api.cloudflare.com."][..]),
            ("http://emulator.testing:8080/", "emulator.testing", &["emulator.testing.", "emulator.testing"]),
            ("http://localhost/", "localhost", &["localhost"]),
            ("http://emulator/", "emulator", &["emulator"]),
            ("http://absolute.example./", "absolute.example.", &["absolute.example."]),
            ("http://127.0.0.1:1/", "", &[]),
            ("http://[::1]:1/", "", &[]),
        ] {
            let asked = Asked::default();
            let resolver = CachingResolver::with_lookup(
                FakeClock::new(),
                recording(&asked, move |host| {
                    if host == only { Ok(vec![ADDRESS]) } else { Err(io::Error::other("no such name")) }
                }),
            );
            resolve(&resolver, uri).unwrap();
            assert_eq!(*asked.lock().unwrap(), expected, "{uri}");
        }
    }

    #[test]
    fn the_port_is_the_addresses_own_or_the_schemes() {
        let resolver = CachingResolver::with_lookup(FakeClock::new(), |_| Ok(vec![ADDRESS]));
        for (uri, port) in [
            ("https://a.example/", 443),
            ("http://a.example/", 80),
            ("https://a.example:8443/", 8443),
            ("http://[::1]:8080/", 8080),
        ] {
            assert_eq!(resolve(&resolver, uri).unwrap()[0].port(), port, "{uri}");
        }
    }

    #[test]
    fn a_failure_is_not_kept_and_says_what_it_is() {
        let asked = Asked::default();
        let fails_first = {
            let asked = Arc::clone(&asked);
            move |_: &str| {
                if asked.lock().unwrap().len() == 1 {
                    Err(io::Error::other("try again"))
                } else {
                    Ok(vec![ADDRESS])
                }
            }
        };
        let resolver = CachingResolver::with_lookup(FakeClock::new(), recording(&asked, fails_first));
        let error = resolve(&resolver, "http://localhost/").unwrap_err();
        let ureq::Error::Other(error) = error else {
            panic!("{error:?}");
        };
        assert_eq!(error.downcast_ref::<LookupError>().unwrap().to_string(), "try again");
        resolve(&resolver, "http://localhost/").unwrap();
    }

    #[test]
    fn a_name_without_an_address_is_an_error() {
        let resolver = CachingResolver::with_lookup(FakeClock::new(), |_| Ok(Vec::new()));
        resolve(&resolver, "http://a.example/").unwrap_err();
    }

    #[test]
    fn more_addresses_than_ureq_has_room_for_are_left_out() {
        let resolver = CachingResolver::with_lookup(FakeClock::new(), |_| Ok(vec![ADDRESS; 40]));
        assert_eq!(resolve(&resolver, "http://a.example/").unwrap().len(), ADDRESSES_MAX);
    }

    /// A silent name server must not collect a thread for each call.
    #[test]
    fn a_lookup_that_hangs_ends_calls_in_time_and_is_not_begun_twice() {
        let asked = Asked::default();
        let (release, released) = mpsc::channel::<()>();
        let released = Mutex::new(released);
        let resolver = CachingResolver::with_lookup(
            FakeClock::new(),
            recording(&asked, move |_| {
                let _ = released.lock().unwrap().recv();
                Ok(vec![ADDRESS])
            }),
        );
        for _ in 0..3 {
            let error =
                resolve_within(&resolver, "http://localhost/", Duration::from_millis(10)).unwrap_err();
            assert!(matches!(error, ureq::Error::Timeout(ureq::Timeout::Resolve)), "{error:?}");
        }
        drop(release);
        assert_eq!(resolve(&resolver, "http://localhost/").unwrap().len(), 1);
        assert_eq!(asked.lock().unwrap().len(), 1);
    }

    #[test]
    fn addresses_where_nobody_could_be_reached_are_forgotten() {
        let asked = Asked::default();
        let resolver =
            CachingResolver::with_lookup(FakeClock::new(), recording(&asked, |_| Ok(vec![ADDRESS])));
        resolve(&resolver, "http://localhost/").unwrap();
        resolver.forget();
        resolve(&resolver, "http://localhost/").unwrap();
        assert_eq!(asked.lock().unwrap().len(), 2);
    }
}
