//! A zone inside another one, in which its hostnames were published before.

use super::*;

#[test]
fn a_hostname_moves_into_the_zone_that_was_made_inside_its_own() {
    let fixture = Fixture::new(Harness::new());
    let desired =
        [published(WEB, "http://web:80"), path(WEB, "/api"), published("web.example.com", "http://w:80")];
    fixture.settle(&desired);
    let outer = fixture.own(&fixture.harness.zone);
    let inner = fixture.add_inner_zone("active");
    fixture.external_dns().run_loop(&desired).expect("moved in one loop");
    assert_eq!(fixture.own(&inner), outer[..1], "with all it claims");
    assert_eq!(fixture.own(&fixture.harness.zone), outer[1..]);
    assert_eq!(fixture.service(WEB), "http://web:80");
    fixture.settle(&desired);
    fixture.settle(&[]);
    assert_eq!((fixture.own(&inner), fixture.harness.rules().len()), (vec![], 1));
}

/// Name servers are changed by hand, and Cloudflare looks at them when it likes.
#[test]
fn until_the_new_zone_is_active_visitors_are_led_to_the_old_record_whatever_changes() {
    let harness = Harness::new();
    let office = harness.cloudflare.add_tunnel("office");
    let fixture = Fixture::with(harness, &[("CF_TUNNEL_ID", "home,office")]);
    let on = |tunnel: &str, service: &str| {
        let properties = [("tunnel", tunnel), ("tunnel-service", service), ("tunnel-path-prefix", "/api")];
        [endpoint(WEB, &properties[..2]), endpoint(WEB, &properties)]
    };
    fixture.settle(&on("home", "http://web:80"));
    let inner = fixture.add_inner_zone("pending");
    let lost = Arc::new(Mutex::new(Vec::new()));
    for nth in 1..=40 {
        let lost = Arc::clone(&lost);
        fixture.harness.cloudflare.edit_after(Matcher::writes(), nth, move |cloudflare| {
            match service(cloudflare.visit(WEB, "/")).as_str() {
                "http://web:80" | "http://new:80" => {}
                other => lost.lock().unwrap().push(format!("{other} after write {nth}")),
            }
        });
    }
    for desired in [on("home", "http://web:80"), on("home", "http://new:80"), on("office", "http://new:80")] {
        fixture.settle(&desired);
        assert_eq!(fixture.own(&inner), fixture.own(&fixture.harness.zone), "one follows the other");
        assert_eq!(fixture.own(&inner).len(), 1);
    }
    assert!(fixture.own(&inner)[0].1.starts_with(&office));
    fixture.settle(&on("office", "http://new:80")[..1]);
    assert_eq!(fixture.own(&inner), fixture.own(&fixture.harness.zone), "a path was withdrawn from both");
    fixture.set_status("active");
    fixture.settle(&on("office", "http://new:80")[..1]);
    assert_eq!(*lost.lock().unwrap(), [""; 0]);
    assert_eq!((fixture.own(&inner).len(), fixture.own(&fixture.harness.zone).len()), (1, 0));
    assert_eq!(fixture.service(WEB), "http://new:80");
}

#[test]
fn a_hostname_with_records_in_two_zones_is_withdrawn_from_both() {
    for status in ["pending", "active"] {
        let fixture = Fixture::new(Harness::new());
        fixture.settle(&web());
        let inner = fixture.add_inner_zone("pending");
        fixture.settle(&web());
        fixture.set_status(status);
        fixture.settle(&[]);
        assert_eq!((fixture.own(&inner), fixture.own(&fixture.harness.zone)), (vec![], vec![]), "{status}");
        assert_eq!(fixture.harness.rules().len(), 1, "{status}");
    }
}

/// The records of a zone come back with it, and rules of ours that only the other one's stamp names are ours.
#[test]
fn a_record_in_the_outer_zone_that_was_changed_by_hand_is_mended_and_its_claims_count() {
    let fixture = Fixture::new(Harness::new());
    let both = [published(WEB, "http://web:80"), path(WEB, "/api")];
    fixture.settle(&both);
    let inner = fixture.add_inner_zone("pending");
    fixture.settle(&both);
    let outer = fixture.own(&fixture.harness.zone);
    let id = |zone: &str| fixture.harness.cloudflare.records(zone)[0].id.clone();
    for (label, zone, fields) in [
        ("led elsewhere", &fixture.harness.zone, json!({"content": "elsewhere.test"})),
        ("not proxied", &fixture.harness.zone, json!({"proxied": false})),
        (
            "the outer one claims less",
            &fixture.harness.zone,
            json!({"comment": "external-dns owner=default rules=-"}),
        ),
        ("the inner one claims less", &inner, json!({"comment": "external-dns owner=default rules=-"})),
    ] {
        let record = id(zone);
        fixture
            .harness
            .cloudflare
            .edit(|cloudflare| cloudflare.patch_record(zone, &record, &fields))
            .expect("Cloudflare takes it");
        fixture.settle(&both);
        assert_eq!(
            (fixture.own(&inner), fixture.own(&fixture.harness.zone)),
            (outer.clone(), outer.clone()),
            "{label}"
        );
    }
    fixture.settle(&[]);
    assert_eq!(fixture.harness.rules().len(), 1, "all rules are withdrawn");
}

