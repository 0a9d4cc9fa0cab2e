//! What is written takes its time to the edge, and visitors are watched all along.

use std::time::Duration;

use cloudflare_emulator::{Emulator, Fault, Matcher, Watched};
use serde_json::json;

use crate::client::{call, free_zone, read};

const URL: &str = "https://www.example.com/shop";

/// A clock that stands, and `www` through the tunnel `shop` to `http://old`.
fn published() -> Emulator {
    let (emulator, _) = free_zone();
    emulator.stop_clock();
    let shop = emulator.add_tunnel("shop");
    emulator.add_tunnel("office");
    let record = json!({"type": "CNAME", "name": "www", "content": format!("{shop}.cfargotunnel.com"), "proxied": true});
    emulator.add_record("example.com", record).unwrap();
    serve(&emulator, "shop", "http://old");
    emulator
}

fn serve(emulator: &Emulator, tunnel: &str, service: &str) {
    let rules = json!({"ingress": [{"hostname": "www.example.com", "service": service}, {"service": "http_status:404"}]});
    emulator.put_configuration(tunnel, &rules.to_string()).unwrap();
}

fn lead_to(emulator: &Emulator, tunnel: &str) {
    emulator.edit(|cloudflare| {
        let target = cloudflare.tunnel(tunnel).hostname();
        let id = cloudflare.records("example.com").first().unwrap().id.clone();
        cloudflare.patch_record("example.com", &id, &json!({"content": target})).unwrap();
    });
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Since when, in milliseconds from the first on, a visitor of one address got which services.
fn services(watched: &[Watched]) -> Vec<(u128, String)> {
    let [watched] = watched else { panic!("one address in {watched:?}") };
    let begun = watched.changes.first().unwrap().from;
    let shown = |visit: &cloudflare_emulator::Visit| visit.to_string().split(' ').next().unwrap().to_owned();
    let changes = watched.changes.iter().map(|change| {
        let got: Vec<String> = change.got.iter().map(shown).collect();
        ((change.from - begun).as_millis(), got.join(" "))
    });
    changes.collect()
}

fn expected(changes: &[(u128, &str)]) -> Vec<(u128, String)> {
    changes.iter().map(|(from, got)| (*from, (*got).to_owned())).collect()
}

#[test]
fn a_configuration_takes_its_time_to_each_connector_and_the_list_of_connections_tells_whose() {
    let emulator = published();
    let (tunnel, account) = emulator.edit(|cloudflare| {
        cloudflare.tunnel_mut("shop").connectors = 3;
        (cloudflare.tunnel("shop").id.clone(), cloudflare.accounts().first().unwrap().id.clone())
    });
    emulator.delay_configurations("shop", &[ms(100), ms(300)]);
    let versions = || -> Vec<i64> {
        let connectors =
            read(&emulator, &format!("/accounts/{account}/cfd_tunnel/{tunnel}/connections")).result();
        connectors.as_array().unwrap().iter().map(|one| one["config_version"].as_i64().unwrap()).collect()
    };
    emulator.watch(&[URL]);
    serve(&emulator, "shop", "http://new");
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(versions());
        emulator.advance_clock(ms(100));
    }
    assert_eq!(seen, [[1, 1, 1], [2, 1, 1], [2, 1, 1], [2, 2, 2]]);
    // Which connector a visitor meets is not known.
    let changes = [(0, "http://old"), (100, "http://new http://old"), (300, "http://new")];
    assert_eq!(services(&emulator.watched()), expected(&changes));
    assert_eq!(emulator.watched().first().unwrap().lost(), Vec::<&_>::new(), "the one or the other");
}

#[test]
fn nothing_overtakes_what_was_written_before_it_to_the_same_place() {
    let emulator = published();
    emulator.watch(&[URL]);
    emulator.delay_configurations("shop", &[ms(300)]);
    serve(&emulator, "shop", "http://first");
    emulator.delay_configurations("shop", &[ms(0)]);
    serve(&emulator, "shop", "http://second");
    emulator.advance_clock(ms(1000));
    let changes = [(0, "http://old"), (300, "http://first"), (300, "http://second")];
    assert_eq!(services(&emulator.watched()), expected(&changes));
}

