//! The whole program in this process against the emulator of Cloudflare, with ExternalDNS's conversation played to it,
//! in worlds that a seed decides: what the cluster asks for, what goes wrong, what other writers do, when the program
//! ends. No pause takes real time, and one seed always leads to the same calls. What may never happen is in
//! `invariants.rs` and `rest.rs`.
//!
//! `just simulate` for ten minutes of them, or `just simulate seed=7` for one world whose steps are then printed.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "what is unexpected fails the run"
)]

mod account;
mod claims;
mod clock;
mod controller;
mod coverage;
mod excuses;
mod faults;
mod focus;
mod foreign;
mod growth;
mod instance;
mod invariants;
mod lag;
mod mend;
mod objects;
mod outages;
mod promises;
mod random;
mod rest;
mod settings;
mod shrink;
mod steps;
mod strangers;
mod touched;
mod trace;
mod unkind;
mod world;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use external_dns_cloudflare_tunnel_webhook::clock::{Clock, SystemClock};

use crate::coverage::Coverage;
use crate::shrink::Script;
use crate::unkind::Kind;

/// The arguments.
const ARGUMENTS: &str = "one of seed, from, seeds, rounds, seconds, least, threads, shrink, stop, growth, unkind, old, lag, ages, unwritable, \
     overlap, elsewhere, hands, and a number";

/// Worlds of an ordinary run of all tests, some five seconds of them.
const SEEDS: u64 = 6;

/// What to run.
#[derive(Clone, Debug)]
struct Order {
    /// The first seed.
    seed: u64,
    /// How many.
    seeds: u64,
    /// Rounds of changes and one loop in each world.
    rounds: usize,
    /// No world begins after so many seconds, unless one of the least is missing.
    seconds: u64,
    /// At least so many of the worlds are tried, however long it takes.
    least: u64,
    /// Worlds at work at once.
    threads: usize,
    /// One world: everything is printed, and the second run compared with the first.
    is_single: bool,
    shrinks: bool,
    /// No world begins after the first that failed.
    stops: bool,
    /// Instead of worlds, so many loops of one instance.
    growth: Option<usize>,
    /// The ways in which the worlds are as unkind as the real one.
    kinds: BTreeSet<Kind>,
}

impl Order {
    /// `None` where the arguments are those of a run of named tests, which no world has.
    fn read(arguments: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let mut order = Self {
            seed: 1,
            seeds: SEEDS,
            rounds: 18,
            seconds: 3_600,
            least: 0,
            threads,
            is_single: false,
            shrinks: true,
            stops: false,
            growth: None,
            kinds: BTreeSet::from(Kind::HELD),
        };
        let mut said: Vec<String> = Vec::new();
        for argument in arguments {
            let Some((name, value)) = argument.split_once('=').filter(|_| !argument.starts_with('-')) else {
                println!("SKIPPED: the simulator: {argument:?} is for other tests; {ARGUMENTS}");
                return Ok(None);
            };
            let wrong = || format!("{argument}: {ARGUMENTS}");
            let number: u64 = value.parse().map_err(|_| format!("{argument}: {value:?} is no number"))?;
            let count = usize::try_from(number).map_err(|_| wrong())?;
            if number == 0 && ["seeds", "rounds", "seconds", "least", "threads", "growth"].contains(&name) {
                return Err(format!("{argument} would try nothing"));
            }
            said.push(name.to_owned());
            match name {
                "seed" => (order.seed, order.seeds, order.is_single) = (number, 1, true),
                "from" => order.seed = number,
                "seeds" => order.seeds = number,
                "rounds" => order.rounds = count,
                "seconds" => order.seconds = number,
                "least" => order.least = number,
                "threads" => order.threads = count,
                "stop" => order.stops = number > 0,
                "growth" => order.growth = Some(count),
                "shrink" => order.shrinks = number > 0,
                // All kinds or none, and then one by one.
                "unkind" if number > 0 => order.kinds.extend(Kind::ALL),
                "unkind" => order.kinds.clear(),
                _ => {
                    let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(wrong)?;
                    if number > 0 {
                        order.kinds.insert(kind)
                    } else {
                        order.kinds.remove(&kind)
                    };
                }
            }
        }
        let is_said = |name: &str| said.iter().any(|one| one == name);
        // Time ends what is said to last, not the number of worlds that an ordinary run has.
        if is_said("seconds") && !is_said("seeds") {
            order.seeds = u64::MAX;
        }
        for alone in ["seed", "growth"].into_iter().filter(|alone| is_said(alone)) {
            let others = ["seed", "growth", "from", "seeds", "seconds", "least", "stop"];
            if let Some(other) = others.into_iter().find(|other| *other != alone && is_said(other)) {
                return Err(format!("{alone} and {other} do not go together"));
            }
        }
        if order.least > order.seeds {
            return Err(format!(
                "least={} is more than the {} worlds that there are",
                order.least, order.seeds
            ));
        }
        Ok(Some(order))
    }
}

