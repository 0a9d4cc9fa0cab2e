//! At every single call of a loop in turn something goes wrong, in every way. Nothing foreign changes, no rule is ever
//! there that no stamp names, and the next loops come to the same end as if nothing had happened.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use cloudflare_emulator::{Fault, Matcher, Time};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Changes, Endpoint};
use serde_json::json;
use test_support::external_dns::ExternalDns;
use test_support::harness::{FOREIGN_DOCUMENT, Program, endpoint, published};
use test_support::sweeps;

use crate::shared_account::{SharedAccount, settle};
use crate::simulation::SharedTime;

/// Cases of one scenario at work at once. Most of the time of those that hang is waiting.
const SIDE_BY_SIDE: usize = 8;

/// The deadline of requests where Cloudflare hangs: the shortest in which a step fits.
const SHORT_TIMEOUT: Duration = Duration::from_secs(2);

/// The deadline of all others.
const TIMEOUT: Duration = Duration::from_secs(12);

/// What may pass above a deadline. Time passes in pauses of the program and where Cloudflare hangs, so that a busy machine
/// costs none; in real time ExternalDNS's own 15 s hold.
const SLACK: Duration = Duration::from_secs(1);

/// A move puts the rule, leads the record over and takes the old rule away in a loop each.
const LOOPS_OF_A_MOVE: usize = 3;

/// Calls that fail when the program is dead: more than any loop makes.
const CALLS_AFTER_DEATH: usize = 60;

/// What goes wrong at one call.
#[derive(Clone, Debug)]
enum Trouble {
    /// The program goes on after it.
    Fault(Fault),
    /// The program ends right before the call is done.
    DeathBefore,
    /// The program ends right after the call was done, before it learns so.
    DeathAfter,
}

/// Whether a call that reads is done makes no difference.
fn troubles(is_write: bool) -> Vec<(&'static str, Trouble)> {
    let fault = Trouble::Fault;
    let mut troubles = vec![
        ("death before the call", Trouble::DeathBefore),
        ("429", fault(Fault::limited(300))),
        ("500", fault(Fault::status(500))),
        ("hang", fault(Fault::Hang)),
        ("dropped connection", fault(Fault::Reset)),
        ("garbage", fault(Fault::Garbage)),
        ("truncated body", fault(Fault::Truncated)),
    ];
    if is_write {
        troubles.extend([
            ("death after the call", Trouble::DeathAfter),
            ("done and unanswered", fault(Fault::DoneButUnanswered)),
            ("429 though it was done", fault(Fault::DoneBut(Box::new(Fault::limited(300))))),
            ("502 though it was done", fault(Fault::DoneBut(Box::new(Fault::status(502))))),
            ("garbage though it was done", fault(Fault::DoneBut(Box::new(Fault::Garbage)))),
            ("hang though it was done", fault(Fault::DoneBut(Box::new(Fault::Hang)))),
        ]);
    }
    troubles
}

impl Trouble {
    /// Whether the call is answered by such a fault, done or not.
    fn ends_in(&self, test: impl Fn(&Fault) -> bool) -> bool {
        match self {
            Self::Fault(Fault::DoneBut(fault)) => test(fault),
            Self::Fault(fault) => test(fault),
            Self::DeathBefore | Self::DeathAfter => false,
        }
    }
}

/// What stands before the loop in which something goes wrong, and what that loop is asked for.
#[derive(Default)]
struct Scenario {
    before: Vec<Endpoint>,
    desired: Vec<Endpoint>,
    /// `ADOPT`, and what it takes over stands there.
    adopt: &'static str,
}

#[test]
fn a_first_publication_in_two_zones_survives_every_fault() {
    Scenario { desired: shop("http://web:80"), ..Scenario::default() }.survives_every_fault();
}

#[test]
fn a_change_of_services_survives_every_fault() {
    Scenario { before: shop("http://web:80"), desired: shop("https://web:443"), ..Scenario::default() }
        .survives_every_fault();
}

#[test]
fn a_withdrawal_survives_every_fault() {
    Scenario { before: shop("http://web:80"), ..Scenario::default() }.survives_every_fault();
}

