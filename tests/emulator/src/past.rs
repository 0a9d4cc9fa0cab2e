//! What was there some writes ago, for answers that are old: see [`Fault::Old`](crate::Fault::Old).
//!
//! Cloudflare promises of none of its reads that it shows the last write. Met are lists of applications that leave a new
//! one out for half a minute. That other reads can be old too is by analogy, and the side that is worse for a client.

use std::collections::BTreeMap;
use std::mem;

use serde_json::value::RawValue;

use crate::access::Access;
use crate::answer::Answer;
use crate::cloudflare::Cloudflare;
use crate::http::Request;
use crate::record::Record;
use crate::router;
use crate::tunnel::{ConfigSource, Lane};

/// Of which a read can show a past state, each by itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Thing {
    /// A tunnel's configuration, by the tunnel's id.
    Configuration(String),
    /// The configuration that a tunnel's connectors have applied, by the tunnel's id.
    Connectors(String),
    /// A zone's records, by the zone's id.
    Records(String),
    /// The applications of all accounts and zones.
    Applications,
}

impl Thing {
    /// What a call below the base URL shows or changes.
    fn of(path: &str) -> Option<Self> {
        let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
        match segments.as_slice() {
            ["accounts", _, "cfd_tunnel", id, "configurations"] => {
                Some(Self::Configuration(id.to_ascii_lowercase()))
            }
            ["accounts", _, "cfd_tunnel", id, "connections"] => {
                Some(Self::Connectors(id.to_ascii_lowercase()))
            }
            ["zones", id, "dns_records", ..] => Some(Self::Records((*id).to_owned())),
            ["accounts" | "zones", _, "access", "apps", ..] => Some(Self::Applications),
            _ => None,
        }
    }
}

/// A thing as it was.
#[derive(Clone, Debug)]
pub(crate) enum State {
    Configuration {
        version: i64,
        config: Option<Box<RawValue>>,
        config_source: ConfigSource,
        configured_at: String,
    },
    Connectors(Vec<Lane>),
    Records(Vec<Record>),
    Applications(Box<Access>),
}

/// The states of each thing before each of its writes, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Past {
    states: BTreeMap<Thing, Vec<State>>,
}

impl Cloudflare {
    /// Keeps from now on what [`Fault::Old`](crate::Fault::Old) shows.
    pub fn keep_past(&mut self) {
        self.past.get_or_insert_default();
    }

    /// A thing as it is now, where the past is kept; before a write.
    pub(crate) fn before_write(&self, thing: &Thing) -> Option<State> {
        self.past.as_ref()?;
        match thing {
            Thing::Configuration(id) => {
                self.tunnels.iter().find(|tunnel| tunnel.id == *id).map(|tunnel| State::Configuration {
                    version: tunnel.version,
                    config: tunnel.config.clone(),
                    config_source: tunnel.config_source,
                    configured_at: tunnel.configured_at.clone(),
                })
            }
            Thing::Connectors(id) => {
                let tunnel = self.tunnels.iter().find(|tunnel| tunnel.id == *id);
                tunnel.map(|tunnel| State::Connectors(tunnel.lanes.clone()))
            }
            Thing::Records(id) => {
                let zone = self.zones.iter().find(|zone| zone.id == *id);
                zone.map(|zone| State::Records(zone.records.clone()))
            }
            Thing::Applications => Some(State::Applications(Box::new(self.access.clone()))),
        }
    }

    /// After the write: keeps what was there before it.
    pub(crate) fn after_write(&mut self, thing: Thing, before: Option<State>) {
        if let (Some(past), Some(before)) = (&mut self.past, before) {
            past.states.entry(thing).or_default().push(before);
        }
    }

    /// Answers a read by what was there so many writes of the thing ago, under every other rule.
    pub(crate) fn answer_old(&mut self, path: &str, request: &Request, writes: usize) -> Answer {
        let thing = Thing::of(path).filter(|_| request.method == "GET");
        let old = thing.as_ref().and_then(|thing| {
            let states = self.past.as_ref()?.states.get(thing)?;
            (writes > 0).then(|| states.get(states.len().saturating_sub(writes)).cloned()).flatten()
        });
        let (Some(thing), Some(old)) = (thing, old) else {
            return router::answer(self, path, request);
        };
        let present = self.replace_state(&thing, old);
        let answer = router::answer(self, path, request);
        if let Some(present) = present {
            self.replace_state(&thing, present);
        }
        answer
    }

    /// Puts a state of a thing into the place of another one, which is handed back.
    fn replace_state(&mut self, thing: &Thing, state: State) -> Option<State> {
        match (thing, state) {
            (
                Thing::Configuration(id),
                State::Configuration { version, config, config_source, configured_at },
            ) => {
                let tunnel = self.tunnels.iter_mut().find(|tunnel| tunnel.id == *id)?;
                Some(State::Configuration {
                    version: mem::replace(&mut tunnel.version, version),
                    config: mem::replace(&mut tunnel.config, config),
                    config_source: mem::replace(&mut tunnel.config_source, config_source),
                    configured_at: mem::replace(&mut tunnel.configured_at, configured_at),
                })
            }
            (Thing::Connectors(id), State::Connectors(lanes)) => {
                let tunnel = self.tunnels.iter_mut().find(|tunnel| tunnel.id == *id)?;
                Some(State::Connectors(mem::replace(&mut tunnel.lanes, lanes)))
            }
            (Thing::Records(id), State::Records(records)) => {
                let zone = self.zones.iter_mut().find(|zone| zone.id == *id)?;
                Some(State::Records(mem::replace(&mut zone.records, records)))
            }
            (Thing::Applications, State::Applications(access)) => {
                Some(State::Applications(Box::new(mem::replace(&mut self.access, *access))))
            }
            _ => None,
        }
    }
}
