//! An object of the cluster as ExternalDNS hands it on: random, valid, and with what it asks for in words of its own.

use std::collections::BTreeSet;
use std::fmt;

use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Endpoint, Labels, Property};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use test_support::fake_cloudflare::{HOME, OFFICE, tunnel_id};

use crate::misspellings::served::{Served, ServedRule};

pub(crate) const HOSTNAME: &str = "a.example.com";

/// `DEFAULT_SERVICE`, and what it comes to for the object.
pub(crate) const DEFAULT_SERVICE: &str = "http://{name}.{namespace}.svc:80";
const DEFAULTED: &str = "http://web.shop.svc:80";
const RESOURCE: &str = "ingress/shop/web";

/// What gets `DEFAULT_SERVICE` where it names no service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defaulted {
    Nothing,
    /// A rule that is asked for by a property.
    Annotated,
    All,
}

const IP_RULES: &str = r#"[{"prefix":"10.0.0.0/8","ports":[443],"allow":true}]"#;

/// Options that limit nothing: the property's name, a text, the field and its JSON.
const OPTIONS: [(&str, &str, &str, &str); 4] = [
    ("webhook/origin-connect-timeout", "30s", "connectTimeout", "30"),
    ("webhook/origin-no-tls-verify", "true", "noTLSVerify", "true"),
    ("webhook/origin-http-host-header", "shop.local", "httpHostHeader", r#""shop.local""#),
    ("webhook/origin-keep-alive-connections", "10", "keepAliveConnections", "10"),
];

/// What ExternalDNS makes of an Ingress, a Service or a DNSEndpoint.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Object {
    pub(crate) record_type: &'static str,
    pub(crate) targets: Vec<String>,
    pub(crate) properties: Vec<(String, String)>,
}

impl fmt::Display for Object {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { record_type, targets, properties } = self;
        write!(formatter, "{record_type} {targets:?}")?;
        properties.iter().try_for_each(|(name, value)| write!(formatter, "\n    {name:?}: {value:?}"))
    }
}

impl Object {
    pub(crate) fn new(record_type: &'static str, target: &str, properties: &[(&str, &str)]) -> Self {
        Self {
            record_type,
            targets: vec![target.to_owned()],
            properties: properties
                .iter()
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .collect(),
        }
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        let properties = self.properties.iter();
        Endpoint {
            dns_name: HOSTNAME.to_owned(),
            targets: self.targets.clone(),
            record_type: self.record_type.to_owned(),
            labels: Labels::from_iter([("resource", RESOURCE)]),
            provider_specific: properties.map(|(name, value)| Property::new(&**name, &**value)).collect(),
            ..Endpoint::default()
        }
    }

    /// What it asks for, as the documents have it: what is said without a group holds for every group, the path
    /// excepted.
    pub(crate) fn asks_for(&self, defaulted: Defaulted) -> Served {
        let tunnel = match self.said("webhook/tunnel") {
            Some("false") => return Served::default(),
            Some("office") => "office",
            _ if self.target() == tunnel_id(OFFICE).hostname() => "office",
            _ => "home",
        };
        let is_service = self.target().contains("://");
        let leads_to_tunnel = self.target().ends_with(".cfargotunnel.com");
        let default = (defaulted != Defaulted::Nothing && !leads_to_tunnel).then_some(DEFAULTED);
        let is_base_asked_for =
            defaulted == Defaulted::All || self.properties.iter().any(|(name, _)| !name.contains('.'));
        let base_service = self
            .said("webhook/tunnel-service")
            .or_else(|| is_service.then(|| self.target()))
            .or_else(|| default.filter(|_| is_base_asked_for));
        let groups: BTreeSet<&str> =
            self.properties.iter().filter_map(|(name, _)| Some(name.split_once('.')?.1)).collect();
        let rule = |group: &str| {
            let own = |name: &str| self.said(&format!("{name}{group}"));
            let said = |name: &str| own(name).or_else(|| self.said(name));
            let service = own("webhook/tunnel-service")
                .or(base_service)
                .or_else(|| default.filter(|_| !group.is_empty()))?;
            let service = service.to_owned();
            let prefix = own("webhook/tunnel-path-prefix").map(|prefix| format!("^{prefix}(/|$)"));
            let path = prefix.or_else(|| own("webhook/tunnel-path").map(str::to_owned)).unwrap_or_default();
            Some(ServedRule { tunnel, path, service, origin_request: origin_request(&said) })
        };
        let base = rule("").filter(|_| groups.is_empty() || base_service.is_some());
        let of_groups = groups.iter().filter_map(|group| rule(&format!(".{group}")));
        let rules: Vec<ServedRule> = of_groups.chain(base).collect();
        let is_published = !rules.is_empty() || leads_to_tunnel;
        Served { tunnel: is_published.then_some(tunnel), rules }
    }

    fn target(&self) -> &str {
        self.targets.first().map(String::as_str).unwrap_or_default()
    }

    fn said(&self, name: &str) -> Option<&str> {
        self.properties.iter().find(|(said, _)| said == name).map(|(_, value)| &**value)
    }
}

fn origin_request<'a>(said: &dyn Fn(&str) -> Option<&'a str>) -> Value {
    let mut fields = Map::new();
    for (name, _, field, value) in OPTIONS {
        if said(name).is_some() {
            fields.insert(field.to_owned(), serde_json::from_str(value).expect("JSON"));
        }
    }
    if let Some(rules) = said("webhook/origin-ip-rules") {
        fields.insert("ipRules".to_owned(), serde_json::from_str(rules).expect("JSON"));
    }
    if said("webhook/access-required").is_some() {
        let access = json!({"required": true, "teamName": "team", "audTag": ["tag"]});
        fields.insert("access".to_owned(), access);
    }
    if fields.is_empty() { Value::Null } else { Value::Object(fields) }
}

