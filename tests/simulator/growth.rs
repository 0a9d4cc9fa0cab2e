//! One instance over as many loops as it has in a week, each of which asks for something else: nothing of it may stay in
//! memory.

use std::fs;
use std::time::Duration;

use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use test_support::external_dns::{Registry, SyncPolicy};
use test_support::harness::{Harness, endpoint, published};

use crate::controller::Controller;
use crate::instance::Instance;
use crate::world::INTERVAL;

/// What the allocator may keep for itself; a line of 300 bytes that is kept in each of 5,000 loops takes three times that.
/// The tests' own side, the emulator and the model of ExternalDNS, keeps nothing.
const GROWTH_MAX_KIB: u64 = 2048;

/// Hostnames of each loop that the next one does not ask for.
const NEW: usize = 5;

/// After half of the loops, when a day of them has passed, and at the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Growth {
    begun_with_kib: u64,
    ended_with_kib: u64,
}

impl Growth {
    pub(crate) fn is_bounded(self) -> bool {
        self.ended_with_kib <= self.begun_with_kib + GROWTH_MAX_KIB
    }
}

pub(crate) fn run(loops: usize) -> Growth {
    let harness = Harness::with_foreign();
    let cloudflare = &harness.cloudflare;
    cloudflare.stop_clock();
    let instance = Instance::start(&harness, &[("MASS_DELETION_LIMIT", "0".to_owned())]);
    let api = instance.program().external_dns().api;
    let controller = Controller { api, registry: Registry::Noop, policy: SyncPolicy::Sync };
    let mut begun_with_kib = 0;
    for number in 0..loops {
        let current = controller.records().expect("a list");
        let adjusted = controller.adjust(&desired(number)).expect("a list");
        controller.apply(&controller.plan(&current, &adjusted)).expect("all that can be done");
        cloudflare.take_calls();
        harness.log.forget();
        cloudflare.advance_clock(INTERVAL - Duration::from_millis(1));
        instance.run_watch();
        if number == loops / 2 {
            begun_with_kib = resident_kib();
        }
    }
    Growth { begun_with_kib, ended_with_kib: resident_kib() }
}

/// What is published and goes with the next loop, what stays and changes, and what is refused.
fn desired(number: usize) -> Vec<Endpoint> {
    let new = (0..NEW).map(|of| published(&format!("h{number}-{of}.example.com"), "http://comes:80"));
    let path = format!("^/p{number}$");
    let others = [
        published("stays.example.com", &format!("http://stays-{number}:80")),
        published(&format!("wrong-{number}.example.com"), "htp://wrong:80"),
        endpoint("stays.example.com", &[("tunnel-service", "http://path:80"), ("tunnel-path", &path)]),
    ];
    new.chain(others).collect()
}

fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("Linux says it");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
