//! Cloudflare Access: what asks visitors for a login, and what a rule requires of them.

pub mod cover;
pub mod guard;
pub mod place;
pub mod protection;
pub mod reading;
pub mod wish;
