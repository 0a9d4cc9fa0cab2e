//! A record leads visitors to every rule that its tunnel has for the name, to the foreign ones too.

use super::*;

const PATH: &str = r#"{"hostname":"app.example.com","path":"^/p(/|$)","service":"http://theirs:80"}"#;
const WHOLE: &str = r#"{"hostname":"app.example.com","service":"http://theirs:80"}"#;
const WILDCARD: &str = r#"{"hostname":"*.example.com","service":"http://theirs:80"}"#;
const EVERY: &str = r#"{"service":"http://theirs:80"}"#;
const CHECKED: &str = r#"{"hostname":"app.example.com","service":"http://theirs:80","originRequest":{"access":{"required":true,"teamName":"my-team","audTag":["x"]}}}"#;

/// The wildcard in the tunnel `home` is closed by its rule alone, and a foreign rule stands in `office`.
fn closed_wildcard(rule: &str) -> FakeCloudflare {
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[required("*.example.com")]);
    cloudflare.edit_rules(OFFICE, |rules| rules.insert(0, rule.to_owned()));
    cloudflare
}

#[test]
fn a_silent_record_leads_nothing_that_is_closed_to_an_open_foreign_rule() {
    for (rule, prefix) in [(PATH, ""), (PATH, "/q"), (WHOLE, "/q"), (WILDCARD, "/q"), (EVERY, "/q")] {
        for adopt in [&[][..], &["all"]] {
            for access in ["", "staff", OPEN] {
                if access == OPEN && prefix.is_empty() {
                    // Its word is for everything that the foreign rule takes.
                    continue;
                }
                let mut cloudflare = closed_wildcard(rule).adopting(adopt);
                let desired = [required("*.example.com"), in_tunnel(at(NAME, prefix, access), "office")];
                let plan = settle(&mut cloudflare, &desired);
                let context = format!("{prefix:?} {access:?} beside {rule}");
                assert_eq!(labels(&plan), ["would_open"], "{context}");
                assert_eq!(cloudflare.snapshot().visited_tunnel(NAME), Some(tunnel_id(HOME)), "{context}");
                assert_eq!(names(&cloudflare), [""; 0], "{context}");
            }
        }
    }
}

/// The rule of the hostname goes along, and the foreign one stands in front of it, for a part.
#[test]
fn a_hostname_does_not_move_in_silence_to_where_a_foreign_rule_answers_a_part_of_it() {
    let below = r#"{"hostname":"b.app.example.com","service":"http://theirs:80"}"#;
    for (name, rule) in [(NAME, PATH), ("*.app.example.com", below)] {
        let mut cloudflare = cloudflare();
        settle(&mut cloudflare, &[required(name)]);
        cloudflare.edit_rules(OFFICE, |rules| rules.insert(0, rule.to_owned()));
        let before = cloudflare.clone();
        let plan = settle(&mut cloudflare, &[in_tunnel(required(name), "office")]);
        assert_eq!((labels(&plan), &cloudflare), (vec!["would_open"], &before), "{name}");
        assert!(plan.refusals[0].to_string().contains("close that rule"), "{}", plan.refusals[0]);
    }
}

/// The name has a record of its own.
#[test]
fn a_wildcard_moves_where_a_foreign_rule_answers_a_name_that_is_not_led_with_it() {
    let below = r#"{"hostname":"b.app.example.com","service":"http://theirs:80"}"#;
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[required("*.app.example.com")]);
    cloudflare.add("b.app.example.com", "CNAME", &tunnel_id(OFFICE).hostname(), "");
    cloudflare.edit_rules(OFFICE, |rules| rules.insert(0, below.to_owned()));
    let moved = [in_tunnel(required("*.app.example.com"), "office")];
    settle(&mut cloudflare, &moved);
    assert_rest(&cloudflare, &moved);
    assert_eq!(cloudflare.snapshot().visited_tunnel("*.app.example.com"), Some(tunnel_id(OFFICE)));
}

