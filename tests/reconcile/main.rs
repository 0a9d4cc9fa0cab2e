//! What the core decides, from values alone: laws over random worlds, and examples.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "what is unexpected fails the test"
)]

mod access;
mod access_guard;
mod adoption;
mod below_wildcards;
mod corrections;
mod foreign_endpoints;
mod foreign_rules;
mod hostname;
mod laws;
mod listing;
mod mass_deletion;
mod misspellings;
mod moves;
mod namespace_limits;
mod namespaces;
mod notes;
mod old_answers;
mod ownership;
mod protection;
mod protection_laws;
mod refused_rules;
mod routes;
mod stamps;
mod turns;
mod unwritable;
mod wildcards;
mod winner;
