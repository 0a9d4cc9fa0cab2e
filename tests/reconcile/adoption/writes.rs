//! What is written when something is taken over, and in which order: the stamp first.

use external_dns_cloudflare_tunnel_webhook::reconcile::stamp::{Digest, Stamp};
use test_support::fake_cloudflare::{FakeCloudflare, HOME, OFFICE, tunnel_id};
use test_support::harness::{endpoint, published};

use super::{NAME, WANTED, desired, is_published, rule, settle, stamp_of, target};

/// Visitors of its old target need not be ones that Cloudflare's proxy can serve.
#[test]
fn a_record_that_is_not_proxied_is_proxied_only_when_it_is_pointed_to_the_tunnel() {
    for is_ready in [true, false] {
        let mut cloudflare = FakeCloudflare::new(&[], &[(NAME, "CNAME", "db.host.test")]).adopting(&["all"]);
        cloudflare.records[0].proxied = false;
        if !is_ready {
            cloudflare.unready.insert(tunnel_id(HOME), "its connectors start".to_owned());
        }
        for _ in 0..4 {
            cloudflare.run_loop(&desired(), usize::MAX);
            let record = &cloudflare.records[0];
            assert_eq!(record.proxied, *record.content == *target(HOME), "{record:?}");
        }
        assert_eq!(cloudflare.records[0].proxied, is_ready);
    }
}

/// Pins the invariant for each kind of adoption: stamped, not yet changed; then the mode may be off.
#[test]
fn a_rule_is_stamped_before_it_is_changed_and_what_is_begun_is_ended_without_the_mode() {
    for (comment, mode) in [("", "tunnel"), (&*stamp_of("other"), "owner=other"), ("", "all")] {
        let mut cloudflare = FakeCloudflare::new(&[rule("http://theirs:80")], &[]).adopting(&[mode]);
        cloudflare.add(NAME, "CNAME", &target(HOME), comment);
        let before = cloudflare.clone();
        cloudflare.run_loop(&desired(), 1);
        assert_eq!(cloudflare.documents, before.documents, "{mode}");
        assert!(cloudflare.records[0].comment.starts_with("external-dns owner=default "), "{mode}");
        let mut cloudflare = cloudflare.adopting(&[]);
        settle(&mut cloudflare, &desired());
        assert!(is_published(&cloudflare), "{mode}");
    }
}

/// The record alone is wanted, and the rule that another owner's stamp names goes: after it is ours, and before its
/// digest does.
#[test]
fn a_rule_that_goes_with_its_owners_record_is_stamped_first_and_unstamped_last() {
    let record_only = [endpoint(NAME, &[("tunnel-service", "none")])];
    for writes in 1..4 {
        let mut cloudflare = FakeCloudflare::new(&[rule("http://theirs:80")], &[]).adopting(&["owner=other"]);
        cloudflare.add(NAME, "CNAME", &target(HOME), &stamp_of("other"));
        cloudflare.run_loop(&record_only, writes);
        let is_there =
            cloudflare.document(&tunnel_id(HOME)).rules().iter().any(|rule| rule.hostname() == NAME);
        let stamp = Stamp::parse(&cloudflare.records[0].comment).expect("stamped");
        assert_eq!((&*stamp.owner, is_there), ("default", writes == 1));
        assert_eq!(stamp.claims.digests.is_empty(), writes == 3, "after {writes} writes");
        let mut cloudflare = cloudflare.adopting(&[]);
        settle(&mut cloudflare, &record_only);
        assert_eq!(cloudflare.document(&tunnel_id(HOME)).rules().len(), 1, "the catch-all");
    }
}

