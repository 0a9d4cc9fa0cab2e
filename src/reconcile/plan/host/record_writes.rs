//! The operations on a hostname's records: its comment names the rules before they are written, and its target is the
//! tunnel that has them.

use super::adoption;
use super::comment::CommentPlan;
use super::writes::{Change, Repoint};
use crate::model::{NewRecord, Record, RecordPatch};
use crate::reconcile::plan::planned::{RecordOperation, Stage};
use crate::reconcile::stamp::Stamp;

impl Change<'_, '_> {
    /// The operations of Stamp and of Unstamp, which write the comment and point the record to its target.
    pub(super) fn record_operations(
        &self,
        comment: &CommentPlan,
    ) -> (Vec<RecordOperation>, Vec<RecordOperation>) {
        let host = self.host;
        let replaced = adoption::replaced(host);
        let mut stamp: Vec<_> = replaced.into_iter().map(RecordOperation::delete).collect();
        let mut unstamp = Vec::new();
        let (during, after) = comment.texts();
        match host.stamped_records().find(|record| record.is_cname()) {
            Some(record) => {
                let stamped = during.filter(|text| self.changes_stamp(record, text));
                let text_before = stamped.as_deref().unwrap_or(&record.comment).to_owned();
                let unstamped = after.filter(|text| self.meaning(&text_before) != self.meaning(text));
                stamp.extend(self.patch(record, Stage::Stamp, stamped));
                unstamp.extend(self.patch(record, Stage::Unstamp, unstamped));
            }
            None => stamp.extend(self.without_cname(during)),
        }
        (stamp, unstamp)
    }

    /// Creates a CNAME in place of records of other types. If the move waits, these records get the comment instead.
    fn without_cname(&self, comment: Option<Box<str>>) -> Vec<RecordOperation> {
        let host = self.host;
        let (Some(tunnel), Some(comment)) = (self.wanted_tunnel, comment) else { return Vec::new() };
        let records = host.stamped_records();
        if self.repoint == Repoint::Later {
            let stamped = records.filter(|record| self.changes_stamp(record, &comment));
            return stamped
                .filter_map(|record| self.patch(record, Stage::Stamp, Some(comment.clone())))
                .collect();
        }
        let post = RecordOperation::Post(NewRecord {
            name: host.name().into(),
            record_type: "CNAME".into(),
            content: tunnel.hostname().into(),
            proxied: true,
            ttl: 1,
            comment,
        });
        records.map(RecordOperation::delete).chain([post]).collect()
    }

    /// The patch of the record in Stamp or in Unstamp; `None` if it changes nothing. A record that points to a tunnel is
    /// proxied in Stamp, any other record when it is pointed to a tunnel.
    fn patch(&self, record: &Record, stage: Stage, comment: Option<Box<str>>) -> Option<RecordOperation> {
        let (wanted, is_pointed) = (self.wanted_tunnel, self.repoint.is_in(stage));
        let points_to_tunnel = record.tunnel().is_some();
        let proxies_now = if points_to_tunnel { stage == Stage::Stamp } else { is_pointed };
        let proxied = (wanted.is_some() && proxies_now && !record.proxied).then_some(true);
        let content = wanted.filter(|_| is_pointed).map(|tunnel| tunnel.hostname().into());
        let changes = content.is_some() || proxied.is_some() || comment.is_some();
        changes
            .then(|| RecordOperation::Patch(RecordPatch { id: record.id.clone(), content, proxied, comment }))
    }

    /// True if the record is taken over, or if `comment` differs in meaning from the record's comment. The parsed
    /// stamps are compared, so text that did not fit makes no difference.
    fn changes_stamp(&self, record: &Record, comment: &str) -> bool {
        self.host.takes_over_records() || self.meaning(&record.comment) != self.meaning(comment)
    }

    /// The stamp in a comment, bound to the hostname, so that a missing hostname code makes no difference.
    fn meaning(&self, comment: &str) -> Option<Stamp> {
        let mut stamp = Stamp::parse(comment)?;
        stamp.bind_to(self.host.name());
        Some(stamp)
    }
}
