//! What is to be done about applications before a plan is carried out.

use external_dns_cloudflare_tunnel_webhook::reconcile::plan::{ApplicationOperation, Preview};

use super::*;

fn previewed(cloudflare: &FakeCloudflare, desired: &[Endpoint]) -> Preview {
    cloudflare.preview(&cloudflare.changes(desired))
}

/// What is left to be done once the plan is carried out.
fn previewed_again(cloudflare: &mut FakeCloudflare, desired: &[Endpoint]) -> Preview {
    let changes = cloudflare.changes(desired);
    let plan = cloudflare.plan(&changes);
    assert!(cloudflare.apply(&plan, usize::MAX));
    cloudflare.preview(&changes)
}

/// In a word each, with the path.
fn work(preview: &Preview) -> Vec<(&'static str, &str)> {
    let word = |operation: &ApplicationOperation| match operation {
        ApplicationOperation::Create(_) => "create",
        ApplicationOperation::Replace(..) => "replace",
        ApplicationOperation::Delete(_) => "delete",
    };
    preview.work.iter().map(|work| (word(&work.operation), &*work.set_identifier)).collect()
}

fn with_service(mut endpoint: Endpoint, service: &str) -> Endpoint {
    for property in &mut endpoint.provider_specific {
        if &*property.name == "webhook/tunnel-service" {
            property.value = service.into();
        }
    }
    endpoint
}

fn two_policies() -> FakeCloudflare {
    FakeCloudflare::new(&[], &[])
        .with_access(vec![policy("staff", Decision::Allow), policy("board", Decision::Allow)])
}

#[test]
fn an_application_is_written_if_its_policies_change_and_not_if_the_service_does() {
    let mut cloudflare = two_policies();
    run(&mut cloudflare, &[at(NAME, "", "staff")]);
    let desired = [with_service(at(NAME, "", "staff"), "http://web:81")];
    let preview = previewed(&cloudflare, &desired);
    assert_eq!((work(&preview), preview.plan.is_empty()), (vec![], false));
    assert_eq!(work(&previewed(&cloudflare, &[at(NAME, "", "board")])), [("replace", "")]);
}

#[test]
fn each_withdrawn_place_is_told_with_its_path() {
    let mut cloudflare = two_policies();
    run(&mut cloudflare, &[at(NAME, "", "staff"), at(NAME, "/p", "staff")]);
    let desired = [at(NAME, "", "staff")];
    let first = previewed(&cloudflare, &desired);
    assert_eq!((work(&first), first.leaves_applications), (vec![], true), "the rule goes first");
    let again = previewed_again(&mut cloudflare, &desired);
    assert_eq!((work(&again), again.leaves_applications), (vec![("delete", "^/p(/|$)")], false));
}

/// The application outlived its record and its rule, which somebody deleted.
#[test]
fn an_application_that_is_left_over_is_used_again() {
    let mut cloudflare = two_policies();
    let desired = [at(NAME, "", "staff")];
    run(&mut cloudflare, &desired);
    let access = cloudflare.access.clone();
    cloudflare = two_policies();
    cloudflare.access = access;
    let preview = previewed(&cloudflare, &desired);
    assert_eq!(
        (work(&preview), preview.plan.is_empty(), preview.leaves_applications),
        (vec![], false, false)
    );
    run(&mut cloudflare, &desired);
    assert_eq!((names(&cloudflare), locked(&cloudflare)), (vec![NAME], vec![NAME.to_owned()]));
}

#[test]
fn what_stays_because_a_name_relies_on_it_is_told() {
    let mut cloudflare = two_policies();
    run(&mut cloudflare, &[at("*.example.com", "", "staff")]);
    cloudflare.edit_rules(HOME, |rules| {
        rules.insert(0, r#"{"hostname":"theirs.example.com","service":"http://theirs:80"}"#.to_owned())
    });
    let preview = previewed_again(&mut cloudflare, &[]);
    assert_eq!(work(&preview), []);
    let told: Vec<String> = preview.notes.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("stays, because \"theirs.example.com\" may take its requests"), "{told:?}");
}

/// The rules would not follow.
#[test]
fn no_application_of_an_object_is_written_where_one_of_its_rules_is_refused() {
    let mut cloudflare = two_policies();
    let desired = |access: &str| [at(NAME, "", access), at(NAME, "/p", access)];
    run(&mut cloudflare, &desired("staff"));
    assert_eq!(work(&previewed(&cloudflare, &desired("board"))), [("replace", ""), ("replace", "^/p(/|$)")]);
    cloudflare.edit_rules(HOME, |rules| {
        rules.insert(
            0,
            r#"{"hostname":"app.example.com","path":"^/p(?:/|$)","service":"http://theirs:80"}"#.to_owned(),
        )
    });
    let preview = previewed(&cloudflare, &desired("board"));
    let refused: Vec<_> =
        preview.plan.refusals.iter().map(|refusal| refusal.set_identifier.as_deref()).collect();
    assert_eq!((work(&preview), refused), (vec![], vec![Some(""), Some("^/p(/|$)")]));
}

#[test]
fn an_application_that_is_left_over_is_listed_with_its_path() {
    use external_dns_cloudflare_tunnel_webhook::reconcile::listing::{State, listing};
    let mut cloudflare = two_policies();
    run(&mut cloudflare, &[at(NAME, "", "staff"), at("b.example.com", "/p", "staff")]);
    let access = cloudflare.access.clone();
    cloudflare = two_policies();
    cloudflare.access = access;
    let entries = listing(&cloudflare.snapshot(), &cloudflare.settings());
    let left = entries.iter().filter(|entry| entry.state == State::ApplicationLeft);
    let left: Vec<_> = left.map(|entry| (&*entry.hostname, entry.path.as_deref())).collect();
    assert_eq!(left, [(NAME, None), ("b.example.com", Some("p"))]);
}

/// ExternalDNS knows endpoints by what is shown, and deletes those that it does not want.
#[test]
fn a_place_with_an_application_that_nothing_relies_on_is_shown_so_that_it_is_withdrawn() {
    use external_dns_cloudflare_tunnel_webhook::reconcile::records::records;
    let mut with_whole = two_policies();
    run(&mut with_whole, &[at(NAME, "", "staff")]);
    let shown = |cloudflare: &FakeCloudflare| {
        let shown = records(&cloudflare.snapshot(), &cloudflare.settings()).endpoints;
        shown.into_iter().map(|endpoint| endpoint.set_identifier).collect::<Vec<_>>()
    };
    let mut of_path = two_policies();
    run(&mut of_path, &[at(NAME, "/p", "staff")]);
    let whole = with_whole.applications()[0].clone();
    of_path.applications_mut().push(Application { id: "2".into(), audience: "other".into(), ..whole });
    assert_eq!(shown(&of_path), ["", "^/p(/|$)"]);
    // What is shown anyway is shown once.
    with_whole.edit_rules(HOME, Vec::clear);
    assert_eq!(shown(&with_whole), [""]);
}

#[test]
fn a_record_alone_gets_no_application() {
    let record = endpoint(NAME, &[("tunnel-service", "none"), ("access-policy", "staff")]);
    assert_eq!(work(&previewed(&two_policies(), &[record])), []);
}
