//! Writes the comment of a hostname's record: its stamp, within the zone's limit.

use super::decide::Desired;
use super::{Host, Placed};
use crate::reconcile::namespace;
use crate::reconcile::plan::Reason;
use crate::reconcile::stamp::{Claims, Digest, Stamp};

/// The comments that a hostname's record may get in one request: one stamp with different claims.
#[derive(Clone, Debug, PartialEq)]
pub struct Comments {
    stamp: Stamp,
    limit_bytes: usize,
    /// A person's text in the comment of a record that is taken over is cut if it does not fit.
    may_be_cut: bool,
}

impl Comments {
    /// Those of a hostname of which this is published.
    pub(super) fn of(host: &Host<'_>, desired: &[Desired<'_>]) -> Self {
        let mut stamp = host.stamp.clone().unwrap_or_else(|| Stamp::new(&host.policy().owner));
        stamp.resource = resource(host, desired, &stamp).map(Into::into);
        stamp.bind_to(host.name());
        let asking = || namespace::digest_of(desired.first()?.resource?);
        if host.policy().namespace_guard
            && let Some(namespace) = asking()
        {
            stamp.claim_for(&namespace);
        }
        let may_be_cut = !host.adopted_records.is_empty();
        Self { stamp, limit_bytes: host.zone.comment_max_bytes(), may_be_cut }
    }

    /// The comment with these claims; `None` if it does not fit.
    pub(crate) fn with(&self, claims: &Claims) -> Option<Box<str>> {
        let mut stamp = self.stamp.clone();
        stamp.claims.clone_from(claims);
        let cut = || stamp.render_cut(self.limit_bytes).filter(|_| self.may_be_cut);
        stamp.render(self.limit_bytes).or_else(cut).map(Into::into)
    }
}

/// The object that all rules of the hostname come from, if it is one.
fn resource<'r>(host: &Host<'_>, desired: &[Desired<'r>], stamp: &'r Stamp) -> Option<&'r str> {
    let Some(first) = desired.first() else { return stamp.resource.as_deref() };
    let is_wanted = |path| desired.iter().any(|desired| desired.path() == path);
    let is_all = host.rules.iter().all(|(_, rule)| is_wanted(rule.path()));
    let is_one = desired.iter().all(|desired| desired.resource == first.resource);
    let was_one = stamp.resource.as_deref() == first.resource;
    first.resource.filter(|_| is_one && (is_all || was_one))
}

/// What the stamp claims until the rules that go are gone. A digest without a rule comes off it.
pub(super) fn claims_with(host: &Host<'_>, desired: &[Desired<'_>], withdrawn: &[&str]) -> Claims {
    let digest = |(tunnel, rule): &Placed<'_>| Digest::of(tunnel, rule.path());
    let standing = host.snapshot().rules_of(&host.hostname);
    let is_claimed =
        |digest: &Digest| host.stamp.as_ref().is_some_and(|stamp| stamp.claims.rules.contains(digest));
    let claimed = standing.iter().map(digest).filter(is_claimed);
    let record_only = host.claims_record_only() && !withdrawn.contains(&"");
    let is_protected = host.is_protected();
    let mut claims =
        Claims { is_protected, record_only, rules: claimed.chain(host.rules.iter().map(digest)).collect() };
    for desired in desired.iter().filter(|desired| desired.path().is_none()) {
        claims.record_only = desired.publication.rule.is_none();
    }
    claims.rules.extend(desired.iter().filter_map(Desired::digest));
    claims
}

/// True if the comment has room for what stands and what comes.
pub(super) fn has_room(host: &Host<'_>, desired: &[Desired<'_>]) -> bool {
    let comes = desired.iter().any(|desired| !claims_already(host, desired));
    !comes || Comments::of(host, desired).with(&claims_with(host, desired, &[])).is_some()
}

/// The refusal if it has none.
pub(super) fn too_long(host: &Host<'_>, desired: &[Desired<'_>]) -> Reason {
    let rules = claims_with(host, desired, &[]).rules.len();
    Reason::StampFull { rules, limit_bytes: host.zone.comment_max_bytes() }
}

/// True if the stamp has what is asked for already.
pub(super) fn claims_already(host: &Host<'_>, desired: &Desired<'_>) -> bool {
    let claims = host.stamp.as_ref().map(|stamp| &stamp.claims);
    claims.filter(|_| host.adopted_records.is_empty()).is_some_and(|claims| match desired.digest() {
        Some(digest) => claims.rules.contains(&digest),
        None => claims.record_only,
    })
}
