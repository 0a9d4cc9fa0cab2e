//! Reads what an endpoint asks for, in the same way for `adjust` and `plan`.
//!
//! Anybody who may write an object chooses its texts, so time and memory are bounded for each endpoint, and expensive
//! work is done once per request. A mistake never drops an endpoint and never publishes more than was asked for: the
//! rules of one object are published together or not at all.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use crate::ingress::access::ACCESS_PROPERTIES;
use crate::ingress::origin_option::BadOption;
use crate::ingress::origin_request::OptionsRead;
use crate::ingress::{OriginRequest, PathError, PathPattern, Service, WantedRule};
use crate::limits;
use crate::model::TunnelId;
use crate::model::access::SessionDuration;
use crate::model::endpoint::{Endpoint, Labels, Property};
use crate::model::hostname::{self, Hostname};
use crate::reconcile::access_wish::{
    self, ACCESS_POLICY, ACCESS_SESSION_DURATION, AccessWish, OPEN, ProtectionWish,
};
use crate::reconcile::applications::Place;
use crate::reconcile::canonical::{
    self, Canonical, Fault, INVALID, OWNER_LABEL, Problem, Publication, RECORD_ONLY, RESOURCE_LABEL, TUNNEL,
    TUNNEL_PATH, TUNNEL_PATH_PREFIX, TUNNEL_SERVICE,
};
use crate::reconcile::groups::{self, Groups, Part};
use crate::reconcile::notes::Notes;
use crate::reconcile::property_name::{self, Meaning};
use crate::reconcile::target::{self, Target};
use crate::reconcile::{Settings, permitted};

/// Paths and property names remembered while a request is read. Any beyond this number are parsed each time.
const READ_ONCE_MAX: usize = 256;

/// The length of a label `kind/namespace/name`. Kubernetes allows 253 bytes for a name and 63 for a namespace.
const RESOURCE_MAX_BYTES: usize = 400;

/// The prefix of the set identifier of an endpoint whose path is not known, so that it conflicts with no other.
const UNREAD_PREFIX: &str = "unread:";

/// Reads the endpoints of one request.
#[derive(Debug)]
pub struct EndpointReader<'s> {
    settings: &'s Settings,
    /// Options that were left out.
    notes: Notes,
    /// By property and text, because compiling an expression takes long.
    paths: HashMap<(&'static str, Box<str>), Result<PathPattern, PathError>>,
    /// The meanings of property names. A request has few, which are compared faster than hashed.
    names: BTreeMap<Box<str>, Meaning>,
}

/// The source of an endpoint's service.
#[derive(Clone, Debug)]
enum ServiceText<'e> {
    /// A property.
    Property(&'e str),
    /// The targets.
    Targets(String),
    /// None: the target is a tunnel, so the endpoint asks only for the record.
    Record,
    /// `DEFAULT_SERVICE`.
    Default(String),
    /// The endpoint is meant for a tunnel but names no service.
    Missing,
}

/// One rule of an endpoint, or its record alone.
struct PartRead {
    set_identifier: String,
    target: String,
    publication: Result<Publication, Vec<Fault>>,
}

impl<'s> EndpointReader<'s> {
    pub fn new(settings: &'s Settings, notes: Notes) -> Self {
        Self { settings, notes, paths: HashMap::new(), names: BTreeMap::new() }
    }

    /// Every rule that an endpoint asks for, in canonical form. Empty if its form shows that it is not ours.
    pub fn read(&mut self, endpoint: &Endpoint) -> Vec<Canonical> {
        if !endpoint.is_address() {
            return Vec::new();
        }
        if let Some(problem) = oversize(endpoint) {
            return vec![unread(endpoint, &problem, self.settings)];
        }
        if let Some(text) = endpoint.property(INVALID) {
            return vec![self.still_invalid(endpoint, text)];
        }
        let Groups { base, named } = groups::split(endpoint, |name, group| {
            !property_name::is_torn(name, group)
                && !matches!(self.meaning(name), Meaning::Unknown | Meaning::Foreign)
        });
        if let Some(problem) = too_many(&base, &named) {
            return vec![unread(endpoint, &problem, self.settings)];
        }
        let targets: Vec<Target> = endpoint.targets.iter().map(|text| target::meaning(text)).collect();
        // Properties without a group are often only the defaults of the groups.
        let stands_alone = named.is_empty()
            || self
                .service_text(endpoint, &targets, &base)
                .is_some_and(|text| !matches!(text, ServiceText::Missing));
        let is_out = opts_out(&base);
        let stray_path = base.path_property().filter(|_| !stands_alone);
        let parts: Vec<Part<'_>> = named.into_iter().chain(stands_alone.then_some(base)).collect();
        let parts = parts.iter().filter(|part| !(opts_out(part) && (is_out || part.has_place)));
        let mut read: Vec<PartRead> =
            parts.filter_map(|part| self.read_part(endpoint, &targets, part)).collect();
        if let Some(property) = stray_path {
            for part in &mut read {
                part.add_fault(
                    property,
                    "has no group and belongs to no rule: name its group, or a service without one",
                );
            }
        }
        hold_together(&mut read);
        read.into_iter().map(|part| part.into_canonical(endpoint)).collect()
    }

