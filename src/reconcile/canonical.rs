//! The canonical endpoint: the one form in which a published hostname is shown to ExternalDNS.
//!
//! ExternalDNS compares what `adjust` returned with what `records` returns, so both render here. An endpoint that a
//! user means as a published hostname keeps its canonical name, type, target and set identifier even when something
//! in it is invalid; what it asks for is then a list of [`Fault`]s, which `plan` refuses by name.

use std::fmt;

use crate::endpoint::{Endpoint, Labels, Property};
use crate::limits;
use crate::reconcile::options::{self, BadOption};
use crate::reconcile::{Note, OneLine, Settings};
use crate::tunnel::hostname::{self, Hostname};
use crate::tunnel::{PathPattern, Rule, Service, TunnelId, WantedRule, looks_like_service};

/// The service of an endpoint's rule.
pub const TUNNEL_SERVICE: &str = "webhook/tunnel-service";

/// The rule's path expression.
pub const TUNNEL_PATH: &str = "webhook/tunnel-path";

/// The friendly form of a path.
pub const TUNNEL_PATH_PREFIX: &str = "webhook/tunnel-path-prefix";

/// Which of the configured tunnels, by name or id; `false` keeps an endpoint out.
pub const TUNNEL: &str = "webhook/tunnel";

/// What `records` adds where applying the endpoint again would mend something that no other property shows.
pub const DRIFT: &str = "webhook/drift";

/// The service of a published hostname that has a record and no rule.
pub const RECORD_ONLY: &str = "none";

/// The label that names the object an endpoint came from.
pub const RESOURCE_LABEL: &str = "resource";

/// The label that names who owns an endpoint.
pub const OWNER_LABEL: &str = "owner";

/// The label of a TXT endpoint of ExternalDNS's registry: the name of the endpoint that it is about.
pub const OWNED_RECORD_LABEL: &str = "ownedRecord";

const WEBHOOK_PREFIX: &str = "webhook/";
const TUNNEL_PREFIX: &str = "webhook/tunnel";
const CNAME: &str = "CNAME";

/// So many edits away from a property, another is taken for it misspelled.
const MISSPELLING_MAX_EDITS: usize = 2;

/// What a valid endpoint asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Publication {
    /// The name that is published.
    pub hostname: Hostname,
    /// The tunnel its record leads to.
    pub tunnel: TunnelId,
    /// The rule; none where only the record is asked for.
    pub rule: Option<WantedRule>,
}

impl Publication {
    /// The rule's path, as the digest is taken over it.
    pub fn path(&self) -> Option<&str> {
        self.rule.as_ref()?.path_text()
    }
}

/// Why an endpoint cannot be published as it stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// The property at fault, or what else is.
    pub subject: Box<str>,
    /// What is wrong with it and what is allowed.
    pub problem: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", OneLine(&self.subject), OneLine(&self.problem))
    }
}

/// An endpoint in its canonical form, and what it asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Canonical {
    /// What ExternalDNS gets back.
    pub endpoint: Endpoint,
    /// What is to be published, or why it cannot be.
    pub publication: Result<Publication, Vec<Fault>>,
    /// What was left out.
    pub notes: Vec<Note>,
}

/// Reads one endpoint without groups. `None`: its shape says that it is none of ours.
pub fn read(endpoint: &Endpoint, settings: &Settings) -> Option<Canonical> {
    if !["A", "AAAA", CNAME].contains(&&*endpoint.record_type) || opts_out(endpoint) {
        return None;
    }
    // Sorted, so that of two properties of one name the same one is read first whoever sent them.
    let mut endpoint = endpoint.clone();
    endpoint.provider_specific.sort_unstable();
    endpoint.provider_specific.dedup();
    let endpoint = &endpoint;

    let service_text = service_text(endpoint, settings)?;
    let mut reader = Reader { endpoint, faults: Vec::new(), notes: Vec::new() };
    let tunnel = reader.tunnel(settings);
    let hostname = reader.hostname();
    let rule = reader.rule(&service_text, hostname.as_ref(), settings);
    reader.unknown_properties();
    let Reader { endpoint: _, faults, notes } = reader;

    let target = match &tunnel {
        Ok(tunnel) => tunnel.hostname(),
        Err(_) => settings.default_tunnel().hostname(),
    };
    let publication = match (hostname, &tunnel, rule) {
        (Some(hostname), Ok(tunnel), Some(rule)) if faults.is_empty() => {
            Ok(Publication { hostname, tunnel: tunnel.clone(), rule })
        }
        _ => Err(faults),
    };
    let (set_identifier, properties) = match &publication {
        Ok(publication) => (publication.path().unwrap_or_default().to_owned(), properties_of(publication)),
        Err(_) => {
            let tunnel_text = tunnel.as_ref().err().and_then(Option::as_deref);
            (invalid_set_identifier(endpoint), invalid_properties(endpoint, &service_text, tunnel_text))
        }
    };
    let name = hostname::normalize(&endpoint.dns_name);
    // Whose an endpoint is, ExternalDNS says when it asks for changes. What a source claims would stop them all.
    let labels = endpoint.labels.without(OWNER_LABEL);
    let endpoint = render(name, target, set_identifier, properties, labels);
    Some(Canonical { endpoint, publication, notes })
}

