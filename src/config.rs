//! Lists every setting, and parses the configuration once into typed values. A flag overrides a variable, a variable
//! overrides a line of `SETTINGS`, and a line overrides the default. One start reports every mistake, with the
//! variable's name and the allowed values. No report contains a secret.
//!
//! A new setting needs a row of `TABLE` in `setting.rs`, and the code below that reads it.

pub mod names;
mod proxy;
mod reader;
mod setting;
mod values;

use std::net::SocketAddr;
use std::time::Duration;

use log::LevelFilter;

use self::reader::Reader;
pub use self::setting::Variables;
use crate::cloudflare::ClientSettings;
use crate::limits;
use crate::logging::Format;
use crate::model::ZoneId;
use crate::provider::ProviderSettings;
use crate::reconcile::OperatorSettings;
use crate::reconcile::adopt::Adopt;

#[derive(Debug)]
pub struct Config {
    pub client: ClientSettings,
    /// The variable that the credentials' secret came from.
    pub credential_variable: &'static str,
    pub provider: ProviderSettings,
    /// The longest time that a request may take.
    pub request_timeout: Duration,
    /// The addresses at which ExternalDNS reaches the API.
    pub api_addresses: Vec<SocketAddr>,
    /// The address at which probes reach the health routes.
    pub metrics_address: SocketAddr,
    /// The most detailed level that is logged.
    pub log_level: LevelFilter,
    pub log_format: Format,
    /// Remarks for the operator that are no mistakes.
    pub warnings: Vec<String>,
}

impl Config {
    /// Reads the configuration.
    ///
    /// # Errors
    /// Every mistake, each beginning with the variable's name, and then the warnings.
    pub fn read(variables: &Variables) -> Result<Self, Vec<String>> {
        let mut reader = Reader::new(variables);
        // All settings are read before the first return, so that one start reports every mistake.
        let credentials = reader.credentials();
        reader.refuse_misplaced(credentials.as_ref().map(|(known, ..)| &known.secret));
        let base_url = reader.api_base_url();
        let roots = reader.roots();
        let api_addresses = reader.api_addresses();
        let metrics_address = reader.metrics_address();
        reader.refuse_equal_ports(&api_addresses, metrics_address);
        let own_addresses = [&api_addresses[..], &[metrics_address]].concat();
        let operator = OperatorSettings {
            owner: reader.owner(),
            filter: reader.domain_filter(),
            default_service: reader.default_service(&own_addresses),
            publish_all: reader.publish_all(),
            origin_defaults: reader.origin_defaults(),
            ca_pools: reader.ca_pools(),
            own_addresses,
            mass_deletion_limit: reader
                .number("MASS_DELETION_LIMIT", "a whole number, 0 to withhold no deletion"),
            move_grace: reader.seconds("MOVE_GRACE", Duration::ZERO..=values::MOVE_GRACE_MAX),
            adopt: reader.adopt(),
            namespace_guard: reader.boolean("NAMESPACE_GUARD"),
            shared_services: reader.shared_services(),
            namespace_domains: reader.namespace_domains(),
            cluster_domain: reader.cluster_domain(),
            in_cluster: variables.contains_key("KUBERNETES_SERVICE_HOST"),
            access_guard: reader.boolean("ACCESS_GUARD"),
            default_access_policy: reader.default_access_policy(),
            access_opt_out: reader.boolean("ACCESS_OPT_OUT"),
            access_policies: reader.access_policies(),
        };
        let provider = ProviderSettings {
            operator,
            account: reader.account(),
            tunnels: reader.tunnels(),
            zone_ids: reader.identifiers("ZONE_ID_FILTER").into_iter().map(ZoneId::new).collect(),
            dry_run: reader.boolean("DRY_RUN"),
            allow_local_config: reader.boolean("ALLOW_LOCAL_CONFIG"),
            parallel_calls: limits::PARALLEL_CALLS,
        };
        let request_timeout =
            reader.seconds("REQUEST_TIMEOUT", limits::REQUEST_TIMEOUT_MIN..=limits::REQUEST_TIMEOUT_MAX);
        let log_level = reader.log_level();
        let log_format =
            if reader.is_first("LOG_FORMAT", ["json", "text"]) { Format::Json } else { Format::Text };

        let Reader { mut mistakes, mut warnings, .. } = reader;
        let (
            Some((credentials, credential_variable, credential_file)),
            Some((base_url, proxy)),
            Some(roots),
            [],
        ) = (credentials, base_url, roots, &*mistakes)
        else {
            // A warning may show that a missing setting was given under a wrong name.
            mistakes.extend(warnings);
            return Err(mistakes);
        };
        warnings.extend(unusual(&provider));
        Ok(Self {
            client: ClientSettings { base_url, credentials, credential_file, roots, proxy },
            credential_variable,
            provider,
            request_timeout,
            api_addresses,
            metrics_address,
            log_level,
            log_format,
            warnings,
        })
    }
}

/// Warnings of settings that are meant for a time or for few clusters.
fn unusual(settings: &ProviderSettings) -> impl Iterator<Item = String> {
    let OperatorSettings { adopt, publish_all, mass_deletion_limit, .. } = &settings.operator;
    let all = [
        (settings.dry_run, "DRY_RUN is set: writes are logged, but not done"),
        (
            *adopt != Adopt::default(),
            "ADOPT is set: the foreign rules, records or applications that it names may be taken over; \
             unset ADOPT once that is done",
        ),
        (
            *publish_all,
            "PUBLISH is all: an object that loses its annotations gets DEFAULT_SERVICE, also if one of them \
             kept it out; choose the objects by ExternalDNS's own filters (--gateway-name, --label-filter, \
             --annotation-filter, --ingress-class)",
        ),
        (*mass_deletion_limit == 0, "MASS_DELETION_LIMIT is 0: a request may delete all hostnames at once"),
    ];
    all.into_iter().filter(|(is_set, _)| *is_set).map(|(_, warning)| warning.to_owned())
}

/// Reads only the address of the health routes, so that a mistake in another setting does not matter.
pub fn metrics_address(variables: &Variables) -> Result<SocketAddr, Vec<String>> {
    let mut reader = Reader::new(variables);
    reader.mistakes.clear();
    let address = reader.metrics_address();
    if reader.mistakes.is_empty() { Ok(address) } else { Err(reader.mistakes) }
}

#[cfg(test)]
mod tests;
