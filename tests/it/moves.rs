//! How a hostname gets from one tunnel to another, and a path from one rule to the next: what is waited for, what stays
//! meanwhile, what is written, and what an operator reads of it.

#![allow(clippy::indexing_slicing, clippy::panic, reason = "what is missing fails the test")]

use std::slice;
use std::time::Duration;

use cloudflare_emulator::{Fault, Matcher, Refusal, RuleText, Token, Visit};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use serde_json::json;
use test_support::external_dns::Changes;
use test_support::harness::{TOKEN, endpoint_of, published};

use crate::access_strangers::{NAME, Stage, at};
use crate::shared_account::SharedAccount;
use crate::simulation::{AGES, Pace, Simulation, Writes};

const PACE: Pace = Pace { connectors: Vec::new(), records: 0, write: 10 };

fn simulation(connectors: &[u64]) -> Simulation {
    Simulation::new(SharedAccount::new(), &[], Pace { connectors: connectors.to_vec(), ..PACE })
}

fn to(tunnel: &str, name: &str, service: &str) -> Endpoint {
    path_to(tunnel, name, "", service)
}

fn path_to(tunnel: &str, name: &str, path: &str, service: &str) -> Endpoint {
    let properties = [("tunnel", tunnel), ("tunnel-service", service), ("tunnel-path", path)];
    endpoint_of("ingress/shop/web", name, &properties)
}

fn through(tunnel: &str, name: &str) -> Endpoint {
    to(tunnel, name, "http://web:80")
}

/// The tunnel that serves a hostname by our rule.
fn tunnel_of(simulation: &Simulation, host: &str) -> String {
    match simulation.account.cloudflare().visit(host, "/") {
        Visit::Served { tunnel, service, .. } if service == "http://web:80" => simulation.named(&tunnel),
        other => other.to_string(),
    }
}

/// The service that a visitor gets, and the tunnel.
fn got(simulation: &Simulation, host: &str, path: &str) -> String {
    match simulation.account.cloudflare().visit(host, path) {
        Visit::Served { tunnel, service, .. } => format!("{service} by {}", simulation.named(&tunnel)),
        other => simulation.named(&other.to_string()),
    }
}

/// One loop, what it wrote, and how long it took.
fn run(simulation: &mut Simulation, desired: &[Endpoint]) -> (Result<Changes, u16>, Writes, Duration) {
    let time = simulation.account.cloudflare().time();
    let begun = time.now();
    let (outcome, writes) = simulation.run_loop(desired).expect("ExternalDNS goes on");
    (outcome, writes, time.now() - begun)
}

/// The rules of a hostname in the tunnel that it leaves.
fn rules_at_home(simulation: &Simulation, host: &str) -> usize {
    simulation.account.harness.rules().iter().filter(|rule| rule.contains(host)).count()
}

/// Invariant 7 of docs/how-it-works.md.
#[test]
fn a_hostname_waits_for_the_connector_that_lags_and_everything_else_is_done() {
    let host = "lagging.example.org";
    let mut simulation = simulation(&[0, 0]);
    simulation.run_to_rest(&[through("home", host)]).expect("published");
    let cloudflare = simulation.account.cloudflare();
    let version = cloudflare.edit(|cloudflare| cloudflare.tunnel("office").version);
    cloudflare.edit(|cloudflare| cloudflare.tunnel_mut("office").lagging_at = Some(version));

    let desired = [through("office", host), through("office", "beside.example.org")];
    let (outcome, writes, _) = run(&mut simulation, &desired);
    assert_eq!(outcome, Err(503), "--registry=crd would not ask again after a 204");
    assert_eq!(writes, Writes { configurations: 1, batches: 1 }, "its rule comes first");
    assert_eq!(tunnel_of(&simulation, "beside.example.org"), "office", "what is new has nothing to wait for");
    let log = simulation.account.harness.log.clone();
    for _ in 0..2 {
        let (outcome, writes, took) = run(&mut simulation, &desired);
        assert!(outcome == Err(503) && took < Duration::from_secs(1), "{outcome:?} {took:?}");
        assert_eq!((writes, &*tunnel_of(&simulation, host)), (Writes::default(), "home"));
    }
    let said = log.lines_with(&["refused=moving", host, "connector ", "tunnel ", "serves an older version"]);
    assert_eq!(said.len(), 1, "{said:#?}");

    // The registry crd asks again only after an error.
    simulation.pass(86_400);
    let (outcome, writes, _) = run(&mut simulation, &desired);
    assert_eq!((outcome, writes), (Err(503), Writes::default()));
    assert_eq!(tunnel_of(&simulation, host), "home");

    simulation.account.cloudflare().edit(|cloudflare| cloudflare.tunnel_mut("office").lagging_at = None);
    run(&mut simulation, &desired).0.ok();
    assert_eq!(tunnel_of(&simulation, host), "office");
}

