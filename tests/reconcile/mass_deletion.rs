//! Deletions of so many hostnames in one request that they must be a mistake, on plans alone.

use std::collections::BTreeSet;
use std::ops::Range;

use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Endpoint, Property};
use external_dns_cloudflare_tunnel_webhook::reconcile::plan::{Plan, pieces, plan};
use external_dns_cloudflare_tunnel_webhook::reconcile::plan_inputs::PlanInputs;
use external_dns_cloudflare_tunnel_webhook::reconcile::reason::Reason;
use test_support::fake_cloudflare::MASS_DELETION_LIMIT_DEFAULT as LIMIT;
use test_support::fake_cloudflare::{FakeCloudflare, INNER_ZONE, OFFICE, WHOLE, tunnel_id};
use test_support::harness;

fn endpoint(hostname: String, properties: &[(&str, &str)]) -> Endpoint {
    harness::endpoint(&hostname, properties)
}

/// `h3.old.example.com`, … of a template that ends in `old.example.com`.
fn hosts(template: &str, numbers: Range<usize>) -> Vec<Endpoint> {
    let service = [("tunnel-service", "http://web:80")];
    numbers.map(|number| endpoint(format!("h{number}.{template}"), &service)).collect()
}

fn of(parts: &[&[Endpoint]]) -> Vec<Endpoint> {
    parts.concat()
}

fn run(cloudflare: &mut FakeCloudflare, desired: &[Endpoint]) -> Plan {
    cloudflare.run_loop(desired, usize::MAX)
}

fn withheld(plan: &Plan) -> usize {
    plan.refusals.iter().filter(|refusal| matches!(refusal.reason, Reason::MassDeletion { .. })).count()
}

/// Published hostnames of a template.
fn standing(cloudflare: &FakeCloudflare, template: &str) -> usize {
    let shown = cloudflare.shown();
    let names = shown.iter().filter(|endpoint| endpoint.record_type == "CNAME").map(|one| &one.dns_name);
    names.filter(|name| name.ends_with(&format!(".{template}"))).collect::<BTreeSet<_>>().len()
}

const OLD: &str = "old.example.com";
const NEW: &str = "new.example.com";

/// Cloudflare rejected the deletion of one record, which says so, and counts among the deletions all the same.
#[test]
fn a_deletion_that_is_paused_counts_in_a_mass_and_keeps_its_own_reason() {
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    cloudflare.run_loop(&hosts(OLD, 0..LIMIT + 1), usize::MAX);
    let changes = cloudflare.changes(&[]);
    let mut unlimited = cloudflare.clone();
    unlimited.mass_deletion_limit = 0;
    let whole = unlimited.plan(&changes);
    let paused = pieces(&whole.hosts[0]).map(|one| (one.fingerprint(), Reason::Cloudflare("no".to_owned())));
    let inputs = PlanInputs { paused: paused.collect(), ..PlanInputs::default() };
    let plan = plan(&changes.read(), &cloudflare.snapshot(), &inputs, WHOLE);
    assert_eq!((withheld(&plan), plan.is_empty()), (LIMIT, true), "{plan:?}");
    assert!(plan.refusals.iter().any(|one| matches!(one.reason, Reason::Cloudflare(_))), "{plan:?}");
}

/// Two upgrades of ExternalDNS emptied instances of 6 to 13 hostnames; a half is no mass.
#[test]
fn more_than_the_limit_and_more_than_half_are_withheld_and_everything_else_is_done() {
    for (all, going, is_withheld) in [
        (6, 6, true),
        (5, 5, false),
        (11, 6, true),
        (12, 6, false),
        (13, 7, true),
        (30, 15, false),
        (30, 16, true),
        (30, 19, true),
        (100, 50, false),
        (100, 51, true),
    ] {
        let mut cloudflare = FakeCloudflare::new(&[], &[]);
        run(&mut cloudflare, &hosts(OLD, 0..all));
        let mut rest = hosts(OLD, going..all);
        for endpoint in &mut rest {
            endpoint.provider_specific = vec![Property::new("webhook/tunnel-service", "http://other:80")];
        }
        let plan = run(&mut cloudflare, &of(&[&rest, &hosts(NEW, 0..1)]));
        let kept = if is_withheld { going } else { 0 };
        assert_eq!(withheld(&plan), kept, "{going} of {all}");
        let named = plan.refusals.iter().all(|one| one.reason == Reason::MassDeletion { hostnames: going });
        assert!(named, "the limit that lets them go: {:?}", plan.refusals);
        assert_eq!(standing(&cloudflare, OLD), all - going + kept, "{going} of {all}");
        let shown = cloudflare.shown();
        assert_eq!(shown.len(), all - going + kept + 1, "{going} of {all}");
        let service =
            |endpoint: &&Endpoint| endpoint.property("webhook/tunnel-service") == Some("http://other:80");
        assert_eq!(shown.iter().filter(service).count(), all - going, "what stays is changed");
        cloudflare.mass_deletion_limit = going;
        let plan = run(&mut cloudflare, &of(&[&rest, &hosts(NEW, 0..1)]));
        assert_eq!(
            (withheld(&plan), standing(&cloudflare, OLD)),
            (0, all - going),
            "the named limit suffices"
        );
    }
}

