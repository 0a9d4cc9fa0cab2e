//! The pure decisions: the meaning of an endpoint, the endpoints that ExternalDNS sees, and the writes of a request.
//!
//! Nothing here does I/O, reads a clock or the environment, or logs. Notes, refusals and counts are returned as
//! values.

pub mod access;
pub mod adjust;
pub mod adopt;
pub mod canonical;
pub mod endpoint_reader;
pub mod foreign;
pub mod groups;
pub mod heritage;
pub mod hint;
pub mod listing;
pub mod namespace;
pub mod note;
pub mod permitted;
pub mod plan;
pub mod plan_inputs;
pub mod property_name;
pub mod reason;
pub mod records;
pub mod refusal;
pub mod service_template;
pub mod settings;
pub mod snapshot;
pub mod stamp;
pub mod target;
pub mod wildcard;
mod winner;

pub use note::{Note, NoteKind};
pub use settings::{ConfiguredTunnel, OperatorSettings, Settings};
