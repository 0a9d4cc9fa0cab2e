//! The comment of a hostname's records, and what it claims through one request: the new rules before they are written,
//! and the deleted rules until they are deleted.

use std::collections::BTreeSet;

use super::Host;
use crate::collections::collect;
use crate::reconcile::access::gate::Gated;
use crate::reconcile::namespace;
use crate::reconcile::reason::Reason;
use crate::reconcile::stamp::{Claims, Digest, NamespaceCode, Stamp};

/// The comment of a hostname's records, for any claims: they change during the request.
#[derive(Clone, Debug, PartialEq)]
pub struct CommentTemplate {
    /// The stamp before the request, with the object and the hostname of the new one.
    pub(super) stamp: Stamp,
    /// The namespace that the stamp is to name.
    pub(super) namespace: Option<NamespaceCode>,
    pub(super) limit_bytes: usize,
    /// True if a remark that does not fit may be cut, because it was the comment of a record that is taken over.
    pub(super) may_be_cut: bool,
}

/// The object that the comment names: the single object of the accepted endpoints, if they are for all our paths or the
/// stamp names that object already. Without an accepted endpoint, the object of the stamp.
fn resource<'r>(host: &Host<'_>, accepted: &[&'r Gated], stamp: &'r Stamp) -> Option<&'r str> {
    let Some(first) = accepted.first() else { return stamp.resource.as_deref() };
    let is_wanted = |path| accepted.iter().any(|gated| gated.path() == path);
    let is_all = host.stamped_rules().all(|rule| is_wanted(rule.path()));
    let is_one = accepted.iter().all(|gated| gated.resource() == first.resource());
    let was_one = stamp.resource.as_deref() == first.resource();
    first.resource().filter(|_| is_one && (is_all || was_one))
}

const DIGESTS_FIRST: &str = "the record's comment still names deleted rules; it has room for this rule once \
     their digests are removed";

/// The claims while the rules are edited: the digests of the stamp and of the new rules. A withdrawn record without a
/// rule is no longer claimed.
pub(super) fn claims_during(host: &Host<'_>, accepted: &[&Gated], withdrawn: &[Option<&str>]) -> Claims {
    let mut claims = host.stamp.as_ref().map(|stamp| stamp.claims.clone()).unwrap_or_default();
    claims.is_protected = host.protection().needs_protection_claim(claims.is_protected);
    claims.is_released &= accepted.is_empty();
    claims.record_only = match accepted.iter().find(|gated| gated.path().is_none()) {
        Some(whole) => whole.rule().is_none(),
        None => host.claims_record_only() && !withdrawn.contains(&None),
    };
    claims.digests.extend(host.stamped_rules().map(|rule| rule.digest));
    claims.digests.extend(accepted.iter().filter_map(|one| one.digest()));
    claims
}

/// The *dangling* digests: the stamp has them, and neither a rule that was read nor a rule of the `accepted` endpoints
/// does. Invariant 2 of docs/how-it-works.md says when they are removed.
pub(super) fn dangling(host: &Host<'_>, accepted: &[&Gated]) -> BTreeSet<Digest> {
    let Some(stamp) = &host.stamp else { return BTreeSet::new() };
    let mut stays: BTreeSet<Digest> = collect(host.rules.iter().map(|rule| rule.digest));
    stays.extend(accepted.iter().filter_map(|one| one.digest()));
    &stamp.claims.digests - &stays
}

/// The reason if the comment has no room for the claims of the `accepted` endpoints beside those of the stamp.
pub(super) fn lack_of_room(
    host: &Host<'_>,
    accepted: &[&Gated],
    withdrawn: &[Option<&str>],
) -> Option<Reason> {
    let comment = CommentTemplate::of(host, accepted);
    let claims = claims_during(host, accepted, withdrawn);
    if comment.has_room(&claims) {
        return None;
    }
    let without_dangling = claims.without(&dangling(host, accepted));
    Some(if comment.has_room(&without_dangling) {
        Reason::Waiting(DIGESTS_FIRST.to_owned())
    } else {
        Reason::StampFull { rules: without_dangling.digests.len(), limit_bytes: comment.limit_bytes }
    })
}

/// True if the stamp already claims the endpoint's rule, or the record alone.
pub(super) fn claims_already(host: &Host<'_>, gated: &Gated) -> bool {
    let claims = host.stamp.as_ref().map(|stamp| &stamp.claims);
    !host.adopts_records()
        && claims.is_some_and(|claims| match gated.digest() {
            Some(digest) => claims.digests.contains(&digest),
            None => claims.record_only,
        })
}

impl CommentTemplate {
    /// The comment of a request that publishes the `accepted` endpoints.
    pub(super) fn of(host: &Host<'_>, accepted: &[&Gated]) -> Self {
        let mut stamp = host.stamp.clone().unwrap_or_else(|| Stamp::new(&host.operator().owner));
        stamp.resource = resource(host, accepted, &stamp).map(Into::into);
        stamp.bind_to(host.name());
        let asking = || namespace::code_of(accepted.first()?.resource()?);
        Self {
            stamp,
            namespace: host.operator().namespace_guard.then(asking).flatten(),
            limit_bytes: host.zone.comment_max_bytes(),
            may_be_cut: host.adopts_records(),
        }
    }

    /// The comment with these claims, and with the namespace if there is room; `None` if the claims do not fit.
    pub(crate) fn with(&self, claims: &Claims) -> Option<Box<str>> {
        self.text(self.namespace.as_ref(), claims).or_else(|| self.text(None, claims))
    }

    /// True if the stamp has the digest before anything is written.
    pub(crate) fn had_digest(&self, digest: &Digest) -> bool {
        self.stamp.claims.digests.contains(digest)
    }

    /// True if the comment has room for these claims and the namespace.
    fn has_room(&self, claims: &Claims) -> bool {
        self.text(self.namespace.as_ref(), claims).is_some()
    }

    fn text(&self, namespace: Option<&NamespaceCode>, claims: &Claims) -> Option<Box<str>> {
        let stamp = if claims.is_released {
            self.stamp.released()
        } else {
            self.stamp.claiming(claims.clone(), namespace)
        };
        let cut = || stamp.render_cut(self.limit_bytes).filter(|_| self.may_be_cut);
        stamp.render(self.limit_bytes).or_else(cut).map(Into::into)
    }
}
