//! One fault at one call of a scenario, and the loops after it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use cloudflare_emulator::{Application, Fault, Matcher};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Changes, Endpoint};
use test_support::external_dns::ExternalDns;

use super::trouble::{Point, Trouble};
use super::{
    FOR_EVER, INTERVAL, LISTING, LOOPS_TO_REST, LOOPS_TO_REST_REFUSED, SHORT_TIMEOUT, SIDE_BY_SIDE, Scenario,
    TIMEOUT, beside_neighbours,
};
use crate::shared_account::SharedAccount;

/// Tunnels, records and applications, without ids.
pub(super) fn state(account: &SharedAccount) -> String {
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

/// The lines of applications that `state` has and `wanted` has not; `None` if they differ in another way.
pub(super) fn orphans(state: &str, wanted: &str) -> Option<usize> {
    let mut wanted: Vec<&str> = wanted.lines().collect();
    let mut more = 0;
    for line in state.lines() {
        match wanted.iter().position(|one| *one == line) {
            Some(index) => drop(wanted.remove(index)),
            None if line.starts_with("application") && line.contains("(ExternalDNS default)") => more += 1,
            None => return None,
        }
    }
    wanted.is_empty().then_some(more)
}

/// Plays loops until three in a row plan and write nothing, the last of them when nothing of what was written is
/// remembered any more. Says how many it took before those.
pub(super) fn settle(
    external_dns: ExternalDns,
    account: &SharedAccount,
    desired: &[Endpoint],
    loops_max: usize,
) -> Result<usize, String> {
    let cloudflare = account.cloudflare();
    let (mut loops, mut idle, mut last) = (0, 0, None);
    while loops - idle < loops_max {
        cloudflare.take_calls();
        let planned = external_dns.run_loop(desired);
        loops += 1;
        let writes = cloudflare.count_calls().writes;
        match &planned {
            Ok(planned) if *planned == Changes::default() && writes == 0 => idle += 1,
            Ok(_) | Err(503) => idle = 0,
            Err(status) => return Err(format!("a loop without fault got {status}")),
        }
        if idle == 3 {
            return Ok(loops - idle);
        }
        cloudflare.advance_clock(if idle == 0 { INTERVAL } else { LISTING });
        last = Some((planned, writes));
    }
    Err(format!("no rest after {loops_max} loops; the last one got {last:#?}"))
}

pub(super) struct Case<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) label: String,
    pub(super) point: &'a Point,
    pub(super) trouble: Trouble,
    /// What is asked for from the loop after the fault on.
    pub(super) desired: &'a [Endpoint],
    /// What then has to stand at Cloudflare in the end.
    pub(super) state: &'a str,
}

impl Case<'_> {
    /// Says how many loops it took, and how many applications were left behind.
    pub(super) fn run(&self) -> Result<(usize, usize), String> {
        let Self { scenario, label: _, point, trouble, desired, state: wanted } = self;
        let account = scenario.account();
        let cloudflare = account.cloudflare();
        let timeout = if trouble.hangs() { SHORT_TIMEOUT } else { TIMEOUT };
        let mut program = scenario.start(&account, timeout);
        settle(program.external_dns(), &account, &beside_neighbours(&scenario.before), LOOPS_TO_REST)
            .map_err(|problem| format!("before the fault: {problem}"))?;
        cloudflare.advance_clock(3 * INTERVAL);
        cloudflare.edit(scenario.by_hand);
        scenario.watch(&account);

        cloudflare.take_calls();
        let is_met = Arc::new(AtomicBool::new(false));
        let (met, hangs) = (Arc::clone(&is_met), trouble.hangs());
        cloudflare.edit_before(point.matcher(), point.nth, move |cloudflare| {
            met.store(true, Ordering::Relaxed);
            if hangs {
                cloudflare.advance_clock(SHORT_TIMEOUT);
            }
        });
        // What the program would do next to its death never happens.
        match trouble {
            Trouble::Fault(fault) => cloudflare.fault(point.matcher(), point.nth, fault.clone()),
            Trouble::DeathBefore => {
                cloudflare.fault_for(Matcher::writes(), point.writes, FOR_EVER, Fault::Reset);
            }
            Trouble::DeathAfter => {
                cloudflare.fault(Matcher::writes(), point.writes, Fault::DoneButUnanswered);
                cloudflare.fault_for(Matcher::writes(), point.writes + 1, FOR_EVER, Fault::Reset);
            }
        }
        for _ in 0..LOOPS_TO_REST {
            match program.external_dns().run_loop(&beside_neighbours(&scenario.desired)) {
                Ok(_) | Err(500..=510) => {}
                Err(status) => return Err(format!("{status}, which ends ExternalDNS")),
            }
            if is_met.load(Ordering::Relaxed) {
                break;
            }
        }
        // The program looks at connectors besides.
        if !is_met.load(Ordering::Relaxed) && !point.path.ends_with("/connections") {
            return Err("the call was never made".to_owned());
        }
        scenario.look(&account, false)?;
        if trouble.is_death() {
            account.clear_faults();
            drop(program);
            program = scenario.start(&account, timeout);
        }
        account.clear_faults();
        let is_withdrawn = *desired != scenario.desired;
        let is_refused = matches!(trouble, Trouble::Fault(Fault::Status { code: 400 | 409, .. }));
        let loops_max = if is_refused { LOOPS_TO_REST_REFUSED } else { LOOPS_TO_REST };
        let loops = settle(program.external_dns(), &account, &beside_neighbours(desired), loops_max)?;
        scenario.look(&account, true)?;
        let violations = account.violations();
        if !violations.is_empty() {
            return Err(violations.join("\n"));
        }
        let now = state(&account);
        // What nothing is published for any more is left behind where its deletion failed.
        let may_leave = is_withdrawn || scenario.desired.is_empty();
        match orphans(&now, wanted) {
            Some(0) => Ok((loops, 0)),
            Some(more) if may_leave => Ok((loops, more)),
            _ => Err(format!("it ended as\n{now}instead of\n{wanted}")),
        }
    }
}

/// Runs all cases, several at a time, and says what went wrong in which, the most loops and the sum of orphans.
pub(super) fn side_by_side(cases: &[Case<'_>]) -> (Vec<String>, usize, usize) {
    let next = AtomicUsize::new(0);
    let (loops, orphans) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let failures = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match case.run() {
                        Ok((took, left)) => {
                            loops.fetch_max(took, Ordering::Relaxed);
                            if left > 0 {
                                println!("orphans: {}", case.label);
                            }
                            orphans.fetch_add(left, Ordering::Relaxed);
                        }
                        Err(problem) => {
                            let line = format!("{}: {problem}", case.label);
                            failures.lock().unwrap_or_else(PoisonError::into_inner).push(line);
                        }
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    (failures, loops.into_inner(), orphans.into_inner())
}
