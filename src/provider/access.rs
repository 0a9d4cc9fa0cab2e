//! Reads and writes Cloudflare Access.

pub(super) mod left;
pub(crate) mod reader;
pub(super) mod writer;
