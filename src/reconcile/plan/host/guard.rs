//! Applies the namespace guard to one hostname's endpoints.

use super::standing::Standing;
use super::{Desired, heritage};
use crate::reconcile::namespace;
use crate::reconcile::plan::{Reason, Refusal};
use crate::reconcile::stamp::Stamp;

/// The endpoints of the one namespace that can have the hostname, and refusals of the others: the one that holds it, else
/// one that asks for what is published there, else that of the first resource by name.
pub(super) fn guarded<'w>(
    standing: &Standing<'_>,
    desired: Vec<Desired<'w>>,
) -> (Vec<Desired<'w>>, Vec<Refusal>) {
    if standing.policy().namespace_guard.is_none() {
        return (desired, Vec::new());
    }
    let holder = holder(standing).or_else(|| first_namespace(standing, &desired));
    let is_holders = |desired: &Desired<'_>| desired.resource.and_then(namespace::digest_of) == holder;
    let (holders, others): (Vec<_>, Vec<_>) = desired.into_iter().partition(is_holders);
    let held = others.iter().map(|desired| {
        let holder = holder.clone().unwrap_or_default();
        standing.refusal(desired, Reason::NamespaceHeld { holder })
    });
    (holders, held.collect())
}

/// The namespace that gets a hostname which none holds yet. The stamp of several rules may name no object; then only a
/// namespace that asks for one of these rules can be the one that has them.
fn first_namespace(standing: &Standing<'_>, desired: &[Desired<'_>]) -> Option<Box<str>> {
    let is_free = standing.claims.is_empty();
    let may_have_it =
        |desired: &&Desired<'_>| is_free || standing.digests_for_path(desired.path()).next().is_some();
    let first = desired.iter().filter(may_have_it).filter_map(|desired| desired.resource).min();
    first.and_then(namespace::digest_of)
}

/// The digest of the namespace that holds the hostname, read from the stamp (ours or another owner's) or else from
/// ExternalDNS's TXT record.
fn holder(standing: &Standing<'_>) -> Option<Box<str>> {
    let foreign = || standing.foreign_records.iter().find_map(|record| Stamp::of(record));
    match standing.stamp.clone().or_else(foreign) {
        Some(stamp) => namespace::holder(&stamp),
        None => namespace::digest_of(&heritage::resource(standing)?),
    }
}

/// True if deletions wait, because a refused endpoint may be one of them under another path. With the guard on, only the
/// namespace that holds the hostname can hold back its deletions.
pub(super) fn withholds_deletions(standing: &Standing<'_>) -> bool {
    let has_guard = standing.policy().namespace_guard.is_some();
    let holder = holder(standing).filter(|_| has_guard);
    let mut refused = standing.request.wanted.iter().filter(|wanted| wanted.publication.is_err());
    refused.any(|wanted| {
        !has_guard || holder.is_some() && holder == wanted.resource.as_deref().and_then(namespace::digest_of)
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Fixture, HOME, NAME, SERVICE, told, tunnel};
    use super::*;
    use crate::reconcile::namespace::NamespaceGuard;

    const SHOP: &str = "http://web.shop.svc:80";
    const BANK: &str = "http://web.bank.svc:80";

    fn guarding(mut fixture: Fixture) -> Fixture {
        let guard = NamespaceGuard { cluster_domain: "cluster.local".into() };
        fixture.settings.policy.namespace_guard = Some(guard);
        fixture
    }

    /// The namespaces that are let through, and the labels of what is refused.
    fn guarded_in(fixture: &Fixture) -> (Vec<&str>, Vec<&'static str>) {
        let (allowed, refused) = guarded(&fixture.standing(), fixture.desired());
        let allowed = allowed.iter().filter_map(|one| namespace::namespace_of(one.resource?)).collect();
        (allowed, told(&refused).into_iter().map(|(_, label)| label).collect())
    }

    fn held_by(comment: &str) -> Fixture {
        Fixture::new().record(NAME, "CNAME", &tunnel(HOME).hostname(), comment)
    }

    #[test]
    fn without_the_guard_everything_goes_through() {
        let fixture = Fixture::new().asks(HOME, "", SERVICE);
        assert_eq!(guarded_in(&fixture), (vec!["shop"], vec![]));
    }

    #[test]
    fn a_free_hostname_goes_to_the_first_resource_by_name() {
        let fixture = guarding(Fixture::new()).asks(HOME, "", SHOP);
        let fixture = fixture.asks_for("ingress/bank/web", HOME, "^/a", BANK);
        assert_eq!(guarded_in(&fixture), (vec!["bank"], vec!["namespace_held"]));
    }

    #[test]
    fn the_namespace_in_the_stamp_keeps_the_hostname() {
        let stamped = held_by("external-dns owner=default resource=ingress/shop/old rules=-");
        let fixture = guarding(stamped).asks(HOME, "", SHOP);
        let fixture = fixture.asks_for("ingress/bank/web", HOME, "^/a", BANK);
        assert_eq!(guarded_in(&fixture), (vec!["shop"], vec!["namespace_held"]));
    }

    #[test]
    fn another_owners_stamp_tells_a_holder_too() {
        let stamped = held_by("external-dns owner=other resource=ingress/bank/old rules=-");
        let fixture = guarding(stamped).asks(HOME, "", SHOP);
        assert_eq!(guarded_in(&fixture), (vec![], vec!["namespace_held"]));
    }

    #[test]
    fn of_rules_without_a_holder_only_who_asks_for_one_of_them_has_it() {
        let fixture = guarding(Fixture::new().published(&[(HOME, "^/a"), (HOME, "^/b")]));
        let fixture = fixture.asks(HOME, "^/b", SHOP).asks_for("ingress/bank/web", HOME, "^/c", BANK);
        assert_eq!(guarded_in(&fixture), (vec!["shop"], vec!["namespace_held"]));
    }

    #[test]
    fn an_invalid_endpoint_withholds_deletions_of_its_own_namespace_alone() {
        let stamp = "external-dns owner=default resource=ingress/shop/old rules=-";
        for (fixture, resource, withholds) in [
            (held_by(stamp), "ingress/bank/web", true),
            (guarding(held_by(stamp)), "ingress/shop/web", true),
            (guarding(held_by(stamp)), "ingress/bank/web", false),
        ] {
            let fixture = fixture.asks_for(resource, HOME, "", "no service");
            assert_eq!(withholds_deletions(&fixture.standing()), withholds, "{resource}");
        }
    }

    /// Switched on later: the stamp of two rules names no object.
    #[test]
    fn without_a_holder_an_invalid_endpoint_withholds_nothing() {
        let fixture = guarding(Fixture::new().published(&[(HOME, "^/a"), (HOME, "^/b")]));
        let fixture = fixture.asks(HOME, "^/b", SHOP).withdraws("^/a");
        let fixture = fixture.asks_for("ingress/bank/web", HOME, "^/c", "no service");
        assert!(!withholds_deletions(&fixture.standing()));
    }
}
