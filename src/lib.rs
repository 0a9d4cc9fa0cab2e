//! An ExternalDNS webhook provider that publishes hostnames through Cloudflare Tunnels.
//!
//! ```text
//! external-dns ──HTTP──> webhook: sockets, routes, media type
//!                           │ Endpoint, Changes
//!                           v
//!                        provider: read a snapshot, call the pure core, carry the plan out step by step
//!                           │                                   │
//!                           v                                   v
//!         reconcile, pure: adjust · records · plan      cloudflare: HTTP client
//!              tunnel, pure: the ingress list
//! ```
//!
//! Arrows only point down. `reconcile` and `tunnel` decide from values alone: no I/O, no clock, no threads, no
//! environment, no logging.

pub mod cli;
pub mod clock;
pub mod cloudflare;
pub mod commands;
pub mod config;
pub mod ingress;
pub mod limits;
pub mod listener;
mod locks;
pub mod logging;
pub mod model;
pub mod observe;
mod ordered;
pub mod provider;
pub mod reconcile;
pub mod regular_file;
pub mod secret;
pub mod serve;
pub mod shutdown;
pub mod webhook;
