//! Which applications are made, counted, used again and deleted.

use external_dns_cloudflare_tunnel_webhook::model::{Hostname, Zone};
use external_dns_cloudflare_tunnel_webhook::reconcile::access::gate::{
    ApplicationOperation, ApplicationWrite,
};
use external_dns_cloudflare_tunnel_webhook::reconcile::access::place::Place;
use external_dns_cloudflare_tunnel_webhook::reconcile::access::reading::AccessReadError;
use external_dns_cloudflare_tunnel_webhook::reconcile::access::unneeded::removable;
use external_dns_cloudflare_tunnel_webhook::reconcile::listing;
use external_dns_cloudflare_tunnel_webhook::reconcile::plan::{pieces, plan};
use external_dns_cloudflare_tunnel_webhook::reconcile::plan_inputs::PlanInputs;
use external_dns_cloudflare_tunnel_webhook::reconcile::reason::Reason;
use external_dns_cloudflare_tunnel_webhook::reconcile::snapshot::Snapshot;

use test_support::fake_cloudflare::WHOLE;

use super::*;

/// A visitor between two requests meets the application, or what was there before.
#[test]
fn the_application_comes_before_its_rule_and_the_word_that_opens_takes_it_after_the_rules_check() {
    let mut cloudflare = cloudflare();
    let desired = [at(NAME, "", "staff")];
    let first = run(&mut cloudflare, &desired);
    assert_eq!((labels(&first), names(&cloudflare)), (vec!["waiting"], vec![NAME]));
    assert!(first.refusals[0].reason.fails_request() && first.hosts.is_empty());
    cloudflare.sweep();
    assert_eq!(names(&cloudflare), [NAME], "it was just made");
    let second = run(&mut cloudflare, &desired);
    assert_eq!((labels(&second), locked(&cloudflare)), (vec![], vec![NAME.to_owned()]));
    assert!(cloudflare.records[0].comment.contains(" rules=!"), "{:?}", cloudflare.records);
    assert_rest(&cloudflare, &desired);

    let opened = [at(NAME, "", OPEN)];
    let first = run(&mut cloudflare, &opened);
    assert_eq!((labels(&first), names(&cloudflare)), (vec!["waiting"], vec![NAME]));
    assert_eq!(locked(&cloudflare), [""; 0]);
    assert!(first.notes[0].text.contains("removes the login"), "{:?}", first.notes);
    let second = run(&mut cloudflare, &opened);
    assert_eq!(second.notes, first.notes, "the log has it once");
    assert_eq!((labels(&second), names(&cloudflare)), (vec![], vec![]));
    settle(&mut cloudflare, &opened);
    assert!(!cloudflare.records[0].comment.contains('!'), "{:?}", cloudflare.records);
    // What stands open stays so without the word.
    assert_rest(&cloudflare, &opened);
    assert_rest(&cloudflare, &[at(NAME, "", "")]);
}

/// Without the application, a rule that was made by hand would refuse every visitor.
#[test]
fn the_application_of_a_withdrawn_hostname_stays_while_a_foreign_rule_asks_for_its_tokens() {
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[at(NAME, "", "staff")]);
    let audience = cloudflare.applications()[0].audience.clone();
    let theirs = format!(
        r#"{{"hostname":"theirs.example.com","service":"http://theirs:80","originRequest":{{"access":{{"required":true,"teamName":"my-team","audTag":["{audience}"]}}}}}}"#
    );
    cloudflare.edit_rules(HOME, |rules| rules.insert(0, theirs.clone()));
    let mut opened = cloudflare.clone();
    for _ in 0..2 {
        let plan = run(&mut opened, &[at(NAME, "", OPEN)]);
        assert_eq!((labels(&plan), names(&opened)), (vec!["still_protected"], vec![NAME]));
    }
    settle(&mut cloudflare, &[]);
    assert_eq!(names(&cloudflare), [NAME]);
    cloudflare.edit_rules(HOME, |rules| rules.retain(|rule| *rule != theirs));
    settle(&mut cloudflare, &[]);
    assert_eq!(names(&cloudflare), [""; 0]);
}