/// Every kind of step in one request: rules that go, that change, and new ones on new and on old records.
#[test]
fn a_mixed_request_survives_every_fault() {
    let before = vec![
        published("stays.example.com", "http://stays:80"),
        published("changes.example.com", "http://old:80"),
        published("goes.example.com", "http://goes:80"),
        published("gets-a-path.example.org", "http://web:80"),
        path("changes-its-path.example.org", "/old", "http://web:80"),
        endpoint("loses-its-rule.example.org", &[("tunnel-service", "http://web:80")]),
        endpoint("gets-a-rule.example.com", &[("tunnel-service", "none")]),
    ];
    let desired = vec![
        published("stays.example.com", "http://stays:80"),
        published("changes.example.com", "http://new:80"),
        published("comes.example.com", "http://comes:80"),
        published("gets-a-path.example.org", "http://web:80"),
        path("gets-a-path.example.org", "/api", "http://api:80"),
        path("changes-its-path.example.org", "/new", "http://web:80"),
        endpoint("loses-its-rule.example.org", &[("tunnel-service", "none")]),
        endpoint("gets-a-rule.example.com", &[("tunnel-service", "http://web:80")]),
    ];
    Scenario { before, desired, ..Scenario::default() }.survives_every_fault();
}

#[test]
fn a_move_to_another_tunnel_survives_every_fault() {
    let shop_in = |tunnel: &str| {
        let service = ("tunnel-service", "http://web:80");
        vec![
            endpoint("web.example.com", &[("tunnel", tunnel), service]),
            endpoint("web.example.com", &[("tunnel", tunnel), ("tunnel-path-prefix", "/api"), service]),
            endpoint("shop.example.org", &[("tunnel", tunnel), service]),
            published("stays.example.com", "http://stays:80"),
        ]
    };
    Scenario { before: shop_in("home"), desired: shop_in("office"), ..Scenario::default() }
        .survives_every_fault();
}

/// A hostname that is changed in its place, one that moves to another tunnel, addresses with ExternalDNS's TXT records,
/// and another owner's.
#[test]
fn an_adoption_survives_every_fault() {
    let service = ("tunnel-service", "http://web:80");
    let desired = vec![
        published("adopted-rule.example.com", "http://web:80"),
        endpoint("adopted-and-moved.example.com", &[service, ("tunnel", "office")]),
        published("adopted-address.example.org", "http://web:80"),
        published("adopted-stamp.example.org", "http://web:80"),
        published("comes.example.com", "http://comes:80"),
    ];
    Scenario { desired, adopt: "tunnel,owner=default,owner=other", ..Scenario::default() }
        .survives_every_fault();
}