/// The record is another owner's, with the closed rule that it names.
#[test]
fn a_record_that_is_taken_over_leads_nothing_that_is_closed_to_an_open_foreign_rule() {
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[required(NAME)]);
    for record in &mut cloudflare.records {
        record.comment = record.comment.replace("owner=default", "owner=other").into();
    }
    assert!(cloudflare.records[0].comment.contains("owner=other"), "{:?}", cloudflare.records);
    cloudflare.edit_rules(OFFICE, |rules| rules.insert(0, PATH.to_owned()));
    let mut cloudflare = cloudflare.adopting(&["owner=other"]);
    let before = cloudflare.clone();
    let plan = settle(&mut cloudflare, &[in_tunnel(at(NAME, "", ""), "office")]);
    assert_eq!((labels(&plan), &cloudflare), (vec!["would_open"], &before));
}

/// Its rule would answer before the foreign rule, and is written after the record.
#[test]
fn a_new_silent_record_is_not_led_to_a_foreign_rule_that_answers_until_its_rule_is_written() {
    let mut cloudflare = cloudflare();
    let closed = required("*.example.com");
    settle(&mut cloudflare, std::slice::from_ref(&closed));
    cloudflare.edit_rules(OFFICE, |rules| rules.insert(0, WILDCARD.to_owned()));
    let before = cloudflare.clone();
    let plan = settle(&mut cloudflare, &[closed, in_tunnel(at(NAME, "", ""), "office")]);
    assert_eq!((labels(&plan), &cloudflare), (vec!["would_open"], &before));
}

/// An application stands in front of the foreign rule, or the object says so.
#[test]
fn a_silent_record_is_led_to_foreign_rules_that_open_nothing() {
    let closed = required("*.example.com");
    let refusing = r#"{"hostname":"app.example.com","path":"^/p(/|$)","service":"http_status:404"}"#;
    let office = |prefix: &str, access: &str| in_tunnel(at(NAME, prefix, access), "office");
    for (label, wildcard, rule, desired) in [
        ("an application", at("*.example.com", "", "staff"), PATH, vec![office("/q", "")]),
        ("an application of a part", at("*.example.com", "/p", "staff"), WHOLE, vec![office("/q", "")]),
        ("a check", closed.clone(), CHECKED, vec![office("/q", "")]),
        ("no service", closed.clone(), refusing, vec![office("/q", "")]),
        ("its application", closed.clone(), WILDCARD, vec![office("", "staff")]),
        ("the word", closed, PATH, vec![office("", OPEN)]),
        ("nothing closed", at("*.example.com", "", ""), PATH, vec![office("/q", "")]),
    ] {
        let mut cloudflare = cloudflare();
        settle(&mut cloudflare, std::slice::from_ref(&wildcard));
        cloudflare.edit_rules(OFFICE, |rules| rules.insert(0, rule.to_owned()));
        let desired = [vec![wildcard], desired].concat();
        assert_eq!(labels(&settle(&mut cloudflare, &desired)), [""; 0], "{label}");
        assert_eq!(cloudflare.snapshot().visited_tunnel(NAME), Some(tunnel_id(OFFICE)), "{label}");
        assert_rest(&cloudflare, &desired);
    }
}

/// Visitors of our rule, which is open already, have no token that the foreign rule's check would take.
#[test]
fn a_foreign_rule_in_a_tunnel_that_no_visitor_is_led_to_closes_nothing() {
    let mut cloudflare = cloudflare();
    run(&mut cloudflare, &[in_tunnel(at(NAME, "", ""), "office")]);
    cloudflare.edit_rules(HOME, |rules| *rules = vec![CHECKED.to_owned()]);
    for access in ["", OPEN] {
        assert_rest(&cloudflare, &[in_tunnel(at(NAME, "", access), "office")]);
    }
    let changed = [in_tunnel(endpoint(NAME, &[("tunnel-service", "http://new:80")]), "office")];
    settle(&mut cloudflare, &changed);
    assert_eq!(required_audiences(&cloudflare, OFFICE), [""; 0]);
    assert_rest(&cloudflare, &changed);
}

