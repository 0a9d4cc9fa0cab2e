//! A JSON object whose members keep their order, their duplicates and their bytes.
//!
//! Members are found as Go's `encoding/json` finds them, because cloudflared reads a configuration with it: case is
//! ignored, and the last of duplicates counts.

use std::borrow::Cow;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// A member as written.
#[derive(Clone, Debug)]
struct Member<'a> {
    key: Cow<'a, RawValue>,
    value: &'a RawValue,
}

impl Member<'_> {
    fn is(&self, name: &str) -> bool {
        text(&self.key).is_some_and(|key| is_same_key(&key, name))
    }
}

/// An object as written, with later changes.
#[derive(Clone, Debug, Default)]
pub(super) struct RawObject<'a> {
    members: Vec<Member<'a>>,
}

impl<'a> RawObject<'a> {
    /// Parses an object; `None` if `raw` is something else.
    pub(super) fn parse(raw: &'a RawValue) -> Option<Self> {
        serde_json::from_str(raw.get()).ok()
    }

    /// The value of the last member called `name`; `None` if there is none or it is `null`.
    pub(super) fn last(&self, name: &str) -> Option<&'a RawValue> {
        let last = self.members.iter().rfind(|member| member.is(name))?;
        (!is_null(last.value)).then_some(last.value)
    }

    /// Like `last`, for values that Go reads into a plain string or struct: there a `null` keeps the earlier value.
    pub(super) fn last_non_null(&self, name: &str) -> Option<&'a RawValue> {
        let last = self.members.iter().rfind(|member| member.is(name) && !is_null(member.value))?;
        Some(last.value)
    }

    /// True if Go reads the member as `true`.
    pub(super) fn is_true(&self, name: &str) -> bool {
        self.last_non_null(name).is_some_and(|value| value.get() == "true")
    }

    /// The members of all objects called `name`, joined, because Go reads duplicates into one struct.
    pub(super) fn nested(&self, name: &str) -> Self {
        let named = self.members.iter().filter(|member| member.is(name));
        let objects = named.filter_map(|member| Self::parse(member.value));
        Self { members: objects.flat_map(|object| object.members).collect() }
    }

    /// The names, as written, of the members whose name is not among `names`.
    pub(super) fn others_than(&self, names: &[&str]) -> Vec<Box<str>> {
        let others = self.members.iter().filter(|member| !names.iter().any(|name| member.is(name)));
        others.map(|member| text(&member.key).unwrap_or_default().into()).collect()
    }

    /// True if the member has this value, in any notation. Absent and `null` are the same.
    pub(super) fn holds(&self, name: &str, value: Option<&RawValue>) -> bool {
        let parsed = |raw: &RawValue| serde_json::from_str::<Value>(raw.get()).ok();
        let [present, wanted] = [self.last(name), value].map(|raw| raw.map(parsed));
        present == wanted && present != Some(None)
    }

    /// Sets the member to this value, or removes it. A member that has the value already keeps its bytes.
    pub(super) fn put(&mut self, name: &str, value: Option<&'a RawValue>) {
        if !self.holds(name, value) {
            self.replace(name, value);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Puts this value in place of the first member called `name`, or at the end, and removes all others of that name.
    pub(super) fn replace(&mut self, name: &str, value: Option<&'a RawValue>) {
        let present = self.members.iter().enumerate().find(|(_, member)| member.is(name));
        let (position, key) = match present {
            Some((position, member)) => (position, member.key.clone()),
            None => (self.members.len(), Cow::Owned(raw(name))),
        };
        self.members.retain(|member| !member.is(name));
        self.members.splice(position..position, value.map(|value| Member { key, value }));
    }

    /// The object's text: keys and untouched values keep their bytes, without blanks between members.
    pub(super) fn to_raw(&self) -> Box<RawValue> {
        let members = self.members.iter().map(|member| [member.key.get(), ":", member.value.get()].concat());
        from_json(format!("{{{}}}", members.collect::<Vec<_>>().join(",")))
    }
}

impl<'de> Deserialize<'de> for RawObject<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = RawObject<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((key, value)) = map.next_entry::<&'de RawValue, &'de RawValue>()? {
                    members.push(Member { key: Cow::Borrowed(key), value });
                }
                Ok(RawObject { members })
            }
        }

        deserializer.deserialize_map(Members)
    }
}

