//! What `/metrics` shows is true and well-formed, and no loop waits for the look at the connectors.

#![allow(clippy::panic, clippy::indexing_slicing, reason = "what is missing fails the test")]

mod exposition;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cloudflare_emulator::{Call, Fault, Matcher, RateLimit};

use external_dns_cloudflare_tunnel_webhook::limits;
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use external_dns_cloudflare_tunnel_webhook::observe::metrics::{Definition, Family};
use serde_json::json;
use test_support::clock::{ManualClock, eventually};
use test_support::external_dns::{Answer, Changes};
use test_support::fake_cloudflare::MASS_DELETION_LIMIT_DEFAULT;
use test_support::harness;
use test_support::harness::{FOREIGN_DOCUMENT, Harness, Program, TOKEN, published};

use exposition::{Exposition, Labels};

/// A tunnel's name that would break out of a label's quotes.
const OFFICE: &str = "of\"fi\\ce";

/// The program, which runs by a clock of its own.
struct Fixture {
    program: Program,
    harness: Harness,
    clock: Arc<ManualClock>,
}

impl Fixture {
    fn new(harness: Harness, variables: &[(&'static str, &str)]) -> Self {
        let clock = Arc::new(ManualClock::default());
        let program = harness.start_by(Arc::clone(&clock) as _, variables);
        program.wait_until_ready();
        Self { program, harness, clock }
    }

    fn run_loop(&self, desired: &[Endpoint]) {
        self.program.external_dns().run_loop(desired).expect("the loop goes through");
    }

    fn ask(&self, method: &str) -> Answer {
        self.program.observe(method, "/metrics").expect("the observation port answers")
    }

    fn scrape(&self) -> Exposition {
        Exposition::parse(&self.ask("GET").body)
    }

    /// The value of a family's sample, `None` where there is none. Labels are given in the order of the table.
    fn value(&self, family: Family, labels: &[&str]) -> Option<f64> {
        let Definition { name, labels: names, .. } = family.definition();
        assert_eq!(names.len(), labels.len(), "{name}");
        let labels: Vec<(&str, &str)> = names.iter().copied().zip(labels.iter().copied()).collect();
        self.scrape().value(name, &labels)
    }

    /// All values of a family, by the values of its labels.
    fn values(&self, family: Family) -> BTreeMap<Vec<String>, f64> {
        self.samples(family, "")
    }

    /// How many observations a histogram holds, by the values of its labels.
    fn counts(&self, family: Family) -> BTreeMap<Vec<String>, f64> {
        self.samples(family, "_count")
    }

    fn samples(&self, family: Family, suffix: &str) -> BTreeMap<Vec<String>, f64> {
        let Definition { name, labels: names, .. } = family.definition();
        let values = |labels: Labels| names.iter().map(|name| labels[*name].clone()).collect();
        let samples = self.scrape().samples(&format!("{name}{suffix}"));
        samples.into_iter().map(|(labels, value)| (values(labels), value)).collect()
    }

    fn looks(&self) -> usize {
        self.harness.cloudflare.calls().iter().filter(|call| is_look(call)).count()
    }

    /// Lets time pass until so many looks more have begun. Those before the last one are over.
    fn await_looks(&self, count: usize) {
        let looks = self.looks();
        eventually("a look", || {
            self.clock.put_ahead(limits::CONNECTORS_PERIOD);
            self.looks() >= looks + count
        });
    }

    /// The same for one look and what it has to show.
    fn await_look(&self, family: Family, labels: &[&str], expected: Option<f64>) {
        self.await_looks(1);
        eventually("its result", || self.value(family, labels) == expected);
    }

    /// How many lines hold all of `words`.
    fn said(&self, words: &[&str]) -> usize {
        self.harness.log.lines_with(words).len()
    }
}

fn is_look(call: &Call) -> bool {
    call.path.ends_with("/connections")
}

fn matcher() -> Matcher {
    Matcher::call("GET", "/accounts/*/cfd_tunnel/*/connections")
}

/// Expected values by the values of labels.
fn expected<const N: usize>(rows: &[([&str; N], f64)]) -> BTreeMap<Vec<String>, f64> {
    rows.iter().map(|(labels, value)| (labels.map(str::to_owned).to_vec(), *value)).collect()
}

#[test]
fn a_scrape_is_well_formed_and_shows_every_family_of_the_table_and_no_other() {
    let fixture = Fixture::new(Harness::new(), &[]);
    let answer = fixture.ask("GET");
    let content_type = answer.head.lines().find_map(|line| line.strip_prefix("Content-Type: "));
    assert_eq!(content_type, Some("text/plain; version=0.0.4; charset=utf-8"));
    let shown = Exposition::parse(&answer.body).families;
    let shown: Vec<(&str, &str, &str)> =
        shown.iter().map(|family| (&*family.name, &*family.kind, &*family.help)).collect();
    let table = Family::ALL.iter().map(|family| family.definition());
    let table: Vec<(&str, &str, &str)> =
        table.map(|family| (family.name, family.kind, family.help)).collect();
    assert_eq!(shown, table);

    let head = fixture.ask("HEAD");
    assert_eq!((head.status, &*head.body), (200, ""));
    assert!(head.head.contains("Content-Type: text/plain; version=0.0.4"), "{}", head.head);
}

#[test]
fn the_documents_have_every_metric_of_the_program_in_its_words() {
    let document = include_str!("../../docs/operations.md");
    let (_, section) = document.split_once("\n### Metrics\n").expect("there is a section");
    let (section, _) = section.split_once("\n### ").expect("another one follows");
    // An entry may have several lines.
    let section = section.replace("\n  ", " ");
    let entries: Vec<&str> = section.lines().filter(|line| line.starts_with("- `")).collect();
    let table = Family::ALL.iter().map(|family| {
        let Definition { name, kind, labels, help } = family.definition();
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        let separator = if labels.is_empty() { "" } else { "; " };
        format!("- `{name}` ({kind}{separator}{}): {help}", labels.join(", "))
    });
    assert_eq!(entries, table.collect::<Vec<_>>());
}

/// Of three updates one changes nothing, and one meets a rule that has become foreign by the time it is written.
#[test]
fn the_log_and_the_counters_say_only_what_was_written() {
    let fixture = Fixture::new(Harness::new(), &[]);
    let names = ["idle.u06.example.com", "mended.u06.example.com", "written.u06.example.com"];
    let to = |port: usize| names.map(|name| published(name, &format!("http://web:{port}")));
    fixture.run_loop(&to(80));
    let changed = [to(80)[0].clone(), to(81)[1].clone(), to(81)[2].clone()];
    let changes = Changes {
        update_new: fixture.program.external_dns().adjust(&changed).expect("adjusted"),
        ..Changes::default()
    };
    let configuration = Matcher::call("GET", "/accounts/*/cfd_tunnel/*/configurations");
    fixture.harness.cloudflare.edit_after(configuration, 1, |cloudflare| {
        let document = cloudflare.configuration("home").expect("it was written").get();
        let rule =
            |port: usize| format!(r#"{{"hostname":"mended.u06.example.com","service":"http://web:{port}"}}"#);
        let mended = document.replace(&rule(80), &rule(81));
        cloudflare.put_configuration("home", &mended).expect("cloudflared takes it");
    });
    fixture.program.external_dns().apply(&changes).expect("applied");
    let published = fixture.values(Family::Changes)[&vec!["rule_written".to_owned()]];
    assert_eq!(published, names.len() as f64 + 1.0, "all of them, and one of them again");
    let lines = names.map(|name| fixture.said(&[name, "rule created or updated"]));
    assert_eq!(lines, [1, 1, 2]);
    assert_eq!(fixture.harness.rules().iter().filter(|rule| rule.contains(":81")).count(), 2);
}

/// What in the emulator's list a call is called in the metrics.
fn resource(call: &Call) -> &'static str {
    let segments: Vec<&str> = call.path.split('/').skip(1).collect();
    match *segments {
        [.., "tokens", "verify"] => "token",
        ["zones"] => "zones",
        ["zones", _, "dns_records", ..] => "records",
        [.., "cfd_tunnel"] => "tunnels",
        [.., "configurations"] => "configuration",
        [.., "connections"] => "connections",
        _ => panic!("{}", call.line()),
    }
}

/// A program of two tunnels, and what is asked of it at first.
fn two_tunnels() -> (Fixture, Vec<Endpoint>) {
    let harness = Harness::with_foreign();
    let office = harness.cloudflare.add_tunnel(OFFICE);
    let names = format!("home,{OFFICE}");
    let fixture = Fixture::new(harness, &[("CF_TUNNEL_ID", &names)]);
    let mut desired: Vec<Endpoint> = [
        ("www.example.com", "http://web:80"),
        ("api.example.com", "http://api:80"),
        ("hand.example.com", "http://web:80"),
        ("www.example.net", "http://web:80"),
        ("bad.example.com", "http://web:80/path"),
        ("worse.example.com", "web"),
    ]
    .map(|(name, service)| published(name, service))
    .into();
    let mut on_office = published("office.example.com", "http://office:80");
    on_office.provider_specific.extend(harness::endpoint("x", &[("tunnel", &office)]).provider_specific);
    desired.push(on_office);
    (fixture, desired)
}

/// Two loops; a third in which one hostname is changed while another program writes, one is withdrawn, and what was
/// refused is not asked for any more; a fourth; and a request for a path that does not exist.
fn conversation() -> Fixture {
    let (fixture, mut desired) = two_tunnels();
    fixture.run_loop(&desired);
    fixture.run_loop(&desired);
    fixture.clock.unix_seconds.store(1_800_000_060, Ordering::Relaxed);
    desired.retain(|endpoint| endpoint.dns_name.starts_with("office."));
    desired.push(published("www.example.com", "http://web:81"));
    fixture.harness.cloudflare.edit_before(Matcher::put_configuration(), 1, |cloudflare| {
        cloudflare.put_configuration("home", FOREIGN_DOCUMENT).expect("cloudflared takes it");
    });
    fixture.run_loop(&desired);
    fixture.clock.unix_seconds.store(1_800_000_120, Ordering::Relaxed);
    fixture.run_loop(&desired);
    assert_eq!(fixture.program.external_dns().call("GET", "/nothing", "").status, 404);
    fixture
}

#[test]
fn refusals_are_those_of_the_last_request_and_changes_add_up() {
    let (fixture, desired) = two_tunnels();
    assert_eq!(fixture.value(Family::LastRead, &[]), Some(0.0), "nothing was read yet");
    fixture.run_loop(&desired);
    fixture.run_loop(&desired);
    assert_eq!(
        fixture.values(Family::Refusals),
        expected(&[(["record_held"], 1.0), (["no_zone"], 1.0), (["invalid"], 2.0)])
    );
    assert_eq!(
        fixture.values(Family::Changes),
        expected(&[(["record_created"], 3.0), (["rule_written"], 3.0)])
    );
    assert_eq!(fixture.value(Family::LostUpdates, &[]), Some(0.0));

    let fixture = conversation();
    assert_eq!(
        fixture.values(Family::Refusals),
        expected(&[(["record_held"], 0.0), (["no_zone"], 0.0), (["invalid"], 0.0)])
    );
    assert_eq!(
        fixture.values(Family::Changes),
        expected(&[
            (["record_created"], 3.0),
            (["record_deleted"], 1.0),
            (["rule_written"], 4.0),
            (["rule_deleted"], 1.0),
        ])
    );
}

#[test]
fn calls_are_counted_as_cloudflare_got_them() {
    let fixture = conversation();
    let calls = fixture.harness.cloudflare.calls();
    let left = (limits::RATE_CALLS - limits::RATE_KEPT_FOR_OTHERS - calls.len()) as f64;
    assert_eq!(fixture.value(Family::CallsLeft, &[]), Some(left));
    let mut by_resource: BTreeMap<Vec<String>, f64> = BTreeMap::new();
    let mut by_all: BTreeMap<Vec<String>, f64> = BTreeMap::new();
    for call in &calls {
        let status = call.status.expect("every call was answered").to_string();
        *by_resource.entry(vec![resource(call).to_owned()]).or_default() += 1.0;
        *by_all.entry(vec![resource(call).to_owned(), call.method.clone(), status]).or_default() += 1.0;
    }
    assert_eq!(fixture.values(Family::Calls), by_all);
    assert_eq!(fixture.counts(Family::CallDuration), by_resource);
}

#[test]
fn requests_are_counted_by_route_and_status() {
    let fixture = conversation();
    assert_eq!(
        fixture.values(Family::Requests),
        expected(&[
            (["GET /records", "200"], 4.0),
            (["POST /adjustendpoints", "200"], 4.0),
            (["POST /records", "204"], 3.0),
            (["other", "404"], 1.0),
        ])
    );
    assert_eq!(
        fixture.counts(Family::RequestDuration),
        expected(&[
            (["GET /records"], 4.0),
            (["POST /adjustendpoints"], 4.0),
            (["POST /records"], 3.0),
            (["other"], 1.0)
        ])
    );
}

#[test]
fn rules_records_and_versions_are_those_at_cloudflare() {
    let fixture = conversation();
    let cloudflare = &fixture.harness.cloudflare;
    assert_eq!(
        fixture.values(Family::Rules),
        expected(&[
            (["home", "own"], 1.0),
            (["home", "foreign"], 3.0),
            ([OFFICE, "own"], 1.0),
            ([OFFICE, "foreign"], 1.0),
        ])
    );
    let records = cloudflare.records(&fixture.harness.zone).len() as f64;
    assert_eq!(fixture.values(Family::Records), expected(&[(["example.com", "CNAME"], 2.0)]));
    assert_eq!(fixture.values(Family::ZoneRecords), expected(&[(["example.com"], records)]));
    assert_eq!(
        fixture.values(Family::ConfigurationVersion),
        expected(&[
            (["home"], cloudflare.version("home") as f64),
            ([OFFICE], cloudflare.version(OFFICE) as f64)
        ])
    );
}

#[test]
fn a_tunnel_and_a_type_of_records_that_are_gone_have_no_gauges() {
    let (fixture, desired) = two_tunnels();
    fixture.run_loop(&desired);
    fixture.run_loop(&[]);
    fixture.harness.cloudflare.edit(|cloudflare| cloudflare.tunnel_mut(OFFICE).deleted = true);
    fixture.clock.put_ahead(limits::CONNECTORS_PERIOD);
    fixture.run_loop(&[]);
    fixture.run_loop(&[]);
    for family in [Family::Rules, Family::ConfigurationVersion] {
        let tunnels: BTreeSet<String> =
            fixture.values(family).into_keys().map(|labels| labels[0].clone()).collect();
        assert_eq!(tunnels, BTreeSet::from(["home".to_owned()]), "{family:?}");
    }
    assert_eq!(fixture.values(Family::Records), BTreeMap::new());
}

#[test]
fn what_has_no_labels_has_the_value_that_the_conversation_gave_it() {
    let fixture = conversation();
    for (family, value) in [
        (Family::Ready, 1.0),
        (Family::DryRun, 0.0),
        (Family::LastRead, 1_800_000_120.0),
        (Family::LastWrite, 1_800_000_060.0),
        (Family::Adoptions, 0.0),
        (Family::LostUpdates, 1.0),
    ] {
        assert_eq!(fixture.value(family, &[]), Some(value), "{family:?}");
    }
    assert_eq!(fixture.value(Family::BuildInfo, &[env!("CARGO_PKG_VERSION")]), Some(1.0));
}

#[test]
fn a_scrape_shows_neither_a_secret_nor_a_hostname() {
    let fixture = conversation();
    let text = fixture.ask("GET").body;
    for secret in [TOKEN, "www.example", "api.example", "hand.example", "office.example", "cfargotunnel"] {
        assert!(!text.contains(secret), "{secret} is shown");
    }

    // `just promtool` gives it to Prometheus' own tools.
    fixture.await_look(Family::Connectors, &["home"], Some(1.0));
    let scrape = concat!(env!("CARGO_TARGET_TMPDIR"), "/metrics.txt");
    fs::write(scrape, fixture.ask("GET").body).expect("the folder is there for this");
}

#[test]
fn withheld_deletions_are_shown_until_external_dns_asks_for_them_no_more() {
    let fixture = Fixture::new(Harness::new(), &[]);
    let many: Vec<Endpoint> = (0..MASS_DELETION_LIMIT_DEFAULT + 1)
        .map(|number| published(&format!("h{number}.example.com"), "http://web:80"))
        .collect();
    fixture.run_loop(&many);
    for _ in 0..2 {
        // Everything else was done, and this has to be asked for again.
        assert_eq!(fixture.program.external_dns().run_loop(&[]), Err(503));
        assert_eq!(fixture.value(Family::Refusals, &["mass_deletion"]), Some(many.len() as f64));
    }
    for _ in 0..2 {
        fixture.run_loop(&many);
    }
    assert_eq!(fixture.value(Family::Refusals, &["mass_deletion"]), Some(0.0));
}

#[test]
fn writes_that_are_held_back_are_shown() {
    let fixture = Fixture::new(Harness::new(), &[]);
    for _ in 0..4 {
        fixture.run_loop(&[published("www.example.com", "http://web:80")]);
        let id = &fixture.harness.cloudflare.records(&fixture.harness.zone)[0].id;
        fixture.harness.cloudflare.edit(|cloudflare| {
            cloudflare.patch_record("example.com", id, &json!({"proxied": false})).expect("it is there");
        });
    }
    assert_eq!(fixture.value(Family::Refusals, &["not_kept"]), Some(1.0));
}

#[test]
fn a_dry_run_says_so_and_counts_no_change() {
    let fixture = Fixture::new(Harness::with_foreign(), &[("DRY_RUN", "true")]);
    fixture.clock.unix_seconds.store(1_800_000_000, Ordering::Relaxed);
    let desired =
        [published("www.example.com", "http://web:80"), published("hand.example.com", "http://web:80")];
    fixture.run_loop(&desired);
    assert_eq!(fixture.value(Family::DryRun, &[]), Some(1.0));
    assert_eq!(fixture.value(Family::Refusals, &["record_held"]), Some(1.0));
    assert_eq!(fixture.values(Family::Changes), BTreeMap::new());
    assert_eq!(fixture.value(Family::LastRead, &[]), Some(1_800_000_000.0));
    assert_eq!(fixture.value(Family::LastWrite, &[]), Some(0.0));
}

#[test]
fn a_read_that_fails_moves_no_time_and_is_counted_with_its_status() {
    let fixture = Fixture::new(Harness::new(), &[]);
    fixture.clock.unix_seconds.store(1_800_000_000, Ordering::Relaxed);
    fixture.run_loop(&[]);
    fixture.clock.unix_seconds.store(1_800_000_060, Ordering::Relaxed);
    let refused = Fault::Status { code: 403, headers: Vec::new(), body: "no".to_owned() };
    fixture.harness.cloudflare.fault_every(Matcher::list_records(), refused);
    fixture.harness.cloudflare.fault_every(Matcher::get_configuration(), Fault::Reset);
    assert_eq!(fixture.program.external_dns().records(), Err(500));
    assert_eq!(fixture.value(Family::LastRead, &[]), Some(1_800_000_000.0));
    assert_eq!(fixture.value(Family::Requests, &["GET /records", "500"]), Some(1.0));
    assert_eq!(fixture.value(Family::Calls, &["records", "GET", "403"]), Some(1.0));
    fixture.harness.cloudflare.clear_faults();
    fixture.harness.cloudflare.fault(Matcher::get_configuration(), 1, Fault::Reset);
    fixture.run_loop(&[]);
    assert!(fixture.value(Family::Calls, &["configuration", "GET", "none"]) >= Some(1.0));
}

#[test]
fn connectors_are_shown_with_the_versions_they_have_applied() {
    let fixture = Fixture::new(Harness::new(), &[]);
    fixture.run_loop(&[published("www.example.com", "http://web:80")]);
    fixture.run_loop(&[published("www.example.com", "http://web:81")]);
    assert_eq!(fixture.value(Family::Connectors, &["home"]), None, "the watch has not looked yet");
    fixture.harness.cloudflare.edit(|cloudflare| {
        let tunnel = cloudflare.tunnel_mut("home");
        (tunnel.connectors, tunnel.lagging_at) = (3, Some(1));
    });
    fixture.await_look(Family::Connectors, &["home"], Some(3.0));
    assert_eq!(fixture.values(Family::ConnectorVersion), expected(&[(["home"], 1.0)]));

    fixture.harness.cloudflare.edit(|cloudflare| cloudflare.tunnel_mut("home").connectors = 0);
    fixture.await_look(Family::Connectors, &["home"], Some(0.0));
    assert_eq!(fixture.values(Family::ConnectorVersion), BTreeMap::new());

    let forbidden = json!({"success": false, "errors": [{"code": 10000, "message": "Authentication error"}]});
    let refused = Fault::Status { code: 403, headers: Vec::new(), body: forbidden.to_string() };
    fixture.harness.cloudflare.fault_every(matcher(), refused);
    fixture.await_look(Family::Connectors, &["home"], None);
    assert_eq!(fixture.value(Family::Ready, &[]), Some(1.0), "the look decides nothing");
}

#[test]
fn trouble_with_connectors_is_said_once_and_again_when_it_comes_back() {
    let harness = Harness::new();
    let tunnel = harness.cloudflare.add_tunnel("lonely");
    let fixture = Fixture::new(harness, &[("CF_TUNNEL_ID", "lonely")]);
    fixture.run_loop(&[published("www.example.com", "http://web:80")]);
    let look = |connectors: usize, lagging_at: Option<i64>| {
        fixture.harness.cloudflare.edit(|cloudflare| {
            let tunnel = cloudflare.tunnel_mut(&tunnel);
            (tunnel.connectors, tunnel.lagging_at) = (connectors, lagging_at);
        });
        fixture.await_looks(2);
    };
    let lonely = || fixture.said(&["WARN", "the tunnel \"lonely\"", "has no connector"]);
    let behind = || fixture.said(&["WARN", "the tunnel \"lonely\"", "serves an older version"]);
    look(1, None);
    assert_eq!((lonely(), behind()), (0, 0));
    look(0, None);
    look(0, None);
    assert_eq!((lonely(), behind()), (1, 0));
    look(1, None);
    look(0, None);
    assert_eq!((lonely(), behind()), (2, 0));
    look(2, Some(0));
    look(2, Some(0));
    assert_eq!((lonely(), behind()), (2, 1));
}

#[test]
fn a_look_that_fails_repeats_no_line_about_connectors() {
    let fixture = Fixture::new(Harness::new(), &[]);
    fixture.run_loop(&[published("www.example.com", "http://web:80")]);
    let tunnel = fixture.harness.tunnel.clone();
    fixture.harness.cloudflare.edit(|cloudflare| cloudflare.tunnel_mut(&tunnel).connectors = 0);
    let lonely = || fixture.said(&["WARN", "has no connector"]);
    fixture.await_looks(2);
    eventually("its line", || lonely() == 1);
    fixture.harness.cloudflare.fault_every(matcher(), Fault::error(403, 10000, "no"));
    fixture.await_looks(2);
    fixture.harness.cloudflare.clear_faults();
    fixture.await_looks(3);
    assert_eq!(lonely(), 1);
}

#[test]
fn a_loop_costs_the_same_calls_with_looks_in_between_and_waits_for_none() {
    let fixture = Fixture::new(Harness::new(), &[]);
    let desired = [published("www.example.com", "http://web:80")];
    fixture.run_loop(&desired);
    let calls_of_a_loop = || {
        fixture.harness.cloudflare.take_calls();
        fixture.run_loop(&desired);
        let mut calls = fixture.harness.cloudflare.calls();
        // The list of zones is read once in ten minutes, which the looks take.
        calls.retain(|call| !is_look(call) && !call.path.ends_with("/zones"));
        // Read side by side.
        calls.iter().map(Call::line).collect::<BTreeSet<_>>()
    };
    let before = calls_of_a_loop();
    assert_eq!(before.len(), 2, "{before:?}");
    fixture.await_look(Family::Connectors, &["home"], Some(1.0));
    assert_eq!(calls_of_a_loop(), before);

    fixture.harness.cloudflare.fault_every(matcher(), Fault::Hang);
    fixture.await_looks(1);
    let answered = fixture.value(Family::Calls, &["connections", "GET", "200"]);
    let desired =
        [published("www.example.com", "http://web:81"), published("api.example.com", "http://api:80")];
    fixture.run_loop(&desired);
    assert!(fixture.harness.rules().iter().any(|rule| rule.contains("http://web:81")));
    let looks = fixture.values(Family::Calls).into_iter().filter(|(labels, _)| labels[0] == "connections");
    assert_eq!(looks.map(|(_, count)| Some(count)).collect::<Vec<_>>(), [answered], "it still hangs");
    fixture.harness.cloudflare.release();
}

#[test]
fn connectors_are_looked_at_with_the_last_calls_that_are_not_for_others() {
    let calls_of_the_start = Fixture::new(Harness::new(), &[]).harness.cloudflare.calls().len() as u64;
    let least = u64::from(limits::CONNECTORS_CALLS_LEFT_MIN);
    for (calls, looks) in [(calls_of_the_start + least, 1), (least - 1, 0)] {
        let harness = Harness::new();
        harness.cloudflare.set_rate_limit(RateLimit { calls, ..RateLimit::default() });
        let fixture = Fixture::new(harness, &[]);
        fixture.clock.put_ahead(limits::CONNECTORS_PERIOD);
        let left_out = || fixture.said(&["DEBUG", "few calls are left"]);
        eventually("the decision", || fixture.looks() + left_out() > 0);
        fixture.run_loop(&[published("www.example.com", "http://web:80")]);
        assert_eq!((fixture.looks(), left_out()), (looks, 1 - looks));
    }
}
