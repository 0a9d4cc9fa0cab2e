//! `webhook-access-policy`: what stays closed, what opens, and which applications go, on plans alone.

mod applications;
mod conditions;
mod foreign_rules;
mod word;

use external_dns_cloudflare_tunnel_webhook::limits;
use external_dns_cloudflare_tunnel_webhook::model::access::{
    Application, ApplicationKind, AttachedPolicy, Destination, PolicyDecision, ReusablePolicy, TeamName,
};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Endpoint, Property};
use external_dns_cloudflare_tunnel_webhook::reconcile::access::reading::{
    AccessReadError, AccessReading, AccessSnapshot,
};
use external_dns_cloudflare_tunnel_webhook::reconcile::plan::Plan;
use external_dns_cloudflare_tunnel_webhook::reconcile::records;
use test_support::external_dns::Changes;
use test_support::fake_cloudflare::{FakeCloudflare, HOME, OFFICE, adjust, tunnel_id};
use test_support::harness::{endpoint, endpoint_of};

use crate::access_guard::application;

const NAME: &str = "app.example.com";
const OPEN: &str = "none";

pub(crate) fn policy(id: &str, decision: PolicyDecision) -> ReusablePolicy {
    ReusablePolicy { id: id.into(), name: format!("{id}-name").into(), decision }
}

fn cloudflare() -> FakeCloudflare {
    FakeCloudflare::new(&[], &[])
        .with_access(vec![policy("staff", PolicyDecision::Allow), policy("public", PolicyDecision::Bypass)])
}

/// An endpoint for a path, which may be empty, that says this of Access, or nothing.
fn at(name: &str, prefix: &str, access: &str) -> Endpoint {
    let properties =
        [("tunnel-service", "http://web:80"), ("tunnel-path-prefix", prefix), ("access-policy", access)];
    let said: Vec<(&str, &str)> = properties.into_iter().filter(|(_, text)| !text.is_empty()).collect();
    endpoint(name, &said)
}

pub(crate) fn run(cloudflare: &mut FakeCloudflare, desired: &[Endpoint]) -> Plan {
    cloudflare.run_loop(desired, usize::MAX)
}

pub(crate) fn labels(plan: &Plan) -> Vec<&'static str> {
    plan.refusals.iter().map(|refusal| refusal.reason.label_value()).collect()
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

/// A foreign application that lets staff in.
fn foreign(name: &str, destinations: &[&str]) -> Application {
    application(name, destinations, PolicyDecision::Allow)
}

fn attached(name: &str, decision: PolicyDecision) -> AttachedPolicy {
    AttachedPolicy { id: name.into(), decision }
}

fn with(mut endpoint: Endpoint, property: &str, text: &str) -> Endpoint {
    endpoint.provider_specific.push(Property::new(property, text));
    endpoint
}

fn in_tunnel(endpoint: Endpoint, tunnel: &str) -> Endpoint {
    with(endpoint, "webhook/tunnel", tunnel)
}

fn served_by(mut endpoint: Endpoint, service: &str) -> Endpoint {
    endpoint.provider_specific.retain(|property| *property.name != *"webhook/tunnel-service");
    with(endpoint, "webhook/tunnel-service", service)
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
    records::records(&cloudflare.snapshot()).notes.iter().map(|note| note.line().to_string()).collect()
}

/// The audiences that the rules require.
fn required_audiences(cloudflare: &FakeCloudflare, tunnel: &str) -> Vec<String> {
    let rules = cloudflare.document(&tunnel_id(tunnel)).rules().iter();
    rules.filter_map(|rule| Some(rule.access_check()?.audience_tags().join("+"))).collect()
}

/// Otherwise the log would not say that there are more.
#[test]
fn of_more_logins_without_an_object_than_the_log_names_one_more_is_told() {
    let mut cloudflare = cloudflare();
    let names = |policy| -> Vec<Endpoint> {
        (0..limits::NOTES_MAX + 2).map(|number| at(&format!("h{number}.example.com"), "", policy)).collect()
    };
    settle(&mut cloudflare, &names("staff"));
    let adjusted = adjust(&names(""), &cloudflare.settings(), Some(&cloudflare.snapshot()));
    assert_eq!(adjusted.unasked_protections, limits::NOTES_MAX + 2);
    assert_eq!(adjusted.notes.len(), limits::NOTES_MAX + 1);
}

