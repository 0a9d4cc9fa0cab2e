//! A typed, blocking client of Cloudflare's API.
//!
//! It knows HTTP, paging, retries, rate limits and the API's envelope, and nothing of ExternalDNS. Reads are retried
//! within the caller's deadline if that can help. A write is sent at most once, and its error says if it may have been
//! done.

mod access;
mod client;
mod configuration;
mod envelope;
mod error;
mod error_class;
#[cfg(test)]
mod fixture;
mod limiter;
mod record;
mod resolver;
mod settings;
mod token;
mod transport;
mod tunnel;
mod zone;

pub use access::{AccountOrZone, parse_application};
pub use client::Client;
pub use configuration::Configuration;
pub use error::{Cause, Error, ErrorResponse};
pub use error_class::ApiResource;
pub use record::{Batch, WrittenRecord};
pub use settings::{BaseUrl, ClientSettings, Credentials, Proxy};
pub use token::{CREATE_TOKEN, GIVE_ACCESS, TOKEN_FORM, ZONE_APPLICATIONS_READ};
pub use transport::{TransportError, TransportErrorKind, roots};
pub use tunnel::{Connector, Tunnel};