/// The rule that is left in the old tunnel requires a login by itself.
#[test]
fn a_hostname_that_opens_and_moves_in_one_edit_is_not_closed_again() {
    let host = "opens.example.org";
    let asks = |tunnel: &str, access: &[(&str, &str)]| {
        let properties = [&[("tunnel-service", "http://web:80"), ("tunnel", tunnel)], access].concat();
        endpoint_of("ingress/shop/web", host, &properties)
    };
    let check = [("access-required", "true"), ("access-team-name", "team"), ("access-aud-tag", "a")];
    let mut simulation = simulation(&[0]);
    simulation.account.cloudflare().edit(|cloudflare| {
        cloudflare.set_up_access("my-team");
        *cloudflare.token_mut(TOKEN) = Token::with_access(TOKEN);
    });
    simulation.run_to_rest(&[asks("home", &check)]).expect("published");
    assert!(!simulation.account.cloudflare().visit(host, "/").is_served());
    let opened = [asks("office", &[("access-policy", "none")])];
    let mut served = Vec::new();
    for _ in 0..8 {
        run(&mut simulation, &opened).0.ok();
        served.push(simulation.account.cloudflare().visit(host, "/").is_served());
        simulation.pass(20);
    }
    assert!(served.is_sorted() && served.ends_with(&[true]), "{served:?}");
    assert_eq!((tunnel_of(&simulation, host), rules_at_home(&simulation, host)), ("office".to_owned(), 0));
}

#[test]
fn a_tunnel_without_connectors_gets_no_hostname_that_is_served_elsewhere() {
    let host = "unconnected.example.org";
    let mut simulation = simulation(&[0]);
    simulation.run_to_rest(&[through("home", host)]).expect("published");
    simulation.account.cloudflare().edit(|cloudflare| cloudflare.tunnel_mut("office").connectors = 0);
    let desired = [through("office", host), through("office", "new.unconnected.example.org")];
    for _ in 0..2 {
        assert_eq!(run(&mut simulation, &desired).0, Err(503));
    }
    assert_eq!(tunnel_of(&simulation, host), "home");
    assert_eq!(tunnel_of(&simulation, "new.unconnected.example.org"), "error 1033", "published all the same");
    assert_eq!(
        simulation
            .account
            .harness
            .log
            .lines_with(&["refused=moving", host, "no connector", "run a cloudflared"])
            .len(),
        1
    );
}

/// `--registry=crd` has nothing read between its requests.
#[test]
fn a_move_goes_on_in_the_first_request_after_the_grace_whatever_was_read_shortly_before() {
    let host = "crd.example.org";
    let mut simulation = simulation(&[0]);
    simulation.run_to_rest(&[through("home", host)]).expect("published");
    let desired = [through("office", host)];
    for _ in 0..2 {
        assert_eq!(run(&mut simulation, &desired).0, Err(503), "stamped and published, then led over");
    }
    let create = simulation.external_dns().adjust(&desired).expect("adjusted");
    let changes = Changes { create, ..Changes::default() };
    simulation.pass(20);
    assert_eq!(simulation.external_dns().apply(&changes), Err(503));
    simulation.pass(11);
    assert_eq!(simulation.external_dns().apply(&changes), Ok(()));
    assert_eq!(rules_at_home(&simulation, host), 0);
}

