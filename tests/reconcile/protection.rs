//! `webhook-access-policy`: what stays closed, what opens, and which applications go, on plans alone.

mod applications;
mod conditions;
mod foreign_rules;
mod word;

use external_dns_cloudflare_tunnel_webhook::model::access::{
    Application, ApplicationKind, AttachedPolicy, Decision, Destination, ReusablePolicy, TeamName,
};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Changes, Endpoint, Property};
use external_dns_cloudflare_tunnel_webhook::reconcile::access::reading::{AccessReading, Unread};
use external_dns_cloudflare_tunnel_webhook::reconcile::namespace::NamespaceGuard;
use external_dns_cloudflare_tunnel_webhook::reconcile::plan::Plan;
use external_dns_cloudflare_tunnel_webhook::reconcile::{adjust, records};
use test_support::fake_cloudflare::{FakeCloudflare, HOME, OFFICE, tunnel_id};
use test_support::harness::endpoint;

const NAME: &str = "app.example.com";
const OPEN: &str = "none";

fn policy(id: &str, decision: Decision) -> ReusablePolicy {
    ReusablePolicy { id: id.into(), name: format!("{id}-name").into(), decision }
}

fn cloudflare() -> FakeCloudflare {
    FakeCloudflare::new(&[], &[])
        .with_access(vec![policy("staff", Decision::Allow), policy("public", Decision::Bypass)])
}

/// An endpoint for a path, which may be empty, that says this of Access, or nothing.
fn at(name: &str, prefix: &str, access: &str) -> Endpoint {
    let properties =
        [("tunnel-service", "http://web:80"), ("tunnel-path-prefix", prefix), ("access-policy", access)];
    let said: Vec<(&str, &str)> = properties.into_iter().filter(|(_, text)| !text.is_empty()).collect();
    endpoint(name, &said)
}

fn run(cloudflare: &mut FakeCloudflare, desired: &[Endpoint]) -> Plan {
    cloudflare.run_loop(desired, usize::MAX)
}

fn labels(plan: &Plan) -> Vec<&'static str> {
    plan.refusals.iter().map(|refusal| refusal.reason.label()).collect()
}

/// As many loops as it takes, with what the program deletes by itself. Returns the last plan that was not empty.
fn settle(cloudflare: &mut FakeCloudflare, desired: &[Endpoint]) -> Plan {
    let mut last = Plan::default();
    for _ in 0..4 {
        let plan = run(cloudflare, desired);
        cloudflare.sweep();
        if !plan.is_empty() || !plan.refusals.is_empty() {
            last = plan;
        }
    }
    last
}

/// Everything is as it is asked for, and ExternalDNS asks for nothing.
fn assert_rest(cloudflare: &FakeCloudflare, desired: &[Endpoint]) {
    assert_eq!(cloudflare.changes(desired), Changes::default());
}

fn names(cloudflare: &FakeCloudflare) -> Vec<&str> {
    let names = cloudflare.applications().iter().map(|application| &*application.name);
    names.map(|name| name.trim_end_matches(" (ExternalDNS default)")).collect()
}

/// The hostnames and paths of rules that require a token.
fn locked(cloudflare: &FakeCloudflare) -> Vec<String> {
    let rules = cloudflare.document(&tunnel_id(HOME)).rules().iter();
    let locked = rules.filter(|rule| rule.requires_access());
    locked.map(|rule| format!("{}{}", rule.hostname(), rule.path().unwrap_or_default())).collect()
}

fn foreign(name: &str, destinations: &[&str]) -> Application {
    Application {
        id: name.into(),
        name: name.into(),
        audience: format!("{name}-aud").into(),
        kind: ApplicationKind::SelfHosted,
        destinations: destinations.iter().map(|text| Destination::parse(text)).collect(),
        policies: Some(Vec::new()),
        tags: Vec::new(),
        session_duration: None,
        created_unix_seconds: None,
    }
}

fn attached(name: &str, decision: Decision) -> AttachedPolicy {
    AttachedPolicy { id: name.into(), name: format!("{name}-name").into(), decision, is_reusable: true }
}

fn in_tunnel(mut endpoint: Endpoint, tunnel: &str) -> Endpoint {
    endpoint.provider_specific.push(Property::new("webhook/tunnel", tunnel));
    endpoint
}

/// Protected by an application that is kept elsewhere.
fn required(name: &str) -> Endpoint {
    let access = [("access-required", "true"), ("access-team-name", "my-team"), ("access-aud-tag", "theirs")];
    endpoint(name, &[&[("tunnel-service", "http://web:80")], &access[..]].concat())
}