    /// An endpoint that was found invalid before, perhaps because of something that is no longer in it.
    fn still_invalid(&self, endpoint: &Endpoint, text: &str) -> Canonical {
        let is_tunnels = |target: &&String| TunnelId::from_hostname(target).is_some();
        let target = endpoint.targets.iter().find(is_tunnels).cloned();
        let target = target.unwrap_or_else(|| self.settings.default_tunnel().hostname());
        invalid(
            hostname::normalize(&endpoint.dns_name),
            target,
            endpoint.set_identifier.clone(),
            endpoint.labels.without(OWNER_LABEL),
            Problem::read(text),
        )
    }

    /// `targets` are the meanings of the endpoint's targets.
    fn read_part(&mut self, endpoint: &Endpoint, targets: &[Target], part: &Part<'_>) -> Option<PartRead> {
        let service = self.service_text(endpoint, targets, part)?;
        let mut reader = PartReader { reader: self, endpoint, targets, part, faults: Vec::new() };
        let tunnel = reader.tunnel();
        let hostname = reader.hostname();
        let rule = reader.rule(&service, hostname.as_ref());
        let access = reader.access(rule.as_ref().map(Option::as_ref), hostname.as_ref());
        reader.names();
        let faults = reader.faults;
        let settings = self.settings;
        let target = tunnel.as_ref().unwrap_or_else(|| settings.default_tunnel()).hostname();
        let publication = match (hostname, tunnel, rule, access) {
            (Some(hostname), Some(tunnel), Some(rule), Some(access)) if faults.is_empty() => {
                Ok(Publication { hostname, tunnel, rule, access })
            }
            _ => Err(faults),
        };
        let set_identifier = match &publication {
            Ok(publication) => publication.path().unwrap_or_default().to_owned(),
            Err(_) => self.set_identifier_as_meant(endpoint, part),
        };
        Some(PartRead { set_identifier, target, publication })
    }

    /// The set identifier that the endpoint would have if it were valid: by it ExternalDNS knows what is published
    /// already. If its path is not known, one of its own: that of the whole hostname may be another object's, which
    /// would take its place, and then nothing would hold back the deletion of what is published.
    fn set_identifier_as_meant(&mut self, endpoint: &Endpoint, part: &Part<'_>) -> String {
        let path = match (part.text(TUNNEL_PATH), part.text(TUNNEL_PATH_PREFIX)) {
            (Some(path), _) => path.to_owned(),
            (None, Some(prefix)) => self
                .path(TUNNEL_PATH_PREFIX, prefix)
                .map_or_else(|_| prefix.to_owned(), |path| path.as_str().to_owned()),
            (None, None) if part.said.iter().any(|(name, _)| self.may_be_path(name)) => {
                return set_identifier_apart(endpoint.labels.value(RESOURCE_LABEL).unwrap_or_default());
            }
            (None, None) => String::new(),
        };
        cut(&path, limits::PATH_MAX_BYTES).to_owned()
    }

    /// True if a property that is misspelled may be the one for the path.
    fn may_be_path(&mut self, name: &str) -> bool {
        match self.meaning(name) {
            Meaning::Misspelled { nearest: Some(nearest), limits: _ } => {
                [TUNNEL_PATH, TUNNEL_PATH_PREFIX].contains(&nearest)
            }
            Meaning::Misspelled { nearest: None, limits } => limits,
            Meaning::Known | Meaning::Unknown | Meaning::Foreign => false,
        }
    }

