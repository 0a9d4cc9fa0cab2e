//! Rules of somebody else's on our hostnames, or taken for ours: none is touched, and none loses its requests.

#[path = "support/external_dns.rs"]
mod external_dns;
#[path = "laws/world.rs"]
#[allow(dead_code, reason = "the laws take more of it")]
mod world;

use external_dns_cloudflare_tunnel_webhook::endpoint::{Endpoint, Labels, Property};
use external_dns_cloudflare_tunnel_webhook::reconcile::listing::{State, listing};
use external_dns_cloudflare_tunnel_webhook::reconcile::plan::Plan;
use external_dns_cloudflare_tunnel_webhook::reconcile::stamp::Digest;
use external_dns_cloudflare_tunnel_webhook::tunnel::{Document, TunnelId};
use serde_json::value::RawValue;

use world::{HOME, OFFICE, World, tunnel_id};

const NAME: &str = "a.example.com";

fn on(tunnel: &str, path: &str, service: &str) -> Endpoint {
    let properties = [("tunnel", tunnel), ("tunnel-path", path), ("tunnel-service", service)];
    Endpoint {
        dns_name: NAME.to_owned(),
        targets: vec!["192.0.2.1".to_owned()],
        record_type: "A".to_owned(),
        labels: Labels::from_iter([("resource", "ingress/shop/web")]),
        provider_specific: properties
            .iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| Property::new(format!("webhook/{name}"), *value))
            .collect(),
        ..Endpoint::default()
    }
}

