//! Remembers the newest state of tunnels and records that this process read or wrote, to recognize old answers: a plan
//! from an old answer would delete or miss newer rules and records. A list that lacks a new record is not recognized;
//! Cloudflare rejects the second creation of that record. Of the content, only a tunnel's id and the presence of rules
//! are compared, beside versions and times, because Cloudflare may rewrite the content that it stores.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::cloudflare::{Configuration, WrittenRecord};
use crate::ingress::Document;
use crate::model::{Record, RecordId, TunnelId};

/// If the newest version was not seen for this time, an answer with a lower version is believed: an operator may have
/// restored an earlier configuration.
const VERSION_MAX_AGE: Duration = Duration::from_secs(600);

/// After a batch, a list of records may not show the batch for this time.
const BATCH_MAX_AGE: Duration = Duration::from_secs(120);

/// The records of two full requests. For further records, an old list is not recognized.
const RECORDS_MAX: usize = 2_000;

#[derive(Debug, Default)]
pub(crate) struct Newest {
    versions: BTreeMap<TunnelId, Version>,
    records: BTreeMap<RecordId, Written>,
}

/// The last write of a record.
#[derive(Debug)]
struct Written {
    state: WrittenState,
    answered_at: Instant,
}

#[derive(Clone, Copy, Debug)]
enum WrittenState {
    Deleted,
    /// The earliest time of the write by Cloudflare's clock.
    Modified(Duration),
}

/// The newest configuration of a tunnel.
#[derive(Debug)]
struct Version {
    state: VersionState,
    seen_at: Instant,
}

/// A version is newer with a higher number. With the same number, it is newer once a read showed rules in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct VersionState {
    number: i64,
    has_shown_rules: bool,
}

impl Written {
    /// True if a list of records may not show the write yet.
    fn is_recent(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.answered_at) < BATCH_MAX_AGE
    }

    /// True if `listed` is the record as it was before the write.
    fn is_newer_than(&self, listed: &Record) -> bool {
        match self.state {
            WrittenState::Deleted => true,
            WrittenState::Modified(written) => listed.modified.is_some_and(|modified| modified < written),
        }
    }
}

impl Newest {
    /// Remembers the version of the answer to a read, which gave `document`. Returns the evidence if the answer is old.
    /// An answer that arrives after a newer answer counts as old too, and the caller reads once more.
    pub(crate) fn see_configuration(
        &mut self,
        tunnel: &TunnelId,
        answer: &Configuration,
        document: &Document,
        now: Instant,
    ) -> Option<String> {
        if let Some(other) = answer.tunnel.as_ref().filter(|other| *other != tunnel) {
            return Some(format!("the answer is about tunnel {other}"));
        }
        let number = answer.version;
        let has_rules = !document.rules().is_empty();
        // Cloudflare may send a version in a form that this program does not know.
        if number < 0 && has_rules {
            return None;
        }
        let state = VersionState { number, has_shown_rules: number > 0 && has_rules };
        let newer = self.remember_version(tunnel, state, now)?;
        Some(if newer.number == number {
            format!("version {number} came without the rules that it had before")
        } else {
            format!("version {number} came after version {}", newer.number)
        })
    }

    /// Remembers the configuration in the answer to a write. The write succeeded, so a lower version is no error.
    pub(crate) fn remember_configuration(
        &mut self,
        tunnel: &TunnelId,
        written: &Configuration,
        now: Instant,
    ) {
        let state = VersionState { number: written.version, has_shown_rules: false };
        if state.number >= 0 && written.tunnel.as_ref().is_none_or(|other| other == tunnel) {
            self.remember_version(tunnel, state, now);
        }
    }

    /// Remembers a version, unless a newer one was seen recently. Returns the newer one.
    fn remember_version(
        &mut self,
        tunnel: &TunnelId,
        state: VersionState,
        now: Instant,
    ) -> Option<VersionState> {
        if let Some(Version { state: newest, seen_at }) = self.versions.get(tunnel)
            && state < *newest
            && now.saturating_duration_since(*seen_at) < VERSION_MAX_AGE
        {
            return Some(*newest);
        }
        self.versions.insert(tunnel.clone(), Version { state, seen_at: now });
        None
    }

