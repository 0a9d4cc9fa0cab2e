//! Answers that show a state from before what this process saw or wrote, or that contradict themselves: nothing is
//! decided by them, and everything else goes on.

use std::sync::Arc;
use std::time::Duration;

use cloudflare_emulator::{Fault, Matcher, Plan};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use test_support::clock::ManualClock;
use test_support::external_dns::Registry;
use test_support::harness::{Harness, Program, endpoint, endpoint_of, published};

use crate::access_strangers::{AGE_MIN, Stage, wish};
use crate::shared_account::settle;

const WEB: &str = "http://web:80";
const A: &str = "a.example.com";
const OTHER_TUNNEL: &str = r#""00000000-a4ef-4643-bbbc-4a0ed4fc8415""#;
const OLD: Fault = Fault::Old { writes: 1 };

/// The reads of one loop: `GET /records`, and where a write follows, its plan and the write itself.
const FIRST: usize = 1;
const BEFORE_THE_WRITE: usize = 3;

/// Two tunnels, `home` and `office`, and two zones, `example.com` and `example.org`.
struct World {
    harness: Harness,
    program: Program,
    clock: Arc<ManualClock>,
}

impl World {
    fn new() -> Self {
        let harness = Harness::with_foreign();
        harness.cloudflare.add_tunnel("office");
        harness.cloudflare.add_zone("example.org", Plan::Free);
        harness.cloudflare.keep_past();
        let clock = Arc::new(ManualClock::default());
        let program = harness.start_by(Arc::clone(&clock) as _, &[("CF_TUNNEL_ID", "home,office")]);
        program.wait_until_ready();
        Self { harness, program, clock }
    }

    /// With these endpoints published one after another, each in writes of its own.
    fn holding(desired: &[Endpoint]) -> Self {
        let world = Self::new();
        for number in 1..=desired.len() {
            settle(world.program.external_dns(), &world.harness.cloudflare, &desired[..number])
                .expect("published");
        }
        world.harness.log.forget();
        world.harness.cloudflare.take_calls();
        world
    }

    fn run_loop(&self, desired: &[Endpoint]) -> Result<(), u16> {
        self.program.external_dns().run_loop(desired).map(drop)
    }

    fn settle(&self, desired: &[Endpoint]) {
        self.harness.cloudflare.clear_faults();
        settle(self.program.external_dns(), &self.harness.cloudflare, desired).expect("at rest");
    }

    fn configuration_of(&self, tunnel: &str) -> Matcher {
        Matcher::call("GET", &format!("/accounts/*/cfd_tunnel/{tunnel}/configurations"))
    }

    fn records_of(&self, zone: &str) -> Matcher {
        Matcher::call("GET", &format!("/zones/{zone}/dns_records"))
    }

    /// The writes since the last look, by the last parts of their paths.
    fn writes(&self) -> Vec<String> {
        let mut calls = self.harness.cloudflare.take_calls();
        calls.retain(|call| call.is_write());
        calls.into_iter().map(|call| call.path).collect()
    }

    fn is_served(&self, host: &str, path: &str) -> bool {
        self.harness.service_at(host, path) == WEB
    }
}

fn through(tunnel: &str, name: &str, path: &str) -> Endpoint {
    let all = [("tunnel", tunnel), ("tunnel-path", path), ("tunnel-service", WEB)];
    endpoint(name, &all.into_iter().filter(|(_, value)| !value.is_empty()).collect::<Vec<_>>())
}

#[test]
fn a_configuration_that_contradicts_the_one_seen_under_its_version_costs_no_rule() {
    for (member, value) in [("config", "null"), ("config", "{}"), ("tunnel_id", OTHER_TUNNEL)] {
        let a = published("a.example.com", WEB);
        let world = World::holding(std::slice::from_ref(&a));
        let (before, both) = (world.harness.rules(), [a, published("b.example.com", WEB)]);
        for first in [FIRST, BEFORE_THE_WRITE] {
            let read = world.configuration_of(&world.harness.tunnel);
            for nth in first..first + 4 {
                world.harness.cloudflare.fault(read.clone(), nth, Fault::says(member, value));
            }
            assert_eq!(world.run_loop(&both), Err(503), "{member} {value}, from read {first}");
            assert_eq!(world.harness.rules(), before, "{member} {value}, from read {first}");
            world.harness.cloudflare.clear_faults();
        }
        assert!(!world.harness.log.lines_with(&["refused=waiting", "b.example.com"]).is_empty(), "{member}");
        world.settle(&both);
        assert!(world.is_served("b.example.com", "/"), "{member} {value}");
    }
}

