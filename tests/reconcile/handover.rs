//! A wildcard and a name below it that take over from each other in one request, on plans alone.

use std::collections::BTreeSet;

use external_dns_cloudflare_tunnel_webhook::ingress::RuleEdit;
use external_dns_cloudflare_tunnel_webhook::model::TunnelId;
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use external_dns_cloudflare_tunnel_webhook::reconcile::plan::{Earlier, Plan, Reason, plan, rule_work};
use test_support::fake_cloudflare::{FakeCloudflare, HOME, OFFICE, tunnel_id};
use test_support::harness::endpoint;

const WILDCARD: &str = "*.apps.example.com";
const NAME: &str = "web.apps.example.com";

/// The service of what stands already, and of what cannot be published yet.
const OLD: &str = "http://old:80";
const LATER: &str = "http://later:80";

fn through(tunnel: &str, name: &str, service: &str) -> Endpoint {
    endpoint(name, &[("tunnel", tunnel_id(tunnel).as_str()), ("tunnel-service", service)])
}

fn path(name: &str, path: &str) -> Endpoint {
    endpoint(name, &[("tunnel-service", "http://path:80"), ("tunnel-path", path)])
}

/// What waits, as `hostname path`, of the change from one list to the other.
fn waiting(before: &[Endpoint], after: &[Endpoint], earlier: &Earlier) -> Vec<String> {
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    cloudflare.run_loop(before, usize::MAX);
    let (changes, settings) = (cloudflare.changes(after), cloudflare.settings());
    let Plan { refusals, handed_over, waiting, .. } =
        plan(&changes, &cloudflare.snapshot(), earlier, &settings).expect("our owner");
    assert!(refusals.iter().all(|refusal| refusal.reason.label() == "moving"), "{refusals:?}");
    let hostnames: BTreeSet<&str> = refusals.iter().map(|refusal| &*refusal.hostname).collect();
    let noted = handed_over.iter().chain(&waiting);
    assert_eq!(noted.map(|name| &**name).collect::<BTreeSet<_>>(), hostnames);
    let told = refusals.iter().map(|refusal| {
        format!("{} {}", refusal.hostname, refusal.set_identifier.as_deref().unwrap_or_default())
    });
    told.collect()
}

#[test]
fn what_visitors_come_from_waits_for_what_takes_them() {
    let wild = |tunnel| through(tunnel, WILDCARD, "http://wild:80");
    let name = |tunnel| through(tunnel, NAME, "http://web:80");
    let other = |service| through(HOME, NAME, service);
    let record = |name| through(HOME, name, "none");
    let (of_wildcard, of_name) = (vec![format!("{WILDCARD} ")], vec![format!("{NAME} ")]);
    for (label, before, after, expected) in [
        ("a name comes", vec![wild(HOME)], vec![name(HOME)], of_wildcard.clone()),
        ("a name comes elsewhere", vec![wild(HOME)], vec![name(OFFICE)], of_wildcard.clone()),
        (
            "a name of more labels comes",
            vec![wild(HOME)],
            vec![through(HOME, "a.b.apps.example.com", "http://web:80")],
            of_wildcard.clone(),
        ),
        (
            "a path of the name comes",
            vec![wild(HOME), path(NAME, "^/a$")],
            vec![path(NAME, "^/a$"), path(NAME, "^/b$")],
            of_wildcard.clone(),
        ),
        ("only the record of a wildcard goes", vec![record(WILDCARD)], vec![name(HOME)], of_wildcard),
        (
            "that record answers for another name",
            vec![record("*.example.com"), wild(HOME)],
            vec![wild(HOME), name(HOME)],
            vec![],
        ),
        ("a wildcard comes", vec![name(HOME)], vec![wild(HOME)], of_name.clone()),
        ("a wildcard comes elsewhere", vec![name(OFFICE)], vec![wild(HOME)], of_name),
        (
            "paths wait too",
            vec![path(NAME, "^/a$"), path(NAME, "^/b$")],
            vec![wild(HOME)],
            vec![format!("{NAME} ^/a$"), format!("{NAME} ^/b$")],
        ),
        (
            "a name is led elsewhere already",
            vec![wild(HOME), name(OFFICE)],
            vec![through(OFFICE, NAME, "http://new:80"), path_in(OFFICE)],
            vec![],
        ),
        ("a name only changes", vec![wild(HOME), name(HOME)], vec![other("http://new:80")], vec![]),
        (
            "a wildcard only changes",
            vec![wild(HOME), name(HOME)],
            vec![through(HOME, WILDCARD, "http://new:80")],
            vec![],
        ),
        (
            "a name beside it comes",
            vec![wild(HOME)],
            vec![through(HOME, "apps.example.com", "http://web:80")],
            vec![],
        ),
        ("both go", vec![wild(HOME), name(HOME)], vec![], vec![]),
    ] {
        assert_eq!(waiting(&before, &after, &Earlier::default()), expected, "{label}");
    }
}

