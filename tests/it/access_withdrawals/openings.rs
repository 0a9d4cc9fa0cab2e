//! The order of an opening: what asks for a login within a place is closed before the place opens, and what is said of
//! it is said when it is so.

use cloudflare_emulator::{Visit, Watched};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Property;

use super::*;

const WILDCARD: &str = "*.example.com";
const MIDDLE: &str = "*.w.example.com";
const OTHER: &str = "https://other.example.com/";

fn by(object: &str, mut endpoint: Endpoint) -> Endpoint {
    endpoint.labels.set("resource", object);
    endpoint
}

fn admin_of(name: &str, policies: &str) -> Endpoint {
    by("ingress/shop/admin", at(name, &[("tunnel-path-prefix", "/admin"), ("access-policy", policies)]))
}

fn admin(policies: &str) -> Endpoint {
    admin_of(NAME, policies)
}

/// What visitors without a login were ever served at an address since it was watched.
fn reached(stage: &Stage, url: &str) -> Vec<String> {
    let watched = stage.cloudflare().watched();
    let is_served = |watched: &&Watched| {
        watched.url == url && watched.changes.iter().any(|change| change.got.iter().any(Visit::is_served))
    };
    watched.iter().filter(is_served).map(ToString::to_string).collect()
}

/// What opens, and what is to be closed within it: the hostname, the same that opens, the place that is closed, and a
/// visitor of each.
type Pair = (fn(&str) -> Endpoint, fn(&str) -> Endpoint, &'static str, [&'static str; 2]);

const PAIRS: [Pair; 4] = [
    (|policies| of(WILDCARD, policies), wish, NAME, [OTHER, "https://app.example.com/"]),
    (wish, admin, "app.example.com/admin", ["https://app.example.com/", "https://app.example.com/admin"]),
    (
        |policies| admin_of(WILDCARD, policies),
        admin,
        "app.example.com/admin",
        ["https://other.example.com/admin", "https://app.example.com/admin"],
    ),
    (
        |policies| of(WILDCARD, policies),
        |policies| admin_of(MIDDLE, policies),
        "*.w.example.com/admin",
        [OTHER, "https://a.w.example.com/admin"],
    ),
];

fn is_served(stage: &Stage, visitor: Visitor, url: &str) -> bool {
    let (host, path) = url.trim_start_matches("https://").split_once('/').expect("a path");
    stage.cloudflare().visit_as(visitor, host, &format!("/{path}")).is_served()
}

/// The wider one is protected, and its visitors are watched.
fn closed_wide(stage: &Stage, (wide, _, _, urls): &Pair) {
    stage.run(&[wide("staff")]);
    stage.cloudflare().watch_as(&[Visitor::WithoutLogin, Visitor::Preflight], urls);
}

/// Everything that the opening would write: the wide rule has its check, and its application is there.
fn assert_still_closed(stage: &Stage, label: &str) {
    assert!(stage.harness.rules()[0].contains("audTag"), "{label}: {:?}", stage.harness.rules());
    assert!(stage.policies().contains(&vec!["staff".to_owned()]), "{label}");
}

#[test]
fn a_wider_place_opens_only_after_the_application_of_a_narrower_one_was_made_whatever_fails() {
    for (pair, fault) in PAIRS.iter().flat_map(|pair| {
        let denied = Fault::error(403, 10000, "Authentication error");
        [Fault::status(500), denied, Fault::DoneButUnanswered].map(|fault| (pair, fault))
    }) {
        let (wide, narrow, place, [open, closed]) = *pair;
        let label = format!("{place}: {fault:?}");
        let stage = Stage::new(&[]);
        closed_wide(&stage, pair);
        let desired = [wide("none"), narrow("on-call")];
        stage.cloudflare().fault(Matcher::create_application(), 1, fault.clone());
        let answer = stage.run_loop(&desired);
        assert_still_closed(&stage, &label);
        if !matches!(fault, Fault::Status { code: 403, .. }) {
            assert_eq!(answer, Err(503), "{label}");
            assert!(stage.logged(&["refused=waiting", wide("none").dns_name.as_str()]), "{label}");
        }
        stage.cloudflare().advance_clock(INTERVAL);
        stage.run(&desired);
        assert_eq!(reached(&stage, closed), [""; 0], "{label}");
        assert!(is_served(&stage, Visitor::WithoutLogin, open), "{label}");
        assert!(is_served(&stage, Visitor::WithLogin, closed), "{label}");
        assert_eq!(stage.policies(), [["on-call"]], "{label}");
    }
}

