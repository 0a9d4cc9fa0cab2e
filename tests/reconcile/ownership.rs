//! The owner of a record or a rule where that is not plain, on plans alone.

use external_dns_cloudflare_tunnel_webhook::model::TunnelId;
use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Endpoint, Labels, Property};
use external_dns_cloudflare_tunnel_webhook::reconcile::plan::plan;
use external_dns_cloudflare_tunnel_webhook::reconcile::plan_inputs::PlanInputs;
use external_dns_cloudflare_tunnel_webhook::reconcile::reason::Reason;
use external_dns_cloudflare_tunnel_webhook::reconcile::stamp::{Digest, Stamp};
use test_support::external_dns::Changes;
use test_support::fake_cloudflare::{FakeCloudflare, HOME, WHOLE, tunnel_id};
use test_support::harness;

fn endpoint(properties: &[(&str, &str)]) -> Endpoint {
    harness::endpoint("a.example.com", properties)
}

fn deletion(set_identifier: &str) -> Changes {
    let delete = Endpoint {
        dns_name: "a.example.com".to_owned(),
        record_type: "CNAME".to_owned(),
        set_identifier: set_identifier.to_owned(),
        ..Endpoint::default()
    };
    Changes { delete: vec![delete], ..Changes::default() }
}

/// The comment of one of our records is copied onto a record that a CNAME may stand beside.
#[test]
fn a_record_that_is_no_address_is_never_ours_whatever_its_comment_says() {
    for kind in ["TXT", "MX", "CAA"] {
        let mut cloudflare = FakeCloudflare::new(&[], &[("a.example.com", kind, "theirs")]);
        let desired = [endpoint(&[("tunnel-service", "http://web:80")])];
        cloudflare.run_loop(&desired, usize::MAX);
        let stamp = cloudflare
            .records
            .iter()
            .find(|record| &*record.record_type == "CNAME")
            .expect("published")
            .comment
            .clone();
        cloudflare.records[0].comment = stamp;

        assert!(
            cloudflare.shown().iter().all(|endpoint| endpoint.record_type == "CNAME"),
            "{kind} is not shown"
        );
        cloudflare.run_loop(&[], usize::MAX);
        let kinds: Vec<&str> = cloudflare.records.iter().map(|record| &*record.record_type).collect();
        assert_eq!(kinds, [kind]);
    }
}

/// `lost:` begins a valid expression too: its withdrawal must not be read as another rule's digest.
#[test]
fn a_path_that_looks_like_a_lost_digest_is_withdrawn_alone() {
    let path = format!("lost:{}", Digest::of(&tunnel_id(HOME), None));
    let whole = endpoint(&[("tunnel-service", "http://web:80")]);
    let odd = endpoint(&[("tunnel-service", "http://odd:80"), ("tunnel-path", &path)]);
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    cloudflare.run_loop(&[whole.clone(), odd], usize::MAX);
    cloudflare.run_loop(&[whole], usize::MAX);

    let document = &cloudflare.documents[&tunnel_id(HOME)];
    let services: Vec<&str> = document.rules().iter().map(|rule| rule.service()).collect();
    assert_eq!(services, ["http://web:80", "http_status:404"]);
}

/// The planner asks again for what was refused, in every loop.
#[test]
fn a_resource_that_the_comment_has_no_room_for_is_not_written_in_every_loop() {
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    let mut desired = endpoint(&[("tunnel-service", "http://web:80")]);
    desired.labels.set("resource", &format!("ingress/shop/{}", "w".repeat(63)));
    cloudflare.run_loop(&[desired.clone()], usize::MAX);
    assert!(!cloudflare.records[0].comment.contains("resource"), "{}", cloudflare.records[0].comment);

    let changes = Changes { update_new: vec![desired], ..Changes::default() };
    let plan = plan(&changes.read(), &cloudflare.snapshot(), &PlanInputs::default(), WHOLE);
    assert!(plan.is_empty(), "{plan:?}");
}

