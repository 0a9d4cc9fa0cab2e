//! At every single call of a loop with protected hostnames something goes wrong, in every way. A visitor without a login
//! is never served what is protected, nothing foreign changes, and the next loops come to the same end as if nothing had
//! happened, with one application for each protected place.

mod case;
mod trouble;

use std::sync::Arc;
use std::time::Duration;

use cloudflare_emulator::{Cloudflare, Token, Visit, Visitor};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use serde_json::json;
use test_support::harness::{Program, TOKEN, endpoint, published};
use test_support::sweeps;

use self::case::{Case, settle, side_by_side, state};
use self::trouble::{Point, troubles};
use crate::shared_account::SharedAccount;
use crate::simulation::SharedTime;

/// Cases of one scenario at work at once.
const SIDE_BY_SIDE: usize = 8;

/// The deadline of requests where Cloudflare hangs.
const SHORT_TIMEOUT: Duration = Duration::from_secs(2);

const TIMEOUT: Duration = Duration::from_secs(12);

/// ExternalDNS's own.
const INTERVAL: Duration = Duration::from_secs(60);

/// For so long a list may not show what was written.
const LISTING: Duration = Duration::from_secs(130);

/// Loops after the last fault until nothing is planned: a place is posted again after 120 s.
const LOOPS_TO_REST: usize = 6;

/// The same after a refused replacement, which is tried again after 600 s.
const LOOPS_TO_REST_REFUSED: usize = 12;

/// Longer than anything takes.
const FOR_EVER: Duration = Duration::from_secs(1_000_000);

/// What is protected leads to services whose names begin so.
const SECRET: &str = "http://secret";

/// Who has no login.
const STRANGERS: [Visitor; 2] = [Visitor::WithoutLogin, Visitor::Preflight];

/// What a visitor without a login may meet at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Promise {
    /// Never what is protected.
    Closed,
    /// It was open before, and never again once it was closed.
    ClosedForGood,
    /// It may open.
    MayOpen,
    /// It is served throughout.
    Served,
}

/// What stands before the loop in which something goes wrong, and what that loop is asked for.
struct Scenario {
    before: Vec<Endpoint>,
    /// What somebody does right before that loop.
    by_hand: fn(&mut Cloudflare),
    desired: Vec<Endpoint>,
    promises: Vec<(&'static str, Promise)>,
    /// The time for which lists leave out a new application.
    listing_lag: Duration,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            before: Vec::new(),
            by_hand: |_| {},
            desired: Vec::new(),
            promises: Vec::new(),
            listing_lag: Duration::ZERO,
        }
    }
}

const WEB: &str = "web.example.org";
const WEB_URL: &str = "https://web.example.org/";

fn protected(name: &str, policies: &str) -> Endpoint {
    in_tunnel("", name, policies, "http://secret:80")
}

fn in_tunnel(tunnel: &str, name: &str, policies: &str, service: &str) -> Endpoint {
    let all = [("tunnel", tunnel), ("tunnel-service", service), ("access-policy", policies)];
    endpoint(name, &all.into_iter().filter(|(_, value)| !value.is_empty()).collect::<Vec<_>>())
}

/// A protected path of an open hostname.
fn with_protected_path() -> Vec<Endpoint> {
    let open = published(WEB, "http://open:80");
    let path = [
        ("tunnel-service", "http://secret:80"),
        ("tunnel-path-prefix", "/admin"),
        ("access-policy", "staff"),
    ];
    vec![open, endpoint(WEB, &path)]
}

fn a_first_publication_of_a_protected_path() -> Scenario {
    Scenario {
        desired: with_protected_path(),
        promises: vec![
            ("https://web.example.org/admin", Promise::Closed),
            ("https://web.example.org/admin/x", Promise::Closed),
        ],
        ..Scenario::default()
    }
}

/// Access's star is one label, cloudflared's any number.
fn a_first_protected_publication_of_a_wildcard() -> Scenario {
    Scenario {
        desired: vec![protected("*.apps.example.org", "staff")],
        promises: vec![
            ("https://a.apps.example.org/", Promise::Closed),
            ("https://a.b.apps.example.org/", Promise::Closed),
        ],
        ..Scenario::default()
    }
}

/// The whole hostname is protected instead of one of its paths.
fn a_protected_path_that_becomes_the_hostname() -> Scenario {
    let path = [
        ("tunnel-service", "http://secret:80"),
        ("tunnel-path-prefix", "/admin"),
        ("access-policy", "staff"),
    ];
    Scenario {
        before: vec![endpoint(WEB, &path)],
        desired: vec![protected(WEB, "staff")],
        promises: vec![(WEB_URL, Promise::Closed), ("https://web.example.org/admin", Promise::Closed)],
        ..Scenario::default()
    }
}

