//! What an operator reads: each line once, when it is news.

#[path = "support/external_dns.rs"]
mod external_dns;
#[path = "support/harness.rs"]
mod harness;
#[path = "support/process.rs"]
mod process;

use harness::{Scene, published};
use process::Process;

/// A flag such as `--managed-record-types=A` takes the CNAME out of what ExternalDNS plans, without a word.
#[test]
fn a_hostname_that_external_dns_swallows_is_named_once() {
    let scene = Scene::new();
    let (process, external_dns) = Process::start_ready(&scene, &[]);
    let desired =
        [published("web.example.com", "http://web:80"), published("lost.example.com", "http://web:80")];
    for _ in 0..6 {
        external_dns.run_loop_without(&desired, "lost.example.com").expect("answered");
    }
    // Asked for at last.
    external_dns.run_loop(&desired).expect("published");
    let (_, _, said) = process.end_with("TERM");
    let lines: Vec<&String> = said.iter().filter(|line| line.contains("does not ask for it")).collect();
    assert_eq!(lines.len(), 1, "{said:#?}");
    assert!(lines[0].contains("hostname=\"lost.example.com\""), "{lines:?}");
    assert!(lines[0].contains("--managed-record-types"), "{lines:?}");
}

/// Another program that changes our record back has to be found by whoever reads the log.
#[test]
fn a_write_that_is_undone_every_time_is_named_once_with_what_differs() {
    let scene = Scene::new();
    let (process, external_dns) = Process::start_ready(&scene, &[]);
    let desired = [published("web.example.com", "http://web:80")];
    for _ in 0..6 {
        external_dns.run_loop(&desired).expect("answered");
        scene.cloudflare.edit(|cloudflare| {
            let id = cloudflare.records("example.com")[0].id.clone();
            let fields = serde_json::json!({"proxied": false});
            cloudflare.patch_record("example.com", &id, &fields).expect("Cloudflare takes it");
        });
    }
    let (_, _, said) = process.end_with("TERM");
    let lines: Vec<&String> = said.iter().filter(|line| line.contains("refused=not_kept")).collect();
    assert_eq!(lines.len(), 1, "{said:#?}");
    assert!(lines[0].contains("the record's proxied is not kept"), "{lines:?}");
}
