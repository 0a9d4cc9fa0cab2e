//! What the core decides, from values alone: laws over random worlds, and examples.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "what is unexpected fails the test"
)]

<<<<<<< HEAD
mod access;
=======
mod access_guard;
>>>>>>> 9a6a46c (Ask again for a new path while Access is unread, and tell of a rule that opens)
mod adoption;
mod foreign_rules;
mod laws;
mod listing;
mod mass_deletion;
mod misspellings;
mod ownership;
