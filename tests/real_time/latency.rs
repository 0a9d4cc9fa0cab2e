//! How soon an answer is there.

use std::time::{Duration, Instant};

use test_support::harness::{Harness, published};
use test_support::raw_http::Client;

/// Without TCP_NODELAY each answer of more than 1 KiB waits some 44 ms for a delayed acknowledgement.
#[test]
fn answers_do_not_wait_for_acknowledgements() {
    let harness = Harness::new();
    let program = harness.start();
    let endpoints: Vec<_> =
        (0..20).map(|number| published(&format!("{number}.example.com"), "http://web:80")).collect();
    let body = serde_json::to_string(&endpoints).expect("plain data");
    let mut client = Client::connect(program.external_dns().api);
    let mut times = [(); 31].map(|()| {
        let begun = Instant::now();
        assert!(client.post("/adjustendpoints", &body).body.len() > 1024);
        begun.elapsed()
    });
    times.sort_unstable();
    assert!(times[15] < Duration::from_millis(20), "median of {times:?}");
}