    /// The text of the service; `None` if nothing shows that the endpoint is meant for a tunnel.
    fn service_text<'e>(
        &mut self,
        endpoint: &'e Endpoint,
        targets: &[Target],
        part: &Part<'e>,
    ) -> Option<ServiceText<'e>> {
        if let Some(text) = part.text(TUNNEL_SERVICE) {
            return Some(ServiceText::Property(text));
        }
        let mut services: Vec<&str> = Vec::new();
        let mut is_record = false;
        for (text, meaning) in endpoint.targets.iter().zip(targets) {
            match meaning {
                Target::Service => services.push(text),
                Target::Tunnel(tunnel) => is_record |= self.settings.is_configured(tunnel),
                Target::NoTunnel => is_record = true,
                Target::Other => {}
            }
        }
        services.sort_unstable();
        if !services.is_empty() {
            // Joined by a blank, several targets cannot parse as a service, so they are refused together.
            return Some(ServiceText::Targets(services.join(", ")));
        }
        if is_record {
            return Some(ServiceText::Record);
        }
        if let Some(template) = &self.settings.policy.default_service {
            let resource = endpoint.labels.value(RESOURCE_LABEL).unwrap_or_default();
            return Some(ServiceText::Default(template.fill(resource)));
        }
        let mut unknown = 0;
        let is_meant = part.said.iter().any(|(name, _)| match self.meaning(name) {
            Meaning::Known | Meaning::Misspelled { .. } => true,
            Meaning::Unknown => {
                unknown += 1;
                unknown > limits::UNKNOWN_PROPERTIES_MAX
            }
            Meaning::Foreign => false,
        });
        is_meant.then_some(ServiceText::Missing)
    }

    /// The notes about everything that was read.
    pub fn into_notes(self) -> Notes {
        self.notes
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

    fn path(&mut self, property: &'static str, text: &str) -> Result<PathPattern, PathError> {
        let read = if property == TUNNEL_PATH { PathPattern::asked } else { PathPattern::asked_prefix };
        if self.paths.len() >= READ_ONCE_MAX || text.len() > limits::PATH_MAX_BYTES {
            return read(text);
        }
        self.paths.entry((property, text.into())).or_insert_with(|| read(text)).clone()
    }
}

impl PartRead {
    fn into_canonical(self, endpoint: &Endpoint) -> Canonical {
        let Self { set_identifier, target, publication } = self;
        // ExternalDNS sets the owner label itself when it sends changes. A source's own claim would make this program
        // refuse them all, so it is removed.
        let labels = endpoint.labels.without(OWNER_LABEL);
        match publication {
            Ok(publication) => {
                let name = publication.hostname.as_str().to_owned();
                let properties = canonical::properties_of(&publication);
                let endpoint = canonical::render(name, target, set_identifier, properties, labels);
                Canonical { endpoint, publication: Ok(publication) }
            }
            Err(faults) => {
                let name = hostname::normalize(&endpoint.dns_name);
                invalid(name, target, set_identifier, labels, Problem::of(&faults))
            }
        }
    }
}

