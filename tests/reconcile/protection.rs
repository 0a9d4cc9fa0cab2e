//! `webhook-access-policy`: what stays closed, what opens, and which applications go, on plans alone.

mod conditions;

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

/// A visitor between the two meets the application, or what was there before.
#[test]
fn the_application_comes_in_one_request_and_its_rule_in_the_next() {
    let mut cloudflare = cloudflare();
    let desired = [at(NAME, "", "staff")];
    let first = run(&mut cloudflare, &desired);
    assert_eq!((labels(&first), names(&cloudflare)), (vec!["waiting"], vec![NAME]));
    assert!(first.refusals[0].reason.is_unfinished() && first.hosts.is_empty());
    let second = run(&mut cloudflare, &desired);
    assert_eq!((labels(&second), locked(&cloudflare)), (vec![], vec![NAME.to_owned()]));
    assert_rest(&cloudflare, &desired);
}

#[test]
fn the_word_opens_its_place_in_two_requests_and_is_told_by_name() {
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[at(NAME, "", "staff")]);
    let opened = [at(NAME, "", OPEN)];
    let first = run(&mut cloudflare, &opened);
    assert_eq!(
        (labels(&first), names(&cloudflare), locked(&cloudflare)),
        (vec!["waiting"], vec![NAME], vec![])
    );
    assert!(first.notes[0].to_string().contains("none opens it"), "{:?}", first.notes);
    let second = run(&mut cloudflare, &opened);
    assert_eq!((labels(&second), names(&cloudflare)), (vec![], vec![]));
    settle(&mut cloudflare, &opened);
    assert_rest(&cloudflare, &opened);
    // What stands open stays so without the word.
    assert_rest(&cloudflare, &[at(NAME, "", "")]);
}

/// The hostname's application stands over the path, too, whose endpoint does not ask to be open.
#[test]
fn what_protects_a_silent_path_as_well_is_not_opened_until_the_path_says_so() {
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[at(NAME, "", "staff"), at(NAME, "/p", "")]);
    let before = cloudflare.clone();
    let plan = settle(&mut cloudflare, &[at(NAME, "", OPEN), at(NAME, "/p", "")]);
    assert_eq!((labels(&plan), &cloudflare), (vec!["still_protected"], &before));
    assert!(plan.refusals[0].to_string().contains("/p"), "{}", plan.refusals[0]);
    let plan = settle(&mut cloudflare, &[at(NAME, "", ""), at(NAME, "/p", OPEN)]);
    assert_eq!((labels(&plan), &cloudflare), (vec!["still_protected"], &before), "the hostname is silent");

    let opened = [at(NAME, "", OPEN), at(NAME, "/p", OPEN)];
    settle(&mut cloudflare, &opened);
    assert_eq!((names(&cloudflare), locked(&cloudflare)), (vec![], vec![]));
    assert_rest(&cloudflare, &opened);
}

#[test]
fn a_wildcard_opens_only_with_every_name_below_it() {
    let wildcard = "*.example.com";
    let rule = r#"{"hostname":"hand.example.com","service":"http://theirs:80"}"#.to_owned();
    let policies = cloudflare().policies;
    let to_home = &*tunnel_id(HOME).hostname();
    for (rules, records, below) in [
        (vec![], vec![], vec![at(NAME, "", "")]),
        (vec![], vec![], vec![alone("")]),
        (vec![rule], vec![("hand.example.com", "CNAME", to_home)], vec![]),
        (vec![], vec![("elsewhere.example.com", "CNAME", "somewhere.test")], vec![]),
    ] {
        let mut cloudflare = FakeCloudflare::new(&rules, &records).with_access(policies.clone());
        let with = |access: &str| [vec![at(wildcard, "", access)], below.clone()].concat();
        settle(&mut cloudflare, &with("staff"));
        let before = cloudflare.clone();
        let plan = settle(&mut cloudflare, &with(OPEN));
        assert_eq!((labels(&plan), &cloudflare), (vec!["still_protected"], &before));
    }
    for below in [at(NAME, "", OPEN), alone(OPEN)] {
        let mut cloudflare = cloudflare();
        settle(&mut cloudflare, &[at(wildcard, "", "staff"), below.clone()]);
        let opened = [at(wildcard, "", OPEN), below];
        settle(&mut cloudflare, &opened);
        assert_eq!((names(&cloudflare), locked(&cloudflare)), (vec![], vec![]));
        assert_rest(&cloudflare, &opened);
    }
}

