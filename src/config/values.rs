//! Parses the settings that have rules of their own.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use log::{Level, LevelFilter};
use regex_lite::Regex;
use rustls::RootCertStore;

use super::proxy;
use super::reader::Reader;
use crate::cloudflare::{self, BaseUrl, CREATE_TOKEN, Credentials, Proxy};
use crate::ingress::origin_option::{Mistake, check_absolute};
use crate::ingress::path::scanner;
use crate::ingress::{OriginOption, OriginRequest, Service};
use crate::limits;
use crate::model::domain_filter::DomainFilter;
use crate::model::text::{one_line, quoted};
use crate::model::{AccountId, Hostname};
use crate::reconcile::access::wanted;
use crate::reconcile::adopt::{self, Adopt};
use crate::reconcile::permitted;
use crate::reconcile::service_template::ServiceTemplate;
use crate::reconcile::settings::{EVERY_NAMESPACE, NamespaceDomain};
use crate::reconcile::stamp;
use crate::regular_file;

/// The longest owner id, percent-encoded. A longer one would leave too little room for digests in a comment.
const OWNER_ID_MAX_BYTES: usize = 40;

/// The longest name of a tunnel at Cloudflare. The token that `cloudflared` runs with is longer.
const TUNNEL_NAME_MAX_BYTES: usize = 128;

/// The largest `CF_CA_FILE`: four times the size of all of Mozilla's authorities.
const CA_FILE_MAX_BYTES: u64 = 1024 * 1024;

/// A longer grace must be a mistake in the unit, because no change takes so long to reach Cloudflare's edge.
pub(super) const MOVE_GRACE_MAX: Duration = Duration::from_secs(3600);

impl<'a> Reader<'a> {
    pub(super) fn account(&mut self) -> Option<AccountId> {
        let ids = self.identifiers("CF_ACCOUNT_ID");
        if ids.len() > 1 {
            self.mistake("CF_ACCOUNT_ID", "names several accounts: name only the account of the tunnels");
        }
        ids.first().copied().map(AccountId::new)
    }

    /// The credentials, the name of their variable, and their file.
    pub(super) fn credentials(&mut self) -> Option<(Credentials, &'static str, Option<PathBuf>)> {
        let variables = ["CF_API_TOKEN", "CF_API_TOKEN_FILE", "CF_API_KEY", "CF_API_KEY_FILE"];
        let given = variables.map(|variable| Some((variable, self.text(variable)?)));
        let email = self.parsed("CF_API_EMAIL", |email| {
            let is_visible = email.bytes().all(|byte| byte.is_ascii_graphic());
            if is_visible { Ok(email) } else { Err("an email address has only visible ASCII characters") }
        });
        let mut given = given.into_iter().flatten();
        let Some((variable, text)) = given.next() else {
            self.mistake("CF_API_TOKEN", format_args!("is missing: {CREATE_TOKEN}"));
            return None;
        };
        if let Some((other, _)) = given.next() {
            let (name, other) = (self.name(variable), self.name(other));
            self.mistake(variable, format_args!("and {other} are both set; keep {name}"));
        }
        let read = self.secret(variable, text);
        let begins_with =
            |prefix: &str| read.as_ref().is_some_and(|(secret, _)| secret.expose().starts_with(prefix));
        let email = if variable.starts_with("CF_API_TOKEN") {
            if begins_with("cfk_") {
                self.mistake(variable, "holds a key (cfk_): its place is CF_API_KEY");
            } else if begins_with("cfat_") && self.text("CF_ACCOUNT_ID").is_none() {
                let problem = "is missing: a token of an account (cfat_) works only together with the id of \
                     that account";
                self.mistake("CF_ACCOUNT_ID", problem);
            }
            None
        } else {
            if let Some(prefix) = ["cfut_", "cfat_"].into_iter().find(|prefix| begins_with(prefix)) {
                self.mistake(variable, format_args!("holds a token ({prefix}): its place is CF_API_TOKEN"));
            }
            if self.text("CF_API_EMAIL").is_none() {
                self.mistake("CF_API_EMAIL", "is missing beside CF_API_KEY");
            }
            Some(email?.into())
        };
        let (secret, file) = read?;
        Some((Credentials { secret, email }, self.name(variable), file))
    }

