//! What may stand in the way of an object: preconditions of the world that the documents name, none of which is a
//! mechanism of the program.

use external_dns_cloudflare_tunnel_webhook::reconcile::namespace;
use external_dns_cloudflare_tunnel_webhook::reconcile::stamp::{NamespaceCode, Stamp};
use test_support::external_dns::SyncPolicy;

use crate::claims::WILDCARD;
use crate::foreign::{document, is_home, is_locked, is_ours, place};
use crate::objects::{Access, Object};
use crate::strangers::application_hosts;
use crate::world::World;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Excuse {
    /// `DOMAIN_FILTER` leaves the hostname out.
    NotAskedFor,
    /// ExternalDNS withdraws nothing (`upsert-only`), or no more (`crd`), or not what another namespace asks for, and
    /// so a rule that no object may have keeps the hostname in another tunnel.
    NotWithdrawn,
    /// The registry `crd` goes by what was answered, and another writer changed that since, or Cloudflare rejected it.
    Drifted,
    /// Other objects want the same place, or the hostname in another tunnel, or another namespace has it.
    Rivals,
    /// An annotation is mistyped, or the settings forbid it; or that of another object is, which keeps the hostname in
    /// the tunnel in which it was.
    Mistake,
    /// Something asks for a login on the hostname and the object says nothing of that, or asks for a token or a policy
    /// that there is not, or for less than `ACCESS_GUARD` demands.
    Access,
    /// Cloudflare rejects the record or the rules of the hostname.
    Disliked,
    /// A record of another writer has the hostname.
    Contested,
    /// Another writer took away the stamp of the hostname.
    Orphaned,
    /// Another writer's application stands over the place.
    Covered,
    /// Another writer's rule has the place, or would be left behind in another tunnel; or a rule of ours does which is
    /// left alone with its record, because another zone answers for the hostname now, or which a wildcard's object
    /// keeps.
    ForeignRule,
}

/// Whether nothing stands in the object's way.
pub(crate) fn has_to_be_served(world: &World, object: &Object) -> bool {
    excuses(world, object).is_empty()
}

pub(crate) fn excuses(world: &World, object: &Object) -> Vec<Excuse> {
    let settings = &world.settings;
    let is_left_over = is_left_over(world, object);
    let foreign = world.foreign();
    let (is_contested, is_covered, is_in_way) = world.cloudflare().edit(|cloudflare| {
        let paths: Vec<_> = object.rules().map(|(path, _)| path).collect();
        (
            foreign.has_record_of(cloudflare, object.host),
            paths.iter().any(|path| foreign.is_covered((object.host, *path))),
            paths.iter().any(|path| foreign.has_rule_in_way(cloudflare, object, *path))
                || foreign.has_rule_of_outer_zone(cloudflare, object.host),
        )
    });
    let all = [
        (Excuse::NotAskedFor, !settings.lets_in(object.host)),
        (Excuse::NotWithdrawn, is_left_over),
        (Excuse::Drifted, !settings.sees_drift() && world.has_drifted(object.host)),
        (Excuse::Rivals, has_rivals(world, object)),
        (Excuse::Mistake, !object.is_sound() || is_kept_by_mistake(world, object)),
        (Excuse::Access, !is_said(world, object) || !is_access_there(world, object)),
        (Excuse::Disliked, world.is_disliked(object)),
        (Excuse::Contested, is_contested),
        (Excuse::Orphaned, foreign.is_orphaned(object.host)),
        (Excuse::Covered, is_covered),
        (Excuse::ForeignRule, is_in_way || is_kept_by_wildcard(world, object)),
    ];
    all.into_iter().filter(|(_, stands)| *stands).map(|(excuse, _)| excuse).collect()
}

/// Whether the hostname was in several tunnels, and another object of it is mistyped: what is published of that one
/// stays.
fn is_kept_by_mistake(world: &World, object: &Object) -> bool {
    let mut others = world.objects.iter().filter(|other| other.host == object.host);
    world.claims.history(object.host).tunnels.len() > 1 && others.any(|other| !other.is_sound())
}

/// Whether the hostname was in the tunnel in which an object has the wildcard, and no object of the hostname asks for
/// all its requests: what the wildcard's rule answers would be answered no more in another tunnel.
fn is_kept_by_wildcard(world: &World, object: &Object) -> bool {
    let tunnel = |object: &Object| world.settings.tunnel_of(object);
    let mut of_wildcard = world.objects.iter().filter(|other| other.host == WILDCARD);
    let is_whole =
        |other: &Object| other.host == object.host && other.rules().any(|(path, _)| path.is_none());
    object.host.ends_with(&WILDCARD[1..])
        && object.host != WILDCARD
        && !world.objects.iter().any(is_whole)
        && of_wildcard.any(|other| {
            tunnel(other) != tunnel(object)
                && world.claims.was_in(object.host, tunnel(other), &world.settings)
        })
}

