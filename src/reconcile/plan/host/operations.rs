//! The hostname's own record: what each stage has to write for it, and its stamp.

use std::collections::BTreeSet;

use super::{Host, Wanted};
use crate::cloudflare::{NewRecord, Plan as ZonePlan, Record, RecordPatch};
use crate::limits;
use crate::reconcile::namespace;
use crate::reconcile::plan::{HostPlan, Reason, RecordOperation, Stage};
use crate::reconcile::snapshot::ZoneSnapshot;
use crate::reconcile::stamp::{Claims, Digest, Stamp};

impl Host<'_> {
    /// The operations on the hostname's own record, by stage.
    pub(super) fn plan_operations(
        &self,
        plan: &mut HostPlan,
        wanted: &[Wanted<'_>],
        after: &Claims,
        superseded: &BTreeSet<Digest>,
        moving: bool,
    ) -> Result<(), Reason> {
        let zone = &self.zone.zone.id;
        let mut operation = |stage, operations: Vec<RecordOperation>| {
            if !operations.is_empty() {
                plan.operations.insert((stage, zone.clone()), operations);
            }
        };
        if after.is_empty() {
            plan.vanishes = !self.own_records.is_empty();
            let deletes =
                self.own_records.iter().map(|record| RecordOperation::Delete(record.id.clone())).collect();
            operation(Stage::Stamp, deletes);
            return Ok(());
        }
        let target = wanted.first().map(|wanted| wanted.publication.tunnel.hostname());
        let stamp = |claims: Claims| self.stamp_for(wanted, claims);
        let last = self.comment(&stamp(after.clone()))?;
        let mut first_claims = after.clone();
        if moving {
            first_claims.rules.extend(superseded);
        }
        let first = self.comment(&stamp(first_claims))?;
        let Some(record) = self.own_records.iter().find(|record| &*record.kind == "CNAME") else {
            // None is there, or one of another type, made by hand.
            let Some(target) = target else {
                return Ok(());
            };
            let deletes = self.own_records.iter().map(|record| RecordOperation::Delete(record.id.clone()));
            let deletes = deletes.chain(self.heritage_deletions());
            let post = RecordOperation::Post(NewRecord {
                name: self.hostname.as_str().into(),
                kind: "CNAME".into(),
                content: target.into(),
                proxied: true,
                ttl: 1,
                comment: first,
            });
            operation(Stage::Stamp, deletes.chain([post]).collect());
            return Ok(());
        };
        // Where only something else was withdrawn, the record leads where it led.
        let target = target.unwrap_or_else(|| record.content.to_string());
        if !moving {
            let changes = self.changes_stamp(&last);
            let patch = patch(record, &target, last, changes).into_iter();
            operation(Stage::Stamp, self.heritage_deletions().chain(patch).collect());
            return Ok(());
        }
        let unstamp = (first != last).then_some(last);
        let changes = self.changes_stamp(&first);
        let stamp = restamp(record, changes.then_some(first));
        operation(Stage::Stamp, self.heritage_deletions().chain(stamp).collect());
        operation(Stage::Repoint, patch(record, &target, "".into(), false));
        operation(Stage::Unstamp, restamp(record, unstamp).into_iter().collect());
        Ok(())
    }

    /// The stamp with `claims`; it names the object while there is one.
    fn stamp_for(&self, wanted: &[Wanted<'_>], claims: Claims) -> Stamp {
        let mut stamp = self.stamp.clone().unwrap_or_else(|| Stamp::new(&self.settings.owner));
        let objects = claims.rules.len() + usize::from(claims.record_only);
        stamp.resource = match wanted {
            _ if objects > 1 => None,
            [wanted] => wanted.resource.map(Into::into),
            _ => stamp.resource,
        };
        stamp.claims = claims;
        let guard = self.settings.namespace_guard.as_ref();
        let namespace = guard.and_then(|_| namespace::digest_of(wanted.first()?.resource?));
        if let Some(namespace) = namespace {
            stamp.claim_for(&namespace);
        }
        stamp
    }

    /// The text of a stamp, as long as the zone allows.
    pub(super) fn comment(&self, stamp: &Stamp) -> Result<Box<str>, Reason> {
        let limit_bytes = comment_max_bytes(self.zone);
        let cut = || stamp.render_cut(limit_bytes).filter(|_| !self.adopted.records.is_empty());
        stamp.render(limit_bytes).or_else(cut).map(Into::into).ok_or(Reason::StampFull { limit_bytes })
    }

    /// Whether `comment` says something else than the stamp that is there. Compared as it will be read again: what
    /// had no room in it is no difference.
    fn changes_stamp(&self, comment: &str) -> bool {
        !self.adopted.records.is_empty() || self.stamp != Stamp::parse(comment)
    }
}

/// How long a comment may be in the zone.
pub(super) fn comment_max_bytes(zone: &ZoneSnapshot) -> usize {
    match zone.zone.plan {
        ZonePlan::Free => limits::COMMENT_MAX_BYTES_FREE,
        ZonePlan::Paid => limits::COMMENT_MAX_BYTES_PAID,
    }
}

/// The patch that gives `record` another comment, where there is one to give.
pub(super) fn restamp(record: &Record, comment: Option<Box<str>>) -> Option<RecordOperation> {
    let id = record.id.clone();
    comment.is_some().then_some(RecordOperation::Patch(RecordPatch {
        id,
        kind: None,
        content: None,
        proxied: None,
        ttl: None,
        comment,
    }))
}

/// The patch that lets `record` lead to `target`, proxied, with `comment` where that changes; nothing where the
/// record is so already.
fn patch(record: &Record, target: &str, comment: Box<str>, comment_changes: bool) -> Vec<RecordOperation> {
    let patch = RecordPatch {
        id: record.id.clone(),
        kind: None,
        content: (!record.content.eq_ignore_ascii_case(target)).then(|| target.into()),
        proxied: (!record.proxied).then_some(true),
        ttl: None,
        comment: comment_changes.then_some(comment),
    };
    let RecordPatch { id: _, kind, content, proxied, ttl, comment } = &patch;
    let changes =
        kind.is_some() || content.is_some() || proxied.is_some() || ttl.is_some() || comment.is_some();
    changes.then_some(RecordOperation::Patch(patch)).into_iter().collect()
}
