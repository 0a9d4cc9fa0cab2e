//! The laws of the guard, over random worlds and whatever Access says in each loop.

use external_dns_cloudflare_tunnel_webhook::reconcile::access::reading::{AccessReadError, AccessReading};
use proptest::prelude::*;
use test_support::fake_cloudflare::{FakeCloudflare, HOME, INNER_ZONE, OFFICE, tunnel_id};

use super::{PolicyDecision, application, covering, guarding, read};
use crate::laws::{HOSTS, LOOPS_TO_REST, any_cloudflare, any_desired};

fn any_access() -> impl Strategy<Value = AccessReading> {
    let destinations = [&HOSTS[..], &["a.example.com/api", "a.example.com/api/*", "b.example.com/admin"]];
    let decisions = vec![
        PolicyDecision::Allow,
        PolicyDecision::Allow,
        PolicyDecision::Allow,
        PolicyDecision::Bypass,
        PolicyDecision::Unknown,
    ];
    let applications =
        prop::sample::subsequence(destinations.concat(), 0..=8).prop_flat_map(move |covered| {
            let decisions = prop::sample::select(decisions.clone());
            let decided = prop::collection::vec(decisions, covered.len());
            decided.prop_map(move |decided| {
                let each = covered.iter().zip(decided);
                read(
                    each.map(|(destination, decision)| application(destination, &[destination], decision))
                        .collect(),
                )
            })
        });
    let unread = (applications.clone(), prop::sample::select(vec!["example.com", INNER_ZONE]));
    let unread = unread.prop_map(|(mut reading, zone)| {
        if let AccessReading::Read(access) = &mut reading {
            access.unread_zones = vec![(zone.into(), AccessReadError::temporary("it was not read"))];
        }
        reading
    });
    prop_oneof![
        4 => Just(covering(&HOSTS)),
        4 => applications,
        1 => unread,
        1 => Just(AccessReading::Failed(AccessReadError::temporary("HTTP 500"))),
    ]
}

/// Our rules that let visitors without a token in.
fn open_rules(cloudflare: &FakeCloudflare) -> Vec<String> {
    let own = cloudflare.snapshot().own_digests().clone();
    let tunnels = [HOME, OFFICE].map(tunnel_id);
    let rules = tunnels.iter().flat_map(|id| {
        let rules = cloudflare.document(id).rules().iter();
        rules.filter(|rule| own.has(id, rule) && !rule.requires_access())
    });
    rules.map(|rule| rule.raw().get().to_owned()).collect()
}

/// What is served, apart from what it requires of visitors.
fn served(cloudflare: &FakeCloudflare) -> Vec<[String; 4]> {
    let mut served = Vec::new();
    for id in [HOME, OFFICE].map(tunnel_id) {
        for rule in cloudflare.document(&id).rules() {
            let texts = [rule.hostname(), rule.path().unwrap_or_default(), rule.service()];
            let [hostname, path, service] = texts.map(str::to_owned);
            served.push([id.to_string(), hostname, path, service]);
        }
    }
    served
}

proptest! {
    #[test]
    fn whatever_access_says_and_wherever_a_run_is_cut_no_rule_of_ours_is_ever_open(
        cloudflare in any_cloudflare(),
        loops in prop::collection::vec((any_desired(), any_access(), 0..10_usize), 1..4),
    ) {
        let mut cloudflare = guarding(cloudflare, AccessReading::NotAsked);
        for (desired, access, writes) in loops {
            cloudflare.access = access;
            cloudflare.run_loop(&desired, writes);
            prop_assert_eq!(open_rules(&cloudflare), [""; 0]);
        }
    }

    #[test]
    fn it_comes_to_rest_and_what_is_asked_for_without_end_is_refused_by_name(
        cloudflare in any_cloudflare(),
        first in any_desired(),
        desired in any_desired(),
        access in any_access(),
    ) {
        let mut cloudflare = guarding(cloudflare, covering(&HOSTS));
        cloudflare.run_loop(&first, usize::MAX);
        cloudflare.access = access;
        let mut refused = Vec::new();
        for _ in 0..LOOPS_TO_REST {
            refused = cloudflare.run_loop(&desired, usize::MAX).refusals;
        }
        let writes = cloudflare.writes;
        let plan = cloudflare.run_loop(&desired, usize::MAX);
        prop_assert_eq!(cloudflare.writes, writes, "a further loop wrote {:?}", plan);

        let changes = cloudflare.changes(&desired);
        let asked_for = changes.wanted().chain(&changes.delete);
        for endpoint in asked_for.filter(|endpoint| endpoint.record_type != "TXT") {
            let is_told = refused.iter().any(|refusal| *refusal.hostname == *endpoint.dns_name);
            prop_assert!(is_told, "{:?} is asked for without end and no refusal says why", endpoint);
        }
    }

    #[test]
    fn where_all_is_covered_the_guard_publishes_what_is_published_without_it(
        cloudflare in any_cloudflare(),
        desired in any_desired(),
    ) {
        let mut open = cloudflare.clone();
        let mut closed = guarding(cloudflare, covering(&HOSTS));
        for _ in 0..LOOPS_TO_REST {
            open.run_loop(&desired, usize::MAX);
            closed.run_loop(&desired, usize::MAX);
        }
        prop_assert_eq!(served(&closed), served(&open));
        prop_assert_eq!(&closed.records, &open.records);
    }

    /// Trouble at Access withdraws nothing that is wanted.
    #[test]
    fn what_is_wanted_stays_whatever_access_says(
        cloudflare in any_cloudflare(),
        desired in any_desired(),
        access in any_access(),
        writes in 0..10_usize,
    ) {
        let mut cloudflare = guarding(cloudflare, covering(&HOSTS));
        for _ in 0..LOOPS_TO_REST {
            cloudflare.run_loop(&desired, usize::MAX);
        }
        let before = served(&cloudflare);
        cloudflare.access = access;
        cloudflare.run_loop(&desired, writes);
        prop_assert_eq!(served(&cloudflare), before);
    }
}
