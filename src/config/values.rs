//! Parses each setting's value.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use log::LevelFilter;
use regex_lite::Regex;

use super::sources::SettingsReader;
use super::{API_BASE_URL_DEFAULT, proxy};
use crate::cloudflare::{self, BaseUrl, Credentials, MAKE_TOKEN, Proxy};
use crate::ingress::{OriginOption, OriginRequest, PathPattern, Service};
use crate::limits;
use crate::logging::Format;
use crate::model::domain_filter::DomainFilter;
use crate::model::text::{one_line, quoted};
use crate::model::{AccountId, Hostname};
use crate::reconcile::access::wish;
use crate::reconcile::adopt::Adopt;
use crate::reconcile::namespace::NamespaceGuard;
use crate::reconcile::permitted::{self, OwnPort};
use crate::reconcile::service_template::ServiceTemplate;
use crate::reconcile::stamp;

const SERVER_PORT_DEFAULT: u16 = 8888;
const METRICS_PORT_DEFAULT: u16 = 8080;
const OWNER_ID_DEFAULT: &str = "default";
const CLUSTER_DOMAIN_DEFAULT: &str = "cluster.local";

/// Has the prefix of the options' defaults, but is not one of them.
pub(super) const CA_POOLS: &str = "ORIGIN_CA_POOLS";

/// An owner id longer than this, percent-encoded, would leave too little room for digests.
const OWNER_ID_MAX_BYTES: usize = 40;

/// The length of a tunnel's name at Cloudflare. The token that `cloudflared` runs with is longer.
const TUNNEL_NAME_MAX_BYTES: usize = 128;

/// The size of `CF_CA_FILE`: four times that of all of Mozilla's authorities.
const CA_FILE_MAX_BYTES: u64 = 1024 * 1024;

/// The time that records and configurations may take to reach the edge. Until it is over, the rules that a hostname
/// leaves behind stay.
const MOVE_GRACE_DEFAULT: Duration = Duration::from_secs(30);

/// A longer grace would be a mistake in the unit, because nothing takes so long to reach the edge.
const MOVE_GRACE_MAXIMUM: Duration = Duration::from_secs(3600);