#[test]
fn an_old_answer_is_asked_for_once_more_in_the_same_request() {
    let a = through("home", "a.example.com", "");
    let world = World::holding(&[a.clone(), through("home", "a.example.com", "/b")]);
    for (number, matcher) in
        [world.configuration_of(&world.harness.tunnel), world.records_of(&world.harness.zone)]
            .into_iter()
            .enumerate()
    {
        for nth in [FIRST, BEFORE_THE_WRITE] {
            let desired = [a.clone(), through("home", "a.example.com", &format!("/{number}{nth}"))];
            world.harness.cloudflare.fault(matcher.clone(), nth, OLD);
            assert_eq!(world.run_loop(&desired), Ok(()), "{matcher:?}, read {nth}");
            assert!(world.is_served("a.example.com", &format!("/{number}{nth}")));
        }
    }
}

#[test]
fn no_record_is_made_for_a_tunnel_whose_configuration_is_known_to_be_old() {
    let a = published("a.example.com", WEB);
    let world = World::holding(std::slice::from_ref(&a));
    world.harness.cloudflare.fault_every(world.configuration_of(&world.harness.tunnel), OLD);
    let both = [a, published("b.example.com", WEB)];
    for _ in 0..3 {
        assert_eq!(world.run_loop(&both), Err(503));
        assert_eq!(world.writes(), [""; 0]);
    }
    world.settle(&both);
    assert!(world.is_served("b.example.com", "/"));
}

/// The comment lost the digest of `/b` for ever, or the record went and the rule stayed.
#[test]
fn while_a_configuration_is_old_nothing_of_its_tunnels_hostnames_is_written_and_all_others_go_on() {
    let [a, b, c] = ["", "/b", "/c"].map(|path| through("home", "a.example.com", path));
    let stays = through("office", "stays.example.com", "");
    let added = [a.clone(), b.clone(), c, stays.clone()];
    for (label, desired) in [("added", &added[..]), ("withdrawn", &added[3..])] {
        let world = World::holding(&[stays.clone(), a.clone(), b.clone()]);
        let before = (world.harness.rules(), world.harness.cnames());
        let versions_ago = [OLD, Fault::says("config", "null")];
        for fault in versions_ago {
            world.harness.cloudflare.fault_every(world.configuration_of(&world.harness.tunnel), fault);
            let name = format!("new-{}.example.com", before.0.len());
            let others = [desired, &[through("office", &name, "")]].concat();
            assert_eq!(world.run_loop(&others), Err(503), "{label}");
            assert!(world.is_served(&name, "/"), "{label}");
            world.harness.cloudflare.clear_faults();
            let cnames: Vec<_> =
                world.harness.cnames().into_iter().filter(|(of, ..)| !of.starts_with("new-")).collect();
            assert_eq!((world.harness.rules(), cnames), before, "{label}");
        }
        assert!(!world.harness.log.lines_with(&["refused=waiting", "a.example.com"]).is_empty(), "{label}");
        world.settle(desired);
        let own = world.harness.rules().iter().filter(|rule| rule.contains("a.example.com")).count();
        assert_eq!(own, if label == "added" { 3 } else { 0 }, "{label}");
    }
}