/// The wildcard leads to the same backend. A record alone is published for the whole hostname.
#[test]
fn the_application_of_a_withdrawn_place_stays_in_front_of_what_answers_there_now() {
    let wildcard = || at("*.example.com", "", "");
    for (standing, desired, is_told) in [
        (vec![wildcard(), at(NAME, "", "staff")], vec![wildcard()], true),
        (vec![wildcard(), at(NAME, "", "staff")], vec![wildcard(), at(NAME, "/p", "staff")], true),
        (vec![at(NAME, "/p", "staff")], vec![alone("")], true),
        (vec![at(NAME, "", "staff")], vec![alone("")], false),
    ] {
        let mut cloudflare = cloudflare();
        settle(&mut cloudflare, &standing);
        settle(&mut cloudflare, &desired);
        assert!(names(&cloudflare)[0].starts_with(NAME), "{:?}", names(&cloudflare));
        assert_eq!(notes(&cloudflare).join("").contains("stays, because"), is_told, "{desired:?}");
        assert_rest(&cloudflare, &desired);
        settle(&mut cloudflare, &[]);
        assert_eq!(names(&cloudflare), [""; 0]);
    }
}

/// A foreign application that lets visitors past is no login.
#[test]
fn the_application_of_a_withdrawn_path_stays_in_front_of_an_open_rule_under_a_foreign_bypass() {
    for (decision, is_kept) in
        [(None, true), (Some(PolicyDecision::Bypass), true), (Some(PolicyDecision::Allow), false)]
    {
        let mut cloudflare = cloudflare();
        cloudflare.applications_mut().extend(decision.map(|decision| Application {
            policies: Some(vec![attached("theirs", decision)]),
            ..foreign("theirs", &[NAME])
        }));
        let whole = at(NAME, "", "");
        settle(&mut cloudflare, &[whole.clone(), at(NAME, "/p", "staff")]);
        settle(&mut cloudflare, std::slice::from_ref(&whole));
        assert_eq!(names(&cloudflare).contains(&"app.example.com/p"), is_kept, "{decision:?}");
    }
}

/// No application of a wildcard asks visitors of a name more than one label below it.
#[test]
fn the_application_of_a_withdrawn_deep_name_stays_while_only_the_check_of_a_wildcard_hides_what_is_open() {
    let (wide, deep) = (at("*.example.com", "", ""), "a.b.app.example.com");
    let wildcard = || at("*.app.example.com", "", "staff");
    for foreign in [&[][..], &[r#"{"hostname":"*.example.com","service":"http://theirs:80"}"#.to_owned()]] {
        let to_home = &*tunnel_id(HOME).hostname();
        let records = [("*.example.com", "CNAME", to_home)];
        let held = if foreign.is_empty() { &[][..] } else { &records[..] };
        let mut cloudflare = FakeCloudflare::new(foreign, held).with_access(cloudflare().policies);
        let wide: Vec<Endpoint> = [wide.clone()].into_iter().filter(|_| foreign.is_empty()).collect();
        settle(&mut cloudflare, &[&wide[..], &[wildcard(), at(deep, "", "staff")]].concat());
        settle(&mut cloudflare, &[&wide[..], &[wildcard()]].concat());
        assert!(names(&cloudflare).contains(&deep), "{:?}", names(&cloudflare));
        settle(&mut cloudflare, &wide);
        assert!(names(&cloudflare).contains(&deep), "{:?}", names(&cloudflare));
        assert_rest(&cloudflare, &wide);
    }
}

/// Nothing that is open is hidden there, or all of it is behind another login.
#[test]
fn the_application_of_a_withdrawn_deep_name_goes_where_no_open_rule_is_behind_the_check_of_a_wildcard() {
    let (deep, middle) = (at("a.b.w.example.com", "", "staff"), at("*.w.example.com", "", "staff"));
    for widest in [vec![at("*.example.com", "", "staff")], vec![]] {
        let mut cloudflare = cloudflare();
        let left = [std::slice::from_ref(&middle), &*widest].concat();
        settle(&mut cloudflare, &[std::slice::from_ref(&deep), &*left].concat());
        settle(&mut cloudflare, &left);
        assert_eq!(names(&cloudflare).len(), left.len(), "{:?}", names(&cloudflare));
        run(&mut cloudflare, &widest);
        assert_rest(&cloudflare, &widest);
    }
}

/// A wildcard's record may serve the hostname elsewhere, and its visitors would need a login for nothing.
#[test]
fn no_application_is_made_for_a_rule_that_cannot_be_written() {
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[at("b.example.com", "", "")]);
    let mut path = at(NAME, "/p", "staff");
    path.labels.set("resource", "ingress/shop/other");
    let changes = cloudflare.changes(&[at(NAME, "", ""), path, at("b.example.com", "", "staff")]);
    let mut reading = cloudflare.reading();
    reading.tunnels.get_mut(&tunnel_id(HOME)).expect("it was read").writable = false;
    let snapshot = Snapshot::new(reading);
    let plan = plan(&changes.read(), &snapshot, &PlanInputs::default(), WHOLE);
    assert_eq!(labels(&plan), ["local_tunnel", "local_tunnel", "waiting"]);
    let protected: Vec<_> =
        plan.application_writes.iter().map(|write| write.place.hostname().as_str()).collect();
    assert_eq!(protected, ["b.example.com"], "its rule is published, and its visitors are to need a login");
    assert_eq!(plan.hosts, []);
}

