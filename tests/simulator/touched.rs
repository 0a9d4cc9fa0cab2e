//! What another writer than the program may have changed for visitors: what they get there is not its doing.

use std::collections::BTreeSet;

use crate::claims::Claims;
use crate::objects::zone;
use crate::settings::Settings;
use crate::strangers::{OTHER_HOST, OTHER_TUNNEL};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Zone(&'static str),
    Tunnel(&'static str),
    Host(String),
    /// A tunnel was written by an old reading, so that rules of all writers there went or came back.
    LostUpdate,
}

/// Places at which something was changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Touched(BTreeSet<Place>);

impl Touched {
    pub(crate) fn of(place: Place) -> Self {
        Self(BTreeSet::from([place]))
    }

    pub(crate) fn add(&mut self, place: Place) {
        self.0.insert(place);
    }

    pub(crate) fn extend(&mut self, other: &Self) {
        self.0.extend(other.0.iter().cloned());
    }

    /// Whether the zone of a hostname is among them.
    pub(crate) fn has_zone_of(&self, host: &str) -> bool {
        self.0.iter().any(|place| matches!(place, Place::Zone(touched) if zone(host) == *touched))
    }

    /// Whether rules of others may have gone.
    pub(crate) fn has_lost_update(&self) -> bool {
        self.0.contains(&Place::LostUpdate)
    }

    /// Whether one of them decides what visitors of a hostname get.
    pub(crate) fn has(&self, host: &str, claims: &Claims, settings: &Settings) -> bool {
        self.0.iter().any(|place| match place {
            Place::Zone(touched) => zone(host) == *touched,
            Place::Tunnel(touched) if host == OTHER_HOST => *touched == OTHER_TUNNEL,
            Place::Tunnel(touched) => claims.was_in(host, touched, settings),
            Place::Host(touched) => is_served_with(host, touched),
            // Its tunnel is among them.
            Place::LostUpdate => false,
        })
    }
}

/// Whether two hostnames are the same, or one is a wildcard that the other one is below: it takes over where a name
/// goes.
fn is_served_with(host: &str, other: &str) -> bool {
    is_over(host, other) || is_over(other, host)
}

/// Whether a hostname is another one, or the wildcard above it.
pub(crate) fn is_over(host: &str, other: &str) -> bool {
    host == other || host.strip_prefix('*').is_some_and(|end| other.ends_with(end))
}