#[test]
fn while_a_list_of_records_is_from_before_our_last_batch_nothing_of_its_zone_is_written_and_all_others_go_on()
{
    let added = ["", "/b", "/c"].map(|path| through("home", "a.example.com", path));
    for (label, desired) in [("added", &added[..]), ("withdrawn", &[])] {
        for (is_own_time, ago) in [(false, 1), (true, 1), (true, 2)] {
            let world = World::new();
            world
                .harness
                .cloudflare
                .edit(|cloudflare| cloudflare.whims_mut().comments_have_their_own_time = is_own_time);
            for desired in [&added[..1], &added[..2]] {
                settle(world.program.external_dns(), &world.harness.cloudflare, desired).expect("published");
            }
            // A list without the record shows nothing older.
            world
                .harness
                .cloudflare
                .fault_every(world.records_of(&world.harness.zone), Fault::Old { writes: 1 });
            let before = (world.harness.rules(), world.harness.cnames());
            for number in 0..ago {
                let name = format!("new-{number}.example.org");
                let others = [desired, &[published(&name, WEB)]].concat();
                assert_eq!(world.run_loop(&others), Err(503), "{label}");
                assert!(world.is_served(&name, "/"), "{label}");
            }
            assert_eq!(world.harness.cnames(), before.1, "{label}");
            assert!(!world.harness.log.lines_with(&["refused=waiting", "a.example.com"]).is_empty());
            world.settle(desired);
            let own = world.harness.rules().iter().filter(|rule| rule.contains("a.example.com")).count();
            assert_eq!(own, desired.len(), "{label}");
        }
    }
}

#[test]
fn a_list_that_shows_a_record_that_we_deleted_is_old_for_two_minutes_and_believed_then() {
    let all = [published("a.example.com", WEB), published("b.example.com", WEB)];
    let world = World::holding(&all);
    world.run_loop(&all[..1]).expect("withdrawn");
    world.harness.cloudflare.fault_every(world.records_of(&world.harness.zone), OLD);
    world.writes();
    for passed in [0, 115] {
        world.clock.put_ahead(Duration::from_secs(passed));
        assert_eq!(world.run_loop(&all[..1]), Err(503), "after {passed} s");
        assert_eq!(world.writes(), [""; 0], "after {passed} s");
    }
    world.clock.put_ahead(Duration::from_secs(5));
    // A digest without a rule is then a minute old.
    world.harness.cloudflare.advance_clock(Duration::from_secs(61));
    let _ = world.run_loop(&all[..1]);
    assert_ne!(world.writes(), [""; 0]);
}

/// A reading asks twice before it believes that an answer is old.
#[test]
fn an_old_answer_right_before_a_write_is_told_in_the_words_of_an_old_snapshot() {
    let world = World::new();
    let run_loop = |names: &[&str]| {
        let wanted: Vec<Endpoint> = names.iter().map(|name| published(name, WEB)).collect();
        world.program.external_dns().run_loop(&wanted)
    };
    run_loop(&[A]).expect("published");
    let home = format!("/accounts/*/cfd_tunnel/{}/configurations", world.harness.tunnel);
    for nth in [BEFORE_THE_WRITE, BEFORE_THE_WRITE + 1] {
        world.harness.cloudflare.fault(Matcher::call("GET", &home), nth, OLD);
    }
    run_loop(&[A, "b.example.com"]).expect_err("the edit waits");
    let told =
        world.harness.log.lines_with(&["the answer about the configuration of tunnel", "b.example.com"]);
    assert_eq!(told.len(), 1, "{told:#?}");
    run_loop(&[A, "b.example.com"]).expect("published");
}

/// An earlier version of the reading shows the service that is asked for now.
#[test]
fn an_old_reading_never_shows_that_there_is_nothing_to_write() {
    let world = World::holding(&[published("a.example.com", WEB)]);
    let external_dns = world.program.external_dns();
    let other = [published("a.example.com", "http://other:80")];
    world.settle(&other);
    let shown = external_dns.records().expect("shown");
    let adjusted = external_dns.adjust(&[published("a.example.com", WEB)]).expect("adjusted");
    for nth in [FIRST, FIRST + 1] {
        world.harness.cloudflare.fault(world.configuration_of(&world.harness.tunnel), nth, OLD);
    }
    external_dns.records().expect("shown");
    external_dns.apply(&Registry::Noop.plan(&shown, &adjusted)).expect("carried out");
    assert!(world.is_served("a.example.com", "/"));
}