    pub(super) fn tunnels(&mut self) -> Vec<Box<str>> {
        let tunnels = self.list("CF_TUNNEL_ID");
        // If a tunnel does not exist, /readyz names it later.
        if tunnels.is_empty() {
            let problem = "is missing: the id or the name of the tunnel that hostnames are published through";
            self.mistake("CF_TUNNEL_ID", problem);
        } else if tunnels.iter().any(|tunnel| tunnel.len() > TUNNEL_NAME_MAX_BYTES) {
            let problem = "has an entry that is too long for an id or a name: is it the token that \
                 cloudflared runs with?";
            self.mistake("CF_TUNNEL_ID", problem);
        }
        tunnels.into_iter().map(Into::into).collect()
    }

    pub(super) fn domain_filter(&mut self) -> DomainFilter {
        let (include, exclude) = (self.domains("DOMAIN_FILTER"), self.domains("EXCLUDE_DOMAIN_FILTER"));
        let expressions =
            (self.expression("REGEXP_DOMAIN_FILTER"), self.expression("REGEXP_DOMAIN_FILTER_EXCLUSION"));
        let (None, None) = expressions else {
            if !include.is_empty() || !exclude.is_empty() {
                self.mistake(
                    "REGEXP_DOMAIN_FILTER",
                    "or its _EXCLUSION is set beside DOMAIN_FILTER or EXCLUDE_DOMAIN_FILTER: keep the \
                     expressions or the lists",
                );
            }
            return DomainFilter::Expressions { include: expressions.0, exclude: expressions.1 };
        };
        DomainFilter::lists(include, exclude)
    }

