//! At every single call of a loop in turn something goes wrong: in every way at night, in some by day. Nothing foreign
//! changes, no rule is ever there that no stamp names, no address breaks its promise, and the next loops come to the
//! same end as if nothing had happened. The same where a read that fails in no way shows what was there before, and the
//! program can tell.

mod trouble;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use cloudflare_emulator::{Application, Call, Cloudflare, Emulator, Fault, Matcher, Time, Visit, Visitor};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use test_support::external_dns::{Changes, ExternalDns};
use test_support::harness::Program;
use test_support::sweeps;

use self::trouble::{Point, Trouble, old_answers, troubles};
use crate::shared_account::SharedAccount;
use crate::simulation::{AGES, SharedTime};

/// By day one case in so many of those of all reads of a scenario runs: without Access, with it, and where a read is
/// old. They are primes, so that the kinds change from read to read.
const READS_ONE_IN: usize = 7;
const ACCESS_READS_ONE_IN: usize = 23;
const OLD_READS_ONE_IN: usize = 5;

/// Cases of one scenario at work at once. Most of the time of those that hang is waiting.
const SIDE_BY_SIDE: usize = 8;

/// The deadline of requests where Cloudflare hangs: the shortest in which a step fits.
const SHORT_TIMEOUT: Duration = Duration::from_secs(2);

/// The deadline of all others.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(12);

/// What may pass above a deadline. Time passes in pauses of the program and where Cloudflare hangs, so that a busy
/// machine costs none; in real time ExternalDNS's own 15 s hold.
const SLACK: Duration = Duration::from_secs(1);

/// ExternalDNS's own.
pub(crate) const INTERVAL: Duration = Duration::from_secs(60);

/// How old the records are that stand before the loop in which a call fails.
pub(crate) const SETTLED: Duration = Duration::from_secs(180);

/// For so long a list may not show what was written.
const LISTING: Duration = Duration::from_secs(130);

/// For so long no application goes by itself.
pub(crate) const AGE: Duration = Duration::from_secs(610);

/// The pauses between loops at rest: in the second of them nothing of what was written is remembered any more, and in
/// the last the applications have gone for which nothing answers.
const TO_REST: [Duration; 3] = [LISTING, AGE, INTERVAL];

/// Loops after the last fault until nothing is planned: a place is posted again after 120 s.
const LOOPS_TO_REST: usize = 6;

/// The same after a refused write, which is tried again after 600 s. The rule comes a loop after its application.
const LOOPS_TO_REST_REFUSED: usize = 14;

/// Longer than anything takes.
const FOR_EVER: Duration = Duration::from_secs(1_000_000);

/// What is protected leads to services whose names begin so.
const SECRET: &str = "http://secret";

/// Visitors without a login.
const STRANGERS: [Visitor; 2] = [Visitor::WithoutLogin, Visitor::Preflight];

/// What a visitor without a login may meet at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// Never what is protected.
    Closed,
    /// It was open before, and never again once it was closed.
    ClosedForGood,
    /// It may open.
    MayOpen,
    /// It is served throughout.
    Served,
}

/// The program at work.
pub(crate) struct Playing {
    program: Program,
    clock: Arc<SharedTime>,
    /// Applications may go by themselves.
    has_access: bool,
}

impl Playing {
    fn external_dns(&self) -> ExternalDns {
        self.program.external_dns()
    }

    /// One loop, and what the watch does after it.
    pub(crate) fn run_loop(&self, desired: &[Endpoint]) -> Result<Changes, u16> {
        let answer = self.external_dns().run_loop(desired);
        self.await_watch();
        answer
    }

    fn await_watch(&self) {
        if self.has_access {
            self.clock.await_watch();
        }
    }
}

