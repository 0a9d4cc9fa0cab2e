//! The ingress list of a Cloudflare Tunnel: an ordered list of rules in which the first match wins.
//!
//! This folder edits a document that has other authors too. It decides the position of our rules, what changes in a
//! rule, and what is valid. It knows neither HTTP nor Cloudflare's client, and of ExternalDNS only the names of
//! properties. The caller says which rules are ours.
//!
//! `tests/emulator/vectors/cloudflared-ingress.jsonl` pins what cloudflared itself accepts and matches; it was made by
//! running cloudflared 2026.8.2.

pub mod access_check;
pub mod document;
pub mod edit;
mod hosts;
mod order;
pub mod origin_option;
pub mod origin_request;
pub mod path;
mod raw_object;
pub mod rule;
pub mod service;

pub use document::{Document, Edited};
pub use edit::{MarkedRules, RuleEdit};
pub use origin_option::OriginOption;
pub use origin_request::OriginRequest;
pub use path::PathPattern;
pub use rule::{Rule, WantedRule};
pub use service::{Service, is_status, looks_like_service};