/// Pins a bug: the old path was deleted in the first loop, and visitors got 404 until the record was led over, or for
/// ever.
#[test]
fn a_path_that_is_reworded_in_a_move_is_served_by_its_old_rule_until_the_record_is_led_over() {
    let host = "reworded.example.org";
    for age in AGES {
        let mut simulation = simulation(&[0]);
        let worded = |tunnel: &str, path: &str| [path_to(tunnel, host, path, "http://web:80")];
        simulation.run_to_rest(&worded("home", "^/api/")).expect("published");
        simulation.pass(age);
        simulation.account.cloudflare().edit(|cloudflare| cloudflare.tunnel_mut("office").connectors = 0);
        let desired = worded("office", "^/api(/|$)");
        for _ in 0..2 {
            assert_eq!(
                run(&mut simulation, &desired).0,
                Err(503),
                "{age} s: --registry=crd would not ask again"
            );
            assert_eq!(got(&simulation, host, "/api/v2"), "http://web:80 by home", "{age} s");
        }
        simulation.pass(661);
        let (outcome, writes, _) = run(&mut simulation, &desired);
        assert_eq!((outcome.err(), writes), (Some(503), Writes::default()), "{age} s");
        assert_eq!(got(&simulation, host, "/api/v2"), "http://web:80 by home", "{age} s");

        simulation.account.cloudflare().edit(|cloudflare| cloudflare.tunnel_mut("office").connectors = 1);
        simulation.run_to_rest(&desired).expect("it moves");
        assert_eq!(got(&simulation, host, "/api/v2"), "http://web:80 by office", "{age} s");
        assert_eq!(rules_at_home(&simulation, host), 0, "{age} s");
    }
}

/// Nothing of it is written, so asking again does not help, and the other requests fail for it.
#[test]
fn a_move_whose_record_cloudflare_does_not_change_is_refused_by_name_and_fails_no_request() {
    let host = "disliked.example.org";
    let mut simulation = simulation(&[0]);
    simulation.run_to_rest(&[through("home", host)]).expect("published");
    simulation.pass(AGES[1]);
    let refusal = Refusal::new(400, 9999, "not this name");
    simulation.account.cloudflare().edit(|cloudflare| cloudflare.whims_mut().dislike_name(host, refusal));
    let desired = [through("office", host)];
    run(&mut simulation, &desired).0.ok();
    for _ in 0..3 {
        let (outcome, writes, _) = run(&mut simulation, &desired);
        assert!(outcome.is_ok() && writes == Writes::default(), "{outcome:?} {writes:?}");
    }
    assert_eq!(tunnel_of(&simulation, host), "home");
    assert_eq!(simulation.account.harness.log.lines_with(&["refused=cloudflare", host]).len(), 1);
}

/// A hostname that is withdrawn has no visitors to be kept.
#[test]
fn a_hostname_that_is_withdrawn_on_its_way_is_gone_at_once_from_both_tunnels() {
    let host = "given-up.example.org";
    let mut simulation = simulation(&[0]);
    simulation.run_to_rest(&[through("home", host)]).expect("published");
    for _ in 0..2 {
        run(&mut simulation, &[through("office", host)]).0.ok();
    }
    assert_eq!(tunnel_of(&simulation, host), "office");
    run(&mut simulation, &[]).0.expect("withdrawn");
    let state = simulation.account.state();
    let standing = state.lines().filter(|line| line.contains(host));
    assert_eq!(standing.collect::<Vec<_>>(), [""; 0]);
}

/// Invariant 6 of docs/how-it-works.md.
#[test]
fn what_comes_and_what_goes_is_one_version_of_a_document() {
    let mut simulation = simulation(&[0]);
    let before = [
        published("goes.example.org", "http://web:80"),
        path_to("", "worded.example.org", "^/api/", "http://web:80"),
    ];
    simulation.run_to_rest(&before).expect("published");
    let after = [
        published("comes.example.org", "http://web:80"),
        path_to("", "worded.example.org", "^/api(/|$)", "http://web:80"),
    ];
    let (outcome, writes, _) = run(&mut simulation, &after);
    assert!(outcome.is_ok(), "{outcome:?}");
    assert_eq!(writes, Writes { configurations: 1, batches: 2 });
    assert_eq!(run(&mut simulation, &after).1, Writes::default());
}

