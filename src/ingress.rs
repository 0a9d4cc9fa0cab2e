//! The ingress list of a Cloudflare Tunnel: an ordered list of rules in which the first match wins.
//!
//! This folder edits, without I/O, a document that has other authors too. It decides the place of each rule of ours,
//! the changes of a rule, and what is valid. Its callers say which rules are ours. It must not know HTTP, ExternalDNS
//! or Cloudflare's client.
//!
//! `tests/emulator/vectors/cloudflared-ingress.jsonl` pins what cloudflared accepts and matches; running cloudflared
//! 2026.8.2 made that file.

pub mod access;
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
pub use edit::{Owned, RuleEdit};
pub use hosts::Hosts;
pub use origin_option::OriginOption;
pub use origin_request::OriginRequest;
pub use path::PathPattern;
pub use rule::{Rule, WantedRule};
pub use service::{Service, looks_like_service};