/// Otherwise the hostnames of the other tunnel would go in this request, and those of this one in a later one.
#[test]
fn hostnames_of_a_tunnel_that_cannot_be_written_or_whose_answer_is_old_count_among_those_that_go() {
    for is_old in [false, true] {
        let mut cloudflare = FakeCloudflare::new(&[], &[]);
        let mut other = hosts(NEW, 0..20);
        other
            .iter_mut()
            .for_each(|one| one.provider_specific.push(Property::new("webhook/tunnel", "office")));
        run(&mut cloudflare, &of(&[&hosts(OLD, 0..20), &other]));
        if is_old {
            cloudflare.old.insert(OFFICE.into(), "an older version".into());
        } else {
            cloudflare
                .failed_tunnels
                .insert(tunnel_id(OFFICE), Reason::TunnelFailed(tunnel_id(OFFICE), "no".to_owned()));
        }
        let plan = run(&mut cloudflare, &[]);
        let left = (standing(&cloudflare, OLD), standing(&cloudflare, NEW));
        assert_eq!((withheld(&plan), left), (20, (20, 20)), "{is_old}");
    }
}

/// A changed --fqdn-template: from the second loop on as many new hostnames stand beside the old ones, and nothing but
/// the age of their records tells. Invariant 8 of docs/how-it-works.md.
#[test]
fn a_rename_of_everything_is_withheld_in_every_loop() {
    for all in [LIMIT + 1, 13, 30] {
        let mut cloudflare = FakeCloudflare::new(&[], &[]);
        run(&mut cloudflare, &hosts(OLD, 0..all));
        for round in 0..4 {
            let plan = run(&mut cloudflare, &hosts(NEW, 0..all));
            assert_eq!((withheld(&plan), standing(&cloudflare, OLD)), (all, all), "{all}, loop {round}");
            assert_eq!(standing(&cloudflare, NEW), all);
        }
    }
}

/// Otherwise the first preview that comes and goes would let everything go that waits.
#[test]
fn a_young_hostname_that_goes_too_takes_nothing_along_that_waits() {
    let preview = hosts("preview.example.com", 0..1);
    for (new, goes) in [(10, false), (11, true), (30, true)] {
        let mut cloudflare = FakeCloudflare::new(&[], &[]);
        run(&mut cloudflare, &hosts(OLD, 0..10));
        run(&mut cloudflare, &hosts(NEW, 0..new));
        run(&mut cloudflare, &of(&[&hosts(NEW, 0..new), &preview]));
        run(&mut cloudflare, &hosts(NEW, 0..new));
        assert_eq!(standing(&cloudflare, OLD), 10, "beside {new}");
        assert_eq!(standing(&cloudflare, "preview.example.com") == 0, goes, "beside {new}");
    }
}

/// Of each age as many hostnames may go as the limit says.
#[test]
fn as_many_old_hostnames_as_the_limit_go_beside_a_young_one_that_goes_too() {
    for (old, is_withheld) in [(LIMIT, false), (LIMIT + 1, true)] {
        let preview = hosts("preview.example.com", 0..1);
        let mut cloudflare = FakeCloudflare::new(&[], &[]);
        run(&mut cloudflare, &hosts(OLD, 0..old));
        run(&mut cloudflare, &of(&[&hosts(OLD, 0..old), &hosts(NEW, 0..20), &preview]));
        let plan = run(&mut cloudflare, &hosts(NEW, 0..20));
        let stay = if is_withheld { old } else { 0 };
        assert_eq!((withheld(&plan), standing(&cloudflare, OLD)), (stay, stay), "{old}");
        assert_eq!(standing(&cloudflare, "preview.example.com"), 0, "{old}");
    }
}