/// What is said with one group, or without one.
#[derive(Clone, Debug)]
struct Part {
    service: Option<&'static str>,
    path: Option<(&'static str, &'static str)>,
    has_access: bool,
    has_ip_rules: bool,
    options: Vec<(&'static str, &'static str)>,
}

type Path = Option<(&'static str, &'static str)>;

fn any_part(services: &'static [&'static str], paths: Vec<Path>) -> impl Strategy<Value = Part> {
    let options: Vec<_> = OPTIONS.iter().map(|(name, text, ..)| (*name, *text)).collect();
    (
        prop::option::of(prop::sample::select(services)),
        prop::sample::select(paths),
        prop::bool::weighted(0.4),
        prop::bool::weighted(0.2),
        prop::sample::subsequence(options, 0..2),
    )
        .prop_map(|(service, path, has_access, has_ip_rules, options)| Part {
            service,
            path,
            has_access,
            has_ip_rules,
            options,
        })
}

impl Part {
    fn properties(&self, group: &str) -> Vec<(String, String)> {
        let mut said: Vec<(&str, &str)> = self.options.clone();
        said.extend(self.service.map(|service| ("webhook/tunnel-service", service)));
        said.extend(self.path);
        if self.has_access {
            said.extend([
                ("webhook/access-required", "true"),
                ("webhook/access-team-name", "team"),
                ("webhook/access-aud-tag", "tag"),
            ]);
        }
        said.extend(self.has_ip_rules.then_some(("webhook/origin-ip-rules", IP_RULES)));
        said.into_iter().map(|(name, value)| (format!("{name}{group}"), value.to_owned())).collect()
    }

    fn is_bare(&self) -> bool {
        let Self { service, path, has_access, has_ip_rules, options } = self;
        service.is_none() && path.is_none() && !has_access && !has_ip_rules && options.is_empty()
    }
}

const SERVICES: [&str; 3] = ["http://web.shop.svc:80", "https://secure.shop.svc:443", "http_status:404"];
const API_SERVICES: [&str; 2] = ["http://api.shop.svc:8080", "http://web.shop.svc:80"];

/// What an object is made of, whatever the settings.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    target: (&'static str, String),
    tunnel: Option<&'static str>,
    base: Part,
    api: Option<Part>,
    images: Option<Part>,
}

pub(crate) fn any_draft() -> impl Strategy<Value = Draft> {
    let (expression, prefix) = ("webhook/tunnel-path", "webhook/tunnel-path-prefix");
    let base =
        any_part(&SERVICES, vec![None, None, Some((expression, "^/v1(/|$)")), Some((prefix, "/base"))]);
    let api = any_part(&API_SERVICES, vec![Some((prefix, "/api")), Some((expression, "^/api/v[0-9]+/"))]);
    let images =
        any_part(&API_SERVICES, vec![Some((expression, "\\.(jpg|png)$")), Some((prefix, "/images"))]);
    let target = prop::sample::select(vec![
        ("CNAME", "http://front.shop.svc:80".to_owned()),
        ("A", "192.0.2.1".to_owned()),
        ("AAAA", "2001:db8::1".to_owned()),
        ("CNAME", tunnel_id(HOME).hostname()),
        ("CNAME", tunnel_id(OFFICE).hostname()),
        ("CNAME", "lb.example.net".to_owned()),
    ]);
    let tunnel = prop::sample::select(vec![
        None,
        None,
        None,
        Some("home"),
        Some("office"),
        Some("true"),
        Some("false"),
    ]);
    (target, tunnel, base, prop::option::of(api), prop::option::of(images))
        .prop_map(|(target, tunnel, base, api, images)| Draft { target, tunnel, base, api, images })
}

impl Draft {
    /// A valid object: it names a service where it needs one, a group of it has a path, and no two rules share one.
    pub(crate) fn object(self, defaulted: Defaulted) -> Object {
        let Self { target: (record_type, target), tunnel, mut base, api, images } = self;
        let leads_to_tunnel = target.ends_with(".cfargotunnel.com");
        let is_defaulted = match defaulted {
            Defaulted::Nothing => false,
            Defaulted::Annotated => !base.is_bare() || tunnel.is_some(),
            Defaulted::All => true,
        };
        let is_served = target.contains("://") || (is_defaulted && !leads_to_tunnel);
        let mut groups: Vec<(&str, Part)> = [(".api", api), (".images", images)]
            .into_iter()
            .filter_map(|(name, group)| Some((name, group?)))
            .collect();
        if tunnel == Some("false") {
            groups.clear();
        }
        if leads_to_tunnel && !(groups.is_empty() && base.is_bare()) {
            // The record alone has no rule that anything could go into.
            base.service.get_or_insert(SERVICES[0]);
        }
        if !is_served && !leads_to_tunnel && base.service.is_none() {
            if groups.is_empty() {
                base.service = Some(SERVICES[0]);
            }
            for (_, group) in &mut groups {
                group.service.get_or_insert(API_SERVICES[0]);
                // There is no rule that it would be the path of.
                base.path = None;
            }
        }
        let mut properties = base.properties("");
        properties.extend(groups.iter().flat_map(|(name, group)| group.properties(name)));
        // A target has said which tunnel it is.
        let tunnel = tunnel.filter(|tunnel| *tunnel == "false" || !leads_to_tunnel);
        properties.extend(tunnel.map(|tunnel| ("webhook/tunnel".to_owned(), tunnel.to_owned())));
        Object { record_type, targets: vec![target], properties }
    }
}