/// The deletion and the creation were made side by side: no rule asks for a token of the application that goes.
#[test]
fn an_application_whose_rule_never_came_goes_after_the_application_of_a_narrower_place_was_made() {
    let stage = Stage::new(&[]);
    let behind = at(WILDCARD, &[]);
    stage.run(std::slice::from_ref(&behind));
    assert_eq!(stage.run_loop(&[behind.clone(), of(MIDDLE, "staff")]), Err(503));
    let url = "https://a.w.example.com/";
    stage.cloudflare().watch_as(&[Visitor::WithoutLogin], &[url]);
    stage.cloudflare().fault(Matcher::create_application(), 1, Fault::status(500));
    stage.run(&[behind, of(MIDDLE, "none"), of("a.w.example.com", "on-call")]);
    assert_eq!(reached(&stage, url), [""; 0]);
    assert!(is_served(&stage, Visitor::WithoutLogin, "https://b.w.example.com/"));
    assert_eq!(stage.policies(), [["on-call"]]);
}

/// Only the author of the narrower one can mend that, and ExternalDNS need not ask again for the one that opens.
#[test]
fn a_wider_place_stays_closed_while_a_narrower_one_has_a_mistake_or_can_have_no_application() {
    let mistaken = |mut endpoint: Endpoint| {
        endpoint.provider_specific.push(Property::new("webhook/origin-connect-timeout", "soon"));
        endpoint
    };
    for (pair, obstacle) in
        PAIRS.iter().flat_map(|pair| [(pair, "misspelled"), (pair, "mistaken"), (pair, "full")])
    {
        let (wide, narrow, place, [open, closed]) = *pair;
        let label = format!("{place}, {obstacle}");
        let mut stage = Stage::new(&[]);
        closed_wide(&stage, pair);
        let narrow_as_it_is = match obstacle {
            "misspelled" => narrow("on-cal"),
            "mistaken" => mistaken(narrow("on-call")),
            _ => {
                for number in 0..499 {
                    let uri = format!("theirs{number}.example.com");
                    let theirs = json!({"type": "self_hosted", "name": uri, "domain": uri});
                    stage.cloudflare().add_application(&theirs).expect("an application");
                }
                narrow("on-call")
            }
        };
        let desired = [wide("none"), narrow_as_it_is];
        for nth in 1..=4 {
            if nth == 3 {
                stage = stage.restarted();
            }
            let answer = stage.run_loop(&desired);
            assert!(nth == 1 || answer.is_ok(), "{label}: {answer:?}");
            assert_still_closed(&stage, &label);
            stage.cloudflare().advance_clock(AGE_MIN);
        }
        // A mistake may hide the path, too.
        let host = place.split('/').next().expect("a hostname");
        assert!(stage.logged(&["refused=still_protected", host]), "{label}");
        stage.cloudflare().edit(|cloudflare| {
            for number in 0..if obstacle == "full" { 499 } else { 0 } {
                cloudflare.delete_application(&format!("theirs{number}.example.com"));
            }
        });
        // What Cloudflare rejected is asked for again after an hour at most.
        stage.cloudflare().advance_clock(Duration::from_secs(3_600));
        stage.run(&[wide("none"), narrow("on-call")]);
        assert_eq!(reached(&stage, closed), [""; 0], "{label}");
        assert!(is_served(&stage, Visitor::WithoutLogin, open), "{label}");
        assert!(is_served(&stage, Visitor::WithLogin, closed), "{label}");
    }
}

