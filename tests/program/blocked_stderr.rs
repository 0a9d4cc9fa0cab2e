//! A standard error that is not read: the collector of the log may stand still, and nothing else does.

use test_support::harness::{Harness, published};
use test_support::process::Process;
use test_support::raw_http::Client;

/// The end waits for the log, so it is seen in `tests/real_time/blocked_stderr.rs`.
#[test]
fn a_standard_error_that_is_not_read_holds_up_no_request_and_no_probe() {
    for format in ["text", "json"] {
        for level in ["debug", "info"] {
            let harness = Harness::new();
            let (mut process, external_dns) =
                Process::start_ready(&harness, &[("LOG_LEVEL", level), ("LOG_FORMAT", format)]);
            process.block_standard_error();
            for desired in [&[published("web.example.com", "http://web:80")][..], &[]] {
                external_dns.run_loop(desired).expect("answered");
            }
            for path in ["/healthz", "/readyz", "/metrics"] {
                assert_eq!(process.observe(path).status, 200, "{format} {level} {path}");
            }
        }
    }
}

#[test]
fn lines_that_are_not_read_are_lost_and_counted_and_the_log_goes_on() {
    const REQUESTS: usize = 3_000;
    for (format, level) in [("text", "WARN "), ("json", "{\"level\":\"warn\"")] {
        let harness = Harness::new();
        let (mut process, external_dns) =
            Process::start_ready(&harness, &[("LOG_LEVEL", "debug"), ("LOG_FORMAT", format)]);
        process.block_standard_error();
        let mut client = Client::connect(external_dns.api);
        for number in 0..REQUESTS {
            let path = format!("/{number}-of-many-{}", "x".repeat(200));
            assert_eq!(client.get(&path).status, 404, "{format}");
        }
        process.unblock_standard_error();
        let lost: usize = process.wait_for("lost=").parse().expect("a number");
        assert_eq!(client.get("/afterwards").status, 404);
        process.wait_for("/afterwards");
        let metrics = process.observe("/metrics").body;
        assert!(
            metrics.contains(&format!("\ncloudflare_tunnel_webhook_lost_log_lines_total {lost}\n")),
            "{metrics}"
        );

        let (code, _, said) = process.end_with("TERM");
        assert_eq!(code, Some(0), "{format}");
        let read = said.iter().filter(|line| line.contains("-of-many-")).count();
        // The thread that looks at the tunnels says a line now and then.
        assert!((REQUESTS..REQUESTS + 100).contains(&(read + lost)), "{format}: {read} and {lost}");
        let notice =
            said.iter().find(|line| line.contains("log lines were lost here")).expect("it was waited for");
        assert!(notice.starts_with(level), "{notice}");
        assert!(said.last().is_some_and(|line| line.contains("stopping: SIGTERM")), "{format}");
    }
}

#[test]
fn the_last_lines_are_there_when_the_process_has_ended() {
    for format in ["text", "json"] {
        let harness = Harness::new();
        let (process, external_dns) =
            Process::start_ready(&harness, &[("LOG_LEVEL", "debug"), ("LOG_FORMAT", format)]);
        let mut client = Client::connect(external_dns.api);
        for number in 0..200 {
            assert_eq!(client.get(&format!("/{number}-of-many")).status, 404, "{format}");
        }
        let (code, _, said) = process.end_with("TERM");
        assert_eq!(code, Some(0), "{format}");
        let has = |text: &str| said.iter().any(|line| line.contains(text));
        assert!((0..200).all(|number| has(&format!("/{number}-of-many"))), "{format}");
        assert!(said.last().is_some_and(|line| line.contains("stopping: SIGTERM")), "{format}: {said:?}");
    }
}
