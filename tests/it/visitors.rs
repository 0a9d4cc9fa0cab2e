//! What visitors get while what is published changes. A visitor that is served before a change and after it is served
//! throughout, by the old service or by the new one: however long configurations and records take to the edge, whatever
//! fails between two writes, and wherever the program ends.

mod laws;

use std::fmt::Write as _;
use std::time::Duration;

use cloudflare_emulator::{Emulator, Visit, Watched};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use serde_json::json;
use test_support::harness::{endpoint, published};
use test_support::sweeps;

use crate::shared_account::{OFFICE_DOCUMENT, SharedAccount};
use crate::simulation::{AGES, Kind, Pace, Simulation, Trouble, Writes};

/// How long things take, in milliseconds: connectors, records. No way to the edge is longer than the time for which a
/// move leaves its old rule.
type Delays = (&'static str, &'static [u64], u64);

const DELAYS: [Delays; 6] = [
    ("configurations 300 ms", &[300], 0),
    ("one connector 300 ms", &[0, 300], 0),
    ("records 300 ms", &[0], 300),
    ("both 300 ms", &[300], 300),
    ("configurations 20 s", &[20_000], 0),
    ("records 20 s", &[0], 20_000),
];

/// A write is answered after some milliseconds, or nothing would lie between two of them.
fn pace(connectors: &[u64], records: u64) -> Pace {
    Pace { connectors: connectors.to_vec(), records, write: 10 }
}

/// Visitors of hostnames that no change concerns, and what they get: hostnames of ours beside it, and foreign ones.
const NEIGHBOURS: [(&str, &str); 8] = [
    ("https://stays.example.com/", "http://stays:80"),
    ("https://stays-too.example.com/api", "http://stays-too:80"),
    ("https://hand.example.com/", "A 192.0.2.1"),
    ("https://anything.example.com/", "http://wild:80"),
    ("https://deep.under.example.com/api", "http://wild:80"),
    ("https://elsewhere.example.com/", "CNAME somewhere.test"),
    ("https://legacy.example.com/theirs", "http://legacy:80"),
    ("https://hand.example.org/", "A 192.0.2.7"),
];

/// `CF_TUNNEL_ID` before a change.
const TUNNELS: &str = "home,office";

