//! What several test targets, the demo and the benches stand on: the program in this process, ExternalDNS's side of its
//! conversation, and worlds of values for the core.
#![allow(
    missing_debug_implementations,
    clippy::new_without_default,
    reason = "only the tests of this repository read it"
)]
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "what is unexpected fails the test"
)]

pub mod clock;
pub mod external_dns;
pub mod fake_cloudflare;
pub mod harness;
pub mod log;
pub mod own_process;
pub mod process;
pub mod raw_http;
pub mod sweeps;
