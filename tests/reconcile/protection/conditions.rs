//! The conditions of the gate and of what answers for a place, each alone.

use external_dns_cloudflare_tunnel_webhook::reconcile::access::answering::removable;

use super::*;

#[test]
fn a_name_with_an_application_of_its_own_below_a_closed_wildcard_is_not_half_opened() {
    let mut cloudflare = cloudflare();
    let wildcard = at("*.example.com", "", "staff");
    settle(&mut cloudflare, &[wildcard.clone(), at(NAME, "", "staff")]);
    let before = cloudflare.clone();
    let plan = settle(&mut cloudflare, &[wildcard, at(NAME, "", OPEN)]);
    assert_eq!((labels(&plan), &cloudflare), (vec!["still_protected"], &before));
}

/// The first of the two has gone, and visitors meet the second.
#[test]
fn the_word_is_unfinished_until_the_last_application_over_its_place_goes() {
    let mut cloudflare = cloudflare();
    let (wildcard, name) = ("*.example.com", NAME);
    settle(&mut cloudflare, &[at(wildcard, "", "staff"), at(name, "", "staff")]);
    let opened = [at(wildcard, "", OPEN), at(name, "", OPEN)];
    run(&mut cloudflare, &opened);
    let second = run(&mut cloudflare, &opened);
    assert!(labels(&second).contains(&"waiting"), "{:?}", second.refusals);
    settle(&mut cloudflare, &opened);
    assert_eq!((names(&cloudflare), locked(&cloudflare)), (vec![], vec![]));
}

/// Only the comment tells of the first, and only the rule of the second.
#[test]
fn while_access_cannot_be_read_the_word_opens_neither_what_is_marked_nor_what_is_checked() {
    let mut marked = cloudflare();
    settle(&mut marked, &[at(NAME, "", "staff")]);
    marked.edit_rules(HOME, Vec::clear);
    let mut checked = cloudflare();
    settle(&mut checked, &[required(NAME)]);
    for (mut cloudflare, label) in [(marked, "waiting"), (checked, "access_unknown")] {
        cloudflare.access = AccessReading::Failed("it hangs".into());
        let before = cloudflare.documents.clone();
        let plan = run(&mut cloudflare, &[at(NAME, "", OPEN)]);
        assert_eq!((labels(&plan), &cloudflare.documents), (vec![label], &before));
    }
}

#[test]
fn the_word_is_told_as_opening_where_a_check_goes_and_not_where_nothing_was_closed() {
    let mut cloudflare = cloudflare();
    let plan = run(&mut cloudflare, &[at(NAME, "", OPEN)]);
    assert!(plan.notes.is_empty(), "{:?}", plan.notes);
    let mut cloudflare = self::cloudflare();
    settle(&mut cloudflare, &[required(NAME)]);
    let plan = run(&mut cloudflare, &[at(NAME, "", OPEN)]);
    assert!(plan.notes[0].to_string().contains("none opens it"), "{:?}", plan.notes);
    assert_eq!((labels(&plan), locked(&cloudflare)), (vec![], vec![]));
}

#[test]
fn an_endpoint_that_requires_no_login_does_not_open_what_an_application_protects() {
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[at(NAME, "", "staff")]);
    let before = cloudflare.clone();
    let open =
        [("tunnel-service", "http://web:80"), ("access-required", "false"), ("access-team-name", "my-team")];
    let open = endpoint(NAME, &open);
    assert_eq!((labels(&run(&mut cloudflare, &[open])), &cloudflare), (vec!["would_open"], &before));
}

/// Visitors bring a token of the application that is over the name, which is the wildcard's.
#[test]
fn a_check_of_an_endpoints_own_accepts_the_application_over_its_place_besides() {
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[at("*.example.com", "", "staff"), required(NAME)]);
    let audience = &*cloudflare.applications()[0].audience;
    let audiences = required_audiences(&cloudflare, HOME);
    let both = audiences.iter().any(|one| one.contains("theirs") && one.contains(audience));
    assert!(both, "{audiences:?}");
}

/// The rule of the wildcard tells what visitors of the name meet.
#[test]
fn a_silent_endpoint_below_a_marked_wildcard_requires_its_tokens_while_access_cannot_be_read() {
    let mut cloudflare = cloudflare();
    let wildcard = at("*.example.com", "", "staff");
    settle(&mut cloudflare, std::slice::from_ref(&wildcard));
    cloudflare.access = AccessReading::Failed("it hangs".into());
    let plan = run(&mut cloudflare, &[wildcard, at(NAME, "", "")]);
    assert!(!labels(&plan).contains(&"waiting"), "{:?}", plan.refusals);
    assert!(locked(&cloudflare).contains(&NAME.to_owned()));
}

#[test]
fn an_application_in_front_of_a_record_alone_is_told_if_it_was_made_for_a_path() {
    for (prefix, is_told) in [("", false), ("/p", true)] {
        let mut cloudflare = cloudflare();
        settle(&mut cloudflare, &[at(NAME, prefix, "staff")]);
        settle(&mut cloudflare, &[alone("")]);
        assert_eq!(cloudflare.applications().len(), 1, "{prefix}");
        assert_eq!(notes(&cloudflare).join("").contains("stays, because"), is_told, "{prefix}");
    }
}

