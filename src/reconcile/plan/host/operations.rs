//! Plans the operations of each stage on the hostname's own records.

use super::comment;
use super::course::{may_lead_there, stand_ins};
use super::decision::Decision;
use super::heritage;
use super::standing::Standing;
use crate::model::{NewRecord, Record, RecordPatch};
use crate::reconcile::plan::{Reason, RecordOperation, Stage};
use crate::reconcile::snapshot::{OwnRecord, ZoneSnapshot};
use crate::reconcile::stamp::{Claims, Stamp};

/// One operation, with its stage and place.
pub(super) struct Step<'a> {
    pub(super) stage: Stage,
    pub(super) zone: &'a ZoneSnapshot,
    pub(super) operation: RecordOperation,
}

/// The operations on the hostname's own records.
pub(super) fn steps<'a>(standing: &Standing<'a>, decision: &Decision<'_>) -> Result<Vec<Step<'a>>, Reason> {
    let delete =
        |zone, record| Step { stage: Stage::Unstamp, zone, operation: RecordOperation::delete(record) };
    if decision.course.ends() {
        let home = standing.own_records.iter().map(|record| delete(standing.zone, record));
        let around = standing.outer_records.iter().map(|own| delete(own.zone, own.record));
        return Ok(home.chain(around).collect());
    }
    let place = |zone: &'a ZoneSnapshot, operations: Vec<(Stage, RecordOperation)>| {
        operations.into_iter().map(move |(stage, operation)| Step { stage, zone, operation })
    };
    let mut steps: Vec<Step<'_>> = place(standing.zone, at_home(standing, decision)?).collect();
    let is_at_home =
        decision.target().is_some() || standing.own_records.iter().any(|record| is_cname(record));
    for own in &standing.outer_records {
        // Until the inner zone is active, visitors are led to this one.
        if is_at_home && standing.zone.is_active() {
            steps.push(delete(own.zone, own.record));
        } else {
            steps.extend(place(own.zone, around(standing, own, decision)?));
        }
    }
    Ok(steps)
}

/// True if the move cannot wait beyond this request, because the record leads to a tunnel that is not configured.
pub(super) fn moves_now(standing: &Standing<'_>) -> bool {
    standing.own_records.iter().any(|record| !may_lead_there(standing, record))
}

fn at_home(
    standing: &Standing<'_>,
    decision: &Decision<'_>,
) -> Result<Vec<(Stage, RecordOperation)>, Reason> {
    let own_records = &standing.own_records;
    let cname = own_records.iter().find(|record| is_cname(record));
    let target = decision.target();
    // There is none, or one of another type: taken over, a wildcard's copy, or made by hand.
    if cname.is_none() && target.is_none() {
        return Ok(Vec::new());
    }
    let stamp = standing.stamp.clone().unwrap_or_else(|| Stamp::new(&standing.policy().owner));
    let comment = |claims| {
        comment::with_claims(standing, standing.zone, &stamp, claims, &decision.desired, &decision.course)
    };
    let (first, last) = (comment(&decision.course.first)?, comment(&decision.course.last)?);
    let stamped = |operation| (Stage::Stamp, operation);
    let heritage = heritage::deletions(standing).into_iter().map(stamped);
    if let Some(record) = cname {
        return Ok(heritage.chain(changes(standing, record, decision, first, last)).collect());
    }
    let name = standing.name();
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
    let deletes = own_records.iter().map(|record| RecordOperation::delete(record));
    let Some(tunnel) = &decision.course.moves_to else {
        return Ok(heritage.chain(deletes.chain([post(first)]).map(stamped)).collect());
    };
    if own_records.is_empty() {
        let copies = stand_ins(standing, tunnel).into_iter();
        let copies = copies.map(|record| stand_in(record, name, first.clone()));
        return Ok(heritage.chain(copies.map(stamped)).collect());
    }
    let stamps = own_records.iter().filter_map(|record| {
        restamp(record, comment::changes_stamp(standing, record, &first).then(|| first.clone()))
    });
    let repoint = deletes.chain([post(last)]).map(|operation| (Stage::Repoint, operation));
    Ok(heritage.chain(stamps.map(stamped)).chain(repoint).collect())
}

/// A record in an outer zone follows the one in the hostname's home.
fn around(
    standing: &Standing<'_>,
    own: &OwnRecord<'_>,
    decision: &Decision<'_>,
) -> Result<Vec<(Stage, RecordOperation)>, Reason> {
    let OwnRecord { zone, record, stamp } = own;
    let comment = |claims: &Claims| {
        comment::with_claims(standing, zone, stamp, claims, &decision.desired, &decision.course)
    };
    let (first, last) = (comment(&decision.course.first)?, comment(&decision.course.last)?);
    Ok(changes(standing, record, decision, first, last))
}

/// Makes `record` lead to its target, with the `first` comment until the rules that go are gone.
fn changes(
    standing: &Standing<'_>,
    record: &Record,
    decision: &Decision<'_>,
    first: Box<str>,
    last: Box<str>,
) -> Vec<(Stage, RecordOperation)> {
    let course = &decision.course;
    let target = decision.target();
    // A record that somebody turned into an address leads nowhere of ours.
    let target = target.as_deref().filter(|_| is_cname(record)).unwrap_or(&record.content);
    let is_moving = course.moves_to.is_some() || course.heir.is_some();
    // A claim that is only removed goes after its rule.
    let only_leaves = first != last && comment::claims_all(standing, record, &course.first);
    let (early, late) = match first == last {
        true => (Some(last), None),
        false => (Some(first).filter(|_| !only_leaves), Some(last)),
    };
    let early = early.filter(|comment| comment::changes_stamp(standing, record, comment));
    let (stage, comment) = if only_leaves { (Stage::Unstamp, late.clone()) } else { (Stage::Stamp, early) };
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

fn is_cname(record: &Record) -> bool {
    &*record.kind == "CNAME"
}

/// A copy of another name's record, or of one in an outer zone, for the hostname.
fn stand_in(record: &Record, name: &str, comment: Box<str>) -> RecordOperation {
    let Record { kind, content, proxied, ttl, .. } = record;
    RecordOperation::Post(NewRecord {
        name: name.into(),
        kind: kind.clone(),
        content: content.clone(),
        proxied: *proxied,
        ttl: *ttl,
        comment,
    })
}

/// The patch that gives `record` another comment, if there is one.
pub(super) fn restamp(record: &Record, comment: Option<Box<str>>) -> Option<RecordOperation> {
    let comment = Some(comment?);
    let patch = RecordPatch { id: record.id.clone(), content: None, proxied: None, comment };
    Some(RecordOperation::Patch(patch))
}

/// The patch that makes `record` lead to `target`, proxied, with `comment` if that changes; `None` if the record is so
/// already.
fn lead(record: &Record, target: &str, comment: Option<Box<str>>) -> Option<RecordOperation> {
    let content = (!record.content.eq_ignore_ascii_case(target)).then(|| target.into());
    let proxied = (!record.proxied).then_some(true);
    let changes = content.is_some() || proxied.is_some() || comment.is_some();
    let patch = RecordPatch { id: record.id.clone(), content, proxied, comment };
    changes.then_some(RecordOperation::Patch(patch))
}
