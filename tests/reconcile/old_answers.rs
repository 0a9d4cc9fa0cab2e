//! What an old answer keeps from being decided: everything that it may hide, and nothing else.

use external_dns_cloudflare_tunnel_webhook::model::access::PolicyDecision;
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use external_dns_cloudflare_tunnel_webhook::reconcile::plan::Plan;
use test_support::fake_cloudflare::{FakeCloudflare, INNER_ZONE, OFFICE};
use test_support::harness::endpoint;

use crate::protection::policy;

const WEB: &str = "http://web:80";

fn of(tunnel: &str, name: &str, path: &str) -> Endpoint {
    let path = Some(("tunnel-path", path)).filter(|(_, path)| !path.is_empty());
    endpoint(name, &[("tunnel", tunnel), ("tunnel-service", WEB)].into_iter().chain(path).collect::<Vec<_>>())
}

/// The plan where the answers about these zones and tunnels are old.
fn plan(cloudflare: &FakeCloudflare, old: &[&str], desired: &[Endpoint]) -> Plan {
    let changes = cloudflare.changes(desired);
    let mut cloudflare = cloudflare.clone();
    cloudflare.old = old.iter().map(|id| ((*id).into(), "it is old".into())).collect();
    cloudflare.plan(&changes)
}

/// The hostnames that are written, and those that wait.
fn outcome(plan: &Plan) -> (Vec<&str>, Vec<&str>) {
    let waiting = plan.refusals.iter().filter(|one| one.reason.label_value() == "waiting");
    (plan.hosts.iter().map(|host| &*host.hostname).collect(), waiting.map(|one| &*one.hostname).collect())
}

#[test]
fn what_has_a_record_a_rule_or_a_wish_in_an_old_answer_waits_and_all_else_is_written() {
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    let names = ["rule", "hidden", "led", "gone", "other"].map(|label| format!("{label}.example.com"));
    let [rule, hidden, led, gone, other] = names.each_ref().map(String::as_str);
    let office = format!("{OFFICE}.cfargotunnel.com");
    cloudflare.add("*.below.example.com", "CNAME", &office, "");
    let before = [
        of("home", rule, "/a"),
        of("home", hidden, "/a"),
        of("office", led, "/a"),
        of("office", gone, "/a"),
        of("home", other, "/a"),
    ];
    while !cloudflare.run_loop(&before, usize::MAX).is_empty() {}
    // A foreign rule in the tunnel whose answer is old, and a digest whose rule that answer may hide.
    let foreign = format!(r#"{{"hostname":"{rule}","path":"/theirs","service":"http://theirs:80"}}"#);
    cloudflare.edit_rules(OFFICE, |rules| rules.insert(0, foreign));
    let record = cloudflare.records.iter_mut().find(|record| *record.name == *hidden).unwrap();
    record.comment = record.comment.replacen("rules=", "rules=000", 1).into();
    let desired: Vec<Endpoint> = before
        .iter()
        .filter(|endpoint| endpoint.dns_name != gone)
        .flat_map(|one| {
            [
                one.clone(),
                Endpoint { provider_specific: of("home", other, "/b").provider_specific, ..one.clone() },
            ]
        })
        .chain([of("office", "wish.example.com", ""), of("home", "x.below.example.com", "")])
        .chain([of("home", "new.example.com", "")])
        .collect();
    let (written, waiting) =
        (plan(&cloudflare, &[OFFICE], &desired), plan(&cloudflare, &["example.com"], &desired));
    assert_eq!(
        outcome(&written),
        (
            vec!["new.example.com", other],
            vec![gone, hidden, led, rule, "wish.example.com", "x.below.example.com"]
        )
    );
    assert_eq!(outcome(&waiting).0, [""; 0], "its zone");
    assert_eq!(outcome(&waiting).1.len(), 8);
    assert_eq!(outcome(&plan(&cloudflare, &[], &desired)).1, [""; 0]);
}

/// The names of records of the registry may lie in the zone around.
#[test]
fn what_lies_in_a_zone_waits_beside_an_old_answer_about_the_zone_around_it_and_not_the_other_way() {
    let cloudflare = FakeCloudflare::new(&[], &[]).with_inner_zone();
    let (inner, outer) = ("x.a.example.com", "x.example.com");
    let desired = [of("home", inner, ""), of("home", outer, "")];
    for (old, written) in [("example.com", vec![]), (INNER_ZONE, vec![outer])] {
        assert_eq!(outcome(&plan(&cloudflare, &[old], &desired)).0, written, "{old}");
    }
}

#[test]
fn nothing_opens_while_an_answer_about_something_else_is_old() {
    let mut cloudflare =
        FakeCloudflare::new(&[], &[]).with_access(vec![policy("staff", PolicyDecision::Allow)]);
    let wish = |word| {
        let said = [("tunnel-service", WEB), ("access-policy", word)];
        [endpoint("shop.example.com", &said)]
    };
    for _ in 0..3 {
        cloudflare.run_loop(&wish("staff-name"), usize::MAX);
    }
    assert_eq!(cloudflare.applications().len(), 1);
    let opening = plan(&cloudflare, &[OFFICE], &wish("none"));
    assert_eq!(
        (outcome(&opening), opening.application_writes.len()),
        ((vec![], vec!["shop.example.com"]), 0)
    );
    assert_eq!(outcome(&plan(&cloudflare, &[], &wish("none"))).0, ["shop.example.com"]);
}
