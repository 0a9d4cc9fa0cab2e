//! The law of `tests/it/visitors.rs` over random changes: no visitor is lost that is served before and after, whatever
//! is published, moved, taken over and withdrawn at once, however long it takes to the edge, whatever fails, and
//! wherever the program ends.

use std::collections::BTreeMap;
use std::time::Duration;

use cloudflare_emulator::{Emulator, Visit, VisitChange, Watched};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use proptest::prelude::*;
use serde_json::json;
use test_support::harness::endpoint;

use crate::shared_account::SharedAccount;
use crate::simulation::{AGES, Kind, Pace, Simulation, Trouble};

/// What may be published: below a foreign wildcard record to the tunnel `home`, a name that may have a foreign record,
/// a wildcard and a name below it, a name that nothing else covers, and one below a wildcard for an address.
const HOSTS: [&str; 6] = [
    "web.example.com",
    "adopted.example.org",
    "*.apps.example.org",
    "web.apps.example.org",
    "alone.example.org",
    "web.wild.example.org",
];

/// Each of them, a name below the wildcard that is never published, and a neighbour.
const URLS: [&str; 14] = [
    "https://web.example.com/",
    "https://web.example.com/api/v2",
    "https://adopted.example.org/",
    "https://adopted.example.org/api/v2",
    "https://web.apps.example.org/",
    "https://web.apps.example.org/api/v2",
    "https://other.apps.example.org/",
    "https://other.apps.example.org/api/v2",
    "https://alone.example.org/",
    "https://alone.example.org/api/v2",
    "https://web.wild.example.org/",
    "https://web.wild.example.org/api/v2",
    "https://anything.example.com/",
    "https://legacy.example.com/theirs",
];

/// The wildcard among them, and the name below it.
const WILDCARD: (&str, &str) = ("*.apps.example.org", "web.apps.example.org");

/// The rules of a hostname: the tunnel, which is the default if it is empty, the service of the whole hostname, and of
/// a path.
#[derive(Clone, Debug, PartialEq)]
struct Published {
    tunnel: &'static str,
    whole: Option<&'static str>,
    path: Option<(&'static str, &'static str)>,
}

type Wanted = BTreeMap<&'static str, Published>;

fn any_published() -> impl Strategy<Value = Option<Published>> {
    let service = || prop::sample::select(vec!["http://web:80", "http://api:80", "none"]);
    let path = prop::sample::select(vec!["^/api/", "^/api(/|$)", "^/api/v2"]);
    let published = (
        prop::sample::select(vec!["", "home", "office"]),
        prop::option::weighted(0.8, service()),
        prop::option::weighted(0.5, (path, prop::sample::select(vec!["http://api:80", "http://v2:80"]))),
    );
    let published = published.prop_map(|(tunnel, whole, path)| Published { tunnel, whole, path });
    prop::option::weighted(0.7, published)
}

/// What is published before and after: half of the hostnames as they were. A name does not change together with the
/// wildcard that takes over from it or gives way to it, because either of the two may be written first. Both would
/// change with the default tunnel.
fn any_change() -> impl Strategy<Value = (Wanted, Wanted)> {
    let host = (any_published(), any_published(), any::<bool>());
    prop::collection::vec(host, HOSTS.len()).prop_map(|hosts| {
        let (mut before, mut after) = (Wanted::new(), Wanted::new());
        for (name, (first, second, stays)) in HOSTS.into_iter().zip(hosts) {
            let second = if stays { first.clone() } else { second };
            before.extend(first.map(|first| (name, first)));
            after.extend(second.map(|second| (name, second)));
        }
        let (wildcard, below) = WILDCARD;
        let uses_default = before.get(wildcard).is_some_and(|published| published.tunnel.is_empty());
        if uses_default || before.get(wildcard) != after.get(wildcard) {
            before.entry(below).and_modify(|published| {
                published.tunnel = if published.tunnel.is_empty() { "home" } else { published.tunnel };
            });
            after.remove(below);
            after.extend(before.get(below).map(|published| (below, published.clone())));
        }
        (before, after)
    })
}

/// The foreign records of the name that is to be taken over.
fn any_holder() -> impl Strategy<Value = &'static [(&'static str, &'static str)]> {
    prop::sample::select(vec![
        &[][..],
        &[("A", "192.0.2.5")],
        &[("A", "192.0.2.5"), ("AAAA", "2001:db8::5")],
        &[("CNAME", "somewhere.test")],
    ])
}

