use std::time::Duration;

use cloudflare_emulator::{Emulator, Plan, Refusal};
use serde_json::{Value, json};

use crate::client::{Answer, call, free_zone, read};

const TARGET: &str = "c1744f8b-faa1-48a4-9e5c-02ac921467fa.cfargotunnel.com";

/// A batch of one record.
fn post(emulator: &Emulator, zone: &str, record: &Value) -> Answer {
    batch(emulator, zone, &json!({"posts": [record]}))
}

fn batch(emulator: &Emulator, zone: &str, body: &Value) -> Answer {
    call(emulator, "POST", &format!("/zones/{zone}/dns_records/batch"), &body.to_string())
}

#[test]
fn a_record_is_answered_in_its_normal_form() {
    let (emulator, zone) = free_zone();
    for (sent, field, expected) in [
        (json!({"type": "CNAME", "name": "WWW", "content": TARGET}), "name", json!("www.example.com")),
        (
            json!({"type": "CNAME", "name": "a.Example.com.", "content": TARGET}),
            "name",
            json!("a.example.com"),
        ),
        (
            json!({"type": "CNAME", "name": "bücher", "content": TARGET}),
            "name",
            json!("xn--bcher-kva.example.com"),
        ),
        (json!({"type": "TXT", "name": "@", "content": "x"}), "name", json!("example.com")),
        (json!({"type": "CNAME", "name": "*.w", "content": "x.test."}), "content", json!("x.test")),
        (json!({"type": "AAAA", "name": "v6", "content": "fe80::0:0:1"}), "content", json!("fe80::1")),
        (
            json!({"type": "CNAME", "name": "b", "content": TARGET, "ttl": 300, "proxied": true}),
            "ttl",
            json!(1),
        ),
        (json!({"type": "CNAME", "name": "c", "content": TARGET, "ttl": 300}), "ttl", json!(300)),
        (json!({"type": "TXT", "name": "t", "content": "\"a\""}), "content", json!("\"a\"")),
        (json!({"type": "TXT", "name": "t", "content": "unquoted"}), "content", json!("unquoted")),
        (json!({"type": "A", "name": "d", "content": "192.0.2.1", "comment": ""}), "comment", Value::Null),
        (json!({"type": "MX", "name": "@", "content": "mx.test", "priority": 5}), "priority", json!(5)),
    ] {
        assert_eq!(post(&emulator, &zone, &sent).result()["posts"][0][field], expected, "{sent}");
    }
}

/// The description says of each time what it is of, and not whether a change of the comment alone changes both.
#[test]
fn a_change_of_the_comment_alone_changes_its_own_time_and_perhaps_that_of_the_record() {
    for has_its_own_time in [false, true] {
        let (emulator, zone) = free_zone();
        emulator.edit(|all| all.whims_mut().comments_have_their_own_time = has_its_own_time);
        let record = json!({"type": "CNAME", "name": "a", "content": TARGET, "comment": "one"});
        let made = post(&emulator, &zone, &record).result()["posts"][0].clone();
        let changed = |field: &str, value: &str| {
            emulator.advance_clock(Duration::from_secs(60));
            let patch = json!({"id": made["id"], field: value});
            let patched =
                batch(&emulator, &zone, &json!({"patches": [patch]})).result()["patches"][0].clone();
            ["modified_on", "comment_modified_on"].map(|time| patched[time].as_str().map(str::to_owned))
        };
        let times = ["modified_on", "comment_modified_on"].map(|time| made[time].as_str().map(str::to_owned));
        let commented = changed("comment", "two");
        assert_eq!((commented[0] == times[0], commented[1] == times[1]), (has_its_own_time, false));
        let led = changed("content", "elsewhere.test");
        assert_eq!((led[0] == commented[0], led[1] == commented[1]), (false, true));
    }
}

