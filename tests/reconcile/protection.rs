//! `webhook-access-policy`: what is refused, what stays protected, and which applications go, on plans alone.

mod beside;
mod work;

use external_dns_cloudflare_tunnel_webhook::model::access::{
    Application, ApplicationKind, AttachedPolicy, Decision, Destination, ReusablePolicy,
};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Changes, Endpoint, Property};
use external_dns_cloudflare_tunnel_webhook::reconcile::access::reading::AccessReading;
use external_dns_cloudflare_tunnel_webhook::reconcile::namespace::NamespaceGuard;
use external_dns_cloudflare_tunnel_webhook::reconcile::plan::Plan;
use test_support::fake_cloudflare::{FakeCloudflare, HOME, tunnel_id};
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

/// Everything is as it is asked for, and nobody asks again.
fn assert_rest(cloudflare: &FakeCloudflare, desired: &[Endpoint]) {
    let changes = cloudflare.changes(desired);
    assert_eq!(changes, Changes::default());
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
    }
}

fn attached(name: &str, decision: Decision) -> AttachedPolicy {
    AttachedPolicy { id: name.into(), name: format!("{name}-name").into(), decision, is_reusable: true }
}

/// The hostname's application stands over the path, too, whose endpoint does not ask to be open.
#[test]
fn what_protects_a_silent_path_as_well_is_not_opened_until_the_path_says_so() {
    let mut cloudflare = cloudflare();
    run(&mut cloudflare, &[at(NAME, "", ""), at(NAME, "/p", "")]);
    assert_eq!(labels(&run(&mut cloudflare, &[at(NAME, "", "staff"), at(NAME, "/p", "")])), [""; 0]);
    let before = cloudflare.clone();
    let plan = run(&mut cloudflare, &[at(NAME, "", OPEN), at(NAME, "/p", "")]);
    assert_eq!((labels(&plan), &cloudflare), (vec!["still_protected"], &before));
    assert!(plan.refusals[0].to_string().contains("/p"), "{}", plan.refusals[0]);
    // It is as silent where it changes in the same loop.
    let changed = endpoint(NAME, &[("tunnel-service", "http://new:80"), ("tunnel-path-prefix", "/p")]);
    let plan = run(&mut cloudflare, &[at(NAME, "", OPEN), changed]);
    assert_eq!((labels(&plan), names(&cloudflare)), (vec!["still_protected", "invalid"], vec![NAME]));

    let opened = [at(NAME, "", OPEN), at(NAME, "/p", OPEN)];
    assert_eq!(labels(&run(&mut cloudflare, &opened)), [""; 0]);
    assert_eq!((names(&cloudflare), locked(&cloudflare)), (vec![], vec![]));
    assert_rest(&cloudflare, &opened);
    assert_rest(&cloudflare, &[at(NAME, "", ""), at(NAME, "/p", "")]);
}

/// Beside a name below it, which its record and its application serve, too.
#[test]
fn the_application_of_a_wildcard_stays_while_names_below_it_rely_on_it() {
    let wildcard = "*.example.com";
    let rule = r#"{"hostname":"hand.example.com","service":"http://theirs:80"}"#.to_owned();
    let policies = cloudflare().policies;
    // The edge has it in its way, as it is proxied.
    let records = [("elsewhere.example.com", "CNAME", "somewhere.test")];
    for (rules, records, below) in [
        (vec![], &[][..], vec![at(NAME, "", "")]),
        (vec![rule], &[("hand.example.com", "CNAME", &*tunnel_id(HOME).hostname())][..], vec![]),
        (vec![], &records[..], vec![]),
    ] {
        let mut cloudflare = FakeCloudflare::new(&rules, records).with_access(policies.clone());
        let with = |access: &str| [vec![at(wildcard, "", access)], below.clone()].concat();
        run(&mut cloudflare, &with("staff"));
        assert_eq!(names(&cloudflare), [wildcard]);
        let before = cloudflare.clone();
        let plan = run(&mut cloudflare, &with(OPEN));
        assert_eq!((labels(&plan), &cloudflare), (vec!["still_protected"], &before), "{plan:?}");
        run(&mut cloudflare, &below);
        assert_eq!(names(&cloudflare), [wildcard]);
    }
}

