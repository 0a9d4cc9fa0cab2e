//! Which names are published, how they are written, and in which zone.

use cloudflare_emulator::Plan;
use external_dns_cloudflare_tunnel_webhook::reconcile::records;
use external_dns_cloudflare_tunnel_webhook::reconcile::snapshot::Snapshot;
use test_support::external_dns::Changes;
use test_support::fake_cloudflare::FakeCloudflare;
use test_support::harness::{Harness, published};

use crate::shared_account;
use crate::shared_account::settle;

/// The names of our records in a zone.
fn stamped(harness: &Harness, zone: &str) -> Vec<String> {
    let records = harness.cloudflare.records(zone).into_iter();
    records.filter(|record| shared_account::stamp(record).is_some()).map(|record| record.name).collect()
}

/// A DNSEndpoint arrives as it was written; ExternalDNS itself compares names in lower-case punycode.
#[test]
fn a_name_is_one_hostname_however_it_is_written() {
    for (label, spellings, written) in [
        ("upper case", ["Shop.Example.COM", "shop.example.com"], "shop.example.com"),
        ("a trailing dot", ["shop.example.com.", "shop.example.com"], "shop.example.com"),
        ("Unicode", ["Bücher.example.com", "xn--bcher-kva.example.com"], "xn--bcher-kva.example.com"),
        ("a Unicode wildcard", ["*.bücher.example.com.", "*.XN--bcher-kva.example.com"], {
            "*.xn--bcher-kva.example.com"
        }),
        ("underscores", ["_Sip._TLS.example.com", "_sip._tls.example.com"], "_sip._tls.example.com"),
    ] {
        let harness = Harness::new();
        let program = harness.start();
        let [first, second] = spellings.map(|spelling| [published(spelling, "http://web:80")]);
        settle(program.external_dns(), &harness.cloudflare, &first).expect(label);
        assert_eq!(stamped(&harness, &harness.zone), [written], "{label}");
        let rule = format!(r#"{{"hostname":"{written}","service":"http://web:80"}}"#);
        assert_eq!(harness.rules()[0], rule, "{label}");
        let changes = program.external_dns().run_loop(&second).expect(label);
        assert_eq!(changes, Changes::default(), "{label}: another spelling is no change");
        let both = spellings.map(|spelling| published(spelling, "http://web:80"));
        settle(program.external_dns(), &harness.cloudflare, &both).expect(label);
        assert_eq!(stamped(&harness, &harness.zone), [written], "{label}");
        let host = written.replace('*', "any");
        assert_eq!(harness.service_at(&host, "/"), "http://web:80", "{label}");
        settle(program.external_dns(), &harness.cloudflare, &[]).expect(label);
        assert_eq!((harness.rules().len(), harness.cnames().len()), (1, 0), "{label}");
    }
}

#[test]
fn a_zone_in_unicode_is_found_by_both_spellings() {
    let harness = Harness::new();
    let zone = harness.cloudflare.add_zone("xn--bcher-kva.example", Plan::Free);
    let program = harness.start_with(&[("DOMAIN_FILTER", "bücher.example")]);
    for name in ["shop.bücher.example", "shop.xn--bcher-kva.example"] {
        settle(program.external_dns(), &harness.cloudflare, &[published(name, "http://web:80")]).expect(name);
        assert_eq!(stamped(&harness, &zone), ["shop.xn--bcher-kva.example"], "{name}");
    }
}

/// A resolver asks the inner zone's name servers for the name: a record in the outer zone would answer no visitor.
#[test]
fn a_name_of_an_inner_zone_that_is_not_served_is_not_written_into_the_outer_one() {
    for label in ["left out by the filter", "of another account"] {
        let harness = Harness::new();
        let inner = harness.cloudflare.edit(|cloudflare| match label {
            "of another account" => {
                let account = cloudflare.add_account("other");
                cloudflare.add_zone_to(&account, "dev.example.com", Plan::Free)
            }
            _ => cloudflare.add_zone("dev.example.com", Plan::Free),
        });
        let filter = if label == "of another account" { "" } else { &*harness.zone };
        let program = harness.start_with(&[("ZONE_ID_FILTER", filter)]);
        let desired = ["web.dev.example.com", "dev.example.com", "web.example.com"]
            .map(|name| published(name, "http://web:80"));
        for _ in 0..2 {
            program.external_dns().run_loop(&desired).expect("refused by name");
        }
        assert_eq!(stamped(&harness, &inner), [""; 0], "{label}");
        assert_eq!(stamped(&harness, &harness.zone), ["web.example.com"], "{label}");
        assert_eq!(harness.rules().len(), 2, "{label}");
    }
}

/// An operator that brings a domain to Cloudflare publishes first and changes the name servers then.
#[test]
fn a_zone_that_is_pending_or_paused_is_written_and_told_of() {
    for (status, paused, told) in
        [("active", false, None), ("pending", false, Some("pending")), ("active", true, Some("paused"))]
    {
        let harness = Harness::new();
        harness.cloudflare.edit(|cloudflare| {
            let zone = cloudflare.zone_mut("example.com");
            (zone.status, zone.paused) = (status.to_owned(), paused);
        });
        let program = harness.start();
        let desired = [published("web.example.com", "http://web:80")];
        settle(program.external_dns(), &harness.cloudflare, &desired).expect("published");
        assert_eq!(stamped(&harness, &harness.zone), ["web.example.com"], "{status}");

        let mut reading = FakeCloudflare::new(&[], &[]).reading();
        let zone = &mut reading.zones[0].zone;
        (zone.status, zone.paused) = (status.into(), paused);
        let notes = records::records(&Snapshot::new(reading)).notes;
        let states: Vec<bool> =
            notes.iter().map(|note| told.is_some_and(|told| note.text.contains(told))).collect();
        assert_eq!(states, vec![true; usize::from(told.is_some())], "{status} {notes:?}");
    }
}