/// Two new paths that share a digest: if one digest were stamped for both, it would not tell whether the second rule is
/// ours.
#[test]
fn of_two_new_paths_with_one_digest_the_second_is_refused() {
    let (first, second) = paths_with_one_digest(&tunnel_id(HOME));
    let desired =
        [&first, &second].map(|path| endpoint(&[("tunnel-service", "http://web:80"), ("tunnel-path", path)]));
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    let plan = cloudflare.run_loop(&desired, usize::MAX);
    let labels: Vec<_> = plan.refusals.iter().map(|refusal| refusal.reason.label_value()).collect();
    assert_eq!(labels, ["beside_refused", "digest_taken"], "the object's other rule waits with it");
    assert_eq!(cloudflare.documents[&tunnel_id(HOME)].rules().len(), 0);
}

fn paths_with_one_digest(tunnel: &TunnelId) -> (String, String) {
    let mut seen = std::collections::HashMap::new();
    for number in 0.. {
        let path = format!("^/{number}$");
        if let Some(earlier) = seen.insert(Digest::of(tunnel, Some(&path)), path.clone()) {
            return (earlier, path);
        }
    }
    unreachable!("there are fewer digests than numbers")
}

/// Nothing invalid is among them: each path of a hostname is wanted or withdrawn for itself.
#[test]
fn two_endpoints_for_one_path_do_not_hold_a_withdrawal_back() {
    let on = |path: &str| endpoint(&[("tunnel-service", "http://web:80"), ("tunnel-path", path)]);
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    cloudflare.run_loop(&[on("^/a$"), on("^/b$")], usize::MAX);
    let changes = Changes { update_new: vec![on("^/a$"), on("^/a$")], ..deletion("^/b$") };
    let plan = plan(&changes.read(), &cloudflare.snapshot(), &PlanInputs::default(), WHOLE);
    assert_eq!(plan.refusals, []);
}

