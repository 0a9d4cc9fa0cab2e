use super::*;
use crate::fixture;
use crate::model::{AccountId, Record, RecordId, ZoneId, ZonePlan};

const TARGET: &str = "f70ff985-a4ef-4643-bbbc-4a0ed4fc8415.cfargotunnel.com";

fn zone(name: &str, records: Vec<Record>) -> ZoneSnapshot {
    let zone = Zone {
        id: ZoneId::new(name),
        name: name.into(),
        account: AccountId::new("a1"),
        plan: ZonePlan::Free,
        status: "active".into(),
        paused: false,
    };
    ZoneSnapshot::new(zone, records)
}

fn record(name: &str, kind: &str, content: &str, comment: &str) -> Record {
    Record {
        id: RecordId::new(format!("{name} {kind}")),
        name: name.into(),
        record_type: kind.to_owned().into(),
        content: content.into(),
        proxied: true,
        ttl: 1,
        comment: comment.into(),
        read_only: false,
        created_unix_seconds: None,
        modified: None,
    }
}

/// A record created between two page reads pushes the last one of the first page onto the second.
#[test]
fn a_record_on_two_pages_is_one_record() {
    let [a, b, c] = ["a", "b", "c"].map(|name| record(&format!("{name}.example.com"), "A", "192.0.2.1", ""));
    let later = Record { comment: "of the second page".into(), ..b.clone() };
    let zone = zone("example.com", vec![c.clone(), b.clone(), later, a.clone()]);
    assert_eq!(zone.records(), [a, b, c]);
}

#[test]
fn a_name_is_in_the_innermost_zone_and_in_none_if_that_is_not_served() {
    for (served, elsewhere, expected) in [
        (&["example.com"][..], &[][..], Some("example.com")),
        (&["example.com", "shop.example.com"], &[], Some("shop.example.com")),
        (&["shop.example.com", "example.com"], &[], Some("shop.example.com")),
        (&["example.com"], &["shop.example.com"], None),
        (&["example.com"], &["other.example.com"], Some("example.com")),
        // An outer zone that is not served takes nothing from an inner one that is.
        (&["shop.example.com"], &["example.com"], Some("shop.example.com")),
        (&["other.test"], &[], None),
        // Another account has the same zone, and the registrar delegates to only one of the two.
        (&["shop.example.com"], &["shop.example.com"], Some("shop.example.com")),
    ] {
        let snapshot = Snapshot::new(Reading {
            zones: served.iter().map(|name| zone(name, Vec::new())).collect(),
            excluded_zones: elsewhere.iter().map(|name| zone(name, Vec::new()).zone).collect(),
            ..fixture::reading()
        });
        let found = snapshot.zone_of("a.shop.example.com").map(|zone| &*zone.zone.name);
        assert_eq!(found, expected, "{served:?} without {elsewhere:?}");
    }
}

/// Resolvers ask the outer zone until the inner one is active.
#[test]
fn a_pending_zone_takes_no_name_from_an_active_one_whichever_of_the_two_is_served() {
    let (inner, outer) = ("shop.example.com", "example.com");
    for (served, elsewhere, is_home) in [
        ((outer, "active"), (inner, "pending"), true),
        ((outer, "active"), (inner, "active"), false),
        ((outer, "pending"), (inner, "pending"), false),
        ((inner, "pending"), (outer, "active"), false),
        ((inner, "pending"), (outer, "pending"), true),
    ] {
        let of_status = |(name, status): (&str, &str)| {
            let mut zone = zone(name, Vec::new());
            zone.zone.status = status.into();
            zone
        };
        let snapshot = Snapshot::new(Reading {
            zones: vec![of_status(served)],
            excluded_zones: vec![of_status(elsewhere).zone],
            ..fixture::reading()
        });
        assert_eq!(snapshot.zone_of("a.shop.example.com").is_some(), is_home, "{served:?} {elsewhere:?}");
    }
}

#[test]
fn of_two_zones_of_one_name_the_active_one_has_its_names_whatever_their_ids() {
    for ids in [["1", "2"], ["2", "1"]] {
        let [mut active, mut moved] = [zone("example.com", Vec::new()), zone("example.com", Vec::new())];
        (active.zone.id, moved.zone.id) = (ZoneId::new(ids[0]), ZoneId::new(ids[1]));
        moved.zone.status = "moved".into();
        for zones in [vec![active.clone(), moved.clone()], vec![moved, active]] {
            let snapshot = Snapshot::new(Reading { zones, ..fixture::reading() });
            let found = snapshot.zone_of("shop.example.com").map(|zone| zone.zone.id.as_str());
            assert_eq!(found, Some(ids[0]));
        }
    }
}

/// Cloudflare writes some records itself, for R2 or a load balancer, and lets no client change them.
#[test]
fn a_record_that_no_client_can_write_is_never_ours() {
    let snapshot = Snapshot::new(fixture::reading());
    let ours = record("a.example.com", "CNAME", TARGET, "external-dns owner=default rules=-");
    assert!(snapshot.own_stamp(&ours).is_some());
    let fixed = Record { read_only: true, ..ours };
    assert_eq!(snapshot.own_stamp(&fixed), None);
}
