//! Reads and writes Cloudflare Access.

pub(crate) mod reader;
pub(super) mod unneeded;
pub(super) mod writer;