fn of_object(mut endpoint: Endpoint, object: &str) -> Endpoint {
    endpoint.labels.set("resource", &format!("ingress/shop/{object}"));
    endpoint
}

/// `ADOPT` takes over no record of this owner, or the rule cannot be ours: the refused endpoint's word opens nothing.
#[test]
fn a_refused_word_opens_no_foreign_rule() {
    let whole = |access| of_object(at(NAME, "", access), "a");
    let part = of_object(at(NAME, "/p", OPEN), "b");
    let wildcard = |access| of_object(at("*.example.com", "", access), "a");
    let name = of_object(at(NAME, "", OPEN), "b");
    let beside = of_object(at(NAME, "/q", "staff"), "c");
    for adopt in [&[][..], &["owner=other"]] {
        for (rule, protected, opened) in [
            (PATH, vec![whole("staff")], vec![whole(OPEN), part.clone()]),
            (
                WHOLE,
                vec![wildcard("staff"), beside.clone()],
                vec![wildcard(OPEN), name.clone(), beside.clone()],
            ),
        ] {
            let mut cloudflare = cloudflare().adopting(adopt);
            settle(&mut cloudflare, &protected);
            let before = names(&cloudflare).len();
            cloudflare.edit_rules(HOME, |rules| rules.insert(0, rule.to_owned()));
            let plan = settle(&mut cloudflare, &opened);
            assert_eq!(names(&cloudflare).len(), before, "{adopt:?} {rule}: {:?}", plan.refusals);
        }
    }
}

/// The rule is ours once it is taken over, so the word of its endpoint counts.
#[test]
fn a_word_opens_a_foreign_rule_that_its_endpoint_takes_over() {
    let mut cloudflare = cloudflare().adopting(&["tunnel"]);
    let whole = |access| of_object(at(NAME, "", access), "a");
    settle(&mut cloudflare, &[whole("staff")]);
    cloudflare.edit_rules(HOME, |rules| rules.insert(0, PATH.to_owned()));
    let opened = [whole(OPEN), of_object(at(NAME, "/p", OPEN), "b")];
    settle(&mut cloudflare, &opened);
    assert_eq!(names(&cloudflare), [""; 0]);
    assert_rest(&cloudflare, &opened);
}

/// A person's application of everything below the path takes no request for the path itself.
#[test]
fn an_application_of_what_is_below_a_path_does_not_protect_the_path_itself() {
    let mut cloudflare = cloudflare();
    cloudflare.applications_mut().push(foreign("theirs", &["app.example.com/api/*"]));
    let api = of_object(at(NAME, "/api", ""), "b");
    let whole = |access| of_object(at(NAME, "", access), "a");
    settle(&mut cloudflare, std::slice::from_ref(&api));
    settle(&mut cloudflare, &[whole("staff"), api.clone()]);
    let plan = settle(&mut cloudflare, &[whole(OPEN), api.clone()]);
    assert_eq!(labels(&plan), ["still_protected"]);
    assert_eq!(names(&cloudflare), ["theirs", "app.example.com"]);
    cloudflare.applications_mut().retain(|one| &*one.name != "theirs");
    cloudflare.applications_mut().push(foreign("theirs", &["app.example.com/api", "app.example.com/api/*"]));
    settle(&mut cloudflare, &[whole(OPEN), api]);
    assert_eq!(names(&cloudflare), ["theirs"]);
}

