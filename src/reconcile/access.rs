//! Cloudflare Access: the applications that ask visitors for a login, and the tokens that a rule requires.
//!
//! A place is a hostname or a path of it. Its protection changes only if an object asks for that. An endpoint without
//! Access properties preserves the protection of its place. Only `webhook-access-policy: none` opens a place.

pub mod answering;
pub mod applications;
pub mod destination;
pub mod gate;
pub mod guard;
pub mod host_protection;
pub mod open_rule;
pub mod opening;
pub mod place;
pub mod reading;
pub mod refused_visitors;
pub mod relying;
pub mod requests;
pub mod shown;
pub mod unneeded;
pub mod wanted;
