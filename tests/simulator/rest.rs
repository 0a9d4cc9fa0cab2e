//! Everything that goes wrong ends, and what is wanted comes about.

use std::collections::BTreeSet;
use std::time::Duration;

use cloudflare_emulator::{Cloudflare, Record, Visit, Visitor};
use test_support::external_dns::SyncPolicy;

use crate::claims;
use crate::coverage::Share;
use crate::excuses::{Excuse, excuses, has_to_be_served};
use crate::foreign::{document, is_home, is_of_other, is_ours, place};
use crate::invariants::{self, Violation, service};
use crate::objects::{Access, Object, RENAMED, url};
use crate::promises::{self, Held};
use crate::steps::Loop;
use crate::strangers::{OTHER_HOST, OTHER_SERVICE, application_hosts};
use crate::world::{Source, World};

/// Loops that may still write something, one a minute. CONTRIBUTING.md names what this and the next one come to.
const LOOPS_MAX: usize = 14;

/// So many in a row that write nothing are at rest: a move's time of grace is shorter.
const LOOPS_IDLE: usize = 3;

/// What was refused is tried again by then.
const REJECTION_PAUSE_MAX: Duration = Duration::from_secs(3_700);

pub(crate) fn run(world: &mut World) -> Result<(), Violation> {
    world.calm();
    settle(world)?;
    // A registry that goes by what was answered does not see it.
    if world.settings.sees_drift() {
        world.foreign().forget_opened();
    }
    world.pass(REJECTION_PAUSE_MAX)?;
    settle(world)?;
    if world.has_other() {
        settle_other(world)?;
    }
    let objects = world.objects.clone();
    let mut checked: Vec<&Object> = Vec::new();
    for object in &objects {
        let excuses = excuses(world, object);
        let held = promises::look_at(world, object, &excuses)?;
        world.coverage.count_at_rest(held, &excuses);
        match held {
            Some(Held::Served) => world.claims.hold(object),
            // What it was seen with is all that is known still.
            Some(Held::Kept) => {}
            None | Some(Held::Absent | Held::Closed) => world.claims.lose_sight(object),
        }
        if excuses.is_empty() {
            checked.push(object);
        }
    }
    world.forget_touched();
    world.forget_drifted(|world, host| {
        let mut on_host = world.objects.iter().filter(|object| object.host == host);
        on_host.all(|object| is_served(world, object).is_ok())
    });
    // ExternalDNS shows another object in its place.
    for _ in world.hidden() {
        world.coverage.count_at_rest(None, &[Excuse::Rivals]);
    }
    nothing_is_left(world, &checked)?;
    if invariants::is_withheld(world) {
        // The source shows nothing for one loop, now that the most is published.
        world.source = Source::Nothing;
        one_loop(world, 0)?;
        if may_rename(world) {
            // Or everything under other names, and in the second loop these are published.
            world.source = Source::Renamed;
            one_loop(world, 0)?;
            one_loop(world, 0)?;
            world.source = Source::Everything;
            settle(world)?;
        }
        world.source = Source::Everything;
    }
    forget_gone(world);
    if world.disliked.is_empty() {
        world.restart();
        if may_write_after_restart(world) {
            return settle(world);
        }
        for seed in 0..3 {
            if one_loop(world, seed)? > 0 {
                return Err(Violation::new("restart", "after a restart something is written"));
            }
        }
    }
    Ok(())
}

/// Names that an earlier rename left behind would stay with the others, and let as many of these go.
fn may_rename(world: &World) -> bool {
    let is_left = world.cloudflare().edit(|cloudflare| {
        let mut records = cloudflare.zones().iter().flat_map(|zone| cloudflare.records(&zone.id));
        records.any(|record| RENAMED.contains(&&*record.name))
    });
    world.settings.policy == SyncPolicy::Sync && world.settings.sees_drift() && !is_left
}

