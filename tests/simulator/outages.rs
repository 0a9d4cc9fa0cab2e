//! Places at Cloudflare that fail for some loops, while everything else answers: what is wanted elsewhere does not
//! wait.

use std::collections::BTreeSet;
use std::time::Duration;

use cloudflare_emulator::{Call, Cloudflare, Emulator, Fault, Matcher, Tunnel};

use crate::coverage::Share;
use crate::excuses::has_to_be_served;
use crate::foreign::{self, place};
use crate::invariants::Violation;
use crate::objects::{Object, zone};
use crate::random::Random;
use crate::rest;
use crate::touched::Touched;
use crate::world::World;

/// Loops without any other trouble after which what is wanted elsewhere is served. The first one may learn of the place
/// only after its time was used up, the second one leaves it for last; what is tried alone before may need one more.
const LOOPS_MAX: usize = 3;

/// Longer than any loop.
const LOOP_MAX: Duration = Duration::from_secs(60);

const ZONES: [&str; 3] = ["example.com", "example.org", "inner.example.com"];

/// One place that fails, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outage {
    place: Place,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The batches of a zone.
    Zone(&'static str),
    /// What is written into a tunnel.
    Tunnel(&'static str),
    /// The same of all tunnels.
    Tunnels,
    /// A tunnel that cannot be read. Its rules are not known, so it stops everything, as the documents say.
    Reading(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Unavailable,
    Reset,
    /// A page of something on the way.
    Page,
    /// The token may read.
    Forbidden,
    Failing,
}

/// What is asked for of a hostname, and in how many loops it could have been served.
#[derive(Clone, Debug)]
struct Wait {
    on_host: Vec<Object>,
    loops: usize,
}

/// The place that fails now, and the objects that wait meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Outages {
    present: Option<Outage>,
    waits: Vec<Wait>,
    /// The processes of which a write of the tunnel failed since it began: each one with the tunnel's id.
    learned: BTreeSet<(u64, String)>,
}

/// The id of a tunnel that cannot be written, and a name that is led there.
pub(crate) type InVain = (String, String);

impl Outage {
    pub(crate) fn random(random: &mut Random) -> Self {
        let place = match random.below(9) {
            0..4 => Place::Zone(random.pick(&ZONES)),
            4..8 => Place::Tunnel(random.pick(&["home", "office"])),
            _ => Place::Reading(random.pick(&["home", "office"])),
        };
        Self { place, kind: random.pick(&[Kind::Unavailable, Kind::Reset, Kind::Page]) }
    }

    /// One tunnel or both, which can be read and not written.
    pub(crate) fn unwritable(random: &mut Random) -> Self {
        let of_one = Place::Tunnel(random.pick(&["home", "office"]));
        let place = if random.chance(70) { of_one } else { Place::Tunnels };
        Self { place, kind: random.pick(&[Kind::Forbidden, Kind::Failing]) }
    }

    /// Whether it is one of these.
    pub(crate) fn is_unwritable(self) -> bool {
        matches!(self.kind, Kind::Forbidden | Kind::Failing)
    }

    fn arm(self, cloudflare: &Emulator) {
        let (method, path) = cloudflare.edit(|cloudflare| match self.place {
            Place::Zone(zone) => ("POST", format!("/zones/{}/dns_records/batch", cloudflare.zone(zone).id)),
            Place::Tunnel(tunnel) => {
                ("PUT", format!("/accounts/*/cfd_tunnel/{}/configurations", cloudflare.tunnel(tunnel).id))
            }
            Place::Tunnels => ("PUT", "/accounts/*/cfd_tunnel/*/configurations".to_owned()),
            Place::Reading(tunnel) => {
                ("GET", format!("/accounts/*/cfd_tunnel/{}/configurations", cloudflare.tunnel(tunnel).id))
            }
        });
        let fault = match self.kind {
            Kind::Unavailable => Fault::status(503),
            Kind::Reset => Fault::Reset,
            Kind::Forbidden => Fault::error(403, 10000, "Authentication error"),
            Kind::Failing => Fault::status(500),
            Kind::Page => Fault::Status {
                code: 403,
                headers: vec![("content-type".to_owned(), "text/html".to_owned())],
                body: "<!DOCTYPE html><title>Forbidden</title>".to_owned(),
            },
        };
        cloudflare.fault_for(Matcher::call(method, &path), 1, LOOP_MAX, fault);
    }

    /// Whether serving the object may need the place: its own, or where its hostname was before.
    fn is_of(self, world: &World, object: &Object) -> bool {
        match self.place {
            Place::Zone(failing) => zone(object.host) == failing,
            Place::Tunnel(failing) => world.claims.was_in(object.host, failing, &world.settings),
            Place::Tunnels | Place::Reading(_) => true,
        }
    }
}

impl Outages {
    pub(crate) fn begin(&mut self, outage: Outage) {
        *self = Self { present: Some(outage), ..Self::default() };
    }

    pub(crate) fn end(&mut self) {
        *self = Self::default();
    }

    /// What cannot be written now, and can be read.
    pub(crate) fn unwritable(&self) -> Option<Outage> {
        self.present.filter(|outage| outage.is_unwritable())
    }

    pub(crate) fn arm(&self, cloudflare: &Emulator) {
        if let Some(outage) = self.present {
            outage.arm(cloudflare);
        }
    }
}

/// The names whose record of ours leads to a tunnel that cannot be written, and that has no rule of theirs, right now.
pub(crate) fn led_in_vain(outage: Outage, cloudflare: &Cloudflare) -> BTreeSet<InVain> {
    let is_failing = |tunnel: &&Tunnel| match outage.place {
        Place::Tunnel(failing) => tunnel.name == failing,
        _ => outage.place == Place::Tunnels,
    };
    let mut in_vain = BTreeSet::new();
    for tunnel in cloudflare.tunnels().iter().filter(|tunnel| !tunnel.deleted).filter(is_failing) {
        let rules = foreign::document(cloudflare, &tunnel.id).rules;
        let served: BTreeSet<String> = rules.iter().map(|rule| place(rule).hostname).collect();
        let ours = cloudflare.records("example.com").iter().filter(|record| foreign::is_ours(record));
        let led = ours.filter(|record| record.content == tunnel.hostname()).map(|record| record.name.clone());
        in_vain.extend(led.filter(|name| !served.contains(name)).map(|name| (tunnel.id.clone(), name)));
    }
    in_vain
}

/// While a tunnel cannot be written, of the names that a wildcard record would lead elsewhere one alone has no service
/// at any time: the one by which the program learns that it can be written again. A process learns of the failure by
/// its own first write of the tunnel, whether it or another one led names there before. `come`: the most that were
/// newly led so at once in this loop.
pub(crate) fn all_but_one_are_served(
    world: &mut World,
    come: &BTreeSet<InVain>,
    calls: &[Call],
    is_calm: bool,
    here: &Touched,
) -> Result<(), Violation> {
    let Some(outage) = world.outages.unwritable() else { return Ok(()) };
    let clients: BTreeSet<u64> = calls.iter().map(|call| call.client).collect();
    let learned = &world.outages.learned;
    let is_known =
        |tunnel: &str| clients.iter().all(|client| learned.contains(&(*client, tunnel.to_owned())));
    let is_touched = |host: &str| world.is_touched(host) || here.has(host, &world.claims, &world.settings);
    let unserved = |all: &BTreeSet<InVain>| -> Vec<String> {
        let all = all.iter().filter(|(tunnel, host)| is_known(tunnel) && !is_touched(host));
        all.map(|(_, host)| host.clone()).collect()
    };
    // Where something else goes wrong, what another process led there may have to stay.
    let left = if is_calm {
        world.cloudflare().edit(|cloudflare| led_in_vain(outage, cloudflare))
    } else {
        BTreeSet::new()
    };
    let all = [unserved(come), unserved(&left)];
    world.outages.learned.extend(failed_writes(calls));
    if !world.settings.is_wildcard_elsewhere {
        return Ok(());
    }
    if !world.outages.learned.is_empty() {
        world.coverage.try_it("a tunnel that is known not to be writable");
    }
    match all.into_iter().find(|unserved| unserved.len() > 1) {
        Some(unserved) => {
            Err(Violation::new("offline", format!("{outage:?}, and none of {unserved:?} is served")))
        }
        None => Ok(()),
    }
}

/// The writes of tunnels that failed, each by its process and the tunnel's id.
fn failed_writes(calls: &[Call]) -> impl Iterator<Item = (u64, String)> {
    let failed =
        calls.iter().filter(|call| call.is_write() && call.status.is_none_or(|status| status >= 300));
    failed.filter_map(|call| {
        let (_, tunnel) = call.path.strip_suffix("/configurations")?.rsplit_once('/')?;
        Some((call.client, tunnel.to_owned()))
    })
}

/// Looks at a loop that has just ended, in which nothing else went wrong if `is_calm`. Fails for an object that waited
/// too long.
pub(crate) fn after_loop(world: &mut World, is_calm: bool) -> Result<(), Violation> {
    let Some(outage) = world.outages.present else { return Ok(()) };
    // A loop in which something else goes wrong does not count, and an object that asks for something else begins anew.
    let before = std::mem::take(&mut world.outages.waits);
    // A program that begins without one of its tunnels does nothing at all.
    let is_calm = is_calm && world.shows_all() && world.has_all_tunnels();
    let mut waits: Vec<Wait> = Vec::new();
    let mut looked_at = Share::default();
    for object in &world.objects {
        if outage.is_of(world, object) {
            continue;
        }
        if !has_to_be_served(world, object) {
            looked_at.count(false);
            continue;
        }
        let on_host: Vec<Object> =
            world.objects.iter().filter(|other| other.host == object.host).cloned().collect();
        let waited = before.iter().find(|wait| wait.on_host == on_host).map_or(0, |wait| wait.loops);
        let counts = is_calm && !world.is_touched(object.host);
        let loops = waited + usize::from(counts);
        let is_due = counts && loops >= LOOPS_MAX;
        looked_at.count(is_due);
        if is_due {
            rest::is_served(world, object).map_err(|Violation { kind: _, text }| {
                Violation::new("starved", format!("{outage:?} is not its place, for {loops} loops: {text}"))
            })?;
        }
        waits.push(Wait { on_host, loops });
    }
    world.outages.waits = waits;
    world.coverage.beside.add(looked_at);
    Ok(())
}
