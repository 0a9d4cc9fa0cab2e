use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use cloudflare_emulator::{CallCount, Emulator, Fault, Matcher, catch_all};
use serde_json::{Value, json};

use crate::client::{TOKEN, call, free_zone, read, send};

fn headers() -> String {
    format!("authorization: Bearer {TOKEN}\r\n")
}

const BATCH: &str = r#"{"posts":[{"type":"A","name":"a","content":"192.0.2.1"}]}"#;

/// Posts a record; the answer, and whether it was stored.
fn post(emulator: &Emulator, zone: &str) -> (Option<crate::client::Answer>, bool) {
    let answer = send(emulator, &headers(), "POST", &format!("/zones/{zone}/dns_records/batch"), BATCH);
    (answer, !emulator.records(zone).is_empty())
}

#[test]
fn each_fault_does_or_leaves_the_call_and_answers_as_it_says() {
    let limited = Fault::limited(300);
    for (fault, is_done, status) in [
        (Fault::status(500), false, Some(500)),
        (limited.clone(), false, Some(429)),
        (Fault::error(400, 1000, "Request timeout"), false, Some(400)),
        (Fault::Reset, false, None),
        (Fault::Garbage, false, Some(200)),
        (Fault::Truncated, true, Some(200)),
        (Fault::Delay(Duration::from_millis(1)), true, Some(200)),
        (Fault::DoneButUnanswered, true, None),
        (Fault::DoneBut(Box::new(Fault::status(502))), true, Some(502)),
        (Fault::DoneBut(Box::new(limited)), true, Some(429)),
    ] {
        let (emulator, zone) = free_zone();
        emulator.fault(Matcher::batch(), 1, fault.clone());
        let (answer, stored) = post(&emulator, &zone);
        assert_eq!(stored, is_done, "{fault:?}");
        assert_eq!(answer.as_ref().map(|answer| answer.status), status, "{fault:?}");
        assert_eq!(emulator.calls()[0].status, status, "{fault:?}");
        let body = answer.map(|answer| answer.body).unwrap_or_default();
        let is_readable = serde_json::from_str::<Value>(&body).is_ok();
        let reads_well = matches!(fault, Fault::Delay(_)) || body.contains("Request timeout");
        assert_eq!(is_readable, reads_well, "{fault:?}: {body}");
        assert_eq!(read(&emulator, "/zones").status, 200, "only one call is hit by {fault:?}");
    }
}

#[test]
fn a_reset_is_an_error_to_the_client_and_a_close_is_not() {
    for (fault, expected) in
        [(Fault::Reset, Err(ErrorKind::ConnectionReset)), (Fault::DoneButUnanswered, Ok(0))]
    {
        let (emulator, _) = free_zone();
        emulator.fault_at(1, fault);
        let mut stream = TcpStream::connect(emulator.address()).unwrap();
        stream.write_all(b"GET /client/v4/zones HTTP/1.1\r\n\r\n").unwrap();
        assert_eq!(stream.read(&mut [0; 16]).map_err(|error| error.kind()), expected);
    }
}

#[test]
fn a_hanging_call_ends_unanswered_when_it_is_released() {
    let (emulator, zone) = free_zone();
    emulator.fault_at(1, Fault::Hang);
    std::thread::scope(|scope| {
        let hanging = scope.spawn(|| post(&emulator, &zone));
        assert!(emulator.wait_for_calls(1, Duration::from_secs(10)));
        // Other calls are answered meanwhile.
        assert_eq!(read(&emulator, "/zones").status, 200);
        emulator.release();
        let (answer, stored) = hanging.join().unwrap();
        assert!(answer.is_none() && !stored);
    });
}

#[test]
fn an_emulator_that_is_dropped_lets_go_of_everything() {
    let (emulator, _) = free_zone();
    let address = emulator.address();
    emulator.fault_at(1, Fault::Hang);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /client/v4/zones HTTP/1.1\r\n\r\n").unwrap();
    assert!(emulator.wait_for_calls(1, Duration::from_secs(10)));
    drop(emulator);
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.is_empty());
    assert!(TcpStream::connect(address).is_err());
}

/// A test that drives every point of a run knows it is through when the fault was not reached.
#[test]
fn a_fault_beyond_the_last_call_still_waits() {
    let (emulator, _) = free_zone();
    emulator.fault_at(3, Fault::status(500));
    assert_eq!([read(&emulator, "/zones").status, read(&emulator, "/zones").status], [200, 200]);
    assert_eq!(emulator.waiting_faults(), 1);
    assert_eq!(read(&emulator, "/zones").status, 500);
    assert_eq!(emulator.waiting_faults(), 0);
}

#[test]
fn a_repeated_fault_hits_until_it_is_cleared() {
    let (emulator, _) = free_zone();
    emulator.fault_every(Matcher::reads(), Fault::status(503));
    assert_eq!([read(&emulator, "/zones").status, read(&emulator, "/zones").status], [503, 503]);
    emulator.clear_faults();
    assert_eq!(read(&emulator, "/zones").status, 200);
}

