//! Decides which wildcards are published. A route without hostnames gets those of its listeners, and an Ingress those
//! of its certificates, so a wildcard of such an object is published only if `webhook/tunnel-wildcard` asks for it.
//!
//! A published wildcard has the value `true`, because `records` shows that value at each wildcard of ours.

use std::collections::BTreeSet;

use crate::collections::collect;
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

const NOT_READ: &str = "webhook/tunnel-wildcard is missing, and Cloudflare's last answers do not tell \
     whether the wildcard is published: the next loop decides";

const OTHER_PATH_PUBLISHED: &str = "webhook/tunnel-wildcard is missing, and another path of the wildcard is \
     published: set it to true to publish this path too";

const REMEDY: &str = "set the annotation, list hostnames on the route, or exclude the object \
     (webhook/tunnel: \"false\", or controller: none)";

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

/// Leaves out an unpublished wildcard without the property. If the last snapshot is missing or outdated or has an old
/// answer about its zone, or the object publishes a path of the wildcard or is named in its stamp, the candidate
/// becomes invalid instead: ExternalDNS may be deleting its earlier form. A published wildcard gets the property.
/// `on_host` are the candidates of one hostname. Returns a note on those that are left out.
pub(super) fn leave_out(on_host: &mut [Candidate], snapshot: Option<&Snapshot>) -> Option<Note> {
    let (unasked, asked): (Vec<&Candidate>, Vec<&Candidate>) =
        on_host.iter().partition(|candidate| candidate.intent.unasked_wildcard);
    let name = unasked.first()?.endpoint.dns_name.clone();
    // Only its record says that a wildcard is published, and an old answer about its zone may hide the record.
    let known = snapshot.filter(|snapshot| !snapshot.has_old_zone(&name));
    let own = known.map(|snapshot| snapshot.own_records_of(&name)).unwrap_or_default();
    let is_published = |endpoint: &Endpoint| {
        let path = path_of(&endpoint.set_identifier);
        known.is_some_and(|snapshot| own.iter().any(|own| snapshot.claims_path(&own.stamp, path)))
    };
    let is_named = |endpoint: &Endpoint| {
        own.iter().any(|own| own.stamp.resource.as_deref() == Some(resource_of(endpoint)))
    };
    let publishing = unasked.iter().map(|candidate| &candidate.endpoint);
    let publishing = publishing.filter(|endpoint| is_published(endpoint) || is_named(endpoint));
    let publishing_objects: BTreeSet<Box<str>> =
        collect(publishing.map(|endpoint| resource_of(endpoint).into()));
    let asked = asked.iter().map(|candidate| &candidate.endpoint);
    let asked_paths: BTreeSet<Box<str>> = collect(asked.map(|endpoint| (&*endpoint.set_identifier).into()));
    let mut note = None;
    for Candidate { endpoint, intent, is_public_unasked, is_left_out } in on_host {
        if !intent.unasked_wildcard {
            continue;
        }
        if is_published(endpoint) {
            *is_public_unasked = true;
            if !is_invalid(endpoint) {
                endpoint.provider_specific.extend(property(&name));
                endpoint.provider_specific.sort_unstable();
            }
        } else if known.is_none() || publishing_objects.contains(resource_of(endpoint)) {
            invalidate(endpoint, if known.is_none() { NOT_READ } else { OTHER_PATH_PUBLISHED });
        } else {
            *is_left_out = true;
            if note.is_none() && !asked_paths.contains(&*endpoint.set_identifier) {
                note = Some(note_of(endpoint, *intent, NoteKind::LeftOutWildcard));
            }
        }
    }
    note
}

/// The note on a published wildcard without the property, after [`leave_out`].
pub(super) fn note_of_public(on_host: &[Candidate]) -> Option<Note> {
    let Candidate { endpoint, intent, .. } = on_host.iter().find(|one| one.is_public_unasked)?;
    Some(note_of(endpoint, *intent, NoteKind::PublicWildcard))
}

/// The note on a wildcard, for all its objects and paths.
fn note_of(endpoint: &Endpoint, intent: Intent, kind: NoteKind) -> Note {
    let below = endpoint.dns_name.trim_start_matches("*.");
    let by = match endpoint.property(TUNNEL_SERVICE) {
        None => String::new(),
        Some(RECORD_ONLY) => " through the tunnel".to_owned(),
        Some(service) => format!(" by {service:?}"),
    };
    let text = if kind == NoteKind::PublicWildcard {
        format!(
            "the wildcard is public, and its object does not set webhook/tunnel-wildcard: \"true\": every \
             name below {below} is served{by}: {REMEDY}"
        )
    } else {
        let login =
            if intent.asks_for_login { "; the object's login protects none of these names now" } else { "" };
        format!(
            "the webhook does not publish the wildcard, because its object does not set \
             webhook/tunnel-wildcard: \"true\": every name below {below} would be served{by}{login}: \
             {REMEDY}"
        )
    };
    Note { kind, ..Note::of(endpoint, text) }
}
