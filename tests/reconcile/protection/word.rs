//! What `none` opens, when, and what it is refused for.

use std::collections::BTreeSet;

use super::*;

/// An application stands over a silent path, name or record too, over one of others, or of another wish.
#[test]
fn what_protects_something_else_as_well_is_not_opened() {
    let (wildcard, hand) = ("*.example.com", "hand.example.com");
    let (closed, open) = (at(wildcard, "", "staff"), at(wildcard, "", OPEN));
    let rule = [r#"{"hostname":"hand.example.com","service":"http://theirs:80"}"#.to_owned()];
    let to_home = &*tunnel_id(HOME).hostname();
    let (led, elsewhere) = ([(hand, "CNAME", to_home)], [(hand, "CNAME", "somewhere.test")]);
    let policies = cloudflare().policies;
    let of_hostname = || vec![at(NAME, "", "staff"), at(NAME, "/p", "")];
    let below = |wildcard: &Endpoint, one: Endpoint| vec![wildcard.clone(), one];
    for (rules, records, standing, opened) in [
        (&[][..], &[][..], of_hostname(), vec![at(NAME, "", OPEN), at(NAME, "/p", "")]),
        (&[], &[], of_hostname(), vec![at(NAME, "", ""), at(NAME, "/p", OPEN)]),
        (&[], &[], below(&closed, at(NAME, "", "")), below(&open, at(NAME, "", ""))),
        (&[], &[], below(&closed, alone("")), below(&open, alone(""))),
        (&[], &[], below(&closed, at(NAME, "", "staff")), below(&closed, at(NAME, "", OPEN))),
        (&[], &elsewhere, vec![closed.clone()], vec![open.clone()]),
        (&rule, &[], vec![closed.clone()], vec![open.clone()]),
        (&rule, &led, vec![closed.clone()], vec![open.clone()]),
        // The endpoint of a hostname with a foreign record is refused, so its word opens nothing of the wildcard.
        (&rule, &led, vec![closed.clone()], below(&open, at(hand, "", OPEN))),
    ] {
        let mut cloudflare = FakeCloudflare::new(rules, records).with_access(policies.clone());
        settle(&mut cloudflare, &standing);
        let before = cloudflare.clone();
        let plan = settle(&mut cloudflare, &opened);
        let is_expected = |label: &&str| ["still_protected", "record_held"].contains(label);
        assert!(labels(&plan).contains(&"still_protected"), "{opened:?}: {plan:?}");
        assert!(labels(&plan).iter().all(is_expected), "{opened:?}: {plan:?}");
        assert!(!plan.refusals.is_empty() && cloudflare == before, "{opened:?}");
    }
}

/// Another rule serves the names that only the wildcard's application protects.
#[test]
fn the_refused_word_of_a_wildcard_opens_nothing_together_with_a_name_below_it() {
    let wildcard = |access| at("*.example.com", "", access);
    let rules = [r#"{"path":"^/docs","service":"http://theirs:80"}"#.to_owned()];
    let mut cloudflare = FakeCloudflare::new(&rules, &[]).with_access(cloudflare().policies);
    settle(&mut cloudflare, &[wildcard("staff"), at(NAME, "", "")]);
    cloudflare.edit_rules(HOME, |rules| rules.retain(|rule| !rule.contains("*.example.com")));
    cloudflare
        .records
        .iter_mut()
        .filter(|one| *one.name == *"*.example.com")
        .for_each(|one| one.comment = "".into());
    let plan = settle(&mut cloudflare, &[wildcard(OPEN), at(NAME, "", OPEN)]);
    assert_eq!(
        (labels(&plan), names(&cloudflare).len()),
        (vec!["record_held", "still_protected"], 1),
        "{plan:?}"
    );
}

/// While the old rule stood, its check was copied to the new one, and the hostname was closed for two loops.
#[test]
fn a_hostname_that_opens_and_moves_in_one_edit_stays_open_once_it_is() {
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[required(NAME)]);
    let opened = [in_tunnel(at(NAME, "", OPEN), "office")];
    for nth in 0..5 {
        run(&mut cloudflare, &opened);
        let visited = cloudflare.snapshot().visited_tunnel(NAME).expect("it is published");
        let document = cloudflare.document(&visited);
        let rule = document.rules().iter().find(|rule| rule.hostname() == NAME).expect("it is published");
        assert_eq!((visited == tunnel_id(OFFICE), rule.requires_access()), (nth > 0, nth == 0), "loop {nth}");
    }
    assert_rest(&cloudflare, &opened);
}

/// The new rule would ask for tokens of the application that goes, and refuse every visitor.
#[test]
fn a_new_silent_path_keeps_the_application_of_a_record_alone() {
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[at(NAME, "", "staff")]);
    settle(&mut cloudflare, &[alone("")]);
    let mut path = at(NAME, "/x", "");
    path.labels.set("resource", "ingress/shop/other");
    for _ in 0..4 {
        run(&mut cloudflare, &[alone(OPEN), path.clone()]);
        let is_gone = names(&cloudflare).is_empty();
        assert!(!is_gone || locked(&cloudflare).is_empty(), "{:?}", locked(&cloudflare));
    }
}

