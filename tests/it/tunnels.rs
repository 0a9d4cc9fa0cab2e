//! Several tunnels in one process: which hostname goes through which, and what happens when one changes or is gone.

use std::time::Duration;

use cloudflare_emulator::{Cloudflare, Fault, Matcher, Visit};
use external_dns_cloudflare_tunnel_webhook::model::TunnelId;
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use external_dns_cloudflare_tunnel_webhook::reconcile::records;
use external_dns_cloudflare_tunnel_webhook::reconcile::snapshot::Snapshot;
use test_support::external_dns::Changes;
use test_support::fake_cloudflare::{FakeCloudflare, HOME, tunnel_id};
use test_support::harness::{Harness, Program, endpoint, published};

use crate::shared_account;
use crate::shared_account::settle;

const BOTH: [(&str, &str); 1] = [("CF_TUNNEL_ID", "home,office")];

/// A Cloudflare with a second tunnel, called `office`.
fn two_tunnels() -> (Harness, String) {
    let harness = Harness::new();
    let office = harness.cloudflare.add_tunnel("office");
    (harness, office)
}

fn through(tunnel: &str, name: &str, path: &str, service: &str) -> Endpoint {
    let all = [("tunnel", tunnel), ("tunnel-path", path), ("tunnel-service", service)];
    endpoint(name, &all.into_iter().filter(|(_, value)| !value.is_empty()).collect::<Vec<_>>())
}

/// The tunnel and the service that a visitor reaches.
fn served(cloudflare: &Cloudflare, host: &str, path: &str) -> Result<(String, String), String> {
    match cloudflare.visit(host, path) {
        Visit::Served { tunnel, service, .. } => Ok((tunnel, service)),
        other => Err(other.to_string()),
    }
}

/// The tunnel through which a visitor reaches `http://web:80`.
fn tunnel_of(harness: &Harness, host: &str) -> Option<String> {
    let served = harness.cloudflare.edit(|cloudflare| served(cloudflare, host, "/"));
    served.ok().filter(|(_, service)| service == "http://web:80").map(|(tunnel, _)| tunnel)
}

/// What stands in all tunnels and zones.
fn state(harness: &Harness) -> Vec<String> {
    harness.cloudflare.edit(|cloudflare| {
        let documents = cloudflare.tunnels().iter().map(|tunnel| {
            let document = cloudflare.configuration(&tunnel.id).map(ToString::to_string);
            format!("{} {document:?}", tunnel.name)
        });
        let records = cloudflare.zones().iter().flat_map(|zone| cloudflare.records(&zone.id));
        documents.chain(records.map(shared_account::shown)).collect()
    })
}

#[test]
fn each_hostname_goes_through_the_tunnel_it_names_and_all_others_through_the_first() {
    let (harness, office) = two_tunnels();
    let third = harness.cloudflare.add_tunnel("third");
    let upper_case = office.to_uppercase();
    // By name, by id, and twice.
    let tunnels = format!("{upper_case}, home,office,{third}");
    let program = harness.start_with(&[("CF_TUNNEL_ID", &tunnels)]);
    let table = [
        ("default.example.com", "", &office),
        ("name.example.com", "home", &harness.tunnel),
        ("id.example.com", &*upper_case, &office),
        ("other-id.example.com", &*harness.tunnel, &harness.tunnel),
        ("third.example.com", "third", &third),
    ];
    let desired = table.map(|(name, tunnel, _)| through(tunnel, name, "", "http://web:80"));
    settle(program.external_dns(), &harness.cloudflare, &desired).expect("published");
    for (name, _, tunnel) in table {
        assert_eq!(tunnel_of(&harness, name).as_ref(), Some(tunnel), "{name}");
    }
    assert_eq!(harness.rules().len(), 3, "two of them, and the catch-all");

    harness.cloudflare.take_calls();
    program.external_dns().run_loop(&desired).expect("nothing to do");
    let calls = harness.cloudflare.count_calls();
    assert_eq!((calls.reads, calls.writes), (3 + 1, 0), "each tunnel and the zone");
    settle(program.external_dns(), &harness.cloudflare, &[]).expect("withdrawn");
    assert_eq!((harness.rules().len(), harness.cnames().len()), (1, 0));
}