/// No mode writes a rule that is as it is wanted.
#[test]
fn what_is_identical_gets_a_stamp_and_nothing_else() {
    for mode in ["tunnel", "all"] {
        let api = r#"{"hostname":"a.example.com","path":"^/api(/|$)","service":"http://api:80"}"#;
        let mut cloudflare = FakeCloudflare::new(&[api.to_owned(), rule(WANTED)], &[]).adopting(&[mode]);
        cloudflare.add(NAME, "CNAME", &target(HOME), "Jo's");
        let before = cloudflare.clone();
        let paths = [
            published(NAME, WANTED),
            endpoint(NAME, &[("tunnel-service", "http://api:80"), ("tunnel-path-prefix", "/api")]),
        ];
        settle(&mut cloudflare, &paths);
        assert_eq!((cloudflare.writes, &cloudflare.documents), (1, &before.documents), "{mode}");
        let stamp = Stamp::parse(&cloudflare.records[0].comment).expect("stamped");
        assert_eq!(stamp.claims.digests.len(), 2, "{mode}");
        assert!(cloudflare.records[0].comment.ends_with(" | Jo's"), "{}", cloudflare.records[0].comment);
        assert_eq!(cloudflare.shown().len(), 2);
    }
}

#[test]
fn a_record_without_a_rule_is_taken_over_as_it_is() {
    for (proxied, mode) in [(true, "tunnel"), (false, "tunnel")] {
        let wild = r#"{"hostname":"*.example.com","service":"http://wild:80"}"#.to_owned();
        let mut cloudflare =
            FakeCloudflare::new(&[wild, rule("http://theirs:80")], &[(NAME, "CNAME", &target(HOME))]);
        cloudflare.records[0].proxied = proxied;
        let before = cloudflare.clone();
        let record_only = [endpoint(NAME, &[("tunnel-service", "none")])];
        let plan = settle(&mut cloudflare, &record_only);
        assert!(plan.refusals[0].to_string().contains(&format!("ADOPT={mode} ")), "{plan:?}");
        let mut cloudflare = cloudflare.adopting(&[mode]);
        settle(&mut cloudflare, &record_only);
        assert_eq!(cloudflare.records[0].comment.split(' ').next_back(), Some("rules=-"));
        assert!(cloudflare.records[0].proxied);
        assert_eq!(cloudflare.documents, before.documents, "no endpoint asked for the rule");
    }
}

/// Adopted and moved at once, the hostname is never led to a tunnel without its rule.
#[test]
fn a_hostname_that_is_wanted_in_another_tunnel_is_stamped_and_then_moved() {
    let office = [endpoint(NAME, &[("tunnel-service", WANTED), ("tunnel", "office")])];
    let holding = || {
        FakeCloudflare::new(&[rule("http://theirs:80")], &[(NAME, "CNAME", &target(HOME))])
            .adopting(&["tunnel"])
    };
    for writes in 0..6 {
        let mut cloudflare = holding();
        cloudflare.run_loop(&office, writes);
        let led_to = [HOME, OFFICE]
            .map(tunnel_id)
            .into_iter()
            .find(|id| *id.hostname() == *cloudflare.records[0].content);
        let document = cloudflare.document(&led_to.expect("one of the two"));
        assert!(document.rules().iter().any(|rule| rule.hostname() == NAME), "after {writes} writes");
        let mut cloudflare = cloudflare.adopting(if writes == 0 { &["tunnel"] } else { &[] });
        settle(&mut cloudflare, &office);
        assert_eq!(*cloudflare.records[0].content, *target(OFFICE));
        assert_eq!(cloudflare.document(&tunnel_id(HOME)).rules().len(), 1, "the catch-all");
    }
}

/// A visitor is served where the record leads until the new rule is there.
#[test]
fn a_cname_leads_elsewhere_until_its_rule_stands() {
    let mut cloudflare = FakeCloudflare::new(&[], &[(NAME, "CNAME", "lb.test")]).adopting(&["all"]);
    for writes in [1, 1, 1] {
        let is_ruled =
            cloudflare.document(&tunnel_id(HOME)).rules().iter().any(|rule| rule.hostname() == NAME);
        assert!(is_ruled || &*cloudflare.records[0].content == "lb.test", "{cloudflare:?}");
        cloudflare.run_loop(&desired(), writes);
    }
    assert!(is_published(&cloudflare), "{cloudflare:?}");
}

