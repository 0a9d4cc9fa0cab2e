//! Several objects that ask for one hostname and path: the same one has it in every loop, and the others are told.

use cloudflare_emulator::{Token, Visit, Visitor};
use external_dns_cloudflare_tunnel_webhook::limits;
use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Endpoint, Property};
use serde_json::json;
use test_support::harness::{Harness, Program, TOKEN, endpoint, published};

fn of(resource: &str, mut endpoint: Endpoint) -> Endpoint {
    endpoint.labels.set("resource", resource);
    endpoint
}

/// What an object of that name asks for.
fn object(resource: &str, hostname: &str, service: &str) -> Endpoint {
    of(resource, published(hostname, service))
}

fn with_path(resource: &str, hostname: &str, path: &str, service: &str) -> Endpoint {
    of(resource, endpoint(hostname, &[("tunnel-service", service), ("tunnel-path-prefix", path)]))
}

/// An object's rules for a whole hostname and for its path `/api`, which lead to two services.
fn two_paths(hostname: &str, api: &str) -> [Endpoint; 2] {
    [object("ingress/two/db", hostname, "http://db:80"), with_path("ingress/two/db", hostname, "/api", api)]
}

fn run(program: &Program, desired: &[Endpoint]) {
    program.external_dns().run_loop(desired).expect("answered");
}

/// The writes of loops that see one list after the other.
fn writes(harness: &Harness, program: &Program, loops: &[&[Endpoint]]) -> usize {
    harness.cloudflare.take_calls();
    loops.iter().for_each(|desired| run(program, desired));
    harness.cloudflare.count_calls().writes
}

fn warnings(harness: &Harness, words: &[&str]) -> Vec<String> {
    harness.log.lines_with(words).into_iter().filter(|line| line.starts_with("WARN")).collect()
}

/// `helm upgrade --atomic` goes back to the objects before where the new ones do not come up.
#[test]
fn a_rollback_leaves_a_hostname_with_the_object_that_is_there_again() {
    let (harness, host) = (Harness::new(), "rollback.example.com");
    let program = harness.start();
    let old = object("ingress/n/web", host, "http://old:80");
    let new = object("ingress/n/app", host, "http://new:80");
    for (desired, service) in [(&old, "http://old:80"), (&new, "http://new:80"), (&old, "http://old:80")] {
        run(&program, std::slice::from_ref(desired));
        assert_eq!(harness.service_at(host, "/"), service);
    }
    assert_eq!(warnings(&harness, &[host]), [""; 0]);
    assert_eq!(writes(&harness, &program, &[std::slice::from_ref(&old)]), 0);
    run(&program, &[]);
    assert!(!harness.service_at(host, "/").contains(":80"), "it goes with its object");
}

#[test]
fn two_objects_that_ask_for_the_same_are_no_conflict() {
    let (harness, host) = (Harness::new(), "alike.example.com");
    let program = harness.start();
    let [a, b] = ["ingress/n/a", "ingress/n/b"].map(|resource| object(resource, host, "http://web:80"));
    run(&program, &[a.clone(), b.clone()]);
    let [a, b] = [[a], [b]];
    assert_eq!(writes(&harness, &program, &[&a, &b, &a, &b]), 0);
    assert_eq!(warnings(&harness, &[host]), [""; 0]);
}

/// With `--txt-cache-interval`, or a registry of its own, ExternalDNS may adjust before it reads.
#[test]
fn before_anything_was_read_external_dns_decides() {
    let (harness, host) = (Harness::new(), "unread.example.com");
    let program = harness.start();
    let both = ["ingress/n/a", "ingress/n/b"]
        .map(|resource| object(resource, host, &format!("http://{}:80", resource.replace('/', "-"))));
    let adjusted = || program.external_dns().adjust(&both).expect("adjusted").len();
    assert_eq!(adjusted(), 2);
    program.external_dns().records().expect("read");
    assert_eq!(adjusted(), 1);
}

