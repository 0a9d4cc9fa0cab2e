//! What a controller asks for, by what there is and what is wanted.

use std::collections::{BTreeMap, BTreeSet};

use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Changes, Endpoint};

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

/// `plan/conflict.go`: an update takes the candidate whose label is the current one's, and one without is the same as an
/// empty one; a creation the smallest by targets.
fn resolve<'a>(current: Option<&Endpoint>, candidates: &[&'a Endpoint]) -> Option<&'a Endpoint> {
    let resource = |endpoint: &Endpoint| endpoint.labels.value("resource").unwrap_or_default().to_owned();
    let mut candidates = candidates.to_vec();
    candidates.sort_by_key(|candidate| (candidate.targets.len(), &candidate.targets));
    let of_current = current.and_then(|current| {
        candidates.iter().find(|candidate| resource(candidate) == resource(current)).copied()
    });
    of_current.or_else(|| candidates.first().copied())
}

/// ExternalDNS's planner with policy sync, as `plan/plan.go` has it: rows by name and set identifier, one candidate
/// each, updates where target or properties differ, owner filter.
pub fn plan(current: &[Endpoint], desired: &[Endpoint]) -> Changes {
    type Rows<'a> = BTreeMap<(String, String), Vec<&'a Endpoint>>;
    fn rows(endpoints: &[Endpoint]) -> Rows<'_> {
        let mut rows = Rows::new();
        for endpoint in endpoints {
            rows.entry((endpoint.dns_name.clone(), endpoint.set_identifier.clone()))
                .or_default()
                .push(endpoint);
        }
        rows
    }
    // TXT is no type that ExternalDNS manages unless told to.
    let current: Vec<Endpoint> =
        current.iter().filter(|endpoint| endpoint.record_type != "TXT").cloned().collect();
    let (current, desired) = (rows(&current), rows(desired));
    let mut changes = Changes::default();
    let keys: BTreeSet<_> = current.keys().chain(desired.keys()).collect();
    for key in keys {
        let present = current.get(key).map(Vec::as_slice).unwrap_or_default();
        let candidates = desired.get(key).map(Vec::as_slice).unwrap_or_default();
        let same = present.iter().find(|endpoint| endpoint.record_type == "CNAME");
        let chosen = resolve(same.copied(), candidates);
        match (same, chosen) {
            (Some(same), Some(chosen)) => {
                let properties: BTreeSet<_> = same.provider_specific.iter().collect();
                let wanted: BTreeSet<_> = chosen.provider_specific.iter().collect();
                if same.targets != chosen.targets || properties != wanted {
                    changes.update_old.push((*same).clone());
                    let mut new = (*chosen).clone();
                    if let Some(owner) = same.labels.value("owner") {
                        new.labels.set("owner", owner);
                    }
                    changes.update_new.push(new);
                }
            }
            (None, Some(chosen)) => {
                changes.create.push((*chosen).clone());
            }
            (Some(_) | None, None) => {}
        }
        for endpoint in present {
            if chosen.is_none() || endpoint.record_type != "CNAME" {
                changes.delete.push((*endpoint).clone());
            }
        }
    }
    changes
}