/// Makes all rules of an object invalid if one is, because another rule would otherwise take its requests.
fn hold_together(parts: &mut [PartRead]) {
    if parts.len() < 2 {
        return;
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for part in &*parts {
        *counts.entry(part.set_identifier.clone()).or_default() += 1;
    }
    for part in &mut *parts {
        if counts.get(&part.set_identifier).is_some_and(|count| *count > 1) {
            part.add_fault(
                TUNNEL_PATH,
                "is the same for several groups of the object: give each a path of its own",
            );
        }
    }
    let invalid = parts.iter().find(|part| part.publication.is_err());
    if let Some(cause) = invalid.map(PartRead::as_cause) {
        for part in parts.iter_mut().filter(|part| part.publication.is_ok()) {
            part.add_fault("it", &cause);
        }
    }
}

impl PartRead {
    /// Why the other rules of the object wait for this one.
    fn as_cause(&self) -> String {
        let Self { set_identifier, publication, .. } = self;
        match publication {
            Err(faults) if set_identifier.starts_with(UNREAD_PREFIX) => {
                let faults = Problem::of(faults);
                format!("waits for another rule of the object, whose path is not known: {faults}")
            }
            _ => format!("waits for the object's rule for path {set_identifier:?}, which is invalid"),
        }
    }

    fn add_fault(&mut self, subject: &str, problem: &str) {
        let mut faults = std::mem::replace(&mut self.publication, Err(Vec::new())).err().unwrap_or_default();
        faults.push(Fault { subject: subject.into(), problem: problem.to_owned() });
        self.publication = Err(faults);
    }
}

/// The set identifier of an object's endpoint that is in nobody's way.
pub fn set_identifier_apart(resource: &str) -> String {
    format!("{UNREAD_PREFIX}{}", cut(resource, RESOURCE_MAX_BYTES))
}

/// An endpoint that stays as it is at Cloudflare, unread.
pub fn unread(endpoint: &Endpoint, problem: &str, settings: &Settings) -> Canonical {
    let resource = endpoint.labels.value(RESOURCE_LABEL).map(|label| cut(label, RESOURCE_MAX_BYTES));
    let set_identifier = set_identifier_apart(resource.unwrap_or_default());
    // A name that is cut must not become another hostname.
    let name = cut(&endpoint.dns_name, hostname::HOSTNAME_MAX_BYTES + 1);
    invalid(
        hostname::normalize(name),
        settings.default_tunnel().hostname(),
        set_identifier,
        resource.map(|resource| (RESOURCE_LABEL, resource)).into_iter().collect(),
        Problem::read(problem),
    )
}

fn invalid(
    name: String,
    target: String,
    set_identifier: String,
    labels: Labels,
    problem: Problem,
) -> Canonical {
    let properties = vec![Property::new(INVALID, problem.to_string())];
    let endpoint = canonical::render(name, target, set_identifier, properties, labels);
    Canonical { endpoint, publication: Err(problem) }
}

/// The reason why an endpoint is too large, before anything in it is read.
fn oversize(endpoint: &Endpoint) -> Option<String> {
    let bytes = endpoint.text_bytes();
    (bytes > limits::ENDPOINT_MAX_BYTES).then(|| {
        format!(
            "the object's annotations have {bytes} bytes: of one hostname at most {} are read",
            limits::ENDPOINT_MAX_BYTES
        )
    })
}

fn too_many(base: &Part<'_>, named: &[Part<'_>]) -> Option<String> {
    let most = named.iter().map(|part| part.said.len()).max().unwrap_or_default().max(base.said.len());
    if named.len() > limits::ENDPOINT_GROUPS_MAX {
        let maximum = limits::ENDPOINT_GROUPS_MAX;
        return Some(format!(
            "the object has more than {maximum} groups of properties, and no more are read"
        ));
    }
    (most > limits::ENDPOINT_PROPERTIES_MAX).then(|| {
        let maximum = limits::ENDPOINT_PROPERTIES_MAX;
        format!("the object has {most} properties for one rule: at most {maximum} are read")
    })
}

/// The beginning of `text`, of at most `max_bytes`.
fn cut(text: &str, max_bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(max_bytes)).unwrap_or_default()
}

/// True if the endpoint only says that it is not meant for a tunnel.
fn opts_out(part: &Part<'_>) -> bool {
    let mut values = part.said.iter().filter(|(name, _)| *name == TUNNEL).peekable();
    values.peek().is_some() && values.all(|(_, value)| *value == "false")
}

/// Reads the properties of one rule.
struct PartReader<'r, 's> {
    reader: &'r mut EndpointReader<'s>,
    endpoint: &'r Endpoint,
    targets: &'r [Target],
    part: &'r Part<'r>,
    faults: Vec<Fault>,
}

impl PartReader<'_, '_> {
    fn fault(&mut self, subject: &str, problem: impl Into<String>) {
        self.faults.push(Fault { subject: subject.into(), problem: problem.into() });
    }

    fn cannot_read(&mut self, subject: &str, text: &str, error: &dyn fmt::Display) {
        self.fault(subject, format!("is {text:?}: {error}"));
    }

    fn hostname(&mut self) -> Option<Hostname> {
        let name = &self.endpoint.dns_name;
        Hostname::parse(name).map_err(|error| self.cannot_read("the name", name, &error)).ok()
    }