/// By another reading the webhook would choose the other one of two objects of one place, and the next reading shows
/// nothing to wait for.
#[test]
fn adjust_chooses_by_the_reading_that_is_shown_though_it_is_old() {
    let world = World::holding(&[published("a.example.com", WEB), published("b.example.com", WEB)]);
    let both = ["ingress/n/a", "ingress/n/b"].map(|object| {
        let service = format!("http://{}:80", object.replace('/', "-"));
        endpoint_of(object, "twice.example.com", &[("tunnel-service", &service)])
    });
    let adjusted = || {
        world.program.external_dns().records().expect("shown");
        world.program.external_dns().adjust(&both).expect("adjusted").len()
    };
    assert_eq!(adjusted(), 1);
    world.harness.cloudflare.fault_every(world.configuration_of(&world.harness.tunnel), OLD);
    assert_eq!(adjusted(), 1);
}

/// `app.example.com` with a login, and what is published in `example.org`; the list of records there, whose old answers
/// the process knows.
fn protected_beside_another_zone() -> (Stage, [Endpoint; 3], Matcher) {
    let stage = Stage::protected(&[]);
    let organisation = stage.cloudflare().add_zone("example.org", Plan::Free);
    stage.cloudflare().keep_past();
    let others = ["/a", "/b", "/c"]
        .map(|path| endpoint("a.example.org", &[("tunnel-service", WEB), ("tunnel-path", path)]));
    stage.cloudflare().advance_clock(AGE_MIN * 2);
    for number in 1..=others.len() {
        stage.cloudflare().advance_clock(Duration::from_secs(1));
        stage.run_loop(&[&others[..number], &[wish("staff")]].concat()).expect("published");
    }
    (stage, others, Matcher::call("GET", &format!("/zones/{organisation}/dns_records")))
}

#[test]
fn nothing_opens_and_no_application_goes_while_the_answer_about_another_zone_is_old() {
    for desired in [vec![wish("none")], vec![]] {
        let (stage, others, list) = protected_beside_another_zone();
        let all = [&others[..], &desired].concat();
        stage.cloudflare().fault_every(list, OLD);
        for _ in 0..5 {
            let _ = stage.run_loop(&all);
            assert_eq!(stage.policies(), [["staff"]], "{desired:?}");
        }
        let checks = stage.harness.rules().iter().filter(|rule| rule.contains("audTag")).count();
        assert_eq!(checks, desired.len(), "what opens keeps its check, and what is withdrawn goes");
        stage.cloudflare().clear_faults();
        for _ in 0..5 {
            let _ = stage.run_loop(&all);
        }
        assert_eq!(stage.applications().len(), 0, "{desired:?}");
        assert_eq!(stage.leaks().is_empty(), desired.is_empty(), "it opens");
    }
}

/// It goes when nothing answers in two loops, and everything is read once more before.
#[test]
fn an_application_stays_where_the_last_look_before_its_deletion_has_an_old_answer() {
    let (stage, others, list) = protected_beside_another_zone();
    for _ in 0..2 {
        let _ = stage.run_loop(&others);
    }
    assert_eq!(stage.policies(), [["staff"]]);
    for nth in [2, 3] {
        stage.cloudflare().fault(list.clone(), nth, OLD);
    }
    let _ = stage.run_loop(&others);
    assert_eq!(stage.policies(), [["staff"]]);
    let _ = stage.run_loop(&others);
    assert_eq!(stage.applications().len(), 0);
}

