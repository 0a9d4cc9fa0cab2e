//! The way from what is written to where visitors meet it: a configuration takes its time to each connector, a record
//! to the resolvers, an application of Access to the edge. What stands there is a piecewise constant function of the
//! emulator's time.
//!
//! None of these times is known of Cloudflare: its documents promise none. All are zero unless a test says otherwise.

use std::time::Duration;

use serde_json::value::RawValue;

use crate::access::{Access, Visitor};
use crate::cloudflare::Cloudflare;
use crate::past::Thing;
use crate::record::Record;
use crate::tunnel::Lane;
use crate::watch::{Watch, Watched};

/// What is under way, and the visitors that look.
#[derive(Debug, Default)]
pub(crate) struct Edge {
    records_delay: Duration,
    pub(crate) applications_delay: Duration,
    /// In the order of arrival; what arrives at the same time, in the order in which it was written.
    under_way: Vec<UnderWay>,
    watch: Watch,
}

#[derive(Debug)]
struct UnderWay {
    due: Duration,
    place: Place,
    load: Load,
}

/// Where something is under way to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// The resolvers of a zone, by its id.
    Resolvers(String),
    /// A lane of a tunnel, by its id.
    Connectors { tunnel: String, lane: usize },
    /// Where the edge decides over visitors.
    Access,
}

#[derive(Debug)]
enum Load {
    Records(Vec<Record>),
    Configuration { version: i64, config: Option<Box<RawValue>> },
    Access(Box<Access>),
}

impl Edge {
    /// Sends something off. Nothing overtakes what was written before it to the same place.
    fn send(&mut self, due: Duration, place: Place, load: Load) {
        let before = self.under_way.iter().rfind(|other| other.place == place);
        let due = before.map_or(due, |before| due.max(before.due));
        let position = self.under_way.partition_point(|other| other.due <= due);
        self.under_way.insert(position, UnderWay { due, place, load });
    }

    fn arrived_by(&mut self, now: Duration) -> Option<UnderWay> {
        let is_there = self.under_way.first().is_some_and(|first| first.due <= now);
        is_there.then(|| self.under_way.remove(0))
    }

    fn awaits(&self, place: &Place) -> bool {
        self.under_way.iter().any(|other| other.place == *place)
    }
}

impl Cloudflare {
    /// From now on a written configuration of this tunnel, by id or name, takes so long to its connectors: one time for
    /// each, of which the last is also that of all further ones. Meanwhile visitors get what the connectors had, and
    /// the list of connections tells its version.
    pub fn delay_configurations(&mut self, tunnel: &str, delays: &[Duration]) {
        self.tunnel_mut(tunnel).set_lanes(delays);
    }

    /// From now on a change of any zone's records takes so long to the resolvers.
    pub fn delay_records(&mut self, delay: Duration) {
        self.edge.records_delay = delay;
    }

    /// Looks from now on at what visitors of these addresses get, such as `https://www.example.com/shop`, at every
    /// instant at which anything changes there.
    pub fn watch(&mut self, urls: &[&str]) {
        self.watch_as(&[Visitor::WithoutLogin], urls);
    }

    /// The same, of each of these visitors.
    pub fn watch_as(&mut self, visitors: &[Visitor], urls: &[&str]) {
        self.edge.watch = Watch::over(visitors, urls);
        self.look();
    }

    /// What visitors of the watched addresses got since then, and have got by now.
    pub fn watched(&self) -> Vec<Watched> {
        self.edge.watch.until(self.clock.now())
    }

    /// Puts the time ahead. What is due meanwhile arrives, each at its own time.
    pub fn advance_clock(&mut self, by: Duration) {
        // What was changed by hand holds from now on, not from then.
        self.look();
        self.clock.advance(by);
        self.settle();
    }

    /// Lets everything arrive that is due by now.
    pub(crate) fn settle(&mut self) {
        let now = self.clock.now();
        while let Some(UnderWay { due, place, load }) = self.edge.arrived_by(now) {
            match (&place, load) {
                (Place::Resolvers(zone), Load::Records(records)) => {
                    let is_last = !self.edge.awaits(&place);
                    let zone = self.zones.iter_mut().find(|candidate| candidate.id == *zone);
                    if let Some(zone) = zone {
                        zone.resolved = Some(records).filter(|_| !is_last);
                    }
                }
                (Place::Connectors { tunnel, lane }, Load::Configuration { version, config }) => {
                    let thing = Thing::Connectors(tunnel.clone());
                    let before = self.before_write(&thing);
                    let tunnel = self.tunnels.iter_mut().find(|candidate| candidate.id == *tunnel);
                    if tunnel.is_some_and(|tunnel| tunnel.push(*lane, version, config)) {
                        self.after_write(thing, before);
                    }
                }
                (Place::Access, Load::Access(access)) => {
                    self.access_at_edge = Some(*access).filter(|_| self.edge.awaits(&place));
                }
                _ => {}
            }
            self.look_at(due);
        }
    }

    /// The same, and visitors look, as something may have been changed by hand.
    pub(crate) fn look(&mut self) {
        self.settle();
        self.look_at(self.clock.now());
    }

    /// Before a change of a zone's records: the resolvers go on with what they have.
    pub(crate) fn hold_resolvers(&mut self, zone: &str) {
        let delay = self.edge.records_delay;
        let found = self.zones.iter_mut().find(|candidate| candidate.id == zone || candidate.name == zone);
        if let Some(found) = found.filter(|found| found.resolved.is_none() && !delay.is_zero()) {
            found.resolved = Some(found.records.clone());
        }
    }

    /// After it: the resolvers will have it.
    pub(crate) fn send_records(&mut self, zone: &str) {
        let due = self.clock.now() + self.edge.records_delay;
        let found = self.zone(zone);
        if found.resolved.is_some() {
            let (place, load) = (Place::Resolvers(found.id.clone()), Load::Records(found.records.clone()));
            self.edge.send(due, place, load);
        }
        self.look();
    }

    /// Before a change of Access: the edge goes on with what it has.
    pub(crate) fn hold_access(&mut self) {
        if self.access_at_edge.is_none() && !self.edge.applications_delay.is_zero() {
            self.access_at_edge = Some(self.access.clone());
        }
    }

    /// After it: the edge will have it.
    pub(crate) fn send_access(&mut self) {
        if self.access_at_edge.is_some() {
            let due = self.clock.now() + self.edge.applications_delay;
            self.edge.send(due, Place::Access, Load::Access(Box::new(self.access.clone())));
        }
        self.look();
    }

    /// After a change of a tunnel's configuration: each connector will have it.
    pub(crate) fn send_configuration(&mut self, tunnel: &str) {
        let now = self.clock.now();
        let found = self.tunnel(tunnel);
        let (id, version, config) = (found.id.clone(), found.version, found.config.clone());
        let delays: Vec<Duration> = found.lanes.iter().map(|Lane { delay, .. }| *delay).collect();
        for (lane, delay) in delays.into_iter().enumerate() {
            let place = Place::Connectors { tunnel: id.clone(), lane };
            self.edge.send(now + delay, place, Load::Configuration { version, config: config.clone() });
        }
        self.settle();
    }

    fn look_at(&mut self, at: Duration) {
        let mut watch = std::mem::take(&mut self.edge.watch);
        watch.look(self, at);
        self.edge.watch = watch;
    }
}
