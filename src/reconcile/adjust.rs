//! Answers `POST /adjustendpoints`: brings every endpoint that is meant for a tunnel into canonical form, and chooses
//! one for each hostname and path. Wildcards without their annotation are left out.
//!
//! The decision is pure, deterministic and idempotent, because ExternalDNS compares the answer with `records` in every
//! loop. It never fails and never withdraws: the endpoint of a published path stays in spite of a mistake, and `plan`
//! refuses it. Only the settings, the endpoints and the last snapshot decide.

use std::collections::BTreeMap;

use crate::collections::collect;
use crate::limits;
use crate::model::endpoint::Endpoint;
use crate::model::text::{fingerprint, rule_at};
use crate::reconcile::access::reading::AccessReading;
use crate::reconcile::access::shown;
use crate::reconcile::canonical::{
    Candidate, CanonicalEndpoint, Problem, RESOURCE_LABEL, invalidate, is_unknown_path, resource_of,
};
use crate::reconcile::endpoint_reader::EndpointReader;
use crate::reconcile::property_name::INVALID;
use crate::reconcile::snapshot::Snapshot;
use crate::reconcile::wildcard;
use crate::reconcile::winner;
use crate::reconcile::{Note, Settings};

/// The answer, with notes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Adjusted {
    /// Sorted by name, set identifier, resource and properties: the order of ExternalDNS is random, and two objects
    /// with one hostname would alternate.
    pub endpoints: Vec<Endpoint>,
    /// A fingerprint of each endpoint as its object asks for it.
    pub intent_fingerprints: Vec<u64>,
    /// Notes on endpoints and wildcards that are left out, public wildcards, rules that stay for a namespace, and
    /// protection that no object asks for. Endpoints that are left out and such protection may have a little more than
    /// `NOTES_MAX` notes each, so that the log can say that there are more.
    pub notes: Vec<Note>,
    /// The number of endpoints whose login no object asks for, neither for them nor for a wider place.
    pub unasked_protections: usize,
}

/// Brings endpoints into canonical form one by one, so that only the results are in memory.
#[derive(Debug)]
pub struct Adjuster<'s> {
    reader: EndpointReader<'s>,
    /// The last snapshot.
    snapshot: Option<&'s Snapshot>,
    candidates: Vec<Candidate>,
}

impl<'s> Adjuster<'s> {
    pub fn new(settings: &'s Settings, snapshot: Option<&'s Snapshot>) -> Self {
        let access = snapshot.map_or(&AccessReading::NotAsked, |snapshot| &snapshot.access);
        Self { reader: EndpointReader::new(settings, access), snapshot, candidates: Vec::new() }
    }

    /// Reads an endpoint, adds the results and returns their memory in bytes; `None` if the endpoint is not meant for a
    /// tunnel.
    pub fn add(&mut self, endpoint: &Endpoint) -> Option<usize> {
        let read = self.reader.read(endpoint);
        self.extend(read)
    }

    /// Adds an endpoint as invalid that is not read. A missing endpoint would count as not wanted, and an endpoint
    /// whose type was not read may be ours.
    pub fn add_unread(&mut self, endpoint: &Endpoint, problem: &str) -> Option<usize> {
        let is_ours = endpoint.is_address_or_cname() || endpoint.record_type.is_empty();
        let read = is_ours.then(|| self.reader.unread(endpoint, problem));
        self.extend(read)
    }

    fn extend(&mut self, read: impl IntoIterator<Item = CanonicalEndpoint>) -> Option<usize> {
        let mut bytes = None;
        for CanonicalEndpoint { endpoint, publication: _, intent } in read {
            *bytes.get_or_insert(0) += endpoint.memory_bytes();
            self.candidates.push(Candidate { endpoint, intent, ..Candidate::default() });
        }
        bytes
    }

    /// One endpoint for each hostname and path, sorted. Without a snapshot, the present object of a hostname is not
    /// known: the answer contains all endpoints, and ExternalDNS chooses by its own labels.
    pub fn finish(self) -> Adjusted {
        let Self { reader: _, snapshot, candidates } = self;
        let (mut notes, mut of_losers) = (Vec::new(), Vec::new());
        // In place, because a second list would need memory that no limit counts.
        let mut candidates = sorted(candidates);
        for on_host in candidates.chunk_by_mut(is_one_host) {
            notes.extend(wildcard::leave_out(on_host, snapshot));
            notes.truncate(limits::NOTES_MAX);
        }
        candidates.retain(|candidate| !candidate.is_left_out);
        for on_host in candidates.chunk_by_mut(is_one_host) {
            if let Some(snapshot) = snapshot {
                of_losers.extend(winner::choose(on_host, snapshot, of_losers.len()));
            }
            // After the choice of the winners by their properties, which an invalid endpoint loses.
            refuse_together(on_host);
        }
        candidates.retain(|candidate| !candidate.is_left_out);
        let candidates = sorted(candidates);
        notes.extend(of_losers);
        notes.extend(
            candidates.chunk_by(is_one_host).filter_map(wildcard::note_of_public).take(limits::NOTES_MAX),
        );
        let mut endpoints: Vec<Endpoint> =
            candidates.into_iter().map(|candidate| candidate.endpoint).collect();
        endpoints.dedup();
        let intent_fingerprints = endpoints.iter().map(fingerprint_of).collect();
        let kept_logins =
            snapshot.map(|snapshot| shown::keep_logins(&mut endpoints, snapshot)).unwrap_or_default();
        let unasked_protections = kept_logins.len();
        notes.extend(kept_logins.into_iter().take(limits::NOTES_MAX + 1));
        Adjusted { endpoints, intent_fingerprints, notes, unasked_protections }
    }
}

