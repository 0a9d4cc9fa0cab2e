//! Reads the request of an endpoint, in the same way for `adjust` and `plan`.
//!
//! The author of an object chooses its texts, so time and memory are bounded for each endpoint, and expensive
//! work is done once per request. A mistake never drops an endpoint and never publishes more than was asked for.

mod rule_reader;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use self::rule_reader::RuleReader;
use crate::ingress::PathPattern;
use crate::ingress::access_check::ACCESS_REQUIRED;
use crate::limits;
use crate::model::TunnelId;
use crate::model::endpoint::{Endpoint, Labels, Property};
use crate::model::hostname;
use crate::reconcile::Settings;
use crate::reconcile::access::reading::AccessReading;
use crate::reconcile::access::wanted::OPEN;
use crate::reconcile::canonical::{
    self, CanonicalEndpoint, Intent, OWNER_LABEL, Problem, Publication, RECORD_ONLY, RESOURCE_LABEL,
    UNKNOWN_PATH_PREFIX,
};
use crate::reconcile::groups::{self, RuleProperties};
use crate::reconcile::namespace;
use crate::reconcile::property_name::{
    self, ACCESS_POLICY, ACCESS_PREFIX, INVALID, Meaning, TUNNEL_PATH, TUNNEL_PATH_PREFIX, TUNNEL_SERVICE,
    TUNNEL_WILDCARD,
};
use crate::reconcile::service_template;
use crate::reconcile::target::{self, TargetKind};
use crate::reconcile::wildcard;

/// The number of paths, and of property names, that are remembered while a request is read. Others are parsed each
/// time.
const READ_ONCE_MAX: usize = 256;

/// The maximum length of a label `kind/namespace/name`. Kubernetes allows 253 bytes for a name and 63 for a namespace.
const RESOURCE_MAX_BYTES: usize = 400;

/// The source of a service that an object does not name.
const DEFAULT_SERVICE: &str = "DEFAULT_SERVICE";

/// The service of a rule, as text that is not parsed yet.
pub(super) struct ServiceText<'e> {
    /// The part of the endpoint, or the setting, that has the service.
    source: &'static str,
    /// Empty if the endpoint is meant for a tunnel but names no service.
    text: Cow<'e, str>,
}

/// Reads the endpoints of one request.
#[derive(Debug)]
pub struct EndpointReader<'s> {
    settings: &'s Settings,
    /// The policies that endpoints may name.
    access: &'s AccessReading,
    /// Parsed paths by property and text, because compiling an expression takes long.
    paths: HashMap<(&'static str, Box<str>), Result<PathPattern, String>>,
    /// The meanings of property names. A request has few, which are compared faster than hashed.
    names: BTreeMap<Box<str>, Meaning>,
}

impl<'s> EndpointReader<'s> {
    pub fn new(settings: &'s Settings, access: &'s AccessReading) -> Self {
        Self { settings, access, paths: HashMap::new(), names: BTreeMap::new() }
    }

    /// Every rule that an endpoint asks for, in canonical form. Empty if the endpoint is not meant for a tunnel.
    pub fn read(&mut self, endpoint: &Endpoint) -> Vec<CanonicalEndpoint> {
        if !endpoint.is_address_or_cname() {
            return Vec::new();
        }
        if endpoint.text_bytes() > limits::ENDPOINT_MAX_BYTES {
            return vec![self.unread(endpoint, &too_long())];
        }
        if let Some(text) = endpoint.property(INVALID) {
            return vec![self.still_invalid(endpoint, text)];
        }
        let (base, named) = groups::split(endpoint, |name, group| {
            !property_name::has_stray_dot(name, group) && self.meaning(name) != Meaning::Foreign
        });
        if let Some(problem) = too_many(&base, &named) {
            return vec![self.unread(endpoint, &problem)];
        }
        let domain = &self.settings.operator.cluster_domain;
        let targets = endpoint.targets.iter().map(|text| (&**text, target::kind_of(text, domain)));
        let targets: Vec<(&str, TargetKind)> = targets.collect();
        let base_is_rule = named.is_empty()
            || base.text(TUNNEL_SERVICE).is_some()
            || self.service_text(endpoint, &targets, &base).is_some_and(|service| !service.text.is_empty());
        let (rules, stray_path) = groups::rules(base, named, base_is_rule);
        let rules = rules.iter();
        rules.filter_map(|properties| self.read_rule(endpoint, &targets, properties, stray_path)).collect()
    }

