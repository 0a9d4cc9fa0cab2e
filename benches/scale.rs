//! How many hostnames fit into which memory, as a Markdown table: `just scale` (needs root, for control groups).
//!
//! The static binary (or the one `WEBHOOK_BINARY` names) runs in a control group with little memory and a twentieth of
//! a core, and ExternalDNS's conversation is played to it until everything wanted stands, for twenty loops at most.
//! Fails if the program is killed, if an answer takes 12 s, if a loop in which nothing changes fails, or if more than
//! ten loops get no further.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a measurement reads the time, and prints what it measures"
)]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs};

use cloudflare_emulator::{Refusal, Token};
use external_dns_cloudflare_tunnel_webhook::limits;
use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Endpoint, Property};
use serde_json::{Value, json};
use test_support::external_dns::{Changes, ExternalDns};
use test_support::harness::{Harness, TOKEN, published};
use test_support::process::Process;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// In thousandths of a core.
const CPU_MILLICORES: usize = 50;

/// ExternalDNS waits for 15 s, and then ends.
const LONGEST_ANSWER: Duration = Duration::from_secs(12);

const LOOPS_MAX: usize = 20;

/// Loops of one scenario that may get no further.
const IDLE_MAX: usize = 10;

/// What happens to what is published before.
#[derive(Clone, Copy, PartialEq)]
enum Change {
    /// Nothing, in twenty loops.
    Quiet,
    /// Another `ORIGIN_CONNECT_TIMEOUT`.
    Default,
    /// All of it is deleted.
    Deletion,
    /// New hostnames beside it.
    Addition,
}

/// What is published before, what is wanted, and what Cloudflare rejects.
#[derive(Clone, Copy)]
struct Scenario {
    name: &'static str,
    memory_mib: usize,
    published: usize,
    new: usize,
    /// As many new ones are rejected by Cloudflare, one by one.
    refused: usize,
    /// Records of others, in the same zone.
    foreign: usize,
    /// Of those that are published before, so many have an Access application.
    protected: usize,
    change: Change,
    /// After so many loops it is enough that each got further.
    loops_max: usize,
}

const NOTHING: Scenario = Scenario {
    name: "",
    memory_mib: 64,
    published: 0,
    new: 0,
    refused: 0,
    foreign: 0,
    protected: 0,
    change: Change::Addition,
    loops_max: LOOPS_MAX,
};

const PROTECTED: Scenario = Scenario { published: 1_000, protected: 500, ..NOTHING };

const CROWDED: Scenario = Scenario { published: 10_000, foreign: 50_000, ..NOTHING };

const SCENARIOS: [Scenario; 13] = [
    Scenario { name: "1,000 new", memory_mib: 16, new: 1_000, ..NOTHING },
    Scenario { name: "1,000, and 1,000 new", memory_mib: 32, published: 1_000, new: 1_000, ..NOTHING },
    Scenario { name: "5,000, and 5,000 new", published: 5_000, new: 5_000, ..NOTHING },
    // The loops of this table follow each other at once, and those that look for what is refused use many calls.
    Scenario { name: "5,000 new, 1,500 refused", new: 5_000, refused: 1_500, loops_max: 8, ..NOTHING },
    Scenario { name: "10,000 new", new: 10_000, ..NOTHING },
    Scenario {
        name: "10,000, and another `ORIGIN_CONNECT_TIMEOUT`",
        change: Change::Default,
        foreign: 0,
        ..CROWDED
    },
    Scenario {
        name: "9,000, and 1,000 new, beside 50,000 records of others",
        published: 9_000,
        new: 1_000,
        ..CROWDED
    },
    Scenario { name: "1,000, 500 with a login, unchanged", change: Change::Quiet, ..PROTECTED },
    Scenario { name: "the same, and another `ORIGIN_CONNECT_TIMEOUT`", change: Change::Default, ..PROTECTED },
    Scenario { name: "the same, and all are deleted", change: Change::Deletion, ..PROTECTED },
    Scenario { name: "10,000 beside 50,000 records of others, unchanged", change: Change::Quiet, ..CROWDED },
    Scenario {
        name: "10,000 beside 50,000, and another `ORIGIN_CONNECT_TIMEOUT`",
        change: Change::Default,
        ..CROWDED
    },
    Scenario { name: "10,000 beside 50,000, and all are deleted", change: Change::Deletion, ..CROWDED },
];

