//! The laws of the core, over random worlds: whatever stands in the tunnels and the zone, whatever is asked for, and
//! wherever a run is cut off.

#[path = "support/external_dns.rs"]
mod external_dns;
#[path = "laws/world.rs"]
mod world;

use external_dns_cloudflare_tunnel_webhook::endpoint::{Endpoint, Labels, Property};
use external_dns_cloudflare_tunnel_webhook::reconcile::options::OriginRequest;
use external_dns_cloudflare_tunnel_webhook::reconcile::{Ownership, adjust, plan};
use proptest::prelude::*;
use serde_json::json;

use external_dns::{Registry, TXT, TXT_BELOW, TxtNames};
use world::{HOME, OFFICE, World, tunnel_id};

const HOSTS: [&str; 5] =
    ["a.example.com", "b.example.com", "x.a.example.com", "*.example.com", "*.a.example.com"];
const PATHS: [&str; 4] = ["", "^/api(/|$)", "^/api/v2/", "\\.(jpg|png)$"];

/// ExternalDNS needs no more loops than this to come to rest after the last fault.
const LOOPS_TO_REST: usize = 3;

fn any_desired() -> impl Strategy<Value = Vec<Endpoint>> {
    let endpoint = (
        prop::sample::select(&HOSTS[..]),
        prop::sample::select(&PATHS[..]),
        prop::sample::select(vec!["http://web:80", "http://api:8080", "none", "http_status:404", "broken"]),
        prop::sample::select(vec!["", "home", "home", "office", "nowhere"]),
        prop::sample::select(vec!["", "true", "false"]),
        0..3_usize,
    );
    prop::collection::vec(endpoint, 0..7).prop_map(|endpoints| {
        endpoints
            .into_iter()
            .map(|(host, path, service, tunnel, no_tls_verify, object)| {
                let properties = [
                    ("webhook/tunnel-service", service),
                    ("webhook/tunnel-path", path),
                    ("webhook/tunnel", tunnel),
                    ("webhook/origin-no-tls-verify", no_tls_verify),
                ];
                Endpoint {
                    dns_name: host.to_owned(),
                    targets: vec!["192.0.2.1".to_owned()],
                    record_type: "A".to_owned(),
                    labels: Labels::from_iter([("resource", &*format!("ingress/shop/{object}"))]),
                    provider_specific: properties
                        .into_iter()
                        .filter(|(_, value)| !value.is_empty())
                        .map(|(name, value)| Property::new(name, value))
                        .collect(),
                    ..Endpoint::default()
                }
            })
            .collect()
    })
}