fn alone(access: &str) -> Endpoint {
    let said: Vec<_> = [("tunnel-service", "none"), ("access-policy", access)]
        .into_iter()
        .filter(|(_, text)| !text.is_empty())
        .collect();
    endpoint(NAME, &said)
}

fn notes(cloudflare: &FakeCloudflare) -> Vec<String> {
    records::records(&cloudflare.snapshot(), &cloudflare.settings())
        .notes
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn comments(cloudflare: &FakeCloudflare) -> Vec<&str> {
    cloudflare.records.iter().map(|record| &*record.comment).collect()
}

/// The audiences that the rules require.
fn required_audiences(cloudflare: &FakeCloudflare, tunnel: &str) -> Vec<String> {
    let rules = cloudflare.document(&tunnel_id(tunnel)).rules().iter();
    rules.filter_map(|rule| Some(rule.access()?.audience_tags().join("+"))).collect()
}

/// Invariant 9 of docs/how-it-works.md.
#[test]
fn an_endpoint_that_says_nothing_any_more_stays_protected_and_is_told() {
    for protected in [at(NAME, "", "staff"), at(NAME, "/p", "staff"), required(NAME)] {
        let mut cloudflare = cloudflare();
        settle(&mut cloudflare, std::slice::from_ref(&protected));
        let before = cloudflare.clone();
        let prefix = if protected.property("webhook/tunnel-path-prefix").is_some() { "/p" } else { "" };
        let silent = [at(NAME, prefix, "")];
        assert_rest(&cloudflare, &silent);
        let adjusted = adjust::adjust(&silent, &cloudflare.settings(), Some(&cloudflare.snapshot()));
        assert_eq!(adjusted.unasked_protections, 1);
        assert!(adjusted.notes[0].to_string().contains("protected although nothing asks for it"));
        // Another service, and another tunnel.
        let changed = endpoint(NAME, &[("tunnel-service", "http://new:80"), ("tunnel-path-prefix", prefix)]);
        let changed =
            if prefix.is_empty() { endpoint(NAME, &[("tunnel-service", "http://new:80")]) } else { changed };
        for changed in [changed.clone(), in_tunnel(changed, "office")] {
            settle(&mut cloudflare, std::slice::from_ref(&changed));
            assert_rest(&cloudflare, std::slice::from_ref(&changed));
        }
        assert_eq!(required_audiences(&cloudflare, OFFICE), required_audiences(&before, HOME));
        assert_eq!(cloudflare.applications(), before.applications());
    }
}

/// Its application is at the hostname, or at the wildcard. A deeper name has no application over it, but the rule of the
/// wildcard turned its visitors away.
#[test]
fn a_silent_endpoint_below_something_protected_requires_its_tokens() {
    for (protected, new) in [
        (at(NAME, "", "staff"), at(NAME, "/p", "")),
        (at("*.example.com", "", "staff"), at(NAME, "", "")),
        (at("*.example.com", "", "staff"), at("deep.app.example.com", "", "")),
        (required("*.example.com"), at(NAME, "", "")),
    ] {
        let mut cloudflare = cloudflare();
        settle(&mut cloudflare, std::slice::from_ref(&protected));
        let both = [protected, new];
        assert_eq!(labels(&settle(&mut cloudflare, &both)), [""; 0]);
        let audiences = required_audiences(&cloudflare, HOME);
        assert!(audiences.len() == 2 && audiences[0] == audiences[1], "{audiences:?}");
        assert_rest(&cloudflare, &both);
    }
}

#[test]
fn a_silent_endpoint_beside_something_protected_is_published_open() {
    let mut cloudflare = cloudflare();
    let both = [at(NAME, "", ""), at(NAME, "/p", "staff")];
    settle(&mut cloudflare, &both);
    assert_eq!(locked(&cloudflare), ["app.example.com^/p(/|$)"]);
    assert_rest(&cloudflare, &both);
}

/// Its check would be gone, and another tunnel has other rules.
#[test]
fn a_record_alone_without_an_application_opens_nothing_in_silence() {
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[required("*.example.com"), alone("")]);
    let moved = [required("*.example.com"), in_tunnel(alone(""), "office")];
    assert_eq!(labels(&settle(&mut cloudflare, &moved)), ["would_open"]);
    assert_eq!(cloudflare.snapshot().led_to(NAME), Some(tunnel_id(HOME)));

    let mut cloudflare = self::cloudflare();
    settle(&mut cloudflare, &[required(NAME)]);
    assert_eq!(labels(&settle(&mut cloudflare, &[alone("")])), ["would_open"]);
    assert_eq!(locked(&cloudflare), [NAME]);
}

