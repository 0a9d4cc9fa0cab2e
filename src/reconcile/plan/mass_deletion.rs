//! Withholds deletions of so many hostnames in one request that something else must be wrong: a filter, a source, a
//! template.
//!
//! Nothing is remembered, so neither the next loop nor a restart changes the decision. A rename of everything creates
//! as many hostnames as it removes, and from the second loop on both stand there. So deletions are only compared with
//! hostnames that are as old; Cloudflare tells when each record was made.

use std::collections::BTreeSet;
use std::mem;

use super::{HostPlan, Plan, Reason, Refusal};
use crate::lean::inserted;
use crate::reconcile::namespace;
use crate::reconcile::snapshot::Snapshot;
use crate::reconcile::stamp::NamespaceCode;

/// One of our hostnames.
struct OwnHostname {
    /// The namespace that has it, if namespaces are kept apart.
    namespace: Option<NamespaceCode>,
    created_unix_seconds: u32,
    /// The hostname would be gone.
    goes: bool,
    /// The index in the plan, if the hostname has a write there.
    plan_index: Option<usize>,
}

/// The plan without deletions that are a mass. With the namespace guard, each namespace is judged by itself, so the
/// deletions of one withhold none of another. Deletions that would leave nothing are a mass over all namespaces: a source
/// may fail for many small ones at once.
pub(super) fn without_mass_deletion(mut plan: Plan, snapshot: &Snapshot) -> Plan {
    let limit = snapshot.policy().mass_deletion_limit;
    let vanishing = plan.hosts.iter().filter(|host| host.is_withdrawn).count();
    if limit == 0 || vanishing <= limit {
        return plan;
    }
    let mut published = own_hostnames(&plan, snapshot);
    published.sort_unstable_by(|one, other| {
        (&one.namespace, one.created_unix_seconds).cmp(&(&other.namespace, other.created_unix_seconds))
    });
    let of_one_namespace = published.chunk_by(|one, other| one.namespace == other.namespace);
    let outnumber = |going, staying| going > limit && going > staying;
    let mut withheld: BTreeSet<usize> =
        inserted(of_one_namespace.flat_map(|published| mass(published, outnumber)));
    published.sort_unstable_by_key(|one| one.created_unix_seconds);
    withheld.extend(mass(&published, |going, staying| going > limit && staying == 0));
    let mut indices = 0..;
    let is_withheld = |_: &HostPlan| indices.next().is_some_and(|index| withheld.contains(&index));
    let (withheld, hosts): (Vec<HostPlan>, Vec<HostPlan>) =
        mem::take(&mut plan.hosts).into_iter().partition(is_withheld);
    plan.tell_nothing_of(&inserted(withheld.iter().map(|host| host.hostname.clone())));
    let reason = Reason::MassDeletion;
    let refusals =
        withheld.into_iter().map(|host| Refusal::whole(host.hostname, host.resource, reason.clone()));
    plan.refusals.extend(refusals);
    Plan { hosts, ..plan }
}

/// The plan's indices of deletions that are a mass. `is_mass` judges each age of the sorted hostnames by itself, by
/// the numbers of going and of staying hostnames that are at least as old. A young hostname is compared with more
/// hostnames than an old hostname, and its allowed deletion does not allow the deletions of the others.
fn mass(published: &[OwnHostname], is_mass: impl Fn(usize, usize) -> bool) -> impl Iterator<Item = usize> {
    let (mut going, mut staying, mut withheld) = (0, 0, 0);
    for of_one_age in published.chunk_by(|a, b| a.created_unix_seconds == b.created_unix_seconds) {
        let going_now = of_one_age.iter().filter(|one| one.goes).count();
        going += going_now;
        staying += of_one_age.len() - going_now;
        if is_mass(going, staying) {
            withheld = going + staying;
        }
    }
    published.iter().take(withheld).filter(|one| one.goes).filter_map(|one| one.plan_index)
}

/// All hostnames that are served or go, each once. A record without a date counts as the
/// oldest if it goes, and as the youngest if it stays, which allows the fewest deletions.
fn own_hostnames(plan: &Plan, snapshot: &Snapshot) -> Vec<OwnHostname> {
    let mut published = Vec::new();
    for zone in &snapshot.zones {
        for records in zone.records().chunk_by(|a, b| a.name == b.name) {
            let Some(name) = records.first().map(|record| &*record.name) else { continue };
            let own = snapshot.own_records_of(name);
            let is_home = own.first().is_some_and(|first| first.zone.zone.id == zone.zone.id);
            if !is_home || !snapshot.policy().filter.matches(name) {
                continue;
            }
            let created = own.iter().map(|own| own.record.created_unix_seconds);
            let plan_index = plan.hosts.binary_search_by(|host| (*host.hostname).cmp(name)).ok();
            let goes =
                plan_index.is_some_and(|index| plan.hosts.get(index).is_some_and(|host| host.is_withdrawn));
            let created = if goes {
                created.map(Option::unwrap_or_default).min()
            } else {
                created.map(|seconds| seconds.unwrap_or(u32::MAX)).max()
            };
            let guard = snapshot.policy().namespace_guard;
            let namespace = guard.then(|| namespace::holder(name, snapshot).ok()?).flatten();
            let of = |created_unix_seconds| OwnHostname { namespace, created_unix_seconds, goes, plan_index };
            published.extend(created.map(of));
        }
    }
    published
}
