//! Reads DNS records by the thousand, and writes them in batches.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;

use super::client::{Client, path};
use super::error::Error;
use super::error_class::ApiResource;
use super::transport::Method;
use crate::clock::{Deadline, earliest_of, latest_of, unix_seconds_of};
use crate::limits::RECORDS_PER_PAGE;
use crate::model::hostname;
use crate::model::json::{null_is_default, number_in_any_form};
use crate::model::{NewRecord, Record, RecordId, RecordPatch, ZoneId};

/// The value with which Cloudflare chooses the TTL itself.
const TTL_AUTOMATIC: u32 = 1;

/// Changes to one zone's records. Cloudflare runs deletes, then patches, then posts, in one transaction: all or
/// nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Batch {
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "ids_as_objects")]
    pub deletes: Vec<RecordId>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<RecordPatch>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub posts: Vec<NewRecord>,
}

fn ids_as_objects<S: serde::Serializer>(ids: &[RecordId], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(ids.iter().map(|id| json!({ "id": id.as_str() })))
}

#[derive(Default, Deserialize)]
struct WireBatch {
    #[serde(default, deserialize_with = "null_is_default")]
    patches: Vec<WrittenRecord>,
    #[serde(default, deserialize_with = "null_is_default")]
    posts: Vec<WrittenRecord>,
}

/// A record that a batch created or changed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct WrittenRecord {
    pub id: RecordId,
    /// In normal form, like the name of a `Record`.
    #[serde(deserialize_with = "normalized")]
    pub name: Box<str>,
    modified_on: Option<Box<str>>,
    comment_modified_on: Option<Box<str>>,
}

fn normalized<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<str>, D::Error> {
    Ok(hostname::normalize(&Cow::<str>::deserialize(deserializer)?).into())
}

impl WrittenRecord {
    /// The earliest time since 1970 at which it may have been written; `None` if the answer does not say.
    pub(crate) fn written_at(&self) -> Option<Duration> {
        let times = [self.modified_on.as_deref(), self.comment_modified_on.as_deref()].into_iter();
        times.flatten().filter_map(earliest_of).max()
    }
}

/// Texts that are kept are copied once; all others are borrowed from the answer.
#[derive(Deserialize)]
struct WireRecord<'a> {
    id: RecordId,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, rename = "type")]
    record_type: Cow<'a, str>,
    #[serde(default, deserialize_with = "null_is_default")]
    content: Box<str>,
    #[serde(default, deserialize_with = "null_is_default")]
    proxied: bool,
    #[serde(default, deserialize_with = "number_in_any_form")]
    ttl: Option<u32>,
    #[serde(default, deserialize_with = "null_is_default")]
    comment: Box<str>,
    #[serde(default, deserialize_with = "null_is_default")]
    meta: WireMeta,
    #[serde(borrow)]
    created_on: Option<Timestamp<'a>>,
    #[serde(borrow)]
    modified_on: Option<Timestamp<'a>>,
    #[serde(borrow)]
    comment_modified_on: Option<Timestamp<'a>>,
}

/// In an `Option<Cow<str>>`, serde would copy the text.
#[derive(Deserialize)]
struct Timestamp<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Default, Deserialize)]
struct WireMeta {
    #[serde(default, deserialize_with = "null_is_default")]
    read_only: bool,
}

impl<'de> Deserialize<'de> for Record {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = WireRecord::deserialize(deserializer)?;
        let latest = |time: Option<Timestamp<'_>>| latest_of(&time?.0);
        Ok(Self {
            id: wire.id,
            // The specification says punycode, but Unicode was seen too.
            name: hostname::normalize(&wire.name).into(),
            record_type: type_of(wire.record_type),
            content: wire.content,
            proxied: wire.proxied,
            ttl: wire.ttl.unwrap_or(TTL_AUTOMATIC),
            comment: wire.comment,
            read_only: wire.meta.read_only,
            created_unix_seconds: wire.created_on.and_then(|time| seconds_of(&time.0)),
            // It is not known whether a change of the comment alone changes both.
            modified: latest(wire.modified_on).max(latest(wire.comment_modified_on)),
        })
    }
}

