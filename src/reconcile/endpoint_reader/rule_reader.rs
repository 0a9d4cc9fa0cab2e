//! Reads one rule of an endpoint, or its record alone. All its mistakes are reported.

use std::fmt;

use super::{EndpointReader, ServiceText};
use crate::ingress::access_check::ACCESS_PROPERTIES;
use crate::ingress::origin_option::Mistake;
use crate::ingress::{OriginOption, OriginRequest, PathPattern, Service, WantedRule};
use crate::model::TunnelId;
use crate::model::access::SessionDuration;
use crate::model::endpoint::Endpoint;
use crate::model::hostname::Hostname;
use crate::reconcile::access::place::Place;
use crate::reconcile::access::wanted::{self, OPEN, WantedAccess, WantedApplication};
use crate::reconcile::adopt;
use crate::reconcile::canonical::{self, RECORD_ONLY, RESOURCE_LABEL};
use crate::reconcile::groups::RuleProperties;
use crate::reconcile::permitted;
use crate::reconcile::property_name::{
    self, ACCESS_POLICY, ACCESS_SESSION_DURATION, Meaning, TUNNEL, TUNNEL_PATH, TUNNEL_PATH_PREFIX,
    TUNNEL_SERVICE, TUNNEL_WILDCARD,
};
use crate::reconcile::target::TargetKind;
use crate::reconcile::wildcard::{self, ASKED};

/// Reads the properties of one rule.
pub(super) struct RuleReader<'r, 's> {
    pub(super) reader: &'r mut EndpointReader<'s>,
    pub(super) endpoint: &'r Endpoint,
    /// The endpoint's targets, with their kinds.
    pub(super) targets: &'r [(&'r str, TargetKind)],
    pub(super) properties: &'r RuleProperties<'r>,
    pub(super) mistakes: Vec<Mistake>,
}

const UNFILLED: &str = "braces are only for {name} and {namespace}, in webhook/tunnel-service and \
     DEFAULT_SERVICE, if the endpoint's object is known";

/// A value that cannot be read. Its mistake is already in `mistakes`.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnreadableValue;

/// What is read of one or more properties.
type Read<T> = Result<T, UnreadableValue>;

impl RuleReader<'_, '_> {
    pub(super) fn mistake(&mut self, subject: &str, problem: impl Into<String>) -> UnreadableValue {
        self.mistakes.push(Mistake::new(subject, problem));
        UnreadableValue
    }

    fn cannot_read(&mut self, subject: &str, text: &str, error: &dyn fmt::Display) -> UnreadableValue {
        self.mistake(subject, format!("is {text:?}: {error}"))
    }

    pub(super) fn hostname(&mut self) -> Read<Hostname> {
        let name = &self.endpoint.dns_name;
        Hostname::parse(name).map_err(|error| self.cannot_read("the name", name, &error))
    }

    /// The tunnel that the target or the property names, else the default one.
    pub(super) fn tunnel(&mut self) -> Read<TunnelId> {
        let settings = self.reader.settings;
        let default = settings.default_tunnel();
        let mut tunnels = Vec::new();
        for (text, kind) in self.targets {
            match kind {
                TargetKind::Tunnel(tunnel) => tunnels.push(tunnel),
                TargetKind::MalformedTunnel => {
                    let example = default.hostname();
                    let problem = format!("is {text:?}: a tunnel's hostname looks like {example}");
                    return Err(self.mistake("the target", problem));
                }
                TargetKind::Service | TargetKind::ClusterName | TargetKind::Other => {}
            }
        }
        if let Some(text) = self.properties.text(TUNNEL) {
            let Some(named) = settings.tunnel_called(text) else {
                let known = settings.tunnel_names();
                let problem = format!(
                    "is {text:?}, which is not configured; configured: {known}; \"true\" is the first, \"false\" none"
                );
                return Err(self.mistake(TUNNEL, problem));
            };
            tunnels.push(named);
        }
        let tunnel = *tunnels.first().unwrap_or(&default);
        if tunnels.iter().any(|other| *other != tunnel) {
            return Err(
                self.mistake("the endpoint", "names several tunnels, and a hostname has one: keep one")
            );
        }
        if !settings.is_configured(tunnel) {
            let known = settings.tunnel_names();
            let problem = format!("points to tunnel {tunnel}, which is not configured; configured: {known}");
            return Err(self.mistake("the target", problem));
        }
        Ok(tunnel.clone())
    }

