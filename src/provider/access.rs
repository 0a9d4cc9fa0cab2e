//! Reads and writes Cloudflare Access.

mod reader;
pub(super) mod unneeded;
pub(super) mod writer;
