//! Old answers that the process could not know to be old: after a start, and where another writer or instance wrote.
//! Nothing tells such an answer from a true one, so a write by it goes by the state of then. The promises except these
//! writes, as they except the lost update.

use std::collections::{BTreeMap, BTreeSet};

use cloudflare_emulator::Call;
use serde_json::Value;

use crate::objects::zone;
use crate::touched::{Place, Touched};
use crate::world::World;

const TUNNELS: [&str; 2] = ["home", "office"];
const ZONES: [&str; 3] = ["example.com", "example.org", "inner.example.com"];

fn is_old(call: &Call) -> bool {
    call.writes_ago > 0 && !call.is_known_old
}

/// What is old, by the path of the call, and whether the process knew.
pub(crate) fn label(call: &Call) -> &'static str {
    let path = &*call.path;
    match (call.is_known_old, path) {
        (true, path) if path.ends_with("/configurations") => "an old configuration",
        (true, path) if path.ends_with("/connections") => "old connectors",
        (true, path) if path.ends_with("/dns_records") => "an old list of records",
        (true, path) if path.ends_with("/apps") => "an old list of applications",
        (true, _) => "an old application",
        (false, path) if path.ends_with("/configurations") => "unknown: an old configuration",
        (false, path) if path.ends_with("/connections") => "unknown: old connectors",
        (false, path) if path.ends_with("/dns_records") => "unknown: an old list of records",
        (false, path) if path.ends_with("/apps") => "unknown: an old list of applications",
        (false, _) => "unknown: an old application",
    }
}

/// Where visitors may get something else by what the process could not know. What it wrote by the old state of the very
/// tunnel, or of the zone, is taken for that of another writer.
pub(crate) fn excuse(world: &World, calls: &[Call]) -> Touched {
    let mut touched = Touched::default();
    let paths = world.cloudflare().edit(|cloudflare| {
        let tunnels = cloudflare.tunnels().iter().filter(|tunnel| !tunnel.deleted);
        let tunnels: Vec<(String, String)> =
            tunnels.map(|tunnel| (tunnel.name.clone(), tunnel.id.clone())).collect();
        let zones: Vec<(String, String)> =
            cloudflare.zones().iter().map(|zone| (zone.name.clone(), zone.id.clone())).collect();
        (tunnels, zones)
    });
    let id = |of: &[(String, String)], name: &str| {
        of.iter().find(|(known, _)| known == name).map(|(_, id)| id.clone())
    };
    for name in TUNNELS {
        let Some(id) = id(&paths.0, name) else { continue };
        let end = format!("/cfd_tunnel/{id}/configurations");
        let of_tunnel: Vec<&Call> = calls.iter().filter(|call| call.path.ends_with(&end)).collect();
        if of_tunnel.iter().any(|call| is_old(call)) {
            touched.add(Place::Tunnel(name));
        }
        // What was planned by it alone is not written by it: each write reads the tunnel once more.
        let is_written_by_it =
            of_tunnel.array_windows().any(|[read, write]| is_old(read) && write.is_write());
        // A digest comes off by the last look at each tunnel, and that one was old.
        let mut looks = calls.iter().filter(|call| call.is_write() || call.path.ends_with(&end));
        let mut is_last_look_old = false;
        let is_stamped_by_it = looks.any(|call| {
            is_last_look_old = if call.is_write() { is_last_look_old } else { is_old(call) };
            is_last_look_old && call.is_write() && call.path.ends_with("/batch")
        });
        if is_stamped_by_it {
            world.cloudflare().edit(|cloudflare| world.foreign().lost_stamps(cloudflare, |_| true));
            world.forget_seen();
        }
        if is_written_by_it {
            touched.add(Place::LostUpdate);
            world.cloudflare().edit(|cloudflare| world.foreign().lost_update(cloudflare, &id));
            world.forget_seen();
        }
    }
    for name in ZONES {
        let Some(id) = id(&paths.1, name) else { continue };
        let beginning = format!("/zones/{id}/dns_records");
        let mut of_zone = calls.iter().filter(|call| call.path.starts_with(&beginning));
        if !of_zone.any(is_old) {
            continue;
        }
        touched.add(Place::Zone(name));
        // A rule is written where the list shows its stamp.
        let is_rule = |call: &Call| call.is_write() && call.path.ends_with("/configurations");
        if of_zone.any(Call::is_write) || calls.iter().any(is_rule) {
            world.cloudflare().edit(|cloudflare| {
                world.foreign().lost_stamps(cloudflare, |host| zone(host) == name);
            });
            world.forget_seen();
        }
    }
    touched
}

/// Where the outer of two instances wrote a record, or a rule that the record's stamp named, by a list that is older
/// than what the inner one wrote of the very record, or than a rule that the inner one wrote: a record has no
/// precondition, so a rule may be left without a stamp.
pub(crate) fn replaced_comments(world: &World, calls: &[Call], names: &BTreeMap<String, String>) -> Touched {
    let mut touched = Touched::default();
    let Some(outer) = calls.last().map(|call| call.client) else { return touched };
    let inner: Vec<usize> = (0..calls.len()).filter(|nth| calls[*nth].client != outer).collect();
    let (Some(first), Some(last)) = (inner.first(), inner.last()) else { return touched };
    // The outer one's read before is the one that waited for the inner one.
    let after: Vec<&Call> = calls[first.saturating_sub(1)..*first].iter().chain(&calls[last + 1..]).collect();
    let written = |call: &Call| {
        if call.status.is_some_and(|status| status < 300) { ids(call) } else { BTreeSet::new() }
    };
    let is_rule = |call: &Call| call.is_write() && call.path.ends_with("/configurations");
    let inner = &calls[*first..=*last];
    // The stamp of a rule that the inner one wrote may be any that the outer one writes later.
    let stamped = after.iter().copied().filter(|_| inner.iter().any(is_rule));
    let changed: BTreeSet<(&str, String)> = inner
        .iter()
        .chain(stamped)
        .filter_map(|call| Some((call.path.strip_suffix("/batch")?, written(call))))
        .flat_map(|(zone, ids)| ids.into_iter().map(move |id| (zone, id)))
        .collect();
    for (zone, id) in changed {
        let mut by_old_list = after.iter().take_while(|call| call.is_write() || call.path != zone);
        if !by_old_list.any(|call| is_rule(call) || written(call).contains(&id)) {
            continue;
        }
        // A record that is not known was created by the outer one before.
        let created =
            || calls[..*first].iter().filter(|call| call.path.starts_with(zone)).flat_map(created).collect();
        let hosts: Vec<String> = names.get(&id).map_or_else(created, |host| vec![host.clone()]);
        for host in hosts {
            world
                .cloudflare()
                .edit(|cloudflare| world.foreign().lost_stamps(cloudflare, |name| name == host));
            world.forget_seen();
            touched.add(Place::Host(host));
        }
    }
    touched
}

/// The records that a batch changes or deletes.
fn ids(call: &Call) -> BTreeSet<String> {
    let body: Value = serde_json::from_str(&call.body).unwrap_or_default();
    let changes = ["patches", "puts", "deletes"].into_iter().filter_map(|kind| body[kind].as_array());
    changes.flatten().filter_map(|change| change["id"].as_str().map(str::to_owned)).collect()
}

/// The names of the records that a batch creates.
fn created(call: &Call) -> Vec<String> {
    let body: Value = serde_json::from_str(&call.body).unwrap_or_default();
    let posts = body["posts"].as_array().cloned().unwrap_or_default();
    posts.iter().filter_map(|post| post["name"].as_str().map(str::to_owned)).collect()
}
