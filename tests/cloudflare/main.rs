//! The client of Cloudflare's API over real sockets.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "what is unexpected fails the test"
)]

mod behaviour;
mod certificate;
mod credential_file;
mod secrets;
mod server;
mod tls;
mod transport;