/// The record stays for the foreign rule, and each loop told that as a refusal, which kept every application.
#[test]
fn a_path_whose_hostname_keeps_its_record_for_a_foreign_rule_leaves_no_application() {
    let theirs = r#"{"hostname":"app.example.com","path":"^/theirs$","service":"http://theirs:80"}"#;
    let mut cloudflare = cloudflare();
    cloudflare.edit_rules(HOME, |rules| rules.insert(0, theirs.to_owned()));
    settle(&mut cloudflare, &[at(NAME, "/p", "staff")]);
    assert_eq!(names(&cloudflare).len(), 1);
    assert_eq!(labels(&settle(&mut cloudflare, &[])), [""; 0]);
    assert_eq!((names(&cloudflare).len(), cloudflare.records.len()), (0, 1));
    assert!(
        !cloudflare.snapshot().has_protection_claim(),
        "no loop asks Access for it: {:?}",
        cloudflare.records
    );
}

/// A wildcard with a login is above it, so an object with a mistake marks the comment, which names no namespace.
#[test]
fn a_record_that_is_kept_for_a_foreign_rule_is_of_no_namespace_although_it_is_protected() {
    let theirs = r#"{"hostname":"app.example.com","path":"^/theirs$","service":"http://theirs:80"}"#;
    let by = |namespace: &str, host: &str, said: &[(&str, &str)]| {
        let service = format!("http://web.{namespace}.svc:80");
        let properties = [&[("tunnel-service", &*service)], said].concat();
        endpoint_of(&format!("ingress/{namespace}/web"), host, &properties)
    };
    let mut cloudflare = cloudflare();
    cloudflare.namespace_guard = true;
    cloudflare.access_policies = Some(vec!["staff".into()]);
    cloudflare.edit_rules(HOME, |rules| rules.insert(0, theirs.to_owned()));
    let wildcard = by("shop", "*.example.com", &[("access-policy", "staff"), ("tunnel-wildcard", "true")]);
    settle(&mut cloudflare, &[wildcard.clone(), by("shop", NAME, &[])]);
    settle(&mut cloudflare, std::slice::from_ref(&wildcard));
    assert_eq!(cloudflare.records.len(), 2, "{:?}", cloudflare.records);
    settle(&mut cloudflare, &[wildcard.clone(), by("blog", NAME, &[("origin-connect-timeout", "soon")])]);
    let plan = settle(&mut cloudflare, &[wildcard, by("blog", NAME, &[])]);
    assert_eq!(labels(&plan), [""; 0], "{:?}", cloudflare.records);
    let rules = cloudflare.document(&tunnel_id(HOME)).rules();
    assert!(rules.iter().any(|rule| rule.service() == "http://web.blog.svc:80"));
}

/// The rule of the same path in the other tunnel counted as the one that the request edits, so a loop told of a
/// deletion that never came.
#[test]
fn a_word_is_refused_at_once_for_a_foreign_rule_of_the_path_in_another_tunnel() {
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[at(NAME, "", "staff")]);
    let audience = cloudflare.applications()[0].audience.clone();
    let theirs = CHECKED.replace(r#"["x"]"#, &format!("[{audience:?}]"));
    cloudflare.edit_rules(OFFICE, |rules| rules.insert(0, theirs));
    let plan = cloudflare.run_loop(&[at(NAME, "", OPEN)], usize::MAX);
    assert_eq!(labels(&plan), ["still_protected"], "{plan:?}");
}

/// The move deletes the rule in the old tunnel, so nothing has to be done about it.
#[test]
fn a_word_beside_a_move_waits_and_names_no_rule_that_the_move_deletes() {
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[at(NAME, "", "staff")]);
    let desired = [in_tunnel(at(NAME, "", OPEN), "office")];
    let waiting = run(&mut cloudflare, &desired);
    assert_eq!(labels(&waiting), ["moving", "waiting"], "{waiting:?}");
    let plans: Vec<Plan> = (0..5).map(|_| run(&mut cloudflare, &desired)).collect();
    assert!(plans.iter().all(|plan| !labels(plan).contains(&"still_protected")), "{plans:?}");
    assert_eq!((labels(&plans[4]), names(&cloudflare)), (vec![], vec![]), "{plans:?}");
}