/// What the scenario's mode takes over.
fn hold(account: &SharedAccount) {
    let home = format!("{}.cfargotunnel.com", account.harness.tunnel);
    let heritage = "\"heritage=external-dns,external-dns/owner=default\"";
    let (first, second) = (&account.harness.zone, &account.organisation);
    for (zone, name, kind, content, comment) in [
        (first, "adopted-rule.example.com", "CNAME", &*home, "Jo's"),
        (first, "adopted-and-moved.example.com", "CNAME", &home, ""),
        (second, "adopted-address.example.org", "A", "192.0.2.1", ""),
        (second, "adopted-address.example.org", "A", "192.0.2.2", ""),
        // Under the name that ExternalDNS gave it up to 0.11, as no watch is kept over names that begin so.
        (second, "adopted-address.example.org", "TXT", heritage, ""),
        (second, "adopted-stamp.example.org", "CNAME", &home, "external-dns owner=other rules=-"),
    ] {
        let record = json!({"name": name, "type": kind, "content": content, "comment": comment, "proxied": kind == "CNAME"});
        account.cloudflare().add_record(zone, record).expect("Cloudflare takes it");
    }
    let rules = ["adopted-rule.example.com", "adopted-and-moved.example.com"]
        .map(|name| format!(r#"{{"hostname":"{name}","service":"http://theirs:80"}},"#));
    let document = FOREIGN_DOCUMENT.replace(
        r#"{"hostname":"*.example.com""#,
        &format!("{}{}", rules.concat(), r#"{"hostname":"*.example.com""#),
    );
    account.cloudflare().put_configuration(&account.harness.tunnel, &document).expect("cloudflared takes it");
}

fn path(name: &str, prefix: &str, service: &str) -> Endpoint {
    endpoint(name, &[("tunnel-service", service), ("tunnel-path-prefix", prefix)])
}

fn shop(service: &str) -> Vec<Endpoint> {
    vec![
        published("web.example.com", service),
        published("*.apps.example.com", service),
        published("example.org", service),
        published("api.example.org", service),
        path("api.example.org", "/v2", service),
        endpoint("plain.example.org", &[("tunnel-service", "none")]),
    ]
}

impl Scenario {
    fn survives_every_fault(&self) {
        let (calls, wanted) = self.run_without_fault(&self.desired);
        let (_, withdrawn) = self.run_without_fault(&[]);
        let mut cases = Vec::new();
        for (nth, is_write) in (1..).zip(&calls) {
            let mut of_call = Vec::new();
            for (label, trouble) in troubles(*is_write) {
                let mut endings = vec![("wanted all the same", &*self.desired, &wanted)];
                // Of reads one kind is enough: all of them leave behind what the writes before them did. What was not
                // taken over before the fault stays when nobody asks for it any more.
                if self.adopt.is_empty() && (*is_write || matches!(trouble, Trouble::DeathBefore)) {
                    endings.push(("withdrawn right after", &[], &withdrawn));
                }
                for (ending, desired, state) in endings {
                    let label = format!("call {nth} of {}: {label}, then {ending}", calls.len());
                    of_call.push(Case {
                        scenario: self,
                        label,
                        nth,
                        trouble: trouble.clone(),
                        desired,
                        state,
                    });
                }
            }
            cases.extend(sweeps::part(nth, of_call));
        }
        assert!(calls.contains(&true), "nothing was written");
        let failures = side_by_side(&cases);
        assert!(failures.is_empty(), "{} of {} cases:\n{}", failures.len(), cases.len(), failures.join("\n"));
    }

    /// Which of the loop's calls are writes, and what stands at Cloudflare once `desired` is all that is asked for.
    fn run_without_fault(&self, desired: &[Endpoint]) -> (Vec<bool>, String) {
        let account = self.account();
        account.watch();
        let program = self.start(&account, None);
        settle(program.external_dns(), account.cloudflare(), &self.before).expect("the harness is set");
        let external_dns = program.external_dns();
        account.cloudflare().take_calls();
        // What moves takes a few loops, each with an answer that makes ExternalDNS ask again.
        for _ in 0..LOOPS_OF_A_MOVE {
            if external_dns.run_loop(&self.desired).is_ok() {
                break;
            }
        }
        let calls = account.cloudflare().take_calls().iter().map(|call| call.is_write()).collect();
        settle(external_dns, account.cloudflare(), desired).expect("it comes to rest");
        assert_eq!(account.violations(), [""; 0]);
        (calls, account.state())
    }

    fn account(&self) -> SharedAccount {
        let account = SharedAccount::new();
        if !self.adopt.is_empty() {
            hold(&account);
        }
        account
    }

    fn start(&self, account: &SharedAccount, timeout: Option<Duration>) -> Program {
        let seconds = timeout.unwrap_or(TIMEOUT).as_secs().to_string();
        let variables = [
            ("CF_TUNNEL_ID", "home,office"),
            ("MASS_DELETION_LIMIT", "0"),
            ("REQUEST_TIMEOUT", &*seconds),
            ("ADOPT", self.adopt),
        ];
        let cloudflare = account.cloudflare();
        cloudflare.stop_clock();
        let clock = SharedTime::of(cloudflare.time());
        let program = account.harness.start_by(Arc::new(clock), &variables);
        program.wait_until_ready();
        cloudflare.take_calls();
        program
    }
}

/// One fault at one call.
struct Case<'a> {
    scenario: &'a Scenario,
    label: String,
    nth: usize,
    trouble: Trouble,
    /// What is asked for from the loop after the fault on.
    desired: &'a [Endpoint],
    /// What then has to stand at Cloudflare in the end.
    state: &'a str,
}

impl Case<'_> {
    fn run(&self) -> Result<(), String> {
        let Self { scenario, label: _, nth, trouble, desired, state } = self;
        let account = scenario.account();
        let cloudflare = account.cloudflare();
        account.watch();
        let timeout = trouble.ends_in(|fault| *fault == Fault::Hang).then_some(SHORT_TIMEOUT);
        let mut program = scenario.start(&account, timeout);
        if !scenario.before.is_empty() {
            let set = program.external_dns().run_loop(&scenario.before);
            set.map_err(|status| format!("before the fault: {status}"))?;
        }
        cloudflare.take_calls();
        if timeout.is_some() {
            cloudflare
                .edit_before(Matcher::any(), *nth, |cloudflare| cloudflare.advance_clock(SHORT_TIMEOUT));
        }
        match trouble {
            Trouble::Fault(fault) => cloudflare.fault_at(*nth, fault.clone()),
            Trouble::DeathBefore => cloudflare.fault_at(*nth, Fault::Reset),
            Trouble::DeathAfter => cloudflare.fault_at(*nth, Fault::DoneButUnanswered),
        }
        if matches!(trouble, Trouble::DeathBefore | Trouble::DeathAfter) {
            // What the program would do next to its death never happens.
            for later in 1..=CALLS_AFTER_DEATH {
                cloudflare.fault(Matcher::any(), nth + later, Fault::Reset);
            }
        }
        for _ in 0..LOOPS_OF_A_MOVE {
            timed_loop(program.external_dns(), &cloudflare.time(), &scenario.desired, timeout)?;
            if cloudflare.count_calls().total() >= *nth {
                break;
            }
        }
        if cloudflare.count_calls().total() < *nth {
            return Err("the call was never made".to_owned());
        }
        let limited = trouble.ends_in(|fault| matches!(fault, Fault::Status { code: 429, .. }));
        if limited {
            cloudflare.take_calls();
            let answer = program.external_dns().run_loop(desired);
            let calls = cloudflare.count_calls().total();
            if answer != Err(503) || calls != 0 {
                return Err(format!("while it was blocked: {answer:?} after {calls} calls"));
            }
        }
        if limited || matches!(trouble, Trouble::DeathBefore | Trouble::DeathAfter) {
            account.clear_faults();
            drop(program);
            program = scenario.start(&account, None);
        }
        account.clear_faults();
        settle(program.external_dns(), cloudflare, desired)?;
        let violations = account.violations();
        if !violations.is_empty() {
            return Err(violations.join("\n"));
        }
        let now = account.state();
        if now != **state {
            return Err(format!("it ended as\n{now}instead of\n{state}"));
        }
        Ok(())
    }
}

/// One loop in which anything may fail, but softly and in time.
fn timed_loop(
    external_dns: ExternalDns,
    time: &Time,
    desired: &[Endpoint],
    timeout: Option<Duration>,
) -> Result<(), String> {
    fn soft<T>(taken: Duration, bound: Duration, answer: Result<T, u16>) -> Result<Option<T>, String> {
        match answer {
            _ if taken > bound => Err(format!("an answer after {taken:?}")),
            Ok(answer) => Ok(Some(answer)),
            Err(500..=510) => Ok(None),
            Err(status) => Err(format!("{status}, which ends ExternalDNS")),
        }
    }
    let bound = timeout.unwrap_or(TIMEOUT) + SLACK;
    let begun = time.now();
    let current = external_dns.records();
    let Some(current) = soft(time.now() - begun, bound, current)? else { return Ok(()) };
    let adjusted = external_dns.adjust(desired).map_err(|status| format!("adjust got {status}"))?;
    let changes = external_dns.registry.plan(&current, &adjusted);
    if changes != Changes::default() {
        let begun = time.now();
        let applied = external_dns.apply(&changes);
        soft(time.now() - begun, bound, applied)?;
    }
    Ok(())
}

/// Runs all cases, several at a time, and says what went wrong in which.
fn side_by_side(cases: &[Case<'_>]) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(problem) = case.run() {
                        let line = format!("{}: {problem}", case.label);
                        failures.lock().unwrap_or_else(PoisonError::into_inner).push(line);
                    }
                }
            });
        }
    });
    failures.into_inner().unwrap_or_else(PoisonError::into_inner)
}