/// Its name is served by the wildcard from then on, which was opened for every name.
#[test]
fn the_application_of_a_withdrawn_name_goes_beside_an_open_wildcard() {
    let mut cloudflare = cloudflare();
    let wildcard = at("*.example.com", "", "");
    run(&mut cloudflare, &[wildcard.clone(), at(NAME, "", "staff")]);
    run(&mut cloudflare, std::slice::from_ref(&wildcard));
    assert_eq!((names(&cloudflare), cloudflare.records.len()), (vec![], 1));
    assert_rest(&cloudflare, &[wildcard]);
}

/// A person's rule, which the path of ours would take requests from.
#[test]
fn a_new_path_takes_no_requests_from_a_foreign_rule_that_requires_a_token() {
    let theirs = r#"{"hostname":"app.example.com","service":"http://theirs:80","originRequest":{"access":{"required":true,"teamName":"my-team","audTag":["x"]}}}"#;
    let mut cloudflare = FakeCloudflare::new(&[theirs.to_owned()], &[]).with_access(cloudflare().policies);
    cloudflare.add(NAME, "CNAME", &tunnel_id(HOME).hostname(), "external-dns owner=default rules=-");
    let before = cloudflare.clone();
    let desired = |access| [endpoint(NAME, &[("tunnel-service", "none")]), at(NAME, "/p", access)];
    assert_eq!(labels(&run(&mut cloudflare, &desired(""))), ["would_open"]);
    assert_eq!(cloudflare, before);
    assert_eq!(labels(&run(&mut cloudflare, &desired(OPEN))), [""; 0]);
}

#[test]
fn a_path_that_says_nothing_below_a_protected_place_is_not_published_with_it() {
    let expression = endpoint(NAME, &[("tunnel-service", "http://web:80"), ("tunnel-path", "^/.dmin")]);
    for desired in [
        [at(NAME, "", "staff"), at(NAME, "/admin", "")],
        [at(NAME, "/admin", "staff"), at(NAME, "/admin/users", "")],
        [at(NAME, "/admin", "staff"), expression],
    ] {
        let mut cloudflare = cloudflare();
        assert!(labels(&run(&mut cloudflare, &desired)).contains(&"would_open"), "{desired:?}");
        assert_eq!((cloudflare.records.len(), names(&cloudflare).len()), (0, 0), "{desired:?}");
    }
}