#[test]
fn what_cloudflare_refuses_is_refused_with_its_code() {
    let (emulator, zone) = free_zone();
    let paid = emulator.add_zone("paid.test", Plan::Pro);
    for (name, kind, content) in [
        ("address", "A", "192.0.2.1"),
        ("alias", "CNAME", "x.test"),
        ("sub", "NS", "ns.test"),
        ("text", "TXT", "x"),
    ] {
        for zone in [&zone, &paid] {
            emulator.add_record(zone, json!({"type": kind, "name": name, "content": content})).unwrap();
        }
    }
    let long = |length: usize| "ü".repeat(length);
    let record =
        |name: &str, kind: &str, content: &str| json!({"type": kind, "name": name, "content": content});
    let with = |mut record: Value, field: &str, value: Value| {
        record[field] = value;
        record
    };
    let alias = record("n", "CNAME", TARGET);
    for (zone, sent, code) in [
        (&zone, record("address", "CNAME", TARGET), 81053),
        (&zone, record("alias", "CNAME", TARGET), 81053),
        (&zone, record("alias", "A", "192.0.2.2"), 81054),
        (&zone, record("sub", "CNAME", TARGET), 81056),
        (&zone, record("sub", "TXT", "x"), 81056),
        (&zone, record("alias", "CNAME", "X.test"), 81058),
        (&zone, record("address", "A", "192.0.2.1"), 81058),
        (&zone, with(record("private", "A", "10.0.0.1"), "proxied", json!(true)), 9041),
        (&zone, with(record("text", "TXT", "y"), "proxied", json!(true)), 9041),
        (&zone, with(alias.clone(), "ttl", json!(59)), 9021),
        (&zone, with(alias.clone(), "ttl", json!(86401)), 9021),
        (&zone, with(alias.clone(), "comment", json!(long(101))), 9313),
        (&paid, with(alias.clone(), "comment", json!(long(501))), 9313),
        (&zone, with(alias, "comment", json!("a\nb")), 9314),
        (&zone, json!({"type": "MX", "name": "n", "content": "mx.test"}), 9020),
        (&zone, record("example.com", "NS", "ns.test"), 9011),
        (&zone, record("n", "A", "300.0.0.1"), 9005),
        (&zone, record("a..b", "CNAME", TARGET), 9000),
        (&zone, record("self", "CNAME", "self.example.com"), 9039),
        (&zone, json!({"name": "n", "content": "x"}), 9004),
    ] {
        let answer = post(&emulator, zone, &sent);
        assert_eq!((answer.status, answer.code()), (400, code), "{sent}: {}", answer.body);
        assert_eq!(emulator.records(zone).len(), 4, "{sent}");
    }
    for (zone, length) in [(&zone, 100), (&paid, 500)] {
        let sent = with(record(&format!("long{length}"), "CNAME", TARGET), "comment", json!(long(length)));
        assert_eq!(post(&emulator, zone, &sent).status, 200);
    }
}

#[test]
fn records_of_cloudflares_own_cannot_be_changed() {
    let (emulator, zone) = free_zone();
    let record = json!({"type": "TXT", "name": "dkim", "content": "x", "meta": {"read_only": true}});
    let id = emulator.add_record(&zone, record).unwrap();
    for list in ["deletes", "patches"] {
        assert_eq!(batch(&emulator, &zone, &json!({list: [{"id": id}]})).status, 400, "{list}");
    }
    let listed = read(&emulator, &format!("/zones/{zone}/dns_records")).result();
    assert_eq!(listed[0]["meta"]["read_only"], true);
}

/// The type of a name can change in one batch: deletes are done first, whatever their place in the body.
#[test]
fn a_batch_deletes_then_patches_what_is_said_then_posts() {
    let (emulator, zone) = free_zone();
    let a = emulator.add_record(&zone, json!({"type": "A", "name": "a", "content": "192.0.2.1"})).unwrap();
    let old = json!({"type": "CNAME", "name": "b", "content": "old.test", "ttl": 300, "comment": "kept"});
    let b = emulator.add_record(&zone, old).unwrap();
    let body = json!({
        "posts": [
            {"type": "CNAME", "name": "a", "content": TARGET, "proxied": true},
            {"type": "CNAME", "name": "b", "content": TARGET},
        ],
        "patches": [{"id": b, "name": "c"}],
        "deletes": [{"id": a}],
    });
    let result = batch(&emulator, &zone, &body).result();
    assert_eq!(result["deletes"][0]["name"], "a.example.com");
    let patched = &result["patches"][0];
    assert_eq!((&patched["name"], &patched["content"]), (&json!("c.example.com"), &json!("old.test")));
    assert_eq!((&patched["ttl"], &patched["comment"]), (&json!(300), &json!("kept")));
    assert_eq!(result["posts"][1]["content"], TARGET);
    let names: Vec<String> = emulator.records(&zone).into_iter().map(|record| record.name).collect();
    assert_eq!(names, ["c.example.com", "a.example.com", "b.example.com"]);
}

