//! Configuration: flags, then environment, then defaults, parsed once into typed values. Every mistake is reported at
//! once, with the variable's name and what is allowed, and never with a secret.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use log::LevelFilter;
use regex_lite::Regex;

use crate::cli::Arguments;
use crate::cloudflare::{AccountId, Credentials, ZoneId};
use crate::domain_filter::DomainFilter;
use crate::endpoint::Property;
use crate::limits;
use crate::provider::{Wanted, ZoneScope};
use crate::reconcile::Ownership;
use crate::reconcile::adopt::Adopt;
use crate::reconcile::namespace::NamespaceGuard;
use crate::reconcile::options::{self, BadOption, OptionsRead, OriginRequest};
use crate::reconcile::service_template::ServiceTemplate;
use crate::reconcile::stamp;
use crate::secret::Secret;
use crate::tunnel::{Hostname, PathPattern};

/// Where the API is unless configured otherwise.
pub const API_BASE_URL_DEFAULT: &str = "https://api.cloudflare.com/client/v4";

const SERVER_PORT_DEFAULT: u16 = 8888;
const METRICS_PORT_DEFAULT: u16 = 8080;
const OWNER_ID_DEFAULT: &str = "default";
const CLUSTER_DOMAIN_DEFAULT: &str = "cluster.local";

/// What the configuration is read from.
pub trait Environment {
    /// A variable of the environment; an empty one counts as absent.
    fn variable(&self, name: &str) -> Option<String>;

    /// The contents of a file.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
}

/// Everything that is configured.
#[derive(Debug)]
pub struct Config {
    /// What calls of Cloudflare are made with.
    pub credentials: Credentials,
    /// Where the API is.
    pub api_base_url: String,
    /// Certificate authorities trusted besides the compiled-in ones, as PEM.
    pub ca_file: Option<Vec<u8>>,
    /// What is managed.
    pub wanted: Wanted,
    /// How long a request may take.
    pub request_timeout: Duration,
    /// Where ExternalDNS reaches the API.
    pub api_addresses: Vec<SocketAddr>,
    /// Where probes reach the health routes.
    pub observation_address: SocketAddr,
    /// The most detailed level that is logged.
    pub log_level: LevelFilter,
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
        let mut reader = Reader { arguments, environment, mistakes: Vec::new(), warnings: Vec::new() };
        // All of them before the first return, so that one start reports every mistake.
        let credentials = reader.credentials();
        let tunnels = reader.tunnels();
        let filter = reader.domain_filter();
        let owner = reader.owner();
        let ownership = reader.ownership();
        let default_service = reader.default_service();
        let origin_defaults = reader.origin_defaults();
        let ca_file = reader.ca_file();
        let request_timeout = reader.request_timeout();
        let api_addresses = reader.api_addresses();
        let observation_address = reader.observation_address();
        let log_level = reader.log_level();
        let allow_local_config = reader.boolean("ALLOW_LOCAL_CONFIG");
        let allow_mass_deletion = reader.boolean("ALLOW_MASS_DELETION");
        let adopt = reader.adopt();
        let namespace_guard = reader.namespace_guard();
        let dry_run = reader.boolean("DRY_RUN");
        let account = reader.text("CF_ACCOUNT_ID").map(AccountId::new);
        let ids = reader.list("ZONE_ID_FILTER").into_iter().map(ZoneId::new).collect();
        let api_base_url = reader.api_base_url();

        let Reader { mistakes, warnings, .. } = reader;
        let Some(credentials) = credentials.filter(|_| mistakes.is_empty()) else {
            return Err(mistakes);
        };
        let scope = ZoneScope { filter, ids };
        let wanted = Wanted {
            owner,
            ownership,
            account,
            tunnels,
            scope,
            default_service,
            origin_defaults,
            allow_mass_deletion,
            adopt,
            namespace_guard,
            dry_run,
            allow_local_config,
        };
        Ok(Self {
            credentials,
            api_base_url,
            ca_file,
            wanted,
            request_timeout,
            api_addresses,
            observation_address,
            log_level,
            warnings,
        })
    }
}

struct Reader<'a> {
    arguments: &'a Arguments,
    environment: &'a dyn Environment,
    mistakes: Vec<Mistake>,
    warnings: Vec<String>,
}

