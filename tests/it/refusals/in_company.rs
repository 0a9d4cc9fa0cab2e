//! What Cloudflare rejects only together with others is no verdict on a hostname: each loop decides something, until
//! the bad hostnames stand alone.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cloudflare_emulator::{Fault, Matcher, Refusal, RuleText};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use test_support::harness::{Harness, published};

use crate::latency::ProgramWithLatency;

/// What a call takes at Cloudflare on a good day.
const CALL: Duration = Duration::from_millis(300);

/// ExternalDNS's default `--interval`.
const INTERVAL: Duration = Duration::from_secs(60);

const SEED: u64 = 2;

/// The place that refuses the bad hostnames.
#[derive(Clone, Copy, Debug)]
enum Refuser {
    Batch,
    Document(RuleText),
}

fn name(number: usize) -> String {
    format!("h{number:03}.example.com")
}

fn hostnames(count: usize) -> Vec<Endpoint> {
    (0..count).map(|number| published(&name(number), "http://web:80")).collect()
}

/// `count` of the numbers below `among`, spread at random, the same for the same seed.
fn spread(count: usize, among: usize, seed: u64) -> BTreeSet<usize> {
    let mut state = seed;
    let mut numbers = BTreeSet::new();
    while numbers.len() < count {
        // Knuth's MMIX constants; the upper bits are the good ones.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        numbers.insert((state >> 33) as usize % among);
    }
    numbers
}

/// One Cloudflare that dislikes some hostnames, and the program on a clock that only calls move.
struct Fixture {
    harness: Harness,
    latency: ProgramWithLatency,
    good: BTreeSet<String>,
}

impl Fixture {
    fn new(count: usize, bad: &BTreeSet<usize>, refuser: Refuser) -> Self {
        let harness = Harness::new();
        let bad: BTreeSet<String> = bad.iter().map(|number| name(*number)).collect();
        harness.cloudflare.edit(|cloudflare| match refuser {
            Refuser::Batch => {
                let refusal = Refusal::new(400, 9041, "This DNS record cannot be proxied.");
                bad.iter().for_each(|name| cloudflare.whims_mut().dislike_name(name, refusal.clone()));
            }
            Refuser::Document(text) => {
                let bad = bad.clone();
                cloudflare.whims_mut().dislike_rule(text, move |rule| bad.contains(&rule.hostname));
            }
        });
        let good = (0..count).map(name).filter(|name| !bad.contains(name)).collect();
        let latency = ProgramWithLatency::new(&harness, CALL, &[]);
        Self { harness, latency, good }
    }

    fn records(&self) -> BTreeSet<String> {
        self.harness.cnames().into_iter().map(|(name, ..)| name).collect()
    }

    /// Those with a record and a rule.
    fn published(&self) -> BTreeSet<String> {
        let rules = self.harness.rules();
        let has_rule = |name: &String| rules.iter().any(|rule| rule.contains(&format!("\"{name}\"")));
        self.records().into_iter().filter(has_rule).collect()
    }

    /// Loops until every good one is published, at most `loops`; how many are missing after each.
    fn missing_by_loop(&self, desired: &[Endpoint], loops: usize) -> Vec<usize> {
        let mut missing = Vec::new();
        for _ in 0..loops {
            let answer = self.latency.run_loop(&self.harness, desired);
            assert!(matches!(answer, Ok(_) | Err(503)), "{answer:?}");
            missing.push(self.good.difference(&self.published()).count());
            if missing.last() == Some(&0) {
                break;
            }
            // After a 204 ExternalDNS would not ask again under `--registry=crd`.
            assert_eq!(answer.err(), Some(503), "{missing:?}");
            self.latency.clock.put_ahead(INTERVAL);
        }
        missing
    }
}

#[test]
fn with_forty_bad_ones_among_two_hundred_all_good_ones_are_published_after_some_loops() {
    for (refuser, loops) in [(Refuser::Batch, 12), (Refuser::Document(RuleText::Unnamed), 24)] {
        let fixture = Fixture::new(200, &spread(40, 200, SEED), refuser);
        let missing = fixture.missing_by_loop(&hostnames(200), loops);
        assert_eq!(missing.last(), Some(&0), "{refuser:?}: {missing:?}");
    }
}

/// The request has an unfinished write elsewhere, so the memory of the zone is not dropped with all other memory.
#[test]
fn a_search_that_its_last_group_completes_is_over_even_if_that_group_used_up_the_time() {
    let fixture = Fixture::new(20, &BTreeSet::from([1]), Refuser::Batch);
    let Fixture { harness, latency, good: _ } = &fixture;
    let outcome = latency.run_loop_with(harness, &hostnames(2), |cloudflare| {
        let clock = Arc::clone(&latency.clock);
        cloudflare.edit_after(Matcher::batch(), 3, move |_| clock.put_ahead(Duration::from_secs(6)));
        cloudflare.fault(Matcher::put_configuration(), 1, Fault::error(403, 10000, "Authentication error"));
    });
    assert_eq!(outcome.map(drop), Err(503), "the tunnel could not be written");
    latency.clock.put_ahead(INTERVAL);
    harness.cloudflare.take_calls();
    latency.run_loop(harness, &hostnames(20)).expect("all others are published");
    let calls = harness.cloudflare.take_calls();
    let batches = calls.iter().filter(|call| call.path.ends_with("/batch"));
    assert_eq!((fixture.published(), batches.count()), (fixture.good, 1), "no search");
}