fn any_foreign_rule() -> impl Strategy<Value = String> {
    let host = prop_oneof![
        prop::sample::select(&HOSTS[..]).prop_map(str::to_owned),
        Just("A.Example.com".to_owned()),
        Just("other.test".to_owned()),
        Just(String::new()),
    ];
    (host, prop::sample::select(&PATHS[..]), 0..3_u8).prop_map(|(host, path, odd)| {
        // A rule for every host needs a path, or it would be the catch-all.
        let path = if host.is_empty() && path.is_empty() { "^/health$" } else { path };
        let host = serde_json::Value::from(host);
        let path = serde_json::Value::from(path);
        match odd {
            0 => format!(r#"{{"service":"http://theirs:80","hostname":{host},"path":{path}}}"#),
            1 => format!(r#"{{ "hostname" : {host}, "path":{path}, "service":"http://theirs:80", "note":[1, 2.50] }}"#),
            _ => format!(
                r#"{{"hostname":{host},"path":{path},"service":"tcp://theirs:22","originRequest":{{"new":{{}},"noTLSVerify":true}}}}"#
            ),
        }
    })
}

fn any_world() -> impl Strategy<Value = World> {
    let records = prop::sample::subsequence(
        vec![
            ("a.example.com", "A", "192.0.2.7"),
            ("b.example.com", "CNAME", "elsewhere.test"),
            ("b.example.com", "MX", "mx.test"),
            ("example.com", "MX", "mx.test"),
            ("x.a.example.com", "TXT", "\"text\""),
            ("x.a.example.com", "NS", "ns.test"),
        ],
        0..4,
    );
    // Where ExternalDNS wants its own: what has nothing to do with it, and another owner's.
    let txts = prop::sample::subsequence(
        vec![
            ("cname-a.example.com", "TXT", "\"v=spf1 -all\""),
            ("cname-b.example.com", "TXT", "\"heritage=external-dns,external-dns/owner=other\""),
            ("cname-x.b.example.com", "TXT", "heritage=external-dns,external-dns/owner=other"),
            ("a.example.com", "TXT", "text"),
        ],
        0..4,
    );
    let rules = prop::collection::vec(any_foreign_rule(), 0..5);
    (rules, records, txts, any_registry(), any_defaults()).prop_map(
        |(rules, mut records, txts, (ownership, registry), origin_defaults)| {
            // A CNAME stands alone on its name.
            if records.contains(&("b.example.com", "CNAME", "elsewhere.test")) {
                records.retain(|(name, kind, _)| *name != "b.example.com" || *kind == "CNAME");
            }
            records.extend(txts);
            let mut world = World::new(&rules, &records).with(ownership, registry);
            world.origin_defaults = origin_defaults;
            world
        },
    )
}

/// The option that endpoints have of themselves is among them.
fn any_defaults() -> impl Strategy<Value = OriginRequest> {
    let defaults =
        vec![("connectTimeout", json!(5)), ("noTLSVerify", json!(true)), ("proxyType", json!("socks"))];
    prop::sample::subsequence(defaults, 0..=3)
}

/// Every ownership with every registry, the unfitting ones too.
fn any_registry() -> impl Strategy<Value = (Ownership, Registry)> {
    let old = Registry::Txt(TxtNames { prefix: "old-", untyped_too: true });
    (
        prop::sample::select(vec![Ownership::Comment, Ownership::Txt, Ownership::Txt]),
        prop::sample::select(vec![Registry::Noop, TXT, TXT, TXT_BELOW, TXT_BELOW, old]),
    )
}

fn foreign_is_untouched(before: &World, after: &World) -> Result<(), TestCaseError> {
    prop_assert_eq!(before.foreign_records(), after.foreign_records());
    for id in [tunnel_id(HOME), tunnel_id(OFFICE)] {
        let mut kept = after.foreign_rules(&id);
        if before.foreign_rules(&id).is_empty()
            && kept.last().is_some_and(|rule| rule.contains("http_status:404"))
        {
            kept.pop();
        }
        prop_assert_eq!(before.foreign_rules(&id), kept);
    }
    prop_assert_eq!(after.unclaimed_rules(before), [""; 0]);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_applied_reads_back_as_what_was_adjusted_and_a_second_run_writes_nothing(
        mut world in any_world(),
        desired in any_desired(),
    ) {
        let before = world.clone();
        let mut refused = Vec::new();
        for _ in 0..LOOPS_TO_REST {
            refused = world.run_loop(&desired, usize::MAX).refusals;
            foreign_is_untouched(&before, &world)?;
        }
        let writes = world.writes;
        let plan = world.run_loop(&desired, usize::MAX);
        prop_assert_eq!(world.writes, writes, "a further loop wrote {:?}", plan);

        let adjusted = adjust::adjust(&desired, &world.settings()).endpoints;
        let changes = world.registry.plan(&world.shown(), &adjusted);
        let asked_for = changes.create.iter().chain(&changes.update_new).chain(&changes.delete);
        for endpoint in asked_for.filter(|endpoint| endpoint.record_type != "TXT") {
            prop_assert!(
                refused.iter().any(|refusal| *refusal.hostname == *endpoint.dns_name),
                "{:?} is asked for without end and nobody says why", endpoint
            );
        }
        if let (Ownership::Txt, Registry::Txt(names)) = (world.ownership, world.registry) {
            let (txts, data): (Vec<Endpoint>, Vec<Endpoint>) =
                world.shown().into_iter().partition(|endpoint| endpoint.record_type == "TXT");
            for (endpoint, name) in data.iter().flat_map(|data| names.of(&data.dns_name).into_iter().map(move |name| (data, name))) {
                let is_there = txts.iter().any(|txt| txt.dns_name == name && txt.set_identifier == endpoint.set_identifier);
                prop_assert!(is_there, "{name} is missing for {endpoint:?} in {txts:?}");
            }
        }
    }

    #[test]
    fn a_crash_after_any_write_leaves_nothing_unclaimed_and_the_next_loops_converge(
        world in any_world(),
        first in any_desired(),
        second in any_desired(),
        writes in 0..10_usize,
        withdrawn_after in any::<bool>(),
        other_defaults in any_defaults(),
    ) {
        let before = world.clone();
        let mut world = world;
        for _ in 0..LOOPS_TO_REST {
            world.run_loop(&first, usize::MAX);
        }
        world.origin_defaults = other_defaults;
        world.run_loop(&second, writes);
        foreign_is_untouched(&before, &world)?;

        let last = if withdrawn_after { Vec::new() } else { second };
        for _ in 0..LOOPS_TO_REST {
            world.run_loop(&last, usize::MAX);
            foreign_is_untouched(&before, &world)?;
        }
        let written = world.writes;
        let plan = world.run_loop(&last, usize::MAX);
        prop_assert_eq!(world.writes, written, "a further loop wrote {:?}", plan);
        if withdrawn_after {
            prop_assert_eq!(world.records, before.records, "everything of ours is gone");
        }
    }

    #[test]
    fn replaying_the_same_changes_writes_nothing(mut world in any_world(), desired in any_desired()) {
        let adjusted = adjust::adjust(&desired, &world.settings()).endpoints;
        let changes = world.registry.plan(&world.shown(), &adjusted);
        let plan_now = |world: &World| {
            plan::plan(&changes, &world.snapshot(), &world.settings()).expect("the owner is ours")
        };
        let plan = plan_now(&world);
        world.apply(&plan, usize::MAX);
        let again = plan_now(&world);
        prop_assert!(again.is_empty(), "{again:?}");
    }
}

/// Pins the order of a move: stamp both, publish, lead over, retire, unstamp.
#[test]
fn a_hostname_that_moves_is_never_led_to_a_tunnel_without_its_rule() {
    let endpoint = |tunnel: &str, path: &str| Endpoint {
        dns_name: "a.example.com".to_owned(),
        targets: vec!["192.0.2.1".to_owned()],
        record_type: "A".to_owned(),
        provider_specific: vec![
            Property::new("webhook/tunnel-service", "http://web:80"),
            Property::new("webhook/tunnel-path", path),
            Property::new("webhook/tunnel", tunnel),
        ],
        ..Endpoint::default()
    };
    let on = |tunnel: &str| PATHS[1..].iter().map(|path| endpoint(tunnel, path)).collect::<Vec<_>>();
    for writes in 0..7 {
        let mut world = World::new(&[], &[]);
        world.run_loop(&on("home"), usize::MAX);
        let complete = world.run_loop(&on("office"), writes);
        let [record] = &world.records[..] else {
            panic!("one record after {writes} writes of {complete:?}");
        };
        let led_to = [HOME, OFFICE].map(tunnel_id).into_iter().find(|id| *id.hostname() == *record.content);
        let document = &world.documents[&led_to.expect("one of the two")];
        for path in &PATHS[1..] {
            let served = document.rules().iter().any(|rule| rule.path() == Some(path));
            assert!(served, "{path} is not served after {writes} writes");
        }
        world.run_loop(&on("office"), usize::MAX);
        assert_eq!(
            world.documents[&tunnel_id(HOME)].rules().len(),
            1,
            "the old tunnel keeps its catch-all alone"
        );
        assert_eq!(world.documents[&tunnel_id(OFFICE)].rules().len(), PATHS.len());
    }
}