/// A visitor: what for, served by what before, and by what afterwards.
type Visitor = (&'static str, &'static str, &'static str);

/// What stands there that is foreign, perhaps to be taken over.
type Holding = fn(&Emulator);

/// A change, and the visitors that it concerns.
struct Change {
    label: &'static str,
    before: Vec<Endpoint>,
    after: Vec<Endpoint>,
    visitors: Vec<Visitor>,
    adopt: &'static str,
    holding: Holding,
    /// Whether it cannot wait longer for the edge than one request does.
    is_at_once: bool,
    /// `CF_TUNNEL_ID` from the change on.
    tunnels: &'static str,
}

impl Change {
    fn new(label: &'static str, before: Vec<Endpoint>, after: Vec<Endpoint>, visitors: &[Visitor]) -> Self {
        Self {
            label,
            before,
            after,
            visitors: visitors.to_vec(),
            adopt: "",
            holding: |_| {},
            is_at_once: false,
            tunnels: TUNNELS,
        }
    }

    /// The change the other way round.
    fn and_back(self, label: &'static str) -> [Self; 2] {
        let visitors = self.visitors.iter().map(|(url, before, after)| (*url, *after, *before)).collect();
        let (before, after) = (self.after.clone(), self.before.clone());
        let back = Self { label, before, after, visitors, ..self };
        [self, back]
    }

    /// Says how many writes there were, and which visitors were lost.
    fn run(&self, pace: Pace, trouble: Trouble, age: u64) -> Result<(Writes, Vec<Watched>), String> {
        let with_neighbours = |endpoints: &[Endpoint]| -> Vec<Endpoint> {
            let stays = published("stays.example.com", "http://stays:80");
            endpoints
                .iter()
                .cloned()
                .chain([stays, in_tunnel("office", "stays-too", "", "http://stays-too:80")])
                .collect()
        };
        let mut simulation =
            Simulation::new(SharedAccount::holding(self.holding), &[("ADOPT", self.adopt)], pace);
        simulation.run_to_rest(&with_neighbours(&self.before))?;
        simulation.pass(age);
        let neighbours = NEIGHBOURS.iter().map(|(url, service)| (*url, *service, *service));
        let visitors: Vec<Visitor> = self.visitors.iter().copied().chain(neighbours).collect();
        let urls: Vec<&str> = visitors.iter().map(|(url, _, _)| *url).collect();
        let cloudflare = simulation.account.cloudflare();
        cloudflare.watch(&urls);
        if self.tunnels != TUNNELS {
            simulation.list_tunnels(self.tunnels);
        }
        simulation.expect(trouble);
        let writes = simulation.run_to_rest(&with_neighbours(&self.after))?;

        let violations = simulation.account.violations();
        if !violations.is_empty() {
            return Err(violations.join("\n"));
        }
        let watched = simulation.account.cloudflare().watched();
        for ((url, before, after), watched) in visitors.iter().zip(&watched) {
            let ends = [watched.changes.first(), watched.changes.last()]
                .map(|change| change.expect("it was visited"));
            for (change, expected) in ends.into_iter().zip([before, after]) {
                let is_expected = |visit: &Visit| visit.to_string().starts_with(expected);
                if !change.got.iter().all(is_expected) {
                    return Err(format!("a visitor of {url} gets {change} in place of {expected}"));
                }
            }
        }
        let lost = watched.into_iter().filter(|watched| !watched.lost().is_empty());
        let named = |watched: Watched| Watched { url: simulation.named(&watched.to_string()), ..watched };
        Ok((writes, lost.map(named).collect()))
    }
}

/// What is lost of one change.
#[derive(Default)]
struct Losses {
    /// At which pace, or with which trouble, and for how long at most.
    at: Vec<(&'static str, Duration)>,
    /// The first run with a loss.
    example: Option<String>,
}

impl Losses {
    fn of(change: &Change) -> Self {
        let mut losses = Self::default();
        let Writes { configurations, batches } =
            losses.add(change, "all at once", pace(&[0], 0), Trouble::None, AGES[0]);
        let waits =
            |(_, connectors, _): &Delays| !change.is_at_once || connectors.iter().all(|it| *it < 4_000);
        let slow = Pace { write: 300, ..pace(&[0], 0) };
        let trouble = |label, trouble| (label, pace(&[300], 300), trouble);
        let runs = DELAYS
            .into_iter()
            .filter(waits)
            .map(|(label, connectors, records)| (label, pace(connectors, records), Trouble::None))
            .chain([("writes 300 ms", slow, Trouble::None)])
            .chain((1..=batches).map(|nth| trouble("records fail for 4 s", Trouble::Fails(Kind::Batch, nth))))
            .chain(
                (1..=configurations).map(|nth| {
                    trouble("configurations fail for 4 s", Trouble::Fails(Kind::Configuration, nth))
                }),
            )
            .chain([trouble("looks fail for 4 s", Trouble::Fails(Kind::Look, 1))])
            .chain(
                (1..=configurations + batches)
                    .map(|nth| trouble("the program ends", Trouble::EndsAfter(nth))),
            );
        let runs: Vec<_> = runs.collect();
        let runs = AGES.into_iter().flat_map(|age| runs.iter().cloned().map(move |run| (run, age)));
        // Changes of one kind have labels of several lengths.
        for ((label, pace, trouble), age) in sweeps::part(change.label.len(), runs.collect()) {
            losses.add(change, label, pace, trouble, age);
        }
        losses
    }

    fn add(
        &mut self,
        change: &Change,
        label: &'static str,
        pace: Pace,
        trouble: Trouble,
        age: u64,
    ) -> Writes {
        let run = format!("{}: {label}, {trouble:?}, records of {age} s", change.label);
        let (writes, lost) = change.run(pace, trouble, age).expect(&run);
        let Some(longest) = lost.iter().map(Watched::lost_time).max() else {
            return writes;
        };
        match self.at.last_mut().filter(|(last, _)| *last == label) {
            Some((_, time)) => *time = longest.max(*time),
            None => self.at.push((label, longest)),
        }
        let visits: Vec<&str> = lost.iter().map(|watched| &*watched.url).collect();
        self.example.get_or_insert_with(|| {
            format!("{label}, {trouble:?}, records of {age} s\n{}", visits.join("\n"))
        });
        writes
    }
}

/// No visit may be lost, in no run of any of the changes.
fn no_visitor_is_lost(changes: impl IntoIterator<Item = Change>) {
    let mut told = String::new();
    for change in changes {
        let Losses { at, example: Some(example) } = Losses::of(&change) else { continue };
        writeln!(told, "\n{}", change.label).expect("a text");
        for (label, time) in at {
            writeln!(told, "  {:>6} ms  {label}", time.as_millis()).expect("a text");
        }
        writeln!(told, "  such as {}", example.replace('\n', "\n    ")).expect("a text");
    }
    assert!(told.is_empty(), "visits lost, in one run at most:\n{told}");
}

fn in_tunnel(tunnel: &str, name: &str, path: &str, service: &str) -> Endpoint {
    let name = if name.contains('.') { name.to_owned() } else { format!("{name}.example.com") };
    let all = [("tunnel", tunnel), ("tunnel-path", path), ("tunnel-service", service)];
    endpoint(&name, &all.into_iter().filter(|(_, value)| !value.is_empty()).collect::<Vec<_>>())
}

const WEB: &str = "web.example.com";
/// No wildcard covers it: without a rule it gets the catch-all.
const ALONE: &str = "web.example.org";

#[test]
fn a_visitor_of_a_hostname_that_moves_is_served_throughout() {
    let all_in = |tunnel: &str, service: &str| {
        vec![
            in_tunnel(tunnel, WEB, "", service),
            in_tunnel(tunnel, WEB, "^/api$", "http://api:80"),
            in_tunnel(tunnel, ALONE, "", "http://alone:80"),
        ]
    };
    let visitors = |before, after| -> [Visitor; 3] {
        [
            ("https://web.example.com/", before, after),
            ("https://web.example.com/api", "http://api:80", "http://api:80"),
            ("https://web.example.org/", "http://alone:80", "http://alone:80"),
        ]
    };
    let moves = Change::new(
        "two hostnames move to another tunnel",
        all_in("home", "http://web:80"),
        all_in("office", "http://web:80"),
        &visitors("http://web:80", "http://web:80"),
    );
    let changes = Change::new(
        "a hostname moves and changes its service",
        all_in("home", "http://web:80"),
        all_in("office", "http://new:80"),
        &visitors("http://web:80", "http://new:80"),
    );
    let rewords = Change::new(
        "a hostname moves and its path is reworded",
        vec![in_tunnel("home", ALONE, "^/api/", "http://api:80")],
        vec![in_tunnel("office", ALONE, "^/api(/|$)", "http://api:80")],
        &[("https://web.example.org/api/x", "http://api:80", "http://api:80")],
    );
    let defaults = Change {
        tunnels: "office,home",
        ..Change::new(
            "another tunnel becomes the default and a path is reworded",
            vec![
                in_tunnel("", ALONE, "", "http://alone:80"),
                in_tunnel("", ALONE, "^/api/", "http://api:80"),
            ],
            vec![
                in_tunnel("", ALONE, "", "http://alone:80"),
                in_tunnel("", ALONE, "^/api(/|$)", "http://api:80"),
            ],
            &[
                ("https://web.example.org/", "http://alone:80", "http://alone:80"),
                ("https://web.example.org/api/x", "http://api:80", "http://api:80"),
            ],
        )
    };
    // A foreign rule for `/theirs` of this hostname stands in the other tunnel already.
    let theirs = Change::new(
        "a hostname moves to a tunnel with a foreign rule for a path of it",
        vec![in_tunnel("home", WEB, "", "http://web:80")],
        vec![in_tunnel("office", WEB, "", "http://web:80")],
        &[
            ("https://web.example.com/theirs", "http://web:80", "http://theirs:81"),
            ("https://web.example.com/", "http://web:80", "http://web:80"),
        ],
    );
    no_visitor_is_lost(moves.and_back("and back").into_iter().chain([changes, rewords, defaults, theirs]));
}

#[test]
fn a_visitor_of_a_hostname_that_is_taken_over_is_served_throughout() {
    fn hold(cloudflare: &Emulator, records: &[(&str, &str)]) {
        for (kind, content) in records {
            let record =
                json!({"name": "adopted.example.org", "type": kind, "content": content, "proxied": true});
            cloudflare.add_record("example.org", record).expect("Cloudflare takes it");
        }
    }
    fn hold_in(cloudflare: &Emulator, tunnel: &str) {
        let id = cloudflare.edit(|cloudflare| cloudflare.tunnel(tunnel).id.clone());
        hold(cloudflare, &[("CNAME", &format!("{id}.cfargotunnel.com"))]);
    }
    fn hold_rule_in(cloudflare: &Emulator, tunnel: &str) {
        let rule = r#"{"hostname":"adopted.example.org","service":"http://theirs:80"}"#;
        let document = OFFICE_DOCUMENT.replacen('[', &format!("[{rule},"), 1);
        cloudflare.put_configuration(tunnel, &document).expect("cloudflared takes it");
        hold_in(cloudflare, tunnel);
    }
    let table: [(&str, Holding, &str); 6] = [
        ("an A record is taken over", |it| hold(it, &[("A", "192.0.2.5")]), "A 192.0.2.5"),
        ("an AAAA record is taken over", |it| hold(it, &[("AAAA", "2001:db8::5")]), "AAAA 2001:db8::5"),
        (
            "several addresses are taken over",
            |it| hold(it, &[("A", "192.0.2.5"), ("A", "192.0.2.6"), ("AAAA", "2001:db8::5")]),
            "A 192.0.2.5",
        ),
        ("a CNAME is taken over", |it| hold(it, &[("CNAME", "somewhere.test")]), "CNAME somewhere.test"),
        (
            "a hostname of another instance's tunnel is taken over",
            |it| {
                it.add_tunnel("theirs");
                hold_rule_in(it, "theirs");
            },
            "http://theirs:80",
        ),
        ("a hostname of our tunnel is taken over", |it| hold_rule_in(it, "office"), "http://theirs:80"),
    ];
    let changes = table.map(|(label, holding, before)| {
        let after = vec![published("adopted.example.org", "http://web:80")];
        let visitors = [("https://adopted.example.org/", before, "http://web:80")];
        // With our stamp its record would be taken for the other instance's in the next loop.
        let is_at_once = before == "http://theirs:80" && label.contains("another instance");
        Change { adopt: "all", holding, is_at_once, ..Change::new(label, Vec::new(), after, &visitors) }
    });
    no_visitor_is_lost(changes);
}

/// Nothing of ours can lead there before the record is gone, and the rule has to go before the record that names its
/// owner.
#[test]
fn a_name_that_is_withdrawn_below_a_wildcard_for_an_address_has_one_gap() {
    let [_, withdrawn] = below_address().and_back("withdrawn below a wildcard record for an address");
    let (_, lost) = withdrawn.run(pace(&[0], 300), Trouble::None, AGES[0]).expect("it is withdrawn");
    let times: Vec<Duration> = lost.iter().map(Watched::lost_time).collect();
    assert_eq!(times, [Duration::from_millis(310)], "as long as a write and the record's way to the edge");
}

fn below_address() -> Change {
    let change = Change::new(
        "published below a wildcard record for an address",
        Vec::new(),
        vec![published("web.wild.example.org", "http://web:80")],
        &[("https://web.wild.example.org/", "A 192.0.2.9", "http://web:80")],
    );
    let holding = |cloudflare: &Emulator| {
        let record = json!({"name": "*.wild.example.org", "type": "A", "content": "192.0.2.9"});
        cloudflare.add_record("example.org", record).expect("Cloudflare takes it");
    };
    Change { holding, ..change }
}
