//! The present protection of a hostname: the Access checks of its rules, and the applications that its visitors meet.
//! An application *asks for a login* if it asks all its visitors.
//!
//! | applications | over | of |
//! |---|---|---|
//! | `near` | perhaps a name of the hostname, and perhaps only others | all owners |
//! | `covering` | the path with all below it, or a part of these requests; the most specific one first | all owners |
//! | `own_logins` | as `covering`, up to the first that is foreign or asks for no login | ours |
//! | `guarding` | together, every request of the path, and each surely asks for a login | all owners |
//! | `known_logins` | as `guarding`, or else the first over every request, if it surely asks | all owners |
//! | `application_made_for` | made for exactly the path, whatever it covers now | ours |

use std::cmp::Reverse;

use crate::ingress::access_check::AccessCheck;
use crate::ingress::{PathPattern, Rule};
use crate::model::access::{Application, Destination};
use crate::model::{Hostname, Record, TunnelId};
use crate::reconcile::access::applications::OwnApplication;
use crate::reconcile::access::destination::matches_host;
use crate::reconcile::access::guard;
use crate::reconcile::access::place::Place;
use crate::reconcile::access::reading::{AccessReadError, AccessSnapshot};
use crate::reconcile::snapshot::Snapshot;

/// One hostname, and the snapshot that shows its protection.
#[derive(Clone, Copy)]
pub(crate) struct HostProtection<'a> {
    pub(super) hostname: &'a Hostname,
    pub(super) snapshot: &'a Snapshot,
}

/// An application over a path.
#[derive(Clone, Copy)]
pub(super) struct Covering<'a> {
    pub(super) application: &'a Application,
    /// False if the application covers only a part of the requests.
    takes_every_request: bool,
}

impl<'a> HostProtection<'a> {
    pub(crate) fn of(hostname: &'a Hostname, snapshot: &'a Snapshot) -> Self {
        Self { hostname, snapshot }
    }