/// A move without a pause between its writes: what is lost is the difference of the two ways.
#[test]
fn a_visit_is_lost_where_records_and_configurations_do_not_arrive_together() {
    for (configurations, records, lost) in
        [(0, 0, 0), (300, 0, 300), (0, 300, 300), (300, 300, 0), (300, 100, 200)]
    {
        let emulator = published();
        for tunnel in ["shop", "office"] {
            emulator.delay_configurations(tunnel, &[ms(configurations)]);
        }
        emulator.delay_records(ms(records));
        emulator.watch(&[URL]);
        serve(&emulator, "office", "http://old");
        lead_to(&emulator, "office");
        emulator.put_configuration("shop", r#"{"ingress": [{"service": "http_status:404"}]}"#).unwrap();
        emulator.advance_clock(ms(10_000));
        let watched = emulator.watched();
        assert_eq!(
            watched.first().unwrap().lost_time(),
            ms(lost),
            "{configurations} {records}: {}",
            watched[0]
        );
        assert_eq!(watched[0].lost().is_empty(), lost == 0, "{}", watched[0]);
    }
}

/// Instants that follow each other without any time in between are instants.
#[test]
fn a_visit_that_is_lost_for_no_time_at_all_is_lost() {
    let emulator = published();
    emulator.watch(&[URL, "https://www.example.com"]);
    serve(&emulator, "shop", "http_status:404");
    serve(&emulator, "shop", "http://new");
    for watched in emulator.watched() {
        assert_eq!((watched.lost().len(), watched.lost_time()), (1, ms(0)), "{watched}");
    }
}

#[test]
fn a_visit_that_is_not_served_at_first_or_in_the_end_is_not_lost() {
    let emulator = published();
    emulator.watch(&[URL, "https://none.example.com/"]);
    serve(&emulator, "shop", "http://new");
    emulator.edit(|cloudflare| cloudflare.tunnel_mut("shop").connectors = 0);
    let watched = emulator.watched();
    assert!(watched.iter().all(|watched| watched.lost().is_empty()), "{watched:?}");
    emulator.edit(|cloudflare| cloudflare.tunnel_mut("shop").connectors = 1);
    assert_eq!(emulator.watched().first().unwrap().lost().len(), 1, "back again");
}

#[test]
fn with_a_stopped_clock_a_delayed_answer_lets_the_time_pass_and_takes_no_real_time() {
    let emulator = published();
    let (zone, tunnel, account) = emulator.edit(|cloudflare| {
        let zone = cloudflare.zone("example.com").id.clone();
        (zone, cloudflare.tunnel("shop").id.clone(), cloudflare.accounts().first().unwrap().id.clone())
    });
    let hour = Duration::from_secs(3600);
    emulator.fault(Matcher::put_configuration(), 1, Fault::Delay(hour));
    emulator.watch(&[URL]);
    let time = emulator.time();
    let begun = time.now();
    let body = r#"{"config": {"ingress": [{"service": "http://new"}]}}"#;
    let written =
        call(&emulator, "PUT", &format!("/accounts/{account}/cfd_tunnel/{tunnel}/configurations"), body);
    assert_eq!((written.status, time.now() - begun), (200, hour));
    assert_eq!(
        services(&emulator.watched()),
        expected(&[(0, "http://old"), (0, "http://new")]),
        "done, then answered"
    );

    // From the second write on, for a time.
    emulator.fault_for(Matcher::writes(), 2, ms(4000), Fault::status(503));
    let post = |name: &str| {
        let batch = json!({"posts": [{"type": "A", "name": name, "content": "192.0.2.1"}]}).to_string();
        call(&emulator, "POST", &format!("/zones/{zone}/dns_records/batch"), &batch).status
    };
    let mut statuses = vec![post("a"), post("b")];
    time.advance(ms(3999));
    statuses.push(post("b"));
    time.advance(ms(1));
    statuses.push(post("b"));
    assert_eq!(statuses, [200, 503, 503, 200]);
}