/// Forgets the claims of hostnames that are gone with all that was ever written for them.
fn forget_gone(world: &mut World) {
    let there = world.cloudflare().edit(|cloudflare| {
        world.foreign().forget_taken(cloudflare);
        let records = cloudflare.zones().iter().flat_map(|zone| cloudflare.records(&zone.id));
        let records = records.filter(|record| is_ours(record)).map(|record| record.name.clone());
        let documents = cloudflare.tunnels().iter().map(|tunnel| document(cloudflare, &tunnel.id));
        let rules = documents.flat_map(|document| document.rules).map(|rule| place(&rule).hostname);
        let applications = cloudflare.applications().iter().flat_map(|one| application_hosts(&one.fields));
        records.chain(rules).chain(applications).collect::<BTreeSet<String>>()
    });
    let wanted: Vec<&str> = world.objects.iter().map(|object| object.host).collect();
    world.forget_gone(|host| !there.contains(host) && !wanted.contains(&host));
}

/// The first loop after a start does not know of Access yet, and asks for updates of what depends on it. Then a comment
/// or a TXT record may name another object of the hostname, and what says nothing of Access beside something that is
/// protected is published, as both are in one request. Nor is it known which of several rivals came first where the one
/// that did cannot be published.
fn may_write_after_restart(world: &World) -> bool {
    let is_said = |object: &Object| claims::is_said(object, &world.claims.history(object.host));
    let asks = |object: &Object| object.access != Access::Silent || object.is_secret();
    let has_no_holder = |object: &Object| {
        let mut on_host = world.objects.iter().filter(|other| other.host == object.host);
        world.claims.history(object.host).has_rivals && !on_host.any(|other| has_to_be_served(world, other))
    };
    !world.objects.iter().all(is_said)
        || world.objects.iter().any(|object| asks(object) || has_no_holder(object))
}

fn one_loop(world: &mut World, seed: u64) -> Result<usize, Violation> {
    let writes = world.run_loop(&Loop { seed, ..Loop::default() }, false)?;
    world.pass(world.settings.interval)?;
    Ok(writes)
}

fn settle(world: &mut World) -> Result<(), Violation> {
    let (most, enough) = (world.settings.loops_in(LOOPS_MAX), world.settings.loops_in(LOOPS_IDLE));
    let mut idle = 0;
    for seed in 0.. {
        idle = if one_loop(world, seed)? == 0 { idle + 1 } else { 0 };
        if idle == enough {
            break;
        }
        let loops = seed as usize + 1;
        if loops == most + enough {
            return Err(Violation::new("rest", format!("something is still written after {loops} loops")));
        }
    }
    Ok(())
}

/// What the other owner wants is served, and written once. Without its stamp its rule is foreign to it, and the place
/// of a foreign rule is not taken.
fn settle_other(world: &mut World) -> Result<(), Violation> {
    for _ in 0..LOOPS_MAX {
        if world.run_other()? == 0 {
            break;
        }
        world.pass(world.settings.interval)?;
    }
    let visit = world.cloudflare().visit(OTHER_HOST, "/");
    let is_excused = world.foreign().is_orphaned(OTHER_HOST);
    if (is_excused || service(&visit) == Some(OTHER_SERVICE)) && world.run_other()? == 0 {
        return Ok(());
    }
    Err(Violation::new("unserved", format!("the other owner's {OTHER_HOST}: {visit}")))
}

pub(crate) fn is_served(world: &World, object: &Object) -> Result<(), Violation> {
    object.rules().try_for_each(|(path, service)| is_served_at(world, object, path, service))
}

fn is_served_at(world: &World, object: &Object, path: Option<&str>, wanted: &str) -> Result<(), Violation> {
    let visit = visit(world, Visitor::WithLogin, object.host, path);
    if service(&visit) == Some(wanted) {
        return Ok(());
    }
    Err(Violation::new("unserved", format!("{object:?} is not served, but {visit}")))
}

