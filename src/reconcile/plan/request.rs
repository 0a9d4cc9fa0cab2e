//! Sorts one request by hostname.

use std::collections::BTreeMap;

use crate::collections::push_lean;
use crate::model::endpoint::{Changes, Endpoint, EndpointList};
use crate::model::hostname;
use crate::reconcile::canonical::{
    CanonicalEndpoint, OWNED_RECORD_LABEL, OWNER_LABEL, Publication, RESOURCE_LABEL,
};
use crate::reconcile::endpoint_reader::EndpointReader;
use crate::reconcile::reason::Reason;
use crate::reconcile::snapshot::Snapshot;
use crate::reconcile::{Note, Settings};

/// A request, sorted by hostname.
#[derive(Debug, Default)]
pub(super) struct Requests {
    pub(super) by_hostname: BTreeMap<Box<str>, HostRequest>,
    pub(super) notes: Vec<Note>,
}

/// The request for one hostname.
#[derive(Debug, Default)]
pub(super) struct HostRequest {
    /// By path and object.
    pub(super) wanted: Vec<Wanted<Publication>>,
    pub(super) withdrawn: Withdrawn,
    /// The names of the TXT records of ExternalDNS's registry about the wanted endpoints.
    pub(super) registry_names: Vec<Box<str>>,
}

/// The set identifiers of the withdrawn endpoints, each with its object if the object is known.
pub(super) type Withdrawn = BTreeMap<Box<str>, Option<Box<str>>>;

/// A wanted endpoint, which asks for a `P`: a publication as it was read, or one that passed the gate of Access.
#[derive(Debug)]
pub(super) struct Wanted<P> {
    pub(super) set_identifier: Box<str>,
    /// The object that the endpoint came from.
    pub(super) resource: Option<Box<str>>,
    /// The publication, or the reason why the endpoint is refused.
    pub(super) publication: Result<P, Reason>,
}

impl From<CanonicalEndpoint> for Wanted<Publication> {
    fn from(canonical: CanonicalEndpoint) -> Self {
        Self {
            resource: canonical.endpoint.labels.value(RESOURCE_LABEL).map(Into::into),
            set_identifier: canonical.endpoint.set_identifier.into(),
            publication: canonical.publication.map_err(Reason::Invalid),
        }
    }
}

impl HostRequest {
    /// The object that asks for the hostname; the first if there are several.
    pub(super) fn resource(&self) -> Option<Box<str>> {
        self.wanted.iter().filter_map(|wanted| wanted.resource.as_deref()).min().map(Into::into)
    }
}

impl Requests {
    pub(super) fn read(changes: &Changes, snapshot: &Snapshot) -> Self {
        let mut requests = Self::default();
        let wanted = changes.wanted();
        let reader = EndpointReader::new(&snapshot.settings, &snapshot.access);
        requests.add_wanted(wanted.clone().filter(|endpoint| endpoint.is_address_or_cname()), reader);
        requests.add_withdrawn(changes.delete.iter().filter(|endpoint| endpoint.is_address_or_cname()));
        // ExternalDNS's order changes from loop to loop.
        for request in requests.by_hostname.values_mut() {
            request.wanted.sort_by(|one, other| {
                (&one.set_identifier, &one.resource).cmp(&(&other.set_identifier, &other.resource))
            });
        }
        for (owned_name, txt_name) in wanted.filter_map(registry_names) {
            if let Some(request) = requests.by_hostname.get_mut(&*owned_name) {
                request.registry_names.push(txt_name);
            }
        }
        requests
    }

