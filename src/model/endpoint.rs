//! ExternalDNS's vocabulary: endpoints, their properties, and the changes it asks for.
//!
//! The type [`Endpoint`] mirrors `endpoint.Endpoint` of ExternalDNS. ExternalDNS omits empty fields, and writes `null`
//! for a nil list. Both forms are read; [`crate::webhook::body`] reads the lists. This program also omits empty fields,
//! so that both sides look alike.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::json::null_is_default;

/// An endpoint, in ExternalDNS's form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Endpoint {
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    pub dns_name: String,
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
    /// `A`, `AAAA`, `CNAME`, `TXT`, …
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    pub record_type: String,
    /// Distinguishes endpoints of the same name and type.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    pub set_identifier: String,
    /// In seconds; 0 if none is asked for.
    #[serde(rename = "recordTTL", deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub record_ttl: i64,
    /// `owner`, `resource`, …
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// Properties that only the provider understands.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub provider_specific: Vec<Property>,
}

impl Endpoint {
    /// True if a published hostname may come from an endpoint of this type.
    pub fn is_address_or_cname(&self) -> bool {
        ["A", "AAAA", "CNAME"].contains(&&*self.record_type)
    }

    /// The number of bytes in all its texts.
    pub fn text_bytes(&self) -> usize {
        let Self { dns_name, targets, record_type, set_identifier, record_ttl: _, labels, provider_specific } =
            self;
        let pairs = provider_specific.iter().chain(&*labels.0);
        let pairs = pairs.map(|Property { name, value }| name.len() + value.len());
        dns_name.len()
            + record_type.len()
            + set_identifier.len()
            + targets.iter().map(String::len).chain(pairs).sum::<usize>()
    }

    /// Its approximate size in memory: each text and each list is a separate allocation.
    pub fn memory_bytes(&self) -> usize {
        /// The allocator's overhead, rounding included.
        const ALLOCATION_BYTES: usize = 20;
        /// The initial capacity of a list.
        const ROOM: usize = 4;

        let Self { targets, labels, provider_specific, .. } = self;
        let properties = provider_specific.len().max(ROOM) + labels.0.len();
        let allocations = 6 + targets.len() + 2 * (provider_specific.len() + labels.0.len());
        size_of::<Self>()
            + self.text_bytes()
            + allocations * ALLOCATION_BYTES
            + targets.len().max(ROOM) * size_of::<String>()
            + properties * size_of::<Property>()
    }

    /// The value of the first property called `name`.
    pub fn property(&self, name: &str) -> Option<&str> {
        self.provider_specific
            .iter()
            .find(|property| *property.name == *name)
            .map(|property| &*property.value)
    }
}

/// A provider-specific property. ExternalDNS omits an empty value.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(default)]
pub struct Property {
    /// For example `webhook/tunnel-service`.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "str::is_empty")]
    pub name: Box<str>,
    /// The annotation's value, verbatim.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "str::is_empty")]
    pub value: Box<str>,
}

impl Property {
    pub fn new(name: impl Into<Box<str>>, value: impl Into<Box<str>>) -> Self {
        Self { name: name.into(), value: value.into() }
    }
}

/// The name of the annotation that sets this property, without ExternalDNS's prefix.
pub(crate) fn annotation_of(property: &str) -> String {
    property.replace('/', "-")
}

/// The labels of an endpoint, sorted by key. A map for each of thousands of endpoints would take four times the memory.
/// Labels have the type of properties, so that the program needs only one sort function. They are shared with the
/// endpoints derived from this one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Labels(Arc<[Property]>);

impl Labels {
    /// Sets `key` to `value`, replacing any value it had.
    pub fn set(&mut self, key: &str, value: &str) {
        let others =
            self.0.iter().map(|label| (&*label.name, &*label.value)).filter(|(name, _)| *name != key);
        *self = others.chain([(key, value)]).collect();
    }

    pub fn value(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|label| *label.name == *key).map(|label| &*label.value)
    }

    /// All labels except `key`.
    #[must_use]
    pub fn without(&self, key: &str) -> Self {
        if self.value(key).is_none() {
            return self.clone();
        }
        Self(self.0.iter().filter(|label| *label.name != *key).cloned().collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The keys have to be unique.
impl<'a> FromIterator<(&'a str, &'a str)> for Labels {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(pairs: I) -> Self {
        let labels = pairs.into_iter().map(|(key, value)| Property::new(key, value));
        let mut labels: Vec<Property> = labels.collect();
        labels.sort_unstable();
        Self(labels.into())
    }
}

impl Serialize for Labels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|label| (&label.name, &label.value)))
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let labels = BTreeMap::<Box<str>, Option<Box<str>>>::deserialize(deserializer)?.into_iter();
        Ok(Self(labels.map(|(key, value)| Property::new(key, value.unwrap_or_default())).collect()))
    }
}