#[test]
fn what_another_owners_stamp_claims_is_ours_with_it() {
    let path = |text: &str| Digest::of(&tunnel_id(HOME), Some(text));
    let theirs = r#"{"hostname":"a.example.com","path":"^/old$","service":"http://old:80"}"#.to_owned();
    let mut cloudflare =
        FakeCloudflare::new(&[theirs, rule("http://theirs:80")], &[]).adopting(&["owner=other"]);
    let whole = Digest::of(&tunnel_id(HOME), None);
    let comment = format!("external-dns owner=other rules={whole}{} later=1 | ask Jo", path("^/old$"));
    cloudflare.add(NAME, "CNAME", &target(HOME), &comment);
    cloudflare.run_loop(&desired(), usize::MAX);
    let stamp = Stamp::parse(&cloudflare.records[0].comment).expect("stamped");
    assert_eq!((&*stamp.owner, stamp.claims.digests.len()), ("default", 2));
    assert!(
        cloudflare.records[0].comment.ends_with(" later=1 | ask Jo"),
        "{}",
        cloudflare.records[0].comment
    );
    // Rules of it that no endpoint asks for are withdrawn like any other rule of ours.
    settle(&mut cloudflare, &desired());
    assert_eq!(cloudflare.document(&tunnel_id(HOME)).rules().len(), 2, "the rule and the catch-all");
}

/// Invariant 1: both rules have the digest, so the stamp names neither.
#[test]
fn of_two_rules_with_one_path_another_owners_stamp_makes_neither_ours() {
    let twice = [rule("http://theirs:80"), rule("http://theirs:81")];
    let mut cloudflare = FakeCloudflare::new(&twice, &[]).adopting(&["owner=other"]);
    cloudflare.add(NAME, "CNAME", &target(HOME), &stamp_of("other"));
    let wanted = [endpoint(NAME, &[("tunnel-service", WANTED), ("tunnel-path", "^/new$")])];
    let plan = cloudflare.run_loop(&wanted, usize::MAX);
    let taken: Vec<_> = plan.hosts.iter().flat_map(|host| &host.adoptions).map(|one| one.digest).collect();
    assert_eq!(taken, [None], "the record alone");
    settle(&mut cloudflare, &[]);
    let rules = cloudflare.document(&tunnel_id(HOME)).rules().iter();
    let theirs = rules.filter(|rule| rule.service().starts_with("http://theirs")).count();
    assert_eq!(theirs, 2);
}

/// They become one record.
#[test]
fn the_comments_of_an_address_of_each_kind_are_both_kept() {
    for (comments, kept) in [(["", "ask Jo"], "ask Jo"), (["v4", "v6"], "v4; v6"), (["Jo", "Jo"], "Jo")] {
        let mut cloudflare = FakeCloudflare::new(&[], &[]).adopting(&["all"]);
        cloudflare.add(NAME, "A", "192.0.2.1", comments[0]);
        cloudflare.add(NAME, "AAAA", "2001:db8::1", comments[1]);
        settle(&mut cloudflare, &desired());
        let comment = &cloudflare.records[0].comment;
        assert!(is_published(&cloudflare) && comment.ends_with(&format!(" | {kept}")), "{comment}");
    }
}

#[test]
fn a_long_comment_is_cut_and_never_a_reason_to_refuse() {
    let mut cloudflare = FakeCloudflare::new(&[], &[]).adopting(&["tunnel"]);
    cloudflare.add(NAME, "CNAME", &target(HOME), &"ü".repeat(50));
    settle(&mut cloudflare, &desired());
    let comment = &cloudflare.records[0].comment;
    assert!(is_published(&cloudflare) && comment.len() <= 88 && comment.len() > 80, "{comment}");
    assert!(comment.contains(" | üüü"), "{comment}");
}

