//! What protects a hostname now: rules that require a login, and our Access applications.

use crate::ingress::access::Access;
use crate::ingress::{PathPattern, Rule};
use crate::model::access::Application;
use crate::model::endpoint::Endpoint;
use crate::model::{Hostname, TunnelId};
use crate::reconcile::Settings;
use crate::reconcile::access::cover::{self, Cover};
use crate::reconcile::access::place::{self, Place};
use crate::reconcile::access::reading::{AccessReading, AccessSnapshot};
use crate::reconcile::access::wish::{ACCESS_POLICY, OPEN};
use crate::reconcile::canonical::{RECORD_ONLY, TUNNEL_SERVICE};
use crate::reconcile::snapshot::{OwnRules, Snapshot, TunnelSnapshot};

/// The hostnames and paths whose endpoints ask in one request to be open.
#[derive(Debug, Default)]
pub(in crate::reconcile) struct Openings(pub(in crate::reconcile) Vec<(Box<str>, Option<Box<str>>)>);

/// One hostname with everything that may protect it.
pub(in crate::reconcile) struct HostProtection<'a> {
    hostname: &'a Hostname,
    snapshot: &'a Snapshot,
    settings: &'a Settings,
    own: &'a OwnRules,
    /// Its rules in all configured tunnels.
    rules: Vec<HostRule<'a>>,
    /// The tunnel that visitors are led to.
    visited: Option<&'a TunnelSnapshot>,
}

/// What an endpoint asks for.
#[derive(Clone, Copy)]
pub(in crate::reconcile) struct Asked<'a> {
    pub(in crate::reconcile) path: Option<&'a str>,
    pub(in crate::reconcile) tunnel: &'a TunnelId,
    /// A rule, and not the record alone.
    pub(in crate::reconcile) is_rule: bool,
}

struct HostRule<'a> {
    tunnel: &'a TunnelId,
    rule: &'a Rule,
    is_ours: bool,
    /// Visitors are led to its tunnel.
    is_visited: bool,
}

impl<'a> HostProtection<'a> {
    pub(in crate::reconcile) fn of(
        hostname: &'a Hostname,
        snapshot: &'a Snapshot,
        settings: &'a Settings,
        own: &'a OwnRules,
    ) -> Self {
        let led_to = snapshot.led_to(hostname.as_str());
        let rules = snapshot.tunnels.iter().flat_map(|(id, tunnel)| {
            let is_visited = led_to.as_ref() == Some(id);
            let rules = tunnel.rules_of(hostname).into_iter();
            rules.map(move |rule| HostRule { tunnel: id, rule, is_ours: own.has(id, rule), is_visited })
        });
        let visited = led_to.as_ref().and_then(|id| snapshot.tunnels.get(id));
        Self { hostname, snapshot, settings, own, rules: rules.collect(), visited }
    }

