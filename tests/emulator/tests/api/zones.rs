use cloudflare_emulator::{Permission, Plan, Token};

use serde_json::json;

use crate::client::{free_zone, read, send};

#[test]
fn zones_come_in_pages_of_5_to_50() {
    let (emulator, _) = free_zone();
    for number in 0..52 {
        emulator.add_zone(&format!("zone-{number:02}.test"), Plan::Pro);
    }
    assert_eq!(read(&emulator, "/zones?per_page=4").status, 400);
    assert_eq!(read(&emulator, "/zones?per_page=51").status, 400);
    let page = read(&emulator, "/zones?per_page=50&page=2").json();
    assert_eq!(page["result"].as_array().unwrap().len(), 3);
    assert_eq!(page["result_info"]["total_pages"], 2);
    assert_eq!(read(&emulator, "/zones").json()["result_info"]["per_page"], 20);
    let plans = read(&emulator, "/zones?per_page=5").result();
    assert_eq!([0, 1].map(|zone| plans[zone]["plan"]["legacy_id"].clone()), ["free", "pro"]);
    assert_eq!(read(&emulator, "/zones?name=zone-07.test").status, 400, "no filter is known");
}

#[test]
fn a_token_sees_its_own_zones_only() {
    let (emulator, zone) = free_zone();
    let other = emulator.add_zone("other.test", Plan::Free);
    let token = Token { zones: Some(vec![other.clone()]), ..Token::full("token-of-other") };
    emulator.add_token(token);
    let as_other =
        |path: &str| send(&emulator, "authorization: Bearer token-of-other\r\n", "GET", path, "").unwrap();
    let zones = as_other("/zones").result();
    assert_eq!(zones.as_array().unwrap().len(), 1);
    assert_eq!(zones[0]["name"], "other.test");
    assert_eq!(as_other(&format!("/zones/{zone}/dns_records")).code(), 10000);
    assert_eq!(as_other(&format!("/zones/{other}/dns_records")).status, 200);
}

#[test]
fn a_permission_is_asked_for_each_endpoint() {
    let (emulator, zone) = free_zone();
    let tunnel = emulator.add_tunnel("shop");
    let account = emulator.account();
    let records = format!("/zones/{zone}/dns_records");
    let batch = format!("{records}/batch");
    let post = r#"{"posts":[{"type":"A","name":"a","content":"192.0.2.1"}]}"#;
    let configuration = format!("/accounts/{account}/cfd_tunnel/{tunnel}/configurations");
    let body = r#"{"config":{"ingress":[{"service":"http_status:404"}]}}"#;
    let calls = [
        ("GET", "/zones", "", Permission::ZoneRead),
        ("GET", &records, "", Permission::DnsRead),
        ("POST", &batch, post, Permission::DnsEdit),
        ("GET", &configuration, "", Permission::TunnelRead),
        ("PUT", &configuration, body, Permission::TunnelEdit),
    ];
    let all = calls.map(|(_, _, _, permission)| permission);
    for (method, path, body, permission) in calls {
        for held in all {
            let value = format!("token-{held:?}-{permission:?}");
            emulator.add_token(Token::with_permissions(&value, &[held]));
            let headers = format!("authorization: Bearer {value}\r\n");
            let answer = send(&emulator, &headers, method, path, body).unwrap();
            let includes = matches!(
                (held, permission),
                (Permission::DnsEdit, Permission::DnsRead) | (Permission::TunnelEdit, Permission::TunnelRead)
            );
            let allowed = held == permission || includes;
            assert_eq!(answer.status, if allowed { 200 } else { 403 }, "{method} {path} with {held:?}");
        }
    }
}

#[test]
fn visitors_are_led_to_the_innermost_zone_that_is_active_and_past_no_delegation() {
    let (emulator, outer) = free_zone();
    let inner = emulator.add_zone("dev.example.com", Plan::Free);
    for (zone, content) in [(&outer, "192.0.2.1"), (&inner, "192.0.2.2")] {
        emulator
            .add_record(zone, json!({"type": "A", "name": "web.dev.example.com", "content": content}))
            .unwrap();
    }
    let visit = || emulator.visit("web.dev.example.com", "/").to_string();
    let set_status = |status: &str| {
        emulator.edit(|cloudflare| status.clone_into(&mut cloudflare.zone_mut("dev.example.com").status));
    };
    assert_eq!(visit(), "A 192.0.2.2");
    for status in ["initializing", "pending", "moved"] {
        set_status(status);
        assert_eq!(visit(), "A 192.0.2.1", "{status}");
    }
    let delegation = json!({"type": "NS", "name": "dev.example.com", "content": "alice.ns.cloudflare.com"});
    emulator.add_record(&outer, delegation).unwrap();
    assert_eq!(visit(), "NXDOMAIN", "between the delegation and its check");
    set_status("active");
    assert_eq!(visit(), "A 192.0.2.2");
}
