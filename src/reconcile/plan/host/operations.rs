//! The hostname's own record: what each stage has to write for it, and its stamp.

use super::course::{Course, stand_in};
use super::{Host, Wanted};
use crate::limits;
use crate::model::{NewRecord, Plan as ZonePlan, Record, RecordPatch, TunnelId};
use crate::ordered::push_lean;
use crate::reconcile::namespace;
use crate::reconcile::plan::{HostPlan, Reason, RecordOperation, Stage};
use crate::reconcile::snapshot::{OwnRecord, ZoneSnapshot};
use crate::reconcile::stamp::{Claims, Stamp};

/// What becomes of a hostname's records.
struct Change<'w> {
    wanted: &'w [Wanted<'w>],
    /// Where they lead in the end; where only something else was withdrawn, each leads where it led.
    target: Option<String>,
    course: &'w Course,
}

impl Host<'_> {
    /// The operations on the hostname's own records, by stage.
    pub(super) fn plan_operations(
        &self,
        plan: &mut HostPlan,
        wanted: &[Wanted<'_>],
        course: &Course,
    ) -> Result<(), Reason> {
        let mut add = |stage, zone: &ZoneSnapshot, operation| {
            push_lean(plan.operations.entry((stage, zone.zone.id.clone())).or_default(), operation);
        };
        let delete = |record: &Record| RecordOperation::delete(record);
        if course.last.is_empty() {
            self.own_records.iter().for_each(|record| add(Stage::Unstamp, self.zone, delete(record)));
            self.outer_records.iter().for_each(|own| add(Stage::Unstamp, own.zone, delete(own.record)));
            plan.vanishes = self.has_record();
            return Ok(());
        }
        let wanted_in = wanted.first().map(|wanted| &wanted.publication.tunnel);
        let target = wanted_in.or(course.heir.as_ref()).map(TunnelId::hostname);
        let change = Change { wanted, target, course };
        for (stage, operation) in self.operations_at_home(&change)? {
            add(stage, self.zone, operation);
        }
        let is_at_home = change.target.is_some() || self.own_records.iter().any(|record| is_cname(record));
        for own in &self.outer_records {
            // Until the zone inside is active visitors are led to this one.
            if is_at_home && self.zone.is_active() {
                add(Stage::Unstamp, own.zone, delete(own.record));
                continue;
            }
            for (stage, operation) in self.operations_around(own, &change)? {
                add(stage, own.zone, operation);
            }
        }
        plan.vanishes = course.heir.is_some();
        plan.moves_to.clone_from(&course.moves_to);
        plan.moves_now = self.own_records.iter().any(|record| !self.may_lead_there(record));
        plan.stands_in = course.moves_to.is_some() && self.own_records.is_empty();
        Ok(())
    }

    fn operations_at_home(&self, change: &Change<'_>) -> Result<Vec<(Stage, RecordOperation)>, Reason> {
        let Change { wanted: _, target, course } = change;
        let stamp = self.stamp.clone().unwrap_or_else(|| Stamp::new(&self.settings.policy.owner));
        let comment =
            |claims: &Claims| self.comment_for(&stamp, change, claims, &|stamp| self.comment(stamp));
        let cname = self.own_records.iter().find(|record| is_cname(record));
        // None is there, or one of another type: taken over, a wildcard's copy, or made by hand.
        if cname.is_none() && target.is_none() {
            return Ok(Vec::new());
        }
        let (first, last) = (comment(&course.first)?, comment(&course.last)?);
        let stamped = |operation| (Stage::Stamp, operation);
        let heritage = self.heritage_deletions().map(stamped);
        if let Some(record) = cname {
            return Ok(heritage.chain(self.changes(record, change, first, last)).collect());
        }
        let name = self.hostname.as_str();
        let post = |comment| {
            RecordOperation::Post(NewRecord {
                name: name.into(),
                kind: "CNAME".into(),
                content: target.as_deref().unwrap_or_default().into(),
                proxied: true,
                ttl: 1,
                comment,
            })
        };
        let deletes = self.own_records.iter().map(|record| RecordOperation::delete(record));
        let Some(tunnel) = &course.moves_to else {
            return Ok(heritage.chain(deletes.chain([post(first)]).map(stamped)).collect());
        };
        if self.own_records.is_empty() {
            let copies = self.stand_ins(tunnel);
            let copies = copies.into_iter().map(|record| stand_in(record, name, first.clone()));
            return Ok(heritage.chain(copies.map(stamped)).collect());
        }
        let stamps = self
            .own_records
            .iter()
            .filter_map(|record| restamp(record, self.changes_stamp(record, &first).then(|| first.clone())));
        let repoint = deletes.chain([post(last)]).map(|operation| (Stage::Repoint, operation));
        Ok(heritage.chain(stamps.map(stamped)).chain(repoint).collect())
    }

    /// A record in a zone around the hostname's home follows the one there.
    fn operations_around(
        &self,
        own: &OwnRecord<'_>,
        change: &Change<'_>,
    ) -> Result<Vec<(Stage, RecordOperation)>, Reason> {
        let OwnRecord { zone, record, stamp } = own;
        let Change { wanted: _, target: _, course } = change;
        let comment =
            |claims: &Claims| self.comment_for(stamp, change, claims, &|stamp| comment_in(zone, stamp));
        Ok(self.changes(record, change, comment(&course.first)?, comment(&course.last)?))
    }

    /// What makes `record` lead where it shall, with the `first` comment until the rules that go are gone.
    fn changes(
        &self,
        record: &Record,
        change: &Change<'_>,
        first: Box<str>,
        last: Box<str>,
    ) -> Vec<(Stage, RecordOperation)> {
        let Change { wanted: _, target, course } = change;
        // One that somebody made an address leads nowhere of ours.
        let target = target.as_deref().filter(|_| is_cname(record)).unwrap_or(&record.content);
        let is_moving = course.moves_to.is_some() || course.heir.is_some();
        // What only comes off a stamp comes off once its rule is gone.
        let only_leaves = first != last && self.claims_all(record, &course.first);
        let (early, late) = match first == last {
            true => (Some(last), None),
            false => (Some(first).filter(|_| !only_leaves), Some(last)),
        };
        let early = early.filter(|comment| self.changes_stamp(record, comment));
        let (stage, comment) =
            if only_leaves { (Stage::Unstamp, late.clone()) } else { (Stage::Stamp, early) };
        let unstamp = restamp(record, late.filter(|_| !only_leaves)).map(|patch| (Stage::Unstamp, patch));
        let (stamp, repoint) = if is_moving {
            (restamp(record, comment), lead(record, target, None))
        } else {
            (lead(record, target, comment), None)
        };
        let stamp = stamp.map(|patch| (stage, patch));
        let repoint = repoint.map(|patch| (Stage::Repoint, patch));
        stamp.into_iter().chain(unstamp).chain(repoint).collect()
    }

    /// Whether the record's own comment has all these claims already.
    fn claims_all(&self, record: &Record, claims: &Claims) -> bool {
        self.adopted.records.is_empty()
            && Stamp::parse(&record.comment).is_some_and(|stamp| claims.rules.is_subset(&stamp.claims.rules))
    }

    /// The comment with `claims`, bound to the hostname where it is another one than `before`.
    fn comment_for(
        &self,
        before: &Stamp,
        change: &Change<'_>,
        claims: &Claims,
        render: &dyn Fn(&Stamp) -> Result<Box<str>, Reason>,
    ) -> Result<Box<str>, Reason> {
        let Change { wanted, target: _, course } = change;
        let mut stamp = stamp_for(before, wanted, claims, course);
        let comment = self.comment_of(&stamp, before, wanted, render)?;
        // Nothing is written only to say which hostname it is: after an update of the program that would be everything.
        if self.adopted.records.is_empty() && Stamp::parse(&comment).as_ref() == Some(before) {
            return Ok(comment);
        }
        stamp.bind_to(self.hostname.as_str());
        self.comment_of(&stamp, before, wanted, render)
    }

    /// The comment of `stamp`. Where the guard is on, the hostname is claimed for the namespace that asks, unless one has
    /// it. Where that has no room, what is claimed already goes on without it, and nothing new comes: else filling a comment
    /// would free a hostname for other namespaces.
    fn comment_of(
        &self,
        stamp: &Stamp,
        before: &Stamp,
        wanted: &[Wanted<'_>],
        render: &dyn Fn(&Stamp) -> Result<Box<str>, Reason>,
    ) -> Result<Box<str>, Reason> {
        let is_known = self.adopted.records.is_empty() && stamp.claims.is_within(&before.claims);
        let guard = self.settings.policy.namespace_guard.as_ref();
        let Some(namespace) = guard.and_then(|_| namespace::digest_of(wanted.first()?.resource?)) else {
            return render(stamp);
        };
        let mut claimed = stamp.clone();
        claimed.claim_for(&namespace);
        render(&claimed).or_else(|full| if is_known { render(stamp) } else { Err(full) })
    }

    /// The text of a stamp at the hostname's home, as long as the zone allows.
    pub(super) fn comment(&self, stamp: &Stamp) -> Result<Box<str>, Reason> {
        let cut = |reason| {
            let is_adopted = !self.adopted.records.is_empty();
            let cut = stamp.render_cut(comment_max_bytes(self.zone)).filter(|_| is_adopted);
            cut.map(Into::into).ok_or(reason)
        };
        comment_in(self.zone, stamp).or_else(cut)
    }

    /// Whether `comment` says something else than the record's own. Compared as it will be read again: what had no room in
    /// it is no difference.
    fn changes_stamp(&self, record: &Record, comment: &str) -> bool {
        !self.adopted.records.is_empty() || Stamp::parse(&record.comment) != Stamp::parse(comment)
    }
}

fn is_cname(record: &Record) -> bool {
    &*record.kind == "CNAME"
}

/// The stamp `before` with `claims`; it names the object where there will be one.
fn stamp_for(before: &Stamp, wanted: &[Wanted<'_>], claims: &Claims, course: &Course) -> Stamp {
    let mut stamp = before.clone();
    // A rule that stays for visitors who are still led to it is nobody's any more.
    let objects =
        course.last.rules.difference(&course.staying).count() + usize::from(course.last.record_only);
    stamp.resource = match wanted {
        _ if objects > 1 => None,
        [wanted] => wanted.resource.map(Into::into),
        _ => stamp.resource,
    };
    stamp.claims.clone_from(claims);
    stamp
}

fn comment_in(zone: &ZoneSnapshot, stamp: &Stamp) -> Result<Box<str>, Reason> {
    let limit_bytes = comment_max_bytes(zone);
    stamp.render(limit_bytes).map(Into::into).ok_or(Reason::StampFull { limit_bytes })
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
    let is_one = comment.is_some();
    let patch = RecordPatch { id, kind: None, content: None, proxied: None, ttl: None, comment };
    is_one.then(|| RecordOperation::Patch(patch, record.into()))
}

/// The patch that lets `record` lead to `target`, proxied, with `comment` where that changes; nothing where the
/// record is so already.
pub(super) fn lead(record: &Record, target: &str, comment: Option<Box<str>>) -> Option<RecordOperation> {
    let patch = RecordPatch {
        id: record.id.clone(),
        kind: None,
        content: (!record.content.eq_ignore_ascii_case(target)).then(|| target.into()),
        proxied: (!record.proxied).then_some(true),
        ttl: None,
        comment,
    };
    let RecordPatch { id: _, kind, content, proxied, ttl, comment } = &patch;
    let changes =
        kind.is_some() || content.is_some() || proxied.is_some() || ttl.is_some() || comment.is_some();
    changes.then(|| RecordOperation::Patch(patch, record.into()))
}
