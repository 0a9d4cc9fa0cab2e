//! `--registry=txt`: every change carries TXT records that say what the stamp says already, and none of them is stored.

use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Endpoint, Labels};
use test_support::external_dns::Changes;
use test_support::harness::published;

use crate::shared_account::{SharedAccount, stamp};

const HERITAGE: &str =
    "\"heritage=external-dns,external-dns/owner=default,external-dns/resource=ingress/shop/web\"";
const ENCRYPTED: &str = "\"n0nce/AAAA==\"";

/// The number of records with our stamp.
fn stamped(account: &SharedAccount) -> usize {
    let zones = [&account.harness.zone, &account.organisation];
    let records = zones.into_iter().flat_map(|zone| account.cloudflare().records(zone));
    records.filter(|record| stamp(record).is_some()).count()
}

/// The same endpoints, each with TXT records under the names of old and of new releases.
fn with_txt(endpoints: &[Endpoint], text: &str) -> Vec<Endpoint> {
    let txt = endpoints.iter().flat_map(|endpoint| {
        ["", "cname-"].map(|prefix| Endpoint {
            dns_name: format!("{prefix}{}", endpoint.dns_name),
            record_type: "TXT".to_owned(),
            targets: vec![text.to_owned()],
            labels: Labels::from_iter([("ownedRecord", &*endpoint.dns_name)]),
            ..endpoint.clone()
        })
    });
    endpoints.iter().cloned().chain(txt).collect()
}

#[test]
fn the_txt_records_of_the_registry_are_taken_off() {
    for text in [HERITAGE, ENCRYPTED] {
        let account = SharedAccount::new();
        let program = account.harness.start();
        let external_dns = program.external_dns();
        let adjusted =
            |service: &str| external_dns.adjust(&[published("web.example.com", service)]).expect("adjusted");
        let (desired, changed) = (adjusted("http://web:80"), adjusted("http://web2:80"));
        let before = account.harness.foreign_records();
        let [with_desired, with_changed] = [&desired, &changed].map(|endpoints| with_txt(endpoints, text));
        let is_txt = |endpoint: &Endpoint| endpoint.record_type == "TXT";
        let only_txt = with_desired.iter().filter(|endpoint| is_txt(endpoint)).cloned().collect();
        let steps = [
            Changes { create: with_desired.clone(), ..Changes::default() },
            // The TXT records of another format go, the hostname stays.
            Changes { delete: only_txt, ..Changes::default() },
            Changes { update_old: with_desired, update_new: with_changed.clone(), ..Changes::default() },
            Changes { delete: with_changed, ..Changes::default() },
        ];
        for (changes, published) in steps.into_iter().zip([1, 1, 1, 0]) {
            external_dns.apply(&changes).expect("done");
            assert_eq!(account.harness.foreign_records(), before);
            assert_eq!(stamped(&account), published);
            let shown = external_dns.records().expect("shown");
            assert_eq!((shown.len(), shown.iter().any(is_txt)), (published, false));
        }
    }
}
