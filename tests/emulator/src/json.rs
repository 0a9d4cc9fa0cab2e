//! A JSON object as the ordered list of its members, each value as the text it was written as.
//!
//! Cloudflare keeps what it does not know, and Go reads keys without regard to case with the last duplicate
//! winning. Neither survives a map, so documents are taken apart one level at a time.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

/// The members of an object in their order, duplicates included.
#[derive(Clone, Debug, Default)]
pub(crate) struct Members(pub(crate) Vec<(String, Box<RawValue>)>);

impl Members {
    /// Takes the text of an object apart; `None` when it is not an object.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The value of `name` as Go's encoding/json finds it: keys without case, the last one wins.
    pub(crate) fn last(&self, name: &str) -> Option<&RawValue> {
        self.0.iter().rev().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
    }

    /// The same without `null`, which Go reads as absent.
    pub(crate) fn present(&self, name: &str) -> Option<&RawValue> {
        self.last(name).filter(|value| value.get() != "null")
    }

    /// The object as compact text, the values' bytes untouched.
    pub(crate) fn to_raw(&self) -> Box<RawValue> {
        to_raw(self)
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Ordered;

        impl<'de> Visitor<'de> for Ordered {
            type Value = Members;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Ordered)
    }
}

impl Serialize for Members {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// The JSON text of a value that always has one.
pub(crate) fn to_raw<T: Serialize + ?Sized>(value: &T) -> Box<RawValue> {
    serde_json::value::to_raw_value(value)
        .expect("maps with text keys, lists and scalars always have a JSON text")
}

/// Parses JSON text into its raw form.
pub(crate) fn raw(text: &str) -> Result<Box<RawValue>, serde_json::Error> {
    serde_json::from_str::<&RawValue>(text).map(ToOwned::to_owned)
}

/// Changes one member of an object; what is no object, or has no such member, is left as it is.
pub(crate) fn map_member(
    object: &RawValue,
    name: &str,
    change: &dyn Fn(&RawValue) -> Box<RawValue>,
) -> Box<RawValue> {
    let Some(mut members) = Members::parse(object.get()) else {
        return object.to_owned();
    };
    let mut changed = false;
    for (key, value) in &mut members.0 {
        if key == name {
            *value = change(value);
            changed = true;
        }
    }
    if changed { members.to_raw() } else { object.to_owned() }
}

/// The elements of an array as text; `None` when it is not an array.
pub(crate) fn elements(text: &str) -> Option<Vec<Box<RawValue>>> {
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_duplicates_and_spelling_of_numbers_survive() {
        let text = r#"{"b":1.50,"a":[ 1 ],"b":1e2}"#;
        assert_eq!(Members::parse(text).unwrap().to_raw().get(), text);
    }

    #[test]
    fn keys_are_found_as_go_finds_them() {
        let members = Members::parse(r#"{"Host":"a","hOST":"b","none":null}"#).unwrap();
        assert_eq!(members.last("host").unwrap().get(), "\"b\"");
        assert!(members.present("none").is_none());
    }
}
