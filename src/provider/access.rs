//! What the webhook reads of Cloudflare Access, and the applications that it writes there.

pub(super) mod policies;
pub(crate) mod reader;
pub(super) mod writer;
