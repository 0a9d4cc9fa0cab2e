//! Writes the comment of a hostname's record: its stamp, within the zone's limit.

use super::Desired;
use super::course::Course;
use super::standing::Standing;
use crate::model::{Record, ZonePlan};
use crate::reconcile::namespace;
use crate::reconcile::plan::Reason;
use crate::reconcile::snapshot::ZoneSnapshot;
use crate::reconcile::stamp::{Claims, Stamp};

/// The largest comment on a Free zone, in bytes; paid zones allow `COMMENT_MAX_BYTES_PAID`.
const COMMENT_MAX_BYTES_FREE: usize = 100;

/// The largest comment on a paid zone, in bytes.
const COMMENT_MAX_BYTES_PAID: usize = 500;

/// The comment in `zone` with `claims` in place of those of `before`. If it differs from `before`, it is bound to the
/// hostname.
pub(super) fn with_claims(
    standing: &Standing<'_>,
    zone: &ZoneSnapshot,
    before: &Stamp,
    claims: &Claims,
    desired: &[Desired<'_>],
    course: &Course,
) -> Result<Box<str>, Reason> {
    let mut stamp = stamp_for(before, claims, desired, course);
    let comment = claimed_for_namespace(standing, zone, &stamp, before, desired)?;
    // A comment is not written only to bind it, because after an update of the program that would affect every record.
    if standing.adopted.records.is_empty() && Stamp::parse(&comment).as_ref() == Some(before) {
        return Ok(comment);
    }
    stamp.bind_to(standing.name());
    claimed_for_namespace(standing, zone, &stamp, before, desired)
}

/// The stamp `before` with `claims`. It names the object if there will be only one.
fn stamp_for(before: &Stamp, claims: &Claims, desired: &[Desired<'_>], course: &Course) -> Stamp {
    let mut stamp = before.clone();
    // A rule that stays for visitors who are still led to it no longer has an object.
    let objects =
        course.last.rules.difference(&course.staying).count() + usize::from(course.last.record_only);
    stamp.resource = match desired {
        _ if objects > 1 => None,
        [desired] => desired.resource.map(Into::into),
        _ => stamp.resource,
    };
    stamp.claims.clone_from(claims);
    stamp
}

/// The comment of `stamp`. With the guard on, it claims the hostname for the namespace that asks, unless one holds it.
/// If the claim has no room, existing claims continue without it and nothing new comes; otherwise filling a comment
/// would free a hostname for other namespaces.
fn claimed_for_namespace(
    standing: &Standing<'_>,
    zone: &ZoneSnapshot,
    stamp: &Stamp,
    before: &Stamp,
    desired: &[Desired<'_>],
) -> Result<Box<str>, Reason> {
    let is_known = standing.adopted.records.is_empty() && stamp.claims.is_within(&before.claims);
    let guard = standing.policy().namespace_guard.as_ref();
    let Some(namespace) = guard.and_then(|_| namespace::digest_of(desired.first()?.resource?)) else {
        return render(standing, zone, stamp);
    };
    let mut claimed = stamp.clone();
    claimed.claim_for(&namespace);
    render(standing, zone, &claimed)
        .or_else(|full| if is_known { render(standing, zone, stamp) } else { Err(full) })
}

/// The text of a stamp in `zone`. At home, a person's text in the comment of a record that is taken over is cut if it
/// does not fit.
pub(super) fn render(
    standing: &Standing<'_>,
    zone: &ZoneSnapshot,
    stamp: &Stamp,
) -> Result<Box<str>, Reason> {
    let limit_bytes = max_bytes(zone);
    let may_be_cut = standing.is_home(zone) && !standing.adopted.records.is_empty();
    let cut = || stamp.render_cut(limit_bytes).filter(|_| may_be_cut);
    let text = stamp.render(limit_bytes).or_else(cut);
    text.map(Into::into).ok_or(Reason::StampFull { limit_bytes })
}

/// The zone's limit for a comment.
pub(super) fn max_bytes(zone: &ZoneSnapshot) -> usize {
    match zone.zone.plan {
        ZonePlan::Free => COMMENT_MAX_BYTES_FREE,
        ZonePlan::Paid => COMMENT_MAX_BYTES_PAID,
    }
}

/// True if `comment` means something else than the record's own. Both are compared as they will be read again, so text
/// that did not fit makes no difference.
pub(super) fn changes_stamp(standing: &Standing<'_>, record: &Record, comment: &str) -> bool {
    !standing.adopted.records.is_empty() || Stamp::parse(&record.comment) != Stamp::parse(comment)
}

/// True if the record's own comment already claims all these rules.
pub(super) fn claims_all(standing: &Standing<'_>, record: &Record, claims: &Claims) -> bool {
    standing.adopted.records.is_empty()
        && Stamp::parse(&record.comment).is_some_and(|stamp| claims.rules.is_subset(&stamp.claims.rules))
}