    /// The tunnel that the target or the property names, else the default one.
    fn tunnel(&mut self) -> Option<TunnelId> {
        let settings = self.reader.settings;
        let mut tunnels = Vec::new();
        for (text, meaning) in self.endpoint.targets.iter().zip(self.targets) {
            match meaning {
                Target::Tunnel(tunnel) => tunnels.push(tunnel),
                Target::NoTunnel => {
                    let example = settings.default_tunnel().hostname();
                    self.fault(
                        "the target",
                        format!("is {text:?}: a tunnel's hostname is such as {example}"),
                    );
                    return None;
                }
                Target::Service | Target::Other => {}
            }
        }
        if let Some(text) = self.part.text(TUNNEL) {
            let Some(named) = settings.tunnel_called(text) else {
                let known = settings.tunnel_names();
                self.fault(TUNNEL, format!("is {text:?}, which is not configured; configured: {known}"));
                return None;
            };
            tunnels.push(named);
        }
        match tunnels.split_first() {
            None => Some(settings.default_tunnel().clone()),
            Some((tunnel, others)) if others.iter().any(|other| other != tunnel) => {
                self.fault(TUNNEL, "and the targets name different tunnels; a hostname has one");
                None
            }
            Some((tunnel, _)) if settings.is_configured(tunnel) => Some(TunnelId::clone(tunnel)),
            Some((tunnel, _)) => {
                let known = settings.tunnel_names();
                self.fault(
                    "the target",
                    format!("leads to tunnel {tunnel}, which is not configured; configured: {known}"),
                );
                None
            }
        }
    }