    fn add_wanted<'e>(
        &mut self,
        endpoints: impl Iterator<Item = &'e Endpoint>,
        mut reader: EndpointReader<'_>,
    ) {
        for endpoint in endpoints {
            let read = reader.read(endpoint);
            if read.is_empty() {
                let text = "the endpoint names neither a service nor a configured tunnel, so the webhook does not publish it";
                self.notes.push(Note::of(endpoint, text.to_owned()));
            }
            for canonical in read {
                let name = canonical.endpoint.dns_name.as_str().into();
                push_lean(&mut self.by_hostname.entry(name).or_default().wanted, Wanted::from(canonical));
            }
        }
    }

    /// Adds the withdrawn endpoints, except those that are wanted as well.
    fn add_withdrawn<'e>(&mut self, endpoints: impl Iterator<Item = &'e Endpoint>) {
        for endpoint in endpoints {
            let name = hostname::normalize(&endpoint.dns_name).into();
            let request = self.by_hostname.entry(name).or_default();
            let resource = endpoint.labels.value(RESOURCE_LABEL).map(Into::into);
            request.withdrawn.insert(endpoint.set_identifier.as_str().into(), resource);
        }
        for request in self.by_hostname.values_mut() {
            for wanted in &request.wanted {
                request.withdrawn.remove(&wanted.set_identifier);
            }
        }
    }
}

/// What a plan reads of an endpoint: an A, AAAA or CNAME as it is; of a registry's TXT its name, type and labels;
/// nothing of the old forms and of other types.
pub fn needed_by_plan(list: EndpointList, endpoint: Endpoint) -> Option<Endpoint> {
    if list == EndpointList::UpdateOld {
        return None;
    }
    if endpoint.is_address_or_cname() {
        return Some(endpoint);
    }
    let is_needed = is_registry_txt(&endpoint);
    let Endpoint { dns_name, record_type, labels, .. } = endpoint;
    is_needed.then(|| Endpoint { dns_name, record_type, labels, ..Endpoint::default() })
}

/// The owner in the label of an endpoint, if it is not ours. Nothing of a request of another owner may be written.
pub fn other_owner<'e>(endpoint: &'e Endpoint, settings: &Settings) -> Option<&'e str> {
    endpoint.labels.value(OWNER_LABEL).filter(|owner| **owner != *settings.operator.owner)
}

fn is_registry_txt(endpoint: &Endpoint) -> bool {
    endpoint.record_type == "TXT" && endpoint.labels.value(OWNED_RECORD_LABEL).is_some()
}

/// The hostname that a TXT endpoint of ExternalDNS's registry describes, and the TXT record's own name. Only the label
/// identifies it, because its properties are the described endpoint's, and its content may be encrypted.
fn registry_names(endpoint: &Endpoint) -> Option<(String, Box<str>)> {
    let owned_name = endpoint.labels.value(OWNED_RECORD_LABEL).filter(|_| is_registry_txt(endpoint))?;
    Some((hostname::normalize(owned_name), hostname::normalize(&endpoint.dns_name).into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::settings;
    use crate::model::endpoint::Labels;

    #[test]
    fn only_addresses_and_the_registrys_txt_concern_a_plan() {
        let owned = (OWNED_RECORD_LABEL, "a.example.com");
        for (kind, labels, is_needed) in [
            ("CNAME", &[][..], true),
            ("A", &[owned], true),
            ("TXT", &[owned], true),
            ("TXT", &[], false),
            ("MX", &[], false),
            ("MX", &[owned], false),
        ] {
            let endpoint = Endpoint {
                record_type: kind.to_owned(),
                labels: Labels::from_iter(labels.iter().copied()),
                ..Endpoint::default()
            };
            let kept = needed_by_plan(EndpointList::Create, endpoint.clone());
            assert_eq!(kept, is_needed.then(|| endpoint.clone()), "{kind} {labels:?}");
            assert_eq!(needed_by_plan(EndpointList::UpdateOld, endpoint), None);
        }
    }

    #[test]
    fn an_owner_in_a_label_that_is_not_ours_is_told() {
        let settings = settings();
        for (owner, told) in [(None, None), (Some("default"), None), (Some("other"), Some("other"))] {
            let labels = Labels::from_iter(owner.map(|owner| (OWNER_LABEL, owner)));
            let endpoint = Endpoint { labels, ..Endpoint::default() };
            assert_eq!(other_owner(&endpoint, &settings), told);
        }
    }
}
