//! Cloudflare on loopback.
