//! Reads what tells whose an endpoint is that is too long to be held.

use std::borrow::Cow;
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};

use crate::model::endpoint::{Endpoint, Labels};
use crate::model::hostname::HOSTNAME_MAX_BYTES;

/// Longer than any hostname, also without a trailing dot.
const NO_HOSTNAME_BYTES: usize = HOSTNAME_MAX_BYTES + 2;

/// Type and object, as far as they stand in `head`, the beginning of an endpoint.
pub(super) fn beginning_of(head: &str) -> Endpoint {
    let mut endpoint = Endpoint::default();
    // The error is expected: the text is cut off.
    let _ = Beginning(&mut endpoint).deserialize(&mut serde_json::Deserializer::from_str(head));
    endpoint
}

/// Reads type and object into an endpoint, as far as they come.
struct Beginning<'e>(&'e mut Endpoint);

impl<'de> DeserializeSeed<'de> for Beginning<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Beginning<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an endpoint")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self(endpoint) = self;
        while let Some(name) = map.next_key::<Cow<'_, str>>()? {
            match &*name {
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

/// Follows the text of one object to its end, and keeps its name.
#[derive(Debug, Default)]
pub(super) struct Skipped {
    depth: usize,
    is_text: bool,
    is_escaped: bool,
    /// The beginning of the last text of the object itself.
    text: Vec<u8>,
    /// The value of the name comes next.
    is_named: bool,
    name: Vec<u8>,
}

impl Skipped {
    /// True if the object ends with this byte.
    pub(super) fn ends_with(&mut self, byte: u8) -> bool {
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' if self.is_text => self.is_escaped = true,
            b'"' => {
                self.is_text = !self.is_text;
                if self.is_text {
                    self.text.clear();
                    return false;
                }
                if self.is_named && self.depth == 1 {
                    self.name = std::mem::take(&mut self.text);
                }
            }
            _ if self.is_text => {}
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth -= 1,
            b':' if self.depth == 1 => self.is_named = self.text == b"dnsName",
            b',' if self.depth == 1 => self.is_named = false,
            _ => {}
        }
        if self.is_text && self.depth == 1 && self.text.len() < NO_HOSTNAME_BYTES {
            self.text.push(byte);
        }
        self.depth == 0
    }

    /// The name, empty if there is none. Of one that is too long for a hostname, the beginning stands for it.
    pub(super) fn name(&self) -> String {
        let text = String::from_utf8_lossy(&self.name);
        serde_json::from_str(&format!("\"{text}\"")).unwrap_or_else(|_| text.into_owned())
    }
}
