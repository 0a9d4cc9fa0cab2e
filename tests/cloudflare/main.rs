//! The client of Cloudflare's API over real sockets.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "what is unexpected fails the test"
)]

mod behaviour;
mod credential_file;
mod secrets;
mod server;
mod transport;
