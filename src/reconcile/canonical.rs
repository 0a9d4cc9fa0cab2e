//! The canonical endpoint: the one form in which ExternalDNS is shown a published hostname.
//!
//! ExternalDNS compares the endpoints of `adjust` with those of `records`, so both are rendered here. An endpoint that
//! is meant as a published hostname has its canonical name, type, target and set identifier even if a part of it is
//! invalid. Its request is then a [`Problem`], which `plan` refuses by name.

use std::fmt;

use crate::ingress::origin_option::Mistake;
use crate::ingress::{Rule, WantedRule};
use crate::limits;
use crate::model::endpoint::{Endpoint, Labels, Property};
use crate::model::text::one_line;
use crate::model::{Hostname, TunnelId};
use crate::reconcile::access::wanted::{self, WantedAccess};
use crate::reconcile::property_name::{ACCESS_PREFIX, INVALID, TUNNEL_PATH, TUNNEL_SERVICE};

/// The service of a published hostname with a record but no rule.
pub const RECORD_ONLY: &str = "none";

/// The label that names an endpoint's object.
pub const RESOURCE_LABEL: &str = "resource";

/// The label that names an endpoint's owner.
pub const OWNER_LABEL: &str = "owner";

/// The label of a TXT endpoint of ExternalDNS's registry that names the endpoint it describes.
pub const OWNED_RECORD_LABEL: &str = "ownedRecord";

pub(super) const CNAME: &str = "CNAME";

/// The prefix of the set identifier of an endpoint whose path is not known. Such an endpoint conflicts with no valid
/// one: a path expression closes its parentheses.
pub(super) const UNKNOWN_PATH_PREFIX: &str = "unread:(";

/// True if an invalid endpoint with this set identifier has a path that is not known.
pub fn is_unknown_path(set_identifier: &str) -> bool {
    set_identifier.starts_with(UNKNOWN_PATH_PREFIX)
}

/// The path of a set identifier; `None` for the whole hostname.
pub fn path_of(set_identifier: &str) -> Option<&str> {
    Some(set_identifier).filter(|path| !path.is_empty())
}

/// What a valid endpoint asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Publication {
    pub hostname: Hostname,
    /// The tunnel to which the record points.
    pub tunnel: TunnelId,
    /// The rule; `None` for a record without a rule.
    pub rule: Option<WantedRule>,
    pub wanted_access: WantedAccess,
}

impl Publication {
    /// The rule's path, as used in the digest.
    pub fn path(&self) -> Option<&str> {
        self.rule.as_ref()?.path_text()
    }
}

/// The reason why an endpoint cannot be published: a text for one log line, cut.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem(Box<str>);

impl Problem {
    /// Joins all mistakes of an endpoint. Those of Access come first, so that they are not cut off.
    pub fn of(mistakes: &[Mistake]) -> Self {
        let mut mistakes: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
        mistakes.sort_by_key(|text| !names_access(text));
        Self::new(&mistakes.join("; "))
    }

    /// True if the text names a property of Access, so that a login may be missing.
    pub fn concerns_access(&self) -> bool {
        names_access(&self.0)
    }

    /// The problem in this text, such as the value of the property [`INVALID`].
    pub fn new(text: &str) -> Self {
        Self(one_line(text, limits::PROBLEM_MAX_CHARS).to_string().into())
    }
}

/// True if the text names a property of Access, but for texts in quotation marks, which the author of an object chose.
fn names_access(text: &str) -> bool {
    let unescaped = text.replace(r"\\", "").replace(r#"\""#, "");
    unescaped.split('"').step_by(2).any(|unquoted| unquoted.contains(ACCESS_PREFIX))
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// An endpoint in its canonical form, with its request.
#[derive(Clone, Debug, PartialEq)]
pub struct CanonicalEndpoint {
    /// The endpoint that ExternalDNS gets back.
    pub endpoint: Endpoint,
    /// The publication, or the reason why there is none.
    pub publication: Result<Publication, Problem>,
    pub intent: Intent,
}

/// What an object asks for where its canonical endpoint looks like a default, or where a mistake hides the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Intent {
    /// The object asks for a login, perhaps by a mistake.
    pub asks_for_login: bool,
    /// The rule gets `DEFAULT_SERVICE`.
    pub uses_default: bool,
    /// The hostname is a wildcard, and the object has to set `webhook/tunnel-wildcard` to true and does not.
    pub unasked_wildcard: bool,
}

/// A canonical endpoint that the answer may contain.
#[derive(Debug, Default, PartialEq)]
pub struct Candidate {
    pub endpoint: Endpoint,
    pub intent: Intent,
    /// The wildcard is published, although the object does not ask for it.
    pub is_public_unasked: bool,
    pub is_left_out: bool,
}

/// The endpoint's object; empty if it is unknown.
pub fn resource_of(endpoint: &Endpoint) -> &str {
    endpoint.labels.value(RESOURCE_LABEL).unwrap_or_default()
}

/// True if a mistake keeps the endpoint from being published.
pub fn is_invalid(endpoint: &Endpoint) -> bool {
    endpoint.property(INVALID).is_some()
}

/// Makes a valid endpoint invalid. An invalid endpoint keeps its problem.
pub(super) fn invalidate(endpoint: &mut Endpoint, problem: &str) {
    if !is_invalid(endpoint) {
        endpoint.provider_specific = vec![Property::new(INVALID, problem)];
    }
}

/// The properties of a rule as its tunnel's document has it, with its own Access check.
pub fn properties_in_document(rule: &Rule) -> Vec<Property> {
    let mut properties = rule.option_properties();
    properties.push(Property::new(TUNNEL_SERVICE, rule.service()));
    properties.extend(rule.path().map(|path| Property::new(TUNNEL_PATH, path)));
    properties
}

/// The endpoint in canonical form, with sorted properties.
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
    let Publication { hostname: _, tunnel: _, rule, wanted_access } = publication;
    let mut properties = wanted::properties(wanted_access);
    properties.extend(rule.iter().flat_map(|rule| rule.origin_request.properties()));
    let service = rule.as_ref().map_or(RECORD_ONLY, |rule| rule.service.as_str());
    properties.push(Property::new(TUNNEL_SERVICE, service));
    properties.extend(publication.path().map(|path| Property::new(TUNNEL_PATH, path)));
    properties
}