/// A replica of an old tunnel may hang for a while: nothing may be decided on half of what stands.
#[test]
fn a_tunnel_that_cannot_be_read_makes_the_answers_503_and_nothing_is_written() {
    let (harness, office) = two_tunnels();
    let program = harness.start_with(&BOTH);
    let external_dns = program.external_dns();
    let desired = [
        published("home.example.com", "http://web:80"),
        through("office", "office.example.com", "", "http://web:80"),
    ];
    settle(external_dns, &harness.cloudflare, &desired).expect("published");
    let before = state(&harness);
    let current = external_dns.records().expect("shown");
    drop(program);

    let program = harness.start_with(&[BOTH[0], ("REQUEST_TIMEOUT", "2s")]);
    let external_dns = program.external_dns();
    let path = format!("/accounts/*/cfd_tunnel/{office}/configurations");
    // The tunnel itself is there, so that its configuration is not found says nothing.
    for (fault, status) in [(Fault::status(503), 503), (Fault::error(404, 1020, "not found"), 500)] {
        harness.cloudflare.clear_faults();
        harness.cloudflare.fault_every(Matcher::call("GET", &path), fault);
        assert_eq!(external_dns.records().err(), Some(status));
        let gone = Changes { delete: current.clone(), ..Changes::default() };
        assert_eq!(external_dns.apply(&gone), Err(status));
        assert_eq!(harness.cloudflare.count_calls().writes, 0);
        assert_eq!(state(&harness), before);
    }

    drop(program);

    harness.cloudflare.clear_faults();
    let program = harness.start_with(&BOTH);
    settle(program.external_dns(), &harness.cloudflare, &desired).expect("as if nothing had been");
    assert_eq!(state(&harness), before);
}

/// A hostname with its rules for all paths and for one, and a record alone.
fn three_hostnames() -> [Endpoint; 4] {
    [
        published("web.example.com", "http://web:80"),
        through("", "web.example.com", "^/api$", "http://api:80"),
        through("", "paths.example.com", "^/api$", "http://api:80"),
        endpoint("only.example.com", &[("tunnel-service", "none")]),
    ]
}

fn start(harness: &Harness, tunnels: &str) -> Program {
    harness.start_with(&[("CF_TUNNEL_ID", tunnels)])
}

