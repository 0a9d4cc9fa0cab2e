//! Reads the configuration: flags, then the environment, then defaults, parsed once into typed values. One start
//! reports every mistake, with the variable's name and the allowed values, and never with a secret.

pub mod names;
mod proxy;
mod sources;
mod values;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use log::LevelFilter;

use self::sources::SettingsReader;
use crate::cli::Arguments;
use crate::cloudflare::{ClientSettings, USER_AGENT};
use crate::limits::PARALLEL_READS;
use crate::logging::Format;
use crate::model::ZoneId;
use crate::provider::ProviderSettings;
use crate::reconcile::Policy;

/// The API's address, unless configured otherwise.
pub const API_BASE_URL_DEFAULT: &str = "https://api.cloudflare.com/client/v4";

/// The source of the configuration.
pub trait Environment {
    /// The value of an environment variable; an empty one counts as absent.
    fn variable(&self, name: &str) -> Option<String>;

    /// The names of all environment variables, in any order; none if only single variables can be read.
    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    /// The contents of a file.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, is not a regular file, or holds more than `max_bytes`.
    fn read(&self, path: &Path, max_bytes: u64) -> io::Result<Vec<u8>>;
}

#[derive(Debug)]
pub struct Config {
    pub client: ClientSettings,
    /// The file that the credentials' secret was read from, if it came from a file.
    pub credential_file: Option<PathBuf>,
    pub provider: ProviderSettings,
    /// The longest time that a request may take.
    pub request_timeout: Duration,
    /// The addresses at which ExternalDNS reaches the API.
    pub api_addresses: Vec<SocketAddr>,
    /// The address at which probes reach the health routes.
    pub observation_address: SocketAddr,
    /// The most detailed level that is logged.
    pub log_level: LevelFilter,
    pub log_format: Format,
    /// Remarks that an operator should read although nothing is wrong.
    pub warnings: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    pub variable: &'static str,
    /// The problem, and the allowed values.
    pub problem: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.variable, self.problem)
    }
}

impl Config {
    /// Reads the configuration.
    pub fn read(arguments: &Arguments, environment: &dyn Environment) -> Result<Self, Vec<Mistake>> {
        let mut reader = SettingsReader::new(arguments, environment);
        // All settings are read before the first return, so that one start reports every mistake.
        let credentials = reader.credentials();
        let tunnels = reader.tunnels(credentials.as_ref());
        let filter = reader.domain_filter();
        let owner = reader.owner();
        let origin_defaults = reader.origin_defaults();
        let ca_pools = reader.ca_pools();
        let ca_file = reader.ca_file();
        let request_timeout = reader.request_timeout();
        let api_addresses = reader.api_addresses();
        let observation_address = reader.observation_address();
        let own_addresses: Vec<SocketAddr> =
            api_addresses.iter().copied().chain([observation_address]).collect();
        let default_service = reader.default_service(&own_addresses);
        let publish_all = reader.publish_all();
        let log_level = reader.log_level();
        let log_format = reader.log_format();
        let allow_local_config = reader.boolean("ALLOW_LOCAL_CONFIG");
        let mass_deletion_limit = reader.mass_deletion_limit();
        let move_grace = reader.move_grace();
        let adopt = reader.adopt();
        let namespace_guard = reader.namespace_guard();
        let access_guard = reader.boolean("ACCESS_GUARD");
        let default_access_policy = reader.default_access_policy();
        let access_opt_out = reader.access_opt_out();
        let access_policies = reader.access_policies();
        let dry_run = reader.boolean("DRY_RUN");
        let account = reader.account();
        let zone_ids = reader.identifiers("ZONE_ID_FILTER").into_iter().map(ZoneId::new).collect();
        let (base_url, proxy) = reader.api_base_url();
        reader.unknown_names();

        let SettingsReader { credential_file, mistakes, warnings, .. } = reader;
        let Some(credentials) = credentials.filter(|_| mistakes.is_empty()) else {
            return Err(mistakes);
        };
        let policy = Policy {
            owner,
            filter,
            default_service,
            publish_all,
            origin_defaults,
            ca_pools,
            own_addresses,
            mass_deletion_limit,
            move_grace,
            adopt,
            namespace_guard,
            access_guard,
            default_access_policy,
            access_opt_out,
            access_policies,
        };
        Ok(Self {
            client: ClientSettings {
                base_url,
                credentials,
                ca_file,
                proxy,
                user_agent: USER_AGENT.to_owned(),
                jitter_seed: None,
            },
            credential_file,
            provider: ProviderSettings {
                policy,
                account,
                tunnels,
                zone_ids,
                dry_run,
                allow_local_config,
                parallel_reads: PARALLEL_READS,
            },
            request_timeout,
            api_addresses,
            observation_address,
            log_level,
            log_format,
            warnings,
        })
    }
}

/// The address of the health routes, whatever the other settings are.
pub fn observation_address(
    arguments: &Arguments,
    environment: &dyn Environment,
) -> Result<SocketAddr, Vec<Mistake>> {
    let mut reader = SettingsReader::new(arguments, environment);
    let address = reader.observation_address();
    if reader.mistakes.is_empty() { Ok(address) } else { Err(reader.mistakes) }
}

#[cfg(test)]
mod tests;
