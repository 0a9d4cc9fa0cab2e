//! What bodies and answers can make the program take of the memory. Resident memory is read from the kernel, of the
//! program that was built for the tests, or of the one that `WEBHOOK_BINARY` names: the night names the static binary,
//! which has to stay within a container's 64 MiB with the largest bodies.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use external_dns_cloudflare_tunnel_webhook::limits;
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use test_support::harness::{Harness, endpoint_of};
use test_support::process::{Process, other_binary};
use test_support::raw_http::Client;

const MIB: usize = 1024 * 1024;

/// Arenas of threads would hide what is used.
const VARIABLES: [(&str, &str); 1] = [("MALLOC_ARENA_MAX", "1")];

/// What may be resident, in KiB, when the process began with so many. The build for tests is larger, and other
/// allocators keep more than musl's.
fn limit_kib(begun_with: u64) -> u64 {
    if is_static() { 64 * 1024 } else { begun_with + 40 * 1024 }
}

/// The build for tests is too slow for the largest bodies.
fn is_static() -> bool {
    other_binary().is_some()
}

fn shop(number: usize) -> String {
    format!(
        r#"{{"dnsName":"shop-{number}.example.com","targets":["http://shop-{number}.shop.svc:8080"],"recordType":"CNAME","labels":{{"resource":"ingress/shop/shop-{number}"}},"providerSpecific":[{{"name":"webhook/origin-connect-timeout","value":"10s"}}]}}"#
    )
}

/// Every other path of the object waits for the one that is wrong.
fn mistaken_once(paths: usize) -> String {
    let one = |path: &str, service: &str| {
        format!(
            r#"{{"dnsName":"a.example.com","recordType":"A","labels":{{"resource":"crd/shop/a"}},"providerSpecific":[{{"name":"webhook/tunnel-service","value":"{service}"}},{{"name":"webhook/tunnel-path","value":"{path}"}}]}}"#
        )
    };
    let sound = (0..paths).map(|number| one(&format!("^/{number}"), "http://w:80"));
    let wrong = one(&format!("^/{}", "é".repeat(340)), "htp://w:80");
    format!("[{}]", sound.chain([wrong]).collect::<Vec<_>>().join(","))
}

fn list(bytes: usize, element: impl Fn(usize) -> String) -> String {
    let mut text = String::from("[");
    for number in 0.. {
        text.push_str(&element(number));
        if text.len() + 512 > bytes {
            break;
        }
        text.push(',');
    }
    text + "]"
}