#[test]
fn another_client_can_write_between_a_get_and_a_put() {
    let (emulator, _) = free_zone();
    let tunnel = emulator.add_tunnel("shop");
    let path = format!("/accounts/{}/cfd_tunnel/{tunnel}/configurations", emulator.account());
    emulator.edit_after(Matcher::get_configuration(), 1, |cloudflare| {
        cloudflare.put_configuration("shop", &catch_all("http_status:410")).unwrap();
    });
    emulator.edit_before(Matcher::put_configuration(), 1, |cloudflare| {
        cloudflare.put_configuration("shop", &catch_all("http_status:411")).unwrap();
    });
    assert_eq!(read(&emulator, &path).result()["version"], 0);
    assert_eq!(emulator.version("shop"), 1);
    let body = format!("{{\"config\":{}}}", catch_all("http_status:404"));
    assert_eq!(call(&emulator, "PUT", &path, &body).result()["version"], 3);
}

/// Its calls come between two of the first one.
#[test]
fn another_client_can_make_its_calls_before_a_call_of_the_first() {
    let (emulator, zone) = free_zone();
    let address = emulator.address();
    emulator.run_before(Matcher::batch(), 1, 7, move || {
        let mut stream = TcpStream::connect(address).unwrap();
        let request = format!("GET /client/v4/zones HTTP/1.1\r\nconnection: close\r\n{}\r\n", headers());
        stream.write_all(request.as_bytes()).unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap();
    });
    assert!(post(&emulator, &zone).1);
    let lines: Vec<String> = emulator.calls().iter().map(cloudflare_emulator::Call::line).collect();
    assert_eq!(lines, [format!("POST /zones/{zone}/dns_records/batch"), "GET /zones".to_owned()]);
}

/// A test whose edit fails must see its client fail, not hang.
#[test]
fn an_edit_that_panics_ends_the_connection_and_nothing_else() {
    let (emulator, _) = free_zone();
    emulator.edit_before(Matcher::any(), 1, |_| panic!("the edit of a test"));
    assert!(send(&emulator, &headers(), "GET", "/zones", "").is_none());
    assert_eq!(read(&emulator, "/zones").status, 200);
}

#[test]
fn every_call_is_kept_in_order() {
    let (emulator, zone) = free_zone();
    read(&emulator, "/zones?per_page=50");
    post(&emulator, &zone);
    let calls = emulator.take_calls();
    assert_eq!(CallCount::of(&calls), CallCount { reads: 1, writes: 1 });
    let lines: Vec<String> = calls.iter().map(cloudflare_emulator::Call::line).collect();
    assert_eq!(lines, ["GET /zones?per_page=50".to_owned(), format!("POST /zones/{zone}/dns_records/batch")]);
    assert_eq!(calls[1].body, BATCH);
    read(&emulator, "/zones");
    assert_eq!(emulator.calls()[0].sequence, 3);
}

#[test]
fn one_connection_carries_many_calls() {
    let (emulator, _) = free_zone();
    let mut stream = TcpStream::connect(emulator.address()).unwrap();
    let request = format!("GET /client/v4/zones HTTP/1.1\r\n{}\r\n", headers());
    for last in [false, true] {
        let close = if last { "connection: close\r\n" } else { "" };
        stream.write_all(request.replacen("\r\n", &format!("\r\n{close}"), 1).as_bytes()).unwrap();
    }
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 2);
}

#[test]
fn another_language_can_drive_it() {
    let (emulator, zone) = free_zone();
    let tunnel = emulator.add_tunnel("shop");
    let control = |method: &str, path: &str, body: Value| {
        send(&emulator, "", method, &format!("/_emulator{path}"), &body.to_string()).unwrap()
    };
    let config = json!({"ingress": [{"service": "http://shop"}]});
    let put = control("POST", "/configurations", json!({"tunnel": "shop", "config": config}));
    assert_eq!(put.json()["version"], 1);
    let target = format!("{tunnel}.cfargotunnel.com");
    let post = json!({"type": "CNAME", "name": "www", "content": target, "proxied": true});
    control("POST", "/records", json!({"zone": "example.com", "posts": [post]}));
    let visit = control("POST", "/visit", json!({"host": "www.example.com"})).json();
    assert_eq!((&visit["service"], &visit["rule"]), (&json!("http://shop"), &json!(0)));
    let state = control("GET", "/state", json!(null)).json();
    assert_eq!(state["zones"][0]["id"], zone);
    assert_eq!(state["zones"][0]["records"][0]["name"], "www.example.com");
    assert_eq!(state["tunnels"][0]["config"]["ingress"][0]["service"], "http://shop");
    let fault = json!({"method": "GET", "path": "/zones", "nth": 1, "fault": {"status": 429, "headers": {"retry-after": "7"}}});
    assert_eq!(control("POST", "/faults", fault).json()["waiting"], 1);
    assert_eq!(read(&emulator, "/zones").header("retry-after").unwrap(), "7");
    assert_eq!(control("DELETE", "/calls", json!(null)).json()[0]["status"], 429);
    assert_eq!(control("GET", "/calls", json!(null)).json(), json!([]));
    assert_eq!(control("POST", "/faults", json!({"fault": "meteor"})).status, 400);
    assert_eq!(control("POST", "/records", json!({"zone": "unknown"})).status, 400);
}