/// Nothing fails, and each request makes as many applications as there is time for.
#[test]
fn a_wildcard_opens_after_the_last_of_three_hundred_names_below_it_has_its_application() {
    let stage = Stage::new(&[]);
    stage.run(&[of(WILDCARD, "staff")]);
    let urls = [0, 150, 299].map(|number| format!("https://a{number}.example.com/"));
    let urls = [&*urls[0], &urls[1], &urls[2], "https://other.example.com/"];
    stage.cloudflare().watch_as(&[Visitor::WithoutLogin], &urls);
    slow_down(&stage);
    let desired = [&[of(WILDCARD, "none")], &*many(300)].concat();
    let mut loops = 0;
    while stage.run_loop(&desired) != Ok(Changes::default()) {
        let is_open = is_served(&stage, Visitor::WithoutLogin, urls[3]);
        assert!(!is_open || names(&stage).len() >= 300, "{loops}");
        loops += 1;
        assert!(loops < 10, "{:?}", stage.harness.log.lines_with(&["refused="]));
        stage.cloudflare().advance_clock(INTERVAL);
    }
    for url in &urls[..3] {
        assert_eq!(reached(&stage, url), [""; 0]);
    }
    assert!(is_served(&stage, Visitor::WithoutLogin, urls[3]));
}

/// docs/access.md (3): a warning names the hostname, however many loops the opening takes.
#[test]
fn that_the_login_of_a_hostname_goes_is_said_once() {
    const SAID: [&str; 2] = ["removes the login of the hostname's rule without a path", NAME];
    let stage = Stage::protected(&[]);
    stage.cloudflare().fault_every(Matcher::delete_application(), Fault::status(500));
    for _ in 0..3 {
        let _ = stage.run_loop(&[wish("none")]);
    }
    stage.cloudflare().clear_faults();
    stage.run(&[wish("none")]);
    assert!(stage.cloudflare().visit(NAME, "/").is_served());
    assert_eq!(stage.harness.log.lines_with(&SAID).len(), 1);

    let stage = Stage::protected(&[]);
    stage.run(&[wish("none"), at(NAME, &[("tunnel-path-prefix", "/p")])]);
    assert!(stage.logged(&["refused=still_protected", NAME]) && !stage.logged(&SAID), "it is refused now");
}

/// The deletion of the application opens the hostname, whatever becomes of the hostname's other writes.
#[test]
fn a_hostname_opens_although_another_write_of_it_fails() {
    const SAID: [&str; 2] = ["removes the login of the hostname's rule without a path", NAME];
    let stage = Stage::protected(&[]);
    assert_eq!(stage.run_loop(&[wish("none")]), Err(503), "the check has gone");
    stage.cloudflare().fault_every(Matcher::put_configuration(), Fault::status(500));
    let path = [("tunnel-path-prefix", "/p"), ("access-policy", "none")];
    let desired = [wish("none"), at(NAME, &path)];
    let _ = stage.run_loop(&desired);
    assert!(stage.cloudflare().visit(NAME, "/").is_served());
    assert_eq!(stage.harness.log.lines_with(&SAID).len(), 1);
}

/// The application of a deleted hostname is there for some minutes, and the silent endpoint takes its protection over.
#[test]
fn a_hostname_that_returns_in_silence_beside_an_open_path_keeps_its_application() {
    let stage = Stage::new(&[]);
    stage.run(&[wish("staff")]);
    stage.run_loop(&[]).expect("deleted");
    let hook = at(NAME, &[("tunnel-path-prefix", "/hook"), ("access-policy", "none")]);
    stage.run(&[at(NAME, &[]), by("ingress/shop/hook", hook)]);
    assert!(stage.is_served_with_login());
}

