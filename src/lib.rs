//! An ExternalDNS webhook provider that publishes hostnames through Cloudflare Tunnels.
//!
//! ```text
//! external-dns ──HTTP──> webhook: sockets, routes, media types
//!                           │ Endpoint, Changes
//!                           v
//!                        provider: reads a snapshot, calls the pure core, carries out its plan step by step
//!                           │                                   │
//!                           v                                   v
//!         reconcile, pure: adjust · records · plan      cloudflare: HTTP client
//!         ingress, pure: the list of rules
//! ```
//!
//! Calls only go down, and the provider implements the trait `Handler` of `webhook`. All modules share the nouns of
//! `model`. `reconcile` and `ingress` decide from values alone: no I/O, no clock, no threads, no environment, no
//! logging.

pub mod cli;
pub mod clock;
pub mod cloudflare;
mod collections;
pub mod commands;
pub mod config;
#[cfg(test)]
mod fixture;
pub mod ingress;
mod label_values;
pub mod limits;
pub mod listener;
mod locks;
pub mod logging;
pub mod model;
pub mod observe;
pub mod provider;
pub mod reconcile;
pub mod regular_file;
pub mod secret;
pub mod serve;
pub mod shutdown;
pub mod webhook;