    pub(super) fn access(self) -> Option<&'a AccessSnapshot> {
        self.snapshot.access.snapshot()
    }

    /// The snapshot of Access if every zone around the hostname was read; else the reason why a zone was not read.
    pub(super) fn whole_access(self) -> Result<&'a AccessSnapshot, AccessReadError> {
        let access = self.snapshot.access.snapshot_or_reason()?;
        let mut zones = self.snapshot.zones_around(self.hostname.as_str());
        match zones.find_map(|zone| access.unread_zones.iter().find(|(name, _)| *name == zone.zone.name)) {
            Some((_, unread)) => Err(unread.clone()),
            None => Ok(access),
        }
    }

    /// True if the comment needs the mark that an application of ours protects a part of the hostname. A present mark
    /// is preserved while Access is not read, and while a rule asks for a token that no application issues. Then the
    /// log reports the missing application after a restart too.
    pub(crate) fn needs_protection_claim(self, has_mark: bool) -> bool {
        if self.access().is_none() {
            return has_mark;
        }
        let name = self.hostname.as_str();
        let mut rules = self.snapshot.rules_of(self.hostname).into_iter();
        let has_own = |name: &str| self.snapshot.own_applications_of(name).next().is_some();
        has_own(name)
            || name.split_once('.').is_some_and(|(_, domain)| has_own(&format!("*.{domain}")))
            || has_mark && rules.any(|(_, rule)| self.refuses_every_visitor(rule))
    }

    /// True if the comment of our record for the hostname, or for the wildcard above it, has the mark of a protection.
    pub(super) fn claims_protection(self) -> bool {
        let records = self.snapshot.answering(self.hostname.as_str()).iter();
        let mut stamps = records.filter_map(|record| self.snapshot.own_stamp(record));
        stamps.any(|stamp| stamp.claims.is_protected)
    }

    /// Our record, if its comment claims the record without a rule.
    pub(crate) fn record_only(self) -> Option<&'a Record> {
        let own = self.snapshot.own_records_of(self.hostname.as_str());
        own.into_iter().find(|own| own.stamp.claims.record_only).map(|own| own.record)
    }

    /// True if a rule of ours is published at the path, or our record without a rule.
    pub(super) fn is_published(self, path: Option<&str>) -> bool {
        self.own_rule(path, None).is_some() || path.is_none() && self.record_only().is_some()
    }

    /// True if our record is published without a rule, and points to this tunnel.
    pub(super) fn is_record_only_in(self, tunnel: &TunnelId) -> bool {
        self.record_only().is_some()
            && self.snapshot.visited_tunnel(self.hostname.as_str()).as_ref() == Some(tunnel)
    }

    /// The joined Access checks at a path: of our rules in any tunnel, of foreign rules in the tunnel that visitors
    /// reach (in any tunnel if they reach none), and of the rule that answers the path's visitors now.
    pub(super) fn present_check(self, path: Option<&str>) -> Option<AccessCheck> {
        let visited = self.snapshot.visited_tunnel(self.hostname.as_str());
        let is_visited = |tunnel: &TunnelId| visited.as_ref().is_none_or(|visited| visited == tunnel);
        let own = self.snapshot.own_digests();
        let at = self.rules_at(path).filter(|(tunnel, rule)| is_visited(tunnel) || own.has(tunnel, rule));
        let checks =
            at.map(|(_, rule)| rule).chain(self.answering_rule(path)).filter_map(Rule::access_check).cloned();
        checks.reduce(|one, other| one.accepting(other.audience_tags()))
    }

    /// The check `present`, which also accepts the tokens of our application over the path. If it accepts no others,
    /// the application's own check.
    pub(super) fn check_with(
        self,
        present: Option<AccessCheck>,
        own_login: Option<&Application>,
    ) -> Option<AccessCheck> {
        let Some((own, access)) = own_login.zip(self.access()) else { return present };
        let accepts_others =
            |check: &AccessCheck| check.audience_tags().iter().any(|tag| *tag != own.audience);
        Some(match present.filter(accepts_others) {
            Some(check) => check.accepting([&own.audience]),
            // The team name of the account may have changed.
            None => AccessCheck::required(&access.team, [own]),
        })
    }

    /// True if the rule asks for a token that no application issues, and so refuses every visitor.
    pub(crate) fn refuses_every_visitor(self, rule: &Rule) -> bool {
        rule.access_check().zip(self.access()).is_some_and(|(check, access)| {
            // The applications of another team are not known.
            check.is_of(&access.team) && !access.applications.iter().any(|one| check.accepts(one))
        })
    }

    /// Our rule at a path, in `tunnel` or in any tunnel. The rule in the tunnel to which the record points comes first.
    pub(crate) fn own_rule(self, path: Option<&str>, tunnel: Option<&TunnelId>) -> Option<&'a Rule> {
        let own = self.own_rules_at(path).filter(|(id, _)| tunnel.is_none_or(|tunnel| *id == tunnel));
        let rules: Vec<(&TunnelId, &Rule)> = own.collect();
        let visited =
            (rules.len() > 1).then(|| self.snapshot.visited_tunnel(self.hostname.as_str())).flatten();
        let first = rules.iter().find(|(id, _)| Some(*id) == visited.as_ref()).or_else(|| rules.first());
        first.map(|(_, rule)| *rule)
    }

    /// The rules at a path, with their tunnels.
    pub(super) fn rules_at(self, path: Option<&str>) -> impl Iterator<Item = (&'a TunnelId, &'a Rule)> {
        let rules = self.snapshot.rules_of(self.hostname).into_iter();
        rules.filter(move |(_, rule)| rule.path() == path)
    }

    /// Our rules at a path, with their tunnels.
    pub(super) fn own_rules_at(self, path: Option<&str>) -> impl Iterator<Item = (&'a TunnelId, &'a Rule)> {
        let own = self.snapshot.own_digests();
        self.rules_at(path).filter(|(tunnel, rule)| own.has(tunnel, rule))
    }

    /// The first rule that takes all requests of the path in the tunnel that its visitors reach. A rule with an Access
    /// check also counts by the stronger proof of `takes_all`. An open rule does not, so that the check of a rule
    /// behind it is kept: another program may delete the open rule.
    fn answering_rule(self, path: Option<&str>) -> Option<&'a Rule> {
        let name = self.hostname.as_str();
        let tunnel = self.snapshot.tunnels.get(&self.snapshot.visited_tunnel(name)?)?;
        let mut rules = tunnel.document.near(name);
        let is_closed = |rule: &Rule| rule.requires_access() && rule.takes_all(name, path);
        rules.find(|rule| rule.covers(name, path) || is_closed(rule))
    }

    /// All applications that visitors of a rule at the path meet, sorted by name, if every visitor needs a login.
    ///
    /// # Errors
    /// The reason why some visitors may need no login, or why the protection is not known.
    pub(crate) fn guarding(self, path: Option<&str>) -> Result<Vec<&'a Application>, String> {
        self.whole_access().map_err(|unread| unread.reason)?;
        guard::cover(self.near(), self.hostname, path)
    }

    /// Those of [`Self::guarding`]. Else the first of [`Self::covering`] over every request, if one of its destinations
    /// has exactly this hostname, it asks for a login, and all of Access was read. A narrower application may let some
    /// visitors past that one, and of several wildcards it is not known which one decides.
    pub(crate) fn known_logins(self, path: Option<&str>) -> Vec<&'a Application> {
        self.guarding(path).unwrap_or_else(|_| {
            let first = self.covering_every_request(path).into_iter().next();
            let login = first.filter(|application| {
                let mut destinations = application.destinations.iter();
                let is_exact = destinations.any(|destination| *destination.host == *self.hostname.as_str());
                is_exact && self.whole_access().is_ok() && application.requires_login()
            });
            login.into_iter().collect()
        })
    }

    /// Our application that was made for exactly the path; of several, one whose token a rule accepts.
    pub(super) fn application_made_for(self, path: Option<&str>) -> Option<OwnApplication<'a>> {
        let of_hostname = self.snapshot.own_applications_of(self.hostname.as_str());
        let made: Vec<OwnApplication<'_>> = of_hostname.filter(|own| own.place.path() == path).collect();
        let is_named =
            |own: &&OwnApplication<'_>| self.rules_at(path).any(|(_, rule)| rule.accepts(own.application));
        let named = if made.len() > 1 { made.iter().find(is_named) } else { None };
        named.or_else(|| made.first()).copied()
    }

    /// The first of [`Self::own_logins`].
    pub(super) fn own_login(self, path: Option<&str>) -> Option<OwnApplication<'a>> {
        self.own_logins(path).next()
    }

    /// An application, foreign or ours of another place, with one of the destinations of `place`.
    pub(super) fn in_the_way(self, place: &Place) -> Option<&'a Application> {
        let wanted = place.destinations();
        self.near().find(|application| {
            let is_of_place =
                self.snapshot.own_application(application).is_some_and(|own| own.place == place);
            !is_of_place && application.destinations.iter().any(|destination| wanted.contains(destination))
        })
    }

    /// Ours at the beginning of [`Self::covering`], before the first that is foreign or asks for no login.
    pub(super) fn own_logins(self, path: Option<&str>) -> impl Iterator<Item = OwnApplication<'a>> {
        let covering = self.covering(path).into_iter();
        let own = covering.map_while(move |one| self.snapshot.own_application(one.application));
        own.take_while(|own| own.application.requires_login())
    }

    /// The applications over the path with all below it, or over a part of these requests, the most specific one first.
    pub(super) fn covering(self, path: Option<&str>) -> Vec<Covering<'a>> {
        let prefix = prefix_of(path);
        let ranked = self.near().filter_map(|application| {
            let over = application.destinations.iter().filter_map(|destination| {
                Some((rank(destination, self.hostname.as_str(), &prefix)?, &*destination.path))
            });
            let over: Vec<_> = over.collect();
            let (rank, _) = over.iter().max_by_key(|(rank, _)| *rank)?;
            let has = |path: &str| over.iter().any(|(_, other)| *other == path);
            // `alpha/*` misses `alpha`, so an application of the path needs both destinations.
            let takes_every_request = over.iter().any(|(_, path)| {
                let above = directory(path);
                above.is_empty() || path.ends_with("/*") && (prefix != above || has(above))
            });
            Some((Reverse(*rank), Covering { application, takes_every_request }))
        });
        let mut ranked: Vec<_> = ranked.collect();
        ranked.sort_by_key(|(rank, _)| *rank);
        ranked.into_iter().map(|(_, covering)| covering).collect()
    }

    /// Those of [`Self::covering`] over every request of the path.
    pub(crate) fn covering_every_request(self, path: Option<&str>) -> Vec<&'a Application> {
        let covering = self.covering(path).into_iter();
        covering.filter(|one| one.takes_every_request).map(|one| one.application).collect()
    }

    /// All applications with a destination that may have a name in common with the hostname, and perhaps others.
    pub(super) fn near(self) -> impl Iterator<Item = &'a Application> {
        let numbers = self.snapshot.application_index().numbers_near(self.hostname.as_str());
        numbers.into_iter().filter_map(move |number| self.snapshot.access.applications().get(number))
    }
}

/// The path of a destination without the `/*` at its end; empty for a whole host.
pub(super) fn directory(path: &str) -> &str {
    if path == "*" { "" } else { path.strip_suffix("/*").unwrap_or(path) }
}

/// The path that a rule takes with everything below, without the leading slash; empty if its expression is no such
/// prefix.
fn prefix_of(path: Option<&str>) -> String {
    let prefix = path.and_then(PathPattern::prefix_of).unwrap_or_default();
    prefix.trim_start_matches('/').to_owned()
}

/// The rank of a destination over a path, or over everything below it: an exact host comes before a wildcard, then a
/// longer path counts. With an empty prefix, only a whole host has a rank.
fn rank(destination: &Destination, hostname: &str, prefix: &str) -> Option<(bool, usize, usize)> {
    let above = directory(&destination.path);
    let is_within = |rest: &str| rest.is_empty() || rest.starts_with('/');
    let takes_path = above.is_empty() || prefix.strip_prefix(above).is_some_and(is_within);
    let takes_all = takes_path && matches_host(&destination.host, hostname);
    takes_all.then_some((*destination.host == *hostname, destination.host.len(), above.len()))
}
