//! The canonical endpoint: the one form in which a published hostname is shown to ExternalDNS.
//!
//! ExternalDNS compares what `adjust` returned with what `records` returns, so both render here. An endpoint that a
//! user means as a published hostname keeps its canonical name, type, target and set identifier even when something
//! in it is invalid; what it asks for is then a [`Problem`], which `plan` refuses by name.

use std::fmt;

use crate::ingress::{Rule, WantedRule};
use crate::limits;
use crate::model::endpoint::{Endpoint, Labels, Property};
use crate::model::text::one_line;
use crate::model::{Hostname, TunnelId};

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

/// The one property of an endpoint that is invalid: why it is. With it the endpoint stays invalid wherever it is read,
/// also where the cause is not in it any more: in another rule of its object, or in what was too much to keep.
pub const INVALID: &str = "webhook/invalid";

/// The service of a published hostname that has a record and no rule.
pub const RECORD_ONLY: &str = "none";

/// The label that names the object an endpoint came from.
pub const RESOURCE_LABEL: &str = "resource";

/// The label that names who owns an endpoint.
pub const OWNER_LABEL: &str = "owner";

/// The label of a TXT endpoint of ExternalDNS's registry: the name of the endpoint that it is about.
pub const OWNED_RECORD_LABEL: &str = "ownedRecord";

const CNAME: &str = "CNAME";

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

/// One thing that is wrong with an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The property at fault, or what else is.
    pub subject: Box<str>,
    /// What is wrong with it and what is allowed.
    pub problem: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subject = one_line(&self.subject, limits::ERROR_TEXT_MAX_CHARS);
        write!(formatter, "{subject} {}", one_line(&self.problem, limits::ERROR_TEXT_MAX_CHARS))
    }
}

/// Why an endpoint cannot be published: a text for one line of the log, cut.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem(Box<str>);

impl Problem {
    /// Everything that is wrong with an endpoint.
    pub fn of(faults: &[Fault]) -> Self {
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        Self::read(&faults.join("; "))
    }

    /// What the property [`INVALID`] says.
    pub fn read(text: &str) -> Self {
        Self(one_line(text, limits::PROBLEM_MAX_CHARS).to_string().into())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// An endpoint in its canonical form, and what it asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Canonical {
    /// What ExternalDNS gets back.
    pub endpoint: Endpoint,
    /// What is to be published, or why it cannot be.
    pub publication: Result<Publication, Problem>,
}

impl Canonical {
    /// The object that the endpoint came from.
    pub fn resource(&self) -> Option<&str> {
        self.endpoint.labels.value(RESOURCE_LABEL)
    }
}

/// The canonical properties of a rule as it stands in a tunnel's document.
pub fn properties_of_rule(rule: &Rule) -> Vec<Property> {
    let mut properties = rule.option_properties();
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

/// The canonical properties of a publication.
pub fn properties_of(publication: &Publication) -> Vec<Property> {
    match &publication.rule {
        Some(rule) => properties_of_wanted(rule),
        None => vec![Property::new(TUNNEL_SERVICE, RECORD_ONLY)],
    }
}

/// The canonical properties of a rule as it is wanted.
pub fn properties_of_wanted(rule: &WantedRule) -> Vec<Property> {
    let WantedRule { hostname: _, path, service, origin_request: options } = rule;
    let mut properties = options.properties();
    properties.push(Property::new(TUNNEL_SERVICE, service.as_str()));
    properties.extend(path.as_ref().map(|path| Property::new(TUNNEL_PATH, path.as_str())));
    properties
}
