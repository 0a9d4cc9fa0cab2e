//! What may never happen. Each check runs after a loop, over every instant of it at which anything changed for a
//! visitor.

use std::collections::BTreeMap;

use cloudflare_emulator::{Record, Visit, VisitChange, Visitor, Watched};
use external_dns_cloudflare_tunnel_webhook::reconcile::namespace;
use external_dns_cloudflare_tunnel_webhook::reconcile::stamp::NamespaceCode;
use test_support::external_dns::SyncPolicy;

use crate::claims::WILDCARD;
use crate::coverage::Share;
use crate::excuses::{self, Excuse};
use crate::foreign::{self, Place, place};
use crate::objects::{CONTESTED, GROUP_PATH, HOSTS, OPEN, Object, SECRET, SILENT, url};
use crate::settings::DEFAULT_SERVICE;
use crate::strangers::{FOREIGN_URLS, OTHER_HOST, OTHER_URL, THEIRS};
use crate::touched::Touched;
use crate::world::World;

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    /// The name of the promise.
    pub(crate) kind: &'static str,
    pub(crate) text: String,
}

impl Violation {
    pub(crate) fn new(kind: &'static str, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }
}

/// The visitors that ask. Only the second one ever sees anything of what is protected.
pub(crate) const VISITORS: [Visitor; 2] = [Visitor::WithoutLogin, Visitor::WithLogin];

/// Paths at which objects ask for a rule.
const PATHS: [Option<&str>; 5] = [None, Some("/api"), Some("/api/v2"), Some("/admin"), Some("/theirs")];

/// Part of the addresses below the wildcard. Such a name and the wildcard that takes over from it, or gives way to it,
/// may be written in either order.
const BELOW_WILDCARD: &str = ".apps.example.org/";

/// What visitors of our hostnames ask for.
pub(crate) fn urls() -> Vec<String> {
    let hosts = HOSTS.iter().chain(&CONTESTED);
    hosts.flat_map(|host| PATHS.iter().map(|path| url(host, *path))).collect()
}

pub(crate) fn service(visit: &Visit) -> Option<&str> {
    match visit {
        Visit::Served { service, .. } => Some(service),
        _ => None,
    }
}

/// The tunnel that the visit reached.
fn tunnel(visit: &Visit) -> Option<&str> {
    match visit {
        Visit::Served { tunnel, .. } | Visit::Refused { tunnel, .. } => Some(tunnel),
        _ => None,
    }
}

fn is_of_objects(service: &str) -> bool {
    [SECRET, OPEN, SILENT].iter().any(|kind| service.starts_with(kind))
}

fn is_served_by(change: &VisitChange, wanted: &str) -> bool {
    change.got.iter().all(|visit| service(visit) == Some(wanted))
}

/// Looks at a loop that has just ended. `here`: what another writer changed meanwhile.
pub(crate) fn after_loop(world: &mut World, watched: &[Watched], here: &Touched) -> Result<(), Violation> {
    for one in watched {
        let is_other = one.url == OTHER_URL && !world.is_touched(OTHER_HOST);
        let is_foreign = FOREIGN_URLS.contains(&&*one.url) || is_other;
        if is_foreign && one.changes.len() > 1 && !here.has_lost_update() {
            return Err(Violation::new("neighbour", one.to_string()));
        }
        for visit in one.changes.iter().flat_map(|change| &change.got) {
            let Some(service) = service(visit) else { continue };
            if service == DEFAULT_SERVICE {
                return Err(Violation::new("mistake", format!("every object names a service: {one}")));
            }
            if !is_of_objects(service) {
                continue;
            }
            // With the guard nothing of ours is open, whatever its object says.
            let needs_login = service.starts_with(SECRET) || world.settings.access_guard;
            let is_opened = || hosts_of(&one.url).any(|host| world.foreign().is_opened(host));
            if one.visitor == Visitor::WithoutLogin && needs_login && !is_opened() {
                return Err(Violation::new("open", one.to_string()));
            }
            if !world.claims.was_asked(service) {
                return Err(Violation::new(
                    "mistake",
                    format!("no object without mistake asked for this: {one}"),
                ));
            }
        }
    }
    let by_members: Vec<&Watched> = watched.iter().filter(|one| one.visitor == Visitor::WithLogin).collect();
    watched.iter().try_for_each(|one| stays_divided(world, one, here))?;
    let is_touched_here =
        |one: &Watched| hosts_of(&one.url).any(|host| here.has(host, &world.claims, &world.settings));
    watched.iter().filter(|one| !is_touched_here(one)).try_for_each(|one| stays_closed(world, one))?;
    if !here.has_lost_update() {
        by_members
            .iter()
            .filter(|one| !is_touched_here(one))
            .try_for_each(|one| keeps_requests(world, one))?;
    }
    let mut looked_at = Share::default();
    for one in &by_members {
        if hosts_of(&one.url).next().is_none() || !is_by(one.changes.first(), is_of_objects) {
            continue;
        }
        let is_promised = stays_served(world, one, here)? | wanted_stays(world, one, here)?;
        looked_at.count(is_promised);
    }
    world.coverage.throughout.add(looked_at);
    match world.cloudflare().edit(|cloudflare| world.foreign().violations(cloudflare)).into_iter().next() {
        Some(first) => Err(Violation::new("foreign", first)),
        None => Ok(()),
    }
}

/// Looks at a loop of the other owner, of which visitors of other hostnames notice nothing.
pub(crate) fn after_other(watched: &[Watched], touched: &Touched, world: &World) -> Result<(), Violation> {
    let is_theirs =
        |one: &&Watched| hosts_of(&one.url).any(|host| touched.has(host, &world.claims, &world.settings));
    match watched.iter().filter(|one| !is_theirs(one)).find(|one| one.changes.len() > 1) {
        Some(changed) => Err(Violation::new("neighbour", changed.to_string())),
        None => Ok(()),
    }
}

/// The hostname of ours that visitors ask for.
fn hosts_of(address: &str) -> impl Iterator<Item = &'static str> {
    HOSTS.into_iter().chain(CONTESTED).filter(move |host| address.starts_with(&url(host, None)))
}

