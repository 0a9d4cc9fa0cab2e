//! The program from outside: its two ports, its commands, and how it is as a process.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "what is unexpected fails the test"
)]

mod blocked_stderr;
mod commands;
mod dashboards;
mod deploy;
mod docs;
mod exit;
mod log_lines;
mod observe;
mod webhook;
