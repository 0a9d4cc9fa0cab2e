//! Reads the `null` that Go and Cloudflare write in JSON for nothing.

use serde::{Deserialize, Deserializer};

/// Reads `null` like a missing member.
pub(crate) fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
