//! What stands beside or below something protected: other names, other paths, records alone, other tunnels.

use super::*;

const WILDCARD: &str = "*.example.com";

fn alone(tunnel: &str) -> Endpoint {
    in_tunnel(endpoint(NAME, &[("tunnel-service", "none")]), tunnel)
}

fn in_tunnel(mut endpoint: Endpoint, tunnel: &str) -> Endpoint {
    if !tunnel.is_empty() {
        endpoint.provider_specific.push(Property::new("webhook/tunnel", tunnel));
    }
    endpoint
}

/// Kept by somebody's own application.
fn required(name: &str) -> Endpoint {
    let access = [("access-required", "true"), ("access-team-name", "my-team"), ("access-aud-tag", "theirs")];
    endpoint(name, &[&[("tunnel-service", "http://web:80")], &access[..]].concat())
}

/// How many rules there are without a check.
fn open_rules(cloudflare: &FakeCloudflare) -> usize {
    let rules = cloudflare.document(&tunnel_id(HOME)).rules().iter();
    rules.filter(|rule| !rule.requires_access() && !rule.service().starts_with("http_status:")).count()
}

/// The second tunnel has a person's rule for the name.
fn with_theirs_in_office() -> FakeCloudflare {
    let theirs = r#"{"hostname":"app.example.com","service":"http://theirs:80"}"#.to_owned();
    let mut cloudflare = cloudflare();
    let document = FakeCloudflare::new(&[theirs], &[]).document(&tunnel_id(HOME)).clone();
    let office = cloudflare.documents.keys().find(|id| **id != tunnel_id(HOME)).cloned();
    cloudflare.documents.insert(office.expect("two tunnels"), document);
    cloudflare
}

/// Whatever takes the record's requests, the wildcard's application turned strangers away from it.
#[test]
fn a_record_alone_below_a_wildcard_keeps_its_application_until_it_says_none_as_well() {
    let mut cloudflare = cloudflare();
    run(&mut cloudflare, &[at(WILDCARD, "", "staff"), alone("")]);
    let plan = run(&mut cloudflare, &[at(WILDCARD, "", OPEN), alone("")]);
    assert_eq!((labels(&plan), names(&cloudflare)), (vec!["still_protected"], vec![WILDCARD]));

    let opened =
        [at(WILDCARD, "", OPEN), endpoint(NAME, &[("tunnel-service", "none"), ("access-policy", OPEN)])];
    assert_eq!(labels(&run(&mut cloudflare, &opened)), [""; 0]);
    assert_eq!(names(&cloudflare), [""; 0]);
    assert_rest(&cloudflare, &opened);
}

#[test]
fn a_withdrawn_wildcard_leaves_its_application_over_a_record_alone() {
    let every = r#"{"path":"^/x","service":"http://theirs:80"}"#.to_owned();
    let mut cloudflare = FakeCloudflare::new(&[every], &[]).with_access(cloudflare().policies);
    run(&mut cloudflare, &[at(WILDCARD, "", "staff"), alone("")]);
    run(&mut cloudflare, &[alone("")]);
    assert_eq!(names(&cloudflare), [WILDCARD]);
}

/// The wildcard's rule turned strangers away in the first tunnel.
#[test]
fn a_record_alone_does_not_move_from_below_a_protected_wildcard_in_silence() {
    let mut cloudflare = with_theirs_in_office();
    run(&mut cloudflare, &[required(WILDCARD), alone("")]);
    for _ in 0..3 {
        let plan = run(&mut cloudflare, &[required(WILDCARD), alone("office")]);
        assert_eq!(labels(&plan), ["would_open"]);
    }
    assert_eq!(cloudflare.snapshot().led_to(NAME), Some(tunnel_id(HOME)));
}

/// Nothing else of its hostname is left behind.
#[test]
fn an_open_hostname_moves_from_below_a_protected_wildcard() {
    let mut cloudflare = cloudflare();
    run(&mut cloudflare, &[at(NAME, "", "")]);
    run(&mut cloudflare, &[required(WILDCARD), at(NAME, "", "")]);
    for _ in 0..3 {
        let plan = run(&mut cloudflare, &[required(WILDCARD), in_tunnel(at(NAME, "", ""), "office")]);
        assert!(!labels(&plan).contains(&"would_open"), "{:?}", plan.refusals);
    }
    assert_ne!(cloudflare.snapshot().led_to(NAME), Some(tunnel_id(HOME)));
}