/// True if Go's `encoding/json` takes the key `key` for the field `field`: it uses Unicode's simple folding, in which
/// two characters beyond ASCII fold to ASCII letters.
fn is_same_key(key: &str, field: &str) -> bool {
    let fold = |character| match character {
        'ſ' => 's',
        '\u{212a}' => 'k',
        _ => character.to_ascii_lowercase(),
    };
    key.chars().map(fold).eq(field.chars().map(fold))
}

pub(super) fn is_null(raw: &RawValue) -> bool {
    raw.get() == "null"
}

/// The text of a JSON string; `None` if `raw` is something else, or not Unicode.
pub(super) fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    // Most strings need no unescaping, and `Cow` alone would always copy.
    if let Ok(borrowed) = serde_json::from_str::<&str>(raw.get()) {
        return Some(Cow::Borrowed(borrowed));
    }
    serde_json::from_str::<String>(raw.get()).ok().map(Cow::Owned)
}

/// The JSON of a value that can always be serialised.
pub(super) fn raw<T: Serialize + ?Sized>(value: &T) -> Box<RawValue> {
    serde_json::value::to_raw_value(value)
        .expect("strings and JSON values have string keys and no writer that fails")
}

/// A raw value from a JSON text that was put together from JSON values.
pub(super) fn from_json(json: String) -> Box<RawValue> {
    RawValue::from_string(json).expect("it was put together from JSON values")
}

/// The members of the list `raw`; `None` if it is not a list.
pub(super) fn list(raw: &RawValue) -> Option<Vec<&RawValue>> {
    serde_json::from_str(raw.get()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn only_objects_are_objects() {
        for json in ["null", "1", "[]", "\"{}\"", "true"] {
            assert!(RawObject::parse(&object(json)).is_none(), "{json}");
        }
        assert!(RawObject::parse(&object(" { } ")).unwrap().is_empty());
        let error = serde_json::from_str::<RawObject<'_>>("[]").map(drop).unwrap_err().to_string();
        assert!(error.contains("expected an object"), "{error}");
    }

    #[test]
    fn keys_are_found_as_go_finds_them() {
        let raw = object(
            r#"{"Path":"/a","PATH":"/b","path":null,"\u0068ost":1,"tcp\u212aeepAlive":3,"ſervice":4}"#,
        );
        let object = RawObject::parse(&raw).unwrap();
        assert!(object.last("path").is_none(), "a null at the end unsets a pointer");
        assert_eq!(object.last_non_null("path").unwrap().get(), "\"/b\"");
        assert_eq!(object.last("host").unwrap().get(), "1");
        assert_eq!(object.last("tcpKeepAlive").unwrap().get(), "3");
        assert_eq!(object.last("service").unwrap().get(), "4");
        assert!(object.last("hosts").is_none());
    }

    #[test]
    fn duplicate_objects_are_read_into_one() {
        let raw = object(r#"{"o":{"a":1,"b":2},"O":null,"o":{"A":3}}"#);
        let nested = RawObject::parse(&raw).unwrap().nested("o");
        assert_eq!(nested.last("a").unwrap().get(), "3");
        assert_eq!(nested.last("b").unwrap().get(), "2");
        assert!(nested.nested("a").is_empty());
    }

    #[test]
    fn unknown_members_are_told_without_case() {
        let raw = object(r#"{"HostName":"a","Service":"b"}"#);
        let object = RawObject::parse(&raw).unwrap();
        assert!(object.others_than(&["hostname", "service"]).is_empty());
        assert_eq!(object.others_than(&["hostname"]), ["Service".into()]);
    }
}