/// Names that other programs use for the same thing.
fn aliases(variable: &str) -> &'static [&'static str] {
    match variable {
        "CF_API_TOKEN" => &["CLOUDFLARE_API_TOKEN"],
        "CF_API_TOKEN_FILE" => &["CLOUDFLARE_API_TOKEN_FILE"],
        "CF_API_KEY" => &["CLOUDFLARE_API_KEY"],
        "CF_API_EMAIL" => &["CLOUDFLARE_API_EMAIL", "CLOUDFLARE_EMAIL"],
        "CF_ACCOUNT_ID" => &["CLOUDFLARE_ACCOUNT_ID"],
        "CF_TUNNEL_ID" => &["CLOUDFLARE_TUNNEL_ID", "CLOUDFLARE_TUNNEL_NAME", "CF_TUNNEL"],
        "CF_API_BASE_URL" => &["CLOUDFLARE_BASE_URL"],
        "DOMAIN_FILTER" => &["DOMAIN_FILTERS"],
        "SERVER_PORT" => &["PORT"],
        "METRICS_HOST" => &["HEALTHZ_HOST"],
        "METRICS_PORT" => &["HEALTHZ_PORT"],
        _ => &[],
    }
}

/// The property that a setting is the default of: `webhook/origin-ca-pool` for `ORIGIN_CA_POOL`.
fn origin_property(variable: &str) -> String {
    format!("webhook/{}", variable.to_ascii_lowercase().replace('_', "-"))
}