fn any_pace() -> impl Strategy<Value = Pace> {
    let delay = || prop_oneof![Just(0_u64), 1..=300_u64, Just(300)];
    (prop::collection::vec(delay(), 1..3), delay(), 0..=30_u64)
        .prop_map(|(connectors, records, write)| Pace { connectors, records, write })
}

/// The seconds since what is published was written.
fn any_age() -> impl Strategy<Value = u64> {
    prop::sample::select(&AGES[..])
}

/// `CF_TUNNEL_ID` from the change on.
fn any_tunnels() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["home,office", "office,home"])
}

fn any_trouble() -> impl Strategy<Value = Trouble> {
    prop_oneof![
        (1..4_usize).prop_map(|nth| Trouble::Fails(Kind::Batch, nth)),
        (1..4_usize).prop_map(|nth| Trouble::Fails(Kind::Configuration, nth)),
        Just(Trouble::Fails(Kind::Look, 1)),
        (1..7_usize).prop_map(Trouble::EndsAfter),
    ]
}

fn any_old_answer() -> impl Strategy<Value = Trouble> {
    let kind = prop::sample::select(vec![Kind::Reading, Kind::Reading, Kind::List, Kind::Look]);
    let writes = prop::sample::select(vec![1, 1, 2, usize::MAX]);
    (kind, 1..8_usize, writes, any::<bool>()).prop_map(|(kind, nth, writes, is_lasting)| Trouble::Old {
        kind,
        nth,
        writes,
        is_lasting,
    })
}

fn endpoints(wanted: &Wanted) -> Vec<Endpoint> {
    let of = |(name, published): (&&'static str, &Published)| {
        let Published { tunnel, whole, path } = published;
        let rule = |path: &str, service: &str| {
            let properties = [("tunnel", *tunnel), ("tunnel-service", service), ("tunnel-path", path)];
            endpoint(name, &properties.into_iter().filter(|(_, value)| !value.is_empty()).collect::<Vec<_>>())
        };
        let whole = whole.map(|service| rule("", service));
        let path = path.map(|(path, service)| rule(path, service));
        whole.into_iter().chain(path).collect::<Vec<_>>()
    };
    wanted.iter().flat_map(of).collect()
}

/// An account with `before` published, and visitors that begin to ask.
fn begin(before: &Wanted, holder: &[(&str, &str)], pace: &Pace, age: u64) -> Result<Simulation, String> {
    let add = |cloudflare: &Emulator, name: &str, kind: &str, content: &str| {
        let record = json!({"name": name, "type": kind, "content": content, "proxied": true});
        cloudflare.add_record("example.org", record).expect("Cloudflare takes it");
    };
    let account = SharedAccount::holding(|cloudflare| {
        add(cloudflare, "*.wild.example.org", "A", "192.0.2.9");
        if !before.contains_key("adopted.example.org") {
            for (kind, content) in holder {
                add(cloudflare, "adopted.example.org", kind, content);
            }
        }
    });
    let mut simulation = Simulation::new(account, &[("ADOPT", "all")], pace.clone());
    simulation.run_to_rest(&endpoints(before))?;
    simulation.pass(age);
    simulation.account.cloudflare().watch(&URLS);
    Ok(simulation)
}

/// The visitors of a name are promised to be served throughout where the same record leads them before and after. A
/// name that is published below a wildcard record, or withdrawn from under it, may be unserved between two writes. A
/// path alone is not published in another tunnel than that of the foreign wildcard, unless the record is there already.
fn is_promised(url: &str, before: &Wanted, after: &Wanted, is_held: bool) -> bool {
    let host = url.trim_start_matches("https://").split('/').next().unwrap_or_default();
    let record = |wanted: &Wanted| {
        let has_own = |name: &str| {
            wanted.get(name).is_some_and(|published| published.whole.is_some() || published.path.is_some())
        };
        let above = host.split_once('.').map(|(_, above)| format!("*.{above}")).unwrap_or_default();
        let is_own = has_own(host) || host == "adopted.example.org" && is_held;
        if is_own { Some(host.to_owned()) } else { Some(above).filter(|above| has_own(above)) }
    };
    let is_refused = |wanted: &Wanted| {
        let published = wanted.get(host).filter(|_| host.ends_with(".example.com"));
        published.is_some_and(|one| one.whole.is_none() && one.path.is_some() && one.tunnel != "home")
    };
    record(before) == record(after) && !is_refused(before) && !is_refused(after)
}

/// What visitors get before and after.
fn ends(watched: &Watched) -> [&VisitChange; 2] {
    [watched.changes.first(), watched.changes.last()].map(|change| change.expect("it was visited"))
}

