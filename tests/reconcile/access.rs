//! The judgement of what Access covers: its laws, and whether the emulator's edge agrees with it.

use std::cell::Cell;
use std::ops::RangeInclusive;

use cloudflare_emulator::{Cloudflare, Emulator, Plan, Visit, Visitor};
use external_dns_cloudflare_tunnel_webhook::ingress::PathPattern;
use external_dns_cloudflare_tunnel_webhook::model::Hostname;
use external_dns_cloudflare_tunnel_webhook::model::access::{
    Application, ApplicationKind, AttachedPolicy, PolicyDecision,
};
use external_dns_cloudflare_tunnel_webhook::reconcile::access::guard::cover;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::access_guard::application;

const ZONE: &str = "example.com";

const HOSTS: [&str; 17] = [
    "a.example.com",
    "a.example.com",
    "a.example.com",
    "*.example.com",
    "*.example.com",
    "*.a.example.com",
    "ab.example.com",
    "a*.example.com",
    "*b.example.com",
    "b.a.example.com",
    "*.*.com",
    "*.*.example.com",
    "*.com",
    "example.com",
    "**.example.com",
    "a.example.com:443",
    "",
];
const PATHS: [&str; 19] = [
    "", "", "", "/", "/*", "/p", "/p", "/p/*", "/p/*", "/p/", "/p*", "/p/q", "/p/q/*", "/*/q", "/pq", "/P",
    "/%70", "//p", "/p/../q",
];

/// What a rule may be for, and its path: none, a prefix, or another expression.
const RULE_HOSTS: [&str; 6] =
    ["a.example.com", "a.example.com", "ab.example.com", "*.example.com", "*.a.example.com", "example.com"];
const RULE_PATHS: [&str; 7] = ["", "", "/p", "/p", "/p/q", "/pq", "^/p"];

const LABELS: [&str; 5] = ["a", "b", "ab", "bb", "z"];
const BELOW: [&str; 7] = ["", "/", "/q", "/q/", "/q/x", "/x/q", "/p/../q"];

/// An application as it is written.
#[derive(Clone, Debug)]
struct Written {
    uris: Vec<String>,
    kind: &'static str,
    decisions: Vec<&'static str>,
}

impl Written {
    /// As the client reads it.
    fn read(&self, name: &str, audience: &str) -> Application {
        let policy = |decision: &&str| AttachedPolicy {
            id: (*decision).into(),
            decision: PolicyDecision::parse(decision),
        };
        Application {
            audience: audience.into(),
            kind: match self.kind {
                "self_hosted" => ApplicationKind::SelfHosted,
                "ssh" => ApplicationKind::Rendered,
                "bookmark" => ApplicationKind::Unrelated,
                _ => ApplicationKind::Unknown,
            },
            policies: Some(self.decisions.iter().map(policy).collect()),
            ..application(name, &self.uris, PolicyDecision::Allow)
        }
    }
}

fn read(applications: &[Written]) -> Vec<Application> {
    let named = applications.iter().enumerate();
    named.map(|(index, written)| written.read(&format!("app{index}"), &format!("aud{index}"))).collect()
}

fn any_uri() -> impl Strategy<Value = String> {
    (prop::sample::select(&HOSTS[..]), prop::sample::select(&PATHS[..]))
        .prop_map(|(host, path)| format!("{host}{path}"))
}

/// With these decisions, of these types.
fn any_application(
    decisions: &'static [&'static [&'static str]],
    kinds: &'static [&'static str],
) -> impl Strategy<Value = Written> {
    let uris = prop_oneof![
        6 => prop::collection::vec(any_uri(), 1..4),
        3 => prop::sample::select(&RULE_HOSTS[..]).prop_map(|host| vec![host.to_owned()]),
        3 => (prop::sample::select(&RULE_HOSTS[..]), prop::sample::select(vec!["/p", "/p/q", "/pq"]))
            .prop_map(|(host, path)| vec![format!("{host}{path}"), format!("{host}{path}/*")]),
    ];
    let parts = (uris, prop::sample::select(kinds), prop::sample::select(decisions));
    parts.prop_map(|(uris, kind, decisions)| Written { uris, kind, decisions: decisions.to_vec() })
}

const PROTECTING: [&[&str]; 4] = [&["allow"], &["allow", "non_identity"], &["deny", "allow"], &["deny"]];

/// Mostly such as protect: of random ones hardly any world would be covered.
fn any_applications(count: RangeInclusive<usize>) -> impl Strategy<Value = Vec<Written>> {
    const OPEN: [&[&str]; 4] = [&["bypass"], &["allow", "bypass"], &["learnt_later"], &[]];
    const STRANGE: [&[&str]; 2] = [&["allow"], &["bypass"]];
    let application = prop_oneof![
        14 => any_application(&PROTECTING, &["self_hosted", "self_hosted", "ssh"]),
        3 => any_application(&OPEN, &["self_hosted", "ssh"]),
        1 => any_application(&STRANGE, &["bookmark", "learnt_later"]),
    ];
    prop::collection::vec(application, count)
}

