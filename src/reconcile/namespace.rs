//! `NAMESPACE_GUARD`: an object may publish only services of its own namespace, and hostnames that no other namespace
//! has. Published records and rules determine the namespace that has a hostname; no request does.

use std::collections::BTreeSet;

use crate::collections::collect;
use crate::ingress::origin_option::Mistake;
use crate::ingress::{OriginOption, Service, is_status};
use crate::model::Hostname;
use crate::model::domain_filter;
use crate::reconcile::canonical::Publication;
use crate::reconcile::heritage;
use crate::reconcile::settings::EVERY_NAMESPACE;
use crate::reconcile::snapshot::Snapshot;
use crate::reconcile::stamp::{NamespaceCode, Stamp};
use crate::reconcile::{OperatorSettings, Settings};

/// Options that choose the host behind a shared service, which may be another tenant's.
const HOST_OPTIONS: [OriginOption; 2] = [OriginOption::HttpHostHeader, OriginOption::ServerName];

/// The reason why no object of the namespace may publish the hostname. A wildcard is in a domain if all names that
/// it matches are.
fn hostname_problem(operator: &OperatorSettings, name: &str, namespace: &str) -> Option<String> {
    let entries = &operator.namespace_domains;
    let is_of = |one: &str| one == EVERY_NAMESPACE || one == namespace;
    let entries_of = entries.iter().filter(|entry| is_of(&entry.namespace));
    let domains: Vec<String> = entries_of.map(|entry| entry.domain_of(namespace)).collect();
    if entries.is_empty() || domains.iter().any(|domain| domain_filter::entry_matches(domain, name)) {
        return None;
    }
    Some(match &domains[..] {
        [] => "has no domain for this namespace, so its objects publish nothing".to_owned(),
        _ => format!("lets objects of this namespace publish only {}", domains.join(", ")),
    })
}

/// The reason why the object of `resource` and `namespace` may not publish `publication`. Only listed forms are
/// allowed, so every new form is refused.
fn service_problem(
    operator: &OperatorSettings,
    publication: &Publication,
    resource: &str,
    namespace: &str,
) -> Option<String> {
    let Some(rule) = &publication.rule else {
        // Visitors of the record would reach the first rule of the tunnel that matches.
        return Some(allowed(operator, namespace));
    };
    let options = &rule.origin_request;
    // With these options, the visitor chooses the address to which cloudflared connects.
    if options.is_on(OriginOption::BastionMode) || options.text(OriginOption::ProxyType).is_some() {
        return Some(allowed(operator, namespace));
    }
    let service = rule.service.as_str();
    if is_status(service) || namespace_of_service(operator, service).as_deref() == Some(namespace) {
        return None;
    }
    if !is_shared(operator, &rule.service) && !is_default(operator, &rule.service, resource) {
        return Some(allowed(operator, namespace));
    }
    let defaults = &operator.origin_defaults;
    let chosen = HOST_OPTIONS.into_iter().find(|option| options.text(*option) != defaults.text(*option));
    chosen.map(|option| {
        let property = option.property();
        format!(
            "is on, and {property} would choose another object's host behind the shared service: remove it"
        )
    })
}

/// The namespace of a service, if the service has the form that the guard allows.
fn namespace_of_service(operator: &OperatorSettings, service: &str) -> Option<String> {
    let (_, authority) = service.split_once("://")?;
    // An address in brackets has no label `svc`.
    let host = authority.split(':').next().unwrap_or_default().to_ascii_lowercase();
    let mut labels = host.splitn(4, '.');
    let (name, namespace, kind) = (labels.next()?, labels.next()?, labels.next()?);
    let domain = labels.next().map(|domain| domain.strip_suffix('.').unwrap_or(domain));
    let is_whole = !name.is_empty() && kind == "svc";
    (is_whole && domain.is_none_or(|domain| *domain == *operator.cluster_domain))
        .then(|| namespace.to_owned())
}

/// True if the operator lets every namespace publish the service.
fn is_shared(operator: &OperatorSettings, service: &Service) -> bool {
    operator.shared_services.iter().any(|shared| reach_same_address(operator, shared, service))
}

/// True if the service is the object's default service, and does not depend on the object's name.
fn is_default(operator: &OperatorSettings, service: &Service, resource: &str) -> bool {
    let template = operator.default_service.as_ref().filter(|template| !template.has_name());
    let default = template.and_then(|template| Service::parse(&template.fill(resource)).ok());
    default.is_some_and(|default| reach_same_address(operator, &default, service))
}

