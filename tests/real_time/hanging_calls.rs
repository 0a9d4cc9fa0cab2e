//! Calls that Cloudflare never answers, until the client gives up. With other faults in place of that,
//! `tests/program/commands/tunnel.rs` goes through every call.

use std::fs;
use std::path::Path;
use std::thread;

use cloudflare_emulator::{Fault, Matcher};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use test_support::harness::{Harness, TOKEN, endpoint, published};
use test_support::process::program;

#[test]
fn where_the_call_that_makes_a_tunnel_hangs_there_is_one_tunnel_and_the_next_run_succeeds() {
    thread::scope(|scope| {
        scope.spawn(|| hang("not-done", Fault::Hang));
        scope.spawn(|| hang("done", Fault::DoneBut(Box::new(Fault::Hang))));
    });
}

fn hang(label: &str, fault: Fault) {
    let harness = Harness::without_tunnel();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("hanging-calls-{label}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the folder for tests can be written");
    let file = folder.join("token");
    let run = || {
        let mut command = program();
        command.args(["tunnel", "--token-file"]).arg(&file).envs([
            ("CF_API_TOKEN", TOKEN),
            ("CF_TUNNEL_ID", "home"),
            ("CF_API_BASE_URL", &*harness.cloudflare.base_url()),
        ]);
        command.output().expect("the program was built").status.success()
    };
    harness.cloudflare.fault(Matcher::create_tunnel(), 1, fault);
    let first = run();
    assert_eq!((first, harness.cloudflare.waiting_faults()), (file.exists(), 0), "{label}");
    assert!(run(), "{label}");
    let tunnels = harness.cloudflare.edit(|cloudflare| cloudflare.tunnels().len());
    assert_eq!(tunnels, 1, "{label}");
    let token = fs::read_to_string(&file).expect("it is written");
    assert!(harness.cloudflare.run_connector(&token).is_ok(), "{label}: cloudflared takes it");
}

/// A look takes two seconds then, and a request has twelve.
#[test]
fn where_the_connectors_of_many_tunnels_cannot_be_seen_all_else_is_done() {
    let harness = Harness::new();
    let tunnels = ["a", "b", "c", "d", "e"];
    for tunnel in tunnels {
        harness.cloudflare.add_tunnel(tunnel);
    }
    let program = harness.start_with(&[("CF_TUNNEL_ID", "home,a,b,c,d,e")]);
    let led_to = |tunnel| {
        let properties = [("tunnel-service", "http://web:80"), ("tunnel", tunnel)];
        endpoint(&format!("to-{tunnel}.example.com"), &properties)
    };
    let at_home = |mut endpoint: Endpoint| {
        endpoint.provider_specific.retain(|property| &*property.name != "webhook/tunnel");
        endpoint
    };
    let mut wanted: Vec<Endpoint> = tunnels.map(led_to).into();
    let external_dns = program.external_dns();
    external_dns.run_loop(&wanted.iter().cloned().map(at_home).collect::<Vec<_>>()).expect("published");
    assert_eq!(external_dns.run_loop(&wanted).map(drop), Err(503), "their rules come first");
    harness.cloudflare.fault_every(Matcher::call("GET", "/accounts/*/cfd_tunnel/*/connections"), Fault::Hang);
    wanted.push(published("new.example.com", "http://new:80"));
    assert_eq!(external_dns.run_loop(&wanted).map(drop), Err(503));
    assert_eq!(harness.service_at("new.example.com", "/"), "http://new:80");
}
