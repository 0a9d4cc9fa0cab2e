//! Lists every setting, and parses the configuration once into typed values. A flag overrides a variable, a variable
//! overrides a line of `SETTINGS`, and a line overrides the default. One start reports every mistake, with the
//! variable's name and the allowed values. No report contains a secret.
//!
//! A new setting needs a row of `SETTINGS`, and the code below that reads it. A test compares the rows with
//! docs/configuration.md.

pub mod names;
mod proxy;
mod reader;
mod values;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use log::LevelFilter;

use self::reader::Reader;
use crate::cloudflare::ClientSettings;
use crate::limits;
use crate::logging::Format;
use crate::model::ZoneId;
use crate::provider::ProviderSettings;
use crate::reconcile::OperatorSettings;

/// The value of each environment variable, by its name.
pub type Variables = BTreeMap<String, String>;

/// A setting: a variable, and the flag of the same name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) variable: &'static str,
    /// The name that other programs use for the setting; empty if there is none. This name has no flag.
    pub(crate) alias: &'static str,
    /// The value of an absent setting; empty if the setting has no default.
    pub(crate) default: &'static str,
    /// The text in `--help`. If the default is no fixed value, the text names the default too.
    pub(crate) help: &'static str,
    pub(crate) kind: SettingKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SettingKind {
    Plain,
    /// A restriction of what is published or written. A misspelled name of it is a mistake, not only a warning.
    Restriction,
    /// A secret. It has no flag, because any process on the machine can read a command line.
    Secret,
}

const fn setting(variable: &'static str, default: &'static str, help: &'static str) -> Setting {
    Setting { variable, alias: "", default, help, kind: SettingKind::Plain }
}

const fn restriction(variable: &'static str, default: &'static str, help: &'static str) -> Setting {
    Setting { variable, alias: "", default, help, kind: SettingKind::Restriction }
}

const fn secret(variable: &'static str) -> Setting {
    Setting { variable, alias: "", default: "", help: "", kind: SettingKind::Secret }
}

/// The variable that holds other settings, one line `NAME=value` for each. A line may be a restriction or a secret.
pub(crate) const SETTINGS_VARIABLE: &str = "SETTINGS";

impl Setting {
    /// Adds the alias. CF_API_BASE_URL has none, because the token would be sent to the address of another program.
    const fn alias(self, alias: &'static str) -> Self {
        Self { alias, ..self }
    }
}

