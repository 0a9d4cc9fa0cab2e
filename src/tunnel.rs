//! What a tunnel is made of.

mod id;

pub use id::{TunnelId, TunnelIdError};
