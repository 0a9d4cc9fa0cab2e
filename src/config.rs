//! Configuration: flags, then environment, then defaults, parsed once into typed values. Every mistake is reported at
//! once, with the variable's name and what is allowed, and never with a secret.

pub mod names;
mod proxy;

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use log::LevelFilter;
use regex_lite::Regex;

use crate::cli::Arguments;
use crate::cloudflare::{self, BaseUrl, ClientSettings, Credentials, MAKE_TOKEN, Proxy, USER_AGENT};
use crate::config::names::{all_names, hint, is_injected};
use crate::ingress::{OriginOption, OriginRequest, PathPattern, Service};
use crate::limits;
use crate::logging::Format;
use crate::model::domain_filter::DomainFilter;
use crate::model::text::{one_line, quoted};
use crate::model::{AccountId, Hostname, ZoneId};
use crate::provider::ProviderSettings;
use crate::reconcile::adopt::Adopt;
use crate::reconcile::namespace::NamespaceGuard;
use crate::reconcile::permitted::{self, OwnPort};
use crate::reconcile::service_template::ServiceTemplate;
use crate::reconcile::stamp;
use crate::reconcile::{Ownership, Policy};
use crate::secret::Secret;

/// Where the API is unless configured otherwise.
pub const API_BASE_URL_DEFAULT: &str = "https://api.cloudflare.com/client/v4";

const SERVER_PORT_DEFAULT: u16 = 8888;
const METRICS_PORT_DEFAULT: u16 = 8080;
const OWNER_ID_DEFAULT: &str = "default";
const CLUSTER_DOMAIN_DEFAULT: &str = "cluster.local";

/// Begins like the defaults of options, and is none.
const CA_POOLS: &str = "ORIGIN_CA_POOLS";

/// What the configuration is read from.
pub trait Environment {
    /// A variable of the environment; an empty one counts as absent.
    fn variable(&self, name: &str) -> Option<String>;

    /// The names of all variables of the environment, in any order; none where only what is asked for is known.
    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    /// The contents of a file.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, is none, or holds more than `max_bytes`.
    fn read(&self, path: &Path, max_bytes: u64) -> io::Result<Vec<u8>>;
}

/// Everything that is configured.
#[derive(Debug)]
pub struct Config {
    /// How Cloudflare is called.
    pub client: ClientSettings,
    /// Where the secret among the credentials was read, where that was a file.
    pub credential_file: Option<PathBuf>,
    /// What is managed.
    pub provider: ProviderSettings,
    /// How long a request may take.
    pub request_timeout: Duration,
    /// Where ExternalDNS reaches the API.
    pub api_addresses: Vec<SocketAddr>,
    /// Where probes reach the health routes.
    pub observation_address: SocketAddr,
    /// The most detailed level that is logged.
    pub log_level: LevelFilter,
    /// How log lines look.
    pub log_format: Format,
    /// What an operator should read although nothing is wrong.
    pub warnings: Vec<String>,
}

/// One mistake in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The variable.
    pub variable: &'static str,
    /// What is wrong and what is allowed.
    pub problem: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.variable, self.problem)
    }
}

