//! The nouns of the domain: names, ids, records, zones, and ExternalDNS's endpoints.
//!
//! They are values and their text forms. Of the rest of the program, this folder uses only `crate::secret`, which keeps
//! secrets out of texts.

pub mod access;
pub mod domain_filter;
pub mod endpoint;
pub mod hostname;
pub(crate) mod identifier;
pub(crate) mod json;
pub(crate) mod log_line;
pub(crate) mod text;
mod zone;

pub use domain_filter::DomainFilter;
pub use endpoint::Endpoint;
pub use hostname::Hostname;
pub use identifier::{AccountId, RecordId, TunnelId, ZoneId};
pub use log_line::LogLine;
pub use zone::{NewRecord, Record, RecordPatch, Zone, ZonePlan};