/// What stands before the loop in which something goes wrong, and what that loop is asked for.
pub(crate) struct Scenario {
    /// What stands there that is foreign.
    pub(crate) holding: fn(&Emulator),
    /// What is published all the time.
    pub(crate) neighbours: Vec<Endpoint>,
    pub(crate) before: Vec<Endpoint>,
    /// What is edited by hand right before that loop.
    pub(crate) by_hand: fn(&mut Cloudflare),
    pub(crate) desired: Vec<Endpoint>,
    /// `ADOPT`, and what it takes over stands there.
    pub(crate) adopt: &'static str,
    pub(crate) promises: Vec<(&'static str, Promise)>,
    /// The time for which lists leave out a new application.
    pub(crate) listing_lag: Duration,
    /// Loops that it takes beyond those of other changes: what opens, and what moves, waits for what closes.
    pub(crate) loops_more: usize,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            holding: |_| {},
            neighbours: Vec::new(),
            before: Vec::new(),
            by_hand: |_| {},
            desired: Vec::new(),
            adopt: "",
            promises: Vec::new(),
            listing_lag: Duration::ZERO,
            loops_more: 0,
        }
    }
}

impl Scenario {
    pub(crate) fn survives_every_fault(&self) {
        let has_access = !self.promises.is_empty();
        let reads_one_in = if has_access { ACCESS_READS_ONE_IN } else { READS_ONE_IN };
        let (calls, _, wanted) = self.run_without_fault(&self.desired, SETTLED);
        let (cases, failures) =
            self.play(SETTLED, &calls, &wanted, reads_one_in, |point| troubles(point, has_access));
        assert!(failures.is_empty(), "{} of {cases} cases:\n{}", failures.len(), failures.join("\n"));
    }

