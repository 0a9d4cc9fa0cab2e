//! What a controller asks for, by what there is and what is wanted.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;

use super::Changes;

/// The types of `--managed-record-types`, unless it names others.
const MANAGED_TYPES: [&str; 3] = ["A", "AAAA", "CNAME"];

/// Endpoints by their name, however it is spelled, and set identifier.
type Rows<'a> = BTreeMap<(String, &'a str), Vec<&'a Endpoint>>;

/// A target as `endpoint/endpoint.go` `IsLess` compares it: an address is less than a name.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Target<'a> {
    Address(IpAddr),
    Name(&'a str),
}

/// `--policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncPolicy {
    Sync,
    UpsertOnly,
}

impl SyncPolicy {
    /// `plan/policy.go`: deletions are left out, whatever they are for.
    pub fn allowed(self, changes: Changes) -> Changes {
        match self {
            Self::Sync => changes,
            Self::UpsertOnly => Changes { delete: Vec::new(), ..changes },
        }
    }
}

/// ExternalDNS's planner with policy sync and no owner, as the registry `noop` has it.
pub fn plan(current: &[Endpoint], desired: &[Endpoint]) -> Changes {
    plan_for(None, current, desired)
}

/// ExternalDNS's planner with policy sync, as `plan/plan.go` has it: rows by name and set identifier, one candidate for
/// each type, updates where TTL, targets or properties differ. With an `owner`, only what is the owner's is changed,
/// and nothing is created beside what is another's.
pub(super) fn plan_for(owner: Option<&str>, current: &[Endpoint], desired: &[Endpoint]) -> Changes {
    let is_ours =
        |endpoint: &Endpoint| owner.is_none_or(|owner| endpoint.labels.value("owner") == Some(owner));
    let (current, desired) = (rows(current), rows(desired));
    let mut changes = Changes::default();
    let keys: BTreeSet<_> = current.keys().chain(desired.keys()).collect();
    for key in keys {
        let present = current.get(key).map(Vec::as_slice).unwrap_or_default();
        let candidates = desired.get(key).map(Vec::as_slice).unwrap_or_default();
        if candidates.is_empty() {
            changes.delete.extend(present.iter().copied().cloned());
            continue;
        }
        let may_create = present.iter().copied().all(is_ours);
        // Where both are asked for, a CNAME gives way.
        let has_addresses = candidates.iter().any(|candidate| candidate.record_type != "CNAME");
        for record_type in MANAGED_TYPES {
            // Of several the last one counts.
            let standing = present.iter().rfind(|endpoint| endpoint.record_type == record_type).copied();
            let is_candidate = |candidate: &&Endpoint| {
                candidate.record_type == record_type && (record_type != "CNAME" || !has_addresses)
            };
            let of_type: Vec<&Endpoint> = candidates.iter().copied().filter(is_candidate).collect();
            match (standing, resolve(standing, &of_type)) {
                (Some(standing), Some(chosen)) if differs(standing, chosen) => {
                    changes.update_old.push(standing.clone());
                    let mut new = chosen.clone();
                    new.labels.set("owner", standing.labels.value("owner").unwrap_or_default());
                    changes.update_new.push(new);
                }
                (Some(standing), None) => changes.delete.push(standing.clone()),
                (None, Some(chosen)) if may_create => changes.create.push(chosen.clone()),
                (Some(_) | None, Some(_)) | (None, None) => {}
            }
        }
    }
    changes.delete.retain(is_ours);
    let pairs = changes.update_old.into_iter().zip(changes.update_new);
    let (update_old, update_new) = pairs.filter(|(old, _)| is_ours(old)).unzip();
    Changes { update_old, update_new, ..changes }
}

fn rows(endpoints: &[Endpoint]) -> Rows<'_> {
    let mut rows = Rows::new();
    for endpoint in endpoints.iter().filter(|endpoint| MANAGED_TYPES.contains(&&*endpoint.record_type)) {
        let key = (normalized(&endpoint.dns_name), &*endpoint.set_identifier);
        rows.entry(key).or_default().push(endpoint);
    }
    rows
}

/// A name as names are compared (`internal/idna/idna.go`).
pub(super) fn normalized(dns_name: &str) -> String {
    without_dot(dns_name).to_ascii_lowercase()
}

pub(super) fn without_dot(dns_name: &str) -> &str {
    dns_name.strip_suffix('.').unwrap_or(dns_name)
}

/// `plan/conflict.go`: an update takes the candidate whose label is the current one's, and one without is the same as
/// an empty one; a creation the smallest by targets.
fn resolve<'a>(current: Option<&Endpoint>, candidates: &[&'a Endpoint]) -> Option<&'a Endpoint> {
    let resource = |endpoint: &Endpoint| endpoint.labels.value("resource").unwrap_or_default().to_owned();
    let mut candidates = candidates.to_vec();
    candidates.sort_by_key(|candidate| (candidate.targets.len(), compared(&candidate.targets)));
    let of_current = current.and_then(|current| {
        candidates.iter().find(|candidate| resource(candidate) == resource(current)).copied()
    });
    of_current.or_else(|| candidates.first().copied())
}

/// Targets come sorted.
fn compared(targets: &[String]) -> Vec<Target<'_>> {
    targets.iter().map(|target| target.parse().map_or(Target::Name(target), Target::Address)).collect()
}

/// Whether `chosen` asks for something else than what stands.
fn differs(standing: &Endpoint, chosen: &Endpoint) -> bool {
    let targets = |endpoint: &Endpoint| {
        endpoint.targets.iter().map(|target| target.to_ascii_lowercase()).collect::<Vec<_>>()
    };
    let properties =
        |endpoint: &Endpoint| endpoint.provider_specific.iter().cloned().collect::<BTreeSet<_>>();
    (chosen.record_ttl > 0 && chosen.record_ttl != standing.record_ttl)
        || targets(standing) != targets(chosen)
        || properties(standing) != properties(chosen)
}