fn main() -> Outcome<()> {
    // `cargo test --all-targets` runs benches too, without this argument: there is nothing to test here.
    if !env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let only: Vec<String> = env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let is_meant = |one: &&Scenario| only.is_empty() || only.iter().any(|only| one.name.contains(&**only));
    println!(
        "| hostnames | memory limit | peak | loops | loops with progress | answered 503 | as wanted at the end | \
         longest answer |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for scenario in SCENARIOS.iter().filter(is_meant) {
        scenario.run().map_err(|problem| format!("{}: {problem}", scenario.name))?;
    }
    Ok(())
}

impl Scenario {
    fn run(&self) -> Outcome<()> {
        let harness = self.harness();
        let all: Vec<Endpoint> =
            (0..self.published + self.refused + self.new).map(|number| self.shop(number)).collect();
        self.publish(&harness, all.get(..self.published).unwrap_or_default());
        let foreign: Vec<Value> = (0..self.foreign).map(foreign).collect();
        harness.cloudflare.add_records(&harness.zone, &foreign).map_err(|refusal| format!("{refusal:?}"))?;
        // The calls of the publication count no more.
        harness.cloudflare.advance_clock(limits::RATE_WINDOW);
        let group = Group::new(self.memory_mib)?;
        let variables: &[_] = match self.change {
            Change::Default => &[("ORIGIN_CONNECT_TIMEOUT", "20s")],
            Change::Deletion => &[("MASS_DELETION_LIMIT", "0")],
            Change::Quiet | Change::Addition => &[],
        };
        let (process, external_dns) = Process::start_ready(&harness, variables);
        group.hold(process.id())?;
        let wanted = if self.change == Change::Deletion { Vec::new() } else { all };
        let as_wanted = || {
            let rules = harness.rules();
            let count = |text: &str| rules.iter().filter(|rule| rule.contains(text)).count();
            match self.change {
                Change::Default => count("connectTimeout"),
                Change::Deletion => self.published - count("shop"),
                Change::Quiet | Change::Addition => count("shop"),
            }
        };
        let (mut done, mut loops, mut further, mut soft_errors) = (as_wanted(), 0, 0, 0);
        let mut longest = Duration::ZERO;
        let is_quiet = self.change == Change::Quiet;
        while loops < self.loops_max && (is_quiet || done < self.published + self.new) {
            loops += 1;
            let (answer, is_soft_error) = run_loop(external_dns, &wanted)?;
            longest = longest.max(answer);
            soft_errors += usize::from(is_soft_error);
            let now = as_wanted();
            further += usize::from(now > done);
            done = now;
        }
        let is_late = longest >= LONGEST_ANSWER;
        let is_idle = if is_quiet { soft_errors > 0 } else { loops - further > IDLE_MAX };
        let (name, limit, peak) = (self.name, self.memory_mib, process.memory_peak_kib() as f64 / 1024.0);
        println!(
            "| {name} | {limit} MiB | {peak:.0} MiB | {loops} | {further} | {soft_errors} | {done} | {:.1} s |",
            longest.as_secs_f64()
        );
        if is_late || is_idle {
            return Err("this is worse than it may be".into());
        }
        Ok(())
    }

    /// Cloudflare with room for all, and what it refuses.
    fn harness(&self) -> Harness {
        let harness = Harness::new();
        harness.cloudflare.edit(|cloudflare| {
            cloudflare.zone_mut(&harness.zone).record_quota = 200_000;
            for number in self.published..self.published + self.refused {
                let refusal = Refusal::new(400, 9041, "This DNS record cannot be proxied.");
                cloudflare.whims_mut().dislike_name(&name(number), refusal);
            }
            if self.protected > 0 {
                cloudflare.set_up_access("my-team");
                let policy = json!({"name": "staff", "decision": "allow", "include": [{"everyone": {}}]});
                cloudflare.add_policy(&policy).expect("a policy");
                *cloudflare.token_mut(TOKEN) = Token::with_access(TOKEN);
            }
        });
        harness
    }