/// A new process knows the object by the stamp alone.
#[test]
fn an_object_that_is_mistyped_keeps_its_paths_after_a_restart_though_a_rival_asks_for_them() {
    let (harness, host) = (Harness::new(), "mistyped.example.com");
    run(&harness.start(), &two_paths(host, "http://api:80"));
    let rival = with_path("ingress/one/web", host, "/api", "http://rival:80");
    let program = harness.start();
    for _ in 0..2 {
        run(&program, &[&two_paths(host, "htp://api:80")[..], std::slice::from_ref(&rival)].concat());
        assert_eq!(
            [harness.service_at(host, "/api"), harness.service_at(host, "/")],
            ["http://api:80", "http://db:80"]
        );
    }
}

/// Its applications come first, and its rules in the next loop.
#[test]
fn an_object_with_a_login_keeps_its_path_after_a_restart_though_a_rival_asks_for_it() {
    let (harness, host) = (Harness::new(), "login.example.com");
    harness.cloudflare.edit(|cloudflare| {
        cloudflare.set_up_access("my-team");
        let policy = json!({"name": "staff", "decision": "allow", "include": [{"everyone": {}}]});
        cloudflare.add_policy(&policy).expect("a policy");
        *cloudflare.token_mut(TOKEN) = Token::with_access(TOKEN);
    });
    let protected = |resource: &str, path: &str, service: &str| {
        let service = [("tunnel-service", service), ("tunnel-path-prefix", path), ("access-policy", "staff")];
        of(resource, endpoint(host, &service))
    };
    let held = [
        protected("ingress/two/app", "/admin", "http://admin:80"),
        protected("ingress/three/db", "/api", "http://api:80"),
    ];
    let program = harness.start();
    assert_eq!(program.external_dns().run_loop(&held), Err(503));
    for _ in 0..3 {
        run(&program, &held);
    }
    drop(program);
    let rival = protected("ingress/one/web", "/api", "http://rival:80");
    run(&harness.start(), &[&held[..], &[rival]].concat());
    let visit = harness.cloudflare.visit_as(Visitor::WithLogin, host, "/api");
    let Visit::Served { service, .. } = visit else { panic!("{visit}") };
    assert_eq!(service, "http://api:80");
}

#[test]
fn a_mistake_of_the_holder_hands_its_hostname_to_no_rival_and_a_mistake_of_a_rival_stops_no_other() {
    let (harness, host) = (Harness::new(), "mistake.example.com");
    let program = harness.start();
    let holder = |service: &str| object("ingress/b/web", host, service);
    let rival = |service: &str| object("ingress/a/web", host, service);
    run(&program, &[holder("http://b:80")]);
    run(&program, &[holder("http://b:80/mistake"), rival("http://a:80")]);
    assert_eq!(harness.service_at(host, "/"), "http://b:80", "what is published stays");
    let fresh = "fresh.example.com";
    let [bad, good] = [("ingress/a/web", "b:80"), ("ingress/b/web", "http://b:80")]
        .map(|(resource, service)| object(resource, fresh, service));
    run(&program, &[bad, good]);
    assert_eq!(harness.service_at(fresh, "/"), "http://b:80", "nothing is published that could stay");
}