    /// The rule; `None` for a record without a rule.
    pub(super) fn rule(
        &mut self,
        ServiceText { source: subject, text }: ServiceText<'_>,
        hostname: &Read<Hostname>,
    ) -> Read<Option<WantedRule>> {
        let settings = self.reader.settings;
        let properties = self.properties;
        let path = self.path();
        if !properties.is_complete {
            self.mistake(
                &format!("the group {:?}", properties.group),
                "has no path of its own: check the group's spelling; a property for all paths has no group",
            );
        }
        let is_record = text == RECORD_ONLY;
        let no_defaults = OriginRequest::default();
        let defaults = if is_record { &no_defaults } else { &settings.operator.origin_defaults };
        let origin_request = OriginRequest::read(&|name| properties.text(name), defaults).map_err(|bad| {
            self.mistakes.extend(bad);
            UnreadableValue
        });
        if text.is_empty() {
            let problem = "is missing: name the service here, as the target or in DEFAULT_SERVICE, or none \
                 for the record only";
            return Err(self.mistake(TUNNEL_SERVICE, problem));
        }
        if is_record {
            if !matches!(path, Ok(None))
                || origin_request.is_ok_and(|options| options != OriginRequest::default())
            {
                let problem = "is none, and a record without a rule has no path and no options: remove them";
                self.mistake(TUNNEL_SERVICE, problem);
            }
            return Ok(None);
        }
        if text.eq_ignore_ascii_case(RECORD_ONLY) {
            return Err(self.cannot_read(subject, &text, &"write none in lower case"));
        }
        let service = Service::parse(&text).map_err(|error| {
            let is_unfilled = text.contains(['{', '}']);
            self.cannot_read(subject, &text, if is_unfilled { &UNFILLED } else { &error })
        })?;
        if service.is_tcp()
            && let Some(property) = properties.path_property()
        {
            self.mistake(property, "is set, and a TCP service has no paths: remove the path");
        }
        let (hostname, path, origin_request) = (hostname.clone()?, path?, origin_request?);
        let rule = WantedRule { hostname, path, service, origin_request };
        let kind = canonical::resource_of(self.endpoint).split('/').next().unwrap_or_default();
        self.mistakes.extend(permitted::mistakes(&rule, subject, settings));
        self.mistakes.extend(gateway_route_mistake(&rule, subject, kind));
        Ok(Some(rule))
    }

    /// The request about Access.
    pub(super) fn access(&mut self, rule: &Read<Option<WantedRule>>) -> Read<WantedAccess> {
        let operator = &self.reader.settings.operator;
        let properties = self.properties;
        if let Some(property) = ACCESS_PROPERTIES.iter().find(|name| properties.text(name).is_some()) {
            self.add_mistakes_of_own_check(property, rule);
            return Ok(WantedAccess::Unspecified);
        }
        let text = properties.text(ACCESS_POLICY);
        let default = operator.default_access_policy.iter().map(|name| &**name);
        let names = match text {
            Some(text) => {
                wanted::names(text).map_err(|error| self.cannot_read(ACCESS_POLICY, text, &error))?
            }
            None => Some(default.collect()).filter(|names: &Vec<&str>| !names.is_empty()),
        };
        let Some(names) = names else { return Ok(self.access_without_policies()) };
        let duration = match properties.text(ACCESS_SESSION_DURATION) {
            None => SessionDuration::default(),
            Some(text) => SessionDuration::parse(text).ok_or_else(|| {
                let problem = format!("is {text:?}: allowed are times such as 24h, 90m and 1h30m");
                self.mistake(ACCESS_SESSION_DURATION, problem)
            })?,
        };
        self.refuse_unprotectable(rule)?;
        WantedApplication::new(&names, duration, self.reader.access.policies(), operator)
            .map_err(|error| self.cannot_read(ACCESS_POLICY, text.unwrap_or_default(), &error))
            .map(WantedAccess::Protected)
    }

