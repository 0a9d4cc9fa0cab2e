//! Deletions of so many hostnames in one request that something else must be wrong: a filter, a source, a template.
//!
//! Nothing is remembered, so neither the next loop nor a restart changes the decision. A rename of everything makes as many
//! hostnames as it takes away, and from the second loop on both stand there. So what is to go is compared with nothing that
//! is younger; Cloudflare tells when each record was made.

use super::{HostPlan, Plan, Reason, Refusal};
use crate::reconcile::Settings;
use crate::reconcile::snapshot::Snapshot;

/// One of our hostnames.
struct Published {
    created_unix_seconds: u32,
    /// The place in the plan of one that would be gone.
    going: Option<usize>,
}

/// Leaves out the hostnames that would be gone, where they are more than the limit, and more than those that stay and are
/// as old. This is asked at each age: a young hostname is compared with more than an old one, and what it may do is no
/// reason to let the others go with it.
pub(super) fn withhold(plan: &mut Plan, snapshot: &Snapshot, settings: &Settings) {
    let limit = settings.policy.mass_deletion_limit;
    if limit == 0 || plan.hosts.iter().filter(|host| host.vanishes).count() <= limit {
        return;
    }
    let mut published = published(plan, snapshot, settings);
    published.sort_unstable_by_key(|one| one.created_unix_seconds);
    let (mut going, mut staying, mut withheld) = (0, 0, 0);
    for of_one_age in published.chunk_by(|a, b| a.created_unix_seconds == b.created_unix_seconds) {
        let going_now = of_one_age.iter().filter(|one| one.going.is_some()).count();
        going += going_now;
        staying += of_one_age.len() - going_now;
        if going > limit && going > staying {
            withheld = going + staying;
        }
    }
    let hosts = std::mem::take(&mut plan.hosts);
    let mut is_withheld = vec![false; hosts.len()];
    for place in published.iter().take(withheld).filter_map(|one| one.going) {
        if let Some(is_withheld) = is_withheld.get_mut(place) {
            *is_withheld = true;
        }
    }
    for (host, is_withheld) in hosts.into_iter().zip(is_withheld) {
        if is_withheld {
            let HostPlan { hostname, resource, .. } = host;
            let reason = Reason::MassDeletion;
            plan.refusals.push(Refusal { hostname, set_identifier: None, resource, reason });
        } else {
            plan.hosts.push(host);
        }
    }
}

/// Those that are served, and all that go: each once, wherever its records stand. Where nobody tells when a record was made,
/// one that goes counts as older than all others and one that stays as younger: that lets the fewest go.
fn published(plan: &Plan, snapshot: &Snapshot, settings: &Settings) -> Vec<Published> {
    let mut published = Vec::new();
    for zone in &snapshot.zones {
        for records in zone.records().chunk_by(|a, b| a.name == b.name) {
            let Some(name) = records.first().map(|record| &*record.name) else { continue };
            let own = snapshot.own_records_of(name, settings);
            let is_innermost = own.first().is_some_and(|first| first.zone.zone.id == zone.zone.id);
            if !is_innermost || !settings.policy.filter.matches(name) {
                continue;
            }
            let created = own.iter().map(|own| own.record.created_unix_seconds);
            let place = plan.hosts.binary_search_by(|host| (*host.hostname).cmp(name)).ok();
            let going = place.filter(|place| plan.hosts.get(*place).is_some_and(|host| host.vanishes));
            let created = match going {
                Some(_) => created.map(Option::unwrap_or_default).min(),
                // Nobody is led to it there.
                None if snapshot.zone_of(name).is_none() => None,
                None => created.map(|seconds| seconds.unwrap_or(u32::MAX)).max(),
            };
            let of = |created_unix_seconds| Published { created_unix_seconds, going };
            published.extend(created.map(of));
        }
    }
    published
}
