//! Sorts one request by hostname, refuses endpoints of other namespaces, and collects what the endpoints ask of Access.

use std::collections::BTreeMap;

use crate::collections::push_lean;
use crate::model::endpoint::{Changes, Endpoint};
use crate::model::{Hostname, Record, hostname};
use crate::reconcile::access::place::Place;
use crate::reconcile::access::relying::{AccessChanges, Asks, UnopenedPlace};
use crate::reconcile::access::wanted::WantedAccess;
use crate::reconcile::canonical::{
    CanonicalEndpoint, OWNED_RECORD_LABEL, OWNER_LABEL, Publication, RESOURCE_LABEL, path_of,
};
use crate::reconcile::endpoint_reader::EndpointReader;
use crate::reconcile::reason::Reason;
use crate::reconcile::refusal::Refusal;
use crate::reconcile::snapshot::{Snapshot, ZoneSnapshot};
use crate::reconcile::{Settings, namespace};

/// The request for one hostname.
#[derive(Debug, Default)]
pub(super) struct HostChanges {
    /// Sorted by path and object.
    pub(super) wanted: Vec<Wanted<Publication>>,
    pub(super) withdrawn: Withdrawn,
    /// The names of the TXT records of ExternalDNS's registry about the wanted endpoints.
    pub(super) registry_names: Vec<Box<str>>,
}

/// The set identifiers of the endpoints that are withdrawn and not wanted, each with its object if the object is known.
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

impl<P> Wanted<P> {
    /// What the endpoint asks for, unless it is refused.
    pub(super) fn accepted(&self) -> Option<&P> {
        self.publication.as_ref().ok()
    }

    /// The reason if the endpoint is refused.
    pub(super) fn reason(&self) -> Option<&Reason> {
        self.publication.as_ref().err()
    }

    /// The refusal of the endpoint, if it is refused.
    pub(super) fn refusal(&self, hostname: &str) -> Option<Refusal> {
        let reason = self.reason()?.clone();
        Some(Refusal::new(hostname, Some(&self.set_identifier), self.resource.as_deref(), reason))
    }
}

/// The requests of `changes` by hostname, with a reason in place of the publication of each endpoint with a mistake or
/// of another namespace.
pub(super) fn by_hostname(changes: &Changes, snapshot: &Snapshot) -> BTreeMap<Box<str>, HostChanges> {
    let mut requests: BTreeMap<Box<str>, HostChanges> = BTreeMap::new();
    let Changes { wanted, deleted } = changes;
    let mut reader = EndpointReader::new(&snapshot.settings, &snapshot.access);
    for endpoint in wanted {
        for CanonicalEndpoint { endpoint, publication, intent: _ } in reader.read(endpoint) {
            let wanted = Wanted {
                resource: endpoint.labels.value(RESOURCE_LABEL).map(Into::into),
                set_identifier: endpoint.set_identifier.into(),
                publication: publication.map_err(Reason::Invalid),
            };
            push_lean(&mut requests.entry(endpoint.dns_name.into()).or_default().wanted, wanted);
        }
    }
    for endpoint in deleted.iter().filter(|endpoint| endpoint.is_address_or_cname()) {
        let request = requests.entry(hostname::normalize(&endpoint.dns_name).into()).or_default();
        let resource = endpoint.labels.value(RESOURCE_LABEL).map(Into::into);
        request.withdrawn.insert(endpoint.set_identifier.as_str().into(), resource);
    }
    for (owned_name, txt_name) in wanted.iter().filter_map(described_by_txt) {
        if let Some(request) = requests.get_mut(&*owned_name) {
            request.registry_names.push(txt_name);
        }
    }
    for (name, request) in &mut requests {
        let HostChanges { wanted, withdrawn, registry_names } = request;
        // The endpoints of a hostname have TXT records of the same names.
        registry_names.sort_unstable();
        registry_names.dedup();
        // ExternalDNS's order changes from loop to loop.
        wanted.sort_by(|one, other| {
            (&one.set_identifier, &one.resource).cmp(&(&other.set_identifier, &other.resource))
        });
        wanted.iter().for_each(|one| _ = withdrawn.remove(&one.set_identifier));
        if snapshot.operator().namespace_guard {
            refuse_strangers(name, request, snapshot);
        }
    }
    requests
}

