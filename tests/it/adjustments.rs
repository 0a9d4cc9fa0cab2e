//! What `adjust` and the readings around it say of endpoints that are not published.

use std::time::Duration;

use external_dns_cloudflare_tunnel_webhook::clock::Deadline;
use external_dns_cloudflare_tunnel_webhook::limits::{ADJUST_RESERVE, REQUEST_MEMORY_MAX_BYTES};
use external_dns_cloudflare_tunnel_webhook::provider::adjust;
use external_dns_cloudflare_tunnel_webhook::webhook::body::Body;
use log::Level;
use test_support::clock::ManualClock;
use test_support::fake_cloudflare;
use test_support::harness::published;

/// An endpoint that the webhook did not read would count as not wanted, and be withdrawn.
#[test]
fn what_there_is_no_time_to_read_stays_wanted() {
    let settings = fake_cloudflare::settings();
    let clock = ManualClock::stopped();
    let body = serde_json::to_string(&[published("web.example.com", "http://web:80")]).expect("plain data");
    for (left, is_late) in [(ADJUST_RESERVE, false), (ADJUST_RESERVE - Duration::from_millis(1), true)] {
        let deadline = Deadline::after(&clock, left);
        let wanted = Body::new(body.clone().into_bytes()).expect("it is text");
        let adjusted = adjust(&wanted, &settings, None, &clock, deadline);
        let adjusted = adjusted.expect("it is read").0.endpoints;
        let names: Vec<&str> = adjusted.iter().map(|one| &*one.dns_name).collect();
        assert_eq!(names, ["web.example.com"], "{left:?}");
        assert_eq!(adjusted[0].property("webhook/tunnel-service").is_none(), is_late, "{left:?}");
        let problem = adjusted[0].property("webhook/invalid").unwrap_or_default();
        assert_eq!(problem.contains("too large to read in time"), is_late, "{left:?}: {problem}");
    }
}

#[test]
fn a_request_that_asks_for_more_than_fits_into_memory_is_answered_with_what_to_do() {
    let settings = fake_cloudflare::settings();
    let clock = ManualClock::stopped();
    let endpoint = serde_json::to_string(&published("web.example.com", "http://web:80")).expect("plain data");
    for (room, is_enough) in [(100, false), (10_000, true)] {
        let blanks = " ".repeat(REQUEST_MEMORY_MAX_BYTES - endpoint.len() - 2 - room);
        let wanted = Body::new(format!("[{endpoint}{blanks}]").into_bytes()).expect("it is text");
        let deadline = Deadline::after(&clock, Duration::from_secs(12));
        let adjusted = adjust(&wanted, &settings, None, &clock, deadline);
        match adjusted {
            Ok((adjusted, _)) => assert!(is_enough && adjusted.endpoints.len() == 1, "{room}"),
            Err(failure) => {
                assert!(!is_enough && failure.text.contains("DOMAIN_FILTER"), "{room}: {failure:?}");
                assert_eq!((failure.status, failure.log), (503, Some(Level::Warn)));
            }
        }
    }
}
