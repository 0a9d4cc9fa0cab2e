//! Finds the rule or record that visitors would reach without a login if an application of ours were deleted, although
//! no endpoint asks for that: the rule or record *relies* on the application. The application protects its place, which
//! is a hostname or a path of it, and for a wildcard all its names. The proxied records of each name lead to tunnels,
//! and the rules there answer the visitors. A zone or a tunnel that was not read counts as open.
//!
//! | the rule that answers | without the application |
//! |---|---|
//! | requires another token, or is under another application that asks for a login | closed |
//! | is under a more specific application | as now, because its visitors do not meet this one |
//! | requires a token and is withdrawn | closed, because the application stays until the rule is deleted |
//! | an endpoint that is not refused opens its path, or the place that it takes whole | open, as it is asked for |
//! | is of a wider hostname or of none, and an accepted endpoint opens the place | open, as it was published |
//! | is of a wider hostname or of none, and leads to no service | open, and nothing is lost |
//! | any other | not known to stay closed: it relies on the application |

use std::collections::BTreeSet;

use crate::ingress::path::may_share;
use crate::ingress::{PathPattern, Rule, is_status};
use crate::model::access::Application;
use crate::model::hostname::HostPattern;
use crate::model::{Hostname, Record, TunnelId};
use crate::reconcile::access::applications::OwnApplication;
use crate::reconcile::access::host_protection::HostProtection;
use crate::reconcile::access::place::Place;
use crate::reconcile::snapshot::Snapshot;

/// The first rule, record, destination, zone or place that would be open without the application. `opened` is the place
/// that an endpoint opens, if one opens the application's place or a place within it.
pub(super) fn first_relying(
    own: OwnApplication<'_>,
    opened: Option<&Place>,
    changes: &AccessChanges,
    snapshot: &Snapshot,
) -> Option<String> {
    let place = own.place;
    if changes.unopened.iter().any(|one| one.asks != Asks::Unknown && one.place == *place) {
        return Some(place.to_string());
    }
    if let Some(outside) = outside_place(own, snapshot) {
        return Some(outside);
    }
    let is_published = || HostProtection::of(place.hostname(), snapshot).is_published(place.path());
    // Any other endpoint may be refused.
    let opens_place = changes.open.contains(place) && (opened == Some(place) || is_published());
    let names = snapshot.names_of(place.hostname().as_str(), &|name| place.is_over(name));
    names.into_iter().find_map(|name| {
        let hostname = Hostname::parse(name).ok()?;
        let protection = HostProtection::of(&hostname, snapshot);
        NameUnder { protection, own, opened, opens_place, changes }.first_open()
    })
}

/// A name under the place of an application.
struct NameUnder<'a> {
    protection: HostProtection<'a>,
    own: OwnApplication<'a>,
    opened: Option<&'a Place>,
    /// True if an endpoint opens the place itself.
    opens_place: bool,
    changes: &'a AccessChanges,
}

impl NameUnder<'_> {
    /// The first rule or record that would be open at the name.
    fn first_open(&self) -> Option<String> {
        let covering = self.protection.covering_every_request(self.own.place.path());
        if self.is_under_another(&covering) {
            return None;
        }
        let snapshot = self.protection.snapshot;
        let is_only_application = covering.len() == 1;
        let may_lose_checks = is_only_application && !self.opens_place;
        let behind = if may_lose_checks { snapshot.all_wildcards_over(self.name()) } else { Vec::new() };
        let mut records =
            snapshot.answering(self.name()).iter().chain(behind).filter(|record| record.proxied);
        records
            .find_map(|record| self.open_behind(record, may_lose_checks))
            .or_else(|| self.open_record_alone())
    }

    /// The first rule that would be open among those that answer requests by the record. With `may_lose_checks`, a
    /// wildcard's rule may lose its Access check later, so the rules behind it count too.
    fn open_behind(&self, record: &Record, may_lose_checks: bool) -> Option<String> {
        // It is not known what answers in a tunnel that was not read.
        let Some((id, tunnel)) = self.protection.snapshot.tunnel_of(record) else {
            return Some(record_text(record));
        };
        let is_last = |rule: &Rule| {
            let is_of_wildcard = rule.folded_hostname() != self.name();
            !(may_lose_checks && is_of_wildcard && rule.requires_another(self.own.application))
        };
        let rules = tunnel.rules_taking_until(self.name(), self.own.place.path(), &is_last);
        rules
            .into_iter()
            .find(|rule| !self.is_to_be_open(id, rule) && !self.stays_closed(rule))
            .map(rule_text)
    }

    /// Our record without a rule, if it would be open and no endpoint opens or withdraws it.
    fn open_record_alone(&self) -> Option<String> {
        let place = self.place_of(None);
        let is_asked_for = self.changes.open.contains(&place) || self.changes.withdrawn.contains(&place);
        if is_asked_for { None } else { self.protection.record_only().map(record_text) }
    }

    /// True if an endpoint opens the rule, or if no login is missed there.
    fn is_to_be_open(&self, tunnel: &TunnelId, rule: &Rule) -> bool {
        if rule.folded_hostname() != self.name() {
            // The rule of a wider hostname was published for all its names, or leads to no service.
            return self.opens_place || is_status(rule.service());
        }
        // The rule that opens the place may answer all its requests in front of this one.
        let path = self.own.place.path();
        let takes_place = rule.covers(self.name(), path);
        self.opens(tunnel, rule.path()) || takes_place && self.opens(tunnel, path)
    }

    /// True if the deletion of the application opens nothing at the rule: the rule requires another token, or its
    /// visitors meet another application. A withdrawn rule counts too, because the application stays until the rule is
    /// deleted.
    fn stays_closed(&self, rule: &Rule) -> bool {
        let is_withdrawn = || self.changes.withdrawn.contains(&self.place_of(rule.path()));
        rule.requires_another(self.own.application)
            || rule.requires_access() && is_withdrawn()
            || self.is_under_another(&self.protection.covering_every_request(rule.path()))
    }

    fn place_of(&self, path: Option<&str>) -> Place {
        Place::of(self.protection.hostname, path)
    }

    fn name(&self) -> &str {
        self.protection.hostname.as_str()
    }

    /// True if the most specific of the applications, which is the first one, is another one, and its visitors meet it
    /// now too or need its login.
    fn is_under_another(&self, covering: &[&Application]) -> bool {
        let is_own = |one: &Application| one.id == self.own.application.id;
        let is_met_now = || covering.iter().any(|one| is_own(one));
        covering.first().is_some_and(|first| !is_own(first) && (first.requires_login() || is_met_now()))
    }

    /// True if an endpoint opens the path in the tunnel. An endpoint other than that of `opened` may be refused, so it
    /// counts only for a rule that is ours already.
    fn opens(&self, tunnel: &TunnelId, path: Option<&str>) -> bool {
        let place = self.place_of(path);
        let is_ours = || self.protection.own_rule(path, Some(tunnel)).is_some();
        self.changes.open.contains(&place) && (self.opened == Some(&place) || is_ours())
    }
}

