//! Reads the names of an endpoint that is too long to be read whole.

use std::borrow::Cow;
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};

use crate::model::endpoint::{Endpoint, Labels};

/// Name, type and object, as far as they stand in `head`, the beginning of an endpoint.
pub(super) fn names_in(head: &str) -> Endpoint {
    let mut endpoint = Endpoint::default();
    // The error is expected: the text is cut off.
    let _ = Names(&mut endpoint).deserialize(&mut serde_json::Deserializer::from_str(head));
    endpoint
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
