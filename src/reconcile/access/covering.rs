//! Finds the applications that visitors of a path of the hostname meet, of all owners where nothing else is said. An
//! application *asks for a login* if it asks all its visitors.

use std::cmp::Reverse;

use crate::ingress::PathPattern;
use crate::model::access::{Application, ApplicationKind, Destination};
use crate::reconcile::access::applications::OwnApplication;
use crate::reconcile::access::destination::matches_host;
use crate::reconcile::access::guard;
use crate::reconcile::access::host_protection::HostProtection;
use crate::reconcile::access::place::{self, Place};

impl<'a> HostProtection<'a> {
    /// All applications that visitors of a rule at the path meet, sorted by name, if every visitor needs a login.
    ///
    /// # Errors
    /// The reason why some visitors may need no login, or why the protection is not known.
    pub(in crate::reconcile) fn guarding(self, path: Option<&str>) -> Result<Vec<&'a Application>, String> {
        self.whole_access().map_err(|unread| unread.reason)?;
        guard::cover(self.near(), self.hostname, path)
    }

    /// Those of [`Self::guarding`], or else the first of [`Self::covering_every_request`], if Access was read and it asks
    /// for a login. A narrower application may let some visitors past that one, and of several wildcards it is not known
    /// which one decides.
    pub(in crate::reconcile) fn logins(self, path: Option<&str>) -> Vec<&'a Application> {
        self.guarding(path).unwrap_or_else(|_| {
            let first = self.covering_every_request(path).into_iter().next();
            let is_exact =
                |one: &Application| one.destinations.iter().any(|at| *at.host == *self.hostname.as_str());
            let asks =
                |one: &&Application| self.whole_access().is_ok() && is_exact(one) && asks_for_login(one);
            first.filter(asks).into_iter().collect()
        })
    }

    /// Our application that was made for exactly the path; of several, one whose token a rule accepts.
    pub(super) fn application_made_for(self, path: Option<&str>) -> Option<OwnApplication<'a>> {
        let all = || {
            self.snapshot.own_applications_of(self.hostname.as_str()).filter(|own| own.place.path() == path)
        };
        let is_named =
            |own: &OwnApplication<'_>| self.rules_at(path).any(|(_, rule)| rule.accepts(own.application));
        all().find(is_named).or_else(|| all().next())
    }

    /// The first of [`Self::own_covering`].
    pub(super) fn own_login(self, path: Option<&str>) -> Option<OwnApplication<'a>> {
        self.own_covering(path).next()
    }

    /// The first foreign one of [`Self::covering_every_request`], if it asks for a login.
    pub(in crate::reconcile) fn foreign_login(self, path: Option<&str>) -> Option<&'a Application> {
        let is_foreign = |one: &&Application| self.snapshot.own_application(one).is_none();
        let foreign = self.covering_every_request(path).into_iter().find(is_foreign)?;
        asks_for_login(foreign).then_some(foreign)
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
    pub(super) fn own_covering(self, path: Option<&str>) -> impl Iterator<Item = OwnApplication<'a>> {
        self.covering(path)
            .into_iter()
            .map_while(move |one| self.snapshot.own_application(one).filter(|_| asks_for_login(one)))
    }

    /// Those of [`Self::covering`] that every visitor of the path meets.
    pub(super) fn covering_every_request(self, path: Option<&str>) -> Vec<&'a Application> {
        let mut covering = self.covering(path);
        covering.retain(|one| takes_every_request(one, self.hostname.as_str(), &prefix_of(path)));
        covering
    }

    /// The applications over the path, or over everything below it alone, the most specific one first.
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

    /// The applications with a destination that may have a name in common with the hostname.
    pub(super) fn near(self) -> impl Iterator<Item = &'a Application> {
        let numbers = self.snapshot.application_index().numbers_near(self.hostname.as_str());
        numbers.into_iter().filter_map(move |number| self.snapshot.access.applications().get(number))
    }
}

/// True if the application asks all its visitors for a login.
pub(super) fn asks_for_login(application: &Application) -> bool {
    application.kind == ApplicationKind::SelfHosted && !place::may_be_bypassed(application)
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
