//! One instance over as many loops as it has in a week, each of which asks for something else, with what goes wrong and
//! somebody else who writes: nothing of it may stay in memory.

use std::time::Duration;
use std::{fs, iter};

use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Endpoint, Labels};
use test_support::external_dns::{Registry, SyncPolicy};
use test_support::harness::{FOREIGN_DOCUMENT, Harness, endpoint, published};

use crate::controller::{Controller, Failure};
use crate::faults::Trouble;
use crate::instance::Instance;
use crate::random::Random;
use crate::world::INTERVAL;

/// What the allocator may keep for itself; a line of 300 bytes that is kept in each of 5,000 loops takes three times that.
/// The tests' own side, the emulator and the model of ExternalDNS, keeps nothing.
const GROWTH_MAX_KIB: u64 = 2048;

/// Hostnames of each loop that the next one does not ask for.
const NEW: usize = 5;

/// Of a hundred loops, so many have a call that goes wrong.
const TROUBLED: usize = 40;

/// In one of so many loops somebody writes the tunnel's document as it was before the program came.
const UNDONE: usize = 7;

/// For so many loops a hostname stays in its tunnel, and two objects of one hostname take turns.
const EPISODE: usize = 10;

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
    cloudflare.add_tunnel("office");
    cloudflare.stop_clock();
    let variables = [("CF_TUNNEL_ID", "home,office".to_owned()), ("MASS_DELETION_LIMIT", "0".to_owned())];
    let instance = Instance::start(&harness, &variables);
    let api = instance.program().external_dns().api;
    let controller = Controller { api, registry: Registry::Noop, policy: SyncPolicy::Sync };
    let mut random = Random::new(1);
    let (mut failed, mut begun_with_kib) = (0, 0);
    for number in 0..loops {
        if number.is_multiple_of(UNDONE) {
            cloudflare.put_configuration(&harness.tunnel, FOREIGN_DOCUMENT).expect("cloudflared takes it");
        }
        if random.chance(TROUBLED) {
            // With a new process every memory would begin anew.
            let trouble =
                iter::repeat_with(|| Trouble::random(&mut random)).find(|trouble| !trouble.is_crash());
            trouble.expect("there are others").arm(cloudflare);
        }
        match converse(controller, &desired(number)) {
            Ok(()) => {}
            Err(Failure::Soft(_)) => failed += 1,
            Err(Failure::Fatal(problem)) => panic!("loop {number}: {problem}"),
        }
        cloudflare.clear_faults();
        cloudflare.take_calls();
        harness.log.forget();
        cloudflare.advance_clock(INTERVAL - Duration::from_millis(1));
        instance.run_watch();
        if number == loops / 2 {
            begun_with_kib = resident_kib();
        }
    }
    println!("{failed} of {loops} loops were answered with a soft error");
    Growth { begun_with_kib, ended_with_kib: resident_kib() }
}

fn converse(controller: Controller, desired: &[Endpoint]) -> Result<(), Failure> {
    let current = controller.records()?;
    let adjusted = controller.adjust(desired)?;
    controller.apply(&controller.plan(&current, &adjusted))
}

/// What is published and goes with the next loop, what stays and changes, what moves, what ExternalDNS merges, and what is
/// refused.
fn desired(number: usize) -> Vec<Endpoint> {
    let new = (0..NEW).map(|of| published(&format!("h{number}-{of}.example.com"), "http://comes:80"));
    let path = format!("^/p{number}$");
    let episode = number / EPISODE;
    let tunnel = if episode.is_multiple_of(2) { "home" } else { "office" };
    let turns =
        published(&format!("merged-{episode}.example.com"), &format!("http://turn-{}:80", number % 2));
    let object = format!("ingress/shop/turn-{}-{episode}", number % 2);
    let others = [
        endpoint("moves.example.com", &[("tunnel-service", "http://moves:80"), ("tunnel", tunnel)]),
        Endpoint { labels: Labels::from_iter([("resource", &*object)]), ..turns },
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