    /// The invalid form of an endpoint that is not read. The published rules at Cloudflare stay.
    pub fn unread(&self, endpoint: &Endpoint, problem: &str) -> CanonicalEndpoint {
        let resource =
            endpoint.labels.value(RESOURCE_LABEL).map(|label| cut_to_bytes(label, RESOURCE_MAX_BYTES));
        let set_identifier = unknown_path_identifier(resource.unwrap_or_default());
        // A hostname has 253 characters at most, also in Unicode, so a cut name cannot become another hostname.
        let name = cut_to_bytes(&endpoint.dns_name, 4 * (hostname::HOSTNAME_MAX_BYTES + 1));
        invalid(
            hostname::normalize(name),
            self.settings.default_tunnel().hostname(),
            set_identifier,
            resource.map(|resource| (RESOURCE_LABEL, resource)).into_iter().collect(),
            Problem::new(problem),
        )
    }

    /// An endpoint that already has the property [`INVALID`]. The cause may no longer be in the endpoint.
    fn still_invalid(&self, endpoint: &Endpoint, text: &str) -> CanonicalEndpoint {
        let is_tunnels = |target: &&String| TunnelId::from_hostname(target).is_some();
        let target = endpoint.targets.iter().find(is_tunnels).cloned();
        let target = target.unwrap_or_else(|| self.settings.default_tunnel().hostname());
        invalid(
            hostname::normalize(&endpoint.dns_name),
            target,
            endpoint.set_identifier.clone(),
            endpoint.labels.without(OWNER_LABEL),
            Problem::new(text),
        )
    }

    /// Reads one rule of an endpoint, or its record alone. `targets` are those of the endpoint, with their kinds, and
    /// `stray_path` is a property for a path that belongs to none of its rules.
    fn read_rule(
        &mut self,
        endpoint: &Endpoint,
        targets: &[(&str, TargetKind)],
        properties: &RuleProperties<'_>,
        stray_path: Option<&str>,
    ) -> Option<CanonicalEndpoint> {
        let service = self.service_text(endpoint, targets, properties)?;
        let asks_for_login = self.asks_for_login(properties);
        let uses_default = service.source == DEFAULT_SERVICE;
        let mut reader = RuleReader { reader: self, endpoint, targets, properties, mistakes: Vec::new() };
        let tunnel = reader.tunnel();
        let hostname = reader.hostname();
        let rule = reader.rule(service, &hostname);
        let wanted_access = reader.access(&rule);
        reader.add_mistakes_of_names();
        let unasked_wildcard = reader.is_unasked_wildcard(&hostname);
        let intent = Intent { asks_for_login, uses_default, unasked_wildcard };
        if let Some(property) = stray_path {
            let problem = "has no group and belongs to no rule: add the group to the property's name, or \
                 set a service without a group";
            reader.mistake(property, problem);
        }
        let mistakes = reader.mistakes;
        let target = tunnel.as_ref().unwrap_or_else(|_| self.settings.default_tunnel()).hostname();
        // ExternalDNS sets the owner label itself when it sends changes. An owner label of a source is removed, because
        // the webhook would refuse all these changes for it.
        let labels = endpoint.labels.without(OWNER_LABEL);
        let publication = match (hostname, tunnel, rule, wanted_access) {
            (Ok(hostname), Ok(tunnel), Ok(rule), Ok(wanted_access)) if mistakes.is_empty() => {
                let publication = Publication { hostname, tunnel, rule, wanted_access };
                namespace::mistake(&publication, endpoint.labels.value(RESOURCE_LABEL), self.settings)
                    .map_or(Ok(publication), |mistake| Err(vec![mistake]))
            }
            _ => Err(mistakes),
        };
        Some(match publication {
            Ok(publication) => {
                let name = publication.hostname.as_str().to_owned();
                let set_identifier = publication.path().unwrap_or_default().to_owned();
                let mut shown = canonical::properties_of(&publication);
                if !intent.unasked_wildcard {
                    shown.extend(wildcard::property(&name));
                }
                let endpoint = canonical::render(name, target, set_identifier, shown, labels);
                CanonicalEndpoint { endpoint, publication: Ok(publication), intent }
            }
            Err(mistakes) => {
                let name = hostname::normalize(&endpoint.dns_name);
                let set_identifier = self.set_identifier_as_meant(endpoint, properties);
                CanonicalEndpoint {
                    intent,
                    ..invalid(name, target, set_identifier, labels, Problem::of(&mistakes))
                }
            }
        })
    }

