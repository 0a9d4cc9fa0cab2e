//! What takes seconds, measures time or memory, or needs sockets that time out: the night runs it, one test at a time.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "what is unexpected fails the test, and time is what it is about"
)]

mod ends;
mod families;
mod hanging_calls;
mod latency;
mod memory;
mod processor_time;
mod stalled_bodies;
