//! Answers `POST /adjustendpoints`: it brings every endpoint that is meant for a tunnel into canonical form, and leaves
//! out all others.
//!
//! It is pure, deterministic and idempotent, because ExternalDNS compares the answer with `records` in every loop. It
//! never fails and never withdraws: an endpoint with a mistake stays, and `plan` refuses it by name.

use crate::limits;
use crate::model::endpoint::Endpoint;
use crate::reconcile::canonical::{Canonical, RESOURCE_LABEL, TUNNEL};
use crate::reconcile::notes::Notes;
use crate::reconcile::reading::{self, EndpointReader};
use crate::reconcile::{Note, Settings};

/// The answer, and notes on what it left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Adjusted {
    /// Sorted by name, set identifier, resource and properties: ExternalDNS's own order is random, and two objects
    /// with one name would take turns.
    pub endpoints: Vec<Endpoint>,
    /// Options that were left out; if there are too many, the first by name.
    pub notes: Vec<Note>,
    pub has_more_notes: bool,
}

/// Brings endpoints into canonical form one by one, so that of thousands only the results are held.
#[derive(Debug)]
pub struct Adjuster<'s> {
    reader: EndpointReader<'s>,
    settings: &'s Settings,
    endpoints: Vec<Endpoint>,
}

/// Brings the endpoints that ExternalDNS wants into canonical form.
pub fn adjust(endpoints: &[Endpoint], settings: &Settings) -> Adjusted {
    let mut adjuster = Adjuster::new(settings);
    for endpoint in endpoints {
        adjuster.add(endpoint);
    }
    adjuster.finish()
}

impl<'s> Adjuster<'s> {
    pub fn new(settings: &'s Settings) -> Self {
        let reader = EndpointReader::new(settings, Notes::with_room(limits::NOTES_MAX));
        Self { reader, settings, endpoints: Vec::new() }
    }

    /// Adds the results of an endpoint and returns them; none if the endpoint is not ours.
    pub fn add(&mut self, endpoint: &Endpoint) -> &[Endpoint] {
        let read = self.reader.read(endpoint);
        self.extend(read)
    }

    /// Adds an endpoint that there is no time to read. If it were left out, it would count as not wanted.
    pub fn add_late(&mut self, endpoint: &Endpoint) -> &[Endpoint] {
        self.add_unread(endpoint, OUT_OF_TIME)
    }

    /// Adds an endpoint that is too long to be read. If its type was not read, it may be ours.
    pub fn add_too_long(&mut self, endpoint: &Endpoint) -> &[Endpoint] {
        self.add_unread(endpoint, &too_long())
    }

    fn add_unread(&mut self, endpoint: &Endpoint, problem: &str) -> &[Endpoint] {
        let is_ours = endpoint.is_address() || endpoint.record_type.is_empty();
        let read = is_ours.then(|| reading::unread(endpoint, problem, self.settings));
        self.extend(read)
    }

    fn extend(&mut self, read: impl IntoIterator<Item = Canonical>) -> &[Endpoint] {
        let before = self.endpoints.len();
        self.endpoints.extend(read.into_iter().map(|canonical| canonical.endpoint));
        self.endpoints.get(before..).unwrap_or_default()
    }

    /// Everything that was added, in order.
    pub fn finish(self) -> Adjusted {
        let Self { reader, settings: _, mut endpoints } = self;
        let (notes, has_more_notes) = reader.into_notes().into_sorted();
        // Most endpoints differ in their names already.
        endpoints
            .sort_unstable_by(|a, b| a.dns_name.cmp(&b.dns_name).then_with(|| sort_key(a).cmp(&sort_key(b))));
        // The A and the AAAA of one object have become the same CNAME.
        endpoints.dedup();
        Adjusted { endpoints, notes, has_more_notes }
    }
}

/// True if the endpoint says that it is not meant for a tunnel.
pub fn opts_out(endpoint: &Endpoint) -> bool {
    endpoint.property(TUNNEL) == Some("false")
}

fn too_long() -> String {
    format!(
        "the object's annotations have more than {} bytes: of one hostname at most {} are read",
        limits::ELEMENT_MAX_BYTES,
        limits::ENDPOINT_MAX_BYTES
    )
}

const OUT_OF_TIME: &str =
    "the request was too much to be read in its time: look for an object with many long annotations";

fn sort_key(endpoint: &Endpoint) -> impl Ord + '_ {
    let Endpoint {
        dns_name,
        targets,
        record_type: _,
        set_identifier,
        record_ttl: _,
        labels,
        provider_specific,
    } = endpoint;
    (dns_name, set_identifier, labels.value(RESOURCE_LABEL), provider_specific, targets, labels)
}

#[cfg(test)]
mod tests;