/// Refuses the endpoints of objects whose namespace may not have the hostname.
fn refuse_strangers(name: &str, request: &mut HostChanges, snapshot: &Snapshot) {
    let read = request.wanted.iter().filter(|one| one.accepted().is_some());
    let objects = read.filter_map(|one| one.resource.as_deref());
    let entitled = namespace::entitled(name, &request.registry_names, objects, snapshot);
    for one in request.wanted.iter_mut().filter(|one| one.accepted().is_some()) {
        let asking = one.resource.as_deref().and_then(namespace::code_of);
        if asking.is_none() || asking != entitled {
            let asking = asking.unwrap_or_default();
            one.publication = Err(Reason::NamespaceHeld { holder: entitled.clone(), asking });
        }
    }
}

/// What the endpoints ask of Access, without endpoints that the namespace guard refuses. If no namespace is known
/// to have the hostname, such an endpoint counts as one with a mistake.
pub(super) fn access_changes(
    requests: &BTreeMap<Box<str>, HostChanges>,
    snapshot: &Snapshot,
) -> AccessChanges {
    let mut all = AccessChanges::default();
    for (name, request) in requests {
        let Ok(hostname) = Hostname::parse(name) else { continue };
        all.withdrawn.extend(request.withdrawn.keys().map(|path| Place::of(&hostname, path_of(path))));
        for one in &request.wanted {
            let path = path_of(&one.set_identifier);
            let asks = match one.publication.as_ref().map(|publication| &publication.wanted_access) {
                Ok(WantedAccess::Open) => {
                    all.open.insert(Place::of(&hostname, path));
                    continue;
                }
                Ok(WantedAccess::Protected(_)) => Asks::Policies,
                // Without an application, no login can be lost.
                Ok(WantedAccess::Unspecified) if snapshot.access.applications().is_empty() => continue,
                Ok(WantedAccess::Unspecified) => Asks::Nothing,
                Err(Reason::NamespaceHeld { holder: Some(_), .. }) => continue,
                Err(_) => Asks::Unknown,
            };
            if may_be_published(name, snapshot) {
                all.unopened.push(UnopenedPlace {
                    place: Place::of(&hostname, path.filter(|_| asks != Asks::Unknown)),
                    resource: one.resource.clone(),
                    asks,
                });
            }
        }
    }
    all
}

/// True if the hostname is within the filter and a zone, and has no foreign record unless `ADOPT` takes over records.
fn may_be_published(name: &str, snapshot: &Snapshot) -> bool {
    let has_record = |zone: &ZoneSnapshot| zone.records_of(name).iter().any(Record::is_address_or_cname);
    let is_held = |zone| has_record(zone) && snapshot.own_records_of(name).is_empty();
    let adopt = &snapshot.operator().adopt;
    let may_adopt_records = adopt.tunnel || adopt.all || !adopt.owners.is_empty();
    let is_free = |zone| may_adopt_records || !is_held(zone);
    snapshot.operator().filter.matches(name) && snapshot.zone_of(name).is_some_and(is_free)
}

/// What a plan reads of an endpoint: an A, AAAA or CNAME as it is; of a registry's TXT its name, type and labels;
/// nothing of other types.
pub fn needed_by_plan(endpoint: Endpoint) -> Option<Endpoint> {
    if endpoint.is_address_or_cname() {
        return Some(endpoint);
    }
    let is_needed = described_by_txt(&endpoint).is_some();
    let Endpoint { dns_name, record_type, labels, .. } = endpoint;
    is_needed.then(|| Endpoint { dns_name, record_type, labels, ..Endpoint::default() })
}

/// The owner in the label of an endpoint, if it is not ours. Nothing of a request of another owner may be written.
pub fn other_owner<'e>(endpoint: &'e Endpoint, settings: &Settings) -> Option<&'e str> {
    endpoint.labels.value(OWNER_LABEL).filter(|owner| **owner != *settings.operator.owner)
}

/// The hostname that a TXT endpoint of ExternalDNS's registry describes, and the TXT record's own name. Only the label
/// identifies it, because its properties are the described endpoint's, and its content may be encrypted.
fn described_by_txt(endpoint: &Endpoint) -> Option<(String, Box<str>)> {
    let owned_name = endpoint.labels.value(OWNED_RECORD_LABEL).filter(|_| endpoint.record_type == "TXT")?;
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
            let kept = needed_by_plan(endpoint.clone());
            assert_eq!(kept, is_needed.then_some(endpoint), "{kind} {labels:?}");
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