/// A2 of the findings: the tunnel was made anew, or its document emptied.
#[test]
fn silence_opens_nothing_where_the_rules_are_gone_and_only_the_comment_tells() {
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[at(NAME, "", "staff")]);
    cloudflare.edit_rules(HOME, Vec::clear);
    assert!(cloudflare.snapshot().is_marked(&cloudflare.settings()), "so Access is read");
    let mut unread = cloudflare.clone();
    unread.access = AccessReading::Failed("it hangs".into());
    assert_eq!(labels(&run(&mut unread, &[at(NAME, "", "")])), ["waiting"]);
    settle(&mut cloudflare, &[at(NAME, "", "")]);
    assert_eq!((locked(&cloudflare), names(&cloudflare)), (vec![NAME.to_owned()], vec![NAME]));
}

fn guarded() -> FakeCloudflare {
    let mut cloudflare = cloudflare();
    cloudflare.namespace_guard = Some(NamespaceGuard { cluster_domain: "cluster.local".into() });
    cloudflare.access_policies = Some(vec!["staff".into()]);
    cloudflare
}

/// An object of a namespace, which publishes a service of that namespace.
fn of(namespace: &str, name: &str, prefix: &str, access: &str) -> Endpoint {
    let mut endpoint = at(name, prefix, access);
    endpoint.labels.set("resource", &format!("ingress/{namespace}/{name}"));
    endpoint.provider_specific.retain(|property| *property.name != *"webhook/tunnel-service");
    let service = format!("http://web.{namespace}.svc:80");
    endpoint.provider_specific.push(Property::new("webhook/tunnel-service", service));
    endpoint
}

#[test]
fn what_the_namespace_guard_refuses_protects_nothing_and_opens_nothing() {
    let mut cloudflare = guarded();
    settle(&mut cloudflare, &[of("shop", NAME, "", "")]);
    let desired =
        [of("shop", NAME, "", ""), of("shop", NAME, "/v2/new", ""), of("bank", NAME, "/v2", "staff")];
    assert_eq!(labels(&settle(&mut cloudflare, &desired)), ["namespace_held"]);
    let rules = cloudflare.document(&tunnel_id(HOME)).rules().iter();
    assert_eq!((names(&cloudflare).len(), rules.filter(|rule| rule.hostname() == NAME).count()), (0, 2));

    let mut cloudflare = guarded();
    let theirs = of("bank", NAME, "", "staff");
    settle(&mut cloudflare, std::slice::from_ref(&theirs));
    let desired = [theirs, of("shop", NAME, "/p", OPEN), of("shop", "b.example.com", "", OPEN)];
    assert_eq!(labels(&settle(&mut cloudflare, &desired)), ["namespace_held"]);
    assert_eq!((names(&cloudflare), locked(&cloudflare)), (vec![NAME], vec![NAME.to_owned()]));
}

/// A11 of the findings: a half would be a hostname that is offline.
#[test]
fn nothing_is_opened_while_access_cannot_be_read_and_everything_else_goes_on() {
    for is_lasting in [false, true] {
        let mut cloudflare = cloudflare();
        settle(&mut cloudflare, &[at(NAME, "", "staff")]);
        let unread = Unread { reason: "it hangs".into(), is_lasting };
        cloudflare.access = AccessReading::Failed(unread);
        let plan = run(
            &mut cloudflare,
            &[at(NAME, "", OPEN), at("b.example.com", "", ""), at("c.example.com", "", OPEN)],
        );
        assert_eq!(labels(&plan), ["access_unknown"]);
        assert_eq!((locked(&cloudflare), cloudflare.records.len()), (vec![NAME.to_owned()], 3));
    }
}