/// Our two readers of options have to agree: what `adjust` lets pass and the document refuses stops the whole hostname.
#[test]
fn an_option_that_no_rule_may_hold_is_refused_before_any_rule_is_planned() {
    for option in [
        ("origin-http-host-header", "two words"),
        ("origin-server-name", "tab\there"),
        ("origin-server-name", "no\u{a0}break"),
        ("origin-ip-rules", r#"[{"prefix":"10.0.0.0/8","ports":[0],"allow":true}]"#),
    ] {
        let odd = Endpoint {
            labels: Labels::from_iter([("resource", "ingress/shop/odd")]),
            ..endpoint(&[("tunnel-service", "http://odd:80"), ("tunnel-path", "^/odd$"), option])
        };
        let mut cloudflare = FakeCloudflare::new(&[], &[]);
        let plan = cloudflare.run_loop(&[endpoint(&[("tunnel-service", "http://web:80")]), odd], usize::MAX);
        let document = &cloudflare.documents[&tunnel_id(HOME)];
        let services: Vec<&str> = document.rules().iter().map(|rule| rule.service()).collect();
        assert_eq!(services, ["http://web:80", "http_status:404"], "{option:?} {:?}", plan.refusals);
    }
}

/// A hostname has one record. If it were led over, the path that cannot follow would lose its requests.
#[test]
fn a_hostname_does_not_move_away_from_a_path_that_cannot_follow() {
    let on = |tunnel: &str, path: &str| {
        endpoint(&[("tunnel-service", "http://web:80"), ("tunnel-path", path), ("tunnel", tunnel)])
    };
    let theirs = r#"{"hostname":"a.example.com","path":"^/a$","service":"http://theirs:80"}"#;
    let mut cloudflare = FakeCloudflare::new(&[theirs.to_owned()], &[]);
    cloudflare.run_loop(&[on("office", "^/a$"), on("office", "^/b$")], usize::MAX);
    let before = cloudflare.clone();
    let plan = cloudflare.run_loop(&[on("home", "^/a$"), on("home", "^/b$")], usize::MAX);
    assert_eq!(cloudflare, before, "{plan:?}");
    assert_eq!(plan.refusals.len(), 2, "{plan:?}");
}

/// Of the object of a refused rule nothing is changed, nor withdrawn. What other objects have on the hostname goes on.
/// Invariant 4 of docs/how-it-works.md.
#[test]
fn a_rule_that_the_document_does_not_allow_holds_back_its_object_and_no_other() {
    let of = |resource: &str, mut endpoint: Endpoint| {
        endpoint.labels.set("resource", resource);
        endpoint
    };
    let on = |path: &str, service: &str| {
        let endpoint = endpoint(&[("tunnel-service", service), ("tunnel-path", path)]);
        of(if path == "^/b$" { "ingress/shop/b" } else { "ingress/shop/a" }, endpoint)
    };
    let theirs = r#"{"hostname":"a.example.com","path":"/","service":"http://theirs:80"}"#;
    let mut cloudflare = FakeCloudflare::new(&[theirs.to_owned()], &[]);
    cloudflare.run_loop(&[on("^/a$", "http://web:80"), on("^/b$", "http://web:80")], usize::MAX);
    let all = of("ingress/shop/a", endpoint(&[("tunnel-service", "http://web:80")]));
    let plan = cloudflare.run_loop(&[all, on("^/b$", "http://new:80")], usize::MAX);

    let document = &cloudflare.documents[&tunnel_id(HOME)];
    let services: Vec<&str> = document.rules().iter().map(|rule| rule.service()).collect();
    assert_eq!(
        services,
        ["http://web:80", "http://new:80", "http://theirs:80", "http_status:503"],
        "{plan:?}"
    );
    let labels: Vec<_> = plan.refusals.iter().map(|refusal| refusal.reason.label_value()).collect();
    assert_eq!(labels, ["rule_conflict", "withheld"], "{plan:?}");
}

/// A comment on a Free zone holds 22 digests beside the default owner.
#[test]
fn a_change_that_finds_no_room_in_the_comment_is_refused_with_the_number() {
    let path = |number: usize, service: &str| {
        endpoint(&[("tunnel-service", service), ("tunnel-path", &format!("^/p{number:02}$"))])
    };
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    let first: Vec<Endpoint> = (0..22).map(|number| path(number, "http://web:80")).collect();
    cloudflare.run_loop(&first, usize::MAX);
    assert_eq!(cloudflare.shown().len(), 22);

    let before = cloudflare.clone();
    let second: Vec<Endpoint> = (1..30).map(|number| path(number, "http://other:80")).collect();
    let plan = cloudflare.run_loop(&second, usize::MAX);
    let full = plan.refusals.iter().find(|refusal| matches!(refusal.reason, Reason::StampFull { .. }));
    let told = full.map(ToString::to_string).unwrap_or_default();
    assert!(told.contains("no room for the 30 rules that it has to name at once (100 bytes)"), "{told}");
    assert_eq!(cloudflare, before, "the object's rules are changed together or not at all");
    let fewer: Vec<Endpoint> = (1..22).map(|number| path(number, "http://other:80")).collect();
    assert_eq!(cloudflare.run_loop(&fewer, usize::MAX).refusals, []);
    assert_eq!(cloudflare.shown().len(), 21);
}

/// Both are asked for by endpoints of their own.
#[test]
fn a_path_that_is_withdrawn_leaves_the_record_alone_claimed() {
    let record = endpoint(&[("tunnel-service", "none")]);
    let path = endpoint(&[("tunnel-service", "http://web:80"), ("tunnel-path", "^/a$")]);
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    cloudflare.run_loop(&[record.clone(), path], usize::MAX);
    cloudflare.run_loop(&[record], usize::MAX);
    let stamps: Vec<Stamp> =
        cloudflare.records.iter().filter_map(|record| Stamp::parse(&record.comment)).collect();
    let [stamp] = &stamps[..] else { panic!("{:?}", cloudflare.records) };
    assert!(stamp.claims.record_only && stamp.claims.digests.is_empty(), "{stamp:?}");
}

#[test]
fn the_stamp_names_the_object_while_all_rules_come_from_it() {
    let path = |path: &str| endpoint(&[("tunnel-service", "http://web:80"), ("tunnel-path", path)]);
    let of_other = |mut endpoint: Endpoint| {
        endpoint.labels.set("resource", "ingress/shop/other");
        endpoint
    };
    let in_office = |mut endpoint: Endpoint| {
        endpoint.provider_specific.push(Property::new("webhook/tunnel", "office"));
        endpoint
    };
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    for (desired, named) in [
        (&[path("^/a$")][..], true),
        (&[path("^/a$"), path("^/b$")], true),
        // While a hostname moves its rules stand twice.
        (&[in_office(path("^/a$")), in_office(path("^/b$"))], true),
        (&[in_office(path("^/a$")), in_office(path("^/b$")), of_other(in_office(path("^/c$")))], false),
    ] {
        cloudflare.run_loop(desired, usize::MAX);
        let comment = &cloudflare.records[0].comment;
        assert_eq!(comment.contains("resource=ingress/shop/web"), named, "{comment}");
    }
}

/// At an apex they are Cloudflare's own: they delegate nothing, and a CNAME there is flattened.
#[test]
fn name_servers_of_the_zone_itself_hold_neither_its_apex_nor_a_name_below() {
    let mut cloudflare = FakeCloudflare::new(&[], &[("example.com", "NS", "ns.test")]);
    let below = endpoint(&[("tunnel-service", "http://web:80")]);
    let apex = Endpoint { dns_name: "example.com".to_owned(), ..below.clone() };
    let plan = cloudflare.run_loop(&[apex, below], usize::MAX);
    assert_eq!((plan.refusals, cloudflare.shown().len()), (Vec::new(), 2));
}

/// Our record was replaced by two addresses by hand: ExternalDNS is shown one endpoint of each name and type.
#[test]
fn a_hostname_with_two_records_is_shown_once() {
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    cloudflare.run_loop(&[endpoint(&[("tunnel-service", "http://web:80")])], usize::MAX);
    let record =
        cloudflare.records.iter_mut().find(|record| &*record.record_type == "CNAME").expect("published");
    (record.record_type, record.content) = ("A".into(), "192.0.2.1".into());
    let (name, comment) = (record.name.clone(), record.comment.clone());
    cloudflare.add(&name, "A", "192.0.2.2", &comment);
    let shown: Vec<(String, usize)> = cloudflare
        .shown()
        .into_iter()
        .map(|endpoint| (endpoint.record_type, endpoint.targets.len()))
        .collect();
    assert_eq!(shown, [("A".to_owned(), 2)]);
}

/// A dry run would tell it.
#[test]
fn what_stands_as_it_is_wanted_is_in_no_plan_though_its_tunnel_is_written() {
    let on = |name: &str, service: &str| Endpoint {
        dns_name: name.to_owned(),
        ..endpoint(&[("tunnel-service", service)])
    };
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    cloudflare.run_loop(
        &["a", "b", "c"].map(|name| on(&format!("{name}.example.com"), "http://web:80")),
        usize::MAX,
    );
    let update_new = vec![
        on("a.example.com", "http://web:80"),
        on("b.example.com", "http://other:80"),
        on("c.example.com", "http://web:80"),
    ];
    let plan = cloudflare.plan(&Changes { update_new, ..Changes::default() });
    let planned: Vec<&str> = plan.hosts.iter().map(|host| &*host.hostname).collect();
    assert_eq!(planned, ["b.example.com"]);
}

/// A record at another name with a copied comment was taken for ours, and deleted in the next loop.
/// Invariant 1 of docs/how-it-works.md.
#[test]
fn a_comment_that_was_copied_to_another_name_makes_nothing_ours() {
    for kind in ["A", "CNAME"] {
        let mut cloudflare = FakeCloudflare::new(&[], &[]);
        let desired = [endpoint(&[("tunnel-service", "http://web:80")])];
        cloudflare.run_loop(&desired, usize::MAX);
        let comment = cloudflare.records[0].comment.clone();
        cloudflare.add("copied.example.com", kind, "192.0.2.1", &comment);
        let (shown, before) = (cloudflare.shown().len(), cloudflare.clone());
        assert_eq!(shown, 1, "{kind}");
        for desired in [&desired[..], &[]] {
            cloudflare.run_loop(desired, usize::MAX);
            assert_eq!(cloudflare.records.last(), before.records.last(), "{kind}");
        }
        // Nor is it another owner's: taken over, what it says is a remark.
        let mut cloudflare = cloudflare.adopting(&["all"]);
        let copied = Endpoint { dns_name: "copied.example.com".to_owned(), ..desired[0].clone() };
        cloudflare.run_loop(std::slice::from_ref(&copied), usize::MAX);
        let stamps = cloudflare.records.iter().filter_map(Stamp::of);
        assert_eq!((stamps.count(), cloudflare.shown().len()), (1, 1), "{:?}", cloudflare.records);
    }
}

/// An update of the program must not write every comment anew.
#[test]
fn a_stamp_that_says_no_hostname_is_not_written_only_for_that() {
    let on = |service: &str, path: &str| endpoint(&[("tunnel-service", service), ("tunnel-path", path)]);
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    cloudflare.run_loop(&[on("http://web:80", "^/a$")], usize::MAX);
    let comment = cloudflare.records[0].comment.to_string();
    let (start, rest) = comment.split_once(" h=").expect("it has room");
    let (digest, rules) = rest.split_at(3);
    let fields = format!("{start}{rules}");
    cloudflare.records[0].comment = (*fields).into();
    let before = cloudflare.clone();
    let update_new = vec![on("http://web:80", "^/a$")];
    let plan = cloudflare.plan(&Changes { update_new, ..Changes::default() });
    assert!(plan.is_empty(), "{plan:?}");
    cloudflare.run_loop(&[on("http://new:80", "^/a$")], usize::MAX);
    assert_eq!(cloudflare.records, before.records, "a rule changes, and no comment");
    cloudflare.run_loop(&[on("http://new:80", "^/a$"), on("http://new:80", "^/b$")], usize::MAX);
    assert!(
        cloudflare.records[0].comment.contains(&format!(" h={digest} ")),
        "{}",
        cloudflare.records[0].comment
    );
    // What says nothing of it is ours under any name, as before.
    cloudflare.add("b.example.com", "CNAME", "192.0.2.1", &fields);
    assert!(cloudflare.shown().iter().any(|endpoint| endpoint.dns_name == "b.example.com"));
}

/// A person writes over the comment in the dashboard.
#[test]
fn a_record_whose_comment_was_replaced_is_foreign_and_the_setting_that_takes_it_over_gives_it_back() {
    let desired = [endpoint(&[("tunnel-service", "http://web:80")])];
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    cloudflare.run_loop(&desired, usize::MAX);
    let before = cloudflare.clone();
    cloudflare.records[0].comment = "ask Jo".into();
    let plan = cloudflare.run_loop(&desired, usize::MAX);
    assert!(plan.refusals[0].to_string().contains("set ADOPT=tunnel to take it over"), "{plan:?}");
    let mut cloudflare = cloudflare.adopting(&["tunnel"]);
    let plan = cloudflare.run_loop(&desired, usize::MAX);
    assert_eq!((&plan.refusals[..], &cloudflare.documents), (&[][..], &before.documents));
    assert!(cloudflare.records[0].comment.ends_with(" | ask Jo"), "{:?}", cloudflare.records);
}
