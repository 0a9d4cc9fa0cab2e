//! What was there some writes ago, for answers that are old: see [`Fault::Old`].
//!
//! Cloudflare promises of none of its reads that it shows the last write. Lists of applications were met that leave a
//! new one out for half a minute. That other reads can be old too is by analogy, and the side that is worse for a
//! client.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::time::Duration;

use serde_json::value::RawValue;

use crate::access::Access;
use crate::answer::Answer;
use crate::cloudflare::Cloudflare;
use crate::fault::Fault;
use crate::http::Request;
use crate::record::Record;
use crate::router;
use crate::tunnel::{ConfigSource, Lane};

/// For so long a client may be expected to know what its own write of a list was answered. A list has no version by
/// which one that was read could be told from an older one.
const REMEMBERED: Duration = Duration::from_secs(120);

/// An operator may put an earlier configuration back, so for so long a lower version is no news to a client that was
/// told of a higher one.
const VERSION_REMEMBERED: Duration = Duration::from_secs(600);

/// The things of which a read can show a past state, each by itself.
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

/// The states of each thing before each of its writes, and the states that each client knows of.
#[derive(Debug, Default)]
pub(crate) struct Past {
    /// Oldest first. The number of the present one is how many there are.
    states: BTreeMap<Thing, Vec<State>>,
    /// The ids of the records that each write of a zone changed or deleted, by the number of the state that it left.
    changed: BTreeMap<(Thing, usize), BTreeSet<String>>,
    /// The client whose calls come now.
    client: u64,
    told: BTreeMap<(u64, Thing), Told>,
}

/// What answers told one client of a thing, by the numbers of its states.
#[derive(Clone, Debug, Default)]
struct Told {
    /// The newest one, of reads and of its own writes, and when.
    newest: Option<(usize, Duration)>,
    /// The newest one that a read showed with everything that belongs to it.
    read: Option<usize>,
    /// Those of its own writes, and when.
    written: Vec<(usize, Duration)>,
}

/// The state that an answer shows.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    thing: Thing,
    number: usize,
}

/// How old an answer is, and whether its client can tell.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Age {
    pub(crate) writes_ago: usize,
    pub(crate) is_known: bool,
    pub(crate) would_be_known: bool,
    /// A member of the answer is untrue.
    pub(crate) contradicts: bool,
}

impl Past {
    fn present(&self, thing: &Thing) -> usize {
        self.states.get(thing).map_or(0, Vec::len)
    }

    fn told(&self, thing: &Thing) -> Told {
        self.told.get(&(self.client, thing.clone())).cloned().unwrap_or_default()
    }

    /// Whether the client was told of something newer than this state, and the state shows it: a list that lacks a
    /// record may be newer than the write that created it.
    fn is_known_old(&self, thing: &Thing, number: usize, now: Duration) -> bool {
        let Told { newest, written, read: _ } = self.told(thing);
        match thing {
            Thing::Configuration(_) | Thing::Connectors(_) => {
                newest.is_some_and(|(newest, at)| number < newest && now < at + VERSION_REMEMBERED)
            }
            Thing::Records(_) | Thing::Applications => {
                let mut later = written.iter().filter(|(own, at)| number < *own && now < *at + REMEMBERED);
                later.any(|(own, _)| self.shows_what_was_changed(thing, number, *own))
            }
        }
    }

    /// Whether the state has a record that a write changed or deleted.
    fn shows_what_was_changed(&self, thing: &Thing, number: usize, write: usize) -> bool {
        let state = self.states.get(thing).and_then(|states| states.get(number));
        let Some(State::Records(records)) = state else { return true };
        let changed = self.changed.get(&(thing.clone(), write));
        changed.is_some_and(|changed| records.iter().any(|record| changed.contains(&record.id)))
    }

