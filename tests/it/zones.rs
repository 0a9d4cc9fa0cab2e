//! Zones that come later, go out of sight, or lie inside one in which hostnames were published before.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cloudflare_emulator::{Fault, Matcher, Plan, TokenStatus, Visit};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use serde_json::json;
use test_support::external_dns::{ExternalDns, TXT};
use test_support::hands::Hands;
use test_support::harness::{Program, Scene, TOKEN, endpoint, published};

use crate::town;
use crate::town::rest;

/// ExternalDNS's default interval.
const INTERVAL: Duration = Duration::from_secs(60);

/// The age at which the list of zones is read again.
const TEN_MINUTES: Duration = Duration::from_secs(600);

/// The zone inside `example.com`, and a hostname in it.
const INNER: &str = "dev.example.com";
const WEB: &str = "web.dev.example.com";

/// A program that runs by a clock of its own.
struct Stage {
    program: Program,
    scene: Scene,
    clock: Arc<Hands>,
}

impl Stage {
    fn new(scene: Scene) -> Self {
        Self::with(scene, &[])
    }

    fn with(scene: Scene, variables: &[(&'static str, &str)]) -> Self {
        let clock = Arc::new(Hands::default());
        let program = scene.start_by(Arc::clone(&clock) as _, variables);
        program.wait_until_ready();
        Self { program, scene, clock }
    }

    fn external_dns(&self) -> ExternalDns {
        self.program.external_dns()
    }

    /// A loop of ExternalDNS, an interval after the last one.
    fn run_loop(&self, desired: &[Endpoint]) -> Result<(), u16> {
        self.clock.put_ahead(INTERVAL);
        // So that no call is held back for those of loops long past.
        self.scene.cloudflare.advance_clock(INTERVAL);
        self.external_dns().run_loop(desired).map(drop)
    }

    fn rest(&self, desired: &[Endpoint]) {
        rest(self.external_dns(), &self.scene.cloudflare, desired).expect("it comes to rest");
    }

    /// Lets the list of zones grow old.
    fn wait_for_zones(&self) {
        self.clock.put_ahead(TEN_MINUTES);
    }

    fn set_status(&self, status: &str) {
        self.scene.cloudflare.edit(|cloudflare| {
            status.clone_into(&mut cloudflare.zone_mut(INNER).status);
        });
        self.wait_for_zones();
    }

    fn add_inner_zone(&self, status: &str) -> String {
        let inner = self.scene.cloudflare.add_zone(INNER, Plan::Pro);
        self.set_status(status);
        inner
    }

    /// Our records in a zone: name, what they lead to, and what their stamp claims.
    fn own(&self, zone: &str) -> Vec<(String, String, String)> {
        let records = self.scene.cloudflare.records(zone).into_iter();
        let mut own: Vec<_> = records
            .filter_map(|record| {
                let claims = town::stamp(&record)?.claims.to_string();
                Some((record.name, record.content, claims))
            })
            .collect();
        own.sort_unstable();
        own
    }

    fn service(&self, host: &str) -> String {
        service(self.scene.cloudflare.visit(host, "/"))
    }

    fn zone_lists(&self) -> usize {
        let calls = self.scene.cloudflare.take_calls();
        calls.iter().filter(|call| call.path.ends_with("/zones")).count()
    }
}

fn service(visit: Visit) -> String {
    match visit {
        Visit::Served { service, .. } => service,
        other => other.to_string(),
    }
}

fn path(name: &str, prefix: &str) -> Endpoint {
    endpoint(name, &[("tunnel-service", "http://web:80"), ("tunnel-path-prefix", prefix)])
}

fn web() -> [Endpoint; 1] {
    [published(WEB, "http://web:80")]
}

/// What the refusal tells the operator to do has to have an effect.
#[test]
fn a_hostname_without_a_zone_is_published_by_the_next_loop_after_its_zone_came() {
    for label in ["added to the account", "added to the token"] {
        let scene = Scene::new();
        let wanted = [published("shop.example.net", "http://shop:80")];
        if label == "added to the token" {
            scene.cloudflare.add_zone("example.net", Plan::Free);
            let seen = Some(vec![scene.zone.clone()]);
            scene.cloudflare.edit(|cloudflare| cloudflare.token_mut(TOKEN).zones = seen);
        }
        let stage = Stage::new(scene);
        for _ in 0..3 {
            stage.run_loop(&wanted).expect("refused by name");
        }
        assert_eq!(stage.scene.rules(), [""; 0], "{label}");
        if label == "added to the token" {
            stage.scene.cloudflare.edit(|cloudflare| cloudflare.token_mut(TOKEN).zones = None);
        } else {
            stage.scene.cloudflare.add_zone("example.net", Plan::Free);
        }
        for _ in 0..10 {
            stage.run_loop(&wanted).expect("answered");
        }
        assert_eq!(stage.service("shop.example.net"), "http://shop:80", "{label}");
    }
}

#[test]
fn the_list_of_zones_is_read_once_in_ten_minutes_whatever_the_loops_ask_for() {
    let stage = Stage::new(Scene::new());
    stage.scene.cloudflare.take_calls();
    for wanted in [vec![], vec![published("no.example.net", "http://no:80")]] {
        for _ in 0..120 {
            stage.run_loop(&wanted).expect("answered");
        }
        let lists = stage.zone_lists();
        assert!((11..=12).contains(&lists), "{lists} in two hours, asking for {wanted:?}");
    }
}

#[test]
fn a_list_of_zones_that_cannot_be_read_again_stops_no_loop_and_is_tried_a_minute_later() {
    for fault in [Fault::status(500), Fault::Hang, Fault::Garbage, Fault::error(403, 10000, "no")] {
        let stage = Stage::new(Scene::new());
        let wanted =
            [published("web.example.com", "http://web:80"), published("shop.example.net", "http://s:80")];
        stage.run_loop(&wanted).expect("published");
        stage.scene.cloudflare.add_zone("example.net", Plan::Free);
        stage.scene.cloudflare.fault_every(Matcher::call("GET", "/zones"), fault.clone());
        stage.wait_for_zones();
        stage.scene.cloudflare.take_calls();
        let said = stage.scene.log.lines_with(&["WARN", "the list of zones cannot be read again"]).len();
        stage.external_dns().run_loop(&wanted).expect("the old list stays in use");
        let tries = stage.zone_lists();
        assert!(tries > 0, "{fault:?}");
        stage.external_dns().run_loop(&wanted).expect("the old list stays in use");
        assert_eq!(stage.zone_lists(), 0, "{fault:?}: tried again at once");
        stage.run_loop(&wanted).expect("the old list stays in use");
        assert!(stage.zone_lists() > 0, "{fault:?}: not tried again");
        let said_now = stage.scene.log.lines_with(&["WARN", "the list of zones cannot be read again"]).len();
        assert_eq!(said_now, said + 1, "{fault:?}");
        assert_eq!(stage.service("web.example.com"), "http://web:80", "{fault:?}");

        stage.scene.cloudflare.clear_faults();
        stage.run_loop(&wanted).expect("published");
        assert_eq!(stage.service("shop.example.net"), "http://s:80", "{fault:?}");
    }
}

/// ExternalDNS takes what is missing for deleted, and asks for it again: nothing of that may be done.
#[test]
fn a_zone_that_goes_out_of_sight_keeps_its_hostnames_and_its_comeback_writes_nothing() {
    for label in ["a zone beside the others", "a zone inside another one"] {
        let scene = Scene::new();
        let (name, host) = match label {
            "a zone beside the others" => ("example.net", "shop.example.net"),
            _ => (INNER, WEB),
        };
        let hidden = scene.cloudflare.add_zone(name, Plan::Free);
        if name == INNER {
            let delegation = json!({"name": INNER, "type": "NS", "content": "alice.ns.cloudflare.com"});
            scene.cloudflare.add_record(&scene.zone, delegation).expect("Cloudflare takes it");
        }
        let stage = Stage::new(scene);
        let mut wanted =
            vec![published("web.example.com", "http://web:80"), published(host, "http://shop:80")];
        stage.rest(&wanted);
        let before = (stage.own(&stage.scene.zone), stage.own(&hidden), stage.scene.rules());

        let seen = Some(vec![stage.scene.zone.clone()]);
        stage.scene.cloudflare.edit(|cloudflare| cloudflare.token_mut(TOKEN).zones = seen);
        // The records of a zone that is in the list cannot be read: half a snapshot is none.
        assert_eq!(stage.run_loop(&wanted), Err(500), "{label}");
        stage.scene.cloudflare.take_calls();
        for _ in 0..3 {
            stage.run_loop(&wanted).expect("the others go on");
        }
        assert_eq!(stage.scene.cloudflare.count_calls().writes, 0, "{label}");
        wanted.push(published("new.example.com", "http://new:80"));
        stage.run_loop(&wanted).expect("the others go on");
        assert_eq!(stage.service("new.example.com"), "http://new:80", "{label}");
        wanted.pop();
        stage.run_loop(&wanted).expect("the others go on");
        assert_eq!(
            (stage.own(&stage.scene.zone), stage.own(&hidden), stage.scene.rules()),
            before,
            "{label}"
        );

        stage.scene.cloudflare.edit(|cloudflare| cloudflare.token_mut(TOKEN).zones = None);
        stage.wait_for_zones();
        stage.scene.cloudflare.take_calls();
        stage.rest(&wanted);
        assert_eq!(stage.scene.cloudflare.count_calls().writes, 0, "{label}");
        stage.rest(&wanted[..1]);
        assert_eq!(stage.own(&hidden), [], "{label}: it can be withdrawn again");
    }
}

/// Without `CF_ACCOUNT_ID` the account is the one that all zones share; the next start would have to be told which.
#[test]
fn a_zone_of_another_account_that_comes_later_does_not_end_readiness() {
    let stage = Stage::with(Scene::new(), &[("CF_ACCOUNT_ID", "")]);
    stage.scene.cloudflare.edit(|cloudflare| {
        let account = cloudflare.add_account("other");
        cloudflare.add_zone_to(&account, "example.net", Plan::Pro);
    });
    stage.wait_for_zones();
    let wanted = [published("web.example.com", "http://web:80")];
    stage.rest(&wanted);
    stage.scene.cloudflare.take_calls();
    // What makes the program look at the token and the tunnels again.
    stage.scene.cloudflare.fault(Matcher::list_records(), 1, Fault::error(403, 10000, "no"));
    assert_eq!(stage.run_loop(&wanted), Err(500));
    stage.scene.cloudflare.edit(|cloudflare| cloudflare.token_mut(TOKEN).status = TokenStatus::Active);
    stage.clock.put_ahead(INTERVAL);
    assert!(stage.scene.cloudflare.wait_for_calls(5, Duration::from_secs(10)), "the token and the tunnels");
    stage.rest(&wanted);
    assert!(stage.program.is_ready());
}

#[test]
fn a_hostname_moves_into_the_zone_that_was_made_inside_its_own() {
    let stage = Stage::new(Scene::new());
    let desired =
        [published(WEB, "http://web:80"), path(WEB, "/api"), published("web.example.com", "http://w:80")];
    stage.rest(&desired);
    let outer = stage.own(&stage.scene.zone);
    let inner = stage.add_inner_zone("active");
    stage.external_dns().run_loop(&desired).expect("moved in one loop");
    assert_eq!(stage.own(&inner), outer[..1], "with all it claims");
    assert_eq!(stage.own(&stage.scene.zone), outer[1..]);
    assert_eq!(stage.service(WEB), "http://web:80");
    stage.rest(&desired);
    stage.rest(&[]);
    assert_eq!((stage.own(&inner), stage.scene.rules().len()), (vec![], 1));
}

/// Name servers are changed by hand, and Cloudflare looks at them when it likes.
#[test]
fn until_the_new_zone_is_active_visitors_are_led_to_the_old_record_whatever_changes() {
    let scene = Scene::new();
    let office = scene.cloudflare.add_tunnel("office");
    let stage = Stage::with(scene, &[("CF_TUNNEL_ID", "home,office")]);
    let on = |tunnel: &str, service: &str| {
        let properties = [("tunnel", tunnel), ("tunnel-service", service), ("tunnel-path-prefix", "/api")];
        [endpoint(WEB, &properties[..2]), endpoint(WEB, &properties)]
    };
    stage.rest(&on("home", "http://web:80"));
    let inner = stage.add_inner_zone("pending");
    let lost = Arc::new(Mutex::new(Vec::new()));
    for nth in 1..=40 {
        let lost = Arc::clone(&lost);
        stage.scene.cloudflare.edit_after(Matcher::writes(), nth, move |cloudflare| {
            match service(cloudflare.visit(WEB, "/")).as_str() {
                "http://web:80" | "http://new:80" => {}
                other => lost.lock().unwrap().push(format!("{other} after write {nth}")),
            }
        });
    }
    for desired in [on("home", "http://web:80"), on("home", "http://new:80"), on("office", "http://new:80")] {
        stage.rest(&desired);
        assert_eq!(stage.own(&inner), stage.own(&stage.scene.zone), "one follows the other");
        assert_eq!(stage.own(&inner).len(), 1);
    }
    assert!(stage.own(&inner)[0].1.starts_with(&office));
    stage.rest(&on("office", "http://new:80")[..1]);
    assert_eq!(stage.own(&inner), stage.own(&stage.scene.zone), "a path was withdrawn from both");
    stage.set_status("active");
    stage.rest(&on("office", "http://new:80")[..1]);
    assert_eq!(*lost.lock().unwrap(), [""; 0]);
    assert_eq!((stage.own(&inner).len(), stage.own(&stage.scene.zone).len()), (1, 0));
    assert_eq!(stage.service(WEB), "http://new:80");
}

#[test]
fn a_hostname_with_records_in_two_zones_is_withdrawn_from_both() {
    for status in ["pending", "active"] {
        let stage = Stage::new(Scene::new());
        stage.rest(&web());
        let inner = stage.add_inner_zone("pending");
        stage.rest(&web());
        stage.set_status(status);
        stage.rest(&[]);
        assert_eq!((stage.own(&inner), stage.own(&stage.scene.zone)), (vec![], vec![]), "{status}");
        assert_eq!(stage.scene.rules().len(), 1, "{status}");
    }
}

/// The records of a zone come back with it, and rules of ours that only the other one's stamp names are ours.
#[test]
fn a_record_in_the_outer_zone_that_was_changed_by_hand_is_mended_and_its_claims_count() {
    let stage = Stage::new(Scene::new());
    let both = [published(WEB, "http://web:80"), path(WEB, "/api")];
    stage.rest(&both);
    let inner = stage.add_inner_zone("pending");
    stage.rest(&both);
    let outer = stage.own(&stage.scene.zone);
    let id = |zone: &str| stage.scene.cloudflare.records(zone)[0].id.clone();
    for (label, zone, fields) in [
        ("led elsewhere", &stage.scene.zone, json!({"content": "elsewhere.test"})),
        ("not proxied", &stage.scene.zone, json!({"proxied": false})),
        (
            "the outer one claims less",
            &stage.scene.zone,
            json!({"comment": "external-dns owner=default rules=-"}),
        ),
        ("the inner one claims less", &inner, json!({"comment": "external-dns owner=default rules=-"})),
    ] {
        let record = id(zone);
        stage
            .scene
            .cloudflare
            .edit(|cloudflare| cloudflare.patch_record(zone, &record, &fields))
            .expect("Cloudflare takes it");
        stage.rest(&both);
        assert_eq!(
            (stage.own(&inner), stage.own(&stage.scene.zone)),
            (outer.clone(), outer.clone()),
            "{label}"
        );
    }
    stage.rest(&[]);
    assert_eq!(stage.scene.rules().len(), 1, "all rules are withdrawn");
}

#[test]
fn foreign_records_of_the_name_in_either_zone_are_left_alone() {
    // In the zone around it: nothing of ours stands there, and visitors ask the inner one.
    let stage = Stage::new(Scene::new());
    let theirs = json!({"name": WEB, "type": "A", "content": "192.0.2.7"});
    stage.scene.cloudflare.add_record(&stage.scene.zone, theirs.clone()).expect("Cloudflare takes it");
    let inner = stage.add_inner_zone("active");
    let before = stage.scene.foreign_records();
    stage.rest(&web());
    assert_eq!(stage.own(&inner).len(), 1);
    stage.rest(&[]);
    assert_eq!(stage.scene.foreign_records(), before);

    // In the inner one: it is refused by name, the old record stays, and is withdrawn with its object.
    let stage = Stage::new(Scene::new());
    stage.rest(&web());
    let outer = stage.own(&stage.scene.zone);
    let inner = stage.add_inner_zone("active");
    stage.scene.cloudflare.add_record(&inner, theirs).expect("Cloudflare takes it");
    for _ in 0..2 {
        stage.run_loop(&web()).expect("refused by name");
    }
    assert_eq!(stage.own(&stage.scene.zone), outer);
    stage.rest(&[]);
    assert_eq!((stage.own(&stage.scene.zone), stage.scene.cloudflare.records(&inner).len()), (vec![], 1));
}

/// Our record answers nobody any more, and nobody may write where it belongs.
#[test]
fn a_hostname_of_an_inner_zone_that_is_not_served_is_refused_by_name_and_can_be_withdrawn() {
    for label in ["filter", "account", "out of sight"] {
        let scene = Scene::new();
        let filter = if label == "filter" { scene.zone.clone() } else { String::new() };
        let stage = Stage::with(scene, &[("ZONE_ID_FILTER", &filter)]);
        let host = format!("{}.dev.example.com", label.replace(' ', "-"));
        let desired = [published(&host, "http://web:80"), published("web.example.com", "http://web:80")];
        stage.rest(&desired);
        let before = stage.own(&stage.scene.zone);
        stage.scene.cloudflare.edit(|cloudflare| match label {
            "account" => {
                let account = cloudflare.add_account("other");
                cloudflare.add_zone_to(&account, INNER, Plan::Free);
            }
            "filter" => {
                cloudflare.add_zone(INNER, Plan::Free);
            }
            _ => {
                let delegation = json!({"name": INNER, "type": "NS", "content": "alice.ns.cloudflare.com"});
                cloudflare.add_record("example.com", delegation).expect("Cloudflare takes it");
            }
        });
        stage.wait_for_zones();
        stage.scene.cloudflare.take_calls();
        for _ in 0..3 {
            stage.run_loop(&desired).expect("refused by name");
        }
        assert_eq!(stage.scene.cloudflare.count_calls().writes, 0, "{label}");
        assert_eq!(stage.own(&stage.scene.zone), before, "{label}");
        assert_eq!(stage.scene.log.lines_with(&[&host, "refused=no_zone"]).len(), 1, "{label}");
        stage.rest(&desired[1..]);
        assert_eq!(stage.own(&stage.scene.zone).len(), 1, "{label}");
        assert_eq!(stage.scene.rules().len(), 2, "{label}");
    }
}

#[test]
fn a_zone_around_the_one_that_is_served_hides_nothing_of_it() {
    let scene = Scene::new();
    let inner = scene.cloudflare.add_zone(INNER, Plan::Free);
    let stage = Stage::with(scene, &[("ZONE_ID_FILTER", &inner)]);
    stage.rest(&web());
    assert_eq!(stage.own(&inner).len(), 1);
}

/// It has room for fewer digests. What is withdrawn goes all the same.
#[test]
fn a_hostname_whose_stamp_has_no_room_in_the_new_zone_stays_and_can_be_withdrawn() {
    let stage = Stage::new(Scene::new());
    let paths: Vec<Endpoint> = (0..24).map(|number| path(WEB, &format!("/{number}"))).collect();
    stage.rest(&paths);
    let outer = stage.own(&stage.scene.zone);
    let inner = stage.scene.cloudflare.add_zone(INNER, Plan::Free);
    stage.set_status("active");
    for _ in 0..2 {
        stage.run_loop(&paths).expect("refused by name");
    }
    assert_eq!((stage.own(&stage.scene.zone), stage.own(&inner)), (outer, vec![]));
    assert_eq!(stage.scene.rules().len(), 25);
    stage.run_loop(&paths[..23]).expect("one is withdrawn");
    assert_eq!(stage.scene.rules().len(), 24);
    stage.rest(&paths[..4]);
    assert_eq!((stage.own(&stage.scene.zone).len(), stage.own(&inner).len()), (0, 1));
    assert_eq!(stage.scene.rules().len(), 5);
}

/// They are found by what they are about, in whichever zone, and nobody resolves them.
#[test]
fn stored_txt_records_stay_with_their_hostname_when_it_moves_into_a_new_zone() {
    let stage = Stage::with(Scene::new(), &[("OWNERSHIP", "txt")]);
    let external_dns = stage.external_dns().with_registry(TXT);
    let rest = |desired: &[Endpoint]| rest(external_dns, &stage.scene.cloudflare, desired).expect("at rest");
    let txts = || {
        let zones = stage
            .scene
            .cloudflare
            .edit(|cloudflare| cloudflare.zones().iter().map(|zone| zone.id.clone()).collect::<Vec<_>>());
        let records = zones.iter().flat_map(|zone| stage.scene.cloudflare.records(zone));
        records.filter(|record| record.kind == "TXT").map(|record| record.name).collect::<Vec<_>>()
    };
    let apex = published(INNER, "http://web:80");
    rest(&[web()[0].clone(), apex.clone()]);
    assert_eq!(txts().len(), 2);
    for status in ["pending", "active"] {
        if status == "pending" {
            stage.add_inner_zone(status);
        } else {
            stage.set_status(status);
        }
        rest(&[web()[0].clone(), apex.clone()]);
        assert_eq!(txts().len(), 2, "{status}");
    }
    rest(&[apex]);
    assert_eq!(txts(), ["cname-dev.example.com"]);
    rest(&[]);
    assert_eq!(txts(), [""; 0]);
}

/// Copies of our record, made by hand with its comment in two parts: what either of them claims is ours.
#[test]
fn every_record_of_a_hostname_that_has_our_stamp_counts() {
    let stage = Stage::new(Scene::new());
    let both = [published("web.example.com", "http://web:80"), path("web.example.com", "/api")];
    stage.rest(&both);
    let comment = |claims: &str| format!("external-dns owner=default rules={claims}");
    let (_, _, claims) = stage.own(&stage.scene.zone)[0].clone();
    let (first, second) = claims.split_at(3);
    stage.scene.cloudflare.edit(|cloudflare| {
        let id = cloudflare.records("example.com")[0].id.clone();
        cloudflare.delete_record("example.com", &id).expect("it is there");
        for (content, claims) in [("192.0.2.1", first), ("192.0.2.2", second)] {
            let record =
                json!({"name": "web.example.com", "type": "A", "content": content, "comment": comment(claims)});
            cloudflare.add_record("example.com", record).expect("Cloudflare takes it");
        }
    });
    stage.rest(&[]);
    assert_eq!(stage.own(&stage.scene.zone), []);
    assert_eq!(stage.scene.rules().len(), 1, "no rule is left behind");
}

/// A tunnel of the account that is not configured here is another instance's while it lives.
#[test]
fn whether_a_foreign_tunnel_lives_is_asked_again_after_ten_minutes() {
    let scene = Scene::new();
    let other = scene.cloudflare.add_tunnel("other");
    let record = json!({
        "name": "theirs.example.com", "type": "CNAME", "content": format!("{other}.cfargotunnel.com"),
        "proxied": true, "comment": "external-dns owner=default rules=-",
    });
    scene.cloudflare.add_record(&scene.zone, record).expect("Cloudflare takes it");
    let stage = Stage::new(scene);
    stage.scene.cloudflare.take_calls();
    for _ in 0..30 {
        stage.run_loop(&[]).expect("answered");
    }
    let calls = stage.scene.cloudflare.take_calls();
    let asked = calls.iter().filter(|call| call.path.ends_with(&other)).count();
    assert!((3..=4).contains(&asked), "{asked} times in half an hour");
    assert_eq!(stage.own(&stage.scene.zone).len(), 1);
    stage.scene.cloudflare.edit(|cloudflare| cloudflare.tunnel_mut("other").deleted = true);
    for _ in 0..11 {
        stage.run_loop(&[]).expect("answered");
    }
    assert_eq!(stage.own(&stage.scene.zone), [], "what a deleted tunnel leaves behind is ours to withdraw");
}