/// A destination of the application outside its place, which a person added, or a zone under the place that was not
/// read, if there is such a destination or zone.
fn outside_place(
    OwnApplication { place, application }: OwnApplication<'_>,
    snapshot: &Snapshot,
) -> Option<String> {
    let of_place = place.destinations();
    let mut destinations = application.destinations.iter();
    let destination = destinations.find(|destination| {
        !of_place.contains(destination) && (place.path().is_some() || !place.is_over(&destination.host))
    });
    let destination = destination.map(ToString::to_string);
    let mut zones = snapshot.excluded_zones.iter().map(|zone| &*zone.name);
    destination.or_else(|| zones.find(|zone| place.is_over(zone)).map(str::to_owned))
}

pub(crate) fn rule_text(rule: &Rule) -> String {
    format!("{}{}", rule.hostname(), rule.path().unwrap_or_default())
}

fn record_text(record: &Record) -> String {
    format!("{} {} {}", record.name, record.record_type, record.content)
}

/// What all endpoints of a request ask of Access.
#[derive(Debug, Default)]
pub(crate) struct AccessChanges {
    pub(crate) open: BTreeSet<Place>,
    pub(crate) withdrawn: BTreeSet<Place>,
    /// The places that are not to be opened.
    pub(crate) unopened: Vec<UnopenedPlace>,
}

/// A place whose endpoint does not ask to be open.
#[derive(Debug)]
pub(crate) struct UnopenedPlace {
    /// The whole hostname for an endpoint with a mistake.
    pub(crate) place: Place,
    /// The object of the endpoint.
    pub(crate) resource: Option<Box<str>>,
    pub(crate) asks: Asks,
}

/// What an endpoint that does not ask to be open asks of Access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asks {
    Policies,
    Nothing,
    /// The endpoint has a mistake, so neither its path nor its login is known.
    Unknown,
}

impl UnopenedPlace {
    /// True if an application at `from` also covers visitors of this place. A place that is wider than `from` on the
    /// same hostname does not count, because the endpoint of `from` decides about that path.
    pub(super) fn is_covered_from(&self, from: &Place) -> bool {
        let (name, path) = (self.place.hostname(), self.place.path());
        let is_wider = || PathPattern::takes_all_of(path, from.path());
        HostPattern::of(from.hostname().as_str()).includes(name.as_str())
            && may_share(path, from.path())
            && (self.asks == Asks::Unknown || name != from.hostname() || !is_wider())
    }

    /// True if the place stays closed without the applications `deleted`. A published place without policies counts as
    /// closed, because `first_relying` looks at its rule.
    pub(super) fn stays_closed_without(&self, deleted: &[OwnApplication<'_>], snapshot: &Snapshot) -> bool {
        let protection = HostProtection::of(self.place.hostname(), snapshot);
        let path = self.place.path();
        if self.asks == Asks::Nothing {
            return protection.is_published(path);
        }
        let is_deleted = |id: &str| deleted.iter().any(|own| *own.application.id == *id);
        let made_for = protection.application_made_for(path).map(|own| &own.application.id);
        let first = protection.own_login(path).map(|own| &own.application.id);
        if made_for.is_some_and(|id| first == Some(id) && !is_deleted(id)) {
            return true;
        }
        // The path of an endpoint with a mistake may be the one that is opened, and then no rule closes it.
        if self.asks == Asks::Unknown {
            return false;
        }
        let visited = snapshot.visited_tunnel(self.place.hostname().as_str());
        protection.own_rule(path, visited.as_ref()).is_some_and(|rule| {
            rule.requires_access() && deleted.iter().all(|own| rule.requires_another(own.application))
        })
    }
}