/// The changes that `POST /records` asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The endpoints to be created, and those to be updated in their wanted form.
    pub wanted: Vec<Endpoint>,
    pub deleted: Vec<Endpoint>,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_and_null_fields_are_empty() {
        let bare: Endpoint = serde_json::from_str("{}").expect("every field may be absent");
        assert_eq!(bare, Endpoint::default());
        let null = r#"{"dnsName":null,"targets":null,"recordType":null,"setIdentifier":null,"recordTTL":null,
            "labels":null,"providerSpecific":null}"#;
        assert_eq!(serde_json::from_str::<Endpoint>(null).expect("every field may be null"), bare);
        let valueless = r#"{"providerSpecific":[{"name":"webhook/x"}]}"#;
        let endpoint: Endpoint = serde_json::from_str(valueless).expect("a property without a value");
        assert_eq!(endpoint.property("webhook/x"), Some(""));
    }

    #[test]
    fn labels_are_sorted_and_each_key_is_there_once() {
        let text = r#"{"b":"2","a":null,"c":"3","b":"1"}"#;
        let labels: Labels = serde_json::from_str(text).expect("a map of texts");
        assert_eq!(labels, Labels::from_iter([("a", ""), ("b", "1"), ("c", "3")]));
        assert_eq!(serde_json::to_string(&labels).expect("plain data"), r#"{"a":"","b":"1","c":"3"}"#);
        let error = serde_json::from_str::<Labels>("[]").expect_err("no map").to_string();
        assert!(error.contains("expected a map"), "{error}");
    }

    #[test]
    fn an_endpoint_is_as_large_as_its_texts_its_lists_and_their_allocations() {
        let text = |length: usize| "x".repeat(length);
        let allocation = 20;
        let bare = Endpoint::default();
        let room = 4 * (size_of::<String>() + size_of::<Property>());
        assert_eq!(bare.memory_bytes(), size_of::<Endpoint>() + room + 6 * allocation);

        let mut endpoint =
            Endpoint { dns_name: text(11), record_type: text(3), set_identifier: text(5), ..bare.clone() };
        assert_eq!(endpoint.text_bytes(), 19);
        assert_eq!(endpoint.memory_bytes(), bare.memory_bytes() + 19);

        // A list has room for four from the first on.
        endpoint.targets = vec![text(7); 4];
        endpoint.provider_specific = vec![Property::new(text(2), text(9)); 4];
        let four = endpoint.memory_bytes();
        assert_eq!(endpoint.text_bytes(), 19 + 4 * (7 + 11));
        assert_eq!(four, bare.memory_bytes() + 19 + 4 * (7 + 11) + 4 * 3 * allocation);

        endpoint.targets.push(text(70));
        endpoint.provider_specific.push(Property::new(text(20), text(90)));
        let five = endpoint.memory_bytes();
        assert_eq!(five - four, 180 + size_of::<String>() + size_of::<Property>() + 3 * allocation);

        endpoint.labels = Labels::from_iter([(&*text(6), &*text(8))]);
        assert_eq!(endpoint.memory_bytes() - five, 14 + size_of::<Property>() + 2 * allocation);
    }

    /// Inserting them one by one took minutes.
    #[test]
    fn half_a_million_labels_in_the_worst_order_are_read_in_seconds() {
        let mut text = String::from(r#"{"labels":{"last":"""#);
        for number in (0..500_000).rev() {
            text.push_str(&format!(r#","{number:06}":"""#));
        }
        text.push_str("}}");
        let endpoint: Endpoint = serde_json::from_str(&text).expect("a map of texts");
        assert_eq!(endpoint.labels.0.len(), 500_001);
        assert_eq!(endpoint.labels.value("000007"), Some(""));
    }

    /// Go sends nothing like this. If it ever does, the request must still be read, because a failure ends ExternalDNS.
    #[test]
    fn what_an_endpoint_may_hold_in_excess_is_read() {
        let nested = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        let text = "x".repeat(2_000_000);
        let properties = vec!["{}"; 100_000].join(",");
        let targets = vec![r#""""#; 100_000].join(",");
        for (label, fields) in [
            ("fields that are not known, nested deeply", format!(r#""new":{nested}"#)),
            ("a number that no type holds, in such a field", format!(r#""new":1{}"#, "0".repeat(400))),
            ("one long text", format!(r#""setIdentifier":"{text}""#)),
            ("one long text of escapes", format!(r#""setIdentifier":"{}""#, r"ä".repeat(300_000))),
            ("many properties", format!(r#""providerSpecific":[{properties}]"#)),
            ("many targets", format!(r#""targets":[{targets}]"#)),
        ] {
            let endpoint: Result<Endpoint, _> =
                serde_json::from_str(&format!(r#"{{"dnsName":"a.example.com",{fields}}}"#));
            assert_eq!(endpoint.expect(label).dns_name, "a.example.com", "{label}");
        }
    }

    #[test]
    fn an_empty_endpoint_is_written_as_an_empty_object() {
        assert_eq!(serde_json::to_string(&Endpoint::default()).expect("it is plain data"), "{}");
    }
}