#[test]
fn foreign_records_of_the_name_in_either_zone_are_left_alone() {
    // In the zone around it: nothing of ours stands there, and visitors ask the inner one.
    let fixture = Fixture::new(Harness::new());
    let theirs = json!({"name": WEB, "type": "A", "content": "192.0.2.7"});
    fixture
        .harness
        .cloudflare
        .add_record(&fixture.harness.zone, theirs.clone())
        .expect("Cloudflare takes it");
    let inner = fixture.add_inner_zone("active");
    let before = fixture.harness.foreign_records();
    fixture.settle(&web());
    assert_eq!(fixture.own(&inner).len(), 1);
    fixture.settle(&[]);
    assert_eq!(fixture.harness.foreign_records(), before);

    // In the inner one: it is refused by name, the old record stays, and is withdrawn with its object.
    let fixture = Fixture::new(Harness::new());
    fixture.settle(&web());
    let outer = fixture.own(&fixture.harness.zone);
    let inner = fixture.add_inner_zone("active");
    fixture.harness.cloudflare.add_record(&inner, theirs).expect("Cloudflare takes it");
    for _ in 0..2 {
        fixture.run_loop(&web()).expect("refused by name");
    }
    assert_eq!(fixture.own(&fixture.harness.zone), outer);
    fixture.settle(&[]);
    assert_eq!(
        (fixture.own(&fixture.harness.zone), fixture.harness.cloudflare.records(&inner).len()),
        (vec![], 1)
    );
}

/// Our record answers nobody any more, and nobody may write where it belongs.
#[test]
fn a_hostname_of_an_inner_zone_that_is_not_served_is_refused_by_name_and_can_be_withdrawn() {
    for label in ["filter", "account", "out of sight"] {
        let harness = Harness::new();
        let filter = if label == "filter" { harness.zone.clone() } else { String::new() };
        let fixture = Fixture::with(harness, &[("ZONE_ID_FILTER", &filter)]);
        let host = format!("{}.dev.example.com", label.replace(' ', "-"));
        let desired = [published(&host, "http://web:80"), published("web.example.com", "http://web:80")];
        fixture.settle(&desired);
        let before = fixture.own(&fixture.harness.zone);
        fixture.harness.cloudflare.edit(|cloudflare| match label {
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
        fixture.wait_for_zones();
        fixture.harness.cloudflare.take_calls();
        for _ in 0..3 {
            fixture.run_loop(&desired).expect("refused by name");
        }
        assert_eq!(fixture.harness.cloudflare.count_calls().writes, 0, "{label}");
        assert_eq!(fixture.own(&fixture.harness.zone), before, "{label}");
        assert_eq!(fixture.harness.log.lines_with(&[&host, "refused=no_zone"]).len(), 1, "{label}");
        fixture.settle(&desired[1..]);
        assert_eq!(fixture.own(&fixture.harness.zone).len(), 1, "{label}");
        assert_eq!(fixture.harness.rules().len(), 2, "{label}");
    }
}

#[test]
fn a_zone_around_the_one_that_is_served_hides_nothing_of_it() {
    let harness = Harness::new();
    let inner = harness.cloudflare.add_zone(INNER, Plan::Free);
    let fixture = Fixture::with(harness, &[("ZONE_ID_FILTER", &inner)]);
    fixture.settle(&web());
    assert_eq!(fixture.own(&inner).len(), 1);
}

/// It has room for fewer digests. What is withdrawn goes all the same.
#[test]
fn a_hostname_whose_stamp_has_no_room_in_the_new_zone_stays_and_can_be_withdrawn() {
    let fixture = Fixture::new(Harness::new());
    let paths: Vec<Endpoint> = (0..24).map(|number| path(WEB, &format!("/{number}"))).collect();
    fixture.settle(&paths);
    let outer = fixture.own(&fixture.harness.zone);
    let inner = fixture.harness.cloudflare.add_zone(INNER, Plan::Free);
    fixture.set_status("active");
    for _ in 0..2 {
        fixture.run_loop(&paths).expect("refused by name");
    }
    assert_eq!((fixture.own(&fixture.harness.zone), fixture.own(&inner)), (outer, vec![]));
    assert_eq!(fixture.harness.rules().len(), 25);
    fixture.run_loop(&paths[..23]).expect("one is withdrawn");
    assert_eq!(fixture.harness.rules().len(), 24);
    fixture.settle(&paths[..4]);
    assert_eq!((fixture.own(&fixture.harness.zone).len(), fixture.own(&inner).len()), (0, 1));
    assert_eq!(fixture.harness.rules().len(), 5);
}
