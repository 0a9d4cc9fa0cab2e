//! The id of a tunnel.

use std::fmt;

/// What Cloudflare appends to a tunnel's id to make the name a record points to.
const DOMAIN: &str = ".cfargotunnel.com";

/// A tunnel's id: a UUID in lower case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TunnelId(Box<str>);

impl TunnelId {
    /// Reads a UUID with its dashes, in either case.
    pub fn parse(text: &str) -> Result<Self, TunnelIdError> {
        let is_uuid = text.len() == 36
            && text.bytes().enumerate().all(|(index, byte)| match index {
                8 | 13 | 18 | 23 => byte == b'-',
                _ => byte.is_ascii_hexdigit(),
            });
        if is_uuid {
            Ok(Self(text.to_ascii_lowercase().into()))
        } else {
            Err(TunnelIdError)
        }
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name that a record points to.
    pub fn hostname(&self) -> String {
        format!("{}{DOMAIN}", self.0)
    }

    /// The tunnel that a record's target belongs to, if it is one.
    pub fn from_hostname(hostname: &str) -> Option<Self> {
        let hostname = hostname.strip_suffix('.').unwrap_or(hostname);
        let (id, domain) = hostname.split_at_checked(36)?;
        if domain.eq_ignore_ascii_case(DOMAIN) {
            Self::parse(id).ok()
        } else {
            None
        }
    }
}

impl fmt::Display for TunnelId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The text is not a UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelIdError;

impl fmt::Display for TunnelIdError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a tunnel id is a UUID such as 6ff42ae2-765d-4adf-8112-31c55c1551ef")
    }
}

impl std::error::Error for TunnelIdError {}