    /// Plays every trouble of each call. Says how many that were, and what went wrong in which.
    fn play(
        &self,
        age: Duration,
        calls: &[Point],
        wanted: &str,
        reads_one_in: usize,
        troubles: impl Fn(&Point) -> Vec<(&'static str, Trouble)>,
    ) -> (usize, Vec<String>) {
        let (_, _, withdrawn) = self.run_without_fault(&[], age);
        let (mut cases, mut of_reads) = (Vec::new(), Vec::new());
        for (nth, point) in calls.iter().enumerate() {
            let mut of_call = Vec::new();
            for (label, trouble) in troubles(point) {
                let mut endings = vec![("wanted all the same", &*self.desired, wanted)];
                // Of reads that fail one kind is enough: all of them leave behind what the writes before them did. What
                // was not taken over before the fault stays when no object asks for it any more.
                let leaves_else =
                    point.is_write() || trouble.is_untrue() || matches!(trouble, Trouble::DeathBefore);
                if self.adopt.is_empty() && leaves_else {
                    endings.push(("withdrawn right after", &[], &withdrawn));
                }
                for (ending, desired, state) in endings {
                    let label = format!("{point}: {label}, records of {age:?}, then {ending}");
                    of_call.push(Case {
                        scenario: self,
                        label,
                        point,
                        trouble: trouble.clone(),
                        age,
                        desired,
                        state,
                    });
                }
            }
            if point.is_write() {
                cases.extend(sweeps::part(nth, of_call));
            } else {
                of_reads.extend(of_call);
            }
        }
        cases.extend(sweeps::one_in(reads_one_in, calls.len(), of_reads));
        assert!(calls.iter().any(Point::is_write), "nothing was written");
        (cases.len(), side_by_side(&cases))
    }

    /// The loop's calls, the same with those of the loop that writes nothing any more, and what stands at Cloudflare
    /// once
    /// `desired` is all that is asked for.
    fn run_without_fault(&self, desired: &[Endpoint], age: Duration) -> (Vec<Point>, Vec<Point>, String) {
        let account = self.account();
        let program = self.start(&account, TIMEOUT);
        self.prepare(&program, &account, age).expect("the harness is set");
        account.cloudflare().take_calls();
        // What moves takes a few loops, each with an answer that makes ExternalDNS ask again. An application goes after
        // the loop that shows that nothing answers for it.
        let (mut calls, mut idle, mut has_ended) = (Vec::new(), Vec::new(), false);
        for loops in 1.. {
            assert!(loops <= LOOPS_TO_REST, "nothing goes wrong");
            let answer = program.run_loop(&self.with_neighbours(&self.desired));
            let of_loop = account.cloudflare().take_calls();
            if has_ended && !of_loop.iter().any(Call::is_write) {
                idle = of_loop;
                break;
            }
            calls.extend(of_loop);
            has_ended |= answer.is_ok();
        }
        let (calls, with_idle) = (Point::of(&calls), Point::of(&[&*calls, &idle].concat()));
        settle(&program, &account, &self.with_neighbours(desired), LOOPS_TO_REST, &TO_REST)
            .expect("it comes to rest");
        assert_eq!(account.violations(), [""; 0]);
        (calls, with_idle, state(&account))
    }

    /// Publishes what stands before, and lets its youngest record grow so old.
    pub(crate) fn prepare(
        &self,
        program: &Playing,
        account: &SharedAccount,
        age: Duration,
    ) -> Result<(), String> {
        let written = settle(program, account, &self.with_neighbours(&self.before), LOOPS_TO_REST, &[])?;
        let cloudflare = account.cloudflare();
        cloudflare.advance_clock(age.saturating_sub(cloudflare.time().now() - written));
        cloudflare.edit(self.by_hand);
        Ok(())
    }

    pub(crate) fn with_neighbours(&self, endpoints: &[Endpoint]) -> Vec<Endpoint> {
        endpoints.iter().chain(&self.neighbours).cloned().collect()
    }

    pub(crate) fn watch(&self, account: &SharedAccount) {
        let urls: Vec<&str> = self.promises.iter().map(|(url, _)| *url).collect();
        account.cloudflare().watch_as(&STRANGERS, &urls);
    }

    /// Says which promise was not kept.
    pub(crate) fn look(&self, account: &SharedAccount, is_end: bool) -> Result<(), String> {
        let is_secret =
            |visit: &Visit| matches!(visit, Visit::Served { service, .. } if service.starts_with(SECRET));
        for watched in account.cloudflare().watched() {
            let (_, promise) =
                self.promises.iter().find(|(url, _)| *url == watched.url).expect("it is watched");
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

    pub(crate) fn account(&self) -> SharedAccount {
        let account = SharedAccount::holding(self.holding);
        let lag = self.listing_lag;
        account.cloudflare().edit(|cloudflare| cloudflare.whims_mut().unlisted_application_time = lag);
        account.cloudflare().keep_past();
        account.watch();
        account
    }

    pub(crate) fn start(&self, account: &SharedAccount, timeout: Duration) -> Playing {
        let seconds = timeout.as_secs().to_string();
        let variables = [
            ("CF_TUNNEL_ID", "home,office"),
            ("MASS_DELETION_LIMIT", "0"),
            ("REQUEST_TIMEOUT", &*seconds),
            ("ADOPT", self.adopt),
        ];
        let cloudflare = account.cloudflare();
        cloudflare.stop_clock();
        let clock = Arc::new(SharedTime::of(cloudflare.time()));
        let program = account.harness.start_by(Arc::clone(&clock) as _, &variables);
        program.wait_until_ready();
        cloudflare.take_calls();
        Playing { program, clock, has_access: !self.promises.is_empty() }
    }
}

/// Where no call fails, but one read shows what was there before, which the program can tell: every such read of each
/// scenario, over records of each age.
pub(crate) fn survive_every_old_answer<'a>(
    scenarios: impl IntoIterator<Item = (&'static str, &'a Scenario)>,
) {
    let mut all_failures = Vec::new();
    for (nth, (label, scenario)) in scenarios.into_iter().enumerate() {
        // By day half of the scenarios are tried, each with one age.
        let ages = AGES.map(Some).into_iter().chain([None; AGES.len()]);
        for seconds in sweeps::part(nth, ages.collect()).into_iter().flatten() {
            let age = Duration::from_secs(seconds);
            let (_, calls, wanted) = scenario.run_without_fault(&scenario.desired, age);
            let told = calls.iter().filter(|call| call.can_tell_old).count();
            let (cases, failures) = scenario.play(age, &calls, &wanted, OLD_READS_ONE_IN, old_answers);
            println!(
                "{label}, records of {seconds} s: {cases} old answers, {} survived not; the program can tell at {told} of {} calls",
                failures.len(),
                calls.len()
            );
            assert!(cases > 0, "no answer is old");
            all_failures.extend(failures.into_iter().map(|failure| format!("{label}: {failure}")));
        }
    }
    assert!(all_failures.is_empty(), "{}", all_failures.join("\n"));
}

/// Tunnels, records and applications, without ids.
fn state(account: &SharedAccount) -> String {
    let mut state = account.state();
    let mut lines = account.cloudflare().edit(|cloudflare| {
        let applications: Vec<_> = cloudflare.applications().to_vec();
        let line = |application: &Application| {
            let policies: Vec<_> =
                cloudflare.policies_of(&application.id).iter().map(|one| one.name.clone()).collect();
            state = state.replace(&application.aud, &format!("<audience of {}>", application.name()));
            format!("application {:?} {policies:?} {:?}\n", application.name(), application.fields)
        };
        applications.iter().map(line).collect::<Vec<String>>()
    });
    lines.sort_unstable();
    state + &lines.concat()
}

/// Plays loops until one plans and writes nothing, and again one after each of these pauses. Returns the time of the
/// last loop before these, since when no record has changed.
fn settle(
    program: &Playing,
    account: &SharedAccount,
    desired: &[Endpoint],
    loops_max: usize,
    pauses: &[Duration],
) -> Result<Duration, String> {
    let cloudflare = account.cloudflare();
    let (mut busy, mut pauses_left, mut last) = (0, pauses.iter(), None);
    let mut written = cloudflare.time().now();
    while busy < loops_max {
        cloudflare.take_calls();
        let planned = program.run_loop(desired);
        let writes = cloudflare.count_calls().writes;
        let pause = match &planned {
            Ok(planned) if *planned == Changes::default() && writes == 0 => match pauses_left.next() {
                Some(pause) => *pause,
                None => return Ok(written),
            },
            Ok(_) | Err(503) => {
                (busy, pauses_left, written) = (busy + 1, pauses.iter(), cloudflare.time().now());
                INTERVAL
            }
            Err(status) => return Err(format!("a loop without fault got {status}")),
        };
        cloudflare.advance_clock(pause);
        last = Some((planned, writes));
    }
    Err(format!("no rest after {loops_max} loops; the last one got {last:#?}"))
}

/// One fault at one call of a scenario, and the loops after it.
struct Case<'a> {
    scenario: &'a Scenario,
    label: String,
    point: &'a Point,
    trouble: Trouble,
    /// How old the records are before it.
    age: Duration,
    /// What is asked for from the loop after the fault on.
    desired: &'a [Endpoint],
    /// What then has to stand at Cloudflare in the end.
    state: &'a str,
}

impl Case<'_> {
    fn run(&self) -> Result<(), String> {
        let Self { scenario, label: _, point, trouble, age, desired, state: wanted } = self;
        let account = scenario.account();
        let cloudflare = account.cloudflare();
        let hangs = trouble.ends_in(|fault| *fault == Fault::Hang);
        let timeout = if hangs { SHORT_TIMEOUT } else { TIMEOUT };
        let mut program = scenario.start(&account, timeout);
        scenario
            .prepare(&program, &account, *age)
            .map_err(|problem| format!("before the fault: {problem}"))?;
        scenario.watch(&account);
        cloudflare.take_calls();
        let is_met = self.arm(cloudflare, hangs);
        for _ in 0..LOOPS_TO_REST {
            let asked = scenario.with_neighbours(&scenario.desired);
            timed_loop(&program, &cloudflare.time(), &asked, timeout)?;
            program.await_watch();
            if is_met.load(Ordering::Relaxed) {
                break;
            }
        }
        // The program looks at connectors besides.
        let is_met = is_met.load(Ordering::Relaxed);
        if !is_met && !point.path.ends_with("/connections") {
            return Err("the call was never made".to_owned());
        }
        scenario.look(&account, false)?;
        let asked = scenario.with_neighbours(desired);
        if is_met && trouble.ends_in(|fault| matches!(fault, Fault::Status { code: 429, .. })) {
            // Reads that were under way beside the blocked one may arrive in the first of these loops.
            let blocked = [(); 2].map(|()| {
                cloudflare.take_calls();
                (program.run_loop(&asked).err(), cloudflare.count_calls().total())
            });
            if blocked[0].0 != Some(503) || blocked[1] != (Some(503), 0) {
                return Err(format!("answers and calls while it was blocked: {blocked:?}"));
            }
        }
        if trouble.is_death() {
            account.clear_faults();
            drop(program);
            program = scenario.start(&account, timeout);
        }
        account.clear_faults();
        let is_refused = matches!(trouble, Trouble::Fault(Fault::Status { code: 400 | 409, .. }));
        let loops_max = if is_refused { LOOPS_TO_REST_REFUSED } else { LOOPS_TO_REST };
        let loops_max = loops_max + scenario.loops_more;
        settle(&program, &account, &asked, loops_max, &TO_REST)?;
        scenario.look(&account, true)?;
        let violations = account.violations();
        if !violations.is_empty() {
            return Err(violations.join("\n"));
        }
        let now = state(&account);
        if now == **wanted {
            return Ok(());
        }
        Err(format!("it ended as\n{now}instead of\n{wanted}"))
    }

