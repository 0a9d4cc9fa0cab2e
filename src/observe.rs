//! The observation port: whether the process answers, and whether it is ready. Reached by anything in the cluster, so
//! its listener trusts nobody.

pub mod health;
pub mod responder;