fn main() -> ExitCode {
    let order = match Order::read(std::env::args().skip(1)) {
        Ok(Some(order)) => order,
        Ok(None) => return ExitCode::SUCCESS,
        Err(problem) => {
            println!("{problem}");
            return ExitCode::FAILURE;
        }
    };
    let is_fine = match order.growth {
        Some(loops) => growth::run(loops),
        None if order.is_single => run_one(&order),
        None => run_many(&order),
    };
    if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// One world, run twice.
fn run_one(order: &Order) -> bool {
    let script = Script::of(order.seed, order.rounds, &order.kinds);
    let (first, second) = (script.run(), script.run());
    for line in first.trace.lines() {
        println!("{line}");
    }
    let is_same = first.trace.digest() == second.trace.digest();
    if !is_same {
        let pairs = first.trace.lines().iter().zip(second.trace.lines());
        if let Some((one, other)) = pairs.into_iter().find(|(one, other)| one != other) {
            println!("two runs differ:\n{one}\n{other}");
        }
    }
    println!(
        "seed {}: {} loops, trace {:016x}, {}",
        order.seed,
        first.loops,
        first.trace.digest(),
        if is_same { "the same twice" } else { "NOT the same twice" }
    );
    if let Some((kind, text)) = &first.failure {
        println!("seed {}: {kind}: {text}", order.seed);
        report(order, order.seed, &script, kind);
    }
    first.failure.is_none() && is_same
}

fn run_many(order: &Order) -> bool {
    let begun = SystemClock.now();
    let next = AtomicU64::new(order.seed);
    let (loops, worlds) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let coverage: Mutex<Coverage> = Mutex::default();
    let failed = AtomicBool::new(false);
    let failures: Mutex<Vec<(u64, Script, &'static str)>> = Mutex::default();
    let is_time_over = |begun: Instant| SystemClock.now() - begun > Duration::from_secs(order.seconds);
    thread::scope(|scope| {
        for _ in 0..order.threads {
            scope.spawn(|| {
                let is_missing = || next.load(Ordering::Relaxed).wrapping_sub(order.seed) < order.least;
                let is_over = || {
                    (is_time_over(begun) && !is_missing()) || (order.stops && failed.load(Ordering::Relaxed))
                };
                while !is_over() {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed.wrapping_sub(order.seed) >= order.seeds {
                        return;
                    }
                    let script = Script::of(seed, order.rounds, &order.kinds);
                    let outcome = script.run();
                    loops.fetch_add(outcome.loops, Ordering::Relaxed);
                    worlds.fetch_add(1, Ordering::Relaxed);
                    coverage.lock().expect("no thread panics").add(&outcome.coverage);
                    if let Some((kind, text)) = outcome.failure {
                        println!("seed {seed}: {kind}: {text}");
                        failed.store(true, Ordering::Relaxed);
                        failures.lock().expect("no thread panics").push((seed, script, kind));
                    }
                }
            });
        }
    });
    let seconds = (SystemClock.now() - begun).as_secs_f64();
    let (loops, worlds) = (loops.into_inner(), worlds.into_inner());
    let coverage = coverage.into_inner().expect("no thread panics");
    println!("{coverage}");
    println!(
        "{worlds} worlds from seed {}, {loops} loops in {seconds:.1} s, {:.0} a second",
        order.seed,
        loops as f64 / seconds
    );
    let mut failures = failures.into_inner().expect("no thread panics");
    failures.sort_by_key(|(seed, ..)| *seed);
    println!("{} failed", failures.len());
    if let Some((seed, script, kind)) = failures.first().filter(|_| order.shrinks) {
        report(order, *seed, script, kind);
    }
    let too_little = coverage.is_too_little(worlds, &order.kinds);
    if let Some(too_little) = &too_little {
        println!("too little was looked at: {too_little}");
    }
    failures.is_empty() && too_little.is_none()
}

/// Prints the smallest script that fails so, and what the program said in it.
fn report(order: &Order, seed: u64, script: &Script, kind: &'static str) {
    let script = if order.shrinks { script.shrunk(kind) } else { script.clone() };
    let outcome = script.run();
    println!("--- seed {seed}, as few steps as fail so ---\n{:#?}", script.settings);
    for step in &script.steps {
        println!("{step:?}");
    }
    println!("--- its calls ---");
    for line in outcome.trace.lines() {
        println!("{line}");
    }
    println!("--- what the program said ---");
    for line in outcome.said.iter().filter(|line| !line.starts_with("DEBUG")) {
        println!("{line}");
    }
    let kinds = Kind::ALL.map(|kind| format!("{}={}", kind.name(), u8::from(order.kinds.contains(&kind))));
    let (rounds, kinds) = (order.rounds, kinds.join(" "));
    println!("--- {:?}\nagain: just simulate seed={seed} rounds={rounds} {kinds}", outcome.failure);
}