/// A wildcard's rule turns visitors of all names below it away, how many labels they ever have.
#[test]
fn a_new_name_below_a_protected_wildcard_says_who_may_reach_it() {
    for name in [NAME, "deep.app.example.com"] {
        let mut cloudflare = cloudflare();
        let with = |access: &str| [at("*.example.com", "", "staff"), at(name, "", access)];
        run(&mut cloudflare, &with("")[..1]);
        let before = cloudflare.clone();
        assert_eq!((labels(&run(&mut cloudflare, &with(""))), &cloudflare), (vec!["would_open"], &before));
        assert_eq!(labels(&run(&mut cloudflare, &with("staff"))), [""; 0]);
        assert_rest(&cloudflare, &with("staff"));
    }
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

/// `records` shows the application, so ExternalDNS would ask without end.
#[test]
fn checks_of_an_endpoints_own_and_our_application_exclude_each_other() {
    let mut cloudflare = cloudflare();
    run(&mut cloudflare, &[at(NAME, "", "staff")]);
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

#[test]
fn openings_up_to_the_limit_pass_and_more_stay_protected() {
    for (limit, count, label) in [(5, 5, None), (5, 6, Some("mass_opening")), (0, 6, None)] {
        let mut cloudflare = cloudflare();
        cloudflare.mass_deletion_limit = limit;
        let all = |access: &str| -> Vec<Endpoint> {
            (0..count).map(|number| at(&format!("h{number}.example.com"), "", access)).collect()
        };
        run(&mut cloudflare, &all("staff"));
        let plan = run(&mut cloudflare, &all(OPEN));
        assert_eq!(labels(&plan).first().copied(), label);
        let left = if label.is_some() { count } else { 0 };
        assert_eq!((cloudflare.applications().len(), locked(&cloudflare).len()), (left, left));
    }
}

/// An endpoint of an object of this namespace, and its service.
fn of_namespace(namespace: &str, mut endpoint: Endpoint) -> Endpoint {
    endpoint.labels.set("resource", &format!("ingress/{namespace}/web"));
    endpoint.provider_specific.retain(|property| *property.name != *"webhook/tunnel-service");
    let service = format!("http://web.{namespace}.svc:80");
    endpoint.provider_specific.push(Property::new("webhook/tunnel-service", service));
    endpoint
}

fn guarded() -> FakeCloudflare {
    let mut cloudflare = cloudflare();
    cloudflare.namespace_guard = Some(NamespaceGuard { cluster_domain: "cluster.local".into() });
    cloudflare.access_policies = Some(vec!["staff".into()]);
    cloudflare
}

/// The other namespace's endpoint is refused, so it closes nothing that the holder's new path could open.
#[test]
fn a_policy_that_another_namespace_asks_for_holds_back_no_path_of_the_namespace_that_has_the_hostname() {
    for path in ["", "/v2"] {
        let mut cloudflare = guarded();
        run(&mut cloudflare, &[of_namespace("shop", at(NAME, "", ""))]);
        let theirs = of_namespace("bank", at(NAME, path, "staff"));
        let plan = run(&mut cloudflare, &[of_namespace("shop", at(NAME, "/v2/new", "")), theirs]);
        assert_eq!(labels(&plan), ["namespace_held"]);
        let rules = cloudflare.document(&tunnel_id(HOME)).rules().iter();
        let mut paths = rules.filter(|rule| rule.hostname() == NAME).map(|rule| rule.path());
        assert!(paths.any(|path| path == Some("^/v2/new(/|$)")), "{path:?}");
    }
}

/// They open nothing, so they are no reason to withhold what somebody else opens.
#[test]
fn openings_that_the_namespace_guard_refuses_hold_back_nobody_elses() {
    let of = |namespace: &str, name: &str, access: &str| of_namespace(namespace, at(name, "", access));
    let guarded = || {
        let mut cloudflare = guarded();
        cloudflare.mass_deletion_limit = 5;
        cloudflare
    };
    let all = |namespace: &str, access: &str| -> Vec<Endpoint> {
        let below = |number| format!("h{number}.apps.example.com");
        (0..6).map(|number| of(namespace, &below(number), access)).collect()
    };
    let (closed, open) = (of("shop", NAME, "staff"), of("shop", NAME, OPEN));

    // Of names that another namespace holds.
    let mut cloudflare = guarded();
    run(&mut cloudflare, &[all("bank", "staff"), vec![closed.clone()]].concat());
    assert_eq!(locked(&cloudflare).len(), 7);
    let plan = run(&mut cloudflare, &[all("shop", OPEN), vec![open.clone()]].concat());
    assert_eq!((labels(&plan), locked(&cloudflare).len()), (vec!["namespace_held"; 6], 6));

    // Of new names below a wildcard of another namespace, which lead to its service.
    let mut cloudflare = guarded();
    let wildcard = of("bank", "*.apps.example.com", "staff");
    run(&mut cloudflare, &[wildcard.clone(), closed]);
    let theirs = all("bank", OPEN).into_iter().zip(all("shop", OPEN));
    let theirs = theirs.map(|(bank, shop)| Endpoint { labels: shop.labels, ..bank });
    let plan = run(&mut cloudflare, &theirs.chain([wildcard, open]).collect::<Vec<_>>());
    assert_eq!(labels(&plan), ["invalid"; 6]);
}

/// Only the tag tells whose an application is, and only the name of which place.
#[test]
fn an_application_that_imitates_ours_is_neither_changed_nor_deleted() {
    let mut cloudflare = cloudflare();
    let ours = "app.example.com (ExternalDNS default)";
    let mut without_tag = foreign("a1", &["b.example.com"]);
    without_tag.name = ours.into();
    let mut without_name = foreign("a2", &["c.example.com"]);
    run(&mut cloudflare, &[at(NAME, "", "staff")]);
    without_name.tags.clone_from(&cloudflare.applications()[0].tags);
    cloudflare.applications_mut().extend([without_tag, without_name]);
    let foreign = cloudflare.applications()[1..].to_vec();
    run(
        &mut cloudflare,
        &[at(NAME, "", OPEN), at("b.example.com", "", "staff"), at("c.example.com", "", OPEN)],
    );
    run(&mut cloudflare, &[]);
    assert_eq!(cloudflare.applications(), foreign);
}

/// A copy appears where an answer is lost and the application is made again.
#[test]
fn of_two_applications_of_one_place_the_one_that_its_rule_names_counts() {
    let mut cloudflare = cloudflare();
    let desired = [at(NAME, "", "staff")];
    run(&mut cloudflare, &desired);
    let ours = cloudflare.applications()[0].clone();
    for is_in_front in [true, false] {
        let mut cloudflare = cloudflare.clone();
        let copy = Application { id: "copy".into(), audience: "copy-aud".into(), ..ours.clone() };
        cloudflare.applications_mut().insert(usize::from(!is_in_front), copy);
        let before = cloudflare.documents.clone();
        run(&mut cloudflare, &desired);
        assert_eq!(cloudflare.documents, before, "{is_in_front}");
        assert_eq!(cloudflare.applications().iter().filter(|one| one.id == ours.id).count(), 1);
    }
}

#[test]
fn somebody_elses_application_over_the_place_is_told_by_name() {
    let mut cloudflare = cloudflare();
    cloudflare.applications_mut().push(foreign("theirs", &["APP.example.com"]));
    let plan = run(&mut cloudflare, &[at(NAME, "", "staff")]);
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

/// Whoever made them opened them for every name.
#[test]
fn foreign_rules_for_more_names_keep_no_application() {
    let every = r#"{"path":"^/x","service":"http://theirs:80"}"#.to_owned();
    let wildcard = r#"{"hostname":"*.example.com","service":"http://theirs:80"}"#.to_owned();
    let mut cloudflare = FakeCloudflare::new(&[every, wildcard], &[]).with_access(cloudflare().policies);
    cloudflare.add("*.example.com", "CNAME", "elsewhere.test", "");
    for opened in [vec![at(NAME, "", OPEN)], vec![]] {
        run(&mut cloudflare, &[at(NAME, "", "staff")]);
        assert_eq!(names(&cloudflare), [NAME]);
        assert_eq!(labels(&run(&mut cloudflare, &opened)), [""; 0]);
        assert_eq!(names(&cloudflare), [""; 0]);
        assert_rest(&cloudflare, &opened);
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
    run(&mut cloudflare, &[ours.clone(), path.clone()]);
    let adjusted = cloudflare.adjusted(&[of("ingress/aaa/evil", "", OPEN), ours, path]);
    let said: Vec<_> = adjusted.iter().map(|endpoint| endpoint.property("webhook/access-policy")).collect();
    assert_eq!(said, [Some("staff"), Some("staff")]);
}

/// Its requests went to the wildcard's rule until then, which turns strangers away.
#[test]
fn a_record_below_a_protected_wildcard_gets_no_open_rule_in_silence() {
    let mut cloudflare = cloudflare();
    let record = |service| endpoint(NAME, &[("tunnel-service", service)]);
    let wildcard = endpoint(
        "*.example.com",
        &[
            ("tunnel-service", "http://web:80"),
            ("access-required", "true"),
            ("access-team-name", "my-team"),
            ("access-aud-tag", "x"),
        ],
    );
    run(&mut cloudflare, &[record("none"), wildcard.clone()]);
    assert_eq!(cloudflare.records.len(), 2);
    let plan = run(&mut cloudflare, &[record("http://web:80"), wildcard]);
    assert_eq!((labels(&plan), locked(&cloudflare).len()), (vec!["would_open"], 1));
}

/// Who asks for other tokens lets in nobody that has this application's.
#[test]
fn a_rule_that_asks_for_other_tokens_keeps_no_application() {
    let theirs = r#"{"hostname":"app.example.com","path":"^/x","service":"http://theirs:80","originRequest":{"access":{"required":true,"teamName":"my-team","audTag":["x"]}}}"#;
    let mut cloudflare = FakeCloudflare::new(&[theirs.to_owned()], &[]).with_access(cloudflare().policies);
    run(&mut cloudflare, &[at(NAME, "", "staff")]);
    assert_eq!(names(&cloudflare), [NAME]);
    run(&mut cloudflare, &[]);
    assert_eq!((names(&cloudflare), locked(&cloudflare)), (vec![], vec!["app.example.com^/x".to_owned()]));
}

/// Without it nobody would get such a token, and the name would be offline.
#[test]
fn a_foreign_rule_that_asks_for_the_tokens_of_a_wildcards_application_keeps_it() {
    let mut cloudflare = cloudflare();
    run(&mut cloudflare, &[at("*.example.com", "", "staff")]);
    let audience = cloudflare.applications()[0].audience.clone();
    let theirs = format!(
        r#"{{"hostname":"theirs.example.com","service":"http://theirs:80","originRequest":{{"access":{{"required":true,"teamName":"my-team","audTag":["{audience}"]}}}}}}"#
    );
    cloudflare.edit_rules(HOME, |rules| rules.insert(0, theirs));
    run(&mut cloudflare, &[]);
    assert_eq!(names(&cloudflare), ["*.example.com"]);
}

/// The limit holds back what opens, and nothing else of the request.
#[test]
fn beside_too_many_openings_a_new_name_is_published() {
    let mut cloudflare = cloudflare();
    cloudflare.mass_deletion_limit = 5;
    let all = |access: &str| (0..6).map(|number| at(&format!("h{number}.example.com"), "", access)).collect();
    let (closed, opened): (Vec<Endpoint>, Vec<Endpoint>) = (all("staff"), all(OPEN));
    run(&mut cloudflare, &closed);
    let plan = run(&mut cloudflare, &[opened, vec![at(NAME, "", "")]].concat());
    assert_eq!(labels(&plan), ["mass_opening"; 6]);
    let rules = cloudflare.document(&tunnel_id(HOME)).rules();
    assert!(rules.iter().any(|rule| rule.hostname() == NAME));
}

/// What is locked may be locked by an application that nobody sees now.
#[test]
fn nothing_is_opened_while_access_cannot_be_read() {
    let mut cloudflare = cloudflare();
    run(&mut cloudflare, &[at(NAME, "", "staff")]);
    cloudflare.access = AccessReading::Failed("it hangs".into());
    assert_eq!(labels(&run(&mut cloudflare, &[at(NAME, "", OPEN)])), ["access_unknown"]);
    assert_eq!(locked(&cloudflare), [NAME]);
}

#[test]
fn the_word_that_opens_a_path_is_refused_where_somebody_elses_application_protects_it() {
    let mut cloudflare = cloudflare();
    let theirs = foreign("theirs", &["app.example.com/p", "app.example.com/p/*"]);
    cloudflare
        .applications_mut()
        .push(Application { policies: Some(vec![attached("staff", Decision::Allow)]), ..theirs });
    assert_eq!(labels(&run(&mut cloudflare, &[at(NAME, "/p", OPEN)])), ["still_protected"]);
    assert_eq!(labels(&run(&mut cloudflare, &[at(NAME, "/q", OPEN)])), [""; 0]);
}

#[test]
fn the_word_that_opens_is_invalid_where_access_opt_out_is_false() {
    for opt_out in [true, false] {
        let mut cloudflare = cloudflare();
        run(&mut cloudflare, &[at(NAME, "", "staff")]);
        cloudflare.access_opt_out = opt_out;
        let plan = run(&mut cloudflare, &[at(NAME, "", OPEN)]);
        let (refused, left): (&[&str], &[&str]) = if opt_out { (&[], &[]) } else { (&["invalid"], &[NAME]) };
        assert_eq!(labels(&plan), refused);
        assert_eq!(locked(&cloudflare), left);
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
            let plan = run(&mut cloudflare, &desired);
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
