//! What becomes of the endpoints of several objects before they are planned.

use std::collections::BTreeSet;

use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;

/// What ExternalDNS makes of the endpoints of one source, in the order in which it reads the objects
/// (`endpoint/utils.go` `MergeEndpoints`): those with one name, type, set identifier, TTL and, for a CNAME, first target are
/// one, with the properties and labels of the first. The real one has them in the order of a Go map.
pub fn merged(endpoints: impl IntoIterator<Item = Endpoint>) -> Vec<Endpoint> {
    let mut merged: Vec<Endpoint> = Vec::new();
    // Of what was merged the first target may be another afterwards.
    let mut keys = Vec::new();
    for endpoint in endpoints {
        let is_cname = endpoint.record_type == "CNAME";
        if is_cname && endpoint.targets.is_empty() {
            continue;
        }
        let key = (
            endpoint.dns_name.clone(),
            endpoint.record_type.clone(),
            endpoint.set_identifier.clone(),
            endpoint.record_ttl,
            endpoint.targets.first().filter(|_| is_cname).cloned(),
        );
        let place = keys.iter().position(|other| *other == key);
        match place.and_then(|place| merged.get_mut(place)) {
            Some(first) => first.targets.extend(endpoint.targets),
            None => {
                keys.push(key);
                merged.push(endpoint);
            }
        }
    }
    for endpoint in &mut merged {
        endpoint.targets.sort_unstable();
        endpoint.targets.dedup();
    }
    merged
}

/// What it makes of all sources together (`source/wrappers/dedupsource.go`): of those with one name, type, set identifier
/// and targets the first one stays.
pub fn deduplicated(endpoints: impl IntoIterator<Item = Endpoint>) -> Vec<Endpoint> {
    let mut seen = BTreeSet::new();
    let key = |endpoint: &Endpoint| {
        let Endpoint { dns_name, record_type, set_identifier, targets, .. } = endpoint.clone();
        (dns_name, record_type, set_identifier, targets)
    };
    endpoints.into_iter().filter(|endpoint| seen.insert(key(endpoint))).collect()
}
