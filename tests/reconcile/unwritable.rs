//! What is planned for a tunnel that cannot be written: a record without a rule goes where it only takes its name from
//! a wildcard's record.

use external_dns_cloudflare_tunnel_webhook::reconcile::reason::Reason;
use test_support::fake_cloudflare::{FakeCloudflare, HOME, tunnel_id};
use test_support::harness::{endpoint, published};

const NAME: &str = "a.example.com";

const PROXY: (&str, &str, &str) = ("*.example.com", "A", "192.0.2.50");

/// The record of `NAME` without its rule, as a write leaves it that failed between the two.
fn without_rule(foreign: &[(&str, &str, &str)]) -> FakeCloudflare {
    let mut cloudflare = FakeCloudflare::new(&[], foreign);
    cloudflare.run_loop(&[published(NAME, "http://web:80")], 1);
    cloudflare
}

/// The number of records that are left of `NAME` after a loop whose tunnel cannot be written.
fn records_left(mut cloudflare: FakeCloudflare, service: &str) -> usize {
    cloudflare.pass(600);
    let reason = Reason::TunnelFailed(tunnel_id(HOME), "no".to_owned());
    cloudflare.failed_tunnels.insert(tunnel_id(HOME), reason.clone());
    let plan = cloudflare.run_loop(&[published(NAME, service)], usize::MAX);
    let reasons: Vec<&Reason> = plan.refusals.iter().map(|refusal| &refusal.reason).collect();
    assert_eq!(reasons, [&reason]);
    assert!(plan.hosts.iter().all(|host| host.edits.is_empty()), "{:?}", plan.hosts);
    cloudflare.records.iter().filter(|record| *record.name == *NAME).count()
}

#[test]
fn a_record_without_a_rule_goes_only_where_another_record_would_lead_its_visitors_elsewhere() {
    let home = format!("{HOME}.cfargotunnel.com");
    let below = ("b.a.example.com", "A", "192.0.2.51");
    for (foreign, expected) in [
        (&[PROXY][..], 0),
        (&[], 1),
        (&[("*.example.com", "CNAME", &*home)], 1),
        // Other types than addresses and CNAMEs lead no visitor anywhere.
        (&[("*.example.com", "TXT", "v=spf1 -all")], 1),
        (&[("*.example.com", "TXT", "v=spf1 -all"), ("*.example.com", "CNAME", &*home)], 1),
        // The name exists either way (RFC 4592).
        (&[PROXY, below], 1),
    ] {
        assert_eq!(records_left(without_rule(foreign), "http://web:80"), expected, "{foreign:?}");
    }
}

/// Cloudflare rejected the rule after a failure had left the record.
#[test]
fn the_record_of_a_refused_rule_goes_only_where_another_record_would_lead_its_visitors_elsewhere() {
    for (foreign, expected) in [(&[PROXY][..], 0), (&[], 1)] {
        let mut cloudflare = without_rule(foreign);
        let wanted = [endpoint(NAME, &[("tunnel-service", "no service")])];
        cloudflare.pass(60);
        cloudflare.run_loop(&wanted, usize::MAX);
        let left = cloudflare.records.iter().filter(|record| *record.name == *NAME).count();
        assert_eq!(left, expected, "{foreign:?}");
    }
}

/// The answer to its creation was lost each time.
#[test]
fn a_record_that_is_published_without_a_rule_stays_whatever_becomes_of_its_endpoint() {
    let alone = endpoint(NAME, &[("tunnel-service", "none")]);
    let mut cloudflare = FakeCloudflare::new(&[], &[PROXY]);
    cloudflare.run_loop(&[alone], usize::MAX);
    cloudflare.run_loop(&[endpoint(NAME, &[("tunnel-service", "no service")])], usize::MAX);
    assert_eq!(cloudflare.records.iter().filter(|record| *record.name == *NAME).count(), 1);
}

/// Its comment may name a namespace, and have a remark.
#[test]
fn a_record_that_lost_its_rule_stays() {
    let mut cloudflare = without_rule(&[PROXY]);
    cloudflare.pass(3600);
    assert_eq!(records_left(cloudflare, "http://web:80"), 1);
}

#[test]
fn a_record_with_a_rule_stays_and_so_does_one_that_would_be_taken_over() {
    let mut cloudflare = FakeCloudflare::new(&[], &[PROXY]);
    cloudflare.run_loop(&[published(NAME, "http://web:80")], usize::MAX);
    assert_eq!(records_left(cloudflare, "http://new:80"), 1);
    let theirs = ("a.example.com", "A", "192.0.2.1");
    let cloudflare = FakeCloudflare::new(&[], &[PROXY, theirs]).adopting(&["all"]);
    assert_eq!(records_left(cloudflare, "http://web:80"), 1);
}

/// A second rule of its hostname and path was made by hand, so none of the two is ours.
#[test]
fn a_record_stays_while_two_rules_have_its_digest() {
    let mut cloudflare = FakeCloudflare::new(&[], &[PROXY]);
    cloudflare.run_loop(&[published(NAME, "http://web:80")], usize::MAX);
    cloudflare.edit_rules(HOME, |rules| {
        let twin = rules[0].replace("web", "twin");
        rules.insert(0, twin);
    });
    cloudflare.pass(60);
    let plan = cloudflare.run_loop(&[endpoint(NAME, &[("tunnel-service", "no service")])], usize::MAX);
    assert_eq!(plan.hosts, []);
}