    /// Whether a fault acts at this call, if that depends on what its client knows.
    pub(crate) fn lets_act(&self, fault: &Fault, path: &str, now: Duration) -> bool {
        let (Fault::Known(inner) | Fault::Unknown(inner)) = fault else { return true };
        let Some(thing) = Thing::of(path) else { return false };
        let present = self.present(&thing);
        let is_for_informed = matches!(fault, Fault::Known(_));
        match &**inner {
            Fault::Old { writes } => {
                let number = present.saturating_sub(*writes);
                number < present && self.is_known_old(&thing, number, now) == is_for_informed
            }
            Fault::Says { member, value: _ } if member == "config" => {
                let Told { newest, read, written: _ } = self.told(&thing);
                let is_recent = newest.is_some_and(|(_, at)| now < at + VERSION_REMEMBERED);
                (read == Some(present) && is_recent) == is_for_informed
            }
            _ => is_for_informed,
        }
    }

    /// How old the answer is that shows a state.
    pub(crate) fn age(&self, Shown { thing, number }: &Shown, now: Duration) -> Age {
        Age {
            writes_ago: self.present(thing) - number,
            is_known: self.is_known_old(thing, *number, now),
            contradicts: false,
            would_be_known: number.checked_sub(1).is_some_and(|older| self.is_known_old(thing, older, now)),
        }
    }

    /// The client has the answer that shows a state.
    pub(crate) fn tell(
        &mut self,
        Shown { thing, number }: Shown,
        is_write: bool,
        is_whole: bool,
        now: Duration,
    ) {
        let told = self.told.entry((self.client, thing)).or_default();
        // An answer that contradicts itself tells nothing, not even its version.
        if is_whole && told.newest.is_none_or(|(newest, _)| newest <= number) {
            told.newest = Some((number, now));
        }
        if is_write {
            told.written.push((number, now));
        } else if is_whole {
            told.read = told.read.max(Some(number));
        }
    }
}

impl Cloudflare {
    /// Keeps from now on what [`Fault::Old`] shows.
    pub fn keep_past(&mut self) {
        self.past.get_or_insert_default();
    }

    /// The client whose calls are made now.
    pub(crate) fn client(&self) -> u64 {
        self.past.as_ref().map_or(0, |past| past.client)
    }

    /// The calls from now on are those of another client, or of one that was there before: what each was told decides
    /// where [`Fault::Known`] acts. A process that begins anew is another one. Says which client it was before.
    pub fn call_as(&mut self, client: u64) -> u64 {
        self.past.as_mut().map_or(0, |past| mem::replace(&mut past.client, client))
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
        let Some(before) = before else { return };
        let changed = match (&thing, &before) {
            (Thing::Records(id), State::Records(before)) => {
                let zone = self.zones.iter().find(|zone| zone.id == *id);
                let now = zone.map(|zone| &*zone.records).unwrap_or_default();
                let is_as_now =
                    |record: &&Record| now.iter().any(|other| other.to_json() == record.to_json());
                before.iter().filter(|record| !is_as_now(record)).map(|record| record.id.clone()).collect()
            }
            _ => BTreeSet::new(),
        };
        let Some(past) = &mut self.past else { return };
        let states = past.states.entry(thing.clone()).or_default();
        states.push(before);
        past.changed.insert((thing, states.len()), changed);
    }

    /// Answers a call, a read by what was there so many writes of the thing ago, under every other rule. Says which
    /// state the answer shows, where the past is kept.
    pub(crate) fn answer_as_of(
        &mut self,
        path: &str,
        request: &Request,
        writes: usize,
    ) -> (Answer, Option<Shown>) {
        let thing = Thing::of(path);
        let Some((past, thing)) = self.past.as_ref().zip(thing) else {
            return (router::answer(self, path, request), None);
        };
        let is_read = request.method == "GET";
        let number = past.present(&thing).saturating_sub(if is_read { writes } else { 0 });
        let old = past.states.get(&thing).and_then(|states| states.get(number)).cloned();
        let present = old.and_then(|old| self.replace_state(&thing, old));
        let answer = router::answer(self, path, request);
        if let Some(present) = present {
            self.replace_state(&thing, present);
        }
        let written = self.past.as_ref().map_or(0, |past| past.present(&thing));
        (answer, Some(Shown { thing, number: if is_read { number } else { written } }))
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