/// The record goes in the same request, so it needs no login any more.
#[test]
fn a_path_opens_although_the_record_alone_beside_it_goes() {
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[at(NAME, "", "staff"), at(NAME, "/api", "")]);
    settle(&mut cloudflare, &[alone(""), at(NAME, "/api", "")]);
    let opened = [at(NAME, "/api", OPEN)];
    settle(&mut cloudflare, &opened);
    assert_eq!((names(&cloudflare), locked(&cloudflare)), (vec![], vec![]));
    assert_rest(&cloudflare, &opened);
}

#[test]
fn what_protects_several_places_is_opened_once_each_of_them_says_so() {
    let wildcard = "*.example.com";
    for (standing, opened) in [
        ([at(NAME, "", "staff"), at(NAME, "/p", "")], [at(NAME, "", OPEN), at(NAME, "/p", OPEN)]),
        ([at(wildcard, "", "staff"), at(NAME, "", OPEN)], [at(wildcard, "", OPEN), at(NAME, "", OPEN)]),
        ([at(wildcard, "", "staff"), alone(OPEN)], [at(wildcard, "", OPEN), alone(OPEN)]),
    ] {
        let mut cloudflare = cloudflare();
        settle(&mut cloudflare, &standing);
        settle(&mut cloudflare, &opened);
        assert_eq!((names(&cloudflare), locked(&cloudflare)), (vec![], vec![]));
        assert_rest(&cloudflare, &opened);
    }
}

/// The wildcard's check is all that closes the place until then.
#[test]
fn a_wildcard_opens_once_each_place_below_it_that_asks_for_a_login_has_an_application() {
    let (wildcard, deep) = ("*.example.com", "deep.app.example.com");
    for closing in [at(NAME, "", "staff"), at(NAME, "/p", "staff"), at(deep, "", "staff")] {
        let mut cloudflare = cloudflare();
        settle(&mut cloudflare, &[at(wildcard, "", "staff")]);
        let desired = [at(wildcard, "", OPEN), closing];
        let first = run(&mut cloudflare, &desired);
        assert_eq!(labels(&first), ["still_protected", "waiting"]);
        assert_eq!(locked(&cloudflare), [wildcard]);
        settle(&mut cloudflare, &desired);
        assert_eq!((names(&cloudflare).len(), locked(&cloudflare).len()), (1, 1), "{desired:?}");
        assert_rest(&cloudflare, &desired);
    }
}

/// A path asks for the login that its whole hostname gives up, of the same object and of another one.
#[test]
fn a_hostname_opens_once_each_path_of_it_that_asks_for_a_login_has_an_application() {
    for resource in ["ingress/shop/web", "ingress/shop/other"] {
        let of = |mut endpoint: Endpoint, resource: &str| {
            endpoint.labels.set("resource", resource);
            endpoint
        };
        let whole = |access| of(at(NAME, "", access), "ingress/shop/web");
        let mut cloudflare = cloudflare();
        settle(&mut cloudflare, &[whole("staff")]);
        let desired = [whole(OPEN), of(at(NAME, "/admin", "staff"), resource)];
        let first = run(&mut cloudflare, &desired);
        assert_eq!(labels(&first), ["still_protected", "waiting"]);
        assert_eq!(locked(&cloudflare), [NAME]);
        settle(&mut cloudflare, &desired);
        assert_eq!(names(&cloudflare), [format!("{NAME}/admin")]);
        assert_rest(&cloudflare, &desired);
    }
}

