//! What Go and Cloudflare write in JSON where there is nothing.

use serde::{Deserialize, Deserializer};

/// Reads `null` as what a missing member is.
pub(crate) fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