/// A rule was made by hand on a hostname of ours, and now an endpoint asks for it.
#[test]
fn a_foreign_rule_on_a_hostname_of_ours_is_taken_over_too() {
    let theirs = r#"{"hostname":"a.example.com","path":"^/theirs$","service":"http://theirs:81"}"#.to_owned();
    let path = endpoint(NAME, &[("tunnel-service", "http://web:81"), ("tunnel-path", "^/theirs$")]);
    let both = [published(NAME, WANTED), path];
    for (mode, service) in [("owner=other", "http://theirs:81"), ("tunnel", "http://web:81")] {
        let mut cloudflare = FakeCloudflare::new(std::slice::from_ref(&theirs), &[]);
        settle(&mut cloudflare, &desired());
        let mut cloudflare = cloudflare.adopting(&[mode]);
        settle(&mut cloudflare, &both);
        let rules = cloudflare.document(&tunnel_id(HOME)).rules();
        let found = rules.iter().find(|rule| rule.path().is_some()).expect("it stands");
        assert_eq!(found.service(), service, "{mode}");
    }
}

/// Under a longer owner the stamp of 24 rules is too long for the comment.
#[test]
fn what_another_owners_stamp_claims_is_not_taken_over_where_ours_has_no_room_for_it() {
    let paths: Vec<String> = (0..24).map(|number| format!("^/{number}$")).collect();
    let rules = paths
        .iter()
        .map(|path| format!(r#"{{"hostname":"{NAME}","path":"{path}","service":"http://theirs:80"}}"#));
    let digests = paths.iter().map(|path| Digest::of(&tunnel_id(HOME), Some(path)).to_string());
    let mut cloudflare = FakeCloudflare::new(&rules.collect::<Vec<_>>(), &[]).adopting(&["owner=o"]);
    let comment = format!("external-dns owner=o rules={}", digests.collect::<String>());
    cloudflare.add(NAME, "CNAME", &target(HOME), &comment);
    let before = cloudflare.clone();
    let wanted = [endpoint(NAME, &[("tunnel-service", WANTED), ("tunnel-path", &paths[0])])];
    let plan = cloudflare.run_loop(&wanted, usize::MAX);
    let labels: Vec<&str> = plan.refusals.iter().map(|refusal| refusal.reason.label_value()).collect();
    assert_eq!((&labels[..], &cloudflare), (&["stamp_full"][..], &before));
}

/// Visitors of our own record reach it, so it would go with the move.
#[test]
fn a_move_takes_over_no_foreign_rule_of_the_tunnel_that_our_own_record_leads_to() {
    let through = |tunnel, path| {
        endpoint(NAME, &[("tunnel-service", WANTED), ("tunnel", tunnel), ("tunnel-path-prefix", path)])
    };
    let theirs = format!(r#"{{"hostname":"{NAME}","path":"^/x(/|$)","service":"http://theirs:80"}}"#);
    let mut cloudflare = FakeCloudflare::new(&[], &[]).adopting(&["tunnel"]);
    settle(&mut cloudflare, &[through("office", "/w")]);
    cloudflare.edit_rules(OFFICE, |rules| rules.insert(0, theirs));
    let before = cloudflare.clone();
    let plan = cloudflare.run_loop(&[through("home", "/w"), through("home", "/x")], usize::MAX);
    let labels: Vec<&str> = plan.refusals.iter().map(|refusal| refusal.reason.label_value()).collect();
    assert_eq!((&labels[..], &cloudflare), (&["rule_left_behind"; 2][..], &before));
}

/// It is taken over only together with the record.
#[test]
fn a_rule_beside_a_foreign_record_is_named_by_the_value_that_takes_both() {
    let mut cloudflare = FakeCloudflare::new(&[rule("http://theirs:80")], &[]).adopting(&["tunnel"]);
    cloudflare.add(NAME, "CNAME", &target(HOME), "external-dns owner=other rules=-");
    let plan = cloudflare.run_loop(&desired(), usize::MAX);
    let text = plan.refusals[0].to_string();
    assert!(text.contains("set ADOPT=owner=other,tunnel to take it over"), "{text}");
}
