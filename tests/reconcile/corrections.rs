//! What becomes of a record that was stamped for rules, and not all of them were written.

use std::collections::BTreeSet;

use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use external_dns_cloudflare_tunnel_webhook::reconcile::plan::{PlannedEdit, RecordOperation, Stage};
use external_dns_cloudflare_tunnel_webhook::reconcile::stamp::{Digest, Stamp};
use test_support::fake_cloudflare::{FakeCloudflare, HOME, tunnel_id};
use test_support::harness::endpoint;

const NAME: &str = "a.example.com";
const DANGLING: &str = "zzz";

fn at(paths: &[&str]) -> Vec<Endpoint> {
    let service = ("tunnel-service", "http://web:80");
    let of = |path: &&str| match *path {
        "" => endpoint(NAME, &[service]),
        path => endpoint(NAME, &[service, ("tunnel-path", path)]),
    };
    paths.iter().map(of).collect()
}

fn published(mut cloudflare: FakeCloudflare, paths: &[&str]) -> FakeCloudflare {
    cloudflare.run_loop(&at(paths), usize::MAX);
    cloudflare
}

fn digests(paths: &[&str]) -> String {
    let of = |path: &&str| Digest::of(&tunnel_id(HOME), Some(*path).filter(|path| !path.is_empty()));
    paths.iter().map(of).collect::<BTreeSet<_>>().iter().map(ToString::to_string).collect()
}

/// What is written to the hostname's records when only the edits at these paths were written: the claims, a comment
/// that is no stamp, or a deletion.
fn corrected(cloudflare: &FakeCloudflare, desired: &[Endpoint], written: &[&str]) -> Vec<String> {
    let plan = cloudflare.plan(&cloudflare.changes(desired));
    let host = plan.host(NAME).unwrap_or_else(|| panic!("{plan:?}"));
    let mut stamped = cloudflare.clone();
    stamped.apply_stage(&plan, Stage::RecordsBefore, usize::MAX);
    let records = stamped.records.iter().filter(|record| Stamp::of(record).is_some());
    let ids: Vec<_> = records.map(|record| record.id.clone()).collect();
    let is_written = |one: &PlannedEdit| written.contains(&one.edit.path().unwrap_or_default());
    let of = |operation: RecordOperation| match operation {
        RecordOperation::Patch(patch) => {
            let comment = patch.comment.expect("only comments are corrected");
            Stamp::parse(&comment).map_or_else(|| comment.into(), |stamp| stamp.claims.to_string())
        }
        RecordOperation::Delete { .. } => "deleted".to_owned(),
        RecordOperation::Post(record) => panic!("{record:?}"),
    };
    host.corrections(is_written, &ids, &cloudflare.records).into_iter().map(of).collect()
}

#[test]
fn a_new_record_goes_if_none_of_its_rules_was_written_and_else_names_the_written_ones() {
    let empty = FakeCloudflare::new(&[], &[]);
    let (wanted, all) = (at(&["", "^/b$"]), &["", "^/b$"][..]);
    assert_eq!(corrected(&empty, &wanted, &[]), ["deleted"]);
    assert_eq!(corrected(&empty, &wanted, &["^/b$"]), [digests(&["^/b$"])]);
    assert_eq!(corrected(&empty, &wanted, all), [""; 0]);
}

/// A TXT record of the registry names the former owner. Without it and without a stamp, the record would have no owner.
#[test]
fn a_record_that_is_taken_over_gets_its_comment_back_unless_a_record_was_deleted_for_the_takeover() {
    let mut theirs = FakeCloudflare::new(&[], &[]).adopting(&["all", "owner=other"]);
    theirs.add(NAME, "CNAME", &tunnel_id(HOME).hostname(), "Jo's");
    assert_eq!(corrected(&theirs, &at(&[""]), &[]), ["Jo's"]);
    theirs.add("cname-a.example.com", "TXT", "\"heritage=external-dns,external-dns/owner=other\"", "");
    assert_eq!(corrected(&theirs, &at(&[""]), &[]), [""], "a stamp without claims");
}

#[test]
fn a_refused_rule_leaves_the_claims_of_the_rules_from_before_the_request() {
    let before = published(FakeCloudflare::new(&[], &[]), &["", "^/b$"]);
    // A new path, in place of another one.
    let desired = at(&["", "^/c$"]);
    assert_eq!(corrected(&before, &desired, &[]), [digests(&["", "^/b$"])]);
    assert_eq!(corrected(&before, &desired, &["^/b$"]), [digests(&[""])]);
    assert_eq!(corrected(&before, &desired, &["^/c$"]), [""; 0], "the stamp names all three");
    // Of two rules that are deleted, one is left.
    let fewer = at(&["^/d$"]);
    assert_eq!(corrected(&before, &fewer, &["^/d$", "^/b$"]), [digests(&["", "^/d$"])]);
    assert_eq!(corrected(&before, &fewer, &["^/d$"]), [""; 0]);
    assert_eq!(corrected(&before, &fewer, &["^/d$", "^/b$", ""]), [""; 0]);
    // The stamp names the rule, whichever service it has.
    let mut other_service = at(&["", "^/b$"]);
    other_service[0] = endpoint(NAME, &[("tunnel-service", "http://new:80")]);
    assert_eq!(corrected(&before, &other_service, &[]), [""; 0]);
}

/// The comment from before the request names the deleted rule, so it would make a foreign rule of that path ours.
#[test]
fn a_record_whose_only_rule_was_deleted_does_not_get_its_former_comment_back() {
    let before = published(FakeCloudflare::new(&[], &[]), &[""]);
    assert_eq!(corrected(&before, &at(&["^/b$"]), &[""]), [""], "a stamp without claims");
}

/// Another instance may be about to write its rule.
#[test]
fn a_digest_without_a_rule_stays() {
    let mut before = published(FakeCloudflare::new(&[], &[]), &[""]);
    before.records[0].comment = format!("{}{DANGLING}", before.records[0].comment).into();
    assert_eq!(corrected(&before, &at(&["", "^/b$"]), &[]), [format!("{}{DANGLING}", digests(&[""]))]);
}

#[test]
fn a_record_is_not_kept_for_a_foreign_rule_alone_while_a_rule_of_ours_is_there() {
    let foreign = format!(r#"{{"hostname":"{NAME}","path":"^/theirs$","service":"http://theirs:80"}}"#);
    let before = published(FakeCloudflare::new(&[foreign], &[]), &[""]);
    let plan = before.plan(&before.changes(&[]));
    let host = plan.host(NAME).expect("its rule is deleted");
    // Only the stage after the deletion releases the record.
    let [RecordOperation::Patch(released)] = &host.operations_after[..] else { panic!("{host:?}") };
    assert!(
        host.operations_before.is_empty()
            && released.comment.as_ref().is_some_and(|one| one.contains("rules=~"))
    );
    assert_eq!(corrected(&before, &[], &[]), [""; 0]);
}
