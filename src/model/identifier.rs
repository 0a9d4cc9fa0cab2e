//! The ids that Cloudflare gives zones, accounts and records.

use std::fmt;

use serde::{Deserialize, Serialize};

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