/// The canonical properties of a rule as it stands in a tunnel's document.
pub fn properties_of_rule(rule: &Rule) -> Vec<Property> {
    let mut properties = options::properties_of_rule(rule);
    properties.push(Property::new(TUNNEL_SERVICE, rule.service()));
    properties.extend(rule.path().map(|path| Property::new(TUNNEL_PATH, path)));
    properties
}

/// The one function that puts a canonical endpoint together.
pub fn render(
    dns_name: String,
    target: String,
    set_identifier: String,
    mut properties: Vec<Property>,
    labels: Labels,
) -> Endpoint {
    properties.sort_unstable();
    properties.dedup();
    Endpoint {
        dns_name,
        targets: vec![target],
        record_type: CNAME.to_owned(),
        set_identifier,
        record_ttl: 0,
        labels,
        provider_specific: properties,
    }
}

/// Whether the endpoint says that it is not for a tunnel, and nothing else beside it.
fn opts_out(endpoint: &Endpoint) -> bool {
    let mut values =
        endpoint.provider_specific.iter().filter(|property| &*property.name == TUNNEL).peekable();
    values.peek().is_some() && values.all(|property| &*property.value == "false")
}

/// Whether something in the endpoint says where it is to be published to.
pub fn names_service(endpoint: &Endpoint, settings: &Settings) -> bool {
    service_text(endpoint, settings).is_some_and(|text| !text.is_empty())
        || endpoint.property(TUNNEL_SERVICE).is_some()
}

/// The text of the service, empty where the endpoint is meant for a tunnel and names none; `None` where its shape says
/// that it is none of ours.
fn service_text(endpoint: &Endpoint, settings: &Settings) -> Option<String> {
    if let Some(text) = endpoint.property(TUNNEL_SERVICE) {
        return Some(text.to_owned());
    }
    let mut services: Vec<&str> =
        endpoint.targets.iter().map(String::as_str).filter(|target| looks_like_service(target)).collect();
    if !services.is_empty() {
        services.sort_unstable();
        // Of several, no service comes: none has a blank in it.
        return Some(services.join(", "));
    }
    if endpoint.targets.iter().any(|target| settings.tunnel_of_target(target).is_some()) {
        return Some(RECORD_ONLY.to_owned());
    }
    if let Some(template) = &settings.default_service {
        return Some(template.fill(endpoint.labels.value(RESOURCE_LABEL).unwrap_or_default()));
    }
    let meant = endpoint.provider_specific.iter().any(|property| property.name.starts_with(TUNNEL_PREFIX));
    meant.then(String::new)
}

struct Reader<'a> {
    endpoint: &'a Endpoint,
    faults: Vec<Fault>,
    notes: Vec<Note>,
}

impl<'a> Reader<'a> {
    fn fault(&mut self, subject: &str, problem: impl Into<String>) {
        self.faults.push(Fault { subject: subject.into(), problem: problem.into() });
    }

    fn cannot_read(&mut self, subject: &str, text: &str, error: &dyn fmt::Display) {
        self.fault(subject, format!("is {text:?}: {error}"));
    }

