//! Decides which wildcards are published. A route without hostnames gets those of its listeners, and an Ingress those
//! of its certificates, so a wildcard of such an object is published only if `webhook/tunnel-wildcard` asks for it.
//!
//! A published wildcard has the value `true`, because `records` shows that value at each wildcard of ours.

use std::collections::BTreeSet;

use crate::limits;
use crate::model::endpoint::{Endpoint, Property};
use crate::reconcile::canonical::{
    Candidate, Intent, RECORD_ONLY, have_same_path, is_invalid, path_of, resource_of,
};
use crate::reconcile::property_name::{INVALID, TUNNEL_SERVICE, TUNNEL_WILDCARD};
use crate::reconcile::snapshot::Snapshot;
use crate::reconcile::{Note, NoteKind};

/// The value that asks for the wildcard.
pub(super) const ASKED: &str = "true";

/// The kinds of objects whose hostnames are all written into the object itself.
const WRITTEN_KINDS: [&str; 2] = ["service/", "crd/"];

const NOT_READ: &str = "webhook/tunnel-wildcard is missing, and the webhook does not know yet if the wildcard is published: the \
     next loop decides";

const OTHER_PATH_PUBLISHED: &str = "webhook/tunnel-wildcard is missing, and another path of the wildcard is published: set it to true \
     to publish this path too";

const REMEDY: &str = "set the annotation, list hostnames on the route, or exclude the object (webhook/tunnel: \"false\", or controller: none)";

/// The property with which each published wildcard is shown.
pub fn property(dns_name: &str) -> Option<Property> {
    is_wildcard(dns_name).then(|| Property::new(TUNNEL_WILDCARD, ASKED))
}

/// True if the endpoint's object has to set the property. Without an object, a program sent the endpoint as it is.
pub(super) fn needs_property(dns_name: &str, resource: Option<&str>) -> bool {
    let is_written = |resource: &str| WRITTEN_KINDS.into_iter().any(|kind| resource.starts_with(kind));
    is_wildcard(dns_name) && !resource.is_none_or(is_written)
}

fn is_wildcard(dns_name: &str) -> bool {
    dns_name.starts_with("*.")
}

/// Marks unpublished wildcards without the property as left out. If their object has a published path of the wildcard,
/// they become invalid instead: ExternalDNS may be deleting their earlier form. `candidates` are sorted. Returns the
/// notes on the wildcards that are left out.
pub(super) fn leave_out(candidates: &mut [Candidate], snapshot: Option<&Snapshot>) -> Vec<Note> {
    let own = |endpoint: &Endpoint| {
        snapshot.map(|snapshot| snapshot.own_records_of(&endpoint.dns_name)).unwrap_or_default()
    };
    let is_published = |endpoint: &Endpoint| {
        let path = path_of(&endpoint.set_identifier);
        snapshot
            .is_some_and(|snapshot| own(endpoint).iter().any(|own| snapshot.claims_path(&own.stamp, path)))
    };
    let is_named = |endpoint: &Endpoint| {
        own(endpoint).iter().any(|own| own.stamp.resource.as_deref() == Some(resource_of(endpoint)))
    };
    let unasked = candidates.iter().filter(|one| one.intent.unasked_wildcard).map(|one| &one.endpoint);
    let holders: BTreeSet<_> =
        unasked.filter(|endpoint| is_published(endpoint) || is_named(endpoint)).map(object).collect();
    let mut left_out = Vec::new();
    for at_path in candidates.chunk_by_mut(|one, other| have_same_path(&one.endpoint, &other.endpoint)) {
        let is_asked = !at_path.iter().all(|one| one.intent.unasked_wildcard);
        let unasked = at_path.iter_mut().filter(|one| one.intent.unasked_wildcard);
        for Candidate { endpoint, intent, is_left_out } in unasked {
            if is_published(endpoint) {
                continue;
            }
            let problem = match snapshot {
                None => NOT_READ,
                Some(_) if holders.contains(&object(endpoint)) => OTHER_PATH_PUBLISHED,
                Some(_) => {
                    if !is_asked {
                        add(&mut left_out, endpoint, *intent, NoteKind::LeftOutWildcard);
                    }
                    *is_left_out = true;
                    continue;
                }
            };
            let problem = endpoint.property(INVALID).unwrap_or(problem).to_owned();
            endpoint.provider_specific = vec![Property::new(INVALID, problem)];
            intent.unasked_wildcard = false;
        }
    }
    left_out
}

fn object(endpoint: &Endpoint) -> (Box<str>, Box<str>) {
    (endpoint.dns_name.as_str().into(), resource_of(endpoint).into())
}

/// Adds the property to the published wildcards without it. Returns the notes on them.
pub(super) fn keep_published(candidates: &mut [Candidate]) -> Vec<Note> {
    let mut public = Vec::new();
    let unasked = candidates.iter_mut().filter(|one| one.intent.unasked_wildcard);
    for Candidate { endpoint, intent, .. } in unasked {
        add(&mut public, endpoint, *intent, NoteKind::PublicWildcard);
        if !is_invalid(endpoint) {
            endpoint.provider_specific.extend(property(&endpoint.dns_name));
            endpoint.provider_specific.sort_unstable();
        }
    }
    public
}

/// Adds the note on a wildcard, once for all its objects and paths. Wildcards are added in sorted order.
fn add(notes: &mut Vec<Note>, endpoint: &Endpoint, intent: Intent, kind: NoteKind) {
    let is_said = notes.last().is_some_and(|last| *last.hostname == *endpoint.dns_name);
    if is_said || notes.len() >= limits::NOTES_MAX {
        return;
    }
    let below = endpoint.dns_name.trim_start_matches("*.");
    let by = match endpoint.property(TUNNEL_SERVICE) {
        None => String::new(),
        Some(RECORD_ONLY) => " through the tunnel".to_owned(),
        Some(service) => format!(" by {service:?}"),
    };
    let text = if kind == NoteKind::PublicWildcard {
        format!(
            "the wildcard is public, and its object does not set webhook/tunnel-wildcard: \"true\": every name below {below} is served{by}: {REMEDY}"
        )
    } else {
        let login =
            if intent.asks_for_login { "; the object's login protects none of these names now" } else { "" };
        format!(
            "the webhook does not publish the wildcard, because its object does not set webhook/tunnel-wildcard: \"true\": every name below {below} \
             would be served{by}{login}: {REMEDY}"
        )
    };
    notes.push(Note { kind, ..Note::of(endpoint, text) });
}
