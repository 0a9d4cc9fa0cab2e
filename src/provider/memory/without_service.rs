//! Remembers the endpoints without a service of the last adjustment.

use std::collections::BTreeSet;

use crate::limits;
use crate::logging;
use crate::model::endpoint::Endpoint;
use crate::model::text::{fingerprint, quoted};
use crate::model::{LogLine, hostname};
use crate::reconcile::adjust;
use crate::reconcile::canonical::resource_of;

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
    /// Counts an endpoint without a service.
    pub(crate) fn add(&mut self, endpoint: &Endpoint) {
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

    pub(crate) fn first_without_opt_out(&self) -> String {
        self.first_without_opt_out.iter().map(|name| &**name).collect::<Vec<_>>().join(", ")
    }
}