/// What a visitor of a hostname and path gets.
pub(crate) fn visit(world: &World, visitor: Visitor, host: &str, path: Option<&str>) -> Visit {
    let url = url(host, path);
    let rest = url.strip_prefix("https://").expect("it was put there");
    let (host, path) = rest.split_at(rest.find('/').expect("it was put there"));
    world.cloudflare().visit_as(visitor, host, path)
}

/// Whether a record of ours for the name stands in a zone that does not answer for it any more. It is left alone with
/// its rule.
fn is_in_outer_zone(cloudflare: &Cloudflare, name: &str) -> bool {
    let mut outer = cloudflare.zones().iter().filter(|zone| !is_home(cloudflare, &zone.id, name));
    outer.any(|zone| cloudflare.records(&zone.id).iter().any(|record| record.name == name && is_ours(record)))
}

/// Nothing is left of hostnames that no object asks for.
fn nothing_is_left(world: &mut World, checked: &[&Object]) -> Result<(), Violation> {
    let settings = &world.settings;
    let goes = settings.policy == SyncPolicy::Sync && settings.sees_drift();
    let is_wanted =
        |host: &str| world.objects.iter().any(|object| object.host == host) && settings.lets_in(host);
    let (mut looked_at, mut left, mut vanishing) = (Share::default(), Vec::new(), BTreeSet::new());
    world.cloudflare().edit(|cloudflare| {
        let foreign = world.foreign();
        let dislikes = |host: &str| world.disliked.iter().any(|(disliked, _)| *disliked == host);
        let is_excused = |host: &str| !goes || foreign.is_orphaned(host) || dislikes(host);
        let is_record = |record: &&Record| is_ours(record) && record.kind == "CNAME" && !is_of_other(record);
        // What stands in an outer zone is left alone once another zone answers for the name.
        let records = cloudflare.zones().iter().flat_map(|zone| {
            let at_home = |record: &&Record| is_home(cloudflare, &zone.id, &record.name);
            cloudflare.records(&zone.id).iter().filter(at_home).collect::<Vec<_>>()
        });
        for record in records.filter(is_record) {
            // A rule that is left alone in an outer zone is foreign to the record of the inner one.
            let is_held = !is_excused(&record.name)
                && !foreign.needs_record(cloudflare, record)
                && !foreign.has_rule_of_outer_zone(cloudflare, &record.name);
            looked_at.count(is_held);
            if !checked.iter().any(|object| object.host == record.name) {
                vanishing.insert(record.name.clone());
            }
            if is_held && !is_wanted(&record.name) {
                left.push(format!("{record:?}"));
            }
        }
        let tunnels = cloudflare.tunnels().iter().filter(|tunnel| !tunnel.deleted);
        for rule in tunnels.flat_map(|tunnel| foreign.ours(cloudflare, &tunnel.id)) {
            let place = place(&rule);
            if rule.contains(OTHER_SERVICE) {
                continue;
            }
            let mut on_host = world.objects.iter().filter(|object| object.host == place.hostname);
            // Of rivals either may have it, and a tunnel that is asked for in vain holds back what is withdrawn.
            let mut pairs = on_host.clone().zip(on_host.clone().skip(1));
            let is_held = !is_in_outer_zone(cloudflare, &place.hostname)
                && on_host.clone().all(|object| checked.contains(&object))
                && pairs.all(|(one, other)| one.tunnel == other.tunnel)
                && !is_excused(&place.hostname);
            looked_at.count(is_held);
            let is_asked = on_host.any(|object| {
                let is_it = |(path, service): (Option<&str>, &str)| {
                    path.is_some() == place.path.is_some() && rule.contains(service)
                };
                object.rules().any(is_it)
            });
            if is_held && !is_asked {
                left.push(rule);
            }
        }
    });
    world.coverage.asked.add(looked_at);
    // So many at once are held back, where nothing else of them is wanted.
    if settings.mass_deletion_limit > 0 && vanishing.len() > settings.mass_deletion_limit {
        return Ok(());
    }
    left.pop().map_or(Ok(()), |left| Err(Violation::new("leftover", left)))
}
