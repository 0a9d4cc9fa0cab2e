//! The observation port: whether the process answers, whether it is ready, and metrics. Reached by anything in the
//! cluster, so its listener trusts nobody.

pub mod health;
pub mod metrics;
pub mod responder;
pub mod routes;