/// A wildcard's application was made in the request before, and its rule comes in this one.
#[test]
fn the_word_below_a_wildcard_takes_no_application_that_the_wildcard_asks_for() {
    let mut cloudflare = cloudflare();
    let desired = [at("*.example.com", "", "staff"), at(NAME, "", OPEN)];
    assert_eq!(labels(&settle(&mut cloudflare, &desired)), ["still_protected"]);
    assert_eq!(names(&cloudflare), ["*.example.com"]);
}

/// Its application lets visitors past, and so the one of the whole hostname does not count there.
#[test]
fn a_public_path_of_a_protected_hostname_has_a_bypass_application_and_says_none() {
    let mut cloudflare = cloudflare();
    let hook = foreign("hook", &["app.example.com/hook", "app.example.com/hook/*"]);
    let bypass = Some(vec![attached("public", Decision::Bypass)]);
    cloudflare.applications_mut().push(Application { policies: bypass, ..hook });
    let desired = [at(NAME, "", "staff"), at(NAME, "/hook", OPEN)];
    assert_eq!(labels(&settle(&mut cloudflare, &desired)), [""; 0]);
    assert_eq!(locked(&cloudflare), [NAME]);
    assert_rest(&cloudflare, &desired);
}

/// A1 of the findings: the wildcard leads to the same backend.
#[test]
fn the_application_of_a_withdrawn_name_stays_in_front_of_an_open_wildcard_until_that_goes() {
    let narrowed = at(NAME, "/p", "staff");
    for left in [vec![], vec![narrowed]] {
        let mut cloudflare = cloudflare();
        let wildcard = at("*.example.com", "", "");
        settle(&mut cloudflare, &[wildcard.clone(), at(NAME, "", "staff")]);
        let desired = [vec![wildcard], left.clone()].concat();
        settle(&mut cloudflare, &desired);
        assert!(names(&cloudflare).contains(&NAME));
        let told = notes(&cloudflare).join("\n");
        assert!(told.contains("stays, because") && told.contains("*.example.com"), "{told}");
        assert_rest(&cloudflare, &desired);
        settle(&mut cloudflare, &left);
        assert!(!names(&cloudflare).contains(&NAME));
    }
}

#[test]
fn an_application_goes_by_itself_once_nothing_answers_for_its_place() {
    let mut cloudflare = cloudflare();
    settle(
        &mut cloudflare,
        &[at(NAME, "", "staff"), at("b.example.com", "/p", "staff"), at("b.example.com", "/q", "")],
    );
    let desired = [at("b.example.com", "/q", "")];
    run(&mut cloudflare, &desired);
    assert_eq!(names(&cloudflare).len(), 2, "they go after their rules");
    let with_all = cloudflare.clone();
    cloudflare.sweep();
    assert_eq!(names(&cloudflare), [""; 0]);

    // Outside the filter, and in front of a tunnel that is not read.
    let mut filtered = with_all.clone();
    filtered.served = "b.example.com";
    filtered.sweep();
    assert_eq!(names(&filtered), [NAME]);
    let mut elsewhere = with_all;
    elsewhere.add(NAME, "CNAME", "11111111-a4ef-4643-bbbc-4a0ed4fc8415.cfargotunnel.com", "");
    elsewhere.sweep();
    assert_eq!(names(&elsewhere), [NAME]);
}