    fn shop(&self, number: usize) -> Endpoint {
        let mut shop = published(&name(number), &format!("http://shop-{number}.shop.svc:8080"));
        if number < self.protected {
            shop.provider_specific.push(Property::new("webhook/access-policy", "staff"));
        }
        shop
    }

    /// By another process, without limits, as an installation grows.
    fn publish(&self, harness: &Harness, endpoints: &[Endpoint]) {
        const STEP: usize = 5_000;

        let (_process, external_dns) = Process::start_ready(harness, &[]);
        for end in (STEP..endpoints.len()).step_by(STEP).chain([endpoints.len()]) {
            let endpoints = endpoints.get(..end).unwrap_or_default();
            while external_dns.run_loop(endpoints) != Ok(Changes::default()) {}
        }
    }
}

/// One loop: the time of the longest answer, and whether one is a soft error, which ends the loop.
fn run_loop(external_dns: ExternalDns, wanted: &[Endpoint]) -> Outcome<(Duration, bool)> {
    let (mut longest, mut is_soft_error) = (Duration::ZERO, false);
    let mut timed = |method: &str, path: &str, body: &str| {
        let begun = Instant::now();
        let answer = external_dns.call(method, path, body);
        longest = longest.max(begun.elapsed());
        is_soft_error |= answer.status == 503;
        answer
    };
    let current = timed("GET", "/records", "");
    if current.status == 200 {
        let adjusted = timed("POST", "/adjustendpoints", &serde_json::to_string(wanted)?);
        if adjusted.status == 200 {
            let (current, adjusted): (Vec<Endpoint>, Vec<Endpoint>) =
                (serde_json::from_str(&current.body)?, serde_json::from_str(&adjusted.body)?);
            let changes = external_dns.registry.plan(&current, &adjusted);
            if changes != Changes::default() {
                timed("POST", "/records", &serde_json::to_string(&changes)?);
            }
        }
    }
    Ok((longest, is_soft_error))
}

fn name(number: usize) -> String {
    format!("shop-{number}.example.com")
}

fn foreign(number: usize) -> Value {
    json!({"type": "A", "name": format!("host-{number}.example.com"), "content": "192.0.2.1", "proxied": true})
}

/// Control groups for one process, of either version of them.
struct Group {
    folders: Vec<PathBuf>,
}

impl Group {
    fn new(memory_mib: usize) -> Outcome<Self> {
        let (root, name) = (Path::new("/sys/fs/cgroup"), format!("scale-{}", std::process::id()));
        let (bytes, quota) = (memory_mib * 1024 * 1024, CPU_MILLICORES * 100);
        let limits = if root.join("cgroup.controllers").exists() {
            let both = root.join(name);
            vec![
                (both.clone(), "memory.max", bytes.to_string()),
                (both, "cpu.max", format!("{quota} 100000")),
            ]
        } else {
            let (memory, cpu) = (root.join("memory").join(&name), root.join("cpu").join(&name));
            vec![
                (memory, "memory.limit_in_bytes", bytes.to_string()),
                (cpu, "cpu.cfs_quota_us", quota.to_string()),
            ]
        };
        let mut group = Self { folders: Vec::new() };
        for (folder, file, limit) in limits {
            fs::create_dir_all(&folder)?;
            group.folders.push(folder.clone());
            fs::write(folder.join(file), limit)?;
        }
        Ok(group)
    }

    fn hold(&self, process: u32) -> Outcome<()> {
        for folder in &self.folders {
            fs::write(folder.join("cgroup.procs"), process.to_string())?;
        }
        Ok(())
    }
}

impl Drop for Group {
    /// They can go once their process has ended.
    fn drop(&mut self) {
        for folder in &self.folders {
            let _ = fs::remove_dir(folder);
        }
    }
}