/// The last snapshot does not show yet what it would be open beside.
#[test]
fn an_expression_that_says_none_is_published_together_with_a_protected_path() {
    let mut cloudflare = cloudflare();
    let open = [("tunnel-service", "http://web:80"), ("tunnel-path", "^/api"), ("access-policy", OPEN)];
    let desired = [at(NAME, "/p", "staff"), endpoint(NAME, &open)];
    assert_eq!(labels(&run(&mut cloudflare, &desired)), [""; 0]);
    assert_eq!((names(&cloudflare), open_rules(&cloudflare)), (vec!["app.example.com/p"], 1));
    run(&mut cloudflare, &desired);
    assert_rest(&cloudflare, &desired);
}

/// Its own rule takes the requests that the open rest had.
#[test]
fn a_path_that_comes_back_with_none_beside_an_open_rest_is_opened() {
    let mut cloudflare = cloudflare();
    run(&mut cloudflare, &[at(NAME, "", ""), at(NAME, "/p", "staff")]);
    run(&mut cloudflare, &[at(NAME, "", "")]);
    assert_eq!(names(&cloudflare), ["app.example.com/p"]);
    let opened = [at(NAME, "", OPEN), at(NAME, "/p", OPEN)];
    run(&mut cloudflare, &opened);
    assert_eq!(names(&cloudflare), [""; 0]);
    run(&mut cloudflare, &opened);
    assert_rest(&cloudflare, &opened);
}

/// It stands open already, and shows the word as everything does then.
#[test]
fn with_a_default_policy_a_name_that_a_wildcard_came_to_cover_is_told_and_opened_with_it() {
    let mut cloudflare = cloudflare();
    cloudflare.default_access_policy = vec!["staff".into()];
    run(&mut cloudflare, &[at(NAME, "", OPEN)]);
    let covered = [at(NAME, "", OPEN), at(WILDCARD, "", "staff")];
    run(&mut cloudflare, &covered);
    assert_eq!(labels(&run(&mut cloudflare, &covered)), ["still_protected"]);
    let opened = [at(NAME, "", OPEN), at(WILDCARD, "", OPEN)];
    assert_eq!(labels(&run(&mut cloudflare, &opened)), [""; 0]);
    assert_eq!(names(&cloudflare), [""; 0]);
    assert_rest(&cloudflare, &opened);
}

/// Somebody else's applications stand over them, and their rules turned strangers away.
#[test]
fn what_opens_beside_or_below_a_lock_counts_as_opening() {
    let name = |index: usize| format!("h{index}.example.com");
    let paths: Vec<Endpoint> = (0..6).map(|index| required(&name(index))).collect();
    for (protected, prefix) in [(paths, "/p"), (vec![required(WILDCARD)], "")] {
        let mut cloudflare = cloudflare();
        cloudflare.mass_deletion_limit = 2;
        run(&mut cloudflare, &protected);
        let opened = (0..6).map(|index| at(&name(index), prefix, OPEN));
        let plan = run(&mut cloudflare, &protected.iter().cloned().chain(opened).collect::<Vec<_>>());
        assert_eq!((labels(&plan), open_rules(&cloudflare)), (vec!["mass_opening"; 6], 0), "{prefix:?}");
    }
}

/// Its endpoint says so, and would say it for ever.
#[test]
fn with_a_default_policy_a_record_that_stands_open_shows_the_word_that_opens() {
    let mut cloudflare = cloudflare();
    cloudflare.default_access_policy = vec!["staff".into()];
    let record = endpoint(NAME, &[("tunnel-service", "none"), ("access-policy", OPEN)]);
    run(&mut cloudflare, std::slice::from_ref(&record));
    assert_eq!(cloudflare.records.len(), 1);
    assert_rest(&cloudflare, &[record]);
}
