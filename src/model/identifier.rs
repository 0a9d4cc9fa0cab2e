//! The ids that Cloudflare gives accounts, zones, records and tunnels.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::model::text::fingerprint;

macro_rules! identifier {
    ($(#[$documentation:meta])* $name:ident) => {
        $(#[$documentation])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
        #[serde(transparent)]
        pub struct $name(Box<str>);

        impl $name {
            /// Wraps the id unchecked, because only Cloudflare knows which ids exist.
            pub fn new(text: impl Into<Box<str>>) -> Self {
                Self(text.into())
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }
    };
}

identifier! {
    /// The id of a zone.
    ZoneId
}

identifier! {
    /// The id of an account.
    AccountId
}

identifier! {
    /// The id of a DNS record.
    RecordId
}

/// The domain in which every tunnel has a hostname.
pub(crate) const TUNNEL_DOMAIN: &str = "cfargotunnel.com";

const NO_ID: &str =
    "a tunnel id is a UUID such as 6ff42ae2-765d-4adf-8112-31c55c1551ef; the tunnel's page shows it";

/// The beginning of ids that no tunnel has, because Cloudflare's ids are random.
const PLACEHOLDER_PREFIX: &str = "00000000-0000-0000-0000-";

/// The lengths of the groups of hexadecimal digits in a UUID.
const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];

/// A tunnel's id: a UUID in lower case. It is shared, because thousands of endpoints have one tunnel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TunnelId(Arc<str>);

impl TunnelId {
    /// Parses a UUID in either case.
    ///
    /// # Errors
    /// When `text` is not five groups of hexadecimal digits joined by hyphens.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let groups_fit = text.split('-').map(str::len).eq(GROUPS);
        let digits_fit = text.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
        if !groups_fit || !digits_fit {
            return Err(NO_ID);
        }
        Ok(Self(text.to_ascii_lowercase().into()))
    }

    /// The id of a tunnel that a dry run would create.
    pub(crate) fn placeholder(name: &str) -> Self {
        Self(format!("{PLACEHOLDER_PREFIX}{:012x}", fingerprint([name]) >> 16).into())
    }

    /// True if no tunnel has the id. Then no call is made for it.
    pub(crate) fn is_placeholder(&self) -> bool {
        self.0.starts_with(PLACEHOLDER_PREFIX)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The hostname that the records of published hostnames point to.
    pub fn hostname(&self) -> String {
        [self.as_str(), ".", TUNNEL_DOMAIN].concat()
    }

    /// The tunnel that a record points to, given its target in any case, with or without a trailing dot; `None` for any
    /// other target.
    pub fn from_hostname(hostname: &str) -> Option<Self> {
        let (id, domain) = hostname.split_once('.')?;
        let domain = domain.strip_suffix('.').unwrap_or(domain);
        if !domain.eq_ignore_ascii_case(TUNNEL_DOMAIN) {
            return None;
        }
        Self::parse(id).ok()
    }
}

impl fmt::Display for TunnelId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "6ff42ae2-765d-4adf-8112-31c55c1551ef";

    #[test]
    fn an_id_is_kept_in_lower_case() {
        let id = TunnelId::parse(&ID.to_uppercase()).unwrap();
        assert_eq!(id.as_str(), ID);
        assert_eq!(id.to_string(), ID);
    }

    #[test]
    fn what_is_not_a_uuid_is_refused() {
        for (label, text) in [
            ("empty", ""),
            ("a name", "shop"),
            ("no hyphens", "6ff42ae2765d4adf811231c55c1551ef"),
            ("a group short", "6ff42ae2-765d-4adf-8112"),
            ("a digit short", "6ff42ae2-765d-4adf-8112-31c55c1551e"),
            ("no digit", "6ff42ae2-765d-4adf-8112-31c55c1551eg"),
            ("braces", "{6ff42ae2-765d-4adf-8112-31c55c1551ef}"),
            ("a group more", "6ff42ae2-765d-4adf-8112-31c55c1551ef-"),
        ] {
            assert_eq!(TunnelId::parse(text), Err(NO_ID), "{label}");
        }
    }

    #[test]
    fn a_tunnels_hostname_leads_back_to_its_id() {
        let id = TunnelId::parse(ID).unwrap();
        assert_eq!(id.hostname(), format!("{ID}.cfargotunnel.com"));
        assert_eq!(TunnelId::from_hostname(&id.hostname()), Some(id.clone()));
        assert_eq!(TunnelId::from_hostname(&format!("{}.CFARGOTUNNEL.com.", ID.to_uppercase())), Some(id));
    }

    #[test]
    fn other_hostnames_lead_to_no_tunnel() {
        for text in [
            "example.com",
            "cfargotunnel.com",
            "shop.cfargotunnel.com",
            &format!("{ID}.cfargotunnel.com.example.com"),
            &format!("x.{ID}.cfargotunnel.com"),
            &format!("{ID}.example.com"),
            "",
        ] {
            assert_eq!(TunnelId::from_hostname(text), None, "{text}");
        }
    }
}
