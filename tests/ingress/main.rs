//! Edits of one tunnel's ingress list: examples, laws, and what cloudflared itself says.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "what is unexpected fails the test"
)]

mod edits;
mod generator;
mod laws;
mod options;
mod vectors;