impl Reader<'_> {
    fn mistake(&mut self, variable: &'static str, problem: impl Into<String>) {
        self.mistakes.push(Mistake { variable, problem: problem.into() });
    }

    /// The flag, else the variable, else one of its other names. Blanks around it do not count, and an empty one counts
    /// as absent.
    fn text(&self, variable: &'static str) -> Option<String> {
        let is_there = |text: &String| !text.trim().is_empty();
        let flag = self.arguments.flag_for(variable).map(str::to_owned).filter(is_there);
        let names = [variable].into_iter().chain(aliases(variable).iter().copied());
        flag.or_else(|| names.into_iter().find_map(|name| self.environment.variable(name).filter(is_there)))
            .map(|text| text.trim().to_owned())
    }

    fn list(&self, variable: &'static str) -> Vec<String> {
        let text = self.text(variable).unwrap_or_default();
        text.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(str::to_owned).collect()
    }

    fn boolean(&mut self, variable: &'static str) -> bool {
        match self.text(variable).as_deref() {
            None | Some("false") => false,
            Some("true") => true,
            Some(other) => {
                self.mistake(variable, format!("is {other:?}; allowed are true and false"));
                false
            }
        }
    }

    fn credentials(&mut self) -> Option<Credentials> {
        let token = self.secret("CF_API_TOKEN", "CF_API_TOKEN_FILE");
        let key = self.secret("CF_API_KEY", "CF_API_KEY_FILE");
        let email = self.text("CF_API_EMAIL");
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
                self.mistake(
                    "CF_API_TOKEN",
                    "is missing: make a token with the permissions Zone Read, DNS Edit and Cloudflare Tunnel Edit, \
                     and give it as CF_API_TOKEN, or as a file named by CF_API_TOKEN_FILE",
                );
                None
            }
        }
    }

    /// A secret given as itself, as `file:/path`, or by the variable that names a file. `Some(None)` when it is given
    /// and cannot be used.
    #[allow(clippy::option_option, reason = "absent and unusable are told apart once, by the caller")]
    fn secret(&mut self, variable: &'static str, file_variable: &'static str) -> Option<Option<Secret>> {
        let given = self.text(variable);
        let path = match given.as_deref().map(|text| text.strip_prefix("file:")) {
            Some(None) => None,
            Some(Some(path)) => Some((variable, path.to_owned())),
            None => Some((file_variable, self.text(file_variable)?)),
        };
        let (variable, text) = match path {
            None => (variable, given.unwrap_or_default()),
            Some((variable, path)) => match self.environment.read(Path::new(&path)) {
                Ok(bytes) => (variable, String::from_utf8_lossy(&bytes).into_owned()),
                Err(error) => {
                    // What has no slash may be the secret itself.
                    let file =
                        if path.contains('/') { format!("the file {path:?}") } else { "a file".to_owned() };
                    self.mistake(variable, format!("names {file}, which cannot be read: {error}"));
                    return Some(None);
                }
            },
        };
        match Secret::parse(&text) {
            Ok(secret) => Some(Some(secret)),
            Err(error) => {
                self.mistake(variable, error.to_string());
                Some(None)
            }
        }
    }

    fn tunnels(&mut self) -> Vec<Box<str>> {
        let tunnels: Vec<Box<str>> = self.list("CF_TUNNEL_ID").into_iter().map(Into::into).collect();
        if tunnels.is_empty() {
            self.mistake(
                "CF_TUNNEL_ID",
                "is missing: the id or the name of the tunnel that hostnames are published through",
            );
        }
        tunnels
    }

    fn domain_filter(&mut self) -> DomainFilter {
        let (include, exclude) = (self.list("DOMAIN_FILTER"), self.list("EXCLUDE_DOMAIN_FILTER"));
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

    /// Both Go and this program have to read it: what Go cannot read would end ExternalDNS.
    fn expression(&mut self, variable: &'static str) -> Option<Regex> {
        let text = self.text(variable)?;
        let compiled = PathPattern::parse(&text)
            .map_err(|error| error.to_string())
            .and_then(|_| Regex::new(&text).map_err(|error| error.to_string()));
        compiled.map_err(|problem| self.mistake(variable, format!("is {text:?}: {problem}"))).ok()
    }

    fn owner(&mut self) -> Box<str> {
        let owner = self.text("OWNER_ID").unwrap_or_else(|| OWNER_ID_DEFAULT.to_owned());
        let length = stamp::encode(&owner).len();
        if length > limits::OWNER_ID_MAX_BYTES {
            self.mistake(
                "OWNER_ID",
                format!(
                    "is {owner:?}, {length} bytes when percent-encoded; a record's comment has room for {}",
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
                self.mistake("OWNERSHIP", format!("is {other:?}; allowed are comment and txt"));
                Ownership::Comment
            }
        }
    }

    fn default_service(&mut self) -> Option<ServiceTemplate> {
        let text = self.text("DEFAULT_SERVICE")?;
        ServiceTemplate::parse(&text)
            .map_err(|error| self.mistake("DEFAULT_SERVICE", format!("is {text:?}: it {error}")))
            .ok()
    }

    /// The variables are named after the properties, each of which says the same of one endpoint.
    fn origin_defaults(&mut self) -> OriginRequest {
        let variables = Arguments::VARIABLES.iter().filter(|variable| variable.starts_with("ORIGIN_"));
        let said: Vec<Property> = variables
            .clone()
            .filter_map(|variable| Some(Property::new(origin_property(variable), self.text(variable)?)))
            .collect();
        let OptionsRead { origin_request, left_out, invalid } = options::read(&said, &[]);
        for BadOption { property, problem } in left_out.into_iter().chain(invalid) {
            let variable = variables.clone().find(|variable| origin_property(variable) == *property);
            self.mistake(variable.expect("the property was made of it"), problem);
        }
        origin_request
    }

    fn adopt(&mut self) -> Adopt {
        let words = self.list("ADOPT");
        let adopt = Adopt::parse(&words).unwrap_or_else(|word| {
            self.mistake("ADOPT", format!("has {word:?}; allowed are identical, tunnel, owner=<id> and all"));
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
                self.mistake("CLUSTER_DOMAIN", format!("is {text:?}: {problem}"));
                None
            }
        }
    }

    fn api_base_url(&mut self) -> String {
        let url = self.text("CF_API_BASE_URL").unwrap_or_else(|| API_BASE_URL_DEFAULT.to_owned());
        let host = url.strip_prefix("http://").and_then(|rest| rest.split(['/', ':']).next());
        if host.is_some_and(|host| host != "localhost" && !host.starts_with("127.")) {
            self.warnings.push(format!("CF_API_BASE_URL is {url:?}: the token is sent unencrypted"));
        }
        url
    }

    fn ca_file(&mut self) -> Option<Vec<u8>> {
        let path = self.text("CF_CA_FILE")?;
        self.environment
            .read(Path::new(&path))
            .map_err(|error| {
                self.mistake("CF_CA_FILE", format!("names {path:?}, which cannot be read: {error}"))
            })
            .ok()
    }

    fn request_timeout(&mut self) -> Duration {
        let Some(text) = self.text("REQUEST_TIMEOUT") else {
            return limits::REQUEST_TIMEOUT_DEFAULT;
        };
        let seconds = text.strip_suffix('s').unwrap_or(&text).parse().map(Duration::from_secs);
        match seconds {
            Ok(timeout)
                if (limits::REQUEST_TIMEOUT_MINIMUM..=limits::REQUEST_TIMEOUT_MAXIMUM).contains(&timeout) =>
            {
                timeout
            }
            _ => {
                let (minimum, maximum) = (limits::REQUEST_TIMEOUT_MINIMUM, limits::REQUEST_TIMEOUT_MAXIMUM);
                self.mistake(
                    "REQUEST_TIMEOUT",
                    format!(
                        "is {text:?}; allowed are whole seconds from {}s to {}s",
                        minimum.as_secs(),
                        maximum.as_secs()
                    ),
                );
                limits::REQUEST_TIMEOUT_DEFAULT
            }
        }
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
            .map_err(|_| {
                self.mistake(variable, format!("is {text:?}; allowed are an IP address and localhost"))
            })
            .ok()
    }

    fn port(&mut self, variable: &'static str, default: u16) -> u16 {
        let Some(text) = self.text(variable) else {
            return default;
        };
        // Kubernetes sets NAME_PORT=tcp://… for a Service called NAME.
        if text.starts_with("tcp://") {
            self.warnings
                .push(format!("{variable}={text} was put there by Kubernetes for a Service and is ignored"));
            return default;
        }
        text.parse().unwrap_or_else(|_| {
            self.mistake(variable, format!("is {text:?}; allowed is a port from 0 to 65535"));
            default
        })
    }

    fn log_level(&mut self) -> LevelFilter {
        match self.text("LOG_LEVEL").map(|text| text.to_ascii_lowercase()).as_deref() {
            None | Some("info") => LevelFilter::Info,
            Some("error" | "fatal") => LevelFilter::Error,
            Some("warn" | "warning") => LevelFilter::Warn,
            Some("debug") => LevelFilter::Debug,
            Some("trace") => LevelFilter::Trace,
            Some(other) => {
                self.mistake(
                    "LOG_LEVEL",
                    format!("is {other:?}; allowed are error, warn, info, debug and trace"),
                );
                LevelFilter::Info
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Default)]
    struct FakeEnvironment {
        variables: BTreeMap<&'static str, &'static str>,
        files: BTreeMap<&'static str, &'static str>,
    }

    impl Environment for FakeEnvironment {
        fn variable(&self, name: &str) -> Option<String> {
            self.variables.get(name).map(ToString::to_string)
        }

        fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
            let contents = path.to_str().and_then(|path| self.files.get(path));
            contents.map(|text| text.as_bytes().to_vec()).ok_or_else(|| io::ErrorKind::NotFound.into())
        }
    }

    fn environment(variables: &[(&'static str, &'static str)]) -> FakeEnvironment {
        FakeEnvironment {
            variables: variables.iter().copied().collect(),
            files: [("/run/token", "from-a-file\n")].into(),
        }
    }

    fn read(variables: &[(&'static str, &'static str)]) -> Result<Config, Vec<Mistake>> {
        Config::read(&Arguments::default(), &environment(variables))
    }

    const MINIMUM: [(&str, &str); 2] = [("CF_API_TOKEN", "secret-token"), ("CF_TUNNEL_ID", "home")];

    fn with(variable: &'static str, value: &'static str) -> Vec<(&'static str, &'static str)> {
        MINIMUM.into_iter().chain([(variable, value)]).collect()
    }

    #[test]
    fn a_token_and_a_tunnel_are_enough() {
        let config = read(&MINIMUM).expect("the minimum");
        assert_eq!(config.api_base_url, API_BASE_URL_DEFAULT);
        assert_eq!(&*config.wanted.owner, "default");
        assert_eq!(config.api_addresses, ["127.0.0.1:8888".parse().unwrap(), "[::1]:8888".parse().unwrap()]);
        assert_eq!(config.observation_address, "[::]:8080".parse().unwrap());
        assert_eq!(config.warnings, [""; 0]);
    }

    /// Templates write `--owner-id=` where nothing is set, and a stamp without an owner is no stamp.
    #[test]
    fn an_empty_flag_is_an_absent_one() {
        let arguments = Arguments { owner_id: Some(" ".to_owned()), ..Arguments::default() };
        let environment = environment(&with("OWNER_ID", "cluster"));
        let config = Config::read(&arguments, &environment).expect("nothing is wrong");
        assert_eq!(&*config.wanted.owner, "cluster");
    }

    #[test]
    fn a_token_in_the_place_of_its_file_is_not_repeated() {
        let mistakes = read(&[("CF_API_TOKEN_FILE", "secret-token"), ("CF_TUNNEL_ID", "home")])
            .expect_err("there is no such file");
        let text = mistakes.iter().map(ToString::to_string).collect::<String>();
        assert!(text.contains("CF_API_TOKEN_FILE") && !text.contains("secret-token"), "{text}");
        let mistakes =
            read(&[("CF_API_TOKEN", "file:/run/none"), ("CF_TUNNEL_ID", "home")]).expect_err("no file");
        assert!(mistakes[0].problem.contains("/run/none"), "{mistakes:?}");
    }

    #[test]
    fn every_mistake_is_reported_at_once_and_none_with_a_secret() {
        let mistakes = read(&[
            ("CF_API_TOKEN", "secret token"),
            ("REGEXP_DOMAIN_FILTER", "(?!x)"),
            ("DOMAIN_FILTER", "example.com"),
            ("DEFAULT_SERVICE", "http://web:80/path"),
            ("ORIGIN_TLS_TIMEOUT", "500ms"),
            ("ORIGIN_IP_RULES", "10.0.0.0/8"),
            ("OWNER_ID", "an owner whose name is far too long for a comment"),
            ("OWNERSHIP", "TXT"),
            ("REQUEST_TIMEOUT", "15s"),
            ("SERVER_HOST", "nowhere"),
            ("METRICS_PORT", "70000"),
            ("LOG_LEVEL", "loud"),
            ("ALLOW_LOCAL_CONFIG", "yes"),
            ("CF_CA_FILE", "/nowhere"),
        ])
        .expect_err("everything is wrong");
        let variables: Vec<&str> = mistakes.iter().map(|mistake| mistake.variable).collect();
        assert_eq!(
            variables,
            [
                "CF_API_TOKEN",
                "CF_TUNNEL_ID",
                "REGEXP_DOMAIN_FILTER",
                "OWNER_ID",
                "OWNERSHIP",
                "DEFAULT_SERVICE",
                "ORIGIN_TLS_TIMEOUT",
                "ORIGIN_IP_RULES",
                "CF_CA_FILE",
                "REQUEST_TIMEOUT",
                "SERVER_HOST",
                "METRICS_PORT",
                "LOG_LEVEL",
                "ALLOW_LOCAL_CONFIG"
            ]
        );
        assert!(mistakes.iter().all(|mistake| !mistake.to_string().contains("secret")), "{mistakes:?}");
    }

    #[test]
    fn every_option_of_a_rule_has_a_setting_for_its_default() {
        let settings = Arguments::VARIABLES.iter().filter(|variable| variable.starts_with("ORIGIN_"));
        let settings: Vec<String> = settings.map(|variable| origin_property(variable)).collect();
        assert_eq!(settings, options::origin_property_names().collect::<Vec<_>>());
    }

    #[test]
    fn a_default_for_an_option_is_read_as_the_option_is() {
        let mut variables = with("ORIGIN_CONNECT_TIMEOUT", "1m");
        variables.push(("ORIGIN_NO_TLS_VERIFY", "false"));
        let config = read(&variables).expect("both are well-formed");
        let expected = [("connectTimeout", 60.into()), ("noTLSVerify", false.into())];
        assert_eq!(config.wanted.origin_defaults, expected);
    }

    #[test]
    fn a_mistake_in_a_default_names_the_setting_what_was_given_and_what_is_allowed() {
        for (variable, given, allowed) in [
            ("ORIGIN_CONNECT_TIMEOUT", "500ms", "30s"),
            ("ORIGIN_KEEP_ALIVE_CONNECTIONS", "many", "whole number"),
            ("ORIGIN_PROXY_PORT", "65536", "65535"),
            ("ORIGIN_NO_TLS_VERIFY", "yes", "true and false"),
            ("ORIGIN_HTTP_HOST_HEADER", "two words", "without blanks"),
            ("ORIGIN_CA_POOL", "/etc\u{7}/ca.pem", "without control"),
            ("ORIGIN_PROXY_TYPE", "http", "socks"),
            ("ORIGIN_IP_RULES", "10.0.0.0/8", "\"prefix\""),
            ("ORIGIN_IP_RULES", r#"[{"prefix":"ten","allow":true}]"#, "\"prefix\""),
        ] {
            let mistakes = read(&with(variable, given)).expect_err(given);
            let [Mistake { variable: named, problem }] = &mistakes[..] else { panic!("{mistakes:?}") };
            let shown = format!("{given:?}");
            let is_shown = problem.contains(&*shown) || problem.contains("\"ten\"");
            assert!(*named == variable && is_shown && problem.contains(allowed), "{variable} {problem}");
        }
    }

    #[test]
    fn lists_and_expressions_exclude_each_other() {
        let mut variables = with("DOMAIN_FILTER", "example.com");
        variables.push(("REGEXP_DOMAIN_FILTER_EXCLUSION", "^internal"));
        let mistakes = read(&variables).expect_err("ExternalDNS would end on both");
        assert_eq!(mistakes.len(), 1, "{mistakes:?}");
    }

    #[test]
    fn a_token_comes_from_a_file_in_both_ways() {
        for token in [("CF_API_TOKEN", "file:/run/token"), ("CLOUDFLARE_API_TOKEN_FILE", "/run/token")] {
            let config = read(&[token, ("CF_TUNNEL", "home")]).expect("the file is there");
            let expected = Secret::parse("from-a-file").expect("a well-formed secret");
            assert_eq!(config.credentials, Credentials::Token(expected), "{token:?}");
        }
    }

    #[test]
    fn a_port_that_kubernetes_put_there_is_ignored_with_a_warning() {
        let config = read(&with("SERVER_PORT", "tcp://10.0.0.1:8888")).expect("it is no mistake");
        assert_eq!(config.api_addresses.first().map(SocketAddr::port), Some(8888));
        assert_eq!(config.warnings.len(), 1);
    }

    #[test]
    fn an_api_that_others_can_reach_is_warned_of() {
        let config = read(&with("SERVER_HOST", "0.0.0.0")).expect("it is possible");
        assert_eq!(config.warnings.len(), 1);
    }

    #[test]
    fn a_token_that_would_be_sent_unencrypted_is_warned_of() {
        for (url, warnings) in
            [("http://proxy.test/client/v4", 1), ("http://127.0.0.1:1/v4", 0), ("https://proxy.test", 0)]
        {
            let config = read(&with("CF_API_BASE_URL", url)).expect("it is possible");
            assert_eq!(config.warnings.len(), warnings, "{url}");
        }
    }

    #[test]
    fn ownership_is_in_comments_unless_it_says_txt() {
        assert_eq!(read(&MINIMUM).expect("the minimum").wanted.ownership, Ownership::Comment);
        for (text, ownership) in [("comment", Ownership::Comment), ("txt", Ownership::Txt)] {
            let config = read(&with("OWNERSHIP", text)).expect("it is allowed");
            assert_eq!((config.wanted.ownership, ownership.as_str()), (ownership, text));
        }
    }

    #[test]
    fn a_flag_counts_before_the_environment() {
        let arguments = Arguments { cf_tunnel_id: Some("from-the-flag".into()), ..Arguments::default() };
        let config = Config::read(&arguments, &environment(&MINIMUM)).expect("both are well-formed");
        assert_eq!(config.wanted.tunnels, ["from-the-flag".into()]);
    }
}