/// Invariant 9 of docs/how-it-works.md.
#[test]
fn an_endpoint_that_says_nothing_any_more_stays_protected_and_is_told() {
    for (protected, prefix) in
        [(at(NAME, "", "staff"), ""), (at(NAME, "/p", "staff"), "/p"), (required(NAME), "")]
    {
        let mut cloudflare = cloudflare();
        settle(&mut cloudflare, &[protected]);
        let before = cloudflare.clone();
        let silent = [at(NAME, prefix, "")];
        assert_rest(&cloudflare, &silent);
        let adjusted = adjust(&silent, &cloudflare.settings(), Some(&cloudflare.snapshot()));
        assert_eq!(adjusted.unasked_protections, 1);
        assert!(adjusted.notes[0].line().to_string().contains("has a login that no object asks for"));
        // Another service, and another tunnel.
        let changed = served_by(at(NAME, prefix, ""), "http://new:80");
        for changed in [[changed.clone()], [in_tunnel(changed, "office")]] {
            settle(&mut cloudflare, &changed);
            assert_rest(&cloudflare, &changed);
        }
        assert_eq!(required_audiences(&cloudflare, OFFICE), required_audiences(&before, HOME));
        assert_eq!(cloudflare.applications(), before.applications());
    }
}

/// Its application is at the hostname, or at the wildcard. A deeper name has no application over it, and a check of the
/// endpoint's own has none at all, but the rule turned these visitors away.
#[test]
fn a_silent_endpoint_within_something_protected_requires_its_tokens() {
    let long = "a-hostname-that-is-so-long.that-no-application-of-access-fits-it.example.com";
    let checked = |name: &str| with(required(name), "webhook/tunnel-path-prefix", "/p");
    let expression = |path: &str| with(at(NAME, "", ""), "webhook/tunnel-path", path);
    for (protected, new) in [
        (at(NAME, "", "staff"), at(NAME, "/p", "")),
        (at("*.example.com", "", "staff"), at(NAME, "", "")),
        (at("*.example.com", "", "staff"), at("deep.app.example.com", "", "")),
        (required("*.example.com"), at(NAME, "", "")),
        (required(NAME), expression("v1")),
        (checked(NAME), expression("^/p/q$")),
        (checked(NAME), expression("^/p$")),
        (checked(NAME), expression("^/p/[0-9]+")),
        (checked(NAME), at(NAME, "/p/q", "")),
        (checked(long), at(long, "/p/q", "")),
    ] {
        let mut cloudflare = cloudflare();
        settle(&mut cloudflare, std::slice::from_ref(&protected));
        let both = [protected, new];
        assert_eq!(labels(&settle(&mut cloudflare, &both)), [""; 0]);
        let audiences = required_audiences(&cloudflare, HOME);
        assert!(audiences.len() == 2 && audiences[0] == audiences[1], "{both:?}: {audiences:?}");
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
    let wildcard = || required("*.example.com");
    for (standing, desired) in [
        (vec![wildcard(), alone("")], vec![wildcard(), in_tunnel(alone(""), "office")]),
        (vec![required(NAME)], vec![alone("")]),
    ] {
        let mut cloudflare = cloudflare();
        settle(&mut cloudflare, &standing);
        let before = cloudflare.clone();
        assert_eq!((labels(&settle(&mut cloudflare, &desired)), &cloudflare), (vec!["would_open"], &before));
    }
}

/// The tunnel was made anew, or its document emptied.
#[test]
fn silence_opens_nothing_where_the_rules_are_gone_and_only_the_comment_tells() {
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[at(NAME, "", "staff")]);
    cloudflare.edit_rules(HOME, Vec::clear);
    assert!(cloudflare.snapshot().has_protection_claim(), "so Access is read");
    let mut unread = cloudflare.clone();
    unread.access = AccessReading::Failed(AccessReadError::temporary("it hangs"));
    assert_eq!(labels(&run(&mut unread, &[at(NAME, "", "")])), ["waiting"]);
    assert_eq!(labels(&run(&mut unread, &[at(NAME, "", OPEN)])), ["waiting"], "the word neither");
    settle(&mut cloudflare, &[at(NAME, "", "")]);
    assert_eq!((locked(&cloudflare), names(&cloudflare)), (vec![NAME.to_owned()], vec![NAME]));
}

