//! What `list` tells of each hostname and path, on values alone.

use external_dns_cloudflare_tunnel_webhook::model::Hostname;
use external_dns_cloudflare_tunnel_webhook::model::access::PolicyDecision;
use external_dns_cloudflare_tunnel_webhook::model::domain_filter::DomainFilter;
use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Endpoint, Property};
use external_dns_cloudflare_tunnel_webhook::reconcile::listing::{Entry, listing};
use external_dns_cloudflare_tunnel_webhook::reconcile::listing::{PublishedPath, published as published_of};
use external_dns_cloudflare_tunnel_webhook::reconcile::snapshot::{Reading, Snapshot};
use external_dns_cloudflare_tunnel_webhook::reconcile::stamp::Digest;
use test_support::fake_cloudflare::{FakeCloudflare, HOME, OFFICE, tunnel_id};

use crate::protection::policy;

const ELSEWHERE: &str = "99999999-a4ef-4643-bbbc-4a0ed4fc8415";

fn published(name: &str, properties: &[(&str, &str)]) -> Endpoint {
    let properties = properties.iter();
    Endpoint {
        dns_name: name.to_owned(),
        targets: vec!["192.0.2.1".to_owned()],
        record_type: "A".to_owned(),
        provider_specific: properties
            .map(|(name, value)| Property::new(format!("webhook/{name}"), *value))
            .collect(),
        ..Endpoint::default()
    }
}

/// `hostname path service tunnel owner state drift`.
fn line(entry: &Entry) -> String {
    let Entry { hostname, path, service, tunnel, owner, state, drift, protected_by: _ } = entry;
    let [path, service, tunnel, owner] =
        [path, service, tunnel, owner].map(|cell| cell.as_deref().unwrap_or("-"));
    let drift = if drift.is_empty() { String::new() } else { format!(" [{}]", drift.join(",")) };
    format!("{hostname} {path} {service} {tunnel} {owner} {}{drift}", state.as_str())
}

fn lines(cloudflare: &FakeCloudflare) -> Vec<String> {
    listing(&cloudflare.snapshot()).iter().map(line).collect()
}