    fn properties(&self) -> impl Iterator<Item = (&'a str, &'a str)> + Clone + use<'a> {
        self.endpoint.provider_specific.iter().map(|property| (&*property.name, &*property.value))
    }

    fn hostname(&mut self) -> Option<Hostname> {
        let name = hostname::normalize(&self.endpoint.dns_name);
        Hostname::parse(&name).map_err(|error| self.cannot_read("the name", &name, &error)).ok()
    }

    /// The tunnel that the target or the property names, else the default one. The error may hold another text of
    /// [`TUNNEL`]: where the targets are at fault, it is what makes the endpoint invalid when it is read again.
    fn tunnel(&mut self, settings: &Settings) -> Result<TunnelId, Option<String>> {
        let mut tunnels: Vec<TunnelId> =
            self.endpoint.targets.iter().filter_map(|target| TunnelId::from_hostname(target)).collect();
        if let Some(text) = self.endpoint.property(TUNNEL) {
            let Some(named) = settings.tunnel_called(text) else {
                let known = settings.tunnel_names();
                self.fault(TUNNEL, format!("is {text:?}, which is not configured; configured: {known}"));
                return Err(None);
            };
            tunnels.push(named.clone());
        }
        tunnels.sort_unstable();
        tunnels.dedup();
        match &*tunnels {
            [] => Ok(settings.default_tunnel().clone()),
            [tunnel] if settings.is_configured(tunnel) => Ok(tunnel.clone()),
            [tunnel] => {
                let known = settings.tunnel_names();
                self.fault(
                    "the target",
                    format!("leads to tunnel {tunnel}, which is not configured; configured: {known}"),
                );
                Err(Some(tunnel.to_string()))
            }
            _ => {
                self.fault(TUNNEL, "and the targets name different tunnels; a hostname has one");
                Err(Some(tunnels.iter().map(|tunnel| tunnel.as_str()).collect::<Vec<_>>().join(",")))
            }
        }
    }

    #[allow(
        clippy::option_option,
        reason = "no rule at all, and a rule that could not be read, are different"
    )]
    fn rule(
        &mut self,
        service: &str,
        hostname: Option<&Hostname>,
        settings: &Settings,
    ) -> Option<Option<WantedRule>> {
        let path = self.path();
        let defaults = if service == RECORD_ONLY { &[] } else { &*settings.origin_defaults };
        let options::OptionsRead { origin_request, left_out, invalid } =
            options::read(&self.endpoint.provider_specific, defaults);
        for BadOption { property, problem } in left_out {
            self.notes.push(Note::left_out(self.endpoint, &property, &problem));
        }
        for BadOption { property, problem } in invalid {
            self.faults.push(Fault { subject: property, problem });
        }
        if service.is_empty() {
            self.fault(TUNNEL_SERVICE, "is missing; name the service, or set it to none for the record only");
            return None;
        }
        if service == RECORD_ONLY {
            if path != Some(None) || !origin_request.is_empty() {
                self.fault(
                    TUNNEL_SERVICE,
                    "is none, so there is no rule that a path or an option could go into",
                );
            }
            return Some(None);
        }
        let service = Service::parse(service)
            .map_err(|error| self.cannot_read(TUNNEL_SERVICE, service, &error))
            .ok()?;
        Some(Some(WantedRule { hostname: hostname?.clone(), path: path?, service, origin_request }))
    }

    #[allow(clippy::option_option, reason = "no path, and a path that could not be read, are different")]
    fn path(&mut self) -> Option<Option<PathPattern>> {
        let expression = self.endpoint.property(TUNNEL_PATH);
        let prefix = self.endpoint.property(TUNNEL_PATH_PREFIX);
        let (subject, parsed) = match (expression, prefix) {
            (None, None) => return Some(None),
            (Some(text), None) => (TUNNEL_PATH, PathPattern::parse(text)),
            (None, Some(text)) => (TUNNEL_PATH_PREFIX, PathPattern::from_prefix(text)),
            (Some(_), Some(_)) => {
                self.fault(TUNNEL_PATH_PREFIX, format!("and {TUNNEL_PATH} are both set; keep one"));
                return None;
            }
        };
        let text = expression.or(prefix).unwrap_or_default();
        parsed.map(Some).map_err(|error| self.cannot_read(subject, text, &error)).ok()
    }

    /// An unknown property under a prefix that limits what is published is a fault, and so is a misspelling of one that
    /// does; any other is only named.
    fn unknown_properties(&mut self) {
        let known = [TUNNEL_SERVICE, TUNNEL_PATH, TUNNEL_PATH_PREFIX, TUNNEL];
        let mut unknown = self.properties().map(|(name, _)| name).filter(|name| {
            name.starts_with(WEBHOOK_PREFIX)
                && !known.contains(name)
                && !name.starts_with(options::ACCESS_PREFIX)
                && !options::is_origin_option(name)
        });
        for name in unknown.by_ref().take(limits::UNKNOWN_PROPERTIES_MAX) {
            let nearest = nearest_property(name);
            let problem = match &nearest {
                Some((nearest, _)) => format!("is unknown; did you mean {nearest}?"),
                None => "is unknown".to_owned(),
            };
            let is_misspelled_limit = nearest.is_some_and(|(nearest, edits)| {
                edits <= MISSPELLING_MAX_EDITS && limits_what_is_published(&nearest)
            });
            if is_misspelled_limit || limits_what_is_published(name) {
                self.fault(name, problem);
            } else {
                self.notes.push(Note::left_out(self.endpoint, name, &problem));
            }
        }
        if unknown.next().is_some() {
            self.fault(WEBHOOK_PREFIX, "begins more unknown properties than are looked at");
        }
        // They are sorted, and each is there once. Of others' properties nothing is kept that could conflict.
        let properties = self.endpoint.provider_specific.iter();
        let ours = properties.filter(|property| property.name.starts_with(WEBHOOK_PREFIX));
        let conflicting = ours.clone().zip(ours.skip(1)).find(|(one, next)| one.name == next.name);
        if let Some((property, _)) = conflicting {
            self.fault(&property.name, "is set twice, to different values");
        }
    }
}

