//! Decides which wildcards are published: a route without hostnames has those of its listeners, and an Ingress those of
//! its certificates, so a wildcard of such an object is published only by a word that means nothing else.
//!
//! `reading.rs` marks a wildcard without the word by the word's value `false`, which only this file and `winner.rs`
//! see. A published wildcard has the value `true` from there on, because `records` shows it at each wildcard of ours.

use std::collections::BTreeSet;

use crate::limits;
use crate::model::endpoint::{Endpoint, Property};
use crate::reconcile::access::wish::OPEN;
use crate::reconcile::canonical::{RECORD_ONLY, path_of, resource_of};
use crate::reconcile::property_name::{
    ACCESS_POLICY, ACCESS_PREFIX, INVALID, TUNNEL_SERVICE, TUNNEL_WILDCARD,
};
use crate::reconcile::snapshot::{OwnRecord, Snapshot};
use crate::reconcile::{Note, winner};

/// The value that asks for the wildcard.
pub(super) const ASKED: &str = "true";

/// The value that asks for nothing.
pub(super) const UNASKED: &str = "false";

/// The kinds of objects that have no hostnames but those that were written into them.
const WRITTEN_KINDS: [&str; 2] = ["service/", "crd/"];

const NOT_READ: &str = "webhook/tunnel-wildcard is missing, and nothing was read yet that would tell if the wildcard is \
     published: the next loop tells";

const TAKEN_OFF: &str = "webhook/tunnel-wildcard is missing, and another path of the wildcard is published: set it to true \
     to publish this path too";

const WAYS: &str = "set it; or list hostnames on the route; or exclude the object (webhook/tunnel: \"false\", or controller: none)";

/// A wildcard that no object asks for by the word.
#[derive(Clone, Debug, PartialEq)]
pub struct UnaskedWildcard {
    /// What it leads to, or would lead to, and the ways out.
    pub note: Note,
    /// It is published, and stays so.
    pub is_public: bool,
}

/// The word, in which each published wildcard is shown.
pub fn word(dns_name: &str) -> Option<Property> {
    is_wildcard(dns_name).then(|| Property::new(TUNNEL_WILDCARD, ASKED))
}

/// True if the object of an endpoint has to say the word. Without an object, a program sent the endpoint as it is.
pub(super) fn needs_word(dns_name: &str, resource: Option<&str>) -> bool {
    let is_written = |resource: &str| WRITTEN_KINDS.into_iter().any(|kind| resource.starts_with(kind));
    is_wildcard(dns_name) && !resource.is_none_or(is_written)
}

fn is_wildcard(dns_name: &str) -> bool {
    dns_name.starts_with("*.")
}

/// True if its object does not say the word.
pub(super) fn is_unasked(endpoint: &Endpoint) -> bool {
    endpoint.property(TUNNEL_WILDCARD) == Some(UNASKED)
}

/// Leaves out unpublished wildcards without the word. If their object has a published path of the wildcard, they become
/// invalid instead: a deletion of ExternalDNS may be of their earlier form. `endpoints` are sorted.
pub(super) fn leave_out(endpoints: &mut Vec<Endpoint>, snapshot: Option<&Snapshot>) -> Vec<UnaskedWildcard> {
    let claim = |endpoint: &Endpoint| PathClaim::of(endpoint, snapshot);
    let unasked: Vec<&Endpoint> = endpoints.iter().filter(|endpoint| is_unasked(endpoint)).collect();
    if unasked.is_empty() {
        return Vec::new();
    }
    let standing = unasked.into_iter().filter(|endpoint| claim(endpoint) == PathClaim::Stands);
    let holders: BTreeSet<_> = standing.map(object).collect();
    let (mut stays, mut left_out) = (Vec::with_capacity(endpoints.len()), Vec::new());
    for at_path in endpoints.chunk_by_mut(winner::have_same_path) {
        let is_asked = !at_path.iter().all(is_unasked);
        for endpoint in at_path {
            let claim = if is_unasked(endpoint) { claim(endpoint) } else { PathClaim::Stands };
            let problem = match claim {
                PathClaim::Stands => None,
                PathClaim::Unread => Some(NOT_READ),
                PathClaim::Free if !holders.contains(&object(endpoint)) => {
                    if !is_asked {
                        add(&mut left_out, endpoint, false);
                    }
                    stays.push(false);
                    continue;
                }
                PathClaim::Free | PathClaim::BesideOwn => Some(TAKEN_OFF),
            };
            if let Some(problem) = endpoint.property(INVALID).or(problem).map(str::to_owned) {
                endpoint.provider_specific = vec![Property::new(INVALID, problem)];
            }
            stays.push(true);
        }
    }
    let mut stays = stays.into_iter();
    endpoints.retain(|_| stays.next().unwrap_or(true));
    left_out
}

