//! Reads one rule of an endpoint, or its record alone. What is wrong with it is a fault, and all of them are told.

use std::fmt;

use super::{EndpointReader, ServiceText};
use crate::ingress::access::ACCESS_PROPERTIES;
use crate::ingress::{OriginRequest, PathPattern, Service, WantedRule};
use crate::model::TunnelId;
use crate::model::access::SessionDuration;
use crate::model::endpoint::Endpoint;
use crate::model::hostname::Hostname;
use crate::reconcile::access_wish::{
    self, ACCESS_POLICY, ACCESS_SESSION_DURATION, AccessWish, OPEN, ProtectionWish,
};
use crate::reconcile::applications::Place;
use crate::reconcile::canonical::{
    Fault, RECORD_ONLY, TUNNEL, TUNNEL_PATH, TUNNEL_PATH_PREFIX, TUNNEL_SERVICE,
};
use crate::reconcile::groups::Part;
use crate::reconcile::permitted;
use crate::reconcile::property_name::{self, Meaning};
use crate::reconcile::target::Target;

/// Reads the properties of one rule.
pub(super) struct PartReader<'r, 's> {
    pub(super) reader: &'r mut EndpointReader<'s>,
    pub(super) endpoint: &'r Endpoint,
    /// The meanings of the endpoint's targets.
    pub(super) targets: &'r [Target],
    pub(super) part: &'r Part<'r>,
    pub(super) faults: Vec<Fault>,
}

impl PartReader<'_, '_> {
    fn fault(&mut self, subject: &str, problem: impl Into<String>) {
        self.faults.push(Fault { subject: subject.into(), problem: problem.into() });
    }

    fn cannot_read(&mut self, subject: &str, text: &str, error: &dyn fmt::Display) {
        self.fault(subject, format!("is {text:?}: {error}"));
    }

    pub(super) fn hostname(&mut self) -> Option<Hostname> {
        let name = &self.endpoint.dns_name;
        Hostname::parse(name).map_err(|error| self.cannot_read("the name", name, &error)).ok()
    }

    /// The tunnel that the target or the property names, else the default one.
    pub(super) fn tunnel(&mut self) -> Option<TunnelId> {
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
    pub(super) fn rule(
        &mut self,
        service: &ServiceText<'_>,
        hostname: Option<&Hostname>,
    ) -> Option<Option<WantedRule>> {
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
        let origin_request = OriginRequest::read(&|name| part.text(name), defaults)
            .map_err(|bad| self.faults.extend(bad.into_iter().map(Fault::from)))
            .ok();
        if text.is_empty() {
            self.fault(TUNNEL_SERVICE, "is missing; name the service, or set it to none for the record only");
            return None;
        }
        if is_record {
            if path != Some(None) || origin_request.is_some_and(|options| !options.is_empty()) {
                self.fault(
                    TUNNEL_SERVICE,
                    "is none, so there is no rule that a path or an option could go into",
                );
            }
            return Some(None);
        }
        let service = Service::parse(text).map_err(|error| self.cannot_read(subject, text, &error)).ok()?;
        if let Some(property) = part.path_property().filter(|_| service.is_tcp()) {
            self.fault(property, "is of a service whose clients ask for no path: take the path off");
        }
        let (hostname, origin_request) = (hostname?.clone(), origin_request?);
        let rule = WantedRule { hostname, path: path?, service, origin_request };
        self.faults.extend(permitted::faults(&rule, subject, settings));
        Some(Some(rule))
    }

    /// Who may reach it. `rule` is `Some(None)` for the record alone.
    #[allow(
        clippy::option_option,
        reason = "no rule at all, and a rule that could not be read, are different"
    )]
    pub(super) fn access(
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

    /// Checks the names. A misspelled name is a fault.
    pub(super) fn names(&mut self) {
        for (name, _) in &self.part.said {
            match self.reader.meaning(name) {
                Meaning::Misspelled(Some(nearest)) => {
                    self.fault(name, format!("is unknown; did you mean {nearest}?"));
                }
                Meaning::Misspelled(None) => self.fault(name, "is unknown"),
                Meaning::Known | Meaning::Foreign => {}
            }
        }
        // They are sorted and without duplicates. Properties of others are not kept, so they cannot conflict.
        let ours = self.part.said.iter().filter(|(name, _)| name.starts_with(property_name::PREFIX));
        let conflicting = ours.clone().zip(ours.skip(1)).find(|((one, _), (next, _))| one == next);
        if let Some(((name, _), _)) = conflicting {
            self.fault(name, "is set twice, to different values");
        }
    }
}
