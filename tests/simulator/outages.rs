//! Places at Cloudflare that fail for some loops, while everything else answers: what is wanted elsewhere does not wait.

use std::time::Duration;

use cloudflare_emulator::{Emulator, Fault, Matcher};

use crate::coverage::Share;
use crate::excuses::has_to_be_served;
use crate::invariants::Violation;
use crate::objects::{Object, zone};
use crate::random::Random;
use crate::rest;
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
    /// A tunnel that cannot be read. Nobody knows what it holds, so it stops everything, as the documents say.
    Reading(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Unavailable,
    Reset,
    /// A page of something on the way.
    Page,
}

/// What is asked for of a hostname, and in how many loops it could have been served.
#[derive(Clone, Debug)]
struct Wait {
    on_host: Vec<Object>,
    loops: usize,
}

/// The place that fails now, and who waits meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Outages {
    present: Option<Outage>,
    waits: Vec<Wait>,
}

impl Outage {
    pub(crate) fn random(random: &mut Random) -> Self {
        let place = match random.below(9) {
            0..4 => Place::Zone(random.pick(&ZONES)),
            4..8 => Place::Tunnel(random.pick(&["home", "office"])),
            _ => Place::Reading(random.pick(&["home", "office"])),
        };
        Self { place, kind: random.pick(&[Kind::Unavailable, Kind::Reset, Kind::Page]) }
    }

    fn arm(self, cloudflare: &Emulator) {
        let (method, path) = cloudflare.edit(|cloudflare| match self.place {
            Place::Zone(zone) => ("POST", format!("/zones/{}/dns_records/batch", cloudflare.zone(zone).id)),
            Place::Tunnel(tunnel) => {
                ("PUT", format!("/accounts/*/cfd_tunnel/{}/configurations", cloudflare.tunnel(tunnel).id))
            }
            Place::Reading(tunnel) => {
                ("GET", format!("/accounts/*/cfd_tunnel/{}/configurations", cloudflare.tunnel(tunnel).id))
            }
        });
        let fault = match self.kind {
            Kind::Unavailable => Fault::status(503),
            Kind::Reset => Fault::Reset,
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
            Place::Reading(_) => true,
        }
    }
}

impl Outages {
    pub(crate) fn begin(&mut self, outage: Outage) {
        *self = Self { present: Some(outage), waits: Vec::new() };
    }

    pub(crate) fn end(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn arm(&self, cloudflare: &Emulator) {
        if let Some(outage) = self.present {
            outage.arm(cloudflare);
        }
    }
}

/// Looks at a loop that has just ended, in which nothing else went wrong if `is_calm`. Says who waited too long.
pub(crate) fn after_loop(world: &mut World, is_calm: bool) -> Result<(), Violation> {
    let Some(outage) = world.outages.present else { return Ok(()) };
    // A loop in which something else goes wrong counts for nobody, and one that asks for something else begins anew.
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