/// Its rule comes in the next request.
#[test]
fn an_application_that_was_just_made_does_not_go() {
    let mut cloudflare = cloudflare();
    run(&mut cloudflare, &[at(NAME, "", "staff")]);
    cloudflare.sweep();
    assert_eq!(names(&cloudflare), [NAME]);
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

#[test]
fn the_comment_says_that_something_is_protected_until_its_application_has_gone() {
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[at(NAME, "", "staff")]);
    assert!(comments(&cloudflare)[0].contains(" rules=!"), "{:?}", comments(&cloudflare));
    settle(&mut cloudflare, &[at(NAME, "", OPEN)]);
    assert!(!comments(&cloudflare)[0].contains('!'), "{:?}", comments(&cloudflare));
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

/// A7 of the findings.
#[test]
fn one_namespace_does_not_get_all_applications_of_the_account() {
    let mut cloudflare = guarded();
    let mut desired: Vec<Endpoint> =
        (0..103).map(|number| of("greedy", &format!("h{number}.example.com"), "", "staff")).collect();
    desired.push(of("shop", NAME, "", "staff"));
    let plan = settle(&mut cloudflare, &desired);
    assert_eq!((labels(&plan), cloudflare.applications().len()), (vec!["access_policy"; 3], 101));
}

/// A8 of the findings: what is not read is not absent.
#[test]
fn policies_that_were_not_read_are_told_so_and_tried_again() {
    let mut cloudflare = cloudflare();
    let AccessReading::Read(access) = &mut cloudflare.access else { unreachable!() };
    let known = std::mem::replace(&mut access.policies, Err("HTTP 503".into()));
    let plan = run(&mut cloudflare, &[at(NAME, "", "staff")]);
    assert!(labels(&plan) == ["waiting"] && plan.refusals[0].to_string().contains("HTTP 503"), "{plan:?}");
    let AccessReading::Read(access) = &mut cloudflare.access else { unreachable!() };
    access.policies = known;
    settle(&mut cloudflare, &[at(NAME, "", "staff")]);
    assert_eq!(locked(&cloudflare), [NAME]);
}

/// A10 of the findings.
#[test]
fn several_applications_of_ours_for_one_place_are_told() {
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[at(NAME, "", "staff")]);
    let copy =
        Application { id: "copy".into(), audience: "copy".into(), ..cloudflare.applications()[0].clone() };
    cloudflare.applications_mut().push(copy);
    assert!(
        notes(&cloudflare).join("\n").contains("several Access applications of ours for app.example.com")
    );
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

/// The rules would not follow.
#[test]
fn no_application_of_an_object_is_made_where_one_of_its_rules_is_refused() {
    let theirs = r#"{"hostname":"app.example.com","path":"^/p(/|$)","service":"http://theirs:80"}"#;
    let mut cloudflare = FakeCloudflare::new(&[theirs.to_owned()], &[]).with_access(cloudflare().policies);
    let plan = run(&mut cloudflare, &[at(NAME, "", "staff"), at(NAME, "/p", "staff")]);
    assert_eq!((labels(&plan), names(&cloudflare)), (vec!["invalid", "rule_held"], vec![]));
}

/// It is taken from an application that is kept elsewhere.
#[test]
fn an_application_that_is_left_over_is_used_again() {
    let mut cloudflare = cloudflare();
    let desired = [at(NAME, "", "staff")];
    settle(&mut cloudflare, &desired);
    let access = cloudflare.access.clone();
    cloudflare = self::cloudflare();
    cloudflare.access = access;
    run(&mut cloudflare, &desired);
    assert_eq!((names(&cloudflare), locked(&cloudflare)), (vec![NAME], vec![NAME.to_owned()]));
}

/// Its endpoint says so, and would say it for ever.
#[test]
fn with_a_default_policy_what_stands_open_shows_the_word_that_opens() {
    for open in [at(NAME, "", OPEN), alone(OPEN)] {
        let mut cloudflare = cloudflare();
        cloudflare.default_access_policy = vec!["staff".into()];
        settle(&mut cloudflare, std::slice::from_ref(&open));
        assert_eq!((cloudflare.records.len(), names(&cloudflare).len()), (1, 0));
        assert_rest(&cloudflare, &[open]);
    }
}

/// Only the tag tells whose an application is, and only the name of which place.
#[test]
fn an_application_that_imitates_ours_is_neither_changed_nor_deleted() {
    let mut cloudflare = cloudflare();
    let ours = "app.example.com (ExternalDNS default)";
    let mut without_tag = foreign("a1", &["b.example.com"]);
    without_tag.name = ours.into();
    let mut without_name = foreign("a2", &["c.example.com"]);
    settle(&mut cloudflare, &[at(NAME, "", "staff")]);
    without_name.tags.clone_from(&cloudflare.applications()[0].tags);
    cloudflare.applications_mut().extend([without_tag, without_name]);
    let foreign = cloudflare.applications()[1..].to_vec();
    settle(
        &mut cloudflare,
        &[at(NAME, "", OPEN), at("b.example.com", "", "staff"), at("c.example.com", "", OPEN)],
    );
    settle(&mut cloudflare, &[]);
    assert_eq!(cloudflare.applications(), foreign);
}

#[test]
fn somebody_elses_application_over_the_place_is_told_by_name() {
    let mut cloudflare = cloudflare();
    cloudflare.applications_mut().push(foreign("theirs", &["APP.example.com"]));
    let plan = settle(&mut cloudflare, &[at(NAME, "", "staff")]);
    assert_eq!(labels(&plan), ["application_held"]);
    assert_eq!((cloudflare.applications().len(), cloudflare.records.len()), (1, 0));
}

/// It would have the destinations of another place, or be read as another host's.
#[test]
fn a_path_with_two_slashes_in_a_row_has_no_application() {
    for prefix in ["//p", "/p//q", "/http://b.example.com"] {
        let mut cloudflare = cloudflare();
        let plan = run(&mut cloudflare, &[at(NAME, prefix, "staff")]);
        assert_eq!((labels(&plan), cloudflare.writes), (vec!["invalid"], 0), "{prefix}");
    }
    let destination = Destination::parse("a.example.com/x://b.example.com");
    assert_eq!((&*destination.host, &*destination.path), ("a.example.com", "x://b.example.com"));
    assert_eq!(&*Destination::parse("https://A.example.com/p").host, "a.example.com");
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

/// It serves nobody, and ours is open already.
#[test]
fn a_foreign_rule_in_a_tunnel_that_nobody_is_led_to_protects_nothing() {
    let theirs = r#"{"hostname":"app.example.com","service":"http://theirs:80","originRequest":{"access":{"required":true,"teamName":"my-team","audTag":["x"]}}}"#;
    let mut cloudflare = FakeCloudflare::new(&[], &[]).with_access(cloudflare().policies);
    let desired = |access: &str| {
        let mut endpoint = at(NAME, "", access);
        endpoint.provider_specific.push(Property::new("webhook/tunnel", "office"));
        [endpoint]
    };
    run(&mut cloudflare, &desired(""));
    cloudflare.edit_rules(HOME, |rules| *rules = vec![theirs.to_owned()]);
    for access in ["", OPEN] {
        assert_rest(&cloudflare, &desired(access));
    }
}

/// A copy appears where an answer is lost and the application is made again.
#[test]
fn of_two_applications_of_one_place_the_one_that_its_rule_names_counts() {
    let mut cloudflare = cloudflare();
    let desired = [at(NAME, "", "staff")];
    settle(&mut cloudflare, &desired);
    let ours = cloudflare.applications()[0].clone();
    for is_in_front in [true, false] {
        let mut cloudflare = cloudflare.clone();
        let copy = Application { id: "copy".into(), audience: "copy-aud".into(), ..ours.clone() };
        cloudflare.applications_mut().insert(usize::from(!is_in_front), copy);
        let before = cloudflare.documents.clone();
        settle(&mut cloudflare, &desired);
        assert_eq!(cloudflare.documents, before, "{is_in_front}");
        assert_eq!(cloudflare.applications().iter().filter(|one| one.id == ours.id).count(), 1);
    }
}

/// The stamp of several rules names no object.
#[test]
fn the_object_that_asks_for_what_stands_protected_keeps_it_against_one_that_opens_it() {
    let of = |resource: &str, prefix: &str, access: &str| {
        let mut endpoint = at(NAME, prefix, access);
        endpoint.labels.set("resource", resource);
        endpoint
    };
    let (ours, path) = (of("ingress/shop/web", "", "staff"), of("ingress/shop/path", "/p", "staff"));
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[ours.clone(), path.clone()]);
    let adjusted = cloudflare.adjusted(&[of("ingress/aaa/evil", "", OPEN), ours, path]);
    let said: Vec<_> = adjusted.iter().map(|endpoint| endpoint.property("webhook/access-policy")).collect();
    assert_eq!(said, [Some("staff"), Some("staff")]);
}

#[test]
fn the_word_that_opens_is_invalid_where_access_opt_out_is_false() {
    for opt_out in [true, false] {
        let mut cloudflare = cloudflare();
        settle(&mut cloudflare, &[at(NAME, "", "staff")]);
        cloudflare.access_opt_out = opt_out;
        let plan = settle(&mut cloudflare, &[at(NAME, "", OPEN)]);
        let (refused, left): (&[&str], &[&str]) = if opt_out { (&[], &[]) } else { (&["invalid"], &[NAME]) };
        assert_eq!(labels(&plan), refused);
        assert_eq!(locked(&cloudflare), left);
    }
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

/// Visitors of ours get no token for it.
#[test]
fn a_foreign_rule_in_a_tunnel_that_nobody_is_led_to_closes_nothing_that_changes() {
    let theirs = r#"{"hostname":"app.example.com","service":"http://theirs:80","originRequest":{"access":{"required":true,"teamName":"my-team","audTag":["x"]}}}"#;
    let mut cloudflare = cloudflare();
    run(&mut cloudflare, &[in_tunnel(at(NAME, "", ""), "office")]);
    cloudflare.edit_rules(HOME, |rules| *rules = vec![theirs.to_owned()]);
    let changed = [in_tunnel(endpoint(NAME, &[("tunnel-service", "http://new:80")]), "office")];
    settle(&mut cloudflare, &changed);
    assert_eq!(required_audiences(&cloudflare, OFFICE), [""; 0]);
    assert_rest(&cloudflare, &changed);
}

/// A hand made it let visitors past, or stand elsewhere. `records` would show it without end.
#[test]
fn the_word_takes_an_application_of_its_place_that_asks_nobody_for_a_login() {
    let let_past = |one: &mut Application| one.policies = Some(vec![attached("public", Decision::Bypass)]);
    let cleared = |one: &mut Application| one.destinations.clear();
    for edit in [let_past, cleared as fn(&mut Application)] {
        let mut cloudflare = cloudflare();
        settle(&mut cloudflare, &[at(NAME, "", "staff")]);
        edit(&mut cloudflare.applications_mut()[0]);
        let opened = [at(NAME, "", OPEN)];
        settle(&mut cloudflare, &opened);
        assert_eq!((names(&cloudflare), locked(&cloudflare)), (vec![], vec![]));
        assert_rest(&cloudflare, &opened);
    }
}

/// Each second loop took the word for done, and wrote the check again.
#[test]
fn the_word_stays_said_until_its_hostname_has_moved_to_the_tunnel_where_it_is_open() {
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[in_tunnel(required(NAME), "office")]);
    let opened = [at(NAME, "/p", OPEN)];
    settle(&mut cloudflare, &opened);
    assert_eq!(cloudflare.snapshot().led_to(NAME), Some(tunnel_id(HOME)));
    assert_eq!((locked(&cloudflare), required_audiences(&cloudflare, OFFICE)), (vec![], vec![]));
    assert_rest(&cloudflare, &opened);
}

/// The refused word held the path back, and the path refused the word.
#[test]
fn a_hostname_opens_in_the_step_in_which_its_path_is_withdrawn() {
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[at(NAME, "", "staff"), at(NAME, "/p", "")]);
    let opened = [at(NAME, "", OPEN)];
    let first = run(&mut cloudflare, &opened);
    assert_eq!((labels(&first), names(&cloudflare)), (vec!["waiting"], vec![NAME]), "it goes after the rule");
    settle(&mut cloudflare, &opened);
    assert_eq!((names(&cloudflare), locked(&cloudflare)), (vec![], vec![]));
    assert_rest(&cloudflare, &opened);
}