/// Thousands of records have few types, so the names of these types are not copied.
fn type_of(text: Cow<'_, str>) -> Cow<'static, str> {
    let known = ["A", "AAAA", "CNAME", "TXT", "MX", "NS", "SRV", "CAA"]
        .into_iter()
        .find(|record_type| *record_type == text);
    known.map_or_else(|| Cow::Owned(text.into_owned()), Cow::Borrowed)
}

pub(super) fn seconds_of(instant: &str) -> Option<u32> {
    unix_seconds_of(instant).and_then(|seconds| u32::try_from(seconds).ok())
}

impl Client {
    /// The records of a zone, in any order. A record that is created between two page reads makes another one appear
    /// twice, and a deleted one makes another one missing.
    pub fn records(&self, zone: &ZoneId, deadline: Deadline) -> Result<Vec<Record>, Error> {
        let path = path(&["zones", zone.as_str(), "dns_records"]);
        let (records, _) = self.list(ApiResource::Records, &path, "", RECORDS_PER_PAGE, deadline)?;
        Ok(records)
    }

    /// Changes records of a zone, all or nothing, and returns those that were created or changed, as far as the answer
    /// names them. Sent at most once.
    ///
    /// # Errors
    /// [`Error::may_have_been_done`] says if the zone has to be read again.
    pub fn batch(
        &self,
        zone: &ZoneId,
        batch: &Batch,
        deadline: Deadline,
    ) -> Result<Vec<WrittenRecord>, Error> {
        let body = serde_json::to_vec(batch).expect("texts, numbers and booleans are always JSON");
        let path = path(&["zones", zone.as_str(), "dns_records", "batch"]);
        let answer: Option<WireBatch> =
            self.write(ApiResource::Records, Method::POST, &path, &body, deadline)?;
        let WireBatch { patches, posts } = answer.unwrap_or_default();
        Ok([posts, patches].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloudflare::fixture::{Fixture, success};
    use crate::cloudflare::transport::Method;

    #[test]
    fn records_are_read_as_cloudflare_writes_them() {
        let fixture = Fixture::new([success(
            r#"[
                {"id":"r2","zone_id":"z1","zone_name":"example.com","name":"App.Example.com","type":"CNAME",
                 "content":"6ff42ae2-765d-4adf-8112-31c55c1551ef.cfargotunnel.com","proxiable":true,"proxied":true,"ttl":1,
                 "locked":false,"settings":{"flatten_cname":false},"meta":{"auto_added":false,"source":"primary"},
                 "comment":"edt=1","tags":[],"created_on":"2026-01-01T00:00:00.12345Z","modified_on":"2026-02-01T00:00:00Z",
                 "comment_modified_on":"2026-02-01T00:00:01.25Z"},
                {"id":"r1","name":"example.com","type":"MX","content":"route1.mx.cloudflare.net","priority":24,"proxied":false,
                 "ttl":300,"comment":null,"meta":{"read_only":true},"created_on":"a while ago"},
                {"id":"r3","name":"_sip._tcp.example.com","type":"SRV","data":{"port":5060},"ttl":60,"meta":null}
            ]"#,
        )]);
        let records = fixture.client.records(&ZoneId::new("z1"), fixture.deadline()).unwrap();
        let record = |id: &str, name: &str, record_type: &str, content: &str| Record {
            id: RecordId::new(id),
            name: name.into(),
            record_type: record_type.to_owned().into(),
            content: content.into(),
            proxied: false,
            ttl: 60,
            comment: "".into(),
            read_only: false,
            created_unix_seconds: None,
            modified: None,
        };
        assert_eq!(
            records,
            [
                Record {
                    proxied: true,
                    ttl: 1,
                    comment: "edt=1".into(),
                    created_unix_seconds: Some(1_767_225_600),
                    modified: Some(Duration::new(1_769_904_001, 259_999_999)),
                    ..record(
                        "r2",
                        "app.example.com",
                        "CNAME",
                        "6ff42ae2-765d-4adf-8112-31c55c1551ef.cfargotunnel.com"
                    )
                },
                Record {
                    ttl: 300,
                    read_only: true,
                    ..record("r1", "example.com", "MX", "route1.mx.cloudflare.net")
                },
                record("r3", "_sip._tcp.example.com", "SRV", ""),
            ]
        );
        assert_eq!(fixture.script.paths(), ["/zones/z1/dns_records?page=1&per_page=5000"]);
    }

    #[test]
    fn a_ttl_in_another_form_costs_no_zone() {
        for (ttl, expected) in [
            ("300.0", 300),
            (r#""300""#, 300),
            ("null", TTL_AUTOMATIC),
            (r#""auto""#, TTL_AUTOMATIC),
            ("-1", TTL_AUTOMATIC),
        ] {
            let fixture = Fixture::new([success(&format!(
                r#"[{{"id":"r1","name":"a.example.com","type":"A","ttl":{ttl}}}]"#
            ))]);
            let records = fixture.client.records(&ZoneId::new("z1"), fixture.deadline()).unwrap();
            assert_eq!(records[0].ttl, expected, "{ttl}");
        }
    }

    #[test]
    fn a_batch_holds_only_what_changes() {
        let fixture = Fixture::new([success("{}")]);
        let patch =
            RecordPatch { id: RecordId::new("r2"), content: None, proxied: None, comment: Some("".into()) };
        let batch = Batch {
            deletes: vec![RecordId::new("r1")],
            patches: vec![
                patch.clone(),
                RecordPatch {
                    content: Some("b.example".into()),
                    proxied: Some(true),
                    comment: None,
                    ..patch
                },
            ],
            posts: vec![NewRecord {
                name: "c.example.com".into(),
                record_type: "CNAME".into(),
                content: "d.example".into(),
                proxied: true,
                ttl: 1,
                comment: "edt=1".into(),
            }],
        };
        fixture.client.batch(&ZoneId::new("z1"), &batch, fixture.deadline()).unwrap();
        let sent = &fixture.script.sent()[0];
        assert_eq!((&sent.method, &*sent.path), (&Method::POST, "/zones/z1/dns_records/batch"));
        assert_eq!(
            sent.body.as_deref().unwrap(),
            concat!(
                r#"{"deletes":[{"id":"r1"}],"#,
                r#""patches":[{"id":"r2","comment":""},"#,
                r#"{"id":"r2","content":"b.example","proxied":true}],"#,
                r#""posts":[{"name":"c.example.com","type":"CNAME","content":"d.example","proxied":true,"ttl":1,"comment":"edt=1"}]}"#
            )
        );
    }

    /// The specification says punycode, but Unicode was seen too, as in lists of records.
    #[test]
    fn the_name_of_a_written_record_is_read_in_the_form_in_which_names_are_compared() {
        let fixture = Fixture::new([success(r#"{"posts":[{"id":"r1","name":"B\u00fccher.Example"}]}"#)]);
        let batch = Batch { deletes: vec![RecordId::new("r0")], ..Batch::default() };
        let written = fixture.client.batch(&ZoneId::new("z1"), &batch, fixture.deadline()).unwrap();
        assert_eq!(&*written[0].name, "xn--bcher-kva.example");
    }

    #[test]
    fn lists_without_an_entry_are_left_out_and_an_empty_comment_is_written() {
        let batch = Batch {
            posts: vec![NewRecord {
                name: "a.example".into(),
                record_type: "A".into(),
                content: "192.0.2.1".into(),
                proxied: false,
                ttl: 300,
                comment: "".into(),
            }],
            ..Batch::default()
        };
        assert_eq!(
            serde_json::to_string(&batch).unwrap(),
            r#"{"posts":[{"name":"a.example","type":"A","content":"192.0.2.1","proxied":false,"ttl":300,"comment":""}]}"#
        );
    }
}