impl SettingsReader<'_> {
    pub(super) fn account(&mut self) -> Option<AccountId> {
        let ids = self.identifiers("CF_ACCOUNT_ID");
        if ids.len() > 1 {
            self.mistake(
                "CF_ACCOUNT_ID",
                "names several accounts; allowed is the one that the tunnels are in",
            );
        }
        ids.into_iter().next().map(AccountId::new)
    }

    pub(super) fn credentials(&mut self) -> Option<Credentials> {
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

    pub(super) fn tunnels(&mut self, credentials: Option<&Credentials>) -> Vec<Box<str>> {
        let tunnels: Vec<Box<str>> = self.list("CF_TUNNEL_ID").into_iter().map(Into::into).collect();
        if tunnels.is_empty() {
            self.mistake(
                "CF_TUNNEL_ID",
                "is missing: the id or the name of the tunnel that hostnames are published through",
            );
        }
        if tunnels.iter().any(|tunnel| tunnel.len() > TUNNEL_NAME_MAX_BYTES) {
            // A tunnel that is not found is named to whoever reads /readyz.
            self.mistake(
                "CF_TUNNEL_ID",
                "has an entry that is too long for an id or a name: is it the token that cloudflared runs with?",
            );
        }
        if let Some(credentials) = credentials
            && tunnels.iter().any(|tunnel| **tunnel == *credentials.secret().expose())
        {
            self.mistake("CF_TUNNEL_ID", "is the token or key; allowed is the id or the name of a tunnel");
        }
        tunnels
    }

    pub(super) fn domain_filter(&mut self) -> DomainFilter {
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

    pub(super) fn domains(&mut self, variable: &'static str) -> Vec<String> {
        let domains = self.list(variable);
        let is_domain = |text: &&String| {
            let domain = Hostname::parse(text.strip_prefix('.').unwrap_or(text));
            // No zone has a name of one part, and `example,com` would serve everything below `com`.
            let is_zones = |domain: &Hostname| text.starts_with('.') || domain.as_str().contains('.');
            let is_enough = |domain: &Hostname| variable != "DOMAIN_FILTER" || is_zones(domain);
            domain.is_ok_and(|domain| !domain.is_wildcard() && is_enough(&domain))
        };
        if let Some(other) = domains.iter().find(|domain| !is_domain(domain)) {
            self.mistake(
                variable,
                format!(
                    "has {}; allowed are names such as example.com, which stands for all names below it too, and \
                     .example.com or .com, which stand for those alone",
                    quoted(other)
                ),
            );
        }
        domains
    }

    /// Both Go and this program have to accept the expression; one that Go cannot read would end ExternalDNS.
    pub(super) fn expression(&mut self, variable: &'static str) -> Option<Regex> {
        let text = self.text(variable)?;
        let compiled = PathPattern::parse(&text)
            .map_err(|error| error.to_string())
            .and_then(|_| Regex::new(&text).map_err(|error| error.to_string()));
        compiled.map_err(|problem| self.mistake(variable, format!("is {}: {problem}", quoted(&text)))).ok()
    }

    pub(super) fn owner(&mut self) -> Box<str> {
        let owner = self.text("OWNER_ID").unwrap_or_else(|| OWNER_ID_DEFAULT.to_owned());
        let length = stamp::encode(&owner).len();
        if length > OWNER_ID_MAX_BYTES {
            self.mistake(
                "OWNER_ID",
                format!(
                    "is {}, {length} bytes when percent-encoded; a record's comment has room for {}",
                    quoted(&owner),
                    OWNER_ID_MAX_BYTES
                ),
            );
        }
        owner.into()
    }

    pub(super) fn default_service(&mut self, own_addresses: &[SocketAddr]) -> Option<ServiceTemplate> {
        let text = self.text("DEFAULT_SERVICE")?;
        let template = ServiceTemplate::parse(&text)
            .map_err(|error| self.mistake("DEFAULT_SERVICE", format!("is {}: {error}", quoted(&text))))
            .ok()?;
        // The service of each object is checked again there.
        let own_port =
            Service::parse(&text).ok().and_then(|service| permitted::own_port(&service, own_addresses));
        if let Some(port) = own_port {
            self.mistake("DEFAULT_SERVICE", format!("is {}: {}", quoted(&text), OwnPort(port)));
        }
        Some(template)
    }

    pub(super) fn publish_all(&mut self) -> bool {
        let is_all = self.is_first("PUBLISH", ["all", "annotated"], false);
        if is_all && self.text("DEFAULT_SERVICE").is_none() {
            self.mistake("PUBLISH", "is \"all\", and DEFAULT_SERVICE, the service for all, is missing");
        }
        is_all
    }

    pub(super) fn ca_pools(&mut self) -> Vec<Box<str>> {
        let paths = self.list(CA_POOLS);
        if let Some(other) =
            paths.iter().find(|path| !path.starts_with('/') || path.chars().any(char::is_control))
        {
            self.not_a_path(CA_POOLS, other);
        }
        paths.into_iter().map(Into::into).collect()
    }

    /// Relative paths would depend on where cloudflared was started.
    fn not_a_path(&mut self, variable: &'static str, path: &str) {
        self.wrong(variable, path, "are absolute paths such as /etc/ca.pem, without control characters");
    }

    pub(super) fn origin_defaults(&mut self) -> OriginRequest {
        let default = |option: OriginOption| {
            let text = self.text(option.setting())?;
            if option == OriginOption::CaPool && !text.starts_with('/') {
                self.not_a_path(option.setting(), &text);
                return None;
            }
            option.parse(&text).unwrap_or_else(|problem| {
                self.mistake(option.setting(), one_line(&problem, limits::ERROR_TEXT_MAX_CHARS).to_string());
                None
            })
        };
        OriginOption::all().filter_map(default).collect()
    }

    pub(super) fn adopt(&mut self) -> Adopt {
        let words = self.list("ADOPT");
        let adopt = Adopt::parse(&words).unwrap_or_else(|word| {
            let given = quoted(word);
            self.mistake("ADOPT", format!("has {given}; allowed are tunnel, access, owner=<id> and all"));
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

    pub(super) fn namespace_guard(&mut self) -> Option<NamespaceGuard> {
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

    /// The policies of `DEFAULT_ACCESS_POLICY`; `none` is the default, and no policy.
    pub(super) fn default_access_policy(&mut self) -> Vec<Box<str>> {
        let Some(text) = self.text("DEFAULT_ACCESS_POLICY") else {
            return Vec::new();
        };
        match wish::names(&text) {
            Ok(names) => names.into_iter().flatten().map(Into::into).collect(),
            Err(problem) => {
                self.mistake("DEFAULT_ACCESS_POLICY", format!("is {}: {problem}", quoted(&text)));
                Vec::new()
            }
        }
    }

    pub(super) fn access_policies(&mut self) -> Option<Vec<Box<str>>> {
        let listed = self.list("ACCESS_POLICIES");
        (!listed.is_empty()).then(|| listed.into_iter().map(Into::into).collect())
    }

    pub(super) fn access_opt_out(&mut self) -> bool {
        self.is_first("ACCESS_OPT_OUT", ["true", "false"], true)
    }

    /// The API's address, and the proxy to it.
    pub(super) fn api_base_url(&mut self) -> (String, Option<Proxy>) {
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
                // It may contain a password or a token.
                let given =
                    if url.contains(['@', '?', '#']) { "wrong".to_owned() } else { quoted(&url).to_string() };
                self.mistake("CF_API_BASE_URL", format!("is {given}: {error}"));
            }
        }
        (url, proxy)
    }

    pub(super) fn ca_file(&mut self) -> Option<Vec<u8>> {
        let path = self.text("CF_CA_FILE")?;
        let pem = self
            .environment
            .read(Path::new(&path), CA_FILE_MAX_BYTES)
            .map_err(|error| format!("cannot be read: {error}"));
        pem.and_then(|pem| match cloudflare::check_authorities(&pem) {
            Ok(()) => Ok(pem),
            Err(error) => Err(format!("is invalid: {error}")),
        })
        .map_err(|problem| self.mistake("CF_CA_FILE", format!("names {}, which {problem}", quoted(&path))))
        .ok()
    }

    pub(super) fn mass_deletion_limit(&mut self) -> usize {
        let Some(text) = self.text("MASS_DELETION_LIMIT") else {
            return limits::MASS_DELETION_LIMIT_DEFAULT;
        };
        text.parse().unwrap_or_else(|_| {
            self.wrong("MASS_DELETION_LIMIT", &text, "is a whole number, and 0 to withhold no deletion");
            limits::MASS_DELETION_LIMIT_DEFAULT
        })
    }

    pub(super) fn request_timeout(&mut self) -> Duration {
        let allowed = limits::REQUEST_TIMEOUT_MINIMUM..=limits::REQUEST_TIMEOUT_MAXIMUM;
        self.seconds("REQUEST_TIMEOUT", limits::REQUEST_TIMEOUT_DEFAULT, allowed)
    }

    pub(super) fn move_grace(&mut self) -> Duration {
        let allowed = Duration::ZERO..=MOVE_GRACE_MAXIMUM;
        self.seconds("MOVE_GRACE", MOVE_GRACE_DEFAULT, allowed)
    }

    pub(super) fn api_addresses(&mut self) -> Vec<SocketAddr> {
        let port = self.port("SERVER_PORT", SERVER_PORT_DEFAULT);
        let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        let hosts = match self.text("SERVER_HOST").as_deref() {
            None | Some("localhost") => loopback.to_vec(),
            Some(text) => self.address("SERVER_HOST", text).into_iter().collect(),
        };
        if hosts.iter().any(|host| !host.is_loopback()) {
            self.warnings.push(
                "SERVER_HOST is not a loopback address: whoever reaches the port can publish and delete hostnames, as \
                 ExternalDNS's protocol has no authentication; leave SERVER_HOST out, or let only ExternalDNS reach the \
                 port"
                    .to_owned(),
            );
        }
        hosts.into_iter().map(|host| SocketAddr::new(host, port)).collect()
    }

    pub(super) fn observation_address(&mut self) -> SocketAddr {
        let port = self.port("METRICS_PORT", METRICS_PORT_DEFAULT);
        let host = match self.text("METRICS_HOST").as_deref() {
            None => None,
            Some("localhost") => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            Some(text) => self.address("METRICS_HOST", text),
        };
        SocketAddr::new(host.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED)), port)
    }

    pub(super) fn log_format(&mut self) -> Format {
        let is_text = self.is_first("LOG_FORMAT", ["text", "json"], true);
        if is_text { Format::Text } else { Format::Json }
    }

    pub(super) fn log_level(&mut self) -> LevelFilter {
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