/// Whether several namespaces want the hostname, and the one that has it asks for it no more: the hostname goes from
/// one to the other only once it is gone.
fn changes_namespace(world: &World, address: &str) -> bool {
    let is_asked_by_holder = |host: &str| {
        let holder = excuses::namespace_of(world, host);
        holder.is_some()
            && world.has_object(|one| one.host == host && namespace::code_of(&one.resource()) == holder)
    };
    world.settings.namespace_guard
        && hosts_of(address)
            .any(|host| world.claims.history(host).namespaces.len() > 1 && !is_asked_by_holder(host))
}

/// The application that let a visitor in at each connector.
fn audiences(change: &VisitChange) -> Vec<Option<&str>> {
    fn audience(visit: &Visit) -> Option<&str> {
        match visit {
            Visit::Served { audience, .. } => audience.as_deref(),
            _ => None,
        }
    }
    change.got.iter().map(audience).collect()
}

/// Whether another writer may change what visitors of the hostname get in this loop.
fn is_in_others_hands(world: &World, host: &str, here: &Touched) -> bool {
    world.has_other_zone(host) || here.has(host, &world.claims, &world.settings)
}

/// Whether a wildcard over the address changes, with which what comes or goes below it may be served by either of its
/// rules. Its change may also be an earlier one that is done only now, as a place failed or Cloudflare rejected
/// something, or as its old tunnel keeps a rule for the time of grace. A source that shows nothing withdraws both.
fn is_below_change(world: &World, address: &str) -> bool {
    let is_late = world.had_outage || world.had_refusal || !world.disliked.is_empty();
    let has_moved = world.claims.history(WILDCARD).tunnels.len() > 1;
    let is_changed = world.claims.is_wildcard_changed()
        || (world.claims.was_wildcard_changed() && (is_late || has_moved))
        || !world.shows_all();
    address.contains(BELOW_WILDCARD) && is_changed
}

/// Whether a record of its own comes or goes for a name below the wildcard, or may do so: where the rule then cannot be
/// written, it comes and goes in one loop.
fn is_of_another_rule(world: &World, watched: &Watched) -> bool {
    let services = |change: Option<&VisitChange>| -> Vec<Option<String>> {
        change
            .into_iter()
            .flat_map(|change| &change.got)
            .map(|visit| service(visit).map(str::to_owned))
            .collect()
    };
    let is_new = |object: &Object| {
        watched.url.starts_with(&url(object.host, None))
            && !is_by(watched.changes.first(), |service| object.rules().any(|(_, own)| own == service))
    };
    watched.url.contains(BELOW_WILDCARD)
        && (services(watched.changes.first()) != services(watched.changes.last())
            || (world.had_outage && world.objects.iter().any(is_new)))
}

/// Whether a visitor that one application let in, or none, needs another one now.
fn needs_another_login(watched: &Watched) -> bool {
    watched.changes.first().map(audiences) != watched.changes.last().map(audiences)
}

