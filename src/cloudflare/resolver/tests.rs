use std::sync::mpsc;

use ureq::unversioned::transport::time;

use super::*;
use crate::cloudflare::testing::FakeClock;

const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7));

/// The names asked for, in order.
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

/// The text of a failed lookup.
fn problem(outcome: Result<Vec<SocketAddr>, ureq::Error>) -> String {
    let Err(ureq::Error::Other(error)) = outcome else {
        panic!("{outcome:?}");
    };
    error.downcast_ref::<LookupError>().unwrap().to_string()
}

/// Otherwise each call would cost a thread and, in a cluster, eight queries.
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

/// The trailing dot avoids the cluster's search domains.
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
    let error = problem(resolve(&resolver, "http://localhost/"));
    assert_eq!(error, "localhost: try again");
    resolve(&resolver, "http://localhost/").unwrap();
}

#[test]
fn a_name_without_an_address_is_an_error() {
    let resolver = CachingResolver::with_lookup(FakeClock::new(), |_| Ok(Vec::new()));
    resolve(&resolver, "http://a.example/").unwrap_err();
}

/// Each address is written as its end: 4x is IPv4, 6x is IPv6.
#[test]
fn addresses_of_both_families_are_tried_in_turn_beginning_with_the_one_that_connected_last() {
    let address = |name: &str| -> IpAddr {
        let ending = &name[1..];
        if name.starts_with('4') { format!("192.0.2.{ending}") } else { format!("2001:db8::{ending}") }
            .parse()
            .unwrap()
    };
    let addresses = |names: &str| -> Vec<IpAddr> { names.split_whitespace().map(address).collect() };
    for (known, connected, given_up, expected) in [
        ("61 62 63 64 65 66 41 42 43 44 45 46", "", "", "61 41 62 42"),
        ("41 42 43 61 62 63", "", "", "61 41 62 42"),
        ("61 62 63 41 42 43", "42", "", "42 61 41 62"),
        ("61 62 63 41 42 43", "43", "", "43 61 41 62"),
        ("61 62 63 41 42 43", "62", "", "62 41 61 42"),
        // It is no longer one of the addresses, but what it says about the families still holds.
        ("61 62 41 42", "49", "", "41 61 42 62"),
        ("61 62 41 42", "69", "", "61 41 62 42"),
        ("61 62 63 64 65", "", "", "61 62 63 64"),
        ("61 62 63 64 65", "41", "", "61 62 63 64"),
        ("41 42 43 44 45", "44", "", "44 41 42 43"),
        ("61 41 42 43 44", "", "", "61 41 42 43"),
        ("61 41", "41", "", "41 61"),
        ("41", "", "", "41"),
        ("", "", "", ""),
        // It accepts connections and then stays silent; its family may do the same.
        ("61 62 41 42", "", "61", "41 62 42 61"),
        ("61 62 41 42", "", "41", "61 42 62 41"),
        ("61 62 41 42", "42", "61", "42 62 41 61"),
        ("61 62 41 42", "61", "61", "61 41 62 42"),
        ("61", "", "61", "61"),
    ] {
        let [connected, given_up] = [connected, given_up].map(|name| addresses(name).first().copied());
        let ordered = in_turn(&addresses(known), connected, given_up);
        assert_eq!(ordered, addresses(expected), "{known}, {connected:?}, {given_up:?}");
    }
}

#[test]
fn the_address_that_connected_stays_in_front_after_the_next_lookup() {
    let (clock, other) = (FakeClock::new(), IpAddr::from([192, 0, 2, 8]));
    let resolver = CachingResolver::with_lookup(clock.clone(), move |_| Ok(vec![ADDRESS, other]));
    let first = || resolve(&resolver, "http://a.example/").unwrap()[0].ip();
    assert_eq!(first(), ADDRESS);
    resolver.connected(other);
    assert_eq!(first(), other);
    clock.advance(RESOLVE_MAX_AGE);
    assert_eq!(first(), other);
    resolver.forget();
    assert_eq!(first(), ADDRESS, "no call came through");
}

/// With ExternalDNS's default interval of a minute, every loop looks up.
#[test]
fn addresses_are_used_for_an_hour_where_the_name_cannot_be_looked_up_any_more() {
    for hangs in [false, true] {
        let (clock, asked) = (FakeClock::new(), Asked::default());
        let (begun, begins) = mpsc::channel();
        let answers = {
            let asked = Arc::clone(&asked);
            move |_: &str| {
                let lookups = asked.lock().unwrap().len();
                match lookups {
                    1 => Ok(vec![ADDRESS]),
                    _ if hangs => loop {
                        let _ = begun.send(());
                        thread::park();
                    },
                    _ => Err(io::Error::other("try again")),
                }
            }
        };
        let resolver = CachingResolver::with_lookup(clock.clone(), recording(&asked, answers));
        resolve(&resolver, "http://localhost/").unwrap();
        let patience = if hangs { Duration::from_millis(20) } else { RESOLVE_TIMEOUT };
        let resolved = || resolve_within(&resolver, "http://localhost/", patience);
        for is_in_doubt in [false, true] {
            if is_in_doubt {
                resolver.forget();
            }
            clock.advance(RESOLVE_MAX_AGE);
            assert_eq!(resolved().unwrap(), [SocketAddr::new(ADDRESS, 80)], "{hangs}");
        }
        clock.advance(RESOLVE_OLD_MAX_AGE);
        let expected = if hangs { "localhost: timed out" } else { "localhost: try again" };
        assert_eq!(problem(resolved()), expected);
        if hangs {
            begins.recv().unwrap();
        }
        assert_eq!(asked.lock().unwrap().len(), if hangs { 2 } else { 4 });
    }
}

/// The time of a request is for its calls.
#[test]
fn a_lookup_that_hangs_is_waited_for_once_where_there_are_addresses() {
    let now = FakeClock::new().now();
    let mut name = Name::new("a.example");
    assert_eq!(name.patience(now), RESOLVE_TIMEOUT);
    name.lookup_begun_at = Some(now);
    assert_eq!(name.patience(now), RESOLVE_TIMEOUT);
    name.end_lookup(Ok(vec![ADDRESS]), now);
    let begun = now + RESOLVE_MAX_AGE;
    name.lookup_begun_at = Some(begun);
    assert_eq!(name.patience(begun), RESOLVE_PATIENCE);
    assert_eq!(name.patience(begun + RESOLVE_PATIENCE), Duration::ZERO);
    assert_eq!(name.patience(now + RESOLVE_OLD_MAX_AGE), RESOLVE_TIMEOUT);
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
        let error = problem(resolve_within(&resolver, "http://localhost/", Duration::from_millis(10)));
        assert_eq!(error, "localhost: timed out");
    }
    drop(release);
    assert_eq!(resolve(&resolver, "http://localhost/").unwrap().len(), 1);
    assert_eq!(asked.lock().unwrap().len(), 1);
}

#[test]
fn addresses_where_nobody_could_be_reached_are_forgotten() {
    let asked = Asked::default();
    let resolver = CachingResolver::with_lookup(FakeClock::new(), recording(&asked, |_| Ok(vec![ADDRESS])));
    resolve(&resolver, "http://localhost/").unwrap();
    resolver.forget();
    resolve(&resolver, "http://localhost/").unwrap();
    assert_eq!(asked.lock().unwrap().len(), 2);
}