/// ExternalDNS deletes the old path, because its set identifier is another one; the new path would leave a foreign rule
/// behind.
#[test]
fn a_path_stays_where_its_hostname_cannot_move() {
    let host = "web.example.com";
    let mut simulation = simulation(&[0]);
    // With the wildcard's record, all other paths of the hostname would be the wildcard's.
    simulation.account.cloudflare().edit(|cloudflare| {
        let mut records = cloudflare.records("example.com").iter();
        let id = records.find(|record| record.name == "*.example.com").map(|record| record.id.clone());
        cloudflare.delete_record("example.com", &id.expect("it is there")).expect("it can be deleted");
    });
    let of = |tunnel: &str, path: &str| [path_to(tunnel, host, path, "http://web:80")];
    simulation.run_to_rest(&of("office", "^/api(/|$)")).expect("published");
    let state = simulation.account.state();
    for _ in 0..3 {
        run(&mut simulation, &of("home", "^/api/")).0.expect("refused by name");
        simulation.pass(60);
    }
    assert_eq!(simulation.account.state(), state, "a foreign rule for /theirs stands in the office");
    assert_eq!(
        simulation.account.harness.log.lines_with(&[host, "refused=rule_left_behind", "/theirs"]).len(),
        1
    );
    assert_eq!(simulation.account.harness.log.lines_with(&[host, "refused=withheld"]).len(), 1);
    // What is withdrawn altogether goes, but for the record, by which visitors reach the foreign rule.
    simulation.run_to_rest(&[]).expect("withdrawn");
    assert!(simulation.account.harness.cnames().iter().any(|(name, ..)| name == host));
    let harness = &simulation.account.harness;
    assert_eq!(harness.service_at(host, "/theirs"), "http://theirs:81");
    assert_eq!(harness.service_at(host, "/api"), "http_status:502");
}

/// A wildcard of the account leads all other paths of the hostname to a foreign rule.
#[test]
fn a_path_alone_in_another_tunnel_leaves_its_hostname_to_the_rule_of_a_foreign_wildcard() {
    let host = "anything.example.com";
    let mut simulation = simulation(&[0]);
    let before = got(&simulation, host, "/");
    assert!(before.starts_with("http://wild:80"), "{before}");
    let desired = [path_to("office", host, "^/api(/|$)", "http://web:80")];
    for _ in 0..2 {
        run(&mut simulation, &desired).0.expect("refused by name");
        assert_eq!(got(&simulation, host, "/"), before);
    }
    let told =
        simulation.account.harness.log.lines_with(&[host, "refused=rule_left_behind", "*.example.com"]);
    assert_eq!(told.len(), 1, "{told:?}");
}

#[test]
fn a_path_that_is_deleted_stays_while_its_hostname_waits_for_its_tunnel() {
    let host = "waits.example.org";
    let mut simulation = simulation(&[0]);
    let admin = path_to("home", host, "^/admin", "http://admin:80");
    simulation.run_to_rest(&[to("home", host, "http://web:80"), admin]).expect("published");
    simulation.account.cloudflare().edit(|cloudflare| cloudflare.tunnel_mut("office").connectors = 0);
    let desired = [to("office", host, "http://web:80")];
    for _ in 0..20 {
        run(&mut simulation, &desired).0.ok();
        simulation.pass(60);
    }
    assert_eq!(got(&simulation, host, "/admin"), "http://admin:80 by home", "20 minutes later");
    let (outcome, writes, _) = run(&mut simulation, &desired);
    assert_eq!((outcome.err(), writes), (Some(503), Writes::default()), "--registry=crd would not ask again");
    simulation.account.cloudflare().edit(|cloudflare| cloudflare.tunnel_mut("office").connectors = 1);
    simulation.run_to_rest(&desired).expect("it moves");
    assert_eq!(got(&simulation, host, "/admin"), "http://web:80 by office");
}