/// The names that wait for their visitors to be taken over, where every rule to `LATER` is refused for such a reason.
fn waiting_for_later(before: &[Endpoint], after: &[Endpoint], reason: &Reason) -> Vec<Box<str>> {
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    cloudflare.run_loop(before, usize::MAX);
    let (changes, snapshot, settings) =
        (cloudflare.changes(after), cloudflare.snapshot(), cloudflare.settings());
    let planned = |earlier: &Earlier| plan(&changes, &snapshot, earlier, &settings).expect("our owner");
    let unhindered = planned(&Earlier::default());
    let edits = unhindered.hosts.iter().flat_map(|host| host.edits.values().flatten());
    let later = edits.filter_map(|(tunnel, edit)| match edit {
        RuleEdit::Put { rule, .. } if rule.service.as_str() == LATER => Some(rule_work(tunnel, rule)),
        _ => None,
    });
    let refused = later.map(|work| (work, reason.clone())).collect();
    let plan = planned(&Earlier { refused, ..Earlier::default() });
    let labels: Vec<&str> = plan.refusals.iter().map(|refusal| refusal.reason.label()).collect();
    assert!(labels.contains(&reason.label()), "{labels:?}");
    plan.handed_over
}

/// What Cloudflare refuses may never come.
#[test]
fn what_visitors_come_from_waits_also_for_what_a_later_request_publishes() {
    let wild = |service| through(HOME, WILDCARD, service);
    let name = |tunnel, service| through(tunnel, NAME, service);
    let (later, never) = (Reason::Undecided("not made yet".into()), Reason::Cloudflare("no".into()));
    for (label, before, after, reason, expected) in [
        ("a name", wild(OLD), vec![name(HOME, LATER)], &later, &[WILDCARD][..]),
        ("a name elsewhere", wild(OLD), vec![name(OFFICE, LATER)], &later, &[WILDCARD]),
        ("a wildcard", name(HOME, OLD), vec![wild(LATER)], &later, &[NAME]),
        ("a refused name", wild(OLD), vec![name(HOME, LATER)], &never, &[]),
        ("a refused wildcard", name(HOME, OLD), vec![wild(LATER)], &never, &[]),
        ("a name beside it", wild(OLD), vec![through(HOME, "apps.example.com", LATER)], &later, &[]),
    ] {
        let waiting = waiting_for_later(&[before], &after, reason);
        assert_eq!(waiting.iter().map(|name| &**name).collect::<Vec<_>>(), expected, "{label}");
    }
}

/// Its own rule serves its visitors already, but for those of a path.
#[test]
fn a_wildcard_waits_for_no_name_that_is_only_changed_later() {
    let later = Reason::Undecided("not made yet".into());
    let wild = through(HOME, WILDCARD, OLD);
    let name = |service| through(HOME, NAME, service);
    let path = |service| endpoint(NAME, &[("tunnel-service", service), ("tunnel-path", "^/a$")]);
    for (label, before, after, waits) in [
        ("it is there", vec![name(OLD)], vec![name(LATER)], false),
        ("a path is", vec![path(OLD)], vec![path(LATER)], false),
        ("a path is not", vec![name(OLD)], vec![name(OLD), path(LATER)], true),
        ("only a path is", vec![path(OLD)], vec![path(OLD), name(LATER)], true),
    ] {
        let before = [vec![wild.clone()], before].concat();
        let waiting = waiting_for_later(&before, &after, &later);
        assert_eq!(!waiting.is_empty(), waits, "{label}: {waiting:?}");
    }
}

fn path_in(tunnel: &str) -> Endpoint {
    endpoint(
        NAME,
        &[
            ("tunnel", tunnel_id(tunnel).as_str()),
            ("tunnel-service", "http://path:80"),
            ("tunnel-path", "^/new$"),
        ],
    )
}

/// Its record may be on the way to the edge still.
#[test]
fn a_wildcard_waits_for_a_name_that_was_led_out_of_its_tunnel_a_short_time_ago() {
    let (wild, name) = (through(HOME, WILDCARD, "http://wild:80"), through(OFFICE, NAME, "http://web:80"));
    let (before, after) = ([wild, name.clone()], [name]);
    let moving = |name: &str, tunnel: TunnelId| Earlier {
        moving: [(name.into(), tunnel)].into(),
        ..Earlier::default()
    };
    let (office, home) = (tunnel_id(OFFICE), tunnel_id(HOME));
    for (label, earlier, expected) in [
        ("nobody moves", Earlier::default(), vec![]),
        ("the name does", moving(NAME, office.clone()), vec![format!("{WILDCARD} ")]),
        ("into the wildcard's own tunnel", moving(NAME, home), vec![]),
        ("a name beside it does", moving("web.example.com", office.clone()), vec![]),
        (
            "it has waited long enough",
            Earlier { handed_over: [WILDCARD.into()].into(), ..moving(NAME, office) },
            vec![],
        ),
    ] {
        assert_eq!(waiting(&before, &after, &earlier), expected, "{label}");
    }
}

/// Or a name that comes in every loop would keep the wildcard for ever.
#[test]
fn what_has_waited_long_enough_goes() {
    let (wild, name) = (through(HOME, WILDCARD, "http://wild:80"), through(HOME, NAME, "http://web:80"));
    for (before, after, goes) in [(&wild, &name, WILDCARD), (&name, &wild, NAME)] {
        let lists = [before, after].map(std::slice::from_ref);
        let earlier =
            |hostname: &str| Earlier { handed_over: [hostname.into()].into(), ..Earlier::default() };
        assert_eq!(waiting(lists[0], lists[1], &earlier(goes)), [""; 0]);
        assert_eq!(waiting(lists[0], lists[1], &earlier("other.example.com")).len(), 1);
    }
}