fn a_protected_hostname_that_becomes_a_path() -> Scenario {
    let Scenario { before, desired, promises, .. } = a_protected_path_that_becomes_the_hostname();
    Scenario { before: desired, desired: before, promises, ..Scenario::default() }
}

fn a_change_of_policies() -> Scenario {
    Scenario {
        before: vec![protected(WEB, "staff")],
        desired: vec![protected(WEB, "on-call,staff")],
        promises: vec![(WEB_URL, Promise::Closed)],
        ..Scenario::default()
    }
}

fn the_protection_of_an_open_hostname() -> Scenario {
    Scenario {
        before: vec![published(WEB, "http://secret:80")],
        desired: vec![protected(WEB, "staff")],
        promises: vec![(WEB_URL, Promise::ClosedForGood)],
        ..Scenario::default()
    }
}

fn the_opening_of_a_protected_hostname() -> Scenario {
    Scenario {
        before: vec![protected(WEB, "staff")],
        desired: vec![protected(WEB, "none")],
        promises: vec![(WEB_URL, Promise::MayOpen)],
        ..Scenario::default()
    }
}

fn the_withdrawal_of_a_protected_hostname() -> Scenario {
    Scenario {
        before: vec![protected(WEB, "staff")],
        promises: vec![(WEB_URL, Promise::Closed)],
        ..Scenario::default()
    }
}

fn the_withdrawal_of_a_protected_path() -> Scenario {
    Scenario {
        before: with_protected_path(),
        desired: with_protected_path()[..1].to_vec(),
        promises: vec![("https://web.example.org/admin", Promise::Closed)],
        ..Scenario::default()
    }
}

fn a_move_of_a_protected_hostname() -> Scenario {
    Scenario {
        before: vec![in_tunnel("home", WEB, "staff", "http://secret:80")],
        desired: vec![in_tunnel("office", WEB, "staff", "http://secret:80")],
        promises: vec![(WEB_URL, Promise::Closed)],
        ..Scenario::default()
    }
}

fn a_renamed_team() -> Scenario {
    Scenario {
        before: vec![protected(WEB, "staff")],
        by_hand: |cloudflare| {
            cloudflare.set_up_access("renamed");
            // The team is read again.
            cloudflare.advance_clock(Duration::from_secs(601));
        },
        desired: vec![protected(WEB, "staff")],
        promises: vec![(WEB_URL, Promise::Closed)],
        ..Scenario::default()
    }
}

fn a_first_protected_publication_that_lists_show_late() -> Scenario {
    Scenario {
        desired: vec![protected(WEB, "staff"), protected("shop.example.com", "on-call")],
        promises: vec![(WEB_URL, Promise::Closed), ("https://shop.example.com/", Promise::Closed)],
        listing_lag: Duration::from_secs(30),
        ..Scenario::default()
    }
}

#[test]
fn a_first_publication_of_a_protected_path_survives_every_fault() {
    a_first_publication_of_a_protected_path().survives_every_fault();
}

#[test]
fn a_first_protected_publication_of_a_wildcard_survives_every_fault() {
    a_first_protected_publication_of_a_wildcard().survives_every_fault();
}

#[test]
fn a_protected_path_that_becomes_the_hostname_survives_every_fault() {
    a_protected_path_that_becomes_the_hostname().survives_every_fault();
}

#[test]
fn a_protected_hostname_that_becomes_a_path_survives_every_fault() {
    a_protected_hostname_that_becomes_a_path().survives_every_fault();
}

#[test]
fn a_change_of_policies_survives_every_fault() {
    a_change_of_policies().survives_every_fault();
}

#[test]
fn the_protection_of_an_open_hostname_survives_every_fault() {
    the_protection_of_an_open_hostname().survives_every_fault();
}

#[test]
fn the_opening_of_a_protected_hostname_survives_every_fault() {
    the_opening_of_a_protected_hostname().survives_every_fault();
}

#[test]
fn the_withdrawal_of_a_protected_hostname_survives_every_fault() {
    the_withdrawal_of_a_protected_hostname().survives_every_fault();
}

#[test]
fn the_withdrawal_of_a_protected_path_survives_every_fault() {
    the_withdrawal_of_a_protected_path().survives_every_fault();
}