    /// The set identifier that the endpoint would have if it were valid: ExternalDNS finds the published rule by it. If
    /// the path is not known, the endpoint gets a set identifier of its own. Without a path, another object with the
    /// whole hostname could win the path, and ExternalDNS would delete the published rule.
    fn set_identifier_as_meant(&mut self, endpoint: &Endpoint, properties: &RuleProperties<'_>) -> String {
        let path = match (properties.text(TUNNEL_PATH), properties.text(TUNNEL_PATH_PREFIX)) {
            (Some(path), _) => path.to_owned(),
            (None, Some(prefix)) => self
                .path(TUNNEL_PATH_PREFIX, prefix)
                .map_or_else(|_| prefix.to_owned(), |path| path.as_str().to_owned()),
            (None, None) => {
                let is_path = |meant: &str| [TUNNEL_PATH, TUNNEL_PATH_PREFIX].contains(&meant);
                if properties.entries.iter().any(|(name, _)| self.may_mean(name, is_path)) {
                    return unknown_path_identifier(canonical::resource_of(endpoint));
                }
                String::new()
            }
        };
        cut_to_bytes(&path, limits::PATH_MAX_BYTES).to_owned()
    }

    /// True if a property asks for a login, even if the property is misspelled or has a wrong value.
    fn asks_for_login(&mut self, properties: &RuleProperties<'_>) -> bool {
        properties.entries.iter().any(|(name, value)| match self.meaning(name) {
            Meaning::Known => {
                let is_no = [(ACCESS_POLICY, OPEN), (ACCESS_REQUIRED, "false")].contains(&(name, value));
                name.starts_with(ACCESS_PREFIX) && !is_no
            }
            Meaning::Misspelled(_) => self.may_mean(name, |meant| meant.starts_with(ACCESS_PREFIX)),
            Meaning::Foreign => false,
        })
    }

    /// True if a misspelled property may be one that `is_it` selects.
    fn may_mean(&mut self, name: &str, is_it: impl Fn(&str) -> bool) -> bool {
        match self.meaning(name) {
            Meaning::Misspelled(Some(nearest)) => is_it(nearest),
            Meaning::Misspelled(None) => property_name::with_word_of(name).into_iter().any(is_it),
            Meaning::Known | Meaning::Foreign => false,
        }
    }

    /// The service of a rule; `None` if nothing shows that the endpoint is meant for a tunnel.
    fn service_text<'e>(
        &mut self,
        endpoint: &'e Endpoint,
        targets: &[(&'e str, TargetKind)],
        properties: &RuleProperties<'e>,
    ) -> Option<ServiceText<'e>> {
        let service = |source, text| Some(ServiceText { source, text });
        if let Some(text) = properties.text(TUNNEL_SERVICE) {
            return service(TUNNEL_SERVICE, service_template::fill(text, canonical::resource_of(endpoint)));
        }
        let mut services: Vec<&str> = Vec::new();
        let mut is_record = false;
        for (text, kind) in targets {
            match kind {
                TargetKind::Service => services.push(text),
                TargetKind::Tunnel(tunnel) => is_record |= self.settings.is_configured(tunnel),
                TargetKind::MalformedTunnel => is_record = true,
                TargetKind::ClusterName | TargetKind::Other => {}
            }
        }
        services.sort_unstable();
        if !services.is_empty() {
            // Several targets joined with commas and blanks never parse as a service, so they are refused together.
            return service("the target", services.join(", ").into());
        }
        if is_record {
            return service(TUNNEL_SERVICE, RECORD_ONLY.into());
        }
        // The property of a wildcard does not show that the endpoint is meant for a tunnel.
        let names =
            || properties.entries.iter().map(|(name, _)| *name).filter(|name| *name != TUNNEL_WILDCARD);
        let operator = &self.settings.operator;
        if let Some(template) = &operator.default_service
            && (operator.publish_all || names().any(property_name::is_known))
        {
            return service(DEFAULT_SERVICE, template.fill(canonical::resource_of(endpoint)).into());
        }
        if let Some((text, _)) = targets.iter().find(|(_, kind)| *kind == TargetKind::ClusterName) {
            return service("the target", (*text).into());
        }
        let is_meant = names().any(|name| self.meaning(name) != Meaning::Foreign);
        if is_meant { service(TUNNEL_SERVICE, "".into()) } else { None }
    }

