//! The conditions of the gate and of what answers for a place, each alone.

use super::*;
use external_dns_cloudflare_tunnel_webhook::reconcile::access::reading::AccessReadError;

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

/// The endpoint of the wildcard asks for the login, and `none` below it would be refused.
#[test]
fn a_silent_endpoint_below_a_protected_wildcard_is_not_told_to_ask_for_its_login() {
    let mut cloudflare = cloudflare();
    let desired = [at("*.example.com", "", "staff"), at(NAME, "", "")];
    settle(&mut cloudflare, &desired);
    assert_eq!(locked(&cloudflare).len(), 2);
    let adjusted = adjust(&desired, &cloudflare.settings(), Some(&cloudflare.snapshot()));
    assert_eq!((adjusted.notes, adjusted.unasked_protections), (vec![], 0));
}

/// The wildcard's application was created a loop before its record, which is refused.
#[test]
fn a_silent_endpoint_below_a_wildcard_that_is_not_published_yet_is_not_told_to_ask_for_its_login() {
    let desired = [at("*.example.com", "", "staff"), at(NAME, "", "")];
    for (asked, told) in [(&desired[..], 0), (&desired[1..], 1)] {
        let mut cloudflare = cloudflare();
        settle(&mut cloudflare, &desired);
        let wildcard = cloudflare.records.iter_mut().find(|record| record.name.starts_with('*'));
        wildcard.expect("it is published").comment = "".into();
        cloudflare.edit_rules(HOME, |rules| rules.retain(|rule| !rule.contains("*.example.com")));
        assert!(labels(&run(&mut cloudflare, &desired)).contains(&"record_held"));
        assert_eq!(locked(&cloudflare), [NAME]);
        let adjusted = adjust(asked, &cloudflare.settings(), Some(&cloudflare.snapshot()));
        assert_eq!(
            (adjusted.notes.len(), adjusted.unasked_protections),
            (told, told),
            "{:?}",
            adjusted.notes
        );
    }
}

/// The rule of the wildcard tells what visitors of the name meet.
#[test]
fn a_silent_endpoint_below_a_marked_wildcard_requires_its_tokens_while_access_cannot_be_read() {
    let mut cloudflare = cloudflare();
    let wildcard = at("*.example.com", "", "staff");
    settle(&mut cloudflare, std::slice::from_ref(&wildcard));
    cloudflare.access = AccessReading::Failed(AccessReadError::temporary("it hangs"));
    let plan = run(&mut cloudflare, &[wildcard, at(NAME, "", "")]);
    assert!(!labels(&plan).contains(&"waiting"), "{:?}", plan.refusals);
    assert!(locked(&cloudflare).contains(&NAME.to_owned()));
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

/// No application tells of it.
#[test]
fn a_silent_path_of_a_checked_hostname_that_was_opened_stays_open() {
    let expression = |service: &str| {
        let properties = [("tunnel-service", service), ("tunnel-path", "v1")];
        endpoint(NAME, &properties)
    };
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[required(NAME)]);
    let opened = with(expression("http://web:80"), "webhook/access-policy", OPEN);
    settle(&mut cloudflare, &[required(NAME), opened]);
    settle(&mut cloudflare, &[required(NAME), expression("http://new:80")]);
    assert_eq!(locked(&cloudflare), [NAME]);
}

/// No rule and no record is left that tells of it.
#[test]
fn a_silent_endpoint_is_closed_by_an_application_over_it_that_asks_for_a_login_alone() {
    type Edit = fn(&mut Vec<Application>);
    let edits: [(Edit, &[&str]); 5] = [
        (|_| {}, &[NAME]),
        (|all| all[0].kind = ApplicationKind::Rendered, &[]),
        (|all| all[0].policies = Some(vec![attached("staff", PolicyDecision::Bypass)]), &[]),
        (
            |all| all.push(Application { kind: ApplicationKind::Unrelated, ..foreign("beside", &[NAME]) }),
            &[NAME],
        ),
        (|all| all.push(foreign("before it", &[NAME])), &[]),
    ];
    for (edit, closed) in edits {
        let mut cloudflare = cloudflare();
        settle(&mut cloudflare, &[at("*.example.com", "", "staff")]);
        cloudflare.edit_rules(HOME, Vec::clear);
        cloudflare.records.clear();
        edit(cloudflare.applications_mut());
        run(&mut cloudflare, &[at(NAME, "", "")]);
        assert_eq!(cloudflare.records.len(), 1);
        assert_eq!(locked(&cloudflare), closed);
    }
}

/// What protects the place is not known, so a remedy for an unprotected place would be wrong.
#[test]
fn a_record_alone_in_place_of_a_closed_rule_waits_while_access_cannot_be_read() {
    let mut cloudflare = cloudflare();
    settle(&mut cloudflare, &[at(NAME, "", "staff")]);
    cloudflare.access = AccessReading::Failed(AccessReadError::temporary("it hangs"));
    let before = cloudflare.clone();
    let plan = run(&mut cloudflare, &[alone("")]);
    assert_eq!((labels(&plan), cloudflare), (vec!["access_unknown"], before));
}