#[test]
fn a_record_alone_is_published_below_the_application_of_a_wildcard() {
    let mut cloudflare = cloudflare();
    let desired = [at("*.example.com", "", "staff"), alone("")];
    settle(&mut cloudflare, &desired[..1]);
    assert_eq!(labels(&settle(&mut cloudflare, &desired)), [""; 0]);
    assert_rest(&cloudflare, &desired);
}

/// Its record is gone, so it is no rule of ours any more, and no visitor is led there.
#[test]
fn a_silent_endpoint_requires_what_a_rule_at_its_place_in_another_tunnel_requires() {
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[required(NAME)]);
    cloudflare.records.clear();
    settle(&mut cloudflare, &[in_tunnel(at(NAME, "", ""), "office")]);
    assert_eq!(required_audiences(&cloudflare, OFFICE), ["theirs"]);
}

/// The tunnel was made anew, or its document emptied.
#[test]
fn an_application_stays_while_a_comment_claims_its_rule() {
    for prefix in ["", "/p"] {
        let mut cloudflare = cloudflare();
        settle(&mut cloudflare, &[at(NAME, prefix, "staff")]);
        cloudflare.edit_rules(HOME, Vec::clear);
        cloudflare.sweep();
        assert_eq!(cloudflare.applications().len(), 1, "{prefix}");
    }
}

/// The name is too deep for the wildcard of Access, but its rule asks for those tokens.
#[test]
fn an_application_stays_while_a_rule_elsewhere_asks_for_its_tokens() {
    let mut cloudflare = cloudflare();
    let deep = at("deep.app.example.com", "", "");
    let wildcard = at("*.example.com", "", "staff");
    settle(&mut cloudflare, std::slice::from_ref(&wildcard));
    settle(&mut cloudflare, &[wildcard, deep.clone()]);
    settle(&mut cloudflare, &[deep]);
    assert_eq!(names(&cloudflare), ["*.example.com"]);
}

/// A rule without a hostname, and one whose name has no record of its own.
#[test]
fn an_application_stays_in_front_of_a_foreign_rule_that_answers_its_visitors() {
    let to_home = &*tunnel_id(HOME).hostname();
    let policies = cloudflare().policies;
    let mut cloudflare =
        FakeCloudflare::new(&[], &[("*.example.com", "CNAME", to_home)]).with_access(policies.clone());
    settle(&mut cloudflare, &[at(NAME, "", "staff")]);
    cloudflare.edit_rules(HOME, |rules| rules.insert(1, r#"{"service":"http://theirs:80"}"#.to_owned()));
    settle(&mut cloudflare, &[]);
    assert_eq!(names(&cloudflare), [NAME]);

    let rule = r#"{"hostname":"hand.example.com","service":"http://theirs:80"}"#.to_owned();
    let mut cloudflare = FakeCloudflare::new(&[rule], &[]).with_access(policies);
    settle(&mut cloudflare, &[at("*.example.com", "", "staff")]);
    let before = cloudflare.clone();
    let plan = settle(&mut cloudflare, &[at("*.example.com", "", OPEN)]);
    assert_eq!((labels(&plan), &cloudflare), (vec!["still_protected"], &before));
}

/// Cloudflare's list may show it later, and a second one would be made.
#[test]
fn an_application_that_was_asked_for_a_moment_ago_is_not_made_again_and_others_are() {
    let mut cloudflare = cloudflare();
    let AccessReading::Read(access) = &mut cloudflare.access else { unreachable!() };
    access.pending.push(NAME.into());
    let plan = run(&mut cloudflare, &[at(NAME, "", "staff"), at("b.example.com", "", "staff")]);
    assert_eq!((labels(&plan), names(&cloudflare)), (vec!["waiting"; 2], vec!["b.example.com"]));
}

/// It may be of this minute, stand before a zone that another instance serves, or before names outside the filter.
#[test]
fn an_application_of_which_not_everything_is_known_stays() {
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[at(NAME, "", "staff"), at("*.example.com", "", "staff")]);
    cloudflare.edit_rules(HOME, Vec::clear);
    cloudflare.records.clear();
    let mut all = cloudflare.clone();
    all.sweep();
    assert_eq!(names(&all), [""; 0]);
    let mut undated = cloudflare.clone();
    undated.applications_mut().iter_mut().for_each(|one| one.created_unix_seconds = None);
    undated.sweep();
    assert_eq!(names(&undated).len(), 2);
    let mut filtered = cloudflare.clone();
    filtered.served = NAME;
    filtered.sweep();
    assert_eq!(names(&filtered), ["*.example.com"]);
    let mut snapshot = cloudflare.snapshot();
    snapshot.date_unix_seconds = Some(i64::from(u32::MAX));
    snapshot.zones_elsewhere.push("a.example.com".into());
    let left = removable(&snapshot, &cloudflare.settings());
    let left: Vec<&str> = left.iter().map(|one| one.place.hostname()).collect();
    assert_eq!(left, [NAME]);
    let mut elsewhere = cloudflare;
    elsewhere.applications_mut()[0].name = "app.other.test (ExternalDNS default)".into();
    elsewhere.sweep();
    assert_eq!(names(&elsewhere), ["app.other.test"]);
}

#[test]
fn what_stands_open_beside_something_closed_changes_and_stays_open() {
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[required("a.example.com"), at(NAME, "", "")]);
    let changed = |name: &str| endpoint(name, &[("tunnel-service", "http://new:80")]);
    settle(&mut cloudflare, &[required("a.example.com"), changed(NAME)]);
    assert_eq!(locked(&cloudflare), ["a.example.com"]);
    cloudflare.access = AccessReading::Failed("it hangs".into());
    let path = at(NAME, "/p", "");
    let plan = run(&mut cloudflare, &[required("a.example.com"), changed(NAME), path]);
    assert_eq!((labels(&plan), locked(&cloudflare)), (vec![], vec!["a.example.com".to_owned()]));
}

