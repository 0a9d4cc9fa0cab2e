//! Finds a rule or record that would be open if an application of ours were deleted, once a request is carried out.

use crate::ingress::Rule;
use crate::model::access::{Application, Destination};
use crate::model::{Hostname, TunnelId};
use crate::reconcile::access::answering::{first_answer, is_served, may_be_taken, names_under, record_text};
use crate::reconcile::access::host_protection::{self, HostProtection};
use crate::reconcile::access::opening::Closing;
use crate::reconcile::access::place::Place;
use crate::reconcile::adopt::Adopt;
use crate::reconcile::snapshot::{OwnRecord, Snapshot};

/// The requests of all endpoints about Access.
#[derive(Debug, Default)]
pub(in crate::reconcile) struct Wishes {
    /// The hostnames and paths to be opened.
    pub(in crate::reconcile) open: Vec<(Box<str>, Option<Box<str>>)>,
    /// The hostnames and paths that are withdrawn.
    pub(in crate::reconcile) withdrawn: Vec<(Box<str>, Option<Box<str>>)>,
    /// The places to be closed.
    pub(in crate::reconcile) closing: Vec<Closing>,
}

impl Wishes {
    fn opens(&self, hostname: &str, path: Option<&str>) -> bool {
        self.open.iter().any(|(name, opened)| **name == *hostname && opened.as_deref() == path)
    }

    fn withdraws(&self, hostname: &str, path: Option<&str>) -> bool {
        self.withdrawn.iter().any(|(name, gone)| **name == *hostname && gone.as_deref() == path)
    }
}

/// The first rule, record, destination or zone that would be open without `application`. A rule that `wishes` opens
/// does not count. A rule under a more specific application does not count either. If the place itself opens, the rule
/// of a wider hostname does not count, because that rule was published for all its names.
pub(super) fn relying(application: &Application, wishes: &Wishes, snapshot: &Snapshot) -> Option<String> {
    let place = Place::of_application(application, &snapshot.operator().owner)?;
    let path = place.path();
    let path = path.as_deref();
    if wishes.closing.iter().any(|closing| closing.is_at(place.hostname(), path)) {
        return Some(place.to_string());
    }
    if let Some(outside) = outside_place(application, &place, snapshot) {
        return Some(outside);
    }
    let opens_place = wishes.opens(place.hostname(), path);
    names_under(&place, snapshot).into_iter().find_map(|name| {
        let hostname = Hostname::parse(name).ok()?;
        let protection = HostProtection::of(&hostname, snapshot);
        let own = snapshot.own_records_of(name);
        NameUnder { protection, application, place: &place, path, opens_place, wishes, own }.relying()
    })
}

/// A name under the place of an application.
struct NameUnder<'a> {
    protection: HostProtection<'a>,
    application: &'a Application,
    place: &'a Place,
    /// The path of the place.
    path: Option<&'a str>,
    /// True if the wishes open the place itself.
    opens_place: bool,
    wishes: &'a Wishes,
    /// Our records of the name.
    own: Vec<OwnRecord<'a>>,
}

impl NameUnder<'_> {
    /// The first rule or record that would be open at the name.
    fn relying(&self) -> Option<String> {
        if self.is_covered(self.path) {
            return None;
        }
        let snapshot = self.protection.snapshot;
        let behind = snapshot.wildcards_over(self.name()).into_iter().filter(|_| self.is_alone());
        let records = snapshot.answering(self.name()).iter().chain(behind);
        let is_last = |rule: &Rule| self.is_last(rule);
        let relies = |tunnel: &TunnelId, rule: &Rule| self.relies(tunnel, rule);
        first_answer(self.place, self.name(), records, snapshot, &is_last, &relies).or_else(|| {
            let mut alone = self.own.iter().filter(|own| own.stamp.claims.record_only && !self.opens(None));
            alone.next().map(|own| record_text(own.record))
        })
    }

    fn name(&self) -> &str {
        self.protection.hostname.as_str()
    }

    /// True if a more specific application covers the path.
    fn is_covered(&self, path: Option<&str>) -> bool {
        let covering = self.protection.all_over(path).into_iter().next();
        covering.is_some_and(|one| one.id != self.application.id)
    }

    /// True if the wishes open a path of the name. An endpoint is refused if a foreign record has its hostname, so its
    /// policy `none` opens no rule.
    fn opens(&self, path: Option<&str>) -> bool {
        let may_open = !self.own.is_empty() || may_be_taken(self.name(), self.protection.snapshot);
        may_open && self.wishes.opens(self.name(), path)
    }

    /// True if the application is the only one over the name. A wildcard's rule may lose its Access check, and then no
    /// other application protects the name.
    fn is_alone(&self) -> bool {
        !self.opens_place && self.protection.all_over(self.path).len() == 1
    }

    /// True if no later rule receives requests of the place.
    fn is_last(&self, rule: &Rule) -> bool {
        let is_of_name = rule.folded_hostname() == self.name();
        is_of_name || !self.requires_another(rule) || !self.is_alone()
    }

    /// True if the rule would be open without the application, although no endpoint asks for an open rule.
    fn relies(&self, tunnel: &TunnelId, rule: &Rule) -> bool {
        // A withdrawn rule with an Access check opens nothing: the application stays until the rule is deleted.
        let goes = || self.wishes.withdraws(self.name(), rule.path()) && rule.requires_access();
        !self.requires_another(rule)
            && !self.is_asked_for(tunnel, rule)
            && !goes()
            && !self.is_covered(rule.path())
    }

    /// True if the rule may be open.
    fn is_asked_for(&self, tunnel: &TunnelId, rule: &Rule) -> bool {
        if rule.folded_hostname() != self.name() {
            return self.opens_place || !is_served(rule);
        }
        // A wider rule receives no request of the place, because the opened rule of the place answers these requests.
        let is_opened = self.opens(rule.path()) && self.may_have(tunnel, rule);
        is_opened || rule.matches_all(self.name(), self.path) && self.opens(self.path)
    }

    /// True if an endpoint may have the rule. An endpoint is refused if a foreign rule has its path, so its policy
    /// `none` does not open that rule.
    fn may_have(&self, tunnel: &TunnelId, rule: &Rule) -> bool {
        let snapshot = self.protection.snapshot;
        snapshot.operator().adopt != Adopt::default() || snapshot.own_digests().has(tunnel, rule)
    }

    fn requires_another(&self, rule: &Rule) -> bool {
        host_protection::requires_another(rule, self.application)
    }
}

/// A destination of the application outside its place, which a person added, or a zone under the place that was not
/// read, if there is such a destination or zone.
fn outside_place(application: &Application, place: &Place, snapshot: &Snapshot) -> Option<String> {
    let own = place.destinations();
    let is_within =
        |one: &Destination| own.contains(one) || place.path().is_none() && place.is_over(&one.host);
    let destination = application.destinations.iter().find(|one| !is_within(one)).map(ToString::to_string);
    let mut zones = snapshot.zones_elsewhere.iter();
    destination.or_else(|| zones.find(|zone| place.is_over(zone)).map(ToString::to_string))
}