/// A person closed all names once, in the dashboard.
#[test]
fn a_hostname_that_asks_to_be_open_below_a_foreign_application_is_told_so() {
    let public = json!({"name": "public", "decision": "bypass", "include": [{"everyone": {}}]});
    for (before, is_open) in [(&[][..], false), (&[wish("staff")], false), (&[], true)] {
        let stage = Stage::new(&[]);
        let staff = stage.cloudflare().edit(|cloudflare| cloudflare.policies()[0].id.clone());
        let policy = if is_open { public.clone() } else { json!(staff) };
        let all = json!({"type": "self_hosted", "name": "all", "domain": WILDCARD, "policies": [policy]});
        stage.cloudflare().add_application(&all).expect("an application");
        stage.run(before);
        stage.run(&[wish("none"), of("b.example.com", "staff")]);
        assert_eq!(stage.cloudflare().visit(NAME, "/").is_served(), is_open);
        let told = stage.harness.log.lines_with(&["WARN", NAME, "none does not open", "\"all\""]);
        assert_eq!(told.len(), usize::from(!is_open));
        assert!(!stage.logged(&["removes the login", NAME]), "another login stays");
    }
}

/// It says nothing, and so requires the token of an application that is about to go.
#[test]
fn a_silent_path_that_comes_between_the_steps_of_an_opening_is_served_at_least_with_a_login() {
    let stage = Stage::protected(&[]);
    assert_eq!(stage.run_loop(&[wish("none")]), Err(503), "the check has gone");
    stage.run(&[wish("none"), at(NAME, &[("tunnel-path-prefix", "/p")])]);
    assert!(is_served(&stage, Visitor::WithLogin, "https://app.example.com/p"));
}

