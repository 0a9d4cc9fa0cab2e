//! The webhook on the real Cloudflare, without harm: a proxy passes reads, and writes only of what this run created.
//! The gate runs the same code against the emulator.
#![allow(missing_debug_implementations, reason = "only this kit and its test read it")]
// A member that an answer lacks reads as null. What is unexpected fails the step, and the run goes on to its end.
#![allow(clippy::indexing_slicing, clippy::panic)]

pub mod clean;
pub mod guard;
pub mod intents;
pub mod probes;
pub mod proxy;
pub mod report;
pub mod run;
pub mod shape;
pub mod steps;
