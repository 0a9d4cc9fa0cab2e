//! How soon the program ends.

use std::time::Duration;

use test_support::harness::Harness;
use test_support::process::Process;
use test_support::raw_http::Client;

#[test]
fn either_signal_ends_an_idle_process_within_a_second() {
    for (signal, cause) in [("TERM", "SIGTERM"), ("INT", "SIGINT")] {
        let harness = Harness::new();
        let (process, external_dns) = Process::start_ready(&harness, &[]);
        let mut idle = Client::connect(external_dns.api);
        assert_eq!(idle.get("/").status, 200);
        let (code, took, said) = process.end_with(signal);
        assert_eq!(code, Some(0));
        assert!(said.iter().any(|line| line.contains(&format!("stopping: {cause}"))), "{said:#?}");
        assert!(took < Duration::from_secs(1), "{signal}: {took:?}");
    }
}