/// What failed alone is sent alone.
#[test]
fn paths_that_are_withdrawn_one_by_one_lead_to_no_other_one_of_them() {
    let mut simulation = simulation(&[0]);
    let host = "a.example.com";
    let whole = to("home", host, "http://whole:80");
    let paths = [("^/api", "http://wide:80"), ("^/api/v2", "http://narrow:80")];
    let paths = paths.map(|(path, service)| path_to("home", host, path, service));
    simulation.run_to_rest(&[slice::from_ref(&whole), &paths[..]].concat()).expect("published");
    simulation.account.clear_faults();
    let cloudflare = simulation.account.cloudflare();
    let page = Fault::Status { code: 403, headers: Vec::new(), body: "<!DOCTYPE html>".to_owned() };
    cloudflare.fault_every(Matcher::put_configuration(), page);
    for _ in 0..2 {
        assert_eq!(run(&mut simulation, slice::from_ref(&whole)).0, Err(503));
    }
    simulation.account.clear_faults();
    let cloudflare = simulation.account.cloudflare();
    cloudflare.watch(&["https://a.example.com/api/v2"]);
    let (_, writes, _) = run(&mut simulation, &[whole]);
    assert_eq!(
        (writes.configurations, got(&simulation, host, "/api")),
        (2, "http://whole:80 by home".to_owned())
    );
    let watched = simulation.account.cloudflare().watched();
    assert!(watched.iter().all(|watched| watched.lost().is_empty()), "{watched:#?}");
}

#[test]
fn a_hostname_does_not_move_to_an_older_rule_of_its_own() {
    let host = "reopened.example.org";
    let mut simulation = Simulation::new(
        SharedAccount::new(),
        &[("MOVE_GRACE", "3600s")],
        Pace { connectors: vec![0], ..PACE },
    );
    simulation.run_to_rest(&[to("home", host, "http://open:80")]).expect("published");
    for _ in 0..2 {
        run(&mut simulation, &[to("office", host, "http://closed:80")]).0.ok();
    }
    simulation.account.cloudflare().edit(|cloudflare| {
        cloudflare.whims_mut().dislike_rule(RuleText::Unnamed, |rule| rule.service == "http://closed-too:80");
    });
    let mut seen = Vec::new();
    for _ in 0..3 {
        let (outcome, ..) = run(&mut simulation, &[to("home", host, "http://closed-too:80")]);
        seen.push((outcome.err(), got(&simulation, host, "/")));
        simulation.pass(60);
    }
    assert!(seen.iter().all(|(_, got)| !got.contains("open")), "{seen:?}");
}

/// The order of rules does not know that the foreign rule takes all requests of ours, so our rule would be behind.
#[test]
fn a_path_with_a_login_does_not_move_behind_an_open_foreign_expression() {
    let host = "x.example.org";
    let prefix = Some(("tunnel-path-prefix", "/admin/metrics"));
    let expression = Some(("tunnel-path", "^/admin/metrics$"));
    for (path, (their_host, theirs)) in [
        (prefix, (host, "^/admin")),
        (prefix, (host, "^/admin.*")),
        (prefix, (host, "^/admin/")),
        (expression, (host, "^/admin(/|$)")),
        (None, ("*.example.org", "^/admin(/|$)")),
        (Some(("tunnel-path-prefix", "/admin")), ("*.example.org", "^/admin/metrics(/|$)")),
        (prefix, ("*", "^/admin")),
    ] {
        let asks = |tunnel: &str| {
            let login = [("access-required", "true"), ("access-team-name", "team"), ("access-aud-tag", "a")];
            let rule = [("tunnel-service", "http://web:80"), ("tunnel", tunnel)];
            let rule: Vec<_> = rule.into_iter().chain(path).chain(login).collect();
            endpoint_of("ingress/shop/web", host, &rule)
        };
        let mut simulation = simulation(&[0]);
        simulation.run_to_rest(&[asks("home")]).expect("published");
        let document = json!({"ingress": [
            {"hostname": their_host, "path": theirs, "service": "http://theirs:80"},
            {"service": "http_status:404"},
        ]});
        simulation.account.cloudflare().put_configuration("office", &document.to_string()).expect("taken");
        for _ in 0..5 {
            run(&mut simulation, &[asks("office")]).0.ok();
            simulation.pass(60);
        }
        let visit = simulation.account.cloudflare().visit(host, "/admin/metrics");
        assert!(!visit.is_served(), "{path:?} {their_host} {theirs}: {visit}");
    }
}

