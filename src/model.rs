//! The nouns that every part speaks of: names, ids, records, zones, and ExternalDNS's endpoints.
//!
//! Values and how they are written, and no decision. It imports nothing of this program.

pub mod domain_filter;
pub mod endpoint;
pub mod hostname;
mod identifier;
pub(crate) mod json;
mod record;
pub(crate) mod text;
pub mod tunnel_id;
mod zone;

pub use domain_filter::DomainFilter;
pub use endpoint::Endpoint;
pub use hostname::{Hostname, HostnameError};
pub use identifier::{AccountId, RecordId, ZoneId};
pub use record::{NewRecord, Record, RecordPatch};
pub use tunnel_id::{TunnelId, TunnelIdError};
pub use zone::{Zone, ZonePlan};
