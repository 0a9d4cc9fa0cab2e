//! The table of settings.

use std::collections::BTreeMap;

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

/// Every setting except the defaults of a rule's options. [`OriginOption`](crate::ingress::OriginOption) names those. A
/// test compares the rows with docs/configuration.md.
pub(crate) const TABLE: &[Setting] = &[
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
