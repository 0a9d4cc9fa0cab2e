//! The present protection of a hostname: Access applications, and the Access checks of rules.

use std::cmp::Reverse;

use crate::ingress::access_check::AccessCheck;
use crate::ingress::{PathPattern, Rule};
use crate::model::access::{Application, ApplicationKind, Destination};
use crate::model::{Hostname, TunnelId};
use crate::reconcile::access::applications::OwnApplication;
use crate::reconcile::access::destination::matches_host;
use crate::reconcile::access::guard;
use crate::reconcile::access::place::{self, Place};
use crate::reconcile::access::reading::{AccessReadError, AccessSnapshot};
use crate::reconcile::snapshot::Snapshot;

/// One hostname, and the snapshot that shows its protection.
#[derive(Clone, Copy)]
pub(in crate::reconcile) struct HostProtection<'a> {
    pub(super) hostname: &'a Hostname,
    pub(super) snapshot: &'a Snapshot,
}

impl<'a> HostProtection<'a> {
    pub(in crate::reconcile) fn of(hostname: &'a Hostname, snapshot: &'a Snapshot) -> Self {
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

    /// The applications that visitors of a rule at the path meet, sorted by name.
    ///
    /// # Errors
    /// The reason why some visitors may need no login, or why the protection is not known.
    pub(in crate::reconcile) fn guarding(self, path: Option<&str>) -> Result<Vec<&'a Application>, String> {
        self.whole_access().map_err(|unread| unread.reason)?;
        guard::cover(self.near(), self.hostname, path)
    }