impl Config {
    /// Reads the configuration.
    ///
    /// # Errors
    ///
    /// With every mistake there is.
    pub fn read(arguments: &Arguments, environment: &dyn Environment) -> Result<Self, Vec<Mistake>> {
        let (mistakes, warnings) = (Vec::new(), Vec::new());
        let mut reader = Reader { arguments, environment, credential_file: None, mistakes, warnings };
        // All of them before the first return, so that one start reports every mistake.
        let credentials = reader.credentials();
        let tunnels = reader.tunnels();
        let filter = reader.domain_filter();
        let owner = reader.owner();
        let ownership = reader.ownership();
        let origin_defaults = reader.origin_defaults();
        let ca_pools = reader.ca_pools();
        let ca_file = reader.ca_file();
        let request_timeout = reader.request_timeout();
        let api_addresses = reader.api_addresses();
        let observation_address = reader.observation_address();
        let own_addresses: Vec<SocketAddr> =
            api_addresses.iter().copied().chain([observation_address]).collect();
        let default_service = reader.default_service(&own_addresses);
        let log_level = reader.log_level();
        let log_format = reader.log_format();
        let allow_local_config = reader.boolean("ALLOW_LOCAL_CONFIG");
        let mass_deletion_limit = reader.mass_deletion_limit();
        let move_grace = reader.move_grace();
        let adopt = reader.adopt();
        let namespace_guard = reader.namespace_guard();
        let dry_run = reader.boolean("DRY_RUN");
        let account = reader.account();
        let zone_ids = reader.identifiers("ZONE_ID_FILTER").into_iter().map(ZoneId::new).collect();
        let (base_url, proxy) = reader.api_base_url();
        reader.unknown_names();

        let Reader { credential_file, mistakes, warnings, .. } = reader;
        let Some(credentials) = credentials.filter(|_| mistakes.is_empty()) else {
            return Err(mistakes);
        };
        let policy = Policy {
            owner,
            filter,
            default_service,
            origin_defaults,
            ca_pools,
            own_addresses,
            mass_deletion_limit,
            ownership,
            adopt,
            namespace_guard,
        };
        Ok(Self {
            client: ClientSettings {
                base_url,
                credentials,
                ca_file,
                proxy,
                user_agent: USER_AGENT.to_owned(),
            },
            credential_file,
            provider: ProviderSettings {
                policy,
                account,
                tunnels,
                zone_ids,
                move_grace,
                dry_run,
                allow_local_config,
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

/// Where the routes for probes are, whatever else is configured, or not.
///
/// # Errors
///
/// With every mistake in the settings that say it.
pub fn observation_address(
    arguments: &Arguments,
    environment: &dyn Environment,
) -> Result<SocketAddr, Vec<Mistake>> {
    let (mistakes, warnings) = (Vec::new(), Vec::new());
    let mut reader = Reader { arguments, environment, credential_file: None, mistakes, warnings };
    let address = reader.observation_address();
    if reader.mistakes.is_empty() { Ok(address) } else { Err(reader.mistakes) }
}

struct Reader<'a> {
    arguments: &'a Arguments,
    environment: &'a dyn Environment,
    credential_file: Option<PathBuf>,
    mistakes: Vec<Mistake>,
    warnings: Vec<String>,
}

impl Reader<'_> {
    fn mistake(&mut self, variable: &'static str, problem: impl Into<String>) {
        self.mistakes.push(Mistake { variable, problem: problem.into() });
    }

    /// A value that is none of those allowed. A long one is cut: it would hide what is.
    fn wrong(&mut self, variable: &'static str, given: &str, allowed: &str) {
        self.mistake(variable, format!("is {}; allowed {allowed}", quoted(given)));
    }

    /// The flag, else the variable, else one of its other names. Blanks around it do not count, and an empty one counts
    /// as absent.
    fn text(&mut self, variable: &'static str) -> Option<String> {
        let trimmed = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        if let Some(text) = self.arguments.flag_for(variable).and_then(trimmed) {
            return Some(text);
        }
        let mut counts: Option<(&str, String)> = None;
        for name in all_names(variable) {
            let Some(text) = self.environment.variable(name).as_deref().and_then(trimmed) else {
                continue;
            };
            if is_injected(name, &text) {
                self.warnings.push(format!(
                    "{name}={} was put there by Kubernetes for a Service and is ignored",
                    quoted(&text)
                ));
                continue;
            }
            match &counts {
                None => counts = Some((name, text)),
                Some((first, said)) if *said != text => {
                    self.warnings.push(format!("{first} and {name} are both set and differ: {first} counts"));
                }
                Some(_) => {}
            }
        }
        counts.map(|(_, text)| text)
    }

    fn list(&mut self, variable: &'static str) -> Vec<String> {
        let Some(text) = self.text(variable) else {
            return Vec::new();
        };
        let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        let entries: Vec<String> = entries.map(str::to_owned).collect();
        if entries.is_empty() {
            // A filter of nothing but separators would let everything through.
            self.mistake(variable, format!("is {}, a list without an entry", quoted(&text)));
        }
        entries
    }

    /// Ids as Cloudflare gives them to accounts and zones.
    fn identifiers(&mut self, variable: &'static str) -> Vec<String> {
        let ids = self.list(variable);
        let is_id = |id: &&String| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        if let Some(other) = ids.iter().find(|id| !is_id(id)) {
            // Longer than any id, it may be a token in the wrong variable.
            let given = match other.chars().count() {
                length if length > limits::IDENTIFIER_SHOWN_MAX_CHARS => {
                    format!("has an entry of {length} characters")
                }
                _ => format!("is {other:?}"),
            };
            self.mistake(
                variable,
                format!(
                    "{given}; allowed are ids of 32 hexadecimal digits, as the dashboard shows them beside a zone"
                ),
            );
        }
        ids
    }

    fn account(&mut self) -> Option<AccountId> {
        let ids = self.identifiers("CF_ACCOUNT_ID");
        if ids.len() > 1 {
            self.mistake(
                "CF_ACCOUNT_ID",
                "names several accounts; allowed is the one that the tunnels are in",
            );
        }
        ids.into_iter().next().map(AccountId::new)
    }

    /// Names in the environment that were meant for this program, it seems.
    fn unknown_names(&mut self) {
        let names = self.environment.names();
        let value = |name: &str| self.environment.variable(name).unwrap_or_default();
        self.warnings.extend(names.iter().filter_map(|name| hint(name, &value(name))));
    }

    fn boolean(&mut self, variable: &'static str) -> bool {
        match self.text(variable).as_deref() {
            None | Some("false") => false,
            Some("true") => true,
            Some(other) => {
                self.wrong(variable, other, "are true and false");
                false
            }
        }
    }

    fn credentials(&mut self) -> Option<Credentials> {
        let token = self.secret("CF_API_TOKEN", "CF_API_TOKEN_FILE");
        let key = self.secret("CF_API_KEY", "CF_API_KEY_FILE");
        let email = self.text("CF_API_EMAIL");
        if let Some(email) = &email
            && !email.bytes().all(|byte| byte.is_ascii_graphic())
        {
            self.wrong("CF_API_EMAIL", email, "is visible ASCII without blanks");
        }
        match (token, key, email) {
            (Some(token), None, _) => Some(Credentials::Token(token?)),
            (None, Some(key), Some(email)) => Some(Credentials::Key { key: key?, email: email.into() }),
            (Some(_), Some(_), _) => {
                self.mistake("CF_API_TOKEN", "and CF_API_KEY are both set; keep the token");
                None
            }
            (None, Some(_), None) => {
                self.mistake("CF_API_EMAIL", "is missing beside CF_API_KEY");
                None
            }
            (None, None, _) => {
                self.mistake("CF_API_TOKEN", format!("is missing: {MAKE_TOKEN}"));
                None
            }
        }
    }

    /// A secret given as itself, as `file:/path`, or by the variable that names a file. `Some(None)` when it is given
    /// and cannot be used.
    #[allow(clippy::option_option, reason = "absent and unusable are told apart once, by the caller")]
    fn secret(&mut self, variable: &'static str, file_variable: &'static str) -> Option<Option<Secret>> {
        let (given, file) = (self.text(variable), self.text(file_variable));
        if given.is_some() && file.is_some() {
            self.warnings.push(format!("{variable} and {file_variable} are both set: {variable} counts"));
        }
        let (variable, path) = match (given, file) {
            (Some(text), _) => match text.strip_prefix("file:") {
                None => return Some(self.parsed_secret(variable, "", &text)),
                Some(path) => (variable, path.to_owned()),
            },
            (None, Some(path)) => (file_variable, path),
            (None, None) => return None,
        };
        // What has no slash may be the secret itself.
        let file =
            if path.contains('/') { format!("the file {}", quoted(&path)) } else { "a file".to_owned() };
        match self.environment.read(Path::new(&path), limits::CREDENTIAL_FILE_MAX_BYTES) {
            Ok(bytes) => {
                self.credential_file = Some(path.into());
                Some(self.parsed_secret(
                    variable,
                    &format!("names {file}, which "),
                    &String::from_utf8_lossy(&bytes),
                ))
            }
            Err(error) => {
                self.mistake(variable, format!("names {file}, which cannot be read: {error}"));
                Some(None)
            }
        }
    }

    fn parsed_secret(&mut self, variable: &'static str, which: &str, text: &str) -> Option<Secret> {
        Secret::parse(text).map_err(|error| self.mistake(variable, format!("{which}{error}"))).ok()
    }

    fn tunnels(&mut self) -> Vec<Box<str>> {
        let tunnels: Vec<Box<str>> = self.list("CF_TUNNEL_ID").into_iter().map(Into::into).collect();
        if tunnels.is_empty() {
            self.mistake(
                "CF_TUNNEL_ID",
                "is missing: the id or the name of the tunnel that hostnames are published through",
            );
        }
        if tunnels.iter().any(|tunnel| tunnel.len() > limits::TUNNEL_NAME_MAX_BYTES) {
            // What is not found is told to whoever asks /readyz.
            self.mistake(
                "CF_TUNNEL_ID",
                "has an entry that is too long for an id or a name: is it the token that cloudflared runs with?",
            );
        }
        tunnels
    }

    fn domain_filter(&mut self) -> DomainFilter {
        let (include, exclude) = (self.domains("DOMAIN_FILTER"), self.domains("EXCLUDE_DOMAIN_FILTER"));
        let expressions =
            (self.expression("REGEXP_DOMAIN_FILTER"), self.expression("REGEXP_DOMAIN_FILTER_EXCLUSION"));
        match expressions {
            (None, None) => {
                DomainFilter::lists(include.iter().map(String::as_str), exclude.iter().map(String::as_str))
            }
            (regex_include, regex_exclude) => {
                if !include.is_empty() || !exclude.is_empty() {
                    self.mistake(
                        "REGEXP_DOMAIN_FILTER",
                        "and DOMAIN_FILTER or EXCLUDE_DOMAIN_FILTER are both set; ExternalDNS takes either lists or \
                         expressions",
                    );
                }
                DomainFilter::Expressions { include: regex_include, exclude: regex_exclude }
            }
        }
    }

    fn domains(&mut self, variable: &'static str) -> Vec<String> {
        let domains = self.list(variable);
        let is_domain = |text: &&String| {
            let domain = Hostname::parse(text.strip_prefix('.').unwrap_or(text));
            domain.is_ok_and(|domain| !domain.is_wildcard())
        };
        if let Some(other) = domains.iter().find(|domain| !is_domain(domain)) {
            self.mistake(
                variable,
                format!(
                    "has {}; allowed are names such as example.com, which stands for all names below it too, and \
                     .example.com, which stands for those alone",
                    quoted(other)
                ),
            );
        }
        domains
    }

    /// Both Go and this program have to read it: what Go cannot read would end ExternalDNS.
    fn expression(&mut self, variable: &'static str) -> Option<Regex> {
        let text = self.text(variable)?;
        let compiled = PathPattern::parse(&text)
            .map_err(|error| error.to_string())
            .and_then(|_| Regex::new(&text).map_err(|error| error.to_string()));
        compiled.map_err(|problem| self.mistake(variable, format!("is {}: {problem}", quoted(&text)))).ok()
    }

    fn owner(&mut self) -> Box<str> {
        let owner = self.text("OWNER_ID").unwrap_or_else(|| OWNER_ID_DEFAULT.to_owned());
        let length = stamp::encode(&owner).len();
        if length > limits::OWNER_ID_MAX_BYTES {
            self.mistake(
                "OWNER_ID",
                format!(
                    "is {}, {length} bytes when percent-encoded; a record's comment has room for {}",
                    quoted(&owner),
                    limits::OWNER_ID_MAX_BYTES
                ),
            );
        }
        owner.into()
    }

    fn ownership(&mut self) -> Ownership {
        let text = self.text("OWNERSHIP");
        match text.as_deref() {
            None | Some("comment") => Ownership::Comment,
            Some("txt") => Ownership::Txt,
            Some(other) => {
                self.wrong("OWNERSHIP", other, "are comment and txt");
                Ownership::Comment
            }
        }
    }

    fn default_service(&mut self, own_addresses: &[SocketAddr]) -> Option<ServiceTemplate> {
        let text = self.text("DEFAULT_SERVICE")?;
        let template = ServiceTemplate::parse(&text)
            .map_err(|error| self.mistake("DEFAULT_SERVICE", format!("is {}: it {error}", quoted(&text))))
            .ok()?;
        // What it becomes for each object is looked at again there.
        let own_port =
            Service::parse(&text).ok().and_then(|service| permitted::own_port(&service, own_addresses));
        if let Some(port) = own_port {
            self.mistake("DEFAULT_SERVICE", format!("is {}: {}", quoted(&text), OwnPort(port)));
        }
        Some(template)
    }

    /// Relative ones would be looked for wherever cloudflared was started.
    fn ca_pools(&mut self) -> Vec<Box<str>> {
        let paths = self.list(CA_POOLS);
        if let Some(other) =
            paths.iter().find(|path| !path.starts_with('/') || path.chars().any(char::is_control))
        {
            let given = quoted(other);
            self.mistake(CA_POOLS, format!("has {given}; allowed are absolute paths such as /etc/ca.pem"));
        }
        paths.into_iter().map(Into::into).collect()
    }

    fn origin_defaults(&mut self) -> OriginRequest {
        let default = |option: OriginOption| {
            let text = self.text(option.setting())?;
            option.parse(&text).unwrap_or_else(|problem| {
                self.mistake(option.setting(), one_line(&problem, limits::ERROR_TEXT_MAX_CHARS).to_string());
                None
            })
        };
        OriginOption::all().filter_map(default).collect()
    }

    fn adopt(&mut self) -> Adopt {
        let words = self.list("ADOPT");
        let adopt = Adopt::parse(&words).unwrap_or_else(|word| {
            let given = quoted(word);
            self.mistake("ADOPT", format!("has {given}; allowed are identical, tunnel, owner=<id> and all"));
            Adopt::default()
        });
        if adopt.all {
            self.warnings.push(
                "ADOPT has all: any record and any rule that stands where a hostname of the cluster is to be published \
                 is replaced; take it off as soon as that is done"
                    .to_owned(),
            );
        }
        adopt
    }

    fn namespace_guard(&mut self) -> Option<NamespaceGuard> {
        let is_on = self.boolean("NAMESPACE_GUARD");
        let text = self.text("CLUSTER_DOMAIN").unwrap_or_else(|| CLUSTER_DOMAIN_DEFAULT.to_owned());
        let domain = Hostname::parse(&text).map_err(|error| error.to_string()).and_then(|domain| {
            if domain.is_wildcard() { Err("a domain has no wildcard".to_owned()) } else { Ok(domain) }
        });
        match domain {
            Ok(domain) => is_on.then(|| NamespaceGuard { cluster_domain: domain.as_str().into() }),
            Err(problem) => {
                self.mistake("CLUSTER_DOMAIN", format!("is {}: {problem}", quoted(&text)));
                None
            }
        }
    }

    /// Where the API is, and the proxy on the way to it.
    fn api_base_url(&mut self) -> (String, Option<Proxy>) {
        let url = self.text("CF_API_BASE_URL").unwrap_or_else(|| API_BASE_URL_DEFAULT.to_owned());
        let mut proxy = None;
        match BaseUrl::parse(&url) {
            Ok(target) => {
                if !target.is_private() {
                    let given = quoted(&url);
                    self.warnings.push(format!("CF_API_BASE_URL is {given}: the token is sent unencrypted"));
                }
                let variable = |name: &str| self.environment.variable(name);
                proxy = proxy::proxy(&target, &variable).unwrap_or_else(|mistake| {
                    self.mistakes.push(mistake);
                    None
                });
            }
            Err(error) => {
                // A password or a token may be in it.
                let given =
                    if url.contains(['@', '?', '#']) { "wrong".to_owned() } else { quoted(&url).to_string() };
                self.mistake("CF_API_BASE_URL", format!("is {given}: {error}"));
            }
        }
        (url, proxy)
    }

    fn ca_file(&mut self) -> Option<Vec<u8>> {
        let path = self.text("CF_CA_FILE")?;
        let pem = self
            .environment
            .read(Path::new(&path), limits::CA_FILE_MAX_BYTES)
            .map_err(|error| format!("cannot be read: {error}"));
        pem.and_then(|pem| match cloudflare::check_authorities(&pem) {
            Ok(()) => Ok(pem),
            Err(error) => Err(format!("is of no use: {error}")),
        })
        .map_err(|problem| self.mistake("CF_CA_FILE", format!("names {}, which {problem}", quoted(&path))))
        .ok()
    }

    fn mass_deletion_limit(&mut self) -> usize {
        let Some(text) = self.text("MASS_DELETION_LIMIT") else {
            return limits::MASS_DELETION_LIMIT_DEFAULT;
        };
        text.parse().unwrap_or_else(|_| {
            self.wrong("MASS_DELETION_LIMIT", &text, "is a whole number, and 0 to withhold no deletion");
            limits::MASS_DELETION_LIMIT_DEFAULT
        })
    }

    fn request_timeout(&mut self) -> Duration {
        let allowed = limits::REQUEST_TIMEOUT_MINIMUM..=limits::REQUEST_TIMEOUT_MAXIMUM;
        self.seconds("REQUEST_TIMEOUT", limits::REQUEST_TIMEOUT_DEFAULT, allowed)
    }

    fn move_grace(&mut self) -> Duration {
        let allowed = Duration::ZERO..=limits::MOVE_GRACE_MAXIMUM;
        self.seconds("MOVE_GRACE", limits::MOVE_GRACE_DEFAULT, allowed)
    }

    fn seconds(
        &mut self,
        variable: &'static str,
        default: Duration,
        allowed: RangeInclusive<Duration>,
    ) -> Duration {
        let Some(text) = self.text(variable) else {
            return default;
        };
        let seconds = text.strip_suffix('s').unwrap_or(&text).parse().map(Duration::from_secs);
        seconds.ok().filter(|seconds| allowed.contains(seconds)).unwrap_or_else(|| {
            let (least, most) = (allowed.start().as_secs(), allowed.end().as_secs());
            self.wrong(variable, &text, &format!("are whole seconds from {least}s to {most}s"));
            default
        })
    }

    fn api_addresses(&mut self) -> Vec<SocketAddr> {
        let port = self.port("SERVER_PORT", SERVER_PORT_DEFAULT);
        let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        let hosts = match self.text("SERVER_HOST").as_deref() {
            None | Some("localhost") => loopback.to_vec(),
            Some(text) => self.address("SERVER_HOST", text).into_iter().collect(),
        };
        if hosts.iter().any(|host| !host.is_loopback()) {
            self.warnings.push(
                "SERVER_HOST is not a loopback address: whoever reaches the port can publish and delete hostnames, as \
                 ExternalDNS's protocol has no authentication, and tiny_http is not made for hostile clients"
                    .to_owned(),
            );
        }
        hosts.into_iter().map(|host| SocketAddr::new(host, port)).collect()
    }

    fn observation_address(&mut self) -> SocketAddr {
        let port = self.port("METRICS_PORT", METRICS_PORT_DEFAULT);
        let host = match self.text("METRICS_HOST").as_deref() {
            None => None,
            Some("localhost") => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            Some(text) => self.address("METRICS_HOST", text),
        };
        SocketAddr::new(host.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED)), port)
    }

    fn address(&mut self, variable: &'static str, text: &str) -> Option<IpAddr> {
        text.trim_start_matches('[')
            .trim_end_matches(']')
            .parse()
            .map_err(|_| self.wrong(variable, text, "are an IP address and localhost"))
            .ok()
    }

    fn port(&mut self, variable: &'static str, default: u16) -> u16 {
        let Some(text) = self.text(variable) else {
            return default;
        };
        text.parse().unwrap_or_else(|_| {
            self.wrong(variable, &text, "is a port from 0 to 65535");
            default
        })
    }

    fn log_format(&mut self) -> Format {
        match self.text("LOG_FORMAT").as_deref() {
            None | Some("text") => Format::Text,
            Some("json") => Format::Json,
            Some(other) => {
                self.wrong("LOG_FORMAT", other, "are text and json");
                Format::Text
            }
        }
    }

    fn log_level(&mut self) -> LevelFilter {
        match self.text("LOG_LEVEL").map(|text| text.to_ascii_lowercase()).as_deref() {
            None | Some("info") => LevelFilter::Info,
            Some("error" | "fatal") => LevelFilter::Error,
            Some("warn" | "warning") => LevelFilter::Warn,
            Some("debug") => LevelFilter::Debug,
            Some("trace") => LevelFilter::Trace,
            Some(other) => {
                self.wrong("LOG_LEVEL", other, "are error, warn, info, debug and trace");
                LevelFilter::Info
            }
        }
    }
}

#[cfg(test)]
mod tests;
