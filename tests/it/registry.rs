//! `OWNERSHIP=txt`: ExternalDNS's TXT records are stored as they are, shown with their hostname, and go with it.

use cloudflare_emulator::{Fault, Matcher, Plan, Record, Refusal};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Changes, Endpoint, Labels};
use external_dns_cloudflare_tunnel_webhook::reconcile::stamp::TxtStamp;
use serde_json::json;
use test_support::external_dns::{ExternalDns, Registry, TXT, TXT_BELOW, TxtNames};
use test_support::harness::{Harness, Program, endpoint, published};

use crate::shared_account::{SharedAccount, settle};

const STORED: [(&str, &str); 1] = [("OWNERSHIP", "txt")];

fn start(harness: &Harness, registry: Registry) -> (Program, ExternalDns) {
    let program = harness.start_with(&STORED);
    let external_dns = program.external_dns().with_registry(registry);
    (program, external_dns)
}

fn path(name: &str, prefix: &str, object: &str) -> Endpoint {
    let mut endpoint = endpoint(name, &[("tunnel-service", "http://web:80"), ("tunnel-path-prefix", prefix)]);
    endpoint.labels.set("resource", object);
    endpoint
}

/// The stored TXT records of a zone: name and content.
fn txts_in(harness: &Harness, zone: &str) -> Vec<(String, String)> {
    let is_stored = |record: &Record| record.comment.as_deref().and_then(TxtStamp::parse).is_some();
    let records = harness.cloudflare.records(zone).into_iter().filter(is_stored);
    let mut txts: Vec<(String, String)> = records.map(|record| (record.name, record.content)).collect();
    txts.sort_unstable();
    txts
}

fn txts(harness: &Harness) -> Vec<(String, String)> {
    txts_in(harness, &harness.zone)
}

fn names(harness: &Harness) -> Vec<String> {
    txts(harness).into_iter().map(|(name, _)| name).collect()
}

fn heritage(object: &str) -> String {
    format!("\"heritage=external-dns,external-dns/owner=default,external-dns/resource={object}\"")
}

/// A TXT record that somebody else made, without any comment.
fn add_txt(harness: &Harness, name: &str, content: &str, comment: &str) {
    let record = json!({"name": name, "type": "TXT", "content": content, "ttl": 300, "comment": comment});
    harness.cloudflare.add_record(&harness.zone, record).expect("Cloudflare takes it");
}

/// One endpoint as ExternalDNS asks for it, and a TXT record of its registry that says `text`.
fn with_txt(external_dns: ExternalDns, desired: &Endpoint, name: &str, text: &str) -> Vec<Endpoint> {
    let mut endpoints = external_dns.adjust(std::slice::from_ref(desired)).expect("adjusted");
    let data = endpoints.first_mut().expect("one");
    data.labels.set("owner", "default");
    let txt = Endpoint {
        dns_name: name.to_owned(),
        record_type: "TXT".to_owned(),
        targets: vec![format!("\"{text}\"")],
        labels: Labels::from_iter([("ownedRecord", &*data.dns_name)]),
        ..data.clone()
    };
    endpoints.push(txt);
    endpoints
}

#[test]
fn a_txt_record_comes_changes_and_goes_with_its_hostname_in_one_transaction() {
    let account = SharedAccount::new();
    let (_program, external_dns) = start(&account.harness, TXT);
    let web = |object: &str, service: &str| {
        let mut endpoint = published("Web.example.com", service);
        endpoint.labels.set("resource", object);
        [endpoint]
    };
    let steps = [
        (&web("ingress/shop/web", "http://web:80")[..], Some("ingress/shop/web")),
        (&web("service/shop/new", "http://new:80"), Some("service/shop/new")),
        (&[], None),
    ];
    for (desired, object) in steps {
        account.cloudflare().take_calls();
        external_dns.run_loop(desired).expect("done");
        let calls = account.cloudflare().take_calls();
        assert_eq!(calls.iter().filter(|call| call.path.ends_with("/batch")).count(), 1, "{calls:#?}");
        let expected: Vec<(String, String)> =
            object.map(|object| ("cname-web.example.com".to_owned(), heritage(object))).into_iter().collect();
        assert_eq!(txts(&account.harness), expected);
        settle(external_dns, account.cloudflare(), desired).expect("nothing is left to do");
    }
    assert_eq!(account.violations(), [""; 0]);
}