/// The endpoint is refused, and its word with it.
#[test]
fn the_word_for_a_hostname_of_others_opens_nothing_that_a_wildcards_application_protects() {
    let rule = r#"{"hostname":"hand.example.com","service":"http://theirs:80"}"#.to_owned();
    let to_home = &*tunnel_id(HOME).hostname();
    let mut cloudflare = FakeCloudflare::new(&[rule], &[("hand.example.com", "CNAME", to_home)])
        .with_access(cloudflare().policies);
    settle(&mut cloudflare, &[at("*.example.com", "", "staff")]);
    let before = cloudflare.clone();
    let opened = [at("*.example.com", "", OPEN), at("hand.example.com", "", OPEN)];
    let plan = settle(&mut cloudflare, &opened);
    assert_eq!((labels(&plan), &cloudflare), (vec!["still_protected"; 2], &before));
}

/// A hand gave it another hostname, which is not ours to open.
#[test]
fn an_application_with_a_destination_beyond_its_place_neither_goes_nor_is_opened() {
    for desired in [vec![], vec![at(NAME, "", OPEN)]] {
        let mut cloudflare = cloudflare();
        settle(&mut cloudflare, &[at(NAME, "", "staff")]);
        cloudflare.applications_mut()[0].destinations.push(Destination::parse("theirs.example.com"));
        let plan = settle(&mut cloudflare, &desired);
        assert_eq!(names(&cloudflare), [NAME]);
        let told = if desired.is_empty() {
            notes(&cloudflare).join(" ")
        } else {
            plan.refusals.iter().map(ToString::to_string).collect()
        };
        assert!(told.contains("theirs.example.com"), "{told}");
    }
}

/// An open wildcard of the namespace keeps them, and their own records are gone.
#[test]
fn applications_of_withdrawn_names_count_for_the_namespace_of_the_wildcard_behind_them() {
    let mut cloudflare = guarded();
    cloudflare.mass_deletion_limit = 0;
    for first in [0, 100] {
        let names = (first..first + 100).map(|number| format!("h{number}.example.com"));
        let mut desired: Vec<Endpoint> = names.map(|name| of("greedy", &name, "", "staff")).collect();
        desired.push(of("greedy", "*.example.com", "", ""));
        settle(&mut cloudflare, &desired);
        assert_eq!(cloudflare.applications().len(), 100);
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
