//! Reads and writes Cloudflare Access.

mod reader;
mod unneeded;
pub(super) mod writer;