/// Visitors that an object serves at the beginning and at the end are served by objects all the time. Visitors that
/// come to need a login, or another one, are not promised that: the rule refuses until the application is at the edge.
/// Nor are those of a name that is published below a wildcard record or withdrawn from under it, those of a hostname
/// with a rule that no stamp names any more, and those of one that an object left while a rule by hand kept the next
/// one out of its tunnel. Says whether it is promised.
fn stays_served(world: &World, watched: &Watched, here: &Touched) -> Result<bool, Violation> {
    let (first, last) = (watched.changes.first(), watched.changes.last());
    if needs_another_login(watched)
        || hosts_of(&watched.url).any(|host| is_in_others_hands(world, host, here))
        || hosts_of(&watched.url).any(|host| world.foreign().is_orphaned(host))
        || is_below_change(world, &watched.url)
        || is_of_another_rule(world, watched)
        || changes_namespace(world, &watched.url)
        || hosts_of(&watched.url).any(|host| world.claims.is_handed_on(host) && is_kept_out(world, host))
    {
        return Ok(false);
    }
    let is_promised = is_by(first, is_of_objects) && is_by(last, is_of_objects);
    if is_promised && !watched.lost().is_empty() {
        return Err(Violation::new("lost", watched.to_string()));
    }
    Ok(is_promised)
}

/// Whether a rule by hand keeps an object of the hostname out of the tunnel that it asks for.
fn is_kept_out(world: &World, host: &str) -> bool {
    let mut on_host = world.objects.iter().filter(|object| object.host == host);
    on_host.any(|object| excuses::excuses(world, object).contains(&Excuse::ForeignRule))
}

fn is_by(change: Option<&VisitChange>, is_meant: impl Fn(&str) -> bool) -> bool {
    change.is_some_and(|change| change.got.iter().all(|visit| service(visit).is_some_and(&is_meant)))
}

/// A visitor that a rule asks for a login is not served in the next moment by an object that says nothing of Access.
/// What needs the login may be withdrawn first, and the application of what was withdrawn goes at the edge when it
/// likes. A name without a record, as where it was deleted by hand, asks no visitor for a login.
fn stays_closed(world: &World, watched: &Watched) -> Result<(), Violation> {
    let is_closed = |visit: &Visit| matches!(visit, Visit::Refused { .. });
    // What stood beside what was withdrawn may get its requests, so only the place of the object itself counts.
    let is_silent =
        |object: &&Object| object.service.starts_with(SILENT) && url(object.host, object.path) == watched.url;
    let silent: Vec<&Object> = world.objects.iter().filter(is_silent).collect();
    let is_opened = |visit: &Visit| silent.iter().any(|object| service(visit) == Some(&*object.service));
    let opens = |[before, after]: &[VisitChange; 2]| {
        before.got.iter().all(is_closed) && after.got.iter().any(is_opened)
    };
    let had_name = watched.changes.first().is_some_and(|first| !first.got.contains(&Visit::NoSuchName));
    if had_name && watched.visitor == Visitor::WithoutLogin && watched.changes.array_windows().any(opens) {
        return Err(Violation::new("opened", watched.to_string()));
    }
    Ok(())
}

/// Where an object has a service of its own for a path, the one of its whole hostname never gets the path's requests.
fn stays_divided(world: &World, watched: &Watched, here: &Touched) -> Result<(), Violation> {
    let has_it_at_first = |object: &Object| {
        let first = watched.changes.first();
        first.is_some_and(|change| change.got.iter().any(|visit| service(visit) == Some(&*object.service)))
    };
    // Of rivals either may have the path. Where the rule for a path was taken away by hand, the other rival has its
    // requests until all of the hostname is served again, which a refusal may put off.
    let is_taken = |host: &str| world.is_touched(host) || world.has_drifted(host);
    let is_promised = |object: &&Object| {
        object.is_divided()
            && watched.url == url(object.host, Some(GROUP_PATH))
            && !here.has(object.host, &world.claims, &world.settings)
            && !world.claims.history(object.host).has_rivals
            && !(is_taken(object.host) && has_it_at_first(object))
            && (world.settings.sees_drift() || !world.has_drifted(object.host))
    };
    let mut divided = world.objects.iter().filter(is_promised);
    let got = || watched.changes.iter().flat_map(|change| &change.got).filter_map(service);
    if divided.any(|object| got().any(|service| service == object.service)) {
        return Err(Violation::new("undivided", watched.to_string()));
    }
    Ok(())
}

