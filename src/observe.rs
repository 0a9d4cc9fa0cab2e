//! The metrics port: liveness, readiness and metrics. Anything in the cluster can reach it, so its listener trusts
//! no client.

pub mod metrics;
pub mod readiness;
pub mod responder;
pub mod routes;
pub mod status;