/// A rule's hostname and path.
#[derive(Clone, Debug)]
struct Rule {
    host: &'static str,
    path: &'static str,
}

impl Rule {
    fn cover(&self, applications: &[Application]) -> Result<Vec<Box<str>>, String> {
        let path = match self.path {
            "" => None,
            path if path.starts_with('/') => Some(PathPattern::from_prefix(path).unwrap()),
            path => Some(PathPattern::parse(path).unwrap()),
        };
        let related = applications.iter().filter(|one| one.kind != ApplicationKind::Unrelated);
        let over =
            cover(related, &Hostname::parse(self.host).unwrap(), path.as_ref().map(PathPattern::as_str))?;
        let mut audiences: Vec<Box<str>> = over.iter().map(|one| one.audience.clone()).collect();
        audiences.sort_unstable();
        audiences.dedup();
        Ok(audiences)
    }

    /// The hosts of requests that the rule takes, for a wildcard with one label in its place.
    fn hosts(&self) -> Vec<String> {
        match self.host.strip_prefix('*') {
            Some(domain) => LABELS.iter().map(|label| format!("{label}{domain}")).collect(),
            None => vec![self.host.to_owned()],
        }
    }

    fn paths(&self) -> Vec<String> {
        let starts = match self.path {
            path if path.starts_with('/') => vec![path],
            "" => vec!["", "/p", "/pq", "/P", "/x"],
            _ => vec!["/p", "/pq", "/px"],
        };
        let paths = starts.iter().flat_map(|start| BELOW.iter().map(move |below| format!("{start}{below}")));
        paths.filter(|path| !path.is_empty()).collect()
    }
}

fn any_rule() -> impl Strategy<Value = Rule> {
    (prop::sample::select(&RULE_HOSTS[..]), prop::sample::select(&RULE_PATHS[..]))
        .prop_map(|(host, path)| Rule { host, path })
}

/// Half of the time with an application for exactly what the rule takes.
fn any_applications_for_a_rule() -> impl Strategy<Value = (Vec<Written>, Rule)> {
    (any_applications(1..=3), any_rule(), 0..8_usize).prop_map(|(mut applications, rule, place)| {
        if place <= applications.len() {
            let uris = match rule.path {
                path if path.starts_with('/') => {
                    ["", "/*"].map(|end| format!("{}{path}{end}", rule.host)).to_vec()
                }
                _ => vec![rule.host.to_owned()],
            };
            applications.insert(place, Written { uris, kind: "self_hosted", decisions: vec!["allow"] });
        }
        (applications, rule)
    })
}