fn theirs(hostname: &str, path: &str) -> String {
    let path = if path.is_empty() { String::new() } else { format!(r#","path":"{path}""#) };
    format!(r#"{{"hostname":"{hostname}"{path},"service":"http://theirs:80"}}"#)
}

fn put_rules(world: &mut World, tunnel: &str, edit: impl FnOnce(&mut Vec<String>)) {
    let id = tunnel_id(tunnel);
    let mut rules: Vec<String> =
        world.document(&id).rules().iter().map(|rule| rule.raw().get().to_owned()).collect();
    edit(&mut rules);
    let text = RawValue::from_string(format!(r#"{{"ingress":[{}]}}"#, rules.join(","))).expect("JSON");
    world.documents.insert(id, Document::parse(Some(&text)).expect("a document"));
}

/// The refusals' paths and words.
fn refused(plan: &Plan) -> Vec<(String, &'static str)> {
    let path = |path: &Option<Box<str>>| path.as_deref().unwrap_or("-").to_owned();
    plan.refusals.iter().map(|refusal| (path(&refusal.set_identifier), refusal.reason.label())).collect()
}

/// A path for each of the tunnels so that their rules have one digest.
fn paths_with_one_digest(first: &TunnelId, second: &TunnelId) -> (String, String) {
    let mut seen = std::collections::HashMap::new();
    for number in 0.. {
        let path = format!("^/{number}$");
        if let Some(other) = seen.get(&Digest::of(second, Some(&path))) {
            return (String::clone(other), path);
        }
        seen.insert(Digest::of(first, Some(&path)), path);
    }
    unreachable!("there are fewer digests than numbers")
}

/// Somebody makes a rule whose digest is that of ours, in the same tunnel or in another one, in front of it or behind.
#[test]
fn of_two_rules_with_one_digest_neither_is_touched_until_one_is_gone() {
    for (ours_in, theirs_in) in [(HOME, HOME), (HOME, OFFICE), (OFFICE, HOME)] {
        for is_in_front in [true, false] {
            let label = format!("{ours_in} {theirs_in} {is_in_front}");
            let (ours, other) = paths_with_one_digest(&tunnel_id(ours_in), &tunnel_id(theirs_in));
            let tunnel = if ours_in == HOME { "home" } else { "office" };
            let wanted = |service: &str| [on(tunnel, &ours, service)];
            let mut world = World::new(&[], &[]);
            world.run_loop(&wanted("http://web:80"), usize::MAX);
            put_rules(&mut world, theirs_in, |rules| {
                if rules.is_empty() {
                    rules.push(r#"{"service":"http_status:404"}"#.to_owned());
                }
                rules.insert(if is_in_front { 0 } else { rules.len() - 1 }, theirs(NAME, &other));
            });

            let own = world.snapshot().own_rules(&world.settings());
            for (id, document) in &world.documents {
                assert!(!document.rules().iter().any(|rule| own.has(id, rule)), "{label}");
            }
            let listed = listing(&world.snapshot(), &world.settings());
            let foreign = listed.iter().filter(|entry| entry.state != State::RecordWithoutRule).count();
            assert_eq!((foreign, listed.len()), (2, 3), "{label}: {listed:?}");
            let before = world.clone();
            for (desired, path) in
                [(&wanted("http://web:80")[..], &ours), (&wanted("http://new:80")[..], &ours)]
            {
                let plan = world.run_loop(desired, usize::MAX);
                assert_eq!(refused(&plan), [(path.clone(), "digest_taken")], "{label}");
                assert_eq!(world, before, "{label}");
            }
            let plan = world.run_loop(&[], usize::MAX);
            assert!(matches!(&refused(&plan)[..], [(_, "digest_taken")]), "{label}: {plan:?}");
            assert_eq!(world, before, "{label}");

            put_rules(&mut world, theirs_in, |rules| rules.retain(|rule| !rule.contains("theirs")));
            let plan = world.run_loop(&wanted("http://new:80"), usize::MAX);
            assert_eq!(refused(&plan), [], "{label}");
            let services = world.document(&tunnel_id(ours_in)).rules().iter().map(|rule| rule.service());
            assert_eq!(services.collect::<Vec<_>>(), ["http://new:80", "http_status:404"], "{label}");
        }
    }
}

#[test]
fn a_path_whose_digest_a_rule_in_another_tunnel_has_is_not_published() {
    let (ours, other) = paths_with_one_digest(&tunnel_id(HOME), &tunnel_id(OFFICE));
    let mut world = World::new(&[], &[]);
    put_rules(&mut world, OFFICE, |rules| {
        rules.extend([theirs(NAME, &other), r#"{"service":"http_status:404"}"#.to_owned()]);
    });
    let before = world.clone();
    let plan = world.run_loop(&[on("home", &ours, "http://web:80")], usize::MAX);
    assert_eq!(refused(&plan), [(ours, "digest_taken")]);
    assert!(plan.refusals[0].to_string().contains(&format!("path {other:?} in tunnel {OFFICE}")), "{plan:?}");
    assert_eq!(world, before);
}

/// Which of them is ours cannot be told, also where one of them is as it is wanted.
#[test]
fn of_two_rules_with_one_hostname_and_path_neither_is_ours_until_one_is_gone() {
    for path in ["", "^/a$"] {
        let wanted = |service: &str| [on("home", path, service)];
        let mut world = World::new(&[], &[]);
        world.run_loop(&wanted("http://web:80"), usize::MAX);
        put_rules(&mut world, HOME, |rules| rules.insert(1, theirs("A.example.com", path)));
        let own = world.snapshot().own_rules(&world.settings());
        let home = tunnel_id(HOME);
        assert!(!world.document(&home).rules().iter().any(|rule| own.has(&home, rule)), "{path}");
        let before = world.clone();
        for adopt in [&[][..], &["all"]] {
            for desired in [&wanted("http://web:80")[..], &wanted("http://new:80")[..], &[]] {
                let mut world = world.clone().adopting(adopt);
                let plan = world.run_loop(desired, usize::MAX);
                assert_eq!(refused(&plan), [(path.to_owned(), "edit")], "{desired:?} {adopt:?}");
                assert!(plan.refusals[0].to_string().contains("rules 1 and 2 of the tunnel"), "{plan:?}");
                assert_eq!((&world.documents, &world.records), (&before.documents, &before.records));
            }
        }
        put_rules(&mut world, HOME, |rules| rules.retain(|rule| !rule.contains("theirs")));
        assert_eq!(refused(&world.run_loop(&wanted("http://new:80"), usize::MAX)), [], "{path}");
    }
}