    #[allow(
        clippy::option_option,
        reason = "no rule at all, and a rule that could not be read, are different"
    )]
    fn rule(&mut self, service: &ServiceText<'_>, hostname: Option<&Hostname>) -> Option<Option<WantedRule>> {
        let settings = self.reader.settings;
        let path = self.path();
        if !self.part.has_place {
            let group = self.part.group;
            self.fault(
                &format!("the group {group:?}"),
                "has no path of its own: is its name misspelt? What is meant for all paths is said without a group",
            );
        }
        let (subject, text) = match service {
            ServiceText::Property(text) => (TUNNEL_SERVICE, *text),
            ServiceText::Targets(text) => ("the target", &**text),
            ServiceText::Record => (TUNNEL_SERVICE, RECORD_ONLY),
            ServiceText::Default(text) => ("DEFAULT_SERVICE", &**text),
            ServiceText::Missing => (TUNNEL_SERVICE, ""),
        };
        let is_record = text == RECORD_ONLY;
        let no_defaults = OriginRequest::default();
        let defaults = if is_record { &no_defaults } else { &settings.policy.origin_defaults };
        let part = self.part;
        let OptionsRead { origin_request, left_out, invalid } =
            OriginRequest::read(&|name| part.text(name), defaults);
        for BadOption { property, problem } in left_out {
            let text = || format!("{property} is left out: it {problem}");
            self.reader.notes.add(self.endpoint, text);
        }
        for BadOption { property, problem } in invalid {
            self.faults.push(Fault { subject: property.into(), problem });
        }
        if text.is_empty() {
            self.fault(TUNNEL_SERVICE, "is missing; name the service, or set it to none for the record only");
            return None;
        }
        if is_record {
            if path != Some(None) || !origin_request.is_empty() {
                self.fault(
                    TUNNEL_SERVICE,
                    "is none, so there is no rule that a path or an option could go into",
                );
            }
            return Some(None);
        }
        let service = Service::parse(text).map_err(|error| self.cannot_read(subject, text, &error)).ok()?;
        let rule = WantedRule { hostname: hostname?.clone(), path: path?, service, origin_request };
        self.faults.extend(permitted::faults(&rule, subject, settings));
        Some(Some(rule))
    }

    /// Who may reach it. `rule` is `Some(None)` for the record alone.
    #[allow(
        clippy::option_option,
        reason = "no rule at all, and a rule that could not be read, are different"
    )]
    fn access(
        &mut self,
        rule: Option<Option<&WantedRule>>,
        hostname: Option<&Hostname>,
    ) -> Option<AccessWish> {
        let settings = self.reader.settings;
        let part = self.part;
        let default = &settings.policy.default_access_policy;
        let (text, duration) = (part.text(ACCESS_POLICY), part.text(ACCESS_SESSION_DURATION));
        if let Some(property) = ACCESS_PROPERTIES.iter().find(|name| part.text(name).is_some()) {
            if text.or(duration).is_some() {
                self.fault(ACCESS_POLICY, format!("and {property} are both set; keep one"));
            }
            let requires = rule.flatten().is_some_and(|rule| rule.origin_request.requires_access());
            if let Some(setting) = settings.policy.asks_for_access(requires) {
                self.fault(property, format!("is set, but {setting} asks for Access by itself: take it off"));
            }
            return Some(AccessWish::Silent);
        }
        let named = match text {
            Some(text) => access_wish::names(text)
                .map_err(|error| self.cannot_read(ACCESS_POLICY, text, &error))
                .ok()?,
            None => Some(default.iter().map(|name| &**name).collect())
                .filter(|names: &Vec<&str>| !names.is_empty()),
        };
        let Some(names) = named else {
            if duration.is_some() {
                self.fault(ACCESS_SESSION_DURATION, format!("is set, but no policy by {ACCESS_POLICY}"));
            }
            if text.is_some() && !settings.policy.access_opt_out {
                self.fault(
                    ACCESS_POLICY,
                    format!("is {OPEN}, and ACCESS_OPT_OUT=false lets nobody open a hostname"),
                );
            }
            return Some(if text.is_some() { AccessWish::Open } else { AccessWish::Silent });
        };
        let duration = match duration.map(|text| (text, SessionDuration::parse(text))) {
            None => SessionDuration::default(),
            Some((_, Some(duration))) => duration,
            Some((text, None)) => {
                self.fault(
                    ACCESS_SESSION_DURATION,
                    format!("is {text:?}: allowed is such as 24h, 90m or 1h30m"),
                );
                return None;
            }
        };
        match rule {
            Some(None) => {
                self.fault(
                    ACCESS_POLICY,
                    format!(
                        "is set, or DEFAULT_ACCESS_POLICY is, and a record alone has no rule that could require a \
                         login: name a service, or say {ACCESS_POLICY}: {OPEN}"
                    ),
                );
                return None;
            }
            Some(Some(rule)) => {
                if let Err(problem) = Place::of(hostname?, rule.path_text()) {
                    self.fault(ACCESS_POLICY, problem.to_string());
                    return None;
                }
            }
            None => {}
        }
        ProtectionWish::new(&names, duration, settings)
            .map_err(|error| self.cannot_read(ACCESS_POLICY, text.unwrap_or_default(), &error))
            .map(AccessWish::Protected)
            .ok()
    }

    #[allow(clippy::option_option, reason = "no path, and a path that could not be read, are different")]
    fn path(&mut self) -> Option<Option<PathPattern>> {
        let (subject, text) = match (self.part.text(TUNNEL_PATH), self.part.text(TUNNEL_PATH_PREFIX)) {
            (None, None) => return Some(None),
            (Some(text), None) => (TUNNEL_PATH, text),
            (None, Some(text)) => (TUNNEL_PATH_PREFIX, text),
            (Some(_), Some(_)) => {
                self.fault(TUNNEL_PATH_PREFIX, format!("and {TUNNEL_PATH} are both set; keep one"));
                return None;
            }
        };
        let parsed = self.reader.path(subject, text);
        parsed.map(Some).map_err(|error| self.cannot_read(subject, text, &error)).ok()
    }

    /// Checks the names. A misspelled name that limits what is published is a fault; any other unknown name is only
    /// noted.
    fn names(&mut self) {
        let mut unknown = 0;
        let mut left_out = Vec::new();
        for (name, _) in &self.part.said {
            let (nearest, limits) = match self.reader.meaning(name) {
                Meaning::Known | Meaning::Foreign => continue,
                Meaning::Misspelled { nearest, limits } => (nearest, limits),
                Meaning::Unknown => (None, false),
            };
            unknown += 1;
            if unknown > limits::UNKNOWN_PROPERTIES_MAX {
                self.fault(property_name::PREFIX, "begins more unknown properties than are looked at");
                break;
            }
            if limits {
                self.fault(name, format!("is unknown{}", hint(nearest)));
            } else {
                left_out.push((*name, nearest));
            }
        }
        if !left_out.is_empty() {
            let text =
                |(name, nearest): &(&str, _)| format!("{name} is left out: it is unknown{}", hint(*nearest));
            let texts = || left_out.iter().map(text).collect::<Vec<_>>().join("; ");
            self.reader.notes.add(self.endpoint, texts);
        }
        // They are sorted and without duplicates. Properties of others are not kept, so they cannot conflict.
        let ours = self.part.said.iter().filter(|(name, _)| name.starts_with(property_name::PREFIX));
        let conflicting = ours.clone().zip(ours.skip(1)).find(|((one, _), (next, _))| one == next);
        if let Some(((name, _), _)) = conflicting {
            self.fault(name, "is set twice, to different values");
        }
    }
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map(|nearest| format!("; did you mean {nearest}?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::settings;

    /// Whoever may write a DNSEndpoint chooses how many there are, and how long.
    #[test]
    fn the_names_and_paths_that_are_remembered_are_bounded_in_number_and_length() {
        let settings = settings();
        let mut reader = EndpointReader::new(&settings, Notes::with_room(0));
        // Those that are longer are read each time.
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
