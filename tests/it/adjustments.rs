//! What `adjust` and the readings around it say of endpoints that are not published.

use std::time::Duration;

use external_dns_cloudflare_tunnel_webhook::clock::Deadline;
use external_dns_cloudflare_tunnel_webhook::limits::ADJUST_RESERVE;
use external_dns_cloudflare_tunnel_webhook::provider::Adjustments;
use external_dns_cloudflare_tunnel_webhook::webhook::body::Body;
use test_support::clock::ManualClock;
use test_support::fake_cloudflare;
use test_support::harness::{Harness, published};

/// An endpoint that nobody read would count as not wanted, and be withdrawn.
#[test]
fn what_there_is_no_time_to_read_stays_wanted() {
    let settings = fake_cloudflare::settings();
    let clock = ManualClock::stopped();
    let body = serde_json::to_string(&[published("web.example.com", "http://web:80")]).expect("plain data");
    for (left, is_late) in [(ADJUST_RESERVE, false), (ADJUST_RESERVE - Duration::from_millis(1), true)] {
        let deadline = Deadline::after(&clock, left);
        let wanted = Body::new(body.clone().into_bytes()).expect("it is text");
        let adjusted = Adjustments::default().adjust(wanted, &settings, None, &clock, deadline);
        let adjusted = adjusted.expect("it is read").endpoints;
        let names: Vec<&str> = adjusted.iter().map(|one| &*one.dns_name).collect();
        assert_eq!(names, ["web.example.com"], "{left:?}");
        assert_eq!(adjusted[0].property("webhook/tunnel-service").is_none(), is_late, "{left:?}");
        let problem = adjusted[0].property("webhook/invalid").unwrap_or_default();
        assert_eq!(problem.contains("too much to be read in its time"), is_late, "{left:?}: {problem}");
    }
}

/// ExternalDNS before 0.14 asks this itself.
#[test]
fn values_are_equal_where_their_texts_are() {
    let harness = Harness::new();
    let program = harness.start();
    for (current, equal) in [("http://web:80", true), ("http://web:81", false)] {
        let body = format!(
            r#"{{"name":"webhook/tunnel-service","previous":"http://web:80","current":"{current}"}}"#
        );
        let answer = program.external_dns().call("POST", "/propertyvaluesequal", &body);
        assert_eq!(answer.body, format!(r#"{{"equals":{equal}}}"#), "{}", answer.head);
    }
}
