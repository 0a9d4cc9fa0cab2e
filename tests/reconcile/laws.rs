//! The laws of the core, over random worlds: whatever stands in the tunnels and the zone, whatever is asked for, and
//! wherever a run is cut off.

use external_dns_cloudflare_tunnel_webhook::ingress::{OriginOption, OriginRequest};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Endpoint, Labels, Property};
use external_dns_cloudflare_tunnel_webhook::model::{Record, hostname};
use external_dns_cloudflare_tunnel_webhook::reconcile::heritage::Heritage;
use external_dns_cloudflare_tunnel_webhook::reconcile::plan;
use external_dns_cloudflare_tunnel_webhook::reconcile::stamp::{Digest, Stamp};
use proptest::prelude::*;

use test_support::external_dns::{Registry, TXT, TXT_BELOW, TxtNames};
use test_support::fake_cloudflare::{
    FakeCloudflare, HOME, INNER_ZONE, OFFICE, WHOLE, adjust, options, tunnel_id,
};

pub(crate) const HOSTS: [&str; 5] =
    ["a.example.com", "b.example.com", "x.a.example.com", "*.example.com", "*.a.example.com"];
const PATHS: [&str; 4] = ["", "^/api(/|$)", "^/api/v2/", "\\.(jpg|png)$"];

/// ExternalDNS needs no more loops than this to come to rest after the last fault: three for a move, and one before it
/// where a foreign rule below a wildcard that moves needs a record of its own first.
pub(crate) const LOOPS_TO_REST: usize = 4;

