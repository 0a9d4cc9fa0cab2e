//! Writes the comment of a hostname's record: its stamp, within the zone's limit.

use std::collections::BTreeSet;

use super::Host;
use super::accepted::Accepted;
use crate::lean::inserted;
use crate::reconcile::namespace;
use crate::reconcile::plan::Reason;
use crate::reconcile::plan::host_plan::Comments;
use crate::reconcile::stamp::{Claims, Digest, Stamp};

/// The comments that the hostname's record can have while the `desired` endpoints are published.
pub(super) fn comments(host: &Host<'_>, desired: &[Accepted<'_>]) -> Comments {
    let mut stamp = host.stamp.clone().unwrap_or_else(|| Stamp::new(&host.policy().owner));
    stamp.resource = resource(host, desired, &stamp).map(Into::into);
    stamp.bind_to(host.name());
    let asking = || namespace::code_of(desired.first()?.resource?);
    let namespace = host.policy().namespace_guard.then(asking).flatten();
    let may_be_cut = !host.adopted_records.is_empty();
    Comments { stamp, namespace, limit_bytes: host.zone.comment_max_bytes(), may_be_cut }
}

/// The object that all rules of the hostname come from, if it is one.
fn resource<'r>(host: &Host<'_>, desired: &[Accepted<'r>], stamp: &'r Stamp) -> Option<&'r str> {
    let Some(first) = desired.first() else { return stamp.resource.as_deref() };
    let is_wanted = |path| desired.iter().any(|desired| desired.path() == path);
    let is_all = host.rules.iter().all(|(_, rule)| is_wanted(rule.path()));
    let is_one = desired.iter().all(|desired| desired.resource == first.resource);
    let was_one = stamp.resource.as_deref() == first.resource;
    first.resource.filter(|_| is_one && (is_all || was_one))
}

const DIGESTS_FIRST: &str =
    "its record's comment names rules that are not there, and has room for it once their digests are off";

/// The claims of the stamp until removed rules are gone: the present digests, and the digests of the new rules.
pub(super) fn claims_with(host: &Host<'_>, desired: &[Accepted<'_>], withdrawn: &[&str]) -> Claims {
    let mut claims = host.stamp.as_ref().map(|stamp| stamp.claims.clone()).unwrap_or_default();
    claims.is_protected = host.is_protected();
    claims.record_only = host.claims_record_only() && !withdrawn.contains(&"");
    for desired in desired.iter().filter(|desired| desired.path().is_none()) {
        claims.record_only = desired.publication.rule.is_none();
    }
    claims.rules.extend(host.rules.iter().map(|(tunnel, rule)| Digest::of(tunnel, rule.path())));
    claims.rules.extend(desired.iter().filter_map(Accepted::digest));
    claims
}

/// The digests of the stamp that neither a rule at Cloudflare nor a rule of the `desired` endpoints has.
pub(super) fn stale(host: &Host<'_>, desired: &[Accepted<'_>]) -> BTreeSet<Digest> {
    let Some(stamp) = &host.stamp else { return BTreeSet::new() };
    let mut stays: BTreeSet<Digest> = inserted(host.rules_by_digest.iter().map(|(digest, _)| *digest));
    stays.extend(desired.iter().filter_map(Accepted::digest));
    &stamp.claims.rules - &stays
}

/// The reason if the comment has no room for new claims beside the claims that the stamp has already.
pub(super) fn lack_of_room(host: &Host<'_>, desired: &[Accepted<'_>]) -> Option<Reason> {
    let comes = desired.iter().any(|desired| !claims_already(host, desired));
    let comments = comments(host, desired);
    let mut claims = claims_with(host, desired, &[]);
    if !comes || comments.has_room(&claims) {
        return None;
    }
    let stale = stale(host, desired);
    claims.rules.retain(|digest| !stale.contains(digest));
    Some(if comments.has_room(&claims) {
        Reason::Waiting(DIGESTS_FIRST.to_owned())
    } else {
        Reason::StampFull { rules: claims.rules.len(), limit_bytes: host.zone.comment_max_bytes() }
    })
}

/// True if the stamp has what is asked for already.
pub(super) fn claims_already(host: &Host<'_>, desired: &Accepted<'_>) -> bool {
    let claims = host.stamp.as_ref().map(|stamp| &stamp.claims);
    claims.filter(|_| host.adopted_records.is_empty()).is_some_and(|claims| match desired.digest() {
        Some(digest) => claims.rules.contains(&digest),
        None => claims.record_only,
    })
}
