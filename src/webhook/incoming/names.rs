//! Reads the names of an endpoint that is too long to be read whole.

use std::borrow::Cow;
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};

use crate::model::endpoint::{Endpoint, Labels};
use crate::model::hostname::HOSTNAME_MAX_BYTES;

/// What a name begins with where it comes first, as ExternalDNS writes it.
const NAME_FIRST: &str = r#"{"dnsName":""#;

/// Longer than any hostname, also without a trailing dot.
const NO_HOSTNAME_CHARS: usize = HOSTNAME_MAX_BYTES + 2;

/// Name, type and object, as far as they stand in `head`, the beginning of an endpoint; `None` without a name. One that
/// does not end there is no hostname, and its beginning stands for it.
pub(super) fn names_in(head: &str) -> Option<Endpoint> {
    let mut endpoint = Endpoint::default();
    // The error is expected: the text is cut off.
    let _ = Names(&mut endpoint).deserialize(&mut serde_json::Deserializer::from_str(head));
    if endpoint.dns_name.is_empty() {
        let name = head.strip_prefix(NAME_FIRST)?.chars();
        endpoint.dns_name = name.take_while(|letter| *letter != '"').take(NO_HOSTNAME_CHARS).collect();
    }
    Some(endpoint)
}

/// Reads name, type and object into an endpoint, as far as they come.
struct Names<'e>(&'e mut Endpoint);

impl<'de> DeserializeSeed<'de> for Names<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Names<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an endpoint")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self(endpoint) = self;
        while let Some(name) = map.next_key::<Cow<'_, str>>()? {
            match &*name {
                "dnsName" => endpoint.dns_name = map.next_value::<Option<String>>()?.unwrap_or_default(),
                "recordType" => {
                    endpoint.record_type = map.next_value::<Option<String>>()?.unwrap_or_default()
                }
                "labels" => endpoint.labels = map.next_value::<Option<Labels>>()?.unwrap_or_default(),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}
