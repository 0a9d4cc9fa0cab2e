//! Turns of a request that changes more hostnames than one turn takes.

use std::collections::BTreeSet;

use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use external_dns_cloudflare_tunnel_webhook::reconcile::plan::{Plan, Turn, pieces, plan};
use external_dns_cloudflare_tunnel_webhook::reconcile::plan_inputs::PlanInputs;
use external_dns_cloudflare_tunnel_webhook::reconcile::reason::Reason;
use proptest::prelude::*;
use test_support::external_dns::Changes;
use test_support::fake_cloudflare::{FakeCloudflare, WHOLE};
use test_support::harness::{endpoint_of, published};

const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

fn shop(name: &str) -> Endpoint {
    published(&format!("{name}.example.com"), "http://shop:80")
}

fn of(cloudflare: &FakeCloudflare, changes: &Changes, earlier: &PlanInputs, turn: Turn<'_>) -> Plan {
    plan(&changes.read(), &cloudflare.snapshot(), earlier, turn)
}

fn names(plan: &Plan) -> Vec<String> {
    plan.hosts.iter().map(|host| host.hostname.trim_end_matches(".example.com").to_owned()).collect()
}

/// What is known once Cloudflare rejected the records of such hostnames.
fn after_refusals(plan: &Plan, is_such: impl Fn(&str) -> bool) -> PlanInputs {
    let hosts = plan.hosts.iter().filter(|host| is_such(&host.hostname));
    let records = hosts.flat_map(pieces).filter(|piece| piece.edit.is_none());
    let held = records.map(|piece| (piece.fingerprint(), Reason::Cloudflare("no".to_owned())));
    PlanInputs { paused: held.collect(), ..PlanInputs::default() }
}

proptest! {
    /// Nothing is written between the turns, as if no write succeeded.
    #[test]
    fn within_a_round_each_hostname_gets_one_turn_whatever_becomes_of_the_others(
        kinds in proptest::collection::vec(0..4_u8, NAMES.len()),
        most in 1..4_usize,
    ) {
        let mut cloudflare = FakeCloudflare::new(&[], &[]);
        let of_kind = |kind: u8| NAMES.iter().zip(&kinds).filter(move |(_, one)| **one == kind).map(|(name, _)| *name);
        // Published, and withdrawn again, without which nothing would vanish.
        cloudflare.mass_deletion_limit = 0;
        let going: Vec<Endpoint> = of_kind(0).map(shop).collect();
        cloudflare.run_loop(&going, usize::MAX);
        let new = of_kind(1).chain(of_kind(2)).map(shop);
        let mistaken = of_kind(3).map(|name| {
            let name = format!("{name}.example.com");
            endpoint_of("ingress/shop/web", &name, &[("tunnel-service", "nonsense://shop")])
        });
        let changes = cloudflare.changes(&new.chain(mistaken).collect::<Vec<_>>());
        let unrefused = of(&cloudflare, &changes, &PlanInputs::default(), WHOLE);
        let earlier = after_refusals(&unrefused, |hostname| of_kind(2).any(|name| hostname.starts_with(name)));
        let withdrawn_last: Vec<String> = of_kind(1).chain(of_kind(0)).map(str::to_owned).collect();

        let mut first: Vec<String> = Vec::new();
        let mut round: BTreeSet<String> = BTreeSet::new();
        let mut start = None;
        for number in 0..NAMES.len().div_ceil(most) {
            let turn = of(&cloudflare, &changes, &earlier, Turn { start: start.as_ref(), hostnames_max: most });
            let names = names(&turn);
            let is_whole = turn.postponed.is_empty() || names.len() == most;
            prop_assert!(is_whole, "{names:?} of a turn of {most}, and {:?} are left", turn.postponed);
            if number == 0 {
                first.clone_from(&names);
            }
            round.extend(names);
            start = turn.next_turn;
            let whole = of(&cloudflare, &changes, &earlier, Turn { start: start.as_ref(), ..WHOLE });
            prop_assert_eq!((whole.postponed.len(), whole.hosts.len()), (0, withdrawn_last.len()));
        }
        first.sort_by_key(|name| withdrawn_last.iter().position(|one| one == name));
        prop_assert_eq!(&*first, &withdrawn_last[..first.len()]);
        prop_assert_eq!(round, withdrawn_last.iter().cloned().collect());
    }
}

#[test]
fn a_mass_deletion_is_judged_over_the_whole_request_whatever_the_turn() {
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    let published: Vec<Endpoint> = NAMES.map(shop).to_vec();
    cloudflare.run_loop(&published, usize::MAX);
    let changes = cloudflare.changes(&published[..1]);
    let turn = of(&cloudflare, &changes, &PlanInputs::default(), Turn { hostnames_max: 2, ..WHOLE });
    assert_eq!((names(&turn), turn.refusals.len()), (vec![], 7));
    assert!(turn.refusals.iter().all(|refusal| matches!(refusal.reason, Reason::MassDeletion { .. })));
}

/// The log said that a name was taken from a wildcard, though nothing is written.
#[test]
fn no_effect_is_told_of_a_hostname_whose_writes_are_held_back() {
    let cloudflare = FakeCloudflare::new(&[], &[("*.example.com", "A", "192.0.2.1")]);
    let changes = cloudflare.changes(&[published("a.b.example.com", "http://shop:80")]);
    let planned = of(&cloudflare, &changes, &PlanInputs::default(), WHOLE);
    assert!(planned.notes.iter().any(|note| note.text.contains("from the wildcard record")), "{planned:?}");
    let held = of(&cloudflare, &changes, &after_refusals(&planned, |_| true), WHOLE);
    assert_eq!((held.hosts.len(), held.notes), (0, vec![]));
}

/// Hostnames with a deletion are planned before the turn is taken.
#[test]
fn no_effect_is_told_of_a_hostname_that_is_left_to_a_later_turn() {
    let cloudflare = FakeCloudflare::new(&[], &[("*.example.com", "A", "192.0.2.1")]);
    let name = "a.b.example.com";
    let mut changes = cloudflare.changes(&[published(name, "http://shop:80")]);
    let path = Endpoint { set_identifier: "/p".to_owned(), ..published(name, "http://shop:80") };
    changes.delete.push(path);
    let planned = of(&cloudflare, &changes, &PlanInputs::default(), WHOLE);
    assert!(planned.notes.iter().any(|note| note.text.contains("from the wildcard record")), "{planned:?}");
    let left = of(&cloudflare, &changes, &PlanInputs::default(), Turn { hostnames_max: 0, ..WHOLE });
    assert_eq!((left.postponed.len(), left.notes), (1, vec![]));
}