    fn domains(&mut self, variable: &str) -> Vec<&'a str> {
        // No zone has a name of one part, and a filter `example,com` would include all names below `com`.
        self.list_of(variable, |text| check_domain(text, variable == "DOMAIN_FILTER").map(|()| text))
    }

    /// Both Go and this program have to accept the expression, because one that Go rejects would end ExternalDNS.
    fn expression(&mut self, variable: &str) -> Option<Regex> {
        self.parsed(variable, |text| {
            scanner::check(text)?;
            Regex::new(text).map_err(|error| error.to_string())
        })
    }

    pub(super) fn owner(&mut self) -> Box<str> {
        let owner = self.parsed("OWNER_ID", |owner| match stamp::encode(owner).len() {
            length if length > OWNER_ID_MAX_BYTES => Err(format!(
                "it has {length} bytes when percent-encoded, and a record's comment has room for {OWNER_ID_MAX_BYTES}"
            )),
            // `ADOPT` of another instance has to name the owner, in a list.
            _ if owner.contains(adopt::QUOTATION_MARKS) || owner.contains(',') => {
                Err("an owner must not contain quotation marks or commas".to_owned())
            }
            _ => Ok(owner),
        });
        owner.unwrap_or_default().into()
    }

    pub(super) fn default_service(&mut self, own_addresses: &[SocketAddr]) -> Option<ServiceTemplate> {
        self.parsed("DEFAULT_SERVICE", |text| {
            let template = ServiceTemplate::parse(text)?;
            // Each object's service is checked again when its endpoint is read.
            let service = Service::parse(text).ok();
            let problem = service.and_then(|service| permitted::own_port_problem(&service, own_addresses));
            problem.map_or(Ok(template), Err)
        })
    }

    pub(super) fn publish_all(&mut self) -> bool {
        let is_all = self.is_first("PUBLISH", ["all", "annotated"]);
        if is_all && self.text("DEFAULT_SERVICE").is_none() {
            self.mistake("PUBLISH", "is \"all\", which needs DEFAULT_SERVICE: set it");
        }
        is_all
    }

    pub(super) fn ca_pools(&mut self) -> Vec<Box<str>> {
        self.list_of("ORIGIN_CA_POOLS", |path| check_absolute(path).map(|()| path.into()))
    }

    pub(super) fn origin_defaults(&mut self) -> OriginRequest {
        let text_of = |property: &str| self.text(OriginOption::of(property)?.setting());
        OriginRequest::read(&text_of, &OriginRequest::default()).unwrap_or_else(|bad| {
            for Mistake { subject, problem } in bad {
                let setting = OriginOption::of(&subject).map_or(&*subject, |option| option.setting());
                self.mistake(setting, one_line(&problem, limits::ERROR_TEXT_MAX_CHARS));
            }
            OriginRequest::default()
        })
    }

    pub(super) fn adopt(&mut self) -> Adopt {
        Adopt::parse(&self.list("ADOPT")).unwrap_or_else(|word| {
            let allowed = "allowed are tunnel, access, owner=<id> and all";
            self.mistake("ADOPT", format_args!("has {}: {allowed}", quoted(word)));
            Adopt::default()
        })
    }

    pub(super) fn shared_services(&mut self) -> Vec<Service> {
        self.only_with_guard("SHARED_SERVICES");
        self.list_of("SHARED_SERVICES", |text| match Service::parse(text) {
            Ok(service) if service.host_and_port().is_some() => Ok(service),
            Ok(_) => Err("allowed are services with a host, such as http://name.namespace.svc:80".to_owned()),
            Err(error) => Err(error),
        })
    }

    pub(super) fn namespace_domains(&mut self) -> Vec<NamespaceDomain> {
        self.only_with_guard("NAMESPACE_DOMAINS");
        self.list_of("NAMESPACE_DOMAINS", |text| {
            let pair = text.split_once('=').filter(|(namespace, _)| is_namespace(namespace));
            let (namespace, domain) =
                pair.ok_or("allowed are pairs such as shop=shop.example.com, and * for all")?;
            let entry = NamespaceDomain { namespace: namespace.into(), domain: domain.into() };
            check_domain(&entry.domain_of("x"), true).map(|()| entry)
        })
    }

    /// Refuses a setting of the guard if the guard is off, because such a setting makes the guard look switched on.
    fn only_with_guard(&mut self, variable: &str) {
        if self.text(variable).is_some() && self.text("NAMESPACE_GUARD") != Some("true") {
            self.mistake(variable, "has no effect without NAMESPACE_GUARD=true: set both, or neither");
        }
    }

    pub(super) fn cluster_domain(&mut self) -> Box<str> {
        let domain = self.parsed("CLUSTER_DOMAIN", |text| match Hostname::parse(text) {
            Ok(domain) if domain.is_wildcard() => Err("a domain has no wildcard".to_owned()),
            domain => domain,
        });
        domain.map(|domain| domain.as_str().into()).unwrap_or_default()
    }

    /// The policies of `DEFAULT_ACCESS_POLICY`; `none` is no policy.
    pub(super) fn default_access_policy(&mut self) -> Vec<Box<str>> {
        let names = self.parsed("DEFAULT_ACCESS_POLICY", wanted::names);
        names.flatten().into_iter().flatten().map(Into::into).collect()
    }

    pub(super) fn access_policies(&mut self) -> Option<Vec<Box<str>>> {
        let listed = self.list("ACCESS_POLICIES");
        (!listed.is_empty()).then(|| listed.into_iter().map(Into::into).collect())
    }

    /// The API's address, and the proxy to it.
    pub(super) fn api_base_url(&mut self) -> Option<(BaseUrl, Option<Proxy>)> {
        let url = self.text("CF_API_BASE_URL").unwrap_or_default();
        match BaseUrl::parse(url) {
            Ok(target) => {
                if !target.is_https && !target.is_loopback {
                    let given = quoted(url);
                    self.warnings.push(format!("CF_API_BASE_URL is {given}: the token is sent unencrypted"));
                }
                let proxy = proxy::proxy(&target, self.variables);
                return proxy
                    .map(|proxy| (target, proxy))
                    .map_err(|mistake| self.mistakes.push(mistake))
                    .ok();
            }
            // The URL may contain a password or a token, so it is not shown.
            Err(error) if url.contains(['@', '?', '#']) => {
                self.mistake("CF_API_BASE_URL", format_args!("is wrong: {error}"));
            }
            Err(error) => self.wrong("CF_API_BASE_URL", url, error),
        }
        None
    }

    /// The trusted certificate authorities; `None` after a mistake.
    pub(super) fn roots(&mut self) -> Option<RootCertStore> {
        if self.text("CF_CA_FILE").is_none() {
            return cloudflare::roots(None).ok();
        }
        self.parsed("CF_CA_FILE", |path| {
            let pem = regular_file::read(Path::new(path), CA_FILE_MAX_BYTES)
                .map_err(|error| format!("it cannot be read: {error}"))?;
            cloudflare::roots(Some(&pem)).map_err(|error| format!("it is invalid: {error}"))
        })
    }

    pub(super) fn api_addresses(&mut self) -> Vec<SocketAddr> {
        let (hosts, port) = (self.hosts("SERVER_HOST"), self.number("SERVER_PORT", PORT));
        if hosts.iter().any(|host| !host.is_loopback()) {
            self.warnings.push(
                "SERVER_HOST is not a loopback address: every client of the port can publish and delete \
                 hostnames, as ExternalDNS's protocol has no authentication; leave SERVER_HOST out, or let \
                 only ExternalDNS reach the port"
                    .to_owned(),
            );
        }
        hosts.into_iter().map(|host| SocketAddr::new(host, port)).collect()
    }

    pub(super) fn metrics_address(&mut self) -> SocketAddr {
        let (hosts, port) = (self.hosts("METRICS_HOST"), self.number("METRICS_PORT", PORT));
        SocketAddr::new(hosts.first().copied().unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED)), port)
    }

    /// Refuses one port for both listeners at one address. The kernel chooses another port for each port 0.
    pub(super) fn refuse_equal_ports(&mut self, api: &[SocketAddr], metrics: SocketAddr) {
        let is_shared = |api: &SocketAddr| {
            let is_any = api.ip().is_unspecified() || metrics.ip().is_unspecified();
            api.port() == metrics.port() && (is_any || api.ip() == metrics.ip())
        };
        if metrics.port() != 0 && api.iter().any(is_shared) {
            let problem = format!("and METRICS_PORT are equal ({}): set two ports", metrics.port());
            self.mistake("SERVER_PORT", problem);
        }
    }

    pub(super) fn log_level(&mut self) -> LevelFilter {
        let level = self.parsed("LOG_LEVEL", |text| {
            text.parse::<Level>().map_err(|_| "allowed are error, warn, info, debug and trace")
        });
        level.map_or(LevelFilter::Info, |level| level.to_level_filter())
    }
}

const PORT: &str = "a port from 0 to 65535";

/// `needs_dot` is true if a name of one part, such as `com`, is a mistake.
fn check_domain(text: &str, needs_dot: bool) -> Result<(), &'static str> {
    let (name, is_below) = text.strip_prefix('.').map_or((text, false), |name| (name, true));
    match Hostname::parse(name) {
        Ok(name) if !name.is_wildcard() && (is_below || !needs_dot || name.as_str().contains('.')) => Ok(()),
        _ => Err("allowed are names such as example.com, which stands for all names below it too, and \
                  .example.com or .com, which stand for those alone"),
    }
}

/// True for `*`, and for a text of the characters that the name of a namespace may have.
fn is_namespace(text: &str) -> bool {
    let is_label = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    text == EVERY_NAMESPACE || !text.is_empty() && text.bytes().all(is_label)
}