/// The object of the foreign rule's hostname is refused, so its word opens nothing, whatever another object opens.
#[test]
fn a_foreign_rule_is_never_served_without_a_login_because_of_an_endpoint_that_is_refused() {
    let theirs = r#"{"hostname":"app.example.com","service":"http://theirs:80"}"#;
    let beside = by("ingress/shop/q", at(NAME, &[("tunnel-path-prefix", "/q"), ("access-policy", "staff")]));
    for adopt in [&[][..], &[("ADOPT", "owner=other")]] {
        let stage = Stage::new(adopt);
        stage.run(&[of(WILDCARD, "staff"), beside.clone()]);
        let rules = [&[theirs.to_owned()][..], &stage.harness.rules()].concat().join(",");
        let text = format!(r#"{{"ingress":[{rules}]}}"#);
        stage.cloudflare().put_configuration(&stage.harness.tunnel, &text).expect("cloudflared takes it");
        let urls = ["https://app.example.com/", OTHER];
        stage.cloudflare().watch_as(&[Visitor::WithoutLogin], &urls);
        stage.run_long(&[of(WILDCARD, "none"), by("ingress/shop/name", wish("none")), beside.clone()]);
        assert_eq!([reached(&stage, urls[0]), reached(&stage, urls[1])], [[""; 0]; 2], "{adopt:?}");
        assert!(stage.logged(&["refused=rule_held", NAME]), "{adopt:?}");
        assert!(stage.logged(&["refused=still_protected", WILDCARD]), "{adopt:?}");
    }
}

/// A person's application takes everything below the path, and so no request for the path itself.
#[test]
fn a_silent_path_is_never_served_without_a_login_because_an_application_stands_over_everything_below_it() {
    let stage = Stage::protected(&[]);
    let staff = stage.cloudflare().edit(|cloudflare| cloudflare.policies()[0].id.clone());
    let domain = "app.example.com/api/*";
    let theirs = json!({"type": "self_hosted", "name": "theirs", "domain": domain, "policies": [staff]});
    stage.cloudflare().add_application(&theirs).expect("an application");
    let api = by("ingress/shop/api", at(NAME, &[("tunnel-path-prefix", "/api")]));
    stage.run(&[wish("staff"), api.clone()]);
    let url = "https://app.example.com/api";
    stage.cloudflare().watch_as(&[Visitor::WithoutLogin], &[url]);
    stage.run_long(&[wish("none"), api]);
    assert_eq!(reached(&stage, url), [""; 0]);
    assert!(stage.logged(&["refused=still_protected", NAME]));
}

/// The record of the hostname alone, without a rule, which says this of Access or nothing.
fn record_alone(policies: &str) -> Endpoint {
    let said = [("tunnel-service", "none"), ("access-policy", policies)];
    endpoint(NAME, if policies.is_empty() { &said[..1] } else { &said })
}

/// Its rule would ask for tokens of the application that goes.
#[test]
fn a_new_silent_path_beside_a_record_alone_that_opens_refuses_no_visitor_with_a_login() {
    let stage = Stage::protected(&[]);
    stage.run(&[record_alone("")]);
    let path = by("ingress/shop/other", at(NAME, &[("tunnel-path-prefix", "/x")]));
    stage.run(&[record_alone("none"), path]);
    assert!(
        is_served(&stage, Visitor::WithLogin, "https://app.example.com/x"),
        "{:?}",
        stage.harness.rules()
    );
}

/// The record alone relies on the application too, and goes in the same request.
#[test]
fn a_path_opens_although_the_record_alone_beside_it_is_deleted() {
    let stage = Stage::protected(&[]);
    let api = |policies: &[(&str, &str)]| at(NAME, &[&[("tunnel-path-prefix", "/api")], policies].concat());
    stage.run(&[wish("staff"), api(&[])]);
    stage.run(&[record_alone(""), api(&[])]);
    stage.run(&[api(&[("access-policy", "none")])]);
    assert_eq!(names(&stage), [""; 0]);
    assert!(is_served(&stage, Visitor::WithoutLogin, "https://app.example.com/api"));
}

/// The other rule's own annotations ask for the tokens, so the application stays, and no request waits for that.
#[test]
fn an_application_whose_tokens_another_hostname_asks_for_stays_and_fails_no_request() {
    let stage = Stage::protected(&[]);
    let audience = stage.applications()[0].aud.clone();
    let access =
        [("access-required", "true"), ("access-team-name", "my-team"), ("access-aud-tag", &*audience)];
    let other = at("other.example.com", &access);
    stage.run(&[wish("staff"), other.clone()]);
    for _ in 0..3 {
        assert!(stage.run_loop(&[wish("none"), other.clone()]).is_ok());
    }
    assert!(stage.logged(&["refused=still_protected", NAME, "other.example.com"]));
    assert_eq!(names(&stage), [NAME]);
}

/// Cloudflare's answer is a refusal of the deletion itself, so the same deletion would be refused again.
#[test]
fn a_deletion_that_cloudflare_refuses_is_not_sent_in_each_loop() {
    let stage = Stage::protected(&[]);
    let refusal = Fault::error(400, 12345, "the application is in use");
    stage.cloudflare().fault_every(Matcher::delete_application(), refusal);
    let _ = stage.run_loop(&[wish("none")]);
    let mut writes = 0;
    for _ in 0..5 {
        stage.cloudflare().advance_clock(INTERVAL);
        stage.cloudflare().take_calls();
        let _ = stage.run_loop(&[wish("none")]);
        writes += stage.cloudflare().count_calls().writes;
    }
    assert!(writes <= 2, "{writes} in five loops");
    stage.cloudflare().clear_faults();
    stage.cloudflare().advance_clock(Duration::from_secs(3_600));
    stage.run(&[wish("none")]);
    assert!(stage.cloudflare().visit(NAME, "/").is_served());
}

/// Its object has another path that is refused, so its rule goes on asking for tokens of the application.
#[test]
fn an_opening_beside_a_refused_endpoint_that_keeps_its_rule_fails_no_request() {
    let theirs = r#"{"hostname":"app.example.com","path":"^/x(/|$)","service":"http://theirs:80","originRequest":{"access":{"required":true,"teamName":"my-team","audTag":["x"]}}}"#;
    let part = |path: &str, policies: &str| {
        by("ingress/shop/b", at(NAME, &[("tunnel-path-prefix", path), ("access-policy", policies)]))
    };
    let stage = Stage::protected(&[]);
    let api = by("ingress/shop/b", at(NAME, &[("tunnel-path-prefix", "/api")]));
    stage.run(&[wish("staff"), api]);
    let rules = [&[theirs.to_owned()][..], &stage.harness.rules()].concat().join(",");
    let text = format!(r#"{{"ingress":[{rules}]}}"#);
    stage.cloudflare().put_configuration(&stage.harness.tunnel, &text).expect("cloudflared takes it");
    let desired = [wish("none"), part("/api", "none"), part("/x", "none")];
    for nth in 0..4 {
        let answer = stage.run_loop(&desired);
        assert!(nth == 0 || answer.is_ok(), "{answer:?}");
        stage.cloudflare().advance_clock(INTERVAL);
    }
    assert!(stage.logged(&["refused=rule_held", NAME]) && stage.logged(&["refused=still_protected", NAME]));
    stage.run(&desired[..2]);
    assert!(is_served(&stage, Visitor::WithoutLogin, "https://app.example.com/api"));
}

/// Its visitors need the login of the wildcard, and no object says that they may do without.
#[test]
fn a_foreign_proxied_record_below_a_wildcard_holds_back_its_opening_until_an_application_is_over_it() {
    let stage = Stage::new(&[]);
    let record = json!({"name": "nas.example.com", "type": "A", "content": "192.0.2.4", "proxied": true});
    stage.cloudflare().add_record(&stage.harness.zone, record).expect("Cloudflare takes it");
    stage.run(&[of(WILDCARD, "staff")]);
    stage.run(&[of(WILDCARD, "none")]);
    assert_eq!(names(&stage), [WILDCARD]);
    let told = [
        "refused=still_protected",
        "nas.example.com A 192.0.2.4",
        "give it an Access application of its own",
    ];
    assert!(stage.logged(&told), "{:#?}", stage.harness.log.lines_with(&["refused="]));
    stage.cloudflare().edit(|cloudflare| {
        let policy = cloudflare.policies()[0].id.clone();
        let fields =
            json!({"type": "self_hosted", "name": "nas", "domain": "nas.example.com", "policies": [policy]});
        cloudflare.add_application(&fields).expect("Cloudflare takes it");
    });
    stage.run(&[of(WILDCARD, "none")]);
    assert_eq!(names(&stage), ["nas"]);
}

#[test]
fn a_silent_name_of_another_namespace_holds_back_the_opening_of_a_wildcard_if_it_is_published() {
    for is_published in [true, false] {
        let stage = Stage::new(&[("NAMESPACE_GUARD", "true"), ("ACCESS_POLICIES", "staff")]);
        let wildcard = |policies: &str| {
            let properties = [
                ("tunnel-service", "http://web.infra.svc:80"),
                ("access-policy", policies),
                ("tunnel-wildcard", "true"),
            ];
            by("ingress/infra/wild", endpoint(WILDCARD, &properties))
        };
        let said: &[(&str, &str)] = if is_published { &[] } else { &[("tunnel-pth", "/misspelled")] };
        stage.run(&[wildcard("staff"), at(NAME, said)]);
        stage.run(&[wildcard("none"), at(NAME, said)]);
        assert_eq!(stage.logged(&["refused=still_protected", NAME]), is_published);
        assert_eq!(names(&stage).len(), usize::from(is_published));
        stage.run(&[wildcard("none"), wish("none")]);
        assert_eq!(names(&stage), [""; 0]);
    }
}