/// A list of empty objects took fifty times its size.
#[test]
fn a_body_of_whatever_kind_stays_within_the_memory_of_a_container() {
    let harness = Harness::new();
    let (process, external_dns) = Process::start_ready(&harness, &VARIABLES);
    let limit = limit_kib(process.memory_peak_kib());
    // A list of changes has its field around it.
    let size = if is_static() { limits::REQUEST_BODY_MAX_BYTES - 1024 } else { 4 * MIB };
    let texts = size - 200;
    let many = |item: &str| vec![item; texts / (item.len() + 1)].join(",");
    let name = r#""dnsName":"a.example.com","recordType":"A""#;
    let groups: Vec<String> =
        (0..600).map(|number| format!(r#"{{"name":"webhook/tunnel-service.{number}"}}"#)).collect();
    let empty = vec!["{}"; 33_000].join(",");
    let grouped = format!(r#"{{{name},"providerSpecific":[{},{empty}]}}"#, groups.join(","));
    let escaped = |number: usize| {
        let ours = shop(number);
        ours.replace(r#""labels":{"#, &format!(r#""labels":{{"a":"{}","#, "\\u0001".repeat(15_000)))
    };
    for (label, body, statuses) in [
        (
            "five thousand hostnames",
            format!("[{}]", (0..5_000).map(shop).collect::<Vec<_>>().join(",")),
            &[200][..],
        ),
        // Of so many a busy machine does not see the end in time.
        ("empty objects", format!("[{}]", many("{}")), &[200, 503]),
        ("hostnames of ours", list(size, shop), &[200, 503]),
        ("one object of many paths with a mistake at a long one", mistaken_once(size / 1_864), &[200]),
        (
            "others' hostnames",
            list(size, |n| format!(r#"{{"dnsName":"h{n}.test","recordType":"A"}}"#)),
            &[200, 503],
        ),
        (
            "other types",
            list(size, |n| format!(r#"{{"dnsName":"h{n}.test","recordType":"MX"}}"#)),
            &[200, 503],
        ),
        // Each group has all that is said without one.
        ("groups beside empty properties", list(size - 256 * 1024, |_| grouped.clone()), &[200, 503]),
        // Six bytes of an answer for one of memory.
        ("escapes", list(size - 256 * 1024, escaped), &[200, 500, 503]),
        ("targets", format!(r#"[{{{name},"targets":[{}]}}]"#, many(r#""""#)), &[200]),
        ("properties", format!(r#"[{{{name},"providerSpecific":[{}]}}]"#, many("{}")), &[200]),
        ("labels", format!(r#"[{{{name},"labels":{{{}}}}}]"#, many(r#""a":"""#)), &[200]),
        ("one text", format!(r#"[{{{name},"setIdentifier":"{}"}}]"#, "x".repeat(texts)), &[200]),
        ("one name", format!(r#"[{{"dnsName":"{}"}}]"#, "x".repeat(texts)), &[200]),
        ("blanks", format!("[{}]", " ".repeat(texts)), &[200]),
        ("brackets", "[".repeat(texts), &[400]),
        ("brackets within an endpoint", format!(r#"[{{{name},"x":{}"#, "[".repeat(texts)), &[400]),
        ("an unknown field", format!(r#"{{"new":"{}"}}"#, "x".repeat(texts)), &[400, 503]),
    ] {
        for (path, body) in
            [("/adjustendpoints", body.clone()), ("/records", format!(r#"{{"delete":{body}}}"#))]
        {
            let status = external_dns.call("POST", path, &body).status;
            let is_right = if path == "/records" {
                [204, 400, 503].contains(&status)
            } else {
                statuses.contains(&status)
            };
            assert!(is_right, "{label}, {path}: {status}");
            let peak = process.memory_peak_kib();
            assert!(peak <= limit, "{label}, {path}: {peak} KiB of {limit}");
        }
    }
}

/// Each of them is planned, whatever is done of it in one request.
#[test]
fn a_request_that_deletes_everything_stays_within_it() {
    let harness = Harness::new();
    harness.cloudflare.edit(|cloudflare| cloudflare.zone_mut(&harness.zone).record_quota = 100_000);
    let (process, external_dns) = Process::start_ready(&harness, &VARIABLES);
    let limit = limit_kib(process.memory_peak_kib());
    let count = if is_static() { 18_000 } else { 3_000 };
    let shop = |number: usize| {
        let (object, name) = (format!("ingress/shop/shop-{number}"), format!("shop-{number}.example.com"));
        endpoint_of(&object, &name, &[("tunnel-service", "http://shop.shop.svc:80")])
    };
    let shops: Vec<Endpoint> = (0..count).map(shop).collect();
    while external_dns.run_loop(&shops).is_err() {}
    assert_eq!(external_dns.run_loop(&shops[..1]), Err(503), "so many are not deleted");
    let peak = process.memory_peak_kib();
    assert!(peak <= limit, "{peak} KiB of {limit}");
}

/// They are read one after the other.
#[test]
fn sixteen_bodies_at_once_stay_within_it_and_external_dns_is_served() {
    let harness = Harness::new();
    let (process, external_dns) = Process::start_ready(&harness, &VARIABLES);
    let limit = limit_kib(process.memory_peak_kib());
    let size = if is_static() { limits::REQUEST_BODY_MAX_BYTES } else { 2 * MIB };
    let body = list(size, shop);
    let few = list(4096, shop);
    let is_over = AtomicBool::new(false);
    let served = thread::scope(|scope| {
        let well_behaved = scope.spawn(|| {
            let mut served = 0;
            while !is_over.load(Ordering::Relaxed) {
                // All workers may be held for longer than a request lasts; it is asked again then.
                let status = external_dns.call("POST", "/adjustendpoints", &few).status;
                assert!([200, 503].contains(&status), "{status}");
                served += usize::from(status == 200);
            }
            served
        });
        let hostile: Vec<_> = (0..16)
            .map(|_| scope.spawn(|| Client::connect(external_dns.api).post("/adjustendpoints", &body).status))
            .collect();
        let mut statuses = Vec::new();
        for hostile in hostile {
            statuses.push(hostile.join());
        }
        // Whatever became of them: nothing else ends the well-behaved one.
        is_over.store(true, Ordering::Relaxed);
        for status in statuses {
            let status = status.expect("it is answered");
            assert!([200, 503].contains(&status), "{status}");
        }
        well_behaved.join().expect("it is answered")
    });
    assert!(served > 0);
    assert_eq!(external_dns.call("POST", "/adjustendpoints", &few).status, 200);
    let peak = process.memory_peak_kib();
    assert!(peak <= limit, "{peak} KiB of {limit}");
}

/// It took 100 MB.
#[test]
fn an_endless_answer_of_the_api_stays_within_it() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            thread::spawn(move || {
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
                while stream.write_all(&[b' '; 65_536]).is_ok() {}
            });
        }
    });
    let harness = Harness::new();
    let base_url = format!("http://{address}");
    let [arenas] = VARIABLES;
    let mut process = Process::start(&harness, &[("CF_API_BASE_URL", &base_url), arenas]);
    process.wait_for("api=");
    let limit = limit_kib(process.memory_peak_kib());
    // It is said once; a request meets it too.
    process.wait_for("too large");
    let peak = process.memory_peak_kib();
    assert!(peak <= limit, "{peak} KiB of {limit}");
}
