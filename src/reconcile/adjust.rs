//! `POST /adjustendpoints`: every endpoint that is meant for a tunnel in its canonical form, all others left out.
//!
//! Pure, deterministic and idempotent, because ExternalDNS compares the answer with `records` in every loop. It
//! never fails and never withdraws: an endpoint with a mistake in it stays, and `plan` refuses it by name.

use crate::endpoint::Endpoint;
use crate::reconcile::canonical::{self, RESOURCE_LABEL};
use crate::reconcile::{Note, Settings};

/// The answer, and what it left out of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Adjusted {
    /// Sorted by name, set identifier, resource and properties: ExternalDNS's own order is random, and two objects
    /// with one name would take turns.
    pub endpoints: Vec<Endpoint>,
    /// Options that were left out.
    pub notes: Vec<Note>,
}

/// Brings what ExternalDNS wants into canonical form.
pub fn adjust(endpoints: &[Endpoint], settings: &Settings) -> Adjusted {
    let mut adjusted = Adjusted::default();
    for canonical in endpoints.iter().filter_map(|endpoint| canonical::read(endpoint, settings)) {
        adjusted.endpoints.push(canonical.endpoint);
        adjusted.notes.extend(canonical.notes);
    }
    adjusted.endpoints.sort_by(|a, b| sort_key(a).cmp(&sort_key(b)));
    // The A and the AAAA of one object have become one and the same CNAME.
    adjusted.endpoints.dedup();
    adjusted.notes.sort_unstable();
    adjusted.notes.dedup();
    adjusted
}

fn sort_key(endpoint: &Endpoint) -> impl Ord + '_ {
    let Endpoint { dns_name, targets, record_type: _, set_identifier, record_ttl: _, labels, provider_specific } =
        endpoint;
    (dns_name, set_identifier, labels.value(RESOURCE_LABEL), provider_specific, targets, labels)
}