    /// The newest version of the tunnel's configuration that was read or written.
    pub(crate) fn version(&self, tunnel: &TunnelId) -> Option<i64> {
        self.versions.get(tunnel).map(|version| version.state.number)
    }

    /// Remembers the records of a completed batch.
    pub(crate) fn remember_batch(&mut self, deleted: &[RecordId], written: &[WrittenRecord], now: Instant) {
        self.records.retain(|_, write| write.is_recent(now));
        let deleted = deleted.iter().map(|id| (id, WrittenState::Deleted));
        let modified = |record: &WrittenRecord| record.written_at().map(WrittenState::Modified);
        let written = written.iter().filter_map(|record| Some((&record.id, modified(record)?)));
        for (id, state) in deleted.chain(written) {
            if self.records.len() < RECORDS_MAX || self.records.contains_key(id) {
                self.records.insert(id.clone(), Written { state, answered_at: now });
            }
        }
    }

    /// The evidence that a list of records is old; `None` if there is none.
    pub(crate) fn evidence_of_old_list(&self, list: &[Record], now: Instant) -> Option<String> {
        let is_old = |record: &&Record| {
            let recent = self.records.get(&record.id).filter(|write| write.is_recent(now));
            recent.is_some_and(|write| write.is_newer_than(record))
        };
        let Record { name, .. } = list.iter().find(is_old)?;
        Some(format!("the list shows the record of {name} as it was before the webhook's last write"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use crate::fixture::tunnel;
    use crate::provider::memory::year;

    fn answer(version: i64) -> Configuration {
        Configuration { tunnel: None, version, is_locally_managed: None, config: None }
    }

    fn document(has_rules: bool) -> Document {
        let text = if has_rules { r#"{"ingress":[{"service":"http_status:404"}]}"# } else { "{}" };
        Document::parse(Some(&RawValue::from_string(text.to_owned()).unwrap())).unwrap()
    }

    #[allow(clippy::disallowed_methods, reason = "any instant will do")]
    fn start() -> Instant {
        Instant::now()
    }

    /// A version that was read after so many seconds.
    fn read(
        seen: &mut Newest,
        start: Instant,
        seconds: u64,
        version: i64,
        has_rules: bool,
    ) -> Option<String> {
        let now = start + Duration::from_secs(seconds);
        seen.see_configuration(&tunnel(), &answer(version), &document(has_rules), now)
    }

    #[test]
    fn a_lower_version_is_old_until_the_highest_one_was_not_seen_for_ten_minutes() {
        let (mut seen, start) = (Newest::default(), start());
        for (seconds, version, has_rules, old) in [
            (0, 7, true, None),
            (1, 6, true, Some("version 6 came after version 7")),
            (500, 7, true, None),
            (501, -1, true, None),
            (502, 7, false, Some("version 7 came without the rules that it had before")),
            (1_099, 6, true, Some("version 6 came after version 7")),
            (1_100, 6, true, None),
            (1_101, 5, true, Some("version 5 came after version 6")),
            (1_102, 8, false, None),
            (1_103, 8, false, None),
            (1_104, 8, true, None),
            (1_105, -1, false, Some("version -1 came after version 8")),
            (1_106, 9, false, None),
            (1_107, 9, false, None),
            (1_108, 8, true, Some("version 8 came after version 9")),
        ] {
            let found = read(&mut seen, start, seconds, version, has_rules);
            assert_eq!(found.as_deref(), old, "after {seconds} s");
        }
        let mut first = Newest::default();
        for has_rules in [true, false] {
            assert_eq!(read(&mut first, start, 0, 0, has_rules), None, "the first write may give 0");
        }
    }

    #[test]
    fn what_was_written_has_the_version_of_its_answer_and_no_rules_that_were_read() {
        let (mut seen, start) = (Newest::default(), start());
        seen.remember_configuration(&tunnel(), &answer(4), start);
        assert_eq!(read(&mut seen, start, 1, 4, false), None);
        assert!(read(&mut seen, start, 3, 3, true).is_some());
        for (version, noted) in [(3, 4), (-1, 4), (6, 6)] {
            seen.remember_configuration(&tunnel(), &answer(version), start);
            assert_eq!(seen.version(&tunnel()), Some(noted), "{version}");
        }
    }

    #[test]
    fn an_answer_about_another_tunnel_is_old_whatever_was_seen() {
        let (mut seen, start) = (Newest::default(), start());
        let other = TunnelId::parse("00000000-a4ef-4643-bbbc-4a0ed4fc8415").unwrap();
        for (id, is_old) in [(other, true), (tunnel(), false)] {
            let answer = Configuration { tunnel: Some(id), ..answer(1) };
            seen.remember_configuration(&tunnel(), &answer, start);
            assert_eq!(seen.version(&tunnel()).is_none(), is_old);
            let evidence = seen.see_configuration(&tunnel(), &answer, &document(true), start);
            assert_eq!(evidence.is_some(), is_old);
        }
    }

    fn listed(id: &str, modified_on: &str) -> Record {
        let text = format!(r#"{{"id":"{id}","name":"a.example","type":"A","modified_on":"{modified_on}"}}"#);
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_list_is_old_if_it_shows_a_record_as_before_our_batch_of_the_last_two_minutes() {
        let (mut seen, start) = (Newest::default(), start());
        let written = r#"[{"id":"r1","name":"a.example","modified_on":"2026-01-01T00:00:10.5Z"},
            {"id":"r2","name":"a.example","modified_on":"2026-01-01T00:00:01Z",
             "comment_modified_on":"2026-01-01T00:00:10.123456Z"},
            {"id":"r3","name":"a.example","modified_on":"a while ago"}]"#;
        let written: Vec<WrittenRecord> = serde_json::from_str(written).unwrap();
        seen.remember_batch(&[RecordId::new("r4")], &written, start);
        for (id, fraction, is_old) in [
            ("r1", ":10.5Z", false),
            ("r1", ":10.500000Z", false),
            ("r1", ":10Z", false),
            ("r1", ":10.4Z", true),
            ("r1", ":10.499999Z", true),
            ("r1", ":09Z", true),
            ("r1", ":11Z", false),
            ("r2", ":10.123456Z", false),
            ("r2", ":10.12Z", false),
            ("r2", ":10.123455Z", true),
            ("r3", ":00Z", false),
            ("r4", ":59Z", true),
            ("r5", ":00Z", false),
        ] {
            let list = [listed("r0", "x"), listed(id, &format!("2026-01-01T00:00{fraction}"))];
            assert_eq!(seen.evidence_of_old_list(&list, start).is_some(), is_old, "{id} {fraction}");
            assert_eq!(seen.evidence_of_old_list(&list, start + BATCH_MAX_AGE), None, "{id} {fraction}");
        }
        assert_eq!(seen.evidence_of_old_list(&[listed("r1", "a while ago")], start), None, "without a time");
    }

    #[test]
    fn a_year_of_writes_leaves_the_last_ones() {
        let mut seen = Newest::default();
        for (number, now) in year::loops() {
            seen.remember_configuration(&tunnel(), &answer(number as i64), now);
            let ids: Vec<RecordId> = (0..3).map(|index| RecordId::new(format!("{number} {index}"))).collect();
            seen.remember_batch(&ids, &[], now);
        }
        assert_eq!((seen.versions.len(), seen.records.len()), (1, 3));
        let many: Vec<RecordId> =
            (0..2 * RECORDS_MAX).map(|number| RecordId::new(number.to_string())).collect();
        seen.remember_batch(&many, &[], start());
        assert_eq!(seen.records.len(), RECORDS_MAX);
    }
}