/// A foreign rule keeps its requests, also on a hostname of ours that no object asks for any more.
fn keeps_requests(world: &World, watched: &Watched) -> Result<(), Violation> {
    let Some(theirs) = watched.changes.first().and_then(|change| service(change.got.first()?)) else {
        return Ok(());
    };
    let is_on = |host: &str| watched.url.starts_with(&url(host, None));
    let is_beyond = !world.shows_all() || changes_namespace(world, &watched.url);
    // A narrower path of ours stands in front. Where it is protected it refuses until its application is at the edge.
    let narrower: Vec<&Object> = world.objects.iter().filter(|object| object.path.is_some()).collect();
    let is_protected = narrower.iter().any(|object| {
        let beginning = format!("https://{}{}", object.host, object.path.unwrap_or_default());
        object.is_secret() && watched.url.starts_with(&beginning)
    });
    let is_kept = |visit: &Visit| match service(visit) {
        Some(service) => service == theirs || narrower.iter().any(|object| object.service == service),
        None => is_protected && matches!(visit, Visit::Refused { .. }),
    };
    // An object that asks for a name below their wildcard gets the name's requests, wherever they are served. Where no
    // record of the wildcard leads to their rule, only the object's record led the name there, and it goes with the
    // object.
    let is_asked = world.objects.iter().any(|object| !object.host.starts_with('*') && is_on(object.host));
    let was_asked = |host: &str| !host.starts_with('*') && !world.claims.history(host).namespaces.is_empty();
    let mut tunnels = watched.changes.iter().flat_map(|change| &change.got).map(tunnel);
    let first = tunnels.next();
    let is_led_elsewhere = hosts_of(&watched.url).any(was_asked) && tunnels.any(|one| Some(one) != first);
    let is_taken = (is_asked || is_led_elsewhere) && world.foreign().is_of_wildcard(theirs);
    let is_theirs = theirs.starts_with(THEIRS) && !world.settings.takes_rules() && !is_beyond && !is_taken;
    if is_theirs && !watched.changes.iter().flat_map(|change| &change.got).all(is_kept) {
        return Err(Violation::new("neighbour", watched.to_string()));
    }
    Ok(())
}

/// What is still wanted, and was served when the loop began, goes on. A rule of ours whose stamp was taken away may be
/// served by a wildcard of ours, and stops with it. Says whether it is promised.
fn wanted_stays(world: &World, watched: &Watched, here: &Touched) -> Result<bool, Violation> {
    let mut wanted = world.claims.expected().filter(|((host, path), _)| url(host, *path) == watched.url);
    let Some(((host, _), wanted)) = wanted.next() else { return Ok(false) };
    let was_served = watched.changes.first().is_some_and(|change| is_served_by(change, wanted));
    let is_known = !world.claims.history(host).is_contested();
    // What was answered 503 the registry `crd` asks for as something new, of whichever object.
    let is_promised = was_served
        && is_known
        && !needs_another_login(watched)
        && world.settings.sees_drift()
        && !is_in_others_hands(world, host, here)
        && !world.foreign().is_orphaned(host);
    if is_promised && !watched.changes.iter().all(|change| is_served_by(change, wanted)) {
        return Err(Violation::new("withdrawn", format!("{wanted} is wanted still: {watched}")));
    }
    Ok(is_promised)
}

/// Whether a source that shows nothing withdraws nothing. The registry `crd` asks only for the deletion of what it was
/// told is done, so a hostname of which it knows less stays, and may lose some of its paths.
pub(crate) fn is_withheld(world: &World) -> bool {
    let foreign = world.foreign();
    let (published, rules) = world.cloudflare().edit(|cloudflare| {
        let records: Vec<&Record> =
            cloudflare.zones().iter().flat_map(|zone| cloudflare.records(&zone.id)).collect();
        let is_published =
            |host: &&str| records.iter().any(|record| record.name == **host && foreign::is_claimed(record));
        let published: Vec<&str> = HOSTS.into_iter().chain(CONTESTED).filter(is_published).collect();
        let tunnels = cloudflare.tunnels().iter().filter(|tunnel| !tunnel.deleted);
        let rules: Vec<String> = tunnels.flat_map(|tunnel| foreign.ours(cloudflare, &tunnel.id)).collect();
        (published, rules)
    });
    let is_known = |rule: &String| {
        let Place { hostname, path } = place(rule);
        !published.contains(&&*hostname) || world.is_answered(&hostname, Some(&path.unwrap_or_default()))
    };
    let are_known =
        || published.iter().all(|host| world.is_answered(host, None)) && rules.iter().all(is_known);
    world.settings.policy == SyncPolicy::UpsertOnly || (is_mass(world, &published) && are_known())
}

/// Whether all of these hostnames are too many to go at once. With the namespace guard those of each namespace are
/// judged, and all together where nothing would be left.
fn is_mass(world: &World, published: &[&str]) -> bool {
    let limit = world.settings.mass_deletion_limit;
    // What another writer's record may keep counts only where it goes.
    let mut by_namespace: BTreeMap<Option<NamespaceCode>, (usize, usize)> = BTreeMap::new();
    for host in published {
        let (all, certain) = by_namespace.entry(excuses::namespace_of(world, host)).or_default();
        *all += 1;
        *certain += usize::from(HOSTS.contains(host));
    }
    let all_go = published.iter().all(|host| HOSTS.contains(host));
    let is_mass_of_each = !published.is_empty() && by_namespace.values().all(|(_, certain)| *certain > limit);
    limit > 0 && (is_mass_of_each || all_go && published.len() > limit)
}
