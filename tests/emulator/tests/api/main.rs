//! The API over real connections as a client meets it, the binary as tests in Go use it, and cloudflared's own
//! verdicts.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what cannot be read fails the test")]
#![allow(clippy::indexing_slicing, reason = "an absent member is null, which the assertion shows")]

mod access;
mod client;
mod configurations;
mod conformance;
mod edge;
mod faults;
mod ingress_vectors;
mod past;
mod program;
mod records;
mod tokens;
mod tunnels;
mod zones;
