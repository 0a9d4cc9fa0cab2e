//! What is promised of an object at rest: it is served as it asks, or, where something stands in its way, what the
//! documents say of that.

use cloudflare_emulator::{Visit, Visitor};

use crate::claims::WILDCARD;
use crate::excuses::{Excuse, excuses, rivals};
use crate::foreign::{is_locked, place};
use crate::invariants::{Violation, service};
use crate::objects::{Access, Object};
use crate::rest::{is_served, visit};
use crate::strangers::{OTHER_SERVICE, application_hosts};
use crate::world::World;

/// The promise that holds for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// It is served as it asks.
    Served,
    /// What served its places before still does.
    Kept,
    /// It lets no visitor in without a token.
    Closed,
    /// Nothing of it is published.
    Absent,
}

/// Sees that what is promised of the object holds. Returns what that is; `None` where nothing is promised of it alone.
pub(crate) fn look_at(world: &World, object: &Object, excuses: &[Excuse]) -> Result<Option<Held>, Violation> {
    let is_all = |known: &[Excuse]| excuses.iter().all(|excuse| known.contains(excuse));
    if excuses.is_empty() {
        return is_served(world, object).map(|()| Some(Held::Served));
    }
    if excuses == [Excuse::Rivals] {
        if rivals(world, object).is_none() {
            return Ok(None);
        }
        one_of_rivals_is_served(world, object)?;
        return Ok(is_served(world, object).is_ok().then_some(Held::Served));
    }
    if excuses.contains(&Excuse::NotAskedFor) {
        return nothing_is_published(world, object, |_, host| host == object.host)
            .map(|()| Some(Held::Absent));
    }
    let has_service = |rule: &str| object.rules().any(|(_, service)| rule.contains(service));
    let is_new = || object.rules().all(|(_, service)| !world.claims.was_asked(service));
    if excuses.contains(&Excuse::Mistake) && is_new() {
        return nothing_is_published(world, object, |rule, _| has_service(rule)).map(|()| Some(Held::Absent));
    }
    if excuses.contains(&Excuse::Access) && world.settings.access_guard {
        let is_open = |rule: &str, _: &str| has_service(rule) && !is_locked(rule);
        return nothing_is_published(world, object, is_open).map(|()| Some(Held::Closed));
    }
    if excuses == [Excuse::Access]
        && object.access == Access::Required
        && !world.settings.protects_silence()
        && !has_application(world, object.host)
    {
        return is_closed(world, object).map(|()| Some(Held::Closed));
    }
    if is_all(&[Excuse::Mistake, Excuse::Disliked, Excuse::Access])
        && object.access != Access::Required
        && !world.is_touched(object.host)
        && object.rules().all(|(path, _)| !world.claims.seen(object, path).is_empty())
    {
        return is_kept(world, object).map(|()| Some(Held::Kept));
    }
    Ok(None)
}

/// The object and its rivals, and theirs.
fn contest<'w>(world: &'w World, object: &'w Object) -> Vec<&'w Object> {
    let (mut contest, mut next) = (vec![object], 0);
    while let Some(one) = contest.get(next).copied() {
        for rival in rivals(world, one).unwrap_or_default() {
            if !contest.contains(&rival) {
                contest.push(rival);
            }
        }
        next += 1;
    }
    contest
}

/// Of objects that want the same, one at least is served at one of its places, unless something else stands in the way
/// of one of them. Where they agree in the tunnel and the namespace, each path that they ask for is served by one of
/// those that do.
fn one_of_rivals_is_served(world: &World, object: &Object) -> Result<(), Violation> {
    let contest = contest(world, object);
    let has_only_rivals = |other: &&Object| excuses(world, other).iter().all(|one| *one == Excuse::Rivals);
    let unserved = |text: String| Err(Violation::new("unserved", format!("{text}: {contest:?}")));
    let has_place = |other: &&Object| {
        other.rules().any(|(path, wanted)| {
            service(&visit(world, Visitor::WithLogin, other.host, path)) == Some(wanted)
        })
    };
    if contest.iter().all(has_only_rivals) && !contest.iter().any(has_place) {
        return unserved("none of these is served".to_owned());
    }
    let agrees = |other: &&Object| other.tunnel == object.tunnel && other.namespace == object.namespace;
    if !contest.iter().all(agrees) {
        return Ok(());
    }
    for (path, _) in object.rules() {
        let wanted = |other: &Object| -> Vec<String> {
            let rules = other.rules().filter(|(at, _)| *at == path);
            rules.map(|(_, service)| service.to_owned()).collect()
        };
        let asking = contest.iter().filter(|other| !wanted(other).is_empty());
        let visit = visit(world, Visitor::WithLogin, object.host, path);
        let is_by = |other: &&&Object| wanted(other).iter().any(|wanted| service(&visit) == Some(wanted));
        if asking.clone().all(has_only_rivals) && !asking.clone().any(|other| is_by(&other)) {
            return unserved(format!("{path:?} is served by none of these, but {visit}"));
        }
    }
    Ok(())
}

/// Whether an application is over the hostname. One for a wildcard is over what says nothing else below it.
fn has_application(world: &World, host: &str) -> bool {
    world.cloudflare().edit(|cloudflare| {
        let mut hosts = cloudflare.applications().iter().flat_map(|one| application_hosts(&one.fields));
        hosts.any(|covered| covered == host || (covered == WILDCARD && host.ends_with(&WILDCARD[1..])))
    })
}

fn is_closed(world: &World, object: &Object) -> Result<(), Violation> {
    for (path, _) in object.rules() {
        let visit = visit(world, Visitor::WithLogin, object.host, path);
        if !matches!(visit, Visit::Refused { .. }) {
            return Err(Violation::new("unserved", format!("{object:?} lets no visitor in, but {visit}")));
        }
    }
    Ok(())
}

fn is_kept(world: &World, object: &Object) -> Result<(), Violation> {
    for (path, _) in object.rules() {
        let seen = world.claims.seen(object, path);
        let visit = visit(world, Visitor::WithLogin, object.host, path);
        if !service(&visit).is_some_and(|service| seen.contains(service)) {
            return Err(Violation::new(
                "kept",
                format!("{object:?} was served by one of {seen:?}, but {visit}"),
            ));
        }
    }
    Ok(())
}

/// No rule of ours is as `is_meant` says, by its text and its hostname.
fn nothing_is_published(
    world: &World,
    object: &Object,
    is_meant: impl Fn(&str, &str) -> bool,
) -> Result<(), Violation> {
    let foreign = world.foreign();
    let found = world.cloudflare().edit(|cloudflare| {
        let tunnels = cloudflare.tunnels().iter().filter(|tunnel| !tunnel.deleted);
        let mut rules = tunnels.flat_map(|tunnel| foreign.ours(cloudflare, &tunnel.id));
        let is_of_other = |rule: &str| rule.contains(OTHER_SERVICE);
        rules.find(|rule| !is_of_other(rule) && is_meant(rule, &place(rule).hostname))
    });
    found.map_or(Ok(()), |rule| Err(Violation::new("published", format!("{object:?} has {rule}"))))
}
