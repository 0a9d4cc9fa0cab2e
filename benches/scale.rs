//! How many hostnames fit into which memory, as a Markdown table: `just scale` (needs root, for control groups).
//!
//! The static binary (or the one `WEBHOOK_BINARY` names) runs in a control group with little memory and a twentieth of a
//! core, and ExternalDNS's conversation is played to it until everything wanted stands. Fails if the program is killed,
//! if an answer takes 12 s, or if two loops in a row get no further.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a measurement reads the time, and prints what it measures"
)]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs};

use cloudflare_emulator::Refusal;
use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Changes, Endpoint};
use serde_json::{Value, json};
use test_support::external_dns::ExternalDns;
use test_support::harness::{Harness, published};
use test_support::process::Process;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// In thousandths of a core.
const CPU_MILLICORES: usize = 50;

/// ExternalDNS waits for 15 s, and then ends.
const LONGEST_ANSWER: Duration = Duration::from_secs(12);

/// What is published before, what is wanted, and what Cloudflare refuses.
#[derive(Clone, Copy)]
struct Scenario {
    name: &'static str,
    memory_mib: usize,
    published: usize,
    new: usize,
    /// As many new ones are refused by Cloudflare, one by one.
    refused: usize,
    /// Records of others, in the same zone.
    foreign: usize,
    variables: &'static [(&'static str, &'static str)],
    /// A rule that is as wanted has this text.
    as_wanted: &'static str,
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
    variables: &[],
    as_wanted: "shop",
    loops_max: usize::MAX,
};

const SCENARIOS: [Scenario; 7] = [
    Scenario { name: "1,000 new", memory_mib: 16, new: 1_000, ..NOTHING },
    Scenario { name: "1,000, and 1,000 new", memory_mib: 32, published: 1_000, new: 1_000, ..NOTHING },
    Scenario { name: "5,000, and 5,000 new", published: 5_000, new: 5_000, ..NOTHING },
    // The loops of this table follow each other at once, and those that look for what is refused use many calls.
    Scenario { name: "5,000 new, 1,500 refused", new: 5_000, refused: 1_500, loops_max: 8, ..NOTHING },
    Scenario { name: "10,000 new", new: 10_000, ..NOTHING },
    Scenario {
        name: "10,000, and another `ORIGIN_CONNECT_TIMEOUT`",
        published: 10_000,
        variables: &[("ORIGIN_CONNECT_TIMEOUT", "20s")],
        as_wanted: "connectTimeout",
        ..NOTHING
    },
    Scenario {
        name: "9,000, and 1,000 new, beside 50,000 records of others",
        published: 9_000,
        new: 1_000,
        foreign: 50_000,
        ..NOTHING
    },
];

fn main() -> Outcome<()> {
    // `cargo test --all-targets` runs benches too, without this argument: there is nothing to test here.
    if !env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let only: Vec<String> = env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let is_meant = |one: &&Scenario| only.is_empty() || only.iter().any(|only| one.name.contains(&**only));
    println!("| hostnames | memory limit | peak | loops | as wanted then | longest answer |");
    println!("|---|---|---|---|---|---|");
    for scenario in SCENARIOS.iter().filter(is_meant) {
        scenario.run().map_err(|problem| format!("{}: {problem}", scenario.name))?;
    }
    Ok(())
}

impl Scenario {
    fn run(&self) -> Outcome<()> {
        let harness = self.harness();
        let wanted: Vec<Endpoint> = (0..self.published + self.refused + self.new).map(shop).collect();
        self.publish(&harness, wanted.get(..self.published).unwrap_or_default());
        let foreign: Vec<Value> = (0..self.foreign).map(foreign).collect();
        harness.cloudflare.add_records(&harness.zone, &foreign).map_err(|refusal| format!("{refusal:?}"))?;
        let group = Group::new(self.memory_mib)?;
        let (process, external_dns) = Process::start_ready(&harness, self.variables);
        group.hold(process.id())?;
        let as_wanted = || harness.rules().iter().filter(|rule| rule.contains(self.as_wanted)).count();
        let (mut done, mut idle, mut loops, mut longest) = (as_wanted(), 0, 0, Duration::ZERO);
        while done < self.published + self.new && loops < self.loops_max {
            loops += 1;
            longest = longest.max(run_loop(external_dns, &wanted)?);
            let now = as_wanted();
            idle = if now > done { 0 } else { idle + 1 };
            if longest >= LONGEST_ANSWER || idle == 2 {
                return Err(format!("loop {loops}: {now} as wanted, an answer took {longest:.1?}").into());
            }
            done = now;
        }
        let (name, limit, peak) = (self.name, self.memory_mib, process.memory_peak_kib() as f64 / 1024.0);
        println!(
            "| {name} | {limit} MiB | {peak:.0} MiB | {loops} | {done} | {:.1} s |",
            longest.as_secs_f64()
        );
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
        });
        harness
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

/// One loop, and the time of the longest answer. A soft error ends the loop.
fn run_loop(external_dns: ExternalDns, wanted: &[Endpoint]) -> Outcome<Duration> {
    let mut longest = Duration::ZERO;
    let mut timed = |method: &str, path: &str, body: &str| {
        let begun = Instant::now();
        let answer = external_dns.call(method, path, body);
        longest = longest.max(begun.elapsed());
        answer
    };
    let current = timed("GET", "/records", "");
    let adjusted = timed("POST", "/adjustendpoints", &serde_json::to_string(wanted)?);
    if current.status == 200 && adjusted.status == 200 {
        let (current, adjusted): (Vec<Endpoint>, Vec<Endpoint>) =
            (serde_json::from_str(&current.body)?, serde_json::from_str(&adjusted.body)?);
        let changes = external_dns.registry.plan(&current, &adjusted);
        timed("POST", "/records", &serde_json::to_string(&changes)?);
    }
    Ok(longest)
}

fn name(number: usize) -> String {
    format!("shop-{number}.example.com")
}

fn foreign(number: usize) -> Value {
    json!({"type": "A", "name": format!("host-{number}.example.com"), "content": "192.0.2.1", "proxied": true})
}

fn shop(number: usize) -> Endpoint {
    published(&name(number), &format!("http://shop-{number}.shop.svc:8080"))
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
