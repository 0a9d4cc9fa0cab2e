//! Rules that Cloudflare rejected a short time ago, on plans alone.

use std::collections::BTreeSet;

use external_dns_cloudflare_tunnel_webhook::ingress::RuleEdit;
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use external_dns_cloudflare_tunnel_webhook::reconcile::plan::{Plan, plan, rule_fingerprint};
use external_dns_cloudflare_tunnel_webhook::reconcile::plan_inputs::PlanInputs;
use external_dns_cloudflare_tunnel_webhook::reconcile::reason::Reason;
use test_support::fake_cloudflare::{FakeCloudflare, WHOLE};
use test_support::harness::endpoint_of;

fn of(resource: &str, name: &str, path: &str, service: &str) -> Endpoint {
    endpoint_of(resource, name, &[("tunnel-service", service), ("tunnel-path", path)])
}

fn planned(cloudflare: &FakeCloudflare, desired: &[Endpoint], earlier: &PlanInputs) -> Plan {
    let changes = cloudflare.changes(desired);
    plan(&changes.read(), &cloudflare.snapshot(), earlier, WHOLE)
}

/// The services of the rules that are written.
fn written(plan: &Plan) -> BTreeSet<String> {
    let edits = plan.hosts.iter().flat_map(|host| &host.edits);
    let rules = edits.filter_map(|planned| match &planned.edit {
        RuleEdit::Put { rule, .. } => Some(rule.service.as_str().to_owned()),
        RuleEdit::Delete { .. } => None,
    });
    rules.collect()
}

/// What is remembered when Cloudflare rejects the rules to this service.
fn refused(plan: &Plan, service: &str) -> PlanInputs {
    let edits = plan.hosts.iter().flat_map(|host| &host.edits);
    let works = edits.filter_map(|planned| match &planned.edit {
        RuleEdit::Put { rule, .. } if rule.service.as_str() == service => {
            Some(rule_fingerprint(&planned.tunnel, rule))
        }
        _ => None,
    });
    let reason = Reason::Cloudflare("the service is bad".to_owned());
    PlanInputs { paused: works.map(|work| (work, reason.clone())).collect(), ..PlanInputs::default() }
}

/// Otherwise the other rule would take the requests of the refused one.
#[test]
fn a_refused_rule_is_not_sent_again_until_it_differs_and_others_of_its_object_wait() {
    let cloudflare = FakeCloudflare::new(&[], &[]);
    let list = |service: &str| {
        [
            of("ingress/shop/web", "a.example.com", "^/x", service),
            of("ingress/shop/web", "a.example.com", "", "http://rest:80"),
            of("ingress/bank/web", "b.example.com", "", "http://other:80"),
        ]
    };
    let first = planned(&cloudflare, &list("http://bad:80"), &PlanInputs::default());
    let earlier = refused(&first, "http://bad:80");
    assert_eq!((written(&first).len(), earlier.paused.len()), (3, 1));

    let again = planned(&cloudflare, &list("http://bad:80"), &earlier);
    assert_eq!(written(&again), ["http://other:80".to_owned()].into());
    let told: BTreeSet<(&str, &str)> = again
        .refusals
        .iter()
        .map(|refusal| (refusal.set_identifier.as_deref().unwrap_or_default(), refusal.reason.label_value()))
        .collect();
    assert_eq!(told, [("^/x", "cloudflare"), ("", "beside_refused")].into());

    let mended = planned(&cloudflare, &list("http://good:80"), &earlier);
    assert_eq!((written(&mended).len(), mended.refusals), (3, Vec::new()));
}