/// No application tells of it.
#[test]
fn a_silent_path_below_a_checked_place_requires_its_tokens_and_one_that_was_opened_stays_open() {
    let path = |service: &str, access: &str| {
        let mut endpoint = at(NAME, "", access);
        endpoint.provider_specific.retain(|property| *property.name != *"webhook/tunnel-service");
        endpoint.provider_specific.push(Property::new("webhook/tunnel-service", service));
        endpoint.provider_specific.push(Property::new("webhook/tunnel-path", "v1"));
        endpoint
    };
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[required(NAME)]);
    let closed = cloudflare.clone();
    settle(&mut cloudflare, &[required(NAME), path("http://web:80", "")]);
    assert_eq!(locked(&cloudflare).len(), 2);

    let mut cloudflare = closed;
    settle(&mut cloudflare, &[required(NAME), path("http://web:80", OPEN)]);
    settle(&mut cloudflare, &[required(NAME), path("http://new:80", "")]);
    assert_eq!(locked(&cloudflare), [NAME]);

    let mut cloudflare = self::cloudflare();
    let mut below = required(NAME);
    below.provider_specific.push(Property::new("webhook/tunnel-path-prefix", "/p"));
    settle(&mut cloudflare, std::slice::from_ref(&below));
    settle(&mut cloudflare, &[below, at(NAME, "/p/q", "")]);
    assert_eq!(locked(&cloudflare).len(), 2);
}

/// The policy became one that lets visitors past.
#[test]
fn a_rule_behind_an_application_that_came_to_let_visitors_past_is_not_changed_and_that_is_told() {
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[at(NAME, "", "staff")]);
    cloudflare.applications_mut()[0].policies = Some(vec![attached("staff", Decision::Bypass)]);
    let before = cloudflare.documents.clone();
    let changed = endpoint(NAME, &[("tunnel-service", "http://new:80"), ("access-policy", "staff")]);
    let plan = run(&mut cloudflare, &[changed]);
    assert_eq!((labels(&plan), &cloudflare.documents), (vec!["access_policy"], &before));
    assert!(plan.refusals[0].to_string().contains("came to let visitors past"), "{}", plan.refusals[0]);
}

/// No rule and no record is left that tells of it.
#[test]
fn a_silent_endpoint_is_closed_by_an_application_over_it_that_asks_for_a_login_alone() {
    let beside = |kind| Application { kind, ..foreign("beside", &[NAME]) };
    for (label, kind, decision, beside, is_closed) in [
        ("as it was made", ApplicationKind::SelfHosted, Decision::Allow, None, true),
        ("of another kind", ApplicationKind::Rendered, Decision::Allow, None, false),
        ("lets past", ApplicationKind::SelfHosted, Decision::Bypass, None, false),
        (
            "beside an unrelated one",
            ApplicationKind::SelfHosted,
            Decision::Allow,
            Some(beside(ApplicationKind::Unrelated)),
            true,
        ),
        (
            "behind one of another owner",
            ApplicationKind::SelfHosted,
            Decision::Allow,
            Some(beside(ApplicationKind::SelfHosted)),
            false,
        ),
    ] {
        let mut cloudflare = cloudflare();
        settle(&mut cloudflare, &[at("*.example.com", "", "staff")]);
        cloudflare.edit_rules(HOME, Vec::clear);
        cloudflare.records.clear();
        let application = &mut cloudflare.applications_mut()[0];
        application.kind = kind;
        application.policies = Some(vec![attached("staff", decision)]);
        cloudflare.applications_mut().extend(beside);
        run(&mut cloudflare, &[at(NAME, "", "")]);
        assert_eq!(cloudflare.records.len(), 1, "{label}");
        assert_eq!(locked(&cloudflare).len(), usize::from(is_closed), "{label}");
    }
}