    fn meaning(&mut self, name: &str) -> Meaning {
        if let Some(known) = self.names.get(name) {
            return *known;
        }
        let meaning = property_name::meaning(name);
        if self.names.len() < READ_ONCE_MAX && name.len() <= limits::PROPERTY_NAME_MAX_BYTES {
            self.names.insert(name.into(), meaning);
        }
        meaning
    }

    fn path(&mut self, property: &'static str, text: &str) -> Result<PathPattern, String> {
        let read = if property == TUNNEL_PATH { PathPattern::parse } else { PathPattern::from_prefix };
        let key = (property, text.into());
        let has_room = self.paths.len() < READ_ONCE_MAX && text.len() <= limits::PATH_MAX_BYTES;
        if !has_room && !self.paths.contains_key(&key) {
            return read(text);
        }
        self.paths.entry(key).or_insert_with(|| read(text)).clone()
    }
}

/// A set identifier that no endpoint of another object has.
fn unknown_path_identifier(resource: &str) -> String {
    format!("{UNKNOWN_PATH_PREFIX}{}", cut_to_bytes(resource, RESOURCE_MAX_BYTES))
}

fn invalid(
    name: String,
    target: String,
    set_identifier: String,
    labels: Labels,
    problem: Problem,
) -> CanonicalEndpoint {
    let properties = vec![Property::new(INVALID, problem.to_string())];
    let endpoint = canonical::render(name, target, set_identifier, properties, labels);
    CanonicalEndpoint { endpoint, publication: Err(problem), intent: Intent::default() }
}

/// The problem of an endpoint that is too long to be read.
pub(crate) fn too_long() -> String {
    format!(
        "the endpoint has more than {} bytes, and the webhook reads no more: shorten the object's annotations",
        limits::ENDPOINT_MAX_BYTES
    )
}

fn too_many(base: &RuleProperties<'_>, named: &[RuleProperties<'_>]) -> Option<String> {
    let maximum = limits::ENDPOINT_GROUPS_MAX;
    if named.len() > maximum {
        return Some(format!("the object has more than {maximum} groups of properties: use fewer"));
    }
    let maximum = limits::ENDPOINT_PROPERTIES_MAX;
    let most =
        named.iter().chain([base]).map(|properties| properties.entries.len()).max().unwrap_or_default();
    (most > maximum).then(|| format!("the object has {most} properties for one rule: use at most {maximum}"))
}

/// The beginning of `text`, of at most `max_bytes`.
fn cut_to_bytes(text: &str, max_bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(max_bytes)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::settings;

    /// A path that begins as a set identifier of an unread endpoint would be shown without its text.
    #[test]
    fn no_path_begins_as_the_set_identifier_of_an_unread_endpoint() {
        assert!(PathPattern::parse(&unknown_path_identifier("ingress/shop/web")).is_err());
    }

    /// A DNSEndpoint may have any number of properties, of any length.
    #[test]
    fn the_names_and_paths_that_are_remembered_are_bounded_in_number_and_length() {
        let settings = settings();
        let mut reader = EndpointReader::new(&settings, &AccessReading::NotAsked);
        // Longer names and paths are read each time.
        for more in [0, 1, 2] {
            reader.meaning(&"x".repeat(limits::PROPERTY_NAME_MAX_BYTES + more));
            let _ = reader.path(TUNNEL_PATH, &"x".repeat(limits::PATH_MAX_BYTES + more));
            assert_eq!((reader.names.len(), reader.paths.len()), (1, 1), "{more}");
        }
        for number in 0..READ_ONCE_MAX + 9 {
            reader.meaning(&format!("aws/{number}"));
            let _ = reader.path(TUNNEL_PATH, &format!("^/{number}"));
        }
        assert_eq!((reader.names.len(), reader.paths.len()), (READ_ONCE_MAX, READ_ONCE_MAX));
    }
}