#[test]
fn one_txt_record_serves_all_paths_of_a_hostname_and_goes_with_the_last() {
    let harness = Harness::new();
    let (_program, external_dns) = start(&harness, TXT);
    let paths =
        ["/a", "/b", "/c"].map(|prefix| path("web.example.com", prefix, &format!("ingress{prefix}/x")));
    for count in [3, 2, 1] {
        settle(external_dns, &harness.cloudflare, &paths[..count]).expect("it comes to rest");
        assert_eq!(names(&harness), ["cname-web.example.com"], "{count} paths");
        let shown = external_dns.records().expect("shown");
        let (txts, data): (Vec<&Endpoint>, Vec<&Endpoint>) =
            shown.iter().partition(|endpoint| endpoint.record_type == "TXT");
        let identifiers = |endpoints: &[&Endpoint]| -> Vec<String> {
            endpoints.iter().map(|endpoint| endpoint.set_identifier.clone()).collect()
        };
        assert_eq!(identifiers(&txts), identifiers(&data), "once for each path");
        assert_eq!(data.len(), count);
    }
    settle(external_dns, &harness.cloudflare, &[]).expect("it comes to rest");
    assert_eq!(harness.cloudflare.records(&harness.zone).len(), 0);
}

/// A path whose rule was lost by hand is shown with a set identifier of its own, by which ExternalDNS looks its TXT up.
#[test]
fn a_lost_path_is_shown_with_its_txt_record_and_withdrawn() {
    let harness = Harness::new();
    let (_program, external_dns) = start(&harness, TXT);
    settle(external_dns, &harness.cloudflare, &[path("web.example.com", "/a", "ingress/a/a")])
        .expect("published");
    harness
        .cloudflare
        .put_configuration(&harness.tunnel, r#"{"ingress":[{"service":"http_status:404"}]}"#)
        .unwrap();
    let shown = external_dns.records().expect("shown");
    let lost: Vec<&str> = shown
        .iter()
        .filter(|endpoint| endpoint.set_identifier.starts_with("lost:"))
        .map(|endpoint| &*endpoint.record_type)
        .collect();
    assert_eq!(lost, ["TXT", "CNAME"]);
    settle(external_dns, &harness.cloudflare, &[]).expect("it comes to rest");
    assert_eq!(harness.cloudflare.records(&harness.zone).len(), 0);
}

#[test]
fn an_apex_and_a_wildcard_have_their_txt_records_below_them_with_the_prefix_of_the_hint() {
    let account = SharedAccount::new();
    let (_program, external_dns) = start(&account.harness, TXT_BELOW);
    let desired =
        [published("example.com", "http://web:80"), published("*.apps.example.com", "http://web:80")];
    settle(external_dns, account.cloudflare(), &desired).expect("it comes to rest");
    assert_eq!(names(&account.harness), ["cname-x.*.apps.example.com", "cname-x.example.com"]);
    settle(external_dns, account.cloudflare(), &[]).expect("it comes to rest");
    assert_eq!(account.violations(), [""; 0], "the record for mail at the apex stays too");
    assert_eq!(names(&account.harness), [""; 0]);
}

#[test]
fn the_default_name_for_a_wildcard_is_stored() {
    let account = SharedAccount::new();
    let (_program, external_dns) = start(&account.harness, TXT);
    settle(external_dns, account.cloudflare(), &[published("*.apps.example.com", "http://web:80")])
        .expect("at rest");
    assert_eq!(names(&account.harness), ["cname-*.apps.example.com"]);
}

/// Without a prefix the apex has its TXT record beside the zone. Refused, it costs no write and stops no other; and
/// what was published before, without TXT records, can still be withdrawn.
#[test]
fn a_hostname_whose_txt_record_fits_in_no_zone_is_refused_with_a_hint_and_can_be_withdrawn() {
    let harness = Harness::new();
    let apex = published("example.com", "http://web:80");
    let program = harness.start();
    settle(program.external_dns(), &harness.cloudflare, std::slice::from_ref(&apex)).expect("at rest");
    drop(program);

    let (_program, external_dns) = start(&harness, TXT);
    let changed = published("example.com", "http://new:80");
    let desired = [changed, published("web.example.com", "http://web:80")];
    external_dns.run_loop(&desired).expect("the rest is done");
    assert_eq!(names(&harness), ["cname-web.example.com"]);
    assert!(
        harness.rules().iter().any(|rule| rule.contains("\"example.com\"") && rule.contains("http://web:80"))
    );
    harness.cloudflare.take_calls();
    external_dns.run_loop(&desired).expect("it is asked for again");
    assert_eq!(harness.cloudflare.count_calls().writes, 0);

    settle(external_dns, &harness.cloudflare, &desired[1..]).expect("it is withdrawn");
    assert_eq!(harness.cnames().len(), 1);
}

/// DNS holds 255 bytes in a string, ExternalDNS joins nothing and takes off one pair of quotes.
#[test]
fn long_text_is_stored_in_strings_and_shown_as_one() {
    let harness = Harness::new();
    let (_program, external_dns) = start(&harness, TXT);
    let object = format!("ingress/{}/{}", "n".repeat(200), "w".repeat(200));
    let desired = [path("web.example.com", "/a", &object)];
    settle(external_dns, &harness.cloudflare, &desired).expect("it comes to rest");
    let (_, content) = txts(&harness).remove(0);
    assert!(content.contains("\" \""), "{content}");
    let shown = external_dns.records().expect("shown");
    let txt = shown.iter().find(|endpoint| endpoint.record_type == "TXT").expect("it is shown");
    assert_eq!(txt.targets, [heritage(&object)]);
    assert_eq!((txt.record_ttl, &txt.provider_specific, &txt.labels), (0, &Vec::new(), &Labels::default()));
}

/// Encrypted, the text tells nothing and is new each time ExternalDNS writes it.
#[test]
fn encrypted_text_is_replaced_in_place_and_that_of_a_refused_endpoint_never_written() {
    let account = SharedAccount::new();
    let (_program, external_dns) = start(&account.harness, TXT);
    let (name, web) = ("cname-web.example.com", published("web.example.com", "http://web:80"));
    let first = with_txt(external_dns, &web, name, "n0nce/AAAA==");
    external_dns.apply(&Changes { create: first.clone(), ..Changes::default() }).expect("done");
    let id = |account: &SharedAccount| {
        let records = account.cloudflare().records(&account.harness.zone);
        records.into_iter().find(|record| record.name == name).expect("it is stored").id
    };
    let before = id(&account);
    let second = with_txt(external_dns, &web, name, "0ther/BBBB==");
    let update = Changes { update_old: first, update_new: second, ..Changes::default() };
    external_dns.apply(&update).expect("done");
    assert_eq!(txts(&account.harness), [(name.to_owned(), "\"0ther/BBBB==\"".to_owned())]);
    assert_eq!(id(&account), before);

    account.cloudflare().take_calls();
    let broken = published("web.example.com", "http://web:80/path");
    for (desired, name) in
        [(&broken, name), (&published("hand.example.com", "http://web:80"), "cname-hand.example.com")]
    {
        for text in ["third/CCCC==", "fourth/DDDD=="] {
            let update_new = with_txt(external_dns, desired, name, text);
            external_dns.apply(&Changes { update_new, ..Changes::default() }).expect("refused by name");
        }
    }
    assert_eq!(account.cloudflare().count_calls().writes, 0);
    assert_eq!(account.violations(), [""; 0]);
}

/// Up to 0.17 each record had a second one, called like the record itself.
#[test]
fn both_names_of_an_old_external_dns_are_stored() {
    let harness = Harness::new();
    let old = Registry::Txt(TxtNames { prefix: "", untyped_too: true });
    let (_program, external_dns) = start(&harness, old);
    let desired = [published("web.example.com", "http://web:80")];
    settle(external_dns, &harness.cloudflare, &desired).expect("it comes to rest");
    assert_eq!(names(&harness), ["cname-web.example.com", "web.example.com"]);
    settle(external_dns, &harness.cloudflare, &[]).expect("it comes to rest");
    assert_eq!(harness.cloudflare.records(&harness.zone).len(), 0);
}

#[test]
fn txt_records_of_others_are_neither_shown_nor_touched_and_ours_stands_beside_them() {
    let other = "\"heritage=external-dns,external-dns/owner=other,external-dns/resource=ingress/x/y\"";
    let table = [
        ("text without any owner", "\"v=spf1 -all\"", ""),
        ("another owner's, unstamped", other, ""),
        ("another owner's, stamped", other, &*TxtStamp::new("other", "web.example.com").render("", 100)),
        (
            "ours by text, another's by stamp",
            &heritage("ingress/x/y"),
            "external-dns owner=other txt=00000000",
        ),
        (
            "ours, for another hostname",
            &heritage("ingress/x/y"),
            &TxtStamp::new("default", "b.test").render("", 100),
        ),
    ];
    for (label, content, comment) in table {
        let harness = Harness::new();
        add_txt(&harness, "cname-web.example.com", content, comment);
        let before = harness.cloudflare.records(&harness.zone);
        let (_program, external_dns) = start(&harness, TXT);
        let desired = [published("web.example.com", "http://web:80")];
        settle(external_dns, &harness.cloudflare, &desired).expect(label);
        let shown = external_dns.records().expect("shown");
        let shown: Vec<&[String]> = shown
            .iter()
            .filter(|endpoint| endpoint.record_type == "TXT")
            .map(|endpoint| &*endpoint.targets)
            .collect();
        assert_eq!(shown, [[heritage("ingress/shop/web")]], "{label}");
        settle(external_dns, &harness.cloudflare, &[]).expect(label);
        assert_eq!(harness.cloudflare.records(&harness.zone), before, "{label}");
    }
}

/// Left by another provider, or by a program whose comments somebody took away.
#[test]
fn an_unstamped_txt_record_of_our_owner_or_with_the_very_same_text_is_taken_over() {
    let same = heritage("ingress/shop/web");
    let table = [
        ("the very same text", same.clone(), "", None),
        ("without quotes", same.trim_matches('"').to_owned(), "", None),
        ("with a human's comment", same.clone(), "ask Jo", Some(" | ask Jo")),
        ("of our owner, for another object", heritage("service/old/web"), "", None),
    ];
    for (label, content, comment, remark) in table {
        let harness = Harness::new();
        add_txt(&harness, "cname-web.example.com", &content, comment);
        let id = harness.cloudflare.records(&harness.zone)[0].id.clone();
        let (_program, external_dns) = start(&harness, TXT);
        let desired = [published("web.example.com", "http://web:80")];
        settle(external_dns, &harness.cloudflare, &desired).expect(label);
        let records = harness.cloudflare.records(&harness.zone);
        let txts: Vec<&Record> = records.iter().filter(|record| record.kind == "TXT").collect();
        assert_eq!(txts.len(), 1, "{label}");
        assert_eq!(
            (&txts[0].id, txts[0].content.trim_matches('"')),
            (&id, same.trim_matches('"')),
            "{label}"
        );
        let comment = txts[0].comment.as_deref().unwrap_or_default();
        assert!(comment.ends_with(remark.unwrap_or_default()), "{label}: {comment}");
        settle(external_dns, &harness.cloudflare, &[]).expect(label);
        assert_eq!(harness.cloudflare.records(&harness.zone).len(), 0, "{label}");
    }
}

/// Cloudflare takes no second record that says the same, so what stands there is taken over although ours is there too.
#[test]
fn a_text_that_stands_there_already_is_taken_over_instead_of_written_again() {
    let harness = Harness::new();
    let (_program, external_dns) = start(&harness, TXT);
    let web = |object: &str, service: &str| {
        let mut endpoint = published("web.example.com", service);
        endpoint.labels.set("resource", object);
        [endpoint]
    };
    settle(external_dns, &harness.cloudflare, &web("ingress/old/web", "http://old:80")).expect("at rest");
    add_txt(&harness, "cname-web.example.com", &heritage("ingress/new/web"), "");
    settle(external_dns, &harness.cloudflare, &web("ingress/new/web", "http://new:80")).expect("at rest");
    assert!(harness.rules()[0].contains("http://new:80"), "{:?}", harness.rules());
    assert!(harness.foreign_records().is_empty());
    settle(external_dns, &harness.cloudflare, &[]).expect("at rest");
    assert_eq!(harness.cloudflare.records(&harness.zone).len(), 0);
}

/// Two clusters with two owners.
#[test]
fn two_owners_in_one_zone_do_not_see_each_other() {
    let harness = Harness::new();
    let (_program, external_dns) = start(&harness, TXT);
    let other_tunnel = harness.cloudflare.add_tunnel("other");
    let other =
        harness.start_with(&[("OWNERSHIP", "txt"), ("OWNER_ID", "other"), ("CF_TUNNEL_ID", &other_tunnel)]);
    let mut theirs = with_txt(
        other.external_dns(),
        &published("b.example.com", "http://b:80"),
        "cname-b.example.com",
        "x",
    );
    theirs[0].labels.set("owner", "other");
    theirs[1].targets = vec![heritage("ingress/x/b").replace("owner=default", "owner=other")];
    other.external_dns().apply(&Changes { create: theirs, ..Changes::default() }).expect("done");
    let before = harness.cloudflare.records(&harness.zone);

    let desired = [published("a.example.com", "http://a:80")];
    settle(external_dns, &harness.cloudflare, &desired).expect("it comes to rest");
    assert!(external_dns.records().expect("shown").iter().all(|endpoint| endpoint.dns_name.contains("a.")));
    assert_eq!(other.external_dns().records().expect("shown").len(), 2);
    settle(external_dns, &harness.cloudflare, &[]).expect("it comes to rest");
    assert_eq!(harness.cloudflare.records(&harness.zone), before);
}

/// Two clusters with the same owner by mistake: the hostname is the one's whose tunnel its record leads to.
#[test]
fn the_txt_record_of_another_instance_with_our_owner_is_left_alone() {
    let harness = Harness::new();
    let elsewhere = harness.cloudflare.add_tunnel("elsewhere");
    let other = harness.start_with(&[("OWNERSHIP", "txt"), ("CF_TUNNEL_ID", &elsewhere)]);
    let desired = [published("web.example.com", "http://web:80")];
    settle(other.external_dns().with_registry(TXT), &harness.cloudflare, &desired).expect("theirs");
    let before = harness.cloudflare.records(&harness.zone);

    let mut ours = desired;
    ours[0].labels.set("resource", "ingress/ours/web");
    for variables in [&STORED[..], &[]] {
        let program = harness.start_with(variables);
        program.external_dns().with_registry(TXT).run_loop(&ours).expect("refused by name");
        assert_eq!(harness.cloudflare.records(&harness.zone), before, "{variables:?}");
    }
}

#[test]
fn a_txt_record_that_was_lost_comes_back() {
    let harness = Harness::new();
    let (_program, external_dns) = start(&harness, TXT);
    let desired = ["a.example.com", "b.example.com"].map(|name| published(name, "http://web:80"));
    settle(external_dns, &harness.cloudflare, &desired).expect("it comes to rest");
    let before = txts(&harness);
    for lost in ["cname-a.example.com", "cname-b.example.com"] {
        let records = harness.cloudflare.records(&harness.zone);
        let id = &records.iter().find(|record| record.name == lost).expect("it is stored").id;
        harness
            .cloudflare
            .edit(|cloudflare| cloudflare.delete_record(&harness.zone, id))
            .expect("it is there");
        settle(external_dns, &harness.cloudflare, &desired).expect("it comes to rest");
        assert_eq!(txts(&harness), before, "{lost}");
    }
}

#[test]
fn ownership_can_be_switched_in_both_directions() {
    let account = SharedAccount::new();
    let all =
        ["a.example.com", "b.example.com", "c.example.com"].map(|name| published(name, "http://web:80"));
    let program = account.harness.start();
    settle(program.external_dns().with_registry(TXT), account.cloudflare(), &all[..2]).expect("at rest");
    assert_eq!(names(&account.harness), [""; 0]);
    drop(program);

    // As soon as there is one, ExternalDNS asks for the others.
    let (program, external_dns) = start(&account.harness, TXT);
    settle(external_dns, account.cloudflare(), &all).expect("at rest");
    assert_eq!(
        names(&account.harness),
        ["cname-a.example.com", "cname-b.example.com", "cname-c.example.com"]
    );
    drop(program);

    // They go with whatever is written next, at the latest with the hostname.
    let program = account.harness.start();
    let external_dns = program.external_dns().with_registry(TXT);
    settle(external_dns, account.cloudflare(), &all).expect("at rest");
    let changed = [published("a.example.com", "http://new:80"), all[1].clone()];
    settle(external_dns, account.cloudflare(), &changed).expect("at rest");
    assert_eq!(names(&account.harness), ["cname-b.example.com"]);
    settle(external_dns, account.cloudflare(), &[]).expect("at rest");
    assert_eq!(names(&account.harness), [""; 0]);
    assert_eq!(account.violations(), [""; 0]);
}

#[test]
fn a_noop_registry_by_mistake_deletes_nothing_foreign() {
    let account = SharedAccount::new();
    let desired = [published("web.example.com", "http://web:80")];
    let (_program, external_dns) = start(&account.harness, TXT);
    settle(external_dns, account.cloudflare(), &desired).expect("at rest");
    add_txt(
        &account.harness,
        "cname-else.example.com",
        &heritage("ingress/x/y").replace("=default", "=other"),
        "",
    );
    let before = account.harness.foreign_records();
    let noop = external_dns.with_registry(Registry::Noop);
    settle(noop, account.cloudflare(), &desired).expect("at rest");
    settle(noop, account.cloudflare(), &[]).expect("at rest");
    assert_eq!(account.harness.foreign_records(), before);
    assert_eq!(names(&account.harness), [""; 0]);
}

/// ExternalDNS's registry puts its owner on everything that exists already.
#[test]
fn a_deletion_and_an_update_without_an_owner_are_refused_and_stop_no_other() {
    let harness = Harness::new();
    let (_program, external_dns) = start(&harness, TXT);
    let desired =
        ["a.example.com", "b.example.com", "c.example.com"].map(|name| published(name, "http://web:80"));
    settle(external_dns, &harness.cloudflare, &desired).expect("at rest");
    let unowned = |name: &str, service: &str| {
        let mut endpoints = external_dns.adjust(&[published(name, service)]).expect("adjusted");
        endpoints[0].labels = Labels::default();
        endpoints
    };
    let mut delete = unowned("b.example.com", "http://web:80");
    let mut owned = unowned("c.example.com", "http://web:80");
    owned[0].labels.set("owner", "default");
    delete.append(&mut owned);
    let changes = Changes {
        create: unowned("d.example.com", "http://web:80"),
        update_old: unowned("a.example.com", "http://web:80"),
        update_new: unowned("a.example.com", "http://new:80"),
        delete,
    };
    external_dns.apply(&changes).expect("the rest is done");
    let hostnames: Vec<String> = harness.cnames().into_iter().map(|(name, ..)| name).collect();
    assert_eq!(hostnames, ["a.example.com", "b.example.com", "d.example.com"]);
    assert!(harness.rules().iter().all(|rule| !rule.contains("http://new:80")), "{:?}", harness.rules());
    assert_eq!(names(&harness), ["cname-a.example.com", "cname-b.example.com"]);
}

/// A zone inside a zone: the TXT record of the inner one's apex is in the outer one.
#[test]
fn a_txt_record_in_another_zone_is_never_there_without_its_hostname() {
    let apex = [published("shop.example.com", "http://shop:80")];
    let web = published("web.example.com", "http://web:80");
    let with_apex = [web.clone(), apex[0].clone()];
    let without = [web];
    for (label, from, to) in [("created", &without[..], &with_apex[..]), ("deleted", &with_apex, &without)] {
        for (nth, then) in [(1, from), (2, from), (1, to), (2, to)] {
            let harness = Harness::new();
            let inner = harness.cloudflare.add_zone("shop.example.com", Plan::Free);
            let (program, external_dns) = start(&harness, TXT);
            settle(external_dns, &harness.cloudflare, from).expect("the harness is set");
            for nth in nth..nth + 10 {
                harness.cloudflare.fault(Matcher::batch(), nth, Fault::Reset);
            }
            assert_eq!(external_dns.run_loop(to).err(), Some(503), "{label}, batch {nth} fails");
            harness.cloudflare.clear_faults();
            drop(program);
            let (records, outer) = (harness.cloudflare.records(&inner).len(), names(&harness));
            assert!(
                records == 1 || !outer.contains(&"cname-shop.example.com".to_owned()),
                "{label}, batch {nth} failed: nobody will ask for {outer:?} again"
            );

            let (_program, external_dns) = start(&harness, TXT);
            settle(external_dns, &harness.cloudflare, then).expect(label);
            let mut expected = vec!["cname-web.example.com"];
            expected.extend((then.len() == 2).then_some("cname-shop.example.com"));
            expected.sort_unstable();
            assert_eq!(names(&harness), expected, "{label}, batch {nth} failed");
            assert_eq!(txts_in(&harness, &inner), []);
        }
    }
}

#[test]
fn a_txt_record_that_cloudflare_refuses_in_another_zone_stops_no_other_hostname() {
    let harness = Harness::new();
    harness.cloudflare.add_zone("shop.example.com", Plan::Free);
    let disliked = Refusal::new(400, 9041, "no");
    harness
        .cloudflare
        .edit(|cloudflare| cloudflare.whims_mut().dislike_name("cname-shop.example.com", disliked));
    let (_program, external_dns) = start(&harness, TXT);
    let desired = ["shop.example.com", "web.example.com", "a.shop.example.com"]
        .map(|name| published(name, "http://web:80"));
    external_dns.run_loop(&desired).expect("the rest is done");
    assert_eq!(names(&harness), ["cname-web.example.com"]);
    assert_eq!(harness.rules().len(), 4, "all three are published");
    harness.cloudflare.take_calls();
    external_dns.run_loop(&desired).expect("it is asked for again");
    assert_eq!(harness.cloudflare.count_calls().writes, 0);
    settle(external_dns, &harness.cloudflare, &[]).expect("all are withdrawn");
    assert_eq!(names(&harness), [""; 0]);
}

#[test]
fn a_loop_without_changes_makes_the_same_calls_in_both_ownerships() {
    let desired = ["a.example.com", "b.example.com"].map(|name| published(name, "http://web:80"));
    let calls = [&[][..], &STORED].map(|variables| {
        let harness = Harness::new();
        let program = harness.start_with(variables);
        let external_dns = program.external_dns().with_registry(TXT);
        settle(external_dns, &harness.cloudflare, &desired).expect("at rest");
        harness.cloudflare.take_calls();
        external_dns.run_loop(&desired).expect("nothing to do");
        harness.cloudflare.take_calls().len()
    });
    assert_eq!(calls, [2, 2], "the zone and the tunnel");
}

/// Its TXT record is written and deleted in a zone of its own, and nobody would ever ask again for one that is left.
#[test]
fn publishing_and_withdrawing_a_zones_apex_in_turn_is_no_fight() {
    let harness = Harness::new();
    let inner = harness.cloudflare.add_zone("shop.example.com", Plan::Free);
    let (_program, external_dns) = start(&harness, TXT);
    let apex = [published("shop.example.com", "http://web:80")];
    for round in 0..5 {
        for (desired, expected) in [(&apex[..], &["cname-shop.example.com"][..]), (&[], &[])] {
            external_dns.run_loop(desired).expect("done");
            assert_eq!(names(&harness), expected, "round {round}");
            assert_eq!(harness.cloudflare.records(&inner).len(), desired.len(), "round {round}");
        }
    }
}

/// Encrypted, the text is new each time.
#[test]
fn what_was_refused_is_not_sent_again_though_its_text_is_encrypted() {
    for is_encrypted in [false, true] {
        let account = SharedAccount::new();
        let (_program, external_dns) = start(&account.harness, TXT);
        account.cloudflare().edit(|cloudflare| {
            let refusal = Refusal::new(400, 1004, "DNS Validation Error");
            cloudflare.whims_mut().dislike_name("bad.example.com", refusal);
        });
        let bad = published("bad.example.com", "http://web:80");
        let mut writes = Vec::new();
        for number in 0..6 {
            let text = if is_encrypted { format!("n0nce/{number}AAA==") } else { "n0nce/AAAA==".to_owned() };
            account.cloudflare().take_calls();
            external_dns.records().expect("shown");
            let create = with_txt(external_dns, &bad, "cname-bad.example.com", &text);
            let _ = external_dns.apply(&Changes { create, ..Changes::default() });
            writes.push(account.cloudflare().count_calls().writes);
        }
        assert_eq!(writes[2..], [0; 4], "encrypted {is_encrypted}: {writes:?}");
    }
}