    /// Adds the mistakes of an endpoint whose `property` sets the Access check of the rule itself.
    fn add_mistakes_of_own_check(&mut self, property: &str, rule: &Read<Option<WantedRule>>) {
        let is_set = |name| self.properties.text(name).is_some();
        if is_set(ACCESS_POLICY) || is_set(ACCESS_SESSION_DURATION) {
            self.mistake(ACCESS_POLICY, format!("and {property} are both set; keep one"));
        }
        let requires = matches!(rule, Ok(Some(rule)) if rule.requires_access());
        if let Some(setting) = self.reader.settings.operator.conflict_with_check(requires) {
            let problem = format!("is set, but {setting} sets Access for every rule: remove {property}");
            self.mistake(property, problem);
        }
    }

    /// The request of an endpoint for which no policy is named: to be open if the endpoint says so.
    fn access_without_policies(&mut self) -> WantedAccess {
        if self.properties.text(ACCESS_SESSION_DURATION).is_some() {
            self.mistake(ACCESS_SESSION_DURATION, format!("is set, but {ACCESS_POLICY} names no policy"));
        }
        if self.properties.text(ACCESS_POLICY).is_none() {
            return WantedAccess::Unspecified;
        }
        if !self.reader.settings.operator.access_opt_out {
            let problem = format!("is {OPEN}, and ACCESS_OPT_OUT=false lets no object open a hostname");
            self.mistake(ACCESS_POLICY, problem);
        }
        WantedAccess::Open
    }

    /// Refuses a login for what no application can protect: a record without a rule, or a path that is no place.
    fn refuse_unprotectable(&mut self, rule: &Read<Option<WantedRule>>) -> Read<()> {
        // The mistake of an unreadable rule is already in `mistakes`.
        let Ok(rule) = rule else { return Ok(()) };
        let Some(rule) = rule else {
            let problem = format!(
                "or DEFAULT_ACCESS_POLICY asks for a login, which a record without a rule cannot require: \
                 name a service, or set {ACCESS_POLICY}: {OPEN}"
            );
            return Err(self.mistake(ACCESS_POLICY, problem));
        };
        let is_default = self.properties.text(ACCESS_POLICY).is_none();
        let by = if is_default { "(from DEFAULT_ACCESS_POLICY) " } else { "" };
        let place = Place::of(&rule.hostname, rule.path_text());
        place.validate().map_err(|problem| self.mistake(ACCESS_POLICY, format!("{by}{problem}")))
    }

    fn path(&mut self) -> Read<Option<PathPattern>> {
        let (subject, text) =
            match (self.properties.text(TUNNEL_PATH), self.properties.text(TUNNEL_PATH_PREFIX)) {
                (None, None) => return Ok(None),
                (Some(text), None) => (TUNNEL_PATH, text),
                (None, Some(text)) => (TUNNEL_PATH_PREFIX, text),
                (Some(_), Some(_)) => {
                    let problem = format!("and {TUNNEL_PATH} are both set; keep one");
                    return Err(self.mistake(TUNNEL_PATH_PREFIX, problem));
                }
            };
        let parsed = self.reader.path(subject, text);
        parsed.map(Some).map_err(|error| self.cannot_read(subject, text, &error))
    }