fn is_one_host(one: &Candidate, other: &Candidate) -> bool {
    one.endpoint.dns_name == other.endpoint.dns_name
}

fn fingerprint_of(endpoint: &Endpoint) -> u64 {
    let Endpoint { targets, provider_specific, .. } = endpoint;
    let properties = provider_specific.iter().flat_map(|property| [&*property.name, &*property.value]);
    fingerprint(targets.iter().map(String::as_str).chain(properties))
}

/// If one endpoint of an object is invalid, all its endpoints for the hostname become invalid: a valid rule would take
/// the requests of the invalid endpoint. Only here are all these endpoints visible: ExternalDNS may ask for only one of
/// them, and another object may win the path of one. `on_host` are sorted, and stay in their order.
fn refuse_together(on_host: &mut [Candidate]) {
    let is_one_path = |one: &Candidate, other: &Candidate| {
        let (one, other) = (&one.endpoint, &other.endpoint);
        one.set_identifier == other.set_identifier && resource_of(one) == resource_of(other)
    };
    let mut problems = excesses(on_host);
    for at_path in on_host.chunk_by_mut(is_one_path) {
        let mut pairs = at_path.array_windows();
        let differ = pairs.any(|[one, other]| !winner::asks_alike(&one.endpoint, &other.endpoint));
        let invalid = at_path.iter().find_map(|one| one.endpoint.property(INVALID));
        let Some(problem) = invalid.or_else(|| differ.then_some(SAME_PATH)) else { continue };
        let problem = problem.to_owned();
        for Candidate { endpoint, .. } in at_path {
            invalidate(endpoint, &problem);
            let object = problems.entry(resource_of(endpoint).into());
            object.or_insert_with(|| waiting_problem(&endpoint.set_identifier, &problem));
        }
    }
    for Candidate { endpoint, .. } in on_host {
        if let Some(problem) = problems.get(resource_of(endpoint)) {
            invalidate(endpoint, problem);
        }
    }
}

/// The problems of the objects with too many paths of the hostname.
fn excesses(on_host: &[Candidate]) -> BTreeMap<Box<str>, String> {
    let mut objects: Vec<&str> = on_host.iter().map(|one| resource_of(&one.endpoint)).collect();
    objects.sort_unstable();
    let most = limits::HOSTNAME_PATHS_MAX;
    let excesses = objects.chunk_by(|one, other| one == other).filter(|same| same.len() > most);
    collect(excesses.filter_map(|same| {
        let problem = format!(
            "the object has {} paths of the hostname: use at most {most}; a record's comment has room for fewer",
            same.len()
        );
        Some(((*same.first()?).into(), problem))
    }))
}

/// The problem of the other endpoints of an object, which wait for the invalid endpoint at this path.
fn waiting_problem(set_identifier: &str, problem: &str) -> String {
    let text = if is_unknown_path(set_identifier) {
        format!("the endpoint waits for another rule of the object, whose path is not known: {problem}")
    } else {
        format!("the endpoint waits for the object's {}, which is invalid", rule_at(set_identifier))
    };
    Problem::new(&text).to_string()
}

const SAME_PATH: &str = "several rules of the object have the same path: give each a webhook/tunnel-path or \
     webhook/tunnel-path-prefix of its own";

/// The problem of an endpoint that no time is left to read.
pub const OUT_OF_TIME: &str =
    "ExternalDNS's request was too large to read in time: look for an object with many long annotations";

/// Sorts candidates and removes duplicates, such as those from the A and the AAAA of one object.
fn sorted(mut candidates: Vec<Candidate>) -> Vec<Candidate> {
    candidates.sort_unstable_by(|one, other| {
        let (a, b) = (&one.endpoint, &other.endpoint);
        // Most endpoints already differ in their names.
        let by_name = a.dns_name.cmp(&b.dns_name);
        by_name.then_with(|| (sort_key(a), one.intent).cmp(&(sort_key(b), other.intent)))
    });
    candidates.dedup();
    candidates
}

fn sort_key(endpoint: &Endpoint) -> impl Ord + '_ {
    let Endpoint { dns_name: _, targets, set_identifier, labels, provider_specific, .. } = endpoint;
    (set_identifier, labels.value(RESOURCE_LABEL), provider_specific, targets, labels)
}

#[cfg(test)]
mod tests;
