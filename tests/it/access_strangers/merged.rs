//! ExternalDNS merges the endpoints of objects with the same hostname, and sends those of either object.

use test_support::harness::endpoint_of;

use super::*;

const SERVICE: (&str, &str) = ("tunnel-service", SECRET);

/// Loops in which ExternalDNS sends the endpoint of one object or of the other, and the lines of the log since the
/// first loops.
fn lines_of_turns(stage: &Stage, objects: &[Endpoint; 2], part: &str) -> usize {
    stage.run(&objects[..1]);
    for _ in 0..8 {
        for object in objects {
            let _ = stage.run_loop(std::slice::from_ref(object));
            stage.cloudflare().advance_clock(INTERVAL);
        }
    }
    stage.harness.log.lines_with(&[part]).len()
}

/// A route with a login and the route that redirects to it, an endpoint with a mistake, and objects of two namespaces.
/// That objects alternate is known once each has returned, so a line comes twice before.
#[test]
fn what_the_log_says_of_one_of_two_merged_objects_does_not_come_in_every_other_loop() {
    let web = |properties: &[_]| endpoint_of("httproute/shop/web", NAME, &[&[SERVICE], properties].concat());
    let redirect =
        |properties: &[_]| endpoint_of("httproute/shop/redirect", NAME, &[&[SERVICE], properties].concat());
    let of = |namespace: &str| {
        let service = ("tunnel-service", "http://gateway.infra.svc:80");
        endpoint_of(&format!("httproute/{namespace}/web"), NAME, &[service])
    };
    let guard = [("NAMESPACE_GUARD", "true"), ("SHARED_SERVICES", "http://gateway.infra.svc:80")];
    for (settings, objects, part) in [
        (&[][..], [web(&[("access-policy", "staff")]), redirect(&[])], "has a login that no object asks for"),
        (&[], [web(&[]), redirect(&[("origin-no-tls-verify", "yes")])], "refused=invalid"),
        (&guard, [of("shop"), of("bank")], "belongs to another namespace"),
    ] {
        let lines = lines_of_turns(&Stage::new(settings), &objects, part);
        assert!((1..=2).contains(&lines), "{part}: {lines}");
    }
}