/// An object that has had its places keeps them, whichever rivals come, as long as it asks for them in the same tunnel,
/// as far as the stamp can name it, and unless another writer led its record elsewhere: then the hostname is in no
/// tunnel.
fn has_rivals(world: &World, object: &Object) -> bool {
    let keeps = world.claims.holds(object)
        && !world.claims.history(object.host).is_contested()
        && !world.is_touched(object.host);
    !keeps && rivals(world, object).is_none_or(|rivals| !rivals.is_empty())
}

/// The other objects of the hostname that want one of the object's paths or another tunnel, or with the namespace guard
/// are of another namespace while none has the hostname. `None` where another namespace has it, as its record says.
pub(crate) fn rivals<'w>(world: &'w World, object: &Object) -> Option<Vec<&'w Object>> {
    let holder = namespace_of(world, object.host);
    let may_have = |other: &Object| holder.is_none() || namespace::code_of(&other.resource()) == holder;
    if !may_have(object) {
        return None;
    }
    let shares_path =
        |other: &Object| object.rules().any(|(path, _)| other.rules().any(|(other, _)| path == other));
    let is_of_other_namespace =
        |other: &Object| world.settings.namespace_guard && other.namespace != object.namespace;
    let others = world.objects.iter().filter(|other| other.host == object.host && *other != object);
    let is_rival =
        |other: &&Object| shares_path(other) || other.tunnel != object.tunnel || is_of_other_namespace(other);
    Some(others.filter(|other| may_have(other)).filter(is_rival).collect())
}

/// The namespace that has a hostname, in the form of a stamp, where namespaces are kept apart.
pub(crate) fn namespace_of(world: &World, host: &str) -> Option<NamespaceCode> {
    if !world.settings.namespace_guard {
        return None;
    }
    world.cloudflare().edit(|cloudflare| {
        let zones = cloudflare.zones().iter().filter(|zone| is_home(cloudflare, &zone.id, host));
        let mut records = zones.flat_map(|zone| cloudflare.records(&zone.id));
        let record = records.find(|record| record.name == host && is_ours(record))?;
        namespace::of_stamp(&Stamp::parse(record.comment.as_deref()?)?)
    })
}

/// Whether a rule of the hostname that no object asks for stands in another tunnel than the object's, and ExternalDNS
/// never asks for its deletion (`upsert-only`), or asks no more (`crd`), or asks for an update of it to another
/// namespace's object.
fn is_left_over(world: &World, object: &Object) -> bool {
    let on_host = world.objects.iter().filter(|other| other.host == object.host);
    let is_asked_by_others = || on_host.clone().any(|other| other.namespace != object.namespace);
    let is_kept = world.settings.namespace_guard && is_asked_by_others();
    if world.settings.policy == SyncPolicy::Sync && world.settings.sees_drift() && !is_kept {
        return false;
    }
    let asked: Vec<&str> = on_host.flat_map(|other| other.rules().map(|(_, service)| service)).collect();
    let wanted = world.settings.tunnel_of(object);
    world.cloudflare().edit(|cloudflare| {
        let foreign = world.foreign();
        let others = cloudflare.tunnels().iter().filter(|tunnel| !tunnel.deleted && tunnel.name != wanted);
        let rules = others.flat_map(|tunnel| foreign.ours(cloudflare, &tunnel.id));
        let mut of_host = rules.filter(|rule| place(rule).hostname == object.host);
        of_host.any(|rule| !asked.iter().any(|service| rule.contains(service)))
    })
}

/// Whether the object says what it is to be, where something asks for a login: a rule or an application for its
/// hostname, or for a wildcard above it.
fn is_said(world: &World, object: &Object) -> bool {
    let is_below_wildcard = object.host.ends_with(&WILDCARD[1..]);
    let is_over = |host: &str| host == object.host || (host == WILDCARD && is_below_wildcard);
    let is_protected = || {
        world.cloudflare().edit(|cloudflare| {
            let documents = cloudflare.tunnels().iter().map(|tunnel| document(cloudflare, &tunnel.id));
            let mut rules = documents.flat_map(|document| document.rules);
            let mut hosts = cloudflare.applications().iter().flat_map(|one| application_hosts(&one.fields));
            rules.any(|rule| is_locked(&rule) && is_over(&place(&rule).hostname))
                || hosts.any(|host| is_over(&host))
        })
    };
    object.is_secret() || !is_protected()
}

/// Whether all is there that the object asks of Access, and it asks for as much as `ACCESS_GUARD` demands.
fn is_access_there(world: &World, object: &Object) -> bool {
    match object.access {
        Access::Required => false,
        Access::Policies(_) => !world.lacks_policy,
        Access::Silent if world.settings.protects_silence() => !world.lacks_policy,
        Access::Open => !world.lacks_policy && !world.settings.access_guard,
        Access::Silent => !world.settings.access_guard,
    }
}
