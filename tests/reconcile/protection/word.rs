//! What `none` opens, when, and what it is refused for.

use super::*;

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