/// Two objects ask for one place: the holder with a login, the other one open. The hostname has rules of several
/// objects, so its stamp names none. Between the two answers of one loop the list of another zone is old.
#[test]
fn an_old_answer_about_another_zone_does_not_give_a_protected_place_to_the_object_that_opens_it() {
    use crate::access_strangers::{AGE_MIN, NAME, SECRET, Stage};
    use test_support::harness::endpoint_of;
    let stage = Stage::new(&[]);
    let organisation = stage.cloudflare().add_zone("example.org", Plan::Free);
    stage.cloudflare().keep_past();
    let closed =
        endpoint_of("ingress/shop/closed", NAME, &[("tunnel-service", SECRET), ("access-policy", "staff")]);
    let open =
        endpoint_of("ingress/shop/aaa", NAME, &[("tunnel-service", SECRET), ("access-policy", "none")]);
    let beside = endpoint_of(
        "ingress/shop/other",
        NAME,
        &[("tunnel-service", WEB), ("tunnel-path-prefix", "/x"), ("access-policy", "staff")],
    );
    let others = ["/a", "/b", "/c"]
        .map(|path| endpoint("a.example.org", &[("tunnel-service", WEB), ("tunnel-path", path)]));
    stage.cloudflare().advance_clock(AGE_MIN * 2);
    let mut held = vec![closed.clone(), beside.clone()];
    for _ in 0..4 {
        stage.cloudflare().advance_clock(Duration::from_secs(60));
        let _ = stage.run_loop(&held);
    }
    for other in &others {
        stage.cloudflare().advance_clock(Duration::from_secs(1));
        held.push(other.clone());
        let _ = stage.run_loop(&held);
    }
    let both = [&[open, closed, beside][..], &others].concat();
    let quiet = stage.run_loop(&both);
    let changes = quiet.expect("nothing to do");
    assert!(changes.update_new.is_empty() && changes.create.is_empty(), "{changes:?}");
    let checks = || stage.harness.rules().iter().filter(|rule| rule.contains("audTag")).count();
    assert_eq!(checks(), 2);
    let list = Matcher::call("GET", &format!("/zones/{organisation}/dns_records"));
    for _ in 0..3 {
        // The two reads of GET /records. Those of POST /records are as they should be.
        for nth in [1, 2] {
            stage.cloudflare().fault(list.clone(), nth, Fault::Old { writes: 1 });
        }
        let _ = stage.run_loop(&both);
        stage.cloudflare().clear_faults();
        stage.cloudflare().advance_clock(Duration::from_secs(20));
    }
    for _ in 0..4 {
        let _ = stage.run_loop(&both);
        stage.cloudflare().advance_clock(Duration::from_secs(150));
    }
    assert_eq!((stage.policies().len(), checks(), stage.leaks()), (2, 2, vec![]), "the place has opened");
}

/// The same without Access: the path goes to another object's service and back.
#[test]
fn an_old_answer_about_another_zone_gives_no_place_to_another_object_than_its_holder() {
    use test_support::harness::endpoint_of;
    let harness = Harness::new();
    let organisation = harness.cloudflare.add_zone("example.org", Plan::Free);
    harness.cloudflare.keep_past();
    let program = harness.start();
    let external_dns = program.external_dns();
    let holder = endpoint_of("ingress/shop/holder", A, &[("tunnel-service", "http://holder:80")]);
    let beside = endpoint_of("ingress/shop/beside", A, &[("tunnel-service", WEB), ("tunnel-path", "^/x$")]);
    let other = endpoint_of("ingress/bank/aaa", A, &[("tunnel-service", "http://other:80")]);
    let mut held = vec![holder, beside];
    settle(external_dns, &harness.cloudflare, &held).expect("published");
    for path in ["/a", "/b", "/c"] {
        held.push(endpoint("a.example.org", &[("tunnel-service", WEB), ("tunnel-path", path)]));
        settle(external_dns, &harness.cloudflare, &held).expect("published");
    }
    held.insert(0, other);
    let changes = external_dns.run_loop(&held).expect("nothing to do");
    assert!(changes.update_new.is_empty(), "{changes:?}");
    let list = Matcher::call("GET", &format!("/zones/{organisation}/dns_records"));
    for nth in [1, 2] {
        harness.cloudflare.fault(list.clone(), nth, Fault::Old { writes: 1 });
    }
    let answer = external_dns.run_loop(&held).map(drop);
    assert_eq!(harness.service_at(A, "/"), "http://holder:80", "{answer:?}");
}