/// The template is changed a second time, or half-way back.
#[test]
fn several_renames_after_another_are_withheld_together() {
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    run(&mut cloudflare, &hosts(OLD, 0..10));
    run(&mut cloudflare, &hosts(NEW, 0..10));
    let plan = run(&mut cloudflare, &hosts("third.example.com", 0..10));
    assert_eq!((withheld(&plan), standing(&cloudflare, OLD), standing(&cloudflare, NEW)), (20, 10, 10));
    let back = &mut cloudflare.clone();
    let plan = run(back, &hosts(OLD, 0..10));
    assert_eq!((withheld(&plan), standing(back, OLD)), (20, 10), "twice as many as there ever were");
}

#[test]
fn what_is_wanted_again_is_released_and_the_rest_goes_on_waiting() {
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    run(&mut cloudflare, &hosts(OLD, 0..30));
    assert_eq!(withheld(&run(&mut cloudflare, &[])), 30);
    for back in [1, 5, 14] {
        assert_eq!(withheld(&run(&mut cloudflare, &hosts(OLD, 0..back))), 30 - back);
    }
    assert_eq!(withheld(&run(&mut cloudflare, &hosts(OLD, 0..15))), 0, "half of them is no mass");
    assert_eq!(standing(&cloudflare, OLD), 15);
}

/// Many previews of one night in an instance that has more that stays.
#[test]
fn young_hostnames_go_in_any_number_while_more_older_ones_stay() {
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    run(&mut cloudflare, &hosts(OLD, 0..20));
    let preview = hosts("preview.example.com", 0..20);
    run(&mut cloudflare, &of(&[&hosts(OLD, 0..20), &preview]));
    assert_eq!(withheld(&run(&mut cloudflare, &hosts(OLD, 0..20))), 0);
    assert_eq!(standing(&cloudflare, "preview.example.com"), 0);
}

/// Visitors are led into the inner zone, so these hostnames are not published any more, whichever object asks for them.
#[test]
fn hostnames_of_a_zone_out_of_sight_excuse_no_mass_deletion() {
    let inside = hosts(INNER_ZONE, 0..30);
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    run(&mut cloudflare, &of(&[&inside, &hosts(OLD, 0..LIMIT + 1)]));
    cloudflare.add(INNER_ZONE, "NS", "alice.ns.cloudflare.com", "");
    assert_eq!(withheld(&run(&mut cloudflare, &inside)), LIMIT + 1);
}

/// Hostnames that the domain filter leaves out do not count as published.
#[test]
fn hostnames_outside_the_domain_filter_excuse_no_mass_deletion() {
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    run(&mut cloudflare, &of(&[&hosts("example.com", 0..100), &hosts("shop.example.com", 0..LIMIT + 1)]));
    cloudflare.served = "shop.example.com";
    assert_eq!(withheld(&run(&mut cloudflare, &[])), LIMIT + 1);
}

/// Foreign records do not count either, however many and however old.
#[test]
fn foreign_records_excuse_no_mass_deletion() {
    let names: Vec<String> = (0..50).map(|number| format!("theirs{number}.example.com")).collect();
    let foreign: Vec<(&str, &str, &str)> = names.iter().map(|name| (&**name, "A", "192.0.2.1")).collect();
    let mut cloudflare = FakeCloudflare::new(&[], &foreign);
    run(&mut cloudflare, &hosts(OLD, 0..LIMIT + 1));
    assert_eq!(withheld(&run(&mut cloudflare, &[])), LIMIT + 1);
}

/// `h3.shop.example.com`, … of the namespace `shop`.
fn of_namespace(namespace: &str, numbers: Range<usize>) -> Vec<Endpoint> {
    let service = format!("http://web.{namespace}.svc:80");
    let (resource, service) = (format!("ingress/{namespace}/web"), [("tunnel-service", &*service)]);
    let name = |number| format!("h{number}.{namespace}.example.com");
    numbers.map(|number| harness::endpoint_of(&resource, &name(number), &service)).collect()
}

/// Two hostnames of each of ten namespaces.
fn of_small_namespaces(numbers: Range<usize>) -> Vec<Endpoint> {
    (0..10).flat_map(|number| of_namespace(&format!("n{number}"), numbers.clone())).collect()
}