fn object(endpoint: &Endpoint) -> (Box<str>, Box<str>) {
    (endpoint.dns_name.as_str().into(), resource_of(endpoint).into())
}

/// Gives the word to the wildcards that stand without it.
pub(super) fn keep(endpoints: &mut [Endpoint]) -> Vec<UnaskedWildcard> {
    let mut public = Vec::new();
    for endpoint in endpoints.iter_mut().filter(|endpoint| is_unasked(endpoint)) {
        add(&mut public, endpoint, true);
        endpoint.provider_specific.retain(|property| *property.name != *TUNNEL_WILDCARD);
        endpoint.provider_specific.extend(word(&endpoint.dns_name));
        endpoint.provider_specific.sort_unstable();
    }
    public
}

/// The claim of our stamps on the path of a wildcard's endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathClaim {
    /// A stamp of ours names the endpoint's path.
    Stands,
    /// A stamp of ours names other paths, all of them the endpoint's object's.
    BesideOwn,
    Free,
    /// No stamp was read.
    Unread,
}

impl PathClaim {
    fn of(endpoint: &Endpoint, snapshot: Option<&Snapshot>) -> Self {
        let Some(snapshot) = snapshot else { return Self::Unread };
        let path = path_of(&endpoint.set_identifier);
        let mut claim = Self::Free;
        for OwnRecord { stamp, .. } in snapshot.own_records_of(&endpoint.dns_name) {
            if snapshot.claims_path(&stamp, path) {
                return Self::Stands;
            }
            if stamp.resource.as_deref() == Some(resource_of(endpoint)) {
                claim = Self::BesideOwn;
            }
        }
        claim
    }
}

/// Adds what is said of a wildcard, once for all its objects and paths, which are sorted.
fn add(unasked: &mut Vec<UnaskedWildcard>, endpoint: &Endpoint, is_public: bool) {
    let is_said = unasked.last().is_some_and(|last| *last.note.hostname == *endpoint.dns_name);
    if is_said || unasked.len() >= limits::NOTES_MAX {
        return;
    }
    let below = endpoint.dns_name.trim_start_matches("*.");
    let to = match endpoint.property(TUNNEL_SERVICE) {
        None => String::new(),
        Some(RECORD_ONLY) => " to the tunnel".to_owned(),
        Some(service) => format!(" to {service:?}"),
    };
    let text = if is_public {
        format!(
            "is public, and its object does not set webhook/tunnel-wildcard: \"true\": every name below {below} leads{to}: {WAYS}"
        )
    } else {
        let login = if names_login(endpoint) { "; its login protects no name below" } else { "" };
        format!(
            "is left out, because its object does not set webhook/tunnel-wildcard: \"true\": every name below {below} \
             would lead{to}{login}: {WAYS}"
        )
    };
    unasked.push(UnaskedWildcard { note: Note::of(endpoint, text), is_public });
}

fn names_login(endpoint: &Endpoint) -> bool {
    let mut properties = endpoint.provider_specific.iter();
    properties.any(|property| {
        property.name.starts_with(ACCESS_PREFIX)
            && !(*property.name == *ACCESS_POLICY && *property.value == *OPEN)
    })
}