fn properties_of(publication: &Publication) -> Vec<Property> {
    match &publication.rule {
        Some(rule) => properties_of_wanted(rule),
        None => vec![Property::new(TUNNEL_SERVICE, RECORD_ONLY)],
    }
}

/// The canonical properties of a rule as it is wanted.
pub fn properties_of_wanted(rule: &WantedRule) -> Vec<Property> {
    let WantedRule { hostname: _, path, service, origin_request } = rule;
    let mut properties = options::properties(origin_request);
    properties.push(Property::new(TUNNEL_SERVICE, service.as_str()));
    properties.extend(path.as_ref().map(|path| Property::new(TUNNEL_PATH, path.as_str())));
    properties
}

/// The properties of an invalid endpoint as they were written, so that it is refused again wherever it is read, and
/// the service beside them, as the target gives way to the tunnel's.
fn invalid_properties(endpoint: &Endpoint, service: &str, tunnel: Option<&str>) -> Vec<Property> {
    let mut properties: Vec<Property> = endpoint
        .provider_specific
        .iter()
        .filter(|property| {
            property.name.starts_with(WEBHOOK_PREFIX) && (&*property.name != TUNNEL || tunnel.is_none())
        })
        .cloned()
        .collect();
    if endpoint.property(TUNNEL_SERVICE).is_none() {
        properties.push(Property::new(TUNNEL_SERVICE, service));
    }
    properties.extend(tunnel.map(|tunnel| Property::new(TUNNEL, tunnel)));
    properties
}

fn invalid_set_identifier(endpoint: &Endpoint) -> String {
    match (endpoint.property(TUNNEL_PATH), endpoint.property(TUNNEL_PATH_PREFIX)) {
        (Some(path), _) => path.to_owned(),
        (None, Some(prefix)) => PathPattern::from_prefix(prefix)
            .map_or_else(|_| prefix.to_owned(), |path| path.as_str().to_owned()),
        (None, None) => String::new(),
    }
}

/// Whether leaving the property out would publish more than was asked for.
fn limits_what_is_published(name: &str) -> bool {
    name.starts_with(TUNNEL_PREFIX) || name.starts_with(options::ACCESS_PREFIX) || name == options::IP_RULES
}

/// The known property whose name takes the fewest edits, whatever its case, and how many; nothing for a name that is
/// too long to be meant for one.
fn nearest_property(name: &str) -> Option<(String, usize)> {
    if name.len() > limits::PROPERTY_NAME_MAX_BYTES {
        return None;
    }
    let name = name.to_ascii_lowercase();
    [TUNNEL_SERVICE, TUNNEL_PATH, TUNNEL_PATH_PREFIX, TUNNEL]
        .into_iter()
        .chain([options::ACCESS_REQUIRED, options::ACCESS_TEAM_NAME, options::ACCESS_AUD_TAG])
        .map(str::to_owned)
        .chain(options::origin_property_names())
        .map(|known| {
            let edits = edit_distance(&name, &known);
            (known, edits)
        })
        .min_by_key(|(_, edits)| *edits)
}

/// Levenshtein's distance in bytes: names of properties and of variables are ASCII, and a hint needs no more.
pub(crate) fn edit_distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, from_byte) in from.bytes().enumerate() {
        let mut diagonal = std::mem::replace(row.first_mut().expect("a row has at least one cell"), i + 1);
        let mut left = i + 1;
        for (cell, to_byte) in row.iter_mut().skip(1).zip(to.bytes()) {
            let substituted = diagonal + usize::from(from_byte != to_byte);
            diagonal = *cell;
            left = substituted.min(*cell + 1).min(left + 1);
            *cell = left;
        }
    }
    row.last().copied().unwrap_or_default()
}
