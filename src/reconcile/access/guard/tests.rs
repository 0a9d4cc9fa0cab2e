use super::*;
use crate::fixture::snapshot_of_access;
use crate::ingress::path::expression_of_prefix;
use crate::model::access::{AttachedPolicy, Destination, PolicyDecision};
use crate::reconcile::access::host_protection::HostProtection;

const HOST: &str = "a.example.com";

/// Its audience is its name, in capitals.
fn application(name: &str, destinations: &[&str]) -> Application {
    Application {
        id: name.into(),
        name: name.into(),
        audience: name.to_ascii_uppercase().into(),
        kind: ApplicationKind::SelfHosted,
        destinations: destinations.iter().map(|text| Destination::parse(text)).collect(),
        policies: Some(vec![policy(PolicyDecision::Allow)]),
        tags: Vec::new(),
        session_duration: None,
        created_unix_seconds: None,
    }
}

fn policy(decision: PolicyDecision) -> AttachedPolicy {
    AttachedPolicy { id: "p".into(), decision }
}

fn bypass(name: &str, destinations: &[&str]) -> Application {
    let policies = Some(vec![policy(PolicyDecision::Allow), policy(PolicyDecision::Bypass)]);
    Application { policies, ..application(name, destinations) }
}

/// The cover as one word: the audiences, or the gap with the application's name. The path is a prefix, or an
/// expression.
fn judged(applications: &[Application], hostname: &str, path: &str) -> String {
    let pattern = match path {
        "" => None,
        path if path.starts_with('/') => PathPattern::parse(&expression_of_prefix(path).unwrap()).ok(),
        path => Some(PathPattern::parse(path).unwrap()),
    };
    let hostname = Hostname::parse(hostname).unwrap();
    let snapshot = snapshot_of_access(applications);
    let protection = HostProtection::of(&hostname, &snapshot);
    let gap = match protection.guarding(pattern.as_ref().map(PathPattern::as_str)) {
        Ok(met) => return met.iter().map(|one| &*one.audience).collect::<Vec<_>>().join(" "),
        Err(gap) => gap,
    };
    assert!(gap.starts_with(char::is_lowercase) && !gap.ends_with('.') && !gap.contains('\n'), "{gap}");
    if let Some((_, needed)) = gap.split_once(": create one for ") {
        let (needed, _) = needed.split_once(", with a policy").unwrap();
        return format!("none: {}", needed.replace(" and ", " "));
    }
    let (what, _) = GAPS.iter().find(|(_, text)| gap.contains(text)).unwrap();
    let name = gap.split('"').nth(1).unwrap();
    format!("{what}: {name}")
}

/// The words for gaps, with the remedies that tell them.
const GAPS: [(&str, &str); 4] = [
    ("bypass", "remove that policy"),
    ("no policies", "add one"),
    ("unknown kind", "update the webhook"),
    ("overlap", "delete one, or create"),
];

#[test]
fn one_application_covers_what_its_destinations_take() {
    let whole = "none: a.example.com";
    let admin = "none: a.example.com/admin a.example.com/admin/*";
    for (destinations, path, expected) in [
        (&["a.example.com"][..], "", "X"),
        (&["https://A.Example.com/"], "", "X"),
        (&["a.example.com/*"], "", "X"),
        (&["a.example.com"], "/admin", "X"),
        (&["a.example.com"], "^/x", "X"),
        (&["b.example.com"], "", whole),
        (&["a.example.com/admin", "a.example.com/admin/*"], "/admin", "X"),
        (&["a.example.com/admin", "a.example.com/admin/*"], "", whole),
        // Cloudflare documents this destination as enough, but users report that it is not.
        (&["a.example.com/admin"], "/admin", admin),
        (&["a.example.com/admin/*"], "/admin", admin),
        // Every other expression may match elsewhere, too.
        (&["a.example.com/admin", "a.example.com/admin/*"], "^/admin", whole),
        (&["a.example.com/admin", "a.example.com/admin/*"], "(?i)^/admin(/|$)", whole),
        // These paths travel in more than one spelling.
        (&["a.example.com/ä", "a.example.com/ä/*"], "/ä", whole),
        (&["a.example.com/a%zz", "a.example.com/a%zz/*"], "/a%zz", whole),
        (&["a.example.com/a//b", "a.example.com/a//b/*"], "/a//b", whole),
        (&["a.example.com/a/../b", "a.example.com/a/../b/*"], "/a/../b", whole),
        (&["a.example.com/.well-known", "a.example.com/.well-known/*"], "/.well-known", "X"),
        // Not understood, or not as one reads it.
        (&["a.example.com."], "", whole),
        (&["*"], "", whole),
    ] {
        let applications = [application("x", destinations)];
        assert_eq!(judged(&applications, HOST, path), expected, "{destinations:?} {path}");
    }
}

