//! Decides which wildcards are published. A route without hostnames gets those of its listeners, and an Ingress those
//! of its certificates, so a wildcard of such an object is published only if `webhook/tunnel-wildcard` asks for it.
//!
//! A published wildcard has the value `true`, because `records` shows that value at each wildcard of ours.

use std::collections::BTreeSet;

use crate::limits;
use crate::model::endpoint::{Endpoint, Property};
use crate::reconcile::canonical::{
    Candidate, Intent, RECORD_ONLY, invalidate, is_invalid, path_of, resource_of,
};
use crate::reconcile::property_name::{TUNNEL_SERVICE, TUNNEL_WILDCARD};
use crate::reconcile::snapshot::Snapshot;
use crate::reconcile::{Note, NoteKind};

/// The value that asks for the wildcard.
pub(super) const ASKED: &str = "true";

/// The kinds of objects whose hostnames are all written into the object itself.
const WRITTEN_KINDS: [&str; 2] = ["service/", "crd/"];

const NOT_READ: &str = "webhook/tunnel-wildcard is missing, and Cloudflare's last answers do not tell whether the wildcard is \
     published: the next loop decides";

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

/// Leaves out unpublished wildcards without the property. If the last snapshot is missing or has an old answer about
/// their zone, or their object publishes a path of the wildcard or is named in its stamp, they become invalid instead:
/// ExternalDNS may be deleting their earlier form. Published wildcards get the property. `candidates` are sorted. Returns
/// the other candidates, and the notes on the wildcards that are left out.
pub(super) fn leave_out(
    mut candidates: Vec<Candidate>,
    snapshot: Option<&Snapshot>,
) -> (Vec<Candidate>, Vec<Note>) {
    // Only its record says that a wildcard is published, and an old answer about its zone may hide the record.
    let known = |endpoint: &Endpoint| snapshot.filter(|snapshot| !snapshot.has_old_zone(&endpoint.dns_name));
    let own = |endpoint: &Endpoint| {
        known(endpoint).map(|snapshot| snapshot.own_records_of(&endpoint.dns_name)).unwrap_or_default()
    };
    let is_published = |endpoint: &Endpoint| {
        let path = path_of(&endpoint.set_identifier);
        known(endpoint)
            .is_some_and(|snapshot| own(endpoint).iter().any(|own| snapshot.claims_path(&own.stamp, path)))
    };
    let is_named = |endpoint: &Endpoint| {
        own(endpoint).iter().any(|own| own.stamp.resource.as_deref() == Some(resource_of(endpoint)))
    };
    let unasked = candidates.iter().filter(|one| one.intent.unasked_wildcard).map(|one| &one.endpoint);
    let publishing_objects: BTreeSet<_> =
        unasked.filter(|endpoint| is_published(endpoint) || is_named(endpoint)).map(object).collect();
    let asked = candidates.iter().filter(|one| !one.intent.unasked_wildcard).map(|one| &one.endpoint);
    let asked_paths: BTreeSet<_> =
        asked.filter(|endpoint| is_wildcard(&endpoint.dns_name)).map(path).collect();
    let mut notes = Vec::new();
    candidates.retain_mut(|Candidate { endpoint, intent }| {
        if !intent.unasked_wildcard {
            return true;
        }
        if is_published(endpoint) {
            if !is_invalid(endpoint) {
                endpoint.provider_specific.extend(property(&endpoint.dns_name));
                endpoint.provider_specific.sort_unstable();
            }
            return true;
        }
        let is_unknown = known(endpoint).is_none();
        let is_kept = is_unknown || publishing_objects.contains(&object(endpoint));
        if is_kept {
            intent.unasked_wildcard = false;
            invalidate(endpoint, if is_unknown { NOT_READ } else { OTHER_PATH_PUBLISHED });
        } else if !asked_paths.contains(&path(endpoint)) {
            add(&mut notes, endpoint, *intent, NoteKind::LeftOutWildcard);
        }
        is_kept
    });
    (candidates, notes)
}

fn object(endpoint: &Endpoint) -> (Box<str>, Box<str>) {
    (endpoint.dns_name.as_str().into(), resource_of(endpoint).into())
}

fn path(endpoint: &Endpoint) -> (Box<str>, Box<str>) {
    (endpoint.dns_name.as_str().into(), endpoint.set_identifier.as_str().into())
}

/// The notes on the published wildcards without the property, after [`leave_out`].
pub(super) fn notes_of_public(candidates: &[Candidate]) -> Vec<Note> {
    let mut notes = Vec::new();
    for Candidate { endpoint, intent } in candidates.iter().filter(|one| one.intent.unasked_wildcard) {
        add(&mut notes, endpoint, *intent, NoteKind::PublicWildcard);
    }
    notes
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
