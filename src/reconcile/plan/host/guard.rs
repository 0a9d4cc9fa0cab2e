//! Which of one hostname's endpoints the namespace guard lets through.

use super::standing::Standing;
use super::{Desired, heritage};
use crate::reconcile::namespace;
use crate::reconcile::plan::{Reason, Refusal};
use crate::reconcile::stamp::Stamp;

/// What the namespace guard lets through, and what it refuses. Of several namespaces one has the hostname: the one that
/// holds it, else one that asks for what is published there, else that of the first resource by name.
pub(super) fn guarded<'w>(
    standing: &Standing<'_>,
    desired: Vec<Desired<'w>>,
) -> (Vec<Desired<'w>>, Vec<Refusal>) {
    let Some(guard) = &standing.policy().namespace_guard else {
        return (desired, Vec::new());
    };
    let (allowed, forbidden): (Vec<_>, Vec<_>) = desired.into_iter().partition(|desired| {
        desired.namespace().is_some_and(|namespace| guard.allows(desired.publication, namespace))
    });
    let holder = holder(standing).or_else(|| first_namespace(standing, &allowed));
    let is_holders = |desired: &Desired<'_>| desired.resource.and_then(namespace::digest_of) == holder;
    let (holders, others): (Vec<_>, Vec<_>) = allowed.into_iter().partition(is_holders);

    let refused = forbidden.iter().map(|desired| {
        let allowed = desired.namespace().map(|namespace| guard.allowed(namespace));
        standing.refusal(desired, Reason::NamespaceGuard { allowed })
    });
    let held = others.iter().map(|desired| {
        let holder = holder.clone().unwrap_or_default();
        standing.refusal(desired, Reason::NamespaceHeld { holder })
    });
    (holders, refused.chain(held).collect())
}

/// The namespace that gets a hostname which none holds yet. The stamp of several rules may name no object: then only who
/// asks for one of these rules can be the one that has them.
fn first_namespace(standing: &Standing<'_>, allowed: &[Desired<'_>]) -> Option<Box<str>> {
    let is_free = standing.claims.is_empty();
    let may_have_it =
        |desired: &&Desired<'_>| is_free || standing.digests_for_path(desired.path()).next().is_some();
    let first = allowed.iter().filter(may_have_it).filter_map(|desired| desired.resource).min();
    first.and_then(namespace::digest_of)
}

/// The digest of the namespace that holds the hostname, read from the stamp (ours or another owner's) or else from
/// ExternalDNS's TXT record.
fn holder(standing: &Standing<'_>) -> Option<Box<str>> {
    let foreign = || standing.foreign_records.iter().find_map(|record| Stamp::of(record));
    let (digest, resource) = match standing.stamp.clone().or_else(foreign) {
        Some(stamp) => (stamp.namespace().map(Into::into), stamp.resource),
        None => (None, heritage::resource(standing)),
    };
    digest.or_else(|| namespace::digest_of(&resource?))
}

/// Whether deletions wait, as a refused endpoint may be one of them under another path. Where namespaces are kept apart,
/// none can hold back what another one deletes.
pub(super) fn withholds_deletions(standing: &Standing<'_>) -> bool {
    let guard = standing.policy().namespace_guard.as_ref();
    let holder = holder(standing).filter(|_| guard.is_some());
    standing.request.wanted.iter().any(|canonical| {
        let resource = canonical.resource().unwrap_or_default();
        let is_holders = || holder == namespace::digest_of(resource);
        match &canonical.publication {
            Ok(publication) => guard.is_some_and(|guard| {
                let namespace = namespace::namespace_of(resource).filter(|_| is_holders());
                namespace.is_some_and(|namespace| !guard.allows(publication, namespace))
            }),
            Err(_) => holder.is_none() || is_holders(),
        }
    })
}