    /// The applications of all owners that are known to ask visitors of the path for a login: those of [`Self::guarding`], or
    /// else the one that every visitor meets unless a narrower application lets some of them past.
    pub(in crate::reconcile) fn logins(self, path: Option<&str>) -> Vec<&'a Application> {
        self.guarding(path).unwrap_or_else(|_| {
            let first = self.covering_every_request(path).into_iter().next();
            first.filter(|first| self.whole_access().is_ok() && asks_for_login(first)).into_iter().collect()
        })
    }

    /// Our application that was made for the path. If there are several, one whose token a rule accepts comes first.
    pub(super) fn application_made_for(self, path: Option<&str>) -> Option<OwnApplication<'a>> {
        let place = Place::of(self.hostname, path).ok()?;
        let all =
            || self.snapshot.own_applications_of(self.hostname.as_str()).filter(|own| *own.place == place);
        let is_named = |own: &OwnApplication<'_>| {
            let mut checks = self.rules_at(path).filter_map(|(_, rule)| rule.access_check());
            checks.any(|check| check.accepts(own.application))
        };
        all().find(is_named).or_else(|| all().next())
    }

    /// True if the comment needs the mark that an application of ours protects a part of the hostname. A present mark
    /// is preserved while Access is not read, and while a rule asks for a token that no application issues. Then the log
    /// reports the missing application after a restart too.
    pub(in crate::reconcile) fn needs_mark(self, has_mark: bool) -> bool {
        if self.access().is_none() {
            return has_mark;
        }
        let (name, mut rules) = (self.hostname.as_str(), self.snapshot.rules_of(self.hostname).into_iter());
        let has_own = |name: &str| self.snapshot.own_applications_of(name).next().is_some();
        has_own(name)
            || name.split_once('.').is_some_and(|(_, domain)| has_own(&format!("*.{domain}")))
            || has_mark && rules.any(|(_, rule)| self.refuses_every_visitor(rule))
    }

    /// True if the rule asks for a token that no application issues, and so refuses every visitor.
    pub(in crate::reconcile) fn refuses_every_visitor(self, rule: &Rule) -> bool {
        rule.access_check().zip(self.access()).is_some_and(|(check, access)| {
            // The applications of another team are not known.
            check.is_of(&access.team) && !access.applications.iter().any(|one| check.accepts(one))
        })
    }

    /// True if the comment of our record for the hostname, or for the wildcard above it, has the mark of a protection.
    pub(super) fn claims_protection(self) -> bool {
        let records = self.snapshot.answering(self.hostname.as_str()).iter();
        let mut stamps = records.filter_map(|record| self.snapshot.own_stamp(record));
        stamps.any(|stamp| stamp.claims.is_protected)
    }

    /// The joined Access checks of rules at a path: our rules in any tunnel, foreign rules in the tunnel to which the
    /// record points (in any tunnel if it points to none), and the rule that answers the path's visitors now.
    pub(super) fn present_check(self, path: Option<&str>) -> Option<AccessCheck> {
        let visited = self.snapshot.visited_tunnel(self.hostname.as_str());
        let is_visited = |tunnel: &TunnelId| visited.as_ref().is_none_or(|visited| visited == tunnel);
        let counts = |tunnel| is_visited(tunnel) || self.own_rule(path, Some(tunnel)).is_some();
        let at = self.rules_at(path).filter(|(tunnel, _)| counts(tunnel)).map(|(_, rule)| rule);
        let checks = at.chain(self.answering_rule(path)).filter_map(Rule::access_check).cloned();
        checks.reduce(|one, other| one.accepting(other.audience_tags()))
    }

    /// The check of a rule that keeps the check `present`, and accepts the tokens of our application `covering` it too.
    pub(super) fn kept_check(
        self,
        present: Option<AccessCheck>,
        covering: Option<&Application>,
    ) -> Option<AccessCheck> {
        let Some((covering, access)) = covering.zip(self.access()) else { return present };
        let accepts_others =
            |check: &AccessCheck| check.audience_tags().iter().any(|tag| *tag != covering.audience);
        Some(match present.filter(accepts_others) {
            Some(check) => check.accepting([&covering.audience]),
            // The team name of the account may have changed.
            None => access.check_of([covering]),
        })
    }

    /// Our rule at a path, in `tunnel` or in any tunnel. The rule in the tunnel to which the record points comes first.
    pub(in crate::reconcile) fn own_rule(
        self,
        path: Option<&str>,
        tunnel: Option<&TunnelId>,
    ) -> Option<&'a Rule> {
        let mut rules = self.snapshot.own_rules_of(self.hostname, |rule| rule.path() == path);
        rules.retain(|(id, _)| tunnel.is_none_or(|tunnel| *id == tunnel));
        let visited =
            (rules.len() > 1).then(|| self.snapshot.visited_tunnel(self.hostname.as_str())).flatten();
        rules.into_iter().max_by_key(|(id, _)| Some(*id) == visited.as_ref()).map(|(_, rule)| rule)
    }

    /// True if the comment of our record claims the record without a rule.
    pub(super) fn is_record_only(self) -> bool {
        let own = self.snapshot.own_records_of(self.hostname.as_str());
        own.iter().any(|own| own.stamp.claims.record_only)
    }

    /// True if a rule of ours is published at the path, or our record without a rule.
    pub(super) fn is_published(self, path: Option<&str>) -> bool {
        self.own_rule(path, None).is_some() || path.is_none() && self.is_record_only()
    }

    /// True if our record is published without a rule, and points to this tunnel.
    pub(super) fn is_record_only_in(self, tunnel: &TunnelId) -> bool {
        self.is_record_only() && self.snapshot.visited_tunnel(self.hostname.as_str()).as_ref() == Some(tunnel)
    }

    /// The rules at a path, with their tunnels.
    fn rules_at(self, path: Option<&str>) -> impl Iterator<Item = (&'a TunnelId, &'a Rule)> {
        let rules = self.snapshot.rules_of(self.hostname).into_iter();
        rules.filter(move |(_, rule)| rule.path() == path)
    }

    /// The first rule that takes all requests of the path, so that a rule of ours for the path is placed in front of it. A
    /// rule with an Access check counts by [`Rule::takes_all`] too.
    fn answering_rule(self, path: Option<&str>) -> Option<&'a Rule> {
        let name = self.hostname.as_str();
        let tunnel = self.snapshot.tunnels.get(&self.snapshot.visited_tunnel(name)?)?;
        let mut rules = tunnel.document.near(name);
        let is_closed = |rule: &Rule| rule.requires_access() && rule.takes_all(name, path);
        rules.find(|rule| rule.matches_all(name, path) || is_closed(rule))
    }

    /// The applications with a destination that may have a name in common with the hostname, without unrelated ones.
    pub(super) fn near(self) -> impl Iterator<Item = &'a Application> {
        let numbers = self.snapshot.application_index().numbers_near(self.hostname.as_str());
        numbers.into_iter().filter_map(move |number| self.snapshot.access.applications().get(number))
    }

    /// The applications of all owners over the path, the most specific one first. An application of everything below the
    /// path counts, though it misses the path itself.
    pub(super) fn covering(self, path: Option<&str>) -> Vec<&'a Application> {
        let prefix = prefix_of(path);
        let ranked = self.near().filter_map(|application| {
            let destinations = application.destinations.iter();
            let ranks = destinations.filter_map(|one| rank(one, self.hostname.as_str(), &prefix));
            Some((Reverse(ranks.max()?), application))
        });
        let mut ranked: Vec<_> = ranked.collect();
        ranked.sort_by_key(|(one, _)| *one);
        ranked.into_iter().map(|(_, application)| application).collect()
    }

    /// Those of [`Self::covering`] that every visitor of the path meets.
    pub(super) fn covering_every_request(self, path: Option<&str>) -> Vec<&'a Application> {
        let mut covering = self.covering(path);
        covering.retain(|one| takes_every_request(one, self.hostname.as_str(), &prefix_of(path)));
        covering
    }

    /// Our applications at the beginning of [`Self::covering`]: the list ends before an application that lets visitors past,
    /// and before an application of another owner.
    pub(super) fn own_covering(self, path: Option<&str>) -> impl Iterator<Item = OwnApplication<'a>> {
        self.covering(path)
            .into_iter()
            .map_while(move |one| self.snapshot.own_application(one).filter(|_| asks_for_login(one)))
    }

    /// The most specific application of another owner that every visitor of the path meets, if it asks for a login.
    pub(in crate::reconcile) fn foreign_login(self, path: Option<&str>) -> Option<&'a Application> {
        let is_foreign = |one: &&Application| self.snapshot.own_application(one).is_none();
        let foreign = self.covering_every_request(path).into_iter().find(is_foreign)?;
        asks_for_login(foreign).then_some(foreign)
    }

    /// The application of ours that asks visitors of the path, or of everything below it, for a login.
    pub(super) fn own_login(self, path: Option<&str>) -> Option<OwnApplication<'a>> {
        self.own_covering(path).next()
    }

    /// An application of another owner, or ours of another place, that has one of the destinations of a place of the
    /// hostname.
    pub(super) fn in_the_way(self, place: &Place) -> Option<&'a Application> {
        let wanted = place.destinations();
        self.near().find(|application| {
            let is_of_place =
                self.snapshot.own_application(application).is_some_and(|own| own.place == place);
            !is_of_place && application.destinations.iter().any(|destination| wanted.contains(destination))
        })
    }
}