/// How docs/names-and-tunnels.md says it: the old one behind the new one, until nothing leads there.
#[test]
fn with_the_old_tunnel_listed_behind_the_new_one_every_hostname_moves() {
    let (harness, office) = two_tunnels();
    let desired = three_hostnames();
    let program = start(&harness, "home");
    settle(program.external_dns(), &harness.cloudflare, &desired).expect("published");
    drop(program);

    let program = start(&harness, "office,home");
    settle(program.external_dns(), &harness.cloudflare, &desired).expect("moved");
    let target = format!("{office}.cfargotunnel.com");
    assert!(harness.cnames().iter().all(|(_, content, ..)| *content == target), "{:?}", harness.cnames());
    assert_eq!(harness.rules(), [r#"{"service":"http_status:404"}"#], "the old tunnel is empty");
    drop(program);

    let before = state(&harness);
    let program = start(&harness, "office");
    settle(program.external_dns(), &harness.cloudflare, &desired).expect("at rest");
    assert_eq!(state(&harness), before);
}

/// It may be another cluster's with the same owner. The log says how to tell the two apart.
#[test]
fn with_the_old_tunnel_merely_replaced_its_hostnames_stay_and_the_way_out_is_said() {
    let (harness, _) = two_tunnels();
    let desired = three_hostnames();
    let program = start(&harness, "home");
    settle(program.external_dns(), &harness.cloudflare, &desired).expect("published");
    drop(program);

    let before = state(&harness);
    let program = start(&harness, "office");
    for _ in 0..2 {
        program.external_dns().run_loop(&desired).expect("refused by name");
        assert_eq!(program.external_dns().records(), Ok(Vec::new()));
    }
    assert_eq!(state(&harness), before);

    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    cloudflare.run_loop(&desired[..1], usize::MAX);
    let elsewhere = "10000000-a4ef-4643-bbbc-4a0ed4fc8415";
    cloudflare.records[0].content = format!("{elsewhere}.cfargotunnel.com").into();
    let mut reading = cloudflare.reading();
    reading.unconfigured_tunnels = [tunnel_id(elsewhere)].into();
    let shown = records::records(&Snapshot::new(reading));
    assert_eq!(shown.endpoints, []);
    let [note] = &shown.notes[..] else { panic!("one note in {:?}", shown.notes) };
    assert!(note.text.contains("list the old tunnel in CF_TUNNEL_ID behind the new one"), "{note:?}");
}

#[test]
fn a_loop_looks_once_at_the_connectors_of_the_tunnel_to_which_a_hostname_moves() {
    let (harness, office) = two_tunnels();
    let program = harness.start_with(&BOTH);
    let to = |tunnel: &str| [through(tunnel, "web.example.com", "", "http://web:80")];
    settle(program.external_dns(), &harness.cloudflare, &to("home")).expect("published");
    program.external_dns().run_loop(&to("office")).expect_err("the rule comes first");
    harness.cloudflare.take_calls();
    program.external_dns().run_loop(&to("office")).expect_err("the old rule stays for MOVE_GRACE");
    let calls = harness.cloudflare.take_calls();
    let looks = calls.iter().filter(|call| call.path.ends_with(&format!("{office}/connections")));
    assert_eq!(looks.count(), 1, "{calls:#?}");
}

#[test]
fn hostnames_of_a_tunnel_that_was_deleted_are_mended_in_one_loop() {
    let (harness, office) = two_tunnels();
    let desired = three_hostnames();
    let program = start(&harness, "home");
    settle(program.external_dns(), &harness.cloudflare, &desired).expect("published");
    drop(program);
    // A digest without a rule stays for a minute.
    harness.cloudflare.advance_clock(Duration::from_secs(61));
    harness.cloudflare.edit(|cloudflare| cloudflare.tunnel_mut("home").deleted = true);
    assert_eq!(tunnel_of(&harness, "web.example.com"), None);

    let program = start(&harness, "office");
    let external_dns = program.external_dns();
    let shown = external_dns.records().expect("shown");
    let adjusted = external_dns.adjust(&desired).expect("adjusted");
    assert!(shown.iter().all(|endpoint| !adjusted.contains(endpoint)), "all of them drifted: {shown:?}");
    external_dns.run_loop(&desired).expect("mended");
    assert_eq!(tunnel_of(&harness, "web.example.com").as_ref(), Some(&office));
    let target = format!("{office}.cfargotunnel.com");
    assert!(harness.cnames().iter().all(|(_, content, ..)| *content == target), "{:?}", harness.cnames());
    settle(external_dns, &harness.cloudflare, &desired).expect("at rest");
    settle(external_dns, &harness.cloudflare, &[]).expect("withdrawn");
    assert_eq!(harness.cnames(), []);
}

#[test]
fn a_configured_tunnel_that_is_deleted_shows_drift_and_stops_no_other() {
    let (harness, office) = two_tunnels();
    let program = start(&harness, "home,office");
    let external_dns = program.external_dns();
    let at_office = |name: &str, service: &str| through("office", name, "", service);
    let mut desired = vec![
        published("home.example.com", "http://web:80"),
        at_office("office.example.com", "http://web:80"),
        at_office("goes.example.com", "http://web:80"),
    ];
    settle(external_dns, &harness.cloudflare, &desired).expect("published");
    harness.cloudflare.advance_clock(Duration::from_secs(61));
    harness.cloudflare.edit(|cloudflare| cloudflare.tunnel_mut(&office).deleted = true);

    let adjusted = external_dns.adjust(&desired).expect("adjusted");
    let shown = external_dns.records().expect("shown");
    let is_wanted = |shown: &Endpoint| {
        adjusted.iter().any(|wanted| {
            (&wanted.dns_name, &wanted.provider_specific) == (&shown.dns_name, &shown.provider_specific)
        })
    };
    let drifted = shown.iter().filter(|endpoint| !is_wanted(endpoint));
    let drifted: Vec<&str> = drifted.map(|endpoint| &*endpoint.dns_name).collect();
    assert_eq!(drifted, ["goes.example.com", "office.example.com"]);
    desired.pop();
    desired[0] = published("home.example.com", "http://changed:80");
    desired.push(at_office("comes.example.com", "http://web:80"));
    external_dns.run_loop(&desired).expect("the rest is done");
    harness.cloudflare.take_calls();
    external_dns.run_loop(&desired).expect("nothing to do");
    assert_eq!(harness.cloudflare.count_calls().writes, 0);
    let mut names: Vec<String> = harness.cnames().into_iter().map(|(name, ..)| name).collect();
    names.sort_unstable();
    assert_eq!(names, ["home.example.com", "office.example.com"]);
    assert!(harness.rules().iter().any(|rule| rule.contains("http://changed:80")), "{:?}", harness.rules());

    // What names another tunnel now, moves there.
    let all_at_home =
        ["home", "office", "comes"].map(|name| published(&format!("{name}.example.com"), "http://web:80"));
    settle(external_dns, &harness.cloudflare, &all_at_home).expect("mended");
    for name in ["office.example.com", "comes.example.com"] {
        assert_eq!(tunnel_of(&harness, name).as_ref(), Some(&harness.tunnel), "{name}");
    }
}

/// cloudflared checks Access in rules alone, and takes a bastion's word for every rule that says nothing.
#[test]
fn what_a_tunnel_says_for_all_its_rules_and_cloudflared_reads_otherwise_is_told() {
    let access = r#"{"access":{"required":true,"teamName":"team","audTag":["tag"]}}"#;
    for (label, origin, told) in [
        ("nothing", "{}", &[][..]),
        ("access", access, &["requires Access"]),
        ("access in other letters", r#"{"Access":{"Required":true}}"#, &["requires Access"]),
        (
            "access in two parts",
            r#"{"access":{"required":true},"access":{"teamName":"x"}}"#,
            &["requires Access"],
        ),
        ("access that is not required", r#"{"access":{"required":false,"teamName":"team"}}"#, &[]),
        ("a bastion", r#"{"bastionMode":true}"#, &["ORIGIN_BASTION_MODE=false"]),
        ("no bastion", r#"{"bastionMode":true,"bastionMode":false}"#, &[]),
        ("null", "null", &[]),
        (
            "both",
            r#"{"bastionMode":true,"access":{"required":true}}"#,
            &["requires Access", "ORIGIN_BASTION_MODE=false"],
        ),
    ] {
        let cloudflare = FakeCloudflare::with_config(&format!(r#"{{"originRequest":{origin}}}"#));
        let notes = records::records(&cloudflare.snapshot()).notes;
        assert_eq!(notes.len(), told.len(), "{label}: {notes:?}");
        for (note, told) in notes.iter().zip(told) {
            assert!(note.text.contains(told), "{label}: {note:?}");
            assert_eq!(TunnelId::from_hostname(&note.hostname), Some(tunnel_id(HOME)), "{label}");
        }
    }
}

/// Without an object, nothing tells the form of the object's annotations; Kubernetes takes no name with two slashes.
#[test]
fn what_is_told_of_a_tunnel_names_annotations_as_kubernetes_takes_them() {
    let own = r#"{"originRequest":{"access":{"required":true}}}"#;
    let notes = records::records(&FakeCloudflare::with_config(own).snapshot()).notes;
    let [note] = &*notes else { panic!("{notes:?}") };
    let names = ["webhook-access-required", "webhook-access-team-name", "webhook-access-aud-tag"];
    assert!(!note.text.contains("webhook/") && names.iter().all(|name| note.text.contains(name)), "{note:?}");
}