/// A mistake hides what its endpoint asks for, and for which path. So it counts where it names no policy, too.
#[test]
fn nothing_opens_beside_a_place_that_asks_for_a_login_which_it_cannot_get() {
    let wildcard = "*.example.com";
    let refused = [
        at(NAME, "", "unknown"),
        at(NAME, "", "public"),
        with(at(NAME, "", "staff"), "webhook/tunnel-path", "^/x"),
        with(at(NAME, "/p", ""), "webhook/origin-no-tls-verify", "maybe"),
    ];
    for closing in refused {
        let mut cloudflare = cloudflare();
        settle(&mut cloudflare, &[at(wildcard, "", "staff")]);
        let before = cloudflare.clone();
        let plan = run(&mut cloudflare, &[at(wildcard, "", OPEN), closing.clone()]);
        let of_wildcard = plan.refusals.iter().find(|refusal| *refusal.hostname == *wildcard);
        let reason = &of_wildcard.expect("it is refused").reason;
        assert_eq!((reason.label_value(), reason.fails_request()), ("still_protected", false), "{closing:?}");
        assert!(reason.to_string().contains(NAME) && cloudflare == before, "{reason}");
    }
}

/// The rule of the whole hostname asks for a login by annotations of its own, and goes with the word.
#[test]
fn the_rule_that_opens_closes_no_mistake_on_its_hostname() {
    let own = [("access-required", "true"), ("access-team-name", "my-team"), ("access-aud-tag", "own")];
    let asking = own
        .iter()
        .fold(at(NAME, "", ""), |endpoint, (name, value)| with(endpoint, &format!("webhook/{name}"), value));
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[asking]);
    let closed = locked(&cloudflare);
    let mut mistake = served_by(at(NAME, "/p", OPEN), "none");
    mistake.labels.set("resource", "ingress/shop/other");
    run(&mut cloudflare, &[at(NAME, "", OPEN), mistake]);
    assert_eq!((closed.len(), locked(&cloudflare)), (1, closed));
}

