//! Cloudflare Access: what asks visitors for a login, and what a rule requires of them.
//!
//! A place, which is a hostname or a path of it, is as closed as it stands, until an object says otherwise. An endpoint
//! that says nothing of Access keeps what protects its place; only `webhook-access-policy: none` opens it.

pub mod answering;
pub mod cover;
pub mod gate;
pub mod guard;
pub mod host_protection;
pub mod opening;
pub mod place;
pub mod protections;
pub mod reading;
pub mod relying;
pub mod shown;
pub mod wish;
