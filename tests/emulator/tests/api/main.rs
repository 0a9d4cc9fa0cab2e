//! The API over real connections, as a client meets it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what cannot be read fails the test")]
#![allow(clippy::indexing_slicing, reason = "an absent member is null, which the assertion shows")]

mod access;
mod client;
mod configurations;
mod conformance;
mod edge;
mod faults;
mod records;
mod tokens;
mod tunnels;
mod zones;