/// A source that fails for all leaves nothing as old as what goes, whatever is new.
#[test]
fn with_the_guard_the_hostnames_of_many_small_namespaces_go_unless_nothing_would_be_left() {
    let small = of_small_namespaces(0..2);
    for (beside, renamed, expected) in [(1, 0, 0), (0, 0, 20), (0, 2, 20), (1, 2, 0)] {
        let mut cloudflare = FakeCloudflare::new(&[], &[]);
        cloudflare.namespace_guard = true;
        let shop = of_namespace("shop", 0..beside);
        run(&mut cloudflare, &of(&[&shop, &small]));
        let after = of(&[&shop, &of_small_namespaces(10..10 + renamed)]);
        for _ in 0..3 {
            run(&mut cloudflare, &after);
            let standing = cloudflare
                .records
                .iter()
                .filter(|record| small.iter().any(|one| *one.dns_name == *record.name));
            assert_eq!(standing.count(), expected, "beside {beside}, renamed {renamed}");
        }
    }
}

/// Otherwise a namespace that deletes as many as it likes would keep the others from ever withdrawing anything.
#[test]
fn with_the_guard_the_mass_of_one_namespace_withholds_nothing_of_another() {
    let small = of_small_namespaces(0..2);
    for (guard, beside, stay) in [(false, 41, 2), (true, 40, 1)] {
        let mut cloudflare = FakeCloudflare::new(&[], &[]);
        cloudflare.namespace_guard = guard;
        let mut failing = cloudflare.clone();
        let shop = of_namespace("shop", 0..2);
        run(&mut cloudflare, &shop);
        run(&mut cloudflare, &of(&[&shop, &of_namespace("evil", 0..40)]));
        let plan = run(&mut cloudflare, &shop[1..]);
        assert_eq!((withheld(&plan), standing(&cloudflare, "shop.example.com")), (beside, stay));
        run(&mut failing, &small);
        assert_eq!(withheld(&run(&mut failing, &[])), 20, "a source that fails for all");
    }
}

/// Nothing says whether they are old or young, so they are taken for whatever withholds more.
#[test]
fn records_without_a_readable_date_are_withheld_and_excuse_none() {
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    run(&mut cloudflare, &hosts(OLD, 0..40));
    for record in &mut cloudflare.records {
        record.created_unix_seconds = None;
    }
    let mut undated = cloudflare.clone();
    assert_eq!(withheld(&run(&mut undated, &hosts(OLD, 0..34))), 6, "hostnames that stay may be younger");
    for record in &mut cloudflare.records[..20] {
        record.created_unix_seconds = Some(1);
    }
    let plan = run(&mut cloudflare, &hosts(OLD, 0..30));
    assert_eq!(withheld(&plan), 10, "hostnames that go may be older");
}

/// Its hostnames stay.
#[test]
fn paths_that_go_and_hostnames_that_move_are_no_deletions() {
    let with = |property: (&str, &str)| -> Vec<Endpoint> {
        let properties = [("tunnel-service", "http://web:80"), property];
        (0..10).map(|number| endpoint(format!("h{number}.{OLD}"), &properties)).collect()
    };
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    run(&mut cloudflare, &of(&[&hosts(OLD, 0..10), &with(("tunnel-path", "^/a$"))]));
    let plan = run(&mut cloudflare, &hosts(OLD, 0..10));
    assert_eq!((plan.refusals.len(), cloudflare.shown().len()), (0, 10), "a path of each");
    let plan = run(&mut cloudflare, &with(("tunnel-path", "^/b$")));
    assert_eq!((plan.refusals.len(), cloudflare.shown().len()), (0, 10), "another path instead");
    let plan = run(&mut cloudflare, &with(("tunnel", "office")));
    assert_eq!(
        (withheld(&plan), cloudflare.shown().len()),
        (0, 20),
        "the old paths stay till visitors have moved"
    );
    run(&mut cloudflare, &with(("tunnel", "office")));
    let plan = run(&mut cloudflare, &with(("tunnel", "office")));
    assert_eq!((plan.refusals.len(), cloudflare.shown().len()), (0, 10), "another path, another tunnel");
    let targets: BTreeSet<String> = cloudflare.shown().into_iter().flat_map(|one| one.targets).collect();
    assert!(targets.iter().all(|target| target.starts_with(OFFICE)), "{targets:?}");
}

#[test]
fn a_limit_of_zero_withholds_nothing_and_another_one_counts() {
    for (limit, going, expected) in [(0, 10, 0), (9, 10, 10), (10, 10, 0), (1, 2, 2), (1, 1, 0)] {
        let mut cloudflare = FakeCloudflare::new(&[], &[]);
        cloudflare.mass_deletion_limit = limit;
        run(&mut cloudflare, &hosts(OLD, 0..going));
        assert_eq!(withheld(&run(&mut cloudflare, &[])), expected, "limit {limit}, {going} go");
    }
}