#[test]
fn what_names_no_service_is_counted_when_the_count_changes_and_named_for_debugging() {
    let harness = Harness::new();
    let program = harness.start();
    let plain = |number: u16| of("ingress/n/plain", endpoint(&format!("plain{number}.example.com"), &[]));
    let counted = |count: &str| {
        harness
            .log
            .lines_with(&["INFO", "name no service"])
            .iter()
            .filter(|line| line.contains(count))
            .count()
    };
    let opted_out = endpoint("opted-out.example.com", &[("tunnel", "false")]);
    for _ in 0..2 {
        run(&program, &[plain(1), plain(2), opted_out.clone()]);
    }
    assert_eq!(counted("not published: 2 ("), 1);
    run(&program, &[plain(1), opted_out]);
    assert_eq!((counted("not published: 1 ("), counted("LOG_LEVEL=debug")), (1, 2));
    let names = |line: &str| counted(&format!(" ({line}); LOG_LEVEL=debug names all"));
    assert_eq!(
        (names(r#""plain1.example.com", "plain2.example.com""#), names(r#""plain1.example.com""#)),
        (1, 1)
    );
    let named = harness.log.lines_with(&["DEBUG", "plain2.example.com"]);
    assert!(named[0].contains("resource=\"ingress/n/plain\"") && named[0].contains("type=A"), "{named:#?}");
}

/// A rule whose path is mistyped has no path, and so the place of the rule for the whole hostname. That is another
/// object's, which keeps it; the mistake is refused all the same, and what is published stays.
#[test]
fn a_mistyped_path_beside_another_objects_hostname_withdraws_nothing() {
    let (harness, host) = (Harness::new(), "shop.example.com");
    let program = harness.start();
    let whole = object("ingress/one/web", host, "http://web:80");
    let api = with_path("ingress/two/api", host, "/api", "http://api:80");
    run(&program, &[whole.clone(), api.clone()]);
    assert_eq!(harness.service_at(host, "/api"), "http://api:80");
    let mut mistyped = api;
    for property in &mut mistyped.provider_specific {
        if &*property.name == "webhook/tunnel-path-prefix" {
            *property = Property::new("webhook/tunnel-path-prefx", &*property.value);
        }
    }
    for _ in 0..3 {
        run(&program, &[whole.clone(), mistyped.clone()]);
        assert_eq!(harness.service_at(host, "/api"), "http://api:80");
        assert_eq!(harness.service_at(host, "/"), "http://web:80");
    }
    run(&program, &[whole]);
    assert_eq!(harness.service_at(host, "/api"), "http://web:80", "the object with the mistake is gone");
}

/// Without that line an operator would take the rivals that the log names for all of them.
#[test]
fn of_more_rivals_than_the_log_names_it_says_that_there_are_more() {
    let harness = Harness::new();
    for (places, more) in [(limits::NOTES_MAX, 0), (limits::NOTES_MAX + 1, 1)] {
        let program = harness.start();
        let pair = |place: usize| {
            ["a", "b"].map(|name| {
                let service = format!("http://{name}:80");
                object(&format!("ingress/shop/{name}"), &format!("h{place}.example.com"), &service)
            })
        };
        let desired: Vec<Endpoint> = (0..places).flat_map(pair).collect();
        program.external_dns().records().expect("read");
        harness.log.forget();
        program.external_dns().adjust(&desired).expect("adjusted");
        assert_eq!(harness.log.lines_with(&["the log shows only the first"]).len(), more, "{places}");
    }
}

/// What a rule says that requires a login by itself.
const CHECK: [(&str, &str); 3] =
    [("access-required", "true"), ("access-team-name", "team"), ("access-aud-tag", "a")];

const X: &str = "x.example.com";

fn on_x(object: &str, said: &[(&str, &str)]) -> Endpoint {
    of(object, endpoint(X, &[&[("tunnel-service", "http://web:80")], said].concat()))
}

/// The last part of the expression is open, and what stands in front of that part is not.
#[test]
fn a_path_with_a_login_stays_in_front_of_a_wider_prefix() {
    let harness = Harness::new();
    let program = harness.start();
    let admin = on_x("ingress/n/admin", &[&CHECK[..], &[("tunnel-path", "^/api(/v1|/v2)/admin.*")]].concat());
    let prefix = on_x("ingress/n/api", &[("tunnel-path-prefix", "/api")]);
    for desired in [vec![admin.clone()], vec![admin, prefix]] {
        run(&program, &desired);
        let visit = harness.cloudflare.visit(X, "/api/v1/admin");
        assert!(!visit.is_served(), "{visit}");
    }
    assert_eq!(harness.service_at(X, "/api/v1"), "http://web:80");
}

/// The login is required by its rule alone, and the expression matches all paths of the prefix.
#[test]
fn a_prefix_with_a_login_stays_in_front_of_an_expression_that_is_as_wide() {
    let harness = Harness::new();
    let program = harness.start();
    let prefix = on_x("ingress/n/api", &[&CHECK[..], &[("tunnel-path-prefix", "/api")]].concat());
    let open = on_x("ingress/n/open", &[("tunnel-path", "^/api(/.*)?$")]);
    run(&program, &[prefix, open]);
    for path in ["/api", "/api/", "/api/v1"] {
        let visit = harness.cloudflare.visit(X, path);
        assert!(!visit.is_served(), "{path}: {visit}");
    }
}

/// Its old rule hides a foreign one, in front of which the new rule does not stand, and a wider rule with a login is
/// between.
#[test]
fn a_path_that_is_reworded_keeps_its_rule_while_its_new_rule_is_refused() {
    let harness = Harness::new();
    let program = harness.start();
    let login = [("tunnel-service", "http://login:80"), ("tunnel-path", "^/admin")];
    let login = of("ingress/n/wild", endpoint("*.example.com", &[&login[..], &CHECK].concat()));
    let host = "x.example.com";
    run(&program, &[login.clone(), object("ingress/n/web", host, "http://web:80")]);
    let mut rules = harness.rules();
    rules.insert(2, format!(r#"{{"hostname":"{host}","path":"^/(admin|x)","service":"http://theirs:80"}}"#));
    let document = format!(r#"{{"ingress":[{}]}}"#, rules.join(","));
    harness.cloudflare.put_configuration(&harness.tunnel, &document).expect("cloudflared takes it");
    assert_eq!(harness.service_at(host, "/app"), "http://web:80");
    let reworded =
        of("ingress/n/web", endpoint(host, &[("tunnel-service", "http://web:80"), ("tunnel-path", "^/a")]));
    for _ in 0..3 {
        let _ = program.external_dns().run_loop(&[login.clone(), reworded.clone()]);
    }
    assert_eq!(harness.service_at(host, "/app"), "http://web:80");
}

/// docs/annotations.md: the expression asks for more than the prefix does, so it is narrower and in front.
#[test]
fn an_expression_with_a_login_is_not_hidden_by_an_open_prefix() {
    for path in ["^/api(/[a-zA-Z0-9._~%/-]*)?$", "^/api(/.{0,64})?$"] {
        let harness = Harness::new();
        let program = harness.start();
        let login = on_x("ingress/n/login", &[&CHECK[..], &[("tunnel-path", path)]].concat());
        let prefix = on_x("ingress/n/api", &[("tunnel-path-prefix", "/api")]);
        run(&program, std::slice::from_ref(&login));
        assert!(!harness.cloudflare.visit(X, "/api/v1").is_served());
        run(&program, &[login, prefix]);
        let visit = harness.cloudflare.visit(X, "/api/v1");
        assert!(!visit.is_served(), "{path}: {visit}, and the log: {:?}", harness.log.lines_with(&["WARN"]));
    }
}

/// A rule of ours that goes in the same request is in front of the foreign rule. If it goes a loop before, the visitors
/// of the foreign rule need its login all the time.
#[test]
fn a_new_hostname_takes_no_request_of_a_foreign_rule_with_a_login_beside_a_withdrawn_path() {
    for is_at_once in [false, true] {
        let harness = Harness::new();
        let program = harness.start();
        let wild = [("tunnel-service", "http://wild:80"), ("tunnel-path-prefix", "/api/v2")];
        run(&program, &[of("ingress/n/wild", endpoint("*.example.com", &wild))]);
        let mut rules = harness.rules();
        let check = r#"{"access":{"required":true,"teamName":"team","audTag":["a"]}}"#;
        let theirs = r#"{"hostname":"*.example.com","path":"^/api(/|$)","service":"http://theirs:80","originRequest":"#;
        rules.insert(rules.len() - 1, format!("{theirs}{check}}}"));
        let document = format!(r#"{{"ingress":[{}]}}"#, rules.join(","));
        harness.cloudflare.put_configuration(&harness.tunnel, &document).expect("cloudflared takes it");
        assert!(!harness.cloudflare.visit(X, "/api/secret").is_served());
        if !is_at_once {
            run(&program, &[]);
        }
        run(&program, &[object("ingress/n/web", X, "http://web:80")]);
        let visit = harness.cloudflare.visit(X, "/api/secret");
        assert!(
            !visit.is_served(),
            "{is_at_once}: {visit} {:#?} {:?}",
            harness.rules(),
            harness.log.lines_with(&["WARN"])
        );
    }
}

/// The check of the rule that answers all visitors of a place is the place's protection.
#[test]
fn a_silent_path_below_an_expression_with_a_login_opens_nothing() {
    let mut opened = Vec::new();
    for (closed, silent, at) in [
        ("^/admin", ("tunnel-path-prefix", "/admin/metrics"), "/admin/metrics"),
        ("^/admin", ("tunnel-path-prefix", "/admin"), "/admin/x"),
        ("^/admin/", ("tunnel-path-prefix", "/admin/metrics"), "/admin/metrics"),
        ("^/admin.*", ("tunnel-path-prefix", "/admin/metrics"), "/admin/metrics"),
        ("^/admin", ("tunnel-path", "^/admin/metrics$"), "/admin/metrics"),
        ("^/admin(/|$)", ("tunnel-path-prefix", "/admin/metrics"), "/admin/metrics"),
        ("^/admin(/|$)", ("tunnel-path", "^/admin/metrics$"), "/admin/metrics"),
        ("^/admin(/|$)", ("tunnel-path", "^/admin/?$"), "/admin"),
        ("^/admin(/|$)", ("tunnel-path", "^/admin/+metrics$"), "/admin/metrics"),
    ] {
        let harness = Harness::new();
        let program = harness.start();
        let login = on_x("ingress/n/login", &[&CHECK[..], &[("tunnel-path", closed)]].concat());
        let open = on_x("ingress/n/open", &[silent]);
        run(&program, std::slice::from_ref(&login));
        assert!(!harness.cloudflare.visit(X, at).is_served(), "{closed} {at}");
        run(&program, &[login, open]);
        opened.extend(harness.cloudflare.visit(X, at).is_served().then_some((closed, silent)));
    }
    assert_eq!(opened, []);
}

/// The foreign rule is in front of the rule of the path, and the login behind both.
#[test]
fn a_silent_path_is_not_open_once_the_foreign_rule_in_front_of_it_is_deleted() {
    for theirs in ["^/admin", "^/admin(/.*)?$"] {
        let harness = Harness::new();
        let program = harness.start();
        let login = on_x("ingress/n/login", &CHECK);
        let silent = on_x("ingress/n/silent", &[("tunnel-path-prefix", "/admin/metrics")]);
        let put = |rules: &[String]| {
            let document = format!(r#"{{"ingress":[{}]}}"#, rules.join(","));
            harness.cloudflare.put_configuration(&harness.tunnel, &document).expect("cloudflared takes it");
        };
        run(&program, std::slice::from_ref(&login));
        let mut rules = harness.rules();
        rules.insert(0, format!(r#"{{"hostname":"{X}","path":"{theirs}","service":"http_status:403"}}"#));
        put(&rules);
        run(&program, &[login.clone(), silent.clone()]);
        rules = harness.rules();
        rules.retain(|rule| !rule.contains("http_status:403"));
        put(&rules);
        run(&program, &[login, silent]);
        let visit = harness.cloudflare.visit(X, "/admin/metrics");
        assert!(!visit.is_served(), "{theirs}: {visit}: {:?}", harness.rules());
    }
}