/// Each version of the tunnel made the refusal a new one.
#[test]
fn a_move_that_waits_for_a_connector_is_told_once_while_other_hostnames_change_the_tunnel() {
    let host = "waits.example.org";
    let mut simulation = simulation(&[0]);
    simulation.run_to_rest(&[to("home", host, "http://web:80")]).expect("published");
    simulation.account.cloudflare().edit(|cloudflare| {
        let office = cloudflare.tunnel_mut("office");
        office.lagging_at = Some(office.version);
    });
    let mut desired = vec![to("office", host, "http://web:80")];
    for number in 0..5 {
        desired.push(to("office", &format!("preview-{number}.example.org"), "http://web:80"));
        assert_eq!(run(&mut simulation, &desired).0, Err(503));
        simulation.pass(60);
    }
    let log = &simulation.account.harness.log;
    assert_eq!(log.lines_with(&["refused=moving", "older version"]).len(), 1);
}

/// The wildcard needs a loop more than a hostname without a rule, and stays if a foreign rule holds it.
#[test]
fn what_a_rule_of_our_wildcard_answers_moves_after_the_wildcard() {
    let alone = endpoint_of("ingress/shop/r", NAME, &[("tunnel-service", "none")]);
    let path = [("tunnel-service", "http://web:80"), ("tunnel-path-prefix", "/api")];
    let path = endpoint_of("ingress/shop/r", NAME, &path);
    let beside = [("tunnel-service", "http://web:80"), ("tunnel-path-prefix", "/other")];
    let beside = endpoint_of("ingress/shop/r", NAME, &beside);
    for (label, wide, below, is_held) in [
        ("record", "", &alone, false),
        ("held record", "", &alone, true),
        ("path", "", &path, false),
        ("held path", "", &path, true),
        ("record below a path", "/p", &alone, false),
        ("path beside a path", "/p", &beside, false),
    ] {
        let stage = Stage::new(&[]);
        let office = stage.cloudflare().add_tunnel("office");
        stage.cloudflare().edit(|cloudflare| cloudflare.tunnel_mut(&office).connectors = 1);
        let path = [("tunnel-path-prefix", wide)];
        let path = path.into_iter().filter(|(_, wide)| !wide.is_empty()).collect::<Vec<_>>();
        let desired = [at("*.example.com", &path), below.clone()];
        stage.run(&desired);
        if is_held {
            let tunnel = stage.harness.tunnel.clone();
            let theirs = r#"[{"hostname":"x.example.com","service":"http://theirs:80"},"#;
            let document = stage.cloudflare().configuration(&tunnel).expect("it is there");
            let document = document.replacen('[', theirs, 1);
            stage.cloudflare().put_configuration(&tunnel, &document).expect("it is taken");
        }
        stage.cloudflare().watch(&[&format!("https://{NAME}{wide}/")]);
        let stage = stage.restarted_with(&[("CF_TUNNEL_ID", "office,home"), ("MOVE_GRACE", "30s")]);
        for _ in 0..5 {
            let _ = stage.run_loop(&desired);
            stage.cloudflare().advance_clock(Duration::from_secs(60));
        }
        stage.run_loop(&desired).expect("no later loop has to finish anything");
        let watched = stage.cloudflare().watched();
        assert!(watched.iter().all(|one| one.lost().is_empty()), "{label}: {}", watched[0]);
        assert!(stage.cloudflare().visit(NAME, &format!("{wide}/")).is_served(), "{label}");
        let is_moved =
            stage.harness.cnames().iter().any(|(name, target, ..)| name == NAME && target.contains(&office));
        assert_eq!(is_moved, !is_held, "{label}");
        let told = ["refused=rule_left_behind", NAME, "for \"*.example.com\"", "move that wildcard"];
        assert_eq!(stage.harness.log.lines_with(&told).len(), 1, "{label}");
    }
}