/// Every setting except the defaults of a rule's options. [`OriginOption`](crate::ingress::OriginOption) names those.
pub(crate) const SETTINGS: &[Setting] = &[
    restriction(SETTINGS_VARIABLE, "", ""),
    secret("CF_API_TOKEN").alias("CLOUDFLARE_API_TOKEN"),
    setting("CF_API_TOKEN_FILE", "", "file with the API token"),
    secret("CF_API_KEY").alias("CLOUDFLARE_API_KEY"),
    setting("CF_API_KEY_FILE", "", "file with the global API key, instead of a token"),
    setting("CF_API_EMAIL", "", "email address of the API key's user").alias("CLOUDFLARE_EMAIL"),
    setting("CF_ACCOUNT_ID", "", "account of the tunnels (default: the one that all zones share)")
        .alias("CLOUDFLARE_ACCOUNT_ID"),
    setting("CF_TUNNEL_ID", "", "ids or names of the tunnels, the default first; required")
        .alias("CLOUDFLARE_TUNNEL_ID"),
    setting("CF_API_BASE_URL", "https://api.cloudflare.com/client/v4", "address of the API"),
    setting("CF_CA_FILE", "", "PEM file with authorities trusted besides the compiled-in ones"),
    restriction("DOMAIN_FILTER", "", "names to serve, with all names below them (default: all)")
        .alias("DOMAIN_FILTERS"),
    restriction("EXCLUDE_DOMAIN_FILTER", "", "names not to serve").alias("EXCLUDE_DOMAIN_FILTERS"),
    restriction("REGEXP_DOMAIN_FILTER", "", "expression for the names to serve, instead of the lists"),
    restriction("REGEXP_DOMAIN_FILTER_EXCLUSION", "", "expression for the names not to serve"),
    restriction("ZONE_ID_FILTER", "", "ids of the zones to read (default: all the token sees)"),
    restriction("OWNER_ID", "default", "the value of ExternalDNS's --txt-owner-id"),
    setting("DEFAULT_SERVICE", "", "service of objects that name none: http://{name}.{namespace}.svc:80"),
    setting("PUBLISH", "annotated", "which objects get DEFAULT_SERVICE: annotated or all"),
    setting("ORIGIN_CA_POOLS", "", "absolute paths that webhook-origin-ca-pool may name (default: nothing)"),
    setting("ADOPT", "", "what may be taken over: tunnel, access, owner=ID, all (default: nothing)"),
    restriction("NAMESPACE_GUARD", "false", "keep services and hostnames of namespaces apart"),
    restriction(
        "NAMESPACE_DOMAINS",
        "",
        "namespace=domain pairs that NAMESPACE_GUARD allows (default: any name)",
    ),
    setting("SHARED_SERVICES", "", "services any namespace may publish with NAMESPACE_GUARD (default: none)"),
    setting("CLUSTER_DOMAIN", "cluster.local", "domain that may follow svc in a service's name"),
    restriction("ACCESS_GUARD", "false", "publish only what Cloudflare Access protects"),
    restriction("DEFAULT_ACCESS_POLICY", "none", "policies of rules whose object says nothing of Access"),
    restriction("ACCESS_OPT_OUT", "true", "let objects ask for webhook-access-policy: none"),
    restriction(
        "ACCESS_POLICIES",
        "",
        "policies that objects may name (default: all; none with NAMESPACE_GUARD)",
    ),
    restriction("DRY_RUN", "false", "log what would be written, and write nothing"),
    // Upgrades of ExternalDNS have emptied whole zones on instances with 6 to 13 hostnames.
    restriction("MASS_DELETION_LIMIT", "5", "deletions always allowed in one request; 0: no limit"),
    setting("MOVE_GRACE", "30s", "time for a change to reach Cloudflare's edge, 0s to 3600s"),
    setting("ALLOW_LOCAL_CONFIG", "false", "take over tunnels that a file of cloudflared configures"),
    setting("REQUEST_TIMEOUT", "12s", "longest time for a request of ExternalDNS, 2s to 14s"),
    setting("SERVER_HOST", "localhost", "address of the webhook API"),
    setting("SERVER_PORT", "8888", "port of the webhook API"),
    setting("METRICS_HOST", "::", "address of /healthz, /readyz and /metrics, :: for all"),
    setting("METRICS_PORT", "8080", "port of /healthz, /readyz and /metrics"),
    setting("LOG_LEVEL", "info", "error, warn, info, debug or trace"),
    setting("LOG_FORMAT", "text", "format of log lines: text or json"),
];

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
        reader.refuse_misplaced(credentials.as_ref());
        let base_url = reader.api_base_url();
        let roots = reader.roots();
        let api_addresses = reader.api_addresses();
        let metrics_address = reader.metrics_address();
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

        let Reader { credential_variable, credential_file, mut mistakes, warnings, .. } = reader;
        let (Some(credentials), Some((base_url, proxy)), Some(roots), []) =
            (credentials, base_url, roots, &*mistakes)
        else {
            // A warning may show that a missing setting was given under a wrong name.
            mistakes.extend(warnings);
            return Err(mistakes);
        };
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

/// Reads only the address of the health routes, so that a mistake in another setting does not matter.
pub fn metrics_address(variables: &Variables) -> Result<SocketAddr, Vec<String>> {
    let mut reader = Reader::new(variables);
    reader.mistakes.clear();
    let address = reader.metrics_address();
    if reader.mistakes.is_empty() { Ok(address) } else { Err(reader.mistakes) }
}

#[cfg(test)]
mod tests;
