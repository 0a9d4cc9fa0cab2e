//! Finds the rule or record that would be open without an application of ours, once a request is carried out.

use crate::ingress::{Rule, is_status};
use crate::model::access::{Application, Destination};
use crate::model::{Hostname, TunnelId};
use crate::reconcile::access::answering::{names_of, record_text, rule_text, rules_taking_until, tunnel_of};
use crate::reconcile::access::applications::OwnApplication;
use crate::reconcile::access::host_protection::{HostProtection, requires_another};
use crate::reconcile::access::requests::{AccessRequests, RuleKey};
use crate::reconcile::snapshot::Snapshot;

/// The first rule, record, destination, zone or place that would be open without the application, if the endpoint
/// `opener` opens the application's place or a path of it; `None` as `opener` if no endpoint does. A rule that `requests` opens does not count. A rule under a more specific application does not count
/// either. If the place itself opens, the rule of a wider hostname does not count, because that rule was published for
/// all its names.
pub(super) fn first_relying(
    own: OwnApplication<'_>,
    opener: Option<&RuleKey>,
    requests: &AccessRequests,
    snapshot: &Snapshot,
) -> Option<String> {
    let OwnApplication { place, application } = own;
    let path = place.path();
    if requests.unopened.iter().any(|one| one.is_closed_at(place.hostname(), path)) {
        return Some(place.to_string());
    }
    if let Some(outside) = outside_place(own, snapshot) {
        return Some(outside);
    }
    let at_place = RuleKey::of(place.hostname(), path);
    let hostname = Hostname::parse(place.hostname()).ok()?;
    let is_published = || HostProtection::of(&hostname, snapshot).is_published(path);
    // Any other endpoint may be refused.
    let opens_place = requests.open.contains(&at_place) && (opener == Some(&at_place) || is_published());
    let names = names_of(place.hostname(), snapshot, &|name| place.is_over(name));
    names.into_iter().find_map(|name| {
        let hostname = Hostname::parse(name).ok()?;
        let protection = HostProtection::of(&hostname, snapshot);
        NameUnder { protection, application, opener, path, opens_place, requests }.first_open()
    })
}

/// A name under the place of an application. An *opener* is the endpoint that opens the place or a path of it; a rule
/// *relies* on the application if it would be open without it, and no endpoint asks for that.
struct NameUnder<'a> {
    protection: HostProtection<'a>,
    application: &'a Application,
    opener: Option<&'a RuleKey>,
    /// The path of the place.
    path: Option<&'a str>,
    /// True if an endpoint opens the place itself.
    opens_place: bool,
    requests: &'a AccessRequests,
}

impl NameUnder<'_> {
    /// The first rule or record that would be open at the name.
    fn first_open(&self) -> Option<String> {
        if self.is_covered(self.path) {
            return None;
        }
        let snapshot = self.protection.snapshot;
        let behind =
            if self.is_only_application() { snapshot.all_wildcards_over(self.name()) } else { Vec::new() };
        let records = snapshot.answering(self.name()).iter().chain(behind);
        for record in records.filter(|record| record.proxied) {
            // It is not known what answers in a tunnel that was not read.
            let Some((id, tunnel)) = tunnel_of(record, snapshot) else { return Some(record_text(record)) };
            let rules = rules_taking_until(self.name(), self.path, tunnel, &|rule| self.is_last(rule));
            if let Some(rule) = rules.into_iter().find(|rule| self.relies(id, rule)) {
                return Some(rule_text(rule));
            }
        }
        let key = RuleKey::of(self.name(), None);
        if self.requests.open.contains(&key) || self.requests.withdrawn.contains(&key) {
            return None;
        }
        let mut own = snapshot.own_records_of(self.name()).into_iter();
        own.find(|own| own.stamp.claims.record_only).map(|own| record_text(own.record))
    }

    fn name(&self) -> &str {
        self.protection.hostname.as_str()
    }

    /// True if a more specific application covers the path.
    fn is_covered(&self, path: Option<&str>) -> bool {
        let covering = self.protection.covering_every_request(path).into_iter().next();
        covering.is_some_and(|one| one.id != self.application.id)
    }

    /// True if an endpoint opens the path in the tunnel. Any other endpoint than the opener may be refused, so it
    /// counts only for a rule that is ours already.
    fn opens(&self, tunnel: &TunnelId, path: Option<&str>) -> bool {
        let key = RuleKey::of(self.name(), path);
        let is_ours = || self.protection.own_rule(path, Some(tunnel)).is_some();
        self.requests.open.contains(&key) && (self.opener == Some(&key) || is_ours())
    }

    /// True if the application is the only one over the name. A wildcard's rule may lose its Access check, and then no
    /// other application protects the name.
    fn is_only_application(&self) -> bool {
        !self.opens_place && self.protection.covering_every_request(self.path).len() == 1
    }

    /// True if no later rule receives requests of the place.
    fn is_last(&self, rule: &Rule) -> bool {
        // Without another application, a wider rule that requires another token may lose its Access check.
        let may_lose_check =
            rule.folded_hostname() != self.name() && requires_another(rule, self.application);
        !(may_lose_check && self.is_only_application())
    }

    /// True if the rule would be open without the application, although no endpoint asks for an open rule.
    fn relies(&self, tunnel: &TunnelId, rule: &Rule) -> bool {
        // A withdrawn rule with an Access check opens nothing: the application stays until the rule is deleted.
        let key = || RuleKey::of(self.name(), rule.path());
        let is_withdrawn_with_check = || rule.requires_access() && self.requests.withdrawn.contains(&key());
        !requires_another(rule, self.application)
            && !self.is_to_be_open(tunnel, rule)
            && !is_withdrawn_with_check()
            && !self.is_covered(rule.path())
    }

    /// True if the rule is to be open, or may be.
    fn is_to_be_open(&self, tunnel: &TunnelId, rule: &Rule) -> bool {
        if rule.folded_hostname() != self.name() {
            return self.opens_place || is_status(rule.service());
        }
        // A wider rule receives no request of the place, because the opened rule of the place answers these requests.
        self.opens(tunnel, rule.path())
            || rule.matches_all(self.name(), self.path) && self.opens(tunnel, self.path)
    }
}

/// A destination of the application outside its place, which a person added, or a zone under the place that was not
/// read, if there is such a destination or zone.
fn outside_place(
    OwnApplication { place, application }: OwnApplication<'_>,
    snapshot: &Snapshot,
) -> Option<String> {
    let own = place.destinations();
    let is_within =
        |one: &Destination| own.contains(one) || place.path().is_none() && place.is_over(&one.host);
    let destination = application.destinations.iter().find(|one| !is_within(one)).map(ToString::to_string);
    let mut zones = snapshot.excluded_zones.iter().map(|zone| &*zone.name);
    destination.or_else(|| zones.find(|zone| place.is_over(zone)).map(str::to_owned))
}