/// Only `none` opens what `DEFAULT_ACCESS_POLICY` protects, and with `ACCESS_OPT_OUT=false` nobody has another lock either.
#[test]
fn the_annotations_for_applications_kept_elsewhere_open_nothing_that_the_default_policy_protects() {
    let (required, team, tag) =
        (("access-required", "true"), ("access-team-name", "theirs"), ("access-aud-tag", "own"));
    let open = ("access-required", "false");
    for (said, is_locked) in [
        (vec![open], false),
        (vec![team], false),
        (vec![open, team], false),
        (vec![open, team, tag], false),
        (vec![required, team, tag], true),
    ] {
        for opt_out in [true, false] {
            let mut cloudflare = cloudflare();
            cloudflare.default_access_policy = vec!["staff".into()];
            cloudflare.access_opt_out = opt_out;
            let properties = [&[("tunnel-service", "http://web:80")], &*said].concat();
            let desired = [endpoint(NAME, &properties)];
            let plan = settle(&mut cloudflare, &desired);
            let (refused, published): (&[&str], &[&str]) =
                if is_locked && opt_out { (&[], &[NAME]) } else { (&["invalid"], &[]) };
            let context = format!("{said:?}, ACCESS_OPT_OUT={opt_out}");
            assert_eq!(labels(&plan), refused, "{context}");
            assert_eq!(locked(&cloudflare), published, "{context}");
            let rules = cloudflare.document(&tunnel_id(HOME)).rules();
            let ours = rules.iter().filter(|rule| rule.hostname() == NAME).count();
            assert_eq!(ours, published.len(), "{context}");
        }
    }
}

/// `records` shows the application, so ExternalDNS would ask without end.
#[test]
fn checks_of_an_endpoints_own_and_our_application_exclude_each_other() {
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[at(NAME, "", "staff")]);
    let before = cloudflare.clone();
    let own = [
        ("tunnel-service", "http://web:80"),
        ("access-required", "true"),
        ("access-team-name", "my-team"),
        ("access-aud-tag", "theirs"),
    ];
    let plan = run(&mut cloudflare, &[endpoint(NAME, &own)]);
    assert_eq!((labels(&plan), &cloudflare), (vec!["access_policy"], &before));
    assert!(plan.refusals[0].to_string().contains("webhook-access-policy"), "{}", plan.refusals[0]);
}

/// It stands in front of the path's rule, and takes these requests.
#[test]
fn a_silent_path_or_expression_within_a_path_with_a_check_requires_the_same() {
    let long = "a-hostname-that-is-so-long.that-no-application-of-access-fits-it.example.com";
    for (name, path, within) in [
        (NAME, "tunnel-path", "^/p/q$"),
        (NAME, "tunnel-path", "^/p$"),
        (NAME, "tunnel-path", "^/p/[0-9]+"),
        (long, "tunnel-path-prefix", "/p/q"),
    ] {
        let mut cloudflare = cloudflare();
        let mut protected = required(name);
        protected.provider_specific.push(Property::new("webhook/tunnel-path-prefix", "/p"));
        settle(&mut cloudflare, std::slice::from_ref(&protected));
        let both = [protected, endpoint(name, &[("tunnel-service", "http://web:80"), (path, within)])];
        settle(&mut cloudflare, &both);
        assert_eq!(required_audiences(&cloudflare, HOME), ["theirs", "theirs"], "{within}");
        assert_rest(&cloudflare, &both);
    }
}

/// The words of such an application are none that an endpoint can say.
#[test]
fn an_application_that_lost_its_policies_keeps_no_other_change_from_a_silent_endpoint() {
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[at(NAME, "", "staff")]);
    cloudflare.applications_mut()[0].policies = Some(Vec::new());
    let changed = [endpoint(NAME, &[("tunnel-service", "http://new:80")])];
    assert_eq!(labels(&settle(&mut cloudflare, &changed)), [""; 0]);
    assert_eq!(locked(&cloudflare), [NAME]);
    assert_rest(&cloudflare, &changed);
    let named = [at(NAME, "", "staff")];
    settle(&mut cloudflare, &named);
    assert_eq!(cloudflare.applications()[0].policies, Some(vec![attached("staff", Decision::Allow)]));
    assert_rest(&cloudflare, &named);
}

/// cloudflared compares the team of a token, too.
#[test]
fn a_silent_rule_below_a_wildcards_application_follows_the_teams_name() {
    let mut cloudflare = cloudflare();
    let desired = [at("*.example.com", "", "staff"), at(NAME, "", "")];
    settle(&mut cloudflare, &desired);
    let AccessReading::Read(access) = &mut cloudflare.access else { unreachable!() };
    access.team = TeamName::parse("new-team").unwrap();
    settle(&mut cloudflare, &desired);
    let rules = cloudflare.document(&tunnel_id(HOME)).rules().iter();
    assert_eq!(rules.filter(|rule| rule.raw().get().contains(r#""teamName":"new-team""#)).count(), 2);
    assert_rest(&cloudflare, &desired);
}