#[test]
fn a_move_of_a_protected_hostname_survives_every_fault() {
    a_move_of_a_protected_hostname().survives_every_fault();
}

#[test]
fn a_renamed_team_survives_every_fault() {
    a_renamed_team().survives_every_fault();
}

#[test]
fn a_first_protected_publication_that_lists_show_late_survives_every_fault() {
    a_first_protected_publication_that_lists_show_late().survives_every_fault();
}

/// Nobody is served before what protects is at the edge, nor after it has gone, however long the ways there are.
#[test]
fn what_is_protected_stays_closed_at_a_slow_edge() {
    let scenarios = [
        a_first_protected_publication_of_a_wildcard(),
        a_protected_path_that_becomes_the_hostname(),
        a_protected_hostname_that_becomes_a_path(),
        a_first_publication_of_a_protected_path(),
        a_change_of_policies(),
        the_protection_of_an_open_hostname(),
        the_opening_of_a_protected_hostname(),
        the_withdrawal_of_a_protected_hostname(),
        the_withdrawal_of_a_protected_path(),
        a_move_of_a_protected_hostname(),
        a_renamed_team(),
        a_first_protected_publication_that_lists_show_late(),
    ];
    let delays = [[30, 0, 0], [0, 20, 0], [0, 0, 20], [30, 20, 20], [5, 20, 60]];
    let mut failures = Vec::new();
    for (nth, scenario) in scenarios.iter().enumerate() {
        for delays in sweeps::part(nth, delays.to_vec()) {
            if let Err(problem) = scenario.run_at_slow_edge(delays.map(Duration::from_secs)) {
                failures.push(format!("{delays:?}: {problem}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// What stands beside the scenario all the time.
fn neighbours() -> Vec<Endpoint> {
    vec![protected("stays.example.com", "staff"), published("stays-open.example.org", "http://open:80")]
}

fn beside_neighbours(endpoints: &[Endpoint]) -> Vec<Endpoint> {
    endpoints.iter().cloned().chain(neighbours()).collect()
}

fn with_access(cloudflare: &mut Cloudflare) {
    cloudflare.set_up_access("my-team");
    for name in ["staff", "on-call"] {
        let include = json!([{"email_domain": {"domain": "example.com"}}]);
        let policy = json!({"name": name, "decision": "allow", "include": include});
        cloudflare.add_policy(&policy).expect("a policy");
    }
    *cloudflare.token_mut(TOKEN) = Token::with_access(TOKEN);
    cloudflare.add_tag("theirs").expect("a tag");
    let id = cloudflare.policies()[0].id.clone();
    let theirs = json!({"type": "self_hosted", "name": "theirs", "domain": "hand.example.org/admin", "tags": ["theirs"],
        "session_duration": "6h", "policies": [id]});
    cloudflare.add_application(&theirs).expect("an application");
}

impl Scenario {
    fn survives_every_fault(&self) {
        let (calls, wanted) = self.run_without_fault(&self.desired);
        let (_, withdrawn) = self.run_without_fault(&[]);
        let mut cases = Vec::new();
        for (nth, point) in calls.iter().enumerate() {
            let mut of_call = Vec::new();
            for (label, trouble) in troubles(point) {
                let mut endings = vec![("wanted all the same", &*self.desired, &wanted)];
                if point.is_write() {
                    endings.push(("withdrawn right after", &[], &withdrawn));
                }
                for (ending, desired, state) in endings {
                    let label = format!("{point}: {label}, then {ending}");
                    of_call.push(Case {
                        scenario: self,
                        label,
                        point,
                        trouble: trouble.clone(),
                        desired,
                        state,
                    });
                }
            }
            cases.extend(sweeps::part(nth, of_call));
        }
        assert!(calls.iter().any(Point::is_write), "nothing was written");
        let (failures, most_loops, orphans) = side_by_side(&cases);
        println!("{} calls, {} cases, {most_loops} loops, {orphans} orphans", calls.len(), cases.len());
        assert!(failures.is_empty(), "{} of {} cases:\n{}", failures.len(), cases.len(), failures.join("\n"));
    }

    /// With so long ways of applications, configurations and records to the edge.
    fn run_at_slow_edge(&self, [applications, configurations, records]: [Duration; 3]) -> Result<(), String> {
        let account = self.account();
        let cloudflare = account.cloudflare();
        let program = self.start(&account, TIMEOUT);
        settle(program.external_dns(), &account, &beside_neighbours(&self.before), LOOPS_TO_REST)?;
        cloudflare.edit(self.by_hand);
        cloudflare.delay_applications(applications);
        cloudflare.delay_records(records);
        for tunnel in ["home", "office"] {
            cloudflare.delay_configurations(tunnel, &[configurations]);
        }
        self.watch(&account);
        for desired in [&*self.desired, &self.before, &[]] {
            for _ in 0..4 {
                let answer = program.external_dns().run_loop(&beside_neighbours(desired));
                if !matches!(answer, Ok(_) | Err(503)) {
                    return Err(format!("a loop got {answer:?}"));
                }
                cloudflare.advance_clock(INTERVAL);
            }
            self.look(&account, false)?;
            // What was open before may be open again.
            if self.promises.iter().any(|(_, promise)| *promise == Promise::ClosedForGood) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// All addresses with a promise.
    fn promises(&self) -> Vec<(&'static str, Promise)> {
        let of_neighbours = [
            ("https://stays.example.com/", Promise::Closed),
            ("https://stays-open.example.org/", Promise::Served),
        ];
        self.promises.iter().copied().chain(of_neighbours).collect()
    }

    fn watch(&self, account: &SharedAccount) {
        let promises = self.promises();
        let urls: Vec<&str> = promises.iter().map(|(url, _)| *url).collect();
        account.cloudflare().watch_as(&STRANGERS, &urls);
    }

    /// The loop's calls, and what stands at Cloudflare once `desired` is all that is asked for.
    fn run_without_fault(&self, desired: &[Endpoint]) -> (Vec<Point>, String) {
        let account = self.account();
        let program = self.start(&account, TIMEOUT);
        let before = beside_neighbours(&self.before);
        settle(program.external_dns(), &account, &before, LOOPS_TO_REST).expect("the harness is set");
        account.cloudflare().advance_clock(3 * INTERVAL);
        account.cloudflare().edit(self.by_hand);
        account.cloudflare().take_calls();
        let external_dns = program.external_dns();
        // What moves takes a few loops, each with an answer that makes ExternalDNS ask again.
        let mut loops = 1;
        while external_dns.run_loop(&beside_neighbours(&self.desired)).is_err() {
            loops += 1;
            assert!(loops <= LOOPS_TO_REST, "nothing goes wrong");
        }
        let calls = Point::of(&account.cloudflare().take_calls());
        settle(external_dns, &account, &beside_neighbours(desired), LOOPS_TO_REST).expect("it comes to rest");
        assert_eq!(account.violations(), [""; 0]);
        (calls, state(&account))
    }

    /// Says which promise was not kept.
    fn look(&self, account: &SharedAccount, is_end: bool) -> Result<(), String> {
        let promises = self.promises();
        let is_secret =
            |visit: &Visit| matches!(visit, Visit::Served { service, .. } if service.starts_with(SECRET));
        for watched in account.cloudflare().watched() {
            let (_, promise) = promises.iter().find(|(url, _)| *url == watched.url).expect("it is watched");
            let opens: Vec<bool> =
                watched.changes.iter().map(|change| change.got.iter().any(is_secret)).collect();
            let is_kept = match promise {
                Promise::Closed => !opens.contains(&true),
                Promise::ClosedForGood => {
                    opens.iter().skip_while(|opens| **opens).all(|opens| !opens)
                        && !(is_end && opens.last() == Some(&true))
                }
                Promise::MayOpen => true,
                Promise::Served => {
                    watched.changes.iter().all(|change| change.got.iter().all(Visit::is_served))
                }
            };
            if !is_kept {
                return Err(format!("{promise:?} is not kept: {watched}"));
            }
        }
        Ok(())
    }

    fn account(&self) -> SharedAccount {
        let account = SharedAccount::holding(|emulator| emulator.edit(with_access));
        let lag = self.listing_lag;
        account.cloudflare().edit(|cloudflare| cloudflare.whims_mut().unlisted_application_time = lag);
        account.watch();
        account
    }

    fn start(&self, account: &SharedAccount, timeout: Duration) -> Program {
        let seconds = timeout.as_secs().to_string();
        let variables =
            [("CF_TUNNEL_ID", "home,office"), ("MASS_DELETION_LIMIT", "0"), ("REQUEST_TIMEOUT", &*seconds)];
        let cloudflare = account.cloudflare();
        cloudflare.stop_clock();
        let clock = SharedTime::of(cloudflare.time());
        let program = account.harness.start_by(Arc::new(clock), &variables);
        program.wait_until_ready();
        cloudflare.take_calls();
        program
    }
}