    pub(in crate::reconcile) fn access(&self) -> Option<&'a AccessSnapshot> {
        match &self.snapshot.access {
            AccessReading::Read(access) => Some(access),
            AccessReading::NotAsked | AccessReading::Failed(_) => None,
        }
    }

    fn at(&self, path: Option<&str>) -> impl Iterator<Item = &HostRule<'a>> {
        self.rules.iter().filter(move |one| one.rule.path() == path)
    }

    /// Our applications of a place, the one that counts first.
    pub(in crate::reconcile) fn applications(&self, path: Option<&str>) -> Vec<&'a Application> {
        let (Some(access), Ok(place)) = (self.access(), Place::of(self.hostname, path)) else {
            return Vec::new();
        };
        let named: Vec<Box<str>> = self.at(path).flat_map(|one| one.rule.audience_tags()).collect();
        let is_named = |audience: &str| named.iter().any(|tag| **tag == *audience);
        place::of_place(&place, &access.applications, &self.settings.policy.owner, is_named)
    }

    /// Our applications of all its places, wanted or not.
    pub(in crate::reconcile) fn all_applications(&self) -> Vec<(Place, &'a Application)> {
        let applications = self.access().into_iter().flat_map(|access| &access.applications);
        let named = applications.filter(|application| application.name.starts_with(self.hostname.as_str()));
        let here = named.filter_map(|application| {
            let place = Place::of_application(application, &self.settings.policy.owner)?;
            (*place.hostname() == *self.hostname.as_str()).then_some((place, application))
        });
        here.collect()
    }

    /// True if a rule for the path requires a login, whoever made it, and none of ours lets visitors in without.
    pub(in crate::reconcile) fn is_locked(&self, path: Option<&str>) -> bool {
        let is_open = |one: &HostRule<'_>| one.is_ours && one.is_visited && !one.rule.requires_access();
        !self.at(path).any(is_open) && self.at(path).any(|one| one.rule.requires_access())
    }

    /// True if visitors of the path need a login because of something of ours, or of a rule that ours would replace.
    pub(in crate::reconcile) fn is_protected(&self, path: Option<&str>) -> bool {
        self.is_locked(path) || !self.applications(path).is_empty()
    }

    /// True if a publication without protection may let in who needs a login now. Beside something that is protected, what
    /// does not stand yet may take its requests, unless that is one of the `wished` places: they are to be protected, and
    /// none of them may cover it.
    pub(in crate::reconcile) fn would_open(&self, asked: Asked<'_>, wished: &[Place]) -> bool {
        let is_beside_protected =
            || wished.iter().any(|place| place.covers(asked.path)) || self.has_protected_beside(wished);
        self.is_protected(asked.path) || (!self.stands(asked) && is_beside_protected())
    }

    /// True if visitors who need a login now are to be let in without.
    pub(in crate::reconcile) fn opens(&self, asked: Asked<'_>) -> bool {
        self.would_open(asked, &[]) || self.is_covered(asked.path)
    }

    /// True if it is published as it is asked for. In another tunnel other rules take what it leaves.
    fn stands(&self, asked: Asked<'_>) -> bool {
        let Asked { path, tunnel, is_rule } = asked;
        let is_led_here = || self.snapshot.led_to(self.hostname.as_str()).as_ref() == Some(tunnel);
        if is_rule {
            let leaves_nothing = path.is_none();
            self.at(path).any(|one| one.is_ours && (leaves_nothing || one.tunnel == tunnel))
        } else {
            self.claims_record() && is_led_here()
        }
    }

    /// True if Access asks all visitors of the path for a login, whoever's application it is.
    pub(in crate::reconcile) fn is_covered(&self, path: Option<&str>) -> bool {
        let path = path.and_then(|path| PathPattern::parse(path).ok());
        self.access().is_some_and(|access| {
            let cover = cover::cover(&access.applications, self.hostname, path.as_ref());
            matches!(cover, Cover::Protected { .. })
        })
    }

    /// True if something of ours is published at the path.
    pub(in crate::reconcile) fn is_published(&self, path: Option<&str>) -> bool {
        self.at(path).any(|one| one.is_ours) || (path.is_none() && self.claims_record())
    }

    /// True if a record of ours is published without a rule.
    fn claims_record(&self) -> bool {
        let own = self.snapshot.own_records_of(self.hostname.as_str(), self.settings);
        own.iter().any(|own| own.stamp.claims.record_only)
    }

    /// True if a wildcard's rule that requires a token may take its requests now.
    fn is_below_protected(&self) -> bool {
        let mut rules = self.visited.into_iter().flat_map(|tunnel| tunnel.document.rules());
        rules.any(|rule| is_wider(rule, self.hostname.as_str()) && rule.requires_access())
    }

    /// True if something on the hostname is protected that is at none of the `wished` places: by a rule, whoever made it
    /// and if it is a wildcard's, or by an application of ours.
    fn has_protected_beside(&self, wished: &[Place]) -> bool {
        let is_wished =
            |rule: &Rule| Place::of(self.hostname, rule.path()).is_ok_and(|place| wished.contains(&place));
        self.is_below_protected()
            || self.rules.iter().any(|one| one.rule.requires_access() && !is_wished(one.rule))
            || self.all_applications().iter().any(|(place, _)| !wished.contains(place))
    }

    /// The first that would be open without an application of the place and does not ask for it: a rule or a record of a
    /// name that the application stands over, whoever made it. Those for more names than that do not count: whoever made
    /// them opened them for every name.
    pub(in crate::reconcile) fn relying(
        &self,
        place: &Place,
        application: &Application,
        openings: &Openings,
    ) -> Option<String> {
        let relies = |tunnel: &TunnelId, rule: &Rule| {
            let is_opened = self.own.has(tunnel, rule) && openings.has(rule.folded_hostname(), rule.path());
            !is_opened && !asks_for_another(rule, application)
        };
        self.names_under(place).into_iter().find_map(|name| {
            // The rule of what is opened takes all requests of the place that rules within it leave.
            let is_opened = name == place.hostname() && !place.is_whole() && openings.has_place(place);
            let mut rules = self.snapshot.tunnels.iter().flat_map(|(tunnel, document)| {
                let taking = rules_taking(place, name, document.document.rules()).into_iter();
                taking.map(move |rule| (tunnel, rule))
            });
            let rule = rules.find(|(tunnel, rule)| {
                relies(tunnel, rule) && !(is_opened && place.is_taken_by(rule.path()))
            });
            let told =
                |(_, rule): (_, &Rule)| format!("{}{}", rule.hostname(), rule.path().unwrap_or_default());
            rule.map(told)
                .or_else(|| if is_opened { None } else { self.record_relying(place, name, openings) })
        })
    }

    /// The names whose requests the application of a place stands over, as far as rules and records have them.
    fn names_under(&self, place: &'a Place) -> Vec<&'a str> {
        let Snapshot { zones, tunnels, .. } = self.snapshot;
        let records = zones.iter().flat_map(|zone| zone.records()).map(|record| &*record.name);
        let rules = tunnels.values().flat_map(|tunnel| tunnel.document.rules()).map(Rule::folded_hostname);
        let mut names = vec![place.hostname()];
        if self.hostname.is_wildcard() {
            names.extend(records.chain(rules).filter(|name| place.is_over(name)));
            names.sort_unstable();
            names.dedup();
        }
        names
    }

    /// The record of a name that leads requests of the place to something else than rules of that name: past the tunnels,
    /// or to whichever rule takes them.
    fn record_relying(&self, place: &Place, name: &str, openings: &Openings) -> Option<String> {
        let mut records = self.snapshot.answering(name).iter().filter(|record| *record.name == *name);
        let record = records.find(|record| {
            let tunnel =
                TunnelId::from_hostname(&record.content).and_then(|id| self.snapshot.tunnels.get(&id));
            let is_taken = tunnel.is_some_and(|tunnel| {
                let mut rules = tunnel.document.rules().iter();
                rules.any(|rule| rule.folded_hostname() == name && place.is_taken_by(rule.path()))
            });
            let is_meant = match self.snapshot.own_stamp(record, self.settings) {
                Some(stamp) => stamp.claims.record_only && !openings.has(name, None),
                None => record.proxied,
            };
            is_meant && !is_taken
        })?;
        Some(format!("{} {} {}", record.name, record.kind, record.content))
    }

    /// True if nothing relies on an application of the place any more, and no rule asks for its tokens.
    pub(in crate::reconcile) fn is_left(
        &self,
        place: &Place,
        application: &Application,
        openings: &Openings,
    ) -> bool {
        let asks =
            |rule: &Rule| rule.requires_access() && rule.audience_tags().contains(&application.audience);
        !self.rules.iter().any(|one| asks(one.rule)) && self.relying(place, application, openings).is_none()
    }

    /// What the rule of an application requires.
    pub(in crate::reconcile) fn required(&self, application: &Application) -> Option<Access> {
        let access = self.access()?;
        Some(Access::required(&access.team, vec![application.audience.clone()]))
    }
}

