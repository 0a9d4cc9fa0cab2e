use std::sync::mpsc;

use ureq::unversioned::transport::time;

use super::*;
use crate::cloudflare::fixture::FakeClock;

const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7));

/// Longer than anything here takes.
const WAIT: Duration = Duration::from_secs(60);

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
    let Err(ureq::Error::Io(error)) = outcome else {
        panic!("{outcome:?}");
    };
    error.to_string()
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

/// Otherwise each call would cost a thread, and a slow name server a request's time.
#[test]
fn the_name_is_looked_up_once_a_minute_behind_the_calls_and_its_addresses_are_used_for_an_hour() {
    let (clock, asked) = (FakeClock::new(), Asked::default());
    let (answer, answers) = mpsc::channel();
    let answers = Mutex::new(answers);
    let next = move |_: &str| answers.lock().unwrap().recv().unwrap();
    let resolver = CachingResolver::with_lookup(clock.clone(), recording(&asked, next));
    let settle =
        || drop(wait_while(&resolver.cache.1, lock(&resolver.cache.0), WAIT, |name| name.is_looking_up));
    let resolved = || resolve(&resolver, "http://localhost/").map(|found| found[0].ip());
    let lookups = || asked.lock().unwrap().len();
    let other = IpAddr::from([192, 0, 2, 8]);

    answer.send(Ok(vec![ADDRESS])).unwrap();
    for _ in 0..3 {
        assert_eq!((resolved().unwrap(), lookups()), (ADDRESS, 1));
    }
    clock.advance(LOOKUP_PERIOD);
    // It is asked, and nothing answers yet.
    assert_eq!(resolved().unwrap(), ADDRESS);
    answer.send(Ok(vec![other])).unwrap();
    settle();
    assert_eq!((resolved().unwrap(), lookups()), (other, 2));
    for outcome in [Err(io::Error::other("try again")), Ok(Vec::new())] {
        clock.advance(LOOKUP_PERIOD);
        answer.send(outcome).unwrap();
        for _ in 0..2 {
            assert_eq!(resolved().unwrap(), other);
            settle();
        }
    }
    assert_eq!(lookups(), 4);
    clock.advance(ADDRESSES_MAX_AGE);
    answer.send(Err(io::Error::other("try again"))).unwrap();
    assert_eq!(problem(resolve(&resolver, "http://localhost/")), "localhost: try again");
    answer.send(Ok(vec![ADDRESS])).unwrap();
    assert_eq!((resolved().unwrap(), lookups()), (ADDRESS, 6), "a failure is not kept");
}

/// A silent name server must not collect a thread for each call.
#[test]
fn calls_side_by_side_share_one_lookup_and_end_in_time() {
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
    thread::scope(|scope| {
        let calls: Vec<_> =
            (0..4).map(|_| scope.spawn(|| resolve_within(&resolver, "http://localhost/", WAIT))).collect();
        drop(release);
        for call in calls {
            assert_eq!(call.join().unwrap().unwrap(), [SocketAddr::new(ADDRESS, 80)]);
        }
    });
    assert_eq!(asked.lock().unwrap().len(), 1);
}

/// Each address is written as its end: 4x is IPv4, 6x is IPv6.
#[test]
fn addresses_of_both_families_are_tried_in_turn_beginning_with_the_family_that_connected_last() {
    let address = |name: &str| -> IpAddr {
        let ending = &name[1..];
        if name.starts_with('4') { format!("192.0.2.{ending}") } else { format!("2001:db8::{ending}") }
            .parse()
            .unwrap()
    };
    let addresses = |names: &str| -> Vec<IpAddr> { names.split_whitespace().map(address).collect() };
    for (found, front, expected) in [
        ("61 62 63 41 42 43", "", "41 61 42"),
        ("61 62 63 41 42 43", "42", "42 61 41"),
        ("61 62 63 41 42 43", "62", "62 41 61"),
        // The address is no longer in the list, but its family still begins.
        ("41 42 61 62", "69", "61 41 62"),
        ("61 62 63 64", "", "61 62 63"),
        ("61 41 42", "", "41 61 42"),
        ("41 61 62", "", "41 61 62"),
        ("61", "41", "61"),
    ] {
        let front = addresses(front).first().copied();
        assert_eq!(interleaved(addresses(found), front), addresses(expected), "{found}, {front:?}");
    }
}

#[test]
fn an_address_that_is_given_up_comes_last_however_many_calls_give_it_up() {
    let [first, second] = [[192, 0, 2, 1], [192, 0, 2, 2]].map(IpAddr::from);
    let (clock, asked) = (FakeClock::new(), Asked::default());
    let resolver = CachingResolver::with_lookup(clock, recording(&asked, move |_| Ok(vec![first, second])));
    resolve(&resolver, "http://a.example/").unwrap();
    for _ in 0..3 {
        resolver.demote(Some(first));
        assert_eq!(resolver.front(), Some(second));
    }
    resolver.demote(None);
    assert_eq!(resolver.front(), Some(first), "the call did not know any");
    resolver.demote(Some(first));
    resolve(&resolver, "http://a.example/").unwrap();
    drop(wait_while(&resolver.cache.1, lock(&resolver.cache.0), WAIT, |name| name.is_looking_up));
    assert_eq!((resolver.front(), asked.lock().unwrap().len()), (Some(second), 2), "it is looked up again");
}