    /// True for a wildcard whose object has to set [`TUNNEL_WILDCARD`] to true and does not, unless it misspells the
    /// property or its value.
    pub(super) fn is_unasked_wildcard(&mut self, hostname: &Read<Hostname>) -> bool {
        let endpoint = self.endpoint;
        let properties = self.properties;
        let said = properties.text(TUNNEL_WILDCARD);
        let problem = match said {
            _ if said != endpoint.property(TUNNEL_WILDCARD) => {
                Some("applies to the whole object: set it without a group")
            }
            None | Some(ASKED | "false") => None,
            Some(_) => Some("is neither true nor false"),
        };
        if let Some(problem) = problem {
            self.mistake(TUNNEL_WILDCARD, problem);
            return false;
        }
        let name = hostname.as_ref().map_or(&*endpoint.dns_name, Hostname::as_str);
        said != Some(ASKED)
            && wildcard::needs_property(name, endpoint.labels.value(RESOURCE_LABEL))
            && !properties.entries.iter().any(|(name, _)| match self.reader.meaning(name) {
                Meaning::Misspelled(nearest) => nearest.is_none_or(|nearest| nearest == TUNNEL_WILDCARD),
                Meaning::Known | Meaning::Foreign => false,
            })
    }

    /// Adds a mistake for each misspelled name, for a value in quotation marks, and for a property that is set twice.
    pub(super) fn add_mistakes_of_names(&mut self) {
        let marks = adopt::QUOTATION_MARKS;
        for (name, value) in &self.properties.entries {
            match self.reader.meaning(name) {
                Meaning::Misspelled(nearest) => {
                    let hint = match nearest {
                        Some(nearest) => format!("did you mean {nearest}?"),
                        None => format!("there are {}", property_name::with_word_of(name).join(", ")),
                    };
                    // The hint may name a property of Access, so the name opens no quotation before it.
                    self.mistake(&name.escape_debug().to_string(), format!("is unknown; {hint}"));
                }
                Meaning::Known if value.starts_with(marks) && value.ends_with(marks) => {
                    self.mistake(name, "has quotation marks: remove them");
                }
                Meaning::Known | Meaning::Foreign => {}
            }
        }
        // The properties are sorted and without duplicates. Foreign properties are not read, so they cannot conflict.
        let ours = self.properties.entries.iter().filter(|(name, _)| name.starts_with(property_name::PREFIX));
        let conflicting = ours.clone().zip(ours.skip(1)).find(|((one, _), (next, _))| one == next);
        if let Some(((name, _), _)) = conflicting {
            self.mistake(name, "is set twice, to different values");
        }
    }
}

/// The mistake of a rule for a Gateway API route of this kind, if the route carries no HTTP and names no service of its
/// own: a rule with the service of the Gateway, which is the target of all its routes, or with the default service
/// would silently publish another service. `subject` names the source of the rule's service.
fn gateway_route_mistake(rule: &WantedRule, subject: &str, kind: &str) -> Option<Mistake> {
    let way = match kind {
        "tcproute" => {
            "and the route carries TCP: set webhook/tunnel-service: tcp://name.namespace.svc:port on it"
        }
        "udproute" => "and no rule carries UDP: remove the hostname from the route",
        "tlsroute" if !names_host(rule) => {
            "and the Gateway finds no TLSRoute without the server name (SNI): publish an https:// service with \
             webhook/origin-match-sni-to-host: \"true\", or the route's own webhook/tunnel-service"
        }
        _ => return None,
    };
    let problem = || format!("is {:?}, {way}", rule.service.as_str());
    (subject != TUNNEL_SERVICE).then(|| Mistake::new(subject, problem()))
}

/// True if an option sets the TLS name for an HTTPS service, or if the service is no HTTP service.
fn names_host(rule: &WantedRule) -> bool {
    let options = &rule.origin_request;
    match rule.service.as_str().split_once("://") {
        Some(("http" | "ws", _)) => false,
        Some(("https" | "wss", _)) => {
            options.is_on(OriginOption::MatchSniToHost) || options.text(OriginOption::ServerName).is_some()
        }
        _ => true,
    }
}