fn rule(hostname: &str, path: &str) -> String {
    format!(r#"{{"hostname":"{hostname}","path":"{path}","service":"http://theirs:80"}}"#)
}

fn target(id: &str) -> String {
    tunnel_id(id).hostname()
}

/// A Cloudflare with these endpoints published, and then edited by hand.
fn published_then(endpoints: &[Endpoint], edit: impl FnOnce(&mut FakeCloudflare)) -> FakeCloudflare {
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    cloudflare.run_loop(endpoints, usize::MAX);
    edit(&mut cloudflare);
    cloudflare
}

#[test]
fn what_is_ours_is_ours_until_it_is_changed_by_hand() {
    let web = || [published("a.example.com", &[("tunnel-service", "http://web:80")])];
    let comment = |cloudflare: &FakeCloudflare| cloudflare.records[0].comment.to_string();
    for (label, cloudflare, expected) in [
        ("untouched", published_then(&web(), |_| ()), "a.example.com - http://web:80 home default ours"),
        (
            "with a path",
            published_then(
                &[published(
                    "a.example.com",
                    &[("tunnel-service", "http://web:80"), ("tunnel-path-prefix", "/api")],
                )],
                |_| (),
            ),
            "a.example.com ^/api(/|$) http://web:80 home default ours",
        ),
        (
            "the record alone, as wanted",
            published_then(&[published("a.example.com", &[("tunnel-service", "none")])], |_| ()),
            "a.example.com - none home default ours",
        ),
        (
            "its service, which only the cluster knows",
            published_then(&web(), |cloudflare| {
                let text = r#"{"ingress":[{"hostname":"a.example.com","service":"http://x:1"},{"service":"http_status:404"}]}"#;
                cloudflare.documents = FakeCloudflare::with_config(text).documents;
            }),
            "a.example.com - http://x:1 home default ours",
        ),
        (
            "no longer proxied",
            published_then(&web(), |cloudflare| cloudflare.records[0].proxied = false),
            "a.example.com - http://web:80 home default drift [proxied]",
        ),
        (
            "behind a foreign wildcard",
            published_then(&web(), |cloudflare| {
                let ours = r#"{"hostname":"a.example.com","service":"http://web:80"}"#;
                let rules = [rule("*.example.com", ""), ours.to_owned()];
                cloudflare.documents = FakeCloudflare::new(&rules, &[]).documents;
            }),
            "a.example.com - http://web:80 home default drift [order]",
        ),
        (
            "to another of our tunnels",
            published_then(&web(), |cloudflare| cloudflare.records[0].content = target(OFFICE).into()),
            "a.example.com - http://web:80 office default drift [tunnel]",
        ),
        (
            "to no tunnel",
            published_then(&web(), |cloudflare| cloudflare.records[0].content = "somewhere.test".into()),
            "a.example.com - http://web:80 - default drift [tunnel,target]",
        ),
        (
            "to a tunnel that was deleted",
            published_then(&web(), |cloudflare| cloudflare.records[0].content = target(ELSEWHERE).into()),
            "a.example.com - http://web:80 99999999-a4ef-4643-bbbc-4a0ed4fc8415 default drift [tunnel,target]",
        ),
        (
            "to an address",
            published_then(&web(), |cloudflare| {
                cloudflare.records[0].record_type = "A".into();
                cloudflare.records[0].content = "192.0.2.9".into();
            }),
            "a.example.com - http://web:80 - default drift [tunnel,target,type]",
        ),
        (
            "its rule gone",
            published_then(&web(), |cloudflare| {
                cloudflare.documents = FakeCloudflare::with_config("{}").documents
            }),
            "a.example.com - - home default record without rule [rule]",
        ),
        (
            "its comment edited away",
            published_then(&web(), |cloudflare| cloudflare.records[0].comment = "".into()),
            "a.example.com - http://web:80 home - foreign",
        ),
    ] {
        // A foreign wildcard is a line of its own.
        let lines = lines(&cloudflare);
        let ours: Vec<&str> =
            lines.iter().map(String::as_str).filter(|line| line.starts_with("a.")).collect();
        assert_eq!(ours, [expected], "{label}: {:?}", comment(&cloudflare));
    }
}

#[test]
fn a_digest_without_a_rule_shows_as_drift() {
    let web = published("a.example.com", &[("tunnel-service", "http://web:80")]);
    let cloudflare = published_then(&[web], |cloudflare| {
        let comment = format!("{}zzz", cloudflare.records[0].comment);
        cloudflare.records[0].comment = comment.into();
    });
    assert_eq!(lines(&cloudflare), ["a.example.com - http://web:80 home default drift [rule]"]);
}

#[test]
fn what_is_foreign_shows_its_owner_and_what_is_missing() {
    let blue = |id: &str, path: Option<&str>| {
        format!("external-dns owner=blue rules={}", Digest::of(&tunnel_id(id), path))
    };
    let home = &*target(HOME);
    for (label, rules, records, expected) in [
        (
            "by hand",
            vec![rule("a.example.com", "")],
            vec![("a.example.com", "CNAME", home, String::new())],
            &["a.example.com - http://theirs:80 home - foreign"][..],
        ),
        (
            "another owner's, and beside it a rule that its stamp does not name",
            vec![rule("a.example.com", "/x"), rule("a.example.com", "")],
            vec![("a.example.com", "CNAME", home, blue(HOME, None))],
            &[
                "a.example.com - http://theirs:80 home blue foreign",
                "a.example.com /x http://theirs:80 home - foreign",
            ],
        ),
        (
            "another owner's record without its rule",
            vec![],
            vec![("a.example.com", "CNAME", home, blue(HOME, None))],
            &["a.example.com - - home blue record without rule"],
        ),
        (
            "another owner's record, wanted alone",
            vec![],
            vec![("a.example.com", "CNAME", home, "external-dns owner=blue rules=-".to_owned())],
            &["a.example.com - none home blue foreign"],
        ),
        (
            "a record without a rule",
            vec![rule("b.a.example.com", "")],
            vec![("a.example.com", "CNAME", home, String::new())],
            &[
                "a.example.com - - home - record without rule",
                "b.a.example.com - http://theirs:80 home - rule without record",
            ],
        ),
        (
            "a record that a wildcard's rule serves",
            vec![rule("*.example.com", "")],
            vec![("a.example.com", "CNAME", home, String::new())],
            &["*.example.com - http://theirs:80 home - foreign", "a.example.com - - home - foreign"],
        ),
        (
            "a record below a wildcard's rule in upper case, which matches no request",
            vec![rule("*.EXAMPLE.com", "")],
            vec![("a.example.com", "CNAME", home, String::new())],
            &[
                "*.example.com - http://theirs:80 home - foreign",
                "a.example.com - - home - record without rule",
            ],
        ),
        (
            "a record that a rule for every host serves in part",
            vec![rule("", "/x")],
            vec![("a.example.com", "CNAME", home, String::new())],
            &["* /x http://theirs:80 home - foreign", "a.example.com - - home - foreign"],
        ),
        (
            "a wildcard's record that leads to a rule below it, and not to the deeper one's own wildcard",
            vec![rule("a.example.com", ""), rule("a.b.example.com", "")],
            vec![
                ("*.example.com", "CNAME", home, String::new()),
                ("*.b.example.com", "CNAME", "somewhere.test", String::new()),
            ],
            &[
                "*.example.com - - home - foreign",
                "a.b.example.com - http://theirs:80 home - rule without record",
                "a.example.com - http://theirs:80 home - foreign",
            ],
        ),
        (
            "a rule whose name leads elsewhere",
            vec![rule("a.example.com", "")],
            vec![("a.example.com", "A", "192.0.2.1", String::new())],
            &["a.example.com - http://theirs:80 home - rule without record"],
        ),
        (
            "a rule whose zone is not read",
            vec![rule("a.example.org", "")],
            vec![],
            &["a.example.org - http://theirs:80 home - foreign"],
        ),
        (
            "a record of a tunnel that is not configured here",
            vec![],
            vec![("a.example.com", "CNAME", &*target(ELSEWHERE), String::new())],
            &["a.example.com - - 99999999-a4ef-4643-bbbc-4a0ed4fc8415 - foreign"],
        ),
        (
            "a wildcard's rule, by the record of a wider wildcard",
            vec![rule("*.b.example.com", "")],
            vec![("*.example.com", "CNAME", home, String::new())],
            &["*.b.example.com - http://theirs:80 home - foreign", "*.example.com - - home - foreign"],
        ),
        (
            "nothing but what is no tunnel's",
            vec![],
            vec![("a.example.com", "A", "192.0.2.1", String::new())],
            &[],
        ),
    ] {
        let mut cloudflare = FakeCloudflare::new(&rules, &[]);
        for (name, kind, content, comment) in records {
            cloudflare.add(name, kind, content, &comment);
        }
        assert_eq!(lines(&cloudflare), expected, "{label}");
    }
}

/// Two clusters with default settings.
#[test]
fn another_instance_with_our_owner_id_is_foreign() {
    let web = published("a.example.com", &[("tunnel-service", "http://web:80")]);
    let cloudflare = published_then(&[web], |cloudflare| {
        cloudflare.records[0].content = target(ELSEWHERE).into();
        cloudflare.documents = FakeCloudflare::with_config("{}").documents;
        cloudflare.unconfigured_tunnels.insert(tunnel_id(ELSEWHERE));
    });
    assert_eq!(
        lines(&cloudflare),
        ["a.example.com - - 99999999-a4ef-4643-bbbc-4a0ed4fc8415 default foreign"]
    );
}

#[test]
fn what_the_filter_leaves_out_is_not_listed() {
    let mut cloudflare = FakeCloudflare::new(&[rule("a.example.com", ""), rule("b.example.com", "")], &[]);
    cloudflare.add("c.example.com", "CNAME", &target(HOME), "");
    let mut settings = cloudflare.settings();
    settings.operator.filter = DomainFilter::lists(["b.example.com"], []);
    let entries = listing(&Snapshot::new(Reading { settings: settings.into(), ..cloudflare.reading() }));
    assert_eq!(entries.iter().map(|entry| &*entry.hostname).collect::<Vec<_>>(), ["b.example.com"]);
}

/// cloudflared compares host and rule byte by byte, so it is the rule of another name.
#[test]
fn a_rule_with_a_trailing_dot_is_no_rule_of_the_name_without_it() {
    let mut cloudflare =
        FakeCloudflare::new(&[rule("a.example.com.", "^/theirs$"), rule("a.example.com.", "")], &[]);
    cloudflare.run_loop(&[published("a.example.com", &[("tunnel-service", "http://web:80")])], usize::MAX);
    assert_eq!(
        lines(&cloudflare),
        [
            "a.example.com - http://web:80 home default ours",
            "a.example.com. - http://theirs:80 home - foreign",
            "a.example.com. ^/theirs$ http://theirs:80 home - foreign",
        ]
    );
    assert_eq!(own_services(&cloudflare), ["http://web:80"]);
}

#[test]
fn a_rule_that_cloudflared_cannot_read_is_not_ours() {
    let unreadable = r#"{"hostname":"a.example.com","path":5,"service":"http://theirs:80"}"#.to_owned();
    let mut cloudflare = FakeCloudflare::new(&[unreadable], &[]);
    cloudflare.run_loop(&[published("a.example.com", &[("tunnel-service", "http://web:80")])], usize::MAX);
    assert_eq!(own_services(&cloudflare), ["http://web:80"]);
}

/// Those of the rules that are ours, as the metrics count them.
fn own_services(cloudflare: &FakeCloudflare) -> Vec<String> {
    let (home, own) = (tunnel_id(HOME), cloudflare.snapshot().own_digests().clone());
    let rules = cloudflare.document(&home).rules().iter().filter(|rule| own.has(&home, rule));
    rules.map(|rule| rule.service().to_owned()).collect()
}

#[test]
fn what_is_published_of_one_hostname_names_its_services_its_tunnel_its_record_and_what_protects_it() {
    let target = target(HOME);
    let service = ("tunnel-service", "http://web:80");
    let api = ("tunnel-path-prefix", "/api");
    for (label, endpoints, edit, expected) in [
        (
            "two paths",
            vec![published("a.example.com", &[service]), published("a.example.com", &[service, api])],
            (|_| ()) as fn(&mut FakeCloudflare),
            vec![
                format!("^/api(/|$) \"http://web:80\" through tunnel home; record CNAME {target:?}"),
                format!("- \"http://web:80\" through tunnel home; record CNAME {target:?}"),
            ],
        ),
        (
            "its record alone, which is no longer proxied",
            vec![published("a.example.com", &[("tunnel-service", "none")])],
            |cloudflare| cloudflare.records[0].proxied = false,
            vec![format!(
                "- a record without a rule, as it is asked for; record CNAME {target:?}, not proxied"
            )],
        ),
        (
            "its rule gone",
            vec![published("a.example.com", &[service])],
            |cloudflare| cloudflare.documents = FakeCloudflare::with_config("{}").documents,
            vec![format!("- the record's comment names no rule that exists; record CNAME {target:?}")],
        ),
        (
            "its comment edited away",
            vec![published("a.example.com", &[service])],
            |cloudflare| cloudflare.records[0].comment = "".into(),
            vec![],
        ),
    ] {
        let cloudflare = published_then(&endpoints, edit);
        let hostname = Hostname::parse("a.example.com").expect("a hostname");
        let found = published_of(&hostname, &cloudflare.snapshot());
        let found: Vec<String> = found
            .iter()
            .map(|one| format!("{} {}", if one.path.is_empty() { "-" } else { &one.path }, one.what))
            .collect();
        assert_eq!(found, expected, "{label}");
    }
}

#[test]
fn what_is_published_with_a_policy_names_the_application_that_protects_it() {
    let mut cloudflare =
        FakeCloudflare::new(&[], &[]).with_access(vec![policy("staff", PolicyDecision::Allow)]);
    let wanted =
        published("a.example.com", &[("tunnel-service", "http://web:80"), ("access-policy", "staff")]);
    // Its application comes first.
    for _ in 0..3 {
        cloudflare.run_loop(std::slice::from_ref(&wanted), usize::MAX);
    }
    let hostname = Hostname::parse("a.example.com").expect("a hostname");
    let found = published_of(&hostname, &cloudflare.snapshot());
    let [PublishedPath { what, .. }] = &found[..] else { panic!("{found:?}") };
    assert!(what.ends_with("; protected by [\"a.example.com (ExternalDNS default)\"]"), "{what}");
}

/// cloudflared ignores a password in a service, so one may stand there for years.
#[test]
fn neither_the_list_nor_a_refusal_shows_the_password_of_a_foreign_rule() {
    let wanted = |path| {
        let properties = [("tunnel-service", "http://web:80"), ("tunnel-path", path)];
        Endpoint { set_identifier: path.to_owned(), ..published("a.example.com", &properties) }
    };
    let theirs = rule("a.example.com", "^/b").replace("//theirs", "//jo:s3cret@theirs");
    let mut cloudflare = published_then(&[wanted("^/a")], |cloudflare| {
        cloudflare.edit_rules(HOME, |rules| rules.insert(0, theirs));
    });
    assert_eq!(lines(&cloudflare)[1], "a.example.com ^/b http://[redacted]@theirs:80 home - foreign");
    let refusals = cloudflare.run_loop(&[wanted("^/a"), wanted("^/b")], usize::MAX).refusals;
    let told = refusals.iter().map(ToString::to_string).collect::<String>();
    assert!(told.contains("service \"http://[redacted]@theirs:80\""), "{told}");
}