pub(crate) fn any_desired() -> impl Strategy<Value = Vec<Endpoint>> {
    let endpoint = (
        prop::sample::select(&HOSTS[..]),
        prop::sample::select(&PATHS[..]),
        prop::sample::select(vec!["http://web:80", "http://api:8080", "none", "http_status:404", "broken"]),
        prop::sample::select(vec!["", "home", "home", "office", "nowhere"]),
        prop::sample::select(vec!["", "true", "false"]),
        (0..3_usize, prop::sample::select(vec!["", "true"])),
    );
    prop::collection::vec(endpoint, 0..7).prop_map(|endpoints| {
        endpoints
            .into_iter()
            .map(|(host, path, service, tunnel, no_tls_verify, (object, wildcard))| {
                let properties = [
                    ("webhook/tunnel-service", service),
                    ("webhook/tunnel-path", path),
                    ("webhook/tunnel", tunnel),
                    ("webhook/origin-no-tls-verify", no_tls_verify),
                    ("webhook/tunnel-wildcard", wildcard),
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

pub(crate) fn any_cloudflare() -> impl Strategy<Value = FakeCloudflare> {
    any_outer_cloudflare().prop_map(FakeCloudflare::with_inner_zone)
}

/// A Cloudflare in which the inner zone is not seen yet, though a record may have been prepared there.
fn any_cloudflare_before_its_inner_zone() -> impl Strategy<Value = FakeCloudflare> {
    let prepared = prop::sample::subsequence(
        vec![("a.example.com", "MX", "mx.test"), ("x.a.example.com", "CNAME", "elsewhere.test")],
        0..=2,
    );
    (any_outer_cloudflare(), prepared).prop_map(|(mut cloudflare, prepared)| {
        // A name below a delegation is in no zone that is seen.
        cloudflare.records.retain(|record| &*record.record_type != "NS");
        for (name, kind, content) in prepared {
            cloudflare.add_in(INNER_ZONE, name, kind, content, "");
        }
        cloudflare
    })
}

fn any_outer_cloudflare() -> impl Strategy<Value = FakeCloudflare> {
    let records = prop::sample::subsequence(
        vec![
            ("a.example.com", "A", "192.0.2.7"),
            ("b.example.com", "CNAME", "elsewhere.test"),
            ("b.example.com", "MX", "mx.test"),
            ("example.com", "MX", "mx.test"),
            ("x.a.example.com", "TXT", "\"text\""),
            ("x.a.example.com", "NS", "ns.test"),
            ("*.example.com", "CNAME", "f70ff985-a4ef-4643-bbbc-4a0ed4fc8415.cfargotunnel.com"),
            ("*.a.example.com", "CNAME", "00000000-a4ef-4643-bbbc-4a0ed4fc8415.cfargotunnel.com"),
        ],
        0..5,
    );
    // TXT records under the names of ExternalDNS's own: texts that have nothing to do with it, and those of another
    // owner.
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
        |(rules, mut records, txts, registry, origin_defaults)| {
            // A CNAME stands alone on its name.
            if records.contains(&("b.example.com", "CNAME", "elsewhere.test")) {
                records.retain(|(name, kind, _)| *name != "b.example.com" || *kind == "CNAME");
            }
            records.extend(txts);
            let mut cloudflare = FakeCloudflare::new(&rules, &records).with_registry(registry);
            cloudflare.origin_defaults = origin_defaults;
            cloudflare
        },
    )
}

/// The option that some endpoints set themselves is among them.
fn any_defaults() -> impl Strategy<Value = OriginRequest> {
    let defaults = [
        (OriginOption::ConnectTimeout, "5s"),
        (OriginOption::NoTlsVerify, "true"),
        (OriginOption::ProxyType, "socks"),
    ];
    prop::sample::subsequence(defaults.to_vec(), 0..=3).prop_map(|said| options(&said))
}

fn any_registry() -> impl Strategy<Value = Registry> {
    let old = Registry::Txt(TxtNames { prefix: "old-", untyped_too: true });
    prop::sample::select(vec![Registry::Noop, TXT, TXT_BELOW, old])
}

/// A Cloudflare in which another owner has stamps too.
fn any_adopting_cloudflare() -> impl Strategy<Value = FakeCloudflare> {
    let stamps = prop::collection::vec((0..16_usize, any::<bool>()), 0..3);
    let modes = prop::sample::select(vec!["tunnel", "owner=other", "all"]);
    (any_cloudflare(), stamps, modes).prop_map(|(mut cloudflare, stamps, mode)| {
        for (index, has_rule) in stamps {
            let count = cloudflare.records.len();
            let Some(record) = cloudflare.records.get_mut(index % count.max(1)) else { continue };
            if ["A", "CNAME"].contains(&&*record.record_type) {
                let digest = Digest::of(&tunnel_id(HOME), None);
                let claims = if has_rule { digest.to_string() } else { "-".to_owned() };
                record.comment = format!("external-dns owner=other rules={claims}").into();
            }
        }
        cloudflare.adopting(&[mode])
    })
}

/// What may not be as it was: the hostnames and paths that are asked for, as far as the mode reaches. Of `before`, the
/// rest has to be there as it was, in its order.
fn only_what_the_mode_allows_changed(
    before: &FakeCloudflare,
    after: &FakeCloudflare,
    desired: &[Endpoint],
) -> Result<(), TestCaseError> {
    let adjusted = adjust(desired, &before.settings(), None).endpoints;
    let asked_for = |name: &str| adjusted.iter().any(|endpoint| endpoint.dns_name == name);
    let adopt = &before.adopt;
    let stamp_of = |name: &str| {
        let mut records = before.records.iter().filter(|record| *record.name == *name);
        records.find_map(|record| Stamp::parse(&record.comment))
    };
    for record in &before.records {
        let leads_to_ours =
            [HOME, OFFICE].map(|id| tunnel_id(id).hostname()).contains(&record.content.to_string());
        let stamp = Stamp::parse(&record.comment);
        let is_anothers = |record: &Record| {
            Heritage::parse(&record.content).is_some_and(|heritage| adopt.owners.contains(&heritage.owner))
        };
        let may_change = match (&*record.record_type, &stamp) {
            // Only the name of a TXT record tells its hostname.
            ("TXT", _) => is_anothers(record),
            (kind, _) if !asked_for(&record.name) || !["A", "CNAME"].contains(&kind) => false,
            _ if adopt.all => true,
            (_, Some(_)) => !adopt.owners.is_empty(),
            ("CNAME", None) if leads_to_ours => adopt.tunnel,
            _ => before.records.iter().any(is_anothers),
        };
        let now = after.records.iter().find(|now| now.id == record.id);
        match now {
            Some(_) if may_change => {}
            // What no endpoint asks for any more is withdrawn like everything of ours.
            None if may_change => {}
            now => prop_assert_eq!(now, Some(record)),
        }
    }
    for id in [tunnel_id(HOME), tunnel_id(OFFICE)] {
        let kept: Vec<&str> = before
            .document(&id)
            .rules()
            .iter()
            .filter(|rule| {
                let name = hostname::normalize(rule.hostname());
                let is_asked_for = adjusted.iter().any(|endpoint| {
                    endpoint.dns_name == name && endpoint.set_identifier == rule.path().unwrap_or_default()
                });
                let has_record = before
                    .records
                    .iter()
                    .any(|record| *record.name == *name && ["A", "CNAME"].contains(&&*record.record_type));
                let is_claimed = stamp_of(&name)
                    .is_some_and(|stamp| stamp.claims.digests.contains(&Digest::of(&id, rule.path())));
                let may_change = (is_asked_for
                    && (adopt.all || (adopt.tunnel && (has_record || asked_for(&name)))))
                    || (asked_for(&name) && is_claimed && (adopt.all || !adopt.owners.is_empty()));
                !may_change
            })
            .map(|rule| rule.raw().get())
            .collect();
        let mut now = after.document(&id).rules().iter().map(|rule| rule.raw().get());
        for rule in kept {
            prop_assert!(
                now.any(|now| now == rule),
                "{} is not there, or not in its order: {:?}",
                rule,
                after
            );
        }
    }
    prop_assert_eq!(after.unstamped_rules(before), [""; 0]);
    Ok(())
}

/// Our hostnames of the inner zone that have a record in the outer one, and where it leads.
fn in_the_outer_zone(cloudflare: &FakeCloudflare) -> Vec<(String, String)> {
    let records = cloudflare.records_in("example.com").into_iter();
    let ours = records.filter(|record| {
        hostname::is_within(&record.name, INNER_ZONE) && Stamp::parse(&record.comment).is_some()
    });
    ours.map(|record| (record.name.to_string(), record.content.to_string())).collect()
}

fn foreign_is_untouched(before: &FakeCloudflare, after: &FakeCloudflare) -> Result<(), TestCaseError> {
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
    prop_assert_eq!(after.unstamped_rules(before), [""; 0]);
    Ok(())
}

proptest! {
    /// Invariant 10 of docs/how-it-works.md.
    #[test]
    fn what_was_applied_reads_back_as_what_was_adjusted_and_a_second_run_writes_nothing(
        mut cloudflare in any_cloudflare(),
        desired in any_desired(),
    ) {
        let before = cloudflare.clone();
        let mut refused = Vec::new();
        for _ in 0..LOOPS_TO_REST {
            refused = cloudflare.run_loop(&desired, usize::MAX).refusals;
            foreign_is_untouched(&before, &cloudflare)?;
        }
        let writes = cloudflare.writes;
        let plan = cloudflare.run_loop(&desired, usize::MAX);
        prop_assert_eq!(cloudflare.writes, writes, "a further loop wrote {:?}", plan);

        let adjusted = cloudflare.adjusted(&desired);
        let changes = cloudflare.registry.plan(&cloudflare.shown(), &adjusted);
        let asked_for = changes.wanted().chain(&changes.delete);
        for endpoint in asked_for.filter(|endpoint| endpoint.record_type != "TXT") {
            prop_assert!(
                refused.iter().any(|refusal| *refusal.hostname == *endpoint.dns_name),
                "{:?} is asked for without end and no refusal says why", endpoint
            );
        }
    }

    /// Invariant 2 of docs/how-it-works.md.
    #[test]
    fn a_crash_after_any_write_leaves_nothing_unclaimed_and_the_next_loops_converge(
        cloudflare in any_cloudflare(),
        first in any_desired(),
        second in any_desired(),
        writes in 0..10_usize,
        withdrawn_after in any::<bool>(),
        other_defaults in any_defaults(),
    ) {
        let before = cloudflare.clone();
        let mut cloudflare = cloudflare;
        for _ in 0..LOOPS_TO_REST {
            cloudflare.run_loop(&first, usize::MAX);
        }
        cloudflare.origin_defaults = other_defaults;
        cloudflare.run_loop(&second, writes);
        foreign_is_untouched(&before, &cloudflare)?;

        let last = if withdrawn_after { Vec::new() } else { second };
        for _ in 0..LOOPS_TO_REST {
            cloudflare.run_loop(&last, usize::MAX);
            foreign_is_untouched(&before, &cloudflare)?;
        }
        let written = cloudflare.writes;
        let plan = cloudflare.run_loop(&last, usize::MAX);
        prop_assert_eq!(cloudflare.writes, written, "a further loop wrote {:?}", plan);
        if withdrawn_after {
            // A record stays for a foreign rule that visitors reach by it, and is no hostname of ours any more.
            let is_released =
                |record: &Record| Stamp::of(record).is_some_and(|stamp| stamp.claims.is_released);
            let mut left = cloudflare.records;
            left.retain(|record| !is_released(record));
            prop_assert_eq!(left, before.records, "everything of ours is gone");
        }
    }

    #[test]
    fn hostnames_belong_to_a_zone_inside_theirs_once_it_is_active_wherever_a_run_is_cut_off(
        cloudflare in any_cloudflare_before_its_inner_zone(),
        desired in any_desired(),
        writes in 0..10_usize,
    ) {
        let before = cloudflare.clone();
        let mut cloudflare = cloudflare;
        for _ in 0..=LOOPS_TO_REST {
            cloudflare.run_loop(&desired, usize::MAX);
        }
        let (written, led_to) = (cloudflare.writes, in_the_outer_zone(&cloudflare));
        cloudflare.add_inner_zone(false);
        cloudflare.run_loop(&desired, usize::MAX);
        prop_assert_eq!(cloudflare.writes, written, "visitors are led by the outer zone still");
        cloudflare.activate_inner_zone();
        cloudflare.run_loop(&desired, writes);
        for _ in 0..=LOOPS_TO_REST {
            cloudflare.run_loop(&desired, usize::MAX);
        }
        for id in [tunnel_id(HOME), tunnel_id(OFFICE)] {
            let stands = |text: &str| cloudflare.document(&id).rules().iter().any(|rule| rule.raw().get() == text);
            prop_assert!(before.foreign_rules(&id).iter().all(|text| stands(text)), "no rule of others goes");
        }
        let written = cloudflare.writes;
        let plan = cloudflare.run_loop(&desired, usize::MAX);
        prop_assert_eq!(cloudflare.writes, written, "a further loop wrote {:?}", plan);
        prop_assert_eq!(in_the_outer_zone(&cloudflare), led_to, "what leads no visitor any more is left alone");
    }

    #[test]
    fn with_each_mode_of_adopt_only_what_it_allows_changes_wherever_a_run_is_cut_off(
        cloudflare in any_adopting_cloudflare(),
        desired in any_desired(),
        writes in 0..8_usize,
    ) {
        let before = cloudflare.clone();
        let mut cloudflare = cloudflare;
        cloudflare.run_loop(&desired, writes);
        only_what_the_mode_allows_changed(&before, &cloudflare, &desired)?;
        for _ in 0..LOOPS_TO_REST {
            cloudflare.run_loop(&desired, usize::MAX);
            only_what_the_mode_allows_changed(&before, &cloudflare, &desired)?;
        }
        let written = cloudflare.writes;
        let plan = cloudflare.run_loop(&desired, usize::MAX);
        prop_assert_eq!(cloudflare.writes, written, "a further loop wrote {:?}", plan);

        // What was taken over is ours when the mode is off again.
        let mut cloudflare = cloudflare.adopting(&[]);
        let plan = cloudflare.run_loop(&desired, usize::MAX);
        prop_assert_eq!(cloudflare.writes, written, "without the mode a loop wrote {:?}", plan);
    }

    #[test]
    fn replaying_the_same_changes_writes_nothing(mut cloudflare in any_cloudflare(), desired in any_desired()) {
        let adjusted = cloudflare.adjusted(&desired);
        let changes = cloudflare.registry.plan(&cloudflare.shown(), &adjusted);
        let plan_now = |cloudflare: &FakeCloudflare| {
            let earlier = external_dns_cloudflare_tunnel_webhook::reconcile::plan_inputs::PlanInputs::default();
            plan::plan(&changes.read(), &cloudflare.snapshot(), &earlier, WHOLE)
        };
        let plan = plan_now(&cloudflare);
        cloudflare.apply(&plan, usize::MAX);
        let again = plan_now(&cloudflare);
        prop_assert!(again.is_empty(), "{again:?}");
    }
}

/// Pins the order of a move: stamp both, publish; later lead over; later withdraw, unstamp.
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
    for writes in 0..6 {
        let mut cloudflare = FakeCloudflare::new(&[], &[]);
        cloudflare.run_loop(&on("home"), usize::MAX);
        let complete = cloudflare.run_loop(&on("office"), writes);
        let [record] = &cloudflare.records[..] else {
            panic!("one record after {writes} writes of {complete:?}");
        };
        let led_to = [HOME, OFFICE].map(tunnel_id).into_iter().find(|id| *id.hostname() == *record.content);
        let document = &cloudflare.documents[&led_to.expect("one of the two")];
        for path in &PATHS[1..] {
            let served = document.rules().iter().any(|rule| rule.path() == Some(path));
            assert!(served, "{path} is not served after {writes} writes");
        }
        for _ in 0..3 {
            cloudflare.run_loop(&on("office"), usize::MAX);
        }
        assert_eq!(
            cloudflare.documents[&tunnel_id(HOME)].rules().len(),
            1,
            "the old tunnel keeps its catch-all alone"
        );
        assert_eq!(cloudflare.documents[&tunnel_id(OFFICE)].rules().len(), PATHS.len());
    }
}

/// A wildcard and, where `below` is asked for, a name that it covers.
fn wildcard_and(below: Option<&str>, tunnel: &str) -> Vec<Endpoint> {
    let published = |name: &str| Endpoint {
        dns_name: name.to_owned(),
        targets: vec!["192.0.2.1".to_owned()],
        record_type: "A".to_owned(),
        provider_specific: vec![
            Property::new("webhook/tunnel-service", "http://web:80"),
            Property::new("webhook/tunnel", tunnel),
        ],
        ..Endpoint::default()
    };
    let wildcard = if below.is_some() { "*.example.com" } else { "*.a.example.com" };
    below.into_iter().chain([wildcard]).map(published).collect()
}

fn contents(cloudflare: &FakeCloudflare) -> Vec<String> {
    cloudflare.records.iter().map(|record| record.content.to_string()).collect()
}

/// Visitors of a name in an active zone never ask the zone around it, so its rules are none that a wildcard of that
/// zone would leave behind. The wildcard once waited until the last of them was gone, and beside a foreign one for
/// ever.
#[test]
fn a_wildcard_does_not_wait_for_rules_of_names_in_an_active_zone_inside_its_own() {
    let mut cloudflare = FakeCloudflare::new(&[], &[]).with_inner_zone();
    let [office, home] = ["office", "home"].map(|tunnel| wildcard_and(Some("a.example.com"), tunnel));
    cloudflare.run_loop(&office, usize::MAX);

    cloudflare.run_loop(&home, usize::MAX);
    let plan = cloudflare.run_loop(&home, usize::MAX);
    assert!(plan.refusals.iter().all(|one| one.reason.label_value() == "moving"), "{:?}", plan.refusals);
    assert_eq!(contents(&cloudflare), [HOME, HOME].map(|id| tunnel_id(id).hostname()));
}

/// Until a zone is active its names are answered for by the one around it: what a wildcard's record would take along,
/// led elsewhere, is looked for there.
#[test]
fn a_wildcard_whose_zone_waits_to_be_active_leaves_no_foreign_rule_behind() {
    let foreign = r#"{"hostname":"x.a.example.com","service":"http://theirs:80"}"#;
    let to_home = ("*.example.com", "CNAME", &*tunnel_id(HOME).hostname());
    let mut cloudflare = FakeCloudflare::new(&[foreign.to_owned()], &[to_home]);
    let office = wildcard_and(None, "office");
    for _ in 0..LOOPS_TO_REST {
        cloudflare.run_loop(&office, usize::MAX);
    }
    let led_to = contents(&cloudflare);

    cloudflare.add_inner_zone(false);
    for _ in 0..LOOPS_TO_REST {
        cloudflare.run_loop(&office, usize::MAX);
    }
    let outer: Vec<String> =
        cloudflare.records_in("example.com").iter().map(|record| record.content.to_string()).collect();
    assert_eq!(outer, led_to);
}