/// True if a rule lets nobody in with the tokens of this application, or with none.
fn asks_for_another(rule: &Rule, application: &Application) -> bool {
    rule.requires_access() && !rule.audience_tags().contains(&application.audience)
}

/// True if a wildcard's rule, or one for every name, is for this name too.
fn is_wider(rule: &Rule, name: &str) -> bool {
    let hostname = rule.folded_hostname();
    let is_above = |domain: &str| hostname != name && name.ends_with(domain);
    hostname.is_empty() || hostname.strip_prefix('*').is_some_and(is_above)
}

/// The rules of a name that may take requests for a place, up to the first that takes them all.
fn rules_taking<'r>(place: &Place, name: &str, rules: &'r [Rule]) -> Vec<&'r Rule> {
    let is_taking =
        |rule: &&Rule| rule.folded_hostname() == name && place.may_share_requests_with(rule.path());
    let mut taking: Vec<&Rule> = rules.iter().filter(is_taking).collect();
    if let Some(last) = taking.iter().position(|rule| place.is_taken_by(rule.path())) {
        taking.truncate(last + 1);
    }
    taking
}

impl Openings {
    fn has_place(&self, place: &Place) -> bool {
        place
            .path_text()
            .is_some_and(|path| self.has(place.hostname(), Some(&*path).filter(|path| !path.is_empty())))
    }

    fn has(&self, hostname: &str, path: Option<&str>) -> bool {
        self.0.iter().any(|(name, opened)| **name == *hostname && opened.as_deref() == path)
    }
}

/// Takes the word that opens off what stands open, because records show none there. Where there is a default policy, it
/// stays: without it the endpoint would be protected. It stays as well until Access is read.
pub(in crate::reconcile) fn drop_idle_openings(
    endpoints: &mut [Endpoint],
    snapshot: &Snapshot,
    settings: &Settings,
) {
    let has_default = !settings.policy.default_access_policy.is_empty();
    if has_default || matches!(snapshot.access, AccessReading::NotAsked) {
        return;
    }
    let opens = |endpoint: &&mut Endpoint| endpoint.property(ACCESS_POLICY) == Some(OPEN);
    let mut opening = endpoints.iter_mut().filter(opens).peekable();
    if opening.peek().is_none() {
        return;
    }
    let own = snapshot.own_rules(settings);
    for endpoint in opening {
        let tunnel = endpoint.targets.first().and_then(|target| TunnelId::from_hostname(target));
        let (Ok(hostname), Some(tunnel)) = (Hostname::parse(&endpoint.dns_name), tunnel) else { continue };
        let asked = Asked {
            path: Some(&*endpoint.set_identifier).filter(|path| !path.is_empty()),
            tunnel: &tunnel,
            is_rule: endpoint.property(TUNNEL_SERVICE) != Some(RECORD_ONLY),
        };
        let host = HostProtection::of(&hostname, snapshot, settings, &own);
        if host.stands(asked) && !host.opens(asked) {
            endpoint.provider_specific.retain(|property| *property.name != *ACCESS_POLICY);
        }
    }
}