/// The visitors that were lost, and the violations of what is foreign.
fn end(
    simulation: &Simulation,
    before: &Wanted,
    after: &Wanted,
    is_held: bool,
) -> Result<Vec<Watched>, String> {
    let violations = simulation.account.violations();
    if !violations.is_empty() {
        return Err(violations.join("\n"));
    }
    let watched = simulation.account.cloudflare().watched();
    let lost: Vec<String> = watched
        .iter()
        .filter(|watched| is_promised(&watched.url, before, after, is_held) && !watched.lost().is_empty())
        .map(|watched| simulation.named(&watched.to_string()))
        .collect();
    if lost.is_empty() { Ok(watched) } else { Err(lost.join("\n")) }
}

/// A case plays dozens of loops, and so takes as long as a hundred cases of a law of the pure core.
fn config() -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig { cases: config.cases.div_ceil(4), ..config }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_visitor_is_lost_however_slow_the_edge_is(
        (before, after) in any_change(),
        holder in any_holder(),
        pace in any_pace(),
        age in any_age(),
        tunnels in any_tunnels(),
    ) {
        let mut simulation = begin(&before, holder, &pace, age).map_err(TestCaseError::fail)?;
        simulation.list_tunnels(tunnels);
        simulation.run_to_rest(&endpoints(&after)).map_err(TestCaseError::fail)?;
        end(&simulation, &before, &after, !holder.is_empty()).map_err(TestCaseError::fail)?;
    }

    /// Invariant 8 of docs/how-it-works.md.
    #[test]
    fn no_visitor_is_lost_whatever_fails_and_wherever_the_program_ends(
        (before, after) in any_change(),
        holder in any_holder(),
        pace in any_pace(),
        trouble in any_trouble(),
        age in any_age(),
        tunnels in any_tunnels(),
    ) {
        let mut simulation = begin(&before, holder, &pace, age).map_err(TestCaseError::fail)?;
        simulation.list_tunnels(tunnels);
        simulation.expect(trouble);
        simulation.run_to_rest(&endpoints(&after)).map_err(TestCaseError::fail)?;
        end(&simulation, &before, &after, !holder.is_empty()).map_err(TestCaseError::fail)?;
    }

    /// Invariant 8 of docs/how-it-works.md. The change is made by the process that wrote what was there before, so that
    /// it can tell.
    #[test]
    fn no_visitor_is_lost_by_an_answer_that_is_old(
        (before, after) in any_change(),
        holder in any_holder(),
        pace in any_pace(),
        trouble in any_old_answer(),
        age in any_age(),
    ) {
        let mut simulation = begin(&before, holder, &pace, age).map_err(TestCaseError::fail)?;
        simulation.expect(trouble);
        simulation.run_to_rest(&endpoints(&after)).map_err(TestCaseError::fail)?;
        end(&simulation, &before, &after, !holder.is_empty()).map_err(TestCaseError::fail)?;
    }

    /// A visitor that is served before the change and was to be served after it is served all along where the change is
    /// taken back on its way.
    #[test]
    fn no_visitor_is_lost_where_a_change_is_taken_back(
        (before, after) in any_change(),
        pace in any_pace(),
        pause_seconds in 0..90_u64,
        age in any_age(),
    ) {
        let mut simulation = begin(&before, &[], &pace, age).map_err(TestCaseError::fail)?;
        simulation.run_to_rest(&endpoints(&after)).map_err(TestCaseError::fail)?;
        let wanted = simulation.account.cloudflare().watched();
        simulation.run_to_rest(&endpoints(&before)).map_err(TestCaseError::fail)?;
        simulation.pass(age);

        simulation.account.cloudflare().watch(&URLS);
        let _ = simulation.run_loop(&endpoints(&after)).map_err(TestCaseError::fail)?;
        simulation.account.cloudflare().advance_clock(Duration::from_secs(pause_seconds));
        simulation.run_to_rest(&endpoints(&before)).map_err(TestCaseError::fail)?;
        let watched = simulation.account.cloudflare().watched();
        for (there, back) in wanted.iter().zip(&watched) {
            let [first, last] = ends(there);
            let steady: Vec<&Visit> = first.got.iter().chain(&last.got).collect();
            let are_promised = is_promised(&there.url, &before, &after, false);
            if !are_promised || !steady.iter().all(|visit| visit.is_served()) {
                continue;
            }
            let mut got = back.changes.iter().flat_map(|change| &change.got);
            if let Some(lost) = got.find(|visit| !steady.iter().any(|steady| steady.is_answered_like(visit))) {
                let text = format!("{lost} is neither {first} nor {last}: {back}");
                prop_assert!(false, "{}", simulation.named(&text));
            }
        }
    }
}