    /// Lets the trouble come, and says whether it did.
    fn arm(&self, cloudflare: &Emulator, hangs: bool) -> Arc<AtomicBool> {
        let Self { point, trouble, .. } = self;
        // What the program would do next to its death never happens.
        let never = |first| cloudflare.fault_for(Matcher::writes(), first, FOR_EVER, Fault::Reset);
        match trouble {
            Trouble::Fault(fault) => cloudflare.fault(point.matcher(), point.nth, fault.clone()),
            Trouble::DeathBefore => never(point.writes + 1),
            Trouble::DeathAfter => {
                cloudflare.fault(Matcher::writes(), point.writes + 1, Fault::DoneButUnanswered);
                never(point.writes + 2);
            }
        }
        // Last, as the program may look at connectors at this moment: what is met was armed before.
        let is_met = Arc::new(AtomicBool::new(false));
        let met = Arc::clone(&is_met);
        let is_beside = point.path.ends_with("/connections");
        cloudflare.edit_before(point.matcher(), point.nth, move |cloudflare| {
            met.store(true, Ordering::Relaxed);
            // A request does not wait for what the program does beside it.
            if hangs && !is_beside {
                cloudflare.advance_clock(SHORT_TIMEOUT);
            }
        });
        is_met
    }
}

/// One loop in which anything may fail, but softly and in time.
fn timed_loop(program: &Playing, time: &Time, desired: &[Endpoint], timeout: Duration) -> Result<(), String> {
    fn soft<T>(taken: Duration, bound: Duration, answer: Result<T, u16>) -> Result<Option<T>, String> {
        match answer {
            _ if taken > bound => Err(format!("an answer after {taken:?}")),
            Ok(answer) => Ok(Some(answer)),
            Err(500..=510) => Ok(None),
            Err(status) => Err(format!("{status}, which ends ExternalDNS")),
        }
    }
    let (bound, external_dns) = (timeout + SLACK, program.external_dns());
    let begun = time.now();
    let current = external_dns.records();
    let Some(current) = soft(time.now() - begun, bound, current)? else { return Ok(()) };
    let adjusted = external_dns.adjust(desired).map_err(|status| format!("adjust got {status}"))?;
    // What goes by itself goes now, so that its calls are at no other one's time.
    program.await_watch();
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