fn reach_same_address(operator: &OperatorSettings, one: &Service, other: &Service) -> bool {
    address(operator, one).is_some_and(|one| address(operator, other) == Some(one))
}

/// Scheme, host and port of a service, in one spelling; `None` if it has no host.
fn address<'s>(operator: &OperatorSettings, service: &'s Service) -> Option<(&'s str, String, u16)> {
    let (scheme, _) = service.as_str().split_once("://")?;
    let (host, port) = service.host_and_port()?;
    let host = host.to_ascii_lowercase();
    let host = host.strip_suffix('.').unwrap_or(&host);
    let local = host.strip_suffix(&*operator.cluster_domain).and_then(|rest| rest.strip_suffix('.'));
    Some((scheme, local.filter(|local| local.ends_with(".svc")).unwrap_or(host).to_owned(), port))
}

/// Describes, for a message, what objects of `namespace` may publish.
fn allowed(operator: &OperatorSettings, namespace: &str) -> String {
    let domain = &operator.cluster_domain;
    format!(
        "is on, and an object of this namespace may publish only http_status:<code>, \
         <scheme>://<service>.{namespace}.svc[.{domain}][:<port>] and what SHARED_SERVICES and DEFAULT_SERVICE name, \
         without origin-bastion-mode and origin-proxy-type"
    )
}

/// The mistake if the guard forbids a publication to the object of a `resource` label. The mistake is found before
/// planning, so the object's other rules wait in every loop, whichever rule ExternalDNS asks for.
pub fn mistake(publication: &Publication, resource: Option<&str>, settings: &Settings) -> Option<Mistake> {
    let operator = &settings.operator;
    if !operator.namespace_guard {
        return None;
    }
    let Some((resource, namespace)) = resource.and_then(|resource| Some((resource, namespace_of(resource)?)))
    else {
        let problem = "is on, and the endpoint has no resource label kind/namespace/name, so its namespace \
             is not known";
        return Some(Mistake::new("NAMESPACE_GUARD", problem));
    };
    let hostname = hostname_problem(operator, publication.hostname.as_str(), namespace);
    let hostname = hostname.map(|problem| Mistake::new("NAMESPACE_DOMAINS", problem));
    let service = || service_problem(operator, publication, resource, namespace);
    hostname.or_else(|| service().map(|problem| Mistake::new("NAMESPACE_GUARD", problem)))
}

/// The namespace in a `resource` label such as `ingress/shop/web`.
pub fn namespace_of(resource: &str) -> Option<&str> {
    let mut parts = resource.split('/');
    let (kind, namespace, name) = (parts.next()?, parts.next()?, parts.next()?);
    let is_whole = parts.next().is_none() && [kind, namespace, name].iter().all(|part| !part.is_empty());
    is_whole.then_some(namespace)
}

/// What stamps and rules tell about the namespace that has a hostname.
#[derive(Debug)]
pub enum Holder {
    /// No namespace has the hostname, because each of its stamps is released, or it has none.
    Free,
    /// The namespace that a stamp names, or else the one namespace of all services of the hostname's rules.
    Namespace(NamespaceCode),
    /// No stamp names a namespace, and the services are not of one namespace. The namespaces of these services.
    Unclear(Vec<String>),
}

impl Holder {
    /// The namespace that has the hostname, if it is known.
    pub fn namespace(self) -> Option<NamespaceCode> {
        if let Self::Namespace(namespace) = self { Some(namespace) } else { None }
    }
}

/// The namespace that has a hostname. A stamp for rules of several objects names no namespace if it was written without
/// the guard. A request does not count, because any namespace may ask for the path of an answer such as
/// `http_status:503`.
pub fn holder(name: &str, snapshot: &Snapshot) -> Holder {
    let mut stamps = snapshot.stamps_of(name);
    stamps.retain(|stamp| !stamp.claims.is_released);
    if let Some(namespace) = stamps.iter().find_map(of_stamp) {
        return Holder::Namespace(namespace);
    }
    let hostname = Hostname::parse(name).ok();
    let operator = snapshot.operator();
    let rules = stamps.iter().filter_map(|stamp| Some(snapshot.rules_claimed_by(hostname.as_ref()?, stamp)));
    let tells = |service: &&str| {
        !is_status(service) && !Service::parse(service).is_ok_and(|service| is_shared(operator, &service))
    };
    let services = rules.flatten().map(|(_, rule)| rule.service()).filter(tells);
    let namespaces: BTreeSet<Option<String>> =
        collect(services.map(|service| namespace_of_service(operator, service)));
    match namespaces.first() {
        None if stamps.is_empty() => Holder::Free,
        Some(Some(namespace)) if namespaces.len() == 1 => Holder::Namespace(NamespaceCode::of(namespace)),
        _ => Holder::Unclear(namespaces.into_iter().flatten().collect()),
    }
}

