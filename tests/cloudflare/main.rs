//! The client of Cloudflare's API over real sockets.

mod secrets;
mod server;
mod transport;
