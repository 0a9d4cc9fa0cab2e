//! What the program does with Access, swept: at every single call something goes wrong, in every way. A visitor without
//! a login is never served what is protected, and in the end each protected place has one application.

use std::time::Duration;

use cloudflare_emulator::{Emulator, Token};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use serde_json::json;
use test_support::harness::{TOKEN, endpoint_of, published};
use test_support::sweeps;

use crate::sweep::{AGE, INTERVAL, Promise, SETTLED, Scenario, TIMEOUT, survive_every_old_answer};

const WEB: &str = "web.example.org";
const WEB_URL: &str = "https://web.example.org/";
const ADMIN_URL: &str = "https://web.example.org/admin";

/// An endpoint with a secret behind it, of an empty tunnel or path where it says none.
fn secret(tunnel: &str, name: &str, path: &str, policies: &str) -> Endpoint {
    let properties = [
        ("tunnel", tunnel),
        ("tunnel-service", "http://secret:80"),
        ("tunnel-path-prefix", path),
        ("access-policy", policies),
    ];
    endpoint_of("ingress/shop/web", name, &properties)
}

fn protected(name: &str, policies: &str) -> Endpoint {
    secret("", name, "", policies)
}

/// With what stands beside the change all the time.
fn change(before: &[Endpoint], desired: &[Endpoint], promises: &[(&'static str, Promise)]) -> Scenario {
    let of_neighbours = [
        ("https://stays.example.com/", Promise::Closed),
        ("https://stays-open.example.org/", Promise::Served),
    ];
    Scenario {
        holding: hold,
        neighbours: vec![
            protected("stays.example.com", "staff"),
            published("stays-open.example.org", "http://open:80"),
        ],
        before: before.to_vec(),
        desired: desired.to_vec(),
        promises: [promises, &of_neighbours].concat(),
        ..Scenario::default()
    }
}

/// A team, two policies, and a foreign application.
fn hold(cloudflare: &Emulator) {
    cloudflare.edit(|cloudflare| {
        cloudflare.set_up_access("my-team");
        for name in ["staff", "on-call"] {
            let include = json!([{"email_domain": {"domain": "example.com"}}]);
            let policy = json!({"name": name, "decision": "allow", "include": include});
            cloudflare.add_policy(&policy).expect("a policy");
        }
        *cloudflare.token_mut(TOKEN) = Token::with_access(TOKEN);
        cloudflare.add_tag("theirs").expect("a tag");
        let id = cloudflare.policies()[0].id.clone();
        let theirs = json!({"type": "self_hosted", "name": "theirs", "domain": "hand.example.org/admin", "tags": ["theirs"],
            "session_duration": "6h", "policies": [id]});
        cloudflare.add_application(&theirs).expect("an application");
    });
}

fn changes() -> [(&'static str, Scenario); 12] {
    let closed = [(WEB_URL, Promise::Closed)];
    let all_closed = [(WEB_URL, Promise::Closed), (ADMIN_URL, Promise::Closed)];
    let admin_closed = [(ADMIN_URL, Promise::Closed), ("https://web.example.org/admin/x", Promise::Closed)];
    // Access's star is one label, cloudflared's any number.
    let apps_closed = [
        ("https://a.apps.example.org/", Promise::Closed),
        ("https://a.b.apps.example.org/", Promise::Closed),
    ];
    let shop_too = [(WEB_URL, Promise::Closed), ("https://shop.example.org/", Promise::Closed)];
    let (whole, path) = (protected(WEB, "staff"), secret("", WEB, "/admin", "staff"));
    let open_beside_path = [published(WEB, "http://open:80"), path.clone()];
    let [whole, path] = [[whole], [path]];
    let renamed = Scenario {
        by_hand: |cloudflare| {
            cloudflare.set_up_access("renamed");
            // The team is read again.
            cloudflare.advance_clock(Duration::from_secs(601));
        },
        ..change(&whole, &whole, &closed)
    };
    let listed_late = Scenario {
        listing_lag: Duration::from_secs(30),
        ..change(&[], &[whole[0].clone(), protected("shop.example.org", "on-call")], &shop_too)
    };
    [
        ("the first publication of a path", change(&[], &open_beside_path, &admin_closed)),
        (
            "the first publication of a wildcard",
            change(&[], &[protected("*.apps.example.org", "staff")], &apps_closed),
        ),
        ("a path becomes the hostname", change(&path, &whole, &all_closed)),
        ("a hostname becomes a path", change(&whole, &path, &all_closed)),
        ("other policies", change(&whole, &[protected(WEB, "on-call,staff")], &closed)),
        (
            "the protection of an open hostname",
            change(&[protected(WEB, "")], &whole, &[(WEB_URL, Promise::ClosedForGood)]),
        ),
        ("the opening", change(&whole, &[protected(WEB, "none")], &[(WEB_URL, Promise::MayOpen)])),
        ("the withdrawal of a hostname", change(&whole, &[], &closed)),
        (
            "the withdrawal of a path",
            change(&open_beside_path, &open_beside_path[..1], &[(ADMIN_URL, Promise::Closed)]),
        ),
        (
            "a move",
            change(&[secret("home", WEB, "", "staff")], &[secret("office", WEB, "", "staff")], &closed),
        ),
        ("another name of the team", renamed),
        ("lists that show it late", listed_late),
    ]
}

#[test]
fn what_is_protected_survives_every_fault() {
    for (label, scenario) in changes() {
        println!("{label}");
        scenario.survives_every_fault();
    }
}

/// Objects that open, close, move or go within, above or beside one another, as many at once as do not touch.
fn pairs() -> [(&'static str, Scenario); 3] {
    let wildcard = |policies| protected("*.apps.example.org", policies);
    let below = |policies| protected("a.apps.example.org", policies);
    let deep = |policies| protected("a.b.apps.example.org", policies);
    let admin = |tunnel, policies| secret(tunnel, WEB, "/admin", policies);
    let whole = |tunnel, policies| secret(tunnel, WEB, "", policies);
    let web_closed = [(WEB_URL, Promise::Closed), (ADMIN_URL, Promise::Closed)];
    let all = |of_apps: [(&'static str, Promise); 2], of_web| [of_apps, of_web].concat();
    [
        (
            "a wildcard and a hostname open, and a name below and a path of them close",
            Scenario {
                loops_more: 2,
                ..change(
                    &[wildcard("staff"), whole("", "staff")],
                    &[wildcard("none"), below("on-call"), whole("", "none"), admin("", "on-call")],
                    &all(
                        [
                            ("https://a.apps.example.org/", Promise::Closed),
                            ("https://b.apps.example.org/", Promise::MayOpen),
                        ],
                        [(WEB_URL, Promise::MayOpen), (ADMIN_URL, Promise::Closed)],
                    ),
                )
            },
        ),
        (
            // A name that is not so deep cannot open below it.
            "a wildcard closes, a deep name below it opens, and a path goes from under its hostname",
            change(
                &[wildcard("none"), deep("staff"), whole("", "staff"), admin("", "on-call")],
                &[wildcard("staff"), deep("none"), whole("", "staff")],
                &all(
                    [
                        ("https://b.apps.example.org/", Promise::ClosedForGood),
                        ("https://a.b.apps.example.org/", Promise::MayOpen),
                    ],
                    web_closed,
                ),
            ),
        ),
        (
            "a move with another path",
            Scenario {
                loops_more: 4,
                ..change(&[admin("home", "staff")], &[whole("office", "staff")], &web_closed)
            },
        ),
    ]
}

#[test]
fn what_opens_beside_what_closes_opens_nothing_else_at_any_fault() {
    for (label, scenario) in pairs() {
        println!("{label}");
        scenario.survives_every_fault();
    }
}

/// Objects that say nothing of Access any more, or never did, at places with a login.
fn silences() -> [(&'static str, Scenario); 3] {
    let closed = [(WEB_URL, Promise::Closed)];
    let apps_closed = [
        ("https://a.apps.example.org/", Promise::Closed),
        ("https://b.apps.example.org/", Promise::Closed),
        ("https://x.a.apps.example.org/", Promise::Closed),
    ];
    let other_service = endpoint_of("ingress/shop/web", WEB, &[("tunnel-service", "http://secret-too:80")]);
    let wildcard = protected("*.apps.example.org", "staff");
    let below = protected("a.apps.example.org", "");
    [
        ("a lost annotation", change(&[protected(WEB, "staff")], &[other_service], &closed)),
        (
            "a lost annotation in a move",
            change(&[secret("home", WEB, "", "staff")], &[secret("office", WEB, "", "")], &closed),
        ),
        (
            "a name below a wildcard",
            change(std::slice::from_ref(&wildcard), &[wildcard.clone(), below], &apps_closed),
        ),
    ]
}

#[test]
fn silence_opens_nothing_at_any_fault() {
    for (label, scenario) in silences() {
        println!("{label}");
        scenario.survives_every_fault();
    }
}

#[test]
fn what_is_protected_survives_every_old_answer() {
    let (changes, silences, pairs) = (changes(), silences(), pairs());
    let all = changes.iter().chain(&silences).chain(&pairs);
    survive_every_old_answer(all.map(|(label, scenario)| (*label, scenario)));
}

/// No visitor without a login is served before the lock is at the edge, nor after it has gone, however long either
/// takes to get there.
#[test]
fn what_is_protected_stays_closed_at_a_slow_edge() {
    let delays = [[30, 0, 0], [0, 20, 0], [0, 0, 20], [30, 20, 20], [5, 20, 60]];
    for (nth, (label, scenario)) in changes().iter().chain(&silences()).chain(&pairs()).enumerate() {
        for delays in sweeps::part(nth, delays.to_vec()) {
            let label = format!("{label}, {delays:?}");
            run_at_slow_edge(scenario, delays.map(Duration::from_secs), &label);
        }
    }
}

/// With so long ways of applications, configurations and records to the edge.
fn run_at_slow_edge(
    scenario: &Scenario,
    [applications, configurations, records]: [Duration; 3],
    label: &str,
) {
    let account = scenario.account();
    let cloudflare = account.cloudflare();
    let program = scenario.start(&account, TIMEOUT);
    scenario.prepare(&program, &account, SETTLED).expect(label);
    cloudflare.delay_applications(applications);
    cloudflare.delay_records(records);
    for tunnel in ["home", "office"] {
        cloudflare.delay_configurations(tunnel, &[configurations]);
    }
    scenario.watch(&account);
    for desired in [&*scenario.desired, &scenario.before, &[]] {
        // Applications go by themselves in the end.
        for pause in [INTERVAL, INTERVAL, INTERVAL, AGE, INTERVAL] {
            let answer = program.run_loop(&scenario.with_neighbours(desired));
            assert!(matches!(answer, Ok(_) | Err(503)), "{label}: a loop got {answer:?}");
            cloudflare.advance_clock(pause);
        }
        scenario.look(&account, false).expect(label);
        // What was open before may be open again.
        if scenario.promises.iter().any(|(_, promise)| *promise == Promise::ClosedForGood) {
            break;
        }
    }
}
