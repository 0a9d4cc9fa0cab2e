//! `webhook-access-policy`: a hostname is published together with the Access application that protects it, and never
//! without it.

use cloudflare_emulator::{Token, Visit, Visitor};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use serde_json::json;
use test_support::harness::{Harness, TOKEN, endpoint};

const NAME: &str = "app.example.com";

/// An account with a team, and with the policies `staff` and `on-call`.
fn harness() -> Harness {
    let harness = Harness::new();
    harness.cloudflare.edit(|cloudflare| {
        cloudflare.set_up_access("my-team");
        for name in ["staff", "on-call"] {
            let policy = json!({"name": name, "decision": "allow", "include": [{"email_domain": {"domain": "example.com"}}]});
            cloudflare.add_policy(&policy).expect("a policy");
        }
        *cloudflare.token_mut(TOKEN) = Token::with_access(TOKEN);
    });
    harness
}

fn protected(policies: &str) -> Endpoint {
    endpoint(NAME, &[("tunnel-service", "http://web:80"), ("access-policy", policies)])
}

fn silent() -> Endpoint {
    endpoint(NAME, &[("tunnel-service", "http://web:80")])
}

fn visit(harness: &Harness, visitor: Visitor, path: &str) -> Visit {
    harness.cloudflare.visit_as(visitor, NAME, path)
}

fn applications(harness: &Harness) -> Vec<(String, Vec<String>)> {
    harness.cloudflare.edit(|cloudflare| {
        let named = cloudflare.applications().iter().map(|one| one.name());
        named
            .map(|name| {
                let policies =
                    cloudflare.policies_of(name).iter().map(|policy| policy.name.clone()).collect();
                (name.to_owned(), policies)
            })
            .collect()
    })
}

#[test]
fn a_hostname_is_published_protected_changed_opened_and_withdrawn() {
    let harness = harness();
    let program = harness.start();
    let external_dns = program.external_dns();

    external_dns.run_loop(&[protected("staff, on-call")]).expect("published");
    let name = format!("{NAME} (ExternalDNS default)");
    assert_eq!(applications(&harness), [(name.clone(), vec!["staff".to_owned(), "on-call".to_owned()])]);
    assert!(matches!(visit(&harness, Visitor::WithoutLogin, "/"), Visit::TurnedAway { .. }));
    assert!(matches!(visit(&harness, Visitor::WithLogin, "/"), Visit::Served { .. }));

    harness.cloudflare.take_calls();
    external_dns.run_loop(&[protected("staff,on-call")]).expect("as it was");
    assert_eq!(harness.cloudflare.count_calls().writes, 0);

    external_dns.run_loop(&[protected("on-call")]).expect("changed");
    assert_eq!(applications(&harness), [(name, vec!["on-call".to_owned()])]);

    external_dns.run_loop(&[silent()]).expect("told, and left");
    assert!(matches!(visit(&harness, Visitor::WithoutLogin, "/"), Visit::TurnedAway { .. }));

    external_dns.run_loop(&[protected("none")]).expect("opened");
    assert_eq!(applications(&harness), []);
    assert!(matches!(visit(&harness, Visitor::WithoutLogin, "/"), Visit::Served { .. }));
    harness.cloudflare.take_calls();
    external_dns.run_loop(&[protected("none")]).expect("as it was");
    external_dns.run_loop(&[silent()]).expect("as it was");
    assert_eq!(harness.cloudflare.count_calls().writes, 0);

    external_dns.run_loop(&[protected("staff")]).expect("protected");
    assert!(matches!(visit(&harness, Visitor::WithoutLogin, "/"), Visit::TurnedAway { .. }));
    external_dns.run_loop(&[]).expect("withdrawn");
    assert_eq!(applications(&harness), []);
    assert_eq!(harness.cnames(), []);
}

/// What is made and changed is told. A deletion comes after the withdrawal of its rule, which is told.
#[test]
fn a_dry_run_writes_no_application() {
    let harness = harness();
    let (none, staff, on_call) = (vec![], vec![protected("staff")], vec![protected("on-call")]);
    for (before, wanted, told) in
        [(&none, &staff, "created"), (&staff, &on_call, "changed"), (&staff, &none, "deleted")]
    {
        let writing = harness.start();
        writing.external_dns().run_loop(before).expect("as it is to be before");
        writing.external_dns().run_loop(before).expect("at rest");
        drop(writing);
        let dry = harness.start_with(&[("DRY_RUN", "true")]);
        let present = applications(&harness);
        harness.cloudflare.take_calls();
        harness.log.forget();
        dry.external_dns().run_loop(wanted).expect("nothing is done");
        assert_eq!(harness.cloudflare.count_calls().writes, 0, "{told}");
        assert_eq!(applications(&harness), present, "{told}");
        let lines = harness.log.lines_with(&[&format!("Access application {told}")]);
        assert_eq!(lines.len(), usize::from(told != "deleted"), "{told}: {lines:?}");
    }
}