/// The rules, ours and foreign, that accept a token of this application.
pub(in crate::reconcile) fn rules_accepting<'s>(
    application: &Application,
    snapshot: &'s Snapshot,
) -> impl Iterator<Item = &'s Rule> {
    snapshot.all_rules().filter(|rule| rule.access_check().is_some_and(|check| check.accepts(application)))
}

/// True if the application asks all its visitors for a login.
pub(super) fn asks_for_login(application: &Application) -> bool {
    application.kind == ApplicationKind::SelfHosted && !place::may_be_bypassed(application)
}

/// True if a rule requires a token, and accepts no token of this application.
pub(super) fn requires_another(rule: &Rule, application: &Application) -> bool {
    rule.access_check().is_some_and(|check| !check.accepts(application))
}

/// The path that a rule takes with everything below, without the leading slash; empty if its expression is no such
/// prefix.
fn prefix_of(path: Option<&str>) -> String {
    let prefix = path.and_then(PathPattern::prefix_of).unwrap_or_default();
    prefix.trim_start_matches('/').to_owned()
}

/// The rank of a destination over a path, or over everything below it: an exact host comes before a wildcard, then a
/// longer path counts. With an empty prefix, only a whole host has a rank.
fn rank(one: &Destination, hostname: &str, prefix: &str) -> Option<(bool, usize, usize)> {
    let above = directory(&one.path);
    let takes_path = above.is_empty() || format!("{prefix}/").starts_with(&format!("{above}/"));
    let takes_all = takes_path && matches_host(&one.host, hostname);
    takes_all.then_some((*one.host == *hostname, one.host.len(), above.len()))
}

/// True if the application takes every request for a path. `alpha/*` misses `alpha`, so an application of the path
/// needs both destinations.
fn takes_every_request(application: &Application, hostname: &str, prefix: &str) -> bool {
    let over = application.destinations.iter().filter(|one| rank(one, hostname, prefix).is_some());
    let has = |path: &str| over.clone().any(|one| *one.path == *path);
    over.clone().any(|one| {
        let above = directory(&one.path);
        above.is_empty() || one.path.ends_with("/*") && (prefix != above || has(above))
    })
}

/// The path of a destination without the `/*` at its end; empty for a whole host.
pub(super) fn directory(path: &str) -> &str {
    if path == "*" { "" } else { path.strip_suffix("/*").unwrap_or(path) }
}