/// The rule refuses every visitor, and without the mark a new process would not read Access.
#[test]
fn the_mark_stays_while_a_rule_has_a_check_without_an_application_behind_it() {
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[at(NAME, "", "staff")]);
    let silent = [at(NAME, "", "")];
    cloudflare.applications_mut().clear();
    for desired in [&silent, &[served_by(silent[0].clone(), "http://new:80")]] {
        settle(&mut cloudflare, desired);
        assert!(cloudflare.snapshot().has_protection_claim(), "{:?}", cloudflare.records);
        assert_eq!(locked(&cloudflare), [NAME]);
    }
    settle(&mut cloudflare, &[at(NAME, "", "staff")]);
    assert_eq!(names(&cloudflare), [NAME]);
    cloudflare.applications_mut().clear();
    let opened = [at(NAME, "", OPEN)];
    settle(&mut cloudflare, &opened);
    assert!(!cloudflare.snapshot().has_protection_claim(), "{:?}", cloudflare.records);
    assert_rest(&cloudflare, &opened);
}

/// The deletion of an application by hand makes its rule refuse every visitor, whatever becomes of another path.
#[test]
fn a_login_is_renewed_beside_a_refused_endpoint_and_nothing_else_changes_there() {
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[at(NAME, "", "staff")]);
    cloudflare.applications_mut().clear();
    let theirs = format!(r#"{{"hostname":"{NAME}","path":"^/api(/|$)","service":"http://theirs:80"}}"#);
    cloudflare.edit_rules(HOME, |rules| rules.insert(0, theirs));
    let (base, held) = (at(NAME, "", "staff"), at(NAME, "/api", "staff"));
    settle(&mut cloudflare, &[base.clone(), held.clone()]);
    assert_eq!((locked(&cloudflare), names(&cloudflare)), (vec![NAME.to_owned()], vec![NAME]));
    let before = cloudflare.clone();
    for changed in [served_by(base, "http://new:80"), at(NAME, "", OPEN)] {
        let plan = run(&mut cloudflare, &[changed, held.clone()]);
        assert_eq!(plan.refusals.len(), 2, "{:?}", plan.refusals);
        assert_eq!(cloudflare, before);
    }
}

