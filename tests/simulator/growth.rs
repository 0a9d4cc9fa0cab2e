//! One instance over as many loops as it has in days. Each loop asks for something else, calls fail, and another
//! program writes: nothing of that may stay in memory. Then a second instance, for a part of these loops, with the
//! settings that the first one does not have.

use std::time::Duration;
use std::{fs, iter};

use cloudflare_emulator::{Call, Plan, Token};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Endpoint, Labels};
use serde_json::json;
use test_support::external_dns::{Registry, SyncPolicy, TXT_BELOW};
use test_support::harness::{FOREIGN_DOCUMENT, Harness, TOKEN, endpoint, published};

use crate::controller::{Controller, Failure};
use crate::faults::Trouble;
use crate::instance::Instance;
use crate::random::Random;
use crate::world::INTERVAL;

/// What the allocator may keep for itself. Kept in each of 5,000 loops, 8 KiB take ten times that in the second half of
/// them, and 1 KiB a fifth more. The tests' own side, the emulator and the model of ExternalDNS, keeps nothing.
const GROWTH_MAX_KIB: u64 = 2048;

/// Hostnames of each loop that the next one does not ask for.
const NEW: usize = 3;

/// Of a hundred loops, so many have a call that goes wrong.
const TROUBLED: usize = 40;

/// In one of so many loops another program writes the tunnel's document as it was before our program came.
const UNDONE: usize = 7;

/// For so many loops a hostname stays in its tunnel, and two objects of one hostname take turns.
const EPISODE: usize = 10;

/// The second instance has one of so many loops of the first: with fewer, 1 KiB that stays of each would not show.
const SHORTER: usize = 2;

/// The settings that differ between the two instances.
#[derive(Clone, Copy, Debug)]
struct Manner {
    registry: Registry,
    namespace_guard: bool,
}

const PLAIN: Manner = Manner { registry: Registry::Noop, namespace_guard: false };

const GUARDED: Manner = Manner { registry: TXT_BELOW, namespace_guard: true };

/// After half of the loops, when a day of them has passed, and at the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Growth {
    begun_with_kib: u64,
    ended_with_kib: u64,
    /// What was written of each kind. What is never written could not stay in memory.
    applications: usize,
    in_second_zone: usize,
}

impl Growth {
    pub(crate) fn is_bounded(self) -> bool {
        self.ended_with_kib <= self.begun_with_kib + GROWTH_MAX_KIB
    }
}

/// Whether both instances stay as they were.
pub(crate) fn run(loops: usize) -> bool {
    let runs = [(PLAIN, loops), (GUARDED, loops.div_ceil(SHORTER))];
    runs.into_iter().fold(true, |is_fine, (manner, loops)| {
        let growth = run_one(manner, loops);
        println!("{loops} loops with {manner:?}: {growth:?}");
        let is_at_work = growth.applications > 0 && growth.in_second_zone > 0;
        is_fine && growth.is_bounded() && is_at_work
    })
}

fn run_one(manner: Manner, loops: usize) -> Growth {
    let harness = Harness::with_foreign();
    let cloudflare = &harness.cloudflare;
    cloudflare.add_tunnel("office");
    let second_zone = cloudflare.add_zone("example.org", Plan::Free);
    cloudflare.set_up_access("my-team");
    for name in ["staff", "on-call"] {
        let include = json!([{"email_domain": {"domain": "example.com"}}]);
        let policy = json!({"name": name, "decision": "allow", "include": include});
        cloudflare.add_policy(&policy).expect("a policy");
    }
    cloudflare.edit(|cloudflare| *cloudflare.token_mut(TOKEN) = Token::with_access(TOKEN));
    cloudflare.stop_clock();
    let variables = [
        ("CF_TUNNEL_ID", "home,office".to_owned()),
        ("MASS_DELETION_LIMIT", "0".to_owned()),
        ("NAMESPACE_GUARD", manner.namespace_guard.to_string()),
        ("ACCESS_POLICIES", "staff,on-call".to_owned()),
    ];
    let instance = Instance::start(&harness, 0, &variables);
    let api = instance.program().external_dns().api;
    let controller = Controller { api, registry: manner.registry, policy: SyncPolicy::Sync };
    let mut random = Random::new(1);
    let (mut failed, mut begun_with_kib) = (0, 0);
    let (mut applications, mut in_second_zone) = (0, 0);
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
        let written: Vec<Call> = cloudflare.take_calls().into_iter().filter(Call::is_write).collect();
        let count = |is_one: &dyn Fn(&Call) -> bool| written.iter().filter(|call| is_one(call)).count();
        applications += count(&|call| call.path.contains("/access/apps"));
        in_second_zone += count(&|call| call.path.contains(&second_zone));
        harness.log.forget();
        cloudflare.advance_clock(INTERVAL - Duration::from_millis(1));
        instance.run_watch();
        if number == loops / 2 {
            begun_with_kib = resident_kib();
        }
    }
    println!("{failed} of {loops} loops were answered with a soft error");
    Growth { begun_with_kib, ended_with_kib: resident_kib(), applications, in_second_zone }
}

fn converse(controller: Controller, desired: &[Endpoint]) -> Result<(), Failure> {
    let current = controller.records()?;
    let adjusted = controller.adjust(desired)?;
    controller.apply(&controller.plan(&current, &adjusted))
}

/// What is published and goes with the next loop, what stays and changes, what moves, what another object asks for in
/// each loop, what is refused, and what asks for a login.
fn desired(number: usize) -> Vec<Endpoint> {
    let new =
        (0..NEW).map(|of| published(&format!("h{number}-{of}.example.com"), "http://comes.shop.svc:80"));
    let path = format!("^/p{number}$");
    let episode = number / EPISODE;
    let tunnel = if episode.is_multiple_of(2) { "home" } else { "office" };
    let turns = published(
        &format!("turns-{episode}.example.com"),
        &format!("http://turn-{}.shop.svc:80", number % 2),
    );
    let object = format!("ingress/shop/turn-{}-{episode}", number % 2);
    let others = [
        endpoint("moves.example.com", &[("tunnel-service", "http://moves.shop.svc:80"), ("tunnel", tunnel)]),
        Endpoint { labels: Labels::from_iter([("resource", &*object)]), ..turns },
        published("stays.example.com", &format!("http://stays-{number}.shop.svc:80")),
        published(&format!("wrong-{number}.example.com"), "htp://wrong.shop.svc:80"),
        endpoint(
            "stays.example.com",
            &[("tunnel-service", "http://path.shop.svc:80"), ("tunnel-path", &path)],
        ),
        // What the namespace guard refuses.
        published(&format!("taken-{number}.example.com"), "http://theirs.other.svc:80"),
    ];
    new.chain(others).chain(protected(number)).collect()
}

/// Hostnames that ask for a login: one goes with its episode, one has other policies in each loop, one is opened and
/// protected again, and one names a policy that there is not.
fn protected(number: usize) -> [Endpoint; 4] {
    let episode = number / EPISODE;
    let turns = if number.is_multiple_of(2) { "staff" } else { "staff,on-call" };
    let opens = if episode.is_multiple_of(2) { "none" } else { "on-call" };
    [
        (format!("login-{episode}.example.org"), "staff".to_owned()),
        ("login.example.com".to_owned(), turns.to_owned()),
        ("opens.example.org".to_owned(), opens.to_owned()),
        (format!("misspelled-{episode}.example.org"), format!("stafff-{number}")),
    ]
    .map(|(host, policy)| {
        endpoint(&host, &[("tunnel-service", "http://secret.shop.svc:80"), ("access-policy", &policy)])
    })
}

fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("Linux says it");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