/// A zone whose every name leads to one tunnel, and a policy of each decision.
fn edge() -> (Emulator, Vec<(&'static str, String)>) {
    let emulator = Emulator::start();
    emulator.add_zone(ZONE, Plan::Free);
    emulator.set_up_access("team");
    let tunnel = emulator.add_tunnel("home");
    for name in ["@", "*"] {
        let target = format!("{tunnel}.cfargotunnel.com");
        let record = json!({"type": "CNAME", "name": name, "content": target, "proxied": true});
        emulator.add_record(ZONE, record).unwrap();
    }
    emulator.put_configuration("home", r#"{"ingress": [{"service": "http://web"}]}"#).unwrap();
    let policies = ["allow", "deny", "non_identity", "bypass", "learnt_later"].map(|decision| {
        let include = json!([{"email": {"email": "staff@example.com"}}]);
        let policy = json!({"name": decision, "decision": decision, "include": include});
        (decision, emulator.add_policy(&policy).unwrap())
    });
    (emulator, policies.to_vec())
}

/// Writes an application past all rules but those for policies, and reads it.
fn write(
    cloudflare: &mut Cloudflare,
    policies: &[(&'static str, String)],
    index: usize,
    written: &Written,
) -> Application {
    let ids: Vec<&str> = written
        .decisions
        .iter()
        .map(|decision| &*policies.iter().find(|(name, _)| name == decision).unwrap().1)
        .collect();
    let name = format!("app{index}");
    let domain = format!("new{index}.{ZONE}");
    let draft = json!({"type": "self_hosted", "name": name, "domain": domain, "policies": ids});
    cloudflare.add_application(&draft).unwrap();
    let public = |uri: &String| json!({"type": "public", "uri": uri});
    let destinations: Vec<Value> = written.uris.iter().map(public).collect();
    let application = cloudflare.application_mut(&name);
    application.fields.insert("destinations".to_owned(), json!(destinations));
    application.fields.insert("type".to_owned(), json!(written.kind));
    written.read(&name, &application.aud)
}

/// Where the judgement says that a place is protected, the emulator's edge lets no visitor past without a token, and
/// none with a token that the rule would refuse, whether `/alpha` covers `/alpha/x` or not.
#[test]
fn what_is_protected_is_passed_with_a_token_of_its_audiences_only() {
    let (emulator, policies) = edge();
    let (protected, passed) = (Cell::new(0_u32), Cell::new(0_u32));
    let mut runner = TestRunner::new(ProptestConfig::default());
    let worlds = (any_applications_for_a_rule(), any::<bool>());
    let outcome = runner.run(&worlds, |((applications, rule), paths_cover_sub_paths)| {
        emulator.edit(|cloudflare| {
            let written: Vec<String> = cloudflare.applications().iter().map(|held| held.id.clone()).collect();
            written.iter().for_each(|id| cloudflare.delete_application(id));
            cloudflare.whims_mut().paths_cover_sub_paths = paths_cover_sub_paths;
            let numbered = applications.iter().enumerate();
            let read: Vec<Application> =
                numbered.map(|(index, written)| write(cloudflare, &policies, index, written)).collect();
            let Ok(audiences) = rule.cover(&read) else { return Ok(()) };
            protected.set(protected.get() + 1);
            for (host, path) in
                rule.hosts().iter().flat_map(|host| rule.paths().into_iter().map(move |path| (host, path)))
            {
                for visitor in
                    [Visitor::WithoutLogin, Visitor::WithLogin, Visitor::ServiceToken, Visitor::Preflight]
                {
                    let visit = cloudflare.visit_as(visitor, host, &path);
                    match &visit {
                        Visit::TurnedAway { .. } => {}
                        Visit::Served { audience: Some(audience), .. } => {
                            prop_assert!(visitor != Visitor::WithoutLogin, "{host}{path}: {visit}");
                            prop_assert!(
                                audiences.contains(&audience.as_str().into()),
                                "{host}{path}: {visit}"
                            );
                            passed.set(passed.get() + 1);
                        }
                        _ => prop_assert!(false, "{visitor} of {host}{path}: {visit}"),
                    }
                }
            }
            Ok(())
        })
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    let cases = ProptestConfig::default().cases;
    let [protected, passed] = [protected, passed].map(|count| f64::from(count.get()) / f64::from(cases));
    assert!(protected > 0.25 && passed > 0.7, "hardly anything is protected: {protected}, {passed}");
}

proptest! {
    #[test]
    fn what_is_covered_as_a_whole_is_covered_at_every_path(
        applications in any_applications(1..=3), rule in any_rule()
    ) {
        let applications = read(&applications);
        if let Ok(audiences) = (Rule { path: "", ..rule }).cover(&applications) {
            match rule.cover(&applications) {
                Ok(of_path) => {
                    prop_assert!(of_path.iter().all(|audience| audiences.contains(audience)));
                }
                Err(gap) => prop_assert!(false, "{gap}"),
            }
        }
    }

    #[test]
    fn a_bypass_protects_nothing(
        applications in any_applications(0..=3),
        added in any_application(&[&["bypass"], &["deny", "bypass"], &["learnt_later"]], &["self_hosted"]),
        rule in any_rule(),
    ) {
        let before = rule.cover(&read(&applications));
        let after = rule.cover(&read(&[applications, vec![added]].concat()));
        prop_assert!(after.is_err() || after == before, "{before:?} {after:?}");
    }

    /// Except for those of applications above a path that gets its own: no visitor brings their tokens there any more.
    #[test]
    fn an_application_more_takes_no_audience_away(
        applications in any_applications(1..=3),
        added in any_application(&PROTECTING, &["self_hosted"]),
        rule in any_rule(),
    ) {
        let of_path = format!("{}{}", rule.host, rule.path);
        let makes_own = added.uris.iter().any(|uri| *uri == of_path || *uri == format!("{of_path}/*"));
        let (before, after) =
            (rule.cover(&read(&applications)), rule.cover(&read(&[applications, vec![added]].concat())));
        if let (Ok(before), Ok(after)) = (before, after) {
            let is_kept = before.iter().all(|audience| after.contains(audience));
            prop_assert!(is_kept || (makes_own && !rule.path.is_empty()), "{before:?} {after:?}");
        }
    }

    #[test]
    fn the_order_of_applications_decides_nothing(applications in any_applications(1..=4), rule in any_rule()) {
        let applications = read(&applications);
        let reversed: Vec<Application> = applications.iter().rev().cloned().collect();
        prop_assert_eq!(rule.cover(&applications), rule.cover(&reversed));
    }
}
