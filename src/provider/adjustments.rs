//! Adjusts endpoints while the body of the request is parsed.

use std::collections::BTreeSet;

use crate::clock::{Clock, Deadline};
use crate::limits;
use crate::logging;
use crate::model::endpoint::Endpoint;
use crate::model::text::{fingerprint, quoted};
use crate::model::{LogLine, hostname};
use crate::provider::failure;
use crate::reconcile::Settings;
use crate::reconcile::adjust::{self, Adjusted, Adjuster};
use crate::reconcile::canonical::resource_of;
use crate::reconcile::endpoint_reader;
use crate::reconcile::snapshot::Snapshot;
use crate::webhook::Failure;
use crate::webhook::body::{Body, ReceivedEndpoint};

/// Hostnames without a service that are remembered of one request: 200 KB. `status` shows further ones as
/// not sent.
const NAMES_WITHOUT_SERVICE_MAX: usize = 25_000;

/// The endpoints without a service of one request.
#[derive(Debug, Default)]
pub struct WithoutService {
    /// The fingerprints of their hostnames, `NAMES_WITHOUT_SERVICE_MAX` at most.
    pub(super) hostname_fingerprints: Vec<u64>,
    /// The number of these endpoints without `webhook/tunnel: "false"`.
    pub(super) without_opt_out: usize,
    /// The first hostnames of these endpoints by name, quoted.
    first_without_opt_out: BTreeSet<Box<str>>,
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
    wanted.for_each_wanted(&mut |ReceivedEndpoint { list: _, endpoint, is_whole }| {
        if !wanted.has_room(kept, 0) {
            return;
        }
        let added = match is_whole {
            true if is_late() && endpoint.is_address_or_cname() => {
                adjuster.add_unread(&endpoint, adjust::OUT_OF_TIME)
            }
            true => adjuster.add(&endpoint),
            false => adjuster.add_unread(&endpoint, &endpoint_reader::too_long()),
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

impl WithoutService {
    /// Counts an endpoint without a service.
    fn add(&mut self, endpoint: &Endpoint) {
        if self.hostname_fingerprints.len() < NAMES_WITHOUT_SERVICE_MAX {
            self.hostname_fingerprints.push(fingerprint([&*hostname::normalize(&endpoint.dns_name)]));
        }
        if adjust::is_excluded(endpoint) {
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

    pub(super) fn first_without_opt_out(&self) -> String {
        self.first_without_opt_out.iter().map(|name| &**name).collect::<Vec<_>>().join(", ")
    }
}