/// No tenant, and no name of others, holds up what an object opens.
#[test]
fn what_cannot_be_published_here_keeps_nothing_closed() {
    let wildcard = "*.example.com";
    let of = |mut endpoint: Endpoint, resource: &str| {
        endpoint.labels.set("resource", resource);
        served_by(endpoint, "http://web.shop.svc:80")
    };
    let ours = |access| of(at(wildcard, "", access), "ingress/shop/web");
    let held_name = || of(at("held.example.com", "", "unknown"), "ingress/shop/a");
    for (label, is_guarded, adopting, closing) in [
        ("an object of another namespace", true, &[][..], of(at(NAME, "", "unknown"), "ingress/bank/web")),
        ("a name with a foreign record", false, &[], held_name()),
        ("a name with a foreign record, which ADOPT does not take over", false, &["access"], held_name()),
        ("a name outside all zones", false, &[], of(at("a.example.test", "", "unknown"), "ingress/shop/a")),
    ] {
        let records = [("held.example.com", "CNAME", "somewhere.test")];
        let held = if is_guarded { &[][..] } else { &records[..] };
        let mut cloudflare =
            FakeCloudflare::new(&[], &[]).with_access(cloudflare().policies).adopting(adopting);
        cloudflare.namespace_guard = is_guarded;
        cloudflare.access_policies = is_guarded.then(|| vec!["staff".into()]);
        settle(&mut cloudflare, &[ours("staff")]);
        for (name, kind, content) in held {
            // Visitors of this name are not led to the wildcard's rule.
            cloudflare.add(name, kind, content, "");
            cloudflare.applications_mut().push(foreign("theirs", &[*name]));
        }
        let desired = [ours(OPEN), closing];
        settle(&mut cloudflare, &desired);
        assert_eq!(locked(&cloudflare), [""; 0], "{label}");
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
    let bypass = Some(vec![attached("public", PolicyDecision::Bypass)]);
    cloudflare.applications_mut().push(Application { policies: bypass, ..hook });
    let desired = [at(NAME, "", "staff"), at(NAME, "/hook", OPEN)];
    assert_eq!(labels(&settle(&mut cloudflare, &desired)), [""; 0]);
    assert_eq!(locked(&cloudflare), [NAME]);
    assert_rest(&cloudflare, &desired);
}

/// The stamp of rules of several objects names none.
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

/// It was edited by hand to let visitors past, or to stand elsewhere. `records` would show it without end.
#[test]
fn the_word_takes_an_application_of_its_place_that_asks_no_visitor_for_a_login() {
    let let_past =
        |one: &mut Application| one.policies = Some(vec![attached("public", PolicyDecision::Bypass)]);
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
    assert_eq!(cloudflare.snapshot().visited_tunnel(NAME), Some(tunnel_id(HOME)));
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

/// Its endpoint says so, and would say it for ever.
#[test]
fn with_a_default_policy_a_record_alone_that_stands_open_shows_the_word_that_opens() {
    let mut cloudflare = cloudflare();
    cloudflare.default_access_policy = vec!["staff".into()];
    settle(&mut cloudflare, &[alone(OPEN)]);
    assert_eq!(cloudflare.records.len(), 1);
    assert_rest(&cloudflare, &[alone(OPEN)]);
}

/// A path of a wildcard has visitors of a path of a name below it, and so has a wildcard those of a path of a deeper
/// one. An application of others, which lets visitors past, keeps the place from having its own.
#[test]
fn no_path_opens_before_the_same_path_of_a_name_below_and_never_while_that_cannot_be_closed() {
    let of_other = |mut endpoint: Endpoint| {
        endpoint.labels.set("resource", "ingress/shop/other");
        endpoint
    };
    type Wide = fn(&str) -> Endpoint;
    let pairs: [(Wide, Endpoint); 2] = [
        (|access| at("*.example.com", "/admin", access), of_other(at(NAME, "/admin", "staff"))),
        (|access| at("*.example.com", "", access), of_other(at("*.w.example.com", "/admin", "staff"))),
    ];
    for ((wide, narrow), is_held) in
        pairs.iter().flat_map(|pair| [false, true].map(|is_held| (pair, is_held)))
    {
        let mut cloudflare = cloudflare();
        settle(&mut cloudflare, &[wide("staff")]);
        let closed = locked(&cloudflare);
        let held = format!("{}/admin", narrow.dns_name);
        if is_held {
            let policies = Some(vec![attached("public", PolicyDecision::Bypass)]);
            let theirs = Application { policies, ..foreign("theirs", &[&*held]) };
            cloudflare.applications_mut().push(theirs);
        }
        let opened = [wide(OPEN), narrow.clone()];
        let plan = run(&mut cloudflare, &opened);
        let of_wide = plan.refusals.iter().find(|one| *one.hostname == *wide("").dns_name).expect("it waits");
        assert_eq!(
            (of_wide.reason.label_value(), locked(&cloudflare)),
            ("still_protected", closed),
            "{held}"
        );
        assert_eq!(plan.refusals.iter().any(|one| one.reason.fails_request()), !is_held, "{held}: {plan:?}");
        assert!(of_wide.to_string().contains(&*narrow.dns_name), "{of_wide}");
        cloudflare.applications_mut().retain(|one| *one.name != *"theirs");
        settle(&mut cloudflare, &opened);
        assert_eq!((names(&cloudflare), locked(&cloudflare).len()), (vec![&*held], 1));
        assert_rest(&cloudflare, &opened);
    }
}

/// The application is the only one that issues the tokens for the other hostname's rule, so it stays, and no loop
/// waits.
#[test]
fn an_application_whose_tokens_another_hostname_asks_for_is_not_deleted_and_fails_no_request() {
    let other = |audience: &str| {
        let mut other = required("other.example.com");
        other.provider_specific.retain(|property| *property.name != *"webhook/access-aud-tag");
        with(other, "webhook/access-aud-tag", audience)
    };
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[at(NAME, "", "staff")]);
    let audience = cloudflare.applications()[0].audience.clone();
    settle(&mut cloudflare, &[at(NAME, "", "staff"), other(&audience)]);
    for _ in 0..2 {
        let plan = settle(&mut cloudflare, &[at(NAME, "", OPEN), other(&audience)]);
        assert_eq!((labels(&plan), plan.hosts.len()), (vec!["still_protected"], 0));
        assert!(plan.refusals[0].to_string().contains("other.example.com"), "{}", plan.refusals[0]);
        assert_eq!(names(&cloudflare), [NAME]);
    }
    let opened = [at(NAME, "", OPEN), other("theirs")];
    settle(&mut cloudflare, &opened);
    assert_eq!(names(&cloudflare), [""; 0]);
    assert_rest(&cloudflare, &opened);
}

/// Another path of the second object has a foreign rule, so that object keeps its rule, which asks for the tokens.
#[test]
fn an_opening_that_waits_for_the_rule_of_a_refused_endpoint_fails_no_request() {
    let of = |mut endpoint: Endpoint, object: &str| {
        endpoint.labels.set("resource", &format!("ingress/shop/{object}"));
        endpoint
    };
    // It has a login of its own.
    let theirs = r#"{"hostname":"app.example.com","path":"^/x(/|$)","service":"http://theirs:80","originRequest":{"access":{"required":true,"teamName":"my-team","audTag":["x"]}}}"#;
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[of(at(NAME, "", "staff"), "a"), of(at(NAME, "/api", ""), "b")]);
    cloudflare.edit_rules(HOME, |rules| rules.insert(0, theirs.to_owned()));
    let held = of(at(NAME, "/x", OPEN), "b");
    let desired = [of(at(NAME, "", OPEN), "a"), of(at(NAME, "/api", OPEN), "b"), held];
    let plan = settle(&mut cloudflare, &desired);
    assert_eq!(labels(&plan), ["still_protected", "beside_refused", "rule_held"]);
    assert_eq!(names(&cloudflare), [NAME]);
    settle(&mut cloudflare, &desired[..2]);
    assert_eq!(names(&cloudflare), [""; 0]);
}