/// The namespace that may have a hostname: the namespace that has it. For a free hostname, the namespace of the object
/// that ExternalDNS's TXT record of the hostname names, or else that of the first of `objects`. `registry_names`
/// are the names of such TXT records in the request.
pub(super) fn entitled<'r>(
    name: &str,
    registry_names: &[Box<str>],
    objects: impl Iterator<Item = &'r str>,
    snapshot: &Snapshot,
) -> Option<NamespaceCode> {
    let of_txt = || heritage::resource(snapshot.zone_of(name)?, registry_names, name);
    match holder(name, snapshot) {
        Holder::Free => code_of(&of_txt().or_else(|| objects.min().map(Into::into))?),
        held => held.namespace(),
    }
}

/// The namespace that a stamp names.
pub fn of_stamp(stamp: &Stamp) -> Option<NamespaceCode> {
    stamp.namespace.clone().or_else(|| code_of(stamp.resource.as_deref()?))
}

/// The code of the namespace in a `resource` label.
pub fn code_of(resource: &str) -> Option<NamespaceCode> {
    namespace_of(resource).map(NamespaceCode::of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{operator_settings, options};
    use crate::ingress::{OriginRequest, WantedRule};
    use crate::model::{Hostname, TunnelId};

    fn publication(service: &str, origin_request: OriginRequest) -> Publication {
        let hostname = Hostname::parse("a.example.com").expect("a hostname");
        let service = Service::parse(service).expect("a service");
        Publication {
            wanted_access: crate::reconcile::access::wanted::WantedAccess::Unspecified,
            hostname: hostname.clone(),
            tunnel: TunnelId::parse("f70ff985-a4ef-4643-bbbc-4a0ed4fc8415").expect("an id"),
            rule: Some(WantedRule { hostname, path: None, service, origin_request }),
        }
    }

    fn allows(publication: &Publication) -> bool {
        service_problem(&operator_settings("default"), publication, "ingress/shop/web", "shop").is_none()
    }

    #[test]
    fn only_services_of_the_objects_own_namespace_are_allowed() {
        for (service, is_allowed) in [
            ("http://web.shop.svc", true),
            ("http://web.shop.svc:8080", true),
            ("https://web.shop.svc.cluster.local:443", true),
            ("https://web.shop.svc.cluster.local.:443", true),
            ("tcp://DB.Shop.SVC:5432", true),
            ("http_status:404", true),
            ("http://web.bank.svc:8080", false),
            ("http://web.shop.bank.svc", false),
            ("http://pod.web.shop.svc", false),
            ("http://web.shop", false),
            ("http://web", false),
            ("http://web.shop.svc.evil.test", false),
            ("http://web.shop.svc.cluster.local.evil.test", false),
            ("http://web.shop.svcs", false),
            ("http://web.shop.svc.", false),
            ("http://10.0.0.1:80", false),
            ("http://[::1]:80", false),
            ("unix:/run/web.shop.svc", false),
            ("hello_world", false),
            ("bastion", false),
            ("socks-proxy", false),
        ] {
            let publication = publication(service, OriginRequest::default());
            assert_eq!(allows(&publication), is_allowed, "{service}");
        }
        let record_only =
            Publication { rule: None, ..publication("http://web.shop.svc", OriginRequest::default()) };
        assert!(!allows(&record_only), "none");
    }

    #[test]
    fn options_that_reach_beyond_the_namespace_are_refused() {
        for (option, text, is_allowed) in [
            (OriginOption::BastionMode, "true", false),
            (OriginOption::BastionMode, "false", true),
            (OriginOption::ProxyType, "socks", false),
            (OriginOption::CaPool, "/etc/ca.pem", true),
            (OriginOption::NoTlsVerify, "true", true),
        ] {
            let with = publication("http://web.shop.svc", options(&[(option, text)]));
            assert_eq!(allows(&with), is_allowed, "{option:?}");
        }
    }

    #[test]
    fn a_label_names_a_namespace_only_in_its_whole_form() {
        for (resource, namespace) in [
            ("ingress/shop/web", Some("shop")),
            ("crd/shop/web", Some("shop")),
            ("ingress//web", None),
            ("ingress/shop", None),
            ("ingress/shop/web/more", None),
            ("", None),
        ] {
            assert_eq!(namespace_of(resource), namespace, "{resource}");
        }
    }
}
