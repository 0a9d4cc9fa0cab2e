//! What protects a hostname now: rules that require a login, and our Access applications.

use std::collections::BTreeMap;

use crate::ingress::Rule;
use crate::ingress::access::Access;
use crate::model::access::Application;
use crate::model::endpoint::Endpoint;
use crate::model::{Hostname, TunnelId};
use crate::reconcile::Settings;
use crate::reconcile::access_guard::{AccessReading, AccessSnapshot};
use crate::reconcile::access_wish::{ACCESS_POLICY, OPEN};
use crate::reconcile::applications::{self, Place};
use crate::reconcile::snapshot::{OwnRules, Snapshot};

/// One hostname with everything that may protect it.
pub(super) struct HostProtection<'a> {
    hostname: &'a Hostname,
    snapshot: &'a Snapshot,
    settings: &'a Settings,
    /// Its rules in all configured tunnels, and which of them are ours.
    rules: Vec<(&'a Rule, bool)>,
}

impl<'a> HostProtection<'a> {
    pub(super) fn of(
        hostname: &'a Hostname,
        snapshot: &'a Snapshot,
        settings: &'a Settings,
        own: &OwnRules,
    ) -> Self {
        let tunnels: &BTreeMap<TunnelId, _> = &snapshot.tunnels;
        let rules = tunnels.iter().flat_map(|(id, tunnel)| {
            tunnel.rules_of(hostname).into_iter().map(move |rule| (rule, own.has(id, rule)))
        });
        Self { hostname, snapshot, settings, rules: rules.collect() }
    }

    pub(super) fn access(&self) -> Option<&'a AccessSnapshot> {
        match &self.snapshot.access {
            AccessReading::Read(access) => Some(access),
            AccessReading::NotAsked | AccessReading::Failed(_) => None,
        }
    }

    fn at(&self, path: Option<&str>) -> impl Iterator<Item = &(&'a Rule, bool)> {
        self.rules.iter().filter(move |(rule, _)| rule.path() == path)
    }

    /// Our applications of a place, the one that counts first.
    pub(super) fn applications(&self, path: Option<&str>) -> Vec<&'a Application> {
        let (Some(access), Ok(place)) = (self.access(), Place::of(self.hostname, path)) else {
            return Vec::new();
        };
        let named: Vec<Box<str>> = self.at(path).flat_map(|(rule, _)| rule.audience_tags()).collect();
        let is_named = |audience: &str| named.iter().any(|tag| **tag == *audience);
        applications::of_place(&place, &access.applications, &self.settings.policy.owner, is_named)
    }

    /// True if a rule for the path requires a login, whoever made it.
    pub(super) fn is_locked(&self, path: Option<&str>) -> bool {
        self.at(path).any(|(rule, _)| rule.requires_access())
    }

    /// True if visitors of the path need a login because of something of ours, or of a rule that ours would replace.
    pub(super) fn is_protected(&self, path: Option<&str>) -> bool {
        self.is_locked(path) || !self.applications(path).is_empty()
    }

    /// True if a publication without protection may let in who needs a login now. Beside something of ours that is
    /// protected, a path that is not published yet may be another name for it.
    pub(super) fn would_open(&self, path: Option<&str>) -> bool {
        self.is_protected(path) || (!self.is_published(path) && self.has_protected())
    }

    /// True if we publish the path.
    pub(super) fn is_published(&self, path: Option<&str>) -> bool {
        let claims_record = || {
            let own = self.snapshot.own_records_of(self.hostname.as_str(), self.settings);
            own.iter().any(|own| own.stamp.claims.record_only)
        };
        self.at(path).any(|(_, is_ours)| *is_ours) || (path.is_none() && claims_record())
    }

    /// True if a rule of ours on the hostname requires a login. An application alone tells nothing: it comes before its
    /// rule, and other paths may come with both.
    fn has_protected(&self) -> bool {
        self.rules.iter().any(|(rule, is_ours)| *is_ours && rule.requires_access())
    }

    /// True if no rule of anybody relies on the application of a place any more: each that may get its requests is gone
    /// or requires other tokens, and the one of the place itself is gone or is to be open.
    pub(super) fn is_left(
        &self,
        place: &Place,
        path: Option<&str>,
        application: &Application,
        opens: bool,
    ) -> bool {
        self.rules.iter().all(|(rule, is_ours)| {
            let is_places = rule.path() == path;
            if is_places && opens {
                return *is_ours && !rule.requires_access();
            }
            let may_share = is_places || place.may_share_requests_with(rule.path());
            !may_share || (rule.requires_access() && !rule.audience_tags().contains(&application.audience))
        })
    }

    /// What the rule of an application requires.
    pub(super) fn required(&self, application: &Application) -> Option<Access> {
        let access = self.access()?;
        Some(Access::required(&access.team, vec![application.audience.clone()]))
    }
}

/// Takes the word that opens off where nothing is protected, because what stands there shows none. Where there is a
/// default policy, the word stays: without it the endpoint would be protected.
pub fn drop_idle_openings(endpoints: &mut [Endpoint], snapshot: &Snapshot, settings: &Settings) {
    if !settings.policy.default_access_policy.is_empty() {
        return;
    }
    let opens = |endpoint: &&mut Endpoint| endpoint.property(ACCESS_POLICY) == Some(OPEN);
    let mut opening = endpoints.iter_mut().filter(opens).peekable();
    if opening.peek().is_none() {
        return;
    }
    let own = snapshot.own_rules(settings);
    for endpoint in opening {
        let Ok(hostname) = Hostname::parse(&endpoint.dns_name) else { continue };
        let path = Some(&*endpoint.set_identifier).filter(|path| !path.is_empty());
        if !HostProtection::of(&hostname, snapshot, settings, &own).would_open(path) {
            endpoint.provider_specific.retain(|property| *property.name != *ACCESS_POLICY);
        }
    }
}