/// docs/access.md (3): a warning names the hostname that opens.
#[test]
fn a_hostname_that_opens_as_a_record_alone_is_told_of() {
    let theirs = [r#"{"hostname":"*.example.com","service":"http://theirs:80"}"#.to_owned()];
    let mut cloudflare = FakeCloudflare::new(&theirs, &[]).with_access(cloudflare().policies);
    settle(&mut cloudflare, &[required(NAME)]);
    assert_eq!(locked(&cloudflare), [NAME]);
    let mut told = BTreeSet::new();
    for _ in 0..4 {
        let plan = run(&mut cloudflare, &[alone(OPEN)]);
        told.extend(plan.notes.into_iter().filter(|note| note.text.contains("removes the login")));
    }
    assert_eq!(locked(&cloudflare), [""; 0], "it is open now");
    assert_eq!(told.len(), 1, "the log has it once: {told:?}");
}

/// Invariant 9: the object says nothing of Access any more, and its `none` was said for a tunnel to which the
/// record never led.
#[test]
fn a_record_alone_that_was_to_move_opens_nothing_by_silence() {
    let theirs = [r#"{"hostname":"*.example.com","service":"http://theirs:80"}"#.to_owned()];
    let mut cloudflare = FakeCloudflare::new(&theirs, &[]).with_access(cloudflare().policies);
    settle(&mut cloudflare, &[required(NAME)]);
    cloudflare.unready.insert(tunnel_id(OFFICE), "no connector".to_owned());
    for word in [OPEN, ""] {
        run(&mut cloudflare, &[in_tunnel(alone(word), "office")]);
        assert_eq!(locked(&cloudflare), [NAME], "{word:?}");
    }
    let plan = run(&mut cloudflare, &[alone("")]);
    assert_eq!(locked(&cloudflare), [NAME], "{plan:?}");
}
