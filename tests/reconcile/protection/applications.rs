//! Which applications are made, counted, used again and deleted.

use super::*;

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

#[test]
fn the_comment_says_that_something_is_protected_until_its_application_has_gone() {
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[at(NAME, "", "staff")]);
    assert!(comments(&cloudflare)[0].contains(" rules=!"), "{:?}", comments(&cloudflare));
    settle(&mut cloudflare, &[at(NAME, "", OPEN)]);
    assert!(!comments(&cloudflare)[0].contains('!'), "{:?}", comments(&cloudflare));
}

/// A hand changed one of them. The words are those that ask for it, so ExternalDNS asks because of the drift alone.
#[test]
fn what_protects_a_place_otherwise_than_it_was_made_is_shown_as_drift() {
    type Edit = fn(&mut FakeCloudflare);
    let edits: [(&str, Edit); 5] = [
        ("nothing", |_| {}),
        ("the duration", |all| all.applications_mut()[0].session_duration = Some("1.5h".into())),
        ("lets past", |all| {
            all.applications_mut()[0].policies = Some(vec![attached("staff", Decision::Bypass)]);
        }),
        ("the destinations", |all| all.applications_mut()[0].destinations.clear()),
        ("the rule's check", |all| {
            let audience = all.applications()[0].audience.clone();
            all.edit_rules(HOME, |rules| rules[0] = rules[0].replace(&*audience, "another"));
        }),
    ];
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[at(NAME, "", "staff")]);
    for (label, edit) in edits {
        let mut edited = cloudflare.clone();
        edit(&mut edited);
        let shown = &edited.shown()[0];
        assert_eq!(shown.property("webhook/access-policy"), Some("staff"), "{label}");
        let drift = (label != "nothing").then_some("access");
        assert_eq!(shown.property("webhook/drift"), drift, "{label}");
    }
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