/// A foreign rule without a hostname.
#[test]
fn an_application_stays_in_front_of_a_foreign_rule_that_answers_its_visitors() {
    let record = ("*.example.com", "CNAME", &*tunnel_id(HOME).hostname());
    let mut cloudflare = FakeCloudflare::new(&[], &[record]).with_access(cloudflare().policies);
    settle(&mut cloudflare, &[at(NAME, "", "staff")]);
    cloudflare.edit_rules(HOME, |rules| rules.insert(1, r#"{"service":"http://theirs:80"}"#.to_owned()));
    settle(&mut cloudflare, &[]);
    assert_eq!(names(&cloudflare), [NAME]);
}

/// It may stand before a zone that another instance serves, or a tunnel that is not read, or names outside the filter.
#[test]
fn an_application_goes_by_itself_after_its_rule_where_everything_is_known_of_it() {
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[at(NAME, "", "staff"), at("*.example.com", "", "staff")]);
    run(&mut cloudflare, &[]);
    assert_eq!((names(&cloudflare).len(), cloudflare.records.len()), (2, 0));
    type Change = fn(&mut FakeCloudflare);
    let changes: [(Change, &[&str]); 5] = [
        (|_| {}, &[]),
        (
            |all| all.applications_mut().iter_mut().for_each(|one| one.created_unix_seconds = None),
            &["*.example.com", NAME],
        ),
        (|all| all.served = NAME, &["*.example.com"]),
        (|all| all.add(NAME, "CNAME", "11111111-a4ef-4643-bbbc-4a0ed4fc8415.cfargotunnel.com", ""), &[NAME]),
        (
            |all| all.applications_mut()[0].name = "app.other.test (ExternalDNS default)".into(),
            &["app.other.test"],
        ),
    ];
    for (change, left) in changes {
        let mut changed = cloudflare.clone();
        change(&mut changed);
        changed.sweep();
        let mut names = names(&changed);
        names.sort_unstable();
        assert_eq!(names, left);
    }
    let mut reading = cloudflare.reading();
    reading.date_unix_seconds = Some(i64::from(u32::MAX));
    let elsewhere = Zone { name: "a.example.com".into(), ..reading.zones[0].zone.clone() };
    reading.excluded_zones.push(elsewhere);
    let snapshot = Snapshot::new(reading);
    let left = removable(&snapshot);
    assert_eq!(left.iter().map(|one| one.own.place.hostname().as_str()).collect::<Vec<_>>(), [NAME]);
}

/// A copy appears where an answer is lost and the application is made again.
#[test]
fn of_two_applications_of_one_place_the_one_that_its_rule_names_counts_and_both_are_told() {
    let mut cloudflare = cloudflare();
    let desired = [at(NAME, "", "staff")];
    settle(&mut cloudflare, &desired);
    let ours = cloudflare.applications()[0].clone();
    for place in [0, 1] {
        let mut cloudflare = cloudflare.clone();
        let copy = Application { id: "copy".into(), audience: "copy-aud".into(), ..ours.clone() };
        cloudflare.applications_mut().insert(place, copy);
        let told = notes(&cloudflare).join("\n");
        assert!(told.contains("several Access applications of ours for app.example.com"), "{told}");
        let before = cloudflare.documents.clone();
        settle(&mut cloudflare, &desired);
        assert_eq!(cloudflare.documents, before, "{place}");
        assert!(cloudflare.applications().contains(&ours));
    }
}

/// One of them was changed by hand. The words are those that ask for it, so ExternalDNS asks because of the drift
/// alone.
#[test]
fn what_protects_a_place_otherwise_than_it_was_made_is_shown_as_drift() {
    type Edit = fn(&mut FakeCloudflare);
    let edits: [(&str, Edit); 5] = [
        ("nothing", |_| {}),
        ("the duration", |all| all.applications_mut()[0].session_duration = Some("1.5h".into())),
        ("lets past", |all| {
            all.applications_mut()[0].policies = Some(vec![attached("staff", PolicyDecision::Bypass)]);
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

/// The rules would not follow.
#[test]
fn no_application_of_an_object_is_made_where_one_of_its_rules_is_refused() {
    let theirs = r#"{"hostname":"app.example.com","path":"^/p(/|$)","service":"http://theirs:80"}"#;
    let mut cloudflare = FakeCloudflare::new(&[theirs.to_owned()], &[]).with_access(cloudflare().policies);
    let plan = run(&mut cloudflare, &[at(NAME, "", "staff"), at(NAME, "/p", "staff")]);
    assert_eq!((labels(&plan), names(&cloudflare)), (vec!["beside_refused", "rule_held"], vec![]));
}

#[test]
fn a_foreign_application_over_the_place_is_told_by_name() {
    let mut cloudflare = cloudflare();
    cloudflare.applications_mut().push(foreign("theirs", &["APP.example.com"]));
    let plan = settle(&mut cloudflare, &[at(NAME, "", "staff")]);
    assert_eq!(labels(&plan), ["application_held"]);
    assert_eq!((cloudflare.applications().len(), cloudflare.records.len()), (1, 0));
}

/// There is one of ours already, so the foreign one is not taken over.
#[test]
fn the_refusal_for_a_foreign_application_beside_ours_does_not_name_adopt() {
    let mut cloudflare = cloudflare().adopting(&["access"]);
    settle(&mut cloudflare, &[at(NAME, "", "staff")]);
    cloudflare.applications_mut()[0].session_duration = Some("1.5h".into());
    cloudflare.applications_mut().push(foreign("theirs", &[NAME]));
    let plan = settle(&mut cloudflare, &[at(NAME, "", "staff")]);
    assert_eq!(labels(&plan), ["application_held"]);
    let told = plan.refusals[0].to_string();
    assert!(!told.contains("ADOPT") && told.contains("remove the destination from it"), "{told}");
}

/// It was given another hostname by hand, which is not ours to open.
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

/// Cloudflare's list may show it later, and a second one would be made. Policies that were not read are not absent.
#[test]
fn an_application_is_not_made_where_one_was_asked_for_a_moment_ago_or_policies_were_not_read() {
    type Edit = fn(&mut AccessSnapshot);
    let edits: [(Edit, &str, &[&str]); 2] = [
        (
            |access| access.pending.push(Place::of(&Hostname::parse(NAME).expect("a name"), None)),
            "it is not known yet whether Cloudflare has it",
            &["b.example.com"],
        ),
        (|access| access.policies = Err(AccessReadError::temporary("HTTP 503")), "HTTP 503", &[]),
    ];
    for (edit, told, made) in edits {
        let mut cloudflare = cloudflare();
        let AccessReading::Read(access) = &mut cloudflare.access else { unreachable!() };
        edit(access);
        let plan = run(&mut cloudflare, &[at(NAME, "", "staff"), at("b.example.com", "", "staff")]);
        assert_eq!((labels(&plan), &*names(&cloudflare)), (vec!["waiting"; 2], made));
        assert!(plan.refusals[0].to_string().contains(told), "{}", plan.refusals[0]);
    }
}

/// Its applications are of another account, and none of them is read.
#[test]
fn a_rule_that_wants_a_token_of_another_team_has_no_drift_and_keeps_no_mark() {
    let other_team =
        [("access-required", "true"), ("access-team-name", "another-team"), ("access-aud-tag", "theirs")];
    let required = endpoint(NAME, &[&[("tunnel-service", "http://web:80")], &other_team[..]].concat());
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[required, at("other.example.com", "", "staff")]);
    let entries = listing::listing(&cloudflare.snapshot());
    let drifts: Vec<_> = entries.iter().map(|entry| entry.drift.len()).collect();
    assert_eq!(drifts, [0, 0], "{entries:?}");
}

/// Cloudflare rejected the deletion, or another program creates the application again after each deletion.
#[test]
fn a_deletion_that_is_paused_is_not_planned() {
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[at(NAME, "", "staff")]);
    let opened = [at(NAME, "", OPEN)];
    run(&mut cloudflare, &opened);
    let changes = cloudflare.changes(&opened);
    let plan = |inputs: &PlanInputs| plan(&changes.read(), &cloudflare.snapshot(), inputs, WHOLE);
    let deletion = &plan(&PlanInputs::default()).application_writes[0];
    let refused = [(deletion.content_fingerprint(), Reason::Cloudflare("no".to_owned()))];
    let inputs = PlanInputs { paused: refused.into_iter().collect(), ..PlanInputs::default() };
    let later = plan(&inputs);
    assert_eq!((labels(&later), later.application_writes.len()), (vec!["cloudflare"], 0));
    let again = ApplicationWrite { operation: ApplicationOperation::Delete("2".into()), ..deletion.clone() };
    assert_eq!(again.content_fingerprint(), deletion.content_fingerprint(), "it has a new id");
}

/// What is known once Cloudflare rejected the records of the hostname.
fn after_refused_records(plan: &Plan) -> PlanInputs {
    let records = pieces(plan.host(NAME).expect("it is written")).filter(|piece| piece.edit.is_none());
    let refused = records.map(|piece| (piece.fingerprint(), Reason::Cloudflare("no".to_owned())));
    PlanInputs { paused: refused.collect(), ..PlanInputs::default() }
}

/// Otherwise visitors would reach the rules as they were before, without a login.
#[test]
fn nothing_is_opened_while_the_writes_of_its_hostname_are_refused() {
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[at(NAME, "", "staff")]);
    run(&mut cloudflare, &[at(NAME, "", OPEN)]);
    let changes = cloudflare.changes(&[at(NAME, "", OPEN), at(NAME, "/new", OPEN)]);
    let plan = |inputs: &PlanInputs| plan(&changes.read(), &cloudflare.snapshot(), inputs, WHOLE);
    let whole = plan(&PlanInputs::default());
    let later = plan(&after_refused_records(&whole));
    assert_eq!((whole.application_writes.len(), whole.notes.len()), (1, 2));
    assert_eq!((labels(&later), later.is_empty(), later.notes), (vec!["cloudflare"], true, vec![]));
}

/// `DRY_RUN` waited for a loop that never comes, and did not name the deletion.
#[test]
fn a_preview_of_an_opening_names_the_deletion_and_waits_for_nothing() {
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[at(NAME, "", "staff")]);
    let changes = cloudflare.changes(&[at(NAME, "", OPEN)]);
    let inputs = PlanInputs { is_dry_run: true, ..PlanInputs::default() };
    let previewed = plan(&changes.read(), &cloudflare.snapshot(), &inputs, WHOLE);
    let [write] = &*previewed.application_writes else { panic!("{previewed:?}") };
    assert!(matches!(write.operation, ApplicationOperation::Delete(_)), "{write:?}");
    assert_eq!((labels(&previewed), previewed.hosts.len()), (vec![], 1));

    let application = cloudflare.applications()[0].clone();
    let twin = Application { id: "twin".into(), audience: "twin".into(), ..application.clone() };
    cloudflare.applications_mut().push(twin);
    assert_eq!(plan(&changes.read(), &cloudflare.snapshot(), &inputs, WHOLE).application_writes.len(), 2);

    let check = format!(r#"{{"required":true,"teamName":"my-team","audTag":["{}"]}}"#, application.audience);
    let theirs = r#"{"hostname":"x.example.com","service":"http://x:80","originRequest":{"access":CHECK}}"#;
    cloudflare.edit_rules(HOME, |rules| rules.insert(0, theirs.replace("CHECK", &check)));
    let refused = plan(&changes.read(), &cloudflare.snapshot(), &inputs, WHOLE);
    assert_eq!((labels(&refused), refused.application_writes), (vec!["still_protected"], vec![]));
}

/// A foreign rule accepts the tokens of one application. That of the whole hostname is over the path too.
#[test]
fn a_preview_of_two_openings_names_the_deletion_of_the_one_that_is_not_refused() {
    for (refused, opened) in [("/a", "/b"), ("/a", "")] {
        let mut cloudflare = cloudflare();
        let both = |access: &str| [at(NAME, refused, access), at(NAME, opened, access)];
        settle(&mut cloudflare, &both("staff"));
        let of_path = |path: &str| {
            let position = names(&cloudflare).iter().position(|name| *name == format!("{NAME}{path}"));
            cloudflare.applications()[position.expect("it was made")].clone()
        };
        let (kept, deleted) = (of_path(refused), ApplicationOperation::Delete(of_path(opened).id));
        let check = format!(r#"{{"required":true,"teamName":"my-team","audTag":["{}"]}}"#, kept.audience);
        let theirs =
            r#"{"hostname":"x.example.com","service":"http://x:80","originRequest":{"access":CHECK}}"#;
        cloudflare.edit_rules(HOME, |rules| rules.insert(0, theirs.replace("CHECK", &check)));
        let inputs = PlanInputs { is_dry_run: true, ..PlanInputs::default() };
        let previewed = plan(&cloudflare.changes(&both(OPEN)).read(), &cloudflare.snapshot(), &inputs, WHOLE);
        let labels = labels(&previewed);
        let operations: Vec<_> = previewed.application_writes.into_iter().map(|one| one.operation).collect();
        assert_eq!((labels, operations), (vec!["still_protected"], vec![deleted]), "{opened:?}");
    }
}

/// The application of a twin is deleted in the next request, which is not planned.
#[test]
fn an_opening_whose_writes_are_refused_fails_no_request() {
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[at(NAME, "", "staff")]);
    let twin =
        Application { id: "twin".into(), audience: "twin".into(), ..cloudflare.applications()[0].clone() };
    cloudflare.applications_mut().push(twin);
    run(&mut cloudflare, &[at(NAME, "", OPEN)]);
    let changes = cloudflare.changes(&[at(NAME, "", OPEN), at(NAME, "/new", OPEN)]);
    let plan = |inputs: &PlanInputs| plan(&changes.read(), &cloudflare.snapshot(), inputs, WHOLE);
    let whole = plan(&PlanInputs::default());
    let later = plan(&after_refused_records(&whole));
    assert_eq!((labels(&whole), labels(&later)), (vec!["waiting"; 2], vec!["cloudflare"]));
}

#[test]
fn a_wildcards_check_stays_while_a_status_rule_below_accepts_its_tokens() {
    let mut cloudflare = cloudflare();
    let status = served_by(at(NAME, "", ""), "http_status:503");
    settle(&mut cloudflare, &[at("*.example.com", "", "staff"), status.clone()]);
    let before = locked(&cloudflare);
    let plan = settle(&mut cloudflare, &[at("*.example.com", "", OPEN), status]);
    assert_eq!((labels(&plan), locked(&cloudflare)), (vec!["still_protected"], before));
}

/// The foreign host is longer, and no document says which of two overlapping wildcards decides.
#[test]
fn an_opening_counts_no_foreign_bypass_of_a_part_of_a_label_as_a_login() {
    let mut cloudflare = cloudflare();
    let theirs = format!(r#"{{"hostname":"{NAME}","service":"http://theirs:80"}}"#);
    cloudflare.edit_rules(HOME, |rules| rules.insert(0, theirs));
    cloudflare.applications_mut().push(application("theirs", &["ap*.example.com"], PolicyDecision::Bypass));
    settle(&mut cloudflare, &[at("*.example.com", "", "staff")]);
    let plan = settle(&mut cloudflare, &[at("*.example.com", "", OPEN)]);
    assert_eq!(
        (labels(&plan), names(&cloudflare)),
        (vec!["still_protected"], vec!["theirs", "*.example.com"])
    );
}

/// Only the application that visitors meet first gives them a token.
#[test]
fn visitors_whom_a_rule_refuses_for_a_foreign_application_are_told_and_no_others() {
    let admin = ["app.example.com/admin", "app.example.com/admin/*"];
    let wildcard = || at("*.example.com", "", "staff");
    let bypassed = |one: Application| Application {
        policies: Some(vec![attached("public", PolicyDecision::Bypass)]),
        ..one
    };
    let half_bypassed = |one: Application| Application {
        policies: Some(vec![
            attached("staff", PolicyDecision::Allow),
            attached("public", PolicyDecision::Bypass),
        ]),
        ..one
    };
    let theirs = |one: Application| Application { audience: "theirs".into(), ..one };
    let ours = vec![at(NAME, "", "staff")];
    let expression = with(at(NAME, "", ""), "webhook/tunnel-path", "^/v[0-9]+/");
    for (label, standing, application, told) in [
        ("a path", ours.clone(), foreign("f", &admin), Some("app.example.com/admin")),
        ("the path alone", ours.clone(), foreign("f", &admin[..1]), Some("app.example.com/admin")),
        ("below the path", ours.clone(), foreign("f", &admin[1..]), Some("app.example.com/admin")),
        ("no login", ours.clone(), bypassed(foreign("f", &admin)), Some("app.example.com/admin")),
        ("no login for some", ours.clone(), half_bypassed(foreign("f", &admin)), None),
        (
            "an unknown kind",
            ours.clone(),
            Application { kind: ApplicationKind::Unknown, ..foreign("f", &admin) },
            None,
        ),
        ("a wider one", ours.clone(), foreign("f", &["*.example.com"]), None),
        ("another hostname", ours.clone(), foreign("f", &["b.example.com"]), None),
        ("not a path as a rule takes it", ours.clone(), foreign("f", &["app.example.com/a*b"]), None),
        (
            "a path with a rule of its own",
            vec![ours[0].clone(), at(NAME, "/admin", "staff")],
            { foreign("f", &["app.example.com/admin/*", "app.example.com/admin/deeper"]) },
            Some("app.example.com/admin/deeper"),
        ),
        ("a name below a wildcard", vec![wildcard()], foreign("f", &[NAME]), Some(NAME)),
        (
            "a silent name below a wildcard",
            vec![wildcard(), at(NAME, "", "")],
            foreign("f", &[NAME]),
            Some(NAME),
        ),
        (
            "a silent path below a wildcard",
            vec![wildcard(), at(NAME, "/p", "")],
            foreign("f", &[NAME]),
            Some("app.example.com/p"),
        ),
        (
            "a path below a wildcard",
            vec![wildcard()],
            foreign("f", &["*.example.com/p"]),
            Some("*.example.com/p"),
        ),
        (
            "an expression",
            vec![wildcard(), expression],
            foreign("f", &["app.example.com/p"]),
            Some("app.example.com/p"),
        ),
        ("an open hostname", vec![at(NAME, "", "")], foreign("f", &admin), None),
        ("its token is accepted", vec![required(NAME)], theirs(foreign("f", &admin)), None),
        ("a check of the rule alone", vec![required(NAME)], foreign("f", &["*.example.com"]), Some(NAME)),
    ] {
        let mut cloudflare = cloudflare();
        settle(&mut cloudflare, &standing);
        assert!(!notes(&cloudflare).join("").contains("meet the Access application"), "{label}");
        cloudflare.applications_mut().push(application);
        let notes = notes(&cloudflare);
        let places: Vec<&str> = notes.iter().filter_map(|note| note.split('"').nth(3)).collect();
        assert_eq!(places, told.into_iter().collect::<Vec<_>>(), "{label}: {notes:#?}");
    }
}

/// The narrower login is of a wildcard, or stays for a silent endpoint below it.
#[test]
fn visitors_of_an_application_of_ours_are_told_whom_a_rule_in_front_refuses() {
    let wildcard = |prefix, access| at("*.example.com", prefix, access);
    for (label, before, after, told) in [
        (
            "a silent name below a wildcard with a login for a path",
            vec![wildcard("", "staff"), wildcard("/p", "staff")],
            vec![wildcard("", "staff"), wildcard("/p", "staff"), at(NAME, "", "")],
            Some("app.example.com/p"),
        ),
        (
            "a login that stays for a silent path",
            vec![at(NAME, "/p", "staff")],
            vec![at(NAME, "", "staff"), at(NAME, "/p/q", "")],
            Some("app.example.com/p"),
        ),
        (
            "paths with logins",
            vec![at(NAME, "", "staff")],
            vec![at(NAME, "", "staff"), at(NAME, "/p", "staff")],
            None,
        ),
    ] {
        let mut cloudflare = cloudflare();
        settle(&mut cloudflare, &before);
        for _ in 0..3 {
            let loops = notes(&cloudflare);
            assert!(told.is_some() || loops.is_empty(), "{label}: {loops:?}");
            run(&mut cloudflare, &after);
        }
        let met = notes(&cloudflare).into_iter().filter(|note| note.contains("meet the Access application"));
        let places: Vec<String> = met.filter_map(|note| Some(note.split('"').nth(3)?.to_owned())).collect();
        assert_eq!(places, told.into_iter().collect::<Vec<_>>(), "{label}");
    }
}

/// The guard renews the tokens that a rule accepts, but not those of a rule with an application of ours.
#[test]
fn with_the_guard_visitors_are_told_of_whom_the_rule_of_an_application_of_ours_refuses() {
    for (access, is_told) in [("", false), ("staff", true)] {
        let mut cloudflare = cloudflare();
        cloudflare.applications_mut().push(foreign("wide", &["*.example.com"]));
        cloudflare.access_guard = true;
        settle(&mut cloudflare, &[at(NAME, "", access)]);
        cloudflare.applications_mut().push(foreign("narrow", &["app.example.com/p", "app.example.com/p/*"]));
        assert_eq!(notes(&cloudflare).join("").contains("\"narrow\" first"), is_told, "{access:?}");
    }
}

/// Nothing can be written for an object that says nothing, so nothing is asked for.
#[test]
fn an_application_that_lost_its_policies_and_got_a_destination_by_hand_is_asked_for_once() {
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[at(NAME, "", "staff")]);
    let application = &mut cloudflare.applications_mut()[0];
    application.policies = Some(Vec::new());
    application.destinations.push(Destination { host: "other.example.com".into(), path: "".into() });
    let silent = [at(NAME, "", "")];
    settle(&mut cloudflare, &silent);
    assert_rest(&cloudflare, &silent);
}

/// Only `/admin` itself is still at the edge: what is below it has the login of the rule alone.
#[test]
fn a_record_is_not_pointed_to_an_open_rule_below_a_path_whose_application_lost_a_destination() {
    let theirs = format!(r#"{{"hostname":"{NAME}","path":"^/admin(/|$)","service":"http://theirs:80"}}"#);
    for (is_cut, wanted) in [(false, &["moving"][..]), (true, &["withheld", "would_open"])] {
        let mut cloudflare = cloudflare();
        settle(&mut cloudflare, &[at(NAME, "/admin", "staff"), at(NAME, "/shop", "")]);
        cloudflare.edit_rules(OFFICE, |rules| rules.insert(0, theirs.clone()));
        if is_cut {
            cloudflare.applications_mut()[0].destinations.retain(|one| !one.path.ends_with("/*"));
        }
        let plan = run(&mut cloudflare, &[in_tunnel(at(NAME, "/shop", ""), OFFICE)]);
        assert_eq!(labels(&plan), wanted, "{plan:?}");
    }
}
