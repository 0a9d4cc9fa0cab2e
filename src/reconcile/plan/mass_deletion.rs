//! Withholds mass deletions. If a request deletes more hostnames than `MASS_DELETION_LIMIT`, and more than stay in
//! their namespace, or all of them, the probable cause is a wrong filter, source or template.
//!
//! The decision uses no memory, so it is the same in the next loop and after a restart. A rename of all hostnames
//! creates as many hostnames as it deletes, and from the second loop on the old and the new ones exist together. So
//! deletions are compared only with hostnames that are at least as old, by the creation times of the records.

use std::collections::BTreeSet;

use crate::collections::collect;
use crate::reconcile::namespace;
use crate::reconcile::plan::planned::HostOutcome;
use crate::reconcile::reason::Reason;
use crate::reconcile::refusal::Refusal;
use crate::reconcile::snapshot::{OwnRecord, Snapshot};
use crate::reconcile::stamp::NamespaceCode;

/// One of our hostnames.
struct OwnHostname {
    /// The namespace that has the hostname; `None` if it is not known, or without the namespace guard.
    namespace: Option<NamespaceCode>,
    created_unix_seconds: u32,
    /// The name, if the request withdraws the hostname.
    withdrawn: Option<Box<str>>,
}

/// The planned hostnames, without the writes of mass deletions.
pub(super) fn withhold(
    planned: Vec<(Box<str>, HostOutcome)>,
    snapshot: &Snapshot,
) -> impl Iterator<Item = (Box<str>, HostOutcome)> {
    let withdrawn = planned.iter().filter(|(_, outcome)| outcome.counts_as_deletion);
    let withdrawn: BTreeSet<Box<str>> = collect(withdrawn.map(|(hostname, _)| hostname.clone()));
    let withheld = mass_deleted(&withdrawn, snapshot);
    planned.into_iter().map(move |(hostname, outcome)| match &outcome.plan {
        Some(plan) if withheld.contains(&hostname) => {
            let reason = Reason::MassDeletion { hostnames: withdrawn.len() };
            let refusal = Refusal::new(&hostname, None, plan.resource.as_deref(), reason);
            (hostname, outcome.without_plan([refusal]))
        }
        _ => (hostname, outcome),
    })
}

/// The hostnames of mass deletions among the `withdrawn` hostnames. With the namespace guard, each namespace is judged
/// by itself, so the deletions of one namespace withhold none of another namespace. Deletions that would leave no
/// hostname are judged over all namespaces, because a source may fail for many small namespaces at once.
fn mass_deleted(withdrawn: &BTreeSet<Box<str>>, snapshot: &Snapshot) -> BTreeSet<Box<str>> {
    let limit = snapshot.operator().mass_deletion_limit;
    if limit == 0 || withdrawn.len() <= limit {
        return BTreeSet::new();
    }
    let mut published = own_hostnames(withdrawn, snapshot);
    published.sort_unstable_by(|one, other| {
        (&one.namespace, one.created_unix_seconds).cmp(&(&other.namespace, other.created_unix_seconds))
    });
    let of_one_namespace = published.chunk_by(|one, other| one.namespace == other.namespace);
    let outnumber = |going, staying| going > limit && going > staying;
    let mut refused: BTreeSet<Box<str>> =
        collect(of_one_namespace.flat_map(|published| oldest_outnumbered(published, outnumber)));
    published.sort_unstable_by_key(|one| one.created_unix_seconds);
    refused.extend(oldest_outnumbered(&published, |going, staying| going > limit && staying == 0));
    refused
}

/// The hostnames of mass deletions. For each creation time, `is_mass` compares how many hostnames of that age or older
/// are deleted and how many remain. If it is true, all deletions of that age or older are withheld: an allowed young
/// deletion never releases older ones.
fn oldest_outnumbered(
    published: &[OwnHostname],
    is_mass: impl Fn(usize, usize) -> bool,
) -> impl Iterator<Item = Box<str>> {
    let (mut going, mut staying, mut withheld) = (0, 0, 0);
    for of_one_age in published.chunk_by(|a, b| a.created_unix_seconds == b.created_unix_seconds) {
        let going_now = of_one_age.iter().filter(|one| one.withdrawn.is_some()).count();
        going += going_now;
        staying += of_one_age.len() - going_now;
        if is_mass(going, staying) {
            withheld = going + staying;
        }
    }
    published.iter().take(withheld).filter_map(|one| one.withdrawn.clone())
}

/// All hostnames within the filter with a stamp of ours that is not released, each once. A record without a creation
/// time counts as the oldest if its hostname is withdrawn, and as the youngest otherwise, which allows the fewest
/// deletions.
fn own_hostnames(withdrawn: &BTreeSet<Box<str>>, snapshot: &Snapshot) -> Vec<OwnHostname> {
    let own: Vec<OwnRecord<'_>> =
        snapshot.own_records().filter(|own| !own.stamp.claims.is_released).collect();
    let of_hostnames = own.chunk_by(|one, other| one.record.name == other.record.name);
    let own_hostnames = of_hostnames.filter_map(|own| {
        let name = &*own.first()?.record.name;
        let created = own.iter().map(|own| own.record.created_unix_seconds);
        let withdrawn = withdrawn.get(name).cloned();
        let created_unix_seconds = if withdrawn.is_some() {
            created.map(Option::unwrap_or_default).min()
        } else {
            created.map(|seconds| seconds.unwrap_or(u32::MAX)).max()
        };
        let operator = snapshot.operator();
        let namespace =
            operator.namespace_guard.then(|| namespace::holder(name, snapshot).namespace()).flatten();
        let own_hostname = OwnHostname { namespace, created_unix_seconds: created_unix_seconds?, withdrawn };
        operator.filter.matches(name).then_some(own_hostname)
    });
    own_hostnames.collect()
}
