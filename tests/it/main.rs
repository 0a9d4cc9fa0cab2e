//! The program at work in this process, against the emulator of Cloudflare, with ExternalDNS's conversation played to
//! it.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "what is unexpected fails the test"
)]

mod access_applications;
mod access_faults;
mod access_guard;
mod access_laws;
mod access_strangers;
mod access_withdrawals;
mod adjustments;
mod adoption;
mod caps;
mod conflicts;
mod connectors;
mod faults;
mod intercepted;
mod latency;
mod lies;
mod metrics;
mod migrations;
mod moves;
mod names;
mod old_answers;
mod other_writers;
mod publishing;
mod readiness;
mod refusals;
mod registry;
mod shared_account;
mod silence;
mod simulation;
mod status;
mod sweep;
mod tunnels;
mod turns;
mod unwritable;
mod visitors;
mod words;
mod write_loops;
mod zones;