/// A rule with a token of its own has no application that could hold the opening back.
#[test]
fn a_refused_path_keeps_its_hostname_closed_and_where_it_is() {
    let mut cloudflare = cloudflare();
    let theirs = format!(r#"{{"hostname":"{NAME}","path":"^/api(/|$)","service":"http://theirs:80"}}"#);
    let locked_in = |tunnel: &str, path: &str| {
        let (team, tag) = (("access-team-name", "team"), ("access-aud-tag", "tag"));
        let check = [("access-required", "true"), team, tag];
        let path: &[(&str, &str)] = if path.is_empty() { &[] } else { &[("tunnel-path-prefix", "/api")] };
        let properties =
            [&[("tunnel-service", "http://web:80"), ("tunnel", tunnel)], &check[..], path].concat();
        endpoint_of("ingress/shop/web", NAME, &properties)
    };
    settle(&mut cloudflare, &[locked_in("home", "")]);
    cloudflare.edit_rules(HOME, |rules| rules.insert(0, theirs.clone()));
    let before = cloudflare.clone();
    let opened = [at(NAME, "", OPEN), at(NAME, "/api", OPEN)];
    assert_eq!(run(&mut cloudflare, &opened).refusals.len(), 2);
    assert_eq!(cloudflare, before, "it would open beside the refused path");
    cloudflare.edit_rules(HOME, |rules| rules.retain(|rule| *rule != theirs));
    // An open rule would refuse the move by itself.
    cloudflare
        .edit_rules(OFFICE, |rules| rules.insert(0, theirs.replace("http://theirs:80", "http_status:410")));
    let moved = [locked_in("office", ""), locked_in("office", "/api")];
    run(&mut cloudflare, &moved[..1]);
    for _ in 0..4 {
        run(&mut cloudflare, &moved);
        assert_eq!(cloudflare.snapshot().visited_tunnel(NAME), Some(tunnel_id(HOME)));
    }
}

fn guarded() -> FakeCloudflare {
    let mut cloudflare = cloudflare();
    cloudflare.namespace_guard = true;
    cloudflare.access_policies = Some(vec!["staff".into()]);
    cloudflare
}

/// An object of a namespace, which publishes a service of that namespace.
fn of(namespace: &str, name: &str, prefix: &str, access: &str) -> Endpoint {
    let mut endpoint = at(name, prefix, access);
    endpoint.labels.set("resource", &format!("ingress/{namespace}/{name}"));
    served_by(endpoint, &format!("http://web.{namespace}.svc:80"))
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

/// If only one of check and application were taken off, the hostname would be offline.
#[test]
fn nothing_is_opened_while_access_cannot_be_read_and_everything_else_goes_on() {
    for (protected, is_permanent) in
        [(at(NAME, "", "staff"), false), (at(NAME, "", "staff"), true), (required(NAME), false)]
    {
        let mut cloudflare = cloudflare();
        settle(&mut cloudflare, &[protected]);
        let unread = AccessReadError { reason: "it hangs".into(), is_permanent };
        cloudflare.access = AccessReading::Failed(unread);
        let plan = run(
            &mut cloudflare,
            &[at(NAME, "", OPEN), at("b.example.com", "", ""), at("c.example.com", "", OPEN)],
        );
        assert_eq!(labels(&plan), ["access_unknown"]);
        assert_eq!((locked(&cloudflare), cloudflare.records.len()), (vec![NAME.to_owned()], 3));
    }
}

/// `records` shows the application, so ExternalDNS would ask for another check without end; only `none` opens; and a
/// policy that lets visitors past protects no change.
#[test]
fn what_an_application_protects_is_not_changed_to_something_else_and_that_is_told() {
    let service = |text| ("tunnel-service", text);
    let open = [service("http://web:80"), ("access-required", "false"), ("access-team-name", "my-team")];
    let changed = [service("http://new:80"), ("access-policy", "staff")];
    for (decision, wanted, label, told) in [
        (PolicyDecision::Allow, required(NAME), "access_policy", "webhook-access-policy"),
        (PolicyDecision::Allow, endpoint(NAME, &open), "invalid", "webhook-access-required"),
        (
            PolicyDecision::Bypass,
            endpoint(NAME, &changed),
            "access_policy",
            "lets visitors past without a login now",
        ),
    ] {
        let mut cloudflare = cloudflare();
        settle(&mut cloudflare, &[at(NAME, "", "staff")]);
        cloudflare.applications_mut()[0].policies = Some(vec![attached("staff", decision)]);
        let before = cloudflare.clone();
        let plan = run(&mut cloudflare, &[wanted]);
        assert_eq!((labels(&plan), &cloudflare), (vec![label], &before));
        assert!(plan.refusals[0].to_string().contains(told), "{}", plan.refusals[0]);
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
    assert_eq!(cloudflare.applications()[0].policies, Some(vec![attached("staff", PolicyDecision::Allow)]));
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

/// Only `none` opens what `DEFAULT_ACCESS_POLICY` protects, and `ACCESS_OPT_OUT=false` allows no other lock either.
#[test]
fn the_default_policy_gives_way_to_a_whole_check_and_the_word_alone_and_without_opt_out_to_none() {
    let (required, team, tag) =
        (("access-required", "true"), ("access-team-name", "theirs"), ("access-aud-tag", "own"));
    let open = ("access-required", "false");
    for (said, is_valid, is_locked) in [
        (vec![open], false, false),
        (vec![team], false, false),
        (vec![open, team], false, false),
        (vec![open, team, tag], false, false),
        (vec![required, team, tag], true, true),
        (vec![("access-policy", OPEN)], true, false),
    ] {
        for opt_out in [true, false] {
            let mut cloudflare = cloudflare();
            cloudflare.default_access_policy = vec!["staff".into()];
            cloudflare.access_opt_out = opt_out;
            let desired = [endpoint(NAME, &[&[("tunnel-service", "http://web:80")], &*said].concat())];
            let plan = settle(&mut cloudflare, &desired);
            let context = format!("{said:?}, ACCESS_OPT_OUT={opt_out}");
            let is_published = is_valid && opt_out;
            assert_eq!(labels(&plan), if is_published { &[][..] } else { &["invalid"] }, "{context}");
            let counts = (cloudflare.records.len(), locked(&cloudflare).len(), names(&cloudflare).len());
            assert_eq!(
                counts,
                (usize::from(is_published), usize::from(is_published && is_locked), 0),
                "{context}"
            );
            if is_published {
                assert_rest(&cloudflare, &desired);
            }
        }
    }
}