#[test]
fn a_wildcard_covers_the_names_that_its_stars_take() {
    for (destination, expected) in [
        ("*.example.com", "X"),
        ("a*.example.com", "X"),
        ("*.*.com", "X"),
        ("*.com", "none: a.example.com"),
        ("b*.example.com", "none: a.example.com"),
        ("a**.example.com", "none: a.example.com"),
        ("*.example.com/x", "none: a.example.com"),
    ] {
        assert_eq!(judged(&[application("x", &[destination])], HOST, ""), expected, "{destination}");
    }
    let of_path = [application("x", &["*.example.com/admin", "*.example.com/admin/*"])];
    assert_eq!(judged(&of_path, HOST, "/admin"), "X");
    assert_eq!(judged(&of_path, HOST, "/api"), "none: a.example.com/api a.example.com/api/*");
    let mixed = [application("x", &["*.example.com/admin", "a.example.com/admin/*"])];
    assert!(judged(&mixed, HOST, "/admin").starts_with("none"), "one of the two is to have both");
}

/// Cloudflare documents no order for two overlapping wildcards. An exact host comes before both.
#[test]
fn of_two_wildcards_over_a_name_neither_covers_it() {
    let all = || application("all", &["*.example.com"]);
    for (second, expected) in [
        ("a*.example.com", "overlap: x"),
        ("*.*.com", "overlap: all"),
        ("**.example.com", "overlap: x"),
        ("*.example.com/x", "ALL X"),
        ("b*.example.com", "ALL"),
        ("a.example.com", "ALL X"),
    ] {
        assert_eq!(judged(&[all(), application("x", &[second])], HOST, ""), expected, "{second}");
    }
    let three = [all(), application("x", &["a*.example.com/x"]), application("own", &["a.example.com/*"])];
    assert_eq!(judged(&three, HOST, ""), "ALL OWN X");
    let two = [all(), application("x", &["a*.example.com/x"])];
    assert_eq!(judged(&two, HOST, "/x"), "overlap: x");
    assert_eq!(judged(&two, HOST, "/admin"), "ALL");
}

#[test]
fn a_wildcard_hostname_needs_the_same_wildcard_and_no_gap_below_it() {
    let none = "none: *.example.com";
    for (destinations, expected) in [
        (&["*.example.com"][..], "X"),
        (&["*.example.com/*"], "X"),
        (&["**.example.com"], none),
        (&["a.example.com"], none),
    ] {
        assert_eq!(
            judged(&[application("x", destinations)], "*.example.com", ""),
            expected,
            "{destinations:?}"
        );
    }
    let all = || application("all", &["*.example.com"]);
    for (second, expected) in [
        ("a.example.com", "bypass: x"),
        ("a.b.example.com", "bypass: x"),
        ("a*.example.com", "bypass: x"),
        ("**.example.com", "bypass: x"),
        ("a..example.com", "bypass: x"),
        ("*.EXAMPLE.com:8443", "bypass: x"),
        ("example.com", "ALL"),
        ("a.example.org", "ALL"),
        ("xexample.com", "ALL"),
    ] {
        assert_eq!(judged(&[all(), bypass("x", &[second])], "*.example.com", ""), expected, "{second}");
    }
    for (second, expected) in
        [("a.example.com", "ALL X"), ("*.b.example.com", "ALL X"), ("a*.example.com", "overlap: x")]
    {
        assert_eq!(judged(&[all(), application("x", &[second])], "*.example.com", ""), expected, "{second}");
    }
    let admin = || application("admin", &["*.example.com/admin", "*.example.com/admin/*"]);
    assert_eq!(judged(&[admin()], "*.example.com", "/admin"), "ADMIN");
    // The application of the name itself comes before the path of a wildcard.
    assert_eq!(judged(&[admin(), bypass("x", &["a.example.com"])], "*.example.com", "/admin"), "bypass: x");
    assert_eq!(judged(&[admin(), bypass("x", &["*.example.com"])], "*.example.com", "/admin"), "bypass: x");
}

