//! Parses the bodies of requests, and retains of each endpoint only what the webhook needs: a body may have more
//! endpoints than fit into memory.

use std::collections::BTreeSet;

use crate::clock::{Clock, Deadline};
use crate::limits;
use crate::logging;
use crate::model::endpoint::{Changes, Endpoint};
use crate::model::text::{fingerprint, quoted};
use crate::model::{LogLine, hostname};
use crate::provider::failure;
use crate::reconcile::adjust::{self, Adjusted, Adjuster};
use crate::reconcile::canonical::resource_of;
use crate::reconcile::property_name::{INVALID, TUNNEL};
use crate::reconcile::snapshot::Snapshot;
use crate::reconcile::{Settings, endpoint_reader, plan};
use crate::webhook::Failure;
use crate::webhook::body::{Body, ReceivedEndpoint};

/// The bytes that an endpoint to create or update needs in addition to itself: for the request of its hostname, which
/// may wait for its turn, or for the hostname's plan and calls.
const CHANGED_BYTES: usize = 1024;

/// The bytes that an endpoint to delete needs in addition to itself. All deletions are planned, even those that wait
/// for their turn.
const DELETED_BYTES: usize = 2048;

/// The bytes that a TXT record or a refused endpoint needs in addition to itself.
const OTHER_BYTES: usize = 256;

/// Hostnames without a service that are remembered of one request: 200 KB. `status` shows further ones as
/// not sent.
const NAMES_WITHOUT_SERVICE_MAX: usize = 25_000;

/// The endpoints without a service of one request.
#[derive(Debug, Default)]
pub struct WithoutService {
    /// The fingerprints of their hostnames, `NAMES_WITHOUT_SERVICE_MAX` at most.
    pub(crate) hostname_fingerprints: Vec<u64>,
    /// The number of these endpoints without `webhook/tunnel: "false"`.
    pub(crate) without_opt_out: usize,
    /// The first hostnames of these endpoints by name, quoted.
    first_without_opt_out: BTreeSet<Box<str>>,
}

impl WithoutService {
    fn add(&mut self, endpoint: &Endpoint) {
        if self.hostname_fingerprints.len() < NAMES_WITHOUT_SERVICE_MAX {
            self.hostname_fingerprints.push(fingerprint([&*hostname::normalize(&endpoint.dns_name)]));
        }
        if endpoint.property(TUNNEL) == Some("false") {
            return;
        }
        self.without_opt_out += 1;
        self.first_without_opt_out.insert(quoted(&endpoint.dns_name).to_string().into());
        if self.first_without_opt_out.len() > limits::NAMES_SHOWN_MAX {
            self.first_without_opt_out.pop_last();
        }
        let Endpoint { dns_name, record_type, .. } = endpoint;
        logging::debug(module_path!(), || {
            LogLine::default()
                .quoted("hostname", dns_name.as_str())
                .quoted("resource", resource_of(endpoint))
                .word("type", record_type)
                .text("an endpoint names no service and is not published")
        });
    }

    pub(crate) fn first_without_opt_out(&self) -> String {
        self.first_without_opt_out.iter().map(|name| &**name).collect::<Vec<_>>().join(", ")
    }
}

/// The canonical form of the `wanted` endpoints, and the endpoints without a service.
///
/// # Errors
/// When the body is malformed, or when the retained endpoints do not fit into memory.
pub fn adjust(
    wanted: &Body,
    settings: &Settings,
    snapshot: Option<&Snapshot>,
    clock: &dyn Clock,
    deadline: Deadline,
) -> Result<(Adjusted, WithoutService), Failure> {
    let is_late = || deadline.remaining(clock) < limits::ADJUST_RESERVE;
    let mut adjuster = Adjuster::new(settings, snapshot);
    let mut without_service = WithoutService::default();
    let mut kept = 0;
    wanted.for_each_wanted(&mut |ReceivedEndpoint { endpoint, is_whole }| {
        if !wanted.has_room(kept, 0) {
            return;
        }
        let added = if !is_whole {
            adjuster.add_unread(&endpoint, &endpoint_reader::too_long())
        } else if is_late() && endpoint.is_address_or_cname() {
            adjuster.add_unread(&endpoint, adjust::OUT_OF_TIME)
        } else {
            adjuster.add(&endpoint)
        };
        match added {
            Some(bytes) => kept += bytes,
            None => without_service.add(&endpoint),
        }
    })?;
    if !wanted.has_room(kept, 0) {
        return Err(failure::too_much());
    }
    Ok((adjuster.finish(), without_service))
}

/// Parses the changes of a request, and retains only the endpoints that affect the plan.
pub(super) fn needed_changes(body: Body, settings: &Settings) -> Result<Changes, Failure> {
    let mut changes = Changes::default();
    let (mut kept, mut planned) = (0, 0);
    let (mut too_long, mut other_owner) = (None, None);
    let mut needed = |ReceivedEndpoint { endpoint, is_whole }, bytes_if_planned| {
        if let Some(owner) = plan::other_owner(&endpoint, settings) {
            other_owner.get_or_insert_with(|| owner.to_owned());
        } else if !is_whole {
            too_long = Some(endpoint.dns_name);
        } else if body.has_room(kept, planned)
            && let Some(endpoint) = plan::needed_by_plan(endpoint)
        {
            kept += endpoint.memory_bytes();
            planned += planned_bytes(&endpoint, bytes_if_planned);
            return Some(endpoint);
        }
        None
    };
    let lists = body.changes()?;
    lists.for_each_wanted(&mut |received| changes.wanted.extend(needed(received, CHANGED_BYTES)))?;
    lists.for_each_deleted(&mut |received| changes.deleted.extend(needed(received, DELETED_BYTES)))?;
    if let Some(owner) = other_owner {
        return Err(failure::wrong_owner(&owner, &settings.operator.owner));
    }
    if let Some(dns_name) = too_long {
        return Err(failure::too_long(&dns_name));
    }
    if !body.has_room(kept, planned) {
        return Err(failure::too_much());
    }
    Ok(changes)
}

/// The bytes that the plan and the writes for an endpoint need, in addition to the endpoint itself.
fn planned_bytes(endpoint: &Endpoint, bytes_if_planned: usize) -> usize {
    let is_planned = endpoint.is_address_or_cname() && endpoint.property(INVALID).is_none();
    if is_planned { bytes_if_planned } else { OTHER_BYTES }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::endpoint::Property;

    #[test]
    fn an_endpoint_counts_with_the_work_for_its_hostname_if_there_is_any() {
        let endpoint = |kind: &str| Endpoint { record_type: kind.to_owned(), ..Endpoint::default() };
        let refused = Endpoint { provider_specific: vec![Property::new(INVALID, "x")], ..endpoint("CNAME") };
        for (endpoint, bytes) in [(endpoint("CNAME"), 2_048), (endpoint("TXT"), 256), (refused, 256)] {
            assert_eq!(planned_bytes(&endpoint, DELETED_BYTES), bytes);
        }
    }
}