#[test]
fn a_batch_with_one_mistake_changes_nothing() {
    let (emulator, zone) = free_zone();
    let id = emulator.add_record(&zone, json!({"type": "A", "name": "a", "content": "192.0.2.1"})).unwrap();
    let before = emulator.records(&zone);
    let good = json!({"type": "CNAME", "name": "good", "content": TARGET});
    let bad = json!({"type": "CNAME", "name": "bad", "content": TARGET, "comment": "x".repeat(101)});
    let answer = batch(&emulator, &zone, &json!({"deletes": [{"id": id}], "posts": [good, bad]}));
    assert_eq!(answer.code(), 9313);
    assert_eq!(emulator.records(&zone), before);
    let unknown = batch(&emulator, &zone, &json!({"deletes": [{"id": id}, {"id": "f".repeat(32)}]}));
    assert_eq!((unknown.status, unknown.code()), (404, 81044));
    assert_eq!(emulator.records(&zone), before);
}

#[test]
fn a_batch_holds_200_operations_on_free_and_3500_otherwise() {
    let (emulator, free) = free_zone();
    let paid = emulator.add_zone("paid.test", Plan::Pro);
    let posts = |count: usize| {
        let post = |number: usize| json!({"type": "CNAME", "name": format!("n{number}"), "content": TARGET});
        json!({"posts": (0..count).map(post).collect::<Vec<_>>()})
    };
    assert_eq!(batch(&emulator, &free, &posts(201)).status, 400);
    assert_eq!(batch(&emulator, &free, &posts(200)).status, 200);
    assert_eq!(batch(&emulator, &paid, &posts(201)).status, 200);
}

#[test]
fn a_zone_is_full_at_its_quota() {
    let (emulator, zone) = free_zone();
    emulator.edit(|cloudflare| cloudflare.zone_mut(&zone).record_quota = 2);
    for name in ["a", "b"] {
        emulator.add_record(&zone, json!({"type": "CNAME", "name": name, "content": TARGET})).unwrap();
    }
    let third = json!({"type": "CNAME", "name": "c", "content": TARGET});
    assert_eq!(post(&emulator, &zone, &third).code(), 81045);
    let first = emulator.records(&zone)[0].id.clone();
    assert_eq!(batch(&emulator, &zone, &json!({"deletes": [{"id": first}], "posts": [third]})).status, 200);
}

#[test]
fn records_are_listed_in_pages() {
    let (emulator, zone) = free_zone();
    for number in 0..150 {
        let record = json!({"type": "A", "name": format!("n{number:03}"), "content": "192.0.2.1"});
        emulator.add_record(&zone, record).unwrap();
    }
    let list = |query: &str| read(&emulator, &format!("/zones/{zone}/dns_records?{query}"));
    for (query, count) in [("", 100), ("page=2", 50), ("per_page=5000", 150), ("page=9", 0)] {
        assert_eq!(list(query).result().as_array().unwrap().len(), count, "{query}");
    }
    assert_eq!(list("type=A").status, 400, "no filter is known");
}

#[test]
fn a_disliked_name_is_refused_until_it_is_liked_again() {
    let (emulator, zone) = free_zone();
    let refusal = Refusal::dns_validation(9041, "This DNS record cannot be proxied.");
    emulator.edit(|cloudflare| cloudflare.whims_mut().dislike_name("bad.example.com", refusal));
    let record = json!({"type": "CNAME", "name": "bad", "content": TARGET});
    let answer = post(&emulator, &zone, &record);
    assert_eq!(answer.json()["errors"][0]["code"], 1004);
    assert_eq!(answer.code(), 9041);
    emulator.edit(|cloudflare| cloudflare.whims_mut().like_all());
    assert_eq!(post(&emulator, &zone, &record).status, 200);
}