#[test]
fn an_application_that_may_take_a_request_counts_with_its_gap() {
    let whole = || application("all", &["a.example.com"]);
    for (path, destination, expected) in [
        ("", "a.example.com/public", "bypass: x"),
        ("", "*.example.com", "bypass: x"),
        ("", "a.example.com:443", "bypass: x"),
        ("", "a.example.com?x", "bypass: x"),
        ("", "a.example.com.", "bypass: x"),
        ("", "**.a.example.com", "bypass: x"),
        ("", "", "bypass: x"),
        ("", "b.example.com", "ALL"),
        ("", "*.a.example.com", "ALL"),
        ("^/x", "a.example.com/admin", "bypass: x"),
        ("/admin", "a.example.com/admin", "bypass: x"),
        ("/admin", "a.example.com/admin/x", "bypass: x"),
        ("/admin", "a.example.com/ADMIN/x", "bypass: x"),
        ("/admin", "a.example.com/%61dmin", "bypass: x"),
        ("/admin", "a.example.com/*/x", "bypass: x"),
        ("/admin", "a.example.com/./admin", "bypass: x"),
        ("/admin", "a.example.com//admin", "bypass: x"),
        ("/admin", "a.example.com/adm", "bypass: x"),
        ("/admin", "a.example.com/\u{e4}", "bypass: x"),
        ("/admin/x", "a.example.com/admin", "bypass: x"),
        ("/admin", "a.example.com/public", "ALL"),
        ("/admin", "a.example.com/administrator", "ALL"),
    ] {
        assert_eq!(
            judged(&[whole(), bypass("x", &[destination])], HOST, path),
            expected,
            "{path} {destination}"
        );
    }
    let idn = [application("all", &["xn--bcher-kva.example"]), bypass("x", &["bücher.example/x"])];
    assert_eq!(judged(&idn, "bücher.example", ""), "bypass: x");
    let idn = |x: &str| [application("all", &["a.example.com"]), bypass("x", &[x])];
    assert_eq!(judged(&idn("ü.example.com"), HOST, ""), "ALL");
    assert_eq!(judged(&idn("ü*.example.com"), HOST, ""), "bypass: x", "a wildcard that cannot be read");
}

#[test]
fn above_a_path_with_its_own_application_others_do_not_count() {
    let own = || application("own", &["a.example.com/a/b", "a.example.com/a/b/*"]);
    for (destination, expected) in [
        ("a.example.com", "OWN"),
        ("a.example.com/a", "OWN"),
        ("a.example.com/a/c", "OWN"),
        ("a.example.com/a/b", "bypass: x"),
        ("a.example.com/A/b", "bypass: x"),
        ("a.example.com/a/b/c", "bypass: x"),
        // Cloudflare documents no order for two patterns with stars.
        ("a.example.com/*", "bypass: x"),
        ("*.example.com", "bypass: x"),
    ] {
        assert_eq!(judged(&[bypass("x", &[destination]), own()], HOST, "/a/b"), expected, "{destination}");
    }
    for half in ["a.example.com/a/b", "a.example.com/a/b/*"] {
        let whole = bypass("all", &["a.example.com"]);
        assert_eq!(judged(&[whole, application("half", &[half])], HOST, "/a/b"), "bypass: all", "{half}");
    }
    let unrelated = Application { kind: ApplicationKind::Unrelated, ..own() };
    assert_eq!(judged(&[bypass("all", &["a.example.com"]), unrelated], HOST, "/a/b"), "bypass: all");
    let halves = [
        application("at", &["a.example.com/a/b"]),
        application("below", &["a.example.com/a/b/*"]),
        bypass("all", &["a.example.com"]),
    ];
    assert_eq!(judged(&halves, HOST, "/a/b"), "AT BELOW");
}

#[test]
fn what_an_application_does_not_tell_is_a_gap() {
    let whole = || application("x", &["a.example.com"]);
    let with = |policies: Option<Vec<PolicyDecision>>| {
        let policies = policies.map(|decisions| decisions.into_iter().map(policy).collect());
        Application { policies, ..whole() }
    };
    for (application, alone, beside_another) in [
        (with(Some(vec![PolicyDecision::Deny])), "X", "X Y"),
        (with(Some(vec![PolicyDecision::Deny, PolicyDecision::Allow])), "X", "X Y"),
        (Application { kind: ApplicationKind::Rendered, ..whole() }, "X", "X Y"),
        (Application { kind: ApplicationKind::Unrelated, ..whole() }, "none: a.example.com", "Y"),
        (with(Some(vec![PolicyDecision::Allow, PolicyDecision::Bypass])), "bypass: x", "bypass: x"),
        (with(Some(vec![PolicyDecision::Unknown, PolicyDecision::Allow])), "bypass: x", "bypass: x"),
        (with(Some(vec![])), "no policies: x", "no policies: x"),
        (with(None), "no policies: x", "no policies: x"),
        (Application { kind: ApplicationKind::Unknown, ..whole() }, "unknown kind: x", "unknown kind: x"),
    ] {
        let other = self::application("y", &["a.example.com"]);
        assert_eq!(
            judged(&[application.clone(), other.clone()], HOST, ""),
            beside_another,
            "{application:?}"
        );
        assert_eq!(judged(&[application], HOST, ""), alone);
    }
}
